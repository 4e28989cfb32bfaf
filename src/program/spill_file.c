#include "program/spill_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/file.h"
#include "program/lane.h"

enum { GROUP = 2 << 20 /* bytes that are read at once */ };

struct variable {
  uint64_t offset, bytes, piece;
  uint32_t *sums; /* [pieces] */
  const char *name;
};

struct spill_file {
  char *folder;
  int descriptor;
  bool direct; /* past the page cache */
  const struct device_memory *memory;
  struct region region;
  struct variable *variables;
  int32_t count;
  uint64_t bytes;
  unsigned char *page; /* a piece, aligned: of what does not lie so in memory. The lane's alone. */
  unsigned char
      *kept; /* the piece that rows were read from last: `kept_piece` of `kept_variable`, -1: none */
  int64_t kept_variable, kept_piece;
  struct lane *lane;
  struct spill io;
  atomic_ullong read, written;
};

static uint64_t to_pages(uint64_t bytes) { return (bytes + SPILL_PAGE - 1) / SPILL_PAGE * SPILL_PAGE; }

static int64_t pieces_of(uint64_t bytes, uint64_t piece) { return (int64_t)((bytes + piece - 1) / piece); }

/* Returns the bytes that a variable has in the file: pieces of whole pages. */
static uint64_t room_of(const struct spilled_variable *v) {
  const uint64_t before = (v->bytes - 1) / v->piece;
  return before * to_pages(v->piece) + to_pages(v->bytes - before * v->piece);
}

uint64_t spill_file_bytes(const struct spilled_variable *variables, int32_t count) {
  uint64_t bytes = 0;
  for (int32_t i = 0; i < count; i++) bytes += room_of(&variables[i]);
  return bytes;
}

/* ---- Pieces ---- */

static neap_status fail_io(const struct spill_file *f, const char *what, uint64_t offset, int why) {
  return neap_fail(NEAP_IO_FAILED,
                   "disk %s: its file cannot be %s at offset %llu: %s; check the disk, and resume from the "
                   "last checkpoint (`resume`)",
                   f->folder, what, (unsigned long long)offset, why == 0 ? "it ends there" : strerror(why));
}

/* Reads or writes whole pages. */
static neap_status move_pages(struct spill_file *f, bool write, uint64_t offset, unsigned char *at,
                              uint64_t bytes) {
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t got = write ? pwrite(f->descriptor, at + done, bytes - done, (off_t)(offset + done))
                              : pread(f->descriptor, at + done, bytes - done, (off_t)(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return fail_io(f, write ? "written" : "read", offset + done, got < 0 ? errno : 0);
    if (got < SPILL_PAGE) return fail_io(f, write ? "written" : "read", offset + done, EIO);
    done += (uint64_t)got / SPILL_PAGE * SPILL_PAGE; /* a direct one must begin at a page */
  }
  if (!f->direct && write) sync_file_range(f->descriptor, (off_t)offset, (off_t)bytes, SYNC_FILE_RANGE_WRITE);
  if (!f->direct) posix_fadvise(f->descriptor, (off_t)offset, (off_t)bytes, POSIX_FADV_DONTNEED);
  return NEAP_OK;
}

/* Fails if a piece has other bytes than were written. */
static neap_status check_piece(const struct spill_file *f, const struct variable *v, int64_t piece,
                               const unsigned char *data, uint64_t bytes) {
  RETURN_IF(crc32c(data, bytes) != v->sums[piece], NEAP_BAD_FORMAT,
            "disk %s: '%s' was changed on the disk (piece %lld, at offset %llu); check the disk, and resume "
            "from the last checkpoint (`resume`)",
            f->folder, v->name, (long long)piece,
            (unsigned long long)(v->offset + (uint64_t)piece * to_pages(v->piece)));
  return NEAP_OK;
}

/* Writes a piece. `room`: its memory has whole pages. */
static neap_status write_piece(struct spill_file *f, int64_t variable, int64_t piece,
                               const unsigned char *data, bool room) {
  const struct variable *v = &f->variables[variable];
  const uint64_t left = v->bytes - (uint64_t)piece * v->piece, bytes = left < v->piece ? left : v->piece;
  const bool in_place = room && (uintptr_t)data % SPILL_PAGE == 0;
  if (variable == f->kept_variable && piece == f->kept_piece) f->kept_variable = -1;
  if (!in_place) memcpy(f->page, data, bytes);
  v->sums[piece] = crc32c(data, bytes);
  TRY(move_pages(f, true, v->offset + (uint64_t)piece * to_pages(v->piece),
                 in_place ? (unsigned char *)(uintptr_t)data : f->page, to_pages(bytes)));
  f->written += bytes;
  return NEAP_OK;
}

/* Reads pieces [first, end), which are next to each other in the file, at once. */
static neap_status read_group(struct spill_file *f, int64_t variable, int64_t first, int64_t end,
                              unsigned char *data) {
  const struct variable *v = &f->variables[variable];
  const uint64_t from = (uint64_t)first * v->piece, until = (uint64_t)end * v->piece,
                 bytes = (until < v->bytes ? until : v->bytes) - from;
  const bool in_place = (uintptr_t)data % SPILL_PAGE == 0 && bytes % SPILL_PAGE == 0;
  unsigned char *at = in_place ? data : f->page;
  TRY(move_pages(f, false, v->offset + (uint64_t)first * to_pages(v->piece), at, to_pages(bytes)));
  f->read += bytes;
  for (int64_t p = first; p < end; p++) {
    const uint64_t begin = (uint64_t)(p - first) * v->piece, left = bytes - begin;
    TRY(check_piece(f, v, p, at + begin, left < v->piece ? left : v->piece));
  }
  if (!in_place) memcpy(data, at, bytes);
  return NEAP_OK;
}

/* ---- Jobs ---- */

static neap_status run_write(void *context, const struct lane_job *job) {
  return write_piece(context, job->number, (int64_t)job->bytes, (unsigned char *)(uintptr_t)job->place, true);
}

static neap_status run_read(void *context, const struct lane_job *job) {
  const int64_t piece = (int64_t)job->bytes;
  return read_group(context, job->number, piece, piece + 1, (unsigned char *)(uintptr_t)job->place);
}

static uint64_t start(void *context, bool write, int64_t variable, int64_t piece, void *memory) {
  struct spill_file *f = context;
  lane_start(f->lane, &(struct lane_job){.run = write ? run_write : run_read,
                                         .context = f,
                                         .number = variable,
                                         .bytes = (uint64_t)piece,
                                         .place = (uint64_t)(uintptr_t)memory});
  return lane_started(f->lane);
}

static neap_status wait_for(void *context, uint64_t number) {
  return lane_wait(((struct spill_file *)context)->lane, number);
}

static neap_status write_all(struct spill_file *f, int64_t variable, const unsigned char *data) {
  const struct variable *v = &f->variables[variable];
  for (int64_t p = 0; p < pieces_of(v->bytes, v->piece); p++)
    TRY(write_piece(f, variable, p, data + (uint64_t)p * v->piece,
                    ((uint64_t)p + 1) * v->piece <= v->bytes && v->piece % SPILL_PAGE == 0));
  return NEAP_OK;
}

/* Reads a variable, some pieces at a time if they fill pages. */
static neap_status read_all(struct spill_file *f, int64_t variable, unsigned char *data) {
  const struct variable *v = &f->variables[variable];
  const int64_t count = pieces_of(v->bytes, v->piece),
                group = v->piece % SPILL_PAGE == 0 && v->piece < GROUP ? GROUP / (int64_t)v->piece : 1;
  for (int64_t first = 0; first < count; first += group)
    TRY(read_group(f, variable, first, first + group < count ? first + group : count,
                   data + (uint64_t)first * v->piece));
  return NEAP_OK;
}

/* Reads or (`write`) writes all of a variable, at a place in the session's memory. */
static neap_status move_whole(struct spill_file *f, const struct lane_job *job, bool write) {
  unsigned char *base;
  TRY(device_enter(f->memory, &base));
  const neap_status status =
      write ? write_all(f, job->number, base + job->place) : read_all(f, job->number, base + job->place);
  device_leave(f->memory);
  return status;
}

static neap_status run_load(void *context, const struct lane_job *job) {
  return move_whole(context, job, false);
}
static neap_status run_store(void *context, const struct lane_job *job) {
  return move_whole(context, job, true);
}

static void start_whole(struct spill_file *f, bool write, int64_t variable, uint64_t place) {
  lane_start(f->lane,
             &(struct lane_job){
                 .run = write ? run_store : run_load, .context = f, .number = variable, .place = place});
}

static void load(void *context, int64_t variable, uint64_t place) {
  start_whole(context, false, variable, place);
}
static void store(void *context, int64_t variable, uint64_t place) {
  start_whole(context, true, variable, place);
}

/* Reads the piece to keep. */
static neap_status run_keep(void *context, const struct lane_job *job) {
  struct spill_file *f = context;
  const int64_t piece = (int64_t)job->bytes;
  f->kept_variable = -1;
  TRY(read_group(f, job->number, piece, piece + 1, f->kept));
  f->kept_variable = job->number;
  f->kept_piece = piece;
  return NEAP_OK;
}

static neap_status keep_piece(struct spill_file *f, int64_t variable, int64_t piece) {
  lane_start(f->lane,
             &(struct lane_job){.run = run_keep, .context = f, .number = variable, .bytes = (uint64_t)piece});
  return lane_wait(f->lane, lane_started(f->lane));
}

/* Reads bytes through the kept piece. No write runs meanwhile: updates wait for their own writes. */
static neap_status read_bytes(void *context, int64_t variable, uint64_t first, uint64_t count, void *to) {
  struct spill_file *f = context;
  const uint64_t piece = f->variables[variable].piece;
  for (uint64_t done = 0; done < count;) {
    const uint64_t at = first + done, begin = at % piece, left = piece - begin,
                   some = count - done < left ? count - done : left;
    const int64_t k = (int64_t)(at / piece);
    if (f->kept_variable != variable || f->kept_piece != k) TRY(keep_piece(f, variable, k));
    memcpy((unsigned char *)to + done, f->kept + begin, some);
    done += some;
  }
  return NEAP_OK;
}

/* ---- Without jobs ---- */

neap_status spill_file_read(struct spill_file *f, int64_t variable, void *bytes) {
  lane_settle(f->lane);
  return read_all(f, variable, bytes);
}

neap_status spill_file_write(struct spill_file *f, int64_t variable, const void *bytes) {
  lane_settle(f->lane);
  return write_all(f, variable, bytes);
}

neap_status spill_file_read_piece(struct spill_file *f, int64_t variable, int64_t piece, void *bytes) {
  lane_settle(f->lane);
  return read_group(f, variable, piece, piece + 1, bytes);
}

neap_status spill_file_write_piece(struct spill_file *f, int64_t variable, int64_t piece, const void *bytes) {
  lane_settle(f->lane);
  return write_piece(f, variable, piece, bytes, false);
}

/* ---- The file ---- */

neap_status spill_file_check_folder(const char *folder) {
  static const uint32_t tmpfs = 0x01021994, ramfs = 0x858458f6; /* statfs(2) */
  struct statfs of;
  RETURN_IF(statfs(folder, &of) != 0, NEAP_IO_FAILED, "disk %s: %s; give a folder on a disk", folder,
            strerror(errno));
  RETURN_IF((uint32_t)of.f_type == tmpfs || (uint32_t)of.f_type == ramfs, NEAP_INVALID_ARGUMENT,
            "disk %s: its files lie in memory (tmpfs); give a folder on a disk", folder);
  RETURN_IF(!file_is_folder(folder) || access(folder, W_OK | X_OK) != 0, NEAP_IO_FAILED,
            "disk %s: is not a folder that may be written; give another folder", folder);
  return NEAP_OK;
}

/* Opens a file without a name. */
static neap_status open_file(struct spill_file *f) {
  f->descriptor = file_open_nameless(f->folder, "neap-variables");
  RETURN_IF(f->descriptor < 0, NEAP_IO_FAILED, "disk %s: no file can be made there: %s; give another folder",
            f->folder, strerror(errno));
  int why = 0;
  do why = f->bytes > 0 ? posix_fallocate(f->descriptor, 0, (off_t)f->bytes) : 0;
  while (why == EINTR);
  RETURN_IF(
      why != 0, NEAP_IO_FAILED,
      "disk %s: no room for %llu bytes: %s; free some, give another folder (`disk`), or a larger budget",
      f->folder, (unsigned long long)f->bytes, strerror(why));
  const int flags = fcntl(f->descriptor, F_GETFL);
  f->direct = flags >= 0 && fcntl(f->descriptor, F_SETFL, flags | O_DIRECT) == 0;
  return NEAP_OK;
}

/* Finds out whether direct writes work: some file systems take the flag and refuse the write. */
static void try_direct(struct spill_file *f) {
  if (!f->direct || f->bytes == 0 || pwrite(f->descriptor, f->page, SPILL_PAGE, 0) == SPILL_PAGE) return;
  f->direct = false;
  fcntl(f->descriptor, F_SETFL, fcntl(f->descriptor, F_GETFL) & ~O_DIRECT);
}

/* Fills the checksums of a variable of zeros, as the file begins. f->page has zeros. */
static void sum_zeros(const struct spill_file *f, struct variable *v) {
  const int64_t pieces = pieces_of(v->bytes, v->piece);
  const uint32_t whole = pieces > 1 ? crc32c(f->page, v->piece) : 0;
  for (int64_t p = 0; p + 1 < pieces; p++) v->sums[p] = whole;
  v->sums[pieces - 1] = crc32c(f->page, v->bytes - (uint64_t)(pieces - 1) * v->piece);
}

static neap_status place_variables(struct spill_file *f, const struct spilled_variable *given,
                                   int32_t count) {
  uint64_t largest = GROUP, largest_piece = SPILL_PAGE;
  f->variables = region_alloc(&f->region, (size_t)count, sizeof *f->variables);
  f->count = count;
  RETURN_IF_NULL(f->variables);
  for (int32_t i = 0; i < count; i++) {
    struct variable *v = &f->variables[i];
    const int64_t pieces = pieces_of(given[i].bytes, given[i].piece);
    *v = (struct variable){.offset = f->bytes,
                           .bytes = given[i].bytes,
                           .piece = given[i].piece,
                           .sums = region_alloc(&f->region, (size_t)pieces, sizeof *v->sums),
                           .name = region_string(&f->region, given[i].name)};
    RETURN_IF(v->sums == NULL || v->name == NULL, NEAP_OUT_OF_MEMORY, "out of memory for a file on disk");
    f->bytes += room_of(&given[i]);
    if (to_pages(v->piece) > largest_piece) largest_piece = to_pages(v->piece);
  }
  if (largest_piece > largest) largest = largest_piece;
  f->page = aligned_alloc(SPILL_PAGE, largest);
  f->kept = aligned_alloc(SPILL_PAGE, largest_piece);
  f->kept_variable = -1;
  RETURN_IF(f->page == NULL || f->kept == NULL, NEAP_OUT_OF_MEMORY, "out of memory for a file on disk");
  memset(f->page, 0, largest);
  for (int32_t i = 0; i < count; i++) sum_zeros(f, &f->variables[i]);
  return NEAP_OK;
}

static neap_status make(struct spill_file *f, const char *folder, const struct spilled_variable *variables,
                        int32_t count) {
  f->descriptor = -1;
  f->folder = region_string(&f->region, folder);
  RETURN_IF_NULL(f->folder);
  TRY(place_variables(f, variables, count));
  TRY(spill_file_check_folder(folder));
  TRY(open_file(f));
  try_direct(f);
  return lane_create(&f->lane);
}

neap_status spill_file_create(const char *folder, const struct device_memory *memory,
                              const struct spilled_variable *variables, int32_t count,
                              struct spill_file **out) {
  struct spill_file *f = calloc(1, sizeof *f);
  RETURN_IF_NULL(f);
  f->memory = memory;
  const neap_status status = make(f, folder, variables, count);
  if (status != NEAP_OK) {
    spill_file_free(f);
    return status;
  }
  f->io = (struct spill){.start = start,
                         .wait = wait_for,
                         .load = load,
                         .store = store,
                         .read = read_bytes,
                         .context = f,
                         .lane = f->lane};
  *out = f;
  return NEAP_OK;
}

void spill_file_free(struct spill_file *f) {
  if (f == NULL) return;
  lane_free(f->lane);
  if (f->descriptor >= 0) close(f->descriptor);
  free(f->kept);
  free(f->page);
  region_free(&f->region);
  free(f);
}

int64_t spill_file_find(const struct spill_file *f, const char *name) {
  int64_t i = 0;
  while (i + 1 < f->count && strcmp(f->variables[i].name, name) != 0) i++;
  return i;
}

const struct spill *spill_file_io(const struct spill_file *f) { return &f->io; }

struct spill_use spill_file_use(const struct spill_file *f) {
  return (struct spill_use){.bytes = f->bytes,
                            .read = (uint64_t)f->read,
                            .written = (uint64_t)f->written,
                            .waited = lane_waited(f->lane)};
}
