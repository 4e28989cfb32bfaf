/* Sparse parameters in a session's memory: pools of values, in which each parameter's values are consecutive,
 * and positions (weights/positions.h), which say to which elements they belong. */
#ifndef NEAP_WEIGHTS_SPARSE_H
#define NEAP_WEIGHTS_SPARSE_H

#include "session/session.h"

/* Finds the sparse parameters in the graph of `main`, whose memory is mapped. */
neap_status sparse_find(struct neap_session *s);

/* Gives the number of values of a parameter. */
neap_status sparse_values(const struct neap_session *s, int32_t layer, int64_t *count);

/* Reads a parameter, or a state of it, as f32 in row-major order; and writes it, ignoring values that are not
 * at its positions. */
neap_status sparse_read(const struct neap_session *s, int32_t layer, int32_t pool, float *data);
neap_status sparse_write(struct neap_session *s, int32_t layer, int32_t pool, const float *data);

/* Reads positions: 1 where there is a value. Writing keeps the values whose positions stay, in all pools; new
 * ones are 0. NEAP_INVALID_ARGUMENT: there would be more values than there is room for; nothing is
 * changed. */
neap_status sparse_read_positions(const struct neap_session *s, int32_t layer, float *data);
neap_status sparse_write_positions(struct neap_session *s, int32_t layer, const float *data);

/* Removes all values of all parameters. */
neap_status sparse_clear(struct neap_session *s);

/* Draws the first positions of a parameter at random in row-major order, 1 and 0. */
void sparse_first_positions(const struct neap_session *s, int32_t layer, float *data);
/* Gives all parameters their first positions. `data`: room for the largest parameter. */
neap_status sparse_draw_positions(struct neap_session *s, float *data);

/* Replaces `data` by the positions of its `count` elements that are largest in size, 1 and 0. */
void sparse_largest(int64_t elements, int64_t count, float *data);

#endif
