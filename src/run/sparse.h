/* Sparse parameters in a session's memory: pools of values, in which those of each parameter lie one after
 * the other, and positions (run/positions.h), which say to which elements they belong. */
#ifndef NEAP_RUN_SPARSE_H
#define NEAP_RUN_SPARSE_H

#include "run/session.h"

/* Finds them in the graph of `main`, whose memory is mapped. */
neap_status sparse_find(struct neap_session *s);

/* How many values a parameter has. */
neap_status sparse_values(const struct neap_session *s, int32_t layer, int64_t *count);

/* A parameter, or a state of it, as f32 in row-major order; and back: values that are not at its positions
 * are passed over. */
neap_status sparse_read(const struct neap_session *s, int32_t layer, int32_t pool, float *data);
neap_status sparse_write(struct neap_session *s, int32_t layer, int32_t pool, const float *data);

/* 1 where there is a value. Writing keeps the values whose positions stay, in all pools; new ones are 0.
 * NEAP_INVALID_ARGUMENT: there would be more values than there is room for; nothing is changed. */
neap_status sparse_read_positions(const struct neap_session *s, int32_t layer, float *data);
neap_status sparse_write_positions(struct neap_session *s, int32_t layer, const float *data);

/* No parameter has any value. */
neap_status sparse_clear(struct neap_session *s);

/* First positions of a parameter, drawn at random in row-major order, 1 and 0. */
void sparse_first_positions(const struct neap_session *s, int32_t layer, float *data);
/* Gives them to all parameters. `data`: room for the largest parameter. */
neap_status sparse_draw_positions(struct neap_session *s, float *data);

/* Positions of the `count` elements of `data` that are largest in size, 1 and 0; in place. */
void sparse_largest(int64_t elements, int64_t count, float *data);

#endif
