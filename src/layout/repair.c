#include "layout/repair.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "layout/layout.h"
#include "plan/planner.h"
#include "plan/search.h"

/* ---- One schedule ---- */

static uint64_t live_of(const struct neap_plan *plan) { return plan->peak_bytes - plan->resident_bytes; }

static uint64_t tight_above(uint64_t live) { return live + live / TIGHTNESS; }

/* Bytes of arena that will do where so much lives. */
static uint64_t enough_for(const struct demand *demand, uint64_t live) {
  const uint64_t tight = tight_above(live);
  return demand->tight && tight < demand->capacity ? tight : demand->capacity;
}

enum { THOROUGH = 4 }; /* times the usual work */

neap_status plan_of_schedule(const neap_step *step, const struct schedule *schedule,
                             const struct demand *demand, struct neap_plan **out) {
  struct simulation score;
  struct instance *instances = NULL;
  int32_t count = 0;
  TRY(simulate_instances(step, schedule->nodes.data, (int32_t)schedule->nodes.count, &score, &instances,
                         &count));
  struct layout layout = {0};
  struct placed *placed = malloc(((size_t)count + 1) * sizeof *placed);
  neap_status status =
      placed == NULL
          ? neap_fail(NEAP_OUT_OF_MEMORY, "plan: out of memory")
          : layout_instances(instances, count, enough_for(demand, score.peak_bytes - step->resident_bytes),
                             demand->thorough ? THOROUGH : 1, &layout);
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
                                    .peak_bytes = score.peak_bytes,
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
  neap_step padded; /* the same with more workspace where layouts stick out of the capacity */
  const struct demand *demand;
  const struct schedule *start;
  struct neap_plan *best;
  struct schedule last; /* that was laid out */
  int laid_out;         /* layouts so far */
  int in_vain;          /* those since the last that was better */
  int64_t work;         /* of a piece of an attempt, in units of the timeline */
  int layouts;          /* of an attempt */
  double cost;          /* that is near enough to the start's, which is well searched */
};

static bool fits(const struct repair *r, const struct neap_plan *plan) {
  return plan->arena_bytes <= r->demand->capacity;
}

static bool is_tight(const struct repair *r, const struct neap_plan *plan) {
  return !r->demand->tight || plan->arena_bytes <= tight_above(live_of(plan));
}

static bool suits(const struct repair *r, const struct neap_plan *plan) {
  return fits(r, plan) && (r->demand->quick || is_tight(r, plan));
}

/* Layouts in vain: while none fits, and while none is tight. */
enum { PATIENCE = 10, PATIENCE_TIGHT = 6 };

/* No more is asked, or it is no use. */
static bool done(const struct repair *r) {
  const double deadline = r->demand->deadline;
  if (deadline > 0 && fits(r, r->best) && clock_seconds() >= deadline) return true;
  if (r->in_vain >= (fits(r, r->best) ? PATIENCE_TIGHT : PATIENCE)) return true;
  return suits(r, r->best) && (r->demand->quick || r->best->cost <= r->cost);
}

/* Costs more than a tight layout is worth. */
static bool is_dearer(double cost, const struct neap_plan *plan) {
  static const double worth = 1.001;
  return cost > plan->cost * worth;
}

static bool better(const struct repair *r, const struct neap_plan *a, const struct neap_plan *b) {
  if (fits(r, a) != fits(r, b)) return fits(r, a);
  if (!fits(r, a)) return a->arena_bytes < b->arena_bytes;
  if (is_dearer(a->cost, b) || is_dearer(b->cost, a)) return a->cost < b->cost;
  if (is_tight(r, a) != is_tight(r, b)) return is_tight(r, a);
  return a->cost < b->cost;
}

/* Where a plan sticks out, the nodes that run there leave half as much less to values from now on: what
 * remains may fit elsewhere. */
static neap_status pad(struct repair *r, const struct neap_plan *plan) {
  enum { SHARE = 100 }; /* of what will do, and no more */
  struct simulation score;
  struct instance *instances = NULL;
  int32_t count = 0;
  const uint64_t enough = enough_for(r->demand, live_of(plan));
  TRY(simulate_instances(r->step, plan->schedule, plan->length, &score, &instances, &count));
  for (int32_t i = 0; i < count; i++) {
    const uint64_t top = plan->instances[i].offset + plan->instances[i].bytes;
    if (top <= enough) continue;
    const uint64_t half = (top - enough) / 2, more = half < enough / SHARE ? half : enough / SHARE;
    for (int32_t at = instances[i].at; at <= instances[i].last; at++) {
      const int32_t node = plan->schedule[at];
      if (r->padded.nodes[node].workspace < r->step->nodes[node].workspace + more)
        r->padded.nodes[node].workspace = r->step->nodes[node].workspace + more;
    }
  }
  free(instances);
  return NEAP_OK;
}

static bool is_same(const struct schedule *a, const struct schedule *b) {
  return a->nodes.count == b->nodes.count &&
         memcmp(a->nodes.data, b->nodes.data, a->nodes.count * sizeof *a->nodes.data) == 0;
}

/* Puts a tight plan of the schedule in the place of `*plan`, where it finds one. */
static neap_status tighten(const struct repair *r, const struct schedule *schedule, struct neap_plan **plan) {
  struct neap_plan *tight = NULL;
  TRY(plan_of_schedule(r->step, schedule, r->demand, &tight));
  if (better(r, tight, *plan)) {
    struct neap_plan *old = *plan;
    *plan = tight;
    tight = old;
  }
  neap_plan_free(tight);
  return NEAP_OK;
}

/* Lays out the schedule that was found, unless it costs more than what is known to suit. */
static neap_status consider(struct repair *r, const struct search *search) {
  struct schedule schedule = {0};
  struct neap_plan *plan = NULL;
  if (search->timeline.excess > 0) return NEAP_OK;
  /* Costs added in another order differ in the last digits. */
  if (suits(r, r->best) && search->timeline.cost >= r->best->cost * (1 - 1e-9)) return NEAP_OK;
  if (fits(r, r->best) && is_dearer(search->timeline.cost, r->best)) return NEAP_OK;
  neap_status status = search_result(search, &schedule);
  if (status == NEAP_OK && is_same(&schedule, &r->last)) {
    schedule_free(&schedule);
    return NEAP_OK;
  }
  /* Within the capacity first: what is not tight may still be the best. */
  struct demand loose = *r->demand;
  loose.tight = false;
  if (status == NEAP_OK) status = plan_of_schedule(r->step, &schedule, &loose, &plan);
  if (status == NEAP_OK && !is_tight(r, plan) && better(r, plan, r->best))
    status = tighten(r, &schedule, &plan);
  schedule_free(&r->last);
  r->last = schedule;
  if (status == NEAP_OK && !suits(r, plan)) status = pad(r, plan);
  if (status != NEAP_OK) {
    neap_plan_free(plan);
    return status;
  }
  r->laid_out++;
  r->in_vain++;
  if (better(r, plan, r->best)) {
    struct neap_plan *old = r->best;
    r->best = plan;
    plan = old;
    r->in_vain = 0;
  }
  neap_plan_free(plan);
  return NEAP_OK;
}

/* One search within the limit, in pieces. Each leaves another schedule, which is laid out unless it is still
 * becoming cheaper. */
static neap_status attempt(struct repair *r, const neap_step *step, uint64_t limit, uint32_t seed) {
  static const double settled = 0.99; /* of the cost of the piece before */
  struct search *search = malloc(sizeof *search);
  RETURN_IF_NULL(search);
  neap_status status = search_create(step, limit, r->start, seed, search);
  if (status == NEAP_OK && search->timeline.excess > 0) status = search_mend(search, r->work);
  for (int left = 2 * r->layouts, layouts = 0; left > 0 && layouts < r->layouts && !done(r); left--) {
    const double cost = search->timeline.cost;
    if (status == NEAP_OK) status = search_rebuild(search, r->work, 0, false);
    if (status != NEAP_OK) break;
    if (left > 1 && search->timeline.cost < cost * settled) continue;
    status = consider(r, search);
    layouts++;
  }
  search_free(search);
  free(search);
  return status;
}

/* Goes on from the best, with the memory that it lives on. */
static neap_status polish(struct repair *r) {
  enum { ROUNDS = 4 };
  struct search *search = calloc(1, sizeof *search);
  struct schedule schedule = {0};
  RETURN_IF_NULL(search);
  neap_status status = vector_reserve(&schedule.nodes, (size_t)r->best->length + 1);
  for (int32_t at = 0; status == NEAP_OK && at < r->best->length; at++)
    schedule.nodes.data[schedule.nodes.count++] = r->best->schedule[at];
  if (status == NEAP_OK) status = search_create(r->step, live_of(r->best), &schedule, 1, search);
  for (int round = 0; status == NEAP_OK && round < ROUNDS && !done(r); round++) {
    status = search_rebuild(search, r->work, 0, false);
    if (status == NEAP_OK) status = consider(r, search);
  }
  search_free(search);
  free(search);
  schedule_free(&schedule);
  return status;
}

/* What its planner made of the schedule is better searched than what is found near it: a layout that nearly
 * fits is worth more work. */
static neap_status try_again(struct repair *r) {
  enum { SHARE = 32 }; /* of the capacity */
  const uint64_t capacity = r->demand->capacity;
  struct neap_plan *plan = NULL;
  if (r->best->arena_bytes > capacity + capacity / SHARE) return NEAP_OK;
  struct demand demand = *r->demand;
  demand.thorough = true;
  TRY(plan_of_schedule(r->step, r->start, &demand, &plan));
  if (plan->arena_bytes < r->best->arena_bytes) {
    struct neap_plan *old = r->best;
    r->best = plan;
    plan = old;
  }
  neap_plan_free(plan);
  return NEAP_OK;
}

static neap_status try_near(struct repair *r) {
  /* Thousandths of the memory to do without, or as much as the layout lacks, in eighths. */
  static const uint64_t cuts[] = {1, 3, 8, 16, 24, 32, 48}, eighths[] = {0, 1, 4, 8, 12, 16, 24};
  enum { USUAL = 4 }; /* the others only where nothing suits yet */
  const int all = (int)(sizeof cuts / sizeof *cuts);
  if (!r->demand->quick) TRY(try_again(r));
  if (done(r)) return NEAP_OK;
  const uint64_t most = r->demand->capacity;
  const uint64_t lacks = fits(r, r->best) ? 0 : r->best->arena_bytes - most;
  uint32_t seed = 1;
  TRY(pad(r, r->best));
  for (int i = 0; i < all && !done(r) && (i < USUAL || !suits(r, r->best)); i++) {
    const uint64_t least = most / 1000 * cuts[i], share = lacks / 8 * eighths[i];
    const uint64_t cut = share > least ? share : least;
    const int laid_out = r->laid_out;
    if (cut < most) TRY(attempt(r, i % 2 ? r->step : &r->padded, most - cut, seed++));
    if (fits(r, r->best) && r->laid_out == laid_out) break; /* it was too dear, and less memory is dearer */
  }
  return fits(r, r->best) ? polish(r) : NEAP_OK;
}

/* Some hundredths of a second. */
static int64_t work_for(int64_t nodes) {
  enum { EACH = 1000, MOST = 150000, EACH_MORE = 200 };
  return (nodes * EACH < MOST ? nodes * EACH : MOST) + nodes * EACH_MORE;
}

/* In a large step, where each takes its time: the first that keeps the capacity, tight or not. */
static neap_status try_below(struct repair *r) {
  static const uint64_t cuts[] = {4, 8, 16, 32};
  const int count = (int)(sizeof cuts / sizeof *cuts);
  const uint64_t most = r->demand->capacity;
  for (int i = 0; i < count && !done(r); i++)
    TRY(attempt(r, r->step, most - most / 1000 * cuts[i], (uint32_t)i + 1));
  return NEAP_OK;
}

neap_status plan_by_repair(const neap_step *step, const struct schedule *schedule,
                           const struct demand *demand, struct neap_plan **out) {
  const bool large = step->node_count > LARGE_STEP;
  struct demand first_fit = *demand; /* in a large step the first plan that fits will do */
  first_fit.quick = demand->quick || large;
  struct repair r = {.step = step,
                     .padded = *step,
                     .demand = &first_fit,
                     .start = schedule,
                     .work = work_for(step->node_count),
                     .layouts = large ? 1 : 3};
  TRY(plan_of_schedule(step, schedule, demand, &r.best));
  r.cost = r.best->cost + step->base_cost * 0.002;
  neap_status status = NEAP_OK;
  first_fit.tight = demand->tight && !large;
  if (!suits(&r, r.best)) {
    struct region region = {0};
    r.padded.nodes = region_copy(&region, step->nodes, (size_t)step->node_count, sizeof *step->nodes);
    status = r.padded.nodes == NULL ? neap_fail(NEAP_OUT_OF_MEMORY, "plan: out of memory")
             : large                ? try_below(&r)
                                    : try_near(&r);
    region_free(&region);
  }
  schedule_free(&r.last);
  if (status == NEAP_OK)
    *out = r.best;
  else
    neap_plan_free(r.best);
  return status;
}
