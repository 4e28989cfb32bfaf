/* Weights as others keep them: a file of safetensors, or several and an index, with names of their own. */
#ifndef NEAP_RUN_WEIGHT_FILES_H
#define NEAP_RUN_WEIGHT_FILES_H

#include "base/safetensors.h"

struct weight_tensor {
  const char *name;               /* as the map has it */
  const struct safetensors *file; /* where it lies */
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
 * files beside it that have them; or a folder with model.safetensors.index.json or model.safetensors. `map`
 * is a list as name_map_check has it; NULL: names stay.
 *
 * Errors name the file and the place. NEAP_IO_FAILED: something cannot be read. NEAP_BAD_FORMAT: a file is
 * damaged or of another kind, or lacks a tensor of the index. NEAP_INVALID_ARGUMENT: the map is invalid, or
 * two tensors have one name by it. Close with weight_files_close, whatever the status. */
neap_status weight_files_open(const char *path, const char *map, struct weight_files *files);
void weight_files_close(struct weight_files *files);

/* The tensor of that name; NULL: no tensor has it. */
struct weight_tensor *weight_files_find(const struct weight_files *files, const char *name);

#endif
