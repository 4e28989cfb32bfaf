/* Operators that move pixels, on numbers worked out by hand, on both backends. */
#include <math.h>

#include "interpreter.h"

enum { SIDE_LIMIT = 8 };

struct image { /* one image of one channel, row-major */
  int64_t height, width;
  double pixels[SIDE_LIMIT * SIDE_LIMIT];
};

/* The result of an operator on `x` and, where they are given, kernels of one channel. */
static void expect(enum op op, union attributes attributes, struct image x, const struct image *kernel,
                   struct image expected) {
  const struct backend *const backends[] = {&reference_backend, &cpu_backend};
  for (int i = 0; i < 2; i++) {
    struct neap_graph *graph;
    struct lowered *lowered = NULL;
    struct tensor t = {
        .name = "x", .role = NEAP_ROLE_INPUT, .rank = 4, .dims = {1, 1, x.height, x.width}, .view_of = -1};
    int32_t in[2], out;
    assert_ok(graph_create("space", &graph));
    assert_ok(graph_add_tensor(graph, t, &in[0]));
    if (kernel != NULL) {
      t.role = NEAP_ROLE_PARAMETER;
      t.dims[2] = kernel->height;
      t.dims[3] = kernel->width;
      assert_ok(graph_add_tensor(graph, t, &in[1]));
    }
    assert_ok(graph_apply(graph, op, "op", &attributes, in, kernel != NULL ? 2 : 1, &out));
    assert_int_equal(graph->tensors.data[out].dims[2], expected.height);
    assert_int_equal(graph->tensors.data[out].dims[3], expected.width);
    assert_ok(lower(graph, backends[i], &(struct lower_options){.threads = 1}, NULL, &lowered));
    struct interpreter m = interpreter_create(lowered, 0, 0xFF);
    interpreter_write(&m, 0, x.pixels);
    if (kernel != NULL) interpreter_write(&m, 1, kernel->pixels);
    interpreter_run(&m, &(struct run_context){0});
    for (size_t v = 0; v < lowered->graph->nodes.count; v++) {
      if ((enum op)lowered->graph->nodes.data[v].op != op) continue;
      double *y = interpreter_read(&m, lowered->graph->nodes.data[v].outputs[0]);
      for (int64_t k = 0; k < expected.height * expected.width; k++)
        if (!(fabs(y[k] - expected.pixels[k]) <= 1e-5))
          fail_msg("%s, %s: pixel %d is %g, not %g", op_rows[op]->name, backends[i]->name, (int)k, y[k],
                   expected.pixels[k]);
      free(y);
    }
    interpreter_free(&m);
    lowered_free(lowered);
    neap_graph_free(graph);
  }
}

static const struct image four = {2, 2, {1, 2, 3, 4}};

/* The values that PyTorch's documentation gives for its Upsample of these four. */
static void test_resize(void **state) {
  (void)state;
  union attributes a = {.resize = {.height = 4, .width = 4}};
  expect(
      OP_RESIZE, a, four, NULL,
      (struct image){4, 4, {1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4}});
  a.resize.align_corners = true;
  const double t = 1.0 / 3;
  expect(OP_RESIZE, a, four, NULL,
         (struct image){4,
                        4,
                        {1, 1 + t, 1 + 2 * t, 2, 1 + 2 * t, 2, 2 + t, 2 + 2 * t, 2 + t, 2 + 2 * t, 3, 3 + t,
                         3, 3 + t, 3 + 2 * t, 4}});
  /* To one pixel: the first corner, or the middle. */
  a.resize.height = a.resize.width = 1;
  expect(OP_RESIZE, a, four, NULL, (struct image){1, 1, {1}});
  a.resize.align_corners = false;
  expect(OP_RESIZE, a, four, NULL, (struct image){1, 1, {2.5}});
}

/* Regions of 5 pixels in two: 0 to 3 and 2 to 5. */
static void test_adaptive_average_pool(void **state) {
  (void)state;
  struct image x = {5, 5, {0}};
  for (int i = 0; i < 25; i++) x.pixels[i] = i;
  expect(OP_ADAPTIVE_AVERAGE_POOL, (union attributes){.size = 2}, x, NULL,
         (struct image){2, 2, {6, 8, 16, 18}});
  expect(OP_ADAPTIVE_AVERAGE_POOL, (union attributes){.size = 1}, x, NULL, (struct image){1, 1, {12}});
  expect(OP_ADAPTIVE_AVERAGE_POOL, (union attributes){.size = 5}, x, NULL, x);
}

static void test_crop(void **state) {
  (void)state;
  struct image x = {3, 4, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}};
  expect(OP_CROP, (union attributes){.crop = {.top = 1, .left = 2, .height = 2, .width = 1}}, x, NULL,
         (struct image){2, 1, {6, 10}});
}

/* Each pixel lays down the kernel, times itself. */
static void test_conv_transposed(void **state) {
  (void)state;
  union attributes a = {.conv = {.stride = 2, .dilation = 1, .groups = 1}};
  const struct image corner = {2, 2, {1, 10, 100, 1000}}, nine = {3, 3, {1, 2, 3, 4, 5, 6, 7, 8, 9}};
  expect(OP_CONV_TRANSPOSED, a, four, &corner,
         (struct image){4, 4, {1, 10, 2, 20, 100, 1000, 200, 2000, 3, 30, 4, 40, 300, 3000, 400, 4000}});
  /* The middle of the kernel, and with output padding what comes behind it. */
  a.conv.padding[0] = a.conv.padding[1] = 1;
  expect(OP_CONV_TRANSPOSED, a, (struct image){1, 2, {2, 1}}, &nine, (struct image){1, 3, {10, 16, 5}});
  a.conv.output_padding = 1;
  expect(OP_CONV_TRANSPOSED, a, (struct image){1, 2, {2, 1}}, &nine,
         (struct image){2, 4, {10, 16, 5, 6, 16, 25, 8, 9}});
  /* Overlaps add up. */
  expect(OP_CONV_TRANSPOSED, (union attributes){.conv = {.stride = 1, .dilation = 1, .groups = 1}},
         (struct image){1, 2, {1, 1}}, &corner, (struct image){2, 3, {1, 11, 10, 100, 1100, 1000}});
}

static void test_what_does_not_fit(void **state) {
  (void)state;
  const int64_t dims[] = {1, 4, 6, 8};
  for (int i = 0; i < 6; i++) {
    neap_builder *b = neap_builder_create("space");
    const neap_tensor x = neap_input(b, "image", NEAP_F32, 4, dims);
    neap_tensor y = x;
    if (i == 0) y = neap_crop(b, x, (neap_crop_options){.top = 3, .height = 4, .width = 8});
    if (i == 1) y = neap_crop(b, x, (neap_crop_options){.left = -1, .height = 4, .width = 8});
    if (i == 2) y = neap_resize(b, x, 0, 4, false);
    if (i == 3) y = neap_adaptive_average_pool(b, x, 0);
    if (i == 4)
      y = neap_conv_transposed(
          b, x, (neap_conv_transposed_options){.filters = 3, .size = 2, .stride = 2, .output_padding = 2});
    if (i == 5)
      y = neap_conv_transposed(b, x,
                               (neap_conv_transposed_options){.filters = 3, .size = 2, .padding = INT64_MAX});
    struct neap_graph *graph = NULL;
    assert_true(y < 0);
    assert_int_equal(neap_builder_finish(b, y, &graph), NEAP_INVALID_ARGUMENT);
    neap_builder_free(b);
  }
}

/* 255 and -1 are no classes; each counted pixel weighs the same. */
static void test_ignored_pixels(void **state) {
  (void)state;
  neap_builder *b = neap_builder_create("pixels");
  const neap_tensor image = neap_input(b, "image", NEAP_F32, 4, (int64_t[]){2, 3, 1, 2}),
                    label = neap_input(b, "label", NEAP_I32, 3, (int64_t[]){2, 1, 2});
  struct neap_graph *graph;
  assert_ok(neap_builder_finish(b, neap_softmax_cross_entropy(b, image, label, 0), &graph));
  neap_builder_free(b);
  const struct backend *const backends[] = {&reference_backend, &cpu_backend};
  for (int i = 0; i < 2; i++) {
    struct lowered *lowered = NULL;
    assert_ok(lower(graph, backends[i], &(struct lower_options){.threads = 1}, NULL, &lowered));
    struct interpreter m = interpreter_create(lowered, 0, 0xFF);
    /* [2, 3, 1, 2]: logits 0, 0, 0; 8, 0, 0; 0, ln 2, 0; 5, 5, 5 of the four pixels */
    const double logits[] = {0, 8, 0, 0, 0, 0, 0, 5, log(2), 5, 0, 5}, labels[] = {2, 255, 1, -1};
    interpreter_write(&m, 0, logits);
    interpreter_write(&m, 1, labels);
    interpreter_run(&m, &(struct run_context){0});
    double *loss = interpreter_read(&m, lowered->graph->loss),
           *correct = interpreter_read(&m, lowered->graph->correct);
    assert_true(fabs(*loss - (log(3) + log(2)) / 2) < 1e-6);
    assert_true(*correct == 1);
    free(loss);
    free(correct);
    interpreter_free(&m);
    lowered_free(lowered);
  }
  neap_graph_free(graph);
}

int run_test_space(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_resize),
                                     cmocka_unit_test(test_adaptive_average_pool),
                                     cmocka_unit_test(test_crop),
                                     cmocka_unit_test(test_conv_transposed),
                                     cmocka_unit_test(test_what_does_not_fit),
                                     cmocka_unit_test(test_ignored_pixels)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
