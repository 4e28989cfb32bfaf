/* Techniques together: which combinations there are, and what each needs. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "step/step.h"

/* Precisions in the order in which they are tried, by the bit that allows them. */
static const struct {
  unsigned allowed;
  neap_dtype dtype;
  const char *name;
} precisions[] = {{0, NEAP_F32, ""}, {NEAP_ALLOW_BF16, NEAP_BF16, "bf16"}, {NEAP_ALLOW_F16, NEAP_F16, "f16"}};
enum { PRECISIONS = sizeof precisions / sizeof *precisions };

struct search {
  const char *model;
  const neap_model_options *shape;
  neap_session_options session; /* with the budget in bytes */
};

static neap_status keep_all_bytes(const struct search *s, uint64_t *bytes) {
  neap_graph *graph = NULL;
  neap_step *step = NULL;
  TRY(neap_model_build(s->model, s->shape, &graph));
  neap_status status = neap_step_from_graph(graph, &s->session, &step);
  if (status == NEAP_OK) status = neap_step_keep_all_bytes(step, bytes);
  neap_step_free(step);
  neap_graph_free(graph);
  return status;
}

static void name_of(neap_combination *c, int precision) {
  char micro[32] = "";
  if (c->micro_batch > 0) snprintf(micro, sizeof micro, "micro=%lld", (long long)c->micro_batch);
  snprintf(c->name, sizeof c->name, "%s%s%s", micro, micro[0] != '\0' && precision > 0 ? "+" : "",
           precisions[precision].name);
  if (c->name[0] == '\0') snprintf(c->name, sizeof c->name, "none");
}

/* Plans a step of so many images in the search's session. */
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

static neap_status make(struct search *s, bool micro, int precision, neap_combination *c) {
  *c = (neap_combination){.precision = precisions[precision].dtype};
  s->session.precision = c->precision;
  int64_t images = s->shape->batch;
  if (micro && s->session.budget == NEAP_BUDGET_MIN)
    images = 1;
  else if (micro)
    TRY(neap_largest_micro_batch(s->model, s->shape, &s->session, &images));
  c->micro_batch = images < s->shape->batch ? images : 0;
  name_of(c, precision);
  return plan_step(s, images, c);
}

neap_status neap_combinations(const char *model, const neap_model_options *shape,
                              const neap_session_options *options, unsigned allowed, neap_combination *list,
                              int *count) {
  RETURN_IF(shape->batch < 1, NEAP_INVALID_ARGUMENT, "combinations: %lld images are no batch to plan",
            (long long)shape->batch);
  struct search s = {model, shape, *options};
  if (options->budget_fraction > 0) {
    uint64_t everything = 0;
    TRY(keep_all_bytes(&s, &everything));
    s.session.budget = neap_budget_share(options->budget_fraction, everything);
    s.session.budget_fraction = 0;
  }
  *count = 0;
  for (int techniques = 0; techniques <= 2; techniques++) /* alone before pairs */
    for (int micro = 1; micro >= 0; micro--)
      for (int p = 0; p < PRECISIONS; p++) {
        if (micro + (p > 0) != techniques || (micro && !(allowed & NEAP_ALLOW_MICRO)) ||
            (precisions[p].allowed & ~allowed) != 0)
          continue;
        TRY(make(&s, micro, p, &list[*count]));
        /* Micro-batches as large as the batch are none. */
        const bool again = micro && list[*count].micro_batch == 0;
        if (!again) ++*count;
      }
  return NEAP_OK;
}

static bool better(const neap_combination *a, const neap_combination *b, neap_prefer prefer) {
  return (prefer == NEAP_PREFER_TIME && a->cost < b->cost) ||
         (prefer == NEAP_PREFER_MEMORY && a->peak_bytes < b->peak_bytes);
}

int neap_best_combination(const neap_combination *list, int count, neap_prefer prefer) {
  int best = -1;
  for (int i = 0; i < count; i++)
    if (list[i].fits && (best < 0 || better(&list[i], &list[best], prefer))) best = i;
  return best;
}
