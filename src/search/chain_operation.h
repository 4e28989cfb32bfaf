/* What is done to the stages of a chain, in order: the language in which the checkpointing algorithms answer.
 */
#ifndef NEAP_SEARCH_CHAIN_OPERATION_H
#define NEAP_SEARCH_CHAIN_OPERATION_H

#include <stdint.h>

#include "base/vector.h"

enum chain_action {
  CHAIN_FORWARD,      /* run the stage forward, keep nothing more of its inside */
  CHAIN_FORWARD_KEEP, /* run it forward with option `choice` */
  CHAIN_BACKWARD,     /* run it backward from what that kept */
  CHAIN_LEAF          /* run it forward as option `choice` and at once backward */
};

struct chain_operation {
  enum chain_action action;
  int32_t stage;
  int32_t mode;   /* what is there of the stage's inside when it runs forward; 0: nothing */
  int32_t choice; /* option of that mode; 0: keep all */
};

typedef VECTOR(struct chain_operation) chain_operations;

#endif
