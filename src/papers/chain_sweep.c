#include "papers/chain_sweep.h"

#include "step/simulate.h"

static neap_status try_parameter(struct chain_sweep *sweep, int32_t parameter, bool *fits) {
  chain_operations operations = {0};
  struct simulation score;
  neap_status status = sweep->operations(sweep, parameter, &operations);
  if (status == NEAP_OK) status = chain_score(&sweep->plan, &operations, &score);
  if (status == NEAP_OK) *fits = score.peak_bytes <= sweep->plan.budget;
  vector_free(&operations);
  return status;
}

enum { NEIGHBOURS = 4 };

/* Tries the largest parameter that fits, by bisection, and a few beyond it, as the peak does not quite rise
 * with it. */
static neap_status sweep_all(struct chain_sweep *sweep) {
  int32_t low = 0, high = sweep->most; /* low fits or is 0; high does not fit */
  bool fits;
  TRY(try_parameter(sweep, sweep->most, &fits));
  if (fits) return NEAP_OK;
  while (high - low > 1) {
    const int32_t middle = low + (high - low) / 2;
    TRY(try_parameter(sweep, middle, &fits));
    if (fits)
      low = middle;
    else
      high = middle;
  }
  for (int32_t i = 1; i <= NEIGHBOURS && high + i < sweep->most; i++)
    TRY(try_parameter(sweep, high + i, &fits));
  return NEAP_OK;
}

neap_status chain_sweep_run(struct chain_sweep *sweep, const neap_step *step, uint64_t budget,
                            const struct planner_options *options, struct schedule *out) {
  neap_status status = chain_plan_create(step, budget, options, sweep->most_stages, 0, out, &sweep->plan);
  if (status == NEAP_OK) status = sweep->prepare(sweep);
  if (status == NEAP_OK) status = sweep_all(sweep);
  if (status == NEAP_OK) status = chain_verdict(&sweep->plan, sweep->name);
  region_free(&sweep->region);
  chain_plan_free(&sweep->plan);
  return status;
}
