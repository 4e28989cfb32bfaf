/* Recognises a table's cell: a number, a gap, a date, a word. */
#ifndef NEAP_DATA_TABLE_CELL_H
#define NEAP_DATA_TABLE_CELL_H

#include <stdbool.h>
#include <stdint.h>

/* The form of a table's cells, by the words of its name. Zeros: numbers have a decimal point, and no gap is
 * taken. */
struct table_form {
  bool comma; /* numbers have a decimal comma */
  bool gaps;  /* empty cells and those of `missing` are gaps that are filled */
  int64_t missing_count;
  const char **missing; /* a number stands for all that are equal to it */
};

enum table_cell {
  CELL_NUMBER,  /* finite in f32 */
  CELL_GAP,     /* a gap of the form; or empty, or one of the names that pandas takes for nothing, or ? */
  CELL_COMMA,   /* a number if its decimal comma were a point, in a table with decimal points */
  CELL_POINT,   /* a number if its point were a decimal comma, in a table with decimal commas */
  CELL_RANGE,   /* a number that is not finite in f32 */
  CELL_DATE,    /* a date, a time, or both */
  CELL_BOOLEAN, /* true or false, in any case */
  CELL_WORD,
  CELL_KINDS
};

/* Returns the kind of a cell without blanks around it; *value: that of a number. */
enum table_cell table_cell(const struct table_form *form, const char *text, double *value);

/* Returns true for a gap that the form takes. */
bool table_is_gap(const struct table_form *form, const char *text);

#endif
