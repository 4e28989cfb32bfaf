/* neap train */
#include <signal.h>
#include <stdlib.h>

#include "train_report.h"

/* ---- Stopping ---- */

static volatile sig_atomic_t stop_signal;

static void remember_signal(int number) { stop_signal = number; }

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
  if ((ended || status == NEAP_DIVERGED) && report->settings->json &&
      print_json(train_json(report->settings, result)) != EXIT_DONE)
    exit_status = EXIT_FAILED;
  return exit_status;
}

static int train(const struct verb *verb, const struct train_settings *settings, const char *command) {
  struct train_report report = make_report(settings);
  neap_train_options options = train_library_options(settings);
  options.command = command;
  options.progress = on_progress;
  options.context = &report;
  report.watch = watch_begin(settings->time_limit, 0);
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
