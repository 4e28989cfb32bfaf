/* Normalizers: change a text before it is split. */
#ifndef NEAP_TEXT_NORMALIZER_H
#define NEAP_TEXT_NORMALIZER_H

#include "text/step.h"

/* BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, Prepend, Replace, Strip,
 * StripAccents. */
extern const struct step_family normalizers;

/* Gives the text after all steps, in one of the buffers or, without steps, as it was. */
neap_status normalise(const struct steps *steps, struct matcher *matcher, const struct passage *in,
                      struct passage_buffer buffers[2], struct passage *out);

#endif
