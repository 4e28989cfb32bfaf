/* What tests of sessions share. */
#ifndef NEAP_TESTS_SESSION_HELP_H
#define NEAP_TESTS_SESSION_HELP_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "models_by_name.h"
#include "session/session.h"
#include "testing.h"

/* Fills every input: numbers in [-1, 1) from a seed, labels below `classes`. */
static inline void fill_inputs(neap_session *s, uint64_t seed, int32_t classes) {
  const struct lowered *lowered = s->main;
  for (size_t t = 0; t < lowered->graph->tensors.count; t++) {
    const struct tensor *tensor = &lowered->graph->tensors.data[t];
    if (tensor->role != NEAP_ROLE_INPUT || tensor->view_of >= 0) continue;
    void *data = neap_session_input(s, tensor->name);
    for (int64_t i = 0; i < tensor->elements; i++) {
      uint32_t word[4];
      random_philox(seed, t, (uint64_t)i, word);
      const float value = 2 * random_uniform(word[0]) - 1;
      if (tensor->dtype == NEAP_U8)
        ((unsigned char *)data)[i] = value > 0;
      else if (tensor->dtype == NEAP_I32)
        ((int32_t *)data)[i] = (int32_t)random_below(word[1], (uint64_t)classes);
      else
        ((float *)data)[i] = value;
    }
  }
}

/* Returns the index of the variable of that name; -1: no variable has it. */
static inline int32_t find_variable(const neap_session *s, const char *name) {
  neap_variable v;
  for (int32_t i = 0; i < neap_session_variable_count(s); i++) {
    ASSERT_OK(neap_session_variable(s, i, &v));
    if (strcmp(v.name, name) == 0) return i;
  }
  return -1;
}

/* Returns a copy of a variable's values, which the caller frees. */
static inline float *read_variable(const neap_session *s, int32_t index, int64_t *elements) {
  neap_variable v;
  ASSERT_OK(neap_session_variable(s, index, &v));
  float *values = malloc((size_t)v.elements * sizeof *values);
  assert_non_null(values);
  ASSERT_OK(neap_session_read(s, index, values));
  *elements = v.elements;
  return values;
}

/* A session after some steps, with what it gave. */
struct run_result {
  neap_step_result last;
  char digest[65];
  neap_memory memory;
};

static inline struct run_result run_steps(neap_session *s, int steps, float rate, int32_t classes) {
  struct run_result r;
  for (int i = 0; i < steps; i++) {
    fill_inputs(s, (uint64_t)i + 1, classes);
    ASSERT_OK(neap_session_step(s, rate, &r.last));
  }
  ASSERT_OK(neap_session_digest(s, r.digest));
  neap_session_memory(s, &r.memory);
  assert_int_equal(r.memory.measured_peak, r.memory.planned_peak);
  assert_true(r.memory.planned_peak <= r.memory.budget);
  return r;
}

/* Each variable of `y` is that of `x`, within a share of its largest element, or of how far the largest has
 * come from `before` (NULL: not given). */
static inline void expect_alike(const neap_session *before, const neap_session *x, const neap_session *y,
                                const char *what, double tolerance) {
  for (int32_t i = 0; i < neap_session_variable_count(x); i++) {
    const neap_session *const from[] = {x, y, before};
    float *values[3] = {NULL};
    neap_variable v;
    double size = 0, off = 0;
    ASSERT_OK(neap_session_variable(x, i, &v));
    for (int k = 0; k < (before != NULL ? 3 : 2); k++) {
      values[k] = malloc((size_t)v.elements * sizeof **values);
      assert_non_null(values[k]);
      ASSERT_OK(neap_session_read(from[k], i, values[k]));
    }
    for (int64_t e = 0; e < v.elements; e++) {
      const double a = (double)values[0][e];
      size = fmax(size, fabs(before != NULL ? a - (double)values[2][e] : a));
      off = fmax(off, fabs(a - (double)values[1][e]));
    }
    if (off > tolerance * size) fail_msg("%s: '%s' is off by %g of %g", what, v.name, off, size);
    for (int k = 0; k < 3; k++) free(values[k]);
  }
}

/* A call failed so, with these words in its message. */
static inline void expect_failure(neap_status status, neap_status wanted, const char *words) {
  assert_int_equal(status, wanted);
  if (strstr(neap_error_message(), words) == NULL)
    fail_msg("'%s' does not say '%s'", neap_error_message(), words);
}

#endif
