/* A text that a verb makes of the command itself. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "shared/failure.h"
#include "shared/format.h"
#include "shared/made_text.h"

int print_made(const struct verb *verb, void (*print)(void), FILE **out, bool json) {
  char *text = NULL;
  size_t length = 0;
  *out = open_memstream(&text, &length);
  if (*out == NULL) return report_failure(verb, no_memory());
  print();
  int result = fclose(*out) == 0 ? EXIT_DONE : report_failure(verb, no_memory());
  if (result == EXIT_DONE && json)
    result = print_json(json_pack("{s:s}", "text", text));
  else if (result == EXIT_DONE)
    fwrite(text, 1, length, stdout);
  free(text);
  return result;
}
