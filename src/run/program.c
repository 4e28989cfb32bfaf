#include "run/program.h"

#include "base/stop.h"

#include <string.h>

#include "base/clock.h"
#include "base/parallel.h"
#include "step/simulate.h"

#if NEAP_DEBUG
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes)   memset(address, 0xFF, bytes) /* NaN in every type */
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif
#endif

struct binding {
  struct region *region;
  const struct lowered *lowered;
  const struct neap_plan *plan;
  unsigned char *arena;
  unsigned char **address; /* step tensor -> its newest instance */
};

bool is_running_statistic(const struct tensor *t) {
  return t->role == NEAP_ROLE_STATE && t->view_of < 0 && t->state_of == NULL && !t->carried && !t->sum &&
         dtype_is_real(t->dtype);
}

/* What a node changes that outlives the step. */
static enum change change_of(const struct neap_graph *graph, const struct node *node) {
  enum change most = CHANGED_NOTHING;
  for (int32_t i = 0; i < node->update_count; i++) {
    const struct tensor *t = &graph->tensors.data[graph_storage(graph, node->updates[i])];
    const enum change change = t->sum                    ? CHANGED_NOTHING
                               : is_running_statistic(t) ? CHANGED_STATISTICS
                                                         : CHANGED_VARIABLES;
    most = change > most ? change : most;
  }
  return most;
}

static neap_status bind_call(const struct binding *b, int32_t position, int32_t *instance,
                             struct call *call) {
  const struct kernel *kernel = &b->lowered->kernels[b->plan->schedule[position]];
  const struct node *node = kernel_node(kernel);
  const int32_t *home = b->lowered->home;
  call->kernel = kernel;
  call->change = change_of(kernel->graph, node);
  call->inputs = region_alloc(b->region, (size_t)node->input_count, sizeof(void *));
  call->outputs = region_alloc(b->region, (size_t)node->output_count, sizeof(void *));
  RETURN_IF(!call->inputs || !call->outputs, NEAP_OUT_OF_MEMORY, "program: out of memory");
  for (int32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != NO_TENSOR) call->inputs[i] = b->address[home[node->inputs[i]]];
  for (; *instance < b->plan->instance_count && b->plan->instances[*instance].at == position; ++*instance) {
    const struct placed *placed = &b->plan->instances[*instance];
    unsigned char *address = b->arena + placed->offset;
    if (placed->tensor < 0) {
      call->workspace = address;
      call->workspace_bytes = placed->bytes;
    } else {
      b->address[placed->tensor] = address;
    }
  }
  for (int32_t i = 0; i < node->output_count; i++) call->outputs[i] = b->address[home[node->outputs[i]]];
  return NEAP_OK;
}

#if NEAP_DEBUG
/* The ranges that no later position reads, for each position; what an output took over is not among them. */
static neap_status find_dead_ranges(const struct binding *b, struct program *program) {
  struct simulation unused;
  struct instance *instances = NULL;
  int32_t count = 0, found = 0;
  TRY(simulate_instances(b->lowered->step, b->plan->schedule, b->plan->length, &unused, &instances, &count));
  program->dead = region_alloc(b->region, (size_t)count, sizeof *program->dead);
  int32_t *taken = region_alloc(b->region, (size_t)count, sizeof *taken),
          *next = region_alloc(b->region, (size_t)count, sizeof *next);
  int32_t *head = region_alloc(b->region, (size_t)program->length, sizeof *head);
  if (!program->dead || !taken || !next || !head) {
    free(instances);
    return neap_fail(NEAP_OUT_OF_MEMORY, "program: out of memory");
  }
  for (int32_t i = 0; i < count; i++) {
    if (instances[i].takes_over >= 0) taken[instances[i].takes_over] = 1;
    next[i] = head[instances[i].last];
    head[instances[i].last] = i + 1;
  }
  /* At the last position nothing dies: the outputs of the step are still to be read. */
  for (int32_t at = 0; at < program->length - 1; at++) {
    program->calls[at].first_dead = found;
    for (int32_t i = head[at]; i > 0; i = next[i - 1])
      if (!taken[i - 1])
        program->dead[found++] =
            (struct range){b->arena + b->plan->instances[i - 1].offset, instances[i - 1].bytes};
    program->calls[at].dead_count = found - program->calls[at].first_dead;
  }
  free(instances);
  return NEAP_OK;
}
#endif

/* Finds the labels of the cross-entropy that counts right answers, where they are an input. */
static void find_labels(const struct binding *b, struct program *program) {
  const struct neap_graph *graph = b->lowered->graph;
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    const bool linear = node->op == OP_LINEAR_CROSS_ENTROPY;
    if ((!linear && node->op != OP_SOFTMAX_CROSS_ENTROPY) || node->outputs[1] != graph->correct) continue;
    const int32_t labels = graph_storage(graph, node->inputs[linear ? LOSS_LABELS : 1]);
    if (graph->tensors.data[labels].role != NEAP_ROLE_INPUT) continue;
    program->labels = (void *)b->address[b->lowered->step_tensor[labels]];
    program->label_count = graph->tensors.data[labels].elements;
    program->classes = graph->tensors.data[node->inputs[linear ? LOSS_WEIGHTS : 0]].dims[linear ? 0 : 1];
    program->ignored = node->attributes.loss.ignored;
  }
}

neap_status program_create(struct region *region, const struct lowered *lowered, const struct neap_plan *plan,
                           unsigned char *const *resident, unsigned char *arena, struct program *out) {
  struct binding b = {.region = region, .lowered = lowered, .plan = plan, .arena = arena};
  struct program program = {.lowered = lowered, .length = plan->length};
  b.address = region_copy(region, resident, (size_t)lowered->step->tensor_count, sizeof *b.address);
  program.calls = region_alloc(region, (size_t)plan->length, sizeof *program.calls);
  RETURN_IF(!b.address || !program.calls, NEAP_OUT_OF_MEMORY, "program: out of memory");
  int32_t instance = 0;
  for (int32_t at = 0; at < plan->length; at++) TRY(bind_call(&b, at, &instance, &program.calls[at]));
  program.outputs = region_alloc(region, lowered->graph->outputs.count, sizeof *program.outputs);
  RETURN_IF_NULL(program.outputs);
  for (size_t i = 0; i < lowered->graph->outputs.count; i++)
    if (lowered->graph->tensors.data[lowered->graph->outputs.data[i].tensor].elements <=
        lowered->kept_outputs)
      program.outputs[i] =
          b.address[lowered
                        ->step_tensor[graph_storage(lowered->graph, lowered->graph->outputs.data[i].tensor)]];
  if (lowered->graph->loss >= 0) program.loss = b.address[lowered->step_tensor[lowered->graph->loss]];
  if (lowered->graph->correct >= 0)
    program.correct = (void *)b.address[lowered->step_tensor[lowered->graph->correct]];
  if (lowered->graph->norm >= 0) program.norm = b.address[lowered->step_tensor[lowered->graph->norm]];
  find_labels(&b, &program);
#if NEAP_DEBUG
  TRY(find_dead_ranges(&b, &program));
#endif
  *out = program;
  return NEAP_OK;
}

static void raise(uint64_t *measured, const unsigned char *memory, const void *operand, uint64_t bytes) {
  const uint64_t end = (uint64_t)((const unsigned char *)operand - memory) + bytes;
  if (operand != NULL && end > *measured) *measured = end;
}

/* What the kernel is really given, from the operands' own sizes: the plan is not asked. */
static void measure(const struct lowered *lowered, const struct call *call, const unsigned char *memory,
                    uint64_t *measured) {
  const struct node *node = kernel_node(call->kernel);
  for (int32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != NO_TENSOR)
      raise(measured, memory, call->inputs[i], tensor_bytes(lowered, node->inputs[i]));
  for (int32_t i = 0; i < node->output_count; i++)
    raise(measured, memory, call->outputs[i], tensor_bytes(lowered, node->outputs[i]));
  raise(measured, memory, call->workspace, call->workspace_bytes);
}

static neap_status run_calls(const struct program *program, const struct run_context *context,
                             const unsigned char *memory, uint64_t *measured, enum change *changed,
                             enum change most) {
  for (int32_t at = 0; at < program->length; at++) {
    const struct call *call = &program->calls[at];
    RETURN_IF(*changed <= most && stop_is_requested(), NEAP_INTERRUPTED, "stopped on request");
    if (call->change > *changed) *changed = call->change;
    measure(program->lowered, call, memory, measured);
#if NEAP_DEBUG
    const struct node *node = kernel_node(call->kernel);
    for (int32_t i = 0; i < node->output_count; i++)
      ASAN_UNPOISON_MEMORY_REGION(call->outputs[i], tensor_bytes(program->lowered, node->outputs[i]));
    if (call->workspace != NULL) ASAN_UNPOISON_MEMORY_REGION(call->workspace, call->workspace_bytes);
#endif
    const double begin = program->seconds != NULL ? clock_seconds() : 0;
    TRY(call->kernel->run(call->kernel, call->inputs, call->outputs, call->workspace, context));
    if (program->seconds != NULL) program->seconds[at] += clock_seconds() - begin;
#if NEAP_DEBUG
    for (int32_t i = 0; i < call->dead_count; i++)
      ASAN_POISON_MEMORY_REGION(program->dead[call->first_dead + i].begin,
                                program->dead[call->first_dead + i].bytes);
#endif
  }
  return NEAP_OK;
}

neap_status program_run(const struct program *program, const struct run_context *context,
                        const unsigned char *memory, uint64_t *measured, enum change *changed,
                        enum change most) {
  struct team former;
  TRY(team_set(program->lowered->threads, &former));
  const neap_status status = run_calls(program, context, memory, measured, changed, most);
  team_restore(&former);
  return status;
}

void program_release(unsigned char *memory, size_t bytes) {
#if NEAP_DEBUG
  ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
#else
  (void)memory, (void)bytes;
#endif
}
