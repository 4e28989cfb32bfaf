#include "template/jinja_parser.h"

#include <string.h>

#include "template/jinja_lexer.h"

struct parser {
  struct jinja_run *run;
  const struct jinja_token *at;
  int loops;  /* that are open */
  bool marks; /* has a generation block */
};

/* ---- Tokens ---- */

static neap_status fail_at(struct parser *p, const struct jinja_token *token, neap_status status,
                           const char *what) {
  p->run->line = token->line;
  p->run->column = token->column;
  return JINJA_FAIL(p->run, status, "%s", what);
}

static bool is(const struct parser *p, enum jinja_token_type type, const char *text) {
  return p->at->type == type && (text == NULL || strcmp(p->at->text, text) == 0);
}

static bool is_operator(const struct parser *p, const char *text) {
  return is(p, JINJA_OPERATOR_TOKEN, text);
}

static bool is_word(const struct parser *p, const char *text) { return is(p, JINJA_NAME_TOKEN, text); }

static bool skip_operator(struct parser *p, const char *text) {
  const bool found = is_operator(p, text);
  p->at += found;
  return found;
}

static bool skip_word(struct parser *p, const char *text) {
  const bool found = is_word(p, text);
  p->at += found;
  return found;
}

static neap_status expect(struct parser *p, enum jinja_token_type type, const char *text, const char *what) {
  char message[128];
  if (is(p, type, text)) {
    p->at++;
    return NEAP_OK;
  }
  snprintf(message, sizeof message, "%s is expected here", what);
  return fail_at(p, p->at, NEAP_INVALID_ARGUMENT, message);
}

static neap_status expect_operator(struct parser *p, const char *text) {
  char what[8];
  snprintf(what, sizeof what, "'%s'", text);
  return expect(p, JINJA_OPERATOR_TOKEN, text, what);
}

static neap_status expect_name(struct parser *p, const char **name) {
  *name = p->at->text;
  return expect(p, JINJA_NAME_TOKEN, NULL, "a name");
}

static neap_status new_node(struct parser *p, enum jinja_node_type type, const char *name,
                            struct jinja_node *a, struct jinja_node *b, struct jinja_node **out) {
  const struct jinja_token *token = p->at;
  TRY(jinja_alloc(p->run, 1, sizeof **out, out));
  **out = (struct jinja_node){
      .type = type, .line = token->line, .column = token->column, .name = name, .a = a, .b = b};
  if (a != NULL && type != JINJA_ATTRIBUTE && type != JINJA_FILTER && type != JINJA_TEST &&
      type != JINJA_CALL) {
    (*out)->line = a->line;
    (*out)->column = a->column;
  }
  return NEAP_OK;
}

/* Goes one level deeper, so that no source overflows the stack. */
static neap_status go_in(struct parser *p) {
  p->run->line = p->at->line;
  p->run->column = p->at->column;
  return jinja_enter(p->run);
}

/* ---- Expressions ---- */

static neap_status parse_or(struct parser *p, struct jinja_node **out);
static neap_status parse_unary(struct parser *p, bool filters, struct jinja_node **out);

static neap_status parse_expression(struct parser *p, struct jinja_node **out) {
  struct jinja_node *test, *other = NULL, *then;
  TRY(go_in(p));
  TRY(parse_or(p, out));
  while (skip_word(p, "if")) {
    then = *out;
    other = NULL;
    TRY(parse_or(p, &test));
    if (skip_word(p, "else")) TRY(parse_expression(p, &other));
    TRY(new_node(p, JINJA_CONDITION, NULL, test, then, out));
    (*out)->c = other;
  }
  jinja_leave(p->run);
  return NEAP_OK;
}

typedef neap_status parse_function(struct parser *p, struct jinja_node **out);

/* Reads expressions up to where a tuple ends: one of them without a comma is itself. */
static neap_status parse_tuple(struct parser *p, parse_function *one, const char *closing,
                               struct jinja_node **out) {
  struct jinja_node *items = NULL, **last = &items;
  const struct jinja_token *begin = p->at;
  bool commas = false;
  for (;;) {
    const bool ends = p->at->type == JINJA_OUTPUT_END || p->at->type == JINJA_BLOCK_END ||
                      is_operator(p, ")") || is_word(p, "in");
    if (ends || (closing != NULL && is_operator(p, closing))) break;
    TRY(one(p, last));
    last = &(*last)->next;
    if (!skip_operator(p, ",")) break;
    commas = true;
  }
  *out = items;
  if (items == NULL && closing == NULL)
    return fail_at(p, begin, NEAP_INVALID_ARGUMENT, "an expression is expected here");
  return items == NULL || commas ? new_node(p, JINJA_MAKE_TUPLE, NULL, items, NULL, out) : NEAP_OK;
}

/* Reads items up to a closing bracket, which is passed over. */
static neap_status parse_items(struct parser *p, const char *closing, bool pairs, struct jinja_node **items) {
  struct jinja_node *key;
  *items = NULL;
  while (!skip_operator(p, closing)) {
    if (pairs) {
      TRY(parse_expression(p, &key));
      TRY(expect_operator(p, ":"));
      TRY(new_node(p, JINJA_PART, NULL, key, NULL, items));
      TRY(parse_expression(p, &(*items)->b));
    } else {
      TRY(parse_expression(p, items));
    }
    items = &(*items)->next;
    if (is_operator(p, closing)) continue;
    TRY(expect_operator(p, ","));
  }
  return NEAP_OK;
}

static neap_status parse_literal(struct parser *p, struct jinja_node **out) {
  struct jinja_builder b = {.run = p->run};
  TRY(new_node(p, JINJA_CONSTANT, NULL, NULL, NULL, out));
  (*out)->value = p->at++->value;
  if ((*out)->value.kind != JINJA_STRING || p->at->type != JINJA_LITERAL_TOKEN ||
      p->at->value.kind != JINJA_STRING)
    return NEAP_OK;
  TRY(jinja_put_string(&b, (*out)->value.string));
  for (; p->at->type == JINJA_LITERAL_TOKEN && p->at->value.kind == JINJA_STRING; p->at++)
    TRY(jinja_put_string(&b, p->at->value.string));
  return jinja_built(&b, &(*out)->value);
}

static neap_status parse_name(struct parser *p, struct jinja_node **out) {
  static const struct {
    const char *words[2];
    struct jinja_value value;
  } constants[] = {{{"true", "True"}, {.kind = JINJA_BOOL, .truth = true}},
                   {{"false", "False"}, {.kind = JINJA_BOOL, .truth = false}},
                   {{"none", "None"}, {.kind = JINJA_NONE}}};
  TRY(new_node(p, JINJA_VARIABLE, p->at->text, NULL, NULL, out));
  for (int i = 0; i < 3; i++)
    if (is_word(p, constants[i].words[0]) || is_word(p, constants[i].words[1])) {
      (*out)->type = JINJA_CONSTANT;
      (*out)->value = constants[i].value;
    }
  p->at++;
  return NEAP_OK;
}

static neap_status parse_primary(struct parser *p, struct jinja_node **out) {
  struct jinja_node *items;
  if (p->at->type == JINJA_NAME_TOKEN) return parse_name(p, out);
  if (p->at->type == JINJA_LITERAL_TOKEN) return parse_literal(p, out);
  if (skip_operator(p, "(")) {
    TRY(parse_tuple(p, parse_expression, ")", out));
    return expect_operator(p, ")");
  }
  if (skip_operator(p, "[")) {
    TRY(parse_items(p, "]", false, &items));
    return new_node(p, JINJA_MAKE_LIST, NULL, items, NULL, out);
  }
  if (skip_operator(p, "{")) {
    TRY(parse_items(p, "}", true, &items));
    return new_node(p, JINJA_MAKE_DICT, NULL, items, NULL, out);
  }
  return fail_at(p, p->at, NEAP_INVALID_ARGUMENT, "an expression is expected here");
}

/* Reads arguments behind their opening bracket. */
static neap_status parse_arguments(struct parser *p, struct jinja_node **list) {
  bool keywords = false;
  *list = NULL;
  while (!skip_operator(p, ")")) {
    const struct jinja_token *first = p->at;
    const bool keyword = first->type == JINJA_NAME_TOKEN && first[1].type == JINJA_OPERATOR_TOKEN &&
                         strcmp(first[1].text, "=") == 0;
    if (is_operator(p, "*") || is_operator(p, "**"))
      return fail_at(p, first, NEAP_UNSUPPORTED, "arguments from a list or a dict are not supported");
    if (keywords && !keyword)
      return fail_at(p, first, NEAP_INVALID_ARGUMENT, "an argument without a name follows one with a name");
    keywords |= keyword;
    TRY(new_node(p, JINJA_PART, keyword ? first->text : NULL, NULL, NULL, list));
    if (keyword) p->at += 2;
    TRY(parse_expression(p, &(*list)->a));
    list = &(*list)->next;
    if (!is_operator(p, ")")) TRY(expect_operator(p, ","));
  }
  return NEAP_OK;
}

static neap_status parse_subscript(struct parser *p, struct jinja_node *of, struct jinja_node **out) {
  struct jinja_node *parts[3] = {NULL, NULL, NULL};
  bool slice = false;
  int count = 0;
  for (; !is_operator(p, "]") && count < 3; count++) {
    if (!is_operator(p, ":")) TRY(parse_expression(p, &parts[count]));
    if (!is_operator(p, ":")) break;
    slice = true;
    p->at++;
  }
  if (is_operator(p, ",")) return fail_at(p, p->at, NEAP_UNSUPPORTED, "several subscripts are not supported");
  if (!slice && parts[0] == NULL)
    return fail_at(p, p->at, NEAP_INVALID_ARGUMENT, "an expression is expected here");
  TRY(expect_operator(p, "]"));
  if (!slice) return new_node(p, JINJA_INDEX, NULL, of, parts[0], out);
  TRY(new_node(p, JINJA_SLICE, NULL, parts[0], parts[1], out));
  (*out)->c = parts[2];
  (*out)->d = of;
  (*out)->line = of->line;
  (*out)->column = of->column;
  return NEAP_OK;
}

static neap_status parse_dot(struct parser *p, struct jinja_node *of, struct jinja_node **out) {
  if (p->at->type == JINJA_NAME_TOKEN) {
    TRY(new_node(p, JINJA_ATTRIBUTE, p->at->text, of, NULL, out));
    p->at++;
    return NEAP_OK;
  }
  if (p->at->type == JINJA_LITERAL_TOKEN && p->at->value.kind == JINJA_INT) {
    struct jinja_node *index;
    TRY(parse_literal(p, &index));
    return new_node(p, JINJA_INDEX, NULL, of, index, out);
  }
  return fail_at(p, p->at, NEAP_INVALID_ARGUMENT, "a name or a number is expected here");
}

static neap_status parse_call(struct parser *p, struct jinja_node *of, struct jinja_node **out) {
  TRY(new_node(p, JINJA_CALL, NULL, of, NULL, out));
  p->at++;
  return parse_arguments(p, &(*out)->b);
}

static neap_status parse_postfix(struct parser *p, struct jinja_node **node) {
  for (;;) {
    struct jinja_node *of = *node;
    if (skip_operator(p, "."))
      TRY(parse_dot(p, of, node));
    else if (skip_operator(p, "["))
      TRY(parse_subscript(p, of, node));
    else if (is_operator(p, "("))
      TRY(parse_call(p, of, node));
    else
      return NEAP_OK;
  }
}

static neap_status parse_filter(struct parser *p, struct jinja_node **node) {
  struct jinja_node *of = *node;
  TRY(new_node(p, JINJA_FILTER, p->at->text, of, NULL, node));
  TRY(expect(p, JINJA_NAME_TOKEN, NULL, "the name of a filter"));
  return skip_operator(p, "(") ? parse_arguments(p, &(*node)->b) : NEAP_OK;
}

/* Tests whether what follows the name of a test is its argument. */
static bool begins_argument(const struct parser *p) {
  if (p->at->type == JINJA_LITERAL_TOKEN || is_operator(p, "[") || is_operator(p, "{")) return true;
  return p->at->type == JINJA_NAME_TOKEN && !is_word(p, "else") && !is_word(p, "or") && !is_word(p, "and");
}

static neap_status parse_test(struct parser *p, struct jinja_node **node) {
  struct jinja_node *of = *node, *test;
  const bool not = skip_word(p, "not");
  TRY(new_node(p, JINJA_TEST, p->at->text, of, NULL, &test));
  TRY(expect(p, JINJA_NAME_TOKEN, NULL, "the name of a test"));
  *node = test;
  if (skip_operator(p, "(")) {
    TRY(parse_arguments(p, &test->b));
  } else if (begins_argument(p)) {
    if (is_word(p, "is")) return fail_at(p, p->at, NEAP_INVALID_ARGUMENT, "a test follows another");
    TRY(new_node(p, JINJA_PART, NULL, NULL, NULL, &test->b));
    TRY(parse_primary(p, &test->b->a));
    TRY(parse_postfix(p, &test->b->a));
  }
  return not ? new_node(p, JINJA_NOT, NULL, test, NULL, node) : NEAP_OK;
}

static neap_status parse_filters(struct parser *p, struct jinja_node **node) {
  for (;;) {
    if (skip_operator(p, "|"))
      TRY(parse_filter(p, node));
    else if (skip_word(p, "is"))
      TRY(parse_test(p, node));
    else if (is_operator(p, "("))
      TRY(parse_call(p, *node, node));
    else
      return NEAP_OK;
  }
}

static neap_status parse_unary(struct parser *p, bool filters, struct jinja_node **out) {
  struct jinja_node *of;
  const bool negate = is_operator(p, "-");
  if (negate || is_operator(p, "+")) {
    p->at++;
    TRY(go_in(p));
    TRY(parse_unary(p, false, &of));
    jinja_leave(p->run);
    TRY(new_node(p, negate ? JINJA_NEGATE : JINJA_POSITIVE, NULL, of, NULL, out));
  } else {
    TRY(parse_primary(p, out));
  }
  TRY(parse_postfix(p, out));
  return filters ? parse_filters(p, out) : NEAP_OK;
}

/* The binary operators of one strength, the strongest first. */
enum { STRENGTHS = 3, CONCATENATION = 2 };
static const char *const strengths[][5] = {{"**"}, {"*", "/", "//", "%"}, {"~"}, {"+", "-"}};

static neap_status parse_binary(struct parser *p, int strength, struct jinja_node **out) {
  if (strength < 0) return parse_unary(p, true, out);
  TRY(parse_binary(p, strength - 1, out));
  for (;;) {
    const char *const *o = strengths[strength];
    while (*o != NULL && !is_operator(p, *o)) o++;
    if (*o == NULL) return NEAP_OK;
    struct jinja_node *left = *out, *right;
    p->at++;
    TRY(parse_binary(p, strength - 1, &right));
    if (strength == CONCATENATION && left->type == JINJA_CONCATENATE) {
      struct jinja_node *last = left->a;
      while (last->next != NULL) last = last->next;
      last->next = right;
    } else if (strength == CONCATENATION) {
      left->next = right;
      TRY(new_node(p, JINJA_CONCATENATE, NULL, left, NULL, out));
    } else {
      TRY(new_node(p, JINJA_ARITHMETIC, *o, left, right, out));
    }
  }
}

static const char *comparison(struct parser *p) {
  static const char *const operators[] = {"==", "!=", "<", "<=", ">", ">=", NULL};
  for (const char *const *o = operators; *o != NULL; o++)
    if (skip_operator(p, *o)) return *o;
  if (skip_word(p, "in")) return "in";
  if (is_word(p, "not") && p->at[1].type == JINJA_NAME_TOKEN && strcmp(p->at[1].text, "in") == 0) {
    p->at += 2;
    return "not in";
  }
  return NULL;
}

static neap_status parse_compare(struct parser *p, struct jinja_node **out) {
  struct jinja_node *first, **last = NULL;
  const char *o;
  TRY(parse_binary(p, STRENGTHS, out));
  while ((o = comparison(p)) != NULL) {
    if (last == NULL) {
      first = *out;
      TRY(new_node(p, JINJA_COMPARE, NULL, first, NULL, out));
      last = &(*out)->b;
    }
    TRY(new_node(p, JINJA_PART, o, NULL, NULL, last));
    TRY(parse_binary(p, STRENGTHS, &(*last)->a));
    last = &(*last)->next;
  }
  return NEAP_OK;
}

static neap_status parse_not(struct parser *p, struct jinja_node **out) {
  struct jinja_node *of;
  if (!skip_word(p, "not")) return parse_compare(p, out);
  TRY(go_in(p));
  TRY(parse_not(p, &of));
  jinja_leave(p->run);
  return new_node(p, JINJA_NOT, NULL, of, NULL, out);
}

static neap_status parse_and(struct parser *p, struct jinja_node **out) {
  struct jinja_node *left, *right;
  TRY(parse_not(p, out));
  while (skip_word(p, "and")) {
    left = *out;
    TRY(parse_not(p, &right));
    TRY(new_node(p, JINJA_AND, NULL, left, right, out));
  }
  return NEAP_OK;
}

static neap_status parse_or(struct parser *p, struct jinja_node **out) {
  struct jinja_node *left, *right;
  TRY(go_in(p));
  TRY(parse_and(p, out));
  while (skip_word(p, "or")) {
    left = *out;
    TRY(parse_and(p, &right));
    TRY(new_node(p, JINJA_OR, NULL, left, right, out));
  }
  jinja_leave(p->run);
  return NEAP_OK;
}

/* ---- Statements ---- */

static neap_status parse_body(struct parser *p, const char *const *ends, const char **end,
                              struct jinja_node **out);

/* Reads the target of an assignment: names, or one field of a namespace. */
static neap_status parse_target(struct parser *p, bool field, struct jinja_node **out) {
  const struct jinja_token *begin = p->at;
  TRY(parse_tuple(p, parse_primary, NULL, out));
  struct jinja_node *target = *out;
  if (field && target->type == JINJA_VARIABLE && skip_operator(p, ".")) {
    TRY(new_node(p, JINJA_ATTRIBUTE, p->at->text, target, NULL, out));
    return expect(p, JINJA_NAME_TOKEN, NULL, "a name");
  }
  const struct jinja_node *name = target->type == JINJA_MAKE_TUPLE ? target->a : target;
  for (; name != NULL; name = name->next)
    if (name->type != JINJA_VARIABLE)
      return fail_at(p, begin, NEAP_INVALID_ARGUMENT, "this is no name that can be set");
  return NEAP_OK;
}

static neap_status end_tag(struct parser *p) {
  return expect(p, JINJA_BLOCK_END, NULL, "the end of the tag");
}

static neap_status parse_if(struct parser *p, struct jinja_node **out) {
  static const char *const ends[] = {"elif", "else", "endif", NULL};
  struct jinja_node *test, *body;
  const char *end;
  TRY(go_in(p));
  TRY(parse_tuple(p, parse_or, NULL, &test));
  TRY(end_tag(p));
  TRY(parse_body(p, ends, &end, &body));
  TRY(new_node(p, JINJA_IF, NULL, test, body, out));
  if (strcmp(end, "elif") == 0) {
    TRY(parse_if(p, &(*out)->c));
  } else {
    if (strcmp(end, "else") == 0) {
      TRY(end_tag(p));
      TRY(parse_body(p, ends + 2, &end, &(*out)->c));
    }
    TRY(end_tag(p));
  }
  jinja_leave(p->run);
  return NEAP_OK;
}

static neap_status parse_for(struct parser *p, struct jinja_node **out) {
  static const char *const ends[] = {"else", "endfor", NULL};
  const char *end;
  struct jinja_node *target, *of;
  TRY(parse_target(p, false, &target));
  TRY(expect(p, JINJA_NAME_TOKEN, "in", "'in'"));
  TRY(parse_tuple(p, parse_or, NULL, &of));
  TRY(new_node(p, JINJA_FOR, NULL, target, of, out));
  if (skip_word(p, "if")) TRY(parse_expression(p, &(*out)->e));
  if (is_word(p, "recursive"))
    return fail_at(p, p->at, NEAP_UNSUPPORTED, "recursive loops are not supported");
  TRY(end_tag(p));
  p->loops++;
  TRY(parse_body(p, ends, &end, &(*out)->c));
  p->loops--;
  if (strcmp(end, "else") == 0) {
    TRY(end_tag(p));
    TRY(parse_body(p, ends + 1, &end, &(*out)->d));
  }
  return end_tag(p);
}

static neap_status parse_set(struct parser *p, struct jinja_node **out) {
  static const char *const ends[] = {"endset", NULL};
  const char *end;
  struct jinja_node *target, *body, *filters;
  TRY(parse_target(p, true, &target));
  if (skip_operator(p, "=")) {
    TRY(new_node(p, JINJA_SET, NULL, target, NULL, out));
    TRY(parse_tuple(p, parse_expression, NULL, &(*out)->b));
    return end_tag(p);
  }
  TRY(new_node(p, JINJA_HOLE, NULL, NULL, NULL, &filters));
  while (skip_operator(p, "|")) TRY(parse_filter(p, &filters));
  TRY(end_tag(p));
  const int loops = p->loops;
  p->loops = 0; /* a loop is not left from inside */
  TRY(parse_body(p, ends, &end, &body));
  p->loops = loops;
  TRY(new_node(p, JINJA_SET_BLOCK, NULL, target, body, out));
  (*out)->c = filters;
  return end_tag(p);
}

static neap_status parse_macro(struct parser *p, struct jinja_node **out) {
  static const char *const ends[] = {"endmacro", NULL};
  const char *end, *name;
  struct jinja_node **last;
  const int loops = p->loops;
  bool defaults = false;
  TRY(new_node(p, JINJA_MACRO, NULL, NULL, NULL, out));
  TRY(expect_name(p, &(*out)->name));
  TRY(expect_operator(p, "("));
  for (last = &(*out)->a; !skip_operator(p, ")"); last = &(*last)->next) {
    TRY(expect_name(p, &name));
    TRY(new_node(p, JINJA_PART, name, NULL, NULL, last));
    if (skip_operator(p, "=")) {
      TRY(parse_expression(p, &(*last)->a));
      defaults = true;
    } else if (defaults) {
      return fail_at(p, p->at, NEAP_INVALID_ARGUMENT, "a parameter without a default follows one with it");
    }
    if (!is_operator(p, ")")) TRY(expect_operator(p, ","));
  }
  TRY(end_tag(p));
  p->loops = 0;
  TRY(parse_body(p, ends, &end, &(*out)->b));
  p->loops = loops;
  return end_tag(p);
}

static neap_status parse_generation(struct parser *p, struct jinja_node **out) {
  static const char *const ends[] = {"endgeneration", NULL};
  const char *end;
  const int loops = p->loops;
  TRY(new_node(p, JINJA_GENERATION, NULL, NULL, NULL, out));
  TRY(end_tag(p));
  p->marks = true;
  p->loops = 0;
  TRY(parse_body(p, ends, &end, &(*out)->b));
  p->loops = loops;
  return end_tag(p);
}

static neap_status parse_jump(struct parser *p, struct jinja_node **out) {
  const bool ends = strcmp(p->at[-1].text, "break") == 0;
  if (p->loops == 0) return fail_at(p, p->at - 1, NEAP_INVALID_ARGUMENT, "no loop is open here");
  TRY(new_node(p, ends ? JINJA_BREAK : JINJA_CONTINUE, NULL, NULL, NULL, out));
  return end_tag(p);
}

static neap_status parse_tag(struct parser *p, struct jinja_node **out) {
  static const struct {
    const char *name;
    parse_function *parse;
  } tags[] = {{"if", parse_if},
              {"for", parse_for},
              {"set", parse_set},
              {"macro", parse_macro},
              {"break", parse_jump},
              {"continue", parse_jump},
              {"generation", parse_generation}};
  char message[128];
  for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
    if (skip_word(p, tags[i].name)) {
      TRY(go_in(p));
      TRY(tags[i].parse(p, out));
      jinja_leave(p->run);
      return NEAP_OK;
    }
  if (p->at->type != JINJA_NAME_TOKEN)
    return fail_at(p, p->at, NEAP_INVALID_ARGUMENT, "the name of a tag is expected here");
  snprintf(message, sizeof message, "the tag '%.60s' is not supported, or not expected here", p->at->text);
  return fail_at(p, p->at, NEAP_UNSUPPORTED, message);
}

/* Reads statements up to a tag that is one of `ends`, whose name is passed over; without ends, up to the
 * source's end. */
static neap_status parse_body(struct parser *p, const char *const *ends, const char **end,
                              struct jinja_node **out) {
  *out = NULL;
  for (;;) {
    if (p->at->type == JINJA_END_TOKEN) {
      if (ends == NULL) return NEAP_OK;
      char message[64] = "";
      for (; *ends != NULL; ends++) snprintf(message, sizeof message, "'%s' is missing", *ends);
      return fail_at(p, p->at, NEAP_INVALID_ARGUMENT, message);
    }
    if (p->at->type == JINJA_TEXT_TOKEN) {
      struct jinja_node *text;
      TRY(new_node(p, JINJA_CONSTANT, NULL, NULL, NULL, &text));
      text->value = p->at->value;
      TRY(new_node(p, JINJA_OUTPUT, NULL, text, NULL, out));
      p->at++;
    } else if (p->at->type == JINJA_OUTPUT_BEGIN) {
      p->at++;
      struct jinja_node *value;
      TRY(parse_tuple(p, parse_expression, NULL, &value));
      TRY(new_node(p, JINJA_OUTPUT, NULL, value, NULL, out));
      TRY(expect(p, JINJA_OUTPUT_END, NULL, "the end of the output"));
    } else {
      p->at++;
      for (const char *const *e = ends; e != NULL && *e != NULL; e++)
        if (skip_word(p, *e)) {
          *end = *e;
          return NEAP_OK;
        }
      TRY(parse_tag(p, out));
    }
    out = &(*out)->next;
  }
}

neap_status jinja_parse(struct jinja_run *run, const char *source, size_t length, struct jinja_node **out,
                        bool *marks) {
  struct jinja_tokens tokens = {0};
  struct parser p = {.run = run};
  neap_status status = jinja_lex(run, source, length, &tokens);
  p.at = tokens.list.data;
  run->depth = 0;
  if (status == NEAP_OK) status = parse_body(&p, NULL, NULL, out);
  vector_free(&tokens.list);
  *marks = p.marks;
  return status;
}
