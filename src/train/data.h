/* Data sets of labelled images or of sequences, and batches of them.
 *
 * A data set is named "cifar10:DIR", "mnist:DIR", "text:FILE" or
 * "synthetic[:side=32,classes=10,images=10000,seed=0]", which draws what is wished where its name leaves it
 * open. Records are read, or drawn, when a batch is filled with them: the process holds one for each thread,
 * and all labels of images. Compressed files are unpacked into a
 * temporary one. That memory is the data set's, not training's, and no part of a budget; it is all in place
 * when data_open returns, and nothing is allocated afterwards. */
#ifndef NEAP_TRAIN_DATA_H
#define NEAP_TRAIN_DATA_H

#include "base/region.h"
#include "base/status.h"
#include "zoo/zoo.h"

enum { DATA_MAX_CHANNELS = 4, DATA_MAX_FILES = 8, DATA_MAX_SIDE = 4096 };

/* Consecutive records of one file. */
struct data_part {
  const char *file;
  int descriptor; /* of the file that has the pixels; negative: they are drawn */
  int64_t count;
  size_t pixel_offset, pixel_stride; /* of [C, H, W] in the file */
  const uint8_t *labels;             /* [count], in memory */
  bool wide_labels;                  /* two bytes each, little-endian; else one */
  size_t label_offset, label_stride; /* of labels in the file: where a wrong one is */
};

/* Records that have sequences of one length. */
enum { DATA_BUCKETS = 8 };
struct data_bucket {
  int64_t length, first, count; /* records first to first + count */
};

struct data_split {
  int64_t count;         /* records: images or sequences */
  int64_t first;         /* the source's number of its first image or token */
  int64_t tokens, bytes; /* of sequences of tokens: how many, and of how many bytes of text; 0: not known */
  struct data_bucket buckets[DATA_BUCKETS]; /* rising lengths; each record is in one */
  int bucket_count;                         /* 0: all records are alike */
  int part_count;
  struct data_part parts[DATA_MAX_FILES];
};

/* For whom the data are: what a source that draws its images takes from it. Zeros: no wish. */
struct data_wish {
  int64_t image[3], classes; /* of labels; those of pixels with the background */
  int64_t asked;             /* classes that the user asks for; 0: none */
  int64_t batch;             /* there are some batches, whatever they take */
  enum model_kind kind;
  int64_t length, width; /* of sequences, and of their vectors */
  int threads;           /* that fill batches; 0: as many as there are processors */
};

struct data_batch;

struct data_set {
  const char *name;          /* of its source, without the argument; a constant */
  enum model_kind kind;      /* that can learn from it: IMAGES, which stands for PIXELS too, or sequences */
  int64_t image[3], classes; /* channels, height, width; classes of tokens are the vocabulary */
  int64_t length, width;     /* of sequences; of their vectors */
  int64_t pixel_classes;     /* of label maps, 0 the background; 0: the source has no maps */
  struct data_split train, test;
  int64_t crop_padding; /* augmentation: shift by up to so many pixels, zeros come in; */
  bool flip;            /* mirror half of the images */
  double mean[DATA_MAX_CHANNELS], deviation[DATA_MAX_CHANNELS]; /* of `train`; 0..255, unbiased */

  /* Private. */
  struct region region;
  struct data_wish wish;
  const void *source; /* for label_row and draw */
  neap_status (*fill)(const struct data_set *set, const struct data_split *split,
                      const struct data_batch *batch, void *inputs,
                      int32_t *labels); /* of sequences, as data_fill; NULL: images */
  neap_status (*read_tokens)(const struct data_set *set, int64_t first, int64_t count, int32_t *tokens);
  struct tokenizer *tokenizer; /* of a text; NULL: ids stand for nothing that is known */
  int32_t *window;             /* [length + 1] tokens */
  int32_t mask_token;          /* -1: labels are the tokens that follow */
  void (*draw)(const struct data_set *set, int64_t number, int label, uint8_t *pixels); /* NULL: from files */
  void (*label_row)(const struct data_set *set, int64_t number, int label, int64_t row,
                    int32_t *labels);    /* of the pixels of a row, [width] */
  int files[DATA_MAX_FILES], file_count; /* that are open */
  uint8_t *buffers;                      /* [readers][C, H, W] */
  int readers;
  float normal[DATA_MAX_CHANNELS][256]; /* (pixel - mean) / deviation */
};

/* Of record `i` of a part. */
static inline int data_label(const struct data_part *part, int64_t i) {
  return part->wide_labels ? part->labels[2 * i] | part->labels[2 * i + 1] << 8 : part->labels[i];
}

/* What a batch has, for who is told. */
static inline const char *data_records(const struct data_set *set) {
  return set->kind == MODEL_PAIRS ? "pairs" : set->length > 0 ? "sequences" : "images";
}

/* The model's input that a batch fills. */
static inline const char *data_input_name(const struct data_set *set) {
  return set->kind == MODEL_IMAGES ? "image" : set->kind == MODEL_VECTORS ? "sequence" : "tokens";
}

#define DATA_WINDOWS "image.window" /* the session's input of windows, where images are bytes */

static inline size_t data_image_bytes(const struct data_set *set) {
  return (size_t)(set->image[0] * set->image[1] * set->image[2]);
}

/* The pixels [C, H, W] and the label of a record. NEAP_IO_FAILED, NEAP_BAD_FORMAT: its file cannot be read,
 * or was cut short since it was opened. */
neap_status data_read(const struct data_set *set, const struct data_split *split, int64_t record,
                      uint8_t *pixels, int *label);

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
  int64_t length;                /* of pairs: of the bucket that all records are of */
  int32_t *windows; /* [count, 4], of images that are to be bytes (neap_byte_input); NULL: f32, normalised */
  int32_t *source;  /* of pairs: [count, length], -1 behind its end; NULL where inputs are */
};

/* How a session normalises the images of the set where it keeps them as bytes; without a name where the set
 * has none. The numbers are those that data_fill gives. */
neap_byte_input data_byte_input(const struct data_set *set);

/* Fills images [count, C, H, W] (NULL: none), normalised, and labels [count]; or label maps [count,
 * map_height, map_width], those of the pixels in the middle of the image, moved and mirrored as they are. A
 * crop's zeros are zeros after normalisation, and background. Of sequences: tokens [count, length] of i32, or
 * vectors [count, length, width], and labels [count, length]. Errors are those of data_read. */
neap_status data_fill(const struct data_set *set, const struct data_split *split,
                      const struct data_batch *batch, void *inputs, int32_t *labels);

#endif
