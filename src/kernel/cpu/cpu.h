/* The CPU backend: declarations that its files share. */
#ifndef NEAP_KERNEL_CPU_CPU_H
#define NEAP_KERNEL_CPU_CPU_H

#include "kernel/cpu/isa/kernels.h"
#include "kernel/cpu/onednn.h"
#include "kernel/kernel.h"

struct cpu {
  const struct cpu_kernels *kernels;
  struct dnn *dnn;
  int64_t block; /* channels in a block: 16, 8; 0: channels last */
  neap_convolution convolution;
  bool portable; /* bits follow from shapes alone (NEAP_BITS_PORTABLE) */
  int threads;
  double largest_node;               /* bytes of its operands */
  uint64_t part_bytes;               /* of f32 that the rows of a part may take */
  VECTOR(struct neap_graph *) parts; /* graphs of one node each: the parts of nodes that run in parts */
};

/* Returns how many images a convolution takes at once, if all of them would need this workspace: fewer, so
 * that it does not grow with the batch. Depends on the shape alone. With chunks of 32 MB and more VGG-16 was
 * as fast as in one piece (two cores); WRN-28-2, in chunks of 8 MB, took a tenth longer. */
static inline int64_t chunk_images(int64_t images, uint64_t workspace) {
  static const double most = 64e6;
  const int64_t chunk =
      (double)workspace <= most ? images : (int64_t)((double)images * most / (double)workspace);
  return chunk > 0 ? chunk : 1;
}

struct split_kernel;
struct recurrent_kernel;
struct winograd;
struct direct_convolution;

/* The state of a kernel. */
struct cpu_kernel {
  const struct cpu_kernels *kernels;
  const struct dnn_primitive *primitive; /* NULL: a kernel of our own */
  const struct product *product;         /* of an operator that multiplies matrices */
  const struct direct_convolution *direct;
  struct activation a, b; /* of the operator's main tensors */
  uint64_t count;         /* elements of a variable in its memory format */
  uint64_t sums;          /* of a bias gradient in 16 bits: the offset of its f32 sums in the workspace */
  struct strides strides; /* of operands in row-major order */
  const struct split_kernel *split; /* of a node that runs in parts */
  const struct recurrent_kernel *recurrent;
  const struct winograd *winograd;
};

typedef neap_status cpu_prepare(void *state, const struct neap_graph *graph, const struct node *node,
                                struct preparation *p);

/* Returns a tensor in a format, for our own kernels. With one pixel, channels are adjacent. */
struct activation activation_of(const struct tensor *tensor, struct memory_format format);

/* Returns the format that convolutions of this graph prefer for a tensor. */
struct memory_format preferred_format(const struct cpu *cpu, const struct tensor *tensor);

static inline const struct cpu_kernel *cpu_kernel(const struct kernel *kernel) { return kernel->state; }

/* Prepares a node in parts of `rows` rows (0: by their bytes), if the operator can be split. Its kernel,
 * which `prepare` makes, only takes f32: operands of 16 bits are converted for it. */
neap_status prepare_split(struct cpu *cpu, const struct neap_graph *graph, const struct node *node,
                          struct preparation *p, cpu_prepare *prepare, int64_t rows);

int64_t split_rows(const struct split_kernel *split); /* of a part */

/* Returns true if a node updates the values of all sparse parameters, or a state of theirs (UPDATE_SLOTS).
 * The second call rounds `count` such values of operand `operand`, from number `first` on, at random as those
 * of the dense tensors would be: by each parameter's name and the elements' places. `x`: the values as
 * f32. */
bool updates_sparse_values(const struct node *node);
void narrow_sparse_values(const struct kernel *kernel, int32_t operand, void *const *inputs, int64_t first,
                          int64_t count, const float *x, const struct run_context *context);

/* An operator of this backend: the function that prepares its kernel, and the types of real numbers that the
 * kernel takes as stored. Any other type is converted to f32, in parts (prepare_split). */
struct cpu_operator {
  cpu_prepare *prepare;
  type_set stores; /* for each operand alone */
  type_set
      alike; /* if all operands have one of these, but perhaps not for all shapes: NEAP_UNSUPPORTED says so */
  bool multiplies; /* `alike` only holds on processors that multiply bf16 themselves */
  /* Returns true if these operands are converted to f32 although `stores` has their types. NULL: never. */
  bool (*converts)(const struct neap_graph *graph, const struct node *node, const struct preparation *p);
};

/* Defines the row of an operator: CPU_OPERATOR(conv, TYPE_F32, ...) { prepares a kernel }. */
#define CPU_OPERATOR(id, ...)                                                                                \
  static cpu_prepare prepare_##id;                                                                           \
  const struct cpu_operator cpu_operator_##id = {.prepare = prepare_##id, .stores = __VA_ARGS__};            \
  static neap_status prepare_##id(void *state, const struct neap_graph *graph, const struct node *node,      \
                                  struct preparation *p)

/* One row for each operator: cpu_operator_conv, ... */
#define OP(NAME, id) extern const struct cpu_operator cpu_operator_##id;
#include "op/list.h"
#undef OP

#endif
