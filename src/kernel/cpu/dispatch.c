#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "kernel/cpu/dispatch.h"

/* The sets of this build: NEAP_SETS is SET(generic) SET(avx2) and so on. */
#define SET(isa) extern const struct cpu_kernels cpu_kernels_##isa;
NEAP_SETS
#undef SET
static const struct cpu_kernels *const built[] = {
#define SET(isa) &cpu_kernels_##isa,
    NEAP_SETS
#undef SET
};
enum { BUILT = sizeof built / sizeof *built };

#if defined(__x86_64__)
static bool has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
static bool has_avx512(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
static bool has_avx512_bf16(void) { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }
/* Returns true if the processor multiplies matrices of bf16 and Linux lets this process use their registers,
 * for which it has to be asked once. */
static bool has_amx_bf16(void) {
#if defined(__linux__)
  enum {
    TILE_FEATURES = 1 << 22 | 1 << 24, /* AMX-BF16 and AMX-TILE in EDX */
    ASK_FOR_STATE = 0x1023,            /* ARCH_REQ_XCOMP_PERM */
    TILE_DATA = 18
  }; /* XFEATURE_XTILEDATA */
  unsigned a, b, c, d;
  return has_avx512_bf16() && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
         (d & TILE_FEATURES) == TILE_FEATURES && syscall(SYS_arch_prctl, ASK_FOR_STATE, TILE_DATA) == 0;
#else
  return false;
#endif
}
#else
static bool has_none(void) { return false; }
#define has_avx2        has_none
#define has_avx512      has_none
#define has_avx512_bf16 has_none
#define has_amx_bf16    has_none
#endif
static bool has_generic(void) { return true; }

/* All sets, best first. */
static const struct {
  const char *name;
  int lanes;
  bool (*usable)(void); /* by this processor */
} sets[] = {{"amx_bf16", 16, has_amx_bf16}, {"avx512_bf16", 16, has_avx512_bf16},
            {"avx512", 16, has_avx512},     {"avx2", 8, has_avx2},
            {"generic", 0, has_generic},    {"generic_fma", 0, has_generic}};
enum { SETS = sizeof sets / sizeof *sets };

/* Returns the kernels of a set; NULL: this build does not have them. */
static const struct cpu_kernels *built_set(const char *name) {
  for (int i = 0; i < BUILT; i++)
    if (strcmp(built[i]->name, name) == 0) return built[i];
  return NULL;
}

const struct cpu_kernels *cpu_kernels_at(int index) {
  for (int set = 0, count = 0; set < SETS; set++) {
    const struct cpu_kernels *kernels = built_set(sets[set].name);
    if (kernels != NULL && sets[set].usable() && count++ == index) return kernels;
  }
  return NULL;
}

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
            "NEAP_MAX_CPU_ISA must be amx_bf16, avx512_bf16, avx512, avx2, generic or generic_fma (got '%s')",
            limit);
  RETURN_IF(limit != NULL && sets[first].usable() && built_set(limit) == NULL, NEAP_UNSUPPORTED,
            "NEAP_MAX_CPU_ISA: this build has no kernels for %s; build with NEAP_INSTRUCTION_SETS=all",
            limit);
  int index = 0;
  while (set_of(cpu_kernels_at(index)->name) < first && cpu_kernels_at(index + 1) != NULL) index++;
  *best = cpu_kernels_at(index);
  return NEAP_OK;
}

const struct cpu_kernels *cpu_kernels_fused(const struct cpu_kernels *kernels) {
  const struct cpu_kernels *fused = built_set("generic_fma");
  return strcmp(kernels->name, "generic") == 0 && fused != NULL ? fused : kernels;
}

int cpu_kernels_lanes(const struct cpu_kernels *kernels) { return sets[set_of(kernels->name)].lanes; }
