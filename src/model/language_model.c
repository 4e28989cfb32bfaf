#include "model/language_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/sha256.h"
#include "model/language_file.h"
#include "run/variables.h"
#include "text/text_file.h"
#include "text/tokenizer_import.h"

/* ---- The contents of the file ---- */

bool language_model_is_folder(const char *path) {
  char config[4096];
  struct stat status;
  const int length = snprintf(config, sizeof config, "%s/config.json", path);
  return length > 0 && (size_t)length < sizeof config && file_is_folder(path) && stat(config, &status) == 0;
}

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

/* Whether the family's folders have a weight less 1, as the scale of a norm in Gemma. */
static bool is_less(const struct language_model *m, const struct origin *o) {
  return m->family->norm_less && is_norm(o->part) && strcmp(o->suffix, "weight") == 0;
}

neap_status language_file_form(struct language_model *m, const struct origin *o, bool folder,
                               struct stored_form *form) {
  const bool weight = strcmp(o->suffix, "weight") == 0;
  const char *variable;
  *form = (struct stored_form){0};
  TRY(names_of(m, o, folder, &variable, &form->name));
  if (folder) form->less = is_less(m, o);
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

static neap_status open_folder(struct language_model *m, struct model_keys *keys) {
  json_error_t error;
  const char *config = region_format(&m->region, "%s/config.json", m->path);
  RETURN_IF(config == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", m->path);
  m->config = json_load_file(config, JSON_REJECT_DUPLICATES, &error);
  RETURN_IF(m->config == NULL, error.line < 0 ? NEAP_IO_FAILED : NEAP_BAD_FORMAT,
            "%s: line %d: is not valid JSON: %s", config, error.line, error.text);
  RETURN_IF(!json_is_object(m->config), NEAP_BAD_FORMAT, "%s: must be a JSON object", config);
  TRY(packed_weight_check(config, json_object_get(m->config, "quantization_config")));
  keys->config = m->config;
  const char *pickled = region_format(&m->region, "%s/pytorch_model.bin", m->path),
             *index = region_format(&m->region, "%s/model.safetensors.index.json", m->path),
             *whole = region_format(&m->region, "%s/model.safetensors", m->path);
  RETURN_IF(pickled == NULL || index == NULL || whole == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory",
            m->path);
  RETURN_IF(access(pickled, F_OK) == 0 && access(index, F_OK) != 0 && access(whole, F_OK) != 0,
            NEAP_UNSUPPORTED,
            "%s: is a pickle file of Python, which is not supported; convert it: python3 -c \"from "
            "transformers import AutoModelForCausalLM as M; M.from_pretrained('%s').save_pretrained('%s')\"",
            pickled, m->path, m->path);
  return weight_files_open(m->path, NULL, &m->weights);
}

neap_status language_file_open_gguf(struct language_model *m, struct model_keys *keys, bool vocabulary) {
  TRY(vocabulary ? gguf_open(m->path, &m->gguf) : gguf_open_for_tensors(m->path, &m->gguf));
  keys->gguf = &m->gguf;
  keys->architecture = gguf_text(&m->gguf, "general.architecture");
  return NEAP_OK;
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

static neap_status settle_stack_head(struct language_model *m, const struct model_keys *keys,
                                     const neap_model_options *options) {
  bool has;
  TRY(has_token_head(m, &has));
  TRY(language_head_read(keys, m->family, has, &m->region, &m->head));
  return language_head_settle(m->path, &m->head, m->family, options, &m->transformer);
}

neap_status language_file_open(struct language_model *m, const char *path, bool vocabulary) {
  return language_file_open_as(m, path, vocabulary, &(neap_model_options){0});
}

neap_status language_file_open_as(struct language_model *m, const char *path, bool vocabulary,
                                  const neap_model_options *options) {
  *m = (struct language_model){.path = path};
  struct model_keys keys = {.path = path, .region = &m->region, .asked = &m->asked};
  TRY(file_is_folder(path) ? open_folder(m, &keys) : language_file_open_gguf(m, &keys, vocabulary));
  TRY(family_describe(&keys, &m->family, &m->transformer, &m->context));
  TRY(read_rope_factors(m));
  TRY(read_long_rope(m, &keys));
  TRY(settle_vocabulary(m));
  TRY(settle_stack_head(m, &keys, options));
  return find_origins(m);
}

neap_status language_model_understood(const char *path, struct region *region,
                                      struct understood *understood) {
  struct language_model m;
  neap_status status = language_file_open(&m, path, false);
  const struct model_keys keys = {.path = path,
                                  .config = m.config,
                                  .gguf = &m.gguf,
                                  .architecture = gguf_text(&m.gguf, "general.architecture"),
                                  .asked = &m.asked};
  if (status == NEAP_OK) status = keys_tell_unused(&keys, region, understood);
  if (status == NEAP_OK)
    status = packed_weight_tell(json_object_get(m.config, "quantization_config"), region, understood);
  language_file_close(&m);
  return status;
}

/* Bytes of the buffer: a disk reads 0.7 GB/s in pieces of 1 MiB, 0.85 in pieces of 4 MiB. */
enum { DIRECT_BYTES = 2 << 20 };

neap_status language_file_read_directly(struct language_model *m) {
  const int32_t files = m->config != NULL ? m->weights.file_count : 1;
  m->direct = region_alloc(&m->region, (size_t)files, sizeof *m->direct);
  RETURN_IF(m->direct == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", m->path);
  TRY(direct_buffer_create(DIRECT_BYTES, &m->buffer));
  if (m->config == NULL) {
    m->gguf.direct = &m->direct[0];
    return direct_file_open(m->gguf.path, fileno(m->gguf.file), &m->buffer, &m->direct[0]);
  }
  for (int32_t i = 0; i < files; i++) {
    struct safetensors *file = &m->weights.files[i];
    file->direct = &m->direct[i];
    TRY(direct_file_open(file->path, fileno(file->file), &m->buffer, &m->direct[i]));
  }
  return NEAP_OK;
}

void language_file_close(struct language_model *m) {
  for (int32_t i = 0; m->direct != NULL && i < (m->config != NULL ? m->weights.file_count : 1); i++)
    direct_file_close(&m->direct[i]);
  direct_buffer_free(&m->buffer);
  weight_files_close(&m->weights);
  gguf_close(&m->gguf);
  json_decref(m->config);
  region_free(&m->region);
}

/* ---- The graph ---- */

enum { USUAL_LENGTH = 1024, USUAL_BATCH = 4 };

static int64_t usual_length(const struct language_model *m) {
  const int64_t own = m->head.longest > 0 && m->head.longest < m->context ? m->head.longest : m->context;
  return own < USUAL_LENGTH ? own : USUAL_LENGTH;
}

/* Fails if images have another size than the model's, which has an embedding for each of their positions, or
 * if options of sequences are given. */
static neap_status check_image(const struct language_model *m, const neap_model_options *o) {
  const int64_t *own = m->transformer.image;
  RETURN_IF(o->length > 0 || o->decode > 0 || o->window > 0, NEAP_INVALID_ARGUMENT,
            "%s: is a model of images: length, window and decode do not apply", m->path);
  for (int i = 0; i < 3; i++)
    RETURN_IF(o->image[i] > 0 && o->image[i] != own[i], NEAP_INVALID_ARGUMENT,
              "%s: needs images of %lldx%lldx%lld (got %lldx%lldx%lld); set that size (--image)", m->path,
              (long long)own[0], (long long)own[1], (long long)own[2], (long long)o->image[0],
              (long long)o->image[1], (long long)o->image[2]);
  return NEAP_OK;
}

static neap_status check_kind(const struct language_model *m, const neap_model_options *o) {
  const bool texts = m->transformer.head != STACK_TOKENS;
  if (m->family->kind == TASK_IMAGES) return check_image(m, o);
  RETURN_IF(!texts && o->classes > m->transformer.vocabulary, NEAP_INVALID_ARGUMENT,
            "%s: has a vocabulary of %lld tokens, but the data have %lld; use the model's own tokenizer",
            m->path, (long long)m->transformer.vocabulary, (long long)o->classes);
  RETURN_IF((!texts && o->regression) || o->image[0] > 0, NEAP_INVALID_ARGUMENT,
            "%s: is a language model: it predicts tokens, not values, and takes no images", m->path);
  RETURN_IF(o->decode > 0 && (texts || m->family->kind != TASK_TOKENS || o->window > 0),
            NEAP_INVALID_ARGUMENT, "%s: %s", m->path,
            o->window > 0 ? "a graph that decodes cannot have another window"
                          : "does not predict the next token, so it cannot decode");
  return NEAP_OK;
}

static neap_status check_options(const struct language_model *m, const neap_model_options *o) {
  RETURN_IF(o->batch < 0 || o->classes < 0 || o->length < 0 || o->decode < 0 || o->window < 0 || o->side < 0,
            NEAP_INVALID_ARGUMENT, "%s: batch, classes, length, window, decode and side must not be negative",
            m->path);
  TRY(check_kind(m, o));
  RETURN_IF(!(o->dropout >= 0 && o->dropout < 1), NEAP_INVALID_ARGUMENT,
            "%s: dropout must be in [0, 1) (got %g)", m->path, (double)o->dropout);
  const struct transformer *t = &m->transformer;
  RETURN_IF(
      o->packed && (o->decode > 0 || !t->causal || t->head != STACK_TOKENS), NEAP_INVALID_ARGUMENT,
      "%s: cannot pack several sequences into a row: only training of models that predict the next token can",
      m->path);
  RETURN_IF(!(o->beta >= 0 && isfinite(o->beta)), NEAP_INVALID_ARGUMENT, "%s: beta must be positive (got %g)",
            m->path, (double)o->beta);
  RETURN_IF(o->beta > 0 && (o->decode > 0 || o->packed || o->smoothing > 0 || !t->causal ||
                            t->head != STACK_TOKENS || t->logit_cap > 0),
            NEAP_UNSUPPORTED,
            "%s: cannot learn from preferences: only models that predict the next token can, whose logits "
            "have no cap, without label smoothing and with a sequence in each row",
            m->path);
  const int64_t window = t->window;
  RETURN_IF(o->decode > 0 && window > 0 && o->decode >= window, NEAP_UNSUPPORTED,
            "%s: attention has a window of %lld tokens, and prompt and answer must not exceed it together "
            "(got %lld); ask for fewer tokens",
            m->path, (long long)window, (long long)o->decode + 1);
  const int64_t length = o->decode > 0 ? o->decode : o->length;
  RETURN_IF(m->transformer.places > 0 && length > m->transformer.places, NEAP_INVALID_ARGUMENT,
            "%s: has positions for %lld tokens (got a length of %lld)", m->path,
            (long long)m->transformer.places, (long long)length);
  return NEAP_OK;
}

int32_t language_file_find(const struct language_model *m, const char *name) {
  const struct origin wanted = {.name = name},
                      *found = m->origin_count > 0 ? bsearch(&wanted, m->origins, (size_t)m->origin_count,
                                                             sizeof *m->origins, by_name)
                                                   : NULL;
  return found != NULL ? (int32_t)(found - m->origins) : -1;
}

/* Checks that every parameter of the graph has a tensor of its shape in the file, and gives it the tensor's
 * type. */
static neap_status take_shapes(const struct language_model *m, neap_graph *graph) {
  for (size_t i = 0; i < graph->tensors.count; i++) {
    struct tensor *t = &graph->tensors.data[i];
    if (t->role != NEAP_ROLE_PARAMETER || t->view_of >= 0 || t->adapter) continue;
    const int32_t index = language_file_find(m, t->name);
    RETURN_IF(index < 0, NEAP_UNSUPPORTED, "%s: the location of the weight '%s' is unknown", m->path,
              t->name);
    const struct origin *o = &m->origins[index];
    bool same = t->rank == o->rank;
    for (int d = 0; same && d < o->rank; d++) same = t->dims[d] == o->dims[d];
    RETURN_IF(!same, NEAP_BAD_FORMAT,
              "%s: the weight '%s' has shape %s in the file, but %s by its description", m->path, o->name,
              dims_text(o->rank, o->dims).text, shape_text(t).text);
    t->kept = o->made || o->part == PART_CLASSIFIER;
    if (t->kept) t->frozen = false;
    t->origin = is_less(m, o);
    if (m->config == NULL && o->rank == 2) t->file_dtype = m->gguf.tensors[o->tensor].dtype;
    if (o->packed != NULL && packed_weight_has_blocks(o->packed)) t->file_dtype = o->packed->dtype;
    t->file_bytes = language_file_bytes(m, o);
  }
  return NEAP_OK;
}

static neap_status build_graph(const struct language_model *m, const neap_model_options *o,
                               neap_graph **graph) {
  const struct blueprint p = {.batch = o->batch > 0 ? o->batch : USUAL_BATCH,
                              .classes = m->transformer.vocabulary,
                              .length = o->length > 0 ? o->length : usual_length(m),
                              .places = m->transformer.places,
                              .decode = o->decode,
                              .window = o->window,
                              .attention = o->attention,
                              .packed = o->packed,
                              .beta = o->beta,
                              .smoothing = o->smoothing,
                              .dropout = o->dropout,
                              .side = o->side};
  TRY(check_options(m, o));
  neap_builder *b = neap_builder_create(m->family->model_type);
  neap_status status = neap_builder_finish(b, transformer_build(b, &m->transformer, &p), graph);
  if (status == NEAP_INVALID_ARGUMENT) {
    const char *message = region_string((struct region *)&m->region, neap_error_message());
    status = neap_fail(status, "%s: %s", m->path, message != NULL ? message : "");
  }
  neap_builder_free(b);
  TRY(status);
  status = take_shapes(m, *graph);
  if (status != NEAP_OK) {
    neap_graph_free(*graph);
    *graph = NULL;
  }
  return status;
}

neap_status language_model_build(const char *path, bool masked, const neap_model_options *options,
                                 neap_graph **graph) {
  struct language_model m;
  (void)masked;
  neap_status status = language_file_open_as(&m, path, false, options);
  if (status == NEAP_OK) status = build_graph(&m, options, graph);
  language_file_close(&m);
  return status;
}

neap_status language_model_usual(const char *path, bool masked, neap_model_options *usual,
                                 enum task_kind *kind) {
  struct language_model m;
  (void)masked;
  const neap_status status = language_file_open(&m, path, false);
  if (status == NEAP_OK) {
    const bool texts = m.transformer.head != STACK_TOKENS;
    *usual = (neap_model_options){.batch = USUAL_BATCH,
                                  .classes = texts ? m.transformer.outputs : m.transformer.vocabulary,
                                  .length = usual_length(&m),
                                  .regression = m.transformer.values,
                                  .head = m.head.own};
    *kind = texts && m.family->kind != TASK_IMAGES ? TASK_TEXTS : m.family->kind;
    if (*kind == TASK_IMAGES) {
      usual->length = 0;
      memcpy(usual->image, m.transformer.image, sizeof usual->image);
    }
  }
  language_file_close(&m);
  return status;
}

neap_status language_model_places(const char *path, int64_t length, int64_t *places) {
  struct language_model m;
  (void)length;
  const neap_status status = language_file_open(&m, path, false);
  const int64_t window = m.transformer.window;
  if (status == NEAP_OK) *places = window > 0 && window < m.context ? window : m.context;
  language_file_close(&m);
  return status;
}

/* ---- The head of classes ---- */

neap_status language_model_labels(const char *path, struct region *region, struct task_labels *labels) {
  struct language_model m;
  *labels = (struct task_labels){0};
  neap_status status = language_file_open(&m, path, false);
  const struct task_labels *own = &m.head.labels;
  const char **names = status == NEAP_OK ? region_alloc(region, (size_t)own->count, sizeof *names) : NULL;
  bool whole = names != NULL;
  for (int64_t i = 0; whole && i < own->count; i++)
    whole = (names[i] = region_string(region, own->names[i])) != NULL;
  if (status == NEAP_OK && !whole) status = neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", path);
  if (status == NEAP_OK) *labels = (struct task_labels){own->count, names, own->values};
  language_file_close(&m);
  return status;
}

neap_status language_model_pixels(const char *path, struct task_pixels *pixels) {
  struct language_model m;
  *pixels = (struct task_pixels){0};
  neap_status status = language_file_open(&m, path, false);
  if (status == NEAP_OK && m.family->kind == TASK_IMAGES)
    status =
        language_head_pixels(&(struct model_keys){.path = path}, m.transformer.image[0], &m.region, pixels);
  language_file_close(&m);
  return status;
}

neap_status language_model_new_layers(const char *path, const neap_model_options *options,
                                      struct region *region, const char **layers) {
  struct language_model m;
  *layers = NULL;
  neap_status status = language_file_open_as(&m, path, false, options);
  for (int32_t i = 0; status == NEAP_OK && i < m.origin_count; i++) {
    const struct origin *o = &m.origins[i];
    if (!o->made || strcmp(o->suffix, "weight") != 0) continue;
    *layers = region_format(region, "%s%s%s", *layers != NULL ? *layers : "", *layers != NULL ? ", " : "",
                            m.transformer.parts[o->part].name);
    if (*layers == NULL) status = neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", path);
  }
  language_file_close(&m);
  return status;
}

/* ---- The file itself ---- */

neap_status language_model_digest(const char *path, char digest[65]) {
  unsigned char block[1 << 12];
  struct language_model m = {.path = path};
  struct model_keys keys = {.path = path};
  struct sha256 hash;
  int descriptor;
  uint64_t end;
  const bool folder = file_is_folder(path);
  const char *file = folder ? region_format(&m.region, "%s/config.json", path) : path;
  neap_status status = file == NULL ? neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", path)
                       : folder     ? NEAP_OK
                                    : language_file_open_gguf(&m, &keys, false);
  if (status == NEAP_OK) status = file_open(file, &descriptor, &end);
  if (status == NEAP_OK) {
    for (int32_t i = 0; i < m.gguf.tensor_count; i++)
      if (m.gguf.tensors[i].offset < end) end = m.gguf.tensors[i].offset;
    sha256_start(&hash);
    for (uint64_t at = 0; status == NEAP_OK && at < end; at += sizeof block) {
      const size_t count = end - at < sizeof block ? (size_t)(end - at) : sizeof block;
      status = file_need_at(file, descriptor, at, block, count);
      if (status == NEAP_OK) sha256_feed(&hash, block, count);
    }
    sha256_finish(&hash, digest);
    close(descriptor);
  }
  language_file_close(&m);
  return status;
}
