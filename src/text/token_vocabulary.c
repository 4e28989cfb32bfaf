#include "text/token_vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "text/base64.h"
#include "text/vocabulary.h"

/* ---- Bytes ---- */

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define REST         "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LLAMA3       CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" REST
#define QWEN2        CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" REST
#define UPPER        "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER        "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define GPT4O                                                                                                \
  "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" CONTRACTIONS "?|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER       \
  "*" CONTRACTIONS "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
/* llama.cpp's default for files that do not specify it. */
#define DEFAULT_MARKS "[\\p{P}\\$\\+<=>\\^~\\|]+"
#define DEFAULT_WORDS "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"

enum { PATTERNS = 4 };

static const struct byte_row {
  const char *pre;
  const char *patterns[PATTERNS]; /* none: GPT-2's */
  bool digits;                    /* each is a word of its own */
  bool nfc, ignore_merges, bos;   /* bos: where it is not said, one is set before a text */
} byte_rows[] = {
    {.pre = "default", .patterns = {DEFAULT_MARKS, DEFAULT_WORDS, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {.pre = "gpt-2"},
    {.pre = "phi-2"},
    {.pre = "mpt"},
    {.pre = "olmo"},
    {.pre = "jina-v2-en"},
    {.pre = "jina-v2-es"},
    {.pre = "jina-v2-de"},
    {.pre = "smollm", .digits = true},
    {.pre = "starcoder", .digits = true},
    {.pre = "refact", .digits = true},
    {.pre = "command-r", .digits = true},
    {.pre = "codeshell", .digits = true},
    {.pre = "exaone", .digits = true},
    {.pre = "minerva-7b", .digits = true},
    {.pre = "llama-bpe", .patterns = {LLAMA3}, .ignore_merges = true, .bos = true},
    {.pre = "llama3", .patterns = {LLAMA3}, .ignore_merges = true, .bos = true},
    {.pre = "llama-v3", .patterns = {LLAMA3}, .ignore_merges = true, .bos = true},
    {.pre = "falcon3", .patterns = {LLAMA3}, .ignore_merges = true, .bos = true},
    {.pre = "dbrx", .patterns = {LLAMA3}},
    {.pre = "smaug-bpe", .patterns = {LLAMA3}},
    {.pre = "qwen2", .patterns = {QWEN2}, .nfc = true},
    {.pre = "stablelm2", .patterns = {QWEN2}},
    {.pre = "deepseek-r1-qwen", .patterns = {QWEN2}, .nfc = true},
    {.pre = "gpt-4o", .patterns = {GPT4O}},
    {.pre = "llama4", .patterns = {GPT4O}},
};

static neap_status find_row(const char *pre, const char *file, const struct byte_row **row) {
  const char *name = pre != NULL ? pre : "default";
  for (size_t i = 0; i < sizeof byte_rows / sizeof *byte_rows; i++)
    if (strcmp(byte_rows[i].pre, name) == 0) {
      *row = &byte_rows[i];
      return NEAP_OK;
    }
  return neap_fail(NEAP_UNSUPPORTED,
                   "%s: the tokenizer splits text in a way that is not supported (got pre '%.60s'); use the "
                   "model's tokenizer.json",
                   file, name);
}

/* Appends a value to a list, which then owns it. */
static bool append(json_t *list, json_t *value) {
  return value != NULL && json_array_append_new(list, value) == 0;
}

neap_status byte_pairs_to_json(const char *pre, bool prefix_space, const char *file, json_t **out) {
  const struct byte_row *row;
  TRY(find_row(pre, file, &row));
  json_t *list = json_array();
  bool good = list != NULL;
  if (row->digits)
    good = good && append(list, json_pack("{s:s, s:b}", "type", "Digits", "individual_digits", 1));
  for (size_t i = 0; i < PATTERNS && row->patterns[i] != NULL; i++)
    good = good && append(list, json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex",
                                          row->patterns[i], "behavior", "Isolated", "invert", 0));
  good =
      good && append(list, json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space",
                                     prefix_space, "trim_offsets", 1, "use_regex", row->patterns[0] == NULL));
  json_t *made =
      json_pack("{s:o*, s:{s:s, s:O}, s:{s:s, s:b, s:b, s:b}, s:{s:s, s:b, s:n}}", "normalizer",
                row->nfc ? json_pack("{s:s}", "type", "NFC") : NULL, "pre_tokenizer", "type", "Sequence",
                "pretokenizers", list, "decoder", "type", "ByteLevel", "add_prefix_space", 1, "trim_offsets",
                1, "use_regex", 1, "model", "type", "BPE", "ignore_merges", row->ignore_merges, "unk_token");
  json_decref(list);
  if (good && made != NULL) {
    *out = made;
    return NEAP_OK;
  }
  json_decref(made);
  return neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", file);
}

/* A tokenizer.json's way of splitting text, and its steps before that. */
struct splitting {
  const char *patterns[PATTERNS];
  int count;
  bool digits, nfc, gpt2, prefix_space, other; /* other: something that no row has */
};

static bool flag_of(const json_t *step, const char *name, bool usual) {
  const json_t *flag = json_object_get(step, name);
  return json_is_boolean(flag) ? json_is_true(flag) : usual;
}

static void look_at_step(const json_t *step, struct splitting *s) {
  const char *type = json_string_value(json_object_get(step, "type")),
             *pattern = json_string_value(json_object_get(json_object_get(step, "pattern"), "Regex")),
             *behavior = json_string_value(json_object_get(step, "behavior"));
  if (type == NULL) {
    s->other = s->other || !json_is_null(step);
  } else if (strcmp(type, "Split") == 0 && pattern != NULL && s->count < PATTERNS && behavior != NULL &&
             strcmp(behavior, "Isolated") == 0 && !flag_of(step, "invert", false)) {
    s->patterns[s->count++] = pattern;
  } else if (strcmp(type, "Digits") == 0 && flag_of(step, "individual_digits", false)) {
    s->digits = true;
  } else if (strcmp(type, "ByteLevel") == 0) {
    s->gpt2 = flag_of(step, "use_regex", true);
    s->prefix_space = flag_of(step, "add_prefix_space", true);
  } else if (strcmp(type, "NFC") == 0) {
    s->nfc = true;
  } else {
    s->other = true;
  }
}

static void look_at(const json_t *step, const char *list, struct splitting *s) {
  const json_t *steps = json_object_get(step, list), *one;
  size_t i;
  if (step == NULL) return;
  if (!json_is_array(steps)) look_at_step(step, s);
  json_array_foreach(steps, i, one) look_at_step(one, s);
}

const char *byte_pairs_pre(const json_t *tokenizer, bool *prefix_space) {
  struct splitting s = {0};
  const bool ignore_merges = flag_of(json_object_get(tokenizer, "model"), "ignore_merges", false);
  look_at(json_object_get(tokenizer, "normalizer"), "normalizers", &s);
  look_at(json_object_get(tokenizer, "pre_tokenizer"), "pretokenizers", &s);
  *prefix_space = s.prefix_space;
  for (size_t i = 0; !s.other && i < sizeof byte_rows / sizeof *byte_rows; i++) {
    const struct byte_row *row = &byte_rows[i];
    bool same = row->digits == s.digits && row->nfc == s.nfc && row->ignore_merges == ignore_merges &&
                (row->patterns[0] == NULL) == s.gpt2;
    for (int k = 0; same && k < PATTERNS; k++)
      same = row->patterns[k] == s.patterns[k] || (row->patterns[k] != NULL && s.patterns[k] != NULL &&
                                                   strcmp(row->patterns[k], s.patterns[k]) == 0);
    if (same) return row->pre;
  }
  return NULL;
}

json_t *added_token_to_json(json_t *content, int32_t id, bool special) {
  return json_pack("{s:i, s:O, s:b, s:b, s:b, s:b, s:b}", "id", id, "content", content, "single_word", 0,
                   "lstrip", 0, "rstrip", 0, "normalized", 0, "special", special);
}

/* Adds a token to a template, before or after its contents. */
static bool add_to_template(json_t *made, const char *name, int32_t id) {
  return append(json_object_get(made, "single"),
                json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", name, "type_id", 0)) &&
         json_object_set_new(json_object_get(made, "special_tokens"), name,
                             json_pack("{s:s, s:[i], s:[s]}", "id", name, "ids", id, "tokens", name)) == 0;
}

json_t *template_to_json(const char *before, int32_t before_id, const char *behind, int32_t behind_id) {
  json_t *made = json_pack("{s:s, s:[], s:[{s:{s:s, s:i}}, {s:{s:s, s:i}}], s:{}}", "type",
                           "TemplateProcessing", "single", "pair", "Sequence", "id", "A", "type_id", 0,
                           "Sequence", "id", "B", "type_id", 1, "special_tokens");
  bool good = made != NULL;
  if (before != NULL) good = good && add_to_template(made, before, before_id);
  good = good && append(json_object_get(made, "single"),
                        json_pack("{s:{s:s, s:i}}", "Sequence", "id", "A", "type_id", 0));
  if (behind != NULL) good = good && add_to_template(made, behind, behind_id);
  if (good) return made;
  json_decref(made);
  return NULL;
}

/* ---- Tokens ---- */

enum token_kind { NORMAL = 1, UNKNOWN, CONTROL, USER, UNUSED, BYTE };

static int32_t kind_of(const struct token_vocabulary *v, int32_t i) {
  return v->types != NULL ? v->types[i] : NORMAL;
}

static const char mark[] = "\xE2\x96\x81"; /* U+2581, which means a space */
enum { MARK_BYTES = 3 };

/* Returns a token's name in tokenizer.json. In `llama`, only spaces are marks; in `bert`, the beginning of a
 * word has no mark, and a continuation has ##. NULL: it is not UTF-8, or memory is out. */
static json_t *name_token(const struct token_vocabulary *v, int32_t i) {
  const char *token = v->tokens[i];
  const size_t length = v->lengths[i];
  size_t spaces = 0;
  while (spaces < length && token[spaces] == ' ') spaces++;
  const bool is_spaces = strcmp(v->model, "llama") == 0 && length > 1 && spaces == length;
  const bool is_piece = strcmp(v->model, "bert") == 0 && kind_of(v, i) != CONTROL &&
                        !(length > 1 && token[0] == '[' && token[length - 1] == ']');
  if (!is_spaces && !is_piece) return json_stringn(token, length);
  if (is_piece && length >= MARK_BYTES && memcmp(token, mark, MARK_BYTES) == 0)
    return json_stringn(token + MARK_BYTES, length - MARK_BYTES);
  char *name = malloc(MARK_BYTES * length + 2);
  if (name == NULL) return NULL;
  json_t *made = NULL;
  if (is_spaces) {
    for (size_t s = 0; s < length; s++) memcpy(name + MARK_BYTES * s, mark, MARK_BYTES);
    made = json_stringn(name, MARK_BYTES * length);
  } else {
    memcpy(name, "##", 2);
    memcpy(name + 2, token, length);
    made = json_stringn(name, length + 2);
  }
  free(name);
  return made;
}

/* Adds a token to the vocabulary, which for Unigram is a list of pieces and scores, else an object of ids. */
static bool set_token(const struct token_vocabulary *v, json_t *vocabulary, json_t *name, int32_t id) {
  if (json_is_array(vocabulary))
    return append(vocabulary, json_pack("[O, f]", name, v->scores != NULL ? (double)v->scores[id] : 0.0));
  return json_object_setn_new(vocabulary, json_string_value(name), json_string_length(name),
                              json_integer(id)) == 0;
}

/* Adds all tokens to the vocabulary, and those that are found before anything else to the list. A list of
 * pieces ends before the unused ones at its end, which mean no text. */
static neap_status add_tokens(const struct token_vocabulary *v, json_t *vocabulary, json_t *added) {
  int32_t count = v->count;
  while (json_is_array(vocabulary) && count > 0 && kind_of(v, count - 1) == UNUSED) count--;
  for (int32_t i = 0; i < count; i++) {
    if (memchr(v->tokens[i], '\0', v->lengths[i]) != NULL)
      return neap_fail(NEAP_UNSUPPORTED,
                       "%s: token %d has a zero byte, which tokenizer.json cannot hold; use a "
                       "file whose tokens are text",
                       v->file, i);
    json_t *name = name_token(v, i);
    RETURN_IF(name == NULL, NEAP_BAD_FORMAT, "%s: token %d is not UTF-8", v->file, i);
    const int32_t kind = kind_of(v, i);
    bool good = set_token(v, vocabulary, name, i);
    if (kind == CONTROL || kind == USER || kind == UNKNOWN)
      good = good && v->lengths[i] > 0 ? append(added, added_token_to_json(name, i, kind != USER)) : good;
    json_decref(name);
    RETURN_IF(!good, NEAP_OUT_OF_MEMORY, "%s: out of memory for %d tokens", v->file, v->count);
  }
  return NEAP_OK;
}

/* ---- Merges by score ---- */

enum { MERGED_BYTES_MOST = 512 }; /* of a token that merges are made for */

struct scored_merge {
  float score;
  int32_t token;
  uint32_t left, right;             /* bytes */
  uint32_t left_count, right_count; /* characters */
};

static int descending(uint32_t a, uint32_t b) { return (a < b) - (a > b); }

static int compare_merges(const void *a, const void *b) {
  const struct scored_merge *x = a, *y = b;
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  if (x->left_count != y->left_count) return descending(x->left_count, y->left_count);
  if (x->right_count != y->right_count) return descending(x->right_count, y->right_count);
  return (x->token > y->token) - (x->token < y->token);
}

struct scored_merges {
  VECTOR(struct scored_merge) list;
};

/* Adds all ways to make a token from two others. */
static neap_status add_ways(const struct token_vocabulary *v, const struct vocabulary *pieces, int32_t id,
                            struct scored_merges *merges) {
  size_t length;
  const char *piece = vocabulary_of_id(pieces, id, &length);
  uint32_t count = 0;
  if (piece == NULL || length > MERGED_BYTES_MOST) return NEAP_OK;
  for (size_t i = 0; i < length; i++) count += ((unsigned char)piece[i] & 0xC0) != 0x80;
  for (size_t at = 1, characters = 1; at < length; at++) {
    if (((unsigned char)piece[at] & 0xC0) == 0x80) continue;
    if (vocabulary_find(pieces, piece, at) >= 0 && vocabulary_find(pieces, piece + at, length - at) >= 0) {
      const float score = v->scores[id];
      TRY(vector_push(&merges->list, (struct scored_merge){score == score ? score : 0, id, (uint32_t)at,
                                                           (uint32_t)(length - at), (uint32_t)characters,
                                                           count - (uint32_t)characters}));
    }
    characters++;
  }
  return NEAP_OK;
}

static neap_status write_merges(const struct token_vocabulary *v, const struct vocabulary *pieces,
                                const struct scored_merges *merges, json_t *out) {
  for (size_t i = 0; i < merges->list.count; i++) {
    const struct scored_merge *merge = &merges->list.data[i];
    size_t length;
    const char *piece = vocabulary_of_id(pieces, merge->token, &length);
    json_t *pair = json_array();
    const bool good = pair != NULL && append(pair, json_stringn_nocheck(piece, merge->left)) &&
                      append(pair, json_stringn_nocheck(piece + merge->left, merge->right));
    if (!good) json_decref(pair);
    RETURN_IF(!good || json_array_append_new(out, pair) != 0, NEAP_OUT_OF_MEMORY, "%s: out of memory",
              v->file);
  }
  return NEAP_OK;
}

/* Makes merges as SentencePiece does (Kudo, Richardson 2018): the token of the highest score first. Equal
 * scores are ordered as by `transformers`: the longer left side, then the longer right side, then the lower
 * id. */
static neap_status merges_by_score(const struct token_vocabulary *v, const json_t *vocabulary, json_t *out) {
  struct vocabulary pieces = {0};
  struct scored_merges merges = {0};
  neap_status status = NEAP_OK;
  for (void *at = json_object_iter((json_t *)vocabulary); at != NULL;
       at = json_object_iter_next((json_t *)vocabulary, at))
    TRY_DONE(vocabulary_add(&pieces, json_object_iter_key(at), json_object_iter_key_len(at),
                            (int32_t)json_integer_value(json_object_iter_value(at))));
  TRY_DONE(vocabulary_finish(&pieces));
  for (int32_t i = 0; i < v->count; i++) TRY_DONE(add_ways(v, &pieces, i, &merges));
  if (merges.list.count > 0)
    qsort(merges.list.data, merges.list.count, sizeof *merges.list.data, compare_merges);
  status = write_merges(v, &pieces, &merges, out);
done:
  vocabulary_free(&pieces);
  vector_free(&merges.list);
  return status;
}

static neap_status add_merges(const struct token_vocabulary *v, const json_t *vocabulary, json_t *merges) {
  if (v->merge_count == 0 && strcmp(v->model, "llama") == 0) {
    RETURN_IF(v->scores == NULL, NEAP_BAD_FORMAT, "%s: its tokenizer has neither scores nor merges", v->file);
    return merges_by_score(v, vocabulary, merges);
  }
  for (int32_t i = 0; i < v->merge_count; i++)
    RETURN_IF(!append(merges, json_string(v->merges[i])), NEAP_BAD_FORMAT, "%s: merge %d is not UTF-8",
              v->file, i);
  return NEAP_OK;
}

/* ---- Models ---- */

/* Returns true if a piece of a WordPiece vocabulary has an ASCII capital letter. */
static bool has_capitals(const struct token_vocabulary *v) {
  for (int32_t i = 0; i < v->count; i++)
    for (size_t at = 0; at < v->lengths[i] && kind_of(v, i) == NORMAL && v->tokens[i][0] != '['; at++)
      if (v->tokens[i][at] >= 'A' && v->tokens[i][at] <= 'Z') return true;
  return false;
}

static json_t *describe_bert(const struct token_vocabulary *v) {
  return json_pack("{s:{s:s, s:b, s:b, s:n, s:b}, s:{s:s}, s:{s:s, s:s, s:b}, s:{s:s, s:s, s:i}}",
                   "normalizer", "type", "BertNormalizer", "clean_text", 1, "handle_chinese_chars", 1,
                   "strip_accents", "lowercase", !has_capitals(v), "pre_tokenizer", "type",
                   "BertPreTokenizer", "decoder", "type", "WordPiece", "prefix", "##", "cleanup", 1, "model",
                   "type", "WordPiece", "continuing_subword_prefix", "##", "max_input_chars_per_word", 100);
}

static json_t *describe_llama(const struct token_vocabulary *v) {
  const bool prefix = v->add_space_prefix != 0;
  json_t *replace =
      json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", " ", "content", mark);
  json_t *normalizer = prefix ? json_pack("{s:s, s:[{s:s, s:s}, o]}", "type", "Sequence", "normalizers",
                                          "type", "Prepend", "prepend", mark, replace)
                              : replace;
  json_t *decoder =
      json_pack("{s:s, s:[{s:s, s:{s:s}, s:s}, {s:s}, {s:s}]}", "type", "Sequence", "decoders", "type",
                "Replace", "pattern", "String", mark, "content", " ", "type", "ByteFallback", "type", "Fuse");
  bool good = decoder != NULL;
  if (prefix)
    good = good &&
           append(json_object_get(decoder, "decoders"),
                  json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content", " ", "start", 1, "stop", 0));
  json_t *made = json_pack("{s:o, s:o, s:{s:s, s:b, s:b}}", "normalizer", normalizer, "decoder", decoder,
                           "model", "type", "BPE", "fuse_unk", 1, "byte_fallback", 1);
  if (good || made == NULL) return made;
  json_decref(made);
  return NULL;
}

/* SentencePiece's Unigram: as `transformers` describes it, with the same steps in the same order. */
static json_t *describe_unigram(const struct token_vocabulary *v) {
  json_t *steps = json_array();
  bool good = steps != NULL, bytes = false;
  char *map = v->map != NULL ? malloc(base64_room(v->map_bytes)) : NULL;
  for (int32_t i = 0; i < v->count; i++) bytes = bytes || kind_of(v, i) == BYTE;
  if (v->map != NULL) {
    good = good && map != NULL;
    if (good) {
      base64_encode(v->map, v->map_bytes, map);
      good = append(steps, json_pack("{s:s, s:s}", "type", "Precompiled", "precompiled_charsmap", map));
    }
  }
  free(map);
  if (v->remove_spaces != 0)
    good = good &&
           append(steps, json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "Regex",
                                   "\\A +| +\\z", "content", "")) &&
           append(steps, json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "Regex", " {2,}",
                                   "content", " "));
  const char *scheme = v->add_space_prefix != 0 ? "always" : "never";
  json_t *unknown = v->unknown >= 0 && v->unknown < v->count ? json_integer(v->unknown) : json_null();
  json_t *decoders = bytes ? json_pack("[{s:s}, {s:s, s:s, s:s, s:b}]", "type", "ByteFallback", "type",
                                       "Metaspace", "replacement", mark, "prepend_scheme", scheme, "split", 1)
                           : json_pack("[{s:s, s:s, s:s, s:b}]", "type", "Metaspace", "replacement", mark,
                                       "prepend_scheme", scheme, "split", 1);
  json_t *made =
      json_pack("{s:{s:s, s:o}, s:{s:s, s:s, s:s, s:b}, s:{s:s, s:o}, s:{s:s, s:o, s:b}}", "normalizer",
                "type", "Sequence", "normalizers", steps, "pre_tokenizer", "type", "Metaspace", "replacement",
                mark, "prepend_scheme", scheme, "split", 1, "decoder", "type", "Sequence", "decoders",
                decoders, "model", "type", "Unigram", "unk_id", unknown, "byte_fallback", bytes);
  if (good || made == NULL) return made;
  json_decref(made);
  return NULL;
}

/* Returns the name of the vocabulary's token with this id; NULL: none exists. */
static const char *name_of(const json_t *vocabulary, int32_t id) {
  if (json_is_array(vocabulary))
    return id >= 0 ? json_string_value(json_array_get(json_array_get(vocabulary, (size_t)id), 0)) : NULL;
  for (void *at = json_object_iter((json_t *)vocabulary); id >= 0 && at != NULL;
       at = json_object_iter_next((json_t *)vocabulary, at))
    if (json_integer_value(json_object_iter_value(at)) == id) return json_object_iter_key(at);
  return NULL;
}

/* Adds the tokens at the ends of a text, and the unknown token. `usual_*`: whether they are added if the file
 * does not say. */
static neap_status add_ends(const struct token_vocabulary *v, const json_t *vocabulary, bool usual_bos,
                            bool usual_eos, json_t *made) {
  const bool bos = v->add_bos >= 0 ? v->add_bos : usual_bos, eos = v->add_eos >= 0 ? v->add_eos : usual_eos;
  const char *before = bos ? name_of(vocabulary, v->bos) : NULL;
  const char *behind = eos ? name_of(vocabulary, v->eos) : NULL;
  const bool has_unknown = strcmp(v->model, "gpt2") != 0 && json_is_object(vocabulary);
  const char *unknown = has_unknown ? name_of(vocabulary, v->unknown) : NULL;
  json_t *post = template_to_json(before, v->bos, behind, v->eos);
  bool good = post != NULL && json_object_set_new(made, "post_processor", post) == 0;
  if (unknown != NULL)
    good =
        good && json_object_set_new(json_object_get(made, "model"), "unk_token", json_string(unknown)) == 0;
  RETURN_IF(!good, NEAP_OUT_OF_MEMORY, "%s: out of memory", v->file);
  return NEAP_OK;
}

static neap_status fill(const struct token_vocabulary *v, bool usual_bos, bool usual_eos, json_t *made) {
  const bool scored = strcmp(v->model, "t5") == 0, merged = !scored && strcmp(v->model, "bert") != 0;
  json_t *vocabulary = scored ? json_array() : json_object(), *merges = json_array(), *added = json_array();
  json_t *model = json_object_get(made, "model");
  const bool good = vocabulary != NULL && merges != NULL && added != NULL &&
                    json_object_set(model, "vocab", vocabulary) == 0 &&
                    json_object_set(made, "added_tokens", added) == 0 &&
                    (!merged || json_object_set(model, "merges", merges) == 0);
  neap_status status = good ? NEAP_OK : neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", v->file);
  if (status == NEAP_OK) status = add_tokens(v, vocabulary, added);
  if (status == NEAP_OK && merged) status = add_merges(v, vocabulary, merges);
  if (status == NEAP_OK) status = add_ends(v, vocabulary, usual_bos, usual_eos, made);
  json_decref(vocabulary);
  json_decref(merges);
  json_decref(added);
  return status;
}

neap_status token_vocabulary_to_json(const struct token_vocabulary *v, json_t **out) {
  json_t *made = NULL;
  bool bos = true, eos = false;
  RETURN_IF(v->model == NULL || v->count <= 0, NEAP_BAD_FORMAT, "%s: it has no tokenizer", v->file);
  if (strcmp(v->model, "gpt2") == 0) {
    const struct byte_row *row;
    TRY(find_row(v->pre, v->file, &row));
    bos = row->bos;
    TRY(byte_pairs_to_json(v->pre, v->add_space_prefix == 1, v->file, &made));
  } else if (strcmp(v->model, "llama") == 0) {
    made = describe_llama(v);
  } else if (strcmp(v->model, "bert") == 0) {
    made = describe_bert(v);
    eos = true;
  } else if (strcmp(v->model, "t5") == 0) {
    RETURN_IF(v->scores == NULL, NEAP_BAD_FORMAT, "%s: its tokenizer has no scores", v->file);
    made = describe_unigram(v);
    bos = false;
    eos = true;
  } else {
    return neap_fail(NEAP_UNSUPPORTED,
                     "%s: its tokenizer is not supported (got model '%.60s'); use a model whose tokenizer is "
                     "gpt2, llama, bert or t5",
                     v->file, v->model);
  }
  RETURN_IF(made == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", v->file);
  const neap_status status = fill(v, bos, eos, made);
  if (status == NEAP_OK)
    *out = made;
  else
    json_decref(made);
  return status;
}
