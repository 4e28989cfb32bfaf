/* Operators across channels and pooling's rules, on numbers worked out by hand, on both backends; and what
 * the builder refuses. */
#include <math.h>

#include "interpreter.h"

enum { LIMIT = 32 };

struct values { /* [N, C, H, W], row-major */
  int64_t dims[4];
  double data[LIMIT];
};

static int64_t count_of(const struct values *v) { return v->dims[0] * v->dims[1] * v->dims[2] * v->dims[3]; }

/* The first result of an operator on `count` tensors. */
static void expect(enum op op, union attributes attributes, const struct values *in, int32_t count,
                   struct values expected) {
  const struct backend *const backends[] = {&reference_backend, &cpu_backend};
  for (int i = 0; i < 2; i++) {
    struct neap_graph *graph;
    struct lowered *lowered = NULL;
    int32_t inputs[4], outputs[NODE_MAX_OUTPUTS];
    assert_ok(graph_create("channels", &graph));
    for (int32_t k = 0; k < count; k++) {
      struct tensor t = {.name = "x", .role = NEAP_ROLE_INPUT, .rank = 4, .view_of = -1};
      memcpy(t.dims, in[k].dims, sizeof in[k].dims);
      assert_ok(graph_add_tensor(graph, t, &inputs[k]));
    }
    assert_ok(graph_apply(graph, op, "op", &attributes, inputs, count, outputs));
    assert_memory_equal(graph->tensors.data[outputs[0]].dims, expected.dims, sizeof expected.dims);
    assert_ok(lower(graph, backends[i], &(struct lower_options){.threads = 1}, NULL, &lowered));
    struct interpreter m = interpreter_create(lowered, 0, 0xFF);
    for (int32_t k = 0; k < count; k++) interpreter_write(&m, k, in[k].data);
    interpreter_run(&m, &(struct run_context){0});
    size_t at = 0;
    while ((enum op)lowered->graph->nodes.data[at].op != op) at++;
    double *y = interpreter_read(&m, lowered->graph->nodes.data[at].outputs[0]);
    for (int64_t k = 0; k < count_of(&expected); k++)
      if (!(fabs(y[k] - expected.data[k]) <= 1e-6))
        fail_msg("%s, %s: element %d is %g, not %g", op_rows[op]->name, backends[i]->name, (int)k, y[k],
                 expected.data[k]);
    free(y);
    interpreter_free(&m);
    lowered_free(lowered);
    neap_graph_free(graph);
  }
}

/* Two images of two pixels. */
static void test_concat_and_slice(void **state) {
  (void)state;
  const struct values parts[] = {{{2, 1, 1, 2}, {1, 2, 3, 4}},
                                 {{2, 2, 1, 2}, {10, 20, 30, 40, 50, 60, 70, 80}}},
                      whole = {{2, 3, 1, 2}, {1, 2, 10, 20, 30, 40, 3, 4, 50, 60, 70, 80}};
  expect(OP_CONCAT, (union attributes){.part = {.axis = 1}}, parts, 2, whole);
  expect(OP_SLICE, (union attributes){.part = {.axis = 1, .first = 1, .count = 2}}, &whole, 1, parts[1]);
  expect(OP_SLICE, (union attributes){.part = {.axis = 1, .count = 1}}, &whole, 1, parts[0]);
}

/* Sums of squares by hand. A window of even size reaches further back than forth. */
static void test_local_response_norm(void **state) {
  (void)state;
  const struct values x = {{1, 3, 1, 1}, {1, 2, 3}};
  expect(OP_LOCAL_RESPONSE_NORM, (union attributes){.response = {.size = 3, .alpha = 3, .beta = 1, .k = 1}},
         &x, 1, (struct values){{1, 3, 1, 1}, {1.0 / 6, 2.0 / 15, 3.0 / 14}});
  expect(OP_LOCAL_RESPONSE_NORM, (union attributes){.response = {.size = 2, .alpha = 2, .beta = 1, .k = 1}},
         &x, 1, (struct values){{1, 3, 1, 1}, {1.0 / 2, 2.0 / 6, 3.0 / 14}});
  expect(OP_LOCAL_RESPONSE_NORM,
         (union attributes){.response = {.size = 1, .alpha = 1, .beta = 0.75f, .k = 7}}, &x, 1,
         (struct values){{1, 3, 1, 1}, {pow(8, -0.75), 2 * pow(11, -0.75), 3 * pow(16, -0.75)}});
}

static void test_relu6(void **state) {
  (void)state;
  const struct values x = {{1, 1, 2, 3}, {-1, 0, 0.5, 6, 7, 1e30}};
  expect(OP_RELU6, (union attributes){0}, &x, 1, (struct values){{1, 1, 2, 3}, {0, 0, 0.5, 6, 6, 6}});
}

static void test_pooling_rules(void **state) {
  (void)state;
  const struct values nine = {{1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}};
  union attributes a = {.pool = {.size = 2, .stride = 2}};
  expect(OP_MAX_POOL, a, &nine, 1, (struct values){{1, 1, 1, 1}, {5}});
  a.pool.ceil = true;
  expect(OP_MAX_POOL, a, &nine, 1, (struct values){{1, 1, 2, 2}, {5, 6, 8, 9}});
  expect(OP_AVERAGE_POOL, a, &nine, 1, (struct values){{1, 1, 2, 2}, {3, 4.5, 7.5, 9}});
  /* A third window would begin in the padding behind the image. */
  a.pool.padding = 1;
  expect(OP_MAX_POOL, a, &nine, 1, (struct values){{1, 1, 2, 2}, {1, 3, 7, 9}});
  /* Padding counts; what lies beyond it does not. */
  const struct values ones = {{1, 1, 4, 4}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}};
  a = (union attributes){.pool = {.size = 3, .stride = 2, .padding = 1, .ceil = true, .count_padding = true}};
  expect(OP_AVERAGE_POOL, a, &ones, 1,
         (struct values){{1, 1, 3, 3},
                         {4.0 / 9, 6.0 / 9, 2.0 / 6, 6.0 / 9, 1, 3.0 / 6, 2.0 / 6, 3.0 / 6, 1.0 / 4}});
  a.pool.count_padding = false;
  expect(OP_AVERAGE_POOL, a, &ones, 1, (struct values){{1, 1, 3, 3}, {1, 1, 1, 1, 1, 1, 1, 1, 1}});
}

/* ---- Axes ---- */

static void expect_shape(neap_builder *b, neap_tensor x, const int64_t expected[4]) {
  int64_t dims[NEAP_MAX_RANK];
  assert_int_equal(neap_shape(b, x, dims), 4);
  for (int i = 0; i < 4; i++) assert_int_equal(dims[i], expected[i]);
}

/* Of a tensor [2, 4, 6, 8], from the front and from the end. */
static void test_axes_from_the_end(void **state) {
  (void)state;
  for (int axis = 0; axis < 4; axis++) {
    neap_builder *b = neap_builder_create("axes");
    const neap_tensor x = neap_input(b, "x", NEAP_F32, 4, (int64_t[]){2, 4, 6, 8}), parts[] = {x, x};
    for (int given = axis - 4; given <= axis; given += 4) {
      int64_t dims[] = {2, 4, 6, 8};
      const int order[] = {given, (axis + 1) % 4, (axis + 2) % 4 - 4, (axis + 3) % 4};
      expect_shape(b, neap_softmax(b, x, given), dims);
      expect_shape(b, neap_transpose(b, x, order),
                   (int64_t[]){dims[axis], dims[(axis + 1) % 4], dims[(axis + 2) % 4], dims[(axis + 3) % 4]});
      dims[axis] *= 2;
      expect_shape(b, neap_concat(b, parts, 2, given), dims);
      dims[axis] /= 4;
      neap_tensor halves[2];
      neap_split(b, x, given, 2, halves);
      expect_shape(b, halves[1], dims);
      dims[axis] = 1;
      expect_shape(b, neap_slice(b, x, given, 1, 1), dims);
      expect_shape(b, neap_sum(b, x, &given, 1, true), dims);
      expect_shape(b, neap_mean(b, x, &given, 1, true), dims);
    }
    neap_builder_free(b);
  }
}

/* ---- Kernels that are values ---- */

/* The loss after two steps of a network whose second convolution has kernels that the first one makes of a
 * parameter: [filters, 6, size, size], channels last where the backend likes them so. */
static double loss_with_made_kernels(neap_backend backend, int64_t filters, int64_t size) {
  enum { BATCH = 2, CHANNELS = 6, SIDE = 5 };
  neap_builder *b = neap_builder_create("made kernels");
  const neap_tensor x = neap_input(b, "x", NEAP_F32, 4, (int64_t[]){BATCH, CHANNELS, SIDE, SIDE}),
                    label = neap_input(b, "label", NEAP_I32, 1, (int64_t[]){BATCH}),
                    seeds = neap_parameter(b, "seeds", 4, (int64_t[]){filters, 3, size, size},
                                           (neap_parameter_options){.initial = NEAP_INITIAL_HE}),
                    kernels = neap_conv(b, seeds, (neap_conv_options){.filters = CHANNELS, .size = 1}),
                    y = neap_conv_with(b, x, kernels, -1, (neap_conv_options){.padding = size / 2}),
                    loss = neap_softmax_cross_entropy(b, neap_global_average_pool(b, y), label, 0);
  neap_graph *graph;
  neap_session *session;
  neap_step_result result;
  assert_ok(neap_builder_finish(b, loss, &graph));
  neap_builder_free(b);
  const neap_session_options options = {
      .budget = NEAP_BUDGET_MAX, .threads = 1, .backend = backend, .seed = 1};
  assert_ok(neap_session_create(graph, &options, NULL, &session));
  float *pixels = neap_session_input(session, "x");
  int32_t *labels = neap_session_input(session, "label");
  for (int i = 0; i < BATCH * CHANNELS * SIDE * SIDE; i++) pixels[i] = sinf((float)i);
  for (int i = 0; i < BATCH; i++) labels[i] = i;
  for (int i = 0; i < 2; i++) assert_ok(neap_session_step(session, 0.5F, &result));
  neap_session_free(session);
  neap_graph_free(graph);
  return result.loss;
}

static void test_kernels_that_are_made(void **state) {
  (void)state;
  for (int64_t filters = 4; filters <= 16; filters *= 2)
    for (int64_t size = 1; size <= 3; size += 2) {
      const double loss = loss_with_made_kernels(NEAP_CPU, filters, size),
                   expected = loss_with_made_kernels(NEAP_REFERENCE, filters, size);
      if (!(fabs(loss - expected) < 1e-4))
        fail_msg("%d kernels of %d: the loss is %.6f, not %.6f", (int)filters, (int)size, loss, expected);
    }
}

/* ---- What is refused ---- */

static neap_tensor wrong(neap_builder *b, neap_tensor x, int which) {
  const neap_tensor other = neap_max_pool(b, x, (neap_pool_options){.size = 2}), parts[] = {x, other};
  switch (which) {
  case 0:
    return neap_concat(b, parts, 2, 1);
  case 1:
    return neap_concat(b, parts, 0, 1);
  case 2:
    return neap_concat(b, parts, 2, 4);
  case 3:
    return neap_slice(b, x, 1, 3, 2);
  case 4:
    return neap_slice(b, x, 1, -1, 2);
  case 5:
    return neap_slice(b, x, 1, 0, 0);
  case 6:
    return neap_slice(b, x, 1, 1, INT64_MAX);
  case 7:
    return neap_local_response_norm(b, x, (neap_response_norm_options){.k = -1});
  case 8:
    return neap_local_response_norm(b, x, (neap_response_norm_options){.size = -3});
  case 9:
    return neap_conv(b, x, (neap_conv_options){.filters = 2, .kernel_height = 3});
  case 10:
    return neap_conv(b, x, (neap_conv_options){.filters = 2, .size = 3, .padding_width = -1});
  case 11:
    return neap_conv(b, x, (neap_conv_options){.filters = 2, .size = 1, .kernel_width = 9});
  default:
    return INT32_MIN;
  }
}

/* Of the messages, by mistake: shapes, and what is wanted. */
static const char *const messages[] = {
    "Concat 'concat1': 'x' [2, 4, 6, 6] and 'max_pool1' [2, 4, 3, 3] must be equal in all but axis 1",
    "Concat of 0 tensors",
    "'x' [2, 4, 6, 6] has no axis 4",
    "axis 1 of 'x' [2, 4, 6, 6] has 4 elements; it does not have 2 from 3 on",
    "it does not have 2 from -1 on",
    "it does not have 0 from 0 on",
    "it does not have 9223372036854775807 from 1 on",
    "k -1 must be positive",
    "size -3, ",
    "Conv: 2 filters of 3 x 0 in 1 groups do not fit 'x' [2, 4, 6, 6], which must be [N, C, H, W]",
    "padding -1 0 or more",
    "a window of 9 (dilation 1, stride 1, padding 0) does not fit the 6 pixels of 'x' [2, 4, 6, 6]",
    "does not exist",
};

static void test_refused(void **state) {
  (void)state;
  for (int which = 0; which <= 12; which++) {
    neap_builder *b = neap_builder_create("refused");
    const neap_tensor x = neap_input(b, "x", NEAP_F32, 4, (int64_t[]){2, 4, 6, 6}),
                      label = neap_input(b, "label", NEAP_I32, 1, (int64_t[]){2}), y = wrong(b, x, which);
    neap_graph *graph = NULL;
    const neap_tensor loss =
        neap_softmax_cross_entropy(b, neap_linear(b, neap_flatten(b, y), 3, false), label, 0);
    if (y >= 0 || neap_builder_finish(b, loss, &graph) != NEAP_INVALID_ARGUMENT)
      fail_msg("mistake %d is not refused", which);
    assert_null(graph);
    if (strstr(neap_error_message(), messages[which]) == NULL)
      fail_msg("mistake %d: %s", which, neap_error_message());
    neap_builder_free(b);
  }
}

int run_test_channels(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_concat_and_slice),
                                     cmocka_unit_test(test_local_response_norm),
                                     cmocka_unit_test(test_relu6),
                                     cmocka_unit_test(test_pooling_rules),
                                     cmocka_unit_test(test_axes_from_the_end),
                                     cmocka_unit_test(test_kernels_that_are_made),
                                     cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
