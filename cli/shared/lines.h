/* Lines of text files. */
#ifndef NEAP_CLI_LINES_H
#define NEAP_CLI_LINES_H

#include "shared/options.h"

struct lines {
  char **list;
  size_t count, capacity;
};

void free_lines(struct lines *lines);

/* Appends a copy. Returns false if memory is out. */
bool add_line(struct lines *lines, const char *text);

/* Appends the lines of a file without their ends, LF or CR LF; `path` NULL: of standard input. Returns an
 * exit status, after a message. */
int read_lines(const struct verb *verb, const char *path, struct lines *lines);

#endif
