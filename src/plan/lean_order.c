#include "plan/lean_order.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/region.h"
#include "plan/search.h"

/* ---- The order ---- */

/* A node that may stand next, before all that stand already. */
struct ready {
  int64_t added; /* bytes that it reads and that do not live behind it, less those that it makes */
  int32_t since; /* how many stood when it became ready */
  int32_t node;
};

struct ordering {
  const neap_step *step;
  struct region region;
  VECTOR(struct ready) heap; /* of a node that was pushed again only the last entry counts */
  int64_t *added;            /* [nodes] */
  int32_t *since, *waits;    /* [nodes]; waits: for so many reads of what it makes, and updates; STANDS */
  bool *lives;               /* [tensors] read by what stands, or an output of the step */
  int32_t standing;          /* nodes */
};

enum { STANDS = -1 };

static bool ready_before(const struct ordering *o, const struct ready *a, const struct ready *b) {
  (void)o;
  if (a->added != b->added) return a->added < b->added;
  return a->since != b->since ? a->since > b->since : a->node > b->node;
}
DEFINE_HEAP(ready, struct ordering, struct ready)

static neap_status push(struct ordering *o, int32_t node) {
  TRY(vector_push(&o->heap, (struct ready){o->added[node], o->since[node], node}));
  ready_rise(o, o->heap.data, o->heap.count);
  return NEAP_OK;
}

/* For all nodes that read a tensor. */
#define FOR_EACH_READER(step, tensor, reader)                                                                \
  for (const int32_t *reader = (step)->readers + (step)->reader_start[tensor];                               \
       reader < (step)->readers + (step)->reader_start[(tensor) + 1]; reader++)

/* A value that is read behind some node lives from its producer on, whoever else reads it. */
static neap_status let_live(struct ordering *o, int32_t tensor) {
  const struct step_tensor *t = &o->step->tensors[tensor];
  const int64_t bytes = (int64_t)t->bytes;
  if (t->role != ROLE_VALUE || o->lives[tensor]) return NEAP_OK;
  o->lives[tensor] = true;
  o->added[t->producer] -= bytes;
  FOR_EACH_READER(o->step, tensor, reader) {
    o->added[*reader] -= bytes;
    if (o->waits[*reader] == 0) TRY(push(o, *reader));
  }
  return NEAP_OK;
}

static neap_status wait_less(struct ordering *o, int32_t node) {
  if (--o->waits[node] > 0) return NEAP_OK;
  o->since[node] = o->standing;
  return push(o, node);
}

static neap_status let_stand(struct ordering *o, int32_t node) {
  const neap_step *step = o->step;
  const struct step_node *n = &step->nodes[node];
  o->waits[node] = STANDS;
  o->standing++;
  for (int32_t i = 0; i < n->input_count; i++) TRY(let_live(o, n->inputs[i]));
  for (int32_t i = 0; i < n->input_count; i++)
    if (step->tensors[n->inputs[i]].producer >= 0) TRY(wait_less(o, step->tensors[n->inputs[i]].producer));
  for (int32_t i = 0; i < n->update_count; i++)
    FOR_EACH_READER(step, n->updates[i], reader) if (*reader != node) TRY(wait_less(o, *reader));
  return NEAP_OK;
}

static neap_status prepare(struct ordering *o) {
  const neap_step *step = o->step;
  const size_t nodes = (size_t)step->node_count + 1, tensors = (size_t)step->tensor_count + 1;
  o->added = region_alloc(&o->region, nodes, sizeof *o->added);
  o->since = region_alloc(&o->region, nodes, sizeof *o->since);
  o->waits = region_alloc(&o->region, nodes, sizeof *o->waits);
  o->lives = region_alloc(&o->region, tensors, sizeof *o->lives);
  RETURN_IF(!o->added || !o->since || !o->waits || !o->lives, NEAP_OUT_OF_MEMORY, "order: out of memory");
  for (int32_t v = 0; v < step->node_count; v++) {
    const struct step_node *node = &step->nodes[v];
    for (int32_t i = 0; i < node->input_count; i++)
      if (step->tensors[node->inputs[i]].producer >= 0) o->waits[step->tensors[node->inputs[i]].producer]++;
    for (int32_t i = 0; i < node->update_count; i++)
      FOR_EACH_READER(step, node->updates[i], reader) o->waits[*reader] += *reader != v;
  }
  for (int32_t t = 0; t < step->tensor_count; t++)
    if (step->tensors[t].role == ROLE_VALUE)
      FOR_EACH_READER(step, t, reader) o->added[*reader] += (int64_t)step->tensors[t].bytes;
  for (int32_t i = 0; i < step->output_count; i++) TRY(let_live(o, step->outputs[i]));
  for (int32_t v = 0; v < step->node_count; v++)
    if (o->waits[v] == 0) TRY(push(o, v));
  return NEAP_OK;
}

static neap_status let_all_stand(struct ordering *o, struct schedule *out) {
  const int32_t nodes = o->step->node_count;
  TRY(vector_reserve(&out->nodes, (size_t)nodes + 1));
  TRY(prepare(o));
  while (o->heap.count > 0) {
    const struct ready next = ready_take(o, o->heap.data, &o->heap.count);
    if (o->waits[next.node] == STANDS || next.added != o->added[next.node]) continue;
    out->nodes.data[nodes - 1 - o->standing] = next.node;
    TRY(let_stand(o, next.node));
  }
  out->nodes.count = (size_t)nodes;
  return NEAP_OK;
}

neap_status lean_order(const neap_step *step, struct schedule *out) {
  struct ordering o = {.step = step};
  const neap_status status = let_all_stand(&o, out);
  vector_free(&o.heap);
  region_free(&o.region);
  return status;
}

/* ---- The step in that order ---- */

/* Moves nodes to where less lives for less long. */
static neap_status tidy(const neap_step *step, struct schedule *order, int64_t *peak) {
  struct search *search = malloc(sizeof *search);
  RETURN_IF(search == NULL, NEAP_OUT_OF_MEMORY, "order: out of memory");
  neap_status status = search_create(step, 0, order, 1, search);
  if (status == NEAP_OK) status = search_result(search, order);
  if (status == NEAP_OK) *peak = timeline_peak(&search->timeline);
  search_free(search);
  free(search);
  return status;
}

static neap_status create_in_order(const neap_step *step, const struct schedule *order, neap_step **out) {
  struct step_node *nodes = malloc(((size_t)step->node_count + 1) * sizeof *nodes);
  RETURN_IF(nodes == NULL, NEAP_OUT_OF_MEMORY, "order: out of memory");
  for (int32_t v = 0; v < step->node_count; v++) nodes[v] = step->nodes[order->nodes.data[v]];
  neap_step draft = *step;
  draft.nodes = nodes;
  const neap_status status = step_create(&draft, out);
  free(nodes);
  return status;
}

static neap_status given_order(const neap_step *step, struct schedule *out) {
  TRY(vector_reserve(&out->nodes, (size_t)step->node_count + 1));
  for (int32_t v = 0; v < step->node_count; v++) out->nodes.data[v] = v;
  out->nodes.count = (size_t)step->node_count;
  return NEAP_OK;
}

neap_status leaner_step_create(const neap_step *step, struct leaner_step *out) {
  static const double clearly = 0.9;
  struct schedule given = {0};
  int64_t given_peak = 0, lean_peak = 0;
  *out = (struct leaner_step){0};
  neap_status status = given_order(step, &given);
  if (status == NEAP_OK) status = tidy(step, &given, &given_peak);
  if (status == NEAP_OK) status = lean_order(step, &out->back);
  if (status == NEAP_OK) status = tidy(step, &out->back, &lean_peak);
  if (status == NEAP_OK && (double)lean_peak < clearly * (double)given_peak)
    status = create_in_order(step, &out->back, &out->step);
  schedule_free(&given);
  return status;
}

void leaner_step_free(struct leaner_step *leaner) {
  neap_step_free(leaner->step);
  schedule_free(&leaner->back);
}

void leaner_step_rename(const struct leaner_step *leaner, struct schedule *schedule) {
  for (size_t i = 0; i < schedule->nodes.count; i++)
    schedule->nodes.data[i] = leaner->back.nodes.data[schedule->nodes.data[i]];
}
