/* Where the memory that a backend's kernels work in lies: a row a device. */
#ifndef NEAP_KERNEL_DEVICE_H
#define NEAP_KERNEL_DEVICE_H

#include <stddef.h>

#include "base/status.h"

struct device {
  const char *name;
  /* `bytes` of zeros that are the caller's alone, aligned to a page. NEAP_OUT_OF_MEMORY: there are not so
   * many. */
  neap_status (*map)(size_t bytes, unsigned char **memory);
  void (*unmap)(unsigned char *memory, size_t bytes);
  /* Copies from the device to the host. */
  void (*read)(const void *memory, void *to, size_t bytes);
};

extern const struct device host_device;

#endif
