/* The bytes of an ONNX file, before they are read: messages nested in messages. */
#ifndef NEAP_ONNX_ONNX_WIRE_H
#define NEAP_ONNX_ONNX_WIRE_H

#include "base/status.h"

/* Fails with NEAP_BAD_FORMAT if messages are nested deeper than by any exporter: the reader of protobuf-c
 * calls itself for each. Bytes that are not a message are left to that reader. */
neap_status onnx_check_nesting(const char *path, const unsigned char *bytes, size_t count);

/* Finds where the raw data of the first `tensors` initializers begin, counted from the first byte; 0: such a
 * one has none. */
void onnx_find_data(const unsigned char *bytes, size_t count, uint64_t *places, size_t tensors);

#endif
