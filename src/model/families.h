/* Families of language models: what their files say of them, and how their weights are called there. */
#ifndef NEAP_MODEL_FAMILIES_H
#define NEAP_MODEL_FAMILIES_H

#include <jansson.h>

#include "base/gguf.h"
#include "zoo/transformer.h"

/* What a model's file says of its structure: config.json of a folder, or the pairs of a GGUF file. */
struct model_keys {
  const char *path;         /* for messages */
  const json_t *config;     /* NULL: it is a GGUF file */
  const struct gguf *gguf;  /* NULL: it is a folder */
  const char *architecture; /* of a GGUF file: what its keys begin with */
};

struct family {
  const char *model_type; /* in config.json */
  const char
      *architecture; /* in a GGUF file, of which the first family that has it is read; NULL: no such file */
  const char *class_name;        /* that transformers has for it */
  const char *classifier_class;  /* and for its classifier of texts; NULL: it has no classifier */
  const char *prefix;            /* of names in a folder, which some files leave out; NULL: none does */
  struct transformer layers;     /* what is fixed, with the names of weights in a folder */
  const char *gguf_names[PARTS]; /* the same in a GGUF file, in which %d means the number of a block */
  enum task_kind kind;
  bool transposed; /* folder: matrices of the blocks are [in, out] */
  bool permuted;   /* GGUF: the two halves of heads of queries and keys lie row by row beside each other */
  bool norm_less;  /* folder: norms multiply by 1 + weight */
  bool short_keys; /* config.json: fields are n_embd, n_layer and so on */
  /* What follows from the file beyond the common fields; may be NULL. */
  neap_status (*settle)(const struct model_keys *keys, struct transformer *t);
};

/* The family that the file is of, and its description. NEAP_UNSUPPORTED: it is of another one, or asks for
 * something that is not computed here; the message names the file, the field and what is read.
 * NEAP_BAD_FORMAT: a field is missing or is no such number. `context` is the most tokens that the model was
 * trained on. */
neap_status family_describe(const struct model_keys *keys, const struct family **family,
                            struct transformer *t, int64_t *context);

/* The config.json that describes such a model, for the caller to free with json_decref; NULL: out of memory.
 * `type`: of its weights, as "float32". */
json_t *family_config(const struct family *family, const struct transformer *t, int64_t context,
                      const char *type);

/* Adds the pairs that describe such a model in a GGUF file; keys are the region's. `architecture` is the
 * family's. NEAP_UNSUPPORTED: such a file has no place for what the model has. */
neap_status family_pairs(const char *architecture, const struct transformer *t, int64_t context,
                         struct region *region, struct gguf_pairs *pairs);

#endif
