/* The hard instances that come with minimalloc. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "papers.h"

/* By definition: within the capacity, and of any two that live at one position one lies below the other. */
static bool holds(const neap_buffer *buffers, int64_t count, uint64_t capacity) {
  for (int64_t i = 0; i < count; i++) {
    const neap_buffer *a = &buffers[i];
    if (a->offset + a->size > capacity) return false;
    for (int64_t k = 0; k < i; k++) {
      const neap_buffer *b = &buffers[k];
      if (a->lower < b->upper && b->lower < a->upper && a->offset < b->offset + b->size &&
          b->offset < a->offset + a->size)
        return false;
    }
  }
  return true;
}

static neap_status solve(struct report *report, const char *name, double *total) {
  char path[4096], stem[256];
  unsigned long long capacity;
  if (sscanf(name, "%255[^.].%llu.csv", stem, &capacity) != 2) return NEAP_OK;
  progress(report, "  %s ...", name);
  snprintf(path, sizeof path, "%s/%s", report->buffers, name);
  neap_buffer *buffers;
  int64_t count;
  neap_layout_result result;
  TRY(neap_layout_read_csv(path, &buffers, &count));
  const double start = clock_seconds();
  const neap_status status = neap_layout_solve(buffers, count, capacity, &result);
  const double seconds = clock_seconds() - start;
  const bool valid = status == NEAP_OK && holds(buffers, count, capacity);
  free(buffers);
  if (status != NEAP_OK && status != NEAP_OVER_BUDGET) return status;
  *total += seconds;
  print_row(report, "  %-10s %8lld %12llu %12llu %12llu %9.3f   %s\n", stem, (long long)count, capacity,
            (unsigned long long)result.lower_bound, (unsigned long long)result.height, seconds,
            verdict(report, valid));
  return NEAP_OK;
}

neap_status print_minimalloc(struct report *report) {
  if (report->buffers == NULL) {
    printf("  left out: name the folder of the instances with -m\n");
    return NEAP_OK;
  }
  struct dirent **files;
  const int count = scandir(report->buffers, &files, NULL, alphasort);
  RETURN_IF(count < 0, NEAP_IO_FAILED, "%s: the folder cannot be read", report->buffers);
  printf("  Published: each is laid out within its capacity. Met: so is ours, looked up pair by pair.\n\n"
         "  %-10s %8s %12s %12s %12s %9s\n",
         "instance", "buffers", "capacity", "lower bound", "height", "seconds");
  double total = 0;
  neap_status status = NEAP_OK;
  for (int i = 0; i < count; i++) {
    if (status == NEAP_OK) status = solve(report, files[i]->d_name, &total);
    free(files[i]);
  }
  free(files);
  if (status == NEAP_OK) printf("  %-10s %57.3f\n", "together", total);
  return status;
}
