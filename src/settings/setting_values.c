/* Values of settings: converts between texts and fields. */
#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "grad/gradient.h"
#include "settings/settings.h"

/* ---- Words ---- */

/* Returns true if a text has the parts of a word, which commas divide, in any order. */
static bool is_word(const char *word, size_t size, const char *text) {
  if (strlen(text) != size) return false;
  for (size_t at = 0; at < size;) {
    const size_t length = strcspn(text + at, ",");
    size_t in_word = 0;
    while (in_word + length <= size && (strncmp(word + in_word, text + at, length) != 0 ||
                                        (in_word + length < size && word[in_word + length] != ',')))
      in_word += strcspn(word + in_word, ",|") + 1;
    if (in_word + length > size) return false;
    at += length + 1;
  }
  return true;
}

/* Returns the place of a word in "a|b|c"; -1: it is missing. */
static int find_word(const char *words, const char *text) {
  for (int index = 0; words != NULL; index++) {
    const size_t size = strcspn(words, "|");
    if (is_word(words, size, text)) return index;
    words = words[size] == '|' ? words + size + 1 : NULL;
  }
  return -1;
}

/* Returns word `index` of "a|b|c" and its length; NULL past the last. */
static const char *word_at(const char *words, int64_t index, int *length) {
  for (; words != NULL && index >= 0; index--) {
    *length = (int)strcspn(words, "|");
    if (index == 0) return words;
    words = words[*length] == '|' ? words + *length + 1 : NULL;
  }
  return NULL;
}

/* Returns the word for -1, or for the bool after the number; NULL: the setting has none. */
static const char *special_word(const neap_setting *s) {
  const char *bar = s->value != NULL ? strchr(s->value, '|') : NULL;
  return bar != NULL ? bar + 1 : NULL;
}

/* ---- Numbers ---- */

static bool is_whole(const neap_setting *s) {
  return s->kind == NEAP_SETTING_INT || s->kind == NEAP_SETTING_INTEGER || s->kind == NEAP_SETTING_SEED ||
         s->kind == NEAP_SETTING_IMAGE;
}

/* Writes a range such as "a whole number from 1 to 2147483647". */
static void describe_range(const neap_setting *s, char *text, size_t size) {
  const char *word = special_word(s), * or = word != NULL ? ", or " : "";
  if (word == NULL) word = "";
  if (is_whole(s) && s->below != 0)
    snprintf(text, size, "a whole number from %.0f to %.0f%s%s", s->least, s->below - 1, or, word);
  else if (is_whole(s))
    snprintf(text, size, "a whole number of at least %.0f%s%s", s->least, or, word);
  else if (s->below != 0)
    snprintf(text, size, "a number of at least %g and below %g%s%s", s->least, s->below, or, word);
  else
    snprintf(text, size, "a number of at least %g%s%s", s->least, or, word);
}

static neap_status fail_range(const neap_setting *s, const char *text) {
  char range[128];
  describe_range(s, range, sizeof range);
  return neap_fail(NEAP_INVALID_ARGUMENT, "%s %s: %s is needed", s->name, text, range);
}

static bool in_range(const neap_setting *s, double value) {
  return isfinite(value) && value >= s->least && (s->below == 0 || value < s->below);
}

static neap_status read_whole(const neap_setting *s, const char *text, int64_t *out) {
  char *end;
  errno = 0;
  const long long number = strtoll(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || !in_range(s, (double)number)) return fail_range(s, text);
  *out = number;
  return NEAP_OK;
}

static neap_status read_real(const neap_setting *s, const char *text, double *out) {
  char *end;
  double number = strtod(text, &end);
  const bool narrow = s->kind != NEAP_SETTING_NUMBER;
  if (narrow) number = isfinite(number) && fabs(number) <= FLT_MAX ? (double)(float)number : (double)INFINITY;
  if (end == text || *end != '\0' || !in_range(s, number)) return fail_range(s, text);
  *out = number != 0 ? number : s->flags & NEAP_SETTING_ZERO ? NEAP_ZERO : 0.0;
  return NEAP_OK;
}

static neap_status read_image(const neap_setting *s, const char *text, int64_t out[3]) {
  int64_t image[3];
  const char *at = text;
  for (int i = 0; i < 3; i++) {
    char *end = NULL;
    errno = 0;
    image[i] = isdigit((unsigned char)*at) ? strtoll(at, &end, 10) : 0;
    RETURN_IF(errno != 0 || end == NULL || !in_range(s, (double)image[i]) || *end != (i < 2 ? 'x' : '\0'),
              NEAP_INVALID_ARGUMENT,
              "%s %s: channels, height and width are needed, as 3x224x224, each from 1 to %.0f", s->name,
              text, s->below - 1);
    at = end + 1;
  }
  memcpy(out, image, sizeof image);
  return NEAP_OK;
}

static neap_status read_budget(const neap_setting *s, const char *text, uint64_t *bytes, double *fraction) {
  const neap_status status = neap_budget_parse(text, bytes, fraction);
  if (status != NEAP_INVALID_ARGUMENT) return status;
  return neap_fail(NEAP_INVALID_ARGUMENT, "%s %s: %s", s->name, text, neap_error_message());
}

/* ---- Techniques ---- */

static const struct {
  const char *name;
  unsigned bit;
} techniques[] = {{"micro", NEAP_ALLOW_MICRO},
                  {"bf16", NEAP_ALLOW_BF16},
                  {"states8", NEAP_ALLOW_STATES8},
                  {"f16", NEAP_ALLOW_F16}};
static const char sparse_is[] = "sparse=";

static neap_status read_techniques(const neap_setting *s, const char *text, neap_train_options *options) {
  const neap_setting *sparse = &setting_rows[neap_setting_find("sparse")];
  unsigned allowed = 0;
  double density = options->session.sparse_density;
  for (const char *at = text;; at++) {
    const size_t length = strcspn(at, ",");
    unsigned bit = 0;
    char *end;
    for (size_t i = 0; i < sizeof techniques / sizeof *techniques; i++)
      if (strlen(techniques[i].name) == length && strncmp(techniques[i].name, at, length) == 0)
        bit = techniques[i].bit;
    if (strncmp(at, sparse_is, sizeof sparse_is - 1) == 0) {
      density = strtod(at + sizeof sparse_is - 1, &end);
      if (end == at + length && in_range(sparse, density)) bit = NEAP_ALLOW_SPARSE;
    }
    RETURN_IF(bit == 0, NEAP_INVALID_ARGUMENT,
              "%s %s: '%.*s' is none of micro, bf16, states8, f16, sparse=DENSITY (below 1)", s->name, text,
              (int)length, at);
    allowed |= bit;
    at += length;
    if (*at == '\0') break;
  }
  options->allow = allowed;
  options->session.sparse_density = density;
  return NEAP_OK;
}

static int print_techniques(const neap_train_options *o, char *text, size_t size) {
  char sparse[32] = "";
  int length = 0;
  if (o->allow & NEAP_ALLOW_SPARSE) {
    for (int digits = 6; digits <= 17; digits++) {
      snprintf(sparse, sizeof sparse, "%.*g", digits, o->session.sparse_density);
      if (strtod(sparse, NULL) == o->session.sparse_density) break;
    }
  }
  for (size_t i = 0; i < sizeof techniques / sizeof *techniques && (size_t)length < size; i++)
    if (o->allow & techniques[i].bit)
      length +=
          snprintf(text + length, size - (size_t)length, "%s%s", length > 0 ? "," : "", techniques[i].name);
  if (sparse[0] != '\0' && (size_t)length < size)
    length +=
        snprintf(text + length, size - (size_t)length, "%s%s%s", length > 0 ? "," : "", sparse_is, sparse);
  return length;
}

/* ---- From a text ---- */

/* `kind` SCALE: a float followed by a bool. */
struct scale {
  float value;
  bool word;
};
_Static_assert(offsetof(neap_session_options, dynamic_loss_scale) ==
                   offsetof(neap_session_options, loss_scale) + offsetof(struct scale, word),
               "a loss scale's two fields stand together");
_Static_assert(offsetof(neap_session_options, budget_fraction) ==
                   offsetof(neap_session_options, budget) + sizeof(uint64_t),
               "a budget's two fields stand together");

static neap_status read_scale(const neap_setting *s, const char *text, struct scale *field) {
  double number = 0;
  const bool word = strcmp(text, special_word(s)) == 0;
  if (!word) TRY(read_real(s, text, &number));
  *field = (struct scale){(float)number, word};
  return NEAP_OK;
}

static neap_status read_bytes(const neap_setting *s, const char *text, uint64_t *field) {
  uint64_t bytes = 0;
  double fraction = 0;
  const neap_status status = neap_budget_parse(text, &bytes, &fraction);
  if (status != NEAP_OK && status != NEAP_INVALID_ARGUMENT) return status;
  RETURN_IF(status != NEAP_OK || fraction > 0 || bytes == NEAP_BUDGET_MIN || bytes >= NEAP_BUDGET_AVAILABLE,
            NEAP_INVALID_ARGUMENT,
            "%s %s: a number of bytes above 0 is needed, such as 96MiB, 0.5GB or 100663296", s->name, text);
  *field = bytes;
  return NEAP_OK;
}

static neap_status read_integer(const neap_setting *s, const char *text, int64_t *field) {
  const char *word = special_word(s);
  if (word == NULL || strcmp(text, word) != 0) return read_whole(s, text, field);
  *field = -1;
  return NEAP_OK;
}

static neap_status read_word(const neap_setting *s, const char *words, const char *text, int *word) {
  const int found = find_word(words, text);
  RETURN_IF(found < 0 && s->kind == NEAP_SETTING_SWITCH, NEAP_INVALID_ARGUMENT,
            "%s %s: true or false is needed", s->name, text);
  RETURN_IF(found < 0, NEAP_INVALID_ARGUMENT, "%s %s: one of %s is needed", s->name, text, s->value);
  *word = found;
  return NEAP_OK;
}

static neap_status read_dtype(const neap_setting *s, const char *text, neap_dtype *field) {
  int word;
  TRY(read_word(s, s->value, text, &word));
  for (int32_t i = 0; i < dtype_count; i++)
    if (strcmp(dtype_rows[i].name, text) == 0) *field = (neap_dtype)i;
  return NEAP_OK;
}

/* A field that is one number. */
static neap_status read_one_number(const neap_setting *s, const char *text, void *field) {
  int64_t whole;
  double number;
  switch (s->kind) {
  case NEAP_SETTING_INT:
    TRY(read_whole(s, text, &whole));
    *(int32_t *)field = (int32_t)whole;
    return NEAP_OK;
  case NEAP_SETTING_SEED:
    TRY(read_whole(s, text, &whole));
    *(uint64_t *)field = (uint64_t)whole;
    return NEAP_OK;
  case NEAP_SETTING_FLOAT:
    TRY(read_real(s, text, &number));
    *(float *)field = (float)number;
    return NEAP_OK;
  default:
    return read_real(s, text, field);
  }
}

static neap_status read_field(const neap_setting *s, const char *text, void *options, void *field) {
  int word;
  switch (s->kind) {
  case NEAP_SETTING_SWITCH:
  case NEAP_SETTING_CHOICE:
    TRY(read_word(s, s->kind == NEAP_SETTING_SWITCH ? "false|true" : s->value, text, &word));
    *(bool *)field = word == 1;
    return NEAP_OK;
  case NEAP_SETTING_WORD:
    return read_word(s, s->value, text, field);
  case NEAP_SETTING_DTYPE:
    return read_dtype(s, text, field);
  case NEAP_SETTING_TEXT:
    *(const char **)field = s->flags & NEAP_SETTING_NONE && strcmp(text, "none") == 0 ? NULL : text;
    return NEAP_OK;
  case NEAP_SETTING_INT:
  case NEAP_SETTING_SEED:
  case NEAP_SETTING_NUMBER:
  case NEAP_SETTING_FLOAT:
    return read_one_number(s, text, field);
  case NEAP_SETTING_INTEGER:
    return read_integer(s, text, field);
  case NEAP_SETTING_SCALE:
    return read_scale(s, text, field);
  case NEAP_SETTING_IMAGE:
    return read_image(s, text, field);
  case NEAP_SETTING_BYTES:
    return read_bytes(s, text, field);
  case NEAP_SETTING_BUDGET:
    return read_budget(s, text, field, (double *)((uint64_t *)field + 1));
  case NEAP_SETTING_TECHNIQUES:
    return read_techniques(s, text, options);
  }
  return neap_fail(NEAP_INTERNAL, "setting %s: kind %d is not known", s->name, (int)s->kind);
}

/* Makes the decimal point a point, whatever the locale. */
static neap_status enter_plain_locale(locale_t *plain, locale_t *before) {
  *plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
  RETURN_IF(*plain == (locale_t)0, NEAP_OUT_OF_MEMORY, "out of memory");
  *before = uselocale(*plain);
  return NEAP_OK;
}

static void leave_plain_locale(locale_t plain, locale_t before) {
  uselocale(before);
  freelocale(plain);
}

neap_status neap_setting_read(const neap_setting *setting, const char *text, void *options) {
  RETURN_IF(setting == NULL || text == NULL || options == NULL, NEAP_INVALID_ARGUMENT,
            "neap_setting_read: setting, text or options is NULL");
  locale_t plain, before;
  TRY(enter_plain_locale(&plain, &before));
  const neap_status status = read_field(setting, text, options, (char *)options + setting->offset);
  leave_plain_locale(plain, before);
  return status;
}

/* ---- To a text ---- */

/* Writes the shortest text that reads back as the number. */
static int print_number(const neap_setting *s, double value, char *text, size_t size) {
  const bool is_zero = value == 0;
  if (isnan(value) || (is_zero && (s->least > 0 || (s->flags & NEAP_SETTING_ZERO && !signbit(value)))))
    return 0;
  int length = 0;
  for (int digits = 6; digits <= 17; digits++) {
    length = snprintf(text, size, "%.*g", digits, is_zero ? 0.0 : value);
    const double back = strtod(text, NULL);
    if (s->kind == NEAP_SETTING_NUMBER ? back == value : (float)back == (float)value) break;
  }
  return length;
}

static int print_whole(const neap_setting *s, int64_t value, char *text, size_t size) {
  if (value == 0 && s->least > 0) return 0;
  if (value < 0 && special_word(s) != NULL) return snprintf(text, size, "%s", special_word(s));
  return snprintf(text, size, "%lld", (long long)value);
}

static int print_budget(uint64_t bytes, double fraction, char *text, size_t size) {
  uint64_t unused;
  double back = -1;
  int length = 0;
  if (fraction <= 0)
    return bytes == NEAP_BUDGET_MAX         ? snprintf(text, size, "max")
           : bytes == NEAP_BUDGET_MIN       ? snprintf(text, size, "min")
           : bytes == NEAP_BUDGET_AVAILABLE ? snprintf(text, size, "available")
                                            : snprintf(text, size, "%llu", (unsigned long long)bytes);
  for (int digits = 3; digits <= 17 && back != fraction; digits++) {
    length = snprintf(text, size, "%.*g%%", digits, 100 * fraction);
    if (neap_budget_parse(text, &unused, &back) != NEAP_OK) back = -1;
  }
  return length;
}

static int print_image(const int64_t image[3], char *text, size_t size) {
  if (image[0] == 0) return 0;
  return snprintf(text, size, "%lldx%lldx%lld", (long long)image[0], (long long)image[1],
                  (long long)image[2]);
}

/* A field that is one number. */
static int print_one_number(const neap_setting *s, const void *field, char *text, size_t size) {
  switch (s->kind) {
  case NEAP_SETTING_INT:
    return print_whole(s, *(const int32_t *)field, text, size);
  case NEAP_SETTING_INTEGER:
    return print_whole(s, *(const int64_t *)field, text, size);
  case NEAP_SETTING_SEED:
    return snprintf(text, size, "%llu", (unsigned long long)*(const uint64_t *)field);
  case NEAP_SETTING_FLOAT:
    return print_number(s, (double)*(const float *)field, text, size);
  default:
    return print_number(s, *(const double *)field, text, size);
  }
}

static int print_field(const neap_setting *s, const void *options, const void *field, char *text,
                       size_t size) {
  const struct scale *scale = field;
  const char *word;
  int length = 0;
  switch (s->kind) {
  case NEAP_SETTING_SWITCH:
    return snprintf(text, size, "%s", *(const bool *)field ? "true" : "false");
  case NEAP_SETTING_CHOICE:
    word = word_at(s->value, *(const bool *)field, &length);
    return snprintf(text, size, "%.*s", length, word);
  case NEAP_SETTING_WORD:
    word = word_at(s->value, *(const int *)field, &length);
    return word != NULL ? snprintf(text, size, "%.*s", length, word) : 0;
  case NEAP_SETTING_DTYPE:
    return snprintf(text, size, "%s", dtype_rows[*(const neap_dtype *)field].name);
  case NEAP_SETTING_TEXT:
    word = *(const char *const *)field;
    return word != NULL ? snprintf(text, size, "%s", word) : 0;
  case NEAP_SETTING_INT:
  case NEAP_SETTING_INTEGER:
  case NEAP_SETTING_SEED:
  case NEAP_SETTING_NUMBER:
  case NEAP_SETTING_FLOAT:
    return print_one_number(s, field, text, size);
  case NEAP_SETTING_SCALE:
    if (scale->word) return snprintf(text, size, "%s", special_word(s));
    return scale->value != 0 ? print_number(s, (double)scale->value, text, size) : 0;
  case NEAP_SETTING_IMAGE:
    return print_image(field, text, size);
  case NEAP_SETTING_BYTES:
    return *(const uint64_t *)field > 0 ? print_budget(*(const uint64_t *)field, 0, text, size) : 0;
  case NEAP_SETTING_BUDGET:
    return print_budget(*(const uint64_t *)field, *(const double *)((const uint64_t *)field + 1), text, size);
  case NEAP_SETTING_TECHNIQUES:
    return print_techniques(options, text, size);
  }
  return 0;
}

neap_status neap_setting_write(const neap_setting *setting, const void *options, char *text, size_t size) {
  RETURN_IF(setting == NULL || options == NULL || text == NULL || size == 0, NEAP_INVALID_ARGUMENT,
            "a setting, options and room for a text are needed");
  locale_t plain, before;
  TRY(enter_plain_locale(&plain, &before));
  text[0] = '\0';
  const int length = print_field(setting, options, (const char *)options + setting->offset, text, size);
  leave_plain_locale(plain, before);
  RETURN_IF(length < 0 || (size_t)length >= size, NEAP_TOO_LARGE, "%s: its text has more than %zu bytes",
            setting->name, size - 1);
  return NEAP_OK;
}
