#include "run/pipeline_prepare.h"

#include <string.h>

#include "base/clock.h"
#include "base/memory_status.h"
#include "base/stop.h"
#include "collective/agree.h"
#include "kernel/lower_part.h"
#include "kernel/lower_step.h"
#include "plan/memory_bound.h"
#include "plan/planners.h"
#include "run/pipeline_schedule.h"
#include "session/choose.h"
#include "session/session_ranks.h"
#include "session/session_run.h"
#include "step/tuning.h"

/* ---- The whole programs ---- */

static neap_status lower_whole(struct neap_session *s, const struct neap_graph *graph) {
  struct pipeline *p = s->pipeline;
  const struct optimizer optimizer = optimizer_of(&s->options);
  const struct lower_options lowering = lower_options_of(&s->options);
  struct neap_graph *begin = NULL, *end = NULL;
  TRY(lower_training(graph, &s->options, &p->whole[PROGRAM_STEP]));
  const struct lowered *step = p->whole[PROGRAM_STEP];
  neap_status status = graph_begin_step(step->graph, &optimizer, &begin);
  if (status == NEAP_OK) status = graph_end_step(step->graph, &optimizer, &end);
  if (status == NEAP_OK) status = lower(begin, step->backend, &lowering, step, &p->whole[PROGRAM_BEGIN]);
  if (status == NEAP_OK) status = lower(end, step->backend, &lowering, step, &p->whole[PROGRAM_END]);
  neap_graph_free(begin);
  neap_graph_free(end);
  if (status == NEAP_OK) status = lower_evaluation(graph, &s->options, step, 0, &p->whole[PROGRAM_EVALUATE]);
  return status;
}

/* ---- The schedule ---- */

static neap_status schedule_together(struct neap_session *s, const struct neap_graph *graph, uint64_t budget,
                                     uint64_t *lower) {
  struct pipeline *p = s->pipeline;
  const struct neap_collective *c = s->options.collective;
  pipeline_schedule_free(&p->schedule);
  *lower = 0;
  const neap_status status =
      c->rank == 0 ? pipeline_schedule_choose(graph, &s->options, &p->chain, budget, &p->schedule, lower)
                   : NEAP_OK;
  TRY(collective_broadcast(c, 0, lower, sizeof *lower)); /* there is another one, even if this one fails */
  TRY(collective_share_status(c, status));
  return pipeline_schedule_hand(c, s->options.pipeline, &p->schedule);
}

/* ---- Copies of values ---- */

/* Returns true if this rank reaches what `rank` has. */
static bool reaches(const struct neap_session *s, int32_t rank) {
  return s->pipeline->common || rank == pipeline_own_rank(s);
}

/* Half ticks: 2 t while the tasks of tick t run, 2 t + 1 while values are sent behind them. */
struct life {
  int32_t birth, death;
};

/* Returns when a value is on this rank for a micro-batch; death < birth: never. */
static struct life life_of(const struct neap_session *s, const struct piece_value *value, int32_t micro) {
  const struct pipeline *p = s->pipeline;
  struct life life = {value->maker < 0 ? -1 : INT32_MAX, -2};
  bool sent = false;
  for (int32_t t = 0; t < p->tick_count; t++)
    for (int32_t r = 0; r < p->schedule.ranks; r++) {
      const struct pipeline_task task = p->ticks[t].tasks[r];
      if (task.part < 0 || task.micro_batch != micro) continue;
      if (task.part == value->maker) life.birth = reaches(s, r) ? 2 * t : 2 * t + 1;
      sent = sent || (value->readers[task.part] && !reaches(s, r));
      if (value->readers[task.part] && reaches(s, r)) life.death = 2 * t;
    }
  const bool makes = value->maker >= 0 && reaches(s, p->pieces.pieces[value->maker].rank);
  if (makes && sent && life.death < life.birth + 1) life.death = life.birth + 1;
  return life;
}

/* Gives each micro-batch one of as few copies as are live at the same time. */
static neap_status set_slots(struct neap_session *s, struct own_value *own) {
  struct pipeline *p = s->pipeline;
  const int32_t micro_batches = p->schedule.micro_batches;
  const struct piece_value *value = &p->pieces.values[own->value];
  int32_t *until = region_alloc(&p->region, (size_t)micro_batches, sizeof *until);
  own->slot = region_alloc(&p->region, (size_t)micro_batches, sizeof *own->slot);
  own->copies = 1;
  RETURN_IF(!until || !own->slot, NEAP_OUT_OF_MEMORY, "pipeline: out of memory");
  if (value->program != PROGRAM_STEP) return NEAP_OK;
  for (int32_t i = 0; i < micro_batches; i++) until[i] = -3;
  for (int32_t m = 0; m < micro_batches; m++) {
    const struct life life = life_of(s, value, m);
    int32_t slot = 0;
    while (until[slot] >= life.birth) slot++; /* births rise with micro-batches */
    until[slot] = life.death > life.birth ? life.death : life.birth;
    own->slot[m] = slot;
    if (slot >= own->copies) own->copies = slot + 1;
  }
  return NEAP_OK;
}

static bool is_on_rank(const struct pieces *pieces, const struct piece_value *value, int rank) {
  bool on = value->maker >= 0 && pieces->pieces[value->maker].rank == rank;
  for (int32_t i = 0; i < pieces->count; i++)
    on = on || (value->readers[i] && pieces->pieces[i].rank == rank);
  return on;
}

uint64_t pipeline_value_size(const struct pipeline *p, const struct piece_value *value) {
  const struct lowered *whole = p->whole[value->program];
  return memory_round_up(
      share_bytes(whole->backend, &whole->graph->tensors.data[value->tensor], whole->formats[value->tensor]));
}

static neap_status list_own_values(struct neap_session *s) {
  struct pipeline *p = s->pipeline;
  const size_t count = (size_t)p->pieces.value_count;
  p->own = region_alloc(&p->region, count + 1, sizeof *p->own);
  p->own_of = region_alloc(&p->region, count + 1, sizeof *p->own_of);
  RETURN_IF(!p->own || !p->own_of, NEAP_OUT_OF_MEMORY, "pipeline: out of memory");
  p->own_count = 0;
  for (int32_t i = 0; i < p->pieces.value_count; i++) {
    p->own_of[i] = -1;
    if (!p->common && !is_on_rank(&p->pieces, &p->pieces.values[i], pipeline_own_rank(s))) continue;
    struct own_value *own = &p->own[p->own_count];
    *own = (struct own_value){.value = i, .bytes = pipeline_value_size(p, &p->pieces.values[i])};
    TRY(set_slots(s, own));
    p->own_of[i] = p->own_count++;
  }
  return NEAP_OK;
}

/* ---- Cutting ---- */

/* Notes where the variables of a program are. */
static neap_status find_variables(struct neap_session *s, enum program_kind kind) {
  struct pipeline *p = s->pipeline;
  const struct neap_graph *graph = p->whole[kind]->graph;
  struct part_variable *list = region_alloc(&p->region, graph->tensors.count + 1, sizeof *list);
  RETURN_IF_NULL(list);
  p->variables[kind] = list;
  for (int32_t t = 0; t < (int32_t)graph->tensors.count; t++) {
    const int32_t of = pipeline_variable(&p->pieces, kind, t);
    list[t] = of < 0 ? (struct part_variable){-1, false}
                     : (struct part_variable){p->pieces.owner[of],
                                              (p->pieces.present[of] >> pipeline_own_rank(s) & 1) == 0};
  }
  return NEAP_OK;
}

/* Cuts a piece; -1: the residents of the step alone. */
static neap_status cut_piece(struct neap_session *s, enum program_kind kind, int32_t piece,
                             struct lowered **out) {
  struct pipeline *p = s->pipeline;
  struct region region = {0};
  struct part_value *values = region_alloc(&region, (size_t)p->own_count + 1, sizeof *values);
  RETURN_IF_NULL(values);
  for (int32_t i = 0; i < p->own_count; i++) {
    const struct piece_value *value = &p->pieces.values[p->own[i].value];
    const struct lowered *whole = p->whole[value->program];
    values[i] = (struct part_value){.name = region_format(&region, "pipeline.%d", i),
                                    .tensor = whole->graph->tensors.data[value->tensor],
                                    .format = whole->formats[value->tensor],
                                    .copies = p->own[i].copies,
                                    .id = piece >= 0 && value->program == kind ? value->tensor : -1,
                                    .stored = piece >= 0 && value->maker == piece};
    if (values[i].name == NULL) {
      region_free(&region);
      return neap_fail(NEAP_OUT_OF_MEMORY, "pipeline: out of memory");
    }
  }
  const struct part_request request = {.nodes = piece >= 0 ? p->pieces.pieces[piece].nodes : NULL,
                                       .values = values,
                                       .value_count = p->own_count,
                                       .variables = p->variables[kind],
                                       .common = p->common};
  const neap_status status = lowered_part(p->whole[kind], &request, out);
  region_free(&region);
  return status;
}

static bool is_own(const struct neap_session *s, int32_t piece) {
  const struct pipeline *p = s->pipeline;
  return piece < p->pieces.end[PROGRAM_STEP] ? pipeline_runs_part(&p->schedule, pipeline_own_rank(s), piece)
                                             : p->pieces.pieces[piece].rank == pipeline_own_rank(s);
}

/* Returns the bytes of residents that all ranks reach. */
static uint64_t common_bytes(const struct lowered *l) {
  uint64_t bytes = 0;
  for (size_t t = 0; t < l->graph->tensors.count; t++)
    if (l->graph->tensors.data[t].common && l->step_tensor[t] >= 0)
      bytes += l->step->tensors[l->step_tensor[t]].bytes;
  return bytes;
}

static enum program_kind kind_of_piece(const struct pipeline *p, int32_t piece) {
  for (int kind = 0; kind < PROGRAM_COUNT; kind++)
    if (piece >= p->pieces.begin[kind] && piece < p->pieces.end[kind]) return (enum program_kind)kind;
  return PROGRAM_STEP;
}

static void forget_pieces(struct neap_session *s) {
  struct pipeline *p = s->pipeline;
  for (int32_t i = 0; p->programs != NULL && i < p->pieces.count; i++) {
    neap_plan_free(p->programs[i].plan);
    lowered_free(p->programs[i].lowered);
  }
  p->programs = NULL;
  region_free(&p->region);
  lowered_free(s->main);
  s->main = NULL;
  s->plan = NULL;
  pipeline_pieces_free(&p->pieces);
}

static neap_status cut_all(struct neap_session *s) {
  struct pipeline *p = s->pipeline;
  TRY(pipeline_pieces_make((const struct lowered *const *)p->whole, &p->chain, &p->schedule, p->common,
                           &p->pieces));
  TRY(ticks_make(&p->schedule, &p->region, &p->ticks, &p->tick_count));
  TRY(list_own_values(s));
  for (int kind = 0; kind < PROGRAM_COUNT; kind++)
    if (p->whole[kind] != NULL) TRY(find_variables(s, (enum program_kind)kind));
  p->programs = region_alloc(&p->region, (size_t)p->pieces.count, sizeof *p->programs);
  RETURN_IF_NULL(p->programs);
  TRY(cut_piece(s, PROGRAM_STEP, -1, &s->main));
  s->common = common_bytes(s->main);
  for (int32_t i = 0; i < p->pieces.count; i++)
    if (is_own(s, i)) TRY(cut_piece(s, kind_of_piece(p, i), i, &p->programs[i].lowered));
  return NEAP_OK;
}

/* ---- Planning ---- */

/* Returns the time limit of a plan; until a moment, that of one of `left` plans: none (0) where it would be
 * short, as planning without a limit takes about as long. */
static double plan_seconds(const struct neap_session *s, int32_t left) {
  const double until = s->pipeline->until, each = (until - clock_seconds()) / left;
  if (until == 0) return s->options.plan_seconds;
  return each > PIECE_SECONDS ? each : 0;
}

/* Plans a piece within bytes for its arena; NEAP_BUDGET_MAX or NEAP_BUDGET_MIN: as it is. Raises `*least` to
 * what its arena needs at least if that is more. */
static neap_status plan_piece(const struct neap_session *s, struct session_program *program, uint64_t arena,
                              double seconds, uint64_t *least) {
  const neap_session_options *o = &s->options;
  const neap_plan_options how = {.planner = o->planner,
                                 .quick = o->plan_quick,
                                 .seconds = seconds,
                                 .progress = o->plan_progress,
                                 .context = o->plan_context,
                                 .stop = o->plan_stop};
  const struct neap_step *step = program->lowered->step;
  const bool open = arena == NEAP_BUDGET_MAX || arena == NEAP_BUDGET_MIN;
  uint64_t smallest = 0;
  struct neap_plan *plan = NULL;
  const neap_status status =
      neap_plan_make_with(step, open ? arena : step->resident_bytes + arena, &how, &smallest, &plan);
  if (status == NEAP_OVER_BUDGET && program->plan != NULL && program->plan->arena_bytes <= arena)
    return NEAP_OK; /* the search for the least found more */
  if (status != NEAP_OK && status != NEAP_OVER_BUDGET) return status;
  neap_plan_free(program->plan);
  program->plan = plan;
  const uint64_t needs = plan != NULL   ? plan->arena_bytes
                         : smallest > 0 ? smallest - step->resident_bytes
                                        : 0;
  if (needs > *least) *least = needs;
  if (status != NEAP_OK) return status;
  struct neap_check_result result;
  return neap_plan_check(step, plan, &result);
}

/* Returns whether this rank has a piece, of the step or else of another program. */
static bool is_planned(const struct neap_session *s, int32_t piece, bool of_step) {
  return is_own(s, piece) && (kind_of_piece(s->pipeline, piece) == PROGRAM_STEP) == of_step;
}

/* Plans the pieces of some programs; all are tried, so that `*least` holds for all. */
static neap_status plan_pieces(struct neap_session *s, bool of_step, uint64_t arena, uint64_t *least) {
  struct pipeline *p = s->pipeline;
  neap_status status = NEAP_OK;
  int32_t left = 0;
  for (int32_t i = 0; i < p->pieces.count; i++) left += is_planned(s, i, of_step);
  for (int32_t i = 0; i < p->pieces.count; i++) {
    if (!is_planned(s, i, of_step)) continue;
    const neap_status made = plan_piece(s, &p->programs[i], arena, plan_seconds(s, left--), least);
    if (made != NEAP_OK && made != NEAP_OVER_BUDGET) return made;
    if (made != NEAP_OK) status = made;
  }
  return status;
}

static neap_status fail_empty(const struct neap_session *s) {
  const struct pipeline_schedule *schedule = &s->pipeline->schedule;
  int32_t busy = 0;
  for (int32_t r = 0; r < schedule->ranks; r++) busy += schedule->task_start[r + 1] > schedule->task_start[r];
  return neap_fail(
      NEAP_UNSUPPORTED,
      "`pipeline` %d: the model's %d blocks make %d parts, which %d ranks run; give `pipeline` %d",
      s->options.pipeline, s->pipeline->chain.stage_count, schedule->part_count, busy, busy);
}

/* Returns the bytes of residents that this rank answers for. */
static uint64_t own_residents(const struct neap_session *s) {
  return s->main->step->resident_bytes - session_others_bytes(s);
}

/* Sets the session's plan, the one with the largest arena of the step's, and what keeping everything takes.
 */
static neap_status set_plan(struct neap_session *s) {
  struct pipeline *p = s->pipeline;
  uint64_t most = 0;
  for (int32_t i = 0; i < p->pieces.end[PROGRAM_STEP]; i++) {
    const struct session_program *program = &p->programs[i];
    uint64_t kept;
    if (program->plan == NULL) continue;
    TRY(neap_step_keep_all_bytes(program->lowered->step, &kept));
    if (kept - program->lowered->step->resident_bytes > most)
      most = kept - program->lowered->step->resident_bytes;
    if (s->plan == NULL || program->plan->arena_bytes > s->plan->arena_bytes) s->plan = program->plan;
  }
  if (s->plan == NULL) return fail_empty(s);
  s->keep_all = own_residents(s) + most;
  return NEAP_OK;
}

/* Plans what is not the step inside its arena or, if that is too small, in what it needs, at most `most`. */
static neap_status plan_others(struct neap_session *s, uint64_t most, uint64_t *least) {
  const neap_status status = plan_pieces(s, false, s->plan->arena_bytes, least);
  return status == NEAP_OVER_BUDGET && *least <= most ? plan_pieces(s, false, *least, least) : status;
}

/* Plans all pieces within `budget`, which the session's residents are part of. `*need`: the bytes that it
 * takes at least, as far as is known. */
static neap_status plan_within(struct neap_session *s, uint64_t budget, uint64_t *need) {
  const uint64_t resident = own_residents(s);
  const bool open = budget == NEAP_BUDGET_MAX || budget == NEAP_BUDGET_MIN;
  uint64_t least = 0;
  *need = resident;
  RETURN_IF(!open && budget <= resident, NEAP_OVER_BUDGET, "%llu bytes are always there",
            (unsigned long long)resident);
  neap_status status = plan_pieces(s, true, open ? budget : budget - resident, &least);
  if (status == NEAP_OK) status = set_plan(s);
  if (status == NEAP_OK) status = plan_others(s, open ? UINT64_MAX : budget - resident, &least);
  if (status == NEAP_OK && budget == NEAP_BUDGET_MIN) {
    s->plan = NULL; /* those of other pieces than the largest may use all of the arena */
    status = plan_pieces(s, true, least, &least);
    if (status == NEAP_OK) status = set_plan(s);
  }
  *need = resident + least;
  return status;
}

/* Sets the budget of the session; for one of the process, without what that takes besides. */
static void set_budget(struct neap_session *s, uint64_t reserve) {
  const neap_session_options *o = &s->options;
  struct pipeline *p = s->pipeline;
  s->budget = o->budget;
  if (o->process_budget == 0) return;
  memory_status_trim();
  const uint64_t nodes = (uint64_t)p->whole[PROGRAM_STEP]->graph->nodes.count;
  p->rest = memory_status_read().resident_bytes + reserve +
            process_growth(nodes, (struct on_disk){NEAP_DISK_NEVER, NEAP_DISK_FOR_AUTO}) + PROCESS_RUN_MARGIN;
  s->budget = o->process_budget > p->rest ? o->process_budget - p->rest : 1;
}

/* Divides the step by the schedule for a budget and plans within another; fails alike on all ranks. */
static neap_status attempt(struct neap_session *s, const struct neap_graph *graph, uint64_t schedule,
                           uint64_t budget, uint64_t *need, uint64_t *lower) {
  forget_pieces(s);
  TRY(schedule_together(s, graph, schedule, lower));
  neap_status status = cut_all(s);
  *need = 0;
  if (status == NEAP_OK) status = plan_within(s, budget, need);
  return collective_share_status(s->options.collective, status);
}

/* A schedule, by a budget for which it is made, and bytes below which no plan of its pieces gets. */
struct rated {
  uint64_t budget, bound;
};

static neap_status bound_pieces(const struct neap_session *s, uint64_t *bound) {
  const struct pipeline *p = s->pipeline;
  uint64_t arena = 0;
  bool any = false;
  for (int32_t i = 0; i < p->pieces.count; i++) {
    uint64_t bytes;
    if (!is_own(s, i)) continue;
    any = any || kind_of_piece(p, i) == PROGRAM_STEP;
    const struct neap_step *step = p->programs[i].lowered->step;
    TRY(plan_memory_bound(step, &bytes));
    if (bytes - step->resident_bytes > arena) arena = bytes - step->resident_bytes;
  }
  if (!any) return fail_empty(s);
  *bound = own_residents(s) + arena;
  return NEAP_OK;
}

/* Finds out whether a moment has come on any rank, the same on all; 0: one that never does. */
static neap_status is_past(const struct neap_session *s, double moment, bool *past) {
  uint64_t late = clock_is_past(moment);
  *past = false;
  if (moment == 0) return NEAP_OK;
  TRY(ranks_most(s->options.collective, &late));
  *past = late > 0;
  return NEAP_OK;
}

/* Lists the schedules of all budgets, from the largest, until the time is up, but one at least; without those
 * in which a rank has nothing to run. Fails if all are such. The caller frees the list, after a failure too.
 */
static neap_status list_schedules(struct neap_session *s, const struct neap_graph *graph, double until,
                                  struct rated **list, int32_t *count) {
  uint64_t lower = NEAP_BUDGET_MAX;
  int32_t room = 0;
  while (lower > 0) {
    struct rated own = {.budget = lower};
    bool late = false;
    if (*count > 0) TRY(is_past(s, until, &late));
    if (late) return NEAP_OK;
    forget_pieces(s);
    neap_status status = schedule_together(s, graph, own.budget, &lower);
    if (status == NEAP_UNSUPPORTED && (lower > 0 || *count > 0)) continue; /* it is so on all ranks */
    TRY(status);
    status = stop_check();
    if (status == NEAP_OK) status = cut_all(s);
    if (status == NEAP_OK) status = bound_pieces(s, &own.bound);
    if (*count == room && status == NEAP_OK) {
      struct rated *more = realloc(*list, (size_t)(room = 2 * room + 16) * sizeof *more);
      if (more == NULL) status = neap_fail(NEAP_OUT_OF_MEMORY, "pipeline: out of memory");
      if (more != NULL) *list = more;
    }
    status = collective_share_status(s->options.collective, status);
    if (status == NEAP_UNSUPPORTED && (lower > 0 || *count > 0)) continue;
    TRY(status);
    TRY(ranks_most(s->options.collective, &own.bound));
    int32_t at = (*count)++;
    for (; at > 0 && (*list)[at - 1].bound > own.bound; at--) (*list)[at] = (*list)[at - 1];
    (*list)[at] = own;
  }
  return NEAP_OK;
}

/* The schedule whose rank with the most bytes needs the least. */
struct least {
  uint64_t budget; /* for which it is made */
  uint64_t bytes;  /* of the rank with the most */
  uint64_t own;    /* of this rank */
  bool planned;    /* the session has its plans */
};

/* Finds it: a piece's own plan may need less than the schedule foresees, so that all that may be it are
 * planned, each in its part of the time; when that is up after one of them, the least so far is taken. Every
 * rank gets the same. */
static neap_status find_least(struct neap_session *s, const struct neap_graph *graph, double until,
                              const struct rated *list, int32_t count, struct least *least) {
  *least = (struct least){.bytes = UINT64_MAX};
  for (int32_t i = 0; i < count && list[i].bound < least->bytes; i++) {
    const double now = clock_seconds();
    uint64_t own, lower;
    bool late = false;
    if (i > 0) TRY(is_past(s, until, &late));
    if (late) break;
    s->pipeline->until = until > 0 ? now + (until - now) / (count - i) : 0;
    TRY(attempt(s, graph, list[i].budget, NEAP_BUDGET_MIN, &own, &lower));
    uint64_t most = own;
    TRY(ranks_most(s->options.collective, &most));
    least->planned = most < least->bytes;
    if (least->planned) *least = (struct least){list[i].budget, most, own, true};
  }
  return NEAP_OK;
}

static neap_status fail_small(const struct neap_session *s, uint64_t need) {
  const uint64_t rest = s->pipeline->rest;
  RETURN_IF(rest > 0, NEAP_OVER_BUDGET,
            "a process budget of %llu bytes is too small: %llu go to code, libraries, graphs and kernels, so "
            "training has %llu; a rank of the pipeline needs %llu",
            (unsigned long long)s->options.process_budget, (unsigned long long)rest,
            (unsigned long long)(s->budget > 1 ? s->budget : 0), (unsigned long long)need);
  return neap_fail(NEAP_OVER_BUDGET,
                   "a budget of %llu bytes is too small for a rank of the pipeline; one of them needs %llu",
                   (unsigned long long)s->budget, (unsigned long long)need);
}

/* Searches for the least with a time limit of its own, if planning has one: half of it to list schedules. */
static neap_status search_least(struct neap_session *s, const struct neap_graph *graph, struct least *least) {
  const double limit = s->options.plan_seconds, now = clock_seconds();
  struct rated *list = NULL;
  int32_t count = 0;
  neap_status status = list_schedules(s, graph, limit > 0 ? now + limit / 2 : 0, &list, &count);
  if (status == NEAP_OK) status = find_least(s, graph, limit > 0 ? now + limit : 0, list, count, least);
  s->pipeline->until = 0;
  free(list);
  return status;
}

/* Takes the schedule of the least bytes, or fails with the most of them that a rank needs. */
static neap_status try_least(struct neap_session *s, const struct neap_graph *graph, uint64_t *smallest) {
  const struct neap_collective *c = s->options.collective;
  const uint64_t rest = s->pipeline->rest;
  struct least least;
  TRY(search_least(s, graph, &least));
  neap_status status = NEAP_OK;
  if (s->budget == NEAP_BUDGET_MIN && least.planned) return NEAP_OK;
  if (least.own > s->budget && s->budget != NEAP_BUDGET_MIN) status = fail_small(s, least.bytes);
  if (smallest != NULL) *smallest = least.bytes + (rest > 0 ? rest + PROCESS_RUN_MARGIN : 0);
  TRY(collective_share_status(c, status));
  uint64_t need, lower;
  status = attempt(s, graph, least.budget, s->budget, &need, &lower);
  if (status != NEAP_OVER_BUDGET) return status;
  /* Quick planning may miss what the search for the least has found. */
  TRY(attempt(s, graph, least.budget, NEAP_BUDGET_MIN, &need, &lower));
  TRY(ranks_most(c, &need));
  if (smallest != NULL) *smallest = need + (rest > 0 ? rest + PROCESS_RUN_MARGIN : 0);
  status = need > s->budget ? fail_small(s, need) : NEAP_OK;
  return collective_share_status(c, status);
}

/* Gives the arena that all pieces fit in: of plans that are within the budget the largest. */
static void take_largest(struct neap_session *s) {
  struct pipeline *p = s->pipeline;
  for (int32_t i = 0; i < p->pieces.count; i++)
    if (p->programs[i].plan != NULL && p->programs[i].plan->arena_bytes > s->plan->arena_bytes)
      s->plan->arena_bytes = p->programs[i].plan->arena_bytes;
}

/* Replaces the costs of the session's plan by those of all parts, a node of several parts counted in each,
 * and of all nodes once. What keeping everything takes is not known where parts recompute. */
static void count_costs(struct neap_session *s) {
  const struct pipeline *p = s->pipeline;
  const struct neap_step *step = p->whole[PROGRAM_STEP]->step;
  double cost = 0;
  for (int32_t i = 0; i < p->pieces.end[PROGRAM_STEP]; i++) {
    const struct neap_plan *plan = p->programs[i].plan;
    if (plan != NULL) cost += plan->cost - plan->base_cost;
    for (int32_t v = 0; v < step->node_count; v++)
      if (p->pieces.pieces[i].nodes[v]) cost += step->nodes[v].cost;
    if (i < p->schedule.part_count && p->schedule.parts[i].recompute) s->keep_all = 0;
  }
  s->plan->cost = cost;
  s->plan->base_cost = step->base_cost;
}

static neap_status describe_stages(struct pipeline *p) {
  p->stages = "";
  for (int32_t i = 0; i < p->schedule.part_count; i++) {
    const struct pipeline_part *part = &p->schedule.parts[i];
    if (part->pass == PIPELINE_FORWARD) continue;
    p->stages = region_format(&p->region, "%s%s%d%s", p->stages, p->stages[0] != '\0' ? "+" : "",
                              (int)(part->end - part->begin), part->recompute ? "r" : "");
    RETURN_IF_NULL(p->stages);
  }
  return NEAP_OK;
}

neap_status pipeline_plan(struct neap_session *s, const struct neap_graph *graph, uint64_t reserve,
                          uint64_t *smallest) {
  const struct neap_collective *c = s->options.collective;
  uint64_t need, lower;
  s->pipeline = calloc(1, sizeof *s->pipeline);
  RETURN_IF_NULL(s->pipeline);
  struct pipeline *p = s->pipeline;
  p->common = pipeline_is_common(s->options.pipeline_way);
  s->options.base_on_disk = NEAP_DISK_NEVER;
  s->variant = s->options.variant == NEAP_VARIANT_AUTO ? NEAP_VARIANT_BASE : s->options.variant;
  neap_status status = budget_share_to_bytes(graph, &s->options); /* of what one process needs */
  if (status == NEAP_OK) status = lower_whole(s, graph);
  if (status == NEAP_OK) status = pipeline_chain(p->whole[PROGRAM_STEP]->step, &p->chain);
  TRY(collective_share_status(c, status));
  set_budget(s, reserve);
  const bool is_min = s->budget == NEAP_BUDGET_MIN;
  status = is_min ? NEAP_OVER_BUDGET : attempt(s, graph, s->budget, s->budget, &need, &lower);
  if (status == NEAP_OVER_BUDGET) status = ranks_share_smallest(c, try_least(s, graph, smallest), smallest);
  TRY(status);
  take_largest(s);
  count_costs(s);
  if (s->budget == NEAP_BUDGET_MAX || s->budget == NEAP_BUDGET_MIN) {
    s->budget = plan_bytes(s->plan) - session_others_bytes(s);
    TRY(ranks_most(c, &s->budget)); /* the one that all meet */
  }
  const size_t micro_batches = (size_t)p->schedule.micro_batches;
  p->shares = region_alloc(&p->region, micro_batches, sizeof *p->shares);
  p->results = region_alloc(&p->region, micro_batches, sizeof *p->results);
  RETURN_IF(!p->shares || !p->results, NEAP_OUT_OF_MEMORY, "pipeline: out of memory");
  return describe_stages(p);
}
void session_pipeline_free(struct neap_session *s) {
  struct pipeline *p = s->pipeline;
  if (p == NULL) return;
  forget_pieces(s);
  pipeline_schedule_free(&p->schedule);
  chain_free(&p->chain);
  for (int kind = PROGRAM_COUNT; kind-- > 0;) lowered_free(p->whole[kind]);
  region_free(&p->region);
  free(p);
  s->pipeline = NULL;
}
const struct lowered *session_whole_step(const struct neap_session *s) {
  return s->pipeline != NULL ? s->pipeline->whole[PROGRAM_STEP] : s->main;
}

const char *session_stages(const struct neap_session *s) {
  return s->pipeline != NULL ? s->pipeline->stages : NULL;
}

uint64_t pipeline_value_bytes(const struct neap_session *s) {
  const struct pipeline *p = s->pipeline;
  uint64_t bytes = 0;
  for (int32_t i = 0; i < p->own_count; i++) bytes += (uint64_t)p->own[i].copies * p->own[i].bytes;
  return bytes;
}

uint64_t pipeline_node_count(const struct neap_session *s) {
  const struct pipeline *p = s->pipeline;
  uint64_t nodes = 0;
  for (int32_t i = 0; i < p->pieces.count; i++)
    if (p->programs[i].lowered != NULL) nodes += p->programs[i].lowered->graph->nodes.count;
  return nodes;
}
