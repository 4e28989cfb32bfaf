/* Attention in one pass over blocks of keys gives what its formula gives with all scores in memory, forward
 * and back, whatever is hidden from whom, in every type; what cannot be seen is not read; rotary embedding
 * makes scores a function of the distance. */
#include <math.h>
#include <omp.h>
#include <stdio.h>

#include "base/random.h"
#include "effort.h"
#include "interpreter.h"
#include "kernel/cpu/cpu.h"
#include "kernel/random_stream.h"
#include "rewrite/rewrite.h"

static const struct run_context context = {.seed = 11, .step = 5};

enum { Q, KEY, VALUE, LENGTHS, Y, LOG_SUM, DY, PLACES, SLOTS };

struct setup {
  const char *name;
  int64_t sequences, queries, keys, heads, key_heads, depth;
  bool packed, causal;
  int64_t window;
  const int32_t *lengths; /* [sequences]; NULL: none */
  float scale, probability;
  int64_t own;         /* queries of each sequence of a row; 0: a row is one sequence */
  const char *pattern; /* NULL: the window's */
};

static const int32_t some_lengths[] = {0, 130, 9, -7, 5000};

static const struct setup setups[] = {
    {"one query and key", 1, 1, 1, 1, 1, 1, false, false, 0, NULL, 0, 0, 0, NULL},
    {"blocks that are not full", 2, 300, 300, 2, 2, 20, false, false, 0, NULL, 0, 0, 0, NULL},
    {"causal", 1, 300, 300, 2, 1, 64, true, true, 0, NULL, 0, 0, 0, NULL},
    {"causal, more keys", 2, 100, 171, 2, 2, 7, false, true, 0, NULL, 0.3f, 0, 0, NULL},
    {"causal, more queries: the first see nothing", 2, 171, 100, 2, 2, 24, false, true, 0, NULL, 0, 0, 0,
     NULL},
    {"window", 1, 300, 300, 3, 3, 16, true, false, 70, NULL, 0, 0, 0, NULL},
    {"window of one", 2, 90, 90, 1, 1, 5, true, false, 1, NULL, 0, 0, 0, NULL},
    {"causal window", 1, 300, 300, 4, 2, 33, true, true, 65, NULL, 0, 0, 0, NULL},
    {"causal window, other keys", 1, 201, 140, 4, 1, 8, false, true, 50, NULL, 0, 0, 0, NULL},
    {"window beyond all keys", 1, 70, 75, 1, 1, 8, false, false, INT64_MAX, NULL, 0, 0, 0, NULL},
    {"lengths", 5, 40, 150, 4, 2, 12, false, false, 0, some_lengths, 0, 0, 0, NULL},
    {"lengths, causal, packed", 5, 140, 140, 3, 3, 16, true, true, 0, some_lengths, 0, 0, 0, NULL},
    {"lengths, window", 5, 150, 140, 2, 1, 16, false, false, 20, some_lengths, 0, 0, 0, NULL},
    {"dropout", 2, 70, 135, 2, 2, 10, false, false, 0, NULL, 0, 0.25f, 0, NULL},
    {"dropout, causal, lengths, packed", 5, 137, 137, 4, 1, 16, true, true, 90, some_lengths, 0, 0.5f, 0,
     NULL},
    {"large scores", 1, 80, 200, 1, 1, 32, false, true, 0, NULL, 30, 0, 0, NULL},
    {"sequences in a row", 3, 300, 300, 2, 1, 16, true, true, 0, NULL, 0, 0, 23, NULL},
    {"sequences longer than blocks", 2, 300, 300, 2, 2, 8, false, true, 0, NULL, 0, 0, 129, NULL},
    {"sequences of one query", 1, 70, 70, 1, 1, 8, true, true, 0, NULL, 0, 0, 1, NULL},
    {"sequences, window, lengths, dropout", 5, 140, 140, 2, 1, 12, true, true, 20, some_lengths, 0, 0.5f, 31,
     NULL},
    {"sequences, more keys", 2, 90, 100, 2, 2, 8, false, false, 0, NULL, 0, 0, 17, NULL},
    {"strided, causal", 2, 300, 300, 2, 1, 20, true, true, 0, NULL, 0, 0, 0, "strided:3"},
    {"strided by more than the rows", 1, 70, 70, 2, 2, 16, false, false, 0, NULL, 0, 0, 0, "strided:100"},
    {"strided, lengths", 5, 140, 140, 2, 2, 8, false, false, 0, some_lengths, 0, 0, 0, "strided:16"},
    {"strided, sequences in a row", 3, 290, 290, 2, 1, 8, true, true, 0, NULL, 0, 0, 23, "strided:2"},
    {"fixed, causal", 1, 300, 300, 2, 1, 33, true, true, 0, NULL, 0, 0, 0, "fixed:17,3"},
    {"fixed, one column, both ways", 2, 170, 170, 2, 2, 8, true, false, 0, NULL, 0, 0, 0, "fixed:9,1"},
    {"fixed, one column", 1, 170, 170, 1, 1, 8, true, true, 0, NULL, 0, 0, 0, "fixed:9,1"},
    {"fixed, columns across blocks of keys", 1, 700, 700, 1, 1, 8, true, true, 0, NULL, 0, 0, 0,
     "fixed:32,24"},
    {"fixed, lengths, both ways", 5, 200, 200, 2, 2, 16, false, false, 0, some_lengths, 0, 0, 0,
     "fixed:24,5"},
    {"dilated", 1, 300, 300, 2, 2, 16, true, false, 0, NULL, 0, 0, 0, "dilated:20,4"},
    {"dilated, causal, dropout", 2, 200, 200, 2, 2, 16, true, true, 0, NULL, 0, 0.25f, 0, "dilated:9,3"},
    {"fixed, dropout", 2, 150, 150, 2, 1, 10, false, true, 0, NULL, 0, 0.25f, 0, "fixed:16,5"},
    {"by head", 2, 180, 180, 4, 2, 12, true, true, 0, NULL, 0, 0, 0, "[window:20;strided:13;fixed:16,4]"},
    {"by head, lengths", 5, 150, 150, 3, 3, 8, false, false, 0, some_lengths, 0, 0, 0, "[dense;dilated:5,7]"},
    {"window, global", 1, 300, 300, 2, 1, 16, true, false, 0, NULL, 0, 0, 0, "window:20,global=3"},
    {"window, global beyond a block of keys", 2, 200, 200, 2, 2, 12, false, false, 0, NULL, 0, 0, 0,
     "window:5,global=70"},
    {"window, global, lengths, dropout", 5, 140, 140, 2, 2, 8, false, false, 0, some_lengths, 0, 0.25f, 0,
     "window:9,global=12"},
    {"window, global, other queries", 2, 90, 100, 2, 2, 8, false, false, 0, NULL, 0, 0, 0,
     "window:7,global=5"},
    {"window, global, causal", 1, 150, 150, 2, 2, 8, true, true, 0, NULL, 0, 0, 0, "window:4,global=2"},
    {"strided, global", 2, 300, 300, 2, 1, 20, true, false, 0, NULL, 0, 0, 0, "strided:7,global=10"},
    {"strided, global, causal", 1, 300, 300, 1, 1, 8, true, true, 0, NULL, 0, 0, 0, "strided:7,global=100"},
    {"dilated, global", 1, 300, 300, 2, 2, 16, true, false, 0, NULL, 0, 0, 0, "dilated:6,4,global=9"},
    {"fixed, global", 1, 300, 300, 2, 2, 8, true, false, 0, NULL, 0, 0, 0, "fixed:17,3,global=40"},
    {"all global", 2, 60, 60, 2, 2, 8, true, false, 0, NULL, 0, 0, 0, "window:2,global=900"},
    {"by head, global", 2, 180, 180, 4, 2, 12, true, false, 0, NULL, 0, 0, 0,
     "[window:20,global=4;strided:13,global=4;dilated:3,5,global=4]"},
};
enum { SETUPS = sizeof setups / sizeof *setups };

/* ---- Operands ---- */

/* [sequences, rows, heads, depth] of queries, keys and values, apart; and of y and dy. */
struct operands {
  double *of[SLOTS];
  int64_t elements[SLOTS];
};

static double *numbers(int64_t count) {
  double *values = calloc((size_t)count + 1, sizeof *values);
  assert_non_null(values);
  return values;
}

/* How many queries of its own sequence stand before query i; sequences of row n begin n queries early. */
static int64_t place_of(const struct setup *s, int64_t n, int64_t i) {
  return s->own > 0 ? (i + n) % s->own : i;
}

static float stored_as(neap_dtype dtype, float x) {
  return dtype == NEAP_BF16  ? bf16_to_float(bf16_from_float(x))
         : dtype == NEAP_F16 ? f16_to_float(f16_from_float(x))
                             : x;
}

/* Numbers in [-2, 2) as the type holds them. */
static void fill(double *values, int64_t count, uint64_t stream, neap_dtype dtype) {
  for (int64_t i = 0; i < count; i++) {
    uint32_t word[4];
    random_philox(1, stream, (uint64_t)i, word);
    values[i] = (double)stored_as(dtype, 4 * random_uniform(word[0]) - 2);
  }
}

static int64_t result_elements(const struct setup *s) {
  return s->sequences * s->queries * s->heads * s->depth;
}
static int64_t key_elements(const struct setup *s) {
  return s->sequences * s->keys * s->key_heads * s->depth;
}

static struct operands make_operands(const struct setup *s, neap_dtype dtype) {
  struct operands o = {.elements = {result_elements(s), key_elements(s), key_elements(s), s->sequences,
                                    result_elements(s), s->sequences * s->heads * s->queries,
                                    result_elements(s), s->sequences * s->queries}};
  for (int i = 0; i < SLOTS; i++) o.of[i] = numbers(o.elements[i]);
  const int filled[] = {Q, KEY, VALUE, DY};
  for (int i = 0; i < 4; i++) fill(o.of[filled[i]], o.elements[filled[i]], (uint64_t)filled[i], dtype);
  for (int64_t n = 0; n < s->sequences; n++) o.of[LENGTHS][n] = s->lengths != NULL ? s->lengths[n] : 0;
  for (int64_t i = 0; i < o.elements[PLACES]; i++)
    o.of[PLACES][i] = (double)place_of(s, i / s->queries, i % s->queries);
  return o;
}

static void free_operands(struct operands *o) {
  for (int i = 0; i < SLOTS; i++) free(o->of[i]);
}

/* Heads [first, first + count) of `all` heads, to or from a tensor that has these alone. */
static void move_heads(const struct setup *s, double *packed, int64_t first, double *apart, int64_t count,
                       bool pack) {
  const int64_t all = s->heads + 2 * s->key_heads;
  for (int64_t row = 0; row < s->sequences * s->queries; row++)
    for (int64_t i = 0; i < count * s->depth; i++) {
      double *one = &packed[(row * all + first) * s->depth + i], *other = &apart[row * count * s->depth + i];
      *(pack ? one : other) = *(pack ? other : one);
    }
}

/* Between [N, T, H + 2 G, D] and the three; the caller frees. */
static double *pack(const struct setup *s, const struct operands *o) {
  double *packed = numbers(o->elements[Q] + 2 * o->elements[KEY]);
  move_heads(s, packed, 0, o->of[Q], s->heads, true);
  move_heads(s, packed, s->heads, o->of[KEY], s->key_heads, true);
  move_heads(s, packed, s->heads + s->key_heads, o->of[VALUE], s->key_heads, true);
  return packed;
}
static void unpack(const struct setup *s, double *packed, double *const apart[3]) {
  move_heads(s, packed, 0, apart[0], s->heads, false);
  move_heads(s, packed, s->heads, apart[1], s->key_heads, false);
  move_heads(s, packed, s->heads + s->key_heads, apart[2], s->key_heads, false);
}

/* ---- The oracle: all scores of a head in memory ---- */

struct head {
  const struct setup *s;
  int64_t n, h;
  double *weights, *slopes; /* [queries][keys]: the softmax; d loss / d score */
  double *kept;             /* by dropout: what a weight is multiplied by */
};

static int64_t of_query(const struct head *t, int64_t i) {
  return ((t->n * t->s->queries + i) * t->s->heads + t->h) * t->s->depth;
}
static int64_t of_key(const struct head *t, int64_t j) {
  const int64_t key_head = t->h / (t->s->heads / t->s->key_heads);
  return ((t->n * t->s->keys + j) * t->s->key_heads + key_head) * t->s->depth;
}

/* Returns whether a head sees a key, by its pattern's definition. */
ORACLE static bool of_pattern(const char *text, int64_t head, int64_t i, int64_t j) {
  const char *first = text + (*text == '['), *at = first;
  for (; head > 0; head--) {
    at += strcspn(at, ";]");
    at = *at == ';' ? at + 1 : first;
  }
  long long a = 0, b = 0;
  const char *end = at + strcspn(at, ";]"), *global = strstr(at, "global=");
  if (global != NULL && global < end && j < atoll(global + strlen("global="))) return true;
  if (sscanf(at, "window:%lld", &a) == 1) return i - j < a && j - i < a;
  if (sscanf(at, "strided:%lld", &a) == 1) return (i - j) % a == 0;
  if (sscanf(at, "fixed:%lld,%lld", &a, &b) == 2) return i / a == j / a || j % a >= a - b;
  if (sscanf(at, "dilated:%lld,%lld", &a, &b) == 2) return (i - j) % b == 0 && llabs(i - j) < a * b;
  assert_int_equal(strncmp(at, "dense", 5), 0);
  return true;
}

ORACLE static bool visible(const struct head *t, int64_t i, int64_t j) {
  const struct setup *s = t->s;
  const int64_t place = i + s->keys - s->queries, distance = j > place ? j - place : place - j;
  if (s->lengths != NULL && j >= s->lengths[t->n]) return false;
  if (s->causal && j > place) return false;
  if (s->own > 0 && j < place - place_of(s, t->n, i)) return false;
  return s->pattern == NULL ? s->window == 0 || distance < s->window : of_pattern(s->pattern, t->h, place, j);
}

ORACLE static double dot(int64_t count, const double *x, const double *y) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += x[i] * y[i];
  return sum;
}

ORACLE static double keep(const struct head *t, int64_t i, int64_t j) {
  const struct setup *s = t->s;
  const double p = (double)s->probability;
  if (p == 0) return 1;
  uint32_t word[4];
  const int64_t at = ((t->n * s->heads + t->h) * s->queries + i) * s->keys + j;
  random_philox(context.seed, random_stream(run_draw(&context), 0), (uint64_t)at / 4, word);
  return (double)random_uniform(word[at % 4]) >= p ? 1 / (1 - p) : 0;
}

/* One row of the softmax of the scores that are visible. */
ORACLE static void soften(const struct head *t, const struct operands *o, int64_t i) {
  const struct setup *s = t->s;
  const double scale = s->scale != 0 ? (double)s->scale : 1 / sqrt((double)s->depth);
  double *row = t->weights + i * s->keys, highest = -INFINITY, sum = 0;
  for (int64_t j = 0; j < s->keys; j++) {
    row[j] = visible(t, i, j) ? scale * dot(s->depth, o->of[Q] + of_query(t, i), o->of[KEY] + of_key(t, j))
                              : -INFINITY;
    highest = fmax(highest, row[j]);
    t->kept[i * s->keys + j] = keep(t, i, j);
  }
  for (int64_t j = 0; j < s->keys; j++) sum += row[j] = row[j] > -INFINITY ? exp(row[j] - highest) : 0;
  for (int64_t j = 0; j < s->keys && sum > 0; j++) row[j] /= sum;
  o->of[LOG_SUM][(t->n * s->heads + t->h) * s->queries + i] = sum > 0 ? highest + log(sum) : -INFINITY;
}

ORACLE static void one_head(const struct head *t, const struct operands *o, double *const gradients[3]) {
  const struct setup *s = t->s;
  const double scale = s->scale != 0 ? (double)s->scale : 1 / sqrt((double)s->depth);
  for (int64_t i = 0; i < s->queries; i++) {
    double *y = o->of[Y] + of_query(t, i), mean = 0;
    const double *dy = o->of[DY] + of_query(t, i), *weights = t->weights + i * s->keys,
                 *kept = t->kept + i * s->keys;
    double *slopes = t->slopes + i * s->keys;
    soften(t, o, i);
    for (int64_t j = 0; j < s->keys; j++) {
      const double *v = o->of[VALUE] + of_key(t, j);
      for (int64_t d = 0; d < s->depth; d++) y[d] += weights[j] * kept[j] * v[d];
      slopes[j] = kept[j] * dot(s->depth, dy, v);
      mean += weights[j] * slopes[j];
    }
    for (int64_t j = 0; j < s->keys; j++) slopes[j] = scale * weights[j] * (slopes[j] - mean);
    for (int64_t j = 0; j < s->keys; j++)
      for (int64_t d = 0; d < s->depth; d++) {
        gradients[0][of_query(t, i) + d] += slopes[j] * o->of[KEY][of_key(t, j) + d];
        gradients[1][of_key(t, j) + d] += slopes[j] * o->of[Q][of_query(t, i) + d];
        gradients[2][of_key(t, j) + d] += weights[j] * kept[j] * dy[d];
      }
  }
}

/* Fills y and the logarithms of sums; gradients of q, k and v, which the caller frees. */
static void oracle(const struct setup *s, struct operands *o, double *gradients[3]) {
  for (int i = 0; i < 3; i++) gradients[i] = numbers(o->elements[i]);
  struct head t = {.s = s};
  const int64_t pairs = s->queries * s->keys;
  t.weights = numbers(pairs);
  t.slopes = numbers(pairs);
  t.kept = numbers(pairs);
  for (t.n = 0; t.n < s->sequences; t.n++)
    for (t.h = 0; t.h < s->heads; t.h++) one_head(&t, o, gradients);
  free(t.weights);
  free(t.slopes);
  free(t.kept);
}

/* ---- The operators ---- */

static int32_t add_input(struct neap_graph *graph, const char *name, neap_dtype dtype, int64_t n,
                         int64_t rows, int64_t heads, int64_t depth) {
  const struct tensor t = {.name = name,
                           .dtype = dtype,
                           .role = NEAP_ROLE_INPUT,
                           .rank = depth > 0  ? 4
                                   : rows > 0 ? 2
                                              : 1,
                           .dims = {n, rows, heads, depth},
                           .view_of = -1};
  int32_t id;
  assert_ok(graph_add_tensor(graph, t, &id));
  return id;
}

/* Forward and backward node; `ids`: of operands, in the slots of the backward one. */
static struct neap_graph *make_graph(const struct setup *s, neap_dtype dtype, int32_t ids[SLOTS]) {
  struct neap_graph *graph;
  assert_ok(graph_create(s->name, &graph));
  const int64_t n = s->sequences, all = s->heads + (s->packed ? 2 * s->key_heads : 0);
  for (int i = 0; i < SLOTS; i++) ids[i] = NO_TENSOR;
  ids[Q] = add_input(graph, "q", dtype, n, s->queries, all, s->depth);
  if (!s->packed) ids[KEY] = add_input(graph, "k", dtype, n, s->keys, s->key_heads, s->depth);
  if (!s->packed) ids[VALUE] = add_input(graph, "v", dtype, n, s->keys, s->key_heads, s->depth);
  if (s->lengths != NULL) ids[LENGTHS] = add_input(graph, "lengths", NEAP_I32, n, 0, 0, 0);
  if (s->own > 0) ids[PLACES] = add_input(graph, "places", NEAP_I32, n, s->queries, 0, 0);
  ids[DY] = add_input(graph, "dy", dtype, n, s->queries, s->heads, s->depth);
  struct attention_heads patterns = {.of = {{.reach = s->window}}};
  if (s->pattern != NULL) assert_ok(attention_read(s->pattern, 0, 0, &patterns));
  const union attributes a = {.attention = {.key_heads = s->packed ? s->key_heads : 0,
                                            .causal = s->causal,
                                            .patterns = patterns,
                                            .scale = s->scale,
                                            .probability = s->probability}};
  const int32_t given[] = {ids[Q], ids[KEY], ids[VALUE], ids[LENGTHS], ids[PLACES]};
  assert_ok(graph_apply(graph, OP_ATTENTION, "attention", &a, given, s->own > 0 ? 5 : 4, &ids[Y]));
  int32_t outputs[3];
  const int32_t count = s->packed ? 1 : 3;
  for (int32_t i = 0; i < count; i++) assert_ok(graph_add_like(graph, ids[i], "gradient", &outputs[i]));
  assert_ok(graph_add_node(graph, (struct node){.name = "backward",
                                                .op = OP_ATTENTION_BACKWARD,
                                                .pass = NEAP_PASS_BACKWARD,
                                                .attributes = a,
                                                .inputs = ids,
                                                .input_count = s->own > 0 ? SLOTS : PLACES,
                                                .outputs = outputs,
                                                .output_count = count}));
  return graph;
}

/* y, the logarithms of sums, dq, dk, dv. */
enum { RESULTS = 5 };
struct results {
  double *of[RESULTS];
};

static void free_results(struct results *r) {
  for (int i = 0; i < RESULTS; i++) free(r->of[i]);
}

static void write_operands(const struct interpreter *m, const struct setup *s, const struct operands *o) {
  double *packed = s->packed ? pack(s, o) : NULL;
  static const struct {
    const char *name;
    int slot;
  } inputs[] = {{"q", Q}, {"k", KEY}, {"v", VALUE}, {"lengths", LENGTHS}, {"dy", DY}, {"places", PLACES}};
  for (int32_t id = 0; id < (int32_t)m->lowered->graph->tensors.count; id++)
    for (int i = 0; i < 6; i++) {
      const struct tensor *t = &m->lowered->graph->tensors.data[id];
      if (t->role == NEAP_ROLE_INPUT && strcmp(t->name, inputs[i].name) == 0)
        interpreter_write(m, id, packed != NULL && i == 0 ? packed : o->of[inputs[i].slot]);
    }
  free(packed);
}

static const struct node *find(const struct lowered *lowered, enum op op) {
  for (size_t v = 0; v < lowered->graph->nodes.count; v++)
    if (lowered->graph->nodes.data[v].op == (int32_t)op) return &lowered->graph->nodes.data[v];
  fail_msg("no %s", op_rows[op]->name);
  return NULL;
}

static struct results run(const struct setup *s, const struct operands *o, const struct backend *backend,
                          neap_dtype dtype, int threads) {
  int32_t ids[SLOTS];
  struct neap_graph *graph = make_graph(s, dtype, ids);
  struct lowered *lowered = NULL;
  const struct lower_options options = {.threads = threads};
  assert_ok(lower(graph, backend, &options, NULL, &lowered));
  omp_set_num_threads(threads);
  struct interpreter m = interpreter_create(lowered, 0, 0xFF);
  write_operands(&m, s, o);
  interpreter_run(&m, &context);
  const struct node *forward = find(lowered, OP_ATTENTION), *back = find(lowered, OP_ATTENTION_BACKWARD);
  struct results r = {{interpreter_read(&m, forward->outputs[0]), interpreter_read(&m, forward->outputs[1]),
                       interpreter_read(&m, back->outputs[0])}};
  for (int i = 1; i < 3 && !s->packed; i++) r.of[2 + i] = interpreter_read(&m, back->outputs[i]);
  if (s->packed) {
    double *packed = r.of[2];
    for (int i = 0; i < 3; i++) r.of[2 + i] = numbers(o->elements[i]);
    unpack(s, packed, r.of + 2);
    free(packed);
  }
  interpreter_free(&m);
  lowered_free(lowered);
  neap_graph_free(graph);
  return r;
}

/* Infinities stand at the same places; else the largest difference by the largest number. */
static void expect_close(const struct setup *s, const char *how, const char *what, int64_t count,
                         const double *expected, const double *got, double tolerance) {
  double size = 1e-3, off = 0;
  for (int64_t i = 0; i < count; i++) {
    if (expected[i] == got[i]) continue;
    const double difference = fabs(expected[i] - got[i]);
    if (!(difference <= off)) off = difference;
    if (isfinite(expected[i])) size = fmax(size, fabs(expected[i]));
  }
  if (!(off <= tolerance * size)) fail_msg("%s, %s: %s is off by %g of %g", s->name, how, what, off, size);
}

static void check_setup(const struct setup *s, const struct backend *backend, neap_dtype dtype) {
  static const char *const names[] = {"y", "the logarithm of sums", "dq", "dk", "dv"};
  static const int slots[] = {Y, LOG_SUM, Q, KEY, VALUE};
  struct operands o = make_operands(s, dtype);
  double *gradients[3];
  oracle(s, &o, gradients);
  const double *expected[] = {o.of[Y], o.of[LOG_SUM], gradients[0], gradients[1], gradients[2]};
  const double rounding = dtype == NEAP_BF16 ? 0x1p-8 : dtype == NEAP_F16 ? 0x1p-11 : 2e-6;
  struct results one = run(s, &o, backend, dtype, 1), three = run(s, &o, backend, dtype, 3);
  char how[32];
  snprintf(how, sizeof how, "%s in %s", backend->name, dtype_rows[dtype].name);
  for (int i = 0; i < RESULTS; i++) {
    /* Gradients depend on y as it was stored, scores on large products; dropout makes weights larger. */
    const double room =
        (i >= 2 ? 2 : 1) * (s->scale > 1 ? (double)s->scale : 1) / (1 - (double)s->probability);
    expect_close(s, how, names[i], o.elements[slots[i]], expected[i], one.of[i],
                 i == 1 ? 2e-6 : room * rounding);
    assert_memory_equal(one.of[i], three.of[i], (size_t)o.elements[slots[i]] * sizeof(double));
  }
  free_results(&one);
  free_results(&three);
  for (int i = 0; i < 3; i++) free(gradients[i]);
  free_operands(&o);
}

static void test_equals_the_formula(void **state) {
  (void)state;
  for (int i = 0; i < SETUPS; i++) check_setup(&setups[i], &reference_backend, NEAP_F32);
  for (int i = 0; i < SETUPS; i++) check_setup(&setups[i], &cpu_backend, NEAP_F32);
}

static void test_equals_the_formula_in_16_bits(void **state) {
  (void)state;
  for (int i = 0; i < SETUPS; i++) {
    check_setup(&setups[i], &cpu_backend, NEAP_BF16);
    check_setup(&setups[i], &cpu_backend, NEAP_F16);
  }
}

/* Keys behind the length may be anything. */
static void test_what_is_not_there(void **state) {
  (void)state;
  const struct backend *backends[] = {&reference_backend, &cpu_backend};
  for (int b = 0; b < 2; b++)
    for (int i = 0; i < SETUPS; i++) {
      const struct setup *s = &setups[i];
      if (s->lengths == NULL || s->packed) continue;
      struct operands o = make_operands(s, NEAP_F32);
      struct results before = run(s, &o, backends[b], NEAP_F32, 2);
      const int64_t row = s->key_heads * s->depth;
      for (int64_t n = 0; n < s->sequences; n++)
        for (int64_t j = s->lengths[n] > 0 ? s->lengths[n] : 0; j < s->keys; j++)
          for (int64_t e = 0; e < row; e++)
            o.of[KEY][(n * s->keys + j) * row + e] = o.of[VALUE][(n * s->keys + j) * row + e] = NAN;
      struct results after = run(s, &o, backends[b], NEAP_F32, 2);
      static const int slots[] = {Y, LOG_SUM, Q, KEY, VALUE};
      for (int k = 0; k < RESULTS; k++)
        assert_memory_equal(before.of[k], after.of[k], (size_t)o.elements[slots[k]] * sizeof(double));
      free_results(&before);
      free_results(&after);
      free_operands(&o);
    }
}

/* Bytes of workspace of both nodes, for this many rows. */
static uint64_t workspace_of(int64_t rows, bool backward) {
  const struct setup s = {"workspace", 2, rows, rows, 4, 4, 64, true, true, 0, NULL, 0, 0.1f, 0, NULL};
  int32_t ids[SLOTS];
  struct neap_graph *graph = make_graph(&s, NEAP_F32, ids);
  struct lowered *lowered = NULL;
  assert_ok(lower(graph, &cpu_backend, &(struct lower_options){.threads = 1}, NULL, &lowered));
  const struct node *node = find(lowered, backward ? OP_ATTENTION_BACKWARD : OP_ATTENTION);
  const uint64_t bytes = lowered->step->nodes[node - lowered->graph->nodes.data].workspace;
  lowered_free(lowered);
  neap_graph_free(graph);
  return bytes;
}

/* Forward it does not grow with the rows; backward by dk and dv of a head. */
static void test_workspace(void **state) {
  (void)state;
  assert_int_equal(workspace_of(1 << 10, false), workspace_of(1 << 16, false));
  assert_true(workspace_of(1 << 10, false) < 256 << 10);
  assert_int_equal(workspace_of(1 << 16, true) - workspace_of(1 << 10, true),
                   ((1 << 16) - (1 << 10)) * 64 * 2 * sizeof(float));
}

/* Half of the pairs where attention is causal, and rows times window where there is one. */
static void test_cost(void **state) {
  (void)state;
  const int64_t rows = 512, window = 16;
  struct setup s = {"cost", 1, rows, rows, 1, 1, 8, false, false, 0, NULL, 0, 0, 0, NULL};
  static const double products[] = {2, 5};
  double flops[3][2];
  for (int way = 0; way < 3; way++) {
    int32_t ids[SLOTS];
    s.causal = way > 0;
    s.window = way > 1 ? window : 0;
    struct neap_graph *graph = make_graph(&s, NEAP_F32, ids);
    for (int i = 0; i < 2; i++) flops[way][i] = node_flops(graph, &graph->nodes.data[i]);
    neap_graph_free(graph);
  }
  for (int i = 0; i < 2; i++) {
    const double pair = 2 * products[i] * 8;
    assert_true(flops[0][i] == pair * (double)(rows * rows));
    assert_true(flops[1][i] == pair * (double)(rows * (rows + 1) / 2));
    assert_true(flops[2][i] == pair * (double)(window * rows - window * (window - 1) / 2));
  }
}

/* ---- The builder's calls ---- */

static neap_graph *built(float dropout) {
  neap_builder *b = neap_builder_create("dropout");
  const neap_tensor x = neap_input(b, "x", NEAP_F32, 4, (int64_t[]){2, 5, 6, 4});
  neap_graph *graph = NULL;
  neap_output(b, "y", neap_attention(b, x, -1, -1, -1, (neap_attention_options){.dropout = dropout}));
  assert_ok(neap_builder_finish(b, -1, &graph));
  neap_builder_free(b);
  return graph;
}

/* Without a number, six heads are two each for queries, keys and values; evaluation drops nothing. */
static void test_evaluation(void **state) {
  (void)state;
  neap_graph *graph = built(0.5f), *evaluation = NULL;
  assert_ok(rewrite_evaluation(graph, true, &evaluation));
  const struct node *trains = &graph->nodes.data[0], *evaluates = &evaluation->nodes.data[0];
  assert_int_equal(graph->tensors.data[trains->outputs[0]].dims[2], 2);
  assert_true(trains->attributes.attention.probability == 0.5f);
  assert_true(evaluates->attributes.attention.probability == 0);
  assert_int_equal(evaluates->attributes.attention.key_heads, 2);
  neap_graph_free(evaluation);
  neap_graph_free(graph);
}

/* Inputs: q of 6 heads, k of 2, k of 4, v of another depth, lengths, places, and something odd. */
enum { GIVEN_Q, GIVEN_K, GIVEN_FOUR, GIVEN_WIDE, GIVEN_LENGTHS, GIVEN_PLACES, GIVEN_ODD, GIVEN };

static void declare(neap_builder *b, neap_tensor t[GIVEN]) {
  t[GIVEN_Q] = neap_input(b, "q", NEAP_F32, 4, (int64_t[]){2, 5, 6, 8});
  t[GIVEN_K] = neap_input(b, "k", NEAP_F32, 4, (int64_t[]){2, 9, 2, 8});
  t[GIVEN_FOUR] = neap_input(b, "four", NEAP_F32, 4, (int64_t[]){2, 9, 4, 8});
  t[GIVEN_WIDE] = neap_input(b, "wide", NEAP_F32, 4, (int64_t[]){2, 9, 2, 9});
  t[GIVEN_LENGTHS] = neap_input(b, "lengths", NEAP_I32, 1, (int64_t[]){2});
  t[GIVEN_PLACES] = neap_input(b, "places", NEAP_I32, 2, (int64_t[]){2, 5});
  t[GIVEN_ODD] = neap_input(b, "odd", NEAP_F32, 3, (int64_t[]){2, 5, 7});
}

static void test_what_is_refused(void **state) {
  (void)state;
  const int none = -1;
  const struct {
    int q, k, v, lengths;
    neap_attention_options options;
    bool good;
  } calls[] = {
      {GIVEN_Q, GIVEN_K, GIVEN_K, GIVEN_LENGTHS, {0}, true},
      {GIVEN_Q, none, none, GIVEN_LENGTHS, {.key_heads = 1}, true},
      {GIVEN_Q, none, none, none, {0}, true},
      {GIVEN_Q, GIVEN_FOUR, GIVEN_FOUR, none, {0}, false},
      {GIVEN_Q, GIVEN_WIDE, GIVEN_WIDE, none, {0}, false},
      {GIVEN_Q, GIVEN_K, GIVEN_WIDE, none, {0}, false},
      {GIVEN_Q, GIVEN_K, none, none, {0}, false},
      {GIVEN_Q, none, GIVEN_K, none, {0}, false},
      {GIVEN_Q, GIVEN_K, GIVEN_K, GIVEN_K, {0}, false},
      {GIVEN_Q, GIVEN_K, GIVEN_K, none, {.key_heads = 2}, false},
      {GIVEN_Q, none, none, none, {.key_heads = 3}, false},
      {GIVEN_Q, none, none, none, {.key_heads = -1}, false},
      {GIVEN_Q, none, none, none, {.key_heads = INT64_MAX}, false},
      {GIVEN_FOUR, none, none, none, {.key_heads = 2}, false},
      {GIVEN_ODD, none, none, none, {0}, false},
      {GIVEN_LENGTHS, none, none, none, {0}, false},
      {GIVEN_Q, none, none, none, {.dropout = 1}, false},
      {GIVEN_Q, none, none, none, {.dropout = NAN}, false},
      {GIVEN_Q, none, none, none, {.scale = INFINITY}, false},
      {GIVEN_Q, none, none, none, {.window = -1}, false},
  };
  for (size_t i = 0; i < 3; i++) { /* places that are good, of another shape, of another type */
    neap_builder *b = neap_builder_create("places");
    neap_tensor t[GIVEN];
    declare(b, t);
    const neap_tensor places[] = {t[GIVEN_PLACES], t[GIVEN_LENGTHS], t[GIVEN_ODD]},
                      y = neap_attention_at(b, t[GIVEN_Q], t[GIVEN_K], t[GIVEN_K], -1, places[i],
                                            (neap_attention_options){0});
    if ((y >= 0) != (i == 0)) fail_msg("places %zu: %s", i, neap_error_message());
    neap_builder_free(b);
  }
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    neap_builder *b = neap_builder_create("refused");
    neap_tensor t[GIVEN];
    declare(b, t);
    const int given[] = {calls[i].q, calls[i].k, calls[i].v, calls[i].lengths};
    neap_tensor in[4];
    for (int k = 0; k < 4; k++) in[k] = given[k] == none ? -1 : t[given[k]];
    const neap_tensor y = neap_attention(b, in[0], in[1], in[2], in[3], calls[i].options);
    if ((y >= 0) != calls[i].good) fail_msg("call %zu: %s", i, neap_error_message());
    neap_builder_free(b);
  }
  static const struct {
    int x;
    int64_t heads;
    float base;
    bool good;
  } turns[] = {{GIVEN_Q, 6, 0, true},    {GIVEN_Q, 7, 0, false},      {GIVEN_Q, -1, 0, false},
               {GIVEN_Q, 0, -1, false},  {GIVEN_Q, 0, NAN, false},    {GIVEN_WIDE, 0, 0, false},
               {GIVEN_ODD, 0, 0, false}, {GIVEN_LENGTHS, 0, 0, false}};
  for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
    neap_builder *b = neap_builder_create("refused");
    neap_tensor t[GIVEN];
    declare(b, t);
    const neap_tensor y = neap_rotary(b, t[turns[i].x], turns[i].heads, turns[i].base, 0);
    if ((y >= 0) != turns[i].good) fail_msg("rotary %zu: %s", i, neap_error_message());
    neap_builder_free(b);
  }
}

/* ---- Rotary embedding ---- */

enum { ROWS = 9, HEADS = 3, DEPTH = 6, TURNED = 2 };

/* Rows that are all alike, turned; the caller frees them. */
static double *turn(const struct backend *backend, int64_t first) {
  struct neap_graph *graph;
  struct lowered *lowered = NULL;
  const union attributes a = {.rotary = {.heads = TURNED, .first = first, .base = 50}};
  assert_ok(graph_create("rotary", &graph));
  int32_t x = add_input(graph, "x", NEAP_F32, 1, ROWS, HEADS, DEPTH), y;
  assert_ok(graph_apply(graph, OP_ROTARY, "rotary", &a, &x, 1, &y));
  assert_ok(lower(graph, backend, &(struct lower_options){.threads = 1}, NULL, &lowered));
  struct interpreter m = interpreter_create(lowered, 0, 0xFF);
  double *values = numbers(ROWS * HEADS * DEPTH);
  fill(values, HEADS * DEPTH, 1, NEAP_F32);
  for (int64_t i = HEADS * DEPTH; i < ROWS * HEADS * DEPTH; i++) values[i] = values[i - HEADS * DEPTH];
  interpreter_write(&m, 0, values);
  free(values);
  interpreter_run(&m, &context);
  values = interpreter_read(&m, find(lowered, OP_ROTARY)->outputs[0]);
  interpreter_free(&m);
  lowered_free(lowered);
  neap_graph_free(graph);
  return values;
}

/* The product of two rows depends on their distance alone; the first pair is turned by one radian a row, and
 * the second by less as the base says; heads beyond those turned are copied. */
static void test_rotary(void **state) {
  (void)state;
  const struct backend *backends[] = {&reference_backend, &cpu_backend};
  double x[HEADS * DEPTH];
  fill(x, HEADS * DEPTH, 1, NEAP_F32);
  for (int b = 0; b < 2; b++) {
    double *y = turn(backends[b], 0), *later = turn(backends[b], 1000);
    const int64_t row = HEADS * DEPTH;
    for (int64_t i = 0; i < ROWS; i++)
      for (int64_t h = 0; h < TURNED; h++) {
        const double *one = x + h * DEPTH, *turned = y + i * row + h * DEPTH;
        for (int64_t j = 0; j <= i; j++) {
          const double *p = y + h * DEPTH, *q = later + h * DEPTH;
          const double apart = dot(DEPTH, p, p + (i - j) * row);
          assert_true(fabs(dot(DEPTH, p + j * row, p + i * row) - apart) < 1e-5);
          assert_true(fabs(dot(DEPTH, q + j * row, q + i * row) - apart) < 1e-5);
        }
        for (int64_t d = 0; d < DEPTH / 2; d++) {
          const double angle = (double)i / pow(50, (double)d / (DEPTH / 2));
          assert_true(fabs(turned[d] - (one[d] * cos(angle) - one[d + DEPTH / 2] * sin(angle))) < 1e-6);
        }
      }
    for (int64_t i = 0; i < ROWS; i++)
      assert_memory_equal(y + i * row + TURNED * DEPTH, x + TURNED * DEPTH,
                          (HEADS - TURNED) * DEPTH * sizeof(double));
    free(y);
    free(later);
  }
}

int run_test_attention(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_equals_the_formula),
                                     cmocka_unit_test(test_equals_the_formula_in_16_bits),
                                     cmocka_unit_test(test_what_is_not_there),
                                     cmocka_unit_test(test_workspace),
                                     cmocka_unit_test(test_cost),
                                     cmocka_unit_test(test_evaluation),
                                     cmocka_unit_test(test_what_is_refused),
                                     cmocka_unit_test(test_rotary)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
