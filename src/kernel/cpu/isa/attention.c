/* Attention without its scores in memory (Rabe and Staats 2021; Dao et al. 2022), and rotary embedding.
 *
 * A block of queries goes over blocks of the keys that it can see. Scores lie transposed, a row for each key:
 * vectors run over queries, so that the maximum and the sum of a query's exponentials are elementwise, and
 * every product takes keys and values as they lie. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "kernel/cpu/isa/math.h"

enum { QUERIES = 64, KEYS = 64 }; /* of a block */

/* ---- Products of matrices that fit in the cache ---- */

/* A tile of the result in registers: TILE_ROWS rows of TILE_VECTORS vectors, which the processor has. */
#if defined(__AVX512F__)
enum { TILE_ROWS = 4, TILE_VECTORS = 4, TILE_WIDTH = 16 };
#elif defined(__AVX2__)
enum { TILE_ROWS = 4, TILE_VECTORS = 2, TILE_WIDTH = 8 };
#else
enum { TILE_ROWS = 4, TILE_VECTORS = 2, TILE_WIDTH = 4 };
#endif
typedef float tile_vector __attribute__((vector_size(4 * TILE_WIDTH), aligned(4)));

static inline int64_t whole_tiles(int64_t rows) { return (rows + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS; }
static inline int64_t whole_vectors(int64_t columns) {
  return (columns + TILE_WIDTH - 1) / TILE_WIDTH * TILE_WIDTH;
}

/* The left factor: element (m, k) stands at data[m * row + k * column]. */
struct factor {
  const float *data;
  int64_t row, column;
};

INLINE void multiply_tile(int vectors, int64_t depth, struct factor a, const float *b, int64_t b_row,
                          float *c, int64_t c_row, bool add) {
  tile_vector sum[TILE_ROWS][TILE_VECTORS];
  for (int r = 0; r < TILE_ROWS; r++)
    for (int v = 0; v < vectors; v++)
      sum[r][v] = add ? *(const tile_vector *)(c + r * c_row + v * TILE_WIDTH) : (tile_vector){0};
  for (int64_t k = 0; k < depth; k++) {
    tile_vector right[TILE_VECTORS];
    for (int v = 0; v < vectors; v++) right[v] = *(const tile_vector *)(b + k * b_row + v * TILE_WIDTH);
    for (int r = 0; r < TILE_ROWS; r++)
      for (int v = 0; v < vectors; v++) sum[r][v] += a.data[r * a.row + k * a.column] * right[v];
  }
  for (int r = 0; r < TILE_ROWS; r++)
    for (int v = 0; v < vectors; v++) *(tile_vector *)(c + r * c_row + v * TILE_WIDTH) = sum[r][v];
}

INLINE void multiply_columns(int vectors, int64_t rows, int64_t depth, struct factor a, const float *b,
                             int64_t b_row, float *c, int64_t c_row, bool add) {
  for (int64_t m = 0; m < rows; m += TILE_ROWS)
    multiply_tile(vectors, depth, (struct factor){a.data + m * a.row, a.row, a.column}, b, b_row,
                  c + m * c_row, c_row, add);
}

/* c = a b, or c += a b. Rows and columns are rounded up to whole tiles and vectors, which all three have. */
static void multiply(int64_t rows, int64_t columns, int64_t depth, struct factor a, const float *b,
                     int64_t b_row, float *c, int64_t c_row, bool add) {
  const int64_t step = TILE_VECTORS * TILE_WIDTH;
  int64_t n = 0;
  for (; n + step <= whole_vectors(columns); n += step)
    multiply_columns(TILE_VECTORS, rows, depth, a, b + n, b_row, c + n, c_row, add);
  const int64_t rest = (whole_vectors(columns) - n) / TILE_WIDTH;
  if (rest == 1) multiply_columns(1, rows, depth, a, b + n, b_row, c + n, c_row, add);
#if defined(__AVX512F__)
  if (rest == 2) multiply_columns(2, rows, depth, a, b + n, b_row, c + n, c_row, add);
  if (rest == 3) multiply_columns(3, rows, depth, a, b + n, b_row, c + n, c_row, add);
#endif
}

/* ---- Blocks ---- */

/* `count` rows of `depth` elements side by side, filled up with zeros to whole vectors and tiles. */
static void pack_rows(int64_t count, int64_t depth, const float *from, int64_t row, float *to) {
  const int64_t width = whole_vectors(depth);
  for (int64_t i = 0; i < count; i++) {
    memcpy(to + i * width, from + i * row, (size_t)depth * sizeof *to);
    memset(to + i * width + depth, 0, (size_t)(width - depth) * sizeof *to);
  }
  memset(to + count * width, 0, (size_t)((whole_tiles(count) - count) * width) * sizeof *to);
}

/* The same as columns, times `scale`: [width][QUERIES]. */
static void pack_columns(int64_t count, int64_t depth, float scale, const float *rows, float *to) {
  const int64_t width = whole_vectors(depth);
  for (int64_t d = 0; d < depth; d++) {
    for (int64_t i = 0; i < count; i++) to[d * QUERIES + i] = scale * rows[i * width + d];
    for (int64_t i = count; i < QUERIES; i++) to[d * QUERIES + i] = 0;
  }
}

/* Columns back to rows, each times its factor. */
static void unpack_columns(int64_t count, int64_t depth, const float *columns, const float *factors,
                           float *to, int64_t row) {
  for (int64_t i = 0; i < count; i++)
    for (int64_t d = 0; d < depth; d++) to[i * row + d] = columns[d * QUERIES + i] * factors[i];
}

/* What a thread works in. */
struct block {
  float *query_rows, *query_columns;       /* [QUERIES][width], [width][QUERIES] */
  float *keys, *values;                    /* [KEYS][width] */
  float *sums;                             /* [width][QUERIES]: y or dq */
  float *gradient_rows, *gradient_columns; /* of y, as those of queries; backward */
  float *weights;                          /* [KEYS][QUERIES]: scores, then what values are multiplied by */
  float *kept;                             /* what dropout multiplies weights by */
  float *slopes;                           /* gradients of scores; backward */
  float *key_sums, *value_sums;            /* [keys][width]: dk and dv of a head; backward */
};

static int64_t sums_elements(const struct attention *a) {
  return (a->keys + TILE_ROWS) * whole_vectors(a->depth); /* the last block of keys is of whole tiles */
}

static int64_t block_elements(const struct attention *a, bool backward) {
  const int64_t rows = QUERIES * whole_vectors(a->depth), pairs = KEYS * QUERIES;
  return backward ? 7 * rows + 3 * pairs + 2 * sums_elements(a) : 5 * rows + 2 * pairs;
}

static float *take(float **at, int64_t elements) {
  float *here = *at;
  *at += elements;
  return here;
}

/* The part of this thread. */
static struct block block_of(const struct attention *a, bool backward, void *workspace) {
  const int64_t rows = QUERIES * whole_vectors(a->depth), pairs = KEYS * QUERIES;
  float *at = (float *)workspace + omp_get_thread_num() * block_elements(a, backward);
  struct block b = {0};
  b.query_rows = take(&at, rows);
  b.query_columns = take(&at, rows);
  b.keys = take(&at, rows);
  b.values = take(&at, rows);
  b.sums = take(&at, rows);
  b.weights = take(&at, pairs);
  b.kept = take(&at, pairs);
  if (!backward) return b;
  b.gradient_rows = take(&at, rows);
  b.gradient_columns = take(&at, rows);
  b.slopes = take(&at, pairs);
  b.key_sums = take(&at, sums_elements(a));
  b.value_sums = take(&at, sums_elements(a));
  return b;
}

size_t ISA(attention_workspace)(struct attention a, bool backward, int threads) {
  return (size_t)threads * (size_t)block_elements(&a, backward) * sizeof(float);
}

/* ---- Which keys a query sees ---- */

/* Some queries of a head, with the operands that they read. */
struct queries {
  int64_t sequence, head, first, count;
  int64_t length; /* of the keys that there are */
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* The keys that any of the queries sees. */
static struct range keys_of(const struct attention *a, const struct queries *q) {
  const int64_t shift = a->keys - a->queries, first = q->first + shift, last = first + q->count - 1;
  struct range seen = {0, q->length};
  if (a->window > 0) seen.begin = most(0, first - a->window + 1);
  if (a->window > 0) seen.end = least(seen.end, last + a->window);
  if (a->causal) seen.end = least(seen.end, last + 1);
  return seen;
}

/* Scores of a row of queries and a key that these do not see: -infinity. */
static void hide(const struct attention *a, const struct queries *q, int64_t first_key, int64_t keys,
                 float *scores) {
  if (!a->causal && a->window == 0) return;
  for (int64_t j = 0; j < keys; j++) {
    const int64_t place = first_key + j - (a->keys - a->queries) - q->first; /* of the query beside it */
    int64_t begin = 0, end = QUERIES;
    if (a->window > 0) begin = place - a->window + 1;
    if (a->causal) begin = place;
    if (a->window > 0) end = least(end, place + a->window);
    for (int64_t i = 0; i < least(begin, QUERIES); i++) scores[j * QUERIES + i] = -INFINITY;
    for (int64_t i = most(end, 0); i < QUERIES; i++) scores[j * QUERIES + i] = -INFINITY;
  }
}

/* Consecutive draws of a random stream, four to a counter. */
enum { COUNTERS = KEYS / 4 + 1, DRAWS = 4 * COUNTERS };
static void draw_words(struct random_key key, uint64_t first, uint32_t draws[DRAWS]) {
  uint32_t word[4][COUNTERS];
  for (int g = 0; g < COUNTERS; g++) {
    word[0][g] = (uint32_t)(first + (uint64_t)g);
    word[1][g] = (uint32_t)((first + (uint64_t)g) >> 32);
    word[2][g] = (uint32_t)key.stream;
    word[3][g] = (uint32_t)(key.stream >> 32);
  }
  for (uint32_t round = 0; round < RANDOM_ROUNDS; round++) {
#pragma omp simd
    for (int g = 0; g < COUNTERS; g++)
      random_philox_round(key.seed, round, &word[0][g], &word[1][g], &word[2][g], &word[3][g]);
  }
  for (int g = 0; g < COUNTERS; g++)
    for (int k = 0; k < 4; k++) draws[4 * g + k] = word[k][g];
}

/* What dropout multiplies the weights of a block by: 0, or 1 / (1 - probability). */
static void draw(const struct attention *a, const struct queries *q, int64_t first_key, int64_t keys,
                 float *kept) {
  const float probability = a->probability, keep = 1 / (1 - probability);
  for (int64_t i = 0; i < q->count; i++) {
    const int64_t row = ((a->first + q->sequence) * a->heads + q->head) * a->queries + q->first + i;
    const uint64_t at = (uint64_t)(row * a->keys + first_key);
    uint32_t draws[DRAWS];
    float factors[DRAWS];
    draw_words(a->key, at / 4, draws);
#pragma omp simd
    for (int k = 0; k < DRAWS; k++) factors[k] = random_uniform(draws[k]) >= probability ? keep : 0;
    for (int64_t j = 0; j < keys; j++) kept[j * QUERIES + i] = factors[at % 4 + (uint64_t)j];
  }
}

/* ---- Forward ---- */

/* Scores of the queries and a block of keys, which it packs. */
static void score(const struct attention *a, const struct queries *q, struct range keys, const float *k,
                  const float *v, const struct block *b) {
  const int64_t count = keys.end - keys.begin, width = whole_vectors(a->depth);
  pack_rows(count, a->depth, k + keys.begin * a->key_row, a->key_row, b->keys);
  pack_rows(count, a->depth, v + keys.begin * a->key_row, a->key_row, b->values);
  multiply(count, q->count, a->depth, (struct factor){b->keys, width, 1}, b->query_columns, QUERIES,
           b->weights, QUERIES, false);
  hide(a, q, keys.begin, count, b->weights);
}

/* The softmax of each query so far. */
struct running {
  float highest[QUERIES], sum[QUERIES], shrink[QUERIES]; /* what earlier terms are multiplied by */
};

/* Scores become exponentials, measured against the highest score so far. */
static void exponentiate(int64_t keys, int64_t columns, struct running *r, float *scores) {
  float highest[QUERIES];
  memcpy(highest, r->highest, sizeof highest);
  for (int64_t j = 0; j < keys; j++) {
#pragma omp simd
    for (int64_t i = 0; i < columns; i++) {
      const float s = scores[j * QUERIES + i];
      highest[i] = s > highest[i] ? s : highest[i];
    }
  }
#pragma omp simd
  for (int64_t i = 0; i < columns; i++) {
    r->shrink[i] = exponential_of_negative(r->highest[i] - highest[i]);
    r->sum[i] *= r->shrink[i];
  }
  memcpy(r->highest, highest, sizeof highest);
  for (int64_t j = 0; j < keys; j++) {
#pragma omp simd
    for (int64_t i = 0; i < columns; i++) {
      const float e = exponential_of_negative(scores[j * QUERIES + i] - highest[i]);
      scores[j * QUERIES + i] = e;
      r->sum[i] += e;
    }
  }
}

static void multiply_rows(int64_t rows, int64_t columns, const float *factors, int64_t row, float *x) {
  for (int64_t m = 0; m < rows; m++) {
#pragma omp simd
    for (int64_t i = 0; i < columns; i++) x[m * QUERIES + i] *= factors[m * row + i];
  }
}

static void attend(const struct attention *a, const struct queries *q, const float *queries, const float *k,
                   const float *v, float *y, float *log_sum, const struct block *b) {
  const int64_t width = whole_vectors(a->depth), columns = whole_vectors(q->count);
  const struct range seen = keys_of(a, q);
  struct running r = {{0}, {0}, {0}};
  for (int i = 0; i < QUERIES; i++) r.highest[i] = -FLT_MAX;
  memset(b->sums, 0, (size_t)(width * QUERIES) * sizeof *b->sums);
  pack_rows(q->count, a->depth, queries, a->query_row, b->query_rows);
  pack_columns(q->count, a->depth, a->scale, b->query_rows, b->query_columns);
  for (int64_t j = seen.begin; j < seen.end; j += KEYS) {
    const int64_t count = least(KEYS, seen.end - j);
    score(a, q, (struct range){j, j + count}, k, v, b);
    exponentiate(count, columns, &r, b->weights);
    if (a->probability > 0) {
      draw(a, q, j, count, b->kept);
      multiply_rows(count, columns, b->kept, QUERIES, b->weights);
    }
    multiply_rows(a->depth, columns, r.shrink, 0, b->sums);
    multiply(a->depth, q->count, count, (struct factor){b->values, 1, width}, b->weights, QUERIES, b->sums,
             QUERIES, true);
  }
  for (int64_t i = 0; i < q->count; i++) {
    const float sum = r.sum[i];
    log_sum[i] = sum != 0 ? r.highest[i] + logf(sum) : -INFINITY;
    r.shrink[i] = sum != 0 ? 1 / sum : 0;
  }
  unpack_columns(q->count, a->depth, b->sums, r.shrink, y, a->heads * a->depth);
}

static int64_t length_of(const struct attention *a, const int32_t *lengths, int64_t n) {
  return lengths != NULL ? most(0, least(lengths[n], a->keys)) : a->keys;
}

/* Where a head's rows begin. */
static int64_t query_at(const struct attention *a, const struct queries *q) {
  return (q->sequence * a->queries + q->first) * a->query_row + q->head * a->depth;
}
static int64_t result_at(const struct attention *a, const struct queries *q) {
  return ((q->sequence * a->queries + q->first) * a->heads + q->head) * a->depth;
}
static int64_t key_at(const struct attention *a, int64_t sequence, int64_t key_head) {
  return sequence * a->keys * a->key_row + key_head * a->depth;
}

static bool worth_a_team(const struct attention *a) {
  return (double)a->sequences * (double)a->heads * (double)a->queries * (double)a->keys >= PARALLEL_FROM;
}

/* Blocks of queries go to threads in turns, since later ones see more keys where attention is causal. */
void ISA(attention)(struct attention a, const float *q, const float *k, const float *v,
                    const int32_t *lengths, float *y, float *log_sum, void *workspace) {
  const int64_t blocks = (a.queries + QUERIES - 1) / QUERIES, group = a.heads / a.key_heads;
#pragma omp parallel for schedule(static, 1) if (worth_a_team(&a))
  for (int64_t task = 0; task < a.sequences * a.heads * blocks; task++) {
    const int64_t n = task / blocks / a.heads, h = task / blocks % a.heads, first = task % blocks * QUERIES,
                  keys = key_at(&a, n, h / group);
    const struct queries some = {n, h, first, least(QUERIES, a.queries - first), length_of(&a, lengths, n)};
    const struct block b = block_of(&a, false, workspace);
    attend(&a, &some, q + query_at(&a, &some), k + keys, v + keys, y + result_at(&a, &some),
           log_sum + (n * a.heads + h) * a.queries + first, &b);
  }
}

/* ---- Backward ---- */

/* Of each query: what its scores are measured against, and the mean of its weights' gradients. */
struct terms {
  float log_sum[QUERIES], mean[QUERIES];
};

static void gather_terms(const struct attention *a, const struct queries *q, const float *y,
                         const float *log_sum, const float *dy, struct terms *t) {
  const int64_t row = a->heads * a->depth;
  for (int64_t i = 0; i < QUERIES;
       i++) { /* weights of 0 where nothing is seen, and of queries that are none */
    t->log_sum[i] = INFINITY;
    t->mean[i] = 0;
  }
  for (int64_t i = 0; i < q->count; i++) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t d = 0; d < a->depth; d++) sum += y[i * row + d] * dy[i * row + d];
    t->mean[i] = sum;
    if (log_sum[i] != -INFINITY) t->log_sum[i] = log_sum[i];
  }
}

/* From scores and, in `slopes`, gradients of the weights to weights and gradients of the scores. Rows that
 * fill up a tile are products with zeros and stay 0: what is added to the sums of keys there changes nothing.
 */
static void differentiate(const struct attention *a, int64_t keys, int64_t columns, const struct terms *t,
                          const struct block *b) {
  for (int64_t j = 0; j < keys; j++) {
    float *weights = b->weights + j * QUERIES, *slopes = b->slopes + j * QUERIES;
    const float *kept = b->kept + j * QUERIES;
    if (a->probability > 0) {
#pragma omp simd
      for (int64_t i = 0; i < columns; i++) {
        const float p = exponential_of_negative(weights[i] - t->log_sum[i]);
        slopes[i] = p * (slopes[i] * kept[i] - t->mean[i]) * a->scale;
        weights[i] = p * kept[i];
      }
    } else {
#pragma omp simd
      for (int64_t i = 0; i < columns; i++) {
        weights[i] = exponential_of_negative(weights[i] - t->log_sum[i]);
        slopes[i] = weights[i] * (slopes[i] - t->mean[i]) * a->scale;
      }
    }
  }
}

/* dq of some queries, into b->sums, and what they add to dk and dv. */
static void attend_backward(const struct attention *a, const struct queries *q, const float *k,
                            const float *v, const struct terms *t, const struct block *b) {
  const int64_t width = whole_vectors(a->depth), columns = whole_vectors(q->count);
  const struct range seen = keys_of(a, q);
  memset(b->sums, 0, (size_t)(width * QUERIES) * sizeof *b->sums);
  for (int64_t j = seen.begin; j < seen.end; j += KEYS) {
    const int64_t count = least(KEYS, seen.end - j);
    score(a, q, (struct range){j, j + count}, k, v, b);
    multiply(count, q->count, a->depth, (struct factor){b->values, width, 1}, b->gradient_columns, QUERIES,
             b->slopes, QUERIES, false);
    if (a->probability > 0) draw(a, q, j, count, b->kept);
    differentiate(a, count, columns, t, b);
    multiply(count, a->depth, q->count, (struct factor){b->weights, QUERIES, 1}, b->gradient_rows, width,
             b->value_sums + j * width, width, true);
    multiply(count, a->depth, q->count, (struct factor){b->slopes, QUERIES, 1}, b->query_rows, width,
             b->key_sums + j * width, width, true);
    multiply(a->depth, q->count, count, (struct factor){b->keys, 1, width}, b->slopes, QUERIES, b->sums,
             QUERIES, true);
  }
}

static void unpack_rows(int64_t count, int64_t depth, const float *from, float *to, int64_t row) {
  for (int64_t i = 0; i < count; i++)
    memcpy(to + i * row, from + i * whole_vectors(depth), (size_t)depth * sizeof *to);
}

/* A task is a head of keys with all its heads of queries: what lies in place of an operand is written when
 * nothing reads that any more. */
void ISA(attention_backward)(struct attention a, const float *q, const float *k, const float *v,
                             const int32_t *lengths, const float *y, const float *log_sum, const float *dy,
                             float *dq, float *dk, float *dv, void *workspace) {
  const int64_t group = a.heads / a.key_heads, row = a.heads * a.depth;
  float ones[QUERIES];
  for (int i = 0; i < QUERIES; i++) ones[i] = 1;
#pragma omp parallel for schedule(static, 1) if (worth_a_team(&a))
  for (int64_t task = 0; task < a.sequences * a.key_heads; task++) {
    const int64_t n = task / a.key_heads, key_head = task % a.key_heads, keys = key_at(&a, n, key_head);
    const struct block b = block_of(&a, true, workspace);
    memset(b.key_sums, 0, (size_t)sums_elements(&a) * sizeof(float));
    memset(b.value_sums, 0, (size_t)sums_elements(&a) * sizeof(float));
    for (int64_t h = key_head * group; h < (key_head + 1) * group; h++)
      for (int64_t first = 0; first < a.queries; first += QUERIES) {
        const struct queries some = {n, h, first, least(QUERIES, a.queries - first),
                                     length_of(&a, lengths, n)};
        const int64_t at = query_at(&a, &some), result = result_at(&a, &some);
        struct terms t;
        gather_terms(&a, &some, y + result, log_sum + (n * a.heads + h) * a.queries + first, dy + result, &t);
        pack_rows(some.count, a.depth, q + at, a.query_row, b.query_rows);
        pack_columns(some.count, a.depth, a.scale, b.query_rows, b.query_columns);
        pack_rows(some.count, a.depth, dy + result, row, b.gradient_rows);
        pack_columns(some.count, a.depth, 1, b.gradient_rows, b.gradient_columns);
        attend_backward(&a, &some, k + keys, v + keys, &t, &b);
        unpack_columns(some.count, a.depth, b.sums, ones, dq + at, a.query_row);
      }
    unpack_rows(a.keys, a.depth, b.key_sums, dk + keys, a.key_row);
    unpack_rows(a.keys, a.depth, b.value_sums, dv + keys, a.key_row);
  }
}

/* ---- Rotary embedding ---- */

static int64_t angles_elements(struct rotary r) { return (r.depth + 15) / 16 * 16; } /* of a thread */

size_t ISA(rotary_workspace)(struct rotary r, int threads) {
  return (size_t)threads * (size_t)angles_elements(r) * sizeof(float);
}

/* Cosines, then sines, of the angles of a row, in double: positions may be large. */
static void make_angles(const struct rotary *r, int64_t row, float *angles) {
  const int64_t half = r->depth / 2;
  for (int64_t d = 0; d < half; d++) {
    const double angle =
        ((double)row + (double)r->first) * pow((double)r->base, -2 * (double)d / (double)r->depth);
    angles[d] = (float)cos(angle);
    angles[half + d] = (float)(r->back ? -sin(angle) : sin(angle));
  }
}

static void turn(int64_t half, const float *angles, const float *x, float *y) {
#pragma omp simd
  for (int64_t d = 0; d < half; d++) {
    const float first = x[d], second = x[half + d], c = angles[d], s = angles[half + d];
    y[d] = first * c - second * s;
    y[half + d] = second * c + first * s;
  }
}

/* The angles of a row serve all sequences and heads. */
void ISA(rotary)(struct rotary r, const float *x, float *y, void *workspace) {
  const int64_t row = r.heads * r.depth, turned = r.turned * r.depth;
#pragma omp parallel for if (r.sequences * r.rows * row >= PARALLEL_FROM)
  for (int64_t t = 0; t < r.rows; t++) {
    float *angles = (float *)workspace + omp_get_thread_num() * angles_elements(r);
    make_angles(&r, t, angles);
    for (int64_t n = 0; n < r.sequences; n++) {
      const int64_t at = (n * r.rows + t) * row;
      for (int64_t h = 0; h < r.turned; h++)
        turn(r.depth / 2, angles, x + at + h * r.depth, y + at + h * r.depth);
      if (y != x) memcpy(y + at + turned, x + at + turned, (size_t)(row - turned) * sizeof *y);
    }
  }
}
