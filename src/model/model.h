/* Models by name: ready-made ones, and those of files. */
#ifndef NEAP_MODEL_MODEL_H
#define NEAP_MODEL_MODEL_H

#include "graph/task.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

/* The shape that a model of this name has where nothing else is said, and what it learns from. */
neap_status model_usual(const char *name, neap_model_options *usual, enum task_kind *kind);

/* How many tokens a model of this name that learns from sequences of `length` can tell apart by their places,
 * or see together where a file's has a window; 0: any number. */
neap_status model_places(const char *name, int64_t length, int64_t *places);

/* The network of a model of pairs, and of no other, that tells how a translation goes on: zoo_build_decoder.
 */
neap_status model_build_decoder(const char *name, const neap_model_options *options, int64_t beams,
                                neap_graph **graph);

/* What a checkpoint calls it: the name, or of a file its kind, whose digest tells which one it is. */
const char *model_kept_name(const char *name);

/* The folder or GGUF file of a language model of others; NULL: this name is not one of these. */
const char *model_language_path(const char *name);

/* Whether a model that tells the next token can be built with options.packed. */
bool model_packs(const char *name);

/* The tokenizer of a model that has one of its own, to be freed with tokenizer_free; else NULL. */
neap_status model_tokenizer(const char *name, struct tokenizer **tokenizer);

/* What a model's own classifier tells apart, in the region; a model without one has a count of 0. */
neap_status model_labels(const char *name, struct region *region, struct task_labels *labels);

/* What a model of images of a file makes of bytes; zeros where the data say it. */
neap_status model_pixels(const char *name, struct task_pixels *pixels);

/* The layers that a model of a file does not have with such options and that are drawn, as "a, b" in the
 * region; NULL: it has all. */
neap_status model_new_layers(const char *name, const neap_model_options *options, struct region *region,
                             const char **layers);

/* The chat template of a model that has one, to be freed with chat_template_free; else NULL. */
neap_status model_chat_template(const char *name, struct chat_template **chat);

/* The SHA-256 of a model's file, which has its structure; "" where it is ready-made. */
neap_status model_digest(const char *name, char digest[65]);

#endif
