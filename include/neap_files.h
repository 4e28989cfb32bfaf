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
/* NEAP_INVALID_PLAN: the plan, made by neap_plan_create, has a number that no plan file can hold. */
neap_status neap_plan_write(const neap_plan *plan, const char *path);

/* CSV of minimalloc: id,lower,upper,size in, blanks around them allowed. The caller frees the array. */
neap_status neap_layout_read_csv(const char *path, neap_buffer **buffers, int64_t *count);
/* The same with offset out. `source`: the file that the buffers were read from, whose ids its rows get. */
neap_status neap_layout_write_csv(const char *path, const char *source, const neap_buffer *buffers,
                                  int64_t count);

/* Whole, under a temporary name that then takes the place of `path`, or not at all; a device, a pipe and what
 * standard output goes to as they are. */
neap_status neap_write_file(const char *path, const char *bytes, size_t count);

#ifdef __cplusplus
}
#endif

#endif
