/* The tables of what there is: what an operator takes and is given. */
#include <math.h>
#include <string.h>

#include "kernel/random_stream.h"
#include "op/op.h"
#include "testing.h"

/* The types of an operator are those that neap_cast gives, and one that takes f32 alone says so. */
static void test_types(void **state) {
  (void)state;
  neap_row row;
  for (int32_t op = 0; neap_operator_at(op, &row); op++) {
    int count = 0, possible = 0;
    while (row.types[count] != NULL) count++;
    assert_string_equal(row.types[0], "f32");
    for (int32_t dtype = 0; dtype < dtype_count; dtype++) {
      neap_builder *b = neap_builder_create("cast");
      const neap_tensor x = neap_input(b, "x", NEAP_F32, 1, (int64_t[]){3});
      bool listed = false;
      for (int i = 0; i < count; i++) listed = listed || strcmp(row.types[i], dtype_rows[dtype].name) == 0;
      const bool given = neap_cast(b, x, (neap_dtype)dtype) >= 0;
      possible += given;
      assert_true(given || !listed);
      neap_builder_free(b);
    }
    assert_int_equal(count, op_rows[op]->takes[0] == TYPE_F32 ? 1 : possible);
  }
  assert_false(neap_operator_at(OP_COUNT, &row));
}

/* A slot that real numbers go to takes no whole ones; the message names operator, slot and tensor. */
static void test_wrong_type(void **state) {
  (void)state;
  neap_builder *b = neap_builder_create("cast");
  const neap_tensor x = neap_input(b, "ids", NEAP_I32, 1, (int64_t[]){3});
  assert_true(neap_cast(b, x, NEAP_BF16) < 0);
  assert_string_equal(neap_error_message(),
                      "Cast 'cast1': input 1 is 'ids' [3] of i32; it must be of f32, bf16, f16");
  neap_builder_free(b);
}

static int32_t attribute_count(int32_t op) {
  neap_attribute attribute;
  int32_t count = 0;
  while (neap_attribute_at(op, count, &attribute)) count++;
  return count;
}

/* Names have no structure and no element in them; all elements of all rows are there. */
static void test_attributes(void **state) {
  (void)state;
  for (int32_t op = 0; op < OP_COUNT; op++) {
    int32_t elements = 0;
    for (int32_t i = 0; i < attribute_count(op); i++) {
      neap_attribute attribute;
      assert_true(neap_attribute_at(op, i, &attribute));
      assert_true(attribute.name[0] != '\0' && strpbrk(attribute.name, ".[]") == NULL);
      assert_true(strlen(attribute.name) < sizeof attribute.name - 1);
      elements += attribute.count;
    }
    assert_int_equal(elements, op_rows[op]->attribute_count);
  }
  neap_attribute attribute = {.count = 7};
  assert_false(neap_attribute_at(-1, 0, &attribute));
  assert_false(neap_attribute_at(OP_COUNT, 0, &attribute));
  assert_false(neap_attribute_at(OP_CONV, -1, &attribute));
  assert_false(neap_attribute_at(OP_CONV, attribute_count(OP_CONV), &attribute));
  assert_int_equal(attribute.count, 7);
  assert_true(neap_attribute_at(OP_CONV, 3, &attribute));
  assert_string_equal(attribute.name, "padding");
  assert_string_equal(attribute.type, "integer");
  assert_int_equal(attribute.count, 2);
  assert_true(attribute.usual == 0);
}

/* What 0 means is what a call with zeros makes. */
static void test_usual_values(void **state) {
  (void)state;
  neap_builder *b = neap_builder_create("usual");
  const neap_tensor x = neap_input(b, "x", NEAP_F32, 4, (int64_t[]){2, 4, 6, 6}),
                    y = neap_conv(b, x, (neap_conv_options){.filters = 4, .size = 1}),
                    z = neap_conv_transposed(b, y, (neap_conv_transposed_options){.filters = 4, .size = 1}),
                    n = neap_batch_norm(b, z, (neap_batch_norm_options){0}),
                    r = neap_local_response_norm(b, n, (neap_response_norm_options){0});
  neap_graph *graph;
  assert_int_equal(neap_builder_finish(b, neap_smooth_l1_loss(b, r, x, 0), &graph), NEAP_OK);
  neap_builder_free(b);
  int compared = 0;
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    const union attributes *a = &node->attributes;
    switch (node->op) {
    case OP_CONV:
    case OP_CONV_TRANSPOSED:
      assert_true(a->conv.stride == 1 && a->conv.dilation == 1 && a->conv.groups == 1);
      break;
    case OP_BATCH_NORM_STATISTICS:
    case OP_BATCH_NORM:
    case OP_RUNNING_STATISTICS:
      assert_true(a->batch_norm.epsilon == 1e-5f && a->batch_norm.momentum == 0.1f);
      break;
    case OP_LOCAL_RESPONSE_NORM:
      assert_true(a->response.size == 5 && a->response.alpha == 1e-4f && a->response.beta == 0.75f &&
                  a->response.k == 1);
      break;
    case OP_SMOOTH_L1_LOSS:
      assert_true(a->loss.beta == 1);
      break;
    default:
      compared--;
    }
    compared++;
  }
  assert_int_equal(compared, 7);
  neap_graph_free(graph);
}

/* Updates round by streams of their own, whose numbers never change: checkpoints of 16 bits go on with the
 * bits that they would have had. */
static void test_streams(void **state) {
  (void)state;
  static const int32_t streams[] = {
      [OP_SGD] = 110,          [OP_ADAMW] = 111,       [OP_ADAM] = 112,      [OP_RMSPROP] = 113,
      [OP_LION] = 114,         [OP_ACCUMULATE] = 115,  [OP_CLEAR] = 116,     [OP_MOMENTUM_BEGIN] = 117,
      [OP_MOMENTUM_END] = 118, [OP_LOMO] = 119,        [OP_ADALOMO] = 120,   [OP_ADAFACTOR] = 121,
      [OP_APOLLO] = 122,       [OP_APOLLO_MINI] = 123, [OP_ADAM_MINI] = 124, [OP_MUON] = 125,
      [OP_GALORE] = 126,       [OP_FIRA] = 127};
  for (int32_t op = OP_SGD; op <= OP_MOMENTUM_END; op++) {
    assert_int_equal(update_stream(op), streams[op]);
    for (int32_t other = OP_SGD; other < op; other++)
      assert_int_not_equal(update_stream(op), update_stream(other));
  }
  assert_int_equal(update_stream(OP_CONV), -1);
}

int run_test_tables(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_types), cmocka_unit_test(test_wrong_type),
                                     cmocka_unit_test(test_attributes), cmocka_unit_test(test_usual_values),
                                     cmocka_unit_test(test_streams)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
