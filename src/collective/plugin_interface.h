/* The interface of a plugin, which connects ranks by a library that the command does not link. It exports a
 * `struct plugin` by the name PLUGIN_SYMBOL, and calls nothing of Neap but what it is given. */
#ifndef NEAP_COLLECTIVE_PLUGIN_INTERFACE_H
#define NEAP_COLLECTIVE_PLUGIN_INTERFACE_H

#include "neap_collective.h"

#define PLUGIN_SYMBOL "neap_plugin"
enum { PLUGIN_VERSION = 2 }; /* grows with every change of neap_collective or of what follows */

/* neap_fail of base/status.h. */
typedef neap_status plugin_fail(neap_status status, const char *format, ...);

struct plugin {
  int version; /* PLUGIN_VERSION when it was built; first, so that it is read in every version */
  /* Connects this process with the other ranks. `fail` records the messages of failures, then and later. Once
   * a process. */
  neap_status (*open)(plugin_fail *fail, neap_collective *out);
};

#endif
