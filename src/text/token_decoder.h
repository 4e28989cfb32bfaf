/* Decoders: make text of the pieces that tokens mean. */
#ifndef NEAP_TEXT_TOKEN_DECODER_H
#define NEAP_TEXT_TOKEN_DECODER_H

#include "text/step.h"

/* Texts, one after the other. */
struct pieces {
  VECTOR(char) bytes;
  VECTOR(size_t) ends; /* of each text in them */
  size_t most;         /* bytes that they may have; 0: any number */
};

/* BPEDecoder, ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Strip, WordPiece. */
extern const struct step_family token_decoders;

/* Appends a text. */
neap_status pieces_add(struct pieces *pieces, const char *bytes, size_t length);
void pieces_clear(struct pieces *pieces);
void pieces_free(struct pieces *pieces);

/* Runs all steps; the input is in pieces[0], and `*made` points to the result. Without steps pieces are
 * joined by spaces. */
neap_status decode_pieces(const struct steps *steps, struct matcher *matcher, struct pieces pieces[2],
                          const struct pieces **made);

#endif
