/* Transforms convert records on their way from a source to the inputs of a graph.
 *
 * A slot is a place for one value of a record. The first slots are the source's fields; a transform changes
 * slots or adds some, whose names may hide earlier ones. An input of the graph takes the last slot of its
 * name. Transforms are pure: what they draw depends only on seed, epoch and record. */
#ifndef NEAP_DATA_TRANSFORM_H
#define NEAP_DATA_TRANSFORM_H

#include "data/source.h"

enum { SLOT_LIMIT = 24, TRANSFORM_LIMIT = 12, TRANSFORM_SLOTS = 4 };

struct slot {
  struct field field;
  unsigned char *memory; /* a batch, record by record: an input of the session; NULL: the thread's own, */
  size_t offset;         /* at this offset there */
};

/* A record on its way. */
struct sample {
  const struct draw *draw;
  int64_t record;              /* in its part; negative: padding of a batch, no record */
  int64_t length;              /* of ragged values in this batch */
  void *values[SLOT_LIMIT];    /* NULL: not wanted */
  int64_t lengths[SLOT_LIMIT]; /* dims[0] of ragged values */
};

struct stage;

struct transform {
  const char *name, *summary;
  /* Finds its slots and adds new ones. *applies is false if it has nothing to do. */
  neap_status (*prepare)(struct stage *stage, const struct field *wanted, int wanted_count, int *slots,
                         bool *applies);
  void (*apply)(const struct stage *stage, const int *slots, struct sample *sample);
};

/* The fields of a source and all transforms that apply to them, in their order. */
struct stage {
  const struct source *source;
  struct slot slots[SLOT_LIMIT];
  int slot_count;
  struct {
    const struct transform *transform;
    int slots[TRANSFORM_SLOTS];
  } steps[TRANSFORM_LIMIT];
  int step_count;
  size_t scratch_bytes;                   /* of a thread */
  float normal[SOURCE_MAX_CHANNELS][256]; /* (byte - mean) / deviation */
};

/* Adds a slot; `*slot` is its number. */
neap_status stage_add_slot(struct stage *stage, struct field field, int *slot);

/* Returns the last slot of that name; -1: no such slot. */
int stage_find_slot(const struct stage *stage, const char *name);

/* Returns the wanted field of that name; NULL: no such field. */
const struct field *find_wanted(const struct field *wanted, int count, const char *name);

/* Returns the bytes of a record's value in a batch whose ragged values have `length`. */
size_t slot_bytes(const struct slot *slot, int64_t length);

#endif
