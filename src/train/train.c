#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory_status.h"
#include "base/parallel.h"
#include "base/stop.h"
#include "fit/combination.h"
#include "run/pipeline_prepare.h"
#include "session/drop_step.h"
#include "train/batches.h"
#include "train/epochs.h"
#include "train/kept_checkpoints.h"
#include "train/model_data.h"
#include "train/references.h"
#include "train/rewiring.h"
#include "train/run_digest.h"
#include "train/training_ranks.h"
#include "weights/variables.h"

/* ---- The run --------------------------------------------------------------------------------------------
 */

/* Measures the memory of the process up to the end of the first step, if there is one, beyond the session's
 * own bytes: code, stacks, heaps; and the possible lag of the system's count of resident pages, which is
 * updated every 64 pages (proc(5), VmRSS). */
static void measure_overhead(struct training *t) {
  neap_memory memory;
  neap_session_memory(t->session, &memory);
  const uint64_t own = t->resident_before + memory.planned_peak + session_others_bytes(t->session),
                 behind = 64 * (uint64_t)sysconf(_SC_PAGESIZE);
  const uint64_t resident = memory_status_read().resident_bytes;
  t->overhead = resident > own ? resident - own + behind : behind;
}

/* Subtracts the bytes moved and the time waited so far, or adds them. */
static void count_disk(struct training *t, int sign) {
  neap_memory memory = {0};
  session_disk_use(t->session, &memory);
  t->disk_bytes += sign * (double)memory.disk_read;
  t->disk_written += sign * (double)memory.disk_written;
  t->disk_waited += sign * memory.disk_waited;
}

/* Returns the labels of the epoch so far that count. */
static double epoch_labels(const struct training *t) {
  return t->state.labels >= 0 ? t->state.labels : (double)(t->state.images * loader_labels_each(&t->data, 0));
}

/* Returns the accuracy of the epoch so far; -1: labels are values. */
static double epoch_accuracy(const struct training *t) {
  if (loader_has_values(&t->data) || t->data.source.preferences) return -1;
  const double labels = loader_length(&t->data) > 0
                            ? epoch_labels(t)
                            : (double)(t->state.images * loader_labels_each(&t->data, 0));
  return labels > 0 ? (double)t->state.correct / labels : 0;
}

/* Returns the mean loss of the epoch so far. */
static double epoch_loss(const struct training *t) {
  return t->state.loss_sum / ((double)t->state.images / (double)t->batch);
}

/* Counts a step that ran over `records` records, with `counted` labels that count. */
static void count_step(struct training *t, const neap_step_result *result, int64_t records, double counted,
                       double seconds) {
  if (t->steps_here >= UNTIMED_STEPS) t->seconds[(t->steps_here - UNTIMED_STEPS) % TIMED_STEPS] = seconds;
  t->steps_here++;
  t->state.step++;
  t->state.epoch = t->state.step / t->epoch_steps;
  const int64_t taken = records < t->batch && t->options->keep_last ? records : t->batch;
  t->state.loss_sum += result->loss * ((double)taken / (double)t->batch);
  t->state.correct += result->correct;
  t->state.labels = epoch_labels(t) + counted;
  t->state.images += taken;
}

static neap_status run_step(struct training *t, neap_train_progress *progress) {
  static const double share = 0.05; /* of the values of sparse parameters, that change places at once */
  neap_step_result result;
  const double begin = clock_seconds(), rate = learning_rate_at(&t->rate, t->state.step);
  double counted;
  int64_t records;
  session_may_tear(t->session, t->options->out == NULL || t->saved_step == t->state.step);
  count_disk(t, -1);
  TRY(batches_step(t, rate, &result, &records, &counted));
  count_disk(t, 1);
  if (t->state.step % t->epoch_steps == 0) {
    t->state.loss_sum = 0, t->state.correct = 0, t->state.images = 0, t->state.labels = 0;
  }
  if (training_rewires(t->options) &&
      rewiring_due(t->state.step + 1, t->steps, training_rewire_every(t->options)))
    TRY(neap_session_rewire(t->session, share, NULL));
  const double seconds = clock_seconds() - begin;
  count_step(t, &result, records, counted, seconds);
  progress->step = t->state.step;
  progress->epoch = (t->state.step - 1) / t->epoch_steps + 1;
  progress->loss = result.loss;
  progress->accuracy = loader_has_values(&t->data) || t->data.source.preferences ? -1
                       : counted > 0 ? (double)result.correct / counted
                                     : 0;
  progress->epoch_loss = epoch_loss(t);
  progress->epoch_accuracy = epoch_accuracy(t);
  progress->learning_rate = rate;
  progress->gradient_norm = t->options->session.gradient_norm ? result.gradient_norm : -1;
  progress->seconds = seconds;
  progress->loss_scale = t->options->session.dynamic_loss_scale ? (double)session_loss_scale(t->session) : 0;
  progress->skipped += result.skipped;
  progress->uncounted = !loader_has_values(&t->data) && batches_are_whole(t) && result.counted >= 0
                            ? records - result.counted
                            : 0;
  progress->images_per_second = (double)records / seconds;
  return NEAP_OK;
}

/* Fails with the problem and the checkpoint from which the run can go on. */
static neap_status fail_diverged(const struct training *t, const char *what) {
  char kept[300] = "";
  if (t->options->out != NULL && t->saved_step >= 0)
    snprintf(kept, sizeof kept, "; %.200s holds the checkpoint of step %lld", t->options->out,
             (long long)t->saved_step);
  return neap_fail(NEAP_DIVERGED,
                   "step %lld: %s%s; a learning rate (`lr`) below %g or a warm-up (`warmup`) may help",
                   (long long)t->state.step, what, kept, t->rate.base);
}

/* Checks the weights. A step with a finite loss can leave weights that are not finite: they must neither
 * replace a checkpoint nor end a run successfully. */
static neap_status check_weights(const struct training *t) {
  bool finite;
  TRY(checkpoint_weights_are_finite(t->session, &finite));
  return finite ? NEAP_OK : fail_diverged(t, "the weights are not finite");
}

/* Keeps the last checkpoint, and its weights at the end of an epoch; a new run first removes those of
 * others. */
static neap_status keep_checkpoint(struct training *t) {
  const neap_train_options *o = t->options;
  if (t->state.step == 0) TRY(epochs_forget(o->out));
  if (t->state.step == 0) TRY(kept_checkpoints_forget(o->out));
  if (o->keep_checkpoints > 0) TRY(kept_checkpoints_add(o->out, &t->state, o->keep_checkpoints));
  if (o->keep_epochs == 0 || t->state.step == 0 || t->state.step % t->epoch_steps != 0) return NEAP_OK;
  return epochs_keep(o->out, t->state.weights, t->state.epoch, o->keep_epochs, t->session);
}

/* Saves a checkpoint, after the metrics: these may be ahead of it, and are then cut on resuming, but never
 * behind. */
static neap_status save(struct training *t) {
  if (t->saved_step == t->state.step || session_is_torn(t->session)) return NEAP_OK;
  TRY(check_weights(t));
  if (!t->saves) return NEAP_OK;
  if (t->options->out != NULL) TRY(json_lines_sync(&t->metrics));
  if (t->options->out != NULL) TRY(json_lines_sync(&t->digests));
  TRY(checkpoint_save(t->options->out, t->settings, t->session, &t->state));
  t->saved_step = t->state.step;
  return t->options->out != NULL ? keep_checkpoint(t) : NEAP_OK;
}

/* Saves a checkpoint after a failure that does not affect the run's state, so that no training is lost. */
static neap_status end_with_checkpoint(struct training *t, neap_status failure) {
  struct ending ending;
  if (t->options->out == NULL || training_ranks(t) > 1)
    return failure; /* the others may not be where this one is */
  ending_keep(&ending, failure);
  const bool saved = check_weights(t) == NEAP_OK &&
                     checkpoint_save(t->options->out, t->settings, t->session, &t->state) == NEAP_OK;
  if (!saved) return ending_tell(&ending);
  return neap_fail(failure, "%s; %s holds a checkpoint of step %lld", ending.message, t->options->out,
                   (long long)t->state.step);
}

/* Ends the run with a checkpoint of the last complete step. */
static neap_status end_on_request(struct training *t, const char *where) {
  TRY(save(t));
  return neap_fail(NEAP_INTERRUPTED, "stopped on request %s step %lld of %lld", where,
                   (long long)t->state.step, (long long)t->steps);
}

static neap_status report(struct training *t, neap_train_progress *progress) {
  neap_memory memory;
  enum ending_reason reason;
  bool stop = stop_is_requested();
  if (t->options->progress != NULL) {
    neap_session_memory(t->session, &memory);
    progress->memory = &memory;
    progress->other_kernels = t->other_kernels;
    progress->stages = session_stages(t->session);
    progress->marked_file = t->data.source.marked_file;
    progress->longest = t->data.source.longest;
    progress->understood = t->data.source.understood.rows.data;
    progress->understood_count = (int64_t)t->data.source.understood.rows.count;
    progress->new_layers = t->new_layers;
    progress->skipped_records = t->data.source.skipped;
    progress->cut_records = t->data.source.cut;
    progress->conversations = t->data.source.conversations;
    progress->rows = t->shape.packed ? t->data.source.records[SPLIT_TRAIN] : 0;
    progress->initialisation = t->options->initial != NULL ? &t->initialisation : NULL;
    progress->frozen = session_frozen(t->session);
    progress->unstored = session_unstored(t->session, &progress->unstored_count);
    stop = t->options->progress(t->options->context, progress) != 0 || stop;
  }
  TRY(training_ending(t, stop ? STOP_ASKED : GOES_ON, &reason));
  return reason == STOP_ASKED ? end_on_request(t, "after") : NEAP_OK;
}

/* Ends the run of all processes if one is short of memory. */
static neap_status watch_memory(struct training *t) {
  struct ending ending;
  enum ending_reason reason;
  ending_keep(&ending, memory_watch_check(&t->watch));
  TRY(training_ending(t, ending.status != NEAP_OK ? MEMORY_SHORT : GOES_ON, &reason));
  if (reason == GOES_ON) return NEAP_OK;
  if (training_ranks(t) == 1) return end_with_checkpoint(t, ending_tell(&ending));
  TRY(save(t));
  return ending.status != NEAP_OK ? ending_tell(&ending)
                                  : neap_fail(NEAP_OUT_OF_MEMORY, "another process is short of memory");
}

/* Compares digests of this step with those that the run recorded. */
static void compare_digests(struct replay *replay, const json_t *recorded, const json_t *made) {
  neap_replay_result *result = replay->result;
  const int32_t count = digests_compare(recorded, made, result->variables, sizeof result->variables);
  result->compared++;
  if (count == 0) return;
  result->differs = json_integer_value(json_object_get(made, "step"));
  result->differing = count;
}

/* Records the digests of this step if it is due, and compares them if the run that is replayed has them. */
static neap_status note_digests(struct training *t) {
  const neap_train_options *o = t->options;
  const int64_t step = t->state.step, every = o->digest_steps > 0 ? o->digest_steps : DIGESTS_EVERY;
  const bool due =
      o->session.bits == NEAP_BITS_PORTABLE && t->saves && (step % every == 0 || step == t->steps);
  char key[24];
  snprintf(key, sizeof key, "%lld", (long long)step);
  const json_t *recorded = t->replay != NULL ? json_object_get(t->replay->recorded, key) : NULL;
  json_t *line;
  if (!due && recorded == NULL) return NEAP_OK;
  TRY(digests_make(t->session, step, &line));
  if (recorded != NULL) compare_digests(t->replay, recorded, line);
  return json_lines_write(&t->digests, line);
}

static bool replay_has_ended(const struct training *t) {
  return t->replay != NULL && (t->state.step >= t->replay->to || t->replay->result->differs >= 0);
}

/* Does once, before step 1, all that comes later. So the first step shows its memory, and a folder that
 * cannot be written is found before the work. */
static neap_status warm_up(struct training *t) {
  char digest[65];
  neap_step_result unused;
  if (t->options->out != NULL) {
    TRY(checkpoint_keep_tokenizer(t->options->out,
                                  t->data.source.of_model ? NULL : t->data.source.tokenizer));
    TRY(checkpoint_keep_data(t->options->out, &t->data.source));
    TRY(references_keep(t));
  }
  if (t->saves) {
    TRY(save(t));
  } else {
    TRY(neap_session_digest(t->session, digest));
  }
  return t->options->no_evaluation ? NEAP_OK : neap_session_evaluate(t->session, &unused);
}

/* Appends the share of the trained tensors whose states are in blocks of 8 bits. */
static void tell_states_8bit(struct training *t) {
  int32_t blocks, trained;
  const size_t length = strlen(t->combination);
  if (!t->own.session.states_8bit || t->session == NULL) return;
  session_count_8bit(t->session, &blocks, &trained);
  if (blocks < trained)
    snprintf(t->combination + length, sizeof t->combination - length,
             " (states of %d of %d tensors in 8 bits)", (int)blocks, (int)trained);
}

static void fill_techniques(struct training *t, neap_train_result *result) {
  neap_combination taken = {.micro_batch = t->micro < t->batch ? t->micro : 0,
                            .precision = t->own.session.precision,
                            .states_8bit = t->own.session.states_8bit,
                            .sparse_density = t->own.session.sparse_density};
  combination_name(&taken);
  memcpy(result->combination, taken.name, sizeof result->combination);
  snprintf(t->combination, sizeof t->combination, "%s", taken.name);
  tell_states_8bit(t);
  result->density = taken.sparse_density > 0 ? taken.sparse_density : 1;
  snprintf(result->precision, sizeof result->precision, "%s", dtype_rows[taken.precision].name);
}

/* Returns true if labels are values or tokens, for which accuracy does not tell the best weights. */
static bool best_by_loss(const struct training *t) {
  const neap_task kind = t->data.source.kind;
  return loader_has_values(&t->data) || kind == NEAP_TASK_TOKENS || kind == NEAP_TASK_MASKED ||
         kind == NEAP_TASK_PAIRS;
}

static void compare_to_best(struct training *t) {
  struct best *best = &t->state.best;
  const bool by_loss = best_by_loss(t);
  const double value = by_loss ? t->test_loss : t->state.test_accuracy;
  const bool better = best->step == 0 || (by_loss ? value < best->value : value > best->value);
  if (isfinite(value) && better)
    *best = (struct best){.step = t->state.step, .epoch = t->state.epoch, .by_loss = by_loss, .value = value};
}

/* Returns true if the last epochs brought no better evaluation. */
static bool is_out_of_patience(const struct training *t) {
  const struct best *best = &t->state.best;
  return t->options->patience > 0 && best->step > 0 && t->state.epoch - best->epoch >= t->options->patience;
}

static neap_status evaluate(struct training *t, neap_train_progress *progress) {
  progress->test_accuracy = progress->test_loss = progress->test_mae = progress->bits_per_byte = -1;
  const bool ends = t->state.step % t->epoch_steps == 0 || t->state.step == t->steps;
  if (!ends || t->options->no_evaluation || !isfinite(progress->loss)) return NEAP_OK;
  TRY(batches_evaluate(t));
  compare_to_best(t);
  progress->test_accuracy = t->state.test_accuracy;
  progress->test_loss = t->test_loss;
  progress->test_mae = t->test_mae;
  progress->test_rmse = t->test_rmse;
  progress->test_r2 = t->test_r2;
  progress->bits_per_byte = batches_bits_per_byte(t);
  return NEAP_OK;
}

static neap_status write_progress(struct training *t, const neap_train_progress *progress) {
  TRY(metrics_write(&t->metrics, progress));
  return event_file_write(&t->events, progress);
}

static neap_train_progress progress_before(const struct training *t) {
  return (neap_train_progress){.records = task_rows[t->data.source.kind].records,
                               .task = t->data.source.kind,
                               .augmented = training_augments(t),
                               .epoch = t->state.epoch + 1,
                               .epochs = t->options->steps > 0 ? 0 : t->steps / t->epoch_steps,
                               .steps = t->steps,
                               .steps_before = t->state.step,
                               .test_accuracy = -1,
                               .test_loss = -1,
                               .test_mae = -1,
                               .bits_per_byte = -1};
}

/* Returns the bytes that a step writes to the file of variables on disk. */
static double disk_step_written(const struct training *t) {
  neap_memory memory;
  neap_session_memory(t->session, &memory);
  return (double)memory.disk_step_written;
}

/* Fails if one step writes more to the disk than the run may. */
static neap_status check_disk_writes(const struct training *t) {
  const double step = disk_step_written(t), most = (double)t->options->disk_writes;
  RETURN_IF(most > 0 && step > most, NEAP_INVALID_ARGUMENT,
            "disk-writes: a step writes %.0f bytes to %s, and the run may write %.0f; allow more, or give a "
            "larger budget, with which less lies on disk",
            step, t->options->session.disk, most);
  return NEAP_OK;
}

/* Ends the run, with a checkpoint, before it writes more to the disk than it may. */
static neap_status end_by_disk_writes(struct training *t) {
  const double most = (double)t->options->disk_writes;
  if (most <= 0 || t->disk_written + disk_step_written(t) <= most) return NEAP_OK;
  TRY(save(t));
  return neap_fail(
      NEAP_LIMIT_REACHED,
      "disk-writes: %lld steps wrote %.0f of %.0f bytes, and another would write more; go on from "
      "the checkpoint of step %lld (`resume`)",
      (long long)t->steps_here, t->disk_written, most, (long long)t->state.step);
}

static neap_status run_steps(struct training *t, neap_train_result *result) {
  neap_train_progress progress = progress_before(t);
  fill_techniques(t, result);
  progress.combination = t->combination;
  TRY(check_disk_writes(t));
  TRY(report(t, &progress));
  TRY(warm_up(t));
  if (t->state.step == 0) TRY(note_digests(t));
  t->started = clock_seconds();
  while (t->state.step < t->steps && !is_out_of_patience(t) && !replay_has_ended(t)) {
    TRY(end_by_disk_writes(t));
    const neap_status stepped = run_step(t, &progress);
    if (stepped == NEAP_INTERRUPTED) return end_on_request(t, "in the step that follows");
    TRY(stepped);
    const int64_t step = t->state.step, every = t->options->checkpoint_steps;
    const neap_status evaluated = evaluate(t, &progress);
    if (evaluated != NEAP_INTERRUPTED) TRY(evaluated);
    const neap_status written = write_progress(t, &progress);
    if (evaluated == NEAP_INTERRUPTED) {
      TRY(written);
      return end_on_request(t, "in the evaluation after");
    }
    if (!isfinite(progress.loss)) return fail_diverged(t, "the loss is not finite");
    TRY(note_digests(t));
    if (written != NEAP_OK) return end_with_checkpoint(t, written);
    if (step % t->epoch_steps == 0 || step == t->steps || (every > 0 && step % every == 0)) TRY(save(t));
    progress.seconds_left =
        (clock_seconds() - t->started) / (double)t->steps_here * (double)(t->steps - step);
    const neap_status reported = report(t, &progress);
    if (t->steps_here == 1) {
      measure_overhead(t);
      TRY(training_share_status(t, training_check_process(t, result)));
    }
    if (reported != NEAP_OK) return reported;
    TRY(watch_memory(t));
  }
  return NEAP_OK;
}

/* ---- The result -----------------------------------------------------------------------------------------
 */

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Returns the median; sorts the times in place, so it is called once, at the end. */
static double median_seconds(struct training *t) {
  const int64_t timed = t->steps_here > UNTIMED_STEPS ? t->steps_here - UNTIMED_STEPS : 0;
  const int64_t count = timed < TIMED_STEPS ? timed : TIMED_STEPS;
  if (count == 0) return 0;
  qsort(t->seconds, (size_t)count, sizeof *t->seconds, by_value);
  return (t->seconds[(count - 1) / 2] + t->seconds[count / 2]) / 2;
}

/* Fills the memory of the process, at the end of a run. */
static void fill_process(const struct training *t, neap_train_result *result) {
  result->process_overhead_bytes = t->overhead;
  const uint64_t peak = memory_status_read().peak_resident_bytes - session_others_bytes(t->session);
  result->rss_growth_bytes = peak > t->resident_before ? peak - t->resident_before : 0;
  result->process = t->process;
  result->process.peak = peak > t->process.planning ? peak : t->process.planning;
}

/* Fills the result; `ended`: the status of the run. Processes make a digest together if all have finished. */
static neap_status fill_result(struct training *t, neap_status ended, neap_train_result *result) {
  const bool together = ended == NEAP_OK || ended == NEAP_INTERRUPTED || training_ranks(t) == 1;
  result->records = t->data.source.name != NULL ? task_rows[t->data.source.kind].records : NULL;
  result->task = t->data.source.kind;
  result->batch = t->batch;
  result->micro_batches = t->data.micro_batches;
  if (t->graph != NULL) fill_techniques(t, result); /* else they may be none that there are */
  result->test_accuracy = t->state.test_accuracy;
  result->test_loss = t->test_loss;
  result->test_mae = t->test_mae;
  result->test_rmse = t->test_rmse;
  result->test_r2 = t->test_r2;
  result->bits_per_byte = batches_bits_per_byte(t);
  result->best_step = t->state.best.step;
  result->best_value = t->state.best.value;
  result->best_by_loss = t->state.best.by_loss;
  result->stopped_early = t->state.step < t->steps && is_out_of_patience(t);
  result->steps = t->state.step;
  result->steps_here = t->steps_here;
  if (t->graph != NULL) result->parameters = neap_graph_parameters(t->graph);
  if (t->state.images > 0) {
    result->loss = epoch_loss(t);
    result->accuracy = epoch_accuracy(t);
  }
  if (t->session == NULL) return NEAP_OK;
  result->seconds = t->started > 0 ? clock_seconds() - t->started : 0;
  result->step_seconds_median = median_seconds(t);
  if (t->steps_here > 0) {
    result->step_disk_bytes = t->disk_bytes / (double)t->steps_here;
    result->step_disk_written = t->disk_written / (double)t->steps_here;
    result->step_disk_seconds = t->disk_waited / (double)t->steps_here;
  }
  neap_session_memory(t->session, &result->memory);
  if (together && !session_is_torn(t->session)) TRY(neap_session_digest(t->session, result->weights_sha256));
  if (together) TRY(training_compare(t, result));
  if (t->steps_here == 0) measure_overhead(t); /* nothing was left to do */
  fill_process(t, result);
  return NEAP_OK;
}

/* Prepares, in each process alone, before anything is planned. */
static neap_status prepare(struct training *t) {
  TRY(training_check(t->options));
  TRY(training_claim(t));
  t->seconds = region_alloc(&t->region, TIMED_STEPS, sizeof *t->seconds);
  RETURN_IF_NULL(t->seconds);
  t->process.code = memory_status_read().resident_bytes;
  TRY(training_open_data(t));
  const uint64_t now = memory_status_read().resident_bytes; /* reading a model may give memory back */
  t->process.data = now > t->process.code ? now - t->process.code : 0;
  TRY(training_build(t));
  TRY(training_settle(t));
  return training_read_state(t);
}

/* Begins the file of digests in the run's folder, or goes on with it; another run's is removed. */
static neap_status open_digests(struct training *t) {
  const neap_train_options *o = t->options;
  if (o->out == NULL) return NEAP_OK;
  const char *path = region_format(&t->region, "%s/" DIGESTS, o->out);
  RETURN_IF_NULL(path);
  if (o->session.bits == NEAP_BITS_PORTABLE)
    return json_lines_open(path, "digests", o->resume != NULL ? t->state.step : -1, &t->digests);
  RETURN_IF(o->resume == NULL && unlink(path) != 0 && errno != ENOENT, NEAP_IO_FAILED,
            "%s: cannot be removed: %s", path, strerror(errno));
  return NEAP_OK;
}

static neap_status run(struct training *t, neap_train_result *result) {
  TRY(training_share_status(t, prepare(t)));
  TRY(training_agree(t, "settings, model or data", t->settings));
  TRY(training_share_status(t, training_open_session(t, result)));
  if (t->options->save_plan != NULL) TRY(neap_plan_write(session_plan(t->session), t->options->save_plan));
  TRY(training_share_status(t, training_load(t)));
  TRY(training_share_status(t, references_take(t)));
  TRY(training_agree(t, "processor (its kernels) or version", t->kernels));
  TRY(json_lines_open(t->options->metrics, METRICS, t->options->resume != NULL ? t->state.step : -1,
                      &t->metrics));
  TRY(open_digests(t));
  TRY(event_file_open(t->options->tensorboard, t->options->resume != NULL ? t->state.step : -1, &t->region,
                      &t->events));
  TRY(run_steps(t, result));
  return training_share_status(t, training_check_process(t, result));
}

/* Names own records after their source. */
static struct training training_of(const neap_train_options *options) {
  struct training t = {
      .own = *options, .saved_step = -1, .test_loss = -1, .test_mae = -1, .state.test_accuracy = -1};
  if (options->data == NULL && options->source != NULL)
    t.own.data = options->source->name != NULL ? options->source->name : "own";
  neap_train_options_divide_budget(&t.own);
  t.saves = options->out != NULL;
  if (training_rank(&t) > 0) /* the first process writes */
    t.own.out = t.own.metrics = t.own.tensorboard = t.own.save_plan = NULL;
  return t;
}

neap_status neap_train(const neap_train_options *options, neap_train_result *result) {
  NEED(options);
  NEED(result);
  struct training t = training_of(options);
  t.options = &t.own;
  *result = (neap_train_result){
      .accuracy = -1, .test_accuracy = -1, .test_loss = -1, .test_mae = -1, .bits_per_byte = -1};
  t.threads = team_size(options->session.threads);
  struct ending ending; /* the first failure is the one that is told */
  const volatile int *before = stop_listen(options->stop);
  ending_keep(&ending, run(&t, result));
  stop_listen(before);
  const neap_status filled = fill_result(&t, ending.status, result),
                    closed[] = {json_lines_close(&t.metrics), json_lines_close(&t.digests),
                                event_file_close(&t.events)};
  training_release(&t);
  TRY(ending_tell(&ending));
  TRY(filled);
  for (size_t i = 0; i < sizeof closed / sizeof *closed; i++) TRY(closed[i]);
  return NEAP_OK;
}

/* ---- A replay -------------------------------------------------------------------------------------------
 */

/* Returns the recorded step nearest to one from below, or from above; -1: it does not exist. */
static int64_t nearest(json_t *recorded, int64_t step, bool below) {
  int64_t found = -1;
  const char *key;
  json_t *line;
  json_object_foreach(recorded, key, line) {
    const int64_t at = strtoll(key, NULL, 10);
    if (below ? at <= step && at > found : at >= step && (found < 0 || at < found)) found = at;
  }
  return found;
}

/* Fails unless the run recorded digests of the step. */
static neap_status need_recorded(json_t *recorded, const char *folder, int64_t step) {
  const int64_t below = nearest(recorded, step, true), above = nearest(recorded, step, false);
  RETURN_IF(below < 0 && above < 0, NEAP_INVALID_ARGUMENT, "%s/" DIGESTS ": holds no digests", folder);
  RETURN_IF(step < 1 || (below != step && above < 0), NEAP_INVALID_ARGUMENT,
            "step %lld: the run recorded digests of steps 1 to %lld; give one of them", (long long)step,
            (long long)nearest(recorded, INT64_MAX, true));
  RETURN_IF(below != step, NEAP_INVALID_ARGUMENT,
            "step %lld: the run recorded no digests of it; the nearest are of steps %lld and %lld",
            (long long)step, (long long)below, (long long)above);
  return NEAP_OK;
}

static neap_status replay(struct training *t, const char *folder, neap_train_result *unused) {
  neap_train_options *own = &t->own;
  TRY(digests_read(folder, &t->region, &t->replay->recorded));
  TRY(need_recorded(t->replay->recorded, folder, t->replay->to));
  TRY(kept_checkpoints_before(folder, t->replay->to, &t->region, &own->resume));
  if (own->resume != NULL) own->initial = own->initial_map = own->lora_initial = own->side_initial = NULL;
  TRY(run(t, unused));
  RETURN_IF(t->replay->result->compared == 0, NEAP_INTERNAL, "%s: no step of the replay was compared",
            folder);
  return NEAP_OK;
}

neap_status neap_replay(const neap_train_options *options, int64_t step, neap_replay_result *result) {
  NEED(options);
  NEED(result);
  RETURN_IF(options->resume == NULL, NEAP_INVALID_ARGUMENT,
            "neap_replay: resume is NULL; give the folder of a run");
  neap_train_options alone = *options;
  alone.out = alone.metrics = alone.tensorboard = alone.save_plan = NULL;
  alone.no_evaluation = true;
  alone.patience = 0;
  struct replay of = {.to = step, .result = result};
  struct training t = training_of(&alone);
  neap_train_result unused = {0};
  *result = (neap_replay_result){.differs = -1};
  t.options = &t.own;
  t.replay = &of;
  t.threads = team_size(options->session.threads);
  struct ending ending;
  const volatile int *before = stop_listen(options->stop);
  ending_keep(&ending, replay(&t, options->resume, &unused));
  stop_listen(before);
  result->smallest_budget = unused.smallest_budget;
  result->to = t.state.step;
  result->from = t.state.step - t.steps_here;
  if (t.session != NULL) neap_session_memory(t.session, &result->memory);
  training_release(&t);
  json_decref(of.recorded);
  return ending_tell(&ending);
}

static neap_status measure(struct training *t, neap_run_size *size) {
  TRY(training_check(t->options));
  TRY(training_open_data(t));
  TRY(training_build(t));
  *size = (neap_run_size){.shape = t->shape,
                          .batch = t->batch,
                          .micro_batch = t->micro,
                          .training_records = t->data.source.records[SPLIT_TRAIN],
                          .epoch_steps = t->epoch_steps};
  return NEAP_OK;
}

/* Measures a run, and makes its digest unless that is NULL. */
static neap_status measure_run(const neap_train_options *options, neap_run_size *size, char *digest) {
  struct training t = training_of(options);
  t.options = &t.own;
  t.threads = team_size(options->session.threads);
  struct ending ending;
  neap_status status = measure(&t, size);
  if (status == NEAP_OK && digest != NULL) status = run_digest_make(&t, digest);
  ending_keep(&ending, status);
  training_release(&t);
  return ending_tell(&ending);
}

neap_status neap_run_measure(const neap_train_options *options, neap_run_size *size) {
  NEED(options);
  NEED(size);
  return measure_run(options, size, NULL);
}

neap_status neap_run_digest(const neap_train_options *options, char digest[65]) {
  NEED(options);
  NEED(digest);
  neap_run_size size;
  return measure_run(options, &size, digest);
}

/* ---- A checkpoint, without training ---------------------------------------------------------------------
 */

static neap_status load_for_evaluation(struct training *t, const char *folder) {
  const char **paths;
  TRY(training_load_base(t));
  if (t->options->average == 0) return checkpoint_load_weights(folder, &t->state, t->session);
  TRY(epochs_find(folder, t->options->average, &t->region, &paths));
  TRY(neap_session_load_mean(t->session, paths, t->options->average));
  return neap_session_digest(t->session, t->state.weights_sha256);
}

static neap_status run_evaluation(struct training *t, neap_train_result *unused, neap_evaluation *result) {
  const char *folder = t->options->resume;
  RETURN_IF(folder == NULL, NEAP_INVALID_ARGUMENT,
            "neap_evaluate: resume is NULL; give the folder of a checkpoint");
  TRY(training_check(t->options));
  TRY(training_open_data(t));
  t->own.keep_last = false; /* nothing is trained */
  TRY(training_build(t));
  TRY(checkpoint_check_model(folder, t->model));
  TRY(checkpoint_read_state(folder, NULL, &t->state));
  if (t->options->best) TRY(checkpoint_take_best(folder, &t->state));
  TRY(checkpoint_read_adapters(folder, &t->region, &t->own.session));
  const neap_status made = training_open_session(t, unused);
  result->smallest_budget = unused->smallest_budget;
  TRY(made);
  TRY(load_for_evaluation(t, folder));
  TRY(references_take(t));
  if (t->options->by_class && batches_have_a_class(t))
    TRY(confusion_create(t->shape.classes, t->micro, &t->confusion));
  TRY(batches_evaluate(t));
  TRY(confusion_give(&t->confusion, &t->data.source, result));
  result->loss = t->test_loss;
  result->mae = t->test_mae;
  result->rmse = t->test_rmse;
  result->r2 = t->test_r2;
  result->bits_per_byte = batches_bits_per_byte(t);
  result->batch = t->batch;
  result->records = task_rows[t->data.source.kind].records;
  result->task = t->data.source.kind;
  result->images = t->data.source.records[SPLIT_TEST];
  result->step = t->state.step;
  result->epoch = t->state.epoch;
  result->accuracy = t->state.test_accuracy;
  neap_session_memory(t->session, &result->memory);
  memcpy(result->weights_sha256, t->state.weights_sha256, sizeof result->weights_sha256);
  return NEAP_OK;
}

neap_status neap_evaluate(const neap_train_options *options, neap_evaluation *result) {
  NEED(options);
  NEED(result);
  struct training t = training_of(options);
  t.options = &t.own;
  neap_train_result unused = {0};
  *result = (neap_evaluation){0};
  t.threads = team_size(options->session.threads);
  struct ending ending;
  ending_keep(&ending, run_evaluation(&t, &unused, result));
  training_release(&t);
  return ending_tell(&ending);
}
