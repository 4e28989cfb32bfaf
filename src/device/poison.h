/* In debug builds under the address sanitizer, memory that nobody may touch now: an access ends the program.
 * Of memory at the host's addresses. */
#ifndef NEAP_DEVICE_POISON_H
#define NEAP_DEVICE_POISON_H

#if NEAP_DEBUG && defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISONS               1
#define CLOSE(address, bytes) ASAN_POISON_MEMORY_REGION(address, bytes)
#define OPEN(address, bytes)  ASAN_UNPOISON_MEMORY_REGION(address, bytes)
#else
#define POISONS               0
#define CLOSE(address, bytes) ((void)(address), (void)(bytes))
#define OPEN(address, bytes)  ((void)(address), (void)(bytes))
#endif

#endif
