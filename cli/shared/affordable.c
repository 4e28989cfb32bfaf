/* Finds what more memory would save: the smallest budget found at which recomputation takes no more than a
 * share of the step's time. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "shared/affordable.h"
#include "shared/format.h"
#include "shared/source.h"

const double half_more = 0.5;

enum { HALVINGS = 7 };

/* Returns true if one planner has a plan within a budget and an overhead; gives the plan's bytes. An overhead
 * of INFINITY accepts any plan. */
static bool is_met(const neap_step *step, uint64_t budget, const char *planner, double overhead,
                   uint64_t *bytes) {
  const neap_plan_options how = {.planner = planner, .quick = overhead == INFINITY};
  neap_plan *plan;
  neap_plan_info info;
  if (neap_plan_make_with(step, budget, &how, NULL, &plan) != NEAP_OK) return false;
  neap_plan_describe(plan, &info);
  *bytes = plan_bytes(plan);
  neap_plan_free(plan);
  return overhead_of(info.cost, info.base_cost) <= overhead;
}

/* Returns the planner to ask: for "auto" the fastest that accepts this step, which is never cheaper than
 * auto; otherwise the planner that was named. */
static const char *answering_planner(const neap_step *step, const char *asked, uint64_t everything) {
  uint64_t bytes;
  if (strcmp(asked, "auto") != 0) return asked;
  return is_met(step, everything, "rotor", half_more, &bytes) ? "rotor" : "evict";
}

bool costs_too_much(double cost, double base_cost) { return overhead_of(cost, base_cost) > half_more; }

uint64_t affordable_budget(const neap_step *step, const char *planner, double overhead) {
  neap_plan *plan;
  neap_plan_info info;
  if (neap_plan_make(step, NEAP_BUDGET_MAX, "keep-all", NULL, &plan) != NEAP_OK) return 0;
  neap_plan_describe(plan, &info);
  uint64_t met = plan_bytes(plan), missed = info.lower_bound_bytes > 0 ? info.lower_bound_bytes : 1;
  neap_plan_free(plan);
  const char *answering = answering_planner(step, planner, met);
  for (int i = 0; i < HALVINGS && met > missed + 1; i++) {
    const uint64_t tried = (uint64_t)sqrt((double)met * (double)missed);
    uint64_t bytes = tried;
    if (tried <= missed || tried >= met) break;
    if (is_met(step, tried, answering, overhead, &bytes))
      met = bytes < tried ? bytes : tried;
    else
      missed = tried;
  }
  return met;
}

void tell_affordable(double cost, double base_cost, uint64_t budget) {
  fprintf(stderr, "neap: --budget min adds %s to a step by recomputation",
          overhead_text(cost, base_cost).text);
  if (budget > 0)
    fprintf(stderr, "; with --budget %llu (%s) recomputation adds at most 50 %%", (unsigned long long)budget,
            bytes_text(budget).text);
  fputc('\n', stderr);
}
