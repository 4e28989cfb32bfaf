/* Writes bytes, times and results. */
#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "shared/format.h"

const char *const kind_names[NEAP_KIND_COUNT] = {
    [NEAP_KIND_PARAMETER] = "parameters",  [NEAP_KIND_STATE] = "states",
    [NEAP_KIND_INPUT] = "inputs",          [NEAP_KIND_GRADIENT] = "gradients",
    [NEAP_KIND_KEPT] = "kept activations", [NEAP_KIND_RECOMPUTED] = "recomputed activations",
    [NEAP_KIND_WORKSPACE] = "workspace",
};

struct text bytes_text(uint64_t bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double size = (double)bytes;
  int unit = 0;
  for (; size >= 1000 && unit < 6; unit++) size /= 1024;
  struct text text;
  /* Rounds a half up, as the page does, and not to the even digit. */
  const double parts = unit == 0 ? 1 : size < 10 ? 100 : 10;
  snprintf(text.text, sizeof text.text,
           unit == 0   ? "%.0f %s"
           : size < 10 ? "%.2f %s"
                       : "%.1f %s",
           floor(size * parts + 0.5) / parts, units[unit]);
  return text;
}

struct name name_text(const char *name) {
  struct name text;
  size_t i = 0;
  for (; name[i] != '\0' && i < sizeof text.text - 1; i++)
    text.text[i] = iscntrl((unsigned char)name[i]) ? '?' : name[i];
  text.text[i] = '\0';
  return text;
}

double seconds_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int line_width(FILE *file, int otherwise) {
  struct winsize size;
  return ioctl(fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1 : otherwise;
}

struct text duration_text(double seconds) {
  struct text text;
  const long long whole = llround(seconds);
  if (seconds < 1)
    snprintf(text.text, sizeof text.text, "%.0f ms", 1000 * seconds);
  else if (seconds < 60)
    snprintf(text.text, sizeof text.text, "%.1f s", seconds);
  else if (whole < 3600)
    snprintf(text.text, sizeof text.text, "%lld min %02lld s", whole / 60, whole % 60);
  else
    snprintf(text.text, sizeof text.text, "%lld h %02lld min", whole / 3600, whole / 60 % 60);
  return text;
}

struct text rate_text(double rate, const char *unit) {
  static const char *const prefixes[] = {"", "k", "M", "G", "T", "P"};
  int prefix = 0;
  for (; rate >= 1000 && prefix < 5; prefix++) rate /= 1000;
  struct text text;
  snprintf(text.text, sizeof text.text, "%.1f %s%s", rate, prefixes[prefix], unit);
  return text;
}

struct text percent_text(double fraction) {
  struct text text;
  snprintf(text.text, sizeof text.text, "%.1f %%", 100 * fraction);
  return text;
}

/* The same costs added in another order may come out a little lower. */
double overhead_of(double cost, double base_cost) {
  return base_cost > 0 && cost > base_cost ? cost / base_cost - 1 : 0;
}

void print_transfers(const neap_check_result *check) {
  if (check->stored_bytes > 0)
    printf("a step stores %s of activations and restores %s\n", bytes_text(check->stored_bytes).text,
           bytes_text(check->restored_bytes).text);
}

struct text overhead_text(double cost, double base_cost) {
  struct text text;
  snprintf(text.text, sizeof text.text, "+%.1f %%", 100 * overhead_of(cost, base_cost));
  return text;
}

bool of_sequences(neap_task task) {
  return task == NEAP_TASK_TOKENS || task == NEAP_TASK_MASKED || task == NEAP_TASK_VECTORS ||
         task == NEAP_TASK_PAIRS;
}

bool of_images(neap_task task) { return task == NEAP_TASK_IMAGES || task == NEAP_TASK_PIXELS; }

json_t *text_json(const char *text, size_t length) {
  json_t *string = json_stringn(text, length);
  char *shown = NULL;
  size_t size = 0;
  if (string != NULL) return string;
  FILE *file = open_memstream(&shown, &size);
  for (size_t i = 0, taken; file != NULL && i < length; i += taken) {
    json_t *character = NULL;
    for (taken = 1; taken <= 4 && i + taken <= length; taken++)
      if ((character = json_stringn(text + i, taken)) != NULL) break;
    if (character != NULL) {
      fwrite(text + i, 1, taken, file);
    } else {
      taken = 1;
      fputs("\xEF\xBF\xBD", file);
    }
    json_decref(character);
  }
  if (file != NULL && fclose(file) == 0) string = json_stringn(shown, size);
  free(shown);
  return string;
}

json_t *number_json(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static void add_missing(json_t *object, const char *name, json_t *value) {
  if (json_object_get(object, name) == NULL)
    json_object_set_new(object, name, value);
  else
    json_decref(value);
}

json_t *add_run(json_t *object, const char *checkpoint, const char *data) {
  static const long long kibibyte = 1024; /* getrusage counts in these */
  struct rusage usage;
  if (object == NULL) return NULL;
  if (checkpoint != NULL) add_missing(object, "checkpoint", json_string(checkpoint));
  if (data != NULL) add_missing(object, "data", json_string(data));
  if (getrusage(RUSAGE_SELF, &usage) == 0)
    add_missing(object, "process_peak_bytes", json_integer(usage.ru_maxrss * kibibyte));
  return object;
}

int print_json(json_t *object) {
  const bool good = object != NULL && json_dumpf(object, stdout, JSON_REAL_PRECISION(17)) == 0 &&
                    putchar('\n') != EOF && fflush(stdout) == 0;
  json_decref(object);
  if (good) return EXIT_DONE;
  fputs("neap: the result could not be written to standard output\n", stderr);
  return EXIT_FAILED;
}

bool has_ending(const char *path, const char *ending) {
  const char *last = strrchr(path, '.');
  return last != NULL && strcmp(last, ending) == 0;
}

int write_text_file(const char *path, const char *text, size_t length) {
  fflush(stdout); /* what was said before comes before it, where both go to one place */
  if (neap_write_file(path, text, length) == NEAP_OK) return EXIT_DONE;
  fprintf(stderr, "neap: %s\n", neap_error_message());
  return EXIT_FAILED;
}
