#include "train/training_ranks.h"

#include <stdlib.h>
#include <string.h>

#include "collective/agree.h"
#include "run/pipeline_run.h"
#include "session/choose.h"

static const struct neap_collective *collective_of(const struct training *t) {
  return t->own.session.collective;
}

int32_t training_ranks(const struct training *t) {
  return collective_of(t) != NULL ? collective_of(t)->size : 1;
}

int32_t training_rank(const struct training *t) {
  return collective_of(t) != NULL ? collective_of(t)->rank : 0;
}

int32_t training_batch_ranks(const struct training *t) { return batch_ranks_of(&t->own.session); }

int32_t training_batch_rank(const struct training *t) { return training_rank(t) % training_batch_ranks(t); }

neap_status training_share_status(const struct training *t, neap_status own) {
  return training_ranks(t) == 1 ? own : collective_share_status(collective_of(t), own);
}

neap_status training_agree(const struct training *t, const char *what, const json_t *value) {
  if (training_ranks(t) == 1) return NEAP_OK;
  char *text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS);
  RETURN_IF_NULL(text);
  const neap_status status = collective_agree(collective_of(t), what, text, strlen(text));
  free(text);
  return status;
}

/* ---- Data that each process has for all ---- */

neap_status training_gather(const struct training *t, void *all, uint64_t bytes) {
  return training_ranks(t) == 1 ? NEAP_OK : collective_gather(collective_of(t), all, bytes);
}

neap_status training_gather_batches(const struct training *t, void *all, uint64_t bytes) {
  const neap_collective *c = session_batch_collective(t->session);
  return c == NULL ? NEAP_OK : collective_gather(c, all, bytes);
}

/* Returns the most micro-batches of a step that a rank has. */
static int32_t rounds_of(const struct training *t) {
  const int32_t count = training_batch_ranks(t);
  return (t->data.micro_batches + count - 1) / count;
}

neap_status training_prepare_parts(struct training *t) {
  t->part_results =
      region_alloc(&t->region, (size_t)(rounds_of(t) * training_batch_ranks(t)), sizeof *t->part_results);
  RETURN_IF_NULL(t->part_results);
  return NEAP_OK;
}

struct part_result *training_part_result(struct training *t, int32_t part) {
  const int32_t count = training_batch_ranks(t);
  return &t->part_results[part % count * rounds_of(t) + part / count];
}

neap_status training_gather_parts(struct training *t) {
  return training_gather_batches(t, t->part_results, (uint64_t)rounds_of(t) * sizeof *t->part_results);
}

void training_take_results(struct training *t, int32_t parts) {
  const neap_step_result *made = session_part_results(t->session);
  for (int32_t part = training_batch_rank(t), i = 0; made != NULL && part < parts; i++) {
    struct part_result *result = training_part_result(t, part);
    result->loss = result->share * made[i].loss;
    result->correct = made[i].correct;
    result->labels = made[i].counted;
    part += training_batch_ranks(t);
  }
}

neap_status training_ending(const struct training *t, enum ending_reason own, enum ending_reason *reason) {
  const int32_t count = training_ranks(t);
  *reason = own;
  if (count == 1) return NEAP_OK;
  unsigned char *all = calloc((size_t)count, 1);
  RETURN_IF_NULL(all);
  all[training_rank(t)] = (unsigned char)own;
  const neap_status status = training_gather(t, all, 1);
  for (int32_t rank = 0; rank < count; rank++)
    if (all[rank] > *reason) *reason = (enum ending_reason)all[rank];
  free(all);
  return status;
}

/* A process's own report at the end. */
struct own_report {
  uint64_t peak, sent;
  double share;
};

neap_status training_compare(const struct training *t, neap_train_result *result) {
  const int32_t count = training_ranks(t);
  const struct traffic traffic = session_traffic(t->session);
  const uint64_t steps = t->steps_here > 0 ? (uint64_t)t->steps_here : 1;
  struct own_report *all = calloc((size_t)count, sizeof *all);
  RETURN_IF_NULL(all);
  all[training_rank(t)] = (struct own_report){result->memory.measured_peak, traffic.sent / steps,
                                              result->seconds > 0 ? traffic.seconds / result->seconds : 0};
  const neap_status status = training_gather(t, all, sizeof *all);
  for (int32_t rank = 0; status == NEAP_OK && rank < count; rank++) {
    if (all[rank].peak > result->highest_peak) result->highest_peak = all[rank].peak;
    if (all[rank].sent > result->sent_bytes) result->sent_bytes = all[rank].sent;
    if (all[rank].share > result->exchange_share) result->exchange_share = all[rank].share;
  }
  result->processes = count;
  free(all);
  return status;
}
