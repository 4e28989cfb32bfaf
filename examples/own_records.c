/* Data of your own, record by record: a function that draws pictures of bars, trained on by a ready-made
 * model with all that `neap train` does. */
#include <neap.h>
#include <stdio.h>
#include <string.h>

enum { SIDE = 12 };

/* A bar across (0) or upright (1), at a place that the record's number gives. */
static int read_bar(void *context, bool test, int64_t record, void *const *fields) {
  unsigned char *image = fields[0];
  int32_t *label = fields[1];
  const int at = (int)((record / 2 * 5 + (test ? 3 : 0)) % SIDE), upright = (int)(record % 2);
  (void)context;
  if (label != NULL) *label = upright;
  if (image == NULL) return 0;
  memset(image, 40, SIDE * SIDE);
  for (int i = 0; i < SIDE; i++) image[upright ? i * SIDE + at : at * SIDE + i] = 220;
  return 0;
}

int main(void) {
  const neap_data_field fields[] = {{"image", NEAP_U8, 3, {1, SIDE, SIDE}}, {"label", NEAP_I32, 0, {0}}};
  const neap_data_source bars = {.name = "bars",
                                 .fields = fields,
                                 .field_count = 2,
                                 .training_records = 400,
                                 .test_records = 100,
                                 .classes = 2,
                                 .read = read_bar};
  const neap_train_options options = {.model = "lenet",
                                      .source = &bars,
                                      .shape = {.batch = 20},
                                      .session = {.budget = NEAP_BUDGET_MIN, .momentum = 0.9f},
                                      .epochs = 2,
                                      .learning_rate = 0.05};
  neap_train_result result;
  const neap_status status = neap_train(&options, &result);
  if (status != NEAP_OK) {
    fprintf(stderr, "%s\n", neap_error_message());
    return 1;
  }
  printf("%lld steps in %llu bytes, test accuracy %.1f %%\n", (long long)result.steps,
         (unsigned long long)result.memory.measured_peak, 100 * result.test_accuracy);
  return result.test_accuracy < 0.95;
}
