/* Parallel text: a folder with the lines of one language in files, and their translations in others. */
#ifndef NEAP_TEXT_PARALLEL_TEXT_H
#define NEAP_TEXT_PARALLEL_TEXT_H

#include "base/region.h"
#include "base/vector.h"
#include "text/utf8.h"

/* A line and its translation, without their line ends. Both are empty (only spaces and tabs) or neither
 * is. */
struct line_pair {
  struct text source, target;
};

struct parallel_text {
  VECTOR(struct line_pair) pairs; /* in the order of the files' names and lines */
  const char *marked_file;        /* one whose byte-order mark was skipped; NULL: no file has one */
  struct region region;           /* owns the texts */
};

/* Reads all pairs of files NAME.`source` and NAME.`target` whose NAME begins with `split`: for "train", "de"
 * and "en" they may be train.de and train.en, or train-1.tok.de, train-1.tok.en, train-2.tok.de, ... Lines
 * end with LF or CR LF; the last one may end with its file.
 *
 * NEAP_BAD_FORMAT: a file has no partner, there are no lines, one of two files has more lines, a line is
 * empty on one side only, or something is not UTF-8. Messages name file and line. NEAP_IO_FAILED: a file
 * cannot be read, or none exists. Free with parallel_text_free, whatever the status. */
neap_status parallel_text_read(const char *folder, const char *split, const char *source, const char *target,
                               struct parallel_text *text);
void parallel_text_free(struct parallel_text *text);

#endif
