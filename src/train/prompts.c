/* Texts of several prompts. They are made in the order of their tokens, so that each has as much as possible
 * in common with the one before it. A recurrent model, which cannot go back, keeps states along the way. */
#include <stdlib.h>
#include <string.h>

#include "train/generation.h"
#include "weights/variables.h"

enum { USUAL_STATES = 16 };

/* A state behind `position` tokens of the current prompt. */
struct kept_state {
  size_t position;
  float *data;
};

struct one_prompt {
  int64_t index; /* in the order of the caller */
  struct token_ids ids;
  int64_t shared; /* tokens that it has in common with the one before it, but for its last */
};

struct prompts {
  const neap_prompts_options *options;
  neap_generate_options generate;
  struct generation generation;
  struct one_prompt *list; /* [count], in the order of their tokens */
  VECTOR(char) text;       /* of the current one */
  /* Fields of a recurrent model. */
  VECTOR(int32_t) variables; /* that are its state */
  size_t state_elements;
  int64_t *positions; /* ascending, where states are kept */
  int64_t position_count;
  VECTOR(struct kept_state) states; /* along the current prompt, ascending */
  neap_status status;               /* of keeping them */
};

/* ---- Prompts in the order of their tokens ---- */

static int compare_prompts(const void *a, const void *b) {
  const struct one_prompt *x = a, *y = b;
  for (size_t i = 0; i < x->ids.count && i < y->ids.count; i++)
    if (x->ids.data[i] != y->ids.data[i]) return x->ids.data[i] < y->ids.data[i] ? -1 : 1;
  if (x->ids.count != y->ids.count) return x->ids.count < y->ids.count ? -1 : 1;
  return (x->index > y->index) - (x->index < y->index);
}

static void find_shared(struct one_prompt *list, int64_t count) {
  for (int64_t i = 1; i < count; i++) {
    const struct token_ids *a = &list[i - 1].ids, *b = &list[i].ids;
    size_t same = 0;
    while (same < a->count && same + 1 < b->count && a->data[same] == b->data[same]) same++;
    list[i].shared = (int64_t)same;
  }
}

/* Returns the status with the number of a prompt in the message. */
static neap_status in_prompt(neap_status status, int64_t index) {
  struct ending ending;
  if (status == NEAP_OK) return status;
  ending_keep(&ending, status);
  return neap_fail(status, "prompt %lld: %s", (long long)index + 1, ending.message);
}

/* `*most`: the tokens of the longest prompt and its text. */
static neap_status encode_all(struct prompts *p, int64_t *most) {
  const int64_t count = p->options->count;
  p->list = calloc((size_t)count, sizeof *p->list);
  RETURN_IF_NULL(p->list);
  *most = 0;
  for (int64_t i = 0; i < count; i++) {
    int64_t tokens;
    struct one_prompt *one = &p->list[i];
    one->index = i;
    TRY(in_prompt(generation_encode(&p->generation, p->options->prompts[i], &one->ids), i));
    TRY(in_prompt(generation_length(&p->generation, (int64_t)one->ids.count, &tokens), i));
    if (tokens > *most) *most = tokens;
  }
  qsort(p->list, (size_t)count, sizeof *p->list, compare_prompts);
  find_shared(p->list, count);
  return NEAP_OK;
}

/* ---- States of a recurrent model ---- */

static neap_status find_state(struct prompts *p) {
  neap_session *session = p->generation.session;
  for (int32_t i = 0; i < neap_session_variable_count(session); i++) {
    neap_variable variable;
    TRY(neap_session_variable(session, i, &variable));
    if (variable.kind != NEAP_VARIABLE_STATE) continue;
    TRY(vector_push(&p->variables, i));
    p->state_elements += (size_t)variable.elements;
  }
  return NEAP_OK;
}

/* Returns the bytes that a budget leaves beside the session. */
static uint64_t room_beside(const neap_session_options *o, const neap_memory *memory) {
  if (o->budget == NEAP_BUDGET_MAX && o->budget_fraction == 0) return UINT64_MAX;
  return memory->budget > memory->planned_peak ? memory->budget - memory->planned_peak : 0;
}

/* Returns the number of states that are kept. */
static int64_t state_limit(const struct prompts *p, const neap_memory *memory) {
  const int64_t asked = p->options->states == 0 ? USUAL_STATES : p->options->states;
  const uint64_t bytes = p->state_elements * sizeof(float), room = room_beside(&p->generate.session, memory);
  if (bytes == 0 || asked < 0) return 0;
  return room / bytes < (uint64_t)asked ? (int64_t)(room / bytes) : asked;
}

/* Chooses where states are kept: the weights are how often prompts share their first tokens. */
static neap_status choose_positions(struct prompts *p, int64_t states) {
  int64_t length = 0;
  double repeated;
  for (int64_t i = 1; i < p->options->count; i++)
    if (p->list[i].shared > length) length = p->list[i].shared;
  if (length == 0 || states == 0) return NEAP_OK;
  double *weights = region_alloc(&p->generation.region, (size_t)length + 1, sizeof *weights);
  p->positions = region_alloc(&p->generation.region, (size_t)states, sizeof *p->positions);
  RETURN_IF(weights == NULL || p->positions == NULL, NEAP_OUT_OF_MEMORY, "prompts: out of memory");
  for (int64_t i = 1; i < p->options->count; i++) weights[p->list[i].shared]++;
  return neap_cache_plan(weights, length, states, p->positions, &p->position_count, &repeated);
}

static void drop_states(struct prompts *p, size_t beyond) {
  while (p->states.count > 0 && p->states.data[p->states.count - 1].position > beyond)
    free(p->states.data[--p->states.count].data);
}

/* Moves the state between the session and memory. */
static neap_status move_state(struct prompts *p, float *data, bool keeps) {
  neap_session *session = p->generation.session;
  for (size_t i = 0; i < p->variables.count; i++) {
    neap_variable variable;
    const int32_t v = p->variables.data[i];
    TRY(neap_session_variable(session, v, &variable));
    TRY(keeps ? neap_session_read(session, v, data) : neap_session_write(session, v, data));
    data += variable.elements;
  }
  return NEAP_OK;
}

static neap_status keep_state(struct prompts *p) {
  struct kept_state state = {p->generation.read, malloc(p->state_elements * sizeof(float))};
  RETURN_IF_NULL(state.data);
  neap_status status = move_state(p, state.data, true);
  if (status == NEAP_OK) status = vector_push(&p->states, state);
  if (status != NEAP_OK) free(state.data);
  return status;
}

/* Called before each token: keeps the state where one is wanted. */
static int look(void *context) {
  struct prompts *p = context;
  const size_t read = p->generation.read,
               last = p->states.count > 0 ? p->states.data[p->states.count - 1].position : 0;
  bool wanted = false;
  for (int64_t i = 0; i < p->position_count; i++) wanted = wanted || (size_t)p->positions[i] == read;
  if (wanted && read > last) p->status = keep_state(p);
  return p->status != NEAP_OK;
}

/* Feeds a prompt and goes back to the last state before it parts from the text so far. */
static neap_status feed(struct prompts *p, const struct one_prompt *one) {
  struct generation *g = &p->generation;
  drop_states(p, (size_t)one->shared);
  const size_t before = g->read;
  TRY(generation_feed(g, one->ids.data, one->ids.count));
  if (g->read > 0 || before == 0 || p->states.count == 0) return NEAP_OK;
  const struct kept_state *last = &p->states.data[p->states.count - 1];
  TRY(move_state(p, last->data, false));
  g->read = last->position;
  return NEAP_OK;
}

/* ---- Texts ---- */

static int take_text(void *context, const char *bytes, size_t length) {
  struct prompts *p = context;
  if (vector_reserve(&p->text, p->text.count + length + 1) != NEAP_OK) return 1;
  memcpy(p->text.data + p->text.count, bytes, length);
  p->text.count += length;
  return 0;
}

static neap_status make_text(struct prompts *p, const struct one_prompt *one, neap_prompt_result *result,
                             double *seconds) {
  struct generation *g = &p->generation;
  int64_t most;
  p->text.count = 0;
  TRY(generation_length(g, (int64_t)one->ids.count, &most));
  TRY(feed(p, one));
  result->prompt_tokens = (int64_t)one->ids.count;
  result->kept_tokens = (int64_t)g->read;
  const neap_status status = generation_make(g, most - result->prompt_tokens, seconds);
  TRY(p->status);
  RETURN_IF(status == NEAP_INTERRUPTED, NEAP_OUT_OF_MEMORY, "prompts: out of memory for a text");
  TRY(status);
  result->tokens = (int64_t)(g->ids.count - g->made);
  TRY(vector_push(&p->text, '\0'));
  result->length = p->text.count - 1;
  result->text = p->text.data;
  p->text.data = NULL; /* it is the result's */
  p->text.count = p->text.capacity = 0;
  return NEAP_OK;
}

static neap_status make_all(struct prompts *p, neap_prompts_result *result) {
  for (int64_t i = 0; i < p->options->count; i++) {
    double seconds;
    const struct one_prompt *one = &p->list[i];
    TRY(in_prompt(make_text(p, one, &result->of[one->index], &seconds), one->index));
    result->seconds += seconds;
  }
  return NEAP_OK;
}

static neap_status run(struct prompts *p, neap_prompts_result *result) {
  struct generation *g = &p->generation;
  int64_t most;
  TRY(generation_open(g, &p->generate));
  TRY(encode_all(p, &most));
  TRY(generation_start(g, most, &result->smallest_budget));
  neap_session_memory(g->session, &result->memory);
  if (!generation_goes_back(g)) {
    TRY(find_state(p));
    TRY(choose_positions(p, state_limit(p, &result->memory)));
    g->stop = look;
  }
  result->states = p->position_count;
  result->state_bytes = p->state_elements * sizeof(float);
  const neap_status status = make_all(p, result);
  neap_session_memory(g->session, &result->memory);
  return status;
}

neap_status neap_generate_prompts(const neap_prompts_options *options, neap_prompts_result *result) {
  NEED(options);
  NEED(result);
  *result = (neap_prompts_result){0};
  RETURN_IF(options->count < 1 || options->prompts == NULL, NEAP_INVALID_ARGUMENT,
            "prompts: give one or more (got %lld)", (long long)options->count);
  struct prompts p = {.options = options, .generate = options->generate};
  p.generate.text = take_text;
  p.generate.context = &p;
  result->of = calloc((size_t)options->count, sizeof *result->of);
  RETURN_IF_NULL(result->of);
  result->count = options->count;
  const neap_status status = run(&p, result);
  for (int64_t i = 0; p.list != NULL && i < options->count; i++) vector_free(&p.list[i].ids);
  free(p.list);
  drop_states(&p, 0);
  vector_free(&p.states);
  vector_free(&p.variables);
  vector_free(&p.text);
  generation_close(&p.generation);
  return status;
}

void neap_prompts_result_free(neap_prompts_result *result) {
  if (result == NULL) return;
  for (int64_t i = 0; result->of != NULL && i < result->count; i++) free((char *)result->of[i].text);
  free(result->of);
  *result = (neap_prompts_result){0};
}
