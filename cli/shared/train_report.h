/* The messages of `neap train` before, during and after a run. */
#ifndef NEAP_CLI_TRAIN_REPORT_H
#define NEAP_CLI_TRAIN_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "shared/options.h"
#include "shared/processor_share.h"

struct train_report {
  const struct arguments *arguments;
  FILE *file;    /* for people: standard output, or standard error beside --json */
  bool terminal; /* one line that is written over, or a line now and then */
  bool line_open;
  bool told_shared;    /* that other processes use the processors */
  bool told_uncounted; /* that labels count for nothing */
  struct processor_sample share;
  bool least;          /* the budget is the least; then */
  uint64_t affordable; /* one that costs little; 0: not known */
  struct watch *watch; /* until step 1 */
  double last_shown;   /* seconds */
  double test_accuracy;
  int64_t frozen;         /* parameters that no step changes */
  json_t *pairs;          /* the longest pair, and those beyond --length, for --json; NULL: none exist */
  json_t *understood;     /* what the data were read as, for --json; NULL: not asked for */
  json_t *initialisation; /* what came of --init, for --json; NULL: none exists */
  json_t *unstored;       /* weights that --store names and that are in no blocks; NULL: none are in blocks */
};

struct train_report make_report(const struct arguments *arguments);

/* The table before step 1, then the progress. */
void report_progress(struct train_report *report, const neap_train_progress *progress);
void end_progress(struct train_report *report);

void print_summary(const struct train_report *report, const neap_train_result *result);
json_t *train_json(const struct train_report *report, const neap_train_result *result);

/* Prints the smallest budget and the largest batch: EXIT_OVER_BUDGET; or, where the planner has no plan for
 * the model under any budget, that: EXIT_FAILED. */
int report_over_budget(const struct train_report *report, const neap_train_result *result);
/* Says where the checkpoint is; returns the exit status of a program that `signal` stopped. */
int report_interruption(const struct train_report *report, int signal);

#endif
