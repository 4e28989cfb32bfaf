/* neap manual: the manual page neap.1, made of the verbs and rows, in the language of man(7). */
#include <string.h>

#include "cli.h"

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
  const struct verb *verb;
  put_text(
      ".TH NEAP 1 \"\" \"neap " NEAP_VERSION "\" \"User Commands\"\n"
      ".SH NAME\n"
      "neap \\- train neural networks inside a memory budget\n"
      ".SH SYNOPSIS\n"
      ".B neap\n"
      ".I verb\n"
      "[\\fIoption\\fR ...]\n"
      ".br\n"
      ".B neap help\n"
      "[\\fIverb\\fR]\n"
      ".SH DESCRIPTION\n"
      "Neap trains a network inside a number of bytes: parameters, gradients, optimizer states, activations "
      "and\n"
      "workspaces, all of it. It looks for the fastest way, proves the peak before the first step and never "
      "exceeds\n"
      "it. The weights are the same, bit for bit, as without a budget.\n"
      ".PP\n"
      "An option is written as \\fB\\-\\-name\\fR \\fIvalue\\fR or \\fB\\-\\-name=\\fR\\fIvalue\\fR. What "
      "holds where it is\n"
      "not given stands in parentheses. With \\fB\\-\\-json\\fR a verb prints one JSON object on standard "
      "output.\n"
      ".SH VERBS");
  for (int i = 0; (verb = verb_at(i)) != NULL; i++) print_verb(verb);
  put_text(".SH EXIT STATUS\n"
           "0 done; 1 failed; 2 wrong usage; 3 the budget cannot be met; 4 a plan or layout is not valid; 5 "
           "training\n"
           "diverged; 130 interrupted.\n"
           ".SH ENVIRONMENT\n"
           ".TP\n"
           "\\fBXDG_CACHE_HOME\\fR\n"
           "The folder of measured speeds and costs is \\fBneap\\fR in it, else \\fB\\(ti/.cache/neap\\fR.\n"
           ".TP\n"
           "\\fBOMP_WAIT_POLICY\\fR, \\fBGOMP_SPINCOUNT\\fR\n"
           "How threads wait for each other. By default they spin for a moment and then sleep.\n"
           ".TP\n"
           "\\fBNEAP_MAX_CPU_ISA\\fR\n"
           "The highest instruction set that kernels use: avx512_bf16, avx512, avx2 or generic.\n"
           ".SH EXAMPLES\n"
           ".nf\n"
           "neap train \\-\\-model wrn\\-28\\-2 \\-\\-data synthetic \\-\\-budget 96MiB \\-\\-steps 20\n"
           "neap train \\-\\-resume run\n"
           "neap plan \\-\\-model resnet50 \\-\\-budget 60% \\-\\-planner all\n"
           ".fi");
}

int run_manual(const struct verb *verb, int count, char **arguments) {
  struct arguments a;
  if (!read_arguments(verb, count, arguments, NULL, &a)) return EXIT_USAGE;
  return print_made(verb, print_manual, &out, a.json);
}
