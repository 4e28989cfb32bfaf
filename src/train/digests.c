#include "train/digests.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "weights/variables.h"

neap_status digests_make(neap_session *session, int64_t step, json_t **line) {
  char digest[65];
  json_t *variables = json_object();
  RETURN_IF(variables == NULL, NEAP_OUT_OF_MEMORY, "out of memory for digests");
  const neap_status status = session_digests(session, digest, variables);
  if (status != NEAP_OK) {
    json_decref(variables);
    return status;
  }
  *line = json_pack("{s:I, s:s, s:o}", "step", (json_int_t)step, "weights_sha256", digest, "variables",
                    variables);
  RETURN_IF(*line == NULL, NEAP_OUT_OF_MEMORY, "out of memory for digests");
  return NEAP_OK;
}

static neap_status keep_line(void *context, int64_t step, json_t *line) {
  char key[24];
  snprintf(key, sizeof key, "%" PRId64, step);
  RETURN_IF(json_object_set(context, key, line) != 0, NEAP_OUT_OF_MEMORY, "out of memory for digests");
  return NEAP_OK;
}

neap_status digests_read(const char *folder, struct region *region, json_t **lines) {
  const char *path = region_format(region, "%s/" DIGESTS, folder);
  RETURN_IF_NULL(path);
  RETURN_IF(!file_exists(path), NEAP_INVALID_ARGUMENT,
            "%s: the run recorded no digests; only runs with portable bits and a folder of their own do",
            folder);
  json_t *made = json_object();
  RETURN_IF(made == NULL, NEAP_OUT_OF_MEMORY, "out of memory for digests");
  const neap_status status = json_lines_read(path, "digests", keep_line, made);
  if (status != NEAP_OK) {
    json_decref(made);
    return status;
  }
  *lines = made;
  return NEAP_OK;
}

/* Adds a name to a list, where it has room. */
static void add_name(const char *name, char *names, size_t size) {
  const size_t length = strlen(names);
  const int needed = snprintf(names + length, size - length, "%s%s", length > 0 ? ", " : "", name);
  if (needed < 0 || (size_t)needed >= size - length) names[length] = '\0';
}

int32_t digests_compare(const json_t *recorded, const json_t *made, char *names, size_t size) {
  json_t *theirs = json_object_get(recorded, "variables"), *ours = json_object_get(made, "variables"),
         *digest;
  const char *name;
  int32_t count = 0;
  names[0] = '\0';
  json_object_foreach(ours, name, digest) {
    if (json_equal(digest, json_object_get(theirs, name))) continue;
    add_name(name, names, size);
    count++;
  }
  json_object_foreach(theirs, name, digest) {
    if (json_object_get(ours, name) != NULL) continue;
    add_name(name, names, size);
    count++;
  }
  return count;
}
