/* The rows of settings: every one reads what it writes, keeps its range, and writes to a field of its own. */
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "settings/settings.h"
#include "testing.h"

enum { TEXT = 256 };

static neap_setting row_of(const char *name) {
  neap_setting row;
  assert_true(neap_setting_at(neap_setting_find(name), &row));
  return row;
}

static void expect_read(const char *name, const char *text, neap_train_options *options) {
  const neap_setting row = row_of(name);
  assert_int_equal(neap_setting_read(&row, text, options), NEAP_OK);
}

static void expect_refused(const char *name, const char *text) {
  neap_train_options options = neap_train_options_usual();
  const neap_train_options before = options;
  const neap_setting row = row_of(name);
  char start[TEXT];
  assert_int_equal(neap_setting_read(&row, text, &options), NEAP_INVALID_ARGUMENT);
  snprintf(start, sizeof start, "%s %s: ", name, text);
  assert_memory_equal(neap_error_message(), start, strlen(start));
  assert_memory_equal(&options, &before, sizeof options);
}

/* A text for each kind that no usual value has. */
static const char *other_text(const neap_setting *row) {
  static char word[64];
  const char *bar = row->value != NULL ? strchr(row->value, '|') : NULL;
  switch (row->kind) {
  case NEAP_SETTING_SWITCH:
    return "true";
  case NEAP_SETTING_CHOICE:
  case NEAP_SETTING_WORD:
  case NEAP_SETTING_DTYPE:
    snprintf(word, sizeof word, "%.*s", (int)strcspn(bar + 1, "|"), bar + 1);
    return strcmp(row->name, "schedule") == 0 ? "step" : word;
  case NEAP_SETTING_IMAGE:
    return "1x2x3";
  case NEAP_SETTING_BYTES:
    return "12345";
  case NEAP_SETTING_BUDGET:
    return "37.5%";
  case NEAP_SETTING_NUMBER:
  case NEAP_SETTING_FLOAT:
  case NEAP_SETTING_SCALE:
    return "0.3";
  case NEAP_SETTING_TECHNIQUES:
    return "micro,sparse=0.3";
  default:
    return "7";
  }
}

static void test_round_trip(void **state) {
  (void)state;
  neap_setting row;
  for (int32_t i = 0; neap_setting_at(i, &row); i++) {
    neap_train_options options = neap_train_options_usual(), again = neap_train_options_usual();
    const char *text = other_text(&row);
    char written[TEXT], usual[TEXT];
    assert_int_equal(neap_setting_write(&row, &options, usual, sizeof usual), NEAP_OK);
    assert_int_equal(neap_setting_read(&row, text, &options), NEAP_OK);
    assert_int_equal(neap_setting_write(&row, &options, written, sizeof written), NEAP_OK);
    assert_string_equal(written, text);
    assert_string_not_equal(written, usual);
    if (row.kind == NEAP_SETTING_TEXT) continue; /* it points to another text */
    assert_int_equal(neap_setting_read(&row, written, &again), NEAP_OK);
    assert_memory_equal(&options, &again, sizeof options);
  }
  assert_false(neap_setting_at(-1, &row));
}

/* Setting one leaves what all others write as it was. */
static void test_fields_apart(void **state) {
  (void)state;
  neap_setting one, other;
  for (int32_t i = 0; neap_setting_at(i, &one); i++) {
    const neap_train_options usual = neap_train_options_usual();
    neap_train_options options = usual;
    assert_int_equal(neap_setting_read(&one, other_text(&one), &options), NEAP_OK);
    for (int32_t k = 0; neap_setting_at(k, &other); k++) {
      char was[TEXT], is[TEXT];
      const bool density = one.kind == NEAP_SETTING_TECHNIQUES && strcmp(other.name, "sparse") == 0;
      if (k == i || density) continue;
      assert_int_equal(neap_setting_write(&other, &usual, was, sizeof was), NEAP_OK);
      assert_int_equal(neap_setting_write(&other, &options, is, sizeof is), NEAP_OK);
      assert_string_equal(is, was);
    }
  }
}

/* "a|b" has the name. */
static bool has_name(const char *names, const char *name) {
  for (const char *from = names; from != NULL && *from != '\0'; from += *from == '|') {
    const size_t length = strcspn(from, "|");
    if (strlen(name) == length && strncmp(from, name, length) == 0) return true;
    from += length;
  }
  return false;
}

/* Each setting that can be given instead of a row names that row. */
static void expect_mutual(const neap_setting *row) {
  char names[TEXT], *rest = names;
  snprintf(names, sizeof names, "%s", row->instead_of != NULL ? row->instead_of : "");
  for (const char *name; (name = strsep(&rest, "|")) != NULL;)
    if (name[0] != '\0') assert_true(has_name(row_of(name).instead_of, row->name));
}

/* Names are found, and what a row refers to is there. */
static void test_table(void **state) {
  (void)state;
  neap_setting row, other;
  for (int32_t i = 0; neap_setting_at(i, &row); i++) {
    assert_int_equal(neap_setting_find(row.name), i);
    assert_true(row.verbs != 0 && row.help != NULL);
    assert_int_equal(row.value == NULL, row.kind == NEAP_SETTING_SWITCH);
    assert_int_equal(row.key != NULL, (row.flags & NEAP_SETTING_BITS) != 0);
    if (row.unless != NULL) assert_true(neap_setting_find(row.unless) >= 0);
    expect_mutual(&row);
    for (int32_t k = 0; row.key != NULL && neap_setting_at(k, &other); k++)
      assert_true(k == i || other.key == NULL || strcmp(row.key, other.key) != 0);
  }
  assert_int_equal(neap_setting_find("no-such-setting"), -1);
}

static void test_ranges(void **state) {
  (void)state;
  const char *const bad[][2] = {
      {"batch", "0"},
      {"batch", "-1"},
      {"batch", "2147483648"},
      {"batch", "1.5"},
      {"batch", ""},
      {"batch", "1 "},
      {"batch", "auto"},
      {"threads", "0"},
      {"threads", "4294967297"},
      {"momentum", "1"},
      {"momentum", "nan"},
      {"momentum", "0.99999999999"},
      {"momentum", "-0.1"},
      {"lr", "-1"},
      {"lr", "inf"},
      {"clip-norm", "1e300"},
      {"image", "3x32"},
      {"image", "3x32x32x1"},
      {"image", "3x32x0"},
      {"image", "3x32x2147483648"},
      {"budget", "12parsecs"},
      {"process-budget", "80%"},
      {"process-budget", "max"},
      {"optimizer", "adamx"},
      {"optimizer", ""},
      {"optimizer", "sgd|adam"},
      {"precision", "f64"},
      {"shuffle", "yes"},
      {"nesterov", "1"},
      {"allow", ""},
      {"allow", "micro,"},
      {"allow", "sparse=1"},
      {"loss-scale", "-1"},
      {"loss-scale", "static"},
      {"step-epochs", "0"},
      {"seed", "-1"},
      {"micro-batch", "-1"},
      {"rewire-every", "auto"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) expect_refused(bad[i][0], bad[i][1]);
  neap_train_options options = neap_train_options_usual();
  const neap_setting batch = row_of("batch");
  assert_int_equal(neap_setting_read(&batch, "0", &options), NEAP_INVALID_ARGUMENT);
  assert_non_null(strstr(neap_error_message(), "from 1 to 2147483647"));
  expect_read("batch", "2147483647", &options);
  assert_int_equal(options.shape.batch, 2147483647);
}

/* 0 is another value than none where a field of 0 is the usual one. */
static void test_zero(void **state) {
  (void)state;
  const char *const names[] = {"lr", "beta1", "beta2", "epsilon", "step-factor"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    neap_train_options options = {0};
    const neap_setting row = row_of(names[i]);
    char text[TEXT];
    assert_int_equal(neap_setting_write(&row, &options, text, sizeof text), NEAP_OK);
    assert_string_equal(text, "");
    expect_read(names[i], "0", &options);
    assert_int_equal(neap_setting_write(&row, &options, text, sizeof text), NEAP_OK);
    assert_string_equal(text, "0");
  }
  neap_train_options zero = {.session = {.optimizer = NEAP_ADAM, .beta1 = (float)NEAP_ZERO}}, usual = zero;
  usual.session.beta1 = 0;
  neap_train_options_resolve(&zero);
  neap_train_options_resolve(&usual);
  assert_true(zero.session.beta1 == 0 && signbit(zero.session.beta1));
  assert_true(usual.session.beta1 == 0.9f && usual.session.beta2 == 0.999f && usual.session.epsilon == 1e-8f);
  assert_true(setting_given_or(NEAP_ZERO, 3) == 0);
  assert_true(setting_given_or(0, 3) == 3 && setting_given_or(NAN, 3) == 3 && setting_given_or(2, 3) == 2);
}

/* The optimizer's numbers take the place of NAN and of nothing else. */
static void test_usual(void **state) {
  (void)state;
  const struct {
    const char *optimizer;
    double rate;
    float decay, momentum;
  } rows[] = {{"sgd", 0.1, 0.0005f, 0.9f},   {"adamw", 0.001, 0.01f, 0.9f}, {"adam", 0.001, 0, 0},
              {"rmsprop", 0.001, 0, 0},      {"lion", 0.0001, 0.01f, 0},    {"lomo", 0.01, 0, 0},
              {"adafactor", 0.01, 0, 0},     {"apollo-mini", 0.01, 0, 0},   {"adam-mini", 0.001, 0.01f, 0},
              {"muon", 0.001, 0.01f, 0.95f}, {"adamw8", 0.001, 0.01f, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    neap_train_options options = neap_train_options_usual(), given = options;
    expect_read("optimizer", rows[i].optimizer, &options);
    neap_train_options_resolve(&options);
    assert_true(options.learning_rate == rows[i].rate);
    assert_true(options.session.weight_decay == rows[i].decay &&
                options.session.momentum == rows[i].momentum);
    expect_read("optimizer", rows[i].optimizer, &given);
    expect_read("momentum", "0.25", &given);
    expect_read("weight-decay", "0", &given);
    neap_train_options_resolve(&given);
    assert_true(given.session.momentum == 0.25f && given.session.weight_decay == 0);
  }
}

static void expect_use(const char *name, const neap_train_options *options, const char *part) {
  const neap_setting row = row_of(name);
  const neap_status status = neap_setting_check_use(&row, options);
  assert_int_equal(status, part == NULL ? NEAP_OK : NEAP_INVALID_ARGUMENT);
  if (part != NULL && strstr(neap_error_message(), part) == NULL) fail_msg("%s", neap_error_message());
}

static void test_use(void **state) {
  (void)state;
  const struct {
    const char *model, *name, *text, *beside, *beside_text, *part; /* NULL: it is of use */
  } cases[] = {
      {"wrn-10-1", "beta1", "0.5", "optimizer", "adam", NULL},
      {"wrn-10-1", "beta1", "0.5", "optimizer", "rmsprop",
       "`beta1` only applies to `optimizer` adamw, adam, lion, apollo, apollo-mini, adam-mini, muon, galore, "
       "fira, adamw8 or lion8"},
      {"wrn-10-1", "master", "true", "precision", "bf16", NULL},
      {"wrn-10-1", "master", "true", "allow", "f16", NULL},
      {"wrn-10-1", "master", "true", "seed", "2", "without `precision` bf16 or f16 or `allow`"},
      {"wrn-10-1", "warmup", "2", "warmup-steps", "5", "`warmup` and `warmup-steps`: give one of them"},
      {"wrn-10-1", "warmup", "2", "seed", "2", NULL},
      {"wrn-10-1", "total-budget", "2MB", "seed", "2", NULL},
      {"wrn-10-1", "total-budget", "2MB", "budget", "1MB", "`total-budget` and `budget`: give one of them"},
      {"wrn-10-1", "budget", "1MB", "total-budget", "2MB", "`budget` and `total-budget`: give one of them"},
      {"wrn-10-1", "process-budget", "1MB", "total-budget", "2MB",
       "`process-budget` and `total-budget`: give one of them"},
      {"wrn-10-1", "planner", "evict", "plan", "p.json", "`plan` p.json"},
      {"wrn-10-1", "length", "8", "seed", "2", "learns from images"},
      {"wrn-10-1", "dropout", "0.5", "seed", "2", "learns from images"},
      {"wrn-10-1", "dropout", "0", "seed", "2", NULL},
      {"unet-8", "image", "1x64x64", "seed", "2", NULL},
      {"gpt-2x32x2", "image", "3x64x64", "seed", "2", "learns from tokens"},
      {"gpt-2x32x2", "conv", "direct", "seed", "2", "it only applies to models of images"},
      {"gpt-2x32x2", "window", "4", "seed", "2", NULL},
      {"gpt-2x32x2", "attention", "window:4;strided:8", "seed", "2", NULL},
      {"gpt-2x32x2", "attention", "window:4", "window", "4", "`attention` and `window`: give one of them"},
      {"transformer", "attention", "window:4", "seed", "2", "pairs of sequences"},
      {"lstm-1x32", "length", "4", "seed", "2", NULL},
      {"transformer", "window", "4", "seed", "2", "pairs of sequences"},
      {NULL, "length", "8", "seed", "2", NULL},
      {"wrn-10-1", "keep-epochs", "3", "resume", "run", NULL},
      {"wrn-10-1", "keep-epochs", "3", "seed", "2", "`out` DIR"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    neap_train_options options = neap_train_options_usual();
    options.model = cases[i].model;
    expect_read(cases[i].name, cases[i].text, &options);
    expect_read(cases[i].beside, cases[i].beside_text, &options);
    expect_use(cases[i].name, &options, cases[i].part);
  }
}

/* Each process gets an equal part of a total budget, and never 0 bytes, which would be another budget. */
static void test_total_budget(void **state) {
  (void)state;
  const struct {
    int size;
    uint64_t total, part;
  } cases[] = {{0, 100, 100}, {1, 100, 100}, {2, 100, 50}, {3, 100, 33}, {3, 2, 1}, {2, 0, NEAP_BUDGET_MAX}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    neap_train_options options = neap_train_options_usual();
    neap_collective collective = {.size = cases[i].size};
    options.session.collective = cases[i].size > 0 ? &collective : NULL;
    options.total_budget = cases[i].total;
    for (int twice = 0; twice < 2; twice++) {
      neap_train_options_divide_budget(&options);
      assert_true(options.session.budget == cases[i].part && options.total_budget == 0);
    }
  }
}

/* What a checkpoint of before has for the usual value is read as that, and a 0 that was given as 0. */
static void test_saved(void **state) {
  (void)state;
  json_t *saved = json_pack("{s:s, s:f, s:f, s:f, s:f}", "optimizer", "adam", "beta1", 0.0, "beta2",
                            NEAP_ZERO, "epsilon", 0.5, "learning_rate", 0.0);
  settings_name_usual(saved);
  assert_true(json_real_value(json_object_get(saved, "beta1")) == (double)0.9f);
  assert_true(json_real_value(json_object_get(saved, "beta2")) == 0);
  assert_true(json_real_value(json_object_get(saved, "epsilon")) == 0.5);
  assert_true(json_real_value(json_object_get(saved, "learning_rate")) == 0);
  json_decref(saved);
}

int run_test_settings(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),   cmocka_unit_test(test_fields_apart),
      cmocka_unit_test(test_table),        cmocka_unit_test(test_ranges),
      cmocka_unit_test(test_zero),         cmocka_unit_test(test_usual),
      cmocka_unit_test(test_use),          cmocka_unit_test(test_saved),
      cmocka_unit_test(test_total_budget),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
