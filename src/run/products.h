/* What a session multiplies with. */
#ifndef NEAP_RUN_PRODUCTS_H
#define NEAP_RUN_PRODUCTS_H

#include <jansson.h>

#include "run/session.h"

/* The implementations that make the products of a session's steps (convolutions, matrix products, attention,
 * recurrence), with their versions: an array of texts, sorted, each once. With the session's options, its
 * shapes and the number of threads the last bits of a step depend on them alone. The caller frees it with
 * json_decref. */
neap_status session_products(const neap_session *session, json_t **out);

#endif
