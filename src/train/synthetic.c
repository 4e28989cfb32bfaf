/* Ten shapes in two random colours under noise, at a random place and size: data for a first run, drawn by
 * the program. An image is a function of the seed, the split and its number alone. */
#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "train/data_source.h"

enum { SIDE = 32, PLANE = SIDE * SIDE, TRAINING = 10000, TEST = 2000, NOISE = 48 };

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
enum { CLASSES = sizeof shapes / sizeof *shapes };

static double between(double low, double high, uint32_t bits) {
  return low + (high - low) * (bits * 0x1p-32);
}

static uint8_t clamp_pixel(int value) { return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value); }

/* pixels [3, SIDE, SIDE]. Random numbers by (record, counter): 0 and 1 for the scene, then 3 bytes a pixel.
 */
static void draw(uint64_t seed, uint64_t record, int label, uint8_t *pixels) {
  uint32_t place[4], colour[4], noise[4];
  random_bits(RANDOM_SYNTHETIC, seed, record, 0, place);
  random_bits(RANDOM_SYNTHETIC, seed, record, 1, colour);
  const double radius = between(6, 12, place[0]);
  const double centre_x = between(radius, SIDE - radius, place[1]);
  const double centre_y = between(radius, SIDE - radius, place[2]);
  const int lighter = place[3] & 1 ? 1 : -1;
  for (int k = 0; k < PLANE; k++) {
    if (k % 4 == 0) random_bits(RANDOM_SYNTHETIC, seed, record, (uint64_t)(2 + k / 4), noise);
    const double x = (k % SIDE + 0.5 - centre_x) / radius, y = (k / SIDE + 0.5 - centre_y) / radius;
    const bool inside = shapes[label](x, y);
    for (int c = 0; c < 3; c++) {
      const int background = (int)between(64, 192, colour[c]);
      const int contrast = lighter * (32 + (int)(colour[3] >> (8 * c) & 63));
      const int shake = (int)(noise[k % 4] >> (8 * c) & 255) * (2 * NOISE + 1) / 256 - NOISE;
      pixels[c * PLANE + k] = clamp_pixel(background + (inside ? contrast : 0) + shake);
    }
  }
}

static neap_status draw_split(struct data_set *set, uint64_t seed, uint64_t first, int64_t count,
                              struct data_split *split) {
  uint8_t *pixels = region_alloc(&set->region, (size_t)count, 3 * PLANE);
  uint8_t *labels = region_alloc(&set->region, (size_t)count, 1);
  RETURN_IF(pixels == NULL || labels == NULL, NEAP_OUT_OF_MEMORY, "out of memory for %lld synthetic images",
            (long long)count);
#pragma omp parallel for
  for (int64_t i = 0; i < count; i++) {
    labels[i] = (uint8_t)(i % CLASSES);
    draw(seed, first + (uint64_t)i, labels[i], pixels + i * 3 * PLANE);
  }
  const struct data_part part = {.file = "synthetic",
                                 .pixels = pixels,
                                 .labels = labels,
                                 .count = count,
                                 .pixel_stride = 3 * PLANE,
                                 .label_stride = 1};
  return data_add_part(split, &part);
}

neap_status synthetic_open(const char *argument, struct data_set *set) {
  char *end;
  const uint64_t seed = *argument == '\0' ? 0 : strtoull(argument, &end, 10);
  RETURN_IF(*argument != '\0' && (*argument < '0' || *argument > '9' || *end != '\0'), NEAP_INVALID_ARGUMENT,
            "data set 'synthetic:%s': after the colon stands a seed, a whole number", argument);
  set->image[0] = 3;
  set->image[1] = set->image[2] = SIDE;
  set->classes = CLASSES;
  set->crop_padding = 4;
  set->flip = true;
  TRY(draw_split(set, seed, 0, TRAINING, &set->train));
  return draw_split(set, seed, TRAINING, TEST, &set->test);
}
