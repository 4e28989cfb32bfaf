#include "papers/lower_set.h"

#include <string.h>

/* ---- A family from its members ---- */

struct draft {
  const uint64_t *members;
  int32_t size; /* of the set: vertices */
  uint64_t bytes;
  int32_t top, index;
};

static int compare_drafts(const void *a, const void *b) {
  const struct draft *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
  if (x->size != y->size) return x->size < y->size ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

static bool bit(const uint64_t *set, int32_t vertex) { return set[vertex / 64] >> (vertex % 64) & 1; }

static void put(uint64_t *set, int32_t vertex) { set[vertex / 64] |= (uint64_t)1 << (vertex % 64); }

/* Returns true for a vertex of the set with a successor outside it, or a pinned one. */
static bool on_boundary(const struct forward_graph *g, const uint64_t *set, int32_t vertex) {
  if (g->pinned[vertex]) return true;
  for (int32_t k = g->after_start[vertex]; k < g->after_start[vertex + 1]; k++)
    if (!bit(set, g->after[k])) return true;
  return false;
}

/* Returns M(d+(L) \ L) + M(d-(d+(L)) \ L), each vertex once in a term. `seen`: words of scratch, twice. */
static uint64_t bytes_beyond(const struct forward_graph *g, const uint64_t *set, const int32_t *boundary,
                             int32_t count, uint64_t *seen, int32_t words) {
  uint64_t bytes = 0, *seen_before = seen + words;
  memset(seen, 0, 2 * (size_t)words * sizeof *seen);
  for (int32_t b = 0; b < count; b++)
    for (int32_t k = g->after_start[boundary[b]]; k < g->after_start[boundary[b] + 1]; k++) {
      const int32_t successor = g->after[k];
      if (bit(set, successor) || bit(seen, successor)) continue;
      put(seen, successor);
      bytes += g->bytes[successor];
      for (int32_t p = g->before_start[successor]; p < g->before_start[successor + 1]; p++) {
        const int32_t predecessor = g->before[p];
        if (bit(set, predecessor) || bit(seen_before, predecessor)) continue;
        put(seen_before, predecessor);
        bytes += g->bytes[predecessor];
      }
    }
  return bytes;
}

/* Fills sums and boundaries of the ordered sets. */
static neap_status describe(struct lower_sets *sets, struct region *region) {
  const struct forward_graph *g = sets->graph;
  VECTOR(int32_t) boundary = {0};
  uint64_t *seen = region_alloc(region, 2 * (size_t)sets->words, sizeof *seen);
  neap_status status = seen == NULL ? NEAP_OUT_OF_MEMORY : NEAP_OK;
  for (int32_t i = 0; status == NEAP_OK && i < sets->count; i++) {
    const uint64_t *set = sets->members + (size_t)i * (size_t)sets->words;
    for (int32_t v = 0; status == NEAP_OK && v < g->count; v++) {
      if (!bit(set, v)) continue;
      sets->bytes[i] += g->bytes[v];
      sets->cost[i] += g->cost[v];
      if (on_boundary(g, set, v)) status = vector_push(&boundary, v);
    }
    if (boundary.count > INT32_MAX)
      status = neap_fail(NEAP_TOO_LARGE, "lower sets: %zu values on their boundaries are too many",
                         boundary.count);
    if (status != NEAP_OK) break;
    sets->boundary_start[i + 1] = (int32_t)boundary.count;
    const int32_t on_it = sets->boundary_start[i + 1] - sets->boundary_start[i];
    const int32_t *first = on_it > 0 ? boundary.data + sets->boundary_start[i] : NULL;
    sets->beyond[i] = bytes_beyond(g, set, first, on_it, seen, sets->words);
  }
  if (status == NEAP_OK) {
    sets->boundary = region_copy(region, boundary.data, boundary.count, sizeof *boundary.data);
    if (sets->boundary == NULL) status = neap_fail(NEAP_OUT_OF_MEMORY, "lower sets: out of memory");
  }
  vector_free(&boundary);
  return status;
}

/* Orders the sets and describes them. `members`: `count` sets in any order. */
static neap_status family_create(const struct forward_graph *g, const uint64_t *members, const int32_t *top,
                                 int32_t count, int32_t words, struct region *region,
                                 struct lower_sets *out) {
  *out = (struct lower_sets){.graph = g, .count = count, .words = words};
  const size_t sets = (size_t)count + 1;
  struct draft *drafts = region_alloc(region, sets, sizeof *drafts);
  uint64_t *ordered = region_alloc(region, sets * (size_t)words, sizeof *ordered);
  int32_t *tops = region_alloc(region, sets, sizeof *tops);
  out->bytes = region_alloc(region, sets, sizeof *out->bytes);
  out->cost = region_alloc(region, sets, sizeof *out->cost);
  out->beyond = region_alloc(region, sets, sizeof *out->beyond);
  out->boundary_start = region_alloc(region, sets, sizeof *out->boundary_start);
  RETURN_IF(!drafts || !ordered || !tops || !out->bytes || !out->cost || !out->beyond || !out->boundary_start,
            NEAP_OUT_OF_MEMORY, "lower sets: out of memory");
  for (int32_t i = 0; i < count; i++) {
    struct draft *draft = &drafts[i];
    *draft = (struct draft){.members = members + (size_t)i * (size_t)words, .top = top[i], .index = i};
    for (int32_t v = 0; v < g->count; v++) {
      if (!bit(draft->members, v)) continue;
      draft->bytes += g->bytes[v];
      draft->size++;
    }
  }
  qsort(drafts, (size_t)count, sizeof *drafts, compare_drafts);
  for (int32_t i = 0; i < count; i++) {
    memcpy(ordered + (size_t)i * (size_t)words, drafts[i].members, (size_t)words * sizeof *ordered);
    tops[i] = drafts[i].top;
  }
  out->members = ordered;
  out->top = tops;
  return describe(out, region);
}

/* ---- Finding the sets ---- */

/* Returns true if the vertex may join the set. */
static bool has_predecessors(const struct forward_graph *g, const uint64_t *set, int32_t vertex) {
  for (int32_t k = g->before_start[vertex]; k < g->before_start[vertex + 1]; k++)
    if (!bit(set, g->before[k])) return false;
  return true;
}

/* A lower set without its last vertex is a lower set, with rising vertices. So each set is met once, from
 * that one. */
neap_status lower_sets_all(const struct forward_graph *g, int32_t most, struct region *region,
                           struct lower_sets *out) {
  const int32_t words = g->count / 64 + 1;
  uint64_t *members = region_alloc(region, (size_t)most * (size_t)words, sizeof *members);
  int32_t *last = region_alloc(region, (size_t)most, sizeof *last), count = 1;
  int32_t *top = region_alloc(region, (size_t)most, sizeof *top);
  RETURN_IF(!members || !last || !top, NEAP_OUT_OF_MEMORY, "lower sets: out of memory");
  last[0] = -1;
  for (int32_t i = 0; i < count; i++) {
    const uint64_t *set = members + (size_t)i * (size_t)words;
    top[i] = -1;
    for (int32_t v = last[i] + 1; v < g->count; v++) {
      if (!has_predecessors(g, set, v)) continue;
      RETURN_IF(count == most, NEAP_OVER_BUDGET, "the forward graph has more than %d lower sets", most);
      uint64_t *larger = members + (size_t)count * (size_t)words;
      memcpy(larger, set, (size_t)words * sizeof *larger);
      put(larger, v);
      last[count++] = v;
    }
  }
  return family_create(g, members, top, count, words, region, out);
}

/* Adds a vertex and its ancestors; `stack` has room for all vertices. */
static void close_downwards(const struct forward_graph *g, int32_t vertex, uint64_t *set, int32_t *stack) {
  int32_t depth = 0;
  stack[depth++] = vertex;
  put(set, vertex);
  while (depth > 0) {
    const int32_t v = stack[--depth];
    for (int32_t k = g->before_start[v]; k < g->before_start[v + 1]; k++)
      if (!bit(set, g->before[k])) {
        put(set, g->before[k]);
        stack[depth++] = g->before[k];
      }
  }
}

/* Finds, by v, the bytes of the vertices up to v that are read after v. */
static neap_status find_crossing(const struct forward_graph *g, struct region *region, uint64_t **crossing) {
  uint64_t *bytes = *crossing = region_alloc(region, (size_t)g->count + 1, sizeof *bytes);
  RETURN_IF(bytes == NULL, NEAP_OUT_OF_MEMORY, "lower sets: out of memory");
  for (int32_t v = 0; v < g->count; v++) { /* differences modulo 2^64 */
    const int32_t last = g->after_start[v + 1] > g->after_start[v] ? g->after[g->after_start[v + 1] - 1] : v;
    bytes[v] += g->bytes[v];
    bytes[last] -= g->bytes[v];
  }
  for (int32_t v = 1; v < g->count; v++) bytes[v] += bytes[v - 1];
  return NEAP_OK;
}

neap_status lower_sets_of_ancestors(const struct forward_graph *g, int32_t most, struct region *region,
                                    struct lower_sets *out) {
  const int32_t words = g->count / 64 + 1, share = g->count / most + 1, limit = g->count / share + 3;
  uint64_t *members = region_alloc(region, (size_t)limit * (size_t)words, sizeof *members);
  int32_t *top = region_alloc(region, (size_t)limit, sizeof *top);
  int32_t *stack = region_alloc(region, (size_t)g->count + 1, sizeof *stack), count = 1;
  RETURN_IF(!members || !top || !stack, NEAP_OUT_OF_MEMORY, "lower sets: out of memory");
  uint64_t *crossing;
  TRY(find_crossing(g, region, &crossing));
  top[0] = -1;
  for (int32_t first = 0; first < g->count; first += share) {
    int32_t chosen = first;
    for (int32_t v = first; v < first + share && v < g->count; v++)
      if (crossing[v] <= crossing[chosen]) chosen = v;
    uint64_t *set = members + (size_t)count * (size_t)words;
    close_downwards(g, chosen, set, stack);
    bool is_all = true;
    for (int32_t v = 0; v < g->count && is_all; v++) is_all = bit(set, v);
    if (is_all)
      memset(set, 0, (size_t)words * sizeof *set);
    else
      top[count++] = chosen;
  }
  for (int32_t v = 0; v < g->count; v++) put(members + (size_t)count * (size_t)words, v);
  top[count++] = -1;
  return family_create(g, members, top, count, words, region, out);
}

/* ---- A strategy's schedule ---- */

neap_status lower_sets_schedule(const struct lower_sets *sets, const int32_t *chain, int32_t length,
                                struct schedule *out) {
  const size_t vertices = (size_t)sets->graph->count + 1;
  struct region region = {0};
  int32_t *segment = region_alloc(&region, vertices, sizeof *segment);
  bool *stays = region_alloc(&region, vertices, sizeof *stays);
  neap_status status = NEAP_OK;
  if (!segment || !stays) status = neap_fail(NEAP_OUT_OF_MEMORY, "strategy: out of memory");
  if (status == NEAP_OK) {
    for (int32_t v = 0; v < sets->graph->count; v++) {
      while (segment[v] < length - 1 && !lower_set_has(sets, chain[segment[v]], v)) segment[v]++;
      stays[v] = segment[v] == length - 1;
    }
    for (int32_t i = 0; i < length; i++)
      for (int32_t k = sets->boundary_start[chain[i]]; k < sets->boundary_start[chain[i] + 1]; k++)
        stays[sets->boundary[k]] = true;
    status = forward_graph_schedule(sets->graph, segment, stays, out);
  }
  region_free(&region);
  return status;
}
