/* How much a test tries. */
#ifndef NEAP_TESTS_EFFORT_H
#define NEAP_TESTS_EFFORT_H

#include <stdbool.h>
#include <stdlib.h>

/* `make check` is a quick pass over every promise; sanitizers are slow enough by themselves. */
static inline bool quick_pass(void) {
  return getenv("NEAP_QUICK") != NULL || getenv("NEAP_SANITIZED") != NULL;
}

/* Under sanitizers, where a search for the least memory takes a quarter of a minute. */
static inline bool sanitized(void) { return getenv("NEAP_SANITIZED") != NULL; }

/* Rounds of a test that draws its cases. */
static inline int shorten(int rounds) { return quick_pass() ? rounds / 10 : rounds; }

#endif
