#include "data/statistics.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/fast_digest.h"
#include "data/encoding.h"

/* Sums over the pixels of a channel. They are exact integers, so they do not depend on the number of
 * threads. */
struct sums {
  uint64_t sum[SOURCE_MAX_CHANNELS], squares[SOURCE_MAX_CHANNELS];
};

static void add_image(const struct field *image, const uint8_t *pixels, struct sums *sums) {
  const size_t plane = (size_t)(image->dims[1] * image->dims[2]);
  for (int64_t c = 0; c < image->dims[0]; c++, pixels += plane) {
    uint64_t total = 0, squares = 0;
    for (size_t k = 0; k < plane; k++) {
      total += pixels[k];
      squares += (uint64_t)pixels[k] * pixels[k];
    }
    sums->sum[c] += total;
    sums->squares[c] += squares;
  }
}

int source_threads(const struct source *source) {
  const int processors = omp_get_num_procs(), wished = source->task.threads;
  return wished > 0 && wished < processors ? wished : processors;
}

/* Reads the images of a part, one buffer per thread; records that cannot be read are added to the
 * problems. */
static neap_status add_images(struct source *source, enum split split, uint8_t *buffers, struct sums *all) {
  const struct field *image = source_image(source);
  const size_t bytes = (size_t)field_elements(image);
  const int64_t before = split == SPLIT_TRAIN ? 0 : source->records[SPLIT_TRAIN];
  const int label = source_find_field(source, "label");
  const bool one_label = label >= 0 && field_elements(&source->fields[label]) == 1;
  struct ending first = {0};
  uint64_t digest = 0;
#pragma omp parallel num_threads(source_threads(source))
  {
    struct sums mine = {0};
    uint64_t own = 0, class = 0;
    const struct draw plain = {0};
    uint8_t *buffer = buffers + (size_t)omp_get_thread_num() * bytes;
    void *fields[FIELD_LIMIT] = {0};
    int64_t lengths[FIELD_LIMIT];
    neap_status failure = NEAP_OK;
    fields[image - source->fields] = buffer;
    if (one_label) fields[label] = &class;
#pragma omp for
    for (int64_t i = 0; i < source->records[split]; i++) {
      if (failure != NEAP_OK) continue;
      const neap_status status = source->read(source, split, i, &plain, fields, lengths);
      if (status == NEAP_OK) add_image(image, buffer, &mine);
      if (status == NEAP_OK && source->slow)
        own += digest_share(digest_bytes(digest_bytes(0, &class, sizeof class), buffer, bytes), i);
      if (status != NEAP_OK) failure = problems_add(&source->problems, &source->region, before + i, status);
    }
#pragma omp critical
    {
      if (first.status == NEAP_OK) ending_keep(&first, failure);
      digest += own;
      for (int64_t c = 0; c < image->dims[0]; c++) {
        all->sum[c] += mine.sum[c];
        all->squares[c] += mine.squares[c];
      }
    }
  }
  source->digests[split] = digest;
  return ending_tell(&first);
}

/* Reads the training images and takes their sums; if all records are checked, reads the others, too. */
static neap_status read_images(struct source *source, struct sums *sums) {
  struct sums unused = {0};
  uint8_t *buffers = malloc((size_t)source_threads(source) * (size_t)field_elements(source_image(source)));
  RETURN_IF(buffers == NULL, NEAP_OUT_OF_MEMORY, "out of memory for one image per thread");
  neap_status status = add_images(source, SPLIT_TRAIN, buffers, sums);
  if (status == NEAP_OK && source->whole_check) status = add_images(source, SPLIT_TEST, buffers, &unused);
  free(buffers);
  return status;
}

neap_status statistics_take(struct source *source) {
  const struct encoding *encoding = source->task.encoding;
  if (encoding != NULL && encoding->deviation[0] > 0) {
    memcpy(source->mean, encoding->mean, sizeof source->mean);
    memcpy(source->deviation, encoding->deviation, sizeof source->deviation);
    return NEAP_OK;
  }
  const struct task_pixels *own = &source->task.pixels;
  const struct field *image = source_image(source);
  struct sums sums = {0};
  TRY(read_images(source, &sums));
  TRY(problems_tell(&source->problems, source->name));
  if (own->deviation[0] > 0) {
    memcpy(source->mean, own->mean, sizeof source->mean);
    memcpy(source->deviation, own->deviation, sizeof source->deviation);
    return NEAP_OK;
  }
  const double n = (double)source->records[SPLIT_TRAIN] * (double)(image->dims[1] * image->dims[2]);
  for (int64_t c = 0; c < image->dims[0]; c++) {
    const double sum = (double)sums.sum[c], mean = sum / n;
    const double variance = n > 1 ? ((double)sums.squares[c] - sum * mean) / (n - 1) : 0;
    source->mean[c] = mean;
    source->deviation[c] = variance > 0 ? sqrt(variance) : 1; /* a constant channel becomes zeros */
  }
  return NEAP_OK;
}

neap_byte_input statistics_byte_input(const struct source *source) {
  neap_byte_input input = {0};
  const struct field *image = source_image(source);
  if (image == NULL) return input;
  input.name = image->name;
  for (int64_t c = 0; c < image->dims[0]; c++) {
    input.mean[c] = (float)source->mean[c];
    input.deviation[c] = (float)source->deviation[c];
  }
  return input;
}
