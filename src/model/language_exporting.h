/* A language model that is being written: the files of language_model.h with other weights. */
#ifndef NEAP_MODEL_LANGUAGE_EXPORTING_H
#define NEAP_MODEL_LANGUAGE_EXPORTING_H

#include "model/language_file.h"

struct language_export {
  const char *base; /* the folder or GGUF file that the model began with: its description and tokenizer */
  neap_dtype dtype; /* that weights are written in: F32, F16, BF16, of GGUF Q8_0 too */
  /* Changes a variable from its value in the base to its value now, [dims...]. */
  neap_status (*change)(void *context, const char *name, int rank, const int64_t *dims, float *data);
  void *context;
  bool replace; /* a folder that has files is written to */
};

struct language_exporting {
  const struct language_export *from;
  struct language_model model;
  struct stored_form *forms; /* of the origins, in what is written */
};

/* Opens the base; `folder`: what is written is one, else a GGUF file. Close the model, whatever the status.
 */
neap_status language_exporting_open(struct language_exporting *x, bool folder);

/* Reads a variable as it is now, in the form of what is written. The context is the struct above. */
neap_status language_exporting_read(void *context, int32_t index, float *data);

#endif
