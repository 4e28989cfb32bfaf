/* Chat templates that have names: what the families of models render, each as a program in Jinja. */
#ifndef NEAP_TEXT_CHAT_ROWS_H
#define NEAP_TEXT_CHAT_ROWS_H

struct chat_row {
  const char *name, *program;
};

extern const struct chat_row chat_rows[]; /* the last has no name */

#endif
