#include "program/lane.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"

enum { WAITING = 64 /* jobs */ };

struct lane {
  pthread_t thread;
  bool running;
  pthread_mutex_t lock; /* of what follows */
  pthread_cond_t begun, done;
  bool ends;
  struct lane_job jobs[WAITING];
  uint64_t started, ended;
  struct ending failure; /* the first */
  double waited;         /* of the thread that starts jobs, which alone changes it */
};

/* Runs a job, with the lock held before and after. */
static void serve(struct lane *l, const struct lane_job *job) {
  struct ending ending = {0};
  if (l->failure.status == NEAP_OK) {
    pthread_mutex_unlock(&l->lock);
    ending_keep(&ending, job->run(job->context, job));
    pthread_mutex_lock(&l->lock);
  }
  if (ending.status != NEAP_OK) l->failure = ending;
  l->ended++;
  pthread_cond_broadcast(&l->done);
}

static void *run(void *context) {
  struct lane *l = context;
  pthread_mutex_lock(&l->lock);
  for (;;) {
    while (l->ended == l->started && !l->ends) pthread_cond_wait(&l->begun, &l->lock);
    if (l->ended == l->started) break;
    const struct lane_job job = l->jobs[l->ended % WAITING];
    serve(l, &job);
  }
  pthread_mutex_unlock(&l->lock);
  return NULL;
}

neap_status lane_create(struct lane **out) {
  struct lane *l = calloc(1, sizeof *l);
  RETURN_IF_NULL(l);
  pthread_mutex_init(&l->lock, NULL);
  pthread_cond_init(&l->begun, NULL);
  pthread_cond_init(&l->done, NULL);
  sigset_t all, former;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &former);
  l->running = pthread_create(&l->thread, NULL, run, l) == 0;
  pthread_sigmask(SIG_SETMASK, &former, NULL);
  *out = l;
  return NEAP_OK;
}

void lane_free(struct lane *l) {
  if (l == NULL) return;
  pthread_mutex_lock(&l->lock);
  l->ends = true;
  pthread_cond_broadcast(&l->begun);
  pthread_mutex_unlock(&l->lock);
  if (l->running) pthread_join(l->thread, NULL);
  pthread_cond_destroy(&l->done);
  pthread_cond_destroy(&l->begun);
  pthread_mutex_destroy(&l->lock);
  free(l);
}

void lane_start(struct lane *l, const struct lane_job *job) {
  pthread_mutex_lock(&l->lock);
  while (l->started - l->ended == WAITING) pthread_cond_wait(&l->done, &l->lock);
  l->jobs[l->started++ % WAITING] = *job;
  if (l->running)
    pthread_cond_signal(&l->begun);
  else
    serve(l, job);
  pthread_mutex_unlock(&l->lock);
}

uint64_t lane_started(const struct lane *l) { return l->started; }

neap_status lane_wait(struct lane *l, uint64_t count) {
  struct ending failure;
  pthread_mutex_lock(&l->lock);
  if (l->ended < count) {
    const double begin = clock_seconds();
    while (l->ended < count) pthread_cond_wait(&l->done, &l->lock);
    l->waited += clock_seconds() - begin;
  }
  failure = l->failure;
  pthread_mutex_unlock(&l->lock);
  return ending_tell(&failure);
}

void lane_settle(struct lane *l) {
  pthread_mutex_lock(&l->lock);
  while (l->ended < l->started) pthread_cond_wait(&l->done, &l->lock);
  l->failure = (struct ending){0};
  pthread_mutex_unlock(&l->lock);
}

double lane_waited(const struct lane *l) { return l->waited; }
