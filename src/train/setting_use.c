/* Checks whether a setting has an effect together with the others. */
#include <stdio.h>
#include <string.h>

#include "grad/optimizer.h"
#include "model/model.h"
#include "settings/settings.h"

enum { TEXT_LIMIT = 4096, MESSAGE_LIMIT = 256 };

static neap_status text_of(const neap_setting *s, const neap_train_options *options, char *text) {
  const neap_status status = neap_setting_write(s, options, text, TEXT_LIMIT);
  return status == NEAP_TOO_LARGE ? NEAP_OK : status; /* what is cut is a value all the same */
}

/* Finds out whether the field differs from its value if nothing is given. */
static neap_status is_set(const neap_setting *s, const neap_train_options *options, bool *set) {
  const neap_train_options usual = neap_train_options_usual();
  char is[TEXT_LIMIT], was[TEXT_LIMIT];
  TRY(text_of(s, options, is));
  TRY(text_of(s, &usual, was));
  *set = strcmp(is, was) != 0;
  return NEAP_OK;
}

/* Returns true if `text` is one of "a,b,c", which ends at `end`. */
static bool is_among(const char *text, const char *words, const char *end) {
  for (const char *at = words; at < end; at++) {
    const size_t length = strcspn(at, ",|");
    if (strlen(text) == length && strncmp(text, at, length) == 0) return true;
    at += length;
  }
  return false;
}

/* Finds out whether one alternative of `with` holds: "name" or "name=a,b,c", up to `end`. */
static neap_status holds(const char *alternative, const char *end, const neap_train_options *options,
                         bool *held) {
  char name[64], text[TEXT_LIMIT];
  const size_t length = strcspn(alternative, "=|");
  snprintf(name, sizeof name, "%.*s", (int)length, alternative);
  const int32_t row = neap_setting_find(name);
  RETURN_IF(row < 0, NEAP_INTERNAL, "setting '%s' does not exist", name);
  if (alternative[length] != '=') return is_set(&setting_rows[row], options, held);
  TRY(text_of(&setting_rows[row], options, text));
  *held = is_among(text, alternative + length + 1, end);
  return NEAP_OK;
}

/* Writes "`optimizer` adamw, adam or lion" for every alternative, with "or" between them. */
static void describe(const char *with, char *text, size_t size) {
  size_t at = 0;
#define PUT(...) at += at < size ? (size_t)snprintf(text + at, size - at, __VA_ARGS__) : 0
  for (const char *from = with; *from != '\0'; from += *from == '|') {
    const size_t name = strcspn(from, "=|");
    PUT("%s`%.*s`", from > with ? " or " : "", (int)name, from);
    from += name;
    for (const char *separator = " "; *from == '=' || *from == ',';) {
      from++;
      const size_t word = strcspn(from, ",|");
      PUT("%s%.*s", separator, (int)word, from);
      from += word;
      const bool last = *from == ',' && strcspn(from + 1, ",|") == strcspn(from + 1, "|");
      separator = last ? " or " : ", ";
    }
  }
#undef PUT
}

/* Fails unless one of the alternatives holds. */
static neap_status check_alternatives(const neap_setting *s, const char *with,
                                      const neap_train_options *options) {
  char wanted[MESSAGE_LIMIT] = "";
  for (const char *from = with; from != NULL;) {
    const char *end = from + strcspn(from, "|");
    bool held;
    TRY(holds(from, end, options, &held));
    if (held) return NEAP_OK;
    from = *end == '|' ? end + 1 : NULL;
  }
  RETURN_IF(strcmp(with, "out|resume") == 0, NEAP_INVALID_ARGUMENT, "`%s` needs a folder: `out` DIR",
            s->name);
  describe(with, wanted, sizeof wanted);
  const bool of_one = strchr(with, '=') != NULL && strchr(with, '|') == NULL;
  return neap_fail(NEAP_INVALID_ARGUMENT, of_one ? "`%s` only applies to %s" : "`%s` does nothing without %s",
                   s->name, wanted);
}

/* Writes what a number of update rules needs: "optimizer=" and the words of all rules that read it. */
static void write_rules(const char *number, char *text, size_t size) {
  size_t at = 0;
  for (int32_t i = 0; i < OPTIMIZERS; i++)
    if (optimizer_takes(i, number) && at < size)
      at +=
          (size_t)snprintf(text + at, size - at, "%s%s", at > 0 ? "," : "optimizer=", optimizer_rows[i].name);
}

static neap_status check_with(const neap_setting *s, const neap_train_options *options) {
  char rules[MESSAGE_LIMIT] = "";
  write_rules(s->name, rules, sizeof rules);
  for (const char *from = s->with != NULL && strcmp(s->with, "optimizer=*") == 0 ? rules : s->with;
       from != NULL && *from != '\0';) {
    char with[MESSAGE_LIMIT];
    const size_t length = strcspn(from, "&");
    snprintf(with, sizeof with, "%.*s", (int)length, from);
    TRY(check_alternatives(s, with, options));
    from += length + (from[length] == '&');
  }
  return NEAP_OK;
}

static neap_status check_unless(const neap_setting *s, const neap_train_options *options) {
  char text[TEXT_LIMIT];
  bool set = false;
  if (s->unless == NULL) return NEAP_OK;
  const neap_setting *other = &setting_rows[neap_setting_find(s->unless)];
  TRY(is_set(other, options, &set));
  if (!set) return NEAP_OK;
  TRY(text_of(other, options, text));
  return neap_fail(NEAP_INVALID_ARGUMENT, "`%s` does nothing together with `%s` %.200s", s->name, other->name,
                   text);
}

static neap_status check_instead(const neap_setting *s, const neap_train_options *options) {
  for (const char *from = s->instead_of; from != NULL && *from != '\0'; from += *from == '|') {
    char name[64];
    bool set = false;
    const size_t length = strcspn(from, "|");
    snprintf(name, sizeof name, "%.*s", (int)length, from);
    from += length;
    const int32_t row = neap_setting_find(name);
    RETURN_IF(row < 0, NEAP_INTERNAL, "setting '%s' does not exist", name);
    TRY(is_set(&setting_rows[row], options, &set));
    RETURN_IF(set, NEAP_INVALID_ARGUMENT, "`%s` and `%s`: give one of them", s->name, name);
  }
  return NEAP_OK;
}

static neap_status find_task(const neap_train_options *options, neap_task *task) {
  neap_model_description about;
  const neap_model *model;
  neap_model *own;
  TRY(model_take(options->opened, options->model, &own, &model));
  const neap_status status = neap_model_describe(model, &about);
  *task = about.task;
  neap_model_close(own);
  return status;
}

static neap_status check_model(const neap_setting *s, const neap_train_options *options) {
  static const struct {
    unsigned bit;
    const char *name;
  } kinds[] = {[NEAP_TASK_IMAGES] = {NEAP_OF_IMAGES, "images"},
               [NEAP_TASK_PIXELS] = {NEAP_OF_IMAGES, "images"},
               [NEAP_TASK_TOKENS] = {NEAP_OF_TOKENS, "tokens"},
               [NEAP_TASK_MASKED] = {NEAP_OF_TOKENS, "tokens"},
               [NEAP_TASK_VECTORS] = {NEAP_OF_VECTORS, "sequences of vectors"},
               [NEAP_TASK_FEATURES] = {NEAP_OF_IMAGES, "images"},
               [NEAP_TASK_PAIRS] = {NEAP_OF_PAIRS, "pairs of sequences"},
               [NEAP_TASK_TEXTS] = {NEAP_OF_TOKENS, "tokens"}};
  neap_task kind;
  if (s->models == 0 || options->model == NULL) return NEAP_OK;
  TRY(find_task(options, &kind));
  if (s->models & kinds[kind].bit) return NEAP_OK;
  char wanted[MESSAGE_LIMIT] = "";
  size_t at = 0;
  unsigned told = 0;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (!(s->models & kinds[i].bit & ~told)) continue;
    told |= kinds[i].bit;
    at += (size_t)snprintf(wanted + at, sizeof wanted - at, "%s%s", at > 0 ? " or " : "", kinds[i].name);
  }
  return neap_fail(NEAP_INVALID_ARGUMENT,
                   "`%s` does nothing with %s, which learns from %s: it only applies to models of %s",
                   s->name, options->model, kinds[kind].name, wanted);
}

neap_status neap_setting_check_use(const neap_setting *setting, const neap_train_options *options) {
  bool set;
  RETURN_IF(setting == NULL || options == NULL, NEAP_INVALID_ARGUMENT,
            "neap_setting_check_use: setting or options is NULL");
  TRY(is_set(setting, options, &set));
  if (!set) return NEAP_OK;
  TRY(check_unless(setting, options));
  TRY(check_instead(setting, options));
  TRY(check_with(setting, options));
  return check_model(setting, options);
}
