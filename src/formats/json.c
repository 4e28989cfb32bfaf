#include "formats/json.h"

#include <errno.h>
#include <string.h>

#include "base/file.h"

neap_status json_bad(const struct json_place *place, const char *message) {
  if (place->path[0] == '\0') return neap_fail(NEAP_BAD_FORMAT, "%s: %s", place->file, message);
  return neap_fail(NEAP_BAD_FORMAT, "%s: field '%s': %s", place->file, place->path, message);
}

neap_status json_bad_field(const struct json_place *place, const char *name, const char *message) {
  struct json_place field = {.file = place->file};
  const char *dot = place->path[0] != '\0' ? "." : "";
  snprintf(field.path, sizeof field.path, "%.60s%s%.60s", place->path, dot, name);
  return json_bad(&field, message);
}

neap_status json_need(const json_t *object, const char *name, const struct json_place *place, json_t **out) {
  *out = json_object_get(object, name);
  return *out != NULL ? NEAP_OK : json_bad_field(place, name, "is missing");
}

neap_status json_need_string(const json_t *object, const char *name, const struct json_place *place,
                             const char **out) {
  json_t *value;
  TRY(json_need(object, name, place, &value));
  if (!json_is_string(value)) return json_bad_field(place, name, "must be a string");
  *out = json_string_value(value);
  return NEAP_OK;
}

neap_status json_need_size(const json_t *object, const char *name, const struct json_place *place,
                           uint64_t *out) {
  json_t *value;
  TRY(json_need(object, name, place, &value));
  if (!json_is_integer(value) || json_integer_value(value) < 0)
    return json_bad_field(place, name, "must be an integer of 0 or more");
  *out = (uint64_t)json_integer_value(value);
  return NEAP_OK;
}

neap_status json_need_number(const json_t *object, const char *name, const struct json_place *place,
                             double *out) {
  json_t *value;
  TRY(json_need(object, name, place, &value));
  if (!json_is_number(value)) return json_bad_field(place, name, "must be a number");
  *out = json_number_value(value);
  return NEAP_OK;
}

neap_status json_need_array(const json_t *object, const char *name, const struct json_place *place,
                            json_t **out) {
  TRY(json_need(object, name, place, out));
  return json_is_array(*out) ? NEAP_OK : json_bad_field(place, name, "must be a list");
}

neap_status json_to_ids(const json_t *array, const char *name, const struct json_place *place, int32_t least,
                        int32_t *out) {
  size_t i;
  json_t *value;
  json_array_foreach(array, i, value) {
    const json_int_t id = json_is_integer(value) ? json_integer_value(value) : INT64_MAX;
    if (id < least || id > INT32_MAX) {
      char field[80];
      snprintf(field, sizeof field, "%.48s[%zu]", name, i);
      return json_bad_field(place, field, "must be an integer in range");
    }
    out[i] = (int32_t)id;
  }
  return NEAP_OK;
}

static neap_status check_header(const json_t *root, const char *format, int newest, int *read,
                                const struct json_place *place) {
  if (!json_is_object(root)) return json_bad(place, "must be a JSON object");
  const char *found;
  uint64_t version;
  TRY(json_need_string(root, "format", place, &found));
  RETURN_IF(strcmp(found, format) != 0, NEAP_BAD_FORMAT, "%s: field 'format': must be '%s', not '%.40s'",
            place->file, format, found);
  TRY(json_need_size(root, "version", place, &version));
  RETURN_IF(version < 1 || version > (uint64_t)newest, NEAP_BAD_FORMAT,
            "%s: field 'version': this program reads version %s%d, not %llu", place->file,
            newest > 1 ? "1 to " : "", newest, (unsigned long long)version);
  *read = (int)version;
  return NEAP_OK;
}

static neap_status load_stream(const char *path, FILE *file, size_t flags, json_t **out) {
  json_error_t error;
  errno = 0;
  json_t *root = json_loadf(file, flags, &error);
  const int failure = ferror(file) ? errno : 0;
  if (failure != 0) {
    json_decref(root);
    return neap_fail(NEAP_IO_FAILED, "%s: cannot be read: %s", path, strerror(failure));
  }
  if (root == NULL && json_error_code(&error) == json_error_out_of_memory)
    return neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", path);
  RETURN_IF(root == NULL, NEAP_BAD_FORMAT, "%s: line %d, column %d (byte %d): %s", path, error.line,
            error.column, error.position, error.text);
  *out = root;
  return NEAP_OK;
}

static neap_status load(const char *path, size_t flags, json_t **out) {
  FILE *file = file_open_stream(path);
  RETURN_IF(file == NULL, NEAP_IO_FAILED, "%s: cannot be read: %s", path, strerror(errno));
  const neap_status status = load_stream(path, file, flags, out);
  fclose(file);
  return status;
}

neap_status json_read_any(const char *path, json_t **out) { return load(path, 0, out); }

neap_status json_read_strict(const char *path, json_t **out) {
  return load(path, JSON_REJECT_DUPLICATES, out);
}

neap_status json_read_stream(const char *path, FILE *file, json_t **out) {
  return load_stream(path, file, JSON_REJECT_DUPLICATES, out);
}

neap_status json_read_as_reals(const char *path, json_t **out) {
  return load(path, JSON_DECODE_INT_AS_REAL, out);
}

neap_status json_read_version(const char *path, const char *format, int newest, int *version, json_t **out) {
  json_t *root;
  TRY(load(path, JSON_REJECT_DUPLICATES, &root));
  const struct json_place place = {.file = path};
  const neap_status status = check_header(root, format, newest, version, &place);
  if (status != NEAP_OK) {
    json_decref(root);
    return status;
  }
  *out = root;
  return NEAP_OK;
}

neap_status json_read(const char *path, const char *format, json_t **out) {
  int version;
  return json_read_version(path, format, 1, &version, out);
}

static bool dump(FILE *file, const void *context) {
  const bool good =
      json_dumpf(context, file, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) == 0 && fputc('\n', file) != EOF;
  if (!good && errno == 0) errno = ENOMEM; /* the system has not failed: jansson itself had no memory */
  return good;
}

neap_status json_write(const json_t *value, const char *path) { return file_write(path, dump, value); }

neap_status json_write_new(json_t *value, bool whole, const char *path) {
  const neap_status status =
      whole && value != NULL
          ? json_write(value, path)
          : neap_fail(NEAP_OUT_OF_MEMORY, "%s: cannot be written: out of memory, or a name is not UTF-8",
                      path);
  json_decref(value);
  return status;
}
