/* products [THREADS [ROUNDS]]
 *
 * GFLOP/s of our products of matrices of f32 at the shapes of some networks, pass by pass, and their share of
 * the peak of multiply-adds, which is measured in each round too: the best of both counts. NEAP_MAX_CPU_ISA
 * limits the instruction set.
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "kernel/cpu/dispatch.h"
#include "kernel/cpu/matmul.h"

/* A linear layer, or a 1x1 convolution of that number of pixels. */
static const struct shape {
  const char *name;
  int64_t rows, outputs, inputs;
} shapes[] = {
    {"GPT 12x384x6", 2048, 1152, 384},  {"GPT 12x384x6", 2048, 1536, 384}, {"GPT 12x384x6", 2048, 384, 1536},
    {"SmolLM2-135M", 1024, 576, 576},   {"SmolLM2-135M", 1024, 192, 576},  {"SmolLM2-135M", 1024, 1536, 576},
    {"SmolLM2-135M", 1024, 576, 1536},  {"Llama 1.1B", 512, 2048, 2048},   {"Llama 1.1B", 512, 5632, 2048},
    {"ResNet-50, 1x1", 6272, 64, 256},  {"ResNet-50, 1x1", 6272, 256, 64}, {"ResNet-50, 1x1", 6272, 512, 128},
    {"ResNet-50, 1x1", 392, 2048, 512}, {"LSTM 4x1024", 64, 4096, 1024},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, FORWARD = 0, DATA, WEIGHTS, PASSES };

struct job {
  const struct cpu_kernels *kernels;
  struct product product;
  float *a, *b, *c, *workspace;
  double flops, best; /* FLOPs; FLOP/s */
};

static float *numbers(int64_t count) {
  float *values = aligned_alloc(64, ((size_t)count * sizeof *values + 63) / 64 * 64);
  if (values == NULL) exit(1);
  for (int64_t i = 0; i < count; i++) values[i] = (float)(i * 7 % 13) / 10 - 0.6f;
  return values;
}

static struct job make_job(const struct cpu_kernels *kernels, const struct shape *s, int pass, int threads) {
  const struct matmul m = {.m = pass == WEIGHTS ? s->outputs : s->rows,
                           .n = pass == FORWARD ? s->outputs : s->inputs,
                           .k = pass == FORWARD ? s->inputs
                                : pass == DATA  ? s->outputs
                                                : s->rows,
                           .a_transposed = pass == WEIGHTS,
                           .b_transposed = pass == FORWARD,
                           .threads = threads};
  struct job j = {.kernels = kernels,
                  .product = matmul_product(&m),
                  .a = numbers(m.m * m.k),
                  .b = numbers(m.k * m.n),
                  .c = numbers(m.m * m.n),
                  .flops = 2 * (double)m.m * (double)m.n * (double)m.k};
  j.workspace = numbers((int64_t)(kernels->product_workspace(&j.product) / sizeof(float)) + 1);
  return j;
}

static void run(struct job *j) {
  const struct product_operands o = {.a = j->a, .b = j->b, .c = j->c};
  for (int i = 0; i < 5; i++) {
    const double begin = clock_seconds();
    j->kernels->product(&j->product, &o, j->workspace);
    const double speed = j->flops / (clock_seconds() - begin);
    if (speed > j->best) j->best = speed;
  }
}

static double peak_of(const struct cpu_kernels *kernels, int threads) {
  double all = 0;
#pragma omp parallel num_threads(threads) reduction(+ : all)
  {
    double flops;
    const double begin = clock_seconds();
    kernels->multiply_adds(2000000, &flops);
    all += flops / (clock_seconds() - begin);
  }
  return all;
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int count, char **arguments) {
  static struct job jobs[SHAPES][PASSES];
  const struct cpu_kernels *kernels;
  const int threads = count > 1 ? atoi(arguments[1]) : omp_get_max_threads(),
            rounds = count > 2 ? atoi(arguments[2]) : 20;
  double peak = 0, shares[SHAPES * PASSES];
  if (threads < 1 || rounds < 1 || cpu_kernels_best(&kernels) != NEAP_OK) return 2;
  for (int s = 0; s < SHAPES; s++)
    for (int p = 0; p < PASSES; p++) jobs[s][p] = make_job(kernels, &shapes[s], p, threads);
  for (int round = 0; round < rounds; round++) {
    const double speed = peak_of(kernels, threads);
    if (speed > peak) peak = speed;
    for (int s = 0; s < SHAPES; s++)
      for (int p = 0; p < PASSES; p++) run(&jobs[s][p]);
  }
  printf("%s, %d threads: multiply-adds %.0f GFLOP/s\n", kernels->name, threads, peak / 1e9);
  printf("%-15s %5s %7s %6s %13s %13s %13s\n", "", "rows", "outputs", "inputs", "forward", "data", "weights");
  for (int s = 0; s < SHAPES; s++) {
    printf("%-15s %5lld %7lld %6lld", shapes[s].name, (long long)shapes[s].rows, (long long)shapes[s].outputs,
           (long long)shapes[s].inputs);
    for (int p = 0; p < PASSES; p++) {
      shares[s * PASSES + p] = jobs[s][p].best / peak;
      printf(" %6.0f (%.2f)", jobs[s][p].best / 1e9, shares[s * PASSES + p]);
    }
    putchar('\n');
  }
  qsort(shares, SHAPES * PASSES, sizeof *shares, by_size);
  printf("median %.2f, least %.2f\n", shares[SHAPES * PASSES / 2], shares[0]);
  return 0;
}
