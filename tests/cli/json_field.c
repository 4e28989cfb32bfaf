/* json_field NAME: reads one JSON object from standard input and prints a field of it: a string without its
 * quotes, anything else as JSON. "a.0.b" goes down. Fails where the input is not exactly one object or has no
 * such field. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const json_t *go_down(const json_t *at, char *path) {
  for (char *name = strtok(path, "."); at != NULL && name != NULL; name = strtok(NULL, "."))
    at = json_is_array(at) ? json_array_get(at, (size_t)atol(name)) : json_object_get(at, name);
  return at;
}

int main(int count, char **arguments) {
  if (count != 2) return 2;
  json_error_t error;
  json_t *root = json_loadf(stdin, 0, &error);
  const json_t *field = json_is_object(root) ? go_down(root, arguments[1]) : NULL;
  if (json_is_string(field))
    puts(json_string_value(field));
  else if (field == NULL || json_dumpf(field, stdout, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17)) != 0)
    fprintf(stderr, "json_field: no field '%s' (%s)\n", arguments[1],
            root == NULL ? error.text : "one JSON object");
  else
    putchar('\n');
  const int status = field == NULL;
  json_decref(root);
  return status;
}
