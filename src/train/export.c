/* Exports a trained model: ONNX, adapters of peft, or a language model. */
#include <string.h>

#include "base/file.h"
#include "base/parallel.h"
#include "data/encoding.h"
#include "formats/safetensors.h"
#include "model/model.h"
#include "onnx/onnx_export.h"
#include "rewrite/rewrite.h"
#include "session/choose.h"
#include "train/adapter_folder.h"
#include "train/adapter_gguf.h"
#include "train/base_weights.h"
#include "train/check_export.h"
#include "train/checkpoint.h"
#include "train/export_language.h"
#include "train/model_data.h"
#include "weights/averages.h"
#include "weights/variables.h"

struct exporting {
  const neap_export_options *options;
  const neap_model *model; /* of the options, or: */
  neap_model *own_model;   /* opened here; NULL: the caller has it open */
  struct region region;
  struct encoding encoding;
  bool encoded; /* the checkpoint has an encoding */
  neap_model_options shape;
  neap_graph *graph, *other; /* that predict; the other for one record more */
  struct safetensors weights;
  neap_session_options session; /* with adapters: of the run */
  neap_session *whole;          /* with adapters: has all weights */
  struct onnx_writer writer;
  enum export_kind kind;
  neap_dtype dtype; /* of the weights that are written */
};

/* ---- The run ---- */

static neap_status open_weights(struct exporting *x) {
  const neap_export_options *o = x->options;
  const char *path = o->weights;
  if (o->checkpoint != NULL) TRY(checkpoint_check_model(o->checkpoint, x->model));
  if (path == NULL) TRY(checkpoint_find_weights(o->checkpoint, o->best, &x->region, &path));
  return safetensors_open(path, &x->weights);
}

static neap_status read_encoding(struct exporting *x) {
  if (x->options->checkpoint == NULL) return NEAP_OK;
  const char *path = region_format(&x->region, "%s/" CHECKPOINT_DATA, x->options->checkpoint);
  RETURN_IF_NULL(path);
  if (!file_exists(path)) return NEAP_OK;
  x->encoded = true;
  return encoding_read(path, &x->region, &x->encoding);
}

/* Returns true if all of the language model is written: if asked for; if a GGUF file is and not that of
 * adapters; or if there is no run. */
static bool is_merged(const neap_export_options *o) {
  const bool no_run = o->weights == NULL && o->checkpoint == NULL;
  return o->merge || (!o->adapters && (export_is_gguf(o->out) || no_run));
}

/* Finds what the run's data set in the model; if the checkpoint does not have it the data are read. */
static neap_status settle(struct exporting *x) {
  const neap_export_options *o = x->options;
  struct loader data = {0};
  x->shape = o->shape;
  if (x->encoded) {
    const struct encoding *e = &x->encoding;
    const bool texts = e->table != NULL && table_is_text(e->table);
    for (int i = 0; i < 3 && !texts; i++) x->shape.image[i] = i < e->rank ? e->shape[i] : 0;
    if (neap_model_is_language(x->model)) x->shape.head = NEAP_HEAD_CLASSES;
    if (x->shape.classes < e->classes) x->shape.classes = e->classes;
    x->shape.regression = e->values;
    return NEAP_OK;
  }
  if (o->data == NULL || is_merged(o)) return NEAP_OK;
  neap_status status = open_data(
      &(struct data_choice){
          .model = x->model, .name = o->data, .shape = &o->shape, .threads = 1, .one_length = true},
      &data);
  if (status == NEAP_OK) status = settle_shape(x->model, o->data, &o->shape, &data, &x->shape);
  loader_close(&data);
  return status;
}

/* Returns true if the run trained beside weights that its checkpoint does not have. */
static bool adapts(const struct exporting *x) { return x->session.lora > 0 || x->shape.side > 0; }

static neap_status build(const struct exporting *x, const neap_model_options *shape, neap_graph **graph) {
  neap_graph *whole, *adapted = NULL;
  TRY(neap_model_build(x->model, shape, &whole));
  neap_status status = x->session.lora > 0 ? make_adapted_graph(whole, &x->session, &adapted) : NEAP_OK;
  if (status == NEAP_OK) status = rewrite_prediction(adapted != NULL ? adapted : whole, graph);
  neap_graph_free(adapted);
  neap_graph_free(whole);
  return status;
}

/* Builds the graph and, if the model takes any batch, the graph for one more record. */
static neap_status build_both(struct exporting *x) {
  neap_model_options more = x->shape;
  TRY(build(x, &x->shape, &x->graph));
  more.batch = neap_graph_batch(x->graph) + 1;
  const neap_status status = build(x, &more, &x->other);
  return status == NEAP_OUT_OF_MEMORY ? status : NEAP_OK;
}

/* ---- The file ---- */

/* Opens a run with adapters: a session that predicts has the weights that they adapt too. */
static neap_status open_whole(struct exporting *x) {
  const neap_export_options *o = x->options;
  neap_session_options session = x->session;
  neap_graph *graph;
  if (!adapts(x)) return NEAP_OK;
  session.predict = true;
  session.budget = NEAP_BUDGET_MAX;
  TRY(neap_model_build(x->model, &x->shape, &graph));
  neap_status status = neap_session_create(graph, &session, NULL, &x->whole);
  if (status == NEAP_OK) status = base_weights_take(o->checkpoint, x->model, &x->shape, x->whole);
  if (status == NEAP_OK) status = neap_session_load(x->whole, x->weights.path);
  neap_graph_free(graph);
  return status;
}

static neap_status read_from_session(const neap_session *session, const char *name, float *values) {
  for (int32_t i = 0; i < neap_session_variable_count(session); i++) {
    neap_variable variable;
    TRY(neap_session_variable(session, i, &variable));
    if (strcmp(variable.name, name) == 0) return neap_session_read(session, i, values);
  }
  return neap_fail(NEAP_INTERNAL, "export: variable '%s' does not exist", name);
}

static neap_status read_weight(void *context, const char *name, int64_t elements, float *values) {
  struct exporting *x = context;
  if (x->whole != NULL) return read_from_session(x->whole, name, values);
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

/* Adds normalisation: images come as bytes, numbers in the units of the data. */
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

static bool ends_with(const char *text, const char *end) {
  const size_t length = strlen(text), of = strlen(end);
  return length >= of && strcmp(text + length - of, end) == 0;
}

/* Finds the base of the adapters: the weights that the run began with (for a folder of transformers, the
 * folder), or the model by its name. */
static neap_status find_base(struct exporting *x, const char **base) {
  static const char *const files[] = {"/model.safetensors", "/model.safetensors.index.json"};
  struct base_weights weights;
  TRY(base_weights_read(x->options->checkpoint, &x->region, &weights));
  *base = weights.path != NULL ? weights.path : base_weights_of_model(x->model);
  for (size_t i = 0; weights.path != NULL && i < sizeof files / sizeof *files; i++) {
    if (!ends_with(weights.path, files[i])) continue;
    *base = region_format(&x->region, "%.*s", (int)(strlen(weights.path) - strlen(files[i])), weights.path);
    RETURN_IF_NULL(*base);
  }
  return NEAP_OK;
}

static neap_status write_adapters(struct exporting *x, neap_export_result *result) {
  neap_graph *graph;
  struct adapter_export from = {.session = &x->session, .weights = &x->weights, .side = x->shape.side};
  TRY(find_base(x, &from.base));
  TRY(neap_model_build(x->model, &x->shape, &graph));
  from.graph = graph;
  const bool classifies = x->shape.head == NEAP_HEAD_CLASSES;
  from.model = model_language(x->model);
  from.task = !classifies ? "CAUSAL_LM" : x->shape.image[0] > 0 ? NULL : "SEQ_CLS";
  x->kind = EXPORT_ADAPTERS;
  const neap_status status = (export_is_gguf(x->options->out) ? adapter_gguf_write : adapter_folder_write)(
      &from, x->options->out, &result->adapters);
  neap_graph_free(graph);
  return status;
}

/* Writes a language model of others, with the trained weights. */
static neap_status write_language(struct exporting *x, neap_export_result *result) {
  const struct encoding *e = &x->encoding;
  struct language_run from = {.options = x->options,
                              .model = x->model,
                              .session = &x->session,
                              .weights = x->weights.path != NULL ? &x->weights : NULL,
                              .shape = &x->shape};
  if (x->shape.head == NEAP_HEAD_CLASSES)
    from.labels = (struct task_labels){e->classes, e->class_names, e->values};
  if (x->options->checkpoint != NULL)
    TRY(checkpoint_read_adapters(x->options->checkpoint, &x->region, &x->session));
  x->kind = EXPORT_LANGUAGE;
  return export_language(&from, &result->tensors, &x->dtype);
}

static neap_status check_options(const neap_export_options *o, const neap_model *model) {
  const bool run = o->weights != NULL || o->checkpoint != NULL;
  RETURN_IF(!run && !neap_model_is_language(model), NEAP_INVALID_ARGUMENT,
            "export: give a model, weights or a checkpoint, and a file to write");
  RETURN_IF(o->merge && o->adapters, NEAP_INVALID_ARGUMENT,
            "export: merged adapters are part of the model; give `merge` or `adapter`");
  RETURN_IF(!run && o->adapters, NEAP_INVALID_ARGUMENT, "%s: is a model without adapters; name a run",
            o->model);
  RETURN_IF(!run && ends_with(o->out, ".onnx"), NEAP_INVALID_ARGUMENT,
            "%s: only a run can be written to an ONNX file; name one, or write a folder or FILE.gguf",
            o->out);
  RETURN_IF(o->shape.side > 0 && (o->merge || export_is_gguf(o->out)), NEAP_UNSUPPORTED,
            "export: a side net is next to the model's layers and cannot be merged into their weights; name "
            "a folder, which gets the side net, or a file .onnx, which gets both");
  RETURN_IF(o->type != NULL && !is_merged(o), NEAP_INVALID_ARGUMENT,
            "type '%s': only applies to a complete language model; give `merge` too", o->type);
  return NEAP_OK;
}

static neap_status run(struct exporting *x, neap_export_result *result) {
  const neap_export_options *o = x->options;
  RETURN_IF(o->model == NULL || o->out == NULL, NEAP_INVALID_ARGUMENT,
            "export: give a model, weights or a checkpoint, and a file to write");
  TRY(model_take(o->opened, o->model, &x->own_model, &x->model));
  TRY(check_options(o, x->model));
  if (o->weights != NULL || o->checkpoint != NULL) TRY(open_weights(x));
  TRY(read_encoding(x));
  TRY(settle(x));
  if (is_merged(o)) return write_language(x, result);
  if (o->checkpoint != NULL) TRY(checkpoint_read_adapters(o->checkpoint, &x->region, &x->session));
  RETURN_IF(o->adapters && !adapts(x), NEAP_INVALID_ARGUMENT, "%s: has no adapters; leave adapters out",
            o->checkpoint != NULL ? o->checkpoint : o->weights);
  if (adapts(x) && (o->adapters || !ends_with(o->out, ".onnx"))) return write_adapters(x, result);
  TRY(open_whole(x));
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

/* Names what other readers of the file do not know. */
static void name_left_out(const neap_model_options *shape, char *text, size_t size) {
  if (shape->attention != NULL)
    snprintf(text, size, "attention %s", shape->attention);
  else if (shape->window > 0)
    snprintf(text, size, "window %lld", (long long)shape->window);
}

static neap_status check(const struct exporting *x, neap_export_result *result) {
  const struct export_check c = {.options = x->options,
                                 .model = x->model,
                                 .shape = &x->shape,
                                 .session = &x->session,
                                 .weights = x->weights.path,
                                 .kind = x->kind,
                                 .dtype = x->dtype};
  return x->options->no_check ? NEAP_OK : export_check(&c, result);
}

neap_status neap_export(const neap_export_options *options, neap_export_result *result) {
  NEED(options);
  NEED(result);
  struct exporting x = {.options = options};
  *result = (neap_export_result){0};
  neap_status status = run(&x, result);
  if (x.kind != EXPORT_ONNX) name_left_out(&x.shape, result->left_out, sizeof result->left_out);
  writer_free(&x.writer);
  neap_session_free(x.whole);
  if (status == NEAP_OK) status = check(&x, result);
  safetensors_close(&x.weights);
  neap_graph_free(x.graph);
  neap_graph_free(x.other);
  neap_model_close(x.own_model);
  region_free(&x.region);
  return status;
}
