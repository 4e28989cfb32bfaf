/* The line that tells how planning goes on. A thread of its own writes it: most planners say nothing until
 * they are done. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shared/format.h"
#include "shared/source.h"
#include "shared/watch.h"

struct watch {
  pthread_t thread;
  pthread_mutex_t mutex; /* over all that follows */
  pthread_cond_t change; /* told when `ended` */
  bool ended, searched, fits;
  double limit, started;
  int64_t plans, plan;    /* how many there will be, and which one it is, from 1 */
  char planner[32];       /* of that plan */
  double cost, base_cost; /* of the best schedule so far, where `searched`; base_cost 0: not known */
};

static void put_line(const struct watch *w) {
  char line[240];
  int at = 0;
#define PUT(...) at += at < (int)sizeof line ? snprintf(line + at, sizeof line - (size_t)at, __VA_ARGS__) : 0
  PUT("planning  %s", duration_text(seconds_now() - w->started).text);
  if (w->limit > 0) PUT(" of %s", duration_text(w->limit).text);
  if (w->plans > 0) PUT("  plan %lld of %lld", (long long)w->plan, (long long)w->plans);
  if (w->planner[0] != '\0') PUT("  %s", w->planner);
  if (w->searched && !w->fits)
    PUT("  nothing fits yet");
  else if (w->searched && w->base_cost > 0)
    PUT("  best so far %s", overhead_text(w->cost, w->base_cost).text);
  else if (w->searched)
    PUT("  a plan fits; looking for a better one");
#undef PUT
  fprintf(stderr, "\r%.*s\033[K", line_width(stderr, 79), line);
  fflush(stderr);
}

/* Waits for the end, or so long: then true. */
static bool waits(struct watch *w, double seconds) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += (long)(1e9 * seconds);
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  while (!w->ended)
    if (pthread_cond_timedwait(&w->change, &w->mutex, &until) != 0) return true;
  return false;
}

static void *tell(void *context) {
  struct watch *w = context;
  bool open = false;
  pthread_mutex_lock(&w->mutex);
  for (double pause = 0.3; waits(w, pause); pause = 0.1) {
    put_line(w);
    open = true;
  }
  pthread_mutex_unlock(&w->mutex);
  if (open) fputs("\r\033[K", stderr);
  return NULL;
}

static bool is_terminal(void) {
  const char *kind = getenv("TERM");
  return isatty(STDERR_FILENO) && (kind == NULL || strcmp(kind, "dumb") != 0);
}

struct watch *watch_begin(double limit, int64_t plans) {
  struct watch *w = is_terminal() ? calloc(1, sizeof *w) : NULL;
  if (w == NULL) return NULL;
  w->limit = limit;
  w->plans = plans;
  w->started = seconds_now();
  pthread_condattr_t clock;
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_mutex_init(&w->mutex, NULL);
  pthread_cond_init(&w->change, &clock);
  pthread_condattr_destroy(&clock);
  if (pthread_create(&w->thread, NULL, tell, w) == 0) return w;
  pthread_cond_destroy(&w->change);
  pthread_mutex_destroy(&w->mutex);
  free(w);
  return NULL;
}

void watch_end(struct watch *w) {
  if (w == NULL) return;
  pthread_mutex_lock(&w->mutex);
  w->ended = true;
  pthread_cond_signal(&w->change);
  pthread_mutex_unlock(&w->mutex);
  pthread_join(w->thread, NULL);
  pthread_cond_destroy(&w->change);
  pthread_mutex_destroy(&w->mutex);
  free(w);
}

static void begin_plan(struct watch *w, const neap_step *step, const char *planner) {
  neap_step_info info;
  neap_step_describe(step, &info);
  pthread_mutex_lock(&w->mutex);
  w->plan++;
  w->base_cost = info.base_cost;
  w->searched = false;
  if (w->limit > 0) w->started = seconds_now();
  snprintf(w->planner, sizeof w->planner, "%s", planner);
  pthread_mutex_unlock(&w->mutex);
}

void watch_progress(const neap_plan_progress *progress, void *context) {
  struct watch *w = context;
  if (w == NULL) return;
  pthread_mutex_lock(&w->mutex);
  w->searched = true;
  w->fits = progress->fits;
  w->cost = progress->cost;
  pthread_mutex_unlock(&w->mutex);
}

neap_status watch_plan_alone(struct watch *w, const neap_train_options *source, const neap_step *step,
                             uint64_t budget, neap_step **own, neap_plan **plan) {
  const char *planner = source->session.planner;
  const neap_plan_options options = {
      .planner = planner, .progress = w != NULL ? watch_progress : NULL, .context = w};
  if (w != NULL) begin_plan(w, step, planner);
  return source_plan_alone(source, budget, &options, own, plan);
}

neap_status watch_plan(struct watch *w, const neap_train_options *source, const neap_step *step,
                       const struct plan_request *request, uint64_t *smallest, neap_step **chosen,
                       neap_plan **plan) {
  const neap_plan_options options = {.planner = request->planner,
                                     .seconds = request->seconds,
                                     .progress = w != NULL ? watch_progress : NULL,
                                     .context = w};
  if (w != NULL) begin_plan(w, step, request->planner);
  return source_plan(source, step, request->budget, &options, smallest, chosen, plan);
}
