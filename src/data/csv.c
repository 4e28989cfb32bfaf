#include "data/csv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text/utf8.h"

enum { RECORD_BYTES = 64 << 20 };

static neap_status check_read(const struct csv *csv) {
  RETURN_IF(ferror(csv->file), NEAP_IO_FAILED, "%s: cannot be read: %s", csv->path, strerror(errno));
  return NEAP_OK;
}

neap_status csv_rewind(struct csv *csv) {
  RETURN_IF(fseeko(csv->file, 0, SEEK_SET) != 0, NEAP_IO_FAILED, "%s: cannot be read a second time: %s",
            csv->path, strerror(errno));
  csv->next_line = 1;
  static const unsigned char mark[] = {0xEF, 0xBB, 0xBF}; /* of UTF-8 */
  unsigned char bytes[sizeof mark];
  const bool marked =
      fread(bytes, 1, sizeof bytes, csv->file) == sizeof bytes && memcmp(bytes, mark, sizeof mark) == 0;
  TRY(check_read(csv)); /* rewind would forget it */
  if (!marked) rewind(csv->file);
  return NEAP_OK;
}

static const char choices[] = {',', ';', '\t'};

/* Counts the separators that there may be in the next line, outside of quotes. */
static void count_choices(const struct csv *csv, int64_t counts[sizeof choices]) {
  bool quoted = false;
  for (size_t i = 0; i < sizeof choices; i++) counts[i] = 0;
  for (int c; (c = getc(csv->file)) != EOF && (quoted || c != '\n');) {
    if (c == '"') quoted = !quoted;
    for (size_t i = 0; i < sizeof choices && !quoted; i++) counts[i] += c == choices[i];
  }
}

/* Finds the separator: comma, semicolon or tab, whichever is most frequent in the first line; of those that
 * are equally frequent there, one that the second line has as often. */
static neap_status find_separator(struct csv *csv) {
  int64_t first[sizeof choices], second[sizeof choices];
  size_t best = 0;
  TRY(csv_rewind(csv));
  count_choices(csv, first);
  count_choices(csv, second);
  TRY(check_read(csv));
  for (size_t i = 1; i < sizeof choices; i++)
    if (first[i] > first[best] ||
        (first[i] == first[best] && second[i] == first[i] && second[best] != first[best]))
      best = i;
  csv->separator = choices[best];
  csv->tied = first[0] > 0 && first[0] == first[1] && first[0] >= first[2] && second[0] == second[1];
  return csv_rewind(csv);
}

neap_status csv_settle(struct csv *csv, bool decimal_comma) {
  if (!csv->tied) return NEAP_OK;
  RETURN_IF(!decimal_comma, NEAP_BAD_FORMAT,
            "%s: line 1: ',' and ';' are equally frequent, so that either may separate columns; say "
            "decimal=comma if "
            "';' does, or put cells that have either into quotes",
            csv->path);
  csv->separator = ';';
  csv->tied = false;
  return NEAP_OK;
}

neap_status csv_open(const char *path, struct csv *csv) {
  *csv = (struct csv){.path = path, .file = fopen(path, "rbe")};
  RETURN_IF(csv->file == NULL, NEAP_IO_FAILED, "%s: cannot be opened: %s", path, strerror(errno));
  return find_separator(csv);
}

/* Returns the bytes of the blank with which a text begins. */
static size_t blank_at(const char *text) {
  if (*text == ' ' || *text == '\t') return 1;
  return strncmp(text, "\xC2\xA0", 2) == 0 ? 2 : 0; /* a no-break space */
}

char *csv_cut_blanks(char *text) {
  for (size_t blank; (blank = blank_at(text)) > 0;) text += blank;
  size_t length = strlen(text);
  for (size_t blank = 1; blank > 0; length -= blank) {
    blank = length > 0 ? blank_at(text + length - 1) : 0;
    if (blank == 0 && length > 1 && blank_at(text + length - 2) == 2) blank = 2;
  }
  text[length] = '\0';
  return text;
}

const char *csv_cell(const struct csv *csv, size_t i) {
  char *text = csv->text.data + csv->fields.data[i];
  return csv->exact ? text : csv_cut_blanks(text);
}

neap_status csv_check_fields(const struct csv *csv, size_t header) {
  const char *separator = csv->separator == '\t' ? "tab" : csv->separator == ';' ? "semicolon" : "comma";
  const size_t fields = csv->fields.count;
  if (fields == header) return NEAP_OK;
  return fields < header
             ? neap_fail(
                   NEAP_BAD_FORMAT,
                   "%s: line %lld: has %zu fields, but the header has %zu; add the missing ones (an empty "
                   "cell needs its %s, too), or remove the line",
                   csv->path, (long long)csv->line, fields, header, separator)
             : neap_fail(NEAP_BAD_FORMAT,
                         "%s: line %lld: has %zu fields, but the header has %zu; put cells with a %s into "
                         "quotes, or remove the line",
                         csv->path, (long long)csv->line, fields, header, separator);
}

static int compare_names(const void *a, const void *b) {
  return strcmp(((const struct csv_name *)a)->name, ((const struct csv_name *)b)->name);
}

neap_status csv_sort_names(const struct csv *csv, struct region *region, struct csv_name **names) {
  const size_t count = csv->fields.count;
  *names = region_alloc(region, count, sizeof **names);
  RETURN_IF_NULL(*names);
  for (size_t i = 0; i < count; i++) (*names)[i] = (struct csv_name){csv_cell(csv, i), i};
  if (count > 0) qsort(*names, count, sizeof **names, compare_names);
  for (size_t i = 1; i < count; i++)
    RETURN_IF(strcmp((*names)[i - 1].name, (*names)[i].name) == 0, NEAP_BAD_FORMAT,
              "%s: line %lld: two columns are named '%s'; rename one", csv->path, (long long)csv->line,
              (*names)[i].name);
  return NEAP_OK;
}

size_t csv_find_name(const struct csv_name *names, size_t count, const char *name) {
  const struct csv_name wanted = {.name = name};
  const struct csv_name *found =
      count > 0 ? bsearch(&wanted, names, count, sizeof *names, compare_names) : NULL;
  return found != NULL ? found->field : count;
}

void csv_close(struct csv *csv) {
  if (csv->file != NULL) fclose(csv->file);
  vector_free(&csv->text);
  vector_free(&csv->fields);
  csv->file = NULL;
}

static neap_status put(struct csv *csv, char c) {
  RETURN_IF(csv->text.count >= RECORD_BYTES, NEAP_TOO_LARGE,
            "%s: line %lld: its record has more than %d bytes; is a closing quote missing?", csv->path,
            (long long)csv->line, RECORD_BYTES);
  return vector_push(&csv->text, c);
}

/* Reads a quoted text; its first quote was read. */
static neap_status read_quoted(struct csv *csv) {
  for (;;) {
    const int c = getc(csv->file);
    TRY(check_read(csv));
    RETURN_IF(c == EOF, NEAP_BAD_FORMAT, "%s: line %lld: a closing quote is missing", csv->path,
              (long long)csv->line);
    if (c == '\n') csv->next_line++;
    if (c == '"') {
      const int after = getc(csv->file);
      if (after != '"') {
        if (after != EOF) ungetc(after, csv->file);
        return NEAP_OK;
      }
    }
    TRY(put(csv, (char)c));
  }
}

static bool is_blank(const struct csv *csv, int c) {
  return !csv->exact && (c == ' ' || c == '\t') && c != csv->separator;
}

/* Reads a field and the character that ends it: the separator, '\n' or EOF. */
static neap_status read_field(struct csv *csv, int *end) {
  const size_t first = csv->text.count;
  int c = getc(csv->file);
  TRY(vector_push(&csv->fields, first));
  for (; is_blank(csv, c); c = getc(csv->file)) TRY(put(csv, (char)c));
  const bool quoted = c == '"';
  if (quoted) {
    csv->text.count = first;
    TRY(read_quoted(csv));
    c = getc(csv->file);
  }
  for (; c != csv->separator && c != '\n' && c != EOF; c = getc(csv->file)) {
    if (quoted && is_blank(csv, c)) continue;
    if (quoted && c == '\r') continue;
    RETURN_IF(quoted, NEAP_BAD_FORMAT,
              "%s: line %lld: '%c' follows a closing quote; a quote inside a field must be doubled",
              csv->path, (long long)csv->next_line, c >= ' ' && c < 0x7F ? c : '?');
    TRY(put(csv, (char)c));
  }
  while (!quoted && c != csv->separator && csv->text.count > first &&
         csv->text.data[csv->text.count - 1] == '\r')
    csv->text.count--; /* of the end of the line */
  if (c == '\n') csv->next_line++;
  *end = c;
  return put(csv, '\0');
}

/* Fails if the record contains zeros, which would end a field early. */
static neap_status check_text(const struct csv *csv) {
  const size_t last = csv->fields.data[csv->fields.count - 1];
  size_t zeros = 0;
  for (size_t i = 0; i < csv->text.count; i++) zeros += csv->text.data[i] == '\0';
  RETURN_IF(zeros != csv->fields.count || last >= csv->text.count, NEAP_BAD_FORMAT,
            "%s: line %lld: contains a zero byte; is it a text file?", csv->path, (long long)csv->line);
  const struct text text = {
      .bytes = csv->text.data, .length = csv->text.count, .name = csv->path, .line = csv->line};
  return utf8_check(&text);
}

neap_status csv_next(struct csv *csv, bool *any) {
  for (;;) {
    int end;
    csv->line = csv->next_line;
    csv->text.count = csv->fields.count = 0;
    do TRY(read_field(csv, &end));
    while (end == csv->separator);
    TRY(check_read(csv));
    const bool blank = csv->fields.count == 1 && csv->text.count == 1;
    *any = !blank;
    if (blank && end == EOF) return NEAP_OK;
    if (!blank) return check_text(csv);
  }
}
