/* The normalisation forms of Unicode (UAX 15), as PyPI's `tokenizers` computes them:
 * unicode_is_without_form. */
#ifndef NEAP_TEXT_UNICODE_FORM_H
#define NEAP_TEXT_UNICODE_FORM_H

#include "text/passage.h"

enum unicode_form { FORM_NFC, FORM_NFD, FORM_NFKC, FORM_NFKD };

/* Appends the normalised form of a text. */
neap_status unicode_normalise(enum unicode_form form, const struct passage *in, struct passage_buffer *out);

#endif
