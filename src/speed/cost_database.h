/* Measured times of kernels, in a SQLite file that any number of processes share. It is a cache: a file that
 * is missing, broken, locked for long or read-only only means measuring again. The speed of a machine is
 * stored as the times of single operations (speed/speed.h). */
#ifndef NEAP_SPEED_COST_DATABASE_H
#define NEAP_SPEED_COST_DATABASE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct cost_database;

enum { COST_PATH_LIMIT = 4096 };

/* Writes the path of the user's file: $XDG_CACHE_HOME/neap/kernels-1.sqlite, or below ~/.cache; the 1 is the
 * version of its tables. With `make` creates its folders. Returns false if no such place exists. */
bool cost_database_path(bool make, char path[COST_PATH_LIMIT]);

/* Opens the database; returns NULL if it cannot be used. The other calls take NULL, find nothing in it and do
 * nothing with it. A missing file is created; a file that is not a database is left unchanged. */
struct cost_database *cost_database_open(const char *path);
/* Opens it only for look-ups: creates and changes nothing. */
struct cost_database *cost_database_look(const char *path);
void cost_database_close(struct cost_database *database);

/* Gives the seconds that `kernel` takes on `machine`; returns false if not known. */
bool cost_database_find(struct cost_database *database, const char *machine, const char *kernel,
                        double *seconds);

/* Enters all times in one transaction, or none. */
struct kernel_time {
  const char *kernel;
  double seconds;
};
void cost_database_add(struct cost_database *database, const char *machine, const struct kernel_time *times,
                       size_t count);

#endif
