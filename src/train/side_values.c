#include "train/side_values.h"

#include <stdlib.h>
#include <string.h>

#include "weights/variables.h"
#include "zoo/side_net.h"

static int32_t find(const neap_session *session, const char *name) {
  neap_variable variable;
  for (int32_t i = 0; i < neap_session_variable_count(session); i++)
    if (neap_session_variable(session, i, &variable) == NEAP_OK && strcmp(variable.name, name) == 0) return i;
  return -1;
}

/* The elements of a row: those that share a first index. */
static int64_t row_of(const neap_variable *v) { return v->elements / v->dims[0]; }

/* Takes every `divisor`-th row and column of the values, or of a vector's elements. */
static void take(const neap_variable *narrow, const neap_variable *wide, int64_t divisor, const float *values,
                 float *taken) {
  const int64_t columns = row_of(narrow), row = row_of(wide), step = columns > 1 ? divisor : 1;
  for (int64_t i = 0; i < narrow->dims[0]; i++)
    for (int64_t k = 0; k < columns; k++) taken[i * columns + k] = values[i * divisor * row + k * step];
}

/* The same of a matrix on disk, row by row. */
static neap_status take_rows(const neap_session *session, int32_t index, const neap_variable *narrow,
                             int64_t divisor, float *row, float *taken) {
  const int64_t columns = row_of(narrow);
  for (int64_t i = 0; i < narrow->dims[0]; i++) {
    TRY(session_read_disk_rows(session, index, i * divisor, 1, row));
    for (int64_t k = 0; k < columns; k++) taken[i * columns + k] = row[k * divisor];
  }
  return NEAP_OK;
}

/* Gives row i of a Down the number 1 at column i times `divisor`. */
static void select_rows(const neap_variable *down, int64_t divisor, float *taken) {
  memset(taken, 0, (size_t)down->elements * sizeof *taken);
  for (int64_t i = 0; i < down->dims[0]; i++) taken[i * row_of(down) + i * divisor] = 1;
}

static neap_status take_variable(neap_session *session, int32_t index, const neap_variable *narrow,
                                 int64_t divisor, float *buffer) {
  static const char down[] = SIDE_NET "down.";
  const int32_t from = find(session, narrow->name + strlen(SIDE_NET));
  const bool selects = from < 0 && narrow->rank == 2 && strncmp(narrow->name, down, strlen(down)) == 0;
  neap_variable wide;
  if (from < 0 && !selects) return NEAP_OK;
  float *taken = malloc(((size_t)narrow->elements + 1) * sizeof *taken);
  RETURN_IF(taken == NULL, NEAP_OUT_OF_MEMORY, "'%s': out of memory for its first values", narrow->name);
  neap_status status = selects ? NEAP_OK : neap_session_variable(session, from, &wide);
  if (selects) {
    select_rows(narrow, divisor, taken);
  } else if (status == NEAP_OK && variable_is_on_disk(session, from)) {
    status = take_rows(session, from, narrow, divisor, buffer, taken);
  } else if (status == NEAP_OK) {
    status = neap_session_read(session, from, buffer);
    if (status == NEAP_OK) take(narrow, &wide, divisor, buffer, taken);
  }
  if (status == NEAP_OK) status = neap_session_write(session, index, taken);
  free(taken);
  return status;
}

neap_status side_values_take(neap_session *session, int64_t divisor) {
  float *buffer, *allocated;
  TRY(session_scratch(session, &buffer, &allocated));
  neap_status status = NEAP_OK;
  for (int32_t i = 0; status == NEAP_OK && i < neap_session_variable_count(session); i++) {
    neap_variable variable;
    status = neap_session_variable(session, i, &variable);
    if (status != NEAP_OK || variable.kind != NEAP_VARIABLE_PARAMETER || !variable_is_adapter(session, i))
      continue;
    status = take_variable(session, i, &variable, divisor, buffer);
  }
  free(allocated);
  return status;
}
