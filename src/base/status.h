/* Errors are values. A function that can fail returns neap_status; results go out through its last
 * parameters. The message of the last failure of a thread is kept for neap_error_message(). */
#ifndef NEAP_BASE_STATUS_H
#define NEAP_BASE_STATUS_H

#include "neap.h"

/* Records a message (printf style: what, where, what to do) for this thread and returns `status`. The
 * libraries do not export it.
 */
neap_status neap_fail(neap_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3), visibility("hidden")));

/* The same, where who reads the call alone (a compiler, an analyser) sees what it returns. Takes `status`
 * twice. */
#define neap_fail(status, ...) (neap_fail(status, __VA_ARGS__), (status))

enum { MESSAGE_BYTES = 1024 }; /* of the longest message that is kept, with its end */

/* The status of work that another thread did, or that is reported after other work. */
struct ending {
  neap_status status;
  char message[MESSAGE_BYTES]; /* of a failure */
};

/* Keeps a status with this thread's last message. */
void ending_keep(struct ending *ending, neap_status status);

/* Returns the status; the message of a failure becomes this thread's last. */
neap_status ending_tell(const struct ending *ending);

/* Fails with a message when the condition holds. Stays in release builds. */
#define RETURN_IF(condition, status, ...)                                                                    \
  do {                                                                                                       \
    if (condition) return neap_fail(status, __VA_ARGS__);                                                    \
  } while (0)

/* Fails where an argument of a public function is NULL. */
#define NEED(argument)                                                                                       \
  RETURN_IF((argument) == NULL, NEAP_INVALID_ARGUMENT, "%s: '%s' is NULL", __func__, #argument)

/* Forwards a failure; its message is kept. */
#define TRY(expression)                                                                                      \
  do {                                                                                                       \
    const neap_status try_status_ = (expression);                                                            \
    if (try_status_ != NEAP_OK) return try_status_;                                                          \
  } while (0)

/* The same inside a function that has to clean up: sets its `status` and jumps to its `done`. */
#define TRY_DONE(expression)                                                                                 \
  do {                                                                                                       \
    status = (expression);                                                                                   \
    if (status != NEAP_OK) goto done;                                                                        \
  } while (0)

#define RETURN_IF_NULL(pointer)                                                                              \
  RETURN_IF((pointer) == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", __func__)

#endif
