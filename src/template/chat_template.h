/* Chat templates: make one text of the messages of a conversation.
 *
 * Models publish theirs as a program in Jinja, which jinja_eval.h runs. What a name stands for is such a
 * program, too (chat_rows.h).
 *
 * What the model has to write itself is found from what is rendered. Contents keep their places in the text,
 * so that an answer's is known, whatever the program does with it. Where the answer begins and ends around it
 * is found once, from short conversations. It begins where the text with a prompt for an answer ends, as in
 * "<|im_start|>assistant\n", or no longer agrees with that of the answer. It ends with what is behind the
 * content up to a blank, whether or not another turn follows; or else as the last turn does. Where the
 * program has {% generation %} marks, they say it. */
#ifndef NEAP_TEMPLATE_CHAT_TEMPLATE_H
#define NEAP_TEMPLATE_CHAT_TEMPLATE_H

#include "base/vector.h"

enum chat_role { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT, CHAT_TOOL, CHAT_ROLES };

extern const char *const chat_role_names[CHAT_ROLES]; /* "system", "user", "assistant", "tool" */

/* UTF-8; the bytes are borrowed and need no 0 at their end. */
struct chat_message {
  enum chat_role role;
  const char *content;
  size_t length;
};

struct chat_template {
  const char *name; /* of the row that renders the same; NULL: the program is the model's own; a constant */
  bool named;       /* it was asked for by its name */
  bool instructs;   /* a user's turn begins with "### Instruction:" */
  struct jinja_program *program;
  /* Around an answer. "\1" and "\2" mean the tokens that begin and end a sequence. */
  char *before; /* the prompt for it */
  char *lead;   /* what the assistant writes before its content */
  char *end;    /* and behind it */
  char *stop;   /* the first token of that; NULL: the one that ends a sequence */
};

/* Takes a program in Jinja. `file` is for messages. NEAP_UNSUPPORTED, NEAP_INVALID_ARGUMENT, NEAP_TOO_LARGE:
 * it has what is not supported, or is no Jinja, or renders none of the usual conversations; the message has
 * the place in it, and the names for chat_template_named. Free with chat_template_free. */
neap_status chat_template_find(const char *jinja, const char *file, struct chat_template **out);

/* Finds the template of this name. NEAP_INVALID_ARGUMENT: none has it; the message lists the names. */
neap_status chat_template_named(const char *name, struct chat_template **out);
void chat_template_free(struct chat_template *chat);

/* Returns the name of row `index`, from 0 on; NULL after the last. */
const char *chat_template_name_at(int index);

/* Returns the text between the instruction and the input of a record that has both. */
const char *chat_template_input(const struct chat_template *chat);

/* The texts around the content of an assistant's turn that the assistant writes itself; of the template. */
struct chat_answer {
  const char *lead; /* before it; "": nothing */
  const char *end;  /* the text of the token that ends the turn; NULL: the end-of-sequence token */
};
struct chat_answer chat_template_answer(const struct chat_template *chat);

/* The texts of the beginning- and end-of-sequence tokens; NULL: the model has none. */
struct chat_ends {
  const char *bos, *eos;
};

struct chat_span {
  size_t begin, end; /* bytes from begin to before end */
  size_t turn;       /* of the assistant, from 0, that it is of */
};

/* A rendered conversation. Zeroed at first; free with chat_text_free. */
struct chat_text {
  VECTOR(char) text;
  VECTOR(struct chat_span) spans;
};

/* Renders messages [count], count 1 or more, by the program, and replaces `out`. Spans are the texts that the
 * model has to write itself, rising: one for each assistant's turn, or those that the program marks.
 * `generate` appends the prompt for the assistant's next turn.
 *
 * NEAP_INVALID_ARGUMENT: there are no messages, or the program refuses them. NEAP_UNSUPPORTED: it reaches
 * what is not supported, or leaves a message out; that of a system at the beginning may be. */
neap_status chat_render(const struct chat_template *chat, const struct chat_message *messages, size_t count,
                        bool generate, struct chat_ends ends, struct chat_text *out);
void chat_text_free(struct chat_text *text);

#endif
