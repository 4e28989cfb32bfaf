/* neap plan --profile: what each technique makes of the memory of a step, alone, in pairs and together: the
 * table of Sohoni et al. 2019. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* A bit each; the names of a row are in this order. */
enum { RECOMPUTE = 1, MICRO = 2, HALF = 4, SPARSE = 8, TECHNIQUES = 4 };

struct profiled {
  unsigned techniques;
  char name[64];
  uint64_t bytes[NEAP_KIND_COUNT]; /* where the most lives */
  uint64_t peak;
  double overhead;
};

struct profiling {
  struct source whole; /* the model's step without any technique */
  int64_t micro_batch;
  int precision; /* which 16 bits */
  double density;
};

static void name_techniques(const struct profiling *p, struct profiled *row) {
  char parts[TECHNIQUES][24];
  snprintf(parts[0], sizeof parts[0], "recompute");
  snprintf(parts[1], sizeof parts[1], "micro=%lld", (long long)p->micro_batch);
  snprintf(parts[2], sizeof parts[2], "%s", precision_name(p->precision));
  snprintf(parts[3], sizeof parts[3], "sparse=%g", p->density);
  row->name[0] = '\0';
  for (int i = 0; i < TECHNIQUES; i++) {
    if ((row->techniques >> i & 1) == 0) continue;
    if (row->name[0] != '\0') strcat(row->name, "+");
    strcat(row->name, parts[i]);
  }
  if (row->name[0] == '\0') strcpy(row->name, "none");
}

/* The kinds of bytes at the position where the most lives. */
static neap_status take_kinds(const neap_step *step, const neap_plan *plan, struct profiled *row) {
  int64_t length;
  uint64_t most = 0;
  neap_plan_schedule(plan, &length);
  uint64_t *live = calloc((size_t)length * NEAP_KIND_COUNT + 1, sizeof *live);
  if (live == NULL) return no_memory();
  const neap_status status = neap_plan_profile(step, plan, live);
  for (int64_t at = 0; status == NEAP_OK && at < length; at++) {
    uint64_t sum = 0;
    for (int k = 0; k < NEAP_KIND_COUNT; k++) sum += live[at * NEAP_KIND_COUNT + k];
    if (sum <= most) continue;
    most = sum;
    memcpy(row->bytes, live + at * NEAP_KIND_COUNT, sizeof row->bytes);
  }
  free(live);
  return status;
}

static neap_status profile_row(const struct profiling *p, struct profiled *row) {
  struct source source = p->whole;
  neap_step *step = NULL, *chosen = NULL;
  neap_plan *plan = NULL;
  if (row->techniques & MICRO) source.micro_batch = p->micro_batch;
  if (row->techniques & HALF) source.precision = p->precision;
  if (row->techniques & SPARSE) source.sparse = p->density;
  name_techniques(p, row);
  neap_status status = source_step(&source, &step);
  const uint64_t budget = row->techniques & RECOMPUTE ? NEAP_BUDGET_MIN : NEAP_BUDGET_MAX;
  if (status == NEAP_OK)
    status = source_plan(&source, step, budget, &(neap_plan_options){0}, NULL, &chosen, &plan);
  if (status == NEAP_OK) status = take_kinds(chosen != NULL ? chosen : step, plan, row);
  if (status == NEAP_OK) {
    neap_plan_info info;
    neap_plan_describe(plan, &info);
    row->peak = plan_bytes(plan);
    row->overhead = overhead_of(info.cost, info.base_cost);
  }
  neap_plan_free(plan);
  neap_step_free(step);
  neap_step_free(chosen);
  return status;
}

/* ---- What is printed ---- */

static uint64_t activations(const struct profiled *row) {
  return row->bytes[NEAP_KIND_KEPT] + row->bytes[NEAP_KIND_RECOMPUTED];
}

static void print_table_row(const struct profiled *row, const struct profiled *whole) {
  const uint64_t columns[] = {row->bytes[NEAP_KIND_PARAMETER], row->bytes[NEAP_KIND_STATE],
                              row->bytes[NEAP_KIND_GRADIENT],  activations(row),
                              row->bytes[NEAP_KIND_WORKSPACE], row->bytes[NEAP_KIND_INPUT]};
  printf("%-36s", row->name);
  for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) printf(" %10s", bytes_text(columns[i]).text);
  printf(" | %10s %6.1fx %9s\n", bytes_text(row->peak).text, (double)whole->peak / (double)row->peak,
         percent_text(row->overhead).text);
}

static void print_heading(const struct profiling *p) {
  printf("%s, batch %lld: bytes where the most lives; peak: with the gaps of the arena, and how many times "
         "less than without any technique\nrecompute: the least that can be met; its cost is in "
         "recomputation\n\n",
         p->whole.model, (long long)p->whole.batch);
  printf("%-36s %10s %10s %10s %10s %10s %10s | %10s %7s %9s\n", "technique", "parameters", "states",
         "gradients", "activat.", "workspace", "inputs", "peak", "less", "recomp.");
}

static json_t *row_json(const struct profiled *row, const struct profiled *whole) {
  return json_pack(
      "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f}", "combination", row->name, "parameters_bytes",
      (json_int_t)row->bytes[NEAP_KIND_PARAMETER], "states_bytes", (json_int_t)row->bytes[NEAP_KIND_STATE],
      "gradients_bytes", (json_int_t)row->bytes[NEAP_KIND_GRADIENT], "activations_bytes",
      (json_int_t)activations(row), "workspaces_bytes", (json_int_t)row->bytes[NEAP_KIND_WORKSPACE],
      "inputs_bytes", (json_int_t)row->bytes[NEAP_KIND_INPUT], "peak_bytes", (json_int_t)row->peak, "ratio",
      (double)whole->peak / (double)row->peak, "overhead", row->overhead);
}

/* ---- The whole ---- */

/* The largest divisor of the batch that is at most a tenth of it. */
static int64_t usual_micro_batch(int64_t batch) {
  int64_t images = batch / 10 > 0 ? batch / 10 : 1;
  while (batch % images != 0) images--;
  return images;
}

int profile_techniques(const struct verb *verb, const struct source *source, unsigned allowed, double density,
                       bool json) {
  struct profiling p = {.whole = *source, .micro_batch = source->micro_batch, .density = density};
  struct profiled whole = {0};
  json_t *rows = json_array();
  const unsigned taken = RECOMPUTE | (allowed & NEAP_ALLOW_MICRO ? MICRO : 0) |
                         (allowed & (NEAP_ALLOW_BF16 | NEAP_ALLOW_F16) ? HALF : 0) |
                         (allowed & NEAP_ALLOW_SPARSE ? SPARSE : 0);
  neap_status status = p.whole.batch == 0 ? source_usual_batch(&p.whole) : NEAP_OK;
  if (p.micro_batch == 0 && status == NEAP_OK) p.micro_batch = usual_micro_batch(p.whole.batch);
  p.whole.micro_batch = 0;
  p.precision = precision_word(allowed & NEAP_ALLOW_F16 ? NEAP_F16 : NEAP_BF16);
  if (!json && status == NEAP_OK) print_heading(&p);
  for (int count = 0; count <= TECHNIQUES; count++)
    for (unsigned t = 0; status == NEAP_OK && t < 1u << TECHNIQUES; t++) {
      const bool wanted = (t & ~taken) == 0 && __builtin_popcount(t) == count && (count <= 2 || t == taken);
      struct profiled row = {.techniques = t};
      if (!wanted) continue;
      status = profile_row(&p, &row);
      if (status != NEAP_OK) break;
      if (t == 0) whole = row;
      if (json)
        json_array_append_new(rows, row_json(&row, &whole));
      else
        print_table_row(&row, &whole), fflush(stdout);
    }
  if (status != NEAP_OK) {
    json_decref(rows);
    return report_failure(verb, status);
  }
  if (json) return print_json(json_pack("{s:o}", "profile", rows));
  json_decref(rows);
  return EXIT_DONE;
}
