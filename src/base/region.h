/* A region: memory that is handed out piece by piece and freed whole. A graph, a plan and a session each
 * own one. (The training memory itself is called the arena; it is not made of regions.) */
#ifndef NEAP_BASE_REGION_H
#define NEAP_BASE_REGION_H

#include <stddef.h>
#include <stdint.h>

struct region {
  struct region_block *blocks; /* newest first */
};

/* `count` elements of `size` bytes, zeroed, aligned for any type. NULL when out of memory or when the
 * product overflows; what was handed out before stays valid. A count of 0 gives a valid pointer. */
void *region_alloc(struct region *region, size_t count, size_t size);

/* Copies; NULL as above. */
void *region_copy(struct region *region, const void *source, size_t count, size_t size);
char *region_string(struct region *region, const char *text);
char *region_format(struct region *region, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Frees everything; the region is empty and usable again. */
void region_free(struct region *region);

#endif
