#include "grad/optimizer.h"

#include <string.h>

#define UNWRAP(...) __VA_ARGS__
#define UPDATE(NAME, id, word, text, stream, about, numbers, fields, ...)                                    \
  [NEAP_##NAME] = {.name = word, .summary = about, .op = OP_##NAME, UNWRAP fields},
#define MATRIX_UPDATE(NAME, id, word, text, stream, about, numbers, fields)                                  \
  [NEAP_##NAME] = {                                                                                          \
      .name = word, .summary = about, .op = OP_##NAME, .matrix = true, .momentum_state = -1, UNWRAP fields},
#define NAMED_UPDATE(NAME, OF, word, about, fields)                                                          \
  [NEAP_##NAME] = {.name = word, .summary = about, .op = OP_##OF, UNWRAP fields},
const struct optimizer_row optimizer_rows[OPTIMIZERS] = {
#include "op/update_list.h"
};

#define UPDATE(NAME, ...)                                                                                    \
  _Static_assert((int)OPTIMIZER_##NAME == (int)NEAP_##NAME, "the list has the order of neap_optimizer");
#define MATRIX_UPDATE UPDATE
#define NAMED_UPDATE  UPDATE
#include "op/update_list.h"

static bool takes(enum op op, const char *number) {
  const struct op_row *row = op_rows[op];
  for (int32_t i = 0; i < row->attribute_count; i++) {
    const char *name = strrchr(row->attributes[i].name, '.') + 1;
    size_t at = 0;
    while (name[at] != '\0' && (name[at] == number[at] || (name[at] == '_' && number[at] == '-'))) at++;
    if (name[at] == '\0' && number[at] == '\0') return true;
  }
  return false;
}

bool optimizer_takes(int32_t index, const char *number) {
  const struct optimizer_row *row = &optimizer_rows[index];
  return takes(row->op, number) || (row->hidden && takes(optimizer_rows[row->rest].op, number));
}

bool neap_optimizer_at(int32_t index, neap_row *row) {
  if (row == NULL || index < 0 || index >= OPTIMIZERS) return false;
  const struct optimizer_row *r = &optimizer_rows[index];
  *row = (neap_row){.name = r->name, .summary = r->summary, .source = r->source};
  return true;
}
