/* The engines of neap_collective.h. */
#include "collective/heartbeat.h"
#include "collective/plugin.h"
#include "collective/processes.h"
#include "collective/threads.h"

neap_status neap_collective_threads(int size, neap_collective *ranks) {
  NEED(ranks);
  return threads_connect(size, ranks);
}

neap_status neap_collective_fork(int count, neap_collective *own, int *exit_status) {
  NEED(own);
  NEED(exit_status);
  return processes_start(count, own, exit_status);
}

void neap_collective_report(const neap_collective *own, neap_status status) {
  if (own == NULL) return;
  processes_report(own, status); /* each for its own engine alone */
  heartbeat_report(own, status);
}

neap_status neap_collective_launched(neap_rank_lost_function *lost, void *context, neap_collective *own) {
  NEED(own);
  neap_collective inner;
  TRY(plugin_open(NULL, NULL, &inner));
  *own = inner;
  if (inner.size <= 1 || lost == NULL) return NEAP_OK;
  const struct heartbeat_options options = {.lost = lost, .context = context};
  const neap_status status = heartbeat_start(&inner, &options, own);
  struct ending ending;
  ending_keep(&ending, status);
  if (status != NEAP_OK) {
    inner.close(inner.self);
    *own = (neap_collective){0};
  }
  return ending_tell(&ending);
}

bool neap_collective_fail(const neap_collective *own, neap_status status) {
  if (own == NULL) return true;
  heartbeat_report(own, status);
  return heartbeat_speaks(own);
}
