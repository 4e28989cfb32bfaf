/* side_config.json of the folders that `neap export` writes for side nets. What is taken has a divisor that a
 * file with these three fields gives again; a session without a side net refuses the folder and has not
 * changed. Whatever is refused gives a message that names the file. */
#include <stdio.h>
#include <string.h>

#include "support.h"
#include "train/adapter_folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  int64_t divisor, again;
  char folder[64], path[96], text[160], before[65], after[65];
  snprintf(folder, sizeof folder, "%s", fuzz_folder("side"));
  snprintf(path, sizeof path, "%s/side_config.json", folder);
  fuzz_write(path, data, size);
  const neap_status status = side_config_read(folder, &divisor);
  fuzz_taken = status == NEAP_OK;
  neap_session *session = fuzz_session();
  CHECK_OK(neap_session_digest(session, before));
  CHECK(adapter_folder_read(folder, &(neap_session_options){0}, 8, session) != NEAP_OK);
  CHECK_OK(neap_session_digest(session, after));
  CHECK(strcmp(before, after) == 0);
  if (status != NEAP_OK) {
    CHECK(side_config_read(folder, &divisor) == status);
    fuzz_check_refused(status, path);
    return 0;
  }
  CHECK(divisor >= 1);
  const int length =
      snprintf(text, sizeof text, "{\"format\": \"neap-side-net\", \"version\": 1, \"side\": %lld}",
               (long long)divisor);
  fuzz_write(path, text, (size_t)length);
  CHECK_OK(side_config_read(folder, &again));
  CHECK(again == divisor);
  return 0;
}
