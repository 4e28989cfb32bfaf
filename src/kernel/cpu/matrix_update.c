/* Update rules of matrices: kernel/matrix_rule.h in float. */
#include <string.h>

#include "kernel/cpu/operator.h"
#include "kernel/cpu/typed.h"
#include "kernel/random_stream.h"

typedef float real;
#define SQRT(x)     __builtin_sqrtf(x)
#define IN_PARALLEL _Pragma("omp parallel for schedule(static)")

/* The operands of a rule. */
struct operands {
  const struct cpu_kernels *kernels;
  struct stored g;
  struct updated w;
  float unit;
  int threads;
  void *workspace; /* of products */
};

#include "kernel/matrix_rule.h"

static void take(const struct operands *o, struct stored x, int64_t first, int64_t count, real *to) {
  x.data = (unsigned char *)x.data + dtype_bytes(x.storage, (uint64_t)first);
  if (x.storage == NEAP_F32)
    memcpy(to, x.data, (size_t)count * sizeof *to);
  else
    o->kernels->convert(count, x, (struct stored){NEAP_F32, to});
}

static void take_gradient(const struct matrix_rule *m, int64_t first, int64_t count, real *to) {
  const struct operands *o = m->context;
  take(o, o->g, first, count, to);
  for (int64_t i = 0; o->unit != 1 && i < count; i++) to[i] *= o->unit;
}

static void take_weights(const struct matrix_rule *m, int64_t first, int64_t count, real *to) {
  const struct operands *o = m->context;
  take(o, (struct stored){o->w.storage, o->w.data}, first, count, to);
}

static void change_weights(const struct matrix_rule *m, int64_t first, int64_t count, real *by) {
  const struct operands *o = m->context;
  struct updated w = o->w;
  w.data = (unsigned char *)w.data + dtype_bytes(w.storage, (uint64_t)first);
  w.first += first;
  o->kernels->accumulate(count, w, (struct stored){NEAP_F32, by}, 1);
}

static struct product product_of(const struct rule_product *p, int threads) {
  return (struct product){
      .rows = p->rows,
      .columns = p->columns,
      .depth = p->depth,
      .a = {.row = p->a_row, .column = 1, .storage = NEAP_F32},
      .b = {.row = p->b_turned ? 1 : p->b_row, .column = p->b_turned ? p->b_row : 1, .storage = NEAP_F32},
      .c = {.row = p->c_row, .column = 1, .storage = NEAP_F32},
      .a_turned = p->a_turned,
      .add = p->add,
      .threads = threads};
}

static void multiply(const struct matrix_rule *m, const struct rule_product *p) {
  const struct operands *o = m->context;
  const struct product product = product_of(p, o->threads);
  o->kernels->product(
      &product, &(struct product_operands){.a = p->a, .b = p->b, .addend = p->add ? p->c : NULL, .c = p->c},
      o->workspace);
}

/* Returns the most bytes that products of a rule take for themselves: of Muon, of the other rules. */
static uint64_t product_bytes(const struct cpu *cpu, int32_t op, const struct matrix_shape *s, int64_t rank) {
  const int64_t rows = s->rows, columns = s->columns, shorter = lesser(rows, columns),
                whole = lesser(RULE_PANEL, rows), rest = rows % RULE_PANEL;
  const int64_t heights[] = {whole, rest > 0 ? rest : whole};
  const bool wide = rows <= columns, muon = op == OP_MUON;
  uint64_t most = 0;
  for (int i = 0; i < 2 && (muon || rank > 0); i++) {
    const int64_t h = heights[i];
    const struct rule_product of_muon[] = {
        {shorter, shorter, rows + columns - shorter, NULL, columns, !wide, NULL, columns, wide, NULL, shorter,
         false},
        {shorter, shorter, shorter, NULL, shorter, false, NULL, shorter, false, NULL, shorter, false},
        wide ? (struct rule_product){rows, columns, rows, NULL, rows, false, NULL, columns, false, NULL,
                                     columns, false}
             : (struct rule_product){rows, columns, columns, NULL, columns, false, NULL, columns, false, NULL,
                                     columns, false}};
    const struct rule_product of_projection[] = {
        {h, rank, columns, NULL, columns, false, NULL, columns, true, NULL, rank, false},
        {columns, rank, h, NULL, columns, true, NULL, shorter, true, NULL, rank, true},
        {rank, columns, h, NULL, rank, true, NULL, columns, false, NULL, columns, true},
        {rank, h, columns, NULL, rank, true, NULL, columns, true, NULL, shorter, false},
        {h, columns, rank, NULL, rank, false, NULL, columns, false, NULL, columns, false},
        {h, columns, rank, NULL, shorter, true, NULL, rank, true, NULL, columns, false}};
    const struct rule_product *products = muon ? of_muon : of_projection;
    const size_t count =
        muon ? sizeof of_muon / sizeof *of_muon : sizeof of_projection / sizeof *of_projection;
    for (size_t k = 0; k < count; k++) {
      const struct product p = product_of(&products[k], cpu->threads);
      const uint64_t bytes = cpu->kernels->product_workspace(&p);
      most = bytes > most ? bytes : most;
    }
  }
  return most;
}

typedef void rule(struct matrix_rule *m);

static neap_status run_rule(const struct kernel *kernel, void *const *in, void *workspace,
                            const struct run_context *context, rule *run) {
  enum { FIRST = 2 };
  const struct update_attributes *a = &ATTRIBUTES.update;
  const struct tensor *w = kernel_input(kernel, 0);
  const uint64_t name = random_name(RANDOM_NO_NAME, w->name);
  struct matrix_rule m = {.shape = matrix_shape_of(w, kernel_node(kernel)->op),
                          .a = a,
                          .rate = context->learning_rate * a->rate,
                          .t = (int64_t)context->step + 1,
                          .seed = context->seed ^ name,
                          .work = workspace};
  m.shape.block = a->block;
  m.shape.blocked = a->blocked;
  m.first_correction = 1 / (1 - power((double)a->beta1, (double)m.t));
  m.second_correction = 1 / sqrt(1 - power((double)a->beta2, (double)m.t));
  for (int32_t k = 0; k < RULE_STATES && FIRST + k < kernel_node(kernel)->input_count; k++)
    m.states[k] = in[FIRST + k];
  const uint64_t own = rule_workspace((enum op)kernel_node(kernel)->op, a, &m.shape, sizeof(real));
  const struct random_key key = {m.seed,
                                 random_stream(run_draw(context), update_stream(kernel_node(kernel)->op))};
  const struct operands operands = {.kernels = cpu_kernel(kernel)->kernels,
                                    .g = stored_input(kernel, in, 1),
                                    .w = {w->dtype, in[0], key, 0},
                                    .unit = run_gradient_unit(context),
                                    .threads = (int)cpu_kernel(kernel)->count,
                                    .workspace = (unsigned char *)workspace + own};
  m.context = &operands;
  run(&m);
  return NEAP_OK;
}

static neap_status prepare_rule(struct cpu *cpu, const struct neap_graph *graph, const struct node *node,
                                struct preparation *p, kernel_run *run) {
  const struct tensor *w = node_input(graph, node, 0);
  RETURN_IF(format_chosen(p->inputs[0]) && !cpu_backend.same_place(w, p->inputs[0], ROW_MAJOR), NEAP_INTERNAL,
            "'%s' does not lie row by row", w->name);
  for (int32_t i = 0; i < node->input_count; i++) p->inputs[i] = ROW_MAJOR;
  const struct matrix_shape s = matrix_shape_of(w, node->op);
  const struct update_attributes *a = &node->attributes.update;
  p->workspace = rule_workspace((enum op)node->op, a, &s, sizeof(real)) +
                 product_bytes(cpu, node->op, &s, a->projection_rank);
  return cpu_finish(cpu, p, run, (struct cpu_kernel){.count = (uint64_t)cpu->threads});
}

#define MATRIX_UPDATE(NAME, id, ...)                                                                         \
  RUN(run_##id) {                                                                                            \
    (void)out;                                                                                               \
    return run_rule(kernel, in, workspace, context, rule_##id);                                              \
  }                                                                                                          \
  CPU_OPERATOR(id, TYPES_FLOAT) { return prepare_rule(state, graph, node, p, run_##id); }
#include "op/update_list.h"
