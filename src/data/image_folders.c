#include "data/image_folders.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/file.h"
#include "picture/picture.h"
#include "text/utf8.h"

enum { DEEPEST = 32 };

/* The folders from the first one down to the current one, to find links that lead back. */
struct walk {
  struct source *source;
  image_files *files;
  endings_left_out *left_out;
  class_names *inner; /* the folders that lie in the first one; NULL: not asked for */
  int32_t label;
  struct {
    dev_t device;
    ino_t number;
  } above[DEEPEST];
  int depth;
};

static neap_status add_problem(struct problems *problems, struct region *region, neap_status status) {
  return problems_add(problems, region, (int64_t)problems->list.count, status);
}

/* Gives a name as it may be in a message: bytes that are not printable ASCII become \xNN. */
static const char *readable(const char *name, char text[], size_t size) {
  size_t length = 0;
  for (; *name != '\0' && length + 5 < size; name++) {
    const unsigned char c = (unsigned char)*name;
    length += (size_t)snprintf(text + length, size - length, c >= ' ' && c < 0x7F ? "%c" : "\\x%02x", c);
  }
  text[length] = '\0';
  return text;
}

static bool is_utf8(const char *name) {
  return utf8_check(&(struct text){.bytes = name, .length = strlen(name), .name = "name"}) == NEAP_OK;
}

static neap_status check_name(const char *folder, const char *name) {
  char text[512];
  return is_utf8(name) ? NEAP_OK
                       : neap_fail(NEAP_BAD_FORMAT, "%s/%s: its name is not UTF-8; rename it", folder,
                                   readable(name, text, sizeof text));
}

/* ---- Endings ---- */

/* Endings of pictures that some build reads, or none; of other files nobody expects that they are read. */
static const char *const pictures[] = {".png", ".jpg", ".jpeg", ".jpe",  ".jfif", ".webp", ".tif", ".tiff",
                                       ".gif", ".bmp", ".heic", ".heif", ".avif", ".jp2",  ".jxl", ".svg",
                                       ".psd", ".ppm", ".pgm",  ".tga",  ".dng",  ".cr2",  ".nef", ".arw"};
enum { PICTURES = sizeof pictures / sizeof *pictures, FIRST_READ = 3 }; /* by READING_FIRST */

/* Returns the ending of a file's name with its point; "" if it has none. */
static const char *ending_of(const char *name) {
  const char *point = strrchr(name, '.');
  return point != NULL && point != name ? point : "";
}

/* Returns true if an ending is one of the first `count` in the list. */
static bool is_listed(const char *ending, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (strcasecmp(ending, pictures[i]) == 0) return true;
  return false;
}

static bool is_read(enum reading_rules reading, const char *name) {
  const char *ending = ending_of(name);
  return reading == READING_FIRST ? is_listed(ending, FIRST_READ) : picture_is_read(ending);
}

static neap_status count_left_out(struct region *region, const char *path, const char *name,
                                  endings_left_out *left_out) {
  char text[32];
  const char *ending = readable(ending_of(name), text, sizeof text);
  for (size_t i = 0; i < left_out->count; i++)
    if (strcasecmp(left_out->data[i].ending, ending) == 0) {
      left_out->data[i].count++;
      return NEAP_OK;
    }
  for (char *c = text; *c != '\0'; c++) *c = (char)tolower((unsigned char)*c);
  const char *kept = region_string(region, text);
  RETURN_IF_NULL(kept);
  return vector_push(left_out, (struct left_out){kept, path, 1});
}

neap_status image_folders_tell(struct source *source, const endings_left_out *left_out) {
  char text[256];
  for (size_t i = 0; i < left_out->count; i++) {
    const struct left_out *l = &left_out->data[i];
    const char *object = *l->ending != '\0' ? l->ending : "no ending", *why;
    if (!is_listed(l->ending, PICTURES)) {
      TRY(understood_add(&source->understood, &source->region,
                         (neap_understood){object, "other files, left out", l->count, NULL}));
      continue;
    }
    why = region_format(&source->region, "such as %s; %s", readable(l->first, text, sizeof text),
                        picture_is_read(l->ending) ? "this run began before they were read"
                                                   : "convert them to PNG or JPEG");
    RETURN_IF_NULL(why);
    TRY(understood_add(&source->understood, &source->region,
                       (neap_understood){object, "pictures that are not read, left out", l->count, why}));
  }
  return NEAP_OK;
}

/* Lists a folder in the order of names; names that begin with a point are left out. */
static neap_status list(const char *folder, struct region *region, class_names *names) {
  DIR *entries = opendir(folder);
  RETURN_IF(entries == NULL, NEAP_IO_FAILED, "%s: cannot be read: %s", folder, strerror(errno));
  neap_status status = NEAP_OK;
  errno = 0;
  for (const struct dirent *entry; status == NEAP_OK && (entry = readdir(entries)) != NULL; errno = 0) {
    if (entry->d_name[0] == '.') continue;
    const char *name = region_string(region, entry->d_name);
    status = name != NULL ? vector_push(names, name) : NEAP_OUT_OF_MEMORY;
    if (status != NEAP_OK) status = neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", folder);
  }
  if (status == NEAP_OK && errno != 0)
    status = neap_fail(NEAP_IO_FAILED, "%s: cannot be read: %s", folder, strerror(errno));
  closedir(entries);
  return status;
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

neap_status image_folders_count(struct source *source, const char *folder, int64_t *count) {
  class_names names = {0};
  const neap_status status = list(folder, &source->region, &names);
  *count = 0;
  for (size_t i = 0; i < names.count; i++) *count += is_listed(ending_of(names.data[i]), PICTURES);
  vector_free(&names);
  return status;
}

/* ---- Classes ---- */

static neap_status take_class(const char *folder, const char *name, struct region *region,
                              class_names *classes, struct problems *problems) {
  const char *path = region_format(region, "%s/%s", folder, name);
  RETURN_IF_NULL(path);
  if (!file_is_folder(path)) return NEAP_OK;
  const neap_status status = check_name(folder, name);
  if (status != NEAP_OK) return add_problem(problems, region, status);
  return vector_push(classes, name);
}

neap_status image_folders_classes(const char *folder, struct region *region, class_names *classes,
                                  struct problems *problems) {
  class_names names = {0};
  neap_status status = list(folder, region, &names);
  for (size_t i = 0; i < names.count && status == NEAP_OK; i++)
    status = take_class(folder, names.data[i], region, classes, problems);
  vector_free(&names);
  if (classes->count > 0) qsort(classes->data, classes->count, sizeof *classes->data, by_text);
  return status;
}

/* ---- Files ---- */

static neap_status walk_folder(struct walk *w, const char *folder);

static neap_status enter(struct walk *w, const char *folder, const struct stat *found) {
  for (int i = 0; i < w->depth; i++)
    RETURN_IF(w->above[i].device == found->st_dev && w->above[i].number == found->st_ino, NEAP_BAD_FORMAT,
              "%s: is a link to a folder that contains it; remove it", folder);
  RETURN_IF(w->depth == DEEPEST, NEAP_UNSUPPORTED, "%s: is nested more than %d folders deep", folder,
            DEEPEST);
  w->above[w->depth].device = found->st_dev;
  w->above[w->depth++].number = found->st_ino;
  const neap_status status = walk_folder(w, folder);
  w->depth--;
  return status;
}

static neap_status take_file(struct walk *w, const char *folder, const char *name) {
  struct stat found;
  const char *path = region_format(&w->source->region, "%s/%s", folder, name);
  RETURN_IF_NULL(path);
  const bool there = stat(path, &found) == 0;
  const bool is_folder = there && S_ISDIR(found.st_mode);
  if (is_folder && w->inner != NULL && w->depth == 1) TRY(vector_push(w->inner, name));
  if (is_folder) return enter(w, path, &found);
  if (!is_read(w->source->reading, name)) return count_left_out(&w->source->region, path, name, w->left_out);
  RETURN_IF(!there, NEAP_IO_FAILED, "%s: cannot be read: %s; remove or repair it", path, strerror(errno));
  RETURN_IF(!S_ISREG(found.st_mode), NEAP_BAD_FORMAT, "%s: is not a regular file; remove it", path);
  TRY(check_name(folder, name));
  return vector_push(w->files, (struct image_file){path, path + strlen(folder) + 1, w->label});
}

static neap_status walk_folder(struct walk *w, const char *folder) {
  class_names names = {0};
  neap_status status = list(folder, &w->source->region, &names);
  if (names.count > 0) qsort(names.data, names.count, sizeof *names.data, by_text);
  for (size_t i = 0; i < names.count && status == NEAP_OK; i++) {
    status = take_file(w, folder, names.data[i]);
    if (status != NEAP_OK) status = add_problem(&w->source->problems, &w->source->region, status);
  }
  vector_free(&names);
  return status;
}

neap_status image_folders_files(struct source *source, const char *folder, int32_t label, image_files *files,
                                endings_left_out *left_out, class_names *inner) {
  struct walk w = {.source = source, .files = files, .left_out = left_out, .inner = inner, .label = label};
  struct stat found;
  RETURN_IF(stat(folder, &found) != 0, NEAP_IO_FAILED, "%s: cannot be read: %s", folder, strerror(errno));
  return enter(&w, folder, &found);
}

static int by_name(const void *a, const void *b) {
  const struct image_file *x = a, *y = b;
  const int order = strcmp(x->name, y->name);
  return order != 0 ? order : strcmp(x->path, y->path);
}

void image_folders_sort(image_files *files) {
  if (files->count > 0) qsort(files->data, files->count, sizeof *files->data, by_name);
}
