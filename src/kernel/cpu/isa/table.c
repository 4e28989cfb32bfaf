#include "kernel/cpu/isa/isa.h"

#define TEXT_OF(isa) #isa
#define TEXT(isa)    TEXT_OF(isa)

const struct cpu_kernels ISA(cpu_kernels) = {
    TEXT(NEAP_ISA),
#define KERNEL(result, name, parameters) .name = ISA(name),
#include "kernel/cpu/isa/kernel_list.h"
#undef KERNEL
};
