/* The terms of the expressions in elementwise_list.h. A file that includes it first defines `real` and the
 * functions EXP(x), LOG(x), TANH(x), ERF(x), SQRT(x) and POWER(x, a), as macros with arguments, since rows
 * have the same names. */

#define HALF             ((real)0.5)
#define SQRT_HALF        ((real)0.70710678118654752)
#define TWO_OVER_SQRT_PI ((real)1.1283791670955126)
/* e^(-x^2 / 2) / sqrt(2 pi) */
#define NORMAL_DENSITY(x) (EXP(-HALF * (x) * (x)) * (real)0.39894228040143268)
/* sqrt(2 / pi) (x + 0.044715 x^3), and its slope (Hendrycks and Gimpel 2016) */
#define GELU_INNER(x)       ((real)0.79788456080286536 * ((x) + (real)0.044715 * (x) * (x) * (x)))
#define GELU_INNER_SLOPE(x) ((real)0.79788456080286536 * (1 + (real)0.134145 * (x) * (x)))
#define SIGMOID(x)          (1 / (1 + EXP(-(x))))
#define ABS(x)              ((x) < 0 ? -(x) : (x))
#define SIGN(x)             ((real)(((x) > 0) - ((x) < 0)))
