/* Classes and mappings of Unicode's characters, as the tokenizers of others use them. */
#ifndef NEAP_TEXT_UNICODE_H
#define NEAP_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Tests for White_Space. */
bool unicode_is_space(uint32_t code);
/* Tests for the categories Nd, Nl and No. */
bool unicode_is_number(uint32_t code);

/* Test for classes of Unicode 8, which PyPI's `tokenizers` still uses: ASCII's punctuation and symbols and
 * the categories P; Mn; M; and Cc, Cf and Co except tab, line feed and carriage return. */
bool unicode_is_punctuation(uint32_t code);
bool unicode_is_nonspacing_mark(uint32_t code);
bool unicode_is_mark(uint32_t code);
bool unicode_is_control(uint32_t code);

/* Tests for characters of Unicode 9 and later: `tokenizers` leaves them unchanged in every normal form, and
 * does not treat them as marks there. */
bool unicode_is_without_form(uint32_t code);

/* Tests for the ideographs that BERT separates: blocks that its authors listed. */
bool unicode_is_ideograph(uint32_t code);

enum { LOWER_CASE_MOST = 2 };

/* Gives the lower case of one character, whatever its neighbours; returns the number of code points. */
size_t unicode_lower_case(uint32_t code, uint32_t lower[LOWER_CASE_MOST]);

#endif
