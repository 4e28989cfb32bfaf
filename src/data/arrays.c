/* Reads arrays of NumPy as data: "npz:FILE[,test=val|test][,task=classes|regression][,standardise=off]
 * [,holdout=0.1][,seed=0]" and "npy:X,Y" with the same words. The first dimension counts records. Arrays of
 * three or four dimensions are images, with one channel or with channels last or first; others are rows of
 * numbers. Integer labels are classes, others are values. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/stop.h"
#include "data/array.h"
#include "data/encoding.h"
#include "data/holdout.h"
#include "data/readers.h"
#include "data/scale.h"
#include "data/zip.h"

struct words {
  const char *file, *test, *task, *standardise, *holdout, *seed; /* NULL: not given */
};
static const char *const keys[] = {"", "test", "task", "standardise", "holdout", "seed", NULL};
#define VALUES(words)                                                                                        \
  (const char **const[]) {                                                                                   \
    &(words).file, &(words).test, &(words).task, &(words).standardise, &(words).holdout, &(words).seed       \
  }

enum { LARGE_NUMBER = 32 }; /* of images: above what standardising leaves */

struct arrays {
  struct array x[SPLITS], y[SPLITS];
  const int32_t *places[SPLITS]; /* in x[SPLIT_TRAIN], where a part is held out; NULL: each has its own */
  bool regression;
  const char *range; /* of the numbers of images that are no bytes, for people; NULL: others */
  bool large;        /* these numbers are not about 1 */
};

/* ---- Reading ---- */

static neap_status read_record(const struct source *source, enum split split, int64_t record,
                               const struct draw *draw, void *const *fields, int64_t *lengths) {
  (void)draw, (void)lengths;
  const struct arrays *a = source->context;
  const bool held = a->places[split] != NULL;
  const struct array *x = &a->x[held ? SPLIT_TRAIN : split], *y = &a->y[held ? SPLIT_TRAIN : split];
  if (held) record = a->places[split][record];
  if (fields[0] != NULL && source->fields[0].dtype == NEAP_U8) TRY(array_read_bytes(x, record, fields[0]));
  if (fields[0] != NULL && source->fields[0].dtype == NEAP_F32)
    TRY(array_read_f32(x, record, &source->scales[0], fields[0]));
  if (fields[1] == NULL) return NEAP_OK;
  return a->regression ? array_read_f32(y, record, &source->scales[1], fields[1])
                       : array_read_i32(y, record, fields[1]);
}

static neap_status read_numbers(const struct source *source, enum split split, int64_t record, int field,
                                double *numbers) {
  const struct arrays *a = source->context;
  const struct array *arrays = field == 0 ? a->x : a->y;
  const bool held = a->places[split] != NULL;
  return array_read_f64(&arrays[held ? SPLIT_TRAIN : split], held ? a->places[split][record] : record,
                        numbers);
}

/* ---- Shapes ---- */

/* Describes the records as a field. */
static neap_status describe_records(struct array *x, struct field *field) {
  const int64_t *d = x->dims;
  const bool bytes = x->kind == ARRAY_BYTES;
  if (x->rank <= 2) {
    *field = (struct field){"features", NEAP_F32, 1, {x->each}, false};
    return NEAP_OK;
  }
  RETURN_IF(x->rank > 4, NEAP_UNSUPPORTED, "%s: has %d dimensions; records need 2, images 3 or 4", x->name,
            x->rank);
  const bool last = x->rank == 4 && d[3] <= SOURCE_MAX_CHANNELS;
  *field = (struct field){.name = "image", .dtype = bytes ? NEAP_U8 : NEAP_F32, .rank = 3};
  field->dims[0] = x->rank == 3 ? 1 : last ? d[3] : d[1];
  field->dims[1] = x->rank == 3 || last ? d[1] : d[2];
  field->dims[2] = x->rank == 3 || last ? d[2] : d[3];
  if (last) x->channels = d[3];
  RETURN_IF(field->dims[0] > SOURCE_MAX_CHANNELS || field->dims[1] > SOURCE_MAX_SIDE ||
                field->dims[2] > SOURCE_MAX_SIDE,
            NEAP_UNSUPPORTED,
            "%s: images have 1 to %d channels, first or last, and at most %d pixels a side, not [%lld, %lld, "
            "%lld]",
            x->name, SOURCE_MAX_CHANNELS, SOURCE_MAX_SIDE, (long long)d[1], (long long)d[2],
            (long long)(x->rank == 4 ? d[3] : 1));
  return NEAP_OK;
}

static neap_status check_same(const struct array *a, const struct array *b) {
  bool same = a->rank == b->rank;
  for (int i = 1; i < a->rank && same; i++) same = a->dims[i] == b->dims[i];
  RETURN_IF(!same || a->kind != b->kind, NEAP_BAD_FORMAT,
            "%s: its records differ in shape or type from those of %s; give arrays of one shape and type",
            b->name, a->name);
  return NEAP_OK;
}

/* Finds the range of the numbers of images, which are taken as they are, and whether all are finite. */
static neap_status find_range(struct source *source) {
  struct arrays *a = source->context;
  double least = INFINITY, most = -INFINITY;
  double *numbers = region_alloc(&source->region, (size_t)a->x[SPLIT_TRAIN].each, sizeof *numbers);
  RETURN_IF_NULL(numbers);
  for (int s = 0; s < SPLITS; s++)
    for (int64_t i = 0; a->x[s].name != NULL && i < a->x[s].dims[0]; i++) {
      TRY(stop_check());
      TRY(array_read_f64(&a->x[s], i, numbers));
      for (int64_t k = 0; k < a->x[s].each; k++) {
        least = fmin(least, numbers[k]);
        most = fmax(most, numbers[k]);
      }
    }
  a->large = fmax(most, -least) > LARGE_NUMBER;
  a->range = region_format(&source->region, "records, numbers from %.4g to %.4g as they are", least, most);
  RETURN_IF_NULL(a->range);
  return NEAP_OK;
}

/* Tells whether labels are values, by the name or else by their type. */
static neap_status choose_task(const struct source *source, const struct words *words, const struct array *y,
                               bool *regression) {
  *regression = y->kind == ARRAY_REALS;
  if (words->task == NULL) return NEAP_OK;
  *regression = strcmp(words->task, "regression") == 0;
  RETURN_IF(!*regression && strcmp(words->task, "classes") != 0, NEAP_INVALID_ARGUMENT,
            "data '%s': task must be classes or regression (got %s)", source->name, words->task);
  return NEAP_OK;
}

/* Finds the largest class of a part. */
static neap_status find_classes(const struct array *y, int64_t *classes) {
  RETURN_IF(y->each != 1, NEAP_UNSUPPORTED,
            "%s: has %lld labels per record; give one class per record, or task=regression", y->name,
            (long long)y->each);
  for (int64_t i = 0; i < y->dims[0]; i++) {
    int32_t label;
    TRY(array_read_i32(y, i, &label));
    RETURN_IF(label < 0 || label > 1 << 20, NEAP_BAD_FORMAT,
              "%s: record %lld has the label %d; classes are 0 to %d", y->name, (long long)i, label, 1 << 20);
    if (label >= *classes) *classes = (int64_t)label + 1;
  }
  return NEAP_OK;
}

/* ---- Parts ---- */

static neap_status hold_out(struct source *source, const struct words *words) {
  struct arrays *a = source->context;
  const int64_t count = a->x[SPLIT_TRAIN].dims[0];
  bool *held;
  RETURN_IF(count > INT32_MAX, NEAP_TOO_LARGE, "%s: has more than %d records", a->x[0].name, INT32_MAX);
  TRY(holdout_draw(source, words->holdout, words->seed, count, &held));
  int32_t *places = region_alloc(&source->region, (size_t)count, sizeof *places);
  RETURN_IF_NULL(places);
  int64_t kept = 0, out = count; /* those held out from the end on, in falling order */
  for (int64_t i = 0; i < count; i++) {
    if (held[i])
      places[--out] = (int32_t)i;
    else
      places[kept++] = (int32_t)i;
  }
  a->places[SPLIT_TRAIN] = places;
  a->places[SPLIT_TEST] = places + kept;
  source->records[SPLIT_TRAIN] = kept;
  source->records[SPLIT_TEST] = count - kept;
  return NEAP_OK;
}

static neap_status settle_parts(struct source *source, const struct words *words) {
  struct arrays *a = source->context;
  if (a->x[SPLIT_TEST].name == NULL) return hold_out(source, words);
  RETURN_IF(words->holdout != NULL, NEAP_INVALID_ARGUMENT,
            "data '%s': holdout=%s has no effect, because there is a test part; leave it out", source->name,
            words->holdout);
  TRY(check_same(&a->x[SPLIT_TRAIN], &a->x[SPLIT_TEST]));
  RETURN_IF(a->y[SPLIT_TEST].each != a->y[SPLIT_TRAIN].each, NEAP_BAD_FORMAT,
            "%s: its labels must have the shape of those of %s", a->y[SPLIT_TEST].name,
            a->y[SPLIT_TRAIN].name);
  a->x[SPLIT_TEST].channels = a->x[SPLIT_TRAIN].channels;
  for (int s = 0; s < SPLITS; s++) source->records[s] = a->x[s].dims[0];
  return NEAP_OK;
}

/* Sets up the parts; the arrays are open. */
static neap_status open_parts(struct source *source, const struct words *words) {
  struct arrays *a = source->context;
  struct field field;
  for (int s = 0; s < SPLITS; s++)
    RETURN_IF(a->x[s].name != NULL && a->x[s].dims[0] != a->y[s].dims[0], NEAP_BAD_FORMAT,
              "%s: has %lld records, but %s has %lld", a->x[s].name, (long long)a->x[s].dims[0], a->y[s].name,
              (long long)a->y[s].dims[0]);
  TRY(describe_records(&a->x[SPLIT_TRAIN], &field));
  TRY(choose_task(source, words, &a->y[SPLIT_TRAIN], &a->regression));
  TRY(settle_parts(source, words));
  source->kind = field.rank == 3 ? NEAP_TASK_IMAGES : NEAP_TASK_FEATURES;
  source->read = read_record;
  source->read_numbers = read_numbers;
  for (int s = 0; s < SPLITS; s++) a->x[s].rounded = a->y[s].rounded = source->reading == READING_FIRST;
  TRY(source_add_field(source, field));
  if (a->regression) {
    source->classes = a->y[SPLIT_TRAIN].each;
    TRY(source_add_field(source, (struct field){"label", NEAP_F32, 1, {source->classes}, false}));
  } else {
    for (int s = 0; s < SPLITS; s++)
      if (a->y[s].name != NULL) TRY(find_classes(&a->y[s], &source->classes));
    RETURN_IF(source->classes < 2, NEAP_BAD_FORMAT, "%s: all labels are 0; a classifier needs two classes",
              a->y[SPLIT_TRAIN].name);
    TRY(source_add_field(source, (struct field){"label", NEAP_I32, 0, {0}, false}));
  }
  const bool off = words->standardise != NULL && strcmp(words->standardise, "off") == 0;
  RETURN_IF(words->standardise != NULL && !off && strcmp(words->standardise, "on") != 0,
            NEAP_INVALID_ARGUMENT, "data '%s': standardise must be on or off (got %s)", source->name,
            words->standardise);
  const bool bytes = field.dtype == NEAP_U8, images = field.rank == 3 && !a->regression;
  RETURN_IF(
      images && words->standardise != NULL && off == bytes && source->reading != READING_FIRST,
      NEAP_INVALID_ARGUMENT,
      "data '%s': standardise=%s has no effect on images: bytes always are, other numbers never; leave it "
      "out",
      source->name, words->standardise);
  if (field.rank == 3 && field.dtype == NEAP_F32) TRY(find_range(source));
  if (field.rank == 1 && !off) TRY(scale_take(source, 0));
  return a->regression && !off ? scale_take(source, 1) : NEAP_OK;
}

static neap_status begin(const char *argument, struct source *source, struct words *words) {
  static const struct arrays none;
  TRY(source_parse(source, argument, keys, VALUES(*words)));
  source->context = region_copy(&source->region, &none, 1, sizeof none);
  RETURN_IF_NULL(source->context);
  return NEAP_OK;
}

/* ---- npz ---- */

static neap_status open_entry(struct source *source, const struct zip *zip, const char *name,
                              struct array *array) {
  char file[64];
  int descriptor;
  uint64_t offset;
  snprintf(file, sizeof file, "%s.npy", name);
  const struct zip_entry *entry = zip_find(zip, file);
  RETURN_IF(entry == NULL, NEAP_BAD_FORMAT, "%s: has no array '%s'", zip->path, name);
  const char *full = region_format(&source->region, "%s: %s", zip->path, name);
  RETURN_IF_NULL(full);
  TRY(zip_open_entry(source, zip, entry, &descriptor, &offset));
  return array_open(full, descriptor, offset, entry->size, array);
}

static bool has_entry(const struct zip *zip, const char *name) {
  char file[64];
  snprintf(file, sizeof file, "%s.npy", name);
  return zip_find(zip, file) != NULL;
}

/* Names of arrays: records and labels to train with, and to test with in this order. */
static const struct name_row {
  const char *x, *y;
  struct {
    const char *part, *x, *y;
  } tests[2];
} names[] = {
    {"x_train", "y_train", {{"val", "x_val", "y_val"}, {"test", "x_test", "y_test"}}},
    {"train_images",
     "train_labels",
     {{"val", "val_images", "val_labels"}, {"test", "test_images", "test_labels"}}},
    {"x", "y", {{"val", "x_val", "y_val"}, {"test", "x_test", "y_test"}}},
    {"X", "y", {{"val", "X_val", "y_val"}, {"test", "X_test", "y_test"}}},
    {"data", "target", {{"val", "val_data", "val_target"}, {"test", "test_data", "test_target"}}},
};

static neap_status fail_names(const struct zip *zip) {
  char list[400] = "";
  size_t length = 0;
  for (size_t i = 0; i < zip->entries.count && length < sizeof list; i++)
    length += (size_t)snprintf(list + length, sizeof list - length, "%s%s", i > 0 ? ", " : "",
                               zip->entries.data[i].name);
  return neap_fail(
      NEAP_BAD_FORMAT,
      "%s: has neither x_train and y_train nor train_images and train_labels (got %s); rename the arrays",
      zip->path, list);
}

static bool ends_in_npy(const char *name) {
  const size_t length = strlen(name);
  return length > 4 && strcmp(name + length - 4, ".npy") == 0;
}

/* Tells of the records to train with. */
static neap_status tell_records(struct source *source, const char *name) {
  const struct arrays *a = source->context;
  return understood_add(
      &source->understood, &source->region,
      (neap_understood){
          name, a->range != NULL ? a->range : "records", a->x[SPLIT_TRAIN].dims[0],
          a->large ? "large for a network: store bytes (uint8), which are standardised, or divide them"
                   : NULL});
}

/* Reports the use of each array: `used` are the names of records and labels to train and to test with. */
static neap_status tell_arrays(struct source *source, const struct zip *zip, const char *const used[4]) {
  const struct arrays *a = source->context;
  const char *const labels = a->regression ? "values" : "classes";
  const char *const fates[] = {NULL, labels, "records of the test part", labels};
  const int64_t counts[] = {0, source->classes, a->x[SPLIT_TEST].dims[0], source->classes};
  for (size_t i = 0; i < zip->entries.count; i++) {
    const char *entry = zip->entries.data[i].name;
    const char *name =
        region_format(&source->region, "%.*s", (int)(strlen(entry) - (ends_in_npy(entry) ? 4 : 0)), entry);
    RETURN_IF_NULL(name);
    int k = 0;
    while (k < 4 && (used[k] == NULL || strcmp(used[k], name) != 0)) k++;
    if (k == 0)
      TRY(tell_records(source, name));
    else
      TRY(understood_add(
          &source->understood, &source->region,
          (neap_understood){name, k < 4 ? fates[k] : "left out", k < 4 ? counts[k] : -1, NULL}));
  }
  return NEAP_OK;
}

static neap_status open_npz(struct source *source, const struct words *words, const struct zip *zip) {
  struct arrays *a = source->context;
  const char *used[4] = {NULL};
  const struct name_row *row = names, *end = names + sizeof names / sizeof *names;
  while (row < end && (!has_entry(zip, row->x) || !has_entry(zip, row->y))) row++;
  if (row == end) return fail_names(zip);
  TRY(open_entry(source, zip, row->x, &a->x[SPLIT_TRAIN]));
  TRY(open_entry(source, zip, row->y, &a->y[SPLIT_TRAIN]));
  used[0] = row->x, used[1] = row->y;
  for (int i = 0; i < 2 && a->x[SPLIT_TEST].name == NULL; i++) {
    const bool asked = words->test != NULL && strcmp(words->test, row->tests[i].part) == 0;
    if (asked ? false : words->test != NULL || !has_entry(zip, row->tests[i].x)) continue;
    TRY(open_entry(source, zip, row->tests[i].x, &a->x[SPLIT_TEST]));
    TRY(open_entry(source, zip, row->tests[i].y, &a->y[SPLIT_TEST]));
    used[2] = row->tests[i].x, used[3] = row->tests[i].y;
  }
  RETURN_IF(words->test != NULL && a->x[SPLIT_TEST].name == NULL, NEAP_INVALID_ARGUMENT,
            "data 'npz': test must be val or test (got %s), and the file must have that part", words->test);
  TRY(open_parts(source, words));
  return tell_arrays(source, zip, used);
}

neap_status npz_open(const char *argument, struct source *source) {
  struct words words = {0};
  struct zip zip;
  TRY(begin(argument, source, &words));
  neap_status status = zip_open(source, words.file, &zip);
  if (status == NEAP_OK) status = open_npz(source, &words, &zip);
  zip_free(&zip);
  return status;
}

/* ---- npy ---- */

static neap_status open_file(struct source *source, const char *path, struct array *array) {
  int descriptor;
  size_t size;
  TRY(source_open_file(source, path, &descriptor, &size));
  return array_open(path, descriptor, 0, size, array);
}

static neap_status read_alone(const struct source *source, enum split split, int64_t record,
                              const struct draw *draw, void *const *fields, int64_t *lengths) {
  void *const without_label[] = {fields[0], NULL};
  if (fields[1] != NULL)
    memset(fields[1], source->fields[1].dtype == NEAP_I32 ? 0xFF : 0,
           (size_t)field_elements(&source->fields[1]) * sizeof(float));
  return read_record(source, split, record, draw, without_label, lengths);
}

/* Opens records without labels, to predict for. */
static neap_status open_alone(struct source *source, const char *path) {
  const struct encoding *e = source->task.encoding;
  struct arrays *a = source->context;
  struct field field;
  TRY(open_file(source, path, &a->x[SPLIT_TEST]));
  a->x[SPLIT_TEST].rounded = source->reading == READING_FIRST;
  TRY(describe_records(&a->x[SPLIT_TEST], &field));
  source->kind = field.rank == 3 ? NEAP_TASK_IMAGES : NEAP_TASK_FEATURES;
  source->read = read_alone;
  source->unlabelled = true;
  source->records[SPLIT_TEST] = a->x[SPLIT_TEST].dims[0];
  source->classes = e->classes;
  source->class_names = e->class_names;
  TRY(source_add_field(source, field));
  TRY(source_add_field(source, e->values ? (struct field){"label", NEAP_F32, 1, {e->classes}, false}
                                         : (struct field){"label", NEAP_I32, 0, {0}, false}));
  if (field.rank == 1) TRY(scale_take(source, 0));
  return e->values ? scale_take(source, 1) : NEAP_OK;
}

neap_status npy_open(const char *argument, struct source *source) {
  struct words words = {0};
  TRY(begin(argument, source, &words));
  struct arrays *a = source->context;
  char *x = region_string(&source->region, words.file);
  RETURN_IF_NULL(x);
  char *comma = strchr(x, ',');
  if (comma == NULL && source->task.encoding != NULL) return open_alone(source, x);
  RETURN_IF(comma == NULL || words.test != NULL, NEAP_INVALID_ARGUMENT,
            "data 'npy:%s': name the files of records and of labels, as npy:X.npy,Y.npy", argument);
  *comma = '\0';
  TRY(open_file(source, x, &a->x[SPLIT_TRAIN]));
  TRY(open_file(source, comma + 1, &a->y[SPLIT_TRAIN]));
  TRY(open_parts(source, &words));
  return a->range != NULL ? tell_records(source, x) : NEAP_OK;
}
