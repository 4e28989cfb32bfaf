/* Files of buffers (CSV). What can be read is laid out without an overlap; written with the offsets, it reads
 * as the same buffers, and its rows are written as they are. What cannot gives a message that names the file,
 * and neither buffers nor a file. */
#include <stdlib.h>

#include "support.h"

enum { SMALL = 12 }; /* rows that are laid out as low as can be found; more are laid out within their sum */

static void check_layout(neap_buffer *buffers, int64_t count) {
  neap_layout_result result;
  uint64_t sum = 0;
  for (int64_t i = 0; i < count; i++)
    if (__builtin_add_overflow(sum, buffers[i].size, &sum)) return;
  const neap_status status = neap_layout_solve(buffers, count, count <= SMALL ? 0 : sum, &result);
  if (status != NEAP_OK) {
    CHECK(status == NEAP_TOO_LARGE || (status == NEAP_OVER_BUDGET && count > SMALL));
    fuzz_check_refused(status, NULL);
    return;
  }
  CHECK(result.lower_bound <= result.height && result.height <= sum);
  for (int64_t i = 0; i < count; i++) {
    const neap_buffer *a = &buffers[i];
    CHECK(a->offset + a->size <= result.height);
    for (int64_t j = 0; j < i; j++) {
      const neap_buffer *b = &buffers[j];
      if (a->lower >= b->upper || b->lower >= a->upper || a->size == 0 || b->size == 0) continue;
      CHECK(a->offset + a->size <= b->offset || b->offset + b->size <= a->offset);
    }
  }
}

static void check_written(const char *source, const neap_buffer *buffers, int64_t count) {
  const char *first = fuzz_path("first.csv"), *second = fuzz_path("second.csv");
  neap_buffer *again;
  int64_t rows;
  CHECK_OK(neap_layout_write_csv(first, source, buffers, count));
  CHECK_OK(neap_layout_read_csv(first, &again, &rows));
  CHECK(rows == count);
  for (int64_t i = 0; i < count; i++)
    CHECK(again[i].lower == buffers[i].lower && again[i].upper == buffers[i].upper &&
          again[i].size == buffers[i].size);
  CHECK_OK(neap_layout_write_csv(second, first, buffers, count)); /* the ids are those of the first */
  CHECK(fuzz_same_files(first, second));
  free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *path = fuzz_path("buffers.csv"), *out = fuzz_path("refused.csv");
  const neap_buffer one = {0, 1, 1, 0};
  neap_buffer *buffers = NULL;
  int64_t count = -1;
  fuzz_write(path, data, size);
  const neap_status status = neap_layout_read_csv(path, &buffers, &count);
  fuzz_taken = status == NEAP_OK;
  if (!fuzz_taken) {
    CHECK(status == NEAP_BAD_FORMAT && buffers == NULL && count == -1);
    fuzz_check_refused(status, path);
    return 0;
  }
  check_layout(buffers, count);
  check_written(path, buffers, count);
  if (count != 1) { /* rows for other buffers than the source has */
    fuzz_check_refused(neap_layout_write_csv(out, path, &one, 1), path);
    CHECK(!fuzz_exists(out));
  }
  free(buffers);
  return 0;
}
