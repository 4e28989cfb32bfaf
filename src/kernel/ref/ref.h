/* The reference backend: declarations that its files share. */
#ifndef NEAP_KERNEL_REF_REF_H
#define NEAP_KERNEL_REF_REF_H

#include "kernel/kernel.h"

#define RUN(name)                                                                                            \
  neap_status name(const struct kernel *kernel, void *const *in, void *const *out, void *workspace,          \
                   const struct run_context *context)
#define UNUSED     (void)in, (void)out, (void)workspace, (void)context
#define ATTRIBUTES (&kernel_node(kernel)->attributes)

/* A tensor as [N, C, H, W]; dimensions beyond its rank are 1, those beyond four are in W. */
struct shape {
  int64_t n, c, h, w;
};

static inline struct shape shape_of(const struct tensor *t) {
  struct shape s = {t->dims[0], t->rank > 1 ? t->dims[1] : 1, t->rank > 2 ? t->dims[2] : 1, 1};
  for (int32_t i = 3; i < t->rank; i++) s.w *= t->dims[i];
  return s;
}

static inline int64_t at(struct shape s, int64_t n, int64_t c, int64_t h, int64_t w) {
  return ((n * s.c + c) * s.h + h) * s.w + w;
}

#define FOR(i, count) for (int64_t i = 0; i < (count); i++)

/* Returns the noise of element `i` of a tensor, by kernel/random_stream.h. */
double noise_at(const struct tensor *t, int64_t i, const struct run_context *context);

/* Returns elements [first, first + count) of weights, which may be stored in blocks: `first` begins one, and
 * `count` is at most WEIGHTS_PART, for which `part` has room. Perturbed ones have their noise. */
enum { WEIGHTS_PART = 1024 }; /* whole blocks of any type */
const double *weights_at(const struct tensor *w, const void *data, int64_t first, int64_t count,
                         double part[WEIGHTS_PART], const struct run_context *context);
/* Copies row `row` of the table at `data` to `y` [width]; zeros if `data` is NULL. */
void copy_row(const struct tensor *table, const void *data, int64_t row, double *y,
              const struct run_context *context);
static inline int64_t part_length(int64_t first, int64_t end) {
  return end - first < WEIGHTS_PART ? end - first : WEIGHTS_PART;
}

/* One function for each operator: run_conv, ... */
#define OP(NAME, id) kernel_run run_##id;
#include "op/list.h"
#undef OP

#endif
