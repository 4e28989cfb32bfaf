/* Files of a model: modules.json, 1_Pooling/config.json, sentence_bert_config.json and
 * preprocessor_config.json of a folder, and what config.json says of a classifier, as parts of an input. What
 * is taken has a way to make a vector, a limit that is positive or 0, as many names as labels, and deviations
 * that are positive; whatever is refused gives a message that names the folder. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "language/language_head.h"
#include "support.h"

static void check_head(const struct language_head *head) {
  CHECK(head->vector == STACK_MEAN || head->vector == STACK_FIRST);
  CHECK(head->longest >= 0);
  CHECK((head->own == NEAP_HEAD_CLASSES) == (head->labels.count > 0));
  for (int64_t i = 0; i < head->labels.count; i++) CHECK(head->labels.names[i] != NULL);
}

/* Of images: deviations that are taken are positive. */
static neap_status check_pixels(const struct model_keys *keys, struct region *region) {
  struct task_pixels pixels;
  const neap_status status = language_head_pixels(keys, 3, region, &pixels);
  for (int c = 0; status == NEAP_OK && c < 3; c++) CHECK(pixels.deviation[c] > 0 || pixels.deviation[0] == 0);
  return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const names[] = {"modules.json", "sentence_bert_config.json", "1_Pooling/config.json",
                                      "preprocessor_config.json"};
  static const struct family family = {.classifier_class = "BertForSequenceClassification",
                                       .kind = NEAP_TASK_MASKED};
  const char *folder = fuzz_folder("sentences");
  char pooling[160];
  struct region region = {0};
  struct language_head head = {0};
  const struct fuzz_bytes text = fuzz_part(data, size, "config.json");
  json_t *config = text.text != NULL ? json_loadb(text.text, text.size, 0, NULL) : NULL;
  snprintf(pooling, sizeof pooling, "%s/1_Pooling", folder);
  CHECK(mkdir(pooling, 0777) == 0);
  fuzz_unpack(data, size, folder, names, sizeof names / sizeof *names);
  if (!json_is_object(config)) {
    json_decref(config);
    config = json_object();
  }
  const struct model_keys keys = {.path = folder, .config = config};
  neap_status status = language_head_read(&keys, &family, false, &region, &head);
  if (status == NEAP_OK) status = check_pixels(&keys, &region);
  fuzz_taken = status == NEAP_OK;
  if (fuzz_taken)
    check_head(&head);
  else
    fuzz_check_refused(status, folder);
  json_decref(config);
  region_free(&region);
  return 0;
}
