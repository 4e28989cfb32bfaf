#include "search/node_order.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/region.h"
#include "search/keep_all.h"
#include "search/search.h"
#include "step/simulate.h"
#include "step/tuning.h"

/* ---- Lean ---- */

/* A node that may come next, before all that are placed already. */
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
  int32_t *since, *waits;    /* [nodes]; waits: for this many reads of what it makes, and updates; STANDS */
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

/* Loops over all nodes that read a tensor. */
#define FOR_EACH_READER(step, tensor, reader)                                                                \
  for (const int32_t *reader = (step)->readers + (step)->reader_start[tensor];                               \
       reader < (step)->readers + (step)->reader_start[(tensor) + 1]; reader++)

/* Lets a value live from its producer on. A later node reads it, so other readers add nothing. */
static neap_status let_live(struct ordering *o, int32_t tensor) {
  const struct step_tensor *t = &o->step->tensors[tensor];
  const int64_t bytes = (int64_t)t->bytes;
  if (t->role != NEAP_ROLE_VALUE || o->lives[tensor]) return NEAP_OK;
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
    if (step->tensors[t].role == NEAP_ROLE_VALUE)
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

/* ---- Mirrored ---- */

/* A node that may run next; the lowest rank comes first. */
struct candidate {
  int64_t rank;
  int32_t node;
};

struct mirroring {
  const neap_step *step;
  struct region region;
  VECTOR(struct candidate) heap;
  int64_t *rank;  /* [nodes] */
  int32_t *waits; /* [nodes]: for this many values that it reads, and reads of what it updates */
};

static bool candidate_before(const struct mirroring *m, const struct candidate *a,
                             const struct candidate *b) {
  (void)m;
  return a->rank != b->rank ? a->rank < b->rank : a->node < b->node;
}
DEFINE_HEAP(candidate, struct mirroring, struct candidate)

static neap_status wait_no_longer(struct mirroring *m, int32_t node) {
  if (--m->waits[node] > 0) return NEAP_OK;
  TRY(vector_push(&m->heap, (struct candidate){m->rank[node], node}));
  candidate_rise(m, m->heap.data, m->heap.count);
  return NEAP_OK;
}

/* Returns the rank of a backward node, after all forward nodes: the later the latest forward node that it
 * reads from, the earlier. If it reads from none, its rank is that of the latest of its inputs' nodes. */
static int64_t backward_rank(const struct mirroring *m, int32_t node) {
  const struct step_node *n = &m->step->nodes[node];
  const int64_t nodes = m->step->node_count;
  int64_t latest = -1, rank = 0;
  for (int32_t i = 0; i < n->input_count; i++) {
    const int32_t producer = m->step->tensors[n->inputs[i]].producer;
    if (producer < 0) continue;
    if (m->step->nodes[producer].pass == NEAP_PASS_FORWARD)
      latest = producer > latest ? producer : latest;
    else
      rank = m->rank[producer] > rank ? m->rank[producer] : rank;
  }
  if (latest >= 0) return nodes + (nodes - 1 - latest);
  return rank > nodes ? rank : nodes;
}

static neap_status prepare_mirroring(struct mirroring *m) {
  const neap_step *step = m->step;
  m->rank = region_alloc(&m->region, (size_t)step->node_count + 1, sizeof *m->rank);
  m->waits = region_alloc(&m->region, (size_t)step->node_count + 1, sizeof *m->waits);
  RETURN_IF(!m->rank || !m->waits, NEAP_OUT_OF_MEMORY, "order: out of memory");
  for (int32_t v = 0; v < step->node_count; v++) {
    const struct step_node *node = &step->nodes[v];
    m->rank[v] = node->pass == NEAP_PASS_FORWARD  ? v
                 : node->pass == NEAP_PASS_UPDATE ? -1
                                                  : backward_rank(m, v);
    m->waits[v]++; /* for the beginning */
    for (int32_t i = 0; i < node->output_count; i++)
      FOR_EACH_READER(step, node->outputs[i], reader) m->waits[*reader]++;
    for (int32_t i = 0; i < node->input_count; i++) {
      const int32_t updater = step->tensors[node->inputs[i]].updater;
      if (updater >= 0 && updater != v) m->waits[updater]++;
    }
  }
  return NEAP_OK;
}

static neap_status run_mirrored(struct mirroring *m, struct schedule *out) {
  const neap_step *step = m->step;
  TRY(vector_reserve(&out->nodes, (size_t)step->node_count + 1));
  TRY(prepare_mirroring(m));
  for (int32_t v = 0; v < step->node_count; v++) TRY(wait_no_longer(m, v));
  while (m->heap.count > 0) {
    const int32_t v = candidate_take(m, m->heap.data, &m->heap.count).node;
    const struct step_node *node = &step->nodes[v];
    out->nodes.data[out->nodes.count++] = v;
    for (int32_t i = 0; i < node->output_count; i++)
      FOR_EACH_READER(step, node->outputs[i], reader) TRY(wait_no_longer(m, *reader));
    for (int32_t i = 0; i < node->input_count; i++) {
      const int32_t updater = step->tensors[node->inputs[i]].updater;
      if (updater >= 0 && updater != v) TRY(wait_no_longer(m, updater));
    }
  }
  return NEAP_OK;
}

neap_status mirrored_order(const neap_step *step, struct schedule *out) {
  struct mirroring m = {.step = step};
  const neap_status status = run_mirrored(&m, out);
  vector_free(&m.heap);
  region_free(&m.region);
  return status;
}

/* ---- Steps in these orders ---- */

/* Moves nodes to positions where fewer bytes live for less time. */
static neap_status tidy(const neap_step *step, struct schedule *order, int64_t *peak) {
  struct search *search;
  TRY(search_create(step, 0, order, 1, &search));
  const neap_status status = search_result(search, order);
  if (status == NEAP_OK) *peak = timeline_peak(&search->timeline);
  search_free(search);
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

static neap_status leave(const neap_step *step, struct schedule *order, int64_t *peak) {
  struct simulation score;
  TRY(simulate(step, order->nodes.data, (int32_t)order->nodes.count, &score));
  *peak = (int64_t)(score.peak_bytes - step->resident_bytes);
  return NEAP_OK;
}

typedef neap_status order_function(const neap_step *step, struct schedule *out);

/* Measures an order, which it may change. `peak`: without recomputation, bytes of values. */
typedef neap_status measure_function(const neap_step *step, struct schedule *order, int64_t *peak);

/* Reorders the step with `order` if the peak then is less than this share of the given order's. */
static neap_status reorder(const neap_step *step, order_function *order, measure_function *measure,
                           double share, struct reordered_step *out) {
  struct schedule given = {0};
  int64_t given_peak = 0, peak = 0;
  *out = (struct reordered_step){0};
  neap_status status = plan_keep_all(step, UINT64_MAX, &(struct planner_options){0}, &given);
  if (status == NEAP_OK) status = measure(step, &given, &given_peak);
  if (status == NEAP_OK) status = order(step, &out->back);
  if (status == NEAP_OK) status = measure(step, &out->back, &peak);
  if (status == NEAP_OK && (double)peak < share * (double)given_peak)
    status = create_in_order(step, &out->back, &out->step);
  schedule_free(&given);
  return status;
}

neap_status mirrored_step_create(const neap_step *step, struct reordered_step *out) {
  return reorder(step, mirrored_order, leave, ORDER_MIRRORED_SHARE, out);
}

neap_status leaner_step_create(const neap_step *step, struct reordered_step *out) {
  return reorder(step, lean_order, tidy, ORDER_LEANER_SHARE, out);
}

void reordered_step_free(struct reordered_step *reordered) {
  neap_step_free(reordered->step);
  schedule_free(&reordered->back);
}

void reordered_step_rename(const struct reordered_step *reordered, struct schedule *schedule) {
  for (size_t i = 0; i < schedule->nodes.count; i++)
    schedule->nodes.data[i] = reordered->back.nodes.data[schedule->nodes.data[i]];
}

neap_status reordered_step_take(const struct reordered_step *reordered, const struct schedule *schedule,
                                struct schedule *out) {
  const size_t count = reordered->back.nodes.count;
  int32_t *there = malloc((count + 1) * sizeof *there);
  RETURN_IF(there == NULL, NEAP_OUT_OF_MEMORY, "order: out of memory");
  for (size_t v = 0; v < count; v++) there[reordered->back.nodes.data[v]] = (int32_t)v;
  const neap_status status = schedule_copy(out, schedule->nodes.data, schedule->nodes.count);
  for (size_t i = 0; i < out->nodes.count; i++) out->nodes.data[i] = there[out->nodes.data[i]];
  free(there);
  return status;
}
