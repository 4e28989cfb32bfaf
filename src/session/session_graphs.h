/* The graphs of a session, rewritten and lowered by its options; and what these options may be. */
#ifndef NEAP_SESSION_SESSION_GRAPHS_H
#define NEAP_SESSION_SESSION_GRAPHS_H

#include "grad/gradient.h"
#include "kernel/kernel.h"

const struct backend *backend_of(const struct neap_session_options *options);
struct lower_options lower_options_of(const struct neap_session_options *options);

struct optimizer optimizer_of(const struct neap_session_options *options);

/* Returns true if some parameters are sparse in training. A session that only predicts is dense. */
bool is_sparse(const struct neap_session_options *options);

/* Returns the first factor of gradients, which keeps f16 from losing them. */
float loss_scale_of(const struct neap_session_options *options);

/* Returns the factor of the noise of weights in a step without gradients. */
float perturbation_of(const struct neap_session_options *options);

/* Makes the forward graph for lowering: fused, with the precision and the sparse weights of the options. */
neap_status make_forward_graph(const struct neap_graph *graph, const struct neap_session_options *options,
                               struct neap_graph **out);

/* Makes the graph with the adapters of the options, whose `lora` is not 0. */
neap_status make_adapted_graph(const struct neap_graph *graph, const struct neap_session_options *options,
                               struct neap_graph **out);

/* Returns true if there are no gradients: the graph has no loss, or the options ask for it. */
bool predicts_only(const struct neap_graph *graph, const struct neap_session_options *options);

/* Returns true if ranks divide a step by its depth. */
bool is_pipeline(const struct neap_session_options *options);

/* Returns the number of processes that divide the micro-batches: all, or one of each pipeline. At least 1. */
int batch_ranks_of(const struct neap_session_options *options);

/* Returns true if each of several processes has a share of large parameters. */
bool shards_all(const struct neap_session_options *options);

/* Fails unless processes that train together can have a session with these options. */
neap_status check_ranks(const struct neap_session_options *options);

/* Fails with NEAP_INVALID_ARGUMENT on an invalid enumerator, or a number that is not finite or out of range.
 */
neap_status check_session_options(const struct neap_session_options *options);

/* Lowers the training step of a graph: fused, differentiated, in the variant of the options (the base for
 * AUTO). */
neap_status lower_training(const struct neap_graph *graph, const struct neap_session_options *options,
                           struct lowered **out);

/* Replaces a budget that is a share by its bytes: the share of the need for keeping everything of the graph's
 * step. Leaves other budgets unchanged. */
neap_status budget_share_to_bytes(const struct neap_graph *graph, struct neap_session_options *options);

/* Lowers the training step in a given variant, for a session that has `like`: variables keep the formats that
 * they have there. */
neap_status lower_training_like(const struct neap_graph *graph, const struct neap_session_options *options,
                                neap_variant variant, const struct lowered *like, struct lowered **out);

/* Makes the graph with gradients and updates, or the one that predicts. */
neap_status make_main_graph(const struct neap_graph *graph, const struct neap_session_options *options,
                            struct neap_graph **out);

/* Lowers a variant of a training graph. `*out` NULL: the variant is the graph itself. */
neap_status lower_variant(const struct neap_graph *training, neap_variant variant,
                          const struct neap_session_options *options, struct lowered **out);

/* Lowers the variant, or the base if they are equal; `*variant` says which. */
neap_status lower_as(const struct neap_graph *training, const struct neap_session_options *options,
                     neap_variant *variant, struct lowered **out);

/* Lowers a graph, with measured costs if the options say so; `like`: as in lower. */
neap_status lower_with_costs(const struct neap_graph *training, const struct neap_session_options *options,
                             const struct lowered *like, struct lowered **out);

#endif
