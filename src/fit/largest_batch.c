/* The answer to a budget that cannot be met: with which batch could it be? */
#include "base/status.h"
#include "fit/fit.h"
#include "neap_collective.h"
#include "plan/memory_bound.h"
#include "step/step.h"

struct batch_search {
  const neap_model *model;
  neap_model_options shape;
  const neap_session_options *session; /* with the budget in bytes */
};

/* One batch: whether it fits; bytes that it needs at least, and what of them does not grow with the batch. */
struct probe {
  bool fits;
  uint64_t bound, resident;
};

static neap_status make_step(const struct batch_search *search, int64_t batch, neap_step **step) {
  neap_graph *graph = NULL;
  neap_model_options shape = search->shape;
  shape.batch = batch;
  TRY(neap_model_build(search->model, &shape, &graph));
  const neap_status status = neap_step_from_graph(graph, search->session, step);
  neap_graph_free(graph);
  return status;
}

static neap_status find_bound(const struct batch_search *search, int64_t batch, struct probe *probe) {
  neap_step *step = NULL;
  TRY(make_step(search, batch, &step));
  probe->resident = step->resident_bytes;
  const neap_status status = plan_memory_bound(step, &probe->bound);
  neap_step_free(step);
  return status;
}

static neap_status try_batch(const struct batch_search *search, int64_t batch, bool quick, bool *fits) {
  neap_graph *graph = NULL;
  neap_step *step = NULL;
  neap_plan *plan = NULL;
  neap_model_options shape = search->shape;
  neap_session_options session = *search->session;
  shape.batch = batch;
  session.plan_quick = quick;
  TRY(neap_model_build(search->model, &shape, &graph));
  neap_status status = neap_plan_graph(graph, &session, NULL, &step, &plan);
  *fits = status == NEAP_OK;
  if (status == NEAP_OVER_BUDGET) status = NEAP_OK;
  neap_plan_free(plan);
  neap_step_free(step);
  neap_graph_free(graph);
  return status;
}

static neap_status look_at(const struct batch_search *search, int64_t batch, struct probe *probe) {
  TRY(find_bound(search, batch, probe));
  return try_batch(search, batch, true, &probe->fits);
}

/* Memory is nearly linear in the batch: where the line from the resident bytes through what a batch that does
 * not fit needs at least meets the budget; `batch` at most. */
static int64_t interpolate(uint64_t budget, int64_t batch, const struct probe *probe) {
  if (budget <= probe->resident || probe->bound <= probe->resident) return 0;
  const double guess =
      (double)batch * (double)(budget - probe->resident) / (double)(probe->bound - probe->resident);
  return guess < (double)batch ? (int64_t)guess : batch; /* a budget for the process has no bytes yet */
}

neap_status neap_largest_batch(const neap_model *model, const neap_model_options *shape,
                               const neap_session_options *session, int64_t *largest) {
  NEED(shape);
  NEED(session);
  NEED(largest);
  RETURN_IF(shape->batch < 1, NEAP_INVALID_ARGUMENT,
            "largest batch: the first batch must be 1 or more (got %lld)", (long long)shape->batch);
  neap_session_options settled = *session;
  TRY(fit_budget_to_bytes(model, shape, &settled));
  const struct batch_search search = {.model = model, .shape = *shape, .session = &settled};
  struct probe probe;
  TRY(look_at(&search, shape->batch, &probe));
  int64_t fits = probe.fits ? shape->batch : 0, too_large = shape->batch, stride = 1, failures = 0;
  int64_t next = interpolate(search.session->budget, too_large, &probe);
  /* A guess from the line, then outwards from what fits, halving when a guess does not settle it: two or
   * three plans as a rule, and never more than a few times the logarithm of the batch. */
  while (fits + 1 < too_large) {
    if (next <= fits) next = fits + 1;
    if (next >= too_large) next = too_large - 1;
    TRY(look_at(&search, next, &probe));
    if (probe.fits) {
      fits = next;
      next = fits + stride;
      stride *= 2;
    } else {
      too_large = next;
      next = failures++ % 2 == 0 ? interpolate(search.session->budget, too_large, &probe)
                                 : fits + (too_large - fits) / 2;
      stride = 1;
    }
  }
  /* A quick look said so; what is said must hold for the plan that will be made. */
  for (bool met = false; fits > 0 && !met; fits -= !met) TRY(try_batch(&search, fits, false, &met));
  *largest = fits;
  return NEAP_OK;
}

/* ---- Micro-batches ---- */

neap_status neap_largest_micro_batch(const neap_model *model, const neap_model_options *shape,
                                     const neap_session_options *session, int64_t *largest) {
  NEED(shape);
  NEED(session);
  NEED(largest);
  const int64_t batch = shape->batch;
  RETURN_IF(batch < 1, NEAP_INVALID_ARGUMENT, "micro-batches must have 1 record or more (got %lld)",
            (long long)batch);
  neap_session_options parts = *session;
  TRY(fit_budget_to_bytes(model, shape, &parts));
  const struct batch_search search = {.model = model, .shape = *shape, .session = &parts};
  const int64_t ranks = session->collective != NULL ? session->collective->size : 1;
  for (int64_t count = 1; count < batch; count++) {
    bool fits = false;
    if (batch % count != 0 || count % ranks != 0) continue;
    parts.micro_batches = (int32_t)count;
    /* Quick planning may miss a budget that full planning just meets. */
    for (int quick = 1; quick >= 0 && !fits; quick--) TRY(try_batch(&search, batch / count, quick, &fits));
    *largest = batch / count;
    if (fits) return NEAP_OK;
  }
  *largest = 1;
  return NEAP_OK;
}
