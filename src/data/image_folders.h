/* Folders of pictures: a folder a class. */
#ifndef NEAP_DATA_IMAGE_FOLDERS_H
#define NEAP_DATA_IMAGE_FOLDERS_H

#include "base/region.h"
#include "base/vector.h"
#include "data/problems.h"

struct image_file {
  const char *path, *name; /* name: what follows the last slash of path */
  int32_t label;           /* -1: it is of no class */
};

typedef VECTOR(struct image_file) image_files;
typedef VECTOR(const char *) class_names;

/* Lists the folders in a folder, in the order of their names: the classes. Those whose names begin with a
 * point do not count. Names that are not UTF-8 are problems. */
neap_status image_folders_classes(const char *folder, struct region *region, class_names *classes,
                                  struct problems *problems);

/* Adds the pictures below a folder, those of its folders too, by the endings .png, .jpg and .jpeg in any
 * case. What has another ending is no picture. Problems: a link that leads back to a folder above it, a name
 * that is not UTF-8, what cannot be read. */
neap_status image_folders_files(const char *folder, int32_t label, struct region *region, image_files *files,
                                struct problems *problems);

/* In the order of their names, then of their paths. */
void image_folders_sort(image_files *files);

/* Whether there is such a folder; and one with a picture directly in it. */
bool image_folders_exists(const char *folder);
bool image_folders_has_pictures(const char *folder);

#endif
