/* Runs an ONNX graph as it is: run_onnx MODEL.onnx FOLDER. Input i is FOLDER/input_i.bin, f32 or i32; output
 * i is written to FOLDER/output_i.bin. Exit status 3: the graph is refused, by the message on standard error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx/onnx_model.h"

static bool fill(neap_session *session, const char *folder, int32_t i, const char *name, int64_t elements) {
  char path[4096];
  snprintf(path, sizeof path, "%s/input_%d.bin", folder, i);
  void *data = neap_session_input(session, name);
  FILE *file = fopen(path, "rb");
  const bool whole =
      data == NULL || (file != NULL && fread(data, 4, (size_t)elements, file) == (size_t)elements);
  if (file != NULL) fclose(file);
  return whole;
}

static bool write_output(neap_session *session, const char *folder, int32_t i, const char *name) {
  char path[4096];
  neap_variable output;
  neap_session_output(session, name, &output, NULL);
  float *data = calloc((size_t)output.elements + 1, sizeof *data);
  snprintf(path, sizeof path, "%s/output_%d.bin", folder, i);
  FILE *file = data != NULL ? fopen(path, "wb") : NULL;
  const bool whole = file != NULL && neap_session_output(session, name, &output, data) == NEAP_OK &&
                     fwrite(data, 4, (size_t)output.elements, file) == (size_t)output.elements;
  if (file != NULL) fclose(file);
  free(data);
  return whole;
}

static neap_status run(const char *model, const char *folder) {
  struct import m = {0};
  struct onnx_file file;
  neap_graph *graph = NULL;
  neap_session *session = NULL;
  neap_session_options options = {.predict = true, .budget = NEAP_BUDGET_MAX, .threads = 2};
  neap_status status;
  TRY_DONE(onnx_open(model, &file));
  TRY_DONE(onnx_build_plain(&file, &graph, &m));
  TRY_DONE(neap_session_create(graph, &options, NULL, &session));
  TRY_DONE(import_load(&m, session));
  for (int32_t i = 0; i < file.input_count; i++) {
    const struct value *v = value_find(&m, file.inputs[i].name);
    int64_t elements = 1;
    for (int32_t d = 0; d < v->rank; d++) elements *= v->dims[d];
    if (!fill(session, folder, i, v->name, elements))
      TRY_DONE(neap_fail(NEAP_IO_FAILED, "input '%s' cannot be read", v->name));
  }
  TRY_DONE(neap_session_predict(session));
  for (int32_t i = 0; i < file.output_count; i++)
    if (!write_output(session, folder, i, file.outputs[i].name))
      TRY_DONE(neap_fail(NEAP_IO_FAILED, "output '%s' cannot be written", file.outputs[i].name));
done:
  neap_session_free(session);
  neap_graph_free(graph);
  import_end(&m);
  onnx_close(&file);
  return status;
}

int main(int count, char **arguments) {
  if (count != 3) return 2;
  const neap_status status = run(arguments[1], arguments[2]);
  if (status == NEAP_OK) return 0;
  fprintf(stderr, "%s\n", neap_error_message());
  return status == NEAP_UNSUPPORTED || status == NEAP_BAD_FORMAT ? 3 : 1;
}
