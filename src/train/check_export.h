/* Reads an exported file back and compares its outputs with the run's. */
#ifndef NEAP_TRAIN_CHECK_EXPORT_H
#define NEAP_TRAIN_CHECK_EXPORT_H

#include "neap.h"

enum export_kind { EXPORT_ONNX, EXPORT_LANGUAGE, EXPORT_ADAPTERS };

struct export_check {
  const neap_export_options *options;
  const neap_model *model;             /* of the run */
  const neap_model_options *shape;     /* of the run */
  const neap_session_options *session; /* adapters of the run */
  const char *weights;                 /* of the run; NULL: the model's own */
  enum export_kind kind;
  neap_dtype dtype; /* of the weights that were written */
};

/* Runs a seeded batch through the run's network and, after that is freed, through the one that was written,
 * and compares the outputs. Sets `checked`, `difference` and `allowed` of the result, or `unchecked`: why the
 * file was not compared (Neap does not read its format, or memory does not suffice). NEAP_BAD_FORMAT: the
 * outputs differ by more than rounding of the written type, or the file cannot be read; the message names
 * it. */
neap_status export_check(const struct export_check *check, neap_export_result *result);

#endif
