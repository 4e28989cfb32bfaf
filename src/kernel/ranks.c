#include "kernel/ranks.h"

#include <stdatomic.h>
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

/* Returns the bytes of the smallest share: an element, or a block of a quantised type. */
static uint64_t unit_bytes(const struct tensor *tensor) {
  return (uint64_t)dtype_rows[tensor->dtype].block_bytes;
}

static int64_t units_in(const struct backend *backend, const struct tensor *tensor,
                        struct memory_format format) {
  return (int64_t)(backend->format_bytes(tensor, format) / unit_bytes(tensor));
}

uint64_t share_bytes(const struct backend *backend, const struct tensor *tensor,
                     struct memory_format format) {
  if (tensor->shares <= 1) return backend->format_bytes(tensor, format);
  return (uint64_t)share_most(units_in(backend, tensor, format), tensor->shares) * unit_bytes(tensor);
}

struct byte_share byte_share_of_rank(const struct backend *backend, const struct tensor *tensor,
                                     struct memory_format format, int rank) {
  const uint64_t whole = backend->format_bytes(tensor, format), unit = unit_bytes(tensor);
  if (tensor->shares <= 1) return (struct byte_share){0, whole, whole};
  const struct share share = share_of_rank((int64_t)(whole / unit), rank, tensor->shares);
  return (struct byte_share){(uint64_t)share.first * unit, (uint64_t)share.count * unit, whole};
}

/* ---- Nodes ---- */

/* Returns the first operand of which a rank only has a share; NO_TENSOR: none. */
static int32_t shared_operand(const struct neap_graph *graph, const struct node *node) {
  for (int32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != NO_TENSOR && graph->tensors.data[node->inputs[i]].shares > 1)
      return node->inputs[i];
  return NO_TENSOR;
}

/* Returns how ranks run a node. No share may cut blocks, so an update of a state in blocks runs as one of a
 * whole matrix. */
static enum across_ranks across_of(const struct neap_graph *graph, const struct node *node) {
  for (int32_t i = 0; i < node->update_count; i++)
    if (dtype_is_quantised(graph->tensors.data[node->updates[i]].dtype)) return ACROSS_ALIKE;
  return node_row(node)->across;
}

bool ranks_share(const struct neap_graph *graph, const struct node *node) {
  const enum across_ranks across = across_of(graph, node);
  return across == ACROSS_SHARE || across == ACROSS_ALIKE ? shared_operand(graph, node) != NO_TENSOR
                                                          : across != ACROSS_NONE;
}

/* Returns true if every rank gets all of the result that a node makes from shares. */
static bool makes_whole(const struct neap_graph *graph, const struct node *node) {
  return node->output_count > 0 && graph->tensors.data[node->outputs[0]].shares <= 1;
}

bool ranks_ordered(const struct neap_graph *graph, const struct node *node) {
  return ranks_meet(graph, node) && across_of(graph, node) != ACROSS_GATHER;
}

bool ranks_meet(const struct neap_graph *graph, const struct node *node) {
  if (!ranks_share(graph, node)) return false;
  if (across_of(graph, node) != ACROSS_SHARE) return true;
  for (int32_t i = 0; i < node->update_count; i++)
    if (graph->tensors.data[node->updates[i]].shares <= 1) return true;
  return makes_whole(graph, node);
}

/* Returns true if an input of a node comes from this rank's micro-batch, and is not a variable, which all
 * ranks have. */
static bool is_own(const struct neap_graph *graph, const struct node *node, int32_t i) {
  return node->inputs[i] != NO_TENSOR &&
         graph->tensors.data[graph_storage(graph, node->inputs[i])].role == NEAP_ROLE_VALUE;
}

static uint64_t aligned(uint64_t bytes) {
  return (bytes + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
}

/* Returns how many elements of a gradient come from each rank at a time. */
static int64_t chunk_of(int64_t whole, neap_dtype dtype, int ranks) {
  const int64_t most = share_most(whole, ranks),
                room = RECEIVED / (int64_t)dtype_bytes(dtype, 1) / (ranks > 1 ? ranks - 1 : 1);
  return most < room ? most : room;
}

enum { GRADIENT = 1, SUM = 2 }; /* slots of Accumulate */

/* The data that each rank passes round, for a node that all run for each rank, begins with the records of its
 * micro-batch. */
enum { HEAD_BYTES = MEMORY_ALIGNMENT };

struct rank_part ranks_prepare(const struct backend *backend, const struct neap_graph *graph,
                               const struct node *node, const struct memory_format *formats, int ranks) {
  struct rank_part part = {0};
  if (!ranks_share(graph, node)) return part;
  const enum across_ranks across = across_of(graph, node);
  if (across == ACROSS_WHOLE) {
    part.workspace = HEAD_BYTES;
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
  if (across == ACROSS_ALIKE) part.workspace = aligned(backend->format_bytes(tensor, formats[id]));
  part.whole = units_in(backend, tensor, formats[id]);
  if (across == ACROSS_SUM)
    part.workspace =
        (uint64_t)(ranks - 1) *
        aligned(dtype_bytes(tensor->dtype, (uint64_t)chunk_of(part.whole, tensor->dtype, ranks)));
  return part;
}

/* ---- Expected traffic ---- */

/* Returns true if a rank that has changed its share of an input gives it to all others. */
static bool is_gathered(const struct neap_graph *graph, const struct node *node, int32_t input) {
  return node->inputs[input] != NO_TENSOR && graph->tensors.data[node->inputs[input]].shares <= 1 &&
         node_updates(node, input);
}

static struct expected_traffic expect_node(const struct lowered *l, size_t v, int rank, int ranks) {
  const struct node *node = &l->graph->nodes.data[v];
  const struct rank_part *part = &l->rank_parts[v];
  const uint64_t others = (uint64_t)ranks - 1;
  const enum across_ranks across = across_of(l->graph, node);
  struct expected_traffic t = {0};
  if (across == ACROSS_WHOLE)
    return (struct expected_traffic){part->at_once ? 1 : ranks,
                                     others * part->workspace / (uint64_t)(part->at_once ? ranks : 1)};
  const int64_t own = share_of_rank(part->whole, rank, ranks).count;
  if (across == ACROSS_SUM) {
    const neap_dtype dtype = l->graph->tensors.data[node->inputs[GRADIENT]].dtype;
    const int64_t chunk = chunk_of(part->whole, dtype, ranks);
    return (struct expected_traffic){(share_most(part->whole, ranks) + chunk - 1) / chunk,
                                     dtype_bytes(dtype, (uint64_t)(part->whole - own))};
  }
  if (across == ACROSS_GATHER)
    return (struct expected_traffic){1, others * (uint64_t)own *
                                            unit_bytes(&l->graph->tensors.data[node->inputs[0]])};
  if (across == ACROSS_ALIKE)
    return (struct expected_traffic){
        1, others * (uint64_t)own * unit_bytes(&l->graph->tensors.data[shared_operand(l->graph, node)])};
  for (int32_t i = 0; i < node->input_count; i++) {
    if (!is_gathered(l->graph, node, i)) continue;
    t.calls++;
    t.sent += others * (uint64_t)own * dtype_bytes(l->graph->tensors.data[node->inputs[i]].dtype, 1);
  }
  if (makes_whole(l->graph, node)) { /* from the sums of the parts of all */
    t.calls++;
    t.sent += others * (uint64_t)share_of_rank(SHARE_PARTS, rank, ranks).count * sizeof(double);
  }
  return t;
}

struct expected_traffic ranks_expect(const struct lowered *lowered, const int32_t *schedule, int32_t length,
                                     int rank, int ranks) {
  struct expected_traffic all = {0};
  const int32_t count = schedule != NULL ? length : (int32_t)lowered->graph->nodes.count;
  for (int32_t i = 0; i < count; i++) {
    const int32_t v = schedule != NULL ? schedule[i] : i;
    if (!ranks_share(lowered->graph, &lowered->graph->nodes.data[v])) continue;
    const struct expected_traffic one = expect_node(lowered, (size_t)v, rank, ranks);
    all.calls += one.calls;
    all.sent += one.sent;
  }
  return all;
}

/* ---- Exchanges ---- */

neap_status ranks_open(const struct neap_collective *c, struct region *region, struct ranks **out) {
  const size_t size = (size_t)c->size;
  struct ranks *ranks = region_alloc(region, 1, sizeof *ranks);
  RETURN_IF_NULL(ranks);
  *ranks = (struct ranks){.collective = c,
                          .active = c->size,
                          .sizes = region_alloc(region, size, sizeof *ranks->sizes),
                          .pieces = region_alloc(region, 2 * size, sizeof *ranks->pieces),
                          .from = region_alloc(region, size, sizeof *ranks->from),
                          .flags = region_alloc(region, size, sizeof *ranks->flags)};
  RETURN_IF(!ranks->sizes || !ranks->pieces || !ranks->from || !ranks->flags, NEAP_OUT_OF_MEMORY,
            "ranks: out of memory");
  *out = ranks;
  return NEAP_OK;
}

neap_status ranks_exchange(struct ranks *ranks) {
  const struct neap_collective *c = ranks->collective;
  const double begin = clock_seconds();
  for (int rank = 0; rank < c->size; rank++) {
    ranks->traffic.sent += ranks->pieces[rank].bytes;
    ranks->traffic.received += ranks->pieces[c->size + rank].bytes;
  }
  const neap_status status = c->exchange(c->self, ranks->pieces, ranks->pieces + c->size);
  ranks->traffic.seconds += clock_seconds() - begin;
  return status;
}

neap_status ranks_wait(struct ranks *ranks) {
  const struct neap_collective *c = ranks->collective;
  const double begin = clock_seconds();
  atomic_thread_fence(memory_order_seq_cst); /* stores that go past the caches, too */
  const neap_status status = c->barrier(c->self);
  atomic_thread_fence(memory_order_seq_cst);
  ranks->traffic.seconds += clock_seconds() - begin;
  return status;
}

/* Gathers the parts of all ranks. `all`: ranks->sizes of each rank, one after another. */
static neap_status gather(struct ranks *ranks, void *all) {
  const struct neap_collective *c = ranks->collective;
  const double begin = clock_seconds();
  for (int rank = 0; rank < c->size; rank++)
    if (rank != c->rank) {
      ranks->traffic.sent += ranks->sizes[c->rank];
      ranks->traffic.received += ranks->sizes[rank];
    }
  const neap_status status = c->allgather(c->self, all, ranks->sizes);
  ranks->traffic.seconds += clock_seconds() - begin;
  return status;
}

neap_status ranks_gather(struct ranks *ranks, void *all, int64_t whole, uint64_t size) {
  const int count = ranks->collective->size;
  for (int rank = 0; rank < count; rank++)
    ranks->sizes[rank] = (uint64_t)share_of_rank(whole, rank, count).count * size;
  return gather(ranks, all);
}

neap_status ranks_any(struct ranks *ranks, bool own, bool *any) {
  const int count = ranks->collective->size;
  for (int rank = 0; rank < count; rank++) ranks->sizes[rank] = 1;
  ranks->flags[ranks->collective->rank] = own;
  TRY(gather(ranks, ranks->flags));
  for (int rank = 0; rank < count; rank++) *any = *any || ranks->flags[rank] != 0;
  return NEAP_OK;
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

/* Sums one chunk of every rank's share: the chunk goes to its owner, who folds it. */
static neap_status sum_chunk(const struct running *r, int64_t at, int64_t chunk) {
  struct ranks *ranks = r->context->ranks;
  const struct tensor *gradient = operand(r, GRADIENT);
  const int size = r->collective->size, own = r->collective->rank, active = ranks->active;
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
    ranks->pieces[rank] = (neap_piece){data, own < active && rank != own ? bytes : 0};
    ranks->from[rank] = rank == own ? data : r->received + (uint64_t)place++ * room;
  }
  const uint64_t bytes = dtype_bytes(gradient->dtype, (uint64_t)mine.count);
  for (int rank = 0; rank < size; rank++)
    ranks->pieces[size + rank] = (neap_piece){ranks->from[rank], rank < active && rank != own ? bytes : 0};
  TRY(ranks_exchange(ranks));
  return mine.count > 0 ? fold(r, mine, ranks->from) : NEAP_OK;
}

static neap_status run_sum(const struct running *r) {
  const int64_t most = share_most(r->part->whole, r->collective->size),
                chunk = chunk_of(r->part->whole, operand(r, GRADIENT)->dtype, r->collective->size);
  for (int64_t at = 0; at < most; at += chunk) TRY(sum_chunk(r, at, chunk));
  return NEAP_OK;
}

/* Finds the values of a rank from `place` on; for this rank, first copies them there, with the header before
 * them. `given`: all inputs. */
static void lay_out(const struct running *r, int32_t rank, unsigned char *place, void **given) {
  const bool own = rank == r->collective->rank;
  const int64_t batch = neap_graph_batch(r->lowered->graph);
  uint64_t used = HEAD_BYTES;
  if (own) memcpy(place, &batch, sizeof batch);
  for (int32_t i = 0; i < r->node->input_count; i++) {
    given[i] = r->in[i];
    if (!is_own(r->kernel->graph, r->node, i)) continue;
    const int32_t id = r->node->inputs[i];
    const uint64_t bytes = r->lowered->backend->format_bytes(operand(r, i), r->lowered->formats[id]);
    given[i] = place + used;
    used += aligned(bytes);
    if (own) memcpy(given[i], r->in[i], bytes);
  }
}

/* Passes the data of ranks `first` to `end` - 1 to every rank, `bytes` each; a rank's own is in `all`. */
static neap_status hand_round(const struct running *r, int32_t first, int32_t end, void *all,
                              uint64_t bytes) {
  struct ranks *ranks = r->context->ranks;
  for (int32_t rank = 0; rank < r->collective->size; rank++)
    ranks->sizes[rank] = rank >= first && rank < end ? bytes : 0;
  return gather(ranks, all);
}

/* Runs the node on every rank, once for each rank that has a micro-batch, with that rank's values. */
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
    memcpy(&at.batch, place, sizeof at.batch);
    TRY(r->kernel->run(r->kernel, given, r->out, r->workspace, &at));
  }
  return NEAP_OK;
}

/* Returns the start of this rank's share in an operand that has all elements. A scalar stays. */
static void *at_share(const struct running *r, int32_t i, void *data, struct share share) {
  const struct tensor *tensor = operand(r, i);
  if (tensor == NULL || tensor->shares > 1) return data;
  const int32_t id =
      i < r->node->input_count ? r->node->inputs[i] : r->node->outputs[i - r->node->input_count];
  const int64_t elements = units_in(r->lowered->backend, tensor, r->lowered->formats[id]);
  return elements == share.whole ? element(data, tensor, share.first) : data;
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
    if (is_gathered(r->kernel->graph, r->node, i))
      TRY(ranks_gather(r->context->ranks, r->in[i], r->part->whole, dtype_bytes(operand(r, i)->dtype, 1)));
  return NEAP_OK;
}

/* Runs the node on every rank with all of the operand that is held in shares: a gradient's sum. */
static neap_status run_alike(const struct running *r) {
  const int32_t shared = shared_operand(r->kernel->graph, r->node);
  const struct share own = share_of_rank(r->part->whole, r->collective->rank, r->collective->size);
  void *given[OPERANDS];
  for (int32_t i = 0; i < r->node->input_count; i++) {
    given[i] = r->in[i];
    if (r->node->inputs[i] != shared) continue;
    const uint64_t unit = unit_bytes(operand(r, i));
    memcpy(r->received + (uint64_t)own.first * unit, r->in[i], (size_t)own.count * unit);
    TRY(ranks_gather(r->context->ranks, r->received, r->part->whole, unit));
    given[i] = r->received;
  }
  return r->kernel->run(r->kernel, given, r->out, r->workspace, r->context);
}

struct whole ranks_place_own(const struct lowered *lowered, const struct kernel *kernel,
                             const struct ranks *ranks, const void *share, void *all) {
  const struct whole whole = {lowered->rank_parts[kernel->node].whole, unit_bytes(kernel_input(kernel, 0))};
  const struct share own = share_of_rank(whole.units, ranks->collective->rank, ranks->collective->size);
  memcpy((unsigned char *)all + (uint64_t)own.first * whole.unit, share, (uint64_t)own.count * whole.unit);
  return whole;
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
  RETURN_IF(r.node->input_count > OPERANDS, NEAP_INTERNAL,
            "%s '%s': has %d inputs; ranks can share a node of at most %d", node_row(r.node)->name,
            r.node->name, r.node->input_count, OPERANDS);
  switch (across_of(lowered->graph, r.node)) {
  case ACROSS_SUM:
    return run_sum(&r);
  case ACROSS_WHOLE:
    return run_whole(&r);
  case ACROSS_SHARE:
    return run_share(&r);
  case ACROSS_ALIKE:
    return run_alike(&r);
  case ACROSS_GATHER: /* it is a job of a lane */
  case ACROSS_NONE:
    break;
  }
  return neap_fail(NEAP_INTERNAL, "%s '%s': ranks cannot share this operator", node_row(r.node)->name,
                   r.node->name);
}
