#include "plan/repair.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/parallel.h"
#include "base/stop.h"
#include "search/search.h"
#include "step/planner.h"
#include "step/simulate.h"

/* ---- One schedule ---- */

static bool is_quick(const struct demand *demand) { return demand->effort == EFFORT_QUICK; }

static uint64_t live_of(const struct neap_plan *plan) { return plan->live_peak_bytes - plan->resident_bytes; }

static uint64_t tight_above(uint64_t live) { return live + live / TIGHTNESS; }

/* Returns the bytes of arena that are enough for this number of live bytes. */
static uint64_t enough_for(const struct demand *demand, uint64_t live) {
  const uint64_t tight = tight_above(live);
  return demand->goal != GOAL_FIT && tight < demand->capacity ? tight : demand->capacity;
}

neap_status plan_of_schedule(const neap_step *step, const struct schedule *schedule,
                             const struct demand *demand, struct neap_plan **out) {
  struct simulation score;
  struct instance *instances = NULL;
  int32_t count = 0;
  TRY(simulate_instances(step, schedule->nodes.data, (int32_t)schedule->nodes.count, &score, &instances,
                         &count));
  const struct layout_limits limits = {.enough = enough_for(demand, score.peak_bytes - step->resident_bytes),
                                       .closest = !is_quick(demand),
                                       .effort = demand->layout};
  struct layout layout = {0};
  struct placed *placed = malloc(((size_t)count + 1) * sizeof *placed);
  neap_status status = placed == NULL ? neap_fail(NEAP_OUT_OF_MEMORY, "plan: out of memory")
                                      : layout_instances(instances, count, &limits, &layout);
  if (status == NEAP_OK) {
    for (int32_t i = 0; i < count; i++)
      placed[i] =
          (struct placed){instances[i].at, instances[i].tensor, layout.offsets[i], instances[i].bytes};
    const struct neap_plan draft = {.graph = step->name,
                                    .planner = demand->planner,
                                    .length = (int32_t)schedule->nodes.count,
                                    .schedule = schedule->nodes.data,
                                    .instance_count = count,
                                    .instances = placed,
                                    .resident_bytes = step->resident_bytes,
                                    .live_peak_bytes = score.peak_bytes,
                                    .arena_bytes = layout.arena_bytes,
                                    .cost = score.cost,
                                    .base_cost = step->base_cost,
                                    .recomputed = score.recomputed,
                                    .proven_optimal = score.recomputed == 0};
    status = plan_create(&draft, out);
  }
  free(layout.offsets);
  free(placed);
  free(instances);
  return status;
}

/* ---- Schedules near it ---- */

struct repair {
  const neap_step *step;
  neap_step padded; /* a copy of it, with more workspace at nodes where a layout exceeded the bytes that are
                       enough */
  const struct demand *demand;
  enum goal goal; /* that was asked for; of a large step less is demanded */
  const struct schedule *start;
  struct neap_plan *best;
  int laid_out; /* layouts so far */
  int in_vain;  /* those since the last that was better */
  bool slack;   /* of those that were to be tight one was far from it: that is asked no more */
  int64_t work; /* of a piece of an attempt, in units of the timeline */
  double cost;  /* that is near enough to the start's, which is well searched */
};

static bool fits(const struct repair *r, const struct neap_plan *plan) {
  return plan->arena_bytes <= r->demand->capacity;
}

static bool is_tight(const struct repair *r, const struct neap_plan *plan) {
  return r->demand->goal == GOAL_FIT || r->slack || plan->arena_bytes <= tight_above(live_of(plan));
}

static bool suits(const struct repair *r, const struct neap_plan *plan) {
  return fits(r, plan) && (is_quick(r->demand) || is_tight(r, plan));
}

/* Returns true if the repair ends with this plan and this number of layouts in vain: no more is asked, or
 * more work would not help. */
static bool ends_with(const struct repair *r, const struct neap_plan *best, int in_vain) {
  if (fits(r, best) && clock_is_past(r->demand->deadline)) return true;
  if (in_vain >= (fits(r, best) ? REPAIR_PATIENCE_TIGHT : REPAIR_PATIENCE)) return true;
  return suits(r, best) && (is_quick(r->demand) || best->cost <= r->cost);
}

static bool done(const struct repair *r) { return ends_with(r, r->best, r->in_vain); }

/* Returns true if this costs more than a tight layout is worth (REPAIR_TIGHT_WORTH). */
static bool is_costlier(double cost, const struct neap_plan *plan) {
  return cost > plan->cost * REPAIR_TIGHT_WORTH;
}

static bool better(const struct repair *r, const struct neap_plan *a, const struct neap_plan *b) {
  if (fits(r, a) != fits(r, b)) return fits(r, a);
  if (!fits(r, a)) return a->arena_bytes < b->arena_bytes;
  if (is_costlier(a->cost, b) || is_costlier(b->cost, a)) return a->cost < b->cost;
  if (is_tight(r, a) != is_tight(r, b)) return is_tight(r, a);
  return a->cost < b->cost;
}

/* Leaves less memory, by up to half the excess, to values of the nodes that run where a plan exceeds the
 * budget; the rest may then fit elsewhere. */
static neap_status pad(struct repair *r, const struct neap_plan *plan) {
  struct simulation score;
  struct instance *instances = NULL;
  int32_t count = 0;
  const uint64_t enough = enough_for(r->demand, live_of(plan));
  TRY(simulate_instances(r->step, plan->schedule, plan->length, &score, &instances, &count));
  for (int32_t i = 0; i < count; i++) {
    const uint64_t top = plan->instances[i].offset + plan->instances[i].bytes;
    if (top <= enough) continue;
    const uint64_t half = (top - enough) / 2,
                   more = half < enough / REPAIR_PAD_SHARE ? half : enough / REPAIR_PAD_SHARE;
    for (int32_t at = instances[i].at; at <= instances[i].last; at++) {
      const int32_t node = plan->schedule[at];
      if (r->padded.nodes[node].workspace < r->step->nodes[node].workspace + more)
        r->padded.nodes[node].workspace = r->step->nodes[node].workspace + more;
    }
  }
  free(instances);
  return NEAP_OK;
}

/* ---- Attempts ---- */

enum { LAYOUTS = 2, ATTEMPTS = 2 };

/* A search from a schedule near the current one. It sees the repair as it was at its start, so attempts in
 * parallel do the same as one after the other. */
struct attempt {
  const struct repair *repair;
  const neap_step *step;
  const struct schedule *start;
  uint64_t limit; /* bytes of values */
  bool little;    /* it does with little less than the start */
  uint32_t seed;
  int layouts;                      /* at most, up to LAYOUTS */
  struct neap_plan *plans[LAYOUTS]; /* the plans that it made, in order */
  int count;
  const struct neap_plan *best; /* of those, and the repair's */
  int in_vain;                  /* as in the repair */
  bool slack;                   /* the same */
  struct schedule last;         /* that was laid out */
};

static bool is_same(const struct schedule *a, const struct schedule *b) {
  return a->nodes.count == b->nodes.count &&
         memcmp(a->nodes.data, b->nodes.data, a->nodes.count * sizeof *a->nodes.data) == 0;
}

/* Replaces `*plan` by a tight plan of the schedule, if it finds one. */
static neap_status tighten(struct attempt *a, const struct schedule *schedule, struct neap_plan **plan) {
  const struct repair *r = a->repair;
  struct neap_plan *tight = NULL;
  TRY(plan_of_schedule(r->step, schedule, r->demand, &tight));
  if (better(r, tight, *plan)) swap_plans(plan, &tight);
  neap_plan_free(tight);
  a->slack = (*plan)->arena_bytes > live_of(*plan) + live_of(*plan) / REPAIR_SLACK_SHARE;
  return NEAP_OK;
}

/* Returns true if a schedule of this cost is worth a layout. Sums of costs in another order differ in the
 * last digits. */
static bool may_help(const struct attempt *a, double cost) {
  const struct repair *r = a->repair;
  if (suits(r, a->best) && cost >= a->best->cost * (1 - 1e-9)) return false;
  return !fits(r, a->best) || !is_costlier(cost, a->best);
}

/* Lays out within the capacity first: a plan that is not tight may still be the best. */
static neap_status lay_out(struct attempt *a, const struct schedule *schedule) {
  const struct repair *r = a->repair;
  struct neap_plan *plan = NULL;
  struct demand loose = *r->demand;
  loose.goal = GOAL_FIT;
  neap_status status = plan_of_schedule(r->step, schedule, &loose, &plan);
  if (status == NEAP_OK && fits(r, plan) && !is_tight(r, plan) && !a->slack && better(r, plan, a->best))
    status = tighten(a, schedule, &plan);
  if (status != NEAP_OK) {
    neap_plan_free(plan);
    return status;
  }
  a->plans[a->count++] = plan;
  a->in_vain++;
  if (better(r, plan, a->best)) {
    a->best = plan;
    a->in_vain = 0;
  }
  return NEAP_OK;
}

static neap_status consider(struct attempt *a, struct search *search) {
  struct schedule schedule = {0};
  if (search->timeline.excess > 0 || !may_help(a, search->timeline.cost)) return NEAP_OK;
  neap_status status = search_result(search, &schedule);
  const bool laid_out = status == NEAP_OK && is_same(&schedule, &a->last);
  schedule_free(&a->last);
  a->last = schedule;
  if (status == NEAP_OK && !laid_out) status = lay_out(a, &a->last);
  return status;
}

/* Returns true for an attempt with little less memory, if its last layout shows that this is not enough. */
static bool is_hopeless(const struct attempt *a) {
  const struct demand *demand = a->repair->demand;
  if (is_quick(demand) || !a->little || a->count == 0 || fits(a->repair, a->best)) return false;
  return a->plans[a->count - 1]->arena_bytes > demand->capacity + demand->capacity / REPAIR_HOPELESS_SHARE;
}

/* Returns true if the schedule costs REPAIR_DEAR more than the start, which is well searched, and so can
 * become cheaper. */
static bool is_dear(const struct repair *r, const struct search *search) {
  return search->timeline.excess == 0 && search->timeline.cost > r->cost + REPAIR_DEAR * r->step->base_cost;
}

/* Searches again from lower prices if little is left over the limit. */
static neap_status mend(const struct repair *r, struct search *search) {
  int64_t before = INT64_MAX;
  while (search->timeline.excess > 0 && search->timeline.excess <= before / REPAIR_MEND_SHARE) {
    before = search->timeline.excess;
    TRY(search_mend(search, r->work));
  }
  return NEAP_OK;
}

/* Searches in pieces. Each leaves another schedule, which is laid out unless it is still becoming cheaper. */
static neap_status run_search(struct attempt *a, struct search *search) {
  const struct repair *r = a->repair;
  TRY(mend(r, search));
  int layouts = 0, longer = is_quick(r->demand) ? 0 : REPAIR_LONGER;
  for (int left = 2 * a->layouts; left > 0 && layouts < a->layouts; left--) {
    const double cost = search->timeline.cost;
    const int64_t excess = search->timeline.excess;
    if (ends_with(r, a->best, a->in_vain) || is_hopeless(a)) break;
    TRY(search_rebuild(search, r->work, 0, false));
    if (search->timeline.excess > excess / 2) break; /* the limit is too low for it */
    if (left > 1 && search->timeline.cost < cost * REPAIR_SETTLED) continue;
    if (longer > 0 && is_dear(r, search)) {
      longer--;
      left++;
      continue;
    }
    TRY(consider(a, search));
    layouts++;
  }
  return NEAP_OK;
}

static neap_status run_attempt(struct attempt *a) {
  struct search *search = NULL;
  a->best = a->repair->best;
  a->in_vain = a->repair->in_vain;
  a->slack = a->repair->slack;
  neap_status status = search_create(a->step, a->limit, a->start, a->seed, &search);
  if (status == NEAP_OK) status = run_search(a, search);
  schedule_free(&a->last);
  search_free(search);
  return status;
}

/* Takes ownership of a plan: keeps it if it is the best, and learns from it. */
static neap_status take(struct repair *r, struct neap_plan *plan) {
  const neap_status status = suits(r, plan) ? NEAP_OK : pad(r, plan);
  r->laid_out++;
  r->in_vain++;
  if (better(r, plan, r->best)) {
    swap_plans(&r->best, &plan);
    r->in_vain = 0;
  }
  neap_plan_free(plan);
  return status;
}

static neap_status run_attempts(struct repair *r, struct attempt *attempts, int count) {
  struct ending ended[ATTEMPTS];
#pragma omp parallel for schedule(dynamic, 1) copyin(stop_request) num_threads(threads_for(count))
  for (int i = 0; i < count; i++) ending_keep(&ended[i], run_attempt(&attempts[i]));
  neap_status status = status_of_tasks(ended, count);
  for (int i = 0; i < count; i++) r->slack = r->slack || attempts[i].slack;
  for (int i = 0; i < count; i++)
    for (int k = 0; k < attempts[i].count; k++) {
      const neap_status taken = take(r, attempts[i].plans[k]);
      if (status == NEAP_OK) status = taken;
    }
  return status;
}

/* ---- Which attempts ---- */

/* Goes on from the best plan: with its live bytes or, if it does not fit, with less by a quarter of the bytes
 * that its layout lacks and by all of them. Each round has other random numbers. */
static neap_status go_on(struct repair *r, int round) {
  struct schedule start = {0};
  struct attempt attempts[ATTEMPTS];
  const uint64_t live = live_of(r->best),
                 lacks = fits(r, r->best) ? 0 : r->best->arena_bytes - r->demand->capacity;
  neap_status status = schedule_copy(&start, r->best->schedule, (size_t)r->best->length);
  for (int k = 0; k < ATTEMPTS; k++) {
    const uint64_t cut = k == 0 ? lacks / 4 : lacks;
    attempts[k] = (struct attempt){.repair = r,
                                   .step = r->step,
                                   .start = &start,
                                   .limit = cut < live ? live - cut : live,
                                   .seed = (uint32_t)(round * ATTEMPTS + k) + 1,
                                   .layouts = LAYOUTS};
  }
  if (status == NEAP_OK && !done(r)) status = run_attempts(r, attempts, ATTEMPTS);
  schedule_free(&start);
  return status;
}

/* Lays out the planner's own schedules with this effort; the first one that is good enough is taken. */
static neap_status try_schedules(struct repair *r, const struct schedule *const *schedules, int count,
                                 enum layout_effort effort) {
  enum { MOST = 2 };
  struct neap_plan *plans[MOST] = {NULL, NULL};
  struct ending ended[MOST];
  struct demand demand = *r->demand;
  demand.layout = effort;
#pragma omp parallel for schedule(dynamic, 1) copyin(stop_request) num_threads(threads_for(count))
  for (int i = 0; i < count; i++)
    ending_keep(&ended[i], plan_of_schedule(r->step, schedules[i], &demand, &plans[i]));
  for (int i = 0; i < count; i++) {
    const bool is_start = schedules[i] == r->start;
    if (plans[i] != NULL && !done(r) && (is_start || fits(r, plans[i])) && better(r, plans[i], r->best)) {
      swap_plans(&r->best, &plans[i]);
      r->start = schedules[i];
    }
    neap_plan_free(plans[i]);
  }
  return status_of_tasks(ended, count);
}

/* The planner's schedule is better searched than those near it. So if its layout nearly fits, or in a large
 * step, it and then the runner-up get more work. The layout of a large step takes a second and uses one
 * thread (layout.c): there the runner-up is first tried without more work, and then both at once. */
static neap_status try_again(struct repair *r, const struct schedule *runner_up, bool large) {
  const struct schedule *const both[] = {r->start, runner_up};
  const int count = runner_up->nodes.count > 0 ? 2 : 1;
  if (large && count > 1) TRY(try_schedules(r, &both[1], 1, LAYOUT_USUAL));
  if (large) return done(r) ? NEAP_OK : try_schedules(r, both, count, LAYOUT_LARGE);
  for (int i = 0; i < count && !done(r); i++) TRY(try_schedules(r, &both[i], 1, LAYOUT_LARGE));
  return NEAP_OK;
}

/* Tries schedules near the start, two at a time: one leaves more room where layouts stick out, the other
 * leaves as much everywhere. Then goes on from the best. */
static neap_status try_near(struct repair *r) {
  /* Thousandths of the memory to do without, or as much as the layout lacks, in eighths. */
  static const uint64_t cuts[] = {1, 3, 8, 16}, eighths[] = {0, 1, 4, 8};
  enum { COUNT = sizeof cuts / sizeof *cuts };
  const int further = is_quick(r->demand) ? REPAIR_FURTHER_QUICK : REPAIR_FURTHER;
  const uint64_t capacity = r->demand->capacity, live = live_of(r->best);
  const uint64_t lacks = fits(r, r->best) ? 0 : r->best->arena_bytes - capacity;
  TRY(pad(r, r->best));
  for (int i = 0; i < COUNT && !done(r); i += ATTEMPTS) {
    struct attempt attempts[ATTEMPTS];
    const int laid_out = r->laid_out;
    int count = 0;
    for (int k = i; k < i + ATTEMPTS; k++) {
      const uint64_t least = capacity / 1000 * cuts[k], share = lacks / 8 * eighths[k];
      const uint64_t cut = share > least ? share : least, most = k % 2 ? live : capacity;
      if (cut < most)
        attempts[count++] = (struct attempt){.repair = r,
                                             .step = k % 2 ? r->step : &r->padded,
                                             .start = r->start,
                                             .limit = most - cut,
                                             .little = i == 0,
                                             .seed = (uint32_t)k + 1,
                                             .layouts = LAYOUTS};
    }
    TRY(run_attempts(r, attempts, count));
    if (fits(r, r->best) && r->laid_out == laid_out) break; /* too dear, and less memory is more expensive */
  }
  for (int i = 0; i < further && !done(r) && !fits(r, r->best); i++) TRY(go_on(r, i));
  return fits(r, r->best) ? go_on(r, 0) : NEAP_OK;
}

/* Returns the work for some hundredths of a second. */
static int64_t work_for(int64_t nodes) {
  return (nodes * REPAIR_WORK_EACH < REPAIR_WORK_MOST ? nodes * REPAIR_WORK_EACH : REPAIR_WORK_MOST) +
         nodes * REPAIR_WORK_EACH_MORE;
}

/* Takes the first plan that keeps the capacity, tight or not, for large steps, in which each takes long. */
static neap_status try_below(struct repair *r) {
  static const uint64_t cuts[] = {4, 8, 16, 32};
  const int count = (int)(sizeof cuts / sizeof *cuts);
  const uint64_t most = r->demand->capacity;
  for (int i = 0; i < count && !done(r); i++) {
    struct attempt attempt = {.repair = r,
                              .step = r->step,
                              .start = r->start,
                              .limit = most - most / 1000 * cuts[i],
                              .seed = (uint32_t)i + 1,
                              .layouts = 1};
    TRY(run_attempts(r, &attempt, 1));
  }
  return NEAP_OK;
}

/* Returns true if the layout lacks next to nothing. The schedule then uses all of its memory, so more work on
 * the layout hardly ever helps, while a schedule with a thousandth less costs next to nothing more. */
static bool is_cheaper_with_less(const struct repair *r) {
  const uint64_t capacity = r->demand->capacity, needed = r->best->arena_bytes;
  return r->goal == GOAL_NEAR && needed > capacity && needed <= capacity + capacity / REPAIR_LITTLE_SHARE;
}

/* Repairs a first layout that is not as asked for. */
static neap_status repair(struct repair *r, const struct schedule *runner_up, bool large) {
  struct region region = {0};
  const bool near = large || nearly_fits(r->best->arena_bytes, r->demand->capacity);
  if (runner_up != NULL && near && !is_cheaper_with_less(r)) TRY(try_again(r, runner_up, large));
  const bool late = clock_is_past(r->demand->deadline);
  if (done(r) || (r->goal == GOAL_NEAR && !late && near && !fits(r, r->best))) return NEAP_OK;
  r->padded.nodes = region_copy(&region, r->step->nodes, (size_t)r->step->node_count, sizeof *r->step->nodes);
  const neap_status status = r->padded.nodes == NULL ? neap_fail(NEAP_OUT_OF_MEMORY, "plan: out of memory")
                             : large                 ? try_below(r)
                                                     : try_near(r);
  region_free(&region);
  return status;
}

/* Repairs the best plan so far and replaces it by a better one. */
static neap_status repair_plan(const neap_step *step, const struct schedule *schedule,
                               const struct schedule *runner_up, const struct demand *demand,
                               struct neap_plan **plan) {
  const bool large = step->node_count > LARGE_STEP;
  struct demand first_fit = *demand; /* in a large step the first plan that fits will do */
  if (large) first_fit.effort = EFFORT_QUICK, first_fit.goal = GOAL_FIT;
  struct repair r = {.step = step,
                     .padded = *step,
                     .demand = &first_fit,
                     .goal = demand->goal,
                     .start = schedule,
                     .best = *plan,
                     .work = work_for(step->node_count),
                     .cost = (*plan)->cost + step->base_cost * REPAIR_NEAR_COST};
  const neap_status status = suits(&r, r.best) ? NEAP_OK : repair(&r, runner_up, large);
  *plan = r.best;
  return status;
}

neap_status plan_by_repair(const neap_step *step, const struct schedule *schedule,
                           const struct schedule *runner_up, const struct demand *demand,
                           struct neap_plan **out) {
  struct neap_plan *plan = NULL;
  TRY(plan_of_schedule(step, schedule, demand, &plan));
  const neap_status status = repair_plan(step, schedule, is_quick(demand) ? NULL : runner_up, demand, &plan);
  if (status == NEAP_OK)
    *out = plan;
  else
    neap_plan_free(plan);
  return status;
}

neap_status plan_repair_on(const neap_step *step, const struct demand *demand, struct neap_plan **plan) {
  struct schedule schedule = {0}, no_runner_up = {0};
  neap_status status = schedule_copy(&schedule, (*plan)->schedule, (size_t)(*plan)->length);
  if (status == NEAP_OK) status = repair_plan(step, &schedule, &no_runner_up, demand, plan);
  schedule_free(&schedule);
  return status;
}

neap_status plan_tighten(const neap_step *step, bool least, struct neap_plan **plan) {
  struct demand demand = {
      .planner = (*plan)->planner, .capacity = UINT64_MAX, .goal = GOAL_TIGHT, .layout = LAYOUT_LARGEST};
  struct schedule schedule = {0};
  struct neap_plan *tight = NULL;
  if ((*plan)->arena_bytes <= tight_above(live_of(*plan))) return NEAP_OK;
  if (least) demand.capacity = live_of(*plan);
  neap_status status = schedule_copy(&schedule, (*plan)->schedule, (size_t)(*plan)->length);
  if (status == NEAP_OK) status = plan_of_schedule(step, &schedule, &demand, &tight);
  if (status == NEAP_OK && tight->arena_bytes < (*plan)->arena_bytes) swap_plans(plan, &tight);
  neap_plan_free(tight);
  schedule_free(&schedule);
  return status;
}
