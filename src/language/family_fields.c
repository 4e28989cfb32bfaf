#include "language/family_fields.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

const struct size_row size_rows[] = {
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
_Static_assert(sizeof size_rows / sizeof *size_rows == SIZE_ROWS, "SIZE_ROWS counts the rows");

neap_status fields_read_sizes(const struct model_keys *keys, struct transformer *t) {
  for (size_t i = 0; i < SIZE_ROWS; i++) {
    const struct size_row *row = &size_rows[i];
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

const struct activation_row activation_rows[] = {
    {"silu", ACTIVATION_SILU},          {"swish", ACTIVATION_SILU},
    {"gelu", ACTIVATION_GELU},          {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH},
    {"gelu_new", ACTIVATION_GELU_TANH}, {"relu", ACTIVATION_RELU}};
_Static_assert(sizeof activation_rows / sizeof *activation_rows == ACTIVATION_ROWS,
               "ACTIVATION_ROWS counts the rows");

neap_status fields_read_activation(const struct model_keys *keys, struct transformer *t) {
  const char *name = keys_text(keys, (struct key){"hidden_activation|hidden_act|activation_function", NULL});
  if (name == NULL) return NEAP_OK;
  for (int i = 0; i < ACTIVATION_ROWS; i++)
    if (strcmp(activation_rows[i].name, name) == 0) {
      t->activation = activation_rows[i].activation;
      return NEAP_OK;
    }
  return neap_fail(NEAP_UNSUPPORTED,
                   "%s: config.json: the activation is '%s'; silu, gelu, gelu_new, gelu_pytorch_tanh and "
                   "relu are supported",
                   keys->path, name);
}

#define SCALING(field)                                                                                       \
  "rope_scaling." field "|rope_parameters." field "|rope_parameters.full_attention." field

int64_t width_of_head(const struct transformer *t) {
  return t->head_width > 0 ? t->head_width : t->width / t->heads;
}

int64_t turned_of_head(const struct transformer *t) { return t->turned > 0 ? t->turned : width_of_head(t); }

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
  const int64_t pairs = turned_of_head(t) / 2;
  int64_t longest = 0;
  TRY(read_divisors(keys, SCALING("short_factor"), pairs, &t->divisors.within));
  TRY(read_divisors(keys, SCALING("long_factor"), pairs, &t->divisors.beyond));
  keys_integer(keys, (struct key){"max_position_embeddings", NULL}, &longest);
  RETURN_IF(!keys_integer(keys, (struct key){places, NULL}, &t->divisors.places) || t->divisors.places < 2,
            NEAP_BAD_FORMAT,
            "%s: config.json: 'original_max_position_embeddings' is missing, or not a number of 2 or more",
            keys->path);
  const double factor = (double)keys_real_or(keys, (struct key){SCALING("factor"), NULL},
                                             (float)longest / (float)t->divisors.places),
               usual = factor > 1 ? sqrt(1 + log(factor) / log((double)t->divisors.places)) : 1;
  t->scaling.amplitude = keys_real_or(keys, (struct key){SCALING("attention_factor"), NULL}, (float)usual);
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
  t->scaling.factor = keys_real_or(keys, (struct key){SCALING("factor"), "rope.scaling.factor"}, 0);
  RETURN_IF(!(t->scaling.factor > 0), NEAP_BAD_FORMAT,
            "%s: rotary positions are scaled by a factor of %g; it must be positive", keys->path,
            (double)t->scaling.factor);
  if (strcmp(kind, "linear") == 0) return NEAP_OK;
  t->scaling.low = keys_real_or(keys, (struct key){SCALING("low_freq_factor"), NULL}, 1);
  t->scaling.high = keys_real_or(keys, (struct key){SCALING("high_freq_factor"), NULL}, 4);
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
  const float share = keys_real_or(
      keys, (struct key){"partial_rotary_factor|rope_parameters.partial_rotary_factor", NULL}, 1);
  const int64_t head = width_of_head(t);
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

neap_status fields_read_rotary(const struct model_keys *keys, bool part, struct transformer *t) {
  TRY(read_turned(keys, part, t));
  t->rotary_base = keys_real_or(
      keys,
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

neap_status fields_read_image(const struct model_keys *keys, struct transformer *t, int64_t *context) {
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

int64_t implied_score_scalar(const struct transformer *t) {
  enum { LARGEST_2 = 46, LARGEST_3 = 62 }; /* layers of 27B */
  const int64_t by_width = t->width / t->heads;
  return t->head_width > 0 && t->layers != (t->local_base > 0 ? LARGEST_3 : LARGEST_2) ? t->head_width
                                                                                       : by_width;
}
