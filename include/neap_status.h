/* Versions, errors, and rows of tables: what all headers of Neap share.
 *
 * Errors: a function that can fail returns neap_status; neap_error_message says what failed, where, and what
 * to do. Ownership: what a function gives through its last parameter belongs to the caller and goes back
 * through the matching *_free, which takes NULL too; the other calls do not, where nothing else is said. On
 * failure that parameter is left as it was and nothing leaks. NULL: an object or a result that is NULL is
 * refused with NEAP_INVALID_ARGUMENT, by calls without a status as nothing to do. What a comment or a zeroed
 * struct gives a default may be NULL. Threads: different objects may be used from different threads; one
 * object from one thread at a time. */
#ifndef NEAP_STATUS_H
#define NEAP_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NEAP_VERSION "0.2.0"
/* Returns NEAP_VERSION of the linked library, which may differ from that of the header. */
const char *neap_version(void);

#define NEAP_STATUS_LIST(X)                                                                                  \
  X(OK, "done")                                                                                              \
  X(INVALID_ARGUMENT, "an argument is not usable")                                                           \
  X(OUT_OF_MEMORY, "the system has no memory left")                                                          \
  X(TOO_LARGE, "a size does not fit its type")                                                               \
  X(IO_FAILED, "a file could not be read or written")                                                        \
  X(BAD_FORMAT, "a file's content is not what its format asks for")                                          \
  X(OVER_BUDGET, "the budget cannot be met")                                                                 \
  X(INVALID_PLAN, "the plan or layout breaks a rule")                                                        \
  X(UNSUPPORTED, "this build or machine cannot do that")                                                     \
  X(INTERRUPTED, "stopped on request")                                                                       \
  X(INTERNAL, "a fault in Neap")                                                                             \
  X(DIVERGED, "training has come to numbers that are not finite")                                            \
  X(LIMIT_REACHED, "a run came to a limit that it was given")

typedef enum neap_status {
#define NEAP_STATUS_ENUM(name, text) NEAP_##name,
  NEAP_STATUS_LIST(NEAP_STATUS_ENUM)
#undef NEAP_STATUS_ENUM
} neap_status;

/* Returns a short text for a status. Never NULL. */
const char *neap_status_text(neap_status status);
/* Returns the message of the last failure in this thread: what failed, where, and what to do about it. A name
 * between backquotes is that of a setting or an option. Valid until the next failure. */
const char *neap_error_message(void);

/* A row of a table. Calls neap_..._at give row `index`, from 0, and return false past the end. */
typedef struct neap_row {
  const char *name, *summary;
  const char *source;       /* the paper, or NULL */
  const char *graphs;       /* of a planner: the graphs that it takes */
  const char *promise;      /* of a planner: what it guarantees for its plans, apart from being valid */
  int32_t auto_limit;       /* of a planner: "auto" uses it for steps of at most this many nodes */
  const char *const *types; /* of an operator: the types of real numbers that it takes, ended by NULL */
} neap_row;

#ifdef __cplusplus
}
#endif

#endif
