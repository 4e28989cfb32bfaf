/* What threads need to read a picture: a file's bytes, pixels, a resizer. There are as many as threads that
 * read at once; one that finds none waits. */
#ifndef NEAP_DATA_WORKSPACES_H
#define NEAP_DATA_WORKSPACES_H

#include "data/picture.h"
#include "data/resize.h"

struct workspace {
  uint8_t *file;
  size_t file_capacity;
  struct picture picture;
  struct resizer resizer;
  struct workspace *next; /* that is free, too */
};

/* The most that any picture needs. */
struct workspace_size {
  size_t file, pixels;
  int64_t height, width;
};

struct workspaces;

/* Free with workspaces_free, which takes NULL. */
neap_status workspaces_create(int count, struct workspaces **workspaces);
void workspaces_free(struct workspaces *workspaces);

/* A workspace that nobody else has until it is given back. */
struct workspace *workspaces_take(struct workspaces *workspaces);
void workspaces_give(struct workspaces *workspaces, struct workspace *workspace);

/* Makes room for a file. */
neap_status workspace_reserve_file(struct workspace *workspace, const char *path, uint64_t bytes);

/* Makes room in all of them for any picture, in records of that size, and touches it, so that the system
 * counts it now. */
neap_status workspaces_reserve(struct workspaces *workspaces, const struct workspace_size *most,
                               int64_t height, int64_t width);

#endif
