/* Cross-entropy of logits and its gradient. */
#include <math.h>

#include "kernel/ref/ref.h"

static bool counts(const struct loss_attributes *a, int32_t label, int64_t classes) {
  return label >= 0 && label < classes && label != a->ignored;
}

/* The logits of one row or pixel: `classes` of them, `stride` apart. */
struct row {
  const double *x;
  int64_t classes, stride;
};

/* Returns the offset of row i of logits [N, classes, pixels...]: pixel i % pixels of image i / pixels. */
static int64_t row_offset(struct shape s, int64_t i) {
  return i / (s.h * s.w) * s.c * s.h * s.w + i % (s.h * s.w);
}

static struct row row_at(struct shape s, const double *x, int64_t i) {
  return (struct row){x + row_offset(s, i), s.c, s.h * s.w};
}

static double log_sum(struct row r) {
  double most = r.x[0], sum = 0;
  FOR(c, r.classes) most = r.x[c * r.stride] > most ? r.x[c * r.stride] : most;
  FOR(c, r.classes) sum += exp(r.x[c * r.stride] - most);
  return most + log(sum);
}

/* The data of rows besides logits and labels. */
struct labelling {
  const struct loss_attributes *attributes;
  int64_t classes;
  const int32_t *labels, *others; /* others NULL: a row has one label */
  const double *weights, *shares; /* weights NULL: all classes weigh 1 */
};

static struct labelling labelling_of(const struct loss_attributes *a, int64_t classes, const int32_t *labels,
                                     void *const *more) {
  return (struct labelling){a, classes, labels, more[1], more[0], more[2]};
}

static bool row_counts(const struct labelling *l, int64_t i) {
  return counts(l->attributes, l->labels[i], l->classes) &&
         (l->others == NULL || counts(l->attributes, l->others[i], l->classes));
}

/* Returns the share of class c in row i, without smoothing. */
static double label_share(const struct labelling *l, int64_t i, int64_t c) {
  if (l->others == NULL) return c == l->labels[i];
  return (c == l->labels[i] ? l->shares[i] : 0) + (c == l->others[i] ? 1 - l->shares[i] : 0);
}

static double wanted(const struct labelling *l, int64_t i, int64_t c) {
  const double smoothing = (double)l->attributes->smoothing,
               share = label_share(l, i, c) * (1 - smoothing) + smoothing / (double)l->classes;
  return l->weights != NULL ? l->weights[c] * share : share;
}

/* Returns the weight of row i in the mean. */
static double row_weight(const struct labelling *l, int64_t i) {
  double weight = 0;
  if (l->weights == NULL) return 1;
  FOR(c, l->classes) weight += l->weights[c] * label_share(l, i, c);
  return weight;
}

RUN(run_softmax_cross_entropy) {
  UNUSED;
  const struct shape s = shape_of(kernel_input(kernel, 0));
  const int32_t *labels = in[1];
  int32_t *correct = out[1];
  const struct labelling l = labelling_of(&ATTRIBUTES->loss, s.c, labels, in + 2);
  double total = 0, rows = 0;
  *correct = 0;
  FOR(i, s.n * s.h * s.w) {
    if (!row_counts(&l, i)) continue;
    const struct row r = row_at(s, in[0], i);
    const double norm = log_sum(r);
    int64_t best = 0;
    FOR(c, s.c) {
      total += wanted(&l, i, c) * (norm - r.x[c * r.stride]);
      if (r.x[c * r.stride] > r.x[best * r.stride]) best = c;
    }
    *correct += best == labels[i];
    rows += row_weight(&l, i);
  }
  *(double *)out[0] = rows > 0 ? total / rows : 0;
  return NEAP_OK;
}

RUN(run_softmax_cross_entropy_backward) {
  UNUSED;
  const struct shape s = shape_of(kernel_input(kernel, 0));
  const double dloss = in[2] != NULL ? *(const double *)in[2] : 1;
  const struct labelling l = labelling_of(&ATTRIBUTES->loss, s.c, in[1], in + 3);
  double rows = 0;
  FOR(i, s.n * s.h * s.w) rows += row_counts(&l, i) ? row_weight(&l, i) : 0;
  FOR(i, s.n * s.h * s.w) {
    const struct row r = row_at(s, in[0], i);
    double *dx = (double *)out[0] + row_offset(s, i);
    const double norm = log_sum(r);
    const bool some = rows > 0 && row_counts(&l, i);
    double all = l.weights != NULL ? 0 : 1; /* of what is wanted of the classes together */
    for (int64_t c = 0; l.weights != NULL && some && c < s.c; c++) all += wanted(&l, i, c);
    FOR(c, s.c) {
      const double is = exp(r.x[c * r.stride] - norm) * all;
      dx[c * r.stride] = some ? dloss * (is - wanted(&l, i, c)) / rows : 0;
    }
  }
  return NEAP_OK;
}
