#include "data/image_parts.h"

#include <string.h>
#include <strings.h>

#include "base/file.h"

/* The names of a part in the order in which they are looked for. */
struct part_names {
  const char *names[5]; /* up to NULL */
};
static const struct part_names training = {{"train"}}, testing = {{"val", "validation", "valid", "test"}},
                               first_testing = {{"val", "test"}};
/* Names that are parts only beside one of the other part: alone they may be classes. */
static const struct part_names beside_testing = {{"training"}}, beside_training = {{"testing", "evaluation"}};

static const struct part_names *names_of_test(const struct source *source) {
  return source->reading == READING_FIRST ? &first_testing : &testing;
}

static bool is_named(const struct source *source, const char *folder, const char *name) {
  return source->reading == READING_FIRST ? strcmp(folder, name) == 0 : strcasecmp(folder, name) == 0;
}

static bool is_part(const struct source *source, const char *folder, const struct part_names *part) {
  const char *const *name = part->names;
  while (*name != NULL && !is_named(source, folder, *name)) name++;
  return *name != NULL;
}

/* Finds the folder that has the first of these names; *found is NULL if none has. */
static neap_status find_part(const struct source *source, const char *folder, const class_names *folders,
                             const struct part_names *part, const char **found) {
  *found = NULL;
  for (const char *const *name = part->names; *name != NULL && *found == NULL; name++)
    for (size_t i = 0; i < folders->count; i++) {
      if (!is_named(source, folders->data[i], *name)) continue;
      RETURN_IF(*found != NULL, NEAP_BAD_FORMAT,
                "%s: has two folders for one part, '%s' and '%s'; rename one", folder, *found,
                folders->data[i]);
      *found = folders->data[i];
    }
  return NEAP_OK;
}

static neap_status tell(struct source *source, const char *object, const char *became, const char *why) {
  return understood_add(&source->understood, &source->region, (neap_understood){object, became, -1, why});
}

static neap_status path_in(struct source *source, const char *folder, const char *name, const char **path) {
  *path = region_format(&source->region, "%s/%s", folder, name);
  RETURN_IF_NULL(*path);
  return NEAP_OK;
}

/* Tells of the folders beside the parts. */
static neap_status tell_beside(struct source *source, const class_names *folders, const char *train,
                               const char *test) {
  for (size_t i = 0; i < folders->count; i++) {
    const char *name = folders->data[i];
    if (name == train || name == test) continue;
    const bool part = is_part(source, name, &testing);
    const char *why = part ? region_format(&source->region, ",test=%s takes it instead", name) : NULL;
    RETURN_IF(part && why == NULL, NEAP_OUT_OF_MEMORY, "out of memory for the parts of a folder");
    TRY(tell(source, name, part ? "another test part, left out" : "folders beside the parts, left out", why));
  }
  return NEAP_OK;
}

/* Finds the parts among the folders, if one of them is the training part. */
static neap_status find_parts(struct source *source, const char *folder, const char *asked,
                              const class_names *folders, struct image_parts *parts) {
  const struct part_names asked_name = {{asked}};
  const char *train, *test;
  TRY(find_part(source, folder, folders, &training, &train));
  TRY(find_part(source, folder, folders, asked != NULL ? &asked_name : names_of_test(source), &test));
  if (source->reading != READING_FIRST) {
    if (test == NULL && asked == NULL) TRY(find_part(source, folder, folders, &beside_training, &test));
    if (test != NULL && train == NULL) TRY(find_part(source, folder, folders, &beside_testing, &train));
  }
  parts->divided = train != NULL;
  if (!parts->divided) return NEAP_OK;
  RETURN_IF(test == NULL && asked != NULL, NEAP_IO_FAILED, "%s/%s: is not a folder", folder, asked);
  TRY(path_in(source, folder, train, &parts->train));
  if (test != NULL) TRY(path_in(source, folder, test, &parts->test));
  return tell_beside(source, folders, train, test);
}

neap_status image_parts_find(struct source *source, const char *folder, const char *asked,
                             struct image_parts *parts) {
  class_names folders = {0};
  *parts = (struct image_parts){.train = folder};
  neap_status status = image_folders_classes(folder, &source->region, &folders, &source->problems);
  if (status == NEAP_OK) status = find_parts(source, folder, asked, &folders, parts);
  vector_free(&folders);
  if (!parts->divided) source->problems.list.count = 0; /* they are found again with the classes */
  return status;
}

/* Returns true if one of the folders in a folder has the name of a class that is no part. */
static neap_status has_classes(struct source *source, const char *path, const class_names *classes,
                               bool *has) {
  *has = false;
  for (size_t i = 0; i < classes->count && !*has; i++) {
    const char *inner;
    if (is_part(source, classes->data[i], &testing)) continue;
    TRY(path_in(source, path, classes->data[i], &inner));
    *has = file_is_folder(inner);
  }
  return NEAP_OK;
}

/* Moves the folders that are parts out of the classes: those named like one that have folders of the classes,
 * and the one that is asked for. */
static neap_status move_parts(struct source *source, const char *folder, const struct part_names *wanted,
                              bool asked, class_names *classes, class_names *parts) {
  size_t kept = 0;
  for (size_t i = 0; i < classes->count; i++) {
    const char *name = classes->data[i], *path;
    bool part = is_part(source, name, wanted);
    if (part && !asked) {
      TRY(path_in(source, folder, name, &path));
      TRY(has_classes(source, path, classes, &part));
      if (!part) TRY(tell(source, name, "a class, though it is named like a part", NULL));
    }
    if (part)
      TRY(vector_push(parts, name));
    else
      classes->data[kept++] = name;
  }
  classes->count = kept;
  return NEAP_OK;
}

/* Finds the test part among the classes. */
static neap_status split_classes(struct source *source, const char *folder, const char *asked,
                                 class_names *inner, struct image_parts *parts, class_names *classes) {
  const struct part_names asked_name = {{asked}}, *wanted = asked != NULL ? &asked_name : &testing;
  const char *test;
  size_t named = 0;
  for (size_t i = 0; i < classes->count; i++) named += is_part(source, classes->data[i], &testing);
  RETURN_IF(named == classes->count && named > 0, NEAP_BAD_FORMAT,
            "%s: has no folder 'train', only '%s'; name the training part train, or give a folder of classes",
            folder, classes->data[0]);
  TRY(move_parts(source, folder, wanted, asked != NULL, classes, inner));
  TRY(find_part(source, folder, inner, wanted, &test));
  RETURN_IF(test == NULL && asked != NULL, NEAP_IO_FAILED, "%s/%s: is not a folder", folder, asked);
  if (test != NULL) TRY(path_in(source, folder, test, &parts->test));
  return tell_beside(source, inner, NULL, test);
}

neap_status image_parts_take_classes(struct source *source, const char *folder, const char *asked,
                                     struct image_parts *parts, class_names *classes) {
  class_names inner = {0};
  TRY(image_folders_classes(parts->train, &source->region, classes, &source->problems));
  if (parts->divided || source->reading == READING_FIRST) return NEAP_OK;
  const neap_status status = split_classes(source, folder, asked, &inner, parts, classes);
  vector_free(&inner);
  return status;
}
