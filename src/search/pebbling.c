#include "search/pebbling.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/index.h"
#include "base/region.h"
#include "base/stop.h"
#include "base/vector.h"

/* A state: a set of tensors, and after them of nodes. */
struct state {
  int32_t from, node; /* the state that it was reached from, by a run of the node; -1: the end of the step */
  uint64_t bytes;     /* of its values */
  double cost;        /* of the runs behind it, the least that was found */
};

struct open_state {
  int32_t state;
  double cost;  /* the state's, when it was opened */
  double least; /* of any schedule by this way */
};

/* A run that comes before a state. */
struct retreat {
  int32_t node;
  uint64_t bytes; /* of the values of the state before it */
  bool is_free;   /* no way from the state is lost by taking this one */
  double merit;   /* the largest first */
  double ahead;   /* what must run before it costs this much */
};

struct game {
  const neap_step *step;
  struct region region;
  uint64_t limit;
  int64_t work;
  double rank_bytes;           /* see ORDERS */
  size_t words;                /* of a set */
  bool *once, *unread;         /* by node: it runs once; nobody reads its outputs */
  int32_t *seen, stamp;        /* by node: a candidate in the state that is looked at */
  uint64_t *set;               /* [words] the state that is looked at */
  VECTOR(uint64_t) sets;       /* [states][words] */
  VECTOR(struct state) states; /* all that were met */
  struct index index;          /* of the states, by their sets */
  VECTOR(struct open_state) open;
  bool cheapest;     /* is sought: then `open` is a heap, the next one first; else the next one is last */
  size_t node_words; /* of a set of nodes */
  uint64_t *need;    /* [nodes][node_words] the node and all that it depends on */
  uint64_t *ahead;   /* [node_words] what must run before the state that is looked at */
  VECTOR(struct retreat) retreats;
};

/* ---- Sets ---- */

static bool has(const uint64_t *set, int32_t i) { return set[i / 64] >> (i % 64) & 1; }
static void add(uint64_t *set, int32_t i) { set[i / 64] |= (uint64_t)1 << (i % 64); }
static void drop(uint64_t *set, int32_t i) { set[i / 64] &= ~((uint64_t)1 << (i % 64)); }

static int32_t bit_of(const struct game *g, int32_t node) { return g->step->tensor_count + node; }

/* Returns true if states say of this node whether it has run. */
static bool is_counted(const struct game *g, int32_t node) { return g->once[node] || g->unread[node]; }

static bool has_value(const struct game *g, int32_t t) { return g->step->tensors[t].role == NEAP_ROLE_VALUE; }

static uint64_t hash_set(const struct game *g, const uint64_t *set) {
  uint64_t hash = UINT64_C(0xCBF29CE484222325);
  for (size_t i = 0; i < g->words; i++) {
    hash = (hash ^ set[i]) * UINT64_C(0x9E3779B97F4A7C15);
    hash ^= hash >> 32;
  }
  return hash;
}

static const uint64_t *set_of(const struct game *g, int32_t state) {
  return g->sets.data + (size_t)state * g->words;
}

static uint64_t hash_entry(const void *owner, int32_t state) { return hash_set(owner, set_of(owner, state)); }

static bool matches(const void *owner, int32_t state, const void *set) {
  const struct game *g = owner;
  return memcmp(set_of(g, state), set, g->words * sizeof *g->set) == 0;
}

static const struct index_keys state_keys = {hash_entry, matches};

/* ---- The open states ---- */

/* Compares open states; of equals the one that was met later, which is deeper, comes first. */
static bool open_before(const struct game *g, const struct open_state *a, const struct open_state *b) {
  (void)g;
  return a->least != b->least ? a->least < b->least : a->state > b->state;
}
DEFINE_HEAP(open, struct game, struct open_state)

static neap_status open_state(struct game *g, struct open_state state) {
  TRY(vector_push(&g->open, state));
  if (g->cheapest) open_rise(g, g->open.data, g->open.count);
  return NEAP_OK;
}

static struct open_state take_next(struct game *g) {
  return g->cheapest ? open_take(g, g->open.data, &g->open.count) : g->open.data[--g->open.count];
}

/* Opens the state unless it was met before at no higher a cost. `ahead`: the cost of what must still run. */
static neap_status meet(struct game *g, const uint64_t *set, struct state state, double ahead) {
  TRY(index_reserve(&g->index, &state_keys, g));
  int32_t *place = index_slot(&g->index, &state_keys, g, hash_set(g, set), set);
  if (*place < 0) {
    TRY(vector_reserve(&g->sets, g->sets.count + g->words));
    TRY(vector_push(&g->states, state));
    index_put(&g->index, place);
    memcpy(g->sets.data + g->sets.count, set, g->words * sizeof *set);
    g->sets.count += g->words;
  } else if (g->cheapest && state.cost < g->states.data[*place].cost) {
    g->states.data[*place] = state;
  } else {
    return NEAP_OK;
  }
  return open_state(g, (struct open_state){*place, state.cost, state.cost + ahead});
}

/* ---- Runs ---- */

/* Returns true if the node may be the last that ran before the state. */
static bool may_run(const struct game *g, const uint64_t *set, int32_t v) {
  const struct step_node *node = &g->step->nodes[v];
  if (is_counted(g, v) && !has(set, bit_of(g, v))) return false;
  for (int32_t i = 0; i < node->input_count; i++) {
    const struct step_tensor *t = &g->step->tensors[node->inputs[i]];
    if (t->updater >= 0 && t->updater != v && has(set, bit_of(g, t->updater))) return false;
    if (t->producer >= 0 && g->once[t->producer] && !has(set, bit_of(g, t->producer))) return false;
  }
  return true;
}

/* Returns the bytes of outputs that take over inputs which are not in the set. Pairs are tried in their
 * order; an output takes over at most one input, and an input is taken over once. */
static uint64_t bytes_taken(const struct game *g, const uint64_t *set, const struct step_node *node) {
  enum { PAIRS = 64 }; /* of more, the rest are left out */
  uint64_t taken = 0, used = 0;
  for (int32_t p = 0; p < node->inplace_count && p < PAIRS; p++) {
    const struct inplace_pair *pair = &node->inplace[p];
    const int32_t input = node->inputs[pair->input], output = node->outputs[pair->output];
    bool is_free = has_value(g, input) && !has(set, input) &&
                   g->step->tensors[input].bytes >= g->step->tensors[output].bytes;
    for (int32_t q = 0; q < p && is_free; q++)
      if (used >> q & 1)
        is_free = node->inplace[q].output != pair->output && node->inputs[node->inplace[q].input] != input;
    if (!is_free) continue;
    used |= (uint64_t)1 << p;
    taken += g->step->tensors[output].bytes;
  }
  return taken;
}

/* Takes the node's run back: the set becomes what must hold before it. Returns the bytes at the run. */
static uint64_t go_back(const struct game *g, int32_t v, uint64_t *set, struct retreat *out) {
  const struct step_tensor *tensors = g->step->tensors;
  const struct step_node *node = &g->step->nodes[v];
  uint64_t kept = out->bytes, read = 0, made = node->workspace;
  for (int32_t i = 0; i < node->output_count; i++) {
    const int32_t t = node->outputs[i];
    made += tensors[t].bytes;
    if (has(set, t)) kept -= tensors[t].bytes;
    drop(set, t);
  }
  made -= bytes_taken(g, set, node);
  for (int32_t i = 0; i < node->input_count; i++) {
    const int32_t t = node->inputs[i];
    if (!has_value(g, t) || has(set, t)) continue;
    add(set, t);
    read += tensors[t].bytes;
  }
  if (is_counted(g, v)) drop(set, bit_of(g, v));
  *out = (struct retreat){
      .node = v, .bytes = kept + read, .is_free = read == 0 && (!g->once[v] || g->unread[v])};
  return kept + read + made;
}

/* Returns the cost of the nodes that must run before the state, whatever the limit. */
static double look_ahead(struct game *g, const uint64_t *set) {
  const neap_step *step = g->step;
  double cost = 0;
  if (!g->cheapest) return 0;
  memset(g->ahead, 0, g->node_words * sizeof *g->ahead);
  for (int32_t i = 0; i < step->tensor_count + step->node_count; i++) {
    if (!has(set, i)) continue;
    const int32_t v = i < step->tensor_count ? step->tensors[i].producer : i - step->tensor_count;
    for (size_t w = 0; w < g->node_words; w++) g->ahead[w] |= g->need[(size_t)v * g->node_words + w];
  }
  for (int32_t v = 0; v < step->node_count; v++)
    if (has(g->ahead, v)) cost += step->nodes[v].cost;
  return cost;
}

/* Returns true if no node that must run before reads this node's outputs, so its run serves nobody else. */
static bool serves_no_other(const struct game *g, int32_t v) {
  const struct step_node *node = &g->step->nodes[v];
  for (int32_t i = 0; i < node->output_count; i++)
    for (int32_t k = g->step->reader_start[node->outputs[i]]; k < g->step->reader_start[node->outputs[i] + 1];
         k++)
      if (has(g->ahead, g->step->readers[k])) return false;
  return true;
}

static neap_status consider(struct game *g, const uint64_t *set, uint64_t bytes, int32_t v) {
  if (g->seen[v] == g->stamp) return NEAP_OK;
  g->seen[v] = g->stamp;
  if (!may_run(g, set, v)) return NEAP_OK;
  struct retreat retreat = {.bytes = bytes};
  memcpy(g->set, set, g->words * sizeof *set);
  g->work -= g->step->nodes[v].input_count + g->step->nodes[v].output_count + (int64_t)g->words;
  if (go_back(g, v, g->set, &retreat) > g->limit) return NEAP_OK;
  retreat.merit = g->rank_bytes * v - (double)retreat.bytes;
  retreat.ahead = look_ahead(g, g->set);
  if (g->cheapest) g->work -= g->step->node_count;
  if (g->cheapest && retreat.is_free) retreat.is_free = serves_no_other(g, v);
  return vector_push(&g->retreats, retreat);
}

static int compare_retreats(const void *a, const void *b) {
  const struct retreat *x = a, *y = b;
  if (x->merit != y->merit) return x->merit > y->merit ? 1 : -1;
  return (x->node > y->node) - (x->node < y->node);
}

/* Finds all runs that may be the last before the state; if one is free, only that one. The best comes
 * last. */
static neap_status find_retreats(struct game *g, int32_t state) {
  const neap_step *step = g->step;
  const uint64_t *set = set_of(g, state), bytes = g->states.data[state].bytes;
  g->stamp++;
  g->retreats.count = 0;
  for (int32_t i = 0; i < step->tensor_count + step->node_count; i++) {
    if (set[i / 64] == 0) {
      i |= 63;
      continue;
    }
    if (!has(set, i)) continue;
    const int32_t v = i < step->tensor_count ? step->tensors[i].producer : i - step->tensor_count;
    if (i >= step->tensor_count && !g->unread[v]) continue; /* it runs for what reads it */
    TRY(consider(g, set, bytes, v));
    if (g->retreats.count == 0 || !g->retreats.data[g->retreats.count - 1].is_free) continue;
    g->retreats.data[0] = g->retreats.data[g->retreats.count - 1];
    g->retreats.count = 1;
    return NEAP_OK;
  }
  if (g->retreats.count > 1)
    qsort(g->retreats.data, g->retreats.count, sizeof *g->retreats.data, compare_retreats);
  return NEAP_OK;
}

static neap_status expand(struct game *g, int32_t state) {
  TRY(find_retreats(g, state));
  for (size_t i = 0; i < g->retreats.count; i++) {
    const struct state from = g->states.data[state];
    struct retreat retreat = {.bytes = from.bytes};
    const int32_t node = g->retreats.data[i].node;
    memcpy(g->set, set_of(g, state), g->words * sizeof *g->set);
    go_back(g, node, g->set, &retreat);
    TRY(meet(g, g->set, (struct state){state, node, retreat.bytes, from.cost + g->step->nodes[node].cost},
             g->retreats.data[i].ahead));
  }
  return NEAP_OK;
}

/* ---- The game ---- */

static neap_status prepare(struct game *g) {
  const neap_step *step = g->step;
  const size_t nodes = (size_t)step->node_count;
  g->words = ((size_t)step->tensor_count + nodes) / 64 + 1;
  g->once = region_alloc(&g->region, nodes, sizeof *g->once);
  g->unread = region_alloc(&g->region, nodes, sizeof *g->unread);
  g->seen = region_alloc(&g->region, nodes, sizeof *g->seen);
  g->set = region_alloc(&g->region, g->words, sizeof *g->set);
  RETURN_IF(!g->once || !g->unread || !g->seen || !g->set, NEAP_OUT_OF_MEMORY, "pebbling: out of memory");
  for (int32_t v = 0; v < step->node_count; v++) {
    const struct step_node *node = &step->nodes[v];
    g->once[v] = !node->repeatable || node->update_count > 0;
    g->unread[v] = true;
    for (int32_t i = 0; i < node->output_count; i++) {
      const int32_t t = node->outputs[i];
      if (step->reader_start[t + 1] > step->reader_start[t] || step->tensors[t].is_output)
        g->unread[v] = false;
    }
  }
  return NEAP_OK;
}

static neap_status open_end(struct game *g) {
  const neap_step *step = g->step;
  uint64_t bytes = 0;
  memset(g->set, 0, g->words * sizeof *g->set);
  for (int32_t t = 0; t < step->tensor_count; t++)
    if (has_value(g, t) && step->tensors[t].is_output) add(g->set, t), bytes += step->tensors[t].bytes;
  for (int32_t v = 0; v < step->node_count; v++)
    if (is_counted(g, v)) add(g->set, bit_of(g, v));
  return bytes <= g->limit ? meet(g, g->set, (struct state){-1, -1, bytes, 0}, look_ahead(g, g->set))
                           : NEAP_OK;
}

static bool is_start(const struct game *g, int32_t state) {
  const uint64_t *set = set_of(g, state);
  for (size_t i = 0; i < g->words; i++)
    if (set[i] != 0) return false;
  return true;
}

static neap_status play(struct game *g, struct schedule *out, bool *found) {
  g->sets.count = g->states.count = g->open.count = 0;
  index_clear(&g->index);
  TRY(open_end(g));
  while (g->open.count > 0 && g->work > 0) {
    TRY(stop_check());
    const struct open_state next = take_next(g);
    int32_t state = next.state;
    if (next.cost > g->states.data[state].cost) continue; /* reached at a lower cost since */
    if (!is_start(g, state)) {
      TRY(expand(g, state));
      continue;
    }
    *found = true;
    for (; g->states.data[state].from >= 0; state = g->states.data[state].from)
      TRY(vector_push(&out->nodes, g->states.data[state].node));
    break;
  }
  return NEAP_OK;
}

/* The bytes that going back by a node one place later in the step is worth, as a multiple of a node's average
 * bytes for 16 times the step's length. A large number keeps the step's own order as far as there is room;
 * with 0 all values are made again as late as possible. Which one finds a schedule depends on the step. */
static const double ORDERS[] = {1e9, 8, 0.1, 0};
enum { ORDER_COUNT = sizeof ORDERS / sizeof *ORDERS };

static neap_status play_all(struct game *g, int64_t *work, struct schedule *out, bool *found) {
  const double nodes = g->step->node_count;
  double bytes = 0;
  TRY(prepare(g));
  for (int32_t t = 0; t < g->step->tensor_count; t++)
    if (has_value(g, t)) bytes += (double)g->step->tensors[t].bytes;
  const int64_t share = *work / ORDER_COUNT;
  for (int i = 0; i < ORDER_COUNT && !*found; i++) {
    g->rank_bytes = ORDERS[i] * 16 * bytes / nodes / nodes;
    g->work = share;
    TRY(play(g, out, found));
    *work -= share - g->work;
    if (!*found && g->open.count == 0) return NEAP_OK; /* none exists */
  }
  return NEAP_OK;
}

/* Finds the needs of each node, in order: those of the makers of its inputs. */
static neap_status find_needs(struct game *g) {
  const size_t nodes = (size_t)g->step->node_count;
  g->node_words = nodes / 64 + 1;
  g->need = region_alloc(&g->region, nodes * g->node_words, sizeof *g->need);
  g->ahead = region_alloc(&g->region, g->node_words, sizeof *g->ahead);
  RETURN_IF(!g->need || !g->ahead, NEAP_OUT_OF_MEMORY, "pebbling: out of memory");
  for (int32_t v = 0; v < g->step->node_count; v++) {
    uint64_t *need = g->need + (size_t)v * g->node_words;
    add(need, v);
    for (int32_t i = 0; i < g->step->nodes[v].input_count; i++) {
      const int32_t maker = g->step->tensors[g->step->nodes[v].inputs[i]].producer;
      for (size_t w = 0; maker >= 0 && w < g->node_words; w++)
        need[w] |= g->need[(size_t)maker * g->node_words + w];
    }
  }
  return NEAP_OK;
}

static neap_status play_cheapest(struct game *g, int64_t *work, struct schedule *out, bool *found) {
  TRY(prepare(g));
  TRY(find_needs(g));
  g->cheapest = true;
  g->work = *work;
  TRY(play(g, out, found));
  *work = g->work;
  return NEAP_OK;
}

static void end_game(struct game *g) {
  vector_free(&g->sets);
  vector_free(&g->states);
  vector_free(&g->open);
  index_free(&g->index);
  vector_free(&g->retreats);
  region_free(&g->region);
}

neap_status pebble(const neap_step *step, uint64_t limit, int64_t *work, struct schedule *out, bool *found) {
  struct game game = {.step = step, .limit = limit};
  *found = false;
  const neap_status status = play_all(&game, work, out, found);
  if (status != NEAP_OK) schedule_free(out);
  end_game(&game);
  return status;
}

neap_status pebble_cheapest(const neap_step *step, uint64_t limit, int64_t *work, struct schedule *out,
                            bool *found) {
  struct game game = {.step = step, .limit = limit};
  *found = false;
  const neap_status status = play_cheapest(&game, work, out, found);
  if (status != NEAP_OK) schedule_free(out);
  end_game(&game);
  return status;
}
