/* Nodes of an ONNX graph that are computed before training, from constants. */
#ifndef NEAP_ONNX_ONNX_FOLD_H
#define NEAP_ONNX_ONNX_FOLD_H

#include "onnx/onnx_constant.h"

/* The function that computes nodes of an operator; NULL: no such operator. */
fold_function *fold_find(const char *op);

#endif
