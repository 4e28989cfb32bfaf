#include "language/packed_weight.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/quantised.h"
#include "formats/json.h"
#include "graph/graph.h"

#define STATE ".quant_state.bitsandbytes__"
enum { ENDING = sizeof ".weight" - 1 };

/* ---- Supported weights ---- */

static bool is_of_8_bits(const json_t *config) {
  return json_is_true(json_object_get(config, "load_in_8bit")) &&
         !json_is_true(json_object_get(config, "load_in_4bit"));
}

neap_status packed_weight_check(const char *config_path, const json_t *config) {
  const char *method = json_string_value(json_object_get(config, "quant_method")),
             *type = json_string_value(json_object_get(config, "bnb_4bit_quant_type"));
  if (config == NULL || json_is_null(config)) return NEAP_OK;
  RETURN_IF(
      method == NULL || strcmp(method, "bitsandbytes") != 0, NEAP_UNSUPPORTED,
      "%s: 'quantization_config': weights are stored by '%s'; supported are F32, F16 and BF16, those of "
      "bitsandbytes in 8 bits and in 4 bits (nf4), and GGUF files",
      config_path, method != NULL ? method : "(no quant_method)");
  if (is_of_8_bits(config)) {
    RETURN_IF(
        json_is_true(json_object_get(config, "llm_int8_has_fp16_weight")), NEAP_UNSUPPORTED,
        "%s: 'quantization_config': llm_int8_has_fp16_weight is true: each product rounds whole weights "
        "to 8 bits; only false is supported",
        config_path);
    return NEAP_OK;
  }
  RETURN_IF(type != NULL && strcmp(type, "nf4") != 0, NEAP_UNSUPPORTED,
            "%s: 'quantization_config': weights are stored in '%s'; of bitsandbytes' types of 4 bits only "
            "nf4 is supported",
            config_path, type);
  return NEAP_OK;
}

neap_status packed_weight_tell(const json_t *config, struct region *region, struct understood *understood) {
  static const struct {
    const char *key, *why;
  } rows[] = {
      {"llm_int8_threshold",
       "weights have the numbers of their 8 bits; activations are not rounded to 8 bits"},
      {"llm_int8_skip_modules", "the file's tensors say which weights have 8 bits"},
  };
  for (size_t i = 0; is_of_8_bits(config) && i < sizeof rows / sizeof *rows; i++) {
    const json_t *value = json_object_get(config, rows[i].key);
    if (value == NULL || json_is_null(value)) continue;
    const char *object = region_format(region, "quantization_config.%s", rows[i].key);
    RETURN_IF(object == NULL, NEAP_OUT_OF_MEMORY, "out of memory for the keys of a model");
    TRY(understood_add(understood, region,
                       (neap_understood){object, "keys of the model not used", -1, rows[i].why}));
  }
  return NEAP_OK;
}

static neap_status read_bytes(const struct safetensors *file, const struct safetensors_tensor *t, uint64_t at,
                              uint64_t bytes, void *data) {
  RETURN_IF(at > t->bytes || bytes > t->bytes - at, NEAP_BAD_FORMAT,
            "%s: tensor '%s' has %llu bytes; its weight needs more", file->path, t->name,
            (unsigned long long)t->bytes);
  return file_need_at(file->path, fileno(file->file), t->offset + at, data, (size_t)bytes);
}

/* Finds a tensor that belongs to the weight, of the weight's name without `cut` bytes and the ending; NULL if
 * it is missing. */
static neap_status find_beside(const struct weight_files *files, const struct weight_tensor *weight,
                               size_t cut, const char *ending, struct region *region,
                               const struct weight_tensor **found) {
  const char *whole =
      region_format(region, "%.*s%s", (int)(strlen(weight->name) - cut), weight->name, ending);
  RETURN_IF(whole == NULL, NEAP_OUT_OF_MEMORY, "'%s': out of memory", weight->name);
  *found = weight_files_find(files, whole);
  return NEAP_OK;
}

static neap_status need_size(const struct weight_tensor *tensor, uint64_t bytes) {
  const struct safetensors_tensor *t = &tensor->file->tensors[tensor->index];
  RETURN_IF(t->bytes != bytes, NEAP_BAD_FORMAT, "%s: tensor '%s' has %llu bytes; it must have %llu",
            tensor->file->path, t->name, (unsigned long long)t->bytes, (unsigned long long)bytes);
  return NEAP_OK;
}

static neap_status need_beside(const struct weight_files *files, const struct weight_tensor *weight,
                               const char *ending, uint64_t bytes, struct region *region,
                               const struct weight_tensor **found) {
  TRY(find_beside(files, weight, 0, ending, region, found));
  RETURN_IF(*found == NULL, NEAP_BAD_FORMAT, "%s: has no tensor '%s%s', which belongs to a weight of 4 bits",
            weight->file->path, weight->name, ending);
  return need_size(*found, bytes);
}

/* ---- The state ---- */

static neap_status parse_state(const struct weight_tensor *tensor, json_t **state) {
  enum { MOST = 1 << 16 };
  const struct safetensors *file = tensor->file;
  const struct safetensors_tensor *t = &file->tensors[tensor->index];
  json_error_t error;
  RETURN_IF(t->bytes > MOST, NEAP_BAD_FORMAT, "%s: tensor '%s' has %llu bytes, too many for a state",
            file->path, t->name, (unsigned long long)t->bytes);
  char *text = malloc((size_t)t->bytes + 1);
  RETURN_IF(text == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", file->path);
  neap_status status = read_bytes(file, t, 0, t->bytes, text);
  if (status == NEAP_OK) {
    *state = json_loadb(text, (size_t)t->bytes, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(*state))
      status = neap_fail(NEAP_BAD_FORMAT, "%s: tensor '%s' must be a JSON object", file->path, t->name);
  }
  free(text);
  return status;
}

static neap_status read_shape(const json_t *shape, const struct json_place *place, struct packed_weight *p) {
  const size_t rank = json_array_size(shape);
  if (rank < 1 || rank > NEAP_MAX_RANK) return json_bad_field(place, "shape", "must be a shape");
  p->rank = (int)rank;
  p->elements = 1;
  for (size_t i = 0; i < rank; i++) {
    const json_t *dim = json_array_get(shape, i);
    p->dims[i] = json_integer_value(dim);
    if (!json_is_integer(dim) || p->dims[i] < 1 ||
        __builtin_mul_overflow(p->elements, p->dims[i], &p->elements) || p->elements > (int64_t)1 << 44)
      return json_bad_field(place, "shape", "must be a shape");
  }
  return NEAP_OK;
}

static neap_status read_block(const json_t *state, const char *field, const struct json_place *place,
                              int64_t *block) {
  uint64_t size;
  TRY(json_need_size(state, field, place, &size));
  if (size < 2 || size > 1 << 20 || size % 2 != 0)
    return json_bad_field(place, field, "must be a block size: even, 2 or more");
  *block = (int64_t)size;
  return NEAP_OK;
}

static neap_status read_state(const json_t *state, const char *path, struct packed_weight *p) {
  const struct json_place place = {.file = path};
  double offset;
  TRY(read_shape(json_object_get(state, "shape"), &place, p));
  TRY(read_block(state, "blocksize", &place, &p->block));
  RETURN_IF(p->block % 64 != 0, NEAP_UNSUPPORTED,
            "%s: field 'blocksize': must be a multiple of 64 (got %lld)", path, (long long)p->block);
  if (json_object_get(state, "nested_offset") == NULL) return NEAP_OK;
  const char *type = json_string_value(json_object_get(state, "nested_dtype"));
  RETURN_IF(type == NULL || strcmp(type, "float32") != 0, NEAP_UNSUPPORTED,
            "%s: field 'nested_dtype': must be float32 (got '%s')", path,
            type != NULL ? type : "not a string");
  TRY(read_block(state, "nested_blocksize", &place, &p->nested_block));
  TRY(json_need_number(state, "nested_offset", &place, &offset));
  p->offset = (float)offset;
  return NEAP_OK;
}

/* ---- The tensors ---- */

static uint64_t ceiling(int64_t count, int64_t by) { return (uint64_t)((count + by - 1) / by); }

/* Fails unless the table of numbers is that of Neap's blocks. */
static neap_status check_table(const struct weight_tensor *tensor) {
  const struct safetensors *file = tensor->file;
  float map[16], own[64];
  struct nf4 block = {.scale = 1};
  for (int i = 0; i < 16; i++) block.q[i] = (uint8_t)(i << 4);
  nf4_to_floats(&block, own);
  TRY(read_bytes(file, &file->tensors[tensor->index], 0, sizeof map, map));
  for (int i = 0; i < 16; i++)
    RETURN_IF(map[i] != own[2 * i], NEAP_UNSUPPORTED,
              "%s: tensor '%s': number %d is %.9g; the table of nf4 has %.9g", file->path, tensor->name, i,
              (double)map[i], (double)own[2 * i]);
  return NEAP_OK;
}

static neap_status find_nested(const struct weight_files *files, const struct weight_tensor *weight,
                               struct region *region, struct packed_weight *p) {
  const uint64_t scales = ceiling(p->elements, p->block);
  const struct weight_tensor *nested, *map;
  TRY(need_beside(files, weight, ".nested_absmax", 4 * ceiling((int64_t)scales, p->nested_block), region,
                  &nested));
  TRY(need_beside(files, weight, ".nested_quant_map", sizeof p->nested_map, region, &map));
  p->nested_absmax = &nested->file->tensors[nested->index];
  p->nested_file = nested->file;
  return read_bytes(map->file, &map->file->tensors[map->index], 0, sizeof p->nested_map, p->nested_map);
}

static neap_status find_parts(const struct weight_files *files, const struct weight_tensor *weight,
                              const json_t *state, struct region *region, struct packed_weight *p) {
  const struct weight_tensor *absmax, *table;
  p->dtype = NEAP_NF4;
  TRY(read_state(state, weight->file->path, p));
  p->run = p->elements;
  const uint64_t scales = ceiling(p->elements, p->block), bytes = ceiling(p->elements, 2);
  RETURN_IF(p->numbers->bytes != bytes, NEAP_BAD_FORMAT,
            "%s: tensor '%s' has %llu bytes; its %lld numbers of 4 bits need %llu", weight->file->path,
            weight->name, (unsigned long long)p->numbers->bytes, (long long)p->elements,
            (unsigned long long)bytes);
  TRY(need_beside(files, weight, ".absmax", p->nested_block > 0 ? scales : 4 * scales, region, &absmax));
  TRY(need_beside(files, weight, ".quant_map", 16 * sizeof(float), region, &table));
  p->absmax_file = absmax->file;
  p->absmax = &absmax->file->tensors[absmax->index];
  TRY(check_table(table));
  return p->nested_block > 0 ? find_nested(files, weight, region, p) : NEAP_OK;
}

static neap_status find_nf4(const struct weight_files *files, const struct weight_tensor *weight,
                            const struct weight_tensor *state, struct region *region,
                            struct packed_weight *p) {
  json_t *object = NULL;
  neap_status status = parse_state(state, &object);
  if (status == NEAP_OK) status = find_parts(files, weight, object, region, p);
  json_decref(object);
  return status;
}

/* Fails unless the numbers lie row behind row: older bitsandbytes wrote other orders, too. */
static neap_status check_order(const struct weight_tensor *order) {
  static const char *const names[] = {"row", "col32", "col_turing", "col_ampere"};
  uint8_t which;
  TRY(need_size(order, 1));
  TRY(read_bytes(order->file, &order->file->tensors[order->index], 0, 1, &which));
  RETURN_IF(which != 0, NEAP_UNSUPPORTED,
            "%s: tensor '%s': the order of the numbers is %d (%s); only 0 (row) is supported",
            order->file->path, order->name, which,
            which < sizeof names / sizeof *names ? names[which] : "unknown");
  return NEAP_OK;
}

static neap_status find_i8(const struct weight_files *files, const struct weight_tensor *weight,
                           const struct weight_tensor *scales, struct region *region,
                           struct packed_weight *p) {
  const struct weight_tensor *order;
  const struct safetensors_tensor *t = p->numbers, *s = &scales->file->tensors[scales->index];
  RETURN_IF(strcmp(t->dtype, "I8") != 0 || t->rank != 2 || t->elements == 0, NEAP_BAD_FORMAT,
            "%s: tensor '%s' is %s %s; beside '%s' it must be a matrix of I8", weight->file->path,
            weight->name, t->dtype, dims_text(t->rank, t->dims).text, scales->name);
  RETURN_IF(strcmp(s->dtype, "F32") != 0, NEAP_UNSUPPORTED, "%s: tensor '%s' is %s; only F32 is supported",
            scales->file->path, scales->name, s->dtype);
  TRY(need_size(scales, 4 * (uint64_t)t->dims[0]));
  TRY(find_beside(files, weight, ENDING, ".weight_format", region, &order));
  if (order != NULL) TRY(check_order(order));
  p->dtype = NEAP_I8;
  p->absmax_file = scales->file;
  p->absmax = s;
  p->rank = 2;
  memcpy(p->dims, t->dims, sizeof p->dims);
  p->elements = t->elements;
  p->run = t->dims[1];
  return NEAP_OK;
}

neap_status packed_weight_find(const struct weight_files *files, const struct weight_tensor *weight,
                               struct region *region, const struct packed_weight **out) {
  const struct weight_tensor *state, *other, *rows = NULL;
  const size_t length = strlen(weight->name);
  *out = NULL;
  TRY(find_beside(files, weight, 0, STATE "nf4", region, &state));
  TRY(find_beside(files, weight, 0, STATE "fp4", region, &other));
  if (length > ENDING && strcmp(weight->name + length - ENDING, ".weight") == 0)
    TRY(find_beside(files, weight, ENDING, ".SCB", region, &rows));
  RETURN_IF(other != NULL, NEAP_UNSUPPORTED,
            "%s: tensor '%s' is stored in fp4; of bitsandbytes' types of 4 bits only nf4 is supported",
            weight->file->path, weight->name);
  if (state == NULL && rows == NULL) return NEAP_OK;
  struct packed_weight *p = region_alloc(region, 1, sizeof *p);
  RETURN_IF(p == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", weight->file->path);
  p->numbers_file = weight->file;
  p->numbers = &weight->file->tensors[weight->index];
  TRY(state != NULL ? find_nf4(files, weight, state, region, p) : find_i8(files, weight, rows, region, p));
  *out = p;
  return NEAP_OK;
}

/* ---- Numbers ---- */

enum { PART = 64, WIDTH = 64 }; /* blocks that are read at once, and their numbers */

union part {
  struct nf4 nf4[PART];
  struct i8 i8[PART];
};

static int64_t blocks_of_run(const struct packed_weight *p) { return (int64_t)ceiling(p->run, WIDTH); }

/* Returns the first number of a block; the last one of a run may be short. */
static int64_t block_begin(const struct packed_weight *p, int64_t block) {
  const int64_t runs = block / blocks_of_run(p), begin = runs * p->run + block % blocks_of_run(p) * WIDTH;
  return begin < p->elements ? begin : p->elements;
}

/* Computes scales as bitsandbytes does: a product, which is rounded, and a sum. */
static neap_status read_scales(const struct packed_weight *p, int64_t first, int64_t count, float *scales) {
  uint8_t bytes[PART];
  float nested = 0;
  if (p->nested_absmax == NULL)
    return read_bytes(p->absmax_file, p->absmax, 4 * (uint64_t)first, 4 * (uint64_t)count, scales);
  TRY(read_bytes(p->absmax_file, p->absmax, (uint64_t)first, (uint64_t)count, bytes));
  for (int64_t i = 0; i < count; i++) {
    const int64_t at = (first + i) / p->nested_block;
    if (i == 0 || (first + i) % p->nested_block == 0)
      TRY(read_bytes(p->nested_file, p->nested_absmax, 4 * (uint64_t)at, 4, &nested));
    const volatile float product = p->nested_map[bytes[i]] * nested; /* not fused with the sum */
    scales[i] = product + p->offset;
  }
  return NEAP_OK;
}

/* Read blocks [first, first + count), at most PART. */
static neap_status read_nf4(const struct packed_weight *p, int64_t first, int64_t count, void *blocks) {
  const int64_t per_scale = p->block / WIDTH, scale = first / per_scale;
  const uint64_t begin = 32 * (uint64_t)first, left = p->numbers->bytes - begin;
  uint8_t numbers[32 * PART] = {0};
  float scales[PART];
  struct nf4 *to = blocks;
  TRY(read_bytes(p->numbers_file, p->numbers, begin,
                 left < 32 * (uint64_t)count ? left : 32 * (uint64_t)count, numbers));
  TRY(read_scales(p, scale, (first + count - 1) / per_scale - scale + 1, scales));
  for (int64_t i = 0; i < count; i++) {
    to[i].scale = scales[(first + i) / per_scale - scale];
    memcpy(to[i].q, numbers + 32 * i, sizeof to[i].q);
  }
  return NEAP_OK;
}

static neap_status read_i8(const struct packed_weight *p, int64_t first, int64_t count, void *blocks) {
  const int64_t per_row = blocks_of_run(p), row = first / per_row, begin = block_begin(p, first);
  int8_t numbers[WIDTH * PART];
  float scales[PART];
  struct i8 *to = blocks;
  TRY(read_bytes(p->numbers_file, p->numbers, (uint64_t)begin,
                 (uint64_t)(block_begin(p, first + count) - begin), numbers));
  TRY(read_bytes(p->absmax_file, p->absmax, 4 * (uint64_t)row,
                 4 * (uint64_t)((first + count - 1) / per_row - row + 1), scales));
  for (int64_t i = 0; i < count; i++) {
    const int64_t at = block_begin(p, first + i), length = block_begin(p, first + i + 1) - at;
    to[i] = (struct i8){.absmax = scales[(first + i) / per_row - row]};
    memcpy(to[i].q, numbers + (at - begin), (size_t)length);
  }
  return NEAP_OK;
}

static neap_status read_part(const struct packed_weight *p, int64_t first, int64_t count, void *blocks) {
  return p->dtype == NEAP_I8 ? read_i8(p, first, count, blocks) : read_nf4(p, first, count, blocks);
}

bool packed_weight_has_blocks(const struct packed_weight *p) {
  return p->rank == 2 && p->dims[1] % WIDTH == 0;
}

neap_status packed_weight_read_blocks(const struct packed_weight *p, int64_t first_row, int64_t rows,
                                      void *blocks) {
  const int64_t per_row = p->dims[1] / WIDTH, total = rows * per_row;
  union part part;
  for (int64_t b = 0; b < total; b += PART) {
    const int64_t count = total - b < PART ? total - b : PART;
    TRY(read_part(p, first_row * per_row + b, count, &part));
    memcpy((unsigned char *)blocks + dtype_bytes(p->dtype, (uint64_t)(WIDTH * b)), &part,
           dtype_bytes(p->dtype, (uint64_t)(WIDTH * count)));
  }
  return NEAP_OK;
}

neap_status packed_weight_read(const struct packed_weight *p, float *data) {
  const int64_t total = p->elements / p->run * blocks_of_run(p);
  union part part;
  float numbers[WIDTH * PART];
  for (int64_t b = 0; b < total; b += PART) {
    const int64_t count = total - b < PART ? total - b : PART;
    TRY(read_part(p, b, count, &part));
    dequantise(p->dtype, WIDTH * count, &part, numbers);
    for (int64_t i = 0; i < count; i++) {
      const int64_t at = block_begin(p, b + i), length = block_begin(p, b + i + 1) - at;
      memcpy(data + at, numbers + WIDTH * i, (size_t)length * sizeof *numbers);
    }
  }
  return NEAP_OK;
}
