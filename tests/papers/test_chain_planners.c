/* The chain planners against brute force: hong's objectives over all sequences of checkpoints, rotor's tables
 * over all its plans, and random chain-shaped steps whose plans are valid, fit and cost what they say. */
#include "effort.h"
#include "random_step.h"

#include <math.h>

#include "papers/hong.h"
#include "plan/planners.h"
#include "search/chain.h"
#include "search/rotor.h"
#include "step/simulate.h"

/* Sanitizers make everything twenty times slower: fewer cases then. */
/* ---- Hong ---- */

enum { LAYERS = 11 };

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* What lies between checkpoints i and j: all layers after i, to j or before it, and the largest gradient. */
static uint64_t segment(const uint64_t *bytes, int32_t i, int32_t j, bool with_end) {
  uint64_t sum = 0, most = 0;
  for (int32_t k = i; k <= j; k++) most = larger(most, bytes[k]);
  for (int32_t k = i + 1; k < j + with_end; k++) sum += bytes[k];
  return sum + most;
}

/* Both objectives of one sequence, as the layers' lives give them. */
static uint64_t first_objective(const uint64_t *bytes, const uint64_t *kept, const int32_t *chosen,
                                int32_t count) {
  uint64_t sum = 0, most = 0;
  for (int32_t c = 0; c < count; c++) sum += kept[chosen[c]];
  for (int32_t c = 0; c + 1 < count; c++)
    most = larger(most, segment(bytes, chosen[c], chosen[c + 1], false));
  return sum + most;
}

static uint64_t revised_objective(const uint64_t *bytes, const uint64_t *kept, const int32_t *chosen,
                                  int32_t count) {
  uint64_t held = 0, peak = 0; /* checkpoints up to the current segment, whose layers are made again */
  for (int32_t c = 0; c < count; c++) {
    held += kept[chosen[c]];
    peak = larger(peak, held + (c + 1 < count ? segment(bytes, chosen[c], chosen[c + 1], true) : 0));
  }
  return peak;
}

static void test_hong(void **state) {
  (void)state;
  uint32_t random = 12345;
  for (int round = 0; round < shorten(600); round++) {
    const int32_t n = 2 + (int32_t)draw(&random, LAYERS - 1);
    uint64_t bytes[LAYERS], kept[LAYERS], least[2] = {UINT64_MAX, UINT64_MAX}, peak;
    for (int32_t k = 0; k < n; k++) {
      bytes[k] = draw(&random, 1 + (uint32_t)(round % 40));
      kept[k] = round % 2 ? bytes[k] : draw(&random, (uint32_t)bytes[k] + 1);
    }
    int32_t chosen[LAYERS], count;
    for (uint32_t set = 0; set < (uint32_t)1 << (n - 2); set++) {
      count = 0;
      chosen[count++] = 0;
      for (int32_t k = 1; k < n - 1; k++)
        if (set >> (k - 1) & 1) chosen[count++] = k;
      chosen[count++] = n - 1;
      const uint64_t first = first_objective(bytes, kept, chosen, count),
                     revised = revised_objective(bytes, kept, chosen, count);
      if (first < least[0]) least[0] = first;
      if (revised < least[1]) least[1] = revised;
    }
    assert_int_equal(hong_n3_checkpoints(n, bytes, kept, chosen, &count, &peak), NEAP_OK);
    assert_int_equal(peak, least[0]);
    assert_int_equal(first_objective(bytes, kept, chosen, count), peak);
    assert_int_equal(hong_checkpoints(n, bytes, kept, chosen, &count, &peak), NEAP_OK);
    assert_int_equal(peak, least[1]);
    assert_int_equal(revised_objective(bytes, kept, chosen, count), peak);
  }
}

/* ---- Rotor ---- */

enum { STAGES = 5, MODES = 2, CHOICES = 2, SLOTS = 40, LENGTH = 200 };

struct random_chain {
  struct rotor_stage stages[STAGES];
  struct rotor_option options[STAGES][MODES][CHOICES];
  struct rotor_leaf leaves[STAGES][MODES][CHOICES];
  int32_t count;
};

static void random_mode(struct random_chain *chain, int32_t s, int32_t p, uint32_t *random) {
  chain->stages[s].modes[p] = (struct rotor_mode){.held = p == 0 ? 0 : (int32_t)draw(random, 3),
                                                  .forward_peak = (int32_t)draw(random, 9),
                                                  .forward_cost = (float)draw(random, 30),
                                                  .option_count = (int32_t)draw(random, CHOICES + 1),
                                                  .leaf_count = 1 + (int32_t)draw(random, CHOICES),
                                                  .options = chain->options[s][p],
                                                  .leaves = chain->leaves[s][p]};
  for (int32_t k = 0; k < CHOICES; k++) {
    chain->options[s][p][k] = (struct rotor_option){(int32_t)draw(random, 9), (int32_t)draw(random, 12),
                                                    (int32_t)draw(random, 14), (float)draw(random, 60)};
    chain->leaves[s][p][k] = (struct rotor_leaf){(int32_t)draw(random, 20), (float)draw(random, 60)};
  }
}

/* Some stages are of the same kind. */
static void random_chain(struct random_chain *chain, int32_t count, uint32_t *random) {
  const uint32_t kinds = 1 + draw(random, STAGES);
  chain->count = count;
  for (int32_t s = 0; s < count; s++) {
    const int32_t kind = (int32_t)draw(random, kinds);
    int32_t twin = 0;
    while (twin < s && chain->stages[twin].kind != kind) twin++;
    chain->stages[s] = (struct rotor_stage){
        .input = (int32_t)draw(random, 6), .gradient = (int32_t)draw(random, 6), .kind = kind};
    if (twin < s)
      chain->stages[s] = chain->stages[twin];
    else
      for (int32_t p = 0; p < MODES; p++) random_mode(chain, s, p, random);
  }
}

/* One plan, carried out: what is held follows from the operations alone. */
struct execution {
  const struct random_chain *chain;
  const struct chain_operation *operations;
  int32_t length;
  bool boundary[STAGES + 1]; /* s: the input of stage s is held */
  int32_t kept[STAGES];      /* slots */
  int32_t left[STAGES];      /* the mode whose values of the inside are held */
  int32_t next;              /* the stage that goes backward next */
  int32_t peak;
  float cost;
};

/* All that is held and what the operation needs itself. */
static void need(struct execution *x, int32_t own) {
  int32_t sum = own;
  for (int32_t s = 0; s < x->chain->count; s++) {
    if (s > 0 && x->boundary[s]) sum += x->chain->stages[s].input;
    sum += x->kept[s] + x->chain->stages[s].modes[x->left[s]].held;
  }
  if (sum > x->peak) x->peak = sum;
}

/* The next operation on a stage; NULL: none. */
static const struct chain_operation *next_on(const struct execution *x, int32_t from, int32_t stage) {
  for (int32_t i = from; i < x->length; i++)
    if (x->operations[i].stage == stage) return &x->operations[i];
  return NULL;
}

/* Is a stage's input read again before it is made again? */
static bool input_read_again(const struct execution *x, int32_t from, int32_t stage) {
  for (int32_t i = from; i < x->length; i++) {
    const struct chain_operation *o = &x->operations[i];
    if (o->stage == stage) return true;
    if (o->stage == stage - 1 && (o->action == CHAIN_FORWARD || o->action == CHAIN_FORWARD_KEEP))
      return false;
  }
  return false;
}

static void execute_one(struct execution *x, int32_t i) {
  const struct chain_operation o = x->operations[i];
  const struct rotor_stage *stage = &x->chain->stages[o.stage];
  const struct rotor_mode *mode = &stage->modes[o.mode];
  assert_true(x->boundary[o.stage]);
  assert_int_equal(o.mode, x->left[o.stage]);
  const int32_t gradient = x->chain->stages[x->next].gradient;
  if (o.action == CHAIN_FORWARD) {
    x->left[o.stage] = next_on(x, i + 1, o.stage)->mode;
    need(x, mode->forward_peak + gradient);
    x->cost += mode->forward_cost;
    if (!input_read_again(x, i + 1, o.stage)) x->boundary[o.stage] = false;
    x->boundary[o.stage + 1] = true;
  } else if (o.action == CHAIN_FORWARD_KEEP) {
    need(x, mode->options[o.choice].forward_peak + gradient);
    x->cost += mode->options[o.choice].cost;
    x->kept[o.stage] = mode->options[o.choice].kept;
    x->boundary[o.stage + 1] = true;
    need(x, 0);
  } else {
    assert_int_equal(o.stage, x->next--);
    const bool leaf = o.action == CHAIN_LEAF;
    x->kept[o.stage] = 0; /* the peak counts it */
    need(x, leaf ? mode->leaves[o.choice].peak : mode->options[o.choice].backward_peak);
    x->cost += leaf ? mode->leaves[o.choice].cost : 0;
    x->boundary[o.stage] = false;
    x->left[o.stage] = 0;
  }
}

static void execute(struct execution *x, const struct random_chain *chain,
                    const struct chain_operation *operations, int32_t length) {
  *x = (struct execution){
      .chain = chain, .operations = operations, .length = length, .next = chain->count - 1};
  x->boundary[0] = true;
  for (int32_t i = 0; i < length; i++) execute_one(x, i);
  assert_int_equal(x->next, -1);
}

/* All plans: what is still to be done is a stack of operations and of stretches, each of which is replaced by
 * all ways to begin it. */
struct item {
  bool stretch;
  struct chain_operation operation;
  int32_t p, a, b;
};

struct enumeration {
  const struct random_chain *chain;
  struct chain_operation operations[LENGTH];
  float best[SLOTS + 1];
};

static void enumerate(struct enumeration *e, int32_t length, const struct item *todo, int32_t items) {
  if (items == 0) {
    struct execution x;
    execute(&x, e->chain, e->operations, length);
    for (int32_t m = x.peak; m <= SLOTS; m++) e->best[m] = fminf(e->best[m], x.cost);
    return;
  }
  struct item stack[LENGTH];
  const struct item top = todo[items - 1];
  memcpy(stack, todo, (size_t)(items - 1) * sizeof *stack);
  struct item *next = &stack[items - 1];
  if (!top.stretch) {
    e->operations[length] = top.operation;
    enumerate(e, length + 1, stack, items - 1);
    return;
  }
  const struct rotor_mode *mode = &e->chain->stages[top.a].modes[top.p];
  for (int32_t k = 0; top.a == top.b && k < mode->leaf_count; k++) {
    next[0] = (struct item){.operation = {CHAIN_LEAF, top.a, top.p, k}};
    enumerate(e, length, stack, items);
  }
  for (int32_t k = 0; top.a < top.b && k < mode->option_count; k++) {
    next[0] = (struct item){.operation = {CHAIN_BACKWARD, top.a, top.p, k}};
    next[1] = (struct item){true, {0}, top.p, top.a + 1, top.b};
    next[2] = (struct item){.operation = {CHAIN_FORWARD_KEEP, top.a, top.p, k}};
    enumerate(e, length, stack, items + 2);
  }
  for (int32_t q = top.p; q < (top.p == 0 ? MODES : top.p + 1); q++)
    for (int32_t j = top.a + 1; j <= top.b; j++) {
      int32_t used = 0;
      next[used++] = (struct item){true, {0}, q, top.a, j - 1};
      next[used++] = (struct item){true, {0}, top.p, j, top.b};
      for (int32_t s = j; s-- > top.a;)
        next[used++] = (struct item){.operation = {CHAIN_FORWARD, s, top.p, -1}};
      enumerate(e, length, stack, items - 1 + used);
    }
}

static void test_rotor(void **state) {
  (void)state;
  uint32_t random = 777;
  int feasible = 0;
  for (int round = 0; round < shorten(400); round++) {
    struct random_chain chain;
    random_chain(&chain, 1 + round % (round % 20 ? STAGES - 1 : STAGES), &random);
    struct enumeration e = {.chain = &chain};
    for (int32_t m = 0; m <= SLOTS; m++) e.best[m] = INFINITY;
    const struct item all = {true, {0}, 0, 0, chain.count - 1};
    enumerate(&e, 0, &all, 1);
    struct rotor *rotor;
    assert_int_equal(rotor_create(chain.stages, chain.count, MODES, SLOTS, &rotor), NEAP_OK);
    for (int32_t m = 0; m <= SLOTS; m++) {
      assert_true(rotor_cost(rotor, m) == e.best[m]);
      chain_operations operations = {0};
      const neap_status status = rotor_trace(rotor, m, &operations);
      assert_int_equal(status, e.best[m] < INFINITY ? NEAP_OK : NEAP_OVER_BUDGET);
      if (status == NEAP_OK) {
        struct execution x;
        execute(&x, &chain, operations.data, (int32_t)operations.count);
        assert_true(x.cost == e.best[m] && x.peak <= m);
        feasible++;
      }
      vector_free(&operations);
    }
    rotor_free(rotor);
  }
  assert_true(feasible > shorten(2000));
}

/* ---- Steps ---- */

/* Blocks between boundaries of one or two values, some of the same sizes: a block is a few nodes in a row,
 * which the backward part reads here and there, with in-place pairs, workspaces, a skip over the block and
 * updates; some parameters belong to two blocks. */
struct blocks {
  struct step_tensor tensors[STEP_LIMIT];
  struct step_node nodes[STEP_LIMIT];
  int32_t reads[STEP_LIMIT][READ_LIMIT], made[STEP_LIMIT][2], updates[STEP_LIMIT];
  int32_t tensor_count, node_count;
};

static int32_t add_block_tensor(struct blocks *b, neap_role role, uint64_t bytes) {
  b->tensors[b->tensor_count] = (struct step_tensor){.name = "t", .bytes = bytes, .role = role};
  return b->tensor_count++;
}

static struct step_node *add_block_node(struct blocks *b, neap_pass pass, double cost) {
  const int32_t v = b->node_count++;
  b->nodes[v] = (struct step_node){.name = "n",
                                   .op = "Op",
                                   .pass = pass,
                                   .repeatable = pass != NEAP_PASS_UPDATE,
                                   .cost = cost,
                                   .inputs = b->reads[v],
                                   .outputs = b->made[v],
                                   .updates = &b->updates[v]};
  return &b->nodes[v];
}

static void add_read(struct blocks *b, struct step_node *node, int32_t t) {
  b->reads[node - b->nodes][node->input_count++] = t;
}

static void add_output(struct blocks *b, struct step_node *node, int32_t t) {
  b->made[node - b->nodes][node->output_count++] = t;
}

static void add_block_update(struct blocks *b, int32_t gradient, int32_t parameter) {
  struct step_node *update = add_block_node(b, NEAP_PASS_UPDATE, 1);
  add_read(b, update, gradient);
  add_read(b, update, parameter);
  b->updates[update - b->nodes] = parameter;
  update->update_count = 1;
}

static struct neap_step *finish_blocks(struct blocks *b, const char *name, int32_t output) {
  const struct neap_step draft = {.name = name,
                                  .tensor_count = b->tensor_count,
                                  .node_count = b->node_count,
                                  .output_count = 1,
                                  .tensors = b->tensors,
                                  .nodes = b->nodes,
                                  .outputs = &output};
  struct neap_step *step = NULL;
  const neap_status status = step_create(&draft, &step);
  if (status != NEAP_OK) print_error("%s: %s\n", name, neap_error_message());
  assert_int_equal(status, NEAP_OK);
  return step;
}

enum { BLOCKS = 8, DEPTH = 4 };

static struct neap_step *random_blocks(uint32_t seed, int32_t blocks) {
  static struct blocks b;
  static const struct inplace_pair pair = {0, 0};
  memset(&b, 0, sizeof b);
  uint32_t random = seed * 2654435761u + 1;
  int32_t value[BLOCKS][DEPTH + 1], parameter[BLOCKS], depth[BLOCKS], shape[BLOCKS];
  uint64_t bytes[3][DEPTH + 1];
  double cost[3][DEPTH + 1];
  for (int32_t k = 0; k < 3; k++)
    for (int32_t i = 0; i <= DEPTH; i++)
      bytes[k][i] = 1 + draw(&random, 60), cost[k][i] = 1 + draw(&random, 9);
  int32_t before = add_block_tensor(&b, NEAP_ROLE_INPUT, 10);
  for (int32_t k = 0; k < blocks; k++) { /* forward: the last node of a block also reads its input */
    shape[k] = (int32_t)draw(&random, 3);
    depth[k] = 1 + shape[k];
    parameter[k] =
        k > 0 && draw(&random, 6) == 0 ? parameter[k - 1] : add_block_tensor(&b, NEAP_ROLE_PARAMETER, 5);
    const int32_t input = before;
    for (int32_t i = 0; i < depth[k]; i++) {
      struct step_node *node = add_block_node(&b, NEAP_PASS_FORWARD, cost[shape[k]][i]);
      add_read(&b, node, before);
      add_read(&b, node, parameter[k]);
      if (i == depth[k] - 1 && i > 0) add_read(&b, node, input);
      node->workspace = i == 1 ? 13 : 0;
      node->inplace = &pair;
      node->inplace_count = i == 2;
      node->repeatable = draw(&random, 40) != 0;
      before = value[k][i] = add_block_tensor(&b, NEAP_ROLE_VALUE, bytes[shape[k]][i]);
      add_output(&b, node, before);
    }
  }
  int32_t gradient = before;
  for (int32_t k = blocks; k-- > 0;) {
    int32_t sum = -1;
    for (int32_t i = depth[k]; i-- > 0;) {
      struct step_node *node = add_block_node(&b, NEAP_PASS_BACKWARD, 2 * cost[shape[k]][i]);
      add_read(&b, node, gradient);
      add_read(&b, node, parameter[k]);
      if (i > 0 || k > 0) add_read(&b, node, i > 0 ? value[k][i - 1] : value[k - 1][depth[k - 1] - 1]);
      if (shape[k] == 1) add_read(&b, node, value[k][i]);
      node->inplace = &pair;
      node->inplace_count = i == 1;
      gradient = add_block_tensor(&b, NEAP_ROLE_VALUE, bytes[shape[k]][i]);
      add_output(&b, node, gradient);
      if (i == 0) add_output(&b, node, sum = add_block_tensor(&b, NEAP_ROLE_VALUE, 5));
    }
    if (k > 0 && parameter[k - 1] == parameter[k]) continue;
    add_block_update(&b, sum, parameter[k]);
  }
  return finish_blocks(&b, "blocks", gradient);
}

/* Backward values that live where the pass enters each stage, and those of them that the stage leaves alone.
 */
static void expect_gradients(const neap_step *step, const struct chain *chain) {
  for (int32_t s = 0; s < chain->stage_count; s++) {
    uint64_t entering = 0, passing = 0;
    for (int32_t t = 0; t < step->tensor_count; t++) {
      const int32_t producer = step->tensors[t].producer;
      if (producer < chain->cuts.border || chain->stage_of[producer] <= s) continue;
      bool needed = step->tensors[t].is_output, later = needed, touched = false;
      for (int32_t r = step->reader_start[t]; r < step->reader_start[t + 1]; r++) {
        const int32_t reader = chain->stage_of[step->readers[r]];
        needed = needed || reader <= s;
        later = later || reader < s;
        touched = touched || reader == s;
      }
      if (step->tensors[t].is_output && s == 0) touched = true; /* it ends there */
      if (needed) entering += step->tensors[t].bytes;
      if (later && !touched) passing += step->tensors[t].bytes;
    }
    assert_int_equal(chain->stages[s].gradient_bytes, entering);
    assert_int_equal(chain->stages[s].passing_bytes, passing);
  }
}

/* Every node is in one stage; a stage reads of other stages only what the chain's contract allows. */
static void expect_chain(const neap_step *step, const struct chain *chain) {
  int32_t nodes = 0;
  for (int32_t s = 0; s < chain->stage_count; s++)
    for (int32_t i = 0; i < chain_stage_node_count(&chain->stages[s]); i++, nodes++)
      assert_int_equal(chain->stage_of[chain_stage_node(chain, &chain->stages[s], i)], s);
  assert_int_equal(nodes, step->node_count);
  for (int32_t v = 0; v < step->node_count; v++)
    for (int32_t i = 0; i < step->nodes[v].input_count; i++) {
      const int32_t t = step->nodes[v].inputs[i], producer = step->tensors[t].producer;
      if (producer < 0) continue;
      const int32_t from = chain->stage_of[producer], to = chain->stage_of[v];
      if (producer >= chain->cuts.border)
        assert_true(from >= to);
      else
        assert_true(from == to || (chain->cut_of[t] == from && from == to - 1));
    }
}

/* One gradient is read in stage 5, by an update of stage 2, in stage 5 again and in stage 1. */
static void test_gradient_that_returns(void **state) {
  (void)state;
  static struct blocks b;
  memset(&b, 0, sizeof b);
  enum { LONG = 8 };
  int32_t value[LONG], gradient = -1, far = -1, before = add_block_tensor(&b, NEAP_ROLE_INPUT, 4);
  const int32_t weight = add_block_tensor(&b, NEAP_ROLE_PARAMETER, 10);
  for (int32_t s = 0; s < LONG; s++) {
    struct step_node *node = add_block_node(&b, NEAP_PASS_FORWARD, 1);
    add_read(&b, node, before);
    if (s == 2) add_read(&b, node, weight);
    value[s] = before;
    add_output(&b, node, before = add_block_tensor(&b, NEAP_ROLE_VALUE, 10));
  }
  for (int32_t s = LONG; s-- > 0;)
    for (int32_t again = 0; again < (s == 5 ? 2 : 1); again++) {
      if (again > 0) add_block_update(&b, far, weight);
      struct step_node *node = add_block_node(&b, NEAP_PASS_BACKWARD, 1);
      add_read(&b, node, value[s]);
      if (gradient >= 0) add_read(&b, node, gradient);
      if (s == 5 || s == 1) add_read(&b, node, far);
      add_output(&b, node, gradient = add_block_tensor(&b, NEAP_ROLE_VALUE, 10));
      if (s == LONG - 1) add_output(&b, node, far = add_block_tensor(&b, NEAP_ROLE_VALUE, 7));
    }
  neap_step *step = finish_blocks(&b, "returning", gradient);
  struct chain chain;
  assert_int_equal(chain_create(step, INT32_MAX, &chain), NEAP_OK);
  expect_chain(step, &chain);
  expect_gradients(step, &chain);
  chain_free(&chain);
  neap_step_free(step);
}

static void test_steps(void **state) {
  (void)state;
  static const char *const rows[] = {"revolve", "bptt", "hong-n3", "hong", "rotor"};
  int met[5] = {0}, tried = 0;
  for (int round = 0; round < shorten(300); round++) {
    neap_step *step = random_blocks((uint32_t)round + 1, 2 + round % (BLOCKS - 1));
    struct chain chain;
    const neap_status cut = chain_create(step, INT32_MAX, &chain);
    assert_true(cut == NEAP_OK || cut == NEAP_OVER_BUDGET);
    if (cut == NEAP_OK) {
      expect_chain(step, &chain);
      expect_gradients(step, &chain);
    }
    chain_free(&chain);
    struct schedule all = {0};
    struct simulation most;
    const struct planner_options options = {0};
    assert_int_equal(planner_find("keep-all")->plan(step, UINT64_MAX, &options, &all), NEAP_OK);
    assert_int_equal(simulate(step, all.nodes.data, step->node_count, &most), NEAP_OK);
    schedule_free(&all);
    for (int part = 10; cut == NEAP_OK && part >= 4; part -= 2) {
      const uint64_t budget =
          step->resident_bytes + (most.peak_bytes - step->resident_bytes) * (uint64_t)part / 10;
      tried++;
      for (int r = 0; r < 5; r++) {
        struct schedule schedule = {0};
        struct simulation score;
        const neap_status status = planner_find(rows[r])->plan(step, budget, &options, &schedule);
        assert_true(status == NEAP_OK || status == NEAP_OVER_BUDGET);
        if (schedule.nodes.count > 0)
          assert_int_equal(simulate(step, schedule.nodes.data, (int32_t)schedule.nodes.count, &score),
                           NEAP_OK);
        if (status == NEAP_OK) assert_true(score.peak_bytes <= budget);
        if (strcmp(rows[r], "rotor") == 0 && part == 10)
          assert_true(status == NEAP_OK && score.recomputed == 0);
        met[r] += status == NEAP_OK;
        schedule_free(&schedule);
      }
    }
    neap_step_free(step);
  }
  for (int r = 0; r < 5; r++) print_message("%s meets %d of %d budgets\n", rows[r], met[r], tried);
  for (int r = 0; r < 5; r++) assert_true(met[4] >= met[r] && 4 * met[r] > tried);
}

/* A recurrent network: at each time step a cell a layer, which reads the state (h, c) of the time before and
 * h of the layer below; a sum of losses goes along. All states of one time and the sum cross between times
 * together. The gradients of the layers' parameters, which all times share, are summed up on the way back. */
enum { TIMES = 12, CELLS = 2 };

static struct neap_step *recurrent_step(void) {
  static struct blocks b;
  memset(&b, 0, sizeof b);
  int32_t h[TIMES + 1][CELLS], c[TIMES + 1][CELLS], weight[CELLS], loss = -1;
  const int32_t input = add_block_tensor(&b, NEAP_ROLE_INPUT, 50);
  for (int32_t l = 0; l < CELLS; l++) {
    weight[l] = add_block_tensor(&b, NEAP_ROLE_PARAMETER, 30);
    h[0][l] = c[0][l] = input;
  }
  for (int32_t t = 1; t <= TIMES; t++) {
    for (int32_t l = 0; l < CELLS; l++) {
      struct step_node *gates = add_block_node(&b, NEAP_PASS_FORWARD, 10),
                       *cell = add_block_node(&b, NEAP_PASS_FORWARD, 2);
      add_read(&b, gates, l == 0 ? input : h[t][l - 1]);
      add_read(&b, gates, h[t - 1][l]);
      add_read(&b, gates, weight[l]);
      const int32_t made = add_block_tensor(&b, NEAP_ROLE_VALUE, 80);
      add_output(&b, gates, made);
      add_read(&b, cell, made);
      add_read(&b, cell, c[t - 1][l]);
      add_output(&b, cell, h[t][l] = add_block_tensor(&b, NEAP_ROLE_VALUE, 20));
      add_output(&b, cell, c[t][l] = add_block_tensor(&b, NEAP_ROLE_VALUE, 20));
    }
    struct step_node *sum = add_block_node(&b, NEAP_PASS_FORWARD, 1);
    if (loss >= 0) add_read(&b, sum, loss);
    add_read(&b, sum, h[t][CELLS - 1]);
    add_output(&b, sum, loss = add_block_tensor(&b, NEAP_ROLE_VALUE, 1));
  }
  const int32_t forward = b.node_count;
  int32_t before[CELLS] = {-1, -1}, sums[CELLS] = {-1, -1};
  for (int32_t t = TIMES; t >= 1; t--)
    for (int32_t l = CELLS, above = -1; l-- > 0;) {
      const struct step_node *cell = &b.nodes[(t - 1) * (2 * CELLS + 1) + 2 * l + 1];
      struct step_node *node = add_block_node(&b, NEAP_PASS_BACKWARD, 20);
      add_read(&b, node, cell->inputs[0]);
      add_read(&b, node, c[t - 1][l]);
      add_read(&b, node, h[t - 1][l]);
      if (above >= 0) add_read(&b, node, above);
      if (before[l] >= 0) add_read(&b, node, before[l]);
      if (above < 0 && before[l] < 0) add_read(&b, node, loss);
      above = add_block_tensor(&b, NEAP_ROLE_VALUE, 20);
      before[l] = add_block_tensor(&b, NEAP_ROLE_VALUE, 40);
      add_output(&b, node, above);
      add_output(&b, node, before[l]);
      struct step_node *sum = add_block_node(&b, NEAP_PASS_BACKWARD, 5);
      add_read(&b, sum, above);
      if (sums[l] >= 0) add_read(&b, sum, sums[l]);
      sums[l] = add_block_tensor(&b, NEAP_ROLE_VALUE, 30);
      add_output(&b, sum, sums[l]);
    }
  assert_true(forward < b.node_count);
  for (int32_t l = 0; l < CELLS; l++) { add_block_update(&b, sums[l], weight[l]); }
  return finish_blocks(&b, "recurrent", loss);
}

static void test_recurrent(void **state) {
  (void)state;
  static const char *const rows[] = {"revolve", "bptt",      "hong-n3",    "hong",
                                     "rotor",   "chen-sqrt", "chen-greedy"};
  neap_step *step = recurrent_step();
  struct chain chain;
  assert_int_equal(chain_create(step, INT32_MAX, &chain), NEAP_OK);
  expect_chain(step, &chain);
  assert_true(chain.stage_count >= TIMES - 1 && chain.stage_count <= TIMES);
  assert_true(chain.class_count <= 5); /* two at either end, and all between them */
  chain_free(&chain);
  const struct planner_options options = {0};
  struct schedule schedule = {0};
  struct simulation score;
  assert_int_equal(planner_find("keep-all")->plan(step, UINT64_MAX, &options, &schedule), NEAP_OK);
  assert_int_equal(simulate(step, schedule.nodes.data, step->node_count, &score), NEAP_OK);
  const uint64_t budget = step->resident_bytes + (score.peak_bytes - step->resident_bytes) / 2;
  schedule_free(&schedule);
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    assert_int_equal(planner_find(rows[r])->plan(step, budget, &options, &schedule), NEAP_OK);
    assert_int_equal(simulate(step, schedule.nodes.data, (int32_t)schedule.nodes.count, &score), NEAP_OK);
    assert_true(score.peak_bytes <= budget);
    schedule_free(&schedule);
  }
  neap_step_free(step);
}

/* The first node makes a second value that only the last forward node reads: with `skip`, nothing is crossed
 * by one value alone. A chain planner says so, under any budget. */
static neap_step *skipping_step(bool skip) {
  static struct blocks b;
  memset(&b, 0, sizeof b);
  enum { NODES = 6 };
  int32_t value[NODES], second = -1, gradient = -1, before = add_block_tensor(&b, NEAP_ROLE_INPUT, 4);
  for (int32_t v = 0; v < NODES; v++) {
    struct step_node *node = add_block_node(&b, NEAP_PASS_FORWARD, 1);
    add_read(&b, node, before);
    if (v == NODES - 1 && skip) add_read(&b, node, second);
    add_output(&b, node, before = value[v] = add_block_tensor(&b, NEAP_ROLE_VALUE, 10));
    if (v == 0 && skip) add_output(&b, node, second = add_block_tensor(&b, NEAP_ROLE_VALUE, 10));
  }
  for (int32_t v = NODES; v-- > 1;) {
    struct step_node *node = add_block_node(&b, NEAP_PASS_BACKWARD, 2);
    add_read(&b, node, value[v - 1]);
    if (gradient >= 0) add_read(&b, node, gradient);
    add_output(&b, node, gradient = add_block_tensor(&b, NEAP_ROLE_VALUE, 10));
  }
  return finish_blocks(&b, "skipping", gradient);
}

static void test_no_cut(void **state) {
  (void)state;
  static const char *const rows[] = {"revolve", "bptt", "hong-n3", "hong", "rotor"};
  const struct planner_options options = {0};
  for (int skip = 0; skip < 2; skip++) {
    neap_step *step = skipping_step(skip);
    for (int r = 0; r < 5; r++) {
      struct schedule schedule = {0};
      const neap_status status = planner_find(rows[r])->plan(step, UINT64_MAX, &options, &schedule);
      assert_int_equal(status, skip ? NEAP_OVER_BUDGET : NEAP_OK);
      if (skip) assert_non_null(strstr(neap_error_message(), "the graph has no cut: "));
      schedule_free(&schedule);
    }
    neap_step_free(step);
  }
}

int run_test_chain_planners(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_hong),   cmocka_unit_test(test_rotor),
      cmocka_unit_test(test_steps),  cmocka_unit_test(test_recurrent),
      cmocka_unit_test(test_no_cut), cmocka_unit_test(test_gradient_that_returns)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
