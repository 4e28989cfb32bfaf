/* The functions that read nodes, by family; onnx_rows.c has the rows that name them. */
#ifndef NEAP_ONNX_ONNX_OPERATORS_H
#define NEAP_ONNX_ONNX_OPERATORS_H

#include "onnx/onnx_import.h"

/* onnx_layers.c */
import_function import_average_pool, import_batch_norm, import_conv, import_conv_transpose, import_dropout,
    import_gemm, import_global_average_pool, import_group_norm, import_instance_norm, import_layer_norm,
    import_lrn, import_matmul, import_max_pool, import_rms_norm;
/* onnx_einsum.c */
import_function import_einsum;
/* onnx_places.c */
import_function import_global_max_pool, import_pad, import_resize, import_tile;
/* onnx_elementwise.c */
import_function import_abs, import_add, import_cast, import_clip, import_div, import_elu, import_erf,
    import_exp, import_gelu, import_hard_sigmoid, import_hard_swish, import_identity, import_is_nan,
    import_leaky_relu, import_log, import_log_softmax, import_max, import_mean, import_min, import_mish,
    import_mul, import_neg, import_pow, import_prelu, import_reciprocal, import_relu, import_selu,
    import_sigmoid, import_softmax, import_softplus, import_softsign, import_sqrt, import_sub, import_sum,
    import_swish, import_tanh, import_where;
/* onnx_shapes.c */
import_function import_concat, import_depth_to_space, import_expand, import_flatten, import_gather,
    import_reduce_mean, import_reduce_sum, import_reshape, import_sequence_at, import_shape, import_size,
    import_slice, import_space_to_depth, import_split, import_split_to_sequence, import_squeeze,
    import_transpose, import_unsqueeze;

#endif
