#include "text/chat_jinja.h"

#include <ctype.h>
#include <string.h>

struct normaliser {
  VECTOR(char) out;
  char close; /* of the tag that is open: '}' or '%'; 0: none is */
};

static neap_status put(struct normaliser *n, const char *bytes, size_t count) {
  TRY(vector_reserve(&n->out, n->out.count + count));
  memcpy(n->out.data + n->out.count, bytes, count);
  n->out.count += count;
  return NEAP_OK;
}

static bool ends_with(const struct normaliser *n, const char *end) {
  const size_t length = strlen(end);
  return n->out.count >= length && memcmp(n->out.data + n->out.count - length, end, length) == 0;
}

/* Copies a literal from its opening quote on; `*at` moves past it. */
static neap_status put_literal(struct normaliser *n, const char **at) {
  const char quote = *(*at)++;
  if (ends_with(n, "'+"))
    n->out.count -= 2;
  else
    TRY(put(n, "'", 1));
  for (; **at != '\0' && **at != quote; (*at)++) {
    if (**at == '\\' && (*at)[1] != '\0') {
      (*at)++;
      TRY(**at == '"' ? put(n, "\"", 1) : put(n, *at - 1, 2));
    } else if (**at == '\n') {
      TRY(put(n, "\\n", 2));
    } else {
      TRY(**at == '\'' ? put(n, "\\'", 2) : put(n, *at, 1));
    }
  }
  if (**at != '\0') (*at)++;
  return put(n, "'", 1);
}

/* Writes "message.role" as "message['role']". */
static neap_status put_field(struct normaliser *n, const char **at, bool *done) {
  static const char *const fields[] = {"role", "content"};
  *done = false;
  for (size_t i = 0; i < 2 && **at == '.'; i++) {
    const size_t length = strlen(fields[i]);
    if (strncmp(*at + 1, fields[i], length) != 0 || isalnum((unsigned char)(*at)[length + 1]) ||
        (*at)[length + 1] == '_')
      continue;
    *at += length + 1;
    *done = true;
    TRY(put(n, "['", 2));
    TRY(put(n, fields[i], length));
    return put(n, "']", 2);
  }
  return NEAP_OK;
}

/* Copies one item at `*at` outside of literals. */
static neap_status put_one(struct normaliser *n, const char **at) {
  const char *p = *at;
  bool done;
  if (p[0] == '{' && p[1] == '#') {
    const char *end = strstr(p + 2, "#}");
    *at = end != NULL ? end + 2 : p + strlen(p);
    return NEAP_OK;
  }
  if (n->close == 0 && p[0] == '{' && (p[1] == '{' || p[1] == '%')) {
    n->close = p[1] == '{' ? '}' : '%';
    *at += p[2] == '-' || p[2] == '+' ? 3 : 2;
    return put(n, p, 2);
  }
  if (n->close != 0 && (p[0] == '-' || p[0] == '+') && p[1] == n->close && p[2] == '}') p = ++*at;
  if (n->close != 0 && p[0] == n->close && p[1] == '}') {
    n->close = 0;
    *at += 2;
    return put(n, p, 2);
  }
  if (n->close != 0 && (*p == '\'' || *p == '"')) return put_literal(n, at);
  TRY(put_field(n, at, &done));
  if (done) return NEAP_OK;
  (*at)++;
  return isspace((unsigned char)*p) ? NEAP_OK : put(n, p, 1);
}

neap_status chat_jinja_normalise(const char *jinja, char **out) {
  struct normaliser n = {0};
  neap_status status = NEAP_OK;
  while (*jinja != '\0' && status == NEAP_OK) status = put_one(&n, &jinja);
  if (status == NEAP_OK) status = put(&n, "", 1);
  if (status != NEAP_OK) vector_free(&n.out);
  *out = n.out.data;
  return status;
}

/* Returns the end of the literal whose inside begins at `at`, or `after` if that comes first; NULL: it ends
 * before `after`. */
static const char *literal_end(const char *at, const char *after) {
  const size_t length = strlen(after);
  for (; *at != '\0'; at++) {
    if (strncmp(at, after, length) == 0) return at;
    if (*at == '\'') return NULL;
    if (*at == '\\' && at[1] != '\0') at++;
  }
  return NULL;
}

static char unescape(char escaped) { return escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped; }

neap_status chat_jinja_literal(const char *normalised, const char *before, const char *after, char **out) {
  *out = NULL;
  for (const char *at = strstr(normalised, before); at != NULL; at = strstr(at, before)) {
    at += strlen(before);
    const char *end = literal_end(at, after);
    if (end == NULL || end == at) continue;
    char *text = *out = malloc((size_t)(end - at) + 1);
    RETURN_IF_NULL(text);
    for (; at < end; at++) *text++ = *at == '\\' ? unescape(*++at) : *at;
    *text = '\0';
    return NEAP_OK;
  }
  return NEAP_OK;
}
