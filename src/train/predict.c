/* A trained model over a data set: its outputs as a file of NumPy. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/parallel.h"
#include "run/session.h"
#include "run/variables.h"
#include "train/model_data.h"

struct prediction {
  const neap_predict_options *options;
  struct data_set data;
  const struct data_split *split;
  neap_model_options shape;
  neap_graph *graph;
  neap_session *session;
  neap_variable output;
  int64_t batch;
  int32_t *records, *labels;
  float *values; /* of a batch */
  neap_predict_result *result;
  neap_status status; /* of a batch, with what it said */
  char message[512];
};

static const char *output_name(const neap_predict_options *o) {
  return o->output != NULL ? o->output : "logits";
}

static neap_status open_all(struct prediction *p) {
  const neap_predict_options *o = p->options;
  RETURN_IF(o->model == NULL || o->weights == NULL || o->data == NULL || o->out == NULL,
            NEAP_INVALID_ARGUMENT, "a prediction needs a model, weights, data and a file to write");
  TRY(open_data(o->model, o->data, &o->shape, team_size(o->session.threads), &p->data));
  TRY(settle_shape(o->model, o->data, &o->shape, &p->data, &p->shape));
  TRY(neap_model_build(o->model, &p->shape, &p->graph));
  p->split = o->training_records ? &p->data.train : &p->data.test;
  p->batch = neap_graph_batch(p->graph);
  neap_session_options session = o->session;
  session.predict = true;
  session.byte_input = data_byte_input(&p->data);
  session.threads = team_size(o->session.threads);
  TRY(neap_session_create(p->graph, &session, &p->result->smallest_budget, &p->session));
  TRY(neap_session_load(p->session, o->weights));
  TRY(session_need_finite(p->session, o->weights));
  TRY(neap_session_output(p->session, output_name(o), &p->output, NULL));
  RETURN_IF(p->output.rank < 1 || p->output.dims[0] != p->batch, NEAP_UNSUPPORTED,
            "output '%s' has no place for each record", p->output.name);
  p->records = region_alloc(&p->data.region, (size_t)p->batch, sizeof *p->records);
  const int64_t each = p->data.length > 0 ? p->data.length : 1; /* labels of a record */
  p->labels = region_alloc(&p->data.region, (size_t)(p->batch * each), sizeof *p->labels);
  p->values = region_alloc(&p->data.region, (size_t)p->output.elements, sizeof *p->values);
  RETURN_IF(!p->records || !p->labels || !p->values, NEAP_OUT_OF_MEMORY, "prediction: out of memory");
  return NEAP_OK;
}

/* The header of NumPy's format 1.0: a dictionary, padded so that the data begin at a multiple of 64 bytes. */
static bool write_header(FILE *file, const struct prediction *p) {
  char text[256];
  int length = snprintf(text, sizeof text, "{'descr': '<f4', 'fortran_order': False, 'shape': (%" PRId64 ",",
                        p->split->count);
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

/* Of how many records the largest value is that of the label, where the output has one for each class. */
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

static neap_status predict_batch(struct prediction *p, int64_t first, int64_t count) {
  for (int64_t i = 0; i < p->batch; i++) p->records[i] = i < count ? (int32_t)(first + i) : -1;
  const struct data_batch batch = {.count = p->batch,
                                   .records = p->records,
                                   .threads = team_size(p->options->session.threads),
                                   .windows = neap_session_input(p->session, DATA_WINDOWS)};
  TRY(data_fill(&p->data, p->split, &batch, neap_session_input(p->session, data_input_name(&p->data)),
                p->labels));
  TRY(neap_session_predict(p->session));
  return neap_session_output(p->session, p->output.name, NULL, p->values);
}

/* Batch by batch: what is held is one of them. */
static bool write_values(FILE *file, const void *context) {
  struct prediction *p = *(struct prediction *const *)context;
  const int64_t each = p->output.elements / p->batch;
  const bool by_class = p->output.rank == 2 && p->output.dims[1] == p->shape.classes;
  int64_t right = 0;
  if (!write_header(file, p)) return false;
  for (int64_t first = 0; first < p->split->count; first += p->batch) {
    const int64_t count = p->split->count - first < p->batch ? p->split->count - first : p->batch;
    p->status = predict_batch(p, first, count);
    if (p->status != NEAP_OK) {
      snprintf(p->message, sizeof p->message, "%s", neap_error_message());
      return false;
    }
    if (by_class) right += count_right(p, count);
    const size_t values = (size_t)(count * each);
    if (fwrite(p->values, sizeof *p->values, values, file) != values) return false;
  }
  if (by_class) p->result->accuracy = (double)right / (double)p->split->count;
  return true;
}

static neap_status run(struct prediction *p) {
  TRY(open_all(p));
  struct prediction *const self = p;
  const neap_status written = file_write(p->options->out, write_values, &self);
  RETURN_IF(p->status != NEAP_OK, p->status, "%s", p->message);
  if (written != NEAP_OK) return written;
  p->result->records = p->split->count;
  p->result->rank = p->output.rank;
  memcpy(p->result->dims, p->output.dims, sizeof p->result->dims);
  p->result->dims[0] = p->split->count;
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
  data_close(&p.data);
  return status;
}
