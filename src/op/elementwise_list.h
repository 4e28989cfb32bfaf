/* Operators that work element by element, as scalar expressions. Define UNARY and BINARY and include this.
 *
 *     UNARY(NAME, id, "Name", "summary", KEEPS, READS, value, slope)
 *
 * `value` is y, computed from x and the attributes a and b. `slope` is dx, computed from dy and from the
 * tensor that the gradient keeps: x if KEEPS is X, y if it is Y, none if it is NOTHING. READS says how: SIGN
 * if its sign is enough, EXACT if the slope jumps or has a pole, else ROUNDED (op_row.exact). A row is all of
 * an operator: its enum, shapes, gradient and kernels of every backend are made from it; neap.h declares
 * neap_<id>.
 *
 *     BINARY(NAME, id, "Name", "summary", value)
 *
 * `value` is computed from x and y, one of which may be broadcast; gradients are operators of their own
 * (elementwise.c).
 *
 * NaN stays NaN: a comparison with it is false, and the branch that is then chosen returns it.
 *
 * The expressions are compiled in float and in double. `real` is their type; EXP, LOG, TANH, ERF, SQRT and
 * POWER(x, a) are functions of it. A macro that is not defined has no effect; both are undefined at the end
 * of the list. */
#ifndef UNARY
#define UNARY(...)
#endif
#ifndef BINARY
#define BINARY(...)
#endif

UNARY(RELU, relu, "Relu", "max(0, x)", Y, SIGN, x <= 0 ? 0 : x, y <= 0 ? 0 : dy)
UNARY(RELU6, relu6, "Relu6", "min(max(0, x), 6)", Y, EXACT, x <= 0 ? 0 : (x >= 6 ? 6 : x),
      y <= 0 || y >= 6 ? 0 : dy)
UNARY(GELU, gelu, "Gelu", "x times the normal distribution's mass below x", X, ROUNDED,
      x *HALF *(1 + ERF(x * SQRT_HALF)), dy *(HALF *(1 + ERF(x * SQRT_HALF)) + x * NORMAL_DENSITY(x)))
UNARY(GELU_TANH, gelu_tanh, "GeluTanh", "GELU by tanh (x + 0.044715 x^3)", X, ROUNDED,
      x *HALF *(1 + TANH(GELU_INNER(x))),
      dy *(HALF *(1 + TANH(GELU_INNER(x))) +
           x * HALF * (1 - TANH(GELU_INNER(x)) * TANH(GELU_INNER(x))) * GELU_INNER_SLOPE(x)))
UNARY(SILU, silu, "Silu", "x sigmoid(x)", X, ROUNDED, x *SIGMOID(x),
      dy *SIGMOID(x) * (1 + x * (1 - SIGMOID(x))))
UNARY(SIGMOID, sigmoid, "Sigmoid", "1 / (1 + e^-x)", Y, ROUNDED, SIGMOID(x), dy *y *(1 - y))
UNARY(TANH, tanh, "Tanh", "hyperbolic tangent", Y, ROUNDED, TANH(x), dy *(1 - y * y))
UNARY(EXP, exp, "Exp", "e^x", Y, ROUNDED, EXP(x), dy *y)
UNARY(LOG, log, "Log", "natural logarithm", X, EXACT, LOG(x), dy / x)
UNARY(ERF, erf, "Erf", "error function", X, ROUNDED, ERF(x), dy *TWO_OVER_SQRT_PI *EXP(-x *x))
UNARY(SQRT, sqrt, "Sqrt", "square root", Y, EXACT, SQRT(x), dy / (2 * y))
UNARY(POWER, power, "Power", "x^a", X, EXACT, POWER(x, a), a == 0 ? 0 : dy * a * POWER(x, a - 1))
UNARY(CLIP, clip, "Clip", "x cut to [a, b]", X, EXACT, x < a ? a : (x > b ? b : x), x >= a && x <= b ? dy : 0)
UNARY(SCALE, scale, "Scale", "a x + b", NOTHING, ROUNDED, a *x + b, a *dy)

BINARY(ADD, add, "Add", "sum of two tensors", x + y)
BINARY(SUBTRACT, subtract, "Subtract", "difference of two tensors", x - y)
BINARY(MULTIPLY, multiply, "Multiply", "product of two tensors, element by element", x *y)
BINARY(DIVIDE, divide, "Divide", "quotient of two tensors, element by element", x / y)

#undef UNARY
#undef BINARY
