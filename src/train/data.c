#include "train/data.h"

#include <omp.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "text/tokenizer.h"
#include "train/data_random.h"

void data_close(struct data_set *set) {
  for (int i = 0; i < set->file_count; i++) close(set->files[i]);
  tokenizer_free(set->tokenizer);
  region_free(&set->region);
  *set = (struct data_set){0};
}

void data_order(uint64_t seed, int64_t epoch, bool shuffle, int64_t count, int32_t *order) {
  for (int64_t i = 0; i < count; i++) order[i] = (int32_t)i;
  if (!shuffle) return;
  for (int64_t i = count - 1; i > 0; i--) {
    uint32_t bits[4];
    data_random(seed, STREAM_SHUFFLE, (uint64_t)epoch, (uint64_t)i, bits);
    const uint32_t j = random_below(bits[0], (uint64_t)i + 1);
    const int32_t moved = order[i];
    order[i] = order[j];
    order[j] = moved;
  }
}

static const struct data_part *find_part(const struct data_split *split, int64_t *record) {
  const struct data_part *part = split->parts;
  while (*record >= part->count) *record -= part++->count;
  return part;
}

/* Reads record `i` of a part, which is number `number` of its source. Gives what file_read_at does. */
static int read_pixels(const struct data_set *set, const struct data_part *part, int64_t i, int64_t number,
                       uint8_t *pixels) {
  const size_t at = part->pixel_offset + (size_t)i * part->pixel_stride;
  if (part->descriptor >= 0) return file_read_at(part->descriptor, at, pixels, data_image_bytes(set));
  set->draw(set, number, data_label(part, i), pixels);
  return 0;
}

static neap_status fail_reading(const struct data_split *split, int64_t record, int error) {
  const struct data_part *part = find_part(split, &record);
  const size_t at = part->pixel_offset + (size_t)record * part->pixel_stride;
  RETURN_IF(error == FILE_ENDS, NEAP_BAD_FORMAT,
            "%s: record %lld at offset %zu is not whole any more: the file was cut short since it was opened",
            part->file, (long long)record, at);
  return neap_fail(NEAP_IO_FAILED, "%s: record %lld at offset %zu cannot be read: %s", part->file,
                   (long long)record, at, strerror(error));
}

neap_status data_read(const struct data_set *set, const struct data_split *split, int64_t record,
                      uint8_t *pixels, int *label) {
  int64_t i = record;
  const struct data_part *part = find_part(split, &i);
  const int error = read_pixels(set, part, i, split->first + record, pixels);
  *label = data_label(part, i);
  return error == 0 ? NEAP_OK : fail_reading(split, record, error);
}

/* An image is moved by (down, right) pixels, then mirrored. */
struct placement {
  int64_t down, right;
  bool mirror;
};

/* Writes an image [C, H, W]. */
static void fill_image(const struct data_set *set, const uint8_t *pixels, struct placement at, float *image) {
  const int64_t height = set->image[1], width = set->image[2];
  for (int64_t c = 0; c < set->image[0]; c++)
    for (int64_t y = 0; y < height; y++) {
      float *out = image + (c * height + y) * width;
      const int64_t from = y + at.down;
      if (from < 0 || from >= height) {
        memset(out, 0, (size_t)width * sizeof *out);
        continue;
      }
      const uint8_t *row = pixels + (c * height + from) * width;
      for (int64_t x = 0; x < width; x++) {
        const int64_t column = (at.mirror ? width - 1 - x : x) + at.right;
        out[x] = column < 0 || column >= width ? 0 : set->normal[c][row[column]];
      }
    }
}

/* The same as bytes; `window`: the rows and columns of them that are of the image. */
static void fill_bytes(const struct data_set *set, const uint8_t *pixels, struct placement at, uint8_t *image,
                       int32_t window[4]) {
  const int64_t height = set->image[1], width = set->image[2];
  const int64_t top = at.down < 0 ? -at.down : 0, bottom = at.down > 0 ? height - at.down : height;
  const int64_t begin = at.right < 0 ? -at.right : 0, end = at.right > 0 ? width - at.right : width;
  const int64_t left = at.mirror ? width - end : begin, right = at.mirror ? width - begin : end;
  memset(image, 0, data_image_bytes(set));
  for (int64_t c = 0; c < set->image[0]; c++)
    for (int64_t y = top; y < bottom; y++) {
      const uint8_t *row = pixels + (c * height + y + at.down) * width;
      uint8_t *out = image + (c * height + y) * width;
      for (int64_t x = left; x < right; x++) out[x] = row[(at.mirror ? width - 1 - x : x) + at.right];
    }
  window[0] = (int32_t)top, window[1] = (int32_t)bottom;
  window[2] = (int32_t)left, window[3] = (int32_t)right;
}

/* Image `i` of a batch: what its pixels become; NULL: there is no image, all is 0. */
static void fill_one(const struct data_set *set, const struct data_batch *batch, int64_t i,
                     const uint8_t *pixels, struct placement at, void *images) {
  const size_t elements = data_image_bytes(set);
  uint8_t *bytes = (uint8_t *)images + (size_t)i * elements;
  float *image = (float *)images + (size_t)i * elements;
  if (batch->windows != NULL && pixels != NULL) {
    fill_bytes(set, pixels, at, bytes, batch->windows + 4 * i);
  } else if (batch->windows != NULL) {
    memset(bytes, 0, elements);
    memset(batch->windows + 4 * i, 0, 4 * sizeof *batch->windows);
  } else if (pixels != NULL) {
    fill_image(set, pixels, at, image);
  } else {
    memset(image, 0, elements * sizeof *image);
  }
}

/* Labels of the pixels in the middle, moved and mirrored as fill_image does. */
static void fill_map(const struct data_set *set, const struct data_batch *batch, int64_t number, int label,
                     struct placement at, int32_t *labels) {
  const int64_t height = set->image[1], width = set->image[2], top = (height - batch->map_height) / 2,
                left = (width - batch->map_width) / 2;
  int32_t row[DATA_MAX_SIDE];
  for (int64_t y = 0; y < batch->map_height; y++) {
    int32_t *out = labels + y * batch->map_width;
    const int64_t from = y + top + at.down;
    if (from < 0 || from >= height) {
      memset(out, 0, (size_t)batch->map_width * sizeof *out);
      continue;
    }
    set->label_row(set, number, label, from, row);
    for (int64_t x = 0; x < batch->map_width; x++) {
      const int64_t column = (at.mirror ? width - 1 - (x + left) : x + left) + at.right;
      out[x] = column < 0 || column >= width ? 0 : row[column];
    }
  }
}

static struct placement place(const struct data_set *set, const struct data_batch *batch, int64_t record) {
  if (!batch->augment) return (struct placement){0};
  const uint64_t places = (uint64_t)(2 * set->crop_padding + 1);
  uint32_t bits[4];
  data_random(batch->seed, STREAM_AUGMENT, (uint64_t)batch->epoch, (uint64_t)record, bits);
  return (struct placement){.down = (int64_t)random_below(bits[0], places) - set->crop_padding,
                            .right = (int64_t)random_below(bits[1], places) - set->crop_padding,
                            .mirror = set->flip && bits[2] >> 31};
}

/* Fills image `i` of the batch through a buffer for its pixels. Gives what read_pixels does. */
static int fill_record(const struct data_set *set, const struct data_split *split,
                       const struct data_batch *batch, int64_t i, uint8_t *buffer, void *images,
                       int32_t *labels) {
  const int64_t map = batch->map_height * batch->map_width, each = map > 0 ? map : 1;
  int64_t record = batch->records[i];
  if (record < 0) {
    if (images != NULL) fill_one(set, batch, i, NULL, (struct placement){0}, images);
    for (int64_t k = 0; k < each; k++) labels[i * each + k] = -1;
    return 0;
  }
  const struct placement at = place(set, batch, record);
  const int64_t number = split->first + record;
  const struct data_part *part = find_part(split, &record);
  if (map > 0)
    fill_map(set, batch, number, data_label(part, record), at, labels + i * map);
  else
    labels[i] = data_label(part, record);
  if (images == NULL) return 0;
  const int error = read_pixels(set, part, record, number, buffer);
  if (error == 0) fill_one(set, batch, i, buffer, at, images);
  return error;
}

neap_byte_input data_byte_input(const struct data_set *set) {
  neap_byte_input input = {0};
  if (set->fill != NULL) return input;
  input.name = data_input_name(set);
  for (int64_t c = 0; c < set->image[0]; c++) {
    input.mean[c] = (float)set->mean[c];
    input.deviation[c] = (float)set->deviation[c];
  }
  return input;
}

neap_status data_fill(const struct data_set *set, const struct data_split *split,
                      const struct data_batch *batch, void *images, int32_t *labels) {
  if (set->fill != NULL) return set->fill(set, split, batch, images, labels);
  const int threads = batch->threads < set->readers ? batch->threads : set->readers;
  int64_t failed = batch->count; /* the first that did, and why */
  int error = 0;
#pragma omp parallel for num_threads(threads)
  for (int64_t i = 0; i < batch->count; i++) {
    uint8_t *buffer = set->buffers + (size_t)omp_get_thread_num() * data_image_bytes(set);
    const int why = fill_record(set, split, batch, i, buffer, images, labels);
    if (why == 0) continue;
#pragma omp critical
    if (i < failed) failed = i, error = why;
  }
  return error == 0 ? NEAP_OK : fail_reading(split, batch->records[failed], error);
}
