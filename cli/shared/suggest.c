/* Suggests names for one that does not exist. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "shared/exit_status.h"
#include "shared/failure.h"
#include "shared/suggest.h"

enum { WORD_LIMIT = 48 };

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* The least number of letters to insert, drop, replace or swap with the next one. Each letter is touched once
 * (optimal string alignment). */
static size_t distance(const char *a, const char *b) {
  size_t rows[WORD_LIMIT + 1][WORD_LIMIT + 1];
  const size_t m = strlen(a), n = strlen(b);
  if (m > WORD_LIMIT || n > WORD_LIMIT) return SIZE_MAX;
  for (size_t i = 0; i <= m; i++) rows[i][0] = i;
  for (size_t k = 0; k <= n; k++) rows[0][k] = k;
  for (size_t i = 1; i <= m; i++)
    for (size_t k = 1; k <= n; k++) {
      const size_t replaced = rows[i - 1][k - 1] + (a[i - 1] != b[k - 1]);
      rows[i][k] = least(replaced, least(rows[i - 1][k], rows[i][k - 1]) + 1);
      if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
        rows[i][k] = least(rows[i][k], rows[i - 2][k - 2] + 1);
    }
  return rows[m][n];
}

struct suggestion suggest_for(const char *word) {
  const size_t length = strlen(word);
  return (struct suggestion){.word = word, .distance = length < 3 ? 1 : length < 6 ? 2 : 3};
}

void suggest(struct suggestion *s, const char *candidate) {
  const size_t far = distance(s->word, candidate);
  if (far > s->distance || (far == s->distance && s->best[0] != '\0') || far >= strlen(candidate)) return;
  s->distance = far;
  snprintf(s->best, sizeof s->best, "%s", candidate);
}

struct did_you_mean suggestion_text(const struct suggestion *s, const char *before) {
  struct did_you_mean text = {""};
  if (s->best[0] != '\0') snprintf(text.text, sizeof text.text, "; did you mean %s%s?", before, s->best);
  return text;
}

/* ---- Models ---- */

/* Returns whether a name has the form of a pattern, in which each # means a number. */
static bool has_form(const char *name, const char *pattern) {
  for (; *pattern != '\0'; pattern++) {
    if (*pattern != '#') {
      if (*name++ != *pattern) return false;
      continue;
    }
    if (!isdigit((unsigned char)*name)) return false;
    while (isdigit((unsigned char)*name)) name++;
  }
  return *name == '\0';
}

/* The pattern with the numbers of `name` in their order, as far as there are any. */
static void fill_form(const char *pattern, const char *name, char *text, size_t size) {
  size_t at = 0;
  for (; *pattern != '\0' && at + 1 < size; pattern++) {
    name += *pattern == '#' ? strcspn(name, "0123456789") : 0;
    if (*pattern != '#' || *name == '\0') {
      text[at++] = *pattern;
      continue;
    }
    while (isdigit((unsigned char)*name) && at + 1 < size) text[at++] = *name++;
  }
  text[at] = '\0';
}

int check_model_name(const struct verb *verb, const char *name) {
  struct suggestion suggestion = suggest_for(name);
  neap_row row;
  if (neap_model_names_file(name)) return EXIT_DONE;
  for (int32_t i = 0; neap_model_at(i, &row); i++) {
    char filled[WORD_LIMIT + 1];
    if (has_form(name, row.name)) return EXIT_DONE;
    fill_form(row.name, name, filled, sizeof filled);
    suggest(&suggestion, filled);
  }
  return report_usage(verb, "--model %s: unknown model; see `neap models`%s", name,
                      suggestion_text(&suggestion, "").text);
}
