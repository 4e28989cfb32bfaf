/* Techniques that make a step smaller, taken together in any way: what `plan --profile` and `curve --allow`
 * compare. */
#include <stdio.h>
#include <string.h>

#include "shared/failure.h"
#include "shared/format.h"
#include "shared/source.h"
#include "shared/techniques.h"

/* The largest divisor of the batch that is at most a tenth of it. */
static int64_t usual_micro_batch(int64_t batch) {
  int64_t images = batch / 10 > 0 ? batch / 10 : 1;
  while (batch % images != 0) images--;
  return images;
}

/* Makes the step without any technique, in which the settings that were given do something. */
static int make_whole(const struct verb *verb, const struct arguments *a, neap_train_options *source) {
  struct arguments whole = *a;
  const char *const chosen[] = {"allow", "prefer", "sparse-layers"};
  if (given_text(a, "precision") != NULL || given_text(a, "sparse") != NULL)
    return report_usage(verb, "precisions and densities are compared here: name them with --allow");
  for (size_t i = 0; i < sizeof chosen / sizeof *chosen; i++) whole.now[neap_setting_find(chosen[i])] = false;
  whole.options.allow = 0;
  whole.options.session.sparse_density = 0;
  const int checked = check_use(verb, &whole);
  *source = whole.options;
  return checked;
}

int techniques_open(const struct verb *verb, const struct arguments *a, struct techniques *t) {
  const neap_train_options *source = &a->options;
  const unsigned allowed = source->allow;
  if (source->model == NULL) return report_usage(verb, "--allow needs a model: --model is missing");
  *t = (struct techniques){.micro_batch = source->micro_batch, .density = source->session.sparse_density};
  const int made = make_whole(verb, a, &t->whole);
  if (made != EXIT_DONE) return made;
  neap_train_options_resolve(&t->whole);
  const neap_status status = t->whole.shape.batch == 0 ? source_usual_batch(&t->whole) : NEAP_OK;
  if (status != NEAP_OK) return report_failure(verb, status);
  if (t->micro_batch <= 0) t->micro_batch = usual_micro_batch(t->whole.shape.batch);
  if (t->whole.shape.batch % t->micro_batch != 0)
    return report_usage(verb, "--micro-batch %lld: must divide the batch of %lld", (long long)t->micro_batch,
                        (long long)t->whole.shape.batch);
  t->whole.micro_batch = 0;
  t->precision = allowed & NEAP_ALLOW_F16 ? NEAP_F16 : NEAP_BF16;
  t->allowed = (allowed & NEAP_ALLOW_MICRO ? TECHNIQUE_MICRO : 0) |
               (allowed & (NEAP_ALLOW_BF16 | NEAP_ALLOW_F16) ? TECHNIQUE_HALF : 0) |
               (allowed & NEAP_ALLOW_STATES8 ? TECHNIQUE_STATES8 : 0) |
               (allowed & NEAP_ALLOW_SPARSE ? TECHNIQUE_SPARSE : 0);
  return EXIT_DONE;
}

neap_train_options techniques_source(const struct techniques *t, unsigned taken) {
  neap_train_options source = t->whole;
  if (taken & TECHNIQUE_MICRO) source.micro_batch = t->micro_batch;
  if (taken & TECHNIQUE_HALF) source.session.precision = t->precision;
  if (taken & TECHNIQUE_STATES8) source.session.states_8bit = true;
  if (taken & TECHNIQUE_SPARSE) source.session.sparse_density = t->density;
  return source;
}

struct name techniques_text(const struct techniques *t, unsigned taken) {
  char parts[TECHNIQUES][24];
  struct name text = {""};
  snprintf(parts[0], sizeof parts[0], "recompute");
  snprintf(parts[1], sizeof parts[1], "micro=%lld", (long long)t->micro_batch);
  snprintf(parts[2], sizeof parts[2], "%s", precision_name(t->precision));
  snprintf(parts[3], sizeof parts[3], "states8");
  snprintf(parts[4], sizeof parts[4], "sparse=%g", t->density);
  for (int i = 0; i < TECHNIQUES; i++) {
    const size_t length = strlen(text.text);
    if (taken >> i & 1)
      snprintf(text.text + length, sizeof text.text - length, "%s%s", length > 0 ? "+" : "", parts[i]);
  }
  if (text.text[0] == '\0') snprintf(text.text, sizeof text.text, "none");
  return text;
}
