#include "data/sources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "data/encoding.h"
#include "data/own.h"
#include "data/readers.h"
#include "data/statistics.h"

static const struct source_row {
  const char *usage, /* "cifar10:DIR", whose name ends at the colon; without one it needs no argument */
      *summary;
  neap_status (*open)(const char *argument, struct source *source);
  const char *suffix; /* of files that are most likely meant for it; "/": a folder; NULL: none */
} rows[] = {
    {"cifar10:DIR", "CIFAR-10, binary version: data_batch_*.bin and test_batch.bin", cifar10_open, NULL},
    {"mnist:DIR", "MNIST and data sets in its format: idx files, compressed or not", mnist_open, NULL},
    {"images:DIR",
     "train/CLASS/* and val, validation, valid or test, or CLASS/*; "
     "[,size=N|HxW][,test=FOLDER][,holdout=0.1][,seed=0]",
     images_open, "/"},
    {"npz:FILE",
     "x_train, y_train, x_test, y_test, or train_images, train_labels, val_*, test_*; "
     "[,test=val|test][,task=regression]",
     npz_open, ".npz"},
    {"npy:X,Y", "records and labels; [,task=regression][,holdout=0.1][,seed=0]", npy_open, NULL},
    {"csv:FILE",
     "a table with a header; [,label=COLUMN][,ignore=A;B][,words=A;B][,missing=NA;None][,decimal=comma]"
     "[,task=regression][,text=COLUMN][,test=FILE][,holdout=0.1][,seed=0]",
     table_open, ".csv"},
    {"text:FILE", "a text file; [,tokens=bytes|characters|N|FILE.json][,test=FILE]", text_open, ".txt"},
    {"tokens:FILE", "token ids, .bin or .npy; [,type=u16|i32][,test=FILE]", tokens_open, ".bin"},
    {"chat:FILE",
     "conversations, one JSON object per line or an array of them (or FILE.jsonl alone; a folder has "
     "train.jsonl); "
     "[,tokens=bytes|characters|N|FILE.json][,test=FILE][,holdout=0.1][,seed=0]",
     chat_open, ".json"},
    {"preference:FILE",
     "prompts with a chosen and a rejected answer each, one JSON object per line or an array of them: "
     "prompt, "
     "chosen, rejected, texts or messages; learned from by DPO (beta); "
     "[,tokens=bytes|characters|N|FILE.json][,test=FILE][,holdout=0.1][,seed=0]",
     preference_open, NULL},
    {"parallel:DIR:de-en", "pairs of lines that translate each other; [,tokens=N|FILE.json]", parallel_open,
     NULL},
    {"synthetic", "images drawn by the program; [:side=32,classes=10,images=10000,seed=0]", synthetic_open,
     NULL},
};
enum { ROWS = sizeof rows / sizeof *rows };

bool neap_data_at(int32_t index, neap_row *row) {
  if (row == NULL || index < 0 || index >= ROWS) return false;
  *row = (neap_row){.name = rows[index].usage, .summary = rows[index].summary};
  return true;
}

/* Lists "cifar10:DIR, mnist:DIR, ..., synthetic". */
static const char *list_rows(char *text, size_t size) {
  size_t length = 0;
  for (int i = 0; i < ROWS && length < size; i++)
    length += (size_t)snprintf(text + length, size - length, "%s%s", i > 0 ? ", " : "", rows[i].usage);
  return text;
}

/* Returns the row whose name has that length; NULL: no such row. */
static const struct source_row *find_row(const char *text, size_t length) {
  for (int i = 0; i < ROWS; i++)
    if (strcspn(rows[i].usage, ":") == length && strncmp(rows[i].usage, text, length) == 0) return &rows[i];
  return NULL;
}

static const char lines_row[] = "chat";

/* Returns true for "FILE.jsonl[,key=value...]", without the name of a source. */
static bool is_lines(const char *text) {
  const char *ending = strstr(text, ".jsonl");
  const size_t word = strcspn(text, ":");
  return ending != NULL && find_row(text, word) == NULL && (ending[6] == '\0' || ending[6] == ',');
}

/* Fails because no source has that name. If `text` is a file or a folder, suggests the source it may belong
 * to. */
static neap_status refuse_name(const char *text) {
  char known[512];
  struct stat about;
  const char *path_end = text + strcspn(text, ",");
  char *path = strndup(text, (size_t)(path_end - text));
  RETURN_IF(path == NULL, NEAP_OUT_OF_MEMORY, "out of memory for the name of a source");
  const bool there = stat(path, &about) == 0, folder = there && S_ISDIR(about.st_mode);
  const char *suffix = strrchr(path, '.');
  const struct source_row *meant = NULL;
  for (int i = 0; i < ROWS && there; i++)
    if (rows[i].suffix != NULL &&
        (folder ? *rows[i].suffix == '/' : suffix != NULL && strcmp(rows[i].suffix, suffix) == 0))
      meant = &rows[i];
  free(path);
  RETURN_IF(meant != NULL, NEAP_INVALID_ARGUMENT, "data '%s': the kind of data is missing; write %.*s:%s",
            text, (int)strcspn(meant->usage, ":"), meant->usage, text);
  return neap_fail(NEAP_INVALID_ARGUMENT, "data '%s': unknown source; the sources are %s", text,
                   list_rows(known, sizeof known));
}

/* Tells of classes whose names differ in upper and lower case alone. */
static neap_status tell_alike_classes(struct source *source) {
  for (int64_t i = 0; source->class_names != NULL && i < source->classes; i++) {
    const char *name = source->class_names[i], *alike = NULL, *why;
    for (int64_t k = 0; k < source->classes && alike == NULL; k++)
      if (k != i && strcasecmp(source->class_names[k], name) == 0) alike = source->class_names[k];
    if (alike == NULL) continue;
    why = region_format(&source->region, "is another class than '%s'; if they are one, spell them alike",
                        alike);
    RETURN_IF_NULL(why);
    TRY(understood_add(
        &source->understood, &source->region,
        (neap_understood){name, "classes that differ in upper and lower case alone", -1, why}));
  }
  return NEAP_OK;
}

neap_status sources_open(const char *text, const struct task *task, struct source *source) {
  *source = (struct source){.task = *task, .mask_token = -1, .end_token = -1};
  const bool lines = is_lines(text);
  const size_t length = lines ? strlen(lines_row) : strcspn(text, ":");
  const char *argument = lines ? text : text[length] == ':' ? text + length + 1 : "";
  const struct source_row *row = find_row(lines ? lines_row : text, length);
  if (row == NULL) return refuse_name(text);
  RETURN_IF(row->usage[length] == ':' && *argument == '\0', NEAP_INVALID_ARGUMENT,
            "data '%s': the path is missing; write %s", text, row->usage);
  const struct encoding *known = task->encoding != NULL ? task->encoding : task->before;
  source->reading = known != NULL ? known->reading : READING_NOW;
  source->name = region_format(&source->region, "%.*s", (int)length, lines ? lines_row : text);
  RETURN_IF_NULL(source->name);
  TRY(row->open(argument, source));
  if (known == NULL) TRY(tell_alike_classes(source));
  return source_image(source) != NULL ? statistics_take(source) : NEAP_OK;
}

neap_status sources_open_own(const neap_data_source *own, const struct task *task, struct source *source) {
  *source = (struct source){.task = *task, .reading = READING_NOW, .mask_token = -1, .end_token = -1};
  TRY(own_open(own, source));
  return source_image(source) != NULL ? statistics_take(source) : NEAP_OK;
}
