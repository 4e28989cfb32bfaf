#include "search/chain_cuts.h"

#include <string.h>

/* The values that cross the position after each forward node. */
struct crossings {
  int32_t border;
  int32_t *last;   /* by tensor: its last reader before the border; -1: not a forward value that is read */
  int32_t *count;  /* by position */
  int32_t *sum;    /* by position: sum of the tensors' ids modulo 2^32; of one value, that value */
  int32_t *oldest; /* by position: the earliest producer of those that cross */
  uint64_t *bytes; /* by position */
};

static neap_status find_crossings(const neap_step *step, struct region *region, struct crossings *c) {
  const size_t nodes = (size_t)c->border + 2;
  c->last = region_alloc(region, (size_t)step->tensor_count + 1, sizeof *c->last);
  c->count = region_alloc(region, nodes, sizeof *c->count);
  c->sum = region_alloc(region, nodes, sizeof *c->sum);
  c->oldest = region_alloc(region, nodes, sizeof *c->oldest);
  c->bytes = region_alloc(region, nodes, sizeof *c->bytes);
  RETURN_IF(!c->last || !c->count || !c->sum || !c->oldest || !c->bytes, NEAP_OUT_OF_MEMORY,
            "chain: out of memory");
  uint32_t *sum = (uint32_t *)c->sum;
  for (int32_t v = 0; v <= c->border; v++) c->oldest[v] = INT32_MAX;
  for (int32_t t = 0; t < step->tensor_count; t++) {
    const int32_t producer = step->tensors[t].producer;
    c->last[t] = -1;
    if (producer < 0 || producer >= c->border) continue;
    for (int32_t r = step->reader_start[t]; r < step->reader_start[t + 1]; r++)
      if (step->readers[r] < c->border) c->last[t] = step->readers[r];
    const int32_t last = c->last[t];
    if (last < 0) continue;
    c->count[producer]++, c->count[last]--;
    sum[producer] += (uint32_t)t, sum[last] -= (uint32_t)t;
    c->bytes[producer] += step->tensors[t].bytes, c->bytes[last] -= step->tensors[t].bytes;
    if (producer < c->oldest[last - 1]) c->oldest[last - 1] = producer;
  }
  for (int32_t v = 1; v < c->border; v++) {
    c->count[v] += c->count[v - 1];
    sum[v] += sum[v - 1];
    c->bytes[v] += c->bytes[v - 1];
  }
  for (int32_t v = c->border - 1; v-- > 0;)
    if (c->oldest[v + 1] < c->oldest[v]) c->oldest[v] = c->oldest[v + 1];
  return NEAP_OK;
}

/* Returns true if one value crosses alone, right after it was made. */
static bool is_articulation(const neap_step *step, const struct crossings *c, int32_t v) {
  return c->count[v] == 1 && step->tensors[c->sum[v]].producer == v;
}

/* Returns a boundary of several values between `from` (a cut, or -1) and `to` (a cut, or the border), each
 * made after `from`; -1: none. Among the positions up to twice as far away as the first one, takes the one
 * with the least bytes. */
static int32_t next_boundary(const struct crossings *c, int32_t from, int32_t to) {
  int32_t first = from + 1;
  while (first < to && (c->count[first] == 0 || c->count[first] > CUT_VALUES || c->oldest[first] <= from))
    first++;
  int32_t best = -1;
  for (int32_t v = first; v < to && v - first <= first - from; v++)
    if (c->count[v] > 0 && c->count[v] <= CUT_VALUES && c->oldest[v] > from &&
        (best < 0 || c->bytes[v] < c->bytes[best]))
      best = v;
  return best;
}

/* Lists the values of each cut, in the order of their producers. A value belongs to at most one cut. */
static void list_values(const neap_step *step, const struct crossings *c, struct chain_cuts *out) {
  int32_t used = 0;
  for (int32_t i = 0, v = 0; i < out->count; i++) {
    struct chain_cut *cut = &out->cuts[i];
    cut->begin = used;
    for (; v <= cut->after; v++)
      for (int32_t o = 0; o < step->nodes[v].output_count; o++)
        if (c->last[step->nodes[v].outputs[o]] > cut->after) out->values[used++] = step->nodes[v].outputs[o];
    cut->end = used;
  }
}

/* The fewest boundaries of several values between two articulation points. One or two cut a block into
 * branches, which the points cut off more cheaply; more of them are the steps of a sequence. */
enum { FEWEST_BOUNDARIES = 3 };

neap_status chain_cuts_find(const neap_step *step, struct region *region, struct chain_cuts *out) {
  struct crossings c = {0};
  *out = (struct chain_cuts){0};
  while (out->border < step->node_count && step->nodes[out->border].pass != NEAP_PASS_BACKWARD) out->border++;
  c.border = out->border;
  struct region scratch = {0};
  neap_status status = find_crossings(step, &scratch, &c);
  if (status == NEAP_OK) {
    out->cuts = region_alloc(region, (size_t)c.border + 1, sizeof *out->cuts);
    out->values = region_alloc(region, (size_t)step->tensor_count + 1, sizeof *out->values);
    if (out->cuts == NULL || out->values == NULL)
      status = neap_fail(NEAP_OUT_OF_MEMORY, "chain: out of memory");
  }
  for (int32_t from = -1, to = 0; status == NEAP_OK && from < c.border; from = to) {
    for (to = from + 1; to < c.border && !is_articulation(step, &c, to); to++) {}
    const int32_t before = out->count;
    for (int32_t v = from; (v = next_boundary(&c, v, to)) >= 0;) out->cuts[out->count++].after = v;
    if (out->count - before < FEWEST_BOUNDARIES) out->count = before;
    if (to < c.border) out->cuts[out->count++].after = to;
  }
  if (status == NEAP_OK) list_values(step, &c, out);
  region_free(&scratch);
  return status;
}
