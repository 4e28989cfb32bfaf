#include <stdlib.h>
#include <string.h>

#include "kernel/cpu/dispatch.h"

extern const struct cpu_kernels cpu_kernels_generic, cpu_kernels_generic_fma, cpu_kernels_avx2,
    cpu_kernels_avx512, cpu_kernels_avx512_bf16;

const struct cpu_kernels *cpu_kernels_at(int index) {
#if defined(__x86_64__)
  const struct cpu_kernels *usable[5];
  int count = 0;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512 && __builtin_cpu_supports("avx512bf16")) usable[count++] = &cpu_kernels_avx512_bf16;
  if (avx512) usable[count++] = &cpu_kernels_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) usable[count++] = &cpu_kernels_avx2;
  usable[count++] = &cpu_kernels_generic;
  usable[count++] = &cpu_kernels_generic_fma;
  return index >= 0 && index < count ? usable[index] : NULL;
#else
  return index == 0 ? &cpu_kernels_generic : NULL;
#endif
}

static const struct {
  const char *name;
  int lanes;
} sets[] = {
    {"avx512_bf16", 16}, {"avx512", 16}, {"avx2", 8}, {"generic", 0}, {"generic_fma", 0}}; /* best first */
enum { SETS = sizeof sets / sizeof *sets };

/* Returns the set of this name; SETS if none has it. */
static int set_of(const char *name) {
  int set = 0;
  while (set < SETS && strcmp(sets[set].name, name) != 0) set++;
  return set;
}

neap_status cpu_kernels_best(const struct cpu_kernels **best) {
  const char *limit = getenv("NEAP_MAX_CPU_ISA");
  const int first = limit != NULL ? set_of(limit) : 0;
  RETURN_IF(first == SETS, NEAP_INVALID_ARGUMENT,
            "NEAP_MAX_CPU_ISA must be avx512_bf16, avx512, avx2, generic or generic_fma (got '%s')", limit);
  int index = 0;
  while (set_of(cpu_kernels_at(index)->name) < first && cpu_kernels_at(index + 1) != NULL) index++;
  *best = cpu_kernels_at(index);
  return NEAP_OK;
}

const struct cpu_kernels *cpu_kernels_fused(const struct cpu_kernels *kernels) {
#if defined(__x86_64__)
  if (kernels == &cpu_kernels_generic) return &cpu_kernels_generic_fma;
#endif
  return kernels;
}

int cpu_kernels_lanes(const struct cpu_kernels *kernels) { return sets[set_of(kernels->name)].lanes; }
