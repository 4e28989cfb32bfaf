#include "zoo/side_net.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "op/builder.h"

static const float temperature = 0.1f; /* of the gates (Sung et al. 2022) */

/* Returns the elements of a row. */
static int64_t width_of(neap_builder *b, neap_tensor x) {
  int64_t dims[NEAP_MAX_RANK] = {1};
  const int rank = neap_shape(b, x, dims);
  return rank > 0 ? dims[rank - 1] : 1;
}

static neap_tensor go_down(neap_builder *b, int64_t place, int64_t width, neap_tensor x) {
  char name[SEQUENCE_NAME];
  snprintf(name, sizeof name, SIDE_NET "down.%lld", (long long)place);
  return sequence_linear(b, x, name, width, 1 / sqrt((double)width_of(b, x)), true);
}

neap_tensor side_net_begin(neap_builder *b, int64_t width, neap_tensor x) {
  neap_scope(b, SIDE_NET "embedding");
  return go_down(b, 0, width, x);
}

neap_tensor side_net_mix(neap_builder *b, int64_t block, neap_tensor y, neap_tensor x) {
  char name[SEQUENCE_NAME];
  snprintf(name, sizeof name, SIDE_GATE "%lld", (long long)block);
  const neap_tensor a = neap_parameter(b, name, 1, (int64_t[]){1}, (neap_parameter_options){0}),
                    mu = neap_sigmoid(b, neap_scale(b, a, 1 / temperature, 0)),
                    down = go_down(b, block + 1, width_of(b, y), x);
  return neap_add(b, down, neap_multiply(b, neap_subtract(b, y, down), mu));
}

neap_tensor side_net_end(neap_builder *b, neap_tensor y, neap_tensor x) {
  return neap_add(b, x, sequence_linear(b, y, SIDE_NET "up", width_of(b, x), 0, true));
}

void side_net_mark(neap_builder *b) {
  struct neap_graph *graph = builder_ready(b) ? builder_graph(b) : NULL;
  for (size_t t = 0; graph != NULL && t < graph->tensors.count; t++) {
    struct tensor *tensor = &graph->tensors.data[t];
    if (tensor->role != NEAP_ROLE_PARAMETER || tensor->view_of >= 0) continue;
    tensor->adapter = strncmp(tensor->name, SIDE_NET, strlen(SIDE_NET)) == 0;
    tensor->frozen = !tensor->adapter;
  }
}
