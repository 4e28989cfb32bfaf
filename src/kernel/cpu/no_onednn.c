/* The functions of onednn.h in a build without oneDNN: there is no convolution, and nothing is packed. */
#include <stdio.h>
#include <stdlib.h>

#include "kernel/cpu/onednn.h"

struct dnn {
  char none;
};

neap_status dnn_create(struct dnn **out) {
  *out = calloc(1, sizeof **out);
  RETURN_IF_NULL(*out);
  return NEAP_OK;
}
void dnn_free(struct dnn *dnn) { free(dnn); }

double dnn_bf16_speed(void) { return 0; }
bool dnn_takes_blocks(void) { return false; }

neap_status dnn_make_convolution(struct dnn *dnn, const struct convolution *c,
                                 const struct dnn_layout *weights, const struct dnn_primitive **out) {
  (void)dnn, (void)c, (void)weights, (void)out;
  return neap_fail(NEAP_UNSUPPORTED, "this build has no oneDNN");
}

/* ---- Of layouts and primitives, of which there are none ---- */

static neap_status none(void) { return neap_fail(NEAP_INTERNAL, "without oneDNN nothing is packed"); }

size_t dnn_layout_bytes(const struct dnn_layout *layout) {
  (void)layout;
  return 0;
}
neap_status dnn_layout_unpacked(struct dnn *dnn, const struct dnn_layout *packed,
                                const struct dnn_layout **out) {
  (void)dnn, (void)packed, (void)out;
  return none();
}
const struct dnn_layout *dnn_weights(const struct dnn_primitive *primitive) {
  (void)primitive;
  return NULL;
}
neap_status dnn_make_reorder(struct dnn *dnn, const struct dnn_layout *from, const struct dnn_layout *to,
                             bool bf16, const struct dnn_primitive **out) {
  (void)dnn, (void)from, (void)to, (void)bf16, (void)out;
  return none();
}
size_t dnn_scratchpad_bytes(const struct dnn_primitive *primitive) {
  (void)primitive;
  return 0;
}
void dnn_describe(const struct dnn_primitive *primitive, char *text, size_t size) {
  (void)primitive;
  snprintf(text, size, "none");
}
neap_status dnn_run(const struct dnn_primitive *primitive, const struct convolution_operands *operands) {
  (void)primitive, (void)operands;
  return none();
}
