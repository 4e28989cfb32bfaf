/* Predicts data with a trained model: writes its outputs as a file of NumPy, or as text with names and
 * probabilities. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/parallel.h"
#include "data/encoding.h"
#include "data/scale.h"
#include "data/statistics.h"
#include "model/model.h"
#include "session/session.h"
#include "train/base_weights.h"
#include "train/checkpoint.h"
#include "train/model_data.h"
#include "train/prediction_rows.h"
#include "weights/variables.h"

struct prediction {
  struct region region;
  struct encoding encoding;
  const char *weights;
  struct prediction_rows rows;
  const neap_predict_options *options;
  const neap_model *model; /* of the options, or: */
  neap_model *own_model;   /* opened here; NULL: the caller has it open */
  const char *data_name;
  struct loader data;
  enum split split;
  neap_model_options asked, shape;
  neap_graph *graph;
  neap_session *session;
  neap_variable output;
  int64_t batch, count; /* records together; in all */
  int32_t *labels;
  float *values; /* of a batch */
  neap_predict_result *result;
  neap_status status; /* of a batch, with what it said */
  char message[512];
};

static const char *output_name(const struct prediction *p) {
  if (p->options->output != NULL) return p->options->output;
  if (p->shape.head == NEAP_HEAD_SENTENCE) return "sentence";
  return p->shape.regression ? "prediction" : "logits";
}

/* Opens weights and encoding of a checkpoint; older ones have no encoding. */
static neap_status open_checkpoint(struct prediction *p, const struct encoding **encoding) {
  const neap_predict_options *o = p->options;
  p->weights = o->weights;
  *encoding = NULL;
  if (o->checkpoint == NULL) return NEAP_OK;
  const char *data = region_format(&p->region, "%s/" CHECKPOINT_DATA, o->checkpoint);
  RETURN_IF_NULL(data);
  if (file_exists(data)) {
    TRY(encoding_read(data, &p->region, &p->encoding));
    *encoding = &p->encoding;
  }
  if (o->weights != NULL) return NEAP_OK;
  TRY(checkpoint_check_model(o->checkpoint, p->model));
  return checkpoint_find_weights(o->checkpoint, o->best, &p->region, &p->weights);
}

/* Describes the images of a model that no run has trained. */
static neap_status describe_images(struct prediction *p, const neap_model_options *usual,
                                   const struct task_labels *labels, const struct encoding **encoding) {
  struct task_pixels pixels;
  TRY(model_pixels(p->model, &pixels));
  p->encoding = (struct encoding){.reading = READING_NOW,
                                  .source = "images",
                                  .input = "image",
                                  .rank = 3,
                                  .classes = labels->count,
                                  .class_names = labels->names};
  memcpy(p->encoding.shape, usual->image, sizeof p->encoding.shape);
  memcpy(p->encoding.mean, pixels.mean, sizeof p->encoding.mean);
  memcpy(p->encoding.deviation, pixels.deviation, sizeof p->encoding.deviation);
  if (strncmp(p->data_name, "images:", 7) == 0) *encoding = &p->encoding;
  return NEAP_OK;
}

/* Describes the texts of a language model that no run has trained: its tokens and its classes. */
static neap_status describe_model(struct prediction *p, const struct encoding **encoding) {
  const neap_predict_options *o = p->options;
  neap_model_description about;
  struct task_labels labels;
  if (o->checkpoint != NULL || o->weights != NULL) return NEAP_OK;
  TRY(neap_model_describe(p->model, &about));
  TRY(model_labels(p->model, &p->region, &labels));
  p->asked.head = about.usual.head;
  struct table_column *text = region_alloc(&p->region, 1, sizeof *text);
  struct table *table = region_alloc(&p->region, 1, sizeof *table);
  RETURN_IF(text == NULL || table == NULL, NEAP_OUT_OF_MEMORY, "prediction: out of memory");
  *text = (struct table_column){.text = true};
  *table = (struct table){.columns = text, .column_count = 1};
  if (!labels.values) {
    table->label.word_count = labels.count;
    table->label.words = (const char **)labels.names;
  }
  p->encoding = (struct encoding){
      .reading = READING_NOW, .source = "csv", .input = "tokens", .rank = 1, .table = table};
  if (about.task == NEAP_TASK_IMAGES) return describe_images(p, &about.usual, &labels, encoding);
  if (strncmp(p->data_name, "csv:", 4) == 0) *encoding = &p->encoding;
  return NEAP_OK;
}

static neap_status load_weights(const struct prediction *p) {
  const neap_predict_options *o = p->options;
  if (p->weights == NULL) return neap_model_load(p->model, &p->shape, p->session);
  TRY(base_weights_take(o->checkpoint, p->model, &p->shape, p->session));
  TRY(neap_session_load(p->session, p->weights));
  return session_need_finite(p->session, p->weights);
}

/* Returns the data that are named, as records of the run's encoding, or else the run's own, in its parts. */
static struct data_choice choose_data(const struct prediction *p, const struct encoding *encoding) {
  const neap_predict_options *o = p->options;
  const int threads = team_size(o->session.threads);
  struct data_choice choice = {.name = o->data, .threads = threads, .encoding = encoding};
  if (o->data == NULL) choice = data_of_run(p->model, o->run, threads);
  choice.model = p->model;
  choice.shape = &p->asked;
  choice.one_length = true;
  return choice;
}

static neap_status check_options(const neap_predict_options *o) {
  const bool data = o->data != NULL || (o->run != NULL && (o->run->data != NULL || o->run->source != NULL));
  RETURN_IF(o->model == NULL || !data || o->out == NULL, NEAP_INVALID_ARGUMENT,
            "predict: give a model, weights or a checkpoint, data and a file to write");
  return NEAP_OK;
}

/* The data, and the model's graph for their shape. */
static neap_status open_graph(struct prediction *p) {
  const neap_predict_options *o = p->options;
  const struct encoding *encoding;
  TRY(check_options(o));
  TRY(model_take(o->opened, o->model, &p->own_model, &p->model));
  const bool own = neap_model_is_language(p->model);
  RETURN_IF(o->weights == NULL && o->checkpoint == NULL && !own, NEAP_INVALID_ARGUMENT,
            "predict: give a model, weights or a checkpoint, data and a file to write");
  p->data_name = o->data != NULL ? o->data : o->run->source != NULL ? o->run->source->name : o->run->data;
  p->asked = o->shape;
  TRY(open_checkpoint(p, &encoding));
  TRY(describe_model(p, &encoding));
  if (own && o->output != NULL && strcmp(o->output, "sentence") == 0) p->asked.head = NEAP_HEAD_SENTENCE;
  const struct data_choice choice = choose_data(p, encoding);
  TRY(open_data(&choice, &p->data));
  const struct understood *read = &p->data.source.understood;
  if (o->understood != NULL) o->understood(o->context, read->rows.data, (int64_t)read->rows.count);
  TRY(settle_shape(p->model, p->data_name, &p->asked, &p->data, &p->shape));
  RETURN_IF(p->data.bucket_count > 1, NEAP_UNSUPPORTED,
            "%s: pairs of sequences come in several lengths; `neap translate` takes them", p->data_name);
  TRY(neap_model_build(p->model, &p->shape, &p->graph));
  p->split = o->training_records ? SPLIT_TRAIN : SPLIT_TEST;
  p->count = p->data.source.records[p->split];
  RETURN_IF(p->count == 0, NEAP_INVALID_ARGUMENT,
            "%s: has no records to %s with; name other data (`data`), or %s", p->data_name,
            p->split == SPLIT_TRAIN ? "train" : "test",
            p->split == SPLIT_TRAIN ? "leave `train` out" : "give `train`");
  p->batch = neap_graph_batch(p->graph);
  return NEAP_OK;
}

/* `*bytes`: images are given to the session as bytes. */
static neap_status open_session(struct prediction *p, bool *bytes) {
  const neap_predict_options *o = p->options;
  neap_session_options session = o->session;
  session.predict = true;
  if (o->checkpoint != NULL) TRY(checkpoint_read_adapters(o->checkpoint, &p->region, &session));
  session.byte_input = statistics_byte_input(&p->data.source);
  session.threads = team_size(o->session.threads);
  TRY(neap_session_create(p->graph, &session, &p->result->smallest_budget, &p->session));
  TRY(load_weights(p));
  TRY(neap_session_output(p->session, output_name(p), &p->output, NULL));
  RETURN_IF(p->output.rank < 1 || p->output.dims[0] != p->batch, NEAP_UNSUPPORTED,
            "output '%s' must have a place for each record of the batch", p->output.name);
  *bytes = session.byte_input.name != NULL;
  return NEAP_OK;
}

static neap_status open_all(struct prediction *p) {
  struct field inputs[INPUT_LIMIT];
  int input_count;
  bool bytes;
  TRY(open_graph(p));
  TRY(open_session(p, &bytes));
  TRY(loader_divide(&p->data, &(struct division){.batch = p->batch, .micro = p->batch}));
  TRY(loader_list_inputs(&p->data, p->graph, bytes, inputs, &input_count));
  TRY(loader_prepare(&p->data, inputs, input_count));
  loader_attach(&p->data, p->session);
  const int64_t each = loader_labels_each(&p->data, p->data.bucket_count - 1);
  p->labels = region_alloc(&p->data.region, (size_t)(p->batch * each), sizeof *p->labels);
  p->values = region_alloc(&p->data.region, (size_t)p->output.elements, sizeof *p->values);
  RETURN_IF(p->labels == NULL || p->values == NULL, NEAP_OUT_OF_MEMORY, "prediction: out of memory");
  loader_attach_input(&p->data, task_rows[p->data.source.task.kind].label, p->labels);
  return NEAP_OK;
}

/* Writes the header of NumPy's format 1.0: a dictionary, padded so that the data begin at a multiple of 64
 * bytes. */
static bool write_header(FILE *file, const struct prediction *p) {
  char text[256];
  int length = snprintf(text, sizeof text, "{'descr': '<f4', 'fortran_order': False, 'shape': (%" PRId64 ",",
                        p->count);
  for (int i = 1; i < p->output.rank; i++)
    length += snprintf(text + length, sizeof text - (size_t)length, " %" PRId64 ",", p->output.dims[i]);
  length += snprintf(text + length, sizeof text - (size_t)length, "), }");
  const int padded = (10 + length + 1 + 63) / 64 * 64 - 10;
  fwrite("\x93NUMPY\x01\x00", 1, 8, file);
  putc(padded & 255, file);
  putc(padded >> 8, file);
  fprintf(file, "%s%*s\n", text, padded - length - 1, "");
  return ferror(file) == 0;
}

/* Counts the records whose largest value is that of the label, if the output has one for each class. */
static int64_t count_right(const struct prediction *p, int64_t count) {
  int64_t right = 0;
  for (int64_t i = 0; i < count; i++) {
    const float *row = p->values + i * p->shape.classes;
    int64_t best = 0;
    for (int64_t c = 1; c < p->shape.classes; c++)
      if (row[c] > row[best]) best = c;
    right += best == p->labels[i];
  }
  return right;
}

/* Predicts the records from `first` on; `*count`: their number. */
static neap_status predict_batch(struct prediction *p, int64_t first, int64_t *count) {
  TRY(loader_fill_at(&p->data, p->split, 0, first, count));
  TRY(neap_session_predict(p->session));
  return neap_session_output(p->session, p->output.name, NULL, p->values);
}

/* Converts values to the units of the data. */
static void restore_values(const struct prediction *p, int64_t count) {
  const int64_t each = p->rows.scale->count;
  for (int64_t i = 0; i < count * each; i++)
    p->values[i] = (float)scale_restore(p->rows.scale, i % each, (double)p->values[i]);
}

static bool write_batch(struct prediction *p, FILE *file, int64_t first, int64_t count) {
  const size_t each = (size_t)(p->output.elements / p->batch), values = (size_t)count * each;
  if (p->rows.form == PREDICTION_NPY) return fwrite(p->values, sizeof *p->values, values, file) == values;
  for (int64_t i = 0; i < count; i++)
    if (!prediction_rows_add(file, &p->rows, first + i, p->values + (size_t)i * each)) {
      p->status = NEAP_OUT_OF_MEMORY;
      snprintf(p->message, sizeof p->message, "prediction: out of memory for a line");
      return false;
    }
  return ferror(file) == 0;
}

/* Writes batch by batch; only one is in memory. */
static bool write_values(FILE *file, const void *context) {
  struct prediction *p = *(struct prediction *const *)context;
  const bool by_class = p->output.rank == 2 && p->output.dims[1] == p->shape.classes &&
                        !p->shape.regression && !p->data.source.unlabelled;
  int64_t right = 0;
  if (p->rows.form == PREDICTION_NPY && !write_header(file, p)) return false;
  prediction_rows_begin(file, &p->rows);
  for (int64_t first = 0, count; first < p->count; first += count) {
    p->status = predict_batch(p, first, &count);
    if (p->status != NEAP_OK) {
      snprintf(p->message, sizeof p->message, "%s", neap_error_message());
      return false;
    }
    if (by_class) right += count_right(p, count);
    if (p->rows.scale != NULL && p->rows.form == PREDICTION_NPY) restore_values(p, count);
    if (!write_batch(p, file, first, count)) return false;
  }
  if (by_class) p->result->accuracy = (double)right / (double)p->count;
  return true;
}

static neap_status run(struct prediction *p) {
  TRY(open_all(p));
  p->rows = (struct prediction_rows){.form = prediction_form_of(p->options->out),
                                     .source = &p->data.source,
                                     .split = p->split,
                                     .values = p->shape.regression,
                                     .count = p->shape.classes};
  if (p->shape.head == NEAP_HEAD_SENTENCE) p->rows.values = true, p->rows.count = p->output.dims[1];
  const struct source *source = &p->data.source;
  if (p->shape.regression && p->options->output == NULL)
    p->rows.scale = &source->scales[source_find_field(source, task_rows[source->kind].label)];
  RETURN_IF(p->rows.form != PREDICTION_NPY && (p->output.rank != 2 || p->output.dims[1] != p->rows.count),
            NEAP_UNSUPPORTED, "%s: output '%s' has no number for each class or value; write a .npy",
            p->options->out, p->output.name);
  struct prediction *const self = p;
  const neap_status written = file_write(p->options->out, write_values, &self);
  RETURN_IF(p->status != NEAP_OK, p->status, "%s", p->message);
  if (written != NEAP_OK) return written;
  p->result->records = p->count;
  p->result->rank = p->output.rank;
  memcpy(p->result->dims, p->output.dims, sizeof p->result->dims);
  p->result->dims[0] = p->count;
  neap_session_memory(p->session, &p->result->memory);
  return NEAP_OK;
}

neap_status neap_predict(const neap_predict_options *options, neap_predict_result *result) {
  NEED(options);
  NEED(result);
  struct prediction p = {.options = options, .result = result};
  *result = (neap_predict_result){.accuracy = -1};
  const neap_status status = run(&p);
  neap_session_free(p.session);
  neap_graph_free(p.graph);
  loader_close(&p.data);
  neap_model_close(p.own_model);
  region_free(&p.region);
  return status;
}
