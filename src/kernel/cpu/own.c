/* Operators on our own kernels (isa/). Each has a line that runs it and a line that prepares it. */
#include <math.h>
#include <string.h>

#include "kernel/cpu/operator.h"
#include "kernel/cpu/typed.h"
#include "kernel/random_stream.h"
#include "kernel/ranks.h"

/* Prepares an operator on activations of one shape: every input in `same` (a bit each) and output 0 take the
 * format of input 0. */
static neap_status prepare_alike(struct cpu *cpu, const struct neap_graph *graph, const struct node *node,
                                 struct preparation *p, kernel_run *run, unsigned same, bool reduces) {
  for (int32_t i = 1; i < node->input_count; i++) p->inputs[i] = same >> i & 1 ? p->inputs[0] : ROW_MAJOR;
  if (same & 1) p->outputs[0] = p->inputs[0];
  const struct activation a = activation_of(node_input(graph, node, 0), p->inputs[0]);
  if (reduces) p->workspace = cpu->kernels->reduction_workspace(a);
  return cpu_finish(cpu, p, run, (struct cpu_kernel){.a = a});
}

#define A cpu_kernel(kernel)->a
#define B cpu_kernel(kernel)->b

/* ---- Batch norm ---- */

RUN(run_batch_norm_statistics) {
  (void)context;
  K->batch_norm_statistics(A, in[0], out[0], out[1], workspace);
  return NEAP_OK;
}
CPU_OPERATOR(batch_norm_statistics, TYPES_FLOAT) {
  return prepare_alike(state, graph, node, p, run_batch_norm_statistics, 0, true);
}

static float ceiling_of(const struct kernel *kernel) {
  const struct batch_norm_attributes *a = &ATTRIBUTES.batch_norm;
  return !a->relu ? 0 : a->ceiling != 0 ? a->ceiling : INFINITY;
}

/* The normalisation whose mean, variance, gamma and beta are inputs from `first` on. */
static struct batch_norm norm_of(const struct kernel *kernel, void *const *in, int first) {
  const struct batch_norm_attributes *a = &ATTRIBUTES.batch_norm;
  return (struct batch_norm){in[first],  in[first + 1],      in[first + 2], in[first + 3],
                             a->epsilon, ceiling_of(kernel), a->fixed};
}

RUN(run_batch_norm) {
  (void)workspace, (void)context;
  K->batch_norm(A, norm_of(kernel, in, NORM_MEAN), in[NORM_X], in[NORM_ADDEND], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(batch_norm, TYPES_FLOAT) {
  return prepare_alike(state, graph, node, p, run_batch_norm, 1u << NORM_X | 1u << NORM_ADDEND, false);
}

RUN(run_batch_norm_backward) {
  (void)context;
  K->batch_norm_backward(A, norm_of(kernel, in, 2), in[0], in[1], in[6],
                         (struct norm_gradients){out[0], out[1], out[2]}, workspace);
  return NEAP_OK;
}
CPU_OPERATOR(batch_norm_backward, TYPES_FLOAT) {
  return prepare_alike(state, graph, node, p, run_batch_norm_backward, 1u << 0 | 1u << 1 | 1u << 6, true);
}

/* For another rank's micro-batch, which may have another number of records, the mean is over its own number
 * of elements. */
RUN(run_running_statistics) {
  (void)out, (void)workspace;
  const int64_t own = ATTRIBUTES.batch_norm.count,
                count = context->batch > 0 ? own / neap_graph_batch(kernel->graph) * context->batch : own;
  const struct running_averages running = {
      in[2], in[3], ATTRIBUTES.batch_norm.momentum, count, context->micro_batch, context->parts};
  K->running_statistics(kernel_input(kernel, 0)->elements, running, in[0], in[1]);
  return NEAP_OK;
}
CPU_OPERATOR(running_statistics, TYPE_F32) {
  return prepare_alike(state, graph, node, p, run_running_statistics, 0, false);
}

/* ---- Elementwise ---- */

/* The inputs of the gradient of an operator on one tensor: the tensor that it keeps, if any, and dy. */
#define GIVEN_X       stored_input(kernel, in, 0), stored_input(kernel, in, 1)
#define GIVEN_Y       GIVEN_X
#define GIVEN_NOTHING (struct stored){NEAP_F32, NULL}, stored_input(kernel, in, 0)

static struct scalars scalars_of(const struct node *node) {
  return (struct scalars){node->attributes.scalar.a, node->attributes.scalar.b};
}

/* Requires 0 to stay 0: channels that fill up a block hold 0, and must after the operator. */
static void need_zeros_kept(const struct neap_graph *graph, const struct node *node, struct preparation *p,
                            float of_zero) {
  const struct tensor *x = node_input(graph, node, 0);
  const bool padded = x->rank >= 2 && p->inputs[0].lanes > 1 && x->dims[1] % p->inputs[0].lanes != 0;
  if (padded && of_zero != 0) p->inputs[0] = (struct memory_format){.lanes = x->dims[1]};
}

static const float zero;
static const struct stored of_zeros = {NEAP_F32, (void *)&zero};

#define UNARY(NAME, id, text, about, KEEPS, READS, value, slope)                                             \
  RUN(run_##id) {                                                                                            \
    (void)workspace, (void)context;                                                                          \
    K->id(stored_elements(A), scalars_of(kernel_node(kernel)), stored_input(kernel, in, 0),                  \
          stored_output(kernel, out));                                                                       \
    return NEAP_OK;                                                                                          \
  }                                                                                                          \
  CPU_OPERATOR(id, TYPES_FLOAT) {                                                                            \
    float made;                                                                                              \
    const struct stored to = {NEAP_F32, &made};                                                              \
    ((const struct cpu *)state)->kernels->id(1, scalars_of(node), of_zeros, to);                             \
    need_zeros_kept(graph, node, p, made);                                                                   \
    return prepare_alike(state, graph, node, p, run_##id, 1, false);                                         \
  }                                                                                                          \
  RUN(run_##id##_backward) {                                                                                 \
    (void)workspace, (void)context;                                                                          \
    K->id##_backward(stored_elements(A), scalars_of(kernel_node(kernel)), GIVEN_##KEEPS,                     \
                     stored_output(kernel, out));                                                            \
    return NEAP_OK;                                                                                          \
  }                                                                                                          \
  CPU_OPERATOR(id##_backward, TYPES_FLOAT) {                                                                 \
    float made;                                                                                              \
    const struct stored to = {NEAP_F32, &made};                                                              \
    ((const struct cpu *)state)->kernels->id##_backward(1, scalars_of(node), of_zeros, of_zeros, to);        \
    need_zeros_kept(graph, node, p, made);                                                                   \
    return prepare_alike(state, graph, node, p, run_##id##_backward, 3, false);                              \
  }
#include "op/elementwise_list.h"

/* The bits have the order of the elements. */
RUN(run_relu_mask) {
  (void)workspace, (void)context;
  K->relu_mask(stored_elements(A), in[0], out[0], out[1]);
  return NEAP_OK;
}
CPU_OPERATOR(relu_mask, TYPE_F32) {
  p->outputs[1] = p->inputs[0];
  return prepare_alike(state, graph, node, p, run_relu_mask, 1, false);
}

RUN(run_relu_mask_backward) {
  (void)workspace, (void)context;
  K->relu_mask_backward(stored_elements(A), in[0], in[1], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(relu_mask_backward, TYPE_F32) {
  return prepare_alike(state, graph, node, p, run_relu_mask_backward, 3, false);
}

RUN(run_cast) {
  (void)workspace, (void)context;
  K->convert(stored_elements(A), stored_input(kernel, in, 0), stored_output(kernel, out));
  return NEAP_OK;
}
CPU_OPERATOR(cast, TYPES_FLOAT) { return prepare_alike(state, graph, node, p, run_cast, 1, false); }

CPU_OPERATOR(stop_gradient, TYPES_FLOAT) { return prepare_alike(state, graph, node, p, run_cast, 1, false); }

RUN(run_dropout) {
  (void)workspace;
  const struct random_key key = {context->seed, random_stream(run_draw(context), ATTRIBUTES.dropout.stream)};
  const int64_t row = A.channels * A.height * A.width;
  K->dropout(A, key, context->first_row * row, ATTRIBUTES.dropout.probability, in[0], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(dropout, TYPE_F32) { return prepare_alike(state, graph, node, p, run_dropout, 1, false); }

/* Returns the place in the workspace after the sums, for a result that is not f32. */
static uint64_t bias_place(const struct cpu *cpu, struct activation a) {
  return (cpu->kernels->reduction_workspace(a) + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
}

RUN(run_bias_backward) {
  (void)context;
  const neap_dtype storage = kernel_output(kernel, 0)->dtype;
  float *sums =
      storage == NEAP_F32 ? out[0] : (void *)((unsigned char *)workspace + cpu_kernel(kernel)->sums);
  K->bias_backward(A, in[0], sums, workspace);
  if (storage != NEAP_F32) K->narrow(storage, A.channels, sums, out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(bias_backward, TYPES_FLOAT) {
  const struct activation a = activation_of(node_input(graph, node, 0), p->inputs[0]);
  const bool f32 = graph->tensors.data[node->outputs[0]].dtype == NEAP_F32;
  const uint64_t place = bias_place(state, a);
  p->workspace = f32 ? ((struct cpu *)state)->kernels->reduction_workspace(a)
                     : place + (uint64_t)a.channels * sizeof(float);
  return cpu_finish(state, p, run_bias_backward, (struct cpu_kernel){.a = a, .sums = place});
}

/* ---- Pooling ---- */

static struct window window_of(const struct kernel *kernel) {
  const struct pool_attributes *a = &ATTRIBUTES.pool;
  return (struct window){a->size, a->stride, a->padding, a->count_padding, a->relu};
}

/* a: the larger side (x or dx), b: the smaller (y or dy). All in the format of input 0. */
static neap_status prepare_pool(struct cpu *cpu, const struct neap_graph *graph, const struct node *node,
                                struct preparation *p, kernel_run *run, bool backward) {
  for (int32_t i = 1; i < node->input_count; i++) p->inputs[i] = p->inputs[0];
  for (int32_t i = 0; i < node->output_count; i++) p->outputs[i] = p->inputs[0];
  const struct tensor *out = &graph->tensors.data[node->outputs[0]], *in = node_input(graph, node, 0);
  struct cpu_kernel kernel = {.a = activation_of(backward ? out : in, p->inputs[0]),
                              .b = activation_of(backward ? in : out, p->inputs[0])};
  kernel.a.lanes = kernel.b.lanes = p->inputs[0].lanes; /* also where one side is a single pixel */
  return cpu_finish(cpu, p, run, kernel);
}

RUN(run_max_pool) {
  (void)workspace, (void)context;
  K->max_pool(A, B, window_of(kernel), in[0], out[0], out[1]);
  return NEAP_OK;
}
CPU_OPERATOR(max_pool, TYPE_F32) { return prepare_pool(state, graph, node, p, run_max_pool, false); }

/* Inputs index, dy. */
RUN(run_max_pool_backward) {
  (void)workspace, (void)context;
  K->max_pool_backward(A, B, window_of(kernel), in[0], in[1], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(max_pool_backward, TYPE_F32) {
  return prepare_pool(state, graph, node, p, run_max_pool_backward, true);
}

RUN(run_average_pool) {
  (void)workspace, (void)context;
  K->average_pool(A, B, window_of(kernel), in[0], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(average_pool, TYPE_F32) { return prepare_pool(state, graph, node, p, run_average_pool, false); }

RUN(run_average_pool_backward) {
  (void)workspace, (void)context;
  K->average_pool_backward(A, B, window_of(kernel), in[0], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(average_pool_backward, TYPE_F32) {
  return prepare_pool(state, graph, node, p, run_average_pool_backward, true);
}

RUN(run_global_average_pool) {
  (void)workspace, (void)context;
  K->global_average_pool(A, in[0], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(global_average_pool, TYPE_F32) {
  return prepare_alike(state, graph, node, p, run_global_average_pool, 0, false);
}

RUN(run_global_average_pool_backward) {
  (void)workspace, (void)context;
  K->global_average_pool_backward(A, in[0], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(global_average_pool_backward, TYPE_F32) {
  const struct tensor *dx = &graph->tensors.data[node->outputs[0]];
  p->inputs[0] = ROW_MAJOR;
  p->outputs[0] = preferred_format(state, dx);
  return cpu_finish(state, p, run_global_average_pool_backward,
                    (struct cpu_kernel){.a = activation_of(dx, p->outputs[0])});
}

/* ---- Space ---- */

RUN(run_crop) {
  (void)workspace, (void)context;
  K->crop(A, B, ATTRIBUTES.crop.top, ATTRIBUTES.crop.left, in[0], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(crop, TYPE_F32) { return prepare_pool(state, graph, node, p, run_crop, false); }

RUN(run_crop_backward) {
  (void)workspace, (void)context;
  K->crop_backward(A, B, ATTRIBUTES.crop.top, ATTRIBUTES.crop.left, in[0], in[1], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(crop_backward, TYPE_F32) { return prepare_pool(state, graph, node, p, run_crop_backward, true); }

static uint64_t resize_workspace(const struct tensor *y) {
  return (uint64_t)(y->dims[2] + y->dims[3]) * sizeof(struct resize_tap);
}

RUN(run_resize) {
  (void)context;
  K->resize(A, B, ATTRIBUTES.resize.align_corners, in[0], out[0], workspace);
  return NEAP_OK;
}
/* Needs a format without empty lanes: resizing would multiply them. */
CPU_OPERATOR(resize, TYPE_F32) {
  const int64_t channels = node_input(graph, node, 0)->dims[1];
  if (channels % p->inputs[0].lanes != 0) p->inputs[0] = (struct memory_format){.lanes = channels};
  p->workspace = resize_workspace(&graph->tensors.data[node->outputs[0]]);
  return prepare_pool(state, graph, node, p, run_resize, false);
}

RUN(run_resize_backward) {
  (void)context;
  K->resize_backward(A, B, ATTRIBUTES.resize.align_corners, in[0], out[0], workspace);
  return NEAP_OK;
}
CPU_OPERATOR(resize_backward, TYPE_F32) {
  p->workspace = resize_workspace(node_input(graph, node, 0));
  return prepare_pool(state, graph, node, p, run_resize_backward, true);
}

RUN(run_adaptive_average_pool) {
  (void)workspace, (void)context;
  K->adaptive_average_pool(A, B, in[0], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(adaptive_average_pool, TYPE_F32) {
  return prepare_pool(state, graph, node, p, run_adaptive_average_pool, false);
}

RUN(run_adaptive_average_pool_backward) {
  (void)workspace, (void)context;
  K->adaptive_average_pool_backward(A, B, in[0], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(adaptive_average_pool_backward, TYPE_F32) {
  return prepare_pool(state, graph, node, p, run_adaptive_average_pool_backward, true);
}

/* ---- Loss ---- */

/* `more`: class weights, other labels, shares; each may be NULL. */
static struct labelled labelled_of(const struct kernel *kernel, void *const *more) {
  const struct tensor *x = kernel_input(kernel, 0);
  const struct loss_attributes *a = &ATTRIBUTES.loss;
  return (struct labelled){
      x->elements / x->dims[1], x->dims[1], a->ignored, a->smoothing, more[0], more[1], more[2]};
}

/* Returns the format of logits with adjacent classes, so that a row or a pixel is consecutive in memory. */
static struct memory_format classes_last(const struct tensor *logits) {
  return logits->rank > 2 ? (struct memory_format){.lanes = logits->dims[1]} : ROW_MAJOR;
}

RUN(run_softmax_cross_entropy) {
  (void)context;
  K->softmax_cross_entropy(labelled_of(kernel, in + 2), in[0], in[1], out[0], out[1], workspace);
  return NEAP_OK;
}
CPU_OPERATOR(softmax_cross_entropy, TYPE_F32) {
  p->inputs[0] = classes_last(node_input(graph, node, 0));
  p->workspace = LOSS_PARTS * sizeof(struct loss_part);
  return prepare_alike(state, graph, node, p, run_softmax_cross_entropy, 0, false);
}

RUN(run_softmax_cross_entropy_backward) {
  (void)workspace, (void)context;
  K->softmax_cross_entropy_backward(labelled_of(kernel, in + 3), in[0], in[1], in[2], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(softmax_cross_entropy_backward, TYPE_F32) {
  p->inputs[0] = classes_last(node_input(graph, node, 0));
  return prepare_alike(state, graph, node, p, run_softmax_cross_entropy_backward, 1, false);
}

/* ---- Optimizers: elementwise over a variable in its memory order ---- */

static neap_status prepare_flat(struct cpu *cpu, const struct neap_graph *graph, const struct node *node,
                                struct preparation *p, kernel_run *run) {
  if (!format_chosen(p->inputs[0])) p->inputs[0] = ROW_MAJOR;
  const struct tensor *x = node_input(graph, node, 0);
  const uint64_t count = cpu_backend.format_bytes(x, p->inputs[0]) / dtype_bytes(x->dtype, 1);
  return cpu_finish(cpu, p, run, (struct cpu_kernel){.count = count});
}

static neap_status prepare_update(struct cpu *cpu, const struct neap_graph *graph, const struct node *node,
                                  struct preparation *p, kernel_run *run) {
  if (node->output_count > 0) p->inputs[0] = ROW_MAJOR; /* a momentum that gradients are added to */
  TRY(prepare_flat(cpu, graph, node, p, run));
  for (int32_t i = 1; i < node->input_count && i < UPDATE_SLOTS; i++) p->inputs[i] = p->inputs[0];
  return NEAP_OK;
}

/* Returns true if the node updates values of sparse parameters. They are converted to f32 in parts, because
 * each is rounded by its place in the dense tensor. */
static bool updates_sparse(const struct neap_graph *graph, const struct node *node,
                           const struct preparation *p) {
  (void)graph, (void)p;
  return updates_sparse_values(node);
}

/* Returns a variable that an update changes. It is rounded by step, name and operator, the same whatever the
 * plan. */
static struct updated updated_input(const struct kernel *kernel, void *const *in, int32_t i,
                                    const struct run_context *context) {
  if (i >= kernel_node(kernel)->input_count) return (struct updated){0};
  const struct stored x = stored_input(kernel, in, i);
  if (x.data == NULL) return (struct updated){0};
  const uint64_t hash = random_name(RANDOM_NO_NAME, kernel_input(kernel, i)->name);
  return (struct updated){
      x.storage,
      x.data,
      {context->seed ^ hash, random_stream(run_draw(context), update_stream(kernel_node(kernel)->op))},
      context->share.first};
}

/* Returns the number of elements that a kernel works on. */
static int64_t count_of(const struct kernel *kernel, const struct run_context *context) {
  return context->share.whole > 0 ? context->share.count : (int64_t)cpu_kernel(kernel)->count;
}
#define CHANGED(i) updated_input(kernel, in, i, context)
#define GIVEN(i)   stored_input(kernel, in, i)

static struct update update_of(const struct kernel *kernel, const struct run_context *context) {
  const struct update_attributes *a = &ATTRIBUTES.update;
  return (struct update){.unit = run_gradient_unit(context),
                         .rate = context->learning_rate * a->rate,
                         .momentum = a->momentum,
                         .beta1 = a->beta1,
                         .beta2 = a->beta2,
                         .epsilon = a->epsilon,
                         .weight_decay = a->weight_decay,
                         .origin = a->origin,
                         .nesterov = a->nesterov,
                         .step = (int64_t)context->step + 1,
                         .noise = noise_of(kernel, 0, context)};
}

#define NUMBERS update_of(kernel, context)

/* Defines an operator by its name; then come its kernel's arguments after the count. */
#define ELEMENTS(id, ...)                                                                                    \
  RUN(run_##id) {                                                                                            \
    (void)out, (void)workspace;                                                                              \
    K->id(count_of(kernel, context), __VA_ARGS__);                                                           \
    return NEAP_OK;                                                                                          \
  }                                                                                                          \
  CPU_OPERATOR(id, TYPES_FLOAT, .converts = updates_sparse) {                                                \
    return prepare_update(state, graph, node, p, run_##id);                                                  \
  }

#define UPDATE(NAME, id, ...) ELEMENTS(id, NUMBERS, CHANGED(0), CHANGED(2), CHANGED(3), GIVEN(1))
#include "op/update_list.h"

RUN(run_accumulate) {
  (void)out, (void)workspace;
  const int64_t count = count_of(kernel, context);
  look_for_overflow(kernel, GIVEN(1).storage, count, in[1], context);
  K->accumulate(count, CHANGED(2), GIVEN(1), run_gradient_unit(context));
  return NEAP_OK;
}
CPU_OPERATOR(accumulate, TYPES_FLOAT, .converts = updates_sparse) {
  return prepare_update(state, graph, node, p, run_accumulate);
}

ELEMENTS(clear, CHANGED(0))
ELEMENTS(momentum_begin, GIVEN(0), CHANGED(1), NUMBERS.momentum, NUMBERS.weight_decay, NUMBERS.origin)
ELEMENTS(momentum_end, CHANGED(0), GIVEN(1), NUMBERS.rate)

/* ---- Clipping: of gradients in their memory order ---- */

/* Sums each part alone, so that ranks that have some of them give the bits of one process. */
RUN(run_squared_norm) {
  const float unit = run_gradient_unit(context);
  const struct share share = context->share;
  const int64_t whole = share.whole > 0 ? share.whole : (int64_t)cpu_kernel(kernel)->count;
  double *parts = workspace, total = 0;
  for (int part = 0; part < SQUARE_PARTS; part++) parts[part] = 0;
  K->squares(whole, share.first, share.whole > 0 ? share.count : whole, in[0], parts);
  if (share.whole > 0) TRY(ranks_gather(context->ranks, parts, SQUARE_PARTS, sizeof *parts));
  for (int part = 0; part < SQUARE_PARTS; part++) total += parts[part];
  *(float *)out[0] = (float)total;
  *(float *)out[0] *= unit * unit;
  return NEAP_OK;
}
CPU_OPERATOR(squared_norm, TYPE_F32) {
  p->workspace = SQUARE_PARTS * sizeof(double);
  return prepare_flat(state, graph, node, p, run_squared_norm);
}

RUN(run_clip_gradient) {
  (void)workspace;
  const float limit = ATTRIBUTES.scalar.a / run_gradient_unit(context);
  K->clip_gradient(count_of(kernel, context), limit, in[1], in[0], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(clip_gradient, TYPE_F32) {
  TRY(prepare_flat(state, graph, node, p, run_clip_gradient));
  p->outputs[0] = p->inputs[0];
  p->inputs[1] = ROW_MAJOR;
  return NEAP_OK;
}

RUN(run_clip_coefficient) {
  (void)workspace, (void)context;
  const double norm = sqrt((double)*(const float *)in[0]),
               scale = (double)ATTRIBUTES.scalar.a / (norm + 1e-6);
  *(float *)out[0] = (float)(scale > 1 ? 1 : scale);
  return NEAP_OK;
}
CPU_OPERATOR(clip_coefficient, TYPE_F32) { return prepare_flat(state, graph, node, p, run_clip_coefficient); }
