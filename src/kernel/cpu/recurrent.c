/* Recurrent layers: for each time a product with the recurrent weights and a cell.
 *
 * The rows of a time are adjacent. Tensors of 16 bits are converted time by time, the weights once for each
 * call. */
#include <string.h>

#include "kernel/cpu/matmul.h"
#include "kernel/cpu/operator.h"

/* For the gradient of weights: sums of products over this number of rows at once. */
struct row_products {
  int64_t count, chunk;                      /* rows: of all, of a chunk */
  const struct product *first, *more, *rest; /* the first chunk; those after it; one of fewer rows */
};

struct recurrent_kernel {
  int64_t times, rows, width; /* of y [times, rows, width] */
  int64_t gates;              /* elements of a row that the recurrent weights give: 4 or 3 widths */
  neap_dtype storage;         /* of all that is not always f32 */
  bool initial;               /* there is a state before the first time */
  struct row_products later_rows, first_rows; /* of all times but the first; of the first */
};

#define R cpu_kernel(kernel)->recurrent

/* ---- Places in the workspace ---- */

struct cursor {
  unsigned char *base; /* NULL: bytes are counted, and no places given */
  uint64_t used;
};

/* Takes memory; its place depends on those taken before. */
static float *take(struct cursor *c, int64_t elements) {
  float *place = c->base != NULL ? (void *)(c->base + c->used) : NULL;
  const uint64_t bytes = (uint64_t)elements * sizeof(float);
  c->used += (bytes + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
  return place;
}

/* Takes memory for converting 16 bits; f32 is used where it is. */
static float *take_converted(struct cursor *c, const struct recurrent_kernel *r, int64_t elements) {
  return r->storage == NEAP_F32 ? NULL : take(c, elements);
}

/* ---- Times in their own storage ---- */

static void *time_at(const struct recurrent_kernel *r, void *data, int64_t t, int64_t width) {
  return (unsigned char *)data + (int64_t)bytes_of(r->storage) * t * r->rows * width;
}

/* Returns `count` elements as f32: their own memory, or the buffer. */
static float *read_elements(const struct kernel *kernel, void *data, int64_t count, float *buffer) {
  if (R->storage == NEAP_F32) return data;
  K->widen(R->storage, count, data, buffer);
  return buffer;
}
static float *read_time(const struct kernel *kernel, void *data, int64_t t, int64_t width, float *buffer) {
  return read_elements(kernel, time_at(R, data, t, width), R->rows * width, buffer);
}

/* Returns where to make the f32 of a time; and stores it. */
static float *place_time(const struct kernel *kernel, void *data, int64_t t, int64_t width, float *buffer) {
  return R->storage == NEAP_F32 ? time_at(R, data, t, width) : buffer;
}
static void write_time(const struct kernel *kernel, void *data, int64_t t, int64_t width, const float *made) {
  if (R->storage != NEAP_F32) K->narrow(R->storage, R->rows * width, made, time_at(R, data, t, width));
}

/* Copies the given values, or zeros. */
static void begin_with(const struct kernel *kernel, const float *given, int64_t count, float *place) {
  if (given == NULL)
    memset(place, 0, (size_t)count * sizeof *place);
  else if (given != place)
    K->copy_rows(1, count, given, count, place, count);
}

/* Returns the state before the first time: the given one, or zeros. */
static const float *initial_state(const struct kernel *kernel, void *h0, float *buffer) {
  const int64_t count = R->rows * R->width;
  if (h0 != NULL) return read_elements(kernel, h0, count, buffer);
  begin_with(kernel, NULL, count, buffer);
  return buffer;
}

/* ---- The product of each time ---- */

static struct recurrent_kernel recurrent_of(const struct tensor *sequence, const struct tensor *w,
                                            const struct tensor *h0) {
  return (struct recurrent_kernel){.times = sequence->dims[0],
                                   .rows = sequence->dims[1],
                                   .width = w->dims[1],
                                   .gates = w->dims[0],
                                   .storage = sequence->dtype,
                                   .initial = h0 != NULL};
}

/* Prepares h w^T, or, backward, dgates w; input 1 is the weights. */
static neap_status prepare_product(const struct cpu *cpu, const struct node *node, struct preparation *p,
                                   bool backward, bool addend, const struct recurrent_kernel *r,
                                   uint64_t *scratchpad, const struct product **product) {
  const struct matmul m = {.m = r->rows,
                           .n = backward ? r->width : r->gates,
                           .k = backward ? r->gates : r->width,
                           .b_transposed = !backward,
                           .addend = addend,
                           .threads = cpu->threads};
  for (int32_t i = 0; i < node->input_count; i++) p->inputs[i] = ROW_MAJOR;
  return matmul_prepare(cpu->kernels, p->region, &m, scratchpad, product);
}

/* Finishes the preparation; the product's workspace follows the `used` bytes. */
static neap_status finish(const struct cpu *cpu, struct preparation *p, const struct recurrent_kernel *r,
                          const struct product *product, uint64_t used, uint64_t scratchpad,
                          kernel_run *run) {
  const struct cpu_kernel kernel = {.product = product, .recurrent = region_copy(p->region, r, 1, sizeof *r)};
  RETURN_IF_NULL(kernel.recurrent);
  p->workspace = used + scratchpad;
  return cpu_finish(cpu, p, run, kernel);
}

static void multiply(const struct kernel *kernel, const float *x, const float *w, float *y,
                     void *scratchpad) {
  const struct product *product = cpu_kernel(kernel)->product;
  const struct product_operands o = {.a = x, .b = w, .addend = product->add ? y : NULL, .c = y};
  K->product(product, &o, scratchpad);
}

/* ---- LSTM ---- */

struct lstm_places {
  float *weights, *gates, *h;
  void *scratchpad;
};

static struct lstm_places lstm_places(const struct recurrent_kernel *r, struct cursor *c) {
  struct lstm_places at;
  at.weights = take_converted(c, r, r->gates * r->width);
  at.gates = take_converted(c, r, r->rows * r->gates);
  at.h = take_converted(c, r, r->rows * r->width);
  at.scratchpad = take(c, 0);
  return at;
}

/* gates of x, w, [h0], [c0] -> y, last c, gates. The product is added to the gates where these are made. */
RUN(run_lstm) {
  (void)context;
  const struct lstm_places at = lstm_places(R, &(struct cursor){.base = workspace});
  const float *w = read_elements(kernel, in[1], R->gates * R->width, at.weights), *h = NULL;
  float *c = out[1];
  if (R->initial) h = initial_state(kernel, in[2], at.h);
  begin_with(kernel, in[3], R->rows * R->width, c);
  for (int64_t t = 0; t < R->times; t++) {
    void *gates_x = time_at(R, in[0], t, R->gates);
    float *gates = place_time(kernel, out[2], t, R->gates, at.gates),
          *y = place_time(kernel, out[0], t, R->width, at.h);
    if (gates != gates_x) K->widen(R->storage, R->rows * R->gates, gates_x, gates);
    if (h != NULL) multiply(kernel, h, w, gates, at.scratchpad);
    K->lstm_cell(R->rows, R->width, gates, c, y);
    write_time(kernel, out[2], t, R->gates, gates);
    write_time(kernel, out[0], t, R->width, y);
    h = read_time(kernel, out[0], t, R->width, at.h); /* as it is stored */
  }
  return NEAP_OK;
}

CPU_OPERATOR(lstm, TYPES_FLOAT) {
  struct recurrent_kernel r =
      recurrent_of(node_input(graph, node, 0), node_input(graph, node, 1), node_input(graph, node, 2));
  const struct product *product;
  struct cursor c = {0};
  uint64_t scratchpad = 0;
  TRY(prepare_product(state, node, p, false, true, &r, &scratchpad, &product));
  lstm_places(&r, &c);
  return finish(state, p, &r, product, c.used, scratchpad, run_lstm);
}

struct lstm_backward_places {
  float *weights, *states, *gates, *dh, *dy, *dc;
  void *scratchpad;
};

static struct lstm_backward_places lstm_backward_places(const struct recurrent_kernel *r, struct cursor *c) {
  const int64_t count = r->rows * r->width;
  struct lstm_backward_places at;
  at.weights = take_converted(c, r, r->gates * r->width);
  at.states = take(c, (r->times + 1) * count);
  at.gates = take_converted(c, r, r->rows * r->gates);
  at.dh = take(c, count);
  at.dy = take_converted(c, r, count);
  at.dc = take(c, count);
  at.scratchpad = take(c, 0);
  return at;
}

/* Recomputes the cell states: before the first time, then after each. */
static void find_states(const struct kernel *kernel, void *const *in, const struct lstm_backward_places *at) {
  const int64_t count = R->rows * R->width;
  begin_with(kernel, in[2], count, at->states);
  for (int64_t t = 0; t < R->times; t++)
    K->lstm_state(R->rows, R->width, read_time(kernel, in[0], t, R->gates, at->gates), at->states + t * count,
                  at->states + (t + 1) * count);
}

/* gates, w, [c0], [dy], [dlast c] -> dgates, [dh0], [dc0] */
RUN(run_lstm_backward) {
  (void)context;
  const struct lstm_backward_places at = lstm_backward_places(R, &(struct cursor){.base = workspace});
  const int64_t count = R->rows * R->width;
  const int32_t outputs = kernel_node(kernel)->output_count;
  const float *w = read_elements(kernel, in[1], R->gates * R->width, at.weights), *dgates = NULL;
  float *dc = outputs > 2 ? out[2] : at.dc;
  find_states(kernel, in, &at);
  begin_with(kernel, in[4], count, dc);
  for (int64_t t = R->times - 1; t >= 0; t--) {
    const float *dy = in[3] != NULL ? read_time(kernel, in[3], t, R->width, at.dy) : NULL;
    if (dgates == NULL) {
      begin_with(kernel, dy, count, at.dh);
    } else {
      multiply(kernel, dgates, w, at.dh, at.scratchpad);
      if (dy != NULL) K->add(count, at.dh, dy, at.dh);
    }
    const float *gates = read_time(kernel, in[0], t, R->gates, at.gates);
    float *made = place_time(kernel, out[0], t, R->gates, at.gates);
    K->lstm_cell_backward(R->rows, R->width, gates, at.states + t * count, at.states + (t + 1) * count, at.dh,
                          dc, made);
    write_time(kernel, out[0], t, R->gates, made);
    dgates = made;
  }
  if (outputs == 1) return NEAP_OK;
  float *dh0 = place_time(kernel, out[1], 0, R->width, at.dh);
  multiply(kernel, dgates, w, dh0, at.scratchpad);
  write_time(kernel, out[1], 0, R->width, dh0);
  return NEAP_OK;
}

CPU_OPERATOR(lstm_backward, TYPES_FLOAT) {
  struct recurrent_kernel r = recurrent_of(node_input(graph, node, 0), node_input(graph, node, 1), NULL);
  const struct product *product;
  struct cursor c = {0};
  uint64_t scratchpad = 0;
  TRY(prepare_product(state, node, p, true, false, &r, &scratchpad, &product));
  lstm_backward_places(&r, &c);
  return finish(state, p, &r, product, c.used, scratchpad, run_lstm_backward);
}

/* ---- GRU ---- */

struct gru_places {
  float *weights, *bias, *gates_x, *product, *gates, *h;
  void *scratchpad;
};

static struct gru_places gru_places(const struct recurrent_kernel *r, struct cursor *c) {
  struct gru_places at;
  at.weights = take_converted(c, r, r->gates * r->width);
  at.bias = take(c, r->gates);
  at.gates_x = take_converted(c, r, r->rows * r->gates);
  at.product = take(c, r->rows * r->gates);
  at.gates = take_converted(c, r, 4 * r->rows * r->width);
  at.h = r->initial ? take_converted(c, r, r->rows * r->width) : take(c, r->rows * r->width);
  at.scratchpad = take(c, 0);
  return at;
}

/* gates of x, w, [bias], [h0] -> y, gates */
RUN(run_gru) {
  (void)context;
  const struct gru_places at = gru_places(R, &(struct cursor){.base = workspace});
  const float *w = read_elements(kernel, in[1], R->gates * R->width, at.weights), *bias = at.bias,
              *h = initial_state(kernel, in[3], at.h);
  if (in[2] != NULL)
    bias = read_elements(kernel, in[2], R->gates, at.bias);
  else
    begin_with(kernel, NULL, R->gates, at.bias);
  for (int64_t t = 0; t < R->times; t++) {
    if (t > 0 || R->initial)
      multiply(kernel, h, w, at.product, at.scratchpad);
    else
      begin_with(kernel, NULL, R->rows * R->gates, at.product);
    const float *gates_x = read_time(kernel, in[0], t, R->gates, at.gates_x);
    float *gates = place_time(kernel, out[1], t, 4 * R->width, at.gates),
          *y = place_time(kernel, out[0], t, R->width, at.h);
    K->gru_cell(R->rows, R->width, gates_x, at.product, bias, h, gates, y);
    write_time(kernel, out[1], t, 4 * R->width, gates);
    write_time(kernel, out[0], t, R->width, y);
    h = read_time(kernel, out[0], t, R->width, at.h); /* as it is stored */
  }
  return NEAP_OK;
}

CPU_OPERATOR(gru, TYPES_FLOAT) {
  struct recurrent_kernel r =
      recurrent_of(node_input(graph, node, 0), node_input(graph, node, 1), node_input(graph, node, 3));
  const struct product *product;
  struct cursor c = {0};
  uint64_t scratchpad = 0;
  TRY(prepare_product(state, node, p, false, false, &r, &scratchpad, &product));
  gru_places(&r, &c);
  return finish(state, p, &r, product, c.used, scratchpad, run_gru);
}

struct gru_backward_places {
  float *weights, *gates, *h, *dy, *dh, *product, *dgates_x, *dgates_h;
  void *scratchpad;
};

static struct gru_backward_places gru_backward_places(const struct recurrent_kernel *r, struct cursor *c) {
  const int64_t count = r->rows * r->width;
  struct gru_backward_places at;
  at.weights = take_converted(c, r, r->gates * r->width);
  at.gates = take_converted(c, r, 4 * count);
  at.h = r->initial ? take_converted(c, r, count) : take(c, count);
  at.dy = take_converted(c, r, count);
  at.dh = take(c, count);
  at.product = take(c, count);
  at.dgates_x = take_converted(c, r, r->rows * r->gates);
  at.dgates_h = take_converted(c, r, r->rows * r->gates);
  at.scratchpad = take(c, 0);
  return at;
}

/* Writes the gradient of the state before the first time. */
static neap_status write_first(const struct kernel *kernel, const struct gru_backward_places *at, void *dh0) {
  float *place = place_time(kernel, dh0, 0, R->width, at->dh);
  K->add(R->rows * R->width, at->dh, at->product, place);
  write_time(kernel, dh0, 0, R->width, place);
  return NEAP_OK;
}

/* gates, w, y, [h0], dy -> dgates of x, dgates of h, [dh0] */
RUN(run_gru_backward) {
  (void)context;
  const struct gru_backward_places at = gru_backward_places(R, &(struct cursor){.base = workspace});
  const int64_t count = R->rows * R->width;
  const bool wants_first = kernel_node(kernel)->output_count > 2;
  const float *w = read_elements(kernel, in[1], R->gates * R->width, at.weights);
  begin_with(kernel, NULL, count, at.dh);
  for (int64_t t = R->times - 1; t >= 0; t--) {
    K->add(count, at.dh, read_time(kernel, in[4], t, R->width, at.dy), at.dh);
    const float *h = t > 0 ? read_time(kernel, in[2], t - 1, R->width, at.h)
                           : initial_state(kernel, in[3], at.h),
                *gates = read_time(kernel, in[0], t, 4 * R->width, at.gates);
    float *dx = place_time(kernel, out[0], t, R->gates, at.dgates_x),
          *dgates = place_time(kernel, out[1], t, R->gates, at.dgates_h);
    K->gru_cell_backward(R->rows, R->width, gates, h, at.dh, dx, dgates);
    write_time(kernel, out[0], t, R->gates, dx);
    write_time(kernel, out[1], t, R->gates, dgates);
    if (t > 0 || wants_first) multiply(kernel, dgates, w, at.product, at.scratchpad);
    if (t > 0) K->add(count, at.dh, at.product, at.dh);
  }
  return wants_first ? write_first(kernel, &at, out[2]) : NEAP_OK;
}

CPU_OPERATOR(gru_backward, TYPES_FLOAT) {
  struct recurrent_kernel r =
      recurrent_of(node_input(graph, node, 0), node_input(graph, node, 1), node_input(graph, node, 3));
  const struct product *product;
  struct cursor c = {0};
  uint64_t scratchpad = 0;
  TRY(prepare_product(state, node, p, true, false, &r, &scratchpad, &product));
  gru_backward_places(&r, &c);
  return finish(state, p, &r, product, c.used, scratchpad, run_gru_backward);
}

/* ---- Gradient of the weights ---- */

/* Makes sums over `count` rows of products of gradients and states; `begun`: they are added to earlier
 * sums. */
static neap_status make_products(const struct cpu *cpu, struct region *region,
                                 const struct recurrent_kernel *r, int64_t count, bool begun,
                                 struct row_products *products, uint64_t *scratchpad) {
  const uint64_t row = (uint64_t)(r->gates + r->width) * sizeof(float), rows = cpu->part_bytes / row;
  struct row_products *s = products;
  *s = (struct row_products){.count = count, .chunk = count};
  if (r->storage != NEAP_F32 && rows < (uint64_t)count) s->chunk = rows > 0 ? (int64_t)rows : 1;
  if (count == 0) return NEAP_OK;
  struct matmul m = {.m = r->gates,
                     .n = r->width,
                     .k = s->chunk,
                     .a_transposed = true,
                     .addend = begun,
                     .threads = cpu->threads};
  TRY(matmul_prepare(cpu->kernels, region, &m, scratchpad, &s->first));
  m.addend = true;
  if (count / s->chunk > 1) TRY(matmul_prepare(cpu->kernels, region, &m, scratchpad, &s->more));
  m.k = count % s->chunk;
  if (m.k > 0) TRY(matmul_prepare(cpu->kernels, region, &m, scratchpad, &s->rest));
  return NEAP_OK;
}

struct weights_places {
  float *sum, *y, *dgates;
  void *scratchpad;
};

static struct weights_places weights_places(const struct recurrent_kernel *r, struct cursor *c) {
  const int64_t rows = r->later_rows.chunk > r->first_rows.chunk ? r->later_rows.chunk : r->first_rows.chunk;
  struct weights_places at;
  at.sum = take_converted(c, r, r->gates * r->width);
  at.y = take_converted(c, r, rows * r->width);
  at.dgates = take_converted(c, r, rows * r->gates);
  at.scratchpad = take(c, 0);
  return at;
}

static void add_products(const struct kernel *kernel, const struct row_products *s, void *y, void *dgates,
                         const struct weights_places *at, float *sum) {
  const int64_t bytes = (int64_t)bytes_of(R->storage);
  for (int64_t first = 0; first < s->count; first += s->chunk) {
    const int64_t rows = s->count - first < s->chunk ? s->count - first : s->chunk;
    const struct product *product = first == 0 ? s->first : rows == s->chunk ? s->more : s->rest;
    const struct product_operands o = {
        .a = read_elements(kernel, (char *)dgates + bytes * first * R->gates, rows * R->gates, at->dgates),
        .b = read_elements(kernel, (char *)y + bytes * first * R->width, rows * R->width, at->y),
        .addend = product->add ? sum : NULL,
        .c = sum};
    K->product(product, &o, at->scratchpad);
  }
}

/* y, [h0], dgates, [addend] -> dw: each time's gradients meet the states of the time before. */
RUN(run_recurrent_backward_weights) {
  (void)context;
  const struct weights_places at = weights_places(R, &(struct cursor){.base = workspace});
  const int64_t count = R->gates * R->width;
  void *addend = in[RECURRENT_ADDEND], *dgates = in[RECURRENT_GRADIENT];
  float *sum = place_time(kernel, out[0], 0, 0, at.sum);
  if (addend != NULL || R->later_rows.count + R->first_rows.count == 0)
    begin_with(kernel, addend != NULL ? read_elements(kernel, addend, count, sum) : NULL, count, sum);
  add_products(kernel, &R->later_rows, in[RECURRENT_Y], time_at(R, dgates, 1, R->gates), &at, sum);
  add_products(kernel, &R->first_rows, in[RECURRENT_H0], dgates, &at, sum);
  if (R->storage != NEAP_F32) K->narrow(R->storage, count, sum, out[0]);
  return NEAP_OK;
}

CPU_OPERATOR(recurrent_backward_weights, TYPES_FLOAT) {
  struct cpu *cpu = state;
  const bool addend = node_input(graph, node, RECURRENT_ADDEND) != NULL;
  struct recurrent_kernel r =
      recurrent_of(node_input(graph, node, RECURRENT_Y), &graph->tensors.data[node->outputs[0]],
                   node_input(graph, node, RECURRENT_H0));
  struct cursor c = {0};
  uint64_t scratchpad = 0;
  for (int32_t i = 0; i < node->input_count; i++) p->inputs[i] = ROW_MAJOR;
  const int64_t later = (r.times - 1) * r.rows;
  TRY(make_products(cpu, p->region, &r, later, addend, &r.later_rows, &scratchpad));
  TRY(make_products(cpu, p->region, &r, r.initial ? r.rows : 0, addend || later > 0, &r.first_rows,
                    &scratchpad));
  weights_places(&r, &c);
  const struct product *product = later > 0 ? r.later_rows.first : r.first_rows.first;
  const struct cpu_kernel kernel = {.product = product, .recurrent = region_copy(p->region, &r, 1, sizeof r)};
  RETURN_IF_NULL(kernel.recurrent);
  p->workspace = c.used + scratchpad;
  return cpu_finish(cpu, p, run_recurrent_backward_weights, kernel);
}
