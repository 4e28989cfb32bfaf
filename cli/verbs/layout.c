/* neap layout */
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "shared/buffer_ids.h"
#include "shared/failure.h"
#include "shared/format.h"
#include "shared/threads.h"
#include "verbs/verbs.h"

struct settings {
  struct arguments a;
  const char *out;
  int64_t capacity;
};

const neap_setting layout_options[] = {
    {"o", "OUT.csv", .help = "write the buffers with their offsets", .kind = NEAP_SETTING_TEXT,
     .offset = offsetof(struct settings, out), .flags = NEAP_SETTING_PATH},
    {"capacity", "BYTES", "0: the smallest that is found", "maximum height of the layout",
     .kind = NEAP_SETTING_INTEGER, .offset = offsetof(struct settings, capacity)},
    {0},
};

static int by_lower(const void *a, const void *b) {
  const neap_buffer *x = a, *y = b;
  return (x->lower > y->lower) - (x->lower < y->lower);
}

/* Looks at every pair that lives at one position. `sorted` is a copy of its own. */
static bool apart(neap_buffer *sorted, int64_t count, uint64_t height) {
  qsort(sorted, (size_t)count, sizeof *sorted, by_lower);
  for (int64_t i = 0; i < count; i++) {
    const neap_buffer *a = &sorted[i];
    if (a->offset > height || a->size > height - a->offset) return false;
    for (int64_t k = i + 1; k < count && sorted[k].lower < a->upper; k++) {
      const neap_buffer *b = &sorted[k];
      if (b->upper > b->lower && a->offset < b->offset + b->size && b->offset < a->offset + a->size)
        return false;
    }
  }
  return true;
}

static bool is_valid(const neap_buffer *buffers, int64_t count, uint64_t height) {
  neap_buffer *sorted = malloc(((size_t)count + 1) * sizeof *sorted);
  if (sorted == NULL) return false;
  for (int64_t i = 0; i < count; i++) sorted[i] = buffers[i];
  const bool valid = apart(sorted, count, height);
  free(sorted);
  return valid;
}

static void print_layout(int64_t count, const neap_layout_result *layout, double seconds) {
  const double share = layout->height > 0 ? (double)layout->lower_bound / (double)layout->height : 1;
  printf("%lld buffers in %s (%llu bytes), found in %s\n", (long long)count, bytes_text(layout->height).text,
         (unsigned long long)layout->height, duration_text(seconds).text);
  printf("most bytes live at once: %s (%llu bytes), %s of the height%s\n",
         bytes_text(layout->lower_bound).text, (unsigned long long)layout->lower_bound,
         percent_text(share).text, layout->proven_optimal ? "; no layout is lower" : "");
}

static int solve(const struct verb *verb, const struct settings *s, const char *in, neap_buffer *buffers,
                 int64_t count) {
  const uint64_t capacity = (uint64_t)s->capacity;
  neap_layout_result layout = {0};
  const double start = seconds_now();
  neap_status status = neap_layout_solve(buffers, count, capacity, &layout);
  const bool over = status == NEAP_OVER_BUDGET; /* then the layout is what could be met */
  if (status != NEAP_OK && !over) return report_failure(verb, status);
  if (layout.height > INT64_MAX) {
    fprintf(stderr, "neap: %s: the buffers need %llu bytes; the maximum is 2^63 - 1\n", in,
            (unsigned long long)layout.height);
    return EXIT_FAILED;
  }
  const double seconds = seconds_now() - start;
  const bool valid = is_valid(buffers, count, layout.height);
  int result = over ? EXIT_OVER_BUDGET : valid ? EXIT_DONE : EXIT_INVALID;
  if (over)
    fprintf(stderr, "neap: %s: --capacity %llu (%s)\n", library_message(), (unsigned long long)layout.height,
            bytes_text(layout.height).text);
  else if (s->out != NULL && neap_layout_write_csv(s->out, in, buffers, count) != NEAP_OK)
    return report_failure(verb, NEAP_IO_FAILED);
  if (s->a.json) {
    json_t *object =
        json_pack("{s:I, s:I, s:I, s:f, s:b, s:b}", "buffers", (json_int_t)count, "height",
                  (json_int_t)layout.height, "lower_bound", (json_int_t)layout.lower_bound, "seconds",
                  seconds, "valid", valid && !over, "proven_optimal", layout.proven_optimal);
    if (print_json(object) != EXIT_DONE) result = EXIT_FAILED;
  } else if (!over && s->out != standard_output) {
    print_layout(count, &layout, seconds);
  }
  return result;
}

int run_layout(const struct verb *verb, int count, char **arguments) {
  struct settings s = {0};
  if (!read_arguments(verb, count, arguments, &s, &s.a)) return EXIT_USAGE;
  const struct operands operands = s.a.operands;
  if (operands.count == 0) return report_usage(verb, "a file of buffers (id,lower,upper,size) is missing");
  if (check_output(verb, s.out, s.a.json) != EXIT_DONE) return EXIT_USAGE;
  neap_buffer *buffers;
  int64_t buffer_count;
  const neap_status status = neap_layout_read_csv(operands.values[0], &buffers, &buffer_count);
  if (status != NEAP_OK) return report_failure(verb, status);
  int result = check_buffer_ids(operands.values[0]);
  if (result == EXIT_DONE) result = prepare_threads(0);
  if (result == EXIT_DONE) result = solve(verb, &s, operands.values[0], buffers, buffer_count);
  free(buffers);
  return result;
}
