/* Language models of others: a folder of Hugging Face (config.json, safetensors, tokenizer.json) or a GGUF
 * file. Variables have the names of the folder's weights, whatever the file. */
#ifndef NEAP_MODEL_LANGUAGE_MODEL_H
#define NEAP_MODEL_LANGUAGE_MODEL_H

#include "graph/task.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

/* Whether a path is a folder that has a config.json. */
bool language_model_is_folder(const char *path);

/* What model_usual, neap_model_build, neap_model_load, model_places and model_digest do with such a path.
 * `masked` is the family's matter and not looked at. The digest is that of config.json, or of what a GGUF
 * file has before its weights. */
neap_status language_model_usual(const char *path, bool masked, neap_model_options *usual,
                                 enum task_kind *kind);
neap_status language_model_build(const char *path, bool masked, const neap_model_options *options,
                                 neap_graph **graph);
neap_status language_model_load(const char *path, bool masked, const neap_model_options *options,
                                neap_session *session);
neap_status language_model_places(const char *path, int64_t length, int64_t *places);
neap_status language_model_digest(const char *path, char digest[65]);

/* What its classifier tells apart, in the region. */
neap_status language_model_labels(const char *path, struct region *region, struct task_labels *labels);

/* What preprocessor_config.json of a model of images makes of bytes; zeros: it is no such model, or does not
 * say it. NEAP_BAD_FORMAT: the file is wrong. */
neap_status language_model_pixels(const char *path, struct task_pixels *pixels);

/* The layers that the file does not have with such options, as "a, b" in the region; NULL: it has all. */
neap_status language_model_new_layers(const char *path, const neap_model_options *options,
                                      struct region *region, const char **layers);

/* The tokenizer that comes with the model, to be freed with tokenizer_free. */
neap_status language_model_tokenizer(const char *path, struct tokenizer **out);

/* Its chat template, to be freed with chat_template_free; NULL: it has none. NEAP_UNSUPPORTED: it is not one
 * that is rendered; the message lists those. */
neap_status language_model_chat_template(const char *path, struct chat_template **out);

#endif
