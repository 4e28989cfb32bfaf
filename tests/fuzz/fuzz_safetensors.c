/* Files of safetensors. What can be opened gives every f32 tensor as the bytes of the file, a sparse one as
 * zeros but for its values, a quantised one as scales times numbers, and is the same after its f32 tensors
 * were written and opened again. A session takes the file whole, and is then what it is after it was saved
 * and loaded again; or it refuses it and has not changed. Whatever is refused gives a message that names the
 * file. Taken is what the session takes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "formats/safetensors.h"
#include "session/session.h"
#include "support.h"

/* ---- The file ---- */

static float *read_tensor(const struct safetensors *file, int32_t index) {
  float *data = calloc((size_t)file->tensors[index].elements + 1, sizeof *data);
  CHECK(data != NULL);
  CHECK_OK(safetensors_read(file, index, data));
  return data;
}

struct copying {
  const struct safetensors *file;
  const int32_t *indices;
};

static neap_status copy_tensor(void *context, int32_t index, float *data) {
  const struct copying *copying = context;
  return safetensors_read(copying->file, copying->indices[index], data);
}

/* A sparse tensor may be said to be of any shape: what the rest is not tried with. */
enum { ELEMENTS_LIMIT = 1 << 20 };

/* Those at the positions are the file's values, in their order; the rest is 0. */
static void check_sparse(const struct safetensors *file, int32_t index, const float *read,
                         const uint8_t *stored) {
  const struct safetensors_tensor *tensor = &file->tensors[index];
  float *at = calloc((size_t)tensor->elements + 1, sizeof *at);
  uint64_t used = 0;
  CHECK(at != NULL);
  CHECK_OK(safetensors_read_positions(file, index, at));
  for (int64_t i = 0; i < tensor->elements; i++) {
    CHECK(at[i] == 1 || (at[i] == 0 && read[i] == 0));
    if (at[i] == 0) continue;
    CHECK(used < tensor->bytes && memcmp(&read[i], stored + used, sizeof read[i]) == 0);
    used += sizeof read[i];
  }
  CHECK(used == tensor->bytes);
  free(at);
}

/* Each element is its block's scale times its number. */
static void check_quantised(const struct safetensors *file, int32_t index, const uint8_t *stored) {
  const struct safetensors_tensor *tensor = &file->tensors[index];
  float *read = read_tensor(file, index);
  CHECK(tensor->elements % 32 == 0 && tensor->bytes == (uint64_t)tensor->elements / 32 * 34);
  for (int64_t i = 0; i < tensor->elements; i++) {
    const uint8_t *block = stored + i / 32 * 34;
    const double scale = (double)f16_to_float((uint16_t)(block[0] | block[1] << 8)),
                 wanted = scale * (int8_t)block[2 + i % 32];
    CHECK((double)read[i] == wanted || (isnan(wanted) && isnan(read[i])));
  }
  free(read);
}

static void check_same(const struct safetensors *file, const char *path,
                       const struct safetensors_content *content, const int32_t *indices) {
  struct safetensors again;
  const struct safetensors_tensor *tensors = content->tensors;
  const int32_t count = content->tensor_count;
  CHECK_OK(safetensors_open(path, &again));
  CHECK(again.tensor_count == count && again.metadata_count == content->metadata_count);
  for (int32_t i = 0; i < count; i++) {
    const int32_t k = safetensors_find(&again, tensors[i].name);
    const size_t bytes = (size_t)tensors[i].elements * sizeof(float);
    CHECK(k >= 0 && again.tensors[k].rank == tensors[i].rank && again.tensors[k].bytes == bytes);
    for (int d = 0; d < tensors[i].rank; d++) CHECK(again.tensors[k].dims[d] == tensors[i].dims[d]);
    float *was = read_tensor(file, indices[i]), *is = read_tensor(&again, k);
    CHECK(memcmp(was, is, bytes) == 0);
    free(was);
    free(is);
  }
  for (int32_t i = 0; i < content->metadata_count; i++) {
    const char *value = safetensors_metadata(&again, content->metadata[i].key);
    CHECK(value != NULL && strcmp(value, content->metadata[i].value) == 0);
  }
  safetensors_close(&again);
}

static void check_file(const struct safetensors *file, const uint8_t *data, size_t size) {
  const char *path = fuzz_path("copy.safetensors");
  struct safetensors_tensor *tensors = calloc((size_t)file->tensor_count + 1, sizeof *tensors);
  struct safetensors_text *metadata = calloc((size_t)file->metadata_count + 1, sizeof *metadata);
  int32_t *indices = calloc((size_t)file->tensor_count + 1, sizeof *indices), count = 0, texts = 0;
  uint64_t bytes = 0;
  CHECK(tensors != NULL && indices != NULL && metadata != NULL);
  for (int32_t i = 0; i < file->tensor_count; i++) {
    const struct safetensors_tensor *tensor = &file->tensors[i];
    CHECK(tensor->offset <= size && tensor->bytes <= size - tensor->offset);
    CHECK(safetensors_find(file, tensor->name) == i);
    bytes += tensor->bytes;
    if (strcmp(tensor->dtype, "Q8_0") == 0 && tensor->elements <= ELEMENTS_LIMIT)
      check_quantised(file, i, data + tensor->offset);
    if (strcmp(tensor->dtype, "F32") != 0 || tensor->elements > ELEMENTS_LIMIT) continue;
    float *read = read_tensor(file, i);
    if (tensor->indices != NULL)
      check_sparse(file, i, read, data + tensor->offset);
    else
      CHECK(memcmp(read, data + tensor->offset, tensor->bytes) == 0);
    free(read);
    tensors[count] = *tensor;
    indices[count++] = i;
  }
  CHECK(bytes < size && (file->tensor_count == 0 || bytes == size - file->tensors[0].offset));
  for (int32_t i = 0; i < file->metadata_count;
       i++) /* sparse tensors are copied as dense ones, quantised not */
    if (strcmp(file->metadata[i].key, SAFETENSORS_SPARSE) != 0 &&
        strcmp(file->metadata[i].key, SAFETENSORS_QUANTISED) != 0)
      metadata[texts++] = file->metadata[i];
  struct copying copying = {file, indices};
  const struct safetensors_content content = {.tensors = tensors,
                                              .tensor_count = count,
                                              .metadata = metadata,
                                              .metadata_count = texts,
                                              .read = copy_tensor,
                                              .context = &copying};
  CHECK_OK(safetensors_save(path, &content));
  check_same(file, path, &content, indices);
  free(tensors);
  free(metadata);
  free(indices);
}

/* ---- The session ---- */

static void check_variables(neap_session *session, const struct safetensors *file) {
  for (int32_t i = 0; i < neap_session_variable_count(session); i++) {
    neap_variable variable;
    float has[64] = {0};
    CHECK_OK(neap_session_variable(session, i, &variable));
    CHECK(variable.elements <= 64);
    const int32_t k = safetensors_find(file, variable.name);
    if (k < 0) continue;
    CHECK_OK(neap_session_read(session, i, has));
    float *read = read_tensor(file, k);
    for (int64_t n = 0; n < variable.elements; n++)
      CHECK(read[n] == has[n] ||
            (isnan(read[n]) && isnan(has[n]))); /* f64 between them makes a NaN a quiet one */
    free(read);
  }
}

static bool check_session(const char *path, const struct safetensors *file) {
  neap_session *session = fuzz_session();
  const char *before = fuzz_path("before.safetensors"), *after = fuzz_path("after.safetensors");
  char was[65], is[65];
  const uint64_t steps = session_steps(session);
  CHECK_OK(neap_session_save(session, before));
  CHECK_OK(neap_session_digest(session, was));
  const neap_status status = neap_session_load(session, path);
  if (status != NEAP_OK) {
    CHECK(status == NEAP_BAD_FORMAT || status == NEAP_UNSUPPORTED);
    fuzz_check_refused(status, path);
    CHECK_OK(neap_session_digest(session, is));
    CHECK(strcmp(was, is) == 0 && session_steps(session) == steps);
    return false;
  }
  CHECK(file != NULL);
  check_variables(session, file);
  const uint64_t loaded = session_steps(session);
  const char *said = safetensors_metadata(file, "steps");
  CHECK(said == NULL ? loaded == steps : strtoull(said, NULL, 10) == loaded && said[0] != '-');
  CHECK(loaded <= INT64_MAX); /* what a checkpoint can say */
  CHECK_OK(neap_session_digest(session, was));
  CHECK_OK(neap_session_save(session, after));
  CHECK_OK(neap_session_load(session, after));
  CHECK_OK(neap_session_digest(session, is));
  CHECK(strcmp(was, is) == 0 && session_steps(session) == loaded);
  CHECK_OK(neap_session_load(session, before));
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *path = fuzz_path("input.safetensors");
  struct safetensors file;
  fuzz_write(path, data, size);
  const neap_status status = safetensors_open(path, &file);
  if (status == NEAP_OK) {
    check_file(&file, data, size);
  } else {
    CHECK(status == NEAP_BAD_FORMAT || status == NEAP_UNSUPPORTED);
    fuzz_check_refused(status, path);
  }
  fuzz_taken = check_session(path, status == NEAP_OK ? &file : NULL);
  CHECK(!fuzz_taken || status == NEAP_OK);
  safetensors_close(&file);
  return 0;
}
