#include "search/clean.h"

#include <string.h>

/* A repeat that could be removed: the outputs' earlier instances would live on until the last read of those
 * made here. */
struct repeat {
  int32_t at;
  double cost;
};

static int compare_repeats(const void *a, const void *b) {
  const struct repeat *x = a, *y = b;
  if (x->cost != y->cost) return x->cost < y->cost ? 1 : -1;
  return x->at < y->at ? -1 : x->at > y->at;
}

struct cleaning {
  struct simulator *simulator;
  uint64_t limit;    /* on live bytes */
  int32_t *first;    /* position -> its first instance */
  int32_t *previous; /* instance -> the instance of the same tensor before it; -1: none */
  bool *gone;        /* by position */
  bool *touched;     /* by tensor: a decision about it was made in this round */
  struct repeat *repeats;
  int32_t repeat_count;
};

static struct instance *instance_at(const struct cleaning *c, int32_t i) {
  return &c->simulator->instances.data[i];
}

/* Lists the repeats by rank. */
static void find_repeats(struct cleaning *c, const int32_t *schedule, int32_t length, int32_t *newest) {
  const neap_step *step = c->simulator->step;
  memset(newest, -1, (size_t)step->tensor_count * sizeof *newest);
  int32_t next = 0;
  c->repeat_count = 0;
  for (int32_t at = 0; at < length; at++) {
    const struct step_node *node = &step->nodes[schedule[at]];
    bool repeated = node->output_count > 0;
    c->first[at] = next;
    for (int32_t i = 0; i < node->output_count; i++, next++) {
      c->previous[next] = newest[node->outputs[i]];
      repeated = repeated && newest[node->outputs[i]] >= 0;
      newest[node->outputs[i]] = next;
    }
    if (node->workspace > 0) next++;
    if (repeated) c->repeats[c->repeat_count++] = (struct repeat){at, node->cost};
  }
  qsort(c->repeats, (size_t)c->repeat_count, sizeof *c->repeats, compare_repeats);
}

/* Returns true if every output's earlier instance fits where it would have to live on. */
static bool removable(const struct cleaning *c, const struct step_node *node, int32_t at) {
  for (int32_t i = 0; i < node->output_count; i++) {
    if (c->touched[node->outputs[i]]) return false;
    const int32_t mine = c->first[at] + i;
    const struct instance *before = instance_at(c, c->previous[mine]);
    if (instance_at(c, mine)->last == at && !c->simulator->step->tensors[node->outputs[i]].is_output)
      continue; /* never read */
    for (int32_t p = before->last; p < at; p++) {
      const uint64_t more = p == before->last ? 0 : before->bytes;
      if (c->simulator->live.data[p] + more > c->limit) return false;
    }
    /* An output that took the earlier instance over in place would now need bytes of its own at that
     * position. */
    if (c->simulator->live.data[before->last] + before->bytes > c->limit) return false;
  }
  return true;
}

static void remove_repeat(struct cleaning *c, const struct step_node *node, int32_t at) {
  c->gone[at] = true;
  for (int32_t i = 0; i < node->output_count; i++) {
    const int32_t mine = c->first[at] + i;
    struct instance *before = instance_at(c, c->previous[mine]);
    c->touched[node->outputs[i]] = true;
    if (instance_at(c, mine)->last == at && !c->simulator->step->tensors[node->outputs[i]].is_output)
      continue;
    for (int32_t p = before->last; p < at; p++) c->simulator->live.data[p] += before->bytes;
  }
  /* Leaves the node's inputs alone until the next round: this run may have taken them over, or they end
   * earlier now. */
  for (int32_t i = 0; i < node->input_count; i++) c->touched[node->inputs[i]] = true;
}

/* Runs one round over the schedule in `out`; *changed tells whether a repeat was removed. */
static neap_status clean_round(struct cleaning *c, int32_t *newest, struct schedule *out,
                               struct simulation *score, bool *changed) {
  const neap_step *step = c->simulator->step;
  const int32_t length = (int32_t)out->nodes.count;
  find_repeats(c, out->nodes.data, length, newest);
  memset(c->gone, 0, out->nodes.count * sizeof *c->gone);
  memset(c->touched, 0, (size_t)step->tensor_count * sizeof *c->touched);
  int32_t removed = 0;
  for (int32_t r = 0; r < c->repeat_count; r++) {
    const struct step_node *node = &step->nodes[out->nodes.data[c->repeats[r].at]];
    if (!removable(c, node, c->repeats[r].at)) continue;
    remove_repeat(c, node, c->repeats[r].at);
    removed++;
  }
  *changed = removed > 0;
  if (removed == 0) return NEAP_OK;
  struct schedule shorter = {0};
  neap_status status = vector_reserve(&shorter.nodes, (size_t)length);
  for (int32_t at = 0; status == NEAP_OK && at < length; at++)
    if (!c->gone[at]) status = vector_push(&shorter.nodes, out->nodes.data[at]);
  struct simulation now;
  if (status == NEAP_OK)
    status = simulator_run(c->simulator, shorter.nodes.data, (int32_t)shorter.nodes.count, &now);
  if (status == NEAP_OK && now.peak_bytes <= c->limit + step->resident_bytes) {
    swap_schedules(out, &shorter);
    *score = now;
  } else {
    *changed = false; /* the estimate was too hopeful: keep the schedule that is known to fit */
    if (status == NEAP_INVALID_PLAN) status = NEAP_OK;
  }
  schedule_free(&shorter);
  return status;
}

/* Takes stores out of which nothing is restored. */
static neap_status drop_stores(struct simulator *simulator, struct schedule *out, struct simulation *score) {
  const neap_step *step = simulator->step;
  const size_t length = out->nodes.count;
  size_t kept = 0;
  if (step->required_count == step->node_count) return NEAP_OK;
  bool *restored = calloc((size_t)step->node_count, sizeof *restored); /* by store */
  RETURN_IF_NULL(restored);
  for (size_t at = 0; at < length; at++) {
    const int32_t v = out->nodes.data[at];
    if (step_restores(step, v)) restored[step->store[step->maker[v]]] = true;
  }
  for (size_t at = 0; at < length; at++) {
    const int32_t v = out->nodes.data[at];
    if (v < step->required_count || step_restores(step, v) || restored[v]) out->nodes.data[kept++] = v;
  }
  free(restored);
  out->nodes.count = kept;
  return kept < length ? simulator_run(simulator, out->nodes.data, (int32_t)kept, score) : NEAP_OK;
}

neap_status schedule_clean(struct simulator *simulator, uint64_t budget, const int32_t *schedule,
                           int32_t length, struct schedule *out, struct simulation *score) {
  const neap_step *step = simulator->step;
  TRY(simulator_run(simulator, schedule, length, score));
  out->nodes.count = 0;
  TRY(vector_reserve(&out->nodes, (size_t)length + 1));
  if (length > 0) memcpy(out->nodes.data, schedule, (size_t)length * sizeof *schedule);
  out->nodes.count = (size_t)length;
  if (score->peak_bytes > budget) return NEAP_OK;
  struct region region = {0};
  struct cleaning c = {.simulator = simulator, .limit = budget - step->resident_bytes};
  int32_t *newest = region_alloc(&region, (size_t)step->tensor_count, sizeof *newest);
  c.first = region_alloc(&region, (size_t)length + 1, sizeof *c.first);
  c.previous = region_alloc(&region, simulator->instances.count + 1, sizeof *c.previous);
  c.gone = region_alloc(&region, (size_t)length + 1, sizeof *c.gone);
  c.touched = region_alloc(&region, (size_t)step->tensor_count, sizeof *c.touched);
  c.repeats = region_alloc(&region, (size_t)length + 1, sizeof *c.repeats);
  neap_status status = NEAP_OK;
  if (!newest || !c.first || !c.previous || !c.gone || !c.touched || !c.repeats)
    status = neap_fail(NEAP_OUT_OF_MEMORY, "clean: out of memory");
  bool changed = true;
  for (int round = 0; status == NEAP_OK && changed && round < 50; round++)
    status = clean_round(&c, newest, out, score, &changed);
  region_free(&region);
  return status == NEAP_OK ? drop_stores(simulator, out, score) : status;
}
