#include "onnx/onnx_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/variables.h"

/* ---- The contents of the file ---- */

static neap_status add_weight(struct import *m, const struct onnx_tensor *t) {
  struct value *v;
  struct constant *c;
  TRY(value_add(m, t->name, &v));
  v->rank = t->rank;
  memcpy(v->dims, t->dims, sizeof v->dims);
  if (onnx_type_is_real(t->type) && t->rank > 0 && t->elements > 0 && !t->mask) {
    v->weight = t;
    return NEAP_OK;
  }
  TRY(constant_of_tensor(&m->pool, m->file, t, &c));
  v->constant = c;
  return NEAP_OK;
}

static neap_status add_weights(struct import *m) {
  for (int32_t i = 0; i < m->file->tensor_count; i++) TRY(add_weight(m, &m->file->tensors[i]));
  return NEAP_OK;
}

static neap_status import_begin(struct import *m, const struct onnx_file *file) {
  static const struct onnx_node none = {.name = "", .op = "graph", .domain = ""};
  *m = (struct import){.node = &none, .file = file};
  m->builder = neap_builder_create(file->path);
  RETURN_IF_NULL(m->builder);
  return add_weights(m);
}

void import_end(struct import *m) {
  neap_builder_free(m->builder);
  vector_free(&m->first);
  vector_free(&m->values);
  index_free(&m->names);
  region_free(&m->region);
  region_free(&m->pool.region);
}

/* ---- Inputs ---- */

/* Inputs of transformers whose values are known if all tokens count. */
static const struct known_input {
  const char *name;
  int64_t first, step; /* the number at place t is first + step t */
} known_inputs[] = {{"attention_mask", 1, 0}, {"token_type_ids", 0, 0}, {"position_ids", 0, 1}};

static const struct known_input *find_known(const struct onnx_value *input) {
  for (size_t i = 0; i < sizeof known_inputs / sizeof *known_inputs; i++)
    if (strcmp(known_inputs[i].name, input->name) == 0 && !onnx_type_is_real(input->type))
      return &known_inputs[i];
  return NULL;
}

struct onnx_model {
  struct onnx_file file;
  bool masked; /* a model of tokens learns masked tokens */
};

struct model {
  struct import import;
  const struct onnx_value *input, *output;
  neap_task kind;
  int64_t dims[NEAP_MAX_RANK]; /* of the input */
  neap_tensor logits;
  int64_t classes;
};

static neap_status find_input(struct model *model) {
  const struct onnx_file *file = model->import.file;
  for (int32_t i = 0; i < file->input_count; i++) {
    if (find_known(&file->inputs[i]) != NULL) continue;
    RETURN_IF(model->input != NULL, NEAP_UNSUPPORTED,
              "%s: has the inputs '%s' and '%s'; a model for training needs exactly one: export it with the "
              "others fixed",
              file->path, model->input->name, file->inputs[i].name);
    model->input = &file->inputs[i];
  }
  RETURN_IF(model->input == NULL, NEAP_UNSUPPORTED, "%s: has no input to learn from", file->path);
  RETURN_IF(file->output_count < 1, NEAP_BAD_FORMAT, "%s: has no output", file->path);
  model->output = &file->outputs[0];
  for (int32_t i = 0; i < file->output_count; i++)
    if (strcmp(file->outputs[i].name, "logits") == 0) model->output = &file->outputs[i];
  return NEAP_OK;
}

/* Finds the model's task by the type and rank of its input. */
static neap_status find_task(struct model *model, bool masked) {
  static const struct {
    bool integers;
    int32_t rank;
    neap_task kind;
  } tasks[] = {{false, 4, NEAP_TASK_IMAGES},
               {false, 2, NEAP_TASK_FEATURES},
               {false, 3, NEAP_TASK_VECTORS},
               {true, 2, NEAP_TASK_TOKENS}};
  const struct onnx_value *in = model->input;
  const bool integers = in->type == ONNX_I64 || in->type == ONNX_I32;
  for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
    if (tasks[i].rank != in->rank ||
        (integers ? !tasks[i].integers : in->type != ONNX_F32 || tasks[i].integers))
      continue;
    model->kind = masked && integers ? NEAP_TASK_MASKED : tasks[i].kind;
    RETURN_IF(masked && !integers, NEAP_INVALID_ARGUMENT, "%s: onnx-masked: only applies to models of tokens",
              model->import.file->path);
    return NEAP_OK;
  }
  return neap_fail(NEAP_UNSUPPORTED,
                   "%s: its input '%s' has rank %d and type %s; images are float [N, C, H, W], features [N, "
                   "F], vectors [N, T, K], and tokens int64 [N, T]",
                   model->import.file->path, in->name, in->rank, onnx_type_name(in->type));
}

enum { USUAL_BATCH = 8, USUAL_LENGTH = 128, USUAL_PIXELS = 224, USUAL_CHANNELS = 3 };

static bool is_sequence(neap_task kind) {
  return kind == NEAP_TASK_TOKENS || kind == NEAP_TASK_MASKED || kind == NEAP_TASK_VECTORS;
}

/* Sets the dimensions of the input: those asked for, the file's, or usual ones. */
static neap_status settle_dims(struct model *model, const neap_model_options *o, int64_t batch) {
  const struct onnx_value *in = model->input;
  const bool sequence = is_sequence(model->kind);
  struct import *m = &model->import;
  m->file_batch = in->dims[0] > 0 ? in->dims[0] : 0;
  m->batch = batch > 0 ? batch : o->batch > 0 ? o->batch : m->file_batch > 1 ? m->file_batch : USUAL_BATCH;
  model->dims[0] = m->batch;
  for (int32_t d = 1; d < in->rank; d++) {
    const bool time = sequence && d == 1;
    const int64_t asked = time ? o->length : o->image[sequence ? d - 2 : d - 1], usual = time ? USUAL_LENGTH
                                                                                         : d == 1
                                                                                             ? USUAL_CHANNELS
                                                                                             : USUAL_PIXELS;
    model->dims[d] = asked > 0 ? asked : in->dims[d] > 0 ? in->dims[d] : usual;
    RETURN_IF(in->dims[d] > 0 && in->dims[d] != model->dims[d] && (time || d == 1 || in->rank == 3),
              NEAP_INVALID_ARGUMENT, "%s: its input '%s' has %lld along axis %d, but %lld are requested%s",
              m->file->path, in->name, (long long)in->dims[d], d, (long long)model->dims[d],
              time ? "; use that `length`, or export it with dynamic_shapes" : "");
  }
  return NEAP_OK;
}

static neap_status add_known(struct model *model, const struct onnx_value *input,
                             const struct known_input *known) {
  struct import *m = &model->import;
  struct value *v;
  struct constant *c;
  RETURN_IF(model->kind != NEAP_TASK_TOKENS && model->kind != NEAP_TASK_MASKED, NEAP_UNSUPPORTED,
            "%s: has the input '%s' besides '%s'; a model for training needs exactly one", m->file->path,
            input->name, model->input->name);
  RETURN_IF(input->rank != 2, NEAP_UNSUPPORTED, "%s: its input '%s' must be [N, T]", m->file->path,
            input->name);
  TRY(value_add(m, input->name, &v));
  TRY(constant_create(&m->pool, input->type, 2, model->dims, &c));
  for (int64_t i = 0; i < c->elements; i++)
    c->integers[i] = known->first + known->step * (i % model->dims[1]);
  v->constant = c;
  v->rank = 2;
  memcpy(v->dims, model->dims, sizeof v->dims);
  return NEAP_OK;
}

static neap_status add_inputs(struct model *model) {
  struct import *m = &model->import;
  struct value *v;
  const bool integers = model->kind == NEAP_TASK_TOKENS || model->kind == NEAP_TASK_MASKED;
  for (int32_t i = 0; i < m->file->input_count; i++) {
    const struct known_input *known = find_known(&m->file->inputs[i]);
    if (known != NULL) TRY(add_known(model, &m->file->inputs[i], known));
  }
  TRY(value_add(m, model->input->name, &v));
  v->tensor = neap_input(m->builder, task_rows[model->kind].input, integers ? NEAP_I32 : NEAP_F32,
                         model->input->rank, model->dims);
  RETURN_IF(v->tensor < 0, NEAP_INVALID_ARGUMENT, "%s: its input '%s': %s", m->file->path, v->name,
            neap_error_message());
  v->in_graph = true;
  v->integers = integers;
  v->rank = model->input->rank;
  memcpy(v->dims, model->dims, sizeof v->dims);
  return NEAP_OK;
}

/* ---- Outputs ---- */

static neap_status find_output(struct model *model) {
  struct import *m = &model->import;
  const struct value *v = value_find(m, model->output->name);
  const bool sequence =
      model->kind == NEAP_TASK_TOKENS || model->kind == NEAP_TASK_MASKED || model->kind == NEAP_TASK_VECTORS;
  RETURN_IF(v == NULL || !v->in_graph || v->integers, NEAP_UNSUPPORTED,
            "%s: its output '%s' is not computed from its input", m->file->path, model->output->name);
  if (model->kind == NEAP_TASK_IMAGES && v->rank == 4) model->kind = NEAP_TASK_PIXELS;
  const int32_t rank = sequence ? 3 : model->kind == NEAP_TASK_PIXELS ? 4 : 2;
  bool fits = v->rank == rank && v->dims[0] == m->batch && (!sequence || v->dims[1] == model->dims[1]);
  RETURN_IF(!fits, NEAP_UNSUPPORTED, "%s: its output '%s' is %s; it must be %s for this input %s",
            m->file->path, v->name, dims_text(v->rank, v->dims).text,
            sequence ? "[N, T, classes]" : "[N, classes]", dims_text(model->input->rank, model->dims).text);
  model->logits = v->tensor;
  model->classes = v->dims[sequence ? 2 : 1];
  return NEAP_OK;
}

static neap_tensor add_loss(struct model *model, const neap_model_options *o) {
  neap_builder *b = model->import.builder;
  int64_t dims[NEAP_MAX_RANK] = {0};
  neap_tensor logits = model->logits, label;
  const int rank = neap_shape(b, logits, dims);
  if (o->regression) {
    label = neap_input(b, "label", NEAP_F32, rank, dims);
    neap_output(b, "prediction", logits);
    return neap_mse_loss(b, logits, label);
  }
  neap_output(b, "logits", logits);
  if (rank == 3) {
    const int64_t rows = dims[0] * dims[1];
    label = neap_reshape(b, neap_input(b, "label", NEAP_I32, 2, dims), 1, &rows);
    logits = neap_reshape(b, logits, 2, (int64_t[]){rows, dims[2]});
  } else {
    const int64_t of_pixels[] = {dims[0], dims[2], dims[3]};
    label = neap_input(b, "label", NEAP_I32, rank - 1, of_pixels);
  }
  return neap_softmax_cross_entropy(b, logits, label, o->smoothing);
}

/* ---- The model ---- */

static neap_status check_options(const char *path, const neap_model_options *o) {
  RETURN_IF(o->batch < 0 || o->classes < 0 || o->image[0] < 0 || o->image[1] < 0 || o->image[2] < 0 ||
                o->length < 0,
            NEAP_INVALID_ARGUMENT, "%s: batch, image, length and classes must not be negative", path);
  RETURN_IF(
      o->decode > 0 || o->window > 0 || o->attention != NULL, NEAP_INVALID_ARGUMENT,
      "%s: an ONNX file is one network: it cannot decode token by token, or have another window or other "
      "patterns of attention",
      path);
  RETURN_IF(o->dropout != 0, NEAP_INVALID_ARGUMENT,
            "%s: an ONNX file has the dropout that it was exported with: leave `dropout` out", path);
  return NEAP_OK;
}

/* Reads the file for one shape, up to its output. `batch` above 0 replaces that of the options. Close with
 * import_end, whatever the status. */
static neap_status read_model(struct model *model, const struct onnx_model *from, const neap_model_options *o,
                              int64_t batch, const struct import *as_made) {
  *model = (struct model){.logits = NO_TENSOR};
  TRY(import_begin(&model->import, &from->file));
  model->import.as_made = as_made;
  TRY(find_input(model));
  TRY(find_task(model, from->masked));
  TRY(settle_dims(model, o, batch));
  TRY(add_inputs(model));
  TRY(import_nodes(&model->import));
  return find_output(model);
}

/* Reads the file; if its batch is fixed at another number, first at that one: the differences show the
 * batch. */
static neap_status read_twice(struct model *model, const struct onnx_model *from, const neap_model_options *o,
                              struct model *made) {
  *model = *made = (struct model){0};
  TRY(import_begin(&made->import, &from->file));
  TRY(find_input(made));
  TRY(find_task(made, from->masked));
  TRY(settle_dims(made, o, 0));
  const int64_t batch = made->import.batch, own = made->import.file_batch;
  if (own == 0 || own == batch) return read_model(model, from, o, 0, NULL);
  import_end(&made->import);
  TRY(read_model(made, from, o, own, NULL));
  return read_model(model, from, o, batch, &made->import);
}

/* The same; if the length is open and none is asked for, takes the largest usual one that the model has
 * positions for. */
static neap_status read_fitting(struct model *model, const struct onnx_model *from,
                                const neap_model_options *o, struct model *made) {
  enum { LEAST_LENGTH = 8 };
  neap_model_options shorter = *o;
  neap_status status = read_twice(model, from, o, made);
  for (shorter.length = USUAL_LENGTH / 2; status == NEAP_UNSUPPORTED && shorter.length >= LEAST_LENGTH;
       shorter.length /= 2) {
    const struct model *read = model->input != NULL ? model : made;
    const bool open =
        o->length == 0 && read->input != NULL && is_sequence(read->kind) && read->input->dims[1] < 0;
    if (!open) break;
    import_end(&model->import);
    import_end(&made->import);
    status = read_twice(model, from, &shorter, made);
  }
  return status;
}

static neap_status finish(struct model *model, const neap_model_options *o, neap_graph **graph) {
  struct import *m = &model->import;
  RETURN_IF(o->classes > model->classes && !o->regression, NEAP_INVALID_ARGUMENT,
            "%s: predicts %lld classes, but the data have %lld; give the model a last layer of that size and "
            "export it again",
            m->file->path, (long long)model->classes, (long long)o->classes);
  RETURN_IF(o->regression && o->classes > 0 && o->classes != model->classes, NEAP_INVALID_ARGUMENT,
            "%s: predicts %lld values, but the data have %lld", m->file->path, (long long)model->classes,
            (long long)o->classes);
  RETURN_IF(o->regression && model->kind != NEAP_TASK_IMAGES && model->kind != NEAP_TASK_FEATURES,
            NEAP_INVALID_ARGUMENT, "%s: predicts classes of tokens or of pixels, not values", m->file->path);
  const neap_tensor loss = add_loss(model, o);
  const neap_status status = neap_builder_finish(m->builder, loss, graph);
  return status == NEAP_OK
             ? status
             : neap_fail(status, "%s: %s", m->file->path, region_string(&m->region, neap_error_message()));
}

neap_status onnx_model_build(const void *model, const neap_model_options *o, neap_graph **graph) {
  const struct onnx_model *from = model;
  struct model read, made;
  TRY(check_options(from->file.path, o));
  neap_status status = read_fitting(&read, from, o, &made);
  if (status == NEAP_OK) status = finish(&read, o, graph);
  import_end(&read.import);
  import_end(&made.import);
  return status;
}

static void describe(const struct model *model, neap_model_description *about) {
  const bool sequence = is_sequence(model->kind);
  neap_model_options *usual = &about->usual;
  *usual = (neap_model_options){.batch = model->import.batch, .classes = model->classes};
  about->task = model->kind;
  about->places_grow = true;
  if (sequence) usual->length = model->dims[1];
  for (int32_t d = sequence ? 2 : 1; d < model->input->rank; d++)
    usual->image[d - (sequence ? 2 : 1)] = model->dims[d];
}

neap_status onnx_model_describe(const void *model, neap_model_description *about) {
  struct model read, made;
  const neap_model_options none = {0};
  const neap_status status = read_fitting(&read, model, &none, &made);
  if (status == NEAP_OK) describe(&read, about);
  import_end(&read.import);
  import_end(&made.import);
  return status;
}

/* ---- First values ---- */

static int32_t find_first(const void *context, const char *name) {
  const struct import *m = context;
  for (size_t i = 0; i < m->first.count; i++)
    if (strcmp(m->first.data[i].name, name) == 0) return (int32_t)i;
  return -1;
}

static neap_status read_first(const void *context, int32_t index, float *data) {
  const struct import *m = context;
  const struct first_values *first = &m->first.data[index];
  if (first->weight != NULL) return onnx_read_reals(m->file, first->weight, data);
  for (int64_t i = 0; i < first->constant->elements; i++) data[i] = (float)first->constant->reals[i];
  return NEAP_OK;
}

neap_status import_load(struct import *m, neap_session *session) {
  TRY(session_load_values(session,
                          &(struct value_source){.find = find_first, .read = read_first, .context = m}));
  return session_need_finite(session, m->file->path);
}

neap_status onnx_model_load(const void *model, const neap_model_options *o, neap_session *session) {
  const struct onnx_model *from = model;
  struct model read, made;
  neap_graph *graph = NULL;
  TRY(check_options(from->file.path, o));
  neap_status status = read_fitting(&read, from, o, &made);
  if (status == NEAP_OK) status = finish(&read, o, &graph);
  if (status == NEAP_OK) status = onnx_check(&from->file);
  if (status == NEAP_OK) status = import_load(&read.import, session);
  if (status == NEAP_OK) status = onnx_check(&from->file);
  neap_graph_free(graph);
  import_end(&read.import);
  import_end(&made.import);
  return status;
}

/* ---- The file itself ---- */

neap_status onnx_model_open(const char *path, bool masked, void **model) {
  struct onnx_model *m = calloc(1, sizeof *m);
  RETURN_IF(m == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", path);
  m->masked = masked;
  const neap_status status = onnx_open(path, &m->file);
  if (status == NEAP_OK)
    *model = m;
  else
    onnx_model_close(m);
  return status;
}

void onnx_model_close(void *model) {
  struct onnx_model *m = model;
  onnx_close(&m->file);
  free(m);
}

const char *onnx_model_digest(const void *model) { return ((const struct onnx_model *)model)->file.digest; }

/* ---- Plain graphs ---- */

/* Adds inputs by their names; truths and integers are bytes and i32. */
static neap_status add_plain_inputs(struct import *m) {
  for (int32_t i = 0; i < m->file->input_count; i++) {
    const struct onnx_value *in = &m->file->inputs[i];
    struct value *v;
    const bool integers = in->type == ONNX_I64 || in->type == ONNX_I32;
    int64_t dims[NEAP_MAX_RANK] = {1};
    RETURN_IF(in->rank < 0 || (!integers && in->type != ONNX_F32), NEAP_UNSUPPORTED,
              "%s: input '%s' of the unsupported type %s", m->file->path, in->name, onnx_type_name(in->type));
    for (int32_t d = 0; d < in->rank; d++) dims[d] = in->dims[d] > 0 ? in->dims[d] : 2;
    TRY(value_add(m, in->name, &v));
    v->tensor =
        neap_input(m->builder, in->name, integers ? NEAP_I32 : NEAP_F32, in->rank > 0 ? in->rank : 1, dims);
    RETURN_IF(v->tensor < 0, NEAP_UNSUPPORTED, "%s: %s", m->file->path, neap_error_message());
    v->in_graph = true;
    v->integers = integers;
    v->rank = in->rank;
    memcpy(v->dims, dims, sizeof dims);
  }
  return NEAP_OK;
}

static neap_status build_plain(struct import *m, neap_graph **graph) {
  TRY(add_plain_inputs(m));
  TRY(import_nodes(m));
  for (int32_t i = 0; i < m->file->output_count; i++) {
    struct value *v = value_find(m, m->file->outputs[i].name);
    neap_tensor x;
    RETURN_IF(v == NULL || v->integers || v->constant != NULL || v->parts != NULL, NEAP_UNSUPPORTED,
              "%s: output '%s' is not computed from the inputs", m->file->path, m->file->outputs[i].name);
    TRY(value_tensor(m, v, &x));
    neap_output(m->builder, v->name, x);
  }
  return neap_builder_finish(m->builder, NO_TENSOR, graph);
}

neap_status onnx_build_plain(const struct onnx_file *file, neap_graph **graph, struct import *m) {
  TRY(import_begin(m, file));
  m->batch = 1;
  return build_plain(m, graph);
}
