#include "speed/cost_database.h"

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { BUSY_MILLISECONDS = 5000 }; /* how long another process may write */

struct cost_database {
  sqlite3 *file;
  sqlite3_stmt *find;
  bool failed; /* something did: from then on it is as if there were none */
};

bool cost_database_path(bool make, char path[COST_PATH_LIMIT]) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int length;
  if (cache != NULL && cache[0] == '/') /* a relative one is to be ignored, says its specification */
    length = snprintf(path, COST_PATH_LIMIT, "%s/neap/kernels-1.sqlite", cache);
  else if (home != NULL && home[0] == '/')
    length = snprintf(path, COST_PATH_LIMIT, "%s/.cache/neap/kernels-1.sqlite", home);
  else
    return false;
  if (length < 0 || length >= COST_PATH_LIMIT) return false;
  for (char *slash = strchr(path + 1, '/'); make && slash != NULL; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(path, 0700); /* where it cannot be made, opening the file will say so */
    *slash = '/';
  }
  return true;
}

/* Prepares the file, but writes only if the table is missing: a read-only one is still read. The transaction
 * waits for other processes; creating a table alone would not, once it had begun to read. */
static bool prepare(struct cost_database *d, const char *path, bool change) {
  static const char table[] =
      "BEGIN IMMEDIATE;"
      "CREATE TABLE IF NOT EXISTS times (machine TEXT NOT NULL, kernel TEXT NOT NULL, "
      "seconds REAL NOT NULL, PRIMARY KEY (machine, kernel)) WITHOUT ROWID;"
      "COMMIT";
  static const char find[] = "SELECT seconds FROM times WHERE machine = ?1 AND kernel = ?2";
  const int how = change ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
  if (sqlite3_open_v2(path, &d->file, how, NULL) != SQLITE_OK) return false;
  sqlite3_busy_timeout(d->file, BUSY_MILLISECONDS);
  const int found = sqlite3_prepare_v2(d->file, find, -1, &d->find, NULL);
  if (found != SQLITE_ERROR || !change) return found == SQLITE_OK;
  return sqlite3_exec(d->file, table, NULL, NULL, NULL) == SQLITE_OK &&
         sqlite3_prepare_v2(d->file, find, -1, &d->find, NULL) == SQLITE_OK;
}

static struct cost_database *open_as(const char *path, bool change) {
  struct cost_database *database = calloc(1, sizeof *database);
  if (database == NULL) return NULL;
  if (prepare(database, path, change)) return database;
  cost_database_close(database);
  return NULL;
}

struct cost_database *cost_database_open(const char *path) {
  return open_as(path, true);
}

struct cost_database *cost_database_look(const char *path) {
  return open_as(path, false);
}

void cost_database_close(struct cost_database *database) {
  if (database == NULL) return;
  sqlite3_finalize(database->find);
  sqlite3_close(database->file);
  free(database);
}

static bool bind_texts(sqlite3_stmt *statement, const char *machine, const char *kernel) {
  return sqlite3_bind_text(statement, 1, machine, -1, SQLITE_STATIC) == SQLITE_OK &&
         sqlite3_bind_text(statement, 2, kernel, -1, SQLITE_STATIC) == SQLITE_OK;
}

bool cost_database_find(struct cost_database *database, const char *machine, const char *kernel,
                        double *seconds) {
  if (database == NULL || database->failed || !bind_texts(database->find, machine, kernel)) return false;
  const int result = sqlite3_step(database->find);
  const double value = result == SQLITE_ROW ? sqlite3_column_double(database->find, 0) : -1;
  sqlite3_reset(database->find);
  database->failed = result != SQLITE_ROW && result != SQLITE_DONE;
  if (!isfinite(value) || value < 0) return false;
  *seconds = value;
  return true;
}

void cost_database_add(struct cost_database *database, const char *machine, const struct kernel_time *times,
                       size_t count) {
  static const char add[] = "INSERT OR REPLACE INTO times VALUES (?1, ?2, ?3)";
  if (database == NULL || database->failed || count == 0) return;
  sqlite3_stmt *statement = NULL;
  if (sqlite3_prepare_v2(database->file, add, -1, &statement, NULL) != SQLITE_OK) return;
  bool good = sqlite3_exec(database->file, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK;
  for (size_t i = 0; good && i < count; i++) {
    good = bind_texts(statement, machine, times[i].kernel) &&
           sqlite3_bind_double(statement, 3, times[i].seconds) == SQLITE_OK &&
           sqlite3_step(statement) == SQLITE_DONE;
    sqlite3_reset(statement);
  }
  sqlite3_finalize(statement);
  if (!good || sqlite3_exec(database->file, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
    sqlite3_exec(database->file, "ROLLBACK", NULL, NULL, NULL); /* fails where nothing was begun: no harm */
}
