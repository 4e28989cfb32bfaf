#include "run/transfer.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { WAITING = 64 /* requests */, PIECE = 1 << 16 /* elements that are converted at a time */ };

struct request {
  const struct tensor *weight;
  int32_t index; /* of the source */
  uint64_t place;
};

struct transfer {
  struct value_source source;
  const struct device_memory *memory;
  const struct backend *backend;
  void *state; /* the backend's */
  int64_t piece;
  float *numbers;        /* [piece] */
  unsigned char *stored; /* as many bytes: a piece as the memory has it */
  pthread_mutex_t reads; /* who has it may ask the source, and has the two above */
  pthread_t thread;
  bool running;
  pthread_mutex_t lock; /* of what follows */
  pthread_cond_t begun, done;
  bool ends;
  struct request requests[WAITING];
  uint64_t started, ended;
  struct ending failure; /* the first */
  double waited;         /* of the thread that starts reads, which alone changes it */
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
static neap_status read_weight(struct transfer *t, const struct request *r) {
  const int64_t all = r->weight->dims[0], step = t->piece / r->weight->dims[1];
  const uint64_t row = dtype_bytes(r->weight->dtype, (uint64_t)r->weight->dims[1]);
  unsigned char *address = device_address(t->memory, r->place, (uint64_t)all * row);
  if (address != NULL) return read_to(t, r->weight, r->index, 0, all, address);
  for (int64_t first = 0; first < all; first += step) {
    const int64_t rows = all - first < step ? all - first : step;
    TRY(read_rows(t, r->weight, r->index, first, rows, t->stored));
    TRY(device_write(t->memory, r->place + (uint64_t)first * row, t->stored, (uint64_t)rows * row));
  }
  return NEAP_OK;
}

/* ---- The thread ---- */

/* Serves a request, with the lock held. After a failure no more is read. */
static void serve(struct transfer *t, const struct request *r) {
  struct ending ending = {0};
  if (t->failure.status == NEAP_OK) {
    pthread_mutex_unlock(&t->lock);
    pthread_mutex_lock(&t->reads);
    ending_keep(&ending, read_weight(t, r));
    pthread_mutex_unlock(&t->reads);
    pthread_mutex_lock(&t->lock);
  }
  if (ending.status != NEAP_OK) t->failure = ending;
  t->ended++;
  pthread_cond_broadcast(&t->done);
}

static void *run(void *context) {
  struct transfer *t = context;
  pthread_mutex_lock(&t->lock);
  for (;;) {
    while (t->ended == t->started && !t->ends) pthread_cond_wait(&t->begun, &t->lock);
    if (t->ended == t->started) break;
    const struct request request = t->requests[t->ended % WAITING];
    serve(t, &request);
  }
  pthread_mutex_unlock(&t->lock);
  return NULL;
}

/* Starts the thread, with signals left to the caller's threads. Without a thread reads are done when they are
 * started. */
static void start_thread(struct transfer *t) {
  sigset_t all, former;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &former);
  t->running = pthread_create(&t->thread, NULL, run, t) == 0;
  pthread_sigmask(SIG_SETMASK, &former, NULL);
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
  pthread_mutex_init(&t->lock, NULL);
  pthread_cond_init(&t->begun, NULL);
  pthread_cond_init(&t->done, NULL);
  start_thread(t);
  *out = t;
  return NEAP_OK;
}

void transfer_free(struct transfer *t) {
  if (t == NULL) return;
  pthread_mutex_lock(&t->lock);
  t->ends = true;
  pthread_cond_broadcast(&t->begun);
  pthread_mutex_unlock(&t->lock);
  if (t->running) pthread_join(t->thread, NULL);
  t->source.close(t->source.context);
  pthread_cond_destroy(&t->done);
  pthread_cond_destroy(&t->begun);
  pthread_mutex_destroy(&t->lock);
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
  struct request request = {.weight = weight, .place = place};
  TRY(find(t, weight->name, &request.index));
  pthread_mutex_lock(&t->lock);
  while (t->started - t->ended == WAITING) pthread_cond_wait(&t->done, &t->lock);
  t->requests[t->started++ % WAITING] = request;
  if (t->running)
    pthread_cond_signal(&t->begun);
  else
    serve(t, &request);
  pthread_mutex_unlock(&t->lock);
  return NEAP_OK;
}

uint64_t transfer_started(const struct transfer *t) { return t->started; }

neap_status transfer_wait(struct transfer *t, uint64_t count) {
  struct ending failure;
  pthread_mutex_lock(&t->lock);
  if (t->ended < count) {
    const double begin = clock_seconds();
    while (t->ended < count) pthread_cond_wait(&t->done, &t->lock);
    t->waited += clock_seconds() - begin;
  }
  failure = t->failure;
  pthread_mutex_unlock(&t->lock);
  return ending_tell(&failure);
}

void transfer_settle(struct transfer *t) {
  pthread_mutex_lock(&t->lock);
  while (t->ended < t->started) pthread_cond_wait(&t->done, &t->lock);
  t->failure = (struct ending){0};
  pthread_mutex_unlock(&t->lock);
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

struct transfer_use transfer_use_of(struct transfer *t) {
  pthread_mutex_lock(&t->reads);
  const uint64_t bytes = t->source.bytes_read(t->source.context);
  pthread_mutex_unlock(&t->reads);
  return (struct transfer_use){.bytes = bytes, .waited = t->waited};
}
