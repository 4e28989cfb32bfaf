/* Folders of MNIST: idx files, compressed or not. Where no file is compressed a folder is taken if each file
 * has the size that its header says, with as many labels as images and labels below 10, as this file counts
 * for itself. What is taken is the same after it was written as idx files and opened again. Else a message
 * names the folder. */
#include <stdio.h>

#include "data_property.h"

enum { FILES = 4, MAX_SIDE = 4096 };
static const char *const names[2 * FILES] = {"train-images-idx3-ubyte",    "train-labels-idx1-ubyte",
                                             "t10k-images-idx3-ubyte",     "t10k-labels-idx1-ubyte",
                                             "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz",
                                             "t10k-images-idx3-ubyte.gz",  "t10k-labels-idx1-ubyte.gz"};

/* ---- The format, read anew ---- */

static uint32_t word_at(struct fuzz_bytes part, size_t at) {
  const unsigned char *b = (const unsigned char *)part.text + at;
  return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* An idx file of bytes of that rank, not empty, and of the size that its dimensions give. */
static bool is_idx(struct fuzz_bytes part, uint32_t rank) {
  if (part.text == NULL || part.size < 4 + 4 * rank || word_at(part, 0) != 0x800 + rank) return false;
  uint64_t bytes = 1;
  for (uint32_t i = 0; i < rank; i++) {
    const uint32_t dim = word_at(part, 4 + 4 * i);
    if (dim == 0 || dim > (i == 0 ? INT32_MAX : MAX_SIDE)) return false;
    bytes *= dim;
  }
  return part.size - 4 - 4 * rank == bytes;
}

static bool is_split(struct fuzz_bytes images, struct fuzz_bytes labels) {
  if (!is_idx(images, 3) || !is_idx(labels, 1) || word_at(images, 4) != word_at(labels, 4)) return false;
  for (size_t i = 8; i < labels.size; i++)
    if ((unsigned char)labels.text[i] >= 10) return false;
  return true;
}

static bool is_good(const struct fuzz_bytes parts[FILES]) {
  return is_split(parts[0], parts[1]) && is_split(parts[2], parts[3]) &&
         word_at(parts[0], 8) == word_at(parts[2], 8) && word_at(parts[0], 12) == word_at(parts[2], 12);
}

/* ---- Writing ---- */

static void put_words(FILE *file, const uint32_t *words, int count) {
  for (int i = 0; i < count; i++)
    for (int shift = 24; shift >= 0; shift -= 8) fputc((int)(words[i] >> shift & 255), file);
}

static void write_split(const struct loader *set, enum split split, const char *images, const char *labels) {
  const uint32_t count = (uint32_t)set->source.records[split],
                 height = (uint32_t)source_image(&set->source)->dims[1],
                 width = (uint32_t)source_image(&set->source)->dims[2];
  FILE *pixels_out = fopen(images, "wb"), *labels_out = fopen(labels, "wb");
  CHECK(pixels_out != NULL && labels_out != NULL);
  put_words(pixels_out, (const uint32_t[]){0x803, count, height, width}, 4);
  put_words(labels_out, (const uint32_t[]){0x801, count}, 2);
  for (int64_t i = 0; i < set->source.records[split]; i++) {
    int32_t label;
    const uint8_t *pixels = record_pixels(set, split, i, &label);
    CHECK(fwrite(pixels, 1, (size_t)height * width, pixels_out) == (size_t)height * width);
    fputc(label, labels_out);
  }
  CHECK(fclose(pixels_out) == 0 && fclose(labels_out) == 0);
}

static void check_copy(const struct loader *set) {
  struct loader again;
  char name[128];
  snprintf(name, sizeof name, "mnist:%s", fuzz_folder("copy"));
  write_split(set, SPLIT_TRAIN, fuzz_path("copy/train-images-idx3-ubyte"),
              fuzz_path("copy/train-labels-idx1-ubyte"));
  write_split(set, SPLIT_TEST, fuzz_path("copy/t10k-images-idx3-ubyte"),
              fuzz_path("copy/t10k-labels-idx1-ubyte"));
  CHECK_OK(open_images(&again, name));
  check_same_set(set, &again);
  loader_close(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *folder = fuzz_folder("mnist");
  struct fuzz_bytes parts[2 * FILES];
  struct loader set;
  bool compressed = false;
  char name[128];
  for (int i = 0; i < 2 * FILES; i++) {
    parts[i] = fuzz_part(data, size, names[i]);
    compressed = compressed || (i >= FILES && parts[i].text != NULL);
  }
  fuzz_unpack(data, size, folder, names, 2 * FILES);
  snprintf(name, sizeof name, "mnist:%s", folder);
  const neap_status status = open_images(&set, name);
  fuzz_taken = status == NEAP_OK;
  CHECK(compressed || fuzz_taken == is_good(parts));
  if (fuzz_taken) {
    check_copy(&set);
    check_batches(&set, SPLIT_TRAIN);
    check_batches(&set, SPLIT_TEST);
  } else {
    CHECK(status == NEAP_BAD_FORMAT || status == NEAP_IO_FAILED);
    fuzz_check_refused(status, folder);
  }
  loader_close(&set);
  return 0;
}
