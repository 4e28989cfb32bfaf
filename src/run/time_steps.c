/* Measures where the time of a step goes: times each call of its programs during the run, and compares it
 * with the machine's speed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "session/session.h"
#include "speed/speed.h"

enum { WARM_STEPS = 2, LEAST_STEPS = 3, MOST_STEPS = 100, STEP_LIMIT = 10000 };
static const double enough_seconds = 2;

/* The programs of a step, in order. */
static const enum program_kind step_programs[] = {PROGRAM_BEGIN, PROGRAM_STEP, PROGRAM_END};
enum { STEP_PROGRAMS = sizeof step_programs / sizeof *step_programs };

struct step_times {
  neap_step_times public; /* first: it is what the caller has */
  struct region region;
};

struct timing {
  struct neap_session *session;
  struct roofline roofline;
  struct region *region; /* of the result */
  int64_t calls;         /* of a step */
  double *now;           /* [calls] of the current step */
  double *samples;       /* [calls, most] */
  double *steps;         /* [most] */
  int64_t most, count;   /* steps that there is room for; that were timed */
  neap_kernels *kinds, *operators;
  int32_t kind_count, operator_count;
};

/* ---- Timing ---- */

/* Makes the programs add the times of their calls to `seconds`; NULL ends that. */
static void attach(struct neap_session *s, double *seconds) {
  for (int i = 0; i < STEP_PROGRAMS; i++) {
    struct program *program = &s->programs[step_programs[i]].program;
    program->seconds = seconds;
    if (seconds != NULL) seconds += program->length;
  }
}

static neap_status time_step(struct timing *t, float rate) {
  memset(t->now, 0, (size_t)t->calls * sizeof *t->now);
  const double begin = clock_seconds();
  TRY(neap_session_step(t->session, rate, NULL));
  t->steps[t->count] = clock_seconds() - begin;
  for (int64_t i = 0; i < t->calls; i++) t->samples[i * t->most + t->count] = t->now[i];
  t->count++;
  return NEAP_OK;
}

static neap_status time_steps(struct timing *t, float rate, int64_t steps) {
  for (int i = 0; i < WARM_STEPS; i++) TRY(neap_session_step(t->session, rate, NULL));
  const double begin = clock_seconds();
  while (t->count < t->most) {
    if (steps == 0 && t->count >= LEAST_STEPS && clock_seconds() - begin >= enough_seconds) break;
    TRY(time_step(t, rate));
  }
  return NEAP_OK;
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Returns the median; sorts the values. */
static double median(double *values, int64_t count) {
  qsort(values, (size_t)count, sizeof *values, by_value);
  return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* ---- Grouping calls ---- */

/* Writes "100x16x32x32", after its type if that differs from the last one's. */
static void put_operand(FILE *file, const struct tensor *tensor, neap_dtype *last, const char *separator) {
  fputs(separator, file);
  if (tensor->dtype != *last) fprintf(file, "%s ", dtype_rows[tensor->dtype].name);
  *last = tensor->dtype;
  for (int32_t i = 0; i < tensor->rank; i++) fprintf(file, "%s%" PRId64, i > 0 ? "x" : "", tensor->dims[i]);
  if (tensor->rank == 0) fputc('1', file);
}

/* Returns "100x16x32x32, 16x16x3x3 -> 100x16x32x32", f32 unless stated. NULL: out of memory. */
static const char *operands_text(const struct neap_graph *graph, const struct node *node,
                                 struct region *region) {
  char *text = NULL;
  size_t length;
  FILE *file = open_memstream(&text, &length);
  if (file == NULL) return NULL;
  neap_dtype last = NEAP_F32;
  bool first = true;
  for (int32_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] == NO_TENSOR) continue;
    put_operand(file, &graph->tensors.data[node->inputs[i]], &last, first ? "" : ", ");
    first = false;
  }
  for (int32_t i = 0; i < node->output_count; i++)
    put_operand(file, &graph->tensors.data[node->outputs[i]], &last, i > 0 ? ", " : first ? "-> " : " -> ");
  const bool good = fclose(file) == 0;
  const char *copy = good ? region_string(region, text) : NULL;
  free(text);
  return copy;
}

/* Adds a call to its group, which is made if it does not exist yet. */
static void add_call(neap_kernels *groups, int32_t *count, neap_kernels call) {
  int32_t i = 0;
  while (i < *count && (strcmp(groups[i].op, call.op) != 0 ||
                        (call.operands != NULL && strcmp(groups[i].operands, call.operands) != 0)))
    i++;
  if (i == *count) groups[(*count)++] = (neap_kernels){.op = call.op, .operands = call.operands};
  groups[i].count += call.count;
  groups[i].seconds += call.seconds;
  groups[i].flops += call.flops;
  groups[i].bytes += call.bytes;
  groups[i].limit_seconds += call.limit_seconds;
}

/* Adds a program's calls. `times`: how often it runs in a step; a call's seconds cover all of these runs. */
static neap_status add_program(struct timing *t, const struct program *program, int64_t times,
                               int64_t *call) {
  for (int32_t at = 0; at < program->length; at++, ++*call) {
    const struct neap_graph *graph = program->lowered->graph;
    const struct node *node = kernel_node(program->calls[at].kernel);
    neap_kernels one = {.op = node_row(node)->name,
                        .operands = operands_text(graph, node, t->region),
                        .count = times,
                        .seconds = median(t->samples + *call * t->most, t->count),
                        .flops = (double)times * node_flops(graph, node),
                        .bytes = (double)times * node_bytes(graph, node),
                        .limit_seconds = (double)times * roofline_seconds(&t->roofline, graph, node)};
    RETURN_IF_NULL(one.operands);
    add_call(t->kinds, &t->kind_count, one);
    one.operands = NULL;
    add_call(t->operators, &t->operator_count, one);
  }
  return NEAP_OK;
}

static int by_seconds(const void *a, const void *b) {
  const double x = ((const neap_kernels *)a)->seconds, y = ((const neap_kernels *)b)->seconds;
  return (x < y) - (x > y);
}

static neap_status sum_up(struct timing *t, neap_step_times *out) {
  const int32_t micro_batches = t->session->options.micro_batches;
  int64_t call = 0;
  for (int i = 0; i < STEP_PROGRAMS; i++)
    TRY(add_program(t, &t->session->programs[step_programs[i]].program,
                    step_programs[i] == PROGRAM_STEP && micro_batches > 1 ? micro_batches : 1, &call));
  qsort(t->kinds, (size_t)t->kind_count, sizeof *t->kinds, by_seconds);
  qsort(t->operators, (size_t)t->operator_count, sizeof *t->operators, by_seconds);
  *out = (neap_step_times){.steps = t->count,
                           .step_seconds = median(t->steps, t->count),
                           .kind_count = t->kind_count,
                           .operator_count = t->operator_count,
                           .kinds = t->kinds,
                           .operators = t->operators};
  for (int32_t i = 0; i < t->operator_count; i++) {
    out->kernel_seconds += t->operators[i].seconds;
    out->limit_seconds += t->operators[i].limit_seconds;
  }
  return NEAP_OK;
}

/* ---- All of the timing ---- */

static neap_status time_session(struct timing *t, float rate, int64_t steps, neap_step_times *out) {
  struct region samples = {0};
  t->most = steps > 0 ? steps : MOST_STEPS;
  for (int i = 0; i < STEP_PROGRAMS; i++) t->calls += t->session->programs[step_programs[i]].program.length;
  t->now = region_alloc(&samples, (size_t)t->calls, sizeof *t->now);
  t->samples = region_alloc(&samples, (size_t)(t->calls * t->most), sizeof *t->samples);
  t->steps = region_alloc(&samples, (size_t)t->most, sizeof *t->steps);
  t->kinds = region_alloc(t->region, (size_t)t->calls, sizeof *t->kinds);
  t->operators = region_alloc(t->region, OP_COUNT, sizeof *t->operators);
  neap_status status = NEAP_OK;
  if (!t->now || !t->samples || !t->steps || !t->kinds || !t->operators)
    status = neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for the times of %lld steps", (long long)t->most);
  if (status == NEAP_OK) {
    attach(t->session, t->now);
    status = time_steps(t, rate, steps);
    attach(t->session, NULL);
  }
  if (status == NEAP_OK) status = sum_up(t, out);
  region_free(&samples);
  return status;
}

neap_status neap_session_time_steps(neap_session *session, const neap_speed *speed, float learning_rate,
                                    int64_t steps, neap_step_times **times) {
  RETURN_IF(session == NULL || speed == NULL || times == NULL, NEAP_INVALID_ARGUMENT,
            "neap_session_time_steps: session, speed or times is NULL");
  RETURN_IF(steps < 0 || steps > STEP_LIMIT, NEAP_INVALID_ARGUMENT,
            "steps to time: got %lld; the number must be 1 to %d, or 0 for enough steps", (long long)steps,
            STEP_LIMIT);
  RETURN_IF(!(speed->f32_flops > 0) || !(speed->memory_bytes > 0), NEAP_INVALID_ARGUMENT,
            "machine: its speed must be above 0 (got %g FLOPs and %g copied bytes a second)",
            speed->f32_flops, speed->memory_bytes);
  struct step_times *made = calloc(1, sizeof *made);
  RETURN_IF_NULL(made);
  struct timing t = {.session = session, .roofline = roofline_of(speed), .region = &made->region};
  const neap_status status = time_session(&t, learning_rate, steps, &made->public);
  if (status == NEAP_OK)
    *times = &made->public;
  else
    neap_step_times_free(&made->public);
  return status;
}

void neap_step_times_free(neap_step_times *times) {
  struct step_times *own = (struct step_times *)times;
  if (own == NULL) return;
  region_free(&own->region);
  free(own);
}
