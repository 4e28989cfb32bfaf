#include "kernel/cpu/direct_convolution.h"

/* A product, or several if the gradient by a convolution's input has a stride: each has the pixels that the
 * same taps reach. */
struct direct_convolution {
  enum convolution_pass pass;
  bool by_channel; /* one product, whose items are channels with one kernel each */
  int32_t count;
  struct product products[];
};

struct making {
  const struct cpu_kernels *kernels;
  int threads;
  struct region *region;
  struct direct_convolution *to;
  uint64_t workspace;
};

static neap_status add_product(struct making *m, const struct product *given) {
  struct product *p = &m->to->products[m->to->count++];
  *p = *given;
  p->threads = m->threads;
  m->to->by_channel = p->a.channels == 1 && p->columns == 1;
  const size_t bytes =
      m->to->by_channel ? m->kernels->channel_product_workspace(p) : m->kernels->product_workspace(p);
  if (bytes > m->workspace) m->workspace = bytes;
  return NEAP_OK;
}

/* Describes a matrix of rows of `columns` elements. */
static struct product_matrix plain(int64_t columns) {
  return (struct product_matrix){.row = columns, .column = 1};
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
static struct product_matrix kernels(const struct convolution *c, const struct product_tap *taps,
                                     bool by_channels) {
  const int64_t area = c->kernel[2] * c->kernel[3], filter = c->exchanged ? area : c->kernel[1] * area,
                channel = c->exchanged ? c->kernel[0] * area : area;
  return (struct product_matrix){.kind = PRODUCT_KERNELS,
                                 .taps = taps,
                                 .channels = by_channels ? c->kernel[0] / c->groups : c->kernel[1],
                                 .row = by_channels ? filter : channel,
                                 .column = by_channels ? channel : filter};
}

static int64_t group_kernels(const struct convolution *c) {
  return c->kernel[0] / c->groups * c->kernel[1] * c->kernel[2] * c->kernel[3];
}

/* Makes the result, or the gradient by the kernels: windows of the source at the pixels of the destination.
 */
static neap_status make_windows(struct making *m, const struct convolution *c) {
  const int64_t filters = c->kernel[0] / c->groups, channels = c->kernel[1],
                pixels = c->destination[0] * c->destination[2] * c->destination[3],
                count = c->kernel[2] * c->kernel[3];
  struct product_tap *taps = region_alloc(m->region, (size_t)count, sizeof *taps);
  RETURN_IF_NULL(taps);
  for (int64_t i = 0; i < count; i++)
    taps[i] = (struct product_tap){i, i / c->kernel[3] * c->dilation - c->padding[0],
                                   i % c->kernel[3] * c->dilation - c->padding[1]};
  struct product p = {.rank = 1,
                      .dims = {c->groups},
                      .columns = filters,
                      .a = windows(c->source, channels, taps, c->destination + 2, c->stride),
                      .a_item = {channels},
                      .add = c->addend,
                      .biased = c->bias};
  const struct product_matrix of_kernels = kernels(c, taps, false), of_pixels = plain(c->destination[1]);
  if (c->pass == PASS_FORWARD) {
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
  }
  return add_product(m, &p);
}

/* Lists the taps that reach the source's pixels (y, x) + stride * (i, j), and from which pixel of the
 * destination. */
static int64_t reaching(const struct convolution *c, int64_t y, int64_t x, struct product_tap *taps) {
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
static neap_status make_backward_data(struct making *m, const struct convolution *c, int64_t y, int64_t x) {
  const int64_t filters = c->kernel[0] / c->groups, channels = c->kernel[1];
  const int64_t grid[2] = {(c->source[2] - y + c->stride - 1) / c->stride,
                           (c->source[3] - x + c->stride - 1) / c->stride};
  struct product_tap *taps = region_alloc(m->region, (size_t)(c->kernel[2] * c->kernel[3] + 1), sizeof *taps);
  RETURN_IF_NULL(taps);
  struct product_tap *to = taps + c->kernel[2] * c->kernel[3];
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
  return add_product(m, &p);
}

neap_status direct_convolution_prepare(const struct cpu_kernels *kernels, int threads, struct region *region,
                                       const struct convolution *c, uint64_t *workspace,
                                       const struct direct_convolution **out) {
  RETURN_IF(c->bf16 || c->blocks || c->source_lanes != c->source[1] ||
                c->destination_lanes != c->destination[1],
            NEAP_UNSUPPORTED, "there are direct convolutions of our own of f32 in channels last alone");
  const bool back = c->pass == PASS_BACKWARD_DATA;
  const int64_t most = back ? c->stride * c->stride : 1;
  struct making m = {kernels, threads, region, NULL, 0};
  m.to = region_alloc(region, 1, sizeof *m.to + (size_t)most * sizeof *m.to->products);
  RETURN_IF_NULL(m.to);
  m.to->pass = c->pass;
  if (!back) TRY(make_windows(&m, c));
  for (int64_t y = 0; back && y < c->stride && y < c->source[2]; y++)
    for (int64_t x = 0; x < c->stride && x < c->source[3]; x++) TRY(make_backward_data(&m, c, y, x));
  *workspace = m.workspace;
  *out = m.to;
  return NEAP_OK;
}

void direct_convolution_run(const struct direct_convolution *c, const struct cpu_kernels *kernels,
                            const struct convolution_operands *given) {
  struct product_operands o = {.a = given->a, .b = given->b, .bias = given->bias, .c = given->c};
  if (c->pass == PASS_BACKWARD_DATA) o.a = given->c, o.c = given->a;
  if (c->pass == PASS_BACKWARD_WEIGHTS) o.b = given->c, o.c = given->b;
  for (int32_t i = 0; i < c->count; i++) {
    const struct product *product = &c->products[i];
    o.addend = product->add ? o.c : NULL;
    if (c->by_channel)
      kernels->channel_product(product, &o, given->scratchpad);
    else
      kernels->product(product, &o, given->scratchpad);
  }
}
