/* Losses: softmax cross-entropy over rows of logits, means over two tensors. */
#include <math.h>
#include <string.h>

#include "base/elementary.h"
#include "kernel/cpu/isa/math.h"

struct softmax_row {
  float highest;
  double sum; /* of exp(x - highest) */
};

static struct softmax_row softmax_row(int64_t classes, const float *x) {
  float highest = x[0];
#pragma omp simd reduction(max : highest)
  for (int64_t c = 0; c < classes; c++) highest = x[c] > highest ? x[c] : highest;
  double sums[SUM_LANES] = {0};
  IN_LANES(c, lane, classes, sums[lane] += (double)exponential_of_negative(x[c] - highest));
  return (struct softmax_row){highest, sum_of_lanes(sums)};
}

static bool counts(int32_t label, const struct labelled *l) {
  return label >= 0 && label < l->classes && label != l->ignored;
}

/* Returns whether row n counts: all its labels are classes and not ignored. */
static bool row_counts(const struct labelled *l, const int32_t *labels, int64_t n) {
  return counts(labels[n], l) && (l->others == NULL || counts(l->others[n], l));
}

static double class_weight(const struct labelled *l, int32_t label) {
  return l->weights != NULL ? (double)l->weights[label] : 1;
}

/* Returns the weight of row n in the mean. */
static double row_weight(const struct labelled *l, const int32_t *labels, int64_t n) {
  const double own = class_weight(l, labels[n]);
  if (l->others == NULL) return own;
  const double share = (double)l->shares[n];
  return share * own + (1 - share) * class_weight(l, l->others[n]);
}

/* Returns whether the label is the first of the largest logits. */
static bool is_answer(const float *x, float highest, int32_t label) {
  if (x[label] != highest) return false;
  for (int32_t c = 0; c < label; c++)
    if (x[c] == highest) return false;
  return true;
}

static double loss_of_row(int64_t classes, const float *x, struct softmax_row row, int32_t label,
                          float smoothing) {
  double mean = 0;
  for (int64_t c = 0; smoothing > 0 && c < classes; c++) mean += (double)x[c] / (double)classes;
  return (double)row.highest + natural_logarithm(row.sum) - (1 - (double)smoothing) * (double)x[label] -
         (double)smoothing * mean;
}

/* The same with weights of the classes: each class's term of the sum has its weight. */
static double weighted_loss_of_row(const struct labelled *l, const float *x, struct softmax_row row,
                                   int32_t label) {
  const double norm = (double)row.highest + natural_logarithm(row.sum), smoothing = (double)l->smoothing;
  double even = 0;
  for (int64_t c = 0; smoothing > 0 && c < l->classes; c++)
    even += (double)l->weights[c] * (norm - (double)x[c]) / (double)l->classes;
  return (1 - smoothing) * (double)l->weights[label] * (norm - (double)x[label]) + smoothing * even;
}

static double loss_for(const struct labelled *l, const float *x, struct softmax_row row, int32_t label) {
  return l->weights != NULL ? weighted_loss_of_row(l, x, row, label)
                            : loss_of_row(l->classes, x, row, label, l->smoothing);
}

/* Returns the loss of row n, by both labels if it has two. */
static double loss_of_labels(const struct labelled *l, const float *x, struct softmax_row row,
                             const int32_t *labels, int64_t n) {
  const double own = loss_for(l, x, row, labels[n]);
  if (l->others == NULL) return own;
  const double share = (double)l->shares[n];
  return share * own + (1 - share) * loss_for(l, x, row, l->others[n]);
}

void ISA(softmax_cross_entropy)(struct labelled l, const float *logits, const int32_t *labels, float *loss,
                                int32_t *correct, struct loss_part *parts) {
  const int64_t rows = l.rows, classes = l.classes;
  /* Adds up parts, whose number is fixed, and not threads. */
#pragma omp parallel for if (rows * classes >= PARALLEL_FROM)
  for (int part = 0; part < LOSS_PARTS; part++) {
    const struct range mine = part_of(rows, part, LOSS_PARTS);
    struct loss_part sum = {0};
    for (int64_t n = mine.begin; n < mine.end; n++) {
      if (!row_counts(&l, labels, n)) continue;
      const float *x = logits + n * classes;
      const struct softmax_row row = softmax_row(classes, x);
      sum.loss += loss_of_labels(&l, x, row, labels, n);
      sum.weight += row_weight(&l, labels, n);
      sum.correct += is_answer(x, row.highest, labels[n]);
    }
    parts[part] = sum;
  }
  struct loss_part total = {0};
  for (int part = 0; part < LOSS_PARTS; part++) {
    total.loss += parts[part].loss;
    total.correct += parts[part].correct;
    total.weight += parts[part].weight;
  }
  *loss = total.weight > 0 ? (float)(total.loss / total.weight) : 0;
  *correct = (int32_t)total.correct;
}

/* Computes the gradient of row n with weights of the classes or two labels. all: the sum of the weights of
 * all classes. */
static void gradient_of_row(const struct labelled *l, const float *x, struct softmax_row row,
                            const int32_t *labels, int64_t n, float all, float share, float *dx) {
  const float even = l->smoothing / (float)l->classes, scale = (float)(1 / row.sum),
              own = (1 - l->smoothing) * (float)row_weight(l, labels, n), together = own + even * all;
  const int32_t other = l->others != NULL ? l->others[n] : -1;
  const float part = other >= 0 ? l->shares[n] : 1, plain = 1 - l->smoothing;
  for (int64_t c = 0; c < l->classes; c++) {
    const float by = l->weights != NULL ? l->weights[c] : 1;
    float wanted = even * by;
    if (c == labels[n]) wanted += plain * by * part;
    if (c == other) wanted += plain * by * (1 - part);
    dx[c] = (exponential_of_negative(x[c] - row.highest) * scale * together - wanted) * share;
  }
}

void ISA(softmax_cross_entropy_backward)(struct labelled l, const float *logits, const int32_t *labels,
                                         const float *dloss, float *dlogits) {
  const int64_t rows = l.rows, classes = l.classes;
  const float smoothing = l.smoothing;
  double weight = 0, all = l.weights != NULL ? 0 : (double)classes; /* sums: of labels, of all classes */
  for (int64_t n = 0; n < rows; n++)
    if (row_counts(&l, labels, n)) weight += row_weight(&l, labels, n);
  for (int64_t c = 0; l.weights != NULL && c < classes; c++) all += (double)l.weights[c];
  const float share = weight > 0 ? (dloss != NULL ? *dloss : 1) / (float)weight : 0,
              even = smoothing / (float)classes;
#pragma omp parallel for if (rows * classes >= PARALLEL_FROM)
  for (int64_t n = 0; n < rows; n++) {
    const float *x = logits + n * classes;
    float *dx = dlogits + n * classes;
    if (!row_counts(&l, labels, n)) {
      memset(dx, 0, (size_t)classes * sizeof *dx);
      continue;
    }
    const struct softmax_row row = softmax_row(classes, x);
    const float scale = (float)(1 / row.sum);
    if (l.weights != NULL || l.others != NULL) {
      gradient_of_row(&l, x, row, labels, n, (float)all, share, dx);
      continue;
    }
#pragma omp simd
    for (int64_t c = 0; c < classes; c++) {
      const float wanted = c == labels[n] ? 1 - smoothing + even : even;
      dx[c] = (exponential_of_negative(x[c] - row.highest) * scale - wanted) * share;
    }
  }
}

/* ---- Blocks of classes ---- */

static void take_block(struct loss_row *r, int64_t first, int64_t count, const float *x) {
  const struct softmax_row block = softmax_row(count, x);
  if (block.highest > r->highest || first == 0) {
    int32_t best = 0;
    while (best + 1 < count && x[best] != block.highest) best++;
    r->sum = r->sum * natural_exponential((double)r->highest - (double)block.highest) + block.sum;
    r->highest = block.highest;
    r->best = (int32_t)first + best;
  } else {
    r->sum += block.sum * natural_exponential((double)block.highest - (double)r->highest);
  }
}

void ISA(loss_block)(struct labelled l, int64_t first, int64_t count, const float *logits,
                     const int32_t *labels, struct loss_row *state) {
#pragma omp parallel for if (l.rows * count >= PARALLEL_FROM)
  for (int64_t n = 0; n < l.rows; n++) {
    const float *x = logits + n * count;
    struct loss_row *r = &state[n];
    if (first == 0) *r = (struct loss_row){.highest = -__builtin_inff()};
    if (!counts(labels[n], &l)) continue;
    take_block(r, first, count, x);
    double totals[SUM_LANES] = {0};
    IN_LANES(c, lane, l.smoothing > 0 ? count : 0, totals[lane] += (double)x[c]);
    r->total += sum_of_lanes(totals);
    if (labels[n] >= first && labels[n] < first + count) r->wanted = x[labels[n] - first];
  }
}

void ISA(loss_of_rows)(struct labelled l, int64_t counted, const int32_t *labels,
                       const struct loss_row *state, struct loss_before before, float *loss, int32_t *correct,
                       float *log_sum) {
  const double smoothing = (double)l.smoothing;
  double total = 0;
  int32_t right = 0;
  for (int64_t n = 0; n < l.rows; n++) {
    const struct loss_row *r = &state[n];
    log_sum[n] = 0;
    if (!counts(labels[n], &l)) continue;
    const double sum = (double)r->highest + natural_logarithm(r->sum);
    log_sum[n] = (float)sum;
    total += sum - (1 - smoothing) * (double)r->wanted - smoothing * r->total / (double)l.classes;
    right += r->best == labels[n];
  }
  const double mean = counted > 0 ? total / (double)counted : 0;
  *loss = (float)(before.loss != NULL ? (double)*before.loss + mean : mean);
  *correct = (before.correct != NULL ? *before.correct : 0) + right;
}

void ISA(loss_block_backward)(struct labelled l, int64_t first, int64_t count, const float *logits,
                              const int32_t *labels, const float *log_sum, float share, float *dlogits) {
  const float even = l.smoothing / (float)l.classes;
#pragma omp parallel for if (l.rows * count >= PARALLEL_FROM)
  for (int64_t n = 0; n < l.rows; n++) {
    const float *x = logits + n * count;
    float *dx = dlogits + n * count;
    if (!counts(labels[n], &l)) {
      memset(dx, 0, (size_t)count * sizeof *dx);
      continue;
    }
    const float sum = log_sum[n];
#pragma omp simd
    for (int64_t c = 0; c < count; c++) dx[c] = (exponential(x[c] - sum) - even) * share;
    if (labels[n] >= first && labels[n] < first + count) dx[labels[n] - first] -= (1 - l.smoothing) * share;
  }
}

/* ---- Two tensors of one shape ---- */

typedef float real;
#define EXP(x) exponential(x)
#define LOG(x) logarithm(x)
#include "op/elementwise_math.h"

#define PRAGMA(text) _Pragma(#text)

/* Adds up parts, whose number is fixed, and not threads. */
#define PAIR_LOSS(NAME, id, text, about, value, slope, target_slope)                                         \
  void ISA(id)(int64_t count, float beta, const float *px, const float *pt, float *loss, double *parts) {    \
    (void)beta;                                                                                              \
    PRAGMA(omp parallel for if (count >= PARALLEL_FROM)) for (int part = 0; part < LOSS_PARTS; part++) {     \
      const struct range mine = part_of(count, part, LOSS_PARTS);                                            \
      double sums[SUM_LANES] = {0};                                                                          \
      IN_LANES(i, lane, mine.end - mine.begin, {                                                             \
        const real x = px[mine.begin + i], t = pt[mine.begin + i];                                           \
        sums[lane] += (double)(value);                                                                       \
      });                                                                                                    \
      parts[part] = sum_of_lanes(sums);                                                                      \
    }                                                                                                        \
    double total = 0;                                                                                        \
    for (int part = 0; part < LOSS_PARTS; part++) total += parts[part];                                      \
    *loss = (float)(total / (double)count);                                                                  \
  }                                                                                                          \
  void ISA(id##_backward)(int64_t count, float beta, bool by_target, const float *px, const float *pt,       \
                          const float *dloss, float *dx) {                                                   \
    const float share = (dloss != NULL ? *dloss : 1) / (float)count;                                         \
    (void)beta;                                                                                              \
    PRAGMA(omp parallel for simd if (count >= PARALLEL_FROM)) for (int64_t i = 0; i < count; i++) {          \
      const real x = px[i], t = pt[i];                                                                       \
      (void)t;                                                                                               \
      dx[i] = share * (by_target ? (target_slope) : (slope));                                                \
    }                                                                                                        \
  }
#include "op/loss_list.h"
