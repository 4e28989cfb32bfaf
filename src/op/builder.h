/* Helpers of the short forms, which are the builder's calls. */
#ifndef NEAP_OP_BUILDER_H
#define NEAP_OP_BUILDER_H

#include "op/op.h"

enum { NAME_LIMIT = 128, FAILED = -1 };

/* Returns true if the builder exists, still has its graph and has not failed. */
bool builder_ready(const neap_builder *b);

/* Returns true if the builder is ready and `x` is one of its tensors; a wrong `x` is a failure. */
bool builder_usable(neap_builder *b, neap_tensor x);

/* Returns tensor `x`, which must be usable; valid until the next tensor is added. */
const struct tensor *builder_tensor(const neap_builder *b, neap_tensor x);

/* Returns an axis of `x` counted from the front; a negative axis counts from the end. An axis that does not
 * exist is returned unchanged, for need_axis to refuse. */
int64_t builder_axis(neap_builder *b, neap_tensor x, int axis);

/* Keeps the first failure and this thread's message; returns FAILED. */
neap_tensor builder_fail(neap_builder *b, neap_status status);

/* Takes the next name for an operator: "scope.conv1". */
void builder_name(neap_builder *b, enum op op, char name[2 * NAME_LIMIT]);

/* Writes the name that builder_name would take. */
void builder_peek(const neap_builder *b, enum op op, char name[2 * NAME_LIMIT]);

/* Adds a parameter or a state called "owner.part". */
neap_tensor builder_variable(neap_builder *b, const char *owner, const char *part, neap_dtype dtype,
                             neap_role role, neap_initial initial, int32_t rank, const int64_t *dims);

/* Returns the attributes with each 0 replaced by what the operator's rows say it means. */
union attributes builder_attributes(enum op op, union attributes given);

/* Adds a node called `name` and returns its first output. Inputs may be NO_TENSOR, `outputs` NULL. */
neap_tensor builder_apply(neap_builder *b, enum op op, const char *name, union attributes attributes,
                          const int32_t *inputs, int32_t count, int32_t *outputs);

/* The same under the next name. */
neap_tensor builder_next(neap_builder *b, enum op op, union attributes attributes, const int32_t *inputs,
                         int32_t count);

/* Returns a random stream that no other node has. */
int32_t builder_stream(neap_builder *b);

/* Adds a view of `x` with another shape, which must have as many elements. */
neap_tensor builder_view(neap_builder *b, neap_tensor x, int32_t rank, const int64_t *dims);

/* The variables of a batch norm: parameters and running statistics, all [C] of f32. */
struct batch_norm_variables {
  neap_tensor gamma, beta, running_mean, running_variance;
};

/* Adds a batch norm with existing variables, or with its own if `given` is NULL. */
neap_tensor builder_batch_norm(neap_builder *b, neap_tensor x, neap_batch_norm_options options,
                               const struct batch_norm_variables *given);

/* Adds a norm of rows; gamma and beta exist or are NO_TENSOR. */
neap_tensor builder_row_norm(neap_builder *b, neap_tensor x, struct row_norm_attributes attributes,
                             neap_tensor gamma, neap_tensor beta);

/* Turns rows by their positions; `position` is [1] or NO_TENSOR, `divisors` (of each pair's frequency) may be
 * NULL. */
neap_tensor builder_rotary(neap_builder *b, neap_tensor x, struct rotary_attributes attributes,
                           neap_tensor position, const float *divisors);

struct neap_graph *builder_graph(neap_builder *b);

#endif
