#include "device/host.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

uint64_t host_skipped(const void *own) { return (uint64_t)(uintptr_t)own % (uint64_t)sysconf(_SC_PAGESIZE); }

static unsigned char *at_offset(void *own, uint64_t at) { return (unsigned char *)own + at; }

/* Every page is touched, so that the system has them all before the first step. What processes have in common
 * ends with a page, and begins inside one: so what follows it begins with a page of its own. */
static neap_status map(uint64_t bytes, struct device_common common, void **own) {
  const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), skipped = (page - common.bytes % page) % page,
                 front = common.bytes > 0 ? skipped + common.bytes : 0;
  const uint64_t all = common.bytes > 0 ? skipped + bytes : bytes;
  unsigned char *mapped = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  RETURN_IF(mapped == MAP_FAILED, NEAP_OUT_OF_MEMORY, "the system cannot provide %llu bytes for this session",
            (unsigned long long)bytes);
  if (front > 0 && mmap(mapped, front, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
                        common.descriptor, 0) == MAP_FAILED) {
    munmap(mapped, all);
    return neap_fail(NEAP_OUT_OF_MEMORY, "the system cannot map %llu bytes that processes share",
                     (unsigned long long)common.bytes);
  }
  madvise(mapped + front, all - front,
          MADV_HUGEPAGE); /* fewer page faults and TLB misses; where it fails nothing is lost */
  memset(mapped + front, 0, all - front);
  *own = mapped + (all - bytes);
  return NEAP_OK;
}

static void unmap(void *own, uint64_t bytes) {
  const uint64_t skipped = host_skipped(own);
  munmap((unsigned char *)own - skipped, skipped + bytes);
}

static neap_status write_bytes(void *own, uint64_t at, const void *from, uint64_t bytes) {
  memcpy(at_offset(own, at), from, bytes);
  return NEAP_OK;
}

static neap_status read_bytes(void *own, uint64_t at, void *to, uint64_t bytes) {
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
                                   .write = write_bytes,
                                   .read = read_bytes,
                                   .fill = fill,
                                   .wait = wait,
                                   .enter = enter,
                                   .leave = leave};
