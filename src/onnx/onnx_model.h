/* ONNX files as models that train: adds a label and a loss to an inference graph of one input and one
 * output. */
#ifndef NEAP_ONNX_ONNX_MODEL_H
#define NEAP_ONNX_ONNX_MODEL_H

#include "onnx/onnx_import.h"
#include "task/task.h"

/* Open, describe, ask and close the model of such a path, which is borrowed: the functions of struct
 * model_ops (model_ops.h) for it. Initializers of real numbers are parameters with their names, except single
 * numbers and those with numbers beyond 1e30 (masks), which are constants. The description has the file's
 * shape, or a usual one for open dimensions. The digest is that of the file, without its external data. */
neap_status onnx_model_open(const char *path, bool masked, void **model);
void onnx_model_close(void *model);
neap_status onnx_model_describe(const void *model, neap_model_description *about);
neap_status onnx_model_build(const void *model, const neap_model_options *options, neap_graph **graph);
neap_status onnx_model_load(const void *model, const neap_model_options *options, neap_session *session);
const char *onnx_model_digest(const void *model);

/* Builds the graph of an open file as it is: inputs and outputs by their names, no loss. `dims` of open axes:
 * 2. For tests. */
neap_status onnx_build_plain(const struct onnx_file *file, neap_graph **graph, struct import *import);
void import_end(struct import *m);

/* Writes the first values of a graph's variables into its session. */
neap_status import_load(struct import *m, neap_session *session);

#endif
