/* Measured costs: what is in the database is not timed again, what is not is; several processes share it; one
 * that cannot be used costs nothing but the measuring. */
#include "session_help.h"

#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include "session/choose.h"
#include "speed/cost_database.h"
#include "speed/measure.h"
#include "speed/speed.h"

static char folder[] = "/tmp/neap-costs-XXXXXX";
static char path[256];

static void remove_file(void) { unlink(path); }

/* ---- The database ---- */

static void test_path(void **state) {
  (void)state;
  char found[COST_PATH_LIMIT], wanted[COST_PATH_LIMIT];
  setenv("XDG_CACHE_HOME", folder, 1);
  snprintf(wanted, sizeof wanted, "%s/neap/kernels-1.sqlite", folder);
  assert_true(cost_database_path(true, found));
  assert_string_equal(found, wanted);
  struct cost_database *database = cost_database_open(found); /* its folder is there */
  assert_non_null(database);
  cost_database_close(database);
  unlink(found);
  *strrchr(found, '/') = '\0';
  rmdir(found);
  setenv("XDG_CACHE_HOME", "relative", 1);
  setenv("HOME", folder, 1);
  snprintf(wanted, sizeof wanted, "%s/.cache/neap/kernels-1.sqlite", folder);
  assert_true(cost_database_path(true, found));
  assert_string_equal(found, wanted);
  for (int level = 0; level < 2; level++) {
    *strrchr(found, '/') = '\0';
    assert_int_equal(rmdir(found), 0);
  }
  assert_true(cost_database_path(false, found));
  assert_string_equal(found, wanted);
  *strrchr(found, '/') = '\0';
  assert_int_equal(rmdir(found), -1); /* it was not made */
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  assert_false(cost_database_path(true, found));
}

enum { PROCESSES = 4, OWN = 25, SHARED = 10 };

/* What one process enters: kernels of its own, one at a time, and some that all enter. */
static void enter_many(int process) {
  for (int i = 0; i < OWN; i++) {
    char own[32], shared[32];
    snprintf(own, sizeof own, "own %d %d", process, i);
    snprintf(shared, sizeof shared, "shared %d", i % SHARED);
    const struct kernel_time times[] = {{own, process + i}, {shared, i % SHARED}};
    struct cost_database *database = cost_database_open(path);
    cost_database_add(database, "machine", times, 2);
    cost_database_close(database);
  }
}

static void test_processes(void **state) {
  (void)state;
  remove_file();
  for (int p = 0; p < PROCESSES; p++)
    if (fork() == 0) {
      enter_many(p);
      _exit(0);
    }
  for (int p = 0; p < PROCESSES; p++) {
    int status;
    assert_true(wait(&status) > 0);
    assert_int_equal(status, 0);
  }
  struct cost_database *database = cost_database_open(path);
  assert_non_null(database);
  double seconds = -1;
  for (int p = 0; p < PROCESSES; p++)
    for (int i = 0; i < OWN; i++) {
      char own[32];
      snprintf(own, sizeof own, "own %d %d", p, i);
      assert_true(cost_database_find(database, "machine", own, &seconds));
      assert_true(seconds == p + i);
    }
  assert_true(cost_database_find(database, "machine", "shared 3", &seconds));
  assert_true(seconds == 3);
  assert_false(cost_database_find(database, "another machine", "shared 3", &seconds));
  assert_false(cost_database_find(database, "machine", "shared", &seconds));
  cost_database_close(database);
}

static void test_look(void **state) {
  (void)state;
  remove_file();
  double seconds = -1;
  assert_null(cost_database_look(path));
  assert_int_equal(access(path, F_OK), -1); /* nothing was made */
  const struct kernel_time time = {"kernel", 3};
  struct cost_database *database = cost_database_open(path);
  cost_database_add(database, "machine", &time, 1);
  cost_database_close(database);
  database = cost_database_look(path);
  assert_non_null(database);
  cost_database_add(database, "machine", &(struct kernel_time){"kernel", 4}, 1);
  assert_true(cost_database_find(database, "machine", "kernel", &seconds));
  assert_true(seconds == 3); /* nothing was changed */
  cost_database_close(database);
}

/* ---- How fast the machine is ---- */

static void use_cache(const char *cache) {
  char found[COST_PATH_LIMIT];
  setenv("XDG_CACHE_HOME", cache, 1);
  assert_true(cost_database_path(true, found));
  unlink(found);
}

/* Removes it; from here on none exists that can be written to. */
static void forget_cache(void) {
  char found[COST_PATH_LIMIT];
  assert_true(cost_database_path(true, found));
  unlink(found);
  *strrchr(found, '/') = '\0';
  rmdir(found);
  setenv("XDG_CACHE_HOME", "/proc/none", 1);
}

/* With these algorithms it does not matter how many threads there are. */
static neap_session_options options_for(int threads, neap_backend backend) {
  return (neap_session_options){
      .momentum = 0.9f, .threads = threads, .backend = backend, .convolution = NEAP_CONV_DIRECT};
}

/* What all nodes of a step cost together. */
static double step_cost(int threads, neap_backend backend) {
  const neap_model_options shape = {.batch = 2, .image = {3, 8, 8}};
  const neap_session_options options = options_for(threads, backend);
  neap_graph *graph;
  neap_step *step;
  neap_step_info info;
  ASSERT_OK(build_named("wrn-10-1", &shape, &graph));
  ASSERT_OK(neap_step_from_graph(graph, &options, &step));
  neap_step_describe(step, &info);
  neap_step_free(step);
  neap_graph_free(graph);
  return info.base_cost;
}

static void assert_known(const neap_speed *speed) {
  const struct roofline known = machine_roofline(speed->threads);
  assert_float_equal(known.f32_flops / speed->f32_flops, 1, 1e-9);
  assert_float_equal(known.bf16_flops, speed->bf16_flops, 1e-9 * speed->bf16_flops);
  assert_float_equal(known.bytes / speed->memory_bytes, 1, 1e-9);
}

static void test_measured_speed(void **state) {
  (void)state;
  use_cache(folder);
  assert_true(machine_roofline(1).bytes == usual_roofline.bytes);
  neap_speed one, two;
  ASSERT_OK(neap_measure_speed(2, &one, &two));
  assert_int_equal(one.threads, 1);
  assert_int_equal(two.threads, 2);
  assert_true(one.f32_flops > 0 && one.bf16_flops >= 0 && one.memory_bytes > 0 && one.cache_bytes > 0);
  assert_true(two.f32_flops >= one.f32_flops && two.bf16_flops >= one.bf16_flops &&
              two.memory_bytes >= one.memory_bytes && two.cache_bytes >= one.cache_bytes);
  assert_known(&one);
  assert_known(&two);
  assert_true(machine_roofline(3).bytes == usual_roofline.bytes); /* of other numbers nothing is known */
  assert_int_equal(neap_measure_speed(-1, &one, &two), NEAP_INVALID_ARGUMENT);
  assert_int_equal(neap_measure_speed(1, &one, NULL), NEAP_INVALID_ARGUMENT);
  forget_cache();
  ASSERT_OK(neap_measure_speed(1, &one, &two)); /* which nothing keeps */
  assert_true(machine_roofline(1).bytes == usual_roofline.bytes);
}

/* Enters speeds that are the usual ones times a factor, as if they had been measured. */
static void pretend(double factor) {
  struct region region = {0};
  char found[COST_PATH_LIMIT];
  const struct kernel_time times[] = {{"one FLOP of f32", 1 / (factor * usual_roofline.f32_flops)},
                                      {"one FLOP of bf16", 1 / (factor * usual_roofline.bf16_flops)},
                                      {"one byte of a copy in memory", 1 / (factor * usual_roofline.bytes)},
                                      {"one byte of a copy in a cache", 1 / (factor * usual_roofline.bytes)}};
  assert_true(cost_database_path(true, found));
  struct cost_database *database = cost_database_open(found);
  cost_database_add(database, machine_text(&region, 1), times, sizeof times / sizeof *times);
  cost_database_close(database);
  region_free(&region);
}

static void test_costs_follow_speed(void **state) {
  (void)state;
  use_cache(folder);
  const double usual = step_cost(1, NEAP_CPU), reference = step_cost(1, NEAP_REFERENCE);
  pretend(4);
  assert_float_equal(step_cost(1, NEAP_CPU) / usual, 0.25, 1e-9);
  assert_true(step_cost(2, NEAP_CPU) == usual);
  assert_true(step_cost(1, NEAP_REFERENCE) == reference);
  pretend(-1); /* what no machine has is not believed */
  assert_true(step_cost(1, NEAP_CPU) == usual);
  pretend(0);
  assert_true(step_cost(1, NEAP_CPU) == usual);
  forget_cache();
  assert_true(step_cost(1, NEAP_CPU) == usual);
}

/* ---- Measuring with it ---- */

static struct lowered *lower_model(int threads) {
  const neap_model_options shape = {.batch = 2, .image = {3, 8, 8}};
  const neap_session_options options = options_for(threads, NEAP_CPU);
  neap_graph *graph;
  struct lowered *lowered;
  ASSERT_OK(build_named("wrn-10-1", &shape, &graph));
  ASSERT_OK(lower_training(graph, &options, &lowered));
  neap_graph_free(graph);
  return lowered;
}

/* Kernels that are timed for the model. `costs` (may be NULL) gets the sum. */
static int32_t measure_for(int threads, const char *database, double *costs) {
  struct lowered *lowered = lower_model(threads);
  int32_t timed = -1;
  ASSERT_OK(measure_costs(lowered, database, &timed));
  assert_true(lowered->step->base_cost > 0);
  if (costs != NULL) *costs = lowered->step->base_cost;
  lowered_free(lowered);
  return timed;
}

static int32_t measure_with(const char *database, double *costs) { return measure_for(1, database, costs); }

static void execute(const char *statement) {
  sqlite3 *file;
  assert_int_equal(sqlite3_open(path, &file), SQLITE_OK);
  assert_int_equal(sqlite3_exec(file, statement, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(file);
}

static void test_missing_ones_are_timed(void **state) {
  (void)state;
  remove_file();
  double first, second;
  const int32_t all = measure_with(path, &first);
  assert_in_range(all, 10, 200); /* far fewer than there are nodes, far more than there are operators */
  assert_int_equal(measure_with(path, &second), 0);
  assert_true(first == second);
  execute("UPDATE times SET seconds = seconds + 1"); /* they are really used */
  assert_int_equal(measure_with(path, &second), 0);
  assert_true(second > first + 1);
  execute("DELETE FROM times WHERE kernel = (SELECT min(kernel) FROM times)");
  assert_int_equal(measure_with(path, NULL), 1);
  assert_int_equal(measure_with(path, NULL), 0);
  execute("UPDATE times SET seconds = -1 WHERE kernel = (SELECT max(kernel) FROM times)");
  assert_int_equal(measure_with(path, NULL), 1); /* what no kernel can take is not believed */
  assert_int_equal(measure_with(path, NULL), 0);
  assert_int_equal(measure_for(2, path, NULL), all);
  assert_int_equal(measure_with(NULL, NULL), all);
}

static void write_file(const char *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  fclose(file);
}

static void test_broken_files(void **state) {
  (void)state;
  remove_file();
  const int32_t all = measure_with(path, NULL);
  static char good[1 << 20], found[1 << 20];
  FILE *file = fopen(path, "rb");
  const size_t size = fread(good, 1, sizeof good, file);
  fclose(file);
  assert_in_range(size, 1000, sizeof good - 1);
  /* No database at all: it is somebody's file and stays as it is. */
  static const char text[] =
      "This is not a database, but it is long enough to be looked at as if it were one. "
      "SQLite reads the first hundred bytes of a file before it says so.";
  write_file(text, sizeof text);
  assert_int_equal(measure_with(path, NULL), all);
  file = fopen(path, "rb");
  assert_int_equal(fread(found, 1, sizeof found, file), sizeof text);
  fclose(file);
  assert_memory_equal(found, text, sizeof text);
  /* Cut short, spoiled in the middle, of other tables, locked for good, a folder, nowhere. */
  write_file(good, size / 2);
  assert_in_range(measure_with(path, NULL), 0, all);
  for (size_t at = 100; at < size; at += size / 13) {
    memcpy(found, good, size);
    memset(found + at, 0x5a, size - at < 64 ? size - at : 64);
    write_file(found, size);
    assert_in_range(measure_with(path, NULL), 0, all);
  }
  remove_file();
  execute("CREATE TABLE times (something INTEGER)");
  assert_int_equal(measure_with(path, NULL), all);
  assert_int_equal(measure_with(folder, NULL), all);
  assert_int_equal(measure_with("/nowhere/at/all.sqlite", NULL), all);
}

static void test_locked_file(void **state) {
  (void)state;
  remove_file();
  const int32_t all = measure_with(path, NULL);
  sqlite3 *file;
  assert_int_equal(sqlite3_open(path, &file), SQLITE_OK);
  assert_int_equal(sqlite3_exec(file, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
  assert_int_equal(measure_with(path, NULL), all);
  sqlite3_close(file);
  assert_int_equal(measure_with(path, NULL), 0);
}

int run_test_costs(void) {
  if (mkdtemp(folder) == NULL) return 1;
  snprintf(path, sizeof path, "%s/times.sqlite", folder);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_processes), /* before there are threads */
      cmocka_unit_test(test_path),
      cmocka_unit_test(test_look),
      cmocka_unit_test(test_measured_speed),
      cmocka_unit_test(test_costs_follow_speed),
      cmocka_unit_test(test_missing_ones_are_timed),
      cmocka_unit_test(test_broken_files),
      cmocka_unit_test(test_locked_file),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  remove_file();
  rmdir(folder);
  return failed;
}
