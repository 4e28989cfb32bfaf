/* Files of settings: YAML, read by libyaml. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/region.h"
#include "settings/settings.h"

enum { FILE_LIMIT = 1 << 20, ENTRY_LIMIT = 256 }; /* bytes; settings */

struct reader {
  const char *path;
  yaml_parser_t parser;
  struct region region; /* of the names */
  struct {
    const char *name;
    int64_t line;
  } seen[ENTRY_LIMIT];
  int count;
};

static int64_t line_of(const yaml_event_t *event) { return (int64_t)event->start_mark.line + 1; }

/* ---- Events ---- */

static neap_status next_event(struct reader *r, yaml_event_t *event) {
  if (yaml_parser_parse(&r->parser, event)) return NEAP_OK;
  const yaml_parser_t *p = &r->parser;
  if (p->error == YAML_MEMORY_ERROR) return neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", r->path);
  const bool placed = p->error != YAML_READER_ERROR;
  if (!placed)
    return neap_fail(NEAP_BAD_FORMAT, "%s: is not YAML: %s at byte %llu", r->path, p->problem,
                     (unsigned long long)p->problem_offset);
  return neap_fail(NEAP_BAD_FORMAT, "%s:%llu: is not YAML: %s%s%s", r->path,
                   (unsigned long long)p->problem_mark.line + 1, p->problem != NULL ? p->problem : "",
                   p->context != NULL ? " " : "", p->context != NULL ? p->context : "");
}

static neap_status skip_event(struct reader *r, yaml_event_type_t *type, int64_t *line) {
  yaml_event_t event;
  TRY(next_event(r, &event));
  *type = event.type;
  *line = line_of(&event);
  yaml_event_delete(&event);
  return NEAP_OK;
}

/* ---- Names and values ---- */

/* Describes an event that is not a single value; NULL: it is one. */
static const char *describe(const yaml_event_t *event) {
  switch (event->type) {
  case YAML_MAPPING_START_EVENT:
    return "a mapping";
  case YAML_SEQUENCE_START_EVENT:
    return "a list";
  case YAML_ALIAS_EVENT:
    return "an alias";
  case YAML_SCALAR_EVENT:
    if (event->data.scalar.anchor != NULL) return "an anchor";
    if (event->data.scalar.tag != NULL) return "a tag";
    return strlen((const char *)event->data.scalar.value) == event->data.scalar.length ? NULL : "a byte 0";
  default:
    return "nothing";
  }
}

static bool is_null(const yaml_event_t *event) {
  const char *text = (const char *)event->data.scalar.value;
  return event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
         (text[0] == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0);
}

static neap_status take_name(struct reader *r, const yaml_event_t *event, const char **name) {
  const char *fault = describe(event);
  const int64_t line = line_of(event);
  RETURN_IF(fault != NULL, NEAP_BAD_FORMAT, "%s:%lld: the name of a setting is needed (got %s)", r->path,
            (long long)line, fault);
  const char *text = (const char *)event->data.scalar.value;
  RETURN_IF(text[0] == '\0', NEAP_BAD_FORMAT, "%s:%lld: the name of a setting is needed (got nothing)",
            r->path, (long long)line);
  for (int i = 0; i < r->count; i++)
    RETURN_IF(strcmp(r->seen[i].name, text) == 0, NEAP_BAD_FORMAT,
              "%s:%lld: %.100s: is given twice, first in line %lld", r->path, (long long)line, text,
              (long long)r->seen[i].line);
  RETURN_IF(r->count == ENTRY_LIMIT, NEAP_BAD_FORMAT, "%s:%lld: has more than %d settings", r->path,
            (long long)line, ENTRY_LIMIT);
  *name = region_string(&r->region, text);
  RETURN_IF_NULL(*name);
  r->seen[r->count].name = *name;
  r->seen[r->count++].line = line;
  return NEAP_OK;
}

static neap_status take_value(const struct reader *r, const char *name, const yaml_event_t *event,
                              neap_setting_entry_function *take, void *context) {
  const char *fault = describe(event);
  const int64_t line = line_of(event);
  RETURN_IF(fault != NULL, NEAP_BAD_FORMAT, "%s:%lld: %.100s: a single value is needed (got %s)", r->path,
            (long long)line, name, fault);
  RETURN_IF(is_null(event), NEAP_BAD_FORMAT, "%s:%lld: %.100s: has no value", r->path, (long long)line, name);
  return take(context, &(neap_setting_entry){.file = r->path,
                                             .line = line,
                                             .name = name,
                                             .text = (const char *)event->data.scalar.value,
                                             .quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE});
}

/* Reads one entry, or the end of the mapping. */
static neap_status read_entry(struct reader *r, neap_setting_entry_function *take, void *context,
                              bool *ended) {
  yaml_event_t event;
  const char *name = NULL;
  TRY(next_event(r, &event));
  *ended = event.type == YAML_MAPPING_END_EVENT;
  neap_status status = *ended ? NEAP_OK : take_name(r, &event, &name);
  yaml_event_delete(&event);
  if (*ended || status != NEAP_OK) return status;
  TRY(next_event(r, &event));
  status = take_value(r, name, &event, take, context);
  yaml_event_delete(&event);
  return status;
}

/* Reads the root of the document, up to its end. An empty file has none. */
static neap_status read_root(struct reader *r, neap_setting_entry_function *take, void *context) {
  yaml_event_t event;
  bool ended = false;
  TRY(next_event(r, &event));
  const bool empty = event.type == YAML_SCALAR_EVENT && describe(&event) == NULL && is_null(&event);
  const bool mapping = event.type == YAML_MAPPING_START_EVENT && event.data.mapping_start.anchor == NULL &&
                       event.data.mapping_start.tag == NULL;
  const int64_t line = line_of(&event);
  yaml_event_delete(&event);
  RETURN_IF(!empty && !mapping, NEAP_BAD_FORMAT, "%s:%lld: lines of `name: value` are needed", r->path,
            (long long)line);
  while (mapping && !ended) TRY(read_entry(r, take, context, &ended));
  return NEAP_OK;
}

static neap_status read_stream(struct reader *r, neap_setting_entry_function *take, void *context) {
  yaml_event_type_t type;
  int64_t line;
  TRY(skip_event(r, &type, &line)); /* the stream begins */
  TRY(skip_event(r, &type, &line));
  if (type == YAML_STREAM_END_EVENT) return NEAP_OK;
  TRY(read_root(r, take, context));
  TRY(skip_event(r, &type, &line)); /* the document ends */
  TRY(skip_event(r, &type, &line));
  RETURN_IF(type != YAML_STREAM_END_EVENT, NEAP_BAD_FORMAT, "%s:%lld: has a second document; one is needed",
            r->path, (long long)line);
  return NEAP_OK;
}

/* ---- The file ---- */

/* Reads a file; the caller frees the bytes. */
static neap_status read_bytes(const char *path, unsigned char **bytes, size_t *count) {
  FILE *file = fopen(path, "rbe");
  RETURN_IF(file == NULL, NEAP_IO_FAILED, "%s: cannot be read: %m", path);
  unsigned char *data = malloc(FILE_LIMIT + 1);
  *count = data != NULL ? fread(data, 1, FILE_LIMIT + 1, file) : 0;
  const bool failed = ferror(file) != 0;
  const neap_status status = data == NULL ? neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", path)
                             : failed     ? neap_fail(NEAP_IO_FAILED, "%s: cannot be read: %m", path)
                             : *count > FILE_LIMIT
                                 ? neap_fail(NEAP_BAD_FORMAT, "%s: has more than %d bytes", path, FILE_LIMIT)
                                 : NEAP_OK;
  fclose(file);
  if (status != NEAP_OK)
    free(data);
  else
    *bytes = data;
  return status;
}

neap_status neap_settings_read_file(const char *path, neap_setting_entry_function *take, void *context) {
  RETURN_IF(path == NULL || take == NULL, NEAP_INVALID_ARGUMENT,
            "neap_settings_read_file: path or function is NULL");
  struct reader reader = {.path = path};
  unsigned char *bytes;
  size_t count;
  TRY(read_bytes(path, &bytes, &count));
  neap_status status;
  if (yaml_parser_initialize(&reader.parser)) {
    yaml_parser_set_input_string(&reader.parser, bytes, count); /* which skips a byte-order mark */
    status = read_stream(&reader, take, context);
    yaml_parser_delete(&reader.parser);
  } else {
    status = neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", path);
  }
  region_free(&reader.region);
  free(bytes);
  return status;
}
