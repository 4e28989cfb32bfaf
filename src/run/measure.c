/* Costs measured on this machine: each distinct kernel of a lowered graph is timed once, and never again
 * where there is a database of times. */
#include "run/measure.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/parallel.h"
#include "run/cost_database.h"
#include "run/program.h"
#include "run/speed.h"

enum { TIMED_RUNS = 3 };

/* ---- What a time is good for ---- */

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

/* All that a kernel's time hangs on, but for the machine: two nodes with the same text run the same kernel on
 * operands of the same shapes and formats. */
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

/* The least of a few runs, after one that warms up. All operands lie one after the other in `memory`, which
 * is zeroed. */
static neap_status time_kernel(const struct lowered *l, int32_t v, struct region *region,
                               unsigned char *memory, double *seconds) {
  const struct node *node = &l->graph->nodes.data[v];
  const struct run_context context = {0};
  void **inputs = region_alloc(region, (size_t)node->input_count, sizeof *inputs), *outputs[NODE_MAX_OUTPUTS];
  RETURN_IF_NULL(inputs);
  for (int32_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] == NO_TENSOR) continue;
    inputs[i] = memory;
    memory += tensor_bytes(l, node->inputs[i]);
  }
  for (int32_t i = 0; i < node->output_count; memory += tensor_bytes(l, node->outputs[i]), i++)
    outputs[i] = memory;
  for (int run = 0; run <= TIMED_RUNS; run++) {
    const double start = clock_seconds();
    TRY(l->kernels[v].run(&l->kernels[v], inputs, outputs, memory, &context));
    const double took = clock_seconds() - start;
    if (run == 1 || (run > 1 && took < *seconds)) *seconds = took;
  }
  return NEAP_OK;
}

struct measurement {
  const struct lowered *lowered;
  struct region *region;
  struct cost_database *database;
  const char *machine;
  unsigned char *memory;
  uint64_t bytes;
  struct kernel_time *known, *timed; /* distinct kernels; those of them that were timed now */
  int32_t known_count, timed_count;
};

static neap_status measure_node(struct measurement *m, int32_t v, double *seconds) {
  struct kernel_time time = {.kernel = kernel_text(m->lowered, v, m->region)};
  RETURN_IF(time.kernel == NULL, NEAP_OUT_OF_MEMORY, "out of memory for the costs of a step");
  for (int32_t i = 0; i < m->known_count; i++)
    if (strcmp(m->known[i].kernel, time.kernel) == 0) {
      *seconds = m->known[i].seconds;
      return NEAP_OK;
    }
  if (!cost_database_find(m->database, m->machine, time.kernel, &time.seconds)) {
    memset(m->memory, 0, m->bytes);
    TRY(time_kernel(m->lowered, v, m->region, m->memory, &time.seconds));
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

/* The step with measured costs; `m` has its memory. */
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
  void *memory = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  RETURN_IF(memory == MAP_FAILED, NEAP_OUT_OF_MEMORY, "the system has no %llu bytes to time kernels in",
            (unsigned long long)most);
  struct region region = {0};
  struct measurement m = {.lowered = l,
                          .region = &region,
                          .database = database != NULL ? cost_database_open(database) : NULL,
                          .memory = memory,
                          .bytes = most};
  struct neap_step *step;
  const neap_status status = measure(&m, &step);
  cost_database_close(m.database);
  munmap(memory, most);
  region_free(&region);
  if (status != NEAP_OK) return status;
  neap_step_free(l->step);
  l->step = step;
  if (timed != NULL) *timed = m.timed_count;
  return NEAP_OK;
}
