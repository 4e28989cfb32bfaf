/* Freezes parameters: training does not change them. */
#include "base/pattern.h"
#include "rewrite/copy.h"

static bool is_parameter(const struct tensor *t) {
  return t->role == NEAP_ROLE_PARAMETER && t->view_of < 0 && !t->adapter;
}

/* Fails if a pattern matches no parameter. */
static neap_status check_patterns(const struct neap_graph *graph, const char *patterns) {
  struct pattern pattern;
  bool any;
  for (;;) {
    TRY(pattern_next(&patterns, &pattern, &any));
    if (!any) return NEAP_OK;
    const char *first = NULL, *last = NULL;
    bool matches = false;
    for (size_t t = 0; !matches && t < graph->tensors.count; t++) {
      if (!is_parameter(&graph->tensors.data[t])) continue;
      last = graph->tensors.data[t].name;
      if (first == NULL) first = last;
      matches = pattern_matches(&pattern, last);
    }
    RETURN_IF(!matches, NEAP_INVALID_ARGUMENT,
              "freeze: '%s' has no parameter that '%s' matches; the first is %s, the last %s", graph->name,
              pattern.text, first != NULL ? first : "none", last != NULL ? last : "none");
  }
}

static bool is_frozen_norm(const struct node *node, const bool *frozen) {
  return node->op == OP_BATCH_NORM && frozen[node->inputs[NORM_GAMMA]] && frozen[node->inputs[NORM_BETA]];
}

/* Marks the batch statistics that only frozen batch norms use. */
static void mark_statistics(const struct neap_graph *graph, bool *frozen) {
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    if (is_frozen_norm(node, frozen)) frozen[node->inputs[NORM_MEAN]] = true;
  }
}

static neap_status freeze_node(struct copy *copy, struct node node, const bool *frozen,
                               const int32_t *running) {
  if (node.op == OP_BATCH_NORM_STATISTICS && frozen[node.outputs[0]]) return NEAP_OK;
  if (node.op == OP_RUNNING_STATISTICS && frozen[node.inputs[0]]) return NEAP_OK;
  if (!is_frozen_norm(&node, frozen)) return copy_node(copy, node);
  node.attributes.batch_norm.fixed = true;
  return copy_norm(copy, node, running);
}

/* Marks the parameters and the statistics. */
static neap_status mark(const struct neap_graph *graph, const char *patterns, bool *frozen) {
  bool any_left = false;
  TRY(check_patterns(graph, patterns));
  for (size_t t = 0; t < graph->tensors.count; t++) {
    const struct tensor *tensor = &graph->tensors.data[t];
    any_left = any_left || tensor->adapter;
    if (!is_parameter(tensor)) continue;
    frozen[t] = pattern_list_has(patterns, tensor->name);
    any_left = any_left || !(frozen[t] || tensor->frozen);
  }
  RETURN_IF(!any_left, NEAP_INVALID_ARGUMENT,
            "freeze: '%s' leaves no parameter of '%s' to train; take some out with a pattern that begins "
            "with a !, as in '*,!head.*'",
            patterns, graph->name);
  mark_statistics(graph, frozen);
  return NEAP_OK;
}

neap_status rewrite_freeze(const struct neap_graph *graph, const char *patterns, struct neap_graph **out) {
  struct copy copy;
  int32_t *running = NULL;
  bool *frozen = calloc(graph->tensors.count + 1, sizeof *frozen);
  RETURN_IF_NULL(frozen);
  neap_status status = mark(graph, patterns, frozen);
  if (status == NEAP_OK) status = find_running(graph, &running);
  if (status == NEAP_OK) status = copy_begin(&copy, graph, NULL);
  if (status == NEAP_OK) {
    for (size_t t = 0; t < graph->tensors.count; t++)
      if (frozen[t] && is_parameter(&graph->tensors.data[t]))
        copy.to->tensors.data[copy.map[t]].frozen = true;
    for (size_t v = 0; status == NEAP_OK && v < graph->nodes.count; v++)
      status = freeze_node(&copy, graph->nodes.data[v], frozen, running);
    status = copy_end(&copy, status, out);
  }
  free(running);
  free(frozen);
  return status;
}
