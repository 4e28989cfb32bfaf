/* Attention and rotary embedding on our own kernels. */
#include "op/attention.h"

#include "kernel/cpu/operator.h"
#include "kernel/random_stream.h"

/* ---- Attention ---- */

static struct attention attention_of(const struct neap_graph *graph, const struct node *node) {
  const struct attention_shape s = attention_shape_of(graph, node);
  const struct attention_attributes *a = &node->attributes.attention;
  const int64_t query_row = s.heads * s.depth, key_row = s.key_heads * s.depth;
  const bool packed = node_input(graph, node, 1) == NULL;
  return (struct attention){.sequences = s.sequences,
                            .queries = s.queries,
                            .length = s.length,
                            .packed = packed,
                            .keys = s.keys,
                            .heads = s.heads,
                            .key_heads = s.key_heads,
                            .depth = s.depth,
                            .query_row = packed ? query_row + 2 * key_row : query_row,
                            .key_row = packed ? query_row + 2 * key_row : key_row,
                            .causal = a->causal,
                            .patterns = a->patterns,
                            .scale = s.scale,
                            .cap = a->cap,
                            .storage = node_input(graph, node, 0)->dtype,
                            .probability = a->probability};
}

/* Adds this run's draws and the tensors that hide keys; `places`: their slot. */
static struct attention attention_now(const struct kernel *kernel, void *const *in, int32_t places,
                                      const struct run_context *context) {
  struct attention a = attention_of(kernel->graph, kernel_node(kernel));
  a.key = (struct random_key){context->seed, random_stream(run_draw(context), ATTRIBUTES.attention.stream)};
  a.first = context->first_row;
  a.lengths = in[3];
  if (places < kernel_node(kernel)->input_count)
    *(ATTRIBUTES.attention.length > 0 ? &a.rows : &a.places) = in[places];
  return a;
}

/* Queries, keys and values, or their gradients: separate tensors, or one after the other in one tensor. */
struct three {
  void *q, *k, *v;
};
static struct three three_of(const struct attention *a, void *const *given, bool packed) {
  if (!packed) return (struct three){given[0], given[1], given[2]};
  const int64_t k = a->heads * a->depth, v = k + a->key_heads * a->depth,
                element = (int64_t)bytes_of(a->storage);
  unsigned char *q = given[0];
  return (struct three){q, q + k * element, q + v * element};
}

RUN(run_attention) {
  const struct attention a = attention_now(kernel, in, ATTENTION_PLACES, context);
  const struct three x = three_of(&a, in, in[1] == NULL);
  K->attention(a, x.q, x.k, x.v, out[0], out[1], workspace);
  return NEAP_OK;
}

RUN(run_attention_backward) {
  const struct attention a = attention_now(kernel, in, ATTENTION_BACK_PLACES, context);
  const struct three x = three_of(&a, in, in[1] == NULL), dx = three_of(&a, out, in[1] == NULL);
  K->attention_backward(a, (struct attended){x.q, x.k, x.v, in[4], in[5]},
                        (struct attention_gradients){in[6], dx.q, dx.k, dx.v}, workspace);
  return NEAP_OK;
}

static neap_status prepare_rows(struct cpu *cpu, const struct neap_graph *graph, const struct node *node,
                                struct preparation *p, kernel_run *run, bool backward) {
  for (int32_t i = 0; i < node->input_count; i++) p->inputs[i] = ROW_MAJOR;
  p->workspace = cpu->kernels->attention_workspace(attention_of(graph, node), backward, cpu->threads);
  return cpu_finish(cpu, p, run, (struct cpu_kernel){0});
}

CPU_OPERATOR(attention, TYPES_FLOAT) { return prepare_rows(state, graph, node, p, run_attention, false); }
CPU_OPERATOR(attention_backward, TYPES_FLOAT) {
  return prepare_rows(state, graph, node, p, run_attention_backward, true);
}

/* ---- Rotary embedding ---- */

static struct rotary rotary_of(const struct neap_graph *graph, const struct node *node) {
  const struct tensor *x = node_input(graph, node, 0);
  const struct rotary_attributes *a = &node->attributes.rotary;
  return (struct rotary){.sequences = x->dims[0],
                         .rows = x->dims[1],
                         .heads = x->dims[2],
                         .depth = x->dims[3],
                         .turned = a->heads != 0 ? a->heads : x->dims[2],
                         .width = a->width != 0 ? a->width : x->dims[3],
                         .first = a->first,
                         .base = a->base,
                         .scaling = a->scaling,
                         .back = a->back,
                         .divisors = node->numbers};
}

RUN(run_rotary) {
  (void)context;
  struct rotary r = rotary_of(kernel->graph, kernel_node(kernel));
  if (in[ROTARY_POSITION] != NULL) r.first += *(const int32_t *)in[ROTARY_POSITION];
  K->rotary(r, in[ROTARY_X], out[0], workspace);
  return NEAP_OK;
}
CPU_OPERATOR(rotary, TYPE_F32) {
  const struct cpu *cpu = state;
  p->inputs[ROTARY_X] = p->inputs[ROTARY_POSITION] = ROW_MAJOR;
  p->workspace = cpu->kernels->rotary_workspace(rotary_of(graph, node), cpu->threads);
  return cpu_finish(cpu, p, run_rotary, (struct cpu_kernel){0});
}
