/* The options of `neap train`, and of a run that is gone on with. */
#include "train_settings.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPTION(name, value, help, kind, field, least)                                                        \
  { name, value, help, kind, offsetof(struct train_settings, field), least, 0 }
#define PART(name, help, field)                                                                              \
  { name, "X", help, OPTION_NUMBER, offsetof(struct train_settings, field), 0, 1 }
const struct option train_options[] = {
    OPTION("--model", "NAME", "a ready-made model, one of `neap models`", OPTION_TEXT, model, 0),
    OPTION("--data", "SET", "cifar10:DIR, mnist:DIR, text:FILE, tokens:FILE or synthetic", OPTION_TEXT, data,
           0),
    OPTION("--budget", "B", "bytes: 96MiB, 0.5GB, 100663296, 80%, min or max (max)", OPTION_BUDGET, budget,
           0),
    OPTION("--process-budget", "B", "bytes that the whole process may take, code and data too", OPTION_BUDGET,
           process_budget, 0),
    OPTION("--batch", "N", "images or sequences a step (the model's usual)", OPTION_INTEGER, batch, 1),
    OPTION("--micro-batch", "N|auto",
           "images of a micro-batch, several of which make a step; auto: the most that fit (the batch)",
           OPTION_OR_WORD, micro_batch, 1),
    OPTION("--image", "CxHxW", "of the data; what synthetic draws (the model's usual)", OPTION_IMAGE, image,
           0),
    OPTION("--classes", "N", "at least those of the data; what synthetic draws (the model's usual)",
           OPTION_INTEGER, classes, 1),
    OPTION("--length", "N", "of sequences (the model's usual)", OPTION_INTEGER, length, 1),
    OPTION("--window", "N", "of a transformer's attention: a token sees so many (0: all)", OPTION_INTEGER,
           window, 0),
    OPTION("--dropout", "X", "of networks of sequences (0)", OPTION_NUMBER, dropout, 0),
    OPTION("--steps", "N", "how long to train, in steps", OPTION_INTEGER, steps, 1),
    OPTION("--epochs", "N", "or in passes over the data (1)", OPTION_INTEGER, epochs, 1),
    OPTION("--lr", "X", "learning rate (SGD 0.1, Lion 0.0001, others 0.001)", OPTION_NUMBER, learning_rate,
           0),
    OPTION("--schedule", "constant|step|cosine|inverse-sqrt", "of the learning rate (cosine)", OPTION_WORD,
           schedule, 0),
    OPTION("--warmup", "EPOCHS", "rising learning rate at first (0)", OPTION_NUMBER, warmup, 0),
    OPTION("--warmup-steps", "N", "the same in steps", OPTION_INTEGER, warmup_steps, 0),
    OPTION("--step-epochs", "EPOCHS", "of the step schedule (a third of the run)", OPTION_NUMBER, step_epochs,
           0),
    OPTION("--step-factor", "X", "of the step schedule (0.1)", OPTION_NUMBER, step_factor, 0),
    OPTION("--optimizer", OPTIMIZER_WORDS, "update rule (sgd)", OPTION_WORD, optimizer, 0),
    PART("--momentum", "of SGD (0.9) and RMSprop (0)", momentum),
    OPTION("--nesterov", NULL, "Nesterov's momentum", OPTION_SWITCH, nesterov, 0),
    OPTION("--weight-decay", "X", "(SGD 0.0005, AdamW and Lion 0.01, others 0)", OPTION_NUMBER, weight_decay,
           0),
    PART("--beta1", "of Adam, AdamW and Lion (0.9)", beta1),
    PART("--beta2", "of Adam and AdamW (0.999), RMSprop and Lion (0.99)", beta2),
    OPTION("--epsilon", "X", "of Adam, AdamW and RMSprop (1e-8)", OPTION_NUMBER, epsilon, 0),
    OPTION("--clip-value", "X", "cut gradients to [-X, X] (0: not)", OPTION_NUMBER, clip_value, 0),
    OPTION("--clip-norm", "X", "scale all gradients down to this norm (0: not); all of them live at once",
           OPTION_NUMBER, clip_norm, 0),
    OPTION("--label-smoothing", "X",
           "share of the label given to all classes, in the training loss alone (0)", OPTION_NUMBER,
           smoothing, 0),
    OPTION("--shuffle", "on|off", "a new order each epoch (on)", OPTION_WORD, shuffle, 0),
    OPTION("--augment", "on|off", "random crops and flips where the data has them (on)", OPTION_WORD, augment,
           0),
    OPTION("--evaluate", "on|off", "test accuracy after each epoch and the last step (on)", OPTION_WORD,
           evaluate, 0),
    OPTION("--seed", "N", "of parameters, order and augmentation (1)", OPTION_INTEGER, seed, 0),
    OPTION("--init", "FILE.safetensors", "parameters to start from", OPTION_TEXT, initial, 0),
    OPTION("--out", "DIR", "write checkpoints here", OPTION_TEXT, out, 0),
    OPTION("--force", NULL, "replace the run that is in --out, and the --metrics that are there",
           OPTION_SWITCH, force, 0),
    OPTION("--resume", "DIR", "go on from a checkpoint, with its options", OPTION_TEXT, resume, 0),
    OPTION("--checkpoint-every", "STEPS", "besides the end of each epoch", OPTION_INTEGER, checkpoint_steps,
           1),
    OPTION("--keep-epochs", "N", "weights of the last epochs' ends that stay in --out, for --average (0)",
           OPTION_INTEGER, keep_epochs, 0),
    OPTION("--metrics", "FILE", "a JSON line a step", OPTION_TEXT, metrics, 0),
    OPTION("--planner", "P", "auto, or one of `neap planners` (auto)", OPTION_TEXT, planner, 0),
    TIME_LIMIT_OPTION(struct train_settings, time_limit),
    OPTION("--plan", "PLAN.json", "replay a saved plan", OPTION_TEXT, plan, 0),
    OPTION("--save-plan", "PLAN.json", "write the plan that is used", OPTION_TEXT, save_plan, 0),
    OPTION("--conv", "auto|direct|winograd", "algorithm of convolutions (auto, by shape)", OPTION_WORD,
           convolution, 0),
    OPTION("--backend", "cpu|reference", "fast f32, or plain C in double (cpu)", OPTION_WORD, backend, 0),
    OPTION("--costs", "roofline|measured", "what plans are compared by (roofline)", OPTION_WORD, costs, 0),
    OPTION("--variant", "auto|base|mask",
           "what ReLU keeps: its output, or bits where they do (auto, by plan; --plan has its own)",
           OPTION_WORD, variant, 0),
    OPTION("--allow", ALLOW_VALUES, "techniques to choose from; the first combination that fits is taken",
           OPTION_TEXT, allow, 0),
    OPTION("--prefer", "fidelity|time",
           "of --allow: the first that fits, or the one that costs least (fidelity)", OPTION_WORD, prefer, 0),
    OPTION("--precision", PRECISION_WORDS,
           "storage of values, parameters and optimizer states; arithmetic is in f32 (f32)", OPTION_WORD,
           precision, 0),
    OPTION("--master", NULL, "parameters and optimizer states in f32 beside values of 16 bits", OPTION_SWITCH,
           master, 0),
    OPTION("--loss-scale", "X|dynamic",
           "gradients are larger by it until the update; dynamic: as large as fits (1024 with f16, else 1)",
           OPTION_NUMBER, loss_scale, 0),
    {"--sparse", "DENSITY", "the share of their values that sparse parameters keep (dense)", OPTION_NUMBER,
     offsetof(struct train_settings, sparse), LEAST_DENSITY, 1},
    OPTION("--sparse-layers", "PATTERN", SPARSE_LAYERS_HELP, OPTION_TEXT, sparse_layers, 0),
    OPTION("--rewire-every", "N|off",
           "steps until small sparse values first change places; more rarely later (100)", OPTION_OR_WORD,
           rewire_every, 1),
    OPTION("--save-sparse", NULL, "sparse parameters are values and indices in --out (dense tensors)",
           OPTION_SWITCH, save_sparse, 0),
    OPTION("--threads", "N", "fixed for a run (all cores)", OPTION_INT, threads, 1),
    OPTION("--json", NULL, "one JSON object on standard output", OPTION_SWITCH, json, 0),
    {0},
};
_Static_assert(sizeof train_options / sizeof *train_options <= TRAIN_OPTION_LIMIT,
               "raise TRAIN_OPTION_LIMIT");

static const struct train_settings defaults = {.budget = {.text = "max", .bytes = NEAP_BUDGET_MAX},
                                               .learning_rate = NAN,
                                               .schedule = NEAP_LR_COSINE,
                                               .momentum = NAN,
                                               .weight_decay = NAN,
                                               .planner = "auto",
                                               .seed = 1};

/* ---- Going on: the options of a run lie beside its checkpoint ---- */

enum { COMMAND_VERSION = 1 };
static const char command_format[] = "neap-command";

/* Options of the one run that are not those of its continuation. */
static bool belongs_to_run(const char *name) {
  static const char *const once[] = {"--json", "--init", "--out", "--resume", "--save-plan", "--force"};
  for (size_t i = 0; i < sizeof once / sizeof *once; i++)
    if (strcmp(name, once[i]) == 0) return false;
  return true;
}

/* Where a path leads from here, wherever it is read later. The caller frees it. */
static char *from_anywhere(const char *before, size_t length, const char *path) {
  char *text = NULL, *here = path[0] == '/' ? NULL : getcwd(NULL, 0);
  const bool far = path[0] == '/' || here == NULL;
  if (asprintf(&text, "%.*s%s%s%s", (int)length, before, far ? "" : here, far ? "" : "/", path) < 0)
    text = NULL;
  free(here);
  return text;
}

/* An option's value as it is kept: a run may be gone on with from another folder. */
static json_t *kept_value(const char *name, const char *given) {
  const size_t source = strcspn(given, ":");
  char *text = NULL;
  if (strcmp(name, "--metrics") == 0 || strcmp(name, "--plan") == 0)
    text = from_anywhere("", 0, given);
  else if (strcmp(name, "--data") == 0 && given[source] == ':' && access(given + source + 1, F_OK) == 0)
    text = from_anywhere(given, source + 1, given + source + 1);
  json_t *value = json_string(text != NULL ? text : given);
  free(text);
  return value;
}

/* The threads with them, given or not: a run that goes on with others has other bits. */
char *train_command(const char *const *texts) {
  char threads[16];
  snprintf(threads, sizeof threads, "%d", omp_get_num_procs());
  json_t *options = json_object();
  bool whole = json_object_set_new(options, "--threads", json_string(threads)) == 0;
  for (int i = 0; train_options[i].name != NULL; i++)
    if (texts[i] != NULL && belongs_to_run(train_options[i].name))
      whole = json_object_set_new(options, train_options[i].name,
                                  kept_value(train_options[i].name, texts[i])) == 0 &&
              whole;
  json_t *command =
      json_pack("{s:s, s:i, s:o}", "format", command_format, "version", COMMAND_VERSION, "options", options);
  char *text = whole && command != NULL ? json_dumps(command, JSON_INDENT(2)) : NULL;
  if (text == NULL) fputs("neap: the options cannot be kept: they are not UTF-8, or memory is out\n", stderr);
  json_decref(command);
  return text;
}

/* What is wrong with a command, as a whole; NULL: nothing. */
static const char *fault_of(const json_t *command, const json_error_t *error) {
  const char *format = json_string_value(json_object_get(command, "format"));
  const json_t *version = json_object_get(command, "version");
  if (command == NULL) return error->text;
  if (format == NULL || strcmp(format, command_format) != 0) return "field 'format': must be 'neap-command'";
  if (!json_is_integer(version) || json_integer_value(version) != COMMAND_VERSION)
    return "field 'version': this program reads version 1";
  return json_is_object(json_object_get(command, "options"))
             ? NULL
             : "field 'options': must be an object of strings";
}

/* The options of a command, as arguments "--name=value" into `list`. */
static int list_options(const char *folder, const char *text, char **list, int *count) {
  json_error_t error;
  json_t *command = json_loads(text, JSON_REJECT_DUPLICATES, &error);
  json_t *options = json_object_get(command, "options"), *value;
  const char *name, *fault = fault_of(command, &error);
  int result = fault == NULL ? EXIT_DONE : EXIT_FAILED;
  json_object_foreach(options, name, value) {
    const char *given = json_string_value(value);
    if (result != EXIT_DONE || given == NULL || *count == TRAIN_OPTION_LIMIT ||
        asprintf(&list[*count], given[0] != '\0' ? "%s=%s" : "%s", name, given) < 0) {
      result = EXIT_FAILED;
      break;
    }
    ++*count;
  }
  if (result != EXIT_DONE)
    fprintf(stderr, "neap: %s/command.json: %s\n", folder,
            fault != NULL ? fault : "field 'options': must be an object of strings");
  json_decref(command);
  return result;
}

/* None where only their file is missing: a checkpoint can have been written by a program of its own. */
static int load_command(const char *folder, char **list, int *count) {
  char *text = NULL;
  *count = 0;
  if (neap_checkpoint_command(folder, &text) != NEAP_OK) {
    fprintf(stderr, "neap: --resume %s: no run can be continued from there: %s\n", folder,
            neap_error_message());
    return EXIT_FAILED;
  }
  const int result = text != NULL ? list_options(folder, text, list, count) : EXIT_DONE;
  free(text);
  return result;
}

static int read_settings(const struct verb *verb, int count, char **arguments, struct train_settings *s,
                         const char **texts, char **stored, int *stored_count) {
  struct operands operands;
  *s = defaults;
  if (!read_arguments(verb, count, arguments, s, &operands, NULL)) return EXIT_USAGE;
  if (operands.count > 0) return report_usage(verb, "%s: there is no use for it", operands.values[0]);
  const bool length_given = s->steps > 0 || s->epochs > 0;
  if (s->resume != NULL) {
    const int loaded = load_command(s->resume, stored, stored_count);
    if (loaded != EXIT_DONE) return loaded;
  }
  *s = defaults;
  if (!read_arguments(verb, *stored_count, stored, s, &operands, texts)) return EXIT_FAILED;
  if (length_given) {
    s->steps = s->epochs = 0;
    for (int i = 0; train_options[i].name != NULL; i++)
      if (strcmp(train_options[i].name, "--steps") == 0 || strcmp(train_options[i].name, "--epochs") == 0)
        texts[i] = NULL;
  }
  return read_arguments(verb, count, arguments, s, &operands, texts) ? EXIT_DONE : EXIT_USAGE;
}

/* ---- Checks and defaults ---- */

/* What belongs to one choice would be passed over beside another. A run that goes on has had its say. */
static int refuse_useless(const struct verb *verb, const struct train_settings *s, const char *const *texts) {
  static const struct {
    const char *option, *choice;
    size_t field;
    unsigned values; /* a bit each */
  } belongs[] = {
      {"--momentum", "--optimizer sgd or rmsprop", offsetof(struct train_settings, optimizer),
       1 << NEAP_SGD | 1 << NEAP_RMSPROP},
      {"--nesterov", "--optimizer sgd", offsetof(struct train_settings, optimizer), 1 << NEAP_SGD},
      {"--beta1", "--optimizer adamw, adam or lion", offsetof(struct train_settings, optimizer),
       1 << NEAP_ADAMW | 1 << NEAP_ADAM | 1 << NEAP_LION},
      {"--beta2", "--optimizer adamw, adam, rmsprop or lion", offsetof(struct train_settings, optimizer),
       1 << NEAP_ADAMW | 1 << NEAP_ADAM | 1 << NEAP_RMSPROP | 1 << NEAP_LION},
      {"--epsilon", "--optimizer adamw, adam or rmsprop", offsetof(struct train_settings, optimizer),
       1 << NEAP_ADAMW | 1 << NEAP_ADAM | 1 << NEAP_RMSPROP},
      {"--step-epochs", "--schedule step", offsetof(struct train_settings, schedule), 1 << NEAP_LR_STEP},
      {"--step-factor", "--schedule step", offsetof(struct train_settings, schedule), 1 << NEAP_LR_STEP},
  };
  for (int i = 0; train_options[i].name != NULL; i++)
    for (size_t k = 0; k < sizeof belongs / sizeof *belongs; k++)
      if (texts[i] != NULL && strcmp(train_options[i].name, belongs[k].option) == 0 &&
          (belongs[k].values >> *(const int *)((const char *)s + belongs[k].field) & 1) == 0)
        return report_usage(verb, "%s is of %s, and has no use here", belongs[k].option, belongs[k].choice);
  return EXIT_DONE;
}

static neap_model_options train_shape(const struct train_settings *s) {
  return (neap_model_options){.batch = s->batch,
                              .image = {s->image[0], s->image[1], s->image[2]},
                              .classes = s->classes,
                              .smoothing = (float)s->smoothing,
                              .length = s->length,
                              .window = s->window,
                              .dropout = (float)s->dropout};
}

static int complete_settings(const struct verb *verb, struct train_settings *s, const char *const *texts) {
  if (s->resume != NULL && (s->model == NULL || s->data == NULL))
    return report_usage(verb,
                        "--resume %s: the run's options (command.json) are not there; give --model, --data "
                        "and all others again",
                        s->resume);
  if (s->model == NULL) return report_usage(verb, "--model is missing");
  if (s->data == NULL) return report_usage(verb, "--data is missing");
  if (s->steps > 0 && s->epochs > 0) return report_usage(verb, "--steps and --epochs: give one of them");
  if (s->resume != NULL && s->initial != NULL)
    return report_usage(verb, "--resume and --init: give one of them");
  /* A run that goes on has its options, and may be given a plan for what they led to. */
  if (s->resume == NULL && s->plan != NULL && (strcmp(s->planner, "auto") != 0 || s->time_limit > 0))
    return report_usage(verb, "--plan %s: nothing is planned, so that --planner and --time-limit have no use",
                        s->plan);
  if (s->allow != NULL && (s->precision != 0 || s->micro_batch != 0 || s->sparse != 0))
    return report_usage(verb, "--allow %s chooses: --precision, --micro-batch and --sparse have no use",
                        s->allow);
  if (s->allow != NULL && !read_allowed(verb, s->allow, &s->allowed, &s->sparse)) return EXIT_USAGE;
  if (s->sparse == 0 && (s->sparse_layers != NULL || s->rewire_every != 0 || s->save_sparse))
    return report_usage(verb, "%s goes with --sparse",
                        s->sparse_layers != NULL ? "--sparse-layers"
                        : s->rewire_every != 0   ? "--rewire-every"
                                                 : "--save-sparse");
  if (s->save_sparse && s->out == NULL && s->resume == NULL)
    return report_usage(verb, "--save-sparse needs a folder: --out DIR");
  if (s->checkpoint_steps > 0 && s->out == NULL && s->resume == NULL)
    return report_usage(verb, "--checkpoint-every needs a folder: --out DIR");
  if (s->keep_epochs > 0 && s->out == NULL && s->resume == NULL)
    return report_usage(verb, "--keep-epochs needs a folder: --out DIR");
  if (s->resume == NULL && refuse_useless(verb, s, texts) != EXIT_DONE) return EXIT_USAGE;
  if (!planner_exists(s->planner))
    return report_usage(verb, "--planner %s: there is no such planner; see `neap planners`", s->planner);
  tell_budget(&s->budget);
  if (s->process_budget.text != NULL && (s->budget.bytes != NEAP_BUDGET_MAX || s->budget.fraction > 0))
    return report_usage(verb, "--budget %s and --process-budget %s: give one of them", s->budget.text,
                        s->process_budget.text);
  if (s->process_budget.text != NULL &&
      (s->process_budget.fraction > 0 || s->process_budget.bytes == NEAP_BUDGET_MIN ||
       s->process_budget.bytes == NEAP_BUDGET_MAX))
    return report_usage(verb, "--process-budget %s: a number of bytes is needed", s->process_budget.text);
  tell_budget(&s->process_budget);
  static const struct {
    double learning_rate, weight_decay, momentum;
  } usual[] = {[NEAP_SGD] = {0.1, 0.0005, 0.9},
               [NEAP_ADAMW] = {0.001, 0.01, 0.9}, /* no momentum of its own: as checkpoints of 0.1 have it */
               [NEAP_ADAM] = {0.001, 0, 0},
               [NEAP_RMSPROP] = {0.001, 0, 0},
               [NEAP_LION] = {0.0001, 0.01, 0}};
  if (isnan(s->learning_rate)) s->learning_rate = usual[s->optimizer].learning_rate;
  if (isnan(s->weight_decay)) s->weight_decay = usual[s->optimizer].weight_decay;
  if (isnan(s->momentum)) s->momentum = usual[s->optimizer].momentum;
  if (s->out == NULL) s->out = s->resume;
  const neap_model_options shape = train_shape(s);
  neap_graph *graph;
  const neap_status status = neap_model_build(s->model, &shape, &graph);
  if (status == NEAP_INVALID_ARGUMENT)
    return report_usage(verb, "--model %s: %s", s->model, neap_error_message());
  if (status != NEAP_OK) return report_failure(verb, status);
  s->batch = neap_graph_batch(graph);
  neap_graph_free(graph);
  return EXIT_DONE;
}

int read_train_settings(const struct verb *verb, int count, char **arguments, struct train_arguments *a) {
  *a = (struct train_arguments){0};
  const int result =
      read_settings(verb, count, arguments, &a->settings, a->texts, a->stored, &a->stored_count);
  return result == EXIT_DONE ? complete_settings(verb, &a->settings, a->texts) : result;
}

static bool train_has(const char *name) {
  for (int i = 0; train_options[i].name != NULL; i++)
    if (strcmp(train_options[i].name, name) == 0) return true;
  return false;
}

/* As it is given to `neap train --resume FOLDER`. */
int read_run_settings(const struct verb *verb, const char *folder, const char *const *texts,
                      struct train_arguments *run) {
  const struct verb as_train = {.name = verb->name, .options = train_options};
  char *list[TRAIN_OPTION_LIMIT] = {0};
  int count = 0, result = EXIT_DONE;
  *run = (struct train_arguments){0};
  bool whole = asprintf(&list[count], "--resume=%s", folder) >= 0;
  if (whole) count++;
  for (int i = 0; whole && texts != NULL && verb->options[i].name != NULL; i++) {
    const struct option *option = &verb->options[i];
    if (texts[i] == NULL || option->kind == OPTION_SWITCH || !train_has(option->name)) continue;
    whole = asprintf(&list[count], "%s=%s", option->name, texts[i]) >= 0;
    if (whole) count++;
  }
  if (whole)
    result = read_train_settings(&as_train, count, list, run);
  else
    result = report_failure(&as_train, no_memory());
  memcpy(run->owned, list, (size_t)count * sizeof *list); /* settings point to them */
  return result;
}

void free_train_settings(struct train_arguments *a) {
  for (int i = 0; i < a->stored_count; i++) free(a->stored[i]);
  for (int i = 0; i < TRAIN_OPTION_LIMIT; i++) free(a->owned[i]);
}

neap_train_options train_library_options(const struct train_settings *s) {
  return (neap_train_options){
      .model = s->model,
      .data = s->data,
      .shape = train_shape(s),
      .session = {.budget = s->budget.bytes,
                  .budget_fraction = s->budget.fraction,
                  .process_budget = s->process_budget.bytes,
                  .planner = s->planner,
                  .plan_file = s->plan,
                  .plan_seconds = s->time_limit,
                  .optimizer = (neap_optimizer)s->optimizer,
                  .momentum = (float)s->momentum,
                  .weight_decay = (float)s->weight_decay,
                  .nesterov = s->nesterov,
                  .clip_value = (float)s->clip_value,
                  .clip_norm = (float)s->clip_norm,
                  .beta1 = (float)s->beta1,
                  .beta2 = (float)s->beta2,
                  .epsilon = (float)s->epsilon,
                  .convolution = (neap_convolution)s->convolution,
                  .backend = (neap_backend)s->backend,
                  .costs = (neap_costs)s->costs,
                  .variant = (neap_variant)s->variant,
                  .threads = s->threads,
                  .seed = (uint64_t)s->seed,
                  .precision = precision_dtype(s->precision),
                  .master = s->master,
                  .loss_scale = s->loss_scale > 0 ? (float)s->loss_scale : 0,
                  .dynamic_loss_scale = s->loss_scale < 0,
                  .sparse_density = s->sparse,
                  .sparse_layers = s->sparse_layers,
                  .save_sparse = s->save_sparse},
      .micro_batch = s->micro_batch,
      .allow = s->allowed,
      .allow_by_time = s->prefer == 1,
      .rewire_every = s->rewire_every,
      .steps = s->steps,
      .epochs = s->epochs,
      .learning_rate = s->learning_rate,
      .schedule = (neap_schedule_kind)s->schedule,
      .warmup_epochs = s->warmup,
      .warmup_steps = s->warmup_steps,
      .step_epochs = s->step_epochs,
      .step_factor = s->step_factor,
      .no_shuffle = s->shuffle != 0,
      .no_augment = s->augment != 0,
      .no_evaluation = s->evaluate != 0,
      .out = s->out,
      .resume = s->resume,
      .checkpoint_steps = s->checkpoint_steps,
      .keep_epochs = s->keep_epochs,
      .initial = s->initial,
      .metrics = s->metrics,
      .save_plan = s->save_plan,
      .replace = s->force,
  };
}
