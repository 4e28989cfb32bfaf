/* The speed of this machine, as measured here before. */
#ifndef NEAP_SPEED_SPEED_H
#define NEAP_SPEED_SPEED_H

#include "base/region.h"
#include "kernel/kernel.h"

/* Returns the name of this machine with this many threads in a cost_database. NULL: out of memory. */
char *machine_text(struct region *region, int threads);

/* Returns the roofline of this machine with this many threads (0: all cores), if the user's cache has it;
 * else the usual one. */
struct roofline machine_roofline(int threads);

struct roofline roofline_of(const neap_speed *speed);

#endif
