#include "train/batches.h"

#include <math.h>
#include <string.h>

/* The order of records within each bucket, and of the batches of all, in the epoch that runs. */
static void order_epoch(struct training *t) {
  static const int64_t of_batches = (int64_t)1 << 40;
  const int64_t epoch = t->state.step / t->epoch_steps;
  const uint64_t seed = t->options->session.seed;
  const bool shuffle = !t->options->no_shuffle;
  for (int k = 0; k < t->bucket_count; k++) {
    const struct bucket *b = &t->buckets[k];
    data_order(seed, t->bucket_count > 1 ? epoch * DATA_BUCKETS + k : epoch, shuffle, b->count,
               t->order + b->first);
    for (int64_t i = 0; i < b->count; i++) t->order[b->first + i] += (int32_t)b->first;
  }
  if (t->batches != NULL) data_order(seed, epoch + of_batches, shuffle, t->epoch_steps, t->batches);
}

/* The bucket of the step in hand; `*batch`: which of its batches. */
static int bucket_of_step(const struct training *t, int64_t *batch) {
  const int64_t step = t->state.step % t->epoch_steps;
  int k = 0;
  *batch = t->batches != NULL ? t->batches[step] : step;
  while (*batch >= t->buckets[k].steps) *batch -= t->buckets[k++].steps;
  return k;
}

static neap_status fill_from(struct training *t, const struct data_split *split, int bucket,
                             const int32_t *records, bool augment, void *inputs) {
  const struct data_batch batch = {.count = t->buckets[bucket].micro,
                                   .records = records,
                                   .augment = augment,
                                   .seed = augment ? t->options->session.seed : 0,
                                   .epoch = augment ? t->state.step / t->epoch_steps : 0,
                                   .threads = t->threads,
                                   .map_height = t->map[0],
                                   .map_width = t->map[1],
                                   .length = t->buckets[bucket].length,
                                   .windows = t->windows,
                                   .source = t->source};
  return data_fill(&t->data, split, &batch, inputs, t->labels);
}

/* `inputs` may be NULL: labels alone. The last batch of a bucket is filled up with records that are none. */
static neap_status fill_micro_batch(struct training *t, int32_t part, void *inputs) {
  int64_t number;
  const int k = bucket_of_step(t, &number);
  const struct bucket *b = &t->buckets[k];
  const int64_t first = (number * t->micro_batches + part) * b->micro;
  const int32_t *records = t->order + b->first + first;
  if (first + b->micro > b->count) {
    for (int64_t i = 0; i < b->micro; i++) t->records[i] = first + i < b->count ? records[i] : -1;
    records = t->records;
  }
  return fill_from(t, &t->data.train, k, records, !t->options->no_augment, inputs);
}

/* Labels of a micro-batch of a bucket that are those of a class. */
static double count_labels(const struct training *t, int bucket) {
  const struct bucket *b = &t->buckets[bucket];
  const int64_t each = t->bucket_count > 1 ? b->length : t->labels_each;
  double counted = 0;
  for (int64_t i = 0; i < b->micro * each; i++)
    counted += t->labels[i] >= 0 && t->labels[i] < t->shape.classes;
  return counted;
}

/* Over all of a step's micro-batches: what counts may be spread unevenly. */
static neap_status count_all_labels(struct training *t, int bucket, double *counted) {
  *counted = (double)(t->batch * t->labels_each);
  if (t->labels_each == 1 || (t->map[0] > 0 && t->micro_batches == 1)) return NEAP_OK;
  *counted = 0;
  for (int32_t part = 0; part < t->micro_batches; part++) {
    TRY(fill_micro_batch(t, part, NULL));
    *counted += count_labels(t, bucket);
  }
  return NEAP_OK;
}

/* One step, micro-batch by micro-batch: its loss and right answers. */
neap_status batches_step(struct training *t, double rate, neap_step_result *result, int64_t *records,
                         double *counted) {
  if (t->state.step % t->epoch_steps == 0 || t->steps_here == 0) order_epoch(t);
  int64_t number;
  const int bucket = bucket_of_step(t, &number);
  TRY(neap_session_select(t->session, training_graph(t, bucket)));
  TRY(count_all_labels(t, bucket, counted));
  *records = t->buckets[bucket].micro * t->micro_batches;
  *result = (neap_step_result){0};
  for (int32_t part = 0; part < t->micro_batches; part++) {
    neap_step_result micro;
    TRY(fill_micro_batch(t, part, t->inputs));
    const double share = t->micro_batches == 1 ? 1
                         : t->labels_each == 1 ? 1 / (double)t->micro_batches
                         : *counted > 0        ? count_labels(t, bucket) / *counted
                                               : 0;
    TRY(neap_session_micro_step(t->session, (float)rate, (float)share, &micro));
    result->loss += share * micro.loss;
    result->skipped = micro.skipped;
    result->correct += micro.correct;
    result->counted += micro.counted;
  }
  return NEAP_OK;
}

/* What evaluation has come to. */
struct scores {
  double loss, counted;
  int64_t correct;
};

/* The test records of a bucket; the last batch is filled up with records that are none. */
static neap_status evaluate_bucket(struct training *t, int bucket, struct scores *scores) {
  const struct data_split *test = &t->data.test;
  const int64_t micro = t->buckets[bucket].micro,
                begin = test->bucket_count > 0 ? test->buckets[bucket].first : 0,
                count = test->bucket_count > 0 ? test->buckets[bucket].count : test->count;
  TRY(neap_session_select(t->session, training_graph(t, bucket)));
  for (int64_t first = 0; first < count; first += micro) {
    for (int64_t i = 0; i < micro; i++) t->records[i] = first + i < count ? (int32_t)(begin + first + i) : -1;
    neap_step_result result;
    TRY(fill_from(t, test, bucket, t->records, false, t->inputs));
    const double labels = count_labels(t, bucket);
    TRY(neap_session_evaluate(t->session, &result));
    scores->correct += result.correct;
    scores->loss += result.loss * labels;
    scores->counted += labels;
  }
  return NEAP_OK;
}

/* Over the whole test set, by the labels that count. */
neap_status batches_evaluate(struct training *t) {
  struct scores scores = {0};
  for (int k = 0; k < t->bucket_count; k++) TRY(evaluate_bucket(t, k, &scores));
  t->test_loss = scores.counted > 0 ? scores.loss / scores.counted : 0;
  t->state.test_accuracy = scores.counted > 0 ? (double)scores.correct / scores.counted : 0;
  return NEAP_OK;
}

/* Of the test text: what its tokens take, over its bytes. -1: there is no text, or no loss yet. */
double batches_bits_per_byte(const struct training *t) {
  const struct data_split *test = &t->data.test;
  if (test->bytes == 0 || t->test_loss < 0) return -1;
  return t->test_loss / log(2) * (double)test->tokens / (double)test->bytes;
}
