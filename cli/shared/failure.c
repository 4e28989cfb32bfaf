/* Reports failures, and chooses the exit status. */
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "shared/failure.h"
#include "shared/format.h"

static bool usage_as_json;

void tell_usage_as_json(void) { usage_as_json = true; }

int report_usage(const struct verb *verb, const char *format, ...) {
  va_list arguments;
  char *message = NULL;
  va_start(arguments, format);
  if (vasprintf(&message, format, arguments) < 0) message = NULL;
  va_end(arguments);
  fprintf(stderr, "neap: %s\nSee `neap%s%s --help`.\n", message != NULL ? message : "out of memory",
          verb != NULL ? " " : "", verb != NULL ? verb->name : "");
  if (usage_as_json)
    print_json(json_pack("{s:s%, s:i}", "error", message != NULL ? message : "out of memory",
                         strlen(message != NULL ? message : "out of memory"), "exit_status", EXIT_USAGE));
  free(message);
  return EXIT_USAGE;
}

static bool memory_is_out; /* in the command itself, which leaves no message of the library */

neap_status no_memory(void) {
  memory_is_out = true;
  return NEAP_OUT_OF_MEMORY;
}

/* The most address space that the process has had; 0: not known. */
static uint64_t most_address_space(void) {
  char line[128];
  unsigned long long kibibytes = 0;
  FILE *file = fopen("/proc/self/status", "r");
  if (file == NULL) return 0;
  while (kibibytes == 0 && fgets(line, sizeof line, file) != NULL)
    if (sscanf(line, "VmPeak: %llu", &kibibytes) != 1) kibibytes = 0;
  fclose(file);
  return 1024 * (uint64_t)kibibytes;
}

/* Reports the process's limit of address space, if it has one. */
static void report_memory_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const uint64_t had = most_address_space();
  fprintf(stderr, "  this process had %s of address space; its limit is %s (%llu bytes): ulimit -v %llu\n",
          bytes_text(had).text, bytes_text(limit.rlim_cur).text, (unsigned long long)limit.rlim_cur,
          (unsigned long long)limit.rlim_cur / 1024);
}

const char *library_message(void) {
  static char text[4096];
  snprintf(text, sizeof text, "%s", neap_error_message());
  for (char *at = strchr(text, '`'); at != NULL; at = strchr(at, '`')) {
    const size_t length = strcspn(at + 1, "`");
    if (at[1 + length] == '\0') break;
    if (strspn(at + 1, "abcdefghijklmnopqrstuvwxyz0123456789-") == length) { /* else it is a command */
      memmove(at + 2, at + 1, length);                                       /* two dashes for two quotes */
      at[0] = at[1] = '-';
    }
    at += 2 + length;
  }
  return text;
}

int exit_status_of(neap_status status) {
  static const struct {
    neap_status status;
    int exit_status;
  } rows[] = {{NEAP_OK, EXIT_DONE},
              {NEAP_INVALID_ARGUMENT, EXIT_USAGE},
              {NEAP_OVER_BUDGET, EXIT_OVER_BUDGET},
              {NEAP_INVALID_PLAN, EXIT_INVALID},
              {NEAP_DIVERGED, EXIT_DIVERGED},
              {NEAP_INTERRUPTED, EXIT_SIGNAL + SIGINT}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].status == status) return rows[i].exit_status;
  return EXIT_FAILED;
}

int report_failure(const struct verb *verb, neap_status status) {
  if (status == NEAP_INVALID_ARGUMENT) return report_usage(verb, "%s", library_message());
  fprintf(stderr, "neap: %s\n", memory_is_out ? "out of memory" : library_message());
  if (status == NEAP_OUT_OF_MEMORY) report_memory_limit();
  return exit_status_of(status);
}
