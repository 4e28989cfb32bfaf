/* Post-processors: the ids that a tokenizer.json adds before and after a text. */
#ifndef NEAP_TEXT_POST_PROCESSOR_H
#define NEAP_TEXT_POST_PROCESSOR_H

#include "formats/json.h"
#include "text/bpe.h"

struct post_processor {
  struct token_ids before, behind;
};

/* Reads TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel (which adds nothing) or a Sequence
 * of them; null adds nothing. Ids are below `size`. NEAP_UNSUPPORTED: another type, or a template that does
 * not have the text exactly once. NEAP_BAD_FORMAT: it is invalid. Free with post_processor_free, whatever the
 * status. */
neap_status post_processor_parse(const json_t *object, const struct json_place *place, int32_t size,
                                 struct post_processor *post);
void post_processor_free(struct post_processor *post);

#endif
