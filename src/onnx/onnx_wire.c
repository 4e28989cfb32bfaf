#include "onnx/onnx_wire.h"

#include <onnx.pb-c.h>

enum { DEPTH_LIMIT = 48, LENGTH_DELIMITED = 2 };

/* Reads a number of 7 bits in each byte; returns its length, 0: no number. */
static size_t read_number(const unsigned char *at, const unsigned char *end, uint64_t *value) {
  *value = 0;
  for (size_t i = 0; at + i < end && i < 10; i++) {
    *value |= (uint64_t)(at[i] & 127) << 7 * i;
    if (at[i] < 128) return i + 1;
  }
  return 0;
}

/* Returns the bytes of a field after its tag; 0: it is damaged. `inside`: how many of them, at the end, are
 * its content. */
static size_t field_bytes(unsigned wire, const unsigned char *at, const unsigned char *end,
                          uint64_t *inside) {
  const size_t left = (size_t)(end - at), number = read_number(at, end, inside);
  if (wire == 0) return number;
  if (wire == 1) return left >= 8 ? 8 : 0;
  if (wire == 5) return left >= 4 ? 4 : 0;
  if (wire != LENGTH_DELIMITED || number == 0 || *inside > left - number) return 0;
  return number + (size_t)*inside;
}

/* A field of a message. */
struct field {
  uint64_t number; /* 0: it has no content of a length of its own */
  const unsigned char *from, *end;
};

/* Reads the field at `*at`, and moves behind it. False: the message ends there, or is damaged. */
static bool next_field(const unsigned char **at, const unsigned char *end, struct field *field) {
  uint64_t tag, inside = 0;
  const size_t head = read_number(*at, end, &tag);
  if (*at >= end || head == 0) return false;
  *at += head;
  const size_t bytes = field_bytes((unsigned)tag & 7, *at, end, &inside);
  if (bytes == 0) return false;
  *at += bytes;
  const bool has_content = (tag & 7) == LENGTH_DELIMITED; /* else `inside` is a number's value */
  *field = (struct field){has_content ? tag >> 3 : 0, *at - (has_content ? inside : 0), *at};
  return true;
}

/* ---- Nesting ---- */

static bool is_shallow(const ProtobufCMessageDescriptor *kind, const unsigned char *at,
                       const unsigned char *end, int depth) {
  struct field f;
  if (depth > DEPTH_LIMIT) return false;
  while (next_field(&at, end, &f)) {
    const ProtobufCFieldDescriptor *field =
        f.number > 0 && f.number <= UINT32_MAX
            ? protobuf_c_message_descriptor_get_field(kind, (unsigned)f.number)
            : NULL;
    if (field != NULL && field->type == PROTOBUF_C_TYPE_MESSAGE &&
        !is_shallow(field->descriptor, f.from, f.end, depth + 1))
      return false;
  }
  return true;
}

neap_status onnx_check_nesting(const char *path, const unsigned char *bytes, size_t count) {
  RETURN_IF(!is_shallow(&onnx__model_proto__descriptor, bytes, bytes + count, 0), NEAP_BAD_FORMAT,
            "%s: has messages nested more than %d deep, deeper than any model", path, DEPTH_LIMIT);
  return NEAP_OK;
}

/* ---- Data of initializers ---- */

/* The numbers of fields in onnx.proto. */
enum { MODEL_GRAPH = 7, GRAPH_INITIALIZER = 5, TENSOR_RAW_DATA = 9 };

static uint64_t raw_data_of(struct field tensor, const unsigned char *bytes) {
  uint64_t place = 0;
  for (struct field f; next_field(&tensor.from, tensor.end, &f);)
    if (f.number == TENSOR_RAW_DATA) place = (uint64_t)(f.from - bytes);
  return place;
}

void onnx_find_data(const unsigned char *bytes, size_t count, uint64_t *places, size_t tensors) {
  const unsigned char *at = bytes, *end = bytes + count;
  size_t found = 0;
  for (struct field graph; next_field(&at, end, &graph);)
    for (struct field f; graph.number == MODEL_GRAPH && next_field(&graph.from, graph.end, &f);)
      if (f.number == GRAPH_INITIALIZER && found < tensors) places[found++] = raw_data_of(f, bytes);
  while (found < tensors) places[found++] = 0;
}
