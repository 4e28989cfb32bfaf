#include "template/jinja_eval.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "template/jinja_arithmetic.h"
#include "template/jinja_filters.h"
#include "template/jinja_parser.h"
#include "template/jinja_text.h"

struct jinja_program {
  struct region region;
  struct jinja_node *statements;
  char *name;
  bool marks;
};

struct binding {
  const char *name;
  struct jinja_value value;
  struct binding *next;
};

/* Names and their values. Reading looks at the scopes around it, too; setting changes the innermost. */
struct jinja_scope {
  struct binding *first;
  struct jinja_scope *parent;
};

/* The way in which a loop continues after a statement. */
enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE };

struct evaluator {
  struct jinja_run *run;
  struct jinja_scope *scope;
  struct jinja_builder *out; /* of the block that runs */
  struct jinja_value hole;   /* what a block's filters are given */
};

static neap_status eval(struct evaluator *e, const struct jinja_node *n, struct jinja_value *out);
static neap_status run_all(struct evaluator *e, const struct jinja_node *n, enum flow *flow);

/* Sets the place of messages, again where a part has been run in between. */
static void at(struct evaluator *e, const struct jinja_node *n) {
  e->run->line = n->line;
  e->run->column = n->column;
}

/* ---- Names ---- */

static neap_status bind(struct evaluator *e, const char *name, struct jinja_value value) {
  struct binding *b = e->scope->first;
  while (b != NULL && strcmp(b->name, name) != 0) b = b->next;
  if (b == NULL) {
    TRY(jinja_alloc(e->run, 1, sizeof *b, &b));
    b->name = name;
    b->next = e->scope->first;
    e->scope->first = b;
  }
  b->value = value;
  return NEAP_OK;
}

static neap_status open_scope(struct evaluator *e, struct jinja_scope *parent) {
  TRY(jinja_alloc(e->run, 1, sizeof *e->scope, &e->scope));
  e->scope->parent = parent;
  return NEAP_OK;
}

static neap_status new_function(struct evaluator *e, struct jinja_function made, struct jinja_value *out) {
  *out = (struct jinja_value){.kind = JINJA_FUNCTION};
  TRY(jinja_alloc(e->run, 1, sizeof made, &out->function));
  *out->function = made;
  return NEAP_OK;
}

static bool is_one_of(const char *name, const char *const *names) {
  while (*names != NULL && strcmp(*names, name) != 0) names++;
  return *names != NULL;
}

static const char *const globals[] = {"namespace", "raise_exception", "strftime_now", "range", "dict", NULL};
/* Names that Jinja or transformers may define, with values that are unknown here. */
static const char *const unknown[] = {"self",      "super",     "caller",     "varargs",   "kwargs",
                                      "lipsum",    "cycler",    "joiner",     "pad_token", "unk_token",
                                      "sep_token", "cls_token", "mask_token", NULL};

static neap_status eval_name(struct evaluator *e, const struct jinja_node *n, struct jinja_value *out) {
  for (const struct jinja_scope *s = e->scope; s != NULL; s = s->parent)
    for (const struct binding *b = s->first; b != NULL; b = b->next)
      if (strcmp(b->name, n->name) == 0) {
        *out = b->value;
        return NEAP_OK;
      }
  if (is_one_of(n->name, globals))
    return new_function(e, (struct jinja_function){.type = JINJA_A_GLOBAL, .name = n->name}, out);
  if (is_one_of(n->name, unknown))
    return JINJA_FAIL(e->run, NEAP_UNSUPPORTED, "the name '%s' is not supported", n->name);
  *out = jinja_undefined(n->name);
  return NEAP_OK;
}

/* ---- Calls ---- */

static neap_status eval_arguments(struct evaluator *e, const struct jinja_node *list,
                                  struct jinja_arguments *out) {
  *out = (struct jinja_arguments){0};
  size_t count = 0;
  for (const struct jinja_node *n = list; n != NULL; n = n->next) count++;
  if (count == 0) return NEAP_OK;
  TRY(jinja_alloc(e->run, count, sizeof *out->list, &out->list));
  for (const struct jinja_node *n = list; n != NULL; n = n->next) {
    struct jinja_argument *a = &out->list[out->count++];
    a->name = n->name;
    TRY(eval(e, n->a, &a->value));
  }
  return NEAP_OK;
}

/* Runs statements in a scope of their own and gives their text. */
static neap_status run_inside(struct evaluator *e, const struct jinja_node *body, struct jinja_value *out) {
  struct jinja_builder builder = {.run = e->run}, *const around = e->out;
  enum flow flow = FLOW_ON;
  e->out = &builder;
  TRY(run_all(e, body, &flow));
  e->out = around;
  return jinja_built(&builder, out);
}

static neap_status bind_parameters(struct evaluator *e, const struct jinja_node *macro,
                                   struct jinja_arguments given) {
  size_t place = 0, used = 0;
  for (const struct jinja_node *p = macro->a; p != NULL; p = p->next, place++) {
    const struct jinja_argument *found = NULL;
    for (size_t i = 0; i < given.count; i++) {
      const struct jinja_argument *a = &given.list[i];
      if (a->name != NULL ? strcmp(a->name, p->name) != 0 : i != place) continue;
      if (found != NULL) return JINJA_FAIL(e->run, NEAP_INVALID_ARGUMENT, "'%s' is given twice", p->name);
      found = a;
      used++;
    }
    struct jinja_value value = found != NULL ? found->value : jinja_undefined(p->name);
    if (found == NULL && p->a != NULL) TRY(eval(e, p->a, &value));
    TRY(bind(e, p->name, value));
  }
  if (used < given.count)
    return JINJA_FAIL(e->run, NEAP_INVALID_ARGUMENT, "the macro '%s' does not take these arguments",
                      macro->name);
  return NEAP_OK;
}

static neap_status call_macro(struct evaluator *e, const struct jinja_function *f,
                              struct jinja_arguments given, struct jinja_value *out) {
  struct jinja_scope *const scope = e->scope;
  TRY(open_scope(e, f->scope));
  TRY(bind_parameters(e, f->macro, given));
  TRY(run_inside(e, f->macro->b, out));
  e->scope = scope;
  return NEAP_OK;
}

/* The day of every rendering, so that a text does not depend on when it is made: the one that Llama 3.1 and
 * its like name where they are given none. */
static const struct tm day = {.tm_year = 124, .tm_mon = 6, .tm_mday = 26, .tm_wday = 5, .tm_yday = 207};

static neap_status call_strftime(struct evaluator *e, struct jinja_value format, struct jinja_value *out) {
  char text[256], *copy;
  const struct jinja_string *s;
  TRY(jinja_take_string(e->run, format, "strftime_now", &s));
  const char *pattern = region_format(&e->run->region, "%.*s", (int)s->length, s->bytes);
  RETURN_IF_NULL(pattern);
  const size_t length = strftime(text, sizeof text, pattern, &day);
  if (length == 0 && s->length > 0)
    return JINJA_FAIL(e->run, NEAP_UNSUPPORTED, "this form of a date is not supported");
  TRY(jinja_alloc(e->run, length + 1, 1, &copy));
  memcpy(copy, text, length);
  return jinja_new_string(e->run, copy, length, JINJA_UNMARKED, out);
}

static neap_status call_range(struct evaluator *e, const struct jinja_value *a, struct jinja_value *out) {
  enum { MOST = 100000 }; /* of Jinja's sandbox */
  int64_t start, stop, step, count = 0;
  const bool one = jinja_is_missing(a[1]);
  TRY(jinja_take_int(e->run, one ? jinja_int(0) : a[0], 0, "range", &start));
  if (jinja_is_missing(a[0])) return JINJA_FAIL(e->run, NEAP_INVALID_ARGUMENT, "'range' needs an argument");
  TRY(jinja_take_int(e->run, one ? a[0] : a[1], 0, "range", &stop));
  TRY(jinja_take_int(e->run, a[2], 1, "range", &step));
  if (step == 0) return JINJA_FAIL(e->run, NEAP_INVALID_ARGUMENT, "the step of a range is 0");
  const bool some = step > 0 ? start < stop : start > stop;
  if (some) {
    const uint64_t far = step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop,
                   by = step > 0 ? (uint64_t)step : 0 - (uint64_t)step, most = (far - 1) / by + 1;
    if (most > MOST)
      return JINJA_FAIL(e->run, NEAP_INVALID_ARGUMENT, "a range has more than %d numbers", MOST);
    count = (int64_t)most;
  }
  TRY(jinja_new_list(e->run, JINJA_IN_RANGE, (size_t)count, out));
  for (int64_t i = 0; i < count; i++) out->list->items[i] = jinja_int(start + i * step);
  return NEAP_OK;
}

static neap_status call_dict(struct evaluator *e, struct jinja_arguments given, enum jinja_kind kind,
                             struct jinja_value *out) {
  TRY(jinja_new_dict(e->run, kind, out));
  for (size_t i = 0; i < given.count; i++) {
    const struct jinja_argument *a = &given.list[i];
    struct jinja_value key;
    if (a->name == NULL && (a->value.kind != JINJA_DICT || i > 0))
      return JINJA_FAIL(e->run, NEAP_UNSUPPORTED, "only a dict and named fields make a dict or a namespace");
    for (size_t k = 0; a->name == NULL && k < a->value.dict->count; k++)
      TRY(jinja_dict_set(e->run, out->dict, a->value.dict->pairs[k].key, a->value.dict->pairs[k].value));
    if (a->name == NULL) continue;
    if (kind == JINJA_NAMESPACE && a->name[0] == '_')
      return JINJA_FAIL(e->run, NEAP_INVALID_ARGUMENT, "a namespace has no field '%s'", a->name);
    TRY(jinja_new_string(e->run, a->name, strlen(a->name), JINJA_UNMARKED, &key));
    TRY(jinja_dict_set(e->run, out->dict, key, a->value));
  }
  return NEAP_OK;
}

static neap_status call_global(struct evaluator *e, const char *name, struct jinja_arguments given,
                               struct jinja_value *out) {
  struct jinja_value bound[JINJA_PARAMETERS], text;
  if (strcmp(name, "namespace") == 0) return call_dict(e, given, JINJA_NAMESPACE, out);
  if (strcmp(name, "dict") == 0) return call_dict(e, given, JINJA_DICT, out);
  if (strcmp(name, "range") == 0) {
    TRY(jinja_bind(e->run, name, given, "start stop step", bound));
    return call_range(e, bound, out);
  }
  if (strcmp(name, "strftime_now") == 0) {
    TRY(jinja_bind(e->run, name, given, "format", bound));
    return call_strftime(e, bound[0], out);
  }
  TRY(jinja_bind(e->run, name, given, "message", bound));
  TRY(jinja_text_of(e->run, bound[0], &text));
  return JINJA_FAIL(e->run, NEAP_INVALID_ARGUMENT, "the template refuses the conversation: %.*s",
                    (int)(text.string->length < 300 ? text.string->length : 300), text.string->bytes);
}

static neap_status eval_call(struct evaluator *e, const struct jinja_node *n, struct jinja_value *out) {
  struct jinja_value callee;
  struct jinja_arguments given;
  TRY(eval(e, n->a, &callee));
  TRY(eval_arguments(e, n->b, &given));
  at(e, n);
  if (callee.kind == JINJA_UNDEFINED) return jinja_attribute(e->run, callee, "", out);
  if (callee.kind != JINJA_FUNCTION)
    return JINJA_FAIL(e->run, NEAP_INVALID_ARGUMENT, "%s is not called", jinja_type_name(callee));
  const struct jinja_function *f = callee.function;
  switch (f->type) {
  case JINJA_A_MACRO:
    return call_macro(e, f, given, out);
  case JINJA_A_GLOBAL:
    return call_global(e, f->name, given, out);
  case JINJA_A_LOOP:
    break;
  case JINJA_A_METHOD:
    if (f->items == NULL) return jinja_call_method(e->run, f, given, out);
    if (given.count == 0) return JINJA_FAIL(e->run, NEAP_INVALID_ARGUMENT, "'cycle' needs arguments");
    *out = given.list[f->index % given.count].value;
    return NEAP_OK;
  }
  return JINJA_FAIL(e->run, NEAP_UNSUPPORTED, "recursive loops are not supported");
}

/* ---- Expressions ---- */

static neap_status eval_list(struct evaluator *e, const struct jinja_node *n, struct jinja_value *out) {
  size_t count = 0;
  for (const struct jinja_node *i = n->a; i != NULL; i = i->next) count++;
  TRY(jinja_new_list(e->run, n->type == JINJA_MAKE_TUPLE ? JINJA_IN_TUPLE : JINJA_IN_LIST, count, out));
  struct jinja_value *item = out->list->items;
  for (const struct jinja_node *i = n->a; i != NULL; i = i->next) TRY(eval(e, i, item++));
  return NEAP_OK;
}

static neap_status eval_dict(struct evaluator *e, const struct jinja_node *n, struct jinja_value *out) {
  TRY(jinja_new_dict(e->run, JINJA_DICT, out));
  for (const struct jinja_node *p = n->a; p != NULL; p = p->next) {
    struct jinja_value key, value;
    TRY(eval(e, p->a, &key));
    TRY(eval(e, p->b, &value));
    at(e, p);
    TRY(jinja_dict_set(e->run, out->dict, key, value));
  }
  return NEAP_OK;
}

static neap_status eval_slice(struct evaluator *e, const struct jinja_node *n, struct jinja_value *out) {
  struct jinja_value of, bounds[3] = {{.kind = JINJA_NONE}, {.kind = JINJA_NONE}, {.kind = JINJA_NONE}};
  const struct jinja_node *const parts[3] = {n->a, n->b, n->c};
  TRY(eval(e, n->d, &of));
  for (int i = 0; i < 3; i++)
    if (parts[i] != NULL) TRY(eval(e, parts[i], &bounds[i]));
  at(e, n);
  if (of.kind == JINJA_UNDEFINED) return jinja_attribute(e->run, of, "", out);
  return jinja_slice(e->run, of, bounds, out);
}

static bool compares(const char *operator, int order) {
  if (operator[0] == '<') return order == -1 || (operator[1] == '=' && order == 0);
  return order == 1 || (operator[1] == '=' && order == 0);
}

static neap_status compare(struct evaluator *e, const char *operator, struct jinja_value a,
                           struct jinja_value b, bool *out) {
  int order;
  if (strcmp(operator, "in") == 0) return jinja_contains(e->run, b, a, out);
  if (strcmp(operator, "not in") == 0) {
    TRY(jinja_contains(e->run, b, a, out));
    *out = !*out;
    return NEAP_OK;
  }
  if (operator[0] == '=' || operator[0] == '!') {
    TRY(jinja_equal(e->run, a, b, out));
    *out = *out == (operator[0] == '=');
    return NEAP_OK;
  }
  TRY(jinja_order(e->run, a, b, &order));
  *out = compares(operator, order);
  return NEAP_OK;
}

static neap_status eval_compare(struct evaluator *e, const struct jinja_node *n, struct jinja_value *out) {
  struct jinja_value left, right;
  bool holds = true;
  TRY(eval(e, n->a, &left));
  for (const struct jinja_node *p = n->b; p != NULL && holds; p = p->next) {
    TRY(eval(e, p->a, &right));
    at(e, n);
    TRY(compare(e, p->name, left, right, &holds));
    left = right;
  }
  *out = jinja_bool(holds);
  return NEAP_OK;
}

static neap_status eval_concatenation(struct evaluator *e, const struct jinja_node *n,
                                      struct jinja_value *out) {
  struct jinja_builder b = {.run = e->run};
  struct jinja_value item;
  for (const struct jinja_node *i = n->a; i != NULL; i = i->next) {
    TRY(eval(e, i, &item));
    at(e, i);
    TRY(jinja_print(&b, item));
  }
  return jinja_built(&b, out);
}

static bool makes_markup(const char *filter) {
  return strcmp(filter, "safe") == 0 || strcmp(filter, "escape") == 0 || strcmp(filter, "e") == 0;
}

/* Applies a filter. What marks a text as HTML changes what is done with it later, so that only an output may
 * end in it. */
static neap_status eval_filter(struct evaluator *e, const struct jinja_node *n, bool output,
                               struct jinja_value *out) {
  struct jinja_arguments given;
  struct jinja_value of;
  TRY(eval(e, n->a, &of));
  TRY(eval_arguments(e, n->b, &given));
  at(e, n);
  if (!output && makes_markup(n->name))
    return JINJA_FAIL(e->run, NEAP_UNSUPPORTED, "the filter '%s' is supported at the end of an output only",
                      n->name);
  return jinja_filter(e->run, n->name, of, given, out);
}

static neap_status eval_test(struct evaluator *e, const struct jinja_node *n, struct jinja_value *out) {
  struct jinja_arguments given;
  struct jinja_value of;
  bool holds;
  TRY(eval(e, n->a, &of));
  TRY(eval_arguments(e, n->b, &given));
  at(e, n);
  TRY(jinja_test(e->run, n->name, of, given, &holds));
  *out = jinja_bool(holds);
  return NEAP_OK;
}

static neap_status eval_two(struct evaluator *e, const struct jinja_node *n, struct jinja_value *out) {
  struct jinja_value a, b;
  TRY(eval(e, n->a, &a));
  TRY(eval(e, n->b, &b));
  at(e, n);
  return n->type == JINJA_INDEX ? jinja_index(e->run, a, b, out)
                                : jinja_arithmetic(e->run, n->name, a, b, out);
}

static neap_status eval_one(struct evaluator *e, const struct jinja_node *n, struct jinja_value *out) {
  struct jinja_value a;
  TRY(eval(e, n->a, &a));
  at(e, n);
  if (n->type == JINJA_ATTRIBUTE) return jinja_attribute(e->run, a, n->name, out);
  if (n->type != JINJA_NOT) return jinja_sign(e->run, a, n->type == JINJA_NEGATE, out);
  *out = jinja_bool(!jinja_truth(a));
  return NEAP_OK;
}

static neap_status eval_node(struct evaluator *e, const struct jinja_node *n, struct jinja_value *out) {
  switch (n->type) {
  case JINJA_CONSTANT:
    *out = n->value;
    return NEAP_OK;
  case JINJA_HOLE:
    *out = e->hole;
    return NEAP_OK;
  case JINJA_VARIABLE:
    return eval_name(e, n, out);
  case JINJA_MAKE_LIST:
  case JINJA_MAKE_TUPLE:
    return eval_list(e, n, out);
  case JINJA_MAKE_DICT:
    return eval_dict(e, n, out);
  case JINJA_ATTRIBUTE:
  case JINJA_NOT:
  case JINJA_NEGATE:
  case JINJA_POSITIVE:
    return eval_one(e, n, out);
  case JINJA_INDEX:
  case JINJA_ARITHMETIC:
    return eval_two(e, n, out);
  case JINJA_SLICE:
    return eval_slice(e, n, out);
  case JINJA_CALL:
    return eval_call(e, n, out);
  case JINJA_FILTER:
    return eval_filter(e, n, false, out);
  case JINJA_TEST:
    return eval_test(e, n, out);
  case JINJA_AND:
  case JINJA_OR:
    TRY(eval(e, n->a, out));
    return jinja_truth(*out) == (n->type == JINJA_AND) ? eval(e, n->b, out) : NEAP_OK;
  case JINJA_CONDITION:
    TRY(eval(e, n->a, out));
    if (jinja_truth(*out)) return eval(e, n->b, out);
    *out = jinja_undefined("the value of an if without else");
    return n->c != NULL ? eval(e, n->c, out) : NEAP_OK;
  case JINJA_COMPARE:
    return eval_compare(e, n, out);
  case JINJA_CONCATENATE:
    return eval_concatenation(e, n, out);
  default:
    return JINJA_FAIL(e->run, NEAP_INVALID_ARGUMENT, "this is no expression");
  }
}

static neap_status eval(struct evaluator *e, const struct jinja_node *n, struct jinja_value *out) {
  at(e, n);
  TRY(jinja_enter(e->run));
  const neap_status status = eval_node(e, n, out);
  jinja_leave(e->run);
  return status;
}

/* ---- Statements ---- */

static neap_status assign(struct evaluator *e, const struct jinja_node *target, struct jinja_value value) {
  if (target->type == JINJA_VARIABLE) return bind(e, target->name, value);
  if (target->type == JINJA_MAKE_TUPLE) {
    const struct jinja_list *list;
    size_t i = 0;
    TRY(jinja_iterate(e->run, value, &list));
    for (const struct jinja_node *n = target->a; n != NULL; n = n->next, i++)
      if (i < list->count) TRY(bind(e, n->name, list->items[i]));
    if (i != list->count)
      return JINJA_FAIL(e->run, NEAP_INVALID_ARGUMENT, "%zu values are given to %zu names", list->count, i);
    return NEAP_OK;
  }
  struct jinja_value of, key;
  TRY(eval(e, target->a, &of));
  at(e, target);
  if (of.kind != JINJA_NAMESPACE)
    return JINJA_FAIL(e->run, NEAP_INVALID_ARGUMENT, "only a namespace has fields that can be set");
  if (target->name[0] == '_')
    return JINJA_FAIL(e->run, NEAP_INVALID_ARGUMENT, "a namespace has no field '%s'", target->name);
  TRY(jinja_new_string(e->run, target->name, strlen(target->name), JINJA_UNMARKED, &key));
  return jinja_dict_set(e->run, of.dict, key, value);
}

/* Keeps the items of which the loop's condition holds. */
static neap_status choose_items(struct evaluator *e, const struct jinja_node *n,
                                const struct jinja_list **list) {
  struct jinja_scope *const scope = e->scope;
  struct jinja_value kept, holds;
  size_t count = 0;
  TRY(jinja_new_list(e->run, JINJA_IN_LIST, (*list)->count, &kept));
  for (size_t i = 0; i < (*list)->count; i++) {
    TRY(open_scope(e, scope));
    TRY(assign(e, n->a, (*list)->items[i]));
    TRY(eval(e, n->e, &holds));
    if (jinja_truth(holds)) kept.list->items[count++] = (*list)->items[i];
  }
  e->scope = scope;
  kept.list->count = count;
  *list = kept.list;
  return NEAP_OK;
}

static neap_status run_for(struct evaluator *e, const struct jinja_node *n, enum flow *flow) {
  struct jinja_scope *const scope = e->scope;
  struct jinja_value of, loop;
  const struct jinja_list *list;
  TRY(eval(e, n->b, &of));
  at(e, n->b);
  TRY(jinja_iterate(e->run, of, &list));
  if (n->e != NULL) TRY(choose_items(e, n, &list));
  TRY(new_function(e, (struct jinja_function){.type = JINJA_A_LOOP, .name = "loop", .items = list}, &loop));
  bool complete = false; /* Jinja's else is for loops of which no turn ran to its end */
  for (size_t i = 0; i < list->count; i++) {
    enum flow left = FLOW_ON;
    loop.function->index = i;
    TRY(open_scope(e, scope));
    TRY(bind(e, "loop", loop));
    at(e, n);
    TRY(assign(e, n->a, list->items[i]));
    TRY(run_all(e, n->c, &left));
    if (left == FLOW_BREAK) break;
    if (left == FLOW_ON) complete = true;
  }
  e->scope = scope;
  if (complete || n->d == NULL) return NEAP_OK;
  TRY(open_scope(e, scope));
  TRY(run_all(e, n->d, flow));
  e->scope = scope;
  return NEAP_OK;
}

static neap_status run_set_block(struct evaluator *e, const struct jinja_node *n) {
  struct jinja_scope *const scope = e->scope;
  struct jinja_value value;
  const struct jinja_value hole = e->hole;
  TRY(open_scope(e, scope));
  TRY(run_inside(e, n->b, &e->hole));
  e->scope = scope;
  TRY(eval(e, n->c, &value));
  e->hole = hole;
  return assign(e, n->a, value);
}

static neap_status run_generation(struct evaluator *e, const struct jinja_node *n, enum flow *flow) {
  struct jinja_scope *const scope = e->scope;
  const size_t begin = e->out->length;
  TRY(open_scope(e, scope));
  TRY(run_all(e, n->b, flow));
  e->scope = scope;
  return jinja_put_mark(e->out, JINJA_GENERATED, begin);
}

static neap_status run_output(struct evaluator *e, const struct jinja_node *n) {
  struct jinja_value value;
  if (n->a->type == JINJA_FILTER)
    TRY(eval_filter(e, n->a, true, &value));
  else
    TRY(eval(e, n->a, &value));
  at(e, n);
  return jinja_print(e->out, value);
}

static neap_status run_statement(struct evaluator *e, const struct jinja_node *n, enum flow *flow) {
  struct jinja_value value;
  switch (n->type) {
  case JINJA_OUTPUT:
    return run_output(e, n);
  case JINJA_IF:
    TRY(eval(e, n->a, &value));
    return run_all(e, jinja_truth(value) ? n->b : n->c, flow);
  case JINJA_FOR:
    return run_for(e, n, flow);
  case JINJA_SET:
    TRY(eval(e, n->b, &value));
    at(e, n);
    return assign(e, n->a, value);
  case JINJA_SET_BLOCK:
    return run_set_block(e, n);
  case JINJA_MACRO:
    TRY(new_function(
        e, (struct jinja_function){.type = JINJA_A_MACRO, .name = n->name, .macro = n, .scope = e->scope},
        &value));
    return bind(e, n->name, value);
  case JINJA_GENERATION:
    return run_generation(e, n, flow);
  case JINJA_BREAK:
    *flow = FLOW_BREAK;
    return NEAP_OK;
  case JINJA_CONTINUE:
    *flow = FLOW_CONTINUE;
    return NEAP_OK;
  default:
    return JINJA_FAIL(e->run, NEAP_INVALID_ARGUMENT, "this is no statement");
  }
}

/* Runs statements until one leaves the loop. */
static neap_status run_all(struct evaluator *e, const struct jinja_node *n, enum flow *flow) {
  for (; n != NULL && *flow == FLOW_ON; n = n->next) {
    at(e, n);
    TRY(jinja_enter(e->run));
    TRY(run_statement(e, n, flow));
    jinja_leave(e->run);
  }
  return NEAP_OK;
}

/* ---- Programs ---- */

static neap_status read_program(struct jinja_program *p, const char *source, size_t length,
                                const char *name) {
  struct jinja_run run = {.name = name, .left = jinja_usual_limits, .output = jinja_usual_limits.output};
  const neap_status status = jinja_parse(&run, source, length, &p->statements, &p->marks);
  p->region = run.region;
  TRY(status);
  p->name = region_string(&p->region, name);
  RETURN_IF_NULL(p->name);
  return NEAP_OK;
}

neap_status jinja_program_new(const char *source, size_t length, const char *name,
                              struct jinja_program **out) {
  *out = calloc(1, sizeof **out);
  RETURN_IF_NULL(*out);
  const neap_status status = read_program(*out, source, length, name);
  if (status == NEAP_OK) return NEAP_OK;
  jinja_program_free(*out);
  *out = NULL;
  return status;
}

void jinja_program_free(struct jinja_program *program) {
  if (program == NULL) return;
  region_free(&program->region);
  free(program);
}

bool jinja_program_marks(const struct jinja_program *program) { return program->marks; }

void jinja_begin(const struct jinja_program *program, struct jinja_limits limits, struct jinja_run *run) {
  *run = (struct jinja_run){
      .left = limits, .output = limits.output, .name = program->name, .line = 1, .column = 1};
}

neap_status jinja_render(const struct jinja_program *program, struct jinja_run *run,
                         const struct jinja_variable *variables, size_t count,
                         const struct jinja_string **text) {
  struct evaluator e = {.run = run};
  struct jinja_value made;
  TRY(open_scope(&e, NULL));
  for (size_t i = 0; i < count; i++) TRY(bind(&e, variables[i].name, variables[i].value));
  TRY(open_scope(&e, e.scope));
  TRY(run_inside(&e, program->statements, &made));
  *text = made.string;
  return NEAP_OK;
}
