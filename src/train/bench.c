/* Times a ready-made model's step on random inputs. */
#include <string.h>

#include "base/random.h"
#include "model/model.h"
#include "session/session.h"

/* Draws real numbers in [-2, 2), and integers that are classes or tokens: computing with them takes as long
 * as with data. */
static void draw(const struct tensor *tensor, uint64_t stream, int64_t classes, void *data) {
  uint32_t words[4];
  for (int64_t i = 0; i < tensor->elements; i++) {
    if (i % 4 == 0) random_philox(0, stream, (uint64_t)i / 4, words);
    if (tensor->dtype == NEAP_I32)
      ((int32_t *)data)[i] = (int32_t)random_below(words[i % 4], (uint64_t)classes);
    else
      ((float *)data)[i] = 4 * random_uniform(words[i % 4]) - 2;
  }
}

static neap_status fill_inputs(neap_session *session, const struct neap_graph *graph, int64_t classes) {
  for (size_t i = 0; i < graph->tensors.count; i++) {
    const struct tensor *tensor = &graph->tensors.data[i];
    if (tensor->role != NEAP_ROLE_INPUT || tensor->view_of >= 0) continue;
    RETURN_IF(tensor->dtype != NEAP_I32 && tensor->dtype != NEAP_F32, NEAP_UNSUPPORTED,
              "input '%s' of '%s' must have type f32 or i32", tensor->name, graph->name);
    draw(tensor, i, classes, neap_session_input(session, tensor->name));
  }
  return NEAP_OK;
}

static neap_status time_model(const neap_bench_options *o, const neap_model *model, const neap_speed *speed,
                              const struct neap_graph *graph, neap_session *session,
                              neap_bench_result *result) {
  static const float rate = 1e-3f; /* small: the numbers stay ordinary ones */
  neap_model_description about;
  TRY(neap_model_describe(model, &about));
  TRY(fill_inputs(session, graph, o->shape.classes > 0 ? o->shape.classes : about.usual.classes));
  result->records = task_rows[about.task].records;
  result->batch = neap_graph_batch(graph);
  result->parameters = neap_graph_parameters(graph);
  TRY(neap_session_time_steps(session, speed, rate, o->steps, &result->times));
  neap_session_memory(session, &result->memory);
  return NEAP_OK;
}

static neap_status bench(const neap_bench_options *o, const neap_model *model, const neap_speed *speed,
                         neap_bench_result *result) {
  neap_graph *graph;
  neap_session *session = NULL;
  TRY(neap_model_build(model, &o->shape, &graph));
  neap_status status = neap_session_create(graph, &o->session, &result->smallest_budget, &session);
  if (status == NEAP_OK) status = neap_model_load(model, &o->shape, session);
  if (status == NEAP_OK) status = time_model(o, model, speed, graph, session, result);
  neap_session_free(session);
  neap_graph_free(graph);
  return status;
}

neap_status neap_bench(const neap_bench_options *options, const neap_speed *speed,
                       neap_bench_result *result) {
  RETURN_IF(options == NULL || options->model == NULL || speed == NULL || result == NULL,
            NEAP_INVALID_ARGUMENT, "bench: options, model, speed or result is NULL");
  const neap_model *model;
  neap_model *own;
  *result = (neap_bench_result){0};
  TRY(model_take(options->opened, options->model, &own, &model));
  const neap_status status = bench(options, model, speed, result);
  neap_model_close(own);
  return status;
}
