/* A language model that is being written: the files of language_model.h with other weights. */
#ifndef NEAP_LANGUAGE_LANGUAGE_EXPORTING_H
#define NEAP_LANGUAGE_LANGUAGE_EXPORTING_H

#include "language/language_file.h"
#include "task/task.h"

struct language_export {
  const struct language_model *base; /* the folder or GGUF file that the model began with, for its description
                                        and tokenizer */
  neap_dtype dtype;                  /* of the written weights: F32, F16, BF16, in GGUF also Q8_0 */
  /* Changes a variable from its value in the base to its value now, [dims...]. */
  neap_status (*change)(void *context, const char *name, int rank, const int64_t *dims, float *data);
  void *context;
  bool replace;                      /* write to a folder even if it has files */
  const neap_model_options *options; /* of the model; its head */
  struct task_labels labels;         /* of a classifier, for config.json; none: those of the base */
};

struct language_exporting {
  const struct language_export *from;
  struct language_model model;
  struct stored_form *forms; /* of the origins, in the written form */
  float *whole;              /* the variable whose experts are being written one by one */
  int32_t whole_of;          /* its number; -1: none */
};

/* Opens the base; `folder`: writes a folder, else a GGUF file. Close the model, whatever the status. */
neap_status language_exporting_open(struct language_exporting *x, bool folder);

void language_exporting_close(struct language_exporting *x);

/* Reads one of the experts of a variable. */
neap_status language_exporting_read_expert(struct language_exporting *x, int32_t index, int64_t expert,
                                           float *data);

/* Reads the current value of a variable, in the written form. The context is the struct above. */
neap_status language_exporting_read(void *context, int32_t index, float *data);

#endif
