/* Backpropagation through time in bounded memory. */
#include "papers/bptt.h"

#include "papers/chain_sweep.h"

static int32_t *entry(const struct bptt *b, int32_t *table, int32_t steps, int32_t slots) {
  return &table[(size_t)steps * (size_t)(b->slots + 1) + (size_t)slots];
}

static void solve(struct bptt *b, int32_t t, int32_t m) {
  int32_t best = INT32_MAX, split = 0;
  if (m == 1) best = (int32_t)((int64_t)t * (t + 1) / 2), split = t - 1;
  for (int32_t y = 1; m > 1 && y < t; y++) {
    const int32_t cost = y + *entry(b, b->cost, t - y, m - 1) + *entry(b, b->cost, y, m);
    if (cost < best) best = cost, split = y;
  }
  if (b->internal > 0 && m > b->internal && 1 + *entry(b, b->cost, t - 1, m - b->internal) < best)
    best = 1 + *entry(b, b->cost, t - 1, m - b->internal), split = 0;
  *entry(b, b->cost, t, m) = best;
  *entry(b, b->split, t, m) = split;
}

neap_status bptt_create(int32_t steps, int32_t slots, int32_t internal, struct bptt *out) {
  *out = (struct bptt){.steps = steps, .slots = slots, .internal = internal};
  RETURN_IF((int64_t)steps * (steps + 1) / 2 > INT32_MAX / 2, NEAP_TOO_LARGE,
            "bptt: %d steps are too many: they need more than 2^30 forward steps", steps);
  const size_t entries = ((size_t)steps + 1) * ((size_t)slots + 1);
  out->cost = region_alloc(&out->region, entries, sizeof *out->cost);
  out->split = region_alloc(&out->region, entries, sizeof *out->split);
  RETURN_IF(out->cost == NULL || out->split == NULL, NEAP_OUT_OF_MEMORY, "bptt: out of memory");
  for (int32_t m = 1; m <= slots; m++) {
    *entry(out, out->cost, 1, m) = 1;
    for (int32_t t = 2; t <= steps; t++) solve(out, t, m);
  }
  return NEAP_OK;
}

void bptt_free(struct bptt *bptt) { region_free(&bptt->region); }

int32_t bptt_forward_steps(const struct bptt *bptt, int32_t slots) {
  return *entry(bptt, bptt->cost, bptt->steps, slots);
}

static neap_status reverse(const struct bptt *b, int32_t first, int32_t steps, int32_t slots,
                           chain_operations *out) {
  while (steps > 1) {
    const int32_t y = *entry(b, b->split, steps, slots);
    if (y == 0) {
      TRY(vector_push(out, (struct chain_operation){CHAIN_FORWARD_KEEP, first, 0, 0}));
      TRY(reverse(b, first + 1, steps - 1, slots - b->internal, out));
      return vector_push(out, (struct chain_operation){CHAIN_BACKWARD, first, 0, 0});
    }
    for (int32_t s = first; s < first + y; s++)
      TRY(vector_push(out, (struct chain_operation){CHAIN_FORWARD, s, 0, -1}));
    TRY(reverse(b, first + y, steps - y, slots > 1 ? slots - 1 : 1, out));
    steps = y;
  }
  return vector_push(out, (struct chain_operation){CHAIN_LEAF, first, 0, 0});
}

neap_status bptt_operations(const struct bptt *bptt, int32_t slots, chain_operations *out) {
  return reverse(bptt, 0, bptt->steps, slots, out);
}

/* ---- The planner ---- */

enum { BPTT_STAGES = 400 };

static neap_status operations(struct chain_sweep *sweep, int32_t slots, chain_operations *out) {
  return bptt_operations(sweep->family, slots, out);
}

/* Sets the size of a slot to the mean boundary; all values of a stage take as many slots as their bytes. */
static neap_status prepare(struct chain_sweep *sweep) {
  const int32_t stages = sweep->plan.chain.stage_count;
  uint64_t boundaries = 1, insides = 0;
  for (int32_t s = 0; s < stages; s++) {
    boundaries += sweep->plan.chain.stages[s].output_bytes;
    insides += chain_plan_stage(&sweep->plan, s)->modes[0].options.data[0].kept_bytes;
  }
  const uint64_t share = insides / boundaries + 1 + (insides % boundaries > 0);
  const int32_t internal = share < 16 ? (int32_t)share : 16;
  sweep->most = stages * internal + 1;
  return bptt_create(stages, sweep->most, internal, sweep->family);
}

neap_status plan_bptt(const neap_step *step, uint64_t budget, const struct planner_options *options,
                      struct schedule *out) {
  struct bptt bptt = {0};
  struct chain_sweep sweep = {.name = "bptt",
                              .most_stages = BPTT_STAGES,
                              .family = &bptt,
                              .prepare = prepare,
                              .operations = operations};
  const neap_status status = chain_sweep_run(&sweep, step, budget, options, out);
  bptt_free(&bptt);
  return status;
}
