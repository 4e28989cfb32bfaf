/* Rows of sequences that a backward pass reads alone (rewrite/keep_rows.c). */
#ifndef NEAP_OP_KEPT_ROWS_H
#define NEAP_OP_KEPT_ROWS_H

#include "op/op.h"

/* Slots of OP_GATHER_ROWS and OP_SCATTER_ROWS. */
enum { ROWS_X, ROWS_LIST, ROWS_ADDEND, ROWS_INPUTS };

/* Returns the number of rows that are kept of a sequence. */
int64_t kept_row_count(const struct kept_rows_attributes *a);

/* Writes the rows that are kept, ascending: the first `first` ones, and of the grid of places behind them
 * those on diagonals, one in a stride or all but one (Fang et al. 2022). A place has the phase share (row +
 * column) + start / 2^32, modulo 1. Those with the least phases are kept; of equal phases the first ones from
 * place `start`, modulo the number of places, on and around. */
void kept_rows_find(const struct kept_rows_attributes *a, uint32_t start, int32_t *rows);

#endif
