/* Writes graphs of Neap as ONNX graphs. */
#ifndef NEAP_ONNX_ONNX_EXPORT_H
#define NEAP_ONNX_ONNX_EXPORT_H

#include "graph/graph.h"
#include "onnx/onnx_writer.h"

/* The normalisation of data: (x - mean) / deviation for the input, x deviation + mean for the output; one
 * number for all, one for each channel (axis 1) of images, or one for each element of a row. Count 0:
 * none. */
struct normalisation {
  int64_t count;
  const float *mean, *deviation;
};

struct export_task {
  const struct neap_graph *graph; /* that predicts */
  const struct neap_graph *other; /* the same for one record more, to open the batch; NULL: it is fixed */
  const char *input;              /* the input that is normalised */
  struct normalisation of_input, of_output;
  /* Reads all elements of a variable, or fails. */
  neap_status (*read)(void *context, const char *name, int64_t elements, float *values);
  void *context;
};

/* Adds the graph to the writer. NEAP_UNSUPPORTED: one of its operators cannot be written to ONNX; the message
 * names it. */
neap_status onnx_export(struct onnx_writer *writer, const struct export_task *task);

#endif
