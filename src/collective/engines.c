/* The engines of neap_collective.h. */
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
  if (own != NULL) processes_report(own, status);
}

neap_status neap_collective_launched(neap_collective *own) {
  NEED(own);
  return plugin_open(NULL, NULL, own);
}
