#include "speed/disk_speed.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/direct_file.h"
#include "base/file.h"

/* Reads as a session reads weights, through a buffer of 2 MiB. The best of a few passes counts. */
enum { BUFFER = 2 << 20, BYTES = 64 << 20, PASSES = 3, PAGE = 4096 };

/* Fills a file with numbers that no file system can leave out or compress. */
static bool fill(int descriptor, unsigned char *block) {
  uint64_t x = 88172645463325252u;
  for (int done = 0; done < BYTES; done += BUFFER) {
    for (int i = 0; i < BUFFER; i += (int)sizeof x) {
      x ^= x << 13, x ^= x >> 7, x ^= x << 17;
      memcpy(block + i, &x, sizeof x);
    }
    if (write(descriptor, block, BUFFER) != BUFFER) return false;
  }
  return fsync(descriptor) == 0;
}

static double read_once(struct direct_file *file, unsigned char *block) {
  const double begin = clock_seconds();
  for (uint64_t at = 0; at < BYTES; at += BUFFER)
    if (direct_file_read(file, at, block, BUFFER) != NEAP_OK) return 0;
  return BYTES / (clock_seconds() - begin);
}

/* Measures reads that bypass the cache, as only these show the disk's speed. */
static double measure(int descriptor, const char *path, unsigned char *block) {
  struct direct_buffer buffer;
  struct direct_file file;
  double best = 0;
  if (direct_buffer_create(BUFFER, &buffer) != NEAP_OK) return 0;
  if (direct_file_open(path, descriptor, &buffer, &file) == NEAP_OK) {
    for (int i = 0; i < PASSES && file.direct >= 0; i++) {
      const double rate = read_once(&file, block);
      best = rate > best ? rate : best;
    }
    direct_file_close(&file);
  }
  direct_buffer_free(&buffer);
  return best;
}

/* Writes and reads blocks in turn, far from each other, as the file of a training does
 * (program/spill_file.c). */
static void measure_in_turn(int descriptor, unsigned char *block, struct disk_speed *speed) {
  double seconds[2] = {0, 0}; /* of reads, of writes */
  const int flags = fcntl(descriptor, F_GETFL);
  if (flags < 0 || fcntl(descriptor, F_SETFL, flags | O_DIRECT) != 0) return;
  for (int at = 0; at < BYTES; at += BUFFER) {
    const double begin = clock_seconds();
    if (pwrite(descriptor, block, BUFFER, at) != BUFFER) return;
    const double between = clock_seconds();
    if (pread(descriptor, block, BUFFER, (at + BYTES / 2) % BYTES) != BUFFER) return;
    seconds[0] += clock_seconds() - between;
    seconds[1] += between - begin;
  }
  speed->read_in_turn = BYTES / seconds[0];
  speed->write_in_turn = BYTES / seconds[1];
}

struct disk_speed disk_speed(const char *path) {
  const char *slash = strrchr(path, '/');
  char *folder = slash != NULL ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
  const int descriptor = folder != NULL ? file_open_nameless(folder, "neap-speed") : -1;
  unsigned char *block = aligned_alloc(PAGE, BUFFER);
  struct disk_speed speed = {0};
  if (descriptor >= 0) {
    if (block != NULL && fill(descriptor, block)) {
      speed.read = measure(descriptor, path, block);
      if (speed.read > 0) measure_in_turn(descriptor, block, &speed);
    }
    close(descriptor);
  }
  free(block);
  free(folder);
  return speed;
}
