/* mpi_ranks WORK FOLDER [PLUGIN]: a rank that mpirun started. Exits with 0 when the work went well; else
 * prints the message. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "collective/heartbeat.h"
#include "collective/plugin.h"
#include "collective_cases.h"

static neap_status make_calls(const neap_collective *c) {
  TRY(case_random_calls(c, 3, 15, 1000));
  TRY(case_random_calls(c, 4, 3, 64 << 10));
  return case_parts(c, 5, 1000);
}

/* The main thread may be inside MPI for ever. */
static void end_process(void *context, bool speaks, const char *message) {
  (void)context;
  if (speaks) fprintf(stderr, "%s\n", message);
  fflush(stderr);
  _exit(3);
}

/* A rank leaves while others still call: without a heartbeat MPI would wait. */
static neap_status leave_early(const neap_collective *c) {
  TRY(c->barrier(c->self));
  return c->rank == 1 ? NEAP_OK : make_calls(c);
}

static neap_status work_by_name(const char *name, const neap_collective *c) {
  if (strcmp(name, "calls") == 0 || strcmp(name, "heart") == 0) return make_calls(c);
  if (strcmp(name, "other_size") == 0) return case_other_size(c);
  if (strcmp(name, "fail") == 0) return c->rank == 1 ? NEAP_INTERNAL : c->barrier(c->self);
  if (strcmp(name, "heart_leave") == 0) return leave_early(c);
  return neap_fail(NEAP_INVALID_ARGUMENT, "no work '%s'", name);
}

/* Works, and prints a failure once. Without a heartbeat a failed rank leaves its collective open, whose close
 * would wait. */
static neap_status run(const char *work, neap_collective c) {
  const neap_collective engine = c;
  const bool wanted = strncmp(work, "heart", 5) == 0;
  neap_status status = NEAP_OK;
  if (wanted) status = heartbeat_start(&engine, &(struct heartbeat_options){.lost = end_process}, &c);
  const bool has_heartbeat = wanted && status == NEAP_OK;
  if (status == NEAP_OK) status = work_by_name(work, &c);
  if (status != NEAP_OK && (!has_heartbeat || heartbeat_speaks(&c)))
    fprintf(stderr, "%s\n", neap_error_message());
  if (status == NEAP_OK && c.rank == 0) printf("%d ranks\n", c.size);
  if (status == NEAP_OK || has_heartbeat) c.close(c.self);
  return status;
}

int main(int argc, char **argv) {
  neap_collective c;
  if (argc < 3) return 2;
  const char *lock = getenv("MPI_RANKS_LOCK"); /* held by every rank that lives */
  if (lock != NULL && flock(open(lock, O_CREAT | O_RDWR | O_CLOEXEC, 0600), LOCK_SH) != 0) return 2;
  neap_status status = plugin_open(argc > 3 ? argv[3] : NULL, argv[2], &c);
  if (status != NEAP_OK)
    fprintf(stderr, "%s\n", neap_error_message());
  else if (c.size == 0)
    printf("alone\n");
  else
    status = run(argv[1], c);
  return status != NEAP_OK;
}
