#include "rewrite/copy.h"

const struct graph_variant graph_variants[] = {
    [NEAP_VARIANT_AUTO] = {"auto", "the one with the cheapest plan", NULL},
    [NEAP_VARIANT_BASE] = {"base", "ReLU reads its output again for its gradient", NULL},
    [NEAP_VARIANT_MASK] = {"mask", "ReLU keeps a bit an element where nothing else needs its output",
                           rewrite_mask},
};
_Static_assert(sizeof graph_variants / sizeof *graph_variants <= VARIANT_LIMIT, "raise VARIANT_LIMIT");
const int32_t graph_variant_count = sizeof graph_variants / sizeof *graph_variants;

static bool same_operators(const struct neap_graph *a, const struct neap_graph *b) {
  if (a->nodes.count != b->nodes.count || a->tensors.count != b->tensors.count) return false;
  for (size_t v = 0; v < a->nodes.count; v++)
    if (a->nodes.data[v].op != b->nodes.data[v].op) return false;
  return true;
}

neap_status rewrite_variant(const struct neap_graph *graph, neap_variant variant, struct neap_graph **out) {
  const struct graph_variant *row = &graph_variants[variant];
  struct neap_graph *other = NULL;
  if (row->rewrite != NULL) TRY(row->rewrite(graph, &other));
  if (other != NULL && same_operators(graph, other)) {
    neap_graph_free(other);
    other = NULL;
  }
  if (other != NULL) {
    other->name = region_format(&other->region, "%s+%s", graph->name, row->name);
    if (other->name == NULL) {
      neap_graph_free(other);
      return neap_fail(NEAP_OUT_OF_MEMORY, "graph '%s': out of memory", graph->name);
    }
  }
  *out = other;
  return NEAP_OK;
}
