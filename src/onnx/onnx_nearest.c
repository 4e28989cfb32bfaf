#include "onnx/onnx_nearest.h"

#include <math.h>
#include <string.h>

/* A pixel's place (a i + b) / c among the given ones. */
struct coordinate {
  int64_t a, b, c;
};

static struct coordinate half_pixel(int64_t from, int64_t to) {
  return (struct coordinate){2 * from, from - to, 2 * to};
}
static struct coordinate pytorch_half_pixel(int64_t from, int64_t to) {
  return to > 1 ? half_pixel(from, to) : (struct coordinate){1, 0, 1};
}
static struct coordinate align_corners(int64_t from, int64_t to) {
  return to > 1 ? (struct coordinate){from - 1, 0, to - 1} : (struct coordinate){1, 0, 1};
}
static struct coordinate asymmetric(int64_t from, int64_t to) { return (struct coordinate){from, 0, to}; }

static float half_pixel_f32(float i, float from, float to) { return (i + 0.5f) / (to / from) - 0.5f; }
static float pytorch_half_pixel_f32(float i, float from, float to) {
  return to > 1 ? half_pixel_f32(i, from, to) : 0;
}
static float align_corners_f32(float i, float from, float to) {
  return to > 1 ? i * (from - 1) / (to - 1) : 0;
}
static float asymmetric_f32(float i, float from, float to) { return i / (to / from); }

static const struct {
  const char *mode;
  struct coordinate (*exact)(int64_t from, int64_t to);
  float (*f32)(float i, float from, float to);
} coordinate_rows[] = {{"asymmetric", asymmetric, asymmetric_f32},
                       {"half_pixel", half_pixel, half_pixel_f32},
                       {"half_pixel_symmetric", half_pixel, half_pixel_f32},
                       {"pytorch_half_pixel", pytorch_half_pixel, pytorch_half_pixel_f32},
                       {"align_corners", align_corners, align_corners_f32}};

/* Roundings of x = n / c: down after a shift by the numerator `shift` c + `more` over `scale` c. */
static float prefer_floor_f32(float x) { return ceilf(x - 0.5f); }
static float prefer_ceil_f32(float x) { return floorf(x + 0.5f); }

static const struct {
  const char *mode;
  int64_t scale, shift, more;
  float (*f32)(float x);
} rounding_rows[] = {{"floor", 1, 0, 0, floorf},
                     {"ceil", 1, 1, -1, ceilf},
                     {"round_prefer_floor", 2, 1, -1, prefer_floor_f32},
                     {"round_prefer_ceil", 2, 1, 0, prefer_ceil_f32}};

enum {
  COORDINATES = sizeof coordinate_rows / sizeof *coordinate_rows,
  ROUNDINGS = sizeof rounding_rows / sizeof *rounding_rows
};

static struct take_places places_of(int row, int rounding, int64_t from, int64_t to) {
  const struct coordinate x = coordinate_rows[row].exact(from, to);
  const int64_t scale = rounding_rows[rounding].scale;
  return (struct take_places){.first = scale * x.b + rounding_rows[rounding].shift * x.c +
                                       rounding_rows[rounding].more,
                              .step = scale * x.a,
                              .divisor = scale * x.c,
                              .border = BORDER_EDGE};
}

static bool find_rows(const char *coordinates, const char *rounding, int *row, int *way) {
  *row = *way = -1;
  for (int i = 0; i < COORDINATES; i++)
    if (strcmp(coordinate_rows[i].mode, coordinates) == 0) *row = i;
  for (int i = 0; i < ROUNDINGS; i++)
    if (strcmp(rounding_rows[i].mode, rounding) == 0) *way = i;
  return *row >= 0 && *way >= 0;
}

bool nearest_places(const char *coordinates, const char *rounding, int64_t from, int64_t to,
                    struct take_places *places) {
  int row, way;
  if (!find_rows(coordinates, rounding, &row, &way)) return false;
  *places = places_of(row, way, from, to);
  if (places->step == 0) places->step = 1, places->divisor = INT64_C(1) << 40; /* one pixel, for all */
  return true;
}

bool nearest_modes(struct take_places p, int64_t from, int64_t to, const char **coordinates,
                   const char **rounding) {
  for (int row = 0; row < COORDINATES; row++)
    for (int way = 0; way < ROUNDINGS; way++) {
      struct take_places q;
      *coordinates = coordinate_rows[row].mode;
      *rounding = rounding_rows[way].mode;
      if (nearest_places(*coordinates, *rounding, from, to, &q) && p.first == q.first && p.step == q.step &&
          p.divisor == q.divisor && p.border == q.border)
        return true;
    }
  return false;
}

bool nearest_is_exact(const char *coordinates, const char *rounding, int64_t from, int64_t to) {
  int row, way;
  struct take_places p;
  if (!find_rows(coordinates, rounding, &row, &way) || !nearest_places(coordinates, rounding, from, to, &p))
    return false;
  for (int64_t i = 0; i < to; i++) {
    const float x = coordinate_rows[row].f32((float)i, (float)from, (float)to);
    if (element_at((int64_t)rounding_rows[way].f32(x), from, BORDER_EDGE) !=
        element_at(place_at(p, i), from, BORDER_EDGE))
      return false;
  }
  return true;
}
