/* Draws ten shapes under noise, at a random place and size: data for a first run, made by the program. A
 * class is a shape; if more than ten are asked for, a shape in one of several colours. The class of a pixel
 * is that of the shape it is in, or background. An image depends on the seed and its number alone; test
 * images have numbers of their own. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/readers.h"
#include "data/stream.h"
#include "data/synthetic_sequences.h"

enum { NOISE = 48, MIN_SIDE = 8, MAX_CLASSES = 1000, MAX_IMAGES = 1000000 };

/* The images to draw; one test image for TEST_PART training images. */
struct drawing {
  uint64_t seed;
  int64_t channels, height, width, classes, images;
};
enum { TEST_PART = 5 };

/* The usual number of images if none is given; but no more than these bytes, and at least some batches. */
enum { USUAL_IMAGES = 10000, USUAL_BYTES = 128 << 20, USUAL_BATCHES = 4 };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Return true if (x, y) is inside; the shape fills [-1, 1] x [-1, 1], y points down. All shapes equal their
 * mirror images. */
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

/* Returns the contrasts of the three channels, between 32 and 95: random, or those of the class. */
static uint32_t contrast_bits(const struct drawing *drawing, int label, uint32_t random) {
  if (drawing->classes <= SHAPES) return random;
  uint32_t bits[4];
  data_random(drawing->seed, STREAM_COLOUR, 0, (uint64_t)(label / SHAPES), bits);
  return bits[0];
}

/* The place of the shape. */
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

/* Draws pixels [channels, height, width]. Random numbers by (image, counter): 0 and 1 for the scene, then a
 * byte for each channel of a pixel. */
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

/* Draws the classes of pixels: 0 outside the shape, inside it the image's class plus one. */
static void draw_map(const struct drawing *drawing, uint64_t image, int label, int32_t *map) {
  uint32_t place[4];
  data_random(drawing->seed, STREAM_DRAW, image, 0, place);
  const struct scene scene = scene_of(drawing, place);
  for (int64_t y = 0; y < drawing->height; y++)
    for (int64_t x = 0; x < drawing->width; x++)
      map[y * drawing->width + x] = is_inside(&scene, label, y, x) ? 1 + label : 0;
}

static neap_status read_record(const struct source *source, enum split split, int64_t record,
                               const struct draw *draw_unused, void *const *fields, int64_t *lengths) {
  (void)draw_unused, (void)lengths;
  const struct drawing *drawing = source->context;
  const int label = (int)(record % drawing->classes);
  const uint64_t image = (uint64_t)(split == SPLIT_TRAIN ? record : drawing->images + record);
  if (fields[0] != NULL) draw(drawing, image, label, fields[0]);
  if (fields[1] != NULL && source->kind == NEAP_TASK_PIXELS) draw_map(drawing, image, label, fields[1]);
  if (fields[1] != NULL && source->kind == NEAP_TASK_IMAGES) *(int32_t *)fields[1] = label;
  return NEAP_OK;
}

/* The numbers in the name; 0: not given. */
struct words {
  int64_t side, classes, images, seed;
};

/* Reads "name=number,name=number". */
static neap_status parse(const char *argument, struct words *words) {
  const struct {
    const char *name;
    int64_t *value, least, most;
  } fields[] = {{"side", &words->side, MIN_SIDE, SOURCE_MAX_SIDE},
                {"classes", &words->classes, 2, MAX_CLASSES},
                {"images", &words->images, 1, MAX_IMAGES},
                {"seed", &words->seed, 0, INT64_MAX}};
  enum { FIELDS = sizeof fields / sizeof *fields };
  for (const char *at = argument; *at != '\0'; at += *at == ',') {
    const size_t length = strcspn(at, "=,");
    int k = 0;
    while (k < FIELDS && (strlen(fields[k].name) != length || strncmp(fields[k].name, at, length) != 0)) k++;
    RETURN_IF(k == FIELDS || at[length] != '=', NEAP_INVALID_ARGUMENT,
              "data set 'synthetic:%s': unknown field '%.*s'; the fields are side=, classes=, images=, seed=",
              argument, (int)length, at);
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

/* Takes the numbers of the name, else those of the task, else the usual ones. Pixels have one class more: the
 * background. */
static neap_status settle(const struct words *words, const struct task *task, struct drawing *drawing) {
  const bool wished = task->image[0] > 0 && words->side == 0;
  *drawing = (struct drawing){.seed = (uint64_t)words->seed,
                              .channels = wished ? task->image[0] : 3,
                              .height = wished             ? task->image[1]
                                        : words->side == 0 ? 32
                                                           : words->side,
                              .classes = words->classes};
  drawing->width = wished ? task->image[2] : drawing->height;
  if (drawing->classes == 0)
    drawing->classes = task->classes > 0 ? task->classes - (task->kind == NEAP_TASK_PIXELS) : SHAPES;
  const int64_t low = least(drawing->height, drawing->width), high = most(drawing->height, drawing->width);
  RETURN_IF(
      drawing->channels > SOURCE_MAX_CHANNELS || low < MIN_SIDE || high > SOURCE_MAX_SIDE,
      NEAP_INVALID_ARGUMENT,
      "data set 'synthetic': images have 1 to %d channels and %d to %d pixels a side (got %lldx%lldx%lld)",
      SOURCE_MAX_CHANNELS, MIN_SIDE, SOURCE_MAX_SIDE, (long long)drawing->channels,
      (long long)drawing->height, (long long)drawing->width);
  RETURN_IF(drawing->classes < 1 || drawing->classes > MAX_CLASSES, NEAP_INVALID_ARGUMENT,
            "data set 'synthetic': must have 1 to %d classes%s (got %lld)", MAX_CLASSES,
            (task->kind == NEAP_TASK_PIXELS) ? " without the background" : "", (long long)drawing->classes);
  const int64_t bytes = drawing->channels * drawing->height * drawing->width;
  const int64_t room = most(USUAL_BYTES / bytes, USUAL_BATCHES * least(task->batch, MAX_IMAGES));
  drawing->images = words->images > 0 ? words->images : least(USUAL_IMAGES, most(room, 1));
  return NEAP_OK;
}

neap_status synthetic_open(const char *argument, struct source *source) {
  struct words words = {0};
  struct drawing drawing;
  neap_task kind = source->task.kind;
  source->drawn = true;
  TRY(parse(argument, &words));
  if (kind == NEAP_TASK_FEATURES) { /* images will do */
    kind = NEAP_TASK_IMAGES;
    memcpy(source->task.image, source->task.asked_image, sizeof source->task.image);
    source->task.classes = source->task.asked_classes;
  }
  if (kind != NEAP_TASK_IMAGES && kind != NEAP_TASK_PIXELS)
    return synthetic_sequences_open((uint64_t)words.seed, source);
  TRY(settle(&words, &source->task, &drawing));
  source->context = region_copy(&source->region, &drawing, 1, sizeof drawing);
  RETURN_IF_NULL(source->context);
  source->kind = kind;
  source->classes = drawing.classes + (kind == NEAP_TASK_PIXELS);
  source->read = read_record;
  source->crop_padding = least(drawing.height, drawing.width) / 8;
  source->flip = true;
  source->records[SPLIT_TRAIN] = drawing.images;
  source->records[SPLIT_TEST] = (drawing.images + TEST_PART - 1) / TEST_PART;
  const int64_t height = drawing.height, width = drawing.width;
  TRY(source_add_field(source,
                       (struct field){"image", NEAP_U8, 3, {drawing.channels, height, width}, false}));
  return source_add_field(
      source, (struct field){"label", NEAP_I32, kind == NEAP_TASK_PIXELS ? 2 : 0, {height, width}, false});
}
