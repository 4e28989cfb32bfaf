#include "text/pipeline.h"

#include <string.h>

#include "text/word_encoder.h"

/* ---- Making ---- */

/* Copies the description of the tokenizer without its largest lists. */
static json_t *copy_rest(const json_t *object) {
  json_t *rest = json_copy((json_t *)object), *model = json_copy(json_object_get(object, "model"));
  json_object_del(model, "vocab");
  json_object_del(model, "merges");
  if (rest != NULL && model != NULL && json_object_set(rest, "model", model) == 0) {
    json_decref(model);
    return rest;
  }
  json_decref(model);
  json_decref(rest);
  return NULL;
}

static neap_status parse(const json_t *object, const struct json_place *top, struct pipeline *p) {
  const struct json_place model = step_place(top, "model"), normalizer = step_place(top, "normalizer"),
                          pre_tokenizer = step_place(top, "pre_tokenizer"),
                          decoder = step_place(top, "decoder"), post = step_place(top, "post_processor");
  if (!json_is_object(object)) return json_bad(top, "must be an object");
  TRY(token_model_parse(json_object_get(object, "model"), &model, &p->model));
  TRY(steps_parse(&normalizers, json_object_get(object, "normalizer"), &normalizer, &p->normalizer));
  TRY(steps_parse(&pre_tokenizers, json_object_get(object, "pre_tokenizer"), &pre_tokenizer,
                  &p->pre_tokenizer));
  TRY(steps_parse(&token_decoders, json_object_get(object, "decoder"), &decoder, &p->decoder));
  TRY(added_tokens_parse(json_object_get(object, "added_tokens"), top, &p->model.vocabulary, &p->normalizer,
                         &p->added));
  p->size = vocabulary_size(&p->model.vocabulary);
  if (p->added.by_id.count > (size_t)p->size) p->size = (int32_t)p->added.by_id.count;
  if (p->size == 0) return json_bad_field(&model, "vocab", "must have at least one piece");
  TRY(post_processor_parse(json_object_get(object, "post_processor"), &post, p->size, &p->post));
  p->rest = copy_rest(object);
  RETURN_IF(p->rest == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", top->file);
  return NEAP_OK;
}

neap_status pipeline_create(const json_t *object, const char *file, struct pipeline **out) {
  const struct json_place top = {.file = file};
  struct pipeline *made = calloc(1, sizeof *made);
  RETURN_IF_NULL(made);
  made->bos = made->eos = -1;
  const neap_status status = parse(object, &top, made);
  if (status == NEAP_OK)
    *out = made;
  else
    pipeline_free(made);
  return status;
}

void pipeline_free(struct pipeline *pipeline) {
  if (pipeline == NULL) return;
  json_decref(pipeline->rest);
  token_model_free(&pipeline->model);
  added_tokens_free(&pipeline->added);
  steps_free(&pipeline->normalizer);
  steps_free(&pipeline->pre_tokenizer);
  steps_free(&pipeline->decoder);
  post_processor_free(&pipeline->post);
  free(pipeline);
}

neap_status pipeline_to_json(const struct pipeline *pipeline, json_t **out) {
  json_t *object = json_copy(pipeline->rest), *model = json_copy(json_object_get(pipeline->rest, "model"));
  const bool good = object != NULL && model != NULL && json_object_set(object, "model", model) == 0;
  neap_status status = good ? token_model_write(&pipeline->model, model)
                            : neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for a tokenizer");
  json_decref(model);
  if (status == NEAP_OK)
    *out = object;
  else
    json_decref(object);
  return status;
}

int32_t pipeline_find(const struct pipeline *pipeline, const char *piece) {
  const struct added_token *token = added_token_of_text(&pipeline->added, piece, strlen(piece));
  return token != NULL ? token->id : vocabulary_find(&pipeline->model.vocabulary, piece, strlen(piece));
}

/* ---- Encoding ---- */

struct encoding {
  const struct pipeline *pipeline;
  struct matcher *matcher;
  struct passage_buffer normalized[2];
  struct passage_buffer *stages; /* [steps of the pre-tokenizer] */
  struct word_encoder words;
  struct token_ids *ids;
  struct places *ends; /* NULL: nobody asks */
  size_t last;         /* the last end */
};

static neap_status give(struct encoding *e, int32_t id, size_t end) {
  TRY(vector_push(e->ids, id));
  if (e->ends == NULL) return NEAP_OK;
  if (end > e->last) e->last = end;
  return vector_push(e->ends, e->last);
}

static neap_status take_word(void *context, const struct passage *word) {
  struct encoding *e = context;
  size_t end = 0;
  TRY(word_encode(&e->words, word->bytes, word->length));
  for (size_t i = 0; i < e->words.made.count; i++) {
    const struct word_token token = e->words.made.data[i];
    end = token.length < word->length - end ? end + token.length : word->length;
    TRY(give(e, token.id, passage_place(word, end)));
  }
  return NEAP_OK;
}

static neap_status take_normalized(void *context, const struct passage *part, int32_t id) {
  struct encoding *e = context;
  if (id >= 0) return give(e, id, passage_place(part, part->length));
  struct splitting splitting = {.steps = &e->pipeline->pre_tokenizer,
                                .buffers = e->stages,
                                .matcher = e->matcher,
                                .take = take_word,
                                .context = e};
  return pre_tokenize(&splitting, 0, part);
}

static neap_status take_plain(void *context, const struct passage *part, int32_t id) {
  struct encoding *e = context;
  struct passage made;
  if (id >= 0) return give(e, id, passage_place(part, part->length));
  TRY(normalise(&e->pipeline->normalizer, e->matcher, part, e->normalized, &made));
  return added_tokens_split(&e->pipeline->added, true, e->matcher, &made, take_normalized, e);
}

static neap_status encode(struct encoding *e, const struct passage *text, bool whole) {
  const struct post_processor *post = &e->pipeline->post;
  for (size_t i = 0; whole && i < post->before.count; i++) TRY(give(e, post->before.data[i], 0));
  TRY(added_tokens_split(&e->pipeline->added, false, e->matcher, text, take_plain, e));
  for (size_t i = 0; whole && i < post->behind.count; i++) TRY(give(e, post->behind.data[i], text->length));
  return NEAP_OK;
}

neap_status pipeline_encode(const struct pipeline *pipeline, const struct text *text, bool whole,
                            struct token_ids *ids, struct places *ends) {
  const size_t stages = pipeline->pre_tokenizer.list.count;
  struct encoding e = {.pipeline = pipeline, .words.model = &pipeline->model, .ids = ids, .ends = ends};
  struct passage passage = {.bytes = text->bytes, .length = text->length, .first = true};
  struct places each = {0};
  neap_status status;
  TRY_DONE(utf8_check(text));
  TRY_DONE(matcher_create(&e.matcher));
  e.stages = calloc(stages + 1, sizeof *e.stages);
  if (e.stages == NULL) TRY_DONE(neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for a text"));
  if (ends != NULL) {
    for (size_t i = 0; i < stages; i++) e.stages[i].placed = true;
    e.normalized[0].placed = e.normalized[1].placed = true;
    TRY_DONE(vector_reserve(&each, text->length + 1));
    while (each.count < text->length) each.data[each.count] = each.count + 1, each.count++;
    passage.ends = each.data;
  }
  status = encode(&e, &passage, whole);
done:
  for (size_t i = 0; e.stages != NULL && i < stages; i++) passage_free(&e.stages[i]);
  free(e.stages);
  passage_free(&e.normalized[0]);
  passage_free(&e.normalized[1]);
  word_encoder_free(&e.words);
  matcher_free(e.matcher);
  vector_free(&each);
  return status;
}

/* ---- Decoding ---- */

static neap_status spell(const struct pipeline *p, int32_t id, struct pieces *pieces) {
  const struct added_token *token = added_token_of_id(&p->added, id);
  if (token != NULL && token->special) return NEAP_OK;
  if (token != NULL && token->normalized) return pieces_add(pieces, token->normal, token->normal_length);
  if (token != NULL) return pieces_add(pieces, token->text, token->length);
  size_t length;
  const char *piece = vocabulary_of_id(&p->model.vocabulary, id, &length);
  return piece != NULL ? pieces_add(pieces, piece, length) : NEAP_OK;
}

neap_status pipeline_decode(const struct pipeline *pipeline, const int32_t *ids, size_t count, char **text,
                            size_t *length) {
  struct pieces pieces[2] = {0};
  const struct pieces *made;
  struct matcher *matcher = NULL;
  neap_status status;
  TRY_DONE(matcher_create(&matcher));
  for (size_t i = 0; i < count; i++) TRY_DONE(spell(pipeline, ids[i], &pieces[0]));
  TRY_DONE(decode_pieces(&pipeline->decoder, matcher, pieces, &made));
  *text = malloc(made->bytes.count + 1);
  if (*text == NULL)
    TRY_DONE(neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for a text of %zu bytes", made->bytes.count));
  if (made->bytes.count > 0) memcpy(*text, made->bytes.data, made->bytes.count);
  (*text)[made->bytes.count] = '\0';
  *length = made->bytes.count;
done:
  pieces_free(&pieces[0]);
  pieces_free(&pieces[1]);
  matcher_free(matcher);
  return status;
}
