/* Heaps in arrays of any type, the element that comes before all others first:
 *
 *     static bool open_before(const struct game *g, const struct open *a, const struct open *b);
 *     DEFINE_HEAP(open, struct game, struct open)
 *     ...
 *     TRY(vector_push(&g->open, state));
 *     open_rise(g, g->open.data, g->open.count);
 *     ...
 *     const struct open first = open_take(g, g->open.data, &g->open.count);
 *
 * The owner is what `before` needs to know besides the elements. Both in O(log count). Of equal elements any
 * is the first: an order in which none are equal gives the same on every machine. */
#ifndef NEAP_BASE_HEAP_H
#define NEAP_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>

#define DEFINE_HEAP(name, owner_type, type)                                                                  \
  /* Brings the last element, which was added to a heap, to its place. */                                    \
  static void name##_rise(const owner_type *owner, type *heap, size_t count) {                               \
    const type added = heap[count - 1];                                                                      \
    size_t at = count - 1;                                                                                   \
    for (; at > 0 && name##_before(owner, &added, &heap[(at - 1) / 2]); at = (at - 1) / 2)                   \
      heap[at] = heap[(at - 1) / 2];                                                                         \
    heap[at] = added;                                                                                        \
  }                                                                                                          \
                                                                                                             \
  /* Takes the first out of a heap that is not empty. */                                                     \
  static type name##_take(const owner_type *owner, type *heap, size_t *count) {                              \
    const type first = heap[0], last = heap[--*count];                                                       \
    size_t at = 0;                                                                                           \
    for (size_t child; (child = 2 * at + 1) < *count; at = child) {                                          \
      if (child + 1 < *count && name##_before(owner, &heap[child + 1], &heap[child])) child++;               \
      if (!name##_before(owner, &heap[child], &last)) break;                                                 \
      heap[at] = heap[child];                                                                                \
    }                                                                                                        \
    heap[at] = last;                                                                                         \
    return first;                                                                                            \
  }

#endif
