#include "data/table.h"

#include <math.h>
#include <string.h>

bool table_is_text(const struct table *table) { return table->column_count == 1 && table->columns[0].text; }

int64_t table_find_word(const struct table_column *column, const char *word) {
  int64_t low = 0, high = column->word_count;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    const int order = strcmp(column->words[middle], word);
    if (order == 0) return middle;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return -1;
}

neap_status table_take_values(struct region *region, const struct table_form *form,
                              struct table_column *label) {
  double *values = region_alloc(region, (size_t)label->word_count, sizeof *values);
  RETURN_IF_NULL(values);
  for (int64_t i = 0; i < label->word_count; i++)
    if (table_cell(form, label->words[i], &values[i]) != CELL_NUMBER) values[i] = (double)NAN;
  label->values = values;
  return NEAP_OK;
}

int64_t table_find_class(const struct table *table, const char *word) {
  const struct table_column *label = &table->label;
  double value;
  for (int64_t i = 0; i < label->word_count; i++)
    if (strcmp(label->words[i], word) == 0) return i;
  if (label->values == NULL || table_cell(&table->form, word, &value) != CELL_NUMBER) return -1;
  for (int64_t i = 0; i < label->word_count; i++)
    if (label->values[i] == value) return i;
  return -1;
}
