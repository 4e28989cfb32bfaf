#include "collective/shared_memory.h"

#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "collective/calls.h"
#include "collective/streaming_copy.h"

enum {
  LINE = 64,                /* bytes of a cache line */
  CHUNK_BYTES = 128 << 10,  /* are copied at a time */
  STREAMED_BYTES = 8 << 10, /* pieces from here on are not kept in caches */
  LOOKS = 200,              /* at the doorbell before a rank sleeps, where each has a processor */
  SLEEP_SECONDS = 1         /* at most, then a rank looks again */
};

/* Rung by everyone who did something that the rank may wait for. */
struct doorbell {
  _Alignas(LINE) atomic_uint rung;
  atomic_uint sleeping; /* its rank waits in the kernel */
};

/* A lane: the bytes that one rank sends another. The sender writes the first line, the receiver the
 * second. */
struct lane {
  _Alignas(LINE) atomic_ullong call; /* number of the pair's last call whose data are here, from 1 */
  uint64_t bytes;                    /* of that call */
  enum call_kind kind;
  atomic_ullong written;             /* of these bytes */
  _Alignas(LINE) atomic_ullong read; /* of these bytes */
  atomic_ullong done;                /* number of the last call of which the receiver has read all */
};

struct shared_region {
  int size;
  uint64_t bytes, outboxes; /* of the region; where outboxes begin in it */
  /* A failure: who records it (its rank + 1, 0: nobody), and whether the record is complete. */
  atomic_int claimed;
  atomic_bool failed;
  struct ending failure;
  atomic_bool left[SHARED_MOST_RANKS];
  struct doorbell doorbells[SHARED_MOST_RANKS];
  struct lane lanes[]; /* [size * size], that from a rank to a rank at from * size + to */
};

/* Bytes to send: to one rank, or to all others. */
struct stream {
  const char *data;
  char *ring;
  uint64_t bytes, capacity, sent;
  int first, count; /* its receivers: `count` places of the group from `first` on; they wrap around */
};

/* Bytes to receive. */
struct inlet {
  char *data;
  const char *ring;
  uint64_t bytes, capacity, got;
  bool begun, done;
};

/* The ranks of a call: `count` of the region's, every `stride`-th from `first` on. */
struct group {
  int first, stride, count;
  int own; /* the place of this rank in it */
};

/* The calls of two ranks with each other, in whichever groups. */
struct pair {
  uint64_t calls;     /* number of the current one, or of the last */
  uint64_t announced; /* of the last that the other rank sees this rank in */
};

struct member {
  struct shared_region *region;
  int rank, size, looks;
  struct pair *pairs; /* [size] */
  struct group group; /* of the current call */
  enum call_kind kind;
  bool announced; /* the others see that this rank is in the call */
  int streams;
  struct stream *out; /* [streams], at most [size] */
  struct inlet *in;   /* [size] */
  neap_piece *pieces; /* [2 * size], of an allgather */
};

/* A collective of some of the ranks. */
struct part {
  struct member *member; /* borrowed */
  struct group group;
};

static uint64_t aligned(uint64_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }

static uint64_t outboxes_at(int size) {
  return aligned(sizeof(struct shared_region) + (uint64_t)size * (uint64_t)size * sizeof(struct lane));
}

uint64_t shared_memory_bytes(int size) { return outboxes_at(size) + (uint64_t)size * OUTBOX_BYTES; }

neap_status shared_memory_map(int size, struct shared_region **region) {
  RETURN_IF(size < 1 || size > SHARED_MOST_RANKS, NEAP_INVALID_ARGUMENT,
            "processes: their number must be from 1 to %d (got %d)", SHARED_MOST_RANKS, size);
  const uint64_t bytes = shared_memory_bytes(size);
  struct shared_region *r = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  RETURN_IF(r == MAP_FAILED, NEAP_OUT_OF_MEMORY,
            "processes: the system cannot map %llu bytes of shared memory", (unsigned long long)bytes);
  r->size = size;
  r->bytes = bytes;
  r->outboxes = outboxes_at(size);
  *region = r;
  return NEAP_OK;
}

void shared_memory_unmap(struct shared_region *region) {
  if (region != NULL) munmap(region, region->bytes);
}

static void ring(struct doorbell *bell) {
  atomic_fetch_add(&bell->rung, 1);
  if (atomic_load(&bell->sleeping)) syscall(SYS_futex, &bell->rung, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void ring_all(struct shared_region *region) {
  for (int r = 0; r < region->size; r++) ring(&region->doorbells[r]);
}

static void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* Waits until the bell is rung after `rung` was read from it: polls `looks` times, then sleeps. It may return
 * earlier, and does so after SLEEP_SECONDS at the latest. */
static void wait_for(struct doorbell *bell, unsigned rung, int looks) {
  for (int i = 0; i < looks; i++) {
    if (atomic_load_explicit(&bell->rung, memory_order_acquire) != rung) return;
    if (i < looks / 2)
      relax();
    else
      sched_yield(); /* who would ring may wait for this processor */
  }
  const struct timespec most = {.tv_sec = SLEEP_SECONDS};
  atomic_store(&bell->sleeping, 1);
  if (atomic_load(&bell->rung) == rung) syscall(SYS_futex, &bell->rung, FUTEX_WAIT, rung, &most, NULL, 0);
  atomic_store(&bell->sleeping, 0);
}

static void record(struct shared_region *region, neap_status status, const char *message) {
  region->failure.status = status;
  strncpy(region->failure.message, message, sizeof region->failure.message - 1);
  atomic_store(&region->failed, true);
  ring_all(region);
}

void shared_memory_fail(struct shared_region *region, int rank, neap_status status, const char *message) {
  int nobody = 0;
  if (atomic_compare_exchange_strong(&region->claimed, &nobody, rank + 1)) record(region, status, message);
}

void shared_memory_fail_dead(struct shared_region *region, int dead, neap_status status,
                             const char *message) {
  shared_memory_fail(region, dead, status, message);
  if (atomic_load(&region->claimed) == dead + 1 && !atomic_load(&region->failed))
    record(region, status, message);
}

neap_status shared_memory_failure(const struct shared_region *region, int *rank) {
  if (!atomic_load_explicit(&region->failed, memory_order_acquire)) return NEAP_OK;
  if (rank != NULL) *rank = atomic_load(&region->claimed) - 1;
  return ending_tell(&region->failure);
}

bool shared_memory_has_left(const struct shared_region *region, int rank) {
  return atomic_load(&region->left[rank]);
}

void shared_memory_leave(struct shared_region *region, int rank) {
  atomic_store(&region->left[rank], true);
  ring_all(region);
}

static struct lane *lane_of(const struct member *m, int from, int to) {
  return &m->region->lanes[from * m->size + to];
}

static char *outbox_of(const struct member *m, int rank) {
  return (char *)m->region + m->region->outboxes + (uint64_t)rank * OUTBOX_BYTES;
}

/* The ring for what `from` sends `to` in a call of this kind. */
static char *ring_of(const struct member *m, int from, int to, uint64_t *capacity) {
  *capacity =
      m->kind == CALL_ALLGATHER || m->size < 3 ? OUTBOX_BYTES : OUTBOX_BYTES / (m->size - 1) / LINE * LINE;
  const int place = m->kind == CALL_ALLGATHER ? 0 : (to - from - 1 + m->size) % m->size;
  return outbox_of(m, from) + (uint64_t)place * *capacity;
}

/* Returns the number of bytes to copy at once: at most `some`, from position `at` of a ring. */
static uint64_t chunk_of(uint64_t some, uint64_t at, uint64_t capacity) {
  const uint64_t most = capacity / 4 < CHUNK_BYTES ? capacity / 4 : CHUNK_BYTES,
                 end = capacity - at % capacity;
  if (some > most) some = most;
  return some < end ? some : end;
}

/* Copies a chunk of a piece of `all` bytes. */
static void copy(void *to, const void *from, uint64_t bytes, uint64_t all) {
  if (all < STREAMED_BYTES)
    memcpy(to, from, bytes);
  else
    streaming_copy(to, from, bytes);
}

/* Returns the rank at a place of the current call's group, which wraps around. */
static int rank_at(const struct member *m, int place) {
  return m->group.first + place % m->group.count * m->group.stride;
}

static int receiver(const struct member *m, const struct stream *s, int i) {
  return rank_at(m, s->first + i);
}

/* Bytes of the stream that every receiver has read. */
static uint64_t read_by_all(const struct member *m, const struct stream *s) {
  uint64_t least = s->sent;
  for (int i = 0; i < s->count; i++) {
    const uint64_t read =
        atomic_load_explicit(&lane_of(m, m->rank, receiver(m, s, i))->read, memory_order_acquire);
    if (read < least) least = read;
  }
  return least;
}

/* Copies some of a stream into its ring. Returns whether that was possible. */
static bool push(struct member *m, struct stream *s) {
  if (s->sent == s->bytes) return false;
  const uint64_t held = s->sent - read_by_all(m, s), space = s->capacity - held, left = s->bytes - s->sent;
  const uint64_t bytes = chunk_of(left < space ? left : space, s->sent, s->capacity);
  if (bytes == 0) return false;
  copy(s->ring + s->sent % s->capacity, s->data + s->sent, bytes, s->bytes);
  s->sent += bytes;
  return true;
}

static void tell_receivers(struct member *m, const struct stream *s) {
  for (int i = 0; i < s->count; i++) {
    const int to = receiver(m, s, i);
    atomic_store_explicit(&lane_of(m, m->rank, to)->written, s->sent, memory_order_release);
    ring(&m->region->doorbells[to]);
  }
}

/* Returns true if every receiver has read all of this rank's former calls: its outbox is empty. */
static bool is_drained(const struct member *m) {
  for (int r = 0; r < m->size; r++)
    if (r != m->rank &&
        atomic_load_explicit(&lane_of(m, m->rank, r)->done, memory_order_acquire) != m->pairs[r].announced)
      return false;
  return true;
}

/* Shows a stream of the current call to its receivers, with its first bytes. */
static void announce(struct member *m, struct stream *s) {
  for (int i = 0; i < s->count; i++)
    atomic_store_explicit(&lane_of(m, m->rank, receiver(m, s, i))->read, 0, memory_order_relaxed);
  push(m, s);
  for (int i = 0; i < s->count; i++) {
    const int to = receiver(m, s, i);
    struct lane *lane = lane_of(m, m->rank, to);
    lane->bytes = s->bytes;
    lane->kind = m->kind;
    atomic_store_explicit(&lane->written, s->sent, memory_order_relaxed);
    m->pairs[to].announced = m->pairs[to].calls;
    atomic_store_explicit(&lane->call, m->pairs[to].calls, memory_order_release);
    ring(&m->region->doorbells[to]);
  }
}

static bool push_all(struct member *m) {
  bool moved = false;
  if (!m->announced) {
    if (!is_drained(m)) return false;
    for (int i = 0; i < m->streams; i++) announce(m, &m->out[i]);
    return m->announced = true;
  }
  for (int i = 0; i < m->streams; i++)
    if (push(m, &m->out[i])) {
      tell_receivers(m, &m->out[i]);
      moved = true;
    }
  return moved;
}

/* Takes what rank `from` has written. `*moved`: there was something. */
static neap_status pull(struct member *m, int from, bool *moved) {
  struct inlet *in = &m->in[from];
  struct lane *lane = lane_of(m, from, m->rank);
  if (in->done) return NEAP_OK;
  if (!in->begun) {
    if (atomic_load_explicit(&lane->call, memory_order_acquire) != m->pairs[from].calls) return NEAP_OK;
    TRY(calls_check(from, lane->kind, lane->bytes, m->rank, m->kind, in->bytes));
    in->begun = *moved = true;
  }
  const uint64_t written = atomic_load_explicit(&lane->written, memory_order_acquire);
  const uint64_t bytes = chunk_of(written - in->got, in->got, in->capacity);
  if (bytes > 0) {
    copy(in->data + in->got, in->ring + in->got % in->capacity, bytes, in->bytes);
    in->got += bytes;
    atomic_store_explicit(&lane->read, in->got, memory_order_release);
    *moved = true;
  }
  if (in->got == in->bytes) {
    in->done = *moved = true;
    atomic_store_explicit(&lane->done, m->pairs[from].calls, memory_order_release);
  }
  if (*moved) ring(&m->region->doorbells[from]);
  return NEAP_OK;
}

/* `*moved`: something was there. `*done`: everything has come. */
static neap_status pull_all(struct member *m, bool *moved, bool *done) {
  *done = true;
  for (int i = 1; i < m->group.count; i++) {
    const int from = rank_at(m, m->group.own + m->group.count - i);
    bool some = false;
    TRY(pull(m, from, &some));
    *moved |= some;
    *done &= m->in[from].done;
  }
  return NEAP_OK;
}

static bool all_sent(const struct member *m) {
  for (int i = 0; i < m->streams; i++)
    if (m->out[i].sent < m->out[i].bytes) return false;
  return m->announced;
}

/* Fails where a rank has left that does not take part in the current call. */
static neap_status check_left(const struct member *m) {
  for (int i = 1; i < m->group.count; i++) {
    const int r = rank_at(m, m->group.own + i);
    RETURN_IF(shared_memory_has_left(m->region, r) &&
                  atomic_load(&lane_of(m, r, m->rank)->call) < m->pairs[r].calls,
              NEAP_IO_FAILED, "collective: rank %d closed its connection while another rank called", r);
  }
  return NEAP_OK;
}

static neap_status move(struct member *m) {
  struct doorbell *bell = &m->region->doorbells[m->rank];
  for (;;) {
    const unsigned rung = atomic_load(&bell->rung);
    bool done = false, moved = push_all(m);
    TRY(pull_all(m, &moved, &done));
    if (done && all_sent(m)) return NEAP_OK;
    TRY(shared_memory_failure(m->region, NULL));
    if (moved) continue;
    TRY(check_left(m));
    wait_for(bell, rung, m->looks);
  }
}

/* Runs a call of a group: `send` and `receive` have a piece for each of its places. */
static neap_status run_call(struct member *m, struct group group, enum call_kind kind, const neap_piece *send,
                            const neap_piece *receive) {
  m->group = group;
  m->kind = kind;
  m->announced = false;
  m->streams = 0;
  for (int i = 1; i < group.count; i++) {
    const int next = (group.own + i) % group.count, former = (group.own + group.count - i) % group.count,
              to = rank_at(m, next), from = rank_at(m, former);
    struct stream *s = &m->out[m->streams];
    struct inlet *in = &m->in[from];
    m->pairs[to].calls++;
    *in = (struct inlet){.data = receive ? receive[former].data : NULL,
                         .bytes = receive ? receive[former].bytes : 0};
    in->ring = ring_of(m, from, m->rank, &in->capacity);
    if (kind == CALL_ALLGATHER && i > 1) continue;
    *s = (struct stream){
        .data = send ? send[next].data : NULL, .bytes = send ? send[next].bytes : 0, .first = next};
    s->count = kind == CALL_ALLGATHER ? group.count - 1 : 1;
    s->ring = ring_of(m, m->rank, to, &s->capacity);
    m->streams++;
  }
  const neap_status status = move(m);
  if (status != NEAP_OK) shared_memory_fail(m->region, m->rank, status, neap_error_message());
  return status;
}

static neap_status run_allgather(struct member *m, struct group group, void *all, const uint64_t *bytes) {
  calls_allgather_pieces(group.own, group.count, all, bytes, m->pieces, m->pieces + m->size);
  return run_call(m, group, CALL_ALLGATHER, m->pieces, m->pieces + m->size);
}

static struct group everyone(const struct member *m) { return (struct group){0, 1, m->size, m->rank}; }

static neap_status shared_exchange(void *self, const neap_piece *send, const neap_piece *receive) {
  return run_call(self, everyone(self), CALL_EXCHANGE, send, receive);
}

static neap_status shared_allgather(void *self, void *all, const uint64_t *bytes) {
  return run_allgather(self, everyone(self), all, bytes);
}

static neap_status shared_barrier(void *self) {
  return run_call(self, everyone(self), CALL_BARRIER, NULL, NULL);
}

static neap_status part_exchange(void *self, const neap_piece *send, const neap_piece *receive) {
  const struct part *p = self;
  return run_call(p->member, p->group, CALL_EXCHANGE, send, receive);
}

static neap_status part_allgather(void *self, void *all, const uint64_t *bytes) {
  const struct part *p = self;
  return run_allgather(p->member, p->group, all, bytes);
}

static neap_status part_barrier(void *self) {
  const struct part *p = self;
  return run_call(p->member, p->group, CALL_BARRIER, NULL, NULL);
}

static neap_status shared_part(void *self, int first, int stride, int count, neap_collective *out) {
  struct member *m = self;
  struct part *p = malloc(sizeof *p);
  RETURN_IF_NULL(p);
  *p = (struct part){m, {first, stride, count, (m->rank - first) / stride}};
  *out = (neap_collective){p->group.own, count, p, part_exchange, part_allgather, part_barrier, free, NULL};
  return NEAP_OK;
}

void shared_memory_disconnect(void *self) {
  struct member *m = self;
  if (m == NULL) return;
  free(m->out);
  free(m->in);
  free(m->pieces);
  free(m->pairs);
  free(m);
}

void shared_memory_close(void *self) {
  struct member *m = self;
  if (m == NULL) return;
  shared_memory_leave(m->region, m->rank);
  shared_memory_disconnect(m);
}

/* Waiting ranks look for work without sleep only where each may have a processor. */
static int looks_for(int size) {
  cpu_set_t processors;
  return sched_getaffinity(0, sizeof processors, &processors) == 0 && CPU_COUNT(&processors) >= size ? LOOKS
                                                                                                     : 0;
}

neap_status shared_memory_connect(struct shared_region *region, int rank, neap_collective *out) {
  const size_t size = (size_t)region->size;
  struct member *m = calloc(1, sizeof *m);
  RETURN_IF_NULL(m);
  *m =
      (struct member){.region = region, .rank = rank, .size = region->size, .looks = looks_for(region->size)};
  m->out = calloc(size, sizeof *m->out);
  m->in = calloc(size, sizeof *m->in);
  m->pieces = calloc(2 * size, sizeof *m->pieces);
  m->pairs = calloc(size, sizeof *m->pairs);
  if (m->out == NULL || m->in == NULL || m->pieces == NULL || m->pairs == NULL) {
    shared_memory_disconnect(m);
    return neap_fail(NEAP_OUT_OF_MEMORY, "shared_memory_connect: out of memory");
  }
  *out = (neap_collective){rank,           region->size,        m,          shared_exchange, shared_allgather,
                           shared_barrier, shared_memory_close, shared_part};
  return NEAP_OK;
}

struct shared_region *shared_memory_region(const void *self) {
  return ((const struct member *)self)->region;
}
