#include "session/session_graphs.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/parallel.h"
#include "kernel/restorers.h"
#include "neap_collective.h"
#include "plan/pipeline_plan.h"
#include "rewrite/rewrite.h"
#include "settings/settings.h"
#include "speed/cost_database.h"
#include "speed/measure.h"
#include "speed/speed.h"

const struct backend *backend_of(const struct neap_session_options *o) {
  return o->backend == NEAP_REFERENCE ? &reference_backend : &cpu_backend;
}

bool is_sparse(const struct neap_session_options *o) { return o->sparse_density != 0 && !o->predict; }

bool is_pipeline(const struct neap_session_options *o) { return o->pipeline > 1; }

int batch_ranks_of(const struct neap_session_options *o) {
  const int all = o->collective != NULL ? o->collective->size : 1;
  return is_pipeline(o) && all > o->pipeline ? all / o->pipeline : is_pipeline(o) ? 1 : all;
}

struct optimizer optimizer_of(const struct neap_session_options *given) {
  neap_train_options options = {.session = *given};
  const neap_session_options *o = &options.session;
  neap_train_options_resolve(&options);
  return (struct optimizer){.kind = o->optimizer,
                            .momentum = o->momentum,
                            .weight_decay = o->weight_decay,
                            .nesterov = o->nesterov,
                            .beta1 = fabsf(o->beta1), /* NEAP_ZERO is -0.0 */
                            .beta2 = fabsf(o->beta2),
                            .epsilon = fabsf(o->epsilon),
                            .projection_rank = o->projection_rank,
                            .projection_every = o->projection_every,
                            .projection_scale = o->projection_scale,
                            .states_8bit = o->states_8bit || optimizer_rows[o->optimizer].states_8bit,
                            .states_f32 = o->states_f32,
                            .clip_value = o->clip_value,
                            .clip_norm = o->clip_norm,
                            .groups = o->groups,
                            .group_count = o->group_count,
                            .micro_batches = o->micro_batches,
                            .ranks = batch_ranks_of(o),
                            .scaled = o->dynamic_loss_scale || loss_scale_of(o) != 1,
                            .tentative = o->dynamic_loss_scale,
                            .averages = o->ema != 0,
                            .norm = o->gradient_norm,
                            .sparse = is_sparse(o),
                            .perturbs = o->mezo};
}

float loss_scale_of(const struct neap_session_options *o) {
  static const float usual = 1024 /* of f16 */, usual_first = 65536; /* of those that change */
  if (o->mezo) return 1;
  if (o->dynamic_loss_scale && o->loss_scale == 0) return usual_first;
  return o->loss_scale > 0 ? o->loss_scale : o->precision == NEAP_F16 ? usual : 1;
}

float perturbation_of(const struct neap_session_options *given) {
  neap_train_options options = {.session = *given};
  neap_train_options_resolve(&options);
  return options.session.mezo_epsilon;
}

struct lower_options lower_options_of(const struct neap_session_options *o) {
  const bool here = o->backend == NEAP_CPU && o->costs == NEAP_COSTS_ROOFLINE;
  return (struct lower_options){.convolution = o->convolution,
                                .bits = o->bits,
                                .threads = o->threads,
                                .ranks = batch_ranks_of(o),
                                .roofline = here ? machine_roofline(o->threads) : usual_roofline};
}

enum { MICRO_BATCH_LIMIT = 1 << 20 };

static bool in_range(double value, double least, double most) { return value >= least && value <= most; }

static neap_status check_share(const struct neap_session_options *o) {
  const int ranks = o->collective != NULL ? o->collective->size : 1;
  RETURN_IF(
      ranks <= 1 && o->shard == NEAP_SHARD_ALL, NEAP_INVALID_ARGUMENT,
      "`shard` all: a single process cannot share weights; give `processes` N, or start several by mpirun");
  RETURN_IF(ranks > 1 && o->budget == NEAP_BUDGET_AVAILABLE, NEAP_INVALID_ARGUMENT,
            "`budget` available: each of %d processes would take all free memory; give bytes for a process",
            ranks);
  return NEAP_OK;
}

/* Fails unless ranks can divide the step of a session with these options. */
static neap_status check_pipeline(const struct neap_session_options *o) {
  const int ranks = o->collective != NULL ? o->collective->size : 1;
  if (!is_pipeline(o)) return NEAP_OK;
  RETURN_IF(ranks < o->pipeline || ranks % o->pipeline != 0, NEAP_INVALID_ARGUMENT,
            "`pipeline` %d: it needs as many processes, or a multiple of them (got %d); give `processes` %d",
            o->pipeline, ranks, o->pipeline);
  RETURN_IF(
      pipeline_is_common(o->pipeline_way) && ranks != o->pipeline, NEAP_INVALID_ARGUMENT,
      "`pipeline-way` %s: one pipeline has all processes (got %d for `pipeline` %d); give as many of one as "
      "of the other",
      o->pipeline_way, ranks, o->pipeline);
  const char *other = o->shard == NEAP_SHARD_ALL            ? "`shard` all"
                      : o->ema != 0                         ? "`ema`"
                      : o->sparse_density != 0              ? "`sparse`"
                      : o->plan_file != NULL                ? "`plan`"
                      : o->base_on_disk == NEAP_DISK_ALWAYS ? "`base-on-disk` always"
                                                            : NULL;
  RETURN_IF(other != NULL, NEAP_INVALID_ARGUMENT,
            "`pipeline`: a pipeline does not take %s; leave one of the two out", other);
  return NEAP_OK;
}

neap_status check_ranks(const struct neap_session_options *o) {
  const int ranks = o->collective != NULL ? o->collective->size : 1;
  TRY(check_share(o));
  RETURN_IF(ranks > 1 && o->predict, NEAP_INVALID_ARGUMENT,
            "session options: got %d processes for a session that only predicts; it must have one", ranks);
  RETURN_IF(ranks > 1 && o->backend != NEAP_CPU, NEAP_UNSUPPORTED,
            "session options: several processes need the backend cpu");
  TRY(check_pipeline(o));
  const int dividing = batch_ranks_of(o);
  RETURN_IF(is_pipeline(o) && o->micro_batches<2 * dividing, NEAP_INVALID_ARGUMENT,
                                               "`pipeline`: each pipeline needs 2 micro-batches or more, "
                                               "else its ranks but one are idle (got %d for "
                                               "%d); give a smaller `micro-batch`",
                                               o->micro_batches> 0
                ? o->micro_batches
                : 1,
            dividing);
  RETURN_IF(dividing > 1 && (o->micro_batches < 2 || o->micro_batches % dividing != 0), NEAP_INVALID_ARGUMENT,
            "session options: %d micro-batches do not divide among %d %s; give a multiple of %d",
            o->micro_batches > 0 ? o->micro_batches : 1, dividing, is_pipeline(o) ? "pipelines" : "processes",
            dividing);
  return NEAP_OK;
}

/* Fails if the update rule does not work with another option. */
static neap_status check_rule(const struct neap_session_options *o) {
  const struct optimizer_row *row = &optimizer_rows[o->optimizer];
  const bool blocks = o->states_8bit || row->states_8bit;
  RETURN_IF(o->states_8bit && (row->matrix || row->states[0] == NULL), NEAP_UNSUPPORTED,
            "states of 8 bits: optimizer %s has no state for them; leave one of the two out, or take adamw",
            row->name);
  RETURN_IF(blocks && o->backend != NEAP_CPU, NEAP_UNSUPPORTED,
            "session options: the reference backend computes in double and has no states of 8 bits");
  RETURN_IF(blocks && (is_pipeline(o) || o->shard == NEAP_SHARD_ALL), NEAP_UNSUPPORTED,
            "states of 8 bits: %s would divide their blocks; leave one of the two out",
            is_pipeline(o) ? "a pipeline" : "shard all");
  if (!row->matrix) return NEAP_OK;
  const char *other = is_sparse(o)                 ? "sparse training"
                      : is_pipeline(o)             ? "a pipeline"
                      : o->shard == NEAP_SHARD_ALL ? "shard all"
                                                   : NULL;
  RETURN_IF(
      other != NULL, NEAP_UNSUPPORTED,
      "optimizer %s: it updates whole matrices, which %s divides; leave one of the two out, or take adamw",
      row->name, other);
  return NEAP_OK;
}

struct other_option {
  bool given;
  const char *name, *why;
};

/* Fails with the first of some options that `object` does not take. */
static neap_status refuse_others(const char *object, const struct other_option *others, size_t count) {
  for (size_t i = 0; i < count; i++)
    RETURN_IF(others[i].given, NEAP_UNSUPPORTED, "%s: it does not take %s: %s; leave one of the two out",
              object, others[i].name, others[i].why);
  return NEAP_OK;
}

/* Fails if variables on disk do not work with another option. */
static neap_status check_disk(const struct neap_session_options *o) {
  const bool several = o->collective != NULL && o->collective->size > 1;
  const struct other_option others[] = {
      {several, "several processes", "each would write its own copy of all states"},
      {is_sparse(o), "sparse training", "its values change places in memory"},
      {o->mezo, "mezo", "it has no states, and reads its weights at every step"},
      {o->ema != 0 && (o->disk_for & NEAP_DISK_FOR_WEIGHTS) != 0, "averages of weights that are on disk",
       "an average changes places with its weight in memory"}};
  RETURN_IF((unsigned)o->disk_for > (NEAP_DISK_FOR_BOTH | NEAP_DISK_FOR_ACTIVATIONS), NEAP_INVALID_ARGUMENT,
            "session options: disk_for %d does not exist", (int)o->disk_for);
  RETURN_IF(o->disk == NULL && (o->disk_for != NEAP_DISK_FOR_AUTO || o->disk_bytes > 0),
            NEAP_INVALID_ARGUMENT,
            "session options: what lies on disk is given without a folder for it (disk)");
  return o->disk == NULL ? NEAP_OK : refuse_others("disk", others, sizeof others / sizeof *others);
}

/* Fails if training without gradients does not work with another option. */
static neap_status check_mezo(const struct neap_session_options *o) {
  if (!o->mezo) return NEAP_OK;
  RETURN_IF(o->optimizer != NEAP_SGD, NEAP_UNSUPPORTED,
            "mezo: its update is that of sgd (got optimizer %s); leave one of the two out",
            optimizer_rows[o->optimizer].name);
  const struct other_option others[] = {
      {optimizer_of(o).momentum > 0, "momentum", "its update has no state"},
      {o->nesterov, "Nesterov's momentum", "its update has no state"},
      {o->states_8bit, "states of 8 bits", "its update has no state"},
      {o->clip_value != 0, "clip value", "it has no gradient to clip"},
      {o->clip_norm != 0, "clip norm", "it has no gradient to clip"},
      {o->gradient_norm, "gradient norm", "it has no gradient"},
      {o->loss_scale != 0 || o->dynamic_loss_scale, "loss scale", "it has no gradient to scale"},
      {o->sparse_density != 0, "sparse training", "rewiring needs gradients"},
      {o->lora_dropout > 0, "lora dropout", "an evaluation has none"},
      {o->compress != NULL, "compress", "it has no backward pass"},
      {o->backprop_share != 0, "backprop share", "it has no backward pass"},
      {is_pipeline(o), "a pipeline", "that divides the way back, too"},
      {o->shard == NEAP_SHARD_ALL, "shard all", "each process perturbs whole weights"}};
  return refuse_others("mezo", others, sizeof others / sizeof *others);
}

/* Fails if the bits of a session with these options cannot follow from shapes alone. */
static neap_status check_bits(const struct neap_session_options *o) {
  if (o->bits != NEAP_BITS_PORTABLE) return NEAP_OK;
  RETURN_IF(
      o->precision != NEAP_F32, NEAP_INVALID_ARGUMENT,
      "session options: portable bits are for values of f32 (got precision %s); leave one of the two out",
      dtype_rows[o->precision].name);
  RETURN_IF(
      o->backend != NEAP_CPU, NEAP_INVALID_ARGUMENT,
      "session options: the reference backend has no portable bits, since it calls the C library; leave "
      "one of the two out");
  return NEAP_OK;
}

neap_status check_session_options(const struct neap_session_options *o) {
  TRY(settings_check_session(o));
  TRY(check_bits(o));
  TRY(check_share(o));
  TRY(check_rule(o));
  TRY(check_mezo(o));
  TRY(check_disk(o));
  RETURN_IF(!in_range((double)o->backprop_share, 0, 1), NEAP_INVALID_ARGUMENT,
            "backprop-share: the share of the positions must be above 0 and at most 1 (got %g)",
            (double)o->backprop_share);
  if (o->compress != NULL) TRY(compress_parse(o->compress, &(neap_dtype){0}, &(const char *){NULL}));
  RETURN_IF((unsigned)o->sparse_positions > NEAP_SPARSE_INDICES, NEAP_INVALID_ARGUMENT,
            "session options: form %d of positions does not exist", (int)o->sparse_positions);
  RETURN_IF(o->micro_batches < 0 || o->micro_batches > MICRO_BATCH_LIMIT, NEAP_INVALID_ARGUMENT,
            "session options: got %d micro-batches; the number must be 1 to %d", o->micro_batches,
            MICRO_BATCH_LIMIT);
  RETURN_IF(o->group_count < 0 || (o->group_count > 0 && o->groups == NULL), NEAP_INVALID_ARGUMENT,
            "session options: group_count is %d, but groups is NULL", o->group_count);
  for (int i = 0; i < o->group_count; i++)
    RETURN_IF(o->groups[i].pattern == NULL || !in_range((double)o->groups[i].rate, 0, FLT_MAX) ||
                  !in_range((double)o->groups[i].weight_decay, 0, FLT_MAX),
              NEAP_INVALID_ARGUMENT,
              "session options: parameter group %d needs a pattern, and a rate and decay of 0 or more", i);
  RETURN_IF(
      o->ema != 0 && is_sparse(o), NEAP_UNSUPPORTED,
      "session options: sparse parameters cannot have averages (`ema`), because their values change places");
  RETURN_IF(o->lora > 0 && is_sparse(o), NEAP_UNSUPPORTED,
            "lora: adapters (`lora`) cannot be combined with sparse parameters (`sparse`): frozen weights "
            "stay dense");
  RETURN_IF(o->lora_dora && is_pipeline(o), NEAP_UNSUPPORTED,
            "lora: a pipeline does not take DoRA; leave one of the two out");
  RETURN_IF(o->lora_dora && o->lora_dropout > 0, NEAP_UNSUPPORTED,
            "lora: DoRA would multiply by the weights twice with a dropout of %g; leave one of the two out",
            (double)o->lora_dropout);
  RETURN_IF(o->optimizer == NEAP_SGD && o->nesterov && !(optimizer_of(o).momentum > 0), NEAP_INVALID_ARGUMENT,
            "session options: Nesterov's method needs a momentum above 0");
  return NEAP_OK;
}

bool shards_all(const struct neap_session_options *o) {
  return o->shard == NEAP_SHARD_ALL && o->collective != NULL && o->collective->size > 1;
}

bool predicts_only(const struct neap_graph *graph, const struct neap_session_options *o) {
  return o->predict || graph->loss < 0;
}

/* Replaces a graph by a rewritten one. */
static neap_status replace_graph(neap_status status, struct neap_graph **graph, struct neap_graph **made) {
  if (status != NEAP_OK) return status;
  neap_graph_free(*graph);
  *graph = *made;
  return NEAP_OK;
}

neap_status make_adapted_graph(const struct neap_graph *graph, const struct neap_session_options *given,
                               struct neap_graph **out) {
  neap_train_options options = {.session = *given};
  neap_train_options_resolve(&options);
  const struct lora_options lora = {.rank = given->lora,
                                    .alpha = fabsf(options.session.lora_alpha),
                                    .dropout = given->lora_dropout,
                                    .layers = given->lora_layers,
                                    .freeze = given->freeze,
                                    .root = given->lora_rs,
                                    .dora = given->lora_dora,
                                    .plus = given->lora_plus};
  return rewrite_lora(graph, &lora, out);
}

/* Makes the changes that must come before fusion: adapters, frozen parameters, and the loss. */
static neap_status make_plain_graph(const struct neap_graph *graph,
                                    const struct neap_session_options *options, struct neap_graph **out) {
  const bool predicts = predicts_only(graph, options);
  struct neap_graph *plain = NULL, *next = NULL;
  neap_status status = NEAP_OK;
  RETURN_IF(options->lora > 0 && graph_has_adapters(graph), NEAP_UNSUPPORTED,
            "lora: '%s' has a side net, beside which no gradient enters its layers; leave one of the two out",
            graph->name);
  if (options->lora > 0)
    status = replace_graph(make_adapted_graph(graph, options, &next), &plain, &next);
  else if (options->freeze != NULL && !predicts)
    status = replace_graph(rewrite_freeze(graph, options->freeze, &next), &plain, &next);
  if (status == NEAP_OK && options->class_weights && !predicts)
    status = replace_graph(rewrite_class_weights(plain != NULL ? plain : graph, &next), &plain, &next);
  if (status == NEAP_OK && options->mixed_labels && !predicts)
    status = replace_graph(rewrite_mixed_labels(plain != NULL ? plain : graph, &next), &plain, &next);
  const bool bits = options->compress != NULL && !predicts;
  if (status == NEAP_OK) status = rewrite_fuse(plain != NULL ? plain : graph, bits, out);
  neap_graph_free(plain);
  return status;
}

/* Returns which weights are stored in blocks. If nothing is trained, these are all that the options name.
 * Adapters show which weights were trained with them: those are not stored in blocks. */
static struct store_options store_of(const struct neap_graph *graph, const neap_session_options *options) {
  return (struct store_options){.list = options->store,
                                .base = options->base,
                                .all = predicts_only(graph, options) && !graph_has_adapters(graph)};
}

/* Leaves frozen weights on disk that are in no checkpoint and that the model's file has. */
static neap_status fetch_base(const struct neap_graph *graph, struct neap_graph **out) {
  const bool adapted = graph_has_adapters(graph);
  RETURN_IF(
      !adapted || !rewrite_can_fetch(graph), NEAP_UNSUPPORTED, "base-on-disk always: '%s' %s", graph->name,
      !adapted
          ? "is trained without adapters; only with them (lora) or a side net do its weights stay as they are"
          : "has no large frozen matrix in a file that can be read so: a GGUF file, or a folder of "
            "Hugging Face whose weights are not packed");
  return rewrite_fetch(graph, out);
}

neap_status make_forward_graph(const struct neap_graph *graph, const struct neap_session_options *options,
                               struct neap_graph **out) {
  struct neap_graph *made, *next;
  TRY(make_plain_graph(graph, options, &made));
  if (options->precision != NEAP_F32) {
    const neap_status status = rewrite_precision(made, options->precision, options->master, &next);
    neap_graph_free(made);
    if (status != NEAP_OK) return status;
    made = next;
  }
  if (is_sparse(options) && !predicts_only(graph, options)) {
    const neap_status status = rewrite_sparse(made, options->sparse_density, options->sparse_layers,
                                              options->sparse_positions, &next);
    neap_graph_free(made);
    if (status != NEAP_OK) return status;
    made = next;
  }
  if (options->store != NULL || options->base != NULL) {
    const struct store_options store = store_of(made, options);
    const neap_status status = rewrite_quantise(made, &store, &next);
    neap_graph_free(made);
    if (status != NEAP_OK) return status;
    made = next;
  }
  if (options->base_on_disk == NEAP_DISK_ALWAYS) {
    const neap_status status = fetch_base(made, &next);
    neap_graph_free(made);
    if (status != NEAP_OK) return status;
    made = next;
  }
  if (shards_all(options)) graph_share(made, options->collective->size);
  if (options->byte_input.name != NULL) {
    const neap_status status = rewrite_bytes(made, &options->byte_input, &next);
    neap_graph_free(made);
    if (status != NEAP_OK) return status;
    made = next;
  }
  *out = made;
  return NEAP_OK;
}

/* Returns true if variables lie on disk; with NEAP_DISK_FOR_AUTO that is not decided yet. */
static bool spills(const struct neap_session_options *o) {
  return o->disk != NULL && (o->disk_for & NEAP_DISK_FOR_BOTH) != 0;
}

/* Returns true if a plan may store activations on disk. */
static bool stores(const struct neap_session_options *o) {
  return o->disk != NULL && (o->disk_for & NEAP_DISK_FOR_ACTIVATIONS) != 0;
}

/* Returns what lies on disk. Sums of gradients are read by more than updates where they are clipped. */
static struct spill_options spill_of(const struct neap_session_options *o) {
  return (struct spill_options){.states = (o->disk_for & NEAP_DISK_FOR_STATES) != 0,
                                .weights = (o->disk_for & NEAP_DISK_FOR_WEIGHTS) != 0,
                                .sums = o->clip_norm == 0 && o->clip_value == 0 && !o->gradient_norm};
}

/* Says in a graph's name that its values may be stored, so that a plan of it is known. */
static neap_status rename_stored(struct neap_graph *graph) {
  graph->name = region_format(&graph->region, "%s" STORED_SUFFIX, graph->name);
  RETURN_IF_NULL(graph->name);
  return NEAP_OK;
}

neap_status make_main_graph(const struct neap_graph *graph, const struct neap_session_options *options,
                            struct neap_graph **out) {
  TRY(check_session_options(options));
  TRY(team_check_stacks(team_size(options->threads)));
  const struct optimizer optimizer = optimizer_of(options);
  struct neap_graph *forward, *made = NULL;
  TRY(make_forward_graph(graph, options, &forward));
  const bool predicts = predicts_only(graph, options);
  neap_status status = predicts ? rewrite_prediction(forward, &made) : rewrite_prune(forward, 0, &made);
  neap_graph_free(forward);
  if (status == NEAP_OK && predicts) {
    *out = made;
    return NEAP_OK;
  }
  struct neap_graph *next;
  if (status == NEAP_OK && options->mezo)
    status = replace_graph(rewrite_evaluation(made, false, &next), &made, &next);
  if (status == NEAP_OK && options->mezo) status = replace_graph(rewrite_perturb(made, &next), &made, &next);
  const bool some_rows = options->backprop_share != 0 && options->backprop_share < 1;
  if (status == NEAP_OK && some_rows)
    status = replace_graph(rewrite_mark_branches(made, options->backprop_share, &next), &made, &next);
  if (status == NEAP_OK) status = graph_add_training(made, &optimizer);
  if (status == NEAP_OK && some_rows) status = replace_graph(rewrite_keep_rows(made, &next), &made, &next);
  if (status == NEAP_OK) status = replace_graph(rewrite_accumulate(made, &next), &made, &next);
  if (status == NEAP_OK && options->compress != NULL)
    status = replace_graph(rewrite_compress(made, options->compress, &next), &made, &next);
  if (status == NEAP_OK && shards_all(options))
    status = replace_graph(rewrite_gather(made, &next), &made, &next);
  if (status == NEAP_OK && spills(options)) {
    graph_spill(made, spill_of(options));
    status = replace_graph(rewrite_load(made, &next), &made, &next);
  }
  if (status == NEAP_OK && stores(options)) status = rename_stored(made);
  if (status == NEAP_OK)
    *out = made;
  else
    neap_graph_free(made);
  return status;
}

neap_status lower_training_like(const struct neap_graph *graph, const struct neap_session_options *options,
                                neap_variant variant, const struct lowered *like, struct lowered **out) {
  const struct lower_options lowering = lower_options_of(options);
  struct neap_graph *training, *other = NULL;
  TRY(make_main_graph(graph, options, &training));
  neap_status status = rewrite_variant(training, variant, &other);
  if (status == NEAP_OK)
    status = lower(other != NULL ? other : training, backend_of(options), &lowering, like, out);
  neap_graph_free(other);
  neap_graph_free(training);
  return status;
}

/* Doubles the costs of a program that a step runs twice. */
static neap_status count_twice(struct lowered *lowered) {
  struct neap_step draft = *lowered->step, *made;
  struct region region = {0};
  struct step_node *nodes = region_copy(&region, draft.nodes, (size_t)draft.node_count, sizeof *nodes);
  neap_status status = NEAP_OK;
  if (nodes == NULL) status = neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for the costs of a step");
  for (int32_t v = 0; status == NEAP_OK && v < draft.node_count; v++) nodes[v].cost *= 2;
  draft.nodes = nodes;
  if (status == NEAP_OK) status = step_create(&draft, &made);
  region_free(&region);
  if (status != NEAP_OK) return status;
  neap_step_free(lowered->step);
  lowered->step = made;
  return NEAP_OK;
}

neap_status lower_with_costs(const struct neap_graph *training, const struct neap_session_options *options,
                             const struct lowered *like, struct lowered **out) {
  struct lower_options lowering = lower_options_of(options);
  struct lowered *lowered;
  lowering.outputs = training->loss < 0 ? INT64_MAX : 0;
  TRY(lower(training, backend_of(options), &lowering, like, &lowered));
  neap_status status = NEAP_OK;
  if (options->costs == NEAP_COSTS_MEASURED) {
    char path[COST_PATH_LIMIT];
    status = measure_costs(lowered, cost_database_path(true, path) ? path : NULL, NULL);
  }
  if (status == NEAP_OK && options->mezo && training->loss >= 0) status = count_twice(lowered);
  if (status == NEAP_OK && stores(options) && training->loss >= 0)
    status = lowered_add_restorers(lowered, &lowering.roofline);
  if (status != NEAP_OK) {
    lowered_free(lowered);
    return status;
  }
  *out = lowered;
  return NEAP_OK;
}

neap_status lower_variant(const struct neap_graph *training, neap_variant variant,
                          const struct neap_session_options *options, struct lowered **out) {
  struct neap_graph *other;
  *out = NULL;
  TRY(rewrite_variant(training, variant, &other));
  const neap_status status = other == NULL ? NEAP_OK : lower_with_costs(other, options, NULL, out);
  neap_graph_free(other);
  return status;
}

neap_status lower_as(const struct neap_graph *training, const struct neap_session_options *options,
                     neap_variant *variant, struct lowered **out) {
  TRY(lower_variant(training, *variant, options, out));
  if (*out != NULL) return NEAP_OK;
  *variant = NEAP_VARIANT_BASE;
  return lower_with_costs(training, options, NULL, out);
}

neap_status lower_training(const struct neap_graph *graph, const struct neap_session_options *options,
                           struct lowered **out) {
  struct neap_graph *training = NULL;
  neap_variant variant = options->variant;
  TRY(make_main_graph(graph, options, &training));
  const neap_status status = lower_as(training, options, &variant, out);
  neap_graph_free(training);
  return status;
}

neap_status neap_step_from_graph(const neap_graph *graph, const neap_session_options *options,
                                 neap_step **step) {
  NEED(step);
  RETURN_IF(graph == NULL || options == NULL, NEAP_INVALID_ARGUMENT,
            "neap_step_from_graph: options or graph is NULL");
  struct lowered *lowered;
  TRY(lower_training(graph, options, &lowered));
  *step = lowered->step;
  lowered->step = NULL;
  lowered_free(lowered);
  return NEAP_OK;
}

neap_status budget_share_to_bytes(const struct neap_graph *graph, struct neap_session_options *options) {
  neap_step *step;
  uint64_t everything = 0;
  if (options->budget_fraction <= 0) return NEAP_OK;
  TRY(neap_step_from_graph(graph, options, &step));
  const neap_status status = neap_step_keep_all_bytes(step, &everything);
  neap_step_free(step);
  if (status != NEAP_OK) return status;
  options->budget = neap_budget_share(options->budget_fraction, everything);
  options->budget_fraction = 0;
  return NEAP_OK;
}
