/* layered [-n NODES] [-s SEEDS] [PLANNER ...]
 *
 * Random layered steps (the family of Gagrani et al. 2022 and Moccasin, tests/step_families.h) of 250 and of
 * 1000 nodes, or of NODES, at shares of keep-all's peak: a JSON line for each size, share and planner
 * (default: auto and evict) with what it reaches over the seeds (default: 10):
 *
 * - feasible: seeds whose budget it meets;
 * - overhead: mean of cost / base cost - 1 over those; null: none;
 * - overhead_common: the same over the seeds whose budget every planner meets; null: none;
 * - least_over_bound: mean of its least peak / the lower bound over the other seeds; null: none;
 * - seconds, seconds_most: wall-clock time of planning, mean and largest. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "layered_step.h"
#include "neap.h"
#include "step/lower_bound.h"

enum { PLANNER_LIMIT = 16, SEED_LIMIT = 1000 };

static const double shares[] = {0.9, 0.8, 0.6, 0.5, 0.3};

struct result {
  bool feasible;
  double overhead, seconds, least_over_bound;
};

static neap_status run(const neap_step *step, uint64_t budget, const char *planner, struct result *out) {
  neap_plan *plan = NULL;
  uint64_t least = 0;
  const double start = clock_seconds();
  const neap_status status = neap_plan_make(step, budget, planner, &least, &plan);
  *out = (struct result){.feasible = status == NEAP_OK, .seconds = clock_seconds() - start};
  if (status == NEAP_OVER_BUDGET) {
    out->least_over_bound = (double)least / (double)plan_lower_bound(step);
    return NEAP_OK;
  }
  if (status != NEAP_OK) return status;
  neap_plan_info info;
  neap_plan_describe(plan, &info);
  out->overhead = info.cost / info.base_cost - 1;
  neap_plan_free(plan);
  return NEAP_OK;
}

static void print_mean(const char *name, double sum, int32_t count) {
  if (count > 0)
    printf(", \"%s\": %.6f", name, sum / count);
  else
    printf(", \"%s\": null", name);
}

/* results: [seeds, names] */
static void report(int32_t nodes, double share, int32_t seeds, const char *const *names, int32_t name_count,
                   const struct result *results) {
  for (int32_t p = 0; p < name_count; p++) {
    struct result sum = {0};
    double common_overhead = 0, most = 0;
    int32_t feasible = 0, common = 0;
    for (int32_t s = 0; s < seeds; s++) {
      const struct result *row = &results[s * name_count], *r = &row[p];
      bool all = true;
      for (int32_t k = 0; k < name_count; k++) all = all && row[k].feasible;
      feasible += r->feasible;
      common += all;
      if (all) common_overhead += r->overhead;
      sum.overhead += r->overhead;
      sum.least_over_bound += r->least_over_bound;
      sum.seconds += r->seconds;
      most = fmax(most, r->seconds);
    }
    printf("{\"nodes\": %d, \"share\": %.2f, \"planner\": \"%s\", \"seeds\": %d, \"feasible\": %d", nodes,
           share, names[p], seeds, feasible);
    print_mean("overhead", sum.overhead, feasible);
    print_mean("overhead_common", common_overhead, common);
    print_mean("least_over_bound", sum.least_over_bound, seeds - feasible);
    printf(", \"seconds\": %.3f, \"seconds_most\": %.3f}\n", sum.seconds / seeds, most);
  }
  fflush(stdout);
}

static neap_status run_size(int32_t nodes, int32_t seeds, const char *const *names, int32_t name_count) {
  static struct result results[SEED_LIMIT * PLANNER_LIMIT];
  for (size_t b = 0; b < sizeof shares / sizeof *shares; b++) {
    for (int32_t s = 0; s < seeds; s++) {
      neap_step *step;
      uint64_t peak;
      TRY(layered_step(nodes, s + 1, &step));
      neap_status status = neap_step_keep_all_bytes(step, &peak);
      for (int32_t p = 0; status == NEAP_OK && p < name_count; p++)
        status = run(step, (uint64_t)(shares[b] * (double)peak), names[p], &results[s * name_count + p]);
      neap_step_free(step);
      if (status != NEAP_OK) return status;
    }
    report(nodes, shares[b], seeds, names, name_count, results);
  }
  return NEAP_OK;
}

int main(int count, char **arguments) {
  static const char *const usual[] = {"auto", "evict"};
  int32_t sizes[2] = {250, 1000}, size_count = 2, seeds = 10;
  for (int option; (option = getopt(count, arguments, "n:s:")) != -1;) {
    if (option == 'n')
      sizes[0] = atoi(optarg), size_count = 1;
    else if (option == 's')
      seeds = atoi(optarg);
    if (option == '?' || sizes[0] < 4 || seeds < 1 || seeds > SEED_LIMIT) {
      fputs("usage: layered [-n NODES] [-s SEEDS] [PLANNER ...]\n", stderr);
      return 2;
    }
  }
  const bool named = optind < count;
  const char *const *names = named ? (const char *const *)arguments + optind : usual;
  const int32_t name_count = named ? count - optind : 2;
  if (name_count > PLANNER_LIMIT) return 2;
  for (int32_t i = 0; i < size_count; i++)
    if (run_size(sizes[i], seeds, names, name_count) != NEAP_OK) {
      fprintf(stderr, "layered: %s\n", neap_error_message());
      return 1;
    }
  return 0;
}
