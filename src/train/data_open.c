#include "train/data_open.h"

#include <math.h>
#include <string.h>

#include "train/data_source.h"

static const struct {
  const char *name, *argument;
  neap_status (*open)(const char *argument, struct data_set *set);
} sources[] = {
    {"cifar10", "DIR", cifar10_open},
    {"mnist", "DIR", mnist_open},
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

/* Sums over integers are exact, so they do not depend on the number of threads. */
static void channel_sums(const struct data_split *split, int64_t channel, size_t plane, uint64_t *sum,
                         uint64_t *squares) {
  uint64_t total = 0, total_squares = 0;
  for (int p = 0; p < split->part_count; p++) {
    const struct data_part *part = &split->parts[p];
#pragma omp parallel for reduction(+ : total, total_squares)
    for (int64_t i = 0; i < part->count; i++) {
      const uint8_t *pixels = part->pixels + (size_t)i * part->pixel_stride + (size_t)channel * plane;
      for (size_t k = 0; k < plane; k++) {
        total += pixels[k];
        total_squares += (uint64_t)pixels[k] * pixels[k];
      }
    }
  }
  *sum = total;
  *squares = total_squares;
}

static void take_statistics(struct data_set *set) {
  const size_t plane = (size_t)(set->image[1] * set->image[2]);
  const double n = (double)set->train.count * (double)plane;
  for (int64_t c = 0; c < set->image[0]; c++) {
    uint64_t sum, squares;
    channel_sums(&set->train, c, plane, &sum, &squares);
    const double mean = (double)sum / n;
    const double variance = n > 1 ? ((double)squares - (double)sum * mean) / (n - 1) : 0;
    set->mean[c] = mean;
    set->deviation[c] = variance > 0 ? sqrt(variance) : 1; /* a constant channel becomes zeros */
    for (int v = 0; v < 256; v++)
      set->normal[c][v] = ((float)v - (float)set->mean[c]) / (float)set->deviation[c];
  }
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
    TRY(check_labels(&set->train, set->classes));
    TRY(check_labels(&set->test, set->classes));
    take_statistics(set);
    return NEAP_OK;
  }
  return neap_fail(NEAP_INVALID_ARGUMENT,
                   "data set '%s' is not known; there are cifar10:DIR, mnist:DIR, synthetic", name);
}
