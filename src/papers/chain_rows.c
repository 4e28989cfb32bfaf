/* The rows that choose checkpoints of a chain by counts or by peak alone: each sweeps its own parameter for
 * the cheapest schedule that the simulator finds within the budget. */
#include "papers/chain_rows.h"

#include <string.h>

#include "papers/checkpoints.h"
#include "search/chain_plan.h"

/* A family of schedules by one number: with a smaller one less memory and more cost, by and large. */
struct row {
  struct chain_plan plan;
  const char *name;
  struct region region;
  int32_t most; /* parameters are 1 .. most */
  neap_status (*operations)(struct row *row, int32_t parameter, chain_operations *out);
  struct bptt bptt;
  uint64_t *bytes, *kept; /* of layers (hong): layer 0 is the input, layer k what stage k - 1 makes */
  int32_t *chosen;
  bool cubic;
};

static neap_status try_parameter(struct row *row, int32_t parameter, bool *fits) {
  chain_operations operations = {0};
  struct simulation score;
  neap_status status = row->operations(row, parameter, &operations);
  if (status == NEAP_OK) status = chain_score(&row->plan, &operations, &score);
  if (status == NEAP_OK) *fits = score.peak_bytes <= row->plan.budget;
  vector_free(&operations);
  return status;
}

enum { NEIGHBOURS = 4 };

/* The largest parameter that fits, by bisection, and a few beyond it: the peak does not quite rise with it.
 */
static neap_status sweep(struct row *row) {
  int32_t low = 0, high = row->most; /* low fits or is 0; high does not fit */
  bool fits;
  TRY(try_parameter(row, row->most, &fits));
  if (fits) return NEAP_OK;
  while (high - low > 1) {
    const int32_t middle = low + (high - low) / 2;
    TRY(try_parameter(row, middle, &fits));
    if (fits)
      low = middle;
    else
      high = middle;
  }
  for (int32_t i = 1; i <= NEIGHBOURS && high + i < row->most; i++) TRY(try_parameter(row, high + i, &fits));
  return NEAP_OK;
}

/* Cuts the step, prepares the family and sweeps it. */
static neap_status run_row(struct row *row, const neap_step *step, uint64_t budget,
                           const struct planner_options *options, int32_t most_stages,
                           neap_status (*prepare)(struct row *row), struct schedule *out) {
  neap_status status = chain_plan_create(step, budget, options, most_stages, 0, out, &row->plan);
  if (status == NEAP_OK) status = prepare(row);
  if (status == NEAP_OK) status = sweep(row);
  if (status == NEAP_OK) status = chain_verdict(&row->plan, row->name);
  bptt_free(&row->bptt);
  region_free(&row->region);
  chain_plan_free(&row->plan);
  return status;
}

/* ---- Revolve ---- */

enum { REVOLVE_STAGES = 4096 };

static neap_status revolve_row(struct row *row, int32_t slots, chain_operations *out) {
  return revolve_operations(row->plan.chain.stage_count, slots, out);
}

static neap_status prepare_revolve(struct row *row) {
  row->most = row->plan.chain.stage_count;
  row->operations = revolve_row;
  return NEAP_OK;
}

neap_status plan_revolve(const neap_step *step, uint64_t budget, const struct planner_options *options,
                         struct schedule *out) {
  struct row row = {.name = "revolve"};
  return run_row(&row, step, budget, options, REVOLVE_STAGES, prepare_revolve, out);
}

/* ---- BPTT ---- */

enum { BPTT_STAGES = 400 };

static neap_status bptt_row(struct row *row, int32_t slots, chain_operations *out) {
  return bptt_operations(&row->bptt, slots, out);
}

/* A slot is the mean boundary; the whole of a stage takes as many as its share. */
static neap_status prepare_bptt(struct row *row) {
  const int32_t stages = row->plan.chain.stage_count;
  uint64_t boundaries = 1, insides = 0;
  for (int32_t s = 0; s < stages; s++) {
    boundaries += row->plan.chain.stages[s].output_bytes;
    insides += chain_plan_stage(&row->plan, s)->modes[0].options.data[0].kept_bytes;
  }
  const uint64_t share = insides / boundaries + 1 + (insides % boundaries > 0);
  const int32_t internal = share < 16 ? (int32_t)share : 16;
  row->most = stages * internal + 1;
  row->operations = bptt_row;
  return bptt_create(stages, row->most, internal, &row->bptt);
}

neap_status plan_bptt(const neap_step *step, uint64_t budget, const struct planner_options *options,
                      struct schedule *out) {
  struct row row = {.name = "bptt"};
  return run_row(&row, step, budget, options, BPTT_STAGES, prepare_bptt, out);
}

/* ---- Hong ---- */

enum { HONG_N3_STAGES = 150 };

static neap_status push(chain_operations *out, enum chain_action action, int32_t stage) {
  return vector_push(out, (struct chain_operation){action, stage, 0, 0});
}

/* Stages begin .. end - 1 forward, everything kept, and backward again. */
static neap_status push_segment(int32_t begin, int32_t end, chain_operations *out) {
  for (int32_t s = begin; s < end - 1; s++) TRY(push(out, CHAIN_FORWARD_KEEP, s));
  TRY(push(out, CHAIN_LEAF, end - 1));
  for (int32_t s = end - 1; s-- > begin;) TRY(push(out, CHAIN_BACKWARD, s));
  return NEAP_OK;
}

/* The last `kept_stages` stages keep everything; before them, checkpoints of least peak, the last of which is
 * where they begin. */
static neap_status hong_row(struct row *row, int32_t kept_stages, chain_operations *out) {
  const int32_t first = row->plan.chain.stage_count - kept_stages;
  int32_t count;
  uint64_t peak;
  TRY((row->cubic ? hong_n3_checkpoints : hong_checkpoints)(first + 1, row->bytes, row->kept, row->chosen,
                                                            &count, &peak));
  for (int32_t s = 0; s < first; s++) TRY(push(out, CHAIN_FORWARD, s));
  TRY(push_segment(first, row->plan.chain.stage_count, out));
  for (int32_t c = count - 1; c > 0; c--) TRY(push_segment(row->chosen[c - 1], row->chosen[c], out));
  return NEAP_OK;
}

static neap_status prepare_hong(struct row *row) {
  const int32_t stages = row->plan.chain.stage_count;
  row->bytes = region_alloc(&row->region, (size_t)stages + 1, sizeof *row->bytes);
  row->kept = region_alloc(&row->region, (size_t)stages + 1, sizeof *row->kept);
  row->chosen = region_alloc(&row->region, (size_t)stages + 1, sizeof *row->chosen);
  RETURN_IF(!row->bytes || !row->kept || !row->chosen, NEAP_OUT_OF_MEMORY, "hong: out of memory");
  for (int32_t s = 0; s < stages; s++) {
    row->kept[s + 1] = row->plan.chain.stages[s].output_bytes;
    row->bytes[s + 1] =
        row->kept[s + 1] + chain_plan_stage(&row->plan, s)->modes[0].options.data[0].kept_bytes;
  }
  row->most = stages;
  row->operations = hong_row;
  return NEAP_OK;
}

neap_status plan_hong_n3(const neap_step *step, uint64_t budget, const struct planner_options *options,
                         struct schedule *out) {
  struct row row = {.name = "hong-n3", .cubic = true};
  return run_row(&row, step, budget, options, HONG_N3_STAGES, prepare_hong, out);
}

neap_status plan_hong(const neap_step *step, uint64_t budget, const struct planner_options *options,
                      struct schedule *out) {
  struct row row = {.name = "hong"};
  return run_row(&row, step, budget, options, INT32_MAX - 1, prepare_hong, out);
}
