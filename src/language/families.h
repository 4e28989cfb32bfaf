/* Families of language models: reads their files' descriptions, and has the names of their weights. */
#ifndef NEAP_LANGUAGE_FAMILIES_H
#define NEAP_LANGUAGE_FAMILIES_H

#include "language/model_keys.h"
#include "zoo/transformer.h"

struct family {
  const char *model_type;       /* in config.json */
  const char *architecture;     /* in a GGUF file; the first family that has it is used; NULL: no such file */
  const char *class_name;       /* in transformers */
  const char *classifier_class; /* of its classifier of texts there; NULL: it has none */
  const char *prefix;           /* of names in a folder, which some files leave out; NULL: none */
  struct transformer layers;    /* the fixed properties, with the names of weights in a folder */
  const char *gguf_names[PARTS]; /* the same in a GGUF file, with %d for the number of a block */
  neap_task kind;
  bool transposed;  /* folder: matrices of the blocks are [in, out] */
  bool permuted;    /* GGUF: rows of the two halves of each head of queries and keys alternate */
  bool norm_less;   /* folder: norms multiply by 1 + weight */
  bool part_turned; /* rotary positions may turn a part of each head */
  bool short_keys;  /* config.json: fields are n_embd, n_layer and so on */
  /* Sets properties beyond the common fields; may be NULL. */
  neap_status (*settle)(const struct model_keys *keys, struct transformer *t);
};

/* Finds the family of a file, and describes the model. NEAP_UNSUPPORTED: another family, or something that is
 * not computed here; the message names the file, the field and the supported values. NEAP_BAD_FORMAT: a field
 * is missing or not a valid number. `context`: the most tokens that the model was trained on. */
neap_status family_describe(const struct model_keys *keys, const struct family **family,
                            struct transformer *t, int64_t *context);

#endif
