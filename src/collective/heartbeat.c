#include "collective/heartbeat.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "collective/agree.h"
#include "collective/calls.h"
#include "collective/star.h"

/* The messages that ranks send each other. Rank 0 forwards each LEAVES and FAILS to all others. */
enum frame_kind { BEATS, LEAVES, FAILS };

struct frame {
  int32_t kind, rank;      /* that leaves or fails */
  uint64_t calls;          /* LEAVES: that it made */
  int32_t status, speaker; /* FAILS; which rank is to print its message, which follows */
  uint32_t bytes;          /* of the message */
};

/* The connection with a rank. */
struct link {
  int rank;
  double heard; /* when something came last */
  bool open, left;
  char reason[160]; /* why it is not open */
  size_t got;       /* bytes of the current frame, and of its message */
  union {
    struct frame frame;
    char bytes[sizeof(struct frame) + MESSAGE_BYTES];
  } in;
};

struct heart {
  neap_collective inner;
  struct heartbeat_options options;
  pthread_t thread;
  int *sockets; /* [size], -1: none */
  int wake;     /* an eventfd: the thread is to look at what follows */
  int links;
  struct link *link;    /* [links] */
  struct pollfd *polls; /* [links + 1] */

  pthread_mutex_t lock; /* of what follows */
  uint64_t calls;       /* that this rank made */
  uint64_t *left;       /* [size], calls of a rank that left; UINT64_MAX: it has not */
  bool calling, leaving, ended, watching;
  bool failed, told;        /* whether the others know of it */
  int failed_rank, speaker; /* which rank prints the failure */
  bool lost_prints;         /* if this one does: `lost`, not who called */
  struct ending ending;
};

/* Returns the rank that prints that `rank` is lost: the lowest other one. */
static int speaker_for(int rank) { return rank == 0 ? 1 : 0; }

static void wake(const struct heart *h) {
  const uint64_t one = 1;
  if (write(h->wake, &one, sizeof one) < 0) return; /* full: it is awake */
}

/* Keeps the first failure. Returns whether this is it. The lock is held. */
static bool keep_failure(struct heart *h, int rank, neap_status status, const char *message, int speaker) {
  if (h->failed) return false;
  h->failed = true;
  h->failed_rank = rank;
  h->speaker = speaker;
  h->ending.status = status == NEAP_OK ? NEAP_INTERNAL : status;
  snprintf(h->ending.message, sizeof h->ending.message, "%s", message);
  return true;
}

/* The same for a failure that the heartbeat's thread finds out. */
static bool keep_loss(struct heart *h, int rank, neap_status status, const char *message, int speaker) {
  const bool first = keep_failure(h, rank, status, message, speaker);
  if (first) h->lost_prints = h->options.lost != NULL;
  return first;
}

/* Sends to a socket that does not block; a peer that does not read for a while is silent soon. */
static void send_whole(int socket, const void *data, size_t bytes) {
  for (size_t sent = 0; sent < bytes;) {
    const ssize_t n = send(socket, (const char *)data + sent, bytes - sent, MSG_NOSIGNAL);
    struct pollfd one = {.fd = socket, .events = POLLOUT};
    if (n > 0)
      sent += (size_t)n;
    else if (n < 0 && errno == EINTR)
      continue;
    else if (n == 0 || errno != EAGAIN || poll(&one, 1, 200) <= 0)
      return;
  }
}

/* Sends a frame, with its message, to all open links but that with rank `except`. */
static void spread(const struct heart *h, const struct frame *frame, const char *message, int except) {
  char bytes[sizeof *frame + MESSAGE_BYTES];
  memcpy(bytes, frame, sizeof *frame);
  if (frame->bytes > 0) memcpy(bytes + sizeof *frame, message, frame->bytes);
  for (int i = 0; i < h->links; i++)
    if (h->link[i].open && h->link[i].rank != except)
      send_whole(h->sockets[h->link[i].rank], bytes, sizeof *frame + frame->bytes);
}

/* Tells the others of the failure that is kept, and `lost` if it is not this rank's own. */
static void tell_failure(struct heart *h, int except, bool own) {
  struct ending ending;
  pthread_mutex_lock(&h->lock);
  const bool again = h->told;
  const int rank = h->failed_rank, speaker = h->speaker;
  ending = h->ending;
  h->told = true;
  pthread_mutex_unlock(&h->lock);
  if (again) return;
  const struct frame frame = {.kind = FAILS,
                              .rank = rank,
                              .status = ending.status,
                              .speaker = speaker,
                              .bytes = (uint32_t)strlen(ending.message)};
  spread(h, &frame, ending.message, except);
  /* A launcher kills all ranks when one has ended, so the one that prints goes first. The wait holds back
   * this rank's close, too, which joins this thread. */
  if (speaker != h->inner.rank) poll(NULL, 0, 500);
  if (!own && h->options.lost != NULL)
    h->options.lost(h->options.context, speaker == h->inner.rank, ending.message);
}

/* A rank was lost, which this one has found out itself. */
static void lose(struct heart *h, int rank, const char *reason) {
  char message[MESSAGE_BYTES];
  snprintf(message, sizeof message, "rank %d: %s", rank, reason);
  pthread_mutex_lock(&h->lock);
  const bool first = keep_loss(h, rank, NEAP_IO_FAILED, message, speaker_for(rank));
  pthread_mutex_unlock(&h->lock);
  if (first) tell_failure(h, -1, false);
}

/* Keeps the failure where a rank has left that does not make this rank's current call. The lock is held. */
static bool is_left_alone(struct heart *h) {
  char message[MESSAGE_BYTES];
  for (int r = 0; r < h->inner.size; r++) {
    if (h->left[r] >= h->calls) continue;
    snprintf(message, sizeof message, "rank %d: closed its connection while other ranks called", r);
    return keep_failure(h, r, NEAP_IO_FAILED, message, speaker_for(r));
  }
  return false;
}

static void take_leave(struct heart *h, struct link *link, const struct frame *frame) {
  const struct frame farewell = {.kind = LEAVES, .rank = frame->rank, .calls = frame->calls};
  pthread_mutex_lock(&h->lock);
  if (frame->rank >= 0 && frame->rank < h->inner.size) h->left[frame->rank] = frame->calls;
  const bool stuck = h->calling && is_left_alone(h);
  if (stuck) h->lost_prints = h->options.lost != NULL;
  pthread_mutex_unlock(&h->lock);
  if (frame->rank == link->rank) link->left = true;
  if (h->inner.rank == 0) spread(h, &farewell, NULL, link->rank);
  if (stuck) tell_failure(h, -1, false);
}

static void take_failure(struct heart *h, const struct link *link, const struct frame *frame,
                         const char *message) {
  char text[MESSAGE_BYTES];
  memcpy(text, message, frame->bytes);
  text[frame->bytes] = '\0';
  pthread_mutex_lock(&h->lock);
  const bool first = keep_loss(h, frame->rank, (neap_status)frame->status, text, frame->speaker);
  pthread_mutex_unlock(&h->lock);
  if (first) tell_failure(h, link->rank, false);
}

/* Bytes that the frame of a link has, as far as that is known. */
static size_t frame_bytes(const struct link *link) {
  if (link->got < sizeof(struct frame)) return sizeof(struct frame);
  return sizeof(struct frame) + link->in.frame.bytes;
}

/* Takes what has come whole. Returns false where it is no frame. */
static bool take_frame(struct heart *h, struct link *link) {
  const struct frame *frame = &link->in.frame;
  if (link->got >= sizeof *frame && frame->bytes >= MESSAGE_BYTES) return false;
  if (link->got < frame_bytes(link)) return true;
  link->got = 0;
  if (frame->kind == LEAVES) take_leave(h, link, frame);
  if (frame->kind == FAILS) take_failure(h, link, frame, link->in.bytes + sizeof *frame);
  return frame->kind >= BEATS && frame->kind <= FAILS;
}

/* judge() finds out whether that is a loss. */
static void close_link(struct heart *h, struct link *link, const char *reason) {
  link->open = false;
  snprintf(link->reason, sizeof link->reason, "%s", reason);
  close(h->sockets[link->rank]);
  h->sockets[link->rank] = -1;
}

/* Reads all that has come from a rank. */
static void hear(struct heart *h, struct link *link) {
  char reason[160];
  while (link->open) {
    const ssize_t n =
        recv(h->sockets[link->rank], link->in.bytes + link->got, frame_bytes(link) - link->got, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      snprintf(reason, sizeof reason, "its connection ended (%s): it died, or its machine did",
               n < 0 ? strerror(errno) : "closed without a farewell");
      close_link(h, link, reason);
      return;
    }
    link->heard = clock_seconds();
    link->got += (size_t)n;
    if (!take_frame(h, link))
      close_link(h, link, "it sent something that is not a heartbeat; do all ranks run the same version?");
  }
}

/* Does what other threads asked of the heartbeat's thread. Returns false if it must end. */
static bool serve(struct heart *h, bool *left) {
  uint64_t count;
  if (read(h->wake, &count, sizeof count) < 0 && errno != EAGAIN) return false;
  pthread_mutex_lock(&h->lock);
  const bool leaves = h->leaving && !*left && !h->failed, failed = h->failed && !h->told, ended = h->ended;
  const struct frame frame = {.kind = LEAVES, .rank = h->inner.rank, .calls = h->calls};
  pthread_mutex_unlock(&h->lock);
  if (failed) tell_failure(h, -1, true);
  if (leaves) {
    *left = true;
    spread(h, &frame, NULL, -1);
  }
  return !ended;
}

/* Looks who is lost: before all ranks are connected, nobody is. */
static void judge(struct heart *h, double now) {
  char reason[sizeof h->link->reason];
  pthread_mutex_lock(&h->lock);
  const bool watching = h->watching && !h->failed;
  pthread_mutex_unlock(&h->lock);
  for (int i = 0; i < h->links; i++) {
    struct link *link = &h->link[i];
    if (!watching) link->heard = now;
    if (watching && link->open && !link->left && now - link->heard > h->options.silent_seconds) {
      snprintf(reason, sizeof reason,
               "nothing came from it for %.3g seconds: the process, its machine or its network has stopped",
               h->options.silent_seconds);
      lose(h, link->rank, reason); /* told to itself, too: it may be alive */
      close_link(h, link, reason);
    }
    if (watching && !link->open && !link->left) lose(h, link->rank, link->reason);
  }
}

/* Waits until something comes or the moment `next`. */
static void wait_for_frames(struct heart *h, double next) {
  const double left = next - clock_seconds();
  for (int i = 0; i < h->links; i++)
    h->polls[i] = (struct pollfd){.fd = h->link[i].open ? h->sockets[h->link[i].rank] : -1, .events = POLLIN};
  h->polls[h->links] = (struct pollfd){.fd = h->wake, .events = POLLIN};
  poll(h->polls, (nfds_t)h->links + 1, left > 0 ? (int)(left * 1000) + 1 : 0);
}

/* A round of the thread took this long: where it did not run for a while, others' silence then does not
 * count. */
static void forgive(struct heart *h, double seconds) {
  const double paused = seconds - 2 * h->options.beat_seconds;
  for (int i = 0; i < h->links && paused > 0; i++) h->link[i].heard += paused;
}

/* Lets the others take this rank's farewell, whom an early end of the connection would keep from it. */
static void say_farewell(struct heart *h) {
  const double until = clock_seconds() + 1;
  char bytes[256];
  for (int i = 0; i < h->links; i++)
    if (h->link[i].open) shutdown(h->sockets[h->link[i].rank], SHUT_WR);
  for (int i = 0; i < h->links; i++)
    while (h->link[i].open && clock_seconds() < until) {
      struct pollfd one = {.fd = h->sockets[h->link[i].rank], .events = POLLIN};
      if (poll(&one, 1, 100) > 0 && recv(one.fd, bytes, sizeof bytes, 0) <= 0) break;
    }
}

static void *beat(void *context) {
  struct heart *h = context;
  const struct frame sign = {.kind = BEATS, .rank = h->inner.rank};
  double now = clock_seconds(), next = now;
  bool left = false;
  do {
    const double former = now;
    if (clock_is_past(next)) {
      spread(h, &sign, NULL, -1);
      next = clock_seconds() + h->options.beat_seconds;
    }
    wait_for_frames(h, next);
    now = clock_seconds();
    forgive(h, now - former);
    for (int i = 0; i < h->links; i++) hear(h, &h->link[i]);
    judge(h, now);
  } while (serve(h, &left));
  say_farewell(h);
  return NULL;
}

/* Begins a call, unless it would not end. */
static neap_status begin_call(struct heart *h) {
  pthread_mutex_lock(&h->lock);
  h->calls++;
  h->calling = !h->failed && !is_left_alone(h);
  const neap_status status = ending_tell(&h->ending);
  pthread_mutex_unlock(&h->lock);
  if (status != NEAP_OK) wake(h);
  return status;
}

/* Begins a call of a part. Ranks make different numbers of these, so that they are not counted. */
static neap_status begin_part_call(struct heart *h) {
  pthread_mutex_lock(&h->lock);
  const neap_status status = ending_tell(&h->ending);
  pthread_mutex_unlock(&h->lock);
  return status;
}

/* Keeps a failure of this rank, to be told to the others with this thread's message. The lock is held. */
static void keep_own(struct heart *h, neap_status status) {
  char message[MESSAGE_BYTES];
  calls_name_rank(h->inner.rank, neap_error_message(), message, sizeof message);
  keep_failure(h, h->inner.rank, status, message, h->inner.rank);
}

/* Ends a call. What the heartbeat knows of a failure says more than the engine's message. */
static neap_status end_call(struct heart *h, neap_status status) {
  pthread_mutex_lock(&h->lock);
  h->calling = false;
  if (status != NEAP_OK && h->failed)
    status = ending_tell(&h->ending);
  else if (status != NEAP_OK)
    keep_own(h, status);
  pthread_mutex_unlock(&h->lock);
  if (status != NEAP_OK) wake(h);
  return status;
}

static neap_status heart_exchange(void *self, const neap_piece *send, const neap_piece *receive) {
  struct heart *h = self;
  TRY(begin_call(h));
  return end_call(h, h->inner.exchange(h->inner.self, send, receive));
}

static neap_status heart_allgather(void *self, void *all, const uint64_t *bytes) {
  struct heart *h = self;
  TRY(begin_call(h));
  return end_call(h, h->inner.allgather(h->inner.self, all, bytes));
}

static neap_status heart_barrier(void *self) {
  struct heart *h = self;
  TRY(begin_call(h));
  return end_call(h, h->inner.barrier(h->inner.self));
}

/* A part of the inner collective, whose calls the heart watches, too. */
struct heart_part {
  struct heart *heart; /* borrowed */
  neap_collective inner;
};

static neap_status part_exchange(void *self, const neap_piece *send, const neap_piece *receive) {
  const struct heart_part *p = self;
  TRY(begin_part_call(p->heart));
  return end_call(p->heart, p->inner.exchange(p->inner.self, send, receive));
}

static neap_status part_allgather(void *self, void *all, const uint64_t *bytes) {
  const struct heart_part *p = self;
  TRY(begin_part_call(p->heart));
  return end_call(p->heart, p->inner.allgather(p->inner.self, all, bytes));
}

static neap_status part_barrier(void *self) {
  const struct heart_part *p = self;
  TRY(begin_part_call(p->heart));
  return end_call(p->heart, p->inner.barrier(p->inner.self));
}

static void part_close(void *self) {
  struct heart_part *p = self;
  if (p == NULL) return;
  pthread_mutex_lock(&p->heart->lock);
  const bool failed = p->heart->failed;
  pthread_mutex_unlock(&p->heart->lock);
  if (!failed) p->inner.close(p->inner.self);
  free(p);
}

static neap_status heart_part(void *self, int first, int stride, int count, neap_collective *out) {
  struct heart *h = self;
  struct heart_part *p = calloc(1, sizeof *p);
  RETURN_IF_NULL(p);
  p->heart = h;
  neap_status status = begin_part_call(h);
  if (status == NEAP_OK) status = end_call(h, collective_part(&h->inner, first, stride, count, &p->inner));
  if (status != NEAP_OK) {
    free(p);
    return status;
  }
  *out = (neap_collective){p->inner.rank,  count,        p,          part_exchange,
                           part_allgather, part_barrier, part_close, NULL};
  return NEAP_OK;
}

static void set(struct heart *h, bool *flag) {
  pthread_mutex_lock(&h->lock);
  *flag = true;
  pthread_mutex_unlock(&h->lock);
  wake(h);
}

/* Ends the thread, if it runs, and frees everything but `inner`. */
static void end_heart(struct heart *h, bool runs) {
  if (runs) {
    set(h, &h->ended);
    pthread_join(h->thread, NULL);
  }
  if (h->sockets != NULL) star_close(h->sockets, h->inner.size);
  if (h->wake >= 0) close(h->wake);
  pthread_mutex_destroy(&h->lock);
  free(h->sockets);
  free(h->left);
  free(h->link);
  free(h->polls);
  free(h);
}

static void heart_close(void *self) {
  struct heart *h = self;
  if (h == NULL) return;
  set(h, &h->leaving);
  pthread_mutex_lock(&h->lock);
  const bool failed = h->failed;
  pthread_mutex_unlock(&h->lock);
  if (!failed) h->inner.close(h->inner.self);
  end_heart(h, true);
}

void heartbeat_report(const neap_collective *own, neap_status status) {
  struct heart *h = own->self;
  if (status == NEAP_OK || own->close != heart_close) return;
  pthread_mutex_lock(&h->lock);
  keep_own(h, status);
  pthread_mutex_unlock(&h->lock);
  wake(h);
}

bool heartbeat_speaks(const neap_collective *own) {
  struct heart *h = own->self;
  if (own->close != heart_close) return true;
  pthread_mutex_lock(&h->lock);
  const bool speaks = h->failed && !h->lost_prints && h->speaker == h->inner.rank;
  pthread_mutex_unlock(&h->lock);
  return speaks;
}

/* A thread that takes no signals of the process. */
static neap_status start_thread(struct heart *h) {
  sigset_t all, former;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &former);
  const int error = pthread_create(&h->thread, NULL, beat, h);
  pthread_sigmask(SIG_SETMASK, &former, NULL);
  RETURN_IF(error != 0, NEAP_OUT_OF_MEMORY, "heartbeat: the system cannot start a thread: %s",
            strerror(error));
  return NEAP_OK;
}

static neap_status new_heart(const neap_collective *inner, const struct heartbeat_options *options,
                             struct heart **out) {
  const size_t size = (size_t)inner->size;
  struct heart *h = calloc(1, sizeof *h);
  RETURN_IF_NULL(h);
  h->inner = *inner;
  h->options = *options;
  if (h->options.beat_seconds <= 0) h->options.beat_seconds = 1;
  if (h->options.silent_seconds <= 0) h->options.silent_seconds = 8;
  if (h->options.connect_seconds <= 0) h->options.connect_seconds = 30;
  pthread_mutex_init(&h->lock, NULL);
  h->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  h->sockets = malloc(size * sizeof *h->sockets);
  h->left = malloc(size * sizeof *h->left);
  h->link = calloc(size, sizeof *h->link);
  h->polls = calloc(size, sizeof *h->polls);
  for (size_t r = 0; h->sockets != NULL && r < size; r++) h->sockets[r] = -1;
  if (h->wake < 0 || !h->sockets || !h->left || !h->link || !h->polls) {
    end_heart(h, false);
    return neap_fail(NEAP_OUT_OF_MEMORY, "heartbeat: out of memory");
  }
  memset(h->left, 0xff, size * sizeof *h->left);
  *out = h;
  return NEAP_OK;
}

static neap_status connect_heart(struct heart *h, bool *runs) {
  TRY(star_connect(&h->inner, h->options.address, h->options.connect_seconds, h->sockets));
  for (int r = 0; r < h->inner.size; r++)
    if (h->sockets[r] >= 0)
      h->link[h->links++] = (struct link){.rank = r, .heard = clock_seconds(), .open = true};
  TRY(start_thread(h));
  *runs = true;
  return NEAP_OK;
}

neap_status heartbeat_start(const neap_collective *inner, const struct heartbeat_options *options,
                            neap_collective *out) {
  struct heart *h = NULL;
  bool runs = false;
  neap_status status = collective_share_status(inner, new_heart(inner, options, &h));
  if (status == NEAP_OK && h != NULL) status = collective_share_status(inner, connect_heart(h, &runs));
  if (status != NEAP_OK || h == NULL) {
    if (h != NULL) end_heart(h, runs);
    return status;
  }
  set(h, &h->watching);
  *out = (neap_collective){inner->rank,     inner->size,   h,           heart_exchange,
                           heart_allgather, heart_barrier, heart_close, heart_part};
  return NEAP_OK;
}
