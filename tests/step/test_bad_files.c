/* Graph, plan and buffer files that are cut short, bit-flipped or wrong in one field: a clear error or a
 * valid reading, never a crash; what was written is read back the same. */
#include "effort.h"
#include "random_step.h"

#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

static char path[64], source[64];

static char *read_all(const char *name, size_t *size) {
  FILE *file = fopen(name, "rb");
  assert_non_null(file);
  char *text = calloc(1, 1 << 20);
  *size = fread(text, 1, (1 << 20) - 1, file);
  fclose(file);
  return text;
}

static void write_all(const char *name, const char *text, size_t size) {
  FILE *file = fopen(name, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, size, file), size);
  fclose(file);
}

static neap_status read_graph(void) {
  neap_step *step;
  const neap_status status = neap_step_read(path, &step);
  if (status == NEAP_OK) neap_step_free(step);
  return status;
}

static neap_step *checked_against;

static neap_status read_plan(void) {
  neap_plan *plan;
  neap_check_result result;
  const neap_status status = neap_plan_read(path, &plan);
  if (status != NEAP_OK) return status;
  neap_plan_check(checked_against, plan, &result); /* whatever was read must not harm the checker */
  neap_plan_free(plan);
  return NEAP_OK;
}

static neap_status read_buffers(void) {
  neap_buffer *buffers;
  int64_t count;
  const neap_status status = neap_layout_read_csv(path, &buffers, &count);
  if (status == NEAP_OK) free(buffers);
  return status;
}

static int spoil(const char *text, size_t size, neap_status (*read)(void), uint32_t seed) {
  int refused = 0;
  char *copy = malloc(size + 1);
  const int rounds = quick_pass() ? 150 : 1500;
  uint32_t random = seed;
  for (int i = 0; i < rounds; i++) {
    size_t length = size;
    memcpy(copy, text, size);
    if (i % 3 == 0)
      length = draw(&random, (uint32_t)size);
    else if (i % 3 == 1)
      copy[draw(&random, (uint32_t)size)] ^= (char)(1 << draw(&random, 8));
    else
      copy[draw(&random, (uint32_t)size)] = "0123456789-[]{},:\"xe."[draw(&random, 21)];
    write_all(path, copy, length);
    const neap_status status = read();
    if (status == NEAP_OK) continue;
    refused++;
    assert_int_equal(status, NEAP_BAD_FORMAT);
    assert_non_null(strstr(neap_error_message(), path)); /* the message names the file */
  }
  free(copy);
  return refused;
}

static void test_spoiled_files(void **state) {
  (void)state;
  size_t size;
  neap_plan *plan;
  checked_against = random_step(FAMILY_LAYERED, 6, 3);
  assert_int_equal(neap_step_write(checked_against, source), NEAP_OK);
  char *text = read_all(source, &size);
  assert_true(spoil(text, size, read_graph, 1) > 50);
  free(text);
  assert_int_equal(neap_plan_make(checked_against, NEAP_BUDGET_MIN, "auto", NULL, &plan), NEAP_OK);
  assert_int_equal(neap_plan_write(plan, source), NEAP_OK);
  text = read_all(source, &size);
  assert_true(spoil(text, size, read_plan, 2) > 50);
  free(text);
  neap_plan_free(plan);
  neap_step_free(checked_against);
  static const char csv[] = "id,lower,upper,size\n1,0,3,4\n2,3,9,4\n3,0,9,4\n4,9,21,4\n5,0,21,4\n";
  assert_true(spoil(csv, sizeof csv - 1, read_buffers, 3) > 20);
}

static void test_wrong_fields(void **state) {
  (void)state;
#define GRAPH(tensors, nodes, outputs)                                                                       \
  "{\"format\":\"neap-graph\",\"version\":1,\"name\":\"g\",\"tensors\":[" tensors "],\"nodes\":[" nodes      \
  "],\"outputs\":[" outputs "]}"
#define NODE_WITH(inplace, rest)                                                                             \
  "{\"name\":\"n\",\"op\":\"o\",\"pass\":\"forward\",\"workspace\":0,\"updates\":[],\"inplace\":[" inplace   \
  "]," rest "}"
#define NODE(rest) NODE_WITH("", rest)
#define VALUE      "{\"name\":\"v\",\"bytes\":8,\"role\":\"value\"}"
  static const char *const files[][2] = {
      {"", "1"},
      {"[]", "object"},
      {"{\"format\":\"neap-plan\",\"version\":1}", "format"},
      {"{\"format\":\"neap-graph\",\"version\":3}", "version"},
      {GRAPH("{\"name\":\"v\",\"bytes\":-1,\"role\":\"value\"}", "", ""), "tensors[0].bytes"},
      {GRAPH("{\"name\":\"v\",\"bytes\":1,\"role\":\"thing\"}", "", ""),
       "is not one of value, input, parameter, state"},
      {GRAPH(VALUE, "", ""), "no node makes"},
      {GRAPH(VALUE, NODE("\"cost\":1,\"inputs\":[0],\"outputs\":[0]"), ""), "read before"},
      {GRAPH(VALUE, NODE("\"cost\":1,\"inputs\":[7],\"outputs\":[0]"), ""), "out of range"},
      {GRAPH(VALUE, NODE("\"cost\":-1,\"inputs\":[],\"outputs\":[0]"), ""), "cost"},
      {GRAPH(VALUE,
             NODE("\"cost\":1,\"inputs\":[],\"outputs\":[0]") "," NODE(
                 "\"cost\":1,\"inputs\":[],\"outputs\":[0]"),
             ""),
       "already"},
      {GRAPH(VALUE, NODE_WITH("[0,0]", "\"cost\":1,\"inputs\":[],\"outputs\":[0]"), ""), "inplace"},
      {GRAPH(VALUE, NODE("\"cost\":1,\"inputs\":[],\"outputs\":[0]"), "4"), "outputs[0]"},
      {GRAPH("{\"name\":\"v\",\"bytes\":9223372036854775807,\"role\":\"input\"},{\"name\":\"w\",\"bytes\":"
             "9223372036854775807,\"role\":"
             "\"input\"}",
             "", ""),
       "overflow"},
  };
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    write_all(path, files[i][0], strlen(files[i][0]));
    assert_int_equal(read_graph(), NEAP_BAD_FORMAT);
    if (strstr(neap_error_message(), files[i][1]) == NULL)
      print_error("case %zu: %s\n", i, neap_error_message());
    assert_non_null(strstr(neap_error_message(), files[i][1]));
  }
}

/* Without each of its fields in turn, and of those of the first object in each list: the message names it. */
static int leave_out(json_t *root, json_t *object, neap_status (*read)(void)) {
  int refused = 0;
  for (size_t left = json_object_size(object); left > 0; left--) {
    char key[32], message[64];
    void *first = json_object_iter(object); /* what is put back is the last then */
    json_t *value = json_incref(json_object_iter_value(first));
    snprintf(key, sizeof key, "%s", json_object_iter_key(first));
    snprintf(message, sizeof message, "%s': is missing", key);
    assert_int_equal(json_object_del(object, key), 0);
    assert_int_equal(json_dump_file(root, path, JSON_COMPACT), 0);
    if (strcmp(key, "repeatable") != 0) { /* which is true then */
      assert_int_equal(read(), NEAP_BAD_FORMAT);
      if (strstr(neap_error_message(), message) == NULL) print_error("%s\n", neap_error_message());
      assert_non_null(strstr(neap_error_message(), message));
      refused++;
    } else {
      assert_int_equal(read(), NEAP_OK);
    }
    assert_int_equal(json_object_set_new(object, key, value), 0);
    if (json_is_object(json_array_get(value, 0))) refused += leave_out(root, json_array_get(value, 0), read);
  }
  return refused;
}

static void test_missing_fields(void **state) {
  (void)state;
  neap_plan *plan;
  checked_against = random_step(FAMILY_LAYERED, 6, 3);
  assert_int_equal(neap_step_write(checked_against, path), NEAP_OK);
  json_t *root = json_load_file(path, 0, NULL);
  assert_int_equal(leave_out(root, root, read_graph), 6 + 3 + 9);
  json_decref(root);
  assert_int_equal(neap_plan_make(checked_against, NEAP_BUDGET_MIN, "auto", NULL, &plan), NEAP_OK);
  assert_int_equal(neap_plan_write(plan, path), NEAP_OK);
  root = json_load_file(path, 0, NULL);
  assert_int_equal(leave_out(root, root, read_plan), 11 + 4);
  json_decref(root);
  neap_plan_free(plan);
  neap_step_free(checked_against);
}

static void test_round_trip(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 40; i++) {
    neap_step *step = random_step((enum family)(i % FAMILY_COUNT), 4 + (int32_t)i, i + 9), *again;
    size_t size, same;
    assert_int_equal(neap_step_write(step, source), NEAP_OK);
    assert_int_equal(neap_step_read(source, &again), NEAP_OK);
    assert_int_equal(neap_step_write(again, path), NEAP_OK);
    char *a = read_all(source, &size), *b = read_all(path, &same);
    assert_int_equal(size, same);
    assert_memory_equal(a, b, size);
    free(a);
    free(b);
    neap_step_free(step);
    neap_step_free(again);
  }
}

static void test_no_such_file(void **state) {
  (void)state;
  neap_step *step;
  assert_int_equal(neap_step_read("/no/such/file", &step), NEAP_IO_FAILED);
  neap_step *made = random_step(FAMILY_CHAIN, 3, 1);
  assert_int_equal(neap_step_write(made, "/no/such/folder/file"), NEAP_IO_FAILED);
  neap_step_free(made);
}

int run_test_bad_files(void) {
  snprintf(path, sizeof path, "/tmp/neap-test-%ld-a", (long)getpid());
  snprintf(source, sizeof source, "/tmp/neap-test-%ld-b", (long)getpid());
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_spoiled_files),
                                     cmocka_unit_test(test_wrong_fields),
                                     cmocka_unit_test(test_missing_fields), cmocka_unit_test(test_round_trip),
                                     cmocka_unit_test(test_no_such_file)};
  const int result = cmocka_run_group_tests(tests, NULL, NULL);
  remove(path);
  remove(source);
  return result;
}
