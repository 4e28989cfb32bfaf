#include "step/simulate.h"

#include <math.h>
#include <string.h>

#include "base/stop.h"
#include "step/lane_cost.h"

neap_status simulator_create(const neap_step *step, struct simulator *out) {
  *out = (struct simulator){.step = step};
  out->instance = malloc(((size_t)step->tensor_count + 1) * sizeof *out->instance);
  out->runs = malloc(((size_t)step->node_count + 1) * sizeof *out->runs);
  RETURN_IF(out->instance == NULL || out->runs == NULL, NEAP_OUT_OF_MEMORY, "simulator: out of memory");
  return NEAP_OK;
}

void simulator_free(struct simulator *s) {
  free(s->instance);
  free(s->runs);
  vector_free(&s->instances);
  vector_free(&s->live);
}

#define RULE(condition, ...) RETURN_IF(!(condition), NEAP_INVALID_PLAN, __VA_ARGS__)

/* Reads the inputs at one position: each must have an instance, which now lives at least until here. */
static neap_status read_inputs(struct simulator *s, const struct step_node *node, int32_t at) {
  for (int32_t i = 0; i < node->input_count; i++) {
    const int32_t t = node->inputs[i];
    const struct step_tensor *tensor = &s->step->tensors[t];
    if (tensor->role == NEAP_ROLE_VALUE) {
      RULE(s->instance[t] >= 0, "position %d: '%s' reads '%s', which has not been made", at, node->name,
           tensor->name);
      s->instances.data[s->instance[t]].last = at;
    } else if (tensor->updater >= 0) {
      const bool itself = node == &s->step->nodes[tensor->updater];
      RULE(itself || s->runs[tensor->updater] == 0, "position %d: '%s' reads '%s' after its update", at,
           node->name, tensor->name);
    }
  }
  return NEAP_OK;
}

static neap_status make_outputs(struct simulator *s, const struct step_node *node, int32_t at) {
  for (int32_t i = 0; i < node->output_count; i++) {
    const int32_t t = node->outputs[i];
    s->instance[t] = (int32_t)s->instances.count;
    TRY(vector_push(&s->instances, (struct instance){t, at, at, -1, s->step->tensors[t].bytes}));
  }
  if (node->workspace == 0) return NEAP_OK;
  return vector_push(&s->instances, (struct instance){-1, at, at, -1, node->workspace});
}

static neap_status walk(struct simulator *s, const int32_t *schedule, int32_t length,
                        struct simulation *out) {
  const neap_step *step = s->step;
  for (int32_t at = 0; at < length; at++) {
    const int32_t v = schedule[at];
    RULE(v >= 0 && v < step->node_count, "position %d: node %d does not exist", at, v);
    const struct step_node *node = &step->nodes[v];
    RULE(s->runs[v] == 0 || (node->repeatable && node->update_count == 0),
         "position %d: '%s' must not run twice", at, node->name);
    TRY(read_inputs(s, node, at));
    TRY(make_outputs(s, node, at));
    out->recomputed += s->runs[v]++ > 0;
    out->cost += node->cost;
  }
  RULE(isfinite(out->cost), "the sum of the costs is too large");
  for (int32_t v = 0; v < step->required_count; v++)
    RULE(s->runs[v] > 0, "node %d ('%s') never runs", v, step->nodes[v].name);
  for (int32_t i = 0; i < step->output_count; i++)
    s->instances.data[s->instance[step->outputs[i]]].last = length - 1;
  if (step->has_lane) return lane_cost(step, schedule, length, &out->cost);
  return NEAP_OK;
}

/* Returns the instance that the node's input reads; -1 for a resident tensor, or for one that lives on as an
 * output of the step. */
static int32_t taken_instance(const struct simulator *s, const struct step_node *node, int32_t input,
                              bool at_end) {
  const int32_t t = node->inputs[input];
  const struct step_tensor *tensor = &s->step->tensors[t];
  return tensor->role != NEAP_ROLE_VALUE || (at_end && tensor->is_output) ? -1 : s->instance[t];
}

/* Lets an output take over the bytes of an input that is read here for the last time. `first`: the instance
 * of the node's first output. */
static void take_over(struct simulator *s, int32_t first, const struct step_node *node, int32_t at,
                      bool at_end) {
  for (int32_t p = 0; p < node->inplace_count; p++) {
    const int32_t input = taken_instance(s, node, node->inplace[p].input, at_end);
    struct instance *output = &s->instances.data[first + node->inplace[p].output];
    if (input < 0 || output->takes_over >= 0) continue;
    const struct instance *taken = &s->instances.data[input];
    if (taken->last != at || taken->bytes < output->bytes) continue;
    bool free_input = true;
    for (int32_t o = first; o < first + node->output_count; o++)
      free_input = free_input && s->instances.data[o].takes_over != input;
    if (free_input) output->takes_over = input;
  }
}

/* Finds the in-place pairs, once every instance's last read is known. Tracks the instances of inputs
 * again. */
static void find_take_overs(struct simulator *s, const int32_t *schedule, int32_t length) {
  const neap_step *step = s->step;
  memset(s->instance, -1, (size_t)step->tensor_count * sizeof *s->instance);
  int32_t next = 0;
  for (int32_t at = 0; at < length; at++) {
    const struct step_node *node = &step->nodes[schedule[at]];
    take_over(s, next, node, at, at == length - 1);
    for (int32_t i = 0; i < node->output_count; i++) s->instance[node->outputs[i]] = next + i;
    next += node->output_count + (node->workspace > 0);
  }
}

/* Sums live bytes by position: an instance counts from where it is made to its last read. At that position
 * one that is taken over only counts the bytes that its successor does not take. */
static neap_status add_up(struct simulator *s, int32_t length, struct simulation *out) {
  TRY(vector_reserve(&s->live, (size_t)length + 1));
  uint64_t *live = s->live.data;
  memset(live, 0, ((size_t)length + 1) * sizeof *live);
  for (size_t i = 0; i < s->instances.count; i++) { /* differences modulo 2^64 */
    const struct instance *instance = &s->instances.data[i];
    live[instance->at] += instance->bytes;
    live[instance->last + 1] -= instance->bytes;
    if (instance->takes_over >= 0) {
      live[instance->at] -= instance->bytes;
      live[instance->at + 1] += instance->bytes;
    }
  }
  uint64_t now = 0, most = 0;
  for (int32_t at = 0; at < length; at++) {
    live[at] = now += live[at];
    if (now > most) most = now, out->peak_at = at;
  }
  s->live.count = (size_t)length;
  out->peak_bytes = s->step->resident_bytes + most;
  return NEAP_OK;
}

neap_status simulator_run(struct simulator *s, const int32_t *schedule, int32_t length,
                          struct simulation *out) {
  *out = (struct simulation){0};
  s->instances.count = 0;
  memset(s->instance, -1, (size_t)s->step->tensor_count * sizeof *s->instance);
  memset(s->runs, 0, (size_t)s->step->node_count * sizeof *s->runs);
  TRY(stop_check());
  TRY(walk(s, schedule, length, out));
  find_take_overs(s, schedule, length);
  return add_up(s, length, out);
}

neap_status simulate(const neap_step *step, const int32_t *schedule, int32_t length, struct simulation *out) {
  struct simulator s;
  neap_status status = simulator_create(step, &s);
  if (status == NEAP_OK) status = simulator_run(&s, schedule, length, out);
  simulator_free(&s);
  return status;
}

neap_status simulate_instances(const neap_step *step, const int32_t *schedule, int32_t length,
                               struct simulation *out, struct instance **instances, int32_t *count) {
  struct simulator s;
  neap_status status = simulator_create(step, &s);
  if (status == NEAP_OK) status = simulator_run(&s, schedule, length, out);
  if (status == NEAP_OK) {
    *instances = s.instances.data;
    *count = (int32_t)s.instances.count;
    s.instances.data = NULL;
  }
  simulator_free(&s);
  return status;
}
