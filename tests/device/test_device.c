/* Devices: what the functions of device.h promise, on each of them; that guarded memory faults from outside;
 * and that a session gives the same on both. */
#include "session_help.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/devices.h"
#include "device/guarded.h"
#include "device/host.h"

static const struct device *const devices[] = {&host_device, &guarded_device};
enum { DEVICES = sizeof devices / sizeof *devices, BYTES = 3 * 4096 + 100, FAR = 2 * 4096 + 17 };

/* Whether all bytes of a memory have one value, except `count` from `at` on, which have another. */
static void expect_bytes(const struct device_memory *m, int value, uint64_t at, uint64_t count, int other) {
  unsigned char bytes[BYTES];
  ASSERT_OK(device_read(m, 0, bytes, BYTES));
  for (uint64_t i = 0; i < BYTES; i++) assert_int_equal(bytes[i], i >= at && i < at + count ? other : value);
}

static void test_copies(void **state) {
  static unsigned char ones[BYTES];
  (void)state;
  memset(ones, 1, BYTES);
  for (int d = 0; d < DEVICES; d++) {
    struct device_memory m = {0};
    ASSERT_OK(device_map(devices[d], BYTES, &m));
    assert_int_equal(m.bytes, BYTES);
    expect_bytes(&m, 0, 0, 0, 0);
    ASSERT_OK(device_write(&m, FAR, ones, 30));
    expect_bytes(&m, 0, FAR, 30, 1);
    ASSERT_OK(device_write(&m, 0, ones, BYTES));
    ASSERT_OK(device_fill(&m, 5, 4096));
    expect_bytes(&m, 1, 5, 4096, 0);
    ASSERT_OK(device_wait(&m));
    ASSERT_OK(device_write(&m, BYTES, ones, 0));
    assert_int_equal(device_write(&m, BYTES - 3, ones, 4), NEAP_INTERNAL);
    assert_int_equal(device_read(&m, UINT64_MAX, ones, 2), NEAP_INTERNAL);
    assert_int_equal(device_fill(&m, 1, UINT64_MAX), NEAP_INTERNAL);
    expect_bytes(&m, 1, 5, 4096, 0);
    device_unmap(&m);
    device_unmap(&m); /* none is there */
  }
}

/* A loan shows what is there; of what was written into it the memory has what was changed. */
static void test_loans(void **state) {
  (void)state;
  for (int d = 0; d < DEVICES; d++) {
    struct device_memory m = {0};
    struct device_loan loan = {0};
    unsigned char *base;
    ASSERT_OK(device_map(devices[d], BYTES, &m));
    ASSERT_OK(device_lend(&m, FAR, 40, &loan));
    memset(loan.data, 7, 40);
    ASSERT_OK(device_give_back(&m, &loan, true));
    assert_null(loan.data);
    expect_bytes(&m, 0, FAR, 40, 7);
    ASSERT_OK(device_give_back(&m, &loan, true)); /* none is there */
    ASSERT_OK(device_lend(&m, FAR, 40, &loan));
    for (int i = 0; i < 40; i++) assert_int_equal(((unsigned char *)loan.data)[i], 7);
    ASSERT_OK(device_enter(&m, &base));
    const bool in_place = loan.data == base + FAR;
    device_leave(&m);
    assert_int_equal(in_place, devices[d]->host_visible);
    if (!in_place) memset(loan.data, 9, 40); /* is lost */
    ASSERT_OK(device_give_back(&m, &loan, false));
    expect_bytes(&m, 0, FAR, 40, 7);
    assert_int_equal(device_lend(&m, FAR, BYTES, &loan), NEAP_INTERNAL);
    assert_null(loan.data);
    assert_int_equal(device_address(&m, FAR, 40) != NULL, devices[d]->host_visible);
    assert_null(device_address(&m, FAR, BYTES));
    device_unmap(&m);
  }
}

/* Whether a process of its own ends when it reads, or writes, a byte. */
static bool faults(volatile unsigned char *byte, bool write) {
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    if (write)
      *byte = 1;
    else
      (void)*byte;
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

/* Of two mappings that begin with the same file, each sees what the other writes there, and has the rest
 * alone, whether pages end where the common bytes do or not. */
static void test_common(void **state) {
  static const uint64_t common[] = {64, 4096, 4096 + 128, 2 * 4096};
  static unsigned char ones[BYTES];
  (void)state;
  memset(ones, 1, BYTES);
  for (int d = 0; d < DEVICES; d++)
    for (size_t i = 0; i < sizeof common / sizeof *common; i++) {
      struct device_memory m[2] = {{0}};
      const int file = memfd_create("common", MFD_CLOEXEC);
      assert_true(file >= 0);
      assert_int_equal(ftruncate(file, 4 * 4096), 0);
      for (int k = 0; k < 2; k++)
        ASSERT_OK(device_map_common(devices[d], BYTES, (struct device_common){file, common[i]}, &m[k]));
      close(file);
      for (int k = 0; k < 2; k++) {
        assert_int_equal(m[k].bytes, BYTES);
        expect_bytes(&m[k], 0, 0, 0, 0);
      }
      ASSERT_OK(device_write(&m[0], 0, ones, BYTES));
      expect_bytes(&m[1], 0, 0, common[i], 1);
      ASSERT_OK(device_fill(&m[1], 0, BYTES));
      expect_bytes(&m[0], 1, 0, common[i], 0);
      unsigned char *base;
      ASSERT_OK(device_enter(&m[0], &base));
      assert_int_equal((uintptr_t)base % 64, 0);
      device_leave(&m[0]);
      if (devices[d] == &guarded_device)
        for (uint64_t at = 0; at < BYTES; at += BYTES - 1) assert_true(faults(base + at, false));
      for (int k = 0; k < 2; k++) device_unmap(&m[k]);
    }
  struct device_memory none = {0};
  assert_int_equal(device_map_common(&host_device, 64, (struct device_common){-1, 65}, &none), NEAP_INTERNAL);
  assert_int_equal(device_map_common(&host_device, 64, (struct device_common){-1, 64}, &none),
                   NEAP_OUT_OF_MEMORY);
  device_unmap(&none);
}

static void *read_byte(void *byte) { return *(volatile unsigned char *)byte == 0 ? NULL : byte; }

static void test_guard(void **state) {
  struct device_memory m = {0};
  unsigned char *base, *again;
  pthread_t thread;
  void *read;
  (void)state;
  ASSERT_OK(device_map(&guarded_device, BYTES, &m));
  ASSERT_OK(device_enter(&m, &base));
  for (uint64_t at = 0; at < BYTES; at += BYTES - 1) assert_false(faults(base + at, true));
  ASSERT_OK(device_enter(&m, &again));
  assert_ptr_equal(again, base);
  device_leave(&m);
  ASSERT_OK(device_fill(&m, 0, BYTES)); /* which enters and leaves, too */
  assert_false(faults(base, false));
  assert_int_equal(pthread_create(&thread, NULL, read_byte, base), 0);
  pthread_join(thread, &read);
  assert_null(read);
  device_leave(&m);
  for (uint64_t at = 0; at < BYTES; at += BYTES - 1) {
    assert_true(faults(base + at, false));
    assert_true(faults(base + at, true));
  }
  device_unmap(&m);
}

enum { THREADS = 4, ROUNDS = 2000 };

static void *enter_often(void *memory) {
  unsigned char *base;
  for (int i = 0; i < ROUNDS; i++) {
    if (device_enter(memory, &base) != NEAP_OK) return memory;
    base[i % BYTES] = 1; /* ends the test where another thread has closed it */
    device_leave(memory);
  }
  return NULL;
}

static void test_guard_counts(void **state) {
  struct device_memory m = {0};
  pthread_t threads[THREADS];
  unsigned char *base;
  (void)state;
  ASSERT_OK(device_map(&guarded_device, BYTES, &m));
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, enter_often, &m), 0);
  for (int i = 0; i < THREADS; i++) {
    void *failed;
    pthread_join(threads[i], &failed);
    assert_null(failed);
  }
  ASSERT_OK(device_enter(&m, &base));
  device_leave(&m);
  assert_true(faults(base, false));
  device_unmap(&m);
}

/* ---- Sessions ---- */

/* What a session does that reaches its memory outside of kernels: sparse parameters in both forms, averages,
 * micro-batches, running statistics, loss scales, outputs. */
static const neap_session_options options[] = {
    {.momentum = 0.9f, .gradient_norm = true},
    {.momentum = 0.9f, .ema = 0.5f, .micro_batches = 2},
    {.momentum = 0.9f, .ema = 0.5f, .backend = NEAP_REFERENCE},
    {.optimizer = NEAP_ADAMW, .precision = NEAP_F16, .dynamic_loss_scale = true, .loss_scale = 1024},
    {.momentum = 0.9f, .sparse_density = 0.2, .sparse_positions = NEAP_SPARSE_BITS},
    {.momentum = 0.9f, .sparse_density = 0.2, .sparse_positions = NEAP_SPARSE_INDICES, .micro_batches = 2},
};

struct outcome {
  struct run_result run;
  neap_step_result evaluated;
  float logits[4 * 10];
};

static struct outcome try_device(const struct device *device, const neap_graph *graph,
                                 const neap_session_options *o) {
  struct outcome r;
  neap_session *s;
  setenv("NEAP_GUARD_MEMORY", device == &guarded_device ? "1" : "0", 1);
  ASSERT_OK(neap_session_create(graph, o, NULL, &s));
  assert_ptr_equal(s->memory.device, device);
  run_steps(s, 2, 0.1f, 10);
  if (o->sparse_density > 0) ASSERT_OK(neap_session_rewire(s, 0.2, NULL));
  r.run = run_steps(s, 2, 0.1f, 10);
  ASSERT_OK(neap_session_evaluate(s, &r.evaluated));
  ASSERT_OK(neap_session_output(s, "logits", NULL, r.logits));
  neap_session_free(s);
  return r;
}

static void test_sessions(void **state) {
  (void)state;
  if (device_in_use(&host_device) != &guarded_device)
    fail_msg("NEAP_GUARD_MEMORY is not 1, as tests/CMakeLists.txt sets it for all tests");
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    const int64_t parts = options[i].micro_batches > 1 ? options[i].micro_batches : 1;
    neap_graph *graph;
    neap_session_options o = options[i];
    o.budget = NEAP_BUDGET_MAX;
    ASSERT_OK(build_named("wrn-10-1", &(neap_model_options){.batch = 4 / parts, .image = {3, 8, 8}}, &graph));
    const struct outcome host = try_device(&host_device, graph, &o),
                         guarded = try_device(&guarded_device, graph, &o);
    assert_string_equal(host.run.digest, guarded.run.digest);
    assert_int_equal(host.run.memory.measured_peak, guarded.run.memory.measured_peak);
    assert_true(host.run.last.loss == guarded.run.last.loss);
    assert_int_equal(host.run.last.counted, guarded.run.last.counted);
    assert_int_equal(host.run.last.correct, guarded.run.last.correct);
    assert_true(host.run.last.gradient_norm == guarded.run.last.gradient_norm);
    assert_true(host.evaluated.loss == guarded.evaluated.loss);
    assert_memory_equal(host.logits, guarded.logits, (size_t)(4 / parts * 10) * sizeof(float));
    neap_graph_free(graph);
  }
}

int run_test_device(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sessions), cmocka_unit_test(test_copies), cmocka_unit_test(test_loans),
      cmocka_unit_test(test_common),   cmocka_unit_test(test_guard),  cmocka_unit_test(test_guard_counts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
