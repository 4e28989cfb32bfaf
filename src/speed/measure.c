/* Measures costs on this machine: each distinct kernel of a lowered graph is timed once, and never again with
 * a database of times. */
#include "speed/measure.h"
#include "kernel/spilled.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/parallel.h"
#include "device/devices.h"
#include "program/program.h"
#include "speed/cost_database.h"
#include "speed/speed.h"

enum { TIMED_RUNS = 3 };

/* ---- The kernels that share a time ---- */

static void put_operand(FILE *file, const struct lowered *l, int32_t t) {
  const struct tensor *tensor = &l->graph->tensors.data[t];
  const struct memory_format format = l->formats[t];
  fprintf(file, " %s[", dtype_rows[tensor->dtype].name);
  for (int32_t i = 0; i < tensor->rank; i++)
    fprintf(file, "%s%lld", i > 0 ? "," : "", (long long)tensor->dims[i]);
  fputc(']', file);
  if (format.packed != NULL)
    fprintf(file, "packed%llu", (unsigned long long)l->backend->format_bytes(tensor, format));
  else if (format.lanes != 1)
    fprintf(file, "%s%lld", format.blocks ? "blocks" : "lanes", (long long)format.lanes);
}

/* Returns all that a kernel's time depends on, except the machine: two nodes with the same text run the same
 * kernel on operands of the same shapes and formats. */
static char *kernel_text(const struct lowered *l, int32_t v, struct region *region) {
  const struct node *node = &l->graph->nodes.data[v];
  char *text = NULL, implementation[128];
  size_t length;
  FILE *file = open_memstream(&text, &length);
  if (file == NULL) return NULL;
  l->backend->describe(&l->kernels[v], implementation, sizeof implementation);
  fprintf(file, "%s, %s,", node_row(node)->name, implementation);
  attributes_print(file, &node->attributes, node_row(node)->attributes, node_row(node)->attribute_count,
                   true);
  fputs(", in", file);
  for (int32_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] == NO_TENSOR)
      fputs(" -", file);
    else
      put_operand(file, l, node->inputs[i]);
  }
  fputs(", out", file);
  for (int32_t i = 0; i < node->output_count; i++) put_operand(file, l, node->outputs[i]);
  const bool good = fclose(file) == 0;
  char *copy = good ? region_string(region, text) : NULL;
  free(text);
  return copy;
}

/* ---- Timing ---- */

static uint64_t node_footprint(const struct lowered *l, int32_t v) {
  const struct node *node = &l->graph->nodes.data[v];
  uint64_t bytes = l->step->nodes[v].workspace;
  for (int32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != NO_TENSOR) bytes += tensor_bytes(l, node->inputs[i]);
  for (int32_t i = 0; i < node->output_count; i++) bytes += tensor_bytes(l, node->outputs[i]);
  return bytes;
}

/* Takes the least of a few runs, after one that warms up. All operands are in a row from `place` on. */
static neap_status time_kernel(const struct lowered *l, int32_t v, const struct device_memory *memory,
                               void **inputs, unsigned char *place, double *seconds) {
  const struct node *node = &l->graph->nodes.data[v];
  const struct run_context context = {0};
  void *outputs[NODE_MAX_OUTPUTS];
  for (int32_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] == NO_TENSOR) continue;
    inputs[i] = place;
    place += tensor_bytes(l, node->inputs[i]);
  }
  for (int32_t i = 0; i < node->output_count; place += tensor_bytes(l, node->outputs[i]), i++)
    outputs[i] = place;
  for (int run = 0; run <= TIMED_RUNS; run++) {
    const double start = clock_seconds();
    TRY(l->kernels[v].run(&l->kernels[v], inputs, outputs, place, &context));
    TRY(device_wait(memory));
    const double took = clock_seconds() - start;
    if (run == 1 || (run > 1 && took < *seconds)) *seconds = took;
  }
  return NEAP_OK;
}

/* Times a node in zeroed memory. */
static neap_status time_node(const struct lowered *l, int32_t v, struct region *region,
                             const struct device_memory *memory, double *seconds) {
  void **inputs = region_alloc(region, (size_t)l->graph->nodes.data[v].input_count, sizeof *inputs);
  unsigned char *base;
  RETURN_IF_NULL(inputs);
  TRY(device_fill(memory, 0, memory->bytes));
  TRY(device_enter(memory, &base));
  const neap_status status = time_kernel(l, v, memory, inputs, base, seconds);
  device_leave(memory);
  return status;
}

struct measurement {
  const struct lowered *lowered;
  struct region *region;
  struct cost_database *database;
  const char *machine;
  struct device_memory memory;
  struct kernel_time *known, *timed; /* distinct kernels; those of them that were timed now */
  int32_t known_count, timed_count;
};

/* Returns true for nodes that read from disk or receive from others. They keep their costs by the
 * speed of disk and exchange, as neither exists here. */
static bool reads_elsewhere(const struct lowered *l, int32_t v) {
  const struct node *node = &l->graph->nodes.data[v];
  if (node->op == OP_ALL_GATHER || node->op == OP_LOAD || spilled_updates(l->graph, node)) return true;
  for (int32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != NO_TENSOR && l->graph->tensors.data[node->inputs[i]].on_disk) return true;
  return false;
}

static neap_status measure_node(struct measurement *m, int32_t v, double *seconds) {
  if (reads_elsewhere(m->lowered, v)) return NEAP_OK;
  struct kernel_time time = {.kernel = kernel_text(m->lowered, v, m->region)};
  RETURN_IF(time.kernel == NULL, NEAP_OUT_OF_MEMORY, "out of memory for the costs of a step");
  for (int32_t i = 0; i < m->known_count; i++)
    if (strcmp(m->known[i].kernel, time.kernel) == 0) {
      *seconds = m->known[i].seconds;
      return NEAP_OK;
    }
  if (!cost_database_find(m->database, m->machine, time.kernel, &time.seconds)) {
    TRY(time_node(m->lowered, v, m->region, &m->memory, &time.seconds));
    m->timed[m->timed_count++] = time;
  }
  m->known[m->known_count++] = time;
  *seconds = time.seconds;
  return NEAP_OK;
}

static neap_status measure_nodes(struct measurement *m, struct step_node *nodes) {
  neap_status status;
  struct team former;
  TRY(team_set(m->lowered->threads, &former));
  for (int32_t v = 0; v < m->lowered->step->node_count; v++) TRY_DONE(measure_node(m, v, &nodes[v].cost));
  status = NEAP_OK;
done:
  team_restore(&former);
  return status;
}

/* Makes the step with measured costs; `m` has its memory. */
static neap_status measure(struct measurement *m, struct neap_step **out) {
  const struct neap_step *step = m->lowered->step;
  const size_t count = (size_t)step->node_count;
  struct neap_step draft = *step;
  draft.nodes = region_copy(m->region, step->nodes, count, sizeof *draft.nodes);
  m->known = region_alloc(m->region, count, sizeof *m->known);
  m->timed = region_alloc(m->region, count, sizeof *m->timed);
  m->machine = machine_text(m->region, m->lowered->threads);
  RETURN_IF(!draft.nodes || !m->known || !m->timed || !m->machine, NEAP_OUT_OF_MEMORY,
            "out of memory for the costs of a step");
  TRY(measure_nodes(m, draft.nodes));
  cost_database_add(m->database, m->machine, m->timed, (size_t)m->timed_count);
  return step_create(&draft, out);
}

neap_status measure_costs(struct lowered *l, const char *database, int32_t *timed) {
  uint64_t most = 1;
  for (int32_t v = 0; v < l->step->node_count; v++)
    most = node_footprint(l, v) > most ? node_footprint(l, v) : most;
  struct region region = {0};
  struct measurement m = {.lowered = l, .region = &region};
  struct neap_step *step;
  TRY(device_map(device_in_use(l->backend->device), most, &m.memory));
  m.database = database != NULL ? cost_database_open(database) : NULL;
  const neap_status status = measure(&m, &step);
  cost_database_close(m.database);
  device_unmap(&m.memory);
  region_free(&region);
  if (status != NEAP_OK) return status;
  neap_step_free(l->step);
  l->step = step;
  if (timed != NULL) *timed = m.timed_count;
  return NEAP_OK;
}
