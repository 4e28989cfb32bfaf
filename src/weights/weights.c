/* Writes the variables of a session to a file, and makes their digest. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/sha256.h"
#include "collective/agree.h"
#include "formats/safetensors.h"
#include "rewrite/rewrite.h"
#include "session/session_memory.h"
#include "weights/magnitudes.h"
#include "weights/sparse.h"
#include "weights/variables.h"

/* Adds the digest of a variable to an object, by its name. */
static neap_status add_digest(const struct neap_session *s, int32_t index, struct sha256 *hash,
                              json_t *variables) {
  enum { DIGITS = 16 };
  char digest[65];
  sha256_finish(hash, digest);
  digest[DIGITS] = '\0';
  const char *name = s->main->graph->tensors.data[s->variables[index].tensor].name;
  RETURN_IF(json_object_set_new(variables, name, json_string(digest)) != 0, NEAP_OUT_OF_MEMORY,
            "out of memory for digests");
  return NEAP_OK;
}

/* Feeds a variable to `all` and, unless `variables` is NULL, to a digest of its own. */
static neap_status digest_variable(const struct neap_session *s, int32_t index, float *buffer,
                                   struct sha256 *all, json_t *variables) {
  const int64_t elements = s->main->graph->tensors.data[s->variables[index].tensor].elements,
                part = variable_part(s, index);
  struct sha256 own;
  sha256_start(&own);
  for (int64_t first = 0; first < elements; first += part) {
    const int64_t left = elements - first, count = left < part ? left : part;
    TRY(session_read_part(s, index, first, buffer));
    sha256_feed(all, buffer, (size_t)count * sizeof *buffer);
    if (variables != NULL) sha256_feed(&own, buffer, (size_t)count * sizeof *buffer);
  }
  return variables != NULL ? add_digest(s, index, &own, variables) : NEAP_OK;
}

neap_status neap_session_digest(neap_session *s, char digest[65]) { return session_digests(s, digest, NULL); }

neap_status session_digests(neap_session *s, char digest[65], json_t *variables) {
  NEED(s);
  NEED(digest);
  float *buffer, *allocated;
  struct sha256 hash;
  neap_status status = NEAP_OK;
  TRY(magnitudes_begin(s));
  TRY(session_scratch(s, &buffer, &allocated));
  sha256_start(&hash);
  for (int32_t i = 0; status == NEAP_OK && i < s->variable_count; i++) {
    if (variable_is_saved(s, i)) status = digest_variable(s, i, buffer, &hash, variables);
  }
  free(allocated);
  if (status != NEAP_OK) return status;
  sha256_finish(&hash, digest);
  return s->ranks != NULL ? collective_agree(s->options.collective, "weights", digest, 65) : NEAP_OK;
}

/* ---- Writing ---- */

/* The state of writing a file. */
struct saving {
  neap_session *session;
  struct safetensors_tensor *tensors;
  int32_t *variables, count; /* of each tensor; how many there are */
  uint8_t *bits;             /* of the positions of one parameter, in row-major order; NULL: all is dense */
  char steps[24], threshold[40], scale[40], good[24], *sparse;
  struct safetensors_text metadata[6];
  int32_t texts;
};

/* Returns true if a variable is saved as values and their indices. */
static bool is_saved_sparse(const struct neap_session *s, int32_t index) {
  return s->options.save_sparse && s->variables[index].layer >= 0;
}

static neap_status list_tensor(struct saving *saving, int32_t index) {
  const neap_session *s = saving->session;
  struct safetensors_tensor *tensor = &saving->tensors[saving->count];
  saving->variables[saving->count++] = index;
  neap_variable variable;
  TRY(neap_session_variable(s, index, &variable));
  *tensor = (struct safetensors_tensor){.name = variable.name,
                                        .dtype = dtype_rows[variable.dtype].safetensors,
                                        .rank = variable.rank,
                                        .elements = variable.elements};
  if (variable_part(s, index) < variable.elements) tensor->part = variable_part(s, index);
  memcpy(tensor->dims, variable.dims, sizeof tensor->dims);
  if (!is_saved_sparse(s, index)) return NEAP_OK;
  RETURN_IF(variable.elements > INT32_MAX, NEAP_UNSUPPORTED,
            "'%s' has %lld elements; a tensor that is saved sparse must have at most 2^31 - 1", variable.name,
            (long long)variable.elements);
  tensor->rank = 1;
  TRY(sparse_values(s, s->variables[index].layer, &tensor->elements));
  tensor->dims[0] = tensor->elements;
  if (variable.kind != NEAP_VARIABLE_POSITIONS) return NEAP_OK;
  tensor->dtype = "I32";
  tensor->name = s->sparse->layers[s->variables[index].layer].indices_name;
  return NEAP_OK;
}

/* Describes one of the sparse tensors for the metadata. */
static neap_status describe_sparse(const struct neap_session *s, int32_t index, json_t *list) {
  neap_variable variable;
  TRY(neap_session_variable(s, index, &variable));
  json_t *shape = json_array();
  bool ok = shape != NULL;
  for (int32_t d = 0; d < variable.rank; d++)
    ok = ok && json_array_append_new(shape, json_integer(variable.dims[d])) == 0;
  json_t *entry = json_pack("{s:o, s:s}", "shape", shape, "indices",
                            s->sparse->layers[s->variables[index].layer].indices_name);
  ok = entry != NULL && ok;
  RETURN_IF(json_object_set_new(list, variable.name, entry) != 0 || !ok, NEAP_OUT_OF_MEMORY,
            "tensor '%s' cannot be saved: out of memory, or its name is not UTF-8", variable.name);
  return NEAP_OK;
}

static neap_status describe_all_sparse(struct saving *saving) {
  const neap_session *s = saving->session;
  neap_status status = NEAP_OK;
  json_t *list = json_object();
  RETURN_IF_NULL(list);
  for (int32_t i = 0; status == NEAP_OK && i < s->variable_count; i++)
    if (is_saved_sparse(s, i) && s->variables[i].pool >= 0) status = describe_sparse(s, i, list);
  if (status == NEAP_OK) {
    saving->sparse = json_dumps(list, JSON_COMPACT);
    if (saving->sparse == NULL) status = neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for a file of weights");
  }
  json_decref(list);
  return status;
}

static void add_text(struct saving *saving, const char *key, const char *value) {
  saving->metadata[saving->texts++] = (struct safetensors_text){key, value};
}

static neap_status list_metadata(struct saving *saving) {
  const neap_session *s = saving->session;
  snprintf(saving->steps, sizeof saving->steps, "%" PRIu64, s->steps);
  snprintf(saving->threshold, sizeof saving->threshold, "%a", s->sparse->threshold);
  snprintf(saving->scale, sizeof saving->scale, "%a", (double)s->loss_scale);
  snprintf(saving->good, sizeof saving->good, "%" PRIu64, s->good_steps);
  add_text(saving, "format", "neap");
  add_text(saving, "steps", saving->steps);
  if (s->sparse->layer_count > 0) add_text(saving, "sparse_threshold", saving->threshold);
  if (s->options.dynamic_loss_scale) {
    add_text(saving, "loss_scale", saving->scale);
    add_text(saving, "good_steps", saving->good);
  }
  if (saving->bits == NULL) return NEAP_OK;
  TRY(describe_all_sparse(saving));
  add_text(saving, SAFETENSORS_SPARSE, saving->sparse);
  return NEAP_OK;
}

/* Makes the list of variables, and room for the positions of the largest parameter. */
static neap_status begin_saving(struct saving *saving) {
  const neap_session *s = saving->session;
  int64_t most = 0;
  saving->tensors = calloc((size_t)s->variable_count + 1, sizeof *saving->tensors);
  saving->variables = calloc((size_t)s->variable_count + 1, sizeof *saving->variables);
  RETURN_IF(saving->tensors == NULL || saving->variables == NULL, NEAP_OUT_OF_MEMORY,
            "out of memory for a file of weights");
  for (int32_t i = 0; i < s->variable_count; i++)
    if (variable_is_saved(s, i)) TRY(list_tensor(saving, i));
  for (int32_t k = 0; s->options.save_sparse && k < s->sparse->layer_count; k++)
    if (s->sparse->layers[k].elements > most) most = s->sparse->layers[k].elements;
  if (most > 0) {
    saving->bits = malloc((size_t)(most + 7) / 8);
    RETURN_IF_NULL(saving->bits);
  }
  return list_metadata(saving);
}

/* Replaces data by the indices of its elements that are not 0. */
static void pack_indices(int64_t elements, float *data) {
  int64_t count = 0;
  for (int64_t i = 0; i < elements; i++) {
    const int32_t index = (int32_t)i;
    if (data[i] != 0) memcpy(&data[count++], &index, sizeof index);
  }
}

static neap_status read_sparse_variable(struct saving *saving, int32_t index, float *data) {
  neap_session *s = saving->session;
  const struct session_variable *v = &s->variables[index];
  const int64_t elements = s->sparse->layers[v->layer].elements;
  TRY(sparse_read_positions(s, v->layer, data));
  if (v->pool < 0) {
    pack_indices(elements, data);
    return NEAP_OK;
  }
  memset(saving->bits, 0, (size_t)(elements + 7) / 8);
  for (int64_t i = 0; i < elements; i++) saving->bits[i / 8] |= (uint8_t)((data[i] != 0) << i % 8);
  TRY(neap_session_read(s, index, data));
  int64_t count = 0;
  for (int64_t i = 0; i < elements; i++)
    if (saving->bits[i / 8] >> i % 8 & 1) data[count++] = data[i];
  return NEAP_OK;
}

static neap_status read_variable(void *context, int32_t tensor, float *data) {
  struct saving *saving = context;
  const int32_t index = saving->variables[tensor];
  if (is_saved_sparse(saving->session, index)) return read_sparse_variable(saving, index, data);
  neap_variable variable;
  TRY(neap_session_variable(saving->session, index, &variable));
  if (dtype_is_quantised(variable.dtype)) return session_read_blocks(saving->session, index, data);
  return neap_session_read(saving->session, index, data);
}

/* Reads a part of a variable on disk. */
static neap_status read_part(void *context, int32_t tensor, int64_t first, float *data) {
  const struct saving *saving = context;
  const struct neap_session *s = saving->session;
  const int32_t index = saving->variables[tensor], id = s->variables[index].tensor;
  return dtype_is_quantised(s->main->graph->tensors.data[id].dtype)
             ? session_copy_piece_bytes(s, id, true, first, data)
             : session_read_part(s, index, first, data);
}

static void end_saving(struct saving *saving) {
  free(saving->sparse);
  free(saving->bits);
  free(saving->tensors);
  free(saving->variables);
}

/* Reads all data of a file. */
static neap_status read_all(struct saving *saving, float *buffer) {
  neap_status status = NEAP_OK;
  for (int32_t i = 0; status == NEAP_OK && i < saving->count; i++) status = read_variable(saving, i, buffer);
  return status;
}

neap_status session_save_along(neap_session *s) {
  struct saving saving = {.session = s};
  float *buffer, *allocated = NULL;
  neap_status status;
  TRY_DONE(magnitudes_begin(s));
  TRY_DONE(begin_saving(&saving));
  TRY_DONE(session_scratch(s, &buffer, &allocated));
  status = read_all(&saving, buffer);
done:
  free(allocated);
  end_saving(&saving);
  return status;
}

neap_status neap_session_save(neap_session *s, const char *path) {
  NEED(s);
  NEED(path);
  RETURN_IF(s->torn, NEAP_INVALID_ARGUMENT, "%s: cannot save the weights, as their step was given up", path);
  struct saving saving = {.session = s};
  float *buffer, *allocated = NULL;
  neap_status status;
  TRY_DONE(magnitudes_begin(s));
  TRY_DONE(begin_saving(&saving));
  TRY_DONE(session_scratch(s, &buffer, &allocated));
  status = safetensors_save(path, &(struct safetensors_content){.tensors = saving.tensors,
                                                                .tensor_count = saving.count,
                                                                .metadata = saving.metadata,
                                                                .metadata_count = saving.texts,
                                                                .read = read_variable,
                                                                .read_part = read_part,
                                                                .context = &saving,
                                                                .buffer = buffer});
done:
  free(allocated);
  end_saving(&saving);
  return status;
}
