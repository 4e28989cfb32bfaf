#include "device/host.h"

#include <string.h>
#include <sys/mman.h>

static unsigned char *at_offset(void *own, uint64_t at) { return (unsigned char *)own + at; }

/* Every page is touched, so that the system has them all before the first step. */
static neap_status map(uint64_t bytes, void **own) {
  void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  RETURN_IF(mapped == MAP_FAILED, NEAP_OUT_OF_MEMORY, "the system cannot provide %llu bytes for this session",
            (unsigned long long)bytes);
  madvise(mapped, bytes,
          MADV_HUGEPAGE); /* fewer page faults and TLB misses; where it fails nothing is lost */
  memset(mapped, 0, bytes);
  *own = mapped;
  return NEAP_OK;
}

static void unmap(void *own, uint64_t bytes) { munmap(own, bytes); }

static neap_status write(void *own, uint64_t at, const void *from, uint64_t bytes) {
  memcpy(at_offset(own, at), from, bytes);
  return NEAP_OK;
}

static neap_status read(void *own, uint64_t at, void *to, uint64_t bytes) {
  memcpy(to, at_offset(own, at), bytes);
  return NEAP_OK;
}

static neap_status fill(void *own, uint64_t at, uint64_t bytes) {
  memset(at_offset(own, at), 0, bytes);
  return NEAP_OK;
}

static neap_status wait(void *own) {
  (void)own;
  return NEAP_OK;
}

static neap_status enter(void *own, unsigned char **base) {
  *base = own;
  return NEAP_OK;
}

static void leave(void *own) { (void)own; }

const struct device host_device = {.name = "host",
                                   .host_visible = true,
                                   .map = map,
                                   .unmap = unmap,
                                   .write = write,
                                   .read = read,
                                   .fill = fill,
                                   .wait = wait,
                                   .enter = enter,
                                   .leave = leave};
