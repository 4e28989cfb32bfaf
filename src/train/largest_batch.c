/* The answer to a budget that cannot be met: with which batch could it be? */
#include "base/status.h"

struct search {
  const char *model;
  neap_model_options shape;
  const neap_session_options *session;
  uint64_t budget;
};

/* Plans one batch: `fits`, and where not what it would need and what of it does not grow with the batch. */
struct probe {
  bool fits;
  uint64_t smallest, resident;
};

static neap_status make_step(const struct search *search, int64_t batch, neap_step **step) {
  neap_graph *graph = NULL;
  neap_model_options shape = search->shape;
  shape.batch = batch;
  TRY(neap_model_build(search->model, &shape, &graph));
  const neap_status status = neap_step_from_graph(graph, search->session, step);
  neap_graph_free(graph);
  return status;
}

static neap_status try_batch(const struct search *search, int64_t batch, struct probe *probe) {
  neap_graph *graph = NULL;
  neap_step *step = NULL;
  neap_plan *plan = NULL;
  neap_model_options shape = search->shape;
  neap_session_options session = *search->session;
  shape.batch = batch;
  session.budget = search->budget;
  session.budget_fraction = 0;
  TRY(neap_model_build(search->model, &shape, &graph));
  neap_status status = neap_step_from_graph(graph, &session, &step);
  if (status == NEAP_OK) {
    neap_step_info info;
    neap_step_describe(step, &info);
    *probe = (struct probe){.resident = info.resident_bytes};
    neap_step_free(step);
    step = NULL;
    status = neap_plan_graph(graph, &session, &probe->smallest, &step, &plan);
    probe->fits = status == NEAP_OK;
  }
  if (status == NEAP_OVER_BUDGET) status = NEAP_OK;
  neap_plan_free(plan);
  neap_step_free(step);
  neap_graph_free(graph);
  return status;
}

static neap_status resolve_fraction(struct search *search) {
  neap_step *step = NULL;
  uint64_t everything = 0;
  TRY(make_step(search, search->shape.batch, &step));
  const neap_status status = neap_step_keep_all_bytes(step, &everything);
  search->budget = (uint64_t)(search->session->budget_fraction * (double)everything);
  neap_step_free(step);
  return status;
}

/* Memory is nearly linear in the batch: where the line from the resident bytes through a batch that does not
 * fit meets the budget. */
static int64_t interpolate(uint64_t budget, int64_t batch, const struct probe *probe) {
  if (budget <= probe->resident || probe->smallest <= probe->resident) return 0;
  return (int64_t)((double)batch * (double)(budget - probe->resident) /
                   (double)(probe->smallest - probe->resident));
}

neap_status neap_largest_batch(const char *model, const neap_model_options *shape,
                               const neap_session_options *session, int64_t *largest) {
  RETURN_IF(shape->batch < 1, NEAP_INVALID_ARGUMENT, "largest batch: %lld images are no batch to begin with",
            (long long)shape->batch);
  struct search search = {.model = model, .shape = *shape, .session = session, .budget = session->budget};
  if (session->budget_fraction > 0) TRY(resolve_fraction(&search));
  struct probe probe;
  TRY(try_batch(&search, shape->batch, &probe));
  *largest = 0;
  if (!probe.fits && probe.smallest == 0) return NEAP_OK; /* the planner takes no such graph */
  int64_t fits = probe.fits ? shape->batch : 0, too_large = shape->batch, stride = 1, failures = 0;
  int64_t next = interpolate(search.budget, too_large, &probe);
  /* A guess from the line, then outwards from what fits, halving when a guess does not settle it: two or
   * three plans as a rule, and never more than a few times the logarithm of the batch. */
  while (fits + 1 < too_large) {
    if (next <= fits) next = fits + 1;
    if (next >= too_large) next = too_large - 1;
    TRY(try_batch(&search, next, &probe));
    if (probe.fits) {
      fits = next;
      next = fits + stride;
      stride *= 2;
    } else {
      too_large = next;
      next =
          failures++ % 2 == 0 ? interpolate(search.budget, too_large, &probe) : fits + (too_large - fits) / 2;
      stride = 1;
    }
  }
  *largest = fits;
  return NEAP_OK;
}
