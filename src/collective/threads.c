#include "collective/threads.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collective/calls.h"

/* A rank's current call. */
struct call {
  enum call_kind kind;
  const neap_piece *send, *receive; /* [size]; NULL: a barrier */
};

/* Ranks of a group that are becoming a group of their own. */
struct forming {
  int first, stride, count, joined;
  struct group *group;
  struct forming *next;
};

struct group {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int size, arrived, open;
  uint64_t meetings; /* that every rank came to */
  uint64_t refused;  /* number of the meeting whose calls did not agree; 0: none */
  struct ending ending;
  struct forming *forming; /* of those that miss a rank */
  struct call calls[];     /* [size] */
};

struct member {
  struct group *group;
  int rank;
  neap_piece pieces[]; /* [2 * size], of an allgather */
};

/* The lock is held; every rank has arrived. */
static neap_status check_pair(const struct group *group, int from, int to) {
  const struct call *sender = &group->calls[from], *receiver = &group->calls[to];
  const bool moves = sender->send != NULL && receiver->receive != NULL;
  return calls_check(from, sender->kind, moves ? sender->send[to].bytes : 0, to, receiver->kind,
                     moves ? receiver->receive[from].bytes : 0);
}

static neap_status check_calls(const struct group *group) {
  for (int from = 0; from < group->size; from++)
    for (int to = 0; to < group->size; to++)
      if (from != to) TRY(check_pair(group, from, to));
  return NEAP_OK;
}

/* Returns when every rank has come. The last to come checks what they came for (NULL: nothing). */
static neap_status meet(struct group *group, neap_status (*check)(const struct group *)) {
  pthread_mutex_lock(&group->lock);
  const uint64_t meeting = group->meetings;
  if (group->ending.status == NEAP_OK && ++group->arrived == group->size) {
    group->arrived = 0;
    group->meetings++;
    if (check != NULL) ending_keep(&group->ending, check(group));
    if (group->ending.status != NEAP_OK) group->refused = group->meetings;
    pthread_cond_broadcast(&group->changed);
  }
  while (group->meetings == meeting && group->ending.status == NEAP_OK)
    pthread_cond_wait(&group->changed, &group->lock);
  /* A rank that closes after this meeting does not end it. */
  const bool met = group->meetings != meeting && group->refused != group->meetings;
  const neap_status status = met ? NEAP_OK : ending_tell(&group->ending);
  pthread_mutex_unlock(&group->lock);
  return status;
}

/* Announces this rank's call and returns when the calls of all are known to agree. */
static neap_status begin(const struct member *member, struct call call) {
  pthread_mutex_lock(&member->group->lock);
  member->group->calls[member->rank] = call;
  pthread_mutex_unlock(&member->group->lock);
  return meet(member->group, check_calls);
}

static neap_status move(const struct member *member, struct call call) {
  const struct group *group = member->group;
  TRY(begin(member, call));
  for (int r = 0; r < group->size; r++)
    if (r != member->rank && call.receive[r].bytes > 0)
      memcpy(call.receive[r].data, group->calls[r].send[member->rank].data, call.receive[r].bytes);
  return meet(member->group, NULL); /* before it senders' pieces are still read */
}

static neap_status threads_exchange(void *self, const neap_piece *send, const neap_piece *receive) {
  return move(self, (struct call){CALL_EXCHANGE, send, receive});
}

static neap_status threads_allgather(void *self, void *all, const uint64_t *bytes) {
  struct member *member = self;
  const int size = member->group->size;
  calls_allgather_pieces(member->rank, size, all, bytes, member->pieces, member->pieces + size);
  return move(member, (struct call){CALL_ALLGATHER, member->pieces, member->pieces + size});
}

static neap_status threads_barrier(void *self) { return begin(self, (struct call){CALL_BARRIER}); }

static void free_group(struct group *group) {
  for (struct forming *f; (f = group->forming) != NULL;) { /* its ranks have failed */
    group->forming = f->next;
    free(f);
  }
  pthread_cond_destroy(&group->changed);
  pthread_mutex_destroy(&group->lock);
  free(group);
}

static void threads_close(void *self) {
  struct member *member = self;
  if (member == NULL) return;
  struct group *group = member->group;
  pthread_mutex_lock(&group->lock);
  if (group->ending.status == NEAP_OK) { /* this thread's message stays as it is */
    group->ending.status = NEAP_IO_FAILED;
    snprintf(group->ending.message, sizeof group->ending.message,
             "collective: rank %d closed its connection while another rank called", member->rank);
  }
  const bool last = --group->open == 0;
  pthread_cond_broadcast(&group->changed);
  pthread_mutex_unlock(&group->lock);
  if (last) free_group(group);
  free(member);
}

static neap_status new_group(int size, struct group **out) {
  struct group *group = calloc(1, sizeof *group + (size_t)size * sizeof *group->calls);
  RETURN_IF_NULL(group);
  group->size = group->open = size;
  pthread_mutex_init(&group->lock, NULL); /* glibc's do not fail without attributes */
  pthread_cond_init(&group->changed, NULL);
  *out = group;
  return NEAP_OK;
}

static neap_status join(struct group *group, int rank, neap_collective *out);

/* Returns the group of a part, which its first rank makes. The lock is held. */
static neap_status find_part(struct group *group, struct forming part, struct group **out) {
  struct forming **at = &group->forming;
  while (*at != NULL &&
         !((*at)->first == part.first && (*at)->stride == part.stride && (*at)->count == part.count))
    at = &(*at)->next;
  if (*at == NULL) {
    struct forming *made = malloc(sizeof *made);
    RETURN_IF_NULL(made);
    const neap_status status = new_group(part.count, &part.group);
    if (status != NEAP_OK) {
      free(made);
      return status;
    }
    *made = part;
    *at = made;
  }
  struct forming *found = *at;
  *out = found->group;
  if (++found->joined == found->count) { /* the next of the same ranks is another */
    *at = found->next;
    free(found);
  }
  return NEAP_OK;
}

static neap_status threads_part(void *self, int first, int stride, int count, neap_collective *out) {
  struct member *member = self;
  struct group *part;
  pthread_mutex_lock(&member->group->lock);
  const neap_status status =
      find_part(member->group, (struct forming){first, stride, count, 0, NULL, NULL}, &part);
  pthread_mutex_unlock(&member->group->lock);
  return status == NEAP_OK ? join(part, (member->rank - first) / stride, out) : status;
}

/* Makes the collective of a rank of a group. */
static neap_status join(struct group *group, int rank, neap_collective *out) {
  struct member *member = calloc(1, sizeof *member + 2 * (size_t)group->size * sizeof *member->pieces);
  RETURN_IF_NULL(member);
  *member = (struct member){group, rank};
  *out = (neap_collective){
      rank,          group->size, member, threads_exchange, threads_allgather, threads_barrier,
      threads_close, threads_part};
  return NEAP_OK;
}

neap_status threads_connect(int size, neap_collective *ranks) {
  struct group *group;
  RETURN_IF(size < 1, NEAP_INVALID_ARGUMENT, "threads_connect: there must be at least 1 rank (got %d)", size);
  TRY(new_group(size, &group));
  for (int r = 0; r < size; r++) {
    const neap_status status = join(group, r, &ranks[r]);
    if (status == NEAP_OK) continue;
    while (r-- > 0) free(ranks[r].self);
    free_group(group);
    return status;
  }
  return NEAP_OK;
}
