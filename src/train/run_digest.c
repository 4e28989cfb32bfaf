#include "train/run_digest.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/sha256.h"
#include "data/record_digest.h"
#include "train/training.h"

/* ---- Files of weights ---- */

static void feed_text(struct sha256 *hash, const char *text) { sha256_feed(hash, text, strlen(text) + 1); }

static void feed_stamp(struct sha256 *hash, const char *name, const struct stat *file) {
  char text[80];
  snprintf(text, sizeof text, "%" PRId64 " %" PRId64 ".%09ld", (int64_t)file->st_size,
           (int64_t)file->st_mtim.tv_sec, file->st_mtim.tv_nsec);
  feed_text(hash, name);
  feed_text(hash, text);
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Lists the names in a folder, in order. */
static neap_status list_names(const char *folder, struct region *region, char ***names, size_t *count) {
  struct dirent **entries;
  const int found = scandir(folder, &entries, NULL, NULL);
  RETURN_IF(found < 0, NEAP_IO_FAILED, "%s: cannot be read: %s", folder, strerror(errno));
  *names = region_alloc(region, (size_t)found, sizeof **names);
  *count = 0;
  bool whole = *names != NULL;
  for (int i = 0; i < found; i++) {
    if (whole) (*names)[*count] = region_string(region, entries[i]->d_name);
    whole = whole && (*names)[(*count)++] != NULL;
    free(entries[i]);
  }
  free(entries);
  RETURN_IF(!whole, NEAP_OUT_OF_MEMORY, "%s: out of memory", folder);
  qsort(*names, *count, sizeof **names, by_name);
  return NEAP_OK;
}

static neap_status feed_folder(struct sha256 *hash, const char *folder, struct region *region) {
  char **names;
  size_t count;
  TRY(list_names(folder, region, &names, &count));
  for (size_t i = 0; i < count; i++) {
    struct stat file;
    const char *path = region_format(region, "%s/%s", folder, names[i]);
    RETURN_IF_NULL(path);
    if (stat(path, &file) == 0 && S_ISREG(file.st_mode)) feed_stamp(hash, names[i], &file);
  }
  return NEAP_OK;
}

/* Feeds where the weights come from; a word that is no path is fed as it is. */
static neap_status feed_weights(struct sha256 *hash, const char *place, struct region *region) {
  char whole[PATH_MAX];
  struct stat file;
  if (place == NULL || realpath(place, whole) == NULL || stat(whole, &file) != 0) {
    feed_text(hash, place != NULL ? place : "");
    return NEAP_OK;
  }
  feed_text(hash, whole);
  if (S_ISDIR(file.st_mode)) return feed_folder(hash, whole, region);
  feed_stamp(hash, "", &file);
  return NEAP_OK;
}

/* ---- The whole ---- */

neap_status run_digest_make(struct training *t, char digest[65]) {
  const neap_train_options *o = t->options;
  const char *places[] = {o->model, o->initial, o->initial_map, o->lora_initial, o->side_initial};
  struct sha256 hash;
  TRY(training_settle(t));
  TRY(record_digests_take(&t->data.source));
  char *settings = json_dumps(t->settings, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
  RETURN_IF(settings == NULL, NEAP_OUT_OF_MEMORY, "out of memory for the settings");
  sha256_start(&hash);
  feed_text(&hash, NEAP_VERSION);
  feed_text(&hash, settings);
  free(settings);
  sha256_feed(&hash, &t->steps, sizeof t->steps);
  sha256_feed(&hash, t->data.source.digests, sizeof t->data.source.digests);
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) TRY(feed_weights(&hash, places[i], &t->region));
  sha256_finish(&hash, digest);
  return NEAP_OK;
}
