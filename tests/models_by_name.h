/* Models that a test opens for one call. */
#ifndef NEAP_TESTS_MODELS_BY_NAME_H
#define NEAP_TESTS_MODELS_BY_NAME_H

#include "neap.h"

static inline neap_status build_named(const char *name, const neap_model_options *options,
                                      neap_graph **graph) {
  neap_model *model;
  neap_status status = neap_model_open(name, &model);
  if (status == NEAP_OK) status = neap_model_build(model, options, graph);
  neap_model_close(model);
  return status;
}

static inline neap_status load_named(const char *name, const neap_model_options *options,
                                     neap_session *session) {
  neap_model *model;
  neap_status status = neap_model_open(name, &model);
  if (status == NEAP_OK) status = neap_model_load(model, options, session);
  neap_model_close(model);
  return status;
}

#endif
