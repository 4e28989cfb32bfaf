#include "text/pre_tokenizer.h"

#include <string.h>

#include "text/byte_letters.h"
#include "text/unicode.h"
#include "text/utf8.h"

static const char gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
/* \w of Rust's regular expressions. */
#define RUST_WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}"
static const char whitespace_pattern[] = "[" RUST_WORD "]+|[^" RUST_WORD "\\s]+";

neap_status pre_tokenize(struct splitting *splitting, size_t stage, const struct passage *in) {
  if (in->length == 0) return NEAP_OK;
  if (stage == splitting->steps->list.count) return splitting->take(splitting->context, in);
  const struct step *step = &splitting->steps->list.data[stage];
  return step->split(step, splitting, stage, in);
}

/* ---- Splitting ---- */

struct cutter {
  const struct step *step;
  struct splitting *splitting;
  size_t stage;
  const struct passage *in;
  size_t from, to; /* what waits, if `waits`, for what follows */
  bool waits, was_match;
};

static neap_status give(struct cutter *c, size_t from, size_t to) {
  const struct passage part = passage_part(c->in, from, to);
  return pre_tokenize(c->splitting, c->stage + 1, &part);
}

static neap_status flush(struct cutter *c) {
  if (!c->waits) return NEAP_OK;
  c->waits = false;
  return give(c, c->from, c->to);
}

/* Joins [from, to) to the pending part or, if not `joins`, makes it the pending part. */
static neap_status wait_or_join(struct cutter *c, bool joins, size_t from, size_t to) {
  if (joins && c->waits) {
    c->to = to;
    return NEAP_OK;
  }
  TRY(flush(c));
  c->from = from;
  c->to = to;
  c->waits = true;
  return NEAP_OK;
}

/* Takes the next stretch, which is a match of the step or the text between two. */
static neap_status cut(struct cutter *c, size_t from, size_t to, bool is_match) {
  const bool match = is_match != c->step->invert, was_match = c->was_match;
  c->was_match = match;
  switch (c->step->behaviour) {
  case REMOVED:
    return match ? NEAP_OK : give(c, from, to);
  case ISOLATED:
    return give(c, from, to);
  case CONTIGUOUS:
    return wait_or_join(c, match == was_match, from, to);
  case MERGED_WITH_PREVIOUS:
    return wait_or_join(c, match && !was_match, from, to);
  case MERGED_WITH_NEXT:
    if (match) return wait_or_join(c, false, from, to);
    TRY(wait_or_join(c, true, from, to));
    return flush(c);
  }
  return NEAP_OK;
}

static neap_status split_by_pattern(const struct step *step, struct splitting *splitting, size_t stage,
                                    const struct passage *in) {
  struct cutter c = {.step = step, .splitting = splitting, .stage = stage, .in = in};
  struct expression_walk walk = {
      .pattern = step->pattern, .matcher = splitting->matcher, .bytes = in->bytes, .length = in->length};
  size_t done = 0, start, end;
  for (bool found = true;;) {
    TRY(expression_next(&walk, &start, &end, &found));
    if (!found) break;
    if (done < start) TRY(cut(&c, done, start, false));
    TRY(cut(&c, start, end, true));
    done = end;
  }
  if (done < in->length) TRY(cut(&c, done, in->length, false));
  return flush(&c);
}

static neap_status split_by_class(const struct step *step, struct splitting *splitting, size_t stage,
                                  const struct passage *in) {
  struct cutter c = {.step = step, .splitting = splitting, .stage = stage, .in = in};
  size_t done = 0;
  uint32_t code;
  for (size_t at = 0, size; at < in->length; at += size) {
    size = (size_t)utf8_decode(in->bytes + at, in->length - at, &code);
    if (!step->is_member(code)) continue;
    if (done < at) TRY(cut(&c, done, at, false));
    TRY(cut(&c, at, at + size, true));
    done = at + size;
  }
  if (done < in->length) TRY(cut(&c, done, in->length, false));
  return flush(&c);
}

/* ---- Changing ---- */

/* Passes the changed text on to the next step. */
static neap_status hand_on(struct splitting *splitting, size_t stage, const struct passage *in) {
  const struct passage made = passage_of(&splitting->buffers[stage], in);
  return pre_tokenize(splitting, stage + 1, &made);
}

static neap_status split_prefix(const struct step *step, struct splitting *splitting, size_t stage,
                                const struct passage *in) {
  (void)step;
  struct passage_buffer *buffer = &splitting->buffers[stage];
  if (in->bytes[0] == ' ') return pre_tokenize(splitting, stage + 1, in);
  passage_clear(buffer);
  TRY(passage_append(buffer, " ", 1, in->start));
  TRY(passage_append_part(buffer, in, 0, in->length));
  return hand_on(splitting, stage, in);
}

static neap_status split_letters(const struct step *step, struct splitting *splitting, size_t stage,
                                 const struct passage *in) {
  (void)step;
  struct passage_buffer *buffer = &splitting->buffers[stage];
  passage_clear(buffer);
  for (size_t i = 0; i < in->length; i++)
    TRY(passage_append_code(buffer, letter_of_byte((unsigned char)in->bytes[i]), passage_place(in, i + 1)));
  return hand_on(splitting, stage, in);
}

enum { PREPEND_ALWAYS, PREPEND_FIRST, PREPEND_NEVER };

static neap_status split_metaspace(const struct step *step, struct splitting *splitting, size_t stage,
                                   const struct passage *in) {
  struct passage_buffer *buffer = &splitting->buffers[stage];
  const bool has_mark =
      in->bytes[0] == ' ' || (in->length >= step->length && memcmp(in->bytes, step->text, step->length) == 0);
  passage_clear(buffer);
  if (!has_mark && (step->left == PREPEND_ALWAYS || (step->left == PREPEND_FIRST && in->first)))
    TRY(passage_append(buffer, step->text, step->length, in->start));
  size_t done = 0;
  for (const char *space; (space = memchr(in->bytes + done, ' ', in->length - done)) != NULL;) {
    const size_t at = (size_t)(space - in->bytes);
    TRY(passage_append_part(buffer, in, done, at));
    TRY(passage_append(buffer, step->text, step->length, passage_place(in, at + 1)));
    done = at + 1;
  }
  TRY(passage_append_part(buffer, in, done, in->length));
  return hand_on(splitting, stage, in);
}

/* ---- Components ---- */

static neap_status add_pattern(struct steps *steps, const char *expression, size_t length, bool literal,
                               struct step step) {
  step.split = split_by_pattern;
  TRY(expression_compile(expression, length, literal, &step.pattern));
  return steps_add(steps, step);
}

static neap_status add_class(struct steps *steps, bool (*is_member)(uint32_t),
                             enum split_behaviour behaviour) {
  return steps_add(steps,
                   (struct step){.split = split_by_class, .is_member = is_member, .behaviour = behaviour});
}

/* Reads the field "behavior"; if it is missing or null, `*out` is unchanged. */
static neap_status parse_behaviour(const json_t *object, const struct json_place *place,
                                   enum split_behaviour *out) {
  static const char *const words[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                      "Contiguous"};
  const json_t *value = json_object_get(object, "behavior");
  if (value == NULL || json_is_null(value)) return NEAP_OK;
  for (size_t i = 0; i < sizeof words / sizeof *words && json_is_string(value); i++)
    if (strcmp(words[i], json_string_value(value)) == 0) {
      *out = (enum split_behaviour)i;
      return NEAP_OK;
    }
  return json_bad_field(place, "behavior",
                        "must be Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

static neap_status parse_bert(const json_t *object, const struct json_place *place, struct steps *steps) {
  (void)object, (void)place;
  TRY(add_class(steps, unicode_is_space, REMOVED));
  return add_class(steps, unicode_is_punctuation, ISOLATED);
}

static neap_status parse_byte_level(const json_t *object, const struct json_place *place,
                                    struct steps *steps) {
  bool prefix = true, pattern = true;
  TRY(step_flag(object, "add_prefix_space", place, &prefix));
  TRY(step_flag(object, "use_regex", place, &pattern));
  if (prefix) TRY(steps_add(steps, (struct step){.split = split_prefix}));
  if (pattern)
    TRY(add_pattern(steps, gpt2_pattern, strlen(gpt2_pattern), false, (struct step){.behaviour = ISOLATED}));
  return steps_add(steps, (struct step){.split = split_letters});
}

static neap_status parse_delimiter(const json_t *object, const struct json_place *place,
                                   struct steps *steps) {
  const char *delimiter;
  TRY(json_need_string(object, "delimiter", place, &delimiter));
  if (*delimiter == '\0') return json_bad_field(place, "delimiter", "must be a character");
  return add_pattern(steps, delimiter, strlen(delimiter), true, (struct step){.behaviour = REMOVED});
}

static neap_status parse_digits(const json_t *object, const struct json_place *place, struct steps *steps) {
  bool individual = false;
  TRY(step_flag(object, "individual_digits", place, &individual));
  return add_class(steps, unicode_is_number, individual ? ISOLATED : CONTIGUOUS);
}

/* Reads "prepend_scheme", or its form in older files. */
static neap_status parse_scheme(const json_t *object, const struct json_place *place, int *scheme) {
  static const char *const words[] = {"always", "first", "never"};
  const json_t *value = json_object_get(object, "prepend_scheme");
  bool prefix = true, known = value == NULL || json_is_null(value);
  *scheme = PREPEND_ALWAYS;
  TRY(step_flag(object, "add_prefix_space", place, &prefix));
  for (int i = 0; i < 3 && json_is_string(value); i++)
    if (strcmp(words[i], json_string_value(value)) == 0) {
      *scheme = i;
      known = true;
    }
  if (!known) return json_bad_field(place, "prepend_scheme", "must be always, first or never");
  if (!prefix) *scheme = PREPEND_NEVER;
  return NEAP_OK;
}

static neap_status parse_metaspace(const json_t *object, const struct json_place *place,
                                   struct steps *steps) {
  struct step step = {.split = split_metaspace};
  bool split = true;
  TRY(parse_scheme(object, place, &step.left));
  TRY(step_flag(object, "split", place, &split));
  TRY(step_text(object, "replacement", place, false, &step.text, &step.length));
  uint32_t code;
  const bool good = step.length > 0 && (size_t)utf8_decode(step.text, step.length, &code) == step.length;
  neap_status status = good ? NEAP_OK : json_bad_field(place, "replacement", "must be a character");
  struct step cutting = {.behaviour = MERGED_WITH_NEXT};
  const size_t length = step.length;
  char text[UTF8_MAX_BYTES];
  if (good) memcpy(text, step.text, length);
  if (status != NEAP_OK) {
    free(step.text);
    return status;
  }
  TRY(steps_add(steps, step));
  return split ? add_pattern(steps, text, length, true, cutting) : NEAP_OK;
}

static neap_status parse_punctuation(const json_t *object, const struct json_place *place,
                                     struct steps *steps) {
  enum split_behaviour behaviour = ISOLATED;
  TRY(parse_behaviour(object, place, &behaviour));
  return add_class(steps, unicode_is_punctuation, behaviour);
}

static neap_status parse_split(const json_t *object, const struct json_place *place, struct steps *steps) {
  struct step step = {.split = split_by_pattern, .behaviour = ISOLATED};
  TRY(parse_behaviour(object, place, &step.behaviour));
  TRY(step_flag(object, "invert", place, &step.invert));
  TRY(step_pattern(object, place, &step.pattern));
  return steps_add(steps, step);
}

static neap_status parse_whitespace(const json_t *object, const struct json_place *place,
                                    struct steps *steps) {
  (void)object, (void)place;
  return add_pattern(steps, whitespace_pattern, strlen(whitespace_pattern), false,
                     (struct step){.behaviour = REMOVED, .invert = true});
}

static neap_status parse_whitespace_split(const json_t *object, const struct json_place *place,
                                          struct steps *steps) {
  (void)object, (void)place;
  return add_class(steps, unicode_is_space, REMOVED);
}

static const struct step_row rows[] = {
    {"BertPreTokenizer", parse_bert},
    {"ByteLevel", parse_byte_level},
    {"CharDelimiterSplit", parse_delimiter},
    {"Digits", parse_digits},
    {"Metaspace", parse_metaspace},
    {"Punctuation", parse_punctuation},
    {"Split", parse_split},
    {"Whitespace", parse_whitespace},
    {"WhitespaceSplit", parse_whitespace_split},
};

const struct step_family pre_tokenizers = {"pretokenizers", rows, sizeof rows / sizeof *rows};
