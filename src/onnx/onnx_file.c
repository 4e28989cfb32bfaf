#include "onnx/onnx_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/half.h"
#include "base/sha256.h"
#include "onnx/onnx_wire.h"
#include "text/utf8.h"
#include <onnx.pb-c.h>

/* ---- Types ---- */

static const struct type_row {
  int32_t type;
  const char *name;
  size_t bytes;
  bool real;
} type_rows[] = {
    {ONNX_F32, "float", 4, true},    {ONNX_U8, "uint8", 1, false},   {ONNX_I8, "int8", 1, false},
    {ONNX_U16, "uint16", 2, false},  {ONNX_I16, "int16", 2, false},  {ONNX_I32, "int32", 4, false},
    {ONNX_I64, "int64", 8, false},   {ONNX_BOOL, "bool", 1, false},  {ONNX_F16, "float16", 2, true},
    {ONNX_F64, "double", 8, true},   {ONNX_U32, "uint32", 4, false}, {ONNX_U64, "uint64", 8, false},
    {ONNX_BF16, "bfloat16", 2, true}};

static const struct type_row *find_type(int32_t type) {
  for (size_t i = 0; i < sizeof type_rows / sizeof *type_rows; i++)
    if (type_rows[i].type == type) return &type_rows[i];
  return NULL;
}

bool onnx_type_is_real(int32_t type) {
  const struct type_row *row = find_type(type);
  return row != NULL && row->real;
}

const char *onnx_type_name(int32_t type) {
  const struct type_row *row = find_type(type);
  return row != NULL ? row->name : "an unsupported type";
}

/* ---- Names ---- */

/* Fails unless a name is UTF-8: names become those of parameters, in files that are UTF-8. */
static neap_status check_name(const struct onnx_file *file, const char *what, const char *name) {
  const struct text text = {.bytes = name, .length = strlen(name), .name = file->path};
  RETURN_IF(utf8_check(&text) != NEAP_OK, NEAP_BAD_FORMAT, "%s: the name of %s is not UTF-8", file->path,
            what);
  return NEAP_OK;
}

/* ---- Tensors ---- */

/* Reads the place of elements in another file, whose path must stay below the folder of the model. */
static neap_status read_location(const struct onnx_file *file, const Onnx__TensorProto *proto,
                                 struct onnx_tensor *t) {
  for (size_t i = 0; i < proto->n_external_data; i++) {
    const char *key = proto->external_data[i]->key, *value = proto->external_data[i]->value;
    char *end = "";
    if (key == NULL || value == NULL) continue;
    if (strcmp(key, "location") == 0) t->location = value;
    if (strcmp(key, "offset") == 0) t->offset = strtoull(value, &end, 10);
    RETURN_IF(*end != '\0' || (strcmp(key, "offset") == 0 && (value[0] < '0' || value[0] > '9')),
              NEAP_BAD_FORMAT,
              "%s: tensor '%s': the offset of its external data is '%s'; it must be a number", file->path,
              t->name, value);
  }
  RETURN_IF(t->location == NULL || t->location[0] == '\0', NEAP_BAD_FORMAT,
            "%s: tensor '%s': its external data have no location", file->path, t->name);
  bool leaves = t->location[0] == '/';
  for (const char *part = t->location; part != NULL; part = strchr(part, '/')) {
    part += *part == '/';
    leaves = leaves || (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0'));
    if (strchr(part, '/') == NULL) break;
  }
  RETURN_IF(leaves, NEAP_BAD_FORMAT,
            "%s: tensor '%s': its external data are in '%s', outside the model's folder; save the model with "
            "its data in the same folder",
            file->path, t->name, t->location);
  return NEAP_OK;
}

struct stored {
  const void *data;
  int32_t type;
  size_t count, bytes; /* elements; 0 bytes: elements are counted, not bytes */
};

/* Returns the one field that has the elements. */
static struct stored stored_in(const Onnx__TensorProto *p) {
  if (p->has_raw_data) return (struct stored){p->raw_data.data, p->data_type, 0, p->raw_data.len};
  if (p->n_float_data > 0) return (struct stored){p->float_data, ONNX_F32, p->n_float_data, 0};
  if (p->n_int32_data > 0) return (struct stored){p->int32_data, ONNX_I32, p->n_int32_data, 0};
  if (p->n_int64_data > 0) return (struct stored){p->int64_data, ONNX_I64, p->n_int64_data, 0};
  if (p->n_double_data > 0) return (struct stored){p->double_data, ONNX_F64, p->n_double_data, 0};
  if (p->n_uint64_data > 0) return (struct stored){p->uint64_data, ONNX_U64, p->n_uint64_data, 0};
  return (struct stored){NULL, p->data_type, 0, 0};
}

/* Returns true if a field may hold elements of this type: fields of numbers have their own; smaller ones are
 * in integers of 32 bits, U32 in U64. */
static bool may_store(int32_t stored, int32_t type) {
  const size_t bytes = find_type(type)->bytes;
  return stored == type || (stored == ONNX_U64 && type == ONNX_U32) || (stored == ONNX_I32 && bytes < 4);
}

static neap_status read_data(const struct onnx_file *file, const Onnx__TensorProto *proto,
                             struct onnx_tensor *t, size_t width) {
  if (proto->has_data_location && proto->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
    return read_location(file, proto, t);
  const struct stored s = stored_in(proto);
  const bool raw = s.count == 0;
  RETURN_IF(!raw && !may_store(s.type, t->type), NEAP_BAD_FORMAT,
            "%s: tensor '%s' of type %s stores its elements as %s; the file is damaged", file->path, t->name,
            onnx_type_name(t->type), onnx_type_name(s.type));
  const uint64_t has = raw ? s.bytes / width : s.count;
  RETURN_IF(has != (uint64_t)t->elements || (raw && s.bytes % width != 0), NEAP_BAD_FORMAT,
            "%s: tensor '%s' has %llu elements, but its shape has %lld; the file is damaged", file->path,
            t->name, (unsigned long long)has, (long long)t->elements);
  t->data = t->elements > 0 ? s.data : "";
  t->stored = s.type;
  return NEAP_OK;
}

static const int64_t ELEMENTS_LIMIT = (int64_t)1 << 40;

static neap_status read_tensor(const struct onnx_file *file, const Onnx__TensorProto *proto,
                               struct onnx_tensor *t) {
  const struct type_row *type = find_type(proto->data_type);
  *t = (struct onnx_tensor){.name = proto->name != NULL ? proto->name : "",
                            .type = proto->data_type,
                            .stored = proto->data_type,
                            .rank = (int32_t)proto->n_dims,
                            .elements = 1};
  TRY(check_name(file, "a tensor", t->name));
  RETURN_IF(type == NULL, NEAP_UNSUPPORTED, "%s: tensor '%s' has elements of the unsupported type %d",
            file->path, t->name, proto->data_type);
  RETURN_IF(proto->n_dims > NEAP_MAX_RANK, NEAP_UNSUPPORTED,
            "%s: tensor '%s' has %zu dimensions; at most %d are supported", file->path, t->name,
            proto->n_dims, NEAP_MAX_RANK);
  for (size_t d = 0; d < proto->n_dims; d++) {
    t->dims[d] = proto->dims[d];
    RETURN_IF(t->dims[d] < 0 || __builtin_mul_overflow(t->elements, t->dims[d], &t->elements) ||
                  t->elements > ELEMENTS_LIMIT,
              NEAP_BAD_FORMAT, "%s: tensor '%s': dimension %zu has the invalid size %lld", file->path,
              t->name, d, (long long)t->dims[d]);
  }
  return read_data(file, proto, t, type->bytes);
}

/* ---- Elements ---- */

static double as_real(int32_t type, int32_t stored, const unsigned char *at) {
  uint16_t half;
  int32_t word;
  float real;
  double wide;
  if (stored == ONNX_F64) return memcpy(&wide, at, sizeof wide), wide;
  if (stored == ONNX_F32) return memcpy(&real, at, sizeof real), (double)real;
  memcpy(&half, at, sizeof half);
  if (stored == ONNX_I32) memcpy(&word, at, sizeof word), half = (uint16_t)word; /* in a field of integers */
  return (double)(type == ONNX_F16 ? f16_to_float(half) : bf16_to_float(half));
}

static int64_t as_integer(int32_t stored, const unsigned char *at) {
  switch (stored) {
#define INTEGER(ONNX, type)                                                                                  \
  case ONNX: {                                                                                               \
    type value;                                                                                              \
    memcpy(&value, at, sizeof value);                                                                        \
    return (int64_t)value;                                                                                   \
  }
    INTEGER(ONNX_I8, int8_t)
    INTEGER(ONNX_U16, uint16_t)
    INTEGER(ONNX_I16, int16_t)
    INTEGER(ONNX_I32, int32_t)
    INTEGER(ONNX_U32, uint32_t)
    INTEGER(ONNX_I64, int64_t)
    INTEGER(ONNX_U64, uint64_t)
#undef INTEGER
  default:
    return *at; /* bytes and truths */
  }
}

/* Refuses links below the model's folder, which may lead out of it. */
static neap_status need_no_link(const struct onnx_file *file, const struct onnx_tensor *t, const char *path,
                                int folder) {
  struct region region = {0};
  neap_status status = NEAP_OK;
  for (const char *end = path + folder; end != NULL && status == NEAP_OK;) {
    end = strchr(end + 1, '/');
    const char *part = end != NULL ? region_format(&region, "%.*s", (int)(end - path), path) : path;
    struct stat s;
    if (part == NULL) status = neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", file->path);
    if (part != NULL && lstat(part, &s) == 0 && S_ISLNK(s.st_mode))
      status = neap_fail(
          NEAP_BAD_FORMAT,
          "%s: tensor '%s': %s, where its external data are, is a symbolic link; put the file itself there",
          file->path, t->name, part);
  }
  region_free(&region);
  return status;
}

/* Reads elements that are still in the file. */
static neap_status fetch_own(const struct onnx_file *file, const struct onnx_tensor *t,
                             const unsigned char **data, unsigned char **own) {
  const size_t bytes = (size_t)t->elements * find_type(t->stored)->bytes;
  *own = malloc(bytes);
  RETURN_IF(*own == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", file->path);
  const neap_status status = file_need_at(file->path, file->descriptor, t->offset, *own, bytes);
  *data = *own;
  if (status != NEAP_OK) free(*own);
  return status;
}

/* Gives elements in the file's form; `own`: to be freed. */
static neap_status fetch(const struct onnx_file *file, const struct onnx_tensor *t,
                         const unsigned char **data, unsigned char **own) {
  struct region region = {0};
  *own = NULL;
  *data = t->data;
  if (t->data != NULL) return NEAP_OK;
  if (t->location == NULL) return fetch_own(file, t, data, own);
  const char *slash = strrchr(file->path, '/');
  const int folder = slash != NULL ? (int)(slash - file->path) + 1 : 0;
  const char *path = region_format(&region, "%.*s%s", folder, file->path, t->location);
  const size_t bytes = (size_t)t->elements * find_type(t->stored)->bytes;
  int descriptor = -1;
  uint64_t size = 0;
  neap_status status = NEAP_OK;
  if (path == NULL) TRY_DONE(neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", file->path));
  TRY_DONE(need_no_link(file, t, path, folder));
  status = file_open(path, &descriptor, &size);
  if (status != NEAP_OK)
    TRY_DONE(neap_fail(
        status, "%s: tensor '%s': its data are in %s, which cannot be read; put that file next to the model",
        file->path, t->name, path));
  if (t->offset > size || bytes > size - t->offset)
    TRY_DONE(neap_fail(NEAP_BAD_FORMAT,
                       "%s: tensor '%s': %s has %llu bytes, but its data are %zu bytes at offset %llu; it "
                       "was cut or belongs to another model",
                       file->path, t->name, path, (unsigned long long)size, bytes,
                       (unsigned long long)t->offset));
  *own = malloc(bytes + 1);
  if (*own == NULL) TRY_DONE(neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", file->path));
  status = file_need_at(path, descriptor, t->offset, *own, bytes);
  *data = *own;
done:
  if (descriptor >= 0) close(descriptor);
  if (status != NEAP_OK) free(*own);
  region_free(&region);
  return status;
}

neap_status onnx_read_reals(const struct onnx_file *file, const struct onnx_tensor *t, float *reals) {
  const size_t width = find_type(t->stored)->bytes;
  const unsigned char *data;
  unsigned char *own;
  TRY(fetch(file, t, &data, &own));
  const bool real = onnx_type_is_real(t->type);
  if (t->stored == ONNX_F32 && real)
    memcpy(reals, data, (size_t)t->elements * sizeof *reals);
  else
    for (int64_t i = 0; i < t->elements; i++)
      reals[i] = (float)(real ? as_real(t->type, t->stored, data + (size_t)i * width)
                              : (double)as_integer(t->stored, data + (size_t)i * width));
  free(own);
  return NEAP_OK;
}

neap_status onnx_read_integers(const struct onnx_file *file, const struct onnx_tensor *t, int64_t *integers) {
  const size_t width = find_type(t->stored)->bytes;
  const unsigned char *data;
  unsigned char *own;
  RETURN_IF(onnx_type_is_real(t->type), NEAP_UNSUPPORTED, "%s: tensor '%s' of type %s must have integers",
            file->path, t->name, onnx_type_name(t->type));
  TRY(fetch(file, t, &data, &own));
  for (int64_t i = 0; i < t->elements; i++) integers[i] = as_integer(t->stored, data + (size_t)i * width);
  free(own);
  return NEAP_OK;
}

/* Larger numbers belong to masks, which training does not change. */
static const float MASK_NUMBER = 1e30f;
enum { MASK_ELEMENTS = 1 << 22 };

static neap_status find_mask(const struct onnx_file *file, struct onnx_tensor *t) {
  if (!onnx_type_is_real(t->type) || t->rank == 0 || t->data == NULL || t->elements > MASK_ELEMENTS)
    return NEAP_OK;
  float *reals = malloc((size_t)t->elements * sizeof *reals + 1);
  RETURN_IF(reals == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", file->path);
  const neap_status status = onnx_read_reals(file, t, reals);
  for (int64_t i = 0; status == NEAP_OK && i < t->elements; i++)
    t->mask = t->mask || reals[i] > MASK_NUMBER || reals[i] < -MASK_NUMBER;
  free(reals);
  return status;
}

/* Frees the raw data of large initializers, which are read from the file when they are needed. `text`: the
 * whole file. */
static neap_status leave_in_file(struct onnx_file *file, Onnx__GraphProto *graph, const unsigned char *text,
                                 size_t bytes) {
  enum { LARGE = 1 << 16 };
  uint64_t *places = region_alloc(&file->region, graph->n_initializer, sizeof *places);
  RETURN_IF(places == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", file->path);
  onnx_find_data(text, bytes, places, graph->n_initializer);
  for (int32_t i = 0; i < file->tensor_count; i++) {
    struct onnx_tensor *t = (struct onnx_tensor *)&file->tensors[i];
    ProtobufCBinaryData *raw = &graph->initializer[i]->raw_data;
    if (t->data == NULL || t->data != raw->data || raw->len < LARGE || places[i] == 0) continue;
    if (raw->len > bytes - places[i] || memcmp(text + places[i], raw->data, raw->len) != 0) continue;
    free(raw->data);
    raw->data = NULL;
    raw->len = 0;
    t->data = NULL;
    t->offset = places[i];
  }
  return NEAP_OK;
}

/* ---- Nodes ---- */

static neap_status read_attribute(struct onnx_file *file, const Onnx__AttributeProto *proto,
                                  struct onnx_attribute *a) {
  *a = (struct onnx_attribute){.name = proto->name != NULL ? proto->name : "",
                               .kind = (int32_t)proto->type,
                               .real = proto->f,
                               .integer = proto->i,
                               .text = "",
                               .reals = proto->floats,
                               .integers = proto->ints};
  a->count = (int32_t)(a->kind == ONNX_FLOATS ? proto->n_floats : a->kind == ONNX_INTS ? proto->n_ints : 0);
  if (a->kind == ONNX_STRING) {
    char *text = region_alloc(&file->region, proto->s.len + 1, 1);
    RETURN_IF_NULL(text);
    if (proto->s.len > 0) memcpy(text, proto->s.data, proto->s.len);
    a->text = text;
  }
  if (a->kind != ONNX_TENSOR) return NEAP_OK;
  RETURN_IF(proto->t == NULL, NEAP_BAD_FORMAT, "%s: attribute '%s' has no tensor", file->path, a->name);
  struct onnx_tensor *tensor = region_alloc(&file->region, 1, sizeof *tensor);
  RETURN_IF_NULL(tensor);
  a->tensor = tensor;
  return read_tensor(file, proto->t, tensor);
}

static neap_status read_node(struct onnx_file *file, const Onnx__NodeProto *proto, struct onnx_node *n) {
  struct onnx_attribute *attributes = region_alloc(&file->region, proto->n_attribute, sizeof *attributes);
  RETURN_IF_NULL(attributes);
  *n = (struct onnx_node){.name = proto->name != NULL ? proto->name : "",
                          .op = proto->op_type != NULL ? proto->op_type : "",
                          .domain = proto->domain != NULL ? proto->domain : "",
                          .inputs = proto->input,
                          .outputs = proto->output,
                          .input_count = (int32_t)proto->n_input,
                          .output_count = (int32_t)proto->n_output,
                          .attribute_count = (int32_t)proto->n_attribute,
                          .attributes = attributes};
  if (strcmp(n->domain, "ai.onnx") == 0) n->domain = "";
  if (n->name[0] == '\0' && n->output_count > 0) n->name = n->outputs[0];
  TRY(check_name(file, "a node", n->name));
  for (size_t i = 0; i < proto->n_input; i++) TRY(check_name(file, "a node's input", proto->input[i]));
  for (size_t i = 0; i < proto->n_output; i++) TRY(check_name(file, "a node's output", proto->output[i]));
  for (size_t i = 0; i < proto->n_attribute; i++)
    TRY(read_attribute(file, proto->attribute[i], &attributes[i]));
  return NEAP_OK;
}

const struct onnx_attribute *onnx_attribute(const struct onnx_node *node, const char *name) {
  for (int32_t i = 0; i < node->attribute_count; i++)
    if (strcmp(node->attributes[i].name, name) == 0) return &node->attributes[i];
  return NULL;
}

/* ---- The graph ---- */

static neap_status read_value(const struct onnx_file *file, const Onnx__ValueInfoProto *proto,
                              struct onnx_value *v) {
  *v = (struct onnx_value){.name = proto->name != NULL ? proto->name : "", .rank = -1};
  TRY(check_name(file, "an input or output", v->name));
  if (proto->type == NULL || proto->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) return NEAP_OK;
  const Onnx__TypeProto__Tensor *tensor = proto->type->tensor_type;
  v->type = tensor->elem_type;
  if (tensor->shape == NULL) return NEAP_OK;
  RETURN_IF(tensor->shape->n_dim > NEAP_MAX_RANK, NEAP_UNSUPPORTED,
            "%s: '%s' has %zu dimensions; at most %d are supported", file->path, v->name,
            tensor->shape->n_dim, NEAP_MAX_RANK);
  v->rank = (int32_t)tensor->shape->n_dim;
  for (int32_t d = 0; d < v->rank; d++) {
    const Onnx__TensorShapeProto__Dimension *dim = tensor->shape->dim[d];
    const bool known = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    v->dims[d] = known ? dim->dim_value : -1;
  }
  return NEAP_OK;
}

static neap_status read_opset(struct onnx_file *file, const Onnx__ModelProto *proto) {
  for (size_t i = 0; i < proto->n_opset_import; i++) {
    const char *domain = proto->opset_import[i]->domain;
    if (domain == NULL || domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0)
      file->opset = proto->opset_import[i]->version;
  }
  RETURN_IF(file->opset < 1, NEAP_BAD_FORMAT, "%s: does not name its version of ONNX's operators (opset)",
            file->path);
  return NEAP_OK;
}

static bool is_tensor(const struct onnx_file *file, const char *name) {
  for (int32_t i = 0; i < file->tensor_count; i++)
    if (strcmp(file->tensors[i].name, name) == 0) return true;
  return false;
}

static neap_status check_dims(const struct onnx_file *file, const struct onnx_value *v) {
  for (int32_t d = 0; d < v->rank; d++)
    RETURN_IF(v->dims[d] < 1 && v->dims[d] != -1, NEAP_UNSUPPORTED,
              "%s: dimension %d of '%s' must be 1 or more (got %lld)", file->path, d, v->name,
              (long long)v->dims[d]);
  return NEAP_OK;
}

/* Reads the values; older files list initializers among the inputs too. */
static neap_status read_values(struct onnx_file *file, const Onnx__GraphProto *graph) {
  struct onnx_value *inputs = region_alloc(&file->region, graph->n_input, sizeof *inputs),
                    *outputs = region_alloc(&file->region, graph->n_output, sizeof *outputs);
  RETURN_IF(inputs == NULL || outputs == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", file->path);
  file->inputs = inputs;
  file->outputs = outputs;
  for (size_t i = 0; i < graph->n_input; i++) {
    TRY(read_value(file, graph->input[i], &inputs[file->input_count]));
    if (is_tensor(file, inputs[file->input_count].name)) continue;
    TRY(check_dims(file, &inputs[file->input_count++]));
  }
  for (size_t i = 0; i < graph->n_output; i++)
    TRY(read_value(file, graph->output[i], &outputs[file->output_count++]));
  return NEAP_OK;
}

static neap_status read_graph(struct onnx_file *file, const Onnx__GraphProto *graph) {
  RETURN_IF(graph == NULL, NEAP_BAD_FORMAT, "%s: has no graph; is it an ONNX file?", file->path);
  RETURN_IF(graph->n_sparse_initializer > 0, NEAP_UNSUPPORTED,
            "%s: has sparse tensors, which are not supported", file->path);
  struct onnx_tensor *tensors = region_alloc(&file->region, graph->n_initializer, sizeof *tensors);
  struct onnx_node *nodes = region_alloc(&file->region, graph->n_node, sizeof *nodes);
  RETURN_IF(tensors == NULL || nodes == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", file->path);
  file->tensors = tensors;
  file->nodes = nodes;
  for (size_t i = 0; i < graph->n_initializer; i++) {
    TRY(read_tensor(file, graph->initializer[i], &tensors[i]));
    TRY(find_mask(file, &tensors[i]));
    file->tensor_count++;
  }
  for (size_t i = 0; i < graph->n_node; i++) {
    TRY(read_node(file, graph->node[i], &nodes[i]));
    file->node_count++;
  }
  return read_values(file, graph);
}

/* Reads the file from its bytes. */
static neap_status parse(struct onnx_file *file, const unsigned char *text, size_t bytes) {
  struct sha256 hash;
  TRY(onnx_check_nesting(file->path, text, bytes));
  sha256_start(&hash);
  sha256_feed(&hash, text, bytes);
  sha256_finish(&hash, file->digest);
  Onnx__ModelProto *proto = onnx__model_proto__unpack(NULL, bytes, text);
  RETURN_IF(proto == NULL, NEAP_BAD_FORMAT, "%s: is not an ONNX file, or is cut or damaged; export it again",
            file->path);
  file->proto = proto;
  TRY(read_graph(file, proto->graph));
  TRY(read_opset(file, proto));
  return leave_in_file(file, proto->graph, text, bytes);
}

static neap_status read_all(struct onnx_file *file) {
  const uint64_t bytes = file->stamp.bytes;
  RETURN_IF(bytes == 0, NEAP_BAD_FORMAT, "%s: is empty", file->path);
  RETURN_IF(bytes > INT32_MAX, NEAP_UNSUPPORTED,
            "%s: has %llu bytes; an ONNX file has at most 2^31 - 1, larger weights need external data",
            file->path, (unsigned long long)bytes);
  unsigned char *text = malloc((size_t)bytes);
  RETURN_IF(text == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", file->path);
  neap_status status = file_need_at(file->path, file->descriptor, 0, text, (size_t)bytes);
  if (status == NEAP_OK) status = parse(file, text, (size_t)bytes);
  free(text);
  return status;
}

neap_status onnx_open(const char *path, struct onnx_file *file) {
  uint64_t bytes;
  *file = (struct onnx_file){.path = path, .descriptor = -1};
  TRY(file_open(path, &file->descriptor, &bytes));
  TRY(file_stamp_take(path, file->descriptor, &file->stamp));
  return read_all(file);
}

void onnx_close(struct onnx_file *file) {
  if (file->proto != NULL) onnx__model_proto__free_unpacked(file->proto, NULL);
  if (file->descriptor >= 0) close(file->descriptor);
  region_free(&file->region);
  *file = (struct onnx_file){.descriptor = -1};
}

neap_status onnx_check(const struct onnx_file *file) {
  return file_stamp_check(file->path, file->descriptor, &file->stamp);
}
