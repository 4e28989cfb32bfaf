#include "formats/safetensors.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/quantised.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the format is little-endian and data is copied as it is");

enum { PREFIX_BYTES = 8, HEADER_LIMIT = 100000000 /* the format's own */ };

static const struct {
  const char *name;
  uint64_t bytes;
} dtypes[] = {{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
              {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
              {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8}};

/* ---- Types ---- */

/* Types that elements can be read in, as floats; and written in. */
enum {
  READ_TYPES = TYPES_FLOAT | TYPE_U8 | TYPES_QUANTISED,
  WRITTEN_TYPES = READ_TYPES | TYPE_I32,
  NEEDED_TYPES = TYPES_FLOAT | TYPES_QUANTISED,          /* those of real numbers */
  TYPES_AS_GIVEN = TYPE_F32 | TYPE_I32 | TYPES_QUANTISED /* that are written as they come */
};

/* Returns true if `dtype` (NULL: F32) is the name of a type in the set, and sets `*type` to it. */
static bool find_type(const char *dtype, type_set set, neap_dtype *type) {
  *type = NEAP_F32;
  if (dtype == NULL) return true;
  for (neap_dtype d = 0; (int32_t)d < dtype_count; d++)
    if (type_set_has(set, d) && dtype_rows[d].safetensors != NULL &&
        strcmp(dtype_rows[d].safetensors, dtype) == 0) {
      *type = d;
      return true;
    }
  return false;
}

static bool has_type(const char *dtype, type_set set) {
  neap_dtype unused;
  return find_type(dtype, set, &unused);
}

/* Gives the bytes of elements. Returns false if they do not fill whole blocks, or the bytes overflow. */
static bool bytes_of(neap_dtype type, int64_t elements, uint64_t *bytes) {
  const struct dtype_row *row = &dtype_rows[type];
  return elements % row->block_elements == 0 &&
         !__builtin_mul_overflow((uint64_t)(elements / row->block_elements), (uint64_t)row->block_bytes,
                                 bytes);
}

/* ---- Writing --------------------------------------------------------------------------------------------
 */

static json_t *dims_json(int rank, const int64_t *dims) {
  json_t *list = json_array();
  for (int i = 0; i < rank && list != NULL; i++)
    if (json_array_append_new(list, json_integer(dims[i])) != 0) {
      json_decref(list);
      list = NULL;
    }
  return list;
}

/* Returns the text of SAFETENSORS_QUANTISED, which the caller frees: an empty one without a quantised tensor.
 * NULL: out of memory, or a name is not UTF-8. */
static char *describe_quantised(const struct safetensors_content *content) {
  json_t *list = json_object();
  bool ok = list != NULL, any = false;
  for (int32_t i = 0; i < content->tensor_count && ok; i++) {
    const struct safetensors_tensor *tensor = &content->tensors[i];
    neap_dtype type;
    if (tensor->dtype == NULL || !find_type(tensor->dtype, TYPES_QUANTISED, &type)) continue;
    any = true;
    ok = json_object_set_new(list, tensor->name,
                             json_pack("{s:s, s:o}", "type", dtype_rows[type].name, "shape",
                                       dims_json(tensor->rank, tensor->dims))) == 0;
  }
  char *text = !ok ? NULL : any ? json_dumps(list, JSON_COMPACT) : strdup("");
  json_decref(list);
  return text;
}

static neap_status add_metadata(json_t *header, const char *path, const struct safetensors_content *content) {
  char *quantised = describe_quantised(content);
  json_t *texts = json_object();
  bool ok = texts != NULL && quantised != NULL;
  for (int32_t i = 0; i < content->metadata_count && ok; i++)
    ok = json_object_set_new(texts, content->metadata[i].key, json_string(content->metadata[i].value)) == 0;
  if (ok && quantised[0] != '\0')
    ok = json_object_set_new(texts, SAFETENSORS_QUANTISED, json_string(quantised)) == 0;
  const bool empty = ok && json_object_size(texts) == 0;
  if (!ok || empty)
    json_decref(texts);
  else
    ok = json_object_set_new(header, "__metadata__", texts) == 0;
  free(quantised);
  RETURN_IF(!ok, NEAP_OUT_OF_MEMORY,
            "%s: the metadata cannot be written: out of memory, or a text is not UTF-8", path);
  return NEAP_OK;
}

/* The type and shape that a tensor has in the file: of a quantised one its blocks are bytes, by rows. */
static json_t *stored_shape(const struct safetensors_tensor *tensor, neap_dtype type, uint64_t bytes) {
  if (!type_set_has(TYPES_QUANTISED, type)) return dims_json(tensor->rank, tensor->dims);
  const int64_t first = tensor->rank > 1 ? tensor->dims[0] : 0,
                rows = first > 0 && bytes % (uint64_t)first == 0 ? first : 1,
                dims[] = {rows, (int64_t)(bytes / (uint64_t)rows)};
  return dims_json(2, dims);
}

static neap_status add_tensor(json_t *header, const char *path, const struct safetensors_tensor *tensor,
                              uint64_t *offset) {
  const uint64_t begin = *offset;
  uint64_t bytes;
  neap_dtype type;
  RETURN_IF(json_object_get(header, tensor->name) != NULL, NEAP_INVALID_ARGUMENT,
            "%s: two tensors are named '%s'", path, tensor->name);
  RETURN_IF(!find_type(tensor->dtype, WRITTEN_TYPES, &type), NEAP_INVALID_ARGUMENT,
            "%s: tensor '%s' cannot be written as %s", path, tensor->name, tensor->dtype);
  RETURN_IF(!bytes_of(type, tensor->elements, &bytes) || __builtin_add_overflow(begin, bytes, offset) ||
                *offset > INT64_MAX,
            NEAP_TOO_LARGE,
            "%s: the tensors have more than 2^63 bytes, or '%s' does not consist of whole blocks", path,
            tensor->name);
  const neap_dtype stored = type_set_has(TYPES_QUANTISED, type) ? NEAP_U8 : type;
  json_t *entry =
      json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype_rows[stored].safetensors, "shape",
                stored_shape(tensor, type, bytes), "data_offsets", (json_int_t)begin, (json_int_t)*offset);
  RETURN_IF(entry == NULL || json_object_set_new(header, tensor->name, entry) != 0, NEAP_OUT_OF_MEMORY,
            "%s: tensor '%s' cannot be written: out of memory, or its name is not UTF-8", path, tensor->name);
  return NEAP_OK;
}

/* The JSON, as text for the caller to free. */
static neap_status make_header(const char *path, const struct safetensors_content *content, char **text) {
  neap_status status = NEAP_OK;
  uint64_t offset = 0;
  json_t *header = json_object();
  RETURN_IF_NULL(header);
  TRY_DONE(add_metadata(header, path, content));
  for (int32_t i = 0; i < content->tensor_count; i++)
    TRY_DONE(add_tensor(header, path, &content->tensors[i], &offset));
  *text = json_dumps(header, JSON_COMPACT);
  if (*text == NULL) status = neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory for the header", path);
done:
  json_decref(header);
  return status;
}

static neap_status write_bytes(FILE *file, const char *path, const void *data, size_t bytes) {
  RETURN_IF(fwrite(data, 1, bytes, file) != bytes, NEAP_IO_FAILED, "%s: cannot be written: %s", path,
            strerror(errno));
  return NEAP_OK;
}

static neap_status write_header(FILE *file, const char *path, const char *text) {
  const size_t length = strlen(text), padding = -length % 8;
  RETURN_IF(length + padding > HEADER_LIMIT, NEAP_TOO_LARGE,
            "%s: the header is too long; it may have at most %d bytes", path, HEADER_LIMIT);
  const uint64_t prefix = length + padding;
  TRY(write_bytes(file, path, &prefix, sizeof prefix));
  TRY(write_bytes(file, path, text, length));
  return write_bytes(file, path, "        ", padding);
}

static int64_t part_of_tensor(const struct safetensors_tensor *tensor) {
  return tensor->part > 0 && tensor->part < tensor->elements ? tensor->part : tensor->elements;
}

static int64_t largest_elements(const struct safetensors_content *content) {
  int64_t largest = 1;
  for (int32_t i = 0; i < content->tensor_count; i++)
    if (part_of_tensor(&content->tensors[i]) > largest) largest = part_of_tensor(&content->tensors[i]);
  return largest;
}

/* To the type that a tensor is written in, in place. */
static void narrow(int64_t count, neap_dtype type, float *data) {
  uint8_t *byte = (void *)data;
  const int64_t elements = type_set_has(TYPES_AS_GIVEN, type) ? 0 : count;
  for (int64_t i = 0; i < elements; i++) {
    const float value = data[i];
    if (type == NEAP_U8)
      byte[i] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
    else
      dtype_set_real(type, data, i, (double)value);
  }
}

static neap_status write_tensor(FILE *file, const char *path, const struct safetensors_content *content,
                                int32_t index, float *data) {
  const struct safetensors_tensor *tensor = &content->tensors[index];
  const int64_t part = part_of_tensor(tensor);
  neap_dtype type;
  uint64_t bytes;
  RETURN_IF(!find_type(tensor->dtype, WRITTEN_TYPES, &type) || !bytes_of(type, tensor->elements, &bytes),
            NEAP_INTERNAL, "%s: tensor '%s' has a different type than in the header", path, tensor->name);
  for (int64_t first = 0; first == 0 || first<tensor->elements; first += part> 0 ? part : 1) {
    const int64_t left = tensor->elements - first, count = left < part ? left : part;
    TRY(tensor->part > 0 ? content->read_part(content->context, index, first, data)
                         : content->read(content->context, index, data));
    narrow(count, type, data);
    TRY(write_bytes(file, path, data, (size_t)dtype_bytes(type, (uint64_t)count)));
  }
  return NEAP_OK;
}

neap_status safetensors_write(FILE *file, const char *path, const struct safetensors_content *content) {
  neap_status status;
  char *header = NULL;
  float *allocated = NULL, *data = content->buffer;
  TRY_DONE(make_header(path, content, &header));
  TRY_DONE(write_header(file, path, header));
  if (data == NULL) {
    const int64_t largest = largest_elements(content);
    data = allocated = calloc((size_t)largest, sizeof *data);
    if (data == NULL) {
      status = neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory for %lld elements", path, (long long)largest);
      goto done;
    }
  }
  for (int32_t i = 0; i < content->tensor_count; i++) {
    TRY_DONE(write_tensor(file, path, content, i, data));
  }
done:
  free(allocated);
  free(header);
  return status;
}

struct saving {
  const char *path;
  const struct safetensors_content *content;
  struct ending ending;
};

/* Keeps why it failed: the file's writer knows only that. */
static bool save(FILE *file, const void *context) {
  struct saving *saving = *(struct saving *const *)context;
  ending_keep(&saving->ending, safetensors_write(file, saving->path, saving->content));
  return saving->ending.status == NEAP_OK;
}

neap_status safetensors_save(const char *path, const struct safetensors_content *content) {
  struct saving saving = {.path = path, .content = content}, *context = &saving;
  const neap_status status = file_write(path, save, &context);
  TRY(ending_tell(&saving.ending));
  return status;
}

/* ---- Reading --------------------------------------------------------------------------------------------
 */

static neap_status read_dims(const char *path, const json_t *shape, struct safetensors_tensor *tensor) {
  RETURN_IF(!json_is_array(shape), NEAP_BAD_FORMAT, "%s: tensor '%s': shape is missing or not a list", path,
            tensor->name);
  RETURN_IF(json_array_size(shape) > NEAP_MAX_RANK, NEAP_UNSUPPORTED,
            "%s: tensor '%s': shape has rank %zu, at most %d", path, tensor->name, json_array_size(shape),
            NEAP_MAX_RANK);
  tensor->rank = (int)json_array_size(shape);
  tensor->elements = 1;
  for (int i = 0; i < tensor->rank; i++) {
    const json_t *dim = json_array_get(shape, (size_t)i);
    RETURN_IF(!json_is_integer(dim) || json_integer_value(dim) < 0, NEAP_BAD_FORMAT,
              "%s: tensor '%s': shape[%d] must be an integer of 0 or more", path, tensor->name, i);
    tensor->dims[i] = json_integer_value(dim);
    RETURN_IF(__builtin_mul_overflow(tensor->elements, tensor->dims[i], &tensor->elements), NEAP_BAD_FORMAT,
              "%s: tensor '%s': shape has more than 2^63 elements", path, tensor->name);
  }
  return NEAP_OK;
}

static neap_status read_tensor(struct safetensors *tensors, const char *name, const json_t *entry,
                               uint64_t data_bytes, struct safetensors_tensor *tensor) {
  const char *path = tensors->path;
  tensor->name = region_string(&tensors->region, name);
  RETURN_IF_NULL(tensor->name);
  RETURN_IF(!json_is_object(entry), NEAP_BAD_FORMAT, "%s: tensor '%s' must be a JSON object", path, name);
  const char *dtype = json_string_value(json_object_get(entry, "dtype"));
  uint64_t element_bytes = 0, bytes;
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes && dtype != NULL; i++)
    if (strcmp(dtypes[i].name, dtype) == 0) {
      tensor->dtype = dtypes[i].name;
      element_bytes = dtypes[i].bytes;
    }
  RETURN_IF(element_bytes == 0, NEAP_BAD_FORMAT, "%s: tensor '%s': unknown dtype '%s'", path, name,
            dtype == NULL ? "(none)" : dtype);
  TRY(read_dims(path, json_object_get(entry, "shape"), tensor));
  const json_t *offsets = json_object_get(entry, "data_offsets");
  const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
  RETURN_IF(json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last),
            NEAP_BAD_FORMAT, "%s: tensor '%s': data_offsets must be [begin, end]", path, name);
  const json_int_t begin = json_integer_value(first), end = json_integer_value(last);
  RETURN_IF(
      begin < 0 || end < begin || (uint64_t)end > data_bytes, NEAP_BAD_FORMAT,
      "%s: tensor '%s': data_offsets [%lld, %lld] lie outside the file's %llu bytes of data (cut short?)",
      path, name, (long long)begin, (long long)end, (unsigned long long)data_bytes);
  RETURN_IF(__builtin_mul_overflow((uint64_t)tensor->elements, element_bytes, &bytes) ||
                bytes != (uint64_t)(end - begin),
            NEAP_BAD_FORMAT, "%s: tensor '%s': data_offsets [%lld, %lld] do not match its shape and dtype",
            path, name, (long long)begin, (long long)end);
  tensor->offset = (uint64_t)begin;
  tensor->bytes = bytes;
  return NEAP_OK;
}

static neap_status read_metadata(struct safetensors *tensors, json_t *texts) {
  RETURN_IF(!json_is_object(texts), NEAP_BAD_FORMAT, "%s: __metadata__ must be a JSON object", tensors->path);
  tensors->metadata = region_alloc(&tensors->region, json_object_size(texts), sizeof *tensors->metadata);
  RETURN_IF_NULL(tensors->metadata);
  const char *key;
  json_t *value;
  json_object_foreach(texts, key, value) {
    RETURN_IF(!json_is_string(value), NEAP_BAD_FORMAT, "%s: __metadata__ '%s' must be a string",
              tensors->path, key);
    struct safetensors_text *text = &tensors->metadata[tensors->metadata_count++];
    text->key = region_string(&tensors->region, key);
    text->value = region_string(&tensors->region, json_string_value(value));
    RETURN_IF(text->key == NULL || text->value == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory",
              tensors->path);
  }
  return NEAP_OK;
}

static int by_offset(const void *a, const void *b) {
  const struct safetensors_tensor *x = a, *y = b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return (x->bytes > y->bytes) - (x->bytes < y->bytes); /* empty ones first */
}

/* Sorts by place; no gap, no overlap, nothing behind. Offsets become the file's. */
static neap_status place_tensors(struct safetensors *tensors, uint64_t data_at, uint64_t data_bytes) {
  uint64_t end = 0;
  qsort(tensors->tensors, (size_t)tensors->tensor_count, sizeof *tensors->tensors, by_offset);
  for (int32_t i = 0; i < tensors->tensor_count; i++) {
    struct safetensors_tensor *tensor = &tensors->tensors[i];
    RETURN_IF(tensor->offset != end, NEAP_BAD_FORMAT,
              "%s: tensor '%s' begins at offset %llu of the data, but the one before it ends at %llu",
              tensors->path, tensor->name, (unsigned long long)tensor->offset, (unsigned long long)end);
    end += tensor->bytes;
    tensor->offset += data_at;
  }
  RETURN_IF(end != data_bytes, NEAP_BAD_FORMAT, "%s: has %llu bytes of data, but its tensors need %llu",
            tensors->path, (unsigned long long)data_bytes, (unsigned long long)end);
  return NEAP_OK;
}

static neap_status read_header(struct safetensors *tensors, json_t *header, uint64_t data_at,
                               uint64_t data_bytes) {
  RETURN_IF(!json_is_object(header), NEAP_BAD_FORMAT, "%s: the header must be a JSON object", tensors->path);
  tensors->tensors = region_alloc(&tensors->region, json_object_size(header), sizeof *tensors->tensors);
  RETURN_IF_NULL(tensors->tensors);
  const char *name;
  json_t *entry;
  json_object_foreach(header, name, entry) {
    if (strcmp(name, "__metadata__") == 0)
      TRY(read_metadata(tensors, entry));
    else
      TRY(read_tensor(tensors, name, entry, data_bytes, &tensors->tensors[tensors->tensor_count++]));
  }
  return place_tensors(tensors, data_at, data_bytes);
}

static neap_status read_bytes(const struct safetensors *tensors, void *data, size_t bytes) {
  if (fread(data, 1, bytes, tensors->file) == bytes) return NEAP_OK;
  RETURN_IF(ferror(tensors->file), NEAP_IO_FAILED, "%s: cannot be read: %s", tensors->path, strerror(errno));
  return neap_fail(NEAP_BAD_FORMAT, "%s: was cut short while it was read", tensors->path);
}

static neap_status read_at(const struct safetensors *tensors, uint64_t offset, void *data, size_t bytes) {
  const int error = file_read_at(fileno(tensors->file), offset, data, bytes);
  RETURN_IF(error == FILE_ENDS, NEAP_BAD_FORMAT, "%s: was cut short while it was read", tensors->path);
  RETURN_IF(error != 0, NEAP_IO_FAILED, "%s: cannot be read: %s", tensors->path, strerror(error));
  return NEAP_OK;
}

/* ---- Sparse tensors ---- */

enum { CHUNK = 4096 }; /* indices that are read at once */

static int64_t count_of(const struct safetensors_tensor *indices) {
  return (int64_t)(indices->bytes / sizeof(int32_t));
}

/* Indices [first, first + CHUNK), as many of them as there are. */
static neap_status read_indices(const struct safetensors *tensors, const struct safetensors_tensor *indices,
                                int64_t first, int32_t chunk[CHUNK], int64_t *count) {
  const int64_t left = count_of(indices) - first;
  *count = left < CHUNK ? left : CHUNK;
  return read_at(tensors, indices->offset + (uint64_t)first * sizeof *chunk, chunk,
                 (size_t)*count * sizeof *chunk);
}

static neap_status check_indices(const struct safetensors *tensors, const struct safetensors_tensor *tensor) {
  int32_t chunk[CHUNK];
  int64_t last = -1, count;
  for (int64_t first = 0; first < count_of(tensor->indices); first += count) {
    TRY(read_indices(tensors, tensor->indices, first, chunk, &count));
    for (int64_t i = 0; i < count; last = chunk[i++])
      RETURN_IF(chunk[i] <= last || chunk[i] >= tensor->elements, NEAP_BAD_FORMAT,
                "%s: tensor '%s': element %lld is %d; it must be above the one before it and below the %lld "
                "elements of '%s'",
                tensors->path, tensor->indices->name, (long long)(first + i), chunk[i],
                (long long)tensor->elements, tensor->name);
  }
  return NEAP_OK;
}

static neap_status read_sparse_tensor(struct safetensors *tensors, const char *name, const json_t *entry) {
  const int32_t at = safetensors_find(tensors, name);
  const char *indices = json_string_value(json_object_get(entry, "indices"));
  const int32_t other = indices == NULL ? -1 : safetensors_find(tensors, indices);
  RETURN_IF(at < 0 || other < 0, NEAP_BAD_FORMAT, "%s: __metadata__ '" SAFETENSORS_SPARSE "': '%s' has no %s",
            tensors->path, name, at < 0 ? "tensor of values" : "tensor of indices");
  struct safetensors_tensor *tensor = &tensors->tensors[at];
  const struct safetensors_tensor *where = &tensors->tensors[other];
  RETURN_IF(!has_type(tensor->dtype, TYPES_FLOAT) || !has_type(where->dtype, TYPE_I32) || tensor->rank != 1 ||
                where->rank != 1 || tensor->dims[0] != where->dims[0],
            NEAP_BAD_FORMAT,
            "%s: tensors '%s' and '%s': a sparse tensor needs values [N] of F32, BF16 or F16 and indices [N] "
            "of I32",
            tensors->path, name, indices);
  TRY(read_dims(tensors->path, json_object_get(entry, "shape"), tensor));
  tensor->indices = where;
  return check_indices(tensors, tensor);
}

/* Blocks of bytes become elements of the shape that the metadata names. */
static neap_status read_quantised_tensor(struct safetensors *tensors, const char *name, const json_t *entry) {
  const int32_t at = safetensors_find(tensors, name);
  const char *text = json_string_value(json_object_get(entry, "type"));
  uint64_t bytes;
  neap_dtype type = NEAP_F32;
  RETURN_IF(at < 0, NEAP_BAD_FORMAT, "%s: __metadata__ '" SAFETENSORS_QUANTISED "': there is no tensor '%s'",
            tensors->path, name);
  for (neap_dtype d = 0; text != NULL && (int32_t)d < dtype_count; d++)
    if (type_set_has(TYPES_QUANTISED, d) && strcmp(dtype_rows[d].name, text) == 0) type = d;
  struct safetensors_tensor *tensor = &tensors->tensors[at];
  RETURN_IF(type == NEAP_F32, NEAP_BAD_FORMAT,
            "%s: __metadata__ '" SAFETENSORS_QUANTISED "': '%s' is of type '%s', which is not known",
            tensors->path, name, text != NULL ? text : "(none)");
  RETURN_IF(!has_type(tensor->dtype, TYPE_U8) || tensor->indices != NULL, NEAP_BAD_FORMAT,
            "%s: tensor '%s': dtype is %s; blocks of %s are U8", tensors->path, name, tensor->dtype, text);
  TRY(read_dims(tensors->path, json_object_get(entry, "shape"), tensor));
  RETURN_IF(!bytes_of(type, tensor->elements, &bytes) || bytes != tensor->bytes, NEAP_BAD_FORMAT,
            "%s: tensor '%s': its %llu bytes do not match blocks of %s for its shape", tensors->path, name,
            (unsigned long long)tensor->bytes, text);
  tensor->dtype = dtype_rows[type].safetensors;
  return NEAP_OK;
}

/* Reads one entry of a list in the metadata: {NAME: ENTRY, ...}. */
typedef neap_status read_entry(struct safetensors *tensors, const char *name, const json_t *entry);

static neap_status read_list(struct safetensors *tensors, const char *key, read_entry *read) {
  const char *text = safetensors_metadata(tensors, key), *name;
  json_error_t error;
  json_t *list, *entry;
  neap_status status = NEAP_OK;
  if (text == NULL) return NEAP_OK;
  list = json_loads(text, JSON_REJECT_DUPLICATES, &error);
  RETURN_IF(list == NULL && json_error_code(&error) == json_error_out_of_memory, NEAP_OUT_OF_MEMORY,
            "%s: out of memory", tensors->path);
  if (!json_is_object(list))
    status = neap_fail(NEAP_BAD_FORMAT, "%s: __metadata__ '%s' must be a JSON object", tensors->path, key);
  json_object_foreach(list, name, entry) {
    if (status == NEAP_OK) status = read(tensors, name, entry);
  }
  json_decref(list);
  return status;
}

/* The values at the front of `data` go to their elements, the last one first; the rest becomes 0. */
static neap_status spread(const struct safetensors *tensors, const struct safetensors_tensor *tensor,
                          float *data) {
  int32_t chunk[CHUNK];
  int64_t end = tensor->elements, count = count_of(tensor->indices);
  for (int64_t first = (count + CHUNK - 1) / CHUNK * CHUNK - CHUNK; first >= 0; first -= CHUNK) {
    TRY(read_indices(tensors, tensor->indices, first, chunk, &count));
    for (int64_t i = count; i-- > 0; end = chunk[i]) {
      const float value = data[first + i];
      for (int64_t k = chunk[i] + 1; k < end; k++) data[k] = 0;
      data[chunk[i]] = value;
    }
  }
  for (int64_t k = 0; k < end; k++) data[k] = 0;
  return NEAP_OK;
}

neap_status safetensors_read_positions(const struct safetensors *tensors, int32_t index, float *data) {
  const struct safetensors_tensor *tensor = &tensors->tensors[index];
  int32_t chunk[CHUNK];
  int64_t count;
  for (int64_t i = 0; i < tensor->elements; i++) data[i] = 0;
  for (int64_t first = 0; first < count_of(tensor->indices); first += count) {
    TRY(read_indices(tensors, tensor->indices, first, chunk, &count));
    for (int64_t i = 0; i < count; i++) data[chunk[i]] = 1;
  }
  return NEAP_OK;
}

/* ---- The file ---- */

neap_status safetensors_open(const char *path, struct safetensors *tensors) {
  *tensors = (struct safetensors){.path = NULL};
  tensors->path = region_string(&tensors->region, path);
  RETURN_IF_NULL(tensors->path);
  tensors->file = fopen(path, "rbe");
  RETURN_IF(tensors->file == NULL, NEAP_IO_FAILED, "%s: cannot be opened: %s", path, strerror(errno));
  struct stat file;
  RETURN_IF(fstat(fileno(tensors->file), &file) != 0, NEAP_IO_FAILED, "%s: cannot be opened: %s", path,
            strerror(errno));
  RETURN_IF(!S_ISREG(file.st_mode), NEAP_IO_FAILED, "%s: is not a regular file", path);
  const uint64_t size = (uint64_t)file.st_size;
  uint64_t length;
  RETURN_IF(size < PREFIX_BYTES, NEAP_BAD_FORMAT, "%s: has %llu bytes; a safetensors file has at least %d",
            path, (unsigned long long)size, PREFIX_BYTES);
  TRY(read_bytes(tensors, &length, sizeof length));
  RETURN_IF(length > HEADER_LIMIT || length > size - PREFIX_BYTES, NEAP_BAD_FORMAT,
            "%s: offset 0: the header has %llu bytes, the file %llu: not a safetensors file, or cut short",
            path, (unsigned long long)length, (unsigned long long)size);
  char *text = region_alloc(&tensors->region, length, 1);
  RETURN_IF(text == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory for the header", path);
  TRY(read_bytes(tensors, text, length));
  json_error_t error;
  json_t *header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
  RETURN_IF(header == NULL && json_error_code(&error) == json_error_out_of_memory, NEAP_OUT_OF_MEMORY,
            "%s: out of memory for the header", path);
  RETURN_IF(header == NULL, NEAP_BAD_FORMAT, "%s: offset %d: the header is not valid JSON: %s", path,
            PREFIX_BYTES + error.position, error.text);
  neap_status status = read_header(tensors, header, PREFIX_BYTES + length, size - PREFIX_BYTES - length);
  json_decref(header);
  if (status == NEAP_OK) status = read_list(tensors, SAFETENSORS_SPARSE, read_sparse_tensor);
  if (status == NEAP_OK) status = read_list(tensors, SAFETENSORS_QUANTISED, read_quantised_tensor);
  return status;
}

void safetensors_close(struct safetensors *tensors) {
  if (tensors->file != NULL) fclose(tensors->file);
  region_free(&tensors->region);
  *tensors = (struct safetensors){.path = NULL};
}

int32_t safetensors_find(const struct safetensors *tensors, const char *name) {
  for (int32_t i = 0; i < tensors->tensor_count; i++)
    if (strcmp(tensors->tensors[i].name, name) == 0) return i;
  return -1;
}

const char *safetensors_metadata(const struct safetensors *tensors, const char *key) {
  for (int32_t i = 0; i < tensors->metadata_count; i++)
    if (strcmp(tensors->metadata[i].key, key) == 0) return tensors->metadata[i].value;
  return NULL;
}

neap_status safetensors_need_real(const struct safetensors *tensors, int32_t index) {
  const struct safetensors_tensor *tensor = &tensors->tensors[index];
  RETURN_IF(!has_type(tensor->dtype, NEEDED_TYPES), NEAP_UNSUPPORTED,
            "%s: tensor '%s': its type is not supported (got %s); give F32, BF16, F16 or a quantised type",
            tensors->path, tensor->name, tensor->dtype);
  return NEAP_OK;
}

/* Bytes of elements, of which many others that lie apart may follow. */
static neap_status read_elements(const struct safetensors *tensors, uint64_t offset, bool apart, void *to,
                                 uint64_t bytes) {
  if (tensors->direct == NULL) return read_at(tensors, offset, to, bytes);
  return (apart ? direct_file_read_apart : direct_file_read)(tensors->direct, offset, to, bytes);
}

/* Elements that are in the file, `stored` of them from byte `at` of the tensor on. */
static neap_status read_stored(const struct safetensors *tensors, const struct safetensors_tensor *tensor,
                               uint64_t at, int64_t stored, bool apart, float *data) {
  neap_dtype type;
  RETURN_IF(!find_type(tensor->dtype, READ_TYPES, &type), NEAP_INTERNAL,
            "%s: tensor '%s' has an unexpected type", tensors->path, tensor->name);
  const struct dtype_row *row = &dtype_rows[type];
  const uint64_t bytes = dtype_bytes(type, (uint64_t)stored);
  /* The end of `data` is read into; the elements spread from there over the whole. */
  const unsigned char *from = (unsigned char *)data + (size_t)stored * sizeof *data - (size_t)bytes;
  TRY(read_elements(tensors, tensor->offset + at, apart, (void *)from, bytes));
  if (type_set_has(TYPES_QUANTISED, type)) dequantise(type, stored, from, data);
  for (int64_t i = 0; i < stored && !type_set_has(TYPES_QUANTISED | TYPE_F32, type); i++) {
    uint16_t bits = 0;
    memcpy(&bits, from + (size_t)i * (size_t)row->block_bytes, (size_t)row->block_bytes);
    data[i] = type == NEAP_U8 ? (float)bits : (float)dtype_real(type, &bits, 0);
  }
  return NEAP_OK;
}

neap_status safetensors_read(const struct safetensors *tensors, int32_t index, float *data) {
  const struct safetensors_tensor *tensor = &tensors->tensors[index];
  if (!has_type(tensor->dtype, TYPE_U8)) TRY(safetensors_need_real(tensors, index));
  neap_dtype type;
  RETURN_IF(!find_type(tensor->dtype, READ_TYPES, &type), NEAP_INTERNAL,
            "%s: tensor '%s' has an unexpected type", tensors->path, tensor->name);
  const int64_t stored =
      (int64_t)(tensor->bytes / (uint64_t)dtype_rows[type].block_bytes) * dtype_rows[type].block_elements;
  TRY(read_stored(tensors, tensor, 0, stored, false, data));
  return tensor->indices != NULL ? spread(tensors, tensor, data) : NEAP_OK;
}

neap_status safetensors_read_part(const struct safetensors *tensors, int32_t index, int64_t first,
                                  int64_t count, bool apart, float *data) {
  const struct safetensors_tensor *tensor = &tensors->tensors[index];
  neap_dtype type;
  TRY(safetensors_need_real(tensors, index));
  RETURN_IF(tensor->indices != NULL || first < 0 || count < 0 || first > tensor->elements ||
                count > tensor->elements - first || !find_type(tensor->dtype, READ_TYPES, &type),
            NEAP_INVALID_ARGUMENT, "%s: tensor '%s' has %lld elements in a row (got %lld from %lld on)",
            tensors->path, tensor->name, (long long)tensor->elements, (long long)count, (long long)first);
  return read_stored(tensors, tensor, dtype_bytes(type, (uint64_t)first), count, apart, data);
}

neap_status safetensors_read_blocks(const struct safetensors *tensors, int32_t index, int64_t first,
                                    int64_t count, void *blocks) {
  const struct safetensors_tensor *tensor = &tensors->tensors[index];
  neap_dtype type;
  RETURN_IF(!find_type(tensor->dtype, TYPES_QUANTISED, &type) ||
                first % dtype_rows[type].block_elements != 0 || count > tensor->elements - first,
            NEAP_INTERNAL, "%s: tensor '%s' does not consist of such blocks", tensors->path, tensor->name);
  return read_at(tensors, tensor->offset + dtype_bytes(type, (uint64_t)first), blocks,
                 dtype_bytes(type, (uint64_t)count));
}
