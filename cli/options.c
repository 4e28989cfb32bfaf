/* Arguments of a verb, read by its table of options. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

int usage_error(const struct verb *verb, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("neap: ", stderr);
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "\nTry `neap%s%s --help`.\n", verb != NULL ? " " : "", verb != NULL ? verb->name : "");
  va_end(arguments);
  return EXIT_USAGE;
}

static int find_option(const struct verb *verb, const char *name, size_t length) {
  for (int i = 0; verb->options[i].name != NULL; i++)
    if (strlen(verb->options[i].name) == length && strncmp(verb->options[i].name, name, length) == 0)
      return i;
  return -1;
}

bool read_arguments(const struct verb *verb, int count, char **arguments, const char **values,
                    const char **operands, int *operand_count, bool *help) {
  *operand_count = 0;
  *help = false;
  for (int i = 0; i < count; i++) {
    const char *argument = arguments[i];
    if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
      *help = true;
      continue;
    }
    if (argument[0] != '-' || argument[1] == '\0') {
      if (*operand_count == OPERAND_LIMIT)
        return usage_error(verb, "there is no use for '%s'", argument), false;
      operands[(*operand_count)++] = argument;
      continue;
    }
    const char *equals = strchr(argument, '=');
    const size_t length = equals != NULL ? (size_t)(equals - argument) : strlen(argument);
    const int option = find_option(verb, argument, length);
    if (option < 0) return usage_error(verb, "there is no option %s", argument), false;
    if (values[option] != NULL)
      return usage_error(verb, "%s stands twice", verb->options[option].name), false;
    if (verb->options[option].value == NULL) {
      if (equals != NULL) return usage_error(verb, "%s takes no value", verb->options[option].name), false;
      values[option] = "";
    } else if (equals != NULL) {
      values[option] = equals + 1;
    } else if (i + 1 < count) {
      values[option] = arguments[++i];
    } else {
      return usage_error(verb, "%s needs a value: %s", argument, verb->options[option].value), false;
    }
  }
  return true;
}

void print_verb_help(const struct verb *verb) {
  printf("neap %s %s\n\n%s\n\n", verb->name, verb->usage, verb->summary);
  for (int i = 0; verb->options[i].name != NULL; i++) {
    char left[64];
    snprintf(left, sizeof left, "%s %s", verb->options[i].name,
             verb->options[i].value != NULL ? verb->options[i].value : "");
    printf("  %-28s %s\n", left, verb->options[i].help);
  }
  printf("  %-28s %s\n", "--help", "this text");
}

const char *value_of(const struct verb *verb, const char *const *values, const char *name) {
  const int i = find_option(verb, name, strlen(name));
  return i < 0 ? NULL : values[i];
}

bool has(const struct verb *verb, const char *const *values, const char *name) {
  return value_of(verb, values, name) != NULL;
}

bool integer_value(const struct verb *verb, const char *const *values, const char *name, int64_t least,
                   int64_t *out) {
  const char *text = value_of(verb, values, name);
  if (text == NULL) return true;
  char *end;
  errno = 0;
  const long long number = strtoll(text, &end, 10);
  if (errno == 0 && end != text && *end == '\0' && number >= least) {
    *out = number;
    return true;
  }
  usage_error(verb, "%s %s: must be a whole number of at least %lld", name, text, (long long)least);
  return false;
}

bool number_value(const struct verb *verb, const char *const *values, const char *name, double least,
                  double *out) {
  const char *text = value_of(verb, values, name);
  if (text == NULL) return true;
  char *end;
  const double number = strtod(text, &end);
  if (end != text && *end == '\0' && isfinite(number) && number >= least) {
    *out = number;
    return true;
  }
  usage_error(verb, "%s %s: must be a number of at least %g", name, text, least);
  return false;
}

bool word_value(const struct verb *verb, const char *const *values, const char *name, const char *words,
                int *out) {
  const char *text = value_of(verb, values, name);
  if (text == NULL) return true;
  const size_t length = strlen(text);
  int index = 0;
  for (const char *word = words;; index++) {
    const char *bar = strchr(word, '|');
    const size_t size = bar != NULL ? (size_t)(bar - word) : strlen(word);
    if (size == length && strncmp(word, text, size) == 0) {
      *out = index;
      return true;
    }
    if (bar == NULL) break;
    word = bar + 1;
  }
  usage_error(verb, "%s %s: must be one of %s", name, text, words);
  return false;
}

bool budget_value(const struct verb *verb, const char *const *values, uint64_t *bytes, double *fraction) {
  const char *text = value_of(verb, values, "--budget");
  *bytes = NEAP_BUDGET_MAX;
  *fraction = 0;
  if (text == NULL || neap_budget_parse(text, bytes, fraction) == NEAP_OK) return true;
  usage_error(verb, "--budget %s", neap_error_message());
  return false;
}
