/* memory_kernels [THREADS [OPERATOR]]
 *
 * The kernels whose time is that of their bytes, as they run in training steps: GB/s that they read and
 * write, and the share of what a plain copy of a tensor into another of its size reaches on the same threads.
 * Tensors are of about 32 MB, which no cache holds, and of about 1 MB, in f32 and in bf16. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "kernel/cpu/dispatch.h"
#include "neap.h"

enum { CHANNELS = 64, SIDE = 32, WIDTH = 384, CLASSES = 10, OPERATORS = 64, COLUMNS = 4 };

static const struct column {
  const char *name;
  neap_dtype precision;
  int64_t bytes; /* of a tensor */
} columns[COLUMNS] = {{"32 MB, f32", NEAP_F32, 32 << 20},
                      {"32 MB, bf16", NEAP_BF16, 32 << 20},
                      {"1 MB, f32", NEAP_F32, 1 << 20},
                      {"1 MB, bf16", NEAP_BF16, 1 << 20}};

struct table {
  int count;
  const char *names[OPERATORS];
  double rates[OPERATORS][COLUMNS]; /* bytes a second; 0: it does not run there */
};

/* ---- Networks ---- */

typedef neap_tensor build_network(neap_builder *b, int64_t elements); /* gives a loss */

static neap_tensor build_images(neap_builder *b, int64_t elements) {
  const int64_t images = elements / (CHANNELS * SIDE * SIDE), dims[] = {images, 16, SIDE, SIDE};
  const neap_pool_options pool = {.size = 2, .stride = 2};
  const neap_tensor x = neap_input(b, "x", NEAP_F32, 4, dims),
                    label = neap_input(b, "label", NEAP_I32, 1, &images);
  neap_tensor y = neap_conv(b, x, (neap_conv_options){.filters = CHANNELS, .size = 1}), z;
  y = neap_relu(b, neap_batch_norm(b, y, (neap_batch_norm_options){0}));
  z = neap_dropout(b, y, 0.1f);
  y = neap_relu(b, neap_add(b, y, z));
  y = neap_add(b, neap_max_pool(b, y, pool), neap_average_pool(b, y, pool));
  y = neap_linear(b, neap_global_average_pool(b, y), CLASSES, true);
  return neap_softmax_cross_entropy(b, y, label, 0);
}

static neap_tensor build_rows(neap_builder *b, int64_t elements) {
  const int64_t width = WIDTH, dims[] = {elements / WIDTH, WIDTH};
  const neap_tensor x = neap_input(b, "x", NEAP_F32, 2, dims),
                    scale = neap_parameter(b, "scale", 1, &width,
                                           (neap_parameter_options){.initial = NEAP_INITIAL_ONE});
  neap_tensor y = neap_layer_norm(b, neap_multiply(b, x, scale), 0);
  y = neap_softmax(b, neap_silu(b, neap_gelu(b, y)), -1);
  return neap_mean(b, neap_multiply(b, y, y), NULL, 0, false);
}

static neap_tensor build_variable(neap_builder *b, int64_t elements) {
  const int64_t dims[] = {elements / WIDTH, WIDTH};
  const neap_tensor x = neap_input(b, "x", NEAP_F32, 2, dims),
                    w = neap_parameter(b, "w", 2, dims,
                                       (neap_parameter_options){.initial = NEAP_INITIAL_NORMAL});
  return neap_mean(b, neap_multiply(b, w, x), NULL, 0, false);
}

/* ---- Timing ---- */

static double copy_rate(int64_t bytes, int threads) {
  enum { RUNS = 40 };
  const struct cpu_kernels *k = NULL;
  const int64_t count = bytes / (int64_t)sizeof(float);
  float *x = aligned_alloc(64, (size_t)bytes), *y = aligned_alloc(64, (size_t)bytes);
  double best = 0;
  for (int64_t i = 0; x != NULL && y != NULL && i < count; i++) x[i] = y[i] = 1;
  for (int run = 0; x != NULL && y != NULL && cpu_kernels_best(&k) == NEAP_OK && run < RUNS; run++) {
    const double begin = clock_seconds();
#pragma omp parallel num_threads(threads)
    {
      const int64_t first = count * omp_get_thread_num() / threads,
                    end = count * (omp_get_thread_num() + 1) / threads;
      k->copy(end - first, x + first, y + first);
    }
    const double rate = 2 * (double)bytes / (clock_seconds() - begin);
    if (rate > best) best = rate;
  }
  free(x);
  free(y);
  return best;
}

static void fill(neap_session *session, int64_t elements) {
  float *x = neap_session_input(session, "x");
  int32_t *label = neap_session_input(session, "label");
  uint32_t state = 1;
  const int64_t images = elements / (CHANNELS * SIDE * SIDE);
  for (int64_t i = 0; i < (label != NULL ? images * 16 * SIDE * SIDE : elements / WIDTH * WIDTH); i++) {
    state = state * 1664525u + 1013904223u;
    x[i] = (float)(state >> 8) * 0x1p-22f - 2;
  }
  for (int64_t i = 0; label != NULL && i < images; i++) label[i] = (int32_t)(i % CLASSES);
}

static void enter(struct table *table, const neap_step_times *times, int column, const char *only) {
  for (int32_t i = 0; i < times->operator_count; i++) {
    const neap_kernels *k = &times->operators[i];
    int row = 0;
    if (only != NULL && strstr(k->op, only) == NULL) continue;
    while (row < table->count && strcmp(table->names[row], k->op) != 0) row++;
    if (row == OPERATORS) continue;
    if (row == table->count) table->names[table->count++] = k->op;
    if (table->rates[row][column] == 0 && k->bytes / (double)k->count > 0.2 * (double)columns[column].bytes)
      table->rates[row][column] = k->bytes / k->seconds;
  }
}

static neap_status time_network(build_network *build, neap_optimizer optimizer, int threads, int column,
                                const char *only, struct table *table) {
  const struct column *c = &columns[column];
  const int64_t elements = c->bytes / (c->precision == NEAP_F32 ? 4 : 2);
  const neap_session_options options = {.budget = NEAP_BUDGET_MAX,
                                        .optimizer = optimizer,
                                        .momentum = 0.9f,
                                        .threads = threads,
                                        .precision = c->precision};
  const neap_speed speed = {.threads = threads, .f32_flops = 1e12, .memory_bytes = 1e11};
  neap_builder *b = neap_builder_create("memory");
  neap_graph *graph = NULL;
  neap_session *session = NULL;
  neap_step_times *times = NULL;
  neap_status status = neap_builder_finish(b, build(b, elements), &graph);
  if (status == NEAP_OK) status = neap_session_create(graph, &options, NULL, &session);
  if (status == NEAP_OK) fill(session, elements);
  if (status == NEAP_OK)
    status = neap_session_time_steps(session, &speed, 1e-6f, c->bytes > 8 << 20 ? 4 : 20, &times);
  if (status == NEAP_OK) enter(table, times, column, only);
  neap_step_times_free(times);
  neap_session_free(session);
  neap_graph_free(graph);
  neap_builder_free(b);
  return status;
}

/* ---- The table ---- */

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void print_table(const struct table *table, const double *copy) {
  const char *sorted[OPERATORS];
  memcpy(sorted, table->names, sizeof sorted);
  qsort(sorted, (size_t)table->count, sizeof *sorted, by_name);
  printf("%-28s", "GB/s, share of a copy");
  for (int c = 0; c < COLUMNS; c++) printf("%16s", columns[c].name);
  printf("\n%-28s", "copy");
  for (int c = 0; c < COLUMNS; c++) printf("%11.1f     ", 1e-9 * copy[c]);
  for (int i = 0; i < table->count; i++) {
    int row = 0;
    while (strcmp(table->names[row], sorted[i]) != 0) row++;
    printf("\n%-28s", sorted[i]);
    for (int c = 0; c < COLUMNS; c++) {
      const double rate = table->rates[row][c];
      if (rate > 0)
        printf("%11.1f %4.2f", 1e-9 * rate, rate / copy[c]);
      else
        printf("%16s", "");
    }
  }
  putchar('\n');
}

int main(int count, char **arguments) {
  static const struct {
    build_network *build;
    neap_optimizer optimizer;
  } networks[] = {{build_images, NEAP_SGD},     {build_rows, NEAP_SGD},         {build_variable, NEAP_SGD},
                  {build_variable, NEAP_ADAMW}, {build_variable, NEAP_RMSPROP}, {build_variable, NEAP_LION}};
  const int threads = count > 1 ? atoi(arguments[1]) : omp_get_num_procs();
  const char *only = count > 2 ? arguments[2] : NULL;
  struct table table = {0};
  double copy[COLUMNS];
  for (int c = 0; c < COLUMNS; c++) {
    copy[c] = copy_rate(columns[c].bytes, threads);
    for (size_t n = 0; n < sizeof networks / sizeof *networks; n++)
      if (time_network(networks[n].build, networks[n].optimizer, threads, c, only, &table) != NEAP_OK) {
        fprintf(stderr, "memory_kernels: %s\n", neap_error_message());
        return 1;
      }
  }
  print_table(&table, copy);
  return 0;
}
