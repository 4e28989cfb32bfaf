/* What the families' short forms build with. */
#ifndef NEAP_OP_BUILDER_H
#define NEAP_OP_BUILDER_H

#include "op/op.h"

enum { NAME_LIMIT = 128, FAILED = -1 };

/* Whether calls can go on: the builder is there, has its graph, and nothing has failed. */
bool builder_ready(const neap_builder *b);

/* The same, and `x` is one of its tensors; else it fails. */
bool builder_usable(neap_builder *b, neap_tensor x);

/* Tensor `x`, which is usable; valid until the next tensor is added. */
const struct tensor *builder_tensor(const neap_builder *b, neap_tensor x);

/* An axis of `x` counted from the front, as attributes have it: negative ones are given from the end. One
 * that is missing stays as it is, for need_axis to refuse. */
int64_t builder_axis(neap_builder *b, neap_tensor x, int axis);

/* Keeps the first failure, with the message of this thread; gives FAILED. */
neap_tensor builder_fail(neap_builder *b, neap_status status);

/* The next name for such a node: "scope.conv1". */
void builder_name(neap_builder *b, enum op op, char name[2 * NAME_LIMIT]);

/* The name that builder_name would give next. */
void builder_peek(const neap_builder *b, enum op op, char name[2 * NAME_LIMIT]);

/* "owner.part", a parameter or state. */
neap_tensor builder_variable(neap_builder *b, const char *owner, const char *part, neap_dtype dtype,
                             neap_role role, neap_initial initial, int32_t rank, const int64_t *dims);

/* The attributes with what their zeros mean, by the rows of the operator. */
union attributes builder_attributes(enum op op, union attributes given);

/* Adds a node under that name; gives its first output. Inputs may be NO_TENSOR. `outputs` may be NULL. */
neap_tensor builder_apply(neap_builder *b, enum op op, const char *name, union attributes attributes,
                          const int32_t *inputs, int32_t count, int32_t *outputs);

/* The same under the next name. */
neap_tensor builder_next(neap_builder *b, enum op op, union attributes attributes, const int32_t *inputs,
                         int32_t count);

/* A random stream that no other node has. */
int32_t builder_stream(neap_builder *b);

/* The same elements as `x` under another shape, whose dimensions are known to fit. */
neap_tensor builder_view(neap_builder *b, neap_tensor x, int32_t rank, const int64_t *dims);

/* What a batch norm has: parameters and running statistics [C] of f32. */
struct batch_norm_variables {
  neap_tensor gamma, beta, running_mean, running_variance;
};

/* Batch norm with variables that exist; NULL: it makes its own. */
neap_tensor builder_batch_norm(neap_builder *b, neap_tensor x, neap_batch_norm_options options,
                               const struct batch_norm_variables *given);

/* A norm of rows with gamma and beta that exist, or NO_TENSOR. */
neap_tensor builder_row_norm(neap_builder *b, neap_tensor x, struct row_norm_attributes attributes,
                             neap_tensor gamma, neap_tensor beta);

/* Rows turned by their positions; `position` [1] or NO_TENSOR. */
neap_tensor builder_rotary(neap_builder *b, neap_tensor x, struct rotary_attributes attributes,
                           neap_tensor position);

struct neap_graph *builder_graph(neap_builder *b);

#endif
