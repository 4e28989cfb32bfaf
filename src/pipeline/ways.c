#include "pipeline/ways.h"

#include "pipeline/choose.h"
#include "pipeline/published.h"
#include "pipeline/roundpipe.h"

const struct pipeline_way pipeline_ways[PIPELINE_WAYS] = {
    {"gpipe", pipeline_gpipe},
    {"1f1b", pipeline_1f1b},
    {"interleaved", pipeline_interleaved},
    {"breadth-first", pipeline_breadth_first},
    {"roundpipe", pipeline_roundpipe},
    {"neap", pipeline_choose},
};
