#include "program/program.h"

#include <string.h>

#include "base/clock.h"
#include "base/parallel.h"
#include "base/stop.h"
#include "device/poison.h"
#include "kernel/ranks.h"
#include "kernel/restorers.h"
#include "kernel/spilled.h"
#include "program/spilled_variables.h"
#include "step/simulate.h"

struct binding {
  struct region *region;
  const struct lowered *lowered;
  const struct neap_plan *plan;
  uint64_t arena;
  uint64_t *place;  /* step tensor -> its newest instance */
  int32_t *started; /* step tensor -> how many jobs of a lane were started up to its own; 0: it has none */
};

bool is_running_statistic(const struct tensor *t) {
  return t->role == NEAP_ROLE_STATE && t->view_of < 0 && t->state_of == NULL && !t->carried && !t->sum &&
         dtype_is_real(t->dtype);
}

/* Returns the kind of change by a node that outlives the step. */
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

/* Returns true if a tensor that position `at` makes is read before it is made again. */
static bool is_read(const struct binding *b, int32_t made, int32_t at) {
  for (int32_t p = at + 1; p < b->plan->length; p++) {
    const struct node *node = kernel_node(&b->lowered->kernels[b->plan->schedule[p]]);
    for (int32_t i = 0; i < node->input_count; i++)
      if (node->inputs[i] != NO_TENSOR && b->lowered->home[node->inputs[i]] == made) return true;
    for (int32_t i = 0; i < node->output_count; i++)
      if (b->lowered->home[node->outputs[i]] == made) return false;
  }
  return false;
}

/* Makes the first reader of a weight wait for its job in a lane; for a weight without readers, the call after
 * it. What ranks run together waits for all gathers, so that these and it come in one order on all ranks. */
static void bind_lane(const struct binding *b, int32_t op, enum program_lane lane, struct program *program) {
  int32_t started = 0, alone = 0; /* alone: of the started jobs the last whose result has no reader */
  memset(b->started, 0, (size_t)b->lowered->step->tensor_count * sizeof *b->started);
  for (int32_t at = 0; at < program->length; at++) {
    struct call *call = &program->calls[at];
    const struct node *node = kernel_node(call->kernel);
    const bool meets = lane == LANE_GATHERS && node->op != op && ranks_meet(call->kernel->graph, node);
    call->needs[lane] = meets ? started : alone;
    for (int32_t i = 0; i < node->input_count; i++) {
      const int32_t input = node->inputs[i] != NO_TENSOR ? b->started[b->lowered->home[node->inputs[i]]] : 0;
      call->needs[lane] = input > call->needs[lane] ? input : call->needs[lane];
    }
    alone = 0;
    if (node->op != op) continue;
    const int32_t made = b->lowered->home[node->outputs[0]];
    call->lane = lane;
    b->started[made] = ++started;
    if (!is_read(b, made, at)) alone = started;
  }
}

/* Numbers what Stores and Restores move, as the session's file has it (program/spilled_variables.h). */
static void number_values(const struct binding *b, struct program *program) {
  const struct neap_step *step = b->lowered->step;
  int64_t next = spilled_count(b->lowered);
  for (int32_t v = step->required_count; v < step->node_count; v++) {
    if (step_restores(step, v) || !plan_stores(b->plan, v)) continue;
    for (int32_t at = 0; at < program->length; at++)
      if (b->plan->schedule[at] == v || step->store[step->maker[b->plan->schedule[at]]] == v)
        program->calls[at].value = next;
    next += step->nodes[v].input_count;
  }
}

/* Does for the session's file what bind_lane does for one operator: Loads and Restores begin at their
 * positions, Stores behind others, and a Store's own call waits for its job. */
static neap_status bind_disk(const struct binding *b, struct program *program) {
  int32_t started = 0, alone = 0;
  memset(b->started, 0, (size_t)b->lowered->step->tensor_count * sizeof *b->started);
  TRY(lane_find_stores(b->region, b->lowered->step, b->plan->schedule, b->plan->length, &program->stores));
  number_values(b, program);
  for (int32_t at = 0; at < program->length; at++) {
    struct call *call = &program->calls[at];
    const struct node *node = kernel_node(call->kernel);
    int32_t needed =
        alone > call->needs[LANE_LOADS] ? alone : call->needs[LANE_LOADS]; /* a Store's: set already */
    for (int32_t i = 0; node->op != OP_STORE && i < node->input_count; i++) {
      const int32_t input = node->inputs[i] != NO_TENSOR ? b->started[b->lowered->home[node->inputs[i]]] : 0;
      needed = input > needed ? input : needed;
    }
    call->needs[LANE_LOADS] = needed;
    alone = 0;
    const bool begins = node->op == OP_LOAD || node->op == OP_RESTORE;
    if (begins) call->lane = LANE_LOADS;
    for (int32_t i = 0; i < node->output_count; i++) {
      const int32_t made = b->lowered->home[node->outputs[i]];
      b->started[made] = begins ? ++started : 0;
      if (begins && !is_read(b, made, at)) alone = started;
    }
    for (int32_t store = program->stores.first[at]; store >= 0; store = program->stores.next[store]) {
      started += kernel_node(program->calls[store].kernel)->input_count;
      program->calls[store].needs[LANE_LOADS] = started;
    }
  }
  return NEAP_OK;
}

static neap_status bind_call(const struct binding *b, int32_t position, int32_t *instance,
                             struct call *call) {
  const struct kernel *kernel = &b->lowered->kernels[b->plan->schedule[position]];
  const struct node *node = kernel_node(kernel);
  const int32_t *home = b->lowered->home;
  call->kernel = kernel;
  call->change = change_of(kernel->graph, node);
  call->inputs = region_alloc(b->region, (size_t)node->input_count, sizeof *call->inputs);
  call->outputs = region_alloc(b->region, (size_t)node->output_count, sizeof *call->outputs);
  call->workspace = NOWHERE;
  RETURN_IF(!call->inputs || !call->outputs, NEAP_OUT_OF_MEMORY, "program: out of memory");
  for (int32_t i = 0; i < node->input_count; i++)
    call->inputs[i] = node->inputs[i] != NO_TENSOR ? b->place[home[node->inputs[i]]] : NOWHERE;
  for (; *instance < b->plan->instance_count && b->plan->instances[*instance].at == position; ++*instance) {
    const struct placed *placed = &b->plan->instances[*instance];
    const uint64_t place = b->arena + placed->offset;
    if (placed->tensor < 0) {
      call->workspace = place;
      call->workspace_bytes = placed->bytes;
    } else {
      b->place[placed->tensor] = place;
    }
  }
  for (int32_t i = 0; i < node->output_count; i++) call->outputs[i] = b->place[home[node->outputs[i]]];
  return NEAP_OK;
}

#if NEAP_DEBUG
/* Finds, for each position, the ranges that no later position reads, except those that an output took
 * over. */
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

/* Finds the labels of the cross-entropy that counts right answers, if they are an input. */
static void find_labels(const struct binding *b, struct program *program) {
  const struct neap_graph *graph = b->lowered->graph;
  program->labels = NOWHERE;
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    const bool linear = node->op == OP_LINEAR_CROSS_ENTROPY;
    if ((!linear && node->op != OP_SOFTMAX_CROSS_ENTROPY) || node->outputs[1] != graph->correct) continue;
    const int32_t labels = graph_storage(graph, node->inputs[linear ? LOSS_LABELS : 1]);
    if (graph->tensors.data[labels].role != NEAP_ROLE_INPUT) continue;
    program->labels = b->place[b->lowered->step_tensor[labels]];
    program->label_count = graph->tensors.data[labels].elements;
    program->classes = graph->tensors.data[node->inputs[linear ? LOSS_WEIGHTS : 0]].dims[linear ? 0 : 1];
    program->ignored = node->attributes.loss.ignored;
  }
}

static uint64_t place_of(const struct binding *b, int32_t tensor) {
  return tensor >= 0 ? b->place[b->lowered->step_tensor[tensor]] : NOWHERE;
}

static neap_status find_outputs(const struct binding *b, struct program *program) {
  const struct neap_graph *graph = b->lowered->graph;
  program->outputs = region_alloc(b->region, graph->outputs.count, sizeof *program->outputs);
  RETURN_IF_NULL(program->outputs);
  for (size_t i = 0; i < graph->outputs.count; i++) {
    const int32_t output = graph->outputs.data[i].tensor;
    const bool kept = graph->tensors.data[output].elements <= b->lowered->kept_outputs;
    program->outputs[i] = kept ? place_of(b, graph_storage(graph, output)) : NOWHERE;
  }
  program->loss = place_of(b, graph->loss);
  program->correct = place_of(b, graph->correct);
  program->norm = place_of(b, graph->norm);
  return NEAP_OK;
}

static neap_status make_room_for_operands(const struct binding *b, struct program *program) {
  size_t most = 1;
  for (int32_t at = 0; at < program->length; at++) {
    const struct node *node = kernel_node(program->calls[at].kernel);
    const size_t operands = (size_t)(node->input_count + node->output_count);
    most = operands > most ? operands : most;
  }
  program->operands = region_alloc(b->region, most, sizeof *program->operands);
  RETURN_IF_NULL(program->operands);
  return NEAP_OK;
}

neap_status program_create(struct region *region, const struct lowered *lowered, const struct neap_plan *plan,
                           const uint64_t *resident, uint64_t arena, struct program *out) {
  struct binding b = {.region = region, .lowered = lowered, .plan = plan, .arena = arena};
  struct program program = {.lowered = lowered, .length = plan->length};
  b.place = region_copy(region, resident, (size_t)lowered->step->tensor_count, sizeof *b.place);
  program.calls = region_alloc(region, (size_t)plan->length, sizeof *program.calls);
  b.started = region_alloc(region, (size_t)lowered->step->tensor_count, sizeof *b.started);
  RETURN_IF(!b.place || !b.started || !program.calls, NEAP_OUT_OF_MEMORY, "program: out of memory");
  int32_t instance = 0;
  for (int32_t at = 0; at < plan->length; at++) {
    TRY(bind_call(&b, at, &instance, &program.calls[at]));
    program.calls[at].lane = PROGRAM_LANES;
  }
  bind_lane(&b, OP_FETCH, LANE_READS, &program);
  bind_lane(&b, OP_ALL_GATHER, LANE_GATHERS, &program);
  TRY(bind_disk(&b, &program));
  TRY(make_room_for_operands(&b, &program));
  TRY(find_outputs(&b, &program));
  find_labels(&b, &program);
#if NEAP_DEBUG
  TRY(find_dead_ranges(&b, &program));
#endif
  *out = program;
  return NEAP_OK;
}

/* ---- Running ---- */

static void raise(uint64_t *measured, uint64_t place, uint64_t bytes) {
  if (place != NOWHERE && place + bytes > *measured) *measured = place + bytes;
}

/* Measures the memory that a kernel really gets, from the operands' own sizes, not from the plan. */
static void measure(const struct lowered *lowered, const struct call *call, uint64_t *measured) {
  const struct node *node = kernel_node(call->kernel);
  for (int32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != NO_TENSOR)
      raise(measured, call->inputs[i], tensor_bytes(lowered, node->inputs[i]));
  for (int32_t i = 0; i < node->output_count; i++)
    raise(measured, call->outputs[i], tensor_bytes(lowered, node->outputs[i]));
  raise(measured, call->workspace, call->workspace_bytes);
}

uint64_t program_place(const struct program *program, uint64_t place) {
  const struct windows *w = program->windows;
  if (w == NULL || place < w->begin || place >= w->end) return place;
  int32_t low = 0, high = w->count;
  while (high - low > 1) {
    const int32_t middle = low + (high - low) / 2;
    if (w->first[middle] <= place)
      low = middle;
    else
      high = middle;
  }
  return place + w->offset[low];
}

static void *address(const struct program *program, unsigned char *base, uint64_t place) {
  return place != NOWHERE ? base + program_place(program, place) : NULL;
}

static void close_or_open(bool close, void *address, uint64_t bytes) {
  if (address == NULL) return;
  if (close)
    CLOSE(address, bytes);
  else
    OPEN(address, bytes);
}

static neap_status close_or_open_all(bool close, const struct device_memory *memory) {
  unsigned char *base;
  TRY(device_enter(memory, &base));
  close_or_open(close, base, memory->bytes);
  device_leave(memory);
  return NEAP_OK;
}

/* Closes or opens what a call may touch: all other memory is closed while it runs. */
static void close_operands(const struct program *program, const struct call *call, unsigned char *base,
                           bool close) {
  const struct node *node = kernel_node(call->kernel);
  for (int32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != NO_TENSOR)
      close_or_open(close, address(program, base, call->inputs[i]),
                    tensor_bytes(program->lowered, node->inputs[i]));
  for (int32_t i = 0; i < node->output_count; i++)
    close_or_open(close, address(program, base, call->outputs[i]),
                  tensor_bytes(program->lowered, node->outputs[i]));
  close_or_open(close, address(program, base, call->workspace), call->workspace_bytes);
}

/* Spoils the values whose last reader a call is. */
static void spoil_dead(const struct program *program, const struct call *call, unsigned char *base) {
#if NEAP_DEBUG
  for (int32_t i = 0; i < call->dead_count; i++) {
    const struct range *dead = &program->dead[call->first_dead + i];
    OPEN(base + dead->begin, dead->bytes);
    memset(base + dead->begin, 0xFF, dead->bytes); /* NaN in every type */
    CLOSE(base + dead->begin, dead->bytes);
  }
#else
  (void)program, (void)call, (void)base;
#endif
}

/* Calls a kernel; `base` is the address of the memory. */
static neap_status call_kernel(const struct program *program, const struct call *call,
                               const struct run_context *context, unsigned char *base) {
  const struct node *node = kernel_node(call->kernel);
  void **inputs = program->operands, **outputs = inputs + node->input_count;
  void *workspace = address(program, base, call->workspace);
  for (int32_t i = 0; i < node->input_count; i++) inputs[i] = address(program, base, call->inputs[i]);
  for (int32_t i = 0; i < node->output_count; i++) outputs[i] = address(program, base, call->outputs[i]);
  const bool shared = context->ranks != NULL && ranks_share(call->kernel->graph, node),
             spilled = context->spill != NULL && spilled_updates(call->kernel->graph, node);
  close_operands(program, call, base, false);
  TRY(spilled  ? spilled_run(program->lowered, call->kernel, call->inputs, inputs, workspace, context)
      : shared ? ranks_run(program->lowered, call->kernel, inputs, outputs, workspace, context)
               : call->kernel->run(call->kernel, inputs, outputs, workspace, context));
  spoil_dead(program, call, base);
  close_operands(program, call, base, true);
  return NEAP_OK;
}

/* The arguments and the state of a run. */
struct run {
  const struct run_context *context;
  const struct device_memory *memory;
  struct transfer *transfer;
  struct lane *lanes[PROGRAM_LANES]; /* NULL: the program has no job for it */
  uint64_t
      started[PROGRAM_LANES]; /* jobs of the program; others of a lane have ended when one is waited for */
};

static neap_status run_gather(void *context, const struct lane_job *job) {
  const struct run *run = context;
  struct ranks *ranks = run->context->ranks;
  const double waited = ranks->traffic.seconds;
  unsigned char *base;
  TRY(device_enter(run->memory, &base));
  const neap_status status = ranks_gather(ranks, base + job->place, job->number, job->bytes);
  device_leave(run->memory);
  ranks->traffic.seconds = waited; /* kernels run meanwhile; who waits for the job counts */
  return status;
}

/* Starts the job of a call in its lane; it is complete for the call that needs it. */
static neap_status start_job(const struct program *program, const struct call *call, struct run *run) {
  const struct kernel *kernel = call->kernel;
  unsigned char *base;
  struct whole whole = {0};
  TRY(device_enter(run->memory, &base));
  close_operands(program, call, base, false);
  if (call->lane == LANE_GATHERS)
    whole = ranks_place_own(program->lowered, kernel, run->context->ranks, base + call->inputs[0],
                            base + call->outputs[0]);
  device_leave(run->memory);
  const struct node *node = kernel_node(kernel);
  run->started[call->lane] += (uint64_t)node->output_count;
  if (call->lane == LANE_GATHERS) {
    lane_start(run->lanes[LANE_GATHERS], &(struct lane_job){.run = run_gather,
                                                            .context = run,
                                                            .number = whole.units,
                                                            .bytes = whole.unit,
                                                            .place = call->outputs[0]});
    return NEAP_OK;
  }
  if (call->lane == LANE_LOADS) {
    const struct spill *spill = run->context->spill;
    for (int32_t i = 0; node->op == OP_RESTORE && i < node->output_count; i++)
      spill->load(spill->context, call->value + i, call->outputs[i]);
    if (node->op == OP_LOAD) spill->load(spill->context, (int64_t)call->inputs[0], call->outputs[0]);
    return NEAP_OK;
  }
  RETURN_IF(run->transfer == NULL, NEAP_INVALID_ARGUMENT, "'%s' is on disk: load the model's file first",
            kernel_input(kernel, 0)->name);
  return transfer_start(run->transfer, kernel_input(kernel, 0), call->outputs[0]);
}

/* Starts the jobs of the Stores that begin behind a position. */
static neap_status start_stores(const struct program *program, int32_t behind, struct run *run) {
  const struct spill *spill = run->context->spill;
  for (int32_t at = program->stores.first[behind]; at >= 0; at = program->stores.next[at]) {
    const struct call *store = &program->calls[at];
    const int32_t count = kernel_node(store->kernel)->input_count;
    unsigned char *base;
    TRY(device_wait(run->memory));
    TRY(device_enter(run->memory, &base));
    close_operands(program, store, base, false);
    device_leave(run->memory);
    for (int32_t i = 0; i < count; i++) spill->store(spill->context, store->value + i, store->inputs[i]);
    run->started[LANE_LOADS] += (uint64_t)count;
    /* A kernel that reads the same would close what the job reads. */
    if (POISONS) TRY(lane_wait(run->lanes[LANE_LOADS], lane_started(run->lanes[LANE_LOADS])));
    if (POISONS) close_operands(program, store, base, true);
  }
  return NEAP_OK;
}

/* Waits for the jobs that a call needs. A rank without a micro-batch reads no weights. */
static neap_status wait_for_jobs(const struct call *call, bool idle, const struct run *run) {
  for (int lane = 0; lane < PROGRAM_LANES; lane++)
    if (call->needs[lane] > 0 && !(idle && lane == LANE_READS) && run->lanes[lane] != NULL)
      TRY(lane_wait(run->lanes[lane],
                    lane_started(run->lanes[lane]) - run->started[lane] + (uint64_t)call->needs[lane]));
  return NEAP_OK;
}

static neap_status run_call(const struct program *program, int32_t at, const struct run_context *context,
                            const struct device_memory *memory) {
  unsigned char *base;
  const double begin = program->seconds != NULL ? clock_seconds() : 0;
  TRY(device_enter(memory, &base));
  const neap_status status = call_kernel(program, &program->calls[at], context, base);
  device_leave(memory);
  if (program->seconds == NULL || status != NEAP_OK) return status;
  TRY(device_wait(memory));
  program->seconds[at] += clock_seconds() - begin;
  return NEAP_OK;
}

static neap_status run_calls(const struct program *program, struct run *run, uint64_t *measured,
                             enum change *changed, enum change most) {
  const bool idle = ranks_idle(run->context);
  for (int32_t at = 0; at < program->length; at++) {
    const struct call *call = &program->calls[at];
    TRY(wait_for_jobs(call, idle, run)); /* of a reader that does not run, too: then others may lie there */
    if (idle && !ranks_meet(call->kernel->graph, kernel_node(call->kernel))) continue;
    RETURN_IF(!run->context->awaited && *changed <= most && stop_is_requested(), NEAP_INTERRUPTED,
              "stopped on request");
    if (call->change > *changed) *changed = call->change;
    measure(program->lowered, call, measured);
    if (call->lane != PROGRAM_LANES)
      TRY(start_job(program, call, run));
    else if (kernel_node(call->kernel)->op != OP_STORE)
      TRY(run_call(program, at, run->context, run->memory));
    TRY(start_stores(program, at, run));
  }
  return device_wait(run->memory);
}

neap_status program_run(const struct program *program, const struct run_context *context,
                        const struct device_memory *memory, struct transfer *transfer, struct lane *gathers,
                        uint64_t *measured, enum change *changed, enum change most) {
  struct team former;
  struct run run = {.context = context,
                    .memory = memory,
                    .transfer = transfer,
                    .lanes = {transfer != NULL ? transfer_lane(transfer) : NULL, gathers,
                              context->spill != NULL ? context->spill->lane : NULL}};
  const double waited = gathers != NULL ? lane_waited(gathers) : 0;
  TRY(team_set(program->lowered->threads, &former));
  neap_status status = close_or_open_all(true, memory);
  if (status == NEAP_OK) status = run_calls(program, &run, measured, changed, most);
  for (int lane = 0; lane < PROGRAM_LANES; lane++) { /* nothing is put into memory that others have */
    if (run.lanes[lane] == NULL) continue;
    if (status == NEAP_OK) status = lane_wait(run.lanes[lane], lane_started(run.lanes[lane]));
    lane_settle(run.lanes[lane]);
  }
  if (gathers != NULL) context->ranks->traffic.seconds += lane_waited(gathers) - waited;
  team_restore(&former);
  const neap_status opened = close_or_open_all(false, memory);
  return status != NEAP_OK ? status : opened;
}
