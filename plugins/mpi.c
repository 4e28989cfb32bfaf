/* Ranks that mpirun started: an engine behind neap_collective.h on MPI. One source for every MPI: each has a
 * binary interface of its own, so its mpicc makes a plugin of its own. A failure is not mended: the process
 * is to end without MPI_Finalize then, upon which mpirun ends the others. */
#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>

#include "collective/calls.h"
#include "collective/plugin_interface.h"

#ifndef CHUNK_BYTES /* of one message: MPI counts in int */
#define CHUNK_BYTES (1 << 30)
#endif

struct ranks {
  struct ranks *whole; /* whose part this is; NULL: it is the whole */
  MPI_Comm all;
  int rank, size;
  plugin_fail *fail;
  bool failed, finalize; /* whether MPI is ours to end */
  MPI_Request *requests; /* [2 * size] */
  MPI_Status *statuses;  /* [2 * size] */
  int *peers;            /* [2 * size]: what a request receives from, -1: it sends */
  neap_piece *pieces;    /* [2 * size], of an allgather */
};

/* After a failure nothing is ended in an orderly way: that would wait for others. */
static void mark_failed(struct ranks *m) {
  m->failed = true;
  if (m->whole != NULL) m->whole->failed = true;
}

static neap_status fail_mpi(struct ranks *m, const char *call, int error) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  mark_failed(m);
  MPI_Error_string(error, text, &length);
  return m->fail(NEAP_IO_FAILED, "collective: rank %d: %s failed: %s", m->rank, call, text);
}

/* Bytes of chunk `number` of a piece. */
static int chunk_of(const neap_piece *piece, uint64_t number) {
  const uint64_t begin = number * CHUNK_BYTES;
  if (begin >= piece->bytes) return 0;
  return piece->bytes - begin < CHUNK_BYTES ? (int)(piece->bytes - begin) : CHUNK_BYTES;
}

static char *place_of(const neap_piece *piece, uint64_t number) {
  return (char *)piece->data + number * CHUNK_BYTES;
}

/* Starts to receive and send chunk `number` of every piece that has one. */
static int start_chunks(struct ranks *m, const neap_piece *send, const neap_piece *receive, uint64_t number,
                        int *count) {
  int error = MPI_SUCCESS;
  *count = 0;
  for (int i = 1; i < m->size && error == MPI_SUCCESS; i++) {
    const int from = (m->rank - i + m->size) % m->size, bytes = chunk_of(&receive[from], number);
    if (bytes == 0) continue;
    error =
        MPI_Irecv(place_of(&receive[from], number), bytes, MPI_BYTE, from, 0, m->all, &m->requests[*count]);
    m->peers[(*count)++] = from;
  }
  for (int i = 1; i < m->size && error == MPI_SUCCESS; i++) {
    const int to = (m->rank + i) % m->size, bytes = chunk_of(&send[to], number);
    if (bytes == 0) continue;
    error = MPI_Isend(place_of(&send[to], number), bytes, MPI_BYTE, to, 0, m->all, &m->requests[*count]);
    m->peers[(*count)++] = -1;
  }
  return error;
}

/* Fails where a chunk came that was shorter than expected; a longer one is an error of MPI. */
static neap_status check_chunks(struct ranks *m, const neap_piece *receive, uint64_t number, int count) {
  for (int i = 0; i < count; i++) {
    const int from = m->peers[i];
    int got = 0;
    if (from < 0) continue;
    MPI_Get_count(&m->statuses[i], MPI_BYTE, &got);
    if (got == chunk_of(&receive[from], number)) continue;
    mark_failed(m);
    return m->fail(NEAP_INVALID_ARGUMENT,
                   "collective: rank %d sent %d bytes to rank %d, which expects %d; sizes have to agree",
                   from, got, m->rank, chunk_of(&receive[from], number));
  }
  return NEAP_OK;
}

static neap_status mpi_exchange(void *self, const neap_piece *send, const neap_piece *receive) {
  struct ranks *m = self;
  for (uint64_t number = 0;; number++) {
    int count;
    int error = start_chunks(m, send, receive, number, &count);
    if (error != MPI_SUCCESS) return fail_mpi(m, "MPI_Isend", error);
    if (count == 0) return NEAP_OK;
    error = MPI_Waitall(count, m->requests, m->statuses);
    for (int i = 0; error == MPI_ERR_IN_STATUS && i < count; i++)
      if (m->statuses[i].MPI_ERROR != MPI_SUCCESS && m->statuses[i].MPI_ERROR != MPI_ERR_PENDING)
        error = m->statuses[i].MPI_ERROR;
    if (error != MPI_SUCCESS) return fail_mpi(m, "MPI_Waitall", error);
    const neap_status status = check_chunks(m, receive, number, count);
    if (status != NEAP_OK) return status;
  }
}

static neap_status mpi_allgather(void *self, void *all, const uint64_t *bytes) {
  struct ranks *m = self;
  calls_allgather_pieces(m->rank, m->size, all, bytes, m->pieces, m->pieces + m->size);
  return mpi_exchange(m, m->pieces, m->pieces + m->size);
}

static neap_status mpi_barrier(void *self) {
  struct ranks *m = self;
  const int error = MPI_Barrier(m->all);
  return error == MPI_SUCCESS ? NEAP_OK : fail_mpi(m, "MPI_Barrier", error);
}

static void mpi_close(void *self) {
  struct ranks *m = self;
  if (m == NULL) return;
  if (!m->failed && m->all != MPI_COMM_NULL) {
    MPI_Comm_free(&m->all);
    if (m->finalize) MPI_Finalize();
  }
  free(m->requests);
  free(m->statuses);
  free(m->peers);
  free(m->pieces);
  free(m);
}

/* MPI_Init, where the process has not called it. */
static neap_status begin(struct ranks *m) {
  int begun = 0, ended = 0, level = 0;
  MPI_Finalized(&ended);
  if (ended)
    return m->fail(NEAP_UNSUPPORTED, "collective: MPI was ended in this process and does not begin again");
  MPI_Initialized(&begun);
  int error = begun ? MPI_Query_thread(&level) : MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
  if (error != MPI_SUCCESS) return fail_mpi(m, "MPI_Init_thread", error);
  m->finalize = !begun;
  if (level < MPI_THREAD_SERIALIZED)
    return m->fail(NEAP_UNSUPPORTED,
                   "collective: this MPI does not allow threads (got level %d, MPI_THREAD_SERIALIZED is %d)",
                   level, MPI_THREAD_SERIALIZED);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  error = MPI_Comm_dup(MPI_COMM_WORLD, &m->all);
  if (error != MPI_SUCCESS) return fail_mpi(m, "MPI_Comm_dup", error);
  MPI_Comm_set_errhandler(m->all, MPI_ERRORS_RETURN);
  MPI_Comm_rank(m->all, &m->rank);
  MPI_Comm_size(m->all, &m->size);
  return NEAP_OK;
}

static neap_status allocate(struct ranks *m) {
  const size_t calls = 2 * (size_t)m->size;
  m->requests = calloc(calls, sizeof *m->requests);
  m->statuses = calloc(calls, sizeof *m->statuses);
  m->peers = calloc(calls, sizeof *m->peers);
  m->pieces = calloc(calls, sizeof *m->pieces);
  return m->requests && m->statuses && m->peers && m->pieces
             ? NEAP_OK
             : m->fail(NEAP_OUT_OF_MEMORY, "collective: out of memory");
}

static neap_status mpi_part(void *self, int first, int stride, int count, neap_collective *out);

static neap_collective collective_of(struct ranks *m) {
  return (neap_collective){m->rank,       m->size,     m,         mpi_exchange,
                           mpi_allgather, mpi_barrier, mpi_close, mpi_part};
}

/* Makes the communicator of a part. */
static neap_status connect_part(struct ranks *m, int first, int stride, int count) {
  MPI_Group all, some = MPI_GROUP_NULL;
  int range[1][3] = {{first, first + (count - 1) * stride, stride}};
  MPI_Comm_group(m->whole->all, &all);
  int error = MPI_Group_range_incl(all, 1, range, &some);
  if (error == MPI_SUCCESS) error = MPI_Comm_create_group(m->whole->all, some, first, &m->all);
  MPI_Group_free(&all);
  if (some != MPI_GROUP_NULL) MPI_Group_free(&some);
  if (error != MPI_SUCCESS) return fail_mpi(m, "MPI_Comm_create_group", error);
  MPI_Comm_set_errhandler(m->all, MPI_ERRORS_RETURN);
  MPI_Comm_rank(m->all, &m->rank);
  return NEAP_OK;
}

static neap_status mpi_part(void *self, int first, int stride, int count, neap_collective *out) {
  struct ranks *whole = self, *m = calloc(1, sizeof *m);
  if (m == NULL) return whole->fail(NEAP_OUT_OF_MEMORY, "collective: out of memory");
  *m = (struct ranks){.whole = whole, .all = MPI_COMM_NULL, .size = count, .fail = whole->fail};
  neap_status status = allocate(m);
  if (status == NEAP_OK) status = connect_part(m, first, stride, count);
  if (status == NEAP_OK)
    *out = collective_of(m);
  else
    mpi_close(m);
  return status;
}

static neap_status mpi_open(plugin_fail *fail, neap_collective *out) {
  struct ranks *m = calloc(1, sizeof *m);
  if (m == NULL) return fail(NEAP_OUT_OF_MEMORY, "collective: out of memory");
  m->fail = fail;
  m->all = MPI_COMM_NULL;
  neap_status status = begin(m);
  if (status == NEAP_OK) status = allocate(m);
  if (status != NEAP_OK) {
    m->failed = true; /* MPI_Finalize waits for the others */
    mpi_close(m);
    return status;
  }
  *out = collective_of(m);
  return NEAP_OK;
}

extern const struct plugin neap_plugin;
const struct plugin neap_plugin = {PLUGIN_VERSION, mpi_open};
