#include "run/pipeline_pieces.h"

#include <string.h>

/* ---- The parts of a step ---- */

struct dividing {
  struct pieces *p;
  const struct chain *chain;
  const struct pipeline_schedule *schedule;
};

static bool is_in(const struct dividing *d, const struct pipeline_part *part, int32_t node) {
  const int32_t block = d->chain->stage_of[node];
  return block >= part->begin && block < part->end;
}

static bool is_forward(const struct dividing *d, int32_t node) { return node < d->chain->cuts.border; }

/* Adds the forward nodes of a part that make again what a node of it reads. A node that runs once keeps what
 * it makes instead. */
static void add_makers(const struct dividing *d, const struct pipeline_part *part, bool *nodes,
                       int32_t reader) {
  const struct lowered *whole = d->p->whole[PROGRAM_STEP];
  const struct node *node = &whole->graph->nodes.data[reader];
  for (int32_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] == NO_TENSOR) continue;
    const int32_t maker = whole->graph->tensors.data[graph_storage(whole->graph, node->inputs[i])].producer;
    if (maker < 0 || nodes[maker] || !is_forward(d, maker) || !is_in(d, part, maker) ||
        !whole->step->nodes[maker].repeatable)
      continue;
    nodes[maker] = true;
    add_makers(d, part, nodes, maker);
  }
}

static void take_nodes(const struct dividing *d, const struct pipeline_part *part, bool *nodes) {
  const int32_t count = d->p->whole[PROGRAM_STEP]->step->node_count;
  for (int32_t v = 0; v < count; v++)
    nodes[v] = is_in(d, part, v) &&
               (is_forward(d, v) ? part->pass != PIPELINE_BACKWARD : part->pass != PIPELINE_FORWARD);
  for (int32_t v = count; part->recompute && v-- > 0;)
    if (nodes[v] && !is_forward(d, v)) add_makers(d, part, nodes, v);
}

/* Returns true if a piece reads what a node makes, and does not make it itself. */
static bool reads_from(const struct neap_graph *graph, const struct piece *piece, const int32_t *start,
                       const int32_t *readers, int32_t node) {
  const struct node *maker = &graph->nodes.data[node];
  if (piece->nodes[node]) return false;
  for (int32_t o = 0; o < maker->output_count; o++)
    for (int32_t r = start[maker->outputs[o]]; r < start[maker->outputs[o] + 1]; r++)
      if (piece->nodes[readers[r]]) return true;
  return false;
}

static bool is_result(const struct neap_graph *graph, const struct node *node) {
  for (int32_t o = 0; o < node->output_count; o++)
    if (node->outputs[o] == graph->loss || node->outputs[o] == graph->correct) return true;
  return node->update_count > 0;
}

/* Leaves out forward nodes whose results nobody reads: those that a backward part makes for itself alone. */
static void prune(struct pieces *p, int32_t part, const int32_t *start, const int32_t *readers) {
  const struct neap_graph *graph = p->whole[PROGRAM_STEP]->graph;
  struct piece *piece = &p->pieces[part];
  for (int32_t v = (int32_t)graph->nodes.count; v-- > 0;) {
    if (!piece->nodes[v]) continue;
    const struct node *node = &graph->nodes.data[v];
    bool wanted = is_result(graph, node);
    for (int32_t j = part + 1; !wanted && j < p->end[PROGRAM_STEP]; j++)
      wanted = reads_from(graph, &p->pieces[j], start, readers, v);
    for (int32_t o = 0; !wanted && o < node->output_count; o++)
      for (int32_t r = start[node->outputs[o]]; r < start[node->outputs[o] + 1]; r++)
        wanted = wanted || piece->nodes[readers[r]];
    piece->nodes[v] = wanted;
  }
}

static neap_status add_piece(struct pieces *p, enum program_kind program, int32_t rank, bool **nodes) {
  struct piece *piece = &p->pieces[p->count++];
  *piece = (struct piece){rank, region_alloc(&p->region, p->whole[program]->graph->nodes.count + 1, 1)};
  RETURN_IF_NULL(piece->nodes);
  p->end[program] = p->count;
  *nodes = piece->nodes;
  return NEAP_OK;
}

int32_t pipeline_rank_of_task(const struct pipeline_schedule *c, struct pipeline_task task) {
  for (int32_t r = 0; r < c->ranks; r++)
    for (int32_t i = c->task_start[r]; i < c->task_start[r + 1]; i++)
      if (c->tasks[i].part == task.part && c->tasks[i].micro_batch == task.micro_batch) return r;
  return -1;
}

int32_t pipeline_rank_of_part(const struct pipeline_schedule *c, int32_t part) {
  return pipeline_rank_of_task(c, (struct pipeline_task){part, 0});
}

bool pipeline_runs_part(const struct pipeline_schedule *c, int32_t rank, int32_t part) {
  for (int32_t i = c->task_start[rank]; i < c->task_start[rank + 1]; i++)
    if (c->tasks[i].part == part) return true;
  return false;
}

static neap_status divide_step(const struct dividing *d) {
  struct pieces *p = d->p;
  const int32_t *start, *readers;
  TRY(graph_readers(p->whole[PROGRAM_STEP]->graph, &p->region, &start, &readers));
  for (int32_t i = 0; i < d->schedule->part_count; i++) {
    bool *nodes;
    TRY(add_piece(p, PROGRAM_STEP, pipeline_rank_of_part(d->schedule, i), &nodes));
    take_nodes(d, &d->schedule->parts[i], nodes);
  }
  for (int32_t i = d->schedule->part_count; i-- > 0;)
    if (d->schedule->parts[i].pass == PIPELINE_FORWARD) prune(p, i, start, readers);
  return NEAP_OK;
}

/* ---- Variables ---- */

static bool is_variable(const struct tensor *t) {
  return (t->role == NEAP_ROLE_PARAMETER || t->role == NEAP_ROLE_STATE) && t->view_of < 0;
}

/* Marks the variables that the step's pieces read or change. One that changes belongs to the rank that does
 * it; one that does not to the first that reads it. */
static void place_used(struct pieces *p) {
  const struct neap_graph *graph = p->whole[PROGRAM_STEP]->graph;
  for (int32_t i = 0; i < p->end[PROGRAM_STEP]; i++)
    for (size_t v = 0; v < graph->nodes.count; v++) {
      const struct node *node = &graph->nodes.data[v];
      if (!p->pieces[i].nodes[v]) continue;
      for (int32_t k = 0; k < node->input_count; k++) {
        const int32_t t = node->inputs[k] == NO_TENSOR ? NO_TENSOR : graph_storage(graph, node->inputs[k]);
        if (t == NO_TENSOR || !is_variable(&graph->tensors.data[t])) continue;
        p->present[t] |= (uint64_t)1 << p->pieces[i].rank;
        if (p->owner[t] < 0) p->owner[t] = p->pieces[i].rank;
      }
      for (int32_t k = 0; k < node->update_count; k++)
        p->owner[graph_storage(graph, node->updates[k])] = p->pieces[i].rank;
    }
}

/* Returns the rank that changes a state of the parameter in the step; -1: none. */
static int32_t updating_rank(const struct pieces *p, const char *parameter) {
  const struct neap_graph *graph = p->whole[PROGRAM_STEP]->graph;
  for (size_t v = 0; v < graph->nodes.count; v++)
    for (int32_t k = 0; k < graph->nodes.data[v].update_count; k++) {
      const int32_t t = graph_storage(graph, graph->nodes.data[v].updates[k]);
      const struct tensor *state = &graph->tensors.data[t];
      if (state->state_of != NULL && strcmp(state->state_of, parameter) == 0) return p->owner[t];
    }
  return -1;
}

/* Gives a parameter and all of its states to one rank. */
static void place_variables(struct pieces *p) {
  const struct neap_graph *graph = p->whole[PROGRAM_STEP]->graph;
  place_used(p);
  for (size_t t = 0; t < graph->tensors.count; t++) {
    const struct tensor *tensor = &graph->tensors.data[t];
    if (!is_variable(tensor) || tensor->role != NEAP_ROLE_PARAMETER) continue;
    const int32_t rank = updating_rank(p, tensor->name);
    if (rank >= 0) p->owner[t] = rank;
    if (p->owner[t] < 0) p->owner[t] = 0;
    for (size_t s = 0; s < graph->tensors.count; s++) {
      const struct tensor *state = &graph->tensors.data[s];
      if (is_variable(state) && state->state_of != NULL && strcmp(state->state_of, tensor->name) == 0)
        p->owner[s] = p->owner[t];
    }
  }
  for (size_t t = 0; t < graph->tensors.count; t++) {
    if (!is_variable(&graph->tensors.data[t])) continue;
    if (p->owner[t] < 0) p->owner[t] = 0;
    p->present[t] |= p->common ? UINT64_MAX : (uint64_t)1 << p->owner[t];
  }
}

int32_t pipeline_variable(const struct pieces *p, enum program_kind program, int32_t id) {
  const struct neap_graph *from = p->whole[program]->graph, *step = p->whole[PROGRAM_STEP]->graph;
  const struct tensor *tensor = &from->tensors.data[graph_storage(from, id)];
  if (!is_variable(tensor)) return -1;
  for (int32_t t = 0; t < (int32_t)step->tensors.count; t++)
    if (is_variable(&step->tensors.data[t]) && strcmp(step->tensors.data[t].name, tensor->name) == 0)
      return t;
  return -1;
}

/* ---- Before and after the micro-batches ---- */

enum { EVERYWHERE = -1 };

/* Returns the rank that has a node's variables: of those that it changes, else of its first; EVERYWHERE: it
 * has none. */
static int32_t rank_of_node(const struct pieces *p, enum program_kind program, const struct node *node) {
  for (int32_t i = 0; i < node->update_count; i++) {
    const int32_t t = pipeline_variable(p, program, node->updates[i]);
    if (t >= 0) return p->owner[t];
  }
  for (int32_t i = 0; i < node->input_count; i++) {
    const int32_t t = node->inputs[i] == NO_TENSOR ? -1 : pipeline_variable(p, program, node->inputs[i]);
    if (t >= 0) return p->owner[t];
  }
  return EVERYWHERE;
}

/* Divides a program over variables: first the nodes that need those of their rank alone, then those that need
 * what all ranks made. Nodes without variables run on every rank. */
static neap_status divide_update(struct pieces *p, enum program_kind program) {
  const struct neap_graph *graph = p->whole[program]->graph;
  const size_t nodes = graph->nodes.count;
  int32_t *rank = region_alloc(&p->region, nodes + 1, sizeof *rank);
  bool *later = region_alloc(&p->region, nodes + 1, sizeof *later);
  RETURN_IF(!rank || !later, NEAP_OUT_OF_MEMORY, "pipeline: out of memory");
  for (size_t v = 0; v < nodes; v++) {
    const struct node *node = &graph->nodes.data[v];
    rank[v] = rank_of_node(p, program, node);
    later[v] = rank[v] == EVERYWHERE;
    for (int32_t i = 0; i < node->input_count; i++) {
      const int32_t maker = node->inputs[i] == NO_TENSOR
                                ? -1
                                : graph->tensors.data[graph_storage(graph, node->inputs[i])].producer;
      later[v] = later[v] || (maker >= 0 && later[maker]);
    }
  }
  p->begin[program] = p->count;
  for (int phase = 0; phase < 2; phase++)
    for (int32_t r = 0; r < p->ranks; r++) {
      bool *taken;
      TRY(add_piece(p, program, r, &taken));
      for (size_t v = 0; v < nodes; v++)
        taken[v] = later[v] == (phase == 1) && (rank[v] == r || rank[v] == EVERYWHERE);
    }
  return NEAP_OK;
}

/* ---- Evaluation ---- */

/* Returns the first forward part from `part` on whose rank has a variable; -1: none. */
static int32_t part_with(const struct pieces *p, int32_t parts, int32_t part, int32_t variable) {
  while (part < parts && (p->present[variable] >> p->pieces[part].rank & 1) == 0) part++;
  return part < parts ? part : -1;
}

/* A node is evaluated in the first part that is not before its inputs' and whose rank has its variables. */
static neap_status divide_evaluation(struct pieces *p, const struct pipeline_schedule *c) {
  const struct neap_graph *graph = p->whole[PROGRAM_EVALUATE]->graph;
  int32_t parts = 0;
  while (parts < c->part_count && c->parts[parts].pass != PIPELINE_BACKWARD) parts++;
  p->begin[PROGRAM_EVALUATE] = p->count;
  for (int32_t i = 0; i < parts; i++) {
    bool *unused;
    TRY(add_piece(p, PROGRAM_EVALUATE, p->pieces[i].rank, &unused));
  }
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    int32_t part = 0;
    for (int32_t i = 0; i < node->input_count; i++) {
      const int32_t maker = node->inputs[i] == NO_TENSOR
                                ? -1
                                : graph->tensors.data[graph_storage(graph, node->inputs[i])].producer;
      for (int32_t k = 0; maker >= 0 && k < parts; k++)
        if (p->pieces[p->begin[PROGRAM_EVALUATE] + k].nodes[maker] && k > part) part = k;
    }
    for (int32_t i = 0; i < node->input_count && part >= 0; i++) {
      const int32_t t =
          node->inputs[i] == NO_TENSOR ? -1 : pipeline_variable(p, PROGRAM_EVALUATE, node->inputs[i]);
      if (t >= 0) part = part_with(p, parts, part, t);
    }
    RETURN_IF(part < 0, NEAP_UNSUPPORTED,
              "pipeline: '%s' evaluates weights that no later part has; give another number of stages",
              node->name);
    p->pieces[p->begin[PROGRAM_EVALUATE] + part].nodes[v] = true;
  }
  return NEAP_OK;
}

/* ---- Values between pieces ---- */

static bool piece_reads(const struct neap_graph *graph, const struct piece *piece, const int32_t *start,
                        const int32_t *readers, int32_t tensor) {
  (void)graph;
  for (int32_t r = start[tensor]; r < start[tensor + 1]; r++)
    if (piece->nodes[readers[r]]) return true;
  return false;
}

/* Finds the values of a program, in the order of tensors. */
static neap_status find_values(struct pieces *p, enum program_kind program) {
  const struct neap_graph *graph = p->whole[program]->graph;
  const int32_t *start, *readers;
  TRY(graph_readers(graph, &p->region, &start, &readers));
  for (int32_t t = 0; t < (int32_t)graph->tensors.count; t++) {
    const struct tensor *tensor = &graph->tensors.data[t];
    const bool input = tensor->role == NEAP_ROLE_INPUT && program == PROGRAM_STEP;
    struct piece_value *value = &p->values[p->value_count];
    if (tensor->view_of >= 0 || (!input && tensor->role != NEAP_ROLE_VALUE)) continue;
    *value = (struct piece_value){program, t, -1,
                                  region_alloc(&p->region, (size_t)p->count, sizeof *value->readers)};
    RETURN_IF_NULL(value->readers);
    bool read = false;
    for (int32_t i = p->begin[program]; i < p->end[program]; i++) {
      const bool makes = tensor->producer >= 0 && p->pieces[i].nodes[tensor->producer];
      if (makes && value->maker < 0) value->maker = i;
      value->readers[i] = !makes && piece_reads(graph, &p->pieces[i], start, readers, t);
      read = read || value->readers[i];
    }
    p->value_count += read;
  }
  return NEAP_OK;
}

/* ---- All of it ---- */

void pipeline_pieces_free(struct pieces *p) {
  region_free(&p->region);
  *p = (struct pieces){0};
}

static neap_status divide_all(struct pieces *p, const struct dividing *d) {
  TRY(divide_step(d));
  place_variables(p);
  if (p->whole[PROGRAM_BEGIN] != NULL) TRY(divide_update(p, PROGRAM_BEGIN));
  if (p->whole[PROGRAM_END] != NULL) TRY(divide_update(p, PROGRAM_END));
  TRY(divide_evaluation(p, d->schedule));
  for (int program = 0; program < PROGRAM_COUNT; program++)
    if (p->whole[program] != NULL) TRY(find_values(p, (enum program_kind)program));
  return NEAP_OK;
}

neap_status pipeline_pieces_make(const struct lowered *const *whole, const struct chain *chain,
                                 const struct pipeline_schedule *schedule, bool common, struct pieces *out) {
  *out = (struct pieces){.ranks = schedule->ranks, .common = common};
  const struct dividing d = {out, chain, schedule};
  const size_t tensors = whole[PROGRAM_STEP]->graph->tensors.count,
               most = 2 * (size_t)schedule->part_count + 4 * (size_t)schedule->ranks;
  size_t values = 0;
  for (int program = 0; program < PROGRAM_COUNT; program++) {
    out->whole[program] = whole[program];
    values += whole[program] != NULL ? whole[program]->graph->tensors.count : 0;
  }
  out->pieces = region_alloc(&out->region, most, sizeof *out->pieces);
  out->values = region_alloc(&out->region, values + 1, sizeof *out->values);
  out->owner = region_alloc(&out->region, tensors + 1, sizeof *out->owner);
  out->present = region_alloc(&out->region, tensors + 1, sizeof *out->present);
  RETURN_IF(!out->pieces || !out->values || !out->owner || !out->present, NEAP_OUT_OF_MEMORY,
            "pipeline: out of memory");
  for (size_t t = 0; t < tensors; t++) out->owner[t] = -1;
  return divide_all(out, &d);
}

/* ---- Ticks ---- */

/* Fills a tick with the tasks that may run now. Returns how many these are. */
static int32_t fill_tick(const struct pipeline_schedule *c, int32_t *next, const int32_t *reached,
                         struct tick *tick) {
  int32_t count = 0;
  for (int32_t r = 0; r < c->ranks; r++) {
    tick->tasks[r] = (struct pipeline_task){-1, -1};
    if (next[r] == c->task_start[r + 1]) continue;
    const struct pipeline_task task = c->tasks[next[r]];
    if (reached[task.micro_batch] != task.part) continue;
    if (task.micro_batch > 0 && reached[task.micro_batch - 1] <= task.part) continue; /* sums are in order */
    tick->tasks[r] = task;
    next[r]++;
    count++;
  }
  return count;
}

neap_status ticks_make(const struct pipeline_schedule *c, struct region *region, struct tick **ticks,
                       int32_t *count) {
  const size_t tasks = (size_t)c->part_count * (size_t)c->micro_batches;
  int32_t *next = region_copy(region, c->task_start, (size_t)c->ranks, sizeof *next),
          *reached = region_alloc(region, (size_t)c->micro_batches, sizeof *reached);
  size_t done = 0;
  *count = 0;
  *ticks = region_alloc(region, tasks + 1, sizeof **ticks);
  RETURN_IF(!next || !reached || !*ticks, NEAP_OUT_OF_MEMORY, "pipeline: out of memory");
  while (done < tasks) {
    struct tick *tick = &(*ticks)[(*count)++];
    tick->tasks = region_alloc(region, (size_t)c->ranks, sizeof *tick->tasks);
    RETURN_IF_NULL(tick->tasks);
    const int32_t ran = fill_tick(c, next, reached, tick);
    RETURN_IF(ran == 0, NEAP_INVALID_PLAN, "pipeline: ranks wait for each other");
    for (int32_t r = 0; r < c->ranks; r++)
      if (tick->tasks[r].part >= 0) reached[tick->tasks[r].micro_batch]++;
    done += (size_t)ran;
  }
  return NEAP_OK;
}
