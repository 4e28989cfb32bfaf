/* Einsum of one or two operands: a transposition, sums, and a product of matrices in batches. */
#include <ctype.h>
#include <string.h>

#include "onnx/onnx_operators.h"

enum { OPERANDS = 2, LETTERS = 52, LABELS = LETTERS + NEAP_MAX_RANK };

/* Axes by their labels: letters, then those of an ellipsis, which are counted from its last one. */
struct labels {
  int32_t rank;
  int32_t axis[NEAP_MAX_RANK]; /* the label of each axis */
};

struct einsum {
  struct labels in[OPERANDS], out;
  int32_t operands, ellipsis; /* the most axes that an ellipsis stands for */
  int64_t size[LABELS];       /* 0: no operand has it */
};

static int32_t letter_of(char c) { return c >= 'a' ? c - 'a' : c - 'A' + LETTERS / 2; }

static bool has_label(const struct labels *l, int32_t label) {
  for (int32_t d = 0; d < l->rank; d++)
    if (l->axis[d] == label) return true;
  return false;
}

/* Reads the labels of one term up to its end. `rank`: of the operand, -1 of the result, whose ellipsis has
 * `ellipsis` axes. */
static neap_status read_term(struct import *m, const char *text, const char *end, int32_t rank,
                             int32_t ellipsis, struct labels *l) {
  int32_t letters = 0;
  for (const char *c = text; c < end; c++) letters += isalpha((unsigned char)*c) != 0;
  const int32_t open = rank >= 0 ? rank - letters : ellipsis;
  bool seen = false;
  *l = (struct labels){0};
  for (const char *c = text; c < end; c++) {
    if (*c == ' ') continue;
    const bool dots = end - c >= 3 && strncmp(c, "...", 3) == 0;
    if (dots ? seen || open < 0 : !isalpha((unsigned char)*c))
      return refuse(m, "its equation is invalid at '%.20s'", c);
    for (int32_t i = 0; dots && i < open; i++) {
      if (l->rank == NEAP_MAX_RANK)
        return refuse(m, "a term of its equation has more than %d axes", NEAP_MAX_RANK);
      l->axis[l->rank++] = LETTERS + open - 1 - i;
    }
    if (dots) {
      seen = true;
      c += 2;
      continue;
    }
    if (l->rank == NEAP_MAX_RANK)
      return refuse(m, "a term of its equation has more than %d axes", NEAP_MAX_RANK);
    if (has_label(l, letter_of(*c)))
      return refuse(m, "'%c' is twice in one term: diagonals are not supported", *c);
    l->axis[l->rank++] = letter_of(*c);
  }
  if (rank >= 0 && l->rank != rank)
    return refuse(m, "its equation has %d axes where an input has %d", l->rank, rank);
  return NEAP_OK;
}

/* Takes the sizes of labels from an operand; 1 is as long as the other operand's. */
static neap_status take_sizes(struct import *m, struct einsum *e, int32_t i, const int64_t *dims) {
  for (int32_t d = 0; d < e->in[i].rank; d++) {
    int64_t *size = &e->size[e->in[i].axis[d]];
    if (*size > 1 && dims[d] > 1 && *size != dims[d])
      return refuse(m, "an axis of its equation has %lld and %lld elements", (long long)*size,
                    (long long)dims[d]);
    if (dims[d] > *size) *size = dims[d];
  }
  return NEAP_OK;
}

/* Makes the result's labels where the equation has none: the ellipsis, then letters that occur once, in
 * alphabetical order, capitals first. */
static void usual_result(struct einsum *e) {
  e->out.rank = 0;
  for (int32_t i = e->ellipsis - 1; i >= 0 && e->out.rank < NEAP_MAX_RANK; i--)
    e->out.axis[e->out.rank++] = LETTERS + i;
  for (int32_t k = 0; k < LETTERS; k++) {
    const int32_t label = (k + LETTERS / 2) % LETTERS;
    int32_t terms = 0;
    for (int32_t i = 0; i < e->operands; i++) terms += has_label(&e->in[i], label);
    if (terms == 1 && e->out.rank < NEAP_MAX_RANK) e->out.axis[e->out.rank++] = label;
  }
}

static neap_status read_equation(struct import *m, const struct onnx_node *n, struct einsum *e) {
  const char *text = node_text(n, "equation", ""), *arrow = strstr(text, "->"),
             *end = arrow != NULL ? arrow : text + strlen(text);
  if (n->input_count > OPERANDS)
    return refuse(m, "an equation of %d operands is not supported; write it as several of two",
                  n->input_count);
  e->operands = n->input_count;
  for (int32_t i = 0; i < e->operands; i++) {
    const struct value *v = input_of(m, n, i);
    const char *comma = memchr(text, ',', (size_t)(end - text)), *stop = comma != NULL ? comma : end;
    if ((comma != NULL) != (i + 1 < e->operands))
      return refuse(m, "its equation does not have a term for each input");
    TRY(read_term(m, text, stop, v->rank, 0, &e->in[i]));
    TRY(take_sizes(m, e, i, v->dims));
    for (int32_t d = 0; d < e->in[i].rank; d++)
      if (e->in[i].axis[d] - LETTERS >= e->ellipsis) e->ellipsis = e->in[i].axis[d] - LETTERS + 1;
    text = stop + 1;
  }
  if (arrow == NULL)
    usual_result(e);
  else
    TRY(read_term(m, arrow + 2, arrow + strlen(arrow), -1, e->ellipsis, &e->out));
  for (int32_t d = 0; d < e->out.rank; d++)
    if (e->size[e->out.axis[d]] == 0) return refuse(m, "its result has an axis that no input has");
  return NEAP_OK;
}

/* Sums over the axes that only this operand has, and which the result does not have. */
static neap_tensor sum_own(struct import *m, struct einsum *e, int32_t i, neap_tensor x) {
  int axes[NEAP_MAX_RANK], count = 0;
  struct labels *l = &e->in[i], kept = {0};
  for (int32_t d = 0; d < l->rank; d++) {
    const bool own = e->operands == 1 || !has_label(&e->in[1 - i], l->axis[d]);
    if (own && !has_label(&e->out, l->axis[d]))
      axes[count++] = d;
    else
      kept.axis[kept.rank++] = l->axis[d];
  }
  if (count == 0) return x;
  *l = kept;
  x = neap_sum(m->builder, x, axes, count, false);
  return x;
}

enum group { BATCH, OWN, SUMMED, GROUPS }; /* what becomes of an axis in the product */

static enum group group_of(const struct einsum *e, int32_t label) {
  if (!has_label(&e->in[0], label) || !has_label(&e->in[1], label)) return OWN;
  return has_label(&e->out, label) ? BATCH : SUMMED;
}

/* Makes an operand a batch of matrices [batch, own, summed]. Axes have the result's order within each group,
 * summed ones that of the labels. */
static neap_tensor as_matrices(struct import *m, const struct einsum *e, int32_t i, neap_tensor x,
                               int64_t dims[GROUPS]) {
  const struct labels *l = &e->in[i];
  int order[NEAP_MAX_RANK], count = 0;
  int64_t own[NEAP_MAX_RANK], wide[NEAP_MAX_RANK];
  bool longer = false;
  for (int g = 0; g < GROUPS; g++) {
    dims[g] = 1;
    for (int32_t k = 0; k < (g == SUMMED ? LABELS : e->out.rank); k++) {
      const int32_t label = g == SUMMED ? k : e->out.axis[k];
      if (group_of(e, label) != (enum group)g) continue;
      for (int32_t d = 0; d < l->rank; d++)
        if (l->axis[d] == label) order[count++] = d, dims[g] *= e->size[label];
    }
  }
  if (l->rank == 0) return neap_reshape(m->builder, x, 3, (int64_t[]){1, 1, 1});
  neap_shape(m->builder, x, own);
  for (int32_t d = 0; d < l->rank; d++) {
    wide[d] = e->size[l->axis[d]];
    longer = longer || wide[d] != own[d];
  }
  if (longer) x = neap_expand(m->builder, x, l->rank, wide);
  return neap_reshape(m->builder, neap_transpose(m->builder, x, order), GROUPS, dims);
}

/* Puts the axes of y, which have these labels, in the order of the result. */
static neap_status set_result(struct import *m, const struct onnx_node *n, const struct einsum *e,
                              neap_tensor y, const struct labels *l) {
  int order[NEAP_MAX_RANK];
  bool same = true;
  for (int32_t d = 0; d < e->out.rank; d++)
    for (int32_t k = 0; k < l->rank; k++)
      if (l->axis[k] == e->out.axis[d]) order[d] = k, same = same && k == d;
  if (!same) y = neap_transpose(m->builder, y, order);
  return set_output_rank(m, n, 0, y, e->out.rank);
}

neap_status import_einsum(struct import *m, const struct onnx_node *n) {
  struct einsum e = {0};
  neap_tensor x[OPERANDS];
  TRY(need_inputs(m, n, n->input_count > 0 ? n->input_count : 1));
  TRY(read_equation(m, n, &e));
  for (int32_t i = 0; i < e.operands; i++) {
    TRY(tensor_of(m, n, i, &x[i]));
    x[i] = sum_own(m, &e, i, x[i]);
  }
  if (e.operands == 1) return set_result(m, n, &e, x[0], &e.in[0]);
  int64_t a[GROUPS], b[GROUPS], dims[NEAP_MAX_RANK] = {1};
  x[0] = as_matrices(m, &e, 0, x[0], a);
  x[1] = as_matrices(m, &e, 1, x[1], b);
  neap_tensor y = neap_matmul(m->builder, x[0], x[1], false, true); /* [batch, own of 0, own of 1] */
  struct labels made = {0};
  for (int k = 0; k < 1 + OPERANDS; k++)
    for (int32_t d = 0; d < e.out.rank; d++) {
      const int32_t label = e.out.axis[d];
      const enum group g = group_of(&e, label);
      if (k == 0 ? g != BATCH : g != OWN || !has_label(&e.in[k - 1], label)) continue;
      dims[made.rank] = e.size[label];
      made.axis[made.rank++] = label;
    }
  y = neap_reshape(m->builder, y, made.rank > 0 ? made.rank : 1, dims);
  return set_result(m, n, &e, y, &made);
}
