/* The loader: in which order records come, in which batches, and what of them goes into the inputs of a
 * graph.
 *
 *     loader_open(&loader, "cifar10:DIR", &task)        the source and its buckets
 *     loader_divide(&loader, &plan)                     batches and micro-batches, order, augmentation
 *     loader_prepare(&loader, inputs, count)            the transforms that lead to the graph's inputs
 *     loader_attach(&loader, session)                   where these are
 *     loader_fill(&loader, step, part)                  a micro-batch, in each step
 *
 * Everything is a function of seed, epoch and record; the number of threads does not matter. What a loader
 * allocates is all there when loader_prepare returns. */
#ifndef NEAP_DATA_LOADER_H
#define NEAP_DATA_LOADER_H

#include "data/buckets.h"
#include "data/transform.h"
#include "graph/graph.h"

enum { INPUT_LIMIT = 16 };

/* How records are divided into steps. */
struct division {
  int64_t batch, micro; /* of the longest records; micro divides batch */
  uint64_t seed;
  bool shuffle, augment; /* of training records */
  bool keep_last;        /* those that are left over make a short last step; of pairs they always do */
  float mixup;           /* not 0: they are mixed in pairs, by shares from Beta(mixup, mixup) */
  int32_t rank, ranks;   /* this process takes the micro-batches rank, rank + ranks, ... of a step; 0: all */
};

struct ahead;
struct job;

struct loader {
  struct source source;
  struct stage stage;
  struct division division;
  struct bucket buckets[BUCKET_LIMIT]; /* rising lengths */
  int bucket_count;
  int64_t epoch_steps;
  int32_t micro_batches; /* of a whole step */
  int64_t filled;        /* records of the micro-batch that was filled last, with those that fill it up */
  struct {
    const char *name;
    int slot;
  } inputs[INPUT_LIMIT]; /* of the graph */
  int input_count;
  int label;          /* the slot of labels; -1: the graph has none */
  int others, shares; /* slots of OTHER_LABELS and LABEL_SHARES, where records are mixed */
  int threads;

  /* Private. */
  struct region region;
  int32_t *by_bucket[SPLITS]; /* records in the order of their buckets; NULL: as they are */
  int32_t *order;             /* places of training records, of ordered_epoch; NULL: as they are */
  int32_t *batches;           /* [epoch_steps] of that epoch, in their order; NULL: there is one bucket */
  int64_t ordered_epoch;      /* -1: none */
  int32_t *records;           /* [most of a micro-batch] */
  unsigned char *scratch;     /* [threads][scratch_bytes], and as many for `ahead` */
  size_t scratch_bytes;       /* of a thread: of a record on its way, and of one that it is mixed with */
  struct ahead *ahead;        /* reads the next batch; NULL: records are quick to read */
  struct job *job;            /* that it reads, with its memory */
};

/* Opens a source for a task. Close with loader_close, whatever the status. */
neap_status loader_open(struct loader *loader, const char *text, const struct task *task);
neap_status loader_open_own(struct loader *loader, const neap_data_source *own, const struct task *task);
void loader_close(struct loader *loader);

/* The longest of the source's sequences; 0: its records have no length. */
int64_t loader_length(const struct loader *loader);

/* Divides the training records into steps: of each bucket whole batches, and where there are several buckets
 * also the rest, filled up; with `keep_last` the rest is a short step, in micro-batches of nearly one size.
 * epoch_steps 0: there are fewer than a batch. */
neap_status loader_divide(struct loader *loader, const struct division *division);

/* The inputs of a graph, whose dims[0] counts records, as fields [INPUT_LIMIT] of a record. Names are the
 * graph's. Images that are bytes go into it as bytes with a window (neap_byte_input) where `as_bytes`. Where
 * records are mixed (loader_divide comes before), those of OTHER_LABELS and LABEL_SHARES are there, too. */
neap_status loader_list_inputs(const struct loader *loader, const struct neap_graph *graph, bool as_bytes,
                               struct field *inputs, int *count);

/* Finds the transforms that lead to these inputs and allocates what they need. NEAP_INVALID_ARGUMENT: an
 * input has no field of its name, type and shape; the message lists the fields. */
neap_status loader_prepare(struct loader *loader, const struct field *inputs, int count);

/* Has an input of that name filled in memory, record by record. False: it is none of the graph's. */
bool loader_attach_input(struct loader *loader, const char *name, void *memory);

/* All inputs of the graph that the session has. */
void loader_attach(struct loader *loader, neap_session *session);

/* The bucket of a step. */
int loader_bucket(struct loader *loader, int64_t step);

/* How many micro-batches a step has, and records one of them. */
int32_t loader_parts(struct loader *loader, int64_t step);
int64_t loader_part_records(struct loader *loader, int64_t step, int32_t part);

/* Fills the inputs with part `part` of a step; the last batch of a bucket is filled up with records that are
 * none, whose labels are -1. `labels_only`: nothing else. A failure is that of the first record that has one.
 */
neap_status loader_fill(struct loader *loader, int64_t step, int32_t part, bool labels_only);

/* Fills them with the records from `first` on of a part's bucket, as they are, and tells how many there are
 * (0: `first` is behind the last). */
neap_status loader_fill_at(struct loader *loader, enum split split, int bucket, int64_t first,
                           int64_t *count);

/* Fills them with any records of a part's bucket, by their places [micro] in the order of buckets; negative:
 * none. */
neap_status loader_fill_places(const struct loader *loader, enum split split, int bucket,
                               const int32_t *places, const struct draw *draw, bool labels_only);

/* Elements of a record's label in a bucket. */
int64_t loader_labels_each(const struct loader *loader, int bucket);

/* Whether labels are values, not classes. */
bool loader_has_values(const struct loader *loader);

/* The labels of the batch that was filled: i32, or f32 where they are values. */
const void *loader_labels(const struct loader *loader);

/* Where records are mixed: the second labels of the batch, and the shares of the first. NULL: they are not.
 */
const int32_t *loader_other_labels(const struct loader *loader);
const float *loader_label_shares(const struct loader *loader);

/* Counts the labels of the micro-batch that was filled which are one of `classes` classes. */
double loader_count_labels(const struct loader *loader, int bucket, int64_t classes);

/* The order of `count` records in an epoch: a permutation (Fisher and Yates), a function of seed and epoch
 * alone; 0, 1, 2, ... without `shuffle`. */
void loader_order(uint64_t seed, int64_t epoch, bool shuffle, int64_t count, int32_t *order);

#endif
