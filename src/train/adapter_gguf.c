#include "train/adapter_gguf.h"

#include <math.h>
#include <string.h>

#include "language/language_file.h"
#include "rewrite/rewrite.h"
#include "session/choose.h"
#include "weights/averages.h"

/* A part of an adapter: its source, and the heads whose rows are in GGUF's order. */
struct adapter_part {
  int32_t index;
  int64_t permuted_heads;
};

struct adapter_writing {
  const struct adapter_export *from;
  struct language_model model;
  struct gguf_tensor *tensors;
  struct adapter_part *parts; /* of each tensor */
  int32_t count;
};

static const struct origin *find_origin(const struct language_model *m, const char *name, size_t length) {
  for (int32_t i = 0; i < m->origin_count; i++) {
    const char *own = m->origins[i].name;
    if (strncmp(own, name, length) == 0 && strcmp(own + length, ".weight") == 0) return &m->origins[i];
  }
  return NULL;
}

/* Adds the part that is called "MODULE.lora_A.weight". */
static neap_status add_part(struct adapter_writing *w, const struct tensor *trained) {
  struct language_model *m = &w->model;
  const struct safetensors *weights = w->from->weights;
  const char *name = trained->name, *part = strstr(name, ".lora_");
  const struct origin *o = part != NULL ? find_origin(m, name, (size_t)(part - name)) : NULL;
  const int32_t index = averages_tensor(weights, name);
  struct stored_form form;
  RETURN_IF(!trained->adapter || o == NULL || o->part == PART_TOKEN, NEAP_UNSUPPORTED,
            "%s: '%s' was trained too, but a GGUF file of adapters cannot have it; write the complete model "
            "(`merge`), or a folder",
            w->from->base, name);
  RETURN_IF(index < 0, NEAP_BAD_FORMAT, "%s: has no tensor '%s', which was trained", weights->path, name);
  const struct safetensors_tensor *found = &weights->tensors[index];
  TRY(safetensors_need_real(weights, index));
  RETURN_IF(found->elements != trained->elements, NEAP_BAD_FORMAT,
            "%s: tensor '%s': its shape is not that in this model", weights->path, name);
  TRY(language_file_form(m, o, false, &form));
  const bool is_b = part[strlen(".lora_")] == 'B';
  struct gguf_tensor *made = &w->tensors[w->count];
  *made = (struct gguf_tensor){.name = region_format(&m->region, "%s.lora_%c", form.name, is_b ? 'b' : 'a'),
                               .dtype = NEAP_F32,
                               .rank = trained->rank,
                               .elements = trained->elements};
  RETURN_IF(made->name == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", weights->path);
  memcpy(made->dims, trained->dims, sizeof made->dims);
  const int64_t experts = language_file_experts(m, o->part);
  if (experts > 1) {
    made->rank = 3;
    made->dims[0] = experts;
    made->dims[1] = trained->dims[0] / experts;
    made->dims[2] = trained->dims[1];
  }
  w->parts[w->count++] = (struct adapter_part){index, is_b ? form.permuted_heads : 0};
  return NEAP_OK;
}

static neap_status add_parts(struct adapter_writing *w, const struct neap_graph *adapted) {
  const size_t most = adapted->tensors.count;
  w->tensors = region_alloc(&w->model.region, most, sizeof *w->tensors);
  w->parts = region_alloc(&w->model.region, most, sizeof *w->parts);
  RETURN_IF(w->tensors == NULL || w->parts == NULL, NEAP_OUT_OF_MEMORY, "out of memory for adapters");
  for (size_t i = 0; i < most; i++) {
    const struct tensor *t = &adapted->tensors.data[i];
    if (t->role == NEAP_ROLE_PARAMETER && t->view_of < 0 && !t->frozen) TRY(add_part(w, t));
  }
  return NEAP_OK;
}

static neap_status read_part(void *context, int32_t index, float *data) {
  const struct adapter_writing *w = context;
  const struct gguf_tensor *t = &w->tensors[index];
  const struct adapter_part *part = &w->parts[index];
  TRY(safetensors_read(w->from->weights, part->index, data));
  const struct origin as = {.rank = 2, .dims = {t->dims[0], t->dims[1]}};
  const struct stored_form form = {.permuted_heads = part->permuted_heads};
  return language_file_store(&w->model, &as, &form, data);
}

static neap_status write_file(struct adapter_writing *w, const struct neap_graph *adapted, const char *path) {
  const neap_session_options *o = w->from->session;
  RETURN_IF(o->lora_dora, NEAP_UNSUPPORTED,
            "%s: a GGUF file of adapters cannot have lengths of weights (DoRA); write the complete model "
            "(`merge`), or "
            "a folder",
            path);
  TRY(add_parts(w, adapted));
  for (int32_t i = 0; i < w->count; i++)
    RETURN_IF(o->lora_rs && strstr(w->tensors[i].name, ".lora_a") != NULL && w->tensors[i].dims[0] != o->lora,
              NEAP_UNSUPPORTED,
              "%s: a GGUF file of adapters cannot scale several ranks by their roots (rsLoRA); write the "
              "complete "
              "model (`merge`), or a folder",
              path);
  const float alpha = lora_scale(fabsf(o->lora_alpha), o->lora, o->lora_rs) * (float)o->lora;
  const struct gguf_pair pairs[] = {
      gguf_pair_text("general.architecture", w->model.family->architecture),
      gguf_pair_text("general.type", "adapter"),
      gguf_pair_text("general.base_model.0.name", w->from->base),
      gguf_pair_u32("general.base_model.count", 1),
      gguf_pair_u32("general.file_type", 0),
      gguf_pair_text("adapter.type", "lora"),
      gguf_pair_f32("adapter.lora.alpha", alpha),
  };
  return gguf_save(path, &(struct gguf_content){.tensors = w->tensors,
                                                .tensor_count = w->count,
                                                .pairs = pairs,
                                                .pair_count = sizeof pairs / sizeof *pairs,
                                                .read = read_part,
                                                .context = w});
}

neap_status adapter_gguf_write(const struct adapter_export *from, const char *path, int64_t *layers) {
  struct adapter_writing w = {.from = from};
  struct neap_graph *adapted = NULL;
  *layers = 0;
  RETURN_IF(from->model == NULL, NEAP_INVALID_ARGUMENT,
            "%s: adapters can only be a GGUF file if the model is a folder of Hugging Face or a GGUF file; "
            "write a folder",
            path);
  neap_status status = language_file_with(from->model, &(neap_model_options){0}, &w.model);
  if (status == NEAP_OK) status = make_adapted_graph(from->graph, from->session, &adapted);
  if (status == NEAP_OK) status = write_file(&w, adapted, path);
  *layers = w.count / 2;
  language_file_release(&w.model);
  neap_graph_free(adapted);
  return status;
}
