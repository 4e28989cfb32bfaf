/* Parameters, optimizer states and running statistics: their list, first values, reading and writing. */
#include "weights/variables.h"

#include <math.h>
#include <string.h>

#include "base/normal.h"
#include "base/quantised.h"
#include "base/random.h"
#include "rewrite/rewrite.h"
#include "session/session_memory.h"
#include "weights/averages.h"
#include "weights/sparse.h"

static neap_variable_kind kind_of(const struct tensor *tensor) {
  return tensor->role == NEAP_ROLE_PARAMETER           ? NEAP_VARIABLE_PARAMETER
         : tensor->state_of != NULL || tensor->carried ? NEAP_VARIABLE_STATE
                                                       : NEAP_VARIABLE_RUNNING_STATISTIC;
}

static const struct tensor *tensor_of(const struct neap_session *s, int32_t index) {
  return &s->main->graph->tensors.data[s->variables[index].tensor];
}

/* Returns true if a tensor of the graph is a variable itself, not a part of sparse ones. */
static bool stands_alone(const struct tensor *t) {
  return (t->role == NEAP_ROLE_PARAMETER || t->role == NEAP_ROLE_STATE) && t->view_of < 0 && !t->sum &&
         (dtype_is_real(t->dtype) || dtype_is_quantised(t->dtype)) && strcmp(t->name, SPARSE_POOL) != 0 &&
         (t->state_of == NULL || strcmp(t->state_of, SPARSE_POOL) != 0);
}

/* Lists the sparse variables of one kind. */
static neap_status list_sparse(struct neap_session *s, neap_variable_kind kind, struct session_variable *list,
                               int32_t *count) {
  for (int32_t k = 0; k < s->sparse->layer_count; k++)
    for (int32_t p = -1; p < s->sparse->pool_count; p++) {
      const char *suffix = p < 0 ? ".positions" : s->sparse->pools[p].suffix;
      if ((p < 0 ? NEAP_VARIABLE_POSITIONS : s->sparse->pools[p].kind) != kind) continue;
      if (p >= 0 && s->sparse->pools[p].sum) continue;
      struct session_variable *v = &list[(*count)++];
      *v = (struct session_variable){region_format(&s->region, "%s%s", s->sparse->layers[k].name, suffix),
                                     kind,
                                     s->sparse->layers[k].dense,
                                     k,
                                     p,
                                     true};
      RETURN_IF_NULL(v->name);
    }
  return NEAP_OK;
}

/* Lists the parameters that the options store but that do not fill blocks, except those of one dimension. */
static neap_status list_unstored(struct neap_session *s) {
  neap_dtype dtype;
  const struct neap_graph *graph = s->main->graph;
  const struct store_options store = {.list = s->options.store,
                                      .base = s->options.base,
                                      .all = s->options.predict && !graph_has_adapters(graph)};
  if (store.list == NULL && store.base == NULL) return NEAP_OK;
  s->unstored = region_alloc(&s->region, (size_t)s->variable_count, sizeof *s->unstored);
  RETURN_IF_NULL(s->unstored);
  for (int32_t i = 0; i < s->variable_count; i++)
    if (s->variables[i].kind == NEAP_VARIABLE_PARAMETER && tensor_of(s, i)->rank > 1 &&
        !tensor_of(s, i)->adapter && !dtype_is_quantised(tensor_of(s, i)->dtype) &&
        quantised_type(&store, tensor_of(s, i), tensor_of(s, i)->linear, &dtype))
      s->unstored[s->unstored_count++] = s->variables[i].name;
  return NEAP_OK;
}

/* Returns true if steps change the variable. Sparse parameters are never frozen. */
static bool changes(const struct neap_graph *graph, const struct session_variable *variable) {
  if (variable->layer >= 0 || variable->kind == NEAP_VARIABLE_STATE) return true;
  if (variable->kind == NEAP_VARIABLE_PARAMETER) return !graph->tensors.data[variable->tensor].frozen;
  for (size_t v = 0; v < graph->nodes.count; v++)
    for (int32_t i = 0; i < graph->nodes.data[v].update_count; i++)
      if (graph->nodes.data[v].updates[i] == variable->tensor) return true;
  return false;
}

neap_status list_variables(struct neap_session *s) {
  const struct neap_graph *graph = s->main->graph;
  TRY(sparse_find(s));
  const size_t most =
      graph->tensors.count + (size_t)s->sparse->layer_count * (size_t)(s->sparse->pool_count + 1);
  struct session_variable *list = region_alloc(&s->region, most, sizeof *list);
  int32_t count = 0;
  RETURN_IF_NULL(list);
  for (neap_variable_kind kind = 0; kind <= NEAP_VARIABLE_POSITIONS; kind++) {
    for (int32_t t = 0; t < (int32_t)graph->tensors.count; t++) {
      const struct tensor *tensor = &graph->tensors.data[t];
      if (stands_alone(tensor) && kind_of(tensor) == kind)
        list[count++] = (struct session_variable){tensor->name, kind, t, -1, 0, false};
    }
    TRY(list_sparse(s, kind, list, &count));
  }
  for (int32_t i = 0; i < count; i++) list[i].changes = changes(graph, &list[i]);
  s->variables = list;
  s->variable_count = count;
  return list_unstored(s);
}

void session_count_8bit(const struct neap_session *s, int32_t *blocks, int32_t *trained) {
  *blocks = *trained = 0;
  for (int32_t i = 0; i < s->variable_count; i++) {
    const struct session_variable *v = &s->variables[i];
    if (v->kind != NEAP_VARIABLE_PARAMETER || !v->changes) continue;
    *blocks += v->layer < 0 && tensor_of(s, i)->states_8bit;
    ++*trained;
  }
}

bool variable_is_saved(const struct neap_session *s, int32_t index) {
  return !s->options.save_trained || s->variables[index].changes;
}

bool session_changes(const struct neap_session *s, const char *name) {
  for (int32_t i = 0; i < s->variable_count; i++)
    if (s->variables[i].kind == NEAP_VARIABLE_PARAMETER && strcmp(s->variables[i].name, name) == 0)
      return s->variables[i].changes;
  return false;
}

bool session_has_adapter(const struct neap_session *s, const char *name) {
  for (int32_t i = 0; i < s->variable_count; i++)
    if (tensor_of(s, i)->adapter && strcmp(s->variables[i].name, name) == 0) return true;
  return false;
}

bool variable_is_adapter(const struct neap_session *s, int32_t index) { return tensor_of(s, index)->adapter; }

int32_t neap_session_variable_count(const neap_session *s) { return s != NULL ? s->variable_count : 0; }

static neap_status need_index(const neap_session *s, int32_t index) {
  RETURN_IF(s == NULL, NEAP_INVALID_ARGUMENT, "there is no session");
  RETURN_IF(index < 0 || index >= s->variable_count, NEAP_INVALID_ARGUMENT,
            "variable %d does not exist; there are %d", index, s->variable_count);
  return NEAP_OK;
}

neap_status neap_session_variable(const neap_session *s, int32_t index, neap_variable *variable) {
  NEED(variable);
  TRY(need_index(s, index));
  const struct session_variable *v = &s->variables[index];
  const struct tensor *tensor = tensor_of(s, index);
  const neap_dtype dtype = v->layer < 0   ? tensor->dtype
                           : v->pool >= 0 ? s->sparse->pools[v->pool].dtype
                                          : NEAP_U8;
  *variable = (neap_variable){.name = v->name,
                              .kind = v->kind,
                              .rank = tensor->rank,
                              .elements = tensor->elements,
                              .dtype = dtype == NEAP_F64 ? NEAP_F32 : dtype,
                              .frozen = v->kind == NEAP_VARIABLE_PARAMETER && tensor->frozen};
  memcpy(variable->dims, tensor->dims, sizeof variable->dims);
  return NEAP_OK;
}

neap_status neap_session_read(const neap_session *s, int32_t index, float *data) {
  TRY(need_index(s, index));
  RETURN_IF(data == NULL, NEAP_INVALID_ARGUMENT, "variable %d: the pointer for its values is NULL", index);
  const struct session_variable *v = &s->variables[index];
  if (v->layer >= 0)
    return v->pool < 0 ? sparse_read_positions(s, v->layer, data) : sparse_read(s, v->layer, v->pool, data);
  if (tensor_of(s, index)->on_disk) {
    RETURN_IF(s->transfer == NULL, NEAP_INVALID_ARGUMENT,
              "'%s' is on disk, and the model's file was not loaded yet", v->name);
    return transfer_read(s->transfer, v->name, data);
  }
  return session_export(s, s->main, v->tensor, session_place(s, v->tensor), data);
}

neap_status neap_session_write(neap_session *s, int32_t index, const float *data) {
  TRY(need_index(s, index));
  RETURN_IF(data == NULL, NEAP_INVALID_ARGUMENT, "variable %d: its values are NULL", index);
  const struct session_variable *v = &s->variables[index];
  if (v->layer >= 0)
    return v->pool < 0 ? sparse_write_positions(s, v->layer, data) : sparse_write(s, v->layer, v->pool, data);
  RETURN_IF(tensor_of(s, index)->on_disk, NEAP_UNSUPPORTED,
            "'%s' stays in the model's file and cannot be changed; with `base-on-disk` never it can",
            v->name);
  TRY(session_import(s, s->main, v->tensor, data, session_place(s, v->tensor)));
  return s->steps == 0 && v->kind == NEAP_VARIABLE_PARAMETER ? averages_begin(s, index) : NEAP_OK;
}

int64_t variable_part(const struct neap_session *s, int32_t index) {
  const struct session_variable *v = &s->variables[index];
  const int64_t piece = v->layer < 0 ? session_piece(s, v->tensor) : 0;
  return piece > 0 ? piece : tensor_of(s, index)->elements;
}

neap_status session_read_part(const struct neap_session *s, int32_t index, int64_t first, float *data) {
  if (variable_part(s, index) == tensor_of(s, index)->elements) return neap_session_read(s, index, data);
  return session_copy_piece(s, s->variables[index].tensor, true, first, data);
}

neap_status session_write_part(struct neap_session *s, int32_t index, int64_t first, const float *data) {
  if (variable_part(s, index) == tensor_of(s, index)->elements) return neap_session_write(s, index, data);
  return session_copy_piece(s, s->variables[index].tensor, false, first, (float *)(uintptr_t)data);
}

/* Fails unless the variable has blocks, which are in row-major order in memory. */
static neap_status need_blocks(const struct neap_session *s, int32_t index, size_t *bytes) {
  TRY(need_index(s, index));
  const struct tensor *t = tensor_of(s, index);
  RETURN_IF(s->variables[index].layer >= 0 || !dtype_is_quantised(t->dtype), NEAP_INVALID_ARGUMENT,
            "'%s' is stored in %s, which has no blocks", s->variables[index].name, dtype_rows[t->dtype].name);
  RETURN_IF(t->on_disk, NEAP_UNSUPPORTED,
            "'%s' stays in the model's file and cannot be changed; with `base-on-disk` never it can",
            s->variables[index].name);
  *bytes = (size_t)dtype_bytes(t->dtype, (uint64_t)t->elements);
  return NEAP_OK;
}

neap_status session_read_blocks(const struct neap_session *s, int32_t index, void *blocks) {
  size_t bytes;
  TRY(need_blocks(s, index, &bytes));
  return session_read_bytes(s, s->variables[index].tensor, blocks);
}

neap_status session_write_rows(struct neap_session *s, int32_t index, int64_t first, int64_t rows,
                               const void *blocks) {
  size_t bytes;
  TRY(need_blocks(s, index, &bytes));
  const uint64_t row = bytes / (uint64_t)tensor_of(s, index)->dims[0];
  return session_write_bytes(s, s->variables[index].tensor, (uint64_t)first * row, (uint64_t)rows * row,
                             blocks);
}

neap_status session_write_blocks(struct neap_session *s, int32_t index, const void *blocks) {
  size_t bytes;
  TRY(need_blocks(s, index, &bytes));
  return session_write_bytes(s, s->variables[index].tensor, 0, bytes, blocks);
}

neap_status session_scratch(neap_session *s, float **buffer, float **allocated) {
  uint64_t most = 1;
  bool beyond = false;
  const int32_t parts = s->parts > 0 ? s->parts : s->options.micro_batches;
  RETURN_IF(s->micro_batch > 0, NEAP_INVALID_ARGUMENT,
            "a step has begun: %d of its %d micro-batches are missing", parts - s->micro_batch, parts);
  for (int32_t i = 0; i < s->variable_count; i++) {
    const bool on_disk = tensor_of(s, i)->on_disk;
    const uint64_t elements = (uint64_t)variable_part(s, i);
    if (on_disk && !variable_is_saved(s, i)) continue;
    if (elements > most) most = elements;
    beyond = beyond || on_disk; /* the arena has no room for it as a whole */
  }
  *allocated = NULL;
  *buffer = beyond ? NULL : device_address(&s->memory, s->plan->resident_bytes, most * sizeof(float));
  s->ran = PROGRAM_COUNT; /* its outputs are written over */
  if (*buffer != NULL) return NEAP_OK;
  *buffer = *allocated = malloc(most * sizeof(float));
  RETURN_IF_NULL(*buffer);
  return NEAP_OK;
}

bool variable_is_on_disk(const struct neap_session *s, int32_t index) { return tensor_of(s, index)->on_disk; }

neap_status session_read_disk_rows(const struct neap_session *s, int32_t index, int64_t first, int64_t rows,
                                   float *data) {
  RETURN_IF(s->transfer == NULL, NEAP_INVALID_ARGUMENT,
            "'%s' is on disk, and the model's file was not loaded yet", s->variables[index].name);
  return transfer_read_numbers(s->transfer, s->variables[index].name, first, rows, data);
}

bool session_reads_disk(const struct neap_session *s) {
  for (int32_t i = 0; i < s->variable_count; i++)
    if (tensor_of(s, i)->on_disk) return true;
  return false;
}

void session_disk_use(const struct neap_session *s, neap_memory *memory) {
  for (int32_t i = 0; i < s->variable_count; i++)
    if (tensor_of(s, i)->on_disk) memory->on_disk += tensor_of(s, i)->file_bytes;
  if (s->transfer != NULL) {
    const struct transfer_use use = transfer_use_of(s->transfer);
    memory->disk_read = use.bytes;
    memory->disk_waited = use.waited;
  }
  if (s->spill_file == NULL) return;
  const struct spill_use use = spill_file_use(s->spill_file);
  memory->spilled = use.bytes;
  memory->disk_read += use.read;
  memory->disk_written = use.written;
  memory->disk_waited += use.waited;
}

neap_status session_keep_source(struct neap_session *s, const struct value_source *source) {
  int64_t longest = 1;
  transfer_free(s->transfer);
  s->transfer = NULL;
  for (int32_t i = 0; i < s->variable_count; i++)
    if (tensor_of(s, i)->on_disk && tensor_of(s, i)->dims[1] > longest) longest = tensor_of(s, i)->dims[1];
  return transfer_create(source, &s->memory, s->main->backend, s->main->state, longest, &s->transfer);
}

int64_t session_frozen(const struct neap_session *s) {
  int64_t elements = 0;
  for (int32_t i = 0; i < s->variable_count; i++)
    if (s->variables[i].kind == NEAP_VARIABLE_PARAMETER && tensor_of(s, i)->frozen)
      elements += tensor_of(s, i)->elements;
  return elements;
}

uint64_t session_stored_saved(const struct neap_session *s) {
  const neap_dtype others = s->options.master ? NEAP_F32 : s->options.precision;
  uint64_t saved = 0;
  for (int32_t i = 0; i < s->variable_count; i++) {
    const struct tensor *t = tensor_of(s, i);
    if (s->variables[i].layer < 0 && dtype_is_quantised(t->dtype) && !t->on_disk)
      saved += dtype_bytes(others, (uint64_t)t->elements) - dtype_bytes(t->dtype, (uint64_t)t->elements);
  }
  return saved;
}

/* ---- First values ---- */

/* Fills elements [first, first + count). */
static void fill_first_values(const struct tensor *tensor, uint64_t seed, uint64_t stream, int64_t first,
                              int64_t count, float *data) {
  if (tensor->initial == NEAP_INITIAL_HE) {
    /* Convolution [K, C, R, S]: fan out K R S. Linear [outputs, inputs]: fan in. */
    int64_t fan = tensor->rank == 2 ? tensor->dims[1] : tensor->dims[0];
    for (int32_t i = 2; i < tensor->rank; i++) fan *= tensor->dims[i];
    random_normals(seed, stream, sqrt(2 / (double)fan), first, count, data);
    return;
  }
  if (tensor->initial == NEAP_INITIAL_NORMAL) {
    random_normals(seed, stream, (double)tensor->scale, first, count, data);
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    uint32_t word[4];
    data[i] = tensor->initial == NEAP_INITIAL_ONE ? 1 : 0;
    if (tensor->initial != NEAP_INITIAL_UNIFORM) continue;
    random_philox(seed, stream, (uint64_t)(first + i), word);
    data[i] = tensor->scale * (2 * random_uniform(word[0]) - 1);
  }
}

/* Returns true if a variable is in blocks: it is then processed in pieces, never completely as floats. */
static bool in_blocks(const struct neap_session *s, int32_t index) {
  return s->variables[index].layer < 0 && dtype_is_quantised(tensor_of(s, index)->dtype);
}

/* Returns the elements of a piece, whole rows: some tens of thousands, or one row. */
static int64_t piece_elements(const struct tensor *t) {
  static const int64_t most = 1 << 16;
  const int64_t row = row_elements(t);
  return row < most ? most / row * row : row;
}

static int64_t piece_length(const struct tensor *t, int64_t first) {
  const int64_t piece = piece_elements(t);
  return t->elements - first < piece ? t->elements - first : piece;
}

neap_status initialise_variable(struct neap_session *s, int32_t index, float *data) {
  static const uint64_t first_stream = (uint64_t)1 << 63; /* apart from those of random operators */
  const struct tensor *t = tensor_of(s, index);
  const uint64_t seed = s->options.seed, stream = first_stream + (uint64_t)index;
  if (t->on_disk || t->elsewhere) return NEAP_OK;
  if (t->spilled && t->initial == NEAP_INITIAL_ZERO) return NEAP_OK; /* as its file begins */
  for (int64_t first = 0, part = variable_part(s, index); !in_blocks(s, index); first += part) {
    const int64_t left = t->elements - first;
    fill_first_values(t, seed, stream, first, left < part ? left : part, data);
    TRY(session_write_part(s, index, first, data));
    if (left <= part) return NEAP_OK;
  }
  if (dtype_is_quantised(t->file_dtype) || t->role == NEAP_ROLE_STATE)
    return NEAP_OK; /* zeros; of a parameter
                        until its file is read */
  for (int64_t first = 0; first < t->elements; first += piece_elements(t)) {
    const int64_t count = piece_length(t, first);
    fill_first_values(t, seed, stream, first, count, data);
    TRY(quantise(t->dtype, t->name, row_elements(t), count, data, data));
    TRY(session_write_bytes(s, s->variables[index].tensor, dtype_bytes(t->dtype, (uint64_t)first),
                            dtype_bytes(t->dtype, (uint64_t)count), data));
  }
  return NEAP_OK;
}

neap_status initialise_variables(struct neap_session *s) {
  float *data, *allocated;
  TRY(session_scratch(s, &data, &allocated));
  neap_status status = sparse_draw_positions(s, data);
  for (int32_t i = 0; status == NEAP_OK && i < s->variable_count; i++) {
    if (s->variables[i].layer >= 0 && s->variables[i].pool != 0) continue; /* 0, but for positions */
    status = initialise_variable(s, i, data);
  }
  if (status == NEAP_OK) status = averages_begin(s, -1);
  free(allocated);
  return status;
}

static neap_status tell_not_finite(const char *path, const char *name, float value, int64_t at,
                                   int64_t elements) {
  return neap_fail(NEAP_BAD_FORMAT, "%s: tensor '%s' has %s at element %lld of %lld; weights must be finite",
                   path, name, isnan(value) ? "NaN" : "infinity", (long long)at, (long long)elements);
}

/* Fails if a value in the variable's blocks is not finite. Of a shared variable each process checks its own
 * share. */
static neap_status need_finite_blocks(const struct neap_session *s, int32_t index, const char *path,
                                      float *values) {
  const struct tensor *t = tensor_of(s, index);
  const struct byte_share own = session_own_bytes(s, s->variables[index].tensor);
  const uint64_t most = dtype_bytes(t->dtype, (uint64_t)piece_elements(t)),
                 place = session_place(s, s->variables[index].tensor);
  const int64_t of_block = dtype_rows[t->dtype].block_elements;
  for (uint64_t at = 0; at < own.count; at += most) {
    const uint64_t bytes = own.count - at < most ? own.count - at : most;
    const int64_t count = (int64_t)(bytes / (uint64_t)dtype_rows[t->dtype].block_bytes) * of_block,
                  first = (int64_t)((own.first + at) / (uint64_t)dtype_rows[t->dtype].block_bytes) * of_block;
    unsigned char *blocks = (unsigned char *)values + (uint64_t)count * sizeof *values - bytes;
    TRY(device_read(&s->memory, place + at, blocks, bytes));
    dequantise(t->dtype, count, blocks, values);
    for (int64_t i = 0; i < count; i++)
      if (!isfinite(values[i]))
        return tell_not_finite(path, s->variables[index].name, values[i], first + i, t->elements);
  }
  return NEAP_OK;
}

static neap_status need_finite(const struct neap_session *s, int32_t index, const char *path, float *values) {
  neap_variable variable;
  TRY(neap_session_variable(s, index, &variable));
  if (variable.kind != NEAP_VARIABLE_PARAMETER && variable.kind != NEAP_VARIABLE_RUNNING_STATISTIC)
    return NEAP_OK;
  if (tensor_of(s, index)->on_disk) return NEAP_OK; /* a loss that is not finite tells */
  if (in_blocks(s, index)) return need_finite_blocks(s, index, path, values);
  for (int64_t first = 0, part = variable_part(s, index); first < variable.elements; first += part) {
    const int64_t left = variable.elements - first, count = left < part ? left : part;
    TRY(session_read_part(s, index, first, values));
    for (int64_t i = 0; i < count; i++)
      if (!isfinite(values[i]))
        return tell_not_finite(path, variable.name, values[i], first + i, variable.elements);
  }
  return NEAP_OK;
}

neap_status session_need_finite(struct neap_session *s, const char *path) {
  float *values, *allocated;
  neap_status status = NEAP_OK;
  TRY(session_scratch(s, &values, &allocated));
  for (int32_t i = 0; status == NEAP_OK && i < s->variable_count; i++)
    status = need_finite(s, i, path, values);
  free(allocated);
  return status;
}
