#include "base/dtype.h"

const struct dtype_row dtype_rows[] = {
    [NEAP_F32] = {"f32", 1, 4, "F32", true}, [NEAP_I32] = {"i32", 1, 4, "I32", false},
    [NEAP_U8] = {"u8", 1, 1, "U8", false},   [NEAP_F64] = {"f64", 1, 8, "F64", true},
    [NEAP_BIT] = {"bit", 8, 1, NULL, false}, [NEAP_BF16] = {"bf16", 1, 2, "BF16", true},
    [NEAP_F16] = {"f16", 1, 2, "F16", true},
};
const int32_t dtype_count = sizeof dtype_rows / sizeof *dtype_rows;
