/* Text from a language model: token by token, from logits that a session decodes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parallel.h"
#include "base/random.h"
#include "model/model.h"
#include "run/session.h"
#include "run/variables.h"
#include "text/tokenizer_file.h"
#include "train/base_weights.h"
#include "train/checkpoint.h"

struct candidate {
  int32_t id;
  float logit;
};

struct generation {
  const neap_generate_options *options;
  neap_generate_result *result;
  struct region region;
  struct tokenizer *tokenizer;
  neap_model_options shape;
  neap_graph *graph;
  neap_session *session;
  struct token_ids ids;         /* the prompt's, then those that are made */
  size_t prompt_count;          /* of ids */
  float *logits;                /* [shape.classes] */
  struct candidate *candidates; /* [choices] */
  int64_t choices;              /* ids that may be made: from 0 on */
  size_t decoded;               /* bytes of what was made that were given out, of a tokenizer of others */
  VECTOR(char) text;            /* what was made and not given out: part of a character */
};

/* ---- What is there to go on from ---- */

static neap_status read_tokenizer(struct generation *g) {
  const neap_generate_options *o = g->options;
  const char *path = o->tokenizer;
  if (path == NULL && o->folder != NULL) {
    path = region_format(&g->region, "%s/%s", o->folder, CHECKPOINT_TOKENIZER);
    RETURN_IF_NULL(path);
    if (neap_model_is_file(o->model) && access(path, F_OK) != 0) path = NULL; /* the model has it */
  }
  TRY(path != NULL ? tokenizer_read(path, &g->tokenizer) : model_tokenizer(o->model, &g->tokenizer));
  RETURN_IF(g->tokenizer == NULL, NEAP_INVALID_ARGUMENT,
            "model '%s' has no tokenizer of its own; name a file (--tokenizer)", o->model);
  g->choices = tokenizer_size(g->tokenizer);
  if (!o->special) g->choices -= (int64_t)g->tokenizer->special.count;
  return NEAP_OK;
}

/* The model as it was trained, for one sequence. */
static neap_status settle_shape(struct generation *g) {
  const neap_generate_options *o = g->options;
  const int64_t size = tokenizer_size(g->tokenizer);
  neap_model_options usual;
  enum task_kind kind;
  TRY(model_usual(o->model, &usual, &kind));
  g->shape = o->shape;
  g->shape.batch = 1;
  if (g->shape.classes == 0) g->shape.classes = size;
  if (g->shape.length == 0) g->shape.length = usual.length;
  RETURN_IF(g->shape.classes < size, NEAP_INVALID_ARGUMENT,
            "the tokenizer has %lld tokens, but the model a vocabulary of %lld", (long long)size,
            (long long)g->shape.classes);
  return NEAP_OK;
}

/* A text without a beginning begins with the end of a line, or where there is none with token 0. */
static neap_status begin_empty(struct generation *g) {
  const struct text line = {.bytes = "\n", .length = 1, .name = "prompt"};
  const neap_status status = tokenizer_encode(g->tokenizer, &line, &g->ids);
  if (status != NEAP_OK && status != NEAP_BAD_FORMAT) return status;
  const int32_t ordinary = tokenizer_size(g->tokenizer) - (int32_t)g->tokenizer->special.count;
  if (status == NEAP_OK && g->ids.count == 1 && g->ids.data[0] < ordinary) return NEAP_OK;
  g->ids.count = 0;
  return vector_push(&g->ids, 0);
}

static neap_status encode_prompt(struct generation *g) {
  const char *prompt = g->options->prompt != NULL ? g->options->prompt : "";
  const struct text text = {.bytes = prompt, .length = strlen(prompt), .name = "prompt"};
  TRY(tokenizer_encode(g->tokenizer, &text, &g->ids));
  if (g->ids.count == 0) TRY(begin_empty(g));
  g->prompt_count = g->ids.count;
  return NEAP_OK;
}

/* As many tokens as are asked for or have places: the last one that is made is read by nobody. */
static neap_status settle_length(struct generation *g) {
  int64_t places, most, prompt = (int64_t)g->prompt_count;
  TRY(model_places(g->options->model, g->shape.length, &places));
  RETURN_IF(places > 0 && prompt > places, NEAP_INVALID_ARGUMENT,
            "the prompt has %lld tokens; the model has places for %lld", (long long)prompt,
            (long long)places);
  RETURN_IF(__builtin_add_overflow(prompt, g->options->tokens, &most) || most > INT32_MAX, NEAP_TOO_LARGE,
            "%lld tokens after %lld are more than 2^31 - 1", (long long)g->options->tokens,
            (long long)prompt);
  if (places > 0 && most > places + 1) most = places + 1;
  g->result->prompt_tokens = prompt;
  g->result->tokens = most - prompt;
  g->shape.decode = most > 2 ? most - 2 : 1;
  return NEAP_OK;
}

static neap_status load_weights(struct generation *g) {
  struct checkpoint state = {0};
  const char *path = g->options->weights;
  if (path == NULL && g->options->folder == NULL)
    return neap_model_load(g->options->model, &g->shape, g->session);
  if (path == NULL) {
    TRY(checkpoint_read_state(g->options->folder, NULL, &state));
    if (g->options->best) TRY(checkpoint_take_best(g->options->folder, &state));
    path = region_format(&g->region, "%s/%s", g->options->folder, state.weights);
    RETURN_IF_NULL(path);
  }
  TRY(base_weights_take(g->options->folder, g->options->model, &g->shape, g->session));
  TRY(neap_session_load(g->session, path));
  return session_need_finite(g->session, path);
}

static neap_status open_session(struct generation *g) {
  neap_session_options session = g->options->session;
  session.predict = true;
  if (g->options->folder != NULL) TRY(checkpoint_read_adapters(g->options->folder, &g->region, &session));
  session.threads = team_size(session.threads);
  TRY(neap_model_build(g->options->model, &g->shape, &g->graph));
  TRY(neap_session_create(g->graph, &session, &g->result->smallest_budget, &g->session));
  TRY(load_weights(g));
  g->logits = region_alloc(&g->region, (size_t)g->shape.classes, sizeof *g->logits);
  g->candidates = region_alloc(&g->region, (size_t)g->choices, sizeof *g->candidates);
  RETURN_IF(g->logits == NULL || g->candidates == NULL, NEAP_OUT_OF_MEMORY, "generation: out of memory");
  return NEAP_OK;
}

/* ---- Tokens ---- */

/* The logits of what follows token `position`; those before it have been read. */
static neap_status decode(struct generation *g, size_t position) {
  int32_t *at = neap_session_input(g->session, "position"),
          *length = neap_session_input(g->session, "length");
  *(int32_t *)neap_session_input(g->session, "tokens") = g->ids.data[position];
  if (at != NULL) *at = (int32_t)position;
  if (length != NULL) *length = (int32_t)position + 1;
  return neap_session_predict(g->session);
}

/* The most likely first; of equal ones the lower id. */
static int compare_candidates(const void *a, const void *b) {
  const struct candidate *x = a, *y = b;
  if (x->logit != y->logit) return x->logit < y->logit ? 1 : -1;
  return x->id < y->id ? -1 : x->id > y->id;
}

/* A number in [0, 1), with 53 bits, that hangs on seed and place alone. */
static double draw(uint64_t seed, size_t place) {
  static const uint64_t stream = 0x67656E6572617465; /* apart from those of training */
  uint32_t word[4];
  random_philox(seed, stream, place, word);
  return (double)(((uint64_t)word[0] << 32 | word[1]) >> 11) * 0x1p-53;
}

/* One of the first `count` candidates by the softmax of logits / temperature, whose largest is `largest`. */
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

/* How many of the last bytes are a character that is not whole yet. */
static size_t open_bytes(const char *bytes, size_t length) {
  for (size_t back = 1; back < UTF8_MAX_BYTES && back <= length; back++) {
    const unsigned char c = (unsigned char)bytes[length - back];
    if ((c & 0xC0) == 0x80) continue;
    const size_t whole = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
    return whole > back ? back : 0;
  }
  return 0;
}

/* Gives out what has been made, but for the last `kept` bytes. */
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

/* What a tokenizer of others makes of a token depends on those before it: all that were made are decoded
 * again. A text that ends with what stands for a broken character waits for the rest of it, unless it is the
 * last. */
static neap_status add_decoded(struct generation *g, bool last) {
  static const char broken[] = "\xEF\xBF\xBD";
  const size_t end = sizeof broken - 1;
  char *all;
  size_t length;
  TRY(tokenizer_decode(g->tokenizer, g->ids.data + g->prompt_count, g->ids.count - g->prompt_count, &all,
                       &length));
  const bool waits = !last && length >= end && memcmp(all + length - end, broken, end) == 0;
  neap_status status = NEAP_OK;
  if (!waits && length > g->decoded) {
    status = append(g, all + g->decoded, length - g->decoded);
    g->decoded = length;
  }
  free(all);
  TRY(status);
  return give_out(g, 0);
}

static neap_status add_text(struct generation *g, int32_t id) {
  char *piece;
  size_t length;
  if (g->tokenizer->kind == TOKENIZER_PIPELINE) return add_decoded(g, false);
  TRY(tokenizer_decode(g->tokenizer, &id, 1, &piece, &length));
  const neap_status status = append(g, piece, length);
  free(piece);
  TRY(status);
  return give_out(g, open_bytes(g->text.data, g->text.count));
}

static neap_status make_tokens(struct generation *g) {
  const int64_t wanted = g->result->tokens;
  const double begin = clock_seconds();
  g->result->tokens = 0;
  for (size_t position = 0; g->result->tokens < wanted; position++) {
    int32_t id;
    TRY(decode(g, position));
    if (position + 1 < g->prompt_count) continue;
    TRY(neap_session_output(g->session, "logits", NULL, g->logits));
    TRY(choose(g, &id));
    if (id == tokenizer_eos(g->tokenizer)) break;
    TRY(vector_push(&g->ids, id));
    g->result->tokens++;
    g->result->seconds = clock_seconds() - begin;
    TRY(add_text(g, id));
  }
  return g->tokenizer->kind == TOKENIZER_PIPELINE ? add_decoded(g, true) : give_out(g, 0);
}

/* ---- The whole ---- */

static neap_status check_options(const neap_generate_options *o) {
  RETURN_IF(o->model == NULL || (o->folder == NULL && !neap_model_is_file(o->model) &&
                                 (o->weights == NULL || o->tokenizer == NULL)),
            NEAP_INVALID_ARGUMENT,
            "text needs a model, weights and a tokenizer, the folder of a checkpoint, or a model of a file");
  RETURN_IF(o->tokens < 0 || o->top_k < 0, NEAP_INVALID_ARGUMENT,
            "%lld tokens of the %lld most likely: neither may be negative", (long long)o->tokens,
            (long long)o->top_k);
  RETURN_IF(!(o->temperature >= 0 && o->temperature < INFINITY), NEAP_INVALID_ARGUMENT,
            "a temperature of %g cannot be; 0 takes the most likely token", o->temperature);
  return NEAP_OK;
}

static neap_status generate(struct generation *g) {
  TRY(check_options(g->options));
  TRY(read_tokenizer(g));
  TRY(settle_shape(g));
  TRY(encode_prompt(g));
  TRY(settle_length(g));
  TRY(open_session(g));
  const neap_status status = make_tokens(g);
  neap_session_memory(g->session, &g->result->memory);
  return status;
}

neap_status neap_generate(const neap_generate_options *options, neap_generate_result *result) {
  NEED(options);
  NEED(result);
  struct generation g = {.options = options, .result = result};
  *result = (neap_generate_result){0};
  const neap_status status = generate(&g);
  neap_session_free(g.session);
  neap_graph_free(g.graph);
  tokenizer_free(g.tokenizer);
  vector_free(&g.ids);
  vector_free(&g.text);
  region_free(&g.region);
  return status;
}
