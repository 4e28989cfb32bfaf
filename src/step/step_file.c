/* Graph files (docs/formats.md). */
#include <stdio.h>
#include <string.h>

#include "formats/json.h"
#include "step/step.h"

/* ---- Reading ---- */

static neap_status name_index(const char *text, const char *const *names, int count,
                              const struct json_place *place, const char *field, int *out) {
  for (int i = 0; i < count; i++)
    if (strcmp(text, names[i]) == 0) {
      *out = i;
      return NEAP_OK;
    }
  char words[96] = "is not one of ";
  for (int i = 0; i < count; i++) {
    const size_t length = strlen(words);
    snprintf(words + length, sizeof words - length, "%s%s", i > 0 ? ", " : "", names[i]);
  }
  return json_bad_field(place, field, words);
}

static neap_status read_tensors(json_t *root, const char *file, struct region *region,
                                struct neap_step *draft) {
  struct json_place place = {.file = file};
  json_t *list, *value;
  TRY(json_need_array(root, "tensors", &place, &list));
  RETURN_IF(json_array_size(list) > INT32_MAX - 2, NEAP_BAD_FORMAT, "%s: field 'tensors': too many", file);
  draft->tensor_count = (int32_t)json_array_size(list);
  draft->tensors = region_alloc(region, (size_t)draft->tensor_count, sizeof *draft->tensors);
  RETURN_IF_NULL(draft->tensors);
  size_t i;
  json_array_foreach(list, i, value) {
    struct step_tensor *tensor = &draft->tensors[i];
    snprintf(place.path, sizeof place.path, "tensors[%zu]", i);
    if (!json_is_object(value)) return json_bad(&place, "must be an object");
    const char *role;
    int index = 0;
    TRY(json_need_string(value, "name", &place, &tensor->name));
    TRY(json_need_size(value, "bytes", &place, &tensor->bytes));
    TRY(json_need_string(value, "role", &place, &role));
    TRY(name_index(role, role_names, ROLE_COUNT, &place, "role", &index));
    tensor->role = (neap_role)index;
  }
  return NEAP_OK;
}

static neap_status read_ids(const json_t *object, const char *name, const struct json_place *place,
                            struct region *region, const int32_t **ids, int32_t *count) {
  json_t *list;
  TRY(json_need_array(object, name, place, &list));
  int32_t *read = region_alloc(region, json_array_size(list), sizeof *read);
  RETURN_IF_NULL(read);
  TRY(json_to_ids(list, name, place, 0, read));
  *ids = read;
  *count = (int32_t)json_array_size(list);
  return NEAP_OK;
}

static neap_status read_inplace(const json_t *object, const struct json_place *place, struct region *region,
                                struct step_node *node) {
  json_t *list, *pair;
  TRY(json_need_array(object, "inplace", place, &list));
  struct inplace_pair *pairs = region_alloc(region, json_array_size(list), sizeof *pairs);
  RETURN_IF_NULL(pairs);
  size_t i;
  json_array_foreach(list, i, pair) {
    int32_t ids[2];
    if (!json_is_array(pair) || json_array_size(pair) != 2)
      return json_bad_field(place, "inplace", "must be a list of [output, input] pairs");
    TRY(json_to_ids(pair, "inplace", place, 0, ids));
    pairs[i] = (struct inplace_pair){ids[0], ids[1]};
  }
  node->inplace = pairs;
  node->inplace_count = (int32_t)json_array_size(list);
  return NEAP_OK;
}

static neap_status read_node(const json_t *value, const struct json_place *place, struct region *region,
                             struct step_node *node) {
  const char *pass;
  int index = 0;
  if (!json_is_object(value)) return json_bad(place, "must be an object");
  TRY(json_need_string(value, "name", place, &node->name));
  TRY(json_need_string(value, "op", place, &node->op));
  TRY(json_need_string(value, "pass", place, &pass));
  TRY(name_index(pass, pass_names, PASS_COUNT, place, "pass", &index));
  node->pass = (neap_pass)index;
  TRY(json_need_number(value, "cost", place, &node->cost));
  TRY(json_need_size(value, "workspace", place, &node->workspace));
  TRY(read_ids(value, "inputs", place, region, &node->inputs, &node->input_count));
  TRY(read_ids(value, "outputs", place, region, &node->outputs, &node->output_count));
  TRY(read_ids(value, "updates", place, region, &node->updates, &node->update_count));
  TRY(read_inplace(value, place, region, node));
  const json_t *repeatable = json_object_get(value, "repeatable");
  if (repeatable != NULL && !json_is_boolean(repeatable))
    return json_bad_field(place, "repeatable", "must be true or false");
  node->repeatable = repeatable == NULL || json_is_true(repeatable);
  const json_t *transfers = json_object_get(value, "transfers");
  if (transfers != NULL && !json_is_boolean(transfers))
    return json_bad_field(place, "transfers", "must be true or false");
  node->transfers = json_is_true(transfers);
  return NEAP_OK;
}

static neap_status read_draft(json_t *root, const char *file, struct region *region,
                              struct neap_step *draft) {
  struct json_place place = {.file = file};
  json_t *list, *value;
  TRY(json_need_string(root, "name", &place, &draft->name));
  TRY(read_tensors(root, file, region, draft));
  TRY(json_need_array(root, "nodes", &place, &list));
  RETURN_IF(json_array_size(list) > INT32_MAX - 2, NEAP_BAD_FORMAT, "%s: field 'nodes': too many", file);
  draft->node_count = (int32_t)json_array_size(list);
  draft->nodes = region_alloc(region, (size_t)draft->node_count, sizeof *draft->nodes);
  RETURN_IF_NULL(draft->nodes);
  size_t i;
  json_array_foreach(list, i, value) {
    snprintf(place.path, sizeof place.path, "nodes[%zu]", i);
    TRY(read_node(value, &place, region, &draft->nodes[i]));
  }
  place.path[0] = '\0';
  return read_ids(root, "outputs", &place, region, &draft->outputs, &draft->output_count);
}

/* Returns the first version of the format that has what the step has. */
static int version_of(const neap_step *step) {
  return step->has_lane || step->required_count < step->node_count ? 2 : 1;
}

neap_status neap_step_read(const char *path, neap_step **step) {
  NEED(path);
  NEED(step);
  json_t *root;
  int version;
  TRY(json_read_version(path, "neap-graph", 2, &version, &root));
  struct region region = {0};
  struct neap_step draft = {0};
  neap_status status = read_draft(root, path, &region, &draft);
  if (status == NEAP_OK) {
    status = step_create(&draft, step);
    if (status == NEAP_OK && version < version_of(*step)) {
      neap_step_free(*step);
      *step = NULL;
      status = neap_fail(NEAP_BAD_FORMAT,
                         "field 'version': nodes that transfer or restore need version 2 (got %d)", version);
    }
    if (status == NEAP_BAD_FORMAT) status = neap_fail(status, "%s: %s", path, neap_error_message());
  }
  region_free(&region);
  json_decref(root);
  return status;
}

/* ---- Writing ---- */

static json_t *ids_to_json(const int32_t *ids, int32_t count) {
  json_t *list = json_array();
  for (int32_t i = 0; i < count; i++)
    if (json_array_append_new(list, json_integer(ids[i])) != 0) return json_decref(list), NULL;
  return list;
}

static json_t *pairs_to_json(const struct inplace_pair *pairs, int32_t count) {
  json_t *list = json_array();
  for (int32_t i = 0; i < count; i++)
    if (json_array_append_new(list, json_pack("[i, i]", (int)pairs[i].output, (int)pairs[i].input)) != 0)
      return json_decref(list), NULL;
  return list;
}

static json_t *node_to_json(const struct step_node *node) {
  return json_pack("{s:s, s:s, s:s, s:f, s:I, s:o, s:o, s:o, s:o, s:b, s:o*}", "name", node->name, "op",
                   node->op, "pass", pass_names[node->pass], "cost", node->cost, "workspace",
                   (json_int_t)node->workspace, "inputs", ids_to_json(node->inputs, node->input_count),
                   "outputs", ids_to_json(node->outputs, node->output_count), "updates",
                   ids_to_json(node->updates, node->update_count), "inplace",
                   pairs_to_json(node->inplace, node->inplace_count), "repeatable", (int)node->repeatable,
                   "transfers", node->transfers ? json_true() : NULL);
}

neap_status neap_step_write(const neap_step *step, const char *path) {
  NEED(step);
  NEED(path);
  json_t *tensors = json_array(), *nodes = json_array();
  bool good = tensors != NULL && nodes != NULL;
  for (int32_t t = 0; good && t < step->tensor_count; t++)
    good = json_array_append_new(tensors, json_pack("{s:s, s:I, s:s}", "name", step->tensors[t].name, "bytes",
                                                    (json_int_t)step->tensors[t].bytes, "role",
                                                    role_names[step->tensors[t].role])) == 0;
  for (int32_t v = 0; good && v < step->node_count; v++)
    good = json_array_append_new(nodes, node_to_json(&step->nodes[v])) == 0;
  json_t *root = json_pack("{s:s, s:i, s:s, s:o, s:o, s:o}", "format", "neap-graph", "version",
                           version_of(step), "name", step->name, "tensors", tensors, "nodes", nodes,
                           "outputs", ids_to_json(step->outputs, step->output_count));
  return json_write_new(root, good, path);
}
