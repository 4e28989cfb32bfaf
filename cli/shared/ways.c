/* neap plan, of a language model of a file: the ways to fine-tune it, what memory and time each needs, and
 * which to take within a budget. From the header of the file alone. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/affordable.h"
#include "shared/failure.h"
#include "shared/format.h"
#include "shared/run_settings.h"
#include "shared/source.h"
#include "shared/threads.h"
#include "shared/tries.h"
#include "shared/watch.h"
#include "shared/ways.h"

enum { OWN = 3 /* settings of a way */ };

/* A way: settings beside those that were given. */
static const struct way_row {
  const char *name;
  struct {
    const char *name, *value; /* value "": a switch */
  } settings[OWN];            /* the first names the way; name NULL: none */
  bool full;
  bool other;     /* it is another training, or wears out a disk: it is taken if the user says so */
  double penalty; /* on its seconds, for weights that are not those of the file; see take_best */
} rows[WAYS] = {
    {"full", {{0}}, .full = true, .other = true, .penalty = 1},
    {"lora", {{0}}, .penalty = 1},
    {"lora + q8_0", {{"base", "q8_0"}}, .penalty = 1.1},
    {"lora + nf4", {{"base", "nf4"}}, .penalty = 1.1},
    {"lora on disk", {{"base-on-disk", "always"}}, .penalty = 1},
    {"full + states8", {{"states", "8bit"}}, .full = true, .other = true, .penalty = 1},
    {"full, apollo-mini", {{"optimizer", "apollo-mini"}}, .full = true, .other = true, .penalty = 1},
    {"lora, mezo", {{"mezo", ""}}, .other = true, .penalty = 1},
    {"side net", {{"side", "8"}}, .other = true, .penalty = 1},
#define ON_DISK                                                                                              \
  {"disk", "."}, { "disk-for", "states,weights" }
    {"full on disk", {ON_DISK}, .full = true, .other = true, .penalty = 1},
    {"full on disk + states8", {{"states", "8bit"}, ON_DISK}, .full = true, .other = true, .penalty = 1},
    {"full on disk, apollo-mini",
     {{"optimizer", "apollo-mini"}, ON_DISK},
     .full = true,
     .other = true,
     .penalty = 1},
};

/* ---- Whether the table is asked for ---- */

/* Settings that choose one way, or another question. */
static const char *const choosing[] = {"freeze", "store",  "base",          "base-on-disk",
                                       "allow",  "sparse", "sparse-layers", "time-limit",
                                       "side",   "mezo",   "disk"};

/* Returns the given option that asks for one plan instead of the table; NULL: none does. */
static const char *choosing_option(const struct arguments *a) {
  const neap_session_options *s = &a->options.session;
  for (size_t i = 0; i < sizeof choosing / sizeof *choosing; i++)
    if (given_text(a, choosing[i]) != NULL) return choosing[i];
  const bool bytes = s->budget_fraction <= 0 && s->budget != NEAP_BUDGET_MAX && s->budget != NEAP_BUDGET_MIN;
  return given_text(a, "budget") == NULL || bytes ? NULL : "budget";
}

bool asks_for_ways(const struct arguments *a) {
  return neap_model_is_language(a->options.opened) && choosing_option(a) == NULL;
}

/* Returns a usage error for an option of the table where one plan is made. */
static int refuse_alone(const struct verb *verb, const struct arguments *a, const char *option) {
  const char *chosen = neap_model_is_language(a->options.opened) ? choosing_option(a) : NULL;
  if (chosen == NULL)
    return report_usage(verb,
                        "--%s only applies to the table of ways to fine-tune a language model from a file: "
                        "`neap plan MODEL`",
                        option);
  return report_usage(
      verb, "--%s: only applies to the table of ways, but --%s %s asks for one plan; leave one of them out",
      option, chosen, given_text(a, chosen));
}

int check_ways_alone(const struct verb *verb, const struct arguments *a, int64_t steps) {
  static const char *const of_data[] = {"data", "template", "train-on-prompt", "long", "pack"};
  for (size_t i = 0; i < sizeof of_data / sizeof *of_data; i++)
    if (given_text(a, of_data[i]) != NULL) return refuse_alone(verb, a, of_data[i]);
  return steps > 0 ? refuse_alone(verb, a, "try") : EXIT_DONE;
}

/* ---- The sources of the ways ---- */

static neap_status set_by_name(struct arguments *a, const char *name, const char *text) {
  const int32_t index = neap_setting_find(name);
  return text == NULL ? NEAP_OK : index < 0 ? NEAP_INTERNAL : set_setting(a, index, text);
}

/* Returns true if a setting of the row was given, too: then the row is what the others are. */
static bool was_given(const struct way_row *row, const struct arguments *a) {
  for (int i = 0; i < OWN && row->settings[i].name != NULL; i++)
    if (given_text(a, row->settings[i].name) != NULL) return true;
  return false;
}

/* Gives the options of `neap finetune`, as it settles them, by one way; with --steps, if `steps` is not 0. */
static int settle_way(const struct verb *verb, const struct arguments *given, const struct way_row *row,
                      int64_t steps, neap_train_options *source) {
  struct arguments a = *given;
  char count[24];
  snprintf(count, sizeof count, "%lld", (long long)steps);
  neap_status status = steps > 0 ? set_by_name(&a, "steps", count) : NEAP_OK;
  if (status == NEAP_OK) status = row->full ? NEAP_OK : set_by_name(&a, "base-on-disk", "never");
  for (int i = 0; status == NEAP_OK && i < OWN && row->settings[i].name != NULL; i++)
    status = set_by_name(&a, row->settings[i].name, row->settings[i].value);
  if (status != NEAP_OK) return report_failure(verb, status);
  const int settled = settle_finetuning(verb, &a, row->full);
  if (settled != EXIT_DONE) return settled;
  if (row->full) {
    neap_session_options *session = &a.options.session;
    const neap_train_options usual = neap_train_options_usual();
    session->lora = usual.session.lora;
    session->lora_alpha = usual.session.lora_alpha;
    session->lora_dropout = usual.session.lora_dropout;
    session->lora_layers = usual.session.lora_layers;
  } else if (row == &rows[1]) {
    const int checked = check_use(verb, &a);
    if (checked != EXIT_DONE) return checked;
  }
  neap_train_options_resolve(&a.options);
  *source = a.options;
  return EXIT_DONE;
}

/* The shape of a step: that of the data, where they are given; else the model's usual one. */
static int settle_shape(const struct verb *verb, struct ways *w) {
  neap_train_options *lora = &w->list[1].source;
  neap_run_size size;
  neap_status status = NEAP_OK;
  if (lora->micro_batch == NEAP_MICRO_BATCH_AUTO) return check_micro_batch(verb, lora);
  if (lora->data != NULL) {
    neap_train_options run = *lora;
    run.session.budget = NEAP_BUDGET_MAX;
    status = neap_run_measure(&run, &size);
    if (status != NEAP_OK) return report_failure(verb, status);
    w->records = size.training_records;
    w->pass_steps = size.epoch_steps;
    lora->shape = size.shape;
    lora->shape.batch = size.batch;
  } else if (lora->shape.batch == 0) {
    status = source_usual_batch(lora);
  }
  if (status != NEAP_OK) return report_failure(verb, status);
  w->batch = lora->shape.batch;
  w->parts = lora->micro_batch > 0 ? w->batch / lora->micro_batch : 1;
  for (int i = 0; i < WAYS; i++) {
    const int64_t side = w->list[i].source.shape.side;
    w->list[i].source.shape = lora->shape;
    w->list[i].source.shape.side = side;
  }
  return check_micro_batch(verb, lora);
}

/* ---- Figures ---- */

/* Tokens of a sequence, by the bytes of the step's input; 0: it has none of that name. */
static int64_t tokens_of(const struct ways *w, const neap_step *step, int32_t tensors) {
  const char *name;
  uint64_t bytes;
  for (int32_t t = 0; t < tensors; t++)
    if (neap_step_tensor(step, t, &name, &bytes) == NEAP_OK && strcmp(name, "tokens") == 0)
      return (int64_t)(bytes / sizeof(int32_t)) / (w->batch / w->parts);
  return 0;
}

/* Divides the bytes of the plan's peak by kind. */
static neap_status divide_peak(struct way *way, const neap_plan *plan) {
  int64_t length;
  neap_plan_schedule(plan, &length);
  uint64_t *live = calloc((size_t)length * NEAP_KIND_COUNT + 1, sizeof *live), most = 0;
  if (live == NULL) return no_memory();
  const neap_status status = neap_plan_profile(way->step, plan, live);
  for (int64_t i = 0; status == NEAP_OK && i < length; i++) {
    const uint64_t *at = &live[i * NEAP_KIND_COUNT];
    uint64_t sum = 0;
    for (int k = 0; k < NEAP_KIND_COUNT; k++) sum += at[k];
    if (sum <= most) continue;
    most = sum;
    way->gradients = at[NEAP_KIND_GRADIENT];
    way->activations = sum - at[NEAP_KIND_GRADIENT] - at[NEAP_KIND_PARAMETER] - at[NEAP_KIND_STATE];
  }
  free(live);
  return status;
}

static void describe_found(const struct ways *w, uint64_t budget, const neap_plan *plan,
                           struct found *found) {
  neap_plan_info info;
  neap_plan_describe(plan, &info);
  *found = (struct found){
      .met = true, .budget = budget, .peak = plan_bytes(plan), .seconds = info.cost * (double)w->parts};
}

/* In a micro-batch's step, and in passes that are only forward, no node updates what is trained: the session
 * does that. */
static neap_status count_trained(const struct ways *w, struct way *way) {
  neap_train_options whole = way->source;
  neap_step *step;
  neap_step_info info;
  if (w->parts == 1 && !whole.session.mezo) return NEAP_OK;
  whole.session.mezo = false;
  whole.micro_batch = 0;
  whole.shape.batch = w->batch / w->parts;
  const neap_status status = source_step(&whole, &step);
  if (status != NEAP_OK) return status;
  neap_step_describe(step, &info);
  way->info.trained_bytes = info.trained_bytes;
  neap_step_free(step);
  return NEAP_OK;
}

/* The step, and the plan that keeps everything: at once. A way that the model does not have says why. */
static neap_status sum_up(struct ways *w, struct way *way) {
  if (was_given(&rows[way - w->list], w->a)) {
    snprintf(way->why, sizeof way->why, "%s is given to all rows", rows[way - w->list].settings[0].name);
    return NEAP_OK;
  }
  const neap_plan_options keep_all = {.planner = "keep-all"};
  neap_plan *plan;
  neap_plan_info info;
  const neap_status status = source_plan_alone(&way->source, NEAP_BUDGET_MAX, &keep_all, &way->step, &plan);
  const bool refused = rows[way - w->list].other && status == NEAP_INVALID_ARGUMENT;
  if (status == NEAP_UNSUPPORTED || refused) {
    snprintf(way->why, sizeof way->why, "%s", library_message());
    return NEAP_OK;
  }
  if (status != NEAP_OK) return status;
  neap_step_describe(way->step, &way->info);
  neap_plan_describe(plan, &info);
  way->bound = info.lower_bound_bytes;
  describe_found(w, plan_bytes(plan), plan, &way->fastest);
  if (w->length == 0) w->length = tokens_of(w, way->step, way->info.tensors);
  const neap_status divided = divide_peak(way, plan);
  neap_plan_free(plan);
  return divided == NEAP_OK ? count_trained(w, way) : divided;
}

/* The plan that a run within the budget makes. */
static neap_status find_within(struct ways *w, struct way *way, uint64_t budget, struct found *found) {
  neap_step *step;
  neap_plan *plan;
  const neap_status status = watch_plan_alone(w->watch, &way->source, way->step, budget, &step, &plan);
  if (status == NEAP_OVER_BUDGET) return NEAP_OK;
  if (status != NEAP_OK) return status;
  describe_found(w, budget, plan, found);
  neap_plan_free(plan);
  neap_step_free(step);
  return NEAP_OK;
}

/* The least budget that a chain's planner finds at once, and what a run makes of it. That another planner
 * does not meet it to the byte would be no more than a few percent. */
static neap_status find_least(struct ways *w, struct way *way) {
  enum { TRIES = 5, SHARE = 64 };
  uint64_t budget = affordable_budget(way->step, way->source.session.planner, INFINITY);
  for (int i = 0; budget > 0 && !way->least.met && i < TRIES; i++, budget += budget / SHARE) {
    const neap_status status = find_within(w, way, budget, &way->least);
    if (status != NEAP_OK) return status;
  }
  if (!way->least.met) way->least = way->fastest;
  return NEAP_OK;
}

/* A way before this one whose plans are its plans, but for what is resident; or NULL. */
static const struct way *find_alike(const struct ways *w, const struct way *way) {
  for (const struct way *other = w->list; other < way; other++)
    if (neap_step_is_alike(other->step, way->step)) return other;
  return NULL;
}

/* Resident bytes lie apart from the arena, whose plan is the other's. */
static void take_least(struct way *way, const struct way *other) {
  const uint64_t more = way->info.resident_bytes - other->info.resident_bytes; /* modulo 2^64 */
  way->least = other->least;
  way->least.budget += more;
  way->least.peak += more;
}

static neap_status find_plans(struct ways *w, struct way *way) {
  const struct way *other = find_alike(w, way);
  neap_status status = NEAP_OK;
  if (other != NULL)
    take_least(way, other);
  else
    status = find_least(w, way);
  return status == NEAP_OK && w->budget >= way->least.budget ? find_within(w, way, w->budget, &way->within)
                                                             : status;
}

/* The fastest of those that fit. Weights that are not the file's must save a tenth of the time. What trains
 * all weights is never taken for somebody: it makes another kind of run. */
static int take_best(const struct ways *w) {
  int best = -1;
  for (int i = 0; i < WAYS; i++) {
    const struct way *way = &w->list[i];
    if (rows[i].other || !way->within.met) continue;
    if (best < 0 || way->within.seconds * rows[i].penalty < w->list[best].within.seconds * rows[best].penalty)
      best = i;
  }
  return best >= 0 || !w->list[0].within.met ? best : 0;
}

/* ---- What to type ---- */

static void put_word(FILE *file, const char *word) {
  const bool plain = word[0] != '\0' && word[strcspn(word, " \t\n\"'\\$`!*?[](){}<>|&;#~")] == '\0';
  if (plain) {
    fputs(word, file);
    return;
  }
  fputc('\'', file);
  for (; *word != '\0'; word++)
    if (*word == '\'')
      fputs("'\\''", file);
    else
      fputc(*word, file);
  fputc('\'', file);
}

/* The settings that were given, but for model, data and budget, and for adapters where `full` is true. */
static void put_given(FILE *file, const struct arguments *a, bool full) {
  static const char *const placed[] = {"model", "data", "budget", "total-budget"};
  neap_setting setting;
  for (int32_t i = 0; neap_setting_at(i, &setting); i++) {
    bool skip = a->given[i] == NULL || (full && strncmp(setting.name, "lora", 4) == 0);
    for (size_t k = 0; k < sizeof placed / sizeof *placed; k++)
      skip = skip || strcmp(setting.name, placed[k]) == 0;
    if (skip) continue;
    fprintf(file, " --%s", setting.name);
    if (setting.kind == NEAP_SETTING_SWITCH) continue;
    fputc(' ', file);
    put_word(file, a->given[i]);
  }
}

static void put_row(FILE *file, const struct way_row *row) {
  if (row->full) fputs(" --full", file);
  for (int i = 0; i < OWN && row->settings[i].name != NULL; i++)
    fprintf(file, " --%s%s%s", row->settings[i].name, row->settings[i].value[0] != '\0' ? " " : "",
            row->settings[i].value);
}

/* `neap finetune` with what was given, and the way. The caller frees it; NULL: out of memory. */
static char *command_of(const struct ways *w, int way, uint64_t budget) {
  char *text = NULL;
  size_t length;
  FILE *file = open_memstream(&text, &length);
  if (file == NULL) return NULL;
  fputs("neap finetune ", file);
  put_word(file, w->a->options.model);
  fputs(" --data ", file);
  put_word(file, w->a->options.data != NULL ? w->a->options.data : "DATA");
  put_given(file, w->a, rows[way].full);
  put_row(file, &rows[way]);
  fprintf(file, " --budget %llu --out mine", (unsigned long long)budget);
  if (fclose(file) == 0) return text;
  free(text);
  return NULL;
}

/* ---- For people ---- */

static void print_sums(const struct ways *w) {
  const neap_session_options *session = &w->list[1].source.session;
  printf("%s: %lld %s", name_text(w->a->options.model).text, (long long)w->batch,
         w->length > 0 ? "sequences" : "records");
  if (w->length > 0) printf(" of %lld tokens", (long long)w->length);
  printf(" a step");
  if (w->parts > 1) printf(" in %lld parts", (long long)w->parts);
  printf(", adapters of rank %d\n", (int)session->lora);
  if (w->pass_steps > 0)
    printf("data: %lld records, %lld steps an epoch\n", (long long)w->records, (long long)w->pass_steps);
  printf("\nbytes when everything is kept\n\n%-25s %10s %10s %10s %10s %12s %12s\n", "way", "weights",
         "trained", "states", "gradients", "activations", "in all");
  for (int i = 0; i < WAYS; i++) {
    const struct way *way = &w->list[i];
    if (way->step == NULL)
      printf("%-25s is impossible: %s\n", w->list[i].name, way->why);
    else
      printf("%-25s %10s %10s %10s %10s %12s %12s\n", w->list[i].name,
             bytes_text(way->info.parameter_bytes).text, bytes_text(way->info.trained_bytes).text,
             bytes_text(way->info.state_bytes).text, bytes_text(way->gradients).text,
             bytes_text(way->activations).text, bytes_text(way->fastest.peak).text);
  }
  fflush(stdout);
}

static void print_found(const struct ways *w, uint64_t bytes, const struct found *found) {
  printf(" %12s %12s", bytes_text(bytes).text, duration_text(found->seconds).text);
  if (w->pass_steps > 0) printf(" %12s", duration_text(found->seconds * (double)w->pass_steps).text);
}

static void print_columns(const struct ways *w, const char *name) {
  printf(" %12s %12s", name, "a step");
  if (w->pass_steps > 0) printf(" %12s", "a pass");
}

static void print_table(const struct ways *w) {
  char within[64];
  printf("\n%-25s", "way");
  print_columns(w, "at least");
  print_columns(w, "fastest");
  snprintf(within, sizeof within, "in %s", bytes_text(w->budget).text);
  if (w->budget > 0) print_columns(w, within);
  putchar('\n');
  for (int i = 0; i < WAYS; i++) {
    const struct way *way = &w->list[i];
    if (way->step == NULL) continue;
    printf("%-25s", w->list[i].name);
    print_found(w, way->least.budget, &way->least);
    print_found(w, way->fastest.peak, &way->fastest);
    if (way->within.met) print_found(w, way->within.peak, &way->within);
    if (w->budget > 0 && !way->within.met) printf(" %12s", "no");
    putchar('\n');
  }
  fflush(stdout);
}

/* Says which way of those that fit has the least loss, if it is not the one to take. */
static void print_least_loss(const struct ways *w, int best, int64_t steps, const struct try *tries) {
  int least = -1;
  for (int i = 0; i < WAYS; i++)
    if (w->list[i].within.met && tries[i].done && isfinite(try_loss(&tries[i])) &&
        (least < 0 || try_loss(&tries[i]) < try_loss(&tries[least])))
      least = i;
  if (least >= 0 && least != best)
    printf("\nof the ways that fit, %s has the least loss after %lld steps; the way below needs less time or "
           "bytes\n",
           w->list[least].name, (long long)steps);
}

static void print_advice(const struct ways *w, int best, const char *command) {
  if (best >= 0) {
    printf("\ntake %s:\n\n    %s\n", w->list[best].name, command);
  } else if (w->budget > 0) {
    printf("\nno way fits %s; a shorter context (--length) or a smaller micro-batch (--micro-batch 1) needs "
           "less\n",
           bytes_text(w->budget).text);
  } else {
    printf("\nnext, to see which of them fit this machine and the command to type:\n\n    neap plan ");
    put_word(stdout, w->a->options.model);
    if (w->a->options.data != NULL) {
      fputs(" --data ", stdout);
      put_word(stdout, w->a->options.data);
    }
    put_given(stdout, w->a, false);
    puts(" --budget available");
  }
}

/* ---- As JSON ---- */

static json_t *found_json(const struct ways *w, const struct found *found) {
  if (!found->met) return json_null();
  return json_pack("{s:I, s:I, s:f, s:o}", "budget_bytes", (json_int_t)found->budget, "peak_bytes",
                   (json_int_t)found->peak, "step_seconds", found->seconds, "pass_seconds",
                   w->pass_steps > 0 ? json_real(found->seconds * (double)w->pass_steps) : json_null());
}

static json_t *way_json(const struct ways *w, int i, const struct try *tries) {
  const struct way *way = &w->list[i];
  if (way->step == NULL)
    return json_pack("{s:s, s:b, s:s}", "way", w->list[i].name, "possible", 0, "reason", way->why);
  char *command = command_of(w, i, way->within.met ? w->budget : way->least.budget);
  json_t *row = json_pack(
      "{s:s, s:b, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "way", w->list[i].name, "possible",
      1, "command", command != NULL ? command : "", "weights_bytes", (json_int_t)way->info.parameter_bytes,
      "trained_bytes", (json_int_t)way->info.trained_bytes, "state_bytes", (json_int_t)way->info.state_bytes,
      "gradient_bytes", (json_int_t)way->gradients, "activation_bytes", (json_int_t)way->activations,
      "lower_bound_bytes", (json_int_t)way->bound, "least", found_json(w, &way->least), "fastest",
      found_json(w, &way->fastest), "fits", w->budget > 0 ? json_boolean(way->within.met) : json_null(),
      "within", found_json(w, &way->within));
  free(command);
  if (tries != NULL && json_object_set_new(row, "try", try_json(&tries[i])) != 0) {
    json_decref(row);
    return NULL;
  }
  return row;
}

static json_t *ways_json(const struct ways *w, int best, const char *command, const struct try *tries) {
  json_t *list = json_array();
  bool whole = list != NULL;
  for (int i = 0; i < WAYS; i++) whole = json_array_append_new(list, way_json(w, i, tries)) == 0 && whole;
  json_t *object =
      json_pack("{s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "model", w->a->options.model, "batch",
                (json_int_t)w->batch, "micro_batches", (json_int_t)w->parts, "length",
                w->length > 0 ? json_integer(w->length) : json_null(), "records",
                w->pass_steps > 0 ? json_integer(w->records) : json_null(), "steps_per_pass",
                w->pass_steps > 0 ? json_integer(w->pass_steps) : json_null(), "budget_bytes",
                w->budget > 0 ? json_integer((json_int_t)w->budget) : json_null(), "ways", list, "take",
                best >= 0 ? json_string(w->list[best].name) : json_null(), "command",
                best >= 0 ? json_string(command) : json_null());
  if (whole) return object;
  json_decref(object);
  return NULL;
}

/* ---- The whole ---- */

static int tell(struct ways *w, int64_t steps, const struct try *tries) {
  const int best = w->budget > 0 ? take_best(w) : -1;
  char *command = best >= 0 ? command_of(w, best, w->budget) : NULL;
  int result = best < 0 && w->budget > 0 ? EXIT_OVER_BUDGET : EXIT_DONE;
  if (best >= 0 && command == NULL) return report_failure(NULL, no_memory());
  if (w->a->json) {
    const int printed = print_json(ways_json(w, best, command, steps > 0 ? tries : NULL));
    if (printed != EXIT_DONE) result = printed;
  } else {
    if (steps > 0) print_tries(w, steps, tries);
    if (steps > 0 && best >= 0) print_least_loss(w, best, steps, tries);
    print_advice(w, best, command);
  }
  free(command);
  return result;
}

static neap_status find_figures(struct ways *w) {
  neap_status status = NEAP_OK;
  for (int i = 0; status == NEAP_OK && i < WAYS; i++) status = sum_up(w, &w->list[i]);
  if (status != NEAP_OK) return status;
  if (!w->a->json) print_sums(w);
  w->watch = watch_begin(0, 0);
  for (int i = 0; status == NEAP_OK && i < WAYS; i++)
    if (w->list[i].step != NULL) status = find_plans(w, &w->list[i]);
  watch_end(w->watch);
  return status;
}

int plan_ways(const struct verb *verb, const struct arguments *a, int64_t steps) {
  struct try tries[WAYS];
  if (steps > 0 && a->options.data == NULL) return report_usage(verb, "--try goes with --data");
  struct ways w = {.a = a, .budget = given_text(a, "budget") != NULL ? a->options.session.budget : 0};
  for (int i = 0; i < WAYS; i++) {
    w.list[i].name = rows[i].name;
    const int settled = settle_way(verb, a, &rows[i], steps, &w.list[i].source);
    if (settled != EXIT_DONE) return settled;
  }
  if (prepare_threads(a->options.session.threads) != EXIT_DONE) return EXIT_FAILED;
  int result = settle_shape(verb, &w);
  if (result != EXIT_DONE) return result;
  const neap_status status = find_figures(&w);
  result = status == NEAP_OK ? EXIT_DONE : report_failure(verb, status);
  if (result == EXIT_DONE && !a->json) print_table(&w);
  if (result == EXIT_DONE && steps > 0) result = try_ways(verb, &w, tries);
  if (result == EXIT_DONE) result = tell(&w, steps, tries);
  for (int i = 0; i < WAYS; i++) neap_step_free(w.list[i].step);
  return result;
}
