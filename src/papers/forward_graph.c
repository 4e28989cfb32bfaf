#include "papers/forward_graph.h"
#include "base/ids.h"

#include <string.h>

/* ---- The graph ---- */

static bool depends_on_forward_only(const struct forward_graph *g, const struct step_node *node) {
  for (int32_t i = 0; i < node->input_count; i++) {
    const int32_t producer = g->step->tensors[node->inputs[i]].producer;
    if (producer >= 0 && g->vertex[producer] < 0) return false;
  }
  return true;
}

/* Returns true for a forward node that only reads resident tensors and that no forward node reads: for
 * example a weight in another order for the backward pass. */
static bool serves_backward_only(const neap_step *step, const struct step_node *node) {
  for (int32_t i = 0; i < node->input_count; i++)
    if (step->tensors[node->inputs[i]].producer >= 0) return false;
  for (int32_t i = 0; i < node->output_count; i++) {
    const int32_t t = node->outputs[i];
    if (step->tensors[t].is_output) return false;
    for (int32_t r = step->reader_start[t]; r < step->reader_start[t + 1]; r++)
      if (step->nodes[step->readers[r]].pass == NEAP_PASS_FORWARD) return false;
  }
  return true;
}

static void find_vertices(struct forward_graph *g) {
  const neap_step *step = g->step;
  for (int32_t v = 0; v < step->node_count; v++) {
    const struct step_node *node = &step->nodes[v];
    g->vertex[v] = -1;
    if (node->pass != NEAP_PASS_FORWARD || node->update_count > 0) continue;
    g->late[v] = serves_backward_only(step, node);
    if (g->late[v] || !depends_on_forward_only(g, node)) continue;
    const int32_t vertex = g->count++;
    g->vertex[v] = vertex;
    g->node[vertex] = v;
    g->cost[vertex] = node->cost;
    g->pinned[vertex] = !node->repeatable;
    for (int32_t i = 0; i < node->output_count; i++) {
      const struct step_tensor *tensor = &step->tensors[node->outputs[i]];
      g->bytes[vertex] += tensor->bytes;
      g->pinned[vertex] = g->pinned[vertex] || tensor->is_output;
    }
  }
}

/* Returns true if this is the first input that vertex u gives to the node. */
static bool first_from(const struct forward_graph *g, const struct step_node *node, int32_t input,
                       int32_t producer) {
  for (int32_t k = 0; k < input; k++)
    if (g->step->tensors[node->inputs[k]].producer == producer) return false;
  return true;
}

/* Lists edges by their heads, then the same by their tails. */
static neap_status find_edges(struct forward_graph *g, struct region *region) {
  size_t reads = 1;
  for (int32_t v = 0; v < g->count; v++) reads += (size_t)g->step->nodes[g->node[v]].input_count;
  RETURN_IF(reads > INT32_MAX, NEAP_TOO_LARGE, "forward graph: too many edges");
  g->before = region_alloc(region, reads, sizeof *g->before);
  g->after = region_alloc(region, reads, sizeof *g->after);
  RETURN_IF(!g->before || !g->after, NEAP_OUT_OF_MEMORY, "forward graph: out of memory");
  int32_t edges = 0;
  for (int32_t v = 0; v < g->count; v++) {
    const struct step_node *node = &g->step->nodes[g->node[v]];
    for (int32_t i = 0; i < node->input_count; i++) {
      const int32_t producer = g->step->tensors[node->inputs[i]].producer;
      if (producer < 0 || !first_from(g, node, i, producer)) continue;
      g->before[edges++] = g->vertex[producer];
      g->after_start[g->vertex[producer] + 1]++;
    }
    g->before_start[v + 1] = edges;
  }
  for (int32_t v = 0; v < g->count; v++) g->after_start[v + 1] += g->after_start[v];
  int32_t *next = region_copy(region, g->after_start, (size_t)g->count + 1, sizeof *next);
  RETURN_IF(next == NULL, NEAP_OUT_OF_MEMORY, "forward graph: out of memory");
  for (int32_t v = 0; v < g->count; v++)
    for (int32_t e = g->before_start[v]; e < g->before_start[v + 1]; e++) g->after[next[g->before[e]]++] = v;
  return NEAP_OK;
}

neap_status forward_graph_create(const neap_step *step, struct region *region, struct forward_graph *graph) {
  const size_t nodes = (size_t)step->node_count + 1;
  *graph = (struct forward_graph){.step = step};
  graph->node = region_alloc(region, nodes, sizeof *graph->node);
  graph->vertex = region_alloc(region, nodes, sizeof *graph->vertex);
  graph->late = region_alloc(region, nodes, sizeof *graph->late);
  graph->before_start = region_alloc(region, nodes, sizeof *graph->before_start);
  graph->after_start = region_alloc(region, nodes, sizeof *graph->after_start);
  graph->bytes = region_alloc(region, nodes, sizeof *graph->bytes);
  graph->cost = region_alloc(region, nodes, sizeof *graph->cost);
  graph->pinned = region_alloc(region, nodes, sizeof *graph->pinned);
  RETURN_IF(!graph->node || !graph->vertex || !graph->late || !graph->before_start || !graph->after_start ||
                !graph->bytes || !graph->cost || !graph->pinned,
            NEAP_OUT_OF_MEMORY, "forward graph: out of memory");
  find_vertices(graph);
  return find_edges(graph, region);
}

/* ---- From kept values to a schedule ---- */

struct ranked {
  int32_t rank, id;
};

static int compare_ranked(const void *a, const void *b) {
  const struct ranked *x = a, *y = b;
  if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
  return x->id < y->id ? -1 : x->id > y->id;
}

struct emission {
  const struct forward_graph *graph;
  const int32_t *segment;
  const bool *stays;
  struct ranked *forward, *rest; /* vertices; nodes that are not, nor late, nor plain updates */
  int32_t rest_count;
  int32_t *place; /* vertex -> where it stands in the forward pass */
  bool *have;     /* by vertex */
  bool *late_ran; /* by node of the step */
  VECTOR(int32_t) missing;
  struct schedule *out;
};

static bool is_kept(const struct emission *e, int32_t vertex) {
  return e->stays[vertex] || e->graph->pinned[vertex];
}

static int32_t segment_of(const struct emission *e, int32_t vertex) {
  return e->segment == NULL ? 0 : e->segment[vertex];
}

/* Ranks nodes of the backward pass. One belongs to the segment whose dropped values it reads, and to none
 * later than that of a node that it depends on, so the order by falling segments is valid. */
static void rank_rest(struct emission *e, int32_t *rank_of_node) {
  const neap_step *step = e->graph->step;
  for (int32_t v = 0; v < step->node_count; v++) {
    const struct step_node *node = &step->nodes[v];
    if (e->graph->vertex[v] >= 0 || e->graph->late[v] || is_plain_update(node)) continue;
    int32_t own = -1, rank = INT32_MIN; /* segments negated: the last one comes first */
    for (int32_t i = 0; i < node->input_count; i++) {
      const int32_t producer = step->tensors[node->inputs[i]].producer;
      if (producer < 0) continue;
      const int32_t vertex = e->graph->vertex[producer];
      if (vertex < 0 && rank_of_node[producer] > rank) rank = rank_of_node[producer];
      if (vertex >= 0 && !is_kept(e, vertex) && segment_of(e, vertex) > own) own = segment_of(e, vertex);
    }
    if (own >= 0 && -own > rank) rank = -own;
    rank_of_node[v] = rank;
    e->rest[e->rest_count++] = (struct ranked){rank, v};
  }
  qsort(e->rest, (size_t)e->rest_count, sizeof *e->rest, compare_ranked);
}

static neap_status ask_for(struct emission *e, int32_t vertex) {
  if (e->have[vertex]) return NEAP_OK;
  e->have[vertex] = true;
  return vector_push(&e->missing, e->place[vertex]);
}

/* Runs a late node once, when it is first needed. */
static neap_status emit_late(struct emission *e, int32_t v) {
  if (!e->graph->late[v] || e->late_ran[v]) return NEAP_OK;
  e->late_ran[v] = true;
  return vector_push(&e->out->nodes, v);
}

/* Runs a node after all its missing inputs, in the order of the forward pass. */
static neap_status emit(struct emission *e, int32_t v) {
  const struct forward_graph *g = e->graph;
  const struct step_node *node = &g->step->nodes[v];
  e->missing.count = 0;
  for (int32_t i = 0; i < node->input_count; i++) {
    const int32_t producer = g->step->tensors[node->inputs[i]].producer;
    if (producer < 0) continue;
    TRY(emit_late(e, producer));
    if (g->vertex[producer] >= 0) TRY(ask_for(e, g->vertex[producer]));
  }
  for (size_t m = 0; m < e->missing.count; m++) {
    const int32_t vertex = e->forward[e->missing.data[m]].id;
    for (int32_t k = g->before_start[vertex]; k < g->before_start[vertex + 1]; k++)
      TRY(ask_for(e, g->before[k]));
  }
  if (e->missing.count > 1) qsort(e->missing.data, e->missing.count, sizeof *e->missing.data, compare_ids);
  for (size_t m = 0; m < e->missing.count; m++)
    TRY(vector_push(&e->out->nodes, g->node[e->forward[e->missing.data[m]].id]));
  return vector_push(&e->out->nodes, v);
}

static neap_status emit_all(struct emission *e, int32_t *rank_of_node) {
  const struct forward_graph *g = e->graph;
  e->out->nodes.count = 0;
  for (int32_t v = 0; v < g->count; v++) e->forward[v] = (struct ranked){segment_of(e, v), v};
  if (e->segment != NULL) qsort(e->forward, (size_t)g->count, sizeof *e->forward, compare_ranked);
  for (int32_t p = 0; p < g->count; p++) {
    const int32_t vertex = e->forward[p].id;
    e->place[vertex] = p;
    e->have[vertex] = is_kept(e, vertex);
    TRY(vector_push(&e->out->nodes, g->node[vertex]));
  }
  rank_rest(e, rank_of_node);
  for (int32_t r = 0; r < e->rest_count; r++) TRY(emit(e, e->rest[r].id));
  for (int32_t v = 0; v < g->step->node_count; v++) TRY(emit_late(e, v)); /* that only updates read */
  return schedule_add_updates(g->step, e->out);
}

neap_status forward_graph_schedule(const struct forward_graph *graph, const int32_t *segment,
                                   const bool *stays, struct schedule *out) {
  const size_t nodes = (size_t)graph->step->node_count + 1;
  struct region region = {0};
  struct emission e = {.graph = graph, .segment = segment, .stays = stays, .out = out};
  e.forward = region_alloc(&region, nodes, sizeof *e.forward);
  e.rest = region_alloc(&region, nodes, sizeof *e.rest);
  e.place = region_alloc(&region, nodes, sizeof *e.place);
  e.have = region_alloc(&region, nodes, sizeof *e.have);
  e.late_ran = region_alloc(&region, nodes, sizeof *e.late_ran);
  int32_t *rank_of_node = region_alloc(&region, nodes, sizeof *rank_of_node);
  neap_status status = NEAP_OK;
  if (!e.forward || !e.rest || !e.place || !e.have || !e.late_ran || !rank_of_node)
    status = neap_fail(NEAP_OUT_OF_MEMORY, "schedule: out of memory");
  if (status == NEAP_OK) status = emit_all(&e, rank_of_node);
  vector_free(&e.missing);
  region_free(&region);
  return status;
}

/* ---- Updates ---- */

/* Returns the position after which an update may run; `last` already has those of updates before it. */
static int32_t earliest(const neap_step *step, int32_t update, const int32_t *first, const int32_t *last) {
  const struct step_node *node = &step->nodes[update];
  int32_t at = -1;
  for (int32_t i = 0; i < node->input_count; i++) {
    const int32_t producer = step->tensors[node->inputs[i]].producer;
    if (producer >= 0 && first[producer] > at) at = first[producer];
  }
  for (int32_t i = 0; i < node->update_count; i++) {
    const int32_t t = node->updates[i];
    for (int32_t r = step->reader_start[t]; r < step->reader_start[t + 1]; r++)
      if (step->readers[r] != update && last[step->readers[r]] > at) at = last[step->readers[r]];
  }
  return at;
}

/* Puts each update after its position. */
static neap_status merge(struct schedule *schedule, const struct ranked *updates, int32_t count) {
  struct schedule merged = {0};
  const int32_t length = (int32_t)schedule->nodes.count;
  neap_status status = vector_reserve(&merged.nodes, (size_t)length + (size_t)count + 1);
  if (status != NEAP_OK) return status;
  for (int32_t at = -1, next = 0; at < length; at++) {
    if (at >= 0) merged.nodes.data[merged.nodes.count++] = schedule->nodes.data[at];
    for (; next < count && updates[next].rank == at; next++)
      merged.nodes.data[merged.nodes.count++] = updates[next].id;
  }
  schedule_free(schedule);
  *schedule = merged;
  return NEAP_OK;
}

neap_status schedule_add_updates(const neap_step *step, struct schedule *schedule) {
  struct region region = {0};
  const size_t nodes = (size_t)step->node_count + 1;
  int32_t *first = region_alloc(&region, nodes, sizeof *first),
          *last = region_alloc(&region, nodes, sizeof *last), count = 0;
  struct ranked *updates = region_alloc(&region, nodes, sizeof *updates);
  neap_status status = NEAP_OK;
  if (!first || !last || !updates) status = neap_fail(NEAP_OUT_OF_MEMORY, "updates: out of memory");
  if (status == NEAP_OK) {
    memset(last, -1, nodes * sizeof *last);
    memset(first, -1, nodes * sizeof *first);
    for (size_t at = 0; at < schedule->nodes.count; at++) {
      const int32_t v = schedule->nodes.data[at];
      if (first[v] < 0) first[v] = (int32_t)at;
      last[v] = (int32_t)at;
    }
    for (int32_t v = 0; v < step->node_count; v++) {
      if (!is_plain_update(&step->nodes[v])) continue;
      last[v] = earliest(step, v, first, last);
      updates[count++] = (struct ranked){last[v], v};
    }
    qsort(updates, (size_t)count, sizeof *updates, compare_ranked);
    status = merge(schedule, updates, count);
  }
  region_free(&region);
  return status;
}
