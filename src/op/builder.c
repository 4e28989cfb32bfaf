/* The public builder: makes a graph from calls whose errors need no check until the end. */
#include "op/builder.h"

#include <stdio.h>
#include <string.h>

struct neap_builder {
  struct neap_graph *graph;
  neap_status status; /* the first failure */
  char message[MESSAGE_BYTES];
  char scope[NAME_LIMIT];
  bool frozen;                   /* what layers make */
  int32_t streams;               /* random streams given out */
  int32_t counters[2][OP_COUNT]; /* for names, conv1, conv2, ...: outside of scopes, and in the current one */
};

neap_builder *neap_builder_create(const char *name) {
  neap_builder *b = calloc(1, sizeof *b);
  if (b == NULL) return NULL;
  if (graph_create(name != NULL ? name : "graph", &b->graph) == NEAP_OK) return b;
  free(b);
  return NULL;
}

void neap_builder_free(neap_builder *b) {
  if (b == NULL) return;
  neap_graph_free(b->graph);
  free(b);
}

/* ---- Helpers of the short forms ---- */

neap_tensor builder_fail(neap_builder *b, neap_status status) {
  if (b->status == NEAP_OK) {
    b->status = status;
    snprintf(b->message, sizeof b->message, "%s", neap_error_message());
  }
  return FAILED;
}

bool builder_ready(const neap_builder *b) { return b != NULL && b->graph != NULL && b->status == NEAP_OK; }

bool builder_usable(neap_builder *b, neap_tensor x) {
  if (!builder_ready(b)) return false;
  if (x >= 0 && (size_t)x < b->graph->tensors.count) return true;
  builder_fail(b,
               neap_fail(NEAP_INVALID_ARGUMENT, "graph '%s': tensor %d does not exist", b->graph->name, x));
  return false;
}

const struct tensor *builder_tensor(const neap_builder *b, neap_tensor x) {
  return &b->graph->tensors.data[x];
}

int64_t builder_axis(neap_builder *b, neap_tensor x, int axis) {
  const int32_t rank = builder_usable(b, x) ? builder_tensor(b, x)->rank : 0;
  return axis < 0 && axis >= -rank ? axis + rank : axis;
}

struct neap_graph *builder_graph(neap_builder *b) {
  return b->graph;
}

int32_t builder_stream(neap_builder *b) { return b != NULL ? b->streams++ : 0; }

/* Fails if the name would be cut, since two names could become one. */
static bool fits(neap_builder *b, const char *name) {
  if (strlen(name) < NAME_LIMIT) return true;
  builder_fail(b, neap_fail(NEAP_INVALID_ARGUMENT,
                            "'%.32s...': a name of %zu bytes is too long; the limit is %d", name,
                            strlen(name), NAME_LIMIT - 1));
  return false;
}

void neap_scope(neap_builder *b, const char *scope) {
  if (!builder_ready(b) || (scope != NULL && !fits(b, scope))) return;
  snprintf(b->scope, sizeof b->scope, "%s", scope != NULL ? scope : "");
  if (scope != NULL) memset(b->counters[true], 0, sizeof b->counters[true]);
}

void builder_peek(const neap_builder *b, enum op op, char name[2 * NAME_LIMIT]) {
  snprintf(name, 2 * NAME_LIMIT, "%s%s%s%d", b->scope, b->scope[0] ? "." : "", op_rows[op]->label,
           1 + b->counters[b->scope[0] != '\0'][op]);
}

void builder_name(neap_builder *b, enum op op, char name[2 * NAME_LIMIT]) {
  builder_peek(b, op, name);
  b->counters[b->scope[0] != '\0'][op]++;
}

static neap_tensor add_tensor(neap_builder *b, const char *owner, const char *part, struct tensor tensor) {
  char name[3 * NAME_LIMIT];
  snprintf(name, sizeof name, "%s%s%s", owner, part[0] ? "." : "", part);
  tensor.name = name;
  tensor.view_of = -1;
  int32_t id;
  const neap_status status = graph_add_tensor(b->graph, tensor, &id);
  return status == NEAP_OK ? id : builder_fail(b, status);
}

neap_tensor builder_variable(neap_builder *b, const char *owner, const char *part, neap_dtype dtype,
                             neap_role role, neap_initial initial, int32_t rank, const int64_t *dims) {
  struct tensor tensor = {.dtype = dtype,
                          .role = role,
                          .initial = initial,
                          .scale = 1,
                          .frozen = b->frozen && role == NEAP_ROLE_PARAMETER,
                          .rank = rank};
  memcpy(tensor.dims, dims, (size_t)rank * sizeof *dims);
  return add_tensor(b, owner, part, tensor);
}

neap_tensor builder_view(neap_builder *b, neap_tensor x, int32_t rank, const int64_t *dims) {
  int32_t id;
  const neap_status status = graph_add_view(b->graph, x, rank, dims, &id);
  return status == NEAP_OK ? id : builder_fail(b, status);
}

union attributes builder_attributes(enum op op, union attributes given) {
  attributes_complete(&given, op_rows[op]->attributes, op_rows[op]->attribute_count);
  return given;
}

neap_tensor builder_apply(neap_builder *b, enum op op, const char *name, union attributes attributes,
                          const int32_t *inputs, int32_t count, int32_t *outputs) {
  int32_t own[NODE_MAX_OUTPUTS];
  if (outputs == NULL) outputs = own;
  const bool optional = op_rows[op]->slots > 0;
  for (int32_t i = 0; i < count; i++)
    if ((i == 0 || !optional || inputs[i] != NO_TENSOR) && !builder_usable(b, inputs[i])) return FAILED;
  const neap_status status = graph_apply(b->graph, op, name, &attributes, inputs, count, outputs);
  return status == NEAP_OK ? outputs[0] : builder_fail(b, status);
}

neap_tensor builder_next(neap_builder *b, enum op op, union attributes attributes, const int32_t *inputs,
                         int32_t count) {
  if (!builder_usable(b, inputs[0])) return FAILED;
  char name[2 * NAME_LIMIT];
  builder_name(b, op, name);
  return builder_apply(b, op, name, attributes, inputs, count, NULL);
}

/* ---- Inputs, parameters, outputs ---- */

neap_tensor neap_input(neap_builder *b, const char *name, neap_dtype dtype, int rank, const int64_t *dims) {
  if (!builder_ready(b)) return FAILED;
  if (name == NULL || rank < 1 || rank > NEAP_MAX_RANK || dims == NULL ||
      (dtype != NEAP_F32 && dtype != NEAP_I32 && dtype != NEAP_U8))
    return builder_fail(
        b, neap_fail(NEAP_INVALID_ARGUMENT,
                     "input '%s': must have 1 to %d dimensions and type f32, i32 or u8 (got %d of %s)",
                     name != NULL ? name : "", NEAP_MAX_RANK, rank,
                     (uint32_t)dtype < (uint32_t)dtype_count ? dtype_rows[dtype].name : "another type"));
  if (!fits(b, name)) return FAILED;
  struct tensor tensor = {.dtype = dtype, .role = NEAP_ROLE_INPUT, .rank = rank};
  memcpy(tensor.dims, dims, (size_t)rank * sizeof *dims);
  return add_tensor(b, name, "", tensor);
}

static bool is_storage(neap_dtype dtype) { return dtype_is_known(dtype) && type_set_has(TYPES_FLOAT, dtype); }

neap_tensor neap_parameter(neap_builder *b, const char *name, int rank, const int64_t *dims,
                           neap_parameter_options o) {
  if (!builder_ready(b)) return FAILED;
  if (name == NULL || rank < 1 || rank > NEAP_MAX_RANK || dims == NULL ||
      (unsigned)o.initial > NEAP_INITIAL_UNIFORM || !(o.scale >= 0) || !is_storage(o.dtype) ||
      (o.initial == NEAP_INITIAL_HE && rank < 2))
    return builder_fail(
        b, neap_fail(NEAP_INVALID_ARGUMENT,
                     "parameter '%s': must have 1 to %d dimensions, type f32, bf16 or f16, a known initial "
                     "rule (HE needs 2 dimensions or more) and a scale of 0 or more",
                     name != NULL ? name : "", NEAP_MAX_RANK));
  if (!fits(b, name)) return FAILED;
  struct tensor tensor = {.dtype = o.dtype,
                          .role = NEAP_ROLE_PARAMETER,
                          .initial = o.initial,
                          .scale = o.scale != 0 ? o.scale : 1,
                          .frozen = o.frozen,
                          .rank = rank};
  memcpy(tensor.dims, dims, (size_t)rank * sizeof *dims);
  return add_tensor(b, name, "", tensor);
}

void neap_freeze(neap_builder *b, bool frozen) {
  if (b != NULL) b->frozen = frozen;
}

void neap_output(neap_builder *b, const char *name, neap_tensor x) {
  if (!builder_usable(b, x)) return;
  if (name == NULL || name[0] == '\0') {
    builder_fail(b, neap_fail(NEAP_INVALID_ARGUMENT, "an output needs a name"));
    return;
  }
  if (!fits(b, name)) return;
  for (size_t i = 0; i < b->graph->outputs.count; i++)
    if (strcmp(b->graph->outputs.data[i].name, name) == 0) {
      builder_fail(b, neap_fail(NEAP_INVALID_ARGUMENT, "two outputs are named '%s'", name));
      return;
    }
  const neap_status status = graph_add_output(b->graph, name, x);
  if (status != NEAP_OK) builder_fail(b, status);
}

int neap_shape(const neap_builder *b, neap_tensor x, int64_t dims[NEAP_MAX_RANK]) {
  if (!builder_ready(b) || x < 0 || (size_t)x >= b->graph->tensors.count) return 0;
  const struct tensor *t = builder_tensor(b, x);
  if (dims != NULL) memcpy(dims, t->dims, (size_t)t->rank * sizeof *dims);
  return t->rank;
}

/* ---- The end ---- */

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Fails if two inputs or two variables have one name; sessions and weights files find them by name. */
static neap_status check_names(const struct neap_graph *graph) {
  VECTOR(const char *) names = {0};
  TRY(vector_reserve(&names, graph->tensors.count + 1));
  for (size_t t = 0; t < graph->tensors.count; t++) {
    const struct tensor *tensor = &graph->tensors.data[t];
    if (tensor->role != NEAP_ROLE_VALUE && tensor->view_of < 0) names.data[names.count++] = tensor->name;
  }
  if (names.count > 0) qsort(names.data, names.count, sizeof *names.data, compare_names);
  neap_status status = NEAP_OK;
  for (size_t i = 1; i < names.count && status == NEAP_OK; i++)
    if (strcmp(names.data[i - 1], names.data[i]) == 0)
      status =
          neap_fail(NEAP_INVALID_ARGUMENT,
                    "graph '%s': two inputs or parameters are named '%s'; give each scope (neap_scope) and "
                    "each input a name of its own",
                    graph->name, names.data[i]);
  vector_free(&names);
  return status;
}

neap_status neap_builder_finish(neap_builder *b, neap_tensor loss, neap_graph **graph) {
  RETURN_IF(b == NULL, NEAP_OUT_OF_MEMORY, "cannot create a builder: out of memory");
  RETURN_IF(graph == NULL, NEAP_INVALID_ARGUMENT, "neap_builder_finish: the pointer for the graph is NULL");
  RETURN_IF(b->status != NEAP_OK, b->status, "%s", b->message);
  RETURN_IF(b->graph == NULL, NEAP_INVALID_ARGUMENT,
            "neap_builder_finish: this builder has already given its graph away");
  struct neap_graph *g = b->graph;
  RETURN_IF(loss >= 0 && (size_t)loss >= g->tensors.count, NEAP_INVALID_ARGUMENT,
            "neap_builder_finish: tensor %d does not exist", loss);
  RETURN_IF(loss < 0 && g->outputs.count == 0, NEAP_INVALID_ARGUMENT,
            "graph '%s' has neither a loss nor an output (neap_output)", g->name);
  if (loss >= 0) {
    const int32_t storage = graph_storage(g, loss);
    const struct tensor *t = &g->tensors.data[storage];
    RETURN_IF(t->elements != 1 || t->producer < 0 || !dtype_is_real(t->dtype), NEAP_INVALID_ARGUMENT,
              "graph '%s': '%s' %s is not a loss, which is one real number that an operator makes; a mean or "
              "neap_softmax_cross_entropy gives one",
              g->name, t->name, shape_text(t).text);
    loss = storage;
  }
  TRY(check_names(g));
  g->loss = loss;
  *graph = g;
  b->graph = NULL;
  return NEAP_OK;
}
