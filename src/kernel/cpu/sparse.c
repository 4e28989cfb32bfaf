/* Sparse weights on the CPU. */
#include <string.h>

#include "kernel/cpu/operator.h"
#include "kernel/random_stream.h"
#include "rewrite/rewrite.h"

/* Returns where a parameter's values begin; within bounds even if the offset was not written yet. */
static int64_t offset_in(const struct tensor *pool, const void *offset) {
  const int64_t at = *(const int32_t *)offset;
  return at >= 0 && at < pool->elements ? at : 0;
}

static void *element(const struct tensor *pool, void *data, int64_t i) {
  return (unsigned char *)data + dtype_bytes(pool->dtype, (uint64_t)i);
}

/* Returns the positions of a parameter whose values begin at `first`. `indices`: of all; NULL: positions are
 * bits. */
static struct positions positions_from(const void *positions, const void *indices, int64_t first) {
  return indices == NULL
             ? (struct positions){.bits = positions}
             : (struct positions){.ends = positions, .indices = (const uint16_t *)indices + first};
}

RUN(run_densify) {
  (void)workspace, (void)context;
  const struct tensor *pool = kernel_input(kernel, DENSIFY_VALUES);
  const int64_t first = offset_in(pool, in[DENSIFY_OFFSET]);
  K->densify(pool->dtype, kernel_output(kernel, 0)->elements,
             positions_from(in[DENSIFY_POSITIONS], in[DENSIFY_INDICES], first),
             element(pool, in[DENSIFY_VALUES], first), out[0]);
  return NEAP_OK;
}

/* Costs count the bytes of the result, as only a part of the pool is read. */
CPU_OPERATOR(densify, TYPES_FLOAT) {
  static const double share = 0.4; /* of a copy's bytes a second */
  p->inputs[DENSIFY_VALUES] = p->inputs[DENSIFY_OFFSET] = p->inputs[DENSIFY_INDICES] = ROW_MAJOR;
  p->outputs[0] = (struct memory_format){0};
  const struct tensor *x = &graph->tensors.data[node->outputs[0]];
  p->seconds = (double)dtype_bytes(x->dtype, (uint64_t)x->elements) / (share * p->roofline->bytes);
  return cpu_finish(state, p, run_densify, (struct cpu_kernel){0});
}

/* Returns the random stream of a sparse value: that of its dense tensor's name. `pool`: the values of all
 * sparse parameters, or one of their states; `positions` belong to the parameter. */
static uint64_t dense_name(const struct tensor *positions, const struct tensor *pool) {
  const size_t prefix = sizeof SPARSE_POOL - 1;
  const uint64_t hash = random_name(RANDOM_NO_NAME, positions->state_of);
  return random_name(hash, strlen(pool->name) < prefix ? pool->name : pool->name + prefix);
}

RUN(run_accumulate_sparse) {
  (void)out, (void)workspace;
  const struct tensor *sum = kernel_input(kernel, SPARSE_SUM), *g = kernel_input(kernel, SPARSE_GRADIENT);
  const int64_t first = offset_in(sum, in[SPARSE_OFFSET]);
  const struct random_key key = {context->seed ^ dense_name(kernel_input(kernel, SPARSE_POSITIONS), sum),
                                 random_stream(run_draw(context), update_stream(OP_ACCUMULATE))};
  look_for_overflow(kernel, g->dtype, g->elements, in[SPARSE_GRADIENT], context);
  K->accumulate_sparse(sum->dtype, g->dtype, g->elements,
                       positions_from(in[SPARSE_POSITIONS], in[SPARSE_INDICES], first), in[SPARSE_GRADIENT],
                       run_gradient_unit(context), element(sum, in[SPARSE_SUM], first), key);
  return NEAP_OK;
}
CPU_OPERATOR(accumulate_sparse, TYPES_FLOAT) {
  static const double share = 0.2; /* of a copy's bytes a second */
  const struct memory_format lies = p->inputs[SPARSE_POSITIONS];
  for (int32_t i = 0; i < node->input_count; i++) p->inputs[i] = ROW_MAJOR;
  p->inputs[SPARSE_GRADIENT] = p->inputs[SPARSE_POSITIONS] = lies;
  const struct tensor *g = node_input(graph, node, SPARSE_GRADIENT);
  p->seconds = (double)dtype_bytes(g->dtype, (uint64_t)g->elements) / (share * p->roofline->bytes);
  return cpu_finish(state, p, run_accumulate_sparse, (struct cpu_kernel){0});
}

/* ---- Updates of all values ---- */

enum { OF_INDICES = UPDATE_SLOTS, OF_LAYERS, LAYER_INPUTS = 2 /* offset, positions */ };

bool updates_sparse_values(const struct node *node) {
  return node->update_count > 0 && node->input_count > OF_LAYERS && node->op != OP_ACCUMULATE_SPARSE;
}

/* Returns where the values of a parameter begin; for the number after the last one, where all end. */
static int64_t begin_of(const struct kernel *kernel, void *const *in, int32_t layer) {
  const int32_t input = OF_LAYERS + LAYER_INPUTS * layer;
  return input < kernel_node(kernel)->input_count ? *(const int32_t *)in[input]
                                                  : kernel_input(kernel, 0)->elements;
}

void narrow_sparse_values(const struct kernel *kernel, int32_t operand, void *const *in, int64_t first,
                          int64_t count, const float *x, const struct run_context *context) {
  enum { RUN = 1024 };
  const struct tensor *pool = kernel_input(kernel, operand);
  const int32_t layers = (kernel_node(kernel)->input_count - OF_LAYERS) / LAYER_INPUTS;
  const uint64_t stream = random_stream(run_draw(context), update_stream(kernel_node(kernel)->op));
  int32_t layer = 0;
  for (int64_t value = first, length; value < first + count; value += length, x += length) {
    int64_t elements[RUN];
    while (layer + 1 < layers && begin_of(kernel, in, layer + 1) <= value) layer++;
    const int64_t begin = begin_of(kernel, in, layer), end = begin_of(kernel, in, layer + 1);
    length = first + count - value < RUN ? first + count - value : RUN;
    if (end - value < length) length = end - value;
    const struct tensor *positions = kernel_input(kernel, OF_LAYERS + LAYER_INPUTS * layer + 1);
    K->sparse_elements(positions->elements,
                       positions_from(in[OF_LAYERS + LAYER_INPUTS * layer + 1], in[OF_INDICES], begin),
                       value - begin, length, elements);
    const struct random_key key = {context->seed ^ dense_name(positions, pool), stream};
    K->narrow_randomly_at(pool->dtype, length, x, element(pool, in[operand], value), key, elements);
  }
}
