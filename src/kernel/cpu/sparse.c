/* Sparse weights on the CPU. */
#include "kernel/cpu/operator.h"
#include "kernel/random_stream.h"

/* Where a parameter's values begin; in bounds, also where the offset was not written yet. */
static int64_t offset_in(const struct tensor *pool, const void *offset) {
  const int64_t at = *(const int32_t *)offset;
  return at >= 0 && at < pool->elements ? at : 0;
}

static void *element(const struct tensor *pool, void *data, int64_t i) {
  return (unsigned char *)data + dtype_bytes(pool->dtype, (uint64_t)i);
}

/* Those of a parameter whose values begin at `first`. `indices`: of all; NULL: positions are bits. */
static struct positions positions_from(const void *positions, const void *indices, int64_t first) {
  return indices == NULL
             ? (struct positions){.bits = positions}
             : (struct positions){.ends = positions, .indices = (const uint16_t *)indices + first};
}

RUN(run_densify) {
  (void)workspace, (void)context;
  const struct tensor *pool = kernel_input(kernel, DENSIFY_VALUES);
  const int64_t first = offset_in(pool, in[DENSIFY_OFFSET]);
  K->densify(storage_of(pool->dtype), kernel_output(kernel, 0)->elements,
             positions_from(in[DENSIFY_POSITIONS], in[DENSIFY_INDICES], first),
             element(pool, in[DENSIFY_VALUES], first), out[0]);
  return NEAP_OK;
}

/* By the bytes of what it makes: of the pool it reads a part. */
PREPARE(prepare_densify) {
  static const double bytes_per_second = 10e9;
  p->inputs[DENSIFY_VALUES] = p->inputs[DENSIFY_OFFSET] = p->inputs[DENSIFY_INDICES] = ROW_MAJOR;
  p->outputs[0] = (struct memory_format){0};
  const struct tensor *x = &graph->tensors.data[node->outputs[0]];
  p->seconds = (double)dtype_bytes(x->dtype, (uint64_t)x->elements) / bytes_per_second;
  return cpu_finish(state, p, run_densify, (struct cpu_kernel){0});
}

RUN(run_accumulate_sparse) {
  (void)out, (void)workspace;
  const struct tensor *sum = kernel_input(kernel, SPARSE_SUM), *g = kernel_input(kernel, SPARSE_GRADIENT);
  const int64_t first = offset_in(sum, in[SPARSE_OFFSET]);
  static const uint64_t apart = 14695981039346656037u; /* from what dropout draws */
  const struct random_key key = {context->seed ^ apart,
                                 random_stream(run_draw(context), OP_ACCUMULATE_SPARSE)};
  look_for_overflow(kernel, storage_of(g->dtype), g->elements, in[SPARSE_GRADIENT], context);
  K->accumulate_sparse(storage_of(sum->dtype), storage_of(g->dtype), g->elements,
                       positions_from(in[SPARSE_POSITIONS], in[SPARSE_INDICES], first), in[SPARSE_GRADIENT],
                       run_gradient_unit(context), element(sum, in[SPARSE_SUM], first), key, first);
  return NEAP_OK;
}
PREPARE(prepare_accumulate_sparse) {
  static const double bytes_per_second = 5e9;
  const struct memory_format lies = p->inputs[SPARSE_POSITIONS];
  for (int32_t i = 0; i < node->input_count; i++) p->inputs[i] = ROW_MAJOR;
  p->inputs[SPARSE_GRADIENT] = p->inputs[SPARSE_POSITIONS] = lies;
  const struct tensor *g = node_input(graph, node, SPARSE_GRADIENT);
  p->seconds = (double)dtype_bytes(g->dtype, (uint64_t)g->elements) / bytes_per_second;
  return cpu_finish(state, p, run_accumulate_sparse, (struct cpu_kernel){0});
}
