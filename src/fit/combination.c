/* Techniques together: which combinations there are, and what each needs. */
#include "fit/combination.h"

#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "fit/fit.h"
#include "step/step.h"

/* Precisions in the order in which they are tried, by the bit that allows them. */
static const struct {
  unsigned allowed;
  neap_dtype dtype;
} precisions[] = {{0, NEAP_F32}, {NEAP_ALLOW_BF16, NEAP_BF16}, {NEAP_ALLOW_F16, NEAP_F16}};

struct search {
  const neap_model *model;
  const neap_model_options *shape;
  neap_session_options session; /* with the budget in bytes */
  bool states_8bit;             /* in every combination */
};

/* Appends a technique to the name. */
static void name_with(neap_combination *c, const char *technique) {
  const size_t length = strlen(c->name);
  snprintf(c->name + length, sizeof c->name - length, "%s%s", length > 0 ? "+" : "", technique);
}

void combination_name(neap_combination *c) {
  char text[32];
  c->name[0] = '\0';
  if (c->micro_batch > 0) {
    snprintf(text, sizeof text, "micro=%lld", (long long)c->micro_batch);
    name_with(c, text);
  }
  if (c->precision != NEAP_F32) name_with(c, dtype_rows[c->precision].name);
  if (c->states_8bit) name_with(c, "states8");
  if (c->sparse_density > 0) {
    snprintf(text, sizeof text, "sparse=%g", c->sparse_density);
    name_with(c, text);
  }
  if (c->name[0] == '\0') name_with(c, "none");
}

/* Gives the bytes that exist at any time of a step of this many images. */
static neap_status resident_bytes(const struct search *s, int64_t images, bool states_8bit, uint64_t *bytes) {
  neap_graph *graph = NULL;
  neap_step *step = NULL;
  neap_step_info info;
  neap_model_options shape = *s->shape;
  neap_session_options session = s->session;
  session.micro_batches = (int32_t)(shape.batch / images);
  session.states_8bit = states_8bit;
  shape.batch = images;
  TRY(neap_model_build(s->model, &shape, &graph));
  const neap_status status = neap_step_from_graph(graph, &session, &step);
  neap_graph_free(graph);
  if (status != NEAP_OK) return status;
  neap_step_describe(step, &info);
  *bytes = info.resident_bytes;
  neap_step_free(step);
  return NEAP_OK;
}

/* Returns in `*saves` whether states of 8 bits take fewer bytes: beside sums of micro-batches, momentum takes
 * more. */
static neap_status states_save(const struct search *s, int64_t images, bool *saves) {
  uint64_t with, without;
  TRY(resident_bytes(s, images, true, &with));
  TRY(resident_bytes(s, images, false, &without));
  *saves = with < without;
  return NEAP_OK;
}

/* Plans a step of this many images in the search's session. */
static neap_status plan_step(const struct search *s, int64_t images, neap_combination *c) {
  neap_graph *graph = NULL;
  neap_step *step = NULL;
  neap_plan *plan = NULL;
  neap_model_options shape = *s->shape;
  neap_session_options session = s->session;
  const int64_t count = s->shape->batch / images;
  shape.batch = images;
  session.micro_batches = (int32_t)count;
  TRY(neap_model_build(s->model, &shape, &graph));
  uint64_t smallest = 0;
  neap_status status = neap_plan_graph(graph, &session, &smallest, &step, &plan);
  c->fits = status == NEAP_OK;
  if (status == NEAP_OVER_BUDGET) {
    c->peak_bytes = smallest;
    status = NEAP_OK;
  } else if (status == NEAP_OK) {
    neap_plan_info info;
    neap_plan_describe(plan, &info);
    c->peak_bytes = info.resident_bytes + info.arena_bytes;
    c->cost = info.cost * (double)count;
    c->overhead = info.cost / info.base_cost - 1;
  }
  neap_plan_free(plan);
  neap_step_free(step);
  neap_graph_free(graph);
  return status;
}

/* Techniques that are taken: micro-batches, a row of `precisions`, states of 8 bits, sparse parameters. */
struct techniques {
  bool micro;
  int precision;
  bool states8, sparse;
};

enum { F32, BF16, F16 }; /* rows of `precisions` */

/* From the least change to the most. */
static const struct techniques combinations[NEAP_COMBINATIONS] = {
    {false, F32, false, false}, {true, F32, false, false},  {false, BF16, false, false},
    {false, F32, true, false},  {false, F16, false, false}, {false, F32, false, true},
    {true, BF16, false, false}, {true, F32, true, false},   {false, BF16, true, false},
    {true, F16, false, false},  {false, F16, true, false},  {true, F32, false, true},
    {false, BF16, false, true}, {false, F32, true, true},   {false, F16, false, true},
    {true, BF16, true, false},  {true, F16, true, false},   {true, BF16, false, true},
    {true, F32, true, true},    {false, BF16, true, true},  {true, F16, false, true},
    {false, F16, true, true},   {true, BF16, true, true},   {true, F16, true, true}};

static unsigned needs(struct techniques t) {
  return (t.micro ? NEAP_ALLOW_MICRO : 0) | precisions[t.precision].allowed |
         (t.states8 ? NEAP_ALLOW_STATES8 : 0) | (t.sparse ? NEAP_ALLOW_SPARSE : 0);
}

/* Plans a combination; `*again`: it needs no less than one without one of its techniques. */
static neap_status make(struct search *s, struct techniques t, double density, neap_combination *c,
                        bool *again) {
  *c = (neap_combination){.precision = precisions[t.precision].dtype,
                          .states_8bit = t.states8 || s->states_8bit,
                          .sparse_density = t.sparse ? density : 0};
  s->session.precision = c->precision;
  s->session.sparse_density = c->sparse_density;
  s->session.states_8bit = c->states_8bit;
  int64_t images = s->shape->batch;
  if (t.micro && s->session.budget == NEAP_BUDGET_MIN)
    images = 1;
  else if (t.micro)
    TRY(neap_largest_micro_batch(s->model, s->shape, &s->session, &images));
  c->micro_batch = images < s->shape->batch ? images : 0;
  combination_name(c);
  *again = t.micro && c->micro_batch == 0; /* as large as the batch, they do not divide it */
  if (!*again && t.states8) {
    bool saves;
    TRY(states_save(s, images, &saves));
    *again = !saves;
  }
  return *again ? NEAP_OK : plan_step(s, images, c);
}

neap_status combinations_until(bool fits, const neap_model *model, const neap_model_options *shape,
                               const neap_session_options *options, unsigned allowed, neap_combination *list,
                               int *count) {
  RETURN_IF(shape->batch < 1, NEAP_INVALID_ARGUMENT, "combinations: batch must be 1 or more (got %lld)",
            (long long)shape->batch);
  RETURN_IF((allowed & NEAP_ALLOW_SPARSE) != 0 && options->sparse_density == 0, NEAP_INVALID_ARGUMENT,
            "combinations: sparse parameters are allowed, but the density is missing");
  struct search s = {model, shape, *options, options->states_8bit};
  s.session.sparse_density = 0;
  TRY(fit_budget_to_bytes(model, shape, &s.session));
  *count = 0;
  for (int i = 0; i < NEAP_COMBINATIONS; i++) {
    if ((needs(combinations[i]) & ~allowed) != 0 || (combinations[i].states8 && s.states_8bit)) continue;
    bool again;
    TRY(make(&s, combinations[i], options->sparse_density, &list[*count], &again));
    if (again) continue;
    ++*count;
    if (fits && list[*count - 1].fits) break;
  }
  return NEAP_OK;
}

neap_status neap_combinations(const neap_model *model, const neap_model_options *shape,
                              const neap_session_options *options, unsigned allowed, neap_combination *list,
                              int *count) {
  NEED(shape);
  NEED(options);
  NEED(list);
  NEED(count);
  return combinations_until(false, model, shape, options, allowed, list, count);
}

static bool better(const neap_combination *a, const neap_combination *b, neap_prefer prefer) {
  return (prefer == NEAP_PREFER_TIME && a->cost < b->cost) ||
         (prefer == NEAP_PREFER_MEMORY && a->peak_bytes < b->peak_bytes);
}

int neap_best_combination(const neap_combination *list, int count, neap_prefer prefer) {
  int best = -1;
  for (int i = 0; list != NULL && i < count; i++)
    if (list[i].fits && (best < 0 || better(&list[i], &list[best], prefer))) best = i;
  return best;
}
