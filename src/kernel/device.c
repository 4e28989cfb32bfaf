#include "kernel/device.h"

#include <string.h>
#include <sys/mman.h>

/* Every page is touched, so that the system has them all before the first step. */
static neap_status map(size_t bytes, unsigned char **memory) {
  void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  RETURN_IF(mapped == MAP_FAILED, NEAP_OUT_OF_MEMORY, "the system has no %zu bytes for this session", bytes);
  madvise(mapped, bytes,
          MADV_HUGEPAGE); /* fewer page faults and TLB misses; where it fails nothing is lost */
  memset(mapped, 0, bytes);
  *memory = mapped;
  return NEAP_OK;
}

static void unmap(unsigned char *memory, size_t bytes) { munmap(memory, bytes); }

static void read(const void *memory, void *to, size_t bytes) { memcpy(to, memory, bytes); }

const struct device host_device = {"host", map, unmap, read};
