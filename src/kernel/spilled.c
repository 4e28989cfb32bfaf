#include "kernel/spilled.h"

enum { OPERANDS = 16, BUFFERS = 2 };

static bool is_spilled(const struct neap_graph *graph, const struct node *node, int32_t i) {
  return node->inputs[i] != NO_TENSOR && graph->tensors.data[node->inputs[i]].spilled;
}

bool spilled_updates(const struct neap_graph *graph, const struct node *node) {
  for (int32_t i = 0; node->pass == NEAP_PASS_UPDATE && i < node->input_count; i++)
    if (is_spilled(graph, node, i)) return true;
  return false;
}

/* Returns the elements of a tensor in a format, padding included. */
static int64_t elements_in(const struct backend *backend, const struct tensor *tensor,
                           struct memory_format format) {
  const struct dtype_row *row = &dtype_rows[tensor->dtype];
  return (int64_t)(backend->format_bytes(tensor, format) / (uint64_t)row->block_bytes) * row->block_elements;
}

static uint64_t buffer_bytes(const struct tensor *tensor, int64_t elements) {
  return (dtype_bytes(tensor->dtype, (uint64_t)elements) + SPILL_PAGE - 1) / SPILL_PAGE * SPILL_PAGE;
}

/* Returns the elements of a piece; all, if a rule needs whole matrices or a variable is laid out otherwise
 * than the others. */
static int64_t piece_of(const struct backend *backend, const struct neap_graph *graph,
                        const struct node *node, const struct memory_format *formats, int64_t whole) {
  const enum across_ranks across = node_row(node)->across;
  bool cut = backend->takes_shares && (across == ACROSS_SHARE || across == ACROSS_SUM);
  for (int32_t i = 0; i < node->input_count; i++)
    if (is_spilled(graph, node, i))
      cut = cut &&
            elements_in(backend, &graph->tensors.data[node->inputs[i]], formats[node->inputs[i]]) == whole;
  return cut && whole > SPILL_PIECE ? SPILL_PIECE : whole;
}

struct spilled_part spilled_prepare(const struct backend *backend, const struct neap_graph *graph,
                                    const struct node *node, const struct memory_format *formats) {
  struct spilled_part part = {0};
  if (!spilled_updates(graph, node)) return part;
  part.whole = elements_in(backend, &graph->tensors.data[node->inputs[0]], formats[node->inputs[0]]);
  part.piece = piece_of(backend, graph, node, formats, part.whole);
  const bool cut = part.piece < part.whole;
  part.workspace = SPILL_PAGE - MEMORY_ALIGNMENT;
  for (int32_t i = 0; i < node->input_count; i++) {
    if (!is_spilled(graph, node, i)) continue;
    const struct tensor *tensor = &graph->tensors.data[node->inputs[i]];
    const int64_t whole = elements_in(backend, tensor, formats[node->inputs[i]]);
    part.workspace += (cut ? BUFFERS : 1) * buffer_bytes(tensor, cut ? part.piece : whole);
    part.read += dtype_bytes(tensor->dtype, (uint64_t)whole);
    if (node_updates(node, i)) part.written += dtype_bytes(tensor->dtype, (uint64_t)whole);
  }
  return part;
}

double spilled_seconds(const struct roofline *roofline, const struct spilled_part *part) {
  return (double)(part->read + part->written) / (roofline->disk > 0 ? roofline->disk : usual_roofline.disk);
}

/* ---- Running ---- */

struct operand {
  const struct tensor *tensor;
  bool spilled, updated;
  int64_t number, elements;
  unsigned char *buffers[BUFFERS];
};

struct running {
  const struct kernel *kernel;
  const struct spill *spill;
  const struct spilled_part *part;
  struct operand operands[OPERANDS];
  int32_t count;
  uint64_t jobs; /* the last that was started */
};

/* Gives the operands their buffers; returns the kernel's own workspace. */
static unsigned char *find_buffers(struct running *r, const struct lowered *l, const uint64_t *numbers,
                                   unsigned char *workspace) {
  const struct node *node = kernel_node(r->kernel);
  const bool cut = r->part->piece < r->part->whole;
  unsigned char *at = workspace + (SPILL_PAGE - (uintptr_t)workspace % SPILL_PAGE) % SPILL_PAGE;
  for (int32_t i = 0; i < node->input_count; i++) {
    struct operand *o = &r->operands[i];
    if (node->inputs[i] == NO_TENSOR) continue;
    *o = (struct operand){.tensor = kernel_input(r->kernel, i),
                          .spilled = is_spilled(r->kernel->graph, node, i),
                          .updated = node_updates(node, i),
                          .number = (int64_t)numbers[i]};
    o->elements = elements_in(l->backend, o->tensor, l->formats[node->inputs[i]]);
    for (int b = 0; o->spilled && b < BUFFERS; b++) {
      if (b == 0 || cut) {
        o->buffers[b] = at;
        at += buffer_bytes(o->tensor, cut ? r->part->piece : o->elements);
      } else {
        o->buffers[b] = o->buffers[0];
      }
    }
  }
  return workspace + r->part->workspace;
}

/* Starts to read or write a piece of the update; of an update that is not cut, all pieces of the file. */
static void move_piece(struct running *r, bool write, int64_t k) {
  for (int32_t i = 0; i < r->count; i++) {
    const struct operand *o = &r->operands[i];
    if (!o->spilled || (write && !o->updated)) continue;
    const int64_t pieces = (o->elements + SPILL_PIECE - 1) / SPILL_PIECE;
    const bool cut = r->part->piece < r->part->whole;
    for (int64_t p = cut ? k : 0; p < (cut ? k + 1 : pieces); p++) {
      unsigned char *to = o->buffers[k % BUFFERS];
      if (!cut) to += dtype_bytes(o->tensor->dtype, (uint64_t)(p * SPILL_PIECE));
      r->jobs = r->spill->start(r->spill->context, write, o->number, p, to);
    }
  }
}

/* Runs the kernel on one piece. */
static neap_status run_piece(const struct running *r, int64_t k, void *const *inputs, void *workspace,
                             const struct run_context *context) {
  const int64_t first = k * r->part->piece, left = r->part->whole - first;
  struct run_context at = *context;
  void *given[OPERANDS] = {0};
  if (r->part->piece < r->part->whole)
    at.share = (struct share){first, left < r->part->piece ? left : r->part->piece, r->part->whole};
  for (int32_t i = 0; i < r->count; i++) {
    const struct operand *o = &r->operands[i];
    if (o->tensor == NULL || inputs[i] == NULL) continue;
    const bool shifts = !o->spilled && o->elements == r->part->whole;
    given[i] = o->spilled ? o->buffers[k % BUFFERS]
                          : (unsigned char *)inputs[i] +
                                (shifts ? dtype_bytes(o->tensor->dtype, (uint64_t)first) : 0);
  }
  return r->kernel->run(r->kernel, given, NULL, workspace, &at);
}

static neap_status run_pieces(struct running *r, void *const *inputs, void *workspace,
                              const struct run_context *context) {
  const int64_t pieces = (r->part->whole + r->part->piece - 1) / r->part->piece;
  move_piece(r, false, 0);
  for (int64_t k = 0; k < pieces; k++) {
    const uint64_t read = r->jobs;
    if (k + 1 < pieces) move_piece(r, false, k + 1);
    TRY(r->spill->wait(r->spill->context, read));
    TRY(run_piece(r, k, inputs, workspace, context));
    move_piece(r, true, k);
  }
  return NEAP_OK;
}

neap_status spilled_run(const struct lowered *lowered, const struct kernel *kernel, const uint64_t *numbers,
                        void *const *inputs, void *workspace, const struct run_context *context) {
  struct running r = {.kernel = kernel,
                      .spill = context->spill,
                      .part = &lowered->spilled_parts[kernel->node],
                      .count = kernel_node(kernel)->input_count};
  RETURN_IF(r.count > OPERANDS, NEAP_INTERNAL, "'%s' has %d inputs; %d are possible on disk",
            kernel_node(kernel)->name, r.count, OPERANDS);
  unsigned char *own = find_buffers(&r, lowered, numbers, workspace);
  struct ending ending = {0};
  ending_keep(&ending, run_pieces(&r, inputs, own, context));
  const neap_status ended = r.spill->wait(r.spill->context, r.jobs);
  return ending.status != NEAP_OK ? ending_tell(&ending) : ended;
}
