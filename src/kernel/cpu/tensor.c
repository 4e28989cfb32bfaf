/* Operators on tensors of any shape, with kernels of our own, in row-major order; elementwise operators on
 * equal shapes take any format. */
#include <string.h>

#include "kernel/cpu/operator.h"
#include "kernel/cpu/typed.h"

static const struct tensor *output(const struct neap_graph *graph, const struct node *node) {
  return &graph->tensors.data[node->outputs[0]];
}

static neap_status prepare_row_major(const struct cpu *cpu, const struct node *node, struct preparation *p,
                                     kernel_run *run, struct cpu_kernel kernel) {
  for (int32_t i = 0; i < node->input_count; i++) p->inputs[i] = ROW_MAJOR;
  return cpu_finish(cpu, p, run, kernel);
}

/* ---- Strides ---- */

/* Returns the stride of dimension `i` of `y` in a tensor that is broadcast to it from the last dimension
 * on. */
static int64_t stride_in(const struct tensor *t, const struct tensor *y, int32_t i) {
  const int32_t at = i - (y->rank - t->rank);
  if (at < 0 || t->dims[at] == 1) return 0;
  int64_t stride = 1;
  for (int32_t k = at + 1; k < t->rank; k++) stride *= t->dims[k];
  return stride;
}

/* Appends a dimension; one that continues the last one is merged with it. */
static void add_dimension(struct strides *s, int64_t count, int64_t x, int64_t y) {
  if (count == 1) return;
  const int32_t last = s->rank - 1;
  if (last >= 0 && s->x[last] == x * count && s->y[last] == y * count) {
    s->dims[last] *= count;
    s->x[last] = x;
    s->y[last] = y;
    return;
  }
  s->dims[s->rank] = count;
  s->x[s->rank] = x;
  s->y[s->rank++] = y;
}

static struct strides finished(struct strides s) {
  if (s.rank == 0) s.dims[s.rank++] = 1;
  return s;
}

static struct strides broadcast_strides(const struct tensor *x, const struct tensor *y,
                                        const struct tensor *out) {
  struct strides s = {0};
  for (int32_t i = 0; i < out->rank; i++)
    add_dimension(&s, out->dims[i], stride_in(x, out, i), stride_in(y, out, i));
  return finished(s);
}

/* ---- Two tensors ---- */

/* Prepares two tensors of equal shapes in any format, packed weight gradients too. */
static neap_status prepare_binary(struct cpu *cpu, const struct neap_graph *graph, const struct node *node,
                                  struct preparation *p, kernel_run *alike, kernel_run *broadcast,
                                  float of_zeros) {
  const struct tensor *x = node_input(graph, node, 0), *y = node_input(graph, node, 1);
  if (!same_shape(x, y))
    return prepare_row_major(cpu, node, p, broadcast,
                             (struct cpu_kernel){.strides = broadcast_strides(x, y, output(graph, node))});
  const bool padded = x->rank >= 2 && p->inputs[0].lanes > 1 && x->dims[1] % p->inputs[0].lanes != 0;
  if (padded && of_zeros != 0)
    p->inputs[0] = (struct memory_format){.lanes = x->dims[1]}; /* padding holds 0 */
  if (!format_chosen(p->inputs[0])) p->inputs[0] = ROW_MAJOR;
  p->inputs[1] = p->outputs[0] = p->inputs[0];
  const uint64_t count = cpu_backend.format_bytes(x, p->inputs[0]) / dtype_bytes(x->dtype, 1);
  return cpu_finish(cpu, p, alike, (struct cpu_kernel){.count = count});
}

static bool is_broadcast(const struct neap_graph *graph, const struct node *node,
                         const struct preparation *p) {
  (void)p;
  return !same_shape(node_input(graph, node, 0), node_input(graph, node, 1));
}

#define BINARY(NAME, id, text, about, value)                                                                 \
  RUN(run_##id) {                                                                                            \
    UNUSED;                                                                                                  \
    K->id##_stored((int64_t)cpu_kernel(kernel)->count, stored_input(kernel, in, 0),                          \
                   stored_input(kernel, in, 1), stored_output(kernel, out));                                 \
    return NEAP_OK;                                                                                          \
  }                                                                                                          \
  RUN(run_##id##_broadcast) {                                                                                \
    UNUSED;                                                                                                  \
    K->id##_broadcast(cpu_kernel(kernel)->strides, in[0], in[1], out[0]);                                    \
    return NEAP_OK;                                                                                          \
  }                                                                                                          \
  CPU_OPERATOR(id, TYPES_FLOAT, .converts = is_broadcast) {                                                  \
    static const float zero = 0;                                                                             \
    float of_zeros;                                                                                          \
    ((const struct cpu *)state)->kernels->id(1, &zero, &zero, &of_zeros);                                    \
    return prepare_binary(state, graph, node, p, run_##id, run_##id##_broadcast, of_zeros);                  \
  }
#include "op/elementwise_list.h"

RUN(run_where) {
  UNUSED;
  K->where(cpu_kernel(kernel)->strides, in[0], in[1], in[2], ATTRIBUTES.scalar.a, out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(where, TYPE_F32) {
  const struct tensor *mask = node_input(graph, node, 0), *y = output(graph, node);
  return prepare_row_major(state, node, p, run_where,
                           (struct cpu_kernel){.strides = broadcast_strides(mask, y, y)});
}

/* ---- Two halves ---- */

#define GATED(NAME, id, ...)                                                                                 \
  RUN(run_##id) {                                                                                            \
    UNUSED;                                                                                                  \
    const struct tensor *y = kernel_output(kernel, 0);                                                       \
    const int64_t width = y->dims[y->rank - 1];                                                              \
    K->id(y->elements / width, width, in[0], out[0]);                                                        \
    return NEAP_OK;                                                                                          \
  }                                                                                                          \
  CPU_OPERATOR(id, TYPE_F32) {                                                                               \
    (void)graph;                                                                                             \
    return prepare_row_major(state, node, p, run_##id, (struct cpu_kernel){0});                              \
  }                                                                                                          \
  RUN(run_##id##_backward) {                                                                                 \
    UNUSED;                                                                                                  \
    const struct tensor *dy = kernel_input(kernel, 1);                                                       \
    const int64_t width = dy->dims[dy->rank - 1];                                                            \
    K->id##_backward(dy->elements / width, width, in[0], in[1], out[0]);                                     \
    return NEAP_OK;                                                                                          \
  }                                                                                                          \
  CPU_OPERATOR(id##_backward, TYPE_F32) {                                                                    \
    (void)graph;                                                                                             \
    return prepare_row_major(state, node, p, run_##id##_backward, (struct cpu_kernel){0});                   \
  }
#include "op/gated_list.h"

/* ---- Other orders ---- */

RUN(run_transpose) {
  UNUSED;
  K->strided(cpu_kernel(kernel)->strides, 1, in[0], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(transpose, TYPE_F32) {
  const struct tensor *x = node_input(graph, node, 0), *y = output(graph, node);
  struct strides s = {0};
  for (int32_t i = 0; i < y->rank; i++)
    add_dimension(&s, y->dims[i], stride_in(x, x, (int32_t)node->attributes.order.order[i]),
                  stride_in(y, y, i));
  return prepare_row_major(state, node, p, run_transpose, (struct cpu_kernel){.strides = finished(s)});
}

RUN(run_expand) {
  UNUSED;
  K->strided(cpu_kernel(kernel)->strides, ATTRIBUTES.expand.scale, in[0], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(expand, TYPE_F32) {
  const struct tensor *x = node_input(graph, node, 0), *y = output(graph, node);
  return prepare_row_major(state, node, p, run_expand,
                           (struct cpu_kernel){.strides = broadcast_strides(x, y, y)});
}

/* Writes the element at each place into the workspace. */
static struct taken taken_of(const struct kernel *kernel, const struct tensor *x, int64_t *elements) {
  const struct take_attributes *a = &ATTRIBUTES.take;
  struct taken t = {1, x->dims[a->axis], a->count, 1};
  for (int32_t d = 0; d < a->axis; d++) t.outer *= x->dims[d];
  t.inner = x->elements / t.outer / t.size;
  for (int64_t i = 0; i < t.count; i++)
    elements[i] = element_at(place_at(a->places, i), t.size, a->places.border);
  return t;
}

RUN(run_take) {
  (void)context;
  const struct taken t = taken_of(kernel, kernel_input(kernel, 0), workspace);
  K->take(t, workspace, ATTRIBUTES.take.value, in[0], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(take, TYPE_F32) {
  (void)graph;
  p->workspace = (uint64_t)node->attributes.take.count * sizeof(int64_t);
  return prepare_row_major(state, node, p, run_take, (struct cpu_kernel){0});
}

RUN(run_take_backward) {
  (void)context;
  const struct taken t = taken_of(kernel, kernel_output(kernel, 0), workspace);
  K->take_backward(t, workspace, in[0], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(take_backward, TYPE_F32) {
  (void)graph;
  p->workspace = (uint64_t)node->attributes.take.count * sizeof(int64_t);
  return prepare_row_major(state, node, p, run_take_backward, (struct cpu_kernel){0});
}

RUN(run_fill) {
  UNUSED;
  K->fill(kernel_output(kernel, 0)->elements, ATTRIBUTES.scalar.a, out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(fill, TYPE_F32) {
  (void)graph;
  return prepare_row_major(state, node, p, run_fill, (struct cpu_kernel){0});
}

RUN(run_loss_share) {
  UNUSED;
  (void)kernel;
  *(float *)out[0] = run_loss_gradient(context);
  return NEAP_OK;
}
CPU_OPERATOR(loss_share, TYPE_F32) {
  (void)graph;
  return prepare_row_major(state, node, p, run_loss_share, (struct cpu_kernel){0});
}

/* ---- Rows by number ---- */

/* Gathers rows of a table in blocks: each is turned into numbers in its place. */
static void gather_blocks(const struct kernel *kernel, const void *table, const int32_t *ids, void *y) {
  const struct tensor *t = kernel_input(kernel, 0);
  const neap_dtype type = kernel_output(kernel, 0)->dtype;
  const int64_t width = t->dims[1], count = kernel_input(kernel, 1)->elements;
  const size_t row = (size_t)dtype_bytes(t->dtype, (uint64_t)width),
               made = (size_t)dtype_bytes(type, (uint64_t)width);
  for (int64_t i = 0; i < count; i++) {
    unsigned char *to = (unsigned char *)y + (size_t)i * made;
    if (ids[i] >= 0 && ids[i] < t->dims[0])
      K->dequantise(t->dtype, width, (const unsigned char *)table + (size_t)ids[i] * row,
                    (struct stored){type, to});
    else
      memset(to, 0, made);
  }
}

/* Gathers rows of a table with noise. */
static void gather_perturbed(const struct kernel *kernel, const void *table, const int32_t *ids, void *y,
                             const struct run_context *context) {
  const struct tensor *t = kernel_input(kernel, 0);
  const int64_t width = t->dims[1], count = kernel_input(kernel, 1)->elements;
  const size_t row = (size_t)dtype_bytes(t->dtype, (uint64_t)width);
  struct noise noise = noise_of(kernel, 0, context);
  for (int64_t i = 0; i < count; i++) {
    unsigned char *to = (unsigned char *)y + (size_t)i * row;
    noise.first = ids[i] * width;
    if (ids[i] >= 0 && ids[i] < t->dims[0])
      K->perturb(width, noise, (struct stored){t->dtype, (unsigned char *)table + (size_t)ids[i] * row},
                 (struct stored){t->dtype, to});
    else
      memset(to, 0, row);
  }
}

static struct gather gather_of(const struct tensor *table, const struct tensor *ids, const int32_t *values) {
  return (struct gather){table->dtype, table->dims[0], table->dims[1], ids->elements, values};
}

RUN(run_gather) {
  UNUSED;
  const struct tensor *table = kernel_input(kernel, 0);
  if (dtype_is_quantised(table->dtype)) {
    gather_blocks(kernel, in[0], in[1], out[0]);
    return NEAP_OK;
  }
  if (table->perturbed)
    gather_perturbed(kernel, in[0], in[1], out[0], context);
  else
    K->gather(gather_of(table, kernel_input(kernel, 1), in[1]), in[0], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(gather, TYPES_FLOAT) {
  (void)graph;
  return prepare_row_major(state, node, p, run_gather, (struct cpu_kernel){0});
}

RUN(run_gather_backward) {
  UNUSED;
  const struct tensor *table = kernel_output(kernel, 0);
  K->gather_backward(gather_of(table, kernel_input(kernel, 0), in[0]), in[1], in[2], out[0], workspace);
  return NEAP_OK;
}
CPU_OPERATOR(gather_backward, TYPES_FLOAT) {
  const struct cpu *cpu = state;
  p->workspace = cpu->kernels->gather_workspace(node_input(graph, node, 0)->elements);
  return prepare_row_major(cpu, node, p, run_gather_backward, (struct cpu_kernel){0});
}

/* ---- States ---- */

/* Moves rows as they are stored; leaves out rows without a place in the state. */
RUN(run_cache_write) {
  UNUSED;
  const struct tensor *state = kernel_input(kernel, CACHE_STATE), *rows = kernel_input(kernel, CACHE_ROWS);
  const int64_t length = state->dims[1], count = rows->dims[1],
                at = in[CACHE_POSITION] != NULL ? *(const int32_t *)in[CACHE_POSITION] : 0,
                begin = at < 0 ? -at : 0, end = length - at < count ? length - at : count;
  const size_t row = dtype_bytes(rows->dtype, (uint64_t)(rows->elements / rows->dims[0] / count));
  for (int64_t n = 0; begin < end && n < rows->dims[0]; n++)
    memcpy((unsigned char *)in[CACHE_STATE] + (size_t)(n * length + at + begin) * row,
           (const unsigned char *)in[CACHE_ROWS] + (size_t)(n * count + begin) * row,
           (size_t)(end - begin) * row);
  return NEAP_OK;
}

/* Costs count the bytes of the rows: the rest of the state is not touched. */
CPU_OPERATOR(cache_write, TYPES_FLOAT) {
  static const double share = 0.4; /* of a copy's bytes a second */
  const struct tensor *rows = node_input(graph, node, CACHE_ROWS);
  p->seconds = (double)dtype_bytes(rows->dtype, (uint64_t)rows->elements) / (share * p->roofline->bytes);
  return prepare_row_major(state, node, p, run_cache_write, (struct cpu_kernel){0});
}

/* ---- Along axes ---- */

RUN(run_sum) {
  UNUSED;
  const struct tensor *x = kernel_input(kernel, 0);
  struct sum_axes axes = {.rank = x->rank, .summed = (uint32_t)ATTRIBUTES.axes.axes};
  for (int32_t i = 0; i < x->rank; i++) axes.dims[i] = x->dims[i];
  K->sum(axes, ATTRIBUTES.axes.scale, in[0], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(sum, TYPE_F32) {
  (void)graph;
  return prepare_row_major(state, node, p, run_sum, (struct cpu_kernel){0});
}

/* The sizes before the axis, of it and after it. */
struct around {
  int64_t outer, count, inner;
};

static struct around around_axis(const struct kernel *kernel) {
  const struct tensor *x = kernel_input(kernel, 0);
  const int64_t axis = ATTRIBUTES.part.axis;
  struct around a = {1, x->dims[axis], 1};
  for (int32_t i = 0; i < axis; i++) a.outer *= x->dims[i];
  a.inner = x->elements / a.outer / a.count;
  return a;
}

RUN(run_softmax) {
  UNUSED;
  const struct around a = around_axis(kernel);
  K->softmax(a.outer, a.count, a.inner, in[0], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(softmax, TYPE_F32) {
  (void)graph;
  return prepare_row_major(state, node, p, run_softmax, (struct cpu_kernel){0});
}

RUN(run_softmax_backward) {
  UNUSED;
  const struct around a = around_axis(kernel);
  K->softmax_backward(a.outer, a.count, a.inner, in[0], in[1], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(softmax_backward, TYPE_F32) {
  (void)graph;
  return prepare_row_major(state, node, p, run_softmax_backward, (struct cpu_kernel){0});
}

static struct row_norm row_norm_of(const struct tensor *x, const struct node *node) {
  const struct row_norm_attributes *a = &node->attributes.row_norm;
  return (struct row_norm){.rows = x->elements / a->length,
                           .length = a->length,
                           .groups = a->groups,
                           .inner = a->inner,
                           .epsilon = a->epsilon,
                           .centred = a->centred,
                           .storage = x->dtype};
}

RUN(run_row_norm) {
  UNUSED;
  K->row_norm(row_norm_of(kernel_input(kernel, 0), kernel_node(kernel)), in[0], in[1], in[2], out[0], out[1],
              out[2]);
  return NEAP_OK;
}
/* Returns true for rows that a norm only takes as f32: too long ones, or if x, y and their gradients differ
 * in type or gamma and beta are not f32. */
static bool rows_differ(const struct neap_graph *graph, const struct node *node,
                        const struct preparation *p) {
  (void)p;
  const struct tensor *x = node_input(graph, node, 0);
  bool differ = node->attributes.row_norm.length > HALF_ROW_LIMIT;
  for (int32_t i = 0; i < node->input_count + node->output_count; i++) {
    const bool rows = i == 0 || i == node->input_count || (i == 1 && node->op == OP_ROW_NORM_BACKWARD);
    const struct tensor *t = i < node->input_count
                                 ? node_input(graph, node, i)
                                 : &graph->tensors.data[node->outputs[i - node->input_count]];
    differ = differ || (t != NULL && t->dtype != (rows ? x->dtype : NEAP_F32));
  }
  return differ;
}

CPU_OPERATOR(row_norm, TYPES_FLOAT, .converts = rows_differ) {
  (void)graph;
  return prepare_row_major(state, node, p, run_row_norm, (struct cpu_kernel){0});
}

RUN(run_row_norm_backward) {
  UNUSED;
  const bool affine = in[4] != NULL;
  K->row_norm_backward(row_norm_of(kernel_input(kernel, 0), kernel_node(kernel)), in[0], in[1], in[2], in[3],
                       in[4], (struct norm_gradients){out[0], affine ? out[1] : NULL, affine ? out[2] : NULL},
                       workspace);
  return NEAP_OK;
}
CPU_OPERATOR(row_norm_backward, TYPES_FLOAT, .converts = rows_differ) {
  const struct cpu *cpu = state;
  p->workspace = cpu->kernels->row_norm_workspace(row_norm_of(node_input(graph, node, 0), node));
  return prepare_row_major(cpu, node, p, run_row_norm_backward, (struct cpu_kernel){0});
}

/* ---- Losses of two tensors ---- */

#define PAIR_LOSS(NAME, id, text, about, value, slope, target_slope)                                         \
  RUN(run_##id) {                                                                                            \
    UNUSED;                                                                                                  \
    K->id(kernel_input(kernel, 0)->elements, ATTRIBUTES.loss.beta, in[0], in[1], out[0], workspace);         \
    return NEAP_OK;                                                                                          \
  }                                                                                                          \
  CPU_OPERATOR(id, TYPE_F32) {                                                                               \
    (void)graph;                                                                                             \
    p->workspace = LOSS_PARTS * sizeof(double);                                                              \
    return prepare_row_major(state, node, p, run_##id, (struct cpu_kernel){0});                              \
  }                                                                                                          \
  RUN(run_##id##_backward) {                                                                                 \
    UNUSED;                                                                                                  \
    K->id##_backward(kernel_input(kernel, 0)->elements, ATTRIBUTES.loss.beta, ATTRIBUTES.loss.by_target,     \
                     in[0], in[1], in[2], out[0]);                                                           \
    return NEAP_OK;                                                                                          \
  }                                                                                                          \
  CPU_OPERATOR(id##_backward, TYPE_F32) {                                                                    \
    (void)graph;                                                                                             \
    return prepare_row_major(state, node, p, run_##id##_backward, (struct cpu_kernel){0});                   \
  }
#include "op/loss_list.h"
