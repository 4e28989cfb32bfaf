/* Open models, as src/train asks them (include/neap_model.h): ready-made ones, and those in files. */
#ifndef NEAP_MODEL_MODEL_H
#define NEAP_MODEL_MODEL_H

#include "task/task.h"
#include "template/chat_template.h"
#include "text/tokenizer.h"

/* Gives the model of options: the one that the caller has open or, if that is NULL, the one of the name,
 * which is opened. Only then `*own` is not NULL, and is to be closed. */
neap_status model_take(const neap_model *opened, const char *name, neap_model **own,
                       const neap_model **model);

/* Returns the name by which it was opened. */
const char *model_name(const neap_model *model);

/* Returns the number of tokens that a model built for sequences of `length` has positions for, or that are in
 * the window of a file's model; 0: any number. */
int64_t model_places(const neap_model_description *about, int64_t length);

/* Builds the network of a model of pairs, and only of such, that continues translations:
 * zoo_build_decoder. */
neap_status model_build_decoder(const neap_model *model, const neap_model_options *options, int64_t beams,
                                neap_graph **graph);

/* Returns the name in a checkpoint: its name or, for a file, its kind, whose digest identifies the file. */
const char *model_kept_name(const neap_model *model);

/* Returns the SHA-256 of the file with a model's structure, taken when it was opened; "" if it is ready-made.
 */
const char *model_digest(const neap_model *model);

/* Returns the open file of a language model of others; NULL: it is not one of these. */
struct language_model;
const struct language_model *model_language(const neap_model *model);

/* Adds what a language model of a file was read as: rows for keys of its description that were not used.
 * Nothing for other models. */
struct understood;
neap_status model_understood(const neap_model *model, struct region *region, struct understood *understood);

/* Gives the tokenizer of a model that has its own, to be freed with tokenizer_free; else NULL. */
neap_status model_tokenizer(const neap_model *model, struct tokenizer **tokenizer);

/* Gives the chat template of a model that has one, to be freed with chat_template_free; else NULL. */
neap_status model_chat_template(const neap_model *model, struct chat_template **chat);

/* Gives the labels of a model's own classifier, in the region; a count of 0 for a model without one. */
neap_status model_labels(const neap_model *model, struct region *region, struct task_labels *labels);

/* Gives the normalisation of bytes in a file's model of images; zeros if the data have it. */
neap_status model_pixels(const neap_model *model, struct task_pixels *pixels);

/* Gives the layers that a file's model does not have with such options and that start at random, as "a, b" in
 * the region; NULL: it has all. */
neap_status model_new_layers(const neap_model *model, const neap_model_options *options,
                             struct region *region, const char **layers);

#endif
