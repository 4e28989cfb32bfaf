#include "layout/search.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/vector.h"

/* ---- Conflicts ---- */

/* The sections on whose contents a refutation rests. With more sections than bits, neighbours share one. */
enum { CONFLICT_WORDS = 4, CONFLICT_BITS = 64 * CONFLICT_WORDS };
struct conflict {
  uint64_t bits[CONFLICT_WORDS];
};

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

static void conflict_join(struct conflict *c, const struct conflict *other) {
  for (int i = 0; i < CONFLICT_WORDS; i++) c->bits[i] |= other->bits[i];
}

static bool conflict_touches(const struct conflict *c, const struct sections *sections, int32_t lower,
                             int32_t upper) {
  struct conflict range = {0};
  uint64_t common = 0;
  conflict_add_range(&range, sections, lower, upper);
  for (int i = 0; i < CONFLICT_WORDS; i++) common |= c->bits[i] & range.bits[i];
  return common != 0;
}

/* ---- State ---- */

/* What an item knew before a placement. */
struct change {
  int32_t item, witness;
  uint64_t offset, support;
};

enum { NOTHING = -1 };

/* A node: a window of time with what is not placed in it. Either it falls into parts that are solved one
 * after the other, or one section is chosen and its options are tried. */
struct frame {
  int32_t lower, upper;    /* sections */
  size_t list, list_count; /* items not placed, by falling offset */
  bool split;
  size_t options, option_count; /* boundaries of the parts; or items, the most promising first */
  size_t next;                  /* option to be tried */
  int32_t section, niche_lower, niche_upper;
  uint64_t level;  /* of the niche */
  uint64_t raised; /* the least level when nothing lies on it in the section; UINT64_MAX: too high */
  int32_t tried;   /* item, or NOTHING */
  size_t changes;  /* to go back to */
  struct conflict conflict;
};

/* Which question comes first: the one with the fewest answers, or the lowest one unless another has a single
 * answer. */
enum rule { FEWEST_FIRST, LOWEST_FIRST, RULES };

struct search {
  const struct sections *sections;
  uint64_t capacity;
  enum rule rule;
  int64_t work;
  /* by item: the lowest offset that placements and empty levels leave, which is its offset once placed; the
   * section that holds it up; the same by placements alone; larger keys are tried earlier */
  uint64_t *offset, *support;
  int32_t *witness;
  bool *placed;
  double *key;
  /* by section, of the window in hand */
  uint64_t *load, *level;
  int32_t *cover, *plateau;
  bool *low;             /* by plateau: the ones next to it are higher */
  int32_t *kept, *moved; /* by item: lists in the making */
  VECTOR(int32_t) lists;
  VECTOR(struct change) trail;
  VECTOR(struct frame) frames;
};

static const struct item *item_of(const struct search *x, int32_t i) { return &x->sections->items[i]; }
static const int32_t *list_of(const struct search *x, const struct frame *f) {
  return x->lists.data + f->list;
}

static bool covers(const struct item *item, int32_t section) {
  return item->lower <= section && section < item->upper;
}

static bool meets(const struct item *item, int32_t lower, int32_t upper) {
  return item->lower < upper && item->upper > lower;
}

/* Of items that are alike, one whose like before it is not placed waits. */
static bool waits(const struct search *x, int32_t i) {
  const int32_t twin = item_of(x, i)->twin;
  return twin >= 0 && !x->placed[twin];
}

/* ---- Refuting a node ---- */

static void explain_load(const struct search *x, struct frame *f, size_t last, int32_t section) {
  conflict_add(&f->conflict, x->sections, section);
  for (size_t i = 0; i <= last; i++) {
    const int32_t item = list_of(x, f)[i];
    if (covers(item_of(x, item), section)) conflict_add(&f->conflict, x->sections, x->witness[item]);
  }
}

/* Sums the loads of the window and finds its levels. In each section, whatever lies no lower than some
 * offset has to fit between it and the capacity: false where it does not. */
static bool bound_loads(struct search *x, struct frame *f) {
  memset(x->load + f->lower, 0, (size_t)(f->upper - f->lower) * sizeof *x->load);
  for (size_t i = 0; i < f->list_count; i++) {
    const int32_t id = list_of(x, f)[i];
    const struct item *item = item_of(x, id);
    const uint64_t offset = x->offset[id], room = x->capacity - offset;
    uint64_t most = 0;
    x->work -= item->upper - item->lower + 4;
    for (int32_t k = item->first; k < item->first + item->count; k++) {
      const struct piece piece = x->sections->pieces[k];
      for (int32_t s = piece.lower; s < piece.upper; s++) {
        const uint64_t load = x->load[s] + piece.size;
        x->load[s] = load;
        x->level[s] = offset; /* offsets fall: the last one is the section's level */
        most = load > most ? load : most;
      }
    }
    if (most <= room) continue;
    int32_t section = item->lower;
    while (x->load[section] <= room) section++;
    explain_load(x, f, i, section);
    return false;
  }
  return true;
}

/* Levels only rise. An item that fits below all of those it lies under could be lowered in whatever
 * follows: another branch has it there. */
static bool is_dominated(const struct search *x, struct frame *f) {
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
static neap_status find_parts(struct search *x, struct frame *f) {
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

static void find_plateaus(struct search *x, const struct frame *f) {
  int32_t count = 0;
  for (int32_t s = f->lower, end; s < f->upper; s = end, count++) {
    for (end = s; end < f->upper && x->level[end] == x->level[s]; end++) x->plateau[end] = count;
    x->low[count] =
        (s == f->lower || x->level[s - 1] > x->level[s]) && (end == f->upper || x->level[end] > x->level[s]);
  }
}

/* Sums up, by section, how many items can lie on its niche's level. */
static void count_options(struct search *x, const struct frame *f) {
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

static void choose_section(struct search *x, struct frame *f) {
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

/* Lists what can lie on the level in the chosen section. Where nothing does, the lowest item there lies on
 * another one: one that it waits for above the niche, or one beside the section. */
static neap_status list_options(struct search *x, struct frame *f) {
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

/* ---- Moving between nodes ---- */

enum progress { OPEN, FOUND, REFUTED, STOPPED };

static neap_status enter(struct search *x, struct frame *f, enum progress *progress) {
  *progress = f->list_count == 0 ? FOUND : x->work <= 0 ? STOPPED : OPEN;
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

static neap_status change(struct search *x, int32_t id, uint64_t offset, uint64_t support, int32_t witness) {
  TRY(vector_push(&x->trail, (struct change){id, x->witness[id], x->offset[id], x->support[id]}));
  x->offset[id] = offset;
  x->support[id] = support;
  x->witness[id] = witness;
  return NEAP_OK;
}

static void undo(struct search *x, size_t changes) {
  while (x->trail.count > changes) {
    const struct change *c = &x->trail.data[--x->trail.count];
    x->offset[c->item] = c->offset;
    x->support[c->item] = c->support;
    x->witness[c->item] = c->witness;
  }
}

/* The top of a placed item where another one meets it; 0 where it does not, and the section. */
static uint64_t top_below(const struct search *x, const struct item *item, uint64_t offset,
                          const struct item *other, int32_t *section) {
  uint64_t top = 0;
  if (!meets(other, item->lower, item->upper)) return 0;
  for (int32_t k = item->first; k < item->first + item->count; k++) {
    const struct piece *piece = &x->sections->pieces[k];
    if (!meets(other, piece->lower, piece->upper) || offset + piece->size <= top) continue;
    top = offset + piece->size;
    *section = other->lower > piece->lower ? other->lower : piece->lower;
  }
  return top;
}

/* Pushes the list of a node's child: those that moved, up from the others, which keep their order. */
static neap_status push_list(struct search *x, size_t kept, size_t moved) {
  TRY(vector_reserve(&x->lists, x->lists.count + kept + moved));
  for (size_t i = 1; i < moved; i++) { /* one span of a shape moves all alike: then this does nothing */
    const int32_t id = x->moved[i];
    size_t at = i;
    for (; at > 0 && x->offset[x->moved[at - 1]] < x->offset[id]; at--) x->moved[at] = x->moved[at - 1];
    x->moved[at] = id;
  }
  for (size_t i = 0, k = 0; i < kept || k < moved;) {
    const bool take_kept = k == moved || (i < kept && x->offset[x->kept[i]] >= x->offset[x->moved[k]]);
    x->lists.data[x->lists.count++] = take_kept ? x->kept[i++] : x->moved[k++];
  }
  return NEAP_OK;
}

static neap_status place(struct search *x, const struct frame *f) {
  const struct item *item = item_of(x, f->tried);
  size_t kept = 0, moved = 0;
  for (size_t i = 0; i < f->list_count; i++) {
    const int32_t id = list_of(x, f)[i];
    if (id == f->tried) continue;
    int32_t section = x->witness[id];
    const uint64_t top = top_below(x, item, f->level, item_of(x, id), &section);
    const bool moves = top > x->offset[id];
    if (top > x->support[id])
      TRY(change(x, id, moves ? top : x->offset[id], top, moves ? section : x->witness[id]));
    *(moves ? &x->moved[moved++] : &x->kept[kept++]) = id;
  }
  x->placed[f->tried] = true;
  return push_list(x, kept, moved);
}

static neap_status leave_empty(struct search *x, const struct frame *f) {
  size_t kept = 0, moved = 0;
  for (size_t i = 0; i < f->list_count; i++) {
    const int32_t id = list_of(x, f)[i];
    const bool moves = covers(item_of(x, id), f->section) && x->offset[id] < f->raised;
    if (moves) TRY(change(x, id, f->raised, x->support[id], f->section));
    *(moves ? &x->moved[moved++] : &x->kept[kept++]) = id;
  }
  return push_list(x, kept, moved);
}

static neap_status push_part(struct search *x, const struct frame *f, struct frame *part) {
  part->lower = x->lists.data[f->options + f->next];
  part->upper = x->lists.data[f->options + f->next + 1];
  TRY(vector_reserve(&x->lists, x->lists.count + f->list_count));
  for (size_t i = 0; i < f->list_count; i++) {
    const int32_t id = list_of(x, f)[i];
    if (meets(item_of(x, id), part->lower, part->upper)) x->lists.data[x->lists.count++] = id;
  }
  return NEAP_OK;
}

/* Pushes the child for the next option; what a node is when none is left. */
static neap_status descend(struct search *x, struct frame *f, enum progress *progress) {
  struct frame child = {.lower = f->lower, .upper = f->upper};
  *progress = OPEN;
  f->changes = x->trail.count;
  x->lists.count = f->options + f->option_count;
  child.list = x->lists.count;
  if (f->split) {
    *progress = f->next + 1 < f->option_count ? OPEN : FOUND;
    if (*progress == OPEN) TRY(push_part(x, f, &child));
  } else if (f->next < f->option_count) {
    f->tried = x->lists.data[f->options + f->next];
    TRY(place(x, f));
  } else {
    f->tried = NOTHING;
    *progress = f->next == f->option_count && f->raised != UINT64_MAX ? OPEN : REFUTED;
    if (*progress == OPEN) TRY(leave_empty(x, f));
  }
  if (*progress != OPEN) return NEAP_OK;
  f->next++;
  child.list_count = x->lists.count - child.list;
  return vector_push(&x->frames, child);
}

/* What a child's end means for its parent: OPEN, where another option is to be tried. */
static enum progress ascend(struct search *x, struct frame *f, enum progress child,
                            const struct conflict *conflict) {
  if (f->split) {
    if (child == FOUND) return OPEN;
    f->conflict = *conflict;
    for (size_t i = 0; i < f->list_count; i++) x->placed[list_of(x, f)[i]] = false; /* by earlier parts */
    return child;
  }
  if (child != REFUTED) return child;
  undo(x, f->changes);
  int32_t lower = f->section, upper = f->section + 1;
  if (f->tried != NOTHING) {
    x->placed[f->tried] = false;
    lower = item_of(x, f->tried)->lower;
    upper = item_of(x, f->tried)->upper;
  }
  if (!conflict_touches(conflict, x->sections, lower, upper)) { /* it holds whatever is done here */
    f->conflict = *conflict;
    return REFUTED;
  }
  conflict_join(&f->conflict, conflict);
  return OPEN;
}

/* From the bottom frame until it is decided. */
static neap_status run(struct search *x, enum progress *progress) {
  for (;;) {
    TRY(enter(x, &x->frames.data[x->frames.count - 1], progress));
    for (;;) {
      if (*progress == OPEN) TRY(descend(x, &x->frames.data[x->frames.count - 1], progress));
      if (*progress == OPEN) break; /* into the child */
      const struct conflict conflict = x->frames.data[x->frames.count - 1].conflict;
      if (--x->frames.count == 0 || *progress == STOPPED) return NEAP_OK;
      *progress = ascend(x, &x->frames.data[x->frames.count - 1], *progress, &conflict);
    }
  }
}

/* ---- Restarts ---- */

enum order { BY_SECTIONS, BY_AREA, BY_LOAD, BY_SIZE, BY_LENGTH, ORDERS };

/* Ranks the items. Ties, and near ties in proportion to `noise`, fall as `random` has it. */
static void rank_items(struct search *x, enum order order, const uint64_t *load, double noise,
                       uint32_t *random) {
  for (int32_t i = 0; i < x->sections->item_count; i++) {
    const struct item *item = item_of(x, i);
    uint64_t most = 0;
    for (int32_t s = item->lower; s < item->upper; s++) most = load[s] > most ? load[s] : most;
    const double area = (double)item->most * item->length, sections = item->upper - item->lower;
    const double keys[ORDERS] = {sections, area, (double)most, (double)item->most, item->length};
    *random ^= *random << 13; /* xorshift: the same every time */
    *random ^= *random >> 17;
    *random ^= *random << 5;
    x->key[i] = keys[order] * (1 + noise * *random / UINT32_MAX) + 1e-9 * area / (1 + area) * keys[order];
  }
}

/* One search from the start. */
static neap_status try_order(struct search *x, enum progress *progress) {
  const int32_t count = x->sections->item_count;
  struct frame root = {.upper = x->sections->count, .list_count = (size_t)count};
  x->lists.count = x->trail.count = x->frames.count = 0;
  TRY(vector_reserve(&x->lists, (size_t)count + 1));
  for (int32_t i = 0; i < count; i++) {
    x->lists.data[x->lists.count++] = i;
    x->offset[i] = x->support[i] = 0;
    x->witness[i] = item_of(x, i)->lower;
    x->placed[i] = false;
  }
  TRY(vector_push(&x->frames, root));
  return run(x, progress);
}

/* All orders and rules in turn, with limits that double, until one of them decides. */
static neap_status try_orders(struct search *x, const uint64_t *load, int64_t *work,
                              enum progress *progress) {
  uint32_t random = 2463534242u;
  /* Twice what it takes to the top without a single step back. */
  int64_t limit = 2 * (x->sections->covered + 8 * x->sections->item_count) * (x->sections->item_count + 1);
  *progress = STOPPED;
  for (int round = 0; *work > 0; round++, limit *= 2)
    for (int i = 0; i<ORDERS * RULES && * work> 0; i++) {
      rank_items(x, (enum order)(i / RULES), load, round == 0 ? 0 : 0.3, &random);
      x->rule = (enum rule)(i % RULES);
      const int64_t given = limit < *work ? limit : *work;
      x->work = given;
      TRY(try_order(x, progress));
      *work -= given - x->work;
      if (*progress != STOPPED) return NEAP_OK;
    }
  return NEAP_OK;
}

static neap_status prepare(struct search *x, struct region *region, uint64_t **load) {
  const size_t items = (size_t)x->sections->item_count, sections = (size_t)x->sections->count + 1;
  x->offset = region_alloc(region, items, sizeof *x->offset);
  x->support = region_alloc(region, items, sizeof *x->support);
  x->witness = region_alloc(region, items, sizeof *x->witness);
  x->placed = region_alloc(region, items, sizeof *x->placed);
  x->key = region_alloc(region, items, sizeof *x->key);
  x->kept = region_alloc(region, items, sizeof *x->kept);
  x->moved = region_alloc(region, items, sizeof *x->moved);
  x->load = region_alloc(region, sections, sizeof *x->load);
  x->level = region_alloc(region, sections, sizeof *x->level);
  x->cover = region_alloc(region, sections, sizeof *x->cover);
  x->plateau = region_alloc(region, sections, sizeof *x->plateau);
  x->low = region_alloc(region, sections, sizeof *x->low);
  *load = region_alloc(region, sections, sizeof **load);
  RETURN_IF(!x->offset || !x->support || !x->witness || !x->placed || !x->key || !x->kept || !x->moved ||
                !x->load || !x->level || !x->cover || !x->plateau || !x->low || !*load,
            NEAP_OUT_OF_MEMORY, "layout: out of memory");
  for (int32_t i = 0; i < x->sections->item_count; i++)
    for (int32_t k = item_of(x, i)->first; k < item_of(x, i)->first + item_of(x, i)->count; k++)
      for (int32_t s = x->sections->pieces[k].lower; s < x->sections->pieces[k].upper; s++)
        (*load)[s] += x->sections->pieces[k].size;
  return NEAP_OK;
}

neap_status search_placement(const struct sections *sections, uint64_t capacity, int64_t *work,
                             uint64_t *offsets, enum search_outcome *outcome) {
  struct search x = {.sections = sections, .capacity = capacity};
  struct region region = {0};
  uint64_t *load;
  enum progress progress = STOPPED;
  neap_status status = prepare(&x, &region, &load);
  if (status == NEAP_OK) status = try_orders(&x, load, work, &progress);
  if (status == NEAP_OK && progress == FOUND)
    for (int32_t i = 0; i < sections->item_count; i++) offsets[i] = x.offset[i];
  *outcome = progress == FOUND ? SEARCH_FOUND : progress == REFUTED ? SEARCH_NONE : SEARCH_STOPPED;
  vector_free(&x.lists);
  vector_free(&x.trail);
  vector_free(&x.frames);
  region_free(&region);
  return status;
}
