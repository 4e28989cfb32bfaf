/* The bound on peaks: see memory_bound.h. A set of live values is a sorted list of tensor ids. */
#include "plan/memory_bound.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/ids.h"
#include "base/index.h"
#include "base/region.h"
#include "base/stop.h"
#include "base/vector.h"
#include "step/tuning.h"

struct live_set {
  size_t start; /* in `members` */
  int32_t count;
  bool replaced;  /* the same set has been met with a lower peak */
  uint64_t peak;  /* the most bytes on the walk that led here */
  uint64_t apart; /* the peak of a walk from here on: see peak_apart */
};

struct regression {
  const neap_step *step;
  struct region region;
  uint64_t ignored;    /* values of this many bytes or fewer are not followed */
  uint64_t everything; /* bytes of all values and workspaces */
  size_t *need_start;  /* by node, and the end: where its needs begin */
  int32_t *needs;      /* inputs that are followed, rising, each once */
  uint64_t *alone;     /* by node: bytes while it runs, without its needs */
  uint64_t *made;      /* by tensor: the peak of a walk from it alone */
  struct search_end {
    uint64_t least, best; /* no walk has a lower peak; one has this */
  } * ends;               /* by node */
  int32_t *mark, stamp;   /* by tensor: the set that is looked at */

  /* Fields of one search. */
  VECTOR(struct live_set) sets;
  VECTOR(int32_t) members, heap; /* heap: open sets */
  struct index index;            /* of the sets: finds the last of equal ones */
  uint64_t best;
  int64_t limit; /* on the work */

  int64_t work; /* members looked at, in all searches */
};

static bool is_followed(const struct regression *r, int32_t tensor) {
  const struct step_tensor *t = &r->step->tensors[tensor];
  return t->role == NEAP_ROLE_VALUE && t->bytes > r->ignored;
}

/* ---- Sets ---- */

static const int32_t *ids_of(const struct regression *r, const struct live_set *set) {
  return r->members.data + set->start;
}

/* Returns the peak of making the members one after the other, each from nothing while the earlier ones are
 * live, in the best order: the one that frees most afterwards comes first. */
static uint64_t peak_apart(const struct regression *r, const int32_t *ids, int32_t count) {
  enum { MOST = 32 };
  const struct step_tensor *tensors = r->step->tensors;
  int32_t order[MOST];
  uint64_t held = 0, peak = 0;
  if (count > MOST) return r->everything;
  for (int32_t i = 0; i < count; i++) {
    const uint64_t freed = r->made[ids[i]] - tensors[ids[i]].bytes;
    int32_t at = i;
    for (; at > 0 && r->made[order[at - 1]] - tensors[order[at - 1]].bytes < freed; at--)
      order[at] = order[at - 1];
    order[at] = ids[i];
  }
  for (int32_t i = 0; i < count; i++) {
    if (held + r->made[order[i]] > peak) peak = held + r->made[order[i]];
    held += tensors[order[i]].bytes;
  }
  return peak;
}

static uint64_t hash_set(const struct regression *r, const struct live_set *set) {
  const int32_t *ids = ids_of(r, set);
  uint64_t hash = UINT64_C(0xCBF29CE484222325);
  for (int32_t i = 0; i < set->count; i++) hash = (hash ^ (uint64_t)ids[i]) * UINT64_C(0x100000001B3);
  return hash ^ hash >> 29;
}

static uint64_t hash_entry(const void *owner, int32_t entry) {
  const struct regression *r = owner;
  return hash_set(r, &r->sets.data[entry]);
}

static bool matches(const void *owner, int32_t entry, const void *key) {
  const struct regression *r = owner;
  const struct live_set *set = key, *other = &r->sets.data[entry];
  return other->count == set->count &&
         memcmp(ids_of(r, other), ids_of(r, set), (size_t)set->count * sizeof *r->members.data) == 0;
}

static const struct index_keys set_keys = {hash_entry, matches};

/* ---- The open sets ---- */

static bool open_before(const struct regression *r, const int32_t *a, const int32_t *b) {
  const struct live_set *x = &r->sets.data[*a], *y = &r->sets.data[*b];
  return x->peak != y->peak ? x->peak < y->peak : x->apart != y->apart ? x->apart < y->apart : *a > *b;
}
DEFINE_HEAP(open, struct regression, int32_t)

static neap_status open_set(struct regression *r, int32_t set) {
  TRY(vector_push(&r->heap, set));
  open_rise(r, r->heap.data, r->heap.count);
  return NEAP_OK;
}

/* Adds the set at the end of `members`, unless the same set was met with a peak no higher. */
static neap_status meet(struct regression *r, struct live_set set) {
  TRY(index_reserve(&r->index, &set_keys, r));
  set.apart = peak_apart(r, ids_of(r, &set), set.count);
  const uint64_t peak = set.apart > set.peak ? set.apart : set.peak;
  if (peak < r->best) r->best = peak;
  int32_t *place = index_slot(&r->index, &set_keys, r, hash_set(r, &set), &set);
  if (*place >= 0 && r->sets.data[*place].peak <= set.peak) {
    r->members.count = set.start;
    return NEAP_OK;
  }
  if (*place >= 0) r->sets.data[*place].replaced = true;
  TRY(vector_push(&r->sets, set));
  index_put(&r->index, place);
  return open_set(r, *place);
}

/* ---- Steps back ---- */

/* Returns the bytes that the node's outputs may take over from inputs that are not marked. */
static uint64_t bytes_taken(const struct regression *r, const struct step_node *node) {
  uint64_t taken = 0;
  for (int32_t o = 0; o < node->output_count; o++) {
    const uint64_t bytes = r->step->tensors[node->outputs[o]].bytes;
    for (int32_t p = 0; p < node->inplace_count; p++) {
      if (node->inplace[p].output != o) continue;
      const int32_t input = node->inputs[node->inplace[p].input];
      const struct step_tensor *tensor = &r->step->tensors[input];
      if (tensor->role != NEAP_ROLE_VALUE || tensor->bytes < bytes || r->mark[input] == r->stamp) continue;
      taken += bytes;
      break;
    }
  }
  return taken;
}

/* Writes to the end of `members` the values that are live right before the last run of node u among those
 * that made the set. Its peak is that of the walk with this run. `is_part`: it is a part of the set. */
static neap_status step_back(struct regression *r, const struct live_set *from, int32_t u,
                             struct live_set *out, bool *is_part) {
  const int32_t *needs = r->needs + r->need_start[u];
  const int32_t need_count = (int32_t)(r->need_start[u + 1] - r->need_start[u]);
  const struct step_tensor *tensors = r->step->tensors;
  TRY(vector_reserve(&r->members, r->members.count + (size_t)from->count + (size_t)need_count));
  const int32_t *ids = ids_of(r, from);
  int32_t *to = r->members.data + r->members.count, count = 0, kept = 0;
  uint64_t bytes = r->alone[u];
  r->stamp++;
  for (int32_t i = 0, k = 0; i < from->count || k < need_count;) {
    if (i < from->count && tensors[ids[i]].producer == u) {
      i++;
      continue;
    }
    const bool rest = i < from->count && (k == need_count || ids[i] <= needs[k]);
    const int32_t id = rest ? ids[i] : needs[k];
    if (k < need_count && needs[k] == id) k++;
    if (rest) r->mark[id] = r->stamp, i++, kept++;
    bytes += tensors[id].bytes;
    to[count++] = id;
  }
  bytes -= bytes_taken(r, &r->step->nodes[u]);
  r->work += count;
  *out = (struct live_set){
      .start = r->members.count, .count = count, .peak = bytes > from->peak ? bytes : from->peak};
  *is_part = count == kept;
  return NEAP_OK;
}

static bool made_before(const struct regression *r, const int32_t *ids, int32_t i) {
  for (int32_t k = 0; k < i; k++)
    if (r->step->tensors[ids[k]].producer == r->step->tensors[ids[i]].producer) return true;
  return false;
}

/* Takes all steps back from a set, unless the work ends. If a step leaves a part of the set at no cost, only
 * that step: each walk from the set is one from its parts too. */
static neap_status expand(struct regression *r, int32_t set) {
  const struct live_set from = r->sets.data[set];
  for (int pass = 0; pass < 2; pass++)
    for (int32_t i = 0; i < from.count && r->work <= r->limit; i++) {
      const int32_t *ids = ids_of(r, &from);
      struct live_set next;
      if (made_before(r, ids, i)) continue;
      bool is_part;
      TRY(step_back(r, &from, r->step->tensors[ids[i]].producer, &next, &is_part));
      if (pass == 0 && !(is_part && next.peak == from.peak)) continue;
      if (next.peak < r->best) {
        r->members.count += (size_t)next.count;
        TRY(meet(r, next));
      }
      if (pass == 0) return NEAP_OK;
    }
  return NEAP_OK;
}

/* ---- Searches ---- */

/* Searches, with this much work, for the least peak of a walk that begins with `peak` bytes and these live
 * values. */
static neap_status search(struct regression *r, const int32_t *ids, int32_t count, uint64_t peak,
                          int64_t work, struct search_end *end) {
  r->sets.count = r->members.count = r->heap.count = 0;
  index_clear(&r->index);
  r->best = r->everything;
  TRY(vector_reserve(&r->members, (size_t)count + 1));
  for (int32_t i = 0; i < count; i++) r->members.data[i] = ids[i];
  r->members.count = (size_t)count;
  TRY(meet(r, (struct live_set){.count = count, .peak = peak}));
  r->limit = r->work + work;
  while (r->heap.count > 0) {
    TRY(stop_check());
    const int32_t set = open_take(r, r->heap.data, &r->heap.count);
    const uint64_t least = r->sets.data[set].peak;
    *end = (struct search_end){least < r->best ? least : r->best, r->best};
    if (least >= r->best) return NEAP_OK;
    if (!r->sets.data[set].replaced) TRY(expand(r, set));
    if (r->work > r->limit) return NEAP_OK; /* not all ways from the set were opened: it stays the least */
  }
  *end = (struct search_end){r->best, r->best};
  return NEAP_OK;
}

static neap_status prepare(struct regression *r) {
  const neap_step *step = r->step;
  const size_t nodes = (size_t)step->node_count, tensors = (size_t)step->tensor_count;
  size_t reads = 0;
  for (int32_t v = 0; v < step->node_count; v++) reads += (size_t)step->nodes[v].input_count;
  r->need_start = region_alloc(&r->region, nodes + 1, sizeof *r->need_start);
  r->needs = region_alloc(&r->region, reads, sizeof *r->needs);
  r->alone = region_alloc(&r->region, nodes, sizeof *r->alone);
  r->ends = region_alloc(&r->region, nodes, sizeof *r->ends);
  r->made = region_alloc(&r->region, tensors, sizeof *r->made);
  r->mark = region_alloc(&r->region, tensors, sizeof *r->mark);
  RETURN_IF(!r->need_start || !r->needs || !r->alone || !r->ends || !r->made || !r->mark, NEAP_OUT_OF_MEMORY,
            "memory bound: out of memory");
  for (int32_t t = 0; t < step->tensor_count; t++)
    if (step->tensors[t].role == NEAP_ROLE_VALUE) r->everything += step->tensors[t].bytes;
  for (int32_t v = 0; v < step->node_count; v++) r->everything += step->nodes[v].workspace;
  return NEAP_OK;
}

/* Finds the inputs of each node, and the bytes that it needs besides them. */
static void find_needs(struct regression *r) {
  const neap_step *step = r->step;
  size_t total = 0;
  for (int32_t v = 0; v < step->node_count; v++) {
    const struct step_node *node = &step->nodes[v];
    r->need_start[v] = total;
    r->alone[v] = node->workspace;
    r->stamp++;
    for (int32_t i = 0; i < node->output_count; i++) r->alone[v] += step->tensors[node->outputs[i]].bytes;
    for (int32_t i = 0; i < node->input_count; i++) {
      const int32_t t = node->inputs[i];
      if (step->tensors[t].role != NEAP_ROLE_VALUE || r->mark[t] == r->stamp) continue;
      r->mark[t] = r->stamp;
      if (is_followed(r, t))
        r->needs[total++] = t;
      else
        r->alone[v] += step->tensors[t].bytes;
    }
    qsort(r->needs + r->need_start[v], total - r->need_start[v], sizeof *r->needs, compare_ids);
  }
  r->need_start[step->node_count] = total;
}

static uint64_t bytes_at_once(struct regression *r, int32_t v) {
  uint64_t bytes = r->alone[v];
  for (size_t i = r->need_start[v]; i < r->need_start[v + 1]; i++)
    bytes += r->step->tensors[r->needs[i]].bytes;
  r->stamp++;
  return bytes - bytes_taken(r, &r->step->nodes[v]);
}

static neap_status search_node(struct regression *r, int32_t v, uint64_t peak, int64_t work) {
  return search(r, r->needs + r->need_start[v], (int32_t)(r->need_start[v + 1] - r->need_start[v]), peak,
                work, &r->ends[v]);
}

/* ---- All nodes ---- */

/* Searches a little for each node, in the order of the step: results for its inputs help with a node. */
static neap_status search_each(struct regression *r, uint64_t *bound) {
  for (int32_t v = 0; v < r->step->node_count; v++) {
    const struct step_node *node = &r->step->nodes[v];
    TRY(search_node(r, v, bytes_at_once(r, v), BOUND_WORK_EACH));
    for (int32_t i = 0; i < node->output_count; i++) r->made[node->outputs[i]] = r->ends[v].best;
    if (r->ends[v].least > *bound) *bound = r->ends[v].least;
  }
  return NEAP_OK;
}

/* Searches again, with this much work each and up to the total limit, for the nodes that may raise the
 * bound. */
static neap_status search_again(struct regression *r, int64_t work, int64_t limit, uint64_t *bound) {
  for (int32_t v = r->step->node_count; v-- > 0 && r->work < limit;) {
    const uint64_t best = r->ends[v].best, at_once = bytes_at_once(r, v);
    if (best <= *bound) continue;
    const int64_t left = limit - r->work;
    TRY(search_node(r, v, at_once > *bound ? at_once : *bound, work < left ? work : left));
    if (r->ends[v].best > best) r->ends[v].best = best;
    if (r->ends[v].least > *bound) *bound = r->ends[v].least;
  }
  return NEAP_OK;
}

/* Searches for the values that are live at the end. */
static neap_status search_outputs(struct regression *r, int64_t work, uint64_t *bound) {
  const neap_step *step = r->step;
  struct search_end end;
  uint64_t bytes = 0;
  int32_t count = 0, *outputs = region_alloc(&r->region, (size_t)step->output_count, sizeof *outputs);
  RETURN_IF_NULL(outputs);
  r->stamp++;
  for (int32_t i = 0; i < step->output_count; i++) {
    const int32_t t = step->outputs[i];
    if (r->mark[t] == r->stamp) continue;
    r->mark[t] = r->stamp;
    bytes += step->tensors[t].bytes;
    if (is_followed(r, t)) outputs[count++] = t;
  }
  qsort(outputs, (size_t)count, sizeof *outputs, compare_ids);
  TRY(search(r, outputs, count, bytes > *bound ? bytes : *bound, work, &end));
  if (end.least > *bound) *bound = end.least;
  return NEAP_OK;
}

static neap_status search_all(struct regression *r, uint64_t *bound) {
  enum {
    SMALL = 500,
    EACH_SMALL = 6000,
    EACH = 1500,
    FIRST = 30000,
    LAST = 3000000,
    FACTOR = 10,
    SHARE = 1000
  };
  const int64_t nodes = r->step->node_count, small = nodes < SMALL ? nodes : SMALL;
  const int64_t limit = small * EACH_SMALL + (nodes - small) * EACH;
  find_needs(r);
  for (int32_t v = 0; v < r->step->node_count; v++)
    if (bytes_at_once(r, v) / SHARE > r->ignored) r->ignored = bytes_at_once(r, v) / SHARE;
  find_needs(r);
  TRY(search_each(r, bound));
  TRY(search_outputs(r, FIRST, bound));
  for (int64_t work = FIRST; work <= LAST; work *= FACTOR) TRY(search_again(r, work, limit, bound));
  return NEAP_OK;
}

neap_status plan_memory_bound(const neap_step *step, uint64_t *bytes) {
  struct regression r = {.step = step};
  uint64_t bound = 0;
  neap_status status = prepare(&r);
  if (status == NEAP_OK) status = search_all(&r, &bound);
  if (status == NEAP_OK) *bytes = step->resident_bytes + bound;
  vector_free(&r.sets);
  vector_free(&r.members);
  vector_free(&r.heap);
  index_free(&r.index);
  region_free(&r.region);
  return status;
}
