#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/region.h"
#include "formats/json.h"
#include "model/model.h"
#include "settings/settings.h"
#include "train/base_weights.h"
#include "train/checkpoint.h"
#include "train/checkpoint_object.h"
#include "train/metrics.h"

enum { VERSION = 1 };
#define MICRO_BATCHES "micro_batches" /* of a step, in the settings where there are several */

static neap_status write_state(json_t *state, const char *path) {
  char digest[65];
  TRY(checkpoint_digest(state, path, digest));
  RETURN_IF(json_object_set_new(state, "state_sha256", json_string(digest)) != 0, NEAP_OUT_OF_MEMORY,
            "%s: out of memory", path);
  return json_write(state, path);
}

static const char *const parts[CHECKPOINT_PARTS] = {"train", "test"};

/* Adds the digests of the data that are known. */
static bool add_digests(json_t *state, const struct checkpoint *checkpoint) {
  json_t *data = json_object();
  bool whole = data != NULL;
  for (int i = 0; i < CHECKPOINT_PARTS; i++)
    if (checkpoint->data_digests[i][0] != '\0')
      whole = json_object_set_new(data, parts[i], json_string(checkpoint->data_digests[i])) == 0 && whole;
  if (whole && json_object_size(data) > 0) return json_object_set_new(state, "data", data) == 0;
  json_decref(data);
  return whole;
}

static neap_status get_digests(const json_t *state, const struct json_place *top,
                               struct checkpoint *checkpoint) {
  const json_t *data = json_object_get(state, "data");
  const struct json_place place = {.file = top->file, .path = "data"};
  if (data != NULL && !json_is_object(data)) return json_bad_field(top, "data", "must be an object");
  for (int i = 0; i < CHECKPOINT_PARTS; i++) {
    checkpoint->data_digests[i][0] = '\0';
    if (json_object_get(data, parts[i]) != NULL)
      TRY(checkpoint_text(data, &place, parts[i], sizeof checkpoint->data_digests[i],
                          checkpoint->data_digests[i]));
  }
  return NEAP_OK;
}

neap_status checkpoint_check_data(const char *folder, const char *name, const uint64_t *digests,
                                  const int64_t *counts, struct checkpoint *checkpoint) {
  static const char *const words[CHECKPOINT_PARTS] = {"training", "test"};
  for (int i = 0; i < CHECKPOINT_PARTS; i++) {
    char now[17], *was = checkpoint->data_digests[i];
    if (digests[i] == 0) continue;
    snprintf(now, sizeof now, "%016" PRIx64, digests[i]);
    RETURN_IF(
        was[0] != '\0' && strcmp(was, now) != 0, NEAP_INVALID_ARGUMENT,
        "%s: the %s records of %s are not those that this run began with: their %lld records now have other "
        "numbers, labels or words; resume with the same data, or begin a new run with the weights: `init` "
        "%s/%s",
        folder, words[i], name, (long long)counts[i], folder, checkpoint->weights);
    strcpy(was, now);
  }
  return NEAP_OK;
}

/* Returns NULL if memory is out. */
static json_t *best_json(const struct best *best) {
  return json_pack("{s:I, s:I, s:I, s:b, s:f, s:s, s:s, s:s}", "step", (json_int_t)best->step, "epoch",
                   (json_int_t)best->epoch, "session_steps", (json_int_t)best->session_steps, "by_loss",
                   best->by_loss, "value", best->value, "weights", best->weights, "weights_sha256",
                   best->weights_sha256, "weights_crc32", best->weights_crc32);
}

neap_status checkpoint_write_state(const char *folder, json_t *settings,
                                   const struct checkpoint *checkpoint) {
  struct region region = {0};
  neap_status status;
  const char *path = region_format(&region, "%s/state.json", folder);
  json_t *state = json_pack(
      "{s:s, s:i, s:O, s:I, s:I, s:I, s:o, s:I, s:I, s:f, s:f, s:s, s:s, s:s, s:s}", "format",
      "neap-checkpoint", "version", VERSION, "settings", settings, "epoch", (json_int_t)checkpoint->epoch,
      "step", (json_int_t)checkpoint->step, "session_steps", (json_int_t)checkpoint->session_steps,
      "loss_sum", json_number(checkpoint->loss_sum), "correct", (json_int_t)checkpoint->correct, "images",
      (json_int_t)checkpoint->images, "labels", checkpoint->labels, "test_accuracy",
      checkpoint->test_accuracy, "weights", checkpoint->weights, "weights_sha256", checkpoint->weights_sha256,
      "weights_crc32", checkpoint->weights_crc32, "command_sha256", checkpoint->command_sha256);
  const bool whole =
      state != NULL && add_digests(state, checkpoint) &&
      (checkpoint->kernels == NULL || json_object_set(state, "kernels", checkpoint->kernels) == 0) &&
      (checkpoint->base == NULL || !checkpoint->base->given ||
       json_object_set_new(state, "base", base_weights_json(checkpoint->base)) == 0) &&
      (checkpoint->best.step == 0 || json_object_set_new(state, "best", best_json(&checkpoint->best)) == 0);
  if (path == NULL || !whole)
    status = neap_fail(NEAP_OUT_OF_MEMORY, "%s/state.json: out of memory", folder);
  else
    status = write_state(state, path);
  json_decref(state);
  region_free(&region);
  return status;
}

static neap_status get_size(const json_t *state, const struct json_place *place, const char *name,
                            int64_t *value) {
  uint64_t size;
  TRY(json_need_size(state, name, place, &size));
  *value = (int64_t)size;
  return NEAP_OK;
}

static neap_status get_weights(const json_t *object, const struct json_place *place, char weights[96],
                               char digest[65], char crc32[9]) {
  crc32[0] = '\0';
  if (json_object_get(object, "weights_crc32") != NULL)
    TRY(checkpoint_text(object, place, "weights_crc32", 9, crc32));
  TRY(checkpoint_text(object, place, "weights", 96, weights));
  RETURN_IF(strchr(weights, '/') != NULL, NEAP_BAD_FORMAT,
            "%s: field 'weights': '%s' is not a name in this folder", place->file, weights);
  return checkpoint_text(object, place, "weights_sha256", 65, digest);
}

static neap_status get_best(const json_t *state, const struct json_place *top, struct best *best) {
  const json_t *object = json_object_get(state, "best");
  *best = (struct best){0};
  if (object == NULL) return NEAP_OK;
  struct json_place place = {.file = top->file, .path = "best"};
  if (!json_is_object(object)) return json_bad_field(top, "best", "must be an object");
  TRY(get_size(object, &place, "step", &best->step));
  TRY(get_size(object, &place, "epoch", &best->epoch));
  TRY(get_size(object, &place, "session_steps", &best->session_steps));
  best->by_loss = json_is_true(json_object_get(object, "by_loss"));
  TRY(json_need_number(object, "value", &place, &best->value));
  return get_weights(object, &place, best->weights, best->weights_sha256, best->weights_crc32);
}

neap_status checkpoint_take_best(const char *folder, struct checkpoint *checkpoint) {
  const struct best *best = &checkpoint->best;
  RETURN_IF(best->weights[0] == '\0', NEAP_INVALID_ARGUMENT,
            "%s: has no weights of a best evaluation; train with `keep-best`", folder);
  checkpoint->step = best->step;
  checkpoint->epoch = best->epoch;
  checkpoint->session_steps = best->session_steps;
  strcpy(checkpoint->weights, best->weights);
  strcpy(checkpoint->weights_sha256, best->weights_sha256);
  strcpy(checkpoint->weights_crc32, best->weights_crc32);
  return NEAP_OK;
}

static neap_status get_fields(const json_t *state, const struct json_place *place,
                              struct checkpoint *checkpoint) {
  TRY(get_size(state, place, "epoch", &checkpoint->epoch));
  TRY(get_size(state, place, "step", &checkpoint->step));
  TRY(get_size(state, place, "session_steps", &checkpoint->session_steps));
  TRY(get_size(state, place, "correct", &checkpoint->correct));
  TRY(get_size(state, place, "images", &checkpoint->images));
  checkpoint->labels = -1;
  if (json_object_get(state, "labels") != NULL)
    TRY(json_need_number(state, "labels", place, &checkpoint->labels));
  checkpoint->loss_sum = NAN;
  if (!json_is_null(json_object_get(state, "loss_sum")))
    TRY(json_need_number(state, "loss_sum", place, &checkpoint->loss_sum));
  TRY(json_need_number(state, "test_accuracy", place, &checkpoint->test_accuracy));
  checkpoint->command_sha256[0] = '\0';
  if (json_object_get(state, "command_sha256") != NULL)
    TRY(checkpoint_text(state, place, "command_sha256", sizeof checkpoint->command_sha256,
                        checkpoint->command_sha256));
  TRY(get_digests(state, place, checkpoint));
  TRY(get_best(state, place, &checkpoint->best));
  return get_weights(state, place, checkpoint->weights, checkpoint->weights_sha256,
                     checkpoint->weights_crc32);
}

static neap_status fail_setting(const char *path, const char *name, const json_t *saved,
                                const json_t *wanted) {
  char *is = json_dumps(saved, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
  char *now = json_dumps(wanted, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
  const neap_status status =
      neap_fail(NEAP_INVALID_ARGUMENT, "%s: was made with %s %s, but this run has %s; resume with the same",
                path, name, is == NULL ? "(none)" : is, now == NULL ? "(none)" : now);
  free(is);
  free(now);
  return status;
}

/* Compares values. A 0 that means the usual value differs from a given 0, which has a sign. */
static bool same_value(const json_t *a, const json_t *b) {
  const bool zeros = json_is_real(a) && json_is_real(b) && json_real_value(a) == 0 && json_real_value(b) == 0;
  return json_equal(a, b) && (!zeros || signbit(json_real_value(a)) == signbit(json_real_value(b)));
}

/* Fails if the run was made longer although its learning rates depend on its length. `weights`: for a new run
 * to begin with. */
static neap_status check_length(const json_t *saved, const json_t *settings, const struct json_place *place,
                                const char *folder, const char *weights) {
  const json_t *was = json_object_get(saved, "steps"), *now = json_object_get(settings, "steps");
  RETURN_IF(now != NULL && was != NULL && !json_equal(was, now), NEAP_INVALID_ARGUMENT,
            "%s: the learning rates of this run depend on its %lld steps, which cannot become %lld now: only "
            "`schedule` constant, and step with `step-epochs`, can be continued for longer; a new run can "
            "begin with its weights: `init` %s/%s",
            place->file, (long long)json_integer_value(was), (long long)json_integer_value(now), folder,
            weights);
  return NEAP_OK;
}

/* Fails if a setting that the run no longer has matters. Other fields of the file are ignored. */
static neap_status check_missing(const json_t *saved, json_t *settings, const struct json_place *place) {
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)saved, name, value) {
    const neap_setting *setting = setting_of_key(name);
    const bool matters =
        setting != NULL ? !(setting->flags & NEAP_SETTING_ALWAYS) : strcmp(name, MICRO_BATCHES) == 0;
    if (matters && json_object_get(settings, name) == NULL)
      return fail_setting(place->file, name, value, NULL);
  }
  return NEAP_OK;
}

/* Compares the settings; those that depend on the length come last, as another batch changes the length
 * too. */
static neap_status check_settings(const json_t *state, const struct json_place *place, const char *folder,
                                  const char *weights, json_t *settings) {
  static const char *const of_length[] = {"steps", "drop_steps"};
  json_t *saved, *wanted;
  const char *name;
  TRY(json_need(state, "settings", place, &saved));
  if (settings == NULL) return NEAP_OK;
  settings_name_usual(saved);
  json_object_foreach(settings, name, wanted) {
    const json_t *value = json_object_get(saved, name);
    if (strcmp(name, of_length[0]) == 0 || strcmp(name, of_length[1]) == 0) continue;
    if (!same_value(value, wanted)) return fail_setting(place->file, name, value, wanted);
  }
  TRY(check_missing(saved, settings, place));
  TRY(check_length(saved, settings, place, folder, weights));
  for (size_t i = 0; i < sizeof of_length / sizeof *of_length; i++) {
    const json_t *value = json_object_get(saved, of_length[i]);
    wanted = json_object_get(settings, of_length[i]);
    if (wanted != NULL && !json_equal(value, wanted))
      return fail_setting(place->file, of_length[i], value, wanted);
  }
  return NEAP_OK;
}

neap_status checkpoint_read_adapters(const char *folder, struct region *region,
                                     neap_session_options *session) {
  static const char *const keys[] = {"lora", "lora_alpha", "lora_dropout", "lora_layers", "rslora",
                                     "dora", "freeze",     "store",        "base"};
  neap_train_options options = {.session = *session};
  json_t *state;
  TRY(checkpoint_read_object(folder, &state));
  const json_t *settings = json_object_get(state, "settings");
  neap_status status = NEAP_OK;
  const bool any = json_integer_value(json_object_get(settings, keys[0])) > 0 ||
                   json_integer_value(json_object_get(settings, "side")) > 0;
  for (size_t i = 0; any && status == NEAP_OK && i < sizeof keys / sizeof *keys; i++) {
    const json_t *value = json_object_get(settings, keys[i]);
    if (value == NULL) continue;
    const char *text = json_is_string(value) ? region_string(region, json_string_value(value))
                       : json_is_boolean(value)
                           ? (json_is_true(value) ? "true" : "false")
                           : region_format(region, "%.9g", json_number_value(value) + 0.0);
    status = text != NULL ? neap_setting_read(setting_of_key(keys[i]), text, &options)
                          : neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", folder);
  }
  json_decref(state);
  RETURN_IF(status == NEAP_INVALID_ARGUMENT, NEAP_BAD_FORMAT, "%s/state.json: field 'settings': %s", folder,
            neap_error_message());
  TRY(status);
  *session = options.session;
  return NEAP_OK;
}

static neap_status check_kernels(const json_t *kernels, const struct json_place *place) {
  const json_t *name;
  size_t i;
  if (kernels != NULL && !json_is_array(kernels)) return json_bad_field(place, "kernels", "must be an array");
  json_array_foreach(kernels, i, name) {
    if (!json_is_string(name)) return json_bad_field(place, "kernels", "must have only texts");
  }
  return NEAP_OK;
}

/* Gives a setting of the checkpoint in a folder, to be freed with json_decref; NULL: it has none. */
static neap_status find_setting(const char *folder, const char *name, json_t **value) {
  struct region region = {0};
  neap_status status;
  json_t *state = NULL, *settings;
  struct json_place place = {0};
  TRY_DONE(checkpoint_read_whole(folder, &region, &place, &state));
  TRY_DONE(json_need(state, "settings", &place, &settings));
  *value = json_incref(json_object_get(settings, name));
done:
  json_decref(state);
  region_free(&region);
  return status;
}

neap_status checkpoint_has_setting(const char *folder, const char *name, bool *has) {
  json_t *value = NULL;
  TRY(find_setting(folder, name, &value));
  *has = value != NULL;
  json_decref(value);
  return NEAP_OK;
}

neap_status checkpoint_micro_batches(const char *folder, int64_t *count) {
  json_t *value = NULL;
  TRY(find_setting(folder, MICRO_BATCHES, &value));
  *count = value == NULL ? 1 : json_integer_value(value);
  json_decref(value);
  RETURN_IF(*count < 1, NEAP_BAD_FORMAT,
            "%s/state.json: field 'settings." MICRO_BATCHES "': must be a number of 1 or more", folder);
  return NEAP_OK;
}

neap_status checkpoint_check_model(const char *folder, const neap_model *model) {
  struct region region = {0};
  neap_status status;
  json_t *state = NULL, *settings;
  struct json_place place = {0};
  const char *digest = model_digest(model);
  TRY_DONE(checkpoint_read_whole(folder, &region, &place, &state));
  TRY_DONE(json_need(state, "settings", &place, &settings));
  const char *kept = json_string_value(json_object_get(settings, CHECKPOINT_MODEL));
  if (strcmp(kept != NULL ? kept : "", digest) != 0)
    status = neap_fail(
        NEAP_INVALID_ARGUMENT,
        "%s: was trained from a model file of SHA-256 %s, but %s has %s; give the original file", place.file,
        kept != NULL ? kept : "(none)", model_name(model), digest[0] != '\0' ? digest : "(none)");
done:
  json_decref(state);
  region_free(&region);
  return status;
}

neap_status checkpoint_read_kernels(const char *folder, json_t **kernels) {
  struct region region = {0};
  neap_status status;
  json_t *state = NULL;
  struct json_place place = {0};
  TRY_DONE(checkpoint_read_whole(folder, &region, &place, &state));
  json_t *found = json_object_get(state, "kernels");
  TRY_DONE(check_kernels(found, &place));
  *kernels = json_incref(found);
done:
  json_decref(state);
  region_free(&region);
  return status;
}

neap_status checkpoint_find_step(const char *folder, int64_t *step) {
  struct checkpoint checkpoint = {0};
  struct region region = {0};
  neap_status status = NEAP_OK;
  const char *path = region_format(&region, "%s/state.json", folder);
  RETURN_IF_NULL(path);
  if (file_exists(path)) status = checkpoint_read_state(folder, NULL, &checkpoint);
  region_free(&region);
  *step = checkpoint.step;
  return status;
}

neap_status checkpoint_read_state(const char *folder, json_t *settings, struct checkpoint *checkpoint) {
  struct region region = {0};
  neap_status status;
  json_t *state = NULL, *wanted = json_deep_copy(settings);
  struct json_place place = {0};
  if (settings != NULL && wanted == NULL) return neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", folder);
  TRY_DONE(checkpoint_read_whole(folder, &region, &place, &state));
  TRY_DONE(check_kernels(json_object_get(state, "kernels"), &place));
  TRY_DONE(get_fields(state, &place, checkpoint));
  settings_name_usual(wanted);
  TRY_DONE(check_settings(state, &place, folder, checkpoint->weights, wanted));
done:
  json_decref(wanted);
  json_decref(state);
  region_free(&region);
  return status;
}
