/* The loader: decides the order of records, divides them into batches, and writes them into the inputs of a
 * graph.
 *
 *     loader_open(&loader, "cifar10:DIR", &task)        the source and its buckets
 *     loader_divide(&loader, &plan)                     batches and micro-batches, order, augmentation
 *     loader_prepare(&loader, inputs, count)            the transforms that lead to the graph's inputs
 *     loader_attach(&loader, session)                   the memory of these inputs
 *     loader_fill(&loader, step, part)                  a micro-batch, in each step
 *
 * Everything is a function of seed, epoch and record; the number of threads does not matter. A loader
 * allocates nothing after loader_prepare. */
#ifndef NEAP_DATA_LOADER_H
#define NEAP_DATA_LOADER_H

#include "data/buckets.h"
#include "data/transform.h"
#include "graph/graph.h"

enum { INPUT_LIMIT = 16 };

/* The division of records into steps. */
struct division {
  int64_t batch, micro; /* for the longest records; micro divides batch */
  uint64_t seed;
  bool shuffle, augment; /* of training records */
  bool keep_last;        /* the records left over make a short last step; of pairs, always */
  float mixup;           /* not 0: records are mixed in pairs, by shares from Beta(mixup, mixup) */
  int32_t rank, ranks; /* this process takes micro-batches rank, rank + ranks, ... of a step; ranks 0: all */
};

struct ahead;
struct job;

struct loader {
  struct source source;
  struct stage stage;
  struct division division;
  struct bucket buckets[BUCKET_LIMIT]; /* by increasing length */
  int bucket_count;
  int64_t epoch_steps;
  int32_t micro_batches; /* of a full step */
  int64_t filled;        /* records of the micro-batch filled last, padding included */
  struct {
    const char *name;
    int slot;
  } inputs[INPUT_LIMIT]; /* of the graph */
  int input_count;
  int label;          /* the slot of labels; -1: the graph has none */
  int others, shares; /* slots of OTHER_LABELS and LABEL_SHARES, if records are mixed */
  int threads;

  /* Private. */
  struct region region;
  int32_t *by_bucket[SPLITS]; /* records in the order of their buckets; NULL: in their own order */
  int32_t *order;             /* places of training records in ordered_epoch; NULL: in their own order */
  int32_t *batches;           /* [epoch_steps] of that epoch, in their order; NULL: there is one bucket */
  int64_t ordered_epoch;      /* -1: none */
  int32_t *records;           /* [most records of a micro-batch] */
  unsigned char *scratch;     /* [threads][scratch_bytes], and as many for `ahead` */
  size_t scratch_bytes;       /* for one thread: a record, and the one that it is mixed with */
  struct ahead *ahead;        /* reads the next batch; NULL: records are quick to read */
  struct job *job;            /* the batch it reads, with its memory */
};

/* Opens a source for a task. Close with loader_close, whatever the status. */
neap_status loader_open(struct loader *loader, const char *text, const struct task *task);
neap_status loader_open_own(struct loader *loader, const neap_data_source *own, const struct task *task);
void loader_close(struct loader *loader);

/* Returns the length of the source's longest sequence; 0: its records have no length. */
int64_t loader_length(const struct loader *loader);

/* Divides the training records into steps: full batches of each bucket, and if there are several buckets also
 * the rest, padded. With `keep_last` the rest is a short step, whose micro-batches have nearly one size.
 * epoch_steps is 0 if there are fewer records than a batch. */
neap_status loader_divide(struct loader *loader, const struct division *division);

/* Gives the inputs of a graph, whose dims[0] counts records, as fields [INPUT_LIMIT] of a record, with the
 * graph's names. If `as_bytes`, images that are bytes go into it as bytes with a window (neap_byte_input). If
 * records are mixed, OTHER_LABELS and LABEL_SHARES are included; call loader_divide first. */
neap_status loader_list_inputs(const struct loader *loader, const struct neap_graph *graph, bool as_bytes,
                               struct field *inputs, int *count);

/* Finds the transforms that lead to these inputs and allocates their memory. NEAP_INVALID_ARGUMENT: an input
 * has no field of its name, type and shape; the message lists the fields. */
neap_status loader_prepare(struct loader *loader, const struct field *inputs, int count);

/* Has an input of that name filled in memory, record by record. Returns false if the graph has no such
 * input. */
bool loader_attach_input(struct loader *loader, const char *name, void *memory);

/* Attaches all inputs of the graph that the session has. */
void loader_attach(struct loader *loader, neap_session *session);

/* Returns the bucket of a step. */
int loader_bucket(struct loader *loader, int64_t step);

/* Returns the number of micro-batches of a step; loader_part_records, the records of one. */
int32_t loader_parts(struct loader *loader, int64_t step);
int64_t loader_part_records(struct loader *loader, int64_t step, int32_t part);

/* Fills the inputs with part `part` of a step. The last batch of a bucket is padded with empty records, whose
 * labels are -1. `labels_only`: fills nothing else. A failure is that of the first record that fails. */
neap_status loader_fill(struct loader *loader, int64_t step, int32_t part, bool labels_only);

/* Fills the inputs with the records from `first` on of a part's bucket, without random changes, and gives
 * their number; it is 0 if `first` is past the last record. */
neap_status loader_fill_at(struct loader *loader, enum split split, int bucket, int64_t first,
                           int64_t *count);

/* Fills the inputs with any records of a part's bucket, given by places [micro] in the order of buckets; a
 * negative place means no record. */
neap_status loader_fill_places(const struct loader *loader, enum split split, int bucket,
                               const int32_t *places, const struct draw *draw, bool labels_only);

/* Returns the number of elements of a record's label in a bucket. */
int64_t loader_labels_each(const struct loader *loader, int bucket);

/* Returns true if labels are values, not classes. */
bool loader_has_values(const struct loader *loader);

/* Returns the labels of the batch that was filled: i32, or f32 if they are values. */
const void *loader_labels(const struct loader *loader);

/* Return the second labels of the batch and the shares of the first; NULL: records are not mixed. */
const int32_t *loader_other_labels(const struct loader *loader);
const float *loader_label_shares(const struct loader *loader);

/* Counts the labels of the micro-batch filled last that are one of `classes` classes. */
double loader_count_labels(const struct loader *loader, int bucket, int64_t classes);

/* Gives the order of `count` records in an epoch: a permutation (Fisher and Yates) that depends on seed and
 * epoch alone; 0, 1, 2, ... without `shuffle`. */
void loader_order(uint64_t seed, int64_t epoch, bool shuffle, int64_t count, int32_t *order);

#endif
