/* Weights of 4 bits in a file of safetensors: those whose first name is "w". What is taken gives as many
 * numbers as its shape has, and as blocks the same; what is refused gives a message that names the file. */
#include <stdlib.h>
#include <string.h>

#include "base/quantised.h"
#include "language/packed_weight.h"
#include "support.h"

enum { MOST = 1 << 16 };

static void check_numbers(const struct packed_weight *p) {
  float *whole = calloc((size_t)p->elements, sizeof *whole), *row = calloc((size_t)p->elements, sizeof *row);
  CHECK(whole != NULL && row != NULL);
  CHECK_OK(packed_weight_read(p, whole));
  if (packed_weight_has_blocks(p)) {
    unsigned char *blocks = malloc((size_t)dtype_bytes(NEAP_NF4, (uint64_t)p->dims[1]));
    CHECK(blocks != NULL);
    for (int64_t r = 0; r < p->dims[0]; r++) {
      CHECK_OK(packed_weight_read_blocks(p, r, 1, blocks));
      dequantise(NEAP_NF4, p->dims[1], blocks, row);
      CHECK(memcmp(row, whole + r * p->dims[1], (size_t)p->dims[1] * sizeof *row) == 0);
    }
    free(blocks);
  }
  free(whole);
  free(row);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *path = fuzz_path("packed.safetensors");
  struct weight_files files;
  struct region region = {0};
  const struct packed_weight *packed = NULL;
  fuzz_write(path, data, size);
  neap_status status = weight_files_open(path, NULL, &files);
  const struct weight_tensor *weight = status == NEAP_OK ? weight_files_find(&files, "w") : NULL;
  if (weight != NULL) {
    status = packed_weight_find(&files, weight, &region, &packed);
    fuzz_taken = packed != NULL;
    if (status != NEAP_OK) fuzz_check_refused(status, path);
    CHECK(packed == NULL || status == NEAP_OK);
    if (packed != NULL && packed->elements <= MOST) check_numbers(packed);
  } else {
    fuzz_taken = false;
  }
  region_free(&region);
  weight_files_close(&files);
  return 0;
}
