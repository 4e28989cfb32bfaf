/* The bound on costs: see bounds.h. */
#include <math.h>
#include <string.h>

#include "base/region.h"
#include "plan/bounds.h"
#include "plan/max_flow.h"

/* Where a node's first run lies in every schedule, seen from the first run of the cut's node. */
enum side { BESIDE, BEFORE, AT, AFTER };

/* What holds at the first run of one node. */
struct cut {
  int32_t node;
  double room;   /* bytes that are left beside what the node needs to run */
  double wanted; /* bytes of what must be kept, or made again */
};

/* A choice of what is made again: each pays its cost, each byte kept a price. */
struct choice {
  double cost, kept; /* of what is made again; bytes */
  double value;      /* of the best choice for the price, less the price of the room */
};

struct bounding {
  const neap_step *step;
  struct region region;
  double limit;        /* bytes of values and workspace */
  double scale;        /* capacity of a cost of 1 */
  uint8_t *side;       /* by node */
  bool *held, *wanted; /* by tensor: the cut's node reads it; it was made before and is read after */
  struct flow flow;
};

/* ---- Cuts ---- */

static bool until(enum side side) { return side == BEFORE || side == AT; }
static bool since(enum side side) { return side == AT || side == AFTER; }

/* It reads what another node updates, at the cut at the latest. */
static bool loses_input(const struct bounding *b, int32_t v) {
  const struct step_node *node = &b->step->nodes[v];
  for (int32_t i = 0; i < node->input_count; i++) {
    const int32_t updater = b->step->tensors[node->inputs[i]].updater;
    if (updater >= 0 && updater != v && until(b->side[updater])) return true;
  }
  return false;
}

static bool has_reader(const struct bounding *b, int32_t tensor, bool (*lies)(enum side)) {
  const neap_step *step = b->step;
  for (int32_t i = step->reader_start[tensor]; i < step->reader_start[tensor + 1]; i++)
    if (lies(b->side[step->readers[i]])) return true;
  return false;
}

/* The cut's node reads from it, or updates what it reads, or that holds for a node that comes before. */
static bool comes_before(const struct bounding *b, int32_t v) {
  const struct step_node *node = &b->step->nodes[v];
  for (int32_t i = 0; i < node->output_count; i++)
    if (has_reader(b, node->outputs[i], until)) return true;
  return loses_input(b, v);
}

static bool comes_after(const struct bounding *b, int32_t v) {
  const struct step_node *node = &b->step->nodes[v];
  for (int32_t i = 0; i < node->input_count; i++) {
    const int32_t producer = b->step->tensors[node->inputs[i]].producer;
    if (producer >= 0 && since(b->side[producer])) return true;
  }
  for (int32_t i = 0; i < node->update_count; i++)
    if (has_reader(b, node->updates[i], since)) return true;
  return false;
}

/* Bytes while the node runs, at least. */
static double bytes_at_once(const struct bounding *b, const struct step_node *node) {
  const struct step_tensor *tensors = b->step->tensors;
  uint64_t bytes = node->workspace;
  for (int32_t i = 0; i < node->input_count; i++) {
    const int32_t t = node->inputs[i];
    bool seen = tensors[t].role != ROLE_VALUE;
    for (int32_t k = 0; k < i; k++) seen = seen || node->inputs[k] == t;
    if (!seen) bytes += tensors[t].bytes;
  }
  for (int32_t o = 0; o < node->output_count; o++) {
    bool taken = false;
    for (int32_t p = 0; p < node->inplace_count; p++) taken = taken || node->inplace[p].output == o;
    if (!taken) bytes += tensors[node->outputs[o]].bytes;
  }
  return (double)bytes;
}

static void look_at(struct bounding *b, int32_t v, struct cut *cut) {
  const neap_step *step = b->step;
  const struct step_node *node = &step->nodes[v];
  *cut = (struct cut){.node = v, .room = b->limit - bytes_at_once(b, node)};
  memset(b->side, BESIDE, (size_t)step->node_count * sizeof *b->side);
  memset(b->held, 0, (size_t)step->tensor_count * sizeof *b->held);
  b->side[v] = AT;
  for (int32_t u = v - 1; u >= 0; u--)
    if (comes_before(b, u)) b->side[u] = BEFORE;
  for (int32_t u = v + 1; u < step->node_count; u++)
    if (comes_after(b, u)) b->side[u] = AFTER;
  for (int32_t i = 0; i < node->input_count; i++) b->held[node->inputs[i]] = true;
  for (int32_t t = 0; t < step->tensor_count; t++) {
    const int32_t producer = step->tensors[t].producer;
    b->wanted[t] = producer >= 0 && b->side[producer] == BEFORE && !b->held[t] &&
                   (step->tensors[t].is_output || has_reader(b, t, since));
    if (b->wanted[t]) cut->wanted += (double)step->tensors[t].bytes;
  }
}

/* ---- The best choice for a price ---- */

static int32_t flow_node(int32_t v) { return FLOW_FIRST + v; }
static int32_t flow_value(const struct bounding *b, int32_t t) {
  return FLOW_FIRST + b->step->node_count + t;
}

static bool can_repeat(const struct bounding *b, int32_t v) {
  const struct step_node *node = &b->step->nodes[v];
  return node->repeatable && node->update_count == 0 && !loses_input(b, v);
}

/* Rounded down: then no cut becomes dearer. */
static int64_t capacity_of(const struct bounding *b, double amount) {
  return (int64_t)fmin(amount * b->scale, (double)FLOW_UNBOUNDED);
}

/* A value that nodes before the cut read: kept where one of them is made again, but not the value. */
static neap_status connect_readers(struct bounding *b, int32_t t, int64_t capacity) {
  const neap_step *step = b->step;
  const int32_t value = flow_value(b, t), producer = flow_node(step->tensors[t].producer);
  TRY(flow_connect(&b->flow, value, producer, capacity));
  for (int32_t k = step->reader_start[t]; k < step->reader_start[t + 1]; k++)
    if (b->side[step->readers[k]] == BEFORE)
      TRY(flow_connect(&b->flow, flow_node(step->readers[k]), value, FLOW_UNBOUNDED));
  return NEAP_OK;
}

static neap_status build_network(struct bounding *b, double price) {
  const neap_step *step = b->step;
  TRY(flow_reset(&b->flow, FLOW_FIRST + step->node_count + step->tensor_count));
  for (int32_t v = 0; v < step->node_count; v++) {
    const struct step_node *node = &step->nodes[v];
    if (b->side[v] != BEFORE) continue;
    TRY(flow_connect(&b->flow, flow_node(v), FLOW_SINK,
                     can_repeat(b, v) ? capacity_of(b, node->cost) : FLOW_UNBOUNDED));
    for (int32_t i = 0; i < node->output_count; i++) {
      const int32_t t = node->outputs[i];
      const int64_t capacity = capacity_of(b, price * (double)step->tensors[t].bytes);
      if (b->wanted[t])
        TRY(flow_connect(&b->flow, FLOW_SOURCE, flow_node(v), capacity));
      else if (!b->held[t])
        TRY(connect_readers(b, t, capacity));
    }
  }
  return NEAP_OK;
}

static bool is_kept(const struct bounding *b, int32_t t) {
  const int32_t producer = b->step->tensors[t].producer;
  if (producer < 0 || b->side[producer] != BEFORE || b->held[t]) return false;
  return (b->wanted[t] || flow_reaches(&b->flow, flow_value(b, t))) &&
         !flow_reaches(&b->flow, flow_node(producer));
}

static neap_status choose(struct bounding *b, const struct cut *cut, double price, struct choice *out) {
  const neap_step *step = b->step;
  *out = (struct choice){0};
  TRY(build_network(b, price));
  out->value = (double)flow_maximise(&b->flow) / b->scale - price * cut->room;
  for (int32_t v = 0; v < step->node_count; v++)
    if (b->side[v] == BEFORE && flow_reaches(&b->flow, flow_node(v))) out->cost += step->nodes[v].cost;
  for (int32_t t = 0; t < step->tensor_count; t++)
    if (is_kept(b, t)) out->kept += (double)step->tensors[t].bytes;
  return NEAP_OK;
}

/* The price with the largest value, between two of which the first keeps too much and the second not. The
 * value is the least of lines over the prices, one for each choice; the next price is where the lines of the
 * two cross. */
static neap_status best_price(struct bounding *b, const struct cut *cut, double *bound) {
  enum { DOUBLINGS = 24, ROUNDS = 24 };
  struct choice low = {.kept = cut->wanted}, high = {.kept = INFINITY}, now;
  double price = ldexp(b->step->base_cost / cut->wanted, -8);
  for (int i = 0; i < DOUBLINGS && high.kept > cut->room; i++, price *= 2) {
    TRY(choose(b, cut, price, &now));
    *bound = fmax(*bound, now.value);
    *(now.kept > cut->room ? &low : &high) = now;
  }
  for (int i = 0; i < ROUNDS && high.kept <= cut->room; i++) {
    price = (high.cost - low.cost) / (low.kept - high.kept);
    const double crossing = low.cost + price * (low.kept - cut->room);
    if (*bound >= crossing * (1 - 1e-6)) break;
    TRY(choose(b, cut, price, &now));
    *bound = fmax(*bound, now.value);
    if (now.value >= crossing * (1 - 1e-6)) break;
    *(now.kept > cut->room ? &low : &high) = now;
  }
  return NEAP_OK;
}

/* ---- All cuts ---- */

/* The cuts that want most beside what they have room for, the first the most. */
enum { CUTS = 16 };

static void keep_cut(struct cut *cuts, int32_t *count, const struct cut *cut) {
  int32_t at = *count < CUTS ? (*count)++ : CUTS;
  for (; at > 0 && cut->wanted - cut->room > cuts[at - 1].wanted - cuts[at - 1].room; at--)
    if (at < CUTS) cuts[at] = cuts[at - 1];
  if (at < CUTS) cuts[at] = *cut;
}

static neap_status bound_repeats(struct bounding *b, double *bound) {
  enum { SAMPLES = 512 };
  const neap_step *step = b->step;
  struct cut cuts[CUTS], cut;
  int32_t count = 0;
  const int32_t stride = 1 + step->node_count / SAMPLES;
  for (int32_t v = 0; v < step->node_count; v += stride) {
    look_at(b, v, &cut);
    if (cut.room < 0) *bound = INFINITY;
    if (cut.wanted > cut.room) keep_cut(cuts, &count, &cut);
  }
  for (int32_t i = 0; i < count && *bound < INFINITY; i++) {
    look_at(b, cuts[i].node, &cut);
    double d = 0;
    TRY(best_price(b, &cut, &d));
    *bound = fmax(*bound, d);
  }
  return NEAP_OK;
}

static neap_status prepare(struct bounding *b) {
  const size_t nodes = (size_t)b->step->node_count, tensors = (size_t)b->step->tensor_count;
  b->side = region_alloc(&b->region, nodes, sizeof *b->side);
  b->held = region_alloc(&b->region, tensors, sizeof *b->held);
  b->wanted = region_alloc(&b->region, tensors, sizeof *b->wanted);
  RETURN_IF(!b->side || !b->held || !b->wanted, NEAP_OUT_OF_MEMORY, "cost bound: out of memory");
  return NEAP_OK;
}

neap_status plan_cost_bound(const neap_step *step, uint64_t budget, double *cost) {
  struct bounding b = {.step = step, .scale = ldexp(1, 36) / step->base_cost};
  double repeats = 0;
  *cost = budget < step->resident_bytes ? INFINITY : step->base_cost;
  if (!(step->base_cost > 0) || budget < step->resident_bytes) return NEAP_OK;
  b.limit = (double)(budget - step->resident_bytes);
  neap_status status = prepare(&b);
  if (status == NEAP_OK) status = bound_repeats(&b, &repeats);
  if (status == NEAP_OK) *cost += repeats * (1 - 1e-9);
  flow_free(&b.flow);
  region_free(&b.region);
  return status;
}
