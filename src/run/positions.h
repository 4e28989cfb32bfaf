/* Which elements of sparse parameters have values, as a bit an element or as indices beside the values; and
 * how values move in their pools as that changes: in place, without other memory. All of it while the memory
 * is lent to the host. */
#ifndef NEAP_RUN_POSITIONS_H
#define NEAP_RUN_POSITIONS_H

#include "run/session.h"

/* Value `at` of a pool, in its own type. */
static inline unsigned char *sparse_element(const struct sparse_pool *p, int64_t at) {
  return p->data + dtype_bytes(p->dtype, (uint64_t)at);
}

/* Values of a layer. */
int64_t positions_count(const struct sparse_layer *layer);

/* Goes over them by rising elements:
 *     for (struct position v = positions_begin(sparse, layer); positions_next(&v);) ... */
struct position {
  int64_t element, at; /* of the dense tensor as it lies in memory; place in the pools */
  /* Private. */
  const struct sparse_layer *layer;
  const uint16_t *indices; /* of all pools' values */
  int64_t end, block;
};
struct position positions_begin(const struct sparse *sparse, const struct sparse_layer *layer);
bool positions_next(struct position *position);

/* Whether the element of a layer, whose value stands at `at` (-1: it has none), is to have one. */
typedef bool has_value(void *context, int64_t element, int64_t at);

/* Drops the values that `kept` does not keep; the others move to the front of the layer's. Their number. */
int64_t positions_drop(struct sparse *sparse, struct sparse_layer *layer, has_value *kept, void *context);

/* Gives each layer room for counts[] values, which are no fewer than it has: has[]. */
void positions_make_room(struct sparse *sparse, const int64_t *has, const int64_t *counts);

/* Gives those of the layer's elements without a value that `wanted` names one of 0, from its last element to
 * its first. It has `has` values and room for `count`, which it fills. */
void positions_grow(struct sparse *sparse, struct sparse_layer *layer, int64_t has, int64_t count,
                    has_value *wanted, void *context);

#endif
