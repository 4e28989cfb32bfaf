/* Parts of a lowered graph, which the ranks of a pipeline run: some of its nodes, with the formats and
 * kernels that they have in the whole, so that they compute the same bits. */
#ifndef NEAP_KERNEL_LOWER_PART_H
#define NEAP_KERNEL_LOWER_PART_H

#include "kernel/kernel.h"

/* A value that one part makes and another reads. It lies in a state of its own, which all parts of a rank
 * have. */
struct part_value {
  const char *name;     /* of the state */
  struct tensor tensor; /* its shape and type */
  struct memory_format format;
  int32_t copies; /* micro-batches that have one at the same time */
  int32_t id;     /* tensor of the whole graph; -1: the value belongs to another graph */
  bool stored;    /* this part makes it for all; another part that makes it again keeps that to itself */
};

/* A variable of the whole graph. */
struct part_variable {
  int32_t rank;   /* that has it for all; -1: every rank has its own */
  bool elsewhere; /* this rank has no bytes of it */
};

struct part_request {
  const bool *nodes; /* by node of the whole; NULL: none */
  const struct part_value *values;
  int32_t value_count;
  const struct part_variable *variables; /* by tensor of the whole */
  bool common;                           /* variables and values lie in memory that all ranks reach */
};

/* Makes a part. It uses the state and the kernels of `whole`, which must live as long. NEAP_UNSUPPORTED: a
 * value that another part needs lies in the bytes of a variable. */
neap_status lowered_part(const struct lowered *whole, const struct part_request *request,
                         struct lowered **out);

#endif
