/* Rows of sequences: which are kept, their gathering and scattering. A rewrite makes these nodes
 * (rewrite/keep_rows.c). */
#include "op/kept_rows.h"

#include <math.h>

static const struct attribute_row kept_rows_attributes[] = {
    ATTRIBUTE(kept_rows.length, INTEGER), ATTRIBUTE(kept_rows.first, INTEGER),
    ATTRIBUTE(kept_rows.columns, INTEGER), ATTRIBUTE(kept_rows.share, REAL)};

/* ---- Which rows ---- */

int64_t kept_row_count(const struct kept_rows_attributes *a) {
  const int64_t count = llround((double)a->share * (double)(a->length - a->first));
  return a->first + (count > 1 ? count : 1);
}

static uint32_t phase_of(const struct kept_rows_attributes *a, uint32_t start, int64_t place) {
  const uint32_t step = (uint32_t)((double)a->share * 4294967296.0);
  return (uint32_t)(place / a->columns + place % a->columns) * step + start;
}

/* Counts the places before `end` whose phases are from `least` to below `bound`. */
static int64_t count_phases(const struct kept_rows_attributes *a, uint32_t start, uint64_t least,
                            uint64_t bound, int64_t end) {
  int64_t count = 0;
  for (int64_t i = 0; i < end; i++) {
    const uint32_t phase = phase_of(a, start, i);
    count += phase >= least && phase < bound;
  }
  return count;
}

/* Returns the greatest bound that at most `wanted` phases are below. */
static uint64_t bound_of(const struct kept_rows_attributes *a, uint32_t start, int64_t wanted) {
  uint64_t low = 0, high = (uint64_t)1 << 32;
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    if (count_phases(a, start, 0, middle, a->length - a->first) <= wanted)
      low = middle;
    else
      high = middle;
  }
  return low;
}

void kept_rows_find(const struct kept_rows_attributes *a, uint32_t start, int32_t *rows) {
  const int64_t wanted = kept_row_count(a) - a->first, places = a->length - a->first;
  const uint64_t bound = bound_of(a, start, wanted);
  const int64_t rest = wanted - count_phases(a, start, 0, bound, places), /* of those that have this phase */
      equal = count_phases(a, start, bound, bound + 1, places),
                before = count_phases(a, start, bound, bound + 1, start % places);
  int64_t ordinal = equal - before;
  for (int64_t i = 0; i < a->first; i++) *rows++ = (int32_t)i;
  for (int64_t i = 0; i < places; i++) {
    const uint32_t phase = phase_of(a, start, i);
    if (phase < bound || (phase == bound && ordinal++ % equal < rest)) *rows++ = (int32_t)(a->first + i);
  }
}

static neap_status infer_kept_rows(const struct neap_graph *graph, const struct node *node,
                                   struct tensor *outputs) {
  (void)graph;
  const struct kept_rows_attributes *a = &node->attributes.kept_rows;
  RETURN_IF(a->first < 0 || a->length <= a->first || a->length > INT32_MAX || a->columns < 1 ||
                !(a->share > 0 && a->share < 1),
            NEAP_INVALID_ARGUMENT,
            "KeptRows '%s': got a share of %g of the rows from %lld on of %lld; it must be between 0 and 1",
            node->name, (double)a->share, (long long)a->first, (long long)a->length);
  outputs[0] = value_of(NEAP_I32, 1, kept_row_count(a), 0);
  return NEAP_OK;
}

const struct op_row op_row_kept_rows = {
    "KeptRows", "numbers of the rows that a backward pass reads, drawn at each step", .output_count = 1,
    .infer = infer_kept_rows, ROW_ATTRIBUTES(kept_rows_attributes)};

/* ---- Gathering and scattering ---- */

static neap_status check_rows(const struct neap_graph *graph, const struct node *node) {
  TRY(need_real(graph, node, -2, "sequences [N, T, ...]"));
  const struct tensor *rows = node_input(graph, node, ROWS_LIST);
  RETURN_IF(rows->dtype != NEAP_I32 || rows->rank != 1, NEAP_INVALID_ARGUMENT,
            "%s '%s': rows must be [M] of i32, but '%s' is %s of %s", node_row(node)->name, node->name,
            rows->name, shape_text(rows).text, dtype_rows[rows->dtype].name);
  return NEAP_OK;
}

static neap_status infer_gather_rows(const struct neap_graph *graph, const struct node *node,
                                     struct tensor *outputs) {
  TRY(check_rows(graph, node));
  outputs[0] = value_like(node_input(graph, node, ROWS_X));
  outputs[0].dims[1] = node_input(graph, node, ROWS_LIST)->dims[0];
  return NEAP_OK;
}

const struct op_row op_row_gather_rows = {"GatherRows",
                                          "some rows of each sequence, the same of all",
                                          .output_count = 1,
                                          .infer = infer_gather_rows,
                                          .takes = {[ROWS_LIST] = TYPE_I32},
                                          .split = {1 << ROWS_X, 1, 0}};

static neap_status infer_scatter_rows(const struct neap_graph *graph, const struct node *node,
                                      struct tensor *outputs) {
  TRY(check_rows(graph, node));
  const struct tensor *addend = node_input(graph, node, ROWS_ADDEND);
  outputs[0] = value_like(node_input(graph, node, ROWS_X));
  outputs[0].dims[1] = node->attributes.kept_rows.length;
  return addend != NULL ? need_same_shape(node, &outputs[0], addend) : NEAP_OK;
}

static const struct inplace_pair scatter_pairs[] = {{0, ROWS_ADDEND}};
static const struct attribute_row scatter_attributes[] = {ATTRIBUTE(kept_rows.length, INTEGER)};
const struct op_row op_row_scatter_rows = {"ScatterRows",
                                           "rows of each sequence in their places, added to what is there",
                                           .output_count = 1,
                                           .infer = infer_scatter_rows,
                                           ROW_INPLACE(scatter_pairs),
                                           ROW_ATTRIBUTES(scatter_attributes),
                                           .slots = ROWS_INPUTS,
                                           .takes = {[ROWS_LIST] = TYPE_I32},
                                           .addend = 1 + ROWS_ADDEND,
                                           .split = {1 << ROWS_X | 1 << ROWS_ADDEND, 1, 0}};
