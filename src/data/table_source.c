/* Reads tables as data:
 * "csv:FILE[,label=COLUMN][,task=classes|regression][,test=FILE][,ignore=A;B][,words=A;B]
 * [,missing=NA;None][,decimal=comma|point][,holdout=0.1][,seed=0][,text=COLUMN]". The first line names the
 * columns. Columns of numbers are standardised by the training part, in double; each word of the others
 * becomes a 1 among zeros. Records are numbers in a temporary file (table_records.h); the process holds none.
 * With text= a record is the text of one column, in tokens (table_texts.h). Classes keep the model's order if
 * the model has all of them. A run that goes on has the columns, classes and scales that it began with. */
#include <string.h>
#include <strings.h>

#include "data/encoding.h"
#include "data/holdout.h"
#include "data/readers.h"
#include "data/scale.h"
#include "data/table_records.h"
#include "data/table_scan.h"
#include "data/table_texts.h"

struct table_source {
  const char *path;
  struct table table;
  struct table_records records; /* or, if they are texts, */
  struct table_texts texts;
  const int32_t *places[SPLITS]; /* of records in the file; NULL: one after the other from first on */
  int64_t first[SPLITS];
};

static int64_t place_of(const struct table_source *t, enum split split, int64_t record) {
  return t->places[split] != NULL ? t->places[split][record] : t->first[split] + record;
}

static int64_t length_of(const struct source *source, enum split split, int64_t record) {
  const struct table_source *t = source->context;
  return t->texts.records.data[place_of(t, split, record)].count;
}

static neap_status read_label(const struct table_source *t, int64_t place, double *label) {
  if (!table_is_text(&t->table)) return table_records_label(&t->records, &t->table, place, label);
  *label = t->texts.records.data[place].label;
  return NEAP_OK;
}

static neap_status read_record(const struct source *source, enum split split, int64_t record,
                               const struct draw *draw, void *const *fields, int64_t *lengths) {
  (void)draw;
  const struct table_source *t = source->context;
  const int64_t place = place_of(t, split, record);
  double label;
  if (fields[1] != NULL) {
    TRY(read_label(t, place, &label));
    if (t->table.label.word_count > 0)
      *(int32_t *)fields[1] = (int32_t)label;
    else
      *(float *)fields[1] = scale_apply(&source->scales[1], 0, label);
  }
  if (table_is_text(&t->table)) return table_texts_read(&t->texts, place, fields[0], lengths);
  return fields[0] != NULL
             ? table_records_features(&t->records, &t->table, place, &source->scales[0], fields[0])
             : NEAP_OK;
}

static neap_status read_numbers(const struct source *source, enum split split, int64_t record, int field,
                                double *numbers) {
  const struct table_source *t = source->context;
  const int64_t place = place_of(t, split, record);
  return field == 1 ? read_label(t, place, numbers)
                    : table_records_numbers(&t->records, &t->table, place, numbers);
}

/* ---- Writing records as numbers ---- */

/* Returns true if records are predicted for, so that they need no label. */
static bool predicts(const struct source *source) { return source->task.encoding != NULL; }

/* Returns the name of the table's column that differs from a name in case alone; NULL: none does. */
static const char *find_alike(const struct table *table, const char *name) {
  for (int64_t i = 0; i <= table->column_count; i++) {
    const char *column = i < table->column_count ? table->columns[i].name : table->label.name;
    if (column != NULL && strcasecmp(column, name) == 0 && strcmp(column, name) != 0) return column;
  }
  return NULL;
}

/* Tells of a column of a file that the table does not have. */
static neap_status tell_unknown(struct source *source, const struct table *table, const char *name) {
  const char *alike = find_alike(table, name), *why = NULL;
  const bool label = alike != NULL && table->label.name != NULL && strcmp(alike, table->label.name) == 0;
  if (alike != NULL) {
    why = region_format(
        &source->region,
        "training had no such column, but %s '%s', which differs in upper and lower case alone; "
        "rename it if it is that",
        label ? "the label" : "a column", alike);
    RETURN_IF_NULL(why);
  }
  const char *became = alike != NULL ? "left out, unknown" : "left out, not learned from";
  return understood_add(&source->understood, &source->region, (neap_understood){name, became, -1, why});
}

/* Tells of the columns of a file that the table does not have. */
static neap_status tell_unused(struct source *source, const struct table *table, const struct csv *csv,
                               const size_t *map, size_t count) {
  bool *used = region_alloc(&source->region, csv->fields.count, sizeof *used);
  RETURN_IF_NULL(used);
  for (size_t i = 0; i < count; i++)
    if (map[i] < csv->fields.count) used[map[i]] = true;
  for (size_t field = 0; field < csv->fields.count; field++) {
    if (!used[field]) TRY(tell_unknown(source, table, csv_cell(csv, field)));
  }
  return NEAP_OK;
}

/* Returns true if a name of the header differs from this one in case alone. */
static bool has_alike(const struct csv *csv, const char *name) {
  for (size_t i = 0; i < csv->fields.count; i++)
    if (strcasecmp(csv_cell(csv, i), name) == 0) return true;
  return false;
}

/* Finds the field of each column of the table in a file, by the names in its header. The last is the label,
 * which may be missing if the data are only predicted for. */
static neap_status map_columns(struct source *source, const struct table *table, struct csv *csv,
                               size_t **map) {
  bool any;
  struct csv_name *names;
  const size_t count = (size_t)table->column_count + 1;
  TRY(csv_next(csv, &any));
  TRY(csv_sort_names(csv, &source->region, &names));
  *map = region_alloc(&source->region, count, sizeof **map);
  RETURN_IF_NULL(*map);
  for (size_t i = 0; i < count; i++) {
    const char *name = i + 1 < count ? table->columns[i].name : table->label.name;
    size_t field = name == NULL ? csv->fields.count : csv_find_name(names, csv->fields.count, name);
    if (any && field == csv->fields.count && i + 1 == count && predicts(source)) {
      source->unlabelled = true;
      field = SIZE_MAX;
    }
    RETURN_IF(!any || field == csv->fields.count, NEAP_BAD_FORMAT,
              "%s: column '%s' of the training part is missing%s", csv->path, name,
              has_alike(csv, name) ? "; a name that differs in upper and lower case alone is another one"
                                   : "");
    (*map)[i] = field;
  }
  return predicts(source) && !table_is_text(table) ? tell_unused(source, table, csv, *map, count) : NEAP_OK;
}

/* Appends a record to the file. */
static neap_status put_record(struct source *source, const struct csv *csv, const size_t *map,
                              double *numbers) {
  struct table_source *t = source->context;
  const struct table *table = &t->table;
  const size_t field = map[table->column_count];
  double label = table->label.word_count > 0 ? -1 : 0;
  if (field != SIZE_MAX) TRY(table_put_label(csv, table, csv_cell(csv, field), &label));
  return table_is_text(table)
             ? table_texts_add(source, &t->texts, csv, table->columns[0].name, csv_field(csv, map[0]), label)
             : table_records_add(source, &t->records, csv, table, map, label, numbers);
}

/* Writes all records of a file to the temporary one; those that cannot be written are added to the
 * problems. */
static neap_status write_records(struct source *source, struct csv *csv, int64_t *rows) {
  enum { PROBLEM_LIMIT = 1000 };
  struct table_source *t = source->context;
  const struct table *table = &t->table;
  bool any;
  size_t *map, header;
  double *numbers = region_alloc(&source->region, (size_t)table->column_count + 1, sizeof *numbers);
  RETURN_IF_NULL(numbers);
  TRY(csv_rewind(csv));
  TRY(map_columns(source, table, csv, &map));
  header = csv->fields.count;
  for (*rows = 0; source->problems.list.count < PROBLEM_LIMIT; ++*rows) {
    TRY(csv_next(csv, &any));
    if (!any) break;
    neap_status status = csv_check_fields(csv, header);
    if (status == NEAP_OK) status = put_record(source, csv, map, numbers);
    TRY(problems_add(&source->problems, &source->region, csv->line, status));
  }
  return problems_tell(&source->problems, csv->path);
}

/* ---- Opening ---- */

static bool has_decimal_comma(const struct table_words *words) {
  return words->decimal != NULL && strcmp(words->decimal, "comma") == 0;
}

static neap_status add_test_file(struct source *source, const struct table_words *words) {
  struct csv csv;
  neap_status status = csv_open(words->test, &csv);
  csv.exact = source->reading == READING_FIRST;
  if (status == NEAP_OK) status = csv_settle(&csv, has_decimal_comma(words));
  if (status == NEAP_OK) status = write_records(source, &csv, &source->records[SPLIT_TEST]);
  csv_close(&csv);
  TRY(status);
  RETURN_IF(words->holdout != NULL, NEAP_INVALID_ARGUMENT,
            "data 'csv': holdout=%s and test=%s are both given; give one of them", words->holdout,
            words->test);
  RETURN_IF(source->records[SPLIT_TEST] == 0, NEAP_BAD_FORMAT, "%s: has no records", words->test);
  return NEAP_OK;
}

static neap_status hold_out(struct source *source, const struct table_words *words, int64_t rows) {
  struct table_source *t = source->context;
  bool *held;
  RETURN_IF(rows > INT32_MAX, NEAP_TOO_LARGE, "%s: has more than %d records", t->path, INT32_MAX);
  TRY(holdout_draw(source, words->holdout, words->seed, rows, &held));
  for (int s = 0; s < SPLITS; s++) {
    int32_t *places = region_alloc(&source->region, (size_t)rows, sizeof *places);
    RETURN_IF_NULL(places);
    source->records[s] = 0;
    for (int64_t i = 0; i < rows; i++)
      if (held[i] == (s == SPLIT_TEST)) places[source->records[s]++] = (int32_t)i;
    t->places[s] = places;
  }
  return NEAP_OK;
}

/* Takes the scales of columns of numbers; words are not scaled. */
static neap_status take_scales(struct source *source) {
  const struct table_source *t = source->context;
  const bool known = source->task.encoding != NULL || source->task.before != NULL;
  TRY(scale_take(source, 0));
  for (int64_t i = 0; i < t->table.column_count && !known; i++)
    for (int64_t k = 0; k < t->table.columns[i].word_count; k++) {
      source->scales[0].mean[t->table.columns[i].first + k] = 0;
      source->scales[0].deviation[t->table.columns[i].first + k] = 1;
    }
  return t->table.label.word_count == 0 ? scale_take(source, 1) : NEAP_OK;
}

/* Divides the records into parts. With an encoding all are test records, unless the file is the one that the
 * model learned from. */
static neap_status settle_parts(struct source *source, const struct table_words *words, int64_t rows) {
  struct table_source *t = source->context;
  if (predicts(source) && words->test == NULL && words->holdout == NULL) {
    source->records[SPLIT_TRAIN] = t->first[SPLIT_TEST] = 0;
    source->records[SPLIT_TEST] = rows;
    return NEAP_OK;
  }
  source->records[SPLIT_TRAIN] = t->first[SPLIT_TEST] = rows;
  return words->test != NULL ? add_test_file(source, words) : hold_out(source, words, rows);
}

/* Reports the uses of a table's columns. */
static neap_status tell_known(struct source *source, const struct table *table) {
  for (int64_t i = 0; i <= table->column_count; i++) {
    const bool label = i == table->column_count;
    const struct table_column *column = label ? &table->label : &table->columns[i];
    const bool words = column->word_count > 0;
    TRY(understood_add(&source->understood, &source->region,
                       (neap_understood){column->name,
                                         label ? (words ? "the label, of classes" : "the label, a value")
                                               : (words ? "words" : "numbers"),
                                         words ? column->word_count : -1, NULL}));
  }
  return NEAP_OK;
}

/* Takes the columns that the model was trained on from an encoding. For texts the name may give other
 * columns. */
static neap_status take_known(struct source *source, const struct table_words *words,
                              const struct encoding *encoding) {
  struct table_source *t = source->context;
  const struct table *known = encoding->table;
  RETURN_IF(known == NULL, NEAP_INVALID_ARGUMENT,
            "%s: is a table, but the model was trained on %s:", words->file, encoding->source);
  t->table = *known;
  TRY(table_read_form(source, words, &t->table.form));
  TRY(table_take_values(&source->region, &t->table.form, &t->table.label));
  RETURN_IF(words->text != NULL && !table_is_text(known), NEAP_INVALID_ARGUMENT,
            "%s: text=%s: the model was trained on the columns of a table, not on texts", words->file,
            words->text);
  if (!table_is_text(known)) return tell_known(source, known);
  t->table.columns = region_copy(&source->region, known->columns, 1, sizeof *known->columns);
  RETURN_IF_NULL(t->table.columns);
  if (words->text != NULL) t->table.columns[0].name = words->text;
  const bool labelled = known->label.name != NULL || known->label.word_count > 0;
  if (words->label != NULL && labelled) t->table.label.name = words->label;
  RETURN_IF(t->table.columns[0].name == NULL, NEAP_INVALID_ARGUMENT,
            "%s: the name of the text column is missing; write csv:%s,text=COLUMN", words->file, words->file);
  return NEAP_OK;
}

/* Gives classes the numbers that they have in the model, if it has all of them. */
static neap_status take_labels(struct source *source, const struct task_labels *labels, struct table *table) {
  const struct table_column *label = &table->label;
  struct table all = {.label = *label, .form = table->form};
  if (labels->count == 0 || labels->values || label->word_count == 0) return NEAP_OK;
  all.label.word_count = labels->count;
  all.label.words = region_copy(&source->region, labels->names, (size_t)labels->count, sizeof *labels->names);
  RETURN_IF_NULL(all.label.words);
  TRY(table_take_values(&source->region, &all.form, &all.label));
  for (int64_t i = 0; i < label->word_count; i++)
    if (table_find_class(&all, label->words[i]) < 0) return NEAP_OK;
  table->label = all.label;
  return NEAP_OK;
}

/* Scans a table of texts. If the name does not say the task, a model of values asks for values. */
static neap_status scan_texts(struct source *source, struct table_words *words, struct csv *csv,
                              int64_t *rows) {
  struct table_source *t = source->context;
  struct task_labels labels = {0};
  if (source->task.texts != NULL)
    TRY(source->task.texts->read_labels(source->task.model, &source->region, &labels));
  if (words->task == NULL && labels.values) words->task = "regression";
  TRY(table_scan(source, words, csv, &t->table, rows));
  return take_labels(source, &labels, &t->table);
}

static neap_status describe_table(struct source *source, struct table_words *words, struct csv *csv,
                                  int64_t *rows) {
  struct table_source *t = source->context;
  const struct encoding *before = source->task.before;
  if (predicts(source)) return take_known(source, words, source->task.encoding);
  if (before != NULL && before->table != NULL) return take_known(source, words, before);
  TRY(table_read_form(source, words, &t->table.form));
  return words->text != NULL ? scan_texts(source, words, csv, rows)
                             : table_scan(source, words, csv, &t->table, rows);
}

static neap_status add_fields(struct source *source) {
  struct table_source *t = source->context;
  const bool values = t->table.label.word_count == 0;
  source->classes = values ? 1 : t->table.label.word_count;
  if (!values) source->class_names = (const char *const *)t->table.label.words;
  TRY(table_is_text(&t->table)
          ? table_texts_finish(source, &t->texts, values)
          : source_add_field(source, (struct field){"features", NEAP_F32, 1, {t->table.width}, false}));
  return source_add_field(source, values ? (struct field){"label", NEAP_F32, 1, {1}, false}
                                         : (struct field){"label", NEAP_I32, 0, {0}, false});
}

static neap_status open_table(struct source *source, struct table_words *words, struct csv *csv) {
  struct table_source *t = source->context;
  int64_t rows;
  TRY(describe_table(source, words, csv, &rows));
  const bool text = table_is_text(&t->table);
  TRY(text ? table_texts_open(source, words->file, &t->texts)
           : table_records_open(source, words->file, &t->table, &t->records));
  TRY(write_records(source, csv, &rows));
  source->table = &t->table;
  source->kind = text ? NEAP_TASK_TEXTS : NEAP_TASK_FEATURES;
  source->read = read_record;
  source->read_numbers = read_numbers;
  TRY(settle_parts(source, words, rows));
  TRY(add_fields(source));
  if (!text) TRY(table_records_tell(source, &t->records, &t->table));
  if (text && source->task.any_length) source->length = length_of;
  return text ? NEAP_OK
              : take_scales(source); /* values of texts stay as they are: so pretrained heads have them */
}

static void close_table(struct source *source) {
  struct table_source *t = source->context;
  table_texts_close(&t->texts);
}

neap_status table_open(const char *argument, struct source *source) {
  static const char *const keys[] = {"",     "label", "task",    "test",  "ignore",  "holdout",
                                     "seed", "text",  "missing", "words", "decimal", NULL};
  static const struct table_source none;
  struct table_words words = {0};
  struct csv csv;
  TRY(source_parse(source, argument, keys,
                   (const char **const[]){&words.file, &words.label, &words.task, &words.test, &words.ignore,
                                          &words.holdout, &words.seed, &words.text, &words.missing,
                                          &words.words, &words.decimal}));
  struct table_source *t = region_copy(&source->region, &none, 1, sizeof none);
  RETURN_IF_NULL(t);
  source->context = t;
  source->close = close_table;
  t->path = words.file;
  neap_status status = csv_open(words.file, &csv);
  csv.exact = source->reading == READING_FIRST;
  if (status == NEAP_OK) status = csv_settle(&csv, has_decimal_comma(&words));
  if (status == NEAP_OK) status = open_table(source, &words, &csv);
  csv_close(&csv);
  return status;
}
