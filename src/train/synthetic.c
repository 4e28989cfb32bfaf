/* Ten shapes under noise, at a random place and size: data for a first run, drawn by the program. A class is
 * a shape; where more than ten are asked for, a shape in one of several colours. A pixel's class is that of
 * the shape that it is in, or background. An image is a function of the seed and of its number alone; the
 * test images have numbers of their own. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/data_source.h"

enum { NOISE = 48, MAX_CLASSES = 1000, MAX_IMAGES = 1000000 };

/* What to draw, with the usual values; TEST_PART training images for a test image. */
struct drawing {
  uint64_t seed;
  int64_t side, classes, images;
};
enum { TEST_PART = 5 };

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
  const double size = (double)drawing->side;
  struct scene scene = {.radius = between(size * 3 / 16, size * 3 / 8, place[0])};
  scene.centre_x = between(scene.radius, size - scene.radius, place[1]);
  scene.centre_y = between(scene.radius, size - scene.radius, place[2]);
  return scene;
}

static bool is_inside(const struct scene *scene, int label, int64_t row, int64_t column) {
  return shapes[label % SHAPES](((double)column + 0.5 - scene->centre_x) / scene->radius,
                                ((double)row + 0.5 - scene->centre_y) / scene->radius);
}

/* pixels [3, side, side]. Random numbers by (image, counter): 0 and 1 for the scene, then 3 bytes a pixel. */
static void draw(const struct drawing *drawing, uint64_t image, int label, uint8_t *pixels) {
  const int64_t side = drawing->side, plane = side * side;
  uint32_t place[4], colour[4], noise[4];
  data_random(drawing->seed, STREAM_DRAW, image, 0, place);
  data_random(drawing->seed, STREAM_DRAW, image, 1, colour);
  const uint32_t contrasts = contrast_bits(drawing, label, colour[3]);
  const struct scene scene = scene_of(drawing, place);
  const int lighter = place[3] & 1 ? 1 : -1;
  for (int64_t k = 0; k < plane; k++) {
    if (k % 4 == 0) data_random(drawing->seed, STREAM_DRAW, image, (uint64_t)(2 + k / 4), noise);
    const bool inside = is_inside(&scene, label, k / side, k % side);
    for (int c = 0; c < 3; c++) {
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
  for (int64_t column = 0; column < drawing->side; column++)
    labels[column] = is_inside(&scene, label, row, column) ? 1 + label : 0;
}

static neap_status draw_split(struct data_set *set, const struct drawing *drawing, int64_t first,
                              int64_t count, struct data_split *split) {
  const size_t bytes = (size_t)(3 * drawing->side * drawing->side);
  uint8_t *pixels = region_alloc(&set->region, (size_t)count, bytes);
  uint8_t *labels = region_alloc(&set->region, (size_t)count, 2);
  RETURN_IF(pixels == NULL || labels == NULL, NEAP_OUT_OF_MEMORY,
            "out of memory for %lld synthetic images of %zu bytes", (long long)count, bytes);
#pragma omp parallel for
  for (int64_t i = 0; i < count; i++) {
    const int label = (int)(i % drawing->classes);
    labels[2 * i] = (uint8_t)label;
    labels[2 * i + 1] = (uint8_t)(label >> 8);
    draw(drawing, (uint64_t)(first + i), label, pixels + (size_t)i * bytes);
  }
  split->first = first;
  const struct data_part part = {.file = "synthetic",
                                 .pixels = pixels,
                                 .labels = labels,
                                 .count = count,
                                 .pixel_stride = bytes,
                                 .label_stride = 2,
                                 .wide_labels = true};
  return data_add_part(split, &part);
}

/* Reads "name=number,name=number". */
static neap_status parse(const char *argument, struct drawing *drawing) {
  int64_t seed = 0;
  const struct {
    const char *name;
    int64_t *value, least, most;
  } fields[] = {{"side", &drawing->side, 8, DATA_MAX_SIDE},
                {"classes", &drawing->classes, 2, MAX_CLASSES},
                {"images", &drawing->images, 1, MAX_IMAGES},
                {"seed", &seed, 0, INT64_MAX}};
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
  drawing->seed = (uint64_t)seed;
  return NEAP_OK;
}

neap_status synthetic_open(const char *argument, struct data_set *set) {
  struct drawing drawing = {.side = 32, .classes = SHAPES, .images = 10000};
  TRY(parse(argument, &drawing));
  set->image[0] = 3;
  set->image[1] = set->image[2] = drawing.side;
  set->classes = drawing.classes;
  set->pixel_classes = drawing.classes + 1;
  set->label_row = label_row;
  set->source = region_copy(&set->region, &drawing, 1, sizeof drawing);
  RETURN_IF_NULL(set->source);
  set->crop_padding = drawing.side / 8;
  set->flip = true;
  TRY(draw_split(set, &drawing, 0, drawing.images, &set->train));
  return draw_split(set, &drawing, drawing.images, (drawing.images + TEST_PART - 1) / TEST_PART, &set->test);
}
