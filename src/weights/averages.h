/* Exponential averages of a session's trained parameters: states of the same shape and memory layout, in its
 * memory. A session without them takes every call, and does nothing. */
#ifndef NEAP_WEIGHTS_AVERAGES_H
#define NEAP_WEIGHTS_AVERAGES_H

#include "formats/safetensors.h"
#include "session/session.h"

/* Finds the averages, once the memory is mapped and variables are listed. */
neap_status averages_find(struct neap_session *s);

/* Returns the parameter whose average variable `index` is; -1: it is not an average. */
int32_t averages_parameter(const struct neap_session *s, int32_t index);

/* Returns the tensor of a file that a prediction uses for a parameter: its average if the file has one, else
 * itself; -1: the file has neither. */
int32_t averages_tensor(const struct safetensors *file, const char *name);

/* Sets an average to its parameter: `index` is that of either, -1 means all. */
neap_status averages_begin(struct neap_session *s, int32_t index);

/* After a step: average = ema average + (1 - ema) parameter, element by element. */
neap_status averages_move(struct neap_session *s);

/* Exchanges parameters and averages, before and after an evaluation. A failure leaves the session torn
 * (session/drop_step.h). */
neap_status averages_swap(struct neap_session *s);

#endif
