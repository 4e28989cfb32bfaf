#include "weights/positions.h"

#include <string.h>

static int64_t blocks_of(const struct sparse_layer *l) {
  return (l->elements + INDEX_BLOCK - 1) / INDEX_BLOCK;
}

static bool is_set(const uint8_t *bits, int64_t i) { return bits[i / 8] >> i % 8 & 1; }

static void set_bit(uint8_t *bits, int64_t i, bool value) {
  const uint8_t bit = (uint8_t)(1u << i % 8);
  bits[i / 8] = (uint8_t)(value ? bits[i / 8] | bit : bits[i / 8] & ~bit);
}

static int64_t count_bits(const uint8_t *bits, int64_t elements) {
  int64_t count = 0, i = 0;
  for (; i + 64 <= elements; i += 64) {
    uint64_t word;
    memcpy(&word, bits + i / 8, sizeof word);
    count += __builtin_popcountll(word);
  }
  for (; i < elements; i++) count += is_set(bits, i);
  return count;
}

int64_t positions_count(const struct sparse_layer *l) {
  return l->bits != NULL ? count_bits(l->bits, l->elements) : l->ends[blocks_of(l) - 1];
}

/* ---- Walking over values ---- */

struct position positions_begin(const struct sparse *sparse, const struct sparse_layer *l) {
  return (struct position){.element = -1,
                           .at = *l->offset - 1,
                           .layer = l,
                           .indices = sparse->indices,
                           .end = *l->offset + positions_count(l)};
}

bool positions_next(struct position *p) {
  const struct sparse_layer *l = p->layer;
  if (++p->at >= p->end) return false;
  if (l->bits != NULL) {
    do p->element++;
    while (!is_set(l->bits, p->element));
    return true;
  }
  while (p->at - *l->offset >= l->ends[p->block]) p->block++;
  p->element = p->block * INDEX_BLOCK + p->indices[p->at];
  return true;
}

/* ---- Moving values ---- */

static void move(struct sparse *sparse, int64_t from, int64_t to, int64_t count) {
  if (from == to) return;
  for (int32_t p = 0; p < sparse->pool_count; p++)
    memmove(sparse_element(&sparse->pools[p], to), sparse_element(&sparse->pools[p], from),
            dtype_bytes(sparse->pools[p].dtype, (uint64_t)count));
  if (sparse->indices != NULL)
    memmove(sparse->indices + to, sparse->indices + from, (size_t)count * sizeof *sparse->indices);
}

static void zero(struct sparse *sparse, int64_t at) {
  for (int32_t p = 0; p < sparse->pool_count; p++)
    memset(sparse_element(&sparse->pools[p], at), 0, dtype_bytes(sparse->pools[p].dtype, 1));
}

/* Moves the value at `from` to `*to`, if it is kept. */
static bool keep(struct sparse *sparse, int64_t element, int64_t from, int64_t *to, has_value *kept,
                 void *context) {
  if (!kept(context, element, from)) return false;
  move(sparse, from, (*to)++, 1);
  return true;
}

int64_t positions_drop(struct sparse *sparse, struct sparse_layer *l, has_value *kept, void *context) {
  const int64_t first = *l->offset;
  int64_t from = first, to = first;
  for (int64_t i = 0; l->bits != NULL && i < l->elements; i++)
    if (is_set(l->bits, i) && !keep(sparse, i, from++, &to, kept, context)) set_bit(l->bits, i, false);
  for (int64_t b = 0; l->ends != NULL && b < blocks_of(l); b++) {
    const int64_t end = first + l->ends[b];
    for (; from < end; from++)
      keep(sparse, b * INDEX_BLOCK + sparse->indices[from], from, &to, kept, context);
    l->ends[b] = (int32_t)(to - first);
  }
  return to - first;
}

void positions_make_room(struct sparse *sparse, const int64_t *has, const int64_t *counts) {
  int64_t at = 0, end = 0;
  for (int32_t k = 0; k < sparse->layer_count; k++) {
    struct sparse_layer *l = &sparse->layers[k];
    move(sparse, *l->offset, at, has[k]);
    *l->offset = (int32_t)at;
    at += has[k];
    end += counts[k];
  }
  for (int32_t k = sparse->layer_count; k-- > 0;) {
    struct sparse_layer *l = &sparse->layers[k];
    end -= counts[k];
    move(sparse, *l->offset, end, has[k]);
    *l->offset = (int32_t)end;
  }
}

/* The state of growing: values before `from` are still to be moved to before `to`. */
struct growth {
  struct sparse *sparse;
  struct sparse_layer *layer;
  int64_t from, to;
  has_value *wanted;
  void *context;
};

static void grow_bits(struct growth *g) {
  uint8_t *bits = g->layer->bits;
  for (int64_t i = g->layer->elements; i-- > 0 && g->from != g->to;) {
    if (is_set(bits, i)) {
      move(g->sparse, --g->from, --g->to, 1);
    } else if (g->wanted(g->context, i, -1)) {
      set_bit(bits, i, true);
      zero(g->sparse, --g->to);
    }
  }
}

/* Grows one block, whose values begin at `begin`. */
static void grow_block(struct growth *g, int64_t block, int64_t begin) {
  const int64_t base = block * INDEX_BLOCK, left = g->layer->elements - base;
  uint16_t *indices = g->sparse->indices;
  for (int64_t i = left < INDEX_BLOCK ? left : INDEX_BLOCK; i-- > 0 && g->from != g->to;) {
    if (g->from > begin && indices[g->from - 1] == i) {
      move(g->sparse, --g->from, --g->to, 1);
    } else if (g->wanted(g->context, base + i, -1)) {
      zero(g->sparse, --g->to);
      indices[g->to] = (uint16_t)i;
    }
  }
}

void positions_grow(struct sparse *sparse, struct sparse_layer *l, int64_t has, int64_t count,
                    has_value *wanted, void *context) {
  const int64_t first = *l->offset;
  struct growth g = {sparse, l, first + has, first + count, wanted, context};
  if (l->bits != NULL) grow_bits(&g);
  for (int64_t b = l->ends != NULL ? blocks_of(l) : 0; b-- > 0 && g.from != g.to;) {
    l->ends[b] = (int32_t)(g.to - first);
    grow_block(&g, b, first + (b > 0 ? l->ends[b - 1] : 0));
  }
}
