/* Preloaded into a command: counts its requests for more than WATCH_ABOVE bytes of memory, by malloc and its
 * family and by mmap, of any library, and writes them to the file WATCH_FILE when the command ends: their
 * number, the number of those between its first and last fflush, then a line for each of the last ones with
 * its bytes and the library that asked. */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WATCH_ABOVE = 4 << 10, KEPT = 64 };

/* glibc's own, which nothing overrides. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

struct request {
  size_t bytes;
  void *caller;
};
static struct request requests[KEPT];
static atomic_size_t count;
static size_t at_first_flush, at_last_flush;
static bool flushed;

static void see(size_t bytes, void *caller) {
  if (bytes > WATCH_ABOVE) requests[atomic_fetch_add(&count, 1) % KEPT] = (struct request){bytes, caller};
}
#define SEE(bytes) see(bytes, __builtin_return_address(0))

void *malloc(size_t size) {
  SEE(size);
  return __libc_malloc(size);
}

void *calloc(size_t items, size_t size) {
  SEE(items > 0 && size > SIZE_MAX / items ? SIZE_MAX : items * size);
  return __libc_calloc(items, size);
}

/* Only what is more than there was. */
void *realloc(void *memory, size_t size) {
  if (memory == NULL || size > malloc_usable_size(memory)) SEE(size);
  return __libc_realloc(memory, size);
}

void *memalign(size_t alignment, size_t size) {
  SEE(size);
  return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  SEE(size);
  return __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
  SEE(size);
  void *made = __libc_memalign(alignment, size);
  if (made == NULL) return ENOMEM;
  *memory = made;
  return 0;
}

void *mmap(void *place, size_t size, int protection, int flags, int file, off_t offset) {
  SEE(size);
  return (void *)syscall(SYS_mmap, place, size, protection, flags, file, offset);
}

int fflush(FILE *file) {
  static int (*real)(FILE *);
  if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, "fflush");
  at_last_flush = count;
  if (!flushed) at_first_flush = at_last_flush;
  flushed = true;
  return real(file);
}

__attribute__((destructor)) static void report(void) {
  const char *path = getenv("WATCH_FILE");
  FILE *to = path != NULL ? fopen(path, "w") : NULL;
  const size_t all = count;
  if (to == NULL) return;
  fprintf(to, "%zu\n%zu\n", all, at_last_flush - at_first_flush);
  for (size_t i = all > KEPT ? all - KEPT : 0; i < all; i++) {
    Dl_info library = {0};
    dladdr(requests[i % KEPT].caller, &library);
    fprintf(to, "%zu %s\n", requests[i % KEPT].bytes, library.dli_fname != NULL ? library.dli_fname : "?");
  }
  fclose(to);
}
