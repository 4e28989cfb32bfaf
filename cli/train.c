/* neap train */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "train_report.h"

/* ---- Stopping ---- */

static volatile sig_atomic_t stop_signal;

static void remember_signal(int number) {
  static const char text[] = "\nneap: stopping; the current step is given up, or finished where its updates "
                             "have begun; once more to "
                             "end at once\n";
  const int before = errno;
  stop_signal = number;
  if (write(STDERR_FILENO, text, sizeof text - 1) < 0) errno = 0; /* nobody reads it */
  errno = before;
}

/* From the first step on: the first signal asks for a checkpoint, a second one ends the program as usual.
 * Before it there is nothing to save. */
static void catch_signals(void) {
  struct sigaction action = {.sa_handler = remember_signal, .sa_flags = (int)SA_RESETHAND};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  struct sigaction hangup;
  sigaction(SIGHUP, NULL, &hangup);
  if (hangup.sa_handler != SIG_IGN)
    sigaction(SIGHUP, &action, NULL); /* else it was started to outlive that */
}

/* Who reads the progress may go away: the run goes on, and what it still says is lost without a word. */
static void outlive_readers(void) { signal(SIGPIPE, SIG_IGN); }
static void forget_lost_output(FILE *file) {
  struct pollfd pipe = {.fd = fileno(file)};
  if (fflush(file) != 0 && poll(&pipe, 1, 0) == 1 && (pipe.revents & POLLERR) != 0 &&
      freopen("/dev/null", "w", file) == NULL)
    clearerr(file);
}

/* The cheaper budget is looked for before the run: what that takes is no part of what the run takes. */
static void look_for_affordable(struct train_report *report) {
  const struct train_settings *s = report->settings;
  const struct source source = {.model = s->model,
                                .batch = s->batch,
                                .image = {s->image[0], s->image[1], s->image[2]},
                                .classes = s->classes,
                                .length = s->length,
                                .window = s->window,
                                .optimizer = s->optimizer,
                                .convolution = s->convolution,
                                .backend = s->backend,
                                .costs = s->costs,
                                .threads = s->threads,
                                .momentum = s->momentum,
                                .micro_batch = s->micro_batch > 0 ? s->micro_batch : 0,
                                .precision = s->precision,
                                .sparse = s->sparse,
                                .sparse_layers = s->sparse_layers};
  neap_step *step;
  if (s->allow != NULL || s->micro_batch < 0) return; /* what is planned is not known yet */
  if (s->plan != NULL || s->budget.bytes != NEAP_BUDGET_MIN || s->budget.fraction > 0) return;
  if (source_step(&source, &step) != NEAP_OK) return; /* the run says why */
  report->affordable = affordable_budget(step, s->planner);
  report->least = true;
  neap_step_free(step);
}

static int on_progress(void *context, const neap_train_progress *progress) {
  struct train_report *report = context;
  watch_end(report->watch); /* all is planned */
  report->watch = NULL;
  if (progress->step == 0) catch_signals();
  report_progress(report, progress);
  return stop_signal != 0;
}

/* ---- The verb ---- */

static int finish(const struct verb *verb, struct train_report *report, neap_status status,
                  const neap_train_result *result) {
  int exit_status = EXIT_DONE;
  end_progress(report);
  if (status == NEAP_OVER_BUDGET)
    exit_status = report_over_budget(report, result);
  else if (status == NEAP_INTERRUPTED)
    exit_status = report_interruption(report, stop_signal);
  else if (status != NEAP_OK)
    exit_status = report_failure(verb, status);
  const bool ended = status == NEAP_OK || status == NEAP_INTERRUPTED;
  if (ended && !report->settings->json) print_summary(report, result);
  if (!report->settings->json) forget_lost_output(report->file);
  if ((ended || status == NEAP_DIVERGED) && report->settings->json &&
      print_json(train_json(report, result)) != EXIT_DONE)
    exit_status = EXIT_FAILED;
  return exit_status;
}

static int train(const struct verb *verb, const struct train_settings *settings, const char *command) {
  struct train_report report = make_report(settings);
  outlive_readers();
  neap_train_options options = train_library_options(settings);
  options.command = command;
  options.progress = on_progress;
  options.context = &report;
  options.stop = &stop_signal;
  report.watch = watch_begin(settings->time_limit, 0);
  look_for_affordable(&report);
  options.session.plan_progress = report.watch != NULL ? watch_progress : NULL;
  options.session.plan_context = report.watch;
  neap_train_result result;
  const neap_status status = neap_train(&options, &result);
  watch_end(report.watch);
  report.watch = NULL;
  return finish(verb, &report, status, &result);
}

int run_train(const struct verb *verb, int count, char **arguments) {
  struct train_arguments given;
  char *command = NULL;
  int result = read_train_settings(verb, count, arguments, &given);
  if (result == EXIT_DONE) result = prepare_threads(given.settings.threads);
  if (result == EXIT_DONE && given.settings.out != NULL) {
    command = train_command(given.texts);
    if (command == NULL) result = EXIT_FAILED;
  }
  if (result == EXIT_DONE) result = train(verb, &given.settings, command);
  free(command);
  free_train_settings(&given);
  return result;
}
