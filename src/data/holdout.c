#include "data/holdout.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "data/stream.h"

static neap_status read_words(const struct source *source, const char *share_text, const char *seed_text,
                              double *share, uint64_t *seed) {
  char *end;
  *share = 0.1;
  *seed = 0;
  if (share_text != NULL) {
    *share = strtod(share_text, &end);
    RETURN_IF(end == share_text || *end != '\0' || !(*share > 0 && *share < 1), NEAP_INVALID_ARGUMENT,
              "data '%s': holdout must be between 0 and 1 (got %s)", source->name, share_text);
  }
  if (seed_text != NULL) {
    errno = 0;
    *seed = strtoull(seed_text, &end, 10);
    RETURN_IF(end == seed_text || *end != '\0' || errno != 0 || *seed_text == '-', NEAP_INVALID_ARGUMENT,
              "data '%s': seed must be an integer of 0 or more (got %s)", source->name, seed_text);
  }
  return NEAP_OK;
}

neap_status holdout_draw(struct source *source, const char *share_text, const char *seed_text, int64_t count,
                         bool **held) {
  double share;
  uint64_t seed;
  TRY(read_words(source, share_text, seed_text, &share, &seed));
  RETURN_IF(count < 2, NEAP_INVALID_ARGUMENT,
            "data '%s': has only one record, so nothing is left for a test part; add records", source->name);
  int64_t wanted = llrint(share * (double)count), left = count;
  if (wanted < 1) wanted = 1;
  if (wanted > count - 1) wanted = count - 1;
  *held = region_alloc(&source->region, (size_t)count, sizeof **held);
  RETURN_IF_NULL(*held);
  for (int64_t i = 0; i < count; i++, left--) { /* each choice is as likely as any other (Knuth 3.4.2 S) */
    uint32_t bits[4];
    data_random(seed, STREAM_HOLDOUT, 0, (uint64_t)i, bits);
    if (random_below(bits[0], (uint64_t)left) >= (uint64_t)wanted) continue;
    (*held)[i] = true;
    wanted--;
  }
  return NEAP_OK;
}
