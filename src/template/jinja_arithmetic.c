#include "template/jinja_arithmetic.h"

#include <math.h>
#include <string.h>

#include "template/jinja_access.h"
#include "template/jinja_text.h"

static neap_status too_large(struct jinja_run *run) {
  return JINJA_FAIL(run, NEAP_UNSUPPORTED, "a number is larger than 64 bits hold");
}

static neap_status divides_by_zero(struct jinja_run *run) {
  return JINJA_FAIL(run, NEAP_INVALID_ARGUMENT, "a number is divided by 0");
}

static int64_t integer_of(struct jinja_value v) { return v.kind == JINJA_BOOL ? v.truth : v.integer; }

/* Gives a power of integers, where that is one. */
static neap_status raise(struct jinja_run *run, int64_t base, int64_t exponent, struct jinja_value *out) {
  int64_t result = 1;
  if (exponent < 0) {
    if (base == 0) return divides_by_zero(run);
    *out = jinja_float(pow((double)base, (double)exponent));
    return NEAP_OK;
  }
  if (base >= -1 && base <= 1 && exponent > 1) exponent = 2 - exponent % 2;
  for (; exponent > 0; exponent--)
    if (__builtin_mul_overflow(result, base, &result)) return too_large(run);
  *out = jinja_int(result);
  return NEAP_OK;
}

static neap_status of_integers(struct jinja_run *run, const char *operator, int64_t a, int64_t b,
                               struct jinja_value *out) {
  int64_t result;
  bool overflow;
  if (strcmp(operator, "**") == 0) return raise(run, a, b, out);
  if (strchr("/%", *operator) != NULL && b == 0) return divides_by_zero(run);
  switch (*operator) {
  case '+':
    overflow = __builtin_add_overflow(a, b, &result);
    break;
  case '-':
    overflow = __builtin_sub_overflow(a, b, &result);
    break;
  case '*':
    overflow = __builtin_mul_overflow(a, b, &result);
    break;
  default:
    if (strcmp(operator, "/") == 0) {
      *out = jinja_float((double)((long double)a / (long double)b));
      return NEAP_OK;
    }
    overflow = b == -1 && a == INT64_MIN;
    if (overflow) break;
    const int64_t left = b == -1 ? 0 : a % b, fix = left != 0 && (left < 0) != (b < 0);
    result = *operator== '%' ? left + (fix ? b : 0) : a / b - fix;
  }
  if (overflow) return too_large(run);
  *out = jinja_int(result);
  return NEAP_OK;
}

static neap_status of_reals(struct jinja_run *run, const char *operator, double a, double b,
                            struct jinja_value *out) {
  if (strchr("/%", *operator) != NULL && b == 0) return divides_by_zero(run);
  double left = 0, result;
  switch (*operator) {
  case '+':
    result = a + b;
    break;
  case '-':
    result = a - b;
    break;
  case '*':
    if (operator[1] == '*' &&((a == 0 && b < 0) || (a < 0 && b != floor(b))))
      return JINJA_FAIL(run, NEAP_UNSUPPORTED, "this power is no real number");
    result = operator[1] == '*' ? pow(a, b) : a * b;
    break;
  default:
    if (strcmp(operator, "/") == 0) {
      result = a / b;
      break;
    }
    left = fmod(a, b);
    if (left != 0 && (left < 0) != (b < 0)) left += b;
    if (left == 0) left = copysign(0, b);
    result = left;
    if (*operator== '%') break;
    result = (a - left) / b;
    result = result != 0 ? floor(result) + (result - floor(result) > 0.5) : copysign(0, a / b);
  }
  *out = jinja_float(result);
  return NEAP_OK;
}

static neap_status join_lists(struct jinja_run *run, const struct jinja_list *a, const struct jinja_list *b,
                              struct jinja_value *out) {
  TRY(jinja_new_list(run, a->form, a->count + b->count, out));
  if (a->count > 0) memcpy(out->list->items, a->items, a->count * sizeof *a->items);
  if (b->count > 0) memcpy(out->list->items + a->count, b->items, b->count * sizeof *b->items);
  return NEAP_OK;
}

neap_status jinja_arithmetic(struct jinja_run *run, const char *operator, struct jinja_value a,
                             struct jinja_value b, struct jinja_value *out) {
  const bool strings = a.kind == JINJA_STRING && b.kind == JINJA_STRING, add = *operator== '+',
             times = strcmp(operator, "*") == 0;
  if (a.kind == JINJA_STRING && *operator== '%') /* whatever is on the other side */
    return JINJA_FAIL(run, NEAP_UNSUPPORTED, "the format of a string by '%%' is not supported");
  if (a.kind == JINJA_UNDEFINED) return jinja_attribute(run, a, "", out);
  if (b.kind == JINJA_UNDEFINED) return jinja_attribute(run, b, "", out);
  if (jinja_is_number(a) && jinja_is_number(b)) {
    if (a.kind == JINJA_FLOAT || b.kind == JINJA_FLOAT)
      return of_reals(run, operator, jinja_real(a), jinja_real(b), out);
    return of_integers(run, operator, integer_of(a), integer_of(b), out);
  }
  if (strings && add) {
    struct jinja_builder builder = {.run = run};
    TRY(jinja_put_string(&builder, a.string));
    TRY(jinja_put_string(&builder, b.string));
    return jinja_built(&builder, out);
  }
  if (add && a.kind == JINJA_LIST && b.kind == JINJA_LIST && a.list->form == b.list->form &&
      a.list->form <= JINJA_IN_TUPLE)
    return join_lists(run, a.list, b.list, out);
  if (times && a.kind == JINJA_STRING && (b.kind == JINJA_INT || b.kind == JINJA_BOOL))
    return jinja_repeat(run, a.string, integer_of(b), out);
  if (times && b.kind == JINJA_STRING && (a.kind == JINJA_INT || a.kind == JINJA_BOOL))
    return jinja_repeat(run, b.string, integer_of(a), out);
  const bool python = times && (a.kind == JINJA_LIST || b.kind == JINJA_LIST);
  return JINJA_FAIL(run, python ? NEAP_UNSUPPORTED : NEAP_INVALID_ARGUMENT,
                    "'%s' of %s and %s is not supported", operator, jinja_type_name(a), jinja_type_name(b));
}

neap_status jinja_sign(struct jinja_run *run, struct jinja_value value, bool negate,
                       struct jinja_value *out) {
  if (value.kind == JINJA_UNDEFINED) return jinja_attribute(run, value, "", out);
  if (!jinja_is_number(value))
    return JINJA_FAIL(run, NEAP_INVALID_ARGUMENT, "%s has no sign", jinja_type_name(value));
  if (value.kind == JINJA_FLOAT) {
    *out = jinja_float(negate ? -value.real : value.real);
    return NEAP_OK;
  }
  const int64_t integer = integer_of(value);
  if (negate && integer == INT64_MIN) return too_large(run);
  *out = jinja_int(negate ? -integer : integer);
  return NEAP_OK;
}
