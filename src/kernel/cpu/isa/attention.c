/* Attention that does not store its scores (Rabe and Staats 2021; Dao et al. 2022), and rotary embedding.
 *
 * A block of queries visits the blocks of keys that it can see. Scores are transposed, a row for each key:
 * vectors run over queries, so that the maximum and the sum of a query's exponentials are elementwise, and
 * every product reads keys and values in the order of memory. Operands of 16 bits are converted to floats
 * block by block. If the processor multiplies pairs of bf16, operands of bf16 stay bf16, and scores are
 * rounded to bf16 for the other products. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/elementary.h"
#include "kernel/cpu/isa/matrix_tile.h"
#include "kernel/cpu/isa/random.h"
#include "kernel/cpu/isa/storage.h"

enum { QUERIES = 64, KEYS = 64 }; /* of a block */

/* ---- Blocks ---- */

/* Rows of a block, packed as factors of products that sum along the rows or across them. If units are
 * floats, `across` is `rows`. */
struct factors {
  float *rows;    /* [rows][units of columns] */
  float *across;  /* [units of rows][columns] */
  float *columns; /* [units of columns][rows]: `rows` transposed */
};
/* Factors to make besides `rows`. */
enum { ROWS = 0, ACROSS = 1, COLUMNS = 2 };

/* Workspace of a thread. */
struct block {
  bool pairs;                                     /* units are pairs of bf16, not floats */
  struct factors queries, keys, values, gradient; /* [QUERIES or KEYS][width]; gradient: dy */
  struct factors weights, slopes;                 /* [KEYS][QUERIES]: `scores` and `gradients`, packed */
  float *scores;                                  /* [KEYS][QUERIES]: scores, then weights of values */
  float *gradients;                               /* of weights, then of scores; backward only */
  float *kept;                                    /* dropout's factors of the weights */
  float *sums;                                    /* [width][QUERIES]: y or dq */
  float *row[2];                                  /* [width] */
  float *key_sums, *value_sums;                   /* [keys][width]: dk and dv of a head; backward only */
};

static int64_t sums_elements(const struct attention *a) { return a->keys * whole_vectors(a->depth); }

/* Memory that is allocated from its begin on; begin NULL: counts only. */
struct memory {
  float *begin;
  int64_t used;
};

static float *take(struct memory *m, int64_t elements) {
  float *here = m->begin != NULL ? m->begin + m->used : NULL;
  m->used += elements;
  return here;
}

static struct factors take_factors(struct memory *m, bool pairs, int64_t elements, int made) {
  struct factors f = {.rows = take(m, units_of(pairs, elements))};
  f.across = pairs && made & ACROSS ? take(m, units_of(pairs, elements)) : f.rows;
  if (made & COLUMNS) f.columns = take(m, units_of(pairs, elements));
  return f;
}

static struct block take_block(const struct attention *a, bool backward, struct memory *m) {
  const int64_t width = whole_vectors(a->depth), rows = QUERIES * width, pairs = KEYS * QUERIES;
  struct block b = {.pairs = HAS_PAIRS && a->storage == NEAP_BF16};
  b.queries = take_factors(m, b.pairs, rows, backward ? ACROSS | COLUMNS : COLUMNS);
  b.keys = take_factors(m, b.pairs, rows, backward ? ACROSS : ROWS);
  b.values = take_factors(m, b.pairs, rows, backward ? ROWS : ACROSS);
  b.scores = take(m, pairs);
  b.kept = take(m, pairs);
  b.sums = take(m, rows);
  for (int i = 0; i < 2; i++) b.row[i] = take(m, width);
  b.weights.rows = b.weights.across = b.scores;
  if (b.pairs) b.weights = take_factors(m, true, pairs, backward ? ROWS : ACROSS);
  if (!backward) return b;
  b.gradient = take_factors(m, b.pairs, rows, ACROSS | COLUMNS);
  b.gradients = take(m, pairs);
  b.slopes.rows = b.slopes.across = b.gradients;
  if (b.pairs) b.slopes = take_factors(m, true, pairs, ACROSS);
  b.key_sums = take(m, sums_elements(a));
  b.value_sums = take(m, sums_elements(a));
  return b;
}

static int64_t block_elements(const struct attention *a, bool backward) {
  struct memory counted = {0};
  take_block(a, backward, &counted);
  return counted.used;
}

/* Returns the workspace of this thread. */
static struct block block_of(const struct attention *a, bool backward, void *workspace) {
  struct memory m = {(float *)workspace + omp_get_thread_num() * block_elements(a, backward), 0};
  return take_block(a, backward, &m);
}

size_t ISA(attention_workspace)(struct attention a, bool backward, int threads) {
  return (size_t)threads * (size_t)block_elements(&a, backward) * sizeof(float);
}

/* ---- Products ---- */

/* Describes a result to whose elements the sums are added. */
static struct result added_to(float *data, int64_t row) {
  return (struct result){.data = data, .row = row, .before = data, .before_row = row};
}

/* c [rows, columns] = a b, or c = c.before + a b; each sum has `depth` terms. Columns are rounded up to whole
 * vectors, and an odd depth to whole pairs, for which b and c must have room. */
INLINE void multiply_units(bool pairs, int64_t rows, int64_t columns, int64_t depth, struct factor a,
                           struct right_factor b, struct result c) {
  for (int64_t n = 0; n < columns; n += TILE_COLUMNS)
    for (int64_t m = 0; m < rows; m += TILE_ROWS) {
      multiply_panel(pairs, least(TILE_ROWS, rows - m), least(TILE_COLUMNS, columns - n), depth,
                     (struct factor){a.data + m * a.row, a.row, a.column},
                     (struct right_factor){b.data + n, b.row}, result_at(c, m, n), NULL, NULL);
    }
}
static void multiply_floats(int64_t rows, int64_t columns, int64_t depth, struct factor a,
                            struct right_factor b, struct result c) {
  multiply_units(false, rows, columns, depth, a, b, c);
}
static void multiply_pairs(int64_t rows, int64_t columns, int64_t depth, struct factor a,
                           struct right_factor b, struct result c) {
  multiply_units(true, rows, columns, depth, a, b, c);
}
static void multiply(bool pairs, int64_t rows, int64_t columns, int64_t depth, struct factor a,
                     struct right_factor b, struct result c) {
  if (HAS_MATRICES && pairs)
    multiply_matrix_rows(rows, columns, units_of(true, depth), a, b, c);
  else if (HAS_PAIRS && pairs)
    multiply_pairs(rows, columns, units_of(true, depth), a, b, c);
  else
    multiply_floats(rows, columns, depth, a, b, c);
}

/* ---- Packing ---- */

/* Packs pairs across rows: element d of rows 2 j and 2 j + 1. */
static void pair_across(int64_t count, int64_t columns, int64_t width, const float *rows, float *across) {
  for (int64_t j = 0; j < units_of(true, count); j++) {
    const uint16_t *first = (const uint16_t *)(const void *)rows + 2 * j * width, *second = first + width;
    uint32_t *pair = (uint32_t *)(void *)across + j * width;
#pragma omp simd
    for (int64_t d = 0; d < columns; d++) pair[d] = first[d] | (uint32_t)second[d] << 16;
  }
}

/* Transpose units of rows; columns from `count` on are 0. Floats are multiplied by `scale`. */
static void turn_floats(int64_t count, int64_t depth, float scale, const float *rows, float *to) {
  const int64_t width = whole_vectors(depth);
  for (int64_t d = 0; d < depth; d++) {
    for (int64_t i = 0; i < count; i++) to[d * QUERIES + i] = scale * rows[i * width + d];
    for (int64_t i = count; i < QUERIES; i++) to[d * QUERIES + i] = 0;
  }
}
static void turn_pairs(int64_t count, int64_t depth, const float *rows, float *columns) {
  const uint32_t *from = (const uint32_t *)(const void *)rows;
  uint32_t *to = (uint32_t *)(void *)columns;
  const int64_t width = units_of(true, whole_vectors(depth));
  for (int64_t d = 0; d < units_of(true, depth); d++) {
    for (int64_t i = 0; i < count; i++) to[d * QUERIES + i] = from[i * width + d];
    for (int64_t i = count; i < QUERIES; i++) to[d * QUERIES + i] = 0;
  }
}

/* Returns row i of some, by the numbers that rows have (NULL: their own). */
static int64_t numbered_row(const struct attention_rows *rows, const int32_t *numbers, int64_t i) {
  const int64_t row = attention_row(rows, i);
  return numbers != NULL ? numbers[row] : row;
}

/* Packs rows of a head, `row` elements from one to the next, padded with zeros to whole vectors. Transposed
 * floats are multiplied by `scale`. */
static void pack(const struct attention *a, bool pairs, const struct attention_rows *rows,
                 const int32_t *numbers, const void *from, int64_t row, float scale,
                 const struct factors *to) {
  const int64_t width = whole_vectors(a->depth), count = rows->count;
  const size_t element = bytes_of(pairs ? NEAP_BF16 : NEAP_F32), length = (size_t)width * element,
               used = (size_t)a->depth * element;
  unsigned char *here = (unsigned char *)to->rows;
  for (int64_t i = 0; i < count; i++, here += length) {
    const void *x = element_at(from, a->storage, numbered_row(rows, numbers, i) * row);
    if (pairs)
      memcpy(here, x, used);
    else
      widen_run(a->storage, a->depth, x, (float *)(void *)here);
    memset(here + used, 0, length - used);
  }
  if (pairs && count % 2 != 0) memset(here, 0, length); /* the half of a pair after the last row */
  if (to->across != to->rows) pair_across(count, width, width, to->rows, to->across);
  if (to->columns != NULL && pairs)
    turn_pairs(count, a->depth, to->rows, to->columns);
  else if (to->columns != NULL)
    turn_floats(count, a->depth, scale, to->rows, to->columns);
}

/* Packs rows of [KEYS][QUERIES] floats as factors if units are pairs. A half of a pair that is no query or
 * key is 0. */
static void pack_weights(bool pairs, int64_t keys, int64_t queries, const float *weights,
                         const struct factors *to) {
  if (!pairs) return;
  const int64_t columns = whole_vectors(queries);
  uint16_t *rows = (uint16_t *)(void *)to->rows;
  for (int64_t j = 0; j < keys; j++) {
    narrow_run(NEAP_BF16, columns, weights + j * QUERIES, rows + j * QUERIES);
    if (queries % 2 != 0) rows[j * QUERIES + queries] = 0;
  }
  if (keys % 2 != 0) memset(rows + keys * QUERIES, 0, (size_t)columns * sizeof *rows);
  if (to->across != to->rows) pair_across(keys, columns, QUERIES, to->rows, to->across);
}

/* Transposes columns back to rows of a head, each times its factor. made: [width], workspace. */
static void unpack_columns(const struct attention *a, const struct attention_rows *rows,
                           const int32_t *numbers, const float *columns, const float *factors, float *made,
                           void *to, int64_t row) {
  for (int64_t i = 0; i < rows->count; i++) {
    for (int64_t d = 0; d < a->depth; d++) made[d] = columns[d * QUERIES + i] * factors[i];
    narrow_run(a->storage, a->depth, made,
               (void *)element_at(to, a->storage, numbered_row(rows, numbers, i) * row));
  }
}

static void unpack_rows(const struct attention *a, int64_t count, const float *from, void *to, int64_t row) {
  for (int64_t i = 0; i < count; i++)
    narrow_run(a->storage, a->depth, from + i * whole_vectors(a->depth),
               (void *)element_at(to, a->storage, i * row));
}

/* ---- Visible keys ---- */

/* A block of queries of a head. */
struct queries {
  int64_t sequence, head;
  struct attention_rows rows; /* whole steps apart */
  const struct attention_pattern *pattern;
  int64_t place;         /* of the first of them */
  int64_t length;        /* the number of keys of the sequence */
  const int32_t *places; /* of the sequence; NULL: hide no key */
};

/* Goes through the keys that any of the queries sees, a block at a time. */
struct keys {
  struct attention_rows runs[ATTENTION_RUNS];
  int count, run;
  int64_t at; /* in the run */
};

static struct keys keys_of(const struct attention *a, const struct queries *q) {
  struct attention_rows places = q->rows;
  int64_t own = q->places != NULL ? q->length : 0; /* the first key of the sequences of these queries */
  places.first = q->place;
  if (a->rows != NULL) /* all rows from the first to the last one */
    places = (struct attention_rows){q->place, 1, 1, 0,
                                     1 + numbered_row(&q->rows, a->rows, q->rows.count - 1) -
                                         numbered_row(&q->rows, a->rows, 0)};
  for (int64_t i = 0; q->places != NULL && i < q->rows.count; i++)
    own = least(own, attention_row(&places, i) - q->places[attention_row(&q->rows, i)]);
  struct keys keys = {.run = 0};
  keys.count = attention_keys(q->pattern, a->causal, &places, most(0, own), q->length, keys.runs);
  return keys;
}

static bool next_keys(struct keys *keys, struct attention_rows *block) {
  if (keys->run == keys->count) return false;
  *block = keys->runs[keys->run];
  block->from += keys->at;
  block->count = least(KEYS, block->count - keys->at);
  keys->at += block->count;
  if (keys->at < keys->runs[keys->run].count) return true;
  keys->run++;
  keys->at = 0;
  return true;
}

/* Returns how many rows, from the k-th on, are neighbours. */
static int64_t neighbours(const struct attention_rows *rows, int64_t k) {
  return rows->stride == rows->run ? rows->count - k
                                   : least(rows->count - k, rows->run - (rows->from + k) % rows->run);
}

/* The same for queries that are some rows of a sequence. */
static void hide_by_row(const struct attention *a, const struct queries *q, const struct attention_rows *keys,
                        float *scores) {
  for (int64_t j = 0; j < keys->count; j++)
    for (int64_t i = 0; i < q->rows.count; i++) {
      const int64_t place = numbered_row(&q->rows, a->rows, i) + a->keys - a->length;
      if (!attention_sees(q->pattern, a->causal, place, attention_row(keys, j)))
        scores[j * QUERIES + i] = -INFINITY;
    }
}

/* Sets scores to -infinity where a query does not see the key. */
static void hide(const struct attention *a, const struct queries *q, const struct attention_rows *keys,
                 float *scores) {
  const struct attention_pattern *p = q->pattern;
  if (!a->causal && p->reach == 0 && p->block == 0 && q->places == NULL) return;
  if (a->rows != NULL) {
    hide_by_row(a, q, keys, scores);
    return;
  }
  for (int64_t j = 0; j < keys->count; j++) {
    const int64_t key = attention_row(keys, j);
    int64_t begin, end;
    attention_seen_by(p, a->causal, q->place, q->rows.stride, key, &begin, &end);
    for (int64_t i = 0; i < least(begin, QUERIES); i++) scores[j * QUERIES + i] = -INFINITY;
    for (int64_t i = most(end, 0); i < QUERIES; i++) scores[j * QUERIES + i] = -INFINITY;
    for (int64_t i = 0; q->places != NULL && i < q->rows.count; i++)
      if (key - q->place - i * q->rows.stride + q->places[attention_row(&q->rows, i)] < 0)
        scores[j * QUERIES + i] = -INFINITY;
  }
}

/* Draws for a row of a block: four for each counter. A row may begin within a counter. */
enum { COUNTER_BLOCKS = (KEYS / 4 + COUNTERS) / COUNTERS, DRAWS = 4 * COUNTERS * COUNTER_BLOCKS };

/* Draws dropout's factors of the weights of neighbouring keys: 0 or 1 / (1 - probability). */
static void draw_run(const struct attention *a, const struct queries *q, int64_t first_key, int64_t keys,
                     float *kept) {
  const float probability = a->probability, keep = 1 / (1 - probability);
  for (int64_t i = 0; i < q->rows.count; i++) {
    const int64_t row =
        ((a->first + q->sequence) * a->heads + q->head) * a->length + numbered_row(&q->rows, a->rows, i);
    const uint64_t at = (uint64_t)(row * a->keys + first_key);
    uint32_t draws[DRAWS];
    float factors[DRAWS];
    for (int b = 0; b < COUNTER_BLOCKS; b++)
      random_words(a->key, at / 4 + (uint64_t)(b * COUNTERS), draws + 4 * b * COUNTERS);
#pragma omp simd
    for (int k = 0; k < DRAWS; k++) factors[k] = random_uniform(draws[k]) >= probability ? keep : 0;
    for (int64_t j = 0; j < keys; j++) kept[j * QUERIES + i] = factors[at % 4 + (uint64_t)j];
  }
}

static void draw(const struct attention *a, const struct queries *q, const struct attention_rows *keys,
                 float *kept) {
  for (int64_t j = 0, count; j < keys->count; j += count) {
    count = neighbours(keys, j);
    draw_run(a, q, attention_row(keys, j), count, kept + j * QUERIES);
  }
}

/* ---- Forward ---- */

static void scale_columns(int64_t rows, int64_t columns, const float *factors, int64_t row, float *x) {
  for (int64_t m = 0; m < rows; m++) {
#pragma omp simd
    for (int64_t i = 0; i < columns; i++) x[m * QUERIES + i] *= factors[m * row + i];
  }
}

static void scale_rows(int64_t rows, int64_t columns, float scale, float *x) {
  for (int64_t m = 0; m < rows; m++) {
#pragma omp simd
    for (int64_t i = 0; i < columns; i++) x[m * QUERIES + i] *= scale;
  }
}

static void cap_rows(int64_t rows, int64_t columns, float cap, float *x) {
  for (int64_t m = 0; m < rows; m++) {
#pragma omp simd
    for (int64_t i = 0; i < columns; i++)
      x[m * QUERIES + i] = cap * hyperbolic_tangent(x[m * QUERIES + i] / cap);
  }
}

/* Packs a block of keys and values, and computes its scores with the queries. */
static void score(const struct attention *a, const struct queries *q, const struct attention_rows *keys,
                  const void *k, const void *v, const struct block *b) {
  const int64_t count = keys->count, columns = whole_vectors(q->rows.count),
                row = units_of(b->pairs, whole_vectors(a->depth));
  pack(a, b->pairs, keys, NULL, k, a->key_row, 1, &b->keys);
  pack(a, b->pairs, keys, NULL, v, a->key_row, 1, &b->values);
  multiply(b->pairs, count, q->rows.count, a->depth, (struct factor){b->keys.rows, row, 1},
           (struct right_factor){b->queries.columns, QUERIES},
           (struct result){.data = b->scores, .row = QUERIES});
  if (b->pairs) scale_rows(count, columns, a->scale, b->scores);
  if (a->cap > 0) cap_rows(count, columns, a->cap, b->scores);
  hide(a, q, keys, b->scores);
}

/* The running softmax of each query. */
struct running {
  float highest[QUERIES], sum[QUERIES], shrink[QUERIES]; /* shrink: the factor of earlier terms */
};

/* Turns scores into exponentials, relative to the highest score so far. */
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

/* The first rows of the head: of queries, keys, values, results and logarithms. */
static void attend(const struct attention *a, const struct queries *q, const void *queries, const void *k,
                   const void *v, void *y, float *log_sum, const struct block *b) {
  const int64_t width = whole_vectors(a->depth), count = q->rows.count, columns = whole_vectors(count);
  struct keys seen = keys_of(a, q);
  struct attention_rows keys;
  struct running r = {{0}, {0}, {0}};
  for (int i = 0; i < QUERIES; i++) r.highest[i] = -FLT_MAX;
  memset(b->sums, 0, (size_t)(width * QUERIES) * sizeof *b->sums);
  pack(a, b->pairs, &q->rows, NULL, queries, a->query_row, a->scale, &b->queries);
  while (next_keys(&seen, &keys)) {
    score(a, q, &keys, k, v, b);
    exponentiate(keys.count, columns, &r, b->scores);
    if (a->probability > 0) {
      draw(a, q, &keys, b->kept);
      scale_columns(keys.count, columns, b->kept, QUERIES, b->scores);
    }
    scale_columns(a->depth, columns, r.shrink, 0, b->sums);
    pack_weights(b->pairs, keys.count, count, b->scores, &b->weights);
    multiply(b->pairs, a->depth, count, keys.count, (struct factor){b->values.across, 1, width},
             (struct right_factor){b->weights.across, QUERIES}, added_to(b->sums, QUERIES));
  }
  for (int64_t i = 0; i < count; i++) {
    const float sum = r.sum[i];
    log_sum[attention_row(&q->rows, i)] = sum != 0 ? r.highest[i] + logarithm(sum) : -INFINITY;
    r.shrink[i] = sum != 0 ? 1 / sum : 0;
  }
  unpack_columns(a, &q->rows, NULL, b->sums, r.shrink, b->row[0], y, a->heads * a->depth);
}

/* Block `index` of the queries of a head. */
static struct queries queries_of(const struct attention *a, int64_t n, int64_t h, int64_t index) {
  const struct attention_pattern *pattern = attention_of_head(&a->patterns, h);
  const struct attention_rows rows = attention_tile(pattern, a->queries, QUERIES, index);
  return (struct queries){.sequence = n,
                          .head = h,
                          .rows = rows,
                          .pattern = pattern,
                          .place =
                              (rows.count > 0 ? numbered_row(&rows, a->rows, 0) : 0) + a->keys - a->length,
                          .length = a->lengths != NULL ? most(0, least(a->lengths[n], a->keys)) : a->keys,
                          .places = a->places != NULL ? a->places + n * a->queries : NULL};
}

/* Return the offset of a head's first row: of queries, of results and of keys. */
static int64_t query_at(const struct attention *a, const struct queries *q) {
  return q->sequence * (a->packed ? a->length : a->queries) * a->query_row + q->head * a->depth;
}
static int64_t row_of_result(const struct attention *a, const struct queries *q) {
  return (q->sequence * a->queries * a->heads + q->head) * a->depth;
}
static int64_t key_at(const struct attention *a, int64_t sequence, int64_t key_head) {
  return sequence * a->keys * a->key_row + key_head * a->depth;
}

static bool worth_a_team(const struct attention *a) {
  return (double)a->sequences * (double)a->heads * (double)a->queries * (double)a->keys >= PARALLEL_FROM;
}

/* Returns the most blocks that the queries of a head fall into. */
static int64_t most_blocks(const struct attention *a) {
  int64_t blocks = 0;
  for (int64_t h = 0; h < most(1, a->patterns.count); h++)
    blocks = most(blocks, attention_tiles(&a->patterns.of[h], a->queries, QUERIES));
  return blocks;
}

/* Threads take blocks of queries in turn: with causal attention, later blocks see more keys. */
void ISA(attention)(struct attention a, const void *q, const void *k, const void *v, void *y, float *log_sum,
                    void *workspace) {
  const int64_t blocks = most_blocks(&a), group = a.heads / a.key_heads;
#pragma omp parallel for schedule(static, 1) if (worth_a_team(&a))
  for (int64_t task = 0; task < a.sequences * a.heads * blocks; task++) {
    const int64_t n = task / blocks / a.heads, h = task / blocks % a.heads, keys = key_at(&a, n, h / group);
    const struct queries some = queries_of(&a, n, h, task % blocks);
    if (some.rows.count <= 0) continue;
    const struct block b = block_of(&a, false, workspace);
    if (b.pairs) open_matrices();
    attend(&a, &some, element_at(q, a.storage, query_at(&a, &some)), element_at(k, a.storage, keys),
           element_at(v, a.storage, keys), (void *)element_at(y, a.storage, row_of_result(&a, &some)),
           log_sum + (n * a.heads + h) * a.queries, &b);
    if (b.pairs) close_matrices();
  }
}

/* ---- Backward ---- */

/* For each query: the log-sum of its scores, and the mean of its weights' gradients. */
struct terms {
  float log_sum[QUERIES], mean[QUERIES];
};

/* Computes the mean of each query in the order in which the products of dy and a value are summed: if a query
 * sees one key, its score has the gradient 0. Uses b->sums. */
static void find_means(const struct attention *a, const struct attention_rows *rows, const void *y,
                       const void *dy, const struct block *b, float *mean) {
  const int64_t row = a->heads * a->depth, count = rows->count;
  for (int64_t i = 0; i < count; i++) {
    const float *result = b->row[0], *gradient = b->row[1];
    const int64_t at = attention_row(rows, i) * row;
    float sums[SUM_LANES] = {0};
    widen_run(a->storage, a->depth, element_at(y, a->storage, at), b->row[0]);
    if (!b->pairs) {
      for (int64_t d = 0; d < a->depth; d++) b->sums[d * QUERIES + i] = result[d];
      continue;
    }
    widen_run(a->storage, a->depth, element_at(dy, a->storage, at), b->row[1]);
    IN_LANES(d, lane, a->depth, sums[lane] = multiply_add(result[d], gradient[d], sums[lane]));
    mean[i] = sum_of_float_lanes(sums);
  }
  for (int64_t d = 0; !b->pairs && d < a->depth; d++) {
    const float *results = b->sums + d * QUERIES, *gradients = b->gradient.columns + d * QUERIES;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) mean[i] = multiply_add(results[i], gradients[i], mean[i]);
  }
}

/* b->gradient is packed. */
static void gather_terms(const struct attention *a, const struct queries *q, const void *y,
                         const float *log_sum, const void *dy, const struct block *b, struct terms *t) {
  for (int64_t i = 0; i < QUERIES;
       i++) { /* a weight of 0 for queries that see no key, and for rows that are padding */
    const float sum = i < q->rows.count ? log_sum[numbered_row(&q->rows, a->rows, i)] : INFINITY;
    t->log_sum[i] = sum != -INFINITY ? sum : INFINITY;
    t->mean[i] = 0;
  }
  find_means(a, &q->rows, y, dy, b, t->mean);
}

/* Computes the slopes of the cap for a row of scores; 0 for hidden scores, which are -infinity. */
static void slopes_of_cap(int64_t columns, float cap, const float *scores, float *slopes) {
#pragma omp simd
  for (int64_t i = 0; i < columns; i++) {
    const float share = scores[i] > -cap ? scores[i] / cap : -1;
    slopes[i] = 1 - share * share;
  }
}

/* Turns scores into weights, and gradients of the weights into gradients of the scores. Rows that pad a tile
 * are products with zeros and stay 0, so that they add 0 to the sums of keys. */
static void differentiate(const struct attention *a, int64_t keys, int64_t columns, const struct terms *t,
                          const struct block *b) {
  for (int64_t j = 0; j < keys; j++) {
    float *weights = b->scores + j * QUERIES, *slopes = b->gradients + j * QUERIES;
    const float *kept = b->kept + j * QUERIES;
    float of_cap[QUERIES];
    if (a->cap > 0) slopes_of_cap(columns, a->cap, weights, of_cap);
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
    if (a->cap > 0) scale_columns(1, columns, of_cap, 0, slopes);
  }
}

/* Adds a product of [keys][queries] and the queries' rows to the sums of keys, whose rows may lie apart. */
static void add_to_keys(const struct attention *a, const struct queries *q, const struct attention_rows *keys,
                        const struct factors *left, const struct factors *right, const struct block *b,
                        float *sums) {
  const int64_t width = whole_vectors(a->depth), row = units_of(b->pairs, QUERIES);
  for (int64_t j = 0, count; j < keys->count; j += count) {
    count = keys->run == 1 ? keys->count : neighbours(keys, j);
    multiply(b->pairs, count, a->depth, q->rows.count, (struct factor){left->rows + j * row, row, 1},
             (struct right_factor){right->across, width},
             added_to(sums + attention_row(keys, j) * width, keys->run == 1 ? keys->stride * width : width));
  }
}

/* Computes dq of a block of queries in b->sums, and adds its part of dk and dv to the sums of keys. */
static void attend_backward(const struct attention *a, const struct queries *q, const void *k, const void *v,
                            const struct terms *t, const struct block *b) {
  const int64_t width = whole_vectors(a->depth), queries = q->rows.count, columns = whole_vectors(queries),
                row = units_of(b->pairs, width);
  struct keys seen = keys_of(a, q);
  struct attention_rows keys;
  memset(b->sums, 0, (size_t)(width * QUERIES) * sizeof *b->sums);
  while (next_keys(&seen, &keys)) {
    score(a, q, &keys, k, v, b);
    multiply(b->pairs, keys.count, queries, a->depth, (struct factor){b->values.rows, row, 1},
             (struct right_factor){b->gradient.columns, QUERIES},
             (struct result){.data = b->gradients, .row = QUERIES});
    if (a->probability > 0) draw(a, q, &keys, b->kept);
    differentiate(a, keys.count, columns, t, b);
    pack_weights(b->pairs, keys.count, queries, b->scores, &b->weights);
    pack_weights(b->pairs, keys.count, queries, b->gradients, &b->slopes);
    add_to_keys(a, q, &keys, &b->weights, &b->gradient, b, b->value_sums);
    add_to_keys(a, q, &keys, &b->slopes, &b->queries, b, b->key_sums);
    multiply(b->pairs, a->depth, queries, keys.count, (struct factor){b->keys.across, 1, width},
             (struct right_factor){b->slopes.across, QUERIES}, added_to(b->sums, QUERIES));
  }
}

/* Computes dq of a block of queries, and adds its part of dk and dv. f.k and f.v: the first row of the
 * block's head of keys. */
static void query_backward(const struct attention *a, const struct queries *some, struct attended f,
                           const void *dy, void *dq, const struct block *b) {
  float ones[QUERIES];
  for (int i = 0; i < QUERIES; i++) ones[i] = 1;
  const int64_t at = query_at(a, some), result = row_of_result(a, some);
  const void *some_y = element_at(f.y, a->storage, result), *some_dy = element_at(dy, a->storage, result);
  const int32_t *numbers = a->packed ? a->rows : NULL;
  struct terms t;
  pack(a, b->pairs, &some->rows, numbers, element_at(f.q, a->storage, at), a->query_row, a->scale,
       &b->queries);
  pack(a, b->pairs, &some->rows, NULL, some_dy, a->heads * a->depth, 1, &b->gradient);
  gather_terms(a, some, some_y, f.log_sum + (some->sequence * a->heads + some->head) * a->length, some_dy, b,
               &t);
  attend_backward(a, some, f.k, f.v, &t, b);
  unpack_columns(a, &some->rows, numbers, b->sums, ones, b->row[0], (void *)element_at(dq, a->storage, at),
                 a->query_row);
}

/* Makes dq of a head 0 in the rows that are not given. */
static void clear_others(const struct attention *a, int64_t sequence, int64_t head, void *dq) {
  const int64_t begin = sequence * a->length * a->query_row + head * a->depth;
  for (int64_t t = 0, i = 0; t < a->length; t++) {
    if (i < a->queries && a->rows[i] == t)
      i++;
    else
      memset((void *)element_at(dq, a->storage, begin + t * a->query_row), 0,
             (size_t)a->depth * bytes_of(a->storage));
  }
}

/* A task is a head of keys with all its heads of queries: a result in place of an operand is written after
 * the last read of it. */
void ISA(attention_backward)(struct attention a, struct attended f, struct attention_gradients d,
                             void *workspace) {
  const int64_t blocks = most_blocks(&a), group = a.heads / a.key_heads;
#pragma omp parallel for schedule(static, 1) if (worth_a_team(&a))
  for (int64_t task = 0; task < a.sequences * a.key_heads; task++) {
    const int64_t n = task / a.key_heads, key_head = task % a.key_heads, keys = key_at(&a, n, key_head);
    struct attended of_head = f;
    of_head.k = element_at(f.k, a.storage, keys);
    of_head.v = element_at(f.v, a.storage, keys);
    const struct block b = block_of(&a, true, workspace);
    if (b.pairs) open_matrices();
    memset(b.key_sums, 0, (size_t)sums_elements(&a) * sizeof(float));
    memset(b.value_sums, 0, (size_t)sums_elements(&a) * sizeof(float));
    for (int64_t h = key_head * group; h < (key_head + 1) * group; h++)
      for (int64_t i = 0; i < blocks; i++) {
        const struct queries some = queries_of(&a, n, h, i);
        if (some.rows.count > 0) query_backward(&a, &some, of_head, d.dy, d.dq, &b);
      }
    if (b.pairs) close_matrices();
    for (int64_t h = key_head * group; a.packed && a.rows != NULL && h < (key_head + 1) * group; h++)
      clear_others(&a, n, h, d.dq);
    unpack_rows(&a, a.keys, b.key_sums, (void *)element_at(d.dk, a.storage, keys), a.key_row);
    unpack_rows(&a, a.keys, b.value_sums, (void *)element_at(d.dv, a.storage, keys), a.key_row);
  }
}

/* ---- Rotary embedding ---- */

static int64_t angles_elements(struct rotary r) { return (r.width + 15) / 16 * 16; } /* of a thread */

size_t ISA(rotary_workspace)(struct rotary r, int threads) {
  return (size_t)threads * (size_t)angles_elements(r) * sizeof(float);
}

/* Computes the cosines, then the sines, of the angles of a row. Angles are in double, since positions may be
 * large. */
static void make_angles(const struct rotary *r, int64_t row, float *angles) {
  const int64_t half = r->width / 2;
  const double amplitude = rotary_amplitude(&r->scaling);
  for (int64_t d = 0; d < half; d++) {
    const double angle =
        ((double)row + (double)r->first) * rotary_frequency(r->base, &r->scaling, r->divisors, r->width, d);
    angles[d] = (float)(amplitude * cosine(angle));
    angles[half + d] = (float)(amplitude * (r->back ? -sine(angle) : sine(angle)));
  }
}

static void turn(int64_t half, const float *angles, const float *x, float *y) {
#pragma omp simd
  for (int64_t d = 0; d < half; d++) {
    const float first = x[d], second = x[half + d], c = angles[d], s = angles[half + d];
    y[d] = multiply_add(first, c, -(second * s));
    y[half + d] = multiply_add(second, c, first * s);
  }
}

/* Computes the angles of a row once for all sequences and heads. */
void ISA(rotary)(struct rotary r, const float *x, float *y, void *workspace) {
  const int64_t row = r.heads * r.depth, turned = r.turned * r.depth;
#pragma omp parallel for if (r.sequences * r.rows * row >= PARALLEL_FROM)
  for (int64_t t = 0; t < r.rows; t++) {
    float *angles = (float *)workspace + omp_get_thread_num() * angles_elements(r);
    make_angles(&r, t, angles);
    for (int64_t n = 0; n < r.sequences; n++) {
      const int64_t at = (n * r.rows + t) * row;
      for (int64_t h = 0; h < r.turned; h++) {
        const int64_t head = at + h * r.depth;
        turn(r.width / 2, angles, x + head, y + head);
        if (y != x) memcpy(y + head + r.width, x + head + r.width, (size_t)(r.depth - r.width) * sizeof *y);
      }
      if (y != x) memcpy(y + at + turned, x + at + turned, (size_t)(row - turned) * sizeof *y);
    }
  }
}
