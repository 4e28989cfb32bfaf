/* Chat templates: make one text of the messages of a conversation.
 *
 * Models publish their template as a program in Jinja. Each row of chat_template.c renders one family of them
 * and is found by marks in the program's text. Details that differ inside a family (a default system text)
 * are read from the program. */
#ifndef NEAP_TEXT_CHAT_TEMPLATE_H
#define NEAP_TEXT_CHAT_TEMPLATE_H

#include "base/vector.h"

enum chat_role { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT, CHAT_TOOL, CHAT_ROLES };

extern const char *const chat_role_names[CHAT_ROLES]; /* "system", "user", "assistant", "tool" */

/* UTF-8; the bytes are borrowed and need no 0 at their end. */
struct chat_message {
  enum chat_role role;
  const char *content;
  size_t length;
};

struct chat_format; /* a row */

struct chat_template {
  const struct chat_format *format;
  const char *name; /* of the row; a constant */
  char *system;     /* the system text if the first message is not from the system; NULL: none */
  char *date;       /* today's date as the system text has it; NULL: it has none */
  bool bos;         /* the text begins with the beginning-of-sequence token */
};

/* Finds the template of a program in Jinja. `file` is for messages. NEAP_UNSUPPORTED: no row renders it, and
 * the message lists the names for chat_template_named. Free with chat_template_free. */
neap_status chat_template_find(const char *jinja, const char *file, struct chat_template **out);

/* Finds the template of this name. NEAP_INVALID_ARGUMENT: none has it; the message lists the names. */
neap_status chat_template_named(const char *name, struct chat_template **out);
void chat_template_free(struct chat_template *chat);

/* Returns the name of row `index`, from 0 on; NULL after the last. */
const char *chat_template_name_at(int index);

/* Returns the text between the instruction and the input of a record that has both. */
const char *chat_template_input(const struct chat_template *chat);

/* The texts around the content of an assistant's turn that the assistant writes itself; constants. */
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
};

/* A rendered conversation. Zeroed at first; free with chat_text_free. */
struct chat_text {
  VECTOR(char) text;
  VECTOR(struct chat_span) spans;
};

/* Renders messages [count], count 1 or more, as the template's own program does, and replaces `out`. Spans
 * are the texts that the model has to write itself, one for each assistant's turn, rising: from after the
 * generation prompt to the end of the token that ends the turn. `generate` appends the prompt for the
 * assistant's next turn.
 *
 * NEAP_UNSUPPORTED: the template has no turn for a message's role. NEAP_INVALID_ARGUMENT: there are no
 * messages, or the template wants users and assistants in turns and they are not. Messages number the message
 * from 1. */
neap_status chat_render(const struct chat_template *chat, const struct chat_message *messages, size_t count,
                        bool generate, struct chat_ends ends, struct chat_text *out);
void chat_text_free(struct chat_text *text);

#endif
