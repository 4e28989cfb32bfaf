/* neap plan --profile: what each technique makes of the memory of a step, alone, in pairs and together: the
 * table of Sohoni et al. 2019. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/failure.h"
#include "shared/format.h"
#include "shared/profile.h"
#include "shared/source.h"
#include "shared/techniques.h"

struct profiled {
  unsigned techniques;
  struct name name;
  uint64_t bytes[NEAP_KIND_COUNT]; /* where the most lives */
  uint64_t peak;
  double overhead;
};

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

static neap_status profile_row(const struct techniques *t, struct profiled *row) {
  const neap_train_options source = techniques_source(t, row->techniques);
  neap_step *step = NULL, *chosen = NULL;
  neap_plan *plan = NULL;
  row->name = techniques_text(t, row->techniques);
  neap_status status = source_step(&source, &step);
  const uint64_t budget = row->techniques & TECHNIQUE_RECOMPUTE ? NEAP_BUDGET_MIN : NEAP_BUDGET_MAX;
  const neap_plan_options how = {.planner = source.session.planner, .seconds = source.session.plan_seconds};
  if (status == NEAP_OK) status = source_plan(&source, step, budget, &how, NULL, &chosen, &plan);
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
  printf("%-36s", row->name.text);
  for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) printf(" %10s", bytes_text(columns[i]).text);
  printf(" | %10s %6.1fx %9s\n", bytes_text(row->peak).text, (double)whole->peak / (double)row->peak,
         percent_text(row->overhead).text);
}

static void print_heading(const struct techniques *t) {
  printf("%s, batch %lld: bytes at the position with the most; peak: with the gaps of the arena, and the "
         "factor saved against no technique\nrecompute: the smallest budget that can be met; its cost is the "
         "recomputation\n\n",
         t->whole.model, (long long)t->whole.shape.batch);
  printf("%-36s %10s %10s %10s %10s %10s %10s | %10s %7s %9s\n", "technique", "parameters", "states",
         "gradients", "activat.", "workspace", "inputs", "peak", "less", "recomp.");
}

static json_t *row_json(const struct profiled *row, const struct profiled *whole) {
  return json_pack(
      "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f}", "combination", row->name.text, "parameters_bytes",
      (json_int_t)row->bytes[NEAP_KIND_PARAMETER], "states_bytes", (json_int_t)row->bytes[NEAP_KIND_STATE],
      "gradients_bytes", (json_int_t)row->bytes[NEAP_KIND_GRADIENT], "activations_bytes",
      (json_int_t)activations(row), "workspaces_bytes", (json_int_t)row->bytes[NEAP_KIND_WORKSPACE],
      "inputs_bytes", (json_int_t)row->bytes[NEAP_KIND_INPUT], "peak_bytes", (json_int_t)row->peak, "ratio",
      (double)whole->peak / (double)row->peak, "overhead", row->overhead);
}

/* ---- The whole ---- */

int profile_techniques(const struct verb *verb, const struct techniques *t, bool json) {
  unsigned all = t->allowed | TECHNIQUE_RECOMPUTE;
  struct profiled whole = {0};
  json_t *rows = json_array();
  neap_status status = NEAP_OK;
  if (!json) print_heading(t);
  for (int count = 0; count <= TECHNIQUES; count++)
    for (unsigned taken = 0; status == NEAP_OK && taken < 1u << TECHNIQUES; taken++) {
      const bool wanted = (taken & ~all) == 0 && __builtin_popcount(taken) == count;
      struct profiled row = {.techniques = taken};
      if (!wanted || (count > 2 && taken != all)) continue;
      status = profile_row(t, &row);
      if (status == NEAP_UNSUPPORTED && t->usual && count == 1) { /* beside the other options */
        all &= ~taken;
        status = NEAP_OK;
        continue;
      }
      if (status != NEAP_OK) break;
      if (taken == 0) whole = row;
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
