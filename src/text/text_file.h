/* Files of text, read into memory or in windows. */
#ifndef NEAP_TEXT_TEXT_FILE_H
#define NEAP_TEXT_TEXT_FILE_H

#include "base/region.h"
#include "text/utf8.h"

/* Reads the content and name of a regular file into the region, without a byte-order mark of UTF-8 at its
 * beginning. NEAP_IO_FAILED: it cannot be read. NEAP_BAD_FORMAT: `need_utf8` is set and it is not UTF-8; the
 * message names the line and the column. */
neap_status text_read(const char *path, bool need_utf8, struct region *region, struct text *out);

/* Opens a file as a text that is not in memory and starts after the mark. The path must live until
 * text_file_close, which is called whatever the status. NEAP_IO_FAILED as above. */
neap_status text_file_open(const char *path, struct text *out);
void text_file_close(struct text *text);

/* Gives the byte at a place of a text in a file. */
neap_status text_byte(const struct text *text, size_t at, unsigned char *byte);

/* Takes the first `*used` bytes of a text's window; all of it if it is the text's `last`. */
typedef neap_status text_taker(void *context, const struct text *window, bool last, size_t *used);

/* Gives a text to `take` in consecutive windows of some MiB; bytes that were not used come again in the next.
 * A text in memory is one window; an empty one has none. `*end` (may be NULL) is the line after the text.
 * NEAP_INTERRUPTED: a stop was requested (stop.h). NEAP_BAD_FORMAT: the file has become shorter. */
neap_status text_walk(const struct text *text, text_taker *take, void *context, int64_t *end);

/* Returns how many bytes of a window are complete words (words.h) whatever follows it; all if it is the
 * last. */
size_t text_whole_words(const struct text *window, bool last);

#endif
