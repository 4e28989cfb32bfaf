/* neap show */
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pictures/page.h"
#include "pictures/svg.h"
#include "shared/answer.h"
#include "shared/failure.h"
#include "shared/format.h"
#include "shared/source.h"
#include "shared/watch.h"
#include "verbs/verbs.h"

struct settings {
  struct arguments a;
  const char *out;
};

const neap_setting show_options[] = {
    {"o", "FILE", .help = "draw memory over the step, by kind: .svg, or .html with the place of every tensor",
     .kind = NEAP_SETTING_TEXT, .offset = offsetof(struct settings, out), .flags = NEAP_SETTING_PATH},
    {0},
};

struct profile {
  const neap_step *step;
  const neap_plan *plan;
  const int32_t *schedule;
  uint64_t *live; /* [length][NEAP_KIND_COUNT] */
  bool *again;    /* [length]: the node has run before */
  int64_t length, peak_at;
  uint64_t peak, most[NEAP_KIND_COUNT];
  uint64_t budget; /* 0: none */
};

static uint64_t bytes_at(const struct profile *p, int64_t position) {
  uint64_t bytes = 0;
  for (int k = 0; k < NEAP_KIND_COUNT; k++) bytes += p->live[position * NEAP_KIND_COUNT + k];
  return bytes;
}

static neap_status find_repeats(struct profile *p) {
  neap_step_info info;
  neap_step_describe(p->step, &info);
  bool *ran = calloc((size_t)info.nodes + 1, sizeof *ran);
  if (ran == NULL) return no_memory();
  for (int64_t t = 0; t < p->length; t++) {
    p->again[t] = ran[p->schedule[t]];
    ran[p->schedule[t]] = true;
  }
  free(ran);
  return NEAP_OK;
}

static neap_status make_profile(struct profile *p) {
  p->schedule = neap_plan_schedule(p->plan, &p->length);
  p->live = calloc((size_t)p->length * NEAP_KIND_COUNT + 1, sizeof *p->live);
  p->again = calloc((size_t)p->length + 1, sizeof *p->again);
  if (p->live == NULL || p->again == NULL) return no_memory();
  const neap_status repeats = find_repeats(p);
  if (repeats != NEAP_OK) return repeats;
  const neap_status status = neap_plan_profile(p->step, p->plan, p->live);
  for (int64_t t = 0; status == NEAP_OK && t < p->length; t++) {
    if (bytes_at(p, t) > p->peak) p->peak = bytes_at(p, t), p->peak_at = t;
    for (int k = 0; k < NEAP_KIND_COUNT; k++)
      if (p->live[t * NEAP_KIND_COUNT + k] > p->most[k]) p->most[k] = p->live[t * NEAP_KIND_COUNT + k];
  }
  return status;
}

static void peak_node(const struct profile *p, const char **name, const char **op) {
  *name = *op = "";
  if (p->length > 0) neap_step_node(p->step, p->schedule[p->peak_at], name, op);
}

/* The peak is what the plan takes, with what its arena has of gaps where the most lives. */
static uint64_t gaps(const struct profile *p) { return plan_bytes(p->plan) - p->peak; }

static double share_of_peak(const struct profile *p, uint64_t bytes) {
  const uint64_t peak = plan_bytes(p->plan);
  return peak > 0 ? (double)bytes / (double)peak : 0;
}

static bool exceeds(const struct profile *p) { return p->budget > 0 && plan_bytes(p->plan) > p->budget; }

/* ---- Output ---- */

static void print_profile(const struct profile *p) {
  neap_plan_info info;
  const char *name, *op;
  neap_plan_describe(p->plan, &info);
  peak_node(p, &name, &op);
  printf("%s, planned by %s: %lld positions, of which %lld recompute (%s)\n", name_text(info.graph).text,
         name_text(info.planner).text, (long long)p->length, (long long)info.recomputed,
         overhead_text(info.cost, info.base_cost).text);
  printf("peak %s: %s resident and an arena of %s\n", bytes_text(plan_bytes(p->plan)).text,
         bytes_text(info.resident_bytes).text, bytes_text(info.arena_bytes).text);
  printf("most bytes live at position %lld, %s (%s): %s\n\n", (long long)p->peak_at, name_text(name).text,
         name_text(op).text, bytes_text(p->peak).text);
  printf("%-24s %14s %9s %18s\n", "kind", "at the peak", "share", "most at one time");
  for (int k = 0; k < NEAP_KIND_COUNT; k++) {
    const uint64_t bytes = p->length > 0 ? p->live[p->peak_at * NEAP_KIND_COUNT + k] : 0;
    printf("%-24s %14s %9s %18s\n", kind_names[k], bytes_text(bytes).text,
           percent_text(share_of_peak(p, bytes)).text, bytes_text(p->most[k]).text);
  }
  printf("%-24s %14s %9s\n", "gaps in the arena", bytes_text(gaps(p)).text,
         percent_text(share_of_peak(p, gaps(p))).text);
}

static json_t *profile_json(const struct profile *p) {
  const char *name, *op;
  peak_node(p, &name, &op);
  json_t *object = plan_json(p->plan, p->budget > 0 ? p->budget : NEAP_BUDGET_MAX, "auto");
  json_t *kinds = json_object();
  for (int k = 0; k < NEAP_KIND_COUNT; k++)
    json_object_set_new(kinds, kind_names[k],
                        json_pack("{s:I, s:I}", "at_peak_bytes",
                                  (json_int_t)(p->length > 0 ? p->live[p->peak_at * NEAP_KIND_COUNT + k] : 0),
                                  "most_bytes", (json_int_t)p->most[k]));
  json_t *more =
      json_pack("{s:I, s:I, s:b, s:I, s:s, s:s, s:I, s:o}", "live_bytes", (json_int_t)p->peak, "gap_bytes",
                (json_int_t)gaps(p), "within_budget", !exceeds(p), "peak_position", (json_int_t)p->peak_at,
                "peak_node", name, "peak_op", op, "positions", (json_int_t)p->length, "kinds", kinds);
  if (object != NULL) json_object_update(object, more);
  json_decref(more);
  return object;
}

static neap_status draw(const struct profile *p, const char *path, char **text, size_t *length) {
  const struct page page = {.step = p->step, .plan = p->plan, .budget = p->budget};
  if (has_ending(path, ".html")) return draw_page(&page, text, length);
  neap_plan_info info;
  neap_plan_describe(p->plan, &info);
  char title[160], subtitle[320];
  snprintf(title, sizeof title, "%s: memory over one training step", info.graph);
  snprintf(subtitle, sizeof subtitle, "planner %.60s, peak %s (gaps in the arena: %s), recomputation %s",
           info.planner, bytes_text(plan_bytes(p->plan)).text, bytes_text(gaps(p)).text,
           overhead_text(info.cost, info.base_cost).text);
  const struct memory_picture picture = {.title = title,
                                         .subtitle = subtitle,
                                         .live = p->live,
                                         .again = p->again,
                                         .positions = p->length,
                                         .bytes = plan_bytes(p->plan),
                                         .budget = p->budget};
  *text = draw_memory(&picture, length);
  return *text != NULL ? NEAP_OK : no_memory();
}

static int write_picture(const struct profile *p, const char *path) {
  char *text = NULL;
  size_t length = 0;
  int result = EXIT_FAILED;
  if (draw(p, path, &text, &length) == NEAP_OK)
    result = write_text_file(path, text, length);
  else
    fprintf(stderr, "neap: %s: out of memory\n", path);
  free(text);
  return result;
}

/* ---- The verb ---- */

/* `*chosen`: as source_plan has it. `answer`: without a plan where none fits the budget. */
static neap_status get_plan(const struct settings *s, const neap_step *step, const char *file,
                            neap_step **chosen, struct plan_answer *answer, uint64_t *budget) {
  const neap_status status = source_budget(step, &s->a.options, budget);
  if (status != NEAP_OK) return status;
  if (file != NULL) return source_read_plan(&s->a.options, step, file, chosen, &answer->plan);
  struct watch *watch = watch_begin(0, 0);
  const neap_status made = answer_ask(&s->a.options, step, *budget, "auto", 0, watch, chosen, answer);
  watch_end(watch);
  return made;
}

static int show(const struct verb *verb, const struct settings *s, const neap_step *step,
                const char *plan_file) {
  struct plan_answer answer = {.plan = NULL};
  neap_step *chosen = NULL;
  struct profile profile = {.step = step};
  neap_status status = get_plan(s, step, plan_file, &chosen, &answer, &profile.budget);
  if (status == NEAP_OK && answer.plan == NULL) return answer_explain(&answer, &s->a, step, profile.budget);
  if (chosen != NULL) profile.step = chosen;
  if (profile.budget == NEAP_BUDGET_MAX || profile.budget == NEAP_BUDGET_MIN) profile.budget = 0;
  profile.plan = answer.plan;
  if (status == NEAP_OK) status = make_profile(&profile);
  int result = EXIT_DONE;
  if (status != NEAP_OK) result = report_failure(verb, status);
  if (result == EXIT_DONE && exceeds(&profile))
    fprintf(stderr, "neap: the plan needs %s (%llu bytes), %s more than the budget of %s\n",
            bytes_text(plan_bytes(profile.plan)).text, (unsigned long long)plan_bytes(profile.plan),
            bytes_text(plan_bytes(profile.plan) - profile.budget).text, bytes_text(profile.budget).text);
  if (result == EXIT_DONE && s->out != NULL) result = write_picture(&profile, s->out);
  if (result == EXIT_DONE && s->a.json) result = print_json(profile_json(&profile));
  if (result == EXIT_DONE && !s->a.json) print_profile(&profile);
  free(profile.live);
  free(profile.again);
  neap_plan_free(answer.plan);
  neap_step_free(chosen);
  return result;
}

int run_show(const struct verb *verb, int count, char **arguments) {
  struct settings s = {0};
  if (!read_arguments(verb, count, arguments, &s, &s.a) || take_model_file(verb, &s.a) != EXIT_DONE)
    return EXIT_USAGE;
  const struct operands *operands = &s.a.operands;
  const bool model = s.a.options.model != NULL;
  const char *graph_file = model ? NULL : operands->values[0], *plan_file = operands->values[model ? 0 : 1];
  if (model && operands->count > 1)
    return report_usage(verb, "unexpected argument '%s'; with --model, the one file is PLAN.json",
                        operands->values[1]);
  if (s.out != NULL && !has_ending(s.out, ".svg") && !has_ending(s.out, ".html"))
    return report_usage(verb, "-o %s: the name must end in .svg or .html", s.out);
  if (check_output(verb, s.out, s.a.json) != EXIT_DONE) return EXIT_USAGE;
  s.a.options.session.budget = tell_budget(given_text(&s.a, "budget"), s.a.options.session.budget);
  neap_step *step;
  int result = source_open(verb, &s.a, graph_file, &step);
  if (result != EXIT_DONE) return result;
  result = show(verb, &s, step, plan_file);
  neap_step_free(step);
  return result;
}
