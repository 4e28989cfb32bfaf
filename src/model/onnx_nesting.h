/* The depth of nested messages in an ONNX file. */
#ifndef NEAP_MODEL_ONNX_NESTING_H
#define NEAP_MODEL_ONNX_NESTING_H

#include "base/status.h"

/* Fails with NEAP_BAD_FORMAT if messages are nested deeper than by any exporter: the reader of protobuf-c
 * calls itself for each. Bytes that are not a message are left to that reader. */
neap_status onnx_check_nesting(const char *path, const unsigned char *bytes, size_t count);

#endif
