/* Reads first values of a language model's variables from its file, in any of its forms, into a session. */
#include <stdlib.h>
#include <string.h>

#include "language/language_file.h"
#include "language/language_model.h"
#include "weights/variables.h"

int64_t origin_elements(const struct origin *o) {
  int64_t elements = 1;
  for (int d = 0; d < o->rank; d++) elements *= o->dims[d];
  return elements;
}

/* Row p half + i of a head is row 2 i + p of that head in the file. */
int64_t stored_row(int64_t permuted_heads, int64_t rows, int64_t row) {
  const int64_t head = rows / permuted_heads, half = head / 2, in_head = row % head;
  return row - in_head + 2 * (in_head % half) + in_head / half;
}

/* Announces the reads of rows [first, end) of the variable, before row `row`: at the first row of a head, or
 * of all, the rows of its head, which are consecutive in the file in another order. */
static neap_status expect_head(const struct language_model *m, const struct origin *o, int64_t first,
                               int64_t row, int64_t end) {
  const int64_t head = o->dims[0] / o->form.permuted_heads;
  if (row != first && row % head != 0) return NEAP_OK;
  return gguf_expect_rows(&m->gguf, o->tensor, row / head * head, head, (end + head - 1) / head * head);
}

static neap_status read_permuted(const struct language_model *m, const struct origin *o, int64_t first,
                                 int64_t rows, float *data) {
  for (int64_t r = first; r < first + rows; r++) {
    TRY(expect_head(m, o, first, r, first + rows));
    TRY(gguf_read(&m->gguf, o->tensor, stored_row(o->form.permuted_heads, o->dims[0], r), 1,
                  data + (r - first) * o->dims[1]));
  }
  return NEAP_OK;
}

/* Reads a row of the file [inputs, outputs], which has one number for each row of the variable. */
static neap_status read_transposed(const struct origin *o, int64_t first, int64_t rows, float *data) {
  const int64_t outputs = o->dims[0], inputs = o->dims[1];
  float *row = malloc((size_t)rows * sizeof *row);
  neap_status status = NEAP_OK;
  RETURN_IF(row == NULL, NEAP_OUT_OF_MEMORY, "'%s': out of memory for a row", o->name);
  for (int64_t i = 0; status == NEAP_OK && i < inputs; i++) {
    status =
        safetensors_read_part(o->file->file, o->file->index, i * outputs + first, rows, rows < outputs, row);
    for (int64_t k = 0; status == NEAP_OK && k < rows; k++) data[k * inputs + i] = row[k];
  }
  free(row);
  return status;
}

/* Reads rows of a variable whose experts have a tensor each. */
static neap_status read_experts(const struct origin *o, int64_t first, int64_t rows, int64_t row,
                                float *data) {
  const int64_t own = o->dims[0] / o->expert_count; /* rows of each */
  for (int64_t at = first, some; at < first + rows; at += some) {
    const struct weight_tensor *t = o->experts[at / own];
    const int64_t left = own - at % own;
    some = left < first + rows - at ? left : first + rows - at;
    TRY(safetensors_read_part(t->file, t->index, at % own * row, some * row, false,
                              data + (at - first) * row));
  }
  return NEAP_OK;
}

/* Reads elements that are consecutive in the file. */
static neap_status read_straight(const struct language_model *m, const struct origin *o, int64_t first,
                                 int64_t rows, int64_t row, float *data) {
  if (o->expert_count > 1) return read_experts(o, first, rows, row, data);
  if (o->file != NULL)
    return safetensors_read_part(o->file->file, o->file->index, first * row, rows * row, false, data);
  return gguf_read(&m->gguf, o->tensor, first, rows, data);
}

neap_status language_file_read_rows(const struct language_model *m, const struct origin *o, int64_t first,
                                    int64_t rows, float *data) {
  const int64_t row = o->dims[o->rank - 1];
  if (o->form.transposed)
    TRY(read_transposed(o, first, rows, data));
  else if (o->form.permuted_heads > 0 && o->rank == 2)
    TRY(read_permuted(m, o, first, rows, data));
  else
    TRY(read_straight(m, o, first, rows, row, data));
  for (int64_t i = 0; o->form.less != 0 && i < rows * row; i++) data[i] += o->form.less;
  return NEAP_OK;
}

/* Turns a matrix [rows, columns] into [columns, rows], through a copy. */
static neap_status transpose(const char *path, int64_t rows, int64_t columns, float *data) {
  float *copy = malloc((size_t)(rows * columns) * sizeof *copy);
  RETURN_IF(copy == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory for a matrix of %lld x %lld", path,
            (long long)rows, (long long)columns);
  memcpy(copy, data, (size_t)(rows * columns) * sizeof *copy);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) data[j * rows + i] = copy[i * columns + j];
  free(copy);
  return NEAP_OK;
}

/* Returns the columns of a row; the rows of a bias are its elements. */
static int64_t permuted_columns(const struct origin *o) { return o->rank > 1 ? o->dims[1] : 1; }

/* Moves rows from the variable's order to the file's, or back, through a copy. */
static neap_status permute(const char *path, const struct origin *o, int64_t heads, bool back, float *data) {
  const int64_t rows = o->dims[0], columns = permuted_columns(o);
  float *copy = malloc((size_t)(rows * columns) * sizeof *copy);
  RETURN_IF(copy == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory for a matrix of %lld x %lld", path,
            (long long)rows, (long long)columns);
  memcpy(copy, data, (size_t)(rows * columns) * sizeof *copy);
  for (int64_t r = 0; r < rows; r++) {
    const int64_t stored = stored_row(heads, rows, r), to = back ? r : stored, from = back ? stored : r;
    memcpy(data + to * columns, copy + from * columns, (size_t)columns * sizeof *copy);
  }
  free(copy);
  return NEAP_OK;
}

/* Reads a variable without such rows. */
static neap_status read_whole(const struct language_model *m, const struct origin *o, float *data) {
  if (o->packed != NULL) return packed_weight_read(o->packed, data);
  if (m->config == NULL) {
    TRY(gguf_read(&m->gguf, o->tensor, 0, 1, data));
    return permute(m->path, o, o->form.permuted_heads, true, data);
  }
  TRY(safetensors_read(o->file->file, o->file->index, data));
  return o->form.transposed ? transpose(m->path, o->dims[1], o->dims[0], data) : NEAP_OK;
}

neap_status language_file_read(const struct language_model *m, const struct origin *o, float *data) {
  const int64_t elements = origin_elements(o), row = o->dims[o->rank - 1];
  if (o->made) {
    memset(data, 0, (size_t)elements * sizeof *data);
    return NEAP_OK;
  }
  if (language_file_has_rows(m, o))
    return language_file_read_rows(m, o, 0, o->rank > 1 ? elements / row : 1, data);
  TRY(read_whole(m, o, data));
  for (int64_t i = 0; o->form.less != 0 && i < elements; i++) data[i] += o->form.less;
  return NEAP_OK;
}

neap_status language_file_store(const struct language_model *m, const struct origin *o,
                                const struct stored_form *form, float *data) {
  const int64_t elements = origin_elements(o);
  for (int64_t i = 0; form->less != 0 && i < elements; i++) data[i] -= form->less;
  if (form->transposed) TRY(transpose(m->path, o->dims[0], o->dims[1], data));
  return form->permuted_heads > 0 ? permute(m->path, o, form->permuted_heads, false, data) : NEAP_OK;
}

/* ---- A session's values ---- */

/* Finds a variable's origin; new ones have no values in the file. */
static int32_t find_stored(const void *context, const char *name) {
  const struct language_model *m = context;
  const int32_t index = language_file_find(m, name);
  return index >= 0 && m->origins[index].made ? -1 : index;
}

static neap_status read_origin(const void *context, int32_t index, float *data) {
  const struct language_model *m = context;
  return language_file_read(m, &m->origins[index], data);
}

static neap_status read_rows(const void *context, int32_t index, int64_t first, int64_t rows, float *data) {
  const struct language_model *m = context;
  return language_file_read_rows(m, &m->origins[index], first, rows, data);
}

static bool has_blocks(const void *context, int32_t index, neap_dtype dtype) {
  const struct language_model *m = context;
  const struct origin *o = &m->origins[index];
  if (o->packed != NULL) return dtype == o->packed->dtype && packed_weight_has_blocks(o->packed);
  return m->config == NULL && m->gguf.tensors[o->tensor].dtype == dtype;
}

/* Rows are whole blocks: those of heads are reordered unchanged. */
neap_status language_file_read_blocks(const struct language_model *m, const struct origin *o, int64_t first,
                                      int64_t rows, void *blocks) {
  if (o->packed != NULL) return packed_weight_read_blocks(o->packed, first, rows, blocks);
  if (o->form.permuted_heads == 0) return gguf_read_blocks(&m->gguf, o->tensor, first, rows, blocks);
  const uint64_t row = m->gguf.tensors[o->tensor].bytes / (uint64_t)o->dims[0];
  for (int64_t r = first; r < first + rows; r++) {
    TRY(expect_head(m, o, first, r, first + rows));
    TRY(gguf_read_blocks(&m->gguf, o->tensor, stored_row(o->form.permuted_heads, o->dims[0], r), 1,
                         (unsigned char *)blocks + (uint64_t)(r - first) * row));
  }
  return NEAP_OK;
}

static neap_status read_blocks(const void *context, int32_t index, int64_t first, int64_t rows,
                               void *blocks) {
  const struct language_model *m = context;
  return language_file_read_blocks(m, &m->origins[index], first, rows, blocks);
}

static uint64_t bytes_read(const void *context) {
  return ((const struct language_model *)context)->buffer.total;
}

static void close_source(const void *context) {
  struct language_model *m = (void *)context;
  language_file_release(m);
  free(m);
}

/* Loads values; the session keeps the model, and its file open, if it reads weights while it runs. */
static neap_status load_into(struct language_model *m, neap_session *session, bool *kept) {
  const struct value_source source = {find_stored, read_origin, has_blocks, read_blocks,
                                      m,           read_rows,   bytes_read, close_source};
  TRY(language_file_check(m));
  TRY(session_load_values(session, &source));
  TRY(language_file_check(m));
  TRY(session_need_finite(session, m->path));
  if (!session_reads_disk(session)) return NEAP_OK;
  TRY(language_file_read_directly(m));
  *kept = true;
  return session_keep_source(session, &source);
}

neap_status language_model_load(const void *model, const neap_model_options *options, neap_session *session) {
  struct language_model *m = malloc(sizeof *m);
  bool kept = false;
  RETURN_IF_NULL(m);
  neap_status status = language_file_with(model, options, m);
  if (status == NEAP_OK) status = load_into(m, session, &kept);
  if (!kept) close_source(m);
  return status;
}
