/* Peak speeds of the processor, for measurement only: multiply-adds in registers, and copies. */
#include "kernel/cpu/isa/matrix_tile.h"

/* Independent chains of operations: the latency of an instruction would limit a single one. */
enum { CHAINS = 12 };
#if defined(__clang__)
#define UNROLL_CHAINS _Pragma("unroll")
#else
#define UNROLL_CHAINS _Pragma("GCC unroll 12")
#endif

/* Each element of a chain converges to 1. */
double ISA(multiply_adds)(int64_t rounds, double *flops) {
  floats chain[CHAINS];
  const floats half = 0.5f - (floats){0};
  for (int c = 0; c < CHAINS; c++) chain[c] = half;
  for (int64_t round = 0; round < rounds; round++) {
    UNROLL_CHAINS
    for (int c = 0; c < CHAINS; c++) chain[c] = multiply_add_vector(chain[c], half, half);
  }
  double sum = 0;
  for (int c = 0; c < CHAINS; c++)
    for (int i = 0; i < FLOATS; i++) sum += (double)chain[c][i];
  *flops = 2.0 * CHAINS * FLOATS * (double)rounds;
  return sum / (CHAINS * FLOATS);
}

#if defined(__AVX512BW__) && defined(__AVX512VL__)
/* Products of pairs: 2 multiply-adds for each f32 of a chain. The factors are 0, which the compiler does not
 * know, so that sums stay 0. */
__attribute__((target("avx512bf16"))) static double dot_products(int64_t rounds, double *flops) {
  static const volatile int32_t nothing = 0;
  const __m512bh zero = (__m512bh)_mm512_set1_epi32(nothing);
  __m512 chain[CHAINS];
  for (int c = 0; c < CHAINS; c++) chain[c] = _mm512_setzero_ps();
  for (int64_t round = 0; round < rounds; round++) {
    UNROLL_CHAINS
    for (int c = 0; c < CHAINS; c++) chain[c] = _mm512_dpbf16_ps(chain[c], zero, zero);
  }
  double sum = 0;
  for (int c = 0; c < CHAINS; c++) sum += (double)_mm512_reduce_add_ps(chain[c]);
  *flops = 4.0 * CHAINS * VECTOR_WIDTH * (double)rounds;
  return sum;
}
#endif

#if defined(__AMX_BF16__)
/* Products of matrices of zeros into four registers of sums, 16 x 16 sums of 32 terms each. */
static double matrix_products(int64_t rounds, double *flops) {
  float sums[256];
  open_matrices();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  for (int64_t round = 0; round < rounds; round++) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_stored(0, sums, 64);
  close_matrices();
  *flops = 4 * 2.0 * 16 * 16 * 32 * (double)rounds;
  return (double)sums[0];
}
#endif

double ISA(bf16_dot_products)(int64_t rounds, double *flops) {
  *flops = 0;
#if defined(__AMX_BF16__)
  return matrix_products(rounds, flops);
#endif
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  if (__builtin_cpu_supports("avx512bf16")) return dot_products(rounds, flops);
#endif
  (void)rounds;
  return 0;
}

void ISA(copy)(int64_t count, const float *x, float *y) {
  const int64_t whole = count / VECTOR_WIDTH * VECTOR_WIDTH;
  for (int64_t i = 0; i < whole; i += VECTOR_WIDTH) {
    store_vector(y + i, load_vector(x + i));
    __asm__ volatile("" ::: "memory"); /* keeps compilers from memcpy, which goes around the caches */
  }
  for (int64_t i = whole; i < count; i++) y[i] = x[i];
}

void ISA(stream_copy)(int64_t count, const float *x, float *y) {
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= count; i += 16) _mm512_stream_ps(y + i, _mm512_loadu_ps(x + i));
  _mm_sfence();
#elif defined(__AVX2__)
  for (; i + 8 <= count; i += 8) _mm256_stream_ps(y + i, _mm256_loadu_ps(x + i));
  _mm_sfence();
#endif
  for (; i < count; i++) y[i] = x[i];
}
