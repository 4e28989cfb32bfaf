/* A source of data: records of named fields, in a training and a test part.
 *
 * A source is named "cifar10:DIR", "text:FILE,tokens=8000" or "synthetic": a row of sources.h and what
 * follows the colon. Its open function fills in a zeroed struct source. Records are read, or drawn, when they
 * are needed; several threads may read at once. What a source allocates lies in its region and is all there
 * when it is open. That memory is no part of a budget of training; a budget of the process counts it. */
#ifndef NEAP_DATA_SOURCE_H
#define NEAP_DATA_SOURCE_H

#include "base/region.h"
#include "base/vector.h"
#include "data/problems.h"
#include "graph/task.h"

enum split { SPLIT_TRAIN, SPLIT_TEST, SPLITS };
enum { FIELD_LIMIT = 8, SOURCE_MAX_CHANNELS = 4, SOURCE_MAX_SIDE = 4096 };

struct field {
  const char *name;
  neap_dtype dtype;
  int rank;
  int64_t dims[NEAP_MAX_RANK]; /* of a record */
  bool ragged;                 /* a record has its own dims[0], up to this one */
};

/* What the reading of a record depends on besides its number. */
struct draw {
  bool augment; /* random changes, a function of seed, epoch and record alone */
  uint64_t seed;
  int64_t epoch;
};

struct table;

/* How numbers of a field are standardised: (x - mean) / deviation, element by element. */
struct scale {
  int64_t count; /* elements of a record; 0: they stay as they are */
  double *mean, *deviation;
};

struct source {
  const char *name;    /* of its row; a constant */
  struct task task;    /* that it was opened for */
  enum task_kind kind; /* that its records suit */
  struct field fields[FIELD_LIMIT];
  int field_count;
  struct scale scales[FIELD_LIMIT]; /* of fields of f32, by the training records */
  int64_t records[SPLITS];
  int64_t classes;                     /* of the label field; of tokens the vocabulary */
  const char *const *class_names;      /* [classes]; NULL: they have none */
  int64_t least_size[2], most_size[2]; /* of pictures in files: height and width */
  int64_t sequence_length; /* of the longest record, as the model sees it; 0: records are no sequences */
  bool unlabelled;         /* labels are missing: they are -1, or 0 where they are values */
  bool augment_asked;      /* augmentation is only where the user asks for it */
  bool slow;               /* reading a record takes long: they are read ahead */
  bool whole_check;        /* every record is read before training, so that damaged ones are all named */
  int64_t crop_padding; /* augmentation of images: shift by at most this number of pixels, zeros come in; */
  bool flip;            /* mirror half of them */
  double mean[SOURCE_MAX_CHANNELS], deviation[SOURCE_MAX_CHANNELS]; /* of bytes of images, in training */
  int64_t tokens[SPLITS], bytes[SPLITS]; /* of text: how many, in how many bytes; 0: not known */
  struct tokenizer *tokenizer;           /* of text; NULL: ids mean nothing that is known */
  bool of_model;                         /* it came with the model, which has it for whoever asks later */
  int32_t mask_token, end_token;         /* -1: none */
  int64_t skipped, cut;                  /* records left out and cut, by the task's limit */
  int64_t conversations;   /* to train with, which may share rows; 0: records are something else */
  const char *longest;     /* where the longest record is, which sets the memory; NULL: all are alike */
  const char *marked_file; /* whose byte-order mark was skipped; NULL: no file has one */

  /* Reads the fields of a record, and of ragged ones dims[0]; fields[f] NULL: it is not wanted. A failure
   * names file and place. Any number of threads may call it; `thread` counts those that do, from 0. */
  neap_status (*read)(const struct source *source, enum split split, int64_t record, const struct draw *draw,
                      void *const *fields, int64_t *lengths);
  /* Of what is read, for buckets: the length that a record needs. NULL: all are alike. */
  int64_t (*length)(const struct source *source, enum split split, int64_t record);
  /* How a record is called, for people; NULL: by its number. The text is the source's. */
  const char *(*record_name)(const struct source *source, enum split split, int64_t record);
  void (*close)(struct source *source); /* frees what the region does not hold; may be NULL */

  struct table *table;      /* of a table: its columns; NULL: it is none */
  struct problems problems; /* with records, where they are told one by one */

  /* Private. */
  void *context;
  struct region region;
  VECTOR(int) files; /* that are open */
};

/* Closes a source that was opened, whatever the status, or a zeroed one. */
void source_close(struct source *source);

/* Adds a field; `rank` dims follow as an array. NEAP_UNSUPPORTED: there are FIELD_LIMIT already. */
neap_status source_add_field(struct source *source, struct field field);

/* The field of that name; -1: no such field. */
int source_find_field(const struct source *source, const char *name);

/* Elements of a record's field, of the longest one where it is ragged. */
int64_t field_elements(const struct field *field);

/* Of the field of images, bytes [C, H, W]; NULL: the source has none. */
const struct field *source_image(const struct source *source);

/* Opens a file for reading until source_close. An empty file is an error. */
neap_status source_open_file(struct source *source, const char *path, int *descriptor, size_t *size);

/* Has source_close close what is open; on failure it is closed now. `path` is for messages. */
neap_status source_keep_file(struct source *source, const char *path, int descriptor);

/* Reads `count` pieces of `bytes`, `stride` apart from `offset` on. NEAP_BAD_FORMAT: the file ends before. */
neap_status source_read_file(const char *path, int descriptor, size_t offset, int64_t count, size_t stride,
                             size_t bytes, uint8_t *data);

/* Opens a temporary file until source_close, for what becomes of `path`, which is for messages; and writes
 * all of the bytes to it. */
neap_status source_temporary_file(struct source *source, const char *path, int *descriptor);
neap_status source_write_file(const char *path, int descriptor, const void *bytes, size_t count);

/* Splits "FILE,key=value,...": *values[0] is what comes first, *values[k] what follows keys[k], where it is
 * there. A comma that no known key follows belongs to what is before it. `keys` end with NULL. */
neap_status source_parse(struct source *source, const char *argument, const char *const *keys,
                         const char **const *values);

/* Whether a tokenizer is named by its file. */
bool source_is_tokenizer(const char *name);

bool source_file_exists(const char *path);

#endif
