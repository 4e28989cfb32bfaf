/* Networks of pairs of sequences beside the papers' formulas: plain loops in double over one pair at a time,
 * as long as it is, so that there is no padding. Gradients are compared with central differences of them. */
#include <math.h>

#include "effort.h"
#include "model/model.h"
#include "session_help.h"

enum {
  PAIRS = 3,
  SOURCE = 6,
  TARGET = 5,
  WIDTH = 8,
  HEADS = 4,
  HEAD = WIDTH / HEADS,
  WORDS = 7,
  LAYERS = 7,
  VARIABLES = 512,
  MOST = 8 * HEADS * 31 /* elements of a matrix */
};

static neap_status build_decoder_named(const char *name, const neap_model_options *shape, int64_t beams,
                                       neap_graph **graph) {
  neap_model *model;
  TRY(neap_model_open(name, &model));
  const neap_status status = model_build_decoder(model, shape, beams, graph);
  neap_model_close(model);
  return status;
}

struct batch {
  int32_t source[PAIRS][SOURCE], lengths[PAIRS], tokens[PAIRS][TARGET], labels[PAIRS][TARGET];
};

/* Beyond the lengths stand words like any others. */
static const struct batch batch = {.source = {{3, 1, 4, 1, 5, 2}, {6, 5, 3, 5, 1, 1}, {2, 0, 6, 4, 3, 3}},
                                   .lengths = {6, 2, 1},
                                   .tokens = {{2, 6, 4, 3, 1}, {2, 5, 5, 1, 0}, {2, 4, 6, 2, 2}},
                                   .labels = {{6, 4, 3, 1, 2}, {5, 5, 2, -1, -1}, {4, -1, -1, -1, -1}}};
static const double smoothing = 0.1; /* of labels, in training */

/* ---- Parameters by name ---- */

struct parameter {
  char name[64];
  int64_t rows, columns; /* a vector has one row */
  double *data;
};

struct model {
  const char *name;
  int layers[2];       /* of encoder and decoder */
  int taps[2][LAYERS]; /* of their convolutions; 0: attention */
  bool dynamic;
  struct parameter parameters[VARIABLES];
  int count;
};

static const struct parameter *find(const struct model *m, const char *scope, int layer, const char *part) {
  char name[64];
  if (layer > 0)
    snprintf(name, sizeof name, "%s%d.%s", scope, layer, part);
  else
    snprintf(name, sizeof name, "%s.%s", scope, part);
  for (int i = 0; i < m->count; i++)
    if (strcmp(m->parameters[i].name, name) == 0) return &m->parameters[i];
  fail_msg("%s has no parameter %s", m->name, name);
  return NULL;
}

/* ---- The papers' formulas ---- */

struct matrix {
  int rows, columns;
  double at[MOST];
};

/* Where a layer stands. */
struct place {
  const struct model *model;
  const char *scope;
  int layer;
};

/* x W^T + b with rows `first` to `first + columns` of W. */
static struct matrix linear_rows(struct place p, const struct matrix *x, const char *part, bool bias,
                                 int first, int columns) {
  char name[32];
  snprintf(name, sizeof name, "%s.weight", part);
  const struct parameter *w = find(p.model, p.scope, p.layer, name);
  snprintf(name, sizeof name, "%s.bias", part);
  const struct parameter *b = bias ? find(p.model, p.scope, p.layer, name) : NULL;
  assert_int_equal(w->columns, x->columns);
  assert_true(first + columns <= w->rows && x->rows * columns <= MOST);
  struct matrix y = {.rows = x->rows, .columns = columns};
  for (int t = 0; t < y.rows; t++)
    for (int o = 0; o < columns; o++) {
      double sum = bias ? b->data[first + o] : 0;
      for (int i = 0; i < x->columns; i++)
        sum += x->at[t * x->columns + i] * w->data[(first + o) * w->columns + i];
      y.at[t * columns + o] = sum;
    }
  return y;
}

static struct matrix linear(struct place p, const struct matrix *x, const char *part, bool bias,
                            int columns) {
  return linear_rows(p, x, part, bias, 0, columns);
}

static void softmax(double *x, int count) {
  double most = -INFINITY, sum = 0;
  for (int i = 0; i < count; i++) most = fmax(most, x[i]);
  for (int i = 0; i < count; i++) sum += x[i] = exp(x[i] - most);
  for (int i = 0; i < count; i++) x[i] /= sum;
}

/* LayerNorm(x + y), the number `index` of its layer. */
static struct matrix add_norm(struct place p, const struct matrix *x, const struct matrix *y, int index) {
  char name[32];
  snprintf(name, sizeof name, "row_norm%d.gamma", index);
  const struct parameter *gamma = find(p.model, p.scope, p.layer, name);
  snprintf(name, sizeof name, "row_norm%d.beta", index);
  const struct parameter *beta = find(p.model, p.scope, p.layer, name);
  struct matrix z = *x;
  for (int t = 0; t < z.rows; t++) {
    double mean = 0, square = 0, *row = z.at + t * WIDTH;
    for (int c = 0; c < WIDTH; c++) mean += (row[c] += y->at[t * WIDTH + c]) / WIDTH;
    for (int c = 0; c < WIDTH; c++) square += (row[c] - mean) * (row[c] - mean) / WIDTH;
    for (int c = 0; c < WIDTH; c++)
      row[c] = (row[c] - mean) / sqrt(square + 1e-5) * gamma->data[c] + beta->data[c];
  }
  return z;
}

/* softmax(Q K^T / sqrt(depth)) V by head. `causal`: a query sees no later key. */
static struct matrix attention(const struct matrix *q, const struct matrix *k, const struct matrix *v,
                               bool causal) {
  struct matrix y = {.rows = q->rows, .columns = WIDTH};
  for (int h = 0; h < WIDTH; h += HEAD)
    for (int i = 0; i < q->rows; i++) {
      double weights[SOURCE > TARGET ? SOURCE : TARGET];
      const int seen = causal ? i + 1 : k->rows;
      for (int j = 0; j < seen; j++) {
        weights[j] = 0;
        for (int d = h; d < h + HEAD; d++) weights[j] += q->at[i * WIDTH + d] * k->at[j * WIDTH + d];
        weights[j] /= sqrt(HEAD);
      }
      softmax(weights, seen);
      for (int j = 0; j < seen; j++)
        for (int d = h; d < h + HEAD; d++) y.at[i * WIDTH + d] += weights[j] * v->at[j * WIDTH + d];
    }
  return y;
}

static struct matrix self_attention(struct place p, const struct matrix *x, bool causal) {
  const struct matrix q = linear_rows(p, x, "qkv", true, 0, WIDTH),
                      k = linear_rows(p, x, "qkv", true, WIDTH, WIDTH),
                      v = linear_rows(p, x, "qkv", true, 2 * WIDTH, WIDTH), y = attention(&q, &k, &v, causal);
  return linear(p, &y, "projection", true, WIDTH);
}

static struct matrix cross_attention(struct place p, const struct matrix *x, const struct matrix *memory) {
  const struct matrix q = linear(p, x, "query", true, WIDTH), k = linear(p, memory, "key", true, WIDTH),
                      v = linear(p, memory, "value", true, WIDTH), y = attention(&q, &k, &v, false);
  return linear(p, &y, "attended", true, WIDTH);
}

/* Wu et al. 2019, equations 3 to 5: the softmax over taps of weights that all times share, or that each
 * makes. Tap k of time t reads time t + k - before. */
static struct matrix convolution(struct place p, const struct matrix *embedded, int taps, int before) {
  const struct matrix x = linear(p, embedded, "input", true, WIDTH);
  struct matrix y = {.rows = x.rows, .columns = WIDTH}, kernels = {0};
  if (p.model->dynamic) kernels = linear(p, &x, "kernels", false, HEADS * taps);
  for (int t = 0; t < x.rows; t++)
    for (int h = 0; h < HEADS; h++) {
      double w[31];
      const double *from = p.model->dynamic
                               ? kernels.at + t * HEADS * taps + h * taps
                               : find(p.model, p.scope, p.layer, "kernels.weight")->data + h * taps;
      memcpy(w, from, (size_t)taps * sizeof *w);
      softmax(w, taps);
      for (int k = 0; k < taps; k++)
        for (int c = h * HEAD; t + k - before >= 0 && t + k - before < x.rows && c < (h + 1) * HEAD; c++)
          y.at[t * WIDTH + c] += w[k] * x.at[(t + k - before) * WIDTH + c];
    }
  return linear(p, &y, "projection", true, WIDTH);
}

static struct matrix feed_forward(struct place p, const struct matrix *x) {
  struct matrix hidden = linear(p, x, "hidden", true, 2 * WIDTH);
  for (int i = 0; i < hidden.rows * hidden.columns; i++) hidden.at[i] = fmax(0, hidden.at[i]);
  return linear(p, &hidden, "output", true, WIDTH);
}

/* Embeddings times the root of the width, and sinusoids of positions from 2 on: sines, then cosines. */
static struct matrix embed(const struct model *m, const int32_t *tokens, int count) {
  const double *table = find(m, "token", 0, "weight")->data;
  struct matrix x = {.rows = count, .columns = WIDTH};
  for (int t = 0; t < count; t++)
    for (int c = 0; c < WIDTH; c++) {
      const int half = WIDTH / 2;
      const double angle = (t + 2) * exp(-log(10000) / (half - 1) * (c % half));
      x.at[t * WIDTH + c] = sqrt(WIDTH) * table[tokens[t] * WIDTH + c] + (c < half ? sin(angle) : cos(angle));
    }
  return x;
}

/* The encoder, or where there is something to look at, the decoder. */
static struct matrix run_layers(const struct model *m, struct matrix x, const struct matrix *memory) {
  const bool decoder = memory != NULL;
  for (int i = 0; i < m->layers[decoder]; i++) {
    const struct place p = {m, decoder ? "decoder" : "encoder", i + 1};
    const int taps = m->taps[decoder][i];
    struct matrix y =
        taps == 0 ? self_attention(p, &x, decoder) : convolution(p, &x, taps, decoder ? taps - 1 : taps / 2);
    int norms = 1;
    x = add_norm(p, &x, &y, norms++);
    if (decoder) {
      y = cross_attention(p, &x, memory);
      x = add_norm(p, &x, &y, norms++);
    }
    y = feed_forward(p, &x);
    x = add_norm(p, &x, &y, norms);
  }
  return x;
}

/* The mean over labels of the cross-entropy, with labels that are smoothed. */
static double loss_by_hand(const struct model *m, double share) {
  const double *table = find(m, "token", 0, "weight")->data;
  double sum = 0;
  int count = 0;
  for (int n = 0; n < PAIRS; n++) {
    const struct matrix memory = run_layers(m, embed(m, batch.source[n], batch.lengths[n]), NULL),
                        x = run_layers(m, embed(m, batch.tokens[n], TARGET), &memory);
    for (int t = 0; t < TARGET; t++) {
      if (batch.labels[n][t] < 0) continue;
      double p[WORDS] = {0};
      for (int w = 0; w < WORDS; w++)
        for (int c = 0; c < WIDTH; c++) p[w] += x.at[t * WIDTH + c] * table[w * WIDTH + c];
      softmax(p, WORDS);
      for (int w = 0; w < WORDS; w++)
        sum -= (share / WORDS + (w == batch.labels[n][t] ? 1 - share : 0)) * log(p[w]);
      count++;
    }
  }
  return sum / count;
}

/* ---- Beside a session ---- */

static neap_session *open_model(const struct model *m, neap_backend backend) {
  const neap_model_options shape = {.batch = PAIRS,
                                    .classes = WORDS,
                                    .length = TARGET,
                                    .source_length = SOURCE,
                                    .smoothing = (float)smoothing};
  const neap_session_options options = {
      .budget = NEAP_BUDGET_MAX, .planner = "keep-all", .backend = backend, .threads = 1};
  neap_graph *graph;
  neap_session *s;
  ASSERT_OK(build_named(m->name, &shape, &graph));
  ASSERT_OK(neap_session_create(graph, &options, NULL, &s));
  int32_t *source = neap_session_input(s, "source");
  memcpy(source, batch.source, sizeof batch.source);
  for (int n = 0; n < PAIRS; n++)
    for (int i = batch.lengths[n]; i < SOURCE; i++) source[n * SOURCE + i] = -1;
  memcpy(neap_session_input(s, "tokens"), batch.tokens, sizeof batch.tokens);
  memcpy(neap_session_input(s, "label"), batch.labels, sizeof batch.labels);
  neap_graph_free(graph);
  return s;
}

/* Random parameters, biases and norms as well, in the session and in the model. */
static void fill_parameters(struct model *m, neap_session *s) {
  m->count = neap_session_variable_count(s);
  assert_true(m->count <= VARIABLES);
  for (int32_t v = 0; v < m->count; v++) {
    neap_variable variable;
    ASSERT_OK(neap_session_variable(s, v, &variable));
    struct parameter *p = &m->parameters[v];
    snprintf(p->name, sizeof p->name, "%s", variable.name);
    p->columns = variable.dims[variable.rank - 1];
    p->rows = variable.elements / p->columns;
    p->data = malloc((size_t)variable.elements * sizeof *p->data);
    float *data = malloc((size_t)variable.elements * sizeof *data);
    assert_true(p->data != NULL && data != NULL);
    const bool scale = strstr(p->name, "gamma") != NULL;
    const double spread = variable.rank > 1 ? 1.7 / sqrt((double)p->columns) : 0.4;
    for (int64_t i = 0; i < variable.elements; i++) {
      uint32_t word[4];
      random_philox(5, (uint64_t)v, (uint64_t)i, word);
      data[i] = (float)(scale + spread * (2 * (double)random_uniform(word[0]) - 1));
      p->data[i] = (double)data[i];
    }
    ASSERT_OK(neap_session_write(s, v, data));
    free(data);
  }
}

static void free_parameters(struct model *m) {
  for (int i = 0; i < m->count; i++) free(m->parameters[i].data);
}

/* Of the step of SGD that tells the gradients: so large that what it takes off is not rounded away. */
static const double rate = 65536;

/* A session's gradients after that step. The caller frees them. */
static float *gradients_of(neap_session *s, const struct model *m, int32_t v) {
  const struct parameter *p = &m->parameters[v];
  float *data = malloc((size_t)(p->rows * p->columns) * sizeof *data);
  assert_non_null(data);
  ASSERT_OK(neap_session_read(s, v, data));
  for (int64_t i = 0; i < p->rows * p->columns; i++) data[i] = (float)((p->data[i] - (double)data[i]) / rate);
  return data;
}

/* Central differences of step h and 2h, and their limit; not `smooth` where ReLU has a kink between. */
static double difference(const struct model *m, double *parameter, double tolerance, bool *smooth) {
  const double h = 1e-5, w = *parameter;
  double slope[2];
  for (int i = 0; i < 2; i++) {
    *parameter = w + h * (i + 1);
    slope[i] = loss_by_hand(m, smoothing);
    *parameter = w - h * (i + 1);
    slope[i] = (slope[i] - loss_by_hand(m, smoothing)) / (2 * h * (i + 1));
  }
  *parameter = w;
  *smooth = fabs(slope[0] - slope[1]) <= tolerance;
  return (4 * slope[0] - slope[1]) / 3;
}

/* All the gradient of a bias of keys is rounding: it moves all scores of a query alike. */
static bool says_nothing(const char *name) { return strstr(name, "key.bias") != NULL; }

static double largest(const float *values, int64_t count) {
  double most = 0;
  for (int64_t i = 0; i < count; i++) most = fmax(most, fabs((double)values[i]));
  return most;
}

/* The sessions of the two backends, and how near they come. */
enum { BACKENDS = 2 };
static const struct {
  neap_backend backend;
  double precision;
} backends[BACKENDS] = {{NEAP_REFERENCE, 1e-5}, {NEAP_CPU, 1e-4}};

/* Of some elements of a parameter. Gives how many could be compared. */
static int compare_gradients(const struct model *m, const struct parameter *p,
                             float *const gradients[BACKENDS]) {
  enum { TRIED = 3 };
  const int64_t elements = p->rows * p->columns;
  const double most = largest(gradients[0], elements), unit = fmax(most, 1e-2);
  int compared = 0;
  if (!says_nothing(p->name) && !(most > 1e-5))
    fail_msg("%s: no gradient comes to %s (%g)", m->name, p->name, most);
  for (int64_t k = 0; k < TRIED; k++) {
    const int64_t i = k * (elements - 1) / (TRIED - 1);
    bool smooth;
    const double expected = difference(m, p->data + i, backends[0].precision * unit, &smooth);
    for (int b = 0; smooth && b < BACKENDS; b++)
      if (!(fabs((double)gradients[b][i] - expected) <= backends[b].precision * unit))
        fail_msg("%s: d loss / d %s[%lld] is %.9g, by differences %.9g", m->name, p->name, (long long)i,
                 (double)gradients[b][i], expected);
    compared += smooth;
  }
  return compared;
}

static void check_loss(const struct model *m, double loss, double expected) {
  if (!(fabs(loss - expected) <= 1e-6 * expected))
    fail_msg("%s: the loss is %.9g, by the formulas %.9g", m->name, loss, expected);
}

static void check_model(struct model *m) {
  neap_session *sessions[BACKENDS];
  int compared = 0;
  for (int b = 0; b < BACKENDS; b++) {
    neap_step_result result;
    sessions[b] = open_model(m, backends[b].backend);
    fill_parameters(m, sessions[b]);
    ASSERT_OK(neap_session_evaluate(sessions[b], &result));
    check_loss(m, result.loss, loss_by_hand(m, 0));
    ASSERT_OK(neap_session_step(sessions[b], (float)rate, &result));
    check_loss(m, result.loss, loss_by_hand(m, smoothing));
    if (b + 1 < BACKENDS) free_parameters(m);
  }
  for (int32_t v = 0; v < m->count; v++) {
    float *gradients[BACKENDS];
    for (int b = 0; b < BACKENDS; b++) gradients[b] = gradients_of(sessions[b], m, v);
    compared += compare_gradients(m, &m->parameters[v], gradients);
    for (int b = 0; b < BACKENDS; b++) free(gradients[b]);
  }
  assert_true(compared >= 2 * m->count);
  free_parameters(m);
  for (int b = 0; b < BACKENDS; b++) neap_session_free(sessions[b]);
}

static struct model models[] = {
    {.name = "transformer-8", .layers = {6, 6}},
    {.name = "lightconv-8", .layers = {7, 6}, .taps = {{3, 7, 15, 31, 31, 31, 31}, {3, 7, 15, 31, 31, 31}}},
    {.name = "dynamicconv-8",
     .layers = {7, 6},
     .taps = {{3, 7, 15, 31, 31, 31, 31}, {3, 7, 15, 31, 31, 31}},
     .dynamic = true}};
enum { MODELS = sizeof models / sizeof *models };

/* ---- What translates, beside the same network over whole targets ---- */

enum { BEAMS = 3, LONG = 37, ROWS = PAIRS * BEAMS };

/* Each source has as many targets as there are beams. */
static int32_t word_of(int n, int target, int t) { return (7 * n + 3 * target + 5 * t + t * t) % WORDS; }

static neap_session *open_predicting(const char *name, int64_t beams, const neap_session_options *given) {
  const neap_model_options shape = {
      .batch = PAIRS, .classes = WORDS, .length = LONG, .source_length = SOURCE, .dropout = 0.5f};
  neap_session_options options = *given;
  neap_graph *graph;
  neap_session *s;
  options.predict = true;
  if (beams > 0)
    ASSERT_OK(build_decoder_named(name, &shape, beams, &graph));
  else
    ASSERT_OK(build_named(name, &shape, &graph));
  ASSERT_OK(neap_session_create(graph, &options, NULL, &s));
  int32_t *source = neap_session_input(s, "source");
  for (int n = 0; n < PAIRS; n++)
    for (int i = 0; i < SOURCE; i++) source[n * SOURCE + i] = i < batch.lengths[n] ? batch.source[n][i] : -1;
  neap_graph_free(graph);
  return s;
}

/* The logits [PAIRS, LONG, WORDS] of a target of each source, made all at once. */
static float *whole_logits(neap_session *s, int target) {
  int32_t *tokens = neap_session_input(s, "tokens");
  float *logits = malloc(PAIRS * LONG * WORDS * sizeof *logits);
  assert_non_null(logits);
  for (int n = 0; n < PAIRS; n++)
    for (int t = 0; t < LONG; t++) tokens[n * LONG + t] = word_of(n, target, t);
  ASSERT_OK(neap_session_predict(s));
  ASSERT_OK(neap_session_output(s, "logits", NULL, logits));
  return logits;
}

/* At time t row h of a source is about target (h + t) % BEAMS: all rows change places at each step. */
static void fill_time(neap_session *decoder, int t) {
  int32_t *tokens = neap_session_input(decoder, "tokens"), *parent = neap_session_input(decoder, "parent"),
          *held = neap_session_input(decoder, "held");
  *(int32_t *)neap_session_input(decoder, "position") = t;
  for (int row = 0; row < ROWS; row++) {
    const int n = row / BEAMS, h = row % BEAMS, before = n * BEAMS + (h + 1) % BEAMS;
    tokens[row] = word_of(n, (h + t) % BEAMS, t);
    if (parent != NULL) parent[row] = t == 0 ? -1 : before;
    for (int i = 0; held != NULL && i < LONG; i++)
      held[row * LONG + i] = i < t ? before * LONG + i : i == t ? ROWS * LONG + row : -1;
  }
}

/* The largest difference at time t. */
static double compare_time(neap_session *decoder, float *const whole[BEAMS], int t) {
  float logits[ROWS * WORDS];
  double most = 0;
  fill_time(decoder, t);
  ASSERT_OK(neap_session_predict(decoder));
  ASSERT_OK(neap_session_output(decoder, "logits", NULL, logits));
  for (int row = 0; row < ROWS; row++)
    for (int w = 0; w < WORDS; w++) {
      const float *of = whole[(row % BEAMS + t) % BEAMS] + (row / BEAMS * LONG + t) * WORDS;
      assert_true(isfinite(logits[row * WORDS + w]));
      most = fmax(most, fabs((double)logits[row * WORDS + w] - (double)of[w]));
    }
  return most;
}

/* Word by word the decoder gives what the network gives whole targets. What an earlier translation left does
 * not matter, nor do sources that come after neap_session_prepare. */
static void check_decoder(const char *name, const neap_session_options *options, double tolerance) {
  static const char file[] = "test_translation.safetensors";
  struct model m = {.name = name};
  float *whole[BEAMS];
  neap_session *all = open_predicting(name, 0, options), *decoder = open_predicting(name, BEAMS, options);
  fill_parameters(&m, all);
  ASSERT_OK(neap_session_save(all, file));
  ASSERT_OK(neap_session_load(decoder, file));
  for (int k = 0; k < BEAMS; k++) whole[k] = whole_logits(all, k);
  double most = 0;
  for (int again = 0; again < 2; again++) {
    int32_t *source = neap_session_input(decoder, "source");
    ASSERT_OK(neap_session_prepare(decoder));
    if (again == 1) source[0] = (source[0] + 1) % WORDS;
    for (int t = 0; t < LONG; t++) most = fmax(most, compare_time(decoder, whole, t));
  }
  if (!(most <= tolerance))
    fail_msg("%s, %s: logits differ by up to %g, more than %g", name,
             options->backend == NEAP_REFERENCE ? "reference" : "cpu", most, tolerance);
  for (int k = 0; k < BEAMS; k++) free(whole[k]);
  neap_session_free(all);
  neap_session_free(decoder);
  free_parameters(&m);
  remove(file);
}

static const char *const decoders[] = {"transformer-8",   "lightconv-8",   "dynamicconv-8",
                                       "transformer-128", "lightconv-128", "dynamicconv-128"};
enum { DECODERS = sizeof decoders / sizeof *decoders, NARROW = 3 };

static void test_decoder(void **state) {
  (void)state;
  for (int i = quick_pass() ? 1 : 0; i < DECODERS; i += quick_pass() ? 2 : 1) {
    check_decoder(decoders[i], &(neap_session_options){.threads = 2, .budget = NEAP_BUDGET_MAX}, 0);
    if (i < NARROW)
      check_decoder(
          decoders[i],
          &(neap_session_options){.threads = 1, .budget = NEAP_BUDGET_MAX, .backend = NEAP_REFERENCE}, 0);
  }
}

/* Both plans are within what the message names as the least, and one of them takes all of it. */
static void test_least_budget(void **state) {
  (void)state;
  neap_session_options options = {.threads = 1, .budget = 1, .predict = true};
  const neap_model_options shape = {.batch = 1, .classes = WORDS, .length = 8, .source_length = SOURCE};
  neap_graph *graph;
  neap_session *s;
  neap_memory memory;
  uint64_t least = 0;
  ASSERT_OK(build_decoder_named("dynamicconv-8", &shape, 1, &graph));
  assert_int_equal(neap_session_create(graph, &options, &least, &s), NEAP_OVER_BUDGET);
  options.budget = least - 1;
  assert_int_equal(neap_session_create(graph, &options, &options.budget, &s), NEAP_OVER_BUDGET);
  assert_int_equal(options.budget, least);
  ASSERT_OK(neap_session_create(graph, &options, NULL, &s));
  memset(neap_session_input(s, "source"), 0, SOURCE * sizeof(int32_t));
  ASSERT_OK(neap_session_prepare(s));
  ASSERT_OK(neap_session_predict(s));
  neap_session_memory(s, &memory);
  assert_int_equal(memory.planned_peak, least);
  assert_int_equal(memory.measured_peak, least);
  neap_session_free(s);
  neap_graph_free(graph);
}

static void test_decoder_in_16_bits(void **state) {
  (void)state;
  for (int i = 0; i < DECODERS; i += quick_pass() ? 2 : 1)
    check_decoder(decoders[i],
                  &(neap_session_options){.threads = 2, .budget = NEAP_BUDGET_MAX, .precision = NEAP_BF16},
                  0.06);
}

static void test_beside_formulas(void **state) {
  (void)state;
  for (int i = quick_pass() ? MODELS - 1 : 0; i < MODELS; i++) check_model(&models[i]);
}

int run_test_translation(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_decoder), cmocka_unit_test(test_decoder_in_16_bits),
      cmocka_unit_test(test_least_budget), cmocka_unit_test(test_beside_formulas)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
