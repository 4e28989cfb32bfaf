/* Text from a model whose logits are known: what is chosen how often, which tokens, whole characters. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "effort.h"
#include "session_help.h"
#include "text/tokenizer_file.h"

enum { LENGTH = 8, BYTES = 256 };

/* A folder with a GPT, whose head's bias alone counts as its weights are 0, and a tokenizer. */
struct place {
  char folder[32], weights[64], tokenizer[64];
};

static const char model[] = "llama-1x8x2x1";

static void make_place(struct place *p) {
  strcpy(p->folder, "/tmp/neap-text-XXXXXX");
  assert_non_null(mkdtemp(p->folder));
  snprintf(p->weights, sizeof p->weights, "%s/w.safetensors", p->folder);
  snprintf(p->tokenizer, sizeof p->tokenizer, "%s/t.json", p->folder);
}

static void remove_place(const struct place *p) {
  unlink(p->weights);
  unlink(p->tokenizer);
  rmdir(p->folder);
}

/* Weights that give the same logits at every place: all embeddings are one vector, which the head's rows
 * multiply. `logits` [classes]. */
static void write_weights(const struct place *p, const float *logits, int64_t classes) {
  const neap_model_options shape = {.batch = 1, .classes = classes, .length = LENGTH};
  neap_graph *graph;
  neap_session *s;
  ASSERT_OK(build_named(model, &shape, &graph));
  ASSERT_OK(neap_session_create(graph, &(neap_session_options){.predict = true, .threads = 1}, NULL, &s));
  for (int32_t i = 0; i < neap_session_variable_count(s); i++) {
    neap_variable v;
    ASSERT_OK(neap_session_variable(s, i, &v));
    float *data = calloc((size_t)v.elements, sizeof *data);
    assert_non_null(data);
    const bool head = strcmp(v.name, "head.weight") == 0, token = strcmp(v.name, "token.weight") == 0,
               gamma = strstr(v.name, "gamma") != NULL;
    const int64_t width = v.dims[v.rank - 1];
    for (int64_t k = 0; k < v.elements; k++)
      data[k] = token || gamma ? 1 : head && k % width == 0 ? logits[k / width] : 0;
    ASSERT_OK(neap_session_write(s, i, data));
    free(data);
  }
  ASSERT_OK(neap_session_save(s, p->weights));
  neap_session_free(s);
  neap_graph_free(graph);
}

static void write_tokenizer(const struct place *p, const char *characters, const char *special) {
  struct tokenizer *tokenizer;
  const struct text text = {.bytes = characters, .length = characters != NULL ? strlen(characters) : 0};
  int32_t id;
  ASSERT_OK(characters != NULL ? tokenizer_characters(&text, 1, &tokenizer) : tokenizer_bytes(&tokenizer));
  if (special != NULL) ASSERT_OK(tokenizer_add_special(tokenizer, special, &id));
  ASSERT_OK(tokenizer_save(tokenizer, p->tokenizer));
  tokenizer_free(tokenizer);
}

/* The text, and the pieces that it came in. */
struct said {
  char text[1 << 16];
  size_t length;
  int pieces, most; /* most: after which it is told to stop; 0: never */
  bool whole;       /* every piece was UTF-8 */
};

static int take(void *context, const char *bytes, size_t length) {
  struct said *s = context;
  assert_true(length > 0 && s->length + length < sizeof s->text);
  memcpy(s->text + s->length, bytes, length);
  s->length += length;
  s->whole = s->whole && utf8_check(&(struct text){.bytes = bytes, .length = length}) == NEAP_OK;
  return ++s->pieces == s->most;
}

static neap_generate_result generate(const struct place *p, neap_generate_options o, struct said *said,
                                     neap_status expected) {
  neap_generate_result result;
  *said = (struct said){.whole = true, .most = said->most};
  o.model = model;
  o.weights = p->weights;
  o.tokenizer = p->tokenizer;
  o.shape.length = LENGTH;
  o.session.threads = 1;
  o.text = take;
  o.context = said;
  const neap_status status = neap_generate(&o, &result);
  if (status != expected) fail_msg("%s", neap_error_message());
  return result;
}

static double share_of(const struct said *s, char c) {
  size_t count = 0;
  for (size_t i = 0; i < s->length; i++) count += s->text[i] == c;
  return (double)count / (double)s->length;
}

/* Shares of many tokens are those of the softmax, over all or over the most likely ones. The bounds are more
 * than five deviations. */
static void test_shares(void **state) {
  (void)state;
  const int made = quick_pass() ? 500 : 1500;
  static const float logits[] = {0, 1, 2, -1, 2};
  static const char characters[] = "abcde";
  static const struct {
    double temperature;
    int64_t top_k;
  } rows[] = {{1, 0}, {0.5, 0}, {2, 3}, {1, 2}, {1, 5}, {1, 9}};
  struct place p;
  struct said said = {.most = 0};
  make_place(&p);
  write_weights(&p, logits, 5);
  write_tokenizer(&p, characters, NULL);
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    generate(&p,
             (neap_generate_options){
                 .tokens = made, .temperature = rows[r].temperature, .top_k = rows[r].top_k, .seed = r},
             &said, NEAP_OK);
    assert_int_equal(said.length, made);
    static const int rank[] = {4, 3, 1, 5, 2}; /* from the most likely on; of equal ones the first */
    double weights[5], sum = 0;
    for (int i = 0; i < 5; i++) {
      const bool in = rows[r].top_k == 0 || rank[i] <= rows[r].top_k;
      sum += weights[i] = in ? exp((double)logits[i] / rows[r].temperature) : 0;
    }
    for (int i = 0; i < 5; i++) {
      const double share = share_of(&said, characters[i]), expected = weights[i] / sum;
      if (!(fabs(share - expected) <= 5 * sqrt(expected / made)))
        fail_msg("row %d: '%c' has a share of %g, not %g", (int)r, characters[i], share, expected);
    }
  }
  /* The most likely one; of two equal ones the lower id. */
  generate(&p, (neap_generate_options){.tokens = 20}, &said, NEAP_OK);
  assert_true(share_of(&said, 'c') == 1);
  remove_place(&p);
}

/* A special token is chosen only where it may be, and gives no text; ids beyond the tokenizer are never
 * chosen. */
static void test_special(void **state) {
  (void)state;
  static const float logits[] = {0, 1, 9, 50};
  struct place p;
  struct said said = {.most = 0};
  make_place(&p);
  write_weights(&p, logits, 4);
  write_tokenizer(&p, "\nb", "<end>");
  const neap_generate_options o = {.tokens = 6, .shape.classes = 4};
  neap_generate_result r = generate(&p, o, &said, NEAP_OK);
  assert_int_equal(r.prompt_tokens, 1);
  assert_int_equal(r.tokens, 6);
  assert_int_equal(said.length, 6);
  assert_true(share_of(&said, 'b') == 1);
  neap_generate_options with = o;
  with.special = true;
  r = generate(&p, with, &said, NEAP_OK);
  assert_int_equal(r.tokens, 6);
  assert_int_equal(said.length, 0);
  said.most = 2;
  generate(&p, o, &said, NEAP_INTERRUPTED);
  assert_int_equal(said.pieces, 2);
  remove_place(&p);
}

/* Bytes that are drawn evenly: all of them are given out, and where they make characters in whole ones. */
static void test_characters(void **state) {
  (void)state;
  float logits[BYTES];
  struct place p;
  struct said said = {.most = 0};
  make_place(&p);
  write_tokenizer(&p, NULL, NULL);
  for (int i = 0; i < BYTES; i++) logits[i] = 0;
  write_weights(&p, logits, BYTES);
  neap_generate_result r =
      generate(&p, (neap_generate_options){.tokens = 2000, .temperature = 1, .prompt = "ab"}, &said, NEAP_OK);
  assert_int_equal(r.prompt_tokens, 2);
  assert_int_equal(said.length, 2000);
  assert_true(said.pieces < 2000);
  assert_int_equal(r.memory.measured_peak, r.memory.planned_peak);
  /* C3 begins a character of two bytes; one that nothing follows comes at the end. */
  for (int i = 0; i < BYTES; i++) logits[i] = i == 0xC3 ? 1 : i == 'x' ? 0 : -1e4f;
  write_weights(&p, logits, BYTES);
  generate(&p, (neap_generate_options){.tokens = 5}, &said, NEAP_OK);
  assert_int_equal(said.length, 5);
  assert_memory_equal(said.text, "\xC3\xC3\xC3\xC3\xC3", 5);
  for (int i = 0; i < BYTES; i++) logits[i] = i == 'x' || i == 'y' ? 1 : -1e4f;
  write_weights(&p, logits, BYTES);
  generate(&p, (neap_generate_options){.tokens = 50, .temperature = 1}, &said, NEAP_OK);
  assert_true(said.whole && said.pieces == 50);
  logits[7] = NAN;
  write_weights(&p, logits, BYTES);
  generate(&p, (neap_generate_options){.tokens = 5}, &said, NEAP_BAD_FORMAT);
  assert_non_null(strstr(neap_error_message(), "tensor 'head.weight' has NaN at element"));
  remove_place(&p);
}

static void test_what_is_refused(void **state) {
  (void)state;
  static const float logits[3] = {0};
  struct place p;
  struct said said = {.most = 0};
  make_place(&p);
  write_weights(&p, logits, 3);
  write_tokenizer(&p, "abc", NULL);
  generate(&p, (neap_generate_options){.tokens = 5, .prompt = "ax"}, &said, NEAP_BAD_FORMAT);
  generate(&p, (neap_generate_options){.tokens = -1}, &said, NEAP_INVALID_ARGUMENT);
  generate(&p, (neap_generate_options){.tokens = 1, .top_k = -1}, &said, NEAP_INVALID_ARGUMENT);
  generate(&p, (neap_generate_options){.tokens = 1, .temperature = NAN}, &said, NEAP_INVALID_ARGUMENT);
  generate(&p, (neap_generate_options){.tokens = 1, .temperature = -1}, &said, NEAP_INVALID_ARGUMENT);
  generate(&p, (neap_generate_options){.tokens = 1, .shape.classes = 2}, &said, NEAP_INVALID_ARGUMENT);
  generate(&p, (neap_generate_options){.tokens = INT64_MAX}, &said, NEAP_TOO_LARGE);
  assert_int_equal(generate(&p, (neap_generate_options){.tokens = 0}, &said, NEAP_OK).tokens, 0);
  neap_generate_result result;
  assert_int_equal(neap_generate(&(neap_generate_options){.model = model, .tokens = 1}, &result),
                   NEAP_INVALID_ARGUMENT);
  remove_place(&p);
}

int run_test_generate(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_shares), cmocka_unit_test(test_special),
                                     cmocka_unit_test(test_characters),
                                     cmocka_unit_test(test_what_is_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
