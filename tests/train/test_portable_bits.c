/* Portable bits (session option `bits`): short runs give the digests recorded here on every instruction set
 * that the processor has, with every number of threads, whatever the compiler and with or without oneDNN. */
#include <stdlib.h>
#include <string.h>

#include "effort.h"
#include "kernel/cpu/dispatch.h"
#include "testing.h"

struct run {
  const char *model;
  neap_train_options options;
  const char *digest;
};

/* Every kind of layer, optimizer and loss that sums along something. */
static const struct run runs[] = {
    {"wrn-10-2",
     {.shape = {.batch = 6, .image = {3, 16, 16}}},
     "d060ec418f04e11c7441bea494c63194398188ecb4f294c581624954164c119d"},
    {"wrn-10-1",
     {.shape = {.batch = 4, .image = {3, 20, 12}}, .micro_batch = 2, .session = {.clip_norm = 1}},
     "082f85a7a745da2f278bdfb0bca355230d1a7e2c042f1cb5adc1bbf94ffbc6de"},
    {"resnet-bottleneck-1-1-1-1",
     {.shape = {.batch = 2, .image = {3, 32, 32}}},
     "fd87646f48d1b29c2ed0e90a8088b20b0057eb3361fe07399d91a06bf073bc05"},
    {"mobilenet-v2",
     {.shape = {.batch = 2, .image = {3, 32, 32}}, .session = {.optimizer = NEAP_ADAM}},
     "1e36572a951d54f92b447543c0c869489901f653e9ea76a675c86383dbc1a278"},
    {"googlenet-lrn",
     {.shape = {.batch = 1, .image = {3, 64, 64}}, .session = {.optimizer = NEAP_RMSPROP}},
     "3c54de7c528f37433188eb54205e2b85614b800cd9bfaf64bc2255fac5c34ccf"},
    {"lenet",
     {.shape = {.batch = 8}, .session = {.optimizer = NEAP_LION}, .mixup = 0.2f},
     "468f8cf7634c092f7b4888619d623a5aa73a92784f6438ebec4b0935a56f2689"},
    {"gpt-2x32x2",
     {.shape = {.batch = 2, .length = 70, .dropout = 0.1f}, .session = {.optimizer = NEAP_ADAMW}},
     "c748858f09323d08838ea62df08db973bf614e66b63118dc77960a6bb39ef874"},
    {"llama-2x32x4x2",
     {.shape = {.batch = 2, .length = 40}, .session = {.optimizer = NEAP_ADAM, .ema = 0.9f}},
     "58cf2e0e5d1a26d194ca02b67e34da998e7f77fa4ca028ae62cfef2ed2143ed7"},
    {"bert-1x32x2",
     {.shape = {.batch = 2, .length = 24}},
     "318bb9ddc745c134046835f111f01618434409a9d5a78b6279a4cc43e6d16117"},
    {"char-lstm-2x32",
     {.shape = {.batch = 3, .length = 20}},
     "2576e68c2d479179e30614c118032821c277ab4a15475c1e05ff436fccc550bd"},
    {"mlp-50x30",
     {.shape = {.batch = 7}},
     "f82dd4e604754043be8597e57a1c655c16459fbb1bc27349873f506af3b3fd72"},
};

static void digest_of(const struct run *run, int threads, char digest[65]) {
  neap_train_options o = neap_train_options_usual();
  const neap_session_options *own = &run->options.session;
  neap_train_result result;
  o.model = run->model;
  o.data = "synthetic";
  o.shape = run->options.shape;
  o.micro_batch = run->options.micro_batch;
  o.mixup = run->options.mixup;
  o.steps = 3;
  o.learning_rate = 1e-3;
  o.no_evaluation = true;
  o.session.optimizer = own->optimizer;
  o.session.clip_norm = own->clip_norm;
  o.session.ema = own->ema;
  o.session.bits = NEAP_BITS_PORTABLE;
  o.session.threads = threads;
  ASSERT_OK(neap_train(&o, &result));
  memcpy(digest, result.weights_sha256, sizeof result.weights_sha256);
}

static void test_recorded(void **state) {
  (void)state;
  for (int k = 0; cpu_kernels_at(k) != NULL; k++) {
    const char *name = cpu_kernels_at(k)->name;
    if (strcmp(name, "generic_fma") == 0) continue; /* which `generic` becomes */
    setenv("NEAP_MAX_CPU_ISA", name, 1);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
      char digest[65];
      if (sanitized() && (k + (int)i) % 2 != 0) continue;
      digest_of(&runs[i], 1 + (k + (int)i) % 3, digest);
      if (strcmp(digest, runs[i].digest) != 0)
        fail_msg("%s on %s: the digest is %s, recorded is %s", runs[i].model, name, digest, runs[i].digest);
    }
  }
  unsetenv("NEAP_MAX_CPU_ISA");
}

static void expect_refused(neap_session_options session, const char *message) {
  neap_train_options o = neap_train_options_usual();
  neap_train_result result;
  o.model = "lenet";
  o.data = "synthetic";
  session.bits = NEAP_BITS_PORTABLE;
  session.budget = NEAP_BUDGET_MAX;
  o.session = session;
  assert_int_equal(neap_train(&o, &result), NEAP_INVALID_ARGUMENT);
  assert_non_null(strstr(neap_error_message(), message));
}

static void test_refusals(void **state) {
  (void)state;
  expect_refused((neap_session_options){.precision = NEAP_BF16}, "precision bf16");
  expect_refused((neap_session_options){.precision = NEAP_F16}, "precision f16");
  expect_refused((neap_session_options){.backend = NEAP_REFERENCE}, "reference backend");
}

int run_test_portable_bits(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_recorded), cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
