/* Perturbation of whole tensors. */
#include "kernel/cpu/isa/noise.h"

void ISA(perturb)(int64_t count, struct noise noise, struct stored x, struct stored y) {
  FOR_RUNS(count) {
    float of_x[STORED_RUN], of_y[STORED_RUN];
    const int64_t length = run_length(first, count);
    const float *from = floats_at(x, first, length, of_x);
    add_noise(&noise, first, length, from, made_floats(y, first, of_y));
    store_floats(y, first, length, of_y);
  }
}
