#include "step/overlap.h"

#include "step/lane_cost.h"
#include "step/simulate.h"

/* A job of the lane waits for those before it, too, so it moves on until the nodes that it passes take this
 * many times its cost. */
static const double LANE_DISTANCE = 8;

struct overlap {
  const neap_step *step;
  const bool *jobs;
  uint64_t capacity;
  int32_t *nodes; /* the schedule */
  uint64_t *live; /* by position */
  int32_t *last;  /* by tensor that the current store reads: the position of its last other reader */
  int32_t length;
  int32_t moves;
};

/* Returns true for a job that begins at its position. */
static bool is_job(const struct overlap *o, int32_t v) {
  return (o->jobs != NULL && o->jobs[v]) || (o->step->nodes[v].transfers && !is_lane_store(o->step, v));
}

static bool has(const int32_t *ids, int32_t count, int32_t id) {
  for (int32_t i = 0; i < count; i++)
    if (ids[i] == id) return true;
  return false;
}

static bool have_common(const int32_t *a, int32_t count, const int32_t *b, int32_t other) {
  for (int32_t i = 0; i < count; i++)
    if (has(b, other, a[i])) return true;
  return false;
}

static uint64_t bytes_of(const struct overlap *o, const int32_t *tensors, int32_t count) {
  uint64_t bytes = 0;
  for (int32_t i = 0; i < count; i++)
    if (o->step->tensors[tensors[i]].role == NEAP_ROLE_VALUE && !has(tensors, i, tensors[i]))
      bytes += o->step->tensors[tensors[i]].bytes;
  return bytes;
}

/* Returns true if the results of `job` may be made before `other` instead of after it. */
static bool may_pass(const struct overlap *o, int32_t job, int32_t other) {
  const struct step_node *before = &o->step->nodes[other], *own = &o->step->nodes[job];
  return !is_job(o, other) &&
         !have_common(own->outputs, own->output_count, before->inputs, before->input_count) &&
         !have_common(own->outputs, own->output_count, before->outputs, before->output_count) &&
         !have_common(own->inputs, own->input_count, before->outputs, before->output_count) &&
         !have_common(own->inputs, own->input_count, before->updates, before->update_count);
}

/* Moves the job at a position. Its results then also live at the nodes that it passes; the position before
 * one of them has no more live bytes than the node. */
static void move_forward(struct overlap *o, int32_t at) {
  const int32_t job = o->nodes[at];
  const struct step_node *node = &o->step->nodes[job];
  const uint64_t bytes = bytes_of(o, node->outputs, node->output_count);
  const double distance = node->cost * (node->transfers ? LANE_DISTANCE : 1);
  double passed = 0;
  while (at > 0 && passed < distance && may_pass(o, job, o->nodes[at - 1]) &&
         o->live[at - 1] + bytes <= o->capacity) {
    passed += o->step->nodes[o->nodes[at - 1]].cost;
    o->live[at - 1] += bytes;
    o->live[at] = o->live[at - 1];
    o->nodes[at] = o->nodes[at - 1];
    o->nodes[--at] = job;
    o->moves++;
  }
}

/* Returns the position of the last other reader of what a store at `at` reads in one input; `at` if none
 * comes behind it. */
static int32_t last_reader(const struct overlap *o, int32_t at, int32_t tensor) {
  int32_t last = at;
  for (int32_t p = at + 1; p < o->length; p++) {
    const struct step_node *node = &o->step->nodes[o->nodes[p]];
    if (has(node->inputs, node->input_count, tensor)) last = p;
    if (has(node->outputs, node->output_count, tensor)) break;
  }
  return last;
}

/* Returns the bytes that live at a position besides if a store at `at` comes behind it: what it reads, from
 * the last other reader on, which may no longer take its bytes over. */
static uint64_t held_bytes(const struct overlap *o, int32_t at, int32_t position) {
  const struct step_node *store = &o->step->nodes[o->nodes[at]];
  uint64_t bytes = 0;
  for (int32_t i = 0; i < store->input_count; i++)
    if (o->last[store->inputs[i]] <= position) bytes += o->step->tensors[store->inputs[i]].bytes;
  return bytes;
}

/* Moves the store at a position behind nodes that do not make what it reads again, or read what it makes. */
static void move_backward(struct overlap *o, int32_t at) {
  const int32_t store = o->nodes[at];
  const struct step_node *node = &o->step->nodes[store];
  double passed = 0;
  for (int32_t i = 0; i < node->input_count; i++)
    o->last[node->inputs[i]] = last_reader(o, at, node->inputs[i]); /* readers that it passes are before it */
  while (at + 1 < o->length && passed < node->cost * LANE_DISTANCE) {
    const struct step_node *next = &o->step->nodes[o->nodes[at + 1]];
    const uint64_t bytes = held_bytes(o, at, at + 1);
    if (have_common(node->inputs, node->input_count, next->outputs, next->output_count) ||
        have_common(node->outputs, node->output_count, next->inputs, next->input_count) ||
        o->live[at + 1] + bytes > o->capacity)
      return;
    passed += next->cost;
    o->live[at + 1] += bytes;
    o->live[at] = o->live[at + 1];
    o->nodes[at] = o->nodes[at + 1];
    o->nodes[++at] = store;
    o->moves++;
  }
}

static neap_status find_live(struct overlap *o, const struct schedule *schedule) {
  struct simulator simulator;
  struct simulation unused;
  neap_status status = simulator_create(o->step, &simulator);
  if (status == NEAP_OK) status = simulator_run(&simulator, schedule->nodes.data, o->length, &unused);
  for (int32_t i = 0; status == NEAP_OK && i < o->length; i++) o->live[i] = simulator.live.data[i];
  simulator_free(&simulator);
  return status;
}

neap_status schedule_overlap(const neap_step *step, const bool *jobs, uint64_t capacity,
                             struct schedule *schedule, int32_t *moves) {
  struct overlap o = {
      .step = step, .jobs = jobs, .capacity = capacity, .length = (int32_t)schedule->nodes.count};
  o.live = calloc((size_t)o.length + 1, sizeof *o.live);
  o.last = calloc((size_t)step->tensor_count + 1, sizeof *o.last);
  neap_status status = o.live == NULL || o.last == NULL
                           ? neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for a plan")
                           : find_live(&o, schedule);
  o.nodes = schedule->nodes.data;
  for (int32_t at = o.length - 1; status == NEAP_OK && at >= 0; at--)
    if (is_lane_store(step, o.nodes[at])) move_backward(&o, at);
  for (int32_t at = 1; status == NEAP_OK && at < o.length; at++)
    if (is_job(&o, o.nodes[at])) move_forward(&o, at);
  *moves = o.moves;
  free(o.live);
  free(o.last);
  return status;
}
