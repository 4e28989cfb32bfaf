/* Planning without a model and without files: plain arrays in, a schedule and offsets out. Four layers and
 * their gradients inside a budget that is too small to keep every activation. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "neap_plan.h"

enum { NODES = 8, IMAGE = 8 }; /* node v makes tensor v; tensor 8 is what layer 0 reads */

int main(void) {
  const uint64_t bytes[NODES + 1] = {4096, 4096, 4096, 4096, 512, 512, 512, 512, 1024};
  const neap_pass passes[NODES] = {
      [4] = NEAP_PASS_BACKWARD, NEAP_PASS_BACKWARD, NEAP_PASS_BACKWARD, NEAP_PASS_BACKWARD};
  const int32_t made[NODES] = {0, 1, 2, 3, 4, 5, 6, 7};
  /* Layer v reads layer v - 1; the gradients of layers 3 to 0 read the layer and the gradient before. */
  const int64_t start[NODES + 1] = {0, 1, 2, 3, 4, 5, 7, 9, 11};
  const int32_t read[] = {IMAGE, 0, 1, 2, 3, 2, 4, 1, 5, 0, 6};
  const neap_step_arrays arrays = {.tensor_count = NODES + 1,
                                   .node_count = NODES,
                                   .tensor_bytes = bytes,
                                   .node_passes = passes,
                                   .inputs = {start, read},
                                   .outputs = {.ids = made},
                                   .step_outputs = (int32_t[]){7},
                                   .step_output_count = 1};
  neap_step *step = NULL;
  neap_plan *plan = NULL;
  neap_instance *instances = NULL;
  int64_t count = 0, length;
  neap_status status = neap_step_create(&arrays, &step);
  if (status == NEAP_OK) status = neap_plan_make(step, 14 * 1024, "auto", NULL, &plan);
  if (status == NEAP_OK) status = neap_plan_instances(step, plan, &instances, &count);
  if (status != NEAP_OK) fprintf(stderr, "%s\n", neap_error_message());
  const int32_t *schedule = status == NEAP_OK ? neap_plan_schedule(plan, &length) : NULL;
  for (int64_t i = 0; i < count; i++)
    printf("position %2d: node %d makes tensor %d at offset %5" PRIu64 ", read until position %d\n",
           instances[i].first, schedule[instances[i].first], instances[i].tensor, instances[i].offset,
           instances[i].last);
  free(instances);
  neap_plan_free(plan);
  neap_step_free(step);
  return status == NEAP_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
