/* Steps from plain arrays: the same as the graph file of that step; what breaks a rule is refused by name;
 * instances and profile agree with each other; a million nodes. */
#include "effort.h"
#include "random_step.h"

#include <stdio.h>
#include <unistd.h>

#define ASSERT_OK(call)                                                                                      \
  do {                                                                                                       \
    if ((call) != NEAP_OK) fail_msg("%s: %s", #call, neap_error_message());                                  \
  } while (0)

/* ---- Round trip ---- */

struct arrays {
  struct region region;
  neap_step_arrays arrays;
};

/* The id lists of all nodes, one after the other. `field`: offset of the pointer, with its count `count`. */
static neap_lists lists_of(struct region *region, const neap_step *step, size_t field, size_t count) {
  int64_t *start = region_alloc(region, (size_t)step->node_count + 1, sizeof *start);
  for (int32_t v = 0; v < step->node_count; v++)
    start[v + 1] = start[v] + *(const int32_t *)((const char *)&step->nodes[v] + count);
  int32_t *ids = region_alloc(region, (size_t)start[step->node_count], sizeof *ids);
  for (int32_t v = 0; v < step->node_count; v++)
    for (int64_t i = 0; i < start[v + 1] - start[v]; i++)
      ids[start[v] + i] = (*(const int32_t *const *)((const char *)&step->nodes[v] + field))[i];
  return (neap_lists){start, ids};
}

#define LISTS_OF(region, step, name, count_name)                                                             \
  lists_of(region, step, offsetof(struct step_node, name), offsetof(struct step_node, count_name))

static void add_nodes(struct arrays *out, const neap_step *step) {
  struct region *region = &out->region;
  const size_t n = (size_t)step->node_count;
  double *costs = region_alloc(region, n, sizeof *costs);
  uint64_t *workspaces = region_alloc(region, n, sizeof *workspaces);
  neap_pass *passes = region_alloc(region, n, sizeof *passes);
  bool *repeatable = region_alloc(region, n, sizeof *repeatable);
  const char **names = region_alloc(region, n, sizeof *names), **ops = region_alloc(region, n, sizeof *ops);
  neap_inplace *pairs = region_alloc(region, n, sizeof *pairs);
  for (size_t v = 0; v < n; v++) {
    const struct step_node *node = &step->nodes[v];
    costs[v] = node->cost;
    workspaces[v] = node->workspace;
    passes[v] = node->pass;
    repeatable[v] = node->repeatable;
    names[v] = node->name;
    ops[v] = node->op;
    assert_in_range(node->inplace_count, 0, 1);
    /* Given from the last node to the first: their order among nodes does not matter. */
    if (node->inplace_count == 1)
      pairs[n - 1 - (size_t)out->arrays.inplace_count++] =
          (neap_inplace){(int32_t)v, node->inplace[0].output, node->inplace[0].input};
  }
  out->arrays.node_costs = costs;
  out->arrays.node_workspaces = workspaces;
  out->arrays.node_passes = passes;
  out->arrays.node_repeatable = repeatable;
  out->arrays.node_names = names;
  out->arrays.node_operators = ops;
  out->arrays.inplace = pairs + n - out->arrays.inplace_count;
}

static void to_arrays(const neap_step *step, struct arrays *out) {
  *out = (struct arrays){0};
  const size_t n = (size_t)step->tensor_count;
  uint64_t *bytes = region_alloc(&out->region, n, sizeof *bytes);
  neap_role *roles = region_alloc(&out->region, n, sizeof *roles);
  const char **names = region_alloc(&out->region, n, sizeof *names);
  for (size_t t = 0; t < n; t++) {
    bytes[t] = step->tensors[t].bytes;
    roles[t] = step->tensors[t].role;
    names[t] = step->tensors[t].name;
  }
  out->arrays = (neap_step_arrays){.name = step->name,
                                   .tensor_count = step->tensor_count,
                                   .node_count = step->node_count,
                                   .step_output_count = step->output_count,
                                   .step_outputs = step->outputs,
                                   .tensor_bytes = bytes,
                                   .tensor_roles = roles,
                                   .tensor_names = names};
  out->arrays.inputs = LISTS_OF(&out->region, step, inputs, input_count);
  out->arrays.outputs = LISTS_OF(&out->region, step, outputs, output_count);
  out->arrays.updates = LISTS_OF(&out->region, step, updates, update_count);
  add_nodes(out, step);
}

/* The graph file of a step. */
static char *text_of(const neap_step *step) {
  char path[] = "/tmp/neap-step-XXXXXX";
  const int descriptor = mkstemp(path);
  assert_true(descriptor >= 0);
  close(descriptor);
  ASSERT_OK(neap_step_write(step, path));
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  char *text = calloc(1, 1 << 20);
  assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
  fclose(file);
  neap_step *again;
  ASSERT_OK(neap_step_read(path, &again));
  neap_step_free(again);
  unlink(path);
  return text;
}

static void test_round_trip(void **state) {
  (void)state;
  for (int family = 0; family < FAMILY_COUNT; family++)
    for (uint32_t seed = 1; seed <= 20; seed++) {
      neap_step *step = random_step((enum family)family, 5 + (int32_t)seed, seed), *made;
      struct arrays arrays;
      to_arrays(step, &arrays);
      ASSERT_OK(neap_step_create(&arrays.arrays, &made));
      region_free(&arrays.region); /* all was copied */
      char *wanted = text_of(step), *got = text_of(made);
      assert_string_equal(wanted, got);
      free(wanted);
      free(got);
      neap_step_free(made);
      neap_step_free(step);
    }
}

/* ---- Defaults, on a small step: 3 reads 0, makes 1; then 1 -> 2; then both, updating 4 ---- */

static uint64_t bytes[5] = {10, 20, 30, 40, 50};
static int32_t made[3] = {0, 1, 2}, read_ids[6] = {3, 0, 0, 1, 4, 3}, changed[1] = {4}, kept[1] = {2};
static int64_t read_start[4] = {0, 1, 2, 6}, changed_start[4] = {0, 0, 0, 1};
static neap_inplace pair[1] = {{.node = 1}};
static double costs[3] = {1, 2, 3};

static neap_step_arrays small(void) {
  return (neap_step_arrays){.tensor_count = 5,
                            .node_count = 3,
                            .step_output_count = 1,
                            .tensor_bytes = bytes,
                            .inputs = {read_start, read_ids},
                            .outputs = {.ids = made},
                            .updates = {changed_start, changed},
                            .step_outputs = kept};
}

static void test_defaults(void **state) {
  (void)state;
  neap_step_arrays arrays = small();
  neap_step *step;
  ASSERT_OK(neap_step_create(&arrays, &step));
  static const neap_role roles[5] = {NEAP_ROLE_VALUE, NEAP_ROLE_VALUE, NEAP_ROLE_VALUE, NEAP_ROLE_INPUT,
                                     NEAP_ROLE_PARAMETER};
  for (int t = 0; t < 5; t++) assert_int_equal(step->tensors[t].role, roles[t]);
  for (int v = 0; v < 3; v++) {
    assert_true(step->nodes[v].repeatable);
    assert_true(step->nodes[v].cost == 1);
  }
  assert_string_equal(step->nodes[2].name, "node 2");
  const char *name;
  uint64_t size;
  ASSERT_OK(neap_step_tensor(step, 4, &name, &size));
  assert_string_equal(name, "tensor 4");
  assert_int_equal(size, 50);
  assert_int_equal(neap_step_tensor(step, 5, &name, &size), NEAP_INVALID_ARGUMENT);
  assert_int_equal(neap_step_tensor(step, -1, &name, &size), NEAP_INVALID_ARGUMENT);
  neap_step_free(step);
  arrays = (neap_step_arrays){0}; /* nothing at all is a step too */
  ASSERT_OK(neap_step_create(&arrays, &step));
  neap_plan *plan;
  neap_plan_info info;
  ASSERT_OK(neap_plan_make(step, NEAP_BUDGET_MIN, "auto", NULL, &plan));
  neap_plan_describe(plan, &info);
  assert_int_equal(info.peak_bytes, 0);
  neap_plan_free(plan);
  neap_step_free(step);
}

/* ---- What is refused ---- */

static void refused(const neap_step_arrays *arrays, neap_status wanted, const char *named) {
  neap_step *step = NULL;
  assert_int_equal(neap_step_create(arrays, &step), wanted);
  assert_null(step);
  if (strstr(neap_error_message(), named) == NULL) fail_msg("'%s' has no '%s'", neap_error_message(), named);
}

/* The small step with one place of it changed. */
#define REFUSED_WITH(place, value, status, named)                                                            \
  do {                                                                                                       \
    neap_step_arrays arrays = small();                                                                       \
    arrays.node_costs = costs;                                                                               \
    arrays.inplace = pair;                                                                                   \
    arrays.inplace_count = 1;                                                                                \
    __typeof__(place) before = place;                                                                        \
    place = (value);                                                                                         \
    refused(&arrays, status, named);                                                                         \
    place = before;                                                                                          \
    ASSERT_OK(neap_step_create(&arrays, &unchanged));                                                        \
    neap_step_free(unchanged);                                                                               \
  } while (0)

/* Two steps whose parameter alone is larger have the same plan, within budgets that differ as much; any other
 * difference makes them unlike. */
static void test_alike(void **state) {
  (void)state;
  uint64_t sizes[2][3] = {{640, 64, 128}, {6400, 64, 128}};
  double spent[2] = {1, 2};
  const neap_role roles[] = {NEAP_ROLE_PARAMETER, NEAP_ROLE_VALUE, NEAP_ROLE_VALUE};
  const int64_t one_each[] = {0, 1, 2};
  const int32_t inputs[] = {0, 1}, outputs[] = {1, 2};
  neap_step *steps[2], *other;
  neap_plan *plans[2];
  neap_step_info infos[2];
  neap_step_arrays a = {.tensor_count = 3,
                        .node_count = 2,
                        .tensor_roles = roles,
                        .node_costs = spent,
                        .inputs = {one_each, inputs},
                        .outputs = {one_each, outputs}};
  for (int i = 0; i < 2; i++) {
    a.tensor_bytes = sizes[i];
    ASSERT_OK(neap_step_create(&a, &steps[i]));
    neap_step_describe(steps[i], &infos[i]);
    assert_int_equal(infos[i].parameter_bytes, sizes[i][0]);
    assert_int_equal(infos[i].trained_bytes, 0);
    ASSERT_OK(neap_plan_make(steps[i], NEAP_BUDGET_MIN, "auto", NULL, &plans[i]));
  }
  neap_plan_info one, two;
  neap_plan_describe(plans[0], &one);
  neap_plan_describe(plans[1], &two);
  assert_true(neap_step_is_alike(steps[0], steps[1]));
  assert_int_equal(two.resident_bytes - one.resident_bytes,
                   infos[1].resident_bytes - infos[0].resident_bytes);
  assert_int_equal(one.arena_bytes, two.arena_bytes);
  spent[1] = 3;
  ASSERT_OK(neap_step_create(&a, &other));
  assert_false(neap_step_is_alike(steps[1], other));
  neap_step_free(other);
  spent[1] = 2;
  sizes[1][2] = 192;
  ASSERT_OK(neap_step_create(&a, &other));
  assert_false(neap_step_is_alike(steps[1], other));
  neap_step_free(other);
  for (int i = 0; i < 2; i++) {
    neap_plan_free(plans[i]);
    neap_step_free(steps[i]);
  }
}

static void test_bad_graphs(void **state) {
  (void)state;
  neap_step *unchanged;
  const neap_status bad = NEAP_INVALID_ARGUMENT;
  REFUSED_WITH(read_ids[1], 2, bad, "nodes[1].inputs[0]"); /* 1 and 2 read each other */
  REFUSED_WITH(read_ids[1], 1, bad, "nodes[1].inputs[0]"); /* itself */
  REFUSED_WITH(made[1], 0, bad, "nodes[1].outputs[0]");    /* a second producer */
  REFUSED_WITH(read_ids[1], 5, bad, "nodes[1].inputs[0]"); /* out of range */
  REFUSED_WITH(read_ids[1], -1, bad, "nodes[1].inputs[0]");
  REFUSED_WITH(made[2], 5, bad, "nodes[2].outputs[0]");
  REFUSED_WITH(changed[0], INT32_MIN, bad, "nodes[2].updates[0]");
  REFUSED_WITH(kept[0], 9, bad, "outputs[0]");
  REFUSED_WITH(bytes[1], UINT64_MAX, bad, "overflows");
  REFUSED_WITH(bytes[1], (uint64_t)INT64_MAX, bad, "overflows");
  REFUSED_WITH(costs[2], -1, bad, "nodes[2].cost");
  REFUSED_WITH(costs[2], 0.0 / 0.0, bad, "nodes[2].cost");
  REFUSED_WITH(costs[2], 1e305, bad, "sum of all costs");
  REFUSED_WITH(pair[0].node, 3, bad, "inplace[0]");
  REFUSED_WITH(pair[0].node, -1, bad, "inplace[0]");
  REFUSED_WITH(pair[0].output, 1, bad, "nodes[1].inplace[0]");
  REFUSED_WITH(pair[0].input, -1, bad, "nodes[1].inplace[0]");
  REFUSED_WITH(read_start[1], 7, bad, "inputs.start");
  REFUSED_WITH(read_start[0], -1, bad, "inputs.start");
  REFUSED_WITH(read_start[3], INT64_MAX, NEAP_TOO_LARGE, "inputs.start");
}

static void test_bad_arrays(void **state) {
  (void)state;
  neap_step *unchanged;
  neap_role roles[5] = {0};
  neap_pass passes[3] = {0};
  const neap_status bad = NEAP_INVALID_ARGUMENT;
  refused(NULL, bad, "'arrays' is NULL");
  REFUSED_WITH(arrays.tensor_count, -1, bad, "-1 tensors");
  REFUSED_WITH(arrays.node_count, -1, bad, "-1 nodes");
  REFUSED_WITH(arrays.step_output_count, -1, bad, "-1 outputs");
  REFUSED_WITH(arrays.inplace_count, -1, bad, "inplace_count");
  REFUSED_WITH(arrays.inplace_count, INT64_MAX, bad, "inplace_count");
  REFUSED_WITH(arrays.tensor_bytes, NULL, bad, "tensor_bytes");
  REFUSED_WITH(arrays.step_outputs, NULL, bad, "step_outputs");
  REFUSED_WITH(arrays.inplace, NULL, bad, "inplace");
  REFUSED_WITH(arrays.inputs.ids, NULL, bad, "inputs.ids");
  roles[3] = (neap_role)17;
  REFUSED_WITH(arrays.tensor_roles, roles, bad, "tensor_roles[3]");
  roles[3] = NEAP_ROLE_VALUE;
  roles[4] = NEAP_ROLE_STATE;
  REFUSED_WITH(arrays.tensor_roles, roles, bad, "tensor 3"); /* a value that no node makes */
  passes[1] = (neap_pass)-1;
  REFUSED_WITH(arrays.node_passes, passes, bad, "node_passes[1]");
}

/* ---- What a plan of it says ---- */

/* No two instances that live at one position overlap, but for one that takes the other's bytes over; by kind
 * and position they add up to the profile. */
static void check_instances(const neap_step *step, const neap_plan *plan) {
  int64_t count, length;
  neap_instance *instances;
  neap_plan_info info;
  neap_plan_describe(plan, &info);
  const int32_t *schedule = neap_plan_schedule(plan, &length);
  uint64_t *live = calloc((size_t)length * NEAP_KIND_COUNT, sizeof *live);
  ASSERT_OK(neap_plan_instances(step, plan, &instances, &count));
  ASSERT_OK(neap_plan_profile(step, plan, live));
  for (int64_t i = 0; i < count; i++) {
    const neap_instance *a = &instances[i];
    const struct step_node *node = &step->nodes[schedule[a->first]];
    assert_int_equal(a->bytes, a->tensor < 0 ? node->workspace : step->tensors[a->tensor].bytes);
    assert_true(a->tensor < 0 || step->tensors[a->tensor].producer == schedule[a->first]);
    assert_true(a->first <= a->last && a->last < length && a->offset + a->bytes <= info.arena_bytes);
    bool taken = false;
    for (int64_t j = 0; j < i; j++) {
      const neap_instance *b = &instances[j];
      const bool meet =
          b->last >= a->first && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
      const bool takes_over = a->in_place && b->last == a->first && a->offset == b->offset;
      assert_true(!meet || takes_over);
      taken = taken || (meet && takes_over);
    }
    assert_true(taken || !a->in_place || a->bytes == 0);
    for (int64_t t = a->first + a->in_place; t <= a->last; t++) {
      assert_true(live[t * NEAP_KIND_COUNT + a->kind] >= a->bytes);
      live[t * NEAP_KIND_COUNT + a->kind] -= a->bytes;
    }
  }
  for (int64_t t = 0; t < length; t++) {
    uint64_t rest = 0;
    for (int k = 0; k < NEAP_KIND_COUNT; k++) rest += live[t * NEAP_KIND_COUNT + k];
    assert_int_equal(rest, info.resident_bytes);
  }
  free(instances);
  free(live);
}

static void test_instances(void **state) {
  (void)state;
  for (int family = 0; family < FAMILY_COUNT; family++)
    for (uint32_t seed = 1; seed <= 10; seed++) {
      neap_step *step = random_step((enum family)family, 5 + (int32_t)seed, seed);
      neap_plan *plan;
      ASSERT_OK(
          neap_plan_make(step, seed % 2 == 0 ? NEAP_BUDGET_MIN : NEAP_BUDGET_MAX, "evict", NULL, &plan));
      check_instances(step, plan);
      neap_plan_free(plan);
      neap_step_free(step);
    }
}

static void test_instances_of_another_plan(void **state) {
  (void)state;
  neap_step *step = random_step(FAMILY_CHAIN, 8, 1), *other = random_step(FAMILY_DENSE, 9, 2);
  neap_plan *plan;
  neap_instance *instances;
  int64_t count;
  ASSERT_OK(neap_plan_make(step, NEAP_BUDGET_MAX, NULL, NULL, &plan));
  assert_int_equal(neap_plan_instances(other, plan, &instances, &count), NEAP_INVALID_PLAN);
  neap_plan_free(plan);
  neap_step_free(step);
  neap_step_free(other);
}

/* ---- A million nodes ---- */

static void test_long_chain(void **state) {
  (void)state;
  const int32_t length = quick_pass() ? 100000 : 1000000;
  uint64_t *sizes = malloc(((size_t)length + 1) * sizeof *sizes);
  int32_t *ids = malloc(((size_t)length + 1) * sizeof *ids);
  for (int32_t i = 0; i <= length; i++) {
    sizes[i] = 64;
    ids[i] = i;
  }
  /* Node v reads tensor v and makes tensor v + 1. */
  const neap_step_arrays arrays = {.tensor_count = length + 1,
                                   .node_count = length,
                                   .tensor_bytes = sizes,
                                   .inputs = {.ids = ids},
                                   .outputs = {.ids = ids + 1},
                                   .step_outputs = &ids[length],
                                   .step_output_count = 1};
  neap_step *step;
  neap_plan *plan;
  neap_plan_info info;
  ASSERT_OK(neap_step_create(&arrays, &step));
  ASSERT_OK(neap_plan_make(step, NEAP_BUDGET_MAX, "keep-all", NULL, &plan));
  neap_plan_describe(plan, &info);
  assert_int_equal(info.length, length);
  assert_int_equal(info.resident_bytes, 64);
  assert_int_equal(info.arena_bytes, 128);
  neap_plan_free(plan);
  neap_step_free(step);
  free(sizes);
  free(ids);
}

int run_test_step_arrays(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_defaults),
      cmocka_unit_test(test_alike),
      cmocka_unit_test(test_bad_graphs),
      cmocka_unit_test(test_bad_arrays),
      cmocka_unit_test(test_instances),
      cmocka_unit_test(test_instances_of_another_plan),
      cmocka_unit_test(test_long_chain),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
