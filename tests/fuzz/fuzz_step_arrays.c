/* Steps from arrays (neap_step_create). What is taken is the same as the graph file that is written of it,
 * says the same of every tensor as the arrays, and its plans are valid. What is refused gives a message, and
 * no step.
 *
 * The input is a list of numbers: which arrays are given, as bits; how many tensors, nodes, step outputs and
 * in-place pairs; then the arrays in the order of `struct neap_step_arrays`. */
#include <math.h>

#include "numbers.h"

enum { LIMIT = 48, IDS = 128 };
enum {
  ROLES = 1,
  NAMES = 2,
  COSTS = 4,
  WORKSPACES = 8,
  PASSES = 16,
  REPEATABLE = 32,
  STARTS = 64,
  UPDATES = 128
};

struct arrays {
  neap_step_arrays arrays;
  uint64_t bytes[LIMIT], workspaces[LIMIT];
  neap_role roles[LIMIT];
  neap_pass passes[LIMIT];
  const char *names[LIMIT];
  double costs[LIMIT];
  bool repeatable[LIMIT];
  int32_t kept[LIMIT];
  neap_inplace inplace[LIMIT];
  int64_t start[3][LIMIT + 1];
  int32_t ids[3][IDS];
};

static int32_t clamp(int64_t number, int32_t least, int32_t most) {
  return number < least ? least : number > most ? most : (int32_t)number;
}

/* Lists that do not lead beyond their ids, which the function cannot know of, but may fall or be negative;
 * with a last one that is too long. */
static neap_lists read_lists(struct numbers *numbers, int32_t nodes, bool starts, int64_t *start,
                             int32_t *ids) {
  int64_t total = nodes;
  for (int32_t v = 0; starts && v <= nodes; v++) {
    const int64_t number = next_integer(numbers);
    start[v] = number > IDS && (number < INT64_MAX || v < nodes) ? IDS : number;
    total = v == nodes || start[v] > total ? start[v] : total;
  }
  total = clamp(total, 0, IDS);
  for (int64_t i = 0; i < total; i++) ids[i] = next_id(numbers);
  return (neap_lists){starts ? start : NULL, ids};
}

static void read_nodes(struct numbers *numbers, int64_t given, int32_t nodes, struct arrays *a) {
  for (int32_t v = 0; (given & COSTS) && v < nodes; v++) a->costs[v] = next_real(numbers);
  for (int32_t v = 0; (given & WORKSPACES) && v < nodes; v++) a->workspaces[v] = next_size(numbers);
  for (int32_t v = 0; (given & PASSES) && v < nodes; v++) a->passes[v] = (neap_pass)(next_id(numbers) & 7);
  for (int32_t v = 0; (given & REPEATABLE) && v < nodes; v++) a->repeatable[v] = next_integer(numbers) != 0;
  a->arrays.node_costs = given & COSTS ? a->costs : NULL;
  a->arrays.node_workspaces = given & WORKSPACES ? a->workspaces : NULL;
  a->arrays.node_passes = given & PASSES ? a->passes : NULL;
  a->arrays.node_repeatable = given & REPEATABLE ? a->repeatable : NULL;
  a->arrays.inputs = read_lists(numbers, nodes, (given & STARTS) != 0, a->start[0], a->ids[0]);
  a->arrays.outputs = read_lists(numbers, nodes, (given & STARTS) != 0, a->start[1], a->ids[1]);
  if (given & UPDATES) a->arrays.updates = read_lists(numbers, nodes, true, a->start[2], a->ids[2]);
}

static void read_arrays(struct numbers *numbers, struct arrays *a) {
  const int64_t given = next_integer(numbers);
  const int32_t tensors = clamp(next_integer(numbers), -1, LIMIT),
                nodes = clamp(next_integer(numbers), -1, LIMIT),
                outputs = clamp(next_integer(numbers), -1, LIMIT),
                pairs = clamp(next_integer(numbers), -1, LIMIT);
  a->arrays = (neap_step_arrays){.name = "arrays",
                                 .tensor_count = tensors,
                                 .node_count = nodes,
                                 .step_output_count = outputs,
                                 .inplace_count = pairs,
                                 .tensor_bytes = a->bytes,
                                 .tensor_roles = given & ROLES ? a->roles : NULL,
                                 .tensor_names = given & NAMES ? a->names : NULL,
                                 .step_outputs = a->kept,
                                 .inplace = a->inplace};
  for (int32_t t = 0; t < tensors; t++) a->bytes[t] = next_size(numbers);
  for (int32_t t = 0; (given & ROLES) && t < tensors; t++) a->roles[t] = (neap_role)(next_id(numbers) & 7);
  for (int32_t t = 0; (given & NAMES) && t < tensors; t++) a->names[t] = t % 2 == 0 ? "\xc3\xa4" : NULL;
  read_nodes(numbers, given, nodes, a);
  for (int32_t i = 0; i < outputs; i++) a->kept[i] = next_id(numbers);
  for (int32_t i = 0; i < pairs; i++) {
    a->inplace[i].node = next_id(numbers);
    a->inplace[i].output = next_id(numbers);
    a->inplace[i].input = next_id(numbers);
  }
}

static void check_says_the_same(const neap_step *step, const neap_step_arrays *arrays) {
  neap_step_info info;
  double cost = 0;
  neap_step_describe(step, &info);
  CHECK(info.tensors == arrays->tensor_count && info.nodes == arrays->node_count);
  for (int32_t t = 0; t < info.tensors; t++) {
    const char *name;
    uint64_t bytes;
    CHECK_OK(neap_step_tensor(step, t, &name, &bytes));
    CHECK(name != NULL && bytes == arrays->tensor_bytes[t]);
  }
  for (int32_t v = 0; v < info.nodes; v++) cost += arrays->node_costs != NULL ? arrays->node_costs[v] : 1;
  CHECK(isfinite(cost) && cost == info.base_cost);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct numbers numbers = numbers_begin(data, size);
  struct arrays *arrays = calloc(1, sizeof *arrays);
  neap_step *step = NULL;
  CHECK(arrays != NULL);
  read_arrays(&numbers, arrays);
  const neap_status status = neap_step_create(&arrays->arrays, &step);
  fuzz_taken = status == NEAP_OK;
  if (fuzz_taken) {
    check_says_the_same(step, &arrays->arrays);
    free(arrays); /* all was copied */
    fuzz_check_step(step);
    fuzz_check_planning(step);
    neap_step_free(step);
  } else {
    CHECK((status == NEAP_INVALID_ARGUMENT || status == NEAP_TOO_LARGE) && step == NULL);
    fuzz_check_refused(status, NULL);
    free(arrays);
  }
  free(numbers.text);
  return 0;
}
