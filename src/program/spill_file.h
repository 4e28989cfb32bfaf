/* The file on disk of a session's spilled variables: allocated at its full size when it is made, without a
 * name, read and written past the system's page cache where the file system takes that. Each piece has a
 * checksum in memory, so that bytes that changed on the disk end the run before an update uses them. */
#ifndef NEAP_PROGRAM_SPILL_FILE_H
#define NEAP_PROGRAM_SPILL_FILE_H

#include "kernel/spilled.h"

struct spill_file;

/* A variable: its bytes, and those of a piece, which all but the last have. */
struct spilled_variable {
  const char *name; /* borrowed */
  uint64_t bytes, piece;
};

/* Returns the bytes of a file with these variables. */
uint64_t spill_file_bytes(const struct spilled_variable *variables, int32_t count);

/* Fails unless a folder is on a disk and may be written: NEAP_INVALID_ARGUMENT, it is memory (tmpfs);
 * NEAP_IO_FAILED. */
neap_status spill_file_check_folder(const char *folder);

/* Makes the file in `folder`, for `memory`, which must outlive it, with variables of zeros.
 * NEAP_INVALID_ARGUMENT: the folder is memory (tmpfs). NEAP_IO_FAILED: it cannot be written, or has no room;
 * then nothing is left. */
neap_status spill_file_create(const char *folder, const struct device_memory *memory,
                              const struct spilled_variable *variables, int32_t count,
                              struct spill_file **out);
/* Waits for started jobs; the bytes on disk are free then. Takes NULL. */
void spill_file_free(struct spill_file *file);

/* Returns the number of a variable that it has. */
int64_t spill_file_find(const struct spill_file *file, const char *name);

const struct spill *spill_file_io(const struct spill_file *file);

/* Reads or writes a complete variable, `bytes` [all of it], and waits. */
neap_status spill_file_read(struct spill_file *file, int64_t variable, void *bytes);
neap_status spill_file_write(struct spill_file *file, int64_t variable, const void *bytes);

/* The same for some pieces of one. `bytes`: [those pieces], aligned or not. */
neap_status spill_file_read_piece(struct spill_file *file, int64_t variable, int64_t piece, void *bytes);
neap_status spill_file_write_piece(struct spill_file *file, int64_t variable, int64_t piece,
                                   const void *bytes);

/* Bytes of the file, and those read and written since it was made; seconds that kernels waited. */
struct spill_use {
  uint64_t bytes, read, written;
  double waited;
};
struct spill_use spill_file_use(const struct spill_file *file);

#endif
