/* Parameters, optimizer states and running statistics of a session. */
#ifndef NEAP_WEIGHTS_VARIABLES_H
#define NEAP_WEIGHTS_VARIABLES_H

#include <jansson.h>

#include "program/transfer.h"
#include "session/session.h"

/* The elements of a variable that are read and written at a time: all, or of one on disk a piece; and these,
 * from element `first` on, as f32. */
int64_t variable_part(const struct neap_session *session, int32_t index);
neap_status session_read_part(const struct neap_session *session, int32_t index, int64_t first, float *data);
neap_status session_write_part(struct neap_session *session, int32_t index, int64_t first, const float *data);

/* Gives memory on the host for a part of any variable in row-major order. Between steps the arena holds
 * nothing, and it had room for a gradient of every parameter, so no memory beyond the plan is needed. Outputs
 * in the arena are lost. If it is too small, or the host does not reach it, free `*allocated`; else that is
 * NULL. */
neap_status session_scratch(struct neap_session *session, float **buffer, float **allocated);

/* As neap_session_digest; also adds the first 16 digits of each saved variable's own digest to an object, by
 * its name, unless that is NULL. */
neap_status session_digests(struct neap_session *session, char digest[65], json_t *variables);

/* Fills the parameters and states with their first values. */
neap_status initialise_variables(struct neap_session *session);
/* The same for one; `data`: room for it. */
neap_status initialise_variable(struct neap_session *session, int32_t index, float *data);
/* Fails with NEAP_BAD_FORMAT if a parameter or a running statistic, read from the file `path`, has NaN or
 * infinity. */
neap_status session_need_finite(struct neap_session *session, const char *path);
/* Reads and writes the blocks of a variable of a quantised type. NEAP_INVALID_ARGUMENT: its type is not
 * quantised. */
neap_status session_read_blocks(const struct neap_session *session, int32_t index, void *blocks);
neap_status session_write_blocks(struct neap_session *session, int32_t index, const void *blocks);
/* The same for `rows` of its first dimension. */
neap_status session_write_rows(struct neap_session *session, int32_t index, int64_t first, int64_t rows,
                               const void *blocks);
/* Returns true if files and digest have a variable: always or, with options.save_trained, if it changes. */
bool variable_is_saved(const struct neap_session *session, int32_t index);
/* Returns true if a parameter of this name exists and is trained. */
bool session_changes(const struct neap_session *session, const char *name);
/* Returns true if a parameter of this name exists and belongs to an adapter. */
bool session_has_adapter(const struct neap_session *session, const char *name);
/* Counts the tensors that are trained, and those of them whose states are in blocks of 8 bits. */
void session_count_8bit(const struct neap_session *session, int32_t *blocks, int32_t *trained);
/* Returns true if a variable is a parameter of an adapter. */
bool variable_is_adapter(const struct neap_session *session, int32_t index);
/* Returns the number of elements of the parameters that no step changes. */
int64_t session_frozen(const struct neap_session *session);
/* Returns how many bytes less the parameters in blocks take than in the type of the others. */
uint64_t session_stored_saved(const struct neap_session *session);
/* Loads the variables that the source has; sparse parameters keep the largest values. Others are unchanged.
 * Parameters on disk are not read. */
neap_status session_load_values(struct neap_session *session, const struct value_source *source);
/* Returns true if a variable is on disk; and reads rows of it. */
bool variable_is_on_disk(const struct neap_session *session, int32_t index);
neap_status session_read_disk_rows(const struct neap_session *session, int32_t index, int64_t first,
                                   int64_t rows, float *data);
/* Returns true if some parameters are on disk: the session then needs a lasting source. */
bool session_reads_disk(const struct neap_session *session);
/* Fills the bytes on disk and those read so far. */
void session_disk_use(const struct neap_session *session, neap_memory *memory);
/* Gives the session that source, replacing a former one; the session then owns it, even after a failure. */
neap_status session_keep_source(struct neap_session *session, const struct value_source *source);
/* Lists the variables in the order of the digest. */
neap_status list_variables(struct neap_session *session);

/* Gives this process's shares of the states while another one saves (neap_session_save). */
neap_status session_save_along(struct neap_session *session);

#endif
