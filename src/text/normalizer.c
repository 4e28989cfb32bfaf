#include "text/normalizer.h"

#include <string.h>

#include "text/base64.h"
#include "text/byte_letters.h"
#include "text/character_map.h"
#include "text/unicode.h"
#include "text/unicode_form.h"
#include "text/utf8.h"

/* ---- Characters ---- */

static size_t map_lower(uint32_t code, uint32_t out[STEP_CODES_MOST]) {
  return unicode_lower_case(code, out);
}

static size_t keep_if(bool kept, uint32_t code, uint32_t out[STEP_CODES_MOST]) {
  out[0] = code;
  return kept ? 1 : 0;
}

static size_t map_mark(uint32_t code, uint32_t out[STEP_CODES_MOST]) {
  return keep_if(!unicode_is_mark(code), code, out);
}

static size_t map_nonspacing_mark(uint32_t code, uint32_t out[STEP_CODES_MOST]) {
  return keep_if(!unicode_is_nonspacing_mark(code), code, out);
}

static size_t map_clean(uint32_t code, uint32_t out[STEP_CODES_MOST]) {
  const bool kept = code != 0 && code != 0xFFFD && !unicode_is_control(code);
  return keep_if(kept, unicode_is_space(code) ? ' ' : code, out);
}

static size_t map_ideograph(uint32_t code, uint32_t out[STEP_CODES_MOST]) {
  if (!unicode_is_ideograph(code)) return keep_if(true, code, out);
  out[0] = out[2] = ' ';
  out[1] = code;
  return 3;
}

static neap_status run_map(const struct step *step, struct matcher *matcher, const struct passage *in,
                           struct passage_buffer *out) {
  (void)matcher;
  uint32_t code, made[STEP_CODES_MOST];
  for (size_t at = 0, next; at < in->length; at = next) {
    next = at + (size_t)utf8_decode(in->bytes + at, in->length - at, &code);
    const size_t count = step->map(code, made);
    if (count == 1 && made[0] == code) {
      TRY(passage_append_part(out, in, at, next));
      continue;
    }
    for (size_t i = 0; i < count; i++) TRY(passage_append_code(out, made[i], passage_place(in, next)));
  }
  return NEAP_OK;
}

/* As SentencePiece's rules for neural machine translation. */
static size_t map_translation(uint32_t code, uint32_t out[STEP_CODES_MOST]) {
  const bool removed = (code >= 0x01 && code <= 0x08) || code == 0x0B || (code >= 0x0E && code <= 0x1F) ||
                       code == 0x7F || code == 0x8F || code == 0x9F;
  const bool space = code == 0x09 || code == 0x0A || code == 0x0C || code == 0x0D || code == 0x1680 ||
                     (code >= 0x200B && code <= 0x200F) || code == 0x2028 || code == 0x2029 ||
                     code == 0x2581 || code == 0xFEFF || code == 0xFFFD;
  return keep_if(!removed, space ? ' ' : code, out);
}

static neap_status run_form(const struct step *step, struct matcher *matcher, const struct passage *in,
                            struct passage_buffer *out) {
  (void)matcher;
  return unicode_normalise((enum unicode_form)step->left, in, out);
}

static neap_status run_letters(const struct step *step, struct matcher *matcher, const struct passage *in,
                               struct passage_buffer *out) {
  (void)step, (void)matcher;
  for (size_t i = 0; i < in->length; i++)
    TRY(passage_append_code(out, letter_of_byte((unsigned char)in->bytes[i]), passage_place(in, i + 1)));
  return NEAP_OK;
}

/* ---- Texts ---- */

static neap_status run_prepend(const struct step *step, struct matcher *matcher, const struct passage *in,
                               struct passage_buffer *out) {
  (void)matcher;
  if (in->length == 0) return NEAP_OK;
  TRY(passage_append(out, step->text, step->length, in->start));
  return passage_append_part(out, in, 0, in->length);
}

static neap_status run_replace(const struct step *step, struct matcher *matcher, const struct passage *in,
                               struct passage_buffer *out) {
  struct expression_walk walk = {
      .pattern = step->pattern, .matcher = matcher, .bytes = in->bytes, .length = in->length};
  size_t done = 0, start, end;
  bool found = in->length > 0;
  while (found) {
    TRY(expression_next(&walk, &start, &end, &found));
    if (!found) break;
    TRY(passage_append_part(out, in, done, start));
    TRY(passage_append(out, step->text, step->length, passage_place(in, end)));
    done = end;
  }
  return passage_append_part(out, in, done, in->length);
}

static neap_status run_strip(const struct step *step, struct matcher *matcher, const struct passage *in,
                             struct passage_buffer *out) {
  (void)matcher;
  size_t from = 0, to = in->length;
  uint32_t code;
  while (step->left && from < to) {
    const size_t size = (size_t)utf8_decode(in->bytes + from, to - from, &code);
    if (!unicode_is_space(code)) break;
    from += size;
  }
  while (step->right && from < to) {
    size_t last = to - 1;
    while (((unsigned char)in->bytes[last] & 0xC0) == 0x80) last--;
    utf8_decode(in->bytes + last, to - last, &code);
    if (!unicode_is_space(code)) break;
    to = last;
  }
  return passage_append_part(out, in, from, to);
}

/* ---- Maps of SentencePiece ---- */

/* As `tokenizers`: a character of several code points (a grapheme) of less than this many bytes is looked for
 * as a whole first. */
enum { WHOLE_BYTES = 6 };

/* Appends the characters [from, to) one by one, or the map's text in their place. */
static neap_status map_each(const struct character_map *map, const struct passage *in, size_t from, size_t to,
                            struct passage_buffer *out) {
  const char *text;
  size_t length;
  uint32_t code;
  for (size_t at = from, next; at < to; at = next) {
    next = at + (size_t)utf8_decode(in->bytes + at, to - at, &code);
    if (character_map_find(map, in->bytes + at, next - at, &text, &length))
      TRY(passage_append(out, text, length, passage_place(in, next)));
    else
      TRY(passage_append_part(out, in, at, next));
  }
  return NEAP_OK;
}

static neap_status run_precompiled(const struct step *step, struct matcher *matcher, const struct passage *in,
                                   struct passage_buffer *out) {
  struct expression_walk walk = {
      .pattern = step->pattern, .matcher = matcher, .bytes = in->bytes, .length = in->length};
  struct character_map map;
  size_t start, end, length;
  const char *text;
  bool found = in->length > 0 && character_map_open((unsigned char *)step->text, step->length, &map);
  while (found) {
    TRY(expression_next(&walk, &start, &end, &found));
    if (!found) break;
    if (end - start < WHOLE_BYTES && character_map_find(&map, in->bytes + start, end - start, &text, &length))
      TRY(passage_append(out, text, length, passage_place(in, end)));
    else
      TRY(map_each(&map, in, start, end, out));
  }
  return NEAP_OK;
}

/* ---- Components ---- */

static neap_status add_map(struct steps *steps, step_map *map) {
  return steps_add(steps, (struct step){.normalise = run_map, .map = map});
}

static neap_status add_form(struct steps *steps, enum unicode_form form) {
  return steps_add(steps, (struct step){.normalise = run_form, .left = (int)form});
}

static neap_status parse_bert(const json_t *object, const struct json_place *place, struct steps *steps) {
  bool clean = true, ideographs = true, lower = true;
  TRY(step_flag(object, "clean_text", place, &clean));
  TRY(step_flag(object, "handle_chinese_chars", place, &ideographs));
  TRY(step_flag(object, "lowercase", place, &lower));
  bool strip = lower;
  TRY(step_flag(object, "strip_accents", place, &strip));
  if (clean) TRY(add_map(steps, map_clean));
  if (ideographs) TRY(add_map(steps, map_ideograph));
  if (strip) {
    TRY(add_form(steps, FORM_NFD));
    TRY(add_map(steps, map_nonspacing_mark));
  }
  return lower ? add_map(steps, map_lower) : NEAP_OK;
}

#define SIMPLE(name, call)                                                                                   \
  static neap_status name(const json_t *object, const struct json_place *place, struct steps *steps) {       \
    (void)object, (void)place;                                                                               \
    return call;                                                                                             \
  }
SIMPLE(parse_letters, steps_add(steps, (struct step){.normalise = run_letters}))
SIMPLE(parse_lower, add_map(steps, map_lower))
SIMPLE(parse_accents, add_map(steps, map_mark))
SIMPLE(parse_nfc, add_form(steps, FORM_NFC))
SIMPLE(parse_nfd, add_form(steps, FORM_NFD))
SIMPLE(parse_nfkc, add_form(steps, FORM_NFKC))
SIMPLE(parse_nfkd, add_form(steps, FORM_NFKD))
SIMPLE(parse_nmt, add_map(steps, map_translation))

static neap_status parse_prepend(const json_t *object, const struct json_place *place, struct steps *steps) {
  struct step step = {.normalise = run_prepend};
  TRY(step_text(object, "prepend", place, false, &step.text, &step.length));
  return steps_add(steps, step);
}

static neap_status parse_replace(const json_t *object, const struct json_place *place, struct steps *steps) {
  struct step step = {.normalise = run_replace};
  TRY(step_text(object, "content", place, false, &step.text, &step.length));
  const neap_status status = step_pattern(object, place, &step.pattern);
  if (status == NEAP_OK) return steps_add(steps, step);
  free(step.text);
  return status;
}

static neap_status parse_precompiled(const json_t *object, const struct json_place *place,
                                     struct steps *steps) {
  struct step step = {.normalise = run_precompiled};
  struct character_map map;
  char *text;
  size_t length;
  TRY(step_text(object, "precompiled_charsmap", place, false, &text, &length));
  step.text = malloc(length + 1);
  const bool good =
      step.text != NULL && base64_decode(text, length, (unsigned char *)step.text, &step.length) &&
      character_map_open((unsigned char *)step.text, step.length, &map) && character_map_is_utf8(&map);
  neap_status status =
      step.text == NULL ? neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for a map")
      : !good ? json_bad_field(place, "precompiled_charsmap", "must be a map of SentencePiece in base64")
              : expression_compile("\\X", 2, false, &step.pattern);
  free(text);
  if (status == NEAP_OK) return steps_add(steps, step);
  free(step.text);
  return status;
}

static neap_status parse_strip(const json_t *object, const struct json_place *place, struct steps *steps) {
  bool left = true, right = true;
  TRY(step_flag(object, "strip_left", place, &left));
  TRY(step_flag(object, "strip_right", place, &right));
  return steps_add(steps, (struct step){.normalise = run_strip, .left = left, .right = right});
}

static const struct step_row rows[] = {
    {"BertNormalizer", parse_bert},
    {"ByteLevel", parse_letters},
    {"Lowercase", parse_lower},
    {"NFC", parse_nfc},
    {"NFD", parse_nfd},
    {"NFKC", parse_nfkc},
    {"NFKD", parse_nfkd},
    {"Nmt", parse_nmt},
    {"Precompiled", parse_precompiled},
    {"Prepend", parse_prepend},
    {"Replace", parse_replace},
    {"Strip", parse_strip},
    {"StripAccents", parse_accents},
};

const struct step_family normalizers = {"normalizers", rows, sizeof rows / sizeof *rows};

neap_status normalise(const struct steps *steps, struct matcher *matcher, const struct passage *in,
                      struct passage_buffer buffers[2], struct passage *out) {
  struct passage passage = *in;
  for (size_t i = 0; i < steps->list.count; i++) {
    struct passage_buffer *buffer = &buffers[i % 2];
    passage_clear(buffer);
    buffer->most = text_bound(in->length);
    TRY(steps->list.data[i].normalise(&steps->list.data[i], matcher, &passage, buffer));
    passage = passage_of(buffer, in);
  }
  *out = passage;
  return NEAP_OK;
}
