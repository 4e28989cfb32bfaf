#include "train/model_data.h"

#include "model/model.h"

static const struct task_texts texts = {model_tokenizer, model_chat_template, model_labels};

/* Returns true if weights for sequences of `length` also serve shorter ones. */
static bool serves_shorter(const neap_model_description *about, int64_t length) {
  return model_places(about, length) == model_places(about, 1);
}

struct data_choice data_of_run(const neap_model *model, const neap_train_options *run, int threads) {
  return (struct data_choice){.model = model,
                              .name = run->data,
                              .shape = &run->shape,
                              .threads = threads,
                              .own = run->source,
                              .chat = {.template_name = run->chat_template,
                                       .train_on_prompt = run->train_on_prompt,
                                       .skip_long = run->long_records == NEAP_LONG_SKIP}};
}

neap_status open_data(const struct data_choice *choice, struct loader *loader) {
  neap_model_description about;
  const neap_model_options *asked = choice->shape, *usual = &about.usual;
  const neap_model *model = choice->model;
  const bool language = neap_model_is_language(model);
  struct task task = {.threads = choice->threads,
                      .encoding = choice->encoding,
                      .before = choice->before,
                      .chat = choice->chat,
                      .model = model,
                      .texts = &texts};
  TRY(neap_model_describe(model, &about));
  task.kind = about.task;
  task.classes = asked->classes > 0 ? asked->classes : usual->classes;
  task.asked_classes = asked->classes;
  task.batch = asked->batch > 0 ? asked->batch : usual->batch;
  task.asked_length = asked->length;
  task.length = asked->length > 0 ? asked->length : usual->length;
  task.width = usual->image[0];
  task.chat.packed = choice->pack != NEAP_PACK_OFF && task.kind == NEAP_TASK_TOKENS && about.packs;
  RETURN_IF(choice->pack == NEAP_PACK_ON && !task.chat.packed, NEAP_INVALID_ARGUMENT,
            "`pack` on: model '%s' cannot have several conversations in a row; leave it out",
            model_name(model));
  const bool of_texts = task.kind == NEAP_TASK_TOKENS || language;
  task.any_length = of_texts && !choice->one_length && serves_shorter(&about, task.length);
  TRY(model_pixels(model, &task.pixels));
  const bool fixed = task.kind == NEAP_TASK_IMAGES && language;
  for (int i = 0; i < 3; i++) {
    task.asked_image[i] = asked->image[i] == 0 && fixed ? usual->image[i] : asked->image[i];
    task.image[i] = asked->image[i] > 0 ? asked->image[i] : usual->image[i];
  }
  TRY(choice->own != NULL ? loader_open_own(loader, choice->own, &task)
                          : loader_open(loader, choice->name, &task));
  return model_understood(model, &loader->source.region, &loader->source.understood);
}

/* Fails unless the model can learn from the data. */
static neap_status check_kind(const neap_model *from, neap_task kind, const char *name,
                              const struct source *source) {
  const char *model = model_name(from), *learns = task_rows[kind].learns,
             *has = task_rows[source->kind].learns;
  const char *other = kind == NEAP_TASK_PAIRS ? "parallel:DIR:de-en" : "'synthetic'";
  if (kind == NEAP_TASK_FEATURES && source->kind == NEAP_TASK_IMAGES) return NEAP_OK;
  if (source->kind == NEAP_TASK_TEXTS && neap_model_is_language(from)) return NEAP_OK; /* its build decides */
  RETURN_IF(
      kind == NEAP_TASK_TEXTS && source->kind != NEAP_TASK_TEXTS, NEAP_INVALID_ARGUMENT,
      "model '%s' learns from texts of a class each, but %s has %s; csv:FILE,text=COLUMN,label=COLUMN has "
      "them",
      model, name, has);
  RETURN_IF(source->kind == NEAP_TASK_FEATURES && kind != NEAP_TASK_FEATURES, NEAP_INVALID_ARGUMENT,
            "model '%s' learns from %s, but %s has %s; for %s use model mlp-64 or mlp-64x64", model, learns,
            name, has, has);
  RETURN_IF(task_rows[kind].like != task_rows[source->kind].like, NEAP_INVALID_ARGUMENT,
            "model '%s' learns from %s, but %s has %s; %s has them", model, learns, name, has, other);
  RETURN_IF(kind == NEAP_TASK_PIXELS && source->kind != NEAP_TASK_PIXELS, NEAP_INVALID_ARGUMENT,
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

neap_status settle_shape(const neap_model *model, const char *name, const neap_model_options *asked,
                         const struct loader *loader, neap_model_options *shape) {
  const struct source *source = &loader->source;
  const int64_t length = loader_length(loader);
  neap_model_description about;
  TRY(neap_model_describe(model, &about));
  TRY(check_kind(model, about.task, name, source));
  *shape = *asked;
  shape->classes = source->classes;
  shape->length = shape->source_length = length;
  shape->packed = source->conversations > 0 && source->task.chat.packed;
  const float usual_beta = 0.1f;
  RETURN_IF(asked->beta > 0 && !source->preferences, NEAP_INVALID_ARGUMENT,
            "beta: it does nothing with the data of %s, but applies to preferences (preference:FILE)", name);
  RETURN_IF(
      source->preferences && !about.packs, NEAP_UNSUPPORTED,
      "model '%s' cannot learn from preferences; a transformer of one stack that predicts the next token "
      "can",
      model_name(model));
  if (source->preferences && !(asked->beta > 0)) shape->beta = usual_beta;
  if (about.task == NEAP_TASK_PAIRS) { /* a batch is asked for in tokens of the target */
    const int64_t tokens = asked->batch > 0 ? asked->batch : about.usual.batch * about.usual.length;
    shape->batch = tokens / length > 0 ? tokens / length : 1;
  }
  if (source->kind == NEAP_TASK_TEXTS && shape->head == NEAP_HEAD_USUAL) shape->head = NEAP_HEAD_CLASSES;
  RETURN_IF(source->kind == NEAP_TASK_TEXTS && shape->head == NEAP_HEAD_TOKENS, NEAP_INVALID_ARGUMENT,
            "model '%s' has no classifier of texts; finetune gives it one, and `output` sentence asks for "
            "the vector of a text",
            model_name(model));
  if (length == 0) TRY(settle_input(name, asked, source, shape));
  shape->regression = has_values(source);
  RETURN_IF(shape->regression && (asked->classes > 0 || asked->smoothing > 0), NEAP_INVALID_ARGUMENT,
            "%s has values as labels, for which `classes` and `label-smoothing` do nothing; leave them out",
            name);
  RETURN_IF(asked->classes > 0 && asked->classes < shape->classes, NEAP_INVALID_ARGUMENT,
            "%lld classes are asked for, but %s has %lld", (long long)asked->classes, name,
            (long long)shape->classes);
  if (asked->classes > 0) shape->classes = asked->classes;
  return NEAP_OK;
}
