/* Reading JSON with errors that name the file and the field. On jansson. */
#ifndef NEAP_FORMATS_JSON_H
#define NEAP_FORMATS_JSON_H

#include <jansson.h>

#include "base/status.h"

/* A value's place in a file, for messages: "file: field 'nodes[3].cost'". */
struct json_place {
  const char *file;
  char path[128];
};

/* Reads a file whose top is an object with "format": `format` and "version": 1 (lower than 1 or higher:
 * refused). The caller frees it with json_decref. */
neap_status json_read(const char *path, const char *format, json_t **out);

/* The same of a file whose version may be 1 to `newest`; `*version` is its own. */
neap_status json_read_version(const char *path, const char *format, int newest, int *version, json_t **out);

/* Reads a file of any JSON, of which an object is what others write: of a name that it has twice the last
 * counts.
 */
neap_status json_read_any(const char *path, json_t **out);

/* The same, of which an object has no name twice. */
neap_status json_read_strict(const char *path, json_t **out);

/* The same from an open file of this path. */
neap_status json_read_stream(const char *path, FILE *file, json_t **out);

/* As json_read_any, but all numbers are reals: whole ones that 64 bits do not hold are read, too. Settings of
 * a tokenizer have such a one, 10^30 for "no limit". */
neap_status json_read_as_reals(const char *path, json_t **out);

/* Fails with "FILE: field 'PATH': " and the message. */
neap_status json_bad(const struct json_place *place, const char *message);

/* The same of a field of an object; `name` is appended to the place's path. */
neap_status json_bad_field(const struct json_place *place, const char *name, const char *message);

/* Fields of an object. `name` is appended to the place's path in messages. Integers are 0 to 2^53 and more,
 * up to INT64_MAX. */
neap_status json_need(const json_t *object, const char *name, const struct json_place *place, json_t **out);
neap_status json_need_string(const json_t *object, const char *name, const struct json_place *place,
                             const char **out);
neap_status json_need_size(const json_t *object, const char *name, const struct json_place *place,
                           uint64_t *out);
neap_status json_need_number(const json_t *object, const char *name, const struct json_place *place,
                             double *out);
neap_status json_need_array(const json_t *object, const char *name, const struct json_place *place,
                            json_t **out);

/* Elements of an array of integers in [least, INT32_MAX], into `out`, which has room for all. */
neap_status json_to_ids(const json_t *array, const char *name, const struct json_place *place, int32_t least,
                        int32_t *out);

/* Writes a value as a file, whole or not at all. */
neap_status json_write(const json_t *value, const char *path);

/* The same for a value that was just made, which is given up, whatever the status. NEAP_OUT_OF_MEMORY: it is
 * NULL, or some of it was not made: it is not `whole`. */
neap_status json_write_new(json_t *value, bool whole, const char *path);

#endif
