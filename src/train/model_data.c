#include "train/model_data.h"

#include "train/data_open.h"
#include "zoo/zoo.h"

neap_status open_data(const char *model, const char *name, const neap_model_options *asked, int threads,
                      struct data_set *data) {
  neap_model_options usual;
  bool pixels;
  TRY(model_usual(model, &usual, &pixels));
  struct data_wish wish = {.classes = asked->classes > 0 ? asked->classes : usual.classes,
                           .batch = asked->batch > 0 ? asked->batch : usual.batch,
                           .pixels = pixels,
                           .threads = threads};
  for (int i = 0; i < 3; i++) wish.image[i] = asked->image[i] > 0 ? asked->image[i] : usual.image[i];
  return data_open_as(name, &wish, data);
}

neap_status settle_shape(const char *model, const char *name, const neap_model_options *asked,
                         const struct data_set *data, neap_model_options *shape) {
  neap_model_options usual;
  bool pixels;
  TRY(model_usual(model, &usual, &pixels));
  RETURN_IF(pixels && data->pixel_classes == 0, NEAP_INVALID_ARGUMENT,
            "model '%s' classifies pixels, but %s has a class for an image only; 'synthetic' has maps", model,
            name);
  *shape = *asked;
  shape->classes = pixels ? data->pixel_classes : data->classes;
  for (int i = 0; i < 3; i++) {
    shape->image[i] = data->image[i];
    RETURN_IF(asked->image[i] > 0 && asked->image[i] != data->image[i], NEAP_INVALID_ARGUMENT,
              "images of %lldx%lldx%lld are asked for, but %s has %lldx%lldx%lld", (long long)asked->image[0],
              (long long)asked->image[1], (long long)asked->image[2], name, (long long)data->image[0],
              (long long)data->image[1], (long long)data->image[2]);
  }
  RETURN_IF(asked->classes > 0 && asked->classes < shape->classes, NEAP_INVALID_ARGUMENT,
            "%lld classes are asked for, but %s has %lld", (long long)asked->classes, name,
            (long long)shape->classes);
  if (asked->classes > 0) shape->classes = asked->classes;
  return NEAP_OK;
}
