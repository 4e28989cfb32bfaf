/* A growable array of any type:
 *
 *     VECTOR(int32_t) ids = {0};
 *     TRY(vector_push(&ids, 7));
 *     ... ids.data[0], ids.count ...
 *     vector_free(&ids);
 */
#ifndef NEAP_BASE_VECTOR_H
#define NEAP_BASE_VECTOR_H

#include <stddef.h>
#include <stdlib.h>

#include "base/status.h"

#define VECTOR(type)                                                                                         \
  struct {                                                                                                   \
    type *data;                                                                                              \
    size_t count, capacity;                                                                                  \
  }

/* Makes room for `wanted` elements in all. On failure the vector is as it was. */
#define vector_reserve(vector, wanted)                                                                       \
  vector_reserve_bytes((void **)&(vector)->data, &(vector)->capacity, (wanted), sizeof *(vector)->data)

#define vector_push(vector, ...)                                                                             \
  (vector_reserve(vector, (vector)->count + 1) != NEAP_OK                                                    \
       ? NEAP_OUT_OF_MEMORY                                                                                  \
       : ((vector)->data[(vector)->count++] = (__VA_ARGS__), NEAP_OK))

#define vector_free(vector)                                                                                  \
  (free((vector)->data), (vector)->data = NULL, (vector)->count = (vector)->capacity = 0)

neap_status vector_reserve_bytes(void **data, size_t *capacity, size_t wanted, size_t element);

#endif
