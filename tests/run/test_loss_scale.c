/* A dynamic loss scale: a step whose gradients do not fit leaves everything but the scale as it is; the scale
 * falls until they fit, rises after many good steps, and goes on from a file. */
#include <math.h>
#include <unistd.h>

#include "session_help.h"

enum { BATCH = 8, CLASSES = 4 };

static neap_graph *build(void) {
  neap_graph *graph = NULL;
  neap_builder *b = neap_builder_create("scale");
  neap_tensor x = neap_input(b, "image", NEAP_F32, 4, (int64_t[]){BATCH, 3, 8, 8});
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 1, (int64_t[]){BATCH});
  x = neap_relu(b,
                neap_conv(b, x, (neap_conv_options){.filters = 16, .size = 3, .padding = 1, .bias = true}));
  x = neap_relu(b,
                neap_conv(b, x, (neap_conv_options){.filters = 16, .size = 3, .padding = 1, .bias = true}));
  x = neap_linear(b, neap_flatten(b, x), CLASSES, true);
  ASSERT_OK(neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0), &graph));
  neap_builder_free(b);
  return graph;
}

static neap_session *open_session(const neap_graph *graph, neap_session_options options) {
  neap_session *s = NULL;
  options.budget = NEAP_BUDGET_MAX;
  options.threads = 2;
  options.seed = 5;
  options.momentum = 0.9f;
  options.dynamic_loss_scale = true;
  ASSERT_OK(neap_session_create(graph, &options, NULL, &s));
  return s;
}

static neap_step_result step(neap_session *s, int number) {
  neap_step_result result;
  const int32_t parts = s->options.micro_batches > 1 ? s->options.micro_batches : 1;
  for (int32_t part = 0; part < parts; part++) {
    fill_inputs(s, (uint64_t)(number * parts + part) + 1, CLASSES);
    ASSERT_OK(neap_session_step(s, 0.01f, &result));
  }
  return result;
}

/* The variables that a step may change. */
static void digest_of(neap_session *s, char digest[65]) { ASSERT_OK(neap_session_digest(s, digest)); }

static const neap_session_options options[] = {
    {.precision = NEAP_F16, .loss_scale = 0x1p22f},
    {.precision = NEAP_F16, .loss_scale = 0x1p22f, .sparse_density = 0.4},
    {.precision = NEAP_F16, .loss_scale = 0x1p22f, .micro_batches = 2, .optimizer = NEAP_ADAM},
};

static void test_falls(void **state) {
  (void)state;
  enum { STEPS = 60 };
  neap_graph *graph = build();
  for (size_t o = 0; o < sizeof options / sizeof *options; o++) {
    neap_session *s = open_session(graph, options[o]);
    int skipped = 0, done = 0;
    for (int i = 0; i < STEPS && done < 3; i++) {
      char before[65], after[65];
      const float scale = s->loss_scale;
      digest_of(s, before);
      const neap_step_result result = step(s, i);
      digest_of(s, after);
      assert_true(isfinite(result.loss));
      if (result.skipped) {
        assert_string_equal(before, after);
        assert_true(s->loss_scale == scale / 2);
        skipped++;
      } else {
        assert_string_not_equal(before, after);
        assert_true(s->loss_scale == scale);
        done++;
      }
    }
    if (skipped == 0 || done < 3)
      fail_msg("options %zu: %d skipped, %d done, scale %g", o, skipped, done, (double)s->loss_scale);
    neap_session_free(s);
  }
  neap_graph_free(graph);
}

/* A power of two that fits changes nothing: f32 has the same bits with any. */
static void test_any_scale(void **state) {
  (void)state;
  char digests[2][65];
  neap_graph *graph = build();
  for (int k = 0; k < 2; k++) {
    neap_session *s = open_session(graph, (neap_session_options){.loss_scale = k == 0 ? 1 : 1024});
    for (int i = 0; i < 4; i++) assert_false(step(s, i).skipped);
    digest_of(s, digests[k]);
    neap_session_free(s);
  }
  assert_string_equal(digests[0], digests[1]);
  neap_graph_free(graph);
}

static void test_rises_and_resumes(void **state) {
  (void)state;
  char path[] = "/tmp/neap-scale-XXXXXX", straight[65], resumed[65];
  const int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  neap_graph *graph = build();
  neap_session *a = open_session(graph, (neap_session_options){.precision = NEAP_F16, .loss_scale = 8});
  for (int i = 0; i < 3; i++) assert_false(step(a, i).skipped);
  assert_int_equal(a->good_steps, 3);
  a->good_steps = 1998; /* as if it had gone on so */
  assert_true(a->loss_scale == 8);
  ASSERT_OK(neap_session_save(a, path));
  neap_session *b = open_session(graph, (neap_session_options){.precision = NEAP_F16, .loss_scale = 8});
  ASSERT_OK(neap_session_load(b, path));
  for (int i = 3; i < 8; i++) {
    step(a, i);
    step(b, i);
    assert_true(a->loss_scale == (i < 4 ? 8 : 16));
    assert_true(a->loss_scale == b->loss_scale);
  }
  digest_of(a, straight);
  digest_of(b, resumed);
  assert_string_equal(straight, resumed);
  neap_session_free(a);
  neap_session_free(b);
  neap_graph_free(graph);
  unlink(path);
}

int run_test_loss_scale(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_falls), cmocka_unit_test(test_any_scale),
                                     cmocka_unit_test(test_rises_and_resumes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
