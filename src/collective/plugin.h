/* Ranks that an MPI launcher started: which launcher, and the plugin that connects them (libneap_openmpi.so,
 * libneap_mpich.so). Nothing here links MPI. */
#ifndef NEAP_COLLECTIVE_PLUGIN_H
#define NEAP_COLLECTIVE_PLUGIN_H

#include "base/status.h"
#include "neap_collective.h"

/* A launcher, found by the variables that it sets for each rank. */
struct launcher {
  const char *name;     /* of its plugin: "openmpi", "mpich" */
  const char *title;    /* "Open MPI", "MPICH" */
  const char *size;     /* variable: how many ranks there are */
  const char *rank;     /* variable: which one this process is */
  const char *packages; /* Debian's, that its plugin is built with */
};

/* Row `i`, or NULL. */
const struct launcher *launcher_at(int i);

/* `*launcher` is the one that started this process with more than one rank, and `*size` their number; NULL
 * and 1: none did. NEAP_INVALID_ARGUMENT: the variables of two are set, or are no numbers. */
neap_status plugin_launcher(const struct launcher **launcher, int *size);

/* Connects this process with the other ranks by the plugin `name` ("openmpi", "mpich"; NULL: that of the
 * launcher). Where no launcher started more than one rank and `name` is NULL, `out->size` is 0 and no plugin
 * is loaded.
 *
 * The plugin is looked for in `folder` (may be NULL), next to the library or command and in ../lib from
 * there, then where the system looks for libraries. NEAP_UNSUPPORTED: it is missing, of another version, or
 * is connected to another number of ranks than the launcher started. Then the process has to end: a second
 * attempt is not possible. */
neap_status plugin_open(const char *name, const char *folder, neap_collective *out);

#endif
