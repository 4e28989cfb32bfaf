/* Which graph and which plan: what stands over rewriting, lowering and planning. */
#ifndef NEAP_RUN_CHOOSE_H
#define NEAP_RUN_CHOOSE_H

#include "grad/gradient.h"
#include "kernel/kernel.h"
#include "step/plan.h"

const struct backend *backend_of(const struct neap_session_options *options);
struct lower_options lower_options_of(const struct neap_session_options *options);

struct optimizer optimizer_of(const struct neap_session_options *options);

/* Whether some parameters are sparse in training. What only predicts is dense. */
bool is_sparse(const struct neap_session_options *options);

/* What gradients are multiplied by, at first, so that f16 does not lose them. */
float loss_scale_of(const struct neap_session_options *options);

/* The forward graph as it is lowered: fused, in the precision and with the sparse weights of
 * the options. */
neap_status make_forward_graph(const struct neap_graph *graph, const struct neap_session_options *options,
                               struct neap_graph **out);

/* The graph with the adapters of the options, whose `lora` is not 0. */
neap_status make_adapted_graph(const struct neap_graph *graph, const struct neap_session_options *options,
                               struct neap_graph **out);

/* Without gradients: a graph that has no loss, or options that ask for it. */
bool predicts_only(const struct neap_graph *graph, const struct neap_session_options *options);

/* NEAP_INVALID_ARGUMENT: an invalid enumerator, or a number that is not finite or out of range. */
/* Whether processes that train together can have a session with these options. */
neap_status check_ranks(const struct neap_session_options *options);
/* Whether each of several processes has a share of large parameters. */
bool shards_all(const struct neap_session_options *options);
neap_status check_session_options(const struct neap_session_options *options);

/* The training step of a graph: fused, differentiated, in the variant that options name (the base for AUTO),
 * lowered. */
neap_status lower_training(const struct neap_graph *graph, const struct neap_session_options *options,
                           struct lowered **out);

/* Replaces a budget that is a share by its bytes: of what keeping everything of the graph's step needs, with
 * these options. Leaves others as they are. */
neap_status settle_share(const struct neap_graph *graph, struct neap_session_options *options);

/* The same in a variant, for a session that has `like`: its variables lie as they do there. */
neap_status lower_training_like(const struct neap_graph *graph, const struct neap_session_options *options,
                                neap_variant variant, const struct lowered *like, struct lowered **out);

/* The variant that the name of a plan's graph ends in; the base where the name ends in no variant. */
neap_variant variant_of_name(const char *graph, const char *name);

struct choice {
  neap_variant variant;
  neap_base_on_disk base_on_disk; /* ALWAYS or NEVER */
  struct lowered *lowered;
  struct neap_plan *plan; /* valid by the checker, within the budget */
  uint64_t budget, keep_all;
  uint64_t rest; /* of the process, which its budget has room for too; 0: it has none */
};

/* What a process grows by once it trains, by measurement: stacks, buffers of files, pages of code that had
 * not been touched. And that with the evaluation's graph and the plans. Bytes. */
enum { PROCESS_GROWTH = 3 << 20, PROCESS_RESERVE = 2 * PROCESS_GROWTH };

/* Plans the step of a graph in the variant that options name; for AUTO in each, of which it takes the one
 * with the cheapest plan, for the least budget the one with the least peak, the base where they are equal.
 * What cannot be cheaper is not planned: nothing where the base recomputes nothing, no variant whose step
 * costs more as it is, and none that hardly saves memory where everything is kept. A plan file has its
 * variant in the name of its graph. Where it is left open whether frozen weights lie on disk, they do where
 * the budget is not met otherwise; for the least budget, where less is needed so. `out` is freed with
 * choice_free. NEAP_OVER_BUDGET: `*smallest` (may be NULL) is the smallest budget that one of them meets.
 * `reserve`: of a budget for the process, what comes to the rest later. `given`: NULL, or a plan that is
 * taken as one of a file is. */
neap_status choose_plan(const struct neap_graph *graph, const struct neap_session_options *options,
                        const struct neap_plan *given, uint64_t reserve, uint64_t *smallest,
                        struct choice *out);

void choice_free(struct choice *choice);

/* Of a graph with states that are prepared: what prepares them, and what predicts. Both have one memory. */
enum { PART_PREPARES, PART_PREDICTS, PART_COUNT };

struct parts {
  struct lowered *whole; /* the graph, which is not run: variables lie as they do here, whoever reads them */
  struct choice part[PART_COUNT];
};

bool has_parts(const struct neap_graph *graph);

/* Plans both parts within the budget. The parts are freed before the whole (parts_free). Errors: as
 * choose_plan; NEAP_INVALID_ARGUMENT where the options ask for training. */
neap_status choose_parts(const struct neap_graph *graph, const struct neap_session_options *options,
                         uint64_t reserve, uint64_t *smallest, struct parts *out);

void parts_free(struct parts *parts);

#endif
