#include "base/vector.h"

neap_status vector_reserve_bytes(void **data, size_t *capacity, size_t wanted, size_t element) {
  if (wanted <= *capacity) return NEAP_OK;
  size_t grown = *capacity < 8 ? 16 : *capacity;
  while (grown < wanted)
    RETURN_IF(__builtin_mul_overflow(grown, (size_t)2, &grown), NEAP_OUT_OF_MEMORY, "array of %zu elements",
              wanted);
  void *moved = reallocarray(*data, grown, element);
  RETURN_IF(moved == NULL, NEAP_OUT_OF_MEMORY, "out of memory for an array of %zu elements", grown);
  *data = moved;
  *capacity = grown;
  return NEAP_OK;
}
