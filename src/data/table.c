#include "data/table.h"

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

int64_t table_find_class(const struct table_column *label, const char *word) {
  for (int64_t i = 0; i < label->word_count; i++)
    if (strcmp(label->words[i], word) == 0) return i;
  return -1;
}
