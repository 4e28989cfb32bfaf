/* What is available: the least of the machine's, the control groups' and the process's own limits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/available_memory.h"
#include "testing.h"

static char root[] = "/tmp/neap-available-XXXXXX";

/* Writes a file under the root, with the folders that it needs. */
static void put(const char *path, const char *text) {
  char whole[512];
  snprintf(whole, sizeof whole, "%s%s", root, path);
  for (char *at = whole + sizeof root; (at = strchr(at, '/')) != NULL; at++) {
    *at = '\0';
    mkdir(whole, 0700);
    *at = '/';
  }
  FILE *file = fopen(whole, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static void expect(uint64_t bytes, const char *limit) {
  neap_available found;
  assert_int_equal(available_memory_read(root, &found), NEAP_OK);
  assert_int_equal(found.free_bytes, bytes);
  assert_non_null(strstr(found.limit, limit));
  assert_int_equal(found.margin_bytes, bytes / 10);
  assert_int_equal(found.bytes + found.margin_bytes, bytes);
}

static int make_root(void **state) {
  (void)state;
  return mkdtemp(root) == NULL;
}

static int remove_root(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", root);
  return system(command);
}

static void test_machine(void **state) {
  (void)state;
  neap_available found;
  assert_int_equal(available_memory_read(root, &found), NEAP_UNSUPPORTED);
  put("/proc/meminfo", "MemTotal:       16000000 kB\nMemFree:         100 kB\n");
  assert_int_equal(available_memory_read(root, &found), NEAP_UNSUPPORTED);
  put("/proc/meminfo", "MemTotal:       16000000 kB\nMemFree:         100 kB\nMemAvailable:    5000000 kB\n");
  expect(UINT64_C(5120000000), "the machine");
}

static void test_groups_of_version_2(void **state) {
  (void)state;
  put("/proc/self/cgroup", "0::/user/job\n");
  put("/sys/fs/cgroup/user/job/memory.max", "max\n");
  put("/sys/fs/cgroup/user/job/memory.current", "1000\n");
  put("/sys/fs/cgroup/user/memory.max", "3000000000\n");
  put("/sys/fs/cgroup/user/memory.current", "1000000000\n");
  put("/sys/fs/cgroup/user/memory.stat", "anon 500000000\ninactive_file 400000000\nactive_file 5\n");
  expect(UINT64_C(2400000000), "control group /user"); /* files that nobody uses are given up */
  put("/sys/fs/cgroup/user/job/memory.max", "900000\n");
  expect(899000, "control group /user/job");
  put("/sys/fs/cgroup/user/job/memory.current", "900001\n");
  expect(0, "control group /user/job");
}

static void test_groups_of_version_1(void **state) {
  (void)state;
  put("/proc/self/cgroup", "4:cpu:/\n3:memory:/docker/abc\n0::/\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes",
      "2000000\n"); /* a container sees its group as the root */
  put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1200000\n");
  put("/sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 200000\n");
  expect(1000000, "control group /");
}

static void test_limits_of_the_process(void **state) {
  (void)state;
  struct rlimit before, less;
  assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
  put("/proc/self/cgroup", "");
  put("/proc/self/status", "Name:\tx\nVmSize:\t    1000 kB\nVmData:\t   10 kB\n");
  less = (struct rlimit){UINT64_C(1) << 40, before.rlim_max};
  if (setrlimit(RLIMIT_AS, &less) != 0) skip(); /* the sanitizers map more than that */
  put("/proc/meminfo", "MemAvailable:    9000000000 kB\n");
  expect((UINT64_C(1) << 40) - 1024000, "ulimit -v");
  assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
}

static void test_settle(void **state) {
  (void)state;
  neap_available found, told;
  assert_int_equal(neap_memory_available(&found), NEAP_OK);
  neap_session_options options = {.budget = NEAP_BUDGET_AVAILABLE};
  assert_int_equal(available_memory_settle(&options, &told), NEAP_OK);
  assert_true(options.budget == NEAP_BUDGET_MAX);
  assert_true(told.bytes > 0 && options.process_budget > told.bytes);
  options = (neap_session_options){.budget = 5};
  assert_int_equal(available_memory_settle(&options, &told), NEAP_OK);
  assert_true(options.budget == 5 && options.process_budget == 0 && told.bytes == 0);
}

static void test_watch(void **state) {
  (void)state;
  const neap_available found = {.free_bytes = 1000, .margin_bytes = 100, .bytes = 900};
  const struct memory_watch watch = {.found = found, .swapped = 4096}, none = {0};
  assert_false(memory_is_short(&watch, 4096, 25));
  assert_true(memory_is_short(&watch, 4096, 24));
  assert_true(memory_is_short(&watch, 8192, 1000));
  assert_false(memory_is_short(&none, 8192, 0));
}

int run_test_available_memory(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_machine),
      cmocka_unit_test(test_groups_of_version_2),
      cmocka_unit_test(test_groups_of_version_1),
      cmocka_unit_test(test_limits_of_the_process),
      cmocka_unit_test(test_settle),
      cmocka_unit_test(test_watch),
  };
  return cmocka_run_group_tests(tests, make_root, remove_root);
}
