/* One node of the exact search: refuted, cut into parts, or opened as a question with options. */
#ifndef NEAP_LAYOUT_EXACT_NODES_H
#define NEAP_LAYOUT_EXACT_NODES_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/vector.h"
#include "layout/sections.h"

/* The sections on whose contents a refutation depends. With more sections than bits, neighbours share one. */
enum { CONFLICT_WORDS = 4, CONFLICT_BITS = 64 * CONFLICT_WORDS };
struct conflict {
  uint64_t bits[CONFLICT_WORDS];
};

/* The state of an item before a placement. */
struct change {
  int32_t item, witness;
  uint64_t offset, support;
};

enum { NOTHING = -1 };
enum {
  LIST_LIMIT = 1 << 25
}; /* entries of all lists on the way to a node; a node that needs more is given up */

/* A node: a window of time with the items that are not placed in it. Either it falls into parts that are
 * solved one after the other, or one section is chosen and its options are tried. */
struct frame {
  int32_t lower, upper;    /* sections */
  size_t list, list_count; /* items not placed, by falling offset */
  bool split;
  size_t options, option_count; /* boundaries of the parts; or items, the most promising first */
  size_t next;                  /* option to be tried */
  int32_t section, niche_lower, niche_upper;
  uint64_t level;  /* of the niche */
  uint64_t raised; /* the least level if no item is on it in the section; UINT64_MAX: too high */
  int32_t tried;   /* item, or NOTHING */
  size_t changes;  /* to go back to */
  struct conflict conflict;
};

/* The question that comes first: the one with the fewest answers, or the lowest one unless another has a
 * single answer. */
enum rule { FEWEST_FIRST, LOWEST_FIRST, RULES };

struct exact_search {
  const struct sections *sections;
  uint64_t capacity;
  enum rule rule;
  int64_t work;
  const atomic_bool *superseded; /* it stops if another thread sets this; NULL: never */
  /* by item: the lowest offset that placements and empty levels allow, which is its offset once placed; the
   * section that supports it; the same by placements alone; larger keys are tried earlier */
  uint64_t *offset, *support;
  int32_t *witness;
  bool *placed;
  double *key;
  /* by section, of the current window */
  uint64_t *load, *level;
  int32_t *cover, *plateau;
  bool *low;             /* by plateau: both neighbours are higher */
  int32_t *kept, *moved; /* by item: lists in the making */
  VECTOR(int32_t) lists;
  VECTOR(struct change) trail;
  VECTOR(struct frame) frames;
};

/* The progress of a node. */
enum progress { OPEN, FOUND, REFUTED, STOPPED };

static inline const struct item *item_of(const struct exact_search *x, int32_t i) {
  return &x->sections->items[i];
}
static inline const int32_t *list_of(const struct exact_search *x, const struct frame *f) {
  return x->lists.data + f->list;
}

static inline bool covers(const struct item *item, int32_t section) {
  return item->lower <= section && section < item->upper;
}

static inline bool meets(const struct item *item, int32_t lower, int32_t upper) {
  return item->lower < upper && item->upper > lower;
}

/* Adds the sections of `other`. */
void conflict_join(struct conflict *c, const struct conflict *other);

/* Returns true if a refutation depends on any of the sections [lower, upper). */
bool conflict_touches(const struct conflict *c, const struct sections *sections, int32_t lower,
                      int32_t upper);

/* Examines a node whose window and list are set. FOUND: all items are placed. REFUTED: `conflict` says which
 * sections that depends on. STOPPED: the work is used up, the lists get too long, or the search is
 * superfluous. OPEN: its options are set, and `conflict` has the sections that prove that there are no
 * others. */
neap_status node_enter(struct exact_search *x, struct frame *f, enum progress *progress);

#endif
