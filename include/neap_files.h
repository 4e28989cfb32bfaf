/* Files of steps, plans and layouts (docs/formats.md), and files that are written as Neap writes its own. */
#ifndef NEAP_FILES_H
#define NEAP_FILES_H

#include "neap_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

neap_status neap_step_read(const char *path, neap_step **step);
neap_status neap_step_write(const neap_step *step, const char *path);

neap_status neap_plan_read(const char *path, neap_plan **plan);
/* Writes a plan file. NEAP_INVALID_PLAN: the plan, made by neap_plan_create, has a number that no plan file
 * can hold. */
neap_status neap_plan_write(const neap_plan *plan, const char *path);

/* Reads minimalloc's CSV: id,lower,upper,size; blanks around them are allowed. The caller frees the array. */
neap_status neap_layout_read_csv(const char *path, neap_buffer **buffers, int64_t *count);
/* Writes the same CSV with offsets. `source`: the file that the buffers were read from, whose ids are
 * copied. */
neap_status neap_layout_write_csv(const char *path, const char *source, const neap_buffer *buffers,
                                  int64_t count);

/* Writes a file completely or not at all: under a temporary name that then replaces `path`. Writes directly
 * to a device, a pipe or the target of standard output. */
neap_status neap_write_file(const char *path, const char *bytes, size_t count);

#ifdef __cplusplus
}
#endif

#endif
