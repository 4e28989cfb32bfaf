/* Reading the variables of a session: all of them, or those that fit. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rewrite/rewrite.h"
#include "session/session_memory.h"
#include "weights/averages.h"
#include "weights/positions.h"
#include "weights/sparse.h"
#include "weights/variables.h"
#include "weights/weight_files.h"

/* The place from which a variable is read; file NULL: it is not read. */
struct place {
  const struct safetensors *file;
  int32_t index;
};

/* The counters that belong to the states; a file of another program has none of them. */
struct counters {
  uint64_t steps, good_steps;
  double threshold, loss_scale;
};

static neap_status read_count(const struct safetensors *file, const char *key, uint64_t *count) {
  const char *text = safetensors_metadata(file, key);
  if (text == NULL) return NEAP_OK;
  errno = 0;
  const long long number = strtoll(text, NULL, 10);
  RETURN_IF(text[0] == '\0' || text[strspn(text, "0123456789")] != '\0' || errno != 0, NEAP_BAD_FORMAT,
            "%s: __metadata__ '%s' is '%s'; it must be a number from 0 to 2^63 - 1", file->path, key, text);
  *count = (uint64_t)number;
  return NEAP_OK;
}

static neap_status read_positive(const struct safetensors *file, const char *key, double *number) {
  const char *text = safetensors_metadata(file, key);
  if (text == NULL) return NEAP_OK;
  char *end;
  const double value = strtod(text, &end);
  RETURN_IF(end == text || *end != '\0' || !(value > 0 && value < 1e30), NEAP_BAD_FORMAT,
            "%s: __metadata__ '%s' is '%s'; it must be a number above 0", file->path, key, text);
  *number = value;
  return NEAP_OK;
}

static neap_status read_counters(const struct safetensors *file, struct counters *c) {
  TRY(read_count(file, "steps", &c->steps));
  TRY(read_count(file, "good_steps", &c->good_steps));
  TRY(read_positive(file, "sparse_threshold", &c->threshold));
  return read_positive(file, "loss_scale", &c->loss_scale);
}

/* ---- From places ---- */

static struct place values_of(const neap_session *s, const struct place *places, int32_t layer) {
  int32_t i = 0;
  while (s->variables[i].layer != layer || s->variables[i].pool != 0) i++;
  return places[i];
}

/* Loads positions, before values: those of the file, as a tensor or as the indices of values. If it has none,
 * a parameter keeps its largest values; a parameter that is not read gets its first positions. */
static neap_status load_positions(neap_session *s, const struct place *places, float *buffer) {
  TRY(sparse_clear(s));
  for (int32_t i = 0; i < s->variable_count; i++) {
    const struct session_variable *v = &s->variables[i];
    if (v->kind != NEAP_VARIABLE_POSITIONS) continue;
    const struct sparse_layer *layer = &s->sparse->layers[v->layer];
    const struct place own = places[i], values = values_of(s, places, v->layer);
    if (own.file != NULL) {
      TRY(safetensors_read(own.file, own.index, buffer));
    } else if (values.file == NULL) {
      sparse_first_positions(s, v->layer, buffer);
    } else if (values.file->tensors[values.index].indices != NULL) {
      TRY(safetensors_read_positions(values.file, values.index, buffer));
    } else {
      TRY(safetensors_read(values.file, values.index, buffer));
      sparse_largest(layer->elements, sparse_count(layer->elements, s->options.sparse_density), buffer);
    }
    TRY(sparse_write_positions(s, v->layer, buffer));
  }
  return NEAP_OK;
}

/* Loads a variable that is written in parts. `blocks`: of its own type, which are copied unchanged. */
static neap_status load_parts(neap_session *s, int32_t index, struct place place, bool blocks,
                              float *buffer) {
  const int32_t id = s->variables[index].tensor;
  const int64_t elements = place.file->tensors[place.index].elements, part = variable_part(s, index);
  for (int64_t first = 0; first < elements; first += part) {
    const int64_t left = elements - first, count = left < part ? left : part;
    TRY(blocks ? safetensors_read_blocks(place.file, place.index, first, count, buffer)
               : safetensors_read_part(place.file, place.index, first, count, false, buffer));
    TRY(blocks ? session_copy_piece_bytes(s, id, false, first, buffer)
               : session_write_part(s, index, first, buffer));
  }
  return NEAP_OK;
}

/* Loads a variable that is written in parts from values and their indices, which come in no parts. */
static neap_status load_indexed(neap_session *s, int32_t index, struct place place) {
  const struct safetensors_tensor *tensor = &place.file->tensors[place.index];
  float *data = malloc((size_t)tensor->elements * sizeof *data);
  RETURN_IF(data == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory for tensor '%s'", place.file->path,
            tensor->name);
  neap_status status = safetensors_read(place.file, place.index, data);
  if (status == NEAP_OK) status = neap_session_write(s, index, data);
  free(data);
  return status;
}

/* Loads a variable; blocks of its own type are copied unchanged. */
static neap_status load_variable(neap_session *s, int32_t index, struct place place, float *buffer) {
  const char *type = place.file->tensors[place.index].dtype;
  neap_variable variable;
  TRY(neap_session_variable(s, index, &variable));
  const bool blocks =
      dtype_is_quantised(variable.dtype) && strcmp(type, dtype_rows[variable.dtype].safetensors) == 0;
  if (variable_part(s, index) < variable.elements)
    return place.file->tensors[place.index].indices != NULL ? load_indexed(s, index, place)
                                                            : load_parts(s, index, place, blocks, buffer);
  if (blocks) {
    TRY(safetensors_read_blocks(place.file, place.index, 0, variable.elements, buffer));
    return session_write_blocks(s, index, buffer);
  }
  TRY(safetensors_read(place.file, place.index, buffer));
  return neap_session_write(s, index, buffer);
}

static neap_status load_variables(neap_session *s, const struct place *places, float *buffer) {
  TRY(load_positions(s, places, buffer));
  for (int32_t i = 0; i < s->variable_count; i++) {
    const struct session_variable *v = &s->variables[i];
    if (v->kind == NEAP_VARIABLE_POSITIONS) continue;
    if (places[i].file != NULL) {
      TRY(load_variable(s, i, places[i], buffer));
    } else if (v->layer >= 0 && v->pool == 0) { /* its positions were cleared */
      TRY(initialise_variable(s, i, buffer));
    }
  }
  for (int32_t i = 0; i < s->variable_count; i++)
    if (places[i].file == NULL && averages_parameter(s, i) >= 0) TRY(averages_begin(s, i));
  return NEAP_OK;
}

/* Loads all variables that have a place, and the counters. */
static neap_status load_all(neap_session *s, const struct place *places, const struct counters *counters) {
  float *buffer, *allocated;
  TRY(session_scratch(s, &buffer, &allocated));
  const neap_status status = load_variables(s, places, buffer);
  free(allocated);
  TRY(status);
  s->torn = false;
  s->steps = counters->steps;
  s->sparse->threshold = counters->threshold;
  if (s->options.dynamic_loss_scale) {
    s->good_steps = counters->good_steps;
    s->loss_scale = (float)counters->loss_scale;
  }
  return NEAP_OK;
}

static struct counters counters_of(const neap_session *s) {
  return (struct counters){s->steps, s->good_steps, s->sparse->threshold, (double)s->loss_scale};
}

/* ---- All of them ---- */

static bool has_shape(const struct safetensors_tensor *tensor, const neap_variable *variable) {
  bool same = tensor->rank == variable->rank;
  for (int d = 0; same && d < variable->rank; d++) same = tensor->dims[d] == variable->dims[d];
  return same;
}

/* Finds all variables in a file, which must have the needed ones, with the session's shapes. */
static neap_status find_all(const neap_session *s, const struct safetensors *file, struct place *places) {
  for (int32_t i = 0; i < s->variable_count; i++) {
    neap_variable variable;
    TRY(neap_session_variable(s, i, &variable));
    const bool predicts = s->programs[PROGRAM_STEP].lowered == NULL,
               needed = variable_is_saved(s, i) &&
                        (variable.kind == NEAP_VARIABLE_PARAMETER ||
                         (variable.kind == NEAP_VARIABLE_RUNNING_STATISTIC && predicts));
    const int32_t index = predicts && variable.kind == NEAP_VARIABLE_PARAMETER
                              ? averages_tensor(file, variable.name)
                              : safetensors_find(file, variable.name);
    RETURN_IF(index < 0 && needed, NEAP_BAD_FORMAT,
              "%s: has no tensor '%s', a parameter or statistic of this model", file->path, variable.name);
    if (index < 0) continue;
    const struct safetensors_tensor *tensor = &file->tensors[index];
    if (variable.kind != NEAP_VARIABLE_POSITIONS) TRY(safetensors_need_real(file, index));
    RETURN_IF(!has_shape(tensor, &variable), NEAP_BAD_FORMAT,
              "%s: tensor '%s': its shape is not that of this model's parameter or state", file->path,
              tensor->name);
    places[i] = (struct place){file, index};
  }
  return NEAP_OK;
}

/* Loads positions of sparse parameters, before their values. */
static neap_status load_source_positions(neap_session *s, const struct value_source *source, float *buffer) {
  TRY(sparse_clear(s));
  for (int32_t i = 0; i < s->variable_count; i++) {
    const struct session_variable *v = &s->variables[i];
    if (v->kind != NEAP_VARIABLE_POSITIONS) continue;
    const struct sparse_layer *layer = &s->sparse->layers[v->layer];
    const int32_t index = source->find(source->context, layer->name);
    RETURN_IF(index < 0, NEAP_UNSUPPORTED, "sparse parameter '%s': its values are missing", layer->name);
    TRY(source->read(source->context, index, buffer));
    sparse_largest(layer->elements, sparse_count(layer->elements, s->options.sparse_density), buffer);
    TRY(sparse_write_positions(s, v->layer, buffer));
  }
  return NEAP_OK;
}

/* Copies blocks unchanged into the memory, some rows at a time. */
static neap_status load_blocks(neap_session *s, int32_t variable, const struct value_source *source,
                               int32_t index, void *buffer) {
  static const int64_t most = 1 << 16; /* elements */
  const struct tensor *t = &s->main->graph->tensors.data[s->variables[variable].tensor];
  const int64_t row = t->elements / t->dims[0], step = row < most ? most / row : 1;
  for (int64_t first = 0; first < t->dims[0]; first += step) {
    const int64_t rows = t->dims[0] - first < step ? t->dims[0] - first : step;
    TRY(source->read_blocks(source->context, index, first, rows, buffer));
    TRY(session_write_rows(s, variable, first, rows, buffer));
  }
  return NEAP_OK;
}

/* Reads a matrix by rows and writes it by parts, which need not be whole rows. `held` [a part and a row]:
 * what has been read and not yet written. */
static neap_status copy_rows(neap_session *s, int32_t variable, const struct value_source *source,
                             int32_t index, float *held) {
  const struct tensor *t = &s->main->graph->tensors.data[s->variables[variable].tensor];
  const int64_t row = row_elements(t), part = variable_part(s, variable);
  int64_t read = 0, written = 0, count = 0; /* rows; elements, and those held */
  while (written < t->elements) {
    const int64_t left = t->elements - written, wanted = left < part ? left : part,
                  missing = count < wanted ? (wanted - count + row - 1) / row : 0;
    if (missing > 0) TRY(source->read_rows(source->context, index, read, missing, held + count));
    read += missing;
    count += missing * row;
    TRY(session_write_part(s, variable, written, held));
    written += wanted;
    count -= wanted;
    memmove(held, held + wanted, (size_t)count * sizeof *held);
  }
  return NEAP_OK;
}

/* Loads a variable that is written in parts: by rows if the source has them, else through all of it. */
static neap_status load_rows(neap_session *s, int32_t variable, const struct value_source *source,
                             int32_t index) {
  const struct tensor *t = &s->main->graph->tensors.data[s->variables[variable].tensor];
  const bool rows = source->read_rows != NULL && t->rank == 2;
  const int64_t room = rows ? variable_part(s, variable) + row_elements(t) : t->elements;
  float *held = malloc((size_t)room * sizeof *held);
  RETURN_IF(held == NULL, NEAP_OUT_OF_MEMORY, "'%s': out of memory for its first values", t->name);
  neap_status status =
      rows ? copy_rows(s, variable, source, index, held) : source->read(source->context, index, held);
  if (status == NEAP_OK && !rows) status = neap_session_write(s, variable, held);
  free(held);
  return status;
}

static neap_status load_value(neap_session *s, int32_t variable, const struct value_source *source,
                              int32_t index, float *buffer) {
  const neap_dtype dtype = s->main->graph->tensors.data[s->variables[variable].tensor].dtype;
  if (source->has_blocks != NULL && s->variables[variable].layer < 0 && dtype_is_quantised(dtype) &&
      source->has_blocks(source->context, index, dtype))
    return load_blocks(s, variable, source, index, buffer);
  if (variable_part(s, variable) < s->main->graph->tensors.data[s->variables[variable].tensor].elements)
    return load_rows(s, variable, source, index);
  TRY(source->read(source->context, index, buffer));
  return neap_session_write(s, variable, buffer);
}

neap_status session_load_values(neap_session *s, const struct value_source *source) {
  float *buffer, *allocated;
  TRY(session_scratch(s, &buffer, &allocated));
  neap_status status = load_source_positions(s, source, buffer);
  for (int32_t i = 0; status == NEAP_OK && i < s->variable_count; i++) {
    const int32_t index = source->find(source->context, s->variables[i].name);
    if (index < 0 || s->variables[i].kind == NEAP_VARIABLE_POSITIONS) continue;
    if (s->main->graph->tensors.data[s->variables[i].tensor].on_disk) continue;
    status = load_value(s, i, source, index, buffer);
  }
  free(allocated);
  return status;
}

neap_status neap_session_load(neap_session *s, const char *path) {
  NEED(s);
  NEED(path);
  struct safetensors file;
  struct counters counters = counters_of(s);
  neap_status status;
  struct place *places = calloc((size_t)s->variable_count + 1, sizeof *places);
  RETURN_IF_NULL(places);
  TRY_DONE(safetensors_open(path, &file));
  TRY_DONE(find_all(s, &file, places));
  TRY_DONE(read_counters(&file, &counters));
  status = load_all(s, places, &counters);
done:
  safetensors_close(&file);
  free(places);
  return status;
}

/* ---- Those that fit ---- */

/* The matches between a session's variables and a file's tensors. */
struct fitting {
  neap_session *session;
  struct weight_files files;
  struct place *places;
  neap_initialisation *report;
  bool has_adapters;                          /* the files have some: those that they lack are missing */
  const char **missing, **reshaped, **unused; /* of the report, with room for all */
};

static neap_status begin_report(struct fitting *f) {
  const size_t variables = (size_t)f->session->variable_count, tensors = (size_t)f->files.tensor_count;
  struct region *region = &f->session->region;
  f->missing = region_alloc(region, variables, sizeof *f->missing);
  f->reshaped = region_alloc(region, variables, sizeof *f->reshaped);
  f->unused = region_alloc(region, tensors, sizeof *f->unused);
  f->places = calloc(variables + 1, sizeof *f->places);
  RETURN_IF(f->missing == NULL || f->reshaped == NULL || f->unused == NULL || f->places == NULL,
            NEAP_OUT_OF_MEMORY, "out of memory for the names of weights");
  f->report->missing = f->missing;
  f->report->reshaped = f->reshaped;
  f->report->unused = f->unused;
  return NEAP_OK;
}

/* Reports a shape that differs: "head.linear1.weight [5, 512] (fc.weight [1000, 512])". */
static neap_status report_reshaped(struct fitting *f, const neap_variable *variable,
                                   const struct safetensors_tensor *tensor) {
  const struct shape_text own = dims_text(variable->rank, variable->dims),
                          other = dims_text(tensor->rank, tensor->dims);
  const char *text =
      region_format(&f->session->region, "%s %s (%s %s)", variable->name, own.text, tensor->name, other.text);
  RETURN_IF_NULL(text);
  f->reshaped[f->report->reshaped_count++] = text;
  return NEAP_OK;
}

static neap_status fit_variable(struct fitting *f, int32_t index) {
  neap_variable variable;
  TRY(neap_session_variable(f->session, index, &variable));
  if (variable.kind != NEAP_VARIABLE_PARAMETER && variable.kind != NEAP_VARIABLE_RUNNING_STATISTIC)
    return NEAP_OK;
  struct weight_tensor *found = weight_files_find(&f->files, variable.name);
  if (found == NULL) {
    if (variable_is_adapter(f->session, index) && !f->has_adapters) return NEAP_OK;
    f->missing[f->report->missing_count++] = variable.name;
    return NEAP_OK;
  }
  found->used = true;
  const struct safetensors_tensor *tensor = &found->file->tensors[found->index];
  if (!has_shape(tensor, &variable)) return report_reshaped(f, &variable, tensor);
  TRY(safetensors_need_real(found->file, found->index));
  f->places[index] = (struct place){found->file, found->index};
  f->report->taken++;
  return NEAP_OK;
}

/* Returns true if a tensor belongs to another one of the files by its name: "NAME.momentum" to "NAME". */
static bool goes_with_another(const struct weight_files *files, const char *name) {
  char other[512];
  const char *dot = strrchr(name, '.');
  if (dot == NULL || (size_t)(dot - name) >= sizeof other) return false;
  memcpy(other, name, (size_t)(dot - name));
  other[dot - name] = '\0';
  return weight_files_find(files, other) != NULL;
}

static neap_status report_unused(struct fitting *f) {
  for (int32_t i = 0; i < f->files.tensor_count; i++) {
    const struct weight_tensor *t = &f->files.tensors[i];
    if (t->used || goes_with_another(&f->files, t->name)) continue;
    const char *name = region_string(&f->session->region, t->file->tensors[t->index].name);
    RETURN_IF_NULL(name);
    f->unused[f->report->unused_count++] = name;
  }
  return NEAP_OK;
}

/* Also takes states and counters from a file of the same model. */
static neap_status fit_whole(struct fitting *f, struct counters *counters) {
  const neap_session *s = f->session;
  for (int32_t i = 0; i < s->variable_count; i++) {
    neap_variable variable;
    TRY(neap_session_variable(s, i, &variable));
    if (variable.kind == NEAP_VARIABLE_PARAMETER && f->places[i].file == NULL) return NEAP_OK;
  }
  TRY(find_all(s, &f->files.files[0], f->places));
  return read_counters(&f->files.files[0], counters);
}

static neap_status fit(struct fitting *f, const char *path, const char *map) {
  struct counters counters = counters_of(f->session);
  TRY(weight_files_open(path, map, &f->files));
  TRY(begin_report(f));
  for (int32_t i = 0; i < f->files.tensor_count; i++)
    f->has_adapters = f->has_adapters || session_has_adapter(f->session, f->files.tensors[i].name);
  for (int32_t i = 0; i < f->session->variable_count; i++) TRY(fit_variable(f, i));
  TRY(report_unused(f));
  RETURN_IF(f->report->taken == 0, NEAP_BAD_FORMAT,
            "%s: none of its %d tensors has name and shape of a weight of this model; the first is '%s', the "
            "model's first '%s'; a map gives other names (`init-map`)",
            path, f->files.tensor_count,
            f->files.tensor_count > 0 ? f->files.tensors[0].file->tensors[f->files.tensors[0].index].name
                                      : "",
            f->session->variable_count > 0 ? f->session->variables[0].name : "");
  if (map == NULL && f->files.file_count == 1 && f->report->reshaped_count == 0) TRY(fit_whole(f, &counters));
  return load_all(f->session, f->places, &counters);
}

neap_status neap_session_initialise(neap_session *s, const char *path, const char *map,
                                    neap_initialisation *report) {
  NEED(s);
  NEED(path);
  neap_initialisation unwanted;
  struct fitting f = {.session = s, .report = report != NULL ? report : &unwanted};
  *f.report = (neap_initialisation){0};
  const neap_status status = fit(&f, path, map);
  weight_files_close(&f.files);
  free(f.places);
  return status;
}
