/* Reads a program in Jinja into a tree. */
#ifndef NEAP_TEMPLATE_JINJA_PARSER_H
#define NEAP_TEMPLATE_JINJA_PARSER_H

#include "template/jinja_value.h"

enum jinja_node_type {
  /* Expressions. Lists are linked by `next`. */
  JINJA_CONSTANT,    /* value */
  JINJA_VARIABLE,    /* name */
  JINJA_MAKE_LIST,   /* a: items */
  JINJA_MAKE_TUPLE,  /* a: items */
  JINJA_MAKE_DICT,   /* a: keys, each with its value in `a` of a JINJA_PART whose `b` is the value */
  JINJA_ATTRIBUTE,   /* a.name */
  JINJA_INDEX,       /* a[b] */
  JINJA_SLICE,       /* d[a:b:c]; each of the three may be NULL */
  JINJA_CALL,        /* a(b: arguments) */
  JINJA_FILTER,      /* a | name(b: arguments) */
  JINJA_TEST,        /* a is name(b: arguments) */
  JINJA_NOT,         /* a */
  JINJA_AND,         /* a, b */
  JINJA_OR,          /* a, b */
  JINJA_CONDITION,   /* b if a else c; c may be NULL */
  JINJA_COMPARE,     /* a, then b: parts with an operator in `name` and the other side in `a` */
  JINJA_ARITHMETIC,  /* a name b */
  JINJA_CONCATENATE, /* a: items */
  JINJA_NEGATE,      /* a */
  JINJA_POSITIVE,    /* a */
  JINJA_PART,        /* an argument (name: of a keyword, or NULL; a), a pair, a compared side, a parameter */
  /* Statements. */
  JINJA_OUTPUT,     /* a */
  JINJA_IF,         /* a, b: body, c: else */
  JINJA_FOR,        /* a: target, b: of what, c: body, d: else, e: condition */
  JINJA_SET,        /* a: target, b: value */
  JINJA_SET_BLOCK,  /* a: target, b: body, c: filters of JINJA_HOLE */
  JINJA_MACRO,      /* name, a: parameters (name, a: its default), b: body */
  JINJA_GENERATION, /* b: body */
  JINJA_BREAK,
  JINJA_CONTINUE,
  JINJA_HOLE, /* what a block's filters are given */
};

struct jinja_node {
  enum jinja_node_type type;
  int line, column;
  const char *name;
  struct jinja_value value;
  struct jinja_node *a, *b, *c, *d, *e, *next;
};

/* Gives the statements of a source; all of it is in the run's region. `*marks` tells whether it has a
 * {% generation %} block. NEAP_INVALID_ARGUMENT: it is no Jinja, NEAP_UNSUPPORTED: it is, but not supported;
 * the message has the place. */
neap_status jinja_parse(struct jinja_run *run, const char *source, size_t length, struct jinja_node **out,
                        bool *marks);

#endif
