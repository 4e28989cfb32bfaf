#include "kernel/restorers.h"

#include <string.h>

/* The least that is stored: a transfer has a fixed price. */
enum { LEAST_BYTES = 256 << 10 };

/* The share of the time to bring it back below which a value is made again instead: its inputs are about as
 * large. */
static const double LEAST_SHARE = 0.2;

/* A lowered graph that gets pairs of a Store and a Restore. */
struct addition {
  struct neap_graph *graph;
  const struct lowered *l;
  struct neap_step draft;
  struct memory_format *formats; /* by tensor of the graph, as are the next two */
  int32_t *step_tensor, *home;
  struct kernel *kernels; /* by node */
  struct region region;   /* of the draft */
  double read, write;     /* bytes a second */
};

static uint64_t bytes_made(const struct neap_step *step, int32_t v) {
  uint64_t bytes = 0;
  for (int32_t i = 0; i < step->nodes[v].output_count; i++)
    bytes += step->tensors[step->nodes[v].outputs[i]].bytes;
  return bytes;
}

/* Returns true if the bytes of a tensor are its own, and are not kept to the end of the step. */
static bool has_own_bytes(const struct lowered *l, int32_t tensor) {
  const struct tensor *t = &l->graph->tensors.data[tensor];
  return t->view_of < 0 && t->lies_in == 0 && !l->step->tensors[l->home[tensor]].is_output;
}

/* Returns false for what a job of a lane brings: it lies elsewhere already, and is not complete at its
 * position.
 */
static bool is_worth_storing(const struct addition *a, int32_t v) {
  const struct node *node = &a->graph->nodes.data[v];
  const struct step_node *in_step = &a->l->step->nodes[v];
  const uint64_t bytes = bytes_made(a->l->step, v);
  if (is_lane_job(node)) return false;
  if (node->pass != NEAP_PASS_FORWARD || node->update_count > 0 || bytes < LEAST_BYTES ||
      in_step->output_count != node->output_count || in_step->cost < LEAST_SHARE * (double)bytes / a->read)
    return false;
  for (int32_t i = 0; i < node->output_count; i++)
    if (!has_own_bytes(a->l, node->outputs[i])) return false;
  return true;
}

/* Adds the value of no bytes that a Store makes. `token`: its ids in the graph and in the step. */
static neap_status add_token(struct addition *a, const char *name, int32_t token[2]) {
  token[0] = (int32_t)a->graph->tensors.count;
  token[1] = a->draft.tensor_count++;
  a->draft.tensors[token[1]] = (struct step_tensor){.name = name, .role = NEAP_ROLE_VALUE};
  a->step_tensor[token[0]] = a->home[token[0]] = token[1];
  a->formats[token[0]] = ROW_MAJOR;
  return vector_push(&a->graph->tensors, ((struct tensor){.name = name,
                                                          .role = NEAP_ROLE_VALUE,
                                                          .rank = 1,
                                                          .dims = {1},
                                                          .elements = 1,
                                                          .producer = (int32_t)a->graph->nodes.count,
                                                          .view_of = -1}));
}

static neap_status add_node(struct addition *a, struct node node, struct step_node in_step) {
  const int32_t id = a->draft.node_count++;
  a->draft.nodes[id] = in_step;
  a->kernels[id] = (struct kernel){run_fetch_elsewhere, NULL, a->graph, id};
  return vector_push(&a->graph->nodes, node);
}

/* Adds a Store and a Restore of what node `v` makes. */
static neap_status add_pair(struct addition *a, int32_t v) {
  const struct node of = a->graph->nodes.data[v];
  const struct step_node *in_step = &a->l->step->nodes[v];
  const double bytes = (double)bytes_made(a->l->step, v);
  const char *stored = region_format(&a->graph->region, "%s stored", of.name),
             *restored = region_format(&a->graph->region, "%s restored", of.name);
  int32_t *token = region_alloc(&a->graph->region, 2, sizeof *token);
  RETURN_IF(!stored || !restored || !token, NEAP_OUT_OF_MEMORY, "lowering: out of memory");
  TRY(add_token(a, stored, token));
  TRY(add_node(a,
               (struct node){.name = stored,
                             .op = OP_STORE,
                             .pass = NEAP_PASS_FORWARD,
                             .inputs = of.outputs,
                             .input_count = of.output_count,
                             .outputs = &token[0],
                             .output_count = 1},
               (struct step_node){.name = stored,
                                  .op = op_rows[OP_STORE]->name,
                                  .pass = NEAP_PASS_FORWARD,
                                  .transfers = true,
                                  .cost = bytes / a->write,
                                  .inputs = in_step->outputs,
                                  .input_count = in_step->output_count,
                                  .outputs = &token[1],
                                  .output_count = 1}));
  return add_node(a,
                  (struct node){.name = restored,
                                .op = OP_RESTORE,
                                .pass = NEAP_PASS_BACKWARD,
                                .inputs = &token[0],
                                .input_count = 1,
                                .outputs = of.outputs,
                                .output_count = of.output_count},
                  (struct step_node){.name = restored,
                                     .op = op_rows[OP_RESTORE]->name,
                                     .pass = NEAP_PASS_BACKWARD,
                                     .repeatable = true,
                                     .transfers = true,
                                     .cost = bytes / a->read,
                                     .inputs = &token[1],
                                     .input_count = 1,
                                     .outputs = in_step->outputs,
                                     .output_count = in_step->output_count});
}

/* Returns a copy with room for more. */
static void *extended(struct region *region, const void *from, size_t count, size_t more, size_t size) {
  void *made = region_alloc(region, count + more, size);
  if (made != NULL && count > 0) memcpy(made, from, count * size);
  return made;
}

/* Makes room for `pairs`. */
static neap_status begin(struct addition *a, struct lowered *l, size_t pairs) {
  const size_t tensors = l->graph->tensors.count, nodes = l->graph->nodes.count;
  a->draft = *l->step;
  a->draft.tensors =
      extended(&a->region, l->step->tensors, (size_t)l->step->tensor_count, pairs, sizeof *a->draft.tensors);
  a->draft.nodes = extended(&a->region, l->step->nodes, nodes, 2 * pairs, sizeof *a->draft.nodes);
  a->formats = extended(&l->region, l->formats, tensors, pairs, sizeof *a->formats);
  a->step_tensor = extended(&l->region, l->step_tensor, tensors, pairs, sizeof *a->step_tensor);
  a->home = extended(&l->region, l->home, tensors, pairs, sizeof *a->home);
  a->kernels = extended(&l->region, l->kernels, nodes, 2 * pairs, sizeof *a->kernels);
  RETURN_IF(!a->draft.tensors || !a->draft.nodes || !a->formats || !a->step_tensor || !a->home || !a->kernels,
            NEAP_OUT_OF_MEMORY, "lowering: out of memory");
  return NEAP_OK;
}

static neap_status add_all(struct addition *a, struct lowered *l) {
  const int32_t nodes = (int32_t)l->graph->nodes.count;
  struct neap_step *step;
  size_t pairs = 0;
  for (int32_t v = 0; v < nodes; v++) pairs += is_worth_storing(a, v);
  TRY(begin(a, l, pairs));
  for (int32_t v = 0; v < nodes; v++)
    if (is_worth_storing(a, v)) TRY(add_pair(a, v));
  TRY(step_create(&a->draft, &step));
  neap_step_free(l->step);
  l->step = step;
  l->formats = a->formats;
  l->step_tensor = a->step_tensor;
  l->home = a->home;
  l->kernels = a->kernels;
  return NEAP_OK;
}

neap_status lowered_add_restorers(struct lowered *l, const struct roofline *r) {
  const double rate = r->disk > 0 ? r->disk : usual_roofline.disk;
  struct addition a = {.graph = l->graph,
                       .l = l,
                       .read = r->disk_read_in_turn > 0 ? r->disk_read_in_turn : rate,
                       .write = r->disk_write_in_turn > 0 ? r->disk_write_in_turn : rate};
  const neap_status status = add_all(&a, l);
  region_free(&a.region);
  return status;
}

bool plan_stores(const struct neap_plan *plan, int32_t store) {
  for (int32_t i = 0; i < plan->length; i++)
    if (plan->schedule[i] == store) return true;
  return false;
}

struct stored_bytes plan_stored_bytes(const struct neap_step *step, const struct neap_plan *plan) {
  struct stored_bytes bytes = {0};
  for (int32_t i = 0; i < plan->length; i++) {
    const int32_t v = plan->schedule[i];
    if (v < step->required_count || !step->nodes[v].transfers) continue;
    const bool restores = step_restores(step, v);
    *(restores ? &bytes.read : &bytes.written) +=
        bytes_made(step, restores ? v : step->tensors[step->nodes[v].inputs[0]].producer);
  }
  return bytes;
}
