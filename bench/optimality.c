/* optimality [-o] [-n STEPS] [-l STATES] [-w WORST] [PLANNER ...]
 *
 * Planners (default: auto and evict) against proven optima, on random steps of 10 to 30 nodes of all families
 * (tests/step_families.h), each at five budgets from the least peak that any schedule has to the peak of
 * keeping everything. The optimum is the least cost over all orders with any repeats, by exact search
 * (tests/exhaustive.h) within a number of states (default: 50000). A step whose least peak is not proved
 * within them is passed over, and others are drawn until there are STEPS (default: 200); a budget whose least
 * cost is not proved does not count. -o: steps whose sizes are any numbers of bytes, not multiples of 64.
 *
 * A JSON line a planner: budgets (with a proved least cost), feasible (of those, how many it meets), gap
 * (mean, over those, of its cost / the least - 1), optimal (how many cost the least), seconds (mean). Then
 * WORST (default: 10) lines with the worst cases of the first planner: those that it misses, then by gap. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "exhaustive.h"
#include "neap.h"
#include "step/lower_bound.h"
#include "step_families.h"

enum { PLANNER_LIMIT = 16, BUDGETS = 5 };

struct tally {
  int64_t feasible, optimal;
  double gap, seconds;
};

struct worst {
  struct step_shape shape;
  int32_t part;
  uint64_t budget;
  double least_cost, gap; /* infinite: the budget is missed */
};

struct bench {
  bool odd;
  size_t state_limit;
  const char *const *names;
  int32_t name_count;
  struct tally tallies[PLANNER_LIMIT];
  int64_t steps, passed_over, budgets, unproved;
  VECTOR(struct worst) worst;
};

/* The whole way of a plan, layout included. */
static neap_status run_planner(struct bench *b, int32_t p, const neap_step *step, const struct worst *here) {
  neap_plan *plan = NULL;
  struct worst result = *here;
  const double start = clock_seconds();
  const neap_status status = neap_plan_make(step, here->budget, b->names[p], NULL, &plan);
  b->tallies[p].seconds += clock_seconds() - start;
  if (status != NEAP_OK && status != NEAP_OVER_BUDGET) return status;
  result.gap = INFINITY;
  if (status == NEAP_OK) {
    neap_plan_info info;
    neap_plan_describe(plan, &info);
    result.gap = info.cost / here->least_cost - 1;
    b->tallies[p].gap += result.gap;
    b->tallies[p].feasible++;
    b->tallies[p].optimal += info.cost <= here->least_cost;
    neap_plan_free(plan);
  }
  return p == 0 ? vector_push(&b->worst, result) : NEAP_OK;
}

static neap_status run_budget(struct bench *b, const neap_step *step, struct worst *here) {
  struct exhaustive_result best = {0};
  neap_status status;
  TRY_DONE(exhaustive_search(step, here->budget, EXHAUSTIVE_LEAST_COST, b->state_limit, &best));
  if (!best.proven) {
    b->unproved++;
    goto done;
  }
  here->least_cost = best.cost;
  b->budgets++;
  for (int32_t p = 0; p < b->name_count; p++) TRY_DONE(run_planner(b, p, step, here));
done:
  schedule_free(&best.schedule);
  return status;
}

static neap_status run_step(struct bench *b, uint32_t seed) {
  struct worst here = {.shape = {.family = (enum step_family)(seed % STEP_FAMILY_COUNT),
                                 .nodes = 10 + (int32_t)(seed / STEP_FAMILY_COUNT * 5 % 21),
                                 .seed = seed,
                                 .plain = seed / STEP_FAMILY_COUNT % 2 == 0,
                                 .odd = b->odd}};
  neap_step *step = NULL;
  uint64_t least = 0, most = 0;
  bool proven = false;
  TRY(step_of_family(&here.shape, &step));
  neap_status status = neap_step_keep_all_bytes(step, &most);
  if (status == NEAP_OK)
    status = exhaustive_least_peak(step, plan_lower_bound(step), b->state_limit, &least, &proven);
  b->steps += proven;
  b->passed_over += !proven;
  for (here.part = 0; status == NEAP_OK && proven && here.part < BUDGETS; here.part++) {
    here.budget = least + (most - least) * (uint64_t)here.part / (BUDGETS - 1);
    status = run_budget(b, step, &here);
  }
  neap_step_free(step);
  return status;
}

static int by_gap(const void *a, const void *b) {
  const double x = ((const struct worst *)a)->gap, y = ((const struct worst *)b)->gap;
  return (x < y) - (x > y);
}

static void report(struct bench *b, int32_t worst_count) {
  for (int32_t p = 0; p < b->name_count; p++) {
    const struct tally *t = &b->tallies[p];
    printf("{\"planner\": \"%s\", \"steps\": %lld, \"passed_over\": %lld, \"budgets\": %lld, \"unproved\": "
           "%lld, "
           "\"feasible\": %lld, \"gap\": %.6f, \"optimal\": %lld, \"seconds\": %.6f}\n",
           b->names[p], (long long)b->steps, (long long)b->passed_over, (long long)b->budgets,
           (long long)b->unproved, (long long)t->feasible,
           t->gap / (double)(t->feasible > 0 ? t->feasible : 1), (long long)t->optimal,
           t->seconds / (double)(b->budgets > 0 ? b->budgets : 1));
  }
  qsort(b->worst.data, b->worst.count, sizeof *b->worst.data, by_gap);
  for (size_t i = 0; i < b->worst.count && i < (size_t)worst_count && b->worst.data[i].gap > 0; i++) {
    const struct worst *w = &b->worst.data[i];
    printf(
        "{\"planner\": \"%s\", \"family\": \"%s\", \"nodes\": %d, \"seed\": %u, \"plain\": %s, \"part\": %d, "
        "\"budget\": %llu, \"least_cost\": %.17g, \"gap\": ",
        b->names[0], step_family_names[w->shape.family], w->shape.nodes, w->shape.seed,
        w->shape.plain ? "true" : "false", w->part, (unsigned long long)w->budget, w->least_cost);
    if (w->gap < INFINITY)
      printf("%.6f}\n", w->gap);
    else
      puts("null}"); /* missed */
  }
}

static bool parse(int count, char **arguments, struct bench *b, int32_t *steps, int32_t *worst) {
  static const char *const usual[] = {"auto", "evict"};
  for (int option; (option = getopt(count, arguments, "on:l:w:")) != -1;)
    if (option == 'o')
      b->odd = true;
    else if (option == 'n')
      *steps = atoi(optarg);
    else if (option == 'l')
      b->state_limit = strtoull(optarg, NULL, 10);
    else if (option == 'w')
      *worst = atoi(optarg);
    else
      return false;
  b->names = optind < count ? (const char *const *)arguments + optind : usual;
  b->name_count = optind < count ? count - optind : 2;
  return *steps > 0 && b->state_limit > 0 && *worst >= 0 && b->name_count <= PLANNER_LIMIT;
}

int main(int count, char **arguments) {
  static struct bench b = {.state_limit = 50000};
  int32_t steps = 200, worst = 10;
  if (!parse(count, arguments, &b, &steps, &worst)) {
    fputs("usage: optimality [-o] [-n STEPS] [-l STATES] [-w WORST] [PLANNER ...]\n", stderr);
    return 2;
  }
  neap_status status = NEAP_OK;
  for (uint32_t seed = 1; status == NEAP_OK && b.steps < steps; seed++) status = run_step(&b, seed);
  if (status == NEAP_OK)
    report(&b, worst);
  else
    fprintf(stderr, "optimality: %s\n", neap_error_message());
  vector_free(&b.worst);
  return status == NEAP_OK ? 0 : 1;
}
