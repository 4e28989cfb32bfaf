/* Random training steps of several families, for tests of everything that plans. */
#ifndef NEAP_TESTS_RANDOM_STEP_H
#define NEAP_TESTS_RANDOM_STEP_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "step/plan.h"
#include "step/simulate.h"
#include "step/step.h"
#include "step_families.h"
#include "testing.h"

enum family {
  FAMILY_CHAIN,
  FAMILY_LAYERED,
  FAMILY_U,
  FAMILY_DENSE,
  FAMILY_TELLING, /* a chain whose updates come early and have outputs, which backward nodes may read */
  FAMILY_ORDERED, /* a chain in which each update reads what the next one changes, and so comes before it */
  FAMILY_COUNT
};
enum { STEP_LIMIT = 400, READ_LIMIT = 6 };

/* What a forward node reads besides the one before it. */
static inline int32_t second_input(enum family family, int32_t v, int32_t forward, uint32_t *random) {
  if (v < 2) return -1;
  switch (family) {
  case FAMILY_LAYERED:
    return (int32_t)draw(random, 3) == 0 ? v - 2 - (int32_t)draw(random, (uint32_t)(v < 6 ? v - 1 : 5)) : -1;
  case FAMILY_U:
    return v > forward / 2 && forward - 1 - v < v - 1 ? forward - 1 - v : -1;
  case FAMILY_DENSE:
    return (int32_t)draw(random, (uint32_t)v - 1);
  default:
    return -1;
  }
}

/* forward + backward nodes and an update for every third: values 0 .. 2 forward - 1, then parameters and an
 * input, then what updates tell. */
static inline struct neap_step *random_step(enum family family, int32_t forward, uint32_t seed) {
  static struct step_tensor tensors[STEP_LIMIT];
  static struct step_node nodes[STEP_LIMIT];
  static int32_t reads[STEP_LIMIT][READ_LIMIT], made[STEP_LIMIT], updates[STEP_LIMIT], partner[STEP_LIMIT],
      outputs[2];
  static const struct inplace_pair pair = {0, 0};
  uint32_t random = seed * 2654435761u + 1;
  struct neap_step draft = {.name = "random", .tensors = tensors, .nodes = nodes, .outputs = outputs};
  const int32_t values = 2 * forward, input = values, parameter = values + 1;
  int32_t told = -1; /* what the last update made, until it is read */
  memset(nodes, 0, sizeof nodes);
  for (int32_t t = 0; t < values; t++)
    tensors[t] = (struct step_tensor){.name = "v", .bytes = 1 + draw(&random, 100), .role = NEAP_ROLE_VALUE};
  tensors[input] = (struct step_tensor){.name = "x", .bytes = draw(&random, 50), .role = NEAP_ROLE_INPUT};
  for (int32_t i = 0; i < forward; i++)
    tensors[parameter + i] =
        (struct step_tensor){.name = "w", .bytes = draw(&random, 9), .role = NEAP_ROLE_PARAMETER};
  draft.tensor_count = parameter + forward;
  for (int32_t v = 0; v < 2 * forward; v++) {
    const bool backward = v >= forward;
    const int32_t mirror = 2 * forward - 1 - v; /* the forward node that this one differentiates */
    struct step_node *node = &nodes[draft.node_count];
    int32_t *in = reads[draft.node_count], count = 0;
    in[count++] = v == 0 ? input : v - 1;
    if (!backward) {
      partner[v] = second_input(family, v, forward, &random);
      if (partner[v] >= 0 && partner[v] != v - 1) in[count++] = partner[v];
    } else if (draw(&random, 4) != 0) {
      in[count++] = mirror > 0 && draw(&random, 2) ? mirror - 1 : mirror;
      if (in[1] == in[0]) count--;
    }
    if (!backward || family != FAMILY_TELLING) in[count++] = parameter + (backward ? mirror : v);
    if (told >= 0 && draw(&random, 3) != 0) in[count++] = told, told = -1;
    made[draft.node_count] = v;
    const bool inplace = draw(&random, 3) == 0 && v > 0;
    *node = (struct step_node){.name = "n",
                               .op = "Op",
                               .pass = backward ? NEAP_PASS_BACKWARD : NEAP_PASS_FORWARD,
                               .repeatable = draw(&random, 12) != 0,
                               .cost = 1 + draw(&random, 20),
                               .workspace = draw(&random, 4) == 0 ? draw(&random, 40) : 0,
                               .inputs = in,
                               .input_count = count,
                               .outputs = &made[draft.node_count],
                               .output_count = 1,
                               .inplace = &pair,
                               .inplace_count = inplace};
    draft.node_count++;
    if (!backward || mirror % 3 != 0) continue;
    const int32_t updated = parameter + (family == FAMILY_TELLING ? forward - 1 - mirror : mirror);
    updates[draft.node_count] = updated;
    reads[draft.node_count][0] = v;
    reads[draft.node_count][1] = updated;
    const bool ordered = family == FAMILY_ORDERED && mirror >= 3;
    if (ordered) reads[draft.node_count][2] = parameter + mirror - 3;
    nodes[draft.node_count] = (struct step_node){.name = "u",
                                                 .op = "SGD",
                                                 .pass = NEAP_PASS_UPDATE,
                                                 .cost = 1,
                                                 .inputs = reads[draft.node_count],
                                                 .input_count = ordered ? 3 : 2,
                                                 .updates = &updates[draft.node_count],
                                                 .update_count = 1};
    if (family == FAMILY_TELLING) {
      told = draft.tensor_count++;
      tensors[told] =
          (struct step_tensor){.name = "norm", .bytes = draw(&random, 60), .role = NEAP_ROLE_VALUE};
      made[draft.node_count] = told;
      nodes[draft.node_count].outputs = &made[draft.node_count];
      nodes[draft.node_count].output_count = 1;
    }
    draft.node_count++;
  }
  outputs[0] = forward - 1;
  outputs[1] = values - 1;
  draft.output_count = 1 + (int32_t)draw(&random, 2);
  struct neap_step *step = NULL;
  const neap_status status = step_create(&draft, &step);
  if (status != NEAP_OK) print_error("random step: %s\n", neap_error_message());
  assert_int_equal(status, NEAP_OK);
  return step;
}

/* Makes a step with pairs of a store and a restorer for most of its forward nodes, and frees the one given.
 * `transfers`: they are jobs of the lane. */
static inline struct neap_step *with_restorers(struct neap_step *step, bool transfers, uint32_t seed) {
  static struct step_tensor tensors[2 * STEP_LIMIT];
  static struct step_node nodes[3 * STEP_LIMIT];
  static int32_t tokens[STEP_LIMIT];
  uint32_t random = seed * 2654435761u + 7;
  struct neap_step draft = *step, *made = NULL;
  memcpy(tensors, step->tensors, (size_t)step->tensor_count * sizeof *tensors);
  memcpy(nodes, step->nodes, (size_t)step->node_count * sizeof *nodes);
  draft.tensors = tensors;
  draft.nodes = nodes;
  for (int32_t v = 0; v < step->node_count; v++) {
    if (nodes[v].pass != NEAP_PASS_FORWARD || draw(&random, 4) == 0) continue;
    const double cost = draw(&random, 12);
    tokens[v] = draft.tensor_count++;
    tensors[tokens[v]] = (struct step_tensor){.name = "token", .role = NEAP_ROLE_VALUE};
    nodes[draft.node_count++] =
        (struct step_node){.name = "store", .op = "Store", .transfers = transfers, .cost = cost};
    struct step_node *store = &nodes[draft.node_count - 1], *restorer = &nodes[draft.node_count++];
    *restorer = *store;
    store->inputs = restorer->outputs = nodes[v].outputs;
    store->outputs = restorer->inputs = &tokens[v];
    store->input_count = store->output_count = restorer->input_count = restorer->output_count = 1;
    restorer->pass = NEAP_PASS_BACKWARD;
    restorer->repeatable = true;
  }
  const neap_status status = step_create(&draft, &made);
  if (status != NEAP_OK) print_error("step with restorers: %s\n", neap_error_message());
  assert_int_equal(status, NEAP_OK);
  neap_step_free(step);
  return made;
}

/* By the independent checker, which says the same of it as the plan. */
static inline void expect_valid(const struct neap_step *step, const struct neap_plan *plan) {
  neap_check_result result;
  const neap_status status = neap_plan_check(step, plan, &result);
  if (status != NEAP_OK) print_error("%s\n", neap_error_message());
  assert_int_equal(status, NEAP_OK);
  assert_true(result.valid);
  assert_int_equal(result.live_peak_bytes, plan->live_peak_bytes);
  assert_true(fabs(result.cost - plan->cost) < 1e-9 * result.cost);
}

/* What the simulator says of a valid schedule. */
static inline struct simulation score_of(const neap_step *step, const struct schedule *schedule) {
  struct simulation score;
  assert_int_equal(simulate(step, schedule->nodes.data, (int32_t)schedule->nodes.count, &score), NEAP_OK);
  return score;
}

#endif
