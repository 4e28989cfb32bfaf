/* What a model learns from: the fields that go in, what its label is, and the shape that is asked for. */
#ifndef NEAP_GRAPH_TASK_H
#define NEAP_GRAPH_TASK_H

#include "base/region.h"
#include "base/status.h"

enum task_kind {
  TASK_IMAGES,   /* "image" [N, C, H, W], a class each: "label" [N] */
  TASK_PIXELS,   /* the same, a class for each pixel: "label" [N, H', W'] */
  TASK_TOKENS,   /* "tokens" [N, T], each one's next token: "label" [N, T]. Classes are the vocabulary */
  TASK_MASKED,   /* the same, but labels are those of tokens that are masked */
  TASK_VECTORS,  /* "sequence" [N, T, K], a class each: "label" [N, T] */
  TASK_FEATURES, /* "features" [N, K], a class each: "label" [N]; or values "label" [N, L]. Images do, too */
  TASK_PAIRS,    /* "source" [N, S], with -1 behind its end, and "tokens" and "label" as above */
  TASK_TEXTS,    /* "tokens" [N, T], with -1 behind a text's end; "label" as of TASK_FEATURES */
  TASK_KINDS
};

/* Inputs of a graph whose records have two labels (neap_softmax_cross_entropy_mixed). */
#define OTHER_LABELS "other_labels"
#define LABEL_SHARES "label_shares"

struct encoding;
struct tokenizer;
struct chat_template;

/* What a classifier of a file tells apart, in its order. */
struct task_labels {
  int64_t count; /* 0: it has no classifier */
  const char *const *names;
  bool values; /* `count` values, not classes */
};

/* What a model of a file brings for texts, by its name; NULL where it has none of its own. */
struct task_texts {
  neap_status (*read_tokenizer)(const char *model, struct tokenizer **tokenizer);
  neap_status (*read_template)(const char *model, struct chat_template **chat);
  neap_status (*read_labels)(const char *model, struct region *region, struct task_labels *labels);
};

/* How conversations become tokens. Zeros: as the source's name and the model say. */
struct task_chat {
  const char
      *template_name;   /* that the user asks for, before the model's; NULL: "chatml" where that has none */
  bool train_on_prompt; /* all tokens carry loss, not the assistant's alone */
  bool skip_long;       /* what is longer than a sequence is left out, not cut */
  bool packed;          /* several share a row; tokens come with their places, "place" [N, T] */
};

/* What a model of images makes of a byte: (byte - mean) / deviation, by channel. Zeros: what the data say. */
struct task_pixels {
  double mean[4], deviation[4];
};

/* Of a kind of task. */
struct task_row {
  const char *input, *label; /* inputs of its graph; an image may also come as bytes, see neap_byte_input */
  const char *records;       /* what a batch has: "images", "sequences", "records" or "pairs" */
  const char *learns; /* "images", "sequences of tokens": kinds that share it learn from the same data */
};
extern const struct task_row task_rows[TASK_KINDS];

/* What is asked of data that are opened for a model. Zeros: nothing. */
struct task {
  enum task_kind kind;
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
      *before;       /* of the run that goes on, whose records are read as they were; NULL: none does */
  const char *model; /* NULL: none is given; else */
  const struct task_texts *texts; /* what it brings: a source takes it where nothing else is asked for */
  int threads;                    /* that read records; 0: as many as there are processors */
};

#endif
