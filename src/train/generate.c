/* Generates text with a language model: token by token, from logits that a session decodes. */
#include "train/generation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/parallel.h"
#include "base/random.h"
#include "model/model.h"
#include "text/tokenizer_file.h"
#include "train/base_weights.h"
#include "train/checkpoint.h"
#include "weights/variables.h"

/* ---- The model and its tokenizer ---- */

static neap_status read_tokenizer(struct generation *g) {
  const neap_generate_options *o = g->options;
  const char *path = o->tokenizer;
  if (path == NULL && o->folder != NULL) {
    path = region_format(&g->region, "%s/%s", o->folder, CHECKPOINT_TOKENIZER);
    RETURN_IF_NULL(path);
    if (neap_model_is_file(g->model) && !file_exists(path)) path = NULL; /* the model has it */
  }
  TRY(path != NULL ? tokenizer_read(path, &g->tokenizer) : model_tokenizer(g->model, &g->tokenizer));
  RETURN_IF(g->tokenizer == NULL, NEAP_INVALID_ARGUMENT,
            "model '%s' has no tokenizer of its own; name a file (`tokenizer`)", o->model);
  g->choices = tokenizer_size(g->tokenizer);
  if (!o->special) g->choices -= (int64_t)g->tokenizer->special.count;
  return NEAP_OK;
}

/* Sets the shape of the trained model for one sequence. */
static neap_status settle_shape(struct generation *g) {
  const neap_generate_options *o = g->options;
  const int64_t size = tokenizer_size(g->tokenizer);
  neap_model_description about;
  TRY(neap_model_describe(g->model, &about));
  g->shape = o->shape;
  g->shape.batch = 1;
  if (g->shape.classes == 0) g->shape.classes = size;
  if (g->shape.length == 0) g->shape.length = about.usual.length;
  RETURN_IF(g->shape.classes < size, NEAP_INVALID_ARGUMENT,
            "the tokenizer has %lld tokens, but the model's vocabulary only %lld", (long long)size,
            (long long)g->shape.classes);
  return NEAP_OK;
}

static neap_status load_weights(struct generation *g) {
  const char *path = g->options->weights;
  if (path == NULL && g->options->folder == NULL) return neap_model_load(g->model, &g->shape, g->session);
  if (path == NULL) TRY(checkpoint_find_weights(g->options->folder, g->options->best, &g->region, &path));
  TRY(base_weights_take(g->options->folder, g->model, &g->shape, g->session));
  TRY(neap_session_load(g->session, path));
  return session_need_finite(g->session, path);
}

/* Sets the session: weights of a model's file keep its types; those of a run follow its settings. */
static neap_status settle_session(struct generation *g, neap_session_options *session) {
  const neap_generate_options *o = g->options;
  *session = o->session;
  session->predict = true;
  if (o->folder != NULL) TRY(checkpoint_read_adapters(o->folder, &g->region, session));
  if (o->folder == NULL && o->weights == NULL && session->store == NULL) session->store = "*=file";
  session->threads = team_size(session->threads);
  return NEAP_OK;
}

neap_status generation_places(const struct generation *g, int64_t *places) {
  neap_model_description about;
  TRY(neap_model_describe(g->model, &about));
  *places = model_places(&about, g->shape.length);
  return NEAP_OK;
}

neap_status generation_start(struct generation *g, int64_t tokens, uint64_t *smallest_budget) {
  neap_session_options session;
  g->shape.decode = tokens > 2 ? tokens - 2 : 1;
  TRY(settle_session(g, &session));
  TRY(neap_model_build(g->model, &g->shape, &g->graph));
  TRY(neap_session_create(g->graph, &session, smallest_budget, &g->session));
  TRY(load_weights(g));
  g->logits = region_alloc(&g->region, (size_t)g->shape.classes, sizeof *g->logits);
  g->candidates = region_alloc(&g->region, (size_t)g->choices, sizeof *g->candidates);
  RETURN_IF(g->logits == NULL || g->candidates == NULL, NEAP_OUT_OF_MEMORY, "generation: out of memory");
  return NEAP_OK;
}

/* ---- Tokens ---- */

bool generation_goes_back(const struct generation *g) {
  return neap_session_input(g->session, "position") != NULL;
}

/* Restarts a recurrent state. */
static neap_status forget(struct generation *g) {
  const int32_t count = neap_session_variable_count(g->session);
  float *data, *allocated;
  TRY(session_scratch(g->session, &data, &allocated));
  neap_status status = NEAP_OK;
  for (int32_t i = 0; status == NEAP_OK && i < count; i++) {
    neap_variable variable;
    status = neap_session_variable(g->session, i, &variable);
    if (status == NEAP_OK && variable.kind == NEAP_VARIABLE_STATE)
      status = initialise_variable(g->session, i, data);
  }
  free(allocated);
  g->read = 0;
  return status;
}

/* If nothing is new the last token is read again, as its logits are gone. */
neap_status generation_feed(struct generation *g, const int32_t *ids, size_t count) {
  size_t same = 0;
  while (same < g->read && same + 1 < count && g->ids.data[same] == ids[same]) same++;
  TRY(vector_reserve(&g->ids, count));
  if (count > 0) memcpy(g->ids.data, ids, count * sizeof *ids);
  g->ids.count = count;
  if (same < g->read && !generation_goes_back(g)) return forget(g);
  g->read = same;
  return NEAP_OK;
}

/* Reads the next token. */
static neap_status decode(struct generation *g) {
  const size_t position = g->read;
  int32_t *at = neap_session_input(g->session, "position"),
          *length = neap_session_input(g->session, "length");
  *(int32_t *)neap_session_input(g->session, "tokens") = g->ids.data[position];
  if (at != NULL) *at = (int32_t)position;
  if (length != NULL) *length = (int32_t)position + 1;
  TRY(neap_session_predict(g->session));
  g->read++;
  return NEAP_OK;
}

/* Compares candidates: the most likely first, then the lower id. */
static int compare_candidates(const void *a, const void *b) {
  const struct candidate *x = a, *y = b;
  if (x->logit != y->logit) return x->logit < y->logit ? 1 : -1;
  return x->id < y->id ? -1 : x->id > y->id;
}

/* Returns a number in [0, 1), with 53 bits, that depends on seed and place. */
static double draw(uint64_t seed, size_t place) {
  static const uint64_t stream = 0x67656E6572617465; /* apart from those of training */
  uint32_t word[4];
  random_philox(seed, stream, place, word);
  return (double)(((uint64_t)word[0] << 32 | word[1]) >> 11) * 0x1p-53;
}

/* Samples one of the first `count` candidates by the softmax of logits / temperature; the largest logit is
 * `largest`. */
static int32_t sample(const struct generation *g, int64_t count, float largest, double u) {
  const double temperature = g->options->temperature;
  double sum = 0, before = 0;
  int32_t last = g->candidates[0].id;
  for (int64_t i = 0; i < count; i++)
    sum += exp(((double)g->candidates[i].logit - (double)largest) / temperature);
  for (int64_t i = 0; i < count; i++) {
    const double weight = exp(((double)g->candidates[i].logit - (double)largest) / temperature);
    if (weight > 0) last = g->candidates[i].id;
    before += weight;
    if (u * sum < before) return last;
  }
  return last; /* u * sum was rounded up */
}

static neap_status choose(const struct generation *g, int32_t *id) {
  const neap_generate_options *o = g->options;
  struct candidate best = {.logit = -INFINITY};
  for (int64_t i = 0; i < g->choices; i++) {
    const struct candidate c = {(int32_t)i, g->logits[i]};
    RETURN_IF(!isfinite(c.logit), NEAP_DIVERGED, "the model's logits are not finite");
    g->candidates[i] = c;
    if (i == 0 || c.logit > best.logit) best = c;
  }
  *id = best.id;
  if (o->temperature == 0) return NEAP_OK;
  int64_t count = g->choices;
  if (o->top_k > 0 && o->top_k < count) {
    qsort(g->candidates, (size_t)count, sizeof *g->candidates, compare_candidates);
    count = o->top_k;
  }
  *id = sample(g, count, best.logit, draw(o->seed, g->ids.count));
  return NEAP_OK;
}

/* ---- Text ---- */

/* Returns how many of the last bytes are an incomplete character. */
static size_t open_bytes(const char *bytes, size_t length) {
  for (size_t back = 1; back < UTF8_MAX_BYTES && back <= length; back++) {
    const unsigned char c = (unsigned char)bytes[length - back];
    if ((c & 0xC0) == 0x80) continue;
    const size_t whole = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
    return whole > back ? back : 0;
  }
  return 0;
}

/* Returns how many of the last bytes may begin the text that ends an answer. */
static size_t ending_bytes(const struct generation *g) {
  const size_t whole = g->end_text != NULL ? strlen(g->end_text) : 0;
  for (size_t length = whole > 0 ? whole - 1 : 0; length > 0; length--)
    if (length <= g->text.count && memcmp(g->text.data + g->text.count - length, g->end_text, length) == 0)
      return length;
  return 0;
}

/* Removes the text that ends an answer, and all after it. */
static void find_end(struct generation *g) {
  const size_t length = g->end_text != NULL ? strlen(g->end_text) : 0;
  for (size_t i = 0; length > 0 && i + length <= g->text.count && !g->ended; i++)
    if (memcmp(g->text.data + i, g->end_text, length) == 0) {
      g->ended = true;
      g->text.count = i;
    }
}

/* Passes on the new text, except for the last `kept` bytes. */
static neap_status give_out(struct generation *g, size_t kept) {
  const size_t length = g->text.count - kept;
  if (length == 0) return NEAP_OK;
  const bool goes_on =
      g->options->text == NULL || g->options->text(g->options->context, g->text.data, length) == 0;
  memmove(g->text.data, g->text.data + length, kept);
  g->text.count = kept;
  return goes_on ? NEAP_OK : neap_fail(NEAP_INTERRUPTED, "stopped on request");
}

static neap_status append(struct generation *g, const char *bytes, size_t length) {
  TRY(vector_reserve(&g->text, g->text.count + length + 1));
  memcpy(g->text.data + g->text.count, bytes, length);
  g->text.count += length;
  return NEAP_OK;
}

/* Decodes all new tokens again, as with a tokenizer of others a token's text depends on those before it. A
 * text that ends with the sign for a broken character waits for the rest, unless it is the last. */
static neap_status append_decoded(struct generation *g, bool last) {
  static const char broken[] = "\xEF\xBF\xBD";
  const size_t end = sizeof broken - 1;
  char *all;
  size_t length;
  TRY(tokenizer_decode(g->tokenizer, g->ids.data + g->made, g->ids.count - g->made, &all, &length));
  const bool waits = !last && length >= end && memcmp(all + length - end, broken, end) == 0;
  neap_status status = NEAP_OK;
  if (!waits && length > g->decoded) {
    status = append(g, all + g->decoded, length - g->decoded);
    g->decoded = length;
  }
  free(all);
  return status;
}

static neap_status append_token(struct generation *g) {
  char *piece;
  size_t length;
  TRY(tokenizer_decode(g->tokenizer, &g->ids.data[g->ids.count - 1], 1, &piece, &length));
  const neap_status status = append(g, piece, length);
  free(piece);
  return status;
}

/* Adds the text of the last token. */
static neap_status add_text(struct generation *g) {
  const bool whole = g->tokenizer->kind == TOKENIZER_PIPELINE;
  TRY(whole ? append_decoded(g, false) : append_token(g));
  find_end(g);
  const size_t open = whole || g->ended ? 0 : open_bytes(g->text.data, g->text.count),
               ending = g->ended ? 0 : ending_bytes(g);
  return give_out(g, open > ending ? open : ending);
}

/* Adds the text that was held back. */
static neap_status add_rest(struct generation *g) {
  if (!g->ended && g->tokenizer->kind == TOKENIZER_PIPELINE) {
    TRY(append_decoded(g, true));
    find_end(g);
  }
  return give_out(g, 0);
}

static bool ends(const struct generation *g, int32_t id) {
  return id == tokenizer_eos(g->tokenizer) || (g->end_token >= 0 && id == g->end_token);
}

static bool is_stopped(const struct generation *g) {
  return g->stop != NULL && g->stop(g->options->context) != 0;
}

static neap_status make_next(struct generation *g) {
  int32_t id;
  while (g->read < g->ids.count) {
    if (is_stopped(g)) return neap_fail(NEAP_INTERRUPTED, "stopped on request");
    TRY(decode(g));
  }
  TRY(neap_session_output(g->session, "logits", NULL, g->logits));
  TRY(choose(g, &id));
  g->ended = ends(g, id);
  if (g->ended) return NEAP_OK;
  TRY(vector_push(&g->ids, id));
  return NEAP_OK;
}

neap_status generation_make(struct generation *g, int64_t tokens, double *seconds) {
  const double begin = clock_seconds();
  g->made = g->ids.count;
  g->decoded = g->text.count = 0;
  g->ended = false;
  *seconds = 0;
  while ((int64_t)(g->ids.count - g->made) < tokens && !g->ended) {
    TRY(make_next(g));
    if (g->ended) break;
    *seconds = clock_seconds() - begin;
    TRY(add_text(g));
  }
  return add_rest(g);
}

/* ---- Opening ---- */

static neap_status check_options(const neap_generate_options *o) {
  RETURN_IF(
      o->model == NULL || (o->folder == NULL && !neap_model_names_file(o->model) &&
                           (o->weights == NULL || o->tokenizer == NULL)),
      NEAP_INVALID_ARGUMENT,
      "generate: give a model, weights and a tokenizer, the folder of a checkpoint, or a model of a file");
  RETURN_IF(o->tokens < 0 || o->top_k < 0, NEAP_INVALID_ARGUMENT,
            "generate: tokens and top_k must not be negative (got %lld and %lld)", (long long)o->tokens,
            (long long)o->top_k);
  RETURN_IF(!(o->temperature >= 0 && o->temperature < INFINITY), NEAP_INVALID_ARGUMENT,
            "temperature must be 0 or more (got %g); 0 picks the most likely token", o->temperature);
  return NEAP_OK;
}

neap_status generation_open(struct generation *g, const neap_generate_options *options) {
  *g = (struct generation){.options = options, .end_token = -1};
  TRY(check_options(options));
  TRY(model_take(options->opened, options->model, &g->own_model, &g->model));
  TRY(read_tokenizer(g));
  return settle_shape(g);
}

void generation_close(struct generation *g) {
  neap_session_free(g->session);
  neap_graph_free(g->graph);
  tokenizer_free(g->tokenizer);
  neap_model_close(g->own_model);
  vector_free(&g->ids);
  vector_free(&g->text);
  region_free(&g->region);
}

/* ---- From one prompt ---- */

/* Begins an empty text with the end of a line or, if it has no token, with token 0. */
static neap_status begin_empty(const struct generation *g, struct token_ids *ids) {
  const struct text line = {.bytes = "\n", .length = 1, .name = "prompt"};
  const neap_status status = tokenizer_encode(g->tokenizer, &line, ids);
  if (status != NEAP_OK && status != NEAP_BAD_FORMAT) return status;
  const int32_t ordinary = tokenizer_size(g->tokenizer) - (int32_t)g->tokenizer->special.count;
  if (status == NEAP_OK && ids->count == 1 && ids->data[0] < ordinary) return NEAP_OK;
  ids->count = 0;
  return vector_push(ids, 0);
}

neap_status generation_encode(const struct generation *g, const char *prompt, struct token_ids *ids) {
  prompt = prompt != NULL ? prompt : "";
  const struct text text = {.bytes = prompt, .length = strlen(prompt), .name = "prompt"};
  TRY(tokenizer_encode(g->tokenizer, &text, ids));
  return ids->count == 0 ? begin_empty(g, ids) : NEAP_OK;
}

neap_status generation_length(const struct generation *g, int64_t prompt, int64_t *most) {
  const int64_t tokens = g->options->tokens;
  int64_t places;
  TRY(generation_places(g, &places));
  RETURN_IF(places > 0 && prompt > places, NEAP_INVALID_ARGUMENT,
            "generate: the prompt has %lld tokens, but the model only has positions for %lld",
            (long long)prompt, (long long)places);
  RETURN_IF(__builtin_add_overflow(prompt, tokens, most) || *most > INT32_MAX, NEAP_TOO_LARGE,
            "generate: %lld tokens after %lld exceed 2^31 - 1", (long long)tokens, (long long)prompt);
  if (places > 0 && *most > places + 1) *most = places + 1;
  return NEAP_OK;
}

static neap_status generate(struct generation *g, struct token_ids *ids, neap_generate_result *result) {
  int64_t most;
  TRY(generation_encode(g, g->options->prompt, ids));
  const int64_t prompt = (int64_t)ids->count;
  TRY(generation_length(g, prompt, &most));
  TRY(generation_start(g, most, &result->smallest_budget));
  result->prompt_tokens = prompt;
  TRY(generation_feed(g, ids->data, ids->count));
  const neap_status status = generation_make(g, most - prompt, &result->seconds);
  result->tokens = (int64_t)(g->ids.count - g->made);
  neap_session_memory(g->session, &result->memory);
  return status;
}

neap_status neap_generate(const neap_generate_options *options, neap_generate_result *result) {
  NEED(options);
  NEED(result);
  struct generation g;
  struct token_ids ids = {0};
  *result = (neap_generate_result){0};
  neap_status status = generation_open(&g, options);
  if (status == NEAP_OK) status = generate(&g, &ids, result);
  vector_free(&ids);
  generation_close(&g);
  return status;
}
