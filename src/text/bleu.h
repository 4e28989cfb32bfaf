/* BLEU of a corpus (Papineni, Roukos, Ward, Zhu 2002), counted as sacreBLEU 2 does (Post 2018): n-grams of 1
 * to 4 words, one reference, case kept, and smoothing "exp" (method 3 of Chen and Cherry 2014). */
#ifndef NEAP_TEXT_BLEU_H
#define NEAP_TEXT_BLEU_H

#include <stdint.h>

#include "base/status.h"

enum { BLEU_ORDERS = 4 };

enum bleu_tokenization {
  BLEU_13A,  /* punctuation apart, as in mteval-v13a.pl: for ordinary texts */
  BLEU_NONE, /* only at white space: for tokenized texts */
};

struct bleu {
  double score;                   /* 0 to 100 */
  double precisions[BLEU_ORDERS]; /* of n-grams of order 1, 2, ..., smoothed, 0 to 100 */
  double brevity;                 /* the penalty, a factor of 0 to 1 */
  int64_t matches[BLEU_ORDERS], totals[BLEU_ORDERS];
  int64_t hypothesis_length, reference_length; /* words */
};

/* Scores a corpus: segment i of the hypotheses is a translation, segment i of the references the right one.
 * NEAP_INVALID_ARGUMENT: there are no segments. NEAP_BAD_FORMAT: one is not UTF-8. */
neap_status bleu_corpus(const char *const *hypotheses, const char *const *references, size_t count,
                        enum bleu_tokenization tokenization, struct bleu *out);

#endif
