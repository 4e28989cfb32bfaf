/* Ten shapes under noise, at a random place and size: data for a first run, drawn by the program. A class is
 * a shape; where more than ten are asked for, a shape in one of several colours. A pixel's class is that of
 * the shape that it is in, or background. An image is a function of the seed and of its number alone; the
 * test images have numbers of their own. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/data_random.h"
#include "train/sequences.h"

enum { NOISE = 48, MIN_SIDE = 8, MAX_CLASSES = 1000, MAX_IMAGES = 1000000 };

/* What to draw; TEST_PART training images for a test image. */
struct drawing {
  uint64_t seed;
  int64_t channels, height, width, classes, images;
};
enum { TEST_PART = 5 };

/* So many images where nobody says how many, but no more bytes than these, and some batches in any case. */
enum { USUAL_IMAGES = 10000, USUAL_BYTES = 128 << 20, USUAL_BATCHES = 4 };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Whether (x, y) is inside; the shape fills [-1, 1] x [-1, 1], y points down. Mirrored, a shape is itself. */
static bool disc(double x, double y) { return x * x + y * y <= 1; }
static bool ring(double x, double y) { return disc(x, y) && x * x + y * y >= 0.4; }
static bool square(double x, double y) { return fmax(fabs(x), fabs(y)) <= 0.85; }
static bool frame(double x, double y) { return square(x, y) && fmax(fabs(x), fabs(y)) >= 0.5; }
static bool diamond(double x, double y) { return fabs(x) + fabs(y) <= 1; }
static bool triangle(double x, double y) { return y <= 0.8 && fabs(x) * 1.8 <= y + 1; }
static bool cone(double x, double y) { return triangle(x, -y); }
static bool plus(double x, double y) { return fmin(fabs(x), fabs(y)) <= 0.28 && fmax(fabs(x), fabs(y)) <= 1; }
static bool saltire(double x, double y) { return fabs(fabs(x) - fabs(y)) <= 0.35 && square(x, y); }
static bool bars(double x, double y) { return square(x, y) && fabs(y) >= 0.35; }

static bool (*const shapes[])(double x, double y) = {disc,     ring, square, frame,   diamond,
                                                     triangle, cone, plus,   saltire, bars};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static double between(double low, double high, uint32_t bits) {
  return low + (high - low) * (bits * 0x1p-32);
}

static uint8_t clamp_pixel(int value) { return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value); }

/* Contrasts of the three channels, between 32 and 95: at random, or the class's own. */
static uint32_t contrast_bits(const struct drawing *drawing, int label, uint32_t random) {
  if (drawing->classes <= SHAPES) return random;
  uint32_t bits[4];
  data_random(drawing->seed, STREAM_COLOUR, 0, (uint64_t)(label / SHAPES), bits);
  return bits[0];
}

/* Where the shape is. */
struct scene {
  double radius, centre_x, centre_y;
};

static struct scene scene_of(const struct drawing *drawing, const uint32_t place[4]) {
  const double size = (double)least(drawing->height, drawing->width);
  struct scene scene = {.radius = between(size * 3 / 16, size * 3 / 8, place[0])};
  scene.centre_x = between(scene.radius, (double)drawing->width - scene.radius, place[1]);
  scene.centre_y = between(scene.radius, (double)drawing->height - scene.radius, place[2]);
  return scene;
}

static bool is_inside(const struct scene *scene, int label, int64_t row, int64_t column) {
  return shapes[label % SHAPES](((double)column + 0.5 - scene->centre_x) / scene->radius,
                                ((double)row + 0.5 - scene->centre_y) / scene->radius);
}

/* pixels [channels, height, width]. Random numbers by (image, counter): 0 and 1 for the scene, then a byte
 * for each channel of a pixel. */
static void draw(const struct drawing *drawing, uint64_t image, int label, uint8_t *pixels) {
  const int64_t width = drawing->width, plane = drawing->height * width;
  uint32_t place[4], colour[4], noise[4];
  data_random(drawing->seed, STREAM_DRAW, image, 0, place);
  data_random(drawing->seed, STREAM_DRAW, image, 1, colour);
  const uint32_t contrasts = contrast_bits(drawing, label, colour[3]);
  const struct scene scene = scene_of(drawing, place);
  const int lighter = place[3] & 1 ? 1 : -1;
  for (int64_t k = 0; k < plane; k++) {
    if (k % 4 == 0) data_random(drawing->seed, STREAM_DRAW, image, (uint64_t)(2 + k / 4), noise);
    const bool inside = is_inside(&scene, label, k / width, k % width);
    for (int c = 0; c < (int)drawing->channels; c++) {
      const int background = (int)between(64, 192, colour[c]);
      const int contrast = lighter * (32 + (int)(contrasts >> (8 * c) & 63));
      const int shake = (int)(noise[k % 4] >> (8 * c) & 255) * (2 * NOISE + 1) / 256 - NOISE;
      pixels[c * plane + k] = clamp_pixel(background + (inside ? contrast : 0) + shake);
    }
  }
}

/* The class of a pixel: 0 outside the shape, else the image's class after it. */
static void label_row(const struct data_set *set, int64_t number, int label, int64_t row, int32_t *labels) {
  const struct drawing *drawing = set->source;
  uint32_t place[4];
  data_random(drawing->seed, STREAM_DRAW, (uint64_t)number, 0, place);
  const struct scene scene = scene_of(drawing, place);
  for (int64_t column = 0; column < drawing->width; column++)
    labels[column] = is_inside(&scene, label, row, column) ? 1 + label : 0;
}

static void draw_image(const struct data_set *set, int64_t number, int label, uint8_t *pixels) {
  draw(set->source, (uint64_t)number, label, pixels);
}

static neap_status add_split(struct data_set *set, const struct drawing *drawing, int64_t first,
                             int64_t count, struct data_split *split) {
  uint8_t *labels = region_alloc(&set->region, (size_t)count, 2);
  RETURN_IF(labels == NULL, NEAP_OUT_OF_MEMORY, "out of memory for the labels of %lld synthetic images",
            (long long)count);
  for (int64_t i = 0; i < count; i++) {
    const int label = (int)(i % drawing->classes);
    labels[2 * i] = (uint8_t)label;
    labels[2 * i + 1] = (uint8_t)(label >> 8);
  }
  split->first = first;
  const struct data_part part = {.file = "synthetic",
                                 .descriptor = -1,
                                 .labels = labels,
                                 .count = count,
                                 .label_stride = 2,
                                 .wide_labels = true};
  return data_add_part(split, &part);
}

/* What stands in the name; 0: it does not. */
struct words {
  int64_t side, classes, images, seed;
};

/* Reads "name=number,name=number". */
static neap_status parse(const char *argument, struct words *words) {
  const struct {
    const char *name;
    int64_t *value, least, most;
  } fields[] = {{"side", &words->side, MIN_SIDE, DATA_MAX_SIDE},
                {"classes", &words->classes, 2, MAX_CLASSES},
                {"images", &words->images, 1, MAX_IMAGES},
                {"seed", &words->seed, 0, INT64_MAX}};
  enum { FIELDS = sizeof fields / sizeof *fields };
  for (const char *at = argument; *at != '\0'; at += *at == ',') {
    const size_t length = strcspn(at, "=,");
    int k = 0;
    while (k < FIELDS && (strlen(fields[k].name) != length || strncmp(fields[k].name, at, length) != 0)) k++;
    RETURN_IF(k == FIELDS || at[length] != '=', NEAP_INVALID_ARGUMENT,
              "data set 'synthetic:%s': '%.*s' is none of side=, classes=, images=, seed=", argument,
              (int)length, at);
    char *end;
    at += length + 1;
    errno = 0;
    *fields[k].value = strtoll(at, &end, 10);
    RETURN_IF(end == at || (*end != '\0' && *end != ',') || errno != 0 ||
                  *fields[k].value < fields[k].least || *fields[k].value > fields[k].most,
              NEAP_INVALID_ARGUMENT, "data set 'synthetic:%s': %s must be a number from %lld to %lld",
              argument, fields[k].name, (long long)fields[k].least, (long long)fields[k].most);
    at = end;
  }
  return NEAP_OK;
}

/* What the name says, else what is wished, else the usual. A pixel's classes are one more: the background. */
static neap_status settle(const struct words *words, const struct data_wish *wish, struct drawing *drawing) {
  const bool wished = wish->image[0] > 0 && words->side == 0;
  *drawing = (struct drawing){.seed = (uint64_t)words->seed,
                              .channels = wished ? wish->image[0] : 3,
                              .height = wished             ? wish->image[1]
                                        : words->side == 0 ? 32
                                                           : words->side,
                              .classes = words->classes};
  drawing->width = wished ? wish->image[2] : drawing->height;
  if (drawing->classes == 0)
    drawing->classes = wish->classes > 0 ? wish->classes - (wish->kind == MODEL_PIXELS) : SHAPES;
  const int64_t low = least(drawing->height, drawing->width), high = most(drawing->height, drawing->width);
  RETURN_IF(
      drawing->channels > DATA_MAX_CHANNELS || low < MIN_SIDE || high > DATA_MAX_SIDE, NEAP_INVALID_ARGUMENT,
      "data set 'synthetic': images have 1 to %d channels and %d to %d pixels a side, not %lldx%lldx%lld",
      DATA_MAX_CHANNELS, MIN_SIDE, DATA_MAX_SIDE, (long long)drawing->channels, (long long)drawing->height,
      (long long)drawing->width);
  RETURN_IF(drawing->classes < 1 || drawing->classes > MAX_CLASSES, NEAP_INVALID_ARGUMENT,
            "data set 'synthetic': there are 1 to %d classes%s to draw, not %lld", MAX_CLASSES,
            (wish->kind == MODEL_PIXELS) ? " beside the background" : "", (long long)drawing->classes);
  const int64_t bytes = drawing->channels * drawing->height * drawing->width;
  const int64_t room = most(USUAL_BYTES / bytes, USUAL_BATCHES * least(wish->batch, MAX_IMAGES));
  drawing->images = words->images > 0 ? words->images : least(USUAL_IMAGES, most(room, 1));
  return NEAP_OK;
}

neap_status synthetic_open(const char *argument, struct data_set *set) {
  struct words words = {0};
  struct drawing drawing;
  TRY(parse(argument, &words));
  if (set->wish.kind >= MODEL_TOKENS) return synthetic_sequences_open((uint64_t)words.seed, set);
  TRY(settle(&words, &set->wish, &drawing));
  set->image[0] = drawing.channels;
  set->image[1] = drawing.height;
  set->image[2] = drawing.width;
  set->classes = drawing.classes;
  set->pixel_classes = drawing.classes + 1;
  set->label_row = label_row;
  set->draw = draw_image;
  set->source = region_copy(&set->region, &drawing, 1, sizeof drawing);
  RETURN_IF_NULL(set->source);
  set->crop_padding = least(drawing.height, drawing.width) / 8;
  set->flip = true;
  TRY(add_split(set, &drawing, 0, drawing.images, &set->train));
  return add_split(set, &drawing, drawing.images, (drawing.images + TEST_PART - 1) / TEST_PART, &set->test);
}
