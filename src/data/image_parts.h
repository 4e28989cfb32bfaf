/* Finds the parts of a folder of pictures by the names of its folders. */
#ifndef NEAP_DATA_IMAGE_PARTS_H
#define NEAP_DATA_IMAGE_PARTS_H

#include "data/image_folders.h"

struct image_parts {
  const char *train, *test; /* folders; test NULL: a part of train is held out */
  bool divided;             /* there is a folder train; else train is the whole folder */
};

/* Finds the training part, the folder train, and the test part: `asked`, else val, validation, valid or test,
 * the first that is there; in any case. Other folders beside them are left out, and told. Without train the
 * whole folder is the training part. NEAP_BAD_FORMAT: two folders have one name. NEAP_IO_FAILED: there is no
 * folder `asked`. */
neap_status image_parts_find(struct source *source, const char *folder, const char *asked,
                             struct image_parts *parts);

/* Lists the classes: the folders of the training part. Where that is the whole folder, one with the name of a
 * test part is that part if it has folders of the other classes; else it is a class, and told.
 * NEAP_BAD_FORMAT: there are only test parts. */
neap_status image_parts_take_classes(struct source *source, const char *folder, const char *asked,
                                     struct image_parts *parts, class_names *classes);

#endif
