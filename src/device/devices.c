#include "device/devices.h"

#include <stdlib.h>
#include <string.h>

#include "device/guarded.h"
#include "device/host.h"

const struct device *device_in_use(const struct device *own) {
  const char *guard = getenv("NEAP_GUARD_MEMORY");
  return own == &host_device && guard != NULL && strcmp(guard, "1") == 0 ? &guarded_device : own;
}
