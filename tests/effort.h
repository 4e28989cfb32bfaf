/* How much a test tries. */
#ifndef NEAP_TESTS_EFFORT_H
#define NEAP_TESTS_EFFORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* `make check` is a quick pass over every promise; sanitizers are slow enough by themselves. */
static inline bool quick_pass(void) {
  return getenv("NEAP_QUICK") != NULL || getenv("NEAP_SANITIZED") != NULL;
}

/* Under sanitizers, where a search for the least memory takes a quarter of a minute. */
static inline bool sanitized(void) { return getenv("NEAP_SANITIZED") != NULL; }

/* The planner of a test that asks for the least memory and compares bits: the usual one, or, in a quick pass,
 * one that plans at once. */
static inline const char *quick_planner(void) { return quick_pass() ? "evict" : NULL; }

/* Whether a quick pass leaves out choice `k` of `choices` for case `i`: it tries each case with one of them,
 * by turns. */
static inline bool leaves_out(size_t i, size_t k, size_t choices) {
  return quick_pass() && (i + i / choices) % choices != k;
}

/* An oracle of a test, which is not what sanitizers are to look at, and takes ten times as long under them.
 */
#define ORACLE __attribute__((no_sanitize("address", "undefined")))

/* Rounds of a test that draws its cases. */
static inline int shorten(int rounds) { return quick_pass() ? rounds / 10 : rounds; }

#endif
