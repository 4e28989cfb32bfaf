/* What onednn.h declares without oneDNN: products of matrices and direct convolutions of f32 in channels
 * last, by a kernel of our own. Weights are row-major. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/vector.h"
#include "kernel/cpu/dispatch.h"
#include "kernel/cpu/onednn.h"

struct dnn_layout {
  size_t bytes;
};

/* A product, or several if the gradient by a convolution's input has a stride: each has the pixels that the
 * same taps reach. */
struct dnn_primitive {
  const struct cpu_kernels *kernels;
  struct dnn_layout weights; /* of inner products */
  bool has_weights;
  size_t scratchpad;
  enum { IN_ORDER, BACKWARD_DATA, BACKWARD_WEIGHTS } operands; /* of dnn_run: which of them are a, b and c */
  VECTOR(struct product) products;
  VECTOR(struct product_tap *) taps; /* of each product; then of its result */
};

struct dnn {
  const struct cpu_kernels *kernels;
  VECTOR(struct dnn_primitive *) primitives;
};

neap_status dnn_create(struct dnn **out) {
  struct dnn *dnn = calloc(1, sizeof *dnn);
  RETURN_IF_NULL(dnn);
  const neap_status status = cpu_kernels_best(&dnn->kernels);
  if (status != NEAP_OK) {
    free(dnn);
    return status;
  }
  *out = dnn;
  return NEAP_OK;
}

void dnn_free(struct dnn *dnn) {
  if (dnn == NULL) return;
  for (size_t i = 0; i < dnn->primitives.count; i++) {
    struct dnn_primitive *p = dnn->primitives.data[i];
    for (size_t j = 0; j < p->taps.count; j++) free(p->taps.data[j]);
    vector_free(&p->taps);
    vector_free(&p->products);
    free(p);
  }
  vector_free(&dnn->primitives);
  free(dnn);
}

size_t dnn_layout_bytes(const struct dnn_layout *layout) { return layout->bytes; }

neap_status dnn_layout_unpacked(struct dnn *dnn, const struct dnn_layout *packed,
                                const struct dnn_layout **out) {
  (void)dnn;
  *out = packed; /* it is row-major */
  return NEAP_OK;
}

const struct dnn_layout *dnn_weights(const struct dnn_primitive *primitive) {
  return primitive->has_weights ? &primitive->weights : NULL;
}

double dnn_bf16_speed(void) { return 0; }
bool dnn_takes_blocks(void) { return false; }

static neap_status start(struct dnn *dnn, struct dnn_primitive **out) {
  struct dnn_primitive *p = calloc(1, sizeof *p);
  RETURN_IF_NULL(p);
  p->kernels = dnn->kernels;
  if (vector_push(&dnn->primitives, p) != NEAP_OK) {
    free(p);
    return neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for a product");
  }
  *out = p;
  return NEAP_OK;
}

static neap_status add_product(struct dnn_primitive *primitive, const struct product *p) {
  const size_t bytes = primitive->kernels->product_workspace(p, omp_get_max_threads());
  if (bytes > primitive->scratchpad) primitive->scratchpad = bytes;
  return vector_push(&primitive->products, *p);
}

/* ---- Matrix products ---- */

/* Describes a matrix [rows, columns], or the matrix whose transpose is stored so. */
static struct product_matrix plain(int64_t rows, int64_t columns, bool transposed) {
  return transposed ? (struct product_matrix){.row = 1, .column = rows}
                    : (struct product_matrix){.row = columns, .column = 1};
}

/* Gives the strides of a batch's dimensions, 0 along those of which the operand has one. */
static void batch_strides(int32_t rank, const int64_t *dims, int64_t stride, int64_t *strides) {
  for (int32_t i = rank - 1; i >= 0; i--) {
    strides[i] = dims[i] == 1 ? 0 : stride;
    stride *= dims[i];
  }
}

neap_status dnn_make_matmul(struct dnn *dnn, const struct dnn_matmul *m, const struct dnn_primitive **out) {
  struct dnn_primitive *primitive;
  RETURN_IF(m->bf16, NEAP_UNSUPPORTED, "there is no product of bf16 without oneDNN");
  TRY(start(dnn, &primitive));
  struct product p = {.rank = m->batch_rank,
                      .rows = m->m,
                      .columns = m->n,
                      .depth = m->k,
                      .a = m->a_transposed ? plain(m->k, m->m, false) : plain(m->m, m->k, false),
                      .b = plain(m->k, m->n, m->b_transposed),
                      .c = plain(m->m, m->c_stride > 0 ? m->c_stride : m->n, false),
                      .a_turned = m->a_transposed,
                      .add = m->addend};
  for (int32_t i = 0; i < m->batch_rank; i++)
    p.dims[i] = m->a_batch[i] > m->b_batch[i] ? m->a_batch[i] : m->b_batch[i];
  batch_strides(m->batch_rank, m->a_batch, m->m * m->k, p.a_item);
  batch_strides(m->batch_rank, m->b_batch, m->k * m->n, p.b_item);
  batch_strides(m->batch_rank, p.dims, m->m * m->n, p.c_item);
  TRY(add_product(primitive, &p));
  *out = primitive;
  return NEAP_OK;
}

neap_status dnn_make_inner_product(struct dnn *dnn, const struct dnn_inner_product *i,
                                   const struct dnn_primitive **out) {
  const bool back = i->pass != DNN_FORWARD;
  const struct dnn_matmul m = {.m = i->rows,
                               .n = back ? i->inputs : i->outputs,
                               .k = back ? i->outputs : i->inputs,
                               .b_transposed = !back,
                               .addend = i->addend};
  TRY(dnn_make_matmul(dnn, &m, out));
  struct dnn_primitive *p = dnn->primitives.data[dnn->primitives.count - 1];
  p->weights.bytes = (size_t)(i->inputs * i->outputs) * sizeof(float);
  p->has_weights = true;
  if (back) p->operands = BACKWARD_DATA;
  return NEAP_OK;
}

neap_status dnn_make_reorder(struct dnn *dnn, const struct dnn_layout *from, const struct dnn_layout *to,
                             bool bf16, const struct dnn_primitive **out) {
  (void)dnn, (void)from, (void)to, (void)bf16, (void)out;
  return neap_fail(NEAP_INTERNAL, "without oneDNN no layout is packed");
}

/* ---- Convolutions ---- */

static neap_status add_taps(struct dnn_primitive *p, int64_t count, struct product_tap **out) {
  *out = calloc((size_t)(count > 0 ? count : 1), sizeof **out);
  RETURN_IF_NULL(*out);
  if (vector_push(&p->taps, *out) == NEAP_OK) return NEAP_OK;
  free(*out);
  return neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for a convolution");
}

/* Describes a tensor in channels last as the windows of a grid, of which `channels` of a group. */
static struct product_matrix windows(const int64_t dims[4], int64_t channels, const struct product_tap *taps,
                                     const int64_t grid[2], int64_t step) {
  return (struct product_matrix){.kind = PRODUCT_WINDOWS,
                                 .taps = taps,
                                 .channels = channels,
                                 .grid_height = grid[0],
                                 .grid_width = grid[1],
                                 .step = step,
                                 .height = dims[2],
                                 .width = dims[3],
                                 .pixel = dims[1]};
}

/* Describes the kernels as the matrix of taps and channels by filters, or of taps and filters by channels. */
static struct product_matrix kernels(const struct dnn_convolution *c, const struct product_tap *taps,
                                     bool by_channels) {
  const int64_t area = c->kernel[2] * c->kernel[3], filter = c->exchanged ? area : c->kernel[1] * area,
                channel = c->exchanged ? c->kernel[0] * area : area;
  return (struct product_matrix){.kind = PRODUCT_KERNELS,
                                 .taps = taps,
                                 .channels = by_channels ? c->kernel[0] / c->groups : c->kernel[1],
                                 .row = by_channels ? filter : channel,
                                 .column = by_channels ? channel : filter};
}

static int64_t group_kernels(const struct dnn_convolution *c) {
  return c->kernel[0] / c->groups * c->kernel[1] * c->kernel[2] * c->kernel[3];
}

/* Makes the result, or the gradient by the kernels: windows of the source at the pixels of the destination.
 */
static neap_status make_windows(struct dnn_primitive *primitive, const struct dnn_convolution *c) {
  const int64_t filters = c->kernel[0] / c->groups, channels = c->kernel[1],
                pixels = c->destination[0] * c->destination[2] * c->destination[3],
                count = c->kernel[2] * c->kernel[3];
  struct product_tap *taps;
  TRY(add_taps(primitive, count, &taps));
  for (int64_t i = 0; i < count; i++)
    taps[i] = (struct product_tap){i, i / c->kernel[3] * c->dilation - c->padding[0],
                                   i % c->kernel[3] * c->dilation - c->padding[1]};
  struct product p = {.rank = 1,
                      .dims = {c->groups},
                      .columns = filters,
                      .a = windows(c->source, channels, taps, c->destination + 2, c->stride),
                      .a_item = {channels},
                      .add = c->addend};
  const struct product_matrix of_kernels = kernels(c, taps, false),
                              of_pixels = plain(pixels, c->destination[1], false);
  if (c->pass == DNN_FORWARD) {
    p.rows = pixels;
    p.depth = count * channels;
    p.b = of_kernels;
    p.b_item[0] = group_kernels(c);
    p.c = of_pixels;
    p.c_item[0] = filters;
  } else {
    p.rows = count * channels;
    p.depth = pixels;
    p.a_turned = true;
    p.b = of_pixels;
    p.b_item[0] = filters;
    p.c = of_kernels;
    p.c_item[0] = group_kernels(c);
    primitive->operands = BACKWARD_WEIGHTS;
  }
  return add_product(primitive, &p);
}

/* Lists the taps that reach the source's pixels (y, x) + stride * (i, j), and from which pixel of the
 * destination. */
static int64_t reaching(const struct dnn_convolution *c, int64_t y, int64_t x, struct product_tap *taps) {
  int64_t count = 0;
  for (int64_t i = 0; i < c->kernel[2] * c->kernel[3]; i++) {
    const int64_t down = y + c->padding[0] - i / c->kernel[3] * c->dilation,
                  right = x + c->padding[1] - i % c->kernel[3] * c->dilation;
    if (down % c->stride != 0 || right % c->stride != 0) continue;
    taps[count++] = (struct product_tap){i, down / c->stride, right / c->stride};
  }
  return count;
}

/* Makes the part of the gradient by the source at the pixels (y, x) + stride * (i, j). */
static neap_status make_backward_data(struct dnn_primitive *primitive, const struct dnn_convolution *c,
                                      int64_t y, int64_t x) {
  const int64_t filters = c->kernel[0] / c->groups, channels = c->kernel[1];
  const int64_t grid[2] = {(c->source[2] - y + c->stride - 1) / c->stride,
                           (c->source[3] - x + c->stride - 1) / c->stride};
  struct product_tap *taps, *to;
  TRY(add_taps(primitive, c->kernel[2] * c->kernel[3], &taps));
  TRY(add_taps(primitive, 1, &to));
  *to = (struct product_tap){0, y, x};
  const struct product p = {.rank = 1,
                            .dims = {c->groups},
                            .rows = c->source[0] * grid[0] * grid[1],
                            .columns = channels,
                            .depth = reaching(c, y, x, taps) * filters,
                            .a = windows(c->destination, filters, taps, grid, 1),
                            .a_item = {filters},
                            .b = kernels(c, taps, true),
                            .b_item = {group_kernels(c)},
                            .c = windows(c->source, channels, to, grid, c->stride),
                            .c_item = {channels}};
  primitive->operands = BACKWARD_DATA;
  return add_product(primitive, &p);
}

neap_status dnn_make_convolution(struct dnn *dnn, const struct dnn_convolution *c,
                                 const struct dnn_layout *weights, const struct dnn_primitive **out) {
  struct dnn_primitive *p;
  RETURN_IF(c->winograd || c->bf16 || c->blocks || weights != NULL || c->source_lanes != c->source[1] ||
                c->destination_lanes != c->destination[1],
            NEAP_UNSUPPORTED, "there is no such convolution without oneDNN");
  TRY(start(dnn, &p));
  if (c->pass == DNN_BACKWARD_DATA)
    for (int64_t y = 0; y < c->stride && y < c->source[2]; y++)
      for (int64_t x = 0; x < c->stride && x < c->source[3]; x++) TRY(make_backward_data(p, c, y, x));
  else
    TRY(make_windows(p, c));
  *out = p;
  return NEAP_OK;
}

/* ---- Running ---- */

size_t dnn_scratchpad_bytes(const struct dnn_primitive *primitive) { return primitive->scratchpad; }

void dnn_describe(const struct dnn_primitive *primitive, char *text, size_t size) {
  snprintf(text, size, "product %s", primitive->kernels->name);
}

neap_status dnn_run(const struct dnn_primitive *p, const struct dnn_operands *o) {
  const float *a = o->a, *b = o->b;
  float *c = o->c;
  if (p->operands == BACKWARD_DATA) a = o->c, c = o->a;
  if (p->operands == BACKWARD_WEIGHTS) b = o->c, c = o->b;
  for (size_t i = 0; i < p->products.count; i++)
    p->kernels->product(&p->products.data[i], a, b, o->bias, c, o->scratchpad);
  return NEAP_OK;
}
