/* Language models of others: a folder of Hugging Face (config.json, safetensors, tokenizer.json) or a GGUF
 * file. Variables have the names of the folder's weights, whatever the file. */
#ifndef NEAP_MODEL_LANGUAGE_MODEL_H
#define NEAP_MODEL_LANGUAGE_MODEL_H

#include "graph/task.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

/* Returns true if a path is a folder with a config.json. */
bool language_model_is_folder(const char *path);

/* Do the work of model_usual, neap_model_build, neap_model_load, model_places and model_digest for such a
 * path. `masked` follows from the family and is ignored. The digest is that of config.json, or of a GGUF
 * file's content before its weights. */
neap_status language_model_usual(const char *path, bool masked, neap_model_options *usual,
                                 enum task_kind *kind);
neap_status language_model_build(const char *path, bool masked, const neap_model_options *options,
                                 neap_graph **graph);
neap_status language_model_load(const char *path, bool masked, const neap_model_options *options,
                                neap_session *session);
neap_status language_model_places(const char *path, int64_t length, int64_t *places);
neap_status language_model_digest(const char *path, char digest[65]);

/* Gives the labels of its classifier, in the region. */
neap_status language_model_labels(const char *path, struct region *region, struct task_labels *labels);

/* Reads from preprocessor_config.json how a model of images normalises bytes; zeros: it is not such a model,
 * or the file does not have it. NEAP_BAD_FORMAT: the file is invalid. */
neap_status language_model_pixels(const char *path, struct task_pixels *pixels);

/* Gives the layers that the file does not have with such options, as "a, b" in the region; NULL: it has
 * all. */
neap_status language_model_new_layers(const char *path, const neap_model_options *options,
                                      struct region *region, const char **layers);

/* Adds a row for each key of its description that was not used, but those that say nothing of what it
 * computes. */
struct understood;
neap_status language_model_understood(const char *path, struct region *region, struct understood *understood);

/* Gives the tokenizer that comes with the model, to be freed with tokenizer_free. */
neap_status language_model_tokenizer(const char *path, struct tokenizer **out);

/* Gives its chat template, to be freed with chat_template_free; NULL: it has none. Fails as
 * chat_template_find. */
neap_status language_model_chat_template(const char *path, struct chat_template **out);

#endif
