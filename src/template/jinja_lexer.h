/* Divides a program in Jinja into tokens, as Jinja 3 does with trim_blocks and lstrip_blocks. */
#ifndef NEAP_TEMPLATE_JINJA_LEXER_H
#define NEAP_TEMPLATE_JINJA_LEXER_H

#include "base/vector.h"
#include "template/jinja_value.h"

enum jinja_token_type {
  JINJA_TEXT_TOKEN,     /* between tags; its value is a string */
  JINJA_OUTPUT_BEGIN,   /* {{ */
  JINJA_OUTPUT_END,     /* }} */
  JINJA_BLOCK_BEGIN,    /* {% */
  JINJA_BLOCK_END,      /* %} */
  JINJA_NAME_TOKEN,     /* its text is the name */
  JINJA_LITERAL_TOKEN,  /* a number or a string; its value */
  JINJA_OPERATOR_TOKEN, /* its text is the operator */
  JINJA_END_TOKEN,
};

struct jinja_token {
  enum jinja_token_type type;
  int line, column; /* from 1; a column is a byte */
  const char *text;
  struct jinja_value value;
};

struct jinja_tokens {
  VECTOR(struct jinja_token) list; /* the last is JINJA_END_TOKEN */
};

/* Gives the tokens of a source, which is UTF-8; texts are in the run's region. Free the list whatever the
 * status. NEAP_INVALID_ARGUMENT: Jinja refuses it, too; NEAP_UNSUPPORTED: it has what Jinja knows but this
 * does not. */
neap_status jinja_lex(struct jinja_run *run, const char *source, size_t length, struct jinja_tokens *tokens);

#endif
