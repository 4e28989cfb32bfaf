/* ADELIA (2026, arXiv 2605.06392, table 2): the gradient of the log determinant of a block-tridiagonal matrix
 * with an arrow. Published bytes are those of a GPU in doubles, with a quadratic form and workspaces of its
 * own; the rows show what a plan leaves of the chain of blocks, with the bits of keeping everything. */
#include <stdio.h>

#include "../../examples/log_determinant.h"
#include "papers.h"

static neap_status build(const struct arrowhead *shape, neap_step **step) {
  neap_builder *b = neap_builder_create("log determinant");
  neap_graph *graph = NULL;
  neap_status status = neap_builder_finish(b, log_determinant(b, shape), &graph);
  neap_builder_free(b);
  if (status == NEAP_OK) status = neap_step_from_graph(graph, &(neap_session_options){0}, step);
  neap_graph_free(graph);
  return status;
}

neap_status print_adelia(struct report *report) {
  static const struct arrowhead shapes[] = {{12, 708, 6}, {100, 92, 6}};
  static const double times[] = {1.0, 1.3, 1.6};
  printf("  MB beside the blocks: all kept, and at 1.0, 1.3 and 1.6 of the time; least, its time\n");
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    char name[32];
    neap_step *step = NULL;
    snprintf(name, sizeof name, "%d x %d", shapes[i].blocks, (int)shapes[i].block);
    neap_status status = build(&shapes[i], &step);
    if (status == NEAP_OK) status = print_least_within(report, name, step, times);
    neap_step_free(step);
    TRY(status);
  }
  return NEAP_OK;
}
