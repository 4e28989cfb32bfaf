/* lockstep MODEL BATCH CHANNELSxHEIGHTxWIDTH CLASSES BUDGET INIT STATE [THREADS] [cpu|reference]
 *
 * Trains on the batches that another program gives, so that both do the same and can be compared after every
 * step. INIT is a safetensors file with the parameters to start from. For each record on standard input, in
 * this machine's byte order: learning rate (f32), images [batch, channels, height, width] (f32), labels
 * [batch] (i32), runs one step of SGD (momentum 0.9, weight decay 5e-4), writes all variables to the
 * safetensors file STATE, and prints the loss. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "neap.h"

struct arguments {
  const char *model, *budget, *initial, *state;
  neap_model_options shape;
  int threads;
  neap_backend backend;
};

/* Whether `count` elements were read; false at the end of the records. */
static bool receive(void *data, size_t size, size_t count) {
  return fread(data, size, count, stdin) == count;
}

static neap_status follow(const struct arguments *a, neap_session *session) {
  const size_t labels = (size_t)a->shape.batch;
  const size_t pixels = labels * (size_t)(a->shape.image[0] * a->shape.image[1] * a->shape.image[2]);
  void *image = neap_session_input(session, "image"), *label = neap_session_input(session, "label");
  float rate;
  neap_status status = neap_session_load(session, a->initial);
  while (status == NEAP_OK && receive(&rate, sizeof rate, 1) && receive(image, sizeof(float), pixels) &&
         receive(label, sizeof(int32_t), labels)) {
    neap_step_result result;
    status = neap_session_step(session, rate, &result);
    if (status == NEAP_OK) status = neap_session_save(session, a->state);
    if (status != NEAP_OK) break;
    printf("%.17g\n", result.loss);
    fflush(stdout);
  }
  return status;
}

static neap_status run(const struct arguments *a) {
  neap_session_options options = {
      .momentum = 0.9f, .weight_decay = 5e-4f, .threads = a->threads, .backend = a->backend};
  neap_model *model = NULL;
  neap_graph *graph = NULL;
  neap_session *session = NULL;
  neap_status status = neap_budget_parse(a->budget, &options.budget, &options.budget_fraction);
  if (status == NEAP_OK) status = neap_model_open(a->model, &model);
  if (status == NEAP_OK) status = neap_model_build(model, &a->shape, &graph);
  neap_model_close(model);
  if (status == NEAP_OK) status = neap_session_create(graph, &options, NULL, &session);
  if (status == NEAP_OK) status = follow(a, session);
  neap_session_free(session);
  neap_graph_free(graph);
  return status;
}

int main(int count, char **text) {
  long long channels, height, width;
  if (count < 8 || sscanf(text[3], "%lldx%lldx%lld", &channels, &height, &width) != 3) {
    fputs("usage: lockstep MODEL BATCH CHANNELSxHEIGHTxWIDTH CLASSES BUDGET INIT STATE [THREADS] "
          "[cpu|reference]\n",
          stderr);
    return 2;
  }
  const struct arguments arguments = {
      .model = text[1],
      .budget = text[5],
      .initial = text[6],
      .state = text[7],
      .shape = {.batch = strtoll(text[2], NULL, 10),
                .image = {channels, height, width},
                .classes = strtoll(text[4], NULL, 10)},
      .threads = count > 8 ? atoi(text[8]) : omp_get_num_procs(),
      .backend = count > 9 && strcmp(text[9], "reference") == 0 ? NEAP_REFERENCE : NEAP_CPU};
  if (run(&arguments) == NEAP_OK) return 0;
  fprintf(stderr, "lockstep: %s\n", neap_error_message());
  return 1;
}
