#include "layout/exact_nodes.h"

#include <string.h>

#include "base/targets.h"

/* ---- Conflicts ---- */

static int conflict_bit(const struct sections *sections, int32_t section) {
  return sections->count <= CONFLICT_BITS ? section
                                          : (int)((int64_t)section * CONFLICT_BITS / sections->count);
}

static void conflict_add(struct conflict *c, const struct sections *sections, int32_t section) {
  const int bit = conflict_bit(sections, section);
  c->bits[bit / 64] |= (uint64_t)1 << bit % 64;
}

static void conflict_add_range(struct conflict *c, const struct sections *sections, int32_t lower,
                               int32_t upper) {
  for (int32_t s = lower; s < upper; s++) conflict_add(c, sections, s);
}

void conflict_join(struct conflict *c, const struct conflict *other) {
  for (int i = 0; i < CONFLICT_WORDS; i++) c->bits[i] |= other->bits[i];
}

bool conflict_touches(const struct conflict *c, const struct sections *sections, int32_t lower,
                      int32_t upper) {
  struct conflict range = {0};
  uint64_t common = 0;
  conflict_add_range(&range, sections, lower, upper);
  for (int i = 0; i < CONFLICT_WORDS; i++) common |= c->bits[i] & range.bits[i];
  return common != 0;
}

/* Returns true if the item waits: an equal item before it is not placed. */
static bool waits(const struct exact_search *x, int32_t i) {
  const int32_t twin = item_of(x, i)->twin;
  return twin >= 0 && !x->placed[twin];
}

/* ---- Refuting a node ---- */

static void explain_load(const struct exact_search *x, struct frame *f, size_t last, int32_t section) {
  conflict_add(&f->conflict, x->sections, section);
  for (size_t i = 0; i <= last; i++) {
    const int32_t item = list_of(x, f)[i];
    if (covers(item_of(x, item), section)) conflict_add(&f->conflict, x->sections, x->witness[item]);
  }
}

/* Adds a piece to the loads of its sections, whose level becomes the offset; returns the largest of the
 * sums. */
static inline uint64_t add_piece(uint64_t *restrict load, uint64_t *restrict level, int32_t count,
                                 uint64_t size, uint64_t offset) {
  uint64_t most = 0;
  for (int32_t s = 0; s < count; s++) {
    const uint64_t sum = load[s] + size;
    load[s] = sum;
    level[s] = offset;
    most = sum > most ? sum : most;
  }
  return most;
}

/* Sums the loads of the window and finds its levels: offsets fall, so the last one is the section's level. In
 * each section, the items at or above an offset must fit between it and the capacity. Returns the place in
 * the list of the first that does not, or the list's length. */
FOR_EACH_TARGET static size_t sum_loads(struct exact_search *x, const struct frame *f) {
  const int32_t *list = list_of(x, f);
  const struct item *items = x->sections->items;
  const struct piece *pieces = x->sections->pieces;
  memset(x->load + f->lower, 0, (size_t)(f->upper - f->lower) * sizeof *x->load);
  for (size_t i = 0; i < f->list_count; i++) {
    const struct item *item = &items[list[i]];
    const uint64_t offset = x->offset[list[i]];
    uint64_t most = 0;
    x->work -= item->upper - item->lower + 4;
    for (int32_t k = item->first; k < item->first + item->count; k++) {
      const struct piece *piece = &pieces[k];
      const uint64_t sum = add_piece(x->load + piece->lower, x->level + piece->lower,
                                     piece->upper - piece->lower, piece->size, offset);
      most = sum > most ? sum : most;
    }
    if (most > x->capacity - offset) return i;
  }
  return f->list_count;
}

static bool bound_loads(struct exact_search *x, struct frame *f) {
  const size_t last = sum_loads(x, f);
  if (last == f->list_count) return true;
  const int32_t id = list_of(x, f)[last];
  int32_t section = item_of(x, id)->lower;
  while (x->load[section] <= x->capacity - x->offset[id]) section++;
  explain_load(x, f, last, section);
  return false;
}

/* Returns true if an item could be lowered: it fits below all items above it. Levels only rise, so this holds
 * in all that follows, and another branch has it there. */
static bool is_dominated(const struct exact_search *x, struct frame *f) {
  for (size_t i = 0; i < f->list_count; i++) {
    const int32_t id = list_of(x, f)[i];
    const struct item *item = item_of(x, id);
    if (x->support[id] >= x->offset[id] || x->offset[id] - x->support[id] < item->most) continue;
    int32_t s = item->lower;
    while (s < item->upper && x->level[s] >= x->support[id] && x->level[s] - x->support[id] >= item->most)
      s++;
    if (s < item->upper) continue;
    conflict_add_range(&f->conflict, x->sections, item->lower, item->upper);
    for (size_t j = 0; j < f->list_count; j++) {
      const int32_t other = list_of(x, f)[j];
      if (meets(item_of(x, other), item->lower, item->upper))
        conflict_add(&f->conflict, x->sections, x->witness[other]);
    }
    return true;
  }
  return false;
}

/* ---- Options of a node ---- */

/* Cuts the window where no item crosses. */
static neap_status find_parts(struct exact_search *x, struct frame *f) {
  int32_t crossing = 0;
  memset(x->cover + f->lower, 0, (size_t)(f->upper - f->lower + 1) * sizeof *x->cover);
  for (size_t i = 0; i < f->list_count; i++) {
    const struct item *item = item_of(x, list_of(x, f)[i]);
    x->cover[item->lower + 1]++; /* at the boundary before a section: how many cross it, as differences */
    x->cover[item->upper]--;
  }
  f->options = x->lists.count;
  TRY(vector_push(&x->lists, f->lower));
  for (int32_t s = f->lower + 1; s < f->upper; s++) {
    crossing += x->cover[s];
    if (crossing == 0) TRY(vector_push(&x->lists, s));
  }
  TRY(vector_push(&x->lists, f->upper));
  f->option_count = x->lists.count - f->options;
  f->split = f->option_count > 2;
  if (!f->split) x->lists.count = f->options;
  return NEAP_OK;
}

static void find_plateaus(struct exact_search *x, const struct frame *f) {
  int32_t count = 0;
  for (int32_t s = f->lower, end; s < f->upper; s = end, count++) {
    for (end = s; end < f->upper && x->level[end] == x->level[s]; end++) x->plateau[end] = count;
    x->low[count] =
        (s == f->lower || x->level[s - 1] > x->level[s]) && (end == f->upper || x->level[end] > x->level[s]);
  }
}

/* Counts, by section, the items that can be on its niche's level. */
static void count_options(struct exact_search *x, const struct frame *f) {
  memset(x->cover + f->lower, 0, (size_t)(f->upper - f->lower + 1) * sizeof *x->cover);
  for (size_t i = 0; i < f->list_count; i++) {
    const int32_t id = list_of(x, f)[i];
    const struct item *item = item_of(x, id);
    if (!x->low[x->plateau[item->lower]] || x->plateau[item->lower] != x->plateau[item->upper - 1] ||
        x->offset[id] != x->level[item->lower] || waits(x, id))
      continue;
    x->cover[item->lower]++;
    x->cover[item->upper]--;
  }
}

static void choose_section(struct exact_search *x, struct frame *f) {
  int32_t options = 0, best_rank = INT32_MAX, best_all = INT32_MAX;
  find_plateaus(x, f);
  count_options(x, f);
  f->section = -1;
  for (int32_t s = f->lower; s < f->upper; s++) {
    options += x->cover[s];
    if (!x->low[x->plateau[s]]) continue;
    const int32_t all = options + (x->capacity - x->level[s] > x->load[s]);
    /* Under both rules what has a single answer, which is no choice, goes first. */
    const int32_t rank = x->rule == FEWEST_FIRST || all == 1 ? all : 2;
    if (rank > best_rank || (rank == best_rank && x->level[s] > f->level) ||
        (rank == best_rank && x->level[s] == f->level && all >= best_all))
      continue;
    f->section = s;
    f->level = x->level[s];
    best_rank = rank;
    best_all = all;
  }
  const int32_t niche = x->plateau[f->section];
  f->niche_lower = f->niche_upper = f->section;
  while (f->niche_lower > f->lower && x->plateau[f->niche_lower - 1] == niche) f->niche_lower--;
  while (f->niche_upper < f->upper && x->plateau[f->niche_upper] == niche) f->niche_upper++;
}

/* Lists the items that can be on the level in the chosen section. If none is, the lowest item there is on
 * another one: one that it waits for above the niche, or one next to the section. */
static neap_status list_options(struct exact_search *x, struct frame *f) {
  const uint64_t room = x->capacity - f->level - x->load[f->section];
  uint64_t raised = UINT64_MAX;
  f->options = x->lists.count;
  TRY(vector_reserve(&x->lists, x->lists.count + f->list_count));
  conflict_add(&f->conflict, x->sections, f->section);
  for (size_t i = 0; i < f->list_count; i++) {
    const int32_t id = list_of(x, f)[i];
    const struct item *item = item_of(x, id);
    if (covers(item, f->section)) {
      conflict_add(&f->conflict, x->sections, x->witness[id]);
      if (x->offset[id] > f->level && x->offset[id] < raised) raised = x->offset[id];
      if (x->offset[id] > f->level || waits(x, id)) continue;
      size_t at = x->lists.count++;
      for (; at > f->options && x->key[x->lists.data[at - 1]] < x->key[id]; at--)
        x->lists.data[at] = x->lists.data[at - 1];
      x->lists.data[at] = id;
    } else if (meets(item, f->niche_lower, f->niche_upper) && item->least <= x->capacity - x->offset[id] &&
               x->offset[id] + item->least < raised) {
      raised = x->offset[id] + item->least;
    }
  }
  f->option_count = x->lists.count - f->options;
  f->raised = raised != UINT64_MAX && raised - f->level <= room ? raised : UINT64_MAX;
  if (room == 0) return NEAP_OK; /* the section alone says that something lies on it */
  conflict_add_range(&f->conflict, x->sections, f->niche_lower, f->niche_upper);
  for (size_t i = 0; i < f->list_count; i++) {
    const int32_t id = list_of(x, f)[i];
    if (meets(item_of(x, id), f->niche_lower, f->niche_upper))
      conflict_add(&f->conflict, x->sections, x->witness[id]);
  }
  return NEAP_OK;
}

static bool must_stop(const struct exact_search *x) {
  return x->work <= 0 || x->lists.count > LIST_LIMIT ||
         (x->superseded != NULL && atomic_load_explicit(x->superseded, memory_order_relaxed));
}

neap_status node_enter(struct exact_search *x, struct frame *f, enum progress *progress) {
  *progress = f->list_count == 0 ? FOUND : OPEN;
  if (*progress == OPEN && must_stop(x)) *progress = STOPPED;
  if (*progress != OPEN) return NEAP_OK;
  TRY(find_parts(x, f));
  if (f->split) return NEAP_OK;
  if (!bound_loads(x, f) || is_dominated(x, f)) {
    *progress = REFUTED;
    return NEAP_OK;
  }
  x->work -= 4 * (f->upper - f->lower) + 4 * (int64_t)f->list_count;
  choose_section(x, f);
  return list_options(x, f);
}
