#include "train/class_weights.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- From the records ---- */

/* Counts the labels of the training part. */
static neap_status count_labels(const struct source *source, int field, int32_t *labels, int64_t classes,
                                double *counts) {
  const struct draw plain = {0};
  const int64_t each = field_elements(&source->fields[field]);
  for (int64_t record = 0; record < source->records[SPLIT_TRAIN]; record++) {
    void *fields[FIELD_LIMIT] = {0};
    int64_t lengths[FIELD_LIMIT];
    fields[field] = labels;
    TRY(source->read(source, SPLIT_TRAIN, record, &plain, fields, lengths));
    for (int64_t i = 0; i < each; i++)
      if (labels[i] >= 0 && labels[i] < classes) counts[labels[i]]++;
  }
  return NEAP_OK;
}

static neap_status balance(const struct source *source, int field, int64_t classes, float *weights) {
  int32_t *labels = calloc((size_t)field_elements(&source->fields[field]) + 1, sizeof *labels);
  double *counts = calloc((size_t)classes + 1, sizeof *counts), all = 0, present = 0;
  const neap_status status = labels != NULL && counts != NULL
                                 ? count_labels(source, field, labels, classes, counts)
                                 : neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for the weights of classes");
  for (int64_t c = 0; status == NEAP_OK && c < classes; c++) all += counts[c], present += counts[c] > 0;
  for (int64_t c = 0; status == NEAP_OK && c < classes; c++)
    weights[c] = counts[c] > 0 ? (float)(all / (present * counts[c])) : 0;
  free(labels);
  free(counts);
  return status;
}

/* ---- From a file ---- */

struct reading {
  const char *path;
  int64_t line, classes;
  const char *const *names;
  float *weights; /* NAN: not read yet */
};

/* Finds a class by name or number; -1: no class has it. */
static int64_t find_class(const struct reading *r, const char *name) {
  char *end;
  for (int64_t c = 0; r->names != NULL && c < r->classes; c++)
    if (strcmp(r->names[c], name) == 0) return c;
  errno = 0;
  const long long number = strtoll(name, &end, 10);
  return errno == 0 && end != name && *end == '\0' && number >= 0 && number < r->classes ? number : -1;
}

static neap_status take_line(struct reading *r, char *line) {
  line[strcspn(line, "\r\n")] = '\0';
  line += strspn(line, " \t");
  if (*line == '\0' || *line == '#') return NEAP_OK;
  char *weight = strrchr(line, ','), *end;
  if (weight == NULL) weight = strpbrk(line, " \t");
  RETURN_IF(weight == NULL, NEAP_BAD_FORMAT, "%s: line %lld: is not a class and a weight; give NAME,WEIGHT",
            r->path, (long long)r->line);
  *weight++ = '\0';
  for (size_t length = strlen(line); length > 0 && strchr(" \t", line[length - 1]) != NULL;)
    line[--length] = '\0';
  const double value = strtod(weight, &end);
  RETURN_IF(end == weight || end[strspn(end, " \t")] != '\0' || !(value >= 0 && value < 1e30),
            NEAP_BAD_FORMAT, "%s: line %lld: '%.60s' is not a weight; it must be a number of 0 or more",
            r->path, (long long)r->line, weight);
  const int64_t class = find_class(r, line);
  RETURN_IF(class < 0, NEAP_BAD_FORMAT, "%s: line %lld: the data have no class '%.60s'", r->path,
            (long long)r->line, line);
  RETURN_IF(!isnan(r->weights[class]), NEAP_BAD_FORMAT, "%s: line %lld: class '%.60s' is given twice",
            r->path, (long long)r->line, line);
  r->weights[class] = (float)value;
  return NEAP_OK;
}

static neap_status check_whole(const struct reading *r) {
  bool any = false;
  for (int64_t c = 0; c < r->classes; c++) {
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)c);
    RETURN_IF(isnan(r->weights[c]), NEAP_BAD_FORMAT, "%s: has no weight for class '%s'", r->path,
              r->names != NULL ? r->names[c] : number);
    any = any || r->weights[c] > 0;
  }
  RETURN_IF(!any, NEAP_BAD_FORMAT, "%s: all weights are 0; at least one must be above 0", r->path);
  return NEAP_OK;
}

neap_status class_weights_read(const char *path, const char *const *names, int64_t classes, float *weights) {
  struct reading r = {.path = path, .classes = classes, .names = names, .weights = weights};
  char *line = NULL;
  size_t size = 0;
  FILE *file = fopen(path, "rbe");
  RETURN_IF(file == NULL, NEAP_IO_FAILED,
            "class weights '%s': cannot be read: %s; give 'balanced', or a file", path, strerror(errno));
  for (int64_t c = 0; c < classes; c++) weights[c] = NAN;
  neap_status status = NEAP_OK;
  for (ssize_t length; status == NEAP_OK && (length = getline(&line, &size, file)) >= 0;) {
    r.line++;
    if (strlen(line) != (size_t)length)
      status = neap_fail(NEAP_BAD_FORMAT, "%s: line %lld: has a zero byte, so the file is not text", path,
                         (long long)r.line);
    else
      status = take_line(&r, line);
  }
  if (status == NEAP_OK && !feof(file))
    status = neap_fail(NEAP_IO_FAILED, "%s: cannot be read: %s", path, strerror(errno));
  free(line);
  fclose(file);
  return status == NEAP_OK ? check_whole(&r) : status;
}

/* ---- Either ---- */

neap_status class_weights_make(const char *asked, const struct source *source, int64_t classes,
                               struct region *region, float **weights) {
  const int field = source_find_field(source, task_rows[source->kind].label);
  RETURN_IF(field < 0 || source->fields[field].dtype != NEAP_I32, NEAP_INVALID_ARGUMENT,
            "class weights %s: the labels of %s are not classes", asked, source->name);
  *weights = region_alloc(region, (size_t)classes, sizeof **weights);
  RETURN_IF_NULL(*weights);
  if (strcmp(asked, "balanced") == 0) return balance(source, field, classes, *weights);
  return class_weights_read(asked, source->class_names, source->classes < classes ? source->classes : classes,
                            *weights);
}
