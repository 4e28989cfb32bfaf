/* Reads and writes GGUF for python/tests/torch: copy_gguf FILE NUMBERS [COPY TYPE]. NUMBERS gets the elements
 * of all tensors whose types are known, in f32, in the file's order; COPY all pairs and these tensors, those
 * of two dimensions and more in TYPE where their rows are whole blocks, the others in F32. */
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "formats/gguf.h"

struct copying {
  const struct gguf *file;
  int32_t *indices;
};

static neap_status read_tensor(void *context, int32_t index, float *data) {
  const struct copying *copying = context;
  const struct gguf_tensor *t = &copying->file->tensors[copying->indices[index]];
  const int64_t row = t->rank > 0 ? t->dims[t->rank - 1] : 1;
  return gguf_read(copying->file, copying->indices[index], 0, row > 0 ? t->elements / row : 0, data);
}

static neap_dtype type_named(const char *name) {
  for (neap_dtype d = 0; (int32_t)d < dtype_count; d++)
    if (dtype_rows[d].safetensors != NULL && strcmp(dtype_rows[d].safetensors, name) == 0) return d;
  return NEAP_F32;
}

static neap_status write_numbers(const char *path, struct copying *copying, int32_t count) {
  FILE *out = fopen(path, "wb");
  neap_status status = out != NULL ? NEAP_OK : NEAP_IO_FAILED;
  for (int32_t i = 0; i < count && status == NEAP_OK; i++) {
    const size_t elements = (size_t)copying->file->tensors[copying->indices[i]].elements;
    float *x = malloc((elements + 1) * sizeof *x);
    status = x != NULL ? read_tensor(copying, i, x) : NEAP_OUT_OF_MEMORY;
    if (status == NEAP_OK && fwrite(x, sizeof *x, elements, out) != elements) status = NEAP_IO_FAILED;
    free(x);
  }
  if (out != NULL && fclose(out) != 0) status = NEAP_IO_FAILED;
  return status;
}

static neap_status copy(const struct gguf *file, int count, char **arguments) {
  struct copying copying = {file, calloc((size_t)file->tensor_count + 1, sizeof *copying.indices)};
  struct gguf_tensor *tensors = calloc((size_t)file->tensor_count + 1, sizeof *tensors);
  int32_t known = 0;
  neap_status status = copying.indices != NULL && tensors != NULL ? NEAP_OK : NEAP_OUT_OF_MEMORY;
  const neap_dtype wanted = count > 4 ? type_named(arguments[4]) : NEAP_F32;
  for (int32_t i = 0; i < file->tensor_count && status == NEAP_OK; i++) {
    const struct gguf_tensor *t = &file->tensors[i];
    if (!t->known) continue;
    tensors[known] = *t;
    const bool fits = t->rank > 1 && t->dims[t->rank - 1] % dtype_rows[wanted].block_elements == 0;
    tensors[known].dtype = fits ? wanted : NEAP_F32;
    copying.indices[known++] = i;
  }
  if (status == NEAP_OK) status = write_numbers(arguments[2], &copying, known);
  if (status == NEAP_OK && count > 4)
    status = gguf_save(arguments[3], &(struct gguf_content){.tensors = tensors,
                                                            .tensor_count = known,
                                                            .pairs = file->pairs,
                                                            .pair_count = file->pair_count,
                                                            .read = read_tensor,
                                                            .context = &copying});
  free(tensors);
  free(copying.indices);
  return status;
}

int main(int count, char **arguments) {
  struct gguf file;
  if (count != 3 && count != 5) {
    fprintf(stderr, "usage: copy_gguf FILE NUMBERS [COPY TYPE]\n");
    return 2;
  }
  neap_status status = gguf_open(arguments[1], &file);
  for (int32_t i = 0; status == NEAP_OK && i < file.pair_count; i++)
    status = gguf_read_strings(&file, file.pairs[i].key, &file.region, &file.pairs[i].strings);
  if (status == NEAP_OK) status = copy(&file, count, arguments);
  if (status != NEAP_OK) fprintf(stderr, "%s\n", neap_error_message());
  gguf_close(&file);
  return status != NEAP_OK;
}
