/* Products of matrices from packed panels (Goto and van de Geijn 2008).
 *
 * Sums are cut every PRODUCT_CUT terms: an element is the sum of sums of that length, each a chain of
 * multiply-adds in order. So its bits follow from its terms alone, not from rows, columns, layouts, blocks or
 * threads. Blocks only decide what lies in which cache: a panel of b in the first-level cache, a block of
 * rows of a in the second, a strip of b in the second or third.
 *
 * Each thread has rows and columns of the result of its own, and packs for itself what it reads. To share
 * what is packed would save little time, and lose more where lines move between the caches of two processors.
 */
#include "kernel/cpu/isa/pack.h"

enum {
  CACHE_LINE = 16,         /* floats */
  MOST_ROWS = 192,         /* of a block, a multiple of all TILE_ROWS; twice as many of pairs in matrices */
  FEW_ROWS = 12,           /* that read b as it lies */
  FEW_ELEMENTS = 8 << 10,  /* of a, which stay in the first-level cache as they lie */
  MOST_COLUMNS = 256,      /* of a strip, a multiple of every block of a quantised type */
  PARALLEL_TERMS = 1 << 17 /* multiply-adds from which several threads are used */
};

static int64_t parts_of(int64_t count, int64_t size) { return (count + size - 1) / size; }
static int64_t whole(int64_t count, int64_t unit) { return parts_of(count, unit) * unit; }

static int64_t items_of(const struct product *p) {
  int64_t items = 1;
  for (int32_t i = 0; i < p->rank; i++) items *= p->dims[i];
  return items;
}

/* Returns true if units are pairs. */
static bool in_pairs(const struct product *p) {
  return HAS_PAIRS && p->a.storage == NEAP_BF16 &&
         (p->b.storage == NEAP_BF16 || dtype_is_quantised(p->b.storage));
}

/* ---- Blocks ---- */

/* The division of a product. */
struct blocking {
  bool pairs;
  bool alone;            /* each thread has items of its own; else all threads work on each item */
  int down, across;      /* parts that rows and columns of an item are divided into, one for each thread */
  bool packs_a, packs_b; /* else tiles read stored elements, so few times that packing costs more */
  int64_t rows;          /* of a that are packed at once */
  int64_t height, width; /* of a block of the result: all cuts of it are added before the next is begun */
  int64_t packed;        /* columns of b that are packed at once */
  int64_t units;         /* of a cut */
  bool sums;             /* sums of a block have memory of their own until all cuts are added */
};

/* Returns true if tiles may be written to the result, and sums of several cuts lie in it. */
static bool sums_fit_result(const struct product *p) {
  return p->c.kind == PRODUCT_PLAIN && p->c.column == 1 && p->c.storage == NEAP_F32 &&
         (!p->biased || p->bias == NEAP_F32);
}

static bool is_plain(const struct product_matrix *m) {
  return m->kind == PRODUCT_PLAIN && m->column == 1 && m->storage == NEAP_F32 && !m->perturbed;
}

/* Returns true if it takes time to make floats of the elements. */
static bool expands(const struct product_matrix *m) { return dtype_is_quantised(m->storage) || m->perturbed; }

/* Returns the columns of b that are packed together at least: whole panels, and whole blocks of a quantised
 * type. */
static int64_t pack_unit(const struct product *p) {
  return dtype_is_quantised(p->b.storage) ? most(TILE_COLUMNS, dtype_rows[p->b.storage].block_elements)
                                          : TILE_COLUMNS;
}

static int64_t columns_of_part(const struct product *p, int across) {
  return parts_of(parts_of(p->columns, pack_unit(p)), across) * pack_unit(p);
}
static int64_t rows_of_part(const struct product *p, int down) {
  const int rows = tile_rows(in_pairs(p));
  return parts_of(parts_of(p->rows, rows), down) * rows;
}
static int64_t most_rows(bool pairs) { return HAS_MATRICES && pairs ? 2 * MOST_ROWS : MOST_ROWS; }

/* Chooses the parts that leave the least to the busiest thread, packing included. */
static void divide(const struct product *p, int threads, struct blocking *b) {
  static const int64_t packing = 8; /* multiply-adds in whose time an element is packed */
  const int64_t expanding = expands(&p->b) ? 4 * packing : packing;
  int64_t best = INT64_MAX;
  for (int down = 1; down <= threads; down++) {
    const int across = threads / down;
    const int64_t rows = rows_of_part(p, down), columns = columns_of_part(p, across),
                  work =
                      rows * columns + packing * rows * parts_of(columns, MOST_COLUMNS) + expanding * columns;
    if (work >= best) continue;
    best = work;
    b->down = down;
    b->across = across;
  }
}

static struct blocking blocking_of(const struct product *p) {
  const int64_t items = items_of(p);
  struct blocking b = {.pairs = in_pairs(p), .alone = p->threads == 1 || items >= p->threads};
  divide(p, b.alone ? 1 : p->threads, &b);
  const int64_t rows = rows_of_part(p, b.down), columns = columns_of_part(p, b.across);
  b.units = panel_units(b.pairs, least(p->depth, PRODUCT_CUT));
  b.sums = !sums_fit_result(p) || (p->add && p->depth > PRODUCT_CUT);
  b.packs_a = p->a_turned || !is_plain(&p->a) || (columns > TILE_COLUMNS && rows * p->depth > FEW_ELEMENTS);
  b.packs_b = rows > FEW_ROWS || p->columns % FLOATS != 0 || !is_plain(&p->b);
  b.rows = least(most_rows(b.pairs), rows);
  const bool strips = rows > b.rows && !b.sums && expands(&p->b);
  b.height = strips ? rows : b.rows;
  b.width = strips || b.sums ? least(MOST_COLUMNS, columns) : columns;
  b.packed = strips ? b.width : pack_unit(p);
  return b;
}

/* The workspace of a thread: sizes of its places, in floats. */
struct places {
  int64_t a, b, sums;
};

static struct places places_of(const struct blocking *b) {
  return (struct places){b->packs_a ? whole(b->rows * b->units, CACHE_LINE) : 0,
                         b->packs_b ? whole(b->packed * b->units, CACHE_LINE) : 0,
                         b->sums ? whole(b->height * b->width, CACHE_LINE) : 0};
}

struct memory {
  float *a, *b, *sums;
};

static struct memory memory_of(const struct blocking *b, float *workspace, int thread) {
  const struct places s = places_of(b);
  float *own = workspace + thread * (s.a + s.b + s.sums);
  return (struct memory){own, own + s.a, own + s.a + s.b};
}

/* ---- The result ---- */

/* One item: its factors and where its result goes. */
struct item {
  const struct product *p;
  struct lines a, b;
  const void *bias, *addend;
  void *c;
};

static const void *moved(const void *data, neap_dtype storage, int64_t elements) {
  return (const unsigned char *)data + (dtype_is_quantised(storage)
                                            ? (int64_t)dtype_bytes(storage, (uint64_t)elements)
                                            : elements * (int64_t)bytes_of(storage));
}

static struct item item_of(const struct product *p, int64_t i, const struct product_operands *o) {
  const int64_t at_c = offset_in(p->rank, p->dims, p->c_item, i);
  const void *a = moved(o->a, p->a.storage, offset_in(p->rank, p->dims, p->a_item, i)),
             *b = moved(o->b, p->b.storage, offset_in(p->rank, p->dims, p->b_item, i));
  struct lines right = lines_of(&p->b, b, false);
  if (p->b.perturbed) right.noise = &o->noise; /* its matrix has no items */
  return (struct item){.p = p,
                       .a = lines_of(&p->a, a, !p->a_turned),
                       .b = right,
                       .bias = o->bias != NULL ? moved(o->bias, p->bias, i * p->columns) : NULL,
                       .addend = o->addend != NULL ? moved(o->addend, p->c.storage, at_c) : NULL,
                       .c = (void *)moved(o->c, p->c.storage, at_c)};
}

/* Reads and writes elements of a result, `step` apart. */
static void read_result(neap_dtype storage, int64_t count, int64_t step, const void *from, float *to) {
  if (step == 1) widen_run(storage, count, from, to);
  for (int64_t i = 0; step != 1 && i < count; i++)
    widen_run(storage, 1, element_at(from, storage, i * step), to + i);
}
static void write_result(neap_dtype storage, int64_t count, int64_t step, const float *from, void *to) {
  if (step == 1) narrow_run(storage, count, from, to);
  for (int64_t i = 0; step != 1 && i < count; i++)
    narrow_run(storage, 1, from + i, (void *)element_at(to, storage, i * step));
}

/* Writes columns of a row of the result from their sums. */
static void write_row(const struct item *t, int64_t row, struct range columns, const float *sums) {
  enum { SOME = 128 };
  const struct product_matrix *m = &t->p->c;
  const int64_t step = m->kind == PRODUCT_WINDOWS ? 1 : m->column, start = row_start(m, row);
  for (int64_t first = columns.begin; first < columns.end; first += SOME, sums += SOME) {
    const int64_t some = least(SOME, columns.end - first), at = start + first * step;
    float values[SOME], other[SOME];
    memcpy(values, sums, (size_t)some * sizeof *values);
    if (t->bias != NULL) {
      widen_run(t->p->bias, some, element_at(t->bias, t->p->bias, first), other);
      for (int64_t i = 0; i < some; i++) values[i] += other[i];
    }
    if (t->addend != NULL) {
      read_result(m->storage, some, step, element_at(t->addend, m->storage, at), other);
      for (int64_t i = 0; i < some; i++) values[i] = other[i] + values[i];
    }
    write_result(m->storage, some, step, values, (void *)element_at(t->c, m->storage, at));
  }
}

/* Writes rows and columns of the result from their sums, in rows `row` apart. */
static void write_rows(const struct item *t, struct range rows, struct range columns, const float *sums,
                       int64_t row) {
  const struct product_matrix *m = &t->p->c;
  const int64_t count = columns.end - columns.begin, vectors = count / FLOATS * FLOATS;
  const bool halves = m->kind == PRODUCT_PLAIN && m->column == 1 && bytes_of(m->storage) == 2;
  float bias[MOST_COLUMNS];
  const bool by_vectors = halves && count <= MOST_COLUMNS;
  if (by_vectors && t->bias != NULL)
    widen_run(t->p->bias, count, element_at(t->bias, t->p->bias, columns.begin), bias);
  for (int64_t r = rows.begin; r < rows.end; r++, sums += row) {
    const int64_t at = r * m->row + columns.begin;
    for (int64_t n = 0; by_vectors && n < vectors; n += FLOATS) {
      floats v = load(sums + n);
      if (t->bias != NULL) v += load(bias + n);
      if (t->addend != NULL) v = load_half(m->storage, element_at(t->addend, m->storage, at + n)) + v;
      store_half(m->storage, (void *)element_at(t->c, m->storage, at + n), v);
    }
    const int64_t done = by_vectors ? vectors : 0;
    write_row(t, r, (struct range){columns.begin + done, columns.end}, sums + done);
  }
}

/* ---- Fetching ahead ---- */

/* Returns lines and terms of a factor as what is packed after `tiles` tiles. */
static struct ahead ahead_of(const struct lines *l, struct range lines, int64_t term, int64_t terms,
                             int64_t tiles) {
  const struct product_matrix *m = &l->matrix;
  const int64_t count = lines.end - lines.begin, row = l->across ? term : lines.begin,
                first = l->across ? lines.begin : term, size = (int64_t)bytes_of(m->storage);
  if (m->kind != PRODUCT_PLAIN || m->column != 1 || dtype_is_quantised(m->storage) || count <= 0)
    return (struct ahead){0};
  struct ahead a = {.data = element_at(l->data, m->storage, row * m->row + first),
                    .step = m->row * size,
                    .runs = l->across ? terms : count,
                    .bytes = (l->across ? count : terms) * size};
  a.per_tile = parts_of(a.runs * parts_of(a.bytes, LINE_BYTES), tiles);
  return a;
}

/* ---- Tiles ---- */

/* Factors as tiles read them: of a, rows `a_row` apart and terms `a_term`, or panels; of b, rows of terms
 * `b_row` apart, or panels. */
struct factors {
  const float *a, *b;
  bool a_packed, b_packed;
  int64_t a_row, a_term, b_row;
  int64_t rows, columns, units;
  struct ahead *next_a, *next_b;
};

/* A tile whose last vector is not whole: only its elements are written. */
INLINE void multiply_edge(bool pairs, int64_t rows, int64_t columns, int64_t units, struct factor a,
                          struct right_factor b, struct result c, struct ahead *next_a,
                          struct ahead *next_b) {
  float tile[TILE_ROWS * TILE_COLUMNS];
  multiply_panel(pairs, rows, columns, units, a, b, (struct result){.data = tile, .row = TILE_COLUMNS},
                 next_a, next_b);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t n = 0; n < columns; n++) {
      float value = tile[r * TILE_COLUMNS + n];
      if (c.before != NULL) value = c.before[r * c.before_row + n] + value;
      if (c.bias != NULL) value += c.bias[n];
      if (c.addend != NULL) value = c.addend[r * c.row + n] + value;
      c.data[r * c.row + n] = value;
    }
}

INLINE void multiply_panels(bool pairs, bool packed, const struct factors *f, struct result c) {
  for (int64_t n = 0; n < f->columns; n += TILE_COLUMNS) {
    const int64_t columns = least(TILE_COLUMNS, f->columns - n);
    const struct right_factor b = f->b_packed ? (struct right_factor){f->b + n * f->units, TILE_COLUMNS}
                                              : (struct right_factor){f->b + n, f->b_row};
    for (int64_t m = 0; m < f->rows; m += TILE_ROWS) {
      const int64_t rows = least(TILE_ROWS, f->rows - m);
      const struct factor a = packed ? (struct factor){f->a + m * f->units, 1, TILE_ROWS}
                                     : (struct factor){f->a + m * f->a_row, f->a_row, f->a_term};
      if (columns % FLOATS == 0)
        multiply_panel(pairs, rows, columns, f->units, a, b, result_at(c, m, n), f->next_a, f->next_b);
      else
        multiply_edge(pairs, rows, columns, f->units, a, b, result_at(c, m, n), f->next_a, f->next_b);
    }
  }
}
/* Multiplies tile by tile in registers of matrices. */
static void multiply_in_matrices(const struct factors *f, struct result c) {
  for (int64_t n = 0; n < f->columns; n += MATRIX_COLUMNS)
    for (int64_t m = 0; m < f->rows; m += MATRIX_ROWS) {
      fetch_lines(f->next_a, f->next_a->per_tile);
      fetch_lines(f->next_b, f->next_b->per_tile);
      multiply_matrix_tile(least(MATRIX_ROWS, f->rows - m), least(MATRIX_COLUMNS, f->columns - n), f->units,
                           f->a + m * f->units, f->b + n * f->units, result_at(c, m, n));
    }
}
static void multiply_floats(const struct factors *f, struct result c) { multiply_panels(false, true, f, c); }
static void multiply_pairs(const struct factors *f, struct result c) {
  if (HAS_MATRICES)
    multiply_in_matrices(f, c);
  else
    multiply_panels(true, true, f, c);
}
static void multiply_unpacked(const struct factors *f, struct result c) {
  multiply_panels(false, false, f, c);
}

/* Some terms of a block of the result. */
struct step {
  const struct item *item;
  const struct blocking *blocks;
  struct range rows, columns; /* of the block */
  int64_t term, terms;
  bool last;
  float *sums; /* of the block; NULL: they lie in the result */
};

/* Returns where rows and columns of the block go. */
static struct result result_of(const struct step *s, int64_t row, int64_t column) {
  const struct item *t = s->item;
  const int64_t width = s->blocks->width, at = row * t->p->c.row + column;
  struct result c = {0};
  if (s->sums != NULL) {
    c.data = s->sums + (row - s->rows.begin) * width + column - s->columns.begin;
    c.row = width;
  }
  if (s->sums == NULL || (s->last && sums_fit_result(t->p))) {
    if (s->sums != NULL && s->term > 0) c.before = c.data, c.before_row = width;
    c.data = (float *)t->c + at;
    c.row = t->p->c.row;
    if (s->last && t->bias != NULL) c.bias = (const float *)t->bias + column;
    if (s->last && t->addend != NULL) c.addend = (const float *)t->addend + at;
  }
  if (s->term > 0 && c.before == NULL) c.before = c.data, c.before_row = c.row;
  return c;
}

/* Multiplies rows of the block with columns of it. */
static void multiply_block(const struct step *s, struct range rows, struct range columns,
                           const struct factors *given) {
  const struct result c = result_of(s, rows.begin, columns.begin);
  struct factors f = *given;
  f.rows = rows.end - rows.begin;
  f.columns = columns.end - columns.begin;
  f.units = panel_units(s->blocks->pairs, s->terms);
  if (s->blocks->pairs)
    multiply_pairs(&f, c);
  else if (f.a_packed)
    multiply_floats(&f, c);
  else
    multiply_unpacked(&f, c);
  if (!s->last || sums_fit_result(s->item->p)) return;
  write_rows(s->item, rows, columns, c.data, c.row);
}

/* ---- Factors ---- */

/* Gives rows of a, packed in `to` or as they lie. */
static void take_rows(const struct step *s, struct range rows, float *to, struct factors *f) {
  const struct lines *l = &s->item->a;
  const int64_t count = rows.end - rows.begin;
  f->a = to;
  f->a_packed = s->blocks->packs_a;
  if (!f->a_packed) {
    f->a = (const float *)l->data + rows.begin * l->matrix.row + s->term;
    f->a_row = l->matrix.row;
    f->a_term = 1;
  } else if (s->blocks->pairs && HAS_MATRICES) {
    pack_matrix_rows(MATRIX_ROWS, l, rows.begin, count, s->term, s->terms, to);
  } else if (s->blocks->pairs) {
    pack_panels(true, TILE_ROWS, l, rows.begin, count, s->term, s->terms, to);
  } else {
    pack_panels(false, TILE_ROWS, l, rows.begin, count, s->term, s->terms, to);
  }
}

/* Gives columns of b. */
static void take_columns(const struct step *s, struct range columns, float *to, struct factors *f) {
  const struct lines *l = &s->item->b;
  const int64_t count = columns.end - columns.begin;
  f->b = to;
  f->b_packed = s->blocks->packs_b;
  if (!f->b_packed) {
    f->b = (const float *)l->data + s->term * l->matrix.row + columns.begin;
    f->b_row = l->matrix.row;
  } else if (s->blocks->pairs) {
    pack_panels(true, TILE_COLUMNS, l, columns.begin, count, s->term, s->terms, to);
  } else {
    pack_panels(false, TILE_COLUMNS, l, columns.begin, count, s->term, s->terms, to);
  }
}

/* ---- Blocks of the result ---- */

static int64_t terms_from(const struct step *s, int64_t term) {
  return least(PRODUCT_CUT, s->item->p->depth - term);
}

static int64_t tiles_of(const struct step *s, struct range rows, int64_t columns) {
  return parts_of(rows.end - rows.begin, tile_rows(s->blocks->pairs)) * parts_of(columns, TILE_COLUMNS);
}

/* Returns what is packed after `now`, of the lines in `all`: the next ones, or the first ones of the next
 * cut. */
static struct ahead packed_after(const struct step *s, const struct lines *l, struct range now,
                                 struct range all, int64_t size, int64_t tiles) {
  const bool cut_ends = now.end == all.end;
  const int64_t begin = cut_ends ? all.begin : now.end, term = cut_ends ? s->term + s->terms : s->term;
  if (cut_ends && s->last) return (struct ahead){0};
  return ahead_of(l, (struct range){begin, least(all.end, begin + size)}, term, terms_from(s, term), tiles);
}

static struct ahead rows_after(const struct step *s, struct range rows) {
  const int64_t tiles = tiles_of(s, rows, s->columns.end - s->columns.begin);
  if (!s->blocks->packs_a) return (struct ahead){0};
  return packed_after(s, &s->item->a, rows, s->rows, s->blocks->rows, tiles);
}

static struct ahead columns_after(const struct step *s, struct range columns) {
  const int64_t tiles = tiles_of(s, s->rows, columns.end - columns.begin);
  if (!s->blocks->packs_b) return (struct ahead){0};
  return packed_after(s, &s->item->b, columns, s->columns, s->blocks->packed, tiles);
}

/* Multiplies a block, cut by cut. A sum of no terms is 0. */
static void multiply_cuts(struct step *s, const struct memory *m) {
  const struct product *p = s->item->p;
  struct ahead next_a, next_b;
  for (s->term = 0; s->term == 0 || s->term < p->depth; s->term += PRODUCT_CUT) {
    s->terms = terms_from(s, s->term);
    s->last = s->term + s->terms == p->depth;
    struct factors f = {.next_a = &next_a, .next_b = &next_b};
    for (int64_t n = s->columns.begin; n < s->columns.end; n += s->blocks->packed) {
      const struct range columns = {n, least(s->columns.end, n + s->blocks->packed)};
      take_columns(s, columns, m->b, &f);
      next_b = columns_after(s, columns);
      for (int64_t r = s->rows.begin; r < s->rows.end; r += s->blocks->rows) {
        const struct range rows = {r, least(s->rows.end, r + s->blocks->rows)};
        const bool packed = n > s->columns.begin && rows.begin == s->rows.begin && rows.end == s->rows.end;
        if (!packed) { /* one block of rows stays for all columns */
          take_rows(s, rows, m->a, &f);
          next_a = rows_after(s, rows);
        }
        multiply_block(s, rows, columns, &f);
      }
    }
  }
}

/* Multiplies a part of an item. */
static void multiply_part(const struct item *t, const struct blocking *b, const struct memory *m, int part) {
  const int64_t height = rows_of_part(t->p, b->down), width = columns_of_part(t->p, b->across),
                top = part % b->down * height, left = part / b->down * width,
                bottom = least(t->p->rows, top + height), right = least(t->p->columns, left + width);
  struct step s = {.item = t, .blocks = b, .sums = b->sums ? m->sums : NULL};
  if (part >= b->down * b->across) return;
  for (int64_t r = top; r < bottom; r += b->height)
    for (int64_t n = left; n < right; n += b->width) {
      s.rows = (struct range){r, least(bottom, r + b->height)};
      s.columns = (struct range){n, least(right, n + b->width)};
      multiply_cuts(&s, m);
    }
}

void ISA(product)(const struct product *p, const struct product_operands *o, void *workspace) {
  const struct blocking b = blocking_of(p);
  const int64_t items = items_of(p);
  const int parts = b.alone ? 1 : p->threads;
  const bool worth = items * p->rows * p->columns * (p->depth + 1) >= PARALLEL_TERMS;
#pragma omp parallel num_threads(p->threads) if (worth)
  {
    const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
    const struct memory m = memory_of(&b, workspace, thread);
    const struct range own = part_of(items * parts, thread, threads);
    if (b.pairs) open_matrices();
    for (int64_t i = own.begin; i < own.end; i++) {
      const struct item item = item_of(p, i / parts, o);
      multiply_part(&item, &b, &m, (int)(i % parts));
    }
    if (b.pairs) close_matrices();
  }
}

bool ISA(multiplies_pairs)(void) { return HAS_PAIRS; }

size_t ISA(product_workspace)(const struct product *p) {
  const struct blocking b = blocking_of(p);
  const struct places s = places_of(&b);
  return (size_t)(p->threads * (s.a + s.b + s.sums)) * sizeof(float);
}
