/* The weights that a run with adapters began with, where its checkpoints do not hold them:
 *
 *     "base": {"path": "/models/llama", "map": null, "sha256": "77ab...", "bytes": 88064, "modified":
 * 1732601234567890123}
 *
 * They are what is frozen; a checkpoint then has what is trained and its states alone. path: what --init
 * named, or the weights of the run that it named; null: the files of the model itself have all,
 * wherever they lie now. sha256: of its files, one behind the other in the order of their paths.
 * bytes, modified: of all of them, and of the latest in nanoseconds: as long as both stay, the files are not
 * read again for their digest. */
#ifndef NEAP_TRAIN_BASE_WEIGHTS_H
#define NEAP_TRAIN_BASE_WEIGHTS_H

#include <jansson.h>

#include "base/region.h"
#include "base/status.h"

struct base_weights {
  bool given;             /* checkpoints do without what is frozen */
  const char *path, *map; /* NULL: the model's files have all; no name changes */
  char sha256[65];
  int64_t bytes, modified;
};

/* Fills `base` for the weights at `path`, as weight_files_open takes them, whose texts are copied to the
 * region. Reads the files whole. NEAP_IO_FAILED and what weight_files_open says. */
neap_status base_weights_describe(const char *path, const char *map, struct region *region,
                                  struct base_weights *base);

/* The same for a model that is a file, by its name. */
neap_status base_weights_describe_model(const char *model, struct base_weights *base);

/* Where the weights of such a model are: its name without a kind before it. */
const char *base_weights_of_model(const char *model);

/* As state.json has it; NULL: out of memory. */
json_t *base_weights_json(const struct base_weights *base);

/* From the folder of a checkpoint; `given` is false where its weights are whole. Texts are copied to the
 * region. NEAP_BAD_FORMAT: state.json, or this part of it, is damaged. */
neap_status base_weights_read(const char *folder, struct region *region, struct base_weights *base);

/* Fails with NEAP_BAD_FORMAT where the base or the files of the model are others than those that the run
 * began with; the message says what differs. Does nothing where no base is given. */
neap_status base_weights_check(const struct base_weights *base, const char *folder, const char *model);

/* Gives a session what is frozen, from the base or the files of the model, and makes it one whose
 * files hold what is trained alone. `folder`: of the checkpoint, for messages. Does nothing where no base is
 * given. NEAP_BAD_FORMAT: the files are others than those that the run began with; the message says what
 * differs. */
neap_status base_weights_load(const struct base_weights *base, const char *folder, const char *model,
                              const neap_model_options *shape, neap_session *session);

/* The same by what the checkpoint in the folder says. Does nothing where the folder is NULL. */
neap_status base_weights_take(const char *folder, const char *model, const neap_model_options *shape,
                              neap_session *session);

#endif
