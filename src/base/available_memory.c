#include "base/available_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory_status.h"
#include "base/status.h"

enum { PATH_LIMIT = 1024, FILE_LIMIT = 8192 };

static const double margin_share = 0.1; /* of what is free */

/* Reads a file's beginning as text; false where that fails. */
static bool read_text(const char *path, char text[FILE_LIMIT]) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t bytes = read(file, text, FILE_LIMIT - 1);
  close(file);
  text[bytes > 0 ? bytes : 0] = '\0';
  return bytes > 0;
}

/* The number behind `name` at the beginning of a line; false if none exists. */
static bool find_number(const char *text, const char *name, uint64_t *number) {
  const size_t length = strlen(name);
  for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
    if (*line == '\n') line++;
    if (strncmp(line, name, length) != 0) continue;
    char *end;
    const char *at = line + length;
    while (*at == ' ' || *at == ':' || *at == '\t') at++;
    errno = 0;
    *number = strtoull(at, &end, 10);
    return end != at && errno == 0;
  }
  return false;
}

/* Lowers what is free to `bytes`, and names what says so. */
static void lower_to(neap_available *out, uint64_t bytes, const char *limit) {
  if (bytes >= out->free_bytes) return;
  out->free_bytes = bytes;
  snprintf(out->limit, sizeof out->limit, "%s", limit);
}

static uint64_t rest_of(uint64_t limit, uint64_t used) { return limit > used ? limit - used : 0; }

/* ---- Control groups ---- */

/* Names of one version's files. What a group has of files is given up when memory is short. */
struct group_version {
  const char *mount, *limit, *used, *stale;
};

static const struct group_version version_1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                               "memory.usage_in_bytes", "total_inactive_file"};
static const struct group_version version_2 = {"/sys/fs/cgroup", "memory.max", "memory.current",
                                               "inactive_file"};

/* Reads a number in a file of a group's folder; false if none exists ("max"). */
static bool group_number(const char *folder, const char *name, const char *field, uint64_t *number) {
  char path[2 * PATH_LIMIT], text[FILE_LIMIT];
  snprintf(path, sizeof path, "%.1500s/%.100s", folder, name);
  return read_text(path, text) && find_number(text, field, number);
}

static void look_at_group(const struct group_version *v, const char *folder, const char *group,
                          neap_available *out) {
  uint64_t limit, used, stale;
  char named[sizeof out->limit];
  if (!group_number(folder, v->limit, "", &limit) || !group_number(folder, v->used, "", &used)) return;
  if (!group_number(folder, "memory.stat", v->stale, &stale) || stale > used) stale = 0;
  snprintf(named, sizeof named, "the control group %.80s", group[0] != '\0' ? group : "/");
  lower_to(out, rest_of(limit, used - stale), named);
}

/* Looks at a group and at all that it is in. A container may see its own group as the root. */
static void look_at_groups(const char *root, const struct group_version *v, const char *group,
                           neap_available *out) {
  char path[PATH_LIMIT], folder[2 * PATH_LIMIT];
  snprintf(path, sizeof path, "%s", group);
  for (;;) {
    const size_t length = strlen(path);
    if (length > 0 && path[length - 1] == '/') path[length - 1] = '\0';
    snprintf(folder, sizeof folder, "%s%s%s", root, v->mount, path);
    look_at_group(v, folder, path, out);
    char *end = strrchr(path, '/');
    if (end == NULL) return;
    *end = '\0';
  }
}

/* /proc/self/cgroup has a line "number:controllers:path" a hierarchy; version 2's is "0::path". */
static void look_at_control_groups(const char *root, neap_available *out) {
  char path[PATH_LIMIT], text[FILE_LIMIT], *rest;
  snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  if (!read_text(path, text)) return;
  for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
    char *controllers = strchr(line, ':'), *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL) continue;
    *group++ = '\0';
    if (strstr(controllers, "memory") != NULL) look_at_groups(root, &version_1, group, out);
    if (controllers[1] == '\0') look_at_groups(root, &version_2, group, out);
  }
}

/* ---- The process's own limits ---- */

static void look_at_limit(const char *root, int which, const char *field, const char *named,
                          neap_available *out) {
  struct rlimit limit;
  char path[PATH_LIMIT], text[FILE_LIMIT];
  uint64_t used;
  snprintf(path, sizeof path, "%s/proc/self/status", root);
  if (getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  if (!read_text(path, text) || !find_number(text, field, &used)) return;
  lower_to(out, rest_of(limit.rlim_cur, used * 1024), named);
}

neap_status available_memory_read(const char *root, neap_available *out) {
  char path[PATH_LIMIT], text[FILE_LIMIT];
  uint64_t number;
  *out = (neap_available){.limit = "the machine"};
  snprintf(path, sizeof path, "%s/proc/meminfo", root);
  RETURN_IF(!read_text(path, text) || !find_number(text, "MemAvailable", &number), NEAP_UNSUPPORTED,
            "budget 'available': %s does not say how much memory is available; give a size", path);
  out->free_bytes = number > UINT64_MAX / 1024 ? UINT64_MAX : number * 1024;
  look_at_control_groups(root, out);
  look_at_limit(root, RLIMIT_AS, "VmSize", "ulimit -v", out);
  look_at_limit(root, RLIMIT_DATA, "VmData", "ulimit -d", out);
  out->margin_bytes = (uint64_t)(margin_share * (double)out->free_bytes);
  out->bytes = out->free_bytes - out->margin_bytes;
  return NEAP_OK;
}

neap_status neap_memory_available(neap_available *out) {
  NEED(out);
  return available_memory_read("", out);
}

neap_status available_memory_settle(neap_session_options *options, neap_available *told) {
  neap_available found = {0};
  if (told != NULL) *told = found;
  if (options->budget != NEAP_BUDGET_AVAILABLE || options->budget_fraction > 0) return NEAP_OK;
  TRY(available_memory_read("", &found));
  options->budget = NEAP_BUDGET_MAX;
  options->process_budget = memory_status_read().resident_bytes + found.bytes;
  if (told != NULL) *told = found;
  return NEAP_OK;
}

/* ---- A run ---- */

void memory_watch_begin(struct memory_watch *watch, const neap_available *found) {
  *watch = (struct memory_watch){.found = *found};
  if (found->bytes == 0) return;
  watch->swapped = memory_status_read().swapped_bytes;
  watch->looked = clock_seconds();
}

bool memory_is_short(const struct memory_watch *watch, uint64_t swapped, uint64_t free_bytes) {
  return watch->found.bytes > 0 && (swapped > watch->swapped || free_bytes < watch->found.margin_bytes / 4);
}

neap_status memory_watch_check(struct memory_watch *watch) {
  neap_available now;
  const double time = clock_seconds();
  if (watch->found.bytes == 0 || time - watch->looked < 1) return NEAP_OK;
  watch->looked = time;
  if (available_memory_read("", &now) != NEAP_OK) return NEAP_OK;
  const uint64_t swapped = memory_status_read().swapped_bytes;
  if (!memory_is_short(watch, swapped, now.free_bytes)) return NEAP_OK;
  return neap_fail(NEAP_OUT_OF_MEMORY,
                   "memory has become short: %" PRIu64
                   " bytes of this process are swapped out, and %s has %" PRIu64
                   " bytes free; free some, or go on with a smaller budget",
                   swapped, now.limit, now.free_bytes);
}
