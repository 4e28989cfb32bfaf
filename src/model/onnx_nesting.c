#include "model/onnx_nesting.h"

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

static bool is_shallow(const ProtobufCMessageDescriptor *kind, const unsigned char *at,
                       const unsigned char *end, int depth) {
  if (depth > DEPTH_LIMIT) return false;
  while (at < end) {
    uint64_t tag, inside = 0;
    const size_t head = read_number(at, end, &tag);
    if (head == 0) return true;
    at += head;
    const size_t bytes = field_bytes((unsigned)tag & 7, at, end, &inside);
    if (bytes == 0) return true;
    const ProtobufCFieldDescriptor *field =
        (tag & 7) == LENGTH_DELIMITED && tag >> 3 <= UINT32_MAX
            ? protobuf_c_message_descriptor_get_field(kind, (unsigned)(tag >> 3))
            : NULL;
    if (field != NULL && field->type == PROTOBUF_C_TYPE_MESSAGE &&
        !is_shallow(field->descriptor, at + bytes - inside, at + bytes, depth + 1))
      return false;
    at += bytes;
  }
  return true;
}

neap_status onnx_check_nesting(const char *path, const unsigned char *bytes, size_t count) {
  RETURN_IF(!is_shallow(&onnx__model_proto__descriptor, bytes, bytes + count, 0), NEAP_BAD_FORMAT,
            "%s: has messages nested more than %d deep, deeper than any model", path, DEPTH_LIMIT);
  return NEAP_OK;
}
