/* A linear layer followed by cross-entropy, in blocks of classes. The forward pass multiplies all rows with a
 * block's weights and updates the state of each row. The backward pass multiplies again, makes the logits'
 * gradient, and from it the block's gradient of the weights and its share of the rows' gradient. So the
 * weights and their gradient are read once, and the logits never exist all at once. Products are of f32, to
 * which operands of 16 bits are converted; or of bf16, if oneDNN has them: then the logits' gradient is
 * rounded to bf16 before it is multiplied, and sums stay f32. */
#include "kernel/cpu/operator.h"

/* The products of one block; the last one may have fewer classes. */
struct block_products {
  const struct dnn_primitive *logits, *rows_first, *rows, *weights;
};

struct loss_kernel {
  struct cpu_kernel shared; /* first: what cpu_kernel() sees */
  int64_t block, count;     /* classes of a block; blocks */
  struct block_products whole, last;
  neap_dtype storage, blocks; /* of the rows; of the weights, where these lie in blocks, else `storage` */
  bool bf16;                  /* so are the products */
  bool fixed;                 /* the weights have no gradient */
  bool on_disk;               /* the weights are read as they are needed */
  /* Where in the workspace: the logits, and their gradient in bf16; the rows and their gradient, the block's
   * weights, their gradient and bias in f32, where they are stored otherwise; the state of the rows, and
   * their labels; what the library and sums need. */
  uint64_t logits, dlogits, x, dx, w, dw, bias, dbias, state, labels, scratch;
  uint64_t read; /* a block's weights from disk */
};

static const struct loss_kernel *loss_kernel(const struct kernel *kernel) { return kernel->state; }

/* Returns the classes of a block: few enough that its logits, and copies in another type (`copied` elements
 * of f32 for each class), stay small compared with large models; enough for products at full speed. Depends
 * on shape and type alone. */
static int64_t block_of(int64_t rows, int64_t classes, int64_t copied) {
  static const int64_t most = 4 << 20, least = 64; /* elements; classes */
  const int64_t wanted = most / (rows + copied) / least * least, block = wanted > least ? wanted : least;
  return block < classes ? block : classes;
}

static neap_status make_products(struct cpu *cpu, int64_t rows, int64_t width, int64_t block, bool bias,
                                 bool back, const struct loss_kernel *k, struct block_products *p) {
  const bool bf16 = k->bf16;
  const struct dnn_matmul logits = {.m = rows,
                                    .n = block,
                                    .k = width,
                                    .b_transposed = true,
                                    .bias = bias,
                                    .bf16 = bf16,
                                    .f32_result = bf16},
                          weights = {.m = block, .n = width, .k = rows, .a_transposed = true, .bf16 = bf16};
  struct dnn_matmul x = {.m = rows, .n = width, .k = block, .bf16 = bf16, .f32_result = bf16};
  TRY(dnn_make_matmul(cpu->dnn, &logits, &p->logits));
  if (!back) return NEAP_OK;
  if (!k->fixed) TRY(dnn_make_matmul(cpu->dnn, &weights, &p->weights));
  TRY(dnn_make_matmul(cpu->dnn, &x, &p->rows_first));
  x.addend = true;
  return dnn_make_matmul(cpu->dnn, &x, &p->rows);
}

static uint64_t largest_scratchpad(const struct block_products *p) {
  const struct dnn_primitive *const all[] = {p->logits, p->rows_first, p->rows, p->weights};
  uint64_t most = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i] != NULL && dnn_scratchpad_bytes(all[i]) > most) most = dnn_scratchpad_bytes(all[i]);
  return most;
}

/* Reserves bytes of the workspace, rounded up to the alignment. */
static uint64_t reserve(struct preparation *p, uint64_t bytes) {
  const uint64_t at = p->workspace;
  p->workspace += (bytes + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
  return at;
}

static void lay_out(const struct cpu *cpu, struct loss_kernel *k, struct preparation *p, int64_t rows,
                    int64_t width, bool bias, bool back) {
  const uint64_t real = sizeof(float), of_rows = (uint64_t)(rows * width) * real,
                 of_block = (uint64_t)(k->block * width) * real;
  const bool stored = k->storage != NEAP_F32, converts = stored && !k->bf16,
             expands = k->blocks != k->storage;
  uint64_t scratch = largest_scratchpad(&k->whole), last = largest_scratchpad(&k->last),
           sums = bias && back ? cpu->kernels->reduction_workspace(k->block, cpu->threads) : 0;
  scratch = last > scratch ? last : scratch;
  p->workspace = 0;
  k->logits = reserve(p, (uint64_t)(rows * k->block) * real);
  k->dlogits = reserve(p, k->bf16 && back ? (uint64_t)(rows * k->block) * sizeof(uint16_t) : 0);
  k->x = reserve(p, converts ? of_rows : 0);
  k->w = reserve(p, converts || expands ? of_block : 0);
  k->dx = reserve(p, stored && back ? of_rows : 0);
  k->dw = reserve(p, converts && back && !k->fixed ? of_block : 0);
  k->bias = reserve(p, converts && bias ? (uint64_t)k->block * real : 0);
  k->dbias = reserve(p, stored && bias && back ? (uint64_t)k->block * real : 0);
  k->state = reserve(p, back ? 0 : (uint64_t)rows * sizeof(struct loss_row));
  k->labels = reserve(p, (uint64_t)rows * sizeof(int32_t));
  k->scratch = reserve(p, scratch > sums ? scratch : sums);
  k->read = reserve(p, k->on_disk ? dtype_bytes(k->blocks, (uint64_t)(k->block * width)) : 0);
}

static neap_status prepare_loss(struct cpu *cpu, const struct neap_graph *graph, const struct node *node,
                                struct preparation *p, kernel_run *run, bool back) {
  const struct tensor *x = node_input(graph, node, LOSS_X), *w = node_input(graph, node, LOSS_WEIGHTS);
  const int64_t rows = x->dims[0], width = x->dims[1], classes = w->dims[0];
  const bool bias = node->inputs[LOSS_BIAS] != NO_TENSOR;
  struct loss_kernel k = {.shared.kernels = cpu->kernels,
                          .storage = x->dtype,
                          .blocks = w->dtype,
                          .fixed = back && node->attributes.loss.fixed,
                          .on_disk = w->on_disk};
  k.bf16 = k.storage == NEAP_BF16 && dnn_has_bf16();
  k.block = block_of(rows, classes,
                     (k.bf16                  ? rows / 2
                      : k.storage != NEAP_F32 ? 2 * width
                                              : 0) +
                         (k.blocks != k.storage ? width : 0));
  k.count = (classes + k.block - 1) / k.block;
  for (int32_t i = 0; i < node->input_count; i++) p->inputs[i] = ROW_MAJOR;
  TRY(make_products(cpu, rows, width, k.block, bias, back, &k, &k.whole));
  TRY(make_products(cpu, rows, width, classes - (k.count - 1) * k.block, bias, back, &k, &k.last));
  lay_out(cpu, &k, p, rows, width, bias, back);
  if (k.on_disk) p->seconds = roofline_seconds(p->roofline, graph, node) + fetch_seconds(p->roofline, w);
  p->run = run;
  p->state = region_copy(p->region, &k, 1, sizeof k);
  RETURN_IF_NULL(p->state);
  return NEAP_OK;
}

/* ---- Running ---- */

struct running {
  const struct kernel *kernel;
  const struct loss_kernel *k;
  unsigned char *work;
  struct labelled l;
  int64_t width, counted;
  const int32_t *labels; /* of the rows */
  void *const *in;
  const struct row_source *source; /* of weights that lie on disk */
  void *x;                         /* the rows as products take them */
};

static float *at(const struct running *r, uint64_t place) { return (float *)(void *)(r->work + place); }

/* Returns elements from `first` on in the type of the products: their own memory, or f32 in `place`. */
static void *as_factor(const struct running *r, void *data, int64_t first, int64_t count, uint64_t place) {
  const neap_dtype storage = r->k->storage;
  if (storage == NEAP_F32) return (float *)data + first;
  if (r->k->bf16) return (uint16_t *)data + first;
  r->k->shared.kernels->widen(storage, count, (const uint16_t *)data + first, at(r, place));
  return at(r, place);
}

/* The same for weights, which may be stored in blocks of a quantised type. */
static void *weights_as_factor(const struct running *r, void *data, int64_t first, int64_t count) {
  const struct loss_kernel *k = r->k;
  if (k->blocks == k->storage) return as_factor(r, data, first, count, k->w);
  const unsigned char *blocks = (const unsigned char *)data + dtype_bytes(k->blocks, (uint64_t)first);
  k->shared.kernels->dequantise(k->blocks, count, blocks,
                                (struct stored){k->bf16 ? NEAP_BF16 : NEAP_F32, at(r, k->w)});
  return at(r, k->w);
}

/* Returns where to make f32 elements that are stored from `first` on; and stores them. */
static float *made_at(const struct running *r, void *data, int64_t first, uint64_t place) {
  return r->k->storage == NEAP_F32 ? (float *)data + first : at(r, place);
}
static void store(const struct running *r, void *data, int64_t first, int64_t count, const float *made) {
  if (r->k->storage != NEAP_F32)
    r->k->shared.kernels->narrow(r->k->storage, count, made, (uint16_t *)data + first);
}

static struct running begin(const struct kernel *kernel, void *const *in, void *workspace,
                            const struct run_context *context) {
  const struct tensor *x = kernel_input(kernel, LOSS_X), *labels = kernel_input(kernel, LOSS_LABELS);
  const struct loss_attributes *a = &ATTRIBUTES.loss;
  struct running r = {
      .kernel = kernel,
      .k = loss_kernel(kernel),
      .work = workspace,
      .l = {x->dims[0], kernel_input(kernel, LOSS_WEIGHTS)->dims[0], a->ignored, a->smoothing},
      .width = x->dims[1],
      .in = in,
      .source = &context->rows};
  const int32_t *all = in[LOSS_LABELS];
  for (int64_t i = 0; i < labels->elements; i++)
    r.counted += all[i] >= 0 && all[i] < r.l.classes && all[i] != r.l.ignored;
  int32_t *own = (int32_t *)(void *)(r.work + r.k->labels);
  const int64_t count = a->times > 0 ? labels->elements / a->times : 0;
  for (int64_t n = 0; n < r.l.rows; n++) {
    const int64_t row = a->first + n;
    own[n] = all[a->times > 0 ? row % count * a->times + row / count : row];
  }
  r.labels = own;
  r.x = as_factor(&r, in[LOSS_X], 0, x->elements, r.k->x);
  return r;
}

struct block {
  int64_t first, count;
  const struct block_products *products;
  void *w;
};

/* Gives the weights of classes [first, first + count) in the type of the products. */
static neap_status take_weights(const struct running *r, struct block *b) {
  void *data = r->in[LOSS_WEIGHTS];
  if (r->k->on_disk) {
    data = at(r, r->k->read);
    TRY(r->source->read(r->source->context, kernel_input(r->kernel, LOSS_WEIGHTS), b->first, b->count, data));
  }
  b->w = weights_as_factor(r, data, r->k->on_disk ? 0 : b->first * r->width, b->count * r->width);
  return NEAP_OK;
}

/* Computes the logits of block `i`. */
static neap_status block_logits(const struct running *r, int64_t i, struct block *b) {
  const struct loss_kernel *k = r->k;
  const bool last = i == k->count - 1;
  *b = (struct block){.first = i * k->block, .products = last ? &k->last : &k->whole};
  b->count = last ? r->l.classes - b->first : k->block;
  TRY(take_weights(r, b));
  void *bias = r->in[LOSS_BIAS] != NULL ? as_factor(r, r->in[LOSS_BIAS], b->first, b->count, k->bias) : NULL;
  return dnn_run(
      b->products->logits,
      &(struct dnn_operands){
          .a = r->x, .b = b->w, .c = at(r, k->logits), .bias = bias, .scratchpad = r->work + k->scratch});
}

RUN(run_linear_cross_entropy) {
  const struct running r = begin(kernel, in, workspace, context);
  struct loss_row *state = (void *)(r.work + r.k->state);
  for (int64_t i = 0; i < r.k->count; i++) {
    struct block b;
    TRY(block_logits(&r, i, &b));
    r.k->shared.kernels->loss_block(r.l, b.first, b.count, at(&r, r.k->logits), r.labels, state);
  }
  r.k->shared.kernels->loss_of_rows(r.l, r.counted, r.labels, state,
                                    (struct loss_before){in[LOSS_BEFORE], in[LOSS_CORRECT_BEFORE]}, out[0],
                                    out[1], out[2]);
  return NEAP_OK;
}

CPU_OPERATOR(linear_cross_entropy, TYPES_FLOAT) {
  return prepare_loss(state, graph, node, p, run_linear_cross_entropy, false);
}

/* Computes the gradients that a block gives. */
static neap_status block_gradients(const struct running *r, const struct block *b, void *const *out,
                                   float *dx) {
  const struct loss_kernel *k = r->k;
  const int64_t first = b->first * r->width;
  float *dlogits = at(r, k->logits);
  void *scratch = r->work + k->scratch, *factor = dlogits;
  if (k->bf16) {
    factor = at(r, k->dlogits);
    k->shared.kernels->narrow(k->storage, r->l.rows * b->count, dlogits, factor);
  }
  if (!k->fixed) {
    float *made = k->bf16 ? NULL : made_at(r, out[1], first, k->dw);
    void *dw = k->bf16 ? (void *)((uint16_t *)out[1] + first) : made;
    TRY(dnn_run(b->products->weights,
                &(struct dnn_operands){.a = factor, .b = r->x, .c = dw, .scratchpad = scratch}));
    if (!k->bf16) store(r, out[1], first, b->count * r->width, made);
  }
  TRY(dnn_run(b->first == 0 ? b->products->rows_first : b->products->rows,
              &(struct dnn_operands){.a = factor, .b = b->w, .c = dx, .scratchpad = scratch}));
  if (r->in[LOSS_BIAS] == NULL) return NEAP_OK;
  float *dbias = made_at(r, out[k->fixed ? 1 : 2], b->first, k->dbias);
  const struct activation columns = {r->l.rows, b->count, 1, 1, b->count, NEAP_F32};
  k->shared.kernels->bias_backward(columns, dlogits, dbias, scratch);
  store(r, out[k->fixed ? 1 : 2], b->first, b->count, dbias);
  return NEAP_OK;
}

RUN(run_linear_cross_entropy_backward) {
  const struct running r = begin(kernel, in, workspace, context);
  const float dloss = in[LOSS_BACK_GRADIENT] != NULL ? *(const float *)in[LOSS_BACK_GRADIENT] : 1,
              share = r.counted > 0 ? dloss / (float)r.counted : 0;
  float *dx = made_at(&r, out[0], 0, r.k->dx);
  for (int64_t i = 0; i < r.k->count; i++) {
    struct block b;
    TRY(block_logits(&r, i, &b));
    r.k->shared.kernels->loss_block_backward(r.l, b.first, b.count, at(&r, r.k->logits), r.labels,
                                             in[LOSS_BACK_LOG_SUM], share, at(&r, r.k->logits));
    TRY(block_gradients(&r, &b, out, dx));
  }
  store(&r, out[0], 0, r.l.rows * r.width, dx);
  return NEAP_OK;
}

CPU_OPERATOR(linear_cross_entropy_backward, TYPES_FLOAT) {
  return prepare_loss(state, graph, node, p, run_linear_cross_entropy_backward, true);
}
