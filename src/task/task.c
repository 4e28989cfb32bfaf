#include "task/task.h"

const struct task_row task_rows[TASK_KINDS] = {
    [NEAP_TASK_IMAGES] = {"image", "label", "images", "images", NEAP_TASK_IMAGES},
    [NEAP_TASK_PIXELS] = {"image", "label", "images", "images", NEAP_TASK_IMAGES},
    [NEAP_TASK_TOKENS] = {"tokens", "label", "sequences", "sequences of tokens", NEAP_TASK_TOKENS},
    [NEAP_TASK_MASKED] = {"tokens", "label", "sequences", "sequences of tokens", NEAP_TASK_TOKENS},
    [NEAP_TASK_VECTORS] = {"sequence", "label", "sequences", "sequences of vectors", NEAP_TASK_VECTORS},
    [NEAP_TASK_FEATURES] = {"features", "label", "records", "rows of numbers", NEAP_TASK_FEATURES},
    [NEAP_TASK_PAIRS] = {"tokens", "label", "pairs", "pairs of sequences", NEAP_TASK_PAIRS},
    [NEAP_TASK_TEXTS] = {"tokens", "label", "texts", "texts", NEAP_TASK_TEXTS},
};
