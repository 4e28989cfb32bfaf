/* neap train */
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shared/affordable.h"
#include "shared/failure.h"
#include "shared/format.h"
#include "shared/processes.h"
#include "shared/run_settings.h"
#include "shared/show_config.h"
#include "shared/source.h"
#include "shared/threads.h"
#include "shared/train_report.h"
#include "shared/watch.h"
#include "verbs/verbs.h"

/* ---- Stopping ---- */

static volatile sig_atomic_t stop_signal;
static bool says_nothing; /* a process that is not the first */

static void remember_signal(int number) {
  static const char text[] = "\nneap: stopping; the current step is dropped, or completed if its updates "
                             "have begun; press again to stop at once\n";
  const int before = errno;
  stop_signal = number;
  if (says_nothing) return;
  if (write(STDERR_FILENO, text, sizeof text - 1) < 0) errno = 0; /* nobody reads it */
  errno = before;
}

/* Catches signals from before the first step on, because until then there is nothing to save. The first ends
 * the run with a checkpoint of the last complete step; the second ends the program. */
static void catch_signals(void) {
  struct sigaction action = {.sa_handler = remember_signal, .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  struct sigaction hangup;
  sigaction(SIGHUP, NULL, &hangup);
  if (hangup.sa_handler != SIG_IGN)
    sigaction(SIGHUP, &action, NULL); /* else it was started to outlive that */
}

/* If the reader of the progress goes away, the run continues, and its further output is discarded silently.
 */
static void outlive_readers(void) { signal(SIGPIPE, SIG_IGN); }
static void forget_lost_output(FILE *file) {
  struct pollfd pipe = {.fd = fileno(file)};
  if (fflush(file) != 0 && poll(&pipe, 1, 0) == 1 && (pipe.revents & POLLERR) != 0 &&
      freopen("/dev/null", "w", file) == NULL)
    clearerr(file);
}

/* The cheaper budget is looked for before the run: what that takes is no part of what the run takes. */
static void look_for_affordable(struct train_report *report) {
  const struct arguments *a = report->arguments;
  neap_train_options source = a->options;
  const neap_session_options *session = &a->options.session;
  neap_step *step;
  if (source.allow != 0 || source.micro_batch < 0) return; /* what is planned is not known yet */
  if (session->plan_file != NULL || session->budget != NEAP_BUDGET_MIN || session->budget_fraction > 0)
    return;
  if (source_step(&source, &step) != NEAP_OK) return; /* the run says why */
  report->affordable = affordable_budget(step, session->planner, half_more);
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

/* Handles the progress of a process that is not the first. */
static int on_quiet_progress(void *unused, const neap_train_progress *progress) {
  (void)unused;
  if (progress->step == 0) catch_signals();
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
    exit_status = report_interruption(report, stop_signal != 0 ? stop_signal : SIGINT);
  else if (status != NEAP_OK)
    exit_status = report_failure(verb, status);
  const bool ended = status == NEAP_OK || status == NEAP_INTERRUPTED;
  if (ended && !report->arguments->json) print_summary(report, result);
  if (!report->arguments->json) forget_lost_output(report->file);
  if ((ended || status == NEAP_DIVERGED) && report->arguments->json &&
      print_json(add_run(train_json(report, result), report->arguments->options.out,
                         report->arguments->options.data)) != EXIT_DONE)
    exit_status = EXIT_FAILED;
  return exit_status;
}

/* Trains as a process that is not the first. */
static int train_along(const struct arguments *a, const struct launched *launched) {
  neap_train_options options = a->options;
  neap_train_result result;
  says_nothing = true;
  options.progress = on_quiet_progress;
  options.stop = &stop_signal;
  const neap_status status = neap_train(&options, &result);
  return end_process(launched, status);
}

static int train(const struct verb *verb, const struct arguments *a, const char *command,
                 const struct launched *launched) {
  struct train_report report = make_report(a);
  outlive_readers();
  neap_train_options options = a->options;
  options.command = command;
  options.progress = on_progress;
  options.context = &report;
  options.stop = &stop_signal;
  report.watch = watch_begin(options.session.plan_seconds, 0);
  look_for_affordable(&report);
  options.session.plan_progress = report.watch != NULL ? watch_progress : NULL;
  options.session.plan_context = report.watch;
  neap_train_result result;
  const neap_status status = neap_train(&options, &result);
  watch_end(report.watch);
  report.watch = NULL;
  const int exit_status =
      tell_failure(launched, status) ? finish(verb, &report, status, &result) : exit_status_of(status);
  json_decref(report.initialisation);
  json_decref(report.unstored);
  json_decref(report.pairs);
  json_decref(report.understood);
  return exit_status;
}

struct settings {
  bool show_config, full;
  int32_t processes;
};

#define PROCESSES_OPTION                                                                                     \
  OWN_OPTION(struct settings, "processes", "N", "1",                                                         \
             "train with N processes on this machine, each within the budget; N does not change the result", \
             INT, processes, .least = 1, .below = 129)

const neap_setting train_options[] = {
    OWN_OPTION(struct settings, "show-config", NULL, NULL,
               "print all settings of the run as a file for --config, without training", SWITCH, show_config),
    PROCESSES_OPTION,
    {0},
};

static int run_process(const struct verb *verb, struct arguments *a, const struct launched *launched) {
  char *command = NULL;
  int result = prepare_threads(a->options.session.threads);
  if (result != EXIT_DONE) return result;
  a->options.session.collective = launched->collective.size > 1 ? &launched->collective : NULL;
  result = divide_budget(verb, a);
  if (result != EXIT_DONE) return result;
  if (!is_first_process(launched)) return train_along(a, launched);
  if (a->options.out != NULL) {
    command = run_command(a);
    if (command == NULL) return EXIT_FAILED;
  }
  result = train(verb, a, command, launched);
  free(command);
  return result;
}

static int run(const struct verb *verb, struct arguments *a, const struct settings *settings) {
  /* To show settings, no process is forked; those of a launcher share their processors out as for the run. */
  struct launched launched = {.asked = settings->show_config ? 0 : settings->processes};
  int result = complete_run(verb, a);
  if (result != EXIT_DONE) return result;
  if (!launch_processes(verb, a, &launched, &result)) return result;
  if (!settings->show_config)
    result = run_process(verb, a, &launched);
  else if (is_first_process(&launched))
    result = show_config(verb, a, (int)settings->processes);
  leave_processes(&launched);
  return result;
}

int run_train(const struct verb *verb, int count, char **arguments) {
  struct arguments a;
  struct settings settings = {0};
  if (!read_arguments(verb, count, arguments, &settings, &a)) return EXIT_USAGE;
  return run(verb, &a, &settings);
}

/* ---- neap finetune ---- */

const neap_setting finetune_options[] = {
    OWN_OPTION(struct settings, "full", NULL, NULL, "train all weights, without adapters", SWITCH, full),
    OWN_OPTION(struct settings, "show-config", NULL, NULL,
               "print all settings of the run as a file for --config, without training", SWITCH, show_config),
    PROCESSES_OPTION,
    {0},
};

int run_finetune(const struct verb *verb, int count, char **arguments) {
  struct arguments a;
  struct settings settings = {0};
  if (!read_arguments(verb, count, arguments, &settings, &a)) return EXIT_USAGE;
  if (a.operands.count > 0) {
    if (given_text(&a, "model") != NULL)
      return report_usage(verb, "the model is given twice: %s and --model", a.operands.values[0]);
    const neap_status status = set_setting(&a, neap_setting_find("model"), a.operands.values[0]);
    if (status != NEAP_OK) return report_failure(verb, status);
  }
  const bool no_adapters = given_text(&a, "lora") != NULL && a.options.session.lora == 0;
  if (settings.full && given_text(&a, "lora") != NULL && !no_adapters)
    return report_usage(verb, "--full trains all weights, --lora only adapters: give one of them");
  if (settings.full && a.options.shape.side != 0)
    return report_usage(verb, "--full trains all weights, --side only a side net: give one of them");
  if (no_adapters && !settings.full && a.options.resume == NULL && a.options.shape.side == 0 &&
      given_text(&a, "freeze") == NULL)
    return report_usage(verb, "--lora 0 trains no adapter; give --full to train all weights");
  const int result = settle_finetuning(verb, &a, settings.full);
  if (result == EXIT_DONE && a.options.resume == NULL && a.options.session.lora == 0 &&
      a.options.shape.side == 0 && given_text(&a, "freeze") != NULL)
    fprintf(stderr,
            "neap: --freeze %s: no adapters are added, and all other weights are trained; --lora 8 adds "
            "adapters\n",
            given_text(&a, "freeze"));
  return result == EXIT_DONE ? run(verb, &a, &settings) : result;
}
