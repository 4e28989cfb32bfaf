#include "language/language_head.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "formats/json.h"

enum { LABELS_MOST = 1 << 20 };

bool family_is_encoder(const struct family *family) { return family->classifier_class != NULL; }

/* ---- Classifiers ---- */

static const char *architecture_of(const json_t *config) {
  const char *name = json_string_value(json_array_get(json_object_get(config, "architectures"), 0));
  return name != NULL ? name : "";
}

/* Reads the names of id2label, "0": "NAME" and so on; without it they are "LABEL_0" and so on, as in
 * transformers. */
static neap_status read_names(const struct model_keys *keys, struct region *region,
                              struct task_labels *labels) {
  const json_t *names = json_object_get(keys->config, "id2label"),
               *number = json_object_get(keys->config, "num_labels");
  labels->count = json_is_object(names)     ? (int64_t)json_object_size(names)
                  : json_is_integer(number) ? json_integer_value(number)
                                            : 2;
  RETURN_IF(labels->count < 1 || labels->count > LABELS_MOST, NEAP_BAD_FORMAT,
            "%s: config.json: has %lld labels; there must be 1 to %d", keys->path, (long long)labels->count,
            LABELS_MOST);
  const char **list = region_alloc(region, (size_t)labels->count, sizeof *list);
  RETURN_IF(list == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory for its labels", keys->path);
  for (int64_t i = 0; i < labels->count; i++) {
    char key[24];
    snprintf(key, sizeof key, "%lld", (long long)i);
    const char *name = json_string_value(json_object_get(names, key));
    RETURN_IF(json_is_object(names) && name == NULL, NEAP_BAD_FORMAT,
              "%s: config.json: 'id2label' has no label \"%s\"; its %lld keys must be 0, 1, 2 and so on, "
              "each with a text",
              keys->path, key, (long long)labels->count);
    list[i] = name != NULL ? region_string(region, name) : region_format(region, "LABEL_%s", key);
    RETURN_IF(list[i] == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory for its labels", keys->path);
  }
  labels->names = list;
  return NEAP_OK;
}

static neap_status read_labels(const struct model_keys *keys, struct region *region,
                               struct task_labels *labels) {
  const char *problem = json_string_value(json_object_get(keys->config, "problem_type"));
  RETURN_IF(problem != NULL && strcmp(problem, "multi_label_classification") == 0, NEAP_UNSUPPORTED,
            "%s: config.json: 'problem_type' is '%s'; one class per text and regression are supported",
            keys->path, problem);
  TRY(read_names(keys, region, labels));
  labels->values = labels->count == 1 || (problem != NULL && strcmp(problem, "regression") == 0);
  return NEAP_OK;
}

/* ---- Vectors of sentences ---- */

/* Reads the JSON of a file in the folder, for the caller to free; NULL: no such file. */
static neap_status read_file(const struct model_keys *keys, const char *name, struct region *region,
                             json_t **value) {
  const char *path = region_format(region, "%s/%s", keys->path, name);
  *value = NULL;
  RETURN_IF(path == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", keys->path);
  return file_exists(path) ? json_read_strict(path, value) : NEAP_OK;
}

static neap_status take_pooling(const char *path, const json_t *pooling, struct language_head *head) {
  const char *key;
  json_t *value;
  bool mean = false, first = false;
  json_object_foreach((json_t *)pooling, key, value) {
    if (strncmp(key, "pooling_mode", 12) != 0 || !json_is_true(value)) continue;
    mean = mean || strcmp(key, "pooling_mode_mean_tokens") == 0;
    first = first || strcmp(key, "pooling_mode_cls_token") == 0;
    RETURN_IF(
        strcmp(key, "pooling_mode_mean_tokens") != 0 && strcmp(key, "pooling_mode_cls_token") != 0,
        NEAP_UNSUPPORTED,
        "%s: 1_Pooling/config.json: '%s' is true; the mean of the tokens and the first token are supported",
        path, key);
  }
  RETURN_IF(
      mean && first, NEAP_UNSUPPORTED,
      "%s: 1_Pooling/config.json: asks for both the mean and the first token; only one of them is supported",
      path);
  if (first) head->vector = STACK_FIRST;
  return NEAP_OK;
}

static neap_status take_modules(const char *path, const json_t *modules, struct language_head *head) {
  size_t i;
  json_t *module;
  json_array_foreach((json_t *)modules, i, module) {
    const char *type = json_string_value(json_object_get(module, "type"));
    const char *leaf = type != NULL && strrchr(type, '.') != NULL ? strrchr(type, '.') + 1 : type;
    RETURN_IF(leaf == NULL, NEAP_BAD_FORMAT, "%s: modules.json: module %zu has no 'type'", path, i);
    if (strcmp(leaf, "Normalize") == 0) head->unit = true;
    RETURN_IF(strcmp(leaf, "Normalize") != 0 && strcmp(leaf, "Transformer") != 0 &&
                  strcmp(leaf, "Pooling") != 0,
              NEAP_UNSUPPORTED,
              "%s: modules.json: module %zu is '%s'; Transformer, Pooling and Normalize are supported", path,
              i, type);
  }
  return NEAP_OK;
}

static neap_status take_limit(const char *path, const json_t *limits, struct language_head *head) {
  const json_t *most = json_object_get(limits, "max_seq_length");
  RETURN_IF(json_is_integer(most) && json_integer_value(most) < 1, NEAP_BAD_FORMAT,
            "%s: sentence_bert_config.json: 'max_seq_length' is %lld; it must be 1 or more", path,
            (long long)json_integer_value(most));
  if (json_is_integer(most)) head->longest = json_integer_value(most);
  return NEAP_OK;
}

static neap_status read_sentence(const struct model_keys *keys, struct region *region,
                                 struct language_head *head) {
  static const struct {
    const char *name;
    neap_status (*take)(const char *path, const json_t *value, struct language_head *head);
  } files[] = {{"modules.json", take_modules},
               {"1_Pooling/config.json", take_pooling},
               {"sentence_bert_config.json", take_limit}};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    json_t *value;
    TRY(read_file(keys, files[i].name, region, &value));
    const neap_status status = value != NULL ? files[i].take(keys->path, value, head) : NEAP_OK;
    json_decref(value);
    if (status != NEAP_OK) return status;
  }
  return NEAP_OK;
}

/* ---- Images ---- */

/* Reads a number, or one for each channel; `usual` without them. */
static neap_status take_channels(const char *path, const json_t *value, int64_t channels, double usual,
                                 double *numbers) {
  const bool list = json_is_array(value);
  bool good = value == NULL || json_is_number(value) || (list && json_array_size(value) == (size_t)channels);
  for (int64_t c = 0; good && c < channels; c++) {
    const json_t *one = list ? json_array_get(value, (size_t)c) : value;
    good = one == NULL || (json_is_number(one) && isfinite(json_number_value(one)));
    numbers[c] = one != NULL ? json_number_value(one) : usual;
  }
  RETURN_IF(!good, NEAP_BAD_FORMAT,
            "%s: preprocessor_config.json: 'image_mean' and 'image_std' must have a number for each of %lld "
            "channels",
            path, (long long)channels);
  return NEAP_OK;
}

/* Turns (byte factor - mean) / deviation into (byte - mean / factor) / (deviation / factor). */
static neap_status take_pixels(const char *path, const json_t *object, int64_t channels,
                               struct task_pixels *pixels) {
  const json_t *rescales = json_object_get(object, "do_rescale"),
               *by = json_object_get(object, "rescale_factor"),
               *normalises = json_object_get(object, "do_normalize");
  const bool plain = json_is_false(normalises);
  const double factor = json_is_false(rescales) ? 1 : json_is_number(by) ? json_number_value(by) : 1.0 / 255;
  RETURN_IF(!(factor > 0 && isfinite(factor)), NEAP_BAD_FORMAT,
            "%s: preprocessor_config.json: 'rescale_factor' is %g; it must be positive", path, factor);
  TRY(take_channels(path, plain ? NULL : json_object_get(object, "image_mean"), channels, plain ? 0 : 0.5,
                    pixels->mean));
  TRY(take_channels(path, plain ? NULL : json_object_get(object, "image_std"), channels, plain ? 1 : 0.5,
                    pixels->deviation));
  for (int64_t c = 0; c < channels; c++) {
    RETURN_IF(!(pixels->deviation[c] > 0), NEAP_BAD_FORMAT,
              "%s: preprocessor_config.json: 'image_std' has %g; its values must be positive", path,
              pixels->deviation[c]);
    pixels->mean[c] /= factor;
    pixels->deviation[c] /= factor;
  }
  return NEAP_OK;
}

neap_status language_head_pixels(const struct model_keys *keys, int64_t channels, struct region *region,
                                 struct task_pixels *pixels) {
  json_t *object;
  *pixels = (struct task_pixels){0};
  TRY(read_file(keys, "preprocessor_config.json", region, &object));
  const neap_status status = object != NULL ? take_pixels(keys->path, object, channels, pixels) : NEAP_OK;
  json_decref(object);
  return status;
}

/* ---- All heads ---- */

static bool ends_with(const char *text, const char *end) {
  const size_t length = strlen(text), of = strlen(end);
  return length > of && strcmp(text + length - of, end) == 0;
}

neap_status language_head_read(const struct model_keys *keys, const struct family *family, bool has_tokens,
                               struct region *region, struct language_head *head) {
  const char *name = architecture_of(keys->config);
  const bool classifies =
      ends_with(name, "ForSequenceClassification") || ends_with(name, "ForImageClassification");
  *head = (struct language_head){.own = NEAP_HEAD_TOKENS, .vector = STACK_MEAN};
  RETURN_IF(classifies && !family_is_encoder(family), NEAP_UNSUPPORTED,
            "%s: config.json: is a %s; classifiers are supported for models of the families 'bert' and "
            "'longformer'",
            keys->path, name);
  if (!family_is_encoder(family)) return NEAP_OK;
  if (classifies) {
    head->own = NEAP_HEAD_CLASSES;
    return read_labels(keys, region, &head->labels);
  }
  if (!has_tokens) head->own = NEAP_HEAD_SENTENCE;
  if (family->kind == NEAP_TASK_IMAGES) return NEAP_OK;
  return read_sentence(keys, region, head);
}

static void leave_out(struct transformer *t, const enum part *parts, int count) {
  for (int i = 0; i < count; i++) t->parts[parts[i]].name = NULL;
}

neap_status language_head_settle(const char *path, const struct language_head *head,
                                 const struct family *family, const neap_model_options *options,
                                 struct transformer *t) {
  static const enum part of_tokens[] = {PART_HEAD_DENSE, PART_HEAD_NORM, PART_HEAD},
                         of_classes[] = {PART_POOLER, PART_CLASSIFIER};
  static const struct task_labels two = {.count = 2};
  const struct task_labels *own = head->labels.count > 0 ? &head->labels : &two;
  neap_head asked = options->head != NEAP_HEAD_USUAL ? options->head : head->own;
  if (options->head == NEAP_HEAD_USUAL && asked == NEAP_HEAD_SENTENCE) asked = NEAP_HEAD_CLASSES;
  RETURN_IF(asked != NEAP_HEAD_TOKENS && !family_is_encoder(family), NEAP_INVALID_ARGUMENT,
            "%s: has the family '%s', which predicts the next token; classes of texts and vectors of "
            "sentences need a model of the family 'bert' or 'longformer'",
            path, family->model_type);
  RETURN_IF(asked != NEAP_HEAD_CLASSES && family->kind == NEAP_TASK_IMAGES, NEAP_INVALID_ARGUMENT,
            "%s: is a model of images: it predicts classes, and it %s; finetune adds a classifier", path,
            head->own == NEAP_HEAD_CLASSES ? "has no other output" : "has no classifier");
  if (asked != NEAP_HEAD_CLASSES) leave_out(t, of_classes, 2);
  if (asked == NEAP_HEAD_TOKENS) return NEAP_OK;
  leave_out(t, of_tokens, 3);
  t->head = asked == NEAP_HEAD_CLASSES ? STACK_CLASSES : head->vector;
  t->unit = head->unit;
  t->values = options->classes > 0 || options->regression ? options->regression : own->values;
  t->outputs = options->classes > 0 ? options->classes : t->values && !own->values ? 1 : own->count;
  return NEAP_OK;
}

/* ---- Writing ---- */

bool language_head_describe(json_t *config, const struct family *family, const struct task_labels *labels) {
  json_t *names = json_object(), *numbers = json_object();
  bool good = names != NULL && numbers != NULL;
  for (int64_t i = 0; good && i < labels->count; i++) {
    char key[24], usual[32];
    snprintf(key, sizeof key, "%lld", (long long)i);
    snprintf(usual, sizeof usual, "LABEL_%s", key);
    const char *name = labels->names != NULL ? labels->names[i] : usual;
    good = json_object_set_new(names, key, json_string(name)) == 0 &&
           json_object_set_new(numbers, name, json_integer(i)) == 0;
  }
  good =
      good && json_object_set(config, "id2label", names) == 0 &&
      json_object_set(config, "label2id", numbers) == 0 &&
      json_object_set_new(config, "problem_type",
                          json_string(labels->values ? "regression" : "single_label_classification")) == 0 &&
      json_object_set_new(config, "architectures", json_pack("[s]", family->classifier_class)) == 0;
  json_decref(names);
  json_decref(numbers);
  return good;
}
