#include "pipeline/ways.h"

#include "pipeline/choose.h"
#include "pipeline/published.h"
#include "pipeline/roundpipe.h"

const struct pipeline_way pipeline_ways[PIPELINE_WAYS] = {
    {"gpipe", false, pipeline_gpipe},
    {"1f1b", false, pipeline_1f1b},
    {"interleaved", false, pipeline_interleaved},
    {"breadth-first", false, pipeline_breadth_first},
    {"roundpipe", true, pipeline_roundpipe},
    {"neap", false, pipeline_choose},
};
