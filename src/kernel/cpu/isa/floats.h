/* A register of floats. */
#ifndef NEAP_KERNEL_CPU_ISA_FLOATS_H
#define NEAP_KERNEL_CPU_ISA_FLOATS_H

#include "kernel/cpu/isa/math.h"

/* As many as a register has: wider vectors would not stay in registers. */
#if defined(__AVX__)
enum { FLOATS = VECTOR_WIDTH };
#else
enum { FLOATS = 4 };
#endif
typedef float floats __attribute__((vector_size(4 * FLOATS), aligned(4)));

#endif
