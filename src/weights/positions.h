/* The positions of values in sparse parameters, as a bit for each element or as indices next to the values.
 * Values move in their pools as positions change: in place, without other memory. All calls need the memory
 * lent to the host. */
#ifndef NEAP_WEIGHTS_POSITIONS_H
#define NEAP_WEIGHTS_POSITIONS_H

#include "session/session.h"

/* Returns value `at` of a pool, in its own type. */
static inline unsigned char *sparse_element(const struct sparse_pool *p, int64_t at) {
  return p->data + dtype_bytes(p->dtype, (uint64_t)at);
}

/* Returns the number of values of a layer. */
int64_t positions_count(const struct sparse_layer *layer);

/* Walks over a layer's values by rising elements:
 *
 *     for (struct position v = positions_begin(sparse, layer); positions_next(&v);) ... */
struct position {
  int64_t element, at; /* element of the dense tensor in memory order; place in the pools */
  /* Private. */
  const struct sparse_layer *layer;
  const uint16_t *indices; /* of all pools' values */
  int64_t end, block;
};
struct position positions_begin(const struct sparse *sparse, const struct sparse_layer *layer);
bool positions_next(struct position *position);

/* Returns true if an element of a layer is to have a value; its current value is at `at` (-1: none). */
typedef bool has_value(void *context, int64_t element, int64_t at);

/* Drops the values that `kept` does not keep and moves the others to the front of the layer's. Returns their
 * number. */
int64_t positions_drop(struct sparse *sparse, struct sparse_layer *layer, has_value *kept, void *context);

/* Gives each layer room for counts[] values, at least the has[] values that it has. */
void positions_make_room(struct sparse *sparse, const int64_t *has, const int64_t *counts);

/* Gives a value of 0 to the layer's elements that `wanted` names and that have none, from its last element to
 * its first. The layer has `has` values and room for `count`, which it fills. */
void positions_grow(struct sparse *sparse, struct sparse_layer *layer, int64_t has, int64_t count,
                    has_value *wanted, void *context);

#endif
