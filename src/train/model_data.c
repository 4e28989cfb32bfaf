#include "train/model_data.h"

#include <string.h>

#include "train/data_open.h"
#include "zoo/zoo.h"

neap_status open_data(const char *model, const char *name, const neap_model_options *asked, int threads,
                      struct data_set *data) {
  neap_model_options usual;
  struct data_wish wish = {.threads = threads};
  TRY(model_usual(model, &usual, &wish.kind));
  wish.classes = asked->classes > 0 ? asked->classes : usual.classes;
  wish.asked = asked->classes;
  wish.batch = asked->batch > 0 ? asked->batch : usual.batch;
  wish.length = asked->length > 0 ? asked->length : usual.length;
  wish.width = usual.image[0];
  for (int i = 0; i < 3; i++) wish.image[i] = asked->image[i] > 0 ? asked->image[i] : usual.image[i];
  return data_open_as(name, &wish, data);
}

/* Whether the model can learn from what the data are. */
static neap_status check_kind(const char *model, enum model_kind kind, const char *name,
                              const struct data_set *data) {
  static const char *const learns[] = {"images",
                                       "images",
                                       "sequences of tokens",
                                       "sequences of tokens",
                                       "sequences of vectors",
                                       "pairs of sequences"};
  RETURN_IF(strcmp(learns[kind], learns[data->kind]) != 0, NEAP_INVALID_ARGUMENT,
            "model '%s' learns from %s, but %s has %s; %s has them", model, learns[kind], name,
            learns[data->kind], kind == MODEL_PAIRS ? "parallel:DIR:de-en" : "'synthetic'");
  RETURN_IF(kind == MODEL_PIXELS && data->pixel_classes == 0, NEAP_INVALID_ARGUMENT,
            "model '%s' classifies pixels, but %s has a class for an image only; 'synthetic' has maps", model,
            name);
  return NEAP_OK;
}

static neap_status settle_image(const char *name, const neap_model_options *asked,
                                const struct data_set *data, neap_model_options *shape) {
  for (int i = 0; i < 3; i++) {
    shape->image[i] = data->image[i];
    RETURN_IF(asked->image[i] > 0 && asked->image[i] != data->image[i], NEAP_INVALID_ARGUMENT,
              "images of %lldx%lldx%lld are asked for, but %s has %lldx%lldx%lld", (long long)asked->image[0],
              (long long)asked->image[1], (long long)asked->image[2], name, (long long)data->image[0],
              (long long)data->image[1], (long long)data->image[2]);
  }
  return NEAP_OK;
}

neap_status settle_shape(const char *model, const char *name, const neap_model_options *asked,
                         const struct data_set *data, neap_model_options *shape) {
  neap_model_options usual;
  enum model_kind kind;
  TRY(model_usual(model, &usual, &kind));
  TRY(check_kind(model, kind, name, data));
  *shape = *asked;
  shape->classes = kind == MODEL_PIXELS ? data->pixel_classes : data->classes;
  shape->length = shape->source_length = data->length;
  if (kind == MODEL_PAIRS) { /* a batch is asked for in tokens of the target */
    const int64_t tokens = asked->batch > 0 ? asked->batch : usual.batch * usual.length;
    shape->batch = tokens / data->length > 0 ? tokens / data->length : 1;
  }
  if (data->length == 0) TRY(settle_image(name, asked, data, shape));
  RETURN_IF(asked->classes > 0 && asked->classes < shape->classes, NEAP_INVALID_ARGUMENT,
            "%lld classes are asked for, but %s has %lld", (long long)asked->classes, name,
            (long long)shape->classes);
  if (asked->classes > 0) shape->classes = asked->classes;
  return NEAP_OK;
}
