/* Arguments of a verb: settings, which are rows of the library, and options of its own. */
#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "neap_collective.h"
#include "shared/failure.h"
#include "shared/format.h"
#include "shared/options.h"
#include "shared/suggest.h"

const char standard_output[] = "/dev/stdout";

int check_output(const struct verb *verb, const char *out, bool json) {
  if (out != standard_output || !json) return EXIT_DONE;
  return report_usage(verb, "-o - and --json both write to standard output; give one of them");
}

uint64_t tell_budget(const char *text, uint64_t bytes) {
  const size_t length = text != NULL ? strlen(text) : 0;
  neap_available found;
  if (bytes == NEAP_BUDGET_AVAILABLE && neap_memory_available(&found) == NEAP_OK) {
    fprintf(stderr,
            "neap: --budget available: %s of the %s that %s has free; a tenth is left for other processes\n",
            bytes_text(found.bytes).text, bytes_text(found.free_bytes).text, found.limit);
    return found.bytes;
  }
  if (length < 2 || strchr("KMGTkmgt", text[length - 1]) == NULL) return bytes;
  const char unit = (char)toupper((unsigned char)text[length - 1]);
  fprintf(stderr, "neap: a budget of %s means %.*s %ciB (%llu bytes)\n", text, (int)length - 1, text, unit,
          (unsigned long long)bytes);
  return bytes;
}

void tell_smallest(const struct arguments *a, uint64_t smallest) {
  const struct neap_collective *c = a->options.session.collective;
  const bool total = given_text(a, "total-budget") != NULL;
  if (total && c != NULL && c->size > 1) smallest *= (uint64_t)c->size;
  const char *budget = given_text(a, "process-budget") != NULL              ? ": --process-budget"
                       : total                                              ? ": --total-budget"
                       : a->options.session.budget == NEAP_BUDGET_AVAILABLE ? ", for the whole process:"
                                                                            : ": --budget";
  fprintf(stderr, "  the smallest that can%s %llu (%s)\n", budget, (unsigned long long)smallest,
          bytes_text(smallest).text);
}

/* ---- Texts and models that settings point to ---- */

static struct kept {
  struct kept *next;
  char *text;
} * kept_texts;

const char *keep_text(char *text) {
  struct kept *kept = text != NULL ? malloc(sizeof *kept) : NULL;
  if (kept == NULL) {
    free(text);
    return NULL;
  }
  *kept = (struct kept){kept_texts, text};
  kept_texts = kept;
  return text;
}

static struct opened {
  struct opened *next;
  neap_model *model;
} * opened_models;

int open_model(const struct verb *verb, neap_train_options *o) {
  if (o->model == NULL || o->opened != NULL) return EXIT_DONE;
  struct opened *opened = malloc(sizeof *opened);
  if (opened == NULL) return report_failure(verb, no_memory());
  const neap_status status = neap_model_open(o->model, &opened->model);
  if (status != NEAP_OK) {
    free(opened);
    return report_failure(verb, status);
  }
  opened->next = opened_models;
  opened_models = opened;
  o->opened = opened->model;
  return EXIT_DONE;
}

void free_kept(void) {
  while (opened_models != NULL) {
    struct opened *next = opened_models->next;
    neap_model_close(opened_models->model);
    free(opened_models);
    opened_models = next;
  }
  while (kept_texts != NULL) {
    struct kept *next = kept_texts->next;
    free(kept_texts->text);
    free(kept_texts);
    kept_texts = next;
  }
}

/* ---- What was given ---- */

neap_status set_setting(struct arguments *a, int32_t index, const char *text) {
  neap_setting setting;
  if (!neap_setting_at(index, &setting)) return NEAP_INTERNAL;
  const bool is_switch = setting.kind == NEAP_SETTING_SWITCH;
  const neap_status status =
      neap_setting_read(&setting, is_switch && *text == '\0' ? "true" : text, &a->options);
  if (status == NEAP_OK) a->given[index] = text;
  return status;
}

const char *given_text(const struct arguments *a, const char *name) {
  const int32_t index = neap_setting_find(name);
  return index >= 0 ? a->given[index] : NULL;
}

bool is_given(const struct arguments *a, int32_t index) {
  neap_setting setting;
  if (a->given[index] != NULL) return true;
  if (!neap_setting_at(index, &setting)) return false;
  for (const char *from = setting.instead_of; from != NULL && *from != '\0'; from += *from == '|') {
    char name[64];
    const size_t length = strcspn(from, "|");
    snprintf(name, sizeof name, "%.*s", (int)length, from);
    if (given_text(a, name) != NULL) return true;
    from += length;
  }
  return false;
}

int check_use(const struct verb *verb, struct arguments *a) {
  neap_setting setting;
  if (a->options.model != NULL && check_model_name(verb, a->options.model) != EXIT_DONE) return EXIT_USAGE;
  const int opened = open_model(verb, &a->options);
  if (opened != EXIT_DONE) return opened;
  for (int32_t i = 0; neap_setting_at(i, &setting); i++) {
    if (!a->now[i]) continue;
    const neap_status status = neap_setting_check_use(&setting, &a->options);
    if (status != NEAP_OK) return report_failure(verb, status);
  }
  return EXIT_DONE;
}

/* ---- Arguments ---- */

/* An option of a verb. */
struct option {
  neap_setting row;
  int32_t setting; /* its index; -1: it is an option of the verb alone */
  int own;         /* its row among the verb's own; -1: every verb has it */
};

static const neap_setting config_option =
    OWN_OPTION(struct arguments, "config", "FILE", NULL,
               "read options from a file, lines of `name: value` (YAML); options given here take precedence",
               TEXT, config, .flags = NEAP_SETTING_PATH);
static const neap_setting json_option = OWN_OPTION(struct arguments, "json", NULL, NULL,
                                                   "write one JSON object to standard output", SWITCH, json);

/* Option `at` of a verb, in the order of the help; false past the last. */
static bool option_at(const struct verb *verb, int at, struct option *option) {
  option->own = -1;
  for (option->setting = 0; neap_setting_at(option->setting, &option->row); option->setting++)
    if (option->row.verbs & verb->settings && at-- == 0) return true;
  option->setting = -1;
  for (option->own = 0; verb->own != NULL && verb->own[option->own].name != NULL; option->own++)
    if (at-- == 0) {
      option->row = verb->own[option->own];
      return true;
    }
  option->own = -1;
  option->row = config_option;
  if (verb->settings != 0 && at-- == 0) return true;
  option->row = json_option;
  return at == 0;
}

bool verb_option_at(const struct verb *verb, int at, neap_setting *row) {
  struct option option;
  const bool there = option_at(verb, at, &option);
  *row = option.row;
  return there;
}

struct option_name option_name(const neap_setting *option) {
  struct option_name name;
  snprintf(name.text, sizeof name.text, "%s%s", option->name[1] == '\0' ? "-" : "--", option->name);
  return name;
}

static bool find_option(const struct verb *verb, const char *argument, size_t length, struct option *option) {
  for (int i = 0; option_at(verb, i, option); i++) {
    const struct option_name name = option_name(&option->row);
    if (strlen(name.text) == length && strncmp(name.text, argument, length) == 0) return true;
  }
  return false;
}

/* Returns a list with one more text at its end; NULL: out of memory. */
static const char *longer_list(const char *list, const char *text) {
  char *longer = NULL;
  return asprintf(&longer, "%s,%s", list, text) < 0 ? NULL : keep_text(longer);
}

/* Sets an option by a text, which is borrowed. */
static neap_status set_option(const struct option *option, const char *text, void *own, struct arguments *a) {
  if (option->setting >= 0) {
    if (option->row.flags & NEAP_SETTING_LIST && a->now[option->setting])
      text = longer_list(a->given[option->setting], text);
    if (text == NULL) return no_memory();
    a->now[option->setting] = true;
    return set_setting(a, option->setting, text);
  }
  if (option->own >= 0) a->own_given[option->own] = true;
  return neap_setting_read(&option->row,
                           *text == '\0' && option->row.kind == NEAP_SETTING_SWITCH ? "true" : text,
                           option->own >= 0 ? own : a);
}

static int report_value(const struct verb *verb, const struct option *option, neap_status status) {
  if (status == NEAP_INVALID_ARGUMENT)
    return report_usage(verb, "%s%s", option->row.name[1] == '\0' ? "-" : "--", library_message());
  return report_failure(verb, status);
}

static int report_unknown(const struct verb *verb, const char *argument, size_t length) {
  char name[64];
  struct option option;
  snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), argument);
  struct suggestion suggestion = suggest_for(name);
  for (int i = 0; option_at(verb, i, &option); i++) suggest(&suggestion, option_name(&option.row).text);
  return report_usage(verb, "%.*s: unknown option%s", (int)length, argument,
                      suggestion_text(&suggestion, "").text);
}

/* "--name value", "--name=value" or "--name". Moves `*at` to the last argument that it used. */
static bool read_option(const struct verb *verb, int count, char **arguments, int *at, void *own,
                        struct arguments *a) {
  const char *argument = arguments[*at];
  const size_t length = strcspn(argument, "=");
  struct option option;
  if (!find_option(verb, argument, length, &option)) {
    report_unknown(verb, argument, length);
    return false;
  }
  const char *text = argument[length] == '=' ? argument + length + 1 : NULL;
  const struct option_name named = option_name(&option.row);
  const char *name = named.text;
  if (option.row.kind == NEAP_SETTING_SWITCH) {
    if (text != NULL) {
      report_usage(verb, "%s does not take a value", name);
      return false;
    }
    text = "";
  } else if (text == NULL) {
    if (*at + 1 == count) {
      report_usage(verb, "%s: the value %s is missing", name, option.row.value);
      return false;
    }
    text = arguments[++*at];
  }
  if (strcmp(name, "-o") == 0 && strcmp(text, "-") == 0) text = standard_output;
  const neap_status status = set_option(&option, text, own, a);
  if (status != NEAP_OK) report_value(verb, &option, status);
  return status == NEAP_OK;
}

/* ---- A settings file ---- */

struct file_reading {
  const struct verb *verb;
  void *own;
  struct arguments *a, given; /* given: by the command line, before the file */
  bool told;
};

/* Words of YAML for a switch, or for a choice of on and off. */
static const char *switch_text(const neap_setting *row, const neap_setting_entry *entry) {
  static const struct {
    const char *word;
    bool on;
  } words[] = {{"true", true}, {"yes", true}, {"on", true}, {"false", false}, {"no", false}, {"off", false}};
  const bool is_switch = row->kind == NEAP_SETTING_SWITCH;
  const bool is_choice = row->kind == NEAP_SETTING_CHOICE && strcmp(row->value, "on|off") == 0;
  for (size_t i = 0; (is_switch || is_choice) && !entry->quoted && i < sizeof words / sizeof *words; i++)
    if (strcmp(words[i].word, entry->text) == 0)
      return is_switch ? (words[i].on ? "true" : "false") : (words[i].on ? "on" : "off");
  return is_switch ? "?" : entry->text;
}

static neap_status refuse_entry(struct file_reading *r, const neap_setting_entry *entry,
                                const char *problem) {
  report_usage(r->verb, "%s:%lld: %s", entry->file, (long long)entry->line, problem);
  r->told = true;
  return NEAP_INTERRUPTED;
}

static neap_status refuse_name(struct file_reading *r, const neap_setting_entry *entry) {
  char problem[256];
  neap_setting row;
  struct suggestion suggestion = suggest_for(entry->name);
  for (int i = 0; verb_option_at(r->verb, i, &row); i++)
    if (strcmp(row.name, entry->name) != 0) suggest(&suggestion, row.name);
  snprintf(problem, sizeof problem, "%.100s: `neap %s` has no such option%s", entry->name, r->verb->name,
           suggestion_text(&suggestion, "").text);
  return refuse_entry(r, entry, problem);
}

/* Every option of the verb but the file itself and what shows it. */
static bool find_entry(const struct verb *verb, const char *name, struct option *option) {
  if (strcmp(name, config_option.name) == 0 || strcmp(name, "show-config") == 0) return false;
  for (int i = 0; option_at(verb, i, option); i++)
    if (strcmp(option->row.name, name) == 0) return true;
  return false;
}

static neap_status take_entry(void *context, const neap_setting_entry *entry) {
  struct file_reading *r = context;
  struct option option;
  if (!find_entry(r->verb, entry->name, &option)) return refuse_name(r, entry);
  if (option.setting >= 0 && is_given(&r->given, option.setting)) return NEAP_OK;
  if (option.own >= 0 && r->given.own_given[option.own]) return NEAP_OK;
  const char *text = switch_text(&option.row, entry);
  if (text == entry->text) text = keep_text(strdup(text));
  if (text == NULL) return no_memory();
  const neap_status status = set_option(&option, text, r->own, r->a);
  if (status != NEAP_INVALID_ARGUMENT) return status;
  char problem[512];
  snprintf(problem, sizeof problem, "%.400s", library_message());
  if (option.row.kind == NEAP_SETTING_SWITCH)
    snprintf(problem, sizeof problem, "%s %.100s: must be true or false", entry->name, entry->text);
  return refuse_entry(r, entry, problem);
}

/* Options of the file, where the command line has not given them. */
static int read_config(const struct verb *verb, void *own, struct arguments *a) {
  struct file_reading reading = {.verb = verb, .own = own, .a = a, .given = *a};
  const neap_status status = neap_settings_read_file(a->config, take_entry, &reading);
  if (status == NEAP_OK || reading.told) return status == NEAP_OK ? EXIT_DONE : EXIT_USAGE;
  if (status == NEAP_BAD_FORMAT) return report_usage(verb, "%s", library_message());
  return report_failure(verb, status);
}

bool read_arguments(const struct verb *verb, int count, char **arguments, void *own, struct arguments *a) {
  neap_setting beyond;
  *a = (struct arguments){.options = neap_train_options_usual()};
  if (neap_setting_at(SETTING_LIMIT, &beyond)) { /* a program of another library than it was made for */
    report_usage(verb, "the library has more than %d settings", SETTING_LIMIT);
    return false;
  }
  for (int i = 0; i < count; i++) {
    if (arguments[i][0] == '-' && arguments[i][1] != '\0') {
      if (!read_option(verb, count, arguments, &i, own, a)) return false;
    } else if (a->operands.count == verb->operands) {
      report_usage(verb, "unexpected argument '%s'; use neap %s %s", arguments[i], verb->name, verb->usage);
      return false;
    } else {
      a->operands.values[a->operands.count++] = arguments[i];
    }
  }
  return a->config == NULL || read_config(verb, own, a) == EXIT_DONE;
}

/* ---- The help of a verb ---- */

const char *usual_of(const struct verb *verb, const neap_setting *option) {
  if (option->verbs & verb->settings)
    for (int i = 0; i < USUAL_LIMIT && verb->usual[i].setting != NULL; i++)
      if (strcmp(verb->usual[i].setting, option->name) == 0 || strcmp(verb->usual[i].setting, "*") == 0)
        return verb->usual[i].text;
  return option->usual;
}

/* The sources of data, as the library has them. */
static void print_sources(void) {
  neap_row row;
  for (int32_t i = 0; neap_data_at(i, &row); i++) printf("  %-34s   %-20s %s\n", "", row.name, row.summary);
}

void print_verb_help(const struct verb *verb) {
  struct option option;
  printf("%s\n\n  neap %s%s%s\n\n", verb->summary, verb->name, verb->usage[0] != '\0' ? " " : "",
         verb->usage);
  for (int i = 0; option_at(verb, i, &option); i++) {
    const neap_setting *row = &option.row;
    const char *usual = usual_of(verb, row);
    char left[64];
    snprintf(left, sizeof left, "%s %s", option_name(row).text, row->value != NULL ? row->value : "");
    printf("  %-34s %s%s%s%s\n", left, row->help, usual != NULL ? " (" : "", usual != NULL ? usual : "",
           usual != NULL ? ")" : "");
    if (strcmp(row->name, "data") == 0) print_sources();
  }
  printf("  %-34s %s\n", "--help", "this text");
}
