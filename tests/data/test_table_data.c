/* Tables and arrays as records: numbers standardised by the training part, words as a 1 among zeros, labels
 * of each kind; and what is said of what is wrong with a file, with its line. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/encoding.h"
#include "data_help.h"
#include "testing.h"
#include "train/values.h"

static char path[64], other[64];

static int start(void **state) {
  (void)state;
  strcpy(path, "/tmp/neap-table-XXXXXX");
  strcpy(other, "/tmp/neap-table-XXXXXX");
  const int a = mkstemp(path), b = mkstemp(other);
  return close(a) | close(b);
}

static int end(void **state) {
  (void)state;
  return unlink(path) | unlink(other);
}

static void write_text(const char *file_path, const char *text) {
  FILE *file = fopen(file_path, "wb");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

static neap_status open_table(struct loader *loader, const char *words) {
  char text[256];
  snprintf(text, sizeof text, "csv:%s%s", path, words);
  return loader_open(loader, text, &(struct task){.kind = NEAP_TASK_FEATURES});
}

/* A record with its label, as they go into a model. */
static void fill(struct loader *l, enum split split, int32_t record, float *features, void *label) {
  const struct field inputs[] = {l->source.fields[0], l->source.fields[1]};
  assert_int_equal(loader_divide(l, &(struct division){.batch = 1, .micro = 1}), NEAP_OK);
  assert_int_equal(loader_prepare(l, inputs, 2), NEAP_OK);
  loader_attach_input(l, "features", features);
  loader_attach_input(l, "label", label);
  assert_int_equal(loader_fill_places(l, split, 0, &record, &(struct draw){0}, false), NEAP_OK);
}

static void close_to(double value, double wanted) {
  if (fabs(value - wanted) > 1e-6 * (1 + fabs(wanted))) fail_msg("%.9g, not %.9g", value, wanted);
}

static void test_classes(void **state) {
  (void)state;
  struct loader l;
  float f[5];
  int32_t label;
  write_text(path, "size,town,kind,rooms\n1,Rome,b,2\n4,Ulm,a,2\n10,\"Bonn, Rh.\",b,2\n1,Ulm,a,2\n");
  write_text(other, "kind,rooms,size,town\na,3,7,Paris\n");
  char words[128];
  snprintf(words, sizeof words, ",label=kind,test=%s", other);
  assert_int_equal(open_table(&l, words), NEAP_OK);
  assert_int_equal(l.source.records[SPLIT_TRAIN], 4);
  assert_int_equal(l.source.records[SPLIT_TEST], 1);
  assert_string_equal(l.source.class_names[0], "a");
  /* size has mean 4, deviation sqrt(13.5); rooms is constant; towns are Bonn, Rh. < Rome < Ulm. */
  fill(&l, SPLIT_TRAIN, 2, f, &label);
  close_to((double)f[0], 6 / sqrt(13.5));
  assert_true(f[1] == 1 && f[2] == 0 && f[3] == 0 && f[4] == 0);
  assert_int_equal(label, 1);
  fill(&l, SPLIT_TEST, 0, f, &label); /* columns are found by their names; a new town is none */
  close_to((double)f[0], 3 / sqrt(13.5));
  assert_true(f[1] == 0 && f[2] == 0 && f[3] == 0 && f[4] == 1);
  assert_int_equal(label, 0);
  loader_close(&l);
}

static void test_values(void **state) {
  (void)state;
  struct loader l;
  float f[2], label;
  write_text(path, "a;b;target\n1;0;10\n2;1;20\n3;0;60\n4;1;10\n5;0;0\n");
  assert_int_equal(open_table(&l, ",task=regression,holdout=0.2,seed=3,ignore=b"), NEAP_OK);
  assert_int_equal(l.source.fields[0].dims[0], 1);
  assert_int_equal(l.source.records[SPLIT_TEST], 1);
  double sum[2] = {0}, squares[2] = {0};
  for (int32_t i = 0; i < 4; i++) {
    fill(&l, SPLIT_TRAIN, i, f, &label);
    sum[0] += (double)f[0], squares[0] += (double)f[0] * (double)f[0];
    sum[1] += (double)label, squares[1] += (double)label * (double)label;
  }
  for (int k = 0; k < 2; k++) close_to(sum[k], 0), close_to(squares[k] / 4, 1);
  loader_close(&l);
}

static void refuse(const char *words, const char *text, const char *part, const char *second) {
  struct loader l;
  write_text(path, text);
  const neap_status status = open_table(&l, words);
  loader_close(&l);
  if (status == NEAP_OK || strstr(neap_error_message(), part) == NULL ||
      strstr(neap_error_message(), second) == NULL)
    fail_msg("'%s': status %d: %s", text, (int)status, neap_error_message());
}

static void test_bad_tables(void **state) {
  (void)state;
  refuse("", "", "is empty", path);
  refuse("", "a,label\n", "has a header and no records", path);
  refuse("", "a,label\n1,2\n1\n1,2,3\n2,1\n", "line 3: has 1 fields, but the header has 2",
         "line 4: has 3 fields");
  refuse("", "a,label\n1,0\n,1\n2,0\n", "line 3, column 'a': has no value", "ignore=a");
  refuse(",ignore=a;bb", "a,b,label\n1,2,0\n2,1,1\n", "no column 'bb' to ignore", "'a' to 'label'");
  refuse("", "a,label\n1,0\nNaN,1\n2,0\n", "line 3, column 'a'", "(got 'NaN')");
  refuse("", "a,label\n1,0\n3,\n2,1\n", "line 3, column 'label'", "fill it in");
  refuse("", "a,label\n\"1,0\n2,1\n", "line 2: a closing quote is missing", path);
  refuse("", "a,label\n\"1\"x,0\n2,1\n", "line 2: 'x' follows a closing quote", "doubled");
  refuse("", "a,label\n\xff,0\n2,1\n", "line 2", "UTF-8");
  refuse("", "a,label\n1,0\n2,0\n", "column 'label' has only one class", "needs two");
  refuse("", "a,label\n1,0.5\n2,1\n", "column 'label' has numbers with fractions", "task=regression");
  refuse("", "a,,label\n1,2,0\n2,3,1\n", "line 1: column 2 has no name", path);
  refuse("", "a,a,label\n1,2,0\n2,3,1\n", "line 1: two columns are named 'a'", "rename one");
  refuse(",label=y", "a,label\n1,0\n2,1\n", "has no column 'y'", path);
  refuse(",task=regression", "a,label\n1,0\n2,x\n", "line 3, column 'label': 'x' is not a number",
         "regression");
  refuse(",task=guess", "a,label\n1,0\n2,1\n", "(got guess)", "must be classes or regression");
  refuse(",test=/gone.csv", "a,label\n1,0\n2,1\n", "/gone.csv", "cannot be opened");
  char text[40000] = "a,label\n";
  for (int i = 0; i < 1200; i++) snprintf(text + strlen(text), 32, "%d,%d\n", i, i % 2);
  refuse("", strcat(text, "12O,1\n"), "line 1202, column 'a': '12O' is not a number", "ignore=a");
}

/* A column of numbers with an odd cell, which is refused with its line, and words of the source's name that
 * take it. */
static void test_odd_cells(void **state) {
  (void)state;
  static const struct {
    const char *cell, *told, *taken; /* as the message has it; words that take it */
  } cells[] = {
      {"None", "has no value (got 'None')", ",missing=None"},
      {"NULL", "has no value (got 'NULL')", ",missing=NA;NULL"},
      {" NA", "has no value (got 'NA')", ",missing=NA"},
      {" ?", "has no value (got '?')", ",missing=?"},
      {"#N/A", "has no value (got '#N/A')", ",missing=#N/A"},
      {"\t", "has no value (got '')", ",missing="},
      {"inf", "'inf' is not a finite number", ",missing=inf"},
      {"-Infinity", "'-Infinity' is not a finite number", ",missing=-Infinity"},
      {"1e39", "'1e39' is not a finite number of f32", ",missing=1e39"},
      {"\"1,5\"", "'1,5' is not a number", ",words=a"},
      {"-", "'-' is not a number", ",missing=-"},
      {"12O", "'12O' is not a number", ",missing=12O"},
  };
  enum { ROWS = 20, ODD = 13 };
  for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
    char text[1000] = "a,label\n", told[120];
    struct loader l;
    float f[64];
    int32_t label;
    for (int k = 0; k < ROWS; k++) {
      char number[16];
      snprintf(number, sizeof number, "%d", k);
      snprintf(text + strlen(text), 40, "%s,%d\n", k == ODD ? cells[i].cell : number, k % 2);
    }
    snprintf(told, sizeof told, "line %d, column 'a': %s", ODD + 2, cells[i].told);
    refuse("", text, told, path);
    if (open_table(&l, cells[i].taken) != NEAP_OK) fail_msg("%s: %s", cells[i].taken, neap_error_message());
    const bool words = strstr(cells[i].taken, "words") != NULL;
    assert_int_equal(l.source.fields[0].dims[0], words ? ROWS : 1);
    int gaps = 0;
    for (int s = 0; s < SPLITS && !words; s++)
      for (int32_t k = 0; k < l.source.records[s]; k++) {
        fill(&l, (enum split)s, k, f, &label);
        gaps += f[0] == 0; /* the mean; no number is it */
      }
    assert_int_equal(gaps, !words);
    loader_close(&l);
  }
}

/* Returns the row of the report with that fate. */
static const neap_understood *find_row(const struct loader *l, const char *object, const char *became) {
  for (size_t i = 0; i < l->source.understood.rows.count; i++) {
    const neap_understood *row = &l->source.understood.rows.data[i];
    if (strcmp(row->object, object) == 0 && strcmp(row->became, became) == 0) return row;
  }
  fail_msg("no row says that '%s' became '%s'", object, became);
  return NULL;
}

/* Seconds of 1970 keep their differences, in features, in values, and in what an evaluation compares with. */
static void test_seconds(void **state) {
  (void)state;
  enum { ROWS = 40 };
  static const double base = 1700000000;
  char text[4000] = "t,target\n", words[128];
  struct loader l;
  double mean[2] = {0}, square[2] = {0}, values[2][ROWS];
  for (int k = 0; k < ROWS; k++) {
    values[0][k] = base + k * k % 61;
    values[1][k] = base * 10 + k * 7 % 13 + 0.25;
    snprintf(text + strlen(text), 60, "%.2f,%.2f\n", values[0][k], values[1][k]);
    for (int c = 0; c < 2; c++) mean[c] += (values[c][k] - values[c][0]) / ROWS;
  }
  for (int c = 0; c < 2; c++)
    for (int k = 0; k < ROWS; k++) square[c] += pow(values[c][k] - values[c][0] - mean[c], 2) / ROWS;
  write_text(path, text);
  snprintf(words, sizeof words, ",task=regression,test=%s", path);
  assert_int_equal(open_table(&l, words), NEAP_OK);
  for (int k = 0; k < ROWS; k++) {
    float f, label;
    double own;
    fill(&l, SPLIT_TRAIN, k, &f, &label);
    close_to((double)f, (values[0][k] - values[0][0] - mean[0]) / sqrt(square[0]));
    close_to((double)label, (values[1][k] - values[1][0] - mean[1]) / sqrt(square[1]));
    assert_int_equal(l.source.read_numbers(&l.source, SPLIT_TEST, k, 1, &own), NEAP_OK);
    assert_true(own == values[1][k]);
  }
  loader_close(&l);
}

/* Labels that are equal as numbers are one class, also in the other file; so are words but for blanks around
 * them. */
static void test_equal_classes(void **state) {
  (void)state;
  struct loader l;
  float f[2];
  int32_t label;
  char words[128];
  write_text(path, " x , town, label\n1,Rome,0.0\n2, Rome ,0\n3,Ulm,1\n5,\xC2\xA0Ulm\t, 1\n");
  write_text(other, "x,town,label\n1,Rome,1.0\n2,\"Ulm\" ,0e0\n3,Rom,1\n4,Bonn,+1\n");
  snprintf(words, sizeof words, ",ignore=x,test=%s", other);
  assert_int_equal(open_table(&l, words), NEAP_OK);
  assert_int_equal(l.source.classes, 2);
  assert_string_equal(l.source.class_names[0], "0");
  assert_string_equal(l.source.class_names[1], "1");
  static const int32_t labels[] = {1, 0, 1, 1};
  for (int32_t i = 0; i < 4; i++) {
    fill(&l, SPLIT_TEST, i, f, &label);
    assert_int_equal(label, labels[i]);
    assert_true(f[0] == (i == 0) && f[1] == (i == 1));
  }
  const neap_understood *unseen = find_row(&l, "town", "unseen words, taken as none");
  assert_int_equal(unseen->count, 2);
  assert_string_equal(unseen->why, "'Rom' in line 4 and others was not seen in training");
  assert_int_equal(find_row(&l, "town", "words")->count, 2);
  assert_int_equal(find_row(&l, "x", "left out, as you say")->count, -1);
  loader_close(&l);
}

/* ---- Arrays ---- */

/* A file of NumPy. */
static void write_array(const char *file_path, const char *type, const char *shape, const void *data,
                        size_t bytes) {
  char header[128];
  memset(header, ' ', sizeof header);
  memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10);
  const int length =
      snprintf(header + 10, 100, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);
  header[10 + length] = ' ';
  header[127] = '\n';
  FILE *file = fopen(file_path, "wb");
  assert_non_null(file);
  fwrite(header, 1, sizeof header, file);
  fwrite(data, 1, bytes, file);
  assert_int_equal(fclose(file), 0);
}

static neap_status open_arrays(struct loader *loader, const char *words) {
  char text[256];
  snprintf(text, sizeof text, "npy:%s,%s%s", path, other, words);
  return loader_open(loader, text, &(struct task){.kind = NEAP_TASK_FEATURES});
}

/* Images with channels last become planes; integer labels are classes, real ones values. */
static void test_arrays(void **state) {
  (void)state;
  enum { COUNT = 4, HEIGHT = 2, WIDTH = 3, IMAGE = HEIGHT * WIDTH * 3 };
  uint8_t pixels[COUNT * IMAGE], read[IMAGE];
  const int64_t classes[COUNT] = {2, 0, 1, 2};
  const double values[2 * COUNT] = {1, 2, 3, 4, 5, 6, 7, 8};
  struct loader l;
  for (int k = 0; k < COUNT * IMAGE; k++) pixels[k] = (uint8_t)(k * 3);
  write_array(path, "|u1", "(4, 2, 3, 3)", pixels, sizeof pixels);
  write_array(other, "<i8", "(4, 1)", classes, sizeof classes);
  assert_int_equal(open_arrays(&l, ",holdout=0.5,seed=1"), NEAP_OK);
  assert_int_equal(l.source.kind, NEAP_TASK_IMAGES);
  assert_int_equal(l.source.classes, 3);
  int seen = 0;
  for (int s = 0; s < SPLITS; s++)
    for (int64_t i = 0; i < l.source.records[s]; i++) {
      int32_t label;
      assert_int_equal(read_image(&l, (enum split)s, i, read, &label), NEAP_OK);
      int record = 0;
      while (pixels[record * IMAGE] != read[0]) record++;
      seen |= 1 << record;
      assert_int_equal(label, classes[record]);
      for (int k = 0; k < IMAGE; k++)
        assert_int_equal(read[k], pixels[record * IMAGE + k % (HEIGHT * WIDTH) * 3 + k / (HEIGHT * WIDTH)]);
    }
  assert_int_equal(seen, 15);
  loader_close(&l);
  write_array(path, "<f8", "(4, 2)", values, sizeof values);
  write_array(other, "<f8", "(4, 2)", values, sizeof values);
  assert_int_equal(open_arrays(&l, ",standardise=off,holdout=0.25"), NEAP_OK);
  float f[2], y[2];
  fill(&l, SPLIT_TRAIN, 0, f, y);
  assert_true(f[0] + 1 == f[1] && y[0] == f[0] && y[1] == f[1]);
  loader_close(&l);
}

static void refuse_arrays(const char *words, const char *part, const char *second) {
  struct loader l;
  const neap_status status = open_arrays(&l, words);
  loader_close(&l);
  if (status == NEAP_OK || strstr(neap_error_message(), part) == NULL ||
      strstr(neap_error_message(), second) == NULL)
    fail_msg("status %d: %s", (int)status, neap_error_message());
}

static void test_bad_arrays(void **state) {
  (void)state;
  const double numbers[4] = {1, NAN, 3, 4};
  const int32_t labels[4] = {0, 1, -1, 0};
  write_array(path, "<f8", "(4,)", numbers, sizeof numbers);
  write_array(other, "<i4", "(4,)", labels, sizeof labels);
  refuse_arrays("", other, "record 2 has the label -1");
  write_array(other, "<i4", "(2, 2)", labels, sizeof labels);
  refuse_arrays("", "has 4 records, but", "has 2");
  write_array(other, "<i4", "(4,)", (int32_t[]){0, 1, 1, 0}, sizeof labels);
  refuse_arrays(",seed=2", "record 1, element 0 is nan", "fill it in or remove the record");
  write_array(other, "<c8", "(4,)", numbers, sizeof numbers);
  refuse_arrays("", other, "type '<c8'");
  write_array(other, "<i4", "(5,)", labels, sizeof labels);
  refuse_arrays("", other, "its shape asks for 5 elements");
  write_array(other, "<i4", "(4,)", (int32_t[]){0, 0, 0, 0}, sizeof labels);
  refuse_arrays("", other, "needs two classes");
}

/* Reals of 64 bits are standardised before they are rounded; by the rules of an earlier run they are rounded
 * first. */
static void test_seconds_of_arrays(void **state) {
  (void)state;
  enum { ROWS = 10 };
  double numbers[ROWS];
  struct loader l;
  char text[256];
  const struct encoding earlier = {.reading = READING_FIRST};
  for (int k = 0; k < ROWS; k++) numbers[k] = 1700000000 + k;
  write_array(path, "<f8", "(10,)", numbers, sizeof numbers);
  write_array(other, "<f8", "(10,)", numbers, sizeof numbers);
  for (int rounded = 0; rounded < 2; rounded++) {
    snprintf(text, sizeof text, "npy:%s,%s", path, other);
    const struct task task = {.kind = NEAP_TASK_FEATURES, .before = rounded ? &earlier : NULL};
    assert_int_equal(loader_open(&l, text, &task), NEAP_OK);
    float f, label;
    double low = 1, high = -1;
    for (int32_t k = 0; k < l.source.records[SPLIT_TRAIN]; k++) {
      fill(&l, SPLIT_TRAIN, k, &f, &label);
      assert_true(f == label);
      if ((double)f < low) low = (double)f;
      if ((double)f > high) high = (double)f;
    }
    assert_true(rounded ? low == 0 && high == 0 : low < -1.2 && high > 1.2);
    loader_close(&l);
  }
}

/* Against sums over all values, in two passes. */
static void test_scores(void **state) {
  (void)state;
  enum { COUNT = 50 };
  struct value_sums sums = {0}, two[2] = {{0}};
  double mean = 0, spread = 0, squares = 0, distance = 0;
  for (int i = 0; i < COUNT; i++) mean += (1e6 + i * i % 17) / COUNT;
  for (int i = 0; i < COUNT; i++) {
    const double value = 1e6 + i * i % 17, prediction = value + sin(i);
    spread += (value - mean) * (value - mean);
    squares += sin(i) * sin(i);
    distance += fabs(sin(i)) / COUNT;
    values_add(&sums, value, prediction);
    values_add(&two[0], value, prediction);
    values_add(&two[1], i, i + 2); /* its mean is another one: R2 is not that of all values together */
  }
  assert_true(fabs(values_r2(&sums, 1) - (1 - squares / spread)) < 1e-9);
  assert_true(fabs(values_mae(&sums, 1) - distance) < 1e-9);
  assert_true(fabs(values_rmse(&sums, 1) - sqrt(squares / COUNT)) < 1e-9);
  const double second = 1 - 4.0 * COUNT / (COUNT * (COUNT * COUNT - 1.0) / 12);
  assert_true(fabs(values_r2(two, 2) - (values_r2(&sums, 1) + second) / 2) < 1e-9);
  assert_true(fabs(values_mae(two, 2) - (distance + 2) / 2) < 1e-9);
  assert_true(fabs(values_rmse(two, 2) - (sqrt(squares / COUNT) + 2) / 2) < 1e-9);
}

int run_test_table_data(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_classes),
                                     cmocka_unit_test(test_values),
                                     cmocka_unit_test(test_bad_tables),
                                     cmocka_unit_test(test_odd_cells),
                                     cmocka_unit_test(test_seconds),
                                     cmocka_unit_test(test_equal_classes),
                                     cmocka_unit_test(test_arrays),
                                     cmocka_unit_test(test_bad_arrays),
                                     cmocka_unit_test(test_seconds_of_arrays),
                                     cmocka_unit_test(test_scores)};
  return cmocka_run_group_tests(tests, start, end);
}
