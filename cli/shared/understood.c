/* Prints what data were read as: in brief for people, complete for --json. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "shared/format.h"
#include "shared/understood.h"

enum { SHOWN = 4, REASONS = 3 };

json_t *understood_json(const neap_understood *rows, int64_t count) {
  json_t *list = json_array();
  for (int64_t i = 0; i < count; i++) {
    const neap_understood *row = &rows[i];
    json_array_append_new(
        list, json_pack("{s:s, s:s, s:o, s:s?}", "object", row->object, "became", row->became, "count",
                        row->count >= 0 ? json_integer(row->count) : json_null(), "why", row->why));
  }
  return list;
}

/* Returns true if the row has the fate of an earlier one. */
static bool is_told(const neap_understood *rows, int64_t i) {
  for (int64_t k = 0; k < i; k++)
    if (strcmp(rows[k].became, rows[i].became) == 0) return true;
  return false;
}

/* Prints "words: town (3), kind (2) and 4 more", and the first reasons below. */
static void print_fate(FILE *f, const char *title, const neap_understood *rows, int64_t first,
                       int64_t count) {
  int64_t objects = 0, reasons = 0;
  fprintf(f, "%-13s %s: ", title, rows[first].became);
  for (int64_t i = first; i < count; i++) {
    if (strcmp(rows[i].became, rows[first].became) != 0 || objects++ >= SHOWN) continue;
    fprintf(f, "%s%s", objects > 1 ? ", " : "", name_text(rows[i].object).text);
    if (rows[i].count >= 0) fprintf(f, " (%lld)", (long long)rows[i].count);
  }
  if (objects > SHOWN) fprintf(f, " and %lld more", (long long)(objects - SHOWN));
  fputc('\n', f);
  for (int64_t i = first; i < count && reasons < REASONS; i++)
    if (strcmp(rows[i].became, rows[first].became) == 0 && rows[i].why != NULL) {
      fprintf(f, "  %-11s %s: %s\n", "", name_text(rows[i].object).text, rows[i].why);
      reasons++;
    }
}

void print_understood(FILE *f, const neap_understood *rows, int64_t count) {
  const char *title = "read as";
  for (int64_t i = 0; i < count; i++) {
    if (is_told(rows, i)) continue;
    print_fate(f, title, rows, i, count);
    title = "";
  }
}
