/* Chat templates that have names: what the families of models render, each as a program in Jinja. */
#ifndef NEAP_TEMPLATE_CHAT_ROWS_H
#define NEAP_TEMPLATE_CHAT_ROWS_H

struct chat_row {
  const char *name, *program;
};

enum { CHAT_ROWS = 19 };
extern const struct chat_row chat_rows[CHAT_ROWS];

#endif
