#include "train/base_weights.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sha256.h"
#include "formats/json.h"
#include "model/model.h"
#include "train/checkpoint.h"
#include "train/checkpoint_object.h"
#include "weights/variables.h"
#include "weights/weight_files.h"

/* ---- The files ---- */

static int by_path(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Lists the paths of the files in order; to be freed. */
static neap_status list_paths(const struct weight_files *files, const char ***paths) {
  const char **list = calloc((size_t)files->file_count + 1, sizeof *list);
  RETURN_IF_NULL(list);
  for (int32_t i = 0; i < files->file_count; i++) list[i] = files->files[i].path;
  qsort(list, (size_t)files->file_count, sizeof *list, by_path);
  *paths = list;
  return NEAP_OK;
}

static neap_status add_times(const char *path, struct base_weights *base) {
  struct stat status;
  RETURN_IF(stat(path, &status) != 0, NEAP_IO_FAILED, "%s: cannot be read: %s", path, strerror(errno));
  const int64_t modified = (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
  base->bytes += (int64_t)status.st_size;
  if (modified > base->modified) base->modified = modified;
  return NEAP_OK;
}

static void feed_hash(void *hash, const void *bytes, size_t count) { sha256_feed(hash, bytes, count); }

static neap_status look_at_file(const char *path, struct sha256 *hash, struct base_weights *base) {
  TRY(add_times(path, base));
  return hash != NULL ? file_feed(path, feed_hash, hash) : NEAP_OK;
}

/* Returns false for a folder or an index, which mean the files of their tensors. */
static bool is_one_file(const char *path) {
  static const char index[] = ".json";
  const size_t length = strlen(path), end = sizeof index - 1;
  return !file_is_folder(path) && (length < end || strcmp(path + length - end, index) != 0);
}

static neap_status look_at_files(const char *path, struct sha256 *hash, struct base_weights *base) {
  struct weight_files files = {0};
  const char **paths = NULL;
  neap_status status = weight_files_open(path, NULL, &files);
  if (status == NEAP_OK) status = list_paths(&files, &paths);
  for (int32_t i = 0; status == NEAP_OK && i < files.file_count; i++)
    status = look_at_file(paths[i], hash, base);
  free(paths);
  weight_files_close(&files);
  return status;
}

/* Finds bytes and times of the files, and their digest if `digest`. */
static neap_status look_at(const char *path, bool digest, struct base_weights *base) {
  struct sha256 hash;
  sha256_start(&hash);
  base->bytes = base->modified = 0;
  TRY((is_one_file(path) ? look_at_file : look_at_files)(path, digest ? &hash : NULL, base));
  if (digest) sha256_finish(&hash, base->sha256);
  return NEAP_OK;
}

const char *base_weights_of_model(const neap_model *model) {
  const char *name = model_name(model), *colon = strchr(name, ':');
  return file_exists(name) || colon == NULL ? name : colon + 1;
}

neap_status base_weights_describe_model(const neap_model *model, struct base_weights *base) {
  *base = (struct base_weights){.given = true};
  return look_at(base_weights_of_model(model), true, base);
}

neap_status base_weights_describe(const char *path, const char *map, struct region *region,
                                  struct base_weights *base) {
  char *whole = realpath(path, NULL);
  RETURN_IF(whole == NULL, NEAP_IO_FAILED, "%s: cannot be read: %s", path, strerror(errno));
  *base = (struct base_weights){.given = true, .path = region_string(region, whole)};
  free(whole);
  if (map != NULL) base->map = region_string(region, map);
  RETURN_IF(base->path == NULL || (map != NULL && base->map == NULL), NEAP_OUT_OF_MEMORY, "%s: out of memory",
            path);
  return look_at(base->path, true, base);
}

/* ---- As JSON ---- */

json_t *base_weights_json(const struct base_weights *base) {
  return json_pack("{s:s?, s:s?, s:s, s:I, s:I}", "path", base->path, "map", base->map, "sha256",
                   base->sha256, "bytes", (json_int_t)base->bytes, "modified", (json_int_t)base->modified);
}

static neap_status get_base(const json_t *object, const char *file, struct region *region,
                            struct base_weights *base) {
  const struct json_place place = {.file = file, .path = "base"};
  const char *path = NULL, *sha256, *map = json_string_value(json_object_get(object, "map"));
  uint64_t bytes;
  *base = (struct base_weights){.given = true};
  if (!json_is_null(json_object_get(object, "path"))) TRY(json_need_string(object, "path", &place, &path));
  TRY(json_need_string(object, "sha256", &place, &sha256));
  TRY(json_need_size(object, "bytes", &place, &bytes));
  if (strlen(sha256) != 64) return json_bad_field(&place, "sha256", "must have 64 digits");
  const json_t *modified = json_object_get(object, "modified");
  if (!json_is_integer(modified)) return json_bad_field(&place, "modified", "must be an integer");
  base->bytes = (int64_t)bytes;
  base->modified = json_integer_value(modified);
  memcpy(base->sha256, sha256, sizeof base->sha256);
  base->path = path != NULL ? region_string(region, path) : NULL;
  base->map = map != NULL ? region_string(region, map) : NULL;
  RETURN_IF((path != NULL && base->path == NULL) || (map != NULL && base->map == NULL), NEAP_OUT_OF_MEMORY,
            "%s: out of memory", file);
  return NEAP_OK;
}

neap_status base_weights_read(const char *folder, struct region *region, struct base_weights *base) {
  json_t *state = NULL;
  const char *path = region_format(region, "%s/state.json", folder);
  *base = (struct base_weights){0};
  RETURN_IF_NULL(path);
  neap_status status = checkpoint_read_object(folder, &state);
  const json_t *object = status == NEAP_OK ? json_object_get(state, "base") : NULL;
  if (object != NULL && !json_is_object(object))
    status = neap_fail(NEAP_BAD_FORMAT, "%s: field 'base': must be an object", path);
  else if (object != NULL)
    status = get_base(object, path, region, base);
  json_decref(state);
  return status;
}

/* ---- Into a session ---- */

/* Checks the files; reads them again for their digest if their size or time has changed. */
static neap_status check_files(const struct base_weights *base, const char *path, const char *folder) {
  struct base_weights now = {0};
  neap_status status = look_at(path, false, &now);
  const bool same = status == NEAP_OK && now.bytes == base->bytes && now.modified == base->modified;
  if (status == NEAP_OK && !same) status = look_at(path, true, &now);
  RETURN_IF(status == NEAP_IO_FAILED || status == NEAP_BAD_FORMAT, status,
            "%s: only holds adapters or a side net, and the weights that they began with cannot be read; put "
            "them back: %s",
            folder, neap_error_message());
  TRY(status);
  RETURN_IF(!same && strcmp(now.sha256, base->sha256) != 0, NEAP_BAD_FORMAT,
            "%s: the weights that %s began with have changed: from %lld bytes of SHA-256 %s to %lld bytes of "
            "%s; put back the original ones",
            path, folder, (long long)base->bytes, base->sha256, (long long)now.bytes, now.sha256);
  return NEAP_OK;
}

neap_status base_weights_check(const struct base_weights *base, const char *folder, const neap_model *model) {
  if (!base->given) return NEAP_OK;
  return check_files(base, base->path != NULL ? base->path : base_weights_of_model(model), folder);
}

neap_status base_weights_load(const struct base_weights *base, const char *folder, const neap_model *model,
                              const neap_model_options *shape, neap_session *session) {
  if (!base->given) return NEAP_OK;
  session_save_trained(session);
  TRY(base_weights_check(base, folder, model));
  if (base->path == NULL) return neap_model_load(model, shape, session);
  return neap_session_initialise(session, base->path, base->map, NULL);
}

neap_status base_weights_take(const char *folder, const neap_model *model, const neap_model_options *shape,
                              neap_session *session) {
  struct region region = {0};
  struct base_weights base;
  if (folder == NULL) return NEAP_OK;
  neap_status status = base_weights_read(folder, &region, &base);
  if (status == NEAP_OK) status = base_weights_load(&base, folder, model, shape, session);
  region_free(&region);
  return status;
}
