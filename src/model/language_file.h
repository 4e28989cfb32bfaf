/* An open language model of a folder or a GGUF file (language_model.h), for those who read its weights and
 * for those who write such files: how each variable is stored in either form. */
#ifndef NEAP_MODEL_LANGUAGE_FILE_H
#define NEAP_MODEL_LANGUAGE_FILE_H

#include "model/families.h"
#include "model/language_head.h"
#include "model/packed_weight.h"
#include "run/weight_files.h"
#include "text/token_vocabulary.h"

/* How a variable is stored, in a folder or in a GGUF file. */
struct stored_form {
  const char *name;
  bool transposed;        /* [in, out] in place of [out, in] */
  int64_t permuted_heads; /* heads whose rows are in GGUF's order; 0: rows are in the variable's order */
  float less;             /* variables are greater by this */
};

/* A variable, and the tensor of the file that it begins with. */
struct origin {
  const char *name; /* of the variable */
  enum part part;
  int64_t block;
  const char *suffix;                 /* "weight" or "bias" */
  const struct weight_tensor *file;   /* of a folder */
  const struct packed_weight *packed; /* of a folder: how it is packed in 4 bits; NULL: it is not */
  int32_t tensor;                     /* of a GGUF file */
  bool made;                          /* the file does not have it: it is of a new head */
  int rank;
  int64_t dims[NEAP_MAX_RANK]; /* as the variable has them */
  struct stored_form form;     /* in this file */
};

struct language_model {
  struct region region;
  const char *path;
  json_t *config; /* NULL: a GGUF file */
  struct weight_files weights;
  struct gguf gguf;
  const struct family *family;
  struct language_head head; /* the file's; transformer has the one that is asked for */
  struct transformer transformer;
  int64_t context;
  struct origin *origins; /* by name */
  int32_t origin_count;
  struct direct_buffer buffer; /* of files that are read directly; else empty */
  struct direct_file *direct;  /* by file of the folder, or the GGUF file */
};

/* Reads all but the weights, and with `vocabulary` the tokens of a GGUF file too. Close with
 * language_file_close, whatever the status. */
neap_status language_file_open(struct language_model *m, const char *path, bool vocabulary);

/* The same with the head that the options ask for. What the file does not have of a classifier is new. */
neap_status language_file_open_as(struct language_model *m, const char *path, bool vocabulary,
                                  const neap_model_options *options);
void language_file_close(struct language_model *m);

/* From now on elements are read past the system's cache of pages. For one thread. */
neap_status language_file_read_directly(struct language_model *m);

/* The number of the variable's origin; -1: no variable has this name. */
int32_t language_file_find(const struct language_model *m, const char *name);

int64_t origin_elements(const struct origin *o);

/* Whether the variable is made of rows of the file, each of which can be read by itself. */
bool language_file_has_rows(const struct language_model *m, const struct origin *o);

/* Bytes of the tensor that a variable's rows can be read from, some at a time; 0: it is new, packed in 4
 * bits, or not dense, and has no such rows. */
uint64_t language_file_bytes(const struct language_model *m, const struct origin *o);

/* Reads a variable's first value, in the variable's shape and order; zeros where it is new. Of a transposed
 * one it allocates a copy, or a row of the file.
 */
neap_status language_file_read(const struct language_model *m, const struct origin *o, float *data);
neap_status language_file_read_rows(const struct language_model *m, const struct origin *o, int64_t first,
                                    int64_t rows, float *data);

/* Reads the blocks of rows of a variable of a GGUF file, as they are, or of one that is packed in 4 bits. */
neap_status language_file_read_blocks(const struct language_model *m, const struct origin *o, int64_t first,
                                      int64_t rows, void *blocks);

/* How a variable is stored in a folder, or else in a GGUF file. The name is the model's. NEAP_UNSUPPORTED:
 * the form has no place for it; the message names it. */
neap_status language_file_form(struct language_model *m, const struct origin *o, bool folder,
                               struct stored_form *form);

/* Brings a variable's value into a form, in place. It allocates a copy of what is transposed or permuted. */
neap_status language_file_store(const struct language_model *m, const struct origin *o,
                                const struct stored_form *form, float *data);

/* The row of the file that a row of the variable is in. */
int64_t stored_row(int64_t permuted_heads, int64_t rows, int64_t row);

/* What an open GGUF file says of its tokens; `v->tokens` is NULL where it has none. Arrays are the model's.
 */
neap_status language_file_vocabulary(struct language_model *m, struct token_vocabulary *v);

/* The chat template of a folder, and the file that it is in: chat_template.jinja, or a field of
 * tokenizer_config.json. Both are the region's; `*jinja` is NULL where the folder has no template. */
neap_status language_folder_template(const char *folder, struct region *region, const char **file,
                                     const char **jinja);

#endif
