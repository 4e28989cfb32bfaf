/* Texts of a table as records: tokens, cut and padded, in buckets; labels in the order of the data or of a
 * model; and what is said of what is wrong. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/encoding.h"
#include "data_help.h"
#include "testing.h"
#include "text/tokenizer.h"

enum { BATCH = 4, LENGTH = 8 };
static char path[64];

static neap_model *bringing; /* the model that is asked */

static int start(void **state) {
  (void)state;
  strcpy(path, "/tmp/neap-texts-XXXXXX");
  if (neap_model_open("bert-1x32x2", &bringing) != NEAP_OK) return 1;
  return close(mkstemp(path));
}

static int end(void **state) {
  (void)state;
  neap_model_close(bringing);
  return unlink(path);
}

static void write_text(const char *text) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

static neap_status bring_bytes(const neap_model *model, struct tokenizer **tokenizer) {
  assert_ptr_equal(model, bringing);
  return tokenizer_bytes(tokenizer);
}

static const char *const names[] = {"high", "low", "slack"};
static bool values; /* of the model */

static neap_status bring_labels(const neap_model *model, struct region *region, struct task_labels *labels) {
  (void)region;
  assert_ptr_equal(model, bringing);
  *labels = values ? (struct task_labels){1, names, true} : (struct task_labels){3, names, false};
  return NEAP_OK;
}

static neap_status open_texts(struct loader *loader, const char *words, const struct encoding *encoding,
                              bool any_length) {
  static const struct task_texts texts = {bring_bytes, NULL, bring_labels};
  char text[256];
  snprintf(text, sizeof text, "csv:%s%s", path, words);
  return loader_open(loader, text,
                     &(struct task){.kind = NEAP_TASK_TEXTS,
                                    .length = LENGTH,
                                    .any_length = any_length,
                                    .model = bringing,
                                    .texts = &texts,
                                    .encoding = encoding});
}

static void prepare(struct loader *l) {
  const struct field inputs[] = {{"tokens", NEAP_I32, 1, {loader_length(l)}, false},
                                 l->source.fields[source_find_field(&l->source, "label")]};
  assert_int_equal(loader_divide(l, &(struct division){.batch = BATCH, .micro = BATCH}), NEAP_OK);
  assert_int_equal(loader_prepare(l, inputs, 2), NEAP_OK);
}

/* A batch of a bucket, from its first record on: as many as there are. */
static int64_t fill(struct loader *l, enum split split, int bucket, int32_t *tokens, void *labels) {
  int64_t count;
  loader_attach_input(l, "tokens", tokens);
  loader_attach_input(l, "label", labels);
  assert_int_equal(loader_fill_at(l, split, bucket, 0, &count), NEAP_OK);
  return count;
}

/* The tokens of a record are the bytes of a text, with -1 behind its end. */
static void assert_row(const int32_t *row, int64_t length, const char *text) {
  for (int64_t i = 0; i < length; i++)
    assert_int_equal(row[i], i < (int64_t)strlen(text) ? (unsigned char)text[i] : -1);
}

static void test_classes(void **state) {
  (void)state;
  struct loader l;
  int32_t tokens[BATCH * LENGTH], labels[BATCH];
  write_text("id,kind,said,free\n1,slack,\"a, b\",x\n2,low,longer than eight,x\n3,low,c,\n");
  char words[128];
  snprintf(words, sizeof words, ",text=said,label=kind,test=%s", path);
  assert_int_equal(open_texts(&l, words, NULL, false), NEAP_OK);
  assert_int_equal(l.source.kind, NEAP_TASK_TEXTS);
  assert_int_equal(l.source.classes, 3); /* those of the model, though the data have two */
  assert_string_equal(l.source.class_names[2], "slack");
  assert_int_equal(l.source.cut, 2); /* in both parts */
  assert_int_equal(loader_length(&l), LENGTH);
  assert_non_null(strstr(l.source.longest, "line 3, of 8 tokens"));
  prepare(&l);
  assert_int_equal(fill(&l, SPLIT_TRAIN, 0, tokens, labels), 3);
  assert_row(tokens, LENGTH, "a, b");
  assert_row(tokens + LENGTH, LENGTH, "longer t");
  assert_row(tokens + 2 * LENGTH, LENGTH, "c");
  assert_int_equal(tokens[3 * LENGTH], 0); /* no record: one token, so that attention sees something */
  assert_int_equal(tokens[3 * LENGTH + 1], -1);
  assert_memory_equal(labels, ((const int32_t[]){2, 1, 1, -1}), sizeof labels);
  loader_close(&l);

  /* A class that the model does not have: the data's own, in the order of their bytes. */
  write_text("said,kind\na,slack\nb,ebb\nc,slack\nd,ebb\n");
  assert_int_equal(open_texts(&l, ",text=said", NULL, false), NEAP_OK);
  assert_int_equal(l.source.classes, 2);
  assert_string_equal(l.source.class_names[0], "ebb");
  assert_int_equal(l.source.records[SPLIT_TRAIN] + l.source.records[SPLIT_TEST], 4);
  loader_close(&l);
}

static void test_buckets(void **state) {
  (void)state;
  struct loader l;
  int32_t tokens[BATCH * LENGTH], labels[BATCH];
  char words[128];
  write_text("said,kind\nab,low\nabcdefg,low\nabcdefgh,high\na,high\nabc,low\n");
  snprintf(words, sizeof words, ",text=said,test=%s", path);
  assert_int_equal(open_texts(&l, words, NULL, true), NEAP_OK);
  assert_int_equal(l.bucket_count, 2);
  prepare(&l);
  assert_int_equal(l.buckets[0].length, 4);
  assert_int_equal(l.buckets[0].micro, BATCH); /* as many records, not as many tokens */
  assert_int_equal(fill(&l, SPLIT_TRAIN, 0, tokens, labels), 3);
  assert_row(tokens, 4, "ab");
  assert_row(tokens + 4, 4, "a");
  assert_row(tokens + 8, 4, "abc");
  assert_memory_equal(labels, ((const int32_t[]){1, 0, 1, -1}), sizeof labels);
  assert_int_equal(fill(&l, SPLIT_TRAIN, 1, tokens, labels), 2);
  assert_row(tokens, LENGTH, "abcdefg");
  loader_close(&l);
}

static void test_values(void **state) {
  (void)state;
  struct loader l;
  int32_t tokens[BATCH * LENGTH];
  float labels[BATCH];
  char words[128];
  write_text("said,kind\nab,0.5\nabcdefg,-3\nabcdefgh,100\n");
  snprintf(words, sizeof words, ",text=said,test=%s", path);
  values = true; /* the model's head says what labels are */
  assert_int_equal(open_texts(&l, words, NULL, true), NEAP_OK);
  values = false;
  assert_int_equal(l.bucket_count, 1);
  prepare(&l);
  assert_int_equal(fill(&l, SPLIT_TRAIN, 0, tokens, labels), 3);
  assert_true(labels[0] == 0.5f && labels[1] == -3 && labels[2] == 100); /* as the file has them */
  loader_close(&l);
}

/* What a run keeps, and texts without labels. */
static void test_encoding(void **state) {
  (void)state;
  struct loader l;
  struct encoding e;
  struct region region = {0};
  int32_t tokens[BATCH * LENGTH], labels[BATCH];
  char kept[96];
  snprintf(kept, sizeof kept, "%s.json", path);
  write_text("said,kind\na,slack\nb,ebb\nc,slack\nd,ebb\n");
  assert_int_equal(open_texts(&l, ",text=said", NULL, false), NEAP_OK);
  assert_int_equal(encoding_save(&l.source, kept), NEAP_OK);
  loader_close(&l);
  assert_int_equal(encoding_read(kept, &region, &e), NEAP_OK);
  assert_true(table_is_text(e.table));
  write_text("words,said\n1,xy\n2,z\n");
  assert_int_equal(open_texts(&l, "", &e, false), NEAP_OK);
  assert_true(l.source.unlabelled && l.source.classes == 2);
  prepare(&l);
  assert_int_equal(fill(&l, SPLIT_TEST, 0, tokens, labels), 2);
  assert_row(tokens, 2, "xy");
  assert_int_equal(labels[0], -1);
  loader_close(&l);
  assert_int_equal(open_texts(&l, ",text=words", &e, false), NEAP_OK); /* another column */
  prepare(&l);
  assert_int_equal(fill(&l, SPLIT_TEST, 0, tokens, labels), 2);
  assert_row(tokens, 1, "1");
  loader_close(&l);
  region_free(&region);
  assert_int_equal(unlink(kept), 0);
}

static void test_bad(void **state) {
  (void)state;
  static const struct {
    const char *text, *words, *said;
  } rows[] = {
      {"said,kind\na,low\n,high\n", ",text=said", "line 3, column 'said': has no text"},
      {"said,kind\na,low\nb\n", ",text=said", "line 3: has 1 fields"},
      {"said,kind\na,low\nb,\n", ",text=said", "only one class"},
      {"said,kind\na,low\nb,high\nc,\n", ",text=said",
       "line 4, column 'kind': '' is not a class; fill it in"},
      {"said,kind\na,low\n", ",text=spoken", "no column 'spoken' for the text"},
      {"kind,said\nlow,a\nhigh,b\n", ",text=said", "name the label"},
      {"said\na\n", ",text=said", "name the label"},
      {"said,kind\na,low\n", ",text=said,task=regression", "'low' is not a number"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct loader l;
    write_text(rows[i].text);
    assert_int_not_equal(open_texts(&l, rows[i].words, NULL, false), NEAP_OK);
    if (strstr(neap_error_message(), rows[i].said) == NULL) fail_msg("%s", neap_error_message());
    loader_close(&l);
  }
}

int run_test_table_texts(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_classes), cmocka_unit_test(test_buckets),
                                     cmocka_unit_test(test_values), cmocka_unit_test(test_encoding),
                                     cmocka_unit_test(test_bad)};
  return cmocka_run_group_tests(tests, start, end);
}
