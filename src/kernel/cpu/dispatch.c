#include "kernel/cpu/isa/kernels.h"

extern const struct cpu_kernels cpu_kernels_generic, cpu_kernels_avx2, cpu_kernels_avx512;

const struct cpu_kernels *cpu_kernels_at(int index) {
#if defined(__x86_64__)
  const struct cpu_kernels *usable[3];
  int count = 0;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    usable[count++] = &cpu_kernels_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) usable[count++] = &cpu_kernels_avx2;
  usable[count++] = &cpu_kernels_generic;
  return index >= 0 && index < count ? usable[index] : NULL;
#else
  return index == 0 ? &cpu_kernels_generic : NULL;
#endif
}

const struct cpu_kernels *cpu_kernels_best(void) { return cpu_kernels_at(0); }
