#include "kernel/ranks.h"
#include "neap_collective.h"
#include "session/choose.h"
#include "step/plan.h"

/* Finds the most that a rank sends in a step: in each round of micro-batches, and at the end of the step. */
static void find_most(const struct lowered *main, const struct lowered *end, const struct neap_plan *plan,
                      int ranks, int64_t rounds, neap_exchanges *most) {
  const int32_t *schedule = plan != NULL ? plan->schedule : NULL;
  for (int rank = 0; rank < ranks; rank++) {
    const struct expected_traffic round = ranks_expect(main, schedule, plan != NULL ? plan->length : 0, rank,
                                                       ranks),
                                  last = ranks_expect(end, NULL, 0, rank, ranks);
    const neap_exchanges one = {.calls = rounds * round.calls + last.calls,
                                .sent_bytes = (uint64_t)rounds * round.sent + last.sent};
    if (one.sent_bytes > most->sent_bytes || rank == 0) *most = one;
  }
}

static neap_status lower_end(const struct lowered *main, const neap_session_options *options,
                             struct lowered **end) {
  const struct optimizer optimizer = optimizer_of(options);
  const struct lower_options lowering = lower_options_of(options);
  struct neap_graph *graph = NULL;
  TRY(graph_end_step(main->graph, &optimizer, &graph));
  const neap_status status = lower(graph, backend_of(options), &lowering, main, end);
  neap_graph_free(graph);
  return status;
}

/* Replaces the base by the variant of the plan. */
static neap_status lower_as_planned(const neap_graph *graph, const neap_session_options *options,
                                    const struct neap_plan *plan, struct lowered **main) {
  neap_session_options other = *options;
  struct lowered *lowered;
  if (plan == NULL || options->variant != NEAP_VARIANT_AUTO) return NEAP_OK;
  other.variant = variant_of_name((*main)->graph->name, plan->graph);
  if (other.variant == NEAP_VARIANT_BASE) return NEAP_OK;
  TRY(lower_training(graph, &other, &lowered));
  lowered_free(*main);
  *main = lowered;
  return NEAP_OK;
}

/* Fails unless all nodes of a plan are nodes of the step. */
static neap_status check_nodes(const struct neap_step *step, const struct neap_plan *plan) {
  for (int32_t i = 0; plan != NULL && i < plan->length; i++)
    RETURN_IF(plan->schedule[i] < 0 || plan->schedule[i] >= step->node_count, NEAP_INVALID_PLAN,
              "exchanges: position %d of the plan has node %d; the step has nodes 0 to %d", i,
              plan->schedule[i], step->node_count - 1);
  return NEAP_OK;
}

neap_status neap_step_exchanges(const neap_graph *graph, const neap_session_options *options,
                                const neap_plan *plan, neap_exchanges *exchanges) {
  NEED(exchanges);
  RETURN_IF(graph == NULL || options == NULL, NEAP_INVALID_ARGUMENT,
            "neap_step_exchanges: options or graph is NULL");
  struct lowered *main = NULL, *end = NULL;
  const int ranks = options->collective != NULL ? options->collective->size : 1;
  *exchanges = (neap_exchanges){0};
  TRY(check_ranks(options));
  if (ranks <= 1) return NEAP_OK;
  TRY(lower_training(graph, options, &main));
  neap_status status = lower_as_planned(graph, options, plan, &main);
  if (status == NEAP_OK) status = check_nodes(main->step, plan);
  if (status == NEAP_OK) status = lower_end(main, options, &end);
  if (status == NEAP_OK) find_most(main, end, plan, ranks, options->micro_batches / ranks, exchanges);
  if (status == NEAP_OK && options->mezo) { /* differences of losses, in each round */
    const int64_t rounds = options->micro_batches / ranks;
    exchanges->calls += rounds;
    exchanges->sent_bytes +=
        (uint64_t)(rounds * share_most(SHARE_PARTS, ranks) * (ranks - 1)) * sizeof(double);
  }
  if (status == NEAP_OK && options->dynamic_loss_scale) { /* whether any gradient is not finite */
    exchanges->calls++;
    exchanges->sent_bytes += (uint64_t)ranks - 1;
  }
  lowered_free(end);
  lowered_free(main);
  return status;
}
