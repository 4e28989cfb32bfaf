/* A session's file of variables: pieces of any length come back, aligned or not; jobs end in order; a byte
 * that changed on the disk is named; folders without a disk are refused. */
#include <fcntl.h>
#include <unistd.h>

#include "device/devices.h"
#include "device/host.h"
#include "program/lane.h"
#include "program/spill_file.h"
#include "session_help.h"

enum { PIECE = 3 * SPILL_PAGE + 64, COUNT = 6 };

static const struct spilled_variable variables[COUNT] = {{"one", 100, PIECE},
                                                         {"page", SPILL_PAGE, PIECE},
                                                         {"more", 3 * PIECE, PIECE},
                                                         {"odd", 5 * PIECE + 17, PIECE},
                                                         {"pages", 700 * SPILL_PAGE + 5, 2 * SPILL_PAGE},
                                                         {"even", 1200 * SPILL_PAGE, 3 * SPILL_PAGE}};

static unsigned char byte_of(int64_t variable, uint64_t i, int round) {
  return (unsigned char)(variable * 37 + (int64_t)(i * 11 + i / 253) + round);
}

/* Skips what needs a disk where the test's folder is in memory. */
static int need_disk(void **state) {
  (void)state;
  struct spill_file *f = NULL;
  if (spill_file_create(".", NULL, variables, COUNT, &f) == NEAP_INVALID_ARGUMENT) skip();
  spill_file_free(f);
  return 0;
}

static struct spill_file *make_file(const struct device_memory *memory) {
  struct spill_file *f = NULL;
  ASSERT_OK(spill_file_create(".", memory, variables, COUNT, &f));
  return f;
}

/* Finds the descriptor of the file, which has no name. */
static int descriptor_of(uint64_t bytes) {
  for (int d = 3; d < 256; d++) {
    char link[64], path[512] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", d);
    if (readlink(link, path, sizeof path - 1) > 0 && strstr(path, "(deleted)") != NULL &&
        lseek(d, 0, SEEK_END) == (off_t)bytes)
      return d;
  }
  return -1;
}

static void expect_values(struct spill_file *f, int64_t k, int round, bool zeros) {
  unsigned char *read = malloc(variables[k].bytes + 1);
  assert_non_null(read);
  read[variables[k].bytes] = 99;
  ASSERT_OK(spill_file_read(f, k, read));
  assert_int_equal(read[variables[k].bytes], 99);
  for (uint64_t i = 0; i < variables[k].bytes; i++)
    assert_int_equal(read[i], zeros ? 0 : byte_of(k, i, round));
  free(read);
}

static void write_values(struct spill_file *f, int64_t k, int round) {
  unsigned char *given = malloc(variables[k].bytes);
  assert_non_null(given);
  for (uint64_t i = 0; i < variables[k].bytes; i++) given[i] = byte_of(k, i, round);
  ASSERT_OK(spill_file_write(f, k, given));
  free(given);
}

static void test_variables(void **state) {
  (void)state;
  struct spill_file *f = make_file(NULL);
  for (int64_t k = 0; k < COUNT; k++) expect_values(f, k, 0, true);
  for (int round = 0; round < 2; round++) {
    for (int64_t k = 0; k < COUNT; k++) write_values(f, k, round);
    for (int64_t k = 0; k < COUNT; k++) expect_values(f, k, round, false);
  }
  unsigned char piece[PIECE];
  ASSERT_OK(spill_file_read_piece(f, 3, 5, piece));
  for (uint64_t i = 0; i < 17; i++) assert_int_equal(piece[i], byte_of(3, 5 * PIECE + i, 1));
  for (uint64_t i = 0; i < PIECE; i++) piece[i] = byte_of(3, 2 * PIECE + i, 0);
  ASSERT_OK(spill_file_write_piece(f, 3, 2, piece));
  memset(piece, 0, sizeof piece);
  ASSERT_OK(spill_file_read_piece(f, 3, 2, piece));
  for (uint64_t i = 0; i < PIECE; i++) assert_int_equal(piece[i], byte_of(3, 2 * PIECE + i, 0));
  assert_true(spill_file_use(f).bytes == spill_file_bytes(variables, COUNT));
  assert_true(spill_file_use(f).written > 0);
  spill_file_free(f);
}

/* A write that follows a read of the same piece does not overtake it. */
static void test_jobs(void **state) {
  (void)state;
  struct spill_file *f = make_file(NULL);
  const struct spill *io = spill_file_io(f);
  const uint64_t room = (PIECE + SPILL_PAGE - 1) / SPILL_PAGE * SPILL_PAGE;
  unsigned char *buffers = aligned_alloc(SPILL_PAGE, 2 * room);
  assert_non_null(buffers);
  write_values(f, 2, 0);
  for (uint64_t i = 0; i < PIECE; i++) buffers[room + i] = byte_of(2, PIECE + i, 7);
  io->start(io->context, false, 2, 1, buffers);
  const uint64_t last = io->start(io->context, true, 2, 1, buffers + room);
  ASSERT_OK(io->wait(io->context, last));
  for (uint64_t i = 0; i < PIECE; i++) assert_int_equal(buffers[i], byte_of(2, PIECE + i, 0));
  ASSERT_OK(io->wait(io->context, io->start(io->context, false, 2, 1, buffers)));
  for (uint64_t i = 0; i < PIECE; i++) assert_int_equal(buffers[i], byte_of(2, PIECE + i, 7));
  free(buffers);
  spill_file_free(f);
}

/* Variables with and without pieces of whole pages, at places that are aligned and not. */
static void test_load(void **state) {
  (void)state;
  static const uint64_t places[] = {192, SPILL_PAGE};
  struct device_memory memory;
  unsigned char *base;
  ASSERT_OK(device_map(device_in_use(&host_device), 8 << 20, &memory));
  struct spill_file *f = make_file(&memory);
  const struct spill *io = spill_file_io(f);
  for (int64_t k = 0; k < COUNT; k++)
    for (int i = 0; i < 2; i++) {
      const uint64_t place = places[i], end = place + variables[k].bytes;
      ASSERT_OK(device_fill(&memory, 0, memory.bytes));
      write_values(f, k, i);
      io->load(io->context, k, place);
      ASSERT_OK(io->wait(io->context, lane_started(io->lane)));
      ASSERT_OK(device_enter(&memory, &base));
      for (uint64_t at = place; at < end; at++) assert_int_equal(base[at], byte_of(k, at - place, i));
      assert_int_equal(base[end], 0);
      assert_int_equal(base[place - 1], 0);
      device_leave(&memory);
    }
  spill_file_free(f);
  device_unmap(&memory);
}

static void test_changed(void **state) {
  (void)state;
  struct spill_file *f = make_file(NULL);
  const int d = descriptor_of(spill_file_bytes(variables, COUNT));
  assert_true(d >= 0);
  for (int64_t k = 0; k < COUNT; k++) write_values(f, k, 0);
  unsigned char *page = aligned_alloc(SPILL_PAGE, SPILL_PAGE), *read = malloc(variables[3].bytes);
  assert_non_null(page);
  assert_non_null(read);
  const off_t end = (off_t)spill_file_bytes(variables, 4) - SPILL_PAGE; /* of "odd" */
  assert_int_equal(pread(d, page, SPILL_PAGE, end), SPILL_PAGE);
  page[5] ^= 4;
  assert_int_equal(pwrite(d, page, SPILL_PAGE, end), SPILL_PAGE);
  expect_failure(spill_file_read(f, 3, read), NEAP_BAD_FORMAT, "'odd' was changed on the disk (piece 5");
  expect_values(f, 2, 0, false);
  free(read);
  free(page);
  spill_file_free(f);
}

static void test_refused(void **state) {
  (void)state;
  struct spill_file *f = NULL;
  expect_failure(spill_file_create("/nowhere", NULL, variables, COUNT, &f), NEAP_IO_FAILED, "/nowhere");
  expect_failure(spill_file_create("/dev/shm", NULL, variables, COUNT, &f), NEAP_INVALID_ARGUMENT, "tmpfs");
}

int run_test_spill_file(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_variables, need_disk), cmocka_unit_test_setup(test_jobs, need_disk),
      cmocka_unit_test_setup(test_load, need_disk), cmocka_unit_test_setup(test_changed, need_disk),
      cmocka_unit_test_setup(test_refused, need_disk)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
