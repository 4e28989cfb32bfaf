#include "collective/agree.h"

#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "collective/calls.h"

enum { DIGEST_BYTES = 65 };

neap_status collective_gather(const neap_collective *c, void *all, uint64_t each) {
  uint64_t *bytes = calloc((size_t)c->size, sizeof *bytes);
  RETURN_IF_NULL(bytes);
  for (int r = 0; r < c->size; r++) bytes[r] = each;
  const neap_status status = c->allgather(c->self, all, bytes);
  free(bytes);
  return status;
}

neap_status collective_broadcast(const neap_collective *c, int root, void *bytes, uint64_t count) {
  uint64_t *counts = calloc((size_t)c->size, sizeof *counts);
  RETURN_IF_NULL(counts);
  counts[root] = count;
  const neap_status status = c->allgather(c->self, bytes, counts);
  free(counts);
  return status;
}

neap_status collective_part(const neap_collective *c, int first, int stride, int count,
                            neap_collective *part) {
  const int last = first + (count - 1) * stride;
  RETURN_IF(first < 0 || stride < 1 || count < 1 || last >= c->size || c->rank < first || c->rank > last ||
                (c->rank - first) % stride != 0,
            NEAP_INTERNAL, "collective_part: ranks %d to %d of %d do not have rank %d", first, last, c->size,
            c->rank);
  RETURN_IF(c->part == NULL, NEAP_UNSUPPORTED,
            "collective: it has no function 'part', which connects some of its ranks");
  return c->part(c->self, first, stride, count, part);
}

neap_status collective_agree(const neap_collective *c, const char *what, const void *data, size_t bytes) {
  char(*digests)[DIGEST_BYTES] = calloc((size_t)c->size, sizeof *digests);
  struct sha256 hash;
  RETURN_IF_NULL(digests);
  sha256_start(&hash);
  sha256_feed(&hash, data, bytes);
  sha256_finish(&hash, digests[c->rank]);
  neap_status status = collective_gather(c, digests, sizeof *digests);
  for (int r = 1; r < c->size && status == NEAP_OK; r++)
    if (memcmp(digests[r], digests[0], sizeof *digests) != 0)
      status =
          neap_fail(NEAP_INVALID_ARGUMENT,
                    "rank %d: its %s differs from rank 0's; start all ranks with the same %s", r, what, what);
  free(digests);
  return status;
}

/* Makes the first failure of `size` this thread's. One that was shared before names its rank already. */
static neap_status first_failure(const struct ending *endings, int size) {
  for (int r = 0; r < size; r++) {
    if (endings[r].status == NEAP_OK) continue;
    char message[MESSAGE_BYTES];
    calls_name_rank(r, endings[r].message, message, sizeof message);
    return neap_fail(endings[r].status, "%s", message);
  }
  return NEAP_OK;
}

neap_status collective_share_status(const neap_collective *c, neap_status own) {
  struct ending *endings, mine = {0};
  if (c->size == 1) return own;
  ending_keep(&mine, own);
  endings = calloc((size_t)c->size, sizeof *endings);
  neap_status status = NEAP_OK;
  if (endings == NULL)
    status = neap_fail(NEAP_OUT_OF_MEMORY, "collective_share_status: out of memory");
  else {
    endings[c->rank] = mine;
    status = collective_gather(c, endings, sizeof *endings);
    if (status == NEAP_OK)
      status = first_failure(endings, c->size);
    else if (own != NEAP_OK)
      status = ending_tell(&mine);
  }
  free(endings);
  return status;
}
