/* Checkpoint folders: state.json, the weights that it names, command.json and what a killed run left of that.
 * A state that can be read is the same after it was written and read again. The command is the one whose
 * digest the state has, else command.json. Weights that are loaded have the digest and the steps that the
 * state says, and are saved as a checkpoint that says the same. Whatever is refused gives a message that
 * names the folder. What a run with adapters began with is read as it was written. Each state.json is tried
 * as it is and with a digest that suits it. Taken is a folder of which all is. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "session/session.h"
#include "support.h"
#include "train/base_weights.h"
#include "train/checkpoint.h"

static void digest(const char *text, char out[65]) {
  struct sha256 hash;
  sha256_start(&hash);
  sha256_feed(&hash, text, strlen(text));
  sha256_finish(&hash, out);
}

/* Gives state.json the digest of what it says, as the header of a checkpoint's state tells; not where it is
 * no object.
 */
static void seal(const char *path) {
  char sealed[65];
  json_t *state = json_load_file(path, 0, NULL);
  if (json_is_object(state)) {
    json_object_del(state, "state_sha256");
    char *text = json_dumps(state, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    CHECK(text != NULL);
    digest(text, sealed);
    free(text);
    CHECK(json_object_set_new(state, "state_sha256", json_string(sealed)) == 0);
    CHECK(json_dump_file(state, path, 0) == 0);
  }
  json_decref(state);
}

/* ---- The state ---- */

static bool same_number(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

static void check_same(const struct checkpoint *a, const struct checkpoint *b) {
  CHECK(a->epoch == b->epoch && a->step == b->step && a->session_steps == b->session_steps);
  CHECK(a->correct == b->correct && a->images == b->images);
  CHECK(same_number(a->loss_sum, b->loss_sum) && same_number(a->test_accuracy, b->test_accuracy));
  CHECK(strcmp(a->weights, b->weights) == 0 && strcmp(a->weights_sha256, b->weights_sha256) == 0);
  CHECK(strcmp(a->command_sha256, b->command_sha256) == 0);
}

static bool check_state(const char *folder, struct checkpoint *state) {
  int64_t step = -1;
  const neap_status status = checkpoint_read_state(folder, NULL, state);
  if (status != NEAP_OK) {
    CHECK(status == (fuzz_exists(fuzz_path("run/state.json")) ? NEAP_BAD_FORMAT : NEAP_IO_FAILED));
    fuzz_check_refused(status, folder);
    return false;
  }
  CHECK_OK(checkpoint_find_step(folder, &step));
  CHECK(step == state->step && step >= 0 && state->epoch >= 0 && state->session_steps >= 0);
  CHECK(strchr(state->weights, '/') == NULL);
  const char *copy = fuzz_folder("copy");
  struct checkpoint again = {0};
  json_t *root = json_load_file(fuzz_path("run/state.json"), 0, NULL);
  json_t *settings = json_object_get(root, "settings");
  CHECK(settings != NULL);
  json_t *kernels = NULL, *read = NULL;
  CHECK_OK(checkpoint_read_kernels(folder, &kernels));
  state->kernels = kernels;
  CHECK_OK(checkpoint_write_state(copy, settings, state));
  state->kernels = NULL;
  CHECK_OK(checkpoint_read_state(copy, json_is_object(settings) ? settings : NULL, &again));
  check_same(state, &again);
  CHECK_OK(checkpoint_read_kernels(copy, &read));
  CHECK(kernels == NULL ? read == NULL : json_equal(read, kernels));
  json_decref(read);
  json_decref(kernels);
  json_decref(root);
  return true;
}

/* ---- Adapters ---- */

/* What the weights do without is the same after it was written and read again; so is which adapters there
 * are, by what state.json says. */
static bool check_adapters(const char *folder, struct checkpoint *state) {
  struct region region = {0};
  struct base_weights base, again;
  neap_session_options session = {0};
  neap_status status = base_weights_read(folder, &region, &base);
  if (status == NEAP_OK) status = checkpoint_read_adapters(folder, &region, &session);
  if (status != NEAP_OK) {
    fuzz_check_refused(status, folder);
    region_free(&region);
    return false;
  }
  CHECK(session.lora >= 0 && (session.lora > 0 || session.freeze == NULL));
  json_t *settings = json_object(), *json = base.given ? base_weights_json(&base) : NULL;
  const char *copy = fuzz_folder("copy");
  state->base = &base;
  CHECK_OK(checkpoint_write_state(copy, settings, state));
  state->base = NULL;
  CHECK_OK(base_weights_read(copy, &region, &again));
  CHECK(again.given == base.given);
  json_t *read = again.given ? base_weights_json(&again) : NULL;
  CHECK(json == NULL ? read == NULL : json_equal(json, read));
  json_decref(settings);
  json_decref(json);
  json_decref(read);
  region_free(&region);
  return true;
}

/* ---- The command ---- */

/* What a file says up to its first byte 0; NULL where it is missing or empty. Free the text. */
static char *text_of(const char *path) {
  if (!fuzz_exists(path)) return NULL;
  const struct fuzz_bytes bytes = fuzz_read(path);
  if (bytes.size > 0) return bytes.text;
  free(bytes.text);
  return NULL;
}

static bool check_command(const char *folder, const struct checkpoint *state) {
  char of_next[65] = "", unset, *found = &unset;
  const char *path = fuzz_path("run/command.json");
  char *next = text_of(fuzz_path("run/command.json.next")), *text = text_of(path);
  const char *wanted = text;
  if (text != NULL && state->command_sha256[0] != '\0') {
    digest(text, of_next);
    if (strcmp(of_next, state->command_sha256) != 0) wanted = NULL; /* another one */
  }
  if (next != NULL) digest(next, of_next);
  if (next != NULL && strcmp(of_next, state->command_sha256) == 0) wanted = next;
  const neap_status status = neap_checkpoint_command(folder, &found);
  if (wanted == NULL && fuzz_exists(path)) {
    CHECK(status == NEAP_BAD_FORMAT && found == &unset);
    fuzz_check_refused(status, folder);
  } else {
    CHECK_OK(status);
    CHECK(wanted == NULL ? found == NULL : found != NULL && strcmp(found, wanted) == 0);
    free(found);
  }
  free(next);
  free(text);
  return status == NEAP_OK;
}

/* ---- The weights ---- */

static bool check_weights(const char *folder, const struct checkpoint *state) {
  neap_session *session = fuzz_session();
  static const char command[] = "{\"format\": \"neap-command\"}\n";
  struct checkpoint saved = *state, again = {0};
  char is[65], *found = NULL;
  const neap_status status = checkpoint_load_weights(folder, state, session);
  if (status != NEAP_OK) {
    fuzz_check_refused(status, folder);
    return false;
  }
  CHECK_OK(neap_session_digest(session, is));
  CHECK(strcmp(is, state->weights_sha256) == 0 && (int64_t)session_steps(session) == state->session_steps);
  const char *copy = fuzz_folder("copy");
  json_t *settings = json_object();
  saved.command = command;
  saved.command_placed = false;
  CHECK_OK(checkpoint_save(copy, settings, session, &saved));
  CHECK_OK(checkpoint_read_state(copy, settings, &again));
  check_same(&saved, &again);
  CHECK(again.step == state->step && strcmp(again.weights_sha256, is) == 0);
  CHECK_OK(checkpoint_load_weights(copy, &again, session));
  CHECK_OK(neap_checkpoint_command(copy, &found));
  CHECK(found != NULL && strcmp(found, command) == 0);
  free(found);
  json_decref(settings);
  return true;
}

static bool check_folder(const char *folder) {
  struct checkpoint state = {0};
  char *found = NULL;
  if (!check_state(folder, &state)) {
    fuzz_check_refused(neap_checkpoint_command(folder, &found), folder);
    CHECK(found == NULL);
    return false;
  }
  const bool adapters = check_adapters(folder, &state), command = check_command(folder, &state),
             weights = check_weights(folder, &state);
  return adapters && command && weights;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const parts[] = {"state.json", "command.json", "command.json.next",
                                      "weights-3.safetensors"};
  char folder[64], path[96];
  snprintf(folder, sizeof folder, "%s", fuzz_folder("run"));
  snprintf(path, sizeof path, "%s/state.json", folder);
  fuzz_unpack(data, size, folder, parts, sizeof parts / sizeof *parts);
  fuzz_taken = check_folder(folder);
  if (fuzz_taken || !fuzz_exists(path)) return 0;
  seal(path);
  fuzz_taken = check_folder(folder);
  return 0;
}
