/* The planner `pofo`: stages in slots, operations of the chain with the transfers that the recurrence chose,
 * and the largest internal budget whose schedule fits, as the tables do not see all that lives. */
#include "papers/pofo_plan.h"

#include "papers/contest.h"
#include "papers/pofo.h"
#include "search/chain_plan.h"

/* Time takes up to the third power of the slots. The internal budget is found in a number of halvings between
 * two shares of the real one. */
enum { POFO_STAGES = 60, POFO_SLOTS = 60, POFO_HALVINGS = 8 };
static const double POFO_LEAST = 0.5, POFO_MOST = 1.25;

/* The progress of the transfers of a node's outputs. */
enum transfer { NONE, WANTED, STORED };

struct pofo_plan {
  const neap_step *step;  /* with optional nodes */
  struct chain_plan plan; /* of the step without */
  struct region region;
  struct contest contest;
  struct pofo_chain chain;
  struct rotor_stage *stages;
  struct rotor_option *options; /* by stage */
  struct rotor_leaf *leaves;    /* by stage */
  int32_t *input_stored, *inside_stored;
  enum pofo_stored *stored; /* by stage */
  enum transfer *transfer;  /* by node */
  chain_operations operations;
};

/* ---- Stages ---- */

/* Bytes of one kind that were counted so far. Each count is rounded so that the slots of a stretch of stages
 * are right within one: few slots would else lose half of one in each stage. */
struct counted {
  uint64_t input, kept, input_stored, inside_stored;
};

static int32_t count_slots(double slot, uint64_t *counted, uint64_t bytes) {
  const int32_t before = rotor_slots(slot, *counted);
  *counted += bytes;
  return rotor_slots(slot, *counted) - before;
}

/* Returns true if a node's outputs can be stored and a backward node reads one of them. */
static bool is_storable(const struct pofo_plan *p, int32_t v) {
  const struct step_node *node = &p->step->nodes[v];
  bool read = false;
  for (int32_t o = 0; o < node->output_count; o++)
    for (int32_t i = p->step->reader_start[node->outputs[o]]; i < p->step->reader_start[node->outputs[o] + 1];
         i++) {
      const int32_t reader = p->step->readers[i];
      read = read || (reader >= p->plan.chain.cuts.border && reader < p->step->required_count);
    }
  return p->step->restorer[v] >= 0 && read;
}

static bool is_in_boundary(const struct pofo_plan *p, int32_t v, int32_t boundary) {
  const struct step_node *node = &p->step->nodes[v];
  for (int32_t o = 0; o < node->output_count; o++)
    if (p->plan.chain.cut_of[node->outputs[o]] == boundary) return true;
  return false;
}

/* Returns the bytes that can be stored of what the forward nodes of a stage make: of its output boundary, or
 * of its inside. */
static uint64_t storable_bytes(const struct pofo_plan *p, int32_t s, bool boundary) {
  const struct chain_stage *stage = &p->plan.chain.stages[s];
  uint64_t bytes = 0;
  for (int32_t v = stage->forward_begin; v < stage->forward_end; v++) {
    if (!is_storable(p, v) || is_in_boundary(p, v, s) != boundary) continue;
    for (int32_t o = 0; o < p->step->nodes[v].output_count; o++)
      bytes += p->step->tensors[p->step->nodes[v].outputs[o]].bytes;
  }
  return bytes;
}

static neap_status allocate(struct pofo_plan *p) {
  const size_t count = (size_t)p->plan.chain.stage_count;
  p->stages = region_alloc(&p->region, count, sizeof *p->stages);
  p->options = region_alloc(&p->region, count, sizeof *p->options);
  p->leaves = region_alloc(&p->region, count, sizeof *p->leaves);
  p->input_stored = region_alloc(&p->region, count, sizeof *p->input_stored);
  p->inside_stored = region_alloc(&p->region, count, sizeof *p->inside_stored);
  p->stored = region_alloc(&p->region, count, sizeof *p->stored);
  p->transfer = region_alloc(&p->region, (size_t)p->step->node_count, sizeof *p->transfer);
  RETURN_IF(!p->stages || !p->options || !p->leaves || !p->input_stored || !p->inside_stored || !p->stored ||
                !p->transfer,
            NEAP_OUT_OF_MEMORY, "pofo: out of memory");
  return NEAP_OK;
}

static void fill_stage(struct pofo_plan *p, int32_t s, double slot, struct counted *counted) {
  const struct stage *stage = chain_plan_stage(&p->plan, s);
  const struct chain_stage *place = &p->plan.chain.stages[s];
  const struct stage_mode *mode = &stage->modes[0];
  const struct stage_option *all = &mode->options.data[0];
  p->options[s] = (struct rotor_option){count_slots(slot, &counted->kept, all->kept_bytes),
                                        rotor_slots(slot, all->forward_peak),
                                        rotor_slots(slot, all->backward_peak + place->passing_bytes),
                                        (float)(all->again_cost + all->backward_cost)};
  p->leaves[s] = (struct rotor_leaf){rotor_slots(slot, all->leaf_peak + place->passing_bytes),
                                     (float)(all->make_cost + all->backward_cost)};
  p->stages[s] = (struct rotor_stage){.input = count_slots(slot, &counted->input, stage->input_bytes),
                                      .gradient = rotor_slots(slot, place->gradient_bytes),
                                      .kind = s};
  p->stages[s].modes[0] = (struct rotor_mode){.forward_peak = rotor_slots(slot, mode->forward_peak),
                                              .forward_cost = (float)mode->forward_cost,
                                              .option_count = 1,
                                              .leaf_count = 1,
                                              .options = &p->options[s],
                                              .leaves = &p->leaves[s]};
  p->input_stored[s] = s > 0 ? count_slots(slot, &counted->input_stored, storable_bytes(p, s - 1, true)) : 0;
  p->inside_stored[s] = count_slots(slot, &counted->inside_stored, storable_bytes(p, s, false));
}

/* Returns the slots that the transfers of a direction move in a unit of cost, on average. */
static double rate_of(const struct pofo_plan *p, bool restores, double slot) {
  double bytes = 0, cost = 0;
  for (int32_t v = 0; v < p->step->required_count; v++) {
    if (p->step->restorer[v] < 0) continue;
    for (int32_t o = 0; o < p->step->nodes[v].output_count; o++)
      bytes += (double)p->step->tensors[p->step->nodes[v].outputs[o]].bytes;
    cost += p->step->nodes[restores ? p->step->restorer[v] : p->step->store[v]].cost;
  }
  return cost > 0 ? bytes / cost / slot : bytes > 0 ? 1e30 : 0;
}

/* ---- Schedules ---- */

/* Wants what is stored of a stage's input. */
static void want_input(struct pofo_plan *p, int32_t s) {
  const struct chain_stage *before = &p->plan.chain.stages[s - 1];
  for (int32_t v = before->forward_begin; v < before->forward_end; v++)
    if (is_storable(p, v) && (p->stored[s] == POFO_INPUT_AND_INSIDE || is_in_boundary(p, v, s - 1)))
      p->transfer[v] = WANTED;
}

/* Appends the restorers of what a backward node reads that was stored. */
static neap_status restore_inputs(struct pofo_plan *p, int32_t v, struct schedule *to) {
  const struct step_node *node = &p->step->nodes[v];
  for (int32_t i = 0; i < node->input_count; i++) {
    const int32_t maker = p->step->tensors[node->inputs[i]].producer;
    if (maker < 0 || p->transfer[maker] != STORED) continue;
    TRY(vector_push(&to->nodes, p->step->restorer[maker]));
    p->transfer[maker] = NONE;
  }
  return NEAP_OK;
}

/* Copies the schedule of the operations, with a store behind the first run of what is wanted and its restorer
 * before the first backward part that reads it, unless it runs again by then. */
static neap_status add_transfers(struct pofo_plan *p, struct schedule *to) {
  const struct schedule *from = &p->plan.emitted;
  bool backward = false;
  for (int32_t v = 0; v < p->step->node_count; v++) p->transfer[v] = NONE;
  for (int32_t s = 1; s < p->chain.count; s++)
    if (p->stored[s] != POFO_NOTHING) want_input(p, s);
  for (size_t i = 0; i < from->nodes.count; i++) {
    const int32_t v = from->nodes.data[i];
    backward = backward || v >= p->plan.chain.cuts.border;
    if (backward) TRY(restore_inputs(p, v, to));
    TRY(vector_push(&to->nodes, v));
    if (p->transfer[v] == WANTED) TRY(vector_push(&to->nodes, p->step->store[v]));
    p->transfer[v] = p->transfer[v] == WANTED ? STORED : NONE;
  }
  return NEAP_OK;
}

/* Makes and offers the schedule. `*fits`: before anything is cleaned. */
static neap_status offer_schedule(struct pofo_plan *p, bool *fits) {
  struct schedule schedule = {0};
  struct simulation score = {0};
  neap_status status = chain_emit(&p->plan, &p->operations);
  if (status == NEAP_OK) status = add_transfers(p, &schedule);
  if (status == NEAP_OK)
    status = simulate(p->step, schedule.nodes.data, (int32_t)schedule.nodes.count, &score);
  *fits = score.peak_bytes <= p->contest.budget;
  if (status == NEAP_OK) status = contest_offer(&p->contest, &schedule);
  schedule_free(&schedule);
  return status;
}

/* Solves the chain in an internal budget (bytes of values) and offers the schedule. */
static neap_status try_budget(struct pofo_plan *p, double values, bool *fits) {
  struct counted counted = {0};
  float cost;
  const double slot = values / POFO_SLOTS + 1e-9;
  for (int32_t s = 0; s < p->chain.count; s++) fill_stage(p, s, slot, &counted);
  p->chain.write = rate_of(p, false, slot);
  p->chain.read = rate_of(p, true, slot);
  p->operations.count = 0;
  const neap_status status = pofo_solve(&p->chain, &cost, &p->operations, p->stored);
  *fits = status == NEAP_OVER_BUDGET; /* so more is tried */
  if (status == NEAP_OVER_BUDGET) return NEAP_OK;
  return status == NEAP_OK ? offer_schedule(p, fits) : status;
}

/* Offers the step's own order, in which nothing is stored. */
static neap_status offer_all(struct pofo_plan *p) {
  struct schedule schedule = {0};
  neap_status status = NEAP_OK;
  for (int32_t v = 0; status == NEAP_OK && v < p->step->required_count; v++)
    status = vector_push(&schedule.nodes, v);
  if (status == NEAP_OK) status = contest_offer(&p->contest, &schedule);
  schedule_free(&schedule);
  return status;
}

static neap_status search(struct pofo_plan *p, const neap_step *plain, uint64_t budget,
                          const struct planner_options *options) {
  struct schedule unused = {0};
  const double values = (double)(budget - p->step->resident_bytes);
  double low = POFO_LEAST, high = POFO_MOST;
  neap_status status = chain_plan_create(plain, budget, options, POFO_STAGES, 0, &unused, &p->plan);
  if (status == NEAP_OK) status = allocate(p);
  if (status == NEAP_OK) status = offer_all(p);
  p->chain = (struct pofo_chain){.stages = p->stages,
                                 .count = p->plan.chain.stage_count,
                                 .slots = POFO_SLOTS,
                                 .input_stored = p->input_stored,
                                 .inside_stored = p->inside_stored};
  const bool all_fits = contest_is_met(&p->contest);
  for (int i = 0; status == NEAP_OK && !all_fits && i < POFO_HALVINGS; i++) {
    bool fits;
    const double share = (low + high) / 2;
    status = try_budget(p, values * share, &fits);
    *(fits ? &low : &high) = share;
  }
  schedule_free(&unused);
  return status;
}

neap_status plan_pofo(const neap_step *step, uint64_t budget, const struct planner_options *options,
                      struct schedule *out) {
  RETURN_IF(budget < step->resident_bytes, NEAP_OVER_BUDGET,
            "pofo: the resident tensors alone need %llu bytes", (unsigned long long)step->resident_bytes);
  struct pofo_plan p = {.step = step};
  neap_step *plain = NULL;
  neap_status status = contest_create(step, budget, options, out, &p.contest);
  if (status == NEAP_OK) status = step_create_plain(step, &plain);
  if (status == NEAP_OK) status = search(&p, plain, budget, options);
  if (status == NEAP_OK) status = contest_result(&p.contest, "pofo");
  vector_free(&p.operations);
  region_free(&p.region);
  chain_plan_free(&p.plan);
  neap_step_free(plain);
  contest_free(&p.contest);
  return status;
}
