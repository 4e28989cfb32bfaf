/* The lifetime of a value: what a schedule needs of memory. */
#ifndef NEAP_STEP_INSTANCE_H
#define NEAP_STEP_INSTANCE_H

#include <stdint.h>

/* One value made at one position: lives from `at` to `last`, both included. */
struct instance {
  int32_t tensor; /* -1: the workspace of the node at `at` */
  int32_t at, last;
  int32_t takes_over; /* instance whose bytes it takes over at `at`; -1: none */
  uint64_t bytes;
};

#endif
