#include "kernel/cpu/isa/isa.h"

#define TEXT_OF(isa) #isa
#define TEXT(isa)    TEXT_OF(isa)
#define SLOT(name)   .name = ISA(name)

const struct cpu_kernels ISA(cpu_kernels) = {
    TEXT(NEAP_ISA),
    SLOT(batch_norm_statistics),
    SLOT(batch_norm),
    SLOT(batch_norm_backward),
    SLOT(reduction_workspace),
    SLOT(relu),
    SLOT(relu_backward),
    SLOT(relu_mask),
    SLOT(relu_mask_backward),
    SLOT(add),
    SLOT(bias_backward),
    SLOT(bias_add),
    SLOT(max_pool),
    SLOT(max_pool_backward),
    SLOT(average_pool),
    SLOT(average_pool_backward),
    SLOT(global_average_pool),
    SLOT(global_average_pool_backward),
    SLOT(crop),
    SLOT(crop_backward),
    SLOT(resize),
    SLOT(resize_backward),
    SLOT(adaptive_average_pool),
    SLOT(adaptive_average_pool_backward),
    SLOT(softmax_cross_entropy),
    SLOT(softmax_cross_entropy_backward),
    SLOT(dropout),
    SLOT(sgd),
    SLOT(adamw),
    SLOT(running_statistics),
    SLOT(reorder),
};
