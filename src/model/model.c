#include "model/model.h"

#include <string.h>

#include "base/sha256.h"
#include "model/language_model.h"
#include "model/onnx_model.h"
#include "zoo/zoo.h"

/* The functions of a model in a file; model.h says what each does. `masked`: a model of tokens learns masked
 * tokens, not the next ones. */
struct file_reader {
  neap_status (*usual)(const char *path, bool masked, neap_model_options *usual, enum task_kind *kind);
  neap_status (*build)(const char *path, bool masked, const neap_model_options *options, neap_graph **graph);
  neap_status (*load)(const char *path, bool masked, const neap_model_options *options,
                      neap_session *session);
  neap_status (*places)(const char *path, int64_t length, int64_t *places);
  neap_status (*digest)(const char *path, char digest[65]);
  neap_status (*tokenizer)(const char *path, struct tokenizer **tokenizer); /* NULL: it has none */
  neap_status (*chat_template)(const char *path, struct chat_template **chat);
};

static const struct file_reader onnx = {onnx_usual,  onnx_build, onnx_load, onnx_places,
                                        onnx_digest, NULL,       NULL},
                                language = {language_model_usual,        language_model_build,
                                            language_model_load,         language_model_places,
                                            language_model_digest,       language_model_tokenizer,
                                            language_model_chat_template};

/* The kinds of model files. */
static const struct file_format {
  const char *prefix, *suffix, *kept; /* what a name begins or ends with (NULL: with anything, where it is a
                                         folder with config.json); how checkpoints call it */
  const char *listed, *summary;
  bool masked;
  const struct file_reader *reader;
} formats[] = {{"onnx:", ".onnx", "onnx", "onnx:FILE",
                "a network with its weights from an ONNX file; FILE.onnx also works", false, &onnx},
               {"onnx-masked:", NULL, "onnx-masked", "onnx-masked:FILE",
                "the same, for a model of masked tokens", true, &onnx},
               {"gguf:", ".gguf", "gguf", "gguf:FILE",
                "a language model from a GGUF file; FILE.gguf also works", false, &language},
               {"huggingface:", NULL, "huggingface", "huggingface:DIR",
                "a language model from a folder with config.json and safetensors; DIR also works", false,
                &language}};
enum { FORMATS = sizeof formats / sizeof *formats, FOLDER = FORMATS - 1 };

static bool ends_with(const char *name, const char *suffix) {
  const size_t length = strlen(name), end = strlen(suffix);
  return length > end && strcmp(name + length - end, suffix) == 0;
}

/* Finds the format of a name, and the path of its file; NULL: none. A prefix counts before a suffix. */
static const struct file_format *find_format(const char *name, const char **path) {
  for (int i = 0; name != NULL && i < FORMATS; i++)
    if (strncmp(name, formats[i].prefix, strlen(formats[i].prefix)) == 0) {
      *path = name + strlen(formats[i].prefix);
      return &formats[i];
    }
  *path = name;
  for (int i = 0; name != NULL && i < FORMATS; i++)
    if (formats[i].suffix != NULL && ends_with(name, formats[i].suffix)) return &formats[i];
  return name != NULL && language_model_is_folder(name) ? &formats[FOLDER] : NULL;
}

const char *model_language_path(const char *name) {
  const char *path;
  const struct file_format *format = find_format(name, &path);
  return format != NULL && format->reader == &language ? path : NULL;
}

neap_status model_understood(const char *name, struct region *region, struct understood *understood) {
  const char *path = model_language_path(name);
  return path != NULL ? language_model_understood(path, region, understood) : NEAP_OK;
}

bool neap_model_is_language(const char *name) { return model_language_path(name) != NULL; }

bool neap_model_at(int32_t index, neap_row *row) {
  int32_t families = 0;
  neap_row family;
  if (row == NULL || index < 0) return false;
  if (zoo_at(index, row)) return true;
  while (zoo_at(families, &family)) families++;
  if (index - families >= FORMATS) return false;
  *row = (neap_row){.name = formats[index - families].listed, .summary = formats[index - families].summary};
  return true;
}

neap_status model_usual(const char *name, neap_model_options *usual, enum task_kind *kind) {
  const char *path;
  const struct file_format *format = find_format(name, &path);
  return format != NULL ? format->reader->usual(path, format->masked, usual, kind)
                        : zoo_usual(name, usual, kind);
}

neap_status neap_model_build(const char *name, const neap_model_options *options, neap_graph **graph) {
  const neap_model_options none = {0};
  const char *path;
  const struct file_format *format = find_format(name, &path);
  if (options == NULL) options = &none;
  RETURN_IF(graph == NULL, NEAP_INVALID_ARGUMENT, "%s: 'graph' is NULL", __func__);
  return format != NULL ? format->reader->build(path, format->masked, options, graph)
                        : zoo_build(name, options, graph);
}

/* Fails unless a ready-made model has this name. The folder of a model may be gone by now, and then a run
 * must not go on with first values. */
static neap_status check_ready_made(const char *name) {
  neap_model_options usual;
  enum task_kind kind;
  RETURN_IF(zoo_usual(name, &usual, &kind) != NEAP_OK, NEAP_IO_FAILED,
            "%s: is not a ready-made model, and no model folder or file of this name exists; restore the "
            "folder or file",
            name);
  return NEAP_OK;
}

neap_status neap_model_load(const char *name, const neap_model_options *options, neap_session *session) {
  const neap_model_options none = {0};
  const char *path;
  const struct file_format *format = find_format(name, &path);
  NEED(name);
  NEED(session);
  if (format == NULL) return check_ready_made(name);
  return format->reader->load(path, format->masked, options != NULL ? options : &none, session);
}

neap_status model_places(const char *name, int64_t length, int64_t *places) {
  const char *path;
  const struct file_format *format = find_format(name, &path);
  return format != NULL ? format->reader->places(path, length, places) : zoo_places(name, length, places);
}

neap_status model_build_decoder(const char *name, const neap_model_options *options, int64_t beams,
                                neap_graph **graph) {
  RETURN_IF(neap_model_is_file(name), NEAP_INVALID_ARGUMENT, "%s: a model from a file cannot translate",
            name);
  return zoo_build_decoder(name, options, beams, graph);
}

bool neap_model_is_file(const char *name) {
  const char *path;
  return find_format(name, &path) != NULL;
}

const char *model_kept_name(const char *name) {
  const char *path;
  const struct file_format *format = find_format(name, &path);
  return format != NULL ? format->kept : name;
}

neap_status model_digest(const char *name, char digest[65]) {
  const char *path;
  const struct file_format *format = find_format(name, &path);
  digest[0] = '\0';
  return format != NULL ? format->reader->digest(path, digest) : NEAP_OK;
}

bool model_packs(const char *name) {
  return neap_model_is_file(name) ? model_language_path(name) != NULL : zoo_is_stack(name);
}

neap_status model_tokenizer(const char *name, struct tokenizer **tokenizer) {
  const char *path;
  const struct file_format *format = find_format(name, &path);
  *tokenizer = NULL;
  return format != NULL && format->reader->tokenizer != NULL ? format->reader->tokenizer(path, tokenizer)
                                                             : NEAP_OK;
}

neap_status model_chat_template(const char *name, struct chat_template **chat) {
  const char *path;
  const struct file_format *format = find_format(name, &path);
  *chat = NULL;
  return format != NULL && format->reader->chat_template != NULL ? format->reader->chat_template(path, chat)
                                                                 : NEAP_OK;
}

neap_status model_labels(const char *name, struct region *region, struct task_labels *labels) {
  const char *path = model_language_path(name);
  *labels = (struct task_labels){0};
  return path != NULL ? language_model_labels(path, region, labels) : NEAP_OK;
}

neap_status model_pixels(const char *name, struct task_pixels *pixels) {
  const char *path = model_language_path(name);
  *pixels = (struct task_pixels){0};
  return path != NULL ? language_model_pixels(path, pixels) : NEAP_OK;
}

neap_status model_new_layers(const char *name, const neap_model_options *options, struct region *region,
                             const char **layers) {
  const char *path = model_language_path(name);
  *layers = NULL;
  return path != NULL ? language_model_new_layers(path, options, region, layers) : NEAP_OK;
}
