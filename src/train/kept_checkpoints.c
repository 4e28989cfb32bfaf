#include "train/kept_checkpoints.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/vector.h"

/* Returns the step of a kept checkpoint's folder; -1 for other names. */
static int64_t step_of(const char *name) {
  int64_t step;
  int length = 0;
  if (sscanf(name, "step-%" SCNd64 "%n", &step, &length) != 1 || length == 0) return -1;
  return name[length] == '\0' && step >= 0 ? step : -1;
}

typedef VECTOR(int64_t) step_list;

static int rising(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Lists the steps that are kept, the earliest first. */
static neap_status list_steps(const char *folder, step_list *list) {
  neap_status status = NEAP_OK;
  DIR *entries = opendir(folder);
  RETURN_IF(entries == NULL, NEAP_IO_FAILED, "%s: cannot be read: %s", folder, strerror(errno));
  for (const struct dirent *entry; status == NEAP_OK && (entry = folder_next(entries)) != NULL;)
    if (step_of(entry->d_name) >= 0) status = vector_push(list, step_of(entry->d_name));
  status = folder_close(entries, folder, status);
  if (status == NEAP_OK && list->count > 0) qsort(list->data, list->count, sizeof *list->data, rising);
  return status;
}

/* The files of a checkpoint besides its weights; state.json, which makes a folder that of a checkpoint, is
 * written last and removed first. */
static const char *const files[] = {"command.json", CHECKPOINT_TOKENIZER, CHECKPOINT_DATA, "state.json"};
enum { FILES = sizeof files / sizeof *files };

/* Returns true for a file that was kept, and for the two names of folders in every folder. */
static bool is_kept(const char *name) {
  for (int i = 0; i < FILES; i++)
    if (strcmp(name, files[i]) == 0) return true;
  return checkpoint_is_weights(name) || strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Removes a checkpoint from a folder; what stays of its files then is only waste. A folder that has other
 * files is left: a run went on from it. */
static neap_status remove_checkpoint(DIR *entries, const char *path, bool *whole) {
  *whole = true;
  const struct dirent *entry;
  while (*whole && (entry = folder_next(entries)) != NULL) *whole = is_kept(entry->d_name);
  RETURN_IF(*whole && errno != 0, NEAP_IO_FAILED, "%s: cannot be read: %s", path, strerror(errno));
  if (!*whole) return NEAP_OK;
  RETURN_IF(unlinkat(dirfd(entries), "state.json", 0) != 0 && errno != ENOENT, NEAP_IO_FAILED,
            "%s/state.json: cannot be removed: %s", path, strerror(errno));
  rewinddir(entries);
  while ((entry = readdir(entries)) != NULL) unlinkat(dirfd(entries), entry->d_name, 0);
  return NEAP_OK;
}

static neap_status remove_folder(const char *path) {
  DIR *entries = opendir(path);
  bool whole;
  RETURN_IF(entries == NULL && errno != ENOTDIR, NEAP_IO_FAILED, "%s: cannot be read: %s", path,
            strerror(errno));
  if (entries == NULL) return NEAP_OK;
  const neap_status status = remove_checkpoint(entries, path, &whole);
  closedir(entries);
  if (status == NEAP_OK && whole) rmdir(path);
  return status;
}

static neap_status remove_steps(const char *folder, const step_list *list, size_t count) {
  struct region region = {0};
  neap_status status = NEAP_OK;
  for (size_t i = 0; status == NEAP_OK && i < count; i++) {
    const char *path = region_format(&region, "%s/step-%" PRId64, folder, list->data[i]);
    status = path != NULL ? remove_folder(path) : neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", folder);
  }
  region_free(&region);
  return status;
}

neap_status kept_checkpoints_forget(const char *folder) {
  step_list list = {0};
  neap_status status = list_steps(folder, &list);
  if (status == NEAP_OK) status = remove_steps(folder, &list, list.count);
  vector_free(&list);
  return status;
}

/* Copies from a descriptor. */
static bool copy_all(FILE *file, const void *context) {
  char buffer[1 << 16];
  ssize_t bytes;
  do {
    bytes = read(*(const int *)context, buffer, sizeof buffer);
    if (bytes > 0 && fwrite(buffer, 1, (size_t)bytes, file) != (size_t)bytes) return false;
  } while (bytes > 0 || (bytes < 0 && errno == EINTR));
  return bytes == 0;
}

/* Gives a file of the run a second name in the kept folder, or copies it; one that does not exist is left
 * out. Files of a checkpoint are replaced, never changed. */
static neap_status keep_file(const char *from, const char *to) {
  uint64_t unused;
  int descriptor;
  if (!file_exists(from)) return NEAP_OK;
  RETURN_IF(unlink(to) != 0 && errno != ENOENT, NEAP_IO_FAILED, "%s: cannot be replaced: %s", to,
            strerror(errno));
  if (link(from, to) == 0) return NEAP_OK;
  TRY(file_open(from, &descriptor, &unused));
  const neap_status status = file_write(to, copy_all, &descriptor);
  close(descriptor);
  return status;
}

static neap_status keep_files(const char *folder, const struct checkpoint *state, struct region *region) {
  const char *kept = region_format(region, "%s/step-%" PRId64, folder, state->step);
  RETURN_IF_NULL(kept);
  RETURN_IF(mkdir(kept, 0777) != 0 && errno != EEXIST, NEAP_IO_FAILED, "%s: cannot be made: %s", kept,
            strerror(errno));
  for (int i = -2; i < FILES; i++) {
    const char *name = i == -2 ? state->weights : i == -1 ? state->best.weights : files[i];
    if (name[0] == '\0') continue;
    const char *from = region_format(region, "%s/%s", folder, name),
               *to = region_format(region, "%s/%s", kept, name);
    RETURN_IF(from == NULL || to == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", folder);
    TRY(keep_file(from, to));
  }
  return NEAP_OK;
}

neap_status kept_checkpoints_add(const char *folder, const struct checkpoint *state, int64_t most) {
  struct region region = {0};
  step_list list = {0};
  neap_status status;
  TRY_DONE(keep_files(folder, state, &region));
  TRY_DONE(list_steps(folder, &list));
  if ((int64_t)list.count > most) status = remove_steps(folder, &list, list.count - (size_t)most);
done:
  vector_free(&list);
  region_free(&region);
  return status;
}

neap_status kept_checkpoints_before(const char *folder, int64_t step, struct region *region,
                                    const char **path) {
  struct checkpoint own = {0};
  step_list list = {0};
  int64_t newest = -1;
  *path = NULL;
  TRY(checkpoint_read_state(folder, NULL, &own));
  if (own.step < step) newest = own.step, *path = folder;
  neap_status status = list_steps(folder, &list);
  for (size_t i = 0; status == NEAP_OK && i < list.count; i++) {
    struct checkpoint kept = {0};
    const char *of_step = region_format(region, "%s/step-%" PRId64, folder, list.data[i]),
               *state = region_format(region, "%s/state.json", of_step);
    if (state == NULL) status = neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", folder);
    if (state == NULL || !file_exists(state)) continue;   /* it is not whole */
    status = checkpoint_read_state(of_step, NULL, &kept); /* a run may have gone on from it */
    if (status == NEAP_OK && kept.step < step && kept.step > newest) newest = kept.step, *path = of_step;
  }
  vector_free(&list);
  return status;
}
