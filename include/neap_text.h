/* Text of trained models: generation, conversations, translation, BLEU. */
#ifndef NEAP_TEXT_H
#define NEAP_TEXT_H

#include "neap_session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The text to make. Only model, folder and tokens must be set: this gives the most likely text. */
typedef struct neap_generate_options {
  const char *model;        /* a language model */
  const neap_model *opened; /* the model, if the caller has it open; NULL: it is opened by its name */
  neap_model_options shape; /* as it was trained; zeros: the usual length, and the tokenizer's vocabulary */
  const char *folder;       /* of a checkpoint; or instead: */
  bool best;                /* use the weights that keep_best kept */
  const char *weights, *tokenizer; /* a file of safetensors, a tokenizer file */
  const char *prompt;              /* beginning of the text; NULL or "": the beginning of a line */
  int64_t tokens;                  /* the most to make; fewer if the model has no places for them */
  double temperature;              /* divides logits; 0: always the most likely token */
  int64_t top_k;                   /* chooses a token among this number of the most likely; 0: among all */
  uint64_t seed;                   /* with the place in the text determines what is chosen */
  bool special;                    /* special tokens may also be chosen; they have no text */
  neap_session_options session;    /* only budget, threads, backend and precision are used */
  /* Called with each piece of the text as it is made, without the prompt; pieces are complete characters if
   * they are UTF-8. Bytes are borrowed, without a 0 at the end. If it returns other than 0, generation ends
   * with NEAP_INTERRUPTED. May be NULL. */
  int (*text)(void *context, const char *bytes, size_t length);
  void *context;
} neap_generate_options;

typedef struct neap_generate_result {
  int64_t prompt_tokens, tokens; /* read; made */
  double seconds;                /* for both */
  neap_memory memory;            /* weights, state left by earlier tokens, the arena of one token */
  uint64_t smallest_budget;      /* with NEAP_OVER_BUDGET: a budget that suffices */
} neap_generate_result;

/* Makes text, token by token; the time of a token does not depend on the tokens before it. The same options
 * give the same text. NEAP_BAD_FORMAT: the prompt has a character that the tokenizer does not know; the
 * message names its line and column. */
neap_status neap_generate(const neap_generate_options *options, neap_generate_result *result);

/* Several prompts of one model, which is opened once. What a prompt has in common with another at its
 * beginning is not read again: a transformer goes back to where they part, a recurrent model to the last of
 * the states that it keeps along the prompts, where neap_cache_plan finds that they save most (arXiv
 * 2605.05219). */
typedef struct neap_prompts_options {
  neap_generate_options generate; /* how each text is made; its prompt and callback are not used */
  const char *const *prompts;
  int64_t count;
  int64_t states; /* of a recurrent model: the most that are kept at a time, within the budget; 0: 16;
                     negative: none */
} neap_prompts_options;

typedef struct neap_prompt_result {
  const char *text; /* without the prompt, ended by a 0 */
  size_t length;
  /* The prompt's tokens, those of them that were not read again, and the tokens that were made. */
  int64_t prompt_tokens, kept_tokens, tokens;
} neap_prompt_result;

typedef struct neap_prompts_result {
  neap_prompt_result *of; /* [count] */
  int64_t count, states;  /* states: that were kept at a time */
  uint64_t state_bytes;   /* of each; within the budget beside the memory */
  double seconds;
  neap_memory memory;
  uint64_t smallest_budget; /* with NEAP_OVER_BUDGET: a budget that suffices */
} neap_prompts_result;

/* Makes the text that neap_generate makes of each prompt. Free the result with neap_prompts_result_free,
 * whatever the status. Errors are those of neap_generate; the message names the prompt by its number, from 1
 * on. */
neap_status neap_generate_prompts(const neap_prompts_options *options, neap_prompts_result *result);
void neap_prompts_result_free(neap_prompts_result *result); /* NULL is allowed */

/* A conversation with a language model. What the options point to is borrowed until neap_chat_close. */
typedef struct neap_chat neap_chat;
typedef struct neap_chat_options {
  /* The model, how tokens are chosen, and the callback for text. The prompt is not used. tokens: most of an
   * answer; 0: 512. text: called with each piece of an answer; if it returns other than 0, the answer
   * ends. */
  neap_generate_options generate;
  const char *template_name; /* "chatml", "llama3" and others; NULL: the model's own */
  const char *
      usual_template; /* used if no template is named and the model has no template; NULL: that is an error */
  const char *system; /* text before the first turn; NULL: the template's own */
  int64_t length;     /* most tokens of a conversation; 0: the places of the model, but no more than 2048 */
  /* Called with generate.context before each token that is read or made. If it returns other than 0, the
   * answer ends. May be NULL. */
  int (*stop)(void *context);
} neap_chat_options;

typedef struct neap_chat_turn {
  const char *text; /* the answer, ended by a 0; borrowed until the next call */
  size_t length;    /* its bytes */
  /* Tokens of the conversation before the answer; how many of them were already read; tokens of the
   * answer. */
  int64_t prompt_tokens, kept_tokens, tokens;
  double seconds;  /* for reading the new tokens, and for the answer */
  int64_t dropped; /* oldest turns left out of the conversation, permanently, to make room */
  bool ended;      /* the model ended the answer; otherwise its tokens or room ran out, or it was stopped */
  bool stopped;    /* on request */
  neap_memory memory; /* weights, state left by earlier tokens, the arena of one token */
} neap_chat_turn;

/* Opens a conversation. Free with neap_chat_close. NEAP_INVALID_ARGUMENT: the model has no chat template and
 * none is named, or the length is more than the model has places for. NEAP_OVER_BUDGET: `*smallest_budget`
 * (may be NULL) would suffice. On failure no conversation is opened. */
neap_status neap_chat_open(const neap_chat_options *options, uint64_t *smallest_budget, neap_chat **chat);

/* Adds `text` (ended by a 0) as the user's turn, and makes the answer: the one that neap_generate would give
 * for the complete conversation as the template renders it. Tokens already read are not read again. If less
 * than generate.tokens or a quarter of the length is left, drops the oldest turns after the system's text. On
 * failure the conversation is unchanged. NEAP_INVALID_ARGUMENT: the text is too long, or the template does
 * not render such a conversation. NEAP_BAD_FORMAT: the tokenizer does not know a character. */
neap_status neap_chat_say(neap_chat *chat, const char *text, neap_chat_turn *turn);
void neap_chat_close(neap_chat *chat); /* NULL is allowed */

/* Options of translation, by beam search. Only model, checkpoint, beam and line must be set. */
enum { NEAP_MAX_BEAM = 256 };
typedef struct neap_translate_options {
  const char *model;        /* of pairs of sequences, as it was trained: "transformer-64" */
  const neap_model *opened; /* the model, if the caller has it open; NULL: it is opened by its name */
  const char *checkpoint;   /* the folder that training wrote */
  const char *weights;      /* a file of safetensors instead of the checkpoint's weights; NULL: those */
  int32_t average;          /* instead: the mean of this number of kept weights, the latest; 0: no mean */
  bool best;                /* instead: the weights that keep_best kept */
  const char *data; /* source of the tokenizer if the folder has no tokenizer.json; NULL: it must have one */
  neap_model_options
      shape; /* as it was trained; batch: the most lines translated together, 0: by their length */
  neap_session_options session; /* only budget, threads, backend and precision are used */
  int32_t beam;                 /* hypotheses, 1 to NEAP_MAX_BEAM */
  double length_penalty;        /* scores are divided by tokens^this; 0: not divided */
  /* A translation has at most factor x tokens of its source, </s> counted, + offset tokens, and </s>. */
  double length_factor, length_offset;
  /* Called with the translations, in the order of the lines, when all are done: UTF-8 without ends of lines,
   * borrowed, and the score: natural logarithms of probabilities. If it returns other than 0:
   * NEAP_INTERRUPTED. */
  int (*line)(void *context, size_t index, const char *text, double score);
  void *context;
} neap_translate_options;

typedef struct neap_translate_result {
  int64_t tokens, steps;    /* of the translations, with </s>; number of runs of the decoder */
  neap_memory memory;       /* of the session that used most; without lines and one step's logits */
  uint64_t smallest_budget; /* with NEAP_OVER_BUDGET: a budget that suffices for a line at a time */
} neap_translate_result;

/* Translates lines [count] of UTF-8; blank lines have an empty translation. Other lines of a batch do not
 * change a translation, nor does the budget, as long as as many lines fit together. NEAP_DIVERGED: a line has
 * no translation, because the model's numbers are not finite. */
neap_status neap_translate(const neap_translate_options *options, const char *const *lines, size_t count,
                           neap_translate_result *result);

/* BLEU of a corpus (Papineni et al. 2002) as sacreBLEU computes it (Post 2018): one reference for each line,
 * case-sensitive, smoothing "exp". 13A: separates punctuation, for normal text. NONE: words are separated by
 * white space, for text that is tokenized. */
typedef enum neap_bleu_tokenization { NEAP_BLEU_13A, NEAP_BLEU_NONE } neap_bleu_tokenization;
typedef struct neap_bleu {
  double score, precisions[4];                 /* 0 to 100; of one to four words */
  double brevity;                              /* the penalty, a factor of 0 to 1 */
  int64_t hypothesis_length, reference_length; /* words */
} neap_bleu;
/* Computes BLEU. NEAP_INVALID_ARGUMENT: there are no lines. NEAP_BAD_FORMAT: a line is not UTF-8. */
neap_status neap_bleu_score(const char *const *hypotheses, const char *const *references, size_t count,
                            neap_bleu_tokenization tokenization, neap_bleu *result);

#ifdef __cplusplus
}
#endif

#endif
