/* Random layered graphs. */
#include <stdio.h>

#include "layered_step.h"
#include "papers.h"

/* Mean overhead over the graphs whose budget is met. */
struct tally {
  int32_t met;
  double overhead, seconds;
};

/* A row of the planner table asked for a schedule alone, which the simulator judges: where a budget is not
 * met, no search for the smallest that is. */
static neap_status plan_graph(const neap_step *step, double share, struct tally *tally) {
  static const struct planner_options options = {0};
  struct schedule schedule = {0};
  struct simulation score;
  struct outcome keep_all;
  TRY(plan_checked(step, NEAP_BUDGET_MAX, "keep-all", &keep_all));
  const uint64_t budget = (uint64_t)(share * (double)keep_all.peak);
  const double start = clock_seconds();
  neap_status status = planner_find("neap")->plan(step, budget, &options, &schedule);
  tally->seconds += clock_seconds() - start;
  if (status == NEAP_OK) status = simulate(step, schedule.nodes.data, (int32_t)schedule.nodes.count, &score);
  if (status == NEAP_OK && score.peak_bytes > budget)
    status = neap_fail(NEAP_INVALID_PLAN, "the schedule needs %llu bytes of a budget of %llu",
                       (unsigned long long)score.peak_bytes, (unsigned long long)budget);
  if (status == NEAP_OK) {
    tally->met++;
    tally->overhead += score.cost / step->base_cost - 1;
  }
  schedule_free(&schedule);
  return status == NEAP_OVER_BUDGET ? NEAP_OK : status;
}

static neap_status plan_graphs(const struct report *report, int32_t nodes, double share,
                               struct tally *tally) {
  *tally = (struct tally){0};
  for (int32_t seed = 1; seed <= report->graphs; seed++) {
    progress(report, "  %d nodes, %.0f %%: graph %d of %d ...", nodes, 100 * share, seed, report->graphs);
    neap_step *step;
    TRY(layered_step(nodes, seed, &step));
    const neap_status status = plan_graph(step, share, tally);
    neap_step_free(step);
    if (status != NEAP_OK) return status;
  }
  tally->overhead /= tally->met > 0 ? tally->met : 1;
  tally->seconds /= report->graphs;
  return NEAP_OK;
}

neap_status print_random(struct report *report) {
  static const struct {
    int32_t nodes;
    double share, overhead, seconds; /* 0: not published */
  } rows[] = {
      {100, 0.9, 0, 0},         {100, 0.8, 0, 0},         {100, 0.5, 0, 0},  {100, 0.3, 0, 0},
      {250, 0.9, 0.009, 55},    {250, 0.8, 0.049, 640},   {250, 0.5, 0, 0},  {250, 0.3, 0, 0},
      {500, 0.9, 0, 0},         {500, 0.8, 0, 0},         {500, 0.5, 0, 0},  {500, 0.3, 0, 0},
      {1000, 0.9, 0.007, 3600}, {1000, 0.8, 0.034, 3600}, {1000, 0.5, 0, 0}, {1000, 0.3, 0, 0},
  };
  printf("  Overhead where the budget is a share of keep-all's peak: theirs of one graph, ours the mean of "
         "%d of\n"
         "  the same family, and how many of them have a plan within the budget. Met: all have, at no more\n"
         "  overhead.\n\n  %5s %6s | %9s %8s | %9s %9s %8s\n",
         report->graphs, "nodes", "budget", "Moccasin", "seconds", "Neap", "feasible", "seconds");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct tally ours;
    TRY(plan_graphs(report, rows[i].nodes, rows[i].share, &ours));
    const bool published = rows[i].seconds > 0;
    print_row(report, "  %5d %4.0f %% |", rows[i].nodes, 100 * rows[i].share);
    if (published)
      print_row(report, " %+7.1f %% %8.0f |", 100 * rows[i].overhead, rows[i].seconds);
    else
      print_row(report, " %9s %8s |", "", "");
    if (ours.met > 0)
      print_row(report, " %+7.2f %%", 100 * ours.overhead);
    else
      print_row(report, " %9s", "none");
    print_row(report, " %3d of %d %8.2f   %s\n", ours.met, report->graphs, ours.seconds,
              !published ? ""
                         : verdict(report, ours.met == report->graphs && ours.overhead <= rows[i].overhead));
  }
  return NEAP_OK;
}
