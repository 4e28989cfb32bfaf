/* The fields of a description that all families of language models have: sizes, activation, rotary positions
 * and images. Readers and writers of descriptions share their names. */
#ifndef NEAP_LANGUAGE_FAMILY_FIELDS_H
#define NEAP_LANGUAGE_FAMILY_FIELDS_H

#include "language/model_keys.h"
#include "zoo/transformer.h"

enum { SIZE_ROWS = 10, ACTIVATION_ROWS = 6 };

extern const struct size_row {
  struct key key;
  size_t place; /* in struct transformer */
  int64_t most;
  bool needed;
} size_rows[SIZE_ROWS];

/* Names of activations; the first of each activation is the one written to config.json. */
extern const struct activation_row {
  const char *name;
  enum activation activation;
} activation_rows[ACTIVATION_ROWS];

neap_status fields_read_sizes(const struct model_keys *keys, struct transformer *t);

/* Reads the activation that the file names; a family without such a field has its own. */
neap_status fields_read_activation(const struct model_keys *keys, struct transformer *t);

/* Reads the reach of rotary positions: config.json has it under one of two names, and the base may be in the
 * same object. `part`: they may turn a part of each head. */
neap_status fields_read_rotary(const struct model_keys *keys, bool part, struct transformer *t);

/* Reads the images of a model of images, and the number of their positions. */
neap_status fields_read_image(const struct model_keys *keys, struct transformer *t, int64_t *context);

int64_t width_of_head(const struct transformer *t);

/* Returns how many elements of a head rotary positions turn. */
int64_t turned_of_head(const struct transformer *t);

/* Returns the number by whose root Gemma 2's and 3's scores are divided. A GGUF file does not have it: it is
 * the width of a head, except in the largest models. */
int64_t implied_score_scalar(const struct transformer *t);

#endif
