/* The state of a run. */
#ifndef NEAP_TRAIN_TRAINING_STATE_H
#define NEAP_TRAIN_TRAINING_STATE_H

#include "base/available_memory.h"
#include "data/loader.h"
#include "session/session.h"
#include "train/base_weights.h"
#include "train/checkpoint.h"
#include "train/confusion.h"
#include "train/digests.h"
#include "train/event_file.h"
#include "train/folder.h"
#include "train/learning_rate.h"
#include "train/metrics.h"

enum {
  TIMED_STEPS = 4096, /* the median is over at most the last this many steps */
  UNTIMED_STEPS = 2   /* the first steps, which warm caches */
};

/* A replay: the digests that its own are compared with. */
struct replay {
  json_t *recorded; /* of the run, by step (train/digests.h) */
  int64_t to;       /* the last step to run */
  neap_replay_result *result;
};

struct training {
  const neap_model *model;           /* of the options, or: */
  neap_model *own_model;             /* opened here; NULL: the caller has it open */
  const neap_train_options *options; /* `own` */
  neap_train_options own;            /* the given options, with the chosen combination */
  struct memory_watch watch;         /* if the budget is what was available */
  struct loader data;
  neap_model_options shape;
  neap_graph *graph;
  bool old_decay; /* weight decay draws to 0, as in the run that is resumed: DECAY_BY_FILE */
  neap_session *session;
  struct learning_rate rate;
  struct json_lines metrics, digests;
  struct replay *replay; /* NULL: the run is none */
  struct event_file events;
  struct confusion confusion; /* of an evaluation by class */
  float *class_weights;       /* [shape.classes]; NULL: all classes weigh 1 */
  json_t *settings, *kernels; /* of its checkpoints */
  const char *other_kernels;  /* of neap_train_progress */
  const char *new_layers;     /* that the model's file does not have; NULL: none */
  neap_initialisation initialisation;
  struct region region;
  struct folder_lock lock;
  char combination[112]; /* the chosen techniques, by name, for people */
  char refused[48]; /* the combination with the least memory, if none of the allowed ones fits; else "" */
  struct base_weights base; /* the weights that its checkpoints leave out */
  struct checkpoint state;
  struct part_result *part_results; /* of a step's micro-batches (train/training_ranks.h) */
  bool saves;                       /* checkpoints are written, by the first process */
  int threads;
  int64_t batch, epoch_steps, steps;
  int64_t micro; /* records of a micro-batch, which is the batch of the graph */
  struct {
    int64_t records;
    int graph;
  } parts[2];         /* micro-batches of a short last step, which have graphs of their own; 0: none */
  int64_t saved_step; /* of the last checkpoint written; -1: none */
  double test_loss;   /* -1: not evaluated here */
  double test_mae, test_rmse, test_r2;          /* of values; mae -1: not evaluated, or there are classes */
  double *seconds;                              /* [TIMED_STEPS], a ring; NULL: no step has run */
  int64_t steps_here;                           /* by this process */
  double disk_bytes, disk_written, disk_waited; /* of its steps: bytes read and written, seconds */
  double started;
  neap_process process;
  uint64_t resident_before, overhead; /* of the process, before the session's memory was mapped; beyond it */
};

#endif
