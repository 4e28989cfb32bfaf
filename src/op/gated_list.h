/* Gated activations: they take x [..., 2K], whose halves along the last axis are a and b, to [..., K]. Define
 *
 *     GATED(NAME, id, "Name", "summary", value, slope_a, slope_b)
 *
 * and include this. `value` is y, computed from a and b; `slope_a` and `slope_b` are both gradients, computed
 * from a, b and dy. The expressions are compiled as those of elementwise_list.h. */

GATED(GLU, glu, "Glu", "a sigmoid(b) of two halves", a *SIGMOID(b), dy *SIGMOID(b),
      dy *a *SIGMOID(b) * (1 - SIGMOID(b)))
GATED(SWIGLU, swiglu, "SwiGlu", "silu(a) b of two halves", a *SIGMOID(a) * b,
      dy *b *SIGMOID(a) * (1 + a * (1 - SIGMOID(a))), dy *a *SIGMOID(a))
GATED(GEGLU, geglu, "GeGlu", "gelu(a) b of two halves", a *HALF *(1 + ERF(a * SQRT_HALF)) * b,
      dy *b *(HALF *(1 + ERF(a * SQRT_HALF)) + a * NORMAL_DENSITY(a)), dy *a *HALF *(1 + ERF(a * SQRT_HALF)))
#undef GATED
