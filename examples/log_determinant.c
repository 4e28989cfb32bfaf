/* Planning is not about neural networks: the log determinant of a block-tridiagonal matrix with an arrow, and
 * its gradient by every element, which is the inverse on the matrix's own blocks; in all the memory that
 * keeping everything takes, in less, and in the least. The gradient has the same bits each time, and some of
 * its elements are compared with central differences. */
#include "log_determinant.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct arrowhead shape = {.blocks = 12, .block = 48, .tip = 6};

/* Returns numbers from -1 to 1. */
static float draw(unsigned *state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(*state >> 8) * 0x1p-23f - 1;
}

/* Fills a block: small numbers, and on diagonals ones that make the whole positive definite. */
static void fill(const neap_variable *v, float *data, unsigned *state) {
  const int64_t rows = v->dims[0], columns = v->dims[1];
  const bool symmetric = v->name[0] == 'D' || v->name[0] == 'T';
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) {
      const float x = draw(state) / sqrtf((float)columns);
      data[i * columns + j] = !symmetric ? x : j < i ? x / 2 : 0;
      if (symmetric && i == j) data[i * columns + j] = v->name[0] == 'D' ? 4 : (float)shape.blocks + 4;
    }
  for (int64_t i = 0; symmetric && i < rows; i++)
    for (int64_t j = i + 1; j < columns; j++) data[i * columns + j] = data[j * columns + i];
}

/* Writes all blocks, one after the other at `values` too. */
static neap_status write_blocks(neap_session *s, float *values) {
  unsigned state = 1;
  neap_status status = NEAP_OK;
  for (int i = 0; status == NEAP_OK && i < neap_session_variable_count(s); i++) {
    neap_variable v;
    status = neap_session_variable(s, i, &v);
    if (status == NEAP_OK) fill(&v, values, &state), status = neap_session_write(s, i, values);
    values += v.elements;
  }
  return status;
}

/* Gives the gradient: what a step of gradient descent with rate 1 takes off the blocks. */
static neap_status differentiate(neap_session *s, float *values, float *gradient) {
  neap_step_result result;
  neap_status status = write_blocks(s, values);
  if (status == NEAP_OK) status = neap_session_step(s, 1, &result);
  for (int i = 0; status == NEAP_OK && i < neap_session_variable_count(s); i++) {
    neap_variable v;
    status = neap_session_variable(s, i, &v);
    if (status == NEAP_OK) status = neap_session_read(s, i, gradient);
    for (int64_t k = 0; status == NEAP_OK && k < v.elements; k++) gradient[k] = values[k] - gradient[k];
    values += v.elements;
    gradient += v.elements;
  }
  return status;
}

/* Changes element (row, column) of block `i` by `change`, and its mirror image where the block is symmetric.
 */
static neap_status evaluate_at(neap_session *s, int i, const neap_variable *v, const float *values,
                               float *changed, int64_t at, float change, double *value) {
  const int64_t columns = v->dims[1], row = at / columns, column = at % columns;
  const bool symmetric = v->name[0] == 'D' || v->name[0] == 'T';
  neap_step_result result;
  memcpy(changed, values, (size_t)v->elements * sizeof *changed);
  changed[at] += change;
  if (symmetric && row != column) changed[column * columns + row] += change;
  neap_status status = neap_session_write(s, i, changed);
  if (status == NEAP_OK) status = neap_session_evaluate(s, &result);
  *value = result.loss;
  return status;
}

/* Compares an element of each block; an element off a symmetric block's diagonal counts twice. */
static neap_status compare(neap_session *s, float *values, const float *gradient, double *worst) {
  const float h = 0.125f;
  float *changed = malloc((size_t)(shape.block * shape.block) * sizeof *changed);
  neap_status status = changed != NULL ? write_blocks(s, values) : NEAP_OUT_OF_MEMORY;
  for (int i = 0; status == NEAP_OK && i < neap_session_variable_count(s); i++) {
    neap_variable v;
    double up = 0, down = 0;
    status = neap_session_variable(s, i, &v);
    const int64_t at = (37 * i + 5) % v.elements;
    const bool twice = (v.name[0] == 'D' || v.name[0] == 'T') && at / v.dims[1] != at % v.dims[1];
    if (status == NEAP_OK) status = evaluate_at(s, i, &v, values, changed, at, h, &up);
    if (status == NEAP_OK) status = evaluate_at(s, i, &v, values, changed, at, -h, &down);
    if (status == NEAP_OK) status = neap_session_write(s, i, values);
    const double difference = fabs((up - down) / (2 * (double)h) - (twice ? 2 : 1) * (double)gradient[at]);
    *worst = difference > *worst ? difference : *worst;
    values += v.elements;
    gradient += v.elements;
  }
  free(changed);
  return status;
}

/* Differentiates within a budget, prints its bytes, and compares the gradient: the first time with
 * differences, later with that of the first. */
static neap_status run(const neap_graph *graph, const neap_session_options *options, float *values,
                       float *gradient, float *first, bool *good) {
  neap_session *s = NULL;
  neap_memory memory;
  double worst = 0;
  neap_status status = neap_session_create(graph, options, NULL, &s);
  if (status == NEAP_OK) status = differentiate(s, values, gradient);
  if (status != NEAP_OK) return neap_session_free(s), status;
  neap_session_memory(s, &memory);
  printf("%8.2f MB, of which %.2f are blocks; %.2f of the time\n", (double)memory.planned_peak / 1e6,
         (double)memory.resident / 1e6, memory.cost / memory.base_cost);
  if (gradient == first) {
    status = compare(s, values, first, &worst);
    printf("    gradient off central differences by at most %.1e\n", worst);
    *good = worst < 1e-2;
  } else if (memcmp(gradient, first, (size_t)neap_graph_parameters(graph) * sizeof *first) != 0) {
    *good = false;
  }
  neap_session_free(s);
  return status;
}

int main(void) {
  static const neap_session_options budgets[] = {{.budget = NEAP_BUDGET_MAX},
                                                 {.budget_fraction = 0.6, .plan_quick = true},
                                                 {.budget = NEAP_BUDGET_MIN, .plan_quick = true}};
  neap_graph *graph = NULL;
  bool good = false;
  neap_builder *b = neap_builder_create("log determinant");
  neap_status status = neap_builder_finish(b, log_determinant(b, &shape), &graph);
  neap_builder_free(b);
  const size_t count = status == NEAP_OK ? (size_t)neap_graph_parameters(graph) : 1;
  float *values = malloc(3 * count * sizeof *values);
  if (status == NEAP_OK && values == NULL) status = NEAP_OUT_OF_MEMORY;
  for (int i = 0; status == NEAP_OK && i < 3; i++)
    status = run(graph, &budgets[i], values, values + (i > 0 ? 2 : 1) * count, values + count, &good);
  if (status != NEAP_OK) fprintf(stderr, "%s\n", neap_error_message());
  free(values);
  neap_graph_free(graph);
  return status == NEAP_OK && good ? EXIT_SUCCESS : EXIT_FAILURE;
}
