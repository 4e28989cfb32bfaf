/* Files read whole, and written whole or not at all. */
#ifndef NEAP_BASE_FILE_H
#define NEAP_BASE_FILE_H

#include <stdio.h>

#include "base/status.h"

/* Writes through `write` (which returns false when it could not; errno says why) to a temporary name in the
 * same folder, syncs it and renames it to `path`. On failure the old file is as it was and nothing is left
 * behind. What is no regular file (a device, a pipe) is written to as it is. */
typedef bool file_writer(FILE *file, const void *context);
neap_status file_write(const char *path, file_writer *write, const void *context);

#endif
