/* mpi_ranks WORK FOLDER [PLUGIN]: a rank that mpirun started. Exits with 0 when the work went well; else
 * prints the message. */
#include <stdio.h>
#include <unistd.h>

#include "collective/plugin.h"
#include "collective_cases.h"

static neap_status make_calls(const neap_collective *c) {
  TRY(case_random_calls(c, 3, 40, 1000));
  return case_random_calls(c, 4, 6, 64 << 10);
}

static neap_status work_by_name(const char *name, const neap_collective *c) {
  if (strcmp(name, "calls") == 0) return make_calls(c);
  if (strcmp(name, "other_size") == 0) return case_other_size(c);
  if (strcmp(name, "fail") == 0) return c->rank == 1 ? NEAP_INTERNAL : c->barrier(c->self);
  return neap_fail(NEAP_INVALID_ARGUMENT, "no work '%s'", name);
}

int main(int argc, char **argv) {
  neap_collective c;
  if (argc < 3) return 2;
  neap_status status = plugin_open(argc > 3 ? argv[3] : NULL, argv[2], &c);
  if (status == NEAP_OK && c.size == 0)
    printf("alone\n");
  else if (status == NEAP_OK)
    status = work_by_name(argv[1], &c);
  if (status != NEAP_OK) {
    fprintf(stderr, "%s\n", neap_error_message());
    return 1; /* without its close, which would wait for the others */
  }
  if (c.size > 0) {
    if (c.rank == 0) printf("%d ranks\n", c.size);
    c.close(c.self);
  }
  return 0;
}
