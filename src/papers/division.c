#include "papers/division.h"

#include <string.h>

#include "base/stop.h"

enum { PAIR_LIMIT = 200 };

struct grouped {
  int32_t group, vertex;
};

/* Scratch memory, by vertex unless it says otherwise. The current set owns the vertices inside it. */
struct divider {
  struct division *division;
  int32_t *owner, *place;  /* the set; where the vertex stands in it */
  int32_t *cover;          /* by place: edges of the set that pass over it */
  int32_t *part;           /* union-find */
  bool *open;              /* by root: the part has a neighbour that is not an end */
  int32_t *group;          /* the chosen closed set that has the vertex inside, from 1; 0: none */
  struct grouped *grouped; /* by place */
};

static bool is_inside(const struct divider *d, int32_t index, int32_t vertex) {
  return vertex >= 0 && vertex < d->division->graph->count && d->owner[vertex] == index;
}

static neap_status add_set(struct divider *d, struct closed_set set) {
  for (int32_t i = set.begin; i < set.end; i++) set.bytes += d->division->bytes[d->division->inside[i]];
  TRY(vector_push(&d->division->children, (int32_t)d->division->sets.count));
  return vector_push(&d->division->sets, set);
}

/* Returns true if an edge leads between two vertices, which may be the ends of the graph. */
static bool has_edge(const struct forward_graph *g, int32_t from, int32_t to) {
  if (from < 0) return to < g->count && g->before_start[to] == g->before_start[to + 1];
  if (to == g->count) return g->after_start[from] == g->after_start[from + 1];
  for (int32_t k = g->after_start[from]; k < g->after_start[from + 1]; k++)
    if (g->after[k] == to) return true;
  return false;
}

/* ---- Linear ---- */

/* Counts an edge of the set from place `from` to place `to` for all vertices between. */
static void pass_over(struct divider *d, int32_t from, int32_t to) {
  d->cover[from + 1]++;
  d->cover[to]--;
}

/* Counts the edges of the set that pass over each vertex inside. Its ends have the places -1 and size. */
static void find_cover(struct divider *d, int32_t index, const struct closed_set *set) {
  const struct forward_graph *g = d->division->graph;
  const int32_t size = set->end - set->begin;
  memset(d->cover, 0, ((size_t)size + 1) * sizeof *d->cover);
  if (set->direct) pass_over(d, -1, size);
  for (int32_t i = 0; i < size; i++) {
    const int32_t v = d->division->inside[set->begin + i];
    bool to_target = has_edge(g, v, g->count), from_source = has_edge(g, -1, v);
    for (int32_t k = g->after_start[v]; k < g->after_start[v + 1]; k++)
      if (is_inside(d, index, g->after[k]))
        pass_over(d, i, d->place[g->after[k]]);
      else
        to_target = true;
    for (int32_t k = g->before_start[v]; k < g->before_start[v + 1]; k++)
      from_source = from_source || !is_inside(d, index, g->before[k]);
    if (to_target) pass_over(d, i, size);
    if (from_source) pass_over(d, -1, i);
  }
  for (int32_t i = 1; i < size; i++) d->cover[i] += d->cover[i - 1];
}

static neap_status add_gap(struct divider *d, int32_t source, int32_t target, int32_t begin, int32_t end) {
  if (begin == end) return vector_push(&d->division->children, -1);
  return add_set(d, (struct closed_set){.source = source,
                                        .target = target,
                                        .begin = begin,
                                        .end = end,
                                        .direct = has_edge(d->division->graph, source, target)});
}

/* Divides the set at vertices that all paths pass; *done is false if it finds no such vertex. */
static neap_status divide_linearly(struct divider *d, int32_t index, const struct closed_set *set,
                                   bool *done) {
  int32_t source = set->source, begin = set->begin;
  find_cover(d, index, set);
  *done = false;
  for (int32_t i = set->begin; i < set->end; i++) {
    if (d->cover[i - set->begin] > 0) continue;
    const int32_t v = d->division->inside[i];
    TRY(vector_push(&d->division->cuts, v));
    TRY(add_gap(d, source, v, begin, i));
    source = v;
    begin = i + 1;
    *done = true;
  }
  return *done ? add_gap(d, source, set->target, begin, set->end) : NEAP_OK;
}

/* ---- Parts ---- */

static int32_t find_root(int32_t *part, int32_t v) {
  while (part[v] != v) v = part[v] = part[part[v]];
  return v;
}

static void unite(int32_t *part, int32_t a, int32_t b) {
  a = find_root(part, a);
  b = find_root(part, b);
  part[a > b ? a : b] = a > b ? b : a;
}

/* Finds the connected parts of the inside without the vertices a and b. */
static void find_parts(struct divider *d, int32_t index, const struct closed_set *set, int32_t a, int32_t b) {
  const struct forward_graph *g = d->division->graph;
  for (int32_t i = set->begin; i < set->end; i++) d->part[d->division->inside[i]] = d->division->inside[i];
  for (int32_t i = set->begin; i < set->end; i++) {
    const int32_t v = d->division->inside[i];
    if (v == a || v == b) continue;
    for (int32_t k = g->after_start[v]; k < g->after_start[v + 1]; k++)
      if (is_inside(d, index, g->after[k]) && g->after[k] != a && g->after[k] != b)
        unite(d->part, v, g->after[k]);
  }
}

static int compare_grouped(const void *a, const void *b) {
  const struct grouped *x = a, *y = b;
  if (x->group != y->group) return x->group < y->group ? -1 : 1;
  return x->vertex < y->vertex ? -1 : x->vertex > y->vertex;
}

/* Puts the vertices of a group next to each other; `grouped` then says which group is where. */
static void sort_by_group(struct divider *d, const struct closed_set *set) {
  const int32_t size = set->end - set->begin;
  qsort(d->grouped, (size_t)size, sizeof *d->grouped, compare_grouped);
  for (int32_t i = 0; i < size; i++) d->division->inside[set->begin + i] = d->grouped[i].vertex;
}

/* ---- Branches ---- */

static neap_status divide_into_branches(struct divider *d, int32_t index, const struct closed_set *set,
                                        bool *done) {
  const int32_t size = set->end - set->begin;
  int32_t parts = 0;
  find_parts(d, index, set, -1, -1);
  for (int32_t i = 0; i < size; i++) {
    const int32_t v = d->division->inside[set->begin + i], root = find_root(d->part, v);
    d->grouped[i] = (struct grouped){root, v};
    parts += root == v;
  }
  *done = parts > 1 || set->direct;
  if (!*done) return NEAP_OK;
  sort_by_group(d, set);
  for (int32_t begin = 0, end; begin < size; begin = end) {
    for (end = begin; end < size && d->grouped[end].group == d->grouped[begin].group;) end++;
    TRY(add_set(d, (struct closed_set){.source = set->source,
                                       .target = set->target,
                                       .begin = set->begin + begin,
                                       .end = set->begin + end}));
  }
  return NEAP_OK;
}

/* ---- Neither ---- */

/* A pair of vertices and the number of vertices in the largest closed set between them. */
struct pair {
  int32_t source, target, inside;
};

static int compare_pairs(const void *a, const void *b) {
  const struct pair *x = a, *y = b;
  if (x->inside != y->inside) return x->inside > y->inside ? -1 : 1;
  if (x->source != y->source) return x->source < y->source ? -1 : 1;
  return x->target < y->target ? -1 : x->target > y->target;
}

/* Counts the vertices of the closed set between a and b. Without a and b, parts with other neighbours are
 * open; the others make up the set. */
static int32_t find_closed(struct divider *d, int32_t index, const struct closed_set *set, int32_t a,
                           int32_t b) {
  const struct forward_graph *g = d->division->graph;
  int32_t inside = 0;
  find_parts(d, index, set, a, b);
  for (int32_t i = set->begin; i < set->end; i++) d->open[d->division->inside[i]] = false;
  for (int32_t i = set->begin; i < set->end; i++) {
    const int32_t v = d->division->inside[i], root = find_root(d->part, v);
    bool open = v == a || v == b;
    open = open || (a != set->source && has_edge(g, -1, v)) || (b != set->target && has_edge(g, v, g->count));
    for (int32_t k = g->before_start[v]; k < g->before_start[v + 1]; k++)
      open = open || (g->before[k] != a && !is_inside(d, index, g->before[k]));
    for (int32_t k = g->after_start[v]; k < g->after_start[v + 1]; k++)
      open = open || (g->after[k] != b && !is_inside(d, index, g->after[k]));
    d->open[root] = d->open[root] || open;
  }
  for (int32_t i = set->begin; i < set->end; i++)
    inside += !d->open[find_root(d->part, d->division->inside[i])];
  return inside;
}

static int32_t at_place(const struct divider *d, const struct closed_set *set, int32_t place) {
  if (place < 0) return set->source;
  return place < set->end - set->begin ? d->division->inside[set->begin + place] : set->target;
}

/* Chooses the closed set between a pair unless it is inside a chosen one, which is larger: it shares edges
 * with such a set only if an end is inside it. */
static bool choose(struct divider *d, int32_t index, const struct closed_set *set, int32_t a, int32_t b,
                   int32_t group) {
  if (is_inside(d, index, a) && d->group[a] > 0) return false;
  if (is_inside(d, index, b) && d->group[b] > 0) return false;
  find_closed(d, index, set, a, b);
  for (int32_t i = set->begin; i < set->end; i++) {
    const int32_t v = d->division->inside[i];
    if (!d->open[find_root(d->part, v)]) d->group[v] = group;
  }
  return true;
}

/* Chooses the largest closed sets first; `chosen` has room for one for each vertex. */
static neap_status choose_closed_sets(struct divider *d, int32_t index, const struct closed_set *set,
                                      struct pair *chosen, int32_t *chosen_count) {
  const int32_t size = set->end - set->begin;
  VECTOR(struct pair) pairs = {0};
  neap_status status = NEAP_OK;
  *chosen_count = 0;
  for (int32_t i = -1; status == NEAP_OK && size <= PAIR_LIMIT && i < size; i++)
    for (int32_t k = i + 1; status == NEAP_OK && k <= size; k++) {
      if (i < 0 && k == size) continue;
      status = stop_check();
      const struct pair pair = {i, k, find_closed(d, index, set, at_place(d, set, i), at_place(d, set, k))};
      if (status == NEAP_OK && pair.inside > 0) status = vector_push(&pairs, pair);
    }
  if (pairs.count > 1) qsort(pairs.data, pairs.count, sizeof *pairs.data, compare_pairs);
  for (size_t p = 0; status == NEAP_OK && p < pairs.count; p++) {
    const int32_t a = at_place(d, set, pairs.data[p].source), b = at_place(d, set, pairs.data[p].target);
    if (choose(d, index, set, a, b, *chosen_count + 1))
      chosen[(*chosen_count)++] = (struct pair){a, b, pairs.data[p].inside};
  }
  vector_free(&pairs);
  return status;
}

/* Makes every vertex that is inside no chosen closed set a cut. */
static neap_status divide_otherwise(struct divider *d, int32_t index, const struct closed_set *set) {
  const int32_t size = set->end - set->begin;
  struct pair *chosen = calloc((size_t)size + 1, sizeof *chosen);
  int32_t count;
  RETURN_IF(chosen == NULL, NEAP_OUT_OF_MEMORY, "feng-huang: out of memory");
  for (int32_t i = set->begin; i < set->end; i++) d->group[d->division->inside[i]] = 0;
  neap_status status = choose_closed_sets(d, index, set, chosen, &count);
  for (int32_t i = 0; i < size; i++) {
    const int32_t v = d->division->inside[set->begin + i];
    d->grouped[i] = (struct grouped){d->group[v], v};
  }
  sort_by_group(d, set);
  int32_t begin = 0;
  for (; status == NEAP_OK && begin < size && d->grouped[begin].group == 0; begin++)
    status = vector_push(&d->division->cuts, d->grouped[begin].vertex);
  for (int32_t end; status == NEAP_OK && begin < size; begin = end) {
    const struct pair *ends = &chosen[d->grouped[begin].group - 1];
    for (end = begin; end < size && d->grouped[end].group == d->grouped[begin].group;) end++;
    status =
        add_set(d, (struct closed_set){.source = ends->source,
                                       .target = ends->target,
                                       .begin = set->begin + begin,
                                       .end = set->begin + end,
                                       .direct = has_edge(d->division->graph, ends->source, ends->target)});
  }
  free(chosen);
  return status;
}

/* ---- The division ---- */

static neap_status divide(struct divider *d, int32_t index) {
  struct division *division = d->division;
  struct closed_set set = division->sets.data[index];
  bool done;
  for (int32_t i = set.begin; i < set.end; i++) {
    d->owner[division->inside[i]] = index;
    d->place[division->inside[i]] = i - set.begin;
  }
  set.cut_begin = (int32_t)division->cuts.count;
  set.child_begin = (int32_t)division->children.count;
  set.kind = DIVISION_LINEAR;
  TRY(divide_linearly(d, index, &set, &done));
  if (!done) {
    set.kind = DIVISION_BRANCHES;
    TRY(divide_into_branches(d, index, &set, &done));
  }
  if (!done) {
    set.kind = DIVISION_OTHER;
    TRY(divide_otherwise(d, index, &set));
  }
  set.cut_end = (int32_t)division->cuts.count;
  set.child_end = (int32_t)division->children.count;
  division->sets.data[index] = set;
  return NEAP_OK;
}

neap_status division_create(const struct forward_graph *graph, struct region *region, struct division *out) {
  *out = (struct division){.graph = graph};
  const size_t vertices = (size_t)graph->count + 1;
  struct divider d = {.division = out};
  out->inside = region_alloc(region, vertices, sizeof *out->inside);
  out->bytes = region_alloc(region, vertices, sizeof *out->bytes);
  d.owner = region_alloc(region, vertices, sizeof *d.owner);
  d.place = region_alloc(region, vertices, sizeof *d.place);
  d.cover = region_alloc(region, vertices, sizeof *d.cover);
  d.part = region_alloc(region, vertices, sizeof *d.part);
  d.open = region_alloc(region, vertices, sizeof *d.open);
  d.group = region_alloc(region, vertices, sizeof *d.group);
  d.grouped = region_alloc(region, vertices, sizeof *d.grouped);
  RETURN_IF(!out->inside || !out->bytes || !d.owner || !d.place || !d.cover || !d.part || !d.open ||
                !d.group || !d.grouped,
            NEAP_OUT_OF_MEMORY, "feng-huang: out of memory");
  for (int32_t v = 0; v < graph->count; v++) {
    out->inside[v] = v;
    out->bytes[v] = graph->pinned[v] ? 0 : graph->bytes[v];
  }
  if (graph->count == 0) return NEAP_OK;
  TRY(add_set(&d, (struct closed_set){.source = -1, .target = graph->count, .end = graph->count}));
  out->children.count = 0; /* the whole is nobody's child */
  for (size_t i = 0; i < out->sets.count; i++) TRY(divide(&d, (int32_t)i));
  return NEAP_OK;
}

void division_free(struct division *division) {
  vector_free(&division->sets);
  vector_free(&division->cuts);
  vector_free(&division->children);
}
