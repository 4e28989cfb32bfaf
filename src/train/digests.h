/* Digests of a run's variables after some of its steps: a run with portable bits records them in its folder,
 * and a replay compares its own with them. A line of the file:
 *
 *     {"step": 200, "weights_sha256": "0f3ab2...", "variables": {"conv1.weight": "91c2e07d5b8a4f36", ...}}
 *
 * weights_sha256 is that of a checkpoint of that step; a variable has the first 16 digits of its own. */
#ifndef NEAP_TRAIN_DIGESTS_H
#define NEAP_TRAIN_DIGESTS_H

#include "base/region.h"
#include "train/json_lines.h"

/* The file in a run's folder. */
#define DIGESTS "digests.jsonl"

enum { DIGESTS_EVERY = 100 }; /* steps between two lines, if nothing is asked for */

/* Makes the line of the session's variables after `step`; all ranks call it. *line, new: {"step", ...}. */
neap_status digests_make(neap_session *session, int64_t step, json_t **line);

/* Reads the lines of the run in a folder: an object with a line by its step as text ("200"), in the order of
 * steps. NEAP_INVALID_ARGUMENT: the run has recorded none. */
neap_status digests_read(const char *folder, struct region *region, json_t **lines);

/* Compares two lines of one step: gives the number of variables that differ, and the names of the first,
 * in `names`, cut to its size. A variable that only one has differs. */
int32_t digests_compare(const json_t *recorded, const json_t *made, char *names, size_t size);

#endif
