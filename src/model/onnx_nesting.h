/* How deep the messages of an ONNX file lie in one another. */
#ifndef NEAP_MODEL_ONNX_NESTING_H
#define NEAP_MODEL_ONNX_NESTING_H

#include "base/status.h"

/* Fails with NEAP_BAD_FORMAT where messages lie deeper than any exporter puts them: the reader of protobuf-c
 * calls itself for each. What is no message at all is left to that reader. */
neap_status onnx_check_nesting(const char *path, const unsigned char *bytes, size_t count);

#endif
