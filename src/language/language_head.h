/* The heads of encoders: a classifier of texts, or a sentence's vector as in files of
 * sentence-transformers. */
#ifndef NEAP_LANGUAGE_LANGUAGE_HEAD_H
#define NEAP_LANGUAGE_LANGUAGE_HEAD_H

#include "language/families.h"
#include "task/task.h"

struct language_head {
  neap_head own;             /* the file's */
  struct task_labels labels; /* of its classifier */
  enum stack_head vector;    /* how a sentence's is made: STACK_MEAN or STACK_FIRST */
  bool unit;                 /* it is scaled to a length of 1 */
  int64_t longest;           /* the most tokens of a text; 0: not in the file */
};

/* Returns true if models of a family can have other heads than that of their tokens. */
bool family_is_encoder(const struct family *family);

/* Reads the classifier from config.json, and a sentence's vector from the files modules.json,
 * 1_Pooling/config.json and sentence_bert_config.json of a folder, if they exist. `has_tokens`: the file has
 * the weights of the family's head of tokens. Names are in the region. NEAP_UNSUPPORTED: the file asks for
 * something that is not computed here; the message names file and field. NEAP_BAD_FORMAT: a field is
 * invalid. */
neap_status language_head_read(const struct model_keys *keys, const struct family *family, bool has_tokens,
                               struct region *region, struct language_head *head);

/* Reads from preprocessor_config.json of a folder how bytes of `channels` channels are normalised; zeros: the
 * file does not exist. NEAP_BAD_FORMAT: it is invalid. */
neap_status language_head_pixels(const struct model_keys *keys, int64_t channels, struct region *region,
                                 struct task_pixels *pixels);

/* Gives the stack the head of the options, and leaves out the layers of others. NEAP_INVALID_ARGUMENT: the
 * family does not have it. */
neap_status language_head_settle(const char *path, const struct language_head *head,
                                 const struct family *family, const neap_model_options *options,
                                 struct transformer *t);

/* Adds the labels of a classifier to config.json. Returns false if memory is out or a name is not UTF-8. */
bool language_head_describe(json_t *config, const struct family *family, const struct task_labels *labels);

#endif
