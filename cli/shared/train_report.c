#include <jansson.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "shared/affordable.h"
#include "shared/failure.h"
#include "shared/format.h"
#include "shared/processor_share.h"
#include "shared/source.h"
#include "shared/train_report.h"
#include "shared/understood.h"

struct train_report make_report(const struct arguments *arguments) {
  FILE *file = arguments->json ? stderr : stdout;
  return (struct train_report){.arguments = arguments,
                               .file = file,
                               .terminal = isatty(fileno(file)) != 0,
                               .last_shown = -INFINITY,
                               .test_accuracy = -1};
}

/* ---- Before step 1 ---- */

/* "  not used    a, b and 3 more": up to `shown` names. */
static void print_names(FILE *f, const char *title, const char *const *names, int32_t count) {
  static const int32_t shown = 4;
  if (count == 0) return;
  fprintf(f, "  %-12s", title);
  for (int32_t i = 0; i < count && i < shown; i++) fprintf(f, "%s%s", i > 0 ? ", " : "", names[i]);
  if (count > shown) fprintf(f, " and %d more", count - shown);
  fputc('\n', f);
}

/* Returns the decimals of a rate, so that a slow one is not 0. */
static int rate_decimals(double rate) { return rate >= 10 ? 0 : rate >= 0.1 ? 1 : 3; }

/* Prints how many tensors the file gave, and the names that one of file and model lacks. */
static void print_initialisation(FILE *f, const char *from, const neap_initialisation *i) {
  fprintf(f, "weights       %d tensors from %s%s\n", i->taken, from,
          i->missing_count + i->reshaped_count > 0 ? "; the others start at random" : "");
  print_names(f, "missing", i->missing, i->missing_count);
  print_names(f, "other shape", i->reshaped, i->reshaped_count);
  print_names(f, "unused", i->unused, i->unused_count);
}

/* Prints the bytes that weights in blocks save, and the weights that the option names but that are in
 * none. */
static void print_stored(FILE *f, const neap_session_options *session, const neap_train_progress *progress) {
  const char *store = session->store, *base = session->base;
  fprintf(f, "stored        %s%s%s%s", store != NULL ? store : "", store != NULL && base != NULL ? ", " : "",
          base != NULL ? "linear layers in " : "", base != NULL ? base : "");
  if (progress->memory->stored_saved > 0)
    fprintf(f, ": %s less", bytes_text(progress->memory->stored_saved).text);
  for (int32_t i = 0; i < progress->unstored_count; i++)
    fprintf(f, "%s%s", i == 0 ? "; rows not a multiple of the block size: " : ", ", progress->unstored[i]);
  fputc('\n', f);
}

/* Returns the report's words for the random changes of records; "": none apply. */
static const char *augmentation(const neap_train_progress *progress) {
  const bool images = of_images(progress->task);
  if (progress->conversations > 0 || progress->task == NEAP_TASK_PAIRS) return "";
  if (!images && !of_sequences(progress->task)) return "";
  if (!progress->augmented) return ", not augmented";
  return images ? ", random crops and flips if the data allow them"
                : ", windows of a text begin elsewhere in each epoch";
}

static void print_data(FILE *f, const neap_train_options *s, const neap_train_progress *progress) {
  fprintf(f, "data          %s, %s%s\n", s->data, !s->no_shuffle ? "shuffled" : "in file order",
          augmentation(progress));
  print_understood(f, progress->understood, progress->understood_count);
  if (s->mixup > 0)
    fprintf(f, "mixup         each record with another one, weighted by Beta(%g, %g)\n", (double)s->mixup,
            (double)s->mixup);
  if (progress->longest != NULL)
    fprintf(f, "longest%s  %s\n", progress->task == NEAP_TASK_PAIRS ? " pair" : "     ", progress->longest);
  if (progress->rows > 0)
    fprintf(f, "packed        %lld conversations in %lld rows of tokens; they do not see each other\n",
            (long long)progress->conversations, (long long)progress->rows);
}

/* Weights: where they begin, which of them are trained, and how they are stored. */
static void print_weights(FILE *f, const neap_train_options *s, const neap_train_progress *progress) {
  const neap_session_options *session = &s->session;
  if (progress->initialisation != NULL) print_initialisation(f, s->initial, progress->initialisation);
  if (progress->new_layers != NULL)
    fprintf(f, "new layers    %s: %s has none for these data; they start at random and are trained\n",
            progress->new_layers, s->model);
  if (session->lora > 0)
    fprintf(f, "adapters      rank %d, alpha %g%s, dropout %g%s, added to %s\n", session->lora,
            fabs((double)session->lora_alpha), session->lora_rs ? " over the root of the rank" : "",
            (double)session->lora_dropout, session->lora_dora ? ", with lengths of weights (DoRA)" : "",
            session->lora_layers != NULL ? session->lora_layers : "queries and values");
  if (s->shape.side > 0)
    fprintf(f, "side net      every width divided by %lld; no gradient enters the model's own layers\n",
            (long long)s->shape.side);
  if (progress->frozen > 0)
    fprintf(f, "frozen        %s: %lld parameters\n", session->freeze != NULL ? session->freeze : "*",
            (long long)progress->frozen);
  if (session->store != NULL || session->base != NULL) print_stored(f, session, progress);
  if (session->ema > 0)
    fprintf(f, "average       keeps %g of its value at each step; evaluations use it\n",
            (double)session->ema);
}

static void print_settings(const struct train_report *r, const neap_train_progress *progress) {
  static const char *const schedules[] = {"constant", "in steps", "cosine", "inverse square root",
                                          "exponential"};
  static const char *const convolutions[] = {"auto", "direct", "winograd"};
  const neap_train_options *s = &r->arguments->options;
  const neap_session_options *session = &s->session;
  FILE *f = r->file;
  fprintf(f, "model         %s, batch %lld", s->model, (long long)s->shape.batch);
  if (s->micro_batch > 0) fprintf(f, " in micro-batches of %lld", (long long)s->micro_batch);
  if (s->micro_batch == NEAP_MICRO_BATCH_AUTO) fputs(" in the largest micro-batches that fit", f);
  if (s->allow == 0 && session->sparse_density > 0)
    fprintf(f, ", sparse parameters with %g of their values", session->sparse_density);
  fputc('\n', f);
  print_data(f, s, progress);
  fprintf(f, "length        %lld step%s", (long long)progress->steps, progress->steps == 1 ? "" : "s");
  if (progress->epochs > 0)
    fprintf(f, " in %lld epoch%s", (long long)progress->epochs, progress->epochs == 1 ? "" : "s");
  if (s->resume != NULL) fprintf(f, ", resuming from %s", s->resume);
  neap_row optimizer;
  if (!neap_optimizer_at((int32_t)session->optimizer, &optimizer)) optimizer.name = "?";
  fprintf(f, "\noptimizer     %s, learning rate %g (%s", optimizer.name, fabs(s->learning_rate),
          schedules[s->schedule]);
  if (s->warmup_epochs > 0) fprintf(f, ", %g epochs of warm-up", s->warmup_epochs);
  if (s->warmup_steps > 0) fprintf(f, ", %lld steps of warm-up", (long long)s->warmup_steps);
  fputc(')', f);
  if (session->mezo)
    fprintf(f, ", by forward passes alone (MeZO), weights perturbed by %g", (double)session->mezo_epsilon);
  else if (session->optimizer == NEAP_SGD || (session->optimizer == NEAP_RMSPROP && session->momentum > 0))
    fprintf(f, ", %s %g", session->nesterov ? "Nesterov momentum" : "momentum", (double)session->momentum);
  fprintf(f, ", weight decay %g\n", (double)session->weight_decay);
  print_weights(f, s, progress);
  if (strcmp(progress->combination, "none") != 0) fprintf(f, "techniques    %s\n", progress->combination);
  if (progress->stages != NULL)
    fprintf(f, "pipeline      of %d ranks; blocks of each stage, from the last to the first: %s\n",
            (int)session->pipeline, progress->stages);
  const bool images = of_images(progress->task);
  fprintf(f, "arithmetic    %s, stored in %s%s%s%s, seed %lld\n",
          session->backend == NEAP_CPU ? "f32" : "double, plain C", precision_name(session->precision),
          session->bits == NEAP_BITS_PORTABLE ? ", portable bits" : "", images ? ", convolutions " : "",
          images ? convolutions[session->convolution] : "", (long long)session->seed);
}

static void print_part(FILE *f, const char *name, uint64_t bytes, uint64_t of) {
  fprintf(f, "  %-36s %12s  %7s\n", name, bytes_text(bytes).text,
          percent_text(of > 0 ? (double)bytes / (double)of : 0).text);
}

/* Names the parts of the planned time above that of keeping everything. */
static const char *time_above(const neap_memory *m) {
  return m->spilled > 0 ? "recomputation, waits for the disk" : "recomputation";
}

static void print_memory(const struct train_report *r, const neap_train_progress *p) {
  const neap_memory *m = p->memory;
  FILE *f = r->file;
  fprintf(f, "\nmemory%s, %s by %s before the first step (graph: %s)\n",
          r->arguments->options.session.collective != NULL ? " of rank 0" : "",
          m->keep_all > 0 ? "planned" : "each part planned", m->planner, m->variant);
  print_part(f, "parameters", m->parameters, m->planned_peak);
  print_part(f, "optimizer states, running statistics", m->states, m->planned_peak);
  print_part(f, "inputs", m->inputs, m->planned_peak);
  print_part(f, "arena: activations, gradients, work", m->arena, m->planned_peak);
  fprintf(f, "  %-36s %12s  of a budget of %s\n", "peak", bytes_text(m->planned_peak).text,
          bytes_text(m->budget).text);
  if (m->keep_all > 0)
    fprintf(f, "  %-36s %12s\n", "keeping everything would need", bytes_text(m->keep_all).text);
  if (m->shared > 0)
    fprintf(f, "  %-36s %12s  once in memory, of which each process counts an equal part\n",
            "shared by all processes", bytes_text(m->shared).text);
  if (m->on_disk > 0)
    fprintf(f, "  %-36s %12s  read when needed\n", "frozen weights in the model's file",
            bytes_text(m->on_disk).text);
  if (m->spilled > 0)
    fprintf(f, "  %-36s %12s  in %s; a step reads up to %s and writes %s, %s writes %s\n", "on disk",
            bytes_text(m->spilled).text, r->arguments->options.session.disk,
            bytes_text(m->disk_step_read).text, bytes_text(m->disk_step_written).text,
            p->steps_before > 0 ? "the rest of the run" : "the run",
            bytes_text((uint64_t)(p->steps - p->steps_before) * m->disk_step_written).text);
  else if (r->arguments->options.session.disk != NULL)
    fprintf(f, "  %-36s %12s  the budget is met without\n", "on disk", "none");
  fprintf(f, "  %-36s %12s\n\n", time_above(m), overhead_text(m->cost, m->base_cost).text);
}

/* ---- While it runs ---- */

/* ", loss 1.2, perplexity 3.3, 1.7 bits a byte" */
static int put_loss(char *text, size_t size, double loss, double bits_per_byte) {
  if (bits_per_byte < 0) return snprintf(text, size, "loss %.4f, perplexity %.2f", loss, exp(loss));
  return snprintf(text, size, "loss %.4f, perplexity %.2f, %.3f bits per byte", loss, exp(loss),
                  bits_per_byte);
}

static void put_line(struct train_report *r, const neap_train_progress *p) {
  char line[320];
  int at = 0;
#define PUT(...) at += at < (int)sizeof line ? snprintf(line + at, sizeof line - (size_t)at, __VA_ARGS__) : 0
  if (p->epochs > 0) PUT("epoch %lld/%lld  ", (long long)p->epoch, (long long)p->epochs);
  PUT("step %lld/%lld  epoch's mean loss %.4f", (long long)p->step, (long long)p->steps, p->epoch_loss);
  if (p->epoch_accuracy >= 0) PUT("  accuracy %.1f %%", 100 * p->epoch_accuracy);
  if (p->test_mae >= 0) PUT("  test MAE %.5g, RMSE %.5g, R2 %.4f", p->test_mae, p->test_rmse, p->test_r2);
  if (r->test_accuracy >= 0) PUT("  test %.1f %%", 100 * r->test_accuracy);
  char loss[96];
  if (p->test_loss >= 0 && of_sequences(p->task)) {
    put_loss(loss, sizeof loss, p->test_loss, p->bits_per_byte);
    PUT(", %s", loss);
  }
  PUT("  %.*f %s/s", rate_decimals(p->images_per_second), p->images_per_second, p->records);
  if (p->step < p->steps) PUT("  %s left", duration_text(p->seconds_left).text);
  PUT("  %s of %s", bytes_text(p->memory->measured_peak).text, bytes_text(p->memory->budget).text);
#undef PUT
  if (r->terminal)
    fprintf(r->file, "\r%.*s\033[K", line_width(r->file, 200), line);
  else
    fprintf(r->file, "%s\n", line);
  fflush(r->file);
  r->line_open = r->terminal;
}

void end_progress(struct train_report *r) {
  if (r->line_open) fputc('\n', r->file);
  fflush(r->file);
  r->line_open = false;
}

static const double share_window = 2; /* seconds */

/* Says once that other processes use the processors, but not to a user who chose how threads wait. */
static void look_at_share(struct train_report *r) {
  const char *policy = getenv("OMP_WAIT_POLICY");
  const int threads =
      r->arguments->options.session.threads > 0 ? r->arguments->options.session.threads : omp_get_num_procs();
  if (r->told_shared || threads < 2 || (policy != NULL && strcasecmp(policy, "passive") == 0)) return;
  if (r->share.at <= 0) r->share = sample_processors(seconds_now()); /* from step 1 on */
  if (seconds_now() - r->share.at < share_window) return;
  const struct processor_sample now = sample_processors(seconds_now());
  double had;
  const bool shared = shares_processors(&r->share, &now, threads, &had);
  r->share = now;
  if (!shared) return;
  end_progress(r);
  fprintf(stderr,
          "neap: other processes are using the processors too (of %d this run had %.1f); "
          "OMP_WAIT_POLICY=passive neap train ... may be faster: waiting threads then sleep\n",
          threads, had);
  r->told_shared = true;
}

static json_t *names_json(const char *const *names, int32_t count) {
  json_t *list = json_array();
  for (int32_t i = 0; i < count; i++) json_array_append_new(list, json_string(names[i]));
  return list;
}

/* Keeps what the final JSON needs but the run frees earlier. */
static void keep_beginning(struct train_report *r, const neap_train_progress *p) {
  const neap_initialisation *i = p->initialisation;
  r->frozen = p->frozen;
  if (r->arguments->json) r->understood = understood_json(p->understood, p->understood_count);
  if (r->arguments->json && p->memory->stored_saved > 0)
    r->unstored = names_json(p->unstored, p->unstored_count);
  if (p->longest != NULL && r->arguments->json)
    r->pairs = json_pack("{s:s, s:I, s:I}", "longest_record", p->longest, "skipped_records",
                         (json_int_t)p->skipped_records, "cut_records", (json_int_t)p->cut_records);
  if (p->rows > 0 && r->pairs != NULL)
    json_object_update_new(r->pairs, json_pack("{s:I, s:I}", "conversations", (json_int_t)p->conversations,
                                               "rows", (json_int_t)p->rows));
  if (i == NULL || !r->arguments->json) return;
  r->initialisation =
      json_pack("{s:i, s:o, s:o, s:o}", "taken", i->taken, "missing",
                names_json(i->missing, i->missing_count), "reshaped",
                names_json(i->reshaped, i->reshaped_count), "unused", names_json(i->unused, i->unused_count));
}

/* Pairs that are too long are left out of the training part and cut in the other; conversations as --long
 * says. */
static void tell_left_out(const struct train_report *r, const neap_train_progress *p) {
  const long long skipped = (long long)p->skipped_records, cut = (long long)p->cut_records;
  if (skipped == 0 && cut == 0) return;
  if (p->task == NEAP_TASK_PAIRS)
    fprintf(
        stderr,
        "neap: %lld training pairs have more than %lld tokens and are left out; %lld test pairs are cut\n",
        skipped, (long long)r->arguments->options.shape.length, cut);
  else if (p->task == NEAP_TASK_TEXTS)
    fprintf(stderr, "neap: %lld texts are longer than a sequence and are cut (see --length)\n", cut);
  else if (skipped > 0)
    fprintf(stderr,
            "neap: %lld conversations are left out: they are longer than a sequence (--long skip), or no "
            "token of theirs is trained on; %lld are cut\n",
            skipped, cut);
  else
    fprintf(stderr,
            "neap: %lld conversations are longer than a sequence and are cut (--long skip leaves them out)\n",
            cut);
}

void report_progress(struct train_report *r, const neap_train_progress *p) {
  if (p->step == 0) {
    keep_beginning(r, p);
    print_settings(r, p);
    print_memory(r, p);
    fflush(r->file);
    if (p->other_kernels != NULL)
      fprintf(stderr,
              "neap: not all steps of this run use the same kernels (%s):\n  its last bits differ from those "
              "of an uninterrupted run\n",
              p->other_kernels);
    if (p->marked_file != NULL)
      fprintf(stderr, "neap: %s: begins with a byte-order mark, which was skipped\n", p->marked_file);
    tell_left_out(r, p);
    if (r->least && costs_too_much(p->memory->cost, p->memory->base_cost))
      tell_affordable(p->memory->cost, p->memory->base_cost, r->affordable);
    return;
  }
  look_at_share(r);
  if (p->uncounted > 0 && !r->told_uncounted) {
    end_progress(r);
    fprintf(stderr,
            "neap: data: %lld labels of step %lld are not valid classes and are ignored (reported once)\n",
            (long long)p->uncounted, (long long)p->step);
    r->told_uncounted = true;
  }
  if (p->test_accuracy >= 0) r->test_accuracy = p->test_accuracy;
  const bool tested = p->test_accuracy >= 0 || p->test_mae >= 0, ends = p->step == p->steps || tested;
  const double interval = r->terminal ? 0.1 : 10;
  if (!ends && seconds_now() - r->last_shown < interval) return;
  put_line(r, p);
  r->last_shown = seconds_now();
  if (tested) end_progress(r); /* the line of an epoch stays */
}

/* ---- After it ---- */

static void print_best(const struct train_report *r, const neap_train_result *result) {
  const neap_train_options *o = &r->arguments->options;
  const bool by_loss = result->best_by_loss;
  if (result->stopped_early) fprintf(r->file, ", no improvement for %lld epochs", (long long)o->patience);
  if (o->keep_best && result->best_step > 0)
    fprintf(r->file, "\nbest          step %lld, test %s %.4g%s: neap evaluate %s --best",
            (long long)result->best_step, by_loss ? "loss" : "accuracy",
            by_loss ? result->best_value : 100 * result->best_value, by_loss ? "" : " %", o->out);
}

static void print_quality(const struct train_report *r, const neap_train_result *result) {
  FILE *f = r->file;
  fprintf(f, "\nresult        the epoch's mean loss %.4f%s", result->loss,
          r->arguments->options.mixup > 0             ? " (on mixed records)"
          : r->arguments->options.shape.smoothing > 0 ? " (with label smoothing)"
                                                      : "");
  if (result->accuracy >= 0) fprintf(f, ", accuracy %.2f %%", 100 * result->accuracy);
  if (result->test_mae >= 0)
    fprintf(f, ", test mean absolute error %.5g, root mean squared error %.5g, R2 %.4f", result->test_mae,
            result->test_rmse, result->test_r2);
  if (result->test_accuracy >= 0) fprintf(f, ", test accuracy %.2f %%", 100 * result->test_accuracy);
  if (result->test_loss >= 0 && of_sequences(result->task)) {
    char loss[96];
    put_loss(loss, sizeof loss, result->test_loss, result->bits_per_byte);
    fprintf(f, "\ntest text     %s", loss);
  }
}

static void print_memory_used(FILE *f, const neap_train_result *result) {
  const neap_memory *m = &result->memory;
  fprintf(f, "\nmemory        planned %llu bytes, measured %llu: %s of a budget of %s\n",
          (unsigned long long)m->planned_peak, (unsigned long long)m->measured_peak,
          bytes_text(m->measured_peak).text, bytes_text(m->budget).text);
  if (m->keep_all > m->planned_peak)
    fprintf(f, "saved         %s of the %s that keeping everything needs (%s); %s %s\n",
            bytes_text(m->keep_all - m->planned_peak).text, bytes_text(m->keep_all).text,
            percent_text(1 - (double)m->planned_peak / (double)m->keep_all).text, time_above(m),
            overhead_text(m->cost, m->base_cost).text);
  else if (m->keep_all == 0)
    fprintf(f, "recomputed    blocks of stages with an r: %s\n", overhead_text(m->cost, m->base_cost).text);
  else
    fprintf(f, "saved         nothing: everything was kept\n");
  if (m->spilled > 0 || m->on_disk > 0)
    fprintf(f, "disk          a step read %s, wrote %s and waited %.3f s for that\n",
            bytes_text((uint64_t)result->step_disk_bytes).text,
            bytes_text((uint64_t)result->step_disk_written).text, result->step_disk_seconds);
  if (result->processes > 1)
    fprintf(f,
            "processes     %d, with at most %s each; each sends up to %s a step; exchanges take up to %s of "
            "the time\n",
            (int)result->processes, bytes_text(result->highest_peak).text,
            bytes_text(result->sent_bytes).text, percent_text(result->exchange_share).text);
  if (m->shared > 0)
    fprintf(f, "shared        %s of all processes, once in memory; each counts an equal part\n",
            bytes_text(m->shared).text);
  fprintf(f, "process       grew by %s, of which %s for code, stacks and libraries\n",
          bytes_text(result->rss_growth_bytes).text, bytes_text(result->process_overhead_bytes).text);
  const neap_process *p = &result->process;
  fprintf(f,
          "              at most %s in total: code and libraries %s, data %s, graphs, kernels and plan %s; "
          "%s while planning\n",
          bytes_text(p->peak).text, bytes_text(p->code).text, bytes_text(p->data).text,
          bytes_text(p->kernels).text, bytes_text(p->planning).text);
}

void print_summary(const struct train_report *r, const neap_train_result *result) {
  FILE *f = r->file;
  fprintf(f, "\ntrained       %s%lld parameters, %lld step%s",
          r->arguments->options.session.lora > 0 ? "adapters for "
          : r->arguments->options.shape.side > 0 ? "a side net for "
                                                 : "",
          (long long)result->parameters, (long long)result->steps, result->steps == 1 ? "" : "s");
  if (result->steps_here < result->steps) fprintf(f, ", %lld of them now", (long long)result->steps_here);
  fprintf(f, " in %s", duration_text(result->seconds).text);
  if (result->step_seconds_median > 0)
    fprintf(f, " (%.3f s a step, median; %.*f %s/s)", result->step_seconds_median,
            rate_decimals((double)result->batch / result->step_seconds_median),
            (double)result->batch / result->step_seconds_median, result->records);
  print_quality(r, result);
  print_best(r, result);
  if (strcmp(result->combination, "none") != 0) fprintf(f, "\ntechniques    %s", result->combination);
  print_memory_used(f, result);
  if (result->weights_sha256[0] != '\0') fprintf(f, "weights       sha256 %s\n", result->weights_sha256);
  const char *out = r->arguments->options.out;
  if (out != NULL) fprintf(f, "checkpoint    %s\n", out);
}

static void add_best(json_t *object, const neap_train_result *r) {
  if (r->best_step == 0) return;
  json_object_set_new(object, "best_step", json_integer((json_int_t)r->best_step));
  json_object_set_new(object, r->best_by_loss ? "best_test_loss" : "best_test_accuracy",
                      json_real(r->best_value));
  json_object_set_new(object, "stopped_early", json_boolean(r->stopped_early));
}

/* NULL: memory is out. */
static json_t *quality_json(const neap_train_result *r) {
  json_t *quality = json_pack("{s:o, s:o, s:o, s:o}", "loss", number_json(r->loss), "accuracy",
                              r->accuracy < 0 ? json_null() : number_json(r->accuracy), "test_accuracy",
                              r->test_accuracy < 0 ? json_null() : json_real(r->test_accuracy), "test_loss",
                              r->test_loss < 0 ? json_null() : number_json(r->test_loss));
  if (r->test_mae >= 0 && quality != NULL) {
    json_object_set_new(quality, "test_mae", number_json(r->test_mae));
    json_object_set_new(quality, "test_rmse", number_json(r->test_rmse));
    json_object_set_new(quality, "test_r2", number_json(r->test_r2));
  }
  if (r->test_loss >= 0 && of_sequences(r->task) && quality != NULL)
    json_object_set_new(quality, "perplexity", number_json(exp(r->test_loss)));
  if (r->bits_per_byte >= 0 && quality != NULL)
    json_object_set_new(quality, "bits_per_byte", number_json(r->bits_per_byte));
  return quality;
}

/* NULL: memory is out. */
static json_t *memory_json(const neap_train_result *r) {
  const neap_memory *m = &r->memory;
  return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:s}", "planner",
                   m->planner != NULL ? m->planner : "", "variant", m->variant != NULL ? m->variant : "",
                   "budget_bytes", (json_int_t)m->budget, "planned_peak_bytes", (json_int_t)m->planned_peak,
                   "measured_peak_bytes", (json_int_t)m->measured_peak, "resident_bytes",
                   (json_int_t)m->resident, "arena_bytes", (json_int_t)m->arena, "process_overhead_bytes",
                   (json_int_t)r->process_overhead_bytes, "rss_growth_bytes", (json_int_t)r->rss_growth_bytes,
                   "cost", m->cost, "base_cost", m->base_cost, "weights_sha256", r->weights_sha256);
}

static void add_process(json_t *memory, const neap_train_result *r) {
  json_object_set_new(memory, "process",
                      json_pack("{s:I, s:I, s:I, s:I, s:I}", "peak_bytes", (json_int_t)r->process.peak,
                                "code_bytes", (json_int_t)r->process.code, "data_bytes",
                                (json_int_t)r->process.data, "kernels_bytes", (json_int_t)r->process.kernels,
                                "planning_bytes", (json_int_t)r->process.planning));
  if (r->processes > 1)
    json_object_update_new(memory, json_pack("{s:i, s:I, s:I, s:f}", "processes", (int)r->processes,
                                             "highest_peak_bytes", (json_int_t)r->highest_peak, "sent_bytes",
                                             (json_int_t)r->sent_bytes, "exchange_share", r->exchange_share));
}

/* Adds the fields that depend on the run's settings. */
static void add_report(json_t *memory, const struct train_report *report, const neap_train_result *r) {
  const neap_memory *m = &r->memory;
  if (report->frozen > 0)
    json_object_set_new(memory, "frozen_parameters", json_integer((json_int_t)report->frozen));
  if (report->unstored != NULL) {
    json_object_set_new(memory, "stored_saved_bytes", json_integer((json_int_t)m->stored_saved));
    json_object_set(memory, "unstored", report->unstored);
  }
  if (m->spilled > 0) {
    json_object_set_new(memory, "spilled_bytes", json_integer((json_int_t)m->spilled));
    json_object_set_new(memory, "disk_written_bytes_per_step", json_real(r->step_disk_written));
  }
  if (m->on_disk > 0) json_object_set_new(memory, "on_disk_bytes", json_integer((json_int_t)m->on_disk));
  if (m->on_disk > 0 || m->spilled > 0) {
    json_object_set_new(memory, "disk_bytes_per_step", json_real(r->step_disk_bytes));
    json_object_set_new(memory, "disk_wait_seconds_per_step", json_real(r->step_disk_seconds));
  }
  if (m->shared > 0) json_object_set_new(memory, "shared_bytes", json_integer((json_int_t)m->shared));
  if (report->pairs != NULL) json_object_update(memory, report->pairs);
  if (report->understood != NULL) json_object_set(memory, "understood", report->understood);
  if (report->initialisation != NULL) json_object_set(memory, "initialisation", report->initialisation);
  if (report->least)
    json_object_set_new(memory, "affordable_budget_bytes",
                        costs_too_much(m->cost, m->base_cost) && report->affordable > 0
                            ? json_integer((json_int_t)report->affordable)
                            : json_null());
}

json_t *train_json(const struct train_report *report, const neap_train_result *r) {
  const neap_train_options *s = &report->arguments->options;
  json_t *object = json_pack("{s:s, s:I, s:I, s:I, s:f, s:o}", "model", s->model, "batch",
                             (json_int_t)r->batch, "parameters", (json_int_t)r->parameters, "steps",
                             (json_int_t)r->steps, "seconds", r->seconds, "step_seconds_median",
                             r->step_seconds_median > 0 ? json_real(r->step_seconds_median) : json_null());
  json_t *quality = quality_json(r), *memory = memory_json(r);
  add_best(memory, r);
  json_object_set_new(memory, "combination", json_string(r->combination));
  json_object_set_new(memory, "micro_batches", json_integer((json_int_t)r->micro_batches));
  json_object_set_new(memory, "precision", json_string(r->precision));
  json_object_set_new(memory, "density", json_real(r->density));
  json_object_set_new(memory, "process_peak_bytes", json_integer((json_int_t)r->process.peak));
  add_process(memory, r);
  add_report(memory, report, r);
  if (object != NULL &&
      (json_object_update(object, quality) != 0 || json_object_update(object, memory) != 0)) {
    json_decref(object);
    object = NULL;
  }
  json_decref(quality);
  json_decref(memory);
  return object;
}

int report_over_budget(const struct train_report *r, const neap_train_result *result) {
  const neap_train_options *s = &r->arguments->options;
  const char *planner = s->session.planner;
  if (result->smallest_budget == 0) {
    fprintf(stderr, "neap: %s\n", library_message());
    if (strcmp(planner, "auto") != 0)
      fprintf(stderr, "  --planner %s accepts %s; --planner auto accepts any graph\n", planner,
              planner_graphs(planner));
    return EXIT_FAILED;
  }
  static const char *const kinds[] = {"process-budget", "total-budget", "budget"};
  const char *option = "budget", *budget = "max";
  for (size_t i = sizeof kinds / sizeof *kinds; i-- > 0;)
    if (given_text(r->arguments, kinds[i]) != NULL) budget = given_text(r->arguments, option = kinds[i]);
  fprintf(stderr, "neap: --%s %s: %s\n", option, budget, library_message());
  tell_smallest(r->arguments, result->smallest_budget);
  if (result->largest_batch > 0)
    fprintf(stderr, "  the largest batch within it: --batch %lld\n", (long long)result->largest_batch);
  else if (result->largest_batch == 0)
    fprintf(stderr, "  no batch fits it\n");
  if (result->direct_fits)
    fprintf(stderr, "  --conv direct would fit: it needs smaller workspaces, and gives other last bits\n");
  if (r->arguments->json)
    print_json(json_pack(
        "{s:s, s:I, s:b, s:o, s:I, s:o}", "model", s->model, "batch", (json_int_t)s->shape.batch, "feasible",
        0, "budget_bytes", json_integer((json_int_t)result->memory.budget), "smallest_budget_bytes",
        (json_int_t)result->smallest_budget, "largest_batch",
        result->largest_batch >= 0 ? json_integer((json_int_t)result->largest_batch) : json_null()));
  return EXIT_OVER_BUDGET;
}

int report_interruption(const struct train_report *r, int signal) {
  fprintf(stderr, "neap: %s\n", library_message());
  const char *out = r->arguments->options.out;
  if (out != NULL)
    fprintf(stderr, "  a checkpoint is in %s; continue with: neap train --resume %s\n", out, out);
  else
    fputs("  nothing was saved; --out DIR saves checkpoints\n", stderr);
  return EXIT_SIGNAL + signal;
}
