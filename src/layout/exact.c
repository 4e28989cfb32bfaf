#include "layout/exact.h"

#include <stdlib.h>

#include "base/parallel.h"
#include "base/random.h"
#include "base/stop.h"
#include "layout/exact_nodes.h"

/* ---- Moving between nodes ---- */

static neap_status change(struct exact_search *x, int32_t id, uint64_t offset, uint64_t support,
                          int32_t witness) {
  TRY(vector_push(&x->trail, (struct change){id, x->witness[id], x->offset[id], x->support[id]}));
  x->offset[id] = offset;
  x->support[id] = support;
  x->witness[id] = witness;
  return NEAP_OK;
}

static void undo(struct exact_search *x, size_t changes) {
  while (x->trail.count > changes) {
    const struct change *c = &x->trail.data[--x->trail.count];
    x->offset[c->item] = c->offset;
    x->support[c->item] = c->support;
    x->witness[c->item] = c->witness;
  }
}

/* Returns the top of a placed item if another one meets it, and the section; else 0. */
static uint64_t top_below(const struct exact_search *x, const struct item *item, uint64_t offset,
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

/* Pushes the list of a node's child: the items that moved, merged into the others, which keep their order. */
static neap_status push_list(struct exact_search *x, size_t kept, size_t moved) {
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

static neap_status place(struct exact_search *x, const struct frame *f) {
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

static neap_status leave_empty(struct exact_search *x, const struct frame *f) {
  size_t kept = 0, moved = 0;
  for (size_t i = 0; i < f->list_count; i++) {
    const int32_t id = list_of(x, f)[i];
    const bool moves = covers(item_of(x, id), f->section) && x->offset[id] < f->raised;
    if (moves) TRY(change(x, id, f->raised, x->support[id], f->section));
    *(moves ? &x->moved[moved++] : &x->kept[kept++]) = id;
  }
  return push_list(x, kept, moved);
}

static neap_status push_part(struct exact_search *x, const struct frame *f, struct frame *part) {
  part->lower = x->lists.data[f->options + f->next];
  part->upper = x->lists.data[f->options + f->next + 1];
  TRY(vector_reserve(&x->lists, x->lists.count + f->list_count));
  for (size_t i = 0; i < f->list_count; i++) {
    const int32_t id = list_of(x, f)[i];
    if (meets(item_of(x, id), part->lower, part->upper)) x->lists.data[x->lists.count++] = id;
  }
  return NEAP_OK;
}

/* Pushes the child for the next option; without one, sets the node's progress. */
static neap_status descend(struct exact_search *x, struct frame *f, enum progress *progress) {
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

/* Returns what a child's end means for its parent; OPEN: another option is to be tried. */
static enum progress ascend(struct exact_search *x, struct frame *f, enum progress child,
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

/* Runs from the bottom frame until it is decided. */
static neap_status run(struct exact_search *x, enum progress *progress) {
  for (;;) {
    TRY(stop_check());
    TRY(node_enter(x, &x->frames.data[x->frames.count - 1], progress));
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

/* Ranks the items. `random` breaks ties, and near ties in proportion to `noise`. */
static void rank_items(struct exact_search *x, enum order order, const uint64_t *load, double noise,
                       uint32_t *random) {
  for (int32_t i = 0; i < x->sections->item_count; i++) {
    const struct item *item = item_of(x, i);
    uint64_t most = 0;
    for (int32_t s = item->lower; s < item->upper; s++) most = load[s] > most ? load[s] : most;
    const double area = (double)item->most * item->length, sections = item->upper - item->lower;
    const double keys[ORDERS] = {sections, area, (double)most, (double)item->most, item->length};
    x->key[i] =
        keys[order] * (1 + noise * random_next(random) / UINT32_MAX) + 1e-9 * area / (1 + area) * keys[order];
  }
}

/* Searches once from the start. */
static neap_status try_order(struct exact_search *x, enum progress *progress) {
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

enum { AT_ONCE = 2 };

/* Searches with two orders, one after the other. The second only counts if the first does not decide. It runs
 * in parallel if a thread is free and the search is worth it; the result is the same. */
struct tries {
  struct exact_search searches[AT_ONCE];
  enum progress progress[AT_ONCE];
  int64_t given[AT_ONCE]; /* work */
};

static neap_status run_tries(struct tries *t) {
  enum { WORTH = 1 << 20 };
  struct ending ended[AT_ONCE] = {{NEAP_OK, ""}};
  atomic_bool decided = false;
#pragma omp parallel for schedule(dynamic, 1) copyin(stop_request)                                           \
    num_threads(t->given[0] < WORTH ? 1 : threads_for(AT_ONCE))
  for (int k = 0; k < AT_ONCE; k++) {
    struct exact_search *x = &t->searches[k];
    x->work = t->given[k];
    x->superseded = k > 0 ? &decided : NULL;
    t->progress[k] = STOPPED;
    if (x->work > 0 && !(k > 0 && atomic_load(&decided)))
      ending_keep(&ended[k], try_order(x, &t->progress[k]));
    if (k == 0 && (ended[k].status != NEAP_OK || t->progress[k] != STOPPED)) atomic_store(&decided, true);
  }
  return t->progress[0] != STOPPED ? ending_tell(&ended[0]) : status_of_tasks(ended, AT_ONCE);
}

/* Tries all orders and rules in turn, with limits that double, until one of them decides: `*last`. */
static neap_status try_orders(struct tries *t, const uint64_t *load, int64_t *work, int *last) {
  const struct sections *sections = t->searches[0].sections;
  uint32_t random = 2463534242u;
  /* About the work to the top without a step back. */
  int64_t limit = (sections->covered + 8 * sections->item_count) * (sections->item_count + 1);
  *last = 0;
  for (int round = 0; *work > 0; round++, limit *= 2)
    for (int i = 0; i<ORDERS * RULES && * work> 0; i += AT_ONCE) {
      int64_t left = *work;
      for (int k = 0; k < AT_ONCE; k++) {
        struct exact_search *x = &t->searches[k];
        rank_items(x, (enum order)((i + k) / RULES), load, round == 0 ? 0 : 0.3, &random);
        x->rule = (enum rule)((i + k) % RULES);
        t->given[k] = limit < left ? limit : left;
        left -= t->given[k];
      }
      TRY(run_tries(t));
      for (*last = 0;; ++*last) {
        *work -= t->given[*last] - t->searches[*last].work;
        if (t->progress[*last] != STOPPED) return NEAP_OK;
        if (*last == AT_ONCE - 1) break;
      }
    }
  return NEAP_OK;
}

static neap_status prepare(struct exact_search *x, struct region *region) {
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
  RETURN_IF(!x->offset || !x->support || !x->witness || !x->placed || !x->key || !x->kept || !x->moved ||
                !x->load || !x->level || !x->cover || !x->plateau || !x->low,
            NEAP_OUT_OF_MEMORY, "layout: out of memory");
  return NEAP_OK;
}

neap_status search_placement(const struct sections *sections, uint64_t capacity, int64_t *work,
                             uint64_t *offsets, enum search_outcome *outcome) {
  struct tries tries = {.progress = {STOPPED, STOPPED}};
  struct region region = {0};
  uint64_t *load;
  int last = 0;
  neap_status status = sections_load(sections, &region, &load);
  for (int k = 0; status == NEAP_OK && k < AT_ONCE; k++) {
    tries.searches[k] = (struct exact_search){.sections = sections, .capacity = capacity};
    status = prepare(&tries.searches[k], &region);
  }
  if (status == NEAP_OK) status = try_orders(&tries, load, work, &last);
  const enum progress progress = tries.progress[last];
  if (status == NEAP_OK && progress == FOUND) {
    for (int32_t i = 0; i < sections->shape_count; i++) offsets[i] = 0;
    for (int32_t i = 0; i < sections->item_count; i++)
      offsets[sections->items[i].shape] = tries.searches[last].offset[i];
  }
  *outcome = progress == FOUND ? SEARCH_FOUND : progress == REFUTED ? SEARCH_NONE : SEARCH_STOPPED;
  for (int k = 0; k < AT_ONCE; k++) {
    vector_free(&tries.searches[k].lists);
    vector_free(&tries.searches[k].trail);
    vector_free(&tries.searches[k].frames);
  }
  region_free(&region);
  return status;
}
