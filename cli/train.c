/* neap train */
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

const struct option_row train_options[] = {
    {"--model", "NAME", "what to train (see `neap models`)"},
    {"--data", "SET", "cifar10:DIR, mnist:DIR or synthetic"},
    {"--budget", "B", "bytes training may use: 96MiB, 0.5GB, 80%, min or max (max)"},
    {"--batch", "N", "images a step (the model's usual number)"},
    {"--steps", "N", "stop after so many steps, or"},
    {"--epochs", "N", "after so many passes over the data (1)"},
    {"--lr", "X", "learning rate (0.1; adamw 0.001)"},
    {"--schedule", "constant|step|cosine", "how it changes (cosine, to 0)"},
    {"--warmup", "EPOCHS", "epochs in which it rises from 0 (0)"},
    {"--lr-step", "EPOCHS", "schedule step: how often it falls (a third of the run)"},
    {"--lr-factor", "X", "schedule step: by what factor (0.1)"},
    {"--optimizer", "sgd|adamw", "(sgd)"},
    {"--momentum", "X", "of SGD (0.9)"},
    {"--nesterov", NULL, "Nesterov's momentum"},
    {"--weight-decay", "X", "(5e-4; adamw 0.01)"},
    {"--label-smoothing", "X", "(0)"},
    {"--shuffle", "on|off", "off: records in file order (on)"},
    {"--augment", "on|off", "random crop and flip (on)"},
    {"--evaluate", "on|off", "on the test set after each epoch (on)"},
    {"--planner", "P", "auto, or a name from `neap planners` (auto)"},
    {"--plan", "PLAN.json", "replay a saved plan"},
    {"--save-plan", "PLAN.json", "write the plan that is used"},
    {"--costs", "roofline|measured", "what planners take a kernel's time from (roofline)"},
    {"--conv", "auto|direct|winograd",
     "convolution algorithm: changes the last bits, so never by budget (auto: by shape)"},
    {"--backend", "cpu|reference", "reference: plain C in double, slow (cpu)"},
    {"--threads", "N", "fixed for a run (all cores)"},
    {"--seed", "N", "first weights, order, augmentation (1)"},
    {"--init", "FILE.safetensors", "start from these weights"},
    {"--out", "DIR", "write checkpoints here"},
    {"--checkpoint-every", "STEPS", "also between epochs"},
    {"--resume", "DIR", "go on from a checkpoint, with the same settings"},
    {"--metrics", "FILE", "one JSON line a step"},
    {"--json", NULL, "one JSON object on standard output at the end"},
    {0},
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number) {
  (void)number;
  interrupted = 1;
}

/* ---- What a person sees ---- */

struct display {
  const neap_train_options *options;
  bool terminal;
  double last; /* when a line was printed */
};

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double percent(uint64_t part, uint64_t whole) {
  return whole > 0 ? 100 * (double)part / (double)whole : 0;
}

static void print_bytes_row(const char *name, uint64_t bytes, uint64_t peak) {
  fprintf(stderr, "  %-34s %12s  %5.1f %%\n", name, bytes_text(bytes), percent(bytes, peak));
}

static void print_settings(const neap_train_options *o, const neap_train_progress *p) {
  static const char *const optimizers[] = {"SGD", "AdamW"}, *const schedules[] = {"constant", "in steps",
                                                                                  "cosine"};
  const neap_memory *m = p->memory;
  fprintf(stderr, "%s on %s, batch %lld, %s", o->model, o->data, (long long)o->shape.batch,
          optimizers[o->session.optimizer]);
  if (o->session.optimizer == NEAP_SGD) fprintf(stderr, " momentum %g", (double)o->session.momentum);
  fprintf(stderr, ", weight decay %g, learning rate %g %s, seed %llu", (double)o->session.weight_decay,
          o->learning_rate, schedules[o->schedule], (unsigned long long)o->session.seed);
  if (p->epochs > 0) fprintf(stderr, ", %lld epochs", (long long)p->epochs);
  fprintf(stderr, ", %lld steps\n\nWhere the bytes go\n", (long long)p->steps);
  print_bytes_row("parameters", m->parameters, m->planned_peak);
  print_bytes_row("optimizer and running statistics", m->states, m->planned_peak);
  print_bytes_row("inputs", m->inputs, m->planned_peak);
  print_bytes_row("arena: activations, gradients, ...", m->arena, m->planned_peak);
  print_bytes_row("peak, proven before the first step", m->planned_peak, m->planned_peak);
  fprintf(stderr, "  %-34s %12s\n", "budget", bytes_text(m->budget));
  fprintf(stderr, "  %-34s %12s  (%.1fx the peak)\n", "keeping everything would need",
          bytes_text(m->keep_all), (double)m->keep_all / (double)m->planned_peak);
  fprintf(stderr, "  plan: %s, recomputation adds %.1f %% by its costs\n\n", m->planner,
          100 * (m->cost / m->base_cost - 1));
}

static void print_line(struct display *d, const neap_train_progress *p) {
  const bool last = p->step == p->steps || p->test_accuracy >= 0;
  const double time = now(), pause = d->terminal ? 0.1 : 10;
  if (!last && p->step > 1 && time - d->last < pause) return;
  d->last = time;
  char epoch[48] = "";
  if (p->epochs > 0)
    snprintf(epoch, sizeof epoch, "epoch %lld/%lld  ", (long long)p->epoch, (long long)p->epochs);
  fprintf(stderr, "%s%sstep %lld/%lld  loss %.4f  accuracy %.1f %%  %.0f images/s  %s left  %s of %s",
          d->terminal ? "\r\033[K" : "", epoch, (long long)p->step, (long long)p->steps, p->loss,
          100 * p->accuracy, p->images_per_second, duration_text(p->seconds_left),
          bytes_text(p->memory->measured_peak), bytes_text(p->memory->budget));
  if (p->test_accuracy >= 0) fprintf(stderr, "\n  test accuracy %.2f %%", 100 * p->test_accuracy);
  if (!d->terminal || last) fputc('\n', stderr);
}

static int show_progress(void *context, const neap_train_progress *progress) {
  struct display *d = context;
  if (progress->step == 0)
    print_settings(d->options, progress);
  else
    print_line(d, progress);
  return interrupted;
}

static void print_summary(const neap_train_result *r) {
  const neap_memory *m = &r->memory;
  fprintf(stderr, "\n%lld steps in %s, %s a step. Loss %.4f", (long long)r->steps, duration_text(r->seconds),
          duration_text(r->step_seconds_median), r->loss);
  if (r->test_accuracy >= 0) fprintf(stderr, ", test accuracy %.2f %%", 100 * r->test_accuracy);
  fprintf(stderr, ".\nPeak: %s planned, %s measured, of a budget of %s.", bytes_text(m->planned_peak),
          bytes_text(m->measured_peak), bytes_text(m->budget));
  if (m->planned_peak < m->keep_all)
    fprintf(stderr, " Keeping everything would have needed %s: %s saved, with the same bits.",
            bytes_text(m->keep_all), bytes_text(m->keep_all - m->planned_peak));
  fprintf(stderr, "\nThe process besides: %s (code, libraries, stacks). Weights %.16s...\n",
          bytes_text(r->process_overhead_bytes), r->weights_sha256);
}

/* ---- Options to settings ---- */

static bool read_switch(const struct verb *verb, const char *const *values, const char *name, bool *off) {
  int index = 0;
  if (!word_value(verb, values, name, "on|off", &index)) return false;
  *off = index == 1;
  return true;
}

static bool read_session(const struct verb *verb, const char *const *values, neap_session_options *s) {
  int optimizer = 0, costs = 0, convolution = 0, backend = 0;
  if (!word_value(verb, values, "--optimizer", "sgd|adamw", &optimizer) ||
      !word_value(verb, values, "--costs", "roofline|measured", &costs) ||
      !word_value(verb, values, "--conv", "auto|direct|winograd", &convolution) ||
      !word_value(verb, values, "--backend", "cpu|reference", &backend))
    return false;
  int64_t threads = 0, seed = 1;
  double momentum = 0.9, decay = optimizer == NEAP_ADAMW ? 0.01 : 5e-4;
  if (!integer_value(verb, values, "--threads", 1, &threads) ||
      !integer_value(verb, values, "--seed", 0, &seed) ||
      !number_value(verb, values, "--momentum", 0, &momentum) ||
      !number_value(verb, values, "--weight-decay", 0, &decay) ||
      !budget_value(verb, values, &s->budget, &s->budget_fraction))
    return false;
  s->optimizer = (neap_optimizer)optimizer;
  s->costs = (neap_costs)costs;
  s->convolution = (neap_convolution)convolution;
  s->backend = (neap_backend)backend;
  s->threads = (int)threads;
  s->seed = (uint64_t)seed;
  s->momentum = (float)momentum;
  s->weight_decay = (float)decay;
  s->nesterov = has(verb, values, "--nesterov");
  s->planner = value_of(verb, values, "--planner");
  s->plan_file = value_of(verb, values, "--plan");
  return true;
}

static bool read_train_options(const struct verb *verb, const char *const *values, neap_train_options *o) {
  o->model = value_of(verb, values, "--model");
  o->data = value_of(verb, values, "--data");
  o->resume = value_of(verb, values, "--resume");
  if (o->model == NULL || o->data == NULL) {
    usage_error(verb, "%s is missing", o->model == NULL ? "--model" : "--data");
    return false;
  }
  if (!read_session(verb, values, &o->session)) return false;
  int schedule = NEAP_LR_COSINE;
  double smoothing = 0;
  o->learning_rate = o->session.optimizer == NEAP_ADAMW ? 0.001 : 0.1;
  o->step_factor = 0.1;
  if (!integer_value(verb, values, "--batch", 1, &o->shape.batch) ||
      !integer_value(verb, values, "--steps", 1, &o->steps) ||
      !integer_value(verb, values, "--epochs", 1, &o->epochs) ||
      !integer_value(verb, values, "--checkpoint-every", 1, &o->checkpoint_steps) ||
      !number_value(verb, values, "--lr", 0, &o->learning_rate) ||
      !number_value(verb, values, "--warmup", 0, &o->warmup_epochs) ||
      !number_value(verb, values, "--lr-step", 0, &o->step_epochs) ||
      !number_value(verb, values, "--lr-factor", 0, &o->step_factor) ||
      !number_value(verb, values, "--label-smoothing", 0, &smoothing) ||
      !word_value(verb, values, "--schedule", "constant|step|cosine", &schedule) ||
      !read_switch(verb, values, "--shuffle", &o->no_shuffle) ||
      !read_switch(verb, values, "--augment", &o->no_augment) ||
      !read_switch(verb, values, "--evaluate", &o->no_evaluation))
    return false;
  if (o->steps > 0 && o->epochs > 0) {
    usage_error(verb, "give --steps or --epochs, not both");
    return false;
  }
  o->shape.smoothing = (float)smoothing;
  o->schedule = (neap_schedule_kind)schedule;
  o->out = value_of(verb, values, "--out");
  o->initial = value_of(verb, values, "--init");
  o->metrics = value_of(verb, values, "--metrics");
  o->save_plan = value_of(verb, values, "--save-plan");
  return true;
}

/* ---- The verb ---- */

static json_t *result_json(const neap_train_options *o, const neap_train_result *r) {
  const neap_memory *m = &r->memory;
  return json_pack(
      "{s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:s}",
      "model", o->model, "batch", (json_int_t)r->batch, "parameters", (json_int_t)r->parameters, "steps",
      (json_int_t)r->steps, "seconds", r->seconds, "step_seconds_median", r->step_seconds_median, "loss",
      r->loss, "accuracy", r->accuracy, "test_accuracy",
      r->test_accuracy >= 0 ? json_real(r->test_accuracy) : json_null(), "planner",
      m->planner != NULL ? m->planner : "", "budget_bytes", (json_int_t)m->budget, "planned_peak_bytes",
      (json_int_t)m->planned_peak, "measured_peak_bytes", (json_int_t)m->measured_peak, "resident_bytes",
      (json_int_t)m->resident, "arena_bytes", (json_int_t)m->arena, "process_overhead_bytes",
      (json_int_t)r->process_overhead_bytes, "rss_growth_bytes", (json_int_t)r->rss_growth_bytes, "cost",
      m->cost, "base_cost", m->base_cost, "weights_sha256", r->weights_sha256);
}

static int report_over_budget(const neap_train_options *o, const neap_train_result *r, bool json) {
  fprintf(stderr, "neap: the budget cannot be met.\n  The smallest that can: %s (--budget %llu)\n",
          bytes_text(r->smallest_budget), (unsigned long long)r->smallest_budget);
  if (r->largest_batch > 0)
    fprintf(stderr, "  The largest batch that fits it: --batch %lld\n", (long long)r->largest_batch);
  else
    fputs("  No batch fits it.\n", stderr);
  if (json)
    print_json(json_pack("{s:s, s:b, s:I, s:I}", "model", o->model, "feasible", 0, "smallest_budget_bytes",
                         (json_int_t)r->smallest_budget, "largest_batch", (json_int_t)r->largest_batch));
  return EXIT_OVER_BUDGET;
}

int run_train(const struct verb *verb, const char *const *values, const char *const *operands,
              int operand_count) {
  if (operand_count > 0) return usage_error(verb, "there is no use for '%s'", operands[0]);
  neap_train_options options = {0};
  if (!read_train_options(verb, values, &options)) return EXIT_USAGE;
  struct display display = {.options = &options, .terminal = isatty(STDERR_FILENO)};
  options.progress = show_progress;
  options.context = &display;
  struct sigaction action = {.sa_handler = on_interrupt,
                             .sa_flags = (int)SA_RESETHAND}; /* a second one ends at once */
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  neap_train_result result = {0};
  const neap_status status = neap_train(&options, &result);
  const bool json = has(verb, values, "--json");
  if (status == NEAP_OVER_BUDGET) return report_over_budget(&options, &result, json);
  if (status != NEAP_OK && status != NEAP_INTERRUPTED) return report_failure(status);
  if (status == NEAP_INTERRUPTED) {
    fprintf(stderr, "\nneap: %s\n", neap_error_message());
    if (options.out != NULL) fprintf(stderr, "Go on with --resume %s\n", options.out);
  } else {
    print_summary(&result);
  }
  if (json && print_json(result_json(&options, &result)) != EXIT_DONE) return EXIT_FAILED;
  return status == NEAP_INTERRUPTED ? EXIT_INTERRUPTED : EXIT_DONE;
}
