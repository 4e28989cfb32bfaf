/* The functions of a kind of model: ready-made, ONNX file, language model of others. */
#ifndef NEAP_MODEL_MODEL_OPS_H
#define NEAP_MODEL_MODEL_OPS_H

#include "task/task.h"
#include "template/chat_template.h"
#include "text/tokenizer.h"

struct understood;

/* Functions on a model that `open` has given; no other one looks for its file again. The model is not changed
 * by them, so several threads may ask. NULL: such models have none. */
struct model_ops {
  /* Opens a ready-made name, or the path of a file. `masked`: a model of tokens learns masked tokens. */
  neap_status (*open)(const char *name, bool masked, void **model);
  void (*close)(void *model);
  neap_status (*describe)(const void *model, neap_model_description *about);
  neap_status (*build)(const void *model, const neap_model_options *options, neap_graph **graph);
  neap_status (*build_decoder)(const void *model, const neap_model_options *options, int64_t beams,
                               neap_graph **graph);
  neap_status (*load)(const void *model, const neap_model_options *options, neap_session *session);
  const char *(*digest)(const void *model);
  /* Set their last parameter, which is zero before, or leave it so. */
  neap_status (*tokenizer)(const void *model, struct tokenizer **tokenizer);
  neap_status (*chat_template)(const void *model, struct chat_template **chat);
  neap_status (*labels)(const void *model, struct region *region, struct task_labels *labels);
  neap_status (*pixels)(const void *model, struct task_pixels *pixels);
  neap_status (*new_layers)(const void *model, const neap_model_options *options, struct region *region,
                            const char **layers);
  neap_status (*understood)(const void *model, struct region *region, struct understood *understood);
};

#endif
