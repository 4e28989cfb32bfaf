/* Sparse patterns of attention (Child et al. 2019; Beltagy et al. 2020): which keys a query sees, and the
 * tiles of queries and runs of keys that a kernel goes through for them.
 *
 * A pattern of steps needs no mask for them: queries that are whole steps apart see the same keys, so they
 * make up the tiles. */
#ifndef NEAP_BASE_ATTENTION_PATTERN_H
#define NEAP_BASE_ATTENTION_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* A query at place i sees key j if all of what is not 0 holds. Zeros: it sees every key. */
struct attention_pattern {
  int64_t step;    /* i - j is a multiple of it; 0: 1 */
  int64_t reach;   /* j is less than this many steps away */
  int64_t block;   /* i and j lie in one block of this many rows, or */
  int64_t columns; /* j is among the last ones of its block; at most `block` */
  int64_t global;  /* j is less than this, whatever the others say */
};

/* A reach beyond every key, to which a distance can be added. */
static inline int64_t attention_reach(const struct attention_pattern *p) {
  return p->reach < INT64_MAX / 4 ? p->reach : INT64_MAX / 4;
}

enum { ATTENTION_PATTERNS = 8 }; /* of one layer: head h has pattern h modulo their number */

/* The patterns of a layer's heads. */
struct attention_heads {
  struct attention_pattern of[ATTENTION_PATTERNS];
  int64_t count; /* 0: of[0] alone */
};

static inline const struct attention_pattern *attention_of_head(const struct attention_heads *heads,
                                                                int64_t head) {
  return &heads->of[heads->count > 1 ? head % heads->count : 0];
}

/* Returns whether a head does not see every key. */
bool attention_hides(const struct attention_heads *heads);

/* Reads the patterns of a layer from a list of entries, between which ; stands: layer i has entry i modulo
 * their number. An entry is a pattern, or several in brackets, with ; between them, for the heads:
 *     dense | window:W | strided:L | fixed:L,C | dilated:W,G
 * Behind it, or alone as an entry, which leaves a layer its `window` (0: none), global tokens may stand. They
 * are those of all heads:
 *     ,global=N | ,global=first
 * NEAP_INVALID_ARGUMENT: it is not one of these, or it is a pattern for a layer with a window;
 * NEAP_UNSUPPORTED: it is global=tokens. The message names the entry. The whole list is read, whatever the
 * layer. */
neap_status attention_read(const char *list, int64_t layer, int64_t window, struct attention_heads *heads);

/* Returns the number of entries of a list. */
int64_t attention_entries(const char *list);

/* Returns whether the query at place i sees key j, which, if `causal`, stands before it or is its own. */
static inline bool attention_sees(const struct attention_pattern *p, bool causal, int64_t i, int64_t j) {
  const int64_t step = p->step > 1 ? p->step : 1, away = i > j ? i - j : j - i;
  const bool named = away % step == 0 && !(p->reach > 0 && away / step >= p->reach) &&
                     (p->block == 0 || i / p->block == j / p->block || j % p->block >= p->block - p->columns);
  return !(causal && j > i) && (named || j < p->global);
}

/* Rows of a sequence in runs of neighbours: the k-th is first + (from + k) / run * stride + (from + k) % run.
 */
struct attention_rows {
  int64_t first, stride, run, from, count;
};

static inline int64_t attention_row(const struct attention_rows *r, int64_t k) {
  return r->run == 1 ? r->first + (r->from + k) * r->stride
                     : r->first + (r->from + k) / r->run * r->stride + (r->from + k) % r->run;
}

/* Returns the number of tiles, of at most `size` queries, that `queries` fall into. */
int64_t attention_tiles(const struct attention_pattern *p, int64_t queries, int64_t size);

/* Returns the queries of tile `index`, whole steps apart. Its count is not positive where it is beyond the
 * last one or has no query. */
struct attention_rows attention_tile(const struct attention_pattern *p, int64_t queries, int64_t size,
                                     int64_t index);

enum { ATTENTION_RUNS = 4 };

/* Gives the keys of [begin, end) that a query of a tile may see, in ascending order; returns into how many
 * rows they fall. With `block`, places must not be negative. */
int attention_keys(const struct attention_pattern *p, bool causal, const struct attention_rows *places,
                   int64_t begin, int64_t end, struct attention_rows keys[ATTENTION_RUNS]);

/* Gives the queries of a tile that see a key which attention_keys gave for it: [*first, *end), which may
 * exceed the tile. `place`: of the tile's first query; `stride`: from each to the next. */
static inline void attention_seen_by(const struct attention_pattern *p, bool causal, int64_t place,
                                     int64_t stride, int64_t key, int64_t *first, int64_t *end) {
  const int64_t ahead = (key - place) / stride;
  *first = causal ? ahead + (key > place + ahead * stride) : INT64_MIN;
  *end = INT64_MAX;
  if (key < p->global) return;
  if (p->reach > 0) {
    if (!causal) *first = ahead - attention_reach(p) + 1;
    *end = ahead + attention_reach(p);
  }
  if (p->block == 0) return;
  const int64_t block = key / p->block;
  if (key - block * p->block >= p->block - p->columns) return;
  if (block * p->block - place > *first) *first = block * p->block - place;
  *end = (block + 1) * p->block - place;
}

/* Returns the pairs of a query and a key that it sees. */
double attention_pairs(const struct attention_pattern *p, bool causal, int64_t queries, int64_t keys);

#endif
