#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_message[MESSAGE_BYTES];

/* A message may quote a file, and is read in a terminal. */
static char printable(char c) { return (c > 0 && c < ' ') || c == 127 ? '?' : c; }

/* In brackets it is the function, not the macro. */
neap_status(neap_fail)(neap_status status, const char *format, ...) {
  char message[sizeof last_message]; /* an argument may be the last message itself */
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  for (size_t i = 0; i < sizeof message; i++)
    if ((last_message[i] = printable(message[i])) == '\0') break;
  return status;
}

const char *neap_version(void) { return NEAP_VERSION; }

const char *neap_error_message(void) { return last_message; }

void ending_keep(struct ending *ending, neap_status status) {
  ending->status = status;
  if (status != NEAP_OK) memcpy(ending->message, last_message, sizeof ending->message);
}

neap_status ending_tell(const struct ending *ending) {
  return ending->status == NEAP_OK ? NEAP_OK : neap_fail(ending->status, "%s", ending->message);
}

const char *neap_status_text(neap_status status) {
  switch (status) {
#define CASE(name, text)                                                                                     \
  case NEAP_##name:                                                                                          \
    return text;
    NEAP_STATUS_LIST(CASE)
#undef CASE
  }
  return "unknown status";
}
