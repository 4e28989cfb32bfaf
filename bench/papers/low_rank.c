/* Deep networks of low rank in place of MLPs (DLR-Lock 2026: a lock by the memory of the backward pass): two
 * layers of them beside two of gated MLPs with as many weights. Published are no bytes; the rows show what a
 * plan leaves of the lock, with the bits of keeping everything. */
#include <stdio.h>

#include "papers.h"

enum { LAYERS = 2, WIDTH = 512, HIDDEN = 2048, RANK = 64, BLOCKS = 48, ROWS = 1024, CLASSES = 32 };
_Static_assert(2 * RANK * BLOCKS == 3 * HIDDEN, "the weights of a layer are as many");

static neap_tensor mlp(neap_builder *b, neap_tensor x) {
  return neap_linear(b, neap_swiglu(b, neap_linear(b, x, 2 * HIDDEN, false)), WIDTH, false);
}

static neap_tensor low_rank(neap_builder *b, neap_tensor x) {
  for (int i = 0; i < BLOCKS; i++) {
    const neap_tensor inner = neap_silu(b, neap_linear(b, x, RANK, false));
    x = neap_add(b, x, neap_linear(b, inner, WIDTH, false));
  }
  return x;
}

static neap_status build(neap_tensor (*layer)(neap_builder *b, neap_tensor x), neap_step **step) {
  neap_builder *b = neap_builder_create("layers");
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 1, (int64_t[]){ROWS});
  neap_tensor x = neap_input(b, "x", NEAP_F32, 2, (int64_t[]){ROWS, WIDTH});
  for (int i = 0; i < LAYERS; i++) x = neap_add(b, x, layer(b, neap_rms_norm(b, x, 1e-6f)));
  x = neap_linear(b, neap_rms_norm(b, x, 1e-6f), CLASSES, true);
  neap_graph *graph = NULL;
  neap_status status = neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0), &graph);
  neap_builder_free(b);
  if (status == NEAP_OK) status = neap_step_from_graph(graph, &(neap_session_options){0}, step);
  neap_graph_free(graph);
  return status;
}

/* Finds the least bytes of a plan that takes at most `most` times the time of keeping everything, to 1 %. */
static neap_status least_within(const neap_step *step, double most, struct outcome *best) {
  struct outcome now;
  TRY(plan_checked(step, UINT64_MAX, "neap", best));
  TRY(plan_checked(step, 1, "neap", &now));
  uint64_t low = now.peak;
  while (best->peak > low + best->peak / 100) {
    const uint64_t middle = low + (best->peak - low) / 2;
    TRY(plan_checked(step, middle, "neap", &now));
    if (now.fits && now.overhead <= most - 1)
      *best = now;
    else
      low = middle;
  }
  return NEAP_OK;
}

static neap_status print_layers(const struct report *report, const char *name, const neap_step *step) {
  static const double times[] = {1.0, 1.1, 1.3};
  struct outcome found[3], everything, least;
  for (int i = 0; i < 3; i++) {
    progress(report, "%s at %.1f of the time", name, times[i]);
    TRY(least_within(step, times[i] + 1e-9, &found[i]));
  }
  TRY(plan_checked(step, UINT64_MAX, "neap", &everything));
  TRY(plan_checked(step, 1, "neap", &least));
  TRY(plan_checked(step, least.peak, "neap", &least));
  print_row(report, "  %-10s %10.1f %10.1f %10.1f %10.1f %10.1f %9.2f\n", name,
            (double)everything.values / 1e6, (double)found[0].values / 1e6, (double)found[1].values / 1e6,
            (double)found[2].values / 1e6, (double)least.values / 1e6, 1 + least.overhead);
  return NEAP_OK;
}

neap_status print_low_rank(struct report *report) {
  static const struct {
    const char *name;
    neap_tensor (*layer)(neap_builder *b, neap_tensor x);
  } rows[] = {{"gated MLP", mlp}, {"low rank", low_rank}};
  printf("  %d layers of width %d, %d rows; MB beside the weights: all kept, and at 1.0, 1.1 and 1.3 of the "
         "time; least, its time\n",
         LAYERS, WIDTH, ROWS);
  for (int i = 0; i < 2; i++) {
    neap_step *step = NULL;
    TRY(build(rows[i].layer, &step));
    const neap_status status = print_layers(report, rows[i].name, step);
    neap_step_free(step);
    if (status != NEAP_OK) return status;
  }
  return NEAP_OK;
}
