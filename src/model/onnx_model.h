/* ONNX files as models that train: adds a label and a loss to an inference graph of one input and one
 * output. */
#ifndef NEAP_MODEL_ONNX_MODEL_H
#define NEAP_MODEL_ONNX_MODEL_H

#include "graph/task.h"
#include "model/onnx_import.h"

/* Gives the file's shape, or a usual one for open dimensions. `masked`: of tokens, see model.c. */
neap_status onnx_usual(const char *path, bool masked, neap_model_options *usual, enum task_kind *kind);

/* Builds the training graph. Initializers of real numbers are parameters with their names, except single
 * numbers and those with numbers beyond 1e30 (masks), which are constants. */
neap_status onnx_build(const char *path, bool masked, const neap_model_options *options, neap_graph **graph);

/* Loads the file's values into the session of such a graph, built with the same options. */
neap_status onnx_load(const char *path, bool masked, const neap_model_options *options,
                      neap_session *session);

/* Gives the positions that it was built for. */
neap_status onnx_places(const char *path, int64_t length, int64_t *places);

/* Gives the SHA-256 of the file, without its external data. */
neap_status onnx_digest(const char *path, char digest[65]);

/* Builds the graph as it is: inputs and outputs by their names, no loss. `dims` of open axes: 2. For
 * tests. */
neap_status onnx_build_plain(const char *path, neap_graph **graph, struct import *import);
void import_end(struct import *m);

/* Writes the first values of a graph's variables into its session. */
neap_status import_load(struct import *m, neap_session *session);

#endif
