/* neap bench */
#include <jansson.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "shared/exchanges.h"
#include "shared/failure.h"
#include "shared/format.h"
#include "shared/processes.h"
#include "shared/source.h"
#include "shared/threads.h"
#include "verbs/verbs.h"

struct settings {
  struct arguments a;
  int64_t steps;
  int32_t processes;
};

const neap_setting bench_options[] = {
    {"steps", "N", "enough for two seconds, at least 3", "number of steps to time",
     .kind = NEAP_SETTING_INTEGER, .offset = offsetof(struct settings, steps), .least = 1},
    OWN_OPTION(struct settings, "processes", "N", "1",
               "measure, instead of the machine, how fast N processes of this machine exchange bytes", INT,
               processes, .least = 1, .below = 129),
    {0},
};

/* The results of the measurement. */
struct report {
  const struct settings *settings;
  char processor[128];
  neap_speed speeds[2]; /* of one thread; of all that were asked for */
  int speed_count;
  neap_bench_result model; /* without times: none exists */
};

/* ---- For people ---- */

enum { LABEL_WIDTH = 44, RATE_WIDTH = 17 };

static void print_rates(const struct report *r, const char *label, const char *unit, size_t field) {
  printf("%-*s", LABEL_WIDTH, label);
  for (int i = 0; i < r->speed_count; i++) {
    double rate;
    memcpy(&rate, (const char *)&r->speeds[i] + field, sizeof rate);
    printf("%*s", RATE_WIDTH, rate > 0 ? rate_text(rate, unit).text : "none");
  }
  putchar('\n');
}

static void print_machine(const struct report *r) {
  printf("%-*.*s", LABEL_WIDTH, LABEL_WIDTH - 2, r->processor);
  for (int i = 0; i < r->speed_count; i++) {
    char threads[24];
    snprintf(threads, sizeof threads, "%d thread%s", r->speeds[i].threads,
             r->speeds[i].threads == 1 ? "" : "s");
    printf("%*s", RATE_WIDTH, threads);
  }
  putchar('\n');
  print_rates(r, "f32: multiply-add, 2 FLOPs each", "FLOP/s", offsetof(neap_speed, f32_flops));
  print_rates(r, "bf16: dot product", "FLOP/s", offsetof(neap_speed, bf16_flops));
  print_rates(r, "memory: copy, bytes read plus bytes written", "B/s", offsetof(neap_speed, memory_bytes));
  print_rates(r, "L2 cache: copy", "B/s", offsetof(neap_speed, cache_bytes));
  print_rates(r, "disk: file, read past the page cache", "B/s", offsetof(neap_speed, disk_bytes));
  print_rates(r, "disk: reads and writes in turn, of reads", "B/s", offsetof(neap_speed, disk_read_in_turn));
  print_rates(r, "disk: reads and writes in turn, of writes", "B/s",
              offsetof(neap_speed, disk_write_in_turn));
}

static double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

/* Columns of the table behind the names. */
enum { COUNT_WIDTH = 6, TIME_WIDTH = 10, SHARE_WIDTH = 8 };

static void print_header(const char *what, int width) {
  printf("\n%-*s%*s%*s%*s%*s\n", width, what, COUNT_WIDTH, "count", TIME_WIDTH, "ms", SHARE_WIDTH, "of step",
         SHARE_WIDTH, "limit");
}

/* A name that is too long for its column ends in dots. */
static void print_kernels(const neap_kernels *k, double step, int width) {
  char name[512];
  const int length = snprintf(name, sizeof name, "%s%s%s", k->op, k->operands != NULL ? "  " : "",
                              k->operands != NULL ? k->operands : "");
  const bool cut = length > width - 1;
  printf("%-*.*s%s%*lld%*.2f%*s%*s\n", cut ? width - 4 : width, cut ? width - 4 : width, name,
         cut ? "... " : "", COUNT_WIDTH, (long long)k->count, TIME_WIDTH, 1e3 * k->seconds, SHARE_WIDTH,
         percent_text(share(k->seconds, step)).text, SHARE_WIDTH,
         percent_text(share(k->limit_seconds, k->seconds)).text);
}

static void print_line(const char *label, double seconds, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void print_line(const char *label, double seconds, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("%-10s%10.2f ms   ", label, 1e3 * seconds);
  vprintf(format, arguments);
  putchar('\n');
  va_end(arguments);
}

static void print_model(const struct report *r) {
  enum { KINDS = 10 };
  const neap_train_options *source = &r->settings->a.options;
  const neap_step_times *t = r->model.times;
  const int threads = r->speeds[r->speed_count - 1].threads,
            width = line_width(stdout, 80) - COUNT_WIDTH - TIME_WIDTH - 2 * SHARE_WIDTH;
  printf("\n%s: %lld %s a step, %s, %d thread%s, %s; every value is kept\n", source->model,
         (long long)r->model.batch, r->model.records, precision_name(source->session.precision), threads,
         threads == 1 ? "" : "s", bytes_text(r->model.memory.planned_peak).text);
  print_line("step", t->step_seconds, "median of %lld, %.1f %s a second", (long long)t->steps,
             (double)r->model.batch / t->step_seconds, r->model.records);
  print_line("kernels", t->kernel_seconds, "%s of the step",
             percent_text(share(t->kernel_seconds, t->step_seconds)).text);
  print_line("limit", t->limit_seconds, "%s of the step: the kernels at the speeds above",
             percent_text(share(t->limit_seconds, t->step_seconds)).text);
  print_header("slowest kernels", width);
  for (int32_t i = 0; i < t->kind_count && i < KINDS; i++)
    print_kernels(&t->kinds[i], t->step_seconds, width);
  print_header("by operator", width);
  for (int32_t i = 0; i < t->operator_count; i++) print_kernels(&t->operators[i], t->step_seconds, width);
  puts("\nlimit: the time that a kernel's FLOPs or its bytes, whichever is longer, take at\n"
       "the speeds above, as a share of its time. More than 100 %: the kernel found its\n"
       "operands in a cache, or its algorithm needs fewer FLOPs (Winograd).");
}

/* ---- As JSON ---- */

static json_t *rate_json(double rate) { return rate > 0 ? json_real(rate) : json_null(); }

static json_t *speed_json(const neap_speed *s) {
  return json_pack("{s:i, s:f, s:o, s:f, s:f, s:o, s:o, s:o}", "threads", s->threads, "f32_flops_per_second",
                   s->f32_flops, "bf16_flops_per_second", rate_json(s->bf16_flops), "memory_bytes_per_second",
                   s->memory_bytes, "cache_bytes_per_second", s->cache_bytes, "disk_bytes_per_second",
                   rate_json(s->disk_bytes), "disk_read_in_turn_bytes_per_second",
                   rate_json(s->disk_read_in_turn), "disk_write_in_turn_bytes_per_second",
                   rate_json(s->disk_write_in_turn));
}

static json_t *kernels_json(const neap_kernels *k, double step) {
  return json_pack("{s:s, s:s*, s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "op", k->op, "operands", k->operands,
                   "count", (json_int_t)k->count, "seconds", k->seconds, "share", share(k->seconds, step),
                   "flops", k->flops, "bytes", k->bytes, "limit_seconds", k->limit_seconds, "limit_share",
                   share(k->limit_seconds, k->seconds));
}

static json_t *list_json(const neap_kernels *kernels, int32_t count, double step) {
  json_t *list = json_array();
  bool whole = true;
  for (int32_t i = 0; i < count; i++)
    whole = json_array_append_new(list, kernels_json(&kernels[i], step)) == 0 && whole;
  if (whole) return list;
  json_decref(list);
  return NULL;
}

static json_t *report_json(const struct report *r) {
  const neap_train_options *source = &r->settings->a.options;
  const neap_step_times *t = r->model.times;
  json_t *speeds = json_array();
  for (int i = 0; speeds != NULL && i < r->speed_count; i++)
    if (json_array_append_new(speeds, speed_json(&r->speeds[i])) != 0) return NULL;
  json_t *object = json_pack("{s:s, s:o}", "processor", r->processor, "machine", speeds);
  if (t == NULL || object == NULL) return object;
  json_t *model = json_pack(
      "{s:s, s:I, s:I, s:s, s:i, s:I, s:I, s:f, s:f, s:f, s:f, s:o, s:o}", "model", source->model, "batch",
      (json_int_t)r->model.batch, "parameters", (json_int_t)r->model.parameters, "precision",
      precision_name(source->session.precision), "threads", r->speeds[r->speed_count - 1].threads,
      "planned_peak_bytes", (json_int_t)r->model.memory.planned_peak, "steps", (json_int_t)t->steps,
      "step_seconds", t->step_seconds, "step_seconds_median", t->step_seconds, "kernel_seconds",
      t->kernel_seconds, "limit_seconds", t->limit_seconds, "kinds",
      list_json(t->kinds, t->kind_count, t->step_seconds), "operators",
      list_json(t->operators, t->operator_count, t->step_seconds));
  const bool whole = model != NULL && json_object_update(object, model) == 0;
  json_decref(model);
  if (whole) return object;
  json_decref(object);
  return NULL;
}

/* ---- The verb ---- */

static neap_status measure(struct report *r) {
  const neap_train_options *source = &r->settings->a.options;
  neap_processor_name(r->processor, sizeof r->processor);
  const neap_status status = neap_measure_speed(source->session.threads, &r->speeds[0], &r->speeds[1]);
  r->speed_count = r->speeds[1].threads > 1 ? 2 : 1;
  if (status != NEAP_OK || source->model == NULL) return status;
  neap_bench_options options = {.model = source->model,
                                .opened = source->opened,
                                .shape = source_shape(source),
                                .session = source_session(source),
                                .steps = r->settings->steps};
  options.session.budget = NEAP_BUDGET_MAX;
  return neap_bench(&options, &r->speeds[r->speed_count - 1], &r->model);
}

/* A machine alone takes no more than its threads. */
static int check_machine(const struct verb *verb, const struct settings *s) {
  neap_setting setting;
  if (s->steps > 0) return report_usage(verb, "--steps needs --model, which is missing");
  for (int32_t i = 0; neap_setting_at(i, &setting); i++)
    if (s->a.given[i] != NULL && strcmp(setting.name, "threads") != 0)
      return report_usage(verb, "--%s needs --model, which is missing", setting.name);
  return EXIT_DONE;
}

/* Exchanges need no setting. */
static int check_exchanges(const struct verb *verb, const struct settings *s, bool speaks) {
  neap_setting setting;
  const char *name = s->steps > 0 ? "steps" : NULL;
  for (int32_t i = 0; neap_setting_at(i, &setting); i++)
    if (s->a.given[i] != NULL) name = setting.name;
  if (name == NULL) return EXIT_DONE;
  if (!speaks) return EXIT_USAGE;
  return report_usage(verb, "--%s does nothing with several processes, whose exchanges alone are measured",
                      name);
}

static int bench_machine(const struct verb *verb, struct settings *s) {
  const int checked = s->a.options.model == NULL ? check_machine(verb, s) : check_use(verb, &s->a);
  if (checked != EXIT_DONE) return checked;
  neap_train_options_resolve(&s->a.options);
  if (prepare_threads(s->a.options.session.threads) != EXIT_DONE) return EXIT_FAILED;
  struct report report = {.settings = s};
  const neap_status status = measure(&report);
  int result = EXIT_DONE;
  if (status != NEAP_OK) {
    result = report_failure(verb, status);
  } else if (s->a.json) {
    result = print_json(report_json(&report));
  } else {
    print_machine(&report);
    if (report.model.times != NULL) print_model(&report);
  }
  neap_step_times_free(report.model.times);
  return result;
}

int run_bench(const struct verb *verb, int count, char **arguments) {
  struct settings s = {0};
  int result;
  if (!read_arguments(verb, count, arguments, &s, &s.a) || take_model_file(verb, &s.a) != EXIT_DONE)
    return EXIT_USAGE;
  if (s.a.operands.count > 0) return report_no_model(verb, &s.a);
  struct launched launched = {.asked = s.processes};
  if (s.processes > 1 && check_exchanges(verb, &s, true) != EXIT_DONE) return EXIT_USAGE;
  if (!launch_processes(verb, &s.a, &launched, &result)) return result;
  if (launched.collective.size <= 1) return bench_machine(verb, &s);
  result = check_exchanges(verb, &s, is_first_process(&launched));
  if (result == EXIT_DONE) result = bench_exchanges(verb, &launched, s.a.json);
  leave_processes(&launched);
  return result;
}
