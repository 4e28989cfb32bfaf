/* Reports what data contain and what is wrong with them. */
#include <png.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/sources.h"

struct inspection {
  neap_data_report report; /* first: it is what the caller has */
  struct region region;
};

/* ---- The report ---- */

/* Counts the records of each class. */
static neap_status count_classes(const struct source *source, int label, neap_data_class *rows) {
  const struct draw plain = {0};
  for (int s = 0; s < SPLITS; s++)
    for (int64_t i = 0; i < source->records[s]; i++) {
      int32_t class = -1;
      void *fields[FIELD_LIMIT] = {0};
      int64_t lengths[FIELD_LIMIT];
      fields[label] = &class;
      TRY(source->read(source, (enum split)s, i, &plain, fields, lengths));
      if (class < 0 || class >= source->classes) continue;
      *(s == SPLIT_TRAIN ? &rows[class].training_records : &rows[class].test_records) += 1;
    }
  return NEAP_OK;
}

static neap_status add_classes(const struct source *source, struct inspection *made) {
  const int label = source_find_field(source, task_rows[source->kind].label);
  if (label < 0 || source->fields[label].dtype != NEAP_I32 || source->fields[label].rank != 0) return NEAP_OK;
  neap_data_class *rows = region_alloc(&made->region, (size_t)source->classes, sizeof *rows);
  RETURN_IF_NULL(rows);
  for (int64_t c = 0; c < source->classes; c++) {
    rows[c].name = source->class_names != NULL ? region_string(&made->region, source->class_names[c])
                                               : region_format(&made->region, "%lld", (long long)c);
    RETURN_IF_NULL(rows[c].name);
  }
  made->report.class_rows = rows;
  return count_classes(source, label, rows);
}

static neap_status add_problems(const struct source *source, struct inspection *made) {
  const size_t count = source->problems.list.count;
  const char **problems = region_alloc(&made->region, count, sizeof *problems);
  RETURN_IF_NULL(problems);
  for (size_t i = 0; i < count; i++) {
    problems[i] = region_string(&made->region, source->problems.list.data[i].message);
    RETURN_IF_NULL(problems[i]);
  }
  made->report.problems = problems;
  made->report.problem_count = (int64_t)count;
  return NEAP_OK;
}

/* Describes all that is known of the source, however far it was opened. */
static neap_status describe(const struct source *source, bool whole, struct inspection *made) {
  neap_data_report *r = &made->report;
  TRY(add_problems(source, made));
  TRY(understood_copy(&source->understood, &made->region, &r->understood, &r->understood_count));
  r->source = region_string(&made->region, source->name != NULL ? source->name : "");
  RETURN_IF_NULL(r->source);
  r->training_records = source->records[SPLIT_TRAIN];
  r->test_records = source->records[SPLIT_TEST];
  r->classes = source->classes;
  memcpy(r->least_size, source->least_size, sizeof r->least_size);
  memcpy(r->most_size, source->most_size, sizeof r->most_size);
  if (!whole) return NEAP_OK;
  for (int f = 0; f < source->field_count; f++) {
    const struct field *field = &source->fields[f];
    neap_data_field *to = &r->fields[r->field_count++];
    to->name = region_string(&made->region, field->name);
    RETURN_IF_NULL(to->name);
    to->dtype = field->dtype;
    to->rank = field->rank;
    memcpy(to->dims, field->dims, sizeof to->dims);
  }
  return add_classes(source, made);
}

/* ---- The sheet ---- */

enum { SHEET_PICTURES = 10, SHEET_COLUMNS = 5, SHEET_GAP = 2 };

struct sheet {
  png_image image;
  uint8_t *pixels; /* [height, width, 3] */
};

/* Puts a picture [C, H, W] at a place of the sheet; grey becomes three equal channels, a fourth channel is
 * left out. */
static void put_picture(struct sheet *sheet, const struct field *image, const uint8_t *pixels, int place) {
  const int64_t height = image->dims[1], width = image->dims[2], plane = height * width;
  const int64_t top = SHEET_GAP + place / SHEET_COLUMNS * (height + SHEET_GAP),
                left = SHEET_GAP + place % SHEET_COLUMNS * (width + SHEET_GAP);
  for (int64_t k = 0; k < plane; k++)
    for (int64_t c = 0; c < 3; c++)
      sheet->pixels[((top + k / width) * sheet->image.width + left + k % width) * 3 + c] =
          pixels[(image->dims[0] < 3 ? 0 : c) * plane + k];
}

/* Fills the sheet with records evenly spread over the training part, so that many classes are seen. */
static neap_status fill_sheet(const struct source *source, const struct field *image, struct sheet *sheet,
                              uint8_t *pixels) {
  const int64_t records = source->records[SPLIT_TRAIN];
  for (int i = 0; i < SHEET_PICTURES && i < records; i++) {
    const struct draw plain = {0};
    void *fields[FIELD_LIMIT] = {0};
    int64_t lengths[FIELD_LIMIT];
    fields[image - source->fields] = pixels;
    const int64_t record = records > SHEET_PICTURES ? i * (records / SHEET_PICTURES) : i;
    TRY(source->read(source, SPLIT_TRAIN, record, &plain, fields, lengths));
    put_picture(sheet, image, pixels, i);
  }
  return NEAP_OK;
}

static bool write_png(FILE *file, const void *context) {
  struct sheet sheet = *(const struct sheet *)context;
  return png_image_write_to_stdio(&sheet.image, file, 0, sheet.pixels, 0, NULL) != 0;
}

static neap_status write_sheet(const struct source *source, const char *path, struct region *region) {
  const struct field *image = source_image(source);
  RETURN_IF(image == NULL, NEAP_INVALID_ARGUMENT, "%s: data '%s' contain no pictures to show", path,
            source->name);
  const int64_t shown = source->records[SPLIT_TRAIN] < SHEET_PICTURES ? source->records[SPLIT_TRAIN]
                                                                      : SHEET_PICTURES,
                columns = shown < SHEET_COLUMNS ? shown : SHEET_COLUMNS,
                rows = (shown + SHEET_COLUMNS - 1) / SHEET_COLUMNS;
  struct sheet sheet = {.image = {.version = PNG_IMAGE_VERSION, .format = PNG_FORMAT_RGB}};
  sheet.image.width = (png_uint_32)(SHEET_GAP + columns * (image->dims[2] + SHEET_GAP));
  sheet.image.height = (png_uint_32)(SHEET_GAP + rows * (image->dims[1] + SHEET_GAP));
  const size_t bytes = (size_t)sheet.image.width * sheet.image.height * 3;
  uint8_t *pixels = region_alloc(region, (size_t)field_elements(image), 1);
  sheet.pixels = region_alloc(region, bytes, 1);
  RETURN_IF(pixels == NULL || sheet.pixels == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", path);
  memset(sheet.pixels, 0xFF, bytes);
  TRY(fill_sheet(source, image, &sheet, pixels));
  return file_write(path, write_png, &sheet);
}

neap_status neap_data_inspect(const char *data, const char *sheet, neap_data_report **report) {
  static const int64_t side = 64; /* of pictures of many sizes */
  const struct task task = {.kind = NEAP_TASK_IMAGES, .image = {3, side, side}};
  struct source source;
  struct ending ending;
  NEED(data);
  NEED(report);
  *report = NULL;
  struct inspection *made = calloc(1, sizeof *made);
  RETURN_IF_NULL(made);
  ending_keep(&ending, sources_open(data, &task, &source));
  const bool whole = ending.status == NEAP_OK;
  const neap_status described = describe(&source, whole, made);
  if (whole) ending_keep(&ending, described);
  if (ending.status == NEAP_OK && sheet != NULL)
    ending_keep(&ending, write_sheet(&source, sheet, &made->region));
  source_close(&source);
  *report = &made->report;
  return ending_tell(&ending);
}

void neap_data_report_free(neap_data_report *report) {
  if (report == NULL) return;
  region_free(&((struct inspection *)(void *)report)->region);
  free(report);
}
