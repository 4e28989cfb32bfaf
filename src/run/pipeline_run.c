#include "run/pipeline_run.h"

#include <string.h>

#include "run/executor_whole.h"
#include "run/pipeline_prepare.h"
#include "session/session_graphs.h"
#include "session/session_memory.h"
#include "session/session_ranks.h"
#include "session/session_run.h"

/* Returns the index in the step of the pipeline's micro-batch: pipelines take them in turns. */
static int32_t micro_batch_of_step(const struct neap_session *s, int32_t own) {
  return s->batch != NULL ? own * session_batch_ranks(s) + s->batch->collective->rank : own;
}
/* ---- Places ---- */

static neap_status bind(struct neap_session *s) {
  struct pipeline *p = s->pipeline;
  const int32_t first = (int32_t)s->main->graph->tensors.count - p->own_count;
  uint64_t *places = region_alloc(&p->region, (size_t)p->own_count + 1, sizeof *places);
  p->windows.offset = region_alloc(&p->region, (size_t)p->own_count + 1, sizeof *places);
  RETURN_IF(!places || !p->windows.offset, NEAP_OUT_OF_MEMORY, "pipeline: out of memory");
  for (int32_t i = 0; i < p->own_count; i++) places[i] = p->own[i].place = session_place(s, first + i);
  p->windows.first = places;
  p->windows.count = p->own_count;
  p->windows.begin = p->own_count > 0 ? places[0] : 0;
  if (p->own_count > 0) {
    const struct own_value *last = &p->own[p->own_count - 1];
    p->windows.end = last->place + (uint64_t)last->copies * last->bytes;
  }
  for (int32_t i = 0; i < p->pieces.count; i++) {
    TRY(make_program(s, &p->programs[i]));
    if (i < p->pieces.end[PROGRAM_STEP] && p->own_count > 0) p->programs[i].program.windows = &p->windows;
  }
  const struct neap_graph *graph = p->whole[PROGRAM_STEP]->graph;
  for (int32_t i = p->pieces.end[PROGRAM_STEP]; i-- > 0;)
    if (p->pieces.pieces[i].nodes[graph->tensors.data[graph->loss].producer]) p->loss_part = i;
  return NEAP_OK;
}
/* ---- Sending ---- */

/* A message from a rank to another: neighbouring values in one piece. */
struct message {
  int32_t from, to;
  int32_t first, last; /* values */
};

static bool is_reader(const struct pieces *pieces, const struct piece_value *value, int32_t rank) {
  for (int32_t i = 0; i < pieces->count; i++)
    if (value->readers[i] && pieces->pieces[i].rank == rank) return true;
  return false;
}

/* Returns the place of a value for a micro-batch; on a rank that has it. */
static uint64_t place_of_value(const struct pipeline *p, int32_t value, int32_t micro_batch) {
  const struct own_value *own = &p->own[p->own_of[value]];
  return own->place + (uint64_t)own->slot[micro_batch] * own->bytes;
}

/* Sends at most one message from each rank to each other one, and removes those from the list. Returns
 * NEAP_OK with `*count` 0 when the list is empty. */
static neap_status send_round(struct neap_session *s, struct message *list, int32_t *count,
                              const int32_t *micro_batches) {
  const struct pipeline *p = s->pipeline;
  struct ranks *ranks = s->ranks;
  const int32_t size = p->schedule.ranks, own = pipeline_own_rank(s);
  unsigned char *base;
  int32_t left = 0;
  memset(ranks->pieces, 0, 2 * (size_t)size * sizeof *ranks->pieces);
  uint64_t taken[64] = {0}; /* by sender: the receivers that have a message in this round */
  TRY(device_enter(&s->memory, &base));
  for (int32_t i = 0; i < *count; i++) {
    const struct message m = list[i];
    if ((taken[m.from] >> m.to & 1) != 0) {
      list[left++] = m;
      continue;
    }
    taken[m.from] |= (uint64_t)1 << m.to;
    if (m.from != own && m.to != own) continue;
    uint64_t bytes = 0;
    for (int32_t v = m.first; v <= m.last; v++) bytes += pipeline_value_size(p, &p->pieces.values[v]);
    neap_piece *piece = &ranks->pieces[m.from == own ? m.to : size + m.from];
    *piece = (neap_piece){base + place_of_value(p, m.first, micro_batches[m.from]), bytes};
  }
  const neap_status status = ranks_exchange(ranks);
  device_leave(&s->memory);
  *count = left;
  return status;
}

/* Sends the values that pieces have made: made[rank] is the piece that the rank ran, or -1; for its
 * micro-batch. Where they lie in memory that all ranks reach, waits for all. Every rank makes the call. */
static neap_status send_values(struct neap_session *s, const int32_t *made, const int32_t *micro_batches) {
  struct pipeline *p = s->pipeline;
  if (p->common) return ranks_wait(s->ranks);
  struct message *list =
      malloc(((size_t)p->pieces.value_count * (size_t)p->schedule.ranks + 1) * sizeof *list);
  int32_t count = 0;
  neap_status status = NEAP_OK;
  RETURN_IF_NULL(list);
  for (int32_t to = 0; to < p->schedule.ranks; to++)
    for (int32_t v = 0; v < p->pieces.value_count; v++) {
      const struct piece_value *value = &p->pieces.values[v];
      const int32_t from = value->maker >= 0 ? p->pieces.pieces[value->maker].rank : -1;
      if (from < 0 || from == to || made[from] != value->maker || !is_reader(&p->pieces, value, to)) continue;
      struct message *before = count > 0 ? &list[count - 1] : NULL;
      const bool joins = value->program == PROGRAM_END && before != NULL && before->to == to &&
                         before->from == from && before->last == v - 1;
      if (joins)
        before->last = v;
      else
        list[count++] = (struct message){from, to, v, v};
    }
  while (status == NEAP_OK && count > 0) status = send_round(s, list, &count, micro_batches);
  free(list);
  return status;
}

/* ---- A step ---- */

/* Keeps the inputs of a micro-batch, and its share of the loss. */
static neap_status take(struct neap_session *s, float learning_rate, float share, neap_step_result *result) {
  struct pipeline *p = s->pipeline;
  const struct neap_graph *graph = p->whole[PROGRAM_STEP]->graph;
  const int32_t own_micro_batch = s->micro_batch / session_batch_ranks(s);
  (void)learning_rate; /* `complete` runs it */
  if (result != NULL) *result = (neap_step_result){.gradient_norm = -1};
  p->shares[own_micro_batch] = share;
  if (p->common && pipeline_own_rank(s) > 0) return NEAP_OK; /* all reach what the first one keeps */
  for (int32_t i = 0; i < p->own_count; i++) {
    const struct piece_value *value = &p->pieces.values[p->own[i].value];
    if (value->maker >= 0) continue;
    const void *data = neap_session_input(s, graph->tensors.data[value->tensor].name);
    RETURN_IF(data == NULL, NEAP_INTERNAL, "pipeline: input '%s' has no memory",
              graph->tensors.data[value->tensor].name);
    TRY(device_write(&s->memory, place_of_value(p, p->own[i].value, own_micro_batch), data, p->own[i].bytes));
  }
  return NEAP_OK;
}

static neap_status run_task(struct neap_session *s, struct pipeline_task task, float rate) {
  struct pipeline *p = s->pipeline;
  for (int32_t i = 0; i < p->own_count; i++)
    p->windows.offset[i] = p->pieces.values[p->own[i].value].program == PROGRAM_STEP
                               ? (uint64_t)p->own[i].slot[task.micro_batch] * p->own[i].bytes
                               : 0;
  return session_run(s, &p->programs[task.part], PROGRAM_STEP,
                     (struct run_numbers){.micro_batch = micro_batch_of_step(s, task.micro_batch),
                                          .learning_rate = rate,
                                          .share = p->shares[task.micro_batch]},
                     task.part == p->loss_part ? &p->results[task.micro_batch] : NULL);
}

static neap_status run_tick(struct neap_session *s, const struct tick *tick, int32_t parts, float rate) {
  struct pipeline *p = s->pipeline;
  int32_t made[64], micro_batches[64];
  for (int32_t r = 0; r < p->schedule.ranks; r++) {
    const struct pipeline_task task = tick->tasks[r];
    const bool runs = task.part >= 0 && task.micro_batch < parts;
    made[r] = runs ? task.part : -1;
    micro_batches[r] = runs ? task.micro_batch : 0;
  }
  const int own = pipeline_own_rank(s);
  if (made[own] >= 0) TRY(run_task(s, tick->tasks[own], rate));
  /* A message is found at its sender's micro-batch, on both sides. */
  return send_values(s, made, micro_batches);
}

/* Runs the own piece of each phase of a program that has one a rank, and sends what they made. */
static neap_status run_phases(struct neap_session *s, enum program_kind kind, float rate) {
  struct pipeline *p = s->pipeline;
  const int32_t ranks = p->schedule.ranks;
  static const int32_t none[64] = {0};
  for (int32_t first = p->pieces.begin[kind]; first < p->pieces.end[kind]; first += ranks) {
    int32_t made[64];
    for (int32_t r = 0; r < ranks; r++) made[r] = first + r;
    TRY(session_run(s, &p->programs[first + pipeline_own_rank(s)], kind,
                    (struct run_numbers){.learning_rate = rate, .share = 1}, NULL));
    TRY(send_values(s, made, none));
  }
  return NEAP_OK;
}

/* Gives every rank the results of all micro-batches, of which the ranks that made the loss have some. */
static neap_status gather_results(struct neap_session *s, int32_t parts) {
  struct pipeline *p = s->pipeline;
  for (int32_t first = 0, end; first < parts; first = end) {
    const int32_t rank = pipeline_rank_of_task(&p->schedule, (struct pipeline_task){p->loss_part, first});
    for (end = first + 1; end < parts; end++)
      if (pipeline_rank_of_task(&p->schedule, (struct pipeline_task){p->loss_part, end}) != rank) break;
    TRY(collective_broadcast(s->ranks->collective, rank, &p->results[first],
                             (uint64_t)(end - first) * sizeof *p->results));
  }
  return NEAP_OK;
}

/* Runs all micro-batches that were taken. `*result`: that of the last. */
static neap_status complete(struct neap_session *s, float rate, neap_step_result *result) {
  struct pipeline *p = s->pipeline;
  const int32_t parts = s->micro_batch / session_batch_ranks(s);
  if (p->common) TRY(ranks_wait(s->ranks)); /* what was written before the step is there */
  TRY(run_phases(s, PROGRAM_BEGIN, rate));
  for (int32_t t = 0; t < p->tick_count; t++) TRY(run_tick(s, &p->ticks[t], parts, rate));
  TRY(gather_results(s, parts));
  if (result != NULL) *result = p->results[parts - 1];
  return NEAP_OK;
}

/* Returns the resident of the session that is tensor `id` of the step: both have them in one order. */
static int32_t resident_of(const struct neap_graph *graph, int32_t id) {
  int32_t before = 0;
  for (int32_t t = 0; t < id; t++)
    before += graph->tensors.data[t].role != NEAP_ROLE_VALUE && graph->tensors.data[t].view_of < 0;
  return before;
}

/* Gives ranks that read a weight of another rank its new values. */
static neap_status renew_weights(struct neap_session *s) {
  const struct pipeline *p = s->pipeline;
  const struct neap_graph *graph = p->whole[PROGRAM_STEP]->graph;
  const int32_t size = p->schedule.ranks, own = pipeline_own_rank(s);
  for (int32_t t = 0; t < (int32_t)graph->tensors.count; t++) {
    const int32_t from = p->pieces.owner[t];
    if (from < 0 || graph->tensors.data[t].frozen || p->pieces.present[t] == (uint64_t)1 << from) continue;
    const uint64_t place = session_place(s, resident_of(graph, t)),
                   bytes = tensor_bytes(p->whole[PROGRAM_STEP], t);
    unsigned char *base;
    memset(s->ranks->pieces, 0, 2 * (size_t)size * sizeof *s->ranks->pieces);
    TRY(device_enter(&s->memory, &base));
    for (int32_t r = 0; r < size; r++)
      if (r != from && (p->pieces.present[t] >> r & 1) != 0) {
        if (own == from) s->ranks->pieces[r] = (neap_piece){base + place, bytes};
        if (own == r) s->ranks->pieces[size + from] = (neap_piece){base + place, bytes};
      }
    const neap_status status = ranks_exchange(s->ranks);
    device_leave(&s->memory);
    TRY(status);
  }
  return NEAP_OK;
}

static neap_status end(struct neap_session *s, float rate, float share) {
  (void)share;
  TRY(run_phases(s, PROGRAM_END, rate));
  return s->pipeline->common ? NEAP_OK : renew_weights(s);
}

/* Evaluates; every rank gets the result. */
static neap_status evaluate(struct neap_session *s, neap_step_result *result) {
  struct pipeline *p = s->pipeline;
  static const int32_t none[64] = {0};
  const struct neap_graph *graph = p->whole[PROGRAM_EVALUATE]->graph;
  const struct traffic of_steps = s->ranks->traffic;
  neap_step_result own = {0};
  int root = 0;
  if (p->common) TRY(ranks_wait(s->ranks));
  for (int32_t i = p->pieces.begin[PROGRAM_EVALUATE]; i < p->pieces.end[PROGRAM_EVALUATE]; i++) {
    int32_t made[64];
    const int32_t rank = p->pieces.pieces[i].rank;
    for (int32_t r = 0; r < p->schedule.ranks; r++) made[r] = r == rank ? i : -1;
    const bool last = p->pieces.pieces[i].nodes[graph->tensors.data[graph->loss].producer];
    if (last) root = rank;
    if (rank == pipeline_own_rank(s))
      TRY(session_run(s, &p->programs[i], PROGRAM_EVALUATE, (struct run_numbers){.share = 1},
                      last ? &own : NULL));
    TRY(send_values(s, made, none));
  }
  s->ranks->traffic = of_steps; /* an evaluation belongs to no step */
  TRY(collective_broadcast(s->ranks->collective, root, &own, sizeof own));
  if (result != NULL) *result = own;
  return NEAP_OK;
}

const neap_step_result *session_part_results(const struct neap_session *s) {
  return s->pipeline != NULL ? s->pipeline->results : NULL;
}

/* ---- The executor ---- */

static neap_status plan(struct neap_session *s, const struct neap_graph *graph, uint64_t reserve,
                        uint64_t *smallest) {
  TRY(check_session_options(&s->options));
  TRY(pipeline_plan(s, graph, reserve, smallest));
  return session_list_outputs(s, graph);
}

const struct executor pipeline_executor = {
    .name = "pipeline",
    .plan = plan,
    .bind = bind,
    .take = take,
    .complete = complete,
    .end = end,
    .evaluate = evaluate,
    .nodes = pipeline_node_count,
    .value_bytes = pipeline_value_bytes,
    .free = session_pipeline_free,
    .in_parts = true,
    .one_shape = "`pipeline`: all micro-batches must have one size and one length; give `drop-last` on, or "
                 "`length`",
    .no_outputs = "the ranks of a pipeline give the loss alone; predict with one process"};
