/* Runs the tests of a folder: PROGRAM [FILE [PATTERN]]. FILE names one source; PATTERN, with * and ?, some of
 * its tests. Without them every file runs. The build lists the files in TEST_FILES. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "testing.h"

#define FILE_ROW(name) int run_##name(void);
TEST_FILES
#undef FILE_ROW

static const struct {
  const char *name;
  int (*run)(void); /* returns the number of tests that failed */
} files[] = {
#define FILE_ROW(name) {#name, run_##name},
    TEST_FILES};

int main(int count, char **arguments) {
  int failed = 0;
  bool found = false;
  if (count > 2) cmocka_set_test_filter(arguments[2]);
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    if (count > 1 && strcmp(arguments[1], files[i].name) != 0) continue;
    failed += files[i].run();
    found = true;
  }
  if (found) return failed != 0;
  fprintf(stderr, "%s: no file of tests %s; there are:\n", arguments[0], arguments[1]);
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) fprintf(stderr, "  %s\n", files[i].name);
  return 2;
}
