/* Makes schedules from the program: by branch and bound for small steps, by rounding the relaxation for
 * others (Checkmate, section 5). */
#include "papers/checkmate.h"
#include "base/clock.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "papers/checkmate_model.h"
#include "search/clean.h"
#include "search/keep_all.h"
#include "step/simulate.h"

/* ---- Branch and bound ---- */

neap_status checkmate_solve(const neap_step *step, uint64_t budget, const struct milp_limits *limits,
                            struct schedule *out, bool *proved, double *bound) {
  struct checkmate_model model = {0};
  struct milp_outcome outcome = {0};
  double *solution = NULL;
  neap_status status;
  *proved = false;
  *bound = 0;
  RETURN_IF(budget < step->resident_bytes, NEAP_OVER_BUDGET,
            "checkmate: the budget is smaller than the resident tensors");
  TRY_DONE(checkmate_model_create(step, budget, &model));
  solution = malloc((model.milp.cost.count + 1) * sizeof *solution);
  if (solution == NULL) TRY_DONE(neap_fail(NEAP_OUT_OF_MEMORY, "checkmate: out of memory"));
  struct milp_limits scaled = *limits;
  scaled.cutoff = (limits->cutoff - step->base_cost) / model.cost_unit;
  TRY_DONE(milp_solve(&model.milp, &scaled, solution, &outcome));
  *bound = step->base_cost + fmax(outcome.bound, 0) * model.cost_unit;
  *proved = outcome.finished;
  if (outcome.found) {
    struct simulation score;
    TRY_DONE(checkmate_extract(&model, solution, out));
    TRY_DONE(simulate(step, out->nodes.data, (int32_t)out->nodes.count, &score));
    /* The solver's tolerance, or in-place pairs that the simulator does not use in the best way. */
    if (score.peak_bytes > budget) outcome.found = *proved = false;
  }
  if (!outcome.found) {
    out->nodes.count = 0;
    status = neap_fail(NEAP_OVER_BUDGET, "checkmate: no schedule within %llu bytes was found",
                       (unsigned long long)budget);
  }
done:
  free(solution);
  checkmate_model_free(&model);
  return status;
}

/* ---- Rounding ---- */

/* A set of kept values, and the least set of nodes that must run with it. */
struct rounding {
  const struct checkmate_model *m;
  bool *kept, *runs;  /* [nodes + 1, values]; [nodes, nodes] */
  int32_t *update_at; /* by node: the stage in which an update runs */
};

static bool *kept_at(const struct rounding *r, int32_t stage, int32_t value) {
  return &r->kept[(size_t)stage * (size_t)r->m->value_count + (size_t)value];
}

static bool *runs_at(const struct rounding *r, int32_t stage, int32_t v) {
  return &r->runs[(size_t)stage * (size_t)r->m->nodes + (size_t)v];
}

/* Provides a value in a stage: its producer runs there or, failing that, the value is kept. */
static void ask_for(const struct rounding *r, int32_t stage, int32_t value) {
  const int32_t producer = r->m->step->tensors[r->m->value[value]].producer;
  if (*kept_at(r, stage, value)) return;
  if (checkmate_runs(r->m, stage, producer) != CHECKMATE_ZERO && r->update_at[producer] < 0)
    *runs_at(r, stage, producer) = true;
  else if (r->update_at[producer] != stage)
    *kept_at(r, stage, value) = true;
}

/* Fills the stages, last first, and each right to left, in O(stages x reads). An update whose old tensor is
 * read again moves to the last stage with such a read; returns false if one moved. */
static bool fill(const struct rounding *r) {
  const struct checkmate_model *m = r->m;
  const neap_step *step = m->step;
  bool settled = true;
  memset(r->runs, 0, (size_t)m->nodes * (size_t)m->nodes * sizeof *r->runs);
  for (int32_t stage = m->nodes; stage-- > 0;) {
    for (int32_t k = 0; k < m->value_count; k++)
      if (*kept_at(r, stage + 1, k)) ask_for(r, stage, k);
    for (int32_t v = stage; v >= 0; v--) {
      const struct step_node *node = &step->nodes[v];
      if (r->update_at[v] >= 0 ? r->update_at[v] == stage : v == stage) *runs_at(r, stage, v) = true;
      if (!*runs_at(r, stage, v)) continue;
      for (int32_t i = 0; i < node->input_count; i++) {
        const int32_t t = node->inputs[i], updater = step->tensors[t].updater;
        if (m->of[t] >= 0) ask_for(r, stage, m->of[t]);
        if (updater < 0 || updater == v || r->update_at[updater] >= stage) continue;
        r->update_at[updater] = stage;
        settled = false;
      }
    }
  }
  return settled;
}

/* Returns the threshold of a value. The first few rounds use one threshold for all values; the others draw
 * one for each. */
static double threshold_of(int32_t round, int32_t value) {
  static const double same[] = {0.5, 0.3, 0.7, 0.1, 0.9, 0.01};
  uint32_t words[4];
  if (round < (int32_t)(sizeof same / sizeof *same)) return same[round];
  random_philox(0, (uint64_t)round, (uint64_t)value, words);
  return (double)random_uniform(words[0]);
}

/* Makes the schedule that keeps a value if its part in a relaxed solution is above the round's threshold.
 * `done`: false if updates cannot be placed. */
static neap_status round_solution(const struct rounding *r, const double *solution, int32_t round,
                                  struct schedule *out, bool *done) {
  const struct checkmate_model *m = r->m;
  for (int32_t v = 0; v < m->nodes; v++) r->update_at[v] = m->step->nodes[v].update_count > 0 ? v : -1;
  *done = false;
  for (int32_t tries = 0; !*done && tries <= m->nodes; tries++) {
    for (int32_t stage = 0; stage <= m->nodes; stage++)
      for (int32_t k = 0; k < m->value_count; k++) {
        const int32_t kept = checkmate_kept(m, stage, k);
        *kept_at(r, stage, k) =
            kept == CHECKMATE_ONE || (kept >= 0 && solution[kept] > threshold_of(round, k));
      }
    *done = fill(r);
  }
  out->nodes.count = 0;
  for (int32_t stage = 0; *done && stage < m->nodes; stage++)
    for (int32_t v = 0; v <= stage; v++)
      if (*runs_at(r, stage, v)) TRY(vector_push(&out->nodes, v));
  return NEAP_OK;
}

/* ---- The planner ---- */

enum {
  EXACT_SIZE = 4000,    /* columns and rows of programs that are solved, */
  RELAXED_SIZE = 60000, /* and of those that are relaxed */
  BRANCH_LIMIT = 1000,
  ITERATIONS = 3000, /* from one relaxation to the next; the last may take a hundred times the others */
  ROUNDS = 16        /* of one relaxation */
};

struct solving {
  const neap_step *step;
  uint64_t budget;
  enum effort effort;
  double deadline; /* on the clock of clock_seconds(); infinite: none */
  struct simulator simulator;
  struct schedule best; /* the cheapest that fits; else that with the least peak */
  struct simulation score;
};

/* Returns the seconds for the solver: 0 without a deadline, almost none after it. */
static double seconds_left(const struct solving *s) {
  return s->deadline < INFINITY ? fmax(s->deadline - clock_seconds(), 1e-3) : 0;
}

static bool fits(const struct solving *s) {
  return s->best.nodes.count > 0 && s->score.peak_bytes <= s->budget;
}

/* Keeps a schedule, cleaned, if it is better than the best so far. */
static neap_status consider(struct solving *s, const struct schedule *schedule) {
  struct schedule cleaned = {0};
  struct simulation score;
  TRY(simulator_run(&s->simulator, schedule->nodes.data, (int32_t)schedule->nodes.count, &score));
  neap_status status =
      schedule_clean(&s->simulator, score.peak_bytes > s->budget ? score.peak_bytes : s->budget,
                     schedule->nodes.data, (int32_t)schedule->nodes.count, &cleaned, &score);
  const bool fit = score.peak_bytes <= s->budget;
  const bool better =
      s->best.nodes.count == 0 || (fit && !fits(s)) ||
      (fit == fits(s) && (fit ? score.cost < s->score.cost : score.peak_bytes < s->score.peak_bytes));
  if (status == NEAP_OK && better) {
    const struct schedule old = s->best;
    s->best = cleaned;
    s->score = score;
    cleaned = old;
  }
  schedule_free(&cleaned);
  return status;
}

static neap_status rounding_create(struct checkmate_model *m, struct rounding *r) {
  const size_t nodes = (size_t)m->nodes;
  *r = (struct rounding){.m = m};
  r->kept = region_alloc(&m->region, (nodes + 1) * (size_t)m->value_count, sizeof *r->kept);
  r->runs = region_alloc(&m->region, nodes * nodes, sizeof *r->runs);
  r->update_at = region_alloc(&m->region, nodes, sizeof *r->update_at);
  RETURN_IF(r->kept == NULL || r->runs == NULL || r->update_at == NULL, NEAP_OUT_OF_MEMORY,
            "checkmate: out of memory");
  return NEAP_OK;
}

/* Relaxes and rounds with less and less of the budget (their epsilon), until a rounded schedule keeps the
 * real one. */
static neap_status round_down(struct solving *s) {
  struct checkmate_model m = {0};
  struct rounding r;
  struct milp_relaxation *relaxation = NULL;
  struct schedule schedule = {0};
  double *numbers = NULL;
  neap_status status;
  TRY_DONE(checkmate_model_create(s->step, s->budget, &m));
  TRY_DONE(rounding_create(&m, &r));
  TRY_DONE(milp_relaxation_create(&m.milp, &relaxation));
  const size_t columns = m.milp.cost.count;
  numbers = malloc((2 * columns + 1) * sizeof *numbers);
  if (numbers == NULL) TRY_DONE(neap_fail(NEAP_OUT_OF_MEMORY, "checkmate: out of memory"));
  double *solution = numbers, *upper = numbers + columns;
  bool found = true;
  const bool quick = s->effort == EFFORT_QUICK;
  const int32_t stride = quick ? 3 : 1;
  int32_t further = quick ? 0 : 10; /* after the first share that does: a cheaper schedule may come of less */
  for (int32_t i = 0; found && i <= 30 && !(fits(s) && further-- == 0); i += stride) {
    const double share = 1 - 0.02 * i;
    /* Columns that may exceed 1 hold live bytes. */
    for (size_t c = 0; c < columns; c++)
      upper[c] = m.milp.upper.data[c] * (m.milp.upper.data[c] > 1 ? share : 1);
    TRY_DONE(milp_relaxation_solve(relaxation, upper, i == 0 ? INT32_MAX : ITERATIONS, seconds_left(s),
                                   solution, &found));
    for (int32_t round = 0; found && round < ROUNDS; round++) {
      bool done;
      TRY_DONE(round_solution(&r, solution, round, &schedule, &done));
      if (done) TRY_DONE(consider(s, &schedule));
    }
  }
done:
  free(numbers);
  schedule_free(&schedule);
  milp_relaxation_free(relaxation);
  checkmate_model_free(&m);
  return status;
}

static neap_status solve(struct solving *s) {
  const bool known = fits(s);
  const struct milp_limits limits = {
      .nodes = BRANCH_LIMIT, .seconds = seconds_left(s), .cutoff = known ? s->score.cost : INFINITY};
  struct schedule schedule = {0};
  bool proved;
  double bound;
  if (s->effort == EFFORT_QUICK && known) return NEAP_OK;
  neap_status status = checkmate_solve(s->step, s->budget, &limits, &schedule, &proved, &bound);
  if (status == NEAP_OK) status = consider(s, &schedule);
  schedule_free(&schedule);
  return status == NEAP_OVER_BUDGET ? NEAP_OK : status;
}

static neap_status plan_step(struct solving *s, int64_t size) {
  struct schedule order = {0};
  TRY(simulator_create(s->step, &s->simulator));
  neap_status status = plan_keep_all(s->step, UINT64_MAX, NULL, &order);
  if (status == NEAP_OK) status = consider(s, &order);
  schedule_free(&order);
  if (status != NEAP_OK || fits(s)) return status;
  TRY(round_down(s));
  return size <= (s->effort == EFFORT_QUICK ? EXACT_SIZE / 8 : EXACT_SIZE) ? solve(s) : NEAP_OK;
}

neap_status plan_checkmate(const neap_step *step, uint64_t budget, const struct planner_options *options,
                           struct schedule *out) {
  struct solving s = {.step = step,
                      .budget = budget,
                      .effort = options->effort,
                      .deadline = options->deadline > 0 ? options->deadline : INFINITY};
  const int64_t size = checkmate_size(step);
  RETURN_IF(milp_missing() != NULL, NEAP_OVER_BUDGET, "checkmate: %s", milp_missing());
  RETURN_IF(size > RELAXED_SIZE, NEAP_OVER_BUDGET,
            "checkmate: the program of this step has %lld rows and columns, more than %d; it takes steps of "
            "some hundred nodes",
            (long long)size, RELAXED_SIZE);
  RETURN_IF(budget < step->resident_bytes, NEAP_OVER_BUDGET,
            "checkmate: the budget is smaller than the resident tensors");
  neap_status status = plan_step(&s, size);
  if (status == NEAP_OK && !fits(&s))
    status = neap_fail(NEAP_OVER_BUDGET, "checkmate: found no schedule within %llu bytes; the least was %llu",
                       (unsigned long long)budget, (unsigned long long)s.score.peak_bytes);
  if (status == NEAP_OK || status == NEAP_OVER_BUDGET)
    *out = s.best;
  else
    schedule_free(&s.best);
  simulator_free(&s.simulator);
  return status;
}
