/* Chooses the device whose memory is mapped. */
#ifndef NEAP_DEVICE_DEVICES_H
#define NEAP_DEVICE_DEVICES_H

#include "device/device.h"

/* The backend's own; the guarded one in place of the host where the environment has NEAP_GUARD_MEMORY=1, as
 * the tests have. */
const struct device *device_in_use(const struct device *own);

#endif
