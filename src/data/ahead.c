#include "data/ahead.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct ahead {
  ahead_reader *reader;
  void *context;
  int wanted, started; /* threads */
  int running;         /* of those started, that have their number */
  pthread_t threads[AHEAD_THREADS];
  pthread_mutex_t lock;
  pthread_cond_t begun, done;
  bool ends;
  int64_t count, next, left; /* records: of the batch, to be begun, not done */
  int64_t failed;            /* the first that did, and why; count: none */
  struct ending ending;
  size_t batch_bytes;
  unsigned char batch[]; /* zeros: none */
};

/* Reads records with the lock held, until no record is left to begin. */
static void read_some(struct ahead *a, int thread) {
  while (a->next < a->count) {
    const int64_t i = a->next++;
    struct ending ending;
    pthread_mutex_unlock(&a->lock);
    ending_keep(&ending, a->reader(a->context, a->batch, i, thread));
    pthread_mutex_lock(&a->lock);
    if (ending.status != NEAP_OK && i < a->failed) a->failed = i, a->ending = ending;
    if (--a->left == 0) pthread_cond_signal(&a->done);
  }
}

static void *run(void *context) {
  struct ahead *a = context;
  pthread_mutex_lock(&a->lock);
  const int thread = a->running++;
  while (!a->ends) {
    read_some(a, thread);
    if (!a->ends) pthread_cond_wait(&a->begun, &a->lock);
  }
  pthread_mutex_unlock(&a->lock);
  return NULL;
}

neap_status ahead_create(int threads, ahead_reader *reader, void *context, size_t batch_bytes,
                         struct ahead **ahead) {
  struct ahead *a = calloc(1, sizeof *a + batch_bytes);
  RETURN_IF_NULL(a);
  a->reader = reader;
  a->context = context;
  a->wanted = threads < AHEAD_THREADS ? threads : AHEAD_THREADS;
  a->batch_bytes = batch_bytes;
  pthread_mutex_init(&a->lock, NULL);
  pthread_cond_init(&a->begun, NULL);
  pthread_cond_init(&a->done, NULL);
  *ahead = a;
  return NEAP_OK;
}

/* Starts the threads, which leave signals to the caller's threads. Fewer threads than wanted are enough. */
static void start_threads(struct ahead *a, int *started) {
  sigset_t all, former;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &former);
  while (*started < a->wanted && pthread_create(&a->threads[*started], NULL, run, a) == 0) ++*started;
  pthread_sigmask(SIG_SETMASK, &former, NULL);
  a->wanted = *started;
}

void ahead_free(struct ahead *a) {
  if (a == NULL) return;
  pthread_mutex_lock(&a->lock);
  a->ends = true;
  a->next = a->count;
  pthread_cond_broadcast(&a->begun);
  pthread_mutex_unlock(&a->lock);
  for (int i = 0; i < a->started; i++) pthread_join(a->threads[i], NULL);
  pthread_cond_destroy(&a->done);
  pthread_cond_destroy(&a->begun);
  pthread_mutex_destroy(&a->lock);
  free(a);
}

void ahead_begin(struct ahead *a, const void *batch, int64_t count) {
  if (a->started == 0) start_threads(a, &a->started);
  if (a->started == 0) return;
  pthread_mutex_lock(&a->lock);
  memcpy(a->batch, batch, a->batch_bytes);
  a->count = a->left = a->failed = count;
  a->next = 0;
  a->ending = (struct ending){0};
  pthread_cond_broadcast(&a->begun);
  pthread_mutex_unlock(&a->lock);
}

bool ahead_take(struct ahead *a, const void *batch, neap_status *status) {
  pthread_mutex_lock(&a->lock);
  const bool same = a->count > 0 && memcmp(a->batch, batch, a->batch_bytes) == 0;
  if (!same) a->left -= a->count - a->next, a->next = a->count; /* what was not begun is not wanted */
  while (a->left > 0) pthread_cond_wait(&a->done, &a->lock);
  a->count = a->next = 0;
  pthread_mutex_unlock(&a->lock);
  *status = same ? ending_tell(&a->ending) : NEAP_OK;
  return same;
}
