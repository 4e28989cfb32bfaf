/* config.json of folders of language models, beside weights that suit a small Llama, Qwen 2 and GPT-2. What
 * is taken gives the usual shape and a graph, twice the same; whatever is refused gives a message that names
 * the folder. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "formats/safetensors.h"
#include "language/language_model.h"
#include "support.h"

enum { WORDS = 8, WIDTH = 4, PLACES = 6 };

#define LAYER(name) "model.layers.0." name
#define BLOCK(name) "transformer.h.0." name
static const struct safetensors_tensor tensors[] = {
    {.name = "model.embed_tokens.weight", .rank = 2, .dims = {WORDS, WIDTH}},
    {.name = LAYER("input_layernorm.weight"), .rank = 1, .dims = {WIDTH}},
    {.name = LAYER("self_attn.q_proj.weight"), .rank = 2, .dims = {WIDTH, WIDTH}},
    {.name = LAYER("self_attn.k_proj.weight"), .rank = 2, .dims = {WIDTH, WIDTH}},
    {.name = LAYER("self_attn.v_proj.weight"), .rank = 2, .dims = {WIDTH, WIDTH}},
    {.name = LAYER("self_attn.q_proj.bias"), .rank = 1, .dims = {WIDTH}},
    {.name = LAYER("self_attn.k_proj.bias"), .rank = 1, .dims = {WIDTH}},
    {.name = LAYER("self_attn.v_proj.bias"), .rank = 1, .dims = {WIDTH}},
    {.name = LAYER("self_attn.o_proj.weight"), .rank = 2, .dims = {WIDTH, WIDTH}},
    {.name = LAYER("post_attention_layernorm.weight"), .rank = 1, .dims = {WIDTH}},
    {.name = LAYER("mlp.gate_proj.weight"), .rank = 2, .dims = {WIDTH, WIDTH}},
    {.name = LAYER("mlp.up_proj.weight"), .rank = 2, .dims = {WIDTH, WIDTH}},
    {.name = LAYER("mlp.down_proj.weight"), .rank = 2, .dims = {WIDTH, WIDTH}},
    {.name = "model.norm.weight", .rank = 1, .dims = {WIDTH}},
    {.name = "transformer.wte.weight", .rank = 2, .dims = {WORDS, WIDTH}},
    {.name = "transformer.wpe.weight", .rank = 2, .dims = {PLACES, WIDTH}},
    {.name = BLOCK("ln_1.weight"), .rank = 1, .dims = {WIDTH}},
    {.name = BLOCK("ln_1.bias"), .rank = 1, .dims = {WIDTH}},
    {.name = BLOCK("attn.c_attn.weight"), .rank = 2, .dims = {WIDTH, 3 * WIDTH}},
    {.name = BLOCK("attn.c_attn.bias"), .rank = 1, .dims = {3 * WIDTH}},
    {.name = BLOCK("attn.c_proj.weight"), .rank = 2, .dims = {WIDTH, WIDTH}},
    {.name = BLOCK("attn.c_proj.bias"), .rank = 1, .dims = {WIDTH}},
    {.name = BLOCK("ln_2.weight"), .rank = 1, .dims = {WIDTH}},
    {.name = BLOCK("ln_2.bias"), .rank = 1, .dims = {WIDTH}},
    {.name = BLOCK("mlp.c_fc.weight"), .rank = 2, .dims = {WIDTH, 4 * WIDTH}},
    {.name = BLOCK("mlp.c_fc.bias"), .rank = 1, .dims = {4 * WIDTH}},
    {.name = BLOCK("mlp.c_proj.weight"), .rank = 2, .dims = {4 * WIDTH, WIDTH}},
    {.name = BLOCK("mlp.c_proj.bias"), .rank = 1, .dims = {WIDTH}},
    {.name = "transformer.ln_f.weight", .rank = 1, .dims = {WIDTH}},
    {.name = "transformer.ln_f.bias", .rank = 1, .dims = {WIDTH}}};
enum { TENSORS = sizeof tensors / sizeof *tensors };

static neap_status ones(void *context, int32_t index, float *data) {
  (void)context;
  const struct safetensors_tensor *t = &tensors[index];
  for (int64_t i = 0; i < t->dims[0] * (t->rank > 1 ? t->dims[1] : 1); i++) data[i] = 1;
  return NEAP_OK;
}

/* The weights, which are the same for every input: made once, in a folder that inputs take turns in. */
static const char *folder_of(void) {
  static char folder[128];
  struct safetensors_tensor sized[TENSORS];
  char path[160];
  if (folder[0] != '\0') return folder;
  snprintf(folder, sizeof folder, "%s", fuzz_folder("model"));
  memcpy(sized, tensors, sizeof tensors);
  for (int i = 0; i < TENSORS; i++)
    sized[i].elements = sized[i].dims[0] * (sized[i].rank > 1 ? sized[i].dims[1] : 1);
  snprintf(path, sizeof path, "%s/model.safetensors", folder);
  const struct safetensors_content content = {.tensors = sized, .tensor_count = TENSORS, .read = ones};
  CHECK_OK(safetensors_save(path, &content));
  return folder;
}

/* What the description says holds for the graph, which is the same each time. */
static void check_model(const neap_model *model) {
  const neap_model_options shape = {.batch = 1, .length = 2};
  neap_model_description about;
  neap_graph *graph = NULL, *again = NULL;
  CHECK(neap_model_is_language(model));
  CHECK_OK(neap_model_describe(model, &about));
  CHECK(about.task == NEAP_TASK_TOKENS && about.usual.classes > 0 && about.usual.length > 0);
  const neap_status status = neap_model_build(model, &shape, &graph);
  fuzz_taken = status == NEAP_OK;
  if (status != NEAP_OK) {
    CHECK(graph == NULL);
    fuzz_check_refused(status, folder_of());
    return;
  }
  CHECK(about.usual.classes == WORDS);
  CHECK_OK(neap_model_build(model, &shape, &again));
  CHECK(neap_graph_batch(graph) == 1 && neap_graph_batch(again) == 1);
  neap_graph_free(graph);
  neap_graph_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *folder = folder_of();
  char path[160];
  neap_model *model;
  snprintf(path, sizeof path, "%s/config.json", folder);
  fuzz_write(path, data, size);
  CHECK(neap_model_names_file(folder));
  const neap_status status = neap_model_open(folder, &model);
  fuzz_taken = false;
  if (status == NEAP_OK)
    check_model(model);
  else
    fuzz_check_refused(status, folder);
  neap_model_close(model);
  return 0;
}
