/* The names of a session's kernels. */
#ifndef NEAP_RUN_KERNEL_NAMES_H
#define NEAP_RUN_KERNEL_NAMES_H

#include <jansson.h>

#include "session/session.h"

/* Gives the kernels of a session's steps, with their versions: the implementation of each operator that has
 * FLOPs, such as convolutions and matrix products, and for all others Neap's own kernels as one. The result
 * is an array of texts, sorted, each once, to be freed with json_decref. Besides the session's options,
 * shapes and number of threads the last bits of a step depend on them. */
neap_status session_kernel_names(const neap_session *session, json_t **out);

#endif
