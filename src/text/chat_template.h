/* Chat templates: how the messages of a conversation become one text.
 *
 * Models publish their template as a program in Jinja. Each row of chat_template.c renders one family of them
 * and is found by marks in the program's text; what differs inside a family (a default system text) is read
 * out of it. */
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
  char *system;     /* the system text where the first message is no system's; NULL: none exists */
  char *date;       /* that the system text tells as today's; NULL: it tells none */
  bool bos;         /* the text begins with the beginning-of-sequence token */
};

/* The template of a program in Jinja. `file` is for messages. NEAP_UNSUPPORTED: no row renders it, and the
 * message lists the names for chat_template_named. Free with chat_template_free. */
neap_status chat_template_find(const char *jinja, const char *file, struct chat_template **out);

/* The template of that name. NEAP_INVALID_ARGUMENT: no template has it; the message lists them. */
neap_status chat_template_named(const char *name, struct chat_template **out);
void chat_template_free(struct chat_template *chat);

/* The name of row `index`, from 0 on; NULL: there are no more. */
const char *chat_template_name_at(int index);

/* What stands between the instruction and the input of a record that has both. */
const char *chat_template_input(const struct chat_template *chat);

/* What is around the content of an assistant's turn and written by the assistant itself; constants. */
struct chat_answer {
  const char *lead; /* before it; "": nothing */
  const char *end;  /* the text of the token that ends the turn; NULL: that which ends a sequence */
};
struct chat_answer chat_template_answer(const struct chat_template *chat);

/* The texts of the tokens that begin and end a sequence; NULL: the model has none. */
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

/* Renders messages [count], count 1 or more, as the template's own program does, in place of what `out` has.
 * Spans are what the model has to write itself, one for each assistant's turn, rising: what follows the
 * generation prompt, up to and with the token that ends the turn. `generate` appends the prompt for the
 * assistant's next turn.
 *
 * NEAP_UNSUPPORTED: the template has no turn of a message's role. NEAP_INVALID_ARGUMENT: there are no
 * messages, or the template wants users and assistants in turns and they are not. Messages name the message
 * by its number, from 1. */
neap_status chat_render(const struct chat_template *chat, const struct chat_message *messages, size_t count,
                        bool generate, struct chat_ends ends, struct chat_text *out);
void chat_text_free(struct chat_text *text);

#endif
