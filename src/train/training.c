/* Prepares a run up to its first step. */
#include "train/training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory_status.h"
#include "base/parallel.h"
#include "data/encoding.h"
#include "data/record_digest.h"
#include "data/statistics.h"
#include "fit/combination.h"
#include "fit/fit.h"
#include "grad/gradient.h"
#include "model/model.h"
#include "run/kernel_names.h"
#include "session/choose.h"
#include "settings/settings.h"
#include "train/adapter_folder.h"
#include "train/class_weights.h"
#include "train/model_data.h"
#include "train/side_values.h"
#include "train/training_ranks.h"
#include "weights/variables.h"

neap_status training_check(const neap_train_options *options) {
  RETURN_IF(options->model == NULL || (options->data == NULL && options->source == NULL),
            NEAP_INVALID_ARGUMENT, "train: a model and data are needed");
  TRY(settings_check_run(options));
  RETURN_IF(options->steps > 0 && options->epochs > 0, NEAP_INVALID_ARGUMENT,
            "train: got %lld steps and %lld epochs; give one of them", (long long)options->steps,
            (long long)options->epochs);
  RETURN_IF(options->resume != NULL && options->initial != NULL, NEAP_INVALID_ARGUMENT,
            "train: got weights to start from (%s) and a checkpoint to resume (%s); give one of them",
            options->initial, options->resume);
  RETURN_IF(options->session.lora > 0 && options->allow & NEAP_ALLOW_SPARSE, NEAP_UNSUPPORTED,
            "lora: adapters (`lora`) cannot be combined with sparse parameters (`allow` sparse): frozen "
            "weights stay dense");
  return check_session_options(&options->session);
}

/* Resolves a budget that is a share: of the need of the complete, dense batch in f32. */
static neap_status settle_budget(struct training *t) {
  neap_session_options session = t->own.session;
  session.collective = NULL;
  session.threads = t->threads;
  session.precision = NEAP_F32;
  session.sparse_density = 0;
  TRY(budget_share_to_bytes(t->graph, &session));
  t->own.session.budget = session.budget;
  t->own.session.budget_fraction = 0;
  return NEAP_OK;
}

/* Returns the combination with the least peak. */
static const neap_combination *least_of(const neap_combination *list, int count) {
  const neap_combination *least = list;
  for (int i = 1; i < count; i++)
    if (list[i].peak_bytes < least->peak_bytes) least = &list[i];
  return least;
}

/* Chooses techniques that fit, if that is left open. If none fits, takes the combination with the least
 * memory, which is then refused by its name. */
static neap_status choose_combination(struct training *t) {
  neap_combination list[NEAP_COMBINATIONS];
  neap_session_options session = t->own.session;
  int count;
  session.threads = t->threads;
  if (t->own.allow == 0) return NEAP_OK;
  RETURN_IF(training_ranks(t) > 1, NEAP_UNSUPPORTED,
            "`allow`: only chooses techniques for one process; for several, name them (`micro-batch`, "
            "`precision`, `sparse`)");
  const neap_prefer prefer = session.budget == NEAP_BUDGET_MIN ? NEAP_PREFER_MEMORY
                             : t->own.allow_by_time            ? NEAP_PREFER_TIME
                                                               : NEAP_PREFER_FIDELITY;
  TRY(combinations_until(prefer == NEAP_PREFER_FIDELITY, t->model, &t->shape, &session, t->own.allow, list,
                         &count));
  const int best = neap_best_combination(list, count, prefer);
  const neap_combination *taken = best >= 0 ? &list[best] : least_of(list, count);
  if (best < 0) snprintf(t->refused, sizeof t->refused, "%s", taken->name);
  t->own.session.precision = taken->precision;
  t->own.session.sparse_density = taken->sparse_density;
  t->own.session.states_8bit = taken->states_8bit;
  t->own.micro_batch = taken->micro_batch;
  return NEAP_OK;
}

/* Gives the micro-batch where none is asked for: that of the run that goes on, or a part for each rank. */
static neap_status usual_micro_batch(const struct training *t, int64_t *micro) {
  int64_t count = training_ranks(t);
  const char *resume = t->options->resume;
  if (resume != NULL) TRY(checkpoint_micro_batches(resume, &count));
  RETURN_IF(
      t->batch % count != 0, NEAP_INVALID_ARGUMENT,
      "batch %lld: does not divide into the %lld micro-batches of the run in %s; resume with the same batch",
      (long long)t->batch, (long long)count, resume != NULL ? resume : "");
  *micro = t->batch / count;
  return NEAP_OK;
}

/* Returns whether weight decay draws a trained parameter of the graph to another number than 0. */
static bool has_origins(const struct neap_graph *graph) {
  bool any = false;
  for (size_t i = 0; graph != NULL && i < graph->tensors.count; i++)
    any = any || (graph->tensors.data[i].origin != 0 && !graph->tensors.data[i].frozen);
  return any;
}

/* Lets weight decay draw all parameters to 0, if a run that began so is resumed. */
static void settle_origins(const struct training *t, struct neap_graph *graph) {
  for (size_t i = 0; t->old_decay && graph != NULL && i < graph->tensors.count; i++)
    graph->tensors.data[i].origin = 0;
}

/* Sets the micro-batch, which is the batch of the graph. */
static neap_status settle_micro_batch(struct training *t) {
  neap_session_options session = t->options->session;
  session.threads = t->threads;
  const int64_t ranks = training_ranks(t);
  const bool divided = !is_pipeline(&t->own.session) || t->options->micro_batch == 0;
  RETURN_IF(divided && t->batch % ranks != 0, NEAP_INVALID_ARGUMENT,
            "`batch` %lld: it does not divide among %lld processes; give a multiple of %lld",
            (long long)t->batch, (long long)ranks, (long long)ranks);
  t->micro = t->options->micro_batch;
  if (t->micro == 0) TRY(usual_micro_batch(t, &t->micro));
  if (t->options->micro_batch == NEAP_MICRO_BATCH_AUTO)
    TRY(neap_largest_micro_batch(t->model, &t->shape, &session, &t->micro));
  RETURN_IF(t->batch % t->micro != 0, NEAP_INVALID_ARGUMENT,
            "`micro-batch` %lld: it does not divide the batch of %lld; give a divisor", (long long)t->micro,
            (long long)t->batch);
  RETURN_IF(t->batch / t->micro % training_batch_ranks(t) != 0, NEAP_INVALID_ARGUMENT,
            "`micro-batch` %lld: a batch of %lld has %lld of them, which do not divide among %d %s; give "
            "another one",
            (long long)t->micro, (long long)t->batch, (long long)(t->batch / t->micro),
            (int)training_batch_ranks(t), is_pipeline(&t->own.session) ? "pipelines" : "processes");
  if (t->micro == t->batch) return NEAP_OK;
  neap_graph_free(t->graph);
  t->graph = NULL;
  t->shape.batch = t->micro;
  return neap_model_build(t->model, &t->shape, &t->graph);
}

bool training_augments(const struct training *t) {
  const neap_augment asked = t->options->augment;
  return asked == NEAP_AUGMENT_ON || (asked == NEAP_AUGMENT_USUAL && !t->data.source.augment_asked);
}

/* Finds the packing; a run from before conversations shared rows goes on without. */
static neap_status find_packing(const neap_train_options *o, neap_pack *pack) {
  bool has = true;
  *pack = o->pack;
  if (o->resume != NULL && o->pack == NEAP_PACK_AUTO) TRY(checkpoint_has_setting(o->resume, "pack", &has));
  if (!has) *pack = NEAP_PACK_OFF;
  return NEAP_OK;
}

/* Finds how the records of the run that is resumed were read; a run from before this was kept had the first
 * rules. */
static neap_status find_reading(struct training *t, struct data_choice *choice) {
  const char *resume = t->options->resume;
  if (resume == NULL) return NEAP_OK;
  struct encoding *before = region_alloc(&t->region, 1, sizeof *before);
  const char *path = region_format(&t->region, "%s/" CHECKPOINT_DATA, resume);
  RETURN_IF(before == NULL || path == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", resume);
  before->reading = READING_FIRST;
  choice->before = before;
  return file_exists(path) ? encoding_read(path, &t->region, before) : NEAP_OK;
}

neap_status training_open_data(struct training *t) {
  const neap_train_options *o = t->options;
  TRY(model_take(o->opened, o->model, &t->own_model, &t->model));
  struct data_choice choice = data_of_run(t->model, o, t->threads);
  TRY(find_packing(o, &choice.pack));
  TRY(find_reading(t, &choice));
  TRY(open_data(&choice, &t->data));
  if (o->data != NULL && (o->out != NULL || o->resume != NULL)) TRY(record_digests_take(&t->data.source));
  const char *of_chat = o->chat_template != NULL           ? "template"
                        : o->train_on_prompt               ? "train-on-prompt"
                        : o->long_records != NEAP_LONG_CUT ? "long"
                        : o->pack == NEAP_PACK_ON          ? "pack"
                                                           : NULL;
  RETURN_IF(of_chat != NULL && t->data.source.conversations == 0, NEAP_INVALID_ARGUMENT,
            "`%s` does nothing with the data of %s: it only applies to conversations, such as chat:FILE",
            of_chat, t->data.source.name);
  return NEAP_OK;
}

/* Divides the data into steps. */
static neap_status divide_data(struct training *t) {
  const neap_train_options *o = t->options;
  const neap_task of = t->data.source.kind;
  RETURN_IF(o->mixup > 0 && (t->shape.regression || of == NEAP_TASK_PIXELS || of == NEAP_TASK_TEXTS),
            NEAP_INVALID_ARGUMENT,
            "`mixup`: only mixes records of numbers with one class each; those of %s %s", t->data.source.name,
            t->shape.regression     ? "have values"
            : of == NEAP_TASK_TEXTS ? "are texts"
                                    : "have a class for each pixel");
  RETURN_IF(is_pipeline(&t->own.session) && t->shape.regression && !o->no_evaluation, NEAP_UNSUPPORTED,
            "`pipeline`: evaluations of values need predictions, which its ranks do not give; add `evaluate` "
            "off, or leave out `pipeline`");
  const struct division division = {.batch = t->batch,
                                    .micro = t->micro,
                                    .seed = o->session.seed,
                                    .shuffle = !o->no_shuffle,
                                    .augment = training_augments(t),
                                    .keep_last = o->keep_last,
                                    .mixup = o->mixup,
                                    .rank = training_batch_rank(t),
                                    .ranks = training_batch_ranks(t)};
  const neap_task kind = t->data.source.kind;
  RETURN_IF(o->augment == NEAP_AUGMENT_ON && (kind == NEAP_TASK_FEATURES || kind == NEAP_TASK_VECTORS ||
                                              kind == NEAP_TASK_PAIRS || kind == NEAP_TASK_TEXTS),
            NEAP_INVALID_ARGUMENT, "`augment` on: nothing in %s is changed at random; leave it out", o->data);
  TRY(loader_divide(&t->data, &division));
  t->epoch_steps = t->data.epoch_steps;
  RETURN_IF(t->epoch_steps == 0, NEAP_INVALID_ARGUMENT,
            "a batch of %lld is too large: %s only has %lld training records", (long long)t->batch, o->data,
            (long long)t->data.source.records[SPLIT_TRAIN]);
  struct field inputs[INPUT_LIMIT];
  int count;
  TRY(loader_list_inputs(&t->data, t->graph, t->own.session.byte_input.name != NULL, inputs, &count));
  return loader_prepare(&t->data, inputs, count);
}

/* Keeps frozen weights in memory if they do not come from the model's file. */
static neap_status settle_base(struct training *t) {
  const char *other = t->options->initial, *run = t->options->resume != NULL ? t->options->resume : other;
  neap_base_on_disk *where = &t->own.session.base_on_disk;
  struct base_weights base = {0};
  if (*where == NEAP_DISK_NEVER || run == NULL) return NEAP_OK;
  const char *state = region_format(&t->region, "%s/state.json", run);
  RETURN_IF_NULL(state);
  if (file_exists(state)) TRY(base_weights_read(run, &t->region, &base));
  if (base.given && base.path == NULL) return NEAP_OK;
  if (base.path != NULL) other = base.path;
  RETURN_IF(*where == NEAP_DISK_ALWAYS, NEAP_UNSUPPORTED,
            "base-on-disk always: the frozen weights come from %s, not from the model's file; with auto or "
            "never they are in memory",
            other != NULL ? other : run);
  *where = NEAP_DISK_NEVER;
  return NEAP_OK;
}

neap_status training_build(struct training *t) {
  neap_available available;
  TRY(settle_base(t));
  TRY(available_memory_settle(&t->own.session, &available));
  memory_watch_begin(&t->watch, &available);
  TRY(settle_shape(t->model, t->options->data, &t->options->shape, &t->data, &t->shape));
  if (t->options->mixup == 0) t->own.session.byte_input = statistics_byte_input(&t->data.source);
  t->own.session.mixed_labels = t->options->mixup > 0;
  TRY(neap_model_build(t->model, &t->shape, &t->graph));
  t->batch = t->shape.batch = neap_graph_batch(t->graph);
  TRY(settle_budget(t));
  t->own.session.class_weights = t->options->class_weights != NULL;
  if (t->options->class_weights != NULL)
    TRY(class_weights_make(t->options->class_weights, &t->data.source, t->shape.classes, &t->region,
                           &t->class_weights));
  TRY(choose_combination(t));
  TRY(settle_micro_batch(t));
  TRY(divide_data(t));
  TRY(training_prepare_parts(t));
  const int64_t epochs = t->options->epochs > 0 ? t->options->epochs : 1;
  t->steps = t->options->steps;
  RETURN_IF(t->steps == 0 && __builtin_mul_overflow(epochs, t->epoch_steps, &t->steps), NEAP_TOO_LARGE,
            "%lld epochs exceed 2^63 steps", (long long)epochs);
  return learning_rate_create(t->options, t->steps, t->epoch_steps, &t->rate);
}

static json_t *mean_of_data(const struct source *source) {
  const struct field *image = source_image(source);
  json_t *mean = json_array();
  for (int64_t c = 0; image != NULL && c < image->dims[0]; c++)
    if (json_array_append_new(mean, json_real(source->mean[c])) != 0) {
      json_decref(mean);
      return NULL;
    }
  return mean;
}

bool training_rewires(const neap_train_options *o) {
  return o->session.sparse_density != 0 && o->rewire_every != NEAP_REWIRE_OFF;
}

int64_t training_rewire_every(const neap_train_options *o) {
  static const int64_t usual = 100;
  return o->rewire_every != 0 ? o->rewire_every : usual;
}

/* The setting of a run whose cosine begins after its warm-up; runs from before this setting go on without
 * it. */
#define COSINE_AFTER_WARMUP "cosine_after_warmup"
/* Weight decay draws a parameter to what is 0 in its file; earlier runs drew it to 0 here. */
#define DECAY_BY_FILE "decay_by_file"

/* Returns the settings of the run, with all open ones decided. */
static neap_train_options settled_options(const struct training *t) {
  neap_train_options o = *t->options;
  o.shape = t->shape;
  o.shape.batch = t->batch;
  o.shape.length = loader_length(&t->data);
  o.data = t->data.source.name;
  o.model = model_kept_name(t->model); /* its digest tells which file it is, wherever it lies */
  o.session.threads = t->threads;
  if (o.session.sparse_density == 0) o.session.sparse_layers = NULL;
  o.pack = t->shape.packed ? NEAP_PACK_ON : NEAP_PACK_OFF;
  neap_train_options_resolve(&o);
  o.learning_rate = t->rate.base > 0 ? t->rate.base : NEAP_ZERO;
  o.step_factor = t->rate.drop_factor > 0 ? t->rate.drop_factor : NEAP_ZERO;
  return o;
}

static bool add_groups(json_t *settings, const neap_session_options *s) {
  bool ok = true;
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

/* Returns NULL if memory is out. */
static json_t *class_weights_json(const struct training *t) {
  json_t *list = json_array();
  for (int64_t c = 0; c < t->shape.classes; c++)
    if (json_array_append_new(list, json_real((double)t->class_weights[c])) != 0) {
      json_decref(list);
      return NULL;
    }
  return list;
}

/* Adds settings that follow from others and from the data. Features that are not used add nothing, so that
 * checkpoints from before they existed stay valid. */
static bool add_derived(json_t *settings, const struct training *t) {
  const neap_train_options *o = t->options;
  json_t *derived = json_pack(
      "{s:I, s:o, s:b, s:f, s:f}", "training_images", (json_int_t)t->data.source.records[SPLIT_TRAIN],
      "data_mean", mean_of_data(&t->data.source), "augment", training_augments(t), "warmup_steps",
      t->rate.warmup_steps, "drop_steps", t->rate.kind == NEAP_LR_STEP ? t->rate.drop_steps : 0.0);
  bool ok = derived != NULL && json_object_update(settings, derived) == 0;
  json_decref(derived);
  if (*model_digest(t->model) != '\0')
    ok = ok && json_object_set_new(settings, CHECKPOINT_MODEL, json_string(model_digest(t->model))) == 0;
  if (o->session.sparse_density != 0)
    ok = ok && json_object_set_new(settings, "rewire_every", json_integer(training_rewire_every(o))) == 0;
  if (t->data.micro_batches > 1)
    ok = ok && json_object_set_new(settings, "micro_batches", json_integer(t->data.micro_batches)) == 0;
  if (t->rate.kind == NEAP_LR_COSINE && t->rate.warmup_steps > 0)
    ok = ok && json_object_set_new(settings, COSINE_AFTER_WARMUP, json_true()) == 0;
  if (has_origins(t->graph)) ok = ok && json_object_set_new(settings, DECAY_BY_FILE, json_true()) == 0;
  if (t->class_weights != NULL)
    ok = ok && json_object_set_new(settings, "class_weights", class_weights_json(t)) == 0;
  if (learning_rate_depends_on_length(o) || training_rewires(o))
    ok = ok && json_object_set_new(settings, "steps", json_integer(t->steps)) == 0;
  return ok && add_groups(settings, &o->session);
}

/* Collects all that the bits of the weights depend on: not the budget, the planner or the folder of the data,
 * and the length only if the learning rate depends on it. */
neap_status training_settle(struct training *t) {
  const neap_train_options settled = settled_options(t);
  t->settings = json_object();
  RETURN_IF(t->settings == NULL, NEAP_OUT_OF_MEMORY, "out of memory for the settings");
  TRY(settings_add_json(t->settings, &settled));
  RETURN_IF(!add_derived(t->settings, t), NEAP_INVALID_ARGUMENT,
            "the settings cannot be saved: out of memory, or one is not UTF-8 or not finite");
  if (t->options->session.bits == NEAP_BITS_PORTABLE) json_object_del(t->settings, "threads");
  return NEAP_OK;
}

/* Ends the run if it has exceeded a budget for the process. */
neap_status training_check_process(const struct training *t, neap_train_result *result) {
  const uint64_t peak = memory_status_read().peak_resident_bytes - session_others_bytes(t->session),
                 planning = t->process.planning, most = peak > planning ? peak : planning,
                 whole = t->options->session.process_budget;
  if (whole == 0 || most <= whole) return NEAP_OK;
  result->memory.budget = whole;
  result->smallest_budget = most + PROCESS_GROWTH;
  return neap_fail(NEAP_OVER_BUDGET, "the process used %llu bytes %s, more than its budget of %llu",
                   (unsigned long long)most,
                   planning > peak ? "while it planned (a saved plan, `plan`, needs less)" : "in a step",
                   (unsigned long long)whole);
}

/* Returns the number of the session's graph for a bucket; that of the longest is the first. */
int training_graph(const struct training *t, int bucket) { return t->data.bucket_count - 1 - bucket; }

static neap_status add_graphs(struct training *t) {
  for (int k = t->data.bucket_count - 2; k >= 0; k--) {
    neap_model_options shape = t->shape;
    neap_graph *graph;
    int index;
    shape.batch = t->data.buckets[k].micro;
    shape.length = shape.source_length = t->data.buckets[k].length;
    TRY(neap_model_build(t->model, &shape, &graph));
    settle_origins(t, graph);
    const neap_status status = neap_session_add_graph(t->session, graph, &index);
    neap_graph_free(graph);
    if (status != NEAP_OK) return status;
  }
  return NEAP_OK;
}

int training_part_graph(const struct training *t, int bucket, int64_t records) {
  for (int i = 0; i < 2; i++)
    if (t->parts[i].records > 0 && t->parts[i].records == records) return t->parts[i].graph;
  return training_graph(t, bucket);
}

/* Adds graphs for the micro-batches of a short last step, which have one or two sizes. */
static neap_status add_short_graphs(struct training *t) {
  const int64_t last = t->epoch_steps - 1;
  int sizes = 0;
  for (int32_t part = 0; t->options->keep_last && part < loader_parts(&t->data, last); part++) {
    const int64_t records = loader_part_records(&t->data, last, part);
    neap_model_options shape = t->shape;
    neap_graph *graph;
    if (records == t->micro || (sizes > 0 && t->parts[sizes - 1].records == records)) continue;
    RETURN_IF(shards_all(&t->own.session) || is_pipeline(&t->own.session), NEAP_UNSUPPORTED,
              "%s: all micro-batches must have one size; the last step of an epoch has one of %lld records: "
              "leave it out (`drop-last` on)",
              is_pipeline(&t->own.session) ? "`pipeline`" : "`shard` all", (long long)records);
    shape.batch = records;
    TRY(neap_model_build(t->model, &shape, &graph));
    settle_origins(t, graph);
    const neap_status status = neap_session_add_graph(t->session, graph, &t->parts[sizes].graph);
    neap_graph_free(graph);
    RETURN_IF(status == NEAP_OVER_BUDGET, status,
              "the last step of an epoch, of %lld records, does not fit into the memory too; give more "
              "memory, or leave it out (`drop-last` on)",
              (long long)records);
    if (status != NEAP_OK) return status;
    t->parts[sizes++].records = records;
  }
  return NEAP_OK;
}

/* Fails as the session did, with what else the run could be. */
static neap_status fail_over_budget(struct training *t, neap_session_options session, neap_status status,
                                    neap_train_result *result) {
  struct ending ending;
  ending_keep(&ending, status);
  result->memory.budget = session.process_budget > 0 ? session.process_budget : session.budget;
  session.collective = NULL;
  session.shard = NEAP_SHARD_STATES;
  /* The answer stands without this part of it. A saved plan is for one batch only. */
  if (session.plan_file != NULL || training_ranks(t) > 1 ||
      neap_largest_batch(t->model, &t->shape, &session, &result->largest_batch) != NEAP_OK)
    result->largest_batch = -1;
  result->direct_fits = fit_with_direct_convolutions(t->graph, &session);
  if (t->refused[0] != '\0')
    return neap_fail(status, "no combination of the allowed techniques fits; %s needs the least memory: %s",
                     t->refused, ending.message);
  const bool pairs = t->data.source.kind == NEAP_TASK_PAIRS;
  if (t->data.source.longest != NULL)
    return neap_fail(status, "%s; the longest %s sets the memory (%s): `length` N %s longer ones%s",
                     ending.message,
                     pairs                                    ? "pair"
                     : t->data.source.kind == NEAP_TASK_TEXTS ? "text"
                                                              : "conversation",
                     t->data.source.longest, pairs ? "leaves" : "cuts", pairs ? " out" : "");
  return ending_tell(&ending);
}

/* Fails if states of 8 bits are asked for and no state is in blocks. */
static neap_status check_states_8bit(const struct training *t) {
  int32_t blocks, trained;
  if (!t->options->session.states_8bit || t->options->resume != NULL) return NEAP_OK;
  session_count_8bit(t->session, &blocks, &trained);
  RETURN_IF(
      blocks == 0, NEAP_INVALID_ARGUMENT,
      "`states` 8bit does nothing here: none of the %d trained tensors is large enough (4096 numbers, a "
      "multiple of 256) and neither an embedding, sparse nor listed in `states-f32`; leave it out",
      (int)trained);
  return NEAP_OK;
}

neap_status training_open_session(struct training *t, neap_train_result *result) {
  neap_session_options session = t->options->session;
  session.threads = t->threads;
  session.micro_batches = t->data.micro_batches;
  const neap_status status = neap_session_create(t->graph, &session, &result->smallest_budget, &t->session);
  if (status == NEAP_OVER_BUDGET) return fail_over_budget(t, session, status, result);
  if (status != NEAP_OK) return status;
  TRY(check_states_8bit(t));
  t->resident_before = session_resident_before(t->session);
  t->process.planning = session_planning_peak(t->session);
  if (t->resident_before > t->process.code + t->process.data)
    t->process.kernels = t->resident_before - t->process.code - t->process.data;
  TRY(add_graphs(t));
  TRY(add_short_graphs(t));
  loader_attach(&t->data, t->session);
  if (t->class_weights != NULL)
    memcpy(neap_session_input(t->session, "class_weights"), t->class_weights,
           (size_t)t->shape.classes * sizeof *t->class_weights);
  return NEAP_OK;
}

/* Fails if a file or checkpoint exists already, unless it is to be replaced. */
static neap_status check_places(const struct training *t) {
  const neap_train_options *o = t->options;
  bool same = false;
  int64_t step;
  if (o->resume == NULL && !o->replace) TRY(metrics_check_new(o->metrics));
  if (o->out != NULL && o->resume != NULL) TRY(file_is_same(o->out, o->resume, &same));
  if (o->out == NULL || o->replace || same) return NEAP_OK;
  TRY(checkpoint_find_step(o->out, &step));
  RETURN_IF(step > 0, NEAP_INVALID_ARGUMENT,
            "%s: holds the checkpoint of a run, at step %lld; go on with it (`resume`), name another folder, "
            "or replace it (`force`)",
            o->out, (long long)step);
  return NEAP_OK;
}

/* Holds the folder, before anything that takes long. */
neap_status training_claim(struct training *t) {
  if (t->options->out != NULL) TRY(folder_hold(t->options->out, &t->region, &t->lock));
  t->state.command = t->options->command;
  t->state.keep_best = t->options->keep_best;
  return check_places(t);
}

/* Reads the state before anything is planned, so that a checkpoint of another run is refused at once. */
neap_status training_read_state(struct training *t) {
  const char *resume = t->options->resume;
  const struct source *source = &t->data.source;
  if (resume == NULL)
    return checkpoint_check_data("", source->name, source->digests, source->records, &t->state);
  TRY(checkpoint_check_model(resume, t->model));
  if (json_object_get(t->settings, COSINE_AFTER_WARMUP) != NULL) {
    bool after;
    TRY(checkpoint_has_setting(resume, COSINE_AFTER_WARMUP, &after));
    t->rate.old_cosine = !after;
    if (!after) json_object_del(t->settings, COSINE_AFTER_WARMUP);
  }
  if (json_object_get(t->settings, DECAY_BY_FILE) != NULL) {
    bool by_file;
    TRY(checkpoint_has_setting(resume, DECAY_BY_FILE, &by_file));
    if (!by_file) json_object_del(t->settings, DECAY_BY_FILE);
    t->old_decay = !by_file;
    settle_origins(t, t->graph);
  }
  TRY(checkpoint_read_state(resume, t->settings, &t->state));
  TRY(checkpoint_check_data(resume, t->options->data != NULL ? t->options->data : source->name,
                            source->digests, source->records, &t->state));
  RETURN_IF(t->state.step > t->steps, NEAP_INVALID_ARGUMENT,
            "%s: is already at step %lld; this run ends at step %lld", resume, (long long)t->state.step,
            (long long)t->steps);
  RETURN_IF(t->state.epoch != t->state.step / t->epoch_steps, NEAP_BAD_FORMAT,
            "%s: step %lld is not in epoch %lld", resume, (long long)t->state.step,
            (long long)t->state.epoch + 1);
  return NEAP_OK;
}

static bool has(const json_t *names, const json_t *name) {
  const json_t *one;
  size_t i;
  json_array_foreach(names, i, one) if (json_equal(one, name)) return true;
  return false;
}

/* Returns the first of `names` that `others` does not have; NULL: it has all. */
static const char *first_missing(const json_t *names, const json_t *others) {
  const json_t *name;
  size_t i;
  json_array_foreach(names, i, name) if (!has(others, name)) return json_string_value(name);
  return NULL;
}

static neap_status add_missing(json_t *names, json_t *others) {
  json_t *other;
  size_t i;
  json_array_foreach(others, i, other)
      RETURN_IF(!has(names, other) && json_array_append(names, other) != 0, NEAP_OUT_OF_MEMORY,
                "out of memory for the names of kernels");
  return NEAP_OK;
}

/* Compares kernels, as a checkpoint may come from another machine, or from before an update. Later
 * checkpoints keep its names: a run keeps the names of all kernels that computed its steps. */
static neap_status compare_kernels(struct training *t) {
  json_t *before = NULL;
  TRY(checkpoint_read_kernels(t->options->resume, &before));
  if (before == NULL) return NEAP_OK;
  const char *was = first_missing(before, t->kernels), *is = first_missing(t->kernels, before);
  const bool other = (was != NULL || is != NULL) && t->state.step < t->steps;
  if (other)
    t->other_kernels = was == NULL  ? region_format(&t->region, "%s is new", is)
                       : is == NULL ? region_format(&t->region, "%s is no longer used", was)
                                    : region_format(&t->region, "%s before, %s now", was, is);
  const neap_status status = add_missing(t->kernels, before);
  json_decref(before);
  RETURN_IF(other && t->other_kernels == NULL, NEAP_OUT_OF_MEMORY, "out of memory for the names of kernels");
  return status;
}

static bool adapts(const struct training *t) {
  return t->options->session.lora > 0 || graph_has_adapters(t->graph);
}

/* Returns true if the loaded files have all frozen weights: then checkpoints leave them out. */
static bool has_all_frozen(const struct training *t) {
  for (int32_t i = 0; i < t->initialisation.missing_count; i++)
    if (!session_has_adapter(t->session, t->initialisation.missing[i])) return false;
  return t->initialisation.reshaped_count == 0;
}

/* Keeps the base; its digest is only for checkpoints. */
static neap_status keep_base(struct training *t, const char *path) {
  if (!adapts(t) || t->base.given) return NEAP_OK;
  if (path == NULL ? !neap_model_is_file(t->model) : !has_all_frozen(t)) return NEAP_OK;
  session_save_trained(t->session);
  t->base.given = true;
  if (t->options->out == NULL) return NEAP_OK;
  return path == NULL ? base_weights_describe_model(t->model, &t->base)
                      : base_weights_describe(path, t->options->initial_map, &t->region, &t->base);
}

/* Loads the first weights. The folder of a run means its weights and, if these are adapters, also the weights
 * that they adapt. */
static neap_status initialise(struct training *t) {
  const char *path = t->options->initial, *of_run = region_format(&t->region, "%s/state.json", path);
  RETURN_IF_NULL(of_run);
  if (file_exists(of_run)) {
    TRY(base_weights_read(path, &t->region, &t->base));
    RETURN_IF(t->base.given && !adapts(t), NEAP_INVALID_ARGUMENT,
              "init %s: holds adapters or a side net, for a run with the same 'lora' or 'side'; this run has "
              "neither",
              path);
    TRY(base_weights_load(&t->base, path, t->model, &t->shape, t->session));
    TRY(checkpoint_find_weights(path, false, &t->region, &path));
  }
  TRY(neap_session_initialise(t->session, path, t->options->initial_map, &t->initialisation));
  TRY(keep_base(t, path));
  return session_need_finite(t->session, path);
}

neap_status training_load_base(struct training *t) {
  const char *folder = t->options->resume;
  TRY(base_weights_read(folder, &t->region, &t->base));
  return base_weights_load(&t->base, folder, t->model, &t->shape, t->session);
}

/* Gives adapters or a side net the first values that were asked for. */
static neap_status begin_adapters(struct training *t) {
  const char *side = t->options->side_initial,
             *folder = t->options->lora_initial != NULL ? t->options->lora_initial : side;
  if (folder == NULL) return NEAP_OK;
  if (folder == side && strcmp(side, "base") == 0) return side_values_take(t->session, t->shape.side);
  return adapter_folder_read(folder, &t->options->session, t->shape.side, t->session);
}

static neap_status training_load_checkpoint(struct training *t) {
  TRY(training_load_base(t));
  return checkpoint_load_weights(t->options->resume, &t->state, t->session);
}

neap_status training_load(struct training *t) {
  TRY(session_kernel_names(t->session, &t->kernels));
  t->state.kernels = t->kernels;
  t->state.base = &t->base;
  if (t->options->resume != NULL) {
    TRY(compare_kernels(t));
    return training_load_checkpoint(t);
  }
  TRY(neap_model_load(t->model, &t->shape, t->session));
  TRY(model_new_layers(t->model, &t->shape, &t->region, &t->new_layers));
  TRY(t->options->initial != NULL ? initialise(t) : keep_base(t, NULL));
  return begin_adapters(t);
}

void training_release(struct training *t) {
  confusion_free(&t->confusion);
  neap_session_free(t->session);
  neap_graph_free(t->graph);
  json_decref(t->settings);
  json_decref(t->kernels);
  loader_close(&t->data);
  neap_model_close(t->own_model);
  folder_release(&t->lock);
  region_free(&t->region);
}
