/* What stands on the stack of an encoder: a classifier of texts, or a sentence's vector as the files of
 * sentence-transformers have it. */
#ifndef NEAP_MODEL_LANGUAGE_HEAD_H
#define NEAP_MODEL_LANGUAGE_HEAD_H

#include "graph/task.h"
#include "model/families.h"

struct language_head {
  neap_head own;             /* the file's */
  struct task_labels labels; /* of its classifier */
  enum stack_head vector;    /* how a sentence's is made: STACK_MEAN or STACK_FIRST */
  bool unit;                 /* it is scaled to a length of 1 */
  int64_t longest;           /* tokens that are taken of a text; 0: the file does not say it */
};

/* Whether models of a family can have other heads than that of their tokens. */
bool family_is_encoder(const struct family *family);

/* What config.json says of the classifier, and the files modules.json, 1_Pooling/config.json and
 * sentence_bert_config.json of a folder, where they are there, of a sentence's vector. `has_tokens`: the file
 * has the weights of the family's head of tokens. Names lie in the region. NEAP_UNSUPPORTED: the file asks
 * for something that is not computed here; the message names file and field. NEAP_BAD_FORMAT: a field is
 * wrong. */
neap_status language_head_read(const struct model_keys *keys, const struct family *family, bool has_tokens,
                               struct region *region, struct language_head *head);

/* What preprocessor_config.json of a folder makes of bytes of `channels` channels; zeros: the file is not
 * there. NEAP_BAD_FORMAT: it is wrong. */
neap_status language_head_pixels(const struct model_keys *keys, int64_t channels, struct region *region,
                                 struct task_pixels *pixels);

/* Gives the stack the head that the options ask for, and leaves out the layers of others.
 * NEAP_INVALID_ARGUMENT: the family does not have it. */
neap_status language_head_settle(const char *path, const struct language_head *head,
                                 const struct family *family, const neap_model_options *options,
                                 struct transformer *t);

/* Has config.json say of a classifier what it tells apart. False: out of memory, or a name is not UTF-8. */
bool language_head_describe(json_t *config, const struct family *family, const struct task_labels *labels);

#endif
