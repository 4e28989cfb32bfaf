/* Pictures as SVG. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { WIDTH = 1000, HEIGHT = 460, LEFT = 90, RIGHT = 190, TOP = 50, BOTTOM = 55, COLUMNS = 700 };

/* Okabe & Ito's palette: told apart by everybody. */
static const char *const colours[NEAP_KIND_COUNT] = {"#0072B2", "#56B4E9", "#999999", "#D55E00",
                                                     "#009E73", "#F0E442", "#CC79A7"};

struct chart {
  FILE *file;
  double x_most, y_least, y_most; /* in the units of the axes */
};

static double x_at(const struct chart *c, double x) { return LEFT + (WIDTH - LEFT - RIGHT) * x / c->x_most; }
static double y_at(const struct chart *c, double y) {
  return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (y - c->y_least) / (c->y_most - c->y_least);
}

static void put_text(const struct chart *c, double x, double y, const char *anchor, int size,
                     const char *text) {
  fprintf(c->file, "<text x='%.1f' y='%.1f' text-anchor='%s' font-size='%d'>", x, y, anchor, size);
  for (; *text != '\0'; text++) {
    if (*text == '<')
      fputs("&lt;", c->file);
    else if (*text == '&')
      fputs("&amp;", c->file);
    else
      fputc(*text, c->file);
  }
  fputs("</text>\n", c->file);
}

static FILE *begin(const char *path, const char *title, struct chart *c) {
  c->file = fopen(path, "w");
  if (c->file == NULL) return NULL;
  fprintf(c->file,
          "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' height='%d' "
          "font-family='sans-serif'>\n"
          "<rect width='100%%' height='100%%' fill='white'/>\n",
          WIDTH, HEIGHT, WIDTH, HEIGHT);
  put_text(c, LEFT, 28, "start", 17, title);
  return c->file;
}

/* A step of 1, 2 or 5 times a power of ten that gives four to nine ticks. */
static double tick_step(double range) {
  const double power = pow(10, floor(log10(range / 4)));
  const double steps = range / 4 / power;
  return power * (steps >= 5 ? 5 : steps >= 2 ? 2 : 1);
}

static void draw_axes(const struct chart *c, const char *x_name, const char *y_name, const char *format) {
  char text[64];
  const double y_step = tick_step(c->y_most - c->y_least), x_step = tick_step(c->x_most);
  for (double y = ceil(c->y_least / y_step) * y_step; y <= c->y_most * 1.0001; y += y_step) {
    fprintf(c->file, "<line x1='%d' x2='%d' y1='%.1f' y2='%.1f' stroke='#ddd'/>\n", LEFT, WIDTH - RIGHT,
            y_at(c, y), y_at(c, y));
    snprintf(text, sizeof text, format, y);
    put_text(c, LEFT - 8, y_at(c, y) + 4, "end", 13, text);
  }
  for (double x = 0; x <= c->x_most * 1.0001; x += x_step) {
    snprintf(text, sizeof text, "%g", x);
    put_text(c, x_at(c, x), HEIGHT - BOTTOM + 18, "middle", 13, text);
  }
  fprintf(c->file, "<path d='M%d %d V%d H%d' fill='none' stroke='black'/>\n", LEFT, TOP, HEIGHT - BOTTOM,
          WIDTH - RIGHT);
  put_text(c, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 14, "middle", 14, x_name);
  fprintf(c->file, "<g transform='translate(20 %d) rotate(-90)'>", (TOP + HEIGHT - BOTTOM) / 2);
  put_text(c, 0, 0, "middle", 14, y_name);
  fputs("</g>\n", c->file);
}

static void legend(const struct chart *c, int row, const char *colour, const char *name) {
  const int y = TOP + 10 + 24 * row;
  fprintf(c->file, "<rect x='%d' y='%d' width='14' height='14' fill='%s' stroke='#555'/>\n",
          WIDTH - RIGHT + 16, y, colour);
  put_text(c, WIDTH - RIGHT + 38, y + 12, "start", 13, name);
}

static neap_status end(const char *path, struct chart *c) {
  fputs("</svg>\n", c->file);
  const bool good = !ferror(c->file);
  if (fclose(c->file) == 0 && good) return NEAP_OK;
  remove(path);
  return NEAP_IO_FAILED;
}

neap_status draw_memory(const char *path, const char *title, const uint64_t *live, int64_t positions,
                        uint64_t budget) {
  struct chart c = {.x_most = positions > 0 ? (double)positions : 1, .y_most = (double)budget / 1048576};
  const int64_t columns = positions < COLUMNS ? positions : COLUMNS;
  double(*stack)[NEAP_KIND_COUNT + 1] = calloc((size_t)columns + 1, sizeof *stack); /* running sums in MiB */
  if (stack == NULL) return NEAP_OUT_OF_MEMORY;
  for (int64_t i = 0; i < columns; i++) { /* a column shows its highest position */
    uint64_t most = 0;
    for (int64_t p = i * positions / columns; p < (i + 1) * positions / columns; p++) {
      uint64_t sum = 0;
      for (int k = 0; k < NEAP_KIND_COUNT; k++) sum += live[p * NEAP_KIND_COUNT + k];
      if (sum < most) continue;
      most = sum;
      for (int k = 0; k < NEAP_KIND_COUNT; k++)
        stack[i][k + 1] = stack[i][k] + (double)live[p * NEAP_KIND_COUNT + k] / 1048576;
    }
    if (stack[i][NEAP_KIND_COUNT] > c.y_most) c.y_most = stack[i][NEAP_KIND_COUNT];
  }
  c.y_most = c.y_most > 0 ? c.y_most * 1.05 : 1;
  if (begin(path, title, &c) == NULL) {
    free(stack);
    return NEAP_IO_FAILED;
  }
  for (int k = 0; k < NEAP_KIND_COUNT; k++) {
    fprintf(c.file, "<path fill='%s' stroke='none' d='", colours[k]);
    for (int64_t i = 0; i < columns; i++) {
      const double from = x_at(&c, (double)i * c.x_most / (double)columns),
                   to = x_at(&c, (double)(i + 1) * c.x_most / (double)columns);
      fprintf(c.file, "%c%.1f %.1f L%.1f %.1f", i == 0 ? 'M' : 'L', from, y_at(&c, stack[i][k + 1]), to,
              y_at(&c, stack[i][k + 1]));
    }
    for (int64_t i = columns; i-- > 0;) {
      const double from = x_at(&c, (double)i * c.x_most / (double)columns),
                   to = x_at(&c, (double)(i + 1) * c.x_most / (double)columns);
      fprintf(c.file, "L%.1f %.1f L%.1f %.1f", to, y_at(&c, stack[i][k]), from, y_at(&c, stack[i][k]));
    }
    fputs("Z'/>\n", c.file);
    legend(&c, NEAP_KIND_COUNT - 1 - k, colours[k], kind_names[k]);
  }
  draw_axes(&c, "position in the schedule", "MiB", "%g");
  free(stack);
  return end(path, &c);
}

neap_status draw_curve(const char *path, const char *title, const struct curve_point *points, int count,
                       double lower_bound, double keep_all) {
  struct chart c = {.x_most = keep_all / 1048576 * 1.02, .y_most = 1};
  for (int i = 0; i < count; i++)
    if (100 * points[i].overhead > c.y_most) c.y_most = 100 * points[i].overhead;
  c.y_most *= 1.08;
  if (begin(path, title, &c) == NULL) return NEAP_IO_FAILED;
  draw_axes(&c, "memory, MiB", "more time than keeping everything, %", "%g");
  const char *planner = "";
  int row = -1;
  for (int i = 0; i < count; i++) {
    const double x = x_at(&c, points[i].bytes / 1048576), y = y_at(&c, 100 * points[i].overhead);
    if (strcmp(planner, points[i].planner) != 0) {
      if (row >= 0) fputs("'/>\n", c.file);
      planner = points[i].planner;
      row++;
      legend(&c, row, colours[row % NEAP_KIND_COUNT], planner);
      fprintf(c.file, "<path fill='none' stroke='%s' stroke-width='2.5' d='M",
              colours[row % NEAP_KIND_COUNT]);
    } else {
      fputs(" L", c.file);
    }
    fprintf(c.file, "%.1f %.1f", x, y);
  }
  if (row >= 0) fputs("'/>\n", c.file);
  for (int i = 0; i < count; i++)
    fprintf(c.file, "<circle cx='%.1f' cy='%.1f' r='3.5'><title>%s: %.1f MiB, %.2f %%</title></circle>\n",
            x_at(&c, points[i].bytes / 1048576), y_at(&c, 100 * points[i].overhead), points[i].planner,
            points[i].bytes / 1048576, 100 * points[i].overhead);
  const double marks[] = {lower_bound, keep_all};
  static const char *const names[] = {"no plan is below", "keep everything"};
  for (int i = 0; i < 2; i++) {
    const double x = x_at(&c, marks[i] / 1048576);
    fprintf(c.file, "<line x1='%.1f' x2='%.1f' y1='%d' y2='%d' stroke='#555' stroke-dasharray='5 4'/>\n", x,
            x, TOP, HEIGHT - BOTTOM);
    put_text(&c, x, TOP - 6, i == 0 ? "start" : "end", 12, names[i]);
  }
  return end(path, &c);
}
