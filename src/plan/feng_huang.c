/* Feng and Huang 2018 (1808.00079): the set of values that stay for which their bytes and those of the
 * largest segment between them are least in sum. The segment's bytes are bounded by a max term C. A closed
 * set of at most C bytes inside is a segment. A larger one is divided: into its branches; or at all of its
 * cuts; or, when it is linear, at the cuts on the shortest path through its accessibility graph, where an
 * edge leads from cut to cut when at most C bytes lie between and a vertex weighs its bytes. The published
 * algorithm takes every sum of a run as max term; here intervals of C without one that can win are passed
 * over, which finds the same least sum. The paper's plan is one; for the caller's budget others over a grid
 * of C are scored too. */
#include <math.h>
#include <string.h>

#include "plan/contest.h"
#include "plan/division.h"
#include "plan/planners.h"

struct search {
  struct contest contest;
  struct division division;
  struct schedule schedule;
  uint64_t *kept; /* by set: bytes that stay inside it for the max term in hand */
  bool *stays;    /* by vertex */
  /* Along the cuts of one linear set, its ends included: */
  uint64_t *bytes, *prefix; /* of what stays up to here; of what lies before it and after the source */
  int32_t *from, *queue;
};

static uint64_t set_kept(const struct search *s, int32_t child) { return child < 0 ? 0 : s->kept[child]; }

static uint64_t set_bytes(const struct search *s, int32_t child) {
  return child < 0 ? 0 : s->division.sets.data[child].bytes;
}

/* The shortest path through the accessibility graph: a deque of places from which the one in hand can be
 * reached, by rising bytes. Returns what stays; `from` has the path. */
static uint64_t solve_linear(struct search *s, const struct closed_set *set, uint64_t term) {
  const int32_t cuts = set->cut_end - set->cut_begin, *cut = s->division.cuts.data + set->cut_begin,
                *child = s->division.children.data + set->child_begin;
  int32_t head = 0, tail = 0;
  s->bytes[0] = s->prefix[0] = 0;
  s->queue[tail++] = 0;
  for (int32_t k = 1; k <= cuts + 1; k++) {
    const uint64_t own = k <= cuts ? s->division.bytes[cut[k - 1]] : 0, gap = set_bytes(s, child[k - 1]);
    const uint64_t before = k > 1 ? s->division.bytes[cut[k - 2]] : 0;
    s->prefix[k] = s->prefix[k - 1] + before + gap;
    if (gap > term) { /* only from the neighbour, and what lies between is divided */
      s->from[k] = k - 1;
      s->bytes[k] = s->bytes[k - 1] + set_kept(s, child[k - 1]) + own;
      head = tail = 0;
    } else {
      /* From j: what lies between is the prefix of k without that of j and j's own bytes. */
      for (;; head++) {
        const int32_t j = s->queue[head];
        const uint64_t skipped = s->prefix[j] + (j > 0 ? s->division.bytes[cut[j - 1]] : 0);
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

/* What stays of each set, children first; of those that are segments, nothing. */
static uint64_t solve(struct search *s, uint64_t term) {
  const struct division *division = &s->division;
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

/* The cuts of one set that stay for a max term; marks the children that are divided in their turn and returns
 * the largest segment met. */
static uint64_t trace_set(struct search *s, const struct closed_set *set, uint64_t term, bool *divided) {
  const struct division *division = &s->division;
  const int32_t *child = division->children.data + set->child_begin,
                *cut = division->cuts.data + set->cut_begin, cuts = set->cut_end - set->cut_begin;
  uint64_t largest = 0;
  for (int32_t k = 0; k < set->child_end - set->child_begin; k++)
    if (set_bytes(s, child[k]) > term)
      divided[child[k]] = true;
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

/* Solves for a max term and says what stays. *largest: of the segments, at most the max term. */
static neap_status trace(struct search *s, uint64_t term, uint64_t *kept, uint64_t *largest) {
  const struct division *division = &s->division;
  bool *divided = calloc(division->sets.count + 1, sizeof *divided);
  RETURN_IF(divided == NULL, NEAP_OUT_OF_MEMORY, "feng-huang: out of memory");
  memset(s->stays, 0, (size_t)division->graph->count * sizeof *s->stays);
  *kept = solve(s, term);
  *largest = 0;
  if (division->sets.count > 0) {
    if (division->sets.data[0].bytes > term)
      divided[0] = true;
    else
      *largest = division->sets.data[0].bytes;
  }
  for (size_t i = 0; i < division->sets.count; i++) {
    if (!divided[i]) continue;
    const uint64_t met = trace_set(s, &division->sets.data[i], term, divided);
    if (met > *largest) *largest = met;
  }
  free(divided);
  return NEAP_OK;
}

/* ---- Which max terms ---- */

enum { TERMS = 600 }; /* that are tried for the least sum, at most */

/* Max terms from low to high, for all of which at least `kept` bytes stay. */
struct interval {
  uint64_t low, high, kept;
};

/* The max term with the least sum of what stays and the largest segment. */
static neap_status find_best_term(struct search *s, uint64_t total, uint64_t *best_term) {
  uint64_t best = UINT64_MAX;
  VECTOR(struct interval) open = {0};
  neap_status status = vector_push(&open, (struct interval){0, total, 0});
  for (int tried = 0; status == NEAP_OK && open.count > 0 && tried < TERMS; tried++) {
    /* The most promising: the paper's answer is near the first. */
    size_t next = 0;
    for (size_t i = 1; i < open.count; i++)
      if (open.data[i].low + open.data[i].kept < open.data[next].low + open.data[next].kept) next = i;
    const struct interval interval = open.data[next];
    open.data[next] = open.data[--open.count];
    if (interval.low + interval.kept >= best) break;
    uint64_t kept, largest;
    const uint64_t middle = interval.low + (interval.high - interval.low) / 2;
    status = trace(s, middle, &kept, &largest);
    if (status != NEAP_OK) break;
    if (kept + largest < best) best = kept + largest, *best_term = middle;
    if (middle < interval.high)
      status = vector_push(&open, (struct interval){middle + 1, interval.high, interval.kept});
    if (status == NEAP_OK && largest > interval.low)
      status = vector_push(&open, (struct interval){interval.low, largest - 1, kept});
  }
  vector_free(&open);
  return status;
}

/* Scores what stays for a max term; so does the last segment, with which the backward pass begins. */
static neap_status offer(struct search *s, uint64_t term) {
  uint64_t kept, largest;
  TRY(trace(s, term, &kept, &largest));
  const struct forward_graph *graph = s->division.graph;
  for (int32_t v = graph->count; v-- > 0 && !s->stays[v];) s->stays[v] = true;
  TRY(forward_graph_schedule(graph, NULL, s->stays, &s->schedule));
  return contest_offer(&s->contest, &s->schedule, NULL);
}

enum { GRID = 40, LARGE_GRID = 16, LARGE_STEP = 2000 };

/* The paper's plan, then from max terms so small that everything stays to one that holds everything. */
static neap_status search_all(struct search *s) {
  const struct division *division = &s->division;
  const double total = division->sets.count > 0 ? (double)division->sets.data[0].bytes : 0;
  const int grid = division->graph->step->node_count > LARGE_STEP ? LARGE_GRID : GRID;
  uint64_t best_term = 0;
  TRY(find_best_term(s, (uint64_t)total, &best_term));
  TRY(offer(s, best_term));
  for (int i = 0; i < grid; i++) TRY(offer(s, (uint64_t)(total * exp2(-12.0 * i / (grid - 1)))));
  return offer(s, 0);
}

static neap_status search_create(const struct forward_graph *graph, struct region *region, struct search *s) {
  const size_t vertices = (size_t)graph->count + 2;
  TRY(division_create(graph, region, &s->division));
  s->kept = region_alloc(region, s->division.sets.count + 1, sizeof *s->kept);
  s->stays = region_alloc(region, vertices, sizeof *s->stays);
  s->bytes = region_alloc(region, vertices, sizeof *s->bytes);
  s->prefix = region_alloc(region, vertices, sizeof *s->prefix);
  s->from = region_alloc(region, vertices, sizeof *s->from);
  s->queue = region_alloc(region, vertices, sizeof *s->queue);
  RETURN_IF(!s->kept || !s->stays || !s->bytes || !s->prefix || !s->from || !s->queue, NEAP_OUT_OF_MEMORY,
            "feng-huang: out of memory");
  return NEAP_OK;
}

neap_status plan_feng_huang(const neap_step *step, uint64_t budget, const struct planner_options *options,
                            struct schedule *out) {
  struct region region = {0};
  struct forward_graph graph;
  struct search s = {0};
  neap_status status = contest_create(step, budget, options, out, &s.contest);
  if (status == NEAP_OK) status = forward_graph_create(step, &region, &graph);
  if (status == NEAP_OK) status = search_create(&graph, &region, &s);
  if (status == NEAP_OK) status = search_all(&s);
  if (status == NEAP_OK) status = contest_result(&s.contest, "feng-huang");
  schedule_free(&s.schedule);
  division_free(&s.division);
  contest_free(&s.contest);
  region_free(&region);
  return status;
}
