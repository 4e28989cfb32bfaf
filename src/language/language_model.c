#include "language/language_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "formats/json.h"
#include "graph/graph.h"
#include "language/language_file.h"

bool language_model_is_folder(const char *path) {
  char config[4096];
  const int length = snprintf(config, sizeof config, "%s/config.json", path);
  return length > 0 && (size_t)length < sizeof config && file_is_folder(path) && file_exists(config);
}

/* ---- The graph ---- */

enum { USUAL_LENGTH = 1024, USUAL_BATCH = 4 };

static int64_t usual_length(const struct language_model *m) {
  const int64_t own = m->head.longest > 0 && m->head.longest < m->context ? m->head.longest : m->context;
  return own < USUAL_LENGTH ? own : USUAL_LENGTH;
}

/* Fails if images have another size than the model's, which has an embedding for each of their positions, or
 * if options of sequences are given. */
static neap_status check_image(const struct language_model *m, const neap_model_options *o) {
  const int64_t *own = m->transformer.image;
  RETURN_IF(o->length > 0 || o->decode > 0 || o->window > 0, NEAP_INVALID_ARGUMENT,
            "%s: is a model of images: length, window and decode do not apply", m->path);
  for (int i = 0; i < 3; i++)
    RETURN_IF(o->image[i] > 0 && o->image[i] != own[i], NEAP_INVALID_ARGUMENT,
              "%s: needs images of %lldx%lldx%lld (got %lldx%lldx%lld); set that size (`image`)", m->path,
              (long long)own[0], (long long)own[1], (long long)own[2], (long long)o->image[0],
              (long long)o->image[1], (long long)o->image[2]);
  return NEAP_OK;
}

static neap_status check_kind(const struct language_model *m, const neap_model_options *o) {
  const bool texts = m->transformer.head != STACK_TOKENS;
  if (m->family->kind == NEAP_TASK_IMAGES) return check_image(m, o);
  RETURN_IF(!texts && o->classes > m->transformer.vocabulary, NEAP_INVALID_ARGUMENT,
            "%s: has a vocabulary of %lld tokens, but the data have %lld; use the model's own tokenizer",
            m->path, (long long)m->transformer.vocabulary, (long long)o->classes);
  RETURN_IF((!texts && o->regression) || o->image[0] > 0, NEAP_INVALID_ARGUMENT,
            "%s: is a language model: it predicts tokens, not values, and takes no images", m->path);
  RETURN_IF(o->decode > 0 && (texts || m->family->kind != NEAP_TASK_TOKENS || o->window > 0),
            NEAP_INVALID_ARGUMENT, "%s: %s", m->path,
            o->window > 0 ? "a graph that decodes cannot have another window"
                          : "does not predict the next token, so it cannot decode");
  return NEAP_OK;
}

static neap_status check_options(const struct language_model *m, const neap_model_options *o) {
  RETURN_IF(o->batch < 0 || o->classes < 0 || o->length < 0 || o->decode < 0 || o->window < 0 || o->side < 0,
            NEAP_INVALID_ARGUMENT, "%s: batch, classes, length, window, decode and side must not be negative",
            m->path);
  TRY(check_kind(m, o));
  RETURN_IF(!(o->dropout >= 0 && o->dropout < 1), NEAP_INVALID_ARGUMENT,
            "%s: dropout must be in [0, 1) (got %g)", m->path, (double)o->dropout);
  const struct transformer *t = &m->transformer;
  RETURN_IF(
      o->packed && (o->decode > 0 || !t->causal || t->head != STACK_TOKENS), NEAP_INVALID_ARGUMENT,
      "%s: cannot pack several sequences into a row: only training of models that predict the next token can",
      m->path);
  RETURN_IF(!(o->beta >= 0 && isfinite(o->beta)), NEAP_INVALID_ARGUMENT, "%s: beta must be positive (got %g)",
            m->path, (double)o->beta);
  RETURN_IF(o->beta > 0 && (o->decode > 0 || o->packed || o->smoothing > 0 || !t->causal ||
                            t->head != STACK_TOKENS || t->logit_cap > 0),
            NEAP_UNSUPPORTED,
            "%s: cannot learn from preferences: only models that predict the next token can, whose logits "
            "have no cap, without label smoothing and with a sequence in each row",
            m->path);
  const int64_t window = t->window;
  RETURN_IF(o->decode > 0 && window > 0 && o->decode >= window, NEAP_UNSUPPORTED,
            "%s: attention has a window of %lld tokens, and prompt and answer must not exceed it together "
            "(got %lld); ask for fewer tokens",
            m->path, (long long)window, (long long)o->decode + 1);
  const int64_t length = o->decode > 0 ? o->decode : o->length;
  RETURN_IF(m->transformer.places > 0 && length > m->transformer.places, NEAP_INVALID_ARGUMENT,
            "%s: has positions for %lld tokens (got a length of %lld)", m->path,
            (long long)m->transformer.places, (long long)length);
  return NEAP_OK;
}

/* Checks that every parameter of the graph has a tensor of its shape in the file, and gives it the tensor's
 * type. */
static neap_status take_shapes(const struct language_model *m, neap_graph *graph) {
  for (size_t i = 0; i < graph->tensors.count; i++) {
    struct tensor *t = &graph->tensors.data[i];
    if (t->role != NEAP_ROLE_PARAMETER || t->view_of >= 0 || t->adapter) continue;
    const int32_t index = language_file_find(m, t->name);
    RETURN_IF(index < 0, NEAP_UNSUPPORTED, "%s: the location of the weight '%s' is unknown", m->path,
              t->name);
    const struct origin *o = &m->origins[index];
    bool same = t->rank == o->rank;
    for (int d = 0; same && d < o->rank; d++) same = t->dims[d] == o->dims[d];
    RETURN_IF(!same, NEAP_BAD_FORMAT,
              "%s: the weight '%s' has shape %s in the file, but %s by its description", m->path, o->name,
              dims_text(o->rank, o->dims).text, shape_text(t).text);
    t->kept = o->made || o->part == PART_CLASSIFIER;
    if (t->kept) t->frozen = false;
    t->origin = language_file_is_less(m, o);
    if (m->config == NULL && o->rank == 2) t->file_dtype = m->gguf.tensors[o->tensor].dtype;
    if (o->packed != NULL && packed_weight_has_blocks(o->packed)) t->file_dtype = o->packed->dtype;
    t->file_bytes = language_file_bytes(m, o);
  }
  return NEAP_OK;
}

static neap_status build_graph(const struct language_model *m, const neap_model_options *o,
                               neap_graph **graph) {
  const struct blueprint p = {.batch = o->batch > 0 ? o->batch : USUAL_BATCH,
                              .classes = m->transformer.vocabulary,
                              .length = o->length > 0 ? o->length : usual_length(m),
                              .places = m->transformer.places,
                              .decode = o->decode,
                              .window = o->window,
                              .attention = o->attention,
                              .packed = o->packed,
                              .beta = o->beta,
                              .smoothing = o->smoothing,
                              .dropout = o->dropout,
                              .side = o->side};
  TRY(check_options(m, o));
  neap_builder *b = neap_builder_create(m->family->model_type);
  neap_status status = neap_builder_finish(b, transformer_build(b, &m->transformer, &p), graph);
  if (status == NEAP_INVALID_ARGUMENT) {
    const char *message = region_string((struct region *)&m->region, neap_error_message());
    status = neap_fail(status, "%s: %s", m->path, message != NULL ? message : "");
  }
  neap_builder_free(b);
  TRY(status);
  status = take_shapes(m, *graph);
  if (status != NEAP_OK) {
    neap_graph_free(*graph);
    *graph = NULL;
  }
  return status;
}

/* ---- The questions ---- */

static void describe(const struct language_model *m, neap_model_description *about) {
  const bool texts = m->transformer.head != STACK_TOKENS, images = m->family->kind == NEAP_TASK_IMAGES;
  const int64_t window = m->transformer.window;
  *about = (neap_model_description){
      .usual = {.batch = USUAL_BATCH,
                .classes = texts ? m->transformer.outputs : m->transformer.vocabulary,
                .length = images ? 0 : usual_length(m),
                .regression = m->transformer.values,
                .head = m->head.own},
      .task = texts && !images ? NEAP_TASK_TEXTS : m->family->kind,
      .places = window > 0 && window < m->context ? window : m->context,
      .packs = true};
  if (images) memcpy(about->usual.image, m->transformer.image, sizeof about->usual.image);
}

neap_status language_model_open(const char *path, bool masked, void **model) {
  struct language_model *opened, m;
  (void)masked; /* which follows from the family */
  TRY(language_file_open(path, &opened));
  const neap_status status = language_file_with(opened, &(neap_model_options){0}, &m);
  if (status == NEAP_OK) describe(&m, &opened->about);
  language_file_release(&m);
  if (status == NEAP_OK)
    *model = opened;
  else
    language_file_close(opened);
  return status;
}

void language_model_close(void *model) { language_file_close(model); }

neap_status language_model_describe(const void *model, neap_model_description *about) {
  *about = ((const struct language_model *)model)->about;
  return NEAP_OK;
}

const char *language_model_digest(const void *model) {
  return ((const struct language_model *)model)->digest;
}

neap_status language_model_build(const void *model, const neap_model_options *options, neap_graph **graph) {
  struct language_model m;
  neap_status status = language_file_with(model, options, &m);
  if (status == NEAP_OK) status = build_graph(&m, options, graph);
  language_file_release(&m);
  return status;
}

neap_status language_model_labels(const void *model, struct region *region, struct task_labels *labels) {
  const struct language_model *m = model;
  const struct task_labels *own = &m->head.labels;
  const char **names = region_alloc(region, (size_t)own->count, sizeof *names);
  bool whole = names != NULL;
  for (int64_t i = 0; whole && i < own->count; i++)
    whole = (names[i] = region_string(region, own->names[i])) != NULL;
  RETURN_IF(!whole, NEAP_OUT_OF_MEMORY, "%s: out of memory", m->path);
  *labels = (struct task_labels){own->count, names, own->values};
  return NEAP_OK;
}

neap_status language_model_pixels(const void *model, struct task_pixels *pixels) {
  const struct language_model *m = model;
  struct region region = {0};
  if (m->family->kind != NEAP_TASK_IMAGES) return NEAP_OK;
  const neap_status status =
      language_head_pixels(&(struct model_keys){.path = m->path}, m->transformer.image[0], &region, pixels);
  region_free(&region);
  return status;
}

neap_status language_model_new_layers(const void *model, const neap_model_options *options,
                                      struct region *region, const char **layers) {
  struct language_model m;
  neap_status status = language_file_with(model, options, &m);
  for (int32_t i = 0; status == NEAP_OK && i < m.origin_count; i++) {
    const struct origin *o = &m.origins[i];
    if (!o->made || strcmp(o->suffix, "weight") != 0) continue;
    *layers = region_format(region, "%s%s%s", *layers != NULL ? *layers : "", *layers != NULL ? ", " : "",
                            m.transformer.parts[o->part].name);
    if (*layers == NULL) status = neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", m.path);
  }
  language_file_release(&m);
  return status;
}

neap_status language_model_understood(const void *model, struct region *region,
                                      struct understood *understood) {
  struct language_model *m = (void *)model;
  const struct model_keys keys = {.path = m->path,
                                  .config = m->config,
                                  .gguf = &m->gguf,
                                  .architecture = gguf_text(&m->gguf, "general.architecture"),
                                  .asked = &m->asked};
  TRY(keys_tell_unused(&keys, region, understood));
  if (m->transformer.parts[PART_GLOBAL_QUERY].name != NULL)
    TRY(understood_add(understood, region,
                       (neap_understood){"global tokens", "chosen by attention (global=N)", -1,
                                         "no key of the model names them; without attention no token is, "
                                         "but the first token of a text that is classified"}));
  return packed_weight_tell(json_object_get(m->config, "quantization_config"), region, understood);
}
