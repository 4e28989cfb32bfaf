/* A GGUF file of a small Llama, with a tokenizer and a chat template. Its matrices have 64 KiB. */
#ifndef NEAP_TESTS_SMALL_LLAMA_H
#define NEAP_TESTS_SMALL_LLAMA_H

#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "formats/gguf.h"
#include "testing.h"

enum { LLAMA_WIDTH = 128, LLAMA_TOKENS = 264, LLAMA_TENSORS = 12 };

/* A Llama of one layer; names in a GGUF file and in a folder. */
static const struct {
  const char *gguf, *folder;
  int rank;
  int64_t rows;
} llama_shapes[LLAMA_TENSORS] = {
    {"token_embd", "model.embed_tokens", 2, LLAMA_TOKENS},
    {"output", "lm_head", 2, LLAMA_TOKENS},
    {"output_norm", "model.norm", 1, LLAMA_WIDTH},
    {"blk.0.attn_norm", "model.layers.0.input_layernorm", 1, LLAMA_WIDTH},
    {"blk.0.ffn_norm", "model.layers.0.post_attention_layernorm", 1, LLAMA_WIDTH},
    {"blk.0.attn_q", "model.layers.0.self_attn.q_proj", 2, LLAMA_WIDTH},
    {"blk.0.attn_k", "model.layers.0.self_attn.k_proj", 2, LLAMA_WIDTH},
    {"blk.0.attn_v", "model.layers.0.self_attn.v_proj", 2, LLAMA_WIDTH},
    {"blk.0.attn_output", "model.layers.0.self_attn.o_proj", 2, LLAMA_WIDTH},
    {"blk.0.ffn_gate", "model.layers.0.mlp.gate_proj", 2, LLAMA_WIDTH},
    {"blk.0.ffn_up", "model.layers.0.mlp.up_proj", 2, LLAMA_WIDTH},
    {"blk.0.ffn_down", "model.layers.0.mlp.down_proj", 2, LLAMA_WIDTH}};

/* Weights are drawn by a seed, the context. */
static inline neap_status give_llama(void *context, int32_t index, float *data) {
  const int64_t elements = llama_shapes[index].rows * (llama_shapes[index].rank > 1 ? LLAMA_WIDTH : 1);
  for (int64_t i = 0; i < elements; i++) {
    uint32_t words[4];
    random_philox(*(const uint64_t *)context, (uint64_t)index, (uint64_t)i, words);
    data[i] = llama_shapes[index].rank > 1 ? 0.2f * random_uniform(words[0]) - 0.1f : 1;
  }
  return NEAP_OK;
}

static const char chatml[] =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif "
    "%}";

static inline void write_llama(const char *to, uint64_t seed) {
  char names[LLAMA_TENSORS][64], words[LLAMA_TOKENS][16];
  const char *texts[LLAMA_TOKENS];
  size_t lengths[LLAMA_TOKENS];
  int32_t kinds[LLAMA_TOKENS];
  float scores[LLAMA_TOKENS];
  struct gguf_tensor tensors[LLAMA_TENSORS];
  for (int i = 0; i < LLAMA_TOKENS; i++) {
    snprintf(words[i], sizeof words[i], i < 3 ? "<%d>" : i < 259 ? "<0x%02X>" : "w%d", i < 3 ? i : i - 3);
    texts[i] = words[i];
    lengths[i] = strlen(words[i]);
    kinds[i] = i == 0 ? 2 : i < 3 ? 3 : i < 259 ? 6 : 1;
    scores[i] = (float)-i;
  }
  for (int i = 0; i < LLAMA_TENSORS; i++) {
    snprintf(names[i], sizeof names[i], "%s.weight", llama_shapes[i].gguf);
    tensors[i] =
        (struct gguf_tensor){.name = names[i],
                             .dtype = NEAP_F32,
                             .rank = llama_shapes[i].rank,
                             .dims = {llama_shapes[i].rows, LLAMA_WIDTH},
                             .elements = llama_shapes[i].rows * (llama_shapes[i].rank > 1 ? LLAMA_WIDTH : 1)};
  }
  const struct gguf_pair pairs[] = {
      gguf_pair_text("general.architecture", "llama"),
      gguf_pair_u32("llama.block_count", 1),
      gguf_pair_u32("llama.context_length", 64),
      gguf_pair_u32("llama.embedding_length", LLAMA_WIDTH),
      gguf_pair_u32("llama.feed_forward_length", LLAMA_WIDTH),
      gguf_pair_u32("llama.attention.head_count", 2),
      gguf_pair_f32("llama.attention.layer_norm_rms_epsilon", 1e-5f),
      gguf_pair_text("tokenizer.ggml.model", "llama"),
      gguf_pair_strings("tokenizer.ggml.tokens", (struct gguf_strings){LLAMA_TOKENS, texts, lengths}),
      gguf_pair_array("tokenizer.ggml.scores", GGUF_F32, LLAMA_TOKENS, scores),
      gguf_pair_array("tokenizer.ggml.token_type", GGUF_I32, LLAMA_TOKENS, kinds),
      gguf_pair_u32("tokenizer.ggml.unknown_token_id", 0),
      gguf_pair_text("tokenizer.chat_template", chatml)};
  ASSERT_OK(gguf_save(to, &(struct gguf_content){.tensors = tensors,
                                                 .tensor_count = LLAMA_TENSORS,
                                                 .pairs = pairs,
                                                 .pair_count = sizeof pairs / sizeof *pairs,
                                                 .read = give_llama,
                                                 .context = &seed}));
}

#endif
