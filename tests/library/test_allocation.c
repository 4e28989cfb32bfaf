/* malloc fails at every call site, one after the other, of planning, layout, sessions and saving: every time
 * an error that says so, never a crash or a leak, and it all works when memory is there. The linker puts
 * these in the place of the C library's (tests/CMakeLists.txt). */
#include "session_help.h"

#include <jansson.h>
#include <stdatomic.h>
#include <unistd.h>

#include "data/sources.h"
#include "model/model.h"
#include "random_step.h"
#include "small_llama.h"
#include "template/chat_template.h"
#include "text/bleu.h"
#include "text/tokenizer_file.h"

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_reallocarray(void *old, size_t count, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_reallocarray(void *old, size_t count, size_t bytes);

enum { NONE_FAILS = 1L << 40 };
static atomic_long allowed =
    NONE_FAILS; /* allocations until one fails, and all that follow; of all threads */
static atomic_bool failed;

static bool one_only; /* what follows gets its memory again */

static bool may(void) {
  const long left = atomic_fetch_sub(&allowed, 1);
  if (left > 0 || (one_only && left < 0)) return true;
  failed = true;
  return false;
}

void *__wrap_malloc(size_t bytes) { return may() ? __real_malloc(bytes) : NULL; }
void *__wrap_calloc(size_t count, size_t bytes) { return may() ? __real_calloc(count, bytes) : NULL; }
void *__wrap_reallocarray(void *old, size_t count, size_t bytes) {
  return may() ? __real_reallocarray(old, count, bytes) : NULL;
}

/* Runs `attempt` with the first, second, ... allocation failing until it gets through without. */
static void fail_everywhere(neap_status (*attempt)(void), long stride) {
  for (long n = 0;; n += n < 300 ? 1 : stride) {
    allowed = n;
    failed = false;
    const neap_status status = attempt();
    const bool hit = failed;
    allowed = NONE_FAILS;
    failed = false;
    if (!hit) {
      assert_int_equal(status, NEAP_OK);
      assert_true(n > 0);
      return;
    }
    if (status != NEAP_OUT_OF_MEMORY) print_error("allocation %ld: %s\n", n, neap_error_message());
    assert_int_equal(status, NEAP_OUT_OF_MEMORY);
  }
}

static const neap_model_options shape = {.batch = 2, .image = {3, 8, 8}};
static neap_graph *graph;
static neap_session *session;
static char path[64];
static uint64_t plan_budget;
static const char *plan_row;
static neap_step *irregular;

static neap_status attempt_model(void) {
  neap_graph *made;
  const neap_status status = build_named("wrn-10-1", &shape, &made);
  if (status == NEAP_OK) neap_graph_free(made);
  return status;
}

/* Of the reference backend, whose kernels take the same workspaces on every processor. */
static const neap_session_options planned = {.backend = NEAP_REFERENCE, .momentum = 0.9f, .threads = 1};

static neap_status attempt_plan(void) {
  neap_step *step;
  neap_plan *plan;
  neap_status status = neap_step_from_graph(graph, &planned, &step);
  if (status != NEAP_OK) return status;
  status = neap_plan_make(step, plan_budget, plan_row, NULL, &plan);
  if (status == NEAP_OK) neap_plan_free(plan);
  neap_step_free(step);
  return status;
}

static neap_status attempt_search(void) {
  neap_plan *plan;
  const neap_status status = neap_plan_make(irregular, plan_budget, "neap", NULL, &plan);
  if (status == NEAP_OK) neap_plan_free(plan);
  return status;
}

/* Cut out of a full square, so that no greedy order finds the way back. */
static neap_status attempt_layout(void) {
  neap_buffer buffers[60] = {{0, 1 << 10, 1 << 10, 0}};
  uint32_t random = 8;
  for (int32_t i = 1; i < 60; i++) {
    neap_buffer *a = &buffers[0], *b = &buffers[i];
    for (int32_t k = 1; k < i; k++) /* the largest so far */
      if ((uint64_t)(buffers[k].upper - buffers[k].lower) * buffers[k].size >
          (uint64_t)(a->upper - a->lower) * a->size)
        a = &buffers[k];
    random = random * 1664525u + 1013904223u;
    const uint64_t part = 256 + (random >> 23); /* of 1024 */
    *b = *a;
    if ((random & 1 << 20 && a->size > 3) || a->upper - a->lower < 4) {
      a->size = a->size * part >> 10;
      b->size -= a->size;
    } else {
      b->lower = a->upper = a->lower + (int64_t)((uint64_t)(a->upper - a->lower) * part >> 10);
    }
  }
  neap_layout_result result;
  return neap_layout_solve(buffers, 60, 1 << 10, &result);
}

static neap_status attempt_session(void) {
  neap_session *made;
  const neap_session_options options = {.budget = NEAP_BUDGET_MAX, .momentum = 0.9f, .threads = 1};
  const neap_status status = neap_session_create(graph, &options, NULL, &made);
  if (status == NEAP_OK) neap_session_free(made);
  return status;
}

/* A step with adapters beside weights in blocks. */
static neap_status attempt_adapters(void) {
  neap_graph *made = NULL;
  neap_step *step = NULL;
  const neap_model_options small = {.batch = 1, .length = 4, .classes = 8};
  const neap_session_options options = {.backend = NEAP_REFERENCE,
                                        .threads = 1,
                                        .lora = 2,
                                        .lora_dropout = 0.1f,
                                        .store = "*=q8_0",
                                        .compress = "4:*"};
  neap_status status = build_named("gpt-1x32x2", &small, &made);
  if (status == NEAP_OK) status = neap_step_from_graph(made, &options, &step);
  neap_step_free(step);
  neap_graph_free(made);
  return status;
}

static neap_status attempt_save(void) {
  const neap_status status = neap_session_save(session, path);
  return status == NEAP_OK ? neap_session_load(session, path) : status;
}

/* The JSON library's allocations fail too, but not while it reads: its parser writes past its buffer then. */
static void json_may_fail(bool may_fail) {
  json_set_alloc_funcs(may_fail ? malloc : __real_malloc, free); /* the first as wrapped */
}

static neap_status attempt_files(void) {
  neap_step *again = NULL;
  neap_plan *plan = NULL, *plan_again = NULL;
  json_may_fail(true);
  neap_status status = neap_step_write(irregular, path);
  json_may_fail(false);
  if (status == NEAP_OK) status = neap_step_read(path, &again);
  if (status == NEAP_OK) status = neap_plan_make(again, NEAP_BUDGET_MAX, NULL, NULL, &plan);
  json_may_fail(true);
  if (status == NEAP_OK) status = neap_plan_write(plan, path);
  json_may_fail(false);
  if (status == NEAP_OK) status = neap_plan_read(path, &plan_again);
  neap_check_result result;
  if (status == NEAP_OK) status = neap_plan_check(irregular, plan_again, &result);
  neap_plan_free(plan_again);
  neap_plan_free(plan);
  neap_step_free(again);
  return status;
}

static const char lines[] = "two young men , two dogs\nthree old men . three dogs\n";

/* Learns, writes, reads, encodes and decodes. */
static neap_status attempt_tokenizer(void) {
  const struct text text = {.bytes = lines, .length = sizeof lines - 1, .name = "lines"};
  struct tokenizer *tokenizer = NULL, *again = NULL, *characters = NULL;
  struct token_ids ids = {0};
  char *decoded = NULL;
  size_t length;
  int32_t id;
  neap_status status = tokenizer_learn(&text, 1, 270, &tokenizer);
  if (status == NEAP_OK) status = tokenizer_add_special(tokenizer, "<pad>", &id);
  json_may_fail(true);
  if (status == NEAP_OK) status = tokenizer_save(tokenizer, path);
  json_may_fail(false);
  if (status == NEAP_OK) status = tokenizer_read(path, &again);
  if (status == NEAP_OK) status = tokenizer_encode(again, &text, &ids);
  if (status == NEAP_OK) status = tokenizer_decode(again, ids.data, ids.count, &decoded, &length);
  if (status == NEAP_OK) assert_string_equal(decoded, lines);
  if (status == NEAP_OK) status = tokenizer_characters(&text, 1, &characters);
  tokenizer_free(tokenizer);
  tokenizer_free(again);
  tokenizer_free(characters);
  vector_free(&ids);
  free(decoded);
  return status;
}

static const char conversations[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": "
    "\"b\"}]}\n"
    "{\"instruction\": \"a\", \"input\": \"b\", \"output\": \"c\"}\n{\"text\": \"abc\"}\n";
static const char jinja[] = /* of ChatML */
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
    "'<|im_start|>system\nBe brief.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
    "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|im_start|>assistant\n' }}{% endif %}";

static neap_model *bringing; /* a template, and no tokenizer */

static neap_status bring_nothing(const neap_model *model, struct tokenizer **tokenizer) {
  (void)model;
  *tokenizer = NULL;
  return NEAP_OK;
}

static neap_status bring_template(const neap_model *model, struct chat_template **chat) {
  (void)model;
  return chat_template_find(jinja, "model", chat);
}

/* Opens conversations with a model's template, and learns their tokens. */
static neap_status attempt_conversations(void) {
  static const struct task_texts texts = {bring_nothing, bring_template, NULL};
  char name[128];
  struct source source = {0};
  const struct task task = {
      .kind = NEAP_TASK_TOKENS, .length = 256, .any_length = true, .model = bringing, .texts = &texts};
  snprintf(name, sizeof name, "chat:%s,tokens=270", path);
  const neap_status status = sources_open(name, &task, &source);
  source_close(&source);
  return status;
}

static neap_status attempt_bleu(void) {
  const char *const segments[] = {"two young men, two dogs", "three old men."};
  struct bleu bleu;
  return bleu_corpus(segments, segments, 2, BLEU_13A, &bleu);
}

/* Opens a language model, and asks it. */
static neap_status attempt_language_model(void) {
  neap_model *opened;
  neap_graph *made = NULL;
  struct tokenizer *tokenizer = NULL;
  TRY(neap_model_open(path, &opened));
  neap_status status = neap_model_build(opened, &(neap_model_options){.batch = 1, .length = 4}, &made);
  if (status == NEAP_OK) status = model_tokenizer(opened, &tokenizer);
  tokenizer_free(tokenizer);
  neap_graph_free(made);
  neap_model_close(opened);
  return status;
}

static void test_language_model(void **state) {
  (void)state;
  snprintf(path, sizeof path, "/tmp/neap-test-%ld.gguf", (long)getpid());
  write_llama(path, 1);
  json_may_fail(false);
  fail_everywhere(attempt_language_model, 7);
  remove(path);
}

static void test_model(void **state) {
  (void)state;
  fail_everywhere(attempt_model, 7);
}

static void test_plan(void **state) {
  (void)state;
  neap_step *step;
  neap_plan *plan;
  neap_plan_info info;
  ASSERT_OK(neap_step_from_graph(graph, &planned, &step));
  ASSERT_OK(neap_plan_make(step, NEAP_BUDGET_MAX, "keep-all", NULL, &plan));
  neap_plan_describe(plan, &info);
  plan_budget = info.peak_bytes - 64;
  neap_plan_free(plan);
  neap_step_free(step);
  static const char *const rows[] = {"evict", "kusumoto-exact", "feng-huang", "dtr"};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    plan_row = rows[i];
    fail_everywhere(attempt_plan, 41);
  }
}

/* Several searches side by side, and layouts that have to be repaired. */
static void test_search(void **state) {
  (void)state;
  uint64_t most;
  irregular = random_step(FAMILY_DENSE, 40, 3);
  neap_step_info info;
  neap_step_describe(irregular, &info);
  ASSERT_OK(neap_step_keep_all_bytes(irregular, &most));
  plan_budget = info.resident_bytes + (most - info.resident_bytes) / 10 * 8;
  fail_everywhere(attempt_search, 499);
  neap_step_free(irregular);
}

static void test_layout(void **state) {
  (void)state;
  fail_everywhere(attempt_layout, 1);
}

static void test_session(void **state) {
  (void)state;
  fail_everywhere(attempt_session, 41);
}

static void test_adapters(void **state) {
  (void)state;
  fail_everywhere(attempt_adapters, 7);
}

static void test_save(void **state) {
  (void)state;
  char before[65], after[65];
  const neap_session_options options = {.budget = NEAP_BUDGET_MAX, .threads = 1};
  ASSERT_OK(neap_session_create(graph, &options, NULL, &session));
  ASSERT_OK(neap_session_digest(session, before));
  snprintf(path, sizeof path, "/tmp/neap-test-%ld.safetensors", (long)getpid());
  fail_everywhere(attempt_save, 11);
  ASSERT_OK(neap_session_digest(session, after));
  assert_string_equal(before, after);
  remove(path);
  neap_session_free(session);
}

/* What is written in spite of a failure would be read as less than there was. */
static void test_files(void **state) {
  (void)state;
  irregular = random_step(FAMILY_LAYERED, 12, 5);
  snprintf(path, sizeof path, "/tmp/neap-test-%ld.json", (long)getpid());
  one_only = true;
  fail_everywhere(attempt_files, 1);
  one_only = false;
  remove(path);
  neap_step_free(irregular);
}

static void test_text(void **state) {
  (void)state;
  snprintf(path, sizeof path, "/tmp/neap-test-%ld.json", (long)getpid());
  one_only = true;
  fail_everywhere(attempt_tokenizer, 1);
  one_only = false;
  fail_everywhere(attempt_tokenizer, 1);
  fail_everywhere(attempt_bleu, 1);
  remove(path);
}

static void test_conversations(void **state) {
  (void)state;
  snprintf(path, sizeof path, "/tmp/neap-test-%ld.jsonl", (long)getpid());
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  fputs(conversations, file);
  assert_int_equal(fclose(file), 0);
  json_may_fail(false);
  fail_everywhere(attempt_conversations, 1);
  remove(path);
}

int run_test_allocation(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_model),    cmocka_unit_test(test_language_model), cmocka_unit_test(test_plan),
      cmocka_unit_test(test_search),   cmocka_unit_test(test_layout),         cmocka_unit_test(test_session),
      cmocka_unit_test(test_adapters), cmocka_unit_test(test_files),          cmocka_unit_test(test_save),
      cmocka_unit_test(test_text),     cmocka_unit_test(test_conversations)};
  if (neap_model_open("wrn-10-1", &bringing) != NEAP_OK) return 1;
  if (neap_model_build(bringing, &shape, &graph) != NEAP_OK) return 1;
  const int result = cmocka_run_group_tests(tests, NULL, NULL);
  neap_model_close(bringing);
  neap_graph_free(graph);
  return result;
}
