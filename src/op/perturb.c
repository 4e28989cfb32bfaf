/* Parameters with noise. A rewrite makes these nodes (rewrite/perturb.c). */
#include "op/op.h"

const struct op_row op_row_perturb = {"Perturb", "a parameter with noise, drawn anew by each node",
                                      .output_count = 1, .infer = infer_same};
