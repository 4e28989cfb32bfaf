/* Checkpoints of least peak. */
#include "papers/hong.h"

#include <stdlib.h>

#include "papers/chain_sweep.h"

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Follows `next` from layer 0. */
static void follow(int32_t n, const int32_t *next, int32_t *chosen, int32_t *count) {
  *count = 0;
  for (int32_t i = 0; i < n; i = next[i]) chosen[(*count)++] = i;
}

/* ---- The first objective ---- */

struct hong_n3 {
  int32_t n;
  const uint64_t *kept;
  uint64_t *segment; /* [n x n] W(i, j) */
  uint64_t *sum;     /* [n] least sum of checkpoints from i on */
  int32_t *next;     /* [n] */
  int32_t *deque;    /* [n] candidates j, sums rising from the back, which lies at the right */
};

static void fill_segments(struct hong_n3 *h, const uint64_t *bytes) {
  for (int32_t i = 0; i < h->n; i++) {
    uint64_t sum = 0, most = bytes[i];
    for (int32_t j = i + 1; j < h->n; j++) {
      most = larger(most, bytes[j]);
      h->segment[(size_t)i * (size_t)h->n + (size_t)j] = sum + most;
      sum += bytes[j];
    }
  }
}

/* Returns the least sum of checkpoints if no segment is larger than `limit`; UINT64_MAX: none. W(i, j) grows
 * with j and as i falls, so the candidates of i are a window that only moves left. */
static uint64_t least_sum(struct hong_n3 *h, uint64_t limit) {
  const int32_t n = h->n;
  int32_t front = 0, back = 0; /* deque[front .. back): j falling, sums falling: the least is the front's */
  h->sum[n - 1] = h->kept[n - 1];
  h->next[n - 1] = n;
  for (int32_t i = n - 1; i-- > 0;) {
    while (back > front && h->sum[h->deque[back - 1]] >= h->sum[i + 1]) back--;
    h->deque[back++] = i + 1;
    while (front < back && h->segment[(size_t)i * (size_t)n + (size_t)h->deque[front]] > limit) front++;
    if (front == back) return UINT64_MAX; /* not even the neighbour */
    h->sum[i] = h->kept[i] + h->sum[h->deque[front]];
    h->next[i] = h->deque[front];
  }
  return h->sum[0];
}

static int compare_bytes(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static neap_status search_limits(struct hong_n3 *h, uint64_t *limits, int32_t *chosen, int32_t *count,
                                 uint64_t *peak) {
  const int32_t n = h->n;
  size_t used = 0;
  for (int32_t i = 0; i < n; i++)
    for (int32_t j = i + 1; j < n; j++) limits[used++] = h->segment[(size_t)i * (size_t)n + (size_t)j];
  qsort(limits, used, sizeof *limits, compare_bytes);
  *peak = UINT64_MAX;
  for (size_t i = 0; i < used; i++) {
    if (i > 0 && limits[i] == limits[i - 1]) continue;
    if (limits[i] >= *peak) break;
    const uint64_t sum = least_sum(h, limits[i]);
    if (sum == UINT64_MAX || sum + limits[i] >= *peak) continue;
    *peak = sum + limits[i];
    follow(n, h->next, chosen, count);
  }
  return NEAP_OK;
}

neap_status hong_n3_checkpoints(int32_t n, const uint64_t *bytes, const uint64_t *kept, int32_t *chosen,
                                int32_t *count, uint64_t *peak) {
  if (n == 1) {
    chosen[0] = 0, *count = 1, *peak = kept[0];
    return NEAP_OK;
  }
  struct region region = {0};
  struct hong_n3 h = {.n = n, .kept = kept};
  h.segment = region_alloc(&region, (size_t)n * (size_t)n, sizeof *h.segment);
  h.sum = region_alloc(&region, (size_t)n, sizeof *h.sum);
  h.next = region_alloc(&region, (size_t)n, sizeof *h.next);
  h.deque = region_alloc(&region, (size_t)n, sizeof *h.deque);
  uint64_t *limits = region_alloc(&region, (size_t)n * (size_t)n / 2 + 1, sizeof *limits);
  neap_status status = NEAP_OK;
  if (!h.segment || !h.sum || !h.next || !h.deque || !limits) {
    status = neap_fail(NEAP_OUT_OF_MEMORY, "hong-n3: out of memory for %d layers", n);
  } else {
    fill_segments(&h, bytes);
    status = search_limits(&h, limits, chosen, count, peak);
  }
  region_free(&region);
  return status;
}

/* ---- The revised objective ---- */

struct hong {
  const uint64_t *bytes;
  uint64_t *before; /* [n + 1] sums of bytes[0 .. k - 1] */
  uint64_t *peak;   /* [n] T(i), the least peak of layers i .. n - 1 (hong.h) */
  int32_t *next;    /* [n] */
  int32_t *largest; /* [n] layers of the window i .. j whose bytes no layer left of them exceeds */
  int32_t largest_begin, largest_end;
  int32_t *candidates; /* [n] j falling, T(j) rising: the last is the nearest */
  int32_t begin, end;
};

/* Widens the window to the left by layer i. */
static void widen(struct hong *h, int32_t i) {
  while (h->largest_end > h->largest_begin && h->bytes[h->largest[h->largest_end - 1]] <= h->bytes[i])
    h->largest_end--;
  h->largest[h->largest_end++] = i;
}

/* Returns U(i, j) and shrinks the window to i .. j. */
static uint64_t segment(struct hong *h, int32_t i, int32_t j) {
  while (h->largest[h->largest_begin] > j) h->largest_begin++;
  return h->before[j + 1] - h->before[i + 1] + h->bytes[h->largest[h->largest_begin]];
}

/* Chooses the next checkpoint. U(i, j) grows with j and as i falls, T(j) of the candidates falls with j. So
 * the best candidate is the farthest whose segment is smaller than the T of the next nearer one; a candidate
 * that is passed over never returns. */
static void choose_next(struct hong *h, const uint64_t *kept, int32_t i) {
  while (h->end > h->begin && h->peak[h->candidates[h->end - 1]] >= h->peak[i + 1]) h->end--;
  h->candidates[h->end++] = i + 1;
  widen(h, i);
  uint64_t size = segment(h, i, h->candidates[h->begin]);
  while (h->end - h->begin > 1 && size >= h->peak[h->candidates[h->begin + 1]]) {
    h->begin++;
    size = segment(h, i, h->candidates[h->begin]);
  }
  h->next[i] = h->candidates[h->begin];
  h->peak[i] = kept[i] + larger(h->peak[h->next[i]], size);
}

neap_status hong_checkpoints(int32_t n, const uint64_t *bytes, const uint64_t *kept, int32_t *chosen,
                             int32_t *count, uint64_t *peak) {
  struct region region = {0};
  struct hong h = {.bytes = bytes};
  h.before = region_alloc(&region, (size_t)n + 1, sizeof *h.before);
  h.peak = region_alloc(&region, (size_t)n, sizeof *h.peak);
  h.next = region_alloc(&region, (size_t)n, sizeof *h.next);
  h.largest = region_alloc(&region, (size_t)n, sizeof *h.largest);
  h.candidates = region_alloc(&region, (size_t)n, sizeof *h.candidates);
  if (!h.before || !h.peak || !h.next || !h.largest || !h.candidates) {
    region_free(&region);
    return neap_fail(NEAP_OUT_OF_MEMORY, "hong: out of memory for %d layers", n);
  }
  for (int32_t k = 0; k < n; k++) h.before[k + 1] = h.before[k] + bytes[k];
  h.peak[n - 1] = kept[n - 1];
  h.next[n - 1] = n;
  widen(&h, n - 1);
  for (int32_t i = n - 1; i-- > 0;) choose_next(&h, kept, i);
  *peak = h.peak[0];
  follow(n, h.next, chosen, count);
  region_free(&region);
  return NEAP_OK;
}

/* ---- The planners ---- */

enum { HONG_N3_STAGES = 150 };

/* The layers: layer 0 is the input, layer k the output of stage k - 1. */
struct layers {
  uint64_t *bytes, *kept;
  int32_t *chosen;
  bool cubic;
};

static neap_status push(chain_operations *out, enum chain_action action, int32_t stage) {
  return vector_push(out, (struct chain_operation){action, stage, 0, 0});
}

/* Runs stages begin .. end - 1 forward, keeping everything, and backward again. */
static neap_status push_segment(int32_t begin, int32_t end, chain_operations *out) {
  for (int32_t s = begin; s < end - 1; s++) TRY(push(out, CHAIN_FORWARD_KEEP, s));
  TRY(push(out, CHAIN_LEAF, end - 1));
  for (int32_t s = end - 1; s-- > begin;) TRY(push(out, CHAIN_BACKWARD, s));
  return NEAP_OK;
}

/* Makes the operations. The last `kept_stages` stages keep everything; before them are checkpoints of least
 * peak, the last one where they begin. */
static neap_status operations(struct chain_sweep *sweep, int32_t kept_stages, chain_operations *out) {
  struct layers *l = sweep->family;
  const int32_t first = sweep->plan.chain.stage_count - kept_stages;
  int32_t count;
  uint64_t peak;
  TRY((l->cubic ? hong_n3_checkpoints : hong_checkpoints)(first + 1, l->bytes, l->kept, l->chosen, &count,
                                                          &peak));
  for (int32_t s = 0; s < first; s++) TRY(push(out, CHAIN_FORWARD, s));
  TRY(push_segment(first, sweep->plan.chain.stage_count, out));
  for (int32_t c = count - 1; c > 0; c--) TRY(push_segment(l->chosen[c - 1], l->chosen[c], out));
  return NEAP_OK;
}

static neap_status prepare(struct chain_sweep *sweep) {
  struct layers *l = sweep->family;
  const int32_t stages = sweep->plan.chain.stage_count;
  l->bytes = region_alloc(&sweep->region, (size_t)stages + 1, sizeof *l->bytes);
  l->kept = region_alloc(&sweep->region, (size_t)stages + 1, sizeof *l->kept);
  l->chosen = region_alloc(&sweep->region, (size_t)stages + 1, sizeof *l->chosen);
  RETURN_IF(!l->bytes || !l->kept || !l->chosen, NEAP_OUT_OF_MEMORY, "hong: out of memory");
  for (int32_t s = 0; s < stages; s++) {
    l->kept[s + 1] = sweep->plan.chain.stages[s].output_bytes;
    l->bytes[s + 1] = l->kept[s + 1] + chain_plan_stage(&sweep->plan, s)->modes[0].options.data[0].kept_bytes;
  }
  sweep->most = stages;
  return NEAP_OK;
}

static neap_status plan(const char *name, bool cubic, int32_t most_stages, const neap_step *step,
                        uint64_t budget, const struct planner_options *options, struct schedule *out) {
  struct layers layers = {.cubic = cubic};
  struct chain_sweep sweep = {.name = name,
                              .most_stages = most_stages,
                              .family = &layers,
                              .prepare = prepare,
                              .operations = operations};
  return chain_sweep_run(&sweep, step, budget, options, out);
}

neap_status plan_hong_n3(const neap_step *step, uint64_t budget, const struct planner_options *options,
                         struct schedule *out) {
  return plan("hong-n3", true, HONG_N3_STAGES, step, budget, options, out);
}

neap_status plan_hong(const neap_step *step, uint64_t budget, const struct planner_options *options,
                      struct schedule *out) {
  return plan("hong", false, INT32_MAX - 1, step, budget, options, out);
}
