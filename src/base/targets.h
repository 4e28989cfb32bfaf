/* Small loops outside the kernels that many plans spend their time in. */
#ifndef NEAP_BASE_TARGETS_H
#define NEAP_BASE_TARGETS_H

/* A function that is compiled for several instruction sets; the loader takes the best that the processor has.
 * For functions of integers, and of sums and minima of floats in a given order: all give the same bits.
 * Sanitizers are not ready when the loader chooses. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) &&  \
    !defined(__SANITIZE_THREAD__)
#define FOR_EACH_TARGET __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_TARGET
#endif

#endif
