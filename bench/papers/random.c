/* Random layered graphs. */
#include <stdio.h>

#include "layered_step.h"
#include "papers.h"

/* Mean overhead over the seeds whose budget is met. */
struct tally {
  int32_t met;
  double overhead, seconds;
};

enum { SEEDS = 10 };

static neap_status plan_seeds(const struct report *report, int32_t nodes, double share, struct tally *tally) {
  *tally = (struct tally){0};
  for (int32_t seed = 1; seed <= SEEDS; seed++) {
    progress(report, "  %d nodes, %.0f %%: graph %d of %d ...", nodes, 100 * share, seed, SEEDS);
    neap_step *step;
    struct outcome keep_all, ours;
    TRY(layered_step(nodes, seed, &step));
    neap_status status = plan_checked(step, NEAP_BUDGET_MAX, "keep-all", &keep_all);
    if (status == NEAP_OK)
      status = plan_checked(step, (uint64_t)(share * (double)keep_all.peak), "auto", &ours);
    neap_step_free(step);
    if (status != NEAP_OK) return status;
    tally->met += ours.fits;
    tally->overhead += ours.fits ? ours.overhead : 0;
    tally->seconds += ours.seconds;
  }
  tally->overhead /= tally->met > 0 ? tally->met : 1;
  tally->seconds /= SEEDS;
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
         SEEDS, "nodes", "budget", "Moccasin", "seconds", "Neap", "feasible", "seconds");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct tally ours;
    TRY(plan_seeds(report, rows[i].nodes, rows[i].share, &ours));
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
    print_row(report, " %3d of %d %8.2f   %s\n", ours.met, SEEDS, ours.seconds,
              !published ? "" : verdict(report, ours.met == SEEDS && ours.overhead <= rows[i].overhead));
  }
  return NEAP_OK;
}
