/* neap completion: scripts that complete verbs, options and their values, made of the rows. `make install`
 * puts them where bash, zsh and fish look; where the command is not installed, its output can be sourced. */
#include <stdio.h>
#include <string.h>

#include "shared/failure.h"
#include "shared/made_text.h"
#include "shared/source.h"
#include "verbs/verbs.h"

static FILE *out; /* where the text goes */

static void put_text(const char *text) { fprintf(out, "%s\n", text); }

/* ---- What a value can be ---- */

struct values {
  char words[2048]; /* between blanks; "": none is known */
  bool files;
};

static void add_word(struct values *v, const char *word, size_t length) {
  const size_t at = strlen(v->words);
  if (length > 0)
    snprintf(v->words + at, sizeof v->words - at, "%s%.*s", at > 0 ? " " : "", (int)length, word);
}

/* The words between the bars of "a|b|c", behind the first `skip`. */
static void add_words(struct values *v, const char *words, int skip) {
  for (const char *at = words; at != NULL;) {
    const size_t length = strcspn(at, "|");
    if (skip-- <= 0) add_word(v, at, length);
    at = at[length] == '|' ? at + length + 1 : NULL;
  }
}

/* Names of a table, up to the first number that a name leaves open. */
static void add_rows(struct values *v, bool (*row_at)(int32_t index, neap_row *row)) {
  neap_row row;
  for (int32_t i = 0; row_at(i, &row); i++) add_word(v, row.name, strcspn(row.name, "#"));
}

static struct values values_of(const neap_setting *row) {
  struct values v = {.files = (row->flags & NEAP_SETTING_PATH) != 0};
  if (row->kind == NEAP_SETTING_WORD || row->kind == NEAP_SETTING_CHOICE || row->kind == NEAP_SETTING_DTYPE)
    add_words(&v, row->value, 0);
  if (row->kind == NEAP_SETTING_INTEGER || row->kind == NEAP_SETTING_SCALE) add_words(&v, row->value, 1);
  if (row->kind == NEAP_SETTING_BUDGET) add_words(&v, "min|max|50%|80%", 0);
  if (row->kind == NEAP_SETTING_TECHNIQUES) add_words(&v, "micro|bf16|states8|f16|sparse=0.3|" ALLOW_ALL, 0);
  if (strcmp(row->name, "model") == 0) add_rows(&v, neap_model_at);
  if (strcmp(row->name, "planner") == 0) add_words(&v, "auto|all", 0), add_rows(&v, neap_planner_at);
  if (strcmp(row->name, "data") == 0) add_words(&v, "synthetic|cifar10:|mnist:|text:|tokens:|parallel:", 0);
  return v;
}

/* ---- bash ---- */

/* Prints the values of each option that takes one. */
static void print_bash_values(void) {
  const struct verb *verb;
  neap_setting row;
  for (int i = 0; (verb = verb_at(i)) != NULL; i++)
    for (int k = 0; verb_option_at(verb, k, &row); k++) {
      const struct values v = values_of(&row);
      if (row.kind == NEAP_SETTING_SWITCH) continue;
      if (v.files)
        fprintf(out, "    %s:%s) COMPREPLY=($(compgen -f -- \"$current\")); return ;;\n", verb->name,
                option_name(&row).text);
      else
        fprintf(out, "    %s:%s) COMPREPLY=($(compgen -W \"%s\" -- \"$current\")); return ;;\n", verb->name,
                option_name(&row).text, v.words);
    }
}

static void print_bash(void) {
  const struct verb *verb;
  neap_setting row;
  put_text(
      "# bash completion of neap\n"
      "_neap() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]} "
      "words=\n"
      "  COMPREPLY=()\n"
      "  if [ \"$current\" = \"=\" ]; then current=\n"
      "  elif [ \"$before\" = \"=\" ]; then before=${COMP_WORDS[COMP_CWORD - 2]}\n"
      "  fi\n"
      "  if [ \"$COMP_CWORD\" = 1 ] || { [ \"$COMP_CWORD\" = 2 ] && [ \"$verb\" = help ]; }; then");
  fputs("    COMPREPLY=($(compgen -W \"", out);
  for (int i = 0; (verb = verb_at(i)) != NULL; i++) fprintf(out, "%s ", verb->name);
  put_text("help --help --version\" -- \"$current\"))\n"
           "    return\n"
           "  fi\n"
           "  case $verb:$before in");
  print_bash_values();
  put_text("  esac\n"
           "  case $verb in");
  for (int i = 0; (verb = verb_at(i)) != NULL; i++) {
    fprintf(out, "    %s) words=\"", verb->name);
    for (int k = 0; verb_option_at(verb, k, &row); k++) fprintf(out, "%s ", option_name(&row).text);
    put_text("--help\" ;;");
  }
  put_text("  esac\n"
           "  if [ \"${current:0:1}\" = - ]; then COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
           "  else COMPREPLY=($(compgen -f -- \"$current\"))\n"
           "  fi\n"
           "}\n"
           "complete -o filenames -F _neap neap");
}

/* ---- zsh ---- */

/* Inside of '...[HELP]:...': what ends a part is escaped. */
static void put_zsh(const char *text) {
  for (; *text != '\0'; text++) {
    if (*text == '\'')
      fputs("'\\''", out);
    else
      fprintf(out, "%s%c", strchr("[]:\\", *text) != NULL ? "\\" : "", *text);
  }
}

static void print_zsh_option(const neap_setting *row) {
  const struct values v = values_of(row);
  fprintf(out, "        '%s[", option_name(row).text);
  put_zsh(row->help);
  fputs("]", out);
  if (row->kind != NEAP_SETTING_SWITCH) {
    fputs(":", out);
    put_zsh(row->value);
    fputs(":", out);
    if (v.files)
      fputs("_files", out);
    else if (v.words[0] != '\0') {
      fputs("(", out);
      put_zsh(v.words);
      fputs(")", out);
    }
  }
  put_text("' \\");
}

static void print_zsh(void) {
  const struct verb *verb;
  neap_setting row;
  put_text("#compdef neap\n"
           "# zsh completion of neap\n"
           "_neap() {\n"
           "  local -a verbs\n"
           "  verbs=(");
  for (int i = 0; (verb = verb_at(i)) != NULL; i++) {
    fprintf(out, "    '%s:", verb->name);
    put_zsh(verb->summary);
    put_text("'");
  }
  put_text("    'help:Help of a verb.'\n"
           "  )\n"
           "  if (( CURRENT == 2 )) || [[ ${words[2]} == help ]]; then\n"
           "    _describe verb verbs\n"
           "    return\n"
           "  fi\n"
           "  local verb=${words[2]}\n"
           "  shift words\n"
           "  (( CURRENT-- ))\n"
           "  case $verb in");
  for (int i = 0; (verb = verb_at(i)) != NULL; i++) {
    fprintf(out, "    %s)\n      _arguments \\\n", verb->name);
    for (int k = 0; verb_option_at(verb, k, &row); k++) print_zsh_option(&row);
    put_text("        '--help[this text]' \\\n"
             "        '*:file:_files'\n"
             "      ;;");
  }
  put_text("  esac\n"
           "}\n"
           "if [[ ${funcstack[1]} == _neap ]]; then _neap \"$@\"; else compdef _neap neap; fi");
}

/* ---- fish ---- */

static void put_fish(const char *text) {
  for (; *text != '\0'; text++) fprintf(out, "%s%c", strchr("'\\", *text) != NULL ? "\\" : "", *text);
}

static void print_fish(void) {
  const struct verb *verb;
  neap_setting row;
  put_text("# fish completion of neap");
  for (int i = 0; (verb = verb_at(i)) != NULL; i++) {
    fprintf(out, "complete -c neap -f -n __fish_use_subcommand -a %s -d '", verb->name);
    put_fish(verb->summary);
    put_text("'");
  }
  put_text("complete -c neap -f -n __fish_use_subcommand -a help -d 'Help of a verb.'");
  for (int i = 0; (verb = verb_at(i)) != NULL; i++)
    for (int k = 0; verb_option_at(verb, k, &row); k++) {
      const struct values v = values_of(&row);
      fprintf(out, "complete -c neap -n '__fish_seen_subcommand_from %s' -%s %s", verb->name,
              row.name[1] == '\0' ? "s" : "l", row.name);
      if (row.kind != NEAP_SETTING_SWITCH) fputs(v.files ? " -r -F" : " -x", out);
      if (v.words[0] != '\0') fprintf(out, " -a '%s'", v.words);
      fputs(" -d '", out);
      put_fish(row.help);
      put_text("'");
    }
}

/* ---- The verb ---- */

int run_completion(const struct verb *verb, int count, char **arguments) {
  static const struct {
    const char *name;
    void (*print)(void);
  } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
  struct arguments a;
  if (!read_arguments(verb, count, arguments, NULL, &a)) return EXIT_USAGE;
  if (a.operands.count == 0) return report_usage(verb, "the name of a shell is missing: bash, zsh or fish");
  for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
    if (strcmp(shells[i].name, a.operands.values[0]) == 0) {
      return print_made(verb, shells[i].print, &out, a.json);
    }
  return report_usage(verb, "%s: unknown shell; completion exists for bash, zsh and fish",
                      a.operands.values[0]);
}
