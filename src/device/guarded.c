#include "device/guarded.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device/host.h"

/* Memory is open while somebody is inside: kernels' own threads are covered by who has called the kernel. */
struct guarded {
  pthread_mutex_t lock;
  void *data;
  uint64_t bytes;
  int64_t inside; /* times entered and not left */
};

static neap_status protect(const struct guarded *g, int protection) {
  const uint64_t skipped = host_skipped(g->data);
  RETURN_IF(mprotect((unsigned char *)g->data - skipped, skipped + g->bytes, protection) != 0, NEAP_INTERNAL,
            "the memory of %llu bytes could not be %s", (unsigned long long)g->bytes,
            protection == PROT_NONE ? "closed" : "opened");
  return NEAP_OK;
}

static void unmap(void *own, uint64_t bytes) {
  struct guarded *g = own;
  host_device.unmap(g->data, bytes);
  pthread_mutex_destroy(&g->lock);
  free(g);
}

static neap_status map(uint64_t bytes, struct device_common common, void **own) {
  struct guarded *g = calloc(1, sizeof *g);
  RETURN_IF_NULL(g);
  g->bytes = bytes;
  neap_status status = host_device.map(bytes, common, &g->data);
  if (status != NEAP_OK) {
    free(g);
    return status;
  }
  pthread_mutex_init(&g->lock, NULL);
  status = protect(g, PROT_NONE);
  if (status == NEAP_OK)
    *own = g;
  else
    unmap(g, bytes);
  return status;
}

static neap_status enter(void *own, unsigned char **base) {
  struct guarded *g = own;
  pthread_mutex_lock(&g->lock);
  const neap_status status = g->inside > 0 ? NEAP_OK : protect(g, PROT_READ | PROT_WRITE);
  g->inside += status == NEAP_OK;
  pthread_mutex_unlock(&g->lock);
  *base = g->data;
  return status;
}

static void leave(void *own) {
  struct guarded *g = own;
  pthread_mutex_lock(&g->lock);
  if (--g->inside == 0) protect(g, PROT_NONE); /* where it fails the memory stays open: nothing is lost */
  pthread_mutex_unlock(&g->lock);
}

static neap_status write(void *own, uint64_t at, const void *from, uint64_t bytes) {
  unsigned char *base;
  TRY(enter(own, &base));
  memcpy(base + at, from, bytes);
  leave(own);
  return NEAP_OK;
}

static neap_status read(void *own, uint64_t at, void *to, uint64_t bytes) {
  unsigned char *base;
  TRY(enter(own, &base));
  memcpy(to, base + at, bytes);
  leave(own);
  return NEAP_OK;
}

static neap_status fill(void *own, uint64_t at, uint64_t bytes) {
  unsigned char *base;
  TRY(enter(own, &base));
  memset(base + at, 0, bytes);
  leave(own);
  return NEAP_OK;
}

static neap_status wait(void *own) {
  (void)own;
  return NEAP_OK;
}

const struct device guarded_device = {.name = "guarded",
                                      .map = map,
                                      .unmap = unmap,
                                      .write = write,
                                      .read = read,
                                      .fill = fill,
                                      .wait = wait,
                                      .enter = enter,
                                      .leave = leave};
