/* The published tables of the papers that Neap stands on, beside what Neap reaches: one function a table. */
#ifndef NEAP_BENCH_PAPERS_H
#define NEAP_BENCH_PAPERS_H

#include "base/clock.h"
#include "base/status.h"
#include "neap.h"
#include "plan/planners.h"
#include "step/simulate.h"

struct report {
  int rows, met;       /* with a published figure; of those, reached or beaten */
  bool terminal;       /* standard error is one: progress is shown there */
  const char *buffers; /* folder of minimalloc's instances; NULL: none was given */
  int graphs;          /* how many random ones of a size */
};

/* Printed in a last column; counts the row. */
const char *verdict(struct report *report, bool met);

/* What is being worked on, on standard error. */
void progress(const struct report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A line of a table, in the place of what was being worked on. */
void print_row(const struct report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What a planner makes of a budget. */
struct outcome {
  bool fits;
  uint64_t peak;   /* resident bytes and arena; where the budget is not met, the smallest that is */
  uint64_t values; /* of it, the arena */
  double overhead; /* cost / cost without recomputation - 1; 0 where the budget is not met */
  double seconds;  /* of planning, with the layout */
};

/* Plans and has the independent checker judge the plan: NEAP_INVALID_PLAN, where it does not hold or has
 * another cost or a higher peak than the plan says. */
neap_status plan_checked(const neap_step *step, uint64_t budget, const char *planner, struct outcome *out);

/* Prints a row: bytes beside the residents of keeping everything, the least ones within each of the times
 * (of that of keeping everything), the least of all, and its time. */
neap_status print_least_within(const struct report *report, const char *name, const neap_step *step,
                               const double times[3]);

/* A table prints its heading, its rows and what its figures count. */
typedef neap_status table_function(struct report *report);
table_function print_chen, print_lstm, print_feng_huang, print_kusumoto, print_monet; /* networks.c, lstm.c */
table_function print_revolve, print_bptt, print_hong;                                 /* counts.c */
table_function print_random;                                                          /* random.c */
table_function print_minimalloc;                                                      /* minimalloc.c */
table_function print_low_rank;                                                        /* low_rank.c */
table_function print_adelia;                                                          /* adelia.c */

#endif
