#include "data/transform_images.h"

#include <string.h>

#include "data/stream.h"

/* Slots of the transforms. */
enum { IMAGE, WINDOW, MAP, OUTPUT };

static const struct field *field_of(const struct stage *stage, int slot) { return &stage->slots[slot].field; }

static int find_image(const struct stage *stage) {
  const struct field *image = source_image(stage->source);
  return image != NULL ? stage_find_slot(stage, image->name) : -1;
}

/* Returns the slot of the map of labels; -1: no such map. */
static int find_map(const struct stage *stage) {
  const int slot = stage_find_slot(stage, task_rows[stage->source->task.kind].label);
  return slot >= 0 && stage->slots[slot].field.rank == 2 && stage->slots[slot].field.dtype == NEAP_I32 &&
                 find_image(stage) >= 0
             ? slot
             : -1;
}

static void draw_of(const struct sample *s, uint32_t bits[4]) {
  data_random(s->draw->seed, STREAM_AUGMENT, (uint64_t)s->draw->epoch, (uint64_t)s->record, bits);
}

/* ---- frame ---- */

static neap_status prepare_frame(struct stage *stage, const struct field *wanted, int wanted_count,
                                 int *slots, bool *applies) {
  (void)wanted, (void)wanted_count;
  slots[IMAGE] = find_image(stage);
  *applies = slots[IMAGE] >= 0;
  return *applies
             ? stage_add_slot(stage, (struct field){"image.window", NEAP_I32, 1, {4}, false}, &slots[WINDOW])
             : NEAP_OK;
}

static void apply_frame(const struct stage *stage, const int *slots, struct sample *s) {
  const struct field *image = field_of(stage, slots[IMAGE]);
  int32_t *window = s->values[slots[WINDOW]];
  const bool any = s->record >= 0;
  if (window == NULL) return;
  window[0] = window[2] = 0;
  window[1] = any ? (int32_t)image->dims[1] : 0;
  window[3] = any ? (int32_t)image->dims[2] : 0;
}

/* ---- crop ---- */

static neap_status find_slots(struct stage *stage, int *slots, bool *applies) {
  slots[IMAGE] = find_image(stage);
  slots[WINDOW] = stage_find_slot(stage, "image.window");
  slots[MAP] = find_map(stage);
  *applies = slots[IMAGE] >= 0 && slots[WINDOW] >= 0;
  return NEAP_OK;
}

static neap_status prepare_crop(struct stage *stage, const struct field *wanted, int wanted_count, int *slots,
                                bool *applies) {
  (void)wanted, (void)wanted_count;
  *applies = false;
  return stage->source->crop_padding > 0 ? find_slots(stage, slots, applies) : NEAP_OK;
}

/* Moves a plane [height, width] of elements by (down, right) in place: out[y][x] = in[y + down][x + right];
 * new places are zero. */
static void move_plane(unsigned char *plane, int64_t height, int64_t width, size_t element, int64_t down,
                       int64_t right) {
  const size_t row = (size_t)width * element;
  const int64_t begin = right < 0 ? -right : 0, end = right > 0 ? width - right : width;
  for (int64_t i = 0; i < height; i++) {
    const int64_t y = down >= 0 ? i : height - 1 - i, from = y + down; /* read before it is written */
    unsigned char *out = plane + (size_t)y * row;
    if (from < 0 || from >= height || begin >= end) {
      memset(out, 0, row);
      continue;
    }
    memmove(out + (size_t)begin * element, plane + (size_t)from * row + (size_t)(begin + right) * element,
            (size_t)(end - begin) * element);
    memset(out, 0, (size_t)begin * element);
    memset(out + (size_t)end * element, 0, (size_t)(width - end) * element);
  }
}

static void apply_crop(const struct stage *stage, const int *slots, struct sample *s) {
  const struct field *image = field_of(stage, slots[IMAGE]);
  const int64_t padding = stage->source->crop_padding, height = image->dims[1], width = image->dims[2];
  uint32_t bits[4];
  if (!s->draw->augment || s->record < 0) return;
  draw_of(s, bits);
  const int64_t down = (int64_t)random_below(bits[0], (uint64_t)(2 * padding + 1)) - padding,
                right = (int64_t)random_below(bits[1], (uint64_t)(2 * padding + 1)) - padding;
  unsigned char *pixels = s->values[slots[IMAGE]];
  for (int64_t c = 0; pixels != NULL && c < image->dims[0]; c++)
    move_plane(pixels + c * height * width, height, width, 1, down, right);
  if (slots[MAP] >= 0 && s->values[slots[MAP]] != NULL)
    move_plane(s->values[slots[MAP]], height, width, sizeof(int32_t), down, right);
  int32_t *window = s->values[slots[WINDOW]];
  if (window == NULL) return;
  window[0] = (int32_t)(down < 0 ? -down : 0), window[1] = (int32_t)(down > 0 ? height - down : height);
  window[2] = (int32_t)(right < 0 ? -right : 0), window[3] = (int32_t)(right > 0 ? width - right : width);
}

/* ---- flip ---- */

static neap_status prepare_flip(struct stage *stage, const struct field *wanted, int wanted_count, int *slots,
                                bool *applies) {
  (void)wanted, (void)wanted_count;
  *applies = false;
  return stage->source->flip ? find_slots(stage, slots, applies) : NEAP_OK;
}

static void apply_flip(const struct stage *stage, const int *slots, struct sample *s) {
  const struct field *image = field_of(stage, slots[IMAGE]);
  const int64_t rows = image->dims[0] * image->dims[1], width = image->dims[2];
  uint32_t bits[4];
  if (!s->draw->augment || s->record < 0) return;
  draw_of(s, bits);
  if (bits[2] >> 31 == 0) return;
  unsigned char *pixels = s->values[slots[IMAGE]];
  for (int64_t y = 0; pixels != NULL && y < rows; y++, pixels += width)
    for (int64_t x = 0; x < width / 2; x++) {
      const unsigned char left = pixels[x];
      pixels[x] = pixels[width - 1 - x];
      pixels[width - 1 - x] = left;
    }
  int32_t *map = slots[MAP] >= 0 ? s->values[slots[MAP]] : NULL;
  for (int64_t y = 0; map != NULL && y < image->dims[1]; y++, map += width)
    for (int64_t x = 0; x < width / 2; x++) {
      const int32_t left = map[x];
      map[x] = map[width - 1 - x];
      map[width - 1 - x] = left;
    }
  int32_t *window = s->values[slots[WINDOW]];
  if (window == NULL) return;
  const int32_t begin = window[2];
  window[2] = (int32_t)width - window[3], window[3] = (int32_t)width - begin;
}

/* ---- numbers ---- */

static neap_status prepare_numbers(struct stage *stage, const struct field *wanted, int wanted_count,
                                   int *slots, bool *applies) {
  TRY(find_slots(stage, slots, applies));
  if (!*applies) return NEAP_OK;
  struct field image = *field_of(stage, slots[IMAGE]);
  const struct field *input = find_wanted(wanted, wanted_count, image.name);
  *applies = input != NULL && input->dtype == NEAP_F32;
  if (!*applies) return NEAP_OK;
  const struct source *source = stage->source;
  for (int64_t c = 0; c < image.dims[0]; c++)
    for (int v = 0; v < 256; v++)
      stage->normal[c][v] = ((float)v - (float)source->mean[c]) / (float)source->deviation[c];
  image.dtype = NEAP_F32;
  return stage_add_slot(stage, image, &slots[OUTPUT]);
}

static void apply_numbers(const struct stage *stage, const int *slots, struct sample *s) {
  const struct field *image = field_of(stage, slots[IMAGE]);
  const unsigned char *pixels = s->values[slots[IMAGE]];
  const int32_t *window = s->values[slots[WINDOW]];
  float *out = s->values[slots[OUTPUT]];
  if (out == NULL) return;
  memset(out, 0, (size_t)field_elements(image) * sizeof *out);
  for (int64_t c = 0; c < image->dims[0]; c++)
    for (int64_t y = window[0]; y < window[1]; y++) {
      const int64_t row = (c * image->dims[1] + y) * image->dims[2];
      for (int64_t x = window[2]; x < window[3]; x++) out[row + x] = stage->normal[c][pixels[row + x]];
    }
}

/* ---- centre ---- */

static neap_status prepare_centre(struct stage *stage, const struct field *wanted, int wanted_count,
                                  int *slots, bool *applies) {
  slots[MAP] = find_map(stage);
  const struct field *map = slots[MAP] >= 0 ? field_of(stage, slots[MAP]) : NULL,
                     *label = map != NULL ? find_wanted(wanted, wanted_count, map->name) : NULL;
  *applies =
      label != NULL && label->rank == 2 && label->dims[0] <= map->dims[0] && label->dims[1] <= map->dims[1];
  return *applies ? stage_add_slot(stage, *label, &slots[OUTPUT]) : NEAP_OK;
}

static void apply_centre(const struct stage *stage, const int *slots, struct sample *s) {
  const struct field *map = field_of(stage, slots[MAP]), *cut = field_of(stage, slots[OUTPUT]);
  const int64_t top = (map->dims[0] - cut->dims[0]) / 2, left = (map->dims[1] - cut->dims[1]) / 2;
  const int32_t *labels = s->values[slots[MAP]];
  int32_t *out = s->values[slots[OUTPUT]];
  if (out == NULL) return;
  for (int64_t y = 0; y < cut->dims[0]; y++)
    memcpy(out + y * cut->dims[1], labels + (y + top) * map->dims[1] + left,
           (size_t)cut->dims[1] * sizeof *out);
}

const struct transform transform_frame = {"frame", "marks the rows and columns of the picture", prepare_frame,
                                          apply_frame},
                       transform_crop = {"crop", "moves the picture and fills with zeros", prepare_crop,
                                         apply_crop},
                       transform_flip = {"flip", "mirrors half of the pictures", prepare_flip, apply_flip},
                       transform_numbers = {"numbers", "converts bytes to numbers and normalises them",
                                            prepare_numbers, apply_numbers},
                       transform_centre = {"centre", "cuts out the middle of a map of labels", prepare_centre,
                                           apply_centre};
