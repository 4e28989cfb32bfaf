#include "data/encoding.h"

#include <string.h>

#include "formats/json.h"

enum { ELEMENT_LIMIT = 1 << 24 };

/* ---- Writing ---- */

bool encoding_applies(const struct source *source) {
  return source->kind == NEAP_TASK_IMAGES || source->kind == NEAP_TASK_PIXELS ||
         source->kind == NEAP_TASK_FEATURES || source->kind == NEAP_TASK_TEXTS;
}

static json_t *numbers_json(const double *numbers, int64_t count) {
  json_t *array = json_array();
  for (int64_t i = 0; i < count; i++)
    if (json_array_append_new(array, json_real(numbers[i])) != 0) {
      json_decref(array);
      return NULL;
    }
  return array;
}

static json_t *words_json(const char *const *words, int64_t count) {
  json_t *array = json_array();
  for (int64_t i = 0; i < count; i++)
    if (json_array_append_new(array, json_string(words[i])) != 0) {
      json_decref(array);
      return NULL;
    }
  return array;
}

static bool put_scale(json_t *object, const char *name, const struct scale *scale) {
  if (scale->count == 0) return true;
  return json_object_set_new(object, name,
                             json_pack("{s:o, s:o}", "mean", numbers_json(scale->mean, scale->count),
                                       "deviation", numbers_json(scale->deviation, scale->count))) == 0;
}

static json_t *columns_json(const struct table *table) {
  json_t *columns = json_array();
  for (int64_t i = 0; i < table->column_count; i++) {
    const struct table_column *c = &table->columns[i];
    json_t *column = json_pack("{s:s}", "name", c->name);
    if (c->text) json_object_set_new(column, "text", json_true());
    if (c->word_count > 0)
      json_object_set_new(column, "words", words_json((const char *const *)c->words, c->word_count));
    if (json_array_append_new(columns, column) != 0) {
      json_decref(columns);
      return NULL;
    }
  }
  return columns;
}

static bool put_table(json_t *object, const struct table *table) {
  const struct table_form *form = &table->form;
  if (json_object_set_new(object, "label", json_string(table->label.name)) != 0 ||
      json_object_set_new(object, "columns", columns_json(table)) != 0)
    return false;
  if (form->gaps &&
      json_object_set_new(object, "missing",
                          words_json((const char *const *)form->missing, form->missing_count)) != 0)
    return false;
  return !form->comma || json_object_set_new(object, "decimal", json_string("comma")) == 0;
}

static bool put_all(json_t *object, const struct source *source, const struct field *input, int label) {
  const bool values = label >= 0 && source->fields[label].dtype == NEAP_F32;
  bool ok = true;
  if (values) ok = json_object_set_new(object, "values", json_true()) == 0;
  if (ok && source->class_names != NULL)
    ok = json_object_set_new(object, "class_names", words_json(source->class_names, source->classes)) == 0;
  if (ok && source_image(source) != NULL)
    ok = json_object_set_new(object, "mean", numbers_json(source->mean, input->dims[0])) == 0 &&
         json_object_set_new(object, "deviation", numbers_json(source->deviation, input->dims[0])) == 0;
  ok = ok && put_scale(object, "input_scale", &source->scales[input - source->fields]);
  if (label >= 0) ok = ok && put_scale(object, "label_scale", &source->scales[label]);
  return ok && (source->table == NULL || put_table(object, source->table));
}

neap_status encoding_save(const struct source *source, const char *path) {
  const struct field *input = &source->fields[source_find_field(source, task_rows[source->kind].input)];
  const int label = source_find_field(source, task_rows[source->kind].label);
  json_t *shape = json_array();
  for (int i = 0; i < input->rank; i++) json_array_append_new(shape, json_integer(input->dims[i]));
  json_t *object =
      json_pack("{s:s, s:i, s:s, s:s, s:o, s:I}", "format", "neap-data", "version", source->reading, "source",
                source->name, "input", input->name, "shape", shape, "classes", (json_int_t)source->classes);
  const bool ok = object != NULL && put_all(object, source, input, label);
  const neap_status status =
      ok ? json_write(object, path)
         : neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory, or a name is not UTF-8", path);
  json_decref(object);
  return status;
}

/* ---- Reading ---- */

struct reader {
  struct json_place place;
  struct region *region;
};

/* Reads the array of numbers of that name. `*count`: how many there must be; negative: any number. */
static neap_status read_numbers(const struct reader *r, const json_t *object, const char *name,
                                int64_t *count, double **numbers) {
  json_t *array, *value;
  size_t i;
  TRY(json_need_array(object, name, &r->place, &array));
  if (*count >= 0 && (int64_t)json_array_size(array) != *count)
    return json_bad_field(&r->place, name, "has the wrong number of elements");
  *count = (int64_t)json_array_size(array);
  *numbers = region_alloc(r->region, (size_t)*count, sizeof **numbers);
  RETURN_IF_NULL(*numbers);
  json_array_foreach(array, i, value) {
    if (!json_is_number(value)) return json_bad_field(&r->place, name, "must contain only numbers");
    (*numbers)[i] = json_number_value(value);
  }
  return NEAP_OK;
}

static neap_status read_words(const struct reader *r, const json_t *object, const char *name, int64_t *count,
                              const char ***words) {
  json_t *array, *value;
  size_t i;
  TRY(json_need_array(object, name, &r->place, &array));
  *count = (int64_t)json_array_size(array);
  *words = region_alloc(r->region, (size_t)*count, sizeof **words);
  RETURN_IF_NULL(*words);
  json_array_foreach(array, i, value) {
    if (!json_is_string(value)) return json_bad_field(&r->place, name, "must contain only strings");
    (*words)[i] = region_string(r->region, json_string_value(value));
    RETURN_IF_NULL((*words)[i]);
  }
  return NEAP_OK;
}

static neap_status read_some_words(const struct reader *r, const json_t *object, const char *name,
                                   int64_t *count, const char ***words) {
  TRY(read_words(r, object, name, count, words));
  return *count > 0 ? NEAP_OK : json_bad_field(&r->place, name, "is empty");
}

static neap_status read_scale(const struct reader *r, const json_t *object, const char *name, int64_t count,
                              struct scale *scale) {
  const json_t *value = json_object_get(object, name);
  if (value == NULL) return NEAP_OK;
  TRY(read_numbers(r, value, "mean", &count, &scale->mean));
  TRY(read_numbers(r, value, "deviation", &count, &scale->deviation));
  for (int64_t i = 0; i < count; i++)
    if (!(scale->deviation[i] > 0))
      return json_bad_field(&r->place, name, "has a deviation that is not above 0");
  scale->count = count;
  return NEAP_OK;
}

static neap_status read_form(const struct reader *r, const json_t *object, struct table_form *form) {
  const char *decimal;
  form->gaps = json_object_get(object, "missing") != NULL;
  if (form->gaps) TRY(read_words(r, object, "missing", &form->missing_count, &form->missing));
  if (json_object_get(object, "decimal") == NULL) return NEAP_OK;
  TRY(json_need_string(object, "decimal", &r->place, &decimal));
  form->comma = strcmp(decimal, "comma") == 0;
  return form->comma ? NEAP_OK : json_bad_field(&r->place, "decimal", "must be 'comma'");
}

static neap_status read_table(const struct reader *r, const json_t *object, struct encoding *e) {
  json_t *columns, *column;
  const char *name;
  size_t i;
  if (json_object_get(object, "columns") == NULL) return NEAP_OK;
  TRY(json_need_array(object, "columns", &r->place, &columns));
  struct table *table = region_alloc(r->region, 1, sizeof *table);
  RETURN_IF_NULL(table);
  table->columns = region_alloc(r->region, json_array_size(columns), sizeof *table->columns);
  RETURN_IF_NULL(table->columns);
  json_array_foreach(columns, i, column) {
    struct table_column *c = &table->columns[table->column_count++];
    TRY(json_need_string(column, "name", &r->place, &name));
    c->name = region_string(r->region, name);
    RETURN_IF_NULL(c->name);
    if (json_object_get(column, "words") != NULL)
      TRY(read_some_words(r, column, "words", &c->word_count, &c->words));
    c->text = json_is_true(json_object_get(column, "text"));
    c->first = table->width;
    table->width += c->text ? 0 : c->word_count > 0 ? c->word_count : 1;
    if (c->text && (json_array_size(columns) > 1 || c->word_count > 0))
      return json_bad_field(&r->place, "columns", "must have no other columns with a text");
  }
  TRY(read_form(r, object, &table->form));
  TRY(json_need_string(object, "label", &r->place, &name));
  table->label.name = region_string(r->region, name);
  RETURN_IF_NULL(table->label.name);
  if (e->class_names != NULL) {
    table->label.word_count = e->classes;
    table->label.words = region_copy(r->region, e->class_names, (size_t)e->classes, sizeof *e->class_names);
    RETURN_IF_NULL(table->label.words);
  }
  if (e->rank != 1 || (!table_is_text(table) && table->width != e->shape[0]))
    return json_bad_field(&r->place, "columns", "must be as many as 'shape' says");
  e->table = table;
  return NEAP_OK;
}

static neap_status read_shape(const struct reader *r, const json_t *object, struct encoding *e) {
  json_t *shape, *value;
  size_t i;
  TRY(json_need_array(object, "shape", &r->place, &shape));
  e->rank = (int)json_array_size(shape);
  if (e->rank != 1 && e->rank != 3) return json_bad_field(&r->place, "shape", "must have 1 or 3 elements");
  json_array_foreach(shape, i, value) {
    e->shape[i] = json_integer_value(value);
    const int64_t most = e->rank == 1 ? ELEMENT_LIMIT : i == 0 ? SOURCE_MAX_CHANNELS : SOURCE_MAX_SIDE;
    if (e->shape[i] < 1 || e->shape[i] > most) return json_bad_field(&r->place, "shape", "is out of range");
  }
  return NEAP_OK;
}

static neap_status read_all(const struct reader *r, const json_t *object, struct encoding *e) {
  uint64_t classes;
  const char **words, *text;
  int64_t count;
  TRY(json_need_string(object, "source", &r->place, &text));
  RETURN_IF_NULL(e->source = region_string(r->region, text));
  TRY(json_need_string(object, "input", &r->place, &text));
  RETURN_IF_NULL(e->input = region_string(r->region, text));
  TRY(read_shape(r, object, e));
  TRY(json_need_size(object, "classes", &r->place, &classes));
  if (classes < 1 || classes > ELEMENT_LIMIT) return json_bad_field(&r->place, "classes", "is out of range");
  e->classes = (int64_t)classes;
  e->values = json_is_true(json_object_get(object, "values"));
  if (json_object_get(object, "class_names") != NULL) {
    TRY(read_some_words(r, object, "class_names", &count, &words));
    if (count != e->classes) return json_bad_field(&r->place, "class_names", "must be as many as 'classes'");
    e->class_names = words;
  }
  if (json_object_get(object, "mean") != NULL) {
    double *mean, *deviation;
    count = e->shape[0];
    if (e->rank != 3) return json_bad_field(&r->place, "mean", "only applies to images");
    TRY(read_numbers(r, object, "mean", &count, &mean));
    TRY(read_numbers(r, object, "deviation", &count, &deviation));
    memcpy(e->mean, mean, (size_t)count * sizeof *mean);
    memcpy(e->deviation, deviation, (size_t)count * sizeof *deviation);
  }
  const int64_t elements = e->rank == 1 ? e->shape[0] : e->shape[0] * e->shape[1] * e->shape[2];
  TRY(read_scale(r, object, "input_scale", elements, &e->input_scale));
  TRY(read_scale(r, object, "label_scale", e->classes, &e->label_scale));
  return read_table(r, object, e);
}

neap_status encoding_read(const char *path, struct region *region, struct encoding *encoding) {
  const struct reader r = {.place = {.file = path}, .region = region};
  json_t *object = NULL;
  int version = 0;
  *encoding = (struct encoding){0};
  neap_status status = json_read_version(path, "neap-data", READING_NOW, &version, &object);
  encoding->reading = (enum reading_rules)version;
  if (status == NEAP_OK) status = read_all(&r, object, encoding);
  json_decref(object);
  return status;
}
