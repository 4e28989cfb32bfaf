/* data.json of a run. What is taken has as many names, means and deviations as it says, deviations above 0,
 * and columns that make up its features; else a message names the file. */
#include <string.h>

#include "data/encoding.h"
#include "support.h"

static void check_scale(const struct scale *scale, int64_t count) {
  CHECK(scale->count == 0 || scale->count == count);
  for (int64_t i = 0; i < scale->count; i++) CHECK(scale->deviation[i] > 0);
}

static void check_table(const struct encoding *e) {
  int64_t width = 0;
  for (int64_t i = 0; i < e->table->column_count; i++) {
    const struct table_column *c = &e->table->columns[i];
    CHECK(c->name != NULL && c->first == width);
    for (int64_t k = 0; k < c->word_count; k++) CHECK(c->words[k] != NULL);
    CHECK(!c->text || e->table->column_count == 1);
    width += c->text ? e->shape[0] : c->word_count > 0 ? c->word_count : 1;
  }
  CHECK(e->rank == 1 && width == e->shape[0] && e->table->label.name != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *path = fuzz_path("data.json");
  struct region region = {0};
  struct encoding e;
  fuzz_write(path, data, size);
  const neap_status status = encoding_read(path, &region, &e);
  fuzz_taken = status == NEAP_OK;
  if (fuzz_taken) {
    CHECK((e.rank == 1 || e.rank == 3) && e.classes > 0 && e.source != NULL && e.input != NULL);
    check_scale(&e.input_scale, e.rank == 1 ? e.shape[0] : e.shape[0] * e.shape[1] * e.shape[2]);
    check_scale(&e.label_scale, e.classes);
    for (int64_t c = 0; c < e.classes && e.class_names != NULL; c++) CHECK(e.class_names[c] != NULL);
    if (e.table != NULL) check_table(&e);
  } else {
    fuzz_check_refused(status, path);
  }
  region_free(&region);
  return 0;
}
