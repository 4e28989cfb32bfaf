/* The speed of this processor and its memory. */
#ifndef NEAP_KERNEL_CPU_SPEED_H
#define NEAP_KERNEL_CPU_SPEED_H

#include "base/status.h"

/* Measures both with one thread and with this number, which parallel regions of the calling thread have
 * (team_set). Takes some tenths of a second, and memory for two arrays of twice the largest cache. */
neap_status cpu_measure_speed(int threads, neap_speed *one, neap_speed *all);

#endif
