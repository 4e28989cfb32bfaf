#include "model/model.h"

#include <stdlib.h>
#include <string.h>

#include "language/language_model.h"
#include "model/model_ops.h"
#include "onnx/onnx_model.h"
#include "zoo/zoo.h"

static const struct model_ops zoo = {.open = zoo_open,
                                     .close = zoo_close,
                                     .describe = zoo_describe,
                                     .build = zoo_build,
                                     .build_decoder = zoo_build_decoder},
                              onnx = {.open = onnx_model_open,
                                      .close = onnx_model_close,
                                      .describe = onnx_model_describe,
                                      .build = onnx_model_build,
                                      .load = onnx_model_load,
                                      .digest = onnx_model_digest},
                              language = {.open = language_model_open,
                                          .close = language_model_close,
                                          .describe = language_model_describe,
                                          .build = language_model_build,
                                          .load = language_model_load,
                                          .digest = language_model_digest,
                                          .tokenizer = language_model_tokenizer,
                                          .chat_template = language_model_chat_template,
                                          .labels = language_model_labels,
                                          .pixels = language_model_pixels,
                                          .new_layers = language_model_new_layers,
                                          .understood = language_model_understood};

/* The kinds of model files. */
static const struct file_format {
  const char *prefix, *suffix, *kept; /* what a name begins or ends with (NULL: with anything, where it is a
                                         folder with config.json); how checkpoints call it */
  const char *listed, *summary;
  bool masked; /* a model of tokens learns masked tokens, not the next ones */
  const struct model_ops *ops;
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

struct neap_model {
  struct region region;
  const char *name;
  const struct file_format *format; /* NULL: ready-made */
  const struct model_ops *ops;
  void *model; /* of the ops */
};

/* ---- Names ---- */

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

bool neap_model_names_file(const char *name) {
  const char *path;
  return find_format(name, &path) != NULL;
}

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

/* ---- Opening ---- */

static neap_status open_named(neap_model *m, const char *name) {
  const char *path;
  m->name = region_string(&m->region, name);
  RETURN_IF_NULL(m->name);
  m->format = find_format(m->name, &path);
  m->ops = m->format != NULL ? m->format->ops : &zoo;
  return m->ops->open(path, m->format != NULL && m->format->masked, &m->model);
}

neap_status neap_model_open(const char *name, neap_model **model) {
  NEED(model);
  *model = NULL;
  RETURN_IF(name == NULL, NEAP_INVALID_ARGUMENT, "a model needs a name; `neap models` lists them");
  neap_model *m = calloc(1, sizeof *m);
  RETURN_IF_NULL(m);
  const neap_status status = open_named(m, name);
  if (status == NEAP_OK)
    *model = m;
  else
    neap_model_close(m);
  return status;
}

void neap_model_close(neap_model *model) {
  if (model == NULL) return;
  if (model->model != NULL) model->ops->close(model->model);
  region_free(&model->region);
  free(model);
}

neap_status model_take(const neap_model *opened, const char *name, neap_model **own,
                       const neap_model **model) {
  *own = NULL;
  if (opened == NULL) TRY(neap_model_open(name, own));
  *model = opened != NULL ? opened : *own;
  return NEAP_OK;
}

/* ---- The questions ---- */

bool neap_model_is_file(const neap_model *model) { return model != NULL && model->format != NULL; }

bool neap_model_is_language(const neap_model *model) { return model != NULL && model->ops == &language; }

const struct language_model *model_language(const neap_model *model) {
  return neap_model_is_language(model) ? model->model : NULL;
}

const char *model_name(const neap_model *model) { return model->name; }

const char *model_kept_name(const neap_model *model) {
  return model->format != NULL ? model->format->kept : model->name;
}

const char *model_digest(const neap_model *model) {
  return model->ops->digest != NULL ? model->ops->digest(model->model) : "";
}

neap_status neap_model_describe(const neap_model *model, neap_model_description *about) {
  NEED(model);
  NEED(about);
  *about = (neap_model_description){0};
  return model->ops->describe(model->model, about);
}

int64_t model_places(const neap_model_description *about, int64_t length) {
  return about->places_grow && about->places < length ? length : about->places;
}

neap_status neap_model_build(const neap_model *model, const neap_model_options *options, neap_graph **graph) {
  const neap_model_options none = {0};
  NEED(model);
  NEED(graph);
  return model->ops->build(model->model, options != NULL ? options : &none, graph);
}

neap_status model_build_decoder(const neap_model *model, const neap_model_options *options, int64_t beams,
                                neap_graph **graph) {
  RETURN_IF(model->ops->build_decoder == NULL, NEAP_INVALID_ARGUMENT,
            "%s: a model from a file cannot translate", model->name);
  return model->ops->build_decoder(model->model, options, beams, graph);
}

neap_status neap_model_load(const neap_model *model, const neap_model_options *options,
                            neap_session *session) {
  const neap_model_options none = {0};
  NEED(model);
  NEED(session);
  if (model->ops->load == NULL) return NEAP_OK;
  return model->ops->load(model->model, options != NULL ? options : &none, session);
}

neap_status model_tokenizer(const neap_model *model, struct tokenizer **tokenizer) {
  *tokenizer = NULL;
  return model->ops->tokenizer != NULL ? model->ops->tokenizer(model->model, tokenizer) : NEAP_OK;
}

neap_status model_chat_template(const neap_model *model, struct chat_template **chat) {
  *chat = NULL;
  return model->ops->chat_template != NULL ? model->ops->chat_template(model->model, chat) : NEAP_OK;
}

neap_status model_labels(const neap_model *model, struct region *region, struct task_labels *labels) {
  *labels = (struct task_labels){0};
  return model->ops->labels != NULL ? model->ops->labels(model->model, region, labels) : NEAP_OK;
}

neap_status model_pixels(const neap_model *model, struct task_pixels *pixels) {
  *pixels = (struct task_pixels){0};
  return model->ops->pixels != NULL ? model->ops->pixels(model->model, pixels) : NEAP_OK;
}

neap_status model_new_layers(const neap_model *model, const neap_model_options *options,
                             struct region *region, const char **layers) {
  *layers = NULL;
  return model->ops->new_layers != NULL ? model->ops->new_layers(model->model, options, region, layers)
                                        : NEAP_OK;
}

neap_status model_understood(const neap_model *model, struct region *region, struct understood *understood) {
  return model->ops->understood != NULL ? model->ops->understood(model->model, region, understood) : NEAP_OK;
}
