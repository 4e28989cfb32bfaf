/* Language models of others: a folder of Hugging Face (config.json, safetensors, tokenizer.json) or a GGUF
 * file. Variables have the names of the folder's weights, whatever the file. */
#ifndef NEAP_LANGUAGE_LANGUAGE_MODEL_H
#define NEAP_LANGUAGE_LANGUAGE_MODEL_H

#include "task/task.h"
#include "template/chat_template.h"
#include "text/tokenizer.h"

/* Returns true if a path is a folder with a config.json. */
bool language_model_is_folder(const char *path);

/* Open, describe, ask and close the model of such a path: the functions of struct model_ops (model_ops.h) for
 * it. `masked` follows from the family and is ignored. The digest is that of config.json, or of a GGUF file's
 * content before its weights. */
neap_status language_model_open(const char *path, bool masked, void **model);
void language_model_close(void *model);
neap_status language_model_describe(const void *model, neap_model_description *about);
neap_status language_model_build(const void *model, const neap_model_options *options, neap_graph **graph);
neap_status language_model_load(const void *model, const neap_model_options *options, neap_session *session);
const char *language_model_digest(const void *model);

/* Gives the labels of its classifier, in the region. */
neap_status language_model_labels(const void *model, struct region *region, struct task_labels *labels);

/* Reads from preprocessor_config.json how a model of images normalises bytes; nothing if it is not such a
 * model, or the file does not have it. NEAP_BAD_FORMAT: the file is invalid. */
neap_status language_model_pixels(const void *model, struct task_pixels *pixels);

/* Gives the layers that the file does not have with such options, as "a, b" in the region; nothing if it has
 * all. */
neap_status language_model_new_layers(const void *model, const neap_model_options *options,
                                      struct region *region, const char **layers);

/* Adds a row for each key of its description that was not used, but those that say nothing of what it
 * computes. */
struct understood;
neap_status language_model_understood(const void *model, struct region *region,
                                      struct understood *understood);

/* Gives the tokenizer that comes with the model, to be freed with tokenizer_free. */
neap_status language_model_tokenizer(const void *model, struct tokenizer **out);

/* Gives its chat template, to be freed with chat_template_free; NULL: it has none. Fails as
 * chat_template_find. */
neap_status language_model_chat_template(const void *model, struct chat_template **out);

#endif
