/* Graph and plan files changed token by token, several places at once: numbers at the edges of their types,
 * pieces dropped, doubled and exchanged. What cannot be read is refused with a message that names the file;
 * what can be read is planned and checked without harm. (tests/property/test_bad_files.c has the changes of
 * single bytes.) */
#include "effort.h"
#include "random_step.h"

#include <stdio.h>
#include <unistd.h>

enum { TEXT_LIMIT = 1 << 16, TOKEN_LIMIT = 1 << 13 };

static char path[64];

struct text {
  char bytes[TEXT_LIMIT];
  size_t size;
};

static void read_text(struct text *text) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  text->size = fread(text->bytes, 1, sizeof text->bytes, file);
  assert_true(text->size < sizeof text->bytes);
  fclose(file);
}

static void write_text(const struct text *text) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(text->bytes, 1, text->size, file), text->size);
  assert_int_equal(fclose(file), 0);
}

/* ---- Changes ---- */

/* Puts `with` in place of the bytes [from, to); nothing where it would grow too long. */
static void splice(struct text *text, size_t from, size_t to, const char *with, size_t size) {
  if (text->size - (to - from) + size > sizeof text->bytes) return;
  memmove(text->bytes + from + size, text->bytes + to, text->size - to);
  memcpy(text->bytes + from, with, size);
  text->size = text->size - (to - from) + size;
}

static bool is_number(char c) { return (c >= '0' && c <= '9') || c == '-' || c == '.'; }
static bool is_comma(char c) { return c == ','; }

/* Where tokens begin: numbers, or the pieces after commas. Gives how many. */
static size_t find_tokens(const struct text *text, bool (*is)(char), size_t *starts) {
  size_t count = 0;
  for (size_t i = 1; i < text->size && count < TOKEN_LIMIT; i++)
    if (is(text->bytes[i]) && !is(text->bytes[i - 1])) starts[count++] = i;
  return count;
}

static void change_number(struct text *text, uint32_t *random) {
  static const char *const edges[] = {"-1",
                                      "0",
                                      "1",
                                      "2",
                                      "3",
                                      "63",
                                      "64",
                                      "65",
                                      "2147483646",
                                      "2147483647",
                                      "2147483648",
                                      "4294967295",
                                      "4611686018427387904",
                                      "9223372036854775807",
                                      "9223372036854775808",
                                      "18446744073709551616",
                                      "1e308",
                                      "1e999",
                                      "-0.0",
                                      "0.5",
                                      "null",
                                      "true",
                                      "[]",
                                      "{}",
                                      "\"\""};
  static size_t starts[TOKEN_LIMIT];
  const size_t count = find_tokens(text, is_number, starts);
  if (count == 0) return;
  const size_t from = starts[draw(random, (uint32_t)count)];
  size_t to = from;
  while (to < text->size && is_number(text->bytes[to])) to++;
  /* Mostly one of the small numbers, which can keep the file readable. */
  const uint32_t edge = draw(random, draw(random, 4) != 0 ? 8 : sizeof edges / sizeof *edges);
  splice(text, from, to, edges[edge], strlen(edges[edge]));
}

/* A piece between two commas is dropped, or written over another one, or before it. */
static void change_piece(struct text *text, uint32_t *random) {
  static size_t starts[TOKEN_LIMIT];
  static char piece[TEXT_LIMIT];
  const size_t count = find_tokens(text, is_comma, starts);
  if (count < 3) return;
  const size_t a = draw(random, (uint32_t)count - 1), b = draw(random, (uint32_t)count - 1);
  const size_t size = starts[a + 1] - starts[a];
  memcpy(piece, text->bytes + starts[a], size);
  switch (draw(random, 3)) {
  case 0:
    splice(text, starts[a], starts[a + 1], "", 0);
    break;
  case 1:
    splice(text, starts[b], starts[b + 1], piece, size);
    break;
  default:
    splice(text, starts[b], starts[b], piece, size);
    break;
  }
}

static void change(struct text *text, uint32_t *random) {
  for (uint32_t places = 1 + draw(random, 3); places > 0; places--)
    if (draw(random, 3) != 0)
      change_number(text, random);
    else
      change_piece(text, random);
}

/* ---- What is done with a changed file ---- */

static void expect_message(neap_status status) {
  assert_true(status > NEAP_OK && status < NEAP_INTERNAL);
  assert_true(neap_error_message()[0] != '\0');
}

static void check(const neap_step *step, const neap_plan *plan, bool must_be_valid) {
  neap_check_result result;
  const neap_status status = neap_plan_check(step, plan, &result);
  if (must_be_valid && status != NEAP_OK) print_error("%s\n", neap_error_message());
  assert_true(status == NEAP_OK || (status == NEAP_INVALID_PLAN && !must_be_valid));
  assert_int_equal(result.valid, status == NEAP_OK);
  assert_int_equal(result.reason[0] == '\0', result.valid);
  assert_true(result.position >= -1 && result.position < plan->length);
}

/* A graph that can be read can be planned, and its plan is valid. */
static bool try_graph(const neap_step *unused, bool changed) {
  (void)unused;
  neap_step *step;
  neap_plan *plan;
  const neap_status status = neap_step_read(path, &step);
  if (status != NEAP_OK) {
    assert_true(changed && status == NEAP_BAD_FORMAT);
    assert_non_null(strstr(neap_error_message(), path));
    return false;
  }
  const neap_status made = neap_plan_make(step, NEAP_BUDGET_MAX, "keep-all", NULL, &plan);
  if (made == NEAP_OK) {
    check(step, plan, true);
    neap_plan_free(plan);
  } else {
    expect_message(made);
  }
  neap_step_free(step);
  return true;
}

static bool try_plan(const neap_step *step, bool changed) {
  neap_plan *plan;
  const neap_status status = neap_plan_read(path, &plan);
  if (status != NEAP_OK) {
    assert_true(changed && status == NEAP_BAD_FORMAT);
    assert_non_null(strstr(neap_error_message(), path));
    return false;
  }
  check(step, plan, !changed);
  neap_plan_free(plan);
  return true;
}

static void fuzz(bool (*try)(const neap_step *, bool), const neap_step *step, uint32_t seed) {
  static struct text source, text;
  const int rounds = quick_pass() ? 60 : 250;
  int taken = 0;
  read_text(&source);
  assert_true(try(step, false));
  for (int i = 0; i < rounds; i++) {
    text = source;
    change(&text, &seed);
    write_text(&text);
    taken += try(step, true);
  }
  assert_true(taken > rounds / 20 && taken < rounds * 19 / 20); /* both ways were gone */
}

static void test_graph_files(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    neap_step *step = random_step((enum family)i, 5 + 2 * i, (uint32_t)i + 31);
    assert_int_equal(neap_step_write(step, path), NEAP_OK);
    fuzz(try_graph, NULL, (uint32_t)i + 1);
    neap_step_free(step);
  }
}

static void test_plan_files(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    neap_step *step = random_step((enum family)i, 5 + 2 * i, (uint32_t)i + 31);
    neap_plan *plan;
    assert_int_equal(neap_plan_make(step, NEAP_BUDGET_MIN, "auto", NULL, &plan), NEAP_OK);
    assert_int_equal(neap_plan_write(plan, path), NEAP_OK);
    fuzz(try_plan, step, (uint32_t)i + 11);
    neap_plan_free(plan);
    neap_step_free(step);
  }
}

int main(void) {
  snprintf(path, sizeof path, "/tmp/neap-fuzz-%ld", (long)getpid());
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_graph_files), cmocka_unit_test(test_plan_files)};
  const int result = cmocka_run_group_tests(tests, NULL, NULL);
  remove(path);
  return result;
}
