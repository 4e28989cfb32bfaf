/* The weights that a run with adapters began with, if its checkpoints do not hold them:
 *
 *     "base": {"path": "/models/llama", "map": null, "sha256": "77ab...", "bytes": 88064, "modified":
 * 1732601234567890123}
 *
 * They are the frozen ones; a checkpoint then only has the trained weights and their states. path: the
 * argument of --init, or the weights of the run that it names; null: the files of the model itself have all,
 * wherever they are now. sha256: of its files, concatenated in the order of their paths. bytes, modified: of
 * all of them, and of the latest in nanoseconds: as long as both stay, the files are not read again for their
 * digest. */
#ifndef NEAP_TRAIN_BASE_WEIGHTS_H
#define NEAP_TRAIN_BASE_WEIGHTS_H

#include <jansson.h>

#include "base/region.h"
#include "base/status.h"

struct base_weights {
  bool given;             /* checkpoints leave out frozen weights */
  const char *path, *map; /* NULL: the model's files have all; no name changes */
  char sha256[65];
  int64_t bytes, modified;
};

/* Fills `base` for the weights at `path`, as for weight_files_open; texts are copied to the region. Reads all
 * of the files. NEAP_IO_FAILED, and the errors of weight_files_open. */
neap_status base_weights_describe(const char *path, const char *map, struct region *region,
                                  struct base_weights *base);

/* The same for a model that is a file. */
neap_status base_weights_describe_model(const neap_model *model, struct base_weights *base);

/* Returns where the weights of such a model are: its name without a kind before it. */
const char *base_weights_of_model(const neap_model *model);

/* Returns the object of state.json; NULL: out of memory. */
json_t *base_weights_json(const struct base_weights *base);

/* Reads the base from the folder of a checkpoint; `given` is false if its weights are complete. Texts are
 * copied to the region. NEAP_BAD_FORMAT: state.json, or this part of it, is damaged. */
neap_status base_weights_read(const char *folder, struct region *region, struct base_weights *base);

/* Fails with NEAP_BAD_FORMAT if the base or the files of the model have changed since the run began; the
 * message says how. Does nothing if no base is given. */
neap_status base_weights_check(const struct base_weights *base, const char *folder, const neap_model *model);

/* Loads frozen weights into a session, from the base or the files of the model; from then on its files hold
 * only trained weights. `folder`: of the checkpoint, for messages. Does nothing if no base is given.
 * NEAP_BAD_FORMAT: the files have changed since the run began; the message says how. */
neap_status base_weights_load(const struct base_weights *base, const char *folder, const neap_model *model,
                              const neap_model_options *shape, neap_session *session);

/* The same with the base of the checkpoint in the folder. Does nothing if the folder is NULL. */
neap_status base_weights_take(const char *folder, const neap_model *model, const neap_model_options *shape,
                              neap_session *session);

#endif
