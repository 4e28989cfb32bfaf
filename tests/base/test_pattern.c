/* Patterns of names, beside fnmatch; and maps. */
#include "base/pattern.h"
#include "session_help.h"

#include <fnmatch.h>

static void test_lists(void **state) {
  (void)state;
  static const struct {
    const char *list, *name;
    bool has;
  } cases[] = {
      {"*", "a.weight", true},
      {"a*", "a.weight", true},
      {"a*", "b.a", false},
      {"a*,b*", "b.a", true},
      {" a* , b* ", "b.a", true},
      {"*,!head.*", "head.x", false},
      {"*,!head.*", "stem.x", true},
      {"!head.*,*", "head.x", true},
      {"*,!head.*,head.y", "head.y", true},
      {"conv?.weight", "conv1.w", false},
      {"conv?.*", "conv1.w", true},
      {"", "a", false},
      {",,a", "a", true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (pattern_list_has(cases[i].list, cases[i].name) != cases[i].has)
      fail_msg("'%s' and '%s'", cases[i].list, cases[i].name);
}

static void test_bad_lists(void **state) {
  (void)state;
  char text[2 * PATTERN_LIMIT];
  struct pattern pattern;
  bool any;
  memset(text, 'a', sizeof text);
  for (size_t length = PATTERN_LIMIT - 1; length <= PATTERN_LIMIT; length++) {
    const char *list = text + sizeof text - 1 - length;
    text[sizeof text - 1] = '\0';
    assert_int_equal(pattern_next(&list, &pattern, &any),
                     length < PATTERN_LIMIT ? NEAP_OK : NEAP_INVALID_ARGUMENT);
  }
  const char *list = "!";
  assert_int_equal(pattern_next(&list, &pattern, &any), NEAP_INVALID_ARGUMENT);
}

static const char *mapped(const char *map, const char *name, struct region *region) {
  const char *renamed;
  ASSERT_OK(name_map_check(map));
  ASSERT_OK(name_map_apply(map, name, region, &renamed));
  return renamed;
}

static void test_maps(void **state) {
  (void)state;
  static const struct {
    const char *map, *name, *wanted;
  } cases[] = {
      {"a=b", "a", "b"},
      {"a=b", "aa", "aa"},
      {"", "a", "a"},
      {"module.*=*", "module.conv.weight", "conv.weight"},
      {"*=model.*", "conv", "model.conv"},
      {"layer*.0.*=stage*.block1.*", "layer3.0.downsample.0.weight", "stage3.block1.downsample.0.weight"},
      {"a?b*=x?y*", "aQbc", "xQyc"},
      {"a?b*=x?y*", "abc", "abc"},
      {"a=b,b=c", "a", "c"},
      {"a=b , c=d", "c", "d"},
      {"*.a.*=*-*", "1.a.2.a.3", "1-2.a.3"},
      {"*ab=*", "aab", "a"},
      {"*=*", "", ""},
      {"x=", "x", ""},
  };
  struct region region = {0};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_string_equal(mapped(cases[i].map, cases[i].name, &region), cases[i].wanted);
  const char *kept;
  ASSERT_OK(name_map_apply(NULL, "a", &region, &kept));
  assert_string_equal(kept, "a");
  region_free(&region);
}

/* A row takes a name exactly where fnmatch does; its own names back give the name again. */
static void test_beside_fnmatch(void **state) {
  (void)state;
  struct region region = {0};
  int taken = 0;
  for (uint64_t k = 0; k < 20000; k++) {
    char from[8] = "", name[10] = "", map[24];
    uint32_t word[4], letter[4];
    random_philox(1, 2, k, word);
    for (uint32_t i = 0; i < 1 + word[0] % 6; i++) {
      random_philox(3, k, i, letter);
      from[i] = "ab*?"[letter[0] % 4];
    }
    for (uint32_t i = 0; i < word[1] % 9; i++) {
      random_philox(4, k, i, letter);
      name[i] = "ab"[letter[0] % 2];
    }
    snprintf(map, sizeof map, "%s=<%s", from, from);
    const char *renamed = mapped(map, name, &region);
    const bool matches = fnmatch(from, name, 0) == 0;
    assert_int_equal(renamed[0] == '<', matches);
    assert_string_equal(matches ? renamed + 1 : renamed, name);
    taken += matches;
  }
  assert_in_range(taken, 1000, 19000);
  region_free(&region);
}

static void test_bad_maps(void **state) {
  (void)state;
  static const char *const maps[] = {
      "a",     "=b",     "a=b=c", "*=a", "a=*",
      "*?=?*", "a=b,cd", "*a*=*", "?=*", "*****************=*****************"};
  for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
    assert_int_equal(name_map_check(maps[i]), NEAP_INVALID_ARGUMENT);
}

int run_test_pattern(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lists),          cmocka_unit_test(test_bad_lists), cmocka_unit_test(test_maps),
      cmocka_unit_test(test_beside_fnmatch), cmocka_unit_test(test_bad_maps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
