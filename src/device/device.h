/* Memory that kernels work in, and who may reach it: a table of functions a device. A place in memory is an
 * offset. Kernels alone are given addresses, between device_enter and device_leave. */
#ifndef NEAP_DEVICE_DEVICE_H
#define NEAP_DEVICE_DEVICE_H

#include <stddef.h>

#include "base/status.h"

struct device;

/* A mapping; zeroed: none. */
struct device_memory {
  const struct device *device;
  uint64_t bytes;
  void *own; /* the device's; where it is host_visible, the address of the first byte */
};

/* Memory that several processes have: where a mapping begins with it, the first bytes are those of a file.
 */
struct device_common {
  int descriptor; /* of the file, which has at least as many bytes, in whole pages */
  uint64_t bytes; /* 0: the mapping is one process's alone */
};

/* The functions of a device. Callers use those below, which check that offsets lie inside. */
struct device {
  const char *name;
  /* The host may use addresses at any time, as kernels do. */
  bool host_visible;
  neap_status (*map)(uint64_t bytes, struct device_common common, void **own);
  void (*unmap)(void *own, uint64_t bytes);
  neap_status (*write)(void *own, uint64_t at, const void *from, uint64_t bytes);
  neap_status (*read)(void *own, uint64_t at, void *to, uint64_t bytes);
  neap_status (*fill)(void *own, uint64_t at, uint64_t bytes);
  neap_status (*wait)(void *own);
  neap_status (*enter)(void *own, unsigned char **base);
  void (*leave)(void *own);
};

/* Maps `bytes` of zeros that are the caller's alone, aligned to a page. NEAP_OUT_OF_MEMORY: there are not as
 * many; nothing is mapped. */
neap_status device_map(const struct device *device, uint64_t bytes, struct device_memory *memory);
/* The same, but for the first bytes, which are there in all processes that map them, at whatever address, and
 * keep their values. The descriptor may be closed then. They are a multiple of the alignment of tensors; what
 * follows them may begin at no page. */
neap_status device_map_common(const struct device *device, uint64_t bytes, struct device_common common,
                              struct device_memory *memory);
/* Takes memory that is not mapped, too. */
void device_unmap(struct device_memory *memory);

/* Copy from the host and to it, and set bytes to 0: after the kernels that were started before, and done when
 * they return. NEAP_INTERNAL: the bytes do not lie in the memory. */
neap_status device_write(const struct device_memory *memory, uint64_t at, const void *from, uint64_t bytes);
neap_status device_read(const struct device_memory *memory, uint64_t at, void *to, uint64_t bytes);
neap_status device_fill(const struct device_memory *memory, uint64_t at, uint64_t bytes);

/* Returns when the kernels that were started have ended; fails if one of them has failed since. */
neap_status device_wait(const struct device_memory *memory);

/* Gives the address of the first byte, for kernels that are started before device_leave. It holds until then.
 * Pairs may lie inside each other. */
neap_status device_enter(const struct device_memory *memory, unsigned char **base);
void device_leave(const struct device_memory *memory);

/* The host's address of bytes, which holds as long as the memory is mapped; NULL: the host does not reach
 * it. */
void *device_address(const struct device_memory *memory, uint64_t at, uint64_t bytes);

/* Bytes that the host works on in place: at their own address, or copied where the host does not reach it. */
struct device_loan {
  void *data;
  uint64_t at, bytes;
};

/* NEAP_OUT_OF_MEMORY: there is no memory for a copy; nothing is lent. */
neap_status device_lend(const struct device_memory *memory, uint64_t at, uint64_t bytes,
                        struct device_loan *loan);
/* Ends a loan, which may be zeroed. What was changed is in the memory then if `changed`. */
neap_status device_give_back(const struct device_memory *memory, struct device_loan *loan, bool changed);

#endif
