/* neap cache: where a recurrent model keeps its state along prompts that share their beginnings. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/failure.h"
#include "shared/format.h"
#include "verbs/verbs.h"

struct settings {
  struct arguments a;
  int64_t states;
};

const neap_setting cache_options[] = {
    OWN_OPTION(struct settings, "states", "N", "8", "number of states that memory has room for", INTEGER,
               states, 0),
    {0},
};

/* Requests by the number of tokens that they share with what ran before. */
struct histogram {
  double *requests; /* [length + 1] */
  int64_t length;
  double total;
};

enum { LENGTH_LIMIT = 1 << 24 };

/* Reads a line "tokens,requests". */
static bool read_row(const char *line, int64_t *tokens, double *requests) {
  char *end;
  errno = 0;
  const long long first = strtoll(line, &end, 10);
  if (end == line || *end != ',' || errno != 0 || first < 0 || first > LENGTH_LIMIT) return false;
  const char *second = end + 1;
  *requests = strtod(second, &end);
  *tokens = first;
  return end != second && end[strspn(end, " \t\r\n")] == '\0' && *requests >= 0 && isfinite(*requests);
}

static bool grow(struct histogram *h, int64_t tokens, int64_t *room) {
  if (tokens >= *room) {
    const int64_t more = 2 * tokens + 64;
    double *larger = realloc(h->requests, (size_t)more * sizeof *larger);
    if (larger == NULL) return false;
    for (int64_t t = *room; t < more; t++) larger[t] = 0;
    h->requests = larger;
    *room = more;
  }
  if (tokens > h->length) h->length = tokens;
  return true;
}

/* Reads the lines; says what is wrong with one. Memory is filled before fgets writes a line to it, so that
 * the last zero is the one that fgets adds; another one is the file's. */
static int read_lines(const char *path, FILE *file, struct histogram *h) {
  char line[256];
  int64_t number = 0, room = 0;
  int status = EXIT_DONE;
  while (status == EXIT_DONE && fgets(memset(line, '\n', sizeof line), sizeof line, file) != NULL) {
    int64_t tokens;
    double requests;
    number++;
    const size_t length = (size_t)((char *)memrchr(line, '\0', sizeof line) - line);
    const bool whole = strlen(line) == length && (line[length - 1] == '\n' || feof(file));
    const bool heading = number == 1 && strncmp(line, "tokens,requests", 15) == 0;
    if (whole && (heading || line[strspn(line, " \t\r\n")] == '\0')) continue;
    if (!whole || !read_row(line, &tokens, &requests)) {
      line[strcspn(line, "\r\n")] = '\0';
      fprintf(
          stderr,
          "neap: %s: line %lld: '%.40s' is not tokens,requests: a number of tokens up to %d, and the number "
          "of requests that share them\n",
          path, (long long)number, line, LENGTH_LIMIT);
      status = EXIT_FAILED;
    } else if (!grow(h, tokens, &room)) {
      fprintf(stderr, "neap: %s: out of memory\n", path);
      status = EXIT_FAILED;
    } else {
      h->requests[tokens] += requests;
      h->total += requests;
    }
  }
  if (status == EXIT_DONE && ferror(file)) {
    fprintf(stderr, "neap: %s: cannot be read: %s\n", path, strerror(errno));
    status = EXIT_FAILED;
  }
  return status;
}

static int read_histogram(const char *path, struct histogram *h) {
  FILE *file = fopen(path, "r");
  if (file == NULL) {
    fprintf(stderr, "neap: %s: cannot be read: %s\n", path, strerror(errno));
    return EXIT_FAILED;
  }
  int status = read_lines(path, file, h);
  fclose(file);
  if (status == EXIT_DONE && !(h->total > 0 && h->length > 0)) {
    fprintf(stderr, "neap: %s: no request shares a token; give lines tokens,requests\n", path);
    status = EXIT_FAILED;
  }
  return status;
}

/* ---- Placements to compare with ---- */

typedef double density_function(const struct histogram *h, int64_t token);
static double even(const struct histogram *h, int64_t token) {
  (void)h;
  (void)token;
  return 1;
}
static double requests_at(const struct histogram *h, int64_t token) { return h->requests[token]; }
static double root_at(const struct histogram *h, int64_t token) { return sqrt(h->requests[token]); }

static const struct {
  const char *name;
  density_function *density; /* states lie as dense as this says */
} placements[] = {{"equal gaps", even}, {"balanced", requests_at}, {"square root", root_at}};
enum { PLACEMENTS = sizeof placements / sizeof *placements };

/* Places states between which the density has equal sums; those at one token are one. */
static int64_t place(const struct histogram *h, density_function *density, int64_t states,
                     int64_t *positions) {
  double all = 0, sum = 0;
  int64_t count = 0, next = 1;
  for (int64_t t = 1; t <= h->length; t++) all += density(h, t);
  for (int64_t t = 1; t <= h->length && next <= states; t++) {
    sum += density(h, t);
    const double bound = all * (double)next / (double)(states + 1);
    if (!(sum > 0 && sum >= bound)) continue;
    positions[count++] = t;
    while (next <= states && sum >= all * (double)next / (double)(states + 1)) next++;
  }
  return count;
}

/* ---- The answer ---- */

struct answer {
  double none, placed[PLACEMENTS], planned; /* tokens that a request makes again, on average */
  int64_t *positions, count;
};

static int print_answer(const struct settings *s, const struct histogram *h, const struct answer *a) {
  if (s->a.json) {
    json_t *positions = json_array(), *others = json_object();
    for (int64_t i = 0; i < a->count; i++) json_array_append_new(positions, json_integer(a->positions[i]));
    for (int i = 0; i < PLACEMENTS; i++)
      json_object_set_new(others, placements[i].name, json_real(a->placed[i]));
    return print_json(json_pack("{s:f, s:I, s:I, s:o, s:f, s:f, s:o}", "requests", h->total, "length",
                                (json_int_t)h->length, "states", (json_int_t)s->states, "positions",
                                positions, "repeated", a->planned, "repeated_without", a->none, "others",
                                others));
  }
  printf("%.0f requests share up to %lld tokens; tokens that a request makes again with %lld states:\n",
         h->total, (long long)h->length, (long long)s->states);
  printf("  %-12s %12.1f\n", "no state", a->none);
  for (int i = 0; i < PLACEMENTS; i++) printf("  %-12s %12.1f\n", placements[i].name, a->placed[i]);
  printf("  %-12s %12.1f\nkeep states behind token", "least", a->planned);
  for (int64_t i = 0; i < a->count; i++) printf(" %lld", (long long)a->positions[i]);
  printf("\n");
  return EXIT_DONE;
}

static int answer(const struct verb *verb, const struct settings *s, const struct histogram *h) {
  const int64_t states = s->states < h->length ? s->states : h->length;
  struct answer a = {.positions = malloc(((size_t)states + 1) * sizeof *a.positions)};
  if (a.positions == NULL) return report_failure(verb, NEAP_OUT_OF_MEMORY);
  a.none = neap_cache_repeated(h->requests, h->length, a.positions, 0);
  for (int i = 0; i < PLACEMENTS; i++) {
    const int64_t count = place(h, placements[i].density, states, a.positions);
    a.placed[i] = neap_cache_repeated(h->requests, h->length, a.positions, count);
  }
  const neap_status status =
      neap_cache_plan(h->requests, h->length, states, a.positions, &a.count, &a.planned);
  const int result = status == NEAP_OK ? print_answer(s, h, &a) : report_failure(verb, status);
  free(a.positions);
  return result;
}

int run_cache(const struct verb *verb, int count, char **arguments) {
  struct settings s = {.states = 8};
  struct histogram h = {0};
  if (!read_arguments(verb, count, arguments, &s, &s.a)) return EXIT_USAGE;
  if (s.a.operands.count == 0) return report_usage(verb, "a file of tokens,requests is missing");
  int result = read_histogram(s.a.operands.values[0], &h);
  if (result == EXIT_DONE) result = answer(verb, &s, &h);
  free(h.requests);
  return result;
}
