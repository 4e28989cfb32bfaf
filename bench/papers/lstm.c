/* The recurrent network of Chen et al. 2016, section 5: 4 layers of 1024 LSTM cells, 64 times, batch 64,
 * inputs of 50, a softmax over 5000 at each time. Plain arrays in, as a user of the library would. */
#include <stdio.h>
#include <stdlib.h>

#include "papers.h"

enum { LAYERS = 4, TIMES = 64, BATCH = 64, UNITS = 1024, INPUTS = 50, CLASSES = 5000, GATES = 4 * UNITS };
enum { TENSOR_LIMIT = 4096, NODE_LIMIT = 2048, READ_LIMIT = 16384 };

/* A step under construction; memory for all of it. */
struct draft {
  int32_t tensor_count, node_count;
  uint64_t bytes[TENSOR_LIMIT];
  neap_role roles[TENSOR_LIMIT];
  double costs[NODE_LIMIT];
  neap_pass passes[NODE_LIMIT];
  int64_t input_start[NODE_LIMIT + 1], output_start[NODE_LIMIT + 1];
  int32_t inputs[READ_LIMIT], outputs[TENSOR_LIMIT];
  neap_inplace inplace[NODE_LIMIT];
  int64_t inplace_count;
};

static int32_t add_tensor(struct draft *d, neap_role role, int64_t elements) {
  d->bytes[d->tensor_count] = 4 * (uint64_t)elements;
  d->roles[d->tensor_count] = role;
  return d->tensor_count++;
}

/* A node without reads; the calls below add to the newest one. */
static void add_node(struct draft *d, neap_pass pass) {
  const int32_t v = d->node_count++;
  d->passes[v] = pass;
  d->input_start[v + 1] = d->input_start[v];
  d->output_start[v + 1] = d->output_start[v];
}

/* What a node reads; -1: nothing. */
static void add_read(struct draft *d, int32_t tensor) {
  if (tensor >= 0) d->inputs[d->input_start[d->node_count]++] = tensor;
}

static int32_t add_value(struct draft *d, int64_t elements) {
  const int32_t tensor = add_tensor(d, NEAP_ROLE_VALUE, elements);
  return d->outputs[d->output_start[d->node_count]++] = tensor;
}

/* The first value that the node makes takes over the first that it reads. */
static void run_in_place(struct draft *d) {
  d->inplace[d->inplace_count++] = (neap_inplace){.node = d->node_count - 1};
}

/* The roofline's: 300 GFLOP/s for matrix products, 25 GB/s for the rest. */
static void cost_product(struct draft *d, double rows, double columns) {
  d->costs[d->node_count - 1] = 2 * BATCH * rows * columns / 300e9;
}

static void cost_bytes(struct draft *d) {
  const int32_t v = d->node_count - 1;
  double bytes = 0;
  for (int64_t i = d->input_start[v]; i < d->input_start[v + 1]; i++) bytes += (double)d->bytes[d->inputs[i]];
  for (int64_t i = d->output_start[v]; i < d->output_start[v + 1]; i++)
    bytes += (double)d->bytes[d->outputs[i]];
  d->costs[v] = bytes / 25e9;
}

/* Values by time and layer; time 0 is the state at the start. */
struct values {
  int32_t x[TIMES + 1], hidden[TIMES + 1][LAYERS], cell[TIMES + 1][LAYERS], gates[TIMES + 1][LAYERS],
      logits[TIMES + 1], weight[LAYERS], head;
};

static int64_t width_below(int32_t layer) { return layer == 0 ? INPUTS : UNITS; }

static int32_t value_below(const struct values *v, int32_t time, int32_t layer) {
  return layer == 0 ? v->x[time] : v->hidden[time][layer - 1];
}

static void add_forward(struct draft *d, struct values *v, int32_t time) {
  for (int32_t l = 0; l < LAYERS; l++) {
    add_node(d, NEAP_PASS_FORWARD);
    add_read(d, value_below(v, time, l));
    add_read(d, v->hidden[time - 1][l]);
    add_read(d, v->weight[l]);
    v->gates[time][l] = add_value(d, (int64_t)BATCH * GATES);
    cost_product(d, (double)(width_below(l) + UNITS), GATES);
    add_node(d, NEAP_PASS_FORWARD);
    add_read(d, v->gates[time][l]);
    add_read(d, v->cell[time - 1][l]);
    v->cell[time][l] = add_value(d, (int64_t)BATCH * UNITS);
    v->hidden[time][l] = add_value(d, (int64_t)BATCH * UNITS);
    cost_bytes(d);
  }
  add_node(d, NEAP_PASS_FORWARD);
  add_read(d, v->hidden[time][LAYERS - 1]);
  add_read(d, v->head);
  v->logits[time] = add_value(d, (int64_t)BATCH * CLASSES);
  cost_product(d, UNITS, CLASSES);
}

/* Gradients that come from the time after, and sums over the times. */
struct gradients {
  int32_t hidden[LAYERS], cell[LAYERS], weight[LAYERS], head;
};

/* A product with the inputs that adds to the sum of a parameter's gradient, which is not counted: it lies
 * beside the parameter. */
static void add_weight_gradient(struct draft *d, int32_t gradient, int32_t first, int32_t second, double rows,
                                double columns, int32_t *sum) {
  add_node(d, NEAP_PASS_BACKWARD);
  add_read(d, gradient);
  add_read(d, first);
  add_read(d, second);
  add_read(d, *sum);
  *sum = add_value(d, 0);
  cost_product(d, rows, columns);
}

static void add_backward(struct draft *d, const struct values *v, struct gradients *g, int32_t time) {
  add_node(d, NEAP_PASS_BACKWARD); /* of softmax and loss */
  add_read(d, v->logits[time]);
  const int32_t of_logits = add_value(d, (int64_t)BATCH * CLASSES);
  run_in_place(d);
  cost_bytes(d);
  add_node(d, NEAP_PASS_BACKWARD);
  add_read(d, of_logits);
  add_read(d, v->head);
  int32_t from_above = add_value(d, (int64_t)BATCH * UNITS);
  cost_product(d, UNITS, CLASSES);
  add_weight_gradient(d, of_logits, v->hidden[time][LAYERS - 1], -1, UNITS, CLASSES, &g->head);
  for (int32_t l = LAYERS; l-- > 0;) {
    add_node(d, NEAP_PASS_BACKWARD); /* of the cell */
    const int32_t reads[] = {v->gates[time][l], v->cell[time - 1][l], v->cell[time][l],
                             from_above,        g->hidden[l],         g->cell[l]};
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) add_read(d, reads[i]);
    const int32_t of_gates = add_value(d, (int64_t)BATCH * GATES);
    g->cell[l] = add_value(d, (int64_t)BATCH * UNITS);
    run_in_place(d);
    cost_bytes(d);
    add_node(d, NEAP_PASS_BACKWARD);
    add_read(d, of_gates);
    add_read(d, v->weight[l]);
    from_above = add_value(d, BATCH * width_below(l));
    g->hidden[l] = add_value(d, (int64_t)BATCH * UNITS);
    cost_product(d, (double)(width_below(l) + UNITS), GATES);
    add_weight_gradient(d, of_gates, value_below(v, time, l), v->hidden[time - 1][l],
                        (double)(width_below(l) + UNITS), GATES, &g->weight[l]);
  }
}

static neap_status make_step(struct draft *d, neap_step **step) {
  struct values v;
  struct gradients g = {.head = -1};
  v.head = add_tensor(d, NEAP_ROLE_PARAMETER, (int64_t)UNITS * CLASSES);
  for (int32_t l = 0; l < LAYERS; l++) {
    v.weight[l] = add_tensor(d, NEAP_ROLE_PARAMETER, (width_below(l) + UNITS) * GATES);
    v.hidden[0][l] = add_tensor(d, NEAP_ROLE_INPUT, (int64_t)BATCH * UNITS);
    v.cell[0][l] = add_tensor(d, NEAP_ROLE_INPUT, (int64_t)BATCH * UNITS);
    g.hidden[l] = g.cell[l] = g.weight[l] = -1;
  }
  for (int32_t t = 1; t <= TIMES; t++) v.x[t] = add_tensor(d, NEAP_ROLE_INPUT, (int64_t)BATCH * INPUTS);
  for (int32_t t = 1; t <= TIMES; t++) add_forward(d, &v, t);
  for (int32_t t = TIMES; t >= 1; t--) add_backward(d, &v, &g, t);
  int32_t sums[LAYERS + 1] = {[LAYERS] = g.head};
  for (int32_t l = 0; l < LAYERS; l++) sums[l] = g.weight[l];
  const neap_step_arrays arrays = {.name = "lstm",
                                   .tensor_count = d->tensor_count,
                                   .node_count = d->node_count,
                                   .step_output_count = LAYERS + 1,
                                   .tensor_bytes = d->bytes,
                                   .tensor_roles = d->roles,
                                   .node_costs = d->costs,
                                   .node_passes = d->passes,
                                   .inputs = {d->input_start, d->inputs},
                                   .outputs = {d->output_start, d->outputs},
                                   .step_outputs = sums,
                                   .inplace_count = d->inplace_count,
                                   .inplace = d->inplace};
  return neap_step_create(&arrays, step);
}

static neap_status print_planners(const struct report *report, const neap_step *step, uint64_t keep_all,
                                  uint64_t resident) {
  static const char *const names[] = {"chen-sqrt", "chen-greedy", "chen-recursive", "rotor"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    struct outcome least;
    progress(report, "  %s ...", names[i]);
    TRY(plan_checked(step, NEAP_BUDGET_MIN, names[i], &least));
    print_row(report, "  %-16s %10.1f %8.1f %+7.1f %% %8.1f\n", names[i], (double)least.values / 1e6,
              (double)(keep_all - resident) / (double)least.values, 100 * least.overhead, least.seconds);
  }
  return NEAP_OK;
}

neap_status print_lstm(struct report *report) {
  static struct draft draft;
  static const double published = 4;
  draft = (struct draft){0};
  neap_step *step;
  neap_step_info info;
  struct outcome keep_all, ours;
  printf(
      "  %d layers of %d cells, %d times, batch %d: MB of values, without parameters and their gradients.\n"
      "  Published: sublinear plans are more than %.0f times below what the allocator reaches alone. Met: so "
      "is\n"
      "  Neap's, at no more than a forward pass more.\n\n  %-16s %10s %8s %9s %8s\n",
      LAYERS, UNITS, TIMES, BATCH, published, "plan", "MB", "times", "overhead", "seconds");
  TRY(make_step(&draft, &step));
  neap_step_describe(step, &info);
  neap_status status = plan_checked(step, NEAP_BUDGET_MAX, "keep-all", &keep_all);
  if (status == NEAP_OK) {
    print_row(report, "  %-16s %10.1f %8.1f %+7.1f %% %8.1f\n", "keep-all", (double)keep_all.values / 1e6,
              1.0, 0.0, keep_all.seconds);
    status = print_planners(report, step, keep_all.peak, info.resident_bytes);
  }
  double forward = 0;
  for (int32_t v = 0; v < step->node_count; v++)
    if (step->nodes[v].pass == NEAP_PASS_FORWARD) forward += step->nodes[v].cost;
  if (status == NEAP_OK)
    status = plan_checked(step, info.resident_bytes + (uint64_t)((double)keep_all.values / published), "auto",
                          &ours);
  if (status == NEAP_OK)
    print_row(report, "  %-16s %10.1f %8.1f %+7.1f %% %8.1f   %s\n", "Neap", (double)ours.values / 1e6,
              (double)keep_all.values / (double)ours.values, 100 * ours.overhead, ours.seconds,
              verdict(report, ours.fits && ours.overhead <= forward / info.base_cost));
  neap_step_free(step);
  return status;
}
