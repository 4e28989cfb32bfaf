#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/failure.h"
#include "shared/format.h"
#include "shared/pipeline.h"
#include "shared/source.h"

enum { WAYS_MOST = 16, MOST_PARTS = 64 };

struct chosen {
  const char *way;
  neap_step *step; /* of the pipeline, which borrows it; may be that of another way */
  neap_pipeline *pipeline;
  neap_pipeline_info info;
};

struct table {
  neap_pipeline_options options;
  struct chosen ways[WAYS_MOST];
  neap_step *steps[MOST_PARTS];
  int count, step_count;
  int32_t pipelines;
  bool least;        /* what takes the least bytes is the answer: all of them fit */
  uint64_t smallest; /* budget that any way was found to meet */
};

static bool is_better(const neap_pipeline_info *now, const neap_pipeline_info *old) {
  if (now->fits != old->fits) return now->fits;
  return now->fits ? now->seconds < old->seconds : now->highest_bytes < old->highest_bytes;
}

static neap_status try_way(struct table *t, struct chosen *way, const neap_step *step) {
  neap_pipeline *pipeline;
  neap_pipeline_info info;
  t->options.way = way->way;
  const neap_status status = neap_pipeline_make(step, &t->options, &pipeline);
  if (status == NEAP_UNSUPPORTED) return NEAP_OK;
  if (status != NEAP_OK) return status;
  neap_pipeline_describe(pipeline, &info);
  if (info.smallest_budget < t->smallest) t->smallest = info.smallest_budget;
  if (way->pipeline != NULL && !is_better(&info, &way->info)) {
    neap_pipeline_free(pipeline);
    return NEAP_OK;
  }
  neap_pipeline_free(way->pipeline);
  way->pipeline = pipeline;
  way->info = info;
  return NEAP_OK;
}

/* The whole step of one micro-batch, updates included. */
static neap_status try_parts(struct table *t, const neap_train_options *source, int64_t parts) {
  neap_train_options part = *source;
  part.shape.batch = source->shape.batch / parts;
  part.micro_batch = 0;
  neap_step **step = &t->steps[t->step_count];
  neap_status status = source_step(&part, step);
  if (status != NEAP_OK) return status;
  t->step_count++;
  t->options.micro_batches = (int32_t)parts;
  for (int w = 0; status == NEAP_OK && w < t->count; w++) status = try_way(t, &t->ways[w], *step);
  return status;
}

static json_t *schedule_json(const neap_pipeline *pipeline, int32_t ranks) {
  json_t *parts = json_array(), *schedule = json_array();
  neap_pipeline_part part;
  neap_pipeline_task task;
  for (int32_t i = 0; neap_pipeline_part_at(pipeline, i, &part); i++)
    json_array_append_new(parts, json_pack("{s:[ii], s:[ii], s:b, s:b, s:b}", "blocks", (int)part.first_block,
                                           (int)part.end_block, "forward_nodes", (int)part.first_node,
                                           (int)part.end_node, "forward", part.forward, "backward",
                                           part.backward, "recompute", part.recompute));
  for (int32_t r = 0; r < ranks; r++) {
    json_t *tasks = json_array();
    for (int32_t i = 0; neap_pipeline_task_at(pipeline, r, i, &task); i++)
      json_array_append_new(tasks, json_pack("{s:i, s:i, s:f, s:f}", "part", (int)task.part, "micro_batch",
                                             (int)task.micro_batch, "start", task.start, "end", task.end));
    json_array_append_new(
        schedule,
        json_pack("{s:I, s:o}", "bytes", (json_int_t)neap_pipeline_rank_bytes(pipeline, r), "tasks", tasks));
  }
  return json_pack("{s:o, s:o}", "parts", parts, "ranks", schedule);
}

static json_t *table_json(const struct table *t) {
  json_t *ways = json_array();
  for (int w = 0; w < t->count; w++) {
    const struct chosen *c = &t->ways[w];
    if (c->pipeline == NULL) continue;
    const neap_pipeline_info *i = &c->info;
    json_array_append_new(ways,
                          json_pack("{s:s, s:b, s:i, s:i, s:f, s:f, s:I, s:I, s:I, s:o}", "way", c->way,
                                    "fits", i->fits || t->least, "micro_batches", (int)i->micro_batches,
                                    "blocks", (int)i->blocks, "step_seconds", i->seconds, "bubble", i->bubble,
                                    "least_bytes", (json_int_t)i->least_bytes, "highest_bytes",
                                    (json_int_t)i->highest_bytes, "shared_bytes", (json_int_t)i->shared_bytes,
                                    "schedule", schedule_json(c->pipeline, i->ranks)));
  }
  return json_pack("{s:i, s:i, s:I, s:o}", "pipeline", (int)t->options.ranks, "processes",
                   (int)(t->options.ranks * t->pipelines), "smallest_budget_bytes", (json_int_t)t->smallest,
                   "ways", ways);
}

static void print_row(const struct chosen *c, bool least) {
  neap_pipeline_part part;
  if (c->pipeline == NULL) {
    printf("%-14s has no schedule of this batch and these ranks\n", c->way);
    return;
  }
  printf("%-14s %6d %12s %8s %12s %12s  ", c->way, (int)c->info.micro_batches,
         duration_text(c->info.seconds).text, percent_text(c->info.bubble).text,
         bytes_text(c->info.least_bytes).text, bytes_text(c->info.highest_bytes).text);
  if (!c->info.fits && !least) printf("too large by this estimate; ");
  for (int32_t i = 0; neap_pipeline_part_at(c->pipeline, i, &part); i++)
    if (part.backward)
      printf("%s%d%s", part.end_block == c->info.blocks ? "" : "+", (int)(part.end_block - part.first_block),
             part.recompute ? "r" : "");
  putchar('\n');
}

static int print_table(const struct table *t, bool json) {
  bool met = t->least;
  for (int w = 0; w < t->count; w++) met = met || (t->ways[w].pipeline != NULL && t->ways[w].info.fits);
  if (json && print_json(table_json(t)) != EXIT_DONE) return EXIT_FAILED;
  if (!json) {
    printf("%-14s %6s %12s %8s %12s %12s  %s\n", "way", "parts", "a step", "bubble", "about, least",
           "highest", "blocks of each stage, from the last; r: recomputed");
    for (int w = 0; w < t->count; w++) print_row(&t->ways[w], t->least);
    if (t->pipelines > 1)
      printf(
          "\neach of %d pipelines takes 1/%d of the batch; not counted: the processes of a stage share sums "
          "and states, and exchange gradients\n",
          (int)t->pipelines, (int)t->pipelines);
  }
  if (!json)
    printf(
        "\nbytes are estimates; neap train plans the pieces of each rank, and may need more or less by some "
        "hundredths\n");
  if (met) return EXIT_DONE;
  fprintf(stderr,
          "neap: --pipeline %d: by this estimate no way meets the budget; one needs about %llu bytes a rank "
          "(neap train may meet less: --budget min)\n",
          (int)t->options.ranks, (unsigned long long)t->smallest);
  return EXIT_OVER_BUDGET;
}

/* Every way with every number of micro-batches that the settings leave open. */
static neap_status try_all(struct table *t, const neap_train_options *source) {
  const int64_t batch = source->shape.batch;
  neap_status status = NEAP_OK;
  while (t->count < WAYS_MOST && neap_pipeline_way_at(t->count, &t->ways[t->count].way)) t->count++;
  for (int64_t parts = 1; status == NEAP_OK && parts <= batch && parts <= MOST_PARTS; parts++)
    if (batch % parts == 0 && (source->micro_batch == 0 || batch / parts == source->micro_batch))
      status = try_parts(t, source, parts);
  return status;
}

/* Settles the batch and what divides it. */
static int settle(const struct verb *verb, struct arguments *a, struct grid grid) {
  neap_train_options *source = &a->options;
  const int checked = check_use(verb, a);
  if (checked != EXIT_DONE) return checked;
  neap_train_options_resolve(source);
  const char *budget = given_text(a, "budget");
  if (source->session.budget_fraction > 0 || (budget != NULL && strcmp(budget, "available") == 0))
    return report_usage(verb, "--pipeline %d: --budget must be bytes of a rank, max or min",
                        (int)grid.stages);
  const neap_status status = source->shape.batch == 0 ? source_usual_batch(source) : NEAP_OK;
  if (status != NEAP_OK) return report_failure(verb, status);
  if (source->shape.batch % grid.pipelines != 0)
    return report_usage(
        verb, "--batch %lld: %d pipelines of %d processes cannot divide it; give a multiple of %d",
        (long long)source->shape.batch, (int)grid.pipelines, (int)grid.stages, (int)grid.pipelines);
  source->shape.batch /= grid.pipelines;
  if (check_micro_batch(verb, source) != EXIT_DONE) return EXIT_USAGE;
  if (source->micro_batch > 0 && source->shape.batch / source->micro_batch > MOST_PARTS)
    return report_usage(verb, "--micro-batch %lld: a pipeline takes up to %d micro-batches (got %lld)",
                        (long long)source->micro_batch, MOST_PARTS,
                        (long long)(source->shape.batch / source->micro_batch));
  return EXIT_DONE;
}

int plan_pipeline(const struct verb *verb, struct arguments *a, struct grid grid, double bandwidth,
                  double latency) {
  const int settled = settle(verb, a, grid);
  if (settled != EXIT_DONE) return settled;
  const uint64_t budget = a->options.session.budget;
  struct table t = {
      .options = {.ranks = grid.stages, .bandwidth = bandwidth, .latency = latency, .budget = budget},
      .pipelines = grid.pipelines,
      .smallest = UINT64_MAX,
      .least = budget == NEAP_BUDGET_MIN};
  const neap_status status = try_all(&t, &a->options);
  const int result = status == NEAP_OK ? print_table(&t, a->json) : report_failure(verb, status);
  for (int w = 0; w < t.count; w++) neap_pipeline_free(t.ways[w].pipeline);
  for (int i = 0; i < t.step_count; i++) neap_step_free(t.steps[i]);
  return result;
}
