#include "language/family_writing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "language/family_fields.h"

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
  for (size_t i = 0; i < SIZE_ROWS; i++) {
    char name[64];
    int64_t value;
    memcpy(&value, (const char *)t + size_rows[i].place, sizeof value);
    if (value == 0 || (family->short_keys && size_rows[i].place == offsetof(struct transformer, key_heads)))
      continue;
    good = good &&
           set(config, written_key(size_rows[i].key.config, family->short_keys, name), json_integer(value));
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
  const int64_t pairs = turned_of_head(t) / 2;
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
    good =
        good && set(config, "partial_rotary_factor", float_json((float)t->turned / (float)width_of_head(t)));
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

/* Writes the list of the kinds of blocks: each n-th has the second kind. */
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
  for (int i = 0; i < ACTIVATION_ROWS; i++)
    if (good && activation_rows[i].activation == t->activation) {
      good = set(config, short_keys ? "activation_function" : "hidden_act",
                 json_string(activation_rows[i].name));
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
  TRY(add_integer(w, "rope.dimension_count", turned_of_head(t)));
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
  RETURN_IF(lroundf(scalar) != implied_score_scalar(t), NEAP_UNSUPPORTED,
            "'query_pre_attn_scalar' is %g: a GGUF file cannot store it, and implies %lld for such a model; "
            "write the model as a folder",
            (double)scalar, (long long)implied_score_scalar(t));
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
  for (size_t i = 0; i < SIZE_ROWS; i++) {
    int64_t value;
    memcpy(&value, (const char *)t + size_rows[i].place, sizeof value);
    if (value > 0) TRY(add_integer(&w, size_rows[i].key.gguf, value));
  }
  if (t->head_width > 0) TRY(add_integer(&w, "attention.value_length", t->head_width));
  TRY(add_pair(&w, t->rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon",
               gguf_pair_f32("", t->epsilon)));
  if (t->window > 0) TRY(add_integer(&w, "attention.sliding_window", t->window));
  if (t->attention_scale > 0) TRY(add_caps(&w, t));
  return t->parts[PART_POSITION].name == NULL ? add_rotary(&w, t) : NEAP_OK;
}
