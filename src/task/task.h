/* Tasks: the records that a model learns from, its shape, and the tokenizer and template that it brings. */
#ifndef NEAP_TASK_TASK_H
#define NEAP_TASK_TASK_H

#include "base/region.h"
#include "base/status.h"

enum { TASK_KINDS = NEAP_TASK_TEXTS + 1 };

struct encoding;
struct tokenizer;
struct chat_template;

/* The labels of a file's classifier, in its order. */
struct task_labels {
  int64_t count; /* 0: it has no classifier */
  const char *const *names;
  bool values; /* `count` values, not classes */
};

/* Parts of a model for texts. NULL and zeros: it has no such part of its own. */
struct task_texts {
  neap_status (*read_tokenizer)(const neap_model *model, struct tokenizer **tokenizer);
  neap_status (*read_template)(const neap_model *model, struct chat_template **chat);
  neap_status (*read_labels)(const neap_model *model, struct region *region, struct task_labels *labels);
};

/* The options by which conversations become tokens. Zeros: as the source's name and the model say. */
struct task_chat {
  const char
      *template_name;   /* that the user asks for, before the model's; NULL: "chatml" where that has none */
  bool train_on_prompt; /* all tokens carry loss, not the assistant's alone */
  bool skip_long;       /* conversations longer than a sequence are left out, not cut */
  bool packed;          /* several share a row; tokens come with their places, "place" [N, T] */
};

/* The numbers by which a model of images converts a byte: (byte - mean) / deviation, by channel. Zeros: those
 * of the data. */
struct task_pixels {
  double mean[4], deviation[4];
};

/* A kind of task. */
struct task_row {
  const char *input, *label; /* inputs of its graph; an image may also come as bytes, see neap_byte_input */
  const char *records;       /* the records of a batch: "images", "sequences", "records" or "pairs" */
  const char *learns;        /* "images", "sequences of tokens" */
  neap_task like;            /* the first kind that learns from the same data */
};
extern const struct task_row task_rows[TASK_KINDS];

/* The demands of a model on data that are opened for it. Zeros: none. */
struct task {
  neap_task kind;
  int64_t image[3], classes;             /* of the model; a source that draws its records draws such */
  int64_t asked_image[3], asked_classes; /* by the user */
  int64_t batch;                         /* there are some batches, whatever they take */
  int64_t length, width;                 /* of sequences, and of their vectors */
  int64_t asked_length;                  /* by the user: the most that a pair may have */
  struct task_pixels pixels;             /* of the model */
  bool any_length;                       /* the model's weights serve shorter sequences, too */
  struct task_chat chat;
  const struct encoding
      *encoding; /* by which records become what the model has learned from (data/encoding.h);
                    labels may be missing then; NULL: the data are learned from */
  const struct encoding
      *before;             /* of the run that goes on, whose records are read as they were; NULL: none does */
  const neap_model *model; /* NULL: none is given; else */
  const struct task_texts *texts; /* what it brings: a source takes it where nothing else is asked for */
  int threads;                    /* that read records; 0: as many as there are processors */
};

#endif
