/* Weights that bitsandbytes packed, in the safetensors of a folder. In 4 bits (NF4): NAME has bytes with two
 * numbers each; with it come NAME.absmax, NAME.quant_map, NAME.quant_state.bitsandbytes__nf4 (JSON) and, if
 * scales are quantised too, NAME.nested_absmax and NAME.nested_quant_map. In 8 bits: OWNER.weight has the
 * numbers, OWNER.SCB the largest size of each row, OWNER.weight_format the order of the numbers. */
#ifndef NEAP_LANGUAGE_PACKED_WEIGHT_H
#define NEAP_LANGUAGE_PACKED_WEIGHT_H

#include <jansson.h>

#include "base/understood.h"
#include "weights/weight_files.h"

struct packed_weight {
  neap_dtype dtype;                                                  /* whose blocks have the same numbers */
  const struct safetensors_tensor *numbers, *absmax, *nested_absmax; /* nested_absmax NULL: absmax are f32 */
  const struct safetensors *numbers_file, *absmax_file, *nested_file;
  int rank;
  int64_t dims[NEAP_MAX_RANK], elements;
  int64_t run;                   /* numbers in blocks that follow on one another: the weight, or a row */
  int64_t block, nested_block;   /* of 4 bits: elements that share a scale; scales that share one */
  float nested_map[256], offset; /* a scale is nested_map[byte] * nested_absmax + offset */
};

/* Fails unless quantization_config of config.json, which may be NULL, is that of such weights;
 * NEAP_UNSUPPORTED names the method. */
neap_status packed_weight_check(const char *config_path, const json_t *config);

/* Adds a row for each key of quantization_config that is not used. */
neap_status packed_weight_tell(const json_t *config, struct region *region, struct understood *understood);

/* Finds how the tensor is packed, in the region; `*out` is NULL if it is not packed. NEAP_UNSUPPORTED: it has
 * another type or table. NEAP_BAD_FORMAT: one of its tensors is missing or damaged. */
neap_status packed_weight_find(const struct weight_files *files, const struct weight_tensor *tensor,
                               struct region *region, const struct packed_weight **out);

/* Reads all numbers: those of bitsandbytes' dequantize_4bit or int8_vectorwise_dequant in f32. */
neap_status packed_weight_read(const struct packed_weight *p, float *data);

/* Returns true if rows can be blocks of the dtype; and reads such blocks of rows: they give the same numbers.
 */
bool packed_weight_has_blocks(const struct packed_weight *p);
neap_status packed_weight_read_blocks(const struct packed_weight *p, int64_t first_row, int64_t rows,
                                      void *blocks);

#endif
