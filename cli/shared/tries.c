/* Losses of the ways on the user's data, and where they are kept. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "shared/failure.h"
#include "shared/format.h"
#include "shared/tries.h"

enum { PATH_SIZE = 4096, LAST_SHARE = 4 /* of the steps: those whose losses are averaged */ };

/* ---- Where losses are kept ---- */

static bool make_folder(const char *path) { return mkdir(path, 0700) == 0 || errno == EEXIST; }

/* Writes the path of the file of a digest: in $XDG_CACHE_HOME/neap/tries, or below ~/.cache. Makes the
 * folders if `make`. Returns false if there is no such place. */
static bool kept_path(const char *digest, bool make, char path[PATH_SIZE]) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  const bool own = cache != NULL && cache[0] == '/';
  if (!own && (home == NULL || home[0] != '/')) return false;
  char folder[PATH_SIZE / 2];
  const char *const below[] = {own ? "" : "/.cache", "/neap", "/tries"};
  int length = snprintf(folder, sizeof folder, "%s", own ? cache : home);
  for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
    if (length < 0 || (size_t)length + 16 > sizeof folder) return false;
    if (make && folder[0] != '\0' && !make_folder(folder)) return false;
    length += snprintf(folder + length, sizeof folder - (size_t)length, "%s", below[i]);
  }
  if (make && !make_folder(folder)) return false;
  return snprintf(path, PATH_SIZE, "%s/%s.json", folder, digest) < PATH_SIZE;
}

/* Returns a number of an object; NAN: it has none. */
static double number_of(const json_t *object, const char *name) {
  const json_t *value = json_object_get(object, name);
  return json_is_number(value) ? json_number_value(value) : NAN;
}

/* Takes the losses that are kept, if the file is there and whole. */
static bool take_kept(struct try *way) {
  char path[PATH_SIZE];
  if (!kept_path(way->digest, false, path)) return false;
  json_t *object = json_load_file(path, 0, NULL);
  const json_t *diverged = json_object_get(object, "diverged");
  way->diverged = json_is_true(diverged);
  way->loss = number_of(object, "loss");
  way->held_out = number_of(object, "held_out_loss");
  way->kept = json_is_boolean(diverged) && (way->diverged || isfinite(way->loss));
  json_decref(object);
  return way->kept;
}

/* Keeps the losses; returns false, after a message, if that is not possible: they are measured again next
 * time. */
static bool keep(const struct try *way) {
  char path[PATH_SIZE];
  json_t *object = json_pack("{s:b, s:o, s:o}", "diverged", way->diverged, "loss", number_json(way->loss),
                             "held_out_loss", number_json(way->held_out));
  char *text = object != NULL ? json_dumps(object, JSON_REAL_PRECISION(17)) : NULL;
  const bool placed = text != NULL && kept_path(way->digest, true, path),
             kept = placed && neap_write_file(path, text, strlen(text)) == NEAP_OK;
  if (!kept)
    fprintf(stderr, "neap: --try: losses are not kept for a later command: %s\n",
            placed ? library_message() : "the folder of the cache cannot be made");
  free(text);
  json_decref(object);
  return kept;
}

/* ---- Runs ---- */

struct losses {
  int64_t from; /* the first step that counts */
  double sum;
  int64_t count;
};

static int add_loss(void *context, const neap_train_progress *progress) {
  struct losses *losses = context;
  if (progress->step < losses->from) return 0;
  losses->sum += progress->loss;
  losses->count++;
  return 0;
}

/* `*keeps`: whether losses are kept; false after the first one that is not. */
static neap_status train(neap_train_options *run, struct try *way, bool *keeps) {
  struct losses losses = {.from = run->steps - (run->steps - 1) / LAST_SHARE};
  neap_train_result result;
  run->progress = add_loss;
  run->context = &losses;
  const neap_status status = neap_train(run, &result);
  if (status != NEAP_OK && status != NEAP_DIVERGED) return status;
  way->diverged = status == NEAP_DIVERGED;
  way->loss = way->diverged || losses.count == 0 ? NAN : losses.sum / (double)losses.count;
  way->held_out = way->diverged || result.test_loss < 0 ? NAN : result.test_loss;
  way->seconds = result.step_seconds_median > 0 ? result.step_seconds_median : NAN; /* too few steps */
  way->peak = result.memory.measured_peak;
  way->done = true;
  *keeps = *keeps && keep(way);
  return NEAP_OK;
}

/* Returns a way before this one that has its bits; NULL: none was tried. */
static const struct try *find_same(const struct try *way, const struct try *first) {
  for (const struct try *other = first; other < way; other++)
    if (other->done && other->as == NULL && strcmp(other->digest, way->digest) == 0) return other;
  return NULL;
}

/* The run of a way: within the budget, or as fast as it can be. */
static neap_train_options run_of(const struct ways *w, const struct way *way) {
  neap_train_options run = way->source;
  run.shape.batch = w->batch;
  run.session.budget = w->budget > 0 ? w->budget : way->fastest.peak;
  run.out = run.resume = run.metrics = run.tensorboard = run.save_plan = NULL;
  return run;
}

/* Returns true if a failure is this way's alone: others may be tried. A folder for the disk is the way's own.
 */
static bool is_own(const neap_train_options *run, neap_status status) {
  return status == NEAP_UNSUPPORTED || status == NEAP_OVER_BUDGET ||
         (run->session.disk != NULL && (status == NEAP_INVALID_ARGUMENT || status == NEAP_IO_FAILED));
}

static neap_status try_way(const struct ways *w, struct try *tries, int i, bool *keeps) {
  const struct way *way = &w->list[i];
  struct try *tried = &tries[i];
  *tried = (struct try){.seconds = NAN};
  if (way->step == NULL || (w->budget > 0 && !way->within.met)) {
    snprintf(tried->why, sizeof tried->why, "%s", way->step == NULL ? way->why : "does not fit");
    return NEAP_OK;
  }
  neap_train_options run = run_of(w, way);
  neap_status status = neap_run_digest(&run, tried->digest);
  const struct try *same = status == NEAP_OK ? find_same(tried, tries) : NULL;
  if (same != NULL) {
    tried->as = w->list[same - tries].name;
    tried->diverged = same->diverged;
    tried->loss = same->loss;
    tried->held_out = same->held_out;
    tried->done = true;
  } else if (status == NEAP_OK && take_kept(tried)) {
    tried->done = true;
  } else if (status == NEAP_OK) {
    status = train(&run, tried, keeps);
  }
  if (status == NEAP_OK || !is_own(&run, status)) return status;
  snprintf(tried->why, sizeof tried->why, "%s", library_message());
  return NEAP_OK;
}

int try_ways(const struct verb *verb, const struct ways *w, struct try tries[WAYS]) {
  bool keeps = true;
  for (int i = 0; i < WAYS; i++) {
    const bool tells = !w->a->json && line_width(stderr, 0) > 0 && w->list[i].step != NULL;
    if (tells) fprintf(stderr, "\r\033[Ktrying %s", w->list[i].name);
    const neap_status status = try_way(w, tries, i, &keeps);
    if (tells) fprintf(stderr, "\r\033[K");
    if (status != NEAP_OK) return report_failure(verb, status);
  }
  return EXIT_DONE;
}

/* ---- What is printed ---- */

double try_loss(const struct try *way) { return isfinite(way->held_out) ? way->held_out : way->loss; }

static void print_number(double value) {
  if (isfinite(value))
    printf(" %10.4f", value);
  else
    printf(" %10s", "-");
}

void print_tries(const struct ways *w, int64_t steps, const struct try tries[WAYS]) {
  printf("\nloss after %lld steps on %s, from the same start\n\n%-25s %10s %10s %12s %12s\n",
         (long long)steps, w->a->options.data, "way", "loss", "held out", "a step", "memory");
  for (int i = 0; i < WAYS; i++) {
    const struct try *way = &tries[i];
    if (w->list[i].step == NULL) continue;
    printf("%-25s", w->list[i].name);
    if (!way->done) {
      printf(" %s\n", way->why);
      continue;
    }
    print_number(way->loss);
    print_number(way->held_out);
    if (way->peak > 0)
      printf(" %12s %12s", isfinite(way->seconds) ? duration_text(way->seconds).text : "-",
             bytes_text(way->peak).text);
    if (way->as != NULL) printf(" the bits of %s", way->as);
    if (way->kept) printf(" kept from an earlier try");
    if (way->diverged) printf(" diverged");
    putchar('\n');
  }
}

json_t *try_json(const struct try *way) {
  if (!way->done) return way->why[0] != '\0' ? json_pack("{s:s}", "reason", way->why) : json_null();
  return json_pack("{s:s, s:b, s:b, s:o, s:o, s:o, s:o, s:o}", "digest", way->digest, "kept", way->kept,
                   "diverged", way->diverged, "same_as", way->as != NULL ? json_string(way->as) : json_null(),
                   "loss", number_json(way->loss), "held_out_loss", number_json(way->held_out),
                   "step_seconds", number_json(way->seconds), "peak_bytes",
                   way->peak > 0 ? json_integer((json_int_t)way->peak) : json_null());
}
