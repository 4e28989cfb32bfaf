#include "text/token_decoder.h"

#include <string.h>

#include "text/byte_letters.h"
#include "text/utf8.h"

/* ---- Pieces ---- */

static neap_status put(struct pieces *pieces, const char *bytes, size_t length) {
  if (length == 0) return NEAP_OK;
  size_t wanted;
  RETURN_IF(__builtin_add_overflow(pieces->bytes.count, length, &wanted), NEAP_OUT_OF_MEMORY,
            "out of memory for a text of %zu more bytes", length);
  if (pieces->most > 0 && wanted > pieces->most) return text_is_too_long(pieces->most);
  TRY(vector_reserve(&pieces->bytes, wanted));
  memcpy(pieces->bytes.data + pieces->bytes.count, bytes, length);
  pieces->bytes.count = wanted;
  return NEAP_OK;
}

static neap_status end_piece(struct pieces *pieces) {
  return vector_push(&pieces->ends, pieces->bytes.count);
}

neap_status pieces_add(struct pieces *pieces, const char *bytes, size_t length) {
  TRY(put(pieces, bytes, length));
  return end_piece(pieces);
}

void pieces_clear(struct pieces *pieces) { pieces->bytes.count = pieces->ends.count = pieces->most = 0; }

void pieces_free(struct pieces *pieces) {
  vector_free(&pieces->bytes);
  vector_free(&pieces->ends);
}

/* Returns the bytes of piece i, and their number. */
static const char *piece(const struct pieces *pieces, size_t i, size_t *length) {
  const size_t start = i > 0 ? pieces->ends.data[i - 1] : 0;
  *length = pieces->ends.data[i] - start;
  return *length > 0 ? pieces->bytes.data + start : "";
}

/* Appends a text with every `from` replaced by `to`. */
static neap_status put_replaced(struct pieces *out, const char *text, size_t length, const char *from,
                                size_t from_length, const char *to) {
  while (from_length > 0) {
    const char *found = length > 0 ? memmem(text, length, from, from_length) : NULL;
    if (found == NULL) break;
    const size_t before = (size_t)(found - text);
    TRY(put(out, text, before));
    TRY(put(out, to, strlen(to)));
    text = found + from_length;
    length -= before + from_length;
  }
  return put(out, text, length);
}

/* ---- Steps ---- */

/* Turns letters back into bytes; a piece with any other letter is unchanged. */
static neap_status run_letters(const struct step *step, struct matcher *matcher, const struct pieces *in,
                               struct pieces *out) {
  (void)step, (void)matcher;
  for (size_t i = 0, length; i < in->ends.count; i++) {
    const char *text = piece(in, i, &length);
    const size_t before = out->bytes.count;
    uint32_t code;
    for (size_t at = 0; at < length;) {
      const int size = utf8_decode(text + at, length - at, &code);
      const int byte = size > 0 ? byte_of_letter(code) : -1;
      if (byte < 0) {
        out->bytes.count = before;
        TRY(put(out, text, length));
        break;
      }
      const char c = (char)byte;
      TRY(put(out, &c, 1));
      at += (size_t)size;
    }
  }
  return end_piece(out);
}

/* Words and signs without a space before them in English, as `tokenizers` lists them. */
static const char *const cleaned[][2] = {
    {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},    {" n't", "n't"},
    {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
};

/* Cleans the last piece of the output, from `start` on. */
static neap_status clean(struct pieces *out, size_t start) {
  struct pieces spare = {0};
  neap_status status = NEAP_OK;
  for (size_t i = 0; i < sizeof cleaned / sizeof *cleaned && status == NEAP_OK; i++) {
    spare.bytes.count = 0;
    status = put(&spare, out->bytes.data + start, out->bytes.count - start);
    out->bytes.count = start;
    if (status == NEAP_OK && spare.bytes.count > 0)
      status = put_replaced(out, spare.bytes.data, spare.bytes.count, cleaned[i][0], strlen(cleaned[i][0]),
                            cleaned[i][1]);
  }
  pieces_free(&spare);
  return status;
}

static neap_status run_word_piece(const struct step *step, struct matcher *matcher, const struct pieces *in,
                                  struct pieces *out) {
  (void)matcher;
  for (size_t i = 0, length; i < in->ends.count; i++) {
    const char *text = piece(in, i, &length);
    const size_t start = out->bytes.count;
    const bool goes_on = length >= step->length && memcmp(text, step->text, step->length) == 0;
    const size_t skip = i > 0 && goes_on ? step->length : 0;
    if (i > 0 && !goes_on) TRY(put(out, " ", 1));
    TRY(put(out, text + skip, length - skip));
    if (step->flag && out->bytes.count > start) TRY(clean(out, start));
    TRY(end_piece(out));
  }
  return NEAP_OK;
}

static neap_status run_metaspace(const struct step *step, struct matcher *matcher, const struct pieces *in,
                                 struct pieces *out) {
  (void)matcher;
  for (size_t i = 0, length; i < in->ends.count; i++) {
    const char *text = piece(in, i, &length);
    TRY(put_replaced(out, text, length, step->text, step->length, i == 0 && step->flag ? "" : " "));
    TRY(end_piece(out));
  }
  return NEAP_OK;
}

static neap_status run_suffix(const struct step *step, struct matcher *matcher, const struct pieces *in,
                              struct pieces *out) {
  (void)matcher;
  for (size_t i = 0, length; i < in->ends.count; i++) {
    const char *text = piece(in, i, &length);
    TRY(put_replaced(out, text, length, step->text, step->length, i + 1 == in->ends.count ? "" : " "));
    TRY(end_piece(out));
  }
  return NEAP_OK;
}

/* Returns the byte of a piece "<0xNN>"; -1 for other pieces. */
static int fallback_byte(const char *text, size_t length) {
  if (length != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
  const char digits[3] = {text[3], text[4], '\0'};
  return strspn(digits, "0123456789abcdefABCDEF") == 2 ? (int)strtol(digits, NULL, 16) : -1;
}

/* Ends a run of bytes from `start` on: each becomes U+FFFD if together they are not UTF-8. */
static neap_status end_bytes(struct pieces *out, size_t start) {
  const size_t count = out->bytes.count - start;
  if (count == 0) return NEAP_OK;
  const struct text text = {.bytes = out->bytes.data + start, .length = count, .name = ""};
  if (utf8_check(&text) == NEAP_OK) return end_piece(out);
  out->bytes.count = start;
  for (size_t i = 0; i < count; i++) TRY(pieces_add(out, "\xEF\xBF\xBD", 3));
  return NEAP_OK;
}

static neap_status run_fallback(const struct step *step, struct matcher *matcher, const struct pieces *in,
                                struct pieces *out) {
  (void)step, (void)matcher;
  size_t start = 0;
  for (size_t i = 0, length; i < in->ends.count; i++) {
    const char *text = piece(in, i, &length);
    const int byte = fallback_byte(text, length);
    const char c = (char)byte;
    if (byte >= 0) {
      TRY(put(out, &c, 1));
      continue;
    }
    TRY(end_bytes(out, start));
    TRY(pieces_add(out, text, length));
    start = out->bytes.count;
  }
  return end_bytes(out, start);
}

static neap_status run_fuse(const struct step *step, struct matcher *matcher, const struct pieces *in,
                            struct pieces *out) {
  (void)step, (void)matcher;
  return pieces_add(out, in->bytes.data, in->bytes.count);
}

static neap_status run_strip(const struct step *step, struct matcher *matcher, const struct pieces *in,
                             struct pieces *out) {
  (void)matcher;
  for (size_t i = 0, length; i < in->ends.count; i++) {
    const char *text = piece(in, i, &length);
    size_t from = 0, to = length, size = step->length;
    for (int n = 0; n < step->left && to - from >= size && memcmp(text + from, step->text, size) == 0; n++)
      from += size;
    for (int n = 0; n < step->right && to - from >= size && memcmp(text + to - size, step->text, size) == 0;
         n++)
      to -= size;
    TRY(pieces_add(out, text + from, to - from));
  }
  return NEAP_OK;
}

static neap_status run_replace(const struct step *step, struct matcher *matcher, const struct pieces *in,
                               struct pieces *out) {
  for (size_t i = 0, length, done = 0; i < in->ends.count; i++, done = 0) {
    const char *text = piece(in, i, &length);
    struct expression_walk walk = {
        .pattern = step->pattern, .matcher = matcher, .bytes = text, .length = length};
    size_t start, end;
    for (bool found = length > 0; found;) {
      TRY(expression_next(&walk, &start, &end, &found));
      if (!found) break;
      TRY(put(out, text + done, start - done));
      TRY(put(out, step->text, step->length));
      done = end;
    }
    TRY(pieces_add(out, text + done, length - done));
  }
  return NEAP_OK;
}

/* ---- Components ---- */

static neap_status parse_suffix(const json_t *object, const struct json_place *place, struct steps *steps) {
  struct step step = {.decode = run_suffix};
  TRY(step_text(object, "suffix", place, false, &step.text, &step.length));
  return steps_add(steps, step);
}

static neap_status parse_fallback(const json_t *object, const struct json_place *place, struct steps *steps) {
  (void)object, (void)place;
  return steps_add(steps, (struct step){.decode = run_fallback});
}

static neap_status parse_byte_level(const json_t *object, const struct json_place *place,
                                    struct steps *steps) {
  (void)object, (void)place;
  return steps_add(steps, (struct step){.decode = run_letters});
}

static neap_status parse_fuse(const json_t *object, const struct json_place *place, struct steps *steps) {
  (void)object, (void)place;
  return steps_add(steps, (struct step){.decode = run_fuse});
}

static neap_status parse_metaspace(const json_t *object, const struct json_place *place,
                                   struct steps *steps) {
  struct step step = {.decode = run_metaspace, .flag = true};
  const char *scheme = json_string_value(json_object_get(object, "prepend_scheme"));
  TRY(step_flag(object, "add_prefix_space", place, &step.flag));
  if (scheme != NULL && strcmp(scheme, "never") == 0) step.flag = false;
  TRY(step_text(object, "replacement", place, false, &step.text, &step.length));
  return steps_add(steps, step);
}

static neap_status parse_replace(const json_t *object, const struct json_place *place, struct steps *steps) {
  struct step step = {.decode = run_replace};
  TRY(step_text(object, "content", place, false, &step.text, &step.length));
  const neap_status status = step_pattern(object, place, &step.pattern);
  if (status == NEAP_OK) return steps_add(steps, step);
  free(step.text);
  return status;
}

static neap_status parse_strip(const json_t *object, const struct json_place *place, struct steps *steps) {
  struct step step = {.decode = run_strip};
  uint64_t left, right;
  TRY(json_need_size(object, "start", place, &left));
  TRY(json_need_size(object, "stop", place, &right));
  step.left = left < INT32_MAX ? (int)left : INT32_MAX;
  step.right = right < INT32_MAX ? (int)right : INT32_MAX;
  TRY(step_text(object, "content", place, false, &step.text, &step.length));
  if (step.length > 0) return steps_add(steps, step);
  free(step.text);
  return json_bad_field(place, "content", "must be a character");
}

static neap_status parse_word_piece(const json_t *object, const struct json_place *place,
                                    struct steps *steps) {
  struct step step = {.decode = run_word_piece, .flag = true};
  TRY(step_flag(object, "cleanup", place, &step.flag));
  TRY(step_text(object, "prefix", place, false, &step.text, &step.length));
  return steps_add(steps, step);
}

static const struct step_row rows[] = {
    {"BPEDecoder", parse_suffix}, {"ByteFallback", parse_fallback}, {"ByteLevel", parse_byte_level},
    {"Fuse", parse_fuse},         {"Metaspace", parse_metaspace},   {"Replace", parse_replace},
    {"Strip", parse_strip},       {"WordPiece", parse_word_piece},
};

const struct step_family token_decoders = {"decoders", rows, sizeof rows / sizeof *rows};

static neap_status join(const struct pieces *in, struct pieces *out) {
  for (size_t i = 0, length; i < in->ends.count; i++) {
    const char *text = piece(in, i, &length);
    if (i > 0) TRY(put(out, " ", 1));
    TRY(put(out, text, length));
  }
  return end_piece(out);
}

neap_status decode_pieces(const struct steps *steps, struct matcher *matcher, struct pieces pieces[2],
                          const struct pieces **made) {
  size_t i = 0;
  const size_t most = text_bound(pieces[0].bytes.count);
  pieces_clear(&pieces[1]);
  if (steps->list.count == 0) TRY(join(&pieces[0], &pieces[1]));
  for (; i < steps->list.count; i++) {
    pieces_clear(&pieces[(i + 1) % 2]);
    pieces[(i + 1) % 2].most = most;
    TRY(steps->list.data[i].decode(&steps->list.data[i], matcher, &pieces[i % 2], &pieces[(i + 1) % 2]));
  }
  *made = &pieces[i > 0 ? i % 2 : 1];
  return NEAP_OK;
}
