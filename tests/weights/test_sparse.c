/* Sparse parameters: a step is that of the dense network under a mask, bit for bit; it has the same bits with
 * every plan and goes on from a file; rewiring keeps the number of values and what it does not drop. */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "effort.h"
#include "session_help.h"

enum { BATCH = 8, CLASSES = 5, SIDE = 8, FILTERS = 32, PIXELS = 3 * SIDE * SIDE };
static const double density = 0.3;

static neap_graph *build(int64_t batch, int64_t filters) {
  neap_graph *graph = NULL;
  neap_builder *b = neap_builder_create("sparse");
  neap_tensor x = neap_input(b, "image", NEAP_F32, 4, (int64_t[]){batch, 3, SIDE, SIDE});
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 1, &batch);
  for (int layer = 0; layer < 4; layer++) {
    x = neap_conv(b, x,
                  (neap_conv_options){.filters = filters, .size = layer == 2 ? 1 : 3, .padding = layer != 2});
    x = neap_relu(b, neap_batch_norm(b, x, (neap_batch_norm_options){0}));
  }
  x = neap_linear(b, neap_global_average_pool(b, x), CLASSES, true);
  ASSERT_OK(neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0), &graph));
  neap_builder_free(b);
  return graph;
}

static void draw(neap_session *s, uint64_t seed) {
  float *image = neap_session_input(s, "image");
  int32_t *label = neap_session_input(s, "label");
  for (int64_t i = 0; i < BATCH * PIXELS; i++) {
    uint32_t word[4];
    random_philox(seed, 1, (uint64_t)i, word);
    image[i] = 2 * random_uniform(word[0]) - 1;
    if (i < BATCH) label[i] = (int32_t)(word[2] % CLASSES);
  }
}

static neap_session *open_session(const neap_graph *graph, neap_session_options options, uint64_t budget) {
  neap_session *s = NULL;
  options.budget = budget;
  options.planner = "evict"; /* which plans at once: what the least is does not matter here */
  options.threads = 2;
  options.seed = 3;
  ASSERT_OK(neap_session_create(graph, &options, NULL, &s));
  return s;
}

/* Steps of two micro-batches each, or of one. */
static void train(neap_session *s, int first, int steps, bool rewire) {
  const int parts = s->options.micro_batches > 1 ? s->options.micro_batches : 1;
  for (int step = first; step < first + steps; step++) {
    for (int part = 0; part < parts; part++) {
      draw(s, (uint64_t)(step * 16 + part));
      ASSERT_OK(neap_session_micro_step(s, 0.05f, 1 / (float)parts, NULL));
    }
    if (rewire) ASSERT_OK(neap_session_rewire(s, 0.05, NULL));
  }
}

/* The positions of the parameter that a variable is or belongs to; NULL: it is dense. To be freed. */
static float *positions_for(const neap_session *s, const char *name) {
  char text[128];
  int64_t count;
  snprintf(text, sizeof text, "%s", name);
  char *end = strstr(text, ".weight");
  if (end == NULL) return NULL;
  snprintf(end, sizeof text - (size_t)(end - text), ".weight.positions");
  const int32_t index = find_variable(s, text);
  return index < 0 ? NULL : read_variable(s, index, &count);
}

/* ---- Beside a dense network under a mask ---- */

/* Makes the dense session's variables those of the sparse one. */
static void copy_variables(const neap_session *from, neap_session *to) {
  neap_variable v;
  for (int32_t i = 0; i < neap_session_variable_count(to); i++) {
    int64_t count;
    ASSERT_OK(neap_session_variable(to, i, &v));
    float *data = read_variable(from, find_variable(from, v.name), &count);
    ASSERT_OK(neap_session_write(to, i, data));
    free(data);
  }
}

static void mask_variables(neap_session *dense, const neap_session *sparse) {
  neap_variable v;
  for (int32_t i = 0; i < neap_session_variable_count(dense); i++) {
    int64_t count;
    ASSERT_OK(neap_session_variable(dense, i, &v));
    float *positions = positions_for(sparse, v.name), *data = read_variable(dense, i, &count);
    for (int64_t e = 0; positions != NULL && e < count; e++) data[e] = positions[e] != 0 ? data[e] : 0;
    ASSERT_OK(neap_session_write(dense, i, data));
    free(positions);
    free(data);
  }
}

static void assert_same_values(const neap_session *dense, const neap_session *sparse) {
  neap_variable v;
  for (int32_t i = 0; i < neap_session_variable_count(dense); i++) {
    int64_t count;
    ASSERT_OK(neap_session_variable(dense, i, &v));
    float *a = read_variable(dense, i, &count),
          *b = read_variable(sparse, find_variable(sparse, v.name), &count);
    for (int64_t e = 0; e < count; e++)
      if (a[e] != b[e])
        fail_msg("%s[%lld]: %g dense, %g sparse", v.name, (long long)e, (double)a[e], (double)b[e]);
    free(a);
    free(b);
  }
}

static void test_like_a_mask(void **state) {
  (void)state;
  static const neap_session_options optimizers[] = {
      {.optimizer = NEAP_SGD, .momentum = 0.9f, .weight_decay = 0.01f},
      {.optimizer = NEAP_SGD, .momentum = 0.9f, .nesterov = true},
      {.optimizer = NEAP_ADAM, .weight_decay = 0.01f},
      {.optimizer = NEAP_SGD, .momentum = 0.9f, .clip_value = 0.01f},
      /* values that round at random: by their names and elements in the dense tensors */
      {.optimizer = NEAP_SGD, .momentum = 0.9f, .weight_decay = 0.01f, .precision = NEAP_BF16},
      {.optimizer = NEAP_SGD, .momentum = 0.9f, .precision = NEAP_F16},
      {.optimizer = NEAP_ADAM, .weight_decay = 0.01f, .precision = NEAP_BF16},
      {.optimizer = NEAP_LION, .precision = NEAP_F16},
  };
  neap_graph *graph = build(BATCH, FILTERS);
  for (size_t o = 0; o < sizeof optimizers / sizeof *optimizers; o++) {
    neap_session_options options = optimizers[o];
    options.micro_batches = 2;
    neap_session *dense = open_session(graph, options, NEAP_BUDGET_MAX);
    options.sparse_density = density;
    options.sparse_positions = o % 2 == 0 ? NEAP_SPARSE_BITS : NEAP_SPARSE_INDICES;
    neap_session *sparse = open_session(graph, options, NEAP_BUDGET_MAX);
    copy_variables(sparse, dense);
    for (int step = 0; step < 4; step++) {
      train(dense, step, 1, false);
      mask_variables(dense, sparse);
      train(sparse, step, 1, false);
    }
    assert_same_values(dense, sparse);
    neap_session_free(dense);
    neap_session_free(sparse);
  }
  neap_graph_free(graph);
}

/* ---- Budgets, types, files ---- */

static void digest_after(const neap_graph *graph, neap_session_options options, uint64_t budget,
                         char digest[65]) {
  neap_session *s = open_session(graph, options, budget);
  neap_memory memory;
  train(s, 0, 4, true);
  ASSERT_OK(neap_session_evaluate(s, NULL));
  neap_session_memory(s, &memory);
  assert_int_equal(memory.planned_peak, memory.measured_peak);
  ASSERT_OK(neap_session_digest(s, digest));
  neap_session_free(s);
}

static const neap_session_options sparse_options[] = {
    {.momentum = 0.9f, .weight_decay = 0.01f, .sparse_density = 0.3},
    {.momentum = 0.9f, .weight_decay = 0.01f, .sparse_density = 0.02, .micro_batches = 2},
    {.momentum = 0.9f, .sparse_density = 0.3, .precision = NEAP_F16, .micro_batches = 2},
    {.momentum = 0.9f, .sparse_density = 0.3, .precision = NEAP_BF16},
    {.optimizer = NEAP_ADAMW, .sparse_density = 0.5, .precision = NEAP_F16, .master = true},
    {.optimizer = NEAP_ADAM, .sparse_density = 0.3, .clip_norm = 0.1f, .sparse_layers = "*.weight"},
};
enum { SPARSE_OPTIONS = sizeof sparse_options / sizeof *sparse_options };

static void test_same_bits(void **state) {
  (void)state;
  for (int odd = 0; odd < 2; odd++) { /* channels that do not fill blocks, too */
    neap_graph *graph = build(BATCH, odd ? 20 : FILTERS);
    for (int o = 0; o < (odd ? 3 : SPARSE_OPTIONS); o++) {
      char most[65], least[65];
      digest_after(graph, sparse_options[o], NEAP_BUDGET_MAX, most);
      digest_after(graph, sparse_options[o], NEAP_BUDGET_MIN, least);
      assert_string_equal(most, least);
    }
    neap_graph_free(graph);
  }
}

/* ---- Both forms of positions ---- */

/* Layers of several blocks of indices, none of whole blocks. */
enum { WIDE = 86 };

static void digest_of(const neap_session *s, char digest[65]) {
  ASSERT_OK(neap_session_digest((neap_session *)s, digest));
}

static neap_session *open_as(const neap_graph *graph, neap_session_options options,
                             neap_sparse_positions positions, uint64_t budget) {
  options.sparse_positions = positions;
  return open_session(graph, options, budget);
}

/* Bits and indices give the same weights, step by step and rewiring by rewiring; a file of one is read as the
 * other, and goes on. */
static void test_forms(void **state) {
  (void)state;
  char path[] = "/tmp/neap-sparse-XXXXXX", a[65], b[65];
  const int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  for (int wide = 0; wide < 2; wide++) {
    neap_graph *graph = build(BATCH, wide ? WIDE : FILTERS);
    for (int o = 0; o < (wide ? 3 : SPARSE_OPTIONS); o++) {
      if (quick_pass() && o < 3 && (o % 2 == 0) == wide) continue; /* each of them in one width */
      neap_session *bits = open_as(graph, sparse_options[o], NEAP_SPARSE_BITS, NEAP_BUDGET_MAX),
                   *indices = open_as(graph, sparse_options[o], NEAP_SPARSE_INDICES, NEAP_BUDGET_MIN);
      assert_false(bits->sparse->by_index);
      assert_true(indices->sparse->by_index);
      for (int step = 0; step < 4; step++) {
        train(bits, step, 1, true);
        train(indices, step, 1, true);
        digest_of(bits, a), digest_of(indices, b);
        assert_string_equal(a, b);
      }
      ASSERT_OK(neap_session_save(bits, path));
      neap_session *resumed = open_as(graph, sparse_options[o], NEAP_SPARSE_INDICES, NEAP_BUDGET_MAX);
      ASSERT_OK(neap_session_load(resumed, path));
      train(bits, 4, 2, true);
      train(resumed, 4, 2, true);
      digest_of(bits, a), digest_of(resumed, b);
      assert_string_equal(a, b);
      neap_session_free(bits);
      neap_session_free(indices);
      neap_session_free(resumed);
    }
    neap_graph_free(graph);
  }
  unlink(path);
}

/* The form that takes fewer bytes is chosen by shapes and density. */
static void test_smaller(void **state) {
  (void)state;
  static const double densities[] = {0.3, 0.08, 0.05, 0.02};
  neap_graph *graph = build(BATCH, WIDE);
  for (size_t i = 0; i < sizeof densities / sizeof *densities; i++) {
    const neap_session_options options = {.sparse_density = densities[i]};
    uint64_t states[3];
    for (int form = 0; form < 3; form++) {
      neap_session *s = open_as(graph, options, (neap_sparse_positions)form, NEAP_BUDGET_MAX);
      neap_memory memory;
      neap_session_memory(s, &memory);
      states[form] = memory.states;
      if (form == NEAP_SPARSE_SMALLER) assert_int_equal(s->sparse->by_index, densities[i] < 1.0 / 16);
      neap_session_free(s);
    }
    assert_int_equal(states[NEAP_SPARSE_SMALLER], states[NEAP_SPARSE_BITS] < states[NEAP_SPARSE_INDICES]
                                                      ? states[NEAP_SPARSE_BITS]
                                                      : states[NEAP_SPARSE_INDICES]);
  }
  neap_graph_free(graph);
}

static void test_saved(void **state) {
  (void)state;
  char path[] = "/tmp/neap-sparse-XXXXXX", straight[65], resumed[65], before[65];
  const int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  neap_graph *graph = build(BATCH, FILTERS);
  for (int o = 0; o < SPARSE_OPTIONS; o++) {
    if (leaves_out((size_t)o, 1, 2)) continue;
    neap_session *a = open_session(graph, sparse_options[o], NEAP_BUDGET_MAX);
    train(a, 0, 3, true);
    ASSERT_OK(neap_session_save(a, path));
    ASSERT_OK(neap_session_digest(a, before));
    train(a, 3, 3, true);
    ASSERT_OK(neap_session_digest(a, straight));
    neap_session *b = open_session(graph, sparse_options[o], o == 0 ? NEAP_BUDGET_MIN : NEAP_BUDGET_MAX);
    ASSERT_OK(neap_session_load(b, path));
    ASSERT_OK(neap_session_digest(b, resumed));
    assert_string_equal(before, resumed);
    train(b, 3, 3, true);
    ASSERT_OK(neap_session_digest(b, resumed));
    assert_string_equal(straight, resumed);
    neap_session_free(a);
    neap_session_free(b);
  }
  neap_graph_free(graph);
  unlink(path);
}

/* A file of values and their indices: smaller, and read as the dense one is, by sparse and dense sessions. */
static void test_saved_sparse(void **state) {
  (void)state;
  char path[] = "/tmp/neap-sparse-XXXXXX", other[] = "/tmp/neap-sparse-XXXXXX", a[65], b[65];
  struct stat sizes[2];
  const int files[] = {mkstemp(path), mkstemp(other)};
  assert_true(files[0] >= 0 && files[1] >= 0);
  neap_graph *graph = build(BATCH, FILTERS);
  for (int o = 0; o < SPARSE_OPTIONS; o++) {
    if (leaves_out((size_t)o, 0, 2)) continue;
    neap_session_options options = sparse_options[o];
    options.save_sparse = true;
    neap_session *saved = open_session(graph, options, NEAP_BUDGET_MAX),
                 *read = open_session(graph, sparse_options[o], NEAP_BUDGET_MAX);
    train(saved, 0, 3, true);
    ASSERT_OK(neap_session_save(saved, path));
    ASSERT_OK(neap_session_load(read, path));
    digest_of(saved, a), digest_of(read, b);
    assert_string_equal(a, b);
    ASSERT_OK(neap_session_save(read, other));
    assert_true(stat(path, &sizes[0]) == 0 && stat(other, &sizes[1]) == 0);
    assert_true((double)sizes[0].st_size < 0.9 * (double)sizes[1].st_size);
    train(saved, 3, 2, true);
    train(read, 3, 2, true);
    digest_of(saved, a), digest_of(read, b);
    assert_string_equal(a, b);
    neap_session_free(saved);
    neap_session_free(read);
    options.sparse_density = 0;
    neap_session *of_sparse = open_session(graph, options, NEAP_BUDGET_MAX),
                 *of_dense = open_session(graph, options, NEAP_BUDGET_MAX);
    ASSERT_OK(neap_session_load(of_sparse, path));
    ASSERT_OK(neap_session_load(of_dense, other));
    digest_of(of_sparse, a), digest_of(of_dense, b);
    assert_string_equal(a, b);
    neap_session_free(of_sparse);
    neap_session_free(of_dense);
  }
  neap_graph_free(graph);
  for (int i = 0; i < 2; i++) close(files[i]);
  unlink(path);
  unlink(other);
}

/* A dense file gives its largest values; what is sparse is read as dense. */
static void test_dense_file(void **state) {
  (void)state;
  char path[] = "/tmp/neap-sparse-XXXXXX";
  const int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  neap_graph *graph = build(BATCH, FILTERS);
  neap_session *dense = open_session(graph, (neap_session_options){.momentum = 0.9f}, NEAP_BUDGET_MAX);
  neap_session *sparse = open_session(graph, sparse_options[0], NEAP_BUDGET_MAX);
  ASSERT_OK(neap_session_save(dense, path));
  ASSERT_OK(neap_session_load(sparse, path));
  int64_t count, kept = 0;
  const int32_t index = find_variable(sparse, "conv2.weight");
  float *a = read_variable(dense, find_variable(dense, "conv2.weight"), &count),
        *b = read_variable(sparse, index, &count);
  float least = INFINITY, most = 0;
  for (int64_t i = 0; i < count; i++) {
    assert_true(b[i] == 0 || b[i] == a[i]);
    kept += b[i] != 0;
    if (b[i] != 0)
      least = fminf(least, fabsf(a[i]));
    else
      most = fmaxf(most, fabsf(a[i]));
  }
  assert_int_equal(kept, (int64_t)(density * (double)count + 0.5));
  assert_true(least >= most);
  ASSERT_OK(neap_session_save(sparse, path));
  ASSERT_OK(neap_session_load(dense, path));
  float *c = read_variable(dense, find_variable(dense, "conv2.weight"), &count);
  assert_memory_equal(b, c, (size_t)count * sizeof *b);
  free(a), free(b), free(c);
  neap_session_free(dense);
  neap_session_free(sparse);
  neap_graph_free(graph);
  unlink(path);
}

/* ---- Rewiring ---- */

static void test_rewiring(void **state) {
  (void)state;
  static const char *const names[] = {"conv2.weight", "conv3.weight", "conv4.weight"};
  neap_graph *graph = build(BATCH, FILTERS);
  neap_session *s = open_session(graph, sparse_options[0], NEAP_BUDGET_MIN);
  int64_t all = 0, elements, went = 0;
  for (int k = 0; k < 3; k++) {
    float *p = positions_for(s, names[k]), *unused = read_variable(s, find_variable(s, names[k]), &elements);
    for (int64_t i = 0; i < elements; i++) all += p[i] != 0;
    free(p), free(unused);
  }
  assert_int_equal(all, s->sparse->capacity);
  for (int round = 0; round < 12; round++) {
    float *before[3], *momentum[3], *at[3];
    int64_t moved, dropped = 0, now = 0;
    train(s, round, 1, false);
    const double threshold = s->sparse->threshold;
    for (int k = 0; k < 3; k++) {
      char name[64];
      snprintf(name, sizeof name, "%s.momentum", names[k]);
      before[k] = read_variable(s, find_variable(s, names[k]), &elements);
      momentum[k] = read_variable(s, find_variable(s, name), &elements);
      at[k] = positions_for(s, names[k]);
    }
    ASSERT_OK(neap_session_rewire(s, 0.05, &moved));
    for (int k = 0; k < 3; k++) {
      char name[64];
      int64_t left = 0;
      snprintf(name, sizeof name, "%s.momentum", names[k]);
      float *after = read_variable(s, find_variable(s, names[k]), &elements),
            *m = read_variable(s, find_variable(s, name), &elements), *p = positions_for(s, names[k]);
      for (int64_t i = 0; i < elements; i++) {
        const bool large = at[k][i] != 0 && fabs((double)before[k][i]) >= threshold;
        now += p[i] != 0;
        left += p[i] != 0;
        if (large) { /* stays as it is */
          assert_true(p[i] != 0 && after[i] == before[k][i] && m[i] == momentum[k][i]);
        } else if (at[k][i] != 0 && !(p[i] != 0 && after[i] == before[k][i] && before[k][i] != 0)) {
          dropped++;
          assert_true(after[i] == 0 && m[i] == 0);
        } else if (at[k][i] == 0) {
          assert_true(after[i] == 0 && m[i] == 0);
        }
      }
      assert_true(left > 0);
      free(after), free(m), free(p), free(before[k]), free(momentum[k]), free(at[k]);
    }
    assert_int_equal(now, all);
    assert_int_equal(dropped, moved);
    went += moved;
  }
  assert_true(went > 0);
  neap_session_free(s);
  neap_graph_free(graph);
}

static void test_reference_with(neap_sparse_positions positions) {
  neap_graph *graph = build(BATCH, FILTERS);
  neap_session_options options = sparse_options[0];
  options.sparse_positions = positions;
  neap_session *fast = open_session(graph, options, NEAP_BUDGET_MAX);
  options.backend = NEAP_REFERENCE;
  neap_session *exact = open_session(graph, options, NEAP_BUDGET_MAX);
  train(fast, 0, 2, false);
  train(exact, 0, 2, false);
  for (int32_t i = 0; i < neap_session_variable_count(fast); i++) {
    int64_t count;
    double most = 1e-3, off = 0;
    float *a = read_variable(fast, i, &count), *b = read_variable(exact, i, &count);
    for (int64_t e = 0; e < count; e++) {
      most = fmax(most, fabs((double)b[e]));
      off = fmax(off, fabs((double)a[e] - (double)b[e]));
    }
    assert_true(off <= 2e-4 * most);
    free(a), free(b);
  }
  neap_session_free(fast);
  neap_session_free(exact);
  neap_graph_free(graph);
}

static void test_reference(void **state) {
  (void)state;
  test_reference_with(NEAP_SPARSE_BITS);
  test_reference_with(NEAP_SPARSE_INDICES);
}

static void test_errors(void **state) {
  (void)state;
  static const neap_session_options wrong[] = {{.sparse_density = -0.1},
                                               {.sparse_density = 1},
                                               {.sparse_density = NAN},
                                               {.sparse_density = 0.5, .sparse_layers = "none*"},
                                               {.sparse_density = 0.5, .sparse_layers = "*.gamma"},
                                               {.sparse_density = 0.5, .sparse_positions = 3}};
  neap_graph *graph = build(BATCH, FILTERS);
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    neap_session *s = NULL;
    assert_int_equal(neap_session_create(graph, &wrong[i], NULL, &s), NEAP_INVALID_ARGUMENT);
    assert_null(s);
  }
  static const neap_parameter_group one[] = {{"conv2.weight", 0.5f, 0}}, all[] = {{"*", 0.5f, 0}};
  neap_session *s = NULL;
  neap_session_options grouped = {.sparse_density = 0.5, .groups = one, .group_count = 1};
  assert_int_equal(neap_session_create(graph, &grouped, NULL, &s), NEAP_UNSUPPORTED);
  grouped.groups = all;
  neap_session_free(open_session(graph, grouped, NEAP_BUDGET_MAX));
  s = open_session(graph, (neap_session_options){0}, NEAP_BUDGET_MAX);
  assert_int_equal(neap_session_rewire(s, 0.1, NULL), NEAP_INVALID_ARGUMENT);
  neap_session_free(s);
  s = open_session(graph, sparse_options[0], NEAP_BUDGET_MAX);
  assert_int_equal(neap_session_rewire(s, 0, NULL), NEAP_INVALID_ARGUMENT);
  int64_t count;
  const int32_t index = find_variable(s, "conv2.weight.positions");
  float *p = read_variable(s, index, &count);
  for (int64_t i = 0; i < count; i++) p[i] = 1;
  char before[65], after[65];
  ASSERT_OK(neap_session_digest(s, before));
  assert_int_equal(neap_session_write(s, index, p), NEAP_INVALID_ARGUMENT); /* too many */
  ASSERT_OK(neap_session_digest(s, after));
  assert_string_equal(before, after);
  free(p);
  neap_session_free(s);
  neap_graph_free(graph);
}

int run_test_sparse(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_like_a_mask), cmocka_unit_test(test_same_bits),
      cmocka_unit_test(test_forms),       cmocka_unit_test(test_smaller),
      cmocka_unit_test(test_saved),       cmocka_unit_test(test_saved_sparse),
      cmocka_unit_test(test_dense_file),  cmocka_unit_test(test_rewiring),
      cmocka_unit_test(test_reference),   cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
