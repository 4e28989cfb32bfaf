/* Reads conversations from JSON lines, a file with one object per line, or from an array of objects in JSON,
 * which may be on several lines. Both are read record by record.
 *
 *     {"messages": [{"role": R, "content": TEXT}, ...]}       R: system, user, assistant, tool
 *     {"conversations": [{"from": F, "value": TEXT}, ...]}    F: system, human, user, gpt, assistant, tool
 *     {"prompt": P, "completion": C}                          both texts, or both messages as above
 *     {"instruction": TEXT, "input": TEXT, "output": TEXT}    without input too; "history": [[TEXT, TEXT],
 * ...]
 *     {"text": TEXT}
 *
 * Of preferences:
 *
 *     {"prompt": P, "chosen": C, "rejected": R}               all texts, or all messages
 *     {"chosen": MESSAGES, "rejected": MESSAGES}              the messages that both begin with are the
 * prompt
 *
 * "system": TEXT comes before the messages of any form. A message of "messages" may have "weight": 0 or 1:
 * from answers of weight 0, which come first, nothing is learned.
 *
 * Other fields are ignored, but tools and tool calls are refused, because no chat template of ours renders
 * them. */
#ifndef NEAP_DATA_CHAT_LINES_H
#define NEAP_DATA_CHAT_LINES_H

#include <jansson.h>

#include "base/vector.h"
#include "template/chat_template.h"
#include "text/utf8.h"

enum { CHAT_LINE_LIMIT = 64 << 20 }; /* bytes of the longest record allowed */

/* The content of a record. Texts are valid until the next one is read. */
struct chat_sample {
  VECTOR(struct chat_message) messages; /* empty: the record is a text alone */
  struct chat_message text;             /* that text */
  size_t answered;                      /* assistant turns that belong to the prompt: not learned from */
};

/* An open file. */
struct chat_lines {
  struct text file;  /* see text_file.h; `marked`: a byte-order mark was skipped */
  const char *input; /* put between an instruction and its input; borrowed */
  size_t limit;      /* most bytes of a record: CHAT_LINE_LIMIT */
  bool preference;   /* records are preferences; a user sets it after opening */
  bool second;       /* the sample is the rejected answer */
  int64_t record;    /* number of the record that was read last, from 1 */
  const char *unit;  /* what messages call it: "line", or "record" of an array */
  struct chat_sample sample;

  /* Private. */
  size_t read;         /* bytes of the file that were read so far */
  VECTOR(char) window; /* bytes that were read; used up to `at` */
  size_t at;
  bool array, ended;   /* the file is an array; its end was read */
  json_t *root;        /* of the record */
  VECTOR(char) joined; /* an instruction joined with its input */
};

/* Opens a file. `path` and `input` are borrowed until chat_lines_close, which must be called whatever the
 * status. NEAP_IO_FAILED: it cannot be read. */
neap_status chat_lines_open(const char *path, const char *input, struct chat_lines *lines);
void chat_lines_close(struct chat_lines *lines);

/* Reads the next record into lines->sample; *any is false at the end of the file. NEAP_BAD_FORMAT: the record
 * is not UTF-8, not JSON or none of the forms above, a line is empty, or an array is not well formed; or it
 * has an unknown role, content other than text, or no assistant turn. NEAP_UNSUPPORTED: it has tools.
 * NEAP_TOO_LARGE: it has more bytes than the limit. The message names file and line, or record. */
neap_status chat_lines_next(struct chat_lines *lines, bool *any);

/* Takes the rejected answer of the record that was read last into lines->sample. */
neap_status chat_lines_rejected(struct chat_lines *lines);

/* Skips the next record without parsing it: of an array, up to its closing bracket. Fails only if it is too
 * long, cannot be read, or if the array is not well formed around it. */
neap_status chat_lines_skip(struct chat_lines *lines, bool *any);

#endif
