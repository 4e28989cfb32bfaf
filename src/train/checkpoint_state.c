#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/region.h"
#include "base/sha256.h"
#include "train/checkpoint.h"
#include "train/metrics.h"

enum { VERSION = 1, STATE_LIMIT = 1 << 20 };

/* The digest of the object without "state_sha256". */
static neap_status digest_state(json_t *state, const char *path, char digest[65]) {
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

static neap_status write_state(json_t *state, const char *path) {
  char digest[65];
  TRY(digest_state(state, path, digest));
  RETURN_IF(json_object_set_new(state, "state_sha256", json_string(digest)) != 0, NEAP_OUT_OF_MEMORY,
            "%s: out of memory", path);
  char *text = json_dumps(state, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
  RETURN_IF(text == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", path);
  const neap_status status = file_write_text(path, text);
  free(text);
  return status;
}

neap_status checkpoint_write_state(const char *folder, json_t *settings,
                                   const struct checkpoint *checkpoint) {
  struct region region = {0};
  neap_status status;
  const char *path = region_format(&region, "%s/state.json", folder);
  json_t *state =
      json_pack("{s:s, s:i, s:O, s:I, s:I, s:o, s:I, s:I, s:f, s:s, s:s}", "format", "neap-checkpoint",
                "version", VERSION, "settings", settings, "epoch", (json_int_t)checkpoint->epoch, "step",
                (json_int_t)checkpoint->step, "loss_sum", json_number(checkpoint->loss_sum), "correct",
                (json_int_t)checkpoint->correct, "images", (json_int_t)checkpoint->images, "test_accuracy",
                checkpoint->test_accuracy, "weights", checkpoint->weights, "weights_sha256",
                checkpoint->weights_sha256);
  if (path == NULL || state == NULL)
    status = neap_fail(NEAP_OUT_OF_MEMORY, "%s/state.json: out of memory", folder);
  else
    status = write_state(state, path);
  json_decref(state);
  region_free(&region);
  return status;
}

static neap_status get_integer(const json_t *state, const char *path, const char *field, int64_t *value) {
  const json_t *item = json_object_get(state, field);
  RETURN_IF(!json_is_integer(item) || json_integer_value(item) < 0, NEAP_BAD_FORMAT,
            "%s: field '%s' is missing or no whole number", path, field);
  *value = json_integer_value(item);
  return NEAP_OK;
}

static neap_status get_text(const json_t *state, const char *path, const char *field, size_t size,
                            char *value) {
  const char *text = json_string_value(json_object_get(state, field));
  RETURN_IF(text == NULL || strlen(text) >= size, NEAP_BAD_FORMAT,
            "%s: field '%s' is missing or no short text", path, field);
  strcpy(value, text);
  return NEAP_OK;
}

static neap_status get_fields(const json_t *state, const char *path, struct checkpoint *checkpoint) {
  TRY(get_integer(state, path, "epoch", &checkpoint->epoch));
  TRY(get_integer(state, path, "step", &checkpoint->step));
  TRY(get_integer(state, path, "correct", &checkpoint->correct));
  TRY(get_integer(state, path, "images", &checkpoint->images));
  const json_t *loss_sum = json_object_get(state, "loss_sum"),
               *accuracy = json_object_get(state, "test_accuracy");
  RETURN_IF(!json_is_real(loss_sum) && !json_is_null(loss_sum), NEAP_BAD_FORMAT,
            "%s: field 'loss_sum' is missing or no number", path);
  checkpoint->loss_sum = json_is_null(loss_sum) ? NAN : json_real_value(loss_sum);
  RETURN_IF(!json_is_number(accuracy), NEAP_BAD_FORMAT, "%s: field 'test_accuracy' is missing or no number",
            path);
  checkpoint->test_accuracy = json_number_value(accuracy);
  TRY(get_text(state, path, "weights", sizeof checkpoint->weights, checkpoint->weights));
  RETURN_IF(strchr(checkpoint->weights, '/') != NULL, NEAP_BAD_FORMAT,
            "%s: field 'weights' is '%s', which is not a name in this folder", path, checkpoint->weights);
  return get_text(state, path, "weights_sha256", sizeof checkpoint->weights_sha256,
                  checkpoint->weights_sha256);
}

static neap_status check_format(json_t *state, const char *path) {
  const char *format = json_string_value(json_object_get(state, "format"));
  RETURN_IF(format == NULL || strcmp(format, "neap-checkpoint") != 0, NEAP_BAD_FORMAT,
            "%s: field 'format' is '%s', expected 'neap-checkpoint'", path,
            format == NULL ? "(none)" : format);
  int64_t version;
  TRY(get_integer(state, path, "version", &version));
  RETURN_IF(version != VERSION, NEAP_UNSUPPORTED, "%s: version %lld; this program reads version %d", path,
            (long long)version, VERSION);
  char wanted[65], got[65];
  TRY(get_text(state, path, "state_sha256", sizeof wanted, wanted));
  TRY(digest_state(state, path, got));
  RETURN_IF(strcmp(got, wanted) != 0, NEAP_BAD_FORMAT,
            "%s: is damaged or was edited: its content has the SHA-256 %s, not %s", path, got, wanted);
  return NEAP_OK;
}

static neap_status fail_setting(const char *path, const char *name, const json_t *saved,
                                const json_t *wanted) {
  char *is = json_dumps(saved, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
  char *now = json_dumps(wanted, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
  const neap_status status =
      neap_fail(NEAP_INVALID_ARGUMENT, "%s: was made with %s %s, but this run has %s; resume with the same",
                path, name, is == NULL ? "(none)" : is, now == NULL ? "another" : now);
  free(is);
  free(now);
  return status;
}

static neap_status check_settings(const json_t *state, const char *path, json_t *settings) {
  const json_t *saved = json_object_get(state, "settings");
  RETURN_IF(!json_is_object(saved), NEAP_BAD_FORMAT, "%s: field 'settings' is missing or no object", path);
  const char *name;
  json_t *wanted;
  json_object_foreach(settings, name, wanted) {
    const json_t *value = json_object_get(saved, name);
    if (!json_equal(value, wanted)) return fail_setting(path, name, value, wanted);
  }
  return NEAP_OK;
}

neap_status checkpoint_read_state(const char *folder, json_t *settings, struct checkpoint *checkpoint) {
  struct region region = {0};
  neap_status status;
  char *text = NULL;
  json_t *state = NULL;
  size_t length;
  json_error_t error;
  const char *path = region_format(&region, "%s/state.json", folder);
  RETURN_IF_NULL(path);
  TRY_DONE(file_read_text(path, STATE_LIMIT, &text, &length));
  state = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
  if (state == NULL) {
    status = neap_fail(NEAP_BAD_FORMAT, "%s: line %d, column %d: no JSON: %s", path, error.line, error.column,
                       error.text);
    goto done;
  }
  TRY_DONE(check_format(state, path));
  TRY_DONE(get_fields(state, path, checkpoint));
  TRY_DONE(check_settings(state, path, settings));
done:
  json_decref(state);
  free(text);
  region_free(&region);
  return status;
}
