/* adapter_config.json of peft's folders. What is taken has a rank and an alpha that a file with these two
 * fields gives again; a session without adapters refuses the folder and has not changed. Whatever is refused
 * gives a message that names the file. */
#include <stdio.h>
#include <string.h>

#include "support.h"
#include "train/adapter_folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct adapter_config config, again;
  char folder[64], path[96], text[160], before[65], after[65];
  snprintf(folder, sizeof folder, "%s", fuzz_folder("adapter"));
  snprintf(path, sizeof path, "%s/adapter_config.json", folder);
  fuzz_write(path, data, size);
  const neap_status status = adapter_config_read(folder, &config);
  fuzz_taken = status == NEAP_OK;
  neap_session *session = fuzz_session();
  CHECK_OK(neap_session_digest(session, before));
  CHECK(adapter_folder_read(folder, &(neap_session_options){0}, 0, session) != NEAP_OK);
  CHECK_OK(neap_session_digest(session, after));
  CHECK(strcmp(before, after) == 0);
  if (status != NEAP_OK) {
    CHECK(adapter_config_read(folder, &config) == status);
    fuzz_check_refused(status, path);
    return 0;
  }
  CHECK(config.rank >= 1 && config.alpha >= 0);
  const int length =
      snprintf(text, sizeof text, "{\"peft_type\": \"LORA\", \"r\": %lld, \"lora_alpha\": %.17g}",
               (long long)config.rank, config.alpha);
  fuzz_write(path, text, (size_t)length);
  CHECK_OK(adapter_config_read(folder, &again));
  CHECK(again.rank == config.rank && again.alpha == config.alpha);
  return 0;
}
