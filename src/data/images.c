/* Reads folders of pictures as data: "images:DIR[,size=N|HxW][,test=FOLDER][,holdout=0.1][,seed=0]". DIR
 * contains a folder train, in which each class has a folder of PNG and JPEG files, and a folder val,
 * validation, valid or test; or DIR contains the folders of classes itself, and a part is held out. Pictures
 * may have any size; records are in the order of file names, across classes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "data/encoding.h"
#include "data/holdout.h"
#include "data/image_folders.h"
#include "data/image_parts.h"
#include "data/picture_crop.h"
#include "data/readers.h"
#include "data/statistics.h"
#include "data/workspaces.h"
#include "picture/picture.h"

/* The words of the source's name. */
struct words {
  const char *folder, *size, *test, *holdout, *seed; /* NULL: not given */
};

struct images {
  image_files files[SPLITS];
  endings_left_out left_out;
  class_names classes;
  const char *folder;
  struct workspaces *workspaces;
};

/* ---- Reading ---- */

static neap_status load_file(const char *path, struct workspace *w, size_t *size) {
  uint64_t bytes;
  int file;
  TRY(file_open(path, &file, &bytes));
  neap_status status = workspace_reserve_file(w, path, bytes);
  if (status == NEAP_OK) status = file_need_at(path, file, 0, w->file, (size_t)bytes);
  close(file);
  *size = (size_t)bytes;
  return status;
}

/* Writes a picture as the source's planes [C, H, W]. */
static neap_status put_picture(const struct source *source, struct workspace *w, const struct draw *draw,
                               int64_t record, uint8_t *out) {
  const int64_t *image = source->fields[0].dims;
  const size_t plane = (size_t)(image[1] * image[2]);
  struct box box;
  struct target target;
  if (image[0] == 1) picture_to_grey(&w->picture);
  if (draw->augment)
    crop_at_random(w->picture.height, w->picture.width, image[1], image[2], draw, record, &box, &target);
  else
    crop_centre(w->picture.height, w->picture.width, image[1], image[2], &box, &target);
  TRY(resize_box(&w->resizer, &w->picture, box, &target, out));
  for (int64_t c = w->picture.channels; c < image[0]; c++) memcpy(out + (size_t)c * plane, out, plane);
  return NEAP_OK;
}

static neap_status read_record(const struct source *source, enum split split, int64_t record,
                               const struct draw *draw, void *const *fields, int64_t *lengths) {
  (void)lengths;
  const struct images *images = source->context;
  const struct image_file *file = &images->files[split].data[record];
  if (fields[1] != NULL) *(int32_t *)fields[1] = file->label;
  if (fields[0] == NULL) return NEAP_OK;
  struct workspace *w = workspaces_take(images->workspaces);
  size_t size;
  neap_status status = load_file(file->path, w, &size);
  if (status == NEAP_OK) status = picture_decode(file->path, w->file, size, &w->picture);
  if (status == NEAP_OK) status = put_picture(source, w, draw, record, fields[0]);
  workspaces_give(images->workspaces, w);
  return status;
}

static const char *record_name(const struct source *source, enum split split, int64_t record) {
  const struct images *images = source->context;
  const char *path = images->files[split].data[record].path;
  return path + strlen(images->folder) + 1;
}

static void close_images(struct source *source) {
  struct images *images = source->context;
  for (int i = 0; i < SPLITS; i++) vector_free(&images->files[i]);
  vector_free(&images->classes);
  vector_free(&images->left_out);
  workspaces_free(images->workspaces);
}

/* ---- Sizes ---- */

/* The sizes that the headers of all pictures state. */
struct sizes {
  int64_t height, width; /* of all; 0: they differ; -1: none was seen */
  int64_t least[2];      /* height and width */
  bool coloured;
  int64_t turned; /* pictures that are not stored upright */
  struct workspace_size most;
};

static void add_size(struct sizes *all, const struct picture *p, size_t file_bytes) {
  const size_t pixels = (size_t)(p->height * p->width * p->channels);
  if (all->height < 0) all->height = p->height, all->width = p->width;
  if (all->height != p->height || all->width != p->width) all->height = all->width = 0;
  if (all->least[0] == 0 || p->height < all->least[0]) all->least[0] = p->height;
  if (all->least[1] == 0 || p->width < all->least[1]) all->least[1] = p->width;
  all->coloured = all->coloured || p->channels > 1;
  if (all->most.file < file_bytes) all->most.file = file_bytes;
  if (all->most.pixels < pixels) all->most.pixels = pixels;
  all->turned += p->orientation != 1;
  if (all->most.spare < p->spare_bytes) all->most.spare = p->spare_bytes;
  if (all->most.height < p->height) all->most.height = p->height;
  if (all->most.width < p->width) all->most.width = p->width;
}

/* Reads a picture's header; decodes all of it if `sizes` is NULL. */
static neap_status look_at_file(const struct images *images, const char *path, struct sizes *sizes) {
  struct workspace *w = workspaces_take(images->workspaces);
  size_t size;
  neap_status status = load_file(path, w, &size);
  if (status == NEAP_OK && sizes == NULL) status = picture_decode(path, w->file, size, &w->picture);
  if (status == NEAP_OK && sizes != NULL) status = picture_measure(path, w->file, size, &w->picture);
#pragma omp critical(sizes)
  if (status == NEAP_OK && sizes != NULL) add_size(sizes, &w->picture, size);
  workspaces_give(images->workspaces, w);
  return status;
}

/* Reads all pictures; damaged ones are added to the problems. */
static neap_status look_at_all(struct source *source, struct sizes *sizes) {
  const struct images *images = source->context;
  struct ending first = {0};
  for (int s = 0; s < SPLITS; s++) {
    const int64_t before = s == SPLIT_TRAIN ? 0 : (int64_t)images->files[SPLIT_TRAIN].count;
#pragma omp parallel for num_threads(source_threads(source)) schedule(dynamic)
    for (int64_t i = 0; i < (int64_t)images->files[s].count; i++) {
      neap_status status = look_at_file(images, images->files[s].data[i].path, sizes);
      status = problems_add(&source->problems, &source->region, before + i, status);
      if (status == NEAP_OK) continue;
#pragma omp critical(ending)
      if (first.status == NEAP_OK) ending_keep(&first, status);
    }
  }
  return ending_tell(&first);
}

/* Reads the headers of all pictures. If one is damaged, decodes all of them, so that each damaged one is
 * named. */
static neap_status measure_all(struct source *source, struct sizes *sizes) {
  const struct sizes none = *sizes;
  TRY(look_at_all(source, sizes));
  if (source->problems.list.count == 0) return NEAP_OK;
  source->problems.list.count = 0;
  TRY(look_at_all(source, NULL));
  if (source->problems.list.count > 0) return NEAP_OK;
  *sizes = none; /* the disk failed for a moment */
  return look_at_all(source, sizes);
}

/* Reads "64" or "48x64", height by width. */
static neap_status read_size(const char *text, int64_t *height, int64_t *width) {
  char *end;
  *height = *width = strtoll(text, &end, 10);
  bool good = end != text;
  if (good && *end == 'x') {
    const char *second = end + 1;
    *width = strtoll(second, &end, 10);
    good = end != second;
  }
  RETURN_IF(!good || *end != '\0' || *height < 1 || *width < 1 || *height > SOURCE_MAX_SIDE ||
                *width > SOURCE_MAX_SIDE,
            NEAP_INVALID_ARGUMENT, "data 'images': size=%s must be a side or HEIGHTxWIDTH, each from 1 to %d",
            text, SOURCE_MAX_SIDE);
  return NEAP_OK;
}

/* Chooses the size of records: that of the name, else of --image, else the one that all pictures have, else
 * the model's. */
static neap_status choose_image(const struct source *source, const struct words *words,
                                const struct sizes *sizes, int64_t image[3]) {
  const struct encoding *encoding = source->task.encoding;
  if (encoding != NULL && encoding->rank == 3) {
    memcpy(image, encoding->shape, 3 * sizeof *image);
    RETURN_IF(image[0] != 1 && image[0] != 3, NEAP_UNSUPPORTED,
              "data 'images': images have 1 or 3 channels, but the model was trained with %lld",
              (long long)image[0]);
    return NEAP_OK;
  }
  const struct task *task = &source->task;
  const int64_t *asked = task->asked_image;
  image[0] = asked[0] > 0 ? asked[0] : sizes->coloured ? 3 : 1;
  RETURN_IF(image[0] != 1 && image[0] != 3, NEAP_INVALID_ARGUMENT,
            "data 'images': images have 1 or 3 channels (got %lld)", (long long)image[0]);
  if (words->size != NULL) return read_size(words->size, &image[1], &image[2]);
  image[1] = asked[1] > 0 ? asked[1] : sizes->height > 0 ? sizes->height : task->image[1];
  image[2] = asked[2] > 0 ? asked[2] : sizes->width > 0 ? sizes->width : task->image[2];
  RETURN_IF(image[1] == 0 || image[2] == 0, NEAP_INVALID_ARGUMENT,
            "%s: its pictures differ in size; give a size, as images:%s,size=224", words->folder,
            words->folder);
  RETURN_IF(image[1] > SOURCE_MAX_SIDE || image[2] > SOURCE_MAX_SIDE, NEAP_UNSUPPORTED,
            "%s: its pictures are %lldx%lld; records have at most %d pixels a side: images:%s,size=224 "
            "shrinks them",
            words->folder, (long long)image[2], (long long)image[1], SOURCE_MAX_SIDE, words->folder);
  return NEAP_OK;
}

/* ---- Folders ---- */

struct others {
  char text[160];
};

/* Writes ", but 12 .webp, 3 .heic": the files that were left out, but for those of `before`, `known` endings
 * of the same list. */
static struct others others_text(const struct images *images, const struct left_out *before, size_t known) {
  struct others others = {""};
  size_t length = 0;
  for (size_t i = 0; i < images->left_out.count && length < sizeof others.text; i++) {
    const struct left_out *row = &images->left_out.data[i];
    const int64_t count = row->count - (i < known ? before[i].count : 0);
    if (count == 0) continue;
    length += (size_t)snprintf(others.text + length, sizeof others.text - length, "%s %lld %s",
                               length == 0 ? ", but" : ",", (long long)count,
                               row->ending[0] != '\0' ? row->ending : "without an ending");
  }
  return others;
}

/* The folders in the folder of a class, and in the last one before it that had any. */
struct inner_folders {
  class_names now, before;
};

static bool are_alike(const class_names *a, const class_names *b) {
  size_t i = 0;
  while (i < a->count && i < b->count && strcmp(a->data[i], b->data[i]) == 0) i++;
  return i == a->count && i == b->count;
}

/* Tells of the folders in the folder of a class, whose pictures are those of the class. */
static neap_status tell_inner(struct source *source, const char *name, struct inner_folders *inner) {
  const class_names *now = &inner->now;
  if (now->count == 0) return NEAP_OK;
  const char *became = region_format(&source->region, "a class, with all pictures in its folders %s%s%s%s",
                                     now->data[0], now->count > 1 ? ", " : "",
                                     now->count > 1 ? now->data[1] : "", now->count > 2 ? " and others" : "");
  RETURN_IF_NULL(became);
  const char *why =
      are_alike(now, &inner->before)
          ? "as in the class before it; if these are parts of the data, name them train and test"
          : NULL;
  const class_names former = inner->before;
  inner->before = inner->now;
  inner->now = former;
  return understood_add(&source->understood, &source->region,
                        (neap_understood){name, became, (int64_t)inner->before.count, why});
}

/* Lists the pictures of a class in a part. Pictures of the test part must be of the training classes. */
static neap_status list_class(struct source *source, const char *folder, size_t c, image_files *files,
                              struct inner_folders *inner) {
  struct images *images = source->context;
  const char *name = images->classes.data[c], *path = region_format(&source->region, "%s/%s", folder, name);
  const size_t before = files->count, known = images->left_out.count;
  const struct left_out *left_out =
      known > 0 ? region_copy(&source->region, images->left_out.data, known, sizeof *left_out) : NULL;
  RETURN_IF(path == NULL || (known > 0 && left_out == NULL), NEAP_OUT_OF_MEMORY, "%s: out of memory", folder);
  const bool training = files == &images->files[SPLIT_TRAIN];
  if (!training && !file_is_folder(path)) return NEAP_OK;
  inner->now.count = 0;
  TRY(image_folders_files(source, path, (int32_t)c, files, &images->left_out, &inner->now));
  if (training) TRY(tell_inner(source, name, inner));
  if (files->count > before || !training) return NEAP_OK;
  const neap_status empty =
      neap_fail(NEAP_BAD_FORMAT, "%s: has no pictures (%s)%s; add some or remove it", path,
                picture_endings().text, others_text(images, left_out, known).text);
  return problems_add(&source->problems, &source->region, (int64_t)c, empty);
}

static neap_status list_part(struct source *source, const char *folder, image_files *files) {
  const struct images *images = source->context;
  struct inner_folders inner = {{0}, {0}};
  neap_status status = NEAP_OK;
  for (size_t c = 0; c < images->classes.count && status == NEAP_OK; c++)
    status = list_class(source, folder, c, files, &inner);
  vector_free(&inner.now);
  vector_free(&inner.before);
  image_folders_sort(files);
  return status;
}

/* Fails if a folder of the test part is not a class of the training part. */
static neap_status check_test_classes(struct source *source, const char *folder) {
  struct images *images = source->context;
  class_names names = {0};
  neap_status status = image_folders_classes(folder, &source->region, &names, &source->problems);
  for (size_t i = 0; i < names.count && status == NEAP_OK; i++) {
    bool known = false;
    for (size_t c = 0; c < images->classes.count && !known; c++)
      known = strcmp(names.data[i], images->classes.data[c]) == 0;
    if (known) continue;
    status = neap_fail(NEAP_BAD_FORMAT, "%s/%s: is not a class of the training part; rename or remove it",
                       folder, names.data[i]);
    status = problems_add(&source->problems, &source->region, (int64_t)i, status);
  }
  vector_free(&names);
  return status;
}

/* Tells how many pictures a part has, and how many are in no folder of a class. */
static neap_status tell_part(struct source *source, const char *path, const char *became,
                             const image_files *files) {
  const struct images *images = source->context;
  const char *name = path + strlen(images->folder);
  int64_t beside;
  TRY(understood_add(&source->understood, &source->region,
                     (neap_understood){*name == '/' ? name + 1 : path, became, (int64_t)files->count, NULL}));
  TRY(image_folders_count(source, path, &beside));
  return beside == 0
             ? NEAP_OK
             : understood_add(&source->understood, &source->region,
                              (neap_understood){path, "pictures beside the folders of classes, left out",
                                                beside, "put each into the folder of its class"});
}

static neap_status list_folders(struct source *source, const struct image_parts *parts) {
  struct images *images = source->context;
  RETURN_IF(images->classes.count < 2, NEAP_BAD_FORMAT,
            "%s: has %s; it must have a folder of pictures for each class, two or more", parts->train,
            images->classes.count == 0 ? "no folders" : "one folder");
  source->classes = (int64_t)images->classes.count;
  source->class_names = images->classes.data;
  TRY(list_part(source, parts->train, &images->files[SPLIT_TRAIN]));
  TRY(tell_part(source, parts->train,
                parts->test != NULL ? "the training part" : "pictures, of which some are held out",
                &images->files[SPLIT_TRAIN]));
  if (parts->test == NULL) return NEAP_OK;
  TRY(check_test_classes(source, parts->test));
  TRY(list_part(source, parts->test, &images->files[SPLIT_TEST]));
  return tell_part(source, parts->test, "the test part", &images->files[SPLIT_TEST]);
}

/* Moves the held-out records to the test part. */
static neap_status hold_out(struct images *images, const bool *held) {
  image_files *train = &images->files[SPLIT_TRAIN], *test = &images->files[SPLIT_TEST];
  size_t kept = 0;
  for (size_t i = 0; i < train->count; i++) {
    if (held[i])
      TRY(vector_push(test, train->data[i]));
    else
      train->data[kept++] = train->data[i];
  }
  train->count = kept;
  return NEAP_OK;
}

/* Lists the pictures when there is an encoding: they are in one folder, of unknown class, or in folders of
 * their classes. All become test records. */
static neap_status list_known(struct source *source, const struct words *words, const struct encoding *e) {
  struct images *images = source->context;
  image_files *files = &images->files[SPLIT_TEST];
  source->classes = e->classes;
  source->class_names = e->class_names;
  bool folders = false;
  for (int64_t c = 0; c < e->classes && e->class_names != NULL && !folders; c++) {
    const char *path = region_format(&source->region, "%s/%s", words->folder, e->class_names[c]);
    RETURN_IF_NULL(path);
    folders = file_is_folder(path);
  }
  source->unlabelled = !folders;
  if (!folders) TRY(image_folders_files(source, words->folder, -1, files, &images->left_out, NULL));
  for (int64_t c = 0; c < e->classes && folders; c++) TRY(vector_push(&images->classes, e->class_names[c]));
  if (folders) TRY(list_part(source, words->folder, files));
  image_folders_sort(files);
  RETURN_IF(files->count == 0, NEAP_BAD_FORMAT, "%s: has no pictures (%s)%s", words->folder,
            picture_endings().text, others_text(images, NULL, 0).text);
  RETURN_IF(files->count > INT32_MAX, NEAP_TOO_LARGE, "%s: has more than %d pictures", words->folder,
            INT32_MAX);
  source->records[SPLIT_TEST] = (int64_t)files->count;
  return NEAP_OK;
}

/* Gives classes the numbers that they have in the model, if it has all of them. */
static neap_status take_labels(struct source *source) {
  struct images *images = source->context;
  const struct task *task = &source->task;
  struct task_labels labels = {0};
  if (task->texts != NULL && task->texts->read_labels != NULL)
    TRY(task->texts->read_labels(task->model, &source->region, &labels));
  int32_t *places = region_alloc(&source->region, images->classes.count, sizeof *places);
  RETURN_IF_NULL(places);
  for (size_t c = 0; c < images->classes.count; c++) {
    int64_t place = 0;
    while (place < labels.count && strcmp(labels.names[place], images->classes.data[c]) != 0) place++;
    if (place == labels.count) return NEAP_OK;
    places[c] = (int32_t)place;
  }
  for (int s = 0; s < SPLITS; s++)
    for (size_t i = 0; i < images->files[s].count; i++)
      images->files[s].data[i].label = places[images->files[s].data[i].label];
  source->classes = labels.count;
  source->class_names = labels.names;
  return NEAP_OK;
}

static neap_status settle_parts(struct source *source, const struct words *words) {
  struct images *images = source->context;
  bool *held;
  RETURN_IF(images->files[SPLIT_TRAIN].count == 0, NEAP_BAD_FORMAT,
            "%s: has no pictures (%s) in its folders%s", words->folder, picture_endings().text,
            others_text(images, NULL, 0).text);
  if (images->files[SPLIT_TEST].count == 0) {
    TRY(holdout_draw(source, words->holdout, words->seed, (int64_t)images->files[SPLIT_TRAIN].count, &held));
    TRY(hold_out(images, held));
  } else {
    RETURN_IF(words->holdout != NULL, NEAP_INVALID_ARGUMENT,
              "data 'images': holdout=%s has no effect, because %s has a test part; leave it out",
              words->holdout, words->folder);
  }
  for (int s = 0; s < SPLITS; s++) {
    RETURN_IF(images->files[s].count > INT32_MAX, NEAP_TOO_LARGE, "%s: has more than %d pictures",
              words->folder, INT32_MAX);
    source->records[s] = (int64_t)images->files[s].count;
  }
  return NEAP_OK;
}

/* ---- Opening ---- */

static neap_status open_images(struct source *source, const struct words *words) {
  struct images *images = source->context;
  struct sizes sizes = {.height = -1, .width = -1};
  int64_t image[3];
  struct image_parts parts;
  TRY(image_parts_find(source, words->folder, words->test, &parts));
  const bool known = source->task.encoding != NULL && !parts.divided;
  if (!known) TRY(image_parts_take_classes(source, words->folder, words->test, &parts, &images->classes));
  TRY(known ? list_known(source, words, source->task.encoding) : list_folders(source, &parts));
  TRY(image_folders_tell(source, &images->left_out));
  TRY(problems_tell(&source->problems, words->folder));
  if (!known) TRY(settle_parts(source, words));
  if (!known) TRY(take_labels(source));
  TRY(workspaces_create(source_threads(source), source->reading == READING_FIRST, &images->workspaces));
  TRY(measure_all(source, &sizes));
  if (sizes.turned > 0) { /* turning exchanges the two */
    if (sizes.most.spare < sizes.most.pixels) sizes.most.spare = sizes.most.pixels;
    sizes.most.pixels = sizes.most.spare;
  }
  TRY(problems_tell(&source->problems, words->folder));
  if (sizes.turned > 0)
    TRY(understood_add(&source->understood, &source->region,
                       (neap_understood){"orientation (EXIF)",
                                         "applied: pictures that are not stored upright", sizes.turned,
                                         NULL}));
  memcpy(source->least_size, sizes.least, sizeof source->least_size);
  source->most_size[0] = sizes.most.height;
  source->most_size[1] = sizes.most.width;
  TRY(choose_image(source, words, &sizes, image));
  source->read = read_record;
  source->record_name = record_name;
  source->flip = source->augment_asked = source->whole_check = source->slow = true;
  TRY(source_add_field(source, (struct field){"image", NEAP_U8, 3, {image[0], image[1], image[2]}, false}));
  TRY(source_add_field(source, (struct field){"label", NEAP_I32, 0, {0}, false}));
  return workspaces_reserve(images->workspaces, &sizes.most, image[1], image[2]);
}

neap_status images_open(const char *argument, struct source *source) {
  static const char *const keys[] = {"", "size", "test", "holdout", "seed", NULL};
  static const struct images none;
  struct words words = {0};
  TRY(source_parse(
      source, argument, keys,
      (const char **const[]){&words.folder, &words.size, &words.test, &words.holdout, &words.seed}));
  source->context = region_copy(&source->region, &none, 1, sizeof none);
  RETURN_IF_NULL(source->context);
  source->close = close_images;
  ((struct images *)source->context)->folder = words.folder;
  RETURN_IF(!file_is_folder(words.folder), NEAP_IO_FAILED, "%s: is not a folder", words.folder);
  return open_images(source, &words);
}
