/* A session's memory: resident tensors, then the arena; the inputs that the host fills; and variables as f32.
 * All other access is by offsets too (device/device.h). */
#ifndef NEAP_SESSION_SESSION_MEMORY_H
#define NEAP_SESSION_SESSION_MEMORY_H

#include "session/session.h"

/* Maps the memory that the plan needs; gives each resident tensor its place and each input its memory on the
 * host. session_unmap_memory also frees a part of this. */
neap_status session_map_memory(struct neap_session *session);
void session_unmap_memory(struct neap_session *session);

/* Copies inputs that the host does not write in place; call before programs that read them. */
neap_status session_send_inputs(struct neap_session *session);

/* Returns the place of a resident tensor of the graph of `main`. */
uint64_t session_place(const struct neap_session *session, int32_t tensor);

/* Copies the tensor of a graph at `place` to f32 in row-major order on the host, and back. For a tensor that
 * processes share it copies all shares, so every rank makes this call. */
neap_status session_export(const struct neap_session *session, const struct lowered *lowered, int32_t tensor,
                           uint64_t place, float *plain);
neap_status session_import(struct neap_session *session, const struct lowered *lowered, int32_t tensor,
                           const float *plain, uint64_t place);

/* Returns how many elements of a variable are read and written at a time without the others: a piece of a
 * row-major one on disk; 0: all at once. */
int64_t session_piece(const struct neap_session *session, int32_t tensor);

/* Copies the piece of such a variable that begins at element `first` to f32, or back; or in its own type. */
neap_status session_copy_piece(const struct neap_session *session, int32_t tensor, bool out, int64_t first,
                               float *plain);
neap_status session_copy_piece_bytes(const struct neap_session *session, int32_t tensor, bool out,
                                     int64_t first, void *bytes);

/* Reads a resident tensor of the graph of `main` in its memory format: `bytes` [all of it]. For a tensor that
 * processes share it reads all shares, so every rank makes this call. */
neap_status session_read_bytes(const struct neap_session *session, int32_t tensor, void *bytes);

/* Writes `count` bytes of one from byte `first` on: only those that this process has. */
neap_status session_write_bytes(struct neap_session *session, int32_t tensor, uint64_t first, uint64_t count,
                                const void *bytes);

/* Returns which bytes of one this process has. They are at session_place. */
struct byte_share session_own_bytes(const struct neap_session *session, int32_t tensor);

#endif
