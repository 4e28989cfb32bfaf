/* Row-major tensors of any shape: strided copies, selection, sums, gathered rows. */
#include <string.h>

#include "kernel/cpu/isa/storage.h"

#define PRAGMA(text) _Pragma(#text)

void ISA(strided)(struct strides s, float scale, const float *x, float *y) {
  const int64_t length = s.dims[s.rank - 1], rows = rows_of(&s), step = s.x[s.rank - 1];
#pragma omp parallel for if (rows * length >= PARALLEL_FROM)
  for (int64_t r = 0; r < rows; r++) {
    const float *from = x + offset_of(&s, s.x, r);
    float *to = y + r * length;
    if (step == 1) {
#pragma omp simd
      for (int64_t i = 0; i < length; i++) to[i] = scale * from[i];
    } else {
      for (int64_t i = 0; i < length; i++) to[i] = scale * from[i * step];
    }
  }
}

void ISA(where)(struct strides s, const uint8_t *chosen, const float *x, const float *y, float value,
                float *out) {
  const int64_t length = s.dims[s.rank - 1], rows = rows_of(&s), step = s.x[s.rank - 1];
#pragma omp parallel for if (rows * length >= PARALLEL_FROM)
  for (int64_t r = 0; r < rows; r++) {
    const uint8_t *set = chosen + offset_of(&s, s.x, r);
    for (int64_t i = 0, at = r * length; i < length; i++, at++) {
      const float *taken = set[i * step] ? x : y;
      out[at] = taken != NULL ? taken[at] : value;
    }
  }
}

void ISA(take)(struct taken t, const int64_t *elements, float value, const float *x, float *y) {
#pragma omp parallel for collapse(2) if (t.outer * t.count * t.inner >= PARALLEL_FROM)
  for (int64_t o = 0; o < t.outer; o++)
    for (int64_t i = 0; i < t.count; i++) {
      const int64_t from = elements[i];
      const float *row = x + (o * t.size + (from < 0 ? 0 : from)) * t.inner;
      float *to = y + (o * t.count + i) * t.inner;
#pragma omp simd
      for (int64_t k = 0; k < t.inner; k++) to[k] = from < 0 ? value : row[k];
    }
}

void ISA(take_backward)(struct taken t, const int64_t *elements, const float *dy, float *dx) {
  enum { COLUMNS = 256 }; /* of which each is added up by one thread, in order */
  const int64_t chunks = (t.inner + COLUMNS - 1) / COLUMNS;
#pragma omp parallel for collapse(2) if (t.outer * t.count * t.inner >= PARALLEL_FROM)
  for (int64_t o = 0; o < t.outer; o++)
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
      const int64_t first = chunk * COLUMNS, left = t.inner - first,
                    columns = left < COLUMNS ? left : COLUMNS;
      float *to = dx + o * t.size * t.inner + first;
      const float *from = dy + o * t.count * t.inner + first;
      for (int64_t j = 0; j < t.size; j++) memset(to + j * t.inner, 0, (size_t)columns * sizeof *to);
      for (int64_t i = 0; i < t.count; i++)
        for (int64_t k = 0; elements[i] >= 0 && k < columns; k++)
          to[elements[i] * t.inner + k] += from[i * t.inner + k];
    }
}

void ISA(fill)(int64_t count, float value, float *y) {
#pragma omp parallel for simd if (parallel : count >= PARALLEL_FROM)
  for (int64_t i = 0; i < count; i++) y[i] = value;
}

/* ---- Sums ---- */

/* Merges neighbouring axes that are all summed or all kept. */
static struct sum_axes merged(struct sum_axes a) {
  struct sum_axes m = {0};
  for (int32_t i = 0; i < a.rank; i++) {
    const uint32_t summed = a.summed >> i & 1;
    if (a.dims[i] == 1) continue;
    if (m.rank > 0 && (m.summed >> (m.rank - 1) & 1) == summed) {
      m.dims[m.rank - 1] *= a.dims[i];
    } else {
      m.summed |= summed << m.rank;
      m.dims[m.rank++] = a.dims[i];
    }
  }
  if (m.rank == 0) m.dims[m.rank++] = 1;
  return m;
}

/* Returns the offset of the index-th combination of the axes of one kind, the last axis left out. */
static int64_t combination(const struct sum_axes *a, uint32_t kind, int64_t index) {
  int64_t offset = 0, stride = a->dims[a->rank - 1];
  for (int32_t i = a->rank - 2; i >= 0; i--) {
    if ((a->summed >> i & 1) == kind) {
      offset += index % a->dims[i] * stride;
      index /= a->dims[i];
    }
    stride *= a->dims[i];
  }
  return offset;
}

static int64_t combinations(const struct sum_axes *a, uint32_t kind) {
  int64_t count = 1;
  for (int32_t i = 0; i + 1 < a->rank; i++)
    if ((a->summed >> i & 1) == kind) count *= a->dims[i];
  return count;
}

static double sum_of_run(int64_t length, const float *x) {
  double sums[SUM_LANES] = {0};
  IN_LANES(i, lane, length, sums[lane] += (double)x[i]);
  return sum_of_lanes(sums);
}

/* Sums if the last axis is summed: an output is a sum of runs. A single run is divided into a fixed number
 * of parts. */
static void sum_of_runs(const struct sum_axes *a, float scale, const float *x, float *y) {
  const int64_t length = a->dims[a->rank - 1], outputs = combinations(a, 0), runs = combinations(a, 1);
  if (outputs == 1 && runs == 1) {
    double parts[LOSS_PARTS], total = 0;
#pragma omp parallel for if (length >= PARALLEL_FROM)
    for (int part = 0; part < LOSS_PARTS; part++) {
      const struct range mine = part_of(length, part, LOSS_PARTS);
      parts[part] = sum_of_run(mine.end - mine.begin, x + mine.begin);
    }
    for (int part = 0; part < LOSS_PARTS; part++) total += parts[part];
    y[0] = (float)(total * (double)scale);
    return;
  }
#pragma omp parallel for if (outputs * runs * length >= PARALLEL_FROM)
  for (int64_t o = 0; o < outputs; o++) {
    const float *from = x + combination(a, 0, o);
    double sum = 0;
    for (int64_t r = 0; r < runs; r++) sum += sum_of_run(length, from + combination(a, 1, r));
    y[o] = (float)(sum * (double)scale);
  }
}

/* Sums if the last axis is kept: its elements are summed side by side, COLUMNS at a time. */
static void sum_of_columns(const struct sum_axes *a, float scale, const float *x, float *y) {
  enum { COLUMNS = 256 };
  const int64_t length = a->dims[a->rank - 1], rows = combinations(a, 0), summed = combinations(a, 1),
                chunks = (length + COLUMNS - 1) / COLUMNS;
#pragma omp parallel for collapse(2) if (rows * summed * length >= PARALLEL_FROM)
  for (int64_t o = 0; o < rows; o++)
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
      const int64_t first = chunk * COLUMNS, count = length - first < COLUMNS ? length - first : COLUMNS;
      const float *from = x + combination(a, 0, o) + first;
      double sums[COLUMNS] = {0};
      for (int64_t r = 0; r < summed; r++) {
        const float *row = from + combination(a, 1, r);
#pragma omp simd
        for (int64_t i = 0; i < count; i++) sums[i] += (double)row[i];
      }
      for (int64_t i = 0; i < count; i++) y[o * length + first + i] = (float)(sums[i] * (double)scale);
    }
}

void ISA(sum)(struct sum_axes a, float scale, const float *x, float *y) {
  const struct sum_axes m = merged(a);
  if (m.summed >> (m.rank - 1) & 1)
    sum_of_runs(&m, scale, x, y);
  else
    sum_of_columns(&m, scale, x, y);
}

/* ---- Rows by number ---- */

void ISA(gather)(struct gather g, const void *table, void *y) {
  const size_t row = (size_t)g.width * bytes_of(g.storage);
#pragma omp parallel for if (g.count * g.width >= PARALLEL_FROM)
  for (int64_t i = 0; i < g.count; i++) {
    unsigned char *to = (unsigned char *)y + (size_t)i * row;
    if (g.ids[i] >= 0 && g.ids[i] < g.rows)
      memcpy(to, (const unsigned char *)table + (size_t)g.ids[i] * row, row);
    else
      memset(to, 0, row);
  }
}

/* Gradient of gathered rows: ids are sorted, so that the terms of a row's sum are neighbours. */
enum { DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS, GATHER_WIDTH = 128 /* elements of a row summed at once */ };

struct places {
  int64_t *sorted, *other; /* [count] each */
  int64_t count;
};

size_t ISA(gather_workspace)(int64_t count) { return (size_t)(2 * count) * sizeof(int64_t); }

/* Sorts the places of the ids that are rows by row, and keeps the order of the places of one row. A radix
 * sort from the lowest digit on, which writes each pass to the other list. */
static struct places sort_places(int64_t rows, int64_t count, const int32_t *ids, int64_t *workspace) {
  struct places p = {workspace, workspace + count, 0};
  for (int64_t i = 0; i < count; i++)
    if (ids[i] >= 0 && ids[i] < rows) p.sorted[p.count++] = i;
  for (int shift = 0; (rows - 1) >> shift > 0; shift += DIGIT_BITS) {
    int64_t next[DIGITS] = {0}, sum = 0, *made = p.other;
    for (int64_t i = 0; i < p.count; i++) next[(int64_t)ids[p.sorted[i]] >> shift & (DIGITS - 1)]++;
    for (int d = 0; d < DIGITS; d++) {
      const int64_t these = next[d];
      next[d] = sum;
      sum += these;
    }
    for (int64_t i = 0; i < p.count; i++)
      made[next[(int64_t)ids[p.sorted[i]] >> shift & (DIGITS - 1)]++] = p.sorted[i];
    p.other = p.sorted;
    p.sorted = made;
  }
  return p;
}

/* Computes some columns of the row that the places [begin, end) read. */
static void sum_row(const struct gather *g, struct range columns, const int64_t *begin, const int64_t *end,
                    const void *dy, const void *addend, void *dtable) {
  const neap_dtype storage = g->storage;
  const int64_t width = g->width, first = columns.begin, length = columns.end - first,
                row = g->ids[*begin] * width + first;
  float sums[GATHER_WIDTH] = {0}, one[GATHER_WIDTH];
  for (const int64_t *place = begin; place < end; place++) {
    const void *from = element_at(dy, storage, *place * width + first);
    const float *values = storage == NEAP_F32 ? from : one;
    if (storage != NEAP_F32) widen_run(storage, length, from, one);
#pragma omp simd
    for (int64_t k = 0; k < length; k++) sums[k] += values[k];
  }
  if (addend != NULL) {
    widen_run(storage, length, element_at(addend, storage, row), one);
#pragma omp simd
    for (int64_t k = 0; k < length; k++) sums[k] = one[k] + sums[k];
  }
  narrow_run(storage, length, sums, (void *)element_at(dtable, storage, row));
}

/* Writes a thread's part of the table before any sum: the addend or zeros. */
static void begin_table(neap_dtype storage, struct range mine, const void *addend, void *dtable) {
  void *to = (void *)element_at(dtable, storage, mine.begin);
  const size_t length = (size_t)(mine.end - mine.begin) * bytes_of(storage);
  if (addend == NULL)
    memset(to, 0, length);
  else if (addend != dtable)
    memcpy(to, element_at(addend, storage, mine.begin), length);
}

void ISA(gather_backward)(struct gather g, const void *dy, const void *addend, void *dtable,
                          void *workspace) {
  const struct places p = sort_places(g.rows, g.count, g.ids, workspace);
  const int64_t width = g.width, chunks = (width + GATHER_WIDTH - 1) / GATHER_WIDTH;
  int64_t occurring = 0, *begins = p.other; /* the first place of each row that occurs */
  for (int64_t i = 0; i < p.count; i++)
    if (i == 0 || g.ids[p.sorted[i]] != g.ids[p.sorted[i - 1]]) begins[occurring++] = i;
#pragma omp parallel if ((g.rows + g.count) * width >= PARALLEL_FROM)
  {
    begin_table(g.storage, part_of(g.rows * width, omp_get_thread_num(), omp_get_num_threads()), addend,
                dtable);
#pragma omp barrier
    /* Several threads share the parts of a row that occurs often. */
#pragma omp for collapse(2)
    for (int64_t chunk = 0; chunk < chunks; chunk++)
      for (int64_t r = 0; r < occurring; r++) {
        const int64_t first = chunk * GATHER_WIDTH, past = first + GATHER_WIDTH,
                      end = r + 1 < occurring ? begins[r + 1] : p.count;
        const struct range columns = {first, past < width ? past : width};
        sum_row(&g, columns, p.sorted + begins[r], p.sorted + end, dy, addend, dtable);
      }
  }
}
