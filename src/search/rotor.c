#include "search/rotor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "base/stop.h"
#include "base/targets.h"

/* opt(p, m, a, b) for all m. */
struct table {
  float *cost;   /* [limit + 1] */
  float bound;   /* no plan is cheaper */
  int32_t limit; /* the slots that the stages do not hold; negative: no table */
  int32_t from;  /* the least m with a finite cost; limit + 1: none */
};

struct rotor {
  const struct rotor_stage *stages;
  int32_t count, modes, slots;
  struct region region;
  int32_t *held[ROTOR_MODES];        /* [count + 1]: slots that the stages before hold */
  struct table *tables[ROTOR_MODES]; /* [count x count]; b >= a; stretches of the same kinds share costs */
};

static struct table *table_of(const struct rotor *r, int32_t p, int32_t a, int32_t b) {
  return &r->tables[p][(size_t)a * (size_t)r->count + (size_t)b];
}

/* Returns the slots that stages a .. b hold in mode p. */
static int32_t held(const struct rotor *r, int32_t p, int32_t a, int32_t b) {
  return r->held[p][b + 1] - r->held[p][a];
}

/* ---- Splits ---- */

/* Returns the number of modes: a sweep over the stretch may leave the values of modes below it. */
static int32_t modes_left(const struct rotor *r, int32_t p, int32_t a, int32_t b) {
  return p == 0 && (b == r->count - 1 || b - a < ROTOR_EXACT) ? r->modes : 0;
}

/* Returns true if a split is tried that is `before` and `after` stages away from the ends. Every doubling of
 * the distance beyond ROTOR_EXACT / 2 has the same number of splits. */
static bool is_split(int32_t before, int32_t after) {
  const int32_t distance = before < after ? before : after;
  int32_t apart = 1;
  while (distance / apart > ROTOR_EXACT / 2) apart *= 2;
  return distance % apart == 0;
}

static int32_t count_splits(int32_t length) {
  int32_t splits = 0;
  for (int32_t j = 1; j < length; j++) splits += is_split(j, length - j);
  return splits;
}

/* ---- Sequences of the same kinds ---- */

/* Finds, for a, another start whose stages are the same as a's for as long as possible, and that length. It
 * uses the longest common sequences of a + 1 with all later stages. `common`: [count + 1], by start; call
 * with the last a first. */
static int32_t find_twin(const struct rotor_stage *stages, int32_t count, int32_t a, int32_t *common,
                         int32_t *length) {
  int32_t twin = a;
  *length = 0;
  for (int32_t other = a + 1; other < count - 1; other++) { /* the last stage is like no other */
    common[other] = stages[other].kind == stages[a].kind ? 1 + common[other + 1] : 0;
    if (common[other] > *length) *length = common[other], twin = other;
  }
  return twin;
}

double rotor_work(const struct rotor_stage *stages, int32_t count, int32_t modes, int32_t slots) {
  int32_t *common = calloc((size_t)count + 2, sizeof *common),
          *splits = calloc((size_t)count + 2, sizeof *splits), length;
  double work = INFINITY;
  if (common != NULL && splits != NULL) {
    work = 0;
    for (int32_t n = 1; n <= count; n++)
      splits[n] = count_splits(n) * (n <= ROTOR_EXACT ? 2 * modes - 1 : modes);
    for (int32_t a = count; a-- > 0;) {
      find_twin(stages, count, a, common, &length);
      for (int32_t b = a + length; b < count; b++) {
        work += (double)splits[b - a + 1];
        for (int32_t p = 0; p < modes; p++) work += stages[a].modes[p].option_count;
      }
    }
  }
  free(common);
  free(splits);
  return work * slots;
}

/* ---- Candidates ---- */

static int32_t largest(int32_t a, int32_t b) { return a > b ? a : b; }

/* A sweep of stages a .. j - 1 in mode p that leaves the values of mode q (no more if q = p): sum of costs,
 * and peak above the gradient. */
struct sweep {
  const struct rotor *rotor;
  int32_t p, q, a, peak;
  float sum;
};

static void sweep_on(struct sweep *w, int32_t j) {
  const struct rotor_stage *stage = &w->rotor->stages[j - 1];
  const int32_t left = w->q == w->p ? 0 : held(w->rotor, w->q, w->a, j - 1);
  w->peak = largest(w->peak, stage->modes[w->p].forward_peak + (j - 1 > w->a ? stage->input : 0) + left);
  w->sum += stage->modes[w->p].forward_cost;
}

/* A split: cost[m] = sum + right[m - taken] + left[m + freed] for m >= least. */
struct split {
  const struct table *right, *left;
  int32_t taken, freed, least;
};

static struct split split_at(const struct sweep *w, int32_t j, int32_t b) {
  const struct rotor *r = w->rotor;
  const int32_t left = w->q == w->p ? 0 : held(r, w->q, w->a, j - 1);
  struct split s = {.right = table_of(r, w->p, j, b),
                    .left = table_of(r, w->q, w->a, j - 1),
                    .taken = r->stages[j].input + left,
                    .freed = held(r, w->p, j, b) - left};
  s.least = largest(w->peak + r->stages[b].gradient, s.taken + s.right->from);
  s.least = largest(s.least, s.left->from - s.freed);
  return s;
}

/* Returns the slots that option k of stage a itself needs in mode p. */
static int32_t now_needs(const struct rotor *r, int32_t p, int32_t a, int32_t k, int32_t b) {
  const struct rotor_option *option = &r->stages[a].modes[p].options[k];
  return largest(
      largest(option->forward_peak + r->stages[b].gradient, option->backward_peak - held(r, p, a + 1, b)),
      option->kept + r->stages[a + 1].input);
}

static void add_leaves(const struct rotor_mode *mode, struct table *t) {
  for (int32_t k = 0; k < mode->leaf_count; k++)
    for (int32_t m = mode->leaves[k].peak; m <= t->limit; m++)
      if (mode->leaves[k].cost < t->cost[m]) t->cost[m] = mode->leaves[k].cost;
}

/* to[i] = min(to[i], sum + x[i] + y[i]) */
FOR_EACH_TARGET static void add_least(float *restrict to, const float *restrict x, const float *restrict y,
                                      float sum, int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    const float with = sum + x[i] + y[i];
    to[i] = with < to[i] ? with : to[i];
  }
}

/* to[i] = min(to[i], sum + x[i]) */
static void add_cost(float *restrict to, const float *restrict x, float sum, int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    const float with = sum + x[i];
    to[i] = with < to[i] ? with : to[i];
  }
}

static void add_now(const struct rotor *r, int32_t p, int32_t a, int32_t b, struct table *t) {
  const struct table *rest = table_of(r, p, a + 1, b);
  const struct rotor_mode *mode = &r->stages[a].modes[p];
  for (int32_t k = 0; k < mode->option_count; k++) {
    const int32_t shift = mode->options[k].kept + r->stages[a + 1].input;
    const float cost = mode->options[k].cost;
    const int32_t least = largest(now_needs(r, p, a, k, b), shift + rest->from);
    if (least <= t->limit)
      add_cost(t->cost + least, rest->cost + (least - shift), cost, t->limit + 1 - least);
  }
}

/* Adds the splits for m < `end`; beyond it nothing is cheaper than `now`. */
static void add_later(const struct rotor *r, int32_t p, int32_t q, int32_t a, int32_t b, int32_t end,
                      struct table *t) {
  struct sweep sweep = {.rotor = r, .p = p, .q = q, .a = a};
  for (int32_t j = a + 1; j <= b; j++) {
    sweep_on(&sweep, j);
    if (!is_split(j - a, b + 1 - j)) continue;
    const struct split s = split_at(&sweep, j, b);
    if (s.least < end)
      add_least(t->cost + s.least, s.right->cost + (s.least - s.taken), s.left->cost + (s.least + s.freed),
                sweep.sum, end - s.least);
  }
}

/* ---- Tables ---- */

static float least_option(const struct rotor_mode *mode) {
  float least = INFINITY;
  for (int32_t k = 0; k < mode->option_count; k++) least = fminf(least, mode->options[k].cost);
  return least;
}

static float least_leaf(const struct rotor_mode *mode) {
  float least = INFINITY;
  for (int32_t k = 0; k < mode->leaf_count; k++) least = fminf(least, mode->leaves[k].cost);
  return least;
}

/* Returns a bound on the cost of any plan: each stage but the last either runs as an option of mode p, or is
 * swept over and later done as an option or leaf of any mode. `sum`: of the stages before b; call for b from
 * a on, in order. */
static float bound_on(const struct rotor *r, int32_t p, int32_t b, float *sum) {
  const struct rotor_mode *modes = r->stages[b].modes;
  const float bound = *sum + least_leaf(&modes[p]);
  float later = INFINITY;
  for (int32_t q = 0; q < r->modes; q++)
    later = fminf(later, fminf(least_option(&modes[q]), least_leaf(&modes[q])));
  *sum += fminf(least_option(&modes[p]), modes[p].forward_cost + later);
  return bound;
}

static void fill(const struct rotor *r, int32_t p, int32_t a, int32_t b) {
  struct table *t = table_of(r, p, a, b);
  for (int32_t m = 0; m <= t->limit; m++) t->cost[m] = INFINITY;
  if (t->limit < 0 || stop_is_requested()) return; /* fill_all tells of it */
  if (a == b)
    add_leaves(&r->stages[a].modes[p], t);
  else
    add_now(r, p, a, b, t);
  int32_t end = t->limit + 1;
  while (end > 0 && t->cost[end - 1] <= t->bound * (1 + 1e-6f)) end--;
  if (a < b) add_later(r, p, p, a, b, end, t);
  for (int32_t q = 1; a < b && q < modes_left(r, p, a, b); q++) add_later(r, 0, q, a, b, end, t);
  while (t->from <= t->limit && t->cost[t->from] == INFINITY) t->from++;
}

/* Consecutive stages from `start` on that have the same kinds as those from a later start. */
struct twin {
  int32_t start, length;
};

/* Fills shorter stretches first; those of one length are independent. `twins`: [count], by start. */
static neap_status fill_all(const struct rotor *r, const struct twin *twins) {
  for (int32_t length = 0; length < r->count; length++) {
    TRY(stop_check());
    const int32_t starts = r->count - length;
#pragma omp parallel for schedule(dynamic, 1) copyin(stop_request) num_threads(threads_for(starts))
    for (int32_t a = 0; a < starts; a++)
      for (int32_t p = r->modes; length >= twins[a].length && p-- > 0;) fill(r, p, a, a + length);
    for (int32_t a = starts; a-- > 0;)
      for (int32_t p = 0; length < twins[a].length && p < r->modes; p++)
        *table_of(r, p, a, a + length) = *table_of(r, p, twins[a].start, twins[a].start + length);
  }
  return stop_check(); /* tables without costs are unusable */
}

/* Adds all tables except copies of a twin's. `common`: scratch, zero. */
static neap_status add_tables(struct rotor *r, int32_t *common, struct twin *twins) {
  for (int32_t a = r->count; a-- > 0;) {
    TRY(stop_check());
    twins[a].start = find_twin(r->stages, r->count, a, common, &twins[a].length);
    float sums[ROTOR_MODES] = {0};
    for (int32_t b = a; b < r->count; b++)
      for (int32_t p = 0; p < r->modes; p++) {
        const int32_t limit = r->slots - held(r, p, a, b);
        struct table *t = table_of(r, p, a, b);
        *t = (struct table){.bound = bound_on(r, p, b, &sums[p]), .limit = limit < 0 ? -1 : limit};
        if (b - a < twins[a].length) continue;
        t->cost = region_alloc(&r->region, (size_t)t->limit + 1, sizeof *t->cost);
        RETURN_IF(t->cost == NULL, NEAP_OUT_OF_MEMORY, "rotor: out of memory for a table of %d slots",
                  t->limit);
      }
  }
  return NEAP_OK;
}

static neap_status allocate(struct rotor *r) {
  for (int32_t p = 0; p < r->modes; p++) {
    r->tables[p] = region_alloc(&r->region, (size_t)r->count * (size_t)r->count, sizeof *r->tables[p]);
    r->held[p] = region_alloc(&r->region, (size_t)r->count + 1, sizeof *r->held[p]);
    RETURN_IF(r->tables[p] == NULL || r->held[p] == NULL, NEAP_OUT_OF_MEMORY,
              "rotor: out of memory for %d stages", r->count);
    for (int32_t s = 0; s < r->count; s++) r->held[p][s + 1] = r->held[p][s] + r->stages[s].modes[p].held;
  }
  return NEAP_OK;
}

neap_status rotor_create(const struct rotor_stage *stages, int32_t count, int32_t modes, int32_t slots,
                         struct rotor **out) {
  struct rotor *r = calloc(1, sizeof *r);
  int32_t *common = calloc((size_t)count + 2, sizeof *common);
  struct twin *twins = calloc((size_t)count + 1, sizeof *twins);
  neap_status status = NEAP_OK;
  if (r == NULL || common == NULL || twins == NULL) {
    status = neap_fail(NEAP_OUT_OF_MEMORY, "rotor: out of memory");
  } else {
    *r = (struct rotor){.stages = stages, .count = count, .modes = modes, .slots = slots};
    status = allocate(r);
    if (status == NEAP_OK) status = add_tables(r, common, twins);
    if (status == NEAP_OK) status = fill_all(r, twins);
  }
  free(common);
  free(twins);
  if (status == NEAP_OK)
    *out = r;
  else
    rotor_free(r);
  return status;
}

void rotor_free(struct rotor *rotor) {
  if (rotor == NULL) return;
  region_free(&rotor->region);
  free(rotor);
}

float rotor_part_cost(const struct rotor *rotor, int32_t a, int32_t b, int32_t slots) {
  return slots < 0 ? INFINITY : table_of(rotor, 0, a, b)->cost[slots];
}

float rotor_cost(const struct rotor *rotor, int32_t slots) {
  return rotor_part_cost(rotor, 0, rotor->count - 1, slots);
}

/* ---- Tracing ---- */

/* The state of the tracing: opt(p, m, a, b). */
struct state {
  int32_t p, m, a, b;
};

static neap_status trace(const struct rotor *r, struct state at, chain_operations *out);

static neap_status trace_leaf(const struct rotor *r, struct state at, chain_operations *out) {
  const struct rotor_mode *mode = &r->stages[at.a].modes[at.p];
  int32_t best = -1;
  for (int32_t k = 0; k < mode->leaf_count; k++)
    if (mode->leaves[k].peak <= at.m && (best < 0 || mode->leaves[k].cost < mode->leaves[best].cost))
      best = k;
  return vector_push(out, (struct chain_operation){CHAIN_LEAF, at.a, at.p, best});
}

static neap_status trace_now(const struct rotor *r, struct state at, int32_t k, chain_operations *out) {
  const int32_t taken = r->stages[at.a].modes[at.p].options[k].kept + r->stages[at.a + 1].input;
  TRY(vector_push(out, (struct chain_operation){CHAIN_FORWARD_KEEP, at.a, at.p, k}));
  TRY(trace(r, (struct state){at.p, at.m - taken, at.a + 1, at.b}, out));
  return vector_push(out, (struct chain_operation){CHAIN_BACKWARD, at.a, at.p, k});
}

static neap_status trace_later(const struct rotor *r, struct state at, int32_t q, int32_t j,
                               const struct split *split, chain_operations *out) {
  for (int32_t s = at.a; s < j; s++)
    TRY(vector_push(out, (struct chain_operation){CHAIN_FORWARD, s, at.p, -1}));
  TRY(trace(r, (struct state){at.p, at.m - split->taken, j, at.b}, out));
  return trace(r, (struct state){q, at.m + split->freed, at.a, j - 1}, out);
}

/* Finds the best split with a sweep from mode p that leaves q, if it is below *best, which it lowers. */
static int32_t find_split(const struct rotor *r, struct state at, int32_t q, float *best, struct split *out) {
  struct sweep sweep = {.rotor = r, .p = at.p, .q = q, .a = at.a};
  int32_t found = -1;
  for (int32_t j = at.a + 1; j <= at.b; j++) {
    sweep_on(&sweep, j);
    if (!is_split(j - at.a, at.b + 1 - j)) continue;
    const struct split s = split_at(&sweep, j, at.b);
    if (at.m < s.least) continue;
    const float cost = sweep.sum + s.right->cost[at.m - s.taken] + s.left->cost[at.m + s.freed];
    if (cost < *best) *best = cost, *out = s, found = j;
  }
  return found;
}

/* Finds the candidate that gave opt(p, m, a, b). The tables hold no decisions, which would double them. */
static neap_status trace(const struct rotor *r, struct state at, chain_operations *out) {
  if (at.a == at.b) return trace_leaf(r, at, out);
  const struct rotor_mode *mode = &r->stages[at.a].modes[at.p];
  const struct table *rest = table_of(r, at.p, at.a + 1, at.b);
  float best = INFINITY;
  int32_t option = -1, split_mode = -1, split = -1;
  struct split chosen = {0};
  for (int32_t k = 0; k < mode->option_count; k++) {
    if (now_needs(r, at.p, at.a, k, at.b) > at.m) continue;
    const float cost =
        mode->options[k].cost + rest->cost[at.m - mode->options[k].kept - r->stages[at.a + 1].input];
    if (cost < best) best = cost, option = k;
  }
  for (int32_t q = 0; q < largest(1, modes_left(r, at.p, at.a, at.b)); q++) {
    const int32_t mode_left = q > 0 ? q : at.p, j = find_split(r, at, mode_left, &best, &chosen);
    if (j >= 0) split = j, split_mode = mode_left;
  }
  return split >= 0 ? trace_later(r, at, split_mode, split, &chosen, out) : trace_now(r, at, option, out);
}

neap_status rotor_part_trace(const struct rotor *rotor, int32_t a, int32_t b, int32_t slots,
                             chain_operations *out) {
  RETURN_IF(rotor_part_cost(rotor, a, b, slots) == INFINITY, NEAP_OVER_BUDGET,
            "rotor: the chain cannot be run in %d slots", slots);
  return trace(rotor, (struct state){0, slots, a, b}, out);
}

neap_status rotor_trace(const struct rotor *rotor, int32_t slots, chain_operations *out) {
  return rotor_part_trace(rotor, 0, rotor->count - 1, slots, out);
}
