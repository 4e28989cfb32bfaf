/* Chooses the variant and the plan of a session: the cheapest that its budget allows. */
#ifndef NEAP_SESSION_CHOOSE_H
#define NEAP_SESSION_CHOOSE_H

#include "session/session_graphs.h"
#include "step/plan.h"

/* Returns the variant at the end of the name of a plan's graph; the base if it ends in none. */
neap_variant variant_of_name(const char *graph, const char *name);

/* Weights and variables of a training that lie on disk. */
struct on_disk {
  neap_base_on_disk base;  /* ALWAYS or NEVER */
  neap_disk_for variables; /* none: NEAP_DISK_FOR_AUTO */
};

/* Writes it into options, which then leave nothing open. */
void options_set_on_disk(struct neap_session_options *options, struct on_disk on_disk);
/* Returns what such options keep on disk. */
struct on_disk on_disk_of(const struct neap_session_options *options);

struct choice {
  neap_variant variant;
  struct on_disk on_disk;
  struct lowered *lowered;
  struct neap_plan *plan; /* valid by the checker, within the budget */
  uint64_t budget, keep_all;
  uint64_t end;  /* bytes of the arena that the end of a step needs; 0: no more than the step */
  uint64_t rest; /* of the process, also covered by its budget; 0: it has no budget */
};

/* The measured growth of a process once it trains (stacks, buffers of files, untouched pages of code); and
 * that including the evaluation's graph and the plans. Bytes. */
enum { PROCESS_GROWTH = 3 << 20, PROCESS_RESERVE = 2 * PROCESS_GROWTH };

/* The resident bytes of a process differ by some pages from one attempt to plan to the next, and by some
 * hundred KiB from run to run (where the heap and the code lie, what the system has read ahead). An attempt
 * after one that missed its budget keeps the first more than was missing; the smallest budget that is named
 * is higher by the second. */
enum { PROCESS_RETRY_MARGIN = 64 << 10, PROCESS_RUN_MARGIN = 1 << 20 };

/* Returns the memory that a process needs once that of its session is mapped: for programs of `nodes` nodes
 * in all, and a part that does not depend on the model. */
uint64_t process_growth(uint64_t nodes, struct on_disk on_disk);

/* Plans the step of a graph in the variant of the options. For AUTO plans each, and takes the one with the
 * cheapest plan (for the least budget, the least peak), the base among equals. Variants that are
 * surely not cheaper are not planned: none if the base recomputes nothing, none whose step costs more without
 * recomputation, and none that hardly saves memory with everything kept. A plan file has its variant in the
 * name of its graph. What the options leave open lies on disk if the budget is not met otherwise, or, for the
 * least budget, if that needs less; variables do also if that costs less than recomputing. Free `out` with
 * choice_free.
 * NEAP_OVER_BUDGET: `*smallest` (may be NULL) is the smallest budget that one of them meets. `reserve`: the
 * later growth of the process, for a budget of the process. `given`: NULL, or a plan that is used like one
 * from a file. */
neap_status choose_plan(const struct neap_graph *graph, const struct neap_session_options *options,
                        const struct neap_plan *given, uint64_t reserve, uint64_t *smallest,
                        struct choice *out);

void choice_free(struct choice *choice);

/* The parts of a graph with prepared states: the one that prepares them, and the one that predicts. They
 * share one memory. */
enum { PART_PREPARES, PART_PREDICTS, PART_COUNT };

struct parts {
  struct lowered *whole; /* the complete graph, which is not run: it sets the formats of variables */
  struct choice part[PART_COUNT];
};

bool has_parts(const struct neap_graph *graph);

/* Plans both parts within the budget. Free the parts before the complete graph (parts_free). Errors: as
 * choose_plan; NEAP_INVALID_ARGUMENT if the options ask for training. */
neap_status choose_parts(const struct neap_graph *graph, const struct neap_session_options *options,
                         uint64_t reserve, uint64_t *smallest, struct parts *out);

void parts_free(struct parts *parts);

#endif
