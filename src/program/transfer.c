#include "program/transfer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { PIECE = 1 << 16 /* elements that are converted at a time */ };

struct transfer {
  struct value_source source;
  const struct device_memory *memory;
  const struct backend *backend;
  void *state; /* the backend's */
  int64_t piece;
  float *numbers;        /* [piece] */
  unsigned char *stored; /* as many bytes: a piece as the memory has it */
  pthread_mutex_t reads; /* who has it may ask the source, and has the two above */
  struct lane *lane;
  double waited; /* for rows, by the thread that starts reads, which alone changes it */
};

/* ---- Reading ---- */

/* Returns true if the source has blocks of the type in the memory. */
static bool has_blocks(const struct value_source *s, int32_t index, neap_dtype dtype) {
  return dtype_is_quantised(dtype) && s->has_blocks != NULL && s->has_blocks(s->context, index, dtype);
}

/* Reads rows, in the form that they have in memory, to an address. */
static neap_status read_rows(struct transfer *t, const struct tensor *weight, int32_t index, int64_t first,
                             int64_t rows, void *to) {
  const struct value_source *s = &t->source;
  struct tensor part = *weight;
  if (has_blocks(s, index, weight->dtype)) return s->read_blocks(s->context, index, first, rows, to);
  if (weight->dtype == NEAP_F32) return s->read_rows(s->context, index, first, rows, to);
  part.dims[0] = rows;
  part.elements = rows * weight->dims[1];
  TRY(s->read_rows(s->context, index, first, rows, t->numbers));
  return t->backend->import_variable(t->state, &part, ROW_MAJOR, t->numbers, to);
}

/* Returns how many rows are read at once: all if the source gives them in their final form. */
static int64_t step_of(const struct transfer *t, const struct tensor *weight, int32_t index) {
  const bool as_given = weight->dtype == NEAP_F32 || has_blocks(&t->source, index, weight->dtype);
  return as_given ? weight->dims[0] : t->piece / weight->dims[1];
}

static neap_status read_to(struct transfer *t, const struct tensor *weight, int32_t index, int64_t first,
                           int64_t rows, unsigned char *to) {
  const int64_t step = step_of(t, weight, index);
  const uint64_t row = dtype_bytes(weight->dtype, (uint64_t)weight->dims[1]);
  for (int64_t done = 0; done < rows; done += step)
    TRY(read_rows(t, weight, index, first + done, rows - done < step ? rows - done : step,
                  to + (uint64_t)done * row));
  return NEAP_OK;
}

/* Reads a weight directly to its place, or in pieces if the host does not reach it. */
static neap_status read_weight(struct transfer *t, const struct tensor *weight, int32_t index,
                               uint64_t place) {
  const int64_t all = weight->dims[0], step = t->piece / weight->dims[1];
  const uint64_t row = dtype_bytes(weight->dtype, (uint64_t)weight->dims[1]);
  unsigned char *address = device_address(t->memory, place, (uint64_t)all * row);
  if (address != NULL) return read_to(t, weight, index, 0, all, address);
  for (int64_t first = 0; first < all; first += step) {
    const int64_t rows = all - first < step ? all - first : step;
    TRY(read_rows(t, weight, index, first, rows, t->stored));
    TRY(device_write(t->memory, place + (uint64_t)first * row, t->stored, (uint64_t)rows * row));
  }
  return NEAP_OK;
}

static neap_status run_read(void *context, const struct lane_job *job) {
  struct transfer *t = context;
  pthread_mutex_lock(&t->reads);
  const neap_status status = read_weight(t, job->tensor, (int32_t)job->number, job->place);
  pthread_mutex_unlock(&t->reads);
  return status;
}

neap_status transfer_create(const struct value_source *source, const struct device_memory *memory,
                            const struct backend *backend, void *state, int64_t most, struct transfer **out) {
  struct transfer *t = calloc(1, sizeof *t);
  const int64_t piece = most > PIECE ? most : PIECE;
  float *numbers = malloc((size_t)piece * sizeof *numbers);
  unsigned char *stored = malloc((size_t)piece * sizeof(double));
  if (t == NULL || numbers == NULL || stored == NULL) {
    free(stored);
    free(numbers);
    free(t);
    source->close(source->context);
    return neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for reading weights from disk");
  }
  *t = (struct transfer){.source = *source,
                         .memory = memory,
                         .backend = backend,
                         .state = state,
                         .piece = piece,
                         .numbers = numbers,
                         .stored = stored};
  pthread_mutex_init(&t->reads, NULL);
  const neap_status status = lane_create(&t->lane);
  if (status == NEAP_OK)
    *out = t;
  else
    transfer_free(t);
  return status;
}

void transfer_free(struct transfer *t) {
  if (t == NULL) return;
  lane_free(t->lane);
  t->source.close(t->source.context);
  pthread_mutex_destroy(&t->reads);
  free(t->stored);
  free(t->numbers);
  free(t);
}

/* ---- Requests ---- */

static neap_status find(const struct transfer *t, const char *name, int32_t *index) {
  *index = t->source.find(t->source.context, name);
  RETURN_IF(*index < 0, NEAP_BAD_FORMAT, "'%s' is on disk, but the model's file has no such weight", name);
  return NEAP_OK;
}

neap_status transfer_start(struct transfer *t, const struct tensor *weight, uint64_t place) {
  int32_t index;
  TRY(find(t, weight->name, &index));
  lane_start(t->lane, &(struct lane_job){
                          .run = run_read, .context = t, .tensor = weight, .number = index, .place = place});
  return NEAP_OK;
}

struct lane *transfer_lane(const struct transfer *t) {
  return t->lane;
}

neap_status transfer_read_rows(void *transfer, const struct tensor *table, int64_t first, int64_t rows,
                               void *to) {
  struct transfer *t = transfer;
  const double begin = clock_seconds();
  int32_t index;
  RETURN_IF(t == NULL, NEAP_INVALID_ARGUMENT, "'%s' is on disk: load the model's file first", table->name);
  TRY(find(t, table->name, &index));
  pthread_mutex_lock(&t->reads);
  const neap_status status = read_to(t, table, index, first, rows, to);
  t->waited += clock_seconds() - begin; /* who starts reads and waits for them is this thread */
  pthread_mutex_unlock(&t->reads);
  return status;
}

neap_status transfer_read(struct transfer *t, const char *name, float *data) {
  int32_t index;
  TRY(find(t, name, &index));
  pthread_mutex_lock(&t->reads);
  const neap_status status = t->source.read(t->source.context, index, data);
  pthread_mutex_unlock(&t->reads);
  return status;
}

neap_status transfer_read_numbers(struct transfer *t, const char *name, int64_t first, int64_t rows,
                                  float *data) {
  int32_t index;
  TRY(find(t, name, &index));
  pthread_mutex_lock(&t->reads);
  const neap_status status = t->source.read_rows(t->source.context, index, first, rows, data);
  pthread_mutex_unlock(&t->reads);
  return status;
}

struct transfer_use transfer_use_of(struct transfer *t) {
  pthread_mutex_lock(&t->reads);
  const uint64_t bytes = t->source.bytes_read(t->source.context);
  pthread_mutex_unlock(&t->reads);
  return (struct transfer_use){.bytes = bytes, .waited = t->waited + lane_waited(t->lane)};
}
