/* Reads from disk. Rewrites make these nodes (rewrite/fetch.c, kernel/restorers.c); a thread of the session
 * reads (program/transfer.c, program/spill_file.c), as program/program.c asks it to. */
#include "op/op.h"

static neap_status infer_fetch(const struct neap_graph *graph, const struct node *node,
                               struct tensor *outputs) {
  outputs[0] = value_like(node_input(graph, node, 0));
  return NEAP_OK;
}

const struct op_row op_row_fetch = {"Fetch", "a parameter, read from the model's file", .output_count = 1,
                                    .infer = infer_fetch, .takes = {TYPES_FLOAT | TYPES_QUANTISED}};

const struct op_row op_row_load = {"Load",
                                   "a trained parameter, read from the session's file on disk",
                                   .output_count = 1,
                                   .infer = infer_fetch,
                                   .any_place = true,
                                   .lies_as = 1,
                                   .takes = {TYPES_FLOAT | TYPES_QUANTISED}};

const struct op_row op_row_store = {"Store", "values, written to the session's file on disk",
                                    .output_count = 1};

const struct op_row op_row_restore = {"Restore", "values, brought back from the session's file on disk",
                                      .output_count = 1};

/* The type of the rows that are read from a table in blocks. */
static const struct attribute_row fetch_rows_attributes[] = {ATTRIBUTE(dtype, INT32)};

static neap_status infer_fetch_rows(const struct neap_graph *graph, const struct node *node,
                                    struct tensor *outputs) {
  const struct tensor *table = node_input(graph, node, 0), *ids = node_input(graph, node, 1);
  outputs[0] = value_like(ids);
  outputs[0].dtype = dtype_is_quantised(table->dtype) ? (neap_dtype)node->attributes.dtype : table->dtype;
  outputs[0].dims[outputs[0].rank++] = table->dims[1];
  return NEAP_OK;
}

const struct op_row op_row_fetch_rows = {"FetchRows",
                                         "rows of a table by their numbers, read from the model's file",
                                         .output_count = 1,
                                         .infer = infer_fetch_rows,
                                         ROW_ATTRIBUTES(fetch_rows_attributes),
                                         .takes = {TYPES_FLOAT | TYPES_QUANTISED, TYPE_I32}};
