#include "data/table_scan.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_LIMIT = 1000, PROBLEM_LIMIT = 1000, COLUMN_LIMIT = 1 << 20 };

/* The facts about a column that are known while the file is read. */
struct seen {
  const char *name;
  VECTOR(const char *) words; /* sorted; up to WORD_LIMIT */
  bool many;                  /* there are more */
  bool ignored, as_words, fractions;
  bool commas;                     /* in a number */
  int64_t cells[CELL_KINDS], gaps; /* gaps: that the form takes */
  int64_t odd[CELL_KINDS];         /* the line of the first cell of a kind, and its text */
  const char *odd_text[CELL_KINDS];
};

typedef VECTOR(struct seen) seen_columns;

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

static neap_status see(struct region *region, const struct table_form *form, struct seen *c, const char *text,
                       int64_t line) {
  double value;
  if (c->ignored) return NEAP_OK;
  const enum table_cell kind = table_cell(form, text, &value);
  if (kind == CELL_NUMBER) c->fractions = c->fractions || value != floor(value);
  c->commas = c->commas || (kind == CELL_NUMBER && strchr(text, ',') != NULL);
  if (c->cells[kind]++ == 0) {
    c->odd[kind] = line;
    c->odd_text[kind] = region_format(region, "%.60s", text);
    RETURN_IF_NULL(c->odd_text[kind]);
  }
  const bool gap = kind == CELL_GAP && table_is_gap(form, text);
  c->gaps += gap;
  return c->many || gap ? NEAP_OK : add_word(region, c, text);
}

/* Returns the column of that name; seen->count: no such column. */
static size_t find_column(const seen_columns *seen, const char *name) {
  size_t i = 0;
  while (i < seen->count && strcmp(seen->data[i].name, name) != 0) i++;
  return i;
}

/* Sets a flag of the columns of a list separated by semicolons. Fails if one does not exist. */
static neap_status mark_columns(const char *list, size_t flag, const char *purpose, const char *path,
                                seen_columns *seen) {
  size_t length = 0, i;
  for (const char *name = list; name != NULL; name = name[length] == ';' ? name + length + 1 : NULL) {
    length = strcspn(name, ";");
    if (length == 0) continue;
    for (i = 0; i < seen->count; i++)
      if (strlen(seen->data[i].name) == length && strncmp(seen->data[i].name, name, length) == 0) break;
    RETURN_IF(i == seen->count, NEAP_INVALID_ARGUMENT, "%s: has no column '%.*s' to %s; it has '%s' to '%s'",
              path, (int)length, name, purpose, seen->data[0].name, seen->data[seen->count - 1].name);
    *(bool *)(void *)((char *)&seen->data[i] + flag) = true;
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

/* Fails for a first line of numbers alone, which is a record rather than names; tells of one that counts the
 * columns. */
static neap_status check_names(struct source *source, const struct table_form *form, const struct csv *csv) {
  const size_t count = csv->fields.count;
  double value, first = 0;
  bool counts = true;
  for (size_t i = 0; i < count; i++) {
    const enum table_cell kind = table_cell(form, csv_cell(csv, i), &value);
    if (kind != CELL_NUMBER && kind != CELL_COMMA && kind != CELL_POINT) return NEAP_OK;
    if (i == 0) first = value;
    counts = counts && kind == CELL_NUMBER && value == first + (double)i && (first == 0 || first == 1);
  }
  RETURN_IF(!counts, NEAP_BAD_FORMAT,
            "%s: line %lld: is all numbers ('%.40s'%s%.40s%s), but it names the columns; add a line of names "
            "above it",
            csv->path, (long long)csv->line, csv_cell(csv, 0), count > 1 ? ", '" : "",
            count > 1 ? csv_cell(csv, 1) : "",
            count > 2   ? "', ..."
            : count > 1 ? "'"
                        : "");
  return understood_add(
      &source->understood, &source->region,
      (neap_understood){"the first line", "names, though numbers", (int64_t)count,
                        "they count the columns; if it is a record, add a line of names above it"});
}

static neap_status read_header(struct source *source, const struct table_words *words,
                               const struct table_form *form, struct csv *csv, seen_columns *seen) {
  bool any;
  struct csv_name *names;
  TRY(csv_next(csv, &any));
  RETURN_IF(!any, NEAP_BAD_FORMAT, "%s: is empty", csv->path);
  RETURN_IF(csv->fields.count > COLUMN_LIMIT, NEAP_UNSUPPORTED, "%s: has more than %d columns", csv->path,
            COLUMN_LIMIT);
  for (size_t i = 0; i < csv->fields.count; i++) {
    const char *name = region_string(&source->region, csv_cell(csv, i));
    RETURN_IF_NULL(name);
    RETURN_IF(*name == '\0', NEAP_BAD_FORMAT,
              "%s: line %lld: column %zu has no name; the first line has names", csv->path,
              (long long)csv->line, i + 1);
    TRY(vector_push(seen, (struct seen){.name = name}));
  }
  TRY(check_names(source, form, csv));
  TRY(csv_sort_names(csv, &source->region, &names));
  TRY(mark_columns(words->ignore, offsetof(struct seen, ignored), "ignore", csv->path, seen));
  TRY(mark_columns(words->words, offsetof(struct seen, as_words), "take as words", csv->path, seen));
  return words->text != NULL ? look_at_label_alone(words, csv->path, seen) : NEAP_OK;
}

static neap_status read_rows(struct source *source, const struct table_form *form, struct csv *csv,
                             seen_columns *seen, int64_t *rows) {
  bool any = true;
  for (*rows = 0; source->problems.list.count < PROBLEM_LIMIT; ++*rows) {
    TRY(csv_next(csv, &any));
    if (!any) return NEAP_OK;
    const neap_status status = csv_check_fields(csv, seen->count);
    if (status != NEAP_OK) {
      TRY(problems_add(&source->problems, &source->region, csv->line, status));
      continue;
    }
    for (size_t i = 0; i < seen->count; i++)
      TRY(see(&source->region, form, &seen->data[i], csv_cell(csv, i), csv->line));
  }
  return NEAP_OK;
}

/* ---- Describing ---- */

/* Returns the number of cells that are neither numbers nor gaps. */
static int64_t count_others(const struct seen *c) {
  int64_t others = 0;
  for (int kind = 0; kind < CELL_KINDS; kind++)
    others += kind != CELL_NUMBER && kind != CELL_GAP ? c->cells[kind] : 0;
  return others;
}

/* Returns true if at least nine tenths of the cells, gaps aside, are numbers. */
static bool is_numeric(const struct seen *c, int64_t numbers) {
  return !c->as_words && numbers > 0 && numbers >= 9 * (c->cells[CELL_NUMBER] + count_others(c) - numbers);
}

/* Returns the first kind of cell, other than numbers and gaps, in the order of lines. */
static enum table_cell first_odd(const struct seen *c) {
  enum table_cell first = CELL_WORD;
  for (int kind = 0; kind < CELL_KINDS; kind++)
    if (kind != CELL_NUMBER && kind != CELL_GAP && c->cells[kind] > 0 &&
        (c->cells[first] == 0 || c->odd[kind] < c->odd[first]))
      first = (enum table_cell)kind;
  return first;
}

static neap_status tell(struct source *source, const struct seen *c, const char *became, int64_t count,
                        const char *why) {
  return understood_add(&source->understood, &source->region, (neap_understood){c->name, became, count, why});
}

static neap_status take_words(struct source *source, const struct seen *c, struct table_column *column) {
  column->word_count = (int64_t)c->words.count;
  column->words = region_copy(&source->region, c->words.data, c->words.count, sizeof *c->words.data);
  RETURN_IF_NULL(column->words);
  return NEAP_OK;
}

/* Returns true if at least nine tenths of the cells, gaps aside, are dates. */
static bool is_date(const struct seen *c) {
  const int64_t cells = c->cells[CELL_NUMBER] + count_others(c);
  return cells > 0 && 10 * c->cells[CELL_DATE] >= 9 * cells;
}

/* Returns true for a word with digits first, behind a sign of a currency or none: $5, 12 %, 5 kg. */
static bool is_amount(const char *word) {
  static const char *const signs[] = {"+", "-", "(", "$", "\xE2\x82\xAC", "\xC2\xA3", "\xC2\xA5"};
  for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
    if (strncmp(word, signs[i], strlen(signs[i])) == 0) word += strlen(signs[i]);
  while (*word == ' ') word++;
  return *word >= '0' && *word <= '9';
}

/* Returns true if most words of a column are amounts. */
static bool has_amounts(const struct seen *c) {
  size_t count = 0;
  for (size_t i = 0; i < c->words.count; i++) count += is_amount(c->words.data[i]);
  return 2 * count > c->words.count;
}

/* Tells of a column of words, and which of them are something else. */
static neap_status tell_words(struct source *source, const struct seen *c) {
  const int64_t cells = c->cells[CELL_NUMBER] + count_others(c);
  const char *became = "words", *why = NULL;
  if (c->cells[CELL_BOOLEAN] == cells && cells > 0) became = "words, true or false";
  if (is_date(c)) {
    became = "words, though dates";
    why = region_format(&source->region,
                        "they become %zu words: leave the column out (,ignore=%s), or make it a number",
                        c->words.count, c->name);
    RETURN_IF_NULL(why);
  }
  if (!is_date(c) && !c->as_words && has_amounts(c)) {
    why =
        region_format(&source->region, "words such as '%.40s': if they are amounts, keep their digits alone",
                      c->words.data[0]);
    RETURN_IF_NULL(why);
  }
  if (c->cells[CELL_NUMBER] > 0 && !c->as_words) {
    why = region_format(&source->region, "%lld of its %lld cells are numbers",
                        (long long)c->cells[CELL_NUMBER], (long long)cells);
    RETURN_IF_NULL(why);
  }
  return tell(source, c, became, (int64_t)c->words.count, why);
}

static neap_status tell_gaps(struct source *source, const struct seen *c, const char *became) {
  return c->gaps > 0 ? tell(source, c, became, c->gaps, NULL) : NEAP_OK;
}

/* Fails if a column would be of numbers but for their decimal commas or points. */
static neap_status check_decimals(const char *path, const struct seen *c) {
  RETURN_IF(is_numeric(c, c->cells[CELL_NUMBER] + c->cells[CELL_COMMA]), NEAP_BAD_FORMAT,
            "%s: line %lld, column '%s': '%s' has a decimal comma; say so (,decimal=comma), or take the "
            "column as words (,words=%s)",
            path, (long long)c->odd[CELL_COMMA], c->name, c->odd_text[CELL_COMMA], c->name);
  const int64_t numbers = c->cells[CELL_NUMBER], points = c->cells[CELL_POINT];
  RETURN_IF(
      !c->commas && points >= numbers && is_numeric(c, numbers + points), NEAP_BAD_FORMAT,
      "%s: line %lld, column '%s': '%s' has a point, but decimal=comma is given, and no cell of the column "
      "has a comma; leave decimal=comma out, take out points between thousands, or take the column as "
      "words (,words=%s)",
      path, (long long)c->odd[CELL_POINT], c->name, c->odd_text[CELL_POINT], c->name);
  return NEAP_OK;
}

/* Describes a column; *kept is false if it has nothing. What is no number in a column of numbers is reported
 * when records are written. */
static neap_status describe_column(struct source *source, const char *path, const struct seen *c,
                                   struct table_column *column, bool *kept) {
  *column = (struct table_column){.name = c->name};
  const int64_t cells = c->cells[CELL_NUMBER] + count_others(c);
  *kept = cells > 0 || c->as_words;
  if (!*kept) return tell(source, c, "left out, empty", c->cells[CELL_GAP], NULL);
  if (is_numeric(c, c->cells[CELL_NUMBER])) {
    TRY(tell(source, c, "numbers", c->cells[CELL_NUMBER], NULL));
    return tell_gaps(source, c, "gaps, filled with the mean");
  }
  TRY(check_decimals(path, c));
  const enum table_cell odd = first_odd(c);
  RETURN_IF(c->many && c->cells[CELL_NUMBER] > 0 && !c->as_words, NEAP_BAD_FORMAT,
            "%s: line %lld, column '%s': '%s' is not a number, unlike in other lines; fix it or leave the "
            "column out (,ignore=%s)",
            path, (long long)c->odd[odd], c->name, c->odd_text[odd] != NULL ? c->odd_text[odd] : "", c->name);
  RETURN_IF(c->many, NEAP_UNSUPPORTED,
            "%s: column '%s' has more than %d different %s; leave it out (,ignore=%s)", path, c->name,
            WORD_LIMIT, is_date(c) ? "dates" : "words", c->name);
  TRY(take_words(source, c, column));
  TRY(tell_words(source, c));
  return tell_gaps(source, c, "gaps, no word");
}

/* ---- The label ---- */

struct class {
  const char *word;
  double value; /* NaN: the word is no number */
};

static int by_number(const void *a, const void *b) {
  const double x = ((const struct class *)a)->value, y = ((const struct class *)b)->value;
  return (x > y) - (x < y);
}

/* Fails for two numbers that are one in double though they may be two. */
static neap_status check_exact(const char *path, const char *column, const struct class *a,
                               const struct class *b) {
  RETURN_IF(
      fabs(a->value) >= 9007199254740992 /* 2^53 */ && strcmp(a->word, b->word) != 0, NEAP_BAD_FORMAT,
      "%s: column '%s': the classes %s and %s are one number in double precision; take the column as words "
      "(,words=%s)",
      path, column, a->word, b->word, column);
  return NEAP_OK;
}

/* Finds the classes: words that are no gaps, in a column of numbers only those. What else there is, is a
 * problem of its record. Those that are equal as numbers are one, which has the shorter of their names,
 * unless the user takes the column as words. */
static neap_status find_classes(const char *path, const struct table_form *form, const struct seen *c,
                                bool numeric, struct class *classes, size_t *found) {
  size_t count = 0;
  for (size_t i = 0; i < c->words.count; i++) {
    struct class class = {.word = c->words.data[i]};
    const enum table_cell kind = table_cell(form, class.word, &class.value);
    const bool gap = c->as_words ? *class.word == '\0' : kind == CELL_GAP;
    if (gap || (numeric && kind != CELL_NUMBER)) continue;
    if (kind != CELL_NUMBER || c->as_words) class.value = (double)NAN;
    size_t same = 0;
    while (same < count && classes[same].value != class.value) same++;
    if (same < count) TRY(check_exact(path, c->name, &classes[same], &class));
    if (same < count && strlen(classes[same].word) <= strlen(class.word)) continue;
    classes[same] = class;
    count += same == count;
  }
  *found = count;
  return NEAP_OK;
}

static neap_status take_classes(struct source *source, const struct class *classes, size_t count,
                                struct table_column *label) {
  label->word_count = (int64_t)count;
  label->words = region_alloc(&source->region, count, sizeof *label->words);
  double *values = region_alloc(&source->region, count, sizeof *values);
  RETURN_IF(label->words == NULL || values == NULL, NEAP_OUT_OF_MEMORY, "out of memory for classes");
  for (size_t i = 0; i < count; i++) label->words[i] = classes[i].word, values[i] = classes[i].value;
  label->values = values;
  return NEAP_OK;
}

/* Returns true if there are many numbers that are seldom equal: values rather than classes. */
static bool is_ambiguous(const struct table_words *words, const struct seen *c, size_t classes) {
  enum { FEW = 20, EACH = 10 };
  return words->task == NULL && count_others(c) == 0 && classes > FEW &&
         (int64_t)classes * EACH > c->cells[CELL_NUMBER];
}

static neap_status describe_classes(struct source *source, const struct table_words *words, const char *path,
                                    const struct table_form *form, const struct seen *c,
                                    struct table_column *label) {
  const bool numeric = is_numeric(c, c->cells[CELL_NUMBER]);
  RETURN_IF(
      c->fractions && numeric, NEAP_INVALID_ARGUMENT,
      "%s: column '%s' has numbers with fractions; say task=regression, or name another label (,label=)",
      path, c->name);
  struct class *classes = region_alloc(&source->region, c->words.count, sizeof *classes);
  RETURN_IF_NULL(classes);
  size_t count;
  TRY(find_classes(path, form, c, numeric, classes, &count));
  RETURN_IF(!c->many && is_ambiguous(words, c, count), NEAP_INVALID_ARGUMENT,
            "%s: column '%s' has %zu different numbers in %lld records; say task=regression or task=classes",
            path, c->name, count, (long long)c->cells[CELL_NUMBER]);
  RETURN_IF(c->many, NEAP_INVALID_ARGUMENT,
            "%s: column '%s' has more than %d classes; say task=regression, or name another label (,label=)",
            path, c->name, WORD_LIMIT);
  RETURN_IF(count < 2, NEAP_BAD_FORMAT, "%s: column '%s' has only one class; a classifier needs two", path,
            c->name);
  if (numeric) qsort(classes, count, sizeof *classes, by_number);
  TRY(take_classes(source, classes, count, label));
  return tell(source, c, "the label, of classes", (int64_t)count, NULL);
}

static neap_status describe_label(struct source *source, const struct table_words *words, const char *path,
                                  const struct table_form *form, const struct seen *c,
                                  struct table_column *label) {
  const bool regression = words->task != NULL && strcmp(words->task, "regression") == 0;
  const enum table_cell odd = first_odd(c);
  *label = (struct table_column){.name = c->name};
  RETURN_IF(words->task != NULL && !regression && strcmp(words->task, "classes") != 0, NEAP_INVALID_ARGUMENT,
            "data 'csv': task must be classes or regression (got %s)", words->task);
  if (!regression) return describe_classes(source, words, path, form, c, label);
  RETURN_IF(count_others(c) > 0, NEAP_BAD_FORMAT,
            "%s: line %lld, column '%s': '%s' is not a number; task=regression needs numbers%s", path,
            (long long)c->odd[odd], c->name, c->odd_text[odd],
            odd == CELL_COMMA   ? " (,decimal=comma reads those with a comma)"
            : odd == CELL_POINT ? "; decimal=comma is given: leave it out for those with a point"
                                : "");
  return tell(source, c, "the label, a value", c->cells[CELL_NUMBER], NULL);
}

/* ---- The table ---- */

/* Describes a table of texts. */
static neap_status describe_text(struct source *source, const struct table_words *words,
                                 struct table *table) {
  const struct table_column column = {.name = words->text, .text = true};
  table->columns = region_copy(&source->region, &column, 1, sizeof column);
  RETURN_IF_NULL(table->columns);
  table->column_count = 1;
  return NEAP_OK;
}

static neap_status tell_ignored(struct source *source, const struct table_words *words,
                                const struct seen *c) {
  if (words->text == NULL) return tell(source, c, "left out, as you say", -1, NULL);
  return strcmp(c->name, words->text) == 0 ? tell(source, c, "texts", -1, NULL)
                                           : tell(source, c, "left out, beside the text", -1, NULL);
}

static neap_status describe(struct source *source, const struct table_words *words, const char *path,
                            const seen_columns *seen, struct table *table) {
  size_t label;
  const char *first = seen->count > 0 ? seen->data[0].name : "";
  RETURN_IF(seen->count < 2, NEAP_BAD_FORMAT,
            "%s: has one column, '%.100s'; a table needs a label and another column, separated by commas, "
            "semicolons or tabs",
            path, first);
  TRY(choose_label(words, path, seen, &label));
  table->columns = region_alloc(&source->region, seen->count, sizeof *table->columns);
  RETURN_IF_NULL(table->columns);
  for (size_t i = 0; i < seen->count; i++) {
    const struct seen *c = &seen->data[i];
    struct table_column *column = &table->columns[table->column_count];
    bool kept;
    if (i == label) {
      TRY(describe_label(source, words, path, &table->form, c, &table->label));
      continue;
    }
    if (c->ignored) {
      TRY(tell_ignored(source, words, c));
      continue;
    }
    TRY(describe_column(source, path, c, column, &kept));
    if (!kept) continue;
    column->first = table->width;
    table->width += column->word_count > 0 ? column->word_count : 1;
    table->column_count++;
  }
  if (words->text != NULL) return describe_text(source, words, table);
  RETURN_IF(table->width == 0, NEAP_BAD_FORMAT, "%s: has no column to learn from", path);
  return NEAP_OK;
}

/* Splits a list separated by semicolons. */
static neap_status split(struct source *source, const char *list, const char ***items, int64_t *count) {
  int64_t room = 1;
  for (const char *c = list; *c != '\0'; c++) room += *c == ';';
  char *text = region_string(&source->region, list);
  *items = region_alloc(&source->region, (size_t)room, sizeof **items);
  RETURN_IF(text == NULL || *items == NULL, NEAP_OUT_OF_MEMORY, "out of memory for the words of a table");
  *count = 0;
  for (char *rest = text, *item; (item = strsep(&rest, ";")) != NULL;) {
    item = csv_cut_blanks(item);
    if (*item != '\0') (*items)[(*count)++] = item;
  }
  return NEAP_OK;
}

neap_status table_read_form(struct source *source, const struct table_words *words, struct table_form *form) {
  if (words->decimal != NULL) {
    form->comma = strcmp(words->decimal, "comma") == 0;
    RETURN_IF(!form->comma && strcmp(words->decimal, "point") != 0, NEAP_INVALID_ARGUMENT,
              "data 'csv': decimal must be comma or point (got %s)", words->decimal);
  }
  if (words->missing == NULL) return NEAP_OK;
  form->gaps = true;
  return split(source, words->missing, &form->missing, &form->missing_count);
}

neap_status table_scan(struct source *source, const struct table_words *words, struct csv *csv,
                       struct table *table, int64_t *rows) {
  seen_columns seen = {0};
  *table = (struct table){.form = table->form};
  neap_status status = read_header(source, words, &table->form, csv, &seen);
  if (status == NEAP_OK) status = read_rows(source, &table->form, csv, &seen, rows);
  if (status == NEAP_OK) status = problems_tell(&source->problems, csv->path);
  if (status == NEAP_OK && *rows == 0)
    status = neap_fail(NEAP_BAD_FORMAT, "%s: has a header and no records", csv->path);
  if (status == NEAP_OK) status = describe(source, words, csv->path, &seen, table);
  for (size_t i = 0; i < seen.count; i++) vector_free(&seen.data[i].words);
  vector_free(&seen);
  return status;
}
