/* paced MODEL BATCH CHANNELSxHEIGHTxWIDTH|LENGTH CLASSES BUDGET [THREADS [measured|bf16|f16]]
 *
 * Training steps of a model on random images or sequences, at the pace that standard input sets, so that
 * programs can take turns on one machine: prints "ready" when it is warm (after two steps); then, for each
 * number n that it reads, runs n steps and prints "done"; at the end of its input prints one JSON line and
 * ends. `measured`: costs are timed at the start, each distinct kernel by itself, and the line has their sum
 * over the step, `kernels_s`. */
#include <jansson.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "neap.h"

enum { STEP_LIMIT = 100000, WARM_STEPS = 2 };

struct bench {
  const char *model, *budget;
  neap_model_options shape;
  neap_graph *graph;
  neap_session *session;
  neap_costs costs;
  neap_dtype precision;
  uint64_t rss_before;
  double *seconds; /* [STEP_LIMIT] */
  int64_t steps;
};

/* A size of this process, as the system counts it; bytes. 0: not known. */
static uint64_t process_bytes(const char *field) {
  FILE *file = fopen("/proc/self/status", "r");
  char line[256];
  unsigned long long kilobytes = 0;
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, field, strlen(field)) == 0) sscanf(line + strlen(field), ": %llu", &kilobytes);
  if (file != NULL) fclose(file);
  return 1024 * kilobytes;
}

static neap_status step(struct bench *b) {
  const double begin = clock_seconds();
  const neap_status status = neap_session_step(b->session, 0.01f, NULL);
  if (b->steps < STEP_LIMIT) b->seconds[b->steps++] = clock_seconds() - begin;
  return status;
}

static uint32_t noise(uint32_t *state) { /* Marsaglia's xorshift: any will do */
  *state ^= *state << 13, *state ^= *state >> 17, *state ^= *state << 5;
  return *state;
}

static void fill_inputs(struct bench *b) {
  enum { VECTOR = 50 }; /* of the LSTM's inputs */
  const int64_t pixels = b->shape.batch * b->shape.image[0] * b->shape.image[1] * b->shape.image[2],
                tokens = b->shape.batch * b->shape.length;
  float *images = neap_session_input(b->session, "image"),
        *vectors = neap_session_input(b->session, "sequence");
  int32_t *ids = neap_session_input(b->session, "tokens"), *labels = neap_session_input(b->session, "label");
  uint32_t state = 1;
  for (int64_t i = 0; images != NULL && i < pixels; i++)
    images[i] = (float)noise(&state) / 1073741824.0f - 2.0f;
  for (int64_t i = 0; vectors != NULL && i < tokens * VECTOR; i++)
    vectors[i] = (float)noise(&state) / 1073741824.0f - 2.0f;
  for (int64_t i = 0; ids != NULL && i < tokens; i++)
    ids[i] = (int32_t)(noise(&state) % (uint32_t)b->shape.classes);
  for (int64_t i = 0; i < (tokens > 0 ? tokens : b->shape.batch); i++)
    labels[i] = (int32_t)(i % b->shape.classes);
}

static neap_status prepare(struct bench *b, int threads) {
  neap_session_options options = {.momentum = 0.9f,
                                  .weight_decay = 5e-4f,
                                  .seed = 1,
                                  .costs = b->costs,
                                  .threads = threads,
                                  .precision = b->precision};
  neap_model *model = NULL;
  neap_status status = neap_budget_parse(b->budget, &options.budget, &options.budget_fraction);
  if (status == NEAP_OK) status = neap_model_open(b->model, &model);
  if (status == NEAP_OK) status = neap_model_build(model, &b->shape, &b->graph);
  neap_model_close(model);
  b->rss_before = process_bytes("VmRSS");
  if (status == NEAP_OK) status = neap_session_create(b->graph, &options, NULL, &b->session);
  if (status != NEAP_OK) return status;
  fill_inputs(b);
  for (int i = 0; status == NEAP_OK && i < WARM_STEPS; i++) status = step(b);
  b->steps = 0;
  return status;
}

static neap_status answer_paces(struct bench *b) {
  char line[64];
  puts("ready");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin) != NULL) {
    for (long n = strtol(line, NULL, 10); n > 0; n--) {
      const neap_status status = step(b);
      if (status != NEAP_OK) return status;
    }
    puts("done");
    fflush(stdout);
  }
  return NEAP_OK;
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static json_t *result(struct bench *b, int threads) {
  json_t *seconds = json_array();
  for (int64_t i = 0; i < b->steps; i++) json_array_append_new(seconds, json_real(b->seconds[i]));
  qsort(b->seconds, (size_t)b->steps, sizeof *b->seconds, by_value);
  neap_memory m;
  neap_session_memory(b->session, &m);
  json_t *times = b->steps > 0 ? json_pack("{s:f, s:f, s:o}", "median_s", b->seconds[b->steps / 2], "min_s",
                                           b->seconds[0], "steps_s", seconds)
                               : json_pack("{s:n, s:n, s:o}", "median_s", "min_s", "steps_s", seconds);
  json_t *object = json_pack(
      "{s:s, s:s, s:I, s:s, s:s, s:i, s:I, s:s, s:I, s:I, s:I, s:I, s:f, s:I, s:o}", "program", "neap", "net",
      b->model, "batch", (json_int_t)b->shape.batch, "dtype",
      b->precision == NEAP_F32    ? "f32"
      : b->precision == NEAP_BF16 ? "bf16"
                                  : "f16",
      "budget", b->budget, "threads", threads, "params", (json_int_t)neap_graph_parameters(b->graph),
      "planner", m.planner, "budget_bytes", (json_int_t)m.budget, "planned_peak_bytes",
      (json_int_t)m.planned_peak, "measured_peak_bytes", (json_int_t)m.measured_peak, "keep_all_bytes",
      (json_int_t)m.keep_all, "planned_overhead", m.cost / m.base_cost - 1, "rss_growth_bytes",
      (json_int_t)(process_bytes("VmHWM") - b->rss_before), "kernels_s",
      b->costs == NEAP_COSTS_MEASURED ? json_real(m.cost) : json_null());
  if (object != NULL) json_object_update(object, times);
  json_decref(times);
  return object;
}

int main(int count, char **arguments) {
  struct bench b = {.seconds = calloc(STEP_LIMIT, sizeof *b.seconds)};
  long long image[3] = {0};
  const int numbers = count < 6 ? 0 : sscanf(arguments[3], "%lldx%lldx%lld", &image[0], &image[1], &image[2]);
  if ((numbers != 1 && numbers != 3) || b.seconds == NULL) {
    fputs("usage: paced MODEL BATCH CHANNELSxHEIGHTxWIDTH|LENGTH CLASSES BUDGET [THREADS "
          "[measured|bf16|f16]]\n",
          stderr);
    free(b.seconds);
    return 2;
  }
  b.model = arguments[1];
  b.budget = arguments[5];
  b.shape = (neap_model_options){.batch = strtoll(arguments[2], NULL, 10),
                                 .classes = strtoll(arguments[4], NULL, 10)};
  if (numbers == 1) b.shape.length = image[0];
  for (int i = 0; numbers == 3 && i < 3; i++) b.shape.image[i] = image[i];
  const char *how = count > 7 ? arguments[7] : "";
  b.costs = strcmp(how, "measured") == 0 ? NEAP_COSTS_MEASURED : NEAP_COSTS_ROOFLINE;
  b.precision = strcmp(how, "bf16") == 0 ? NEAP_BF16 : strcmp(how, "f16") == 0 ? NEAP_F16 : NEAP_F32;
  const int threads = count > 6 ? atoi(arguments[6]) : omp_get_num_procs();
  neap_status status = prepare(&b, threads);
  if (status == NEAP_OK) status = answer_paces(&b);
  if (status == NEAP_OK) {
    json_t *object = result(&b, threads);
    if (object == NULL || json_dumpf(object, stdout, JSON_REAL_PRECISION(9)) != 0 || putchar('\n') == EOF)
      status = NEAP_OUT_OF_MEMORY;
    json_decref(object);
  } else {
    fprintf(stderr, "paced: %s\n", neap_error_message());
  }
  neap_session_free(b.session);
  neap_graph_free(b.graph);
  free(b.seconds);
  return status == NEAP_OK ? 0 : 1;
}
