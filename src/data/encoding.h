/* What records of a source became numbers by, as a run keeps it beside its weights: data.json.
 *
 *     {"format": "neap-data", "version": 1, "source": "images", "input": "image", "shape": [3, 64, 64],
 *      "classes": 2, "class_names": ["cat", "dog"], "mean": [...], "deviation": [...],
 *      "input_scale": {"mean": [...], "deviation": [...]}, "label_scale": {...},
 *      "label": "price", "columns": [{"name": "size"}, {"name": "town", "words": ["Rome", "Ulm"]}]}
 *
 * Of texts "columns" is [{"name": "review", "text": true}], and "shape" the tokens of the longest.
 *
 * classes: of the label, or with "values": true how many values it has. mean, deviation: of bytes of images
 * by channel. The scales are of numbers that are standardised. label, columns: of a table. What does not
 * apply is missing. */
#ifndef NEAP_DATA_ENCODING_H
#define NEAP_DATA_ENCODING_H

#include "data/source.h"
#include "data/table.h"

struct encoding {
  const char *source, *input; /* names of the row and of the field that goes in */
  int rank;
  int64_t shape[3], classes;
  bool values;                    /* labels are values, not classes */
  const char *const *class_names; /* [classes]; NULL: they have none */
  double mean[SOURCE_MAX_CHANNELS], deviation[SOURCE_MAX_CHANNELS];
  struct scale input_scale, label_scale;
  struct table *table; /* NULL: it was none. Of texts that no run knows its names are NULL */
};

/* Whether a source has something to keep; and writes it. */
bool encoding_applies(const struct source *source);
neap_status encoding_save(const struct source *source, const char *path);

/* Reads the file; all lies in the region. NEAP_BAD_FORMAT: a field is wrong; the message names it. */
neap_status encoding_read(const char *path, struct region *region, struct encoding *encoding);

#endif
