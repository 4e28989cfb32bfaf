/* Costs measured on this machine: each distinct kernel of a lowered graph is timed once. */
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "run/session.h"

enum { TIMED_RUNS = 3 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static bool same_format(struct memory_format a, struct memory_format b) {
  return a.lanes == b.lanes && a.blocks == b.blocks && a.packed == b.packed;
}

static bool same_operand(const struct lowered *l, int32_t a, int32_t b) {
  const struct tensor *x = &l->graph->tensors.data[a], *y = &l->graph->tensors.data[b];
  return x->dtype == y->dtype && x->rank == y->rank &&
         memcmp(x->dims, y->dims, (size_t)x->rank * sizeof *x->dims) == 0 &&
         same_format(l->formats[a], l->formats[b]);
}

/* Do two nodes run the same kernel on operands of the same shapes and formats? */
static bool same_kernel(const struct lowered *l, int32_t a, int32_t b) {
  const struct node *x = &l->graph->nodes.data[a], *y = &l->graph->nodes.data[b];
  const struct attributes *p = &x->attributes, *q = &y->attributes;
  bool same = l->kernels[a].run == l->kernels[b].run && x->input_count == y->input_count &&
              x->output_count == y->output_count && p->stride == q->stride && p->padding == q->padding &&
              p->dilation == q->dilation && p->groups == q->groups && p->size == q->size &&
              p->relu == q->relu && p->addend == q->addend && p->bias == q->bias;
  for (int32_t i = 0; same && i < x->input_count; i++) same = same_operand(l, x->inputs[i], y->inputs[i]);
  for (int32_t i = 0; same && i < x->output_count; i++) same = same_operand(l, x->outputs[i], y->outputs[i]);
  return same;
}

static uint64_t node_footprint(const struct lowered *l, int32_t v) {
  const struct node *node = &l->graph->nodes.data[v];
  uint64_t bytes = l->step->nodes[v].workspace;
  for (int32_t i = 0; i < node->input_count; i++) bytes += tensor_bytes(l, node->inputs[i]);
  for (int32_t i = 0; i < node->output_count; i++) bytes += tensor_bytes(l, node->outputs[i]);
  return bytes;
}

/* The least of a few runs, after one that warms up. All operands lie one after the other in `memory`, which
 * is zeroed. */
static neap_status time_kernel(const struct lowered *l, int32_t v, unsigned char *memory, double *seconds) {
  const struct node *node = &l->graph->nodes.data[v];
  const struct run_context context = {0};
  void *inputs[NODE_MAX_INPUTS], *outputs[NODE_MAX_OUTPUTS];
  for (int32_t i = 0; i < node->input_count; memory += tensor_bytes(l, node->inputs[i]), i++)
    inputs[i] = memory;
  for (int32_t i = 0; i < node->output_count; memory += tensor_bytes(l, node->outputs[i]), i++)
    outputs[i] = memory;
  for (int run = 0; run <= TIMED_RUNS; run++) {
    const double start = now();
    TRY(l->kernels[v].run(&l->kernels[v], inputs, outputs, memory, &context));
    const double took = now() - start;
    if (run == 1 || (run > 1 && took < *seconds)) *seconds = took;
  }
  return NEAP_OK;
}

static neap_status time_all(const struct lowered *l, unsigned char *memory, uint64_t bytes,
                            struct step_node *nodes, int32_t *distinct) {
  int32_t count = 0;
  for (int32_t v = 0; v < l->step->node_count; v++) {
    int32_t known = 0;
    while (known < count && !same_kernel(l, distinct[known], v)) known++;
    if (known == count) {
      memset(memory, 0, bytes);
      TRY(time_kernel(l, v, memory, &nodes[v].cost));
      distinct[count++] = v;
    } else {
      nodes[v].cost = nodes[distinct[known]].cost;
    }
  }
  return NEAP_OK;
}

neap_status measure_costs(struct lowered *l) {
  uint64_t most = 1;
  for (int32_t v = 0; v < l->step->node_count; v++)
    most = node_footprint(l, v) > most ? node_footprint(l, v) : most;
  void *memory = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  RETURN_IF(memory == MAP_FAILED, NEAP_OUT_OF_MEMORY, "the system has no %llu bytes to time kernels in",
            (unsigned long long)most);
  struct region region = {0};
  struct neap_step draft = *l->step, *timed;
  draft.nodes = region_copy(&region, l->step->nodes, (size_t)l->step->node_count, sizeof *draft.nodes);
  int32_t *distinct = region_alloc(&region, (size_t)l->step->node_count, sizeof *distinct);
  neap_status status = NEAP_OK;
  if (draft.nodes == NULL || distinct == NULL)
    status = neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for the costs of a step");
  if (status == NEAP_OK) status = time_all(l, memory, most, draft.nodes, distinct);
  if (status == NEAP_OK) status = step_create(&draft, &timed);
  munmap(memory, most);
  region_free(&region);
  if (status != NEAP_OK) return status;
  neap_step_free(l->step);
  l->step = timed;
  return NEAP_OK;
}
