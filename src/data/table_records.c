#include "data/table_records.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "data/scale.h"

enum { PIECE = 512 }; /* columns that are read at once */

neap_status table_records_open(struct source *source, const char *path, const struct table *table,
                               struct table_records *records) {
  *records = (struct table_records){.path = path, .rounded = source->reading == READING_FIRST};
  records->tallies = region_alloc(&source->region, (size_t)table->column_count, sizeof *records->tallies);
  RETURN_IF_NULL(records->tallies);
  return source_temporary_file(source, path, &records->descriptor);
}

/* ---- Writing ---- */

/* Fails because a cell of a column of numbers is not a number. */
static neap_status refuse(const struct csv *csv, const char *column, enum table_cell kind, const char *text) {
  RETURN_IF(
      kind == CELL_POINT, NEAP_BAD_FORMAT,
      "%s: line %lld, column '%s': '%.60s' has a point, but decimal=comma is given, and other cells have "
      "none; write it with a comma or leave the column out (,ignore=%s)",
      csv->path, (long long)csv->line, column, text, column);
  const bool range = kind == CELL_RANGE, comma = kind == CELL_COMMA;
  RETURN_IF(kind == CELL_GAP, NEAP_BAD_FORMAT,
            "%s: line %lld, column '%s': has no value (got '%s'); fill it in, remove the line, fill gaps "
            "with the mean "
            "(,missing=%s) or leave the column out (,ignore=%s)",
            csv->path, (long long)csv->line, column, text, text, column);
  return neap_fail(
      NEAP_BAD_FORMAT,
      "%s: line %lld, column '%s': '%.60s' is not a %s; fix it, say what it is (,%s%.60s or ,words=%s) or "
      "leave the column out (,ignore=%s)",
      csv->path, (long long)csv->line, column, text,
      range ? "finite number of f32 (at most 3.4e38)" : "number, unlike the column's others",
      comma ? "decimal=comma" : "missing=", comma ? "" : text, column, column);
}

/* Fails because a label has no value, or none that it may have. */
static neap_status refuse_label(const struct csv *csv, const char *column, enum table_cell kind,
                                const char *text, const char *wanted) {
  const bool gap = kind == CELL_GAP, class = strcmp(wanted, "class") == 0;
  return neap_fail(NEAP_BAD_FORMAT, "%s: line %lld, column '%s': '%.60s' is not a %s%s%s%s%s", csv->path,
                   (long long)csv->line, column, text, wanted, class && !gap ? " of the training part" : "",
                   gap ? "; fill it in or remove the line" : "",
                   gap && class ? ", or take it as one: ,words=" : "", gap && class ? column : "");
}

neap_status table_put_label(const struct csv *csv, const struct table *table, const char *text,
                            double *number) {
  const struct table_column *label = &table->label;
  double value;
  const enum table_cell kind = table_cell(&table->form, text, &value);
  if (label->word_count == 0) {
    if (kind != CELL_NUMBER) return refuse_label(csv, label->name, kind, text, "number");
    *number = value;
    return NEAP_OK;
  }
  *number = (double)table_find_class(table, text);
  return *number >= 0 ? NEAP_OK : refuse_label(csv, label->name, kind, text, "class");
}

static neap_status count_unseen(struct source *source, struct table_tally *tally, const struct csv *csv,
                                const char *text) {
  if (tally->unseen++ > 0) return NEAP_OK;
  tally->line = csv->line;
  tally->text = region_format(&source->region, "%.60s", text);
  RETURN_IF_NULL(tally->text);
  return NEAP_OK;
}

neap_status table_records_add(struct source *source, struct table_records *records, const struct csv *csv,
                              const struct table *table, const size_t *map, double label, double *numbers) {
  for (int64_t i = 0; i < table->column_count; i++) {
    const struct table_column *column = &table->columns[i];
    const char *text = csv_cell(csv, map[i]);
    if (column->word_count == 0) {
      const enum table_cell kind = table_cell(&table->form, text, &numbers[i]);
      if (kind == CELL_GAP && table_is_gap(&table->form, text))
        numbers[i] = (double)NAN;
      else if (kind != CELL_NUMBER)
        return refuse(csv, column->name, kind, text);
      if (records->rounded) numbers[i] = (double)(float)numbers[i];
      continue;
    }
    numbers[i] = (double)table_find_word(column, text);
    if (numbers[i] < 0 && !table_is_gap(&table->form, text))
      TRY(count_unseen(source, &records->tallies[i], csv, text));
  }
  const bool value = table->label.word_count == 0;
  numbers[table->column_count] = value && records->rounded ? (double)(float)label : label;
  return source_write_file(csv->path, records->descriptor, numbers,
                           (size_t)(table->column_count + 1) * sizeof *numbers);
}

/* ---- Reading ---- */

/* Reads `count` numbers of a record, from that of column `first` on. */
static neap_status read_piece(const struct table_records *records, const struct table *table, int64_t place,
                              int64_t first, int64_t count, double *numbers) {
  const uint64_t at = (uint64_t)(place * (table->column_count + 1) + first) * sizeof *numbers;
  return file_need_at(records->path, records->descriptor, at, numbers, (size_t)count * sizeof *numbers);
}

neap_status table_records_label(const struct table_records *records, const struct table *table, int64_t place,
                                double *label) {
  return read_piece(records, table, place, table->column_count, 1, label);
}

static neap_status check_feature(const struct table_records *records, const struct table_column *column,
                                 int64_t place, double number, float feature) {
  RETURN_IF(!isfinite(feature), NEAP_BAD_FORMAT,
            "%s: record %lld, column '%s': %g is too far from the training mean to be standardised; fix it "
            "or leave the "
            "column out (,ignore=%s)",
            records->path, (long long)place + 1, column->name, number, column->name);
  return NEAP_OK;
}

/* Reads a record as features, or as its numbers: whichever is not NULL. */
static neap_status read_columns(const struct table_records *records, const struct table *table, int64_t place,
                                const struct scale *scale, float *features, double *numbers) {
  double piece[PIECE];
  for (int64_t i = 0; i < table->column_count; i++) {
    const struct table_column *column = &table->columns[i];
    const int64_t left = table->column_count - i, first = column->first;
    if (i % PIECE == 0) TRY(read_piece(records, table, place, i, left < PIECE ? left : PIECE, piece));
    const double number = piece[i % PIECE];
    for (int64_t word = 0; word < column->word_count; word++) {
      if (features != NULL) features[first + word] = (double)word == number;
      if (numbers != NULL) numbers[first + word] = (double)word == number;
    }
    if (column->word_count > 0) continue;
    if (numbers != NULL) numbers[first] = number;
    if (features == NULL) continue;
    features[first] = scale_apply(scale, first, number);
    TRY(check_feature(records, column, place, number, features[first]));
  }
  return NEAP_OK;
}

neap_status table_records_features(const struct table_records *records, const struct table *table,
                                   int64_t place, const struct scale *scale, float *features) {
  return read_columns(records, table, place, scale, features, NULL);
}

neap_status table_records_numbers(const struct table_records *records, const struct table *table,
                                  int64_t place, double *numbers) {
  return read_columns(records, table, place, NULL, NULL, numbers);
}

neap_status table_records_tell(struct source *source, const struct table_records *records,
                               const struct table *table) {
  for (int64_t i = 0; i < table->column_count; i++) {
    const struct table_tally *tally = &records->tallies[i];
    if (tally->unseen == 0) continue;
    const char *why =
        region_format(&source->region, "'%s' in line %lld%s was not seen in training", tally->text,
                      (long long)tally->line, tally->unseen > 1 ? " and others" : "");
    RETURN_IF_NULL(why);
    TRY(understood_add(
        &source->understood, &source->region,
        (neap_understood){table->columns[i].name, "unseen words, taken as none", tally->unseen, why}));
  }
  return NEAP_OK;
}
