#include "train/data.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/data_source.h"

static const struct {
  const char *name, *argument;
  neap_status (*open)(const char *argument, struct data_set *set);
} sources[] = {
    {"cifar10", "DIR", cifar10_open},
    {"mnist", "DIR", mnist_open},
    {"synthetic", NULL, synthetic_open},
};

bool data_file_exists(const char *path) {
  struct stat status;
  return stat(path, &status) == 0;
}

neap_status data_map_file(struct data_set *set, const char *path, const uint8_t **bytes, size_t *size) {
  RETURN_IF(set->mapped_count == DATA_MAX_FILES, NEAP_UNSUPPORTED, "%s: a data set has at most %d files",
            path, DATA_MAX_FILES);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  RETURN_IF(file < 0, NEAP_IO_FAILED, "%s: cannot be opened: %s", path, strerror(errno));
  struct stat status;
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(file);
    return neap_fail(NEAP_IO_FAILED, "%s: is not a regular file", path);
  }
  if (status.st_size <= 0) {
    close(file);
    return neap_fail(NEAP_BAD_FORMAT, "%s: is empty", path);
  }
  /* Read now, not at the first use: what a session adds to the process must not include the data. */
  void *memory = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
  const int error = errno;
  close(file);
  RETURN_IF(memory == MAP_FAILED, NEAP_IO_FAILED, "%s: cannot be mapped: %s", path, strerror(error));
  set->mapped[set->mapped_count].memory = memory;
  set->mapped[set->mapped_count++].bytes = (size_t)status.st_size;
  *bytes = memory;
  *size = (size_t)status.st_size;
  return NEAP_OK;
}

neap_status data_add_part(struct data_split *split, const struct data_part *part) {
  RETURN_IF(split->part_count == DATA_MAX_FILES, NEAP_UNSUPPORTED, "%s: a data set has at most %d files",
            part->file, DATA_MAX_FILES);
  RETURN_IF(part->count > INT32_MAX - split->count, NEAP_TOO_LARGE, "%s: a data set has at most %d records",
            part->file, INT32_MAX);
  split->parts[split->part_count++] = *part;
  split->count += part->count;
  return NEAP_OK;
}

static int label_of(const struct data_part *part, int64_t record) {
  const uint8_t *label = part->labels + (size_t)record * part->label_stride;
  return part->wide_labels ? label[0] | label[1] << 8 : label[0];
}

static neap_status check_labels(const struct data_split *split, int64_t classes) {
  for (int p = 0; p < split->part_count; p++) {
    const struct data_part *part = &split->parts[p];
    for (int64_t i = 0; i < part->count; i++) {
      const int label = label_of(part, i);
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

void data_close(struct data_set *set) {
  for (int i = 0; i < set->mapped_count; i++) munmap(set->mapped[i].memory, set->mapped[i].bytes);
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

void data_fill(const struct data_set *set, const struct data_split *split, const struct data_batch *batch,
               float *images, int32_t *labels) {
  const int64_t elements = set->image[0] * set->image[1] * set->image[2];
  const int64_t map = batch->map_height * batch->map_width, each = map > 0 ? map : 1;
#pragma omp parallel for num_threads(batch->threads)
  for (int64_t i = 0; i < batch->count; i++) {
    int64_t record = batch->records[i];
    if (record < 0) {
      memset(images + i * elements, 0, (size_t)elements * sizeof *images);
      for (int64_t k = 0; k < each; k++) labels[i * each + k] = -1;
      continue;
    }
    const struct placement at = place(set, batch, record);
    const int64_t number = split->first + record;
    const struct data_part *part = find_part(split, &record);
    fill_image(set, part->pixels + (size_t)record * part->pixel_stride, at, images + i * elements);
    if (map > 0)
      fill_map(set, batch, number, label_of(part, record), at, labels + i * map);
    else
      labels[i] = label_of(part, record);
  }
}
