/* The workspace of Winograd's convolutions does not grow with the batch, their result is that of another
 * algorithm up to rounding, and every plan has the same bits; what would need more runs in chunks of images.
 */
#include <math.h>

#include "kernel/cpu/cpu.h"
#include "session_help.h"

enum { BATCH = 12, SIDE = 96, CHANNELS = 64, CLASSES = 3 };

static neap_graph *build(void) {
  neap_graph *graph = NULL;
  neap_builder *b = neap_builder_create("chunks");
  neap_tensor x = neap_input(b, "image", NEAP_F32, 4, (int64_t[]){BATCH, 3, SIDE, SIDE});
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 1, (int64_t[]){BATCH});
  for (int layer = 0; layer < 3; layer++) {
    const neap_tensor y =
        neap_conv(b, x, (neap_conv_options){.filters = CHANNELS, .size = 3, .padding = 1, .bias = true});
    x = neap_silu(b, layer == 2 ? neap_add(b, y, x) : y); /* the last one on top of what is there */
  }
  x = neap_linear(b, neap_global_average_pool(b, x), CLASSES, true);
  ASSERT_OK(neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0), &graph));
  neap_builder_free(b);
  return graph;
}

static neap_session *open_session(const neap_graph *graph, neap_convolution convolution, uint64_t budget) {
  neap_session *s = NULL;
  const neap_session_options options = {.budget = budget,
                                        .planner = "evict", /* which plans at once */
                                        .convolution = convolution,
                                        .threads = 2,
                                        .seed = 3,
                                        .momentum = 0.9f};
  ASSERT_OK(neap_session_create(graph, &options, NULL, &s));
  return s;
}

/* The largest workspace of a convolution; whether any of them is Winograd's. */
static uint64_t largest_workspace(const neap_session *s, bool *winograd) {
  const struct lowered *l = s->main;
  uint64_t most = 0;
  *winograd = false;
  for (int32_t v = 0; v < l->step->node_count; v++) {
    const int32_t op = l->graph->nodes.data[v].op;
    char text[128];
    if (op != OP_CONV && op != OP_CONV_BACKWARD_DATA && op != OP_CONV_BACKWARD_WEIGHTS) continue;
    l->backend->describe(&l->kernels[v], text, sizeof text);
    *winograd = *winograd || strstr(text, "wino") != NULL;
    if (l->step->nodes[v].workspace > most) most = l->step->nodes[v].workspace;
  }
  return most;
}

static void test_chunks(void **state) {
  (void)state;
  bool winograd;
  neap_graph *graph = build();
  neap_session *direct = open_session(graph, NEAP_CONV_DIRECT, NEAP_BUDGET_MAX),
               *most = open_session(graph, NEAP_CONV_WINOGRAD, NEAP_BUDGET_MAX),
               *least = open_session(graph, NEAP_CONV_WINOGRAD, NEAP_BUDGET_MIN);
  const uint64_t workspace = largest_workspace(most, &winograd);
  const struct run_result a = run_steps(direct, 2, 0.05f, CLASSES), b = run_steps(most, 2, 0.05f, CLASSES),
                          c = run_steps(least, 2, 0.05f, CLASSES);
  assert_string_equal(b.digest, c.digest);
  assert_true(fabs(a.last.loss - b.last.loss) <= 1e-4 * fabs(a.last.loss));
  expect_alike(NULL, direct, most, "chunks", 1e-3);
  neap_session_free(direct);
  neap_session_free(most);
  neap_session_free(least);
  neap_graph_free(graph);
  assert_true(winograd);
  assert_true(workspace < 8000000);
}

/* As many images as the limit has room for, at least one. */
static void test_images(void **state) {
  (void)state;
  assert_int_equal(chunk_images(100, 0), 100);
  assert_int_equal(chunk_images(100, 64000000), 100);
  assert_int_equal(chunk_images(100, 640000000), 10);
  assert_int_equal(chunk_images(7, 7000000000), 1);
}

int run_test_chunks(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_images), cmocka_unit_test(test_chunks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
