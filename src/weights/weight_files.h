/* Weights of other programs: a file of safetensors, or several and an index, with names of their own. */
#ifndef NEAP_WEIGHTS_WEIGHT_FILES_H
#define NEAP_WEIGHTS_WEIGHT_FILES_H

#include "formats/safetensors.h"

struct weight_tensor {
  const char *name;               /* its name by the map */
  const struct safetensors *file; /* the file that has it */
  int32_t index;                  /* in that file, under its own name */
  bool used;                      /* free for the caller */
};

struct weight_files {
  struct region region;
  struct safetensors *files;
  int32_t file_count;
  struct weight_tensor *tensors; /* by name */
  int32_t tensor_count;
};

/* Opens a file of safetensors; an index of several, NAME.json with an object "weight_map" of tensors and the
 * files next to it that have them; or a folder with model.safetensors.index.json or model.safetensors. `map`
 * is a list as for name_map_check; NULL: names stay.
 *
 * Errors name the file and the place. NEAP_IO_FAILED: a file cannot be read. NEAP_BAD_FORMAT: a file is
 * damaged or of another kind, or lacks a tensor of the index. NEAP_INVALID_ARGUMENT: the map is invalid, or
 * gives two tensors one name. Close with weight_files_close, whatever the status. */
neap_status weight_files_open(const char *path, const char *map, struct weight_files *files);
void weight_files_close(struct weight_files *files);

/* Returns the tensor of this name; NULL: none has it. */
struct weight_tensor *weight_files_find(const struct weight_files *files, const char *name);

#endif
