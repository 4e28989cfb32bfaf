#include "session/session_run.h"

#include <math.h>
#include <string.h>

#include "rewrite/rewrite.h"
#include "session/choose.h"
#include "session/drop_step.h"

neap_status lower_evaluation(const struct neap_graph *graph, const struct neap_session_options *options,
                             const struct lowered *training, int64_t outputs, struct lowered **out) {
  struct lower_options lowering = lower_options_of(options);
  struct neap_graph *forward = NULL, *pruned = NULL, *evaluation = NULL, *bringing = NULL;
  lowering.outputs = outputs;
  TRY(make_forward_graph(graph, options, &forward));
  neap_status status = rewrite_prune(forward, outputs, &pruned);
  if (status == NEAP_OK) status = rewrite_evaluation(pruned, true, &evaluation);
  if (status == NEAP_OK && shards_all(options)) status = rewrite_gather(evaluation, &bringing);
  if (status == NEAP_OK && options->disk != NULL) {
    graph_spill_like(evaluation, training->graph);
    status = rewrite_load(evaluation, &bringing);
  }
  if (status == NEAP_OK)
    status = lower(bringing != NULL ? bringing : evaluation, backend_of(options), &lowering, training, out);
  neap_graph_free(bringing);
  neap_graph_free(evaluation);
  neap_graph_free(pruned);
  neap_graph_free(forward);
  return status;
}

/* Finds the places of a program's resident tensors: those of their namesakes in the main one, in the same
 * order. */
static neap_status find_residents(struct neap_session *s, const struct neap_step *step, uint64_t **out) {
  const struct neap_step *all = s->main->step;
  uint64_t *place = region_alloc(&s->region, (size_t)step->tensor_count, sizeof *place);
  RETURN_IF_NULL(place);
  for (int32_t t = 0, mine = 0; t < step->tensor_count; t++) {
    place[t] = NOWHERE;
    if (step->tensors[t].role == NEAP_ROLE_VALUE) continue;
    while (mine < all->tensor_count && (all->tensors[mine].role == NEAP_ROLE_VALUE ||
                                        strcmp(all->tensors[mine].name, step->tensors[t].name) != 0))
      mine++;
    RETURN_IF(mine == all->tensor_count, NEAP_INTERNAL, "session: '%s' has no memory", step->tensors[t].name);
    place[t] = s->resident[mine++];
  }
  *out = place;
  return NEAP_OK;
}

neap_status make_program(struct neap_session *s, struct session_program *p) {
  uint64_t *residents;
  if (p->lowered == NULL) return NEAP_OK;
  TRY(find_residents(s, p->lowered->step, &residents));
  return program_create(&s->region, p->lowered, p->plan, residents, s->plan->resident_bytes, &p->program);
}

/* ---- Running ---- */

/* Reads a scalar of real numbers from the session's memory. */
static neap_status read_scalar(const struct neap_session *s, uint64_t place, neap_dtype dtype,
                               double *value) {
  double data; /* room for any type */
  TRY(device_read(&s->memory, place, &data, dtype_bytes(dtype, 1)));
  *value = dtype_real(dtype, &data, 0);
  return NEAP_OK;
}

/* Returns the largest gradient of the type: f16 stores cut larger ones to it; other types have infinity. */
static float largest_gradient(const neap_session *s) {
  static const float largest_f16 = 65504;
  return s->options.precision == NEAP_F16 ? largest_f16 : INFINITY;
}

/* Counts the labels that the loss is the mean of; -1: not known. */
static neap_status count_labels(const neap_session *s, const struct program *program, int64_t *counted) {
  enum { PART = 1024 };
  int32_t labels[PART];
  *counted = program->labels != NOWHERE ? 0 : -1;
  for (int64_t first = 0; first < program->label_count; first += PART) {
    const int64_t left = program->label_count - first, count = left < PART ? left : PART;
    TRY(device_read(&s->memory, program_place(program, program->labels) + (uint64_t)first * sizeof *labels,
                    labels, (uint64_t)count * sizeof *labels));
    for (int64_t i = 0; i < count; i++)
      *counted += labels[i] >= 0 && labels[i] < program->classes && labels[i] != program->ignored;
  }
  return NEAP_OK;
}

/* Reads the results of a program with a loss. */
static neap_status read_result(const neap_session *s, const struct program *program,
                               neap_step_result *result) {
  const struct neap_graph *graph = program->lowered->graph;
  int32_t correct = 0;
  *result = (neap_step_result){.gradient_norm = -1};
  TRY(read_scalar(s, program->loss, graph->tensors.data[graph->loss].dtype, &result->loss));
  if (program->correct != NOWHERE) TRY(device_read(&s->memory, program->correct, &correct, sizeof correct));
  result->correct = correct;
  return count_labels(s, program, &result->counted);
}

/* Returns how many have a micro-batch in the round of this rank's; before and after the micro-batches all. */
static int32_t active_ranks(const neap_session *s, enum program_kind kind, int32_t micro_batch) {
  const int32_t all = session_batch_ranks(s),
                left = session_parts(s) - (micro_batch - s->batch->collective->rank);
  return kind == PROGRAM_STEP && left < all ? left : all;
}

/* A row_source's function. Rows in the session's own file lie one behind the other. */
static neap_status read_rows(void *context, const struct tensor *table, int64_t first, int64_t rows,
                             void *to) {
  const struct neap_session *s = context;
  if (!table->spilled) return transfer_read_rows(s->transfer, table, first, rows, to);
  const uint64_t row = dtype_bytes(table->dtype, (uint64_t)table->dims[1]);
  const struct spill *spill = spill_file_io(s->spill_file);
  return spill->read(spill->context, spill_file_find(s->spill_file, table->name), (uint64_t)first * row,
                     (uint64_t)rows * row, to);
}

/* Returns true for the programs that change variables. */
static bool is_of_step(enum program_kind kind) {
  return kind == PROGRAM_BEGIN || kind == PROGRAM_STEP || kind == PROGRAM_END;
}

neap_status session_run(struct neap_session *s, const struct session_program *given, enum program_kind kind,
                        struct run_numbers numbers, neap_step_result *result) {
  const struct program *program = &given->program;
  const struct run_context context = {.seed = s->options.seed,
                                      .step = s->steps,
                                      .learning_rate = numbers.learning_rate,
                                      .micro_batch = numbers.micro_batch,
                                      .ranks = s->batch,
                                      .noise = numbers.noise,
                                      .awaited = s->ranks != NULL,
                                      .micro_batches = s->options.micro_batches,
                                      .parts = session_parts(s),
                                      .loss_share = numbers.share,
                                      .loss_scale = kind == PROGRAM_STEP ? s->loss_scale : 1,
                                      .largest = s->options.dynamic_loss_scale ? largest_gradient(s) : 0,
                                      .overflowed = &s->overflowed,
                                      .rows = {read_rows, s},
                                      .spill = s->spill_file != NULL ? spill_file_io(s->spill_file) : NULL};
  const struct neap_graph *graph = program->lowered->graph;
  s->ran = PROGRAM_COUNT;
  if (context.ranks != NULL) s->batch->active = active_ranks(s, kind, numbers.micro_batch);
  const neap_status ran = program_run(program, &context, &s->memory, s->transfer, s->gathers, &s->measured,
                                      &s->changed, s->may_tear ? CHANGED_VARIABLES : CHANGED_STATISTICS);
  if (ran == NEAP_INTERRUPTED || (ran != NEAP_OK && is_of_step(kind))) drop_step(s);
  TRY(ran);
  s->ran = kind;
  if (ranks_idle(&context)) {
    if (result != NULL) *result = (neap_step_result){.gradient_norm = -1};
    return NEAP_OK;
  }
  if (program->norm != NOWHERE) {
    double squares;
    TRY(read_scalar(s, program->norm, graph->tensors.data[graph->norm].dtype, &squares));
    s->gradient_norm = sqrt(squares);
  }
  return result != NULL && program->loss != NOWHERE ? read_result(s, program, result) : NEAP_OK;
}
