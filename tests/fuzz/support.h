/* What the fuzz targets share: files of an input, what holds for every refusal, steps and plans. A target is
 * a file fuzz_NAME.c with LLVMFuzzerTestOneInput. It states a property of what the library reads: CHECK ends
 * the process where it does not hold. */
#ifndef NEAP_TESTS_FUZZ_SUPPORT_H
#define NEAP_TESTS_FUZZ_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "neap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whether the library took the input. Each target sets it; replay.c holds it against the names of the corpus.
 */
extern bool fuzz_taken;

#define CHECK(condition)                                                                                     \
  do {                                                                                                       \
    if (!(condition)) fuzz_fail(__FILE__, __LINE__, #condition);                                             \
  } while (0)
#define CHECK_OK(call) CHECK((call) == NEAP_OK)
_Noreturn void fuzz_fail(const char *file, int line, const char *what);

/* ---- Files ---- */

/* A file of bytes, or their text: `text[size]` is 0. */
struct fuzz_bytes {
  char *text;
  size_t size;
};

/* A path in the folder of this process, which ends with it. Valid for the next seven calls. */
const char *fuzz_path(const char *name);
/* The same, of an empty folder in it. What was there is removed. */
const char *fuzz_folder(const char *name);

void fuzz_write(const char *path, const void *data, size_t size);
bool fuzz_exists(const char *path);
/* Free the text. */
struct fuzz_bytes fuzz_read(const char *path);
bool fuzz_same(struct fuzz_bytes a, struct fuzz_bytes b);
bool fuzz_same_files(const char *a, const char *b);

/* An input may be several files: each begins with a line "=== NAME" and lasts up to the line end before the
 * next such line. Gives the part of that name, borrowed from the input; its text is NULL if none exists.
 */
struct fuzz_bytes fuzz_part(const uint8_t *data, size_t size, const char *name);
/* Writes the parts that are there into a folder. */
void fuzz_unpack(const uint8_t *data, size_t size, const char *folder, const char *const *names, int count);

/* ---- Properties ---- */

/* A refusal has a status that blames the input, and a message; the message has `named` in it (NULL:
 * anything). */
void fuzz_check_refused(neap_status status, const char *named);

/* A small session: parameters linear1.weight [2, 3] and linear1.bias [2] with a state each. There is one a
 * process. */
neap_session *fuzz_session(void);

/* A step that is written and read again is the same step. */
void fuzz_check_step(const neap_step *step);
/* Plans of the step are valid: the one that keeps everything, and one of little memory where the step is
 * small. */
void fuzz_check_planning(const neap_step *step);

/* A plan that is written and read again is the same plan. */
void fuzz_check_plan_file(const neap_plan *plan);
/* What the checker says of the plan agrees with itself. A valid plan also passes a plain comparison of all
 * pairs of its instances, and its profile is their sum. Gives whether it is valid. */
bool fuzz_check_plan(const neap_step *step, const neap_plan *plan);

#endif
