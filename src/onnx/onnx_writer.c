#include "onnx/onnx_writer.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"

void writer_fail(struct onnx_writer *w, neap_status status) {
  if (w->status != NEAP_OK || status == NEAP_OK) return;
  w->status = status;
  snprintf(w->message, sizeof w->message, "%s", neap_error_message());
}

static void *allocate(struct onnx_writer *w, size_t count, size_t size) {
  void *memory = region_alloc(&w->region, count, size);
  if (memory == NULL) writer_fail(w, neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for an ONNX graph"));
  return memory;
}

static char *text_of(struct onnx_writer *w, const char *text) {
  char *copy = region_string(&w->region, text);
  if (copy == NULL) writer_fail(w, neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for an ONNX graph"));
  return copy;
}

const char *writer_name(struct onnx_writer *w, const char *stem) {
  const char *name = region_format(&w->region, "%s_%d", stem, ++w->names);
  if (name == NULL) writer_fail(w, neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for an ONNX graph"));
  return name;
}

/* ---- Nodes ---- */

const char *writer_node(struct onnx_writer *w, const char *op, const char *output, int32_t count,
                        const char *const *inputs) {
  Onnx__NodeProto *node = allocate(w, 1, sizeof *node);
  const char *name = output != NULL ? output : writer_name(w, op);
  char **in = allocate(w, (size_t)count + 1, sizeof *in), **out = allocate(w, 1, sizeof *out);
  if (w->status != NEAP_OK) return "";
  onnx__node_proto__init(node);
  while (count > 0 && inputs[count - 1] == NULL) count--;
  for (int32_t i = 0; i < count; i++) in[i] = text_of(w, inputs[i] != NULL ? inputs[i] : "");
  out[0] = text_of(w, name);
  node->op_type = text_of(w, op);
  node->name = out[0];
  node->input = in;
  node->n_input = (size_t)count;
  node->output = out;
  node->n_output = 1;
  writer_fail(w, vector_push(&w->nodes, node));
  return name;
}

void writer_prefix(struct onnx_writer *w, const char *prefix) {
  if (w->status != NEAP_OK) return;
  Onnx__NodeProto *node = w->nodes.data[w->nodes.count - 1];
  char *name = region_format(&w->region, "%s%s", prefix, node->output[0]);
  if (name == NULL) writer_fail(w, neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for an ONNX file"));
  if (name != NULL) node->name = name;
}

static Onnx__AttributeProto *add_attribute(struct onnx_writer *w, const char *name,
                                           Onnx__AttributeProto__AttributeType type) {
  Onnx__AttributeProto *a = allocate(w, 1, sizeof *a);
  if (w->status != NEAP_OK) return NULL;
  Onnx__NodeProto *node = w->nodes.data[w->nodes.count - 1];
  Onnx__AttributeProto **all = allocate(w, node->n_attribute + 1, sizeof(Onnx__AttributeProto *));
  if (all == NULL) return NULL;
  onnx__attribute_proto__init(a);
  a->name = text_of(w, name);
  a->has_type = true;
  a->type = type;
  if (node->n_attribute > 0) memcpy(all, node->attribute, node->n_attribute * sizeof *all);
  all[node->n_attribute++] = a;
  node->attribute = all;
  return w->status == NEAP_OK ? a : NULL;
}

void writer_integer(struct onnx_writer *w, const char *name, int64_t value) {
  Onnx__AttributeProto *a = add_attribute(w, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
  if (a == NULL) return;
  a->has_i = true;
  a->i = value;
}

void writer_real(struct onnx_writer *w, const char *name, float value) {
  Onnx__AttributeProto *a = add_attribute(w, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
  if (a == NULL) return;
  a->has_f = true;
  a->f = value;
}

void writer_text(struct onnx_writer *w, const char *name, const char *value) {
  Onnx__AttributeProto *a = add_attribute(w, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
  if (a == NULL) return;
  a->has_s = true;
  a->s.data = (uint8_t *)text_of(w, value);
  a->s.len = strlen(value);
}

void writer_integers(struct onnx_writer *w, const char *name, int32_t count, const int64_t *values) {
  Onnx__AttributeProto *a = add_attribute(w, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
  int64_t *own = allocate(w, (size_t)count + 1, sizeof *own);
  if (a == NULL || own == NULL) return;
  memcpy(own, values, (size_t)count * sizeof *own);
  a->ints = own;
  a->n_ints = (size_t)count;
}

/* ---- Tensors ---- */

static void add_tensor(struct onnx_writer *w, const char *name, int32_t type, int32_t rank,
                       const int64_t *dims, size_t bytes, const void *data) {
  Onnx__TensorProto *t = allocate(w, 1, sizeof *t);
  int64_t *own = allocate(w, (size_t)rank + 1, sizeof *own);
  if (w->status != NEAP_OK) return;
  onnx__tensor_proto__init(t);
  if (rank > 0) memcpy(own, dims, (size_t)rank * sizeof *own);
  t->name = text_of(w, name);
  t->dims = own;
  t->n_dims = (size_t)rank;
  t->has_data_type = true;
  t->data_type = type;
  t->has_raw_data = true;
  t->raw_data = (ProtobufCBinaryData){bytes, (uint8_t *)data}; /* only read */
  writer_fail(w, vector_push(&w->tensors, t));
}

static void *copied(struct onnx_writer *w, const void *data, size_t bytes) {
  void *own = allocate(w, bytes + 1, 1);
  if (own != NULL && bytes > 0) memcpy(own, data, bytes);
  return own;
}

const char *writer_integers_tensor(struct onnx_writer *w, int32_t count, const int64_t *values) {
  const char *name = writer_name(w, "constant");
  const int64_t dims = count;
  const size_t bytes = (size_t)count * sizeof *values;
  add_tensor(w, name, ONNX_I64, 1, &dims, bytes, copied(w, values, bytes));
  return name;
}

const char *writer_reals(struct onnx_writer *w, int32_t rank, const int64_t *dims, const float *values) {
  const char *name = writer_name(w, "constant");
  size_t bytes = sizeof *values;
  for (int32_t d = 0; d < rank; d++) bytes *= (size_t)dims[d];
  add_tensor(w, name, ONNX_F32, rank, dims, bytes, copied(w, values, bytes));
  return name;
}

const char *writer_number(struct onnx_writer *w, float value) { return writer_reals(w, 0, NULL, &value); }

void writer_weight(struct onnx_writer *w, const char *name, int32_t rank, const int64_t *dims,
                   const float *values) {
  size_t bytes = sizeof *values;
  for (int32_t d = 0; d < rank; d++) bytes *= (size_t)dims[d];
  add_tensor(w, name, ONNX_F32, rank, dims, bytes, values);
}

/* ---- Inputs and outputs ---- */

static Onnx__ValueInfoProto *value_info(struct onnx_writer *w, const char *name, int32_t type, int32_t rank,
                                        const int64_t *dims) {
  Onnx__ValueInfoProto *value = allocate(w, 1, sizeof *value);
  Onnx__TypeProto *of = allocate(w, 1, sizeof *of);
  Onnx__TypeProto__Tensor *tensor = allocate(w, 1, sizeof *tensor);
  Onnx__TensorShapeProto *shape = allocate(w, 1, sizeof *shape);
  Onnx__TensorShapeProto__Dimension **list = allocate(w, (size_t)rank + 1, sizeof(void *)),
                                    *each = allocate(w, (size_t)rank + 1, sizeof *each);
  if (w->status != NEAP_OK) return NULL;
  onnx__value_info_proto__init(value);
  onnx__type_proto__init(of);
  onnx__type_proto__tensor__init(tensor);
  onnx__tensor_shape_proto__init(shape);
  for (int32_t d = 0; d < rank; d++) {
    onnx__tensor_shape_proto__dimension__init(&each[d]);
    list[d] = &each[d];
    each[d].value_case = dims[d] < 0 ? ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM
                                     : ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    if (dims[d] < 0)
      each[d].dim_param = text_of(w, d == 0 ? "batch" : "open");
    else
      each[d].dim_value = dims[d];
  }
  shape->dim = list;
  shape->n_dim = (size_t)rank;
  tensor->has_elem_type = true;
  tensor->elem_type = type;
  tensor->shape = shape;
  of->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
  of->tensor_type = tensor;
  value->name = text_of(w, name);
  value->type = of;
  return value;
}

void writer_input(struct onnx_writer *w, const char *name, int32_t type, int32_t rank, const int64_t *dims) {
  Onnx__ValueInfoProto *value = value_info(w, name, type, rank, dims);
  if (value != NULL) writer_fail(w, vector_push(&w->inputs, value));
}

void writer_output(struct onnx_writer *w, const char *name, int32_t type, int32_t rank, const int64_t *dims) {
  Onnx__ValueInfoProto *value = value_info(w, name, type, rank, dims);
  if (value != NULL) writer_fail(w, vector_push(&w->outputs, value));
}

/* ---- The file ---- */

/* The limit on one file: sizes in it have 31 bits. */
static const uint64_t FILE_LIMIT = (uint64_t)1900 << 20;

struct data_file {
  const struct onnx_writer *w;
  ProtobufCBinaryData *parts; /* by tensor; no data: it is in the file itself */
};

static bool write_data(FILE *file, const void *context) {
  const struct data_file *data = context;
  for (size_t i = 0; i < data->w->tensors.count; i++)
    if (data->parts[i].len > 0 &&
        fwrite(data->parts[i].data, 1, data->parts[i].len, file) != data->parts[i].len)
      return false;
  return true;
}

static Onnx__StringStringEntryProto *entry(struct onnx_writer *w, const char *key, const char *value) {
  Onnx__StringStringEntryProto *e = allocate(w, 1, sizeof *e);
  if (e == NULL) return NULL;
  onnx__string_string_entry_proto__init(e);
  e->key = text_of(w, key);
  e->value = text_of(w, value);
  return e;
}

/* Moves a tensor's data after those of the others. */
static void move_out(struct onnx_writer *w, Onnx__TensorProto *t, const char *location, uint64_t *offset,
                     ProtobufCBinaryData *part) {
  char number[2][24];
  Onnx__StringStringEntryProto **entries = allocate(w, 3, sizeof(void *));
  if (entries == NULL) return;
  snprintf(number[0], sizeof number[0], "%llu", (unsigned long long)*offset);
  snprintf(number[1], sizeof number[1], "%zu", t->raw_data.len);
  entries[0] = entry(w, "location", location);
  entries[1] = entry(w, "offset", number[0]);
  entries[2] = entry(w, "length", number[1]);
  *part = t->raw_data;
  *offset += t->raw_data.len;
  t->has_raw_data = false;
  t->raw_data = (ProtobufCBinaryData){0};
  t->external_data = entries;
  t->n_external_data = 3;
  t->has_data_location = true;
  t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
}

static neap_status write_external(struct onnx_writer *w, const char *path) {
  enum { SMALL = 1024 }; /* bytes; tensors up to this size stay in the model's file */
  uint64_t all = 0, offset = 0;
  for (size_t i = 0; i < w->tensors.count; i++) all += w->tensors.data[i]->raw_data.len;
  if (all <= FILE_LIMIT) return NEAP_OK;
  const char *file = region_format(&w->region, "%s.data", path),
             *slash = file != NULL ? strrchr(file, '/') : NULL;
  struct data_file data = {w, allocate(w, w->tensors.count + 1, sizeof *data.parts)};
  RETURN_IF(file == NULL || data.parts == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", path);
  for (size_t i = 0; i < w->tensors.count; i++)
    if (w->tensors.data[i]->raw_data.len > SMALL)
      move_out(w, w->tensors.data[i], slash != NULL ? slash + 1 : file, &offset, &data.parts[i]);
  if (w->status != NEAP_OK) return w->status;
  return file_write(file, write_data, &data);
}

/* Writes the output of protobuf-c to the file. */
struct sink {
  ProtobufCBuffer base;
  FILE *file;
  bool whole;
};

static void append(ProtobufCBuffer *buffer, size_t count, const uint8_t *bytes) {
  struct sink *sink = (struct sink *)buffer;
  sink->whole = sink->whole && fwrite(bytes, 1, count, sink->file) == count;
}

static bool write_model(FILE *file, const void *context) {
  struct sink sink = {.base = {append}, .file = file, .whole = true};
  onnx__model_proto__pack_to_buffer(context, &sink.base);
  return sink.whole;
}

neap_status onnx_write(struct onnx_writer *w, const char *path, const char *title) {
  Onnx__ModelProto model;
  Onnx__OperatorSetIdProto opset, *opsets = &opset;
  RETURN_IF(w->status != NEAP_OK, w->status, "%s", w->message);
  TRY(write_external(w, path));
  onnx__graph_proto__init(&w->graph);
  onnx__model_proto__init(&model);
  onnx__operator_set_id_proto__init(&opset);
  opset.domain = "";
  opset.has_version = true;
  opset.version = WRITER_OPSET;
  w->graph.name = text_of(w, title);
  w->graph.node = w->nodes.data;
  w->graph.n_node = w->nodes.count;
  w->graph.initializer = w->tensors.data;
  w->graph.n_initializer = w->tensors.count;
  w->graph.input = w->inputs.data;
  w->graph.n_input = w->inputs.count;
  w->graph.output = w->outputs.data;
  w->graph.n_output = w->outputs.count;
  model.has_ir_version = true;
  model.ir_version = 8;
  model.producer_name = "neap";
  model.producer_version = NEAP_VERSION;
  model.opset_import = &opsets;
  model.n_opset_import = 1;
  model.graph = &w->graph;
  RETURN_IF(w->status != NEAP_OK, w->status, "%s", w->message);
  return file_write(path, write_model, &model);
}

void writer_free(struct onnx_writer *w) {
  vector_free(&w->nodes);
  vector_free(&w->tensors);
  vector_free(&w->inputs);
  vector_free(&w->outputs);
  region_free(&w->region);
}
