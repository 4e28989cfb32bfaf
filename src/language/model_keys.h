/* The keys of a model's description: config.json of a folder, or the pairs of a GGUF file. Readers ask for
 * keys by name; which ones they asked for is kept, so that the others can be told. */
#ifndef NEAP_LANGUAGE_MODEL_KEYS_H
#define NEAP_LANGUAGE_MODEL_KEYS_H

#include <jansson.h>

#include "base/understood.h"
#include "formats/gguf.h"

enum { ASKED_KEYS = 192 };

/* The names that were asked for; names of keys are constants. */
struct asked_keys {
  const char *names[ASKED_KEYS];
  int count;
};

struct model_keys {
  const char *path;         /* for messages */
  struct region *region;    /* of what is read */
  const json_t *config;     /* NULL: a GGUF file */
  const struct gguf *gguf;  /* NULL: a folder */
  const char *architecture; /* in a GGUF file: the beginning of its keys */
  struct asked_keys *asked; /* NULL: they are not kept */
};

/* A field's names in config.json, "a|b|object.c", and its key in a GGUF file after the architecture (NULL:
 * none). */
struct key {
  const char *config, *gguf;
};

/* Finds a field of config.json by one of its names; NULL: it has none, or it is null. */
const json_t *keys_find(const struct model_keys *keys, const char *names);

/* "config.json: 'hidden_size'", or "'llama.embedding_length'". */
const char *key_text(const struct model_keys *keys, struct key key, char text[128]);

/* Return false, NULL or the usual value if the description does not have the key. */
bool keys_integer(const struct model_keys *keys, struct key key, int64_t *value);
bool keys_real(const struct model_keys *keys, struct key key, double *value);
float keys_real_or(const struct model_keys *keys, struct key key, float usual);
const char *keys_text(const struct model_keys *keys, struct key key);
bool keys_flag(const struct model_keys *keys, const char *name, bool usual);

/* Fails with NEAP_UNSUPPORTED if a key that changes what a model of this family computes has another value
 * than the one that is computed. `family`: its model_type in config.json. */
neap_status keys_check_fixed(const struct model_keys *keys, const char *family);

/* Adds a row for each key of the description that nobody asked for, but those that say nothing of what the
 * network computes. Texts are copied to the region. */
neap_status keys_tell_unused(const struct model_keys *keys, struct region *region,
                             struct understood *understood);

#endif
