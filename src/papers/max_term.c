#include "papers/max_term.h"

#include <string.h>

#include "base/stop.h"

static uint64_t set_kept(const struct max_term_search *s, int32_t child) {
  return child < 0 ? 0 : s->kept[child];
}

static uint64_t set_bytes(const struct max_term_search *s, int32_t child) {
  return child < 0 ? 0 : s->division->sets.data[child].bytes;
}

/* Finds the shortest path through the accessibility graph, with a deque of places from which the current one
 * can be reached, by rising bytes. Returns the bytes that stay; `from` has the path. */
static uint64_t solve_linear(struct max_term_search *s, const struct closed_set *set, uint64_t term) {
  const int32_t cuts = set->cut_end - set->cut_begin, *cut = s->division->cuts.data + set->cut_begin,
                *child = s->division->children.data + set->child_begin;
  int32_t head = 0, tail = 0;
  s->bytes[0] = s->prefix[0] = 0;
  s->queue[tail++] = 0;
  for (int32_t k = 1; k <= cuts + 1; k++) {
    const uint64_t own = k <= cuts ? s->division->bytes[cut[k - 1]] : 0, gap = set_bytes(s, child[k - 1]);
    const uint64_t before = k > 1 ? s->division->bytes[cut[k - 2]] : 0;
    s->prefix[k] = s->prefix[k - 1] + before + gap;
    if (gap > term) { /* only from the neighbour, and what lies between is divided */
      s->from[k] = k - 1;
      s->bytes[k] = s->bytes[k - 1] + set_kept(s, child[k - 1]) + own;
      head = tail = 0;
    } else {
      /* From j: what lies between is the prefix of k without that of j and j's own bytes. */
      for (;; head++) {
        const int32_t j = s->queue[head];
        const uint64_t skipped = s->prefix[j] + (j > 0 ? s->division->bytes[cut[j - 1]] : 0);
        if (s->prefix[k] - skipped <= term) break;
      }
      s->from[k] = s->queue[head];
      s->bytes[k] = s->bytes[s->queue[head]] + own;
    }
    while (tail > head && s->bytes[s->queue[tail - 1]] >= s->bytes[k]) tail--;
    s->queue[tail++] = k;
  }
  return s->bytes[cuts + 1];
}

/* Returns the bytes that stay. Solves children first; nothing of a set that is a segment stays. */
static uint64_t solve(struct max_term_search *s, uint64_t term) {
  const struct division *division = s->division;
  for (size_t i = division->sets.count; i-- > 0;) {
    const struct closed_set *set = &division->sets.data[i];
    s->kept[i] = 0;
    if (set->bytes <= term) continue;
    if (set->kind == DIVISION_LINEAR) {
      s->kept[i] = solve_linear(s, set, term);
      continue;
    }
    for (int32_t k = set->cut_begin; k < set->cut_end; k++)
      s->kept[i] += division->bytes[division->cuts.data[k]];
    for (int32_t k = set->child_begin; k < set->child_end; k++)
      s->kept[i] += s->kept[division->children.data[k]];
  }
  return division->sets.count > 0 ? s->kept[0] : 0;
}

/* Marks the cuts of one set that stay for a max term, and the children that are divided in turn. Returns the
 * largest segment met. */
static uint64_t trace_set(struct max_term_search *s, const struct closed_set *set, uint64_t term) {
  const struct division *division = s->division;
  const int32_t *child = division->children.data + set->child_begin,
                *cut = division->cuts.data + set->cut_begin, cuts = set->cut_end - set->cut_begin;
  uint64_t largest = 0;
  for (int32_t k = 0; k < set->child_end - set->child_begin; k++)
    if (set_bytes(s, child[k]) > term)
      s->divided[child[k]] = true;
    else if (set->kind != DIVISION_LINEAR && set_bytes(s, child[k]) > largest)
      largest = set_bytes(s, child[k]);
  if (set->kind != DIVISION_LINEAR) {
    for (int32_t k = 0; k < cuts; k++) s->stays[cut[k]] = true;
    return largest;
  }
  solve_linear(s, set, term);
  for (int32_t k = cuts + 1; k > 0; k = s->from[k]) {
    const int32_t j = s->from[k];
    const uint64_t between = s->prefix[k] - s->prefix[j] - (j > 0 ? division->bytes[cut[j - 1]] : 0);
    if (between <= term && between > largest) largest = between;
    if (j > 0) s->stays[cut[j - 1]] = true;
  }
  return largest;
}

void max_term_solve(struct max_term_search *s, uint64_t term, uint64_t *kept, uint64_t *largest) {
  const struct division *division = s->division;
  memset(s->stays, 0, (size_t)division->graph->count * sizeof *s->stays);
  memset(s->divided, 0, division->sets.count * sizeof *s->divided);
  *kept = solve(s, term);
  *largest = 0;
  if (division->sets.count == 0) return;
  s->divided[0] = division->sets.data[0].bytes > term;
  if (!s->divided[0]) *largest = division->sets.data[0].bytes;
  for (size_t i = 0; i < division->sets.count; i++) {
    if (!s->divided[i]) continue;
    const uint64_t met = trace_set(s, &division->sets.data[i], term);
    if (met > *largest) *largest = met;
  }
}

/* ---- Choosing max terms ---- */

enum { TERMS = 600 }; /* that are tried for the least sum, at most */

/* Max terms from low to high; for all of them at least `kept` bytes stay. */
struct interval {
  uint64_t low, high, kept;
};

neap_status max_term_find_best(struct max_term_search *s, uint64_t *best_term) {
  const uint64_t total = s->division->sets.count > 0 ? s->division->sets.data[0].bytes : 0;
  uint64_t best = UINT64_MAX;
  *best_term = total;
  VECTOR(struct interval) open = {0};
  neap_status status = vector_push(&open, (struct interval){0, total, 0});
  for (int tried = 0; status == NEAP_OK && open.count > 0 && tried < TERMS; tried++) {
    /* The most promising: the paper's answer is near the first. */
    size_t next = 0;
    status = stop_check();
    if (status != NEAP_OK) break;
    for (size_t i = 1; i < open.count; i++)
      if (open.data[i].low + open.data[i].kept < open.data[next].low + open.data[next].kept) next = i;
    const struct interval interval = open.data[next];
    open.data[next] = open.data[--open.count];
    if (interval.low + interval.kept >= best) break;
    uint64_t kept, largest;
    const uint64_t middle = interval.low + (interval.high - interval.low) / 2;
    max_term_solve(s, middle, &kept, &largest);
    if (kept + largest < best) best = kept + largest, *best_term = middle;
    if (middle < interval.high)
      status = vector_push(&open, (struct interval){middle + 1, interval.high, interval.kept});
    if (status == NEAP_OK && largest > interval.low)
      status = vector_push(&open, (struct interval){interval.low, largest - 1, kept});
  }
  vector_free(&open);
  return status;
}

neap_status max_term_create(const struct division *division, struct region *region,
                            struct max_term_search *out) {
  const size_t vertices = (size_t)division->graph->count + 2;
  *out = (struct max_term_search){.division = division};
  out->kept = region_alloc(region, division->sets.count + 1, sizeof *out->kept);
  out->divided = region_alloc(region, division->sets.count + 1, sizeof *out->divided);
  out->stays = region_alloc(region, vertices, sizeof *out->stays);
  out->bytes = region_alloc(region, vertices, sizeof *out->bytes);
  out->prefix = region_alloc(region, vertices, sizeof *out->prefix);
  out->from = region_alloc(region, vertices, sizeof *out->from);
  out->queue = region_alloc(region, vertices, sizeof *out->queue);
  RETURN_IF(!out->kept || !out->divided || !out->stays || !out->bytes || !out->prefix || !out->from ||
                !out->queue,
            NEAP_OUT_OF_MEMORY, "feng-huang: out of memory");
  return NEAP_OK;
}
