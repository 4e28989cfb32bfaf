/* Helpers of rewrites: copy a graph node by node while some nodes are changed. */
#ifndef NEAP_REWRITE_COPY_H
#define NEAP_REWRITE_COPY_H

#include "rewrite/rewrite.h"

struct copy {
  const struct neap_graph *from;
  struct neap_graph *to;
  int32_t *map;        /* tensor of `from` -> tensor of `to`; -1: not copied yet */
  VECTOR(int32_t) ids; /* of the current node */
};

/* Starts with a copy of the wanted resident tensors (NULL: all). On failure there is nothing to free. */
neap_status copy_begin(struct copy *copy, const struct neap_graph *from, const bool *wanted);

/* Gives the new id of a tensor that has been made; NO_TENSOR stays. A view is copied when it is first asked
 * for. */
neap_status copy_tensor(struct copy *copy, int32_t old, int32_t *id);

/* Copies a tensor that has not been made yet, for a node that the caller appends. */
neap_status copy_value(struct copy *copy, int32_t old);

/* Appends `node`, whose ids are those of `from`: new values for its outputs, mapped ids for the rest. */
neap_status copy_node(struct copy *copy, struct node node);

/* Maps a batch statistic to the running one that follows it; -1: not a batch statistic. The caller frees
 * it. */
neap_status find_running(const struct neap_graph *graph, int32_t **running);

/* Appends a batch norm that uses its running statistics instead of the batch's. */
neap_status copy_norm(struct copy *copy, struct node norm, const int32_t *running);

/* Returns true if a node reads a parameter a part at a time, in the form in which it is kept: a linear layer,
 * or one with its loss, reads its weights in panels; a table gives its rows. */
bool reads_in_parts(const struct neap_graph *graph, const struct node *node, int32_t slot);

/* Frees the map; gives the new graph (status NEAP_OK) or frees it. Returns `status`. */
neap_status copy_end(struct copy *copy, neap_status status, struct neap_graph **out);

#endif
