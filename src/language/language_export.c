#include "language/language_export.h"
#include "language/family_writing.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "formats/json.h"

/* A tensor of the folder: a variable, or one of its experts. */
struct written {
  int32_t origin;
  int64_t expert; /* -1: all of it */
};

struct writing {
  struct language_exporting *x;
  struct safetensors_tensor *tensors;
  struct written *written; /* of each */
  int32_t count;
};

static neap_status read_written(void *context, int32_t index, float *data) {
  const struct writing *w = context;
  const struct written *t = &w->written[index];
  return t->expert < 0 ? language_exporting_read(w->x, t->origin, data)
                       : language_exporting_read_expert(w->x, t->origin, t->expert, data);
}

static neap_status add_tensor(struct writing *w, int32_t origin, int64_t expert, int64_t experts) {
  struct language_exporting *x = w->x;
  const struct origin *o = &x->model.origins[origin];
  struct safetensors_tensor *t = &w->tensors[w->count];
  const char *name = expert < 0 ? x->forms[origin].name : language_file_expert_name(&x->model, o, expert);
  RETURN_IF(name == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory for names", x->model.path);
  *t = (struct safetensors_tensor){.name = name,
                                   .dtype = x->from->dtype == NEAP_F16    ? "F16"
                                            : x->from->dtype == NEAP_BF16 ? "BF16"
                                                                          : "F32",
                                   .rank = o->rank,
                                   .elements = origin_elements(o) / experts};
  memcpy(t->dims, o->dims, sizeof t->dims);
  t->dims[0] /= experts;
  if (x->forms[origin].transposed) t->dims[0] = o->dims[1], t->dims[1] = o->dims[0];
  w->written[w->count++] = (struct written){origin, expert};
  return NEAP_OK;
}

static neap_status write_weights(struct language_exporting *x, const char *path, int64_t *tensors) {
  static const struct safetensors_text metadata[] = {{"format", "pt"}};
  struct language_model *m = &x->model;
  size_t most = 0;
  for (int32_t i = 0; i < m->origin_count; i++) most += (size_t)language_file_experts(m, m->origins[i].part);
  struct writing w = {.x = x,
                      .tensors = region_alloc(&m->region, most, sizeof *w.tensors),
                      .written = region_alloc(&m->region, most, sizeof *w.written)};
  RETURN_IF(w.tensors == NULL || w.written == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", path);
  for (int32_t i = 0; i < m->origin_count; i++) {
    const int64_t experts = language_file_experts(m, m->origins[i].part);
    if (experts == 1) TRY(add_tensor(&w, i, -1, 1));
    for (int64_t e = 0; experts > 1 && e < experts; e++) TRY(add_tensor(&w, i, e, experts));
  }
  *tensors = w.count;
  return safetensors_save(path, &(struct safetensors_content){.tensors = w.tensors,
                                                              .tensor_count = w.count,
                                                              .metadata = metadata,
                                                              .metadata_count = 1,
                                                              .read = read_written,
                                                              .context = &w});
}

static bool copy_bytes(FILE *file, const void *context) {
  char bytes[1 << 12];
  FILE *source = (FILE *)context;
  size_t count;
  while ((count = fread(bytes, 1, sizeof bytes, source)) > 0)
    if (fwrite(bytes, 1, count, file) != count) return false;
  return !ferror(source);
}

/* Copies a file of the base, if it exists. */
static neap_status copy_file(struct language_exporting *x, const char *folder, const char *name) {
  struct region *region = &x->model.region;
  const char *from = region_format(region, "%s/%s", x->model.path, name),
             *to = region_format(region, "%s/%s", folder, name);
  RETURN_IF(from == NULL || to == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", folder);
  FILE *source = fopen(from, "rbe");
  RETURN_IF(source == NULL && errno != ENOENT, NEAP_IO_FAILED, "%s: cannot be read: %s", from,
            strerror(errno));
  if (source == NULL) return NEAP_OK;
  const neap_status status = file_write(to, copy_bytes, source);
  fclose(source);
  return status;
}

static neap_status write_json(struct language_exporting *x, json_t *value, const char *folder,
                              const char *name) {
  const char *path = region_format(&x->model.region, "%s/%s", folder, name);
  RETURN_IF(path == NULL || value == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory for %s", folder, name);
  return json_write(value, path);
}

static const char *torch_type(neap_dtype dtype) {
  return dtype == NEAP_F16 ? "float16" : dtype == NEAP_BF16 ? "bfloat16" : "float32";
}

/* Returns the base's own config with the new type of the weights. */
static json_t *copied_config(const struct language_exporting *x) {
  json_t *config = json_deep_copy(x->model.config);
  if (config != NULL) json_object_del(config, "quantization_config"); /* weights are written as numbers */
  const char *key = json_object_get(config, "dtype") != NULL ? "dtype" : "torch_dtype";
  const struct task_labels *labels = &x->from->labels;
  const bool described =
      config != NULL && (labels->count == 0 || language_head_describe(config, x->model.family, labels));
  if (described && json_object_set_new(config, key, json_string(torch_type(x->from->dtype))) == 0)
    return config;
  json_decref(config);
  return NULL;
}

static json_t *described_config(const struct language_exporting *x, const struct token_vocabulary *v) {
  const struct language_model *m = &x->model;
  json_t *config = family_config(m->family, &m->transformer, m->context, torch_type(x->from->dtype));
  bool good = config != NULL;
  if (good && v->tokens != NULL && v->bos >= 0)
    good = json_object_set_new(config, "bos_token_id", json_integer(v->bos)) == 0;
  if (good && v->tokens != NULL && v->eos >= 0)
    good = json_object_set_new(config, "eos_token_id", json_integer(v->eos)) == 0;
  if (good) /* else it would be the family's usual one, which the vocabulary may not have */
    good = json_object_set_new(config, "pad_token_id",
                               v->tokens != NULL && v->padding >= 0 ? json_integer(v->padding)
                                                                    : json_null()) == 0;
  if (good) return config;
  json_decref(config);
  return NULL;
}

/* Returns the tokens and the chat template of a GGUF file as tokenizer_config.json has them. */
static json_t *tokenizer_config(const struct language_exporting *x, const struct token_vocabulary *v) {
  const struct {
    const char *key;
    int32_t id;
  } rows[] = {
      {"bos_token", v->bos}, {"eos_token", v->eos}, {"unk_token", v->unknown}, {"pad_token", v->padding}};
  const char *chat = gguf_text(&x->model.gguf, "tokenizer.chat_template");
  json_t *config =
      json_pack("{s:s, s:I, s:b, s:s*}", "tokenizer_class", "PreTrainedTokenizerFast", "model_max_length",
                (json_int_t)x->model.context, "clean_up_tokenization_spaces", 0, "chat_template", chat);
  bool good = config != NULL;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (good && rows[i].id >= 0 && rows[i].id < v->count)
      good = json_object_set_new(config, rows[i].key,
                                 json_stringn(v->tokens[rows[i].id], v->lengths[rows[i].id])) == 0;
  if (good) return config;
  json_decref(config);
  return NULL;
}

static neap_status write_tokenizer(struct language_exporting *x, const struct token_vocabulary *v,
                                   const char *folder) {
  json_t *made = NULL;
  if (v->tokens == NULL) return NEAP_OK;
  TRY(token_vocabulary_to_json(v, &made));
  neap_status status = json_object_set_new(made, "version", json_string("1.0")) != 0
                           ? neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", folder)
                           : write_json(x, made, folder, "tokenizer.json");
  json_decref(made);
  TRY(status);
  made = tokenizer_config(x, v);
  status = write_json(x, made, folder, "tokenizer_config.json");
  json_decref(made);
  return status;
}

static neap_status write_descriptions(struct language_exporting *x, const char *folder) {
  static const char *const copied[] = {"tokenizer.json",
                                       "tokenizer_config.json",
                                       "special_tokens_map.json",
                                       "added_tokens.json",
                                       "generation_config.json",
                                       "chat_template.jinja",
                                       "vocab.json",
                                       "merges.txt",
                                       "tokenizer.model",
                                       "vocab.txt",
                                       "preprocessor_config.json"};
  struct token_vocabulary v;
  json_t *config;
  if (x->model.config != NULL) {
    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++) TRY(copy_file(x, folder, copied[i]));
    config = copied_config(x);
  } else {
    TRY(language_file_vocabulary(&x->model, &v));
    TRY(write_tokenizer(x, &v, folder));
    config = described_config(x, &v);
  }
  const neap_status status = write_json(x, config, folder, "config.json");
  json_decref(config);
  return status;
}

static neap_status check_empty(const char *folder) {
  DIR *open = opendir(folder);
  int files = 0;
  RETURN_IF(open == NULL, NEAP_IO_FAILED, "%s: cannot be read: %s", folder, strerror(errno));
  for (const struct dirent *entry; (entry = folder_next(open)) != NULL;)
    files += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
  TRY(folder_close(open, folder, NEAP_OK));
  RETURN_IF(files > 0, NEAP_INVALID_ARGUMENT,
            "%s: is a folder with files in it; name another one, or give `force`", folder);
  return NEAP_OK;
}

static neap_status make_folder(const struct language_export *from, const char *folder, bool *made) {
  bool same;
  *made = mkdir(folder, 0777) == 0;
  if (*made) return NEAP_OK;
  RETURN_IF(errno != EEXIST, NEAP_IO_FAILED, "%s: cannot be created: %s", folder, strerror(errno));
  TRY(file_is_same(from->base->path, folder, &same));
  RETURN_IF(same, NEAP_INVALID_ARGUMENT, "%s: is the folder of the model itself; name another one", folder);
  return from->replace ? NEAP_OK : check_empty(folder);
}

/* Removes an index, which would be read instead of the new weights. */
static neap_status remove_index(struct language_exporting *x, const char *folder) {
  const char *index = region_format(&x->model.region, "%s/model.safetensors.index.json", folder);
  RETURN_IF(index == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", folder);
  RETURN_IF(unlink(index) != 0 && errno != ENOENT, NEAP_IO_FAILED, "%s: cannot be removed: %s", index,
            strerror(errno));
  return NEAP_OK;
}

static neap_status write_folder(struct language_exporting *x, const char *folder, int64_t *tensors) {
  bool made;
  const char *weights = region_format(&x->model.region, "%s/model.safetensors", folder);
  RETURN_IF(weights == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", folder);
  TRY(make_folder(x->from, folder, &made));
  const neap_status status = write_weights(x, weights, tensors);
  if (status != NEAP_OK && made) rmdir(folder);
  TRY(status);
  TRY(remove_index(x, folder));
  return write_descriptions(x, folder);
}

neap_status language_export_folder(const struct language_export *from, const char *folder, int64_t *tensors) {
  struct language_exporting x = {.from = from};
  neap_status status = language_exporting_open(&x, true);
  *tensors = 0;
  if (status == NEAP_OK) status = write_folder(&x, folder, tensors);
  language_exporting_close(&x);
  return status;
}
