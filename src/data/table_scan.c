#include "data/table_scan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_LIMIT = 1000, PROBLEM_LIMIT = 1000, COLUMN_LIMIT = 1 << 20 };

/* What is known of a column while the file is read. */
struct seen {
  const char *name;
  VECTOR(const char *) words; /* sorted; up to WORD_LIMIT */
  bool many;                  /* there are more */
  bool ignored, fractions;
  int64_t numbers,
      odd; /* records that have a number; the line of the first that has neither that nor nothing */
  const char *odd_text;
};

typedef VECTOR(struct seen) seen_columns;

bool table_number(const char *text, double *value) {
  static const char digits[] = "0123456789+-.eE";
  while (*text == ' ') text++;
  size_t length = strlen(text);
  while (length > 0 && text[length - 1] == ' ') length--;
  if (length == 0 || strspn(text, digits) < length) return false;
  char *end;
  *value = strtod(text, &end);
  return end == text + length && isfinite(*value) && isfinite((float)*value);
}

bool table_is_missing(const char *text) {
  static const char *const names[] = {"", "NA", "N/A", "NaN", "nan", "null", "?"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(text, names[i]) == 0) return true;
  return false;
}

/* ---- Reading ---- */

static neap_status add_word(struct region *region, struct seen *c, const char *text) {
  size_t low = 0, high = c->words.count;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    const int order = strcmp(c->words.data[middle], text);
    if (order == 0) return NEAP_OK;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  c->many = c->words.count == WORD_LIMIT;
  if (c->many) return NEAP_OK;
  const char *word = region_string(region, text);
  RETURN_IF_NULL(word);
  TRY(vector_push(&c->words, word));
  memmove(c->words.data + low + 1, c->words.data + low, (c->words.count - 1 - low) * sizeof *c->words.data);
  c->words.data[low] = word;
  return NEAP_OK;
}

static neap_status see(struct region *region, struct seen *c, const char *text, int64_t line) {
  double value;
  if (c->ignored) return NEAP_OK;
  if (table_number(text, &value)) {
    c->numbers++;
    c->fractions = c->fractions || value != floor(value);
  } else if (!table_is_missing(text) && c->odd == 0) {
    c->odd = line;
    c->odd_text = region_format(region, "%.60s", text);
    RETURN_IF_NULL(c->odd_text);
  }
  return c->many ? NEAP_OK : add_word(region, c, text);
}

/* Returns the column of that name; seen->count: no such column. */
static size_t find_column(const seen_columns *seen, const char *name) {
  size_t i = 0;
  while (i < seen->count && strcmp(seen->data[i].name, name) != 0) i++;
  return i;
}

/* Has the scan ignore the columns of a list separated by semicolons. Fails if one does not exist. */
static neap_status ignore_columns(const char *list, const char *path, seen_columns *seen) {
  size_t length = 0, i;
  for (const char *name = list; name != NULL; name = name[length] == ';' ? name + length + 1 : NULL) {
    length = strcspn(name, ";");
    if (length == 0) continue;
    for (i = 0; i < seen->count; i++)
      if (strlen(seen->data[i].name) == length && strncmp(seen->data[i].name, name, length) == 0) break;
    RETURN_IF(i == seen->count, NEAP_INVALID_ARGUMENT,
              "%s: has no column '%.*s' to ignore; it has '%s' to '%s'", path, (int)length, name,
              seen->data[0].name, seen->data[seen->count - 1].name);
    seen->data[i].ignored = true;
  }
  return NEAP_OK;
}

static neap_status choose_label(const struct table_words *words, const char *path, const seen_columns *seen,
                                size_t *label) {
  *label = seen->count - 1;
  if (words->label != NULL) {
    *label = find_column(seen, words->label);
    RETURN_IF(*label == seen->count, NEAP_INVALID_ARGUMENT,
              "%s: has no column '%s' for the label; it has '%s' to '%s'", path, words->label,
              seen->data[0].name, seen->data[seen->count - 1].name);
    return NEAP_OK;
  }
  if (words->text != NULL && strcmp(seen->data[*label].name, words->text) == 0) *label = seen->count;
  if (find_column(seen, "target") < seen->count) *label = find_column(seen, "target");
  if (find_column(seen, "label") < seen->count) *label = find_column(seen, "label");
  RETURN_IF(*label == seen->count, NEAP_INVALID_ARGUMENT,
            "%s: its last column contains the text '%s'; name the label (,label=COLUMN)", path, words->text);
  return NEAP_OK;
}

/* Has the scan ignore all columns but the label, in a table of texts. */
static neap_status look_at_label_alone(const struct table_words *words, const char *path,
                                       seen_columns *seen) {
  size_t label;
  RETURN_IF(find_column(seen, words->text) == seen->count, NEAP_INVALID_ARGUMENT,
            "%s: has no column '%s' for the text; it has '%s' to '%s'", path, words->text, seen->data[0].name,
            seen->data[seen->count - 1].name);
  TRY(choose_label(words, path, seen, &label));
  RETURN_IF(strcmp(seen->data[label].name, words->text) == 0, NEAP_INVALID_ARGUMENT,
            "%s: column '%s' is both the text and the label; name another one", path, words->text);
  for (size_t i = 0; i < seen->count; i++) seen->data[i].ignored = i != label;
  return NEAP_OK;
}

static neap_status read_header(struct source *source, const struct table_words *words, struct csv *csv,
                               seen_columns *seen) {
  bool any;
  TRY(csv_next(csv, &any));
  RETURN_IF(!any, NEAP_BAD_FORMAT, "%s: is empty", csv->path);
  RETURN_IF(csv->fields.count > COLUMN_LIMIT, NEAP_UNSUPPORTED, "%s: has more than %d columns", csv->path,
            COLUMN_LIMIT);
  for (size_t i = 0; i < csv->fields.count; i++) {
    const char *name = region_string(&source->region, csv_field(csv, i));
    RETURN_IF_NULL(name);
    RETURN_IF(*name == '\0', NEAP_BAD_FORMAT,
              "%s: line %lld: column %zu has no name; the first line has names", csv->path,
              (long long)csv->line, i + 1);
    for (size_t k = 0; k < i; k++)
      RETURN_IF(strcmp(seen->data[k].name, name) == 0, NEAP_BAD_FORMAT,
                "%s: line %lld: two columns are named '%s'; rename one", csv->path, (long long)csv->line,
                name);
    TRY(vector_push(seen, (struct seen){.name = name}));
  }
  TRY(ignore_columns(words->ignore, csv->path, seen));
  return words->text != NULL ? look_at_label_alone(words, csv->path, seen) : NEAP_OK;
}

static neap_status read_rows(struct source *source, struct csv *csv, seen_columns *seen, int64_t *rows) {
  bool any = true;
  for (*rows = 0; source->problems.list.count < PROBLEM_LIMIT; ++*rows) {
    TRY(csv_next(csv, &any));
    if (!any) return NEAP_OK;
    if (csv->fields.count != seen->count) {
      const neap_status status =
          neap_fail(NEAP_BAD_FORMAT, "%s: line %lld: has %zu fields, but the header has %zu", csv->path,
                    (long long)csv->line, csv->fields.count, seen->count);
      TRY(problems_add(&source->problems, &source->region, csv->line, status));
      continue;
    }
    for (size_t i = 0; i < seen->count; i++)
      TRY(see(&source->region, &seen->data[i], csv_field(csv, i), csv->line));
  }
  return NEAP_OK;
}

/* ---- Describing ---- */

static neap_status take_words(struct source *source, const struct seen *c, struct table_column *column) {
  column->word_count = (int64_t)c->words.count;
  column->words = region_copy(&source->region, c->words.data, c->words.count, sizeof *c->words.data);
  RETURN_IF_NULL(column->words);
  return NEAP_OK;
}

/* Describes a column. If it has numbers, anything else must be a gap; gaps are reported when records are
 * written. */
static neap_status describe_column(struct source *source, const char *path, const struct seen *c,
                                   struct table_column *column) {
  *column = (struct table_column){.name = c->name};
  if (c->odd == 0 && c->numbers > 0) return NEAP_OK;
  RETURN_IF(c->many && c->numbers > 0, NEAP_BAD_FORMAT,
            "%s: line %lld, column '%s': '%s' is not a number, unlike in other lines; fix it or leave the "
            "column out (,ignore=%s)",
            path, (long long)c->odd, c->name, c->odd_text != NULL ? c->odd_text : "", c->name);
  RETURN_IF(c->many, NEAP_UNSUPPORTED,
            "%s: column '%s' has more than %d different words; leave it out (,ignore=%s)", path, c->name,
            WORD_LIMIT, c->name);
  return take_words(source, c, column);
}

static int by_number(const void *a, const void *b) {
  double x = 0, y = 0;
  table_number(*(const char *const *)a, &x);
  table_number(*(const char *const *)b, &y);
  return (x > y) - (x < y);
}

/* Returns true if there are many numbers that are seldom equal: values rather than classes. */
static bool is_ambiguous(const struct table_words *words, const struct seen *c) {
  enum { FEW = 20, EACH = 10 };
  return words->task == NULL && c->odd == 0 && c->words.count > FEW &&
         (int64_t)c->words.count * EACH > c->numbers;
}

static neap_status describe_label(struct source *source, const struct table_words *words, const char *path,
                                  struct seen *c, struct table_column *label) {
  const bool regression = words->task != NULL && strcmp(words->task, "regression") == 0;
  *label = (struct table_column){.name = c->name};
  RETURN_IF(words->task != NULL && !regression && strcmp(words->task, "classes") != 0, NEAP_INVALID_ARGUMENT,
            "data 'csv': task must be classes or regression (got %s)", words->task);
  RETURN_IF(regression && c->odd > 0, NEAP_BAD_FORMAT,
            "%s: line %lld, column '%s': '%s' is not a number; task=regression needs numbers", path,
            (long long)c->odd, c->name, c->odd_text);
  if (regression) return NEAP_OK;
  RETURN_IF(
      c->fractions && c->odd == 0, NEAP_INVALID_ARGUMENT,
      "%s: column '%s' has numbers with fractions; say task=regression, or name another label (,label=)",
      path, c->name);
  RETURN_IF(!c->many && is_ambiguous(words, c), NEAP_INVALID_ARGUMENT,
            "%s: column '%s' has %zu different numbers in %lld records; say task=regression or task=classes",
            path, c->name, c->words.count, (long long)c->numbers);
  RETURN_IF(c->many, NEAP_INVALID_ARGUMENT,
            "%s: column '%s' has more than %d classes; say task=regression, or name another label (,label=)",
            path, c->name, WORD_LIMIT);
  size_t kept = 0; /* what is missing is no class, but a problem of its record */
  for (size_t i = 0; i < c->words.count; i++)
    if (!table_is_missing(c->words.data[i])) c->words.data[kept++] = c->words.data[i];
  c->words.count = kept;
  RETURN_IF(c->words.count < 2, NEAP_BAD_FORMAT, "%s: column '%s' has only one class; a classifier needs two",
            path, c->name);
  TRY(take_words(source, c, label));
  if (c->odd == 0) qsort(label->words, (size_t)label->word_count, sizeof *label->words, by_number);
  return NEAP_OK;
}

/* Describes a table of texts. */
static neap_status describe_text(struct source *source, const struct table_words *words,
                                 struct table *table) {
  const struct table_column column = {.name = words->text, .text = true};
  table->columns = region_copy(&source->region, &column, 1, sizeof column);
  RETURN_IF_NULL(table->columns);
  table->column_count = 1;
  return NEAP_OK;
}

static neap_status describe(struct source *source, const struct table_words *words, const char *path,
                            seen_columns *seen, struct table *table) {
  size_t label;
  RETURN_IF(seen->count < 2, NEAP_BAD_FORMAT,
            "%s: has one column; it needs a label and at least one other column", path);
  TRY(choose_label(words, path, seen, &label));
  TRY(describe_label(source, words, path, &seen->data[label], &table->label));
  if (words->text != NULL) return describe_text(source, words, table);
  table->columns = region_alloc(&source->region, seen->count, sizeof *table->columns);
  RETURN_IF_NULL(table->columns);
  for (size_t i = 0; i < seen->count; i++) {
    if (i == label || seen->data[i].ignored) continue;
    struct table_column *column = &table->columns[table->column_count++];
    TRY(describe_column(source, path, &seen->data[i], column));
    column->first = table->width;
    table->width += column->word_count > 0 ? column->word_count : 1;
  }
  RETURN_IF(table->width == 0, NEAP_BAD_FORMAT, "%s: has no column to learn from", path);
  return NEAP_OK;
}

neap_status table_scan(struct source *source, const struct table_words *words, struct csv *csv,
                       struct table *table, int64_t *rows) {
  seen_columns seen = {0};
  *table = (struct table){0};
  neap_status status = read_header(source, words, csv, &seen);
  if (status == NEAP_OK) status = read_rows(source, csv, &seen, rows);
  if (status == NEAP_OK) status = problems_tell(&source->problems, csv->path);
  if (status == NEAP_OK && *rows == 0)
    status = neap_fail(NEAP_BAD_FORMAT, "%s: has a header and no records", csv->path);
  if (status == NEAP_OK) status = describe(source, words, csv->path, &seen, table);
  for (size_t i = 0; i < seen.count; i++) vector_free(&seen.data[i].words);
  vector_free(&seen);
  return status;
}
