#include "train/training_ranks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "collective/agree.h"

enum { PLAN_PATH = 4096 };

static const struct neap_collective *collective_of(const struct training *t) {
  return t->own.session.collective;
}

int32_t training_ranks(const struct training *t) {
  return collective_of(t) != NULL ? collective_of(t)->size : 1;
}

int32_t training_rank(const struct training *t) {
  return collective_of(t) != NULL ? collective_of(t)->rank : 0;
}

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

/* ---- What each has for all ---- */

neap_status training_gather(const struct training *t, void *all, uint64_t bytes) {
  return training_ranks(t) == 1 ? NEAP_OK : collective_gather(collective_of(t), all, bytes);
}

/* Micro-batches of a step that each rank has at most. */
static int32_t rounds_of(const struct training *t) {
  const int32_t count = training_ranks(t);
  return (t->data.micro_batches + count - 1) / count;
}

neap_status training_prepare_parts(struct training *t) {
  t->part_results =
      region_alloc(&t->region, (size_t)(rounds_of(t) * training_ranks(t)), sizeof *t->part_results);
  RETURN_IF_NULL(t->part_results);
  return NEAP_OK;
}

struct part_result *training_part_result(struct training *t, int32_t part) {
  const int32_t count = training_ranks(t);
  return &t->part_results[part % count * rounds_of(t) + part / count];
}

neap_status training_gather_parts(struct training *t) {
  return training_gather(t, t->part_results, (uint64_t)rounds_of(t) * sizeof *t->part_results);
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

/* What a process tells of itself at the end. */
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

/* ---- One plan for all ---- */

static neap_status read_bytes(const char *path, unsigned char **bytes, uint64_t *count) {
  FILE *file = fopen(path, "rbe");
  RETURN_IF(file == NULL, NEAP_IO_FAILED, "%s: cannot be read: %s", path, strerror(errno));
  const long end = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
  *bytes = end >= 0 && fseek(file, 0, SEEK_SET) == 0 ? malloc((size_t)end + 1) : NULL;
  *count = *bytes != NULL ? fread(*bytes, 1, (size_t)end, file) : 0;
  fclose(file);
  return *bytes != NULL && *count == (uint64_t)end ? NEAP_OK
                                                   : neap_fail(NEAP_IO_FAILED, "%s: cannot be read", path);
}

/* The plan's bytes, from the first rank to all. */
static neap_status hand_round(const struct training *t, unsigned char **bytes, uint64_t *count) {
  const int32_t ranks = training_ranks(t);
  uint64_t *counts = calloc((size_t)ranks, sizeof *counts);
  RETURN_IF_NULL(counts);
  counts[training_rank(t)] = *count;
  neap_status status = training_gather(t, counts, sizeof *counts);
  *count = counts[0];
  for (int32_t rank = 1; rank < ranks; rank++) counts[rank] = 0;
  if (status == NEAP_OK && *bytes == NULL) *bytes = malloc(*count + 1);
  if (status == NEAP_OK && *bytes == NULL) status = neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for a plan");
  if (status == NEAP_OK) status = collective_of(t)->allgather(collective_of(t)->self, *bytes, counts);
  free(counts);
  return status;
}

/* Makes an empty file that a plan is handed on in. */
static neap_status make_file(char path[PLAN_PATH]) {
  const char *folder = getenv("TMPDIR");
  const int length = snprintf(path, PLAN_PATH, "%s/neap-plan-XXXXXX", folder != NULL ? folder : "/tmp");
  const int file = length < PLAN_PATH ? mkstemp(path) : -1;
  RETURN_IF(file < 0, NEAP_IO_FAILED, "%s: cannot be made, for the plan that all processes have: %s", path,
            strerror(errno));
  close(file);
  return NEAP_OK;
}

static neap_status create(struct training *t, const neap_session_options *options, uint64_t *smallest) {
  return neap_session_create(t->graph, options, smallest, &t->session);
}

static neap_status plan_first(struct training *t, const neap_session_options *options, uint64_t *smallest,
                              unsigned char **bytes, uint64_t *count) {
  char path[PLAN_PATH];
  TRY(create(t, options, smallest));
  TRY(make_file(path));
  neap_status status = neap_plan_write(session_plan(t->session), path);
  if (status == NEAP_OK) status = read_bytes(path, bytes, count);
  unlink(path);
  return status;
}

/* With the first rank's plan; with one of its own where that is for a larger budget. */
static neap_status replay(struct training *t, const neap_session_options *options, uint64_t *smallest,
                          const unsigned char *bytes, uint64_t count) {
  char path[PLAN_PATH];
  neap_session_options given = *options;
  TRY(make_file(path));
  given.plan_file = path;
  neap_status status = neap_write_file(path, (const char *)bytes, (size_t)count);
  if (status == NEAP_OK) status = create(t, &given, smallest);
  unlink(path);
  return status == NEAP_OVER_BUDGET ? create(t, options, smallest) : status;
}

neap_status training_create_session(struct training *t, const neap_session_options *options,
                                    uint64_t *smallest) {
  unsigned char *bytes = NULL;
  uint64_t count = 0;
  neap_status status = NEAP_OK;
  if (training_ranks(t) == 1) return create(t, options, smallest);
  if (training_rank(t) == 0) status = plan_first(t, options, smallest, &bytes, &count);
  status = collective_share_status(collective_of(t), status);
  if (status == NEAP_OK) status = hand_round(t, &bytes, &count);
  if (status == NEAP_OK && training_rank(t) > 0) status = replay(t, options, smallest, bytes, count);
  free(bytes);
  return status;
}
