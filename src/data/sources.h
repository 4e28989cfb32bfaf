/* The sources of data by name: a row each. */
#ifndef NEAP_DATA_SOURCES_H
#define NEAP_DATA_SOURCES_H

#include "data/source.h"

/* Opens "NAME:ARGUMENT" for a task, checks its records' labels and takes the statistics of bytes of images.
 * Errors name the file and the place. Close with source_close, whatever the status. */
neap_status sources_open(const char *text, const struct task *task, struct source *source);

/* The same of the caller's own data. */
neap_status sources_open_own(const neap_data_source *own, const struct task *task, struct source *source);

#endif
