#include "model/families.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Fields of every family ---- */

static const struct field_row {
  struct key key;
  size_t place; /* in struct transformer */
  int64_t most;
  bool needed;
} sizes[] = {
    {{"num_hidden_layers|n_layer", "block_count"}, offsetof(struct transformer, layers), 1 << 12, true},
    {{"hidden_size|n_embd", "embedding_length"}, offsetof(struct transformer, width), 1 << 20, true},
    {{"num_attention_heads|n_head", "attention.head_count"},
     offsetof(struct transformer, heads),
     1 << 14,
     true},
    {{"num_key_value_heads", "attention.head_count_kv"},
     offsetof(struct transformer, key_heads),
     1 << 14,
     false},
    {{"head_dim", "attention.key_length"}, offsetof(struct transformer, head_width), 1 << 16, false},
    {{"intermediate_size|n_inner|ffn_dim", "feed_forward_length"},
     offsetof(struct transformer, hidden),
     1 << 22,
     false},
    {{"num_local_experts|num_experts", "expert_count"},
     offsetof(struct transformer, experts),
     1 << 16,
     false},
    {{"num_experts_per_tok", "expert_used_count"},
     offsetof(struct transformer, experts_used),
     1 << 16,
     false},
    {{"moe_intermediate_size", "expert_feed_forward_length"},
     offsetof(struct transformer, expert_hidden),
     1 << 22,
     false},
    {{"vocab_size", "vocab_size"}, offsetof(struct transformer, vocabulary), 1 << 24, false},
};

static neap_status read_sizes(const struct model_keys *keys, struct transformer *t) {
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const struct field_row *row = &sizes[i];
    char name[128];
    int64_t value;
    if (!keys_integer(keys, row->key, &value)) {
      RETURN_IF(row->needed, NEAP_BAD_FORMAT, "%s: %s is missing, or not an integer", keys->path,
                key_text(keys, row->key, name));
      continue;
    }
    if (keys->config == NULL && value == 0 && !row->needed) continue; /* in a GGUF file: none */
    RETURN_IF(value < 1 || value > row->most, NEAP_BAD_FORMAT, "%s: %s is %lld; it must be 1 to %lld",
              keys->path, key_text(keys, row->key, name), (long long)value, (long long)row->most);
    memcpy((char *)t + row->place, &value, sizeof value);
  }
  if (t->key_heads == 0) t->key_heads = t->heads;
  if (t->hidden == 0) t->hidden = 4 * t->width;
  return NEAP_OK;
}

/* Names of activations; the first of each activation is the one written to config.json. */
static const struct {
  const char *name;
  enum activation activation;
} activations[] = {{"silu", ACTIVATION_SILU},          {"swish", ACTIVATION_SILU},
                   {"gelu", ACTIVATION_GELU},          {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH},
                   {"gelu_new", ACTIVATION_GELU_TANH}, {"relu", ACTIVATION_RELU}};
enum { ACTIVATIONS = sizeof activations / sizeof *activations };

/* Reads the activation that the file names; a family without such a field has its own. */
static neap_status read_activation(const struct model_keys *keys, struct transformer *t) {
  const char *name = keys_text(keys, (struct key){"hidden_activation|hidden_act|activation_function", NULL});
  if (name == NULL) return NEAP_OK;
  for (int i = 0; i < ACTIVATIONS; i++)
    if (strcmp(activations[i].name, name) == 0) {
      t->activation = activations[i].activation;
      return NEAP_OK;
    }
  return neap_fail(NEAP_UNSUPPORTED,
                   "%s: config.json: the activation is '%s'; silu, gelu, gelu_new, gelu_pytorch_tanh and "
                   "relu are supported",
                   keys->path, name);
}

static float real_or(const struct model_keys *keys, struct key key, float usual) {
  double value;
  return keys_real(keys, key, &value) ? (float)value : usual;
}

#define SCALING(field)                                                                                       \
  "rope_scaling." field "|rope_parameters." field "|rope_parameters.full_attention." field

static int64_t head_of(const struct transformer *t) {
  return t->head_width > 0 ? t->head_width : t->width / t->heads;
}

static int64_t turned_of(const struct transformer *t) { return t->turned > 0 ? t->turned : head_of(t); }

/* Reads a list of divisors from config.json, one for each pair of elements that are turned. */
static neap_status read_divisors(const struct model_keys *keys, const char *names, int64_t pairs,
                                 const float **divisors) {
  const json_t *list = keys_find(keys, names), *one;
  float *numbers = region_alloc(keys->region, (size_t)pairs, sizeof *numbers);
  size_t i;
  RETURN_IF(numbers == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", keys->path);
  RETURN_IF(!json_is_array(list) || json_array_size(list) != (size_t)pairs, NEAP_BAD_FORMAT,
            "%s: config.json: '%s' must be a list of %lld numbers, one for each pair that is turned",
            keys->path, names, (long long)pairs);
  json_array_foreach(list, i, one) {
    numbers[i] = (float)json_number_value(one);
    RETURN_IF(!(numbers[i] > 0 && isfinite(numbers[i])), NEAP_BAD_FORMAT,
              "%s: config.json: '%s' has %g; its numbers must be positive", keys->path, names,
              (double)numbers[i]);
  }
  *divisors = numbers;
  return NEAP_OK;
}

/* Reads LongRoPE's scaling from config.json. */
static neap_status read_long_rope(const struct model_keys *keys, struct transformer *t) {
  static const char places[] =
      "original_max_position_embeddings|" SCALING("original_max_position_embeddings");
  const int64_t pairs = turned_of(t) / 2;
  int64_t longest = 0;
  TRY(read_divisors(keys, SCALING("short_factor"), pairs, &t->divisors.within));
  TRY(read_divisors(keys, SCALING("long_factor"), pairs, &t->divisors.beyond));
  keys_integer(keys, (struct key){"max_position_embeddings", NULL}, &longest);
  RETURN_IF(!keys_integer(keys, (struct key){places, NULL}, &t->divisors.places) || t->divisors.places < 2,
            NEAP_BAD_FORMAT,
            "%s: config.json: 'original_max_position_embeddings' is missing, or not a number of 2 or more",
            keys->path);
  const double factor = (double)real_or(keys, (struct key){SCALING("factor"), NULL},
                                        (float)longest / (float)t->divisors.places),
               usual = factor > 1 ? sqrt(1 + log(factor) / log((double)t->divisors.places)) : 1;
  t->scaling.amplitude = real_or(keys, (struct key){SCALING("attention_factor"), NULL}, (float)usual);
  RETURN_IF(!(t->scaling.amplitude > 0 && isfinite(t->scaling.amplitude)), NEAP_BAD_FORMAT,
            "%s: config.json: 'attention_factor' is %g; it must be positive", keys->path,
            (double)t->scaling.amplitude);
  return NEAP_OK;
}

/* Reads the scaling of rotary positions, by a `kind` that config.json or the GGUF file names. */
static neap_status read_scaling(const struct model_keys *keys, const char *kind, struct transformer *t) {
  if (strcmp(kind, "longrope") == 0 || strcmp(kind, "su") == 0)
    return keys->config != NULL ? read_long_rope(keys, t) : NEAP_OK; /* tensors have a GGUF file's */
  RETURN_IF(strcmp(kind, "linear") != 0 && strcmp(kind, "llama3") != 0, NEAP_UNSUPPORTED,
            "%s: rotary positions are scaled by '%s'; linear, llama3 and longrope are supported", keys->path,
            kind);
  t->scaling.factor = real_or(keys, (struct key){SCALING("factor"), "rope.scaling.factor"}, 0);
  RETURN_IF(!(t->scaling.factor > 0), NEAP_BAD_FORMAT,
            "%s: rotary positions are scaled by a factor of %g; it must be positive", keys->path,
            (double)t->scaling.factor);
  if (strcmp(kind, "linear") == 0) return NEAP_OK;
  t->scaling.low = real_or(keys, (struct key){SCALING("low_freq_factor"), NULL}, 1);
  t->scaling.high = real_or(keys, (struct key){SCALING("high_freq_factor"), NULL}, 4);
  t->scaling.places = 8192;
  keys_integer(
      keys, (struct key){SCALING("original_max_position_embeddings"), "rope.scaling.original_context_length"},
      &t->scaling.places);
  RETURN_IF(!(t->scaling.low > 0 && t->scaling.high > t->scaling.low) || t->scaling.places < 1,
            NEAP_BAD_FORMAT,
            "%s: rotary positions are scaled between %g and %g turns of %lld positions; the second number "
            "must be above the first",
            keys->path, (double)t->scaling.low, (double)t->scaling.high, (long long)t->scaling.places);
  return NEAP_OK;
}

/* Reads how much of each head rotary positions turn; all of it is 0. */
static neap_status read_turned(const struct model_keys *keys, bool part, struct transformer *t) {
  const float share =
      real_or(keys, (struct key){"partial_rotary_factor|rope_parameters.partial_rotary_factor", NULL}, 1);
  const int64_t head = head_of(t);
  int64_t turned = (int64_t)((double)head * (double)share);
  keys_integer(keys, (struct key){NULL, "rope.dimension_count"}, &turned);
  RETURN_IF(turned != head && !part, NEAP_UNSUPPORTED,
            "%s: rotary positions rotate only a part of each head; only whole heads are supported",
            keys->path);
  RETURN_IF(turned < 2 || turned > head || turned % 2 != 0, NEAP_BAD_FORMAT,
            "%s: rotary positions rotate %lld of the %lld elements of a head; the number must be even",
            keys->path, (long long)turned, (long long)head);
  t->turned = turned < head ? turned : 0;
  return NEAP_OK;
}

/* Reads the reach of rotary positions: config.json has it under one of two names, and the base may be in the
 * same object. `part`: they may turn a part of each head. */
static neap_status read_rotary(const struct model_keys *keys, bool part, struct transformer *t) {
  TRY(read_turned(keys, part, t));
  t->rotary_base =
      real_or(keys,
              (struct key){"rope_theta|rope_parameters.rope_theta|rope_parameters.full_attention.rope_theta",
                           "rope.freq_base"},
              t->rotary_base > 0 ? t->rotary_base : 10000);
  const char *kind =
      keys_text(keys, (struct key){SCALING("rope_type") "|rope_scaling.type", "rope.scaling.type"});
  RETURN_IF(!(t->rotary_base > 0 && isfinite(t->rotary_base)), NEAP_BAD_FORMAT,
            "%s: the base of rotary positions is %g; it must be positive", keys->path,
            (double)t->rotary_base);
  if (kind == NULL || strcmp(kind, "default") == 0 || strcmp(kind, "none") == 0) return NEAP_OK;
  return read_scaling(keys, kind, t);
}

/* Returns the side of an image, or an element of [height, width], in config.json; 0: it has none. */
static int64_t side_of(const struct model_keys *keys, const char *name, int of) {
  const json_t *field = keys_find(keys, name);
  if (json_is_array(field)) field = json_array_get(field, (size_t)of);
  return json_is_integer(field) ? json_integer_value(field) : 0;
}

/* Reads the images of a model of images, and the number of their positions. */
static neap_status read_image(const struct model_keys *keys, struct transformer *t, int64_t *context) {
  enum { SIDE_MOST = 4096, CHANNELS_MOST = 4 };
  t->image[0] = 3;
  keys_integer(keys, (struct key){"num_channels", NULL}, &t->image[0]);
  for (int i = 0; i < 2; i++) t->image[1 + i] = side_of(keys, "image_size", i);
  t->patch = side_of(keys, "patch_size", 0);
  const bool good = t->image[0] >= 1 && t->image[0] <= CHANNELS_MOST && t->patch >= 1 &&
                    t->image[1] >= t->patch && t->image[2] >= t->patch && t->image[1] <= SIDE_MOST &&
                    t->image[2] <= SIDE_MOST && t->image[1] % t->patch == 0 && t->image[2] % t->patch == 0 &&
                    side_of(keys, "patch_size", 1) == t->patch;
  RETURN_IF(!good, NEAP_BAD_FORMAT,
            "%s: config.json: has images of %lldx%lldx%lld in squares of %lld; sides must be at most %d and "
            "divide into whole squares, with 1 to %d channels",
            keys->path, (long long)t->image[0], (long long)t->image[1], (long long)t->image[2],
            (long long)t->patch, SIDE_MOST, CHANNELS_MOST);
  *context = t->image[1] / t->patch * (t->image[2] / t->patch) + 1;
  return NEAP_OK;
}

/* ---- Families ---- */

static void set_llama_biases(const struct model_keys *keys, struct transformer *t) {
  const bool bias = keys_flag(keys, "attention_bias", false);
  for (enum part part = PART_QUERY; part <= PART_VALUE; part++) t->parts[part].bias = bias;
  t->parts[PART_ATTENTION_OUT].bias = bias;
  for (enum part part = PART_GATE; part <= PART_DOWN; part++)
    t->parts[part].bias = keys_flag(keys, "mlp_bias", false);
}

/* Gives all layers the window; a GGUF file may have 0 for none. */
static neap_status settle_window(const struct model_keys *keys, struct transformer *t) {
  static const struct key window_key = {"sliding_window", "attention.sliding_window"};
  char name[128];
  int64_t window;
  if (!keys_integer(keys, window_key, &window) || (keys->config == NULL && window == 0)) return NEAP_OK;
  RETURN_IF(window < 1, NEAP_BAD_FORMAT, "%s: %s is %lld; it must be 1 or more", keys->path,
            key_text(keys, window_key, name), (long long)window);
  t->window = window;
  return NEAP_OK;
}

static neap_status settle_llama(const struct model_keys *keys, struct transformer *t) {
  set_llama_biases(keys, t);
  return keys->config != NULL ? NEAP_OK : settle_window(keys, t);
}

static neap_status settle_mistral(const struct model_keys *keys, struct transformer *t) {
  set_llama_biases(keys, t);
  return settle_window(keys, t);
}

static neap_status settle_qwen2(const struct model_keys *keys, struct transformer *t) {
  for (enum part part = PART_QUERY; part <= PART_VALUE; part++) t->parts[part].bias = true;
  (void)keys;
  return NEAP_OK;
}

static neap_status settle_gemma(const struct model_keys *keys, struct transformer *t) {
  (void)keys;
  t->embedding_scale = (float)sqrt((double)t->width);
  return NEAP_OK;
}

static neap_status settle_bert(const struct model_keys *keys, struct transformer *t) {
  const char *places = keys_text(keys, (struct key){"position_embedding_type", NULL});
  (void)t;
  RETURN_IF(places != NULL && strcmp(places, "absolute") != 0, NEAP_UNSUPPORTED,
            "%s: config.json: 'position_embedding_type' is '%s'; only 'absolute' is supported", keys->path,
            places);
  return NEAP_OK;
}

/* Reads a cap from config.json or a GGUF file; 0 if config.json has null. */
static neap_status read_cap(const struct model_keys *keys, struct key key, float usual, float *cap) {
  char name[128];
  const bool null = keys->config != NULL && json_is_null(json_object_get(keys->config, key.config));
  *cap = null ? 0 : real_or(keys, key, usual);
  RETURN_IF(!(*cap >= 0 && isfinite(*cap)), NEAP_BAD_FORMAT, "%s: %s is %g; it must be positive", keys->path,
            key_text(keys, key, name), (double)*cap);
  return NEAP_OK;
}

/* Checks that every other block has the window, if the file names their kinds. */
static neap_status check_layer_types(const struct model_keys *keys, const struct transformer *t) {
  const json_t *types = keys->config != NULL ? keys_find(keys, "layer_types") : NULL;
  for (int64_t i = 0; types != NULL && i < t->layers; i++) {
    const char *type = json_string_value(json_array_get(types, (size_t)i));
    const char *own = (i + 1) % t->full_every == 0 ? "full_attention" : "sliding_attention";
    RETURN_IF(type == NULL || strcmp(type, own) != 0, NEAP_UNSUPPORTED,
              "%s: config.json: 'layer_types' has '%s' for layer %lld; only '%s' is supported there",
              keys->path, type != NULL ? type : "nothing", (long long)i, own);
  }
  return NEAP_OK;
}

/* Returns the number by whose root Gemma 2's and 3's scores are divided. A GGUF file does not have it: it is
 * the width of a head, except in the largest models. */
static int64_t gguf_scalar(const struct transformer *t) {
  enum { LARGEST_2 = 46, LARGEST_3 = 62 }; /* layers of 27B */
  const int64_t by_width = t->width / t->heads;
  return t->head_width > 0 && t->layers != (t->local_base > 0 ? LARGEST_3 : LARGEST_2) ? t->head_width
                                                                                       : by_width;
}

static neap_status read_score_scale(const struct model_keys *keys, struct transformer *t) {
  const float by = real_or(keys, (struct key){"query_pre_attn_scalar", NULL},
                           keys->config != NULL ? 256 : (float)gguf_scalar(t));
  RETURN_IF(!(by > 0 && isfinite(by)), NEAP_BAD_FORMAT,
            "%s: config.json: 'query_pre_attn_scalar' is %g; it must be positive", keys->path, (double)by);
  t->attention_scale = 1 / sqrtf(by);
  return NEAP_OK;
}

/* Reads which blocks are of the second kind from a list of config.json, if it has one: each n-th, from the
 * number of the first of them. 0: none is. */
static neap_status read_every(const struct model_keys *keys, const char *name, const json_t *second,
                              const struct transformer *t, int64_t *every) {
  const json_t *list = keys->config != NULL ? keys_find(keys, name) : NULL;
  if (list == NULL || second == NULL) return NEAP_OK;
  RETURN_IF(json_array_size(list) < (size_t)t->layers, NEAP_BAD_FORMAT,
            "%s: config.json: '%s' must be a list with an entry for each of the %lld layers", keys->path,
            name, (long long)t->layers);
  *every = 0;
  for (int64_t i = 0; i < t->layers; i++) {
    const bool is = json_equal(json_array_get(list, (size_t)i), second) != 0;
    if (is && *every == 0) *every = i + 1;
    RETURN_IF(
        *every > 0 && is != ((i + 1) % *every == 0), NEAP_UNSUPPORTED,
        "%s: config.json: '%s' has another pattern at layer %lld; after the first full layer, or the "
        "first one without positions, each that follows at the same distance must be such a one, and no "
        "other",
        keys->path, name, (long long)i);
  }
  return NEAP_OK;
}

static neap_status settle_gemma3(const struct model_keys *keys, struct transformer *t) {
  const char *kind = keys_text(keys, (struct key){"rope_parameters.sliding_attention.rope_type", NULL});
  json_t *full = json_string("full_attention");
  t->full_every = 6;
  t->window = 4096;
  t->local_base = real_or(
      keys,
      (struct key){"rope_local_base_freq|rope_parameters.sliding_attention.rope_theta", "rope.freq_base_swa"},
      10000);
  keys_integer(keys, (struct key){"sliding_window", "attention.sliding_window"}, &t->window);
  keys_integer(
      keys,
      (struct key){"sliding_window_pattern|_sliding_window_pattern", "attention.sliding_window_pattern"},
      &t->full_every);
  const neap_status status = read_every(keys, "layer_types", full, t, &t->full_every);
  json_decref(full);
  TRY(status);
  RETURN_IF(kind != NULL && strcmp(kind, "default") != 0, NEAP_UNSUPPORTED,
            "%s: config.json: rotary positions of layers with a window are scaled by '%s'; only 'default' is "
            "supported there",
            keys->path, kind);
  RETURN_IF(t->window < 1 || t->full_every < 0 || !(t->local_base > 0 && isfinite(t->local_base)),
            NEAP_BAD_FORMAT,
            "%s: the window has %lld tokens, each %lldth layer has none, and rotary positions within it have "
            "the base %g; all must be positive",
            keys->path, (long long)t->window, (long long)t->full_every, (double)t->local_base);
  TRY(read_score_scale(keys, t));
  TRY(read_cap(keys, (struct key){"attn_logit_softcapping", NULL}, 0, &t->score_cap));
  TRY(read_cap(keys, (struct key){"final_logit_softcapping", "final_logit_softcapping"}, 0, &t->logit_cap));
  return settle_gemma(keys, t);
}

/* Blocks without positions: those with 0 in a list. */
static neap_status settle_smollm3(const struct model_keys *keys, struct transformer *t) {
  json_t *none = json_integer(0);
  keys_integer(keys, (struct key){"no_rope_layer_interval", NULL}, &t->still_every);
  const neap_status status = read_every(keys, "no_rope_layers", none, t, &t->still_every);
  json_decref(none);
  TRY(status);
  RETURN_IF(t->still_every < 0, NEAP_BAD_FORMAT,
            "%s: config.json: 'no_rope_layer_interval' is %lld; it must not be negative", keys->path,
            (long long)t->still_every);
  if (t->still_every > t->layers) t->still_every = 0;
  set_llama_biases(keys, t);
  return NEAP_OK;
}

static neap_status settle_phi3(const struct model_keys *keys, struct transformer *t) {
  RETURN_IF(t->activation != ACTIVATION_SILU, NEAP_UNSUPPORTED,
            "%s: config.json: the activation of this family is 'silu'; no other is supported", keys->path);
  return settle_window(keys, t);
}

/* Reads how a row's experts are chosen; layers of their own width are those of a dense model otherwise. */
static neap_status settle_experts(const struct model_keys *keys, struct transformer *t) {
  RETURN_IF(
      t->experts < 1 || t->experts_used < 1 || t->experts_used > t->experts, NEAP_BAD_FORMAT,
      "%s: has %lld experts, of which a token takes %lld; both must be given, and the second at most the "
      "first",
      keys->path, (long long)t->experts, (long long)t->experts_used);
  if (t->expert_hidden == 0) t->expert_hidden = t->hidden;
  return NEAP_OK;
}

static neap_status settle_mixtral(const struct model_keys *keys, struct transformer *t) {
  TRY(settle_experts(keys, t));
  return settle_window(keys, t);
}

static neap_status settle_olmoe(const struct model_keys *keys, struct transformer *t) {
  t->experts_normalised = keys_flag(keys, "norm_topk_prob", false);
  RETURN_IF(keys->config != NULL && keys_find(keys, "clip_qkv") != NULL, NEAP_UNSUPPORTED,
            "%s: config.json: 'clip_qkv' is set; only null is supported", keys->path);
  return settle_experts(keys, t);
}

static neap_status settle_qwen3_moe(const struct model_keys *keys, struct transformer *t) {
  int64_t step = 1;
  keys_integer(keys, (struct key){"decoder_sparse_step", NULL}, &step);
  const json_t *dense = keys->config != NULL ? keys_find(keys, "mlp_only_layers") : NULL;
  if (keys->config != NULL) t->experts_normalised = keys_flag(keys, "norm_topk_prob", false);
  RETURN_IF(
      step != 1 || json_array_size(dense) > 0, NEAP_UNSUPPORTED,
      "%s: config.json: has layers without experts ('decoder_sparse_step' is %lld, 'mlp_only_layers' has "
      "%zu); only models whose layers all have experts are supported",
      keys->path, (long long)step, json_array_size(dense));
  return settle_experts(keys, t);
}

static neap_status settle_gemma2(const struct model_keys *keys, struct transformer *t) {
  TRY(read_score_scale(keys, t));
  TRY(read_cap(keys, (struct key){"attn_logit_softcapping", "attn_logit_softcapping"}, 50, &t->score_cap));
  TRY(read_cap(keys, (struct key){"final_logit_softcapping", "final_logit_softcapping"}, 30, &t->logit_cap));
  t->window = 4096;
  keys_integer(keys, (struct key){"sliding_window", "attention.sliding_window"}, &t->window);
  RETURN_IF(t->window < 1, NEAP_BAD_FORMAT, "%s: the window has %lld tokens; it must have 1 or more",
            keys->path, (long long)t->window);
  TRY(check_layer_types(keys, t));
  return settle_gemma(keys, t);
}

static neap_status settle_vit(const struct model_keys *keys, struct transformer *t) {
  for (enum part part = PART_QUERY; part <= PART_VALUE; part++)
    t->parts[part].bias = keys_flag(keys, "qkv_bias", true);
  return NEAP_OK;
}

/* Refuses the 350m, which has its norms after the sums, and embeddings of another width. */
static neap_status settle_opt(const struct model_keys *keys, struct transformer *t) {
  int64_t width;
  RETURN_IF(keys_integer(keys, (struct key){"word_embed_proj_dim", NULL}, &width) && width != t->width,
            NEAP_UNSUPPORTED,
            "%s: config.json: 'word_embed_proj_dim' is %lld, but the width is %lld; embeddings of another "
            "width are not supported",
            keys->path, (long long)width, (long long)t->width);
  t->norm_last = !keys_flag(keys, "do_layer_norm_before", true);
  if (t->norm_last || keys_flag(keys, "_remove_final_layer_norm", false))
    t->parts[PART_FINAL_NORM].name = NULL;
  return NEAP_OK;
}

#define STACK_NAMES                                                                                          \
  [PART_TOKEN] = {"model.embed_tokens"}, [PART_QUERY] = {"model.layers.%d.self_attn.q_proj"},                \
  [PART_KEY] = {"model.layers.%d.self_attn.k_proj"}, [PART_VALUE] = {"model.layers.%d.self_attn.v_proj"},    \
  [PART_ATTENTION_OUT] = {"model.layers.%d.self_attn.o_proj"}, [PART_FINAL_NORM] = {"model.norm"},           \
  [PART_HEAD] = {"lm_head"}
#define MLP_NAMES                                                                                            \
  [PART_GATE] = {"model.layers.%d.mlp.gate_proj"}, [PART_UP] = {"model.layers.%d.mlp.up_proj"},              \
  [PART_DOWN] = {"model.layers.%d.mlp.down_proj"}
#define EXPERT_NAMES(router, gate, up, down)                                                                 \
  [PART_ROUTER] = {"model.layers.%d." router ".gate"},                                                       \
  [PART_EXPERT_GATE] = {"model.layers.%d." router ".experts.%e." gate},                                      \
  [PART_EXPERT_UP] = {"model.layers.%d." router ".experts.%e." up},                                          \
  [PART_EXPERT_DOWN] = {"model.layers.%d." router ".experts.%e." down}
#define INPUT_NORM [PART_ATTENTION_NORM] = {"model.layers.%d.input_layernorm"}
#define FEED_NORM  [PART_FEED_NORM] = {"model.layers.%d.post_attention_layernorm"}
#define POST_NORMS                                                                                           \
  [PART_ATTENTION_POST] = {"model.layers.%d.post_attention_layernorm"},                                      \
  [PART_FEED_POST] = {"model.layers.%d.post_feedforward_layernorm"}
#define HEAD_NORMS                                                                                           \
  [PART_QUERY_NORM] = {"model.layers.%d.self_attn.q_norm"}, [PART_KEY_NORM] = {                              \
                                                                "model.layers.%d.self_attn.k_norm"}
#define GEMMA_NAMES                                                                                          \
  STACK_NAMES, MLP_NAMES, INPUT_NORM,                                                                        \
      POST_NORMS, [PART_FEED_NORM] = {"model.layers.%d.pre_feedforward_layernorm"}
#define LLAMA_NAMES STACK_NAMES, MLP_NAMES, INPUT_NORM, FEED_NORM

#define GGUF_STACK                                                                                           \
  [PART_TOKEN] = "token_embd", [PART_QUERY] = "blk.%d.attn_q", [PART_KEY] = "blk.%d.attn_k",                 \
  [PART_VALUE] = "blk.%d.attn_v", [PART_ATTENTION_OUT] = "blk.%d.attn_output",                               \
  [PART_FINAL_NORM] = "output_norm", [PART_HEAD] = "output"
#define GGUF_MLP [PART_GATE] = "blk.%d.ffn_gate", [PART_UP] = "blk.%d.ffn_up", [PART_DOWN] = "blk.%d.ffn_down"
#define GGUF_EXPERTS                                                                                         \
  [PART_ROUTER] = "blk.%d.ffn_gate_inp", [PART_EXPERT_GATE] = "blk.%d.ffn_gate_exps",                        \
  [PART_EXPERT_UP] = "blk.%d.ffn_up_exps", [PART_EXPERT_DOWN] = "blk.%d.ffn_down_exps"
#define GGUF_NORMS [PART_ATTENTION_NORM] = "blk.%d.attn_norm", [PART_FEED_NORM] = "blk.%d.ffn_norm"
#define GGUF_POST_NORMS                                                                                      \
  [PART_ATTENTION_POST] = "blk.%d.post_attention_norm", [PART_FEED_POST] = "blk.%d.post_ffw_norm"
#define GGUF_HEAD_NORMS  [PART_QUERY_NORM] = "blk.%d.attn_q_norm", [PART_KEY_NORM] = "blk.%d.attn_k_norm"
#define LLAMA_GGUF_NAMES GGUF_STACK, GGUF_MLP, GGUF_NORMS

#define GATED_DECODER .causal = true, .rms = true, .activation = ACTIVATION_SILU, .epsilon = 1e-6f

static const struct family families[] = {
    {.model_type = "llama",
     .class_name = "LlamaForCausalLM",
     .architecture = "llama",
     .kind = TASK_TOKENS,
     .layers = {GATED_DECODER, .parts = {LLAMA_NAMES}},
     .gguf_names = {LLAMA_GGUF_NAMES},
     .permuted = true,
     .settle = settle_llama},
    {.model_type = "mistral",
     .class_name = "MistralForCausalLM",
     .architecture = "llama",
     .kind = TASK_TOKENS,
     .layers = {GATED_DECODER, .parts = {LLAMA_NAMES}},
     .gguf_names = {LLAMA_GGUF_NAMES},
     .permuted = true,
     .settle = settle_mistral},
    {.model_type = "qwen2",
     .class_name = "Qwen2ForCausalLM",
     .architecture = "qwen2",
     .kind = TASK_TOKENS,
     .layers = {GATED_DECODER, .parts = {LLAMA_NAMES}},
     .gguf_names = {LLAMA_GGUF_NAMES},
     .settle = settle_qwen2},
    {.model_type = "qwen3",
     .class_name = "Qwen3ForCausalLM",
     .architecture = "qwen3",
     .kind = TASK_TOKENS,
     .layers = {GATED_DECODER, .parts = {LLAMA_NAMES, HEAD_NORMS}},
     .gguf_names = {LLAMA_GGUF_NAMES, GGUF_HEAD_NORMS}},
    {.model_type = "gemma",
     .class_name = "GemmaForCausalLM",
     .architecture = "gemma",
     .kind = TASK_TOKENS,
     .layers = {.causal = true,
                .rms = true,
                .activation = ACTIVATION_GELU_TANH,
                .epsilon = 1e-6f,
                .tied = true,
                .parts = {LLAMA_NAMES}},
     .gguf_names = {LLAMA_GGUF_NAMES},
     .norm_less = true,
     .settle = settle_gemma},
    {.model_type = "gemma2",
     .class_name = "Gemma2ForCausalLM",
     .architecture = "gemma2",
     .kind = TASK_TOKENS,
     .layers = {.causal = true,
                .rms = true,
                .activation = ACTIVATION_GELU_TANH,
                .epsilon = 1e-6f,
                .tied = true,
                .full_every = 2,
                .parts = {GEMMA_NAMES}},
     .gguf_names = {LLAMA_GGUF_NAMES, GGUF_POST_NORMS},
     .norm_less = true,
     .settle = settle_gemma2},
    {.model_type = "gemma3_text",
     .class_name = "Gemma3ForCausalLM",
     .architecture = "gemma3",
     .kind = TASK_TOKENS,
     .layers = {.causal = true,
                .rms = true,
                .activation = ACTIVATION_GELU_TANH,
                .epsilon = 1e-6f,
                .tied = true,
                .rotary_base = 1e6f,
                .parts = {GEMMA_NAMES, HEAD_NORMS}},
     .gguf_names = {LLAMA_GGUF_NAMES, GGUF_HEAD_NORMS, GGUF_POST_NORMS},
     .norm_less = true,
     .settle = settle_gemma3},
    {.model_type = "smollm3",
     .class_name = "SmolLM3ForCausalLM",
     .architecture = "smollm3",
     .kind = TASK_TOKENS,
     .layers = {GATED_DECODER, .tied = true, .rotary_base = 2e6f, .still_every = 4, .parts = {LLAMA_NAMES}},
     .gguf_names = {LLAMA_GGUF_NAMES},
     .permuted = true,
     .settle = settle_smollm3},
    {.model_type = "phi3",
     .class_name = "Phi3ForCausalLM",
     .architecture = "phi3",
     .kind = TASK_TOKENS,
     .layers = {.causal = true,
                .rms = true,
                .activation = ACTIVATION_SILU,
                .epsilon = 1e-5f,
                .packed_gate = true,
                .parts = {[PART_TOKEN] = {"model.embed_tokens"},
                          [PART_ATTENTION_NORM] = {"model.layers.%d.input_layernorm"},
                          [PART_QKV] = {"model.layers.%d.self_attn.qkv_proj"},
                          [PART_ATTENTION_OUT] = {"model.layers.%d.self_attn.o_proj"},
                          [PART_FEED_NORM] = {"model.layers.%d.post_attention_layernorm"},
                          [PART_UP] = {"model.layers.%d.mlp.gate_up_proj"},
                          [PART_DOWN] = {"model.layers.%d.mlp.down_proj"},
                          [PART_FINAL_NORM] = {"model.norm"},
                          [PART_HEAD] = {"lm_head"}}},
     .gguf_names = {[PART_TOKEN] = "token_embd",
                    [PART_ATTENTION_NORM] = "blk.%d.attn_norm",
                    [PART_QKV] = "blk.%d.attn_qkv",
                    [PART_ATTENTION_OUT] = "blk.%d.attn_output",
                    [PART_FEED_NORM] = "blk.%d.ffn_norm",
                    [PART_UP] = "blk.%d.ffn_up",
                    [PART_DOWN] = "blk.%d.ffn_down",
                    [PART_FINAL_NORM] = "output_norm",
                    [PART_HEAD] = "output"},
     .part_turned = true,
     .settle = settle_phi3},
    {.model_type = "olmo2",
     .class_name = "Olmo2ForCausalLM",
     .architecture = "olmo2",
     .kind = TASK_TOKENS,
     .layers = {.causal = true,
                .rms = true,
                .activation = ACTIVATION_SILU,
                .epsilon = 1e-5f,
                .wide_norms = true,
                .parts = {STACK_NAMES, MLP_NAMES, HEAD_NORMS, POST_NORMS}},
     .gguf_names = {GGUF_STACK, GGUF_MLP, GGUF_HEAD_NORMS, GGUF_POST_NORMS}},
    {.model_type = "mixtral",
     .class_name = "MixtralForCausalLM",
     .architecture = "llama",
     .kind = TASK_TOKENS,
     .layers = {.causal = true,
                .rms = true,
                .activation = ACTIVATION_SILU,
                .epsilon = 1e-5f,
                .rotary_base = 1e6f,
                .experts_normalised = true,
                .parts = {STACK_NAMES, INPUT_NORM, FEED_NORM,
                          EXPERT_NAMES("block_sparse_moe", "w1", "w3", "w2")}},
     .gguf_names = {GGUF_STACK, GGUF_NORMS, GGUF_EXPERTS},
     .permuted = true,
     .settle = settle_mixtral},
    {.model_type = "olmoe",
     .class_name = "OlmoeForCausalLM",
     .architecture = "olmoe",
     .kind = TASK_TOKENS,
     .layers = {.causal = true,
                .rms = true,
                .activation = ACTIVATION_SILU,
                .epsilon = 1e-5f,
                .wide_norms = true,
                .parts = {STACK_NAMES, INPUT_NORM, FEED_NORM, HEAD_NORMS,
                          EXPERT_NAMES("mlp", "gate_proj", "up_proj", "down_proj")}},
     .gguf_names = {GGUF_STACK, GGUF_NORMS, GGUF_HEAD_NORMS, GGUF_EXPERTS},
     .settle = settle_olmoe},
    {.model_type = "qwen3_moe",
     .class_name = "Qwen3MoeForCausalLM",
     .architecture = "qwen3moe",
     .kind = TASK_TOKENS,
     .layers = {GATED_DECODER, .experts_normalised = true,
                .parts = {STACK_NAMES, INPUT_NORM, FEED_NORM, HEAD_NORMS,
                          EXPERT_NAMES("mlp", "gate_proj", "up_proj", "down_proj")}},
     .gguf_names = {GGUF_STACK, GGUF_NORMS, GGUF_HEAD_NORMS, GGUF_EXPERTS},
     .settle = settle_qwen3_moe},
    {.model_type = "gpt2",
     .class_name = "GPT2LMHeadModel",
     .short_keys = true,
     .architecture = "gpt2",
     .kind = TASK_TOKENS,
     .prefix = "transformer.",
     .layers = {.causal = true,
                .activation = ACTIVATION_GELU_TANH,
                .epsilon = 1e-5f,
                .tied = true,
                .parts = {[PART_TOKEN] = {"transformer.wte"},
                          [PART_POSITION] = {"transformer.wpe"},
                          [PART_ATTENTION_NORM] = {"transformer.h.%d.ln_1"},
                          [PART_QKV] = {"transformer.h.%d.attn.c_attn", true},
                          [PART_ATTENTION_OUT] = {"transformer.h.%d.attn.c_proj", true},
                          [PART_FEED_NORM] = {"transformer.h.%d.ln_2"},
                          [PART_UP] = {"transformer.h.%d.mlp.c_fc", true},
                          [PART_DOWN] = {"transformer.h.%d.mlp.c_proj", true},
                          [PART_FINAL_NORM] = {"transformer.ln_f"},
                          [PART_HEAD] = {"lm_head"}}},
     .gguf_names = {[PART_TOKEN] = "token_embd",
                    [PART_POSITION] = "position_embd",
                    [PART_ATTENTION_NORM] = "blk.%d.attn_norm",
                    [PART_QKV] = "blk.%d.attn_qkv",
                    [PART_ATTENTION_OUT] = "blk.%d.attn_output",
                    [PART_FEED_NORM] = "blk.%d.ffn_norm",
                    [PART_UP] = "blk.%d.ffn_up",
                    [PART_DOWN] = "blk.%d.ffn_down",
                    [PART_FINAL_NORM] = "output_norm",
                    [PART_HEAD] = "output"},
     .transposed = true},
    {.model_type = "opt",
     .class_name = "OPTForCausalLM",
     .kind = TASK_TOKENS,
     .prefix = "model.",
     .layers = {.causal = true,
                .activation = ACTIVATION_RELU,
                .epsilon = 1e-5f,
                .tied = true,
                .first_place = 2,
                .parts = {[PART_TOKEN] = {"model.decoder.embed_tokens"},
                          [PART_POSITION] = {"model.decoder.embed_positions"},
                          [PART_ATTENTION_NORM] = {"model.decoder.layers.%d.self_attn_layer_norm"},
                          [PART_QUERY] = {"model.decoder.layers.%d.self_attn.q_proj", true},
                          [PART_KEY] = {"model.decoder.layers.%d.self_attn.k_proj", true},
                          [PART_VALUE] = {"model.decoder.layers.%d.self_attn.v_proj", true},
                          [PART_ATTENTION_OUT] = {"model.decoder.layers.%d.self_attn.out_proj", true},
                          [PART_FEED_NORM] = {"model.decoder.layers.%d.final_layer_norm"},
                          [PART_UP] = {"model.decoder.layers.%d.fc1", true},
                          [PART_DOWN] = {"model.decoder.layers.%d.fc2", true},
                          [PART_FINAL_NORM] = {"model.decoder.final_layer_norm"},
                          [PART_HEAD] = {"lm_head"}}},
     .settle = settle_opt},
    {.model_type = "bert",
     .class_name = "BertForMaskedLM",
     .classifier_class = "BertForSequenceClassification",
     .kind = TASK_MASKED,
     .prefix = "bert.",
     .layers = {.activation = ACTIVATION_GELU,
                .epsilon = 1e-12f,
                .tied = true,
                .norm_last = true,
                .parts = {[PART_TOKEN] = {"bert.embeddings.word_embeddings"},
                          [PART_POSITION] = {"bert.embeddings.position_embeddings"},
                          [PART_SEGMENT] = {"bert.embeddings.token_type_embeddings"},
                          [PART_EMBEDDING_NORM] = {"bert.embeddings.LayerNorm"},
                          [PART_ATTENTION_NORM] = {"bert.encoder.layer.%d.attention.output.LayerNorm"},
                          [PART_QUERY] = {"bert.encoder.layer.%d.attention.self.query", true},
                          [PART_KEY] = {"bert.encoder.layer.%d.attention.self.key", true},
                          [PART_VALUE] = {"bert.encoder.layer.%d.attention.self.value", true},
                          [PART_ATTENTION_OUT] = {"bert.encoder.layer.%d.attention.output.dense", true},
                          [PART_FEED_NORM] = {"bert.encoder.layer.%d.output.LayerNorm"},
                          [PART_UP] = {"bert.encoder.layer.%d.intermediate.dense", true},
                          [PART_DOWN] = {"bert.encoder.layer.%d.output.dense", true},
                          [PART_HEAD_DENSE] = {"cls.predictions.transform.dense", true},
                          [PART_HEAD_NORM] = {"cls.predictions.transform.LayerNorm"},
                          [PART_HEAD] = {"cls.predictions", true},
                          [PART_POOLER] = {"bert.pooler.dense", true},
                          [PART_CLASSIFIER] = {"classifier", true}}},
     .settle = settle_bert},
    {.model_type = "vit",
     .class_name = "ViTForImageClassification",
     .classifier_class = "ViTForImageClassification",
     .kind = TASK_IMAGES,
     .prefix = "vit.",
     .layers = {.activation = ACTIVATION_GELU,
                .epsilon = 1e-12f,
                .parts = {[PART_PATCH] = {"vit.embeddings.patch_embeddings.projection", true},
                          [PART_FIRST_TOKEN] = {"vit.embeddings.cls_token"},
                          [PART_POSITION] = {"vit.embeddings.position_embeddings"},
                          [PART_ATTENTION_NORM] = {"vit.encoder.layer.%d.layernorm_before"},
                          [PART_QUERY] = {"vit.encoder.layer.%d.attention.attention.query", true},
                          [PART_KEY] = {"vit.encoder.layer.%d.attention.attention.key", true},
                          [PART_VALUE] = {"vit.encoder.layer.%d.attention.attention.value", true},
                          [PART_ATTENTION_OUT] = {"vit.encoder.layer.%d.attention.output.dense", true},
                          [PART_FEED_NORM] = {"vit.encoder.layer.%d.layernorm_after"},
                          [PART_UP] = {"vit.encoder.layer.%d.intermediate.dense", true},
                          [PART_DOWN] = {"vit.encoder.layer.%d.output.dense", true},
                          [PART_FINAL_NORM] = {"vit.layernorm"},
                          [PART_CLASSIFIER] = {"classifier", true}}},
     .settle = settle_vit},
};
enum { FAMILIES = sizeof families / sizeof *families };

static neap_status find_family(const struct model_keys *keys, const struct family **family) {
  const bool folder = keys->config != NULL;
  const char *name = folder ? keys_text(keys, (struct key){"model_type", NULL}) : keys->architecture;
  char read[512] = "";
  int64_t experts = 0;
  RETURN_IF(name == NULL, NEAP_BAD_FORMAT, "%s: %s is missing", keys->path,
            folder ? "config.json: 'model_type'" : "the key 'general.architecture'");
  keys_integer(keys, (struct key){NULL, "expert_count"}, &experts);
  for (int i = 0; i < FAMILIES; i++) {
    const char *own = folder ? families[i].model_type : families[i].architecture;
    if (own == NULL) continue;
    *family = &families[i];
    const bool same = folder || (families[i].layers.parts[PART_ROUTER].name != NULL) == (experts > 0);
    if (strcmp(own, name) == 0 && same) return NEAP_OK;
    if (strstr(read, own) != NULL) continue;
    snprintf(read + strlen(read), sizeof read - strlen(read), "%s%s", read[0] != '\0' ? ", " : "", own);
  }
  return neap_fail(NEAP_UNSUPPORTED, "%s: has the family '%s'; the supported families are %s", keys->path,
                   name, read);
}

neap_status family_describe(const struct model_keys *keys, const struct family **family,
                            struct transformer *t, int64_t *context) {
  TRY(find_family(keys, family));
  *t = (*family)->layers;
  TRY(read_sizes(keys, t));
  TRY(read_activation(keys, t));
  t->epsilon =
      real_or(keys,
              (struct key){"rms_norm_eps|layer_norm_epsilon|layer_norm_eps",
                           t->rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon"},
              t->epsilon);
  *context = 0;
  keys_integer(keys, (struct key){"max_position_embeddings|n_positions", "context_length"}, context);
  if (t->parts[PART_PATCH].name != NULL) TRY(read_image(keys, t, context));
  if (t->parts[PART_POSITION].name != NULL)
    t->places = *context;
  else
    TRY(read_rotary(keys, (*family)->part_turned, t));
  RETURN_IF(*context < 1 || *context > INT32_MAX, NEAP_BAD_FORMAT,
            "%s: the context length is missing, or not a number of 1 or more", keys->path);
  t->tied = keys_flag(keys, "tie_word_embeddings", t->tied);
  if ((*family)->settle != NULL) TRY((*family)->settle(keys, t));
  TRY(keys_check_fixed(keys, (*family)->model_type));
  return transformer_check(keys->path, t);
}

/* ---- Writing ---- */

/* Gives the first of the names "a|b" or, with `short_keys`, the one that begins with n_. */
static const char *written_key(const char *names, bool short_keys, char name[64]) {
  const char *from = names, *n = strstr(names, "n_");
  if (short_keys && n != NULL) from = n;
  snprintf(name, 64, "%.*s", (int)strcspn(from, "|"), from);
  return name;
}

static bool set(json_t *config, const char *key, json_t *value) {
  return json_object_set_new(config, key, value) == 0;
}

/* Returns a float as the shortest number of the same value. */
static json_t *float_json(float value) {
  char text[32];
  for (int digits = 1; digits <= 9; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, (double)value);
    if (strtof(text, NULL) == value) break;
  }
  return json_real(strtod(text, NULL));
}

static bool set_sizes(const struct family *family, const struct transformer *t, json_t *config) {
  bool good = true;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    char name[64];
    int64_t value;
    memcpy(&value, (const char *)t + sizes[i].place, sizeof value);
    if (value == 0 || (family->short_keys && sizes[i].place == offsetof(struct transformer, key_heads)))
      continue;
    good =
        good && set(config, written_key(sizes[i].key.config, family->short_keys, name), json_integer(value));
  }
  return good;
}

static json_t *float_list(const float *numbers, int64_t count) {
  json_t *list = json_array();
  bool good = list != NULL;
  for (int64_t i = 0; good && i < count; i++) good = json_array_append_new(list, float_json(numbers[i])) == 0;
  if (good) return list;
  json_decref(list);
  return NULL;
}

static bool set_long_rope(const struct transformer *t, json_t *config) {
  const int64_t pairs = turned_of(t) / 2;
  return set(config, "original_max_position_embeddings", json_integer(t->divisors.places)) &&
         set(config, "rope_scaling",
             json_pack("{s:s, s:o, s:o, s:o}", "rope_type", "longrope", "short_factor",
                       float_list(t->divisors.within, pairs), "long_factor",
                       float_list(t->divisors.beyond, pairs), "attention_factor",
                       float_json((float)rotary_amplitude(&t->scaling))));
}

static bool set_rotary(const struct transformer *t, json_t *config) {
  const struct rotary_scaling *s = &t->scaling;
  bool good = set(config, "rope_theta", float_json(t->rotary_base));
  if (t->turned > 0)
    good = good && set(config, "partial_rotary_factor", float_json((float)t->turned / (float)head_of(t)));
  if (t->local_base > 0) good = good && set(config, "rope_local_base_freq", float_json(t->local_base));
  if (t->divisors.within != NULL) return good && set_long_rope(t, config);
  if (!(s->factor > 0)) return good;
  if (!(s->high > 0))
    return good && set(config, "rope_scaling",
                       json_pack("{s:s, s:o}", "rope_type", "linear", "factor", float_json(s->factor)));
  return good &&
         set(config, "rope_scaling",
             json_pack("{s:s, s:o, s:o, s:o, s:I}", "rope_type", "llama3", "factor", float_json(s->factor),
                       "low_freq_factor", float_json(s->low), "high_freq_factor", float_json(s->high),
                       "original_max_position_embeddings", (json_int_t)s->places));
}

/* Writes the list of the kinds of blocks, of which each n-th is of the second kind. */
static bool set_every(json_t *config, const char *name, const struct transformer *t, int64_t every,
                      const json_t *first, const json_t *second) {
  json_t *list = json_array();
  bool good = list != NULL && first != NULL && second != NULL;
  for (int64_t i = 0; good && i < t->layers; i++)
    good = json_array_append(list, (json_t *)(every > 0 && (i + 1) % every == 0 ? second : first)) == 0;
  if (good) return set(config, name, list);
  json_decref(list);
  return false;
}

/* Writes which blocks have no window, and which no positions. */
static bool set_patterns(const struct family *family, const struct transformer *t, json_t *config) {
  json_t *window = json_string("sliding_attention"), *full = json_string("full_attention"),
         *turned = json_integer(1), *still = json_integer(0);
  bool good = true;
  if (t->full_every > 0 || t->local_base > 0)
    good = set_every(config, "layer_types", t, t->full_every, window, full);
  if (good && family->layers.still_every > 0)
    good = set_every(config, "no_rope_layers", t, t->still_every, turned, still);
  json_decref(window);
  json_decref(full);
  json_decref(turned);
  json_decref(still);
  return good;
}

/* Writes the caps of Gemma 2 and 3. */
static bool set_caps(const struct transformer *t, json_t *config) {
  const float scale = t->attention_scale;
  return set(config, "query_pre_attn_scalar", json_integer((json_int_t)lroundf(1 / (scale * scale)))) &&
         set(config, "attn_logit_softcapping", t->score_cap > 0 ? float_json(t->score_cap) : json_null()) &&
         set(config, "final_logit_softcapping", t->logit_cap > 0 ? float_json(t->logit_cap) : json_null());
}

json_t *family_config(const struct family *family, const struct transformer *t, int64_t context,
                      const char *type) {
  const bool short_keys = family->short_keys;
  json_t *config =
      json_pack("{s:[s], s:s, s:s, s:b, s:I, s:o}", "architectures", family->class_name, "model_type",
                family->model_type, "torch_dtype", type, "tie_word_embeddings", t->tied,
                short_keys ? "n_positions" : "max_position_embeddings", (json_int_t)context,
                t->rms       ? "rms_norm_eps"
                : short_keys ? "layer_norm_epsilon"
                             : "layer_norm_eps",
                float_json(t->epsilon));
  bool good = config != NULL && set_sizes(family, t, config);
  for (int i = 0; i < ACTIVATIONS; i++)
    if (good && activations[i].activation == t->activation) {
      good = set(config, short_keys ? "activation_function" : "hidden_act", json_string(activations[i].name));
      break;
    }
  if (good && t->parts[PART_POSITION].name == NULL) good = set_rotary(t, config);
  if (good && t->window > 0) good = set(config, "sliding_window", json_integer(t->window));
  if (good) good = set_patterns(family, t, config);
  if (good && t->experts > 0)
    good = set(config, "num_experts", json_integer(t->experts)) &&
           set(config, "norm_topk_prob", json_boolean(t->experts_normalised));
  if (good && t->attention_scale > 0) good = set_caps(t, config);
  if (good) return config;
  json_decref(config);
  return NULL;
}

/* ---- Pairs of a GGUF file ---- */

struct writing {
  const char *architecture;
  struct region *region;
  struct gguf_pairs *pairs;
};

/* Adds a pair, whose key follows the architecture. */
static neap_status add_pair(const struct writing *w, const char *key, struct gguf_pair pair) {
  pair.key = region_format(w->region, "%s.%s", w->architecture, key);
  RETURN_IF(pair.key == NULL, NEAP_OUT_OF_MEMORY, "out of memory for the pairs of a GGUF file");
  return vector_push(&w->pairs->list, pair);
}

static neap_status add_integer(const struct writing *w, const char *key, int64_t value) {
  return add_pair(w, key, gguf_pair_u32("", (uint32_t)value));
}

static neap_status add_rotary(const struct writing *w, const struct transformer *t) {
  const struct rotary_scaling *s = &t->scaling;
  TRY(add_integer(w, "rope.dimension_count", turned_of(t)));
  TRY(add_pair(w, "rope.freq_base", gguf_pair_f32("", t->rotary_base)));
  if (t->local_base > 0) TRY(add_pair(w, "rope.freq_base_swa", gguf_pair_f32("", t->local_base)));
  if (t->divisors.within != NULL) {
    TRY(add_integer(w, "rope.scaling.original_context_length", t->divisors.places));
    return add_pair(w, "rope.scaling.attn_factor", gguf_pair_f32("", (float)rotary_amplitude(s)));
  }
  if (!(s->factor > 0)) return NEAP_OK;
  if (s->places > 0) return add_integer(w, "rope.scaling.original_context_length", s->places);
  TRY(add_pair(w, "rope.scaling.type", gguf_pair_text("", "linear")));
  return add_pair(w, "rope.scaling.factor", gguf_pair_f32("", s->factor));
}

static neap_status add_caps(const struct writing *w, const struct transformer *t) {
  const float scalar = 1 / (t->attention_scale * t->attention_scale);
  RETURN_IF(lroundf(scalar) != gguf_scalar(t), NEAP_UNSUPPORTED,
            "'query_pre_attn_scalar' is %g: a GGUF file cannot store it, and implies %lld for such a model; "
            "write the model as a folder",
            (double)scalar, (long long)gguf_scalar(t));
  if (t->local_base > 0) {
    RETURN_IF(
        t->score_cap > 0, NEAP_UNSUPPORTED,
        "'attn_logit_softcapping' is %g: a GGUF file of this family cannot store it; write the model as "
        "a folder",
        (double)t->score_cap);
    if (t->logit_cap > 0) TRY(add_pair(w, "final_logit_softcapping", gguf_pair_f32("", t->logit_cap)));
    return add_integer(w, "attention.sliding_window_pattern", t->full_every);
  }
  RETURN_IF(!(t->score_cap > 0 && t->logit_cap > 0), NEAP_UNSUPPORTED,
            "'attn_logit_softcapping' and 'final_logit_softcapping': a GGUF file needs both (got %g and %g); "
            "write the model as a folder",
            (double)t->score_cap, (double)t->logit_cap);
  TRY(add_pair(w, "attn_logit_softcapping", gguf_pair_f32("", t->score_cap)));
  return add_pair(w, "final_logit_softcapping", gguf_pair_f32("", t->logit_cap));
}

neap_status family_pairs(const char *architecture, const struct transformer *t, int64_t context,
                         struct region *region, struct gguf_pairs *pairs) {
  const struct writing w = {architecture, region, pairs};
  TRY(add_integer(&w, "context_length", context));
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    int64_t value;
    memcpy(&value, (const char *)t + sizes[i].place, sizeof value);
    if (value > 0) TRY(add_integer(&w, sizes[i].key.gguf, value));
  }
  if (t->head_width > 0) TRY(add_integer(&w, "attention.value_length", t->head_width));
  TRY(add_pair(&w, t->rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon",
               gguf_pair_f32("", t->epsilon)));
  if (t->window > 0) TRY(add_integer(&w, "attention.sliding_window", t->window));
  if (t->attention_scale > 0) TRY(add_caps(&w, t));
  return t->parts[PART_POSITION].name == NULL ? add_rotary(&w, t) : NEAP_OK;
}
