#include "language/language_export_gguf.h"
#include "base/file.h"
#include "language/family_writing.h"

#include <string.h>
#include <sys/stat.h>

#include "base/dtype.h"
#include "text/folder_vocabulary.h"

#define ROPE_FACTORS "rope_freqs.weight"

struct gguf_export {
  struct language_exporting base;
  struct gguf_pairs pairs;
  struct gguf_tensor *tensors;
  int32_t tensor_count; /* the origins', and the divisors of frequencies where there are some */
};

static neap_status add(struct gguf_export *x, struct gguf_pair pair) {
  return vector_push(&x->pairs.list, pair);
}

/* ---- Pairs ---- */

/* Returns ggml's number for a file whose matrices mostly have this type. */
static uint32_t file_type(neap_dtype dtype) {
  return dtype == NEAP_F16 ? 1 : dtype == NEAP_Q8_0 ? 7 : dtype == NEAP_BF16 ? 32 : 0;
}

static bool begins_with(const char *text, const char *begin) {
  return strncmp(text, begin, strlen(begin)) == 0;
}

/* Copies the pairs of the base, except those about the storage of its weights. */
static neap_status copy_pairs(struct gguf_export *x) {
  const struct gguf *g = &x->base.model.gguf;
  for (int32_t i = 0; i < g->pair_count; i++) {
    const char *key = g->pairs[i].key;
    if (strcmp(key, "general.file_type") == 0 || strcmp(key, "general.quantization_version") == 0 ||
        begins_with(key, "split.") || begins_with(key, "quantize."))
      continue;
    struct gguf_pair pair = g->pairs[i];
    TRY(gguf_read_strings(g, key, &x->base.model.region, &pair.strings));
    TRY(add(x, pair));
  }
  return NEAP_OK;
}

#define TOKENIZER(key) "tokenizer.ggml." key

static neap_status add_id(struct gguf_export *x, const char *key, int32_t id) {
  return id >= 0 ? add(x, gguf_pair_u32(key, (uint32_t)id)) : NEAP_OK;
}

static neap_status add_flag(struct gguf_export *x, const char *key, int flag) {
  return flag >= 0 ? add(x, gguf_pair_bool(key, flag)) : NEAP_OK;
}

static neap_status add_ids(struct gguf_export *x, const struct token_vocabulary *v) {
  TRY(add_id(x, TOKENIZER("bos_token_id"), v->bos));
  TRY(add_id(x, TOKENIZER("eos_token_id"), v->eos));
  TRY(add_id(x, TOKENIZER("unknown_token_id"), v->unknown));
  TRY(add_id(x, TOKENIZER("padding_token_id"), v->padding));
  TRY(add_flag(x, TOKENIZER("add_bos_token"), v->add_bos));
  TRY(add_flag(x, TOKENIZER("add_eos_token"), v->add_eos));
  TRY(add_flag(x, TOKENIZER("remove_extra_whitespaces"), v->remove_spaces));
  if (v->map != NULL)
    TRY(add(x, gguf_pair_array(TOKENIZER("precompiled_charsmap"), GGUF_U8, (int64_t)v->map_bytes, v->map)));
  return add_flag(x, TOKENIZER("add_space_prefix"), v->add_space_prefix);
}

static size_t *lengths_of(struct region *region, const char *const *texts, int32_t count) {
  size_t *lengths = region_alloc(region, (size_t)count, sizeof *lengths);
  for (int32_t i = 0; lengths != NULL && i < count; i++) lengths[i] = strlen(texts[i]);
  return lengths;
}

static neap_status add_vocabulary(struct gguf_export *x, const struct token_vocabulary *v) {
  if (v->tokens == NULL) return add(x, gguf_pair_text(TOKENIZER("model"), "none"));
  const size_t *lengths = lengths_of(&x->base.model.region, v->merges, v->merge_count);
  RETURN_IF(lengths == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", x->base.model.path);
  TRY(add(x, gguf_pair_text(TOKENIZER("model"), v->model)));
  TRY(add(x, gguf_pair_text(TOKENIZER("pre"), v->pre)));
  TRY(add(x, gguf_pair_strings(TOKENIZER("tokens"), (struct gguf_strings){v->count, v->tokens, v->lengths})));
  if (v->scores != NULL) TRY(add(x, gguf_pair_array(TOKENIZER("scores"), GGUF_F32, v->count, v->scores)));
  TRY(add(x, gguf_pair_array(TOKENIZER("token_type"), GGUF_I32, v->count, v->types)));
  if (v->merges == NULL) return add_ids(x, v);
  TRY(add(x,
          gguf_pair_strings(TOKENIZER("merges"), (struct gguf_strings){v->merge_count, v->merges, lengths})));
  return add_ids(x, v);
}

/* Returns the name of the folder, without slashes at its end. */
static const char *name_of(struct gguf_export *x) {
  const char *path = x->base.model.path;
  size_t end = strlen(path), begin;
  while (end > 0 && path[end - 1] == '/') end--;
  for (begin = end; begin > 0 && path[begin - 1] != '/'; begin--) continue;
  return region_format(&x->base.model.region, "%.*s", (int)(end - begin), path + begin);
}

static neap_status describe(struct gguf_export *x) {
  struct language_model *m = &x->base.model;
  struct token_vocabulary v;
  const char *file, *chat, *name = name_of(x);
  RETURN_IF(name == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", m->path);
  TRY(folder_vocabulary_read(m->path, m->config, m->transformer.vocabulary, &m->region, &v));
  TRY(language_folder_template(m->path, &m->region, &file, &chat));
  TRY(add(x, gguf_pair_text("general.architecture", m->family->architecture)));
  TRY(add(x, gguf_pair_text("general.type", "model")));
  TRY(add(x, gguf_pair_text("general.name", name)));
  TRY(family_pairs(m->family->architecture, &m->transformer, m->context, &m->region, &x->pairs));
  TRY(add_vocabulary(x, &v));
  return chat != NULL ? add(x, gguf_pair_text("tokenizer.chat_template", chat)) : NEAP_OK;
}

static neap_status make_pairs(struct gguf_export *x) {
  TRY(x->base.model.config == NULL ? copy_pairs(x) : describe(x));
  TRY(add(x, gguf_pair_u32("general.file_type", file_type(x->base.from->dtype))));
  return add(x, gguf_pair_u32("general.quantization_version", 2));
}

/* ---- Tensors ---- */

static int64_t turned_pairs(const struct transformer *t) {
  return (t->turned > 0 ? t->turned : t->head_width > 0 ? t->head_width : t->width / t->heads) / 2;
}

/* Returns the type of a tensor, as in llama.cpp: matrices small, other tensors and tables of positions in
 * full. */
static neap_dtype type_of(const struct language_export *from, const struct origin *o) {
  if (o->rank < 2 || o->part == PART_POSITION || o->part == PART_SEGMENT) return NEAP_F32;
  return o->dims[1] % dtype_rows[from->dtype].block_elements == 0 ? from->dtype : NEAP_F16;
}

/* Adds a tensor with a number for each pair that is turned. */
static void add_factors(struct gguf_export *x, const char *name) {
  const int64_t pairs = turned_pairs(&x->base.model.transformer);
  x->tensors[x->tensor_count++] =
      (struct gguf_tensor){.name = name, .dtype = NEAP_F32, .rank = 1, .dims = {pairs}, .elements = pairs};
}

static neap_status list_tensors(struct gguf_export *x) {
  struct language_model *m = &x->base.model;
  const struct rotary_scaling *scaling = &m->transformer.scaling;
  const struct long_rope *divisors = &m->transformer.divisors;
  x->tensors = region_alloc(&m->region, (size_t)m->origin_count + 2, sizeof *x->tensors);
  RETURN_IF(x->tensors == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", m->path);
  for (int32_t i = 0; i < m->origin_count; i++) {
    const struct origin *o = &m->origins[i];
    struct gguf_tensor *t = &x->tensors[i];
    *t = (struct gguf_tensor){.name = x->base.forms[i].name,
                              .dtype = type_of(x->base.from, o),
                              .rank = o->rank,
                              .elements = origin_elements(o)};
    memcpy(t->dims, o->dims, sizeof t->dims);
    const int64_t experts = language_file_experts(m, o->part);
    if (experts > 1) {
      t->rank = 3;
      t->dims[0] = experts;
      t->dims[1] = o->dims[0] / experts;
      t->dims[2] = o->dims[1];
    }
  }
  x->tensor_count = m->origin_count;
  if (scaling->factor > 0 && scaling->places > 0) add_factors(x, ROPE_FACTORS);
  if (divisors->within != NULL) {
    add_factors(x, "rope_factors_long.weight");
    add_factors(x, "rope_factors_short.weight");
  }
  return NEAP_OK;
}

/* Llama 3: reads the divisors of frequencies; from a GGUF file unchanged. */
static neap_status read_factors(const struct language_model *m, float *data) {
  static const struct rotary_scaling none = {0};
  const struct transformer *t = &m->transformer;
  const int64_t half = turned_pairs(t);
  const int32_t own = m->config == NULL ? gguf_find(&m->gguf, ROPE_FACTORS) : -1;
  if (own >= 0) return gguf_read(&m->gguf, own, 0, 1, data);
  for (int64_t d = 0; d < half; d++)
    data[d] = (float)(rotary_frequency(t->rotary_base, &none, NULL, 2 * half, d) /
                      rotary_frequency(t->rotary_base, &t->scaling, NULL, 2 * half, d));
  return NEAP_OK;
}

static neap_status read_tensor(void *context, int32_t index, float *data) {
  struct gguf_export *x = context;
  const struct transformer *t = &x->base.model.transformer;
  const int32_t factors = index - x->base.model.origin_count;
  if (factors < 0) return language_exporting_read(&x->base, index, data);
  if (t->divisors.within == NULL) return read_factors(&x->base.model, data);
  memcpy(data, factors == 0 ? t->divisors.beyond : t->divisors.within,
         (size_t)turned_pairs(t) * sizeof *data);
  return NEAP_OK;
}

/* ---- The file ---- */

static neap_status check(const struct gguf_export *x, const char *path) {
  const struct language_model *m = &x->base.model;
  bool same;
  const int64_t still = m->family->layers.still_every;
  RETURN_IF(
      m->transformer.still_every != (still <= m->transformer.layers ? still : 0), NEAP_UNSUPPORTED,
      "%s: has other layers without rotary positions than each %lldth one, and a GGUF file cannot store "
      "that; write the model as a folder",
      m->path, (long long)still);
  RETURN_IF(m->transformer.experts_normalised != m->family->layers.experts_normalised, NEAP_UNSUPPORTED,
            "%s: 'norm_topk_prob' is %s; a GGUF file of this family means %s; write the model as a folder",
            m->path, m->transformer.experts_normalised ? "true" : "false",
            m->family->layers.experts_normalised ? "true" : "false");
  RETURN_IF(m->transformer.activation != m->family->layers.activation, NEAP_UNSUPPORTED,
            "%s: has another activation than the family '%s', and a GGUF file cannot store it; write the "
            "model as a folder",
            m->path, m->family->model_type);
  TRY(file_is_same(m->path, path, &same));
  RETURN_IF(same, NEAP_INVALID_ARGUMENT, "%s: is the file of the model itself; name another one", path);
  return NEAP_OK;
}

static neap_status write_file(struct gguf_export *x, const char *path) {
  TRY(language_exporting_open(&x->base, false));
  TRY(check(x, path));
  TRY(list_tensors(x));
  TRY(make_pairs(x));
  return gguf_save(path, &(struct gguf_content){.tensors = x->tensors,
                                                .tensor_count = x->tensor_count,
                                                .pairs = x->pairs.list.data,
                                                .pair_count = (int32_t)x->pairs.list.count,
                                                .read = read_tensor,
                                                .context = x});
}

neap_status language_export_gguf(const struct language_export *from, const char *path, int64_t *tensors) {
  struct gguf_export x = {.base = {.from = from}};
  const neap_status status = write_file(&x, path);
  *tensors = x.tensor_count;
  vector_free(&x.pairs.list);
  language_exporting_close(&x.base);
  return status;
}
