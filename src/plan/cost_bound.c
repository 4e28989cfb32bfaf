/* The bound on costs: see cost_bound.h. */
#include "plan/cost_bound.h"

#include <math.h>
#include <string.h>

#include "base/region.h"
#include "base/stop.h"
#include "plan/max_flow.h"
#include "search/pebbling.h"
#include "step/lower_bound.h"
#include "step/planner.h"
#include "step/simulate.h"
#include "step/tuning.h"

/* The place of a node's first run in every schedule, compared with the first run of the cut's node. */
enum side { BESIDE, BEFORE, AT, AFTER };

/* A cut: the first run of one node. */
struct cut {
  int32_t node;
  double room;    /* bytes that are left beside what the node needs to run */
  uint8_t *side;  /* by node */
  double repeats; /* what repeats after it cost, at least */
};

/* A choice of the nodes to run again: each pays its cost, and each byte kept pays a price. */
struct choice {
  double cost, kept; /* of the values made again; bytes */
  double value;      /* of the best choice for the price, less the price of the room */
};

struct bounding {
  const neap_step *step;
  struct region region;
  double limit;        /* bytes of values and workspace */
  double finest;       /* capacity of a cost of 1 where nothing else limits it */
  double scale;        /* the same in the current network */
  uint8_t *side;       /* by node, of the cut that is looked at */
  bool *held, *wanted; /* by tensor: the cut's node reads it; it was made before and is read after */
  double wanted_bytes;
  double price; /* the best for the cut that was looked at last */
  struct flow flow;
};

/* ---- Cuts ---- */

static bool until(enum side side) { return side == BEFORE || side == AT; }
static bool since(enum side side) { return side == AT || side == AFTER; }

/* Returns true if the node reads a tensor that another node updates before or at the cut. */
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

/* Returns true if the cut's node, or a node before it, reads an output of this node or updates one of its
 * inputs. */
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

static double room_beside(const struct bounding *b, int32_t v) {
  return b->limit - (double)node_bytes_at_once(b->step, &b->step->nodes[v]);
}

static void find_sides(struct bounding *b, int32_t cut) {
  const neap_step *step = b->step;
  memset(b->side, BESIDE, (size_t)step->node_count * sizeof *b->side);
  b->side[cut] = AT;
  for (int32_t v = cut - 1; v >= 0; v--)
    if (comes_before(b, v)) b->side[v] = BEFORE;
  for (int32_t v = cut + 1; v < step->node_count; v++)
    if (comes_after(b, v)) b->side[v] = AFTER;
}

/* Returns true if the tensor has a reader whose first run is after the cut, but not after the next cut. */
static bool read_between(const struct bounding *b, int32_t tensor, const struct cut *next) {
  const neap_step *step = b->step;
  for (int32_t i = step->reader_start[tensor]; i < step->reader_start[tensor + 1]; i++) {
    const int32_t reader = step->readers[i];
    if (b->side[reader] == AFTER && (next == NULL || until(next->side[reader]))) return true;
  }
  return next == NULL && step->tensors[tensor].is_output;
}

/* Finds the values to keep or make again between a cut, whose sides are set, and the next; NULL: the end. */
static void find_wanted(struct bounding *b, int32_t cut, const struct cut *next) {
  const neap_step *step = b->step;
  const struct step_node *node = &step->nodes[cut];
  memset(b->held, 0, (size_t)step->tensor_count * sizeof *b->held);
  for (int32_t i = 0; i < node->input_count; i++) b->held[node->inputs[i]] = true;
  b->wanted_bytes = 0;
  for (int32_t t = 0; t < step->tensor_count; t++) {
    const int32_t producer = step->tensors[t].producer;
    b->wanted[t] = producer >= 0 && b->side[producer] == BEFORE && !b->held[t] && read_between(b, t, next);
    if (b->wanted[t]) b->wanted_bytes += (double)step->tensors[t].bytes;
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

/* Rounds down, so that no cut becomes more expensive. */
static int64_t capacity_of(const struct bounding *b, double amount) {
  return (int64_t)fmin(amount * b->scale, (double)FLOW_UNBOUNDED);
}

/* Connects a value that nodes before the cut read. It is kept if one of them runs again but its maker does
 * not. */
static neap_status connect_readers(struct bounding *b, int32_t t, int64_t capacity) {
  const neap_step *step = b->step;
  const int32_t value = flow_value(b, t), producer = flow_node(step->tensors[t].producer);
  TRY(flow_connect(&b->flow, value, producer, capacity));
  for (int32_t k = step->reader_start[t]; k < step->reader_start[t + 1]; k++)
    if (b->side[step->readers[k]] == BEFORE)
      TRY(flow_connect(&b->flow, flow_node(step->readers[k]), value, FLOW_UNBOUNDED));
  return NEAP_OK;
}

/* Sets the scale so that the sum of all capacities from the source fits. */
static void set_scale(struct bounding *b, double price) {
  b->scale = fmin(b->finest, ldexp(1, 59) / (price * b->wanted_bytes));
}

static neap_status build_network(struct bounding *b, double price) {
  const neap_step *step = b->step;
  set_scale(b, price);
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

static neap_status choose(struct bounding *b, double room, double price, struct choice *out) {
  const neap_step *step = b->step;
  *out = (struct choice){0};
  TRY(build_network(b, price));
  out->value = (double)flow_maximise(&b->flow) / b->scale - price * room;
  TRY(stop_check()); /* the flow may not be the largest then */
  for (int32_t v = 0; v < step->node_count; v++)
    if (b->side[v] == BEFORE && flow_reaches(&b->flow, flow_node(v))) out->cost += step->nodes[v].cost;
  for (int32_t t = 0; t < step->tensor_count; t++)
    if (is_kept(b, t)) out->kept += (double)step->tensors[t].bytes;
  return NEAP_OK;
}

/* Finds the price with the largest value. It starts from two prices: at the first too much is kept, at the
 * second not. The value is the least of lines over the prices, one for each choice; the next price is where
 * the lines of the two cross. Leaves the best price in `price`. */
static neap_status bound_cut(struct bounding *b, double room, double *bound) {
  enum { DOUBLINGS = 24, ROUNDS = 24 };
  struct choice low = {.kept = b->wanted_bytes}, high = {.kept = INFINITY}, now;
  double price = ldexp(b->step->base_cost / b->wanted_bytes, -8), best_price = price;
  *bound = 0;
  for (int i = 0; i < DOUBLINGS + ROUNDS && (i < DOUBLINGS || high.kept <= room); i++) {
    const bool bracketed = high.kept <= room;
    if (bracketed) price = (high.cost - low.cost) / (low.kept - high.kept);
    const double crossing = bracketed ? low.cost + price * (low.kept - room) : INFINITY;
    if (*bound >= crossing * (1 - 1e-6)) break;
    TRY(choose(b, room, price, &now));
    if (now.value > *bound) *bound = now.value, best_price = price;
    *(now.kept > room ? &low : &high) = now;
    price *= 2;
  }
  b->price = best_price;
  return NEAP_OK;
}

/* ---- Chains of cuts ---- */

static double look_at(struct bounding *b, int32_t v) {
  find_sides(b, v);
  find_wanted(b, v, NULL);
  return room_beside(b, v);
}

/* Returns the stride over nodes, so that at most BOUND_SAMPLES for each part of the step are looked at. */
static int32_t stride_of(const neap_step *step, int32_t parts) {
  return 1 + step->node_count / (parts * BOUND_SAMPLES);
}

/* Sets the price to the best for the node that exceeds its room by most. The bound is infinite if some node
 * has no room to run. */
static neap_status find_price(struct bounding *b, int32_t stride, double *bound) {
  double most = 0;
  int32_t widest = -1;
  for (int32_t v = 0; v < b->step->node_count; v++)
    if (room_beside(b, v) < 0) *bound = INFINITY;
  for (int32_t v = 0; v < b->step->node_count && *bound < INFINITY; v += stride) {
    const double room = look_at(b, v);
    if (b->wanted_bytes - room > most) most = b->wanted_bytes - room, widest = v;
  }
  if (widest < 0) return NEAP_OK;
  const double room = look_at(b, widest);
  return bound_cut(b, room, bound);
}

/* Chooses, in each part of the step, the node with the largest value for the price, among nodes that exceed
 * their room. */
static neap_status choose_cuts(struct bounding *b, int32_t parts, int32_t stride, struct cut *cuts,
                               int32_t *count) {
  const int32_t nodes = b->step->node_count;
  for (int32_t part = 0, v = 0; part < parts; part++) {
    struct cut best = {.node = -1};
    double value = -INFINITY;
    for (; v < (int64_t)nodes * (part + 1) / parts; v += stride) {
      struct choice choice;
      const double room = look_at(b, v);
      if (b->wanted_bytes <= room) continue;
      TRY(choose(b, room, b->price, &choice));
      if (choice.value <= value) continue;
      best = (struct cut){.node = v, .room = room};
      value = choice.value;
    }
    if (best.node < 0) continue;
    find_sides(b, best.node);
    best.side = region_copy(&b->region, b->side, (size_t)nodes, sizeof *b->side);
    RETURN_IF_NULL(best.side);
    cuts[(*count)++] = best;
  }
  return NEAP_OK;
}

/* Bounds the cost of repeats between a cut and the next, plus those after the next. */
static neap_status bound_from(struct bounding *b, struct cut *cut, const struct cut *next) {
  double between = 0;
  b->side = cut->side;
  find_wanted(b, cut->node, next);
  if (b->wanted_bytes > cut->room) TRY(bound_cut(b, cut->room, &between));
  cut->repeats = fmax(cut->repeats, between + (next != NULL ? next->repeats : 0));
  return NEAP_OK;
}

static neap_status bound_repeats(struct bounding *b, double *bound) {
  struct cut cuts[BOUND_CUTS];
  int32_t count = 0;
  const int32_t parts = b->step->node_count > LARGE_STEP ? BOUND_CUTS_LARGE : BOUND_CUTS,
                stride = stride_of(b->step, parts);
  TRY(find_price(b, stride, bound));
  if (b->price == 0 || *bound == INFINITY) return NEAP_OK;
  TRY(choose_cuts(b, parts, stride, cuts, &count));
  for (int32_t i = count; i-- > 0;) {
    TRY(bound_from(b, &cuts[i], NULL));
    for (int32_t k = i + 1; k < count; k++)
      if (cuts[i].side[cuts[k].node] == AFTER) TRY(bound_from(b, &cuts[i], &cuts[k]));
    *bound = fmax(*bound, cuts[i].repeats);
  }
  return NEAP_OK;
}

static neap_status prepare(struct bounding *b) {
  RETURN_IF((int64_t)b->step->node_count + b->step->tensor_count > INT32_MAX - FLOW_FIRST, NEAP_TOO_LARGE,
            "cost bound: the step has too many nodes and tensors (got %lld)",
            (long long)b->step->node_count + b->step->tensor_count);
  const size_t nodes = (size_t)b->step->node_count, tensors = (size_t)b->step->tensor_count;
  b->side = region_alloc(&b->region, nodes, sizeof *b->side);
  b->held = region_alloc(&b->region, tensors, sizeof *b->held);
  b->wanted = region_alloc(&b->region, tensors, sizeof *b->wanted);
  RETURN_IF(!b->side || !b->held || !b->wanted, NEAP_OUT_OF_MEMORY, "cost bound: out of memory");
  return NEAP_OK;
}

/* Returns true if prices of bytes, their sums and capacities all stay within a double. */
static bool is_measurable(double cost) {
  return cost > 0 && isfinite(ldexp(cost, 64)) && isfinite(ldexp(1, 36) / cost);
}

neap_status plan_cost_bound(const neap_step *step, uint64_t budget, double *cost) {
  struct bounding b = {.step = step};
  double repeats = 0;
  *cost = budget < step->resident_bytes ? INFINITY : step->base_cost;
  if (!is_measurable(step->base_cost) || budget < step->resident_bytes) return NEAP_OK;
  b.finest = ldexp(1, 36) / step->base_cost;
  b.limit = (double)(budget - step->resident_bytes);
  neap_status status = prepare(&b);
  if (status == NEAP_OK) status = bound_repeats(&b, &repeats);
  if (status == NEAP_OK) *cost += repeats * (1 - 1e-9);
  flow_free(&b.flow);
  region_free(&b.region);
  return status;
}

neap_status plan_least_cost(const neap_step *step, uint64_t budget, double *cost) {
  struct schedule schedule = {0};
  struct simulation score;
  int64_t work = PEBBLING_WORK;
  bool found;
  if (step->node_count > PEBBLING_NODES || budget < step->resident_bytes) return NEAP_OK;
  TRY(pebble_cheapest(step, budget - step->resident_bytes, &work, &schedule, &found));
  neap_status status = NEAP_OK;
  if (found) status = simulate(step, schedule.nodes.data, (int32_t)schedule.nodes.count, &score);
  /* Costs added in another order differ in the last digits. */
  if (found && status == NEAP_OK) *cost = fmax(*cost, score.cost * (1 - 1e-12));
  schedule_free(&schedule);
  return status;
}
