/* Normal random numbers. */
#ifndef NEAP_BASE_NORMAL_H
#define NEAP_BASE_NORMAL_H

#include <stdint.h>

/* Fills data[0 .. count) with the numbers first, first + 1, ... of a stream of normal numbers with this
 * deviation, by Box and Muller 1958, two from two words. `first` is even. */
void random_normals(uint64_t seed, uint64_t stream, double deviation, int64_t first, int64_t count,
                    float *data);

#endif
