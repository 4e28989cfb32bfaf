/* Under the address sanitizer: while a kernel runs, its operands and its workspace are open, and no other
 * byte of the session's memory is. */
#include <sanitizer/asan_interface.h>

#include "session_help.h"

enum { BATCH = 4, CLASSES = 5, MOST_KERNELS = 64 };

static struct {
  const neap_session *session;
  kernel_run *run[MOST_KERNELS]; /* the kernels' own */
  int64_t calls;
} watched;

static void mark(const unsigned char *all, void *const *operands, const int32_t *tensors, int32_t count,
                 bool *open) {
  for (int32_t i = 0; i < count; i++)
    if (tensors[i] != NO_TENSOR)
      memset(open + ((const unsigned char *)operands[i] - all), true,
             tensor_bytes(watched.session->main, tensors[i]));
}

static uint64_t workspace_bytes(const struct kernel *kernel) {
  const struct program *program = &watched.session->programs[PROGRAM_STEP].program;
  for (int32_t at = 0; at < program->length; at++)
    if (program->calls[at].kernel == kernel) return program->calls[at].workspace_bytes;
  fail_msg("a kernel ran that the step does not have");
  return 0;
}

static neap_status look_and_run(const struct kernel *kernel, void *const *inputs, void *const *outputs,
                                void *workspace, const struct run_context *context) {
  const struct node *node = kernel_node(kernel);
  const struct device_memory *memory = &watched.session->memory;
  unsigned char *all;
  ASSERT_OK(device_enter(memory, &all));
  bool *open = calloc(memory->bytes, sizeof *open);
  assert_non_null(open);
  mark(all, inputs, node->inputs, node->input_count, open);
  mark(all, outputs, node->outputs, node->output_count, open);
  if (workspace != NULL) memset(open + ((unsigned char *)workspace - all), true, workspace_bytes(kernel));
  for (uint64_t i = 0; i < memory->bytes; i++)
    if (open[i] == __asan_address_is_poisoned(all + i))
      fail_msg("%s: byte %d of memory is %s", node->name, (int)i, open[i] ? "closed" : "open");
  free(open);
  device_leave(memory);
  watched.calls++;
  return watched.run[kernel - watched.session->main->kernels](kernel, inputs, outputs, workspace, context);
}

static void test_closed_memory(void **state) {
  (void)state;
  neap_graph *graph;
  neap_session *s;
  neap_builder *b = neap_builder_create("closed");
  neap_tensor x = neap_input(b, "image", NEAP_F32, 4, (int64_t[]){BATCH, 3, 5, 5});
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 1, (int64_t[]){BATCH});
  x = neap_conv(b, x, (neap_conv_options){.filters = 7, .size = 3, .bias = true});
  x = neap_relu(b, neap_batch_norm(b, x, (neap_batch_norm_options){0}));
  x = neap_linear(b, neap_flatten(b, neap_dropout(b, x, 0.5f)), CLASSES, true);
  ASSERT_OK(neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0), &graph));
  neap_builder_free(b);
  for (int least = 0; least < 2; least++) {
    const neap_session_options options = {
        .budget = least ? NEAP_BUDGET_MIN : NEAP_BUDGET_MAX, .momentum = 0.9f, .threads = 2, .seed = 4};
    ASSERT_OK(neap_session_create(graph, &options, NULL, &s));
    watched.session = s;
    watched.calls = 0;
    assert_ptr_equal(s->programs[PROGRAM_STEP].program.lowered, s->main);
    assert_true(s->main->graph->nodes.count <= MOST_KERNELS);
    for (size_t i = 0; i < s->main->graph->nodes.count; i++) {
      watched.run[i] = s->main->kernels[i].run;
      s->main->kernels[i].run = look_and_run;
    }
    fill_inputs(s, 1, CLASSES);
    ASSERT_OK(neap_session_step(s, 0.1f, NULL));
    assert_true(watched.calls >= (int64_t)s->main->graph->nodes.count);
    unsigned char *all;
    ASSERT_OK(device_enter(&s->memory, &all));
    assert_null(__asan_region_is_poisoned(all, s->memory.bytes));
    device_leave(&s->memory);
    neap_session_free(s);
  }
  neap_graph_free(graph);
}

int run_test_program(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_closed_memory)};
  return cmocka_run_group_tests_name("programs", tests, NULL, NULL);
}
