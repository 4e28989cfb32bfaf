#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/failure.h"
#include "shared/run_settings.h"
#include "shared/source.h"

/* ---- Going on: the settings of a run are kept with its checkpoint ---- */

enum { COMMAND_VERSION = 1 };
static const char command_format[] = "neap-command";

/* Returns `before` and `path` made absolute, so that it means the same in every folder. The caller frees
 * it. */
static char *from_anywhere(const char *before, size_t length, const char *path) {
  char *text = NULL, *here = path[0] == '/' ? NULL : getcwd(NULL, 0);
  const bool far = path[0] == '/' || here == NULL;
  if (asprintf(&text, "%.*s%s%s%s", (int)length, before, far ? "" : here, far ? "" : "/", path) < 0)
    text = NULL;
  free(here);
  return text;
}

/* Says so, and sets `*told` to false, where the system does not tell. */
static bool is_there(const char *path, size_t length, bool *told) {
  char *text = strndup(path, length);
  const bool there = text != NULL && length > 0 && access(text, F_OK) == 0;
  if (text != NULL && length > 0 && !there && errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG) {
    fprintf(stderr, "neap: %s: cannot be read: %s\n", text, strerror(errno));
    *told = false;
  }
  free(text);
  return there;
}

/* Returns the length of the path with which `text` begins: to its end, a comma or a colon; 0: nothing is
 * there. */
static size_t path_length(const char *text, bool *told) {
  for (size_t length = strlen(text); length > 0; length--) {
    const char after = text[length];
    if ((after == '\0' || after == ',' || after == ':') && is_there(text, length, told)) return length;
  }
  return 0;
}

/* The length of "test=" or "tokens=", whose values are paths, at the beginning; 0: another key. */
static size_t path_key(const char *text) {
  static const char *const keys[] = {"test=", "tokens="};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (strncmp(text, keys[i], strlen(keys[i])) == 0) return strlen(keys[i]);
  return 0;
}

/* "csv:FILE,test=FILE", "npy:FILE,FILE" or "FILE.jsonl,test=FILE", with each path that is there as one that
 * leads there from anywhere. NULL: out of memory. `told`: as is_there. */
static char *kept_source(const char *given, bool *told) {
  const size_t source = strcspn(given, ":");
  const char *from = given, *to = given[source] == ':' ? given + source + 1 : given;
  char *kept = NULL;
  for (bool first = true; *from != '\0'; first = false) {
    const size_t key = path_key(to), word = strspn(to, "abcdefghijklmnopqrstuvwxyz"),
                 length = first || key > 0 || to[word] != '=' ? path_length(to + key, told) : 0;
    char *path = length > 0 ? strndup(to + key, length) : NULL, *far = NULL, *longer = NULL;
    if (path != NULL) far = from_anywhere("", 0, path);
    const char *rest = to + key + length, *next = rest + strcspn(rest, ",") + (strchr(rest, ',') != NULL);
    const int written = asprintf(&longer, "%s%.*s%s%.*s", kept != NULL ? kept : "", (int)(to + key - from),
                                 from, far != NULL ? far : "", (int)(next - rest), rest);
    free(path);
    free(far);
    free(kept);
    if (written < 0) return NULL;
    kept = longer;
    from = to = next;
  }
  return kept;
}

/* Returns whether a text is one of the words that a row has beside a file: "balanced|FILE". */
static bool is_word(const neap_setting *setting, const char *text) {
  const size_t length = strlen(text);
  const char *words = setting->value;
  return words != NULL && strchr(words, '|') != NULL && strncmp(words, text, length) == 0 &&
         words[length] == '|';
}

/* A setting's text as it is kept: a run may be gone on with from another folder. `told`: as is_there. */
static json_t *kept_value(const neap_setting *setting, const char *given, bool *told) {
  const size_t source = strcspn(given, ":");
  char *text = NULL;
  if (setting->flags & NEAP_SETTING_PATH && !is_word(setting, given))
    text = from_anywhere("", 0, given);
  else if (setting->flags & NEAP_SETTING_SOURCE_PATH &&
           (given[source] == ':' || strstr(given, ".jsonl") != NULL))
    text = kept_source(given, told);
  else if (setting->flags & NEAP_SETTING_SOURCE_PATH && given[source] != ':' && neap_model_names_file(given))
    text = from_anywhere("", 0, given);
  json_t *value = json_string(text != NULL ? text : given);
  free(text);
  return value;
}

/* The threads with them, given or not: a run that goes on with others has other bits. "zeros": where 0 is the
 * usual value of a field, a 0 that was given is 0; without it, it is the usual value. */
char *run_command(const struct arguments *a) {
  const int runs_on = a->options.session.threads; /* which several processes divide; 0: all */
  char threads[16];
  snprintf(threads, sizeof threads, "%d", runs_on > 0 ? runs_on : omp_get_num_procs());
  json_t *options = json_object();
  bool whole = json_object_set_new(options, "--threads", json_string(threads)) == 0;
  bool told = true;
  neap_setting setting;
  for (int32_t i = 0; neap_setting_at(i, &setting); i++) {
    const bool off = setting.kind == NEAP_SETTING_SWITCH && a->given[i] != NULL && a->given[i][0] == 'f';
    if (a->given[i] != NULL && !off && !(setting.flags & NEAP_SETTING_ONE_RUN))
      whole = json_object_set_new(options, option_name(&setting).text,
                                  kept_value(&setting, a->given[i], &told)) == 0 &&
              whole;
  }
  json_t *command = json_pack("{s:s, s:i, s:b, s:o}", "format", command_format, "version", COMMAND_VERSION,
                              "zeros", 1, "options", options);
  char *text = whole && told && command != NULL ? json_dumps(command, JSON_INDENT(2)) : NULL;
  if (text == NULL && told)
    fputs("neap: cannot save the options: not valid UTF-8, or out of memory\n", stderr);
  json_decref(command);
  return text;
}

/* Returns the fault of a command as a whole; NULL: none. */
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

/* Returns whether a text of an older run means the usual value. */
static bool was_usual(const neap_setting *setting, const char *text) {
  char *end;
  return setting->flags & NEAP_SETTING_ZERO && strtod(text, &end) == 0 && *end == '\0';
}

/* Returns true if a path, of a file that may not exist yet, leads to a place in the folder. */
static bool lies_in(const char *folder, const char *path) {
  const char *slash = strrchr(path, '/');
  char *parent = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1),
       *place = parent != NULL ? realpath(parent, NULL) : NULL, *whole = realpath(folder, NULL);
  const size_t length = whole != NULL ? strlen(whole) : 0;
  const bool in = place != NULL && length > 0 && strncmp(place, whole, length) == 0 &&
                  (place[length] == '/' || place[length] == '\0');
  free(parent);
  free(place);
  free(whole);
  return in;
}

/* Returns true if a folder has an event file, or a file begins with a step, as a run writes them. */
static bool is_of_a_run(const char *path, bool folder) {
  char begin[9] = "";
  DIR *entries = folder ? opendir(path) : NULL;
  FILE *file = folder ? NULL : fopen(path, "re");
  bool found = file != NULL && fread(begin, 1, 8, file) == 8 && strcmp(begin, "{\"step\":") == 0;
  if (entries != NULL)
    for (const struct dirent *e = readdir(entries); e != NULL; e = readdir(entries))
      found = found || strncmp(e->d_name, "events.out.tfevents.", 20) == 0;
  if (entries != NULL) closedir(entries);
  if (file != NULL) fclose(file);
  return found;
}

/* Returns true if a run may go on to write where its command says: in its folder, or in what a run wrote. The
 * command of a folder that came from elsewhere could name any other file. */
static bool may_write(const char *folder, const char *path) {
  struct stat status;
  const bool there = lstat(path, &status) == 0;
  if (there && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) return false;
  return lies_in(folder, path) || (there && is_of_a_run(path, S_ISDIR(status.st_mode)));
}

/* Returns true if a setting goes with another one, which was given as "none". */
static bool is_left_out(const struct arguments *given, const neap_setting *setting) {
  const int32_t other = setting->with != NULL ? neap_setting_find(setting->with) : -1;
  return other >= 0 && given->given[other] != NULL && strcmp(given->given[other], "none") == 0;
}

/* One option of a command, where neither it nor what stands in its place was given. False after a message. */
static bool take_option(const struct verb *verb, const char *folder, const char *name, const char *text,
                        bool zeros, const struct arguments *given, struct arguments *a) {
  neap_setting setting;
  const int32_t index = strncmp(name, "--", 2) == 0 ? neap_setting_find(name + 2) : -1;
  const bool known = index >= 0 && neap_setting_at(index, &setting) && setting.verbs & NEAP_VERB_TRAIN;
  if (!known) {
    fprintf(stderr, "neap: %s/command.json: %s: unknown option\n", folder, name);
    return false;
  }
  const bool usual = !zeros && was_usual(&setting, text), rate = strcmp(setting.name, "lr") == 0;
  if (is_given(given, index) || is_left_out(given, &setting) || (usual && !rate)) return true;
  if (setting.flags & NEAP_SETTING_WRITES && verb->settings & setting.verbs && !may_write(folder, text)) {
    fprintf(
        stderr,
        "neap: %s/command.json: %s: %s lies outside of the run's folder and is not what a run wrote; give "
        "it again: %s %s\n",
        folder, name, text, name, text);
    return false;
  }
  const char *kept = keep_text(strdup(usual ? "0.1" : text)); /* that was so for any optimizer */
  const neap_status status = kept != NULL ? set_setting(a, index, kept) : no_memory();
  if (status == NEAP_OUT_OF_MEMORY) report_failure(NULL, status);
  if (status == NEAP_INVALID_ARGUMENT)
    fprintf(stderr, "neap: %s/command.json: --%s\n", folder, library_message());
  return status == NEAP_OK;
}

/* The options of a command, where no other ones were given. */
static int take_options(const struct verb *verb, const char *folder, const char *text, struct arguments *a) {
  const struct arguments given = *a;
  json_error_t error;
  json_t *command = json_loads(text, JSON_REJECT_DUPLICATES, &error);
  json_t *options = json_object_get(command, "options"), *value;
  const bool zeros = json_is_true(json_object_get(command, "zeros"));
  const char *name, *fault = fault_of(command, &error);
  bool taken = fault == NULL;
  if (fault == NULL) json_object_foreach(options, name, value) {
      if (!json_is_string(value)) fault = "field 'options': must be an object of strings";
      taken = fault == NULL && take_option(verb, folder, name, json_string_value(value), zeros, &given, a);
      if (!taken) break;
    }
  if (fault != NULL) fprintf(stderr, "neap: %s/command.json: %s\n", folder, fault);
  json_decref(command);
  return taken ? EXIT_DONE : EXIT_FAILED;
}

/* None where only their file is missing: a checkpoint can have been written by a program of its own. The
 * message names the folder as it was given: to `neap train` by an option, to the other verbs as an operand.
 */
static int take_command(const struct verb *verb, const char *folder, struct arguments *a) {
  char *text = NULL;
  if (neap_checkpoint_command(folder, &text) != NEAP_OK) {
    fprintf(stderr, "neap: %s%s: not the folder of a run: %s\n",
            strcmp(verb->name, "train") == 0 ? "--resume " : "", folder, library_message());
    return EXIT_FAILED;
  }
  const int result = text != NULL ? take_options(verb, folder, text, a) : EXIT_DONE;
  free(text);
  return result;
}

/* ---- Checks, and what is left open ---- */

static int check_needed(const struct verb *verb, const neap_train_options *o) {
  if (o->resume != NULL && (o->model == NULL || o->data == NULL))
    return report_usage(verb,
                        "--resume %s: the run's options (command.json) are missing; give --model, --data "
                        "and all others again",
                        o->resume);
  if (o->model == NULL) return report_usage(verb, "--model is missing");
  if (o->data == NULL) return report_usage(verb, "--data is missing");
  return EXIT_DONE;
}

/* The batch that the model has by itself. */
static int settle_batch(const struct verb *verb, neap_train_options *o) {
  neap_graph *graph;
  const neap_status status = neap_model_build(o->opened, &o->shape, &graph);
  if (status == NEAP_INVALID_ARGUMENT)
    return report_usage(verb, "--model %s: %s", o->model, library_message());
  if (status != NEAP_OK) return report_failure(verb, status);
  o->shape.batch = neap_graph_batch(graph);
  neap_graph_free(graph);
  return EXIT_DONE;
}

int complete_run(const struct verb *verb, struct arguments *a) {
  neap_train_options *o = &a->options;
  int result = o->resume != NULL ? take_command(verb, o->resume, a) : EXIT_DONE;
  if (result == EXIT_DONE) result = check_needed(verb, o);
  if (result == EXIT_DONE) result = check_use(verb, a);
  if (result != EXIT_DONE) return result;
  if (!planner_exists(o->session.planner))
    return report_usage(verb, "--planner %s: unknown planner; see `neap planners`", o->session.planner);
  tell_budget(given_text(a, "budget"), o->session.budget);
  tell_budget(given_text(a, "process-budget"), o->session.process_budget);
  tell_budget(given_text(a, "total-budget"), o->total_budget);
  neap_train_options_resolve(o);
  if (o->out == NULL) o->out = o->resume;
  return settle_batch(verb, o);
}

int read_run(const struct verb *verb, const char *folder, const struct arguments *given,
             struct arguments *run) {
  *run = (struct arguments){.options = neap_train_options_usual()};
  neap_setting setting;
  neap_status status = NEAP_OK;
  for (int32_t i = 0; status == NEAP_OK && given != NULL && neap_setting_at(i, &setting); i++)
    if (given->given[i] != NULL && setting.verbs & NEAP_VERB_TRAIN)
      status = set_setting(run, i, given->given[i]);
  if (status != NEAP_OK) return report_failure(verb, status);
  run->options.resume = folder;
  return complete_run(verb, run);
}

/* ---- Fine-tuning ---- */

/* The usual settings of a fine-tuning: a value, and settings that take its place. */
static const struct {
  const char *setting, *value, *unless[2];
  bool adapters; /* only where there are some */
} finetune_usual[] = {
    {"lora", "8", {"freeze", "side"}, true}, {"store", "*=file", {"freeze"}, true},
    {"optimizer", "adamw", {"mezo"}, false}, {"lr", "0.0002", {"mezo"}, false},
    {"schedule", "constant", {NULL}, false}, {"warmup", "0.03", {"warmup-steps", "steps"}, false}};

/* Returns true if an option says what adapters are like. */
static bool asks_for_adapters(const struct arguments *a) {
  static const char *const names[] = {"lora-layers", "lora-alpha", "lora-dropout", "lora-init",
                                      "rslora",      "dora",       "lora-plus"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (given_text(a, names[i]) != NULL) return true;
  return false;
}

int settle_finetuning(const struct verb *verb, struct arguments *a, bool full) {
  if (a->options.resume != NULL) return EXIT_DONE; /* what the run has */
  for (size_t i = 0; i < sizeof finetune_usual / sizeof *finetune_usual; i++) {
    bool given = given_text(a, finetune_usual[i].setting) != NULL || (full && finetune_usual[i].adapters);
    const bool asked = finetune_usual[i].adapters && asks_for_adapters(a);
    for (int k = 0; k < 2 && !asked && finetune_usual[i].unless[k] != NULL; k++)
      given = given || given_text(a, finetune_usual[i].unless[k]) != NULL;
    if (given) continue;
    const int32_t row = neap_setting_find(finetune_usual[i].setting);
    const neap_status status = row >= 0 ? set_setting(a, row, finetune_usual[i].value) : NEAP_INTERNAL;
    if (status != NEAP_OK) return report_failure(verb, status);
  }
  return EXIT_DONE;
}
