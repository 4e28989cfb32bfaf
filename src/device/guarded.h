/* A device for tests: memory of the process that faults where it is reached from anywhere but a kernel and
 * the calls of its device. Copies are made for it as for memory that the host does not reach. */
#ifndef NEAP_DEVICE_GUARDED_H
#define NEAP_DEVICE_GUARDED_H

#include "device/device.h"

extern const struct device guarded_device;

#endif
