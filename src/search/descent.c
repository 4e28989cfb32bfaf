/* The list of schedules on the way to the least memory: see descent.h. */
#include "search/descent.h"

#include <string.h>

#include "step/simulate.h"

static bool no_worse(const struct rung *a, const struct rung *b) {
  return a->peak_bytes <= b->peak_bytes && a->cost <= b->cost;
}

/* Adds a rung. The rungs that it makes superfluous are next to each other. */
static neap_status take(struct descent *descent, const struct rung *added) {
  size_t kept = 0, place = 0;
  TRY(vector_reserve(&descent->rungs, descent->rungs.count + 1));
  for (size_t i = 0; i < descent->rungs.count; i++) {
    struct rung *rung = &descent->rungs.data[i];
    if (no_worse(added, rung)) {
      schedule_free(&rung->schedule);
      continue;
    }
    if (rung->peak_bytes > added->peak_bytes) place = kept + 1;
    descent->rungs.data[kept++] = *rung;
  }
  struct rung *at = descent->rungs.data + place;
  memmove(at + 1, at, (kept - place) * sizeof *at);
  *at = *added;
  descent->rungs.count = kept + 1;
  return NEAP_OK;
}

neap_status descent_add(struct descent *descent, const neap_step *step, const struct schedule *schedule) {
  struct simulation score;
  struct rung added = {.peak_bytes = 0};
  TRY(simulate(step, schedule->nodes.data, (int32_t)schedule->nodes.count, &score));
  added.peak_bytes = score.peak_bytes;
  added.cost = score.cost;
  for (size_t i = 0; i < descent->rungs.count; i++)
    if (no_worse(&descent->rungs.data[i], &added)) return NEAP_OK;
  neap_status status = schedule_copy(&added.schedule, schedule->nodes.data, schedule->nodes.count);
  if (status == NEAP_OK) status = take(descent, &added);
  if (status != NEAP_OK) schedule_free(&added.schedule);
  return status;
}

neap_status descent_add_all(struct descent *descent, const neap_step *step, const struct descent *other) {
  for (size_t i = 0; i < other->rungs.count; i++)
    TRY(descent_add(descent, step, &other->rungs.data[i].schedule));
  return NEAP_OK;
}

const struct rung *descent_least(const struct descent *descent) {
  return descent->rungs.count > 0 ? &descent->rungs.data[descent->rungs.count - 1] : NULL;
}

const struct rung *descent_within(const struct descent *descent, uint64_t peak_bytes) {
  for (size_t i = 0; i < descent->rungs.count; i++)
    if (descent->rungs.data[i].peak_bytes <= peak_bytes) return &descent->rungs.data[i];
  return NULL;
}

void descent_free(struct descent *descent) {
  for (size_t i = 0; i < descent->rungs.count; i++) schedule_free(&descent->rungs.data[i].schedule);
  vector_free(&descent->rungs);
}
