/* Graphs of Neap as ONNX graphs. */
#ifndef NEAP_MODEL_ONNX_EXPORT_H
#define NEAP_MODEL_ONNX_EXPORT_H

#include "graph/graph.h"
#include "model/onnx_writer.h"

/* Numbers that go in or come out: (x - mean) / deviation of the input, x deviation + mean of the output; one
 * for all, one a channel (axis 1) of images, or one an element of a row. 0 of them: as they are. */
struct normalisation {
  int64_t count;
  const float *mean, *deviation;
};

struct export_task {
  const struct neap_graph *graph; /* that predicts */
  const struct neap_graph *other; /* the same for one record more: the batch becomes open; NULL: it stays */
  const char *input;              /* the input that is normalised */
  struct normalisation of_input, of_output;
  /* All elements of a variable, or a failure. */
  neap_status (*read)(void *context, const char *name, int64_t elements, float *values);
  void *context;
};

/* Adds the graph to the writer. NEAP_UNSUPPORTED: an operator of it has no form in ONNX here; the message
 * names it. */
neap_status onnx_export(struct onnx_writer *writer, const struct export_task *task);

#endif
