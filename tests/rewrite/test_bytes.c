/* Images that a session keeps as bytes: a quarter of the memory, and the bits that they have as f32. */
#include <string.h>

#include "effort.h"
#include "session_help.h"

#include "data_help.h"

/* ---- The way in ---- */

/* With and without augmentation, bytes and windows say what the f32 images are. */
static void test_filling(void **state) {
  (void)state;
  enum { COUNT = 40, SIDE = 12, PIXELS = SIDE * SIDE, IMAGE = 3 * PIXELS };
  static float images[COUNT * IMAGE];
  static uint8_t bytes[COUNT * IMAGE];
  int32_t records[COUNT], labels[COUNT], windows[4 * COUNT];
  struct loader set;
  ASSERT_OK(open_images(&set, "synthetic:side=12,images=100"));
  const neap_byte_input input = statistics_byte_input(&set.source);
  assert_string_equal(input.name, "image");
  for (int32_t i = 0; i < COUNT; i++) records[i] = i == 7 ? -1 : 2 * i;
  for (int augment = 0; augment < 2; augment++) {
    struct batch batch = {.count = COUNT,
                          .records = records,
                          .draw = {augment, 3, 0},
                          .threads = 2,
                          .images = images,
                          .labels = labels};
    int64_t outside = 0;
    ASSERT_OK(fill_batch(&set, &batch));
    batch.windows = windows;
    batch.images = bytes;
    memset(bytes, 0xAA, sizeof bytes);
    ASSERT_OK(fill_batch(&set, &batch));
    for (int64_t i = 0; i < COUNT * IMAGE; i++) {
      const int32_t *w = windows + 4 * (i / IMAGE), y = (int32_t)(i / SIDE % SIDE), x = (int32_t)(i % SIDE);
      const int64_t c = i / PIXELS % 3;
      const bool inside = y >= w[0] && y < w[1] && x >= w[2] && x < w[3];
      const float value = inside ? ((float)bytes[i] - input.mean[c]) / input.deviation[c] : 0;
      assert_memory_equal(&images[i], &value, sizeof value);
      outside += !inside;
    }
    assert_true(augment ? outside > IMAGE : outside == IMAGE); /* one record is none */
  }
  loader_close(&set);
}

/* ---- Sessions ---- */

enum { BATCH = 6, CLASSES = 4, SIDE = 10, PIXELS = SIDE * SIDE, IMAGES = BATCH * 3 * PIXELS };
static const neap_byte_input input = {"image", {120.5f, 99, 0}, {60.25f, 0, 255}};

static neap_graph *build(void) {
  neap_graph *graph = NULL;
  const int64_t batch = BATCH;
  neap_builder *b = neap_builder_create("bytes");
  neap_tensor x = neap_input(b, "image", NEAP_F32, 4, (int64_t[]){BATCH, 3, SIDE, SIDE});
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 1, &batch);
  for (int layer = 0; layer < 2; layer++) {
    x = neap_conv(b, x, (neap_conv_options){.filters = 16, .size = 3, .padding = 1});
    x = neap_relu(b, neap_batch_norm(b, x, (neap_batch_norm_options){0}));
  }
  x = neap_linear(b, neap_global_average_pool(b, x), CLASSES, true);
  neap_output(b, "logits", x);
  ASSERT_OK(neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0), &graph));
  neap_builder_free(b);
  return graph;
}

static void fill(neap_session *s, uint64_t seed) {
  int32_t *label = neap_session_input(s, "label"), *windows = neap_session_input(s, "image.window");
  void *image = neap_session_input(s, "image");
  int32_t w[4 * BATCH];
  for (int n = 0; n < BATCH; n++) {
    uint32_t word[4];
    random_philox(seed, 2, (uint64_t)n, word);
    label[n] = (int32_t)(word[0] % CLASSES);
    for (int k = 0; k < 4; k++) /* some empty */
      w[4 * n + k] =
          k % 2 == 0 ? (int32_t)(word[k] % 5) : SIDE - (int32_t)(word[k] % (n == 2 ? SIDE + 1 : 5));
  }
  if (windows != NULL) memcpy(windows, w, sizeof w);
  for (int64_t i = 0; i < IMAGES; i++) {
    uint32_t word[4];
    random_philox(seed, 1, (uint64_t)i, word);
    const uint8_t byte = (uint8_t)word[0];
    const int64_t n = i / (3 * PIXELS), c = i / PIXELS % 3, y = i / SIDE % SIDE, x = i % SIDE;
    const bool inside = y >= w[4 * n] && y < w[4 * n + 1] && x >= w[4 * n + 2] && x < w[4 * n + 3];
    const float deviation = input.deviation[c] != 0 ? input.deviation[c] : 1;
    if (windows != NULL)
      ((uint8_t *)image)[i] = byte;
    else
      ((float *)image)[i] = inside ? ((float)byte - input.mean[c]) / deviation : 0;
  }
}

/* Weights after some steps, and what an evaluation gives. */
struct outcome {
  char digest[65];
  double loss;
  float logits[BATCH * CLASSES];
  neap_memory memory;
};

static struct outcome train(const neap_graph *graph, neap_session_options options, uint64_t budget,
                            bool bytes) {
  struct outcome o;
  neap_step_result result;
  neap_session *s = NULL;
  options.budget = budget;
  options.planner = quick_planner();
  options.threads = 2;
  options.seed = 5;
  options.momentum = 0.9f;
  if (bytes) options.byte_input = input;
  ASSERT_OK(neap_session_create(graph, &options, NULL, &s));
  assert_int_equal(neap_session_input(s, "image.window") != NULL, bytes);
  for (int step = 0; step < 3; step++)
    for (int part = 0; part < (options.micro_batches > 1 ? options.micro_batches : 1); part++) {
      fill(s, (uint64_t)(10 * step + part));
      ASSERT_OK(neap_session_micro_step(s, 0.05f, options.micro_batches > 1 ? 0.5f : 1, NULL));
    }
  ASSERT_OK(neap_session_evaluate(s, &result));
  ASSERT_OK(neap_session_output(s, "logits", NULL, o.logits));
  neap_session_memory(s, &o.memory);
  assert_int_equal(o.memory.planned_peak, o.memory.measured_peak);
  o.loss = result.loss;
  ASSERT_OK(neap_session_digest(s, o.digest));
  neap_session_free(s);
  return o;
}

static void test_same_bits(void **state) {
  (void)state;
  static const neap_session_options ways[] = {
      {.precision = NEAP_F32},
      {.precision = NEAP_BF16, .micro_batches = 2},
      {.precision = NEAP_F16},
      {.precision = NEAP_BF16, .master = true},
      {.backend = NEAP_REFERENCE},
      {.backend = NEAP_REFERENCE, .precision = NEAP_BF16},
      {.sparse_density = 0.3, .micro_batches = 2},
  };
  neap_graph *graph = build();
  for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
    const struct outcome plain = train(graph, ways[w], NEAP_BUDGET_MAX, false),
                         most = train(graph, ways[w], NEAP_BUDGET_MAX, true),
                         least = train(graph, ways[w], NEAP_BUDGET_MIN, true);
    assert_string_equal(plain.digest, most.digest);
    assert_string_equal(plain.digest, least.digest);
    assert_memory_equal(plain.logits, most.logits, sizeof plain.logits);
    assert_true(plain.loss == most.loss && plain.loss == least.loss);
    assert_true(plain.memory.inputs - most.memory.inputs >= 3 * IMAGES - 256);
  }
  neap_graph_free(graph);
}

/* A graph without such an input stays as it is. */
static void test_other_input(void **state) {
  (void)state;
  neap_graph *graph = build();
  neap_session_options options = {.budget = NEAP_BUDGET_MAX, .byte_input = {.name = "label"}};
  neap_session *s = NULL;
  ASSERT_OK(neap_session_create(graph, &options, NULL, &s));
  assert_null(neap_session_input(s, "label.window"));
  neap_memory memory;
  neap_session_memory(s, &memory);
  assert_true(memory.inputs >= IMAGES * sizeof(float));
  neap_session_free(s);
  neap_graph_free(graph);
}

int run_test_bytes(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_filling), cmocka_unit_test(test_same_bits),
                                     cmocka_unit_test(test_other_input)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
