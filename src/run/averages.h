/* Exponential averages of a session's trained parameters: states of their shape, in its memory, that lie as
 * they do. A session without them takes every call, and does nothing. */
#ifndef NEAP_RUN_AVERAGES_H
#define NEAP_RUN_AVERAGES_H

#include "base/safetensors.h"
#include "run/session.h"

/* Finds them, where the memory is mapped and variables are listed. */
neap_status averages_find(struct neap_session *s);

/* The parameter whose average variable `index` is; -1: it is no average. */
int32_t averages_parameter(const struct neap_session *s, int32_t index);

/* The tensor of a file that a prediction takes for a parameter: its average, or where the file has no such,
 * itself; -1: the file has neither. */
int32_t averages_tensor(const struct safetensors *file, const char *name);

/* Makes an average what its parameter is: `index` is that of either, -1 means all. */
neap_status averages_begin(struct neap_session *s, int32_t index);

/* After a step: average = ema average + (1 - ema) parameter, element by element. */
neap_status averages_move(struct neap_session *s);

/* Parameters and averages change places: before and after an evaluation. A failure leaves the session torn
 * (run/give_up.h). */
neap_status averages_swap(struct neap_session *s);

#endif
