/* In debug builds, memory whose values nobody may read: under the address sanitizer an access ends the
 * program, else it finds NaN in every type. Of memory at the host's addresses. */
#ifndef NEAP_DEVICE_POISON_H
#define NEAP_DEVICE_POISON_H

#if NEAP_DEBUG && defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISON(address, bytes)   ASAN_POISON_MEMORY_REGION(address, bytes)
#define UNPOISON(address, bytes) ASAN_UNPOISON_MEMORY_REGION(address, bytes)
#else
#include <string.h>
#define POISON(address, bytes)   memset(address, 0xFF, bytes)
#define UNPOISON(address, bytes) ((void)(address), (void)(bytes))
#endif

#endif
