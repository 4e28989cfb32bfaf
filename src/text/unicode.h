/* Classes and mappings of Unicode's characters, as the tokenizers of others use them. */
#ifndef NEAP_TEXT_UNICODE_H
#define NEAP_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* White_Space. */
bool unicode_is_space(uint32_t code);
/* Categories Nd, Nl and No. */
bool unicode_is_number(uint32_t code);

/* Classes of Unicode 8, which PyPI's `tokenizers` has stayed with: ASCII's punctuation and symbols and the
 * categories P; Mn; M; and Cc, Cf and Co but tab, line feed and carriage return. */
bool unicode_is_punctuation(uint32_t code);
bool unicode_is_nonspacing_mark(uint32_t code);
bool unicode_is_mark(uint32_t code);
bool unicode_is_control(uint32_t code);

/* Characters that `tokenizers` leaves as they are in every normal form, and takes for no mark there: they
 * came with Unicode 9 and later. */
bool unicode_is_without_form(uint32_t code);

/* The ideographs that BERT sets apart: blocks that its authors listed. */
bool unicode_is_ideograph(uint32_t code);

enum { LOWER_CASE_MOST = 2 };

/* The lower case of one character, without regard to what is beside it; gives how many code points it has. */
size_t unicode_lower_case(uint32_t code, uint32_t lower[LOWER_CASE_MOST]);

#endif
