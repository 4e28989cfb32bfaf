/* The steps of a tokenizer of others between text and tokens, one after the other. Each component of a
 * tokenizer.json becomes one or more steps. */
#ifndef NEAP_TEXT_STEP_H
#define NEAP_TEXT_STEP_H

#include "formats/json.h"
#include "text/expression.h"
#include "text/passage.h"

struct step;
struct splitting;
struct pieces;

enum { STEP_CODES_MOST = 3 }; /* code points that replace a character */

/* Replaces a character; returns the number of code points. */
typedef size_t step_map(uint32_t code, uint32_t out[STEP_CODES_MOST]);

/* The work of each family of steps: normalizer.h, pre_tokenizer.h, token_decoder.h. */
typedef neap_status step_normalise(const struct step *step, struct matcher *matcher, const struct passage *in,
                                   struct passage_buffer *out);
typedef neap_status step_split(const struct step *step, struct splitting *splitting, size_t stage,
                               const struct passage *in);
typedef neap_status step_decode(const struct step *step, struct matcher *matcher, const struct pieces *in,
                                struct pieces *out);

/* The treatment of a match at which a text is split: dropped, a part of its own, or joined to a neighbour. */
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
  int left, right; /* how much to remove, or a form of normalisation */
};

struct steps {
  VECTOR(struct step) list;
};

/* A component's row, found by its "type"; `parse` appends its steps. */
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

/* Appends the steps of a component, which may be missing, null or a Sequence of others. NEAP_UNSUPPORTED: its
 * type has no row. NEAP_BAD_FORMAT: it lacks something that its type needs. Messages name file and field. */
neap_status steps_parse(const struct step_family *family, const json_t *object,
                        const struct json_place *place, struct steps *steps);
void steps_free(struct steps *steps);

/* Appends a step, which the list then owns, whatever the status. */
neap_status steps_add(struct steps *steps, struct step step);

/* ---- Fields of components ---- */

/* Fails with NEAP_UNSUPPORTED: "FILE: field 'PATH.name': is not supported (got X); " and the remedy. */
neap_status step_refuse(const struct json_place *place, const char *name, const char *got,
                        const char *remedy);

/* Reads true or false; if it is missing or null, `*out` is unchanged. */
neap_status step_flag(const json_t *object, const char *name, const struct json_place *place, bool *out);

/* Copies a string, to be freed; NULL if `optional` and it is missing or null. */
neap_status step_text(const json_t *object, const char *name, const struct json_place *place, bool optional,
                      char **text, size_t *length);

/* Reads the field "pattern", {"Regex": ...} or {"String": ...}. */
neap_status step_pattern(const json_t *object, const struct json_place *place, struct expression **out);

/* Returns the place of a field in a place. */
struct json_place step_place(const struct json_place *place, const char *name);

#endif
