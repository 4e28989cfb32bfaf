#include "device/device.h"

#include <stdlib.h>

neap_status device_map(const struct device *device, uint64_t bytes, struct device_memory *memory) {
  return device_map_common(device, bytes, (struct device_common){0}, memory);
}

neap_status device_map_common(const struct device *device, uint64_t bytes, struct device_common common,
                              struct device_memory *memory) {
  void *own;
  RETURN_IF(common.bytes > bytes, NEAP_INTERNAL, "%llu bytes of %llu cannot be common to processes",
            (unsigned long long)common.bytes, (unsigned long long)bytes);
  TRY(device->map(bytes, common, &own));
  *memory = (struct device_memory){device, bytes, own};
  return NEAP_OK;
}

void device_unmap(struct device_memory *memory) {
  if (memory->device != NULL) memory->device->unmap(memory->own, memory->bytes);
  *memory = (struct device_memory){0};
}

static neap_status need_inside(const struct device_memory *m, uint64_t at, uint64_t bytes) {
  RETURN_IF(at > m->bytes || bytes > m->bytes - at, NEAP_INTERNAL,
            "bytes %llu to %llu lie outside the memory of %llu bytes", (unsigned long long)at,
            (unsigned long long)(at + bytes), (unsigned long long)m->bytes);
  return NEAP_OK;
}

neap_status device_write(const struct device_memory *m, uint64_t at, const void *from, uint64_t bytes) {
  TRY(need_inside(m, at, bytes));
  return m->device->write(m->own, at, from, bytes);
}

neap_status device_read(const struct device_memory *m, uint64_t at, void *to, uint64_t bytes) {
  TRY(need_inside(m, at, bytes));
  return m->device->read(m->own, at, to, bytes);
}

neap_status device_fill(const struct device_memory *m, uint64_t at, uint64_t bytes) {
  TRY(need_inside(m, at, bytes));
  return m->device->fill(m->own, at, bytes);
}

neap_status device_wait(const struct device_memory *m) { return m->device->wait(m->own); }

neap_status device_enter(const struct device_memory *m, unsigned char **base) {
  return m->device->enter(m->own, base);
}

void device_leave(const struct device_memory *m) { m->device->leave(m->own); }

void *device_address(const struct device_memory *m, uint64_t at, uint64_t bytes) {
  if (!m->device->host_visible || at > m->bytes || bytes > m->bytes - at) return NULL;
  return (unsigned char *)m->own + at;
}

neap_status device_lend(const struct device_memory *m, uint64_t at, uint64_t bytes,
                        struct device_loan *loan) {
  *loan = (struct device_loan){0};
  TRY(need_inside(m, at, bytes));
  TRY(device_wait(m));
  void *data = device_address(m, at, bytes);
  if (data == NULL) {
    data = malloc(bytes > 0 ? bytes : 1);
    RETURN_IF_NULL(data);
    const neap_status status = device_read(m, at, data, bytes);
    if (status != NEAP_OK) {
      free(data);
      return status;
    }
  }
  *loan = (struct device_loan){data, at, bytes};
  return NEAP_OK;
}

neap_status device_give_back(const struct device_memory *m, struct device_loan *loan, bool changed) {
  neap_status status = NEAP_OK;
  if (loan->data != NULL && !m->device->host_visible) {
    if (changed) status = device_write(m, loan->at, loan->data, loan->bytes);
    free(loan->data);
  }
  *loan = (struct device_loan){0};
  return status;
}
