/* Weights of other files: what fits is taken, what was left is named on either side; frozen parameters. */
#include <unistd.h>

#include "formats/safetensors.h"
#include "rewrite/rewrite.h"
#include "session_help.h"

static char folder[] = "/tmp/neap-initialise-XXXXXX";

static const char *in_folder(const char *name) {
  static char paths[4][300];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

/* conv1, norm1, conv2, norm2 and a head. */
static struct neap_graph *make_graph(int64_t classes) {
  neap_builder *b = neap_builder_create("net");
  struct neap_graph *graph;
  neap_tensor x = neap_input(b, "image", NEAP_F32, 4, (int64_t[]){8, 3, 6, 6});
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 1, (int64_t[]){8});
  for (int i = 0; i < 2; i++) {
    x = neap_conv(b, x, (neap_conv_options){.filters = 8, .size = 3, .padding = 1});
    x = neap_relu(b, neap_batch_norm(b, x, (neap_batch_norm_options){0}));
  }
  x = neap_linear(b, neap_global_average_pool(b, x), classes, true);
  ASSERT_OK(neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0), &graph));
  neap_builder_free(b);
  return graph;
}

static struct neap_session *make_session(const struct neap_graph *graph, neap_session_options o) {
  struct neap_session *s = NULL;
  o.momentum = 0.9f;
  o.threads = 2;
  if (o.budget == 0) o.budget = NEAP_BUDGET_MAX;
  ASSERT_OK(neap_session_create(graph, &o, NULL, &s));
  return s;
}

static float *values_of(const struct neap_session *s, const char *name) {
  for (int32_t i = 0; i < neap_session_variable_count(s); i++) {
    neap_variable v;
    ASSERT_OK(neap_session_variable(s, i, &v));
    if (strcmp(v.name, name) != 0) continue;
    float *values = malloc((size_t)v.elements * sizeof *values);
    assert_non_null(values);
    ASSERT_OK(neap_session_read(s, i, values));
    return values;
  }
  fail_msg("there is no variable '%s'", name);
  return NULL;
}

static bool same_values(const struct neap_session *a, const char *name, const struct neap_session *b,
                        const char *other, size_t count) {
  float *x = values_of(a, name), *y = values_of(b, other);
  const bool same = memcmp(x, y, count * sizeof *x) == 0;
  free(x);
  free(y);
  return same;
}

/* What a file of ours, or a part of it, is written from, under other names. */
struct writing {
  const struct neap_session *session;
  const char *const (*names)[2]; /* ours, theirs */
};

static neap_status read_named(void *context, int32_t index, float *data) {
  const struct writing *w = context;
  for (int32_t i = 0; i < neap_session_variable_count(w->session); i++) {
    neap_variable v;
    TRY(neap_session_variable(w->session, i, &v));
    if (strcmp(v.name, w->names[index][0]) == 0) return neap_session_read(w->session, i, data);
  }
  return NEAP_INTERNAL;
}

static void write_named(const struct neap_session *s, const char *path, const char *const (*names)[2],
                        int32_t count) {
  struct safetensors_tensor tensors[16] = {0};
  struct writing writing = {s, names};
  for (int32_t k = 0; k < count; k++)
    for (int32_t i = 0; i < neap_session_variable_count(s); i++) {
      neap_variable v;
      ASSERT_OK(neap_session_variable(s, i, &v));
      if (strcmp(v.name, names[k][0]) != 0) continue;
      tensors[k] = (struct safetensors_tensor){.name = names[k][1], .rank = v.rank, .elements = v.elements};
      memcpy(tensors[k].dims, v.dims, sizeof v.dims);
    }
  const struct safetensors_content content = {
      .tensors = tensors, .tensor_count = count, .read = read_named, .context = &writing};
  ASSERT_OK(safetensors_save(path, &content));
}

/* A session of one with 5 classes takes what fits of one with 3. */
static void test_new_head(void **state) {
  (void)state;
  struct neap_graph *graph = make_graph(3), *other = make_graph(5);
  struct neap_session *from = make_session(graph, (neap_session_options){.seed = 1}),
                      *to = make_session(other, (neap_session_options){.seed = 2}),
                      *drawn = make_session(other, (neap_session_options){.seed = 2});
  run_steps(from, 3, 0.1f, 3);
  ASSERT_OK(neap_session_save(from, in_folder("from.safetensors")));
  neap_initialisation report;
  ASSERT_OK(neap_session_initialise(to, in_folder("from.safetensors"), NULL, &report));
  assert_int_equal(report.taken, 10);
  assert_int_equal(report.missing_count, 0);
  assert_int_equal(report.reshaped_count, 2);
  assert_string_equal(report.reshaped[0], "linear1.weight [5, 8] (linear1.weight [3, 8])");
  assert_string_equal(report.reshaped[1], "linear1.bias [5] (linear1.bias [3])");
  assert_int_equal(report.unused_count, 0); /* momenta go with their parameters */
  assert_true(same_values(from, "conv2.weight", to, "conv2.weight", 8 * 8 * 9));
  assert_true(same_values(from, "norm2.running_mean", to, "norm2.running_mean", 8));
  assert_true(same_values(drawn, "linear1.weight", to, "linear1.weight", 5 * 8));
  assert_true(same_values(drawn, "conv1.weight.momentum", to, "conv1.weight.momentum", 8 * 27)); /* none */
  assert_int_equal(session_steps(to), 0);
  neap_session_free(from), neap_session_free(to), neap_session_free(drawn);
  neap_graph_free(graph), neap_graph_free(other);
}

/* The same model: states and steps come with it, as with neap_session_load. */
static void test_same_model(void **state) {
  (void)state;
  struct neap_graph *graph = make_graph(3);
  struct neap_session *from = make_session(graph, (neap_session_options){.seed = 1}),
                      *to = make_session(graph, (neap_session_options){.seed = 2});
  const struct run_result was = run_steps(from, 3, 0.1f, 3);
  char digest[65];
  ASSERT_OK(neap_session_save(from, in_folder("from.safetensors")));
  ASSERT_OK(neap_session_initialise(to, in_folder("from.safetensors"), NULL, NULL));
  ASSERT_OK(neap_session_digest(to, digest));
  assert_string_equal(digest, was.digest);
  assert_int_equal(session_steps(to), 3);
  neap_session_free(from), neap_session_free(to);
  neap_graph_free(graph);
}

static const char *const first_names[][2] = {{"conv1.weight", "features.0.weight"},
                                             {"norm1.gamma", "features.1.weight"},
                                             {"norm1.beta", "features.1.bias"},
                                             {"norm1.running_mean", "features.1.running_mean"}};
static const char *const second_names[][2] = {{"conv2.weight", "features.3.weight"},
                                              {"norm2.gamma", "fc.extra"}};
static const char map[] =
    "features.0.*=conv1.*,features.3.*=conv2.*,features.1.weight=norm1.gamma,features.1.bias=norm1.beta,"
    "features.1.*=norm1.*";

static void write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
  assert_int_equal(fclose(file), 0);
}

static const char index_text[] =
    "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {\"features.0.weight\": \"a.safetensors\","
    "\"features.1.weight\": \"a.safetensors\", \"features.1.bias\": \"a.safetensors\","
    "\"features.1.running_mean\": \"a.safetensors\", \"features.3.weight\": \"b.safetensors\","
    "\"fc.extra\": \"b.safetensors\"}}";

/* Two files and an index, by other names; by the index's own name and by its folder. */
static void test_shards(void **state) {
  (void)state;
  struct neap_graph *graph = make_graph(3);
  struct neap_session *from = make_session(graph, (neap_session_options){.seed = 1});
  run_steps(from, 2, 0.1f, 3);
  write_named(from, in_folder("a.safetensors"), first_names, 4);
  write_named(from, in_folder("b.safetensors"), second_names, 2);
  write_text(in_folder("model.safetensors.index.json"), index_text);
  for (int way = 0; way < 2; way++) {
    struct neap_session *to = make_session(graph, (neap_session_options){.seed = 2});
    neap_initialisation report;
    ASSERT_OK(neap_session_initialise(to, way == 0 ? in_folder("model.safetensors.index.json") : folder, map,
                                      &report));
    assert_int_equal(report.taken, 5);
    assert_int_equal(report.unused_count, 1);
    assert_string_equal(report.unused[0], "fc.extra");
    assert_int_equal(report.missing_count, 12 - 5);
    assert_int_equal(report.reshaped_count, 0);
    assert_true(same_values(from, "conv1.weight", to, "conv1.weight", 8 * 27));
    assert_true(same_values(from, "norm1.beta", to, "norm1.beta", 8));
    assert_true(same_values(from, "conv2.weight", to, "conv2.weight", 8 * 72));
    neap_session_free(to);
  }
  neap_session_free(from);
  neap_graph_free(graph);
}

static void expect_refused(struct neap_session *s, const char *path, const char *own_map, neap_status status,
                           const char *text) {
  char before[65], after[65];
  ASSERT_OK(neap_session_digest(s, before));
  assert_int_equal(neap_session_initialise(s, path, own_map, NULL), status);
  if (strstr(neap_error_message(), text) == NULL) fail_msg("'%s' has no '%s'", neap_error_message(), text);
  ASSERT_OK(neap_session_digest(s, after));
  assert_string_equal(before, after);
}

/* A ready-made model begins as it was drawn; a folder that is gone is no model. */
static void test_lost_model(void **state) {
  (void)state;
  struct neap_graph *graph = make_graph(4);
  struct neap_session *s = make_session(graph, (neap_session_options){0});
  ASSERT_OK(load_named("lenet", NULL, s));
  assert_int_equal(load_named(in_folder("gone"), NULL, s), NEAP_INVALID_ARGUMENT);
  assert_non_null(strstr(neap_error_message(), "there is no model"));
  neap_session_free(s);
  neap_graph_free(graph);
}

static void test_refusals(void **state) {
  (void)state;
  struct neap_graph *graph = make_graph(3);
  struct neap_session *s = make_session(graph, (neap_session_options){.seed = 2});
  const char *a = in_folder("a.safetensors"), *index = in_folder("bad.json");
  expect_refused(s, in_folder("none.safetensors"), NULL, NEAP_IO_FAILED, "none.safetensors");
  expect_refused(s, in_folder("none.json"), NULL, NEAP_IO_FAILED, "none.json");
  expect_refused(s, a, NULL, NEAP_BAD_FORMAT, "none of its 4 tensors");
  expect_refused(s, a, "features.*=*=", NEAP_INVALID_ARGUMENT, "features.*=*=");
  expect_refused(s, a, "features.?.weight=*.weight", NEAP_INVALID_ARGUMENT, "the same * and ?");
  expect_refused(s, a, "features.1.bias=features.1.weight", NEAP_INVALID_ARGUMENT,
                 "gives the name 'features.1.weight' to both");
  static const struct {
    const char *text, *says;
  } indices[] = {
      {"{", "line 1"},
      {"{\"weight_map\": []}", "weight_map"},
      {"{\"weight_map\": {\"x\": 3}}", "'x'"},
      {"{\"weight_map\": {\"x\": \"../a.safetensors\"}}", "'../a.safetensors'"},
      {"{\"weight_map\": {\"x\": \"\"}}", "''"},
      {"{\"weight_map\": {\"x\": \"a.safetensors\"}}", "has no tensor 'x'"},
      {"{\"weight_map\": {}}", "none of its 0 tensors"},
  };
  for (size_t i = 0; i < sizeof indices / sizeof *indices; i++) {
    write_text(index, indices[i].text);
    expect_refused(s, index, NULL, NEAP_BAD_FORMAT, indices[i].says);
  }
  unlink(in_folder("model.safetensors.index.json"));
  expect_refused(s, folder, NULL, NEAP_IO_FAILED, "model.safetensors.index.json");
  neap_session_free(s);
  neap_graph_free(graph);
}

/* Sparse parameters that the file has keep its largest values; the others what they were drawn as. */
static void test_sparse(void **state) {
  (void)state;
  static const char *const names[][2] = {{"conv1.weight", "conv1.weight"}, {"conv2.weight", "x"}};
  struct neap_graph *graph = make_graph(3);
  const neap_session_options sparse = {.seed = 2, .sparse_density = 0.25, .sparse_layers = "conv*"};
  struct neap_session *from = make_session(graph, (neap_session_options){.seed = 1}),
                      *to = make_session(graph, sparse), *drawn = make_session(graph, sparse);
  write_named(from, in_folder("part.safetensors"), names, 2);
  ASSERT_OK(neap_session_initialise(to, in_folder("part.safetensors"), NULL, NULL));
  assert_true(same_values(drawn, "conv2.weight", to, "conv2.weight", 8 * 72));
  float *dense = values_of(from, "conv1.weight"), *kept = values_of(to, "conv1.weight");
  float least = INFINITY, most = 0;
  int count = 0;
  for (int i = 0; i < 8 * 27; i++) {
    count += kept[i] != 0;
    if (kept[i] != 0) assert_true(kept[i] == dense[i]);
    if (kept[i] != 0) least = fminf(least, fabsf(kept[i]));
    if (kept[i] == 0) most = fmaxf(most, fabsf(dense[i]));
  }
  assert_int_equal(count, 8 * 27 / 4);
  assert_true(least >= most);
  free(dense), free(kept);
  neap_session_free(from), neap_session_free(to), neap_session_free(drawn);
  neap_graph_free(graph);
}

/* ---- Frozen parameters ---- */

static const char all_but_head[] = "*,!linear1.*";

/* Less memory, the same bits with every plan and number of graphs; what is frozen stays as it is. */
static void test_frozen(void **state) {
  (void)state;
  struct neap_graph *graph = make_graph(3);
  struct neap_session *whole = make_session(graph, (neap_session_options){.seed = 1}),
                      *drawn = make_session(graph, (neap_session_options){.seed = 1, .freeze = all_but_head});
  neap_memory dense, frozen;
  neap_session_memory(whole, &dense);
  neap_session_memory(drawn, &frozen);
  assert_int_equal(dense.parameters, frozen.parameters);
  assert_true(frozen.arena < dense.arena && frozen.states < dense.states / 4);
  char digest[65] = "";
  for (int i = 0; i < 4; i++) {
    const neap_session_options options = {.seed = 1,
                                          .freeze = i < 3 ? all_but_head : "conv*,norm*",
                                          .budget = i == 1 ? NEAP_BUDGET_MIN : NEAP_BUDGET_MAX,
                                          .planner = i == 2 ? "chen-sqrt" : NULL};
    struct neap_session *s = make_session(graph, options);
    const struct run_result result = run_steps(s, 4, 0.1f, 3);
    if (i > 0) assert_string_equal(result.digest, digest);
    memcpy(digest, result.digest, sizeof digest);
    assert_true(same_values(drawn, "conv2.weight", s, "conv2.weight", 8 * 72));
    assert_true(same_values(drawn, "norm1.running_mean", s, "norm1.running_mean", 8));
    assert_false(same_values(drawn, "linear1.weight", s, "linear1.weight", 3 * 8));
    for (int32_t k = 0; k < neap_session_variable_count(s); k++) {
      neap_variable v;
      ASSERT_OK(neap_session_variable(s, k, &v));
      assert_int_equal(v.frozen, v.kind == NEAP_VARIABLE_PARAMETER && strncmp(v.name, "linear1", 7) != 0);
      assert_true(v.kind != NEAP_VARIABLE_STATE || strncmp(v.name, "linear1", 7) == 0);
    }
    neap_session_free(s);
  }
  neap_session_free(whole), neap_session_free(drawn);
  neap_graph_free(graph);
}

/* A frozen network trains as it is evaluated: the losses are the same. */
static void test_frozen_norm_is_as_evaluated(void **state) {
  (void)state;
  struct neap_graph *graph = make_graph(3);
  struct neap_session *s = make_session(graph, (neap_session_options){.seed = 1, .freeze = "norm*"});
  run_steps(s, 3, 0.1f, 3);
  neap_step_result trained, evaluated;
  fill_inputs(s, 9, 3);
  ASSERT_OK(neap_session_evaluate(s, &evaluated));
  fill_inputs(s, 9, 3);
  ASSERT_OK(neap_session_step(s, 0, &trained));
  assert_true(trained.loss == evaluated.loss);
  neap_session_free(s);
  neap_graph_free(graph);
}

/* In micro-batches, in 16 bits and on the reference backend frozen parameters stay, too. */
static void test_frozen_in_other_ways(void **state) {
  (void)state;
  struct neap_graph *graph = make_graph(3);
  const neap_session_options ways[] = {{.micro_batches = 2},
                                       {.precision = NEAP_BF16},
                                       {.precision = NEAP_F16, .master = true},
                                       {.optimizer = NEAP_ADAMW, .clip_norm = 0.1f},
                                       {.backend = NEAP_REFERENCE},
                                       {.sparse_density = 0.5, .sparse_layers = "conv2.weight"},
                                       {.dynamic_loss_scale = true}};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    neap_session_options o = ways[i];
    o.seed = 1;
    o.freeze = "conv1.*,norm?.*";
    struct neap_session *drawn = make_session(graph, o), *s = make_session(graph, o);
    run_steps(s, 4, 0.1f, 3); /* of micro-batches two whole ones */
    assert_true(same_values(drawn, "conv1.weight", s, "conv1.weight", 8 * 27));
    assert_true(same_values(drawn, "norm2.gamma", s, "norm2.gamma", 8));
    assert_true(same_values(drawn, "norm2.running_variance", s, "norm2.running_variance", 8));
    assert_false(same_values(drawn, "conv2.weight", s, "conv2.weight", 8 * 72));
    neap_session_free(drawn), neap_session_free(s);
  }
  neap_graph_free(graph);
}

static void test_bad_patterns(void **state) {
  (void)state;
  static const struct {
    const char *patterns, *says;
  } cases[] = {{"conv1.*,stem.*", "'stem.*'"},
               {"*", "leaves no parameter"},
               {"!", "pattern '!'"},
               {"*,!norm9.*", "'norm9.*'"}};
  struct neap_graph *graph = make_graph(3);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct neap_session *s = NULL;
    const neap_session_options options = {.freeze = cases[i].patterns, .budget = NEAP_BUDGET_MAX};
    assert_int_equal(neap_session_create(graph, &options, NULL, &s), NEAP_INVALID_ARGUMENT);
    if (strstr(neap_error_message(), cases[i].says) == NULL) fail_msg("%s", neap_error_message());
    const neap_session_options predicting = {.freeze = cases[i].patterns, .predict = true};
    assert_int_equal(neap_session_create(graph, &predicting, NULL, &s),
                     NEAP_INVALID_ARGUMENT); /* no output */
  }
  neap_graph_free(graph);
}

static int make_folder(void **state) {
  (void)state;
  return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
  (void)state;
  static const char *const names[] = {"from.safetensors", "a.safetensors", "b.safetensors",
                                      "part.safetensors", "bad.json",      "model.safetensors.index.json"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(in_folder(names[i]));
  return rmdir(folder);
}

int run_test_initialise(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_new_head),
      cmocka_unit_test(test_same_model),
      cmocka_unit_test(test_shards),
      cmocka_unit_test(test_lost_model),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_sparse),
      cmocka_unit_test(test_frozen),
      cmocka_unit_test(test_frozen_norm_is_as_evaluated),
      cmocka_unit_test(test_frozen_in_other_ways),
      cmocka_unit_test(test_bad_patterns),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
