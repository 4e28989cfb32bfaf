/* Binomial checkpointing. */
#include "papers/revolve.h"

#include "papers/chain_sweep.h"

/* Returns C(slots + times, slots), or `most` if that is less: the number of steps that can be reversed with
 * no step run forward more than `times` times. */
static int64_t reach(int64_t slots, int64_t times, int64_t most) {
  if (times < 0 || slots < 0) return 0;
  __extension__ typedef __int128 wide;
  const int64_t few = slots < times ? slots : times, many = slots < times ? times : slots;
  wide value = 1;
  for (int64_t i = 1; i <= few; i++) {
    value = value * (many + i) / i;
    if (value >= most) return most; /* it grows with i */
  }
  return (int64_t)value;
}

static int64_t repetitions(int64_t steps, int64_t slots) {
  int64_t low = 0, high = steps; /* reach(slots, steps) > steps */
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (reach(slots, middle, steps) >= steps)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

int64_t revolve_forward_steps(int64_t steps, int32_t slots) {
  const int64_t r = repetitions(steps, slots);
  return r * steps - reach((int64_t)slots + 1, r - 1, INT64_MAX);
}

/* Returns the distance to the next checkpoint: one with which neither part needs more repetitions. */
static int32_t distance(int32_t steps, int32_t slots) {
  const int64_t r = repetitions(steps, slots);
  const int64_t behind = steps - reach(slots - 1, r, steps), ahead = reach(slots, r - 2, steps);
  int64_t y = behind > ahead ? behind : ahead;
  if (y < 1) y = 1;
  return (int32_t)(y < steps ? y : steps - 1);
}

/* Reverses steps first .. first + steps - 1, whose input is held in one of the slots. */
static neap_status reverse(int32_t first, int32_t steps, int32_t slots, chain_operations *out) {
  while (steps > 1) {
    const int32_t y = slots > 1 ? distance(steps, slots) : steps - 1;
    for (int32_t s = first; s < first + y; s++)
      TRY(vector_push(out, (struct chain_operation){CHAIN_FORWARD, s, 0, -1}));
    TRY(reverse(first + y, steps - y, slots > 1 ? slots - 1 : 1, out));
    steps = y;
  }
  return vector_push(out, (struct chain_operation){CHAIN_LEAF, first, 0, 0});
}

neap_status revolve_operations(int32_t steps, int32_t slots, chain_operations *out) {
  return reverse(0, steps, slots < steps ? slots : steps, out);
}

/* ---- The planner ---- */

enum { REVOLVE_STAGES = 4096 };

static neap_status operations(struct chain_sweep *sweep, int32_t slots, chain_operations *out) {
  return revolve_operations(sweep->plan.chain.stage_count, slots, out);
}

static neap_status prepare(struct chain_sweep *sweep) {
  sweep->most = sweep->plan.chain.stage_count;
  return NEAP_OK;
}

neap_status plan_revolve(const neap_step *step, uint64_t budget, const struct planner_options *options,
                         struct schedule *out) {
  struct chain_sweep sweep = {
      .name = "revolve", .most_stages = REVOLVE_STAGES, .prepare = prepare, .operations = operations};
  return chain_sweep_run(&sweep, step, budget, options, out);
}
