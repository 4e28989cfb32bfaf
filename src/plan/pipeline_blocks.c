#include "plan/pipeline_blocks.h"

#include <stdlib.h>

struct finding {
  const struct chain *chain;
  const neap_step *step;
  struct pipeline_block *blocks;
  bool *again; /* by node: makes what recomputation makes again */
};

static bool is_update(const struct step_node *node) { return node->pass == NEAP_PASS_UPDATE; }

static bool is_read_backward(const struct finding *f, int32_t t) {
  for (int32_t r = f->step->reader_start[t]; r < f->step->reader_start[t + 1]; r++)
    if (f->step->readers[r] >= f->chain->cuts.border) return true;
  return false;
}

/* ---- Variables ---- */

/* Lists the blocks that read a variable, without its updates. */
static int32_t list_readers(const struct finding *f, int32_t t, bool *marked, int32_t *list) {
  int32_t count = 0;
  for (int32_t r = f->step->reader_start[t]; r < f->step->reader_start[t + 1]; r++) {
    const int32_t block = f->chain->stage_of[f->step->readers[r]];
    if (is_update(&f->step->nodes[f->step->readers[r]]) || marked[block]) continue;
    marked[block] = true;
    list[count++] = block;
  }
  for (int32_t i = 0; i < count; i++) marked[list[i]] = false;
  return count;
}

static int32_t trained_of(const neap_step *step, int32_t updater) {
  const struct step_node *node = &step->nodes[updater];
  for (int32_t i = 0; i < node->update_count; i++)
    if (step->tensors[node->updates[i]].role == NEAP_ROLE_PARAMETER) return node->updates[i];
  return -1;
}

/* Gives a state the blocks of the parameter that is updated with it, and each trained parameter a sum of
 * gradients. */
static neap_status place_variables(struct finding *f, struct region *region, struct pipeline_problem *p) {
  const neap_step *step = f->step;
  const size_t stages = (size_t)f->chain->stage_count, tensors = (size_t)step->tensor_count;
  bool *marked = region_alloc(region, stages, sizeof *marked);
  int32_t *list = region_alloc(region, stages, sizeof *list);
  struct pipeline_shared *shared = region_alloc(region, tensors, sizeof *shared);
  int32_t *blocks = region_alloc(region, tensors + stages, sizeof *blocks);
  size_t room = tensors + stages, used = 0;
  RETURN_IF(!marked || !list || !shared || !blocks, NEAP_OUT_OF_MEMORY, "pipeline: out of memory");
  p->shared = shared;
  for (int32_t t = 0; t < step->tensor_count; t++) {
    const struct step_tensor *tensor = &step->tensors[t];
    if (tensor->role == NEAP_ROLE_VALUE) continue;
    const int32_t trained = tensor->updater >= 0 ? trained_of(step, tensor->updater) : -1;
    const int32_t count = list_readers(f, trained >= 0 ? trained : t, marked, list);
    const uint64_t sum = trained == t ? tensor->bytes : 0;
    if (count <= 1) {
      struct pipeline_block *block = &f->blocks[count == 1 ? list[0] : 0];
      block->resident += tensor->bytes + sum;
      block->weights += sum;
      continue;
    }
    if (used + (size_t)count > room) {
      int32_t *more = region_alloc(region, 2 * room, sizeof *more);
      RETURN_IF_NULL(more);
      for (size_t i = 0; i < used; i++) more[i] = blocks[i];
      blocks = more, room *= 2;
    }
    shared[p->shared_count++] =
        (struct pipeline_shared){tensor->bytes + sum, sum, (int32_t)used, (int32_t)used + count};
    for (int32_t i = 0; i < count; i++) blocks[used++] = list[i];
  }
  p->shared_blocks = blocks;
  return NEAP_OK;
}

/* ---- Seconds and kept values ---- */

static void count_kept(struct finding *f) {
  const struct chain *chain = f->chain;
  for (int32_t t = 0; t < f->step->tensor_count; t++) {
    const struct step_tensor *tensor = &f->step->tensors[t];
    if (tensor->producer < 0 || tensor->producer >= chain->cuts.border) continue;
    struct pipeline_block *block = &f->blocks[chain->stage_of[tensor->producer]];
    if (chain->cut_of[t] >= 0) {
      for (int32_t r = f->step->reader_start[t]; r < f->step->reader_start[t + 1]; r++)
        if (f->step->readers[r] >= chain->cuts.border &&
            chain->stage_of[f->step->readers[r]] == chain->cut_of[t])
          block->reads_output = true;
    } else if (is_read_backward(f, t)) {
      block->kept += tensor->bytes;
      if (chain->pinned[t])
        block->pinned += tensor->bytes;
      else
        f->again[tensor->producer] = true;
    }
  }
}

/* Counts seconds. Makers of a value that is made again are made again too, inside their block. */
static void count_seconds(struct finding *f) {
  const neap_step *step = f->step;
  for (int32_t v = step->node_count - 1; v >= 0; v--) {
    const struct step_node *node = &step->nodes[v];
    struct pipeline_block *block = &f->blocks[f->chain->stage_of[v]];
    if (v >= f->chain->cuts.border) {
      const int32_t trained = is_update(node) ? trained_of(step, v) : -1;
      if (trained >= 0 && step->reader_start[trained + 1] > step->reader_start[trained])
        f->blocks[f->chain->stage_of[step->readers[step->reader_start[trained]]]].update += node->cost;
      else
        block->backward += node->cost;
      continue;
    }
    block->forward += node->cost;
    if (!f->again[v]) continue;
    block->recompute += node->cost;
    for (int32_t i = 0; i < node->input_count; i++) {
      const int32_t t = node->inputs[i], producer = step->tensors[t].producer;
      if (producer >= 0 && f->chain->stage_of[producer] == f->chain->stage_of[v] && !f->chain->pinned[t])
        f->again[producer] = true;
    }
  }
}

/* ---- Live bytes while a block runs ---- */

static bool is_counted_apart(const struct finding *f, int32_t t) {
  const int32_t producer = f->step->tensors[t].producer;
  return f->chain->cut_of[t] >= 0 || (producer < f->chain->cuts.border && is_read_backward(f, t));
}

static neap_status count_working(struct finding *f, int32_t s) {
  const struct chain_stage *stage = &f->chain->stages[s];
  const int32_t count = chain_stage_node_count(stage);
  int64_t *change = calloc((size_t)count + 1, sizeof *change), live = 0;
  int32_t *place = malloc(((size_t)f->step->node_count + 1) * sizeof *place);
  if (change == NULL || place == NULL) {
    free(change), free(place);
    return neap_fail(NEAP_OUT_OF_MEMORY, "pipeline: out of memory");
  }
  for (int32_t i = 0; i < count; i++) place[chain_stage_node(f->chain, stage, i)] = i;
  for (int32_t i = 0; i < count; i++) {
    const struct step_node *node = &f->step->nodes[chain_stage_node(f->chain, stage, i)];
    for (int32_t k = 0; k < node->output_count; k++) {
      const int32_t t = node->outputs[k];
      int32_t last = i;
      if (is_counted_apart(f, t)) continue;
      for (int32_t r = f->step->reader_start[t]; r < f->step->reader_start[t + 1]; r++) {
        const int32_t reader = f->step->readers[r];
        if (f->chain->stage_of[reader] == s && !is_update(&f->step->nodes[reader]) && place[reader] > last)
          last = place[reader];
      }
      change[i] += (int64_t)f->step->tensors[t].bytes;
      change[last + 1] -= (int64_t)f->step->tensors[t].bytes;
    }
  }
  for (int32_t i = 0; i < count; i++) {
    live += change[i];
    const uint64_t all = (uint64_t)live + f->step->nodes[chain_stage_node(f->chain, stage, i)].workspace;
    if (all > f->blocks[s].working) f->blocks[s].working = all;
  }
  free(change), free(place);
  return NEAP_OK;
}

neap_status pipeline_blocks_find(const struct chain *chain, struct region *region,
                                 struct pipeline_problem *p) {
  struct finding f = {.chain = chain, .step = chain->step};
  f.blocks = region_alloc(region, (size_t)chain->stage_count, sizeof *f.blocks);
  f.again = region_alloc(region, (size_t)chain->step->node_count, sizeof *f.again);
  RETURN_IF(!f.blocks || !f.again, NEAP_OUT_OF_MEMORY, "pipeline: out of memory");
  p->block_count = chain->stage_count;
  p->blocks = f.blocks;
  count_kept(&f);
  count_seconds(&f);
  for (int32_t s = 0; s < chain->stage_count; s++) {
    f.blocks[s].boundary = chain->stages[s].output_bytes;
    TRY(count_working(&f, s));
  }
  return place_variables(&f, region, p);
}
