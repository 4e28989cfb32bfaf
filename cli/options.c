/* Arguments of a verb: settings, which are rows of the library, and options of its own. */
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

int report_usage(const struct verb *verb, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("neap: ", stderr);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fprintf(stderr, "\nSee `neap%s%s --help`.\n", verb != NULL ? " " : "", verb != NULL ? verb->name : "");
  return EXIT_USAGE;
}

const char standard_output[] = "/dev/stdout";

int check_output(const struct verb *verb, const char *out, bool json) {
  if (out != standard_output || !json) return EXIT_DONE;
  return report_usage(verb, "-o - and --json: only one of them can have standard output");
}

void tell_budget(const char *text, uint64_t bytes) {
  const size_t length = text != NULL ? strlen(text) : 0;
  if (length < 2 || strchr("KMGTkmgt", text[length - 1]) == NULL) return;
  const char unit = (char)toupper((unsigned char)text[length - 1]);
  fprintf(stderr, "neap: a budget of %s is read as %.*s %ciB (%llu bytes)\n", text, (int)length - 1, text,
          unit, (unsigned long long)bytes);
}

/* ---- Texts that settings point to ---- */

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

void free_texts(void) {
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
  return neap_setting_at(index, &setting) && setting.instead_of != NULL &&
         given_text(a, setting.instead_of) != NULL;
}

int check_use(const struct verb *verb, const struct arguments *a) {
  neap_setting setting;
  for (int32_t i = 0; neap_setting_at(i, &setting); i++) {
    if (!a->now[i]) continue;
    const neap_status status = neap_setting_check_use(&setting, &a->options);
    if (status != NEAP_OK) return report_failure(verb, status);
  }
  return EXIT_DONE;
}

/* ---- Arguments ---- */

/* An option of a verb: a setting (`index` 0 or more), one of its own, or one that every verb has. */
struct option {
  neap_setting row;
  int32_t index;
};

static const neap_setting json_option = {"json", .help = "one JSON object on standard output",
                                         .kind = NEAP_SETTING_SWITCH};

/* Option `at` of a verb, in the order of the help; false past the last. */
static bool option_at(const struct verb *verb, int at, struct option *option) {
  for (option->index = 0; neap_setting_at(option->index, &option->row); option->index++)
    if (option->row.verbs & verb->settings && at-- == 0) return true;
  option->index = -1;
  for (const neap_setting *own = verb->own; own != NULL && own->name != NULL; own++)
    if (at-- == 0) {
      option->row = *own;
      return true;
    }
  option->row = json_option;
  return at == 0;
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

static int set_option(const struct verb *verb, const struct option *option, const char *text, void *own,
                      struct arguments *a) {
  neap_status status;
  if (option->index >= 0) {
    status = set_setting(a, option->index, text);
    a->now[option->index] = true;
  } else {
    const bool is_switch = option->row.kind == NEAP_SETTING_SWITCH;
    const bool json = strcmp(option->row.name, json_option.name) == 0;
    status = neap_setting_read(&option->row, is_switch ? "true" : text, json ? (void *)&a->json : own);
  }
  if (status == NEAP_INVALID_ARGUMENT)
    return report_usage(verb, "%s%s", option->row.name[1] == '\0' ? "-" : "--", neap_error_message());
  return status == NEAP_OK ? EXIT_DONE : report_failure(verb, status);
}

/* "--name value", "--name=value" or "--name". Moves `*at` to the last argument that it used. */
static bool read_option(const struct verb *verb, int count, char **arguments, int *at, void *own,
                        struct arguments *a) {
  const char *argument = arguments[*at];
  const size_t length = strcspn(argument, "=");
  struct option option;
  if (!find_option(verb, argument, length, &option)) {
    report_usage(verb, "%.*s: there is no such option", (int)length, argument);
    return false;
  }
  const char *text = argument[length] == '=' ? argument + length + 1 : NULL;
  const struct option_name named = option_name(&option.row);
  const char *name = named.text;
  if (option.row.kind == NEAP_SETTING_SWITCH) {
    if (text != NULL) {
      report_usage(verb, "%s takes no value", name);
      return false;
    }
    text = "";
  } else if (text == NULL) {
    if (*at + 1 == count) {
      report_usage(verb, "%s: %s is missing", name, option.row.value);
      return false;
    }
    text = arguments[++*at];
  }
  if (strcmp(name, "-o") == 0 && strcmp(text, "-") == 0) text = standard_output;
  return set_option(verb, &option, text, own, a) == EXIT_DONE;
}

bool read_arguments(const struct verb *verb, int count, char **arguments, void *own, struct arguments *a) {
  *a = (struct arguments){.options = neap_train_options_usual()};
  for (int i = 0; i < count; i++) {
    if (arguments[i][0] == '-' && arguments[i][1] != '\0') {
      if (!read_option(verb, count, arguments, &i, own, a)) return false;
    } else if (a->operands.count == OPERAND_LIMIT) {
      report_usage(verb, "%s: there is no use for it", arguments[i]);
      return false;
    } else {
      a->operands.values[a->operands.count++] = arguments[i];
    }
  }
  return true;
}

/* ---- The help of a verb ---- */

const char *usual_of(const struct verb *verb, const neap_setting *option) {
  if (option->verbs & verb->settings)
    for (int i = 0; i < USUAL_LIMIT && verb->usual[i].setting != NULL; i++)
      if (strcmp(verb->usual[i].setting, option->name) == 0 || strcmp(verb->usual[i].setting, "*") == 0)
        return verb->usual[i].text;
  return option->usual;
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
  }
  printf("  %-34s %s\n", "--help", "this text");
}
