/* Data sets of labelled images, and batches of them.
 *
 * A data set is named "cifar10:DIR", "mnist:DIR" or "synthetic[:side=32,classes=10,images=10000,seed=0]",
 * which draws what is wished where its name leaves it open. Its images stay 8 bits a pixel in the process:
 * files that are not compressed are mapped (and must not be cut short while they are), the others are held.
 * That memory is the data set's, not training's, and no part of a budget; it is all in place when data_open
 * returns, and nothing is allocated afterwards. */
#ifndef NEAP_TRAIN_DATA_H
#define NEAP_TRAIN_DATA_H

#include "base/region.h"
#include "base/status.h"

enum { DATA_MAX_CHANNELS = 4, DATA_MAX_FILES = 8, DATA_MAX_SIDE = 4096 };

/* Consecutive records of one file: pixels [count, C, H, W] and labels [count], either with a stride in bytes.
 */
struct data_part {
  const char *file;
  const uint8_t *pixels, *labels;
  int64_t count;
  size_t pixel_stride, label_stride, label_offset; /* of the first label in the file */
  bool wide_labels;                                /* two bytes, little-endian; else one */
};

struct data_split {
  int64_t count;
  int64_t first; /* the source's number of its first record */
  int part_count;
  struct data_part parts[DATA_MAX_FILES];
};

/* For whom the data are: what a source that draws its images takes from it. Zeros: no wish. */
struct data_wish {
  int64_t image[3], classes; /* of labels; those of pixels with the background */
  int64_t batch;             /* there are some batches, whatever they take */
  bool pixels;               /* labels by pixel are needed */
};

struct data_set {
  const char *name;          /* of its source, without the argument; a constant */
  int64_t image[3], classes; /* channels, height, width */
  int64_t pixel_classes;     /* of label maps, 0 the background; 0: the source has no maps */
  struct data_split train, test;
  int64_t crop_padding; /* augmentation: shift by up to so many pixels, zeros come in; */
  bool flip;            /* mirror half of the images */
  double mean[DATA_MAX_CHANNELS], deviation[DATA_MAX_CHANNELS]; /* of `train`; 0..255, unbiased */

  /* Private. */
  struct region region;
  struct data_wish wish;
  const void *source; /* for label_row */
  void (*label_row)(const struct data_set *set, int64_t number, int label, int64_t row,
                    int32_t *labels); /* of the pixels of a row, [width] */
  struct {
    void *memory;
    size_t bytes;
  } mapped[DATA_MAX_FILES];
  int mapped_count;
  float normal[DATA_MAX_CHANNELS][256]; /* (pixel - mean) / deviation */
};

/* Of record `i` of a part. */
static inline int data_label(const struct data_part *part, int64_t i) {
  const uint8_t *label = part->labels + (size_t)i * part->label_stride;
  return part->wide_labels ? label[0] | label[1] << 8 : label[0];
}

/* A set that was opened (data_open.h), or a zeroed one. */
void data_close(struct data_set *set);

/* The order of the training records in an epoch: a permutation of 0..count-1 (Fisher and Yates), a function
 * of seed and epoch alone; 0, 1, 2, ... without `shuffle`. */
void data_order(uint64_t seed, int64_t epoch, bool shuffle, int64_t count, int32_t *order);

struct data_batch {
  int64_t count;          /* images */
  const int32_t *records; /* [count]; negative: no image, all zeros with label -1 */
  bool augment;           /* crop and flip, a function of seed, epoch and record alone */
  uint64_t seed;
  int64_t epoch;
  int threads;                   /* the result does not depend on it */
  int64_t map_height, map_width; /* of label maps; 0: a label an image */
};

/* Fills images [count, C, H, W], normalised, and labels [count]; or label maps [count, map_height,
 * map_width], those of the pixels in the middle of the image, moved and mirrored as they are. A crop's zeros
 * are zeros after normalisation, and background. */
void data_fill(const struct data_set *set, const struct data_split *split, const struct data_batch *batch,
               float *images, int32_t *labels);

#endif
