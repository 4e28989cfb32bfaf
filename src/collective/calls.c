#include "collective/calls.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {
    [CALL_BARRIER] = "barrier", [CALL_EXCHANGE] = "exchange", [CALL_ALLGATHER] = "allgather"};

neap_status calls_check(int from, enum call_kind from_kind, uint64_t sent, int to, enum call_kind to_kind,
                        uint64_t expected) {
  RETURN_IF(from_kind != to_kind, NEAP_INVALID_ARGUMENT,
            "collective: rank %d calls %s while rank %d calls %s; all ranks have to make the same calls",
            from, names[from_kind], to, names[to_kind]);
  RETURN_IF(sent != expected, NEAP_INVALID_ARGUMENT,
            "collective: rank %d sends %llu bytes to rank %d, which expects %llu; sizes have to agree", from,
            (unsigned long long)sent, to, (unsigned long long)expected);
  return NEAP_OK;
}

void calls_name_rank(int rank, const char *message, char *to, size_t bytes) {
  const bool named = strncmp(message, "rank ", 5) == 0 && message[5] >= '0' && message[5] <= '9';
  if (named)
    snprintf(to, bytes, "%s", message);
  else
    snprintf(to, bytes, "rank %d: %s", rank, message);
}
