/* Random small steps whose values may be restored (step/step.h), for tests of everything that plans those.
 * Costs are whole numbers. */
#ifndef NEAP_TESTS_RESTORING_STEP_H
#define NEAP_TESTS_RESTORING_STEP_H

#include <string.h>

#include "step/step.h"
#include "step_families.h"
#include "testing.h"

enum { RESTORING_LIMIT = 96 }; /* tensors, and nodes */

/* A step under construction. */
struct restoring_draft {
  struct neap_step step;
  struct step_tensor tensors[RESTORING_LIMIT];
  struct step_node nodes[RESTORING_LIMIT];
  int32_t reads[RESTORING_LIMIT][4], makes[RESTORING_LIMIT][2], outputs[RESTORING_LIMIT];
};

static inline int32_t restoring_tensor(struct restoring_draft *d, uint64_t bytes, neap_role role) {
  d->tensors[d->step.tensor_count] = (struct step_tensor){.name = "t", .bytes = bytes, .role = role};
  return d->step.tensor_count++;
}

/* Adds a node that reads what is in `reads` of its id. */
static inline struct step_node *restoring_node(struct restoring_draft *d, int32_t read_count, double cost) {
  const int32_t v = d->step.node_count++;
  d->nodes[v] = (struct step_node){.name = "n",
                                   .op = "Op",
                                   .cost = cost,
                                   .inputs = d->reads[v],
                                   .input_count = read_count,
                                   .outputs = d->makes[v]};
  return &d->nodes[v];
}

/* Adds a store of what node `maker` makes, and its restorer. */
static inline void restoring_pair(struct restoring_draft *d, int32_t maker, double cost) {
  const struct step_node of = d->nodes[maker];
  const int32_t token = restoring_tensor(d, 0, NEAP_ROLE_VALUE), store = d->step.node_count;
  memcpy(d->reads[store], of.outputs, (size_t)of.output_count * sizeof(int32_t));
  d->makes[store][0] = token;
  struct step_node *node = restoring_node(d, of.output_count, cost);
  node->output_count = 1;
  node->transfers = true;
  d->reads[store + 1][0] = token;
  memcpy(d->makes[store + 1], of.outputs, (size_t)of.output_count * sizeof(int32_t));
  node = restoring_node(d, 1, cost);
  node->output_count = of.output_count;
  node->transfers = node->repeatable = true;
}

static inline neap_step *restoring_made(struct restoring_draft *d) {
  neap_step *step = NULL;
  d->step.name = "restoring";
  d->step.tensors = d->tensors;
  d->step.nodes = d->nodes;
  d->step.outputs = d->outputs;
  ASSERT_OK(step_create(&d->step, &step));
  return step;
}

/* The classes of transfers by their cost a byte: nothing, a quarter, 1, 3, a million. */
enum { TRANSFERS_FREE, TRANSFERS_CHEAP, TRANSFERS_MEDIUM, TRANSFERS_DEAR, TRANSFERS_VAIN, TRANSFERS_COUNT };

/* Returns the cost of a transfer of a class. */
static inline double restoring_cost(int transfers, uint64_t bytes) {
  static const uint64_t quarters[TRANSFERS_COUNT] = {0, 1, 4, 12, 4000000};
  return (double)((bytes * quarters[transfers] + 3) / 4);
}

/* Forward node i makes tensor 1 + i (tensor 0 is an input) of the one before it. Then backward node j, for
 * i = forward - 1 - j, makes tensor 1 + forward + j of the gradient before it and of what forward node i
 * reads or makes, or both; the first always of what the last one makes, so nodes have one order. Behind them
 * a store and a restorer for each forward node. */
static inline neap_step *restoring_chain(int32_t forward, int transfers, uint32_t seed) {
  static struct restoring_draft d;
  uint32_t random = seed * 2654435761u + 1;
  memset(&d, 0, sizeof d);
  restoring_tensor(&d, 0, NEAP_ROLE_INPUT);
  for (int32_t v = 0; v < 2 * forward; v++) {
    int32_t count = 0;
    const int32_t mirror = 2 * forward - 1 - v; /* the forward node that a backward node differentiates */
    if (v != forward) d.reads[v][count++] = v;
    const uint32_t kind = draw(&random, 3); /* of a backward node */
    if (v >= forward && kind != 0 && mirror > 0) d.reads[v][count++] = mirror;
    if (v >= forward && (kind != 1 || mirror == 0 || v == forward)) d.reads[v][count++] = 1 + mirror;
    d.makes[v][0] = restoring_tensor(&d, 1 + draw(&random, 8), NEAP_ROLE_VALUE);
    struct step_node *node = restoring_node(&d, count, 1 + draw(&random, 9));
    node->output_count = 1;
    node->pass = v < forward ? NEAP_PASS_FORWARD : NEAP_PASS_BACKWARD;
    node->repeatable = v < forward;
  }
  for (int32_t v = 0; v < forward; v++)
    restoring_pair(&d, v, restoring_cost(transfers, d.tensors[1 + v].bytes));
  d.outputs[d.step.output_count++] = 2 * forward;
  return restoring_made(&d);
}

/* Each node reads one to three values of those before it; some make two values, have a workspace, or must not
 * run twice. What nothing reads is an output. Two of three nodes have a store and a restorer. */
static inline neap_step *restoring_graph(int32_t nodes, int transfers, uint32_t seed) {
  static struct restoring_draft d;
  uint32_t random = seed * 2654435761u + 1;
  bool read[RESTORING_LIMIT] = {false};
  memset(&d, 0, sizeof d);
  restoring_tensor(&d, 0, NEAP_ROLE_INPUT);
  for (int32_t v = 0; v < nodes; v++) {
    int32_t count = 0;
    const int32_t most = v == 0 ? 1 : 1 + (int32_t)draw(&random, 3);
    for (; count < most; count++) {
      const int32_t t = v == 0 ? 0 : 1 + (int32_t)draw(&random, (uint32_t)d.step.tensor_count - 1);
      d.reads[v][count] = count == 0 && v > 0 && draw(&random, 2) ? d.step.tensor_count - 1 : t;
      read[d.reads[v][count]] = true;
    }
    struct step_node *node = restoring_node(&d, count, 1 + draw(&random, 9));
    node->output_count = draw(&random, 5) == 0 ? 2 : 1;
    node->workspace = draw(&random, 5) == 0 ? 1 + draw(&random, 4) : 0;
    node->repeatable = draw(&random, 5) != 0;
    for (int32_t i = 0; i < node->output_count; i++)
      d.makes[v][i] = restoring_tensor(&d, 1 + draw(&random, 8), NEAP_ROLE_VALUE);
  }
  for (int32_t t = 1; t < d.step.tensor_count; t++)
    if (!read[t]) d.outputs[d.step.output_count++] = t;
  for (int32_t v = 0; v < nodes; v++) {
    uint64_t bytes = 0;
    for (int32_t i = 0; i < d.nodes[v].output_count; i++) bytes += d.tensors[d.makes[v][i]].bytes;
    if (draw(&random, 3) != 0) restoring_pair(&d, v, restoring_cost(transfers, bytes));
  }
  return restoring_made(&d);
}

#endif
