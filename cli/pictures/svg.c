/* Pictures: memory over a step, and memory against overhead. Colours are those of Okabe and Ito (2008), which
 * people with any kind of colour vision can tell apart. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "pictures/svg.h"
#include "shared/format.h"
#include "shared/source.h"

enum {
  WIDTH = 1040,
  HEIGHT = 540,
  LEFT = 84,
  RIGHT = 310,
  TOP = 78,
  BOTTOM = 62,
  COLUMNS = WIDTH - LEFT - RIGHT
};

static const char *const palette[] = {"#0072B2", "#56B4E9", "#999999", "#D55E00",
                                      "#009E73", "#F0E442", "#CC79A7"}; /* by kind */
static const char *const series_palette[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                             "#56B4E9", "#E69F00", "#000000", "#999999"};
enum { SERIES_PALETTE_SIZE = sizeof series_palette / sizeof *series_palette };

/* ---- The frame ---- */

/* The spread of values: evenly from 0; by their square roots from 0, which leaves room for small ones; by
 * their logarithms from `least`. */
enum scale { SCALE_LINEAR, SCALE_ROOT, SCALE_LOG };

struct axis {
  double most, unit; /* values run up to `most`; labels are values / unit */
  const char *label;
  enum scale scale;
  double least; /* of SCALE_LOG */
  double edge;  /* what is above lies here; 0: nothing is */
};

struct plot {
  FILE *file;
  struct axis x, y;
};

/* Returns the place of a value between the ends of its axis. */
static double share_of(const struct axis *axis, double value) {
  if (axis->edge > 0) value = fmin(value, axis->edge);
  switch (axis->scale) {
  case SCALE_ROOT:
    return sqrt(value / axis->most);
  case SCALE_LOG:
    return log(fmax(value, axis->least) / axis->least) / log(axis->most / axis->least);
  default:
    return value / axis->most;
  }
}

static double x_at(const struct plot *p, double value) { return LEFT + COLUMNS * share_of(&p->x, value); }
static double y_at(const struct plot *p, double value) {
  return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share_of(&p->y, value);
}

static void put_escaped(FILE *file, const char *text) {
  for (; *text != '\0'; text++) switch (*text) {
    case '<':
      fputs("&lt;", file);
      break;
    case '>':
      fputs("&gt;", file);
      break;
    case '&':
      fputs("&amp;", file);
      break;
    default: /* XML has no control characters */
      fputc(iscntrl((unsigned char)*text) ? '?' : *text, file);
    }
}

static void put_text(FILE *file, double x, double y, const char *attributes, const char *text) {
  fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attributes);
  put_escaped(file, text);
  fputs("</text>\n", file);
}

/* 1, 2 or 5 times a power of ten, so that about six of them make up `range`. */
static double tick_step(double range) {
  const double rough = range / 6, power = pow(10, floor(log10(rough))), lead = rough / power;
  return power * (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10);
}

enum { TICK_LIMIT = 24 };

/* Labels at even steps from `first` on. */
static int even_ticks(const struct axis *axis, double first, double *labels) {
  const bool whole = axis->unit == 1; /* bytes, positions */
  const double most = axis->most / axis->unit, rough = tick_step(most - first);
  const double step = whole ? fmax(rough, 1) : rough;
  int count = 0;
  for (double v = ceil(first / step) * step; v <= most * 1.0001 && count < TICK_LIMIT; v += step)
    labels[count++] = v;
  return count;
}

/* Labels at round numbers that lie at least `gap`, a share of the axis, from each other. */
static int round_ticks(const struct axis *axis, double gap, double *labels) {
  static const double few[] = {1, 2, 5}, more[] = {1, 1.5, 2, 3, 5, 7};
  const bool narrow = axis->scale == SCALE_LOG && axis->most < 12 * axis->least;
  const double *leads = narrow ? more : few;
  const size_t lead_count = narrow ? sizeof more / sizeof *more : sizeof few / sizeof *few;
  const double begin = axis->scale == SCALE_LOG ? axis->least : axis->most / 1000, end = axis->most;
  double last = axis->scale == SCALE_LOG ? -gap : 0;
  int count = 0;
  if (axis->scale == SCALE_ROOT) labels[count++] = 0;
  for (double power = pow(10, floor(log10(begin / axis->unit))); power * axis->unit <= end; power *= 10)
    for (size_t i = 0; i < lead_count; i++) {
      const double value = power * leads[i] * axis->unit;
      if (value < begin || value > end || share_of(axis, value) - last < gap || count == TICK_LIMIT) continue;
      labels[count++] = power * leads[i];
      last = share_of(axis, value);
    }
  return count;
}

static int make_ticks(const struct axis *axis, double gap, double *labels) {
  if (axis->scale == SCALE_LINEAR) return even_ticks(axis, 0, labels);
  if (axis->scale == SCALE_LOG && axis->most < 5 * axis->least)
    return even_ticks(axis, axis->least / axis->unit, labels);
  return round_ticks(axis, gap, labels);
}

static void put_ticks(const struct plot *p) {
  char label[32];
  double labels[TICK_LIMIT];
  int count = make_ticks(&p->y, 0.07, labels);
  for (int i = 0; i < count; i++) {
    const double y = y_at(p, labels[i] * p->y.unit);
    fprintf(p->file, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", LEFT,
            WIDTH - RIGHT, y, y);
    snprintf(label, sizeof label, "%g", labels[i]);
    put_text(p->file, LEFT - 8, y + 4, "text-anchor=\"end\"", label);
  }
  count = make_ticks(&p->x, 0.08, labels);
  for (int i = 0; i < count; i++) {
    const double x = x_at(p, labels[i] * p->x.unit);
    fprintf(p->file, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"#444\"/>\n", x, x,
            HEIGHT - BOTTOM, HEIGHT - BOTTOM + 5);
    snprintf(label, sizeof label, "%g", labels[i]);
    put_text(p->file, x, HEIGHT - BOTTOM + 20, "text-anchor=\"middle\"", label);
  }
}

static void begin_plot(const struct plot *p, const char *title, const char *subtitle) {
  fprintf(p->file,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
          "font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n<rect width=\"%d\" height=\"%d\" "
          "fill=\"white\"/>\n",
          WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT);
  put_text(p->file, LEFT, 30, "font-size=\"18\" font-weight=\"bold\"", title);
  put_text(p->file, LEFT, 52, "fill=\"#555\"", subtitle);
  put_ticks(p);
  put_text(p->file, LEFT + COLUMNS / 2.0, HEIGHT - 16, "text-anchor=\"middle\"", p->x.label);
  char place[96];
  snprintf(place, sizeof place, "text-anchor=\"middle\" transform=\"rotate(-90 22 %d)\"",
           (HEIGHT - BOTTOM + TOP) / 2);
  put_text(p->file, 22, (HEIGHT - BOTTOM + TOP) / 2.0, place, p->y.label);
}

static void end_plot(const struct plot *p) {
  fprintf(p->file,
          "<path d=\"M%d %dV%dH%d\" fill=\"none\" stroke=\"#444\"/>\n"
          "</svg>\n",
          LEFT, TOP, HEIGHT - BOTTOM, WIDTH - RIGHT);
}

static void put_legend(const struct plot *p, int row, const char *color, const char *name,
                       const char *detail) {
  const double x = WIDTH - RIGHT + 22, y = TOP + 10 + 38.0 * row;
  fprintf(p->file, "<rect x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"14\" fill=\"%s\"/>\n", x, y, color);
  put_text(p->file, x + 22, y + 11, "", name);
  put_text(p->file, x + 22, y + 26, "fill=\"#666\" font-size=\"11\"", detail);
}

/* The largest binary unit in which `most` is at least 1. */
static struct axis bytes_axis(double most, const char *const labels[4]) {
  static const double units[4] = {1, 1024.0, 1024.0 * 1024, 1024.0 * 1024 * 1024};
  int unit = 0;
  while (unit < 3 && most >= 2 * units[unit + 1]) unit++;
  return (struct axis){.most = most > 0 ? most : 1, .unit = units[unit], .label = labels[unit]};
}

/* ---- Memory over a step ---- */

static uint64_t row_bytes(const uint64_t *live, int64_t position) {
  uint64_t bytes = 0;
  for (int k = 0; k < NEAP_KIND_COUNT; k++) bytes += live[position * NEAP_KIND_COUNT + k];
  return bytes;
}

/* The position with the most bytes, of those from `from` up to `to`: a peak is never drawn too low. */
static int64_t highest(const uint64_t *live, int64_t from, int64_t to) {
  int64_t best = from;
  for (int64_t t = from + 1; t < to; t++)
    if (row_bytes(live, t) > row_bytes(live, best)) best = t;
  return best;
}

/* The height of the stack up to and with `kind` at one position. */
static double stack_height(const uint64_t *live, int64_t position, int kind) {
  double bytes = 0;
  for (int k = 0; k <= kind; k++) bytes += (double)live[position * NEAP_KIND_COUNT + k];
  return bytes;
}

static void put_band(const struct plot *p, const struct memory_picture *m, const int64_t *columns,
                     int64_t count, int kind) {
  fprintf(p->file, "<path fill=\"%s\" d=\"M%d %.1f", palette[kind], LEFT, y_at(p, 0));
  const double scale = (double)m->positions / (double)count;
  for (int64_t c = 0; c < count; c++)
    fprintf(p->file, "V%.1fH%.1f", y_at(p, stack_height(m->live, columns[c], kind)),
            x_at(p, (double)(c + 1) * scale));
  for (int64_t c = count - 1; c >= 0; c--)
    fprintf(p->file, "V%.1fH%.1f", y_at(p, stack_height(m->live, columns[c], kind - 1)),
            x_at(p, (double)c * scale));
  fputs("Z\"/>\n", p->file);
}

/* Below the axis: a stroke wherever a node runs again. */
static void put_repeats(const struct plot *p, const struct memory_picture *m) {
  fputs("<path fill=\"none\" stroke=\"#000\" stroke-width=\"7\" d=\"", p->file);
  bool any = false;
  for (int64_t from = 0, to; from < m->positions; from = to) {
    for (to = from + 1; to < m->positions && m->again[to] == m->again[from];) to++;
    if (!m->again[from]) continue;
    fprintf(p->file, "M%.1f %dH%.1f", x_at(p, (double)from), HEIGHT - BOTTOM + 5, x_at(p, (double)to));
    any = true;
  }
  fputs("\"/>\n", p->file);
  if (any) put_text(p->file, WIDTH - RIGHT + 8, HEIGHT - BOTTOM + 9, "font-size=\"12\"", "nodes run again");
}

static void put_peak_and_budget(const struct plot *p, const struct memory_picture *m, int64_t peak_at) {
  const double x = x_at(p, (double)peak_at + 0.5), y = y_at(p, (double)row_bytes(m->live, peak_at)) - 3;
  fprintf(p->file, "<path d=\"M%.1f %.1fl-5 -9h10z\" fill=\"#000\"/>\n", x, y);
  if (m->budget == 0) return;
  const double line = y_at(p, (double)m->budget);
  char label[128];
  if (m->bytes > m->budget)
    snprintf(label, sizeof label, "budget %s, exceeded by %s", bytes_text(m->budget).text,
             bytes_text(m->bytes - m->budget).text);
  else
    snprintf(label, sizeof label, "budget %s", bytes_text(m->budget).text);
  fprintf(p->file,
          "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#000\" stroke-width=\"1.5\" "
          "stroke-dasharray=\"7 4\"/>\n",
          LEFT, WIDTH - RIGHT, line, line);
  /* Inside, on its line, where the legend is not. */
  put_text(p->file, WIDTH - RIGHT - 6, line - 5,
           "font-size=\"12\" font-weight=\"bold\" text-anchor=\"end\" stroke=\"white\" stroke-width=\"4\" "
           "paint-order=\"stroke\"",
           label);
}

static void put_memory(struct plot *p, const struct memory_picture *m) {
  static const char *const labels[4] = {"memory (bytes)", "memory (KiB)", "memory (MiB)", "memory (GiB)"};
  const int64_t peak_at = m->positions > 0 ? highest(m->live, 0, m->positions) : 0;
  const double peak = m->positions > 0 ? (double)row_bytes(m->live, peak_at) : 0;
  p->x = (struct axis){
      .most = m->positions > 0 ? (double)m->positions : 1, .unit = 1, .label = "position in the schedule"};
  p->y = bytes_axis(1.08 * fmax(fmax(peak, (double)m->bytes), (double)m->budget), labels);
  begin_plot(p, m->title, m->subtitle);
  int64_t columns[COLUMNS];
  const int64_t count = m->positions < COLUMNS ? m->positions : COLUMNS;
  for (int64_t c = 0; c < count; c++)
    columns[c] = highest(m->live, c * m->positions / count, (c + 1) * m->positions / count);
  int row = 0;
  for (int k = NEAP_KIND_COUNT - 1; k >= 0; k--) {
    uint64_t most = 0;
    for (int64_t t = 0; t < m->positions; t++)
      if (m->live[t * NEAP_KIND_COUNT + k] > most) most = m->live[t * NEAP_KIND_COUNT + k];
    if (most == 0) continue;
    put_band(p, m, columns, count, k);
    char detail[128];
    snprintf(detail, sizeof detail, "at the peak %s, most %s",
             bytes_text(m->live[peak_at * NEAP_KIND_COUNT + k]).text, bytes_text(most).text);
    put_legend(p, row++, palette[k], kind_names[k], detail);
  }
  if (m->positions > 0) put_peak_and_budget(p, m, peak_at);
  put_repeats(p, m);
  end_plot(p);
}

char *draw_memory(const struct memory_picture *picture, size_t *length) {
  char *text = NULL;
  struct plot plot = {.file = open_memstream(&text, length)};
  if (plot.file == NULL) return NULL;
  put_memory(&plot, picture);
  if (fclose(plot.file) == 0) return text;
  free(text);
  return NULL;
}

/* ---- Memory against overhead ---- */

static const char *color_of(int style) { return series_palette[style % SERIES_PALETTE_SIZE]; }

static const char *dashes_of(int style) {
  return style < SERIES_PALETTE_SIZE ? "" : " stroke-dasharray=\"6 3\"";
}

/* A planner looks the same in every picture; other series by their places. */
static int style_of(const struct curve_picture *c, int series) {
  return c->cost_label == NULL ? planner_from_end(c->series[series]) : series;
}

/* Planners differ in the shape of their marks as well as in colour; where colours come again the shapes and
 * the lines are others. Hollow: it lies above the picture. */
static void put_mark(const struct plot *p, int style, double x, double y, bool hollow) {
  const char *const color = color_of(style), *const fill = hollow ? "#fff" : color;
  switch ((style + style / SERIES_PALETTE_SIZE) % 4) {
  case 0:
    fprintf(p->file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\"", x, y);
    break;
  case 1:
    fprintf(p->file, "<path d=\"M%.1f %.1fh8v8h-8z\"", x - 4, y - 4);
    break;
  case 2:
    fprintf(p->file, "<path d=\"M%.1f %.1fl5 9h-10z\"", x, y - 6);
    break;
  default:
    fprintf(p->file, "<path d=\"M%.1f %.1fl5 5l-5 5l-5 -5z\"", x, y - 5);
  }
  fprintf(p->file, " fill=\"%s\" stroke=\"%s\"/>\n", fill, color);
}

/* A plan for less is a plan for more: between its points a planner's line is level. */
static void put_series(const struct plot *p, const struct curve_picture *c, int series) {
  const int style = style_of(c, series);
  double end = -1;
  for (int64_t i = 0; i < c->count; i++) {
    if (c->points[i].series != series) continue;
    const double x = x_at(p, c->points[i].bytes), y = y_at(p, c->points[i].overhead);
    if (end < 0)
      fprintf(p->file, "<path fill=\"none\" stroke=\"%s\"%s d=\"M%.1f %.1f", color_of(style),
              dashes_of(style), x, y);
    else
      fprintf(p->file, "H%.1fV%.1f", x, y);
    end = fmax(x, x_at(p, c->keep_all));
  }
  if (end < 0) return;
  fprintf(p->file, "H%.1f\"/>\n", end);
  for (int64_t i = 0; i < c->count; i++)
    if (c->points[i].series == series)
      put_mark(p, style, x_at(p, c->points[i].bytes), y_at(p, c->points[i].overhead),
               p->y.edge > 0 && c->points[i].overhead > p->y.edge);
}

static const char front_style[] = "fill=\"none\" stroke=\"#ffe08a\" stroke-width=\"9\"";

/* The best of all planners, as a broad line below theirs. */
static void put_front(const struct plot *p, const struct curve_picture *c, const int64_t *front,
                      int64_t count) {
  if (count == 0) return;
  fprintf(p->file, "<path %s stroke-linejoin=\"round\" d=\"", front_style);
  for (int64_t i = 0; i < count; i++)
    fprintf(p->file, i == 0 ? "M%.1f %.1f" : "H%.1fV%.1f", x_at(p, c->points[front[i]].bytes),
            y_at(p, c->points[front[i]].overhead));
  fprintf(p->file, "H%.1f\"/>\n", x_at(p, c->keep_all));
}

static void put_series_legend(const struct plot *p, const struct curve_picture *c) {
  const double x = WIDTH - RIGHT + 29;
  double y = TOP + 17;
  for (int s = 0; s < c->series_count; s++, y += 25) {
    const int style = style_of(c, s);
    fprintf(p->file, "<path fill=\"none\" stroke=\"%s\"%s d=\"M%.1f %.1fh24\"/>\n", color_of(style),
            dashes_of(style), x - 12, y);
    put_mark(p, style, x, y, false);
    put_text(p->file, x + 18, y + 4, "", c->series[s]);
    bool any = false;
    for (int64_t i = 0; i < c->count && !any; i++) any = c->points[i].series == s;
    if (!any) put_text(p->file, x + 122, y + 4, "fill=\"#666\" font-size=\"11\"", "graph not accepted");
  }
  if (c->series_count < 2) return;
  fprintf(p->file, "<path %s d=\"M%.1f %.1fh24\"/>\n", front_style, x - 12, y);
  put_text(p->file, x + 18, y + 4, "", "best points");
}

/* A line through the picture, with its label beside it, on the side where there is room: the rows do not run
 * into each other. */
static void put_bound(const struct plot *p, double bytes, int row, const char *dashes, const char *label) {
  const double x = x_at(p, bytes), y = TOP + 4 + 18 * row;
  const bool right = share_of(&p->x, bytes) < 0.6;
  char attributes[120];
  snprintf(attributes, sizeof attributes,
           "font-size=\"12\" stroke=\"white\" stroke-width=\"4\" paint-order=\"stroke\" text-anchor=\"%s\"",
           right ? "start" : "end");
  fprintf(p->file, "<path d=\"M%.1f %.1fV%d\" stroke=\"#000\" stroke-dasharray=\"%s\"/>\n", x, y - 8,
          HEIGHT - BOTTOM, dashes);
  put_text(p->file, right ? x + 5 : x - 5, y + 4, attributes, label);
}

/* Bounds from below, and the least budget that was met, of `least` bytes. */
static void put_bounds(struct plot *p, const struct curve_picture *c, double least) {
  char label[96];
  snprintf(label, sizeof label, "no plan needs less than %s", bytes_text((uint64_t)c->lower_bound).text);
  if (c->lower_bound > 0) put_bound(p, c->lower_bound, 0, "2 4", label);
  snprintf(label, sizeof label, "least budget that was met: %s", bytes_text((uint64_t)least).text);
  if (c->count > 0) put_bound(p, least, 1, "7 4", label);
}

static void put_curve(struct plot *p, const struct curve_picture *c, const int64_t *front,
                      int64_t front_count) {
  static const char *const labels[4] = {"memory, resident bytes included (bytes, logarithmic)",
                                        "memory, resident bytes included (KiB, logarithmic)",
                                        "memory, resident bytes included (MiB, logarithmic)",
                                        "memory, resident bytes included (GiB, logarithmic)"};
  double widest = fmax(c->lower_bound, c->keep_all), highest_overhead = 0.01, least = INFINITY;
  for (int64_t i = 0; i < c->count; i++) {
    widest = fmax(widest, c->points[i].bytes);
    least = fmin(least, c->points[i].bytes);
    highest_overhead = fmax(highest_overhead, c->points[i].overhead);
  }
  /* A planner that is many times worse than the best would press the others together. */
  const double enough = fmax(0.3, front_count > 0 ? 2.5 * c->points[front[0]].overhead : 0);
  const bool cut = highest_overhead > 1.5 * enough;
  p->x = bytes_axis(1.04 * widest, labels);
  p->x.scale = SCALE_LOG;
  p->x.least = fmax(0.9 * (c->lower_bound > 0 ? c->lower_bound : least), 1e-6 * p->x.most);
  p->y = (struct axis){
      .most = 1.3 * (cut ? enough : highest_overhead), /* room for the labels of the bounds */
      .unit = 0.01,
      .label = c->cost_label != NULL ? c->cost_label : "time spent on recomputation (%, square root)",
      .scale = SCALE_ROOT,
      .edge = cut ? enough : 0};
  char title[160];
  snprintf(title, sizeof title, "%s: memory against %s", c->title,
           c->cost_label != NULL ? "cost" : "recomputation");
  begin_plot(p, title,
             cut ? "every point is a plan with offsets; lower and further left is better; hollow: costs "
                   "more than shown"
                 : "every point is a plan with offsets; lower and further left is better");
  put_bounds(p, c, least);
  if (c->series_count > 1) put_front(p, c, front, front_count);
  for (int s = 0; s < c->series_count; s++) put_series(p, c, s);
  put_series_legend(p, c);
  end_plot(p);
}

char *draw_curve(const struct curve_picture *picture, size_t *length) {
  char *text = NULL;
  int64_t front_count;
  int64_t *front = curve_front(picture, &front_count);
  struct plot plot = {.file = front != NULL ? open_memstream(&text, length) : NULL};
  bool good = plot.file != NULL;
  if (good) {
    put_curve(&plot, picture, front, front_count);
    good = fclose(plot.file) == 0;
  }
  free(front);
  if (good) return text;
  free(text);
  return NULL;
}

/* ---- Loss against the learning rate ---- */

static void put_losses(const struct plot *p, const struct rate_picture *r, bool smoothed, const char *style) {
  fprintf(p->file, "<path fill=\"none\" %s d=\"", style);
  for (int64_t i = 0; i < r->count; i++)
    fprintf(p->file, "%c%.1f %.1f", i == 0 ? 'M' : 'L', x_at(p, r->points[i].rate),
            y_at(p, smoothed ? r->points[i].smoothed : r->points[i].loss));
  fputs("\"/>\n", p->file);
}

static void put_rates(struct plot *p, const struct rate_picture *r) {
  static const char raw[] = "stroke=\"#999999\"", smooth[] = "stroke=\"#0072B2\" stroke-width=\"2\"";
  double most = 0;
  for (int64_t i = 0; i < r->count; i++) most = fmax(most, r->points[i].smoothed);
  p->x = (struct axis){.most = r->points[r->count - 1].rate,
                       .unit = 1,
                       .label = "learning rate (logarithmic)",
                       .scale = SCALE_LOG,
                       .least = r->points[0].rate};
  p->y = (struct axis){.most = 1.2 * most, .unit = 1.0000001, .label = "loss", .edge = 1.2 * most};
  begin_plot(p, r->title,
             "the rate rises by a fixed factor each step; the line ends where the loss has risen");
  put_losses(p, r, false, raw);
  put_losses(p, r, true, smooth);
  put_legend(p, 0, "#0072B2", "smoothed loss", "mean, latest steps weigh most");
  put_legend(p, 1, "#999999", "loss of the step", "");
  char label[64];
  snprintf(label, sizeof label, "suggested: %.2g", r->suggested);
  if (r->suggested > 0) put_bound(p, r->suggested, 0, "7 4", label);
  end_plot(p);
}

char *draw_rates(const struct rate_picture *picture, size_t *length) {
  char *text = NULL;
  struct plot plot = {.file = open_memstream(&text, length)};
  if (plot.file == NULL) return NULL;
  put_rates(&plot, picture);
  if (fclose(plot.file) == 0) return text;
  free(text);
  return NULL;
}
