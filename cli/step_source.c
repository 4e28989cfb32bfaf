#include <string.h>

#include "cli.h"

bool read_step_source(const struct verb *verb, const char *const *values, const char *const *operands,
                      int operand_count, struct step_source *source) {
  *source = (struct step_source){.model = value_of(verb, values, "--model"),
                                 .file = operand_count > 0 ? operands[0] : NULL,
                                 .session = {.momentum = 0.9f}};
  if ((source->model == NULL) == (source->file == NULL)) {
    usage_error(verb, "give either --model or a graph file");
    return false;
  }
  int convolution = 0, optimizer = 0;
  int64_t threads = 0;
  double momentum = 0.9;
  if (!integer_value(verb, values, "--batch", 1, &source->shape.batch) ||
      !integer_value(verb, values, "--threads", 1, &threads) ||
      !word_value(verb, values, "--conv", "auto|direct|winograd", &convolution) ||
      !word_value(verb, values, "--optimizer", "sgd|adamw", &optimizer) ||
      !number_value(verb, values, "--momentum", 0, &momentum))
    return false;
  source->session.convolution = (neap_convolution)convolution;
  source->session.optimizer = (neap_optimizer)optimizer;
  source->session.threads = (int)threads;
  source->session.momentum = (float)momentum;
  return true;
}

neap_status load_step(const struct step_source *source, neap_step **step) {
  if (source->file != NULL) return neap_step_read(source->file, step);
  neap_graph *graph;
  const neap_status built = neap_model_build(source->model, &source->shape, &graph);
  if (built != NEAP_OK) return built;
  const neap_status status = neap_step_from_graph(graph, &source->session, step);
  neap_graph_free(graph);
  return status;
}

static bool fits(const struct step_source *source, int64_t batch, uint64_t budget, const char *planner) {
  struct step_source tried = *source;
  neap_step *step;
  neap_plan *plan = NULL;
  tried.shape.batch = batch;
  if (load_step(&tried, &step) != NEAP_OK) return false;
  const bool good = neap_plan_make(step, budget, planner, NULL, &plan) == NEAP_OK;
  neap_plan_free(plan);
  neap_step_free(step);
  return good;
}

int64_t find_largest_batch(const struct step_source *source, uint64_t budget, const char *planner) {
  if (source->model == NULL) return 0;
  int64_t good = 0, bad = 1;
  while (bad < 1 << 16 && fits(source, bad, budget, planner)) good = bad, bad *= 2;
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    if (fits(source, middle, budget, planner))
      good = middle;
    else
      bad = middle;
  }
  return good;
}
