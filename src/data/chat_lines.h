/* Conversations in JSON lines: a file with an object a line, read one line at a time.
 *
 *   {"messages": [{"role": R, "content": TEXT}, ...]}          R: system, user, assistant, tool
 *   {"conversations": [{"from": F, "value": TEXT}, ...]}       F: system, human or user, gpt or assistant,
 * tool
 *   {"prompt": P, "completion": C}                             both texts, or both messages as above
 *   {"instruction": TEXT, "input": TEXT, "output": TEXT}       input may be missing; "system": TEXT may be
 * there
 *   {"text": TEXT}
 *
 * Other fields do not matter, but tools and their calls, which no chat template of ours renders, are refused.
 */
#ifndef NEAP_DATA_CHAT_LINES_H
#define NEAP_DATA_CHAT_LINES_H

#include <jansson.h>

#include "base/vector.h"
#include "text/chat_template.h"
#include "text/utf8.h"

enum { CHAT_LINE_LIMIT = 64 << 20 }; /* bytes of the longest line */

/* What a line has. Texts are valid until the next line is read. */
struct chat_sample {
  VECTOR(struct chat_message) messages; /* none: it is a text alone */
  struct chat_message text;             /* that text */
  size_t answered; /* assistants' turns that belong to a prompt: nothing is learned from them */
};

/* An open file. */
struct chat_lines {
  struct text file;  /* text_file.h; `marked`: a byte-order mark was skipped */
  const char *input; /* between an instruction and its input; borrowed */
  size_t limit;      /* bytes of a line: CHAT_LINE_LIMIT */
  int64_t line;      /* that was read last, from 1 on */
  struct chat_sample sample;

  /* Private. */
  size_t read;         /* bytes of the file that are in the window or were */
  VECTOR(char) window; /* what was read; from `at` on it is not used yet */
  size_t at;
  json_t *root;        /* of the line */
  VECTOR(char) joined; /* an instruction and its input */
};

/* Opens a file. `path` and `input` stay the caller's until chat_lines_close, which is called whatever the
 * status. NEAP_IO_FAILED: it cannot be read. */
neap_status chat_lines_open(const char *path, const char *input, struct chat_lines *lines);
void chat_lines_close(struct chat_lines *lines);

/* Reads the next line into lines->sample; *any: there was one. NEAP_BAD_FORMAT: the line is empty, not UTF-8,
 * no JSON, none of the forms above, has a role that is not known, content that is no text, or no turn of the
 * assistant. NEAP_UNSUPPORTED: it has tools. NEAP_TOO_LARGE: it has more bytes than the limit. The message
 * names file and line. */
neap_status chat_lines_next(struct chat_lines *lines, bool *any);

/* Passes over the next line without a look at what is in it. Errors are those of its length and of reading.
 */
neap_status chat_lines_skip(struct chat_lines *lines, bool *any);

#endif
