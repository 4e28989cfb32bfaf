/* An input that is a list of numbers in text, for functions that take arrays. What stands before a colon is
 * for people.
 */
#ifndef NEAP_TESTS_FUZZ_NUMBERS_H
#define NEAP_TESTS_FUZZ_NUMBERS_H

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

struct numbers {
  char *text; /* to be freed */
  const char *at;
};

static inline struct numbers numbers_begin(const uint8_t *data, size_t size) {
  char *text = calloc(size + 1, 1);
  CHECK(text != NULL);
  if (size > 0) memcpy(text, data, size);
  return (struct numbers){text, text};
}

/* Goes to the next number; false at the end. */
static inline bool numbers_more(struct numbers *numbers) {
  while (*numbers->at != '\0' && !isdigit((unsigned char)*numbers->at) && *numbers->at != '-') numbers->at++;
  return *numbers->at != '\0';
}

/* The next number, as what it is read as; 0 if none exists. A number above or below all of its type is
 * the largest or the least of it. */
static inline int64_t next_integer(struct numbers *numbers) {
  if (!numbers_more(numbers)) return 0;
  char *end;
  const long long number = strtoll(numbers->at, &end, 10);
  numbers->at = end > numbers->at ? end : numbers->at + 1;
  return number;
}

static inline uint64_t next_size(struct numbers *numbers) {
  if (!numbers_more(numbers)) return 0;
  char *end;
  const unsigned long long number = strtoull(numbers->at, &end, 10); /* -1 is the largest */
  numbers->at = end > numbers->at ? end : numbers->at + 1;
  return number;
}

static inline double next_real(struct numbers *numbers) {
  if (!numbers_more(numbers)) return 0;
  char *end;
  const double number = strtod(numbers->at, &end);
  numbers->at = end > numbers->at ? end : numbers->at + 1;
  return number;
}

/* Of an id: what does not fit is INT32_MIN or INT32_MAX. */
static inline int32_t next_id(struct numbers *numbers) {
  const int64_t number = next_integer(numbers);
  return number < INT32_MIN ? INT32_MIN : number > INT32_MAX ? INT32_MAX : (int32_t)number;
}

#endif
