#include "base/memory_status.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

static uint64_t field_bytes(const char *text, const char *name) {
  const char *field = strstr(text, name);
  return field == NULL ? 0 : strtoull(field + strlen(name), NULL, 10) * 1024;
}

struct memory_status memory_status_read(void) {
  struct memory_status status = {0};
  char text[8192]; /* the file has about 1,500 bytes */
  const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (file < 0) return status;
  const ssize_t bytes = read(file, text, sizeof text - 1);
  close(file);
  if (bytes <= 0) return status;
  text[bytes] = '\0';
  status.resident_bytes = field_bytes(text, "\nVmRSS:");
  status.peak_resident_bytes = field_bytes(text, "\nVmHWM:");
  status.swapped_bytes = field_bytes(text, "\nVmSwap:");
  return status;
}

void memory_status_trim(void) {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

void memory_status_forget_peak(void) {
  static const char peak[] = "5";
  const int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  const ssize_t written = write(file, peak, sizeof peak - 1);
  (void)written; /* where it fails the peak stays as it is */
  close(file);
}
