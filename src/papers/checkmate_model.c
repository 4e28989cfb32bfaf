/* The program: its columns and rows. Live bytes are counted by events. In a stage, a value lives from its
 * start (if kept) or from the run of its producer to its last reader there, or to the end if it is kept on.
 * `live` of a reader says whether the value lives during that reader's slot. It is at least the reader's run
 * and the `live` of the next reader, so its least value is exactly that, and no product of variables is
 * needed (where Checkmate has FREE, section 4.4). */
#include <math.h>
#include <string.h>

#include "papers/checkmate_model.h"

enum { ZERO = CHECKMATE_ZERO, ONE = CHECKMATE_ONE };

/* Bytes are counted in thousandths of the budget for values. */
#define BUDGET_UNITS 1000.0

struct building {
  struct checkmate_model *m;
  const neap_step *step;
  double byte_unit;
  bool *useful;        /* by value: something from the current stage on may read it */
  int32_t *live;       /* by place in step->readers: whether the value lives at that reader's slot */
  int32_t *first_live; /* by value: of its first reader in the stage; with none, whether it is kept on */
};

/* ---- Columns ---- */

static int32_t *runs_at(struct checkmate_model *m, int32_t stage, int32_t node) {
  return &m->runs[(size_t)stage * (size_t)m->nodes + (size_t)node];
}

static int32_t *kept_at(struct checkmate_model *m, int32_t stage, int32_t value) {
  return &m->kept[(size_t)stage * (size_t)m->value_count + (size_t)value];
}

static bool can_repeat(const struct step_node *node) { return node->repeatable && node->update_count == 0; }

/* Returns true if the update may wait: only for values that can be made again from the tensors it changes. */
static bool may_wait(const neap_step *step, int32_t v) {
  const struct step_node *node = &step->nodes[v];
  for (int32_t u = 0; u < node->update_count; u++) {
    const int32_t t = node->updates[u];
    for (int32_t r = step->reader_start[t]; r < step->reader_start[t + 1]; r++)
      if (step->readers[r] != v && can_repeat(&step->nodes[step->readers[r]])) return true;
  }
  return false;
}

/* Finds the values that a node in a stage from `stage` on may read, directly or to make another one again. */
static void find_useful(struct building *b, int32_t stage) {
  const neap_step *step = b->step;
  for (int32_t k = 0; k < b->m->value_count; k++) b->useful[k] = step->tensors[b->m->value[k]].is_output;
  for (int32_t v = step->node_count; v-- > 0;) {
    const struct step_node *node = &step->nodes[v];
    bool reads = v >= stage || may_wait(step, v);
    for (int32_t i = 0; !reads && i < node->output_count; i++)
      reads = can_repeat(node) && b->useful[b->m->of[node->outputs[i]]];
    for (int32_t i = 0; reads && i < node->input_count; i++)
      if (b->m->of[node->inputs[i]] >= 0) b->useful[b->m->of[node->inputs[i]]] = true;
  }
}

static neap_status add_run(struct building *b, int32_t stage, int32_t v) {
  const struct step_node *node = &b->step->nodes[v];
  int32_t *place = runs_at(b->m, stage, v);
  *place = ZERO;
  if (node->update_count > 0 && may_wait(b->step, v))
    return milp_add_column(&b->m->milp, 0, 1, 0, true, place);
  if (v == stage) {
    *place = ONE;
    return NEAP_OK;
  }
  bool wanted = false;
  for (int32_t i = 0; i < node->output_count; i++) wanted = wanted || b->useful[b->m->of[node->outputs[i]]];
  if (!wanted || !can_repeat(node)) return NEAP_OK;
  return milp_add_column(&b->m->milp, 0, 1, node->cost / b->m->cost_unit, true, place);
}

static neap_status add_columns(struct building *b) {
  struct checkmate_model *m = b->m;
  for (int32_t stage = 0; stage <= m->nodes; stage++) {
    find_useful(b, stage);
    for (int32_t v = 0; v <= stage && stage < m->nodes; v++) TRY(add_run(b, stage, v));
    for (int32_t k = 0; k < m->value_count; k++) {
      const struct step_tensor *tensor = &b->step->tensors[m->value[k]];
      *kept_at(m, stage, k) = ZERO;
      if (stage == m->nodes)
        *kept_at(m, stage, k) = tensor->is_output ? ONE : ZERO;
      else if (tensor->producer < stage && b->useful[k])
        TRY(milp_add_column(&m->milp, 0, 1, 0, true, kept_at(m, stage, k)));
    }
  }
  return NEAP_OK;
}

/* ---- Rows ---- */

/* Adds a term to the current row; a constant's part is subtracted from the row's bounds. */
static neap_status add_term(struct building *b, int32_t variable, double value) {
  struct milp *milp = &b->m->milp;
  if (variable == ZERO) return NEAP_OK;
  if (variable >= 0) return milp_add_term(milp, variable, value);
  milp->row_lower.data[milp->row_lower.count - 1] -= value;
  milp->row_upper.data[milp->row_upper.count - 1] -= value;
  return NEAP_OK;
}

/* x <= y + z */
static neap_status add_implied(struct building *b, int32_t x, int32_t y, int32_t z) {
  if (x == ZERO || y == ONE || z == ONE) return NEAP_OK;
  TRY(milp_add_row(&b->m->milp, -INFINITY, 0));
  TRY(add_term(b, x, 1));
  TRY(add_term(b, y, -1));
  return add_term(b, z, -1);
}

/* x + y <= 1 */
static neap_status add_exclusive(struct building *b, int32_t x, int32_t y) {
  if (x == ZERO || y == ZERO) return NEAP_OK;
  TRY(milp_add_row(&b->m->milp, -INFINITY, 1));
  TRY(add_term(b, x, 1));
  return add_term(b, y, 1);
}

/* Adds the rules of a stage: a node that runs has its inputs; a value that is kept on exists; a value that is
 * made again was not kept; an updated tensor is not read after its update (equations 1b to 1d). */
static neap_status add_stage_rules(struct building *b, int32_t stage) {
  struct checkmate_model *m = b->m;
  for (int32_t v = 0; v <= stage; v++) {
    const struct step_node *node = &b->step->nodes[v];
    const int32_t run = *runs_at(m, stage, v);
    for (int32_t i = 0; i < node->input_count; i++) {
      const int32_t t = node->inputs[i], k = m->of[t], updater = b->step->tensors[t].updater;
      if (k >= 0) {
        const int32_t producer = b->step->tensors[t].producer;
        TRY(add_implied(b, run, *kept_at(m, stage, k), *runs_at(m, stage, producer)));
      } else if (updater >= 0 && updater != v && run != ZERO) {
        TRY(milp_add_row(&m->milp, -INFINITY, 1));
        TRY(add_term(b, run, 1));
        for (int32_t before = updater; before < stage; before++)
          TRY(add_term(b, *runs_at(m, before, updater), 1));
      }
    }
  }
  for (int32_t k = 0; k < m->value_count; k++) {
    const int32_t producer = b->step->tensors[m->value[k]].producer;
    const int32_t made = producer <= stage ? *runs_at(m, stage, producer) : ZERO;
    TRY(add_implied(b, *kept_at(m, stage + 1, k), *kept_at(m, stage, k), made));
    TRY(add_exclusive(b, *kept_at(m, stage, k), made));
  }
  return NEAP_OK;
}

static neap_status add_once(struct building *b) {
  for (int32_t v = 0; v < b->m->nodes; v++) {
    if (*runs_at(b->m, v, v) == ONE) continue;
    TRY(milp_add_row(&b->m->milp, 1, 1));
    for (int32_t stage = v; stage < b->m->nodes; stage++) TRY(add_term(b, *runs_at(b->m, stage, v), 1));
  }
  return NEAP_OK;
}

/* ---- Memory ---- */

/* Gives the least variable that is at least x and at least y. */
static neap_status either(struct building *b, int32_t x, int32_t y, int32_t *out) {
  *out = x == ONE || y == ZERO ? x : y;
  if (x == ONE || y == ONE || x == ZERO || y == ZERO) return NEAP_OK;
  TRY(milp_add_column(&b->m->milp, 0, 1, 0, false, out));
  TRY(add_implied(b, x, *out, ZERO));
  return add_implied(b, y, *out, ZERO);
}

/* Adds `live` for the readers of all values in a stage, last first. */
static neap_status add_lives(struct building *b, int32_t stage) {
  const neap_step *step = b->step;
  for (int32_t k = 0; k < b->m->value_count; k++) {
    const int32_t t = b->m->value[k];
    int32_t live = *kept_at(b->m, stage + 1, k);
    for (int32_t r = step->reader_start[t + 1]; r-- > step->reader_start[t];) {
      if (step->readers[r] <= stage) TRY(either(b, *runs_at(b->m, stage, step->readers[r]), live, &live));
      b->live[r] = live;
    }
    b->first_live[k] = live;
  }
  return NEAP_OK;
}

/* Returns the variable that says whether the value lives after a reader's slot. */
static int32_t live_after(const struct building *b, int32_t stage, int32_t t, int32_t reader) {
  const neap_step *step = b->step;
  for (int32_t r = step->reader_start[t]; r < step->reader_start[t + 1]; r++)
    if (step->readers[r] > reader && step->readers[r] <= stage) return b->live[r];
  return *kept_at(b->m, stage + 1, b->m->of[t]);
}

static bool pairs_clash(const struct step_node *node, int32_t p, int32_t q) {
  return node->inplace[q].output == node->inplace[p].output ||
         node->inputs[node->inplace[q].input] == node->inputs[node->inplace[p].input];
}

/* Adds columns, in saved[pair], that say which in-place pairs a running node uses. An output takes over one
 * input, an input is taken over once, and only when it ends; pairs are tried in their order. */
static neap_status add_pairs(struct building *b, int32_t stage, int32_t v, int32_t *saved) {
  const neap_step *step = b->step;
  const struct step_node *node = &step->nodes[v];
  const int32_t run = *runs_at(b->m, stage, v);
  for (int32_t p = 0; p < node->inplace_count; p++) {
    const int32_t in = node->inputs[node->inplace[p].input], out = node->outputs[node->inplace[p].output];
    saved[p] = ZERO;
    if (b->m->of[in] < 0 || step->tensors[in].bytes < step->tensors[out].bytes) continue;
    const int32_t after = live_after(b, stage, in, v);
    if (after == ONE) continue;
    TRY(milp_add_column(&b->m->milp, 0, 1, 0, false, &saved[p]));
    TRY(add_implied(b, saved[p], run, ZERO));
    TRY(add_exclusive(b, saved[p], after));
    for (int32_t q = 0; q < p; q++)
      if (pairs_clash(node, p, q)) TRY(add_exclusive(b, saved[p], saved[q]));
    /* The first that can be used is: after + saved[p] + those that stand in its way >= run. */
    TRY(milp_add_row(&b->m->milp, 0, INFINITY));
    TRY(add_term(b, run, -1));
    TRY(add_term(b, after, 1));
    for (int32_t q = 0; q <= p; q++)
      if (pairs_clash(node, p, q)) TRY(add_term(b, saved[q], 1));
  }
  return NEAP_OK;
}

static double bytes_of(const struct building *b, int32_t t) {
  return (double)b->step->tensors[t].bytes * b->byte_unit;
}

/* Adds the bytes that a node needs at its slot besides the values: workspace, less the bytes that are
 * overwritten. */
static neap_status add_beside(struct building *b, int32_t stage, int32_t v, const int32_t *saved,
                              double sign) {
  const struct step_node *node = &b->step->nodes[v];
  if (node->workspace > 0)
    TRY(add_term(b, *runs_at(b->m, stage, v), sign * (double)node->workspace * b->byte_unit));
  for (int32_t p = 0; p < node->inplace_count; p++)
    TRY(add_term(b, saved[p], -sign * bytes_of(b, node->outputs[node->inplace[p].output])));
  return NEAP_OK;
}

/* Adds the changes of live values between a node's slot and the next: its outputs go from made to read later,
 * its inputs from this reader to the next. */
static neap_status add_changes_after(struct building *b, int32_t stage, int32_t v) {
  const neap_step *step = b->step;
  const struct step_node *node = &step->nodes[v];
  for (int32_t i = 0; i < node->output_count; i++) {
    const int32_t t = node->outputs[i], k = b->m->of[t];
    TRY(add_term(b, *kept_at(b->m, stage, k), -bytes_of(b, t)));
    TRY(add_term(b, *runs_at(b->m, stage, v), -bytes_of(b, t)));
    TRY(add_term(b, b->first_live[k], bytes_of(b, t)));
  }
  for (int32_t i = 0; i < node->input_count; i++) {
    const int32_t t = node->inputs[i];
    bool seen = b->m->of[t] < 0;
    for (int32_t j = 0; j < i; j++) seen = seen || node->inputs[j] == t;
    if (seen) continue;
    for (int32_t r = step->reader_start[t]; r < step->reader_start[t + 1]; r++)
      if (step->readers[r] == v) TRY(add_term(b, b->live[r], -bytes_of(b, t)));
    TRY(add_term(b, live_after(b, stage, t, v), bytes_of(b, t)));
  }
  return NEAP_OK;
}

/* Adds a column for the live bytes at each slot of a stage, at most the budget: the bytes of the slot before
 * and the changes between. */
static neap_status add_stage_memory(struct building *b, int32_t stage, int32_t *pairs[2]) {
  struct checkmate_model *m = b->m;
  int32_t before = -1, before_column = -1;
  TRY(add_lives(b, stage));
  for (int32_t v = 0; v <= stage; v++) {
    if (*runs_at(m, stage, v) == ZERO) continue;
    int32_t column;
    TRY(add_pairs(b, stage, v, pairs[1]));
    TRY(milp_add_column(&m->milp, 0, BUDGET_UNITS, 0, false, &column));
    TRY(milp_add_row(&m->milp, 0, 0));
    TRY(milp_add_term(&m->milp, column, -1));
    if (before < 0) {
      for (int32_t k = 0; k < m->value_count; k++) {
        const int32_t producer = b->step->tensors[m->value[k]].producer;
        const bool made = producer <= stage && *runs_at(m, stage, producer) != ZERO;
        if (producer < stage)
          TRY(add_term(b, made ? *kept_at(m, stage, k) : b->first_live[k], bytes_of(b, m->value[k])));
      }
    } else {
      TRY(milp_add_term(&m->milp, before_column, 1));
      TRY(add_beside(b, stage, before, pairs[0], -1));
      TRY(add_changes_after(b, stage, before));
    }
    for (int32_t i = 0; i < b->step->nodes[v].output_count; i++)
      TRY(add_term(b, *runs_at(m, stage, v), bytes_of(b, b->step->nodes[v].outputs[i])));
    TRY(add_beside(b, stage, v, pairs[1], 1));
    before = v;
    before_column = column;
    int32_t *swap = pairs[0];
    pairs[0] = pairs[1];
    pairs[1] = swap;
  }
  return NEAP_OK;
}

/* ---- The program ---- */

int64_t checkmate_size(const neap_step *step) {
  const int64_t nodes = step->node_count;
  int64_t size = 0;
  for (int64_t v = 0; v < nodes; v++) {
    const struct step_node *node = &step->nodes[v];
    size += (nodes - v) * (2 + 2 * (int64_t)node->output_count + 2 * (int64_t)node->input_count);
  }
  return size;
}

static neap_status number_values(struct checkmate_model *m) {
  const neap_step *step = m->step;
  m->value = region_alloc(&m->region, (size_t)step->tensor_count, sizeof *m->value);
  m->of = region_alloc(&m->region, (size_t)step->tensor_count, sizeof *m->of);
  RETURN_IF(m->value == NULL || m->of == NULL, NEAP_OUT_OF_MEMORY, "checkmate: out of memory");
  for (int32_t t = 0; t < step->tensor_count; t++) {
    m->of[t] = step->tensors[t].role == NEAP_ROLE_VALUE ? m->value_count : -1;
    if (m->of[t] >= 0) m->value[m->value_count++] = t;
  }
  return NEAP_OK;
}

neap_status checkmate_model_create(const neap_step *step, uint64_t budget, struct checkmate_model *m) {
  const size_t nodes = (size_t)step->node_count;
  *m = (struct checkmate_model){.step = step, .nodes = step->node_count};
  m->cost_unit = step->base_cost > 0 ? step->base_cost / BUDGET_UNITS : 1;
  TRY(number_values(m));
  int32_t pair_count = 0;
  for (size_t v = 0; v < nodes; v++)
    if (step->nodes[v].inplace_count > pair_count) pair_count = step->nodes[v].inplace_count;
  struct building b = {.m = m, .step = step};
  int32_t *pairs[2];
  m->runs = region_alloc(&m->region, nodes * nodes, sizeof *m->runs);
  m->kept = region_alloc(&m->region, (nodes + 1) * (size_t)m->value_count, sizeof *m->kept);
  b.useful = region_alloc(&m->region, (size_t)m->value_count, sizeof *b.useful);
  b.live = region_alloc(&m->region, (size_t)step->reader_start[step->tensor_count], sizeof *b.live);
  b.first_live = region_alloc(&m->region, (size_t)m->value_count, sizeof *b.first_live);
  pairs[0] = region_alloc(&m->region, (size_t)pair_count, sizeof **pairs);
  pairs[1] = region_alloc(&m->region, (size_t)pair_count, sizeof **pairs);
  RETURN_IF(!m->runs || !m->kept || !b.useful || !b.live || !b.first_live || !pairs[0] || !pairs[1],
            NEAP_OUT_OF_MEMORY, "checkmate: out of memory");
  const uint64_t limit = budget - step->resident_bytes;
  b.byte_unit = BUDGET_UNITS / (limit > 0 ? (double)limit : 1);
  TRY(add_columns(&b));
  TRY(add_once(&b));
  for (int32_t stage = 0; stage < m->nodes; stage++) {
    TRY(add_stage_rules(&b, stage));
    TRY(add_stage_memory(&b, stage, pairs));
  }
  return NEAP_OK;
}

void checkmate_model_free(struct checkmate_model *m) {
  milp_free(&m->milp);
  region_free(&m->region);
}

neap_status checkmate_extract(const struct checkmate_model *m, const double *solution, struct schedule *out) {
  out->nodes.count = 0;
  for (int32_t stage = 0; stage < m->nodes; stage++)
    for (int32_t v = 0; v <= stage; v++) {
      const int32_t run = checkmate_runs(m, stage, v);
      if (run == ONE || (run >= 0 && solution[run] > 0.5)) TRY(vector_push(&out->nodes, v));
    }
  return NEAP_OK;
}
