#include "train/data_open.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "train/data_source.h"

static const struct {
  const char *name, *argument;
  neap_status (*open)(const char *argument, struct data_set *set);
} sources[] = {
    {"cifar10", "DIR", cifar10_open},
    {"mnist", "DIR", mnist_open},
    {"text", "FILE", text_open},
    {"tokens", "FILE", tokens_open},
    {"parallel", "DIR:de-en", parallel_open},
    {"synthetic", NULL, synthetic_open},
};

static neap_status check_labels(const struct data_split *split, int64_t classes) {
  for (int p = 0; p < split->part_count; p++) {
    const struct data_part *part = &split->parts[p];
    for (int64_t i = 0; i < part->count; i++) {
      const int label = data_label(part, i);
      RETURN_IF(label >= classes, NEAP_BAD_FORMAT,
                "%s: record %lld, offset %zu: label %d, but classes are 0 to %lld", part->file, (long long)i,
                part->label_offset + (size_t)i * part->label_stride, label, (long long)classes - 1);
    }
  }
  return NEAP_OK;
}

/* Sums over the pixels of a channel. Those of integers are exact, so they do not depend on the number of
 * threads. */
struct sums {
  uint64_t sum[DATA_MAX_CHANNELS], squares[DATA_MAX_CHANNELS];
};

static void add_image(const struct data_set *set, const uint8_t *pixels, struct sums *sums) {
  const size_t plane = (size_t)(set->image[1] * set->image[2]);
  for (int64_t c = 0; c < set->image[0]; c++, pixels += plane) {
    uint64_t total = 0, squares = 0;
    for (size_t k = 0; k < plane; k++) {
      total += pixels[k];
      squares += (uint64_t)pixels[k] * pixels[k];
    }
    sums->sum[c] += total;
    sums->squares[c] += squares;
  }
}

static neap_status add_images(const struct data_set *set, struct sums *all) {
  struct ending first = {0}; /* the first failure of any thread */
#pragma omp parallel num_threads(set->readers)
  {
    struct sums mine = {0};
    uint8_t *buffer = set->buffers + (size_t)omp_get_thread_num() * data_image_bytes(set);
    neap_status status = NEAP_OK;
#pragma omp for
    for (int64_t i = 0; i < set->train.count; i++) {
      int label;
      if (status == NEAP_OK) status = data_read(set, &set->train, i, buffer, &label);
      if (status == NEAP_OK) add_image(set, buffer, &mine);
    }
#pragma omp critical
    {
      if (first.status == NEAP_OK) ending_keep(&first, status);
      for (int64_t c = 0; c < set->image[0]; c++) {
        all->sum[c] += mine.sum[c];
        all->squares[c] += mine.squares[c];
      }
    }
  }
  return ending_tell(&first);
}

static neap_status take_statistics(struct data_set *set) {
  struct sums sums = {0};
  const double n = (double)set->train.count * (double)(set->image[1] * set->image[2]);
  TRY(add_images(set, &sums));
  for (int64_t c = 0; c < set->image[0]; c++) {
    const double sum = (double)sums.sum[c], mean = sum / n;
    const double variance = n > 1 ? ((double)sums.squares[c] - sum * mean) / (n - 1) : 0;
    set->mean[c] = mean;
    set->deviation[c] = variance > 0 ? sqrt(variance) : 1; /* a constant channel becomes zeros */
    for (int v = 0; v < 256; v++)
      set->normal[c][v] = ((float)v - (float)set->mean[c]) / (float)set->deviation[c];
  }
  return NEAP_OK;
}

static neap_status allocate_buffers(struct data_set *set) {
  const int processors = omp_get_num_procs(), wished = set->wish.threads;
  set->readers = wished > 0 && wished < processors ? wished : processors;
  set->buffers = region_alloc(&set->region, (size_t)set->readers, data_image_bytes(set));
  RETURN_IF(set->buffers == NULL, NEAP_OUT_OF_MEMORY, "out of memory for an image a thread");
  return NEAP_OK;
}

neap_status data_open(const char *name, struct data_set *set) {
  return data_open_as(name, &(struct data_wish){0}, set);
}

neap_status data_open_as(const char *name, const struct data_wish *wish, struct data_set *set) {
  *set = (struct data_set){.wish = *wish};
  const size_t length = strcspn(name, ":");
  const char *argument = name[length] == ':' ? name + length + 1 : "";
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
    if (strlen(sources[i].name) != length || strncmp(sources[i].name, name, length) != 0) continue;
    RETURN_IF(sources[i].argument != NULL && *argument == '\0', NEAP_INVALID_ARGUMENT,
              "data set '%s': say where it is, as %s:%s", name, sources[i].name, sources[i].argument);
    set->name = sources[i].name;
    TRY(sources[i].open(argument, set));
    if (set->fill != NULL) return NEAP_OK; /* of sequences */
    TRY(check_labels(&set->train, set->classes));
    TRY(check_labels(&set->test, set->classes));
    TRY(allocate_buffers(set));
    return take_statistics(set);
  }
  return neap_fail(NEAP_INVALID_ARGUMENT,
                   "data set '%s' is not known; there are cifar10:DIR, mnist:DIR, text:FILE, tokens:FILE, "
                   "parallel:DIR:de-en, synthetic",
                   name);
}
