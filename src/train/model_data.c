#include "train/model_data.h"

#include <string.h>

#include "model/model.h"

static const struct task_texts texts = {model_tokenizer, model_chat_template, model_labels};

/* Finds out whether weights for sequences of `length` also serve shorter ones. */
static neap_status find_any_length(const char *model, int64_t length, bool *any) {
  int64_t of_longest, of_shortest;
  *any = false;
  TRY(model_places(model, length, &of_longest));
  TRY(model_places(model, 1, &of_shortest));
  *any = of_longest == of_shortest;
  return NEAP_OK;
}

struct data_choice data_of_run(const neap_train_options *run, int threads) {
  return (struct data_choice){.model = run->model,
                              .name = run->data,
                              .shape = &run->shape,
                              .threads = threads,
                              .own = run->source,
                              .chat = {.template_name = run->chat_template,
                                       .train_on_prompt = run->train_on_prompt,
                                       .skip_long = run->long_records == NEAP_LONG_SKIP}};
}

neap_status open_data(const struct data_choice *choice, struct loader *loader) {
  neap_model_options usual;
  const neap_model_options *asked = choice->shape;
  const char *model = choice->model;
  struct task task = {.threads = choice->threads,
                      .encoding = choice->encoding,
                      .before = choice->before,
                      .chat = choice->chat,
                      .model = model,
                      .texts = &texts};
  TRY(model_usual(model, &usual, &task.kind));
  task.classes = asked->classes > 0 ? asked->classes : usual.classes;
  task.asked_classes = asked->classes;
  task.batch = asked->batch > 0 ? asked->batch : usual.batch;
  task.asked_length = asked->length;
  task.length = asked->length > 0 ? asked->length : usual.length;
  task.width = usual.image[0];
  task.chat.packed = choice->pack != NEAP_PACK_OFF && task.kind == TASK_TOKENS && model_packs(model);
  RETURN_IF(choice->pack == NEAP_PACK_ON && !task.chat.packed, NEAP_INVALID_ARGUMENT,
            "--pack on: model '%s' cannot have several conversations in a row; leave it out", model);
  const bool of_texts = task.kind == TASK_TOKENS || model_language_path(model) != NULL;
  if (of_texts && !choice->one_length) TRY(find_any_length(model, task.length, &task.any_length));
  TRY(model_pixels(model, &task.pixels));
  const bool fixed = task.kind == TASK_IMAGES && model_language_path(model) != NULL;
  for (int i = 0; i < 3; i++) {
    task.asked_image[i] = asked->image[i] == 0 && fixed ? usual.image[i] : asked->image[i];
    task.image[i] = asked->image[i] > 0 ? asked->image[i] : usual.image[i];
  }
  TRY(choice->own != NULL ? loader_open_own(loader, choice->own, &task)
                          : loader_open(loader, choice->name, &task));
  return model_understood(model, &loader->source.region, &loader->source.understood);
}

/* Fails unless the model can learn from the data. */
static neap_status check_kind(const char *model, enum task_kind kind, const char *name,
                              const struct source *source) {
  const char *learns = task_rows[kind].learns, *has = task_rows[source->kind].learns;
  const char *other = kind == TASK_PAIRS ? "parallel:DIR:de-en" : "'synthetic'";
  if (kind == TASK_FEATURES && source->kind == TASK_IMAGES) return NEAP_OK;
  if (source->kind == TASK_TEXTS && model_language_path(model) != NULL)
    return NEAP_OK; /* its build decides */
  RETURN_IF(
      kind == TASK_TEXTS && source->kind != TASK_TEXTS, NEAP_INVALID_ARGUMENT,
      "model '%s' learns from texts of a class each, but %s has %s; csv:FILE,text=COLUMN,label=COLUMN has "
      "them",
      model, name, has);
  RETURN_IF(source->kind == TASK_FEATURES && kind != TASK_FEATURES, NEAP_INVALID_ARGUMENT,
            "model '%s' learns from %s, but %s has %s; for %s use model mlp-64 or mlp-64x64", model, learns,
            name, has, has);
  RETURN_IF(strcmp(learns, has) != 0, NEAP_INVALID_ARGUMENT,
            "model '%s' learns from %s, but %s has %s; %s has them", model, learns, name, has, other);
  RETURN_IF(kind == TASK_PIXELS && source->kind != TASK_PIXELS, NEAP_INVALID_ARGUMENT,
            "model '%s' classifies pixels, but %s has a class for an image only; 'synthetic' has maps", model,
            name);
  return NEAP_OK;
}

/* Sets the shape of images, or the width of rows of numbers. */
static neap_status settle_input(const char *name, const neap_model_options *asked,
                                const struct source *source, neap_model_options *shape) {
  const int input = source_find_field(source, task_rows[source->kind].input);
  const struct field *field = &source->fields[input];
  for (int i = 0; i < 3; i++) {
    shape->image[i] = i < field->rank ? field->dims[i] : 0;
    RETURN_IF(asked->image[i] > 0 && asked->image[i] != shape->image[i], NEAP_INVALID_ARGUMENT,
              "images of %lldx%lldx%lld are asked for, but %s has %lldx%lldx%lld", (long long)asked->image[0],
              (long long)asked->image[1], (long long)asked->image[2], name, (long long)field->dims[0],
              (long long)field->dims[1], (long long)field->dims[2]);
  }
  return NEAP_OK;
}

/* Returns true if labels are real numbers: values, not classes. */
static bool has_values(const struct source *source) {
  const int label = source_find_field(source, task_rows[source->kind].label);
  return label >= 0 && source->fields[label].dtype == NEAP_F32;
}

neap_status settle_shape(const char *model, const char *name, const neap_model_options *asked,
                         const struct loader *loader, neap_model_options *shape) {
  const struct source *source = &loader->source;
  const int64_t length = loader_length(loader);
  neap_model_options usual;
  enum task_kind kind;
  TRY(model_usual(model, &usual, &kind));
  TRY(check_kind(model, kind, name, source));
  *shape = *asked;
  shape->classes = source->classes;
  shape->length = shape->source_length = length;
  shape->packed = source->conversations > 0 && source->task.chat.packed;
  const float usual_beta = 0.1f;
  RETURN_IF(asked->beta > 0 && !source->preferences, NEAP_INVALID_ARGUMENT,
            "beta: it does nothing with the data of %s, but applies to preferences (preference:FILE)", name);
  RETURN_IF(
      source->preferences && !model_packs(model), NEAP_UNSUPPORTED,
      "model '%s' cannot learn from preferences; a transformer of one stack that predicts the next token "
      "can",
      model);
  if (source->preferences && !(asked->beta > 0)) shape->beta = usual_beta;
  if (kind == TASK_PAIRS) { /* a batch is asked for in tokens of the target */
    const int64_t tokens = asked->batch > 0 ? asked->batch : usual.batch * usual.length;
    shape->batch = tokens / length > 0 ? tokens / length : 1;
  }
  if (source->kind == TASK_TEXTS && shape->head == NEAP_HEAD_USUAL) shape->head = NEAP_HEAD_CLASSES;
  RETURN_IF(source->kind == TASK_TEXTS && shape->head == NEAP_HEAD_TOKENS, NEAP_INVALID_ARGUMENT,
            "model '%s' has no classifier of texts; finetune gives it one, and --output sentence asks for "
            "the vector of a text",
            model);
  if (length == 0) TRY(settle_input(name, asked, source, shape));
  shape->regression = has_values(source);
  RETURN_IF(shape->regression && (asked->classes > 0 || asked->smoothing > 0), NEAP_INVALID_ARGUMENT,
            "%s has values as labels, for which --classes and --label-smoothing do nothing; leave them out",
            name);
  RETURN_IF(asked->classes > 0 && asked->classes < shape->classes, NEAP_INVALID_ARGUMENT,
            "%lld classes are asked for, but %s has %lld", (long long)asked->classes, name,
            (long long)shape->classes);
  if (asked->classes > 0) shape->classes = asked->classes;
  return NEAP_OK;
}
