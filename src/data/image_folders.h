/* Finds pictures in folders, one folder per class. */
#ifndef NEAP_DATA_IMAGE_FOLDERS_H
#define NEAP_DATA_IMAGE_FOLDERS_H

#include "base/region.h"
#include "base/vector.h"
#include "data/problems.h"

struct image_file {
  const char *path, *name; /* name: the part of path after its last slash */
  int32_t label;           /* -1: no class */
};

typedef VECTOR(struct image_file) image_files;
typedef VECTOR(const char *) class_names;

/* Lists the folders in a folder, in the order of their names: they are the classes. Names that begin with a
 * point are left out. Names that are not UTF-8 are added to the problems. */
neap_status image_folders_classes(const char *folder, struct region *region, class_names *classes,
                                  struct problems *problems);

/* Adds the pictures of a folder and of all folders in it: files that end with .png, .jpg or .jpeg in any
 * case. Other files are ignored. Problems: a link that leads back to a folder above it, a name that is not
 * UTF-8, anything that cannot be read. */
neap_status image_folders_files(const char *folder, int32_t label, struct region *region, image_files *files,
                                struct problems *problems);

/* Sorts by file name, then by path. */
void image_folders_sort(image_files *files);

/* Returns true if the folder exists; image_folders_has_pictures, if it directly contains a picture. */
bool image_folders_exists(const char *folder);
bool image_folders_has_pictures(const char *folder);

#endif
