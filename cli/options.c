/* Arguments of a verb, read by its table of options. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
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

/* ---- Values ---- */

static bool read_integer(const char *text, double least, int64_t *out) {
  char *end;
  errno = 0;
  const long long number = strtoll(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || (double)number < least) return false;
  *out = number;
  return true;
}

static bool read_number(const char *text, double least, double *out) {
  char *end;
  const double number = strtod(text, &end);
  if (end == text || *end != '\0' || !isfinite(number) || number < least) return false;
  *out = number;
  return true;
}

static bool read_image(const char *text, int64_t out[3]) {
  int64_t image[3];
  for (int i = 0; i < 3; i++) {
    char *end;
    errno = 0;
    image[i] = isdigit((unsigned char)*text) ? strtoll(text, &end, 10) : 0;
    if (image[i] < 1 || image[i] > INT_MAX || errno != 0 || *end != (i < 2 ? 'x' : '\0')) return false;
    text = end + 1;
  }
  memcpy(out, image, sizeof image);
  return true;
}

/* Which of the words "a|b|c". */
static bool read_word(const char *text, const char *words, int *out) {
  const size_t length = strlen(text);
  for (int index = 0; words != NULL; index++) {
    const size_t size = strcspn(words, "|");
    if (size == length && strncmp(words, text, size) == 0) {
      *out = index;
      return true;
    }
    words = words[size] == '|' ? words + size + 1 : NULL;
  }
  return false;
}

static bool read_value(const struct verb *verb, const struct option *option, const char *text, void *field) {
  switch (option->kind) {
  case OPTION_SWITCH:
    *(bool *)field = true;
    return true;
  case OPTION_TEXT:
    *(const char **)field = text;
    return true;
  case OPTION_OR_WORD: {
    const char *word = strchr(option->value, '|') + 1;
    if (strcmp(text, word) == 0) {
      *(int64_t *)field = -1;
      return true;
    }
    if (read_integer(text, option->least, field)) return true;
    report_usage(verb, "%s %s: a whole number of at least %.0f, or %s, is needed", option->name, text,
                 option->least, word);
    return false;
  }
  case OPTION_INTEGER:
    if (read_integer(text, option->least, field)) return true;
    report_usage(verb, "%s %s: a whole number of at least %.0f is needed", option->name, text, option->least);
    return false;
  case OPTION_INT: {
    int64_t number;
    if (read_integer(text, option->least, &number) && number <= INT_MAX) {
      *(int *)field = (int)number;
      return true;
    }
    report_usage(verb, "%s %s: a whole number from %.0f to %d is needed", option->name, text, option->least,
                 INT_MAX);
    return false;
  }
  case OPTION_NUMBER: {
    const char *word = option->value != NULL ? strchr(option->value, '|') : NULL;
    if (word != NULL && strcmp(text, word + 1) == 0) {
      *(double *)field = -1;
      return true;
    }
    if (read_number(text, option->least, field) &&
        (option->below == 0 || *(const double *)field < option->below))
      return true;
    if (option->below == 0)
      report_usage(verb, "%s %s: a number of at least %g is needed", option->name, text, option->least);
    else
      report_usage(verb, "%s %s: a number of at least %g and below %g is needed", option->name, text,
                   option->least, option->below);
    return false;
  }
  case OPTION_IMAGE:
    if (read_image(text, field)) return true;
    report_usage(verb, "%s %s: channels, height and width are needed, as 3x224x224", option->name, text);
    return false;
  case OPTION_WORD:
    if (read_word(text, option->value, field)) return true;
    report_usage(verb, "%s %s: one of %s is needed", option->name, text, option->value);
    return false;
  case OPTION_BUDGET: {
    struct budget *budget = field;
    budget->text = text;
    if (neap_budget_parse(text, &budget->bytes, &budget->fraction) == NEAP_OK) return true;
    report_usage(verb, "%s %s: %s", option->name, text, neap_error_message());
    return false;
  }
  }
  return false;
}

void tell_budget(const struct budget *budget) {
  const size_t length = budget->text != NULL ? strlen(budget->text) : 0;
  if (length < 2 || strchr("KMGTkmgt", budget->text[length - 1]) == NULL) return;
  const char unit = (char)toupper((unsigned char)budget->text[length - 1]);
  fprintf(stderr, "neap: a budget of %s is read as %.*s %ciB (%llu bytes)\n", budget->text, (int)length - 1,
          budget->text, unit, (unsigned long long)budget->bytes);
}

/* ---- Arguments ---- */

static int find_option(const struct verb *verb, const char *argument, size_t length) {
  for (int i = 0; verb->options[i].name != NULL; i++)
    if (strlen(verb->options[i].name) == length && strncmp(verb->options[i].name, argument, length) == 0)
      return i;
  return -1;
}

/* "--name value", "--name=value" or "--name". Moves `*at` to the last argument that it used. */
static bool read_option(const struct verb *verb, int count, char **arguments, int *at, void *settings,
                        const char **texts) {
  const char *argument = arguments[*at];
  const size_t length = strcspn(argument, "=");
  const int row = find_option(verb, argument, length);
  if (row < 0) {
    report_usage(verb, "%.*s: there is no such option", (int)length, argument);
    return false;
  }
  const struct option *option = &verb->options[row];
  const char *text = argument[length] == '=' ? argument + length + 1 : NULL;
  if (option->kind == OPTION_SWITCH) {
    if (text != NULL) {
      report_usage(verb, "%s takes no value", option->name);
      return false;
    }
    text = "";
  } else if (text == NULL) {
    if (*at + 1 == count) {
      report_usage(verb, "%s: %s is missing", option->name, option->value);
      return false;
    }
    text = arguments[++*at];
  }
  if (strcmp(option->name, "-o") == 0 && strcmp(text, "-") == 0) text = standard_output;
  if (texts != NULL) texts[row] = text;
  return read_value(verb, option, text, (char *)settings + option->offset);
}

bool read_arguments(const struct verb *verb, int count, char **arguments, void *settings,
                    struct operands *operands, const char **texts) {
  *operands = (struct operands){0};
  for (int i = 0; i < count; i++) {
    if (arguments[i][0] == '-' && arguments[i][1] != '\0') {
      if (!read_option(verb, count, arguments, &i, settings, texts)) return false;
    } else if (operands->count == OPERAND_LIMIT) {
      report_usage(verb, "%s: there is no use for it", arguments[i]);
      return false;
    } else {
      operands->values[operands->count++] = arguments[i];
    }
  }
  return true;
}

void print_verb_help(const struct verb *verb) {
  printf("%s\n\n  neap %s%s%s\n\n", verb->summary, verb->name, verb->usage[0] != '\0' ? " " : "",
         verb->usage);
  for (const struct option *option = verb->options; option->name != NULL; option++) {
    char left[64];
    snprintf(left, sizeof left, "%s %s", option->name, option->value != NULL ? option->value : "");
    printf("  %-34s %s\n", left, option->help);
  }
  printf("  %-34s %s\n", "--help", "this text");
}
