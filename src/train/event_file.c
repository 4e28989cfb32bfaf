#include "train/event_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/crc32c.h"

/* ---- Records ---- */

static uint32_t masked_crc(const void *bytes, size_t count) {
  const uint32_t crc = crc32c(bytes, count);
  return (crc >> 15 | crc << 17) + 0xA282EAD8;
}

/* A growing message of Protocol Buffers. */
struct message {
  unsigned char bytes[1024];
  size_t count;
};

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 }; /* wire types */

static void put(struct message *m, const void *bytes, size_t count) {
  if (count > sizeof m->bytes - m->count) count = sizeof m->bytes - m->count;
  memcpy(m->bytes + m->count, bytes, count);
  m->count += count;
}

static void put_varint(struct message *m, uint64_t value) {
  do {
    const unsigned char byte = (unsigned char)(value & 0x7F) | (value > 0x7F ? 0x80 : 0);
    put(m, &byte, 1);
    value >>= 7;
  } while (value > 0);
}

static void put_key(struct message *m, unsigned field, unsigned type) { put_varint(m, field << 3 | type); }

static void put_bytes(struct message *m, unsigned field, const void *bytes, size_t count) {
  put_key(m, field, BYTES);
  put_varint(m, count);
  put(m, bytes, count);
}

/* Writes Event.wall_time and Event.step. */
static void begin_event(struct message *event, int64_t step) {
  struct timespec now = {0};
  clock_gettime(CLOCK_REALTIME, &now);
  const double seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
  put_key(event, 1, FIXED64);
  put(event, &seconds, sizeof seconds);
  put_key(event, 2, VARINT);
  put_varint(event, (uint64_t)step);
}

/* Passes each record to the system, so that a killed process loses at most the last one. */
static neap_status write_event(struct event_file *events, const struct message *event) {
  const uint64_t length = event->count;
  const uint32_t of_length = masked_crc(&length, sizeof length), of_data = masked_crc(event->bytes, length);
  FILE *file = events->file;
  const bool written = fwrite(&length, sizeof length, 1, file) == 1 &&
                       fwrite(&of_length, sizeof of_length, 1, file) == 1 &&
                       fwrite(event->bytes, 1, length, file) == length &&
                       fwrite(&of_data, sizeof of_data, 1, file) == 1 && fflush(file) == 0 && !ferror(file);
  RETURN_IF(!written, NEAP_IO_FAILED, "%s: cannot be written: %s", events->path, strerror(errno));
  return NEAP_OK;
}

/* ---- A file ---- */

/* Creates a file with a name that no other file has: of the second, the machine and the process. */
static neap_status create(const char *folder, struct region *region, struct event_file *events) {
  char machine[65] = "";
  if (gethostname(machine, sizeof machine - 1) != 0 || strchr(machine, '/') != NULL)
    strcpy(machine, "unknown");
  for (int number = 0; number < 1000; number++) {
    events->path = region_format(region, "%s/events.out.tfevents.%010lld.%s.%ld.%d.neap", folder,
                                 (long long)time(NULL), machine, (long)getpid(), number);
    RETURN_IF_NULL(events->path);
    const int descriptor = open(events->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0 && errno == EEXIST) continue;
    RETURN_IF(descriptor < 0, NEAP_IO_FAILED, "%s: cannot be written: %s", events->path, strerror(errno));
    events->file = fdopen(descriptor, "wb");
    if (events->file == NULL) close(descriptor);
    RETURN_IF_NULL(events->file);
    return NEAP_OK;
  }
  return neap_fail(NEAP_IO_FAILED, "%s: exists already, as do 999 others", events->path);
}

/* Writes Event.file_version and, for a resumed run, Event.session_log with the status START, which
 * invalidates later steps in other files. */
static neap_status write_head(struct event_file *events, int64_t resumed_step) {
  static const char version[] = "brain.Event:2";
  static const unsigned char start[] = {1 << 3 | VARINT, 1};
  struct message event = {.count = 0};
  begin_event(&event, 0);
  put_bytes(&event, 3, version, sizeof version - 1);
  TRY(write_event(events, &event));
  if (resumed_step < 0) return NEAP_OK;
  event.count = 0;
  begin_event(&event, resumed_step + 1);
  put_bytes(&event, 7, start, sizeof start);
  return write_event(events, &event);
}

neap_status event_file_open(const char *folder, int64_t resumed_step, struct region *region,
                            struct event_file *events) {
  *events = (struct event_file){0};
  if (folder == NULL) return NEAP_OK;
  RETURN_IF(mkdir(folder, 0777) != 0 && errno != EEXIST, NEAP_IO_FAILED, "%s: cannot be made: %s", folder,
            strerror(errno));
  TRY(create(folder, region, events));
  return write_head(events, resumed_step);
}

/* Writes Summary.value, of a Value with tag and simple_value. */
static void put_scalar(struct message *summary, const char *tag, double number) {
  struct message value = {.count = 0};
  const float single = (float)number;
  put_bytes(&value, 1, tag, strlen(tag));
  put_key(&value, 2, FIXED32);
  put(&value, &single, sizeof single);
  put_bytes(summary, 1, value.bytes, value.count);
}

neap_status event_file_write(struct event_file *events, const neap_train_progress *p) {
  if (events->file == NULL) return NEAP_OK;
  const struct {
    const char *tag;
    bool there;
    double value;
  } scalars[] = {
      {"loss/train", true, p->loss},
      {"accuracy/train", p->accuracy >= 0, p->accuracy},
      {"loss/test", p->test_accuracy >= 0 || p->test_mae >= 0, p->test_loss},
      {"accuracy/test", p->test_accuracy >= 0, p->test_accuracy},
      {"mae/test", p->test_mae >= 0, p->test_mae},
      {"rmse/test", p->test_mae >= 0, p->test_rmse},
      {"r2/test", p->test_mae >= 0, p->test_r2},
      {"bits_per_byte/test", p->bits_per_byte >= 0, p->bits_per_byte},
      {"learning_rate", true, p->learning_rate},
      {"seconds", true, p->seconds},
      {"gradient_norm", p->gradient_norm >= 0, p->gradient_norm},
      {"loss_scale", p->loss_scale > 0, p->loss_scale},
  };
  struct message event = {.count = 0}, summary = {.count = 0};
  for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++)
    if (scalars[i].there) put_scalar(&summary, scalars[i].tag, scalars[i].value);
  begin_event(&event, p->step);
  put_bytes(&event, 5, summary.bytes, summary.count);
  return write_event(events, &event);
}

neap_status event_file_close(struct event_file *events) {
  FILE *file = events->file;
  events->file = NULL;
  RETURN_IF(file != NULL && fclose(file) != 0, NEAP_IO_FAILED, "%s: cannot be written: %s", events->path,
            strerror(errno));
  return NEAP_OK;
}
