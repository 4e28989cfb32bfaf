#include "fit/fit.h"

#include "base/status.h"
#include "session/choose.h"

neap_status fit_budget_to_bytes(const neap_model *model, const neap_model_options *shape,
                                neap_session_options *session) {
  neap_graph *graph;
  if (session->budget_fraction <= 0) return NEAP_OK;
  TRY(neap_model_build(model, shape, &graph));
  const neap_status status = budget_share_to_bytes(graph, session);
  neap_graph_free(graph);
  return status;
}

bool fit_with_direct_convolutions(const neap_graph *graph, const neap_session_options *asked) {
  neap_session_options session = *asked;
  bool fits = false;
  if (asked->convolution == NEAP_CONV_DIRECT || asked->plan_file != NULL) return false;
  session.convolution = NEAP_CONV_DIRECT;
  /* Quick planning may miss a budget that full planning just meets. */
  for (int quick = 1; quick >= 0 && !fits; quick--) {
    neap_step *step = NULL;
    neap_plan *plan = NULL;
    session.plan_quick = quick;
    fits = neap_plan_graph(graph, &session, NULL, &step, &plan) == NEAP_OK;
    neap_plan_free(plan);
    neap_step_free(step);
  }
  return fits;
}
