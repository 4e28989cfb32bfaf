/* Asks one planner for a plan or for the smallest budget that it meets. */
#include <jansson.h>
#include <stdio.h>

#include "shared/answer.h"
#include "shared/failure.h"
#include "shared/format.h"
#include "shared/source.h"
#include "shared/watch.h"

neap_status answer_ask(const neap_train_options *source, const neap_step *step, uint64_t budget,
                       const char *planner, double seconds, struct watch *watch, neap_step **chosen,
                       struct plan_answer *answer) {
  const struct plan_request request = {budget, planner, seconds};
  *answer = (struct plan_answer){.planner = planner};
  const neap_status status =
      watch_plan(watch, source, step, &request, &answer->smallest, chosen, &answer->plan);
  if (status == NEAP_UNSUPPORTED) answer->smallest = 0;
  if (status != NEAP_OVER_BUDGET && status != NEAP_UNSUPPORTED) return status;
  if (answer->smallest > 0)
    answer->largest_batch = source_largest_batch(source, budget, planner);
  else
    snprintf(answer->why, sizeof answer->why, "%s", library_message());
  return NEAP_OK;
}

json_t *answer_json(const struct plan_answer *answer, const neap_step *step, uint64_t budget) {
  if (answer->plan != NULL) return plan_json(answer->plan, budget, answer->planner);
  const bool suited = answer->smallest > 0;
  neap_step_info info;
  neap_step_describe(step, &info);
  return json_pack("{s:s, s:s, s:o, s:b, s:n, s:I, s:n, s:n, s:f, s:n, s:n, s:n, s:n, s:n, s:n, s:o, s:o}",
                   "graph", info.name, "planner", answer->planner, "budget_bytes",
                   budget == NEAP_BUDGET_MIN ? json_null() : json_integer((json_int_t)budget), "feasible", 0,
                   "peak_bytes", "resident_bytes", (json_int_t)info.resident_bytes, "arena_bytes", "cost",
                   "base_cost", info.base_cost, "overhead", "seconds", "recomputed", "lower_bound_bytes",
                   "cost_lower_bound", "proven_optimal", "smallest_budget_bytes",
                   suited ? json_integer((json_int_t)answer->smallest) : json_null(), "largest_batch",
                   suited ? json_integer(answer->largest_batch) : json_null());
}

static void explain_unsuited(const struct plan_answer *answer) {
  fprintf(stderr,
          "neap: --planner %s has no plan for this graph under any budget: it accepts %s\n  %s\n  `--planner "
          "auto` accepts any graph; see `neap planners`\n",
          answer->planner, planner_graphs(answer->planner), answer->why);
}

static void explain_over_budget(const struct plan_answer *answer, const struct arguments *a,
                                uint64_t budget) {
  const neap_train_options *source = &a->options;
  fprintf(stderr, "neap: the budget of %s (%llu bytes) cannot be met by %s\n", bytes_text(budget).text,
          (unsigned long long)budget, answer->planner);
  tell_smallest(a, answer->smallest);
  if (source->model == NULL) return;
  if (answer->largest_batch > 0)
    fprintf(stderr, "  the largest batch within it: --batch %lld\n", (long long)answer->largest_batch);
  else
    fprintf(stderr, "  no batch fits it\n");
  if (source_fits_direct(source, budget, answer->planner))
    fprintf(stderr, "  --conv direct would fit: it needs smaller workspaces, and gives other last bits\n");
}

int answer_explain(const struct plan_answer *answer, const struct arguments *a, const neap_step *step,
                   uint64_t budget) {
  const bool suited = answer->smallest > 0;
  if (suited)
    explain_over_budget(answer, a, budget);
  else
    explain_unsuited(answer);
  if (a->json) print_json(answer_json(answer, step, budget));
  return suited ? EXIT_OVER_BUDGET : EXIT_FAILED;
}
