/* The speed of this processor and its memory: the best of several runs, since other work on the machine only
 * slows them down. */
#include "kernel/cpu/speed.h"

#include <omp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "kernel/cpu/dispatch.h"

/* Limits of one measurement: it runs until this number in a row were no better, within limits of time. The
 * least time is several time slices of the system, in some of which all threads run. */
enum { RUNS_IN_VAIN = 6 };
static const double better = 1.005 /* less is noise */, least_seconds = 0.03, most_seconds = 0.15;

/* The arrays of a copy are far larger than the largest cache, within these limits; or fill half of the
 * smaller cache that each core has. */
enum {
  FAR_TIMES = 2,
  FAR_LEAST = 64 << 20,
  FAR_MOST = 512 << 20,
  NEAR_LEAST = 64 << 10,
  NEAR_MOST = 1 << 20
};

struct measurement {
  const struct cpu_kernels *kernels;
  int threads;
  float *x, *y; /* [count] each */
  int64_t count;
  int64_t near; /* of them, that a thread copies again and again in its cache */
};

/* Runs once; returns the work done in a second: FLOPs, or bytes read and written. */
typedef double run_once(const struct measurement *m);

static double best_rate(const struct measurement *m, run_once *run) {
  const double begin = clock_seconds();
  double best = 0;
  for (int in_vain = 0;;) {
    const double rate = run(m), seconds = clock_seconds() - begin;
    in_vain = rate > better * best ? 0 : in_vain + 1;
    if (rate > best) best = rate;
    if (rate == 0 || seconds >= most_seconds || (in_vain >= RUNS_IN_VAIN && seconds >= least_seconds))
      return best;
  }
}

/* ---- What is run ---- */

/* The best of pieces that a thread does alone counts: another may have waited for the processor. */
enum { PIECES = 8 };

static double compute_with(const struct measurement *m, double (*compute)(int64_t, double *)) {
  enum { ROUNDS = 20000 }; /* about 50 us */
  double all = 0;
#pragma omp parallel num_threads(m->threads) reduction(+ : all)
  {
    double best = 0;
#pragma omp barrier
    for (int i = 0; i < PIECES; i++) {
      double flops;
      const double begin = clock_seconds();
      compute(ROUNDS, &flops);
      const double rate = flops / (clock_seconds() - begin);
      if (rate > best) best = rate;
    }
    all += best;
  }
  return all;
}
static double multiply_adds(const struct measurement *m) {
  return compute_with(m, m->kernels->multiply_adds);
}
static double dot_products(const struct measurement *m) {
  return compute_with(m, m->kernels->bf16_dot_products);
}

static double copy_near(const struct measurement *m) {
  enum { TIMES = 16 };
  double all = 0;
#pragma omp parallel num_threads(m->threads) reduction(+ : all)
  {
    const int64_t first = m->count * omp_get_thread_num() / m->threads;
    double best = 0;
#pragma omp barrier
    for (int i = 0; i < PIECES; i++) {
      const double begin = clock_seconds();
      for (int k = 0; k < TIMES; k++) m->kernels->copy(m->near, m->x + first, m->y + first);
      const double rate = 2.0 * TIMES * sizeof(float) * (double)m->near / (clock_seconds() - begin);
      if (rate > best) best = rate;
    }
    all += best;
  }
  return all;
}

/* Measures a copy by all threads together, as they share the memory's bandwidth. */
static double copy_far_with(const struct measurement *m, void (*copy)(int64_t, const float *, float *)) {
  const double begin = clock_seconds();
#pragma omp parallel num_threads(m->threads)
  {
    const int64_t part = omp_get_thread_num(), first = m->count * part / m->threads,
                  end = m->count * (part + 1) / m->threads;
    copy(end - first, m->x + first, m->y + first);
  }
  return 2.0 * sizeof(float) * (double)m->count / (clock_seconds() - begin);
}
static double copy_far(const struct measurement *m) { return copy_far_with(m, m->kernels->copy); }
static double stream_far(const struct measurement *m) { return copy_far_with(m, m->kernels->stream_copy); }

/* Writes each thread's own part. Pages that were never written would all be one page of zeros. */
static void write_far(const struct measurement *m) {
#pragma omp parallel num_threads(m->threads)
  {
    const int64_t part = omp_get_thread_num(), first = m->count * part / m->threads,
                  end = m->count * (part + 1) / m->threads;
    for (int64_t i = first; i < end; i++) m->x[i] = m->y[i] = 1;
  }
}

/* ---- The measurement ---- */

static int64_t within(int64_t value, int64_t least, int64_t most) {
  return value < least ? least : value > most ? most : value;
}

static int64_t cache_bytes(int name) {
  const long bytes = sysconf(name);
  return bytes > 0 ? bytes : 0;
}

static void *map(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

static double larger(double a, double b) { return a > b ? a : b; }

/* Measures several threads. They are at least as fast as one: if they seem slower, something else is
 * running. */
static neap_speed measure(struct measurement *m, const neap_speed *one) {
  return (neap_speed){.threads = m->threads,
                      .f32_flops = larger(best_rate(m, multiply_adds), one->f32_flops),
                      .bf16_flops = larger(best_rate(m, dot_products), one->bf16_flops),
                      .memory_bytes =
                          larger(larger(best_rate(m, copy_far), best_rate(m, stream_far)), one->memory_bytes),
                      .cache_bytes = larger(best_rate(m, copy_near), one->cache_bytes)};
}

neap_status cpu_measure_speed(int threads, neap_speed *one, neap_speed *all) {
  const int64_t far = within(FAR_TIMES * cache_bytes(_SC_LEVEL3_CACHE_SIZE), FAR_LEAST, FAR_MOST),
                near = within(cache_bytes(_SC_LEVEL2_CACHE_SIZE) / 4, NEAR_LEAST, NEAR_MOST);
  const struct cpu_kernels *kernels;
  TRY(cpu_kernels_best(&kernels));
  struct measurement m = {.kernels = kernels,
                          .threads = threads,
                          .x = map((size_t)far),
                          .y = map((size_t)far),
                          .count = far / (int64_t)sizeof(float)};
  const bool mapped = m.x != NULL && m.y != NULL;
  m.near = within(near / (int64_t)sizeof(float), 1, m.count / threads);
  if (mapped) {
    write_far(&m);
    m.threads = 1;
    *one = measure(&m, &(neap_speed){0});
    m.threads = threads;
    *all = threads > 1 ? measure(&m, one) : *one;
  }
  if (m.x != NULL) munmap(m.x, (size_t)far);
  if (m.y != NULL) munmap(m.y, (size_t)far);
  RETURN_IF(!mapped, NEAP_OUT_OF_MEMORY,
            "not enough memory to measure copies: the system cannot provide %lld bytes", 2 * (long long)far);
  return NEAP_OK;
}
