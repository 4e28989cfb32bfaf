/* Techniques that make a step smaller, taken together in any way: what `plan --profile` and `curve --allow`
 * compare. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

/* The largest divisor of the batch that is at most a tenth of it. */
static int64_t usual_micro_batch(int64_t batch) {
  int64_t images = batch / 10 > 0 ? batch / 10 : 1;
  while (batch % images != 0) images--;
  return images;
}

int techniques_open(const struct verb *verb, const struct source *source, const char *allow,
                    struct techniques *t) {
  unsigned allowed;
  *t = (struct techniques){.whole = *source, .micro_batch = source->micro_batch};
  if (source->model == NULL) return report_usage(verb, "techniques are of a model: --model is missing");
  if (source->precision != 0 || source->sparse != 0)
    return report_usage(verb, "precisions and densities are compared here: name them by --allow");
  if (!read_allowed(verb, allow, &allowed, &t->density)) return EXIT_USAGE;
  const neap_status status = t->whole.batch == 0 ? source_usual_batch(&t->whole) : NEAP_OK;
  if (status != NEAP_OK) return report_failure(verb, status);
  if (t->micro_batch == 0) t->micro_batch = usual_micro_batch(t->whole.batch);
  if (t->whole.batch % t->micro_batch != 0)
    return report_usage(verb, "--micro-batch %lld does not divide a batch of %lld", (long long)t->micro_batch,
                        (long long)t->whole.batch);
  t->whole.micro_batch = 0;
  t->precision = precision_word(allowed & NEAP_ALLOW_F16 ? NEAP_F16 : NEAP_BF16);
  t->allowed = (allowed & NEAP_ALLOW_MICRO ? TECHNIQUE_MICRO : 0) |
               (allowed & (NEAP_ALLOW_BF16 | NEAP_ALLOW_F16) ? TECHNIQUE_HALF : 0) |
               (allowed & NEAP_ALLOW_SPARSE ? TECHNIQUE_SPARSE : 0);
  return EXIT_DONE;
}

struct source techniques_source(const struct techniques *t, unsigned taken) {
  struct source source = t->whole;
  if (taken & TECHNIQUE_MICRO) source.micro_batch = t->micro_batch;
  if (taken & TECHNIQUE_HALF) source.precision = t->precision;
  if (taken & TECHNIQUE_SPARSE) source.sparse = t->density;
  return source;
}

struct name techniques_text(const struct techniques *t, unsigned taken) {
  char parts[TECHNIQUES][24];
  struct name text = {""};
  snprintf(parts[0], sizeof parts[0], "recompute");
  snprintf(parts[1], sizeof parts[1], "micro=%lld", (long long)t->micro_batch);
  snprintf(parts[2], sizeof parts[2], "%s", precision_name(t->precision));
  snprintf(parts[3], sizeof parts[3], "sparse=%g", t->density);
  for (int i = 0; i < TECHNIQUES; i++) {
    const size_t length = strlen(text.text);
    if (taken >> i & 1)
      snprintf(text.text + length, sizeof text.text - length, "%s%s", length > 0 ? "+" : "", parts[i]);
  }
  if (text.text[0] == '\0') snprintf(text.text, sizeof text.text, "none");
  return text;
}
