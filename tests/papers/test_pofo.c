/* The recurrence of POFO on random chains of numbers: with rates of 0 it is rotor's optimum, with endless
 * ones all is free that stages alone allow, and operations are those of the cost. The planner:
 * test_transfers.c. */
#include <math.h>

#include "effort.h"
#include "papers/pofo.h"
#include "random_step.h"
#include "testing.h"

enum { MOST = 7, SLOTS = 24 };

struct random_chain {
  struct rotor_stage stages[MOST];
  struct rotor_option options[MOST];
  struct rotor_leaf leaves[MOST];
  int32_t input_stored[MOST], inside_stored[MOST];
  struct pofo_chain chain;
  float all; /* the cost of running each stage once */
};

static void make_chain(struct random_chain *r, uint32_t seed, int32_t slots, double rate) {
  uint32_t random = seed * 2654435761u + 1;
  memset(r, 0, sizeof *r);
  const int32_t count = 2 + (int32_t)draw(&random, MOST - 1);
  for (int32_t s = 0; s < count; s++) {
    const int32_t kept = (int32_t)draw(&random, 4), peak = kept + 1 + (int32_t)draw(&random, 3);
    const float forward = (float)(1 + draw(&random, 5)), back = (float)(1 + draw(&random, 9));
    r->options[s] = (struct rotor_option){kept, peak, peak + (int32_t)draw(&random, 3), forward + back};
    r->leaves[s] = (struct rotor_leaf){r->options[s].backward_peak, forward + back};
    r->stages[s] = (struct rotor_stage){
        .input = s == 0 ? 0 : 1 + (int32_t)draw(&random, 3), .gradient = s + 1 < count, .kind = s};
    r->stages[s].modes[0] = (struct rotor_mode){.forward_peak = 1 + (int32_t)draw(&random, 3),
                                                .forward_cost = forward,
                                                .option_count = 1,
                                                .leaf_count = 1,
                                                .options = &r->options[s],
                                                .leaves = &r->leaves[s]};
    r->input_stored[s] = r->stages[s].input;
    r->inside_stored[s] = kept;
    r->all += forward + back;
  }
  r->chain = (struct pofo_chain){.stages = r->stages,
                                 .count = count,
                                 .slots = slots,
                                 .input_stored = r->input_stored,
                                 .inside_stored = r->inside_stored,
                                 .write = rate,
                                 .read = rate};
}

/* Returns the cost, INFINITY for none, and checks that operations run each stage backward once, in order,
 * after it ran forward. */
static float solve(const struct random_chain *r, int *stores) {
  chain_operations operations = {0};
  enum pofo_stored stored[MOST];
  float cost = INFINITY, run = 0;
  const neap_status status = pofo_solve(&r->chain, &cost, &operations, stored);
  assert_true(status == NEAP_OK || status == NEAP_OVER_BUDGET);
  *stores = 0;
  if (status != NEAP_OK) return INFINITY;
  int32_t next = r->chain.count - 1;
  for (size_t i = 0; i < operations.count; i++) {
    const struct chain_operation o = operations.data[i];
    const float forward = r->stages[o.stage].modes[0].forward_cost, both = r->options[o.stage].cost;
    if (o.action == CHAIN_FORWARD || o.action == CHAIN_FORWARD_KEEP) run += forward;
    if (o.action == CHAIN_BACKWARD) run += both - forward;
    if (o.action == CHAIN_LEAF) run += both;
    if (o.action == CHAIN_BACKWARD || o.action == CHAIN_LEAF) assert_int_equal(o.stage, next--);
  }
  assert_int_equal(next, -1);
  for (int32_t s = 0; s < r->chain.count; s++) *stores += stored[s] != POFO_NOTHING;
  assert_true(run <= cost * (1 + 1e-5f)); /* the rest is waiting */
  vector_free(&operations);
  return cost;
}

static float rotor_of(const struct random_chain *r) {
  struct rotor *rotor;
  ASSERT_OK(rotor_create(r->stages, r->chain.count, 1, r->chain.slots, &rotor));
  const float cost = rotor_cost(rotor, r->chain.slots);
  rotor_free(rotor);
  return cost;
}

static void test_no_transfers(void **state) {
  (void)state;
  int again = 0, stores;
  for (uint32_t i = 0; i < (uint32_t)shorten(2000); i++) {
    struct random_chain r;
    make_chain(&r, i, 4 + (int32_t)(i % SLOTS), 0);
    const float cost = solve(&r, &stores), rotor = rotor_of(&r);
    assert_true(cost == rotor || fabsf(cost - rotor) <= 1e-4f * rotor);
    assert_int_equal(stores, 0);
    again += cost > r.all && cost < INFINITY;
  }
  assert_true(again > shorten(2000) / 10);
}

/* Returns the slots in which each stage can run, with all that it keeps, alone. */
static int32_t slots_alone(const struct random_chain *r) {
  int32_t most = 0;
  for (int32_t s = 0; s < r->chain.count; s++) {
    const int32_t before = r->stages[s].input + (s > 0 ? r->options[s - 1].kept : 0),
                  behind = s + 1 < r->chain.count ? r->options[s].kept + r->stages[s + 1].input : 0,
                  peak = r->options[s].backward_peak > behind ? r->options[s].backward_peak : behind;
    if (before + peak > most) most = before + peak;
  }
  return most;
}

static void test_free_transfers(void **state) {
  (void)state;
  int stored = 0;
  for (uint32_t i = 0; i < (uint32_t)shorten(1000); i++) {
    struct random_chain r;
    int stores;
    make_chain(&r, i, SLOTS, INFINITY);
    r.chain.slots = slots_alone(&r);
    r.chain.read = r.chain.write = 1e30;
    assert_true(fabsf(solve(&r, &stores) - r.all) <= 1e-4f * r.all);
    stored += stores > 0;
  }
  assert_true(stored > shorten(1000) / 2);
}

/* A rate between: at least what all runs cost, at most rotor's cost. */
static void test_bounds(void **state) {
  (void)state;
  int cheaper = 0;
  for (uint32_t i = 0; i < (uint32_t)shorten(2000); i++) {
    struct random_chain r;
    int stores;
    make_chain(&r, i, 6 + (int32_t)(i % SLOTS), 0.1 * (1 + i % 20));
    const float cost = solve(&r, &stores), rotor = rotor_of(&r);
    assert_true(cost >= r.all * (1 - 1e-5f) && cost <= rotor * (1 + 1e-5f));
    cheaper += cost < rotor * 0.999f;
    assert_true(cost == rotor || stores > 0 || fabsf(cost - rotor) < 1e-4f * rotor);
  }
  assert_true(cheaper > shorten(2000) / 10);
}

int run_test_pofo(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_no_transfers),
      cmocka_unit_test(test_free_transfers),
      cmocka_unit_test(test_bounds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
