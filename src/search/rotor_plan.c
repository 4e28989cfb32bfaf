/* The planner `rotor`: stages with their options in slots, the tables, and the internal budget whose schedule
 * the simulator finds cheapest within the real one. */
#include "search/rotor_plan.h"

#include <math.h>
#include <string.h>

#include "search/chain_plan.h"
#include "search/rotor.h"
#include "step/simulate.h"
#include "step/tuning.h"

/* Options of one kind of stage in one mode, in slots, without those that others dominate. */
struct choices {
  struct rotor_option *options;
  struct rotor_leaf *leaves;
  int32_t *option_of, *leaf_of; /* to the stage's own numbers */
  int32_t option_count, leaf_count;
};

struct kind {
  int32_t stage; /* one of the kind */
  struct choices modes[STAGE_MODES];
};

struct rotor_plan {
  struct chain_plan plan;
  struct region region;
  double slot;        /* bytes */
  int32_t peak_slack; /* slots */
  struct rotor_stage *stages;
  struct kind *kinds;
  int32_t kind_count;
  chain_operations operations;
};

/* ---- Kinds ---- */

/* Returns true if another option costs and keeps no more. Its peaks may be a little higher: they seldom
 * bind. */
static bool option_dominated(const struct rotor_option *options, int32_t count, const struct rotor_option *o,
                             int32_t slack) {
  for (int32_t i = 0; i < count; i++)
    if (options[i].kept <= o->kept && options[i].forward_peak <= o->forward_peak + slack &&
        options[i].backward_peak <= o->backward_peak + slack && options[i].cost <= o->cost)
      return true;
  return false;
}

static bool leaf_dominated(const struct rotor_leaf *leaves, int32_t count, const struct rotor_leaf *l) {
  for (int32_t i = 0; i < count; i++)
    if (leaves[i].peak <= l->peak && leaves[i].cost <= l->cost) return true;
  return false;
}

static void fill_choices(const struct rotor_plan *p, const struct stage_mode *mode, uint64_t passing,
                         struct choices *c) {
  c->option_count = c->leaf_count = 0;
  for (int32_t i = 0; i < (int32_t)mode->options.count; i++) {
    const struct stage_option *from = &mode->options.data[i];
    const struct rotor_option option = {
        rotor_slots(p->slot, from->kept_bytes), rotor_slots(p->slot, from->forward_peak),
        rotor_slots(p->slot, from->backward_peak + passing), (float)(from->again_cost + from->backward_cost)};
    if (!option_dominated(c->options, c->option_count, &option, p->peak_slack)) {
      c->option_of[c->option_count] = i;
      c->options[c->option_count++] = option;
    }
    const struct rotor_leaf leaf = {rotor_slots(p->slot, from->leaf_peak + passing),
                                    (float)(from->make_cost + from->backward_cost)};
    if (!leaf_dominated(c->leaves, c->leaf_count, &leaf)) {
      c->leaf_of[c->leaf_count] = i;
      c->leaves[c->leaf_count++] = leaf;
    }
  }
}

static neap_status create_kind(struct rotor_plan *p, int32_t s) {
  struct kind *kind = &p->kinds[p->kind_count++];
  kind->stage = s;
  for (int32_t mode = 0; mode < STAGE_MODES; mode++) {
    struct choices *c = &kind->modes[mode];
    const size_t options = chain_plan_stage(&p->plan, s)->modes[mode].options.count;
    c->options = region_alloc(&p->region, options, sizeof *c->options);
    c->leaves = region_alloc(&p->region, options, sizeof *c->leaves);
    c->option_of = region_alloc(&p->region, options, sizeof *c->option_of);
    c->leaf_of = region_alloc(&p->region, options, sizeof *c->leaf_of);
    RETURN_IF(!c->options || !c->leaves || !c->option_of || !c->leaf_of, NEAP_OUT_OF_MEMORY,
              "rotor: out of memory");
  }
  return NEAP_OK;
}

/* Finds the kinds: stages of one class have one kind if the same number of bytes passes them. */
static neap_status find_kinds(struct rotor_plan *p) {
  const struct chain *chain = &p->plan.chain;
  p->stages = region_alloc(&p->region, (size_t)chain->stage_count, sizeof *p->stages);
  p->kinds = region_alloc(&p->region, (size_t)chain->stage_count, sizeof *p->kinds);
  RETURN_IF(p->stages == NULL || p->kinds == NULL, NEAP_OUT_OF_MEMORY, "rotor: out of memory");
  p->kind_count = 0;
  for (int32_t s = 0; s < chain->stage_count; s++) {
    int32_t k = 0;
    for (; k < p->kind_count; k++) {
      const struct chain_stage *other = &chain->stages[p->kinds[k].stage];
      if (other->class_id == chain->stages[s].class_id &&
          other->passing_bytes == chain->stages[s].passing_bytes)
        break;
    }
    if (k == p->kind_count) TRY(create_kind(p, s));
    p->stages[s].kind = k;
  }
  return NEAP_OK;
}

static void fill_stages(struct rotor_plan *p) {
  for (int32_t s = 0; s < p->plan.chain.stage_count; s++) {
    const struct stage *stage = chain_plan_stage(&p->plan, s);
    const struct chain_stage *place = &p->plan.chain.stages[s];
    struct rotor_stage *to = &p->stages[s];
    struct kind *kind = &p->kinds[to->kind];
    to->input = rotor_slots(p->slot, stage->input_bytes);
    to->gradient = rotor_slots(p->slot, place->gradient_bytes);
    for (int32_t mode = 0; mode < STAGE_MODES; mode++) {
      const struct stage_mode *from = &stage->modes[mode];
      struct choices *c = &kind->modes[mode];
      if (kind->stage == s) fill_choices(p, from, place->passing_bytes, c);
      to->modes[mode] = (struct rotor_mode){.held = rotor_slots(p->slot, from->held_bytes),
                                            .forward_peak = rotor_slots(p->slot, from->forward_peak),
                                            .forward_cost = (float)from->forward_cost,
                                            .option_count = c->option_count,
                                            .leaf_count = c->leaf_count,
                                            .options = c->options,
                                            .leaves = c->leaves};
    }
  }
}

/* ---- The size of a slot ---- */

static double rounding(double slot, uint64_t bytes) {
  return fabs((double)rotor_slots(slot, bytes) * slot - (double)bytes);
}

/* Chooses the slot. Sizes are often multiples of a common one: of slots up to a fifth smaller, takes the one
 * that loses least. */
static double choose_slot(const struct rotor_plan *p, double largest) {
  double best = largest, least = INFINITY;
  for (int i = 0; i < 64; i++) {
    const double slot = largest / (1 + 0.2 * i / 64);
    double lost = 0;
    for (int32_t s = 0; s < p->plan.chain.stage_count; s++) {
      const struct stage *stage = chain_plan_stage(&p->plan, s);
      lost += rounding(slot, stage->input_bytes) + rounding(slot, stage->modes[1].held_bytes) +
              rounding(slot, stage->modes[0].options.data[0].kept_bytes);
    }
    if (lost < least) least = lost, best = slot;
  }
  return best;
}

/* ---- Schedules ---- */

/* Translates choices of the tables to the stages' own. */
static void name_options(struct rotor_plan *p) {
  for (size_t i = 0; i < p->operations.count; i++) {
    struct chain_operation *o = &p->operations.data[i];
    const struct choices *c = &p->kinds[p->stages[o->stage].kind].modes[o->mode];
    if (o->action == CHAIN_LEAF)
      o->choice = c->leaf_of[o->choice];
    else if (o->action != CHAIN_FORWARD)
      o->choice = c->option_of[o->choice];
  }
}

/* Makes the schedule for one internal budget. */
static neap_status try_slots(struct rotor_plan *p, const struct rotor *rotor, int32_t slots, bool *fits) {
  struct simulation score;
  p->operations.count = 0;
  TRY(rotor_trace(rotor, slots, &p->operations));
  name_options(p);
  TRY(chain_score(&p->plan, &p->operations, &score));
  *fits = score.peak_bytes <= p->plan.budget;
  return NEAP_OK;
}

/* Tries `count` internal budgets from `from` on, each with another cost than the one before it. */
static neap_status try_neighbours(struct rotor_plan *p, const struct rotor *rotor, int32_t from, int32_t way,
                                  int32_t least, int32_t most, int32_t count) {
  bool fits;
  for (int32_t m = from + way; m >= least && m <= most && count > 0; m += way) {
    if (rotor_cost(rotor, m) == rotor_cost(rotor, m - way)) continue;
    TRY(try_slots(p, rotor, m, &fits));
    count--;
  }
  return NEAP_OK;
}

/* Tries the largest internal budget that fits, by bisection, and others near it, as peaks do not quite rise
 * with it. */
static neap_status search_budget(struct rotor_plan *p, const struct rotor *rotor, int32_t slots) {
  int32_t least = 0;
  while (least <= slots && rotor_cost(rotor, least) == INFINITY) least++;
  if (least > slots) return NEAP_OK;
  int32_t low = least - 1, high = slots + 1; /* low fits or is below all, high does not or is above all */
  while (high - low > 1) {
    const int32_t middle = low + (high - low) / 2;
    bool fits;
    TRY(try_slots(p, rotor, middle, &fits));
    if (fits && p->plan.effort == EFFORT_QUICK) return NEAP_OK;
    if (fits)
      low = middle;
    else
      high = middle;
  }
  const int32_t share = ROTOR_TRIAL_NODES / (p->plan.chain.step->node_count + 1),
                count = share > ROTOR_TRIALS ? share : ROTOR_TRIALS;
  TRY(try_neighbours(p, rotor, low, 1, least, slots, count));
  return try_neighbours(p, rotor, low, -1, least, slots, p->plan.effort == EFFORT_QUICK ? 0 : count);
}

/* The fineness of the search: slots of the budget, and sets of kept values that are tried for a class of
 * stages. */
struct fineness {
  int32_t slots, sets;
};
static const struct fineness fine = {ROTOR_SLOTS, ROTOR_SETS}, coarse = {ROTOR_SLOTS_QUICK, ROTOR_SETS_QUICK};

/* Chooses more slots if they cost little. */
static int32_t choose_slots(const struct rotor_plan *p, struct fineness fineness) {
  const double work = rotor_work(p->stages, p->plan.chain.stage_count, STAGE_MODES, 1);
  if (p->plan.effort == EFFORT_QUICK || work * fineness.slots >= ROTOR_SMALL_WORK) return fineness.slots;
  return work * ROTOR_MOST_SLOTS <= ROTOR_SMALL_WORK ? ROTOR_MOST_SLOTS : (int32_t)(ROTOR_SMALL_WORK / work);
}

static neap_status solve(struct rotor_plan *p, struct fineness fineness) {
  struct simulation all;
  TRY(chain_keep_all(&p->plan, &all));
  if (all.peak_bytes <= p->plan.budget) return NEAP_OK;
  const uint64_t values = p->plan.budget - p->plan.chain.step->resident_bytes;
  const int32_t wanted = choose_slots(p, fineness);
  p->slot = choose_slot(p, (double)values / wanted + 1e-9);
  p->peak_slack = wanted > fineness.slots ? 0 : wanted / ROTOR_PEAK_SHARE;
  fill_stages(p);
  const int32_t slots = (int32_t)((double)values / p->slot * ROTOR_BEYOND);
  struct rotor *rotor;
  TRY(rotor_create(p->stages, p->plan.chain.stage_count, STAGE_MODES, slots, &rotor));
  const neap_status status = search_budget(p, rotor, slots);
  rotor_free(rotor);
  return status;
}

/* Prepares the chain; if its tables would take too long, it is cut into fewer stages. */
static neap_status prepare(struct rotor_plan *p, const neap_step *step, uint64_t budget,
                           const struct planner_options *options, struct fineness fineness,
                           struct schedule *out) {
  for (int32_t most = ROTOR_MOST_STAGES;; most = p->plan.chain.stage_count / 2) {
    chain_plan_free(&p->plan);
    region_free(&p->region);
    TRY(chain_plan_create(step, budget, options, most, fineness.sets, out, &p->plan));
    TRY(find_kinds(p));
    p->slot = 1;
    fill_stages(p);
    const int32_t stages = p->plan.chain.stage_count;
    if (stages < 8 || rotor_work(p->stages, stages, STAGE_MODES, (int32_t)(fineness.slots * ROTOR_BEYOND)) <=
                          ROTOR_MOST_WORK)
      return NEAP_OK;
  }
}

/* Searches. Effort must not change which budgets are met, so the quick search follows a fine one that finds
 * nothing. */
static neap_status search(struct rotor_plan *p, const neap_step *step, uint64_t budget,
                          const struct planner_options *options, struct schedule *out) {
  if (options->effort != EFFORT_QUICK) {
    TRY(prepare(p, step, budget, options, fine, out));
    TRY(solve(p, fine));
    if (p->plan.any && p->plan.score.peak_bytes <= budget) return NEAP_OK;
  }
  const bool any = p->plan.any;
  const struct simulation score = p->plan.score;
  TRY(prepare(p, step, budget, options, coarse, out));
  p->plan.any = any;
  p->plan.score = score;
  return solve(p, coarse);
}

neap_status plan_rotor(const neap_step *step, uint64_t budget, const struct planner_options *options,
                       struct schedule *out) {
  RETURN_IF(budget < step->resident_bytes, NEAP_OVER_BUDGET,
            "rotor: the resident tensors alone need %llu bytes", (unsigned long long)step->resident_bytes);
  struct rotor_plan p = {0};
  neap_status status = search(&p, step, budget, options, out);
  if (status == NEAP_OK) status = chain_verdict(&p.plan, "rotor");
  vector_free(&p.operations);
  region_free(&p.region);
  chain_plan_free(&p.plan);
  return status;
}
