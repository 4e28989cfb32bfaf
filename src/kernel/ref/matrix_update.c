/* Update rules of matrices: kernel/matrix_rule.h in double. */
#include <string.h>

#include "kernel/random_stream.h"
#include "kernel/ref/real.h"
#include "kernel/ref/ref.h"

#define IN_PARALLEL

struct operands {
  double *w;
  const double *g;
  double unit;
};

#include "kernel/matrix_rule.h"

static void take_gradient(const struct matrix_rule *m, int64_t first, int64_t count, real *to) {
  const struct operands *o = m->context;
  FOR(i, count) to[i] = o->unit * o->g[first + i];
}

static void take_weights(const struct matrix_rule *m, int64_t first, int64_t count, real *to) {
  memcpy(to, ((const struct operands *)m->context)->w + first, (size_t)count * sizeof *to);
}

static void change_weights(const struct matrix_rule *m, int64_t first, int64_t count, real *by) {
  FOR(i, count)((const struct operands *)m->context)->w[first + i] += by[i];
}

static void multiply(const struct matrix_rule *m, const struct rule_product *p) {
  (void)m;
  FOR(r, p->rows) FOR(c, p->columns) {
    real sum = p->add ? p->c[r * p->c_row + c] : 0;
    FOR(k, p->depth)
    sum += p->a[p->a_turned ? k * p->a_row + r : r * p->a_row + k] *
           p->b[p->b_turned ? c * p->b_row + k : k * p->b_row + c];
    p->c[r * p->c_row + c] = sum;
  }
}

typedef void rule(struct matrix_rule *m);

static neap_status run_rule(const struct kernel *kernel, void *const *in, void *workspace,
                            const struct run_context *context, rule *run) {
  enum { FIRST = 2 };
  const struct update_attributes *a = &ATTRIBUTES->update;
  const struct tensor *w = kernel_input(kernel, 0);
  const struct operands operands = {in[0], in[1], (double)run_gradient_unit(context)};
  struct matrix_rule m = {.shape = matrix_shape_of(w, kernel_node(kernel)->op),
                          .a = a,
                          .rate = (double)(context->learning_rate * a->rate),
                          .t = (int64_t)context->step + 1,
                          .seed = context->seed ^ random_name(RANDOM_NO_NAME, w->name),
                          .work = workspace,
                          .context = &operands};
  m.shape.block = a->block;
  m.shape.blocked = a->blocked;
  m.first_correction = 1 / (1 - pow((double)a->beta1, (double)m.t));
  m.second_correction = 1 / sqrt(1 - pow((double)a->beta2, (double)m.t));
  for (int32_t k = 0; k < RULE_STATES && FIRST + k < kernel_node(kernel)->input_count; k++)
    m.states[k] = in[FIRST + k];
  run(&m);
  return NEAP_OK;
}

#define MATRIX_UPDATE(NAME, id, ...)                                                                         \
  RUN(run_##id) {                                                                                            \
    (void)out;                                                                                               \
    return run_rule(kernel, in, workspace, context, rule_##id);                                              \
  }
#include "op/update_list.h"
