/* Reads frozen weights from the model's file into a session's memory, on its own thread, while kernels run.
 * Reads start and end in one order. */
#ifndef NEAP_PROGRAM_TRANSFER_H
#define NEAP_PROGRAM_TRANSFER_H

#include "kernel/kernel.h"
#include "program/lane.h"

/* A source of values by the names of variables. `find` gives a number, -1: it has none of this name; `read`
 * reads all elements, as many as the variable has. */
struct value_source {
  int32_t (*find)(const void *context, const char *name);
  neap_status (*read)(const void *context, int32_t index, float *data);
  /* Returns whether it has values of a quantised type; and reads blocks of rows of them. NULL: it has no such
   * values. */
  bool (*has_blocks)(const void *context, int32_t index, neap_dtype dtype);
  neap_status (*read_blocks)(const void *context, int32_t index, int64_t first, int64_t rows, void *blocks);
  const void *context;
  /* For a source that a session keeps: reads some rows of a matrix; returns the bytes read so far; and closes
   * it. One thread at a time calls it. */
  neap_status (*read_rows)(const void *context, int32_t index, int64_t first, int64_t rows, float *data);
  uint64_t (*bytes_read)(const void *context);
  void (*close)(const void *context);
};

struct transfer;

/* Makes a transfer to `memory`, in which `backend` has variables in row-major order; both must outlive it.
 * `most`: elements of the longest row. The transfer then owns the source, even after a failure. */
neap_status transfer_create(const struct value_source *source, const struct device_memory *memory,
                            const struct backend *backend, void *state, int64_t most, struct transfer **out);
/* Waits for started reads and closes the source. Takes NULL. */
void transfer_free(struct transfer *transfer);

/* Starts to read the matrix that `weight` describes to offset `place`. NEAP_BAD_FORMAT: the source has none
 * of its name. */
neap_status transfer_start(struct transfer *transfer, const struct tensor *weight, uint64_t place);

/* Returns the lane that reads run on. */
struct lane *transfer_lane(const struct transfer *transfer);

/* Reads rows now, in the form of the memory: a row_source's function, whose context is a transfer. */
neap_status transfer_read_rows(void *transfer, const struct tensor *table, int64_t first, int64_t rows,
                               void *to);

/* Reads a complete variable, as the source's `read`. */
neap_status transfer_read(struct transfer *transfer, const char *name, float *data);
/* Reads rows of a matrix, as the source's `read_rows`. */
neap_status transfer_read_numbers(struct transfer *transfer, const char *name, int64_t first, int64_t rows,
                                  float *data);

/* Bytes read from disk, and seconds that kernels waited for them, since it was made. */
struct transfer_use {
  uint64_t bytes;
  double waited;
};
struct transfer_use transfer_use_of(struct transfer *transfer);

#endif
