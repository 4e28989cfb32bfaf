#include "search/stage_step.h"

#include <stdlib.h>
#include <string.h>

#include "base/vector.h"

struct extraction {
  const struct chain *chain;
  int32_t stage, forward, count; /* count: forward and backward nodes */
  struct region region;          /* until the step is made */
  VECTOR(int32_t) tensors;       /* local id -> id in the whole step */
  VECTOR(struct step_tensor) drafts;
  struct step_node *nodes;
};

static bool is_resident(const struct extraction *x, int32_t t) {
  return x->chain->step->tensors[t].role != NEAP_ROLE_VALUE;
}

/* Gives the local number of a tensor, which is assigned at first sight. */
static neap_status number_tensor(struct extraction *x, int32_t t, int32_t *local) {
  int32_t *known = &x->chain->scratch[t];
  if (*known < 0) {
    const struct step_tensor *tensor = &x->chain->step->tensors[t];
    /* Resident bytes are the whole step's affair. */
    const struct step_tensor draft = {
        .name = tensor->name, .bytes = is_resident(x, t) ? 0 : tensor->bytes, .role = tensor->role};
    *local = (int32_t)x->tensors.count;
    TRY(vector_push(&x->tensors, t));
    TRY(vector_push(&x->drafts, draft));
    *known = *local;
  }
  *local = *known;
  return NEAP_OK;
}

static neap_status number_list(struct extraction *x, const int32_t *ids, int32_t count, const int32_t **out) {
  int32_t *list = region_alloc(&x->region, (size_t)count, sizeof *list);
  RETURN_IF_NULL(list);
  for (int32_t i = 0; i < count; i++) TRY(number_tensor(x, ids[i], &list[i]));
  *out = list;
  return NEAP_OK;
}

static neap_status copy_node(struct extraction *x, int32_t v, struct step_node *node) {
  *node = x->chain->step->nodes[v];
  TRY(number_list(x, node->inputs, node->input_count, &node->inputs));
  TRY(number_list(x, node->outputs, node->output_count, &node->outputs));
  return number_list(x, node->updates, node->update_count, &node->updates);
}

/* Lists the boundary values of a cut. */
static neap_status list_boundary(struct extraction *x, int32_t cut, const int32_t **list, int32_t *count) {
  const struct chain_cuts *cuts = &x->chain->cuts;
  *count = 0;
  if (cut < 0 || cut >= cuts->count) return NEAP_OK;
  *count = cuts->cuts[cut].end - cuts->cuts[cut].begin;
  return number_list(x, &cuts->values[cuts->cuts[cut].begin], *count, list);
}

/* Returns true if a backward value lives on when the stage is done. */
static bool leaves(const struct extraction *x, int32_t t) {
  const neap_step *step = x->chain->step;
  if (step->tensors[t].is_output) return true;
  for (int32_t r = step->reader_start[t]; r < step->reader_start[t + 1]; r++)
    if (x->chain->stage_of[step->readers[r]] < x->stage) return true;
  return false;
}

/* Lists the gradients that come from other stages, and the values that are live at the end. */
static neap_status list_gradients(struct extraction *x, struct step_node *turn, struct step_node *last) {
  const struct chain *chain = x->chain;
  const size_t tensors = x->tensors.count;
  int32_t *entering = region_alloc(&x->region, tensors, sizeof *entering);
  int32_t *leaving = region_alloc(&x->region, tensors + (size_t)last->input_count, sizeof *leaving);
  RETURN_IF(entering == NULL || leaving == NULL, NEAP_OUT_OF_MEMORY, "stage: out of memory");
  for (int32_t i = 0; i < last->input_count; i++) leaving[i] = last->inputs[i];
  for (int32_t i = 0; i < (int32_t)tensors; i++) {
    const int32_t producer = chain->step->tensors[x->tensors.data[i]].producer;
    if (producer < chain->cuts.border) continue;
    if (chain->stage_of[producer] != x->stage) entering[turn->output_count++] = i;
    if (leaves(x, x->tensors.data[i])) leaving[last->input_count++] = i;
  }
  turn->outputs = entering;
  last->inputs = leaving;
  return NEAP_OK;
}

static neap_status extract(struct extraction *x) {
  const struct chain_stage *stage = &x->chain->stages[x->stage];
  x->nodes = region_alloc(&x->region, (size_t)x->count + 3, sizeof *x->nodes);
  RETURN_IF_NULL(x->nodes);
  struct step_node *enter = &x->nodes[0], *turn = &x->nodes[x->forward + 1], *last = &x->nodes[x->count + 2];
  TRY(list_boundary(x, x->stage - 1, &enter->outputs, &enter->output_count));
  for (int32_t i = 0; i < x->count; i++)
    TRY(copy_node(x, chain_stage_node(x->chain, stage, i), &x->nodes[i + 1 + (i >= x->forward)]));
  TRY(list_boundary(x, x->stage, &turn->inputs, &turn->input_count));
  last->inputs = enter->outputs;
  last->input_count = enter->output_count;
  turn->pass = last->pass = NEAP_PASS_BACKWARD;
  return list_gradients(x, turn, last);
}

neap_status stage_extract(const struct chain *chain, int32_t stage, neap_step **out) {
  const struct chain_stage *s = &chain->stages[stage];
  struct extraction x = {.chain = chain,
                         .stage = stage,
                         .forward = s->forward_end - s->forward_begin,
                         .count = chain_stage_node_count(s)};
  neap_status status = extract(&x);
  if (status == NEAP_OK) {
    const struct neap_step draft = {.name = "stage",
                                    .tensor_count = (int32_t)x.drafts.count,
                                    .node_count = x.count + 3,
                                    .tensors = x.drafts.data,
                                    .nodes = x.nodes};
    status = step_create(&draft, out);
  }
  for (size_t i = 0; i < x.tensors.count; i++) chain->scratch[x.tensors.data[i]] = -1;
  vector_free(&x.tensors);
  vector_free(&x.drafts);
  region_free(&x.region);
  return status;
}
