/* papers [-m FOLDER] [-g GRAPHS] [TABLE ...]
 *
 * Published tables beside ours, all or those named: chen lstm revolve bptt hong kusumoto feng-huang monet
 * random minimalloc dlr adelia. Each row has the published figure, ours, and whether ours is as good. Every
 * plan is judged by the independent checker. -m: where minimalloc's instances lie (NAME.CAPACITY.csv). -g:
 * random graphs of a size (5).
 *
 * Exit status: 0: every row is as good as published; 1: not all are, or something failed; 2: wrong usage. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "papers.h"

static const struct table {
  const char *name, *title;
  table_function *print;
} tables[] = {
    {"chen", "Chen, Xu, Zhang and Guestrin 2016, Training Deep Nets with Sublinear Memory Cost", print_chen},
    {"lstm", "Chen, Xu, Zhang and Guestrin 2016: a recurrent network", print_lstm},
    {"revolve", "Griewank and Walther 2000, Revolve", print_revolve},
    {"bptt", "Gruslys, Munos, Danihelka, Lanctot and Graves 2016, Backpropagation Through Time", print_bptt},
    {"hong", "Hong et al. 2025, GPU Memory Usage Optimization for Backward Propagation", print_hong},
    {"kusumoto", "Kusumoto et al. 2019, A Graph Theoretic Framework of Recomputation", print_kusumoto},
    {"feng-huang", "Feng and Huang 2018, Optimal Gradient Checkpoint Search", print_feng_huang},
    {"monet", "Shah et al. 2020, Memory Optimization for Deep Networks (MONeT)", print_monet},
    {"random", "Bartan et al. 2023, Moccasin: random layered graphs (Gagrani et al. 2022)", print_random},
    {"minimalloc", "Moffitt 2023, MiniMalloc: offsets of buffers with lifetimes", print_minimalloc},
    {"dlr", "DLR-Lock 2026 (arXiv 2605.10777): deep networks of low rank in place of MLPs", print_low_rank},
    {"adelia", "ADELIA 2026 (arXiv 2605.06392): gradients through block-tridiagonal matrices", print_adelia},
};
enum { TABLES = sizeof tables / sizeof *tables };

const char *verdict(struct report *report, bool met) {
  report->rows++;
  report->met += met;
  return met ? "met" : "MISSED";
}

/* To the start of the line, and the rest of it cleared. */
static void clear_progress(const struct report *report) {
  if (report->terminal) fputs("\r\033[K", stderr);
}

void progress(const struct report *report, const char *format, ...) {
  if (!report->terminal) return;
  clear_progress(report);
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
}

void print_row(const struct report *report, const char *format, ...) {
  clear_progress(report);
  va_list arguments;
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  fflush(stdout);
}

neap_status plan_checked(const neap_step *step, uint64_t budget, const char *planner, struct outcome *out) {
  *out = (struct outcome){0};
  neap_plan *plan = NULL;
  const double start = clock_seconds();
  neap_status status = neap_plan_make(step, budget, planner, &out->peak, &plan);
  out->seconds = clock_seconds() - start;
  neap_step_info about;
  neap_step_describe(step, &about);
  out->values = out->peak > about.resident_bytes ? out->peak - about.resident_bytes : 0;
  if (status == NEAP_OVER_BUDGET) return NEAP_OK;
  if (status != NEAP_OK) return status;
  neap_plan_info info;
  neap_check_result check;
  neap_plan_describe(plan, &info);
  status = neap_plan_check(step, plan, &check);
  if (status == NEAP_OK && (check.cost != info.cost || check.live_peak_bytes > info.peak_bytes))
    status =
        neap_fail(NEAP_INVALID_PLAN, "the checker finds a cost of %g and a peak of %llu bytes in %s's plan",
                  check.cost, (unsigned long long)check.live_peak_bytes, planner);
  out->fits = true;
  out->peak = info.peak_bytes;
  out->values = info.arena_bytes;
  out->overhead = info.cost / info.base_cost - 1;
  neap_plan_free(plan);
  return status;
}

/* Finds the least bytes of a plan that takes at most `most` times the time of keeping everything, to 1 %. */
static neap_status least_within(const neap_step *step, double most, struct outcome *best) {
  struct outcome now;
  TRY(plan_checked(step, UINT64_MAX, "neap", best));
  TRY(plan_checked(step, 1, "neap", &now));
  uint64_t low = now.peak;
  while (best->peak > low + best->peak / 100) {
    const uint64_t middle = low + (best->peak - low) / 2;
    TRY(plan_checked(step, middle, "neap", &now));
    if (now.fits && now.overhead <= most - 1)
      *best = now;
    else
      low = middle;
  }
  return NEAP_OK;
}

neap_status print_least_within(const struct report *report, const char *name, const neap_step *step,
                               const double times[3]) {
  struct outcome found[3], everything, least;
  for (int i = 0; i < 3; i++) {
    progress(report, "%s at %.1f of the time", name, times[i]);
    TRY(least_within(step, times[i] + 1e-9, &found[i]));
  }
  TRY(plan_checked(step, UINT64_MAX, "neap", &everything));
  TRY(plan_checked(step, 1, "neap", &least));
  TRY(plan_checked(step, least.peak, "neap", &least));
  print_row(report, "  %-10s %10.1f %10.1f %10.1f %10.1f %10.1f %9.2f\n", name,
            (double)everything.values / 1e6, (double)found[0].values / 1e6, (double)found[1].values / 1e6,
            (double)found[2].values / 1e6, (double)least.values / 1e6, 1 + least.overhead);
  return NEAP_OK;
}

static bool chosen(const char *name, int count, char **names) {
  for (int i = 0; i < count; i++)
    if (strcmp(names[i], name) == 0) return true;
  return count == 0;
}

static bool known(const char *name) {
  for (int i = 0; i < TABLES; i++)
    if (strcmp(tables[i].name, name) == 0) return true;
  return false;
}

static int report_usage(void) {
  fputs("usage: papers [-m FOLDER] [-g GRAPHS] [TABLE ...]\ntables:\n", stderr);
  for (int i = 0; i < TABLES; i++) fprintf(stderr, "  %-11s %s\n", tables[i].name, tables[i].title);
  return 2;
}

int main(int count, char **arguments) {
  struct report report = {.terminal = isatty(STDERR_FILENO), .graphs = 5};
  for (int option; (option = getopt(count, arguments, "m:g:")) != -1;) {
    if (option == 'm')
      report.buffers = optarg;
    else if (option == 'g')
      report.graphs = atoi(optarg);
    if (option == '?' || report.graphs < 1) return report_usage();
  }
  for (int i = optind; i < count; i++)
    if (!known(arguments[i])) return report_usage();
  for (int i = 0; i < TABLES; i++) {
    if (!chosen(tables[i].name, count - optind, arguments + optind)) continue;
    printf("%s\n", tables[i].title);
    const neap_status status = tables[i].print(&report);
    if (status != NEAP_OK) {
      fflush(stdout);
      fprintf(stderr, "papers: %s: %s\n", tables[i].name, neap_error_message());
      return 1;
    }
    printf("\n");
    fflush(stdout);
  }
  printf("%d of %d published figures met\n", report.met, report.rows);
  return report.met < report.rows;
}
