/* Text of trained models: generation, conversations, translation, BLEU. */
#ifndef NEAP_TEXT_H
#define NEAP_TEXT_H

#include "neap_session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What text to make. Zeroed but for model, folder and tokens it is usable: the most likely text. */
typedef struct neap_generate_options {
  const char *model;        /* a language model */
  neap_model_options shape; /* as it was trained; zeros: the usual length, the tokenizer's vocabulary */
  const char *folder;       /* a checkpoint's; or, of another place: */
  bool best;                /* of its weights those that keep_best kept */
  const char *weights, *tokenizer; /* a file of safetensors, a tokenizer file */
  const char *prompt;              /* what the text goes on from; NULL or "": the beginning of a line */
  int64_t tokens;                  /* to make at most; fewer where the model has no places for them */
  double temperature;              /* logits are divided by it; 0: always the most likely token */
  int64_t top_k;                   /* a token is chosen from this number of the most likely; 0: from all */
  uint64_t seed;                   /* with the place in the text it decides what is chosen */
  bool special;                    /* special tokens may be chosen, too; they mean no text */
  neap_session_options session;    /* budget, threads, backend, precision; the rest does not matter */
  /* Called with each piece of the text as it comes, prompt excluded: whole characters, where they are UTF-8.
   * Borrowed bytes, without a 0. Not 0: stop, with NEAP_INTERRUPTED. May be NULL. */
  int (*text)(void *context, const char *bytes, size_t length);
  void *context;
} neap_generate_options;

typedef struct neap_generate_result {
  int64_t prompt_tokens, tokens; /* read; made */
  double seconds;                /* for both */
  neap_memory memory;            /* weights, what earlier tokens left, the arena of one token */
  uint64_t smallest_budget;      /* with NEAP_OVER_BUDGET: that is enough */
} neap_generate_result;

/* Makes text, token by token: a token takes the time of one, whatever went before it. The same options give
 * the same text. NEAP_BAD_FORMAT: the prompt has a character that the tokenizer does not know; the message
 * names its line and column. */
neap_status neap_generate(const neap_generate_options *options, neap_generate_result *result);

/* A conversation with a language model. What the options point to is borrowed until neap_chat_close. */
typedef struct neap_chat neap_chat;
typedef struct neap_chat_options {
  /* The model, how tokens are chosen, and who takes the text. The prompt does not matter. tokens: of an
   * answer at most; 0: 512. text: called with each piece of an answer; not 0: the answer ends there. */
  neap_generate_options generate;
  const char *template_name;  /* "chatml", "llama3" and others; NULL: the model's own */
  const char *usual_template; /* where none is named and the model has none; NULL: that is an error */
  const char *system;         /* what comes before the first turn; NULL: what the template has there */
  int64_t length; /* tokens of a conversation at most; 0: the places of the model, but no more than 2048 */
  /* Asked with generate.context before each token that is read or made. Not 0: the answer ends there. May be
   * NULL. */
  int (*stop)(void *context);
} neap_chat_options;

typedef struct neap_chat_turn {
  const char *text; /* the answer, a 0 behind it; borrowed until the next call */
  size_t length;    /* its bytes */
  /* Tokens of the conversation before the answer; those of them that had been read already; of the answer. */
  int64_t prompt_tokens, kept_tokens, tokens;
  double seconds;     /* for reading what was new, and for the answer */
  int64_t dropped;    /* the oldest turns that were left out of the conversation, for good, to make room */
  bool ended;         /* the model ended the answer; else its tokens or its room did, or it was stopped */
  bool stopped;       /* on request */
  neap_memory memory; /* weights, what earlier tokens left, the arena of one token */
} neap_chat_turn;

/* Opens a conversation. Free with neap_chat_close. NEAP_INVALID_ARGUMENT: the model has no chat template and
 * none is named, or the length is more than the model has places for. NEAP_OVER_BUDGET: `*smallest_budget`
 * (may be NULL) would do. On failure none exists. */
neap_status neap_chat_open(const neap_chat_options *options, uint64_t *smallest_budget, neap_chat **chat);

/* Says `text` (ended by a 0) as the user, and makes the answer. The answer is the one that neap_generate
 * would give to the whole conversation as the template renders it; what has been read of it is not read
 * again. Where the conversation leaves less than generate.tokens or a quarter of its length, the oldest turns
 * behind the system's text are dropped. On failure the conversation is as it was. NEAP_INVALID_ARGUMENT: the
 * text is too long, or the template does not render such a conversation. NEAP_BAD_FORMAT: the tokenizer does
 * not know a character. */
neap_status neap_chat_say(neap_chat *chat, const char *text, neap_chat_turn *turn);
void neap_chat_close(neap_chat *chat); /* NULL is allowed */

/* What to translate with, by beam search. Zeroed but for model, checkpoint, beam and line it is usable. */
enum { NEAP_MAX_BEAM = 256 };
typedef struct neap_translate_options {
  const char *model;        /* of pairs of sequences, as it was trained: "transformer-64" */
  const char *checkpoint;   /* the folder that training wrote */
  const char *weights;      /* a file of safetensors in place of the checkpoint's; NULL: those */
  int32_t average;          /* instead: the mean of this number of kept weights, the latest; 0: no mean */
  bool best;                /* instead: those that keep_best kept */
  const char *data;         /* learned from where the folder has no tokenizer.json; NULL: it must have one */
  neap_model_options shape; /* as it was trained; batch: the most lines together, 0: by their length */
  neap_session_options session; /* budget, threads, backend, precision; the rest does not matter */
  int32_t beam;                 /* hypotheses, 1 to NEAP_MAX_BEAM */
  double length_penalty;        /* scores are divided by tokens^this; 0: they are not */
  /* A translation has at most factor x tokens of its source, </s> counted, + offset tokens, and </s>. */
  double length_factor, length_offset;
  /* Takes the translations, in the order of the lines, when all are there: UTF-8 without ends of lines, which
   * is borrowed, and the score: natural logarithms of probabilities. Not 0: NEAP_INTERRUPTED. */
  int (*line)(void *context, size_t index, const char *text, double score);
  void *context;
} neap_translate_options;

typedef struct neap_translate_result {
  int64_t tokens, steps;    /* of the translations, with </s>; how often the decoder was run */
  neap_memory memory;       /* of the session that took most; what is outside: lines and one step's logits */
  uint64_t smallest_budget; /* with NEAP_OVER_BUDGET: that is enough for a line at a time */
} neap_translate_result;

/* Translates lines [count] of UTF-8; of blank ones the translation is empty. The other lines of
 * a batch do not change a line's translation, nor does the budget while as many lines fit together.
 * NEAP_DIVERGED: a line has no translation, since the model's numbers are not finite. */
neap_status neap_translate(const neap_translate_options *options, const char *const *lines, size_t count,
                           neap_translate_result *result);

/* BLEU of a corpus (Papineni et al. 2002) as sacreBLEU counts it (Post 2018): one reference for each line,
 * case kept, smoothing "exp". 13A: punctuation apart, for text as it is written. NONE: words are what white
 * space separates, for text that is tokenized. */
typedef enum neap_bleu_tokenization { NEAP_BLEU_13A, NEAP_BLEU_NONE } neap_bleu_tokenization;
typedef struct neap_bleu {
  double score, precisions[4];                 /* 0 to 100; of one to four words */
  double brevity;                              /* the penalty, a factor of 0 to 1 */
  int64_t hypothesis_length, reference_length; /* words */
} neap_bleu;
/* NEAP_INVALID_ARGUMENT: there are no lines. NEAP_BAD_FORMAT: one is not UTF-8. */
neap_status neap_bleu_score(const char *const *hypotheses, const char *const *references, size_t count,
                            neap_bleu_tokenization tokenization, neap_bleu *result);

#ifdef __cplusplus
}
#endif

#endif
