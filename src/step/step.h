/* A training step as the planners see it: tensors with bytes and roles, nodes with costs; no operators, no
 * shapes, no data. A graph file holds one (docs/formats.md), and lowering makes one of a graph.
 *
 * Rules (docs/formats.md, "Graph file"):
 * - inputs, parameters and states are resident; a value is made by exactly one node, its maker;
 * - the nodes' own order is valid;
 * - a node that lists a tensor in its updates runs once, after every other node that reads the tensor;
 * - in-place pair (output position, input position): the two may share bytes when that read is the last of
 * the input's instance, the input is a value (not resident) and is at least as large. At that position the
 * larger counts once. Each output takes over at most one input and each input is taken over at most once;
 * pairs are tried in their order;
 * - a repeatable node may restore another: it has the same outputs and brings back exactly the bytes that the
 * maker made. It reads one value, which its store makes of the maker's outputs, so it runs after the maker.
 * Restorers and stores are optional, each on its own, and come behind all other nodes;
 * - a node that transfers is a job of one lane beside the nodes, in the order in which jobs begin. A restorer
 * begins at its position, and the next reader of its outputs waits until it has ended; a store begins behind
 * the position that made what it reads, and ends at its own. */
#ifndef NEAP_STEP_STEP_H
#define NEAP_STEP_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/region.h"
#include "base/status.h"

enum { ROLE_COUNT = NEAP_ROLE_STATE + 1, PASS_COUNT = NEAP_PASS_UPDATE + 1 };

extern const char *const role_names[ROLE_COUNT]; /* as in the graph file */
extern const char *const pass_names[PASS_COUNT];

struct inplace_pair {
  int32_t output, input; /* positions in the node's lists */
};

struct step_tensor {
  const char *name;
  uint64_t bytes;
  neap_role role;
  int32_t producer; /* node that makes it; -1 when resident */
  int32_t updater;  /* node that updates it; -1 when none */
  bool is_output;   /* live at the end of the step */
};

struct step_node {
  const char *name, *op;
  neap_pass pass;
  bool repeatable, transfers;
  double cost;        /* any unit, the same for the whole step; >= 0 */
  uint64_t workspace; /* bytes, while the node runs */
  int32_t input_count, output_count, update_count, inplace_count;
  const int32_t *inputs, *outputs, *updates; /* tensor ids */
  const struct inplace_pair *inplace;
};

struct neap_step {
  struct region region; /* owns all memory that is pointed to */
  const char *name;
  int32_t tensor_count, node_count, output_count;
  struct step_tensor *tensors;
  struct step_node *nodes;
  const int32_t *outputs; /* tensor ids */

  /* Derived. The readers of tensor t: readers[reader_start[t] .. reader_start[t + 1]), rising node ids, each
   * node once even if it reads the tensor several times. */
  const int32_t *reader_start, *readers;
  uint64_t resident_bytes; /* sum over tensors that are not values */
  double base_cost;        /* sum over nodes that are not optional, each once, in node order */
  int32_t required_count;  /* nodes from here on are optional */
  bool has_lane;           /* some node transfers */
  const int32_t *maker;    /* by node: the one that it restores; of other nodes itself */
  const int32_t *restorer,
      *store; /* by node: the nodes that restore it, and make what that reads; -1: none */
};

/* Returns true if a node restores what another makes. */
static inline bool step_restores(const struct neap_step *step, int32_t node) {
  return step->maker[node] != node;
}

/* Checks every rule above, fills the derived fields and copies `draft` (except its derived fields, producer,
 * updater and is_output) into a new step, which the caller frees with neap_step_free. Takes any node count up
 * to INT32_MAX. Fails with NEAP_BAD_FORMAT, naming the node or tensor, on a cycle or wrong order, a duplicate
 * producer, an id out of range, an overflow of a sum, or a negative or non-finite cost. */
neap_status step_create(const struct neap_step *draft, struct neap_step **out);

/* Makes the step without its optional nodes. Ids stay: what stores make is an input of 0 bytes. */
neap_status step_create_plain(const struct neap_step *step, struct neap_step **out);

/* Makes the step with all transfers as nodes that run themselves, at this factor of their costs. */
neap_status step_create_without_lane(const struct neap_step *step, double factor, struct neap_step **out);

#endif
