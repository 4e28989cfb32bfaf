/* Products of matrices that are cut into tiles: both factors of a tile are copied to where they lie densely,
 * so that matrices may have any layout, windows of an image included. An element is a sum of sums of
 * PRODUCT_DEPTH terms each: its bits do not depend on tiles and threads. */
#include "kernel/cpu/isa/tile_product.h"

enum {
  PRODUCT_DEPTH = 128,
  PRODUCT_COLUMNS = 64,
  PRODUCT_ROWS = 64,
  LEAST_ROWS = 16,
  CACHE_LINE = 16 /* floats */
};

static int64_t parts_of(int64_t count, int64_t size) { return (count + size - 1) / size; }

/* Returns the first element of a row of any matrix, or of the only pixel of a window. */
static int64_t row_start(const struct product_matrix *m, int64_t row) {
  switch (m->kind) {
  case PRODUCT_PLAIN:
    return row * m->row;
  case PRODUCT_KERNELS:
    return m->taps[row / m->channels].kernel + row % m->channels * m->row;
  case PRODUCT_WINDOWS:
    break;
  }
  const int64_t x = row % m->grid_width * m->step + m->taps->x, line = row / m->grid_width,
                y = line % m->grid_height * m->step + m->taps->y, image = line / m->grid_height;
  return ((image * m->height + y) * m->width + x) * m->pixel;
}

/* Copies columns [first, first + count) of one row of windows. */
static void copy_window(const struct product_matrix *m, const float *data, int64_t row, int64_t first,
                        int64_t count, float *to) {
  const int64_t line = row / m->grid_width, left = row % m->grid_width * m->step,
                top = line % m->grid_height * m->step, image = line / m->grid_height;
  while (count > 0) {
    const struct product_tap *tap = &m->taps[first / m->channels];
    const int64_t channel = first % m->channels, size = least(m->channels - channel, count), y = top + tap->y,
                  x = left + tap->x;
    if (y >= 0 && y < m->height && x >= 0 && x < m->width)
      memcpy(to, data + ((image * m->height + y) * m->width + x) * m->pixel + channel,
             (size_t)size * sizeof *to);
    else
      memset(to, 0, (size_t)size * sizeof *to);
    to += size;
    first += size;
    count -= size;
  }
}

/* Copies a part of a matrix; row r of the part begins at to[r * to_row]. */
static void copy_part(const struct product_matrix *m, const float *data, struct range rows,
                      struct range columns, float *to, int64_t to_row) {
  const int64_t count = columns.end - columns.begin;
  for (int64_t r = rows.begin; r < rows.end; r++, to += to_row) {
    if (m->kind == PRODUCT_WINDOWS) {
      copy_window(m, data, r, columns.begin, count, to);
      continue;
    }
    const float *from = data + row_start(m, r) + columns.begin * m->column;
    if (m->column == 1)
      memcpy(to, from, (size_t)count * sizeof *to);
    else
      for (int64_t c = 0; c < count; c++) to[c] = from[c * m->column];
  }
}

/* The most rows, columns and terms of a part. Terms depend on the depth alone. */
struct tile {
  int64_t rows, columns, depth;
};

static struct tile tile_of(const struct product *p) {
  return (struct tile){least(PRODUCT_ROWS, whole_tiles(p->rows)),
                       least(PRODUCT_COLUMNS, whole_vectors(p->columns)), least(PRODUCT_DEPTH, p->depth)};
}

/* The memory of a thread: parts of both factors, the sum of all parts, and that of one after the first. */
struct tile_memory {
  float *left, *right, *sum, *part;
};

static int64_t memory_elements(const struct product *p, struct tile t) {
  const int64_t sums = p->depth > PRODUCT_DEPTH ? 2 : 1,
                elements = (t.rows + t.columns) * t.depth + sums * t.rows * t.columns;
  return parts_of(elements, CACHE_LINE) * CACHE_LINE;
}

static struct tile_memory memory_of(const struct product *p, struct tile t, void *workspace, int thread) {
  float *left = (float *)workspace + thread * memory_elements(p, t), *right = left + t.rows * t.depth,
        *sum = right + t.depth * t.columns;
  return (struct tile_memory){left, right, sum, sum + t.rows * t.columns};
}

static void multiply_part(const struct product *p, struct tile t, const float *a, const float *b,
                          struct range rows, struct range columns, struct range depth,
                          const struct tile_memory *m) {
  const int64_t count = rows.end - rows.begin, terms = depth.end - depth.begin;
  struct factor left = {m->left, t.depth, 1};
  if (p->a_turned) {
    left = (struct factor){m->left, 1, t.rows};
    copy_part(&p->a, a, depth, rows, m->left, t.rows);
  } else {
    copy_part(&p->a, a, rows, depth, m->left, t.depth);
  }
  copy_part(&p->b, b, depth, columns, m->right, t.columns);
  float *to = depth.begin == 0 ? m->sum : m->part;
  multiply(false, count, columns.end - columns.begin, terms, left, (struct right_factor){m->right, t.columns},
           (struct result){to, t.columns, false});
  if (depth.begin > 0)
    for (int64_t i = 0; i < count * t.columns; i++) m->sum[i] += m->part[i];
}

static void write_part(const struct product *p, int64_t sum_row, const float *bias, float *c,
                       struct range rows, struct range columns, const float *sum) {
  const int64_t step = p->c.kind == PRODUCT_WINDOWS ? 1 : p->c.column;
  for (int64_t r = rows.begin; r < rows.end; r++, sum += sum_row) {
    float *to = c + row_start(&p->c, r) + columns.begin * step;
    for (int64_t n = 0; n < columns.end - columns.begin; n++) {
      const float more = bias != NULL ? bias[columns.begin + n] : 0;
      const float value = sum[n] + more;
      to[n * step] = p->add ? to[n * step] + value : value;
    }
  }
}

/* The operands of a product; bias may be NULL. */
struct operands {
  const float *a, *b, *bias;
  float *c;
};

static void multiply_item(const struct product *p, struct tile t, int64_t item, struct range rows,
                          struct range columns, const struct operands *all, const struct tile_memory *m) {
  const float *a = all->a + offset_in(p->rank, p->dims, p->a_item, item),
              *b = all->b + offset_in(p->rank, p->dims, p->b_item, item),
              *bias = all->bias != NULL ? all->bias + item * p->columns : NULL;
  float *c = all->c + offset_in(p->rank, p->dims, p->c_item, item);
  for (int64_t k = 0; k < p->depth; k += PRODUCT_DEPTH)
    multiply_part(p, t, a, b, rows, columns, (struct range){k, least(k + PRODUCT_DEPTH, p->depth)}, m);
  if (p->depth == 0) memset(m->sum, 0, (size_t)(t.rows * t.columns) * sizeof *m->sum);
  write_part(p, t.columns, bias, c, rows, columns, m->sum);
}

static int64_t items_of(const struct product *p) {
  int64_t items = 1;
  for (int32_t i = 0; i < p->rank; i++) items *= p->dims[i];
  return items;
}

/* ---- Convolutions of each channel alone ---- */

/* Returns true if the items are channels of pixels, each with one kernel: too little for tiles. */
static bool by_channel(const struct product *p) {
  return p->a.kind == PRODUCT_WINDOWS && p->a.channels == 1 && p->rank == 1 && p->columns == 1;
}
static int64_t taps_of(const struct product *p) { return p->a_turned ? p->rows : p->depth; }

/* Returns the pixel that a tap of a window reads; NULL: it is outside of the image. */
static const float *tapped(const struct product_matrix *m, const float *data, int64_t row, int64_t tap) {
  const int64_t line = row / m->grid_width, image = line / m->grid_height,
                y = line % m->grid_height * m->step + m->taps[tap].y,
                x = row % m->grid_width * m->step + m->taps[tap].x;
  const bool inside = y >= 0 && y < m->height && x >= 0 && x < m->width;
  return inside ? data + ((image * m->height + y) * m->width + x) * m->pixel : NULL;
}

static void convolve_channels(const struct product *p, const float *a, const float *b, const float *bias,
                              float *c, float *weights) {
  const int64_t channels = p->dims[0], taps = taps_of(p);
  for (int64_t t = 0; t < taps; t++)
    for (int64_t i = 0; i < channels; i++)
      weights[t * channels + i] = b[i * p->b_item[0] + row_start(&p->b, t)];
#pragma omp parallel for if (p->rows * channels * taps >= PARALLEL_FROM)
  for (int64_t r = 0; r < p->rows; r++) {
    float *to = c + row_start(&p->c, r);
    if (!p->add) memset(to, 0, (size_t)channels * sizeof *to);
    for (int64_t i = 0; bias != NULL && i < channels; i++) to[i] += bias[i];
    for (int64_t t = 0; t < taps; t++) {
      const float *from = tapped(&p->a, a, r, t), *w = weights + t * channels;
      for (int64_t i = 0; from != NULL && i < channels; i++) to[i] += from[i] * w[i];
    }
  }
}

enum { CHANNELS_TOGETHER = 32 };

/* Adds to sums[t][i] what a line of pixels gives for channels [first, first + count). */
static void add_line(const struct product *p, const float *a, const float *b, int64_t line, int64_t first,
                     int64_t count, float *sums) {
  for (int64_t t = 0; t < p->rows; t++) {
    float part[CHANNELS_TOGETHER] = {0};
    for (int64_t x = 0; x < p->a.grid_width; x++) {
      const int64_t row = line * p->a.grid_width + x;
      const float *from = tapped(&p->a, a, row, t), *by = b + row_start(&p->b, row) + first;
      for (int64_t i = 0; from != NULL && i < count; i++) part[i] += from[first + i] * by[i];
    }
    for (int64_t i = 0; i < count; i++) sums[t * p->dims[0] + first + i] += part[i];
  }
}

/* Sums the gradient of the kernels by lines of pixels. */
static void multiply_channels(const struct product *p, const float *a, const float *b, float *c,
                              float *sums) {
  const int64_t channels = p->dims[0], lines = p->depth / p->a.grid_width;
  memset(sums, 0, (size_t)(p->rows * channels) * sizeof *sums);
#pragma omp parallel for if (p->depth * channels * p->rows >= PARALLEL_FROM)
  for (int64_t first = 0; first < channels; first += CHANNELS_TOGETHER)
    for (int64_t line = 0; line < lines; line++)
      add_line(p, a, b, line, first, least(channels - first, CHANNELS_TOGETHER), sums);
  for (int64_t t = 0; t < p->rows; t++)
    for (int64_t i = 0; i < channels; i++) {
      float *to = c + i * p->c_item[0] + row_start(&p->c, t);
      *to = p->add ? *to + sums[t * channels + i] : sums[t * channels + i];
    }
}

/* ---- All products ---- */

static void multiply_items(const struct product *p, const struct operands *all, void *workspace) {
  const struct tile t = tile_of(p);
  const int64_t items = items_of(p), across = parts_of(p->columns, t.columns);
  int64_t size = t.rows;
  while (size > LEAST_ROWS && items * across * parts_of(p->rows, size) < 2 * omp_get_max_threads()) size /= 2;
  const int64_t down = parts_of(p->rows, size);
#pragma omp parallel for if (items * p->rows * p->columns * (p->depth + 1) >= PARALLEL_FROM)
  for (int64_t i = 0; i < items * across * down; i++) {
    const struct tile_memory memory = memory_of(p, t, workspace, omp_get_thread_num());
    const int64_t row = i % down * size, column = i / down % across * t.columns;
    multiply_item(p, t, i / down / across, (struct range){row, least(row + size, p->rows)},
                  (struct range){column, least(column + t.columns, p->columns)}, all, &memory);
  }
}

void ISA(product)(const struct product *p, const float *a, const float *b, const float *bias, float *c,
                  void *workspace) {
  if (!by_channel(p))
    multiply_items(p, &(struct operands){a, b, bias, c}, workspace);
  else if (p->a_turned)
    multiply_channels(p, a, b, c, workspace);
  else
    convolve_channels(p, a, b, bias, c, workspace);
}

size_t ISA(product_workspace)(const struct product *p, int threads) {
  const int64_t elements = by_channel(p) ? taps_of(p) * p->dims[0] : threads * memory_elements(p, tile_of(p));
  return (size_t)elements * sizeof(float);
}
