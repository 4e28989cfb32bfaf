/* The record of how a source was converted to numbers. A run keeps it with its weights: data.json.
 *
 *     {"format": "neap-data", "version": 2, "source": "images", "input": "image", "shape": [3, 64, 64],
 *      "classes": 2, "class_names": ["cat", "dog"], "mean": [...], "deviation": [...],
 *      "input_scale": {"mean": [...], "deviation": [...]}, "label_scale": {...},
 *      "label": "price", "columns": [{"name": "size"}, {"name": "town", "words": ["Rome", "Ulm"]}],
 *      "missing": ["NA"], "decimal": "comma"}
 *
 * version: the rules by which records are read (enum reading_rules).
 *
 * For texts "columns" is [{"name": "review", "text": true}], and "shape" is the tokens of the longest.
 *
 * classes: the number of classes of the label, or of its values if "values" is true. mean, deviation: of
 * bytes of images by channel. The scales are those of standardised numbers. label, columns, missing, decimal:
 * those of a table. Fields that do not apply are missing. */
#ifndef NEAP_DATA_ENCODING_H
#define NEAP_DATA_ENCODING_H

#include "data/source.h"
#include "data/table.h"

struct encoding {
  enum reading_rules reading;
  const char *source, *input; /* names of the source and of the input field */
  int rank;
  int64_t shape[3], classes;
  bool values;                    /* labels are values, not classes */
  const char *const *class_names; /* [classes]; NULL: classes have no names */
  double mean[SOURCE_MAX_CHANNELS], deviation[SOURCE_MAX_CHANNELS];
  struct scale input_scale, label_scale;
  struct table *table; /* NULL: not a table. Names are NULL if the run does not know them */
};

/* Returns true if a source has anything to keep; encoding_save writes it. */
bool encoding_applies(const struct source *source);
neap_status encoding_save(const struct source *source, const char *path);

/* Reads the file; the result is in the region. NEAP_BAD_FORMAT: a field is wrong; the message names it. */
neap_status encoding_read(const char *path, struct region *region, struct encoding *encoding);

#endif
