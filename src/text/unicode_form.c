#include "text/unicode_form.h"

#include <utf8proc.h>

#include "text/unicode.h"
#include "text/utf8.h"

enum { DECOMPOSED_MOST = 32 }; /* code points that one has; Unicode's longest has 18 */

struct work {
  VECTOR(utf8proc_int32_t) codes, spare;
};

/* Returns true if a character never combines with the text before it: the text may be cut before it. */
static bool begins_part(uint32_t code) {
  if (code < 0x300 || unicode_is_without_form(code)) return true;
  if ((code >= 0x1160 && code <= 0x11FF) || (code >= 0x3131 && code <= 0x318E) ||
      (code >= 0xFF9E && code <= 0xFFDC)) /* vowels and finals of Hangul, sound marks of Kana */
    return false;
  const utf8proc_property_t *property = utf8proc_get_property((utf8proc_int32_t)code);
  return property->combining_class == 0 && property->category != UTF8PROC_CATEGORY_MN &&
         property->category != UTF8PROC_CATEGORY_MC && property->category != UTF8PROC_CATEGORY_ME;
}

static int combining_class(utf8proc_int32_t code) {
  const int class = code < 0x300 ? 0 : utf8proc_get_property(code)->combining_class;
  return class != 0 && unicode_is_without_form((uint32_t)code) ? 0 : class;
}

static neap_status decompose(struct work *work, uint32_t code, bool compatible) {
  utf8proc_int32_t codes[DECOMPOSED_MOST];
  int boundary = 0;
  if (unicode_is_without_form(code)) return vector_push(&work->codes, (utf8proc_int32_t)code);
  const utf8proc_option_t options = compatible ? UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT : UTF8PROC_DECOMPOSE;
  const utf8proc_ssize_t count =
      utf8proc_decompose_char((utf8proc_int32_t)code, codes, DECOMPOSED_MOST, options, &boundary);
  RETURN_IF(count < 0 || count > DECOMPOSED_MOST, NEAP_UNSUPPORTED, "U+%04X has no normal form", code);
  for (utf8proc_ssize_t i = 0; i < count; i++) TRY(vector_push(&work->codes, codes[i]));
  return NEAP_OK;
}

/* Sorts `count` marks by their classes; equal ones stay in order. */
static neap_status sort_marks(struct work *work, utf8proc_int32_t *codes, size_t count) {
  size_t places[256] = {0};
  TRY(vector_reserve(&work->spare, count));
  for (size_t i = 0; i < count; i++) places[combining_class(codes[i])]++;
  for (size_t i = 0, sum = 0; i < 256; i++) {
    const size_t here = places[i];
    places[i] = sum;
    sum += here;
  }
  for (size_t i = 0; i < count; i++) work->spare.data[places[combining_class(codes[i])]++] = codes[i];
  for (size_t i = 0; i < count; i++) codes[i] = work->spare.data[i];
  return NEAP_OK;
}

/* Returns true if the bytes [from, to) are these code points. */
static bool is_same(const struct passage *in, size_t from, size_t to, const utf8proc_int32_t *codes,
                    size_t count) {
  uint32_t code;
  for (size_t i = 0; i < count; i++) {
    if (from == to) return false;
    from += (size_t)utf8_decode(in->bytes + from, to - from, &code);
    if (code != (uint32_t)codes[i]) return false;
  }
  return from == to;
}

/* Appends the result for the bytes [from, to), which were decomposed. */
static neap_status finish_part(struct work *work, bool compose, const struct passage *in, size_t from,
                               size_t to, struct passage_buffer *out) {
  utf8proc_int32_t *codes = work->codes.data;
  size_t count = work->codes.count;
  for (size_t i = 0, next; i < count; i = next) {
    for (next = i; next < count && combining_class(codes[next]) != 0;) next++;
    if (next - i > 1) TRY(sort_marks(work, codes + i, next - i));
    if (next == i) next++;
  }
  if (compose && count > 1)
    count =
        (size_t)utf8proc_normalize_utf32(codes, (utf8proc_ssize_t)count, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  if (is_same(in, from, to, codes, count)) return passage_append_part(out, in, from, to);
  for (size_t i = 0; i < count; i++) TRY(passage_append_code(out, (uint32_t)codes[i], passage_place(in, to)));
  return NEAP_OK;
}

static neap_status normalise_all(struct work *work, enum unicode_form form, const struct passage *in,
                                 struct passage_buffer *out) {
  uint32_t code;
  for (size_t at = 0; at < in->length;) {
    size_t next = at;
    while (next < in->length && (unsigned char)in->bytes[next] < 0x80) next++;
    /* A mark may join the last letter of ASCII. */
    if (next < in->length && next > at) next--;
    TRY(passage_append_part(out, in, at, next));
    if (next == in->length) break;
    const size_t from = at = next;
    work->codes.count = 0;
    for (bool begun = false; at < in->length; begun = true) {
      const size_t size = (size_t)utf8_decode(in->bytes + at, in->length - at, &code);
      if (begun && begins_part(code)) break;
      TRY(decompose(work, code, form == FORM_NFKC || form == FORM_NFKD));
      at += size;
    }
    TRY(finish_part(work, form == FORM_NFC || form == FORM_NFKC, in, from, at, out));
  }
  return NEAP_OK;
}

neap_status unicode_normalise(enum unicode_form form, const struct passage *in, struct passage_buffer *out) {
  struct work work = {0};
  const neap_status status = normalise_all(&work, form, in, out);
  vector_free(&work.codes);
  vector_free(&work.spare);
  return status;
}
