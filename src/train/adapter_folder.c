#include "train/adapter_folder.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "formats/json.h"
#include "rewrite/rewrite.h"
#include "session/choose.h"
#include "weights/averages.h"
#include "weights/variables.h"
#include "zoo/side_net.h"

/* The files of a folder. */
static const struct folder_form {
  const char *config, *weights, *prefix; /* two files; and what names of tensors begin with */
} adapter_form = {"adapter_config.json", "adapter_model.safetensors", ADAPTER_PREFIX},
  side_form = {"side_config.json", "side_model.safetensors", ""};
static const char side_format[] = "neap-side-net";
enum { SIDE_VERSION = 1 };

static const char part_a[] = ".lora_A.weight", part_b[] = ".lora_B.weight",
                  part_m[] = ".lora_magnitude_vector";

static bool ends_with(const char *text, const char *end) {
  const size_t length = strlen(text), of = strlen(end);
  return length >= of && strcmp(text + length - of, end) == 0;
}

/* ---- Reading ---- */

/* Fields that change the arithmetic, and the only value of each that Neap supports. */
static const struct {
  const char *field, *value;
} plain_fields[] = {
    {"bias", "\"none\""}, {"alpha_pattern", "{}"}, {"lora_bias", "false"}, {"layer_replication", "null"}};

static neap_status need_plain(const json_t *top, const char *path) {
  for (size_t i = 0; i < sizeof plain_fields / sizeof *plain_fields; i++) {
    const json_t *value = json_object_get(top, plain_fields[i].field);
    json_t *plain = json_loads(plain_fields[i].value, JSON_DECODE_ANY, NULL);
    const bool same = value == NULL || json_is_null(value) || json_equal(value, plain);
    json_decref(plain);
    RETURN_IF(!same, NEAP_UNSUPPORTED, "%s: field '%s': only adapters with the value %s are supported", path,
              plain_fields[i].field, plain_fields[i].value);
  }
  return NEAP_OK;
}

/* Reads a field that is true or false; missing or null it is false. */
static neap_status get_flag(const json_t *top, const char *field, const struct json_place *place,
                            bool *flag) {
  const json_t *value = json_object_get(top, field);
  *flag = json_is_true(value);
  return value == NULL || json_is_null(value) || json_is_boolean(value)
             ? NEAP_OK
             : json_bad_field(place, field, "must be true or false");
}

static neap_status get_config(const json_t *top, const char *path, struct adapter_config *config) {
  const struct json_place place = {.file = path};
  const char *kind;
  uint64_t rank;
  TRY(json_need_string(top, "peft_type", &place, &kind));
  RETURN_IF(strcmp(kind, "LORA") != 0, NEAP_UNSUPPORTED,
            "%s: field 'peft_type': is '%s'; only LORA is supported", path, kind);
  TRY(json_need_size(top, "r", &place, &rank));
  TRY(json_need_number(top, "lora_alpha", &place, &config->alpha));
  if (rank < 1 || rank > INT32_MAX) return json_bad_field(&place, "r", "must be 1 or more");
  if (!(config->alpha >= 0)) return json_bad_field(&place, "lora_alpha", "must not be negative");
  config->rank = (int64_t)rank;
  TRY(get_flag(top, "use_rslora", &place, &config->root));
  TRY(get_flag(top, "use_dora", &place, &config->dora));
  const json_t *ranks = json_object_get(top, "rank_pattern"); /* the shapes of tensors say the same */
  if (ranks != NULL && !json_is_null(ranks) && !json_is_object(ranks))
    return json_bad_field(&place, "rank_pattern", "must be an object of ranks by name");
  return need_plain(top, path);
}

static neap_status get_side(const json_t *top, const char *path, int64_t *divisor) {
  const struct json_place place = {.file = path};
  const char *format;
  uint64_t version, side;
  TRY(json_need_string(top, "format", &place, &format));
  if (strcmp(format, side_format) != 0) return json_bad_field(&place, "format", "must be 'neap-side-net'");
  TRY(json_need_size(top, "version", &place, &version));
  RETURN_IF(version != SIDE_VERSION, NEAP_UNSUPPORTED, "%s: field 'version': is %llu; only %d is supported",
            path, (unsigned long long)version, SIDE_VERSION);
  TRY(json_need_size(top, "side", &place, &side));
  if (side < 1 || side > INT32_MAX) return json_bad_field(&place, "side", "must be 1 or more");
  *divisor = (int64_t)side;
  return NEAP_OK;
}

/* Reads the object in a file of the folder; the caller frees it with json_decref. `path` is the region's. */
static neap_status read_object(const char *folder, const char *file, const char *hint, struct region *region,
                               const char **path, json_t **top) {
  *top = NULL;
  *path = region_format(region, "%s/%s", folder, file);
  RETURN_IF_NULL(*path);
  RETURN_IF(!file_exists(*path), NEAP_IO_FAILED, "%s: is missing; give a folder that %s", *path, hint);
  TRY(json_read_strict(*path, top));
  return json_is_object(*top) ? NEAP_OK : neap_fail(NEAP_BAD_FORMAT, "%s: is not an object", *path);
}

neap_status side_config_read(const char *folder, int64_t *divisor) {
  struct region region = {0};
  const char *path;
  json_t *top;
  *divisor = 0;
  neap_status status = read_object(folder, side_form.config, "`neap export` wrote for a run with a side net",
                                   &region, &path, &top);
  if (status == NEAP_OK) status = get_side(top, path, divisor);
  json_decref(top);
  region_free(&region);
  return status;
}

neap_status adapter_config_read(const char *folder, struct adapter_config *config) {
  struct region region = {0};
  const char *path;
  json_t *top;
  *config = (struct adapter_config){0};
  neap_status status = read_object(folder, adapter_form.config, "peft saved", &region, &path, &top);
  if (status == NEAP_OK) status = get_config(top, path, config);
  json_decref(top);
  region_free(&region);
  return status;
}

/* Checks, before anything is loaded, that the file has each adapter of the session, in its shape, and no
 * other tensor. */
static neap_status check_tensors(const neap_session *session, const struct safetensors *file,
                                 const struct folder_form *form) {
  const size_t prefix = strlen(form->prefix);
  const char *which = form == &side_form ? "give the divisor and the model of that side net"
                                         : "ask for the layers that it has (lora_layers)";
  for (int32_t i = 0; i < neap_session_variable_count(session); i++) {
    neap_variable v;
    char name[512];
    TRY(neap_session_variable(session, i, &v));
    if (v.kind != NEAP_VARIABLE_PARAMETER || !variable_is_adapter(session, i)) continue;
    snprintf(name, sizeof name, "%s%s", form->prefix, v.name);
    const int32_t index = safetensors_find(file, name);
    RETURN_IF(index < 0, NEAP_INVALID_ARGUMENT, "%s: has no '%s', an adapter of this run; %s", file->path,
              name, which);
    const struct safetensors_tensor *t = &file->tensors[index];
    RETURN_IF(
        t->rank != v.rank || memcmp(t->dims, v.dims, sizeof *v.dims * (size_t)v.rank) != 0,
        NEAP_INVALID_ARGUMENT,
        "%s: '%s' is %s, but in this run %s; the file belongs to another model, or has another rank for this "
        "layer (PATTERN=RANK in the list of layers)",
        file->path, name, dims_text(t->rank, t->dims).text, dims_text(v.rank, v.dims).text);
  }
  for (int32_t i = 0; i < file->tensor_count; i++) {
    const char *name = file->tensors[i].name;
    const bool own = strncmp(name, form->prefix, prefix) == 0 && session_changes(session, name + prefix);
    RETURN_IF(!own, NEAP_INVALID_ARGUMENT, "%s: has '%s', which this run does not train; %s", file->path,
              name, which);
  }
  return NEAP_OK;
}

/* Checks the file of the folder, and loads it. */
static neap_status read_weights(const char *folder, const struct folder_form *form, neap_session *session) {
  struct region region = {0};
  struct safetensors file = {0};
  const char *path = region_format(&region, "%s/%s", folder, form->weights),
             *map = region_format(&region, "%s*=*", form->prefix);
  neap_status status = path == NULL || map == NULL
                           ? neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", folder)
                           : safetensors_open(path, &file);
  if (status == NEAP_OK) status = check_tensors(session, &file, form);
  safetensors_close(&file);
  if (status == NEAP_OK) status = neap_session_initialise(session, path, map, NULL);
  if (status == NEAP_OK) status = session_need_finite(session, path);
  region_free(&region);
  return status;
}

static neap_status check_side(const char *folder, int64_t side) {
  int64_t divisor;
  TRY(side_config_read(folder, &divisor));
  RETURN_IF(divisor != side, NEAP_INVALID_ARGUMENT,
            "%s: has a side net whose widths are divided by %lld, but this run divides them by %lld; give a "
            "side of %lld",
            folder, (long long)divisor, (long long)side, (long long)divisor);
  return NEAP_OK;
}

static neap_status check_adapters(const char *folder, const neap_session_options *options) {
  struct adapter_config config;
  const double alpha =
      options->lora_alpha == 0 && !signbit(options->lora_alpha) ? 8 : fabs((double)options->lora_alpha);
  TRY(adapter_config_read(folder, &config));
  RETURN_IF(config.rank != options->lora, NEAP_INVALID_ARGUMENT,
            "%s: has adapters of rank %lld, but this run has rank %d; give `lora` %lld", folder,
            (long long)config.rank, options->lora, (long long)config.rank);
  RETURN_IF((float)config.alpha != (float)alpha, NEAP_INVALID_ARGUMENT,
            "%s: has adapters of alpha %g, but this run has alpha %g; give `lora-alpha` %g", folder,
            config.alpha, alpha, config.alpha);
  RETURN_IF(config.root != options->lora_rs, NEAP_INVALID_ARGUMENT,
            "%s: has adapters scaled by alpha over %s of their rank, unlike this run; %s rsLoRA", folder,
            config.root ? "the root" : "all", config.root ? "give" : "leave out");
  RETURN_IF(config.dora != options->lora_dora, NEAP_INVALID_ARGUMENT,
            "%s: has adapters %s lengths of weights (DoRA), unlike this run; %s DoRA", folder,
            config.dora ? "with" : "without", config.dora ? "give" : "leave out");
  return NEAP_OK;
}

neap_status adapter_folder_read(const char *folder, const neap_session_options *options, int64_t side,
                                neap_session *session) {
  TRY(side > 0 ? check_side(folder, side) : check_adapters(folder, options));
  return read_weights(folder, side > 0 ? &side_form : &adapter_form, session);
}

/* ---- Writing ---- */

struct writing {
  const struct adapter_export *from;
  const struct folder_form *form;
  const struct neap_graph *graph; /* with adapters */
  struct region region;
  struct safetensors_tensor *tensors; /* to be written; */
  struct written_part *parts;         /* theirs of the weights; */
  size_t count;                       /* how many */
};

/* Elements of a tensor of the weights. */
struct written_part {
  int32_t index;
  int64_t first;
};

static bool is_trained(const struct tensor *t) {
  return t->role == NEAP_ROLE_PARAMETER && t->view_of < 0 && !t->frozen;
}

/* Returns a part of the adapter of the module that has the first `length` bytes of the name; NULL: none. */
static const struct tensor *part_of(const struct neap_graph *graph, const char *name, size_t length,
                                    const char *part) {
  for (size_t i = 0; i < graph->tensors.count; i++) {
    const struct tensor *t = &graph->tensors.data[i];
    if (t->adapter && strncmp(t->name, name, length) == 0 && strcmp(t->name + length, part) == 0) return t;
  }
  return NULL;
}

/* Returns the rank of the adapter of a module: A of experts has as many rows for each, B has it once. */
static int64_t rank_of(const struct neap_graph *graph, const char *name, size_t length) {
  const struct tensor *b = part_of(graph, name, length, part_b);
  return b != NULL ? b->dims[1] : 1;
}

/* Returns the experts that an adapter's part belongs to. */
static int64_t experts_of(const struct writing *w, const struct tensor *t) {
  const char *part = strstr(t->name, ".lora_");
  if (part == NULL) return 1;
  const size_t length = (size_t)(part - t->name);
  const struct tensor *a = part_of(w->graph, t->name, length, part_a);
  return a != NULL ? a->dims[0] / rank_of(w->graph, t->name, length) : 1;
}

/* Returns the name of a tensor of the folder. Where a variable is "X.experts.Y", that of expert N is
 * "X.experts.N.Y". */
static const char *name_of(struct writing *w, const char *name, int64_t expert) {
  static const char experts[] = "experts.";
  const char *at = expert >= 0 ? strstr(name, experts) : NULL;
  if (at == NULL) return region_format(&w->region, "%s%s", w->form->prefix, name);
  at += sizeof experts - 1;
  return region_format(&w->region, "%s%.*s%lld.%s", w->form->prefix, (int)(at - name), name,
                       (long long)expert, at);
}

static neap_status list_tensor(struct writing *w, const struct tensor *t) {
  const struct safetensors *weights = w->from->weights;
  const int32_t index = averages_tensor(weights, t->name);
  RETURN_IF(index < 0, NEAP_BAD_FORMAT, "%s: has no tensor '%s', which was trained", weights->path, t->name);
  const struct safetensors_tensor *found = &weights->tensors[index];
  TRY(safetensors_need_real(weights, index));
  RETURN_IF(found->elements != t->elements, NEAP_BAD_FORMAT,
            "%s: tensor '%s': its shape is not that in this model", weights->path, t->name);
  const int64_t experts = t->adapter ? experts_of(w, t) : 1;
  for (int64_t e = 0; e < experts; e++) {
    struct safetensors_tensor *made = &w->tensors[w->count];
    *made = *found;
    made->dims[0] /= experts;
    made->elements /= experts;
    made->name = name_of(w, t->name, experts > 1 ? e : -1);
    RETURN_IF_NULL(made->name);
    w->parts[w->count++] = (struct written_part){index, e * made->elements};
  }
  return NEAP_OK;
}

static neap_status list_tensors(struct writing *w) {
  const size_t count = w->graph->tensors.count;
  size_t most = 0;
  for (size_t t = 0; t < count; t++) {
    const struct tensor *one = &w->graph->tensors.data[t];
    if (is_trained(one)) most += one->adapter ? (size_t)experts_of(w, one) : 1;
  }
  w->tensors = region_alloc(&w->region, most, sizeof *w->tensors);
  w->parts = region_alloc(&w->region, most, sizeof *w->parts);
  RETURN_IF(w->tensors == NULL || w->parts == NULL, NEAP_OUT_OF_MEMORY, "out of memory for adapters");
  for (size_t t = 0; t < count; t++)
    if (is_trained(&w->graph->tensors.data[t])) TRY(list_tensor(w, &w->graph->tensors.data[t]));
  return NEAP_OK;
}

static neap_status read_tensor(void *context, int32_t tensor, float *data) {
  const struct writing *w = context;
  const struct written_part *part = &w->parts[tensor];
  return safetensors_read_part(w->from->weights, part->index, part->first, w->tensors[tensor].elements, false,
                               data);
}

/* Returns the length of "a.b" in "a.b.weight", or in "a.b.lora_A.weight" with that ending. */
static size_t module_length(const char *name, const char *ending) {
  if (ends_with(name, ending)) return strlen(name) - strlen(ending);
  const char *dot = strrchr(name, '.');
  return dot != NULL ? (size_t)(dot - name) : strlen(name);
}

/* Returns the last part of a module's name. */
static const char *leaf_of(const char *name, size_t length) {
  const char *leaf = name + length;
  while (leaf > name && leaf[-1] != '.') leaf--;
  return leaf;
}

static bool has_adapter(const struct neap_graph *graph, const char *name, size_t length) {
  for (size_t t = 0; t < graph->tensors.count; t++) {
    const struct tensor *other = &graph->tensors.data[t];
    if (other->adapter && ends_with(other->name, part_a) && module_length(other->name, part_a) == length &&
        memcmp(other->name, name, length) == 0)
      return true;
  }
  return false;
}

/* Returns true if each module whose name ends with this leaf has an adapter: then the leaf means all of
 * them. */
static bool leaf_is_enough(const struct neap_graph *graph, const char *leaf, size_t length) {
  for (size_t t = 0; t < graph->tensors.count; t++) {
    const struct tensor *other = &graph->tensors.data[t];
    if (other->role != NEAP_ROLE_PARAMETER || other->view_of >= 0 || other->adapter) continue;
    const size_t module = module_length(other->name, ".weight");
    const char *its = leaf_of(other->name, module);
    if (module - (size_t)(its - other->name) == length && memcmp(its, leaf, length) == 0 &&
        !has_adapter(graph, other->name, module))
      return false;
  }
  return true;
}

/* Adds a text unless the list has it. */
static bool add_text(json_t *list, const char *text, size_t length) {
  json_t *one = json_stringn(text, length), *other;
  size_t i;
  json_array_foreach(list, i, other) if (json_equal(one, other)) {
    json_decref(one);
    return true;
  }
  return json_array_append_new(list, one) == 0;
}

/* Returns the length of the module that peft saves whole: a classifier with all of its layers. */
static size_t saved_length(const char *name, size_t length) {
  static const char classifier[] = "classifier.";
  const size_t end = sizeof classifier - 1;
  return length > end && strncmp(name, classifier, end) == 0 ? end - 1 : length;
}

/* Lists target_modules; modules_to_save: other modules that were trained; and rank_pattern. */
static bool list_modules(const struct writing *w, json_t *targets, json_t *saved, json_t *ranks,
                         int64_t *layers) {
  const struct neap_graph *graph = w->graph;
  bool whole = true;
  for (size_t t = 0; t < graph->tensors.count; t++) {
    const struct tensor *tensor = &graph->tensors.data[t];
    if (!is_trained(tensor) || ends_with(tensor->name, part_b) || ends_with(tensor->name, part_m)) continue;
    const size_t length = module_length(tensor->name, tensor->adapter ? part_a : ".weight");
    const char *leaf = leaf_of(tensor->name, length);
    const size_t leaf_length = length - (size_t)(leaf - tensor->name);
    *layers += tensor->adapter;
    const int64_t rank = tensor->adapter ? rank_of(graph, tensor->name, length) : 0;
    if (tensor->adapter && rank != w->from->session->lora)
      whole = whole && json_object_setn_new(ranks, tensor->name, length, json_integer(rank)) == 0;
    if (!tensor->adapter)
      whole = whole && add_text(saved, tensor->name, saved_length(tensor->name, length));
    else if (leaf_is_enough(graph, leaf, leaf_length))
      whole = whole && add_text(targets, leaf, leaf_length);
    else
      whole = whole && add_text(targets, tensor->name, length);
  }
  return whole;
}

static json_t *config_json(const struct writing *w, int64_t *layers) {
  const neap_session_options *o = w->from->session;
  json_t *targets = json_array(), *saved = json_array(), *ranks = json_object();
  const double alpha = fabs((double)o->lora_alpha);
  const bool whole = list_modules(w, targets, saved, ranks, layers);
  if (json_array_size(saved) == 0) {
    json_decref(saved);
    saved = json_null();
  }
  json_t *config =
      json_pack("{s:s, s:i, s:o, s:f, s:o, s:s, s:s?, s:s, s:b, s:b, s:b, s:b, s:o, s:b, s:o}", "peft_type",
                "LORA", "r", o->lora, "lora_alpha",
                alpha == floor(alpha) && alpha < 1e9 ? json_integer((json_int_t)alpha) : json_real(alpha),
                "lora_dropout", (double)o->lora_dropout, "target_modules", targets, "bias", "none",
                "task_type", w->from->task, "base_model_name_or_path", w->from->base, "fan_in_fan_out", 0,
                "use_rslora", (int)o->lora_rs, "use_dora", (int)o->lora_dora, "inference_mode", 1,
                "modules_to_save", saved, "init_lora_weights", 1, "rank_pattern", ranks);
  if (whole) return config;
  json_decref(config);
  return NULL;
}

/* `*layers`: the gates, one behind each layer. */
static json_t *side_json(const struct writing *w, int64_t *layers) {
  for (size_t t = 0; t < w->graph->tensors.count; t++)
    *layers += strncmp(w->graph->tensors.data[t].name, SIDE_GATE, strlen(SIDE_GATE)) == 0;
  return json_pack("{s:s, s:i, s:I, s:s?, s:s?}", "format", side_format, "version", SIDE_VERSION, "side",
                   (json_int_t)w->from->side, "base_model_name_or_path", w->from->base, "task_type",
                   w->from->task);
}

static neap_status write_config(struct writing *w, const char *folder, int64_t *layers) {
  const char *path = region_format(&w->region, "%s/%s", folder, w->form->config);
  RETURN_IF_NULL(path);
  json_t *config = w->from->side > 0 ? side_json(w, layers) : config_json(w, layers);
  RETURN_IF(config == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory, or a name is not UTF-8", path);
  const neap_status status = json_write(config, path);
  json_decref(config);
  return status;
}

static neap_status write_all(struct writing *w, const char *folder, int64_t *layers) {
  static const struct safetensors_text metadata[] = {{"format", "pt"}};
  const char *path = region_format(&w->region, "%s/%s", folder, w->form->weights);
  RETURN_IF_NULL(path);
  TRY(list_tensors(w));
  RETURN_IF(mkdir(folder, 0777) != 0 && errno != EEXIST, NEAP_IO_FAILED, "%s: cannot be made: %s", folder,
            strerror(errno));
  TRY(safetensors_save(path, &(struct safetensors_content){.tensors = w->tensors,
                                                           .tensor_count = (int32_t)w->count,
                                                           .metadata = metadata,
                                                           .metadata_count = 1,
                                                           .read = read_tensor,
                                                           .context = w}));
  return write_config(w, folder, layers);
}

neap_status adapter_folder_write(const struct adapter_export *from, const char *folder, int64_t *layers) {
  struct writing w = {
      .from = from, .form = from->side > 0 ? &side_form : &adapter_form, .graph = from->graph};
  struct neap_graph *adapted = NULL;
  *layers = 0;
  neap_status status = from->side > 0 ? NEAP_OK : make_adapted_graph(from->graph, from->session, &adapted);
  if (adapted != NULL) w.graph = adapted;
  if (status == NEAP_OK) status = write_all(&w, folder, layers);
  region_free(&w.region);
  neap_graph_free(adapted);
  return status;
}
