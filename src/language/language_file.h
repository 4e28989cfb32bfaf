/* An open language model from a folder or a GGUF file (language_model.h), for readers of its weights and
 * writers of such files: how each variable is stored in either form. */
#ifndef NEAP_LANGUAGE_LANGUAGE_FILE_H
#define NEAP_LANGUAGE_LANGUAGE_FILE_H

#include "language/families.h"
#include "language/language_head.h"
#include "language/packed_weight.h"
#include "text/token_vocabulary.h"
#include "weights/weight_files.h"

/* The form in which a folder or a GGUF file stores a variable. */
struct stored_form {
  const char *name;
  bool transposed;        /* [in, out] instead of [out, in] */
  int64_t permuted_heads; /* heads whose rows are in GGUF's order; 0: rows are in the variable's order */
  float less;             /* added to stored values to get the variable's */
};

/* A variable, and the tensor of the file with its first value. */
struct origin {
  const char *name; /* of the variable */
  enum part part;
  int64_t block;
  const char *suffix;                   /* "weight" or "bias" */
  const struct weight_tensor *file;     /* in a folder */
  const struct packed_weight *packed;   /* in a folder: by bitsandbytes; NULL: not packed */
  const struct weight_tensor **experts; /* in a folder: those of each expert, of which `file` is the first */
  int64_t expert_count;                 /* that have a tensor each there; 1: the variable has one */
  int32_t tensor;                       /* in a GGUF file */
  bool made;                            /* the file does not have it: it belongs to a new head */
  int rank;
  int64_t dims[NEAP_MAX_RANK]; /* of the variable */
  struct stored_form form;     /* in this file */
};

/* An open file, which is never changed; or a model of it with one head, which shares what the file has. */
struct language_model {
  struct region region;
  struct language_model *opened; /* of a model with a head: the file; NULL: this is the file */
  int32_t users;                 /* of the file: models of it, and who opened it */
  const char *path;
  json_t *config; /* NULL: a GGUF file */
  struct asked_keys asked;
  struct weight_files weights;
  struct gguf gguf;
  struct file_stamp *stamps; /* by file of the folder, or of the GGUF file, when they were opened */
  char digest[65];           /* of config.json, or of a GGUF file before its weights */
  const struct family *family;
  struct language_head head;      /* the file's */
  struct transformer transformer; /* of a file before its head is settled; of a model with it */
  int64_t context;
  neap_model_description about; /* of the file, with the head that it has */
  struct origin *origins;       /* by name */
  int32_t origin_count;
  struct direct_buffer buffer; /* of files that are read directly; else empty */
  struct direct_file *direct;  /* by file of the folder, or the GGUF file */
};

/* Opens a file or folder and reads everything except the weights, once. Close with language_file_close. */
neap_status language_file_open(const char *path, struct language_model **opened);
void language_file_close(struct language_model *opened);

/* Makes the model of an open file with the head of the options. Parts of a classifier that the file does not
 * have are new. Reads no description again. The file stays open as long as the model. Free with
 * language_file_release, whatever the status. */
neap_status language_file_with(const struct language_model *opened, const neap_model_options *options,
                               struct language_model *m);
void language_file_release(struct language_model *m);

/* Fails with NEAP_BAD_FORMAT if a file with weights was written to since it was opened. */
neap_status language_file_check(const struct language_model *m);

/* Makes later reads of this model bypass the system's page cache. For one thread. */
neap_status language_file_read_directly(struct language_model *m);

/* Returns true if the family's folders have a weight less 1, as the scale of a norm in Gemma. */
bool language_file_is_less(const struct language_model *m, const struct origin *o);

/* Returns the number of the variable's origin; -1: no variable has this name. */
int32_t language_file_find(const struct language_model *m, const char *name);

int64_t origin_elements(const struct origin *o);

/* Returns true if the variable consists of rows of the file, each of which can be read alone. */
bool language_file_has_rows(const struct language_model *m, const struct origin *o);

/* Returns the bytes of the tensor if some of a variable's rows can be read from it at a time; 0 if it is new,
 * packed in 4 bits, or not dense. */
uint64_t language_file_bytes(const struct language_model *m, const struct origin *o);

/* Reads a variable's first value, in the variable's shape and order; zeros if it is new. For a transposed one
 * it allocates a copy, or a row of the file. */
neap_status language_file_read(const struct language_model *m, const struct origin *o, float *data);
neap_status language_file_read_rows(const struct language_model *m, const struct origin *o, int64_t first,
                                    int64_t rows, float *data);

/* Reads the blocks of rows of a variable, unchanged from a GGUF file, or from one that is packed in 4
 * bits. */
neap_status language_file_read_blocks(const struct language_model *m, const struct origin *o, int64_t first,
                                      int64_t rows, void *blocks);

/* Returns the name that a folder has for one of the variable's experts, in the model's region; NULL: out of
 * memory. */
const char *language_file_expert_name(struct language_model *m, const struct origin *o, int64_t expert);

/* Returns the experts whose weights a part has; 1: it is an ordinary layer. */
int64_t language_file_experts(const struct language_model *m, enum part part);

/* Gives the form of a variable in a folder, or else in a GGUF file. The name is the model's.
 * NEAP_UNSUPPORTED: it cannot be stored so; the message names it. */
neap_status language_file_form(struct language_model *m, const struct origin *o, bool folder,
                               struct stored_form *form);

/* Converts a variable's value to a form, in place. Allocates a copy for transposed or permuted ones. */
neap_status language_file_store(const struct language_model *m, const struct origin *o,
                                const struct stored_form *form, float *data);

/* Returns the row of the file that has a row of the variable. */
int64_t stored_row(int64_t permuted_heads, int64_t rows, int64_t row);

/* Gives the tokens of an open GGUF file; `v->tokens` is NULL if it has none. Arrays are the model's. */
neap_status language_file_vocabulary(struct language_model *m, struct token_vocabulary *v);

/* Gives the chat template of a folder, and its file: chat_template.jinja, or a field of
 * tokenizer_config.json. Both are the region's; `*jinja` is NULL if the folder has no template. */
neap_status language_folder_template(const char *folder, struct region *region, const char **file,
                                     const char **jinja);

#endif
