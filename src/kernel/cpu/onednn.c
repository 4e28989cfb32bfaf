#include "kernel/cpu/onednn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <oneapi/dnnl/dnnl.h>

#include "base/vector.h"

#if DNNL_VERSION_MAJOR >= 3
#define DNN_3 1
typedef dnnl_memory_desc_t description;
#else
#define DNN_3 0
typedef dnnl_memory_desc_t *description; /* 2.x: a plain structure, kept on the heap to be alike */
#endif

struct dnn_layout {
  description md;
  size_t bytes;
};

enum operand { A, B, C, BIAS, SCRATCHPAD, OPERANDS };

struct dnn_primitive {
  dnnl_primitive_t primitive;
  dnnl_stream_t stream; /* the dnn's */
  dnnl_memory_t memory[OPERANDS];
  int argument[OPERANDS]; /* DNNL_ARG_...; 0: this primitive has none */
  const struct dnn_layout *weights;
  size_t scratchpad;
  const char *implementation;
  /* The arguments that it was made from, by which it is found again. */
  int kind;
  struct convolution convolution;
  const struct dnn_layout *from, *to;
  bool bf16; /* reordered */
};

struct dnn {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  VECTOR(struct dnn_layout *) layouts;
  VECTOR(struct dnn_primitive *) primitives;
};

enum kind { KIND_CONVOLUTION, KIND_REORDER };

#define DNN(call)                                                                                            \
  do {                                                                                                       \
    const dnnl_status_t dnn_status_ = (call);                                                                \
    if (dnn_status_ != dnnl_success)                                                                         \
      return neap_fail(map_status(dnn_status_), "oneDNN: %s failed with status %d", #call,                   \
                       (int)dnn_status_);                                                                    \
  } while (0)

static neap_status map_status(dnnl_status_t status) {
  return status == dnnl_out_of_memory   ? NEAP_OUT_OF_MEMORY
         : status == dnnl_unimplemented ? NEAP_UNSUPPORTED
                                        : NEAP_INTERNAL;
}

/* ---- Engine ---- */

neap_status dnn_create(struct dnn **out) {
  struct dnn *dnn = calloc(1, sizeof *dnn);
  RETURN_IF_NULL(dnn);
  if (dnnl_engine_create(&dnn->engine, dnnl_cpu, 0) != dnnl_success ||
      dnnl_stream_create(&dnn->stream, dnn->engine, dnnl_stream_default_flags) != dnnl_success) {
    dnn_free(dnn);
    return neap_fail(NEAP_OUT_OF_MEMORY, "oneDNN could not make its engine");
  }
  *out = dnn;
  return NEAP_OK;
}

static void free_primitive(struct dnn_primitive *p) {
  for (int i = 0; i < OPERANDS; i++)
    if (p->memory[i] != NULL) dnnl_memory_destroy(p->memory[i]);
  if (p->primitive != NULL) dnnl_primitive_destroy(p->primitive);
  free(p);
}

static void free_layout(struct dnn_layout *layout) {
#if DNN_3
  if (layout->md != NULL) dnnl_memory_desc_destroy(layout->md);
#else
  free(layout->md);
#endif
  free(layout);
}

void dnn_free(struct dnn *dnn) {
  if (dnn == NULL) return;
  for (size_t i = 0; i < dnn->primitives.count; i++) free_primitive(dnn->primitives.data[i]);
  for (size_t i = 0; i < dnn->layouts.count; i++) free_layout(dnn->layouts.data[i]);
  vector_free(&dnn->primitives);
  vector_free(&dnn->layouts);
  if (dnn->stream != NULL) dnnl_stream_destroy(dnn->stream);
  if (dnn->engine != NULL) dnnl_engine_destroy(dnn->engine);
  free(dnn);
}

/* ---- Layouts ---- */

size_t dnn_layout_bytes(const struct dnn_layout *layout) { return layout->bytes; }

/* Keeps a copy of a description, or finds an equal one. */
#if DNN_3
static neap_status keep_layout(struct dnn *dnn, const_dnnl_memory_desc_t md, const struct dnn_layout **out) {
#else
static neap_status keep_layout(struct dnn *dnn, const dnnl_memory_desc_t *md, const struct dnn_layout **out) {
#endif
  for (size_t i = 0; i < dnn->layouts.count; i++)
    if (dnnl_memory_desc_equal(dnn->layouts.data[i]->md, md)) {
      *out = dnn->layouts.data[i];
      return NEAP_OK;
    }
  struct dnn_layout *layout = calloc(1, sizeof *layout);
  RETURN_IF_NULL(layout);
#if DNN_3
  const bool copied = dnnl_memory_desc_clone(&layout->md, md) == dnnl_success;
#else
  layout->md = malloc(sizeof *md);
  const bool copied = layout->md != NULL;
  if (copied) *layout->md = *md;
#endif
  if (copied) layout->bytes = dnnl_memory_desc_get_size(layout->md);
  if (!copied || vector_push(&dnn->layouts, layout) != NEAP_OK) {
    free_layout(layout);
    return neap_fail(NEAP_OUT_OF_MEMORY, "oneDNN: out of memory for a layout");
  }
  *out = layout;
  return NEAP_OK;
}

/* oneDNN reads arrays of DNNL_MAX_NDIMS, whatever the rank. */
static void widen(int rank, const int64_t *from, dnnl_dims_t to) {
  for (int i = 0; i < DNNL_MAX_NDIMS; i++) to[i] = i < rank ? from[i] : 0;
}

/* Describes a layout by tag; dnnl_format_tag_any if the primitive is to choose. */
static neap_status describe_tag(int rank, const int64_t *dims, dnnl_data_type_t type, dnnl_format_tag_t tag,
                                dnnl_memory_desc_t *md) {
  dnnl_dims_t wide;
  widen(rank, dims, wide);
#if DNN_3
  DNN(dnnl_memory_desc_create_with_tag(md, rank, wide, type, tag));
#else
  DNN(dnnl_memory_desc_init_by_tag(md, rank, wide, type, tag));
#endif
  return NEAP_OK;
}

static neap_status describe_strides(int rank, const int64_t *dims, const int64_t *strides,
                                    dnnl_data_type_t type, dnnl_memory_desc_t *md) {
  dnnl_dims_t wide, wide_strides;
  widen(rank, dims, wide);
  widen(rank, strides, wide_strides);
#if DNN_3
  DNN(dnnl_memory_desc_create_with_strides(md, rank, wide, type, wide_strides));
#else
  DNN(dnnl_memory_desc_init_by_strides(md, rank, wide, type, wide_strides));
#endif
  return NEAP_OK;
}

/* Keeps a new description and releases the original. */
static neap_status keep_made(struct dnn *dnn, dnnl_memory_desc_t *md, const struct dnn_layout **out) {
#if DNN_3
  const neap_status status = keep_layout(dnn, *md, out);
  dnnl_memory_desc_destroy(*md);
  return status;
#else
  return keep_layout(dnn, md, out);
#endif
}

/* Describes activations [N, C, H, W] with `lanes` adjacent channels (struct activation). `blocks`: 8 or 16
 * lanes are channel blocks, not channels last. With just as many channels the bytes are the same, but oneDNN
 * only pairs equal kinds. */
static neap_status layout_activation(struct dnn *dnn, const int64_t dims[4], int64_t lanes, bool blocks,
                                     dnnl_data_type_t type, const struct dnn_layout **out) {
  const dnnl_format_tag_t tag = blocks && lanes == 16  ? dnnl_nChw16c
                                : blocks && lanes == 8 ? dnnl_nChw8c
                                : lanes == 1           ? dnnl_nchw
                                                       : dnnl_nhwc;
  dnnl_memory_desc_t md;
  TRY(describe_tag(4, dims, type, tag, &md));
  return keep_made(dnn, &md, out);
}

static neap_status layout_row_major(struct dnn *dnn, int32_t rank, const int64_t *dims, dnnl_data_type_t type,
                                    const struct dnn_layout **out) {
  int64_t strides[NEAP_MAX_RANK], stride = 1;
  for (int32_t i = rank; i-- > 0; stride *= dims[i]) strides[i] = stride;
  dnnl_memory_desc_t md;
  TRY(describe_strides(rank, dims, strides, type, &md));
  return keep_made(dnn, &md, out);
}

neap_status dnn_layout_unpacked(struct dnn *dnn, const struct dnn_layout *packed,
                                const struct dnn_layout **out) {
#if DNN_3
  int rank;
  const dnnl_dims_t *dims;
  DNN(dnnl_memory_desc_query(packed->md, dnnl_query_ndims_s32, &rank));
  DNN(dnnl_memory_desc_query(packed->md, dnnl_query_dims, &dims));
  return layout_row_major(dnn, rank, *dims, dnnl_f32, out);
#else
  return layout_row_major(dnn, packed->md->ndims, packed->md->dims, dnnl_f32, out);
#endif
}

/* Gives the layout with elements of another type in the same order. oneDNN 3 describes that order only by its
 * tags. NEAP_UNSUPPORTED: no tag has it. */
#if DNN_3
static neap_status keep_as(struct dnn *dnn, const_dnnl_memory_desc_t md, dnnl_data_type_t type,
                           const struct dnn_layout **out) {
  int rank;
  const dnnl_dims_t *dims;
  dnnl_data_type_t own;
  DNN(dnnl_memory_desc_query(md, dnnl_query_ndims_s32, &rank));
  DNN(dnnl_memory_desc_query(md, dnnl_query_dims, &dims));
  DNN(dnnl_memory_desc_query(md, dnnl_query_data_type, &own));
  if (own == type) return keep_layout(dnn, md, out);
  for (int tag = dnnl_format_tag_any + 1; tag < dnnl_format_tag_last; tag++) {
    dnnl_memory_desc_t same;
    if (dnnl_memory_desc_create_with_tag(&same, rank, *dims, own, (dnnl_format_tag_t)tag) != dnnl_success)
      continue;
    const bool found = dnnl_memory_desc_equal(same, md);
    dnnl_memory_desc_destroy(same);
    if (!found) continue;
    TRY(describe_tag(rank, *dims, type, (dnnl_format_tag_t)tag, &same));
    return keep_made(dnn, &same, out);
  }
  return neap_fail(NEAP_UNSUPPORTED, "oneDNN has no tag for a layout");
}
#else
static neap_status keep_as(struct dnn *dnn, const dnnl_memory_desc_t *md, dnnl_data_type_t type,
                           const struct dnn_layout **out) {
  dnnl_memory_desc_t same = *md;
  same.data_type = type;
  return keep_layout(dnn, &same, out);
}
#endif

/* Gives the layout of the same bytes with the first two dimensions exchanged. */
static neap_status exchange(struct dnn *dnn, const struct dnn_layout *layout, const struct dnn_layout **out) {
  const int order[DNNL_MAX_NDIMS] = {1, 0, 2, 3};
  dnnl_memory_desc_t md;
  DNN(dnnl_memory_desc_permute_axes(&md, layout->md, order));
  return keep_made(dnn, &md, out);
}

/* ---- Primitives ---- */

/* If `layout` is NULL the primitive chooses it: its weights of the given shape. */
#if DNN_3
typedef const_dnnl_memory_desc_t queried;
#else
typedef const dnnl_memory_desc_t *queried;
#endif

static queried query(const_dnnl_primitive_desc_t pd, int argument) {
  return dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, argument);
}

/* Makes the memory object of one operand, without data. */
static neap_status bind(struct dnn *dnn, struct dnn_primitive *p, const_dnnl_primitive_desc_t pd,
                        enum operand operand, int argument) {
  p->argument[operand] = argument;
  DNN(dnnl_memory_create(&p->memory[operand], query(pd, argument), dnn->engine, DNNL_MEMORY_NONE));
  return NEAP_OK;
}

/* Makes the primitive of a description. `arguments`: DNNL_ARG_... of A, B, C, BIAS; 0 if none exists. */
static neap_status finish(struct dnn *dnn, struct dnn_primitive *p, const_dnnl_primitive_desc_t pd,
                          const int *arguments) {
  const queried scratchpad = query(pd, DNNL_ARG_SCRATCHPAD);
  p->scratchpad = scratchpad != NULL ? dnnl_memory_desc_get_size(scratchpad) : 0;
  p->stream = dnn->stream;
  for (int i = A; i <= BIAS; i++)
    if (arguments[i] != 0) TRY(bind(dnn, p, pd, (enum operand)i, arguments[i]));
  if (p->scratchpad > 0) TRY(bind(dnn, p, pd, SCRATCHPAD, DNNL_ARG_SCRATCHPAD));
  DNN(dnnl_primitive_create(&p->primitive, pd));
  /* Asks a description that lives as long as the primitive; in oneDNN 3 some names lie in it. */
  const_dnnl_primitive_desc_t kept;
  DNN(dnnl_primitive_get_primitive_desc(p->primitive, &kept));
  DNN(dnnl_primitive_desc_query(kept, dnnl_query_impl_info_str, 0, &p->implementation));
  return NEAP_OK;
}

/* Returns true for the plain loops of oneDNN, and for its convolutions by products of matrices, which take
 * memory for packed factors each time that they run. */
static bool is_unwanted(const_dnnl_primitive_desc_t pd) {
  const char *name = NULL;
  return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&name) != dnnl_success ||
         strncmp(name, "ref", 3) == 0 || strstr(name, ":ref") != NULL || strncmp(name, "gemm", 4) == 0 ||
         strstr(name, ":gemm") != NULL;
}

/* Makes attributes: scratchpads come from the caller, and with an addend a sum follows the operator. */
static neap_status make_attributes(bool addend, dnnl_primitive_attr_t *out) {
  dnnl_primitive_attr_t attributes;
  DNN(dnnl_primitive_attr_create(&attributes));
  dnnl_post_ops_t operations = NULL;
  dnnl_status_t status = dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
  if (status == dnnl_success && addend) {
    status = dnnl_post_ops_create(&operations);
#if DNN_3
    if (status == dnnl_success) status = dnnl_post_ops_append_sum(operations, 1, 0, dnnl_data_type_undef);
#else
    if (status == dnnl_success) status = dnnl_post_ops_append_sum(operations, 1);
#endif
    if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(attributes, operations);
    if (operations != NULL) dnnl_post_ops_destroy(operations);
  }
  if (status != dnnl_success) {
    dnnl_primitive_attr_destroy(attributes);
    return neap_fail(map_status(status), "oneDNN: setting the attributes failed with status %d", (int)status);
  }
  *out = attributes;
  return NEAP_OK;
}

struct convolution_md {
  queried source, weights, bias, destination;
};

/* The places of a convolution's windows. */
struct windows {
  dnnl_dims_t strides, dilations, left, right;
};

static struct windows windows_of(const struct convolution *c) {
  struct windows w;
  for (int i = 0; i < 2; i++) {
    w.strides[i] = c->stride;
    w.dilations[i] = c->dilation - 1;
    w.left[i] = c->padding[i];
    /* The reach of the last window beyond the image: less than the padding if the stride leaves a rest. */
    w.right[i] = (c->destination[2 + i] - 1) * c->stride + (c->kernel[2 + i] - 1) * c->dilation + 1 -
                 c->source[2 + i] - c->padding[i];
  }
  return w;
}

/* Makes one primitive description for one pass. `hint`: the forward one, for the gradients; NULL for forward.
 */
static dnnl_status_t describe_convolution(struct dnn *dnn, const struct convolution *c,
                                          enum convolution_pass pass, const struct convolution_md *m,
                                          const_dnnl_primitive_attr_t attributes,
                                          const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *pd) {
  const struct windows w = windows_of(c);
#if DNN_3
  if (pass == PASS_FORWARD)
    return dnnl_convolution_forward_primitive_desc_create(
        pd, dnn->engine, dnnl_forward_training, dnnl_convolution_direct, m->source, m->weights, m->bias,
        m->destination, w.strides, w.dilations, w.left, w.right, attributes);
  if (pass == PASS_BACKWARD_DATA)
    return dnnl_convolution_backward_data_primitive_desc_create(
        pd, dnn->engine, dnnl_convolution_direct, m->source, m->weights, m->destination, w.strides,
        w.dilations, w.left, w.right, hint, attributes);
  return dnnl_convolution_backward_weights_primitive_desc_create(
      pd, dnn->engine, dnnl_convolution_direct, m->source, m->weights, NULL, m->destination, w.strides,
      w.dilations, w.left, w.right, hint, attributes);
#else
  dnnl_convolution_desc_t d;
  dnnl_status_t status;
  if (pass == PASS_FORWARD)
    status = dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_training, dnnl_convolution_direct,
                                                        m->source, m->weights, m->bias, m->destination,
                                                        w.strides, w.dilations, w.left, w.right);
  else if (pass == PASS_BACKWARD_DATA)
    status = dnnl_dilated_convolution_backward_data_desc_init(&d, dnnl_convolution_direct, m->source,
                                                              m->weights, m->destination, w.strides,
                                                              w.dilations, w.left, w.right);
  else
    status = dnnl_dilated_convolution_backward_weights_desc_init(&d, dnnl_convolution_direct, m->source,
                                                                 m->weights, NULL, m->destination, w.strides,
                                                                 w.dilations, w.left, w.right);
  return status == dnnl_success ? dnnl_primitive_desc_create(pd, &d, attributes, dnn->engine, hint) : status;
#endif
}

static int kernel_dims(const struct convolution *c, int64_t dims[5]) {
  const bool grouped = c->groups > 1;
  if (grouped) dims[0] = c->groups;
  dims[grouped] = c->kernel[0] / c->groups;
  for (int i = 1; i < 4; i++) dims[grouped + i] = c->kernel[i];
  return 4 + grouped;
}

/* Makes the primitive of a description that was found. */
static neap_status finish_convolution(struct dnn *dnn, const struct convolution *c,
                                      const_dnnl_primitive_desc_t pd, struct dnn_primitive *p) {
  static const int arguments[3][4] = {
      [PASS_FORWARD] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, 0},
      [PASS_BACKWARD_DATA] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST, 0},
      [PASS_BACKWARD_WEIGHTS] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST, 0},
  };
  int mine[4];
  memcpy(mine, arguments[c->pass], sizeof mine);
  if (c->bias) mine[BIAS] = DNNL_ARG_BIAS;
  TRY(keep_as(dnn, query(pd, mine[B]), dnnl_f32, &p->weights));
  if (c->exchanged) TRY(exchange(dnn, p->weights, &p->weights));
  return finish(dnn, p, pd, mine);
}

/* Makes everything from the layouts to the finished primitive; the caller frees what is set. */
static neap_status build_convolution(struct dnn *dnn, const struct convolution *c,
                                     const struct dnn_layout *weights, struct dnn_primitive *p,
                                     dnnl_primitive_attr_t *attributes, dnnl_primitive_desc_t *hint,
                                     dnnl_primitive_desc_t *pd) {
  int64_t dims[5];
  const int rank = kernel_dims(c, dims);
  const struct dnn_layout *source, *destination, *bias = NULL;
  const dnnl_data_type_t type = c->bf16 ? dnnl_bf16 : dnnl_f32;
  TRY(layout_activation(dnn, c->source, c->source_lanes, c->blocks, type, &source));
  TRY(layout_activation(dnn, c->destination, c->destination_lanes, c->blocks, type, &destination));
  if (c->bias) TRY(layout_row_major(dnn, 1, &c->kernel[0], type, &bias));
  dnnl_memory_desc_t any;
  TRY(describe_tag(rank, dims, type, dnnl_format_tag_any, &any));
#if DNN_3
  const queried open = any;
#else
  const queried open = &any;
#endif
  TRY(make_attributes(c->addend, attributes));
  struct convolution_md m = {source->md, open, bias != NULL ? bias->md : NULL, destination->md};
  dnnl_status_t status = dnnl_success;
  if (c->pass != PASS_FORWARD) status = describe_convolution(dnn, c, PASS_FORWARD, &m, NULL, NULL, hint);
  if (weights != NULL) m.weights = weights->md;
  if (status == dnnl_success) status = describe_convolution(dnn, c, c->pass, &m, *attributes, *hint, pd);
#if DNN_3
  dnnl_memory_desc_destroy(any);
#endif
  if (status != dnnl_success || is_unwanted(*pd))
    return neap_fail(status == dnnl_success ? NEAP_UNSUPPORTED : map_status(status),
                     "oneDNN has no fast convolution for this shape");
  return finish_convolution(dnn, c, *pd, p);
}

static neap_status keep_primitive(struct dnn *dnn, struct dnn_primitive *p, neap_status status,
                                  const struct dnn_primitive **out) {
  if (status == NEAP_OK) status = vector_push(&dnn->primitives, p);
  if (status != NEAP_OK) {
    free_primitive(p);
    return status;
  }
  *out = p;
  return NEAP_OK;
}

static struct dnn_primitive *find(const struct dnn *dnn, const struct dnn_primitive *key) {
  for (size_t i = 0; i < dnn->primitives.count; i++) {
    struct dnn_primitive *p = dnn->primitives.data[i];
    const struct convolution *a = &p->convolution, *b = &key->convolution;
    if (p->kind == key->kind && p->from == key->from && p->to == key->to && p->bf16 == key->bf16 &&
        a->pass == b->pass && a->bias == b->bias && a->addend == b->addend && a->exchanged == b->exchanged &&
        a->bf16 == b->bf16 && memcmp(a->source, b->source, sizeof a->source) == 0 &&
        memcmp(a->destination, b->destination, sizeof a->destination) == 0 &&
        memcmp(a->kernel, b->kernel, sizeof a->kernel) == 0 && a->stride == b->stride &&
        memcmp(a->padding, b->padding, sizeof a->padding) == 0 && a->dilation == b->dilation &&
        a->groups == b->groups && a->source_lanes == b->source_lanes &&
        a->destination_lanes == b->destination_lanes && a->blocks == b->blocks)
      return p;
  }
  return NULL;
}

/* Fails if the system does not have this memory. Touches none of it. */
static neap_status need_room(size_t bytes, int protection, const char *what, const char *limit) {
  void *room = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  RETURN_IF(
      room == MAP_FAILED, NEAP_OUT_OF_MEMORY,
      "oneDNN: %zu MiB of %s are not available, which creating its kernels may need; raise the limit (%s)",
      bytes >> 20, what, limit);
  munmap(room, bytes);
  return NEAP_OK;
}

/* Fails unless there is memory for oneDNN's code, as oneDNN does not notice its absence and crashes. Asks for
 * several times the 2 MiB that a primitive was ever seen to take: of address space, and of writable memory,
 * which RLIMIT_DATA limits. */
static neap_status need_headroom(void) {
  TRY(need_room((size_t)32 << 20, PROT_NONE, "address space", "ulimit -v"));
  return need_room((size_t)8 << 20, PROT_READ | PROT_WRITE, "memory", "ulimit -d, ulimit -v");
}

/* Finds the primitive made from the same key (sets *status, returns true), or starts a new empty one. */
static bool find_or_start(struct dnn *dnn, struct dnn_primitive key, struct dnn_primitive **fresh,
                          const struct dnn_primitive **out, neap_status *status) {
  struct dnn_primitive *known = find(dnn, &key);
  *status = NEAP_OK;
  if (known != NULL) {
    *out = known;
    return true;
  }
  *status = need_headroom();
  if (*status != NEAP_OK) return true;
  *fresh = malloc(sizeof **fresh);
  if (*fresh == NULL) {
    *status = neap_fail(NEAP_OUT_OF_MEMORY, "oneDNN: out of memory for a primitive");
    return true;
  }
  **fresh = key;
  return false;
}

neap_status dnn_make_convolution(struct dnn *dnn, const struct convolution *c,
                                 const struct dnn_layout *weights, const struct dnn_primitive **out) {
  struct dnn_primitive *p;
  neap_status status;
  if (find_or_start(dnn, (struct dnn_primitive){.kind = KIND_CONVOLUTION, .convolution = *c, .from = weights},
                    &p, out, &status))
    return status;
  dnnl_primitive_attr_t attributes = NULL;
  dnnl_primitive_desc_t hint = NULL, pd = NULL;
  status = build_convolution(dnn, c, weights, p, &attributes, &hint, &pd);
  if (pd != NULL) dnnl_primitive_desc_destroy(pd);
  if (hint != NULL) dnnl_primitive_desc_destroy(hint);
  if (attributes != NULL) dnnl_primitive_attr_destroy(attributes);
  return keep_primitive(dnn, p, status, out);
}

const struct dnn_layout *dnn_weights(const struct dnn_primitive *primitive) { return primitive->weights; }

bool dnn_takes_blocks(void) { return true; }

double dnn_bf16_speed(void) {
  static const struct {
    unsigned isa;
    double speed;
  } rows[] = {{dnnl_cpu_isa_avx512_core_amx, 8}, {dnnl_cpu_isa_avx512_core_bf16, 1.75}};
  const unsigned isa = (unsigned)dnnl_get_effective_cpu_isa();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if ((isa & rows[i].isa) == rows[i].isa) return rows[i].speed;
  return 0;
}

neap_status dnn_make_reorder(struct dnn *dnn, const struct dnn_layout *from, const struct dnn_layout *to,
                             bool bf16, const struct dnn_primitive **out) {
  struct dnn_primitive *p;
  neap_status status;
  if (find_or_start(dnn, (struct dnn_primitive){.kind = KIND_REORDER, .from = from, .to = to, .bf16 = bf16},
                    &p, out, &status))
    return status;
  dnnl_primitive_attr_t attributes = NULL;
  dnnl_primitive_desc_t pd = NULL;
  if (bf16) status = keep_as(dnn, from->md, dnnl_bf16, &from);
  if (bf16 && status == NEAP_OK) status = keep_as(dnn, to->md, dnnl_bf16, &to);
  if (status == NEAP_OK) status = make_attributes(false, &attributes);
  if (status == NEAP_OK && dnnl_reorder_primitive_desc_create(&pd, from->md, dnn->engine, to->md, dnn->engine,
                                                              attributes) != dnnl_success)
    status = neap_fail(NEAP_UNSUPPORTED, "oneDNN cannot reorder between these layouts");
  if (status == NEAP_OK) status = finish(dnn, p, pd, (int[]){DNNL_ARG_FROM, 0, DNNL_ARG_TO, 0});
  if (pd != NULL) dnnl_primitive_desc_destroy(pd);
  if (attributes != NULL) dnnl_primitive_attr_destroy(attributes);
  return keep_primitive(dnn, p, status, out);
}

size_t dnn_scratchpad_bytes(const struct dnn_primitive *primitive) { return primitive->scratchpad; }

void dnn_describe(const struct dnn_primitive *primitive, char *text, size_t size) {
  const dnnl_version_t *version = dnnl_version();
  snprintf(text, size, "oneDNN %d.%d.%d %s", version->major, version->minor, version->patch,
           primitive->implementation);
}

neap_status dnn_run(const struct dnn_primitive *p, const struct convolution_operands *o) {
  void *const data[OPERANDS] = {o->a, o->b, o->c, o->bias, o->scratchpad};
  dnnl_exec_arg_t arguments[OPERANDS];
  int count = 0;
  for (int i = 0; i < OPERANDS; i++) {
    if (p->argument[i] == 0) continue;
    DNN(dnnl_memory_set_data_handle(p->memory[i], data[i]));
    arguments[count++] = (dnnl_exec_arg_t){p->argument[i], p->memory[i]};
  }
  DNN(dnnl_primitive_execute(p->primitive, p->stream, count, arguments));
  DNN(dnnl_stream_wait(p->stream));
  return NEAP_OK;
}
