#include "model/model.h"

#include <string.h>

#include "base/sha256.h"
#include "model/onnx_model.h"
#include "zoo/zoo.h"

/* Models that files are. */
static const struct file_format {
  const char *prefix, *suffix, *kept; /* what a name begins or ends with; how checkpoints call it */
  const char *listed, *summary;
  bool masked; /* of tokens: it learns those that are masked, not the next ones */
} formats[] = {
    {"onnx:", ".onnx", "onnx", "onnx:FILE", "the network of an ONNX file, with its weights; FILE.onnx, too",
     false},
    {"onnx-masked:", NULL, "onnx-masked", "onnx-masked:FILE", "the same, of tokens that are masked", true}};
enum { FORMATS = sizeof formats / sizeof *formats };

static bool ends_with(const char *name, const char *suffix) {
  const size_t length = strlen(name), end = strlen(suffix);
  return length > end && strcmp(name + length - end, suffix) == 0;
}

/* The format that a name asks for, and the path of its file; NULL: none. A prefix comes before a suffix. */
static const struct file_format *find_format(const char *name, const char **path) {
  for (int i = 0; name != NULL && i < FORMATS; i++)
    if (strncmp(name, formats[i].prefix, strlen(formats[i].prefix)) == 0) {
      *path = name + strlen(formats[i].prefix);
      return &formats[i];
    }
  for (int i = 0; name != NULL && i < FORMATS; i++)
    if (formats[i].suffix != NULL && ends_with(name, formats[i].suffix)) {
      *path = name;
      return &formats[i];
    }
  return NULL;
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

neap_status model_usual(const char *name, neap_model_options *usual, enum task_kind *kind) {
  const char *path;
  const struct file_format *format = find_format(name, &path);
  return format != NULL ? onnx_usual(path, format->masked, usual, kind) : zoo_usual(name, usual, kind);
}

neap_status neap_model_build(const char *name, const neap_model_options *options, neap_graph **graph) {
  const neap_model_options none = {0};
  const char *path;
  const struct file_format *format = find_format(name, &path);
  if (options == NULL) options = &none;
  RETURN_IF(graph == NULL, NEAP_INVALID_ARGUMENT, "%s: 'graph' is NULL", __func__);
  return format != NULL ? onnx_build(path, format->masked, options, graph) : zoo_build(name, options, graph);
}

neap_status neap_model_load(const char *name, const neap_model_options *options, neap_session *session) {
  const neap_model_options none = {0};
  const char *path;
  const struct file_format *format = find_format(name, &path);
  NEED(name);
  NEED(session);
  if (format == NULL) return NEAP_OK;
  return onnx_load(path, format->masked, options != NULL ? options : &none, session);
}

neap_status model_places(const char *name, int64_t length, int64_t *places) {
  if (!neap_model_is_file(name)) return zoo_places(name, length, places);
  *places = length; /* what the file was read for */
  return NEAP_OK;
}

neap_status model_build_decoder(const char *name, const neap_model_options *options, int64_t beams,
                                neap_graph **graph) {
  RETURN_IF(neap_model_is_file(name), NEAP_INVALID_ARGUMENT, "%s: an ONNX file does not translate", name);
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
  digest[0] = '\0';
  return find_format(name, &path) != NULL ? onnx_digest(path, digest) : NEAP_OK;
}
