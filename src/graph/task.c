#include "graph/task.h"

const struct task_row task_rows[TASK_KINDS] = {
    [TASK_IMAGES] = {"image", "label", "images", "images"},
    [TASK_PIXELS] = {"image", "label", "images", "images"},
    [TASK_TOKENS] = {"tokens", "label", "sequences", "sequences of tokens"},
    [TASK_MASKED] = {"tokens", "label", "sequences", "sequences of tokens"},
    [TASK_VECTORS] = {"sequence", "label", "sequences", "sequences of vectors"},
    [TASK_FEATURES] = {"features", "label", "records", "rows of numbers"},
    [TASK_PAIRS] = {"tokens", "label", "pairs", "pairs of sequences"},
    [TASK_TEXTS] = {"tokens", "label", "texts", "texts"},
};
