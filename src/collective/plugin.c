#include "collective/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collective/plugin_interface.h"

static const struct launcher launchers[] = {
    {"openmpi", "Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "libopenmpi-dev and openmpi-bin"},
    {"mpich", "MPICH", "PMI_SIZE", "PMI_RANK", "libmpich-dev and mpich"},
};
enum { LAUNCHERS = sizeof launchers / sizeof *launchers };

const struct launcher *launcher_at(int i) { return i >= 0 && i < LAUNCHERS ? &launchers[i] : NULL; }

/* The number in a variable; 0: it is not set. */
static neap_status read_size(const char *variable, int *size) {
  const char *text = getenv(variable);
  char *end = NULL;
  *size = 0;
  if (text == NULL) return NEAP_OK;
  errno = 0;
  const long value = strtol(text, &end, 10);
  RETURN_IF(end == text || *end != '\0' || errno != 0 || value < 1 || value > INT_MAX, NEAP_INVALID_ARGUMENT,
            "collective: %s must be a number of ranks (got '%s'); start the ranks by mpirun, or unset it",
            variable, text);
  *size = (int)value;
  return NEAP_OK;
}

neap_status plugin_launcher(const struct launcher **launcher, int *size) {
  *launcher = NULL;
  *size = 1;
  for (int i = 0; i < LAUNCHERS; i++) {
    int ranks;
    TRY(read_size(launchers[i].size, &ranks));
    if (ranks < 2 || getenv(launchers[i].rank) == NULL) continue;
    RETURN_IF(
        *launcher != NULL, NEAP_INVALID_ARGUMENT,
        "collective: %s and %s are both set, so the launcher is unclear; unset the one that does not apply",
        (*launcher)->size, launchers[i].size);
    *launcher = &launchers[i];
    *size = ranks;
  }
  return NEAP_OK;
}

static const struct launcher *launcher_by_name(const char *name) {
  for (int i = 0; i < LAUNCHERS; i++)
    if (strcmp(launchers[i].name, name) == 0) return &launchers[i];
  return NULL;
}

/* Cuts a path after the last slash. Returns whether it has one. */
static bool keep_folder(char *path) {
  char *slash = strrchr(path, '/');
  if (slash != NULL) slash[1] = '\0';
  return slash != NULL;
}

/* The folder of the library or command that this code belongs to, with a slash at its end; "": unknown. */
static void own_folder(char folder[PATH_MAX]) {
  Dl_info info;
  char path[PATH_MAX];
  folder[0] = '\0';
  if (dladdr(&launchers, &info) != 0 && strchr(info.dli_fname, '/') != NULL &&
      realpath(info.dli_fname, path) != NULL && keep_folder(path)) {
    memcpy(folder, path, sizeof path);
    return;
  }
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return;
  path[length] = '\0';
  if (keep_folder(path)) memcpy(folder, path, sizeof path);
}

#ifdef NEAP_STATIC
enum { LOADS_PLUGINS = false };
#else
enum { LOADS_PLUGINS = true };
#endif

/* Loads the file FOLDER/MIDDLE/libneap_NAME.so. `*handle` is NULL where it does not exist. */
static neap_status load_from(const char *folder, const char *middle, const char *name, void **handle) {
  char path[2 * PATH_MAX];
  const char *slash = *folder != '\0' && folder[strlen(folder) - 1] != '/' ? "/" : "";
  if (*handle != NULL || *folder == '\0') return NEAP_OK;
  snprintf(path, sizeof path, "%s%s%slibneap_%s.so", folder, slash, middle, name);
  if (access(path, F_OK) != 0) return NEAP_OK;
  *handle =
      dlopen(path, RTLD_NOW | RTLD_GLOBAL); /* components of Open MPI look for symbols in all libraries */
  RETURN_IF(*handle == NULL, NEAP_UNSUPPORTED, "%s: cannot be loaded: %s", path, dlerror());
  return NEAP_OK;
}

static neap_status load(const struct launcher *launcher, const char *folder, void **handle) {
  char own[PATH_MAX], file[64];
  *handle = NULL;
  RETURN_IF(!LOADS_PLUGINS, NEAP_UNSUPPORTED,
            "collective: this command is linked statically, so it cannot load the plugin for %s; use the "
            "command that 'make' builds",
            launcher->title);
  own_folder(own);
  if (folder != NULL) TRY(load_from(folder, "", launcher->name, handle));
  TRY(load_from(own, "", launcher->name, handle));
  TRY(load_from(own, "../lib/", launcher->name, handle));
  snprintf(file, sizeof file, "libneap_%s.so", launcher->name);
  if (*handle == NULL) *handle = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
  RETURN_IF(*handle == NULL, NEAP_UNSUPPORTED,
            "collective: %s is missing, the plugin for %s (looked in %s, %s../lib and the system's folders): "
            "%s; install Debian's "
            "%s, then run 'make' and 'make install' again",
            file, launcher->title, own, own, dlerror(), launcher->packages);
  return NEAP_OK;
}

static neap_status find_plugin(const struct launcher *launcher, void *handle, const struct plugin **plugin) {
  *plugin = dlsym(handle, PLUGIN_SYMBOL);
  RETURN_IF(*plugin == NULL, NEAP_UNSUPPORTED, "libneap_%s.so: has no '%s', so it is not a plugin of Neap",
            launcher->name, PLUGIN_SYMBOL);
  RETURN_IF((*plugin)->version != PLUGIN_VERSION, NEAP_UNSUPPORTED,
            "libneap_%s.so: was built for another version of Neap (plugin version %d, this one needs %d); "
            "build and install it again with 'make' and 'make install'",
            launcher->name, (*plugin)->version, PLUGIN_VERSION);
  return NEAP_OK;
}

static neap_status check_size(const struct launcher *launcher, int started, const neap_collective *c) {
  RETURN_IF(started > 1 && c->size != started, NEAP_UNSUPPORTED,
            "collective: the launcher started %d processes, but %s connects each of them to %d; start them "
            "by the mpirun of %s (mpirun.%s), or choose the plugin of your launcher's MPI",
            started, launcher->title, c->size, launcher->title, launcher->name);
  return NEAP_OK;
}

neap_status plugin_open(const char *name, const char *folder, neap_collective *out) {
  const struct launcher *found, *launcher;
  const struct plugin *plugin;
  int started;
  void *handle;
  *out = (neap_collective){0};
  TRY(plugin_launcher(&found, &started));
  if (name == NULL && found == NULL) return NEAP_OK;
  launcher = name != NULL ? launcher_by_name(name) : found;
  RETURN_IF(launcher == NULL, NEAP_INVALID_ARGUMENT,
            "collective: the plugin must be 'openmpi' or 'mpich' (got '%s')", name);
  TRY(load(launcher, folder, &handle));
  TRY(find_plugin(launcher, handle, &plugin));
  TRY(plugin->open((neap_fail), out));
  const neap_status status = check_size(launcher, started, out);
  if (status != NEAP_OK) *out = (neap_collective){0}; /* its close would wait for the others */
  return status;
}
