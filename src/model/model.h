/* Models by name: ready-made ones, and those in files. */
#ifndef NEAP_MODEL_MODEL_H
#define NEAP_MODEL_MODEL_H

#include "graph/task.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

/* Gives the usual shape of a model of this name, and its kind of data. */
neap_status model_usual(const char *name, neap_model_options *usual, enum task_kind *kind);

/* Gives the number of tokens that a model of this name, for sequences of `length`, has positions for, or that
 * are in the window of a file's model; 0: any number. */
neap_status model_places(const char *name, int64_t length, int64_t *places);

/* Builds the network of a model of pairs, and only of such, that continues translations:
 * zoo_build_decoder. */
neap_status model_build_decoder(const char *name, const neap_model_options *options, int64_t beams,
                                neap_graph **graph);

/* Returns the name in a checkpoint: its name or, for a file, its kind, whose digest identifies the file. */
const char *model_kept_name(const char *name);

/* Returns the folder or GGUF file of a language model of others; NULL: this name is not one of these. */
const char *model_language_path(const char *name);

/* Adds what a language model of a file was read as: rows for keys of its description that were not used.
 * Nothing for other models. */
struct understood;
neap_status model_understood(const char *name, struct region *region, struct understood *understood);

/* Returns true if a model that predicts the next token can be built with options.packed. */
bool model_packs(const char *name);

/* Gives the tokenizer of a model that has its own, to be freed with tokenizer_free; else NULL. */
neap_status model_tokenizer(const char *name, struct tokenizer **tokenizer);

/* Gives the labels of a model's own classifier, in the region; a count of 0 for a model without one. */
neap_status model_labels(const char *name, struct region *region, struct task_labels *labels);

/* Gives the normalisation of bytes in a file's model of images; zeros if the data have it. */
neap_status model_pixels(const char *name, struct task_pixels *pixels);

/* Gives the layers that a file's model does not have with such options and that start at random, as "a, b" in
 * the region; NULL: it has all. */
neap_status model_new_layers(const char *name, const neap_model_options *options, struct region *region,
                             const char **layers);

/* Gives the chat template of a model that has one, to be freed with chat_template_free; else NULL. */
neap_status model_chat_template(const char *name, struct chat_template **chat);

/* Gives the SHA-256 of the file with a model's structure; "" if it is ready-made. */
neap_status model_digest(const char *name, char digest[65]);

#endif
