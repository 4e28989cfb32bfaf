#include "train/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "base/region.h"
#include "base/sha256.h"
#include "data/encoding.h"
#include "text/tokenizer_file.h"
#include "train/epochs.h"
#include "weights/variables.h"

static const char command_file[] = "command.json", next_command_file[] = "command.json.next";

/* Returns true for the ending ".PROCESS.part" of files that a process is writing, if that process has ended.
 * Those of a living one must not be removed. */
static bool is_left_over(const char *ending) {
  long process;
  int length = 0;
  if (sscanf(ending, ".%ld.part%n", &process, &length) != 1 || length == 0 || ending[length] != '\0')
    return false;
  return process == (long)getpid() || process < 1 || (kill((pid_t)process, 0) != 0 && errno == ESRCH);
}

bool checkpoint_is_weights(const char *name) {
  static const char *const files[] = {"state.json", next_command_file, CHECKPOINT_TOKENIZER, CHECKPOINT_DATA};
  int64_t step;
  int length = 0;
  if (strcmp(name, next_command_file) == 0) return true;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (strncmp(name, files[i], strlen(files[i])) == 0 && is_left_over(name + strlen(files[i]))) return true;
  if ((sscanf(name, "weights-%" SCNd64 "-%*12[0-9a-f].safetensors%n", &step, &length) != 1 || length == 0) &&
      (sscanf(name, "best-%" SCNd64 "-%*12[0-9a-f].safetensors%n", &step, &length) != 1 || length == 0))
    return false;
  return name[length] == '\0' || is_left_over(name + length);
}

/* Removes files that the state no longer names, as far as possible: those that stay are only waste. */
static void remove_others(const char *folder, const char *current, const char *best) {
  DIR *entries = opendir(folder);
  if (entries == NULL) return;
  for (const struct dirent *entry; (entry = readdir(entries)) != NULL;)
    if (checkpoint_is_weights(entry->d_name) && strcmp(entry->d_name, current) != 0 &&
        strcmp(entry->d_name, best) != 0)
      unlinkat(dirfd(entries), entry->d_name, 0);
  closedir(entries);
}

/* ---- The command ---- */

static const char *path_in(const char *folder, const char *name, struct region *region) {
  return region_format(region, "%s/%s", folder, name);
}

static void digest_text(const char *text, char digest[65]) {
  struct sha256 hash;
  sha256_start(&hash);
  sha256_feed(&hash, text, strlen(text));
  sha256_finish(&hash, digest);
}

/* Writes the command under its temporary name; it gets its own once its state is written. */
static neap_status write_command(const char *folder, struct checkpoint *checkpoint, struct region *region) {
  checkpoint->command_sha256[0] = '\0';
  if (checkpoint->command == NULL) return NEAP_OK;
  const char *path = path_in(folder, next_command_file, region);
  RETURN_IF_NULL(path);
  digest_text(checkpoint->command, checkpoint->command_sha256);
  return neap_write_file(path, checkpoint->command, strlen(checkpoint->command));
}

static neap_status place_command(const char *folder, struct region *region) {
  const char *next = path_in(folder, next_command_file, region),
             *path = path_in(folder, command_file, region);
  RETURN_IF(next == NULL || path == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", folder);
  RETURN_IF(rename(next, path) != 0, NEAP_IO_FAILED, "%s: cannot be written: %s", path, strerror(errno));
  return NEAP_OK;
}

/* Reads the command; NULL, without a failure, if the file does not exist. */
static neap_status read_command(const char *path, char **text) {
  size_t length = 0;
  FILE *file = file_open_stream(path);
  *text = NULL;
  if (file == NULL && errno == ENOENT) return NEAP_OK;
  RETURN_IF(file == NULL, NEAP_IO_FAILED, "%s: cannot be read: %s", path, strerror(errno));
  errno = 0;
  const bool any = getdelim(text, &length, '\0', file) >= 0;
  const int why = ferror(file) ? errno : 0;
  fclose(file);
  if (!any) {
    free(*text);
    *text = NULL;
  }
  RETURN_IF(!any && why != 0, NEAP_IO_FAILED, "%s: cannot be read: %s", path, strerror(why));
  RETURN_IF(!any, NEAP_BAD_FORMAT, "%s: is empty", path);
  return NEAP_OK;
}

static neap_status find_command(const char *folder, struct region *region, char **text) {
  struct checkpoint checkpoint = {0};
  char digest[65];
  const char *next = path_in(folder, next_command_file, region),
             *path = path_in(folder, command_file, region);
  RETURN_IF(next == NULL || path == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", folder);
  TRY(checkpoint_read_state(folder, NULL, &checkpoint));
  const neap_status status = read_command(next, text);
  if (status != NEAP_BAD_FORMAT) TRY(status); /* an empty one is not the one */
  if (*text != NULL) digest_text(*text, digest);
  if (*text != NULL && strcmp(digest, checkpoint.command_sha256) == 0) return NEAP_OK;
  free(*text);
  TRY(read_command(path, text));
  if (*text == NULL || checkpoint.command_sha256[0] == '\0') return NEAP_OK;
  digest_text(*text, digest);
  if (strcmp(digest, checkpoint.command_sha256) == 0) return NEAP_OK;
  free(*text);
  return neap_fail(
      NEAP_BAD_FORMAT,
      "%s: is not the command of this checkpoint: it has the SHA-256 %s, state.json says %s; remove "
      "it and give the options again",
      path, digest, checkpoint.command_sha256);
}

neap_status neap_checkpoint_command(const char *folder, char **text) {
  NEED(folder);
  NEED(text);
  struct region region = {0};
  char *found = NULL;
  const neap_status status = find_command(folder, &region, &found);
  region_free(&region);
  if (status == NEAP_OK) *text = found;
  return status;
}

/* ---- The tokenizer ---- */

neap_status checkpoint_keep_tokenizer(const char *folder, const struct tokenizer *tokenizer) {
  struct region region = {0};
  neap_status status = NEAP_OK;
  const char *path = path_in(folder, CHECKPOINT_TOKENIZER, &region);
  if (path == NULL)
    status = neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", folder);
  else if (tokenizer != NULL)
    status = tokenizer_save(tokenizer, path);
  else if (unlink(path) != 0 && errno != ENOENT)
    status = neap_fail(NEAP_IO_FAILED, "%s: cannot be removed: %s", path, strerror(errno));
  region_free(&region);
  return status;
}

/* ---- The encoding of records ---- */

neap_status checkpoint_keep_data(const char *folder, const struct source *source) {
  struct region region = {0};
  neap_status status = NEAP_OK;
  const char *path = path_in(folder, CHECKPOINT_DATA, &region);
  if (path == NULL)
    status = neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", folder);
  else if (encoding_applies(source))
    status = encoding_save(source, path);
  else if (unlink(path) != 0 && errno != ENOENT)
    status = neap_fail(NEAP_IO_FAILED, "%s: cannot be removed: %s", path, strerror(errno));
  region_free(&region);
  return status;
}

/* ---- The file of weights ---- */

static void feed_checksum(void *checksum, const void *bytes, size_t count) {
  *(uLong *)checksum = crc32(*(uLong *)checksum, bytes, (uInt)count);
}

static neap_status checksum_of(const char *path, char text[9]) {
  uLong checksum = crc32(0, NULL, 0);
  TRY(file_feed(path, feed_checksum, &checksum));
  snprintf(text, 9, "%08lx", checksum & 0xFFFFFFFF);
  return NEAP_OK;
}

static neap_status check_file(const char *path, const struct checkpoint *checkpoint) {
  char checksum[9];
  if (checkpoint->weights_crc32[0] == '\0') return NEAP_OK;
  TRY(checksum_of(path, checksum));
  RETURN_IF(strcmp(checksum, checkpoint->weights_crc32) != 0, NEAP_BAD_FORMAT,
            "%s: is damaged or incomplete: it has the CRC-32 %s, state.json says %s", path, checksum,
            checkpoint->weights_crc32);
  return NEAP_OK;
}

neap_status checkpoint_find_weights(const char *folder, bool best, struct region *region, const char **path) {
  struct checkpoint checkpoint = {0};
  TRY(checkpoint_read_state(folder, NULL, &checkpoint));
  if (best) TRY(checkpoint_take_best(folder, &checkpoint));
  *path = path_in(folder, checkpoint.weights, region);
  RETURN_IF_NULL(*path);
  return check_file(*path, &checkpoint);
}

/* ---- All of a checkpoint ---- */

/* Gives the weights that were just written a second name, if they are those of the best evaluation. */
static neap_status keep_best(const char *folder, const char *weights, neap_session *session,
                             struct checkpoint *checkpoint, struct region *region) {
  struct best *best = &checkpoint->best;
  if (best->step != checkpoint->step || best->step == 0) return NEAP_OK;
  best->session_steps = checkpoint->session_steps;
  strcpy(best->weights_sha256, checkpoint->weights_sha256);
  strcpy(best->weights_crc32, checkpoint->weights_crc32);
  best->weights[0] = '\0';
  if (!checkpoint->keep_best) return NEAP_OK;
  snprintf(best->weights, sizeof best->weights, "best-%" PRId64 "-%.12s.safetensors", best->step,
           best->weights_sha256);
  const char *path = path_in(folder, best->weights, region);
  RETURN_IF_NULL(path);
  return weights_keep(weights, path, session);
}

neap_status checkpoint_save(const char *folder, json_t *settings, neap_session *session,
                            struct checkpoint *checkpoint) {
  struct region region = {0};
  neap_status status;
  const char *path;
  TRY(neap_session_digest(session, checkpoint->weights_sha256));
  checkpoint->session_steps = (int64_t)session_steps(session);
  if (folder == NULL) return session_save_along(session);
  snprintf(checkpoint->weights, sizeof checkpoint->weights, "weights-%" PRId64 "-%.12s.safetensors",
           checkpoint->step, checkpoint->weights_sha256);
  path = path_in(folder, checkpoint->weights, &region);
  if (path == NULL) {
    status = neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", folder);
    goto done;
  }
  TRY_DONE(neap_session_save(session, path));
  TRY_DONE(checksum_of(path, checkpoint->weights_crc32));
  TRY_DONE(keep_best(folder, path, session, checkpoint, &region));
  if (!checkpoint->command_placed) TRY_DONE(write_command(folder, checkpoint, &region));
  TRY_DONE(checkpoint_write_state(folder, settings, checkpoint)); /* from here on it is the current one */
  if (!checkpoint->command_placed && checkpoint->command != NULL) TRY_DONE(place_command(folder, &region));
  checkpoint->command_placed = true;
  remove_others(folder, checkpoint->weights, checkpoint->best.weights);
done:
  region_free(&region);
  return status;
}

static bool all_finite(const float *data, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (!isfinite(data[i])) return false;
  return true;
}

neap_status checkpoint_weights_are_finite(neap_session *session, bool *finite) {
  float *buffer, *allocated;
  neap_status status = NEAP_OK;
  *finite = true;
  TRY(session_scratch(session, &buffer, &allocated));
  for (int32_t i = 0; status == NEAP_OK && *finite && i < neap_session_variable_count(session); i++) {
    neap_variable variable;
    if (!variable_is_saved(session, i)) continue; /* nothing changes it */
    status = neap_session_variable(session, i, &variable);
    const int64_t part = variable_part(session, i);
    for (int64_t first = 0; status == NEAP_OK && *finite && first < variable.elements; first += part) {
      const int64_t left = variable.elements - first;
      status = session_read_part(session, i, first, buffer);
      if (status == NEAP_OK) *finite = all_finite(buffer, left < part ? left : part);
    }
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
        neap_fail(NEAP_BAD_FORMAT, "%s: is damaged: it was made by %llu steps, but state.json says %lld",
                  path, (unsigned long long)session_steps(session), (long long)checkpoint->session_steps);
done:
  region_free(&region);
  return status;
}
