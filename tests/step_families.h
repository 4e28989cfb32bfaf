/* Random training steps in families, one seed a step: for tests and for benches, without a test library.
 *
 *   chain            each node reads the one before it, now and then one further back
 *   layered          nodes in layers, each reading a window of the layer before it, and skips to any later
 * layer, as in Gagrani et al. 2022 and Moccasin (Bartan et al. 2023): one source, one sink, layers of 0.25
 * to 1.75 times the mean width, a window of a quarter of the layer, a seventh of all reads skips
 *   series-parallel  split in series or into two branches that one node joins, recursively
 *   u-shaped         a descent whose values are read again, last first, on the way up
 *   dense            each node reads half of all nodes before it, at random
 *   training         a forward part of one of the above, its mirrored backward part, and updates
 *
 * A plain step has one output a node and nothing else; the others have in-place pairs, workspaces, several
 * outputs, nodes that must not repeat, and updates. Sizes are multiples of 64 bytes, but for an odd step's,
 * which are any numbers; costs are whole numbers. */
#ifndef NEAP_TESTS_STEP_FAMILIES_H
#define NEAP_TESTS_STEP_FAMILIES_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/region.h"
#include "base/vector.h"
#include "step/step.h"

enum step_family {
  STEP_CHAIN,
  STEP_LAYERED,
  STEP_SERIES_PARALLEL,
  STEP_U,
  STEP_DENSE,
  STEP_TRAINING,
  STEP_FAMILY_COUNT
};

static const char *const step_family_names[STEP_FAMILY_COUNT] = {"chain",    "layered", "series-parallel",
                                                                 "u-shaped", "dense",   "training"};

struct step_shape {
  enum step_family family;
  int32_t nodes; /* of the whole step, at least 4; a training step may have a few fewer */
  uint32_t seed;
  bool plain, odd;
  double width; /* of layered steps: mean width / layers; 0: 0.35 */
};

/* Marsaglia's xorshift. */
static inline uint32_t draw(uint32_t *random, uint32_t below) {
  *random ^= *random << 13;
  *random ^= *random >> 17;
  *random ^= *random << 5;
  return *random % below;
}

/* ---- Which node reads which ---- */

struct skeleton {
  struct region region;
  uint32_t random;
  int32_t nodes;
  bool *reads; /* [nodes, nodes]: row reads column */
};

static inline bool *skeleton_reads(struct skeleton *s, int32_t reader, int32_t read) {
  return &s->reads[(size_t)reader * (size_t)s->nodes + (size_t)read];
}

static inline void skeleton_chain(struct skeleton *s) {
  for (int32_t v = 1; v < s->nodes; v++) {
    *skeleton_reads(s, v, v - 1) = true;
    if (draw(&s->random, 5) == 0) *skeleton_reads(s, v, (int32_t)draw(&s->random, (uint32_t)v)) = true;
  }
}

/* Reads between two layers: those whose places in their layers differ by at most an eighth and a node's half;
 * every node reads and is read. */
static inline void skeleton_join_layers(struct skeleton *s, int32_t from, int32_t from_count, int32_t to,
                                        int32_t to_count) {
  const double window = 0.13 + 0.4 / to_count;
  for (int32_t i = 0; i < from_count; i++) {
    const double place = (i + 0.5) / from_count;
    *skeleton_reads(s, to + (int32_t)(place * to_count), from + i) = true;
    for (int32_t j = 0; j < to_count; j++)
      if (fabs(place - (j + 0.5) / to_count) <= window) *skeleton_reads(s, to + j, from + i) = true;
  }
  for (int32_t j = 0; j < to_count; j++)
    *skeleton_reads(s, to + j, from + (int32_t)((j + 0.5) / to_count * from_count)) = true;
}

static inline void skeleton_layered(struct skeleton *s, double width) {
  const double mean = fmax(sqrt(s->nodes * (width > 0 ? width : 0.35)), 1.5);
  int32_t begin = 0, count = 1, reads = 0;
  while (begin + count < s->nodes) {
    const int32_t next = begin + count, left = s->nodes - next; /* the last node is the sink */
    const double share = 0.25 + 1.5 * draw(&s->random, 1000) / 1000.0;
    int32_t next_count = (int32_t)(mean * share + 0.5);
    if (next_count > left - 1) next_count = left - 1;
    if (next_count < 1) next_count = 1;
    skeleton_join_layers(s, begin, count, next, next_count);
    begin = next;
    count = next_count;
  }
  for (size_t i = 0; i < (size_t)s->nodes * (size_t)s->nodes; i++) reads += s->reads[i];
  for (int32_t k = reads / 6; k > 0 && s->nodes > 3; k--) {
    const int32_t reader = 2 + (int32_t)draw(&s->random, (uint32_t)s->nodes - 2);
    *skeleton_reads(s, reader, (int32_t)draw(&s->random, (uint32_t)reader)) = true;
  }
}

/* Renumbers the nodes in a random valid order: each time any of those whose reads have been made. */
static inline neap_status skeleton_shuffle(struct skeleton *s) {
  const int32_t nodes = s->nodes;
  int32_t *order = region_alloc(&s->region, (size_t)nodes, sizeof *order),
          *waits = region_alloc(&s->region, (size_t)nodes, sizeof *waits), count = 0;
  bool *old = region_copy(&s->region, s->reads, (size_t)nodes * (size_t)nodes, sizeof *old);
  RETURN_IF(order == NULL || waits == NULL || old == NULL, NEAP_OUT_OF_MEMORY, "random step: out of memory");
  for (int32_t v = 0; v < nodes; v++) {
    for (int32_t u = 0; u < v; u++) waits[v] += *skeleton_reads(s, v, u);
    if (waits[v] == 0) order[count++] = v;
  }
  for (int32_t done = 0; done < nodes; done++) { /* order[done .. count): ready */
    const int32_t pick = done + (int32_t)draw(&s->random, (uint32_t)(count - done)), v = order[pick];
    order[pick] = order[done];
    order[done] = v;
    for (int32_t r = v + 1; r < nodes; r++)
      if (*skeleton_reads(s, r, v) && --waits[r] == 0) order[count++] = r;
  }
  for (int32_t v = 0; v < nodes; v++)
    for (int32_t u = 0; u < nodes; u++)
      *skeleton_reads(s, v, u) = old[(size_t)order[v] * (size_t)nodes + (size_t)order[u]];
  return NEAP_OK;
}

/* `count` nodes from `first` on, entered through `source`; returns the one that they leave by. */
static inline int32_t skeleton_series_parallel(struct skeleton *s, int32_t first, int32_t count,
                                               int32_t source) {
  if (count == 1) {
    if (source >= 0) *skeleton_reads(s, first, source) = true;
    return first;
  }
  if (count < 3 || source < 0 || draw(&s->random, 2) == 0) {
    const int32_t before = 1 + (source < 0 ? 0 : (int32_t)draw(&s->random, (uint32_t)count - 1));
    const int32_t middle = skeleton_series_parallel(s, first, before, source);
    return skeleton_series_parallel(s, first + before, count - before, middle);
  }
  const int32_t left = 1 + (int32_t)draw(&s->random, (uint32_t)count - 2), join = first + count - 1;
  *skeleton_reads(s, join, skeleton_series_parallel(s, first, left, source)) = true;
  *skeleton_reads(s, join, skeleton_series_parallel(s, first + left, count - 1 - left, source)) = true;
  return join;
}

static inline void skeleton_u(struct skeleton *s) {
  for (int32_t v = 1; v < s->nodes; v++) {
    *skeleton_reads(s, v, v - 1) = true;
    if (v > s->nodes / 2 && draw(&s->random, 5) != 0) *skeleton_reads(s, v, s->nodes - 1 - v) = true;
  }
}

static inline void skeleton_dense(struct skeleton *s) {
  for (int32_t v = 1; v < s->nodes; v++) {
    *skeleton_reads(s, v, v - 1) = true;
    for (int32_t u = 0; u < v - 1; u++) *skeleton_reads(s, v, u) = draw(&s->random, 2) == 0;
  }
}

/* NEAP_OUT_OF_MEMORY; the caller frees the region in any case. */
static inline neap_status skeleton_create(const struct step_shape *shape, enum step_family family,
                                          int32_t nodes, struct skeleton *s) {
  *s = (struct skeleton){.nodes = nodes,
                         .random = (shape->seed * 2654435761u ^ (uint32_t)shape->family * 40503u) | 1u};
  for (int i = 0; i < 8; i++) draw(&s->random, 2); /* small seeds differ in few bits */
  s->reads = region_alloc(&s->region, (size_t)nodes * (size_t)nodes, sizeof *s->reads);
  RETURN_IF_NULL(s->reads);
  switch (family) {
  case STEP_LAYERED:
    skeleton_layered(s, shape->width);
    TRY(skeleton_shuffle(s));
    break;
  case STEP_SERIES_PARALLEL:
    skeleton_series_parallel(s, 0, nodes, -1);
    break;
  case STEP_U:
    skeleton_u(s);
    break;
  case STEP_DENSE:
    skeleton_dense(s);
    break;
  default:
    skeleton_chain(s);
  }
  return NEAP_OK;
}

/* ---- Bytes, costs and all the rest ---- */

struct step_draft {
  struct skeleton skeleton;
  bool plain, odd;
  VECTOR(struct step_tensor) tensors;
  VECTOR(struct step_node) nodes;
  int32_t *first_value, *second_value; /* of a forward node; -1: none */
  int32_t *parameter;                  /* of a forward node; -1: none */
  int32_t *gradient;                   /* of a forward node: the value that leads back through it */
};

static inline uint32_t chance(struct step_draft *d, uint32_t one_in) {
  return !d->plain && draw(&d->skeleton.random, one_in) == 0;
}

/* Mostly small, some large: the size of a normal draw (a sum of four uniform ones), up to 10 KiB. */
static inline uint64_t draw_bytes(struct step_draft *d) {
  int32_t sum = -160;
  for (int i = 0; i < 4; i++) sum += (int32_t)draw(&d->skeleton.random, 81);
  const uint64_t bytes = 64 * (1 + (uint64_t)abs(sum));
  return d->odd ? bytes + draw(&d->skeleton.random, 64) : bytes;
}

/* What is resident is small: it belongs to every budget. */
static inline neap_status add_tensor(struct step_draft *d, neap_role role, const char *name, int32_t *id) {
  const uint64_t bytes = role == NEAP_ROLE_VALUE ? draw_bytes(d) : 64;
  *id = (int32_t)d->tensors.count;
  return vector_push(&d->tensors, (struct step_tensor){.name = name, .bytes = bytes, .role = role});
}

/* A node that reads `inputs` and makes one value, or two where `second` is not NULL. */
static inline neap_status add_node(struct step_draft *d, neap_pass pass, const int32_t *inputs, int32_t count,
                                   int32_t *first, int32_t *second) {
  struct region *region = &d->skeleton.region;
  TRY(add_tensor(d, NEAP_ROLE_VALUE, "value", first));
  if (second != NULL) TRY(add_tensor(d, NEAP_ROLE_VALUE, "second", second));
  const int32_t outputs[2] = {*first, second != NULL ? *second : -1};
  int32_t values = 0;
  for (int32_t i = 0; i < count; i++) values += d->tensors.data[inputs[i]].role == NEAP_ROLE_VALUE;
  struct inplace_pair pairs[2];
  int32_t pair_count = 0;
  while (pair_count < 2 && values > 0 && chance(d, 3))
    pairs[pair_count++] = (struct inplace_pair){second != NULL ? (int32_t)draw(&d->skeleton.random, 2) : 0,
                                                (int32_t)draw(&d->skeleton.random, (uint32_t)count)};
  const struct step_node node = {.name = "node",
                                 .op = "Op",
                                 .pass = pass,
                                 .repeatable = !chance(d, 12),
                                 .cost = 1 + draw(&d->skeleton.random, 1000),
                                 .workspace = chance(d, 4) ? draw_bytes(d) : 0,
                                 .inputs = region_copy(region, inputs, (size_t)count, sizeof *inputs),
                                 .input_count = count,
                                 .outputs = region_copy(region, outputs, 2, sizeof *outputs),
                                 .output_count = 1 + (second != NULL),
                                 .inplace = region_copy(region, pairs, (size_t)pair_count, sizeof *pairs),
                                 .inplace_count = pair_count};
  RETURN_IF(node.inputs == NULL || node.outputs == NULL || node.inplace == NULL, NEAP_OUT_OF_MEMORY,
            "random step: out of memory");
  return vector_push(&d->nodes, node);
}

static inline neap_status add_update(struct step_draft *d, int32_t parameter, int32_t gradient) {
  const int32_t inputs[2] = {gradient, parameter};
  struct step_node node = {.name = "update",
                           .op = "SGD",
                           .pass = NEAP_PASS_UPDATE,
                           .cost = 1 + draw(&d->skeleton.random, 100),
                           .input_count = 2,
                           .update_count = 1};
  node.inputs = region_copy(&d->skeleton.region, inputs, 2, sizeof *inputs);
  node.updates = region_copy(&d->skeleton.region, &parameter, 1, sizeof parameter);
  RETURN_IF(node.inputs == NULL || node.updates == NULL, NEAP_OUT_OF_MEMORY, "random step: out of memory");
  return vector_push(&d->nodes, node);
}

static inline neap_status draft_arrays(struct step_draft *d) {
  const size_t nodes = (size_t)d->skeleton.nodes;
  int32_t **const arrays[] = {&d->first_value, &d->second_value, &d->parameter, &d->gradient};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
    *arrays[i] = region_alloc(&d->skeleton.region, nodes, sizeof **arrays);
    RETURN_IF(*arrays[i] == NULL, NEAP_OUT_OF_MEMORY, "random step: out of memory");
    memset(*arrays[i], -1, nodes * sizeof **arrays);
  }
  return NEAP_OK;
}

/* The skeleton's nodes. `parameters`: one in this many has one of its own; 0: none. */
static inline neap_status add_forward(struct step_draft *d, int32_t input, uint32_t parameters) {
  struct skeleton *s = &d->skeleton;
  int32_t *inputs = region_alloc(&s->region, 2 * (size_t)s->nodes + 2, sizeof *inputs);
  RETURN_IF_NULL(inputs);
  for (int32_t v = 0; v < s->nodes; v++) {
    int32_t count = 0;
    for (int32_t u = 0; u < v; u++) {
      if (!*skeleton_reads(s, v, u)) continue;
      const uint32_t which = d->second_value[u] >= 0 ? draw(&s->random, 4) : 0; /* either or both */
      if (which != 1) inputs[count++] = d->first_value[u];
      if (which == 1 || which == 2) inputs[count++] = d->second_value[u];
    }
    if (count == 0) inputs[count++] = input;
    if (parameters > 0 && draw(&s->random, parameters) == 0) {
      TRY(add_tensor(d, NEAP_ROLE_PARAMETER, "parameter", &d->parameter[v]));
      inputs[count++] = d->parameter[v];
    }
    TRY(add_node(d, NEAP_PASS_FORWARD, inputs, count, &d->first_value[v],
                 chance(d, 6) ? &d->second_value[v] : NULL));
  }
  return NEAP_OK;
}

/* The backward node of a forward node reads what comes back from its readers and a part of what it has read
 * or made; with a parameter it makes the parameter's gradient too, which is for an update right after it. */
static inline neap_status add_backward(struct step_draft *d) {
  struct skeleton *s = &d->skeleton;
  int32_t *inputs = region_alloc(&s->region, 2 * (size_t)s->nodes + 4, sizeof *inputs);
  RETURN_IF_NULL(inputs);
  for (int32_t v = s->nodes; v-- > 0;) {
    int32_t count = 0, weight_gradient;
    for (int32_t reader = v + 1; reader < s->nodes; reader++)
      if (*skeleton_reads(s, reader, v)) inputs[count++] = d->gradient[reader];
    const uint32_t kept = count == 0 ? 1 : draw(&s->random, 5);
    if (kept == 1 || kept == 2) inputs[count++] = d->first_value[v];
    for (int32_t u = 0; kept >= 2 && kept <= 3 && u < v; u++)
      if (*skeleton_reads(s, v, u)) inputs[count++] = d->first_value[u];
    if (d->parameter[v] >= 0) inputs[count++] = d->parameter[v];
    TRY(add_node(d, NEAP_PASS_BACKWARD, inputs, count, &d->gradient[v],
                 d->parameter[v] >= 0 ? &weight_gradient : NULL));
    if (d->parameter[v] >= 0) TRY(add_update(d, d->parameter[v], weight_gradient));
  }
  return NEAP_OK;
}

static inline neap_status draft_step(const struct step_shape *shape, struct step_draft *d) {
  const bool training = shape->family == STEP_TRAINING;
  static const enum step_family bodies[] = {STEP_CHAIN, STEP_LAYERED, STEP_SERIES_PARALLEL, STEP_U};
  enum { UPDATES_IN = 4 }; /* a parameter and its update for one in this many forward nodes */
  int32_t nodes = shape->nodes, input;
  if (training)
    nodes = (int32_t)(nodes / (2 + (shape->plain ? 0 : 1.0 / UPDATES_IN)));
  else if (!shape->plain)
    nodes -= nodes / 8;
  TRY(skeleton_create(shape, training ? bodies[shape->seed % 4] : shape->family, nodes, &d->skeleton));
  d->plain = shape->plain;
  d->odd = shape->odd;
  TRY(draft_arrays(d));
  TRY(add_tensor(d, NEAP_ROLE_INPUT, "input", &input));
  TRY(add_forward(d, input, shape->plain ? 0 : training ? UPDATES_IN : 8));
  if (training) TRY(add_backward(d));
  /* Elsewhere updates follow the node after the last that reads the parameter. */
  for (int32_t v = 0; !training && v < nodes && (int32_t)d->nodes.count < shape->nodes; v++)
    if (d->parameter[v] >= 0) TRY(add_update(d, d->parameter[v], d->first_value[nodes - 1 - v / 2]));
  return NEAP_OK;
}

/* A step of a family; the caller frees it with neap_step_free. */
static inline neap_status step_of_family(const struct step_shape *shape, neap_step **out) {
  struct step_draft d = {0};
  int32_t outputs[2];
  neap_status status;
  TRY_DONE(draft_step(shape, &d));
  outputs[0] = shape->family == STEP_TRAINING ? d.gradient[0] : d.first_value[d.skeleton.nodes - 1];
  outputs[1] = d.first_value[d.skeleton.nodes - 1];
  const struct neap_step draft = {.name = step_family_names[shape->family],
                                  .tensors = d.tensors.data,
                                  .tensor_count = (int32_t)d.tensors.count,
                                  .nodes = d.nodes.data,
                                  .node_count = (int32_t)d.nodes.count,
                                  .outputs = outputs,
                                  .output_count = 1 + (int32_t)chance(&d, 3)};
  status = step_create(&draft, out);
done:
  vector_free(&d.tensors);
  vector_free(&d.nodes);
  region_free(&d.skeleton.region);
  return status;
}

#endif
