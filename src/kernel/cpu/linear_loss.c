/* A linear layer followed by cross-entropy, in blocks of classes. The forward pass multiplies all rows with a
 * block's weights and updates the state of each row. The backward pass multiplies again, makes the logits'
 * gradient, and from it the block's gradient of the weights and its share of the rows' gradient. So the
 * weights and their gradient are read once, and the logits never exist all at once. Operands are taken as
 * they are stored. If the processor multiplies pairs of bf16, the logits' gradient of bf16 rows is rounded to
 * bf16 before it is multiplied; sums stay f32. */
#include "kernel/cpu/matmul.h"
#include "kernel/cpu/operator.h"
#include "kernel/cpu/typed.h"

/* The products of one block; the last one may have fewer classes. */
struct block_products {
  const struct product *logits, *rows_first, *rows, *weights;
};

struct loss_kernel {
  struct cpu_kernel shared; /* first: what cpu_kernel() sees */
  int64_t block, count;     /* classes of a block; blocks */
  struct block_products whole, last;
  neap_dtype storage, weights, bias; /* of the rows; of the weights and the bias, and of their gradients */
  bool pairs;                        /* the logits' gradient becomes bf16 */
  bool fixed;                        /* the weights have no gradient */
  bool on_disk;                      /* the weights are read as they are needed */
  bool perturbed;                    /* the weights are read with noise */
  /* Places in the workspace: the logits, and their gradient in bf16; the rows' gradient and the block's of
   * the bias in f32, where they are stored otherwise; the state of the rows, and their labels; what products
   * and sums need. */
  uint64_t logits, dlogits, dx, dbias, state, labels, scratch;
  uint64_t read; /* a block's weights from disk */
};

static const struct loss_kernel *loss_kernel(const struct kernel *kernel) { return kernel->state; }

/* Returns the classes of a block: few enough that its logits, and their copies in another type (`copied`
 * elements of f32 for each class), stay small compared with large models; enough for products at full speed.
 * Depends on shape and type alone. */
static int64_t block_of(int64_t rows, int64_t classes, int64_t copied) {
  static const int64_t most = 4 << 20, least = 64; /* elements; classes */
  const int64_t wanted = most / (rows + copied) / least * least, block = wanted > least ? wanted : least;
  return block < classes ? block : classes;
}

static neap_status make_products(const struct cpu *cpu, struct region *region, int64_t rows, int64_t width,
                                 int64_t block, bool bias, bool back, const struct loss_kernel *k,
                                 uint64_t *scratch, struct block_products *p) {
  const neap_dtype gradient = k->pairs ? NEAP_BF16 : NEAP_F32;
  const struct matmul logits = {.m = rows,
                                .n = block,
                                .k = width,
                                .b_transposed = true,
                                .biased = bias,
                                .bias = k->bias,
                                .perturbed = k->perturbed,
                                .a = k->storage,
                                .b = k->weights,
                                .threads = cpu->threads},
                      weights = {.m = block,
                                 .n = width,
                                 .k = rows,
                                 .a_transposed = true,
                                 .a = gradient,
                                 .b = k->storage,
                                 .c = k->weights,
                                 .threads = cpu->threads};
  struct matmul x = {
      .m = rows, .n = width, .k = block, .a = gradient, .b = k->weights, .threads = cpu->threads};
  TRY(matmul_prepare(cpu->kernels, region, &logits, scratch, &p->logits));
  if (!back) return NEAP_OK;
  if (!k->fixed) TRY(matmul_prepare(cpu->kernels, region, &weights, scratch, &p->weights));
  TRY(matmul_prepare(cpu->kernels, region, &x, scratch, &p->rows_first));
  x.addend = true;
  return matmul_prepare(cpu->kernels, region, &x, scratch, &p->rows);
}

/* Reserves bytes of the workspace, rounded up to the alignment. */
static uint64_t reserve(struct preparation *p, uint64_t bytes) {
  const uint64_t at = p->workspace;
  p->workspace += (bytes + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
  return at;
}

static void lay_out(const struct cpu *cpu, struct loss_kernel *k, struct preparation *p, int64_t rows,
                    int64_t width, bool bias, bool back, uint64_t scratch) {
  const struct activation columns = {rows, k->block, 1, 1, k->block, NEAP_F32};
  const uint64_t real = sizeof(float), sums = bias && back ? cpu->kernels->reduction_workspace(columns) : 0;
  p->workspace = 0;
  k->logits = reserve(p, (uint64_t)(rows * k->block) * real);
  k->dlogits = reserve(p, k->pairs && back ? (uint64_t)(rows * k->block) * sizeof(uint16_t) : 0);
  k->dx = reserve(p, k->storage != NEAP_F32 && back ? (uint64_t)(rows * width) * real : 0);
  k->dbias = reserve(p, k->bias != NEAP_F32 && bias && back ? (uint64_t)k->block * real : 0);
  k->state = reserve(p, back ? 0 : (uint64_t)rows * sizeof(struct loss_row));
  k->labels = reserve(p, (uint64_t)rows * sizeof(int32_t));
  k->scratch = reserve(p, scratch > sums ? scratch : sums);
  k->read = reserve(p, k->on_disk ? dtype_bytes(k->weights, (uint64_t)(k->block * width)) : 0);
}

static neap_status prepare_loss(struct cpu *cpu, const struct neap_graph *graph, const struct node *node,
                                struct preparation *p, kernel_run *run, bool back) {
  const struct tensor *x = node_input(graph, node, LOSS_X), *w = node_input(graph, node, LOSS_WEIGHTS),
                      *bias = node_input(graph, node, LOSS_BIAS);
  const int64_t rows = x->dims[0], width = x->dims[1], classes = w->dims[0];
  struct loss_kernel k = {.shared.kernels = cpu->kernels,
                          .storage = x->dtype,
                          .weights = w->dtype,
                          .bias = bias != NULL ? bias->dtype : NEAP_F32,
                          .fixed = back && node->attributes.loss.fixed,
                          .on_disk = is_read_by_rows(w),
                          .perturbed = w->perturbed};
  uint64_t scratch = 0;
  k.pairs = k.storage == NEAP_BF16 && cpu->kernels->multiplies_pairs();
  k.block = block_of(rows, classes, k.pairs ? rows / 2 : 0);
  k.count = (classes + k.block - 1) / k.block;
  for (int32_t i = 0; i < node->input_count; i++) p->inputs[i] = ROW_MAJOR;
  TRY(make_products(cpu, p->region, rows, width, k.block, bias != NULL, back, &k, &scratch, &k.whole));
  TRY(make_products(cpu, p->region, rows, width, classes - (k.count - 1) * k.block, bias != NULL, back, &k,
                    &scratch, &k.last));
  lay_out(cpu, &k, p, rows, width, bias != NULL, back, scratch);
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
  struct noise noise;              /* of the weights */
};

static float *at(const struct running *r, uint64_t place) { return (float *)(void *)(r->work + place); }

static void *element_of(void *data, neap_dtype dtype, int64_t i) {
  return (unsigned char *)data + dtype_bytes(dtype, (uint64_t)i);
}

/* Returns where to make f32 elements that are stored from `first` on; and stores them. */
static float *made_at(const struct running *r, neap_dtype storage, void *data, int64_t first,
                      uint64_t place) {
  return storage == NEAP_F32 ? (float *)data + first : at(r, place);
}
static void store(const struct running *r, neap_dtype storage, void *data, int64_t first, int64_t count,
                  const float *made) {
  if (storage != NEAP_F32)
    r->k->shared.kernels->narrow(storage, count, made, element_of(data, storage, first));
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
      .source = &context->rows,
      .noise = noise_of(kernel, LOSS_WEIGHTS, context)};
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
  return r;
}

struct block {
  int64_t first, count;
  const struct block_products *products;
  const void *w;
};

/* Gives the weights of classes [first, first + count). */
static neap_status take_weights(const struct running *r, struct block *b) {
  const struct loss_kernel *k = r->k;
  b->w = element_of(r->in[LOSS_WEIGHTS], k->weights, b->first * r->width);
  if (!k->on_disk) return NEAP_OK;
  b->w = at(r, k->read);
  return r->source->read(r->source->context, kernel_input(r->kernel, LOSS_WEIGHTS), b->first, b->count,
                         at(r, k->read));
}

/* Computes the logits of block `i`. */
static neap_status block_logits(const struct running *r, int64_t i, struct block *b) {
  const struct loss_kernel *k = r->k;
  const bool last = i == k->count - 1;
  *b = (struct block){.first = i * k->block, .products = last ? &k->last : &k->whole};
  b->count = last ? r->l.classes - b->first : k->block;
  TRY(take_weights(r, b));
  void *bias = r->in[LOSS_BIAS] != NULL ? element_of(r->in[LOSS_BIAS], k->bias, b->first) : NULL;
  struct product_operands o = {
      .a = r->in[LOSS_X], .b = b->w, .bias = bias, .c = at(r, k->logits), .noise = r->noise};
  o.noise.first = b->first * r->width;
  k->shared.kernels->product(b->products->logits, &o, r->work + k->scratch);
  return NEAP_OK;
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
static void block_gradients(const struct running *r, const struct block *b, void *const *out, float *dx) {
  const struct loss_kernel *k = r->k;
  const struct cpu_kernels *kernels = k->shared.kernels;
  float *dlogits = at(r, k->logits);
  void *scratch = r->work + k->scratch, *factor = dlogits;
  if (k->pairs) {
    factor = at(r, k->dlogits);
    kernels->narrow(NEAP_BF16, r->l.rows * b->count, dlogits, factor);
  }
  if (!k->fixed) {
    void *dw = element_of(out[1], k->weights, b->first * r->width);
    kernels->product(b->products->weights,
                     &(struct product_operands){.a = factor, .b = r->in[LOSS_X], .c = dw}, scratch);
  }
  const struct product_operands rows = {.a = factor, .b = b->w, .addend = b->first > 0 ? dx : NULL, .c = dx};
  kernels->product(b->first == 0 ? b->products->rows_first : b->products->rows, &rows, scratch);
  if (r->in[LOSS_BIAS] == NULL) return;
  void *out_bias = out[k->fixed ? 1 : 2];
  float *dbias = made_at(r, k->bias, out_bias, b->first, k->dbias);
  const struct activation columns = {r->l.rows, b->count, 1, 1, b->count, NEAP_F32};
  kernels->bias_backward(columns, dlogits, dbias, scratch);
  store(r, k->bias, out_bias, b->first, b->count, dbias);
}

RUN(run_linear_cross_entropy_backward) {
  const struct running r = begin(kernel, in, workspace, context);
  const float dloss = in[LOSS_BACK_GRADIENT] != NULL ? *(const float *)in[LOSS_BACK_GRADIENT] : 1,
              share = r.counted > 0 ? dloss / (float)r.counted : 0;
  float *dx = made_at(&r, r.k->storage, out[0], 0, r.k->dx);
  for (int64_t i = 0; i < r.k->count; i++) {
    struct block b;
    TRY(block_logits(&r, i, &b));
    r.k->shared.kernels->loss_block_backward(r.l, b.first, b.count, at(&r, r.k->logits), r.labels,
                                             in[LOSS_BACK_LOG_SUM], share, at(&r, r.k->logits));
    block_gradients(&r, &b, out, dx);
  }
  store(&r, r.k->storage, out[0], 0, r.l.rows * r.width, dx);
  return NEAP_OK;
}

CPU_OPERATOR(linear_cross_entropy_backward, TYPES_FLOAT) {
  return prepare_loss(state, graph, node, p, run_linear_cross_entropy_backward, true);
}
