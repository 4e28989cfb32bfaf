#include "train/checkpoint_object.h"

#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"

neap_status checkpoint_digest(json_t *state, const char *path, char digest[65]) {
  json_t *bare = json_copy(state);
  RETURN_IF(bare == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", path);
  json_object_del(bare, "state_sha256"); /* absent is as good */
  char *text = json_dumps(bare, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
  json_decref(bare);
  RETURN_IF(text == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", path);
  struct sha256 hash;
  sha256_start(&hash);
  sha256_feed(&hash, text, strlen(text));
  sha256_finish(&hash, digest);
  free(text);
  return NEAP_OK;
}

neap_status checkpoint_text(const json_t *state, const struct json_place *place, const char *name,
                            size_t size, char *value) {
  const char *text;
  TRY(json_need_string(state, name, place, &text));
  RETURN_IF(strlen(text) >= size, NEAP_BAD_FORMAT, "%s: field '%s': has more than %zu characters",
            place->file, name, size - 1);
  strcpy(value, text);
  return NEAP_OK;
}

static neap_status check_digest(json_t *state, const struct json_place *place) {
  char wanted[65], got[65];
  TRY(checkpoint_text(state, place, "state_sha256", sizeof wanted, wanted));
  TRY(checkpoint_digest(state, place->file, got));
  RETURN_IF(strcmp(got, wanted) != 0, NEAP_BAD_FORMAT,
            "%s: is damaged or was edited: its content has the SHA-256 %s, not %s", place->file, got, wanted);
  return NEAP_OK;
}

neap_status checkpoint_read_whole(const char *folder, struct region *region, struct json_place *place,
                                  json_t **state) {
  place->file = region_format(region, "%s/state.json", folder);
  RETURN_IF_NULL(place->file);
  TRY(json_read(place->file, "neap-checkpoint", state));
  return check_digest(*state, place);
}

neap_status checkpoint_read_object(const char *folder, json_t **state) {
  struct region region = {0};
  struct json_place place = {0};
  *state = NULL;
  const neap_status status = checkpoint_read_whole(folder, &region, &place, state);
  if (status != NEAP_OK) {
    json_decref(*state);
    *state = NULL;
  }
  region_free(&region);
  return status;
}
