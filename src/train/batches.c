#include "train/batches.h"

#include <math.h>
#include <stdlib.h>

#include "data/scale.h"
#include "train/training_ranks.h"
#include "train/values.h"

/* The division of a step. */
struct shape_of_step {
  int bucket;
  int32_t parts;
  int64_t records; /* with those that fill up a batch of pairs */
};

static struct shape_of_step shape_of_step(struct training *t) {
  struct shape_of_step step = {.bucket = loader_bucket(&t->data, t->state.step),
                               .parts = loader_parts(&t->data, t->state.step)};
  for (int32_t part = 0; part < step.parts; part++)
    step.records += loader_part_records(&t->data, t->state.step, part);
  return step;
}

/* Counts the labels of the filled micro-batch that count. */
static double count_labels(const struct training *t, int bucket) {
  return loader_count_labels(&t->data, bucket, t->shape.classes);
}

/* Returns the labels of a record of the greatest length. */
static int64_t labels_each(const struct training *t) {
  return loader_labels_each(&t->data, t->data.bucket_count - 1);
}

bool batches_have_a_class(const struct training *t) {
  return labels_each(t) == 1 && !loader_has_values(&t->data);
}

bool batches_are_whole(const struct training *t) { return labels_each(t) == 1 && t->data.bucket_count == 1; }

/* Sums the class weights of the filled micro-batch's labels. */
static double weigh_labels(const struct training *t, int bucket) {
  const int64_t count = t->data.filled * loader_labels_each(&t->data, bucket);
  const int32_t *labels = loader_labels(&t->data), *others = loader_other_labels(&t->data);
  const float *shares = loader_label_shares(&t->data);
  double weight = 0;
  for (int64_t i = 0; i < count; i++) {
    if (labels[i] < 0 || labels[i] >= t->shape.classes) continue;
    const double own = (double)t->class_weights[labels[i]], share = others != NULL ? (double)shares[i] : 1;
    weight += share * own + (others != NULL ? (1 - share) * (double)t->class_weights[others[i]] : 0);
  }
  return weight;
}

/* Counts the labels of this process's micro-batches, and their weight if classes have weights. */
static neap_status look_at_labels(struct training *t, const struct shape_of_step *step) {
  for (int32_t part = training_batch_rank(t); part < step->parts; part += training_batch_ranks(t)) {
    struct part_result *result = training_part_result(t, part);
    TRY(loader_fill(&t->data, t->state.step, part, true));
    result->counted = count_labels(t, step->bucket);
    if (t->class_weights != NULL) result->weight = weigh_labels(t, step->bucket);
  }
  return training_gather_parts(t);
}

/* Sums labels and weights over all micro-batches of a step: the labels that count may be spread unevenly, and
 * so may the weight of a micro-batch's loss, a weighted mean, in that of the batch. */
static neap_status count_all_labels(struct training *t, const struct shape_of_step *step, double *counted,
                                    double *weight) {
  const bool values = loader_has_values(&t->data) || t->data.source.preferences,
             weighs = t->class_weights != NULL && step->parts > 1,
             even = values || batches_are_whole(t) ||
                    (t->data.source.kind == NEAP_TASK_PIXELS && step->parts == 1);
  *counted = (double)(values ? step->records : step->records * labels_each(t));
  *weight = 0;
  if (even && !weighs) return NEAP_OK;
  TRY(look_at_labels(t, step));
  if (!even) *counted = 0;
  for (int32_t part = 0; part < step->parts; part++) {
    const struct part_result *result = training_part_result(t, part);
    if (!even) *counted += result->counted;
    if (weighs) *weight += result->weight;
  }
  return NEAP_OK;
}

/* Returns the share of the filled micro-batch in the loss of its step. */
static double share_of(const struct training *t, const struct shape_of_step *step, double counted,
                       double weight) {
  if (step->parts == 1) return 1;
  if (t->class_weights != NULL) return weight > 0 ? weigh_labels(t, step->bucket) / weight : 0;
  if (batches_are_whole(t) || loader_has_values(&t->data) || t->data.source.preferences)
    return (double)t->data.filled / (double)step->records;
  return counted > 0 ? count_labels(t, step->bucket) / counted : 0;
}

/* Runs a micro-batch of the step, or takes part in one that only other processes have. */
static neap_status run_part(struct training *t, const struct shape_of_step *step, int32_t part, double rate,
                            double counted, double weight, neap_step_result *micro) {
  if (part >= step->parts) {
    TRY(neap_session_select(t->session, training_graph(t, step->bucket)));
    return neap_session_micro_step(t->session, (float)rate, 0, micro);
  }
  TRY(loader_fill(&t->data, t->state.step, part, false));
  TRY(neap_session_select(t->session, training_part_graph(t, step->bucket, t->data.filled)));
  const double share = share_of(t, step, counted, weight);
  TRY(neap_session_micro_step(t->session, (float)rate, (float)share, micro));
  *training_part_result(t, part) = (struct part_result){
      .loss = share * micro->loss, .share = share, .correct = micro->correct, .labels = micro->counted};
  return NEAP_OK;
}

/* Runs one step, micro-batch by micro-batch: gives its loss and right answers. */
neap_status batches_step(struct training *t, double rate, neap_step_result *result, int64_t *records,
                         double *counted) {
  const struct shape_of_step step = shape_of_step(t);
  const int32_t ranks = training_batch_ranks(t), rank = training_batch_rank(t);
  double weight;
  TRY(count_all_labels(t, &step, counted, &weight));
  session_set_parts(t->session, step.parts);
  *records = step.records;
  *result = (neap_step_result){0};
  for (int32_t part = rank; part - rank < step.parts; part += ranks) {
    neap_step_result micro;
    TRY(run_part(t, &step, part, rate, *counted, weight, &micro));
    result->skipped = micro.skipped;
    result->gradient_norm = micro.gradient_norm;
  }
  training_take_results(t, step.parts);
  TRY(training_gather_parts(t));
  for (int32_t part = 0; part < step.parts; part++) {
    const struct part_result *given = training_part_result(t, part);
    result->loss += given->loss;
    result->correct += given->correct;
    result->counted += given->labels;
  }
  return NEAP_OK;
}

/* The sums of an evaluation. */
struct scores {
  double loss, counted;
  int64_t correct;
};

/* The results of a batch of test records, from whichever process had it. */
struct batch_scores {
  double loss, labels;
  int64_t correct, count;
};

/* Scores pairs: their loss without those that fill up the batch, whose margin is 0, and the pairs whose first
 * sequence has gained. */
static neap_status score_preferences(struct training *t, int bucket, double loss,
                                     struct batch_scores *scores) {
  const int64_t micro = t->data.buckets[bucket].micro;
  float *margins = malloc((size_t)micro * sizeof *margins);
  RETURN_IF(margins == NULL, NEAP_OUT_OF_MEMORY, "out of memory for the margins of preferences");
  const neap_status status = neap_session_output(t->session, "margin", NULL, margins);
  scores->labels = (double)scores->count;
  scores->loss = loss * (double)micro - (double)(micro - scores->count) * log(2);
  for (int64_t i = 0; status == NEAP_OK && i < scores->count; i++) scores->correct += margins[i] > 0;
  free(margins);
  return status;
}

/* Evaluates the filled batch, of scores->count test records. A batch without records only takes part in the
 * work of all processes. */
static neap_status evaluate_batch(struct training *t, int bucket, struct batch_scores *scores) {
  neap_step_result result;
  TRY(neap_session_evaluate(t->session, &result));
  if (scores->count == 0) return NEAP_OK;
  if (t->data.source.preferences) return score_preferences(t, bucket, result.loss, scores);
  scores->labels = count_labels(t, bucket);
  TRY(confusion_add(&t->confusion, t->session, loader_labels(&t->data), t->data.buckets[bucket].micro));
  scores->loss = result.loss * scores->labels;
  scores->correct = result.correct;
  return NEAP_OK;
}

/* Evaluates the test records of a bucket: in every round each process has a batch. */
static neap_status evaluate_rounds(struct training *t, int bucket, struct batch_scores *all,
                                   struct scores *scores) {
  const int32_t ranks = training_batch_ranks(t), rank = training_batch_rank(t);
  const int64_t micro = t->data.buckets[bucket].micro;
  for (int64_t first = 0;; first += ranks * micro) {
    all[rank] = (struct batch_scores){0};
    TRY(loader_fill_at(&t->data, SPLIT_TEST, bucket, first + rank * micro, &all[rank].count));
    TRY(training_gather_batches(t, all, sizeof *all));
    if (all[0].count == 0) return NEAP_OK;
    TRY(evaluate_batch(t, bucket, &all[rank]));
    TRY(training_gather_batches(t, all, sizeof *all));
    for (int32_t r = 0; r < ranks && all[r].count > 0; r++) {
      scores->correct += all[r].correct;
      scores->loss += all[r].loss;
      scores->counted += all[r].labels;
    }
    if (all[ranks - 1].count == 0) return NEAP_OK;
  }
}

static neap_status evaluate_bucket(struct training *t, int bucket, struct scores *scores) {
  TRY(neap_session_select(t->session, training_graph(t, bucket)));
  struct batch_scores *all = calloc((size_t)training_batch_ranks(t), sizeof *all);
  RETURN_IF_NULL(all);
  const neap_status status = evaluate_rounds(t, bucket, all, scores);
  free(all);
  return status;
}

/* Reads the values of a test record as its file has them; else those that were filled. */
static neap_status read_values(const struct source *source, int64_t record, int label, const float *filled,
                               double *values) {
  if (source->read_numbers != NULL) return source->read_numbers(source, SPLIT_TEST, record, label, values);
  for (int64_t k = 0, each = field_elements(&source->fields[label]); k < each; k++)
    values[k] = (double)filled[k];
  return NEAP_OK;
}

/* Adds the values [micro, each] of the test records from `first` on and their predictions, in the units of
 * the data. `own` [each] is overwritten. */
static neap_status add_values(struct training *t, int64_t first, int64_t count, float *predicted, double *own,
                              struct value_sums *sums, double *squares) {
  const int64_t each = labels_each(t);
  const float *values = loader_labels(&t->data);
  const struct source *source = &t->data.source;
  const int label = source_find_field(source, task_rows[source->kind].label);
  const struct scale *scale = &source->scales[label];
  TRY(neap_session_output(t->session, "prediction", NULL, predicted));
  for (int64_t i = 0; i < count * each; i++) {
    const double error = (double)predicted[i] - (double)values[i];
    *squares += error * error;
    if (i % each == 0) TRY(read_values(source, first + i / each, label, &values[i], own));
    values_add(&sums[i % each], own[i % each], scale_restore(scale, i % each, (double)predicted[i]));
  }
  return NEAP_OK;
}

/* Evaluates values; `sums` [values of a record] starts with zeros. */
static neap_status run_values(struct training *t, float *predicted, double *own, struct value_sums *sums) {
  const int64_t each = labels_each(t);
  double squares = 0;
  TRY(neap_session_select(t->session, training_graph(t, 0)));
  for (int64_t first = 0, count;; first += count) {
    neap_step_result unused;
    TRY(loader_fill_at(&t->data, SPLIT_TEST, 0, first, &count));
    if (count == 0) break;
    TRY(neap_session_evaluate(t->session, &unused));
    TRY(add_values(t, first, count, predicted, own, sums, &squares));
  }
  t->test_loss = sums->count > 0 ? squares / (sums->count * (double)each) : 0;
  t->test_mae = values_mae(sums, each);
  t->test_rmse = values_rmse(sums, each);
  t->test_r2 = values_r2(sums, each);
  return NEAP_OK;
}

/* Evaluates errors from the predictions, as the last batch is filled up with empty records. */
static neap_status evaluate_values(struct training *t) {
  float *predicted = malloc((size_t)(t->data.buckets[0].micro * labels_each(t)) * sizeof *predicted);
  double *own = malloc((size_t)labels_each(t) * sizeof *own);
  struct value_sums *sums = calloc((size_t)labels_each(t), sizeof *sums);
  const neap_status status = predicted != NULL && own != NULL && sums != NULL
                                 ? run_values(t, predicted, own, sums)
                                 : neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for the errors of values");
  free(sums);
  free(own);
  free(predicted);
  return status;
}

/* Evaluates all of the test set, by the labels that count. */
neap_status batches_evaluate(struct training *t) {
  struct scores scores = {0};
  if (loader_has_values(&t->data)) return evaluate_values(t);
  for (int k = 0; k < t->data.bucket_count; k++) TRY(evaluate_bucket(t, k, &scores));
  t->test_loss = scores.counted > 0 ? scores.loss / scores.counted : 0;
  t->state.test_accuracy = scores.counted > 0 ? (double)scores.correct / scores.counted : 0;
  return NEAP_OK;
}

/* Returns the bits of the test text's tokens divided by its bytes. -1: there is no text, or no loss yet. */
double batches_bits_per_byte(const struct training *t) {
  const struct source *source = &t->data.source;
  if (source->bytes[SPLIT_TEST] == 0 || t->test_loss < 0) return -1;
  return t->test_loss / log(2) * (double)source->tokens[SPLIT_TEST] / (double)source->bytes[SPLIT_TEST];
}
