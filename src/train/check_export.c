#include "train/check_export.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory_status.h"
#include "base/parallel.h"
#include "base/random.h"
#include "graph/graph.h"
#include "model/model.h"
#include "op/op.h"
#include "train/adapter_folder.h"
#include "train/base_weights.h"
#include "train/export_language.h"

enum { BATCH_LIMIT = 2, LENGTH_LIMIT = 16, PROBE_INPUTS = 8 };

/* A batch that both networks are given, and what each makes of it. */
struct probe {
  int count;
  size_t bytes[PROBE_INPUTS];
  void *inputs[PROBE_INPUTS];
  float *outputs[2];
  int64_t elements[2];
  bool experts; /* whether the run's network has some */
};

static void probe_free(struct probe *p) {
  for (int i = 0; i < p->count; i++) free(p->inputs[i]);
  for (int i = 0; i < 2; i++) free(p->outputs[i]);
}

/* ---- The batch ---- */

/* Returns how many rows the tables have that an input selects rows of; 1: none does. */
static int64_t rows_selected(const struct neap_graph *graph, int32_t input) {
  int64_t rows = INT32_MAX;
  for (size_t k = 0; k < graph->nodes.count; k++) {
    const struct node *n = &graph->nodes.data[k];
    if (n->op != OP_GATHER || graph_storage(graph, n->inputs[1]) != input) continue;
    const int64_t table = graph->tensors.data[n->inputs[0]].dims[0];
    if (table < rows) rows = table;
  }
  return rows == INT32_MAX ? 1 : rows;
}

/* Draws numbers of about the size that normalised data have, or numbers of rows. */
static void draw(const struct neap_graph *graph, int32_t input, int number, void *data) {
  const struct tensor *t = &graph->tensors.data[input];
  const int64_t rows = t->dtype == NEAP_I32 ? rows_selected(graph, input) : 0;
  for (int64_t i = 0; i < t->elements; i++) {
    uint32_t words[4];
    random_philox(1, (uint64_t)number, (uint64_t)i, words);
    if (t->dtype == NEAP_I32)
      ((int32_t *)data)[i] = (int32_t)random_below(words[0], (uint64_t)rows);
    else
      ((float *)data)[i] =
          random_uniform(words[0]) + random_uniform(words[1]) + random_uniform(words[2]) - 1.5f;
  }
}

static bool has_experts(const struct neap_graph *graph) {
  for (size_t k = 0; k < graph->nodes.count; k++)
    if (graph->nodes.data[k].op == OP_EXPERT_LINEAR) return true;
  return false;
}

/* Fills the inputs of a session: draws those of the first, and keeps them for the second. */
static neap_status fill(const struct neap_graph *graph, neap_session *session, int which, struct probe *p) {
  int number = 0;
  for (int32_t t = 0; t < (int32_t)graph->tensors.count; t++) {
    const struct tensor *input = &graph->tensors.data[t];
    void *data = input->role == NEAP_ROLE_INPUT && input->view_of < 0
                     ? neap_session_input(session, input->name)
                     : NULL;
    if (data == NULL) continue;
    const size_t bytes = (size_t)input->elements * sizeof(float);
    RETURN_IF((input->dtype != NEAP_F32 && input->dtype != NEAP_I32) || number == PROBE_INPUTS,
              NEAP_UNSUPPORTED, "input '%s' is of a kind that is not drawn", input->name);
    if (which == 0) {
      void *copy = malloc(bytes);
      RETURN_IF(copy == NULL, NEAP_OUT_OF_MEMORY, "out of memory for a batch");
      p->inputs[number] = copy;
      p->bytes[number] = bytes;
      p->count = number + 1;
      draw(graph, t, number, copy);
    }
    RETURN_IF(number >= p->count || p->bytes[number] != bytes, NEAP_BAD_FORMAT,
              "its input '%s' has another shape than the run's", input->name);
    memcpy(data, p->inputs[number++], bytes);
  }
  return NEAP_OK;
}

/* ---- The two networks ---- */

static neap_status load(const struct export_check *c, bool written, const neap_model *model,
                        const neap_model_options *shape, const neap_session_options *options,
                        neap_session *session) {
  const neap_export_options *o = c->options;
  if (written && c->kind != EXPORT_ADAPTERS) return neap_model_load(model, shape, session);
  if (c->weights == NULL) return neap_model_load(c->model, shape, session);
  TRY(base_weights_take(o->checkpoint, c->model, shape, session));
  return written ? adapter_folder_read(o->out, options, shape->side, session)
                 : neap_session_load(session, c->weights);
}

static neap_status take_output(const neap_session *session, const neap_model_options *shape, int which,
                               struct probe *p) {
  const char *name = shape->head == NEAP_HEAD_SENTENCE ? "sentence"
                     : shape->regression               ? "prediction"
                                                       : "logits";
  neap_variable output;
  TRY(neap_session_output(session, name, &output, NULL));
  p->elements[which] = output.elements;
  p->outputs[which] = malloc((size_t)output.elements * sizeof *p->outputs[which]);
  RETURN_IF(p->outputs[which] == NULL, NEAP_OUT_OF_MEMORY, "out of memory for outputs");
  return neap_session_output(session, name, NULL, p->outputs[which]);
}

/* Frozen weights keep the types of their file, and stay on disk where memory does not suffice for them. */
static neap_session_options session_of(const struct export_check *c, bool written, const neap_model *model) {
  neap_session_options s = {.predict = true, .budget = NEAP_BUDGET_AVAILABLE, .plan_quick = true};
  if (!written || c->kind == EXPORT_ADAPTERS) {
    s.lora = c->session->lora;
    s.lora_alpha = c->session->lora_alpha;
    s.lora_layers = c->session->lora_layers;
    s.lora_rs = c->session->lora_rs;
    s.lora_dora = c->session->lora_dora;
    s.freeze = c->session->freeze;
  }
  const bool adapted = s.lora > 0 || c->shape->side > 0;
  if (neap_model_is_language(model) && (written || c->weights == NULL || adapted)) s.store = "*=file";
  s.process_budget = c->options->process_budget;
  if (s.process_budget > 0) s.budget = 0;
  neap_available available;
  if (s.process_budget == 0 && neap_memory_available(&available) != NEAP_OK) s.budget = NEAP_BUDGET_MAX;
  s.threads = team_size(0);
  return s;
}

/* Opens the file that was written. */
static neap_status open_written(const struct export_check *c, neap_model **model) {
  char onnx[4096 + 8];
  if (c->kind != EXPORT_ONNX) return neap_model_open(c->options->out, model);
  snprintf(onnx, sizeof onnx, "onnx:%s", c->options->out);
  return neap_model_open(onnx, model);
}

static neap_status predict_with(const struct export_check *c, bool written, const neap_model *model,
                                const neap_model_options *shape, struct probe *p) {
  const neap_session_options options = session_of(c, written, model);
  neap_graph *graph = NULL;
  neap_session *session = NULL;
  uint64_t smallest = 0;
  neap_status status = neap_model_build(model, shape, &graph);
  if (status == NEAP_OK) status = neap_session_create(graph, &options, &smallest, &session);
  if (status == NEAP_OVER_BUDGET)
    status =
        neap_fail(NEAP_OVER_BUDGET, "it needs a process budget of %llu bytes", (unsigned long long)smallest);
  if (status == NEAP_OK) status = load(c, written, model, shape, &options, session);
  if (status == NEAP_OK) status = fill(graph, session, written, p);
  if (status == NEAP_OK && !written) p->experts = has_experts(graph);
  if (status == NEAP_OK) status = neap_session_predict(session);
  if (status == NEAP_OK) status = take_output(session, shape, written, p);
  neap_session_free(session);
  neap_graph_free(graph);
  return status;
}

static neap_status predict(const struct export_check *c, bool written, const neap_model_options *shape,
                           struct probe *p) {
  neap_model *own = NULL;
  neap_status status = written && c->kind != EXPORT_ADAPTERS ? open_written(c, &own) : NEAP_OK;
  if (status == NEAP_OK) status = predict_with(c, written, own != NULL ? own : c->model, shape, p);
  neap_model_close(own);
  memory_status_trim();
  return status;
}

/* ---- The comparison ---- */

/* Returns the root of the mean square of the differences over that of the run's outputs; infinite if one of
 * the two has numbers that are not finite where the other has not. */
static double difference_of(const struct probe *p) {
  double differences = 0, squares = 0;
  if (p->elements[0] != p->elements[1]) return INFINITY;
  for (int64_t i = 0; i < p->elements[0]; i++) {
    const double a = (double)p->outputs[0][i], b = (double)p->outputs[1][i];
    if (a == b || (isnan(a) && isnan(b))) continue;
    if (!isfinite(a) || !isfinite(b)) return INFINITY;
    differences += (a - b) * (a - b);
  }
  for (int64_t i = 0; i < p->elements[0]; i++) {
    const double a = (double)p->outputs[0][i];
    if (isfinite(a)) squares += a * a;
  }
  if (differences == 0) return 0;
  return sqrt(differences / fmax(squares, 1e-12 * (double)p->elements[0]));
}

/* Returns the change of outputs, as a share of their size, that rounding weights to a type may cause: some
 * tens of times the change that one rounding makes to a number. */
static double allowed_for(neap_dtype type) {
  switch (type) {
  case NEAP_F16:
    return 1e-2;
  case NEAP_BF16:
    return 8e-2;
  case NEAP_Q8_0:
    return 8e-2;
  default:
    return 1e-4;
  }
}

/* Returns the shape by which the written file is read: an ONNX file has what the shape chose when it was
 * written. */
static neap_model_options written_shape(const struct export_check *c, const neap_model_options *shape) {
  neap_model_options own = *shape;
  if (c->kind == EXPORT_ONNX) {
    own.window = 0;
    own.attention = NULL;
  }
  return own;
}

/* Returns a shape for a small batch; short texts where the model takes any length, which an ONNX file does
 * not. */
static neap_model_options shape_of(const struct export_check *c, int64_t batch) {
  neap_model_options shape = *c->shape;
  const bool language = neap_model_is_language(c->model);
  shape.decode = 0;
  if (batch > 0)
    shape.batch = batch;
  else if (language)
    shape.batch = 1;
  else
    shape.batch = BATCH_LIMIT;
  if (language && c->kind != EXPORT_ONNX && shape.image[0] == 0 &&
      (shape.length == 0 || shape.length > LENGTH_LIMIT))
    shape.length = LENGTH_LIMIT;
  return shape;
}

/* Says that the file was not compared, where that is no fault of it. */
static neap_status leave(neap_export_result *result, neap_status status, const char *why) {
  if (status != NEAP_UNSUPPORTED && status != NEAP_OVER_BUDGET && status != NEAP_OUT_OF_MEMORY) return status;
  snprintf(result->unchecked, sizeof result->unchecked, "%s: %s", why, neap_error_message());
  return NEAP_OK;
}

static neap_status compare(const struct export_check *c, struct probe *p, neap_export_result *result) {
  const char *out = c->options->out;
  neap_model_options shape = shape_of(c, result->batch);
  neap_status status = predict(c, false, &shape, p);
  if (status != NEAP_OK) return leave(result, status, "the run's network does not predict here");
  if (p->experts && (c->kind == EXPORT_ADAPTERS || c->dtype != NEAP_F32)) {
    snprintf(result->unchecked, sizeof result->unchecked, "%s",
             c->kind == EXPORT_ADAPTERS ? "adapters of experts are not read back"
                                        : "rounded weights choose other experts");
    return NEAP_OK;
  }
  shape = written_shape(c, &shape);
  status = predict(c, true, &shape, p);
  if (status == NEAP_UNSUPPORTED || status == NEAP_OVER_BUDGET || status == NEAP_OUT_OF_MEMORY)
    return leave(result, status, "the file is not read back");
  if (status != NEAP_OK) {
    char message[512];
    snprintf(message, sizeof message, "%s", neap_error_message());
    return neap_fail(
        NEAP_BAD_FORMAT,
        "%s: was written, but cannot be read back (%s); do not use it, and report this, or leave "
        "the check out",
        out, message);
  }
  result->allowed = allowed_for(c->dtype);
  result->difference = difference_of(p);
  RETURN_IF(
      !(result->difference <= result->allowed), NEAP_BAD_FORMAT,
      "%s: was written and read back, and gives other outputs than the run: on one batch they differ by "
      "%.2g of their size (at most %.2g is rounding); do not use it, and report this, or leave the check "
      "out",
      out, result->difference, result->allowed);
  result->checked = true;
  return NEAP_OK;
}

neap_status export_check(const struct export_check *c, neap_export_result *result) {
  struct probe p = {0};
  if (c->kind == EXPORT_ADAPTERS && export_is_gguf(c->options->out)) {
    snprintf(result->unchecked, sizeof result->unchecked, "adapters in a GGUF file are not read back");
    return NEAP_OK;
  }
  if (c->kind == EXPORT_ADAPTERS && !neap_model_is_language(c->model)) {
    snprintf(result->unchecked, sizeof result->unchecked,
             "the folder does not have the weights that the adapters are for");
    return NEAP_OK;
  }
  const neap_status status = compare(c, &p, result);
  probe_free(&p);
  return status;
}
