/* The public builder: a graph from calls that need no checking until the end. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/op.h"

enum { NAME_LIMIT = 128, FAILED = -1 };

struct neap_builder {
  struct neap_graph *graph;
  neap_status status; /* the first failure */
  char message[512];
  char scope[NAME_LIMIT];
  int32_t streams;               /* dropout's random streams given out */
  int32_t counters[2][OP_COUNT]; /* for names, conv1, conv2, ...: outside of scopes, and in the one in hand */
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

/* Keeps the first failure; later ones only follow from it. */
static neap_tensor fail(neap_builder *b, neap_status status) {
  if (b->status == NEAP_OK) {
    b->status = status;
    snprintf(b->message, sizeof b->message, "%s", neap_error_message());
  }
  return FAILED;
}

static bool usable(neap_builder *b, neap_tensor x) {
  if (b == NULL || b->graph == NULL || b->status != NEAP_OK) return false;
  if (x >= 0 && (size_t)x < b->graph->tensors.count) return true;
  fail(b, neap_fail(NEAP_INVALID_ARGUMENT, "graph '%s': there is no tensor %d", b->graph->name, x));
  return false;
}

static bool ready(const neap_builder *b) { return b != NULL && b->graph != NULL && b->status == NEAP_OK; }

/* A name that would be cut is refused: two could become one. */
static bool fits(neap_builder *b, const char *name) {
  if (strlen(name) < NAME_LIMIT) return true;
  fail(b, neap_fail(NEAP_INVALID_ARGUMENT, "'%.32s...': a name of %zu bytes, at most %d are possible", name,
                    strlen(name), NAME_LIMIT - 1));
  return false;
}

void neap_scope(neap_builder *b, const char *scope) {
  if (!ready(b) || (scope != NULL && !fits(b, scope))) return;
  snprintf(b->scope, sizeof b->scope, "%s", scope != NULL ? scope : "");
  if (scope != NULL) memset(b->counters[true], 0, sizeof b->counters[true]);
}

/* "scope.conv1": the operator's name in small letters and how many there were. */
static void make_name(neap_builder *b, enum op op, char name[2 * NAME_LIMIT]) {
  static const char *const short_names[OP_COUNT] = {[OP_CONV] = "conv",
                                                    [OP_BATCH_NORM] = "norm",
                                                    [OP_RELU] = "relu",
                                                    [OP_ADD] = "add",
                                                    [OP_MAX_POOL] = "max_pool",
                                                    [OP_AVERAGE_POOL] = "average_pool",
                                                    [OP_GLOBAL_AVERAGE_POOL] = "global_average_pool",
                                                    [OP_LINEAR] = "linear",
                                                    [OP_DROPOUT] = "dropout",
                                                    [OP_RELU6] = "relu6",
                                                    [OP_CONCAT] = "concat",
                                                    [OP_SLICE] = "slice",
                                                    [OP_LOCAL_RESPONSE_NORM] = "response_norm",
                                                    [OP_SOFTMAX_CROSS_ENTROPY] = "cross_entropy",
                                                    [OP_CONV_TRANSPOSED] = "conv_transposed",
                                                    [OP_CROP] = "crop",
                                                    [OP_RESIZE] = "resize",
                                                    [OP_ADAPTIVE_AVERAGE_POOL] = "adaptive_average_pool"};
  snprintf(name, 2 * NAME_LIMIT, "%s%s%s%d", b->scope, b->scope[0] ? "." : "", short_names[op],
           ++b->counters[b->scope[0] != '\0'][op]);
}

static neap_tensor add_tensor(neap_builder *b, const char *owner, const char *part, struct tensor tensor) {
  char name[3 * NAME_LIMIT];
  snprintf(name, sizeof name, "%s%s%s", owner, part[0] ? "." : "", part);
  tensor.name = name;
  tensor.view_of = -1;
  int32_t id;
  const neap_status status = graph_add_tensor(b->graph, tensor, &id);
  return status == NEAP_OK ? id : fail(b, status);
}

static neap_tensor add_variable(neap_builder *b, const char *owner, const char *part, neap_role role,
                                enum initial initial, int32_t rank, const int64_t *dims) {
  struct tensor tensor = {.dtype = NEAP_F32, .role = role, .initial = initial, .rank = rank};
  memcpy(tensor.dims, dims, (size_t)rank * sizeof *dims);
  return add_tensor(b, owner, part, tensor);
}

static neap_tensor apply(neap_builder *b, enum op op, const char *name, struct attributes attributes,
                         const int32_t *inputs, int32_t count, int32_t *outputs) {
  for (int32_t i = 0; i < count; i++)
    if (!usable(b, inputs[i])) return FAILED;
  const neap_status status = graph_apply(b->graph, op, name, &attributes, inputs, count, outputs);
  return status == NEAP_OK ? outputs[0] : fail(b, status);
}

static neap_tensor apply_simple(neap_builder *b, enum op op, struct attributes attributes, neap_tensor x) {
  if (!usable(b, x)) return FAILED;
  char name[2 * NAME_LIMIT];
  make_name(b, op, name);
  int32_t outputs[4];
  return apply(b, op, name, attributes, &x, 1, outputs);
}

neap_tensor neap_input(neap_builder *b, const char *name, neap_dtype dtype, int rank, const int64_t *dims) {
  if (!ready(b)) return FAILED;
  if (name == NULL || rank < 1 || rank > NEAP_MAX_RANK || dims == NULL ||
      (dtype != NEAP_F32 && dtype != NEAP_I32))
    return fail(b,
                neap_fail(NEAP_INVALID_ARGUMENT, "input '%s': 1 to %d dimensions of f32 or i32 are possible",
                          name != NULL ? name : "", NEAP_MAX_RANK));
  if (!fits(b, name)) return FAILED;
  struct tensor tensor = {.dtype = dtype, .role = NEAP_ROLE_INPUT, .rank = rank};
  memcpy(tensor.dims, dims, (size_t)rank * sizeof *dims);
  return add_tensor(b, name, "", tensor);
}

int neap_shape(const neap_builder *b, neap_tensor x, int64_t dims[NEAP_MAX_RANK]) {
  if (!ready(b) || x < 0 || (size_t)x >= b->graph->tensors.count) return 0;
  const struct tensor *t = &b->graph->tensors.data[x];
  memcpy(dims, t->dims, (size_t)t->rank * sizeof *dims);
  return t->rank;
}

neap_tensor neap_conv(neap_builder *b, neap_tensor x, neap_conv_options o) {
  if (!usable(b, x)) return FAILED;
  const struct tensor *t = &b->graph->tensors.data[x];
  struct attributes a = {.stride = o.stride ? o.stride : 1,
                         .padding = o.padding,
                         .dilation = o.dilation ? o.dilation : 1,
                         .groups = o.groups ? o.groups : 1,
                         .padding_by_axis = {o.padding_height, o.padding_width},
                         .bias = o.bias};
  const int64_t height = o.kernel_height ? o.kernel_height : o.size,
                width = o.kernel_width ? o.kernel_width : o.size;
  if (t->rank != 4 || o.filters < 1 || height < 1 || width < 1 || a.groups < 1 || t->dims[1] % a.groups ||
      o.filters % a.groups)
    return fail(b, neap_fail(NEAP_INVALID_ARGUMENT,
                             "Conv: %lld filters of %lld x %lld in %lld groups do not fit '%s' with %d "
                             "dimensions and %lld channels",
                             (long long)o.filters, (long long)height, (long long)width, (long long)a.groups,
                             t->name, t->rank, (long long)(t->rank > 1 ? t->dims[1] : 0)));
  char name[2 * NAME_LIMIT];
  make_name(b, OP_CONV, name);
  const int64_t dims[] = {o.filters, t->dims[1] / a.groups, height, width};
  int32_t inputs[3] = {x, add_variable(b, name, "weight", NEAP_ROLE_PARAMETER, INITIAL_HE, 4, dims)}, output;
  if (o.bias) inputs[2] = add_variable(b, name, "bias", NEAP_ROLE_PARAMETER, INITIAL_ZERO, 1, dims);
  return apply(b, OP_CONV, name, a, inputs, o.bias ? 3 : 2, &output);
}

neap_tensor neap_conv_transposed(neap_builder *b, neap_tensor x, neap_conv_transposed_options o) {
  if (!usable(b, x)) return FAILED;
  const struct tensor *t = &b->graph->tensors.data[x];
  const struct attributes a = {.stride = o.stride ? o.stride : 1,
                               .padding = o.padding,
                               .dilation = 1,
                               .groups = 1,
                               .bias = o.bias,
                               .output_padding = o.output_padding};
  if (t->rank != 4 || o.filters < 1 || o.size < 1)
    return fail(b, neap_fail(NEAP_INVALID_ARGUMENT,
                             "ConvTransposed: %lld filters of size %lld do not fit '%s' with %d dimensions",
                             (long long)o.filters, (long long)o.size, t->name, t->rank));
  char name[2 * NAME_LIMIT];
  make_name(b, OP_CONV_TRANSPOSED, name);
  const int64_t dims[] = {t->dims[1], o.filters, o.size, o.size};
  int32_t inputs[3] = {x, add_variable(b, name, "weight", NEAP_ROLE_PARAMETER, INITIAL_HE, 4, dims)}, output;
  if (o.bias) inputs[2] = add_variable(b, name, "bias", NEAP_ROLE_PARAMETER, INITIAL_ZERO, 1, &dims[1]);
  return apply(b, OP_CONV_TRANSPOSED, name, a, inputs, o.bias ? 3 : 2, &output);
}

neap_tensor neap_batch_norm(neap_builder *b, neap_tensor x, neap_batch_norm_options o) {
  if (!usable(b, x)) return FAILED;
  char name[2 * NAME_LIMIT];
  make_name(b, OP_BATCH_NORM, name);
  if (!(o.epsilon >= 0 && o.epsilon < INFINITY && o.momentum >= 0 && o.momentum <= 1))
    return fail(b, neap_fail(NEAP_INVALID_ARGUMENT,
                             "BatchNorm '%s': epsilon %g must not be negative, momentum %g in [0, 1]", name,
                             (double)o.epsilon, (double)o.momentum));
  const struct attributes a = {.epsilon = o.epsilon != 0 ? o.epsilon : 1e-5f,
                               .momentum = o.momentum != 0 ? o.momentum : 0.1f};
  int32_t statistics[2], output;
  if (apply(b, OP_BATCH_NORM_STATISTICS, name, a, &x, 1, statistics) < 0) return FAILED;
  const int64_t channels = b->graph->tensors.data[x].dims[1];
  const int32_t gamma = add_variable(b, name, "gamma", NEAP_ROLE_PARAMETER, INITIAL_ONE, 1, &channels),
                beta = add_variable(b, name, "beta", NEAP_ROLE_PARAMETER, INITIAL_ZERO, 1, &channels),
                running[] = {
                    add_variable(b, name, "running_mean", NEAP_ROLE_STATE, INITIAL_ZERO, 1, &channels),
                    add_variable(b, name, "running_variance", NEAP_ROLE_STATE, INITIAL_ONE, 1, &channels)};
  if (!ready(b)) return FAILED;
  const int32_t inputs[] = {x, statistics[0], statistics[1], gamma, beta},
                update[] = {statistics[0], statistics[1], running[0], running[1]};
  /* How many elements a channel has: the unbiased variance needs it, and the update sees only [C]. */
  struct attributes u = a;
  u.size = b->graph->tensors.data[x].elements / channels;
  const neap_status status = graph_add_node(b->graph, (struct node){.name = name,
                                                                    .op = OP_RUNNING_STATISTICS,
                                                                    .pass = NEAP_PASS_UPDATE,
                                                                    .attributes = u,
                                                                    .inputs = update,
                                                                    .input_count = 4,
                                                                    .updates = running,
                                                                    .update_count = 2});
  if (status != NEAP_OK) return fail(b, status);
  return apply(b, OP_BATCH_NORM, name, a, inputs, 5, &output);
}

neap_tensor neap_relu(neap_builder *b, neap_tensor x) {
  return apply_simple(b, OP_RELU, (struct attributes){0}, x);
}

neap_tensor neap_relu6(neap_builder *b, neap_tensor x) {
  return apply_simple(b, OP_RELU6, (struct attributes){0}, x);
}

neap_tensor neap_concat(neap_builder *b, const neap_tensor *parts, int count) {
  if (!ready(b)) return FAILED;
  if (parts == NULL || count < 1 || count > NODE_MAX_INPUTS)
    return fail(b, neap_fail(NEAP_INVALID_ARGUMENT, "Concat of %d tensors: 1 to %d are possible", count,
                             NODE_MAX_INPUTS));
  char name[2 * NAME_LIMIT];
  make_name(b, OP_CONCAT, name);
  int32_t output;
  return apply(b, OP_CONCAT, name, (struct attributes){0}, parts, count, &output);
}

neap_tensor neap_slice(neap_builder *b, neap_tensor x, int64_t first, int64_t count) {
  return apply_simple(b, OP_SLICE, (struct attributes){.first = first, .size = count}, x);
}

neap_tensor neap_local_response_norm(neap_builder *b, neap_tensor x, neap_response_norm_options o) {
  const struct attributes a = {.size = o.size ? o.size : 5,
                               .alpha = o.alpha != 0 ? o.alpha : 1e-4f,
                               .beta = o.beta != 0 ? o.beta : 0.75f,
                               .k = o.k != 0 ? o.k : 1};
  return apply_simple(b, OP_LOCAL_RESPONSE_NORM, a, x);
}

neap_tensor neap_add(neap_builder *b, neap_tensor x, neap_tensor y) {
  if (!usable(b, x) || !usable(b, y)) return FAILED;
  char name[2 * NAME_LIMIT];
  make_name(b, OP_ADD, name);
  int32_t output;
  return apply(b, OP_ADD, name, (struct attributes){0}, (int32_t[]){x, y}, 2, &output);
}

static struct attributes pool_attributes(neap_pool_options o) {
  return (struct attributes){.size = o.size,
                             .stride = o.stride ? o.stride : o.size,
                             .padding = o.padding,
                             .ceil = o.ceil,
                             .count_padding = o.count_padding};
}

neap_tensor neap_max_pool(neap_builder *b, neap_tensor x, neap_pool_options options) {
  return apply_simple(b, OP_MAX_POOL, pool_attributes(options), x);
}

neap_tensor neap_average_pool(neap_builder *b, neap_tensor x, neap_pool_options options) {
  return apply_simple(b, OP_AVERAGE_POOL, pool_attributes(options), x);
}

neap_tensor neap_global_average_pool(neap_builder *b, neap_tensor x) {
  return apply_simple(b, OP_GLOBAL_AVERAGE_POOL, (struct attributes){0}, x);
}

neap_tensor neap_adaptive_average_pool(neap_builder *b, neap_tensor x, int64_t size) {
  return apply_simple(b, OP_ADAPTIVE_AVERAGE_POOL, (struct attributes){.size = size}, x);
}

neap_tensor neap_crop(neap_builder *b, neap_tensor x, neap_crop_options o) {
  return apply_simple(
      b, OP_CROP, (struct attributes){.top = o.top, .left = o.left, .height = o.height, .width = o.width}, x);
}

neap_tensor neap_resize(neap_builder *b, neap_tensor x, int64_t height, int64_t width, bool align_corners) {
  return apply_simple(
      b, OP_RESIZE, (struct attributes){.height = height, .width = width, .align_corners = align_corners}, x);
}

neap_tensor neap_linear(neap_builder *b, neap_tensor x, int64_t outputs, bool bias) {
  if (!usable(b, x)) return FAILED;
  const struct tensor *t = &b->graph->tensors.data[x];
  if (t->rank != 2 || outputs < 1)
    return fail(b, neap_fail(NEAP_INVALID_ARGUMENT,
                             "Linear to %lld outputs: '%s' must be [N, K]; flatten it first",
                             (long long)outputs, t->name));
  char name[2 * NAME_LIMIT];
  make_name(b, OP_LINEAR, name);
  const int64_t dims[] = {outputs, t->dims[1]};
  int32_t inputs[3] = {x, add_variable(b, name, "weight", NEAP_ROLE_PARAMETER, INITIAL_HE, 2, dims)}, output;
  if (bias) inputs[2] = add_variable(b, name, "bias", NEAP_ROLE_PARAMETER, INITIAL_ZERO, 1, dims);
  return apply(b, OP_LINEAR, name, (struct attributes){.bias = bias}, inputs, bias ? 3 : 2, &output);
}

neap_tensor neap_reshape(neap_builder *b, neap_tensor x, int rank, const int64_t *dims) {
  if (!usable(b, x)) return FAILED;
  struct tensor view = b->graph->tensors.data[x];
  if (rank < 1 || rank > NEAP_MAX_RANK || dims == NULL)
    return fail(b, neap_fail(NEAP_INVALID_ARGUMENT, "reshape of '%s': 1 to %d dimensions are possible",
                             view.name, NEAP_MAX_RANK));
  int64_t known = 1;
  int open = -1;
  bool fits = true;
  for (int i = 0; i < rank; i++) {
    view.dims[i] = dims[i];
    if (dims[i] == -1 && open < 0)
      open = i;
    else
      fits = fits && dims[i] > 0 && !__builtin_mul_overflow(known, dims[i], &known);
  }
  if (fits && open >= 0) {
    fits = view.elements % known == 0;
    view.dims[open] = view.elements / known;
  } else {
    fits = fits && known == view.elements;
  }
  if (!fits)
    return fail(b, neap_fail(NEAP_INVALID_ARGUMENT,
                             "reshape of '%s': the new shape does not have its %lld elements", view.name,
                             (long long)view.elements));
  view.rank = rank;
  view.view_of = graph_storage(b->graph, x);
  int32_t id;
  const neap_status status = graph_add_tensor(b->graph, view, &id);
  return status == NEAP_OK ? id : fail(b, status);
}

neap_tensor neap_flatten(neap_builder *b, neap_tensor x) {
  if (!usable(b, x)) return FAILED;
  return neap_reshape(b, x, 2, (int64_t[]){b->graph->tensors.data[x].dims[0], -1});
}

neap_tensor neap_dropout(neap_builder *b, neap_tensor x, float probability) {
  if (b == NULL) return FAILED;
  return apply_simple(b, OP_DROPOUT, (struct attributes){.probability = probability, .stream = b->streams++},
                      x);
}

neap_tensor neap_softmax_cross_entropy(neap_builder *b, neap_tensor logits, neap_tensor labels,
                                       float smoothing) {
  if (!usable(b, logits) || !usable(b, labels)) return FAILED;
  char name[2 * NAME_LIMIT];
  make_name(b, OP_SOFTMAX_CROSS_ENTROPY, name);
  int32_t outputs[2];
  if (apply(b, OP_SOFTMAX_CROSS_ENTROPY, name, (struct attributes){.smoothing = smoothing},
            (int32_t[]){logits, labels}, 2, outputs) < 0)
    return FAILED;
  b->graph->correct = outputs[1];
  return outputs[0];
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* What is found by its name, in a session or in a file of weights, has one of its own. */
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
  RETURN_IF(b == NULL, NEAP_OUT_OF_MEMORY, "there is no builder: out of memory");
  RETURN_IF(b->status != NEAP_OK, b->status, "%s", b->message);
  RETURN_IF(b->graph == NULL, NEAP_INVALID_ARGUMENT, "this builder has given its graph away already");
  RETURN_IF(loss < 0 || (size_t)loss >= b->graph->tensors.count, NEAP_INVALID_ARGUMENT,
            "there is no tensor %d", loss);
  const struct tensor *t = &b->graph->tensors.data[loss];
  RETURN_IF(t->producer < 0 || b->graph->nodes.data[t->producer].op != OP_SOFTMAX_CROSS_ENTROPY ||
                b->graph->nodes.data[t->producer].outputs[0] != loss,
            NEAP_INVALID_ARGUMENT, "graph '%s': '%s' is not a loss; end with neap_softmax_cross_entropy",
            b->graph->name, t->name);
  TRY(check_names(b->graph));
  b->graph->loss = loss;
  b->graph->correct = b->graph->nodes.data[t->producer].outputs[1];
  *graph = b->graph;
  b->graph = NULL;
  return NEAP_OK;
}
