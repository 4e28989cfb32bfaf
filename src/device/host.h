/* The memory of the process: addresses are the host's, nothing is copied, kernels have ended when they
 * return. */
#ifndef NEAP_DEVICE_HOST_H
#define NEAP_DEVICE_HOST_H

#include "device/device.h"

extern const struct device host_device;

/* Returns the bytes of a mapping's first page that lie before it. */
uint64_t host_skipped(const void *own);

#endif
