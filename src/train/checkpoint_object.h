/* state.json of a checkpoint (train/checkpoint.h) as one object, which has its own digest. */
#ifndef NEAP_TRAIN_CHECKPOINT_OBJECT_H
#define NEAP_TRAIN_CHECKPOINT_OBJECT_H

#include <jansson.h>

#include "base/region.h"
#include "formats/json.h"

/* Gives the digest of the object without "state_sha256". */
neap_status checkpoint_digest(json_t *state, const char *path, char digest[65]);

/* Copies a field that is a text of fewer bytes than `size`. NEAP_BAD_FORMAT: it is another type, or longer.
 */
neap_status checkpoint_text(const json_t *state, const struct json_place *place, const char *name,
                            size_t size, char *value);

/* Reads state.json, whole and undamaged, and its place, whose text is in `region`. The object is freed with
 * json_decref, after a failure, too. */
neap_status checkpoint_read_whole(const char *folder, struct region *region, struct json_place *place,
                                  json_t **state);

/* Reads state.json, whole and undamaged; the object is freed with json_decref, NULL after a failure. */
neap_status checkpoint_read_object(const char *folder, json_t **state);

#endif
