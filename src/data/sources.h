/* The sources of data, one row per name. */
#ifndef NEAP_DATA_SOURCES_H
#define NEAP_DATA_SOURCES_H

#include "data/source.h"

/* Opens "NAME:ARGUMENT" for a task, checks the labels of its records and takes the statistics of bytes of
 * images. Errors name the file and the place. Close with source_close, whatever the status. */
neap_status sources_open(const char *text, const struct task *task, struct source *source);

/* Opens the caller's own data in the same way. */
neap_status sources_open_own(const neap_data_source *own, const struct task *task, struct source *source);

#endif
