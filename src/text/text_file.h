/* Files of text, whole in memory. */
#ifndef NEAP_TEXT_TEXT_FILE_H
#define NEAP_TEXT_TEXT_FILE_H

#include "base/region.h"
#include "text/utf8.h"

/* The content and name of a regular file, owned by the region, without a byte-order mark of UTF-8 at its
 * beginning. NEAP_IO_FAILED: it cannot be read.
 * NEAP_BAD_FORMAT: it is not UTF-8, where that is asked for; the message names the line and the column. */
neap_status text_read(const char *path, bool need_utf8, struct region *region, struct text *out);

#endif
