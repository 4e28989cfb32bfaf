#include "collective/common_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "collective/agree.h"

/* The address of rank 0's memory for the other ranks. The token, with which the memory begins, tells it from
 * that of a process with the same number on another machine. */
struct offer {
  int64_t process, descriptor;
  unsigned char token[32];
};

/* Makes the memory, with all of its pages, so that no access to it can fail later. */
static neap_status make(uint64_t bytes, struct offer *offer, int *descriptor) {
  const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), room = (bytes / page + 1) * page;
  const int file = memfd_create("neap", MFD_CLOEXEC);
  RETURN_IF(file < 0, NEAP_IO_FAILED, "memory that processes share cannot be made: %s", strerror(errno));
  *offer = (struct offer){.process = getpid(), .descriptor = file};
  const bool good = bytes < INT64_MAX - page && ftruncate(file, (off_t)room) == 0 &&
                    fallocate(file, 0, 0, (off_t)room) == 0 &&
                    getrandom(offer->token, sizeof offer->token, 0) == sizeof offer->token &&
                    pwrite(file, offer->token, sizeof offer->token, 0) == sizeof offer->token;
  if (good) {
    *descriptor = file;
    return NEAP_OK;
  }
  close(file);
  return neap_fail(NEAP_OUT_OF_MEMORY, "the system cannot provide %llu bytes that processes share",
                   (unsigned long long)bytes);
}

static neap_status find(const struct offer *offer, const char *what, int *descriptor) {
  char path[64];
  unsigned char token[sizeof offer->token];
  snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)offer->process, (long long)offer->descriptor);
  const int file = open(path, O_RDWR | O_CLOEXEC);
  const bool good = file >= 0 && pread(file, token, sizeof token, 0) == sizeof token &&
                    memcmp(token, offer->token, sizeof token) == 0;
  if (good) {
    *descriptor = file;
    return NEAP_OK;
  }
  if (file >= 0) close(file);
  return neap_fail(NEAP_UNSUPPORTED,
                   "%s: this process does not reach the memory of rank 0, which all share; start all on one "
                   "machine, in one container, for one user",
                   what);
}

neap_status collective_open_memory(const neap_collective *c, const char *what, uint64_t bytes,
                                   int *descriptor) {
  static const unsigned char zeros[sizeof((struct offer *)0)->token] = {0};
  struct offer offer = {0};
  int file = -1;
  neap_status status = c->rank == 0 ? make(bytes, &offer, &file) : NEAP_OK;
  status = collective_share_status(c, status);
  if (status == NEAP_OK) status = collective_broadcast(c, 0, &offer, sizeof offer);
  if (status == NEAP_OK && c->rank > 0) status = find(&offer, what, &file);
  status = collective_share_status(c, status);
  if (status == NEAP_OK && c->rank == 0 && pwrite(file, zeros, sizeof zeros, 0) != sizeof zeros)
    status = neap_fail(NEAP_IO_FAILED, "memory that processes share cannot be written: %s", strerror(errno));
  status = collective_share_status(c, status);
  if (status == NEAP_OK)
    *descriptor = file;
  else if (file >= 0)
    close(file);
  return status;
}
