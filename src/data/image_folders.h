/* Finds pictures in folders, one folder per class. */
#ifndef NEAP_DATA_IMAGE_FOLDERS_H
#define NEAP_DATA_IMAGE_FOLDERS_H

#include "base/region.h"
#include "base/vector.h"
#include "data/problems.h"
#include "data/source.h"

struct image_file {
  const char *path, *name; /* name: the part of path after its last slash */
  int32_t label;           /* -1: no class */
};

/* Files of one ending that are not read. */
struct left_out {
  const char *ending, *first; /* in small letters, or "" ; the path of the first file */
  int64_t count;
};

typedef VECTOR(struct image_file) image_files;
typedef VECTOR(struct left_out) endings_left_out;
typedef VECTOR(const char *) class_names;

/* Lists the folders in a folder, in the order of their names: they are the classes. Names that begin with a
 * point are left out. Names that are not UTF-8 are added to the problems. */
neap_status image_folders_classes(const char *folder, struct region *region, class_names *classes,
                                  struct problems *problems);

/* Adds the pictures of a folder and of all folders in it: files of an ending that is read, in any case. Other
 * files are counted by their ending. Appends the folders that lie in this one to `inner`, in the order of
 * their names; NULL: they are not asked for. Problems, which the source gets: a link that leads back to a
 * folder above it, a name that is not UTF-8, anything that cannot be read. */
neap_status image_folders_files(struct source *source, const char *folder, int32_t label, image_files *files,
                                endings_left_out *left_out, class_names *inner);

/* Counts the pictures that lie directly in a folder. */
neap_status image_folders_count(struct source *source, const char *folder, int64_t *count);

/* Adds the files that were left out to the source's report. */
neap_status image_folders_tell(struct source *source, const endings_left_out *left_out);

/* Sorts by file name, then by path. */
void image_folders_sort(image_files *files);

#endif
