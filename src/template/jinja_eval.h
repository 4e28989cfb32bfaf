/* Runs programs in Jinja 3, as transformers runs chat templates: in an immutable sandbox, with trim_blocks,
 * lstrip_blocks, break and continue, {% generation %}, raise_exception, strftime_now and its own tojson. What
 * is not supported is refused with its place, where it is read or where it is reached.
 *
 *     jinja_program_new(source, length, "model/chat_template.jinja", &program);
 *     struct jinja_run run = {0};
 *     jinja_begin(program, jinja_usual_limits, &run);
 *     ... values of variables, in the run ...
 *     jinja_render(program, &run, variables, count, &text);
 *     region_free(&run.region);                         whatever the status; the text is in it */
#ifndef NEAP_TEMPLATE_JINJA_EVAL_H
#define NEAP_TEMPLATE_JINJA_EVAL_H

#include "template/jinja_value.h"

struct jinja_program;

/* Reads a program. `name` is for messages. NEAP_INVALID_ARGUMENT: it is no Jinja; NEAP_UNSUPPORTED: it is,
 * but has a part that is not supported; NEAP_BAD_FORMAT: it is not UTF-8; NEAP_TOO_LARGE: it goes too deep.
 */
neap_status jinja_program_new(const char *source, size_t length, const char *name,
                              struct jinja_program **out);
void jinja_program_free(struct jinja_program *program);

/* Tells whether the program says by {% generation %} what the model writes. */
bool jinja_program_marks(const struct jinja_program *program);

struct jinja_variable {
  const char *name;
  struct jinja_value value;
};

/* Prepares a run. */
void jinja_begin(const struct jinja_program *program, struct jinja_limits limits, struct jinja_run *run);

/* Gives the text that the program makes. NEAP_INVALID_ARGUMENT: Jinja fails there, too; NEAP_UNSUPPORTED: it
 * has a part that is not supported; NEAP_TOO_LARGE: a limit. */
neap_status jinja_render(const struct jinja_program *program, struct jinja_run *run,
                         const struct jinja_variable *variables, size_t count,
                         const struct jinja_string **text);

#endif
