/* Normalizers: what a text becomes before it is split. */
#ifndef NEAP_TEXT_NORMALIZER_H
#define NEAP_TEXT_NORMALIZER_H

#include "text/step.h"

/* BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Prepend, Replace, Strip, StripAccents. */
extern const struct step_family normalizers;

/* The text after all steps, in one of the buffers or, without any, as it was. */
neap_status normalise(const struct steps *steps, struct matcher *matcher, const struct passage *in,
                      struct passage_buffer buffers[2], struct passage *out);

#endif
