/* Settings: checks the fields of a program's options, and stores them as in state.json. */
#include "settings/settings.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"

/* ---- Ranges of fields ---- */

/* Fails with the name of the field in words: "weight decay -1". */
static neap_status fail_field(const neap_setting *s, double value) {
  char name[48];
  snprintf(name, sizeof name, "%s", s->key != NULL ? s->key : s->name);
  for (char *at = name; *at != '\0'; at++)
    if (*at == '-' || *at == '_') *at = ' ';
  if (s->kind == NEAP_SETTING_WORD || s->kind == NEAP_SETTING_DTYPE)
    return neap_fail(NEAP_INVALID_ARGUMENT, "%s %g: must stand for one of %s", name, value, s->value);
  if (value < 0 && s->least >= 0)
    return neap_fail(NEAP_INVALID_ARGUMENT, "%s %g: must not be negative", name, value);
  if (s->below != 0)
    return neap_fail(NEAP_INVALID_ARGUMENT, "%s %g: must be at least %g and below %g", name, value, s->least,
                     s->below);
  return neap_fail(NEAP_INVALID_ARGUMENT, "%s %g: must be at least %g and finite", name, value, s->least);
}

static neap_status check_number(const neap_setting *s, double value) {
  if (value == 0 || (isnan(value) && s->flags & NEAP_SETTING_OPTIMIZER)) return NEAP_OK;
  const bool in_range = isfinite(value) && value >= s->least && (s->below == 0 || value < s->below);
  return in_range ? NEAP_OK : fail_field(s, value);
}

static neap_status check_word(const neap_setting *s, const void *options) {
  char text[64];
  TRY(neap_setting_write(s, options, text, sizeof text));
  return text[0] != '\0' ? NEAP_OK
                         : fail_field(s, *(const int *)(const void *)((const char *)options + s->offset));
}

/* Checks a field; offsets count from `options`. */
static neap_status check_field(const neap_setting *s, const void *options) {
  const void *field = (const char *)options + s->offset;
  const int64_t *image = field;
  const bool special = s->value != NULL && strchr(s->value, '|') != NULL;
  switch (s->kind) {
  case NEAP_SETTING_WORD:
    return check_word(s, options);
  case NEAP_SETTING_DTYPE: {
    const neap_dtype type = *(const neap_dtype *)field;
    return dtype_is_known(type) && type_set_has(TYPES_FLOAT, type) ? NEAP_OK : fail_field(s, (double)type);
  }
  case NEAP_SETTING_INT:
    return check_number(s, (double)*(const int32_t *)field);
  case NEAP_SETTING_INTEGER:
    return special && *(const int64_t *)field == -1 ? NEAP_OK
                                                    : check_number(s, (double)*(const int64_t *)field);
  case NEAP_SETTING_NUMBER:
    return check_number(s, *(const double *)field);
  case NEAP_SETTING_FLOAT:
  case NEAP_SETTING_SCALE:
    return check_number(s, (double)*(const float *)field);
  case NEAP_SETTING_IMAGE:
    for (int i = 0; i < 3; i++) TRY(check_number(s, (double)image[i]));
    return NEAP_OK;
  case NEAP_SETTING_BUDGET: {
    const double fraction = *(const double *)((const uint64_t *)field + 1);
    return fraction >= 0 && isfinite(fraction) ? NEAP_OK : fail_field(s, fraction);
  }
  case NEAP_SETTING_SWITCH:
  case NEAP_SETTING_CHOICE:
  case NEAP_SETTING_TEXT:
  case NEAP_SETTING_SEED:
  case NEAP_SETTING_BYTES:
  case NEAP_SETTING_TECHNIQUES:
    return NEAP_OK;
  }
  return NEAP_OK;
}

static const size_t session_first = offsetof(neap_train_options, session),
                    session_end = offsetof(neap_train_options, session) + sizeof(neap_session_options);

neap_status settings_check_session(const neap_session_options *session) {
  for (int32_t i = 0; i < setting_count; i++) {
    neap_setting s = setting_rows[i];
    if (s.offset < session_first || s.offset >= session_end) continue;
    s.offset -= session_first;
    TRY(check_field(&s, session));
  }
  return NEAP_OK;
}

neap_status settings_check_run(const neap_train_options *options) {
  for (int32_t i = 0; i < setting_count; i++)
    if (setting_rows[i].offset < session_first || setting_rows[i].offset >= session_end)
      TRY(check_field(&setting_rows[i], options));
  return NEAP_OK;
}

/* ---- As JSON ---- */

/* Returns NULL if memory is out, or the value cannot be written in JSON. */
static json_t *field_json(const neap_setting *s, const void *field, const char *text) {
  switch (s->kind) {
  case NEAP_SETTING_SWITCH:
    return json_boolean(*(const bool *)field);
  case NEAP_SETTING_CHOICE: /* the first word, which is no, is what the name says */
    return json_boolean(!*(const bool *)field);
  case NEAP_SETTING_INT:
    return json_integer(*(const int32_t *)field);
  case NEAP_SETTING_INTEGER:
    return json_integer(*(const int64_t *)field);
  case NEAP_SETTING_NUMBER:
    return json_real(*(const double *)field);
  case NEAP_SETTING_FLOAT:
  case NEAP_SETTING_SCALE:
    return json_real((double)*(const float *)field);
  case NEAP_SETTING_WORD:
  case NEAP_SETTING_DTYPE:
  case NEAP_SETTING_TEXT:
  case NEAP_SETTING_SEED: /* JSON's integers may end at 2^63 */
  case NEAP_SETTING_IMAGE:
  case NEAP_SETTING_BYTES:
  case NEAP_SETTING_BUDGET:
  case NEAP_SETTING_TECHNIQUES:
    return json_string(text);
  }
  return NULL;
}

static bool is_zero(const neap_setting *s, const void *field) {
  switch (s->kind) {
  case NEAP_SETTING_NUMBER:
    return *(const double *)field == 0;
  case NEAP_SETTING_FLOAT:
  case NEAP_SETTING_SCALE:
    return *(const float *)field == 0;
  case NEAP_SETTING_SWITCH:
  case NEAP_SETTING_CHOICE:
    return !*(const bool *)field;
  case NEAP_SETTING_TEXT:
    return *(const char *const *)field == NULL;
  case NEAP_SETTING_WORD:
  case NEAP_SETTING_DTYPE:
  case NEAP_SETTING_INT:
    return *(const int *)field == 0;
  default:
    return *(const int64_t *)field == 0;
  }
}

static neap_status add_json(json_t *object, const neap_setting *s, const neap_train_options *options) {
  const void *field = (const char *)options + s->offset;
  char small[64];
  const char *text = small;
  if (!(s->flags & NEAP_SETTING_ALWAYS) && is_zero(s, field)) return NEAP_OK;
  if (s->kind == NEAP_SETTING_TEXT)
    text = *(const char *const *)field;
  else
    TRY(neap_setting_write(s, options, small, sizeof small));
  json_t *value = field_json(s, field, text);
  RETURN_IF(value == NULL, NEAP_INVALID_ARGUMENT, "%s: is not UTF-8 or not finite, or out of memory",
            s->name);
  RETURN_IF(json_object_set_new(object, s->key, value) != 0, NEAP_OUT_OF_MEMORY,
            "out of memory for the settings");
  return NEAP_OK;
}

neap_status settings_add_json(json_t *object, const neap_train_options *options) {
  for (int32_t i = 0; i < setting_count; i++) {
    if (setting_rows[i].flags & NEAP_SETTING_BITS) TRY(add_json(object, &setting_rows[i], options));
    if (setting_rows[i].kind == NEAP_SETTING_SCALE && options->session.dynamic_loss_scale)
      RETURN_IF(json_object_set_new(object, "dynamic_loss_scale", json_true()) != 0, NEAP_OUT_OF_MEMORY,
                "out of memory for the settings");
  }
  return NEAP_OK;
}

void settings_name_usual(json_t *saved) {
  neap_train_options usual = {0};
  const char *optimizer = json_string_value(json_object_get(saved, "optimizer"));
  const int32_t row = neap_setting_find("optimizer");
  if (optimizer == NULL || neap_setting_read(&setting_rows[row], optimizer, &usual) != NEAP_OK) return;
  neap_train_options_resolve(&usual);
  for (int32_t i = 0; i < setting_count; i++) {
    const neap_setting *s = &setting_rows[i];
    const bool by_optimizer = s->flags & NEAP_SETTING_ZERO && s->flags & NEAP_SETTING_OPTIMIZER;
    json_t *value = by_optimizer && s->key != NULL ? json_object_get(saved, s->key) : NULL;
    if (!json_is_real(value) || json_real_value(value) != 0 || signbit(json_real_value(value))) continue;
    if (s->kind == NEAP_SETTING_FLOAT) /* the learning rate was never kept as 0 */
      json_real_set(value, (double)*(const float *)(const void *)((const char *)&usual + s->offset));
  }
}
