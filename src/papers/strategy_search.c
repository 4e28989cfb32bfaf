#include "papers/strategy_search.h"

#include <math.h>

#include "base/stop.h"

neap_status strategy_search_create(const struct lower_sets *sets, int32_t buckets, struct region *region,
                                   struct strategy_search *p) {
  *p = (struct strategy_search){.sets = sets, .buckets = buckets};
  p->width = sets->cost[sets->count - 1] / (buckets - 0.5);
  p->first = region_alloc(region, (size_t)sets->count + 1, sizeof *p->first);
  p->in = region_alloc(region, (size_t)buckets, sizeof *p->in);
  RETURN_IF(!p->first || !p->in, NEAP_OUT_OF_MEMORY, "lower sets: out of memory");
  return NEAP_OK;
}

void strategy_search_free(struct strategy_search *p) {
  vector_free(&p->points);
  vector_free(&p->chain);
}

static int32_t bucket_of(const struct strategy_search *p, double overhead, int32_t buckets) {
  if (!(p->width > 0) || buckets == 1) return 0;
  const double bucket = fmax(overhead, 0) / p->width;
  return bucket < buckets - 1 ? (int32_t)bucket : buckets - 1;
}

/* Carries points of set `from` over to set `to`. */
static void extend(struct strategy_search *p, int32_t from, int32_t to, uint64_t limit, int32_t buckets) {
  const struct lower_set_segment segment = lower_set_segment(p->sets, from, to);
  if (segment.needed > limit) return;
  for (int32_t i = p->first[from]; i < p->first[from + 1]; i++) {
    const struct strategy_point *point = &p->points.data[i];
    if (point->kept > limit - segment.needed) break; /* they rise */
    const double overhead = point->overhead + segment.overhead;
    const int32_t bucket = bucket_of(p, overhead, buckets);
    struct strategy_point *best = &p->in[bucket];
    const uint64_t kept = point->kept + segment.kept;
    const bool beyond = p->most ? overhead > best->overhead : overhead < best->overhead;
    if (best->set == to && (kept > best->kept || (kept == best->kept && !beyond))) continue;
    *best = (struct strategy_point){overhead, kept, to, i};
    p->in_low = bucket < p->in_low ? bucket : p->in_low;
    p->in_high = bucket > p->in_high ? bucket : p->in_high;
  }
}

/* Stores the front of the current set by rising bytes. It goes from the preferred overhead to the other end,
 * while bytes fall. */
static neap_status store_front(struct strategy_search *p, int32_t set) {
  const size_t start = p->points.count;
  uint64_t least = UINT64_MAX;
  for (int32_t k = 0; k <= p->in_high - p->in_low; k++) {
    const struct strategy_point *point = &p->in[p->most ? p->in_high - k : p->in_low + k];
    if (point->set != set || point->kept >= least) continue;
    least = point->kept;
    TRY(vector_push(&p->points, *point));
  }
  for (size_t low = start, high = p->points.count; low + 1 < high; low++) {
    const struct strategy_point swap = p->points.data[low];
    p->points.data[low] = p->points.data[--high];
    p->points.data[high] = swap;
  }
  RETURN_IF(p->points.count > INT32_MAX, NEAP_TOO_LARGE, "lower sets: too many points on the fronts");
  return NEAP_OK;
}

/* Runs the dynamic programme within `limit` bytes. With 1 bucket it only finds out whether a strategy reaches
 * V, the set of all nodes. */
static neap_status solve(struct strategy_search *p, uint64_t limit, bool most, int32_t buckets) {
  const struct lower_sets *sets = p->sets;
  p->most = most;
  p->points.count = 0;
  for (int32_t b = 0; b < p->buckets; b++) p->in[b].set = -1;
  TRY(vector_push(&p->points, (struct strategy_point){.from = -1}));
  p->first[0] = 0;
  p->first[1] = 1;
  for (int32_t to = 1; to < sets->count; to++) {
    TRY(stop_check());
    p->in_low = buckets;
    p->in_high = -1;
    for (int32_t from = to; from-- > 0;) {
      if (2 * (sets->bytes[to] - sets->bytes[from]) + sets->beyond[to] > limit) break;
      if (p->first[from] < p->first[from + 1] && lower_set_within(sets, from, to))
        extend(p, from, to, limit, buckets);
    }
    TRY(store_front(p, to));
    p->first[to + 1] = (int32_t)p->points.count;
  }
  return NEAP_OK;
}

static int32_t front_begin(const struct strategy_search *p) { return p->first[p->sets->count - 1]; }

static int32_t front_end(const struct strategy_search *p) { return p->first[p->sets->count]; }

neap_status strategy_search_run(struct strategy_search *p, uint64_t budget, bool most, int32_t *low,
                                int32_t *high) {
  TRY(solve(p, budget, most, p->buckets));
  *low = front_begin(p);
  *high = front_end(p);
  return NEAP_OK;
}

neap_status strategy_search_trace(struct strategy_search *p, int32_t point) {
  int32_t length = 0;
  for (int32_t at = point; p->points.data[at].from >= 0; at = p->points.data[at].from) length++;
  TRY(vector_reserve(&p->chain, (size_t)length + 1));
  p->chain.count = (size_t)length;
  for (int32_t at = point; length > 0; at = p->points.data[at].from)
    p->chain.data[--length] = p->points.data[at].set;
  return NEAP_OK;
}

uint64_t strategy_search_everything(const struct strategy_search *p) {
  const int32_t all = p->sets->count - 1;
  return 2 * p->sets->bytes[all] + p->sets->beyond[all];
}

neap_status strategy_search_least(struct strategy_search *p, uint64_t *least) {
  uint64_t missed = 0;
  for (*least = strategy_search_everything(p); *least - missed > *least / 500 + 1;) {
    /* Far from it, in ratio: the least of a deep graph is a small part. */
    const uint64_t tried = missed == 0 ? *least / 2 : missed + (*least - missed) / 2;
    TRY(solve(p, tried, false, 1));
    *(front_begin(p) < front_end(p) ? least : &missed) = tried;
  }
  return NEAP_OK;
}
