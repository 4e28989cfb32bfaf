#include "language/model_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Reading ---- */

/* Finds a field of config.json by one of its names, "a|b|object.c"; NULL: it has none, or it is null. */
static const json_t *find_in_config(const json_t *config, const char *names) {
  char name[64];
  const json_t *value = config;
  while (*names != '\0') {
    const size_t length = strcspn(names, ".|");
    snprintf(name, sizeof name, "%.*s", (int)length, names);
    value = json_object_get(value, name);
    names += length;
    if (*names != '.' && value != NULL && !json_is_null(value)) return value;
    if (*names != '.') value = config;
    names += *names != '\0';
  }
  return NULL;
}

static void note(const struct model_keys *keys, const char *name) {
  struct asked_keys *asked = keys->asked;
  for (int i = 0; asked != NULL && i < asked->count; i++)
    if (asked->names[i] == name || strcmp(asked->names[i], name) == 0) return;
  if (asked != NULL && asked->count < ASKED_KEYS) asked->names[asked->count++] = name;
}

const json_t *keys_find(const struct model_keys *keys, const char *names) {
  note(keys, names);
  return find_in_config(keys->config, names);
}

const char *key_text(const struct model_keys *keys, struct key key, char text[128]) {
  if (keys->config != NULL)
    snprintf(text, 128, "config.json: '%s'", key.config);
  else
    snprintf(text, 128, "'%s.%s'", keys->architecture, key.gguf);
  return text;
}

bool keys_integer(const struct model_keys *keys, struct key key, int64_t *value) {
  char name[128];
  if (keys->config != NULL) {
    const json_t *field = key.config != NULL ? keys_find(keys, key.config) : NULL;
    if (!json_is_integer(field)) return false;
    *value = json_integer_value(field);
    return true;
  }
  if (key.gguf == NULL) return false;
  note(keys, key.gguf);
  snprintf(name, sizeof name, "%s.%s", keys->architecture, key.gguf);
  return gguf_integer(keys->gguf, name, value);
}

bool keys_real(const struct model_keys *keys, struct key key, double *value) {
  char name[128];
  if (keys->config != NULL) {
    const json_t *field = key.config != NULL ? keys_find(keys, key.config) : NULL;
    if (!json_is_number(field)) return false;
    *value = json_number_value(field);
    return true;
  }
  if (key.gguf == NULL) return false;
  note(keys, key.gguf);
  snprintf(name, sizeof name, "%s.%s", keys->architecture, key.gguf);
  return gguf_real(keys->gguf, name, value);
}

float keys_real_or(const struct model_keys *keys, struct key key, float usual) {
  double value;
  return keys_real(keys, key, &value) ? (float)value : usual;
}

const char *keys_text(const struct model_keys *keys, struct key key) {
  char name[128];
  if (keys->config != NULL) return key.config != NULL ? json_string_value(keys_find(keys, key.config)) : NULL;
  if (key.gguf == NULL) return NULL;
  note(keys, key.gguf);
  snprintf(name, sizeof name, "%s.%s", keys->architecture, key.gguf);
  return gguf_text(keys->gguf, name);
}

bool keys_flag(const struct model_keys *keys, const char *name, bool usual) {
  const json_t *field = keys->config != NULL ? keys_find(keys, name) : NULL;
  return field == NULL ? usual : json_is_true(field);
}

/* ---- Keys with one value ---- */

/* Keys that change what a model computes, and the one value that is computed: of config.json by what the
 * family's class in transformers reads, of a GGUF file by what llama.cpp reads. A key that is missing has
 * that value. */
static const struct fixed_key {
  const char *families; /* "a b"; NULL: all */
  struct key key;
  double value;
} fixed_keys[] = {
    {"qwen3 qwen3_moe gemma gemma2 gemma3_text olmo2 olmoe", {"attention_bias", NULL}, 0},
    {"qwen2 qwen3 qwen3_moe smollm3", {"use_sliding_window", NULL}, 0},
    {"gemma gemma2 gemma3_text", {"use_bidirectional_attention", NULL}, 0},
    {"bert", {"is_decoder", NULL}, 0},
    {"bert gpt2", {"add_cross_attention", NULL}, 0},
    {"bert longformer", {"tie_word_embeddings", NULL}, 1},
    {"gpt2", {"scale_attn_weights", NULL}, 1},
    {"gpt2", {"scale_attn_by_inverse_layer_idx", NULL}, 0},
    {"opt", {"enable_bias", NULL}, 1},
    {"opt", {"layer_norm_elementwise_affine", NULL}, 1},
    {"llama qwen2 qwen3 gemma gemma2 gemma3_text smollm3 phi3 olmo2", {NULL, "expert_count"}, 0},
    {NULL, {NULL, "attention.causal"}, 1},
    {NULL, {NULL, "attention.scale"}, 0},
    {NULL, {NULL, "attention.clamp_kqv"}, 0},
    {NULL, {NULL, "attention.max_alibi_bias"}, 0},
    {"llama mistral mixtral qwen2 qwen3 qwen3_moe gemma gemma2 gemma3_text smollm3 olmo2 olmoe",
     {NULL, "rope.scaling.attn_factor"},
     1},
    {NULL, {NULL, "embedding_scale"}, 0},
    {NULL, {NULL, "residual_scale"}, 0},
    {NULL, {NULL, "logit_scale"}, 0},
};

static bool has_word(const char *words, const char *word) {
  const size_t length = strlen(word);
  for (const char *at = words; at != NULL && *at != '\0'; at += strcspn(at, " "), at += *at == ' ')
    if (strcspn(at, " ") == length && strncmp(at, word, length) == 0) return true;
  return false;
}

/* Gives a key's value as a number, and as text; false: it is missing, null or no number. */
static bool value_of(const struct model_keys *keys, struct key key, double *value, char text[32]) {
  if (keys->config == NULL) {
    char name[128];
    bool flag;
    if (keys_real(keys, key, value)) {
      snprintf(text, 32, "%g", *value);
      return true;
    }
    snprintf(name, sizeof name, "%s.%s", keys->architecture, key.gguf);
    if (!gguf_bool(keys->gguf, name, &flag)) return false;
    *value = flag;
    snprintf(text, 32, "%s", flag ? "true" : "false");
    return true;
  }
  const json_t *field = keys_find(keys, key.config);
  if (!json_is_number(field) && !json_is_boolean(field)) return false;
  *value = json_is_number(field) ? json_number_value(field) : (double)json_is_true(field);
  if (json_is_boolean(field))
    snprintf(text, 32, "%s", json_is_true(field) ? "true" : "false");
  else
    snprintf(text, 32, "%g", *value);
  return true;
}

neap_status keys_check_fixed(const struct model_keys *keys, const char *family) {
  for (size_t i = 0; i < sizeof fixed_keys / sizeof *fixed_keys; i++) {
    const struct fixed_key *row = &fixed_keys[i];
    char name[128], text[32];
    double value;
    if ((keys->config != NULL ? row->key.config : row->key.gguf) == NULL) continue;
    if ((row->families != NULL && !has_word(row->families, family)) ||
        !value_of(keys, row->key, &value, text) || value == row->value)
      continue;
    const bool flag = text[0] == 't' || text[0] == 'f';
    RETURN_IF(flag, NEAP_UNSUPPORTED, "%s: %s is %s; only %s is supported", keys->path,
              key_text(keys, row->key, name), text, row->value != 0 ? "true" : "false");
    return neap_fail(NEAP_UNSUPPORTED, "%s: %s is %s; only %g is supported", keys->path,
                     key_text(keys, row->key, name), text, row->value);
  }
  return NEAP_OK;
}

/* ---- Keys that nobody asked for ---- */

/* Keys that other code reads, or that do not affect the network. */
static const char silent[] =
    "architectures model_type torch_dtype dtype transformers_version _name_or_path use_cache auto_map "
    "initializer_range id2label label2id num_labels problem_type quantization_config chat_template "
    "bos_token_id eos_token_id pad_token_id unk_token_id sep_token_id mask_token_id _attn_implementation "
    "max_position_embeddings n_positions n_ctx output_attentions output_hidden_states return_dict "
    "tie_word_embeddings block_count context_length vocab_size";

/* Returns true if a name, or a field of the object `within`, was asked for. */
static bool was_asked(const struct model_keys *keys, const char *within, const char *name) {
  char whole[192];
  snprintf(whole, sizeof whole, "%s%s%s", within, within[0] != '\0' ? "." : "", name);
  const size_t length = strlen(whole);
  for (int i = 0; i < keys->asked->count; i++)
    for (const char *at = keys->asked->names[i]; *at != '\0'; at += strcspn(at, "|"), at += *at == '|')
      if (strncmp(at, whole, length) == 0 &&
          (at[length] == '\0' || at[length] == '|' || (within[0] != '\0' && at[length] == '.')))
        return true;
  return false;
}

static neap_status tell(struct region *region, struct understood *understood, const char *within,
                        const char *name, const char *value) {
  char why[64];
  const char *object = region_format(region, "%s%s%s", within, within[0] != '\0' ? "." : "", name);
  RETURN_IF(object == NULL, NEAP_OUT_OF_MEMORY, "out of memory for the keys of a model");
  snprintf(why, sizeof why, "%s", value != NULL ? value : "");
  return understood_add(
      understood, region,
      (neap_understood){object, "keys of the model not used", -1, value != NULL ? why : NULL});
}

static neap_status tell_object(const struct model_keys *keys, const json_t *object, const char *within,
                               struct region *region, struct understood *understood) {
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)object, name, value) {
    if (json_is_null(value) || (within[0] == '\0' && has_word(silent, name)) || was_asked(keys, within, name))
      continue;
    if (json_is_object(value) && within[0] == '\0') {
      TRY(tell_object(keys, value, name, region, understood));
      continue;
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    const neap_status status =
        text != NULL ? tell(region, understood, within, name, text)
                     : neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory for its keys", keys->path);
    free(text);
    TRY(status);
  }
  return NEAP_OK;
}

neap_status keys_tell_unused(const struct model_keys *keys, struct region *region,
                             struct understood *understood) {
  if (keys->config != NULL) return tell_object(keys, keys->config, "", region, understood);
  const size_t length = strlen(keys->architecture);
  for (int32_t i = 0; i < keys->gguf->pair_count; i++) {
    const char *key = keys->gguf->pairs[i].key, *name = key + length + 1;
    if (strncmp(key, keys->architecture, length) != 0 || key[length] != '.') continue;
    if (!has_word(silent, name) && !was_asked(keys, "", name)) TRY(tell(region, understood, "", name, NULL));
  }
  return NEAP_OK;
}
