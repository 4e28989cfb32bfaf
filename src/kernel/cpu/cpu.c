/* The table of the CPU backend, and the helpers of all its kernels. */
#include "kernel/cpu/cpu.h"

#include <stdio.h>
#include <string.h>

#include "base/quantised.h"
#include "device/host.h"
#include "kernel/cpu/dispatch.h"
#include "kernel/cpu/winograd.h"

struct activation activation_of(const struct tensor *tensor, struct memory_format format) {
  struct activation a = {
      .images = 1, .channels = 1, .height = 1, .width = 1, .lanes = format.lanes, .storage = tensor->dtype};
  if (tensor->rank > 0) a.images = tensor->dims[0];
  if (tensor->rank > 1) a.channels = tensor->dims[1];
  if (tensor->rank > 2) a.height = tensor->dims[2];
  for (int32_t i = 3; i < tensor->rank; i++) a.width *= tensor->dims[i];
  if (a.height * a.width == 1 && a.channels % a.lanes == 0) a.lanes = a.channels;
  return a;
}

/* Returns true for an image that begins a network, whose blocks would be nearly empty. So would they be for
 * two classes of pixels, but oneDNN's convolutions have blocks on both sides or on none. */
static bool is_image(const struct tensor *tensor) {
  return (tensor->role == NEAP_ROLE_INPUT || tensor->image) && tensor->dims[1] <= 4;
}

struct memory_format preferred_format(const struct cpu *cpu, const struct tensor *tensor) {
  if (tensor->rank != 4) return ROW_MAJOR;
  if (cpu->block == 0) return (struct memory_format){.lanes = tensor->dims[1]};
  if (is_image(tensor)) return ROW_MAJOR;
  return (struct memory_format){.lanes = cpu->block, .blocks = true};
}

/* Returns the factor by which whole blocks enlarge a channel count. */
static double stretch(const struct tensor *t, int64_t block) {
  const int64_t channels = t->dims[1];
  return is_image(t) ? 1 : (double)((channels + block - 1) / block * block) / (double)channels;
}

/* Chooses channel blocks, the fastest, if the graph's convolutions nearly fill them; channels last, which is
 * good for all, if there are groups or many odd channel counts. Depends only on shapes and the processor. */
static int64_t choose_block(const struct neap_graph *graph, int64_t block) {
  static const double tolerated = 1.02; /* of products, those with padding included */
  double wanted = 0, padded = 0;
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    if (node->op != OP_CONV && node->op != OP_CONV_TRANSPOSED) continue;
    if (node->attributes.conv.groups != 1) return 0;
    const double flops = node_flops(graph, node);
    wanted += flops;
    padded += flops * stretch(&graph->tensors.data[node->inputs[0]], block) *
              stretch(&graph->tensors.data[node->outputs[0]], block);
  }
  return padded <= tolerated * wanted ? block : 0;
}

/* Returns true for nodes that must not count: the bits of a run must not depend on the form of sparse
 * weights' positions, on what ReLU keeps, or on where weights are stored. */
static bool depends_on_form(enum op op) {
  return op == OP_DENSIFY || op == OP_ACCUMULATE_SPARSE || op == OP_RELU || op == OP_RELU_BACKWARD ||
         op == OP_RELU_MASK || op == OP_RELU_MASK_BACKWARD || op == OP_FETCH || op == OP_ALL_GATHER ||
         op == OP_LOAD;
}

/* Returns the bytes of the operands of the largest node. */
static double largest_node(const struct neap_graph *graph) {
  double most = 0;
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    if (depends_on_form(node->op)) continue;
    const double bytes = node_bytes(graph, node);
    most = bytes > most ? bytes : most;
  }
  return most;
}

/* Returns the bytes of f32 that a part's rows may have: few compared with the need of the largest node, which
 * no budget can be below; few enough for a second-level cache, and enough to pay for a thread team. */
static uint64_t choose_part_bytes(double largest_node) {
  static const double share = 1.0 / 16, least = 64 << 10, most = 1 << 20;
  const double bytes = share * largest_node;
  return (uint64_t)(bytes < least ? least : bytes > most ? most : bytes);
}

static neap_status create_state(const struct neap_graph *graph, const struct lower_options *options,
                                void **state) {
  struct cpu *cpu = calloc(1, sizeof *cpu);
  RETURN_IF_NULL(cpu);
  neap_status status = cpu_kernels_best(&cpu->kernels);
  if (status == NEAP_OK) status = dnn_create(&cpu->dnn);
  if (status != NEAP_OK) {
    free(cpu);
    return status;
  }
  cpu->convolution = options->convolution;
  cpu->portable = options->bits == NEAP_BITS_PORTABLE;
  if (cpu->portable) cpu->kernels = cpu_kernels_fused(cpu->kernels);
  cpu->threads = options->threads;
  cpu->largest_node = largest_node(graph);
  cpu->part_bytes = choose_part_bytes(cpu->largest_node);
  const int64_t widest = cpu_kernels_lanes(cpu->kernels);
  cpu->block = widest == 0 || cpu->portable || !dnn_takes_blocks() ? 0 : choose_block(graph, widest);
  *state = cpu;
  return NEAP_OK;
}

static void free_state(void *state) {
  struct cpu *cpu = state;
  if (cpu == NULL) return;
  for (size_t i = 0; i < cpu->parts.count; i++) neap_graph_free(cpu->parts.data[i]);
  vector_free(&cpu->parts);
  dnn_free(cpu->dnn);
  free(cpu);
}

static void describe(const struct kernel *kernel, char *text, size_t size) {
  const struct cpu_kernel *state = cpu_kernel(kernel);
  if (state->primitive != NULL)
    dnn_describe(state->primitive, text, size);
  else if (state->product != NULL || state->direct != NULL)
    snprintf(text, size, "product %s", state->kernels->name);
  else if (state->winograd != NULL)
    winograd_describe(state->winograd, state->kernels, text, size);
  else
    snprintf(text, size, "%s", state->kernels->name);
  const size_t length = strlen(text);
  if (state->split != NULL)
    snprintf(text + length, size - length, ", in parts of %lld rows", (long long)split_rows(state->split));
}

static const char *own_kernels(const void *state) {
  const struct cpu *cpu = state;
  return cpu->portable ? "portable" : cpu->kernels->name;
}

static uint64_t format_bytes(const struct tensor *t, struct memory_format f) {
  if (f.packed != NULL) /* of f32: what is stored in fewer bits lies in the same order */
    return dtype_bytes(t->dtype, dnn_layout_bytes(f.packed) / sizeof(float));
  uint64_t elements = (uint64_t)t->elements;
  if (t->rank >= 2 && f.lanes > 1) {
    const int64_t padded = (t->dims[1] + f.lanes - 1) / f.lanes * f.lanes;
    elements = (uint64_t)(t->elements / t->dims[1] * padded);
  }
  return dtype_bytes(t->dtype, elements);
}

/* Returns the lanes that name the order of elements: with one pixel, channels are adjacent in any format. */
static int64_t canonical_lanes(const struct tensor *t, struct memory_format f) {
  int64_t pixels = 1;
  for (int32_t i = 2; i < t->rank; i++) pixels *= t->dims[i];
  return t->rank < 2 || (pixels == 1 && t->dims[1] % f.lanes == 0) ? 1 : f.lanes;
}

static bool same_place(const struct tensor *t, struct memory_format a, struct memory_format b) {
  if (a.packed != NULL || b.packed != NULL) return a.packed == b.packed;
  return canonical_lanes(t, a) == canonical_lanes(t, b);
}

/* Converts between a variable's own format and row-major, both of f32. */
static neap_status convert(struct cpu *cpu, const struct tensor *tensor, struct memory_format format,
                           const void *from, void *to, bool out) {
  if (same_place(tensor, format, ROW_MAJOR)) {
    memcpy(to, from, (size_t)tensor->elements * sizeof(float));
    return NEAP_OK;
  }
  if (format.packed == NULL) {
    const struct activation theirs = activation_of(tensor, format), plain = activation_of(tensor, ROW_MAJOR);
    cpu->kernels->reorder(out ? theirs : plain, out ? plain : theirs, from, to);
    return NEAP_OK;
  }
  const struct dnn_layout *plain;
  const struct dnn_primitive *primitive;
  TRY(dnn_layout_unpacked(cpu->dnn, format.packed, &plain));
  TRY(dnn_make_reorder(cpu->dnn, out ? format.packed : plain, out ? plain : format.packed, false,
                       &primitive));
  void *scratchpad = aligned_alloc(64, dnn_scratchpad_bytes(primitive) / 64 * 64 + 64);
  RETURN_IF_NULL(scratchpad);
  const neap_status status = dnn_run(
      primitive, &(struct convolution_operands){.a = (void *)from, .c = to, .scratchpad = scratchpad});
  free(scratchpad);
  return status;
}

/* Gives memory for a variable as f32, `*f32`: its own, or, for another type, allocated and to be freed. */
static neap_status as_f32(const struct tensor *tensor, struct memory_format format, void *data, float **f32,
                          int64_t *elements) {
  *elements = (int64_t)(format_bytes(tensor, format) / dtype_bytes(tensor->dtype, 1));
  *f32 = tensor->dtype == NEAP_F32 ? data : malloc((size_t)*elements * sizeof **f32);
  RETURN_IF_NULL(*f32);
  return NEAP_OK;
}

static neap_status export_variable(void *state, const struct tensor *tensor, struct memory_format format,
                                   const void *data, float *plain) {
  struct cpu *cpu = state;
  float *f32;
  int64_t elements;
  if (dtype_is_quantised(tensor->dtype)) {
    cpu->kernels->dequantise(tensor->dtype, tensor->elements, data, (struct stored){NEAP_F32, plain});
    return NEAP_OK;
  }
  TRY(as_f32(tensor, format, (void *)data, &f32, &elements));
  if (f32 != data) cpu->kernels->widen(tensor->dtype, elements, data, f32);
  const neap_status status = convert(cpu, tensor, format, f32, plain, true);
  if (f32 != data) free(f32);
  return status;
}

static neap_status import_variable(void *state, const struct tensor *tensor, struct memory_format format,
                                   const float *plain, void *data) {
  struct cpu *cpu = state;
  float *f32;
  int64_t elements;
  if (dtype_is_quantised(tensor->dtype))
    return quantise(tensor->dtype, tensor->name, row_elements(tensor), tensor->elements, plain, data);
  TRY(as_f32(tensor, format, data, &f32, &elements));
  const neap_status status = convert(cpu, tensor, format, plain, f32, false);
  if (f32 == data) return status;
  if (status == NEAP_OK) cpu->kernels->narrow(tensor->dtype, elements, f32, data);
  free(f32);
  return status;
}

static const struct cpu_operator *const operators[OP_COUNT] = {
#define OP(NAME, id) [OP_##NAME] = &cpu_operator_##id,
#include "op/list.h"
#undef OP
};

static const struct tensor *operand(const struct neap_graph *graph, const struct node *node, int32_t i) {
  return i < node->input_count ? node_input(graph, node, i)
                               : &graph->tensors.data[node->outputs[i - node->input_count]];
}

/* Returns true if the kernel may take all operands in their common type; blocks are taken as they are. */
static bool may_stay(const struct neap_graph *graph, const struct node *node) {
  const struct cpu_operator *o = operators[node->op];
  if (o->alike == 0 || (o->multiplies && !dnn_has_bf16())) return false;
  const neap_dtype type = operand(graph, node, node->input_count)->dtype;
  bool all = type_set_has(o->alike, type);
  for (int32_t i = 0; all && i < node->input_count; i++) {
    const struct tensor *t = operand(graph, node, i);
    all = t == NULL || t->dtype == type || dtype_is_quantised(t->dtype);
  }
  return all;
}

/* Finds out whether the kernel gets its operands as f32. NEAP_UNSUPPORTED: no kernel takes a type. */
static neap_status needs_split(const struct neap_graph *graph, const struct node *node,
                               const struct preparation *p, bool *needs) {
  const struct cpu_operator *o = operators[node->op];
  *needs = false;
  for (int32_t i = 0; i < node->input_count + node->output_count; i++) {
    const struct tensor *t = operand(graph, node, i);
    if (t == NULL || !dtype_is_real(t->dtype) || t->dtype == NEAP_F32) continue;
    RETURN_IF(!type_set_has(TYPES_FLOAT, t->dtype), NEAP_UNSUPPORTED,
              "the cpu backend has no kernel for '%s' in %s", t->name, dtype_rows[t->dtype].name);
    *needs =
        *needs || !type_set_has(o->stores, t->dtype) || (o->converts != NULL && o->converts(graph, node, p));
  }
  return NEAP_OK;
}

/* Returns the operand whose rows the operator is cut into; NULL: it is not cut. */
static const struct tensor *cut_operand(const struct neap_graph *graph, const struct node *node) {
  const uint32_t cut = node_split(graph, node).inputs;
  return cut == 0 || node->input_count > MAX_SLOTS ? NULL : node_input(graph, node, __builtin_ctz(cut));
}

/* Prepares a node in one piece, or in chunks of rows so that the workspace does not grow with the batch. */
static neap_status prepare_in_chunks(struct cpu *cpu, const struct neap_graph *graph, const struct node *node,
                                     struct preparation *p) {
  const struct tensor *cut = cut_operand(graph, node);
  if (cut == NULL) return operators[node->op]->prepare(cpu, graph, node, p);
  struct memory_format lie[MAX_SLOTS];
  struct preparation whole = *p;
  memcpy(lie, p->inputs, (size_t)node->input_count * sizeof *lie);
  TRY(operators[node->op]->prepare(cpu, graph, node, &whole));
  const int64_t rows = chunk_images(cut->dims[0], whole.workspace);
  if (rows == cut->dims[0]) {
    *p = whole;
    return NEAP_OK;
  }
  memcpy(p->inputs, lie, (size_t)node->input_count * sizeof *lie);
  return prepare_split(cpu, graph, node, p, operators[node->op]->prepare, rows);
}

static neap_status prepare(void *state, const struct neap_graph *graph, const struct node *node,
                           struct preparation *p) {
  bool split;
  TRY(needs_split(graph, node, p, &split));
  for (int32_t i = 0; i < node->input_count && !node_row(node)->any_place; i++)
    if (p->inputs[i].lanes == 0) p->inputs[i] = ROW_MAJOR;
  if (may_stay(graph, node)) {
    const neap_status status = prepare_in_chunks(state, graph, node, p);
    if (status != NEAP_UNSUPPORTED) return status;
  }
  return split ? prepare_split(state, graph, node, p, operators[node->op]->prepare, 0)
               : prepare_in_chunks(state, graph, node, p);
}

const struct backend cpu_backend = {
    .name = "cpu",
    .device = &host_device,
    .takes_shares = true,
    .create_state = create_state,
    .free_state = free_state,
    .describe = describe,
    .own_kernels = own_kernels,
    .format_bytes = format_bytes,
    .same_place = same_place,
    .export_variable = export_variable,
    .import_variable = import_variable,
    .prepare = prepare,
};
