#include "search/keep_all.h"

#include "step/simulate.h"

neap_status plan_keep_all(const neap_step *step, uint64_t budget, const struct planner_options *options,
                          struct schedule *out) {
  (void)options;
  TRY(vector_reserve(&out->nodes, (size_t)step->required_count + 1));
  for (int32_t v = 0; v < step->required_count; v++) out->nodes.data[v] = v;
  out->nodes.count = (size_t)step->required_count;
  struct simulation score;
  TRY(simulate(step, out->nodes.data, step->required_count, &score));
  RETURN_IF(score.peak_bytes > budget, NEAP_OVER_BUDGET, "keeping everything needs %llu bytes",
            (unsigned long long)score.peak_bytes);
  return NEAP_OK;
}
