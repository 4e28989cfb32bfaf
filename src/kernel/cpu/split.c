/* Runs nodes in parts of some rows each, on kernels that only take f32.
 *
 * A part is a node of its own, in its own graph, whose operands are f32 and have fewer rows. Its kernel is
 * the operator's. Before a part runs, its rows of 16-bit operands are converted into the workspace; after it,
 * its results are converted back. Operands that all parts read, such as weights, are converted once. Outputs
 * that are sums over parts, such as gradients of weights, are added up in f32. The start of such a sum, an
 * input that it may take the place of, is given only to the first part. */
#include <string.h>

#include "kernel/cpu/operator.h"
#include "kernel/random_stream.h"

enum how { WHOLE, CUT, SUMMED, FIRST };

struct part_operand { /* of a node that runs in parts */
  enum how how;
  bool given, converted, updated;
  neap_dtype dtype;
  int64_t
      stored[2];   /* elements, padding included, of a part and of the last one; of a whole one, both times */
  uint64_t buffer; /* where its f32 lies in the workspace, if it is converted */
  uint64_t share;  /* place of the term that a part adds to a sum */
};

struct split_kernel {
  struct kernel inner[2]; /* of a part; of the last one, where that has fewer rows */
  int64_t rows, parts;
  bool rest; /* the last part has fewer rows */
  int32_t input_count, output_count;
  struct part_operand *operands; /* inputs, then outputs */
  uint64_t workspace;            /* where in the workspace that of the kernels begins */
};

int64_t split_rows(const struct split_kernel *split) { return split->rows; }

/* ---- Running ---- */

static void *place(void *data, neap_dtype dtype, int64_t elements) {
  return (unsigned char *)data + dtype_bytes(dtype, (uint64_t)elements);
}

struct running {
  const struct split_kernel *split;
  const struct cpu_kernels *kernels;
  unsigned char *work;
  void *const *in; /* of the whole node */
  int64_t part;
  bool last;
};

static float *buffer_of(const struct running *r, const struct part_operand *o) {
  return (void *)(r->work + o->buffer);
}

/* Returns the memory that the part's kernel gets for an operand at `data`. */
static void *give(const struct running *r, const struct part_operand *o, void *data) {
  if (o->how == SUMMED)
    return r->part > 0 ? r->work + o->share : o->converted ? (void *)buffer_of(r, o) : data;
  if (o->how == FIRST && r->part > 0) return NULL;
  if (o->converted) return buffer_of(r, o);
  return o->how == CUT ? place(data, o->dtype, r->part * o->stored[0]) : data;
}

static void widen(const struct running *r, const struct part_operand *o, void *data) {
  const int64_t first = o->how == CUT ? r->part * o->stored[0] : 0;
  r->kernels->widen(o->dtype, o->stored[r->last], place(data, o->dtype, first), buffer_of(r, o));
}

static void narrow(const struct running *r, const struct part_operand *o, void *data) {
  const int64_t first = o->how == CUT ? r->part * o->stored[0] : 0;
  r->kernels->narrow(o->dtype, o->stored[r->last], buffer_of(r, o), place(data, o->dtype, first));
}

/* Stores a variable. An update only runs in parts for the values of sparse parameters, which are rounded at
 * random by their places in the dense tensors. All other updates round their variables themselves. */
static void narrow_variable(const struct running *r, const struct part_operand *o, int32_t operand,
                            const struct kernel *kernel, const struct run_context *context) {
  const int64_t first = o->how == CUT ? r->part * o->stored[0] : 0;
  narrow_sparse_values(kernel, operand, r->in, first, o->stored[r->last], buffer_of(r, o), context);
}

static neap_status run_part(const struct running *r, const struct kernel *outer, void *const *in,
                            void *const *out, void **given, const struct run_context *context) {
  const struct split_kernel *s = r->split;
  void **outputs = given + s->input_count;
  for (int32_t i = 0; i < s->input_count; i++) {
    const struct part_operand *o = &s->operands[i];
    given[i] = o->given ? give(r, o, in[i]) : NULL;
    if (o->given && o->converted && (o->how == CUT || r->part == 0)) widen(r, o, in[i]);
  }
  for (int32_t i = 0; i < s->output_count; i++)
    outputs[i] = give(r, &s->operands[s->input_count + i], out[i]);
  struct run_context at = *context;
  at.first_row = r->part * s->rows;
  const struct kernel *kernel = &s->inner[r->last && s->rest];
  TRY(kernel->run(kernel, given, outputs, r->work + s->workspace, &at));
  for (int32_t i = 0; i < s->input_count; i++)
    if (s->operands[i].updated && s->operands[i].converted && s->operands[i].how == CUT)
      narrow_variable(r, &s->operands[i], i, outer, context);
  for (int32_t i = 0; i < s->output_count; i++) {
    const struct part_operand *o = &s->operands[s->input_count + i];
    if (o->how == SUMMED && r->part > 0) {
      float *sum = o->converted ? buffer_of(r, o) : out[i];
      r->kernels->add(o->stored[0], sum, outputs[i], sum);
    }
    if (o->converted && (o->how == CUT || r->last)) narrow(r, o, out[i]);
  }
  return NEAP_OK;
}

static neap_status run_split(const struct kernel *kernel, void *const *in, void *const *out, void *workspace,
                             const struct run_context *context) {
  const struct split_kernel *s = cpu_kernel(kernel)->split;
  struct running r = {.split = s, .kernels = cpu_kernel(kernel)->kernels, .work = workspace, .in = in};
  void **given = workspace; /* pointers of a part's operands */
  for (; r.part < s->parts; r.part++) {
    r.last = r.part == s->parts - 1;
    TRY(run_part(&r, kernel, in, out, given, context));
  }
  for (int32_t i = 0; i < s->input_count; i++)
    if (s->operands[i].updated && s->operands[i].converted && s->operands[i].how != CUT) {
      r.part = 0;
      narrow_variable(&r, &s->operands[i], i, kernel, context);
    }
  return NEAP_OK;
}

/* ---- Preparing ---- */

struct splitting {
  struct cpu *cpu;
  const struct neap_graph *graph;
  const struct node *node;
  struct preparation *p;
  cpu_prepare *prepare;
  struct row_split split;
  bool flat;     /* rows are elements as they lie */
  int64_t count; /* rows of all */
  int64_t rows;  /* that a part is to have; 0: by their bytes */
};

static bool named(uint32_t operands, int32_t i) {
  return i < 32 ? operands >> i & 1 : operands == (uint32_t)ALL_OPERANDS;
}

static const struct tensor *operand_of(const struct splitting *s, int32_t i) {
  return i < s->node->input_count ? node_input(s->graph, s->node, i)
                                  : &s->graph->tensors.data[s->node->outputs[i - s->node->input_count]];
}

static enum how how_of(const struct splitting *s, int32_t i) {
  const int32_t output = i - s->node->input_count;
  if (output < 0 && named(s->split.inputs, i)) return CUT;
  if (output < 0) {
    for (int32_t k = 0; k < node_row(s->node)->inplace_count; k++) {
      const struct inplace_pair pair = node_row(s->node)->inplace[k];
      if (pair.input == i && named(s->split.sums, pair.output)) return FIRST;
    }
    return WHOLE;
  }
  return named(s->split.outputs, output) ? CUT : named(s->split.sums, output) ? SUMMED : WHOLE;
}

static int64_t elements_in(const struct tensor *t, struct memory_format format) {
  const uint64_t bytes = cpu_backend.format_bytes(t, format);
  return (int64_t)(bytes / (uint64_t)dtype_rows[t->dtype].block_bytes *
                   (uint64_t)dtype_rows[t->dtype].block_elements);
}

/* Returns the rows of the node: those of its first operand that is cut. */
static int64_t count_rows(const struct splitting *s) {
  for (int32_t i = 0; i < s->node->input_count + s->node->output_count; i++) {
    const struct tensor *t = operand_of(s, i);
    if (t == NULL || how_of(s, i) != CUT) continue;
    return s->flat ? elements_in(t, s->p->inputs[0]) : t->dims[0];
  }
  return 1;
}

/* Returns an operand as a part of `rows` rows has it. */
static struct tensor part_of_operand(const struct splitting *s, int32_t i, int64_t rows) {
  struct tensor t = *operand_of(s, i);
  t.view_of = -1;
  if (dtype_is_real(t.dtype)) t.dtype = NEAP_F32;
  if (how_of(s, i) != CUT) return t;
  if (s->flat) {
    t.rank = 1;
    t.dims[0] = t.elements = rows;
  } else {
    t.elements = t.elements / s->count * rows;
    t.dims[0] = t.dims[0] / s->count * rows;
  }
  return t;
}

/* Makes the node over `rows` rows, in its own graph, and its kernel. `formats`: of inputs, then outputs. */
static neap_status make_part(const struct splitting *s, int64_t rows, struct memory_format *formats,
                             struct kernel *kernel, struct preparation *part) {
  struct neap_graph *graph;
  const int32_t inputs = s->node->input_count, outputs = s->node->output_count;
  TRY(graph_create(s->node->name, &graph));
  neap_status status = vector_push(&s->cpu->parts, graph);
  if (status != NEAP_OK) {
    neap_graph_free(graph);
    return status;
  }
  int32_t *ids = region_alloc(s->p->region, (size_t)(inputs + outputs + s->node->update_count), sizeof *ids);
  RETURN_IF_NULL(ids);
  for (int32_t i = 0; i < inputs + outputs; i++) {
    ids[i] = NO_TENSOR;
    if (operand_of(s, i) != NULL) TRY(graph_add_tensor(graph, part_of_operand(s, i, rows), &ids[i]));
  }
  int32_t *updates = ids + inputs + outputs;
  for (int32_t u = 0; u < s->node->update_count; u++)
    for (int32_t i = 0; i < inputs; i++)
      if (s->node->inputs[i] == s->node->updates[u]) updates[u] = ids[i];
  struct node node = *s->node;
  node.inputs = ids;
  node.outputs = ids + inputs;
  node.updates = updates;
  TRY(graph_add_node(graph, node));
  const struct node *added = &graph->nodes.data[0];
  for (int32_t i = 0; i < inputs; i++) formats[i] = s->flat ? ROW_MAJOR : s->p->inputs[i];
  *part = (struct preparation){.inputs = formats, .roofline = s->p->roofline, .region = s->p->region};
  for (int32_t i = 0; i < outputs; i++) part->outputs[i] = s->flat ? ROW_MAJOR : s->p->outputs[i];
  TRY(s->prepare(s->cpu, graph, added, part));
  for (int32_t i = 0; i < outputs; i++) formats[inputs + i] = part->outputs[i];
  *kernel = (struct kernel){part->run, part->state, graph, 0};
  return NEAP_OK;
}

static bool same_format(struct memory_format a, struct memory_format b) {
  return a.lanes == b.lanes && a.blocks == b.blocks && a.packed == b.packed;
}

/* Returns true if rows can be found in the memory of every operand that is cut: not if it is packed, nor if a
 * row begins inside a byte. An output in place of an input must be cut like it. */
static bool rows_lie_apart(const struct splitting *s, const struct memory_format *formats) {
  for (int32_t i = 0; i < s->node->input_count + s->node->output_count; i++) {
    const struct tensor *t = operand_of(s, i);
    if (t == NULL || how_of(s, i) != CUT || s->flat) continue;
    const int64_t elements = elements_in(t, formats[i]);
    if (formats[i].packed != NULL || t->dims[0] % s->count != 0 ||
        elements / s->count % dtype_rows[t->dtype].block_elements != 0)
      return false;
  }
  for (int32_t k = 0; k < node_row(s->node)->inplace_count; k++) {
    const struct inplace_pair pair = node_row(s->node)->inplace[k];
    const enum how input = how_of(s, pair.input), output = how_of(s, s->node->input_count + pair.output);
    if (node_input(s->graph, s->node, pair.input) != NULL && input != output && input != FIRST) return false;
  }
  return true;
}

static uint64_t take(uint64_t *used, uint64_t bytes) {
  const uint64_t at = *used;
  *used += (bytes + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
  return at;
}

/* Chooses the rows of a part by the bytes of the operands that are cut. */
static int64_t choose_rows(const struct splitting *s) {
  if (s->rows > 0) return s->rows < s->count ? s->rows : s->count;
  uint64_t bytes = 0;
  for (int32_t i = 0; i < s->node->input_count + s->node->output_count; i++)
    if (operand_of(s, i) != NULL && how_of(s, i) == CUT)
      bytes += (uint64_t)operand_of(s, i)->elements * sizeof(float);
  const uint64_t row = bytes / (uint64_t)s->count + 1, rows = s->cpu->part_bytes / row;
  return rows < 1 ? 1 : rows < (uint64_t)s->count ? (int64_t)rows : s->count;
}

static int64_t divisor_below(int64_t count, int64_t most) {
  while (count % most != 0) most--;
  return most;
}

/* Makes the kernels of the parts. If a last part of fewer rows wants other formats than the rest, makes parts
 * smaller so that they are equal. */
static neap_status make_parts(struct splitting *s, struct split_kernel *k, struct memory_format *formats,
                              struct preparation parts[2]) {
  const int32_t count = s->node->input_count + s->node->output_count;
  struct memory_format *last = region_alloc(s->p->region, (size_t)count, sizeof *last);
  RETURN_IF_NULL(last);
  for (bool even = false;; even = true) {
    k->rows = even ? divisor_below(s->count, k->rows) : choose_rows(s);
    k->parts = (s->count + k->rows - 1) / k->rows;
    k->rest = s->count % k->rows != 0;
    parts[1] = (struct preparation){0};
    TRY(make_part(s, k->rows, formats, &k->inner[0], &parts[0]));
    if (!rows_lie_apart(s, formats)) { /* in one piece */
      s->split = (struct row_split){0};
      s->count = 1;
      continue;
    }
    if (!k->rest) return NEAP_OK;
    TRY(make_part(s, s->count % k->rows, last, &k->inner[1], &parts[1]));
    bool same = true;
    for (int32_t i = 0; i < count; i++)
      same = same && (operand_of(s, i) == NULL || same_format(formats[i], last[i]));
    if (same) return NEAP_OK;
  }
}

/* Sets how each operand is given to the parts, and where its f32 are in the workspace. */
static void fill_operands(const struct splitting *s, struct split_kernel *k,
                          const struct memory_format *formats) {
  const struct node *node = s->node;
  const int32_t count = node->input_count + node->output_count;
  k->input_count = node->input_count;
  k->output_count = node->output_count;
  uint64_t used = 0;
  take(&used, (uint64_t)count * sizeof(void *));
  for (int32_t i = 0; i < count; i++) {
    const struct tensor *t = operand_of(s, i);
    if (t == NULL) continue;
    struct part_operand *o = &k->operands[i];
    *o = (struct part_operand){.how = how_of(s, i),
                               .given = true,
                               .converted = dtype_is_real(t->dtype) && t->dtype != NEAP_F32,
                               .dtype = t->dtype};
    for (int last = 0; last < 2; last++) {
      const struct tensor part = part_of_operand(s, i, last && k->rest ? s->count % k->rows : k->rows);
      o->stored[last] = elements_in(&part, formats[i]);
    }
    for (int32_t u = 0; i < node->input_count && u < node->update_count; u++)
      o->updated = o->updated || node->updates[u] == node->inputs[i];
    if (o->converted) o->buffer = take(&used, (uint64_t)o->stored[0] * sizeof(float));
    if (o->how == SUMMED && k->parts > 1) o->share = take(&used, (uint64_t)o->stored[0] * sizeof(float));
  }
  k->workspace = used;
}

/* The formats of the whole operands: where a node works on any places those that they have. */
static void set_formats(const struct splitting *s, const struct memory_format *formats) {
  const struct node *node = s->node;
  struct preparation *p = s->p;
  const struct memory_format lies = p->inputs[0];
  for (int32_t i = 0; i < node->input_count; i++)
    if (node->update_count == 0 || i < UPDATE_SLOTS) /* positions stay as they lie */
      p->inputs[i] = s->flat && how_of(s, i) == CUT ? lies : formats[i];
  for (int32_t i = 0; i < node->output_count; i++)
    p->outputs[i] =
        s->flat && how_of(s, node->input_count + i) == CUT ? lies : formats[node->input_count + i];
}

neap_status prepare_split(struct cpu *cpu, const struct neap_graph *graph, const struct node *node,
                          struct preparation *p, cpu_prepare *prepare, int64_t rows) {
  struct splitting s = {cpu, graph, node, p, prepare, node_split(graph, node), false, 1, rows};
  const int32_t count = node->input_count + node->output_count;
  const struct tensor *x = node_input(graph, node, 0), *y = node_input(graph, node, 1);
  const bool broadcast = node->op != OP_CLIP_GRADIENT && y != NULL && x->elements != y->elements;
  s.flat = node_row(node)->any_place && node->op != OP_REORDER && !broadcast;
  if (s.flat && !format_chosen(p->inputs[0])) p->inputs[0] = ROW_MAJOR;
  s.count = count_rows(&s);
  struct split_kernel *k = region_alloc(p->region, 1, sizeof *k);
  struct memory_format *formats = region_alloc(p->region, (size_t)count, sizeof *formats);
  RETURN_IF_NULL(k);
  RETURN_IF_NULL(formats);
  k->operands = region_alloc(p->region, (size_t)count, sizeof *k->operands);
  RETURN_IF_NULL(k->operands);
  struct preparation parts[2];
  TRY(make_parts(&s, k, formats, parts));
  fill_operands(&s, k, formats);
  set_formats(&s, formats);
  p->workspace =
      k->workspace + (parts[0].workspace > parts[1].workspace ? parts[0].workspace : parts[1].workspace);
  p->seconds = parts[0].seconds * (double)k->parts;
  const struct cpu_kernel *part = parts[0].state;
  return cpu_finish(cpu, p, run_split,
                    (struct cpu_kernel){.primitive = part->primitive,
                                        .product = part->product,
                                        .direct = part->direct,
                                        .winograd = part->winograd,
                                        .split = k});
}
