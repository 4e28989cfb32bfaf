/* neap plan */
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "shared/affordable.h"
#include "shared/answer.h"
#include "shared/failure.h"
#include "shared/format.h"
#include "shared/pipeline.h"
#include "shared/processes.h"
#include "shared/profile.h"
#include "shared/source.h"
#include "shared/suggest.h"
#include "shared/techniques.h"
#include "shared/watch.h"
#include "shared/ways.h"
#include "verbs/verbs.h"

struct settings {
  struct arguments a;
  const char *out;
  bool profile;
  int32_t processes, pipeline;
  uint64_t bandwidth; /* bytes in a second */
  double latency;     /* seconds of an exchange; negative: not given */
  int64_t try_steps;  /* 0: not given */
  neap_collective ranks;
};

enum { MOST_PROCESSES = 4096, MOST_STAGES = 64, USUAL_BANDWIDTH = 125000000 };
static const double usual_latency = 1e-4;

const neap_setting plan_options[] = {
    {"profile", .help = "show how each technique (of --allow) changes a model's memory, by kind of bytes",
     .kind = NEAP_SETTING_SWITCH, .offset = offsetof(struct settings, profile)},
    OWN_OPTION(struct settings, "processes", "N", "1",
               "plan for one of N processes that train together: bytes, and seconds including exchanges", INT,
               processes, .least = 1, .below = MOST_PROCESSES + 1),
    OWN_OPTION(struct settings, "pipeline", "P", "1",
               "compare ways to divide the model among P ranks of a pipeline: seconds, bubble, bytes of each",
               INT, pipeline, .least = 1, .below = MOST_STAGES + 1),
    OWN_OPTION(struct settings, "bandwidth", "B", "125MB, a network of 1 Gbit/s",
               "bytes per second that a process sends, while it receives as many", BYTES, bandwidth,
               .least = 1),
    OWN_OPTION(struct settings, "latency", "SECONDS", "0.0001", "time of an exchange without its bytes",
               NUMBER, latency),
    OWN_OPTION(
        struct settings, "try", "STEPS", NULL,
        "for a language model from a file: train STEPS steps by each way on --data, and compare the losses",
        INTEGER, try_steps, .least = 1, .below = 1000000000.0),
    {"o", "PLAN.json", .help = "write the plan", .kind = NEAP_SETTING_TEXT,
     .offset = offsetof(struct settings, out), .flags = NEAP_SETTING_PATH},
    {0},
};

/* ---- For people ---- */

static void print_heading(const neap_step *step, uint64_t budget) {
  neap_step_info info;
  neap_step_describe(step, &info);
  printf("%s: %d nodes, %d tensors, %s resident\n", name_text(info.name).text, info.nodes, info.tensors,
         bytes_text(info.resident_bytes).text);
  if (budget != NEAP_BUDGET_MAX && budget != NEAP_BUDGET_MIN)
    printf("budget %s (%llu bytes)\n", bytes_text(budget).text, (unsigned long long)budget);
  else
    printf("budget %s\n",
           budget == NEAP_BUDGET_MAX ? "max: everything is kept" : "min: the smallest that can be met");
  printf("\n%-16s %12s %12s %10s %11s %10s\n", "planner", "peak", "arena", "overhead", "recomputed",
         "planned in");
}

static void print_row(const struct plan_answer *answer) {
  if (answer->plan == NULL && answer->smallest == 0) {
    printf("%-16s has no plan for this graph: it accepts %s\n", answer->planner,
           planner_graphs(answer->planner));
    return;
  }
  if (answer->plan == NULL) {
    printf("%-16s does not fit; its smallest budget: %s (%llu)\n", answer->planner,
           bytes_text(answer->smallest).text, (unsigned long long)answer->smallest);
    return;
  }
  neap_plan_info p;
  neap_plan_describe(answer->plan, &p);
  const bool automatic = strcmp(answer->planner, "auto") == 0; /* then who made it is news */
  printf("%-16s %12s %12s %10s %11lld %10s\n", automatic ? p.planner : answer->planner,
         bytes_text(plan_bytes(answer->plan)).text, bytes_text(p.arena_bytes).text,
         overhead_text(p.cost, p.base_cost).text, (long long)p.recomputed, duration_text(p.seconds).text);
}

static void print_details(const neap_plan *plan, const neap_step *step) {
  neap_plan_info p;
  neap_step_info info;
  neap_check_result check;
  neap_plan_describe(plan, &p);
  neap_step_describe(step, &info);
  if (neap_plan_check(step, plan, &check) == NEAP_OK) print_transfers(&check);
  if (strcmp(p.graph, info.name) != 0) printf("\nthe plan is for the variant %s\n", name_text(p.graph).text);
  printf("\nno plan needs less than %s\n", bytes_text(p.lower_bound_bytes).text);
  if (p.proven_optimal)
    printf("no plan costs less than this one\n");
  else if (p.cost_lower_bound > 0)
    printf("at most %s above the cost of the best plan within the budget\n",
           percent_text(p.cost / p.cost_lower_bound - 1).text);
}

/* ---- One planner, or all ---- */

/* Reports a least budget's cost if it is much, and a budget that would cost less: on standard error and, if
 * there is an object, in it. */
static void tell_cost_of_least(const struct settings *s, const neap_step *step, const neap_plan *plan,
                               json_t *object) {
  neap_plan_info p;
  neap_plan_describe(plan, &p);
  const bool much = costs_too_much(p.cost, p.base_cost);
  const uint64_t budget = much ? affordable_budget(step, s->a.options.session.planner, half_more) : 0;
  if (much) tell_affordable(p.cost, p.base_cost, budget);
  if (object != NULL)
    json_object_set_new(object, "affordable_budget_bytes",
                        budget > 0 ? json_integer((json_int_t)budget) : json_null());
}

/* ---- Several processes ---- */

/* One of them, as training divides a batch; no engine is needed to plan. */
static int divide(const struct verb *verb, struct settings *s) {
  if (s->pipeline > 1 && s->processes > 1 && s->processes % s->pipeline != 0)
    return report_usage(verb, "--processes %d: must be a multiple of --pipeline %d", (int)s->processes,
                        (int)s->pipeline);
  if (s->pipeline > 1 && (s->out != NULL || s->profile || given_text(&s->a, "allow") != NULL ||
                          given_text(&s->a, "planner") != NULL || given_text(&s->a, "time-limit") != NULL))
    return report_usage(
        verb, "--pipeline has ways of its own: leave out -o, --allow, --profile, --planner and --time-limit");
  if (s->pipeline > 1 && s->a.options.total_budget > 0)
    return report_usage(verb,
                        "--total-budget: a pipeline's ranks have one each; give --budget, that of a rank");
  if (s->profile && s->a.options.total_budget > 0)
    return report_usage(verb, "--profile chooses its own budgets: --total-budget %s has no effect",
                        given_text(&s->a, "total-budget"));
  if (s->processes <= 1 && s->pipeline <= 1 && (s->bandwidth > 0 || s->latency >= 0))
    return report_usage(verb, "--bandwidth and --latency do nothing without --processes N or --pipeline P");
  if (s->bandwidth == 0) s->bandwidth = USUAL_BANDWIDTH;
  if (s->latency < 0) s->latency = usual_latency;
  if (s->processes <= 1 || s->pipeline > 1) return EXIT_DONE;
  if (s->profile || given_text(&s->a, "allow") != NULL || strcmp(s->a.options.session.planner, "all") == 0)
    return report_usage(
        verb, "--processes %d: plans one step by one planner; leave out --allow, --profile and --planner all",
        (int)s->processes);
  if (s->a.options.model == NULL && !neap_model_names_file(s->a.operands.values[0]))
    return report_usage(verb, "--processes %d needs --model: a step file describes one process",
                        (int)s->processes);
  s->ranks = (neap_collective){.size = s->processes};
  s->a.options.session.collective = &s->ranks;
  return EXIT_DONE;
}

/* Reports the time of a step of all processes, by the plan of one: on standard output, or in the object. */
static void tell_processes(const struct settings *s, const neap_exchanges *exchanges, const neap_plan *plan,
                           json_t *object) {
  const neap_train_options *o = &s->a.options;
  neap_plan_info p;
  if (s->processes <= 1) return;
  neap_plan_describe(plan, &p);
  const int64_t parts = o->shape.batch / o->micro_batch;
  const double computing = p.cost * (double)(parts / s->processes), alone = p.cost * (double)parts,
               exchanging = (double)exchanges->sent_bytes / (double)s->bandwidth +
                            (double)exchanges->calls * s->latency;
  if (object != NULL) {
    json_object_update_new(object,
                           json_pack("{s:i, s:I, s:I, s:I, s:f, s:f, s:f}", "processes", (int)s->processes,
                                     "micro_batch", (json_int_t)o->micro_batch, "sent_bytes_per_step",
                                     (json_int_t)exchanges->sent_bytes, "exchanges_per_step",
                                     (json_int_t)exchanges->calls, "exchange_seconds_per_step", exchanging,
                                     "step_seconds", computing + exchanging, "step_seconds_alone", alone));
    return;
  }
  printf("\neach of %d processes: %lld of %lld micro-batches of %lld; it sends %s a step in %lld exchanges\n",
         (int)s->processes, (long long)(parts / s->processes), (long long)parts, (long long)o->micro_batch,
         bytes_text(exchanges->sent_bytes).text, (long long)exchanges->calls);
  printf(
      "a step: %s of computing; %s/s and %g ms an exchange give %s of exchanges; one process computes %s\n",
      duration_text(computing).text, bytes_text(s->bandwidth).text, 1e3 * s->latency,
      duration_text(exchanging).text, duration_text(alone).text);
}

static int plan_one(const struct verb *verb, const struct settings *s, const neap_step *step,
                    uint64_t budget) {
  struct plan_answer answer;
  struct watch *watch = watch_begin(s->a.options.session.plan_seconds, 0);
  neap_exchanges exchanges = {0};
  neap_status status = answer_ask(&s->a.options, step, budget, s->a.options.session.planner,
                                  s->a.options.session.plan_seconds, watch, NULL, &answer);
  watch_end(watch);
  if (status == NEAP_OK && answer.plan != NULL && s->processes > 1) {
    status = source_exchanges(&s->a.options, answer.plan, &exchanges);
    if (status != NEAP_OK) neap_plan_free(answer.plan);
  }
  if (status != NEAP_OK) return report_failure(verb, status);
  if (answer.plan == NULL) return answer_explain(&answer, &s->a, step, budget);
  int result = EXIT_DONE;
  json_t *object = s->a.json ? answer_json(&answer, step, budget) : NULL;
  if (budget == NEAP_BUDGET_MIN) tell_cost_of_least(s, step, answer.plan, object);
  if (object != NULL) tell_processes(s, &exchanges, answer.plan, object);
  if (s->out != NULL && neap_plan_write(answer.plan, s->out) != NEAP_OK) {
    result = report_failure(verb, NEAP_IO_FAILED);
    json_decref(object);
  } else if (s->a.json) {
    result = print_json(object);
  } else if (s->out != standard_output) {
    print_heading(step, budget);
    print_row(&answer);
    print_details(answer.plan, step);
    tell_processes(s, &exchanges, answer.plan, NULL);
  }
  neap_plan_free(answer.plan);
  return result;
}

static int plan_all(const struct verb *verb, const struct settings *s, const neap_step *step,
                    uint64_t budget) {
  json_t *plans = json_array();
  neap_row row;
  bool met = false, whole = true;
  if (!s->a.json) print_heading(step, budget);
  for (int32_t i = 0; neap_planner_at(i, &row); i++) {
    struct plan_answer answer;
    struct watch *watch = watch_begin(s->a.options.session.plan_seconds, 0);
    const neap_status status = answer_ask(&s->a.options, step, budget, row.name,
                                          s->a.options.session.plan_seconds, watch, NULL, &answer);
    watch_end(watch); /* before the row takes its place */
    if (status != NEAP_OK) {
      json_decref(plans);
      return report_failure(verb, status);
    }
    met = met || answer.plan != NULL;
    if (s->a.json)
      whole = json_array_append_new(plans, answer_json(&answer, step, budget)) == 0 && whole;
    else
      print_row(&answer);
    neap_plan_free(answer.plan);
  }
  const int printed = s->a.json ? print_json(whole ? json_pack("{s:O}", "plans", plans) : NULL) : EXIT_DONE;
  json_decref(plans);
  return printed != EXIT_DONE ? printed : met ? EXIT_DONE : EXIT_OVER_BUDGET;
}

/* ---- Techniques ---- */

static json_t *combination_json(const neap_combination *c) {
  return json_pack("{s:s, s:I, s:b, s:I, s:o, s:o}", "combination", c->name, "micro_batch",
                   (json_int_t)c->micro_batch, "feasible", c->fits, "peak_bytes", (json_int_t)c->peak_bytes,
                   "cost", c->fits ? json_real(c->cost) : json_null(), "overhead",
                   c->fits ? json_real(c->overhead) : json_null());
}

static json_t *combinations_json(const neap_combination *list, int count, int best) {
  json_t *combinations = json_array();
  for (int i = 0; i < count; i++) json_array_append_new(combinations, combination_json(&list[i]));
  return json_pack("{s:o, s:o}", "combination", best >= 0 ? json_string(list[best].name) : json_null(),
                   "combinations", combinations);
}

static void print_combinations(const neap_combination *list, int count, int best) {
  printf("%-24s %12s %14s %16s\n", "combination", "peak", "recomputation", "cost of a step");
  for (int i = 0; i < count; i++) {
    if (list[i].fits)
      printf("%-24s %12s %14s %13.2f ms%s\n", list[i].name, bytes_text(list[i].peak_bytes).text,
             percent_text(list[i].overhead).text, 1e3 * list[i].cost, i == best ? "  taken" : "");
    else
      printf("%-24s does not fit; its smallest budget: %s (%llu)\n", list[i].name,
             bytes_text(list[i].peak_bytes).text, (unsigned long long)list[i].peak_bytes);
  }
}

static int plan_combinations(const struct verb *verb, struct settings *s) {
  neap_combination list[NEAP_COMBINATIONS];
  int count;
  const char *allow = given_text(&s->a, "allow");
  neap_train_options source = s->a.options;
  if (source.model == NULL) return report_usage(verb, "--allow %s needs --model", allow);
  if (s->out != NULL) return report_usage(verb, "-o %s: writes one plan, but --allow makes several", s->out);
  const int checked = check_use(verb, &s->a);
  if (checked != EXIT_DONE) return checked;
  source.opened = s->a.options.opened;
  neap_train_options_resolve(&source);
  neap_status status = source.shape.batch == 0 ? source_usual_batch(&source) : NEAP_OK;
  if (status == NEAP_OK) status = source_combinations(&source, list, &count);
  if (status != NEAP_OK) return report_failure(verb, status);
  const neap_session_options *session = &source.session;
  const int best = neap_best_combination(list, count,
                                         session->budget == NEAP_BUDGET_MIN && session->budget_fraction <= 0
                                             ? NEAP_PREFER_MEMORY
                                         : source.allow_by_time ? NEAP_PREFER_TIME
                                                                : NEAP_PREFER_FIDELITY);
  if (!s->a.json) {
    print_combinations(list, count, best);
  } else if (print_json(combinations_json(list, count, best)) != EXIT_DONE) {
    return EXIT_FAILED;
  }
  return best >= 0 ? EXIT_DONE : EXIT_OVER_BUDGET;
}

static int plan_profile(const struct verb *verb, struct settings *s) {
  struct techniques techniques;
  const char *budget = given_text(&s->a, "budget");
  const int32_t allow = neap_setting_find("allow");
  const bool usual = s->a.given[allow] == NULL;
  if (s->out != NULL)
    return report_usage(verb, "-o %s: writes one plan, but --profile makes several", s->out);
  if (budget != NULL && strcmp(budget, "max") != 0)
    return report_usage(verb, "--profile chooses its own budgets: --budget %s has no effect", budget);
  if (usual && set_setting(&s->a, allow, ALLOW_ALL) != NEAP_OK) return report_failure(verb, NEAP_INTERNAL);
  const int opened = techniques_open(verb, &s->a, &techniques);
  techniques.usual = usual;
  return opened == EXIT_DONE ? profile_techniques(verb, &techniques, s->a.json) : opened;
}

/* Returns whether the table of ways is asked for: neither another table, nor one plan. */
static bool is_about_ways(const struct settings *s) {
  return s->out == NULL && !s->profile && s->processes <= 1 && s->a.operands.count == 0 &&
         strcmp(s->a.options.session.planner, "all") != 0 && asks_for_ways(&s->a);
}

/* Opens the model, if one is named. */
static int open_named(const struct verb *verb, struct settings *s) {
  const char *name = s->a.options.model;
  if (name != NULL && check_model_name(verb, name) != EXIT_DONE) return EXIT_USAGE;
  return open_model(verb, &s->a.options);
}

int run_plan(const struct verb *verb, int count, char **arguments) {
  struct settings s = {.latency = -1};
  if (!read_arguments(verb, count, arguments, &s, &s.a)) return EXIT_USAGE;
  const struct operands *operands = &s.a.operands;
  if (check_output(verb, s.out, s.a.json) != EXIT_DONE) return EXIT_USAGE;
  const char *planner = s.a.options.session.planner;
  const bool all = strcmp(planner, "all") == 0;
  if (!all && !planner_exists(planner))
    return report_usage(verb, "--planner %s: unknown planner; see `neap planners`", planner);
  if (all && s.out != NULL) return report_usage(verb, "-o %s: writes one plan; name one planner", s.out);
  if (all && (s.profile || given_text(&s.a, "allow") != NULL))
    return report_usage(verb, "--planner all: compares plans of one step; leave out --allow and --profile");
  s.a.options.session.budget = tell_budget(given_text(&s.a, "budget"), s.a.options.session.budget);
  tell_budget(given_text(&s.a, "total-budget"), s.a.options.total_budget);
  if (divide(verb, &s) != EXIT_DONE) return EXIT_USAGE;
  int result = divide_budget(verb, &s.a);
  if (result == EXIT_DONE) result = take_model_file(verb, &s.a);
  if (result != EXIT_DONE) return result;
  if (s.pipeline > 1 && s.a.options.model == NULL)
    return report_usage(verb, "--pipeline %d goes with --model", (int)s.pipeline);
  if (s.pipeline > 1) {
    const struct grid grid = {.stages = s.pipeline,
                              .pipelines = s.processes > s.pipeline ? s.processes / s.pipeline : 1};
    return plan_pipeline(verb, &s.a, grid, (double)s.bandwidth, s.latency);
  }
  result = open_named(verb, &s);
  if (result != EXIT_DONE) return result;
  if (is_about_ways(&s)) return plan_ways(verb, &s.a, s.try_steps);
  if (check_ways_alone(verb, &s.a, s.try_steps) != EXIT_DONE) return EXIT_USAGE;
  if (s.profile) return plan_profile(verb, &s);
  if (given_text(&s.a, "allow") != NULL) return plan_combinations(verb, &s);
  neap_step *step;
  result = source_open(verb, &s.a, operands->values[0], &step);
  if (result != EXIT_DONE) return result;
  uint64_t budget;
  const neap_status status = source_budget(step, &s.a.options, &budget);
  if (status != NEAP_OK)
    result = report_failure(verb, status);
  else
    result = all ? plan_all(verb, &s, step, budget) : plan_one(verb, &s, step, budget);
  neap_step_free(step);
  return result;
}
