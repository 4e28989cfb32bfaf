/* Python's functions of strings, for programs in Jinja. Parts of a string keep their marks. Places and counts
 * that a program sees are code points; others are bytes. */
#ifndef NEAP_TEMPLATE_JINJA_TEXT_H
#define NEAP_TEMPLATE_JINJA_TEXT_H

#include "template/jinja_value.h"

/* Return the bytes of white space, as str.isspace has it, at the beginning or the end. */
size_t jinja_space_at_begin(const char *bytes, size_t length);
size_t jinja_space_at_end(const char *bytes, size_t length);

enum { JINJA_LEFT = 1, JINJA_RIGHT = 2, JINJA_BOTH = 3 };

/* Strips white space, or the characters of `set`, from the sides. */
neap_status jinja_strip(struct jinja_run *run, const struct jinja_string *s, const struct jinja_string *set,
                        int sides, struct jinja_value *out);

/* Splits at white space, or at a separator, at most `most` times from the left or from the right; below 0:
 * without a limit. */
neap_status jinja_split(struct jinja_run *run, const struct jinja_string *s, const struct jinja_string *at,
                        int64_t most, int side, struct jinja_value *out);
neap_status jinja_split_lines(struct jinja_run *run, const struct jinja_string *s, struct jinja_value *out);

/* Replaces the first `most` occurrences; below 0: all. */
neap_status jinja_replace(struct jinja_run *run, const struct jinja_string *s, const struct jinja_string *old,
                          const struct jinja_string *new, int64_t most, struct jinja_value *out);

/* Joins str() of the items. */
neap_status jinja_join(struct jinja_run *run, const struct jinja_string *between,
                       const struct jinja_list *list, struct jinja_value *out);
neap_status jinja_repeat(struct jinja_run *run, const struct jinja_string *s, int64_t times,
                         struct jinja_value *out);

/* Indents lines as Jinja's filter does. */
neap_status jinja_indent(struct jinja_run *run, const struct jinja_string *s, const struct jinja_string *by,
                         bool first, bool blank, struct jinja_value *out);

enum jinja_case { JINJA_UPPER, JINJA_LOWER, JINJA_TITLE, JINJA_CAPITALIZE };

/* Changes the case. NEAP_UNSUPPORTED: of a letter whose other case is not known here. `filter`: words begin
 * where Jinja's filter has it. */
neap_status jinja_change_case(struct jinja_run *run, const struct jinja_string *s, enum jinja_case to,
                              bool filter, struct jinja_value *out);

/* Returns the place of a part, from the left or the right, or SIZE_MAX. */
size_t jinja_find(const struct jinja_string *s, const struct jinja_string *part, int side);
int64_t jinja_occurrences(const struct jinja_string *s, const struct jinja_string *part);

int64_t jinja_length(const struct jinja_string *s);
/* Returns the byte of a code point, `index` from 0 to jinja_length. */
size_t jinja_offset(const struct jinja_string *s, int64_t index);
/* Gives every code point as a string. */
neap_status jinja_characters(struct jinja_run *run, const struct jinja_string *s, struct jinja_value *out);

/* Gives the bytes from `begin` to before `end` as a string. */
neap_status jinja_part(struct jinja_run *run, const struct jinja_string *s, size_t begin, size_t end,
                       struct jinja_value *out);

#endif
