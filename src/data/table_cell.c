#include "data/table_cell.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- Numbers ---- */

enum { NUMBER_BYTES = 64 };

/* Reads a number with that decimal sign; false: it is not a number. It may be infinite. */
static bool read_number(const char *text, char decimal, double *value) {
  const char *allowed = decimal == '.' ? "0123456789+-eE." : "0123456789+-eE,";
  const size_t length = strlen(text);
  char copy[NUMBER_BYTES], *end;
  if (length == 0 || strspn(text, allowed) < length) return false;
  if (decimal == '.') {
    *value = strtod(text, &end);
    return end == text + length;
  }
  if (length >= sizeof copy) return false;
  memcpy(copy, text, length + 1);
  char *comma = strchr(copy, decimal);
  if (comma != NULL) *comma = '.';
  *value = strtod(copy, &end);
  return end == copy + length;
}

static bool is_infinite(const char *text) {
  static const char *const names[] = {"inf", "infinity"};
  if (*text == '-' || *text == '+') text++;
  return strcasecmp(text, names[0]) == 0 || strcasecmp(text, names[1]) == 0;
}

/* ---- Gaps ---- */

bool table_is_gap(const struct table_form *form, const char *text) {
  const char decimal = form->comma ? ',' : '.';
  double value, other;
  if (!form->gaps) return false;
  if (*text == '\0') return true;
  const bool number = form->missing_count > 0 && read_number(text, decimal, &value);
  for (int64_t i = 0; i < form->missing_count; i++)
    if (strcmp(text, form->missing[i]) == 0 ||
        (number && read_number(form->missing[i], decimal, &other) && value == other))
      return true;
  return false;
}

static bool is_nothing(const char *text) {
  static const char *const names[] = {"",         "?",    "NA",     "N/A",     "n/a",     "<NA>",    "#N/A",
                                      "#N/A N/A", "#NA",  "NaN",    "nan",     "-NaN",    "-nan",    "NULL",
                                      "null",     "None", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(text, names[i]) == 0) return true;
  return false;
}

/* ---- Dates and times ---- */

/* Reads `least` to `most` digits; returns their number, 0 if there are fewer or more. */
static int digits(const char **text, int least, int most) {
  int count = 0;
  while (isdigit((unsigned char)(*text)[count])) count++;
  if (count < least || count > most) return 0;
  *text += count;
  return count;
}

static bool take(const char **text, char c) {
  const bool there = **text == c;
  *text += there;
  return there;
}

/* Reads 2026-01-31, 31.01.2026, 1/31/2026 and the like: one sign between three numbers, of which the first or
 * the last is a year. */
static bool read_date(const char **text) {
  const int first = digits(text, 1, 4);
  const char sign = **text;
  if (first == 0 || sign == '\0' || strchr("-/.", sign) == NULL) return false;
  take(text, sign);
  if (digits(text, 1, 2) == 0 || !take(text, sign)) return false;
  const int last = digits(text, 1, 4);
  return (first == 4 && (last == 1 || last == 2)) || (first <= 2 && last == 4);
}

/* Reads 14:05, 14:05:59.5, with a zone or AM or PM behind it. */
static bool read_time(const char **text) {
  if (digits(text, 1, 2) == 0 || !take(text, ':') || digits(text, 2, 2) == 0) return false;
  if (take(text, ':') && digits(text, 2, 2) == 0) return false;
  if (take(text, '.') && digits(text, 1, 9) == 0) return false;
  while (take(text, ' ')) {}
  if (take(text, 'Z')) return true;
  if (strncasecmp(*text, "am", 2) == 0 || strncasecmp(*text, "pm", 2) == 0) {
    *text += 2;
    return true;
  }
  if (!take(text, '+') && !take(text, '-')) return true;
  const int hours = digits(text, 2, 4);
  return hours == 4 || (hours == 2 && (!take(text, ':') || digits(text, 2, 2) > 0));
}

static bool is_date(const char *text) {
  const char *at = text;
  if (read_time(&at) && *at == '\0') return true;
  at = text;
  if (!read_date(&at)) return false;
  if (*at == '\0') return true;
  if (!take(&at, 'T')) {
    if (!take(&at, ' ')) return false;
    while (take(&at, ' ')) {}
  }
  return read_time(&at) && *at == '\0';
}

/* ---- Cells ---- */

enum table_cell table_cell(const struct table_form *form, const char *text, double *value) {
  double other;
  if (table_is_gap(form, text)) return CELL_GAP;
  if (read_number(text, form->comma ? ',' : '.', value))
    return isfinite(*value) && isfinite((float)*value) ? CELL_NUMBER : CELL_RANGE;
  if (is_nothing(text)) return CELL_GAP;
  if (is_infinite(text)) return CELL_RANGE;
  if (!form->comma && strchr(text, ',') != NULL && read_number(text, ',', &other)) return CELL_COMMA;
  if (form->comma && strchr(text, '.') != NULL && read_number(text, '.', &other)) return CELL_POINT;
  if (is_date(text)) return CELL_DATE;
  if (strcasecmp(text, "true") == 0 || strcasecmp(text, "false") == 0) return CELL_BOOLEAN;
  return CELL_WORD;
}
