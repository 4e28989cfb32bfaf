/* Parameters, optimizer states and running statistics of a session. */
#ifndef NEAP_RUN_VARIABLES_H
#define NEAP_RUN_VARIABLES_H

#include "run/session.h"
#include "run/transfer.h"

/* Room on the host for any variable in row-major order. Between steps nothing lives in the arena, and it held
 * a gradient of every parameter: so no memory is needed that the plan does not have. Outputs that lay there
 * are gone. Where it is too small, or the host does not reach it, `*allocated` is to be freed; else NULL. */
neap_status session_scratch(struct neap_session *session, float **buffer, float **allocated);

/* Fills the parameters and states with what they begin with. */
neap_status initialise_variables(struct neap_session *session);
/* The same of one; `data`: room for it. */
neap_status initialise_variable(struct neap_session *session, int32_t index, float *data);
/* Fails with NEAP_BAD_FORMAT where a parameter or a running statistic, which came from the file `path`, has
 * NaN or infinity. */
neap_status session_need_finite(struct neap_session *session, const char *path);
/* Reads and writes the blocks of a variable of a quantised type. NEAP_INVALID_ARGUMENT: it has another. */
neap_status session_read_blocks(const struct neap_session *session, int32_t index, void *blocks);
neap_status session_write_blocks(struct neap_session *session, int32_t index, const void *blocks);
/* The same of `rows` of its first dimension. */
neap_status session_write_rows(struct neap_session *session, int32_t index, int64_t first, int64_t rows,
                               const void *blocks);
/* Whether files and digest have a variable: all of them, or where options.save_trained says so those that
 * change.
 */
bool variable_is_saved(const struct neap_session *session, int32_t index);
/* Whether a parameter of that name is there and is trained. */
bool session_changes(const struct neap_session *session, const char *name);
/* Whether a variable is a parameter of an adapter. */
bool variable_is_adapter(const struct neap_session *session, int32_t index);
/* Elements of the parameters that no step changes. */
int64_t session_frozen(const struct neap_session *session);
/* Bytes that the parameters in blocks take less than in the type of the others. */
uint64_t session_stored_saved(const struct neap_session *session);
/* Gives the variables that the source has those values; sparse parameters keep the largest. Others stay as
 * they are. What lies on disk is not read. */
neap_status session_load_values(struct neap_session *session, const struct value_source *source);
/* Whether some parameters lie on disk: the session then needs a source that stays. */
bool session_reads_disk(const struct neap_session *session);
/* Fills what the disk has and gave so far. */
void session_disk_use(const struct neap_session *session, neap_memory *memory);
/* Gives it that source, in place of a former one; it is the session's then, also after a failure. */
neap_status session_keep_source(struct neap_session *session, const struct value_source *source);
/* Lists them in the order of the digest. */
neap_status list_variables(struct neap_session *session);

/* What a process does while another one saves (neap_session_save): it gives its shares of the states. */
neap_status session_save_along(struct neap_session *session);

#endif
