/* Creates sessions and frees them. */
#include <string.h>

#include "base/available_memory.h"
#include "base/memory_status.h"
#include "kernel/ranks.h"
#include "program/spilled_variables.h"
#include "run/executor_parts.h"
#include "run/executor_whole.h"
#include "run/pipeline_run.h"
#include "session/choose.h"
#include "session/drop_step.h"
#include "session/session_memory.h"
#include "session/session_ranks.h"
#include "session/session_run.h"
#include "weights/averages.h"
#include "weights/variables.h"

/* Returns the executor of a graph with such options. */
static const struct executor *executor_of(const struct neap_graph *graph,
                                          const struct neap_session_options *options) {
  return is_pipeline(options) ? &pipeline_executor : has_parts(graph) ? &parts_executor : &whole_executor;
}

void neap_session_free(neap_session *s) {
  if (s == NULL) return;
  transfer_free(s->transfer);
  lane_free(s->gathers);
  session_unmap_memory(s);
  if (s->executor != NULL && s->executor->free != NULL) s->executor->free(s);
  if (s->shapes.count > 0) neap_session_select(s, 0);
  for (size_t i = 1; i < s->shapes.count; i++) {
    session_program_free(&s->shapes.data[i].step);
    session_program_free(&s->shapes.data[i].evaluation);
  }
  vector_free(&s->shapes);
  for (int kind = PROGRAM_COUNT; kind-- > 0;) /* the main one, which owns the backend's state, last */
    session_program_free(&s->programs[kind]);
  lowered_free(s->whole);
  if (s->replicas.close != NULL) s->replicas.close(s->replicas.self);
  if (s->stages.close != NULL) s->stages.close(s->stages.self);
  region_free(&s->region);
  free(s);
}

/* Returns the bytes that reading variables as f32 takes beside the arena, where not all are in memory: the
 * largest, if it does not fit there, all shares of the largest that is in shares, and the largest on disk
 * that is read as a whole, in its format. */
static uint64_t reading_bytes(const struct neap_session *s) {
  const struct neap_graph *graph = s->main->graph;
  uint64_t largest = 0, shared = 0;
  for (size_t t = 0; (s->ranks != NULL || s->options.disk != NULL) && t < graph->tensors.count; t++) {
    const struct tensor *tensor = &graph->tensors.data[t];
    const bool variable = tensor->role == NEAP_ROLE_PARAMETER || tensor->role == NEAP_ROLE_STATE;
    if (!variable || tensor->view_of >= 0 || tensor->sum || tensor->on_disk) continue;
    const int64_t piece = session_piece(s, (int32_t)t);
    const uint64_t bytes = (uint64_t)(piece > 0 ? piece : tensor->elements) * sizeof(float);
    largest = bytes > largest ? bytes : largest;
    if (tensor->shares > 1 && bytes > shared) shared = bytes;
  }
  return (largest > s->plan->arena_bytes ? largest : 0) + shared + spilled_whole_bytes(s->main);
}

static uint64_t growth_of(const struct neap_session *s) {
  uint64_t nodes = s->executor->nodes != NULL ? s->executor->nodes(s) : 0;
  for (int k = 0; k < PROGRAM_COUNT; k++)
    if (s->programs[k].lowered != NULL) nodes += s->programs[k].lowered->graph->nodes.count;
  static const uint64_t of_rank = 1 << 20; /* what it sends lies in memory that all have */
  const uint64_t ranks = s->ranks != NULL ? (uint64_t)s->options.collective->size : 0;
  return process_growth(nodes, on_disk_of(&s->options)) + ranks * of_rank + reading_bytes(s);
}

/* Returns by how much the process would exceed its budget, before the memory is mapped. */
static uint64_t beyond_process(struct neap_session *s) {
  memory_status_trim(); /* what planning took is no part of what training takes */
  const struct memory_status status = memory_status_read();
  const uint64_t whole = s->options.process_budget, needed = status.resident_bytes + s->plan->resident_bytes +
                                                             s->plan->arena_bytes - session_others_bytes(s) +
                                                             growth_of(s);
  s->planning_peak = status.peak_resident_bytes;
  s->resident_before = status.resident_bytes;
  return whole > 0 && needed > whole ? needed - whole : 0;
}

/* Connects the processes: all with all, or those of a pipeline, and those of a stage in several pipelines. */
static neap_status connect_ranks(struct neap_session *s) {
  const struct neap_collective *all = s->options.collective;
  const int stages = s->options.pipeline, replicas = batch_ranks_of(&s->options);
  const bool parts = is_pipeline(&s->options) && replicas > 1;
  if (parts) {
    TRY(collective_part(all, all->rank % replicas, replicas, stages, &s->stages));
    TRY(collective_part(all, all->rank / replicas * replicas, 1, replicas, &s->replicas));
    TRY(ranks_open(&s->replicas, &s->region, &s->batch));
  }
  TRY(ranks_open(parts ? &s->stages : all, &s->region, &s->ranks));
  if (!is_pipeline(&s->options)) s->batch = s->ranks;
  return NEAP_OK;
}

static neap_status create(struct neap_session *s, const neap_graph *graph, uint64_t reserve,
                          uint64_t *smallest, uint64_t *beyond) {
  s->ran = PROGRAM_COUNT;
  s->loss_scale = loss_scale_of(&s->options);
  const bool together = s->options.collective != NULL && s->options.collective->size > 1;
  if (together) TRY(connect_ranks(s));
  if (shards_all(&s->options)) TRY(collective_share_status(s->options.collective, lane_create(&s->gathers)));
  s->executor = executor_of(graph, &s->options);
  TRY(s->executor->plan(s, graph, reserve, smallest));
  *beyond = beyond_process(s);
  if (together) TRY(ranks_most(s->options.collective, beyond)); /* then all plan again */
  if (*beyond > 0) return NEAP_OVER_BUDGET;
  TRY(session_map_memory(s));
  TRY(s->executor->bind(s));
  TRY(list_variables(s));
  TRY(averages_find(s));
  TRY(drop_step_prepare(s));
  return initialise_variables(s);
}

neap_status neap_session_create(const neap_graph *graph, const neap_session_options *options,
                                uint64_t *smallest, neap_session **session) {
  NEED(session);
  enum {
    ATTEMPTS = 3,
    MOST_ATTEMPTS = 8
  }; /* within a budget for the process; more while each misses by less */
  RETURN_IF(graph == NULL || options == NULL, NEAP_INVALID_ARGUMENT,
            "neap_session_create: options or graph is NULL");
  uint64_t reserve = PROCESS_RESERVE, beyond = UINT64_MAX, before = UINT64_MAX;
  TRY(check_ranks(options));
  if (options->disk != NULL && !predicts_only(graph, options)) TRY(spill_file_check_folder(options->disk));
  for (int i = 0; i < MOST_ATTEMPTS && (i < ATTEMPTS || beyond < before); i++) {
    struct neap_session *s = calloc(1, sizeof *s);
    RETURN_IF_NULL(s);
    s->options = *options;
    before = beyond;
    beyond = 0;
    neap_status status = available_memory_settle(&s->options, NULL);
    if (status == NEAP_OK) status = create(s, graph, reserve, smallest, &beyond);
    if (status == NEAP_OK) {
      *session = s;
      return NEAP_OK;
    }
    neap_session_free(s);
    if (beyond == 0) return status;
    reserve += beyond + PROCESS_RETRY_MARGIN;
  }
  if (smallest != NULL) *smallest = options->process_budget + beyond + PROCESS_RUN_MARGIN;
  return neap_fail(NEAP_OVER_BUDGET, "the process would take %llu bytes more than its budget of %llu",
                   (unsigned long long)beyond, (unsigned long long)options->process_budget);
}
