#include "weights/weight_files.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/pattern.h"
#include "formats/json.h"

static bool ends_with(const char *text, const char *end) {
  const size_t length = strlen(text), of = strlen(end);
  return length >= of && strcmp(text + length - of, end) == 0;
}

/* Finds the file of weights in a folder. */
static neap_status find_in_folder(const char *folder, struct region *region, const char **path) {
  static const char *const names[] = {"model.safetensors.index.json", "model.safetensors"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    *path = region_format(region, "%s/%s", folder, names[i]);
    RETURN_IF_NULL(*path);
    if (file_exists(*path)) return NEAP_OK;
  }
  return neap_fail(NEAP_IO_FAILED,
                   "%s: is a folder without state.json (a run), %s and %s; name a file of weights in it",
                   folder, names[0], names[1]);
}

/* ---- Files ---- */

static neap_status room_for(struct weight_files *f, size_t files, size_t tensors, const char *path) {
  f->files = region_alloc(&f->region, files, sizeof *f->files);
  f->tensors = region_alloc(&f->region, tensors, sizeof *f->tensors);
  RETURN_IF(f->files == NULL || f->tensors == NULL || tensors > INT32_MAX, NEAP_OUT_OF_MEMORY,
            "%s: out of memory for its %zu tensors", path, tensors);
  return NEAP_OK;
}

static void add_tensor(struct weight_files *f, const struct safetensors *file, int32_t index) {
  f->tensors[f->tensor_count++] =
      (struct weight_tensor){.name = file->tensors[index].name, .file = file, .index = index};
}

static neap_status open_one(const char *path, struct weight_files *f) {
  struct safetensors file;
  const neap_status opened = safetensors_open(path, &file);
  const neap_status status = opened != NEAP_OK ? opened : room_for(f, 1, (size_t)file.tensor_count, path);
  if (status != NEAP_OK) {
    safetensors_close(&file);
    return status;
  }
  f->files[f->file_count++] = file;
  for (int32_t i = 0; i < file.tensor_count; i++) add_tensor(f, &f->files[0], i);
  return NEAP_OK;
}

/* ---- An index ---- */

struct index {
  const char *path, *folder; /* folder: with its slash */
  json_t *map;               /* tensor -> file */
  size_t files;
};

/* Gives the file of this name, which is opened when it is first asked for. */
static neap_status file_of(struct weight_files *f, const struct index *index, const char *name,
                           const struct safetensors **file) {
  const char *path = region_format(&f->region, "%s%s", index->folder, name);
  RETURN_IF_NULL(path);
  RETURN_IF(strchr(name, '/') != NULL || name[0] == '\0', NEAP_BAD_FORMAT,
            "%s: weight_map: '%s' is not the name of a file in the same folder", index->path, name);
  for (int32_t i = 0; i < f->file_count; i++) {
    *file = &f->files[i];
    if (strcmp(f->files[i].path, path) == 0) return NEAP_OK;
  }
  struct safetensors *opened = &f->files[f->file_count++];
  *file = opened;
  return safetensors_open(path, opened);
}

static neap_status open_files(struct weight_files *f, const struct index *index) {
  const char *name;
  json_t *value;
  TRY(room_for(f, json_object_size(index->map), json_object_size(index->map), index->path));
  json_object_foreach(index->map, name, value) {
    const struct safetensors *file;
    RETURN_IF(!json_is_string(value), NEAP_BAD_FORMAT, "%s: weight_map: '%s' has no name of a file",
              index->path, name);
    TRY(file_of(f, index, json_string_value(value), &file));
    const int32_t at = safetensors_find(file, name);
    RETURN_IF(at < 0, NEAP_BAD_FORMAT, "%s: has no tensor '%s', which %s says it has", file->path, name,
              index->path);
    add_tensor(f, file, at);
  }
  return NEAP_OK;
}

static neap_status open_index(const char *path, struct weight_files *f) {
  json_t *top;
  TRY(json_read_strict(path, &top));
  struct index index = {.path = path, .map = json_object_get(top, "weight_map")};
  const char *slash = strrchr(path, '/');
  index.folder = region_format(&f->region, "%.*s", slash != NULL ? (int)(slash - path + 1) : 0, path);
  neap_status status = NEAP_OK;
  if (index.folder == NULL)
    status = neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", path);
  else if (!json_is_object(index.map))
    status = neap_fail(NEAP_BAD_FORMAT,
                       "%s: it has no object 'weight_map'; give an index (model.safetensors.index.json), a "
                       ".safetensors file or a folder",
                       path);
  if (status == NEAP_OK) status = open_files(f, &index);
  json_decref(top);
  return status;
}

/* ---- Names ---- */

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct weight_tensor *)a)->name, ((const struct weight_tensor *)b)->name);
}

static neap_status give_names(struct weight_files *f, const char *path, const char *map) {
  for (int32_t i = 0; i < f->tensor_count; i++)
    TRY(name_map_apply(map, f->tensors[i].name, &f->region, &f->tensors[i].name));
  if (f->tensor_count > 0) qsort(f->tensors, (size_t)f->tensor_count, sizeof *f->tensors, by_name);
  for (int32_t i = 1; i < f->tensor_count; i++) {
    const struct weight_tensor *a = &f->tensors[i - 1], *b = &f->tensors[i];
    RETURN_IF(strcmp(a->name, b->name) == 0, NEAP_INVALID_ARGUMENT,
              "%s: the map gives the name '%s' to both '%s' and '%s'", path, a->name,
              a->file->tensors[a->index].name, b->file->tensors[b->index].name);
  }
  return NEAP_OK;
}

neap_status weight_files_open(const char *path, const char *map, struct weight_files *files) {
  *files = (struct weight_files){0};
  if (map != NULL) TRY(name_map_check(map));
  if (file_is_folder(path)) TRY(find_in_folder(path, &files->region, &path));
  TRY(ends_with(path, ".json") ? open_index(path, files) : open_one(path, files));
  return give_names(files, path, map);
}

void weight_files_close(struct weight_files *files) {
  for (int32_t i = 0; i < files->file_count; i++) safetensors_close(&files->files[i]);
  region_free(&files->region);
}

struct weight_tensor *weight_files_find(const struct weight_files *files, const char *name) {
  const struct weight_tensor wanted = {.name = name};
  if (files->tensor_count == 0) return NULL;
  return bsearch(&wanted, files->tensors, (size_t)files->tensor_count, sizeof *files->tensors, by_name);
}
