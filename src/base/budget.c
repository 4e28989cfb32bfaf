/* Reads a budget as text: bytes, a share, or a word. resolve_budget (session/choose.c) makes bytes of a share
 * or a word, once the step is known. */
#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/status.h"

/* In the locale `plain`: a program's own may have another decimal point and other letters. */
static neap_status parse(const char *text, locale_t plain, uint64_t *bytes, double *fraction) {
  static const struct {
    const char *name;
    double bytes;
  } units[] = {{"", 1},         {"B", 1},      {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
               {"TiB", 0x1p40}, {"K", 0x1p10}, {"M", 0x1p20},   {"G", 0x1p30},   {"T", 0x1p40},
               {"kB", 1e3},     {"MB", 1e6},   {"GB", 1e9},     {"TB", 1e12}};
  static const struct {
    const char *name;
    uint64_t bytes;
  } words[] = {{"max", NEAP_BUDGET_MAX}, {"min", NEAP_BUDGET_MIN}, {"available", NEAP_BUDGET_AVAILABLE}};
  static const char *const hint =
      "'%s': must be a size such as 96MiB, 0.5GB or 100663296, a share such as 80%%, min, max or "
      "available";
  RETURN_IF(text == NULL, NEAP_INVALID_ARGUMENT, hint, "");
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (strcasecmp_l(text, words[i].name, plain) != 0) continue;
    *bytes = words[i].bytes;
    *fraction = 0;
    return NEAP_OK;
  }
  char *end;
  const double number = isdigit((unsigned char)text[0]) || text[0] == '.' ? strtod_l(text, &end, plain) : NAN;
  RETURN_IF(!(number > 0) || !isfinite(number), NEAP_INVALID_ARGUMENT, hint, text);
  while (*end == ' ') end++;
  if (end[0] == '%' && end[1] == '\0') {
    *bytes = 0;
    *fraction = number / 100;
    return NEAP_OK;
  }
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    if (strcasecmp_l(end, units[i].name, plain) != 0) continue;
    const double size = number * units[i].bytes;
    RETURN_IF(size >= 0x1p63 || size < 1, NEAP_INVALID_ARGUMENT, "'%s': out of range", text);
    *bytes = strspn(text, "0123456789") == strlen(text) ? strtoull(text, NULL, 10) : (uint64_t)size;
    *fraction = 0;
    return NEAP_OK;
  }
  return neap_fail(NEAP_INVALID_ARGUMENT, hint, text);
}

neap_status neap_budget_parse(const char *text, uint64_t *bytes, double *fraction) {
  NEED(bytes);
  NEED(fraction);
  const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  RETURN_IF(plain == (locale_t)0, NEAP_OUT_OF_MEMORY, "out of memory");
  const neap_status status = parse(text, plain, bytes, fraction);
  freelocale(plain);
  return status;
}

uint64_t neap_budget_share(double fraction, uint64_t everything) {
  const double bytes = fraction * (double)everything;
  if (!(bytes >= 1)) return 1;                                   /* 0 is NEAP_BUDGET_MIN */
  return bytes < 0x1p63 ? (uint64_t)bytes : (uint64_t)INT64_MAX; /* as much as a step can have */
}
