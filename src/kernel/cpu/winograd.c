#include "kernel/cpu/winograd.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>

/* ---- Blocks ---- */

enum {
  LINE = 16,  /* floats of a cache line */
  ROWS = 8,   /* of a product that are made together */
  WEIGHTS = 9 /* of a kernel */
};

/* The sizes of blocks, which fill a good part of a second-level cache. More channels of results save
 * transforms of windows, more tiles save those of kernels that are not kept. Measured. With less memory,
 * blocks are halved: their tiles each time, their channels every other time. */
struct sizes {
  int64_t inputs, outputs; /* channels at most */
  int64_t block;           /* floats of windows and results at most */
};
enum { MOST_HALVINGS = 4 }; /* then they are as small as they get */
static const struct sizes with_kept = {64, 128, 150 << 10}, without = {32, 64, 225 << 10},
                          of_sums = {64, 64, 150 << 10};

/* Kernels at the points are kept if they are few, and small compared with the operands. */
static const int64_t kept_most = 5 << 19; /* floats */
static const double kept_share = 0.4;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t up(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }
static int64_t blocks(int64_t count, int64_t most) { return (count + most - 1) / most; }

/* Returns a block size of at most `most` that makes blocks as even as complete units allow. */
static int64_t even_block(int64_t count, int64_t most, int64_t unit) {
  return up(blocks(count, blocks(count, most)), unit);
}

/* Points are an odd number of lines apart: with a power of two, they would share a few sets of the caches. */
static int64_t point_of(int64_t elements) { return up(elements, 2 * LINE) + LINE; }

static struct winograd_matrix rows_matrix(int64_t rows, int64_t columns) {
  return (struct winograd_matrix){columns, WINOGRAD_PANEL, point_of(rows * columns)};
}

static struct winograd_matrix panels_matrix(int64_t rows, int64_t columns) {
  return (struct winograd_matrix){WINOGRAD_PANEL, rows * WINOGRAD_PANEL,
                                  point_of(rows * up(columns, WINOGRAD_PANEL))};
}

static int64_t elements(struct winograd_matrix m) { return WINOGRAD_POINTS * m.point; }

static double bytes_of_tensor(struct activation a) {
  return (double)(a.images * a.channels * a.height * a.width) * (double)bytes_of(a.storage);
}

static bool keeps_weights(const struct winograd *w) {
  const int64_t pairs = w->weights.inputs * w->weights.outputs, kept = WINOGRAD_POINTS * pairs;
  const double operands = bytes_of_tensor(w->from.a) + bytes_of_tensor(w->to.a) +
                          (double)(WEIGHTS * pairs) * (double)bytes_of(w->weights.storage);
  return w->pass != WINOGRAD_BACKWARD_WEIGHTS && kept <= kept_most &&
         (double)kept * sizeof(float) <= kept_share * operands;
}

/* Chooses blocks of tiles: as large as fits, their number a multiple of the threads. */
static void choose_blocks(struct winograd *w, int halvings) {
  const struct sizes sizes = w->pass == WINOGRAD_BACKWARD_WEIGHTS ? of_sums : w->kept ? with_kept : without;
  const int narrower = halvings / 2;
  w->input_block =
      even_block(w->weights.inputs, most(sizes.inputs >> narrower, WINOGRAD_LANES), WINOGRAD_LANES);
  w->output_block =
      even_block(w->weights.outputs, most(sizes.outputs >> narrower, WINOGRAD_PANEL), WINOGRAD_PANEL);
  w->most_tiles = most(
      (sizes.block >> halvings) / WINOGRAD_POINTS / (w->input_block + w->output_block) / ROWS * ROWS, ROWS);
  int64_t count = blocks(w->tiles, w->most_tiles);
  if (count * blocks(w->weights.outputs, w->output_block) % w->threads != 0) count = up(count, w->threads);
  w->tile_block = even_block(w->tiles, blocks(w->tiles, count), ROWS);
}

static void choose_matrices(struct winograd *w) {
  const bool sums = w->pass == WINOGRAD_BACKWARD_WEIGHTS;
  const int64_t t = w->tile_block, in = w->input_block, out = w->output_block;
  w->from.matrix = rows_matrix(t, in);
  w->to.matrix = sums ? panels_matrix(t, out) : rows_matrix(t, out);
  w->weights.matrix = sums ? rows_matrix(in, out) : panels_matrix(in, out);
  const int64_t jobs = blocks(w->from.a.channels, in) * blocks(w->to.a.channels, out);
  w->parts = sums && jobs % w->threads != 0 ? (int)least(w->threads, w->tiles) : 1;
}

static struct winograd plan_pass(enum winograd_pass pass, struct activation x, struct activation y,
                                 int64_t top, int64_t left, int threads, double most_workspace) {
  enum { LAST = 2 }; /* row or column of a kernel */
  const bool back = pass == WINOGRAD_BACKWARD_DATA;
  struct winograd w = {.pass = pass, .from.a = back ? y : x, .to.a = back ? x : y, .threads = threads};
  w.from.rows = w.to.rows = blocks(w.to.a.height, WINOGRAD_TILE);
  w.from.columns = w.to.columns = blocks(w.to.a.width, WINOGRAD_TILE);
  w.from.top = back ? LAST - top : top;
  w.from.left = back ? LAST - left : left;
  w.tiles = w.to.a.images * w.to.rows * w.to.columns;
  w.weights = (struct winograd_weights){.outputs = w.to.a.channels,
                                        .inputs = w.from.a.channels,
                                        .output_step = back ? WEIGHTS : WEIGHTS * x.channels,
                                        .input_step = back ? WEIGHTS * x.channels : WEIGHTS,
                                        .turned = back,
                                        .storage = x.storage};
  for (int halvings = 0; halvings <= MOST_HALVINGS; halvings++)
    for (int kept = keeps_weights(&w); kept >= 0; kept--) {
      w.kept = kept;
      choose_blocks(&w, halvings);
      choose_matrices(&w);
      if ((double)winograd_workspace(&w) <= most_workspace) return w;
    }
  return w;
}

bool winograd_plan(struct activation x, struct activation y, int64_t top, int64_t left, int threads,
                   double most_workspace, struct winograd plans[WINOGRAD_PASSES]) {
  bool fit = true;
  for (int pass = 0; pass < WINOGRAD_PASSES; pass++) {
    plans[pass] = plan_pass((enum winograd_pass)pass, x, y, top, left, threads, most_workspace);
    fit = fit && (double)winograd_workspace(&plans[pass]) <= most_workspace;
  }
  return fit;
}

/* ---- Choosing shapes ---- */

static bool takes_format(struct activation a) {
  return a.channels >= WINOGRAD_LANES && (a.lanes == a.channels || a.lanes == 8 || a.lanes == 16);
}

bool winograd_takes(struct activation x, struct activation y, int64_t height, int64_t width) {
  return height == 3 && width == 3 && takes_format(x) && takes_format(y);
}

/* Returns the cost of a convolution, in FLOPs of products as fast as oneDNN's direct ones: a product at the
 * points and the work that it hides, then transforms by channel of a tile or by kernel. Measured. */
static double cost(const struct winograd *w) {
  static const double product = 1.5, window = 950, result = 700, kernel = 1000;
  const double inputs = (double)w->weights.inputs, outputs = (double)w->weights.outputs,
               tiles = (double)w->tiles;
  const double by_output = (double)blocks(w->weights.outputs, w->output_block),
               by_input = w->pass == WINOGRAD_BACKWARD_WEIGHTS
                              ? (double)blocks(w->weights.inputs, w->input_block)
                              : 1,
               by_tiles = w->kept || w->pass == WINOGRAD_BACKWARD_WEIGHTS
                              ? 1
                              : (double)blocks(w->tiles, w->most_tiles);
  return tiles * (product * 2 * WINOGRAD_POINTS * inputs * outputs + window * inputs * by_output +
                  result * outputs * by_input) +
         kernel * inputs * outputs * by_tiles;
}

/* Returns the cost of all three passes; and that of direct convolutions at `speed` times the speed of f32. */
static double costs(const struct winograd plans[WINOGRAD_PASSES]) {
  double sum = 0;
  for (int pass = 0; pass < WINOGRAD_PASSES; pass++) sum += cost(&plans[pass]);
  return sum;
}
static double direct_costs(struct activation x, struct activation y, double speed) {
  return WINOGRAD_PASSES * 2 * WEIGHTS * (double)(y.images * y.height * y.width) *
         (double)(x.channels * y.channels) / speed;
}

bool winograd_pays(const struct winograd plans[WINOGRAD_PASSES], double speed) {
  const struct winograd *forward = &plans[WINOGRAD_FORWARD];
  struct activation x = forward->from.a, y = forward->to.a;
  struct winograd usual[WINOGRAD_PASSES];
  if (costs(plans) >= direct_costs(x, y, speed)) return false;
  x.images = y.images = 8;
  winograd_plan(x, y, forward->from.top, forward->from.left, 1, INFINITY, usual);
  return costs(usual) < direct_costs(x, y, speed);
}

double winograd_flops(const struct winograd *w) { return cost(w); }

void winograd_describe(const struct winograd *w, const struct cpu_kernels *k, char *text, size_t size) {
  enum { VERSION = 2 }; /* of the algorithm: another one gives other bits */
  snprintf(text, size, "winograd 4x4 %d %s, %lld tiles, %lld x %lld channels%s", VERSION, k->name,
           (long long)w->tile_block, (long long)w->input_block, (long long)w->output_block,
           w->kept ? ", kernels kept" : "");
}

/* ---- Workspace ---- */

static int64_t weight_elements(const struct winograd *w) {
  return w->weights.outputs * w->weights.inputs * WEIGHTS;
}

static int64_t blocks_of_weights(const struct winograd *w) {
  return blocks(w->weights.outputs, w->output_block) * blocks(w->weights.inputs, w->input_block);
}

/* Returns true if sums of the gradient by kernels are made block by block in a thread's memory: it is of 16
 * bits and has one part. */
static bool sums_by_block(const struct winograd *w) {
  return w->pass == WINOGRAD_BACKWARD_WEIGHTS && w->weights.storage != NEAP_F32 && w->parts == 1;
}

/* Returns how many parts have sums of all of the gradient in the workspace: the first part of f32 sums in the
 * gradient itself. */
static int parts_apart(const struct winograd *w) {
  return sums_by_block(w) ? 0 : w->parts - (w->weights.storage == NEAP_F32);
}
static float *sums_of_part(const struct winograd *w, int part, void *dw, float *workspace) {
  const int behind = part - (w->parts - parts_apart(w));
  return behind < 0 ? dw : workspace + behind * weight_elements(w);
}

static int64_t shared_elements(const struct winograd *w) {
  if (w->pass == WINOGRAD_BACKWARD_WEIGHTS) return up(parts_apart(w) * weight_elements(w), LINE);
  return w->kept ? blocks_of_weights(w) * elements(w->weights.matrix) : 0;
}

static int64_t own_elements(const struct winograd *w) {
  return elements(w->from.matrix) + elements(w->to.matrix) +
         (w->pass == WINOGRAD_BACKWARD_WEIGHTS || !w->kept ? elements(w->weights.matrix) : 0) +
         (sums_by_block(w) ? up(WEIGHTS * w->input_block * w->output_block, LINE) : 0);
}

size_t winograd_workspace(const struct winograd *w) {
  return (size_t)(shared_elements(w) + w->threads * own_elements(w)) * sizeof(float);
}

/* The memory of a thread. */
struct room {
  float *from, *to, *weights, *sums;
};

static struct room room_of(const struct winograd *w, float *workspace) {
  float *own = workspace + shared_elements(w) + omp_get_thread_num() * own_elements(w),
        *to = own + elements(w->from.matrix), *weights = to + elements(w->to.matrix);
  return (struct room){own, to, weights, sums_by_block(w) ? weights + elements(w->weights.matrix) : NULL};
}

/* ---- Running ---- */

static struct winograd_tiles tiles_in(const struct winograd_tiles *all, int64_t first, int64_t count,
                                      int64_t channel, int64_t channels) {
  struct winograd_tiles t = *all;
  t.first = first;
  t.count = count;
  t.channel = channel;
  t.channels = least(channels, t.a.channels - channel);
  return t;
}

static struct winograd_weights weights_in(const struct winograd *w, int64_t output, int64_t input) {
  struct winograd_weights part = w->weights;
  part.output = output;
  part.output_count = least(w->output_block, part.outputs - output);
  part.input = input;
  part.input_count = least(w->input_block, part.inputs - input);
  return part;
}

/* Returns where a block of kernels is kept. */
static float *kept_weights(const struct winograd *w, float *workspace, const struct winograd_weights *part) {
  const int64_t row = blocks(w->weights.inputs, w->input_block);
  return workspace +
         (part->output / w->output_block * row + part->input / w->input_block) * elements(w->weights.matrix);
}

static void keep_weights(const struct winograd *w, const struct cpu_kernels *k, const void *weights,
                         float *workspace) {
#pragma omp for collapse(2) schedule(static)
  for (int64_t o = 0; o < w->weights.outputs; o += w->output_block)
    for (int64_t i = 0; i < w->weights.inputs; i += w->input_block) {
      const struct winograd_weights part = weights_in(w, o, i);
      k->winograd_weights(&part, weights, kept_weights(w, workspace, &part));
    }
}

struct operands {
  const void *from, *weights, *bias, *addend;
  void *to;
  float *workspace;
};

/* Convolves one block of tiles and of result channels. */
static void convolve_block(const struct winograd *w, const struct cpu_kernels *k, const struct operands *o,
                           int64_t first, int64_t output) {
  const struct room room = room_of(w, o->workspace);
  const int64_t count = least(w->tile_block, w->tiles - first);
  const struct winograd_tiles to = tiles_in(&w->to, first, count, output, w->output_block);
  for (int64_t i = 0; i < w->weights.inputs; i += w->input_block) {
    const struct winograd_tiles from = tiles_in(&w->from, first, count, i, w->input_block);
    const struct winograd_weights part = weights_in(w, output, i);
    const struct winograd_product p = {.rows = count,
                                       .columns = up(to.channels, WINOGRAD_LANES),
                                       .depth = up(from.channels, WINOGRAD_LANES),
                                       .a_row = from.matrix.row,
                                       .a_depth = 1,
                                       .a_point = from.matrix.point,
                                       .b_panel = part.matrix.panel,
                                       .b_point = part.matrix.point,
                                       .c_row = to.matrix.row,
                                       .c_point = to.matrix.point,
                                       .add = i > 0};
    float *u = w->kept ? kept_weights(w, o->workspace, &part) : room.weights;
    if (!w->kept) k->winograd_weights(&part, o->weights, u);
    k->winograd_windows(&from, o->from, room.from);
    k->winograd_product(&p, room.from, u, room.to);
  }
  k->winograd_results(&to, room.to, o->bias, o->addend, o->to);
}

void winograd_convolve(const struct winograd *w, const struct cpu_kernels *k, const void *from,
                       const void *weights, const void *bias, const void *addend, void *to, void *workspace) {
  const struct operands o = {from, weights, bias, addend, to, workspace};
#pragma omp parallel num_threads(w->threads)
  {
    if (w->kept) keep_weights(w, k, weights, workspace);
#pragma omp for collapse(2) schedule(static)
    for (int64_t t = 0; t < w->tiles; t += w->tile_block)
      for (int64_t output = 0; output < w->weights.outputs; output += w->output_block)
        convolve_block(w, k, &o, t, output);
  }
}

/* ---- Gradient by the kernels ---- */

/* The operands of the gradient of one block of kernels. */
struct kernel_block {
  const struct winograd *w;
  const struct cpu_kernels *k;
  const void *x, *dy;
  int64_t output, input; /* where the block begins */
};

/* Sums at the points, for one block of kernels over the tiles [begin, end). */
static void sum_tiles(const struct kernel_block *b, int64_t begin, int64_t end, const struct room *room) {
  const struct winograd *w = b->w;
  const struct cpu_kernels *k = b->k;
  for (int64_t t = begin; t < end; t += w->tile_block) {
    const int64_t count = least(w->tile_block, end - t);
    const struct winograd_tiles from = tiles_in(&w->from, t, count, b->input, w->input_block),
                                to = tiles_in(&w->to, t, count, b->output, w->output_block);
    const struct winograd_product p = {.rows = up(from.channels, WINOGRAD_LANES),
                                       .columns = up(to.channels, WINOGRAD_LANES),
                                       .depth = count,
                                       .a_row = 1,
                                       .a_depth = from.matrix.row,
                                       .a_point = from.matrix.point,
                                       .b_panel = to.matrix.panel,
                                       .b_point = to.matrix.point,
                                       .c_row = w->weights.matrix.row,
                                       .c_point = w->weights.matrix.point,
                                       .add = t > begin};
    k->winograd_windows(&from, b->x, room->from);
    k->winograd_gradients(&to, b->dy, room->to);
    k->winograd_product(&p, room->from, room->to, room->weights);
  }
}

/* Returns a block of kernels as if it were all of them. */
static struct winograd_weights alone(struct winograd_weights block) {
  block.outputs = block.output_count;
  block.inputs = block.input_count;
  block.output = block.input = 0;
  block.input_step = WEIGHTS;
  block.output_step = WEIGHTS * block.inputs;
  return block;
}

/* Stores the sums of a block in the gradient. */
static void narrow_block(const struct winograd_weights *block, const struct cpu_kernels *k, const float *sums,
                         void *dw) {
  const int64_t row = WEIGHTS * block->input_count;
  for (int64_t o = 0; o < block->output_count; o++) {
    const int64_t at = (block->output + o) * block->output_step + block->input * block->input_step;
    k->narrow(block->storage, row, sums + o * row, (char *)dw + at * (int64_t)bytes_of(block->storage));
  }
}

/* Makes the gradient of one block of kernels over a part of the tiles, some at a time: sums of sums are more
 * accurate than one sum. */
static void sum_block(const struct kernel_block *b, int part, void *dw, float *workspace) {
  enum { SUMMED = 1024 }; /* tiles */
  const struct winograd *w = b->w;
  const struct room room = room_of(w, workspace);
  const struct winograd_weights block = weights_in(w, b->output, b->input),
                                made = sums_by_block(w) ? alone(block) : block;
  float *sums = sums_by_block(w) ? room.sums : sums_of_part(w, part, dw, workspace);
  const int64_t begin = w->tiles * part / w->parts, end = w->tiles * (part + 1) / w->parts;
  for (int64_t t = begin; t < end; t += SUMMED) {
    sum_tiles(b, t, least(t + SUMMED, end), &room);
    b->k->winograd_weights_gradient(&made, room.weights, t > begin, sums);
  }
  if (sums_by_block(w)) narrow_block(&block, b->k, sums, dw);
}

void winograd_backward_weights(const struct winograd *w, const struct cpu_kernels *k, const void *x,
                               const void *dy, void *dw, void *workspace) {
#pragma omp parallel for collapse(3) schedule(static) num_threads(w->threads)
  for (int part = 0; part < w->parts; part++)
    for (int64_t o = 0; o < w->weights.outputs; o += w->output_block)
      for (int64_t i = 0; i < w->weights.inputs; i += w->input_block)
        sum_block(&(struct kernel_block){w, k, x, dy, o, i}, part, dw, workspace);
  if (sums_by_block(w)) return;
  const int64_t count = weight_elements(w);
  float *sums = sums_of_part(w, 0, dw, workspace);
  for (int part = 1; part < w->parts; part++) k->add(count, sums, sums_of_part(w, part, dw, workspace), sums);
  if (w->weights.storage != NEAP_F32) k->narrow(w->weights.storage, count, sums, dw);
}
