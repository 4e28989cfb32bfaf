#include "train/export_language.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "language/language_export.h"
#include "language/language_export_gguf.h"
#include "model/model.h"
#include "rewrite/rewrite.h"
#include "train/base_weights.h"
#include "weights/averages.h"
#include "weights/weight_files.h"

struct merging {
  const struct language_run *run;
  struct region region;
  struct base_weights base;
  struct weight_files first; /* where the run began with other weights than the model's own */
};

/* Reads a variable's tensor from the weights of a run, or from those that it began with. */
static neap_status take(const struct safetensors *file, int32_t index, int rank, const int64_t *dims,
                        float *data) {
  const struct safetensors_tensor *t = &file->tensors[index];
  TRY(safetensors_need_real(file, index));
  RETURN_IF(t->rank != rank || memcmp(t->dims, dims, sizeof *dims * (size_t)rank) != 0, NEAP_BAD_FORMAT,
            "%s: tensor '%s' is %s; in the model it is %s", file->path, t->name,
            dims_text(t->rank, t->dims).text, dims_text(rank, dims).text);
  return safetensors_read(file, index, data);
}

/* Finds a part of the adapter of `weight`; -1: none exists. */
static int32_t find_adapter(const struct safetensors *file, const char *weight, const char *part) {
  static const char ending[] = ".weight";
  char name[512];
  const size_t length = strlen(weight), end = sizeof ending - 1;
  if (length < end || strcmp(weight + length - end, ending) != 0) return -1;
  snprintf(name, sizeof name, "%.*s.%s", (int)(length - end), weight, part);
  return averages_tensor(file, name);
}

/* Adds scale B A to W, row by row. */
static void add_product(int64_t rows, int64_t columns, int64_t rank, double scale, const float *a,
                        const float *b, float *w) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t k = 0; k < rank; k++) {
      const float by = (float)(scale * (double)b[i * rank + k]);
      for (int64_t j = 0; j < columns; j++) w[i * columns + j] += by * a[k * columns + j];
    }
}

/* Gives the rows of W lengths (DoRA). */
static void set_lengths(int64_t rows, int64_t columns, const float *lengths, float *w) {
  for (int64_t i = 0; i < rows; i++) {
    double sum = 0;
    for (int64_t j = 0; j < columns; j++) sum += (double)w[i * columns + j] * (double)w[i * columns + j];
    const float factor = sum > 0 ? (float)((double)lengths[i] / sqrt(sum)) : 0;
    for (int64_t j = 0; j < columns; j++) w[i * columns + j] *= factor;
  }
}

static neap_status add_adapter(const struct merging *m, const char *name, const int64_t *dims, float *data) {
  const struct safetensors *file = m->run->weights;
  const neap_session_options *o = m->run->session;
  const int32_t a = find_adapter(file, name, "lora_A.weight"), b = find_adapter(file, name, "lora_B.weight");
  const int32_t of_lengths = find_adapter(file, name, "lora_magnitude_vector");
  RETURN_IF(b < 0 || file->tensors[a].rank != 2 || file->tensors[b].rank != 2 ||
                (of_lengths >= 0) != o->lora_dora,
            NEAP_BAD_FORMAT, "%s: only has a part of the adapter of '%s'", file->path, name);
  const int64_t all = file->tensors[a].dims[0], rank = file->tensors[b].dims[1],
                experts = rank > 0 && all / rank > 0 ? all / rank : 1, rows = dims[0] / experts;
  float *parts = calloc((size_t)(rank * (dims[0] + experts * dims[1]) + dims[0]), sizeof *parts);
  RETURN_IF(parts == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory for an adapter", file->path);
  float *of_b = parts + rank * experts * dims[1], *lengths = of_b + rank * dims[0];
  neap_status status = take(file, a, 2, (int64_t[]){rank * experts, dims[1]}, parts);
  if (status == NEAP_OK) status = take(file, b, 2, (int64_t[]){dims[0], rank}, of_b);
  if (status == NEAP_OK && of_lengths >= 0) status = take(file, of_lengths, 1, dims, lengths);
  const double scale = (double)lora_scale(fabsf(o->lora_alpha), rank, o->lora_rs);
  for (int64_t e = 0; status == NEAP_OK && e < experts; e++)
    add_product(rows, dims[1], rank, scale, parts + e * rank * dims[1], of_b + e * rows * rank,
                data + e * rows * dims[1]);
  if (status == NEAP_OK && of_lengths >= 0) set_lengths(dims[0], dims[1], lengths, data);
  free(parts);
  return status;
}

static neap_status change(void *context, const char *name, int rank, const int64_t *dims, float *data) {
  struct merging *m = context;
  if (m->run->weights == NULL) return NEAP_OK;
  const int32_t trained = averages_tensor(m->run->weights, name);
  const struct weight_tensor *first = m->base.path != NULL ? weight_files_find(&m->first, name) : NULL;
  if (trained >= 0)
    TRY(take(m->run->weights, trained, rank, dims, data));
  else if (first != NULL)
    TRY(take(first->file, first->index, rank, dims, data));
  const bool adapted =
      rank == 2 && m->run->session->lora > 0 && find_adapter(m->run->weights, name, "lora_A.weight") >= 0;
  return adapted ? add_adapter(m, name, dims, data) : NEAP_OK;
}

/* The types of weights, the usual one first. */
static const struct written_type {
  const char *name;
  neap_dtype type;
} folder_types[] = {{"f32", NEAP_F32}, {"bf16", NEAP_BF16}, {"f16", NEAP_F16}, {NULL, NEAP_F32}},
  gguf_types[] = {
      {"f16", NEAP_F16}, {"f32", NEAP_F32}, {"bf16", NEAP_BF16}, {"q8_0", NEAP_Q8_0}, {NULL, NEAP_F32}};

static neap_status find_type(const char *name, bool gguf, neap_dtype *type) {
  const struct written_type *row = gguf ? gguf_types : folder_types;
  while (name != NULL && row->name != NULL && strcmp(row->name, name) != 0) row++;
  *type = row->type;
  RETURN_IF(row->name == NULL, NEAP_INVALID_ARGUMENT, "type '%s': weights cannot have it; a %s", name,
            gguf ? "GGUF file has f16, f32, bf16 or q8_0" : "folder has f32, bf16 or f16");
  return NEAP_OK;
}

static neap_status write(struct merging *m, int64_t *tensors, neap_dtype *dtype) {
  const neap_export_options *o = m->run->options;
  struct language_export from = {.base = model_language(m->run->model),
                                 .change = change,
                                 .context = m,
                                 .replace = o->replace,
                                 .options = m->run->shape,
                                 .labels = m->run->labels};
  const bool gguf = export_is_gguf(o->out);
  RETURN_IF(from.base == NULL, NEAP_INVALID_ARGUMENT,
            "%s: is not a language model from a folder or GGUF file; only a run of such a model can be "
            "merged and written as one",
            o->model);
  TRY(find_type(o->type, gguf, &from.dtype));
  *dtype = from.dtype;
  if (o->checkpoint != NULL) TRY(base_weights_read(o->checkpoint, &m->region, &m->base));
  TRY(base_weights_check(&m->base, o->checkpoint, m->run->model));
  if (m->base.path != NULL) TRY(weight_files_open(m->base.path, m->base.map, &m->first));
  return (gguf ? language_export_gguf : language_export_folder)(&from, o->out, tensors);
}

bool export_is_gguf(const char *path) {
  static const char ending[] = ".gguf";
  const size_t length = strlen(path), end = sizeof ending - 1;
  return length > end && strcmp(path + length - end, ending) == 0;
}

neap_status export_language(const struct language_run *run, int64_t *tensors, neap_dtype *dtype) {
  struct merging m = {.run = run};
  const neap_status status = write(&m, tensors, dtype);
  weight_files_close(&m.first);
  region_free(&m.region);
  return status;
}
