#include "language/families.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "language/family_fields.h"

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

static neap_status read_segments(const struct model_keys *keys, struct transformer *t) {
  enum { SEGMENTS_MOST = 1 << 16 };
  t->segments = 2;
  keys_integer(keys, (struct key){"type_vocab_size", NULL}, &t->segments);
  RETURN_IF(t->segments < 1 || t->segments > SEGMENTS_MOST, NEAP_BAD_FORMAT,
            "%s: config.json: 'type_vocab_size' is %lld; it must be 1 to %d", keys->path,
            (long long)t->segments, SEGMENTS_MOST);
  return NEAP_OK;
}

static neap_status settle_bert(const struct model_keys *keys, struct transformer *t) {
  const char *places = keys_text(keys, (struct key){"position_embedding_type", NULL});
  TRY(read_segments(keys, t));
  RETURN_IF(places != NULL && strcmp(places, "absolute") != 0, NEAP_UNSUPPORTED,
            "%s: config.json: 'position_embedding_type' is '%s'; only 'absolute' is supported", keys->path,
            places);
  return NEAP_OK;
}

/* Reads the windows of attention, whose even width is that of both sides together: one, or one for each
 * layer. */
static neap_status read_windows(const struct model_keys *keys, struct transformer *t) {
  enum { USUAL = 512 };
  const json_t *field = keys_find(keys, "attention_window");
  const bool list = json_is_array(field);
  int64_t *windows = region_alloc(keys->region, (size_t)t->layers, sizeof *windows);
  RETURN_IF(windows == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory for its windows", keys->path);
  RETURN_IF(list && json_array_size(field) != (size_t)t->layers, NEAP_BAD_FORMAT,
            "%s: config.json: 'attention_window' has %zu numbers for %lld layers", keys->path,
            json_array_size(field), (long long)t->layers);
  for (int64_t i = 0; i < t->layers; i++) {
    const json_t *one = list ? json_array_get(field, (size_t)i) : field;
    const int64_t width = field == NULL ? USUAL : json_integer_value(one);
    RETURN_IF(width < 2 || width > INT32_MAX || width % 2 != 0, NEAP_BAD_FORMAT,
              "%s: config.json: 'attention_window' has %lld for layer %lld; it must be even, 2 or more",
              keys->path, (long long)width, (long long)i);
    windows[i] = width / 2 + 1;
  }
  t->windows = windows;
  return NEAP_OK;
}

/* The places of the first rows of the table are for padding: a text begins behind them. */
static neap_status settle_longformer(const struct model_keys *keys, struct transformer *t) {
  int64_t padding = 1;
  keys_integer(keys, (struct key){"pad_token_id", NULL}, &padding);
  RETURN_IF(padding < 0 || padding >= t->places - 1, NEAP_BAD_FORMAT,
            "%s: config.json: 'pad_token_id' is %lld; it must be 0 or more, and leave places of the %lld "
            "behind it",
            keys->path, (long long)padding, (long long)t->places);
  RETURN_IF(t->activation != ACTIVATION_GELU, NEAP_UNSUPPORTED,
            "%s: config.json: the activation of this family is 'gelu'; no other is supported", keys->path);
  t->first_place = padding + 1;
  t->places -= t->first_place;
  TRY(read_segments(keys, t));
  return read_windows(keys, t);
}

/* Reads a cap from config.json or a GGUF file; 0 if config.json has null. */
static neap_status read_cap(const struct model_keys *keys, struct key key, float usual, float *cap) {
  char name[128];
  const bool null = keys->config != NULL && json_is_null(json_object_get(keys->config, key.config));
  *cap = null ? 0 : keys_real_or(keys, key, usual);
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

static neap_status read_score_scale(const struct model_keys *keys, struct transformer *t) {
  const float by = keys_real_or(keys, (struct key){"query_pre_attn_scalar", NULL},
                                keys->config != NULL ? 256 : (float)implied_score_scalar(t));
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
  t->local_base = keys_real_or(
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

#define BERT_NAMES(prefix)                                                                                   \
  [PART_TOKEN] = {prefix ".embeddings.word_embeddings"},                                                     \
  [PART_POSITION] = {prefix ".embeddings.position_embeddings"},                                              \
  [PART_SEGMENT] = {prefix ".embeddings.token_type_embeddings"},                                             \
  [PART_EMBEDDING_NORM] = {prefix ".embeddings.LayerNorm"},                                                  \
  [PART_ATTENTION_NORM] = {prefix ".encoder.layer.%d.attention.output.LayerNorm"},                           \
  [PART_QUERY] = {prefix ".encoder.layer.%d.attention.self.query", true},                                    \
  [PART_KEY] = {prefix ".encoder.layer.%d.attention.self.key", true},                                        \
  [PART_VALUE] = {prefix ".encoder.layer.%d.attention.self.value", true},                                    \
  [PART_ATTENTION_OUT] = {prefix ".encoder.layer.%d.attention.output.dense", true},                          \
  [PART_FEED_NORM] = {prefix ".encoder.layer.%d.output.LayerNorm"},                                          \
  [PART_UP] = {prefix ".encoder.layer.%d.intermediate.dense", true},                                         \
  [PART_DOWN] = {prefix ".encoder.layer.%d.output.dense", true}

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
     .kind = NEAP_TASK_TOKENS,
     .layers = {GATED_DECODER, .parts = {LLAMA_NAMES}},
     .gguf_names = {LLAMA_GGUF_NAMES},
     .permuted = true,
     .settle = settle_llama},
    {.model_type = "mistral",
     .class_name = "MistralForCausalLM",
     .architecture = "llama",
     .kind = NEAP_TASK_TOKENS,
     .layers = {GATED_DECODER, .parts = {LLAMA_NAMES}},
     .gguf_names = {LLAMA_GGUF_NAMES},
     .permuted = true,
     .settle = settle_mistral},
    {.model_type = "qwen2",
     .class_name = "Qwen2ForCausalLM",
     .architecture = "qwen2",
     .kind = NEAP_TASK_TOKENS,
     .layers = {GATED_DECODER, .parts = {LLAMA_NAMES}},
     .gguf_names = {LLAMA_GGUF_NAMES},
     .settle = settle_qwen2},
    {.model_type = "qwen3",
     .class_name = "Qwen3ForCausalLM",
     .architecture = "qwen3",
     .kind = NEAP_TASK_TOKENS,
     .layers = {GATED_DECODER, .parts = {LLAMA_NAMES, HEAD_NORMS}},
     .gguf_names = {LLAMA_GGUF_NAMES, GGUF_HEAD_NORMS}},
    {.model_type = "gemma",
     .class_name = "GemmaForCausalLM",
     .architecture = "gemma",
     .kind = NEAP_TASK_TOKENS,
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
     .kind = NEAP_TASK_TOKENS,
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
     .kind = NEAP_TASK_TOKENS,
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
     .kind = NEAP_TASK_TOKENS,
     .layers = {GATED_DECODER, .tied = true, .rotary_base = 2e6f, .still_every = 4, .parts = {LLAMA_NAMES}},
     .gguf_names = {LLAMA_GGUF_NAMES},
     .permuted = true,
     .settle = settle_smollm3},
    {.model_type = "phi3",
     .class_name = "Phi3ForCausalLM",
     .architecture = "phi3",
     .kind = NEAP_TASK_TOKENS,
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
     .kind = NEAP_TASK_TOKENS,
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
     .kind = NEAP_TASK_TOKENS,
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
     .kind = NEAP_TASK_TOKENS,
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
     .kind = NEAP_TASK_TOKENS,
     .layers = {GATED_DECODER, .experts_normalised = true,
                .parts = {STACK_NAMES, INPUT_NORM, FEED_NORM, HEAD_NORMS,
                          EXPERT_NAMES("mlp", "gate_proj", "up_proj", "down_proj")}},
     .gguf_names = {GGUF_STACK, GGUF_NORMS, GGUF_HEAD_NORMS, GGUF_EXPERTS},
     .settle = settle_qwen3_moe},
    {.model_type = "gpt2",
     .class_name = "GPT2LMHeadModel",
     .short_keys = true,
     .architecture = "gpt2",
     .kind = NEAP_TASK_TOKENS,
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
     .kind = NEAP_TASK_TOKENS,
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
     .kind = NEAP_TASK_MASKED,
     .prefix = "bert.",
     .layers = {.activation = ACTIVATION_GELU,
                .epsilon = 1e-12f,
                .tied = true,
                .norm_last = true,
                .parts =
                    {BERT_NAMES("bert"), [PART_HEAD_DENSE] = {"cls.predictions.transform.dense", true},
                     [PART_HEAD_NORM] = {"cls.predictions.transform.LayerNorm"},
                     [PART_HEAD] = {"cls.predictions", true}, [PART_POOLER] = {"bert.pooler.dense", true},
                     [PART_CLASSIFIER] = {"classifier", true}}},
     .settle = settle_bert},
    {.model_type = "longformer",
     .class_name = "LongformerForMaskedLM",
     .classifier_class = "LongformerForSequenceClassification",
     .kind = NEAP_TASK_MASKED,
     .prefix = "longformer.",
     .layers = {.activation = ACTIVATION_GELU,
                .epsilon = 1e-12f,
                .tied = true,
                .norm_last = true,
                .first_global = true,
                .parts =
                    {BERT_NAMES("longformer"),
                     [PART_GLOBAL_QUERY] = {"longformer.encoder.layer.%d.attention.self.query_global", true},
                     [PART_GLOBAL_KEY] = {"longformer.encoder.layer.%d.attention.self.key_global", true},
                     [PART_GLOBAL_VALUE] = {"longformer.encoder.layer.%d.attention.self.value_global", true},
                     [PART_HEAD_DENSE] = {"lm_head.dense", true}, [PART_HEAD_NORM] = {"lm_head.layer_norm"},
                     [PART_HEAD] = {"lm_head", true}, [PART_POOLER] = {"classifier.dense", true},
                     [PART_CLASSIFIER] = {"classifier.out_proj", true}}},
     .settle = settle_longformer},
    {.model_type = "vit",
     .class_name = "ViTForImageClassification",
     .classifier_class = "ViTForImageClassification",
     .kind = NEAP_TASK_IMAGES,
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
  TRY(fields_read_sizes(keys, t));
  TRY(fields_read_activation(keys, t));
  t->epsilon =
      keys_real_or(keys,
                   (struct key){"rms_norm_eps|layer_norm_epsilon|layer_norm_eps",
                                t->rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon"},
                   t->epsilon);
  *context = 0;
  keys_integer(keys, (struct key){"max_position_embeddings|n_positions", "context_length"}, context);
  if (t->parts[PART_PATCH].name != NULL) TRY(fields_read_image(keys, t, context));
  if (t->parts[PART_POSITION].name != NULL)
    t->places = *context;
  else
    TRY(fields_read_rotary(keys, (*family)->part_turned, t));
  RETURN_IF(*context < 1 || *context > INT32_MAX, NEAP_BAD_FORMAT,
            "%s: the context length is missing, or not a number of 1 or more", keys->path);
  t->tied = keys_flag(keys, "tie_word_embeddings", t->tied);
  if ((*family)->settle != NULL) TRY((*family)->settle(keys, t));
  if (t->places > 0) *context = t->places;
  TRY(keys_check_fixed(keys, (*family)->model_type));
  return transformer_check(keys->path, t);
}
