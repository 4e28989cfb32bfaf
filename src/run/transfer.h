/* Brings frozen weights from the model's file into a session's memory, on a thread of its own, while kernels
 * run. Reads are started and end in one order. */
#ifndef NEAP_RUN_TRANSFER_H
#define NEAP_RUN_TRANSFER_H

#include "kernel/kernel.h"

/* Values by the names of variables. `find` gives a number, -1: there are none of this name; `read` all of its
 * elements, as many as the variable has. */
struct value_source {
  int32_t (*find)(const void *context, const char *name);
  neap_status (*read)(const void *context, int32_t index, float *data);
  /* Whether there are values of a quantised type; and the blocks of rows of them. NULL: the source has no
   * such values. */
  bool (*has_blocks)(const void *context, int32_t index, neap_dtype dtype);
  neap_status (*read_blocks)(const void *context, int32_t index, int64_t first, int64_t rows, void *blocks);
  const void *context;
  /* What a source that a session keeps has besides. As `read`, some rows of a matrix; bytes read so far; and
   * the end of it. It is asked by one thread at a time. */
  neap_status (*read_rows)(const void *context, int32_t index, int64_t first, int64_t rows, float *data);
  uint64_t (*bytes_read)(const void *context);
  void (*close)(const void *context);
};

struct transfer;

/* What is read goes to `memory`, as `backend` has variables there in row-major order; both live longer.
 * `most`: elements of the longest row. The source is the transfer's then, also after a failure. */
neap_status transfer_create(const struct value_source *source, const struct device_memory *memory,
                            const struct backend *backend, void *state, int64_t most, struct transfer **out);
/* Waits for what was started; closes the source. Takes NULL. */
void transfer_free(struct transfer *transfer);

/* Starts to read a matrix, which `weight` describes, to offset `place`. NEAP_BAD_FORMAT: the source has none
 * of its name. */
neap_status transfer_start(struct transfer *transfer, const struct tensor *weight, uint64_t place);

/* How many were started so far. */
uint64_t transfer_started(const struct transfer *transfer);

/* Returns when `count` have ended, with the first failure since transfer_settle. */
neap_status transfer_wait(struct transfer *transfer, uint64_t count);

/* Waits for all that were started, and forgets a failure. */
void transfer_settle(struct transfer *transfer);

/* Reads rows now, as the memory would have them: a row_source's function, whose context is a transfer. */
neap_status transfer_read_rows(void *transfer, const struct tensor *table, int64_t first, int64_t rows,
                               void *to);

/* Reads a variable whole, as the source's `read`. */
neap_status transfer_read(struct transfer *transfer, const char *name, float *data);

/* Bytes that came from disk, and seconds that kernels waited for them, since it was made. */
struct transfer_use {
  uint64_t bytes;
  double waited;
};
struct transfer_use transfer_use_of(struct transfer *transfer);

#endif
