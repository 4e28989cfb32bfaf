/* A session's memory: resident tensors, then the arena; the inputs as the host fills them; variables that
 * come and go as f32. All else that reaches it does so by offsets, too (device/device.h). */
#ifndef NEAP_RUN_SESSION_MEMORY_H
#define NEAP_RUN_SESSION_MEMORY_H

#include "run/session.h"

/* Maps what the plan needs, gives each resident tensor its place and each input its memory on the host.
 * session_unmap_memory takes what is there. */
neap_status session_map_memory(struct neap_session *session);
void session_unmap_memory(struct neap_session *session);

/* Before programs that read inputs: copies what the host filled in, where it does not do so in place. */
neap_status session_send_inputs(struct neap_session *session);

/* Where a resident tensor of the graph of `main` lies. */
uint64_t session_place(const struct neap_session *session, int32_t tensor);

/* Copies the tensor of a graph that lies at `place` to f32 in row-major order on the host, and back. Of one
 * that processes share, all shares: every rank makes this call. */
neap_status session_export(const struct neap_session *session, const struct lowered *lowered, int32_t tensor,
                           uint64_t place, float *plain);
neap_status session_import(struct neap_session *session, const struct lowered *lowered, int32_t tensor,
                           const float *plain, uint64_t place);

/* Reads a resident tensor of the graph of `main` as it lies: `bytes` [all of it], of one that processes share
 * all shares, so that every rank makes this call. */
neap_status session_read_bytes(const struct neap_session *session, int32_t tensor, void *bytes);

/* Writes `count` bytes of one from byte `first` on: those of them that this process has. */
neap_status session_write_bytes(struct neap_session *session, int32_t tensor, uint64_t first, uint64_t count,
                                const void *bytes);

/* Which bytes of one this process has. They lie at session_place. */
struct byte_share session_own_bytes(const struct neap_session *session, int32_t tensor);

#endif
