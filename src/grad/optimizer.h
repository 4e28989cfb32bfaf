/* The table of update rules, and the numbers of the one that a training follows. */
#ifndef NEAP_GRAD_OPTIMIZER_H
#define NEAP_GRAD_OPTIMIZER_H

#include "op/matrix_shape.h"

struct optimizer {
  neap_optimizer kind;
  float momentum, weight_decay, beta1, beta2, epsilon;
  bool nesterov;
  int32_t projection_rank, projection_every;
  float projection_scale;
  bool states_8bit;                   /* of rules that change each element alone, but for */
  const char *states_f32;             /* parameters in this list; borrowed; NULL: none */
  float clip_value, clip_norm;        /* 0: none */
  const neap_parameter_group *groups; /* borrowed */
  int group_count;
  int32_t micro_batches; /* that a step has; 0: 1 */
  int32_t ranks;         /* processes that it is divided among, with their states; 0: one */
  bool scaled;           /* gradients are larger by a loss scale */
  bool tentative;        /* an update may be skipped, so before it only sums of gradients change */
  bool averages;         /* trained parameters have a state AVERAGE_SUFFIX, which no node changes */
  bool norm;             /* the squares of all gradients are added up: graph.norm */
  bool sparse;           /* some parameters are: a step is in three parts, whatever their number */
  bool perturbs; /* gradients are noise times a number of the run: micro-batches change nothing, the end
                    updates */
};

/* The shape of a state of a parameter, which is a matrix [rows, columns] or some of them. */
enum state_shape {
  STATE_ALIKE, /* that of the parameter, with its type unless the rule is one of matrices */
  STATE_NONE,
  STATE_ROWS,       /* a number a row; none for a vector */
  STATE_COLUMNS,    /* a number a column */
  STATE_BLOCKS,     /* a number a block (struct matrix_shape) */
  STATE_PROJECTED,  /* [longer side, rank] */
  STATE_PROJECTION, /* [rank, shorter side] */
  STATE_ONE
};

/* One row per update rule (op/update_list.h), in the order of neap_optimizer. */
struct optimizer_row {
  const char *name, *summary, *source;
  enum op op;
  const char *states[RULE_STATES]; /* names of a parameter's states */
  enum state_shape shapes[RULE_STATES];
  int32_t momentum_state;      /* the state that exists only with a momentum above 0; -1: none */
  float beta1, beta2, epsilon; /* used if an option is 0 */
  double rate;                 /* the usual learning rate */
  float decay, momentum;       /* the usual weight decay and momentum */
  int32_t projection_rank, projection_every; /* the usual ones */
  float projection_scale;
  bool matrix; /* works on whole matrices */
  bool hidden; /* those of hidden layers alone; other parameters follow the rule `rest` */
  neap_optimizer rest;
  bool states_8bit;      /* stored in blocks of 8 bits, whatever the options say */
  uint32_t without_sign; /* bit k: state k is never negative */
};
#define UPDATE(NAME, ...) OPTIMIZER_##NAME,
#define MATRIX_UPDATE     UPDATE
#define NAMED_UPDATE      UPDATE
enum optimizer_count {
#include "op/update_list.h"
  OPTIMIZERS
};
extern const struct optimizer_row optimizer_rows[OPTIMIZERS];

/* Returns true if the rule reads a number that a setting has the name of: "weight-decay". */
bool optimizer_takes(int32_t index, const char *number);

#endif
