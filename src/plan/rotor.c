#include "plan/rotor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* opt(m, a, b) for all m. */
struct table {
  float *cost;  /* [slots + 1] */
  int32_t from; /* the least m with a finite cost; slots + 1: none */
  int32_t to;   /* from here on the cost is the least that any memory gives */
};

struct rotor {
  const struct rotor_stage *stages;
  int32_t count, slots;
  struct region region;
  struct table **tables; /* [count x count]; b >= a; sequences of the same kinds share one */
};

static struct table *table_of(const struct rotor *r, int32_t a, int32_t b) {
  return r->tables[(size_t)a * (size_t)r->count + (size_t)b];
}

/* ---- Sequences of the same kinds ---- */

/* For a, from the longest common sequences of a + 1 with all later stages: another start and how far it runs
 * along with a. `common`: [count + 1], by start; to be used from the last a down. */
static int32_t find_twin(const struct rotor_stage *stages, int32_t count, int32_t a, int32_t *common,
                         int32_t *length) {
  int32_t twin = a;
  *length = 0;
  for (int32_t other = a + 1; other < count; other++) {
    common[other] = stages[other].kind == stages[a].kind ? 1 + common[other + 1] : 0;
    if (common[other] > *length) *length = common[other], twin = other;
  }
  return twin;
}

double rotor_work(const struct rotor_stage *stages, int32_t count, int32_t slots) {
  int32_t *common = calloc((size_t)count + 2, sizeof *common), length;
  if (common == NULL) return INFINITY;
  double work = 0;
  for (int32_t a = count; a-- > 0;) {
    find_twin(stages, count, a, common, &length);
    for (int32_t b = a + length; b < count; b++) work += (double)(b - a + stages[a].option_count);
  }
  free(common);
  return work * slots;
}

/* ---- Candidates ---- */

/* Stage a forward, keeping nothing, and on to j - 1: `sum` of costs and `peak` above the gradient, from j - 1
 * to j. */
static void sweep_on(const struct rotor_stage *stages, int32_t a, int32_t j, float *sum, int32_t *peak) {
  const struct rotor_stage *stage = &stages[j - 1];
  const int32_t needed = stage->forward_peak + (j - 1 > a ? stage->input : 0);
  if (needed > *peak) *peak = needed;
  *sum += stage->forward_cost;
}

static int32_t largest(int32_t a, int32_t b) { return a > b ? a : b; }

/* Slots that option k of stage a needs itself. */
static int32_t now_needs(const struct rotor_stage *stages, int32_t a, int32_t k, int32_t b) {
  const struct rotor_option *option = &stages[a].options[k];
  return largest(largest(option->forward_peak + stages[b].gradient, option->backward_peak),
                 option->kept + stages[a + 1].input);
}

static void add_leaves(const struct rotor *r, int32_t a, struct table *t) {
  for (int32_t k = 0; k < r->stages[a].leaf_count; k++) {
    const struct rotor_leaf *leaf = &r->stages[a].leaves[k];
    for (int32_t m = leaf->peak; m <= r->slots; m++)
      if (leaf->cost < t->cost[m]) t->cost[m] = leaf->cost;
  }
}

static void add_now(const struct rotor *r, int32_t a, int32_t b, struct table *t) {
  const struct table *rest = table_of(r, a + 1, b);
  for (int32_t k = 0; k < r->stages[a].option_count; k++) {
    const struct rotor_option *option = &r->stages[a].options[k];
    const int32_t shift = option->kept + r->stages[a + 1].input;
    const float cost = option->cost, *from = rest->cost;
    float *to = t->cost;
    for (int32_t m = largest(now_needs(r->stages, a, k, b), shift + rest->from); m <= r->slots; m++) {
      const float with = cost + from[m - shift];
      to[m] = with < to[m] ? with : to[m];
    }
  }
}

/* Up to `end`: beyond it nothing is cheaper than what `now` does. */
static void add_later(const struct rotor *r, int32_t a, int32_t b, int32_t end, struct table *t) {
  float sum = 0;
  int32_t peak = 0;
  for (int32_t j = a + 1; j <= b; j++) {
    sweep_on(r->stages, a, j, &sum, &peak);
    const struct table *right = table_of(r, j, b), *left = table_of(r, a, j - 1);
    const int32_t shift = r->stages[j].input;
    const float *restrict x = right->cost, *restrict y = left->cost;
    float *restrict to = t->cost;
    const int32_t from = largest(largest(peak + r->stages[b].gradient, left->from), shift + right->from);
    for (int32_t m = from; m < end; m++) {
      const float with = sum + x[m - shift] + y[m];
      to[m] = with < to[m] ? with : to[m];
    }
  }
}

/* ---- Tables ---- */

static float least_option(const struct rotor_stage *stage) {
  float least = INFINITY;
  for (int32_t k = 0; k < stage->option_count; k++) least = fminf(least, stage->options[k].cost);
  return least;
}

static float least_leaf(const struct rotor_stage *stage) {
  float least = INFINITY;
  for (int32_t k = 0; k < stage->leaf_count; k++) least = fminf(least, stage->leaves[k].cost);
  return least;
}

static neap_status fill(struct rotor *r, int32_t a, int32_t b, float bound, struct table *t) {
  t->cost = region_alloc(&r->region, (size_t)r->slots + 1, sizeof *t->cost);
  RETURN_IF(t->cost == NULL, NEAP_OUT_OF_MEMORY, "rotor: out of memory for a table of %d slots", r->slots);
  for (int32_t m = 0; m <= r->slots; m++) t->cost[m] = INFINITY;
  if (a == b)
    add_leaves(r, a, t);
  else
    add_now(r, a, b, t);
  t->to = r->slots + 1; /* rounding apart, no plan is cheaper than the cheapest way through each stage */
  while (t->to > 0 && t->cost[t->to - 1] <= bound * (1 + 1e-6f)) t->to--;
  if (a < b) add_later(r, a, b, t->to, t);
  while (t->from <= r->slots && t->cost[t->from] == INFINITY) t->from++;
  return NEAP_OK;
}

static neap_status fill_all(struct rotor *r, int32_t *common) {
  for (int32_t a = r->count; a-- > 0;) {
    int32_t length;
    const int32_t twin = find_twin(r->stages, r->count, a, common, &length);
    for (int32_t b = a; b < r->count; b++) {
      struct table **place = &r->tables[(size_t)a * (size_t)r->count + (size_t)b];
      if (b - a < length) {
        *place = table_of(r, twin, twin + b - a);
        continue;
      }
      *place = region_alloc(&r->region, 1, sizeof **place);
      RETURN_IF(*place == NULL, NEAP_OUT_OF_MEMORY, "rotor: out of memory");
      float bound = least_leaf(&r->stages[b]);
      for (int32_t s = a; s < b; s++) bound += least_option(&r->stages[s]);
      TRY(fill(r, a, b, bound, *place));
    }
  }
  return NEAP_OK;
}

neap_status rotor_create(const struct rotor_stage *stages, int32_t count, int32_t slots, struct rotor **out) {
  struct rotor *r = calloc(1, sizeof *r);
  int32_t *common = calloc((size_t)count + 2, sizeof *common);
  neap_status status = NEAP_OK;
  if (r == NULL || common == NULL) {
    status = neap_fail(NEAP_OUT_OF_MEMORY, "rotor: out of memory");
  } else {
    *r = (struct rotor){.stages = stages, .count = count, .slots = slots};
    r->tables = region_alloc(&r->region, (size_t)count * (size_t)count, sizeof *r->tables);
    status = r->tables == NULL ? neap_fail(NEAP_OUT_OF_MEMORY, "rotor: out of memory for %d stages", count)
                               : fill_all(r, common);
  }
  free(common);
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

float rotor_cost(const struct rotor *rotor, int32_t slots) {
  return slots < 0 ? INFINITY : table_of(rotor, 0, rotor->count - 1)->cost[slots];
}

/* ---- The way back ---- */

static neap_status trace(const struct rotor *r, int32_t m, int32_t a, int32_t b, rotor_operations *out);

static neap_status trace_leaf(const struct rotor *r, int32_t m, int32_t a, rotor_operations *out) {
  const struct rotor_stage *stage = &r->stages[a];
  int32_t best = -1;
  for (int32_t k = 0; k < stage->leaf_count; k++)
    if (stage->leaves[k].peak <= m && (best < 0 || stage->leaves[k].cost < stage->leaves[best].cost))
      best = k;
  return vector_push(out, (struct rotor_operation){ROTOR_LEAF, a, best});
}

static neap_status trace_now(const struct rotor *r, int32_t m, int32_t a, int32_t b, int32_t k,
                             rotor_operations *out) {
  TRY(vector_push(out, (struct rotor_operation){ROTOR_FORWARD_KEEP, a, k}));
  TRY(trace(r, m - r->stages[a].options[k].kept - r->stages[a + 1].input, a + 1, b, out));
  return vector_push(out, (struct rotor_operation){ROTOR_BACKWARD, a, k});
}

static neap_status trace_later(const struct rotor *r, int32_t m, int32_t a, int32_t b, int32_t j,
                               rotor_operations *out) {
  for (int32_t s = a; s < j; s++) TRY(vector_push(out, (struct rotor_operation){ROTOR_FORWARD, s, -1}));
  TRY(trace(r, m - r->stages[j].input, j, b, out));
  return trace(r, m, a, j - 1, out);
}

/* The candidate that gave opt(m, a, b); the tables hold no decisions, which would double them. */
static neap_status trace(const struct rotor *r, int32_t m, int32_t a, int32_t b, rotor_operations *out) {
  if (a == b) return trace_leaf(r, m, a, out);
  float best = INFINITY, sum = 0;
  int32_t option = -1, split = -1, peak = 0;
  for (int32_t k = 0; k < r->stages[a].option_count; k++) {
    if (now_needs(r->stages, a, k, b) > m) continue;
    const float cost = r->stages[a].options[k].cost +
                       table_of(r, a + 1, b)->cost[m - r->stages[a].options[k].kept - r->stages[a + 1].input];
    if (cost < best) best = cost, option = k;
  }
  for (int32_t j = a + 1; j <= b; j++) {
    sweep_on(r->stages, a, j, &sum, &peak);
    if (largest(peak + r->stages[b].gradient, r->stages[j].input) > m) continue;
    const float cost = sum + table_of(r, j, b)->cost[m - r->stages[j].input] + table_of(r, a, j - 1)->cost[m];
    if (cost < best) best = cost, split = j;
  }
  return split >= 0 ? trace_later(r, m, a, b, split, out) : trace_now(r, m, a, b, option, out);
}

neap_status rotor_trace(const struct rotor *rotor, int32_t slots, rotor_operations *out) {
  RETURN_IF(rotor_cost(rotor, slots) == INFINITY, NEAP_OVER_BUDGET,
            "rotor: no way through the chain in %d slots", slots);
  return trace(rotor, slots, 0, rotor->count - 1, out);
}
