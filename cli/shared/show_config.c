/* neap train --show-config: the settings of a run, as a file that --config reads. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/failure.h"
#include "shared/format.h"
#include "shared/processes.h"
#include "shared/show_config.h"

enum { VALUE_LIMIT = 8192 };

/* The character at `*at`, of well-formed UTF-8, behind which `*at` is moved. */
static uint32_t next_character(const char **at) {
  const unsigned char first = (unsigned char)*(*at)++;
  const int more = first < 0xC0 ? 0 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
  uint32_t character = more == 0 ? first : first & (0x3Fu >> more);
  for (int i = 0; i < more; i++) character = character << 6 | ((unsigned char)*(*at)++ & 0x3F);
  return character;
}

/* In double quotes, with escapes for what YAML does not take as it is. */
static void put_quoted(FILE *file, const char *text) {
  fputc('"', file);
  for (const char *at = text, *from = at; *at != '\0'; from = at) {
    const uint32_t c = next_character(&at);
    const bool plain =
        c < 0x7F ? c >= ' ' && c != '"' && c != '\\' : c >= 0xA0 && c != 0xFEFF && c != 0xFFFE && c != 0xFFFF;
    if (plain)
      fwrite(from, 1, (size_t)(at - from), file);
    else
      fprintf(file, "\\U%08X", (unsigned)c);
  }
  fputc('"', file);
}

/* The value as YAML. False where it is a text that is not UTF-8, or memory is out. */
static bool put_value(FILE *file, const neap_setting *setting, const char *value) {
  json_t *text = json_string(value);
  if (text != NULL && setting->kind == NEAP_SETTING_TEXT)
    put_quoted(file, value);
  else if (text != NULL)
    fputs(value, file);
  json_decref(text);
  return text != NULL;
}

/* Returns true if a run of these options accepts the setting. */
static bool is_of_use(const neap_setting *setting, const neap_train_options *options) {
  return neap_setting_check_use(setting, options) == NEAP_OK;
}

static neap_status put_setting(FILE *file, const struct verb *verb, const neap_setting *setting,
                               const neap_train_options *options, bool *bad_text) {
  char value[VALUE_LIMIT];
  const char *usual = usual_of(verb, setting);
  const neap_status status = neap_setting_write(setting, options, value, sizeof value);
  if (status != NEAP_OK) return status;
  if (value[0] == '\0' || !is_of_use(setting, options)) {
    fprintf(file, "# %s: %s  # %s%s%s%s\n", setting->name, setting->value != NULL ? setting->value : "true",
            setting->help, usual != NULL ? " (" : "", usual != NULL ? usual : "", usual != NULL ? ")" : "");
    return NEAP_OK;
  }
  fprintf(file, "%s: ", setting->name);
  *bad_text = *bad_text || !put_value(file, setting, value);
  fprintf(file, "  # %s\n", setting->help);
  return NEAP_OK;
}

static neap_status put_settings(FILE *file, const struct verb *verb, const struct arguments *a, int processes,
                                bool *bad_text) {
  neap_setting setting;
  neap_train_options options = a->options;
  neap_status status = NEAP_OK;
  if (options.session.threads == 0)
    options.session.threads = usual_threads(processes); /* the bits depend on them */
  if (options.resume != NULL && options.out == options.resume) options.out = NULL; /* which it is by itself */
  fprintf(file, "# neap train --config FILE\n");
  for (int32_t i = 0; status == NEAP_OK && neap_setting_at(i, &setting); i++)
    if (setting.verbs & NEAP_VERB_TRAIN) status = put_setting(file, verb, &setting, &options, bad_text);
  fprintf(file, "processes: %d  # number of processes on this machine\n", processes > 1 ? processes : 1);
  return status;
}

int show_config(const struct verb *verb, const struct arguments *a, int processes) {
  char *text = NULL;
  size_t length = 0;
  bool bad_text = false;
  FILE *file = open_memstream(&text, &length);
  neap_status status = file != NULL ? put_settings(file, verb, a, processes, &bad_text) : no_memory();
  if (file != NULL && fclose(file) != 0) status = no_memory();
  int result = status == NEAP_OK ? EXIT_DONE : report_failure(verb, status);
  if (result == EXIT_DONE && bad_text)
    result = report_usage(verb, "--show-config: an option is not valid UTF-8, which a settings file needs");
  if (result == EXIT_DONE && a->json)
    result = print_json(json_pack("{s:s}", "config", text));
  else if (result == EXIT_DONE)
    fwrite(text, 1, length, stdout);
  free(text);
  return result;
}
