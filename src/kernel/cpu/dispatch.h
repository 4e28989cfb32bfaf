/* Chooses the table of kernels (isa/kernels.h) that this processor runs. */
#ifndef NEAP_KERNEL_CPU_DISPATCH_H
#define NEAP_KERNEL_CPU_DISPATCH_H

#include "kernel/cpu/isa/kernels.h"

/* The table for the best instruction set that this processor has, up to the one that the environment variable
 * NEAP_MAX_CPU_ISA names. NEAP_INVALID_ARGUMENT: it names none. */
neap_status cpu_kernels_best(const struct cpu_kernels **best);

/* Returns the same table, or for one without fused multiply-add a slow one whose f32 results have the bits of
 * all tables that have it. */
const struct cpu_kernels *cpu_kernels_fused(const struct cpu_kernels *kernels);

/* Lanes of f32 in the vectors of a table's instruction set; 0: of the generic one, which has no width. */
int cpu_kernels_lanes(const struct cpu_kernels *kernels);

/* All tables that this processor can run, best first; NULL past the last. */
const struct cpu_kernels *cpu_kernels_at(int index);

#endif
