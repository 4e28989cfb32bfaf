/* Stores frozen parameters in quantised types. */
#include <stdio.h>
#include <string.h>

#include "base/pattern.h"
#include "base/quantised.h"
#include "rewrite/copy.h"

/* An entry of a list: PATTERN=TYPE, PATTERN=file, or !PATTERN. */
struct entry {
  struct pattern pattern;
  bool as_file; /* the type that the model's file has */
  neap_dtype dtype;
};

/* The types that weights can be stored in, as "q8_0, q4_0, ...". */
struct type_names {
  char text[256];
};

static struct type_names type_names(void) {
  struct type_names names = {""};
  size_t length = 0;
  for (neap_dtype d = 0; (int32_t)d < dtype_count && length < sizeof names.text; d++)
    if (can_quantise(d))
      length += (size_t)snprintf(names.text + length, sizeof names.text - length, "%s%s",
                                 length > 0 ? ", " : "", dtype_rows[d].name);
  return names;
}

/* Finds the type of this name; false if weights cannot be stored in it. */
static bool find_stored_type(const char *name, neap_dtype *dtype) {
  for (neap_dtype d = 0; (int32_t)d < dtype_count; d++)
    if (can_quantise(d) && strcmp(name, dtype_rows[d].name) == 0) {
      *dtype = d;
      return true;
    }
  return false;
}

static neap_status next_entry(const char **list, struct entry *entry, bool *any) {
  TRY(pattern_next(list, &entry->pattern, any));
  if (!*any || entry->pattern.without) return NEAP_OK;
  char *equals = strrchr(entry->pattern.text, '=');
  entry->as_file = equals != NULL && strcmp(equals + 1, "file") == 0;
  if (entry->as_file) {
    *equals = '\0';
    return NEAP_OK;
  }
  if (equals != NULL && find_stored_type(equals + 1, &entry->dtype)) {
    *equals = '\0';
    return NEAP_OK;
  }
  return neap_fail(
      NEAP_INVALID_ARGUMENT,
      "store: '%s' is not PATTERN=TYPE; TYPE is one of %s, or file for the types of the model's file",
      entry->pattern.text, type_names().text);
}

bool quantised_type(const struct store_options *options, const struct tensor *t, bool linear,
                    neap_dtype *dtype) {
  const char *list = options->list;
  struct entry entry;
  bool any, wanted = false;
  if (options->base != NULL && linear && (t->frozen || options->all))
    return find_stored_type(options->base, dtype);
  while (list != NULL && next_entry(&list, &entry, &any) == NEAP_OK && any)
    if (pattern_matches(&entry.pattern, t->name)) {
      const bool in_file = dtype_is_quantised(t->file_dtype) && (t->frozen || options->all);
      wanted = !entry.pattern.without && (!entry.as_file || in_file);
      *dtype = entry.as_file ? t->file_dtype : entry.dtype;
    }
  return wanted;
}

static bool is_parameter(const struct tensor *t) {
  return t->role == NEAP_ROLE_PARAMETER && t->view_of < 0 && !t->adapter;
}

/* Fails if a pattern matches nothing or a type does not exist. */
static neap_status check_options(const struct neap_graph *graph, const struct store_options *options) {
  const char *list = options->list;
  neap_dtype base;
  struct entry entry;
  bool any;
  RETURN_IF(options->base != NULL && !find_stored_type(options->base, &base), NEAP_INVALID_ARGUMENT,
            "base: weights cannot be stored in '%s'; the types are %s", options->base, type_names().text);
  while (list != NULL) {
    TRY(next_entry(&list, &entry, &any));
    if (!any) return NEAP_OK;
    const char *first = "none";
    bool matches = false;
    for (size_t t = graph->tensors.count; t-- > 0 && !matches;) {
      if (!is_parameter(&graph->tensors.data[t])) continue;
      first = graph->tensors.data[t].name;
      matches = pattern_matches(&entry.pattern, first);
    }
    RETURN_IF(!matches, NEAP_INVALID_ARGUMENT,
              "store: '%s' has no parameter that '%s' matches; the first is '%s'", graph->name,
              entry.pattern.text, first);
  }
  return NEAP_OK;
}

/* Returns true if a parameter can be stored in blocks: a matrix or kernels whose rows are a number of blocks,
 * and not a named output. */
static bool has_blocks(const struct neap_graph *graph, int32_t id, neap_dtype dtype) {
  const struct tensor *t = &graph->tensors.data[id];
  return t->rank >= 2 && row_elements(t) % dtype_rows[dtype].block_elements == 0 &&
         !graph_is_output(graph, id);
}

/* The types that the options ask for, by tensor. */
struct stored_types {
  neap_dtype *types; /* that which a parameter becomes; its own where it stays */
  bool *linear;      /* the weight of a linear layer */
};

static neap_status choose_types(const struct neap_graph *graph, const struct store_options *options,
                                const struct stored_types *stored) {
  const struct tensor *left = NULL;
  neap_dtype dtype = NEAP_F32;
  bool any = false;
  TRY(check_options(graph, options));
  if (options->base != NULL) TRY(find_linear_weights(graph, stored->linear));
  for (size_t i = 0; i < graph->tensors.count; i++) {
    const struct tensor *t = &graph->tensors.data[i];
    stored->types[i] = t->dtype;
    if (!is_parameter(t) || !quantised_type(options, t, stored->linear[i], &dtype)) continue;
    RETURN_IF(
        !t->frozen && !options->all, NEAP_INVALID_ARGUMENT,
        "store: '%s' is trained, and only frozen weights can be stored in %s; freeze it (`freeze` '%s'), "
        "or take it out with `store` '!%s'",
        t->name, dtype_rows[dtype].name, t->name, t->name);
    if (has_blocks(graph, (int32_t)i, dtype)) {
      stored->types[i] = dtype;
      any = true;
    } else if (left == NULL || left->rank < t->rank) {
      left = t;
    }
  }
  RETURN_IF(!any && left != NULL, NEAP_INVALID_ARGUMENT,
            "store: no weight of '%s' that '%s' matches can be stored in %s, which needs two dimensions or "
            "more and rows of a multiple of %d elements; '%s' is %s",
            graph->name, options->list != NULL ? options->list : "`base`", dtype_rows[dtype].name,
            dtype_rows[dtype].block_elements, left->name, shape_text(left).text);
  return NEAP_OK;
}

/* Marks the parameters that some node reads as numbers. Other readers then use these numbers too. */
static void find_read(const struct neap_graph *graph, bool *read) {
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    for (int32_t i = 0; i < node->input_count; i++)
      if (node->inputs[i] != NO_TENSOR && !reads_in_parts(graph, node, i))
        read[graph_storage(graph, node->inputs[i])] = true;
  }
}

/* Makes the numbers that a node reads. `stored`: by tensor of the old graph, the parameter in blocks. */
static neap_status dequantise_for(struct copy *copy, const struct node *node, int32_t *stored,
                                  const bool *read) {
  for (int32_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] == NO_TENSOR) continue;
    const int32_t old = graph_storage(copy->from, node->inputs[i]);
    if (stored[old] == NO_TENSOR || copy->map[old] != stored[old] || !read[old]) continue;
    const struct tensor *t = &copy->from->tensors.data[old];
    TRY(graph_apply(copy->to, OP_DEQUANTISE, t->name, &(union attributes){.dtype = (int32_t)t->dtype},
                    &stored[old], 1, &copy->map[old]));
  }
  return NEAP_OK;
}

static neap_status rewrite_all(struct copy *copy, const struct stored_types *chosen, int32_t *stored,
                               bool *read) {
  const neap_dtype *types = chosen->types;
  const struct neap_graph *from = copy->from;
  find_read(from, read);
  for (size_t t = 0; t < from->tensors.count; t++) {
    stored[t] = NO_TENSOR;
    if (chosen->linear[t]) copy->to->tensors.data[copy->map[t]].linear = true;
    if (types[t] == from->tensors.data[t].dtype) continue;
    stored[t] = copy->map[t];
    copy->to->tensors.data[stored[t]].dtype = types[t];
  }
  for (size_t v = 0; v < from->nodes.count; v++) {
    TRY(dequantise_for(copy, &from->nodes.data[v], stored, read));
    struct node node = from->nodes.data[v];
    const int32_t table = node.op == OP_GATHER ? node.inputs[0] : NO_TENSOR;
    if (table != NO_TENSOR && stored[table] != NO_TENSOR)
      node.attributes.dtype = (int32_t)from->tensors.data[table].dtype;
    TRY(copy_node(copy, node));
  }
  return NEAP_OK;
}

neap_status rewrite_quantise(const struct neap_graph *graph, const struct store_options *options,
                             struct neap_graph **out) {
  struct copy copy;
  const size_t count = graph->tensors.count + 1;
  const struct stored_types chosen = {calloc(count, sizeof *chosen.types),
                                      calloc(count, sizeof *chosen.linear)};
  int32_t *stored = calloc(count, sizeof *stored);
  bool *read = calloc(count, sizeof *read);
  neap_status status = NEAP_OK;
  if (chosen.types == NULL || chosen.linear == NULL || stored == NULL || read == NULL)
    status = neap_fail(NEAP_OUT_OF_MEMORY, "graph '%s': out of memory", graph->name);
  if (status == NEAP_OK) status = choose_types(graph, options, &chosen);
  if (status == NEAP_OK) status = copy_begin(&copy, graph, NULL);
  if (status == NEAP_OK) status = copy_end(&copy, rewrite_all(&copy, &chosen, stored, read), out);
  free(read);
  free(stored);
  free(chosen.linear);
  free(chosen.types);
  return status;
}
