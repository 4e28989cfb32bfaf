#include "search/chain.h"

#include <stdlib.h>
#include <string.h>

#include "base/index.h"
#include "base/vector.h"
#include "step/tuning.h"

/* ---- Choosing cuts ---- */

/* Returns true if a forward node makes of `t` alone what only the backward pass reads: `t` in fewer bits. */
static bool makes_for_backward(const neap_step *step, int32_t border, int32_t v, int32_t t) {
  const struct step_node *node = &step->nodes[v];
  bool read = false;
  for (int32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != t) return false;
  for (int32_t o = 0; o < node->output_count; o++)
    for (int32_t r = step->reader_start[node->outputs[o]]; r < step->reader_start[node->outputs[o] + 1];
         r++) {
      if (step->readers[r] < border) return false;
      read = true;
    }
  return read;
}

/* Returns true if the backward pass reads a value, or one that stands for it. */
static bool read_by_backward(const neap_step *step, int32_t border, int32_t t) {
  for (int32_t r = step->reader_start[t]; r < step->reader_start[t + 1]; r++)
    if (step->readers[r] >= border || makes_for_backward(step, border, step->readers[r], t)) return true;
  return false;
}

/* Returns true if the backward pass reads all but a small share of the boundary anyway: it costs nothing to
 * keep. */
static bool is_checkpoint(const struct chain *chain, const struct chain_cut *cut) {
  uint64_t unread = 0, bytes = 0;
  for (int32_t i = cut->begin; i < cut->end; i++) {
    const int32_t t = chain->cuts.values[i];
    bytes += chain->step->tensors[t].bytes;
    if (!read_by_backward(chain->step, chain->cuts.border, t)) unread += chain->step->tensors[t].bytes;
  }
  return unread <= bytes / CHAIN_UNREAD_SHARE;
}

/* Keeps the cuts for which `keep` is true, or every k-th of them, so that at most `most` are left. */
static void thin_out(struct chain_cuts *cuts, const bool *keep, int32_t most) {
  int32_t kept = 0, taken = 0;
  for (int32_t i = 0; i < cuts->count; i++) kept += keep[i];
  const int32_t apart = most > 0 ? (kept - 1) / most + 1 : kept + 1;
  for (int32_t i = 0, number = 0; i < cuts->count; i++)
    if (keep[i] && ++number % apart == 0) cuts->cuts[taken++] = cuts->cuts[i];
  cuts->count = taken;
}

static neap_status choose_cuts(struct chain *chain, int32_t most) {
  bool *keep = malloc((size_t)chain->cuts.count + 1);
  RETURN_IF_NULL(keep);
  int32_t kept = 0;
  for (int32_t i = 0; i < chain->cuts.count; i++)
    kept += keep[i] = is_checkpoint(chain, &chain->cuts.cuts[i]);
  if (kept == 0) memset(keep, true, (size_t)chain->cuts.count);
  thin_out(&chain->cuts, keep, most);
  free(keep);
  return NEAP_OK;
}

/* ---- Stages of nodes ---- */

/* Puts forward nodes into the stages between cuts. */
static void place_forward(struct chain *chain) {
  const struct chain_cuts *cuts = &chain->cuts;
  chain->stage_count = cuts->count + 1;
  memset(chain->cut_of, -1, (size_t)chain->step->tensor_count * sizeof *chain->cut_of);
  for (int32_t s = 0, v = 0; s < chain->stage_count; s++) {
    struct chain_stage *stage = &chain->stages[s];
    *stage = (struct chain_stage){.forward_begin = v};
    stage->forward_end = s < cuts->count ? cuts->cuts[s].after + 1 : cuts->border;
    for (; v < stage->forward_end; v++) chain->stage_of[v] = s;
    for (int32_t i = s < cuts->count ? cuts->cuts[s].begin : 0; s < cuts->count && i < cuts->cuts[s].end;
         i++) {
      chain->cut_of[cuts->values[i]] = s;
      stage->output_bytes += chain->step->tensors[cuts->values[i]].bytes;
    }
  }
}

/* Returns the stage of an update. It waits for every stage that reads the tensors it changes, also to make
 * values again. */
static int32_t stage_of_updated(const struct chain *chain, int32_t v) {
  const neap_step *step = chain->step;
  int32_t least = chain->stage_count - 1;
  for (int32_t u = 0; u < step->nodes[v].update_count; u++) {
    const int32_t t = step->nodes[v].updates[u];
    for (int32_t r = step->reader_start[t]; r < step->reader_start[t + 1]; r++)
      if (step->readers[r] < v && chain->stage_of[step->readers[r]] < least)
        least = chain->stage_of[step->readers[r]];
  }
  return least;
}

/* Returns the last stage (the first in the backward pass) in which a backward node may run. Reading the
 * inside of s means s; reading boundary s means s + 1, which has it as an input. */
static int32_t stage_of_reads(const struct chain *chain, const struct step_node *node) {
  const neap_step *step = chain->step;
  int32_t least = chain->stage_count - 1;
  for (int32_t i = 0; i < node->input_count; i++) {
    const int32_t t = node->inputs[i], producer = step->tensors[t].producer;
    if (producer < 0) continue;
    const int32_t stage = chain->stage_of[producer] + (chain->cut_of[t] >= 0);
    if (stage < least) least = stage;
  }
  return least;
}

/* Puts backward nodes into stages; along the order, stages only fall. `merged`[c] is set if cut c is between
 * a node and one of its inputs: there the chain property does not hold. */
static bool place_backward(struct chain *chain, int32_t *merged) {
  const neap_step *step = chain->step;
  bool any = false;
  int32_t now = chain->stage_count - 1;
  for (int32_t v = chain->cuts.border; v < step->node_count; v++) {
    const struct step_node *node = &step->nodes[v];
    int32_t stage = stage_of_reads(chain, node);
    if (node->update_count > 0) {
      const int32_t updated = stage_of_updated(chain, v);
      if (updated < stage) stage = updated;
      if (now < stage) stage = now;
    } else {
      stage = now = stage < now ? stage : now;
    }
    chain->stage_of[v] = stage;
    for (int32_t i = 0; i < node->input_count; i++) {
      const int32_t producer = step->tensors[node->inputs[i]].producer;
      if (producer < 0 || producer >= chain->cuts.border || chain->stage_of[producer] <= stage) continue;
      merged[stage]++, merged[chain->stage_of[producer]]--;
      any = true;
    }
  }
  return any;
}

/* Removes cuts. `merged` holds differences by cut; its prefix sums count the nodes that forbid a cut. */
static neap_status remove_cuts(struct chain *chain, int32_t *merged) {
  bool *keep = malloc((size_t)chain->cuts.count + 1);
  RETURN_IF_NULL(keep);
  for (int32_t c = 0, sum = 0; c < chain->cuts.count; c++) keep[c] = (sum += merged[c]) == 0;
  thin_out(&chain->cuts, keep, chain->cuts.count);
  free(keep);
  return NEAP_OK;
}

static neap_status place_nodes(struct chain *chain) {
  int32_t *merged = malloc(((size_t)chain->cuts.count + 2) * sizeof *merged);
  RETURN_IF_NULL(merged);
  neap_status status = NEAP_OK;
  for (bool again = true; again && status == NEAP_OK;) {
    memset(merged, 0, ((size_t)chain->cuts.count + 2) * sizeof *merged);
    place_forward(chain);
    again = place_backward(chain, merged);
    if (again) status = remove_cuts(chain, merged);
  }
  free(merged);
  return status;
}

/* Sorts backward nodes by stage, in their order within one. */
static void list_backward(struct chain *chain) {
  const int32_t border = chain->cuts.border, nodes = chain->step->node_count;
  for (int32_t v = border; v < nodes; v++) chain->stages[chain->stage_of[v]].backward_end++;
  for (int32_t s = 0, sum = 0; s < chain->stage_count; s++) {
    struct chain_stage *stage = &chain->stages[s];
    stage->backward_begin = sum;
    sum += stage->backward_end;
    stage->backward_end = stage->backward_begin;
  }
  for (int32_t v = border; v < nodes; v++)
    chain->backward[chain->stages[chain->stage_of[v]].backward_end++] = v;
}

/* ---- Bytes that live between stages ---- */

/* Counts the backward values that are live where the pass enters a stage: a later stage (of lower number)
 * made them, and this one or one after it reads them. */
static neap_status count_gradients(struct chain *chain) {
  const neap_step *step = chain->step;
  const size_t stages = (size_t)chain->stage_count + 2;
  struct region region = {0};
  uint64_t *entering = region_alloc(&region, stages, sizeof *entering),
           *passing = region_alloc(&region, stages, sizeof *passing);
  int32_t *touched = region_alloc(&region, stages, sizeof *touched); /* by stage: 1 + the last tensor there */
  if (entering == NULL || passing == NULL || touched == NULL) {
    region_free(&region);
    return neap_fail(NEAP_OUT_OF_MEMORY, "chain: out of memory");
  }
  for (int32_t t = 0; t < step->tensor_count; t++) {
    const int32_t producer = step->tensors[t].producer;
    if (producer < chain->cuts.border) continue;
    const int32_t made = chain->stage_of[producer];
    const uint64_t bytes = step->tensors[t].bytes;
    int32_t least = step->tensors[t].is_output ? 0 : made;
    for (int32_t r = step->reader_start[t]; r < step->reader_start[t + 1]; r++)
      if (chain->stage_of[step->readers[r]] < least) least = chain->stage_of[step->readers[r]];
    if (least == made) continue;
    entering[least] += bytes, entering[made] -= bytes;
    passing[least + 1] += bytes, passing[made] -= bytes;
    for (int32_t r = step->reader_start[t]; r < step->reader_start[t + 1]; r++) {
      const int32_t stage = chain->stage_of[step->readers[r]];
      if (stage == least || stage == made || touched[stage] == t + 1) continue;
      passing[stage] -= bytes, passing[stage + 1] += bytes;
      touched[stage] = t + 1;
    }
  }
  for (int32_t s = 0; s < chain->stage_count; s++) {
    if (s > 0) entering[s] += entering[s - 1], passing[s] += passing[s - 1];
    chain->stages[s].gradient_bytes = entering[s];
    chain->stages[s].passing_bytes = passing[s];
  }
  region_free(&region);
  return NEAP_OK;
}

static bool makes_what_is_read(const neap_step *step, const struct step_node *node) {
  for (int32_t i = 0; i < node->output_count; i++)
    if (step->reader_start[node->outputs[i] + 1] > step->reader_start[node->outputs[i]]) return true;
  return false;
}

/* Finds the forward values whose node must not run again, either never, or not once its inputs are updated in
 * the forward pass or by a node that others wait for. */
static void find_pinned(struct chain *chain) {
  const neap_step *step = chain->step;
  for (int32_t v = 0; v < chain->cuts.border; v++) {
    const struct step_node *node = &step->nodes[v];
    bool once = !node->repeatable || node->update_count > 0;
    for (int32_t i = 0; !once && i < node->input_count; i++) {
      const int32_t updater = step->tensors[node->inputs[i]].updater;
      once =
          updater >= 0 && (updater < chain->cuts.border || makes_what_is_read(step, &step->nodes[updater]));
    }
    for (int32_t i = 0; once && i < node->output_count; i++) chain->pinned[node->outputs[i]] = true;
  }
}

/* ---- Classes ---- */

/* A stage in canonical form: words that are the same exactly when the stages are the same graph. */
struct signatures {
  const struct chain *chain;
  size_t *start; /* by stage, and the end */
  uint64_t *hash;
  VECTOR(uint64_t) words;
  int32_t *local; /* by tensor: its number in the current stage */
  int32_t *seen;  /* by tensor: 1 + the stage that numbered it last */
};

static neap_status sign_tensor(struct chain *chain, struct signatures *g, int32_t s, int32_t *count,
                               int32_t t) {
  const struct step_tensor *tensor = &chain->step->tensors[t];
  if (g->seen[t] != s + 1) {
    g->seen[t] = s + 1;
    g->local[t] = (*count)++;
    const int32_t producer = tensor->producer;
    bool leaves = tensor->is_output; /* read in a stage that the backward pass comes to later */
    for (int32_t r = chain->step->reader_start[t];
         producer >= chain->cuts.border && !leaves && r < chain->step->reader_start[t + 1]; r++)
      leaves = chain->stage_of[chain->step->readers[r]] < s;
    const bool updated_here = tensor->updater >= 0 && chain->stage_of[tensor->updater] == s;
    const uint64_t kind =
        (uint64_t)(tensor->role != NEAP_ROLE_VALUE) | (uint64_t)(producer < chain->cuts.border) << 1 |
        (uint64_t)(producer >= 0 && chain->stage_of[producer] == s) << 2 | (uint64_t)leaves << 3 |
        (uint64_t)updated_here << 4 | (uint64_t)chain->pinned[t] << 5 |
        (uint64_t)(chain->cut_of[t] < 0 ? 0 : chain->cut_of[t] - s + 2) << 8;
    TRY(vector_push(&g->words, tensor->role == NEAP_ROLE_VALUE ? kind : kind & 0x3f));
    TRY(vector_push(&g->words, tensor->role == NEAP_ROLE_VALUE ? tensor->bytes : 0));
  }
  return vector_push(&g->words, (uint64_t)g->local[t]);
}

static neap_status sign_node(struct chain *chain, struct signatures *g, int32_t s, int32_t *count,
                             int32_t v) {
  const struct step_node *node = &chain->step->nodes[v];
  uint64_t cost;
  memcpy(&cost, &node->cost, sizeof cost);
  const uint64_t head[] = {(uint64_t)node->pass | (uint64_t)node->repeatable << 2, cost, node->workspace,
                           (uint64_t)node->input_count << 32 | (uint32_t)node->output_count,
                           (uint64_t)node->inplace_count << 32 | (uint32_t)node->update_count};
  for (size_t i = 0; i < sizeof head / sizeof *head; i++) TRY(vector_push(&g->words, head[i]));
  for (int32_t i = 0; i < node->input_count; i++) TRY(sign_tensor(chain, g, s, count, node->inputs[i]));
  for (int32_t i = 0; i < node->output_count; i++) TRY(sign_tensor(chain, g, s, count, node->outputs[i]));
  for (int32_t i = 0; i < node->update_count; i++) TRY(sign_tensor(chain, g, s, count, node->updates[i]));
  for (int32_t i = 0; i < node->inplace_count; i++)
    TRY(vector_push(&g->words, (uint64_t)node->inplace[i].output << 32 | (uint32_t)node->inplace[i].input));
  return NEAP_OK;
}

static neap_status sign_stages(struct chain *chain, struct signatures *g) {
  for (int32_t s = 0; s < chain->stage_count; s++) {
    const struct chain_stage *stage = &chain->stages[s];
    int32_t count = 0;
    g->start[s] = g->words.count;
    TRY(vector_push(&g->words, (uint64_t)(stage->forward_end - stage->forward_begin) << 32 |
                                   (uint32_t)(s == chain->stage_count - 1)));
    for (int32_t i = 0; i < chain_stage_node_count(stage); i++)
      TRY(sign_node(chain, g, s, &count, chain_stage_node(chain, stage, i)));
    uint64_t hash = 14695981039346656037u; /* FNV-1a, by words */
    for (size_t i = g->start[s]; i < g->words.count; i++) hash = (hash ^ g->words.data[i]) * 1099511628211u;
    g->hash[s] = hash ^ hash >> 29;
  }
  g->start[chain->stage_count] = g->words.count;
  return NEAP_OK;
}

static uint64_t hash_class(const void *owner, int32_t class_id) {
  const struct signatures *g = owner;
  return g->hash[g->chain->class_stage[class_id]];
}

static bool has_signature(const void *owner, int32_t class_id, const void *key) {
  const struct signatures *g = owner;
  const int32_t a = g->chain->class_stage[class_id], b = *(const int32_t *)key;
  const size_t words = g->start[a + 1] - g->start[a];
  return g->hash[a] == g->hash[b] && words == g->start[b + 1] - g->start[b] &&
         memcmp(&g->words.data[g->start[a]], &g->words.data[g->start[b]], words * sizeof(uint64_t)) == 0;
}

/* Numbers the classes: the first stage of each class is entered. */
static neap_status number_classes(struct chain *chain, const struct signatures *g, struct index *index) {
  static const struct index_keys keys = {hash_class, has_signature};
  for (int32_t s = 0; s < chain->stage_count; s++) {
    TRY(index_reserve(index, &keys, g));
    int32_t *slot = index_slot(index, &keys, g, g->hash[s], &s);
    if (*slot < 0) {
      chain->class_stage[chain->class_count] = s;
      index_put(index, slot), chain->class_count++;
    }
    chain->stages[s].class_id = *slot;
  }
  return NEAP_OK;
}

static neap_status find_classes(struct chain *chain) {
  struct region region = {0};
  struct signatures g = {.chain = chain};
  struct index index = {0};
  const size_t stages = (size_t)chain->stage_count + 1, tensors = (size_t)chain->step->tensor_count + 1;
  g.start = region_alloc(&region, stages, sizeof *g.start);
  g.hash = region_alloc(&region, stages, sizeof *g.hash);
  g.local = region_alloc(&region, tensors, sizeof *g.local);
  g.seen = region_alloc(&region, tensors, sizeof *g.seen);
  neap_status status = NEAP_OK;
  if (!g.start || !g.hash || !g.local || !g.seen)
    status = neap_fail(NEAP_OUT_OF_MEMORY, "chain: out of memory");
  if (status == NEAP_OK) status = sign_stages(chain, &g);
  if (status == NEAP_OK) status = number_classes(chain, &g, &index);
  vector_free(&g.words);
  index_free(&index);
  region_free(&region);
  return status;
}

/* ---- */

static neap_status allocate(struct chain *chain) {
  const neap_step *step = chain->step;
  const size_t stages = (size_t)chain->cuts.count + 1, tensors = (size_t)step->tensor_count + 1;
  chain->stages = region_alloc(&chain->region, stages, sizeof *chain->stages);
  chain->class_stage = region_alloc(&chain->region, stages, sizeof *chain->class_stage);
  chain->backward = region_alloc(&chain->region, (size_t)(step->node_count - chain->cuts.border) + 1,
                                 sizeof *chain->backward);
  chain->stage_of = region_alloc(&chain->region, (size_t)step->node_count + 1, sizeof *chain->stage_of);
  chain->cut_of = region_alloc(&chain->region, tensors, sizeof *chain->cut_of);
  chain->scratch = region_alloc(&chain->region, tensors, sizeof *chain->scratch);
  chain->pinned = region_alloc(&chain->region, tensors, sizeof *chain->pinned);
  RETURN_IF(!chain->stages || !chain->class_stage || !chain->backward || !chain->stage_of || !chain->cut_of ||
                !chain->scratch || !chain->pinned,
            NEAP_OUT_OF_MEMORY, "chain: out of memory");
  memset(chain->scratch, -1, tensors * sizeof *chain->scratch);
  return NEAP_OK;
}

neap_status chain_create(const neap_step *step, int32_t most_stages, struct chain *out) {
  *out = (struct chain){.step = step};
  TRY(chain_cuts_find(step, &out->region, &out->cuts));
  RETURN_IF(out->cuts.border == step->node_count, NEAP_OVER_BUDGET, "the graph has no cut: no backward pass");
  TRY(choose_cuts(out, most_stages - 1));
  TRY(allocate(out));
  TRY(place_nodes(out));
  RETURN_IF(out->stage_count < 2, NEAP_OVER_BUDGET,
            "the graph has no cut: no point of the forward pass is crossed by only a few values");
  list_backward(out);
  find_pinned(out);
  TRY(count_gradients(out));
  return find_classes(out);
}

void chain_free(struct chain *chain) { region_free(&chain->region); }
