#include "session/choose.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/available_memory.h"
#include "base/memory_status.h"
#include "base/parallel.h"
#include "grad/gradient.h"
#include "kernel/restorers.h"
#include "neap_collective.h"
#include "plan/memory_bound.h"
#include "program/prefetch.h"
#include "program/spilled_variables.h"
#include "rewrite/rewrite.h"
#include "settings/settings.h"
#include "speed/cost_database.h"
#include "speed/measure.h"
#include "speed/speed.h"
#include "step/lane_cost.h"
#include "step/planner.h"

/* ---- One variant's plan ---- */

/* Returns true if a thread reads from disk while kernels run. */
static bool has_jobs(struct on_disk on_disk) {
  return on_disk.base == NEAP_DISK_ALWAYS || on_disk.variables != NEAP_DISK_FOR_AUTO;
}

uint64_t process_growth(uint64_t nodes, struct on_disk on_disk) {
  static const uint64_t of_node = 2560, of_reads = 3 << 20 /* buffers of weights that lie on disk */;
  return PROCESS_GROWTH + nodes * of_node + (has_jobs(on_disk) ? of_reads : 0);
}

/* Returns by how much the growth of a process with this step, and an evaluation of about half its nodes,
 * exceeds the usual reserve. */
static uint64_t unusual_growth(const struct choice *c) {
  const uint64_t nodes = c->lowered->graph->nodes.count,
                 growth = process_growth(nodes + nodes / 2, c->on_disk) + spilled_whole_bytes(c->lowered);
  return growth > PROCESS_RESERVE ? growth - PROCESS_RESERVE : 0;
}

/* Returns the budget that a plan of this many bytes meets. */
static uint64_t budget_of(const struct choice *c, uint64_t bytes) {
  return bytes + (c->rest > 0 ? c->rest + PROCESS_RUN_MARGIN : 0);
}

/* Resolves the budget. For a budget of the process, subtracts the memory that it already has, including
 * graphs and kernels, and the memory that it needs later. Not all of that is known before; if it was too
 * little, `process_reserve` is raised and this is repeated. */
static neap_status resolve_budget(struct choice *c, const struct neap_session_options *o, uint64_t reserve) {
  TRY(neap_step_keep_all_bytes(c->lowered->step, &c->keep_all));
  c->budget = o->budget_fraction > 0 ? neap_budget_share(o->budget_fraction, c->keep_all) : o->budget;
  if (o->process_budget == 0) return NEAP_OK;
  memory_status_trim();
  c->rest = memory_status_read().resident_bytes + reserve + unusual_growth(c);
  c->budget = o->process_budget > c->rest ? o->process_budget - c->rest : 1;
  if (c->budget > c->keep_all) c->budget = c->keep_all;
  return NEAP_OK;
}

static neap_status check(const struct neap_step *step, const struct neap_plan *plan) {
  struct neap_check_result result;
  return neap_plan_check(step, plan, &result);
}

/* ---- The best of them ---- */

/* A variant is not planned if it saves less than this share of the base's arena with everything kept. */
static const double share_that_matters = 0.01;

/* Planning a larger step takes seconds, so one quick planner decides whether a variant is worth it. */
static const char quick_row[] = "rotor";

/* Compares plans by cost; for the least budget by peak, then by cost. NULL: no plan fits, the worst. */
static bool better(const struct neap_plan *a, const struct neap_plan *b, uint64_t budget) {
  if (a == NULL || b == NULL) return a != NULL;
  if (budget == NEAP_BUDGET_MIN && plan_bytes(a) != plan_bytes(b)) return plan_bytes(a) < plan_bytes(b);
  return a->cost < b->cost;
}

/* Makes a plan within the budget. `*plan` is NULL if it is not met; then `*smallest` is lowered to the
 * smallest budget that is met. `smallest` NULL: not asked for. */
static neap_status plan_within(const struct neap_step *step, uint64_t budget, const neap_plan_options *how,
                               uint64_t *smallest, struct neap_plan **plan) {
  *plan = NULL;
  uint64_t least = 0;
  const neap_status status = neap_plan_make_with(step, budget, how, smallest != NULL ? &least : NULL, plan);
  if (status != NEAP_OVER_BUDGET) return status;
  if (smallest != NULL && least != 0 && least < *smallest) *smallest = least;
  return NEAP_OK;
}

/* Finds out whether a plan of `other` may be better than `c`'s. */
static neap_status may_pay(const struct choice *c, const struct neap_step *other, bool *may) {
  const struct neap_step *step = c->lowered->step;
  *may = c->plan == NULL || c->budget == NEAP_BUDGET_MIN || other->base_cost < c->plan->cost;
  if (!*may || c->plan == NULL || step->node_count <= LARGE_STEP) return NEAP_OK;
  const neap_plan_options quick = {.planner = quick_row};
  struct neap_plan *ours = NULL, *theirs = NULL;
  neap_status status = plan_within(step, c->budget, &quick, NULL, &ours);
  if (status == NEAP_OK) status = plan_within(other, c->budget, &quick, NULL, &theirs);
  *may = better(theirs, ours, c->budget);
  neap_plan_free(ours);
  neap_plan_free(theirs);
  return status;
}

/* The variants that may be better than the base, by neap_variant; NULL: not that one. */
struct candidates {
  struct lowered *lowered[VARIANT_LIMIT];
  int32_t count;
};

static neap_status find_candidates(const struct choice *base, const struct neap_graph *training,
                                   const struct neap_session_options *options, struct candidates *found) {
  if (options->variant != NEAP_VARIANT_AUTO || base->budget == NEAP_BUDGET_MAX) return NEAP_OK;
  const uint64_t arena = base->keep_all - base->lowered->step->resident_bytes;
  for (int32_t v = NEAP_VARIANT_BASE + 1; v < graph_variant_count; v++) {
    struct lowered *lowered;
    uint64_t kept;
    TRY(lower_variant(training, (neap_variant)v, options, &lowered));
    if (lowered == NULL) continue;
    found->lowered[v] = lowered;
    TRY(neap_step_keep_all_bytes(lowered->step, &kept));
    if ((double)kept < (double)base->keep_all - share_that_matters * (double)arena) {
      found->count++;
    } else {
      lowered_free(lowered);
      found->lowered[v] = NULL;
    }
  }
  return NEAP_OK;
}

/* Lowers the bounds of the plan to those that hold for both graphs. `other` is the rejected plan of `step`
 * (NULL: none). */
static neap_status share_bounds(const struct choice *c, const struct neap_step *step,
                                const struct neap_plan *other) {
  struct neap_plan *plan = c->plan;
  uint64_t bound;
  if (plan == NULL) return NEAP_OK;
  TRY(plan_memory_bound(step, &bound));
  if (bound < plan->lower_bound_bytes) plan->lower_bound_bytes = bound;
  if (other == NULL || c->budget == NEAP_BUDGET_MIN) return NEAP_OK;
  if (other->cost_lower_bound < plan->cost_lower_bound) plan->cost_lower_bound = other->cost_lower_bound;
  plan->proven_optimal = plan->proven_optimal && plan->cost <= plan->cost_lower_bound * (1 + 1e-12);
  return NEAP_OK;
}

/* Plans a candidate, which replaces the current choice if it is better. */
static neap_status consider(struct choice *c, neap_variant variant, struct lowered **candidate,
                            const neap_plan_options *how, uint64_t *smallest) {
  bool may = false;
  struct neap_plan *plan = NULL;
  TRY(may_pay(c, (*candidate)->step, &may));
  if (may) TRY(plan_within((*candidate)->step, c->budget, how, smallest, &plan));
  if (better(plan, c->plan, c->budget)) {
    struct neap_plan *former_plan = c->plan;
    struct lowered *former = c->lowered;
    c->plan = plan;
    c->lowered = *candidate;
    c->variant = variant;
    plan = former_plan;
    *candidate = former;
  }
  const neap_status status = share_bounds(c, (*candidate)->step, plan);
  neap_plan_free(plan);
  return status;
}

/* Plans the base and then the others, which share a time limit. */
static neap_status plan_all(struct choice *c, const struct neap_session_options *options,
                            struct candidates *candidates, uint64_t *smallest) {
  const neap_plan_options how = {.planner = options->planner,
                                 .quick = options->plan_quick,
                                 .seconds = options->plan_seconds / (1 + candidates->count),
                                 .progress = options->plan_progress,
                                 .context = options->plan_context,
                                 .stop = options->plan_stop};
  TRY(plan_within(c->lowered->step, c->budget, &how, smallest, &c->plan));
  const bool will_do = c->plan != NULL && (c->plan->recomputed == 0 || options->plan_quick);
  if (will_do && c->budget != NEAP_BUDGET_MIN) return NEAP_OK;
  for (int32_t v = 0; v < graph_variant_count; v++)
    if (candidates->lowered[v] != NULL)
      TRY(consider(c, (neap_variant)v, &candidates->lowered[v], &how, smallest));
  return NEAP_OK;
}

/* Fails: no plan is within the budget. `least` would be; UINT64_MAX: not known. */
static neap_status fail_over_budget(const struct choice *c, const struct neap_session_options *options,
                                    uint64_t least, uint64_t *smallest) {
  if (smallest != NULL) *smallest = least == UINT64_MAX ? 0 : budget_of(c, least);
  RETURN_IF(options->plan_quick || (smallest == NULL && c->budget != NEAP_BUDGET_MIN), NEAP_OVER_BUDGET,
            "no plan was found within %llu bytes", (unsigned long long)c->budget);
  RETURN_IF(c->rest > 0 && least != UINT64_MAX, NEAP_OVER_BUDGET,
            "a process budget of %llu bytes is too small: %llu go to code, libraries, graphs and kernels, so "
            "training has %llu; it needs %llu",
            (unsigned long long)options->process_budget, (unsigned long long)c->rest,
            (unsigned long long)(c->budget > 1 ? c->budget : 0), (unsigned long long)least);
  return plan_over_budget(options->planner, c->budget, least == UINT64_MAX ? 0 : least);
}

static neap_status make_plan(struct choice *c, const struct neap_graph *training,
                             const struct neap_session_options *options, uint64_t reserve,
                             uint64_t *smallest) {
  uint64_t least = UINT64_MAX;
  struct candidates candidates = {0};
  c->variant = options->variant == NEAP_VARIANT_AUTO ? NEAP_VARIANT_BASE : options->variant;
  TRY(lower_as(training, options, &c->variant, &c->lowered));
  TRY(resolve_budget(c, options, reserve));
  neap_status status = find_candidates(c, training, options, &candidates);
  if (status == NEAP_OK) status = plan_all(c, options, &candidates, smallest != NULL ? &least : NULL);
  for (int32_t v = 0; v < graph_variant_count; v++) lowered_free(candidates.lowered[v]);
  if (status != NEAP_OK) return status;
  return c->plan != NULL ? check(c->lowered->step, c->plan) : fail_over_budget(c, options, least, smallest);
}

/* ---- A plan file ---- */

neap_variant variant_of_name(const char *graph, const char *name) {
  const size_t length = strlen(graph);
  if (strncmp(name, graph, length) != 0 || name[length] != '+') return NEAP_VARIANT_BASE;
  for (int32_t v = NEAP_VARIANT_BASE + 1; v < graph_variant_count; v++)
    if (strcmp(name + length + 1, graph_variants[v].name) == 0) return (neap_variant)v;
  return NEAP_VARIANT_BASE;
}

/* Replaces a plan's costs by those of this machine, as a plan is for any machine. The checker reports nodes
 * that the step does not have. */
static neap_status restate_costs(const struct neap_step *step, struct neap_plan *plan) {
  double cost = 0;
  for (int32_t i = 0; i < plan->length; i++) {
    if (plan->schedule[i] < 0 || plan->schedule[i] >= step->node_count) return NEAP_OK;
    cost += step->nodes[plan->schedule[i]].cost;
  }
  if (step->has_lane) TRY(lane_cost(step, plan->schedule, plan->length, &cost));
  plan->cost = cost;
  plan->base_cost = step->base_cost;
  return NEAP_OK;
}

static neap_status check_file(const struct choice *c, const char *file, uint64_t *smallest) {
  const char *graph = c->lowered->step->name;
  const neap_status status = check(c->lowered->step, c->plan);
  RETURN_IF(status != NEAP_OK && strcmp(c->plan->graph, graph) != 0, status,
            "%s is a plan for '%s', not for '%s': %s", file, c->plan->graph, graph, neap_error_message());
  RETURN_IF(status != NEAP_OK, status,
            "%s: it does not suit this step of '%s': %s; plan again, or give the options that the plan was "
            "made with (images, classes, threads)",
            file, graph, neap_error_message());
  for (int32_t i = 0; i < c->plan->instance_count; i++)
    RETURN_IF(c->plan->instances[i].offset % MEMORY_ALIGNMENT != 0, NEAP_INVALID_PLAN,
              "%s: instance %d lies at offset %llu, which is not a multiple of %d", file, i,
              (unsigned long long)c->plan->instances[i].offset, MEMORY_ALIGNMENT);
  const uint64_t peak = plan_bytes(c->plan);
  if (c->budget == NEAP_BUDGET_MIN || peak <= c->budget) return NEAP_OK;
  if (smallest != NULL) *smallest = budget_of(c, peak);
  return neap_fail(NEAP_OVER_BUDGET, "the plan in %s needs %llu bytes, more than the budget of %llu", file,
                   (unsigned long long)peak, (unsigned long long)c->budget);
}

/* Takes the plan `given`, or reads it from options->plan_file if that is NULL. */
static neap_status read_plan(struct choice *c, const struct neap_graph *training,
                             const struct neap_session_options *options, const struct neap_plan *given,
                             uint64_t reserve, uint64_t *smallest) {
  TRY(lower_with_costs(training, options, NULL, &c->lowered));
  TRY(resolve_budget(c, options, reserve));
  TRY(given != NULL ? plan_create(given, &c->plan) : neap_plan_read(options->plan_file, &c->plan));
  struct lowered *other;
  const neap_variant variant = variant_of_name(training->name, c->plan->graph);
  TRY(lower_variant(training, variant, options, &other));
  if (other != NULL) {
    lowered_free(c->lowered);
    c->lowered = other;
  }
  c->variant = other != NULL ? variant : NEAP_VARIANT_BASE;
  TRY(restate_costs(c->lowered->step, c->plan));
  return check_file(c, given != NULL ? "rank 0" : options->plan_file, smallest);
}

/* ---- All of the choice ---- */

/* Moves reads and gathers so that they overlap the nodes before them, as far as there is room. */
static neap_status prefetch_within(struct choice *c) {
  const bool open = c->budget == NEAP_BUDGET_MAX || c->budget == NEAP_BUDGET_MIN;
  TRY(prefetch(c->lowered, open ? plan_bytes(c->plan) : c->budget, &c->plan));
  if (c->plan->arena_bytes < c->end) c->plan->arena_bytes = c->end;
  return check(c->lowered->step, c->plan);
}

void choice_free(struct choice *choice) {
  lowered_free(choice->lowered);
  neap_plan_free(choice->plan);
}

/* Finds the least arena in which the end of a step fits; 0: it needs no more than the step. Updates of whole
 * matrices, and of variables on disk, may. */
static neap_status find_end(const struct choice *c, const struct neap_session_options *options,
                            uint64_t *arena) {
  const struct optimizer optimizer = optimizer_of(options);
  *arena = 0;
  if (predicts_only(c->lowered->graph, options) || !step_in_parts(&optimizer) ||
      (!optimizer_rows[optimizer.kind].matrix && c->on_disk.variables == NEAP_DISK_FOR_AUTO))
    return NEAP_OK;
  const struct lower_options lowering = lower_options_of(options);
  struct neap_graph *graph = NULL;
  struct lowered *end = NULL;
  struct neap_plan *plan = NULL;
  TRY(graph_end_step(c->lowered->graph, &optimizer, &graph));
  neap_status status = lower(graph, backend_of(options), &lowering, c->lowered, &end);
  neap_graph_free(graph);
  if (status == NEAP_OK) status = neap_plan_make(end->step, NEAP_BUDGET_MIN, "auto", NULL, &plan);
  if (status == NEAP_OK) *arena = plan->arena_bytes;
  neap_plan_free(plan);
  lowered_free(end);
  return status;
}

/* Gives the plan an arena in which the end of a step fits, too. `planned`: the outcome of planning the step;
 * `*smallest` (may be NULL): as in choose_plan. */
static neap_status fit_end(struct choice *c, const struct neap_session_options *options, neap_status planned,
                           uint64_t *smallest) {
  if (planned != NEAP_OK && (planned != NEAP_OVER_BUDGET || smallest == NULL)) return planned;
  TRY(find_end(c, options, &c->end));
  const uint64_t bytes = c->lowered->step->resident_bytes + c->end;
  if (planned != NEAP_OK) {
    if (budget_of(c, bytes) > *smallest) *smallest = budget_of(c, bytes);
    return planned;
  }
  if (c->end <= c->plan->arena_bytes) return NEAP_OK;
  c->plan->arena_bytes = c->end;
  if (c->budget == NEAP_BUDGET_MAX || c->budget == NEAP_BUDGET_MIN || bytes <= c->budget) return NEAP_OK;
  if (smallest != NULL) *smallest = budget_of(c, bytes);
  return neap_fail(NEAP_OVER_BUDGET,
                   "the updates at the end of a step need %llu bytes, more than the budget of %llu",
                   (unsigned long long)bytes, (unsigned long long)c->budget);
}

struct on_disk on_disk_of(const struct neap_session_options *options) {
  return (struct on_disk){options->base_on_disk,
                          options->disk != NULL ? options->disk_for : NEAP_DISK_FOR_AUTO};
}

/* Chooses with weights and variables in memory or on disk, as the options say. */
static neap_status choose_with(const struct neap_graph *graph, const struct neap_session_options *options,
                               const struct neap_plan *given, uint64_t reserve, uint64_t *smallest,
                               struct choice *out) {
  struct neap_graph *training = NULL;
  struct choice choice = {.on_disk = on_disk_of(options)};
  TRY(make_main_graph(graph, options, &training));
  const bool replays = given != NULL || options->plan_file != NULL;
  neap_status status = replays ? read_plan(&choice, training, options, given, reserve, smallest)
                               : make_plan(&choice, training, options, reserve, smallest);
  neap_graph_free(training);
  status = fit_end(&choice, options, status, smallest);
  const bool fixed = replays || (!has_jobs(choice.on_disk) && !shards_all(options));
  /* The least budget is that of planning: earlier reads may need fewer bytes by chance, but never ask for
   * more. */
  const uint64_t met = status == NEAP_OK ? plan_bytes(choice.plan) : 0;
  if (status == NEAP_OK && !fixed) status = prefetch_within(&choice);
  if (status != NEAP_OK) {
    choice_free(&choice);
    return status;
  }
  if (choice.budget == NEAP_BUDGET_MAX || choice.budget == NEAP_BUDGET_MIN) choice.budget = met;
  *out = choice;
  return NEAP_OK;
}

/* ---- Memory and disk ---- */

void options_set_on_disk(struct neap_session_options *options, struct on_disk on_disk) {
  options->base_on_disk = on_disk.base;
  options->disk_for = on_disk.variables;
  if (on_disk.variables != NEAP_DISK_FOR_AUTO) return;
  options->disk = NULL;
  options->disk_bytes = 0;
}

/* Finds out whether weights may be on disk instead of in memory, if the options leave that open. */
static neap_status may_fetch(const struct neap_graph *graph, const struct neap_session_options *options,
                             bool *may) {
  struct neap_graph *forward;
  *may = false;
  if (options->base_on_disk != NEAP_DISK_AUTO || (options->lora == 0 && !graph_has_adapters(graph)) ||
      predicts_only(graph, options))
    return NEAP_OK;
  TRY(make_forward_graph(graph, options, &forward));
  *may = rewrite_can_fetch(forward);
  neap_graph_free(forward);
  return NEAP_OK;
}

/* Returns the first of what lies on disk. */
static const char *disk_word(neap_disk_for what) {
  return (what & NEAP_DISK_FOR_ACTIVATIONS) != 0 ? "activations"
         : (what & NEAP_DISK_FOR_STATES) != 0    ? "states"
                                                 : "weights";
}

/* Finds out from the name of a plan's graph what is on disk. `may_fetch`: frozen weights may be. */
static neap_status find_on_disk(const struct neap_session_options *options, const struct neap_plan *given,
                                bool may_fetch, struct on_disk *on_disk) {
  struct neap_plan *plan;
  TRY(given != NULL ? plan_create(given, &plan) : neap_plan_read(options->plan_file, &plan));
  if (may_fetch && strstr(plan->graph, FETCH_SUFFIX) != NULL) on_disk->base = NEAP_DISK_ALWAYS;
  on_disk->variables = (strstr(plan->graph, SPILLED_STATES) != NULL ? NEAP_DISK_FOR_STATES : 0) |
                       (strstr(plan->graph, SPILLED_WEIGHTS) != NULL ? NEAP_DISK_FOR_WEIGHTS : 0) |
                       (strstr(plan->graph, STORED_SUFFIX) != NULL ? NEAP_DISK_FOR_ACTIVATIONS : 0);
  neap_plan_free(plan);
  RETURN_IF(
      on_disk->variables != 0 && options->disk == NULL, NEAP_INVALID_PLAN,
      "the plan keeps variables or activations on disk, but no folder is given for them; give one (`disk`)");
  RETURN_IF(options->disk_for != NEAP_DISK_FOR_AUTO && (on_disk->variables & ~options->disk_for) != 0,
            NEAP_INVALID_PLAN,
            "the plan keeps %s on disk, which `disk-for` does not name; leave it out, or plan again",
            disk_word(on_disk->variables & ~options->disk_for));
  return NEAP_OK;
}

/* The ways to divide a training between memory and disk, the preferred ones first. */
enum { WAYS_LIMIT = 12 };

static int list_ways(const struct neap_session_options *options, bool may_fetch, struct on_disk *ways) {
  const neap_disk_for most = options->ema != 0 ? NEAP_DISK_FOR_STATES : NEAP_DISK_FOR_BOTH,
                      open[] = {NEAP_DISK_FOR_AUTO,
                                NEAP_DISK_FOR_ACTIVATIONS,
                                NEAP_DISK_FOR_STATES,
                                NEAP_DISK_FOR_STATES | NEAP_DISK_FOR_ACTIVATIONS,
                                most,
                                most | NEAP_DISK_FOR_ACTIVATIONS};
  const bool settled = options->disk == NULL || options->disk_for != NEAP_DISK_FOR_AUTO;
  const neap_disk_for one = options->disk == NULL ? NEAP_DISK_FOR_AUTO : options->disk_for;
  int count = 0;
  for (int i = 0; i < (settled ? 1 : (int)(sizeof open / sizeof *open)); i++)
    for (int base = 0; base < (may_fetch ? 2 : 1); base++)
      ways[count++] = (struct on_disk){
          options->base_on_disk == NEAP_DISK_ALWAYS || base == 1 ? NEAP_DISK_ALWAYS : NEAP_DISK_NEVER,
          settled ? one : open[i]};
  return count;
}

/* Returns true if a plan recomputes enough for a way with more on disk to cost less. */
static bool recomputes_much(const struct choice *c) {
  static const double much = 1.05;
  return c->plan->cost > much * c->plan->base_cost;
}

/* Takes a choice if it is better than the one so far, and frees the other. */
static void take_better(struct choice *best, bool *any, struct choice *other, bool least) {
  const bool better = !*any || (least ? plan_bytes(other->plan) < plan_bytes(best->plan)
                                      : other->plan->cost < best->plan->cost);
  if (better) {
    const struct choice former = *best;
    *best = *other;
    *other = former;
  }
  if (*any) choice_free(other);
  *any = true;
}

/* Fails, and frees the choice, if its variables take more of the disk than they may. */
static neap_status check_file_bytes(const struct neap_session_options *options, struct choice *c) {
  const uint64_t most = options->disk_bytes;
  uint64_t bytes = 0;
  const neap_status status = most == 0 ? NEAP_OK : spilled_file_bytes(c->lowered, c->plan, &bytes);
  if (status == NEAP_OK && bytes <= most) return NEAP_OK;
  choice_free(c);
  if (status != NEAP_OK) return status;
  return neap_fail(NEAP_INVALID_ARGUMENT,
                   "disk: variables and activations take %llu bytes of it (at most %llu are allowed); allow "
                   "more, or give a "
                   "larger budget",
                   (unsigned long long)bytes, (unsigned long long)most);
}

static neap_status choose_way(const struct neap_graph *graph, const struct neap_session_options *options,
                              const struct on_disk *ways, int count, uint64_t reserve, uint64_t *smallest,
                              struct choice *out) {
  const bool least =
      options->budget == NEAP_BUDGET_MIN && options->budget_fraction <= 0 && options->process_budget == 0;
  bool any = false;
  neap_status status = NEAP_OK;
  for (int i = 0; i < count; i++) {
    struct neap_session_options own = *options;
    struct choice choice;
    options_set_on_disk(&own, ways[i]);
    const bool last = i + 1 == count && !any;
    status = choose_with(graph, &own, NULL, reserve, last ? smallest : NULL, &choice);
    if (status == NEAP_OVER_BUDGET && !last) continue;
    if (status != NEAP_OK) break;
    status = check_file_bytes(&own, &choice);
    if (status != NEAP_OK) break; /* further ways take more */
    take_better(out, &any, &choice, least);
    const bool same_variables = i + 1 < count && ways[i + 1].variables == ways[i].variables;
    if (!least && (same_variables || !recomputes_much(out))) break;
  }
  if (any && (status == NEAP_OK || status == NEAP_OVER_BUDGET || status == NEAP_INVALID_ARGUMENT))
    return NEAP_OK;
  if (any) choice_free(out);
  return status;
}

/* Gives the bytes of keeping everything, with all variables in memory, too. */
static neap_status bytes_in_memory(const struct neap_graph *graph, const struct neap_session_options *options,
                                   uint64_t *bytes) {
  struct neap_session_options in_memory = *options;
  neap_step *step;
  options_set_on_disk(&in_memory, (struct on_disk){NEAP_DISK_NEVER, NEAP_DISK_FOR_AUTO});
  TRY(neap_step_from_graph(graph, &in_memory, &step));
  const neap_status status = neap_step_keep_all_bytes(step, bytes);
  neap_step_free(step);
  return status;
}

neap_status choose_plan(const struct neap_graph *graph, const struct neap_session_options *options,
                        const struct neap_plan *given, uint64_t reserve, uint64_t *smallest,
                        struct choice *out) {
  struct on_disk ways[WAYS_LIMIT] = {{NEAP_DISK_NEVER, NEAP_DISK_FOR_AUTO}};
  struct neap_session_options settled = *options;
  bool may;
  TRY(check_session_options(options));
  TRY(may_fetch(graph, options, &may));
  if (predicts_only(graph, options)) /* it has no variables to keep on disk */
    options_set_on_disk(&settled, (struct on_disk){options->base_on_disk, NEAP_DISK_FOR_AUTO});
  if (given != NULL || options->plan_file != NULL) {
    ways[0].base = options->base_on_disk == NEAP_DISK_ALWAYS ? NEAP_DISK_ALWAYS : NEAP_DISK_NEVER;
    TRY(find_on_disk(options, given, may, &ways[0]));
    options_set_on_disk(&settled, ways[0]);
    return choose_with(graph, &settled, given, reserve, smallest, out);
  }
  uint64_t everything = 0;
  if (settled.disk != NULL) TRY(bytes_in_memory(graph, options, &everything));
  if (options->budget_fraction > 0 && settled.disk != NULL) {
    settled.budget = neap_budget_share(options->budget_fraction, everything);
    settled.budget_fraction = 0;
  }
  const int count = list_ways(&settled, may, ways);
  TRY(choose_way(graph, &settled, ways, count, reserve, smallest, out));
  if (everything > out->keep_all) out->keep_all = everything;
  return NEAP_OK;
}

/* ---- In two parts ---- */

bool has_parts(const struct neap_graph *graph) {
  for (size_t t = 0; t < graph->tensors.count; t++)
    if (graph->tensors.data[t].prepared) return true;
  return false;
}

static neap_status lower_parts(const struct neap_graph *graph, const struct neap_session_options *options,
                               struct parts *p) {
  struct neap_graph *both, *part = NULL;
  const struct lower_options lowering = lower_options_of(options);
  TRY(make_main_graph(graph, options, &both));
  neap_status status = lower(both, backend_of(options), &lowering, NULL, &p->whole);
  for (int i = 0; status == NEAP_OK && i < PART_COUNT; i++) {
    status = rewrite_part(both, i == PART_PREPARES, &part);
    if (status != NEAP_OK) break;
    status = lower_with_costs(part, options, p->whole, &p->part[i].lowered);
    neap_graph_free(part);
  }
  neap_graph_free(both);
  return status;
}

/* Replaces a budget that is a share by bytes, of the part that needs more to keep everything. */
static neap_status resolve_budgets(struct parts *p, const struct neap_session_options *options,
                                   uint64_t reserve) {
  struct choice *one = &p->part[PART_PREPARES], *other = &p->part[PART_PREDICTS];
  TRY(resolve_budget(one, options, reserve));
  TRY(resolve_budget(other, options, reserve));
  one->budget = other->budget = one->budget > other->budget ? one->budget : other->budget;
  one->keep_all = other->keep_all = one->keep_all > other->keep_all ? one->keep_all : other->keep_all;
  return NEAP_OK;
}

/* Plans both parts. If only one part's least is not met, it decides; if neither is met, the larger one. */
static neap_status plan_parts(struct parts *p, const struct neap_session_options *options,
                              uint64_t *smallest) {
  const neap_plan_options how = {.planner = options->planner, .quick = options->plan_quick};
  uint64_t least = 0;
  bool known = true;
  const struct choice *failed = NULL;
  for (int i = 0; i < PART_COUNT; i++) {
    struct choice *c = &p->part[i];
    uint64_t own = UINT64_MAX;
    TRY(plan_within(c->lowered->step, c->budget, &how, smallest != NULL ? &own : NULL, &c->plan));
    if (c->plan != NULL) {
      TRY(c->on_disk.base == NEAP_DISK_ALWAYS ? prefetch_within(c) : check(c->lowered->step, c->plan));
      continue;
    }
    failed = c;
    known = known && own != UINT64_MAX;
    least = own > least ? own : least;
  }
  return failed == NULL ? NEAP_OK : fail_over_budget(failed, options, known ? least : UINT64_MAX, smallest);
}

void parts_free(struct parts *p) {
  for (int i = 0; i < PART_COUNT; i++) choice_free(&p->part[i]);
  lowered_free(p->whole);
}

neap_status choose_parts(const struct neap_graph *graph, const struct neap_session_options *options,
                         uint64_t reserve, uint64_t *smallest, struct parts *out) {
  struct neap_session_options settled = *options;
  struct parts p = {0};
  RETURN_IF(!predicts_only(graph, options), NEAP_INVALID_ARGUMENT,
            "graph '%s' prepares states, which gradients cannot read; a session of it can only predict",
            graph->name);
  RETURN_IF(options->plan_file != NULL, NEAP_UNSUPPORTED,
            "graph '%s' prepares states: it has two plans, which cannot be in one plan file", graph->name);
  if (settled.base_on_disk != NEAP_DISK_ALWAYS) settled.base_on_disk = NEAP_DISK_NEVER;
  for (int i = 0; i < PART_COUNT; i++)
    p.part[i] = (struct choice){.on_disk.base = settled.base_on_disk, .variant = NEAP_VARIANT_BASE};
  neap_status status = lower_parts(graph, &settled, &p);
  if (status == NEAP_OK) status = resolve_budgets(&p, &settled, reserve);
  if (status == NEAP_OK) status = plan_parts(&p, &settled, smallest);
  if (status == NEAP_OK)
    *out = p;
  else
    parts_free(&p);
  return status;
}

neap_status neap_plan_graph(const neap_graph *graph, const neap_session_options *options, uint64_t *smallest,
                            neap_step **step, neap_plan **plan) {
  NEED(step);
  NEED(plan);
  struct choice choice;
  RETURN_IF(graph == NULL || options == NULL, NEAP_INVALID_ARGUMENT,
            "neap_plan_graph: options or graph is NULL");
  neap_session_options settled = *options;
  TRY(available_memory_settle(&settled, NULL));
  TRY(choose_plan(graph, &settled, NULL, PROCESS_RESERVE, smallest, &choice));
  *step = choice.lowered->step;
  *plan = choice.plan;
  choice.lowered->step = NULL;
  choice.plan = NULL;
  choice_free(&choice);
  return NEAP_OK;
}
