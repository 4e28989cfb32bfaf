/* A trained model as an ONNX file. */
#include <string.h>

#include "base/parallel.h"
#include "base/safetensors.h"
#include "data/encoding.h"
#include "model/onnx_export.h"
#include "rewrite/rewrite.h"
#include "run/averages.h"
#include "train/checkpoint.h"
#include "train/model_data.h"

struct exporting {
  const neap_export_options *options;
  struct region region;
  struct encoding encoding;
  bool encoded; /* the checkpoint has an encoding */
  neap_model_options shape;
  neap_graph *graph, *other; /* that predict; the other for one record more */
  struct safetensors weights;
  struct onnx_writer writer;
};

/* ---- The run ---- */

static neap_status open_weights(struct exporting *x) {
  const neap_export_options *o = x->options;
  struct checkpoint state = {0};
  const char *path = o->weights;
  if (o->checkpoint != NULL) TRY(checkpoint_check_model(o->checkpoint, o->model));
  if (path == NULL) {
    TRY(checkpoint_read_state(o->checkpoint, NULL, &state));
    if (o->best) TRY(checkpoint_take_best(o->checkpoint, &state));
    path = region_format(&x->region, "%s/%s", o->checkpoint, state.weights);
    RETURN_IF_NULL(path);
  }
  return safetensors_open(path, &x->weights);
}

static neap_status read_encoding(struct exporting *x) {
  if (x->options->checkpoint == NULL) return NEAP_OK;
  const char *path = region_format(&x->region, "%s/" CHECKPOINT_DATA, x->options->checkpoint);
  RETURN_IF_NULL(path);
  if (!source_file_exists(path)) return NEAP_OK;
  x->encoded = true;
  return encoding_read(path, &x->region, &x->encoding);
}

/* What the run's data gave the model; where the checkpoint does not say it the data are asked. */
static neap_status settle(struct exporting *x) {
  const neap_export_options *o = x->options;
  struct loader data = {0};
  x->shape = o->shape;
  if (x->encoded) {
    const struct encoding *e = &x->encoding;
    for (int i = 0; i < 3; i++) x->shape.image[i] = i < e->rank ? e->shape[i] : 0;
    if (x->shape.classes < e->classes) x->shape.classes = e->classes;
    x->shape.regression = e->values;
    return NEAP_OK;
  }
  if (o->data == NULL) return NEAP_OK;
  neap_status status = open_data(
      &(struct data_choice){
          .model = o->model, .name = o->data, .shape = &o->shape, .threads = 1, .one_length = true},
      &data);
  if (status == NEAP_OK) status = settle_shape(o->model, o->data, &o->shape, &data, &x->shape);
  loader_close(&data);
  return status;
}

static neap_status build(const char *model, const neap_model_options *shape, neap_graph **graph) {
  neap_graph *whole;
  TRY(neap_model_build(model, shape, &whole));
  const neap_status status = rewrite_prediction(whole, graph);
  neap_graph_free(whole);
  return status;
}

/* The graph, and where the model can be of any batch that for one record more. */
static neap_status build_both(struct exporting *x) {
  neap_model_options more = x->shape;
  TRY(build(x->options->model, &x->shape, &x->graph));
  more.batch = neap_graph_batch(x->graph) + 1;
  const neap_status status = build(x->options->model, &more, &x->other);
  return status == NEAP_OUT_OF_MEMORY ? status : NEAP_OK;
}

/* ---- The file ---- */

static neap_status read_weight(void *context, const char *name, int64_t elements, float *values) {
  struct exporting *x = context;
  const int32_t index = averages_tensor(&x->weights, name);
  RETURN_IF(index < 0, NEAP_BAD_FORMAT, "%s: has no tensor '%s', a parameter or statistic of this model",
            x->weights.path, name);
  TRY(safetensors_need_real(&x->weights, index));
  RETURN_IF(x->weights.tensors[index].elements != elements, NEAP_BAD_FORMAT,
            "%s: tensor '%s': its shape is not that of this model's parameter or state", x->weights.path,
            name);
  return safetensors_read(&x->weights, index, values);
}

static neap_status as_floats(struct exporting *x, int64_t count, const double *mean, const double *deviation,
                             struct normalisation *n) {
  float *floats = region_alloc(&x->region, (size_t)(2 * count), sizeof *floats);
  RETURN_IF_NULL(floats);
  for (int64_t i = 0; i < count; i++) {
    floats[i] = (float)mean[i];
    floats[count + i] = (float)deviation[i];
  }
  *n = (struct normalisation){count, floats, floats + count};
  return NEAP_OK;
}

/* Images come as bytes, numbers as they are in the data. */
static neap_status normalise(struct exporting *x, struct export_task *task) {
  const struct encoding *e = &x->encoding;
  if (!x->encoded) return NEAP_OK;
  task->input = e->input;
  if (e->deviation[0] > 0) TRY(as_floats(x, e->shape[0], e->mean, e->deviation, &task->of_input));
  if (e->input_scale.count > 0)
    TRY(as_floats(x, e->input_scale.count, e->input_scale.mean, e->input_scale.deviation, &task->of_input));
  if (e->values && e->label_scale.count > 0)
    TRY(as_floats(x, e->label_scale.count, e->label_scale.mean, e->label_scale.deviation, &task->of_output));
  return NEAP_OK;
}

static neap_status run(struct exporting *x, neap_export_result *result) {
  const neap_export_options *o = x->options;
  RETURN_IF(o->model == NULL || (o->weights == NULL && o->checkpoint == NULL) || o->out == NULL,
            NEAP_INVALID_ARGUMENT, "an export needs a model, weights or a checkpoint, and a file to write");
  TRY(open_weights(x));
  TRY(read_encoding(x));
  TRY(settle(x));
  TRY(build_both(x));
  struct export_task task = {.graph = x->graph, .other = x->other, .read = read_weight, .context = x};
  TRY(normalise(x, &task));
  TRY(onnx_export(&x->writer, &task));
  TRY(onnx_write(&x->writer, o->out, neap_graph_name(x->graph)));
  result->nodes = (int64_t)x->writer.nodes.count;
  result->batch = x->other == NULL ? neap_graph_batch(x->graph) : 0;
  result->opset = WRITER_OPSET;
  result->normalised = task.of_input.count > 0;
  return NEAP_OK;
}

neap_status neap_export(const neap_export_options *options, neap_export_result *result) {
  NEED(options);
  NEED(result);
  struct exporting x = {.options = options};
  *result = (neap_export_result){0};
  const neap_status status = run(&x, result);
  writer_free(&x.writer);
  safetensors_close(&x.weights);
  neap_graph_free(x.graph);
  neap_graph_free(x.other);
  region_free(&x.region);
  return status;
}
