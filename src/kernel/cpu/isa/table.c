#include "kernel/cpu/isa/isa.h"

#define TEXT_OF(isa) #isa
#define TEXT(isa)    TEXT_OF(isa)

/* NEAP_BASE_ISA: the set that this one has its kernels from, but those of pairs. */
#if defined(NEAP_BASE_ISA)
#define BASE(name)                       ISA_NAME(name, NEAP_BASE_ISA)
#define KERNEL(result, name, parameters) result BASE(name) parameters;
#define PAIRS_KERNEL(result, name, parameters)
#include "kernel/cpu/isa/kernel_list.h"
#undef KERNEL
#undef PAIRS_KERNEL
#else
#define BASE ISA
#endif

const struct cpu_kernels ISA(cpu_kernels) = {
    TEXT(NEAP_ISA),
#define KERNEL(result, name, parameters)       .name = BASE(name),
#define PAIRS_KERNEL(result, name, parameters) .name = ISA(name),
#include "kernel/cpu/isa/kernel_list.h"
#undef KERNEL
#undef PAIRS_KERNEL
};
