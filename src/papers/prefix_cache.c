/* States that a recurrent model keeps along prompts (Sparse Prefix Caching, arXiv 2605.05219): a recurrence
 * over positions, whose minima are those of lines that fall ever more steeply. */
#include <math.h>
#include <stdlib.h>

#include "base/region.h"
#include "base/status.h"

/* The line value - slope x, which belongs to a state at position `slope`. */
struct line {
  double value;
  int64_t slope;
};

struct work {
  const double *weights;
  int64_t length, states;
  double *below, *moment; /* [length + 1]: sums of weights, and of t times the weight of t */
  double *before, *now;   /* [length + 1]: cost of requests up to a position, with one state fewer, and now */
  struct line *lines;     /* the lower hull */
  int32_t *last;          /* [states, length + 1]: the last state; 0: one fewer is as good */
};

static bool is_valid(const double *weights, int64_t length, int64_t states) {
  double sum = 0;
  if (length < 1 || length >= INT32_MAX || states < 0) return false;
  for (int64_t t = 0; t <= length; t++) {
    if (!(weights[t] >= 0 && isfinite(weights[t]))) return false;
    sum += weights[t];
  }
  return sum > 0 && isfinite(sum * (double)length);
}

static double value_at(struct line line, double x) { return line.value - (double)line.slope * x; }

/* Returns whether `middle` is nowhere below both others, which are flatter and steeper. */
static bool is_covered(struct line flat, struct line middle, struct line steep) {
  return (steep.value - flat.value) * (double)(middle.slope - flat.slope) <=
         (middle.value - flat.value) * (double)(steep.slope - flat.slope);
}

/* Lets one more state be the last: now[b] is the least of before[b] and, for each a up to b, of a state at a.
 */
static void add_state(struct work *w, int32_t *last) {
  int64_t count = 0, first = 0;
  w->now[0] = w->before[0];
  last[0] = 0;
  for (int64_t b = 1; b <= w->length; b++) {
    const struct line line = {w->before[b - 1] - w->moment[b - 1] + (double)b * w->below[b - 1], b};
    while (count - first >= 2 && is_covered(w->lines[count - 2], w->lines[count - 1], line)) count--;
    w->lines[count++] = line;
    const double x = w->below[b];
    while (count - first >= 2 && value_at(w->lines[first + 1], x) < value_at(w->lines[first], x)) first++;
    const double with = w->moment[b] + value_at(w->lines[first], x);
    const bool better = with < w->before[b];
    w->now[b] = better ? with : w->before[b];
    last[b] = better ? (int32_t)w->lines[first].slope : 0;
  }
}

static neap_status work_create(struct work *w, struct region *region) {
  const size_t count = (size_t)w->length + 1;
  w->below = region_alloc(region, count, sizeof *w->below);
  w->moment = region_alloc(region, count, sizeof *w->moment);
  w->before = region_alloc(region, count, sizeof *w->before);
  w->now = region_alloc(region, count, sizeof *w->now);
  w->lines = region_alloc(region, count, sizeof *w->lines);
  RETURN_IF(w->states > 0 && (size_t)w->states > SIZE_MAX / count, NEAP_TOO_LARGE,
            "cache: %lld states of %lld positions are too many to plan", (long long)w->states,
            (long long)w->length);
  w->last = region_alloc(region, (size_t)w->states * count + 1, sizeof *w->last);
  RETURN_IF(w->below == NULL || w->moment == NULL || w->before == NULL || w->now == NULL ||
                w->lines == NULL || w->last == NULL,
            NEAP_OUT_OF_MEMORY, "out of memory for a plan of %lld states", (long long)w->states);
  double below = 0, moment = 0;
  for (int64_t t = 0; t <= w->length; t++) {
    w->below[t] = below += w->weights[t];
    w->before[t] = w->moment[t] = moment += (double)t * w->weights[t];
  }
  return NEAP_OK;
}

/* Walks back from the end, where all requests are counted. */
static int64_t take_positions(const struct work *w, int64_t *positions) {
  int64_t count = 0, b = w->length;
  for (int64_t m = w->states; m > 0 && b > 0; m--) {
    const int64_t a = w->last[(m - 1) * (w->length + 1) + b];
    if (a == 0) continue;
    positions[count++] = a;
    b = a - 1;
  }
  for (int64_t i = 0; i < count / 2; i++) {
    const int64_t swapped = positions[i];
    positions[i] = positions[count - 1 - i];
    positions[count - 1 - i] = swapped;
  }
  return count;
}

neap_status neap_cache_plan(const double *weights, int64_t length, int64_t states, int64_t *positions,
                            int64_t *count, double *repeated) {
  struct region region = {0};
  NEED(weights);
  NEED(positions);
  NEED(count);
  NEED(repeated);
  RETURN_IF(
      !is_valid(weights, length, states), NEAP_INVALID_ARGUMENT,
      "cache: the length must be 1 or more, the states 0 or more, the weights finite, not negative, and "
      "not all 0 (got %lld tokens, %lld states)",
      (long long)length, (long long)states);
  struct work w = {.weights = weights, .length = length, .states = states < length ? states : length};
  const neap_status status = work_create(&w, &region);
  for (int64_t m = 0; status == NEAP_OK && m < w.states; m++) {
    add_state(&w, &w.last[m * (length + 1)]);
    double *swapped = w.before;
    w.before = w.now;
    w.now = swapped;
  }
  if (status == NEAP_OK) {
    *count = take_positions(&w, positions);
    *repeated = neap_cache_repeated(weights, length, positions, *count);
  }
  region_free(&region);
  return status;
}

double neap_cache_repeated(const double *weights, int64_t length, const int64_t *positions, int64_t count) {
  double sum = 0, tokens = 0;
  int64_t next = 0, from = 0;
  if (weights == NULL || positions == NULL || !is_valid(weights, length, count)) return (double)NAN;
  for (int64_t i = 0; i < count; i++)
    if (positions[i] < 1 || positions[i] > length || (i > 0 && positions[i] <= positions[i - 1]))
      return (double)NAN;
  for (int64_t t = 0; t <= length; t++) {
    if (next < count && positions[next] == t) from = positions[next++];
    sum += weights[t];
    tokens += weights[t] * (double)(t - from);
  }
  return tokens / sum;
}
