#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory_status.h"
#include "base/parallel.h"
#include "grad/gradient.h"
#include "run/choose.h"
#include "run/session.h"
#include "train/checkpoint.h"
#include "train/data.h"
#include "train/folder.h"
#include "train/learning_rate.h"
#include "train/metrics.h"
#include "train/model_data.h"
#include "train/rewiring.h"
#include "zoo/zoo.h"

enum {
  TIMED_STEPS = 4096, /* the median is over the last so many steps */
  UNTIMED_STEPS = 2   /* the first steps warm caches */
};

/* Records whose sequences have one length: a graph of the session is theirs. */
struct bucket {
  int64_t length, first, count; /* first: of the training records */
  int64_t micro;                /* records of a micro-batch */
  int64_t steps;                /* of an epoch */
};

struct training {
  const neap_train_options *options; /* `own` */
  neap_train_options own;            /* as they were given, with the combination that was chosen */
  char combination[48];
  struct data_set data;
  neap_model_options shape;
  neap_graph *graph;
  neap_session *session;
  struct learning_rate rate;
  struct metrics metrics;
  json_t *settings;
  struct region region;
  struct folder_lock lock; /* of options->out */
  struct checkpoint state;
  int threads;
  int64_t batch, epoch_steps, steps;
  int32_t micro_batches;
  int64_t micro;                       /* images of a micro-batch, which is the batch of the graph */
  struct bucket buckets[DATA_BUCKETS]; /* rising lengths; one: all records are alike */
  int bucket_count;
  int32_t *batches;   /* [epoch_steps] of the epoch that runs, in their order; NULL: there is one bucket */
  int64_t map[2];     /* height and width of label maps; 0: a label an image */
  int64_t saved_step; /* of the last checkpoint written; -1: none */
  void *inputs;       /* the session's: images or sequences */
  int32_t *labels;
  int64_t labels_each;          /* of an image or sequence */
  int32_t *order;               /* [train.count], of the epoch that runs */
  int32_t *records;             /* [most of a micro-batch] */
  int32_t *source;              /* the session's input, of pairs */
  double counted, correct_here; /* labels of the epoch that runs, in this process; right ones among them */
  double test_loss;             /* -1: not evaluated here */
  double seconds[TIMED_STEPS];  /* a ring */
  int64_t steps_here;           /* by this process */
  double started;
  neap_process process;
  uint64_t resident_before, overhead; /* of the process, before the session's memory was mapped; beyond it */
};

/* ---- What the run is ------------------------------------------------------------------------------------
 */

static neap_status check_options(const neap_train_options *options) {
  RETURN_IF(options->model == NULL || options->data == NULL, NEAP_INVALID_ARGUMENT,
            "a run needs a model and data");
  RETURN_IF(options->steps < 0 || options->epochs < 0 || options->checkpoint_steps < 0 ||
                options->micro_batch < NEAP_MICRO_BATCH_AUTO || options->shape.batch < 0 ||
                options->shape.classes < 0 || options->shape.image[0] < 0 || options->shape.image[1] < 0 ||
                options->shape.image[2] < 0,
            NEAP_INVALID_ARGUMENT,
            "steps, epochs, batch, image, classes and steps between checkpoints must not be negative");
  RETURN_IF(options->steps > 0 && options->epochs > 0, NEAP_INVALID_ARGUMENT,
            "%lld steps and %lld epochs are both asked for; give one of them", (long long)options->steps,
            (long long)options->epochs);
  RETURN_IF(options->resume != NULL && options->initial != NULL, NEAP_INVALID_ARGUMENT,
            "weights to start from (%s) and a checkpoint to resume (%s) are both given; give one of them",
            options->initial, options->resume);
  RETURN_IF(options->session.threads < 0, NEAP_INVALID_ARGUMENT, "threads must not be negative");
  RETURN_IF(options->rewire_every < NEAP_REWIRE_OFF, NEAP_INVALID_ARGUMENT,
            "rewiring every %lld steps cannot be", (long long)options->rewire_every);
  return check_session_options(&options->session);
}

/* How many labels there are of an image or sequence; the size of label maps. */
static void find_labels(struct training *t) {
  for (size_t i = 0; i < t->graph->tensors.count; i++) {
    const struct tensor *tensor = &t->graph->tensors.data[i];
    if (tensor->role != NEAP_ROLE_INPUT || tensor->view_of >= 0 || strcmp(tensor->name, "label") != 0)
      continue;
    t->labels_each = tensor->elements / tensor->dims[0];
    if (tensor->rank == 3) memcpy(t->map, &tensor->dims[1], sizeof t->map);
  }
}

/* In bytes; a share is one of what the whole, dense batch needs in f32. 0: not known. */
static uint64_t budget_of(const struct training *t) {
  neap_session_options session = t->options->session;
  neap_step *step = NULL;
  uint64_t everything = 0;
  if (session.budget_fraction <= 0) return session.budget;
  session.threads = t->threads;
  session.precision = NEAP_F32;
  session.sparse_density = 0;
  const bool known = neap_step_from_graph(t->graph, &session, &step) == NEAP_OK &&
                     neap_step_keep_all_bytes(step, &everything) == NEAP_OK;
  neap_step_free(step);
  return known ? neap_budget_share(session.budget_fraction, everything) : 0;
}

/* With the techniques that fit, where that is left open. Where nothing fits the last one,
 * which needs the least, is what will be refused. */
static neap_status choose_combination(struct training *t) {
  neap_combination list[NEAP_COMBINATIONS];
  neap_session_options session = t->own.session;
  int count;
  session.threads = t->threads;
  snprintf(t->combination, sizeof t->combination, "none");
  if (t->own.allow == 0) return NEAP_OK;
  TRY(neap_combinations(t->own.model, &t->shape, &session, t->own.allow, list, &count));
  const int best = neap_best_combination(list, count,
                                         session.budget == NEAP_BUDGET_MIN ? NEAP_PREFER_MEMORY
                                         : t->own.allow_by_time            ? NEAP_PREFER_TIME
                                                                           : NEAP_PREFER_FIDELITY);
  const neap_combination *taken = &list[best >= 0 ? best : count - 1];
  t->own.session.precision = taken->precision;
  t->own.session.sparse_density = taken->sparse_density;
  t->own.micro_batch = taken->micro_batch;
  snprintf(t->combination, sizeof t->combination, "%s", taken->name);
  return NEAP_OK;
}

/* The graph is a micro-batch's. */
static neap_status settle_micro_batch(struct training *t) {
  neap_session_options session = t->options->session;
  session.threads = t->threads;
  t->micro = t->options->micro_batch > 0 ? t->options->micro_batch : t->batch;
  if (t->options->micro_batch == NEAP_MICRO_BATCH_AUTO)
    TRY(neap_largest_micro_batch(t->options->model, &t->shape, &session, &t->micro));
  t->micro_batches = (int32_t)(t->batch / t->micro);
  RETURN_IF(t->batch % t->micro != 0, NEAP_INVALID_ARGUMENT,
            "micro-batches of %lld do not make up a batch of %lld", (long long)t->micro, (long long)t->batch);
  if (t->micro == t->batch) return NEAP_OK;
  neap_graph_free(t->graph);
  t->graph = NULL;
  t->shape.batch = t->micro;
  return neap_model_build(t->options->model, &t->shape, &t->graph);
}

/* A batch of shorter sequences has as many tokens, nearly, as one of the longest, which come last. */
static void settle_buckets(struct training *t) {
  const struct data_split *train = &t->data.train;
  t->bucket_count = train->bucket_count > 0 ? train->bucket_count : 1;
  t->buckets[0] = (struct bucket){t->data.length, 0, train->count, t->micro, train->count / t->batch};
  t->epoch_steps = train->bucket_count > 0 ? 0 : t->buckets[0].steps;
  for (int k = 0; k < train->bucket_count; k++) {
    const struct data_bucket *b = &train->buckets[k];
    const int64_t micro = t->micro * t->data.length / b->length, batch = micro * t->micro_batches;
    t->buckets[k] = (struct bucket){b->length, b->first, b->count, micro, (b->count + batch - 1) / batch};
    t->epoch_steps += t->buckets[k].steps;
  }
}

static neap_status build_model(struct training *t) {
  TRY(settle_shape(t->options->model, t->options->data, &t->options->shape, &t->data, &t->shape));
  TRY(neap_model_build(t->options->model, &t->shape, &t->graph));
  t->batch = t->shape.batch = neap_graph_batch(t->graph);
  t->own.session.budget = budget_of(t);
  t->own.session.budget_fraction = 0;
  TRY(choose_combination(t));
  TRY(settle_micro_batch(t));
  find_labels(t);
  settle_buckets(t);
  RETURN_IF(t->epoch_steps == 0, NEAP_INVALID_ARGUMENT,
            "a batch of %lld, but %s has only %lld training records", (long long)t->batch, t->options->data,
            (long long)t->data.train.count);
  const int64_t epochs = t->options->epochs > 0 ? t->options->epochs : 1;
  t->steps = t->options->steps;
  RETURN_IF(t->steps == 0 && __builtin_mul_overflow(epochs, t->epoch_steps, &t->steps), NEAP_TOO_LARGE,
            "%lld epochs are more than 2^63 steps", (long long)epochs);
  return learning_rate_create(t->options, t->steps, t->epoch_steps, &t->rate);
}

static json_t *mean_of_data(const struct data_set *data) {
  json_t *mean = json_array();
  for (int64_t c = 0; c < data->image[0]; c++)
    if (json_array_append_new(mean, json_real(data->mean[c])) != 0) {
      json_decref(mean);
      return NULL;
    }
  return mean;
}

static bool rewires(const neap_train_options *o) {
  return o->session.sparse_density != 0 && o->rewire_every != NEAP_REWIRE_OFF;
}

static int64_t rewire_every(const neap_train_options *o) {
  static const int64_t usual = 100;
  return o->rewire_every != 0 ? o->rewire_every : usual;
}

/* What was not asked for leaves no trace: a checkpoint of before there was such a thing stays what it was. */
static bool add_unusual(json_t *settings, const struct training *t) {
  const neap_train_options *o = t->options;
  const struct data_set *data = &t->data;
  const int32_t micro_batches = t->micro_batches;
  const float dropout = t->shape.dropout;
  const neap_session_options *s = &o->session;
  bool ok = true;
  if (s->sparse_density != 0)
    ok = json_object_set_new(settings, "sparse_density", json_real(s->sparse_density)) == 0 &&
         json_object_set_new(settings, "rewire_every", json_integer(rewire_every(o))) == 0 &&
         (s->sparse_layers == NULL ||
          json_object_set_new(settings, "sparse_layers", json_string(s->sparse_layers)) == 0);
  if (data->length > 0) ok = ok && json_object_set_new(settings, "length", json_integer(data->length)) == 0;
  if (dropout != 0) ok = ok && json_object_set_new(settings, "dropout", json_real((double)dropout)) == 0;
  if (micro_batches > 1)
    ok = ok && json_object_set_new(settings, "micro_batches", json_integer(micro_batches)) == 0;
  if (s->precision != NEAP_F32)
    ok = ok && json_object_set_new(settings, "precision", json_string(dtype_rows[s->precision].name)) == 0;
  if (s->master) ok = ok && json_object_set_new(settings, "master", json_true()) == 0;
  if (s->loss_scale != 0)
    ok = ok && json_object_set_new(settings, "loss_scale", json_real((double)s->loss_scale)) == 0;
  if (s->dynamic_loss_scale) ok = ok && json_object_set_new(settings, "dynamic_loss_scale", json_true()) == 0;
  if (s->clip_value != 0)
    ok = ok && json_object_set_new(settings, "clip_value", json_real((double)s->clip_value)) == 0;
  if (s->clip_norm != 0)
    ok = ok && json_object_set_new(settings, "clip_norm", json_real((double)s->clip_norm)) == 0;
  for (int i = 0; ok && i < s->group_count; i++) {
    const neap_parameter_group *g = &s->groups[i];
    char name[32];
    snprintf(name, sizeof name, "group_%d", i);
    ok = json_object_set_new(settings, name,
                             json_pack("[s, f, f]", g->pattern, (double)g->rate, (double)g->weight_decay)) ==
         0;
  }
  return ok;
}

/* All that the bits of the weights depend on. The budget, the planner and the folder of the data are not
 * among it; the length only where the learning rate depends on it. */
static neap_status make_settings(struct training *t) {
  static const char *const convolutions[] = {"auto", "direct", "winograd"};
  static const char *const schedules[] = {"constant", "step", "cosine", "inverse-sqrt"};
  const neap_train_options *o = t->options;
  const neap_session_options *s = &o->session;
  RETURN_IF((unsigned)s->convolution >= sizeof convolutions / sizeof *convolutions, NEAP_INVALID_ARGUMENT,
            "convolution algorithm %d is not known", (int)s->convolution);
  char seed[24]; /* JSON's integers may end at 2^63 */
  snprintf(seed, sizeof seed, "%llu", (unsigned long long)s->seed);
  t->settings =
      json_pack("{s:s, s:I, s:f, s:s, s:I, s:o, s:b, s:b, s:s, s:i, s:s, s:s, s:s, s:f, s:f, s:b, s:f, s:f, "
                "s:f, s:s, s:f, s:f, "
                "s:f, s:f}",
                "model", o->model, "batch", (json_int_t)t->batch, "label_smoothing",
                (double)t->shape.smoothing, /* model */
                "data", t->data.name, "training_images", (json_int_t)t->data.train.count, "data_mean",
                mean_of_data(&t->data), "shuffle", !o->no_shuffle, "augment", !o->no_augment, /* data */
                "seed", seed, "threads", t->threads, "convolution", convolutions[s->convolution], "backend",
                s->backend == NEAP_CPU ? "cpu" : "reference", /* arithmetic */
                "optimizer", optimizer_rows[s->optimizer].name, "momentum", (double)s->momentum,
                "weight_decay", (double)s->weight_decay, "nesterov", s->nesterov, "beta1", (double)s->beta1,
                "beta2", (double)s->beta2, "epsilon", (double)s->epsilon, /* optimizer */
                "schedule", schedules[o->schedule], "learning_rate", t->rate.base, "warmup_steps",
                t->rate.warmup_steps, "drop_steps", t->rate.kind == NEAP_LR_STEP ? t->rate.drop_steps : 0.0,
                "drop_factor", t->rate.drop_factor);
  bool ok = t->settings != NULL && add_unusual(t->settings, t);
  if (ok && (learning_rate_depends_on_length(o) || rewires(o)))
    ok = json_object_set_new(t->settings, "steps", json_integer(t->steps)) == 0;
  RETURN_IF(!ok, NEAP_INVALID_ARGUMENT,
            "out of memory for the settings, or one of them is not UTF-8 or not finite");
  return NEAP_OK;
}

/* A quick look may miss what is just met. */
static bool direct_fits(const struct training *t, const neap_session_options *asked) {
  neap_session_options session = *asked;
  bool fits = false;
  if (asked->convolution == NEAP_CONV_DIRECT || asked->plan_file != NULL) return false;
  session.convolution = NEAP_CONV_DIRECT;
  for (int quick = 1; quick >= 0 && !fits; quick--) {
    neap_step *step = NULL;
    neap_plan *plan = NULL;
    session.plan_quick = quick;
    fits = neap_plan_graph(t->graph, &session, NULL, &step, &plan) == NEAP_OK;
    neap_plan_free(plan);
    neap_step_free(step);
  }
  return fits;
}

/* Where a budget for the process was kept so far; else its run ends. */
static neap_status check_process(const struct training *t, neap_train_result *result) {
  const uint64_t peak = memory_status_read().peak_resident_bytes, planning = t->process.planning,
                 most = peak > planning ? peak : planning, whole = t->options->session.process_budget;
  if (whole == 0 || most <= whole) return NEAP_OK;
  result->memory.budget = whole;
  result->smallest_budget = most + PROCESS_GROWTH;
  return neap_fail(NEAP_OVER_BUDGET, "the process took %llu bytes %s, more than its budget of %llu",
                   (unsigned long long)most,
                   planning > peak ? "while it planned (a saved plan, --plan, needs less)" : "in a step",
                   (unsigned long long)whole);
}

/* The number of the session's graph for a bucket: that of the longest is the first. */
static int graph_of(const struct training *t, int bucket) { return t->bucket_count - 1 - bucket; }

static neap_status add_graphs(struct training *t) {
  for (int k = t->bucket_count - 2; k >= 0; k--) {
    neap_model_options shape = t->shape;
    neap_graph *graph;
    int index;
    shape.batch = t->buckets[k].micro;
    shape.length = shape.source_length = t->buckets[k].length;
    TRY(neap_model_build(t->options->model, &shape, &graph));
    const neap_status status = neap_session_add_graph(t->session, graph, &index);
    neap_graph_free(graph);
    if (status != NEAP_OK) return status;
  }
  return NEAP_OK;
}

static neap_status create_session(struct training *t, neap_train_result *result) {
  neap_session_options session = t->options->session;
  session.threads = t->threads;
  session.micro_batches = t->micro_batches;
  const neap_status status = neap_session_create(t->graph, &session, &result->smallest_budget, &t->session);
  if (status == NEAP_OVER_BUDGET) {
    struct ending ending;
    ending_keep(&ending, status);
    result->memory.budget = session.process_budget > 0 ? session.process_budget : session.budget;
    /* The answer stands without this part of it. A saved plan is for one batch only. */
    if (session.plan_file == NULL &&
        neap_largest_batch(t->options->model, &t->shape, &session, &result->largest_batch) != NEAP_OK)
      result->largest_batch = 0;
    result->direct_fits = direct_fits(t, &session);
    return ending_tell(&ending);
  }
  if (status != NEAP_OK) return status;
  t->resident_before = session_resident_before(t->session);
  t->process.planning = session_planning_peak(t->session);
  if (t->resident_before > t->process.code + t->process.data)
    t->process.kernels = t->resident_before - t->process.code - t->process.data;
  TRY(add_graphs(t));
  t->source = neap_session_input(t->session, "source");
  t->inputs = neap_session_input(t->session, data_input_name(&t->data));
  t->labels = neap_session_input(t->session, "label");
  RETURN_IF(t->inputs == NULL || t->labels == NULL, NEAP_INTERNAL,
            "model '%s' has no inputs '%s' and 'label'", t->options->model, data_input_name(&t->data));
  return NEAP_OK;
}

/* What is there already gives way only where that is asked for. */
static neap_status check_places(const struct training *t) {
  const neap_train_options *o = t->options;
  int64_t step;
  if (o->resume == NULL && !o->replace) TRY(metrics_check_new(o->metrics));
  if (o->out == NULL || o->replace || (o->resume != NULL && folder_is_same(o->out, o->resume)))
    return NEAP_OK;
  TRY(checkpoint_find_step(o->out, &step));
  RETURN_IF(
      step > 0, NEAP_INVALID_ARGUMENT,
      "%s: holds the checkpoint of a run, of step %lld; go on with it (--resume), name another folder, or "
      "replace it (--force)",
      o->out, (long long)step);
  return NEAP_OK;
}

/* Before anything that takes long. */
static neap_status claim_places(struct training *t) {
  if (t->options->out != NULL) TRY(folder_hold(t->options->out, &t->region, &t->lock));
  t->state.command = t->options->command;
  return check_places(t);
}

/* Everything that a run holds besides the session's memory. */
static neap_status allocate(struct training *t) {
  const bool several = t->bucket_count > 1;
  t->order = malloc((size_t)t->data.train.count * sizeof *t->order);
  t->records =
      malloc((size_t)t->buckets[0].micro * sizeof *t->records); /* the shortest, of which there are most */
  t->batches = several ? malloc((size_t)t->epoch_steps * sizeof *t->batches) : NULL;
  RETURN_IF(t->order == NULL || t->records == NULL || (several && t->batches == NULL), NEAP_OUT_OF_MEMORY,
            "out of memory for the order of %lld records", (long long)t->data.train.count);
  return NEAP_OK;
}

/* Before anything is planned: a checkpoint of another run is refused at once. */
static neap_status read_state(struct training *t) {
  const char *resume = t->options->resume;
  if (resume == NULL) return NEAP_OK;
  TRY(checkpoint_read_state(resume, t->settings, &t->state));
  RETURN_IF(t->state.step > t->steps, NEAP_INVALID_ARGUMENT,
            "%s: is at step %lld already; this run ends at step %lld", resume, (long long)t->state.step,
            (long long)t->steps);
  RETURN_IF(t->state.epoch != t->state.step / t->epoch_steps, NEAP_BAD_FORMAT,
            "%s: step %lld is not in epoch %lld", resume, (long long)t->state.step,
            (long long)t->state.epoch + 1);
  return NEAP_OK;
}

static neap_status load_weights(struct training *t) {
  if (t->options->resume != NULL) return checkpoint_load_weights(t->options->resume, &t->state, t->session);
  return t->options->initial == NULL ? NEAP_OK : neap_session_load(t->session, t->options->initial);
}

/* ---- The run --------------------------------------------------------------------------------------------
 */

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
static neap_status train_step(struct training *t, double rate, neap_step_result *result, double *counted) {
  if (t->state.step % t->epoch_steps == 0 || t->steps_here == 0) order_epoch(t);
  int64_t number;
  const int bucket = bucket_of_step(t, &number);
  TRY(neap_session_select(t->session, graph_of(t, bucket)));
  TRY(count_all_labels(t, bucket, counted));
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
  }
  return NEAP_OK;
}

/* What the process took up to the end of the first step, if there is one, beyond the session's own bytes:
 * code, stacks, heaps; and what the system's count of resident pages may be behind, which it brings up to
 * date every 64 pages (proc(5), VmRSS). */
static void measure_overhead(struct training *t) {
  neap_memory memory;
  neap_session_memory(t->session, &memory);
  const uint64_t own = t->resident_before + memory.planned_peak,
                 behind = 64 * (uint64_t)sysconf(_SC_PAGESIZE);
  const uint64_t resident = memory_status_read().resident_bytes;
  t->overhead = resident > own ? resident - own + behind : behind;
}

static neap_status run_step(struct training *t, neap_train_progress *progress) {
  static const double share = 0.05; /* of the values of sparse parameters, that change places at once */
  neap_step_result result;
  const double begin = clock_seconds(), rate = learning_rate_at(&t->rate, t->state.step);
  double counted;
  if (t->state.step % t->epoch_steps == 0) {
    t->state.loss_sum = 0, t->state.correct = 0, t->state.images = 0;
    t->counted = t->correct_here = 0;
  }
  TRY(train_step(t, rate, &result, &counted));
  if (rewires(t->options) && rewiring_due(t->state.step + 1, t->steps, rewire_every(t->options)))
    TRY(neap_session_rewire(t->session, share, NULL));
  const double seconds = clock_seconds() - begin;
  if (t->steps_here >= UNTIMED_STEPS) t->seconds[(t->steps_here - UNTIMED_STEPS) % TIMED_STEPS] = seconds;
  t->steps_here++;
  t->state.step++;
  t->state.epoch = t->state.step / t->epoch_steps;
  t->state.loss_sum += result.loss;
  t->state.correct += result.correct;
  t->state.images += t->batch;
  progress->step = t->state.step;
  progress->epoch = (t->state.step - 1) / t->epoch_steps + 1;
  progress->loss = result.loss;
  progress->accuracy = counted > 0 ? (double)result.correct / counted : 0;
  t->counted += counted;
  t->correct_here += (double)result.correct;
  progress->learning_rate = rate;
  progress->seconds = seconds;
  progress->loss_scale = t->options->session.dynamic_loss_scale ? (double)session_loss_scale(t->session) : 0;
  progress->skipped += result.skipped;
  progress->images_per_second = (double)t->batch / seconds;
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
  TRY(neap_session_select(t->session, graph_of(t, bucket)));
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
static neap_status evaluate(struct training *t) {
  struct scores scores = {0};
  for (int k = 0; k < t->bucket_count; k++) TRY(evaluate_bucket(t, k, &scores));
  t->test_loss = scores.counted > 0 ? scores.loss / scores.counted : 0;
  t->state.test_accuracy = scores.counted > 0 ? (double)scores.correct / scores.counted : 0;
  return NEAP_OK;
}

/* Of the test text: what its tokens take, over its bytes. -1: there is no text, or no loss yet. */
static double bits_per_byte(const struct training *t) {
  const struct data_split *test = &t->data.test;
  if (test->bytes == 0 || t->test_loss < 0) return -1;
  return t->test_loss / log(2) * (double)test->tokens / (double)test->bytes;
}

/* What went wrong, and what there is to go on from. */
static neap_status fail_diverged(const struct training *t, const char *what) {
  char kept[300] = "";
  if (t->options->out != NULL && t->saved_step >= 0)
    snprintf(kept, sizeof kept, "; %.200s holds the checkpoint of step %lld", t->options->out,
             (long long)t->saved_step);
  return neap_fail(NEAP_DIVERGED,
                   "step %lld: %s%s; a learning rate (--lr) below %g or a warm-up (--warmup) may help",
                   (long long)t->state.step, what, kept, t->rate.base);
}

/* A step can have a finite loss and leave weights that are not: they may neither replace a checkpoint nor be
 * the end of a run that went well. */
static neap_status check_weights(const struct training *t) {
  bool finite;
  TRY(checkpoint_weights_are_finite(t->session, &finite));
  return finite ? NEAP_OK : fail_diverged(t, "the weights are not finite");
}

/* The metrics first: they may be ahead of the checkpoint, which cuts them on resuming, but never behind. */
static neap_status save(struct training *t) {
  if (t->saved_step == t->state.step) return NEAP_OK;
  TRY(check_weights(t));
  if (t->options->out == NULL) return NEAP_OK;
  TRY(metrics_sync(&t->metrics));
  TRY(checkpoint_save(t->options->out, t->settings, t->session, &t->state));
  t->saved_step = t->state.step;
  return NEAP_OK;
}

/* A failure that has nothing to do with the run's state does not cost what was trained. */
static neap_status end_with_checkpoint(struct training *t, neap_status failure) {
  struct ending ending;
  if (t->options->out == NULL) return failure;
  ending_keep(&ending, failure);
  const bool saved = check_weights(t) == NEAP_OK &&
                     checkpoint_save(t->options->out, t->settings, t->session, &t->state) == NEAP_OK;
  if (!saved) return ending_tell(&ending);
  return neap_fail(failure, "%s; %s holds a checkpoint of step %lld", ending.message, t->options->out,
                   (long long)t->state.step);
}

static neap_status report(struct training *t, neap_train_progress *progress) {
  neap_memory memory;
  if (t->options->progress == NULL) return NEAP_OK;
  neap_session_memory(t->session, &memory);
  progress->memory = &memory;
  if (t->options->progress(t->options->context, progress) == 0) return NEAP_OK;
  TRY(save(t));
  return neap_fail(NEAP_INTERRUPTED, "stopped on request after step %lld of %lld", (long long)t->state.step,
                   (long long)t->steps);
}

/* Does once before step 1 whatever comes later, so that what the process takes for it is seen in the first
 * step, and a folder that cannot be written is found before the work and not after. */
static neap_status warm_up(struct training *t) {
  char digest[65];
  neap_step_result unused;
  if (t->options->out != NULL)
    TRY(save(t));
  else
    TRY(neap_session_digest(t->session, digest));
  return t->options->no_evaluation ? NEAP_OK : neap_session_evaluate(t->session, &unused);
}

static neap_status run_steps(struct training *t, neap_train_result *result) {
  neap_train_progress progress = {.epoch = t->state.epoch + 1,
                                  .epochs = t->options->steps > 0 ? 0 : t->steps / t->epoch_steps,
                                  .steps = t->steps,
                                  .test_accuracy = -1,
                                  .test_loss = -1,
                                  .bits_per_byte = -1};
  TRY(report(t, &progress));
  TRY(warm_up(t));
  t->started = clock_seconds();
  while (t->state.step < t->steps) {
    TRY(run_step(t, &progress));
    const int64_t step = t->state.step, every = t->options->checkpoint_steps;
    const bool epoch_ends = step % t->epoch_steps == 0;
    progress.test_accuracy = progress.test_loss = progress.bits_per_byte = -1;
    if ((epoch_ends || step == t->steps) && !t->options->no_evaluation && isfinite(progress.loss)) {
      TRY(evaluate(t));
      progress.test_accuracy = t->state.test_accuracy;
      progress.test_loss = t->test_loss;
      progress.bits_per_byte = bits_per_byte(t);
    }
    const neap_status written = metrics_write(&t->metrics, &progress);
    if (!isfinite(progress.loss)) return fail_diverged(t, "the loss is not finite");
    if (written != NEAP_OK) return end_with_checkpoint(t, written);
    if (epoch_ends || step == t->steps || (every > 0 && step % every == 0)) TRY(save(t));
    progress.seconds_left =
        (clock_seconds() - t->started) / (double)t->steps_here * (double)(t->steps - step);
    const neap_status reported = report(t, &progress);
    if (t->steps_here == 1) {
      measure_overhead(t);
      TRY(check_process(t, result));
    }
    if (reported != NEAP_OK) return reported;
  }
  return NEAP_OK;
}

/* ---- The result -----------------------------------------------------------------------------------------
 */

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Sorts the times in place: called once, at the end. */
static double median_seconds(struct training *t) {
  const int64_t timed = t->steps_here > UNTIMED_STEPS ? t->steps_here - UNTIMED_STEPS : 0;
  const int64_t count = timed < TIMED_STEPS ? timed : TIMED_STEPS;
  if (count == 0) return 0;
  qsort(t->seconds, (size_t)count, sizeof *t->seconds, by_value);
  return (t->seconds[(count - 1) / 2] + t->seconds[count / 2]) / 2;
}

static neap_status fill_result(struct training *t, neap_train_result *result) {
  result->batch = t->batch;
  result->micro_batches = t->micro_batches;
  memcpy(result->combination, t->combination, sizeof result->combination);
  snprintf(result->precision, sizeof result->precision, "%s", dtype_rows[t->own.session.precision].name);
  result->test_accuracy = t->state.test_accuracy;
  result->test_loss = t->test_loss;
  result->bits_per_byte = bits_per_byte(t);
  result->steps = t->state.step;
  result->steps_here = t->steps_here;
  if (t->graph != NULL) result->parameters = neap_graph_parameters(t->graph);
  if (t->state.images > 0) {
    result->loss = t->state.loss_sum / (double)(t->state.images / t->batch);
    result->accuracy = t->data.length > 0 && t->counted > 0
                           ? t->correct_here / t->counted
                           : (double)t->state.correct / (double)(t->state.images * t->labels_each);
  }
  if (t->session == NULL) return NEAP_OK;
  result->seconds = t->started > 0 ? clock_seconds() - t->started : 0;
  result->step_seconds_median = median_seconds(t);
  neap_session_memory(t->session, &result->memory);
  TRY(neap_session_digest(t->session, result->weights_sha256));
  if (t->steps_here == 0) measure_overhead(t); /* nothing was left to do */
  result->process_overhead_bytes = t->overhead;
  const uint64_t peak = memory_status_read().peak_resident_bytes; /* after everything */
  result->rss_growth_bytes = peak > t->resident_before ? peak - t->resident_before : 0;
  result->process = t->process;
  result->process.peak = peak > t->process.planning ? peak : t->process.planning;
  return NEAP_OK;
}

static neap_status run(struct training *t, neap_train_result *result) {
  TRY(check_options(t->options));
  TRY(claim_places(t));
  t->process.code = memory_status_read().resident_bytes;
  TRY(open_data(t->options->model, t->options->data, &t->options->shape, t->threads, &t->data));
  t->process.data = memory_status_read().resident_bytes - t->process.code;
  TRY(build_model(t));
  TRY(make_settings(t));
  TRY(allocate(t));
  TRY(read_state(t));
  TRY(create_session(t, result));
  if (t->options->save_plan != NULL) TRY(neap_plan_write(session_plan(t->session), t->options->save_plan));
  TRY(load_weights(t));
  TRY(metrics_open(t->options->metrics, t->options->resume != NULL ? t->state.step : -1, &t->metrics));
  TRY(run_steps(t, result));
  return check_process(t, result);
}

static void release(struct training *t) {
  neap_session_free(t->session);
  neap_graph_free(t->graph);
  json_decref(t->settings);
  free(t->order);
  free(t->records);
  free(t->batches);
  data_close(&t->data);
  folder_release(&t->lock);
  region_free(&t->region);
}

neap_status neap_train(const neap_train_options *options, neap_train_result *result) {
  struct training t = {.own = *options, .saved_step = -1, .test_loss = -1, .state.test_accuracy = -1};
  t.options = &t.own;
  *result = (neap_train_result){.test_accuracy = -1, .test_loss = -1, .bits_per_byte = -1};
  t.threads = team_size(options->session.threads);
  struct ending ending; /* the first failure is the one that is told */
  ending_keep(&ending, run(&t, result));
  const neap_status filled = fill_result(&t, result), closed = metrics_close(&t.metrics);
  release(&t);
  TRY(ending_tell(&ending));
  return filled != NEAP_OK ? filled : closed;
}

/* ---- A checkpoint, without training ---------------------------------------------------------------------
 */

static neap_status run_evaluation(struct training *t, neap_train_result *unused, neap_evaluation *result) {
  const char *folder = t->options->resume;
  RETURN_IF(folder == NULL, NEAP_INVALID_ARGUMENT, "an evaluation needs a checkpoint: name its folder");
  TRY(check_options(t->options));
  TRY(open_data(t->options->model, t->options->data, &t->options->shape, t->threads, &t->data));
  TRY(build_model(t));
  TRY(allocate(t));
  TRY(checkpoint_read_state(folder, NULL, &t->state));
  const neap_status made = create_session(t, unused);
  result->smallest_budget = unused->smallest_budget;
  TRY(made);
  TRY(checkpoint_load_weights(folder, &t->state, t->session));
  TRY(evaluate(t));
  result->loss = t->test_loss;
  result->bits_per_byte = bits_per_byte(t);
  result->batch = t->batch;
  result->images = t->data.test.count;
  result->step = t->state.step;
  result->epoch = t->state.epoch;
  result->accuracy = t->state.test_accuracy;
  neap_session_memory(t->session, &result->memory);
  memcpy(result->weights_sha256, t->state.weights_sha256, sizeof result->weights_sha256);
  return NEAP_OK;
}

neap_status neap_evaluate(const neap_train_options *options, neap_evaluation *result) {
  struct training t = {.own = *options, .saved_step = -1, .test_loss = -1, .state.test_accuracy = -1};
  t.options = &t.own;
  neap_train_result unused = {0};
  *result = (neap_evaluation){0};
  t.threads = team_size(options->session.threads);
  struct ending ending;
  ending_keep(&ending, run_evaluation(&t, &unused, result));
  release(&t);
  return ending_tell(&ending);
}
