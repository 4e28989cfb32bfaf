/* Which launcher started a process, and what is refused of plugins. tests/mpi has ranks under a real mpirun.
 */
#include <stdlib.h>
#include <string.h>

#include "collective/plugin.h"
#include "testing.h"

static void set(const char *name, const char *value) {
  if (value == NULL)
    unsetenv(name);
  else
    setenv(name, value, 1);
}

/* As if that started this process; NULL: it did not. */
static void launch(const char *openmpi, const char *mpich) {
  set("OMPI_COMM_WORLD_SIZE", openmpi);
  set("OMPI_COMM_WORLD_RANK", openmpi != NULL ? "0" : NULL);
  set("PMI_SIZE", mpich);
  set("PMI_RANK", mpich != NULL ? "0" : NULL);
}

static void finds(const char *name, int size) {
  const struct launcher *launcher;
  int found;
  if (plugin_launcher(&launcher, &found) != NEAP_OK) fail_msg("%s", neap_error_message());
  assert_int_equal(found, size);
  if (name == NULL)
    assert_null(launcher);
  else
    assert_string_equal(launcher->name, name);
}

static void refused(neap_status status, const char *part) {
  if (status != NEAP_INVALID_ARGUMENT && status != NEAP_UNSUPPORTED) fail_msg("%s", neap_status_text(status));
  if (strstr(neap_error_message(), part) == NULL) fail_msg("%s", neap_error_message());
}

static void test_launchers(void **state) {
  (void)state;
  const struct launcher *launcher;
  int size;
  launch(NULL, NULL);
  finds(NULL, 1);
  launch("3", NULL);
  finds("openmpi", 3);
  launch(NULL, "64");
  finds("mpich", 64);
  launch("1", NULL);
  finds(NULL, 1);
  launch("1", "4");
  finds("mpich", 4);
  launch("2", "4");
  refused(plugin_launcher(&launcher, &size), "collective: OMPI_COMM_WORLD_SIZE and PMI_SIZE are both set, so "
                                             "the launcher is unclear; unset the one that does not apply");
  static const char *const bad[] = {"", "x", "3x", "0", "-2", "99999999999", "99999999999999999999"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    launch(bad[i], NULL);
    refused(plugin_launcher(&launcher, &size),
            "collective: OMPI_COMM_WORLD_SIZE must be a number of ranks (got '");
  }
  launch("3", NULL);
  unsetenv("OMPI_COMM_WORLD_RANK"); /* somebody's own variable: no launcher gave a rank */
  finds(NULL, 1);
}

static void test_plugins(void **state) {
  (void)state;
  neap_collective c;
  launch(NULL, NULL);
  assert_int_equal(plugin_open(NULL, NULL, &c), NEAP_OK);
  assert_int_equal(c.size, 0);
  refused(plugin_open("mvapich", NULL, &c),
          "collective: the plugin must be 'openmpi' or 'mpich' (got 'mvapich')");
  launch("3", NULL);
  refused(plugin_open(NULL, "/nowhere", &c),
          "collective: libneap_openmpi.so is missing, the plugin for Open MPI (looked in /");
  refused(plugin_open(NULL, NULL, &c), "install Debian's libopenmpi-dev and openmpi-bin, then run 'make'");
  refused(plugin_open("mpich", NULL, &c), "install Debian's libmpich-dev and mpich, then run 'make'");
  refused(plugin_open(NULL, FAKE_PLUGINS "/none", &c),
          "libneap_openmpi.so: has no 'neap_plugin', so it is not a plugin of Neap");
  refused(plugin_open(NULL, FAKE_PLUGINS "/other", &c),
          "libneap_openmpi.so: was built for another version of Neap "
          "(plugin version 99, this one needs ");
  refused(plugin_open(NULL, FAKE_PLUGINS "/alone", &c),
          "collective: the launcher started 3 processes, but Open MPI connects each of them to 1; start them "
          "by the mpirun of "
          "Open MPI (mpirun.openmpi), or choose the plugin of your launcher's MPI");
  assert_int_equal(c.size, 0);
  launch(NULL, NULL);
  assert_int_equal(plugin_open("openmpi", FAKE_PLUGINS "/alone", &c),
                   NEAP_OK); /* by name, without a launcher */
  assert_int_equal(c.size, 1);
}

int run_test_collective_plugin(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_launchers),
      cmocka_unit_test(test_plugins),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
