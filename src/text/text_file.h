/* Files of text, whole in memory or read in windows. */
#ifndef NEAP_TEXT_TEXT_FILE_H
#define NEAP_TEXT_TEXT_FILE_H

#include "base/region.h"
#include "text/utf8.h"

/* The content and name of a regular file, owned by the region, without a byte-order mark of UTF-8 at its
 * beginning. NEAP_IO_FAILED: it cannot be read.
 * NEAP_BAD_FORMAT: it is not UTF-8, where that is asked for; the message names the line and the column. */
neap_status text_read(const char *path, bool need_utf8, struct region *region, struct text *out);

/* Opens a file as a text that is not in memory, behind its mark. The path stays the caller's, until
 * text_file_close, which is called whatever the status. NEAP_IO_FAILED as above. */
neap_status text_file_open(const char *path, struct text *out);
void text_file_close(struct text *text);

/* The byte at a place of a text in a file. */
neap_status text_byte(const struct text *text, size_t at, unsigned char *byte);

/* Takes what it can of a text's window, `*used` bytes; where the window is the text's `last` all of it. */
typedef neap_status text_taker(void *context, const struct text *window, bool last, size_t *used);

/* Gives a text to `take` in windows of some MiB that follow each other: what was not used comes again, with
 * more behind it. A text in memory is one window; an empty one has none. `*end` (may be NULL) is the line
 * that follows. NEAP_INTERRUPTED: a stop was requested (stop.h). NEAP_BAD_FORMAT: the file is shorter than it
 * was. */
neap_status text_walk(const struct text *text, text_taker *take, void *context, int64_t *end);

/* Of a window: how many bytes are whole words (words.h) whatever follows it; all, where it is the last. */
size_t text_whole_words(const struct text *window, bool last);

#endif
