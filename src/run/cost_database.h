/* Times of kernels that were measured before, in a SQLite file that any number of processes share. It is a
 * cache: a file that is missing, broken, locked for long or read-only costs nothing but the measuring. How
 * fast a machine is stands in it as the times of single operations (run/speed.h). */
#ifndef NEAP_RUN_COST_DATABASE_H
#define NEAP_RUN_COST_DATABASE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct cost_database;

enum { COST_PATH_LIMIT = 4096 };

/* The user's file: $XDG_CACHE_HOME/neap/kernels-1.sqlite, or below ~/.cache; the 1 is the form of its tables.
 * With `make` the folders on the way to it are made. False where there is no such place. */
bool cost_database_path(bool make, char path[COST_PATH_LIMIT]);

/* NULL where it cannot be used; the other calls take NULL, find nothing in it and do nothing with it. The
 * file is made where it is missing, and left as it is where it is not a database. */
struct cost_database *cost_database_open(const char *path);
/* To find things in it only: nothing is made or changed. */
struct cost_database *cost_database_look(const char *path);
void cost_database_close(struct cost_database *database);

/* Seconds that `kernel` takes on `machine`; false: not known. */
bool cost_database_find(struct cost_database *database, const char *machine, const char *kernel,
                        double *seconds);

/* Enters all in one transaction, or none. */
struct kernel_time {
  const char *kernel;
  double seconds;
};
void cost_database_add(struct cost_database *database, const char *machine, const struct kernel_time *times,
                       size_t count);

#endif
