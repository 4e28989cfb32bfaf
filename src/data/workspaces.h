/* Memory that a thread needs to read a picture: the file's bytes, pixels, a resizer. There is one workspace
 * per thread that reads at once; a thread that finds none free waits. */
#ifndef NEAP_DATA_WORKSPACES_H
#define NEAP_DATA_WORKSPACES_H

#include "picture/picture.h"
#include "picture/resize.h"

struct workspace {
  uint8_t *file;
  size_t file_capacity;
  struct picture picture;
  struct resizer resizer;
  struct workspace *next; /* next free workspace */
};

/* The most memory that any picture needs. */
struct workspace_size {
  size_t file, pixels, spare; /* spare: to turn pixels */
  int64_t height, width;
};

struct workspaces;

/* Creates `count` workspaces, whose pictures are held upright, or are as_stored. Free with workspaces_free,
 * which takes NULL. */
neap_status workspaces_create(int count, bool as_stored, struct workspaces **workspaces);
void workspaces_free(struct workspaces *workspaces);

/* Takes a workspace, which nobody else has until it is given back. */
struct workspace *workspaces_take(struct workspaces *workspaces);
void workspaces_give(struct workspaces *workspaces, struct workspace *workspace);

/* Makes room for a file. */
neap_status workspace_reserve_file(struct workspace *workspace, const char *path, uint64_t bytes);

/* Makes room in every workspace for any picture and for its resizing to `height` x `width`. Touches that
 * memory, so that the system counts it now. */
neap_status workspaces_reserve(struct workspaces *workspaces, const struct workspace_size *most,
                               int64_t height, int64_t width);

#endif
