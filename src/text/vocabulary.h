/* The pieces of text that have ids in a tokenizer of others. */
#ifndef NEAP_TEXT_VOCABULARY_H
#define NEAP_TEXT_VOCABULARY_H

#include "base/index.h"
#include "base/vector.h"

/* The pieces and their ids. A zeroed one is empty. */
struct vocabulary {
  VECTOR(char) bytes;    /* of all pieces, in the order in which they came */
  VECTOR(uint32_t) ends; /* of each in them */
  VECTOR(int32_t) ids;   /* of each */
  VECTOR(int32_t) by_id; /* the number of the piece with an id; -1: none */
  struct index index;    /* private: of the pieces */
  size_t longest;        /* bytes of the longest piece */
};

/* The most by which ids may exceed twice the number of pieces. */
enum { VOCABULARY_GAPS = 1 << 16 };

/* Adds a piece. NEAP_INVALID_ARGUMENT: it exists already. NEAP_TOO_LARGE: there are 4 GiB of them. */
neap_status vocabulary_add(struct vocabulary *v, const char *bytes, size_t length, int32_t id);

/* Indexes the ids when all pieces are added. NEAP_INVALID_ARGUMENT: an id is far above the others, or two
 * pieces have it. */
neap_status vocabulary_finish(struct vocabulary *v);

/* Returns the id of a piece; -1: none exists. */
int32_t vocabulary_find(const struct vocabulary *v, const char *bytes, size_t length);

/* Returns piece number i, in the order of adding, and its length. */
const char *vocabulary_piece(const struct vocabulary *v, size_t i, size_t *length);

/* Returns the piece of an id; NULL: none. */
const char *vocabulary_of_id(const struct vocabulary *v, int32_t id, size_t *length);

/* Returns one more than the highest id. */
static inline int32_t vocabulary_size(const struct vocabulary *v) { return (int32_t)v->by_id.count; }

void vocabulary_free(struct vocabulary *v);

#endif
