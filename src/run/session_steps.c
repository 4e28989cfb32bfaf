/* Runs steps, evaluations and predictions of a session, and tells what it has. */
#include <math.h>
#include <string.h>

#include "kernel/ranks.h"
#include "kernel/restorers.h"
#include "kernel/spilled.h"
#include "plan/planners.h"
#include "rewrite/rewrite.h"
#include "run/executor_whole.h"
#include "session/choose.h"
#include "session/drop_step.h"
#include "session/session_memory.h"
#include "session/session_run.h"
#include "weights/averages.h"
#include "weights/variables.h"

/* ---- Steps ---- */

/* Ends a step: with its update, or without one if a gradient did not fit. The next step's loss scale depends
 * on that. */
static neap_status end_step(neap_session *s, float learning_rate, float share, neap_step_result *result) {
  static const uint64_t good_steps = 2000; /* as PyTorch's GradScaler */
  static const float smallest = 1, largest = 0x1p24f;
  if (s->ranks != NULL && s->options.dynamic_loss_scale)
    TRY(ranks_any(s->ranks, s->overflowed, &s->overflowed));
  if (s->batch != s->ranks && s->batch != NULL && s->options.dynamic_loss_scale)
    TRY(ranks_any(s->batch, s->overflowed, &s->overflowed));
  const bool skipped = s->overflowed;
  s->overflowed = false;
  if (!skipped) TRY(s->executor->end(s, learning_rate, share));
  if (!s->options.dynamic_loss_scale) return NEAP_OK;
  if (result != NULL) result->skipped = skipped;
  s->good_steps = skipped ? 0 : s->good_steps + 1;
  if (skipped && s->loss_scale > smallest) s->loss_scale /= 2;
  if (s->good_steps < good_steps) return NEAP_OK;
  s->good_steps = 0;
  if (s->loss_scale < largest) s->loss_scale *= 2;
  return NEAP_OK;
}

neap_status neap_session_micro_step(neap_session *s, float learning_rate, float share,
                                    neap_step_result *result) {
  RETURN_IF(!(learning_rate >= 0) || isinf(learning_rate), NEAP_INVALID_ARGUMENT,
            "the learning rate must be finite and 0 or more (got %g)", (double)learning_rate);
  RETURN_IF(!(share >= 0 && share <= 1), NEAP_INVALID_ARGUMENT,
            "the share of a loss must be from 0 to 1 (got %g)", (double)share);
  RETURN_IF(s == NULL, NEAP_INVALID_ARGUMENT, "there is no session");
  RETURN_IF(s->torn, NEAP_INVALID_ARGUMENT,
            "a step was given up half way, so weights and states are of no step; load weights first");
  RETURN_IF(s->executor->take == NULL, NEAP_INVALID_ARGUMENT, "%s", only_predicts);
  const bool parts = s->executor->in_parts || s->programs[PROGRAM_END].lowered != NULL;
  if (s->micro_batch == 0) TRY(drop_step_begin(s));
  TRY(s->executor->take(s, learning_rate, share, result));
  s->micro_batch += parts ? session_batch_ranks(s) : 0;
  if (parts && s->micro_batch < session_parts(s)) return NEAP_OK;
  if (s->executor->complete != NULL) TRY(s->executor->complete(s, learning_rate, result));
  s->micro_batch = 0;
  s->gradient_norm = parts ? -1 : s->gradient_norm;
  if (parts) TRY(end_step(s, learning_rate, share, result));
  if (result != NULL && s->options.gradient_norm) result->gradient_norm = s->gradient_norm;
  TRY(averages_move(s));
  s->changed = CHANGED_NOTHING; /* by a step that is not complete: an evaluation may be stopped */
  s->steps++;
  return NEAP_OK;
}

neap_status neap_session_step(neap_session *s, float learning_rate, neap_step_result *result) {
  const int32_t count = s != NULL && s->options.micro_batches > 1 ? s->options.micro_batches : 1;
  return neap_session_micro_step(s, learning_rate, 1 / (float)count, result);
}

/* Evaluates, with the averages of the parameters if there are any. */
static neap_status evaluate(neap_session *s, neap_step_result *result) {
  RETURN_IF(s == NULL, NEAP_INVALID_ARGUMENT, "there is no session");
  RETURN_IF(s->executor->evaluate == NULL, NEAP_INVALID_ARGUMENT, "%s", only_predicts);
  TRY(session_send_inputs(s));
  TRY(averages_swap(s));
  const neap_status status = s->executor->evaluate(s, result), swapped = averages_swap(s);
  return status != NEAP_OK ? status : swapped;
}

neap_status neap_session_evaluate(neap_session *s, neap_step_result *result) { return evaluate(s, result); }

neap_status neap_session_predict(neap_session *s) {
  RETURN_IF(s == NULL, NEAP_INVALID_ARGUMENT, "there is no session");
  if (s->programs[PROGRAM_PREDICT].lowered == NULL) return evaluate(s, NULL);
  TRY(session_send_inputs(s));
  return session_run_program(s, PROGRAM_PREDICT, 0, 1, NULL);
}

neap_status neap_session_prepare(neap_session *s) {
  RETURN_IF(s == NULL, NEAP_INVALID_ARGUMENT, "there is no session");
  RETURN_IF(s->programs[PROGRAM_PREPARE].lowered == NULL, NEAP_INVALID_ARGUMENT,
            "graph '%s' has no prepared states", s->main->graph->name);
  TRY(session_send_inputs(s));
  return session_run_program(s, PROGRAM_PREPARE, 0, 1, NULL);
}

/* ---- What a session has ---- */

neap_status neap_session_output(const neap_session *s, const char *name, neap_variable *shape, float *data) {
  RETURN_IF(s == NULL || name == NULL, NEAP_INVALID_ARGUMENT, "neap_session_output: session or name is NULL");
  const bool predicts = s->programs[PROGRAM_PREDICT].lowered != NULL;
  const struct session_program *p = &s->programs[predicts ? PROGRAM_PREDICT : PROGRAM_EVALUATE];
  RETURN_IF(s->executor->no_outputs != NULL, NEAP_UNSUPPORTED, "output '%s': %s", name,
            s->executor->no_outputs);
  const struct neap_graph *graph = p->lowered->graph;
  int32_t known = 0;
  while (known < s->output_count && strcmp(s->outputs[known].name, name) != 0) known++;
  RETURN_IF(known == s->output_count, NEAP_INVALID_ARGUMENT, "graph '%s' has no output '%s'", graph->name,
            name);
  if (shape != NULL) *shape = s->outputs[known];
  if (data == NULL) return NEAP_OK;
  size_t i = 0;
  while (i < graph->outputs.count && strcmp(graph->outputs.data[i].name, name) != 0) i++;
  RETURN_IF(i == graph->outputs.count || p->program.outputs[i] == NOWHERE, NEAP_OVER_BUDGET,
            "output '%s' does not fit into this session's memory; a session that only predicts has it", name);
  const int32_t id = graph->outputs.data[i].tensor;
  const struct tensor *tensor = &graph->tensors.data[id];
  RETURN_IF(s->ran != PROGRAM_EVALUATE && s->ran != PROGRAM_PREDICT, NEAP_INVALID_ARGUMENT,
            "output '%s' is missing: evaluate or predict first", name);
  RETURN_IF(!dtype_is_real(tensor->dtype), NEAP_UNSUPPORTED,
            "output '%s' has type %s, which cannot be read as f32", name, dtype_rows[tensor->dtype].name);
  const int32_t storage =
      graph_storage(graph, id); /* a view has its storage's order in row-major memory alone */
  return session_export(s, p->lowered, storage, p->program.outputs[i], data);
}

/* Returns a constant with the planner's name, as the report outlives the plan. A plan file may name a planner
 * that this build does not have. */
static const char *constant_planner_name(const char *name) {
  const struct planner *row = planner_find(name);
  return row != NULL ? row->name : "another";
}

/* Adds what a program reads from the session's file and writes to it in `runs` runs. */
static void count_program(const struct session_program *p, uint64_t runs, neap_memory *memory) {
  const struct lowered *l = p->lowered;
  if (l == NULL) return;
  const struct stored_bytes stored = plan_stored_bytes(l->step, p->plan);
  memory->disk_step_read += runs * stored.read;
  memory->disk_step_written += runs * stored.written;
  for (int32_t i = 0; l->spilled_parts != NULL && i < p->plan->length; i++) {
    const int32_t v = p->plan->schedule[i];
    if (v >= l->step->required_count) continue;
    const struct node *node = &l->graph->nodes.data[v];
    memory->disk_step_read += runs * l->spilled_parts[v].read;
    memory->disk_step_written += runs * l->spilled_parts[v].written;
    for (int32_t k = 0; node->pass != NEAP_PASS_UPDATE && k < node->input_count; k++)
      if (node->inputs[k] != NO_TENSOR && l->graph->tensors.data[node->inputs[k]].spilled)
        memory->disk_step_read +=
            runs * l->backend->format_bytes(node_input(l->graph, node, k), l->formats[node->inputs[k]]);
  }
}

static void count_disk_traffic(const struct neap_session *s, neap_memory *memory) {
  const uint64_t parts = s->options.micro_batches > 1 ? (uint64_t)s->options.micro_batches : 1;
  count_program(&s->programs[PROGRAM_BEGIN], 1, memory);
  count_program(&s->programs[PROGRAM_STEP], parts, memory);
  count_program(&s->programs[PROGRAM_END], 1, memory);
}

/* Leaves out what other ranks answer for. Returns the bytes of values between the pieces of a pipeline. */
static uint64_t count_common(const struct neap_session *s, neap_memory *memory) {
  const uint64_t others = session_others_bytes(s),
                 values = s->executor->value_bytes != NULL ? s->executor->value_bytes(s) : 0;
  if (s->common == 0) return values;
  const uint64_t ranks = (uint64_t)s->ranks->collective->size;
  memory->resident -= others;
  memory->planned_peak -= others;
  memory->measured_peak = s->measured > others ? s->measured - others : 0;
  memory->parameters /= ranks;
  memory->states = memory->resident - memory->inputs - memory->parameters;
  return values / ranks;
}

void neap_session_memory(const neap_session *s, neap_memory *memory) {
  if (memory == NULL) return;
  *memory = (neap_memory){0};
  if (s == NULL) return;
  const struct neap_step *step = s->main->step;
  *memory = (neap_memory){.budget = s->budget,
                          .resident = s->plan->resident_bytes,
                          .arena = s->plan->arena_bytes,
                          .planned_peak = s->plan->resident_bytes + s->plan->arena_bytes,
                          .measured_peak = s->measured,
                          .shared = s->common,
                          .keep_all = s->keep_all,
                          .cost = s->plan->cost,
                          .base_cost = s->plan->base_cost,
                          .planner = constant_planner_name(s->plan->planner),
                          .variant = graph_variants[s->variant].name};
  memory->stored_saved = session_stored_saved(s);
  session_disk_use(s, memory);
  count_disk_traffic(s, memory);
  for (int32_t t = 0; t < step->tensor_count; t++) {
    const struct step_tensor *tensor = &step->tensors[t];
    if (tensor->role == NEAP_ROLE_PARAMETER) memory->parameters += tensor->bytes;
    if (tensor->role == NEAP_ROLE_STATE) memory->states += tensor->bytes;
    if (tensor->role == NEAP_ROLE_INPUT) memory->inputs += tensor->bytes;
  }
  const uint64_t values = count_common(s, memory);
  memory->states -= values; /* they are states for the pieces, activations and gradients for people */
  memory->resident -= values;
  memory->arena += values;
}
