#include "kernel/ranks.h"

#include <string.h>

#include "base/clock.h"

enum {
  OPERANDS = 16,
  RECEIVED = 4 << 20, /* bytes at a time, from all ranks together */
  AT_ONCE = 1 << 18   /* values of a node that all ranks get from all in one exchange: bytes at most */
};

/* ---- Shares ---- */

static int64_t begin_of(int64_t whole, int64_t part) {
  return whole / SHARE_PARTS * part + whole % SHARE_PARTS * part / SHARE_PARTS;
}

struct share share_of_rank(int64_t whole, int rank, int ranks) {
  const int64_t begin = begin_of(whole, (int64_t)SHARE_PARTS * rank / ranks),
                end = begin_of(whole, (int64_t)SHARE_PARTS * (rank + 1) / ranks);
  return (struct share){.first = begin, .count = end - begin, .whole = whole};
}

int64_t share_most(int64_t whole, int ranks) {
  int64_t most = 0;
  for (int rank = 0; rank < ranks; rank++) {
    const int64_t count = share_of_rank(whole, rank, ranks).count;
    most = count > most ? count : most;
  }
  return most;
}

static int64_t elements_in(const struct backend *backend, const struct tensor *tensor,
                           struct memory_format format) {
  return (int64_t)(backend->format_bytes(tensor, format) / dtype_bytes(tensor->dtype, 1));
}

uint64_t share_bytes(const struct backend *backend, const struct tensor *tensor,
                     struct memory_format format) {
  if (tensor->shares <= 1) return backend->format_bytes(tensor, format);
  return dtype_bytes(tensor->dtype,
                     (uint64_t)share_most(elements_in(backend, tensor, format), tensor->shares));
}

/* ---- Nodes ---- */

/* The first operand of which a rank has a share only; NO_TENSOR: every operand is whole. */
static int32_t shared_operand(const struct neap_graph *graph, const struct node *node) {
  for (int32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != NO_TENSOR && graph->tensors.data[node->inputs[i]].shares > 1)
      return node->inputs[i];
  return NO_TENSOR;
}

bool ranks_share(const struct neap_graph *graph, const struct node *node) {
  const enum across_ranks across = node_row(node)->across;
  return across == ACROSS_SHARE ? shared_operand(graph, node) != NO_TENSOR : across != ACROSS_NONE;
}

bool ranks_meet(const struct neap_graph *graph, const struct node *node) {
  if (!ranks_share(graph, node)) return false;
  if (node_row(node)->across != ACROSS_SHARE) return true;
  for (int32_t i = 0; i < node->update_count; i++)
    if (graph->tensors.data[node->updates[i]].shares <= 1) return true;
  return node->output_count > 0 && graph->tensors.data[node->outputs[0]].shares <= 1;
}

/* Whether an input of a node is what this rank's micro-batch gave, and not a variable, which all have. */
static bool is_own(const struct neap_graph *graph, const struct node *node, int32_t i) {
  return node->inputs[i] != NO_TENSOR &&
         graph->tensors.data[graph_storage(graph, node->inputs[i])].role == NEAP_ROLE_VALUE;
}

static uint64_t aligned(uint64_t bytes) {
  return (bytes + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
}

/* Elements of a gradient that come from each rank at a time. */
static int64_t chunk_of(int64_t whole, neap_dtype dtype, int ranks) {
  const int64_t most = share_most(whole, ranks),
                room = RECEIVED / (int64_t)dtype_bytes(dtype, 1) / (ranks > 1 ? ranks - 1 : 1);
  return most < room ? most : room;
}

enum { GRADIENT = 1, SUM = 2 }; /* slots of Accumulate */

struct rank_part ranks_prepare(const struct backend *backend, const struct neap_graph *graph,
                               const struct node *node, const struct memory_format *formats, int ranks) {
  struct rank_part part = {0};
  if (!ranks_share(graph, node)) return part;
  const enum across_ranks across = node_row(node)->across;
  if (across == ACROSS_WHOLE) {
    for (int32_t i = 0; i < node->input_count; i++)
      if (is_own(graph, node, i))
        part.workspace +=
            aligned(backend->format_bytes(&graph->tensors.data[node->inputs[i]], formats[node->inputs[i]]));
    part.at_once = part.workspace * (uint64_t)ranks <= AT_ONCE;
    if (part.at_once) part.workspace *= (uint64_t)ranks;
    return part;
  }
  const int32_t id = across == ACROSS_SUM ? node->inputs[GRADIENT] : shared_operand(graph, node);
  const struct tensor *tensor = &graph->tensors.data[id];
  part.whole = elements_in(backend, tensor, formats[id]);
  if (across == ACROSS_SUM)
    part.workspace =
        (uint64_t)(ranks - 1) *
        aligned(dtype_bytes(tensor->dtype, (uint64_t)chunk_of(part.whole, tensor->dtype, ranks)));
  return part;
}

/* ---- Exchanges ---- */

static neap_status exchange(const struct ranks *ranks, const neap_piece *send, const neap_piece *receive) {
  const struct neap_collective *c = ranks->collective;
  const double begin = clock_seconds();
  for (int rank = 0; rank < c->size; rank++) {
    ranks->traffic->sent += send[rank].bytes;
    ranks->traffic->received += receive[rank].bytes;
  }
  const neap_status status = c->exchange(c->self, send, receive);
  ranks->traffic->seconds += clock_seconds() - begin;
  return status;
}

static neap_status gather(const struct ranks *ranks, void *all, const uint64_t *bytes) {
  const struct neap_collective *c = ranks->collective;
  const double begin = clock_seconds();
  for (int rank = 0; rank < c->size; rank++)
    if (rank != c->rank) {
      ranks->traffic->sent += bytes[c->rank];
      ranks->traffic->received += bytes[rank];
    }
  const neap_status status = c->allgather(c->self, all, bytes);
  ranks->traffic->seconds += clock_seconds() - begin;
  return status;
}

/* ---- Running ---- */

struct running {
  const struct lowered *lowered;
  const struct kernel *kernel;
  const struct node *node;
  const struct rank_part *part;
  const struct neap_collective *collective;
  void *const *in, *const *out;
  unsigned char *received, *workspace;
  const struct run_context *context;
};

static const struct tensor *operand(const struct running *r, int32_t i) {
  const int32_t output = i - r->node->input_count;
  return output < 0 ? node_input(r->kernel->graph, r->node, i) : kernel_output(r->kernel, output);
}

static void *element(void *data, const struct tensor *tensor, int64_t i) {
  return data == NULL ? NULL : (unsigned char *)data + dtype_bytes(tensor->dtype, (uint64_t)i);
}

/* Adds some elements of each rank's gradient to this rank's sum, in the order of ranks. */
static neap_status fold(const struct running *r, struct share share, unsigned char *const *from) {
  const int32_t first = r->context->micro_batch - r->collective->rank;
  const struct share own = share_of_rank(r->part->whole, r->collective->rank, r->collective->size);
  for (int32_t rank = 0; rank < r->context->ranks->active; rank++) {
    void *given[OPERANDS] = {r->in[0], from[rank],
                             element(r->in[SUM], operand(r, SUM), share.first - own.first)};
    struct run_context at = *r->context;
    at.share = share;
    at.micro_batch = first + rank;
    TRY(r->kernel->run(r->kernel, given, r->out, r->workspace, &at));
  }
  return NEAP_OK;
}

/* One chunk of every rank's share: it goes to its owner, who folds it. */
static neap_status sum_chunk(const struct running *r, int64_t at, int64_t chunk, neap_piece *send,
                             neap_piece *receive, unsigned char **from) {
  const struct tensor *gradient = operand(r, GRADIENT);
  const int size = r->collective->size, own = r->collective->rank;
  const uint64_t room = aligned(dtype_bytes(gradient->dtype, (uint64_t)chunk));
  struct share mine = {0};
  for (int rank = 0, place = 0; rank < size; rank++) {
    struct share share = share_of_rank(r->part->whole, rank, size);
    share.first += at;
    share.count = share.count - at < chunk ? share.count - at : chunk;
    if (share.count < 0) share.count = 0;
    if (rank == own) mine = share;
    void *data = element(r->in[GRADIENT], gradient, share.first);
    const uint64_t bytes = dtype_bytes(gradient->dtype, (uint64_t)share.count);
    send[rank] = (neap_piece){data, own < r->context->ranks->active && rank != own ? bytes : 0};
    from[rank] = rank == own ? data : r->received + (uint64_t)place++ * room;
  }
  for (int rank = 0; rank < size; rank++)
    receive[rank] = (neap_piece){from[rank], rank < r->context->ranks->active && rank != own
                                                 ? dtype_bytes(gradient->dtype, (uint64_t)mine.count)
                                                 : 0};
  TRY(exchange(r->context->ranks, send, receive));
  return mine.count > 0 ? fold(r, mine, from) : NEAP_OK;
}

static neap_status run_sum(const struct running *r) {
  const size_t size = (size_t)r->collective->size;
  const neap_dtype dtype = operand(r, GRADIENT)->dtype;
  const int64_t most = share_most(r->part->whole, (int)size),
                chunk = chunk_of(r->part->whole, dtype, (int)size);
  neap_piece *pieces = malloc(2 * size * sizeof *pieces);
  unsigned char **from = malloc(size * sizeof *from);
  neap_status status =
      pieces != NULL && from != NULL ? NEAP_OK : neap_fail(NEAP_OUT_OF_MEMORY, "ranks: out of memory");
  for (int64_t at = 0; status == NEAP_OK && at < most; at += chunk)
    status = sum_chunk(r, at, chunk, pieces, pieces + size, from);
  free(from);
  free(pieces);
  return status;
}

/* Has room for the values of a rank from `place` on; copies them there where they are this rank's. `given`:
 * all inputs. */
static uint64_t lay_out(const struct running *r, int32_t rank, unsigned char *place, void **given) {
  uint64_t used = 0;
  for (int32_t i = 0; i < r->node->input_count; i++) {
    given[i] = r->in[i];
    if (!is_own(r->kernel->graph, r->node, i)) continue;
    const int32_t id = r->node->inputs[i];
    const uint64_t bytes = r->lowered->backend->format_bytes(operand(r, i), r->lowered->formats[id]);
    given[i] = place + used;
    used += aligned(bytes);
    if (rank == r->collective->rank) memcpy(given[i], r->in[i], bytes);
  }
  return used;
}

/* Gives every rank the values of ranks `first` to `end` - 1, `bytes` each, of which it has its own in `all`.
 */
static neap_status hand_round(const struct running *r, int32_t first, int32_t end, void *all,
                              uint64_t bytes) {
  uint64_t *sizes = calloc((size_t)r->collective->size, sizeof *sizes);
  RETURN_IF_NULL(sizes);
  for (int32_t rank = first; rank < end; rank++) sizes[rank] = bytes;
  const neap_status status = gather(r->context->ranks, all, sizes);
  free(sizes);
  return status;
}

/* The node once for each rank that has a micro-batch, with what that one gave, on every rank. */
static neap_status run_whole(const struct running *r) {
  const int32_t active = r->context->ranks->active, own = r->collective->rank;
  const uint64_t bytes =
      r->part->at_once ? r->part->workspace / (uint64_t)r->collective->size : r->part->workspace;
  void *given[OPERANDS];
  if (r->part->at_once && own < active) lay_out(r, own, r->received + (uint64_t)own * bytes, given);
  if (r->part->at_once) TRY(hand_round(r, 0, active, r->received, bytes));
  for (int32_t rank = 0; rank < active; rank++) {
    unsigned char *place = r->received + (r->part->at_once ? (uint64_t)rank * bytes : 0);
    struct run_context at = *r->context;
    at.micro_batch += rank - own;
    lay_out(r, rank, place, given);
    if (!r->part->at_once) TRY(hand_round(r, rank, rank + 1, place, bytes));
    TRY(r->kernel->run(r->kernel, given, r->out, r->workspace, &at));
  }
  return NEAP_OK;
}

/* What an operand that has all elements has for this rank's share: it begins there. A scalar stays. */
static void *at_share(const struct running *r, int32_t i, void *data, struct share share) {
  const struct tensor *tensor = operand(r, i);
  if (tensor == NULL || tensor->shares > 1) return data;
  const int32_t id =
      i < r->node->input_count ? r->node->inputs[i] : r->node->outputs[i - r->node->input_count];
  const int64_t elements = elements_in(r->lowered->backend, tensor, r->lowered->formats[id]);
  return elements == share.whole ? element(data, tensor, share.first) : data;
}

/* Every rank's share of a tensor that each has changed a share of. */
static neap_status gather_shares(const struct running *r, int32_t i) {
  const struct neap_collective *c = r->collective;
  uint64_t *sizes = malloc((size_t)c->size * sizeof *sizes);
  RETURN_IF_NULL(sizes);
  for (int rank = 0; rank < c->size; rank++)
    sizes[rank] =
        dtype_bytes(operand(r, i)->dtype, (uint64_t)share_of_rank(r->part->whole, rank, c->size).count);
  const neap_status status = gather(r->context->ranks, r->in[i], sizes);
  free(sizes);
  return status;
}

neap_status ranks_gather_parts(const struct run_context *context, double *parts) {
  const struct neap_collective *c = context->ranks->collective;
  uint64_t *sizes = malloc((size_t)c->size * sizeof *sizes);
  RETURN_IF_NULL(sizes);
  for (int rank = 0; rank < c->size; rank++)
    sizes[rank] = (uint64_t)share_of_rank(SHARE_PARTS, rank, c->size).count * sizeof *parts;
  const neap_status status = gather(context->ranks, parts, sizes);
  free(sizes);
  return status;
}

static bool updates(const struct node *node, int32_t input) {
  for (int32_t i = 0; i < node->update_count; i++)
    if (node->updates[i] == node->inputs[input]) return true;
  return false;
}

static neap_status run_share(const struct running *r) {
  void *given[OPERANDS], *made[NODE_MAX_OUTPUTS];
  struct run_context at = *r->context;
  at.share = share_of_rank(r->part->whole, r->collective->rank, r->collective->size);
  for (int32_t i = 0; i < r->node->input_count; i++) given[i] = at_share(r, i, r->in[i], at.share);
  for (int32_t i = 0; i < r->node->output_count; i++)
    made[i] = at_share(r, r->node->input_count + i, r->out[i], at.share);
  TRY(r->kernel->run(r->kernel, given, made, r->workspace, &at));
  for (int32_t i = 0; i < r->node->input_count; i++)
    if (operand(r, i) != NULL && operand(r, i)->shares <= 1 && updates(r->node, i)) TRY(gather_shares(r, i));
  return NEAP_OK;
}

neap_status ranks_run(const struct lowered *lowered, const struct kernel *kernel, void *const *inputs,
                      void *const *outputs, void *workspace, const struct run_context *context) {
  const struct rank_part *part = &lowered->rank_parts[kernel->node];
  const struct running r = {.lowered = lowered,
                            .kernel = kernel,
                            .node = kernel_node(kernel),
                            .part = part,
                            .collective = context->ranks->collective,
                            .in = inputs,
                            .out = outputs,
                            .received = workspace,
                            .workspace = (unsigned char *)workspace + part->workspace,
                            .context = context};
  RETURN_IF(r.node->input_count > OPERANDS, NEAP_INTERNAL, "%s '%s': has %d inputs; ranks share at most %d",
            node_row(r.node)->name, r.node->name, r.node->input_count, OPERANDS);
  switch (node_row(r.node)->across) {
  case ACROSS_SUM:
    return run_sum(&r);
  case ACROSS_WHOLE:
    return run_whole(&r);
  case ACROSS_SHARE:
    return run_share(&r);
  case ACROSS_NONE:
    break;
  }
  return neap_fail(NEAP_INTERNAL, "%s '%s': ranks do not share it", node_row(r.node)->name, r.node->name);
}
