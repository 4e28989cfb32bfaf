/* What a tokenizer of others is made of between text and tokens: steps, one after the other. The components
 * of a tokenizer.json become one step or more each. */
#ifndef NEAP_TEXT_STEP_H
#define NEAP_TEXT_STEP_H

#include "base/json.h"
#include "text/expression.h"
#include "text/passage.h"

struct step;
struct splitting;
struct pieces;

enum { STEP_CODES_MOST = 3 }; /* that a character becomes */

/* What a character becomes; gives how many code points that is. */
typedef size_t step_map(uint32_t code, uint32_t out[STEP_CODES_MOST]);

/* What the families of steps do: normalizer.h, pre_tokenizer.h, token_decoder.h. */
typedef neap_status step_normalise(const struct step *step, struct matcher *matcher, const struct passage *in,
                                   struct passage_buffer *out);
typedef neap_status step_split(const struct step *step, struct splitting *splitting, size_t stage,
                               const struct passage *in);
typedef neap_status step_decode(const struct step *step, struct matcher *matcher, const struct pieces *in,
                                struct pieces *out);

/* What becomes of a place where a text is split, between what is before and behind it. */
enum split_behaviour { REMOVED, ISOLATED, MERGED_WITH_PREVIOUS, MERGED_WITH_NEXT, CONTIGUOUS };

/* One step. A field that a kind of step does not read is 0. */
struct step {
  step_normalise *normalise; /* one of the three */
  step_split *split;
  step_decode *decode;
  struct expression *pattern; /* owned, and so is */
  char *text;                 /* of `length` bytes */
  size_t length;
  step_map *map;
  bool (*is_member)(uint32_t code); /* of a class of characters */
  enum split_behaviour behaviour;
  bool invert, flag;
  int left, right; /* how much to take off, or a form of normalisation */
};

struct steps {
  VECTOR(struct step) list;
};

/* A component, by its "type"; `parse` appends its steps. */
struct step_row {
  const char *type;
  neap_status (*parse)(const json_t *object, const struct json_place *place, struct steps *steps);
};

/* A family of components. */
struct step_family {
  const char *sequence; /* the field of a Sequence that has its parts */
  const struct step_row *rows;
  size_t count;
};

/* Appends the steps of a component, which may be missing, null or a Sequence of others. NEAP_UNSUPPORTED:
 * there is no row of its type. NEAP_BAD_FORMAT: it is not what its type needs. Messages name file and field.
 */
neap_status steps_parse(const struct step_family *family, const json_t *object,
                        const struct json_place *place, struct steps *steps);
void steps_free(struct steps *steps);

/* Appends a step, of which the list is the owner, whatever the status. */
neap_status steps_add(struct steps *steps, struct step step);

/* ---- Fields of components ---- */

/* Fails with NEAP_UNSUPPORTED: "FILE: field 'PATH.name': is not supported (got X); " and what to do. */
neap_status step_refuse(const struct json_place *place, const char *name, const char *got,
                        const char *remedy);

/* A true or false; where it is missing or null, `*out` stays. */
neap_status step_flag(const json_t *object, const char *name, const struct json_place *place, bool *out);

/* A copy of a string, to be freed; where `optional` and it is missing or null, NULL. */
neap_status step_text(const json_t *object, const char *name, const struct json_place *place, bool optional,
                      char **text, size_t *length);

/* The field "pattern", {"Regex": ...} or {"String": ...}. */
neap_status step_pattern(const json_t *object, const struct json_place *place, struct expression **out);

/* The place of a field in a place. */
struct json_place step_place(const struct json_place *place, const char *name);

#endif
