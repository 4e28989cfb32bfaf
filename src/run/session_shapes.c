/* Other graphs over the variables of a session (neap_session_add_graph). */
#include <string.h>

#include "plan/planners.h"
#include "program/prefetch.h"
#include "run/executor_whole.h"
#include "session/choose.h"
#include "session/session_ranks.h"
#include "session/session_run.h"

/* Fails unless the variables of a step are the session's, and its inputs fit those of the session. */
static neap_status check_residents(const struct neap_session *s, const struct lowered *lowered) {
  const struct neap_step *all = s->main->step, *step = lowered->step;
  int32_t variables[2] = {0};
  for (int32_t t = 0; t < all->tensor_count; t++)
    variables[0] += all->tensors[t].role == NEAP_ROLE_PARAMETER || all->tensors[t].role == NEAP_ROLE_STATE;
  for (int32_t t = 0, mine = 0; t < step->tensor_count; t++) {
    const struct step_tensor *tensor = &step->tensors[t];
    if (tensor->role == NEAP_ROLE_VALUE) continue;
    while (mine < all->tensor_count &&
           (all->tensors[mine].role == NEAP_ROLE_VALUE || strcmp(all->tensors[mine].name, tensor->name) != 0))
      mine++;
    RETURN_IF(mine == all->tensor_count, NEAP_INVALID_ARGUMENT, "graph '%s': the session of '%s' has no '%s'",
              lowered->graph->name, s->main->graph->name, tensor->name);
    const uint64_t room = all->tensors[mine++].bytes;
    const bool input = tensor->role == NEAP_ROLE_INPUT;
    RETURN_IF(input ? tensor->bytes > room : tensor->bytes != room, NEAP_INVALID_ARGUMENT,
              "graph '%s': '%s' takes %llu bytes, but in the session of '%s' %llu", lowered->graph->name,
              tensor->name, (unsigned long long)tensor->bytes, s->main->graph->name,
              (unsigned long long)room);
    variables[1] += !input;
  }
  RETURN_IF(variables[0] != variables[1], NEAP_INVALID_ARGUMENT,
            "graph '%s': it has %d variables, but the session of '%s' %d", lowered->graph->name, variables[1],
            s->main->graph->name, variables[0]);
  return NEAP_OK;
}

/* Plans inside the existing arena. */
static neap_status plan_shape(struct neap_session *s, const neap_graph *graph, struct session_shape *shape) {
  struct session_program *p = &shape->step;
  struct neap_check_result result;
  TRY(lower_training_like(graph, &s->options, s->variant, s->main, &p->lowered));
  TRY(check_residents(s, p->lowered));
  const uint64_t budget = p->lowered->step->resident_bytes + s->plan->arena_bytes;
  TRY(neap_plan_make(p->lowered->step, budget, "auto", NULL, &p->plan));
  TRY(prefetch(p->lowered, budget, &p->plan));
  TRY(neap_plan_check(p->lowered->step, p->plan, &result));
  return session_make_evaluation(s, graph, &shape->evaluation);
}

static neap_status make_shape(struct neap_session *s, const neap_graph *graph, struct session_shape *shape) {
  const neap_status status = plan_shape(s, graph, shape);
  if (shards_all(&s->options)) {
    TRY(ranks_follow_first(s->options.collective, &shape->step, status));
    TRY(ranks_follow_first(s->options.collective, &shape->evaluation, NEAP_OK));
  }
  TRY(status);
  TRY(make_program(s, &shape->step));
  return make_program(s, &shape->evaluation);
}

neap_status neap_session_add_graph(neap_session *s, const neap_graph *graph, int *index) {
  RETURN_IF(s == NULL || graph == NULL || index == NULL, NEAP_INVALID_ARGUMENT,
            "neap_session_add_graph: session, graph or index is NULL");
  RETURN_IF(s->executor->one_shape != NULL, NEAP_UNSUPPORTED, "%s", s->executor->one_shape);
  RETURN_IF(s->programs[PROGRAM_STEP].lowered == NULL || graph->loss < 0, NEAP_INVALID_ARGUMENT,
            "session of '%s': another graph must be for training, but this session only predicts",
            s->main->graph->name);
  if (s->shapes.count == 0)
    TRY(vector_push(&s->shapes,
                    ((struct session_shape){s->programs[PROGRAM_STEP], s->programs[PROGRAM_EVALUATE]})));
  struct session_shape shape = {0};
  neap_status status = make_shape(s, graph, &shape);
  if (status == NEAP_OK) status = vector_push(&s->shapes, shape);
  if (status == NEAP_OK) {
    *index = (int)s->shapes.count - 1;
    return NEAP_OK;
  }
  session_program_free(&shape.step);
  session_program_free(&shape.evaluation);
  return status;
}

neap_status neap_session_select(neap_session *s, int index) {
  const int count = s == NULL ? 0 : s->shapes.count > 0 ? (int)s->shapes.count : 1;
  RETURN_IF(index < 0 || index >= count, NEAP_INVALID_ARGUMENT, "a session has graphs 0 to %d, not %d",
            count - 1, index);
  if (s->shapes.count == 0) return NEAP_OK;
  s->programs[PROGRAM_STEP] = s->shapes.data[index].step;
  s->programs[PROGRAM_EVALUATE] = s->shapes.data[index].evaluation;
  s->ran = PROGRAM_COUNT;
  return NEAP_OK;
}
