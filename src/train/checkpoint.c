#include "train/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/region.h"
#include "run/session.h"

/* Weights, or what a killed run left of writing weights or a state: those begin like what they were to
 * become. */
static bool is_ours(const char *name) {
  int64_t step;
  int length = 0;
  if (strncmp(name, "state.json.", 11) == 0) return true;
  return sscanf(name, "weights-%" SCNd64 "-%*12[0-9a-f].safetensors%n", &step, &length) == 1 && length > 0;
}

/* Removes what the state does not name any more, as far as it can: what stays is only waste. */
static void remove_others(const char *folder, const char *current) {
  DIR *entries = opendir(folder);
  if (entries == NULL) return;
  for (const struct dirent *entry; (entry = readdir(entries)) != NULL;)
    if (is_ours(entry->d_name) && strcmp(entry->d_name, current) != 0)
      unlinkat(dirfd(entries), entry->d_name, 0);
  closedir(entries);
}

static neap_status make_folder(const char *folder) {
  if (mkdir(folder, 0777) == 0) return NEAP_OK;
  struct stat status;
  RETURN_IF(errno != EEXIST || stat(folder, &status) != 0 || !S_ISDIR(status.st_mode), NEAP_IO_FAILED,
            "%s: cannot be made a folder: %s", folder, strerror(errno));
  return NEAP_OK;
}

neap_status checkpoint_save(const char *folder, json_t *settings, const neap_session *session,
                            struct checkpoint *checkpoint) {
  struct region region = {0};
  neap_status status;
  const char *path;
  TRY(make_folder(folder));
  TRY(neap_session_digest(session, checkpoint->weights_sha256));
  checkpoint->session_steps = (int64_t)session_steps(session);
  snprintf(checkpoint->weights, sizeof checkpoint->weights, "weights-%" PRId64 "-%.12s.safetensors",
           checkpoint->step, checkpoint->weights_sha256);
  path = region_format(&region, "%s/%s", folder, checkpoint->weights);
  if (path == NULL) {
    status = neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", folder);
    goto done;
  }
  TRY_DONE(neap_session_save(session, path));
  TRY_DONE(checkpoint_write_state(folder, settings, checkpoint));
  remove_others(folder, checkpoint->weights);
done:
  region_free(&region);
  return status;
}

static bool all_finite(const float *data, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (!isfinite(data[i])) return false;
  return true;
}

neap_status checkpoint_weights_are_finite(const neap_session *session, bool *finite) {
  float *buffer, *allocated;
  neap_status status = NEAP_OK;
  *finite = true;
  TRY(session_scratch(session, &buffer, &allocated));
  for (int32_t i = 0; status == NEAP_OK && *finite && i < neap_session_variable_count(session); i++) {
    neap_variable variable;
    status = neap_session_variable(session, i, &variable);
    if (status == NEAP_OK) status = neap_session_read(session, i, buffer);
    if (status == NEAP_OK) *finite = all_finite(buffer, variable.elements);
  }
  free(allocated);
  return status;
}

neap_status checkpoint_load_weights(const char *folder, const struct checkpoint *checkpoint,
                                    neap_session *session) {
  struct region region = {0};
  neap_status status;
  char digest[65];
  const char *path = region_format(&region, "%s/%s", folder, checkpoint->weights);
  RETURN_IF_NULL(path);
  TRY_DONE(neap_session_load(session, path));
  TRY_DONE(neap_session_digest(session, digest));
  if (strcmp(digest, checkpoint->weights_sha256) != 0)
    status = neap_fail(NEAP_BAD_FORMAT,
                       "%s: is damaged or incomplete: its variables have the SHA-256 %s, state.json says %s",
                       path, digest, checkpoint->weights_sha256);
  else if (session_steps(session) != (uint64_t)checkpoint->session_steps)
    status =
        neap_fail(NEAP_BAD_FORMAT, "%s: is damaged: it says that it was made by %llu steps, not %lld", path,
                  (unsigned long long)session_steps(session), (long long)checkpoint->session_steps);
done:
  region_free(&region);
  return status;
}
