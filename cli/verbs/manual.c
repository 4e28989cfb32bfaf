/* neap manual: the manual page neap.1, made of docs/command.md, the verbs and the rows, in the language of
 * man(7). */
#include <stdio.h>
#include <string.h>

#include "shared/made_text.h"
#include "verbs/verbs.h"

/* docs/command.md by scripts/manual.awk. Verbs and their options replace the comment. */
extern const char manual_text[];
#define VERBS ".\\\" verbs\n"

static FILE *out; /* where the text goes */

static void put_text(const char *text) { fprintf(out, "%s\n", text); }

/* Text with the signs escaped that mean something to roff. */
static void put(const char *text) {
  if (*text == '.' || *text == '\'') fputs("\\&", out);
  for (; *text != '\0'; text++) switch (*text) {
    case '\\':
      fputs("\\e", out);
      break;
    case '-':
      fputs("\\-", out);
      break;
    case '\'':
      fputs("\\(aq", out);
      break;
    case '^':
      fputs("\\(ha", out);
      break;
    case '~':
      fputs("\\(ti", out);
      break;
    case '`':
      fputs("\\(ga", out);
      break;
    default:
      fputc(*text, out);
    }
}

static void put_line(const char *text) {
  put(text);
  fputc('\n', out);
}

static void print_option(const struct verb *verb, const neap_setting *row) {
  const char *usual = usual_of(verb, row);
  put_text(".TP");
  fputs("\\fB", out);
  put(option_name(row).text);
  fputs("\\fR", out);
  if (row->value != NULL) {
    fputs(" \\fI", out);
    put(row->value);
    fputs("\\fR", out);
  }
  fputc('\n', out);
  put(row->help);
  if (usual != NULL) {
    fputs(" (", out);
    put(usual);
    fputs(")", out);
  }
  fputc('\n', out);
}

static void print_verb(const struct verb *verb) {
  neap_setting row;
  fputs(".SS neap ", out);
  put_line(verb->name);
  put_line(verb->summary);
  put_text(".PP");
  fputs("\\fBneap ", out);
  put(verb->name);
  fputs("\\fR ", out);
  put_line(verb->usage);
  for (int i = 0; verb_option_at(verb, i, &row); i++) print_option(verb, &row);
}

static void print_manual(void) {
  const char *verbs = strstr(manual_text, VERBS);
  const struct verb *verb;
  if (verbs == NULL) verbs = strchr(manual_text, '\0');
  put_text(".TH NEAP 1 \"\" \"neap " NEAP_VERSION "\" \"User Commands\"\n"
           ".SH NAME\n"
           "neap \\- train neural networks inside a memory budget\n"
           ".SH SYNOPSIS\n"
           ".B neap\n"
           ".I verb\n"
           "[\\fIoption\\fR ...]\n"
           ".br\n"
           ".B neap help\n"
           "[\\fIverb\\fR]\n"
           ".SH DESCRIPTION");
  fwrite(manual_text, 1, (size_t)(verbs - manual_text), out);
  put_text(".SH VERBS");
  for (int i = 0; (verb = verb_at(i)) != NULL; i++) print_verb(verb);
  fputs(verbs, out);
}

int run_manual(const struct verb *verb, int count, char **arguments) {
  struct arguments a;
  if (!read_arguments(verb, count, arguments, NULL, &a)) return EXIT_USAGE;
  return print_made(verb, print_manual, &out, a.json);
}
