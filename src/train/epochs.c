#include "train/epochs.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/vector.h"

/* Returns the epoch of a kept file's name; 0 for other names. */
static int64_t epoch_of(const char *name) {
  int64_t epoch;
  int length = 0;
  if (sscanf(name, "epoch-%" SCNd64 ".safetensors%n", &epoch, &length) != 1 || length == 0) return 0;
  return name[length] == '\0' && epoch > 0 ? epoch : 0;
}

static neap_status remove_others(const char *folder, int64_t first, int64_t last) {
  neap_status status = NEAP_OK;
  DIR *entries = opendir(folder);
  RETURN_IF(entries == NULL, NEAP_IO_FAILED, "%s: cannot be read: %s", folder, strerror(errno));
  for (const struct dirent *entry; status == NEAP_OK && (entry = folder_next(entries)) != NULL;) {
    const int64_t epoch = epoch_of(entry->d_name);
    if (epoch > 0 && (epoch < first || epoch > last) && unlinkat(dirfd(entries), entry->d_name, 0) != 0)
      status =
          neap_fail(NEAP_IO_FAILED, "%s/%s: cannot be removed: %s", folder, entry->d_name, strerror(errno));
  }
  return folder_close(entries, folder, status);
}

neap_status epochs_forget(const char *folder) { return remove_others(folder, INT64_MAX, 0); }

neap_status weights_keep(const char *weights, const char *path, neap_session *session) {
  RETURN_IF(unlink(path) != 0 && errno != ENOENT, NEAP_IO_FAILED, "%s: cannot be replaced: %s", path,
            strerror(errno));
  return link(weights, path) == 0 ? NEAP_OK : neap_session_save(session, path);
}

neap_status epochs_keep(const char *folder, const char *weights, int64_t epoch, int64_t most,
                        neap_session *session) {
  struct region region = {0};
  const char *from = region_format(&region, "%s/%s", folder, weights),
             *to = region_format(&region, "%s/epoch-%" PRId64 ".safetensors", folder, epoch);
  const neap_status status = from == NULL || to == NULL
                                 ? neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", folder)
                                 : weights_keep(from, to, session);
  region_free(&region);
  return status == NEAP_OK ? remove_others(folder, epoch - most + 1, epoch) : status;
}

static int falling(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x < y) - (x > y);
}

typedef VECTOR(int64_t) epoch_list;

static neap_status list_epochs(const char *folder, epoch_list *list) {
  neap_status status = NEAP_OK;
  DIR *entries = opendir(folder);
  RETURN_IF(entries == NULL, NEAP_IO_FAILED, "%s: cannot be read: %s", folder, strerror(errno));
  for (const struct dirent *entry; status == NEAP_OK && (entry = folder_next(entries)) != NULL;)
    if (epoch_of(entry->d_name) > 0) status = vector_push(list, epoch_of(entry->d_name));
  return folder_close(entries, folder, status);
}

static neap_status make_paths(const char *folder, const epoch_list *list, int32_t count,
                              struct region *region, const char ***paths) {
  RETURN_IF(list->count < (size_t)count, NEAP_INVALID_ARGUMENT,
            "%s: has the weights of %zu epochs' ends, not of %d; train with `keep-epochs` %d", folder,
            list->count, count, count);
  const char **made = region_alloc(region, (size_t)count, sizeof *made);
  RETURN_IF_NULL(made);
  qsort(list->data, list->count, sizeof *list->data, falling);
  for (int32_t i = 0; i < count; i++) {
    made[i] = region_format(region, "%s/epoch-%" PRId64 ".safetensors", folder, list->data[i]);
    RETURN_IF_NULL(made[i]);
  }
  *paths = made;
  return NEAP_OK;
}

neap_status epochs_find(const char *folder, int32_t count, struct region *region, const char ***paths) {
  epoch_list list = {0};
  neap_status status = list_epochs(folder, &list);
  if (status == NEAP_OK) status = make_paths(folder, &list, count, region, paths);
  vector_free(&list);
  return status;
}
