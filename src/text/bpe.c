#include "text/bpe.h"

#include <string.h>

#include "base/heap.h"
#include "text/word_table.h"
#include "text/words.h"

/* ---- Tokens ---- */

neap_status bpe_start(struct bpe *bpe) {
  for (int byte = 0; byte < BYTE_TOKENS; byte++) {
    TRY(vector_push(&bpe->spelling, (char)byte));
    TRY(vector_push(&bpe->ends, bpe->spelling.count));
  }
  return NEAP_OK;
}

void bpe_free(struct bpe *bpe) {
  pair_table_free(&bpe->merges);
  vector_free(&bpe->spelling);
  vector_free(&bpe->ends);
}

const char *bpe_token(const struct bpe *bpe, int32_t id, size_t *length) {
  const size_t begin = id > 0 ? bpe->ends.data[id - 1] : 0;
  *length = bpe->ends.data[id] - begin;
  return bpe->spelling.data + begin;
}

const char *bpe_refusal(const struct bpe *bpe, struct pair pair) {
  size_t left, right;
  if (pair.left < 0 || pair.right < 0 || pair.left >= bpe_size(bpe) || pair.right >= bpe_size(bpe))
    return "must be of tokens that come before it";
  if (bpe_size(bpe) == INT32_MAX) return "exceeds the number of ids";
  bpe_token(bpe, pair.left, &left);
  bpe_token(bpe, pair.right, &right);
  if (left + right > TOKEN_MAX_BYTES) return "makes a token of more than 256 bytes";
  if (pair_table_find(&bpe->merges, pair) >= 0) return "occurs twice";
  return NULL;
}

neap_status bpe_merge(struct bpe *bpe, struct pair pair) {
  const char *refusal = bpe_refusal(bpe, pair);
  RETURN_IF(refusal != NULL, NEAP_INVALID_ARGUMENT, "the merge of tokens %d and %d %s", pair.left, pair.right,
            refusal);
  size_t left, right;
  int32_t number;
  /* All room first, so that a failure changes nothing. */
  TRY(vector_reserve(&bpe->spelling, bpe->spelling.count + TOKEN_MAX_BYTES));
  TRY(vector_reserve(&bpe->ends, bpe->ends.count + 1));
  TRY(pair_table_add(&bpe->merges, pair, &number));
  char *spelling = bpe->spelling.data + bpe->spelling.count;
  const char *first = bpe_token(bpe, pair.left, &left), *second = bpe_token(bpe, pair.right, &right);
  memcpy(spelling, first, left);
  memcpy(spelling + left, second, right);
  const size_t end = bpe->spelling.count += left + right;
  bpe->ends.data[bpe->ends.count++] = end;
  return NEAP_OK;
}

/* ---- Encoding ---- */

/* A token of the word that is encoded. */
struct piece {
  int32_t id, next, previous; /* id -1: part of the piece before it now; next, previous -1: none */
};

/* Two neighbours that can be merged, unless one of them has been merged since. */
struct meeting {
  int32_t merge, at; /* its number; the piece on the left */
};

struct span {
  size_t first, count;
};

struct encoder {
  const struct bpe *bpe;
  VECTOR(struct piece) pieces;
  VECTOR(struct meeting) meetings; /* a heap */
  struct word_table words;         /* seen so far, */
  VECTOR(struct span) spans;       /* and where in the result the tokens of each stand */
};

static bool meeting_before(const struct encoder *encoder, const struct meeting *a, const struct meeting *b) {
  (void)encoder;
  return a->merge != b->merge ? a->merge < b->merge : a->at < b->at;
}

DEFINE_HEAP(meeting, struct encoder, struct meeting)

static neap_status meet(struct encoder *e, int32_t at) {
  const struct piece *left = &e->pieces.data[at];
  if (left->next < 0) return NEAP_OK;
  const struct pair pair = {left->id, e->pieces.data[left->next].id};
  const int32_t merge = pair_table_find(&e->bpe->merges, pair);
  if (merge < 0) return NEAP_OK;
  TRY(vector_push(&e->meetings, (struct meeting){merge, at}));
  meeting_rise(e, e->meetings.data, e->meetings.count);
  return NEAP_OK;
}

static neap_status merge_pieces(struct encoder *e, struct meeting meeting) {
  struct piece *pieces = e->pieces.data, *left = &pieces[meeting.at];
  const struct pair pair = e->bpe->merges.pairs.data[meeting.merge];
  if (left->id != pair.left || left->next < 0 || pieces[left->next].id != pair.right) return NEAP_OK;
  struct piece *right = &pieces[left->next];
  left->id = BYTE_TOKENS + meeting.merge;
  left->next = right->next;
  right->id = -1;
  if (left->next >= 0) pieces[left->next].previous = meeting.at;
  if (left->previous >= 0) TRY(meet(e, left->previous));
  return meet(e, meeting.at);
}

static neap_status encode_word(struct encoder *e, const char *bytes, size_t length, struct token_ids *ids) {
  RETURN_IF(length > INT32_MAX, NEAP_TOO_LARGE, "a word of the text has %zu bytes, at most %d", length,
            INT32_MAX);
  const int32_t count = (int32_t)length;
  TRY(vector_reserve(&e->pieces, length));
  for (int32_t i = 0; i < count; i++)
    e->pieces.data[i] = (struct piece){(unsigned char)bytes[i], i + 1 < count ? i + 1 : -1, i - 1};
  for (int32_t i = 0; i < count; i++) TRY(meet(e, i));
  while (e->meetings.count > 0) TRY(merge_pieces(e, meeting_take(e, e->meetings.data, &e->meetings.count)));
  for (int32_t i = 0; i >= 0; i = e->pieces.data[i].next) TRY(vector_push(ids, e->pieces.data[i].id));
  return NEAP_OK;
}

static neap_status encode_text(struct encoder *e, const char *bytes, size_t length, struct token_ids *ids) {
  for (size_t at = 0, size; at < length; at += size) {
    int32_t number;
    size = word_length(bytes + at, length - at);
    TRY(word_table_add(&e->words, bytes + at, size, &number));
    if ((size_t)number == e->spans.count) {
      const size_t first = ids->count;
      TRY(encode_word(e, bytes + at, size, ids));
      TRY(vector_push(&e->spans, (struct span){first, ids->count - first}));
      continue;
    }
    const struct span span = e->spans.data[number];
    TRY(vector_reserve(ids, ids->count + span.count));
    memcpy(ids->data + ids->count, ids->data + span.first, span.count * sizeof *ids->data);
    ids->count += span.count;
  }
  return NEAP_OK;
}

neap_status bpe_encode(const struct bpe *bpe, const char *bytes, size_t length, struct token_ids *ids) {
  struct encoder encoder = {.bpe = bpe};
  const size_t before = ids->count;
  const neap_status status = encode_text(&encoder, bytes, length, ids);
  if (status != NEAP_OK) ids->count = before;
  vector_free(&encoder.pieces);
  vector_free(&encoder.meetings);
  vector_free(&encoder.spans);
  word_table_free(&encoder.words);
  return status;
}
