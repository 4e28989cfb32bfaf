/* A source of data: records of named fields, in a training and a test part.
 *
 * A source is named "cifar10:DIR", "text:FILE,tokens=8000" or "synthetic": a row of sources.h and the text
 * after the colon. Its open function fills in a zeroed struct source. Records are read, or drawn, when they
 * are needed; several threads may read at once. A source allocates all its memory in its region while it is
 * opened. A budget of training does not count that memory; a budget of the process does. */
#ifndef NEAP_DATA_SOURCE_H
#define NEAP_DATA_SOURCE_H

#include "base/region.h"
#include "base/understood.h"
#include "base/vector.h"
#include "data/problems.h"
#include "task/task.h"

enum split { SPLIT_TRAIN, SPLIT_TEST, SPLITS };
enum { FIELD_LIMIT = 8, SOURCE_MAX_CHANNELS = 4, SOURCE_MAX_SIDE = 4096 };

struct field {
  const char *name;
  neap_dtype dtype;
  int rank;
  int64_t dims[NEAP_MAX_RANK]; /* of a record */
  bool ragged;                 /* a record has its own dims[0], up to this one */
};

/* The numbers, besides its own, on which the reading of a record depends. */
struct draw {
  bool augment; /* random changes, a function of seed, epoch and record alone */
  uint64_t seed;
  int64_t epoch;
};

struct table;

/* The rules by which records are read. A run keeps those that it began with (data/encoding.h): by the first,
 * numbers are rounded to f32 before they are standardised, blanks around a table's cells are part of them,
 * pictures lie as they are stored, and only PNG and JPEG files below train, val and test are read. */
enum reading_rules { READING_FIRST = 1, READING_NOW = 2 };

/* The scale by which numbers of a field are standardised, element by element: (x - mean) / deviation. */
struct scale {
  int64_t count; /* elements of a record; 0: not standardised */
  double *mean, *deviation;
};

struct source {
  const char *name; /* name of its row; a constant */
  struct task task; /* the task it was opened for */
  neap_task kind;   /* the kind of task that its records suit */
  enum reading_rules reading;
  struct field fields[FIELD_LIMIT];
  int field_count;
  struct scale
      scales[FIELD_LIMIT]; /* of fields of f32, from the training records; `read` standardises by them */
  int64_t records[SPLITS];
  uint64_t digests[SPLITS]; /* of the records of a part as they were read (record_digest.h); 0: not known */
  int64_t classes;          /* of the label field; for tokens, the vocabulary */
  const char *const *class_names;      /* [classes]; NULL: classes have no names */
  int64_t least_size[2], most_size[2]; /* height and width, if records are pictures in files */
  int64_t sequence_length;             /* of the longest record, as the model sees it; 0: not sequences */
  bool unlabelled;                     /* labels are missing: they are -1, or 0 if they are values */
  bool augment_asked;                  /* augments only if the user asks for it */
  bool drawn;                          /* the program draws the records: its name says what they are */
  bool slow;                           /* records take long to read: they are read ahead */
  bool whole_check; /* every record is read before training, so that all damaged ones are named */
  int64_t
      crop_padding; /* augmentation of images: shift by at most this number of pixels, filled with zeros */
  bool flip;        /* mirror half of them */
  double mean[SOURCE_MAX_CHANNELS], deviation[SOURCE_MAX_CHANNELS]; /* of bytes of training images */
  int64_t tokens[SPLITS], bytes[SPLITS]; /* of text: number of tokens and their bytes; 0: not known */
  struct tokenizer *tokenizer;           /* of text; NULL: not known */
  bool of_model;                         /* it came with the model, which keeps it for later */
  int32_t mask_token, end_token;         /* -1: none */
  int64_t skipped, cut;                  /* records left out and cut because of the task's limit */
  bool preferences;         /* records are pairs of sequences, of which the first is preferred; their model is
                               another one before training: */
  float *reference[SPLITS]; /* [records][2]: log-probabilities by it; NULL: not known yet, read as 0 */
  int64_t conversations;    /* to train with; several may share a row; 0: records are something else */
  const char *longest;      /* place of the longest record, which sets the memory; NULL: all are alike */
  const char *marked_file;  /* file whose byte-order mark was skipped; NULL: no file has one */

  /* Reads the fields of a record, and dims[0] of ragged ones; fields[f] NULL: not wanted. A failure names
   * file and place. Any number of threads may call it; `thread` numbers them from 0. */
  neap_status (*read)(const struct source *source, enum split split, int64_t record, const struct draw *draw,
                      void *const *fields, int64_t *lengths);
  /* Reads the numbers of a field of f32 as they are in the file, not standardised; NaN: a gap, which is read
   * as the mean. NULL: nothing is standardised. */
  neap_status (*read_numbers)(const struct source *source, enum split split, int64_t record, int field,
                              double *numbers);
  /* Returns the length that a record needs, for buckets. NULL: all are alike. */
  int64_t (*length)(const struct source *source, enum split split, int64_t record);
  /* Returns a record's name for people; NULL: records have only numbers. The text belongs to the source. */
  const char *(*record_name)(const struct source *source, enum split split, int64_t record);
  void (*close)(struct source *source); /* frees what the region does not hold; may be NULL */

  struct table *table;      /* of a table: its columns; NULL: not a table */
  struct problems problems; /* problems of records, if they are told one by one */
  struct understood understood;

  /* Private. */
  void *context;
  struct region region;
  VECTOR(int) files; /* that are open */
};

/* Closes a source that was opened, whatever the status, or a zeroed one. */
void source_close(struct source *source);

/* Adds a field; `rank` dims follow as an array. NEAP_UNSUPPORTED: the source already has FIELD_LIMIT
 * fields. */
neap_status source_add_field(struct source *source, struct field field);

/* Returns the field of that name; -1: no such field. */
int source_find_field(const struct source *source, const char *name);

/* Returns the number of elements of a record's field; for a ragged one, of the longest record. */
int64_t field_elements(const struct field *field);

/* Returns the field of images, bytes [C, H, W]; NULL: the source has no images. */
const struct field *source_image(const struct source *source);

/* Opens a file for reading until source_close. An empty file is an error. */
neap_status source_open_file(struct source *source, const char *path, int *descriptor, size_t *size);

/* Has source_close close an open file; on failure it is closed now. `path` is for messages. */
neap_status source_keep_file(struct source *source, const char *path, int descriptor);

/* Reads `count` pieces of `bytes` bytes, `stride` apart, from `offset` on. NEAP_BAD_FORMAT: the file ends too
 * early. */
neap_status source_read_file(const char *path, int descriptor, size_t offset, int64_t count, size_t stride,
                             size_t bytes, uint8_t *data);

/* Opens a temporary file until source_close, for the content of `path`, which is for messages;
 * source_write_file appends bytes to it. */
neap_status source_temporary_file(struct source *source, const char *path, int *descriptor);
neap_status source_write_file(const char *path, int descriptor, const void *bytes, size_t count);

/* Splits "FILE,key=value,...": *values[0] is the text before the first key, *values[k] the text after
 * keys[k], if given. A comma that no known key follows belongs to the text before it. `keys` ends with
 * NULL. */
neap_status source_parse(struct source *source, const char *argument, const char *const *keys,
                         const char **const *values);

/* Returns true if the name of a tokenizer is that of a file. */
bool source_is_tokenizer(const char *name);

#endif
