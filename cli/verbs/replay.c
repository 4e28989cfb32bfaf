/* neap replay */
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "shared/failure.h"
#include "shared/format.h"
#include "shared/run_settings.h"
#include "shared/threads.h"
#include "verbs/verbs.h"

struct settings {
  int64_t step;
};

const neap_setting replay_options[] = {
    OWN_OPTION(struct settings, "step", "N", NULL, "run up to this step, whose digests the run recorded",
               INTEGER, step, .least = 1, .below = 9007199254740992.0),
    {0},
};

static json_t *replay_json(const neap_train_options *run, const neap_replay_result *r) {
  json_t *object =
      json_pack("{s:s, s:I, s:I, s:I, s:b, s:o, s:I}", "model", run->model, "from_step", (json_int_t)r->from,
                "step", (json_int_t)r->to, "compared", (json_int_t)r->compared, "equal", r->differs < 0,
                "differs_at", r->differs < 0 ? json_null() : json_integer((json_int_t)r->differs),
                "differing_variables", (json_int_t)r->differing);
  if (r->differs >= 0) json_object_set_new(object, "first_variables", json_string(r->variables));
  return object;
}

static void print_replay(const char *folder, const neap_replay_result *r) {
  printf("replayed      %s: steps %lld to %lld, from %s\n", folder, (long long)r->from + 1, (long long)r->to,
         r->from > 0 ? "a kept checkpoint" : "the beginning");
  if (r->differs < 0) {
    printf("digests       equal, of %lld step%s\n", (long long)r->compared, r->compared == 1 ? "" : "s");
    return;
  }
  printf("digests       differ at step %lld, in %d variable%s: %s\n", (long long)r->differs, r->differing,
         r->differing == 1 ? "" : "s", r->variables);
  if (r->differs == 0)
    printf("              at its beginning: if the run began with other weights, give them by --init\n");
}

int run_replay(const struct verb *verb, int count, char **arguments) {
  struct arguments a, run;
  struct settings settings = {0};
  if (!read_arguments(verb, count, arguments, &settings, &a)) return EXIT_USAGE;
  if (a.operands.count == 0) return report_usage(verb, "the folder of a run is missing");
  if (settings.step == 0) return report_usage(verb, "--step is missing");
  const char *folder = a.operands.values[0];
  int result = read_run(verb, folder, &a, &run);
  if (result == EXIT_DONE) result = prepare_threads(run.options.session.threads);
  if (result != EXIT_DONE) return result;
  neap_replay_result replayed;
  const neap_status status = neap_replay(&run.options, settings.step, &replayed);
  if (status == NEAP_OVER_BUDGET && replayed.smallest_budget > 0) tell_smallest(&a, replayed.smallest_budget);
  if (status == NEAP_INVALID_ARGUMENT) return report_usage(verb, "%s", library_message());
  if (status != NEAP_OK) return report_failure(verb, status);
  const int differs = replayed.differs < 0 ? EXIT_DONE : EXIT_FAILED;
  if (a.json) {
    const int printed = print_json(add_run(replay_json(&run.options, &replayed), folder, NULL));
    return printed != EXIT_DONE ? printed : differs;
  }
  print_replay(folder, &replayed);
  return differs;
}
