#include "language/language_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sha256.h"
#include "formats/json.h"
#include "graph/graph.h"

/* ---- The contents of the file ---- */

/* Finds the tensor of a folder for a variable's name; some files leave out the family's prefix. NULL: the
 * folder has no such tensor. */
static const struct weight_tensor *find_weight(const struct language_model *m, const char *name) {
  const char *prefix = m->family->prefix;
  const size_t length = prefix != NULL ? strlen(prefix) : 0;
  const struct weight_tensor *found = weight_files_find(&m->weights, name);
  if (found == NULL && length > 0 && strncmp(name, prefix, length) == 0)
    found = weight_files_find(&m->weights, name + length);
  return found;
}

int64_t language_file_experts(const struct language_model *m, enum part part) {
  return part == PART_EXPERT_GATE || part == PART_EXPERT_UP || part == PART_EXPERT_DOWN
             ? m->transformer.experts
             : 1;
}

const char *language_file_expert_name(struct language_model *m, const struct origin *o, int64_t expert) {
  char name[SEQUENCE_NAME];
  transformer_expert_name(&m->transformer, o->part, o->block, expert, name);
  return region_format(&m->region, "%s.%s", name, o->suffix);
}

/* Finds the tensors of all experts in a folder, which must have one shape. */
static neap_status find_experts(struct language_model *m, struct origin *o, bool *found) {
  const int64_t count = language_file_experts(m, o->part);
  o->experts = region_alloc(&m->region, (size_t)count, sizeof *o->experts);
  RETURN_IF(o->experts == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory for experts", m->path);
  o->expert_count = count;
  for (int64_t e = 0; e < count; e++) {
    const char *name = language_file_expert_name(m, o, e);
    const struct packed_weight *packed;
    RETURN_IF(name == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory for names", m->path);
    o->experts[e] = find_weight(m, name);
    *found = o->experts[e] != NULL;
    if (!*found && e == 0) return NEAP_OK;
    RETURN_IF(!*found, NEAP_BAD_FORMAT, "%s: tensor '%s' is missing; each of the %lld experts needs one",
              m->path, name, (long long)count);
    TRY(packed_weight_find(&m->weights, o->experts[e], &m->region, &packed));
    RETURN_IF(
        packed != NULL, NEAP_UNSUPPORTED,
        "%s: tensor '%s' is packed by bitsandbytes; weights of experts must be whole or in GGUF's blocks",
        m->path, name);
    TRY(safetensors_need_real(o->experts[e]->file, o->experts[e]->index));
    const struct safetensors_tensor *t = &o->experts[e]->file->tensors[o->experts[e]->index],
                                    *first = &o->experts[0]->file->tensors[o->experts[0]->index];
    RETURN_IF(t->rank != 2 || memcmp(t->dims, first->dims, 2 * sizeof *t->dims) != 0, NEAP_BAD_FORMAT,
              "%s: tensor '%s' is %s, but that of the first expert %s; all must be matrices of one shape",
              m->path, name, dims_text(t->rank, t->dims).text, dims_text(first->rank, first->dims).text);
    o->rank = 2;
    o->dims[0] = count * t->dims[0];
    o->dims[1] = t->dims[1];
  }
  o->file = o->experts[0];
  return NEAP_OK;
}

static neap_status find_tensor(struct language_model *m, const char *name, struct origin *o, bool *found) {
  o->expert_count = 1;
  if (m->config != NULL && language_file_experts(m, o->part) > 1) return find_experts(m, o, found);
  if (m->config != NULL) {
    o->file = find_weight(m, name);
    *found = o->file != NULL;
    if (!*found) return NEAP_OK;
    TRY(packed_weight_find(&m->weights, o->file, &m->region, &o->packed));
    if (o->packed != NULL) {
      o->rank = o->packed->rank;
      memcpy(o->dims, o->packed->dims, sizeof o->dims);
      return NEAP_OK;
    }
    const struct safetensors_tensor *t = &o->file->file->tensors[o->file->index];
    o->rank = t->rank;
    memcpy(o->dims, t->dims, sizeof o->dims);
    return safetensors_need_real(o->file->file, o->file->index);
  }
  o->tensor = gguf_find(&m->gguf, name);
  *found = o->tensor >= 0;
  if (!*found) return NEAP_OK;
  const struct gguf_tensor *t = &m->gguf.tensors[o->tensor];
  o->rank = t->rank;
  memcpy(o->dims, t->dims, sizeof o->dims);
  RETURN_IF(!t->known, NEAP_UNSUPPORTED, "%s: tensor '%s' has the unsupported type %s", m->path, name,
            gguf_type_name(t->type) != NULL ? gguf_type_name(t->type) : "a type without a name");
  if (t->rank == 3 && language_file_experts(m, o->part) > 1) { /* the experts' rows, one behind the other */
    RETURN_IF(t->dims[0] != language_file_experts(m, o->part), NEAP_BAD_FORMAT,
              "%s: tensor '%s' is %s; there are %lld experts", m->path, name, dims_text(3, t->dims).text,
              (long long)language_file_experts(m, o->part));
    o->rank = 2;
    o->dims[0] = t->dims[0] * t->dims[1];
    o->dims[1] = t->dims[2];
  }
  return NEAP_OK;
}

/* Gives the name of "OWNER.SUFFIX" as a variable, and its name in a folder or a GGUF file. */
static neap_status names_of(struct language_model *m, const struct origin *o, bool folder,
                            const char **variable, const char **in_file) {
  char owner[SEQUENCE_NAME], stored[SEQUENCE_NAME];
  const char *in_gguf = m->family->gguf_names[o->part];
  transformer_name(&m->transformer, o->part, o->block, owner);
  *variable = *o->suffix == '\0' ? region_string(&m->region, owner)
                                 : region_format(&m->region, "%s.%s", owner, o->suffix);
  if (folder) {
    *in_file = *variable;
  } else {
    struct transformer as_stored = m->transformer;
    RETURN_IF(in_gguf == NULL, NEAP_UNSUPPORTED,
              "%s: '%s' has no name in a GGUF file; models of the family '%s' cannot be written as one",
              m->path, owner, m->family->model_type);
    as_stored.parts[o->part].name = in_gguf;
    transformer_name(&as_stored, o->part, o->block, stored);
    *in_file = region_format(&m->region, "%s.%s", stored, o->suffix);
  }
  RETURN_IF(*variable == NULL || *in_file == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory for names",
            m->path);
  return NEAP_OK;
}

static bool is_norm(enum part part) {
  return part == PART_EMBEDDING_NORM || part == PART_ATTENTION_POST || part == PART_FEED_POST ||
         part == PART_ATTENTION_NORM || part == PART_QUERY_NORM || part == PART_KEY_NORM ||
         part == PART_FEED_NORM || part == PART_FINAL_NORM || part == PART_HEAD_NORM;
}

static bool is_in_block(const struct language_model *m, enum part part) {
  return strstr(m->transformer.parts[part].name, "%d") != NULL;
}

bool language_file_is_less(const struct language_model *m, const struct origin *o) {
  return m->family->norm_less && is_norm(o->part) && strcmp(o->suffix, "weight") == 0;
}

neap_status language_file_form(struct language_model *m, const struct origin *o, bool folder,
                               struct stored_form *form) {
  const bool weight = strcmp(o->suffix, "weight") == 0;
  const char *variable;
  *form = (struct stored_form){0};
  TRY(names_of(m, o, folder, &variable, &form->name));
  if (folder) form->less = language_file_is_less(m, o);
  if (!folder && m->family->permuted && (o->part == PART_QUERY || o->part == PART_KEY))
    form->permuted_heads = o->part == PART_QUERY ? m->transformer.heads : m->transformer.key_heads;
  form->transposed = folder && m->family->transposed && weight && o->rank == 2 && is_in_block(m, o->part) &&
                     !is_norm(o->part);
  return NEAP_OK;
}

/* Sets the shape of a new head's variable. */
static void shape_made(const struct transformer *t, struct origin *o) {
  o->made = true;
  o->packed = NULL; /* that of another head */
  o->rank = strcmp(o->suffix, "weight") == 0 ? 2 : 1;
  o->dims[0] = o->part == PART_CLASSIFIER ? t->outputs : t->width;
  o->dims[1] = t->width;
}

/* Returns true for a pooler that the file does not have, and for a classifier with another number of classes,
 * or another task. */
static bool is_new(const struct language_model *m, const struct origin *o, bool found) {
  if (o->part == PART_POOLER) return !found;
  return o->part == PART_CLASSIFIER &&
         (!found || m->head.own != NEAP_HEAD_CLASSES || m->head.labels.count != m->transformer.outputs);
}

static neap_status add_origin(struct language_model *m, enum part part, int64_t block, const char *suffix) {
  struct origin *o = &m->origins[m->origin_count];
  const bool folder = m->config != NULL;
  const char *stored;
  bool found;
  *o = (struct origin){.part = part, .block = block, .suffix = suffix};
  TRY(names_of(m, o, folder, &o->name, &stored));
  TRY(find_tensor(m, stored, o, &found));
  if (is_new(m, o, found)) {
    shape_made(&m->transformer, o);
    m->origin_count++;
    return language_file_form(m, o, folder, &o->form);
  }
  const char *missing =
      folder && language_file_experts(m, part) > 1 ? language_file_expert_name(m, o, 0) : stored;
  RETURN_IF(!found, NEAP_BAD_FORMAT, "%s: tensor '%s' is missing, which a model of the family '%s' needs",
            m->path, missing != NULL ? missing : stored, m->family->model_type);
  m->origin_count++;
  TRY(language_file_form(m, o, folder, &o->form));
  if (o->packed != NULL) o->form.transposed = false; /* linear layers are made of all that are packed */
  if (o->form.transposed) {
    const int64_t rows = o->dims[0];
    o->dims[0] = o->dims[1];
    o->dims[1] = rows;
  }
  return NEAP_OK;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct origin *)a)->name, ((const struct origin *)b)->name);
}

int32_t language_file_find(const struct language_model *m, const char *name) {
  const struct origin wanted = {.name = name},
                      *found = m->origin_count > 0 ? bsearch(&wanted, m->origins, (size_t)m->origin_count,
                                                             sizeof *m->origins, by_name)
                                                   : NULL;
  return found != NULL ? (int32_t)(found - m->origins) : -1;
}

static neap_status add_part(struct language_model *m, enum part part) {
  const struct transformer *t = &m->transformer;
  const int64_t blocks = is_in_block(m, part) ? t->layers : 1;
  const bool norm = is_norm(part);
  if (transformer_is_bare(t, part)) return add_origin(m, part, 0, "");
  for (int64_t i = 0; i < blocks; i++) {
    if (part != PART_HEAD || !t->tied) TRY(add_origin(m, part, i, "weight"));
    if (norm ? !t->rms : t->parts[part].bias) TRY(add_origin(m, part, i, "bias"));
  }
  return NEAP_OK;
}

/* Returns in `*equal` whether two tensors of a folder have the same shape and numbers. */
static neap_status compare_tensors(const struct origin *a, const struct origin *b, bool *equal) {
  enum { AT_ONCE = 1 << 14 };
  const int64_t count = a->file->file->tensors[a->file->index].elements;
  *equal = a->packed == NULL && b->packed == NULL && b->file->file->tensors[b->file->index].elements == count;
  float *numbers = *equal ? malloc(2 * AT_ONCE * sizeof *numbers) : NULL;
  RETURN_IF(*equal && numbers == NULL, NEAP_OUT_OF_MEMORY, "'%s': out of memory", a->suffix);
  neap_status status = NEAP_OK;
  for (int64_t i = 0; *equal && i < count && status == NEAP_OK; i += AT_ONCE) {
    const int64_t some = count - i < AT_ONCE ? count - i : AT_ONCE;
    status = safetensors_read_part(a->file->file, a->file->index, i, some, false, numbers);
    if (status == NEAP_OK)
      status = safetensors_read_part(b->file->file, b->file->index, i, some, false, numbers + AT_ONCE);
    *equal = status == NEAP_OK && memcmp(numbers, numbers + AT_ONCE, (size_t)some * sizeof *numbers) == 0;
  }
  free(numbers);
  return status;
}

/* The head has weights of its own if the file has them, and they are not those of the embedding: so
 * transformers reads a folder, whatever its configuration says. */
static neap_status settle_head(struct language_model *m) {
  struct transformer *t = &m->transformer;
  struct origin head = {.part = PART_HEAD, .suffix = "weight"},
                token = {.part = PART_TOKEN, .suffix = "weight"};
  const char *variable, *stored;
  bool found, there;
  if (t->parts[PART_HEAD].name == NULL) return NEAP_OK;
  TRY(names_of(m, &head, m->config != NULL, &variable, &stored));
  TRY(find_tensor(m, stored, &head, &found));
  const bool said = m->config != NULL && json_object_get(m->config, "tie_word_embeddings") != NULL;
  if (m->config == NULL || !found) {
    if (!said) t->tied = !found;
    return NEAP_OK;
  }
  if (!t->tied) return NEAP_OK;
  TRY(names_of(m, &token, true, &variable, &stored));
  TRY(find_tensor(m, stored, &token, &there));
  return there ? compare_tensors(&head, &token, &t->tied) : NEAP_OK;
}

/* Finds which linear layers have biases; a GGUF file only shows it by their tensors. */
static neap_status settle_biases(struct language_model *m) {
  const char *variable, *stored;
  for (enum part part = PART_QKV; part <= PART_DOWN; part++) {
    const struct origin bias = {.part = part, .suffix = "bias"};
    if (m->transformer.parts[part].name == NULL || is_norm(part)) continue;
    TRY(names_of(m, &bias, false, &variable, &stored));
    if (gguf_find(&m->gguf, stored) >= 0) m->transformer.parts[part].bias = true;
  }
  return NEAP_OK;
}

static neap_status find_origins(struct language_model *m) {
  const size_t most = (size_t)(m->transformer.layers + 1) * PARTS * 2;
  TRY(settle_head(m));
  if (m->config == NULL) TRY(settle_biases(m));
  m->origins = region_alloc(&m->region, most, sizeof *m->origins);
  RETURN_IF(m->origins == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory for %zu names", m->path, most);
  for (enum part part = 0; part < PARTS; part++)
    if (m->transformer.parts[part].name != NULL) TRY(add_part(m, part));
  qsort(m->origins, (size_t)m->origin_count, sizeof *m->origins, by_name);
  return NEAP_OK;
}

/* ---- Opening ---- */

/* Makes the digest of the first `end` bytes of an open file. */
static neap_status digest_of(const char *path, int descriptor, uint64_t end, char digest[65]) {
  unsigned char block[1 << 12];
  struct sha256 hash;
  sha256_start(&hash);
  for (uint64_t at = 0; at < end; at += sizeof block) {
    const size_t count = end - at < sizeof block ? (size_t)(end - at) : sizeof block;
    TRY(file_need_at(path, descriptor, at, block, count));
    sha256_feed(&hash, block, count);
  }
  sha256_finish(&hash, digest);
  return NEAP_OK;
}

/* Reads config.json from its open file. */
static neap_status read_config(struct language_model *m, const char *path, FILE *file) {
  struct file_stamp stamp;
  TRY(json_read_stream(path, file, &m->config));
  RETURN_IF(!json_is_object(m->config), NEAP_BAD_FORMAT, "%s: must be a JSON object", path);
  TRY(file_stamp_take(path, fileno(file), &stamp));
  return digest_of(path, fileno(file), stamp.bytes, m->digest);
}

static neap_status open_weights(struct language_model *m) {
  const char *pickled = region_format(&m->region, "%s/pytorch_model.bin", m->path),
             *index = region_format(&m->region, "%s/model.safetensors.index.json", m->path),
             *whole = region_format(&m->region, "%s/model.safetensors", m->path);
  RETURN_IF(pickled == NULL || index == NULL || whole == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory",
            m->path);
  RETURN_IF(file_exists(pickled) && !file_exists(index) && !file_exists(whole), NEAP_UNSUPPORTED,
            "%s: is a pickle file of Python, which is not supported; convert it: python3 -c \"from "
            "transformers import AutoModelForCausalLM as M; M.from_pretrained('%s').save_pretrained('%s')\"",
            pickled, m->path, m->path);
  return weight_files_open(m->path, NULL, &m->weights);
}

static neap_status open_folder(struct language_model *m, struct model_keys *keys) {
  const char *config = region_format(&m->region, "%s/config.json", m->path);
  RETURN_IF(config == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", m->path);
  FILE *file = file_open_stream(config);
  RETURN_IF(file == NULL, NEAP_IO_FAILED, "%s: cannot be opened: %s", config, strerror(errno));
  const neap_status status = read_config(m, config, file);
  fclose(file);
  TRY(status);
  TRY(packed_weight_check(config, json_object_get(m->config, "quantization_config")));
  keys->config = m->config;
  return open_weights(m);
}

static neap_status open_gguf(struct language_model *m, struct model_keys *keys) {
  struct file_stamp stamp;
  TRY(gguf_open(m->path, &m->gguf));
  keys->gguf = &m->gguf;
  keys->architecture = gguf_text(&m->gguf, "general.architecture");
  TRY(file_stamp_take(m->path, fileno(m->gguf.file), &stamp));
  for (int32_t i = 0; i < m->gguf.tensor_count; i++)
    if (m->gguf.tensors[i].offset < stamp.bytes) stamp.bytes = m->gguf.tensors[i].offset;
  return digest_of(m->path, fileno(m->gguf.file), stamp.bytes, m->digest);
}

/* Llama 3 in a GGUF file: reads the divisors of frequencies, which are a tensor. All published ones follow
 * from the largest and from 8192 positions, or those in the file. */
static neap_status read_rope_factors(struct language_model *m) {
  enum { MOST = 1 << 12 };
  struct transformer *t = &m->transformer;
  const int64_t head = t->head_width > 0 ? t->head_width : t->width / t->heads;
  const int32_t tensor = m->config == NULL ? gguf_find(&m->gguf, "rope_freqs.weight") : -1;
  if (tensor < 0) return NEAP_OK;
  RETURN_IF(m->gguf.tensors[tensor].elements != head / 2 || head / 2 > MOST, NEAP_BAD_FORMAT,
            "%s: tensor 'rope_freqs.weight' has %lld numbers; heads of %lld have %lld pairs", m->path,
            (long long)m->gguf.tensors[tensor].elements, (long long)head, (long long)head / 2);
  float *factors = region_alloc(&m->region, (size_t)head / 2, sizeof *factors);
  RETURN_IF(factors == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", m->path);
  TRY(gguf_read(&m->gguf, tensor, 0, 1, factors));
  t->scaling = (struct rotary_scaling){.factor = factors[head / 2 - 1], .low = 1, .high = 4, .places = 8192};
  const char *places =
      region_format(&m->region, "%s.rope.scaling.original_context_length", m->family->architecture);
  RETURN_IF(places == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", m->path);
  gguf_integer(&m->gguf, places, &t->scaling.places);
  RETURN_IF(t->scaling.places < 1, NEAP_BAD_FORMAT, "%s: '%s' is %lld; it must be 1 or more", m->path, places,
            (long long)t->scaling.places);
  RETURN_IF(!(t->scaling.factor > 0), NEAP_BAD_FORMAT, "%s: tensor 'rope_freqs.weight' ends with %g", m->path,
            (double)t->scaling.factor);
  static const struct rotary_scaling none = {0};
  for (int64_t d = 0; d < head / 2; d++) {
    const double factor = rotary_frequency(t->rotary_base, &none, NULL, head, d) /
                          rotary_frequency(t->rotary_base, &t->scaling, NULL, head, d);
    RETURN_IF(!(fabs(factor - (double)factors[d]) <= 1e-3 * factor), NEAP_UNSUPPORTED,
              "%s: tensor 'rope_freqs.weight' has %g at %lld, where Llama 3's scaling has %g", m->path,
              (double)factors[d], (long long)d, factor);
  }
  return NEAP_OK;
}

/* Reads the divisors of a GGUF tensor, one for each pair that is turned; NULL: it has no such tensor. */
static neap_status read_divisors(struct language_model *m, const char *name, int64_t pairs,
                                 const float **divisors) {
  const int32_t tensor = gguf_find(&m->gguf, name);
  *divisors = NULL;
  if (tensor < 0) return NEAP_OK;
  RETURN_IF(m->gguf.tensors[tensor].elements != pairs, NEAP_BAD_FORMAT,
            "%s: tensor '%s' has %lld numbers; there are %lld pairs to turn", m->path, name,
            (long long)m->gguf.tensors[tensor].elements, (long long)pairs);
  float *numbers = region_alloc(&m->region, (size_t)pairs, sizeof *numbers);
  RETURN_IF(numbers == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", m->path);
  TRY(gguf_read(&m->gguf, tensor, 0, 1, numbers));
  for (int64_t i = 0; i < pairs; i++)
    RETURN_IF(!(numbers[i] > 0 && isfinite(numbers[i])), NEAP_BAD_FORMAT,
              "%s: tensor '%s' has %g; its numbers must be positive", m->path, name, (double)numbers[i]);
  *divisors = numbers;
  return NEAP_OK;
}

/* LongRoPE in a GGUF file: two tensors, the length up to which the first serves, and the amplitude. */
static neap_status read_long_rope(struct language_model *m, const struct model_keys *keys) {
  struct transformer *t = &m->transformer;
  const int64_t head = t->head_width > 0 ? t->head_width : t->width / t->heads,
                pairs = (t->turned > 0 ? t->turned : head) / 2;
  double amplitude = 1;
  if (m->config != NULL) return NEAP_OK;
  TRY(read_divisors(m, "rope_factors_short.weight", pairs, &t->divisors.within));
  TRY(read_divisors(m, "rope_factors_long.weight", pairs, &t->divisors.beyond));
  if (t->divisors.within == NULL && t->divisors.beyond == NULL) return NEAP_OK;
  const char *places =
                 region_format(&m->region, "%s.rope.scaling.original_context_length", keys->architecture),
             *factor = region_format(&m->region, "%s.rope.scaling.attn_factor", keys->architecture);
  RETURN_IF(places == NULL || factor == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", m->path);
  gguf_integer(&m->gguf, places, &t->divisors.places);
  gguf_real(&m->gguf, factor, &amplitude);
  RETURN_IF(
      t->divisors.within == NULL || t->divisors.beyond == NULL || t->divisors.places < 1 ||
          !(amplitude > 0 && isfinite(amplitude)),
      NEAP_BAD_FORMAT,
      "%s: LongRoPE needs the tensors 'rope_factors_short.weight' and 'rope_factors_long.weight', and a "
      "positive '%s' and '%s' (got %lld and %g)",
      m->path, places, factor, (long long)t->divisors.places, amplitude);
  t->scaling.amplitude = (float)amplitude;
  return NEAP_OK;
}

/* Takes the vocabulary from the rows of the embedding, if the file does not have it. */
static neap_status settle_vocabulary(struct language_model *m) {
  struct origin token = {.part = PART_TOKEN, .suffix = "weight"};
  const char *variable, *stored;
  bool found;
  if (m->transformer.parts[PART_TOKEN].name == NULL) return NEAP_OK;
  TRY(names_of(m, &token, m->config != NULL, &variable, &stored));
  TRY(find_tensor(m, stored, &token, &found));
  RETURN_IF(!found || token.rank != 2, NEAP_BAD_FORMAT,
            "%s: it has no matrix '%s', which a model of the family '%s' needs as its embedding; give a "
            "complete model",
            m->path, stored, m->family->model_type);
  if (m->transformer.vocabulary == 0 || m->config == NULL) m->transformer.vocabulary = token.dims[0];
  return NEAP_OK;
}

/* Finds out whether the file has the layers between the stack and the head of tokens. */
static neap_status has_token_head(struct language_model *m, bool *has) {
  struct origin o = {.part = PART_HEAD_DENSE, .suffix = "weight"};
  const char *variable, *stored;
  *has = m->transformer.parts[PART_HEAD].name != NULL;
  if (m->transformer.parts[PART_HEAD_DENSE].name == NULL) return NEAP_OK;
  TRY(names_of(m, &o, m->config != NULL, &variable, &stored));
  return find_tensor(m, stored, &o, has);
}

/* ---- Files that are open ---- */

static int32_t file_count(const struct language_model *m) {
  return m->config != NULL ? m->weights.file_count : 1;
}

/* Gives the path and the stream of a file with weights. */
static FILE *stream_of(const struct language_model *m, int32_t file, const char **path) {
  *path = m->config != NULL ? m->weights.files[file].path : m->path;
  return m->config != NULL ? m->weights.files[file].file : m->gguf.file;
}

static neap_status take_stamps(struct language_model *m) {
  const char *path;
  m->stamps = region_alloc(&m->region, (size_t)file_count(m), sizeof *m->stamps);
  RETURN_IF(m->stamps == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", m->path);
  for (int32_t i = 0; i < file_count(m); i++) {
    const int descriptor = fileno(stream_of(m, i, &path));
    TRY(file_stamp_take(path, descriptor, &m->stamps[i]));
  }
  return NEAP_OK;
}

neap_status language_file_check(const struct language_model *m) {
  const char *path;
  for (int32_t i = 0; i < file_count(m); i++) {
    const int descriptor = fileno(stream_of(m, i, &path));
    TRY(file_stamp_check(path, descriptor, &m->stamps[i]));
  }
  return NEAP_OK;
}

static neap_status read_description(struct language_model *m) {
  struct model_keys keys = {.path = m->path, .region = &m->region, .asked = &m->asked};
  bool has;
  TRY(file_is_folder(m->path) ? open_folder(m, &keys) : open_gguf(m, &keys));
  TRY(take_stamps(m));
  TRY(family_describe(&keys, &m->family, &m->transformer, &m->context));
  TRY(read_rope_factors(m));
  TRY(read_long_rope(m, &keys));
  TRY(settle_vocabulary(m));
  TRY(has_token_head(m, &has));
  return language_head_read(&keys, m->family, has, &m->region, &m->head);
}

neap_status language_file_open(const char *path, struct language_model **opened) {
  struct language_model *m = calloc(1, sizeof *m);
  *opened = NULL;
  RETURN_IF(m == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", path);
  m->users = 1;
  m->path = region_string(&m->region, path);
  const neap_status status =
      m->path != NULL ? read_description(m) : neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", path);
  if (status == NEAP_OK)
    *opened = m;
  else
    language_file_close(m);
  return status;
}

/* Ends one use; the last one closes the file. */
void language_file_close(struct language_model *m) {
  if (m == NULL || __atomic_sub_fetch(&m->users, 1, __ATOMIC_ACQ_REL) > 0) return;
  weight_files_close(&m->weights);
  gguf_close(&m->gguf);
  json_decref(m->config);
  region_free(&m->region);
  free(m);
}

neap_status language_file_with(const struct language_model *opened, const neap_model_options *options,
                               struct language_model *m) {
  *m = *opened;
  m->region = (struct region){0};
  m->opened = (struct language_model *)opened;
  __atomic_add_fetch(&m->opened->users, 1, __ATOMIC_RELAXED);
  TRY(language_head_settle(m->path, &m->head, m->family, options, &m->transformer));
  return find_origins(m);
}

void language_file_release(struct language_model *m) {
  for (int32_t i = 0; m->direct != NULL && i < file_count(m); i++) direct_file_close(&m->direct[i]);
  direct_buffer_free(&m->buffer);
  region_free(&m->region);
  language_file_close(m->opened);
}

/* Bytes of the buffer: a disk reads 0.7 GB/s in pieces of 1 MiB, 0.85 in pieces of 4 MiB. */
enum { DIRECT_BYTES = 2 << 20 };

/* Gives the model descriptions of the folder's files of its own, which can be read directly by it alone. */
static neap_status own_files(struct language_model *m) {
  const struct weight_files shared = m->weights;
  m->weights.files = region_alloc(&m->region, (size_t)shared.file_count, sizeof *shared.files);
  m->weights.tensors = region_alloc(&m->region, (size_t)shared.tensor_count, sizeof *shared.tensors);
  RETURN_IF(m->weights.files == NULL || m->weights.tensors == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory",
            m->path);
  memcpy(m->weights.files, shared.files, (size_t)shared.file_count * sizeof *shared.files);
  memcpy(m->weights.tensors, shared.tensors, (size_t)shared.tensor_count * sizeof *shared.tensors);
  for (int32_t i = 0; i < shared.tensor_count; i++)
    m->weights.tensors[i].file = m->weights.files + (shared.tensors[i].file - shared.files);
  for (int32_t i = 0; i < m->origin_count; i++) {
    struct origin *o = &m->origins[i];
    if (o->file != NULL) o->file = m->weights.tensors + (o->file - shared.tensors);
    for (int64_t e = 0; o->experts != NULL && e < o->expert_count; e++)
      o->experts[e] = m->weights.tensors + (o->experts[e] - shared.tensors);
  }
  return NEAP_OK;
}

neap_status language_file_read_directly(struct language_model *m) {
  m->direct = region_alloc(&m->region, (size_t)file_count(m), sizeof *m->direct);
  RETURN_IF(m->direct == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", m->path);
  TRY(direct_buffer_create(DIRECT_BYTES, &m->buffer));
  if (m->config != NULL) TRY(own_files(m));
  for (int32_t i = 0; i < file_count(m); i++) {
    const char *path;
    const int descriptor = fileno(stream_of(m, i, &path));
    *(m->config != NULL ? &m->weights.files[i].direct : &m->gguf.direct) = &m->direct[i];
    TRY(direct_file_open(path, descriptor, &m->buffer, &m->direct[i]));
  }
  return NEAP_OK;
}

/* ---- How a variable lies in it ---- */

bool language_file_has_rows(const struct language_model *m, const struct origin *o) {
  if (o->made || o->packed != NULL) return false;
  if (m->config == NULL) return o->rank > 1 || o->form.permuted_heads == 0;
  for (int64_t e = 1; e < o->expert_count; e++)
    if (o->experts[e]->file->tensors[o->experts[e]->index].indices != NULL) return false;
  return o->file->file->tensors[o->file->index].indices == NULL;
}

uint64_t language_file_bytes(const struct language_model *m, const struct origin *o) {
  if (!language_file_has_rows(m, o)) return 0;
  return m->config == NULL ? m->gguf.tensors[o->tensor].bytes
                           : (uint64_t)o->expert_count * o->file->file->tensors[o->file->index].bytes;
}
