/* Operations on the stages of a chain, in order: the output of the checkpointing algorithms. */
#ifndef NEAP_SEARCH_CHAIN_OPERATION_H
#define NEAP_SEARCH_CHAIN_OPERATION_H

#include <stdint.h>

#include "base/vector.h"

enum chain_action {
  CHAIN_FORWARD,      /* run the stage forward, keep no more of its inside */
  CHAIN_FORWARD_KEEP, /* run it forward with option `choice` */
  CHAIN_BACKWARD,     /* run it backward from the values that this kept */
  CHAIN_LEAF          /* run it forward as option `choice` and directly backward */
};

struct chain_operation {
  enum chain_action action;
  int32_t stage;
  int32_t mode;   /* which values inside the stage are held when it runs forward (stage.h); 0: none */
  int32_t choice; /* option of that mode; 0: keep all */
};

typedef VECTOR(struct chain_operation) chain_operations;

#endif
