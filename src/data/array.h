/* Arrays in NumPy's files, read a record at a time. */
#ifndef NEAP_DATA_ARRAY_H
#define NEAP_DATA_ARRAY_H

#include "data/source.h"
#include "formats/npy.h"

enum array_kind {
  ARRAY_BYTES,
  ARRAY_INTEGERS,
  ARRAY_REALS
}; /* BYTES: of type u8, which may be integers too */

struct array {
  const char *name; /* name of its file and of its entry there, for messages; borrowed */
  int descriptor;
  uint64_t offset;
  int type; /* a row of the table of types */
  enum array_kind kind;
  int rank;
  int64_t dims[NEAP_MAX_RANK], each; /* dims[0] counts records; each: elements of a record */
  int64_t channels;                  /* above 1: a record is [., channels] and is read as planes */
  bool rounded;                      /* numbers are rounded to f32 before they are standardised */
};

/* Opens an array that begins at `base` of an open file and has `bytes` bytes in all. NEAP_UNSUPPORTED: its
 * type is neither an integer nor a real number in the machine's byte order, or it has no dimension.
 * NEAP_BAD_FORMAT: its size does not match its shape. */
neap_status array_open(const char *name, int descriptor, uint64_t base, uint64_t bytes, struct array *array);

/* Reads the elements of a record, plane by plane if it has channels: as bytes (for ARRAY_BYTES), as f32
 * standardised by `scale`, as f64, or as i32. Several threads may read at once. NEAP_BAD_FORMAT: a number is
 * not finite or does not fit i32, or the file was cut after it was opened. */
neap_status array_read_bytes(const struct array *array, int64_t record, uint8_t *bytes);
neap_status array_read_f32(const struct array *array, int64_t record, const struct scale *scale,
                           float *values);
neap_status array_read_f64(const struct array *array, int64_t record, double *values);
neap_status array_read_i32(const struct array *array, int64_t record, int32_t *values);

#endif
