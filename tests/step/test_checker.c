/* The checker: plans that follow the rules are accepted; a plan that is wrong in one place is refused with
 * the rule and the position; where a change can be harmless, an oracle that tries every byte at every
 * position decides. The simulator's figures are the oracle's too. */
#include "effort.h"
#include "random_step.h"

#include <math.h>
#include <stdio.h>

#include "plan/planners.h"

enum { POSITIONS = 64, INSTANCES = 256, NODES = 16, LISTED = 4, ARENA = 4096 };

/* ---- Random steps with all that the formats allow ---- */

/* Nodes with none to three outputs, inputs read twice, several in-place pairs, sizes of 0. */
static neap_step *wild_step(uint32_t *random) {
  static int32_t inputs[NODES][LISTED], outputs[NODES][LISTED], kept[2];
  static struct inplace_pair pairs[NODES][LISTED];
  struct step_tensor tensors[NODES * LISTED] = {0};
  struct step_node nodes[NODES] = {0};
  const int32_t weights = 3, body = 2 + (int32_t)draw(random, 9);
  int32_t made = weights, count = body;
  for (int32_t t = 0; t < weights; t++)
    tensors[t] = (struct step_tensor){
        .name = "w", .bytes = draw(random, 9), .role = t == 0 ? NEAP_ROLE_INPUT : NEAP_ROLE_PARAMETER};
  for (int32_t v = 0; v < body; v++) {
    const int32_t known = made;
    nodes[v] = (struct step_node){.name = "n",
                                  .op = "Op",
                                  .repeatable = draw(random, 8) != 0,
                                  .cost = (double)draw(random, 1000) / 7,
                                  .workspace = draw(random, 2) ? draw(random, 12) : 0,
                                  .input_count = 1 + (int32_t)draw(random, LISTED),
                                  .output_count = (int32_t)draw(random, LISTED),
                                  .inputs = inputs[v],
                                  .outputs = outputs[v],
                                  .inplace = pairs[v]};
    if (v == 0) nodes[v].output_count = 2;
    for (int32_t i = 0; i < nodes[v].input_count; i++) {
      const int32_t reach = known > 8 ? 8 : known; /* mostly what was made lately */
      inputs[v][i] = known - 1 - (int32_t)draw(random, (uint32_t)(draw(random, 3) ? reach : known));
    }
    for (int32_t i = 0; i < nodes[v].output_count; i++) {
      outputs[v][i] = made;
      tensors[made++] = (struct step_tensor){
          .name = "v", .bytes = draw(random, 6) ? 1 + draw(random, 20) : 0, .role = NEAP_ROLE_VALUE};
    }
    if (nodes[v].output_count > 0) nodes[v].inplace_count = (int32_t)draw(random, LISTED);
    for (int32_t i = 0; i < nodes[v].inplace_count; i++)
      pairs[v][i] = (struct inplace_pair){(int32_t)draw(random, (uint32_t)nodes[v].output_count),
                                          (int32_t)draw(random, (uint32_t)nodes[v].input_count)};
  }
  for (int32_t t = 1; t < weights; t++) {
    static const int32_t updates[] = {0, 1, 2};
    inputs[count][0] = t;
    inputs[count][1] = weights + (int32_t)draw(random, (uint32_t)(made - weights));
    nodes[count] = (struct step_node){.name = "u",
                                      .op = "SGD",
                                      .pass = NEAP_PASS_UPDATE,
                                      .repeatable = true, /* which an update is not, whatever this says */
                                      .cost = 1,
                                      .inputs = inputs[count],
                                      .input_count = 1 + (int32_t)draw(random, 2),
                                      .updates = &updates[t],
                                      .update_count = 1};
    count++;
  }
  kept[0] = made - 1;
  kept[1] = weights + (int32_t)draw(random, (uint32_t)(made - weights));
  const struct neap_step draft = {.name = "wild",
                                  .tensors = tensors,
                                  .tensor_count = made,
                                  .nodes = nodes,
                                  .node_count = count,
                                  .outputs = kept,
                                  .output_count = (int32_t)draw(random, 3)};
  neap_step *step;
  assert_int_equal(step_create(&draft, &step), NEAP_OK);
  return step;
}

/* ---- The oracle: the rules, by trying everything ---- */

static bool reads(const struct step_node *node, int32_t tensor) {
  for (int32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] == tensor) return true;
  return false;
}

static bool updates_one_of_its_own(const neap_step *step, int32_t u, int32_t reader) {
  for (int32_t i = 0; i < step->nodes[u].update_count; i++)
    if (u != reader && reads(&step->nodes[reader], step->nodes[u].updates[i])) return true;
  return false;
}

static bool schedule_is_valid(const neap_step *step, const int32_t *schedule, int32_t length) {
  int32_t runs[NODES] = {0};
  for (int32_t t = 0; t < length; t++) {
    if (schedule[t] < 0 || schedule[t] >= step->node_count) return false;
    const struct step_node *node = &step->nodes[schedule[t]];
    runs[schedule[t]]++;
    if (runs[schedule[t]] > 1 && (!node->repeatable || node->update_count > 0)) return false;
    for (int32_t i = 0; i < node->input_count; i++) {
      const int32_t producer = step->tensors[node->inputs[i]].producer;
      if (producer >= 0 && runs[producer] == 0) return false;
    }
    for (int32_t before = 0; before < t; before++)
      if (updates_one_of_its_own(step, schedule[before], schedule[t])) return false;
  }
  for (int32_t v = 0; v < step->node_count; v++)
    if (runs[v] == 0) return false;
  return true;
}

struct life {
  int32_t at, last, host;
  uint64_t bytes;
};

struct truth {
  struct life lives[INSTANCES];
  struct placed placed[INSTANCES]; /* without offsets */
  int32_t count;
  uint64_t most; /* live bytes at one position */
  double cost;
};

static int32_t last_read(const neap_step *step, const int32_t *schedule, int32_t length, int32_t tensor,
                         int32_t at) {
  int32_t last = at;
  for (int32_t t = at + 1; t < length; t++) {
    if (reads(&step->nodes[schedule[t]], tensor)) last = t;
    if (schedule[t] == step->tensors[tensor].producer) return last;
  }
  return step->tensors[tensor].is_output ? length : last;
}

static void add_instance(struct truth *truth, int32_t at, int32_t last, int32_t tensor, uint64_t bytes) {
  assert_true(truth->count < INSTANCES);
  truth->lives[truth->count] = (struct life){at, last, -1, bytes};
  truth->placed[truth->count++] = (struct placed){.at = at, .tensor = tensor, .bytes = bytes};
}

/* The instance of a tensor that position t reads: the youngest that is older. */
static int32_t instance_read(const struct truth *truth, int32_t tensor, int32_t t) {
  int32_t found = -1;
  for (int32_t k = 0; k < truth->count; k++)
    if (truth->placed[k].tensor == tensor && truth->lives[k].at < t) found = k;
  return found;
}

static void try_pair(const neap_step *step, const struct step_node *node, struct inplace_pair pair, int32_t t,
                     int32_t first, struct truth *truth) {
  const int32_t input = node->inputs[pair.input], guest = first + pair.output;
  if (step->tensors[input].role != NEAP_ROLE_VALUE) return;
  const int32_t host = instance_read(truth, input, t);
  if (host < 0) return; /* not made: the schedule is not valid */
  bool can = truth->lives[host].last == t && truth->lives[host].bytes >= truth->lives[guest].bytes &&
             truth->lives[guest].host < 0;
  for (int32_t k = first; k < truth->count; k++) can = can && truth->lives[k].host != host;
  if (can) truth->lives[guest].host = host;
}

static void find_truth(const neap_step *step, const int32_t *schedule, int32_t length, struct truth *truth) {
  *truth = (struct truth){0};
  for (int32_t t = 0; t < length; t++) {
    const struct step_node *node = &step->nodes[schedule[t]];
    const int32_t first = truth->count;
    for (int32_t i = 0; i < node->output_count; i++)
      add_instance(truth, t, last_read(step, schedule, length, node->outputs[i], t), node->outputs[i],
                   step->tensors[node->outputs[i]].bytes);
    if (node->workspace > 0) add_instance(truth, t, t, -1, node->workspace);
    for (int32_t i = 0; i < node->inplace_count; i++) try_pair(step, node, node->inplace[i], t, first, truth);
    truth->cost += node->cost;
  }
  for (int32_t t = 0; t < length; t++) {
    uint64_t live = 0;
    for (int32_t k = 0; k < truth->count; k++) {
      const struct life *life = &truth->lives[k];
      if (life->at <= t && t <= life->last && !(life->at == t && life->host >= 0)) live += life->bytes;
    }
    if (live > truth->most) truth->most = live;
  }
}

/* Paints every byte of what lives at position t, guests after their hosts. */
static bool position_is_clean(const struct truth *truth, const struct placed *placed, int32_t t) {
  static int32_t owner[ARENA];
  for (int32_t byte = 0; byte < ARENA; byte++) owner[byte] = -1;
  for (int32_t k = 0; k < truth->count; k++) {
    if (truth->lives[k].at > t || truth->lives[k].last < t) continue;
    const int32_t host = truth->lives[k].at == t ? truth->lives[k].host : -1;
    uint64_t shared = 0;
    for (uint64_t byte = placed[k].offset; byte < placed[k].offset + placed[k].bytes; byte++) {
      if (owner[byte] >= 0 && (host < 0 || owner[byte] != host)) return false;
      shared += owner[byte] >= 0;
      if (owner[byte] < 0) owner[byte] = k;
    }
    if (shared != 0 && shared != placed[k].bytes) return false;
  }
  return true;
}

static bool places_are_valid(const struct truth *truth, const struct placed *placed, int32_t length,
                             uint64_t arena) {
  for (int32_t k = 0; k < truth->count; k++)
    if (placed[k].offset > arena || placed[k].bytes > arena - placed[k].offset) return false;
  for (int32_t t = 0; t < length; t++)
    if (!position_is_clean(truth, placed, t)) return false;
  return true;
}

/* ---- Random valid schedules and places ---- */

static bool may_run(const neap_step *step, const int32_t *schedule, int32_t length, int32_t v) {
  bool run[NODES] = {false};
  for (int32_t t = 0; t < length; t++) {
    run[schedule[t]] = true;
    if (updates_one_of_its_own(step, schedule[t], v)) return false;
  }
  if (run[v] && (!step->nodes[v].repeatable || step->nodes[v].update_count > 0)) return false;
  for (int32_t i = 0; i < step->nodes[v].input_count; i++) {
    const int32_t producer = step->tensors[step->nodes[v].inputs[i]].producer;
    if (producer >= 0 && !run[producer]) return false;
  }
  for (int32_t other = 0; other < step->node_count; other++)
    if (!run[other] && updates_one_of_its_own(step, v, other)) return false;
  return true;
}

/* Any order that can run, with some repeats; 0 where it became too long. */
static int32_t wild_schedule(const neap_step *step, uint32_t *random, int32_t *schedule) {
  int32_t length = 0, missing = step->node_count;
  bool run[NODES] = {false};
  while (missing > 0 && length < POSITIONS - 1) {
    const int32_t v = (int32_t)draw(random, (uint32_t)step->node_count);
    if (run[v] && draw(random, 4) != 0) continue;
    if (!may_run(step, schedule, length, v)) continue;
    missing -= !run[v];
    run[v] = true;
    schedule[length++] = v;
  }
  return missing == 0 ? length : 0;
}

/* Does instance k, where it was put, get in the way of one before it? A guest may lie in its host. */
static bool in_the_way(const struct truth *truth, const struct placed *placed, int32_t k) {
  for (int32_t j = 0; j < k; j++) {
    const struct placed *a = &placed[j], *b = &placed[k];
    const bool apart = a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset;
    const bool inside = a->offset <= b->offset && b->offset + b->bytes <= a->offset + a->bytes;
    if (truth->lives[j].last < truth->lives[k].at || apart || a->bytes == 0 || b->bytes == 0) continue;
    if (truth->lives[k].host != j || !inside) return true;
  }
  return false;
}

/* First fit from a random byte, a guest in its host for the most part. Gives the arena's bytes. */
static uint64_t put(struct truth *truth, struct placed *placed, uint32_t *random) {
  uint64_t arena = truth->most;
  memcpy(placed, truth->placed, sizeof truth->placed);
  for (int32_t k = 0; k < truth->count; k++) {
    const int32_t host = truth->lives[k].host;
    placed[k].offset = draw(random, 2) ? draw(random, 9) : 0;
    if (host >= 0 && draw(random, 4) != 0)
      placed[k].offset = placed[host].offset + draw(random, 2) * (placed[host].bytes - placed[k].bytes);
    while (in_the_way(truth, placed, k)) placed[k].offset++;
    assert_true(placed[k].offset + placed[k].bytes < ARENA / 2);
    if (placed[k].offset + placed[k].bytes > arena) arena = placed[k].offset + placed[k].bytes;
  }
  return arena;
}

/* ---- Accepted, and what random changes do ---- */

static struct neap_plan plan_of(const neap_step *step, const int32_t *schedule, int32_t length,
                                const struct truth *truth, const struct placed *placed, uint64_t arena) {
  return (struct neap_plan){.graph = "wild",
                            .planner = "test",
                            .schedule = schedule,
                            .length = length,
                            .instances = placed,
                            .instance_count = truth->count,
                            .resident_bytes = step->resident_bytes,
                            .live_peak_bytes = step->resident_bytes + truth->most,
                            .arena_bytes = arena,
                            .cost = truth->cost,
                            .base_cost = step->base_cost};
}

static void expect(const neap_step *step, const struct neap_plan *plan, bool valid) {
  neap_check_result result;
  const neap_status status = neap_plan_check(step, plan, &result);
  if ((status == NEAP_OK) != valid)
    print_error("expected %s: %s\n", valid ? "valid" : "not valid", result.reason);
  assert_int_equal(status, valid ? NEAP_OK : NEAP_INVALID_PLAN);
  assert_int_equal(result.valid, valid);
  assert_int_equal(result.reason[0] != '\0', !valid);
  if (!valid) assert_non_null(strstr(neap_error_message(), result.reason));
  if (!valid) return;
  assert_int_equal(result.live_peak_bytes, plan->live_peak_bytes);
  assert_true(fabs(result.cost - plan->cost) <= 1e-12 * plan->cost);
}

/* One instance elsewhere: at another's place, near it, or anywhere. */
static int move_instances(const neap_step *step, struct neap_plan *plan, const struct truth *truth,
                          struct placed *placed, uint32_t *random) {
  int refused = 0;
  for (int tries = 0; tries < 8 && truth->count > 0; tries++) {
    const uint32_t k = draw(random, (uint32_t)truth->count), j = draw(random, (uint32_t)truth->count);
    const uint64_t offset = placed[k].offset;
    placed[k].offset = placed[j].offset + draw(random, 4);
    if (draw(random, 3) == 0) placed[k].offset = draw(random, (uint32_t)plan->arena_bytes + 2);
    const bool valid = places_are_valid(truth, placed, plan->length, plan->arena_bytes);
    expect(step, plan, valid);
    refused += !valid;
    placed[k].offset = offset;
  }
  return refused;
}

/* A position dropped, doubled, exchanged with another or given to another node, with the instances of that
 * schedule: only the schedule can be wrong. */
static int change_schedule(const neap_step *step, const int32_t *schedule, int32_t length, uint32_t *random) {
  static struct truth truth;
  static struct placed placed[INSTANCES];
  int refused = 0;
  for (int tries = 0; tries < 8; tries++) {
    int32_t changed[POSITIONS + 1], now = length;
    const uint32_t a = draw(random, (uint32_t)length), b = draw(random, (uint32_t)length);
    memcpy(changed, schedule, (size_t)length * sizeof *changed);
    const uint32_t kind = draw(random, 4);
    if (kind == 0) memmove(changed + a, changed + a + 1, (size_t)(--now - (int32_t)a) * sizeof *changed);
    if (kind == 1) changed[a] = schedule[b], changed[b] = schedule[a];
    if (kind == 2) changed[a] = (int32_t)draw(random, (uint32_t)step->node_count + 1) - 1;
    if (kind == 3) changed[now++] = schedule[a];
    const bool valid = schedule_is_valid(step, changed, now);
    struct neap_plan plan = plan_of(step, changed, now, &(struct truth){0}, placed, ARENA);
    if (valid) {
      find_truth(step, changed, now, &truth);
      put(&truth, placed, random);
      plan = plan_of(step, changed, now, &truth, placed, ARENA);
      expect(step, &plan, true);
    } else if (kind != 2) { /* an id that does not exist makes nothing */
      find_truth(step, changed, now, &truth);
      memcpy(placed, truth.placed, sizeof placed);
      for (int32_t k = 1; k < truth.count; k++) placed[k].offset = placed[k - 1].offset + placed[k - 1].bytes;
      plan = plan_of(step, changed, now, &truth, placed, ARENA * ARENA);
      expect(step, &plan, false);
    } else {
      expect(step, &plan, false);
    }
    struct simulation score;
    assert_int_equal(simulate(step, changed, now, &score), valid ? NEAP_OK : NEAP_INVALID_PLAN);
    refused += !valid;
  }
  return refused;
}

static void test_against_every_byte(void **state) {
  (void)state;
  static struct truth truth;
  static struct placed placed[INSTANCES];
  uint32_t random = 20;
  int plans = 0, moved = 0, rescheduled = 0, hosts = 0;
  for (int i = 0; i < shorten(2000); i++) {
    neap_step *step = wild_step(&random);
    int32_t schedule[POSITIONS];
    const int32_t length = wild_schedule(step, &random, schedule);
    if (length > 0) {
      plans++;
      assert_true(schedule_is_valid(step, schedule, length));
      find_truth(step, schedule, length, &truth);
      const uint64_t arena = put(&truth, placed, &random);
      assert_true(places_are_valid(&truth, placed, length, arena));
      for (int32_t k = 0; k < truth.count; k++) hosts += truth.lives[k].host >= 0;
      struct neap_plan plan = plan_of(step, schedule, length, &truth, placed, arena);
      expect(step, &plan, true);
      struct simulation score;
      assert_int_equal(simulate(step, schedule, length, &score), NEAP_OK);
      assert_int_equal(score.peak_bytes, plan.live_peak_bytes);
      assert_true(fabs(score.cost - plan.cost) <= 1e-12 * plan.cost);
      moved += move_instances(step, &plan, &truth, placed, &random);
      rescheduled += change_schedule(step, schedule, length, &random);
    }
    neap_step_free(step);
  }
  assert_true(plans > shorten(1500) && hosts > shorten(1000));
  assert_true(moved > 2 * plans && moved < 7 * plans && rescheduled > plans && rescheduled < 7 * plans);
}

/* What keeps everything; the least plan of a planner, each in turn, and of all of them. A row that does not
 * take the graph has none; one that `auto` does not ask takes too long. */
static void test_made_plans(void **state) {
  (void)state;
  const int lengths = quick_pass() ? 9 : 19; /* the search for the least takes half a minute at the longest */
  int made = 0, repeating = 0;
  for (int i = 0; i < shorten(200); i++) {
    neap_step *step = random_step((enum family)(i % FAMILY_COUNT), 3 + i % lengths, (uint32_t)i + 900);
    const int32_t row = i % (planner_count + 1);
    const bool all = row == planner_count, asked = all || step->node_count <= planners[row].auto_limit;
    neap_plan *plan = NULL;
    assert_int_equal(neap_plan_make(step, NEAP_BUDGET_MAX, "auto", NULL, &plan), NEAP_OK);
    expect(step, plan, true);
    neap_plan_free(plan);
    const neap_status status =
        asked ? neap_plan_make(step, NEAP_BUDGET_MIN, all ? "auto" : planners[row].name, NULL, &plan)
              : NEAP_OVER_BUDGET;
    assert_true(status == NEAP_OK || (status == NEAP_OVER_BUDGET && !all));
    if (status == NEAP_OK) {
      made++;
      repeating += plan->recomputed > 0;
      expect(step, plan, true);
      neap_plan_free(plan);
    }
    neap_step_free(step);
  }
  assert_true(made > shorten(150) && repeating > shorten(50));
}

/* ---- One thing wrong ---- */

/* x, w -> conv -> a -> relu (in place) -> b -> loss -> c; conv again; c, a, w -> grad -> g; g, w -> sgd.
 * Live bytes by position: 72, 64, 96, 104, 112, 48; resident 14. */
static neap_step *small_step(void) {
  static struct step_tensor tensors[] = {{.name = "x", .bytes = 10, .role = NEAP_ROLE_INPUT},
                                         {.name = "w", .bytes = 4, .role = NEAP_ROLE_PARAMETER},
                                         {.name = "a", .bytes = 64, .role = NEAP_ROLE_VALUE},
                                         {.name = "b", .bytes = 64, .role = NEAP_ROLE_VALUE},
                                         {.name = "c", .bytes = 32, .role = NEAP_ROLE_VALUE},
                                         {.name = "g", .bytes = 16, .role = NEAP_ROLE_VALUE}};
  static const int32_t ids[] = {0, 1, 2, 3, 4, 5}, grad[] = {4, 2, 1}, sgd[] = {5, 1};
  static const struct inplace_pair pair = {0, 0};
#define NODE(text, price, in, in_count, ...)                                                                 \
  { .name = (text), .op = "Op", .cost = (price), .inputs = (in), .input_count = (in_count), __VA_ARGS__ }
  static struct step_node nodes[] = {
      NODE("conv", 5, ids, 2, .outputs = ids + 2, .output_count = 1, .workspace = 8, .repeatable = true),
      NODE("relu", 1, ids + 2, 1, .outputs = ids + 3, .output_count = 1, .inplace = &pair, .inplace_count = 1,
           .repeatable = true),
      NODE("loss", 2, ids + 3, 1, .outputs = ids + 4, .output_count = 1),
      NODE("grad", 3, grad, 3, .outputs = ids + 5, .output_count = 1, .repeatable = true),
      NODE("sgd", 1, sgd, 2, .updates = ids + 1, .update_count = 1, .repeatable = true)};
#undef NODE
  const struct neap_step draft = {.name = "small",
                                  .tensors = tensors,
                                  .tensor_count = 6,
                                  .nodes = nodes,
                                  .node_count = 5,
                                  .outputs = ids + 4,
                                  .output_count = 1};
  neap_step *step;
  assert_int_equal(step_create(&draft, &step), NEAP_OK);
  return step;
}

enum field { NONE, NODE, LENGTH, AT, TENSOR, OFFSET, BYTES, COUNT, RESIDENT, PEAK, ARENA_BYTES, COST, BASE };

struct edit {
  enum field field;
  int index; /* of the schedule or the instances */
  double value;
};

static void apply(struct edit edit, struct neap_plan *plan, int32_t *schedule, struct placed *placed) {
  struct placed *instance = &placed[edit.index];
  const uint64_t bytes = edit.value >= 0x1p64 ? UINT64_MAX : (uint64_t)fmax(edit.value, 0);
  switch (edit.field) {
  case NONE:
    break;
  case NODE:
    schedule[edit.index] = (int32_t)edit.value;
    break;
  case LENGTH:
    plan->length = (int32_t)edit.value;
    break;
  case AT:
    instance->at = (int32_t)edit.value;
    break;
  case TENSOR:
    instance->tensor = (int32_t)edit.value;
    break;
  case OFFSET:
    instance->offset = bytes;
    break;
  case BYTES:
    instance->bytes = bytes;
    break;
  case COUNT:
    plan->instance_count = (int32_t)edit.value;
    break;
  case RESIDENT:
    plan->resident_bytes = bytes;
    break;
  case PEAK:
    plan->live_peak_bytes = bytes;
    break;
  case ARENA_BYTES:
    plan->arena_bytes = bytes;
    break;
  case COST:
    plan->cost = edit.value;
    break;
  case BASE:
    plan->base_cost = edit.value;
    break;
  }
}

static const struct {
  const char *what;
  struct edit edits[2];
  const char *reason; /* NULL: still valid */
  int position;
} changes[] = {
    {"nothing", {{NONE}}, NULL, -1},
    {"an arena with room to spare", {{ARENA_BYTES, 0, 500}}, NULL, -1},
    {"an offset that is a multiple of nothing", {{OFFSET, 6, 97}, {ARENA_BYTES, 0, 113}}, NULL, -1},
    {"in-place bytes not used", {{OFFSET, 2, 96}, {ARENA_BYTES, 0, 160}}, NULL, -1},
    {"a cost summed in another order", {{COST, 0, 17 * (1 + 1e-15)}}, NULL, -1},
    {"no such node", {{NODE, 2, 5}}, "node 5 does not exist", 2},
    {"a negative node", {{NODE, 2, -1}}, "node -1 does not exist", 2},
    {"two exchanged", {{NODE, 3, 3}, {NODE, 4, 0}}, "out of order", 3},
    {"a read before its producer", {{NODE, 0, 1}, {NODE, 1, 0}}, "before it is made", 0},
    {"a node that must not repeat", {{NODE, 3, 2}}, "not repeatable", 3},
    {"a node that updates twice", {{LENGTH, 0, 7}}, "second time", 6},
    {"an update before a reader", {{LENGTH, 0, 7}, {NODE, 6, 0}}, "after its update", 6},
    {"a node that never runs", {{LENGTH, 0, 5}}, "never runs", -1},
    {"no schedule", {{LENGTH, 0, 0}, {COUNT, 0, 0}}, "never runs", -1},
    {"a missing instance at the end", {{COUNT, 0, 6}}, "missing", 4},
    {"no instances", {{COUNT, 0, 0}}, "missing", 0},
    {"an instance at another position", {{AT, 3, 3}}, "out of order", 2},
    {"an instance of another tensor", {{TENSOR, 3, 5}}, "out of order", 2},
    {"an instance of no tensor", {{TENSOR, 3, 99}}, "out of order", 2},
    {"a position past the end", {{AT, 6, 2147483647}}, "out of order", 4},
    {"the workspace before the output", {{TENSOR, 0, -1}, {TENSOR, 1, 2}}, "out of order", 0},
    {"one instance too many", {{COUNT, 0, 8}}, "superfluous", -1},
    {"a byte less", {{BYTES, 3, 31}}, "wrong size", 2},
    {"a byte more", {{BYTES, 3, 33}}, "wrong size", 2},
    {"the largest size", {{BYTES, 3, 0x1p65}}, "wrong size", 2},
    {"past the arena", {{OFFSET, 6, 97}}, "outside the arena", 4},
    {"the largest offset", {{OFFSET, 6, 0x1p65}}, "outside the arena", 4},
    {"an offset that wraps", {{OFFSET, 6, 0x1p65}, {ARENA_BYTES, 0, 0x1p65}}, "outside the arena", 4},
    {"an arena below the live bytes", {{ARENA_BYTES, 0, 111}}, "outside the arena", 4},
    {"no arena", {{ARENA_BYTES, 0, 0}}, "outside the arena", 0},
    {"two that overlap by a byte", {{OFFSET, 3, 63}}, "overlap", 2},
    {"two in one place", {{OFFSET, 4, 64}, {ARENA_BYTES, 0, 128}}, "overlap", 3},
    {"a workspace on an input", {{OFFSET, 1, 56}}, "overlap", 0},
    {"an overlap that begins later", {{OFFSET, 6, 64}}, "overlap", 4},
    {"a guest partly in its host", {{OFFSET, 2, 32}}, "only partly", 1},
    {"resident", {{RESIDENT, 0, 15}}, "resident_bytes", -1},
    {"peak below", {{PEAK, 0, 125}}, "peak_bytes", -1},
    {"peak above", {{PEAK, 0, 127}}, "peak_bytes", -1},
    {"cost", {{COST, 0, 16}}, "cost is", -1},
    {"cost by a millionth", {{COST, 0, 17.000017}}, "cost is", -1},
    {"cost that is no number", {{COST, 0, NAN}}, "cost is", -1},
    {"endless cost", {{COST, 0, INFINITY}}, "cost is", -1},
    {"base_cost", {{BASE, 0, 17}}, "base_cost is", -1},
};

static void test_one_thing_wrong(void **state) {
  (void)state;
  neap_step *step = small_step();
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    int32_t schedule[] = {0, 1, 2, 0, 3, 4, 4}; /* the last is one too many */
    struct placed placed[] = {{0, 2, 0, 64}, {0, -1, 64, 8}, {1, 3, 0, 64},  {2, 4, 64, 32},
                              {3, 2, 0, 64}, {3, -1, 96, 8}, {4, 5, 96, 16}, {5, 5, 0, 16}};
    struct neap_plan plan = {.graph = "small",
                             .planner = "test",
                             .schedule = schedule,
                             .length = 6,
                             .instances = placed,
                             .instance_count = 7,
                             .resident_bytes = 14,
                             .live_peak_bytes = 126,
                             .arena_bytes = 112,
                             .cost = 17,
                             .base_cost = 12};
    for (int e = 0; e < 2; e++) apply(changes[i].edits[e], &plan, schedule, placed);
    neap_check_result result;
    const neap_status status = neap_plan_check(step, &plan, &result);
    const bool as_expected =
        changes[i].reason == NULL ? status == NEAP_OK : strstr(result.reason, changes[i].reason) != NULL;
    if (!as_expected || result.position != changes[i].position)
      print_error("%s: at %d: %s\n", changes[i].what, (int)result.position, result.reason);
    assert_true(as_expected);
    assert_int_equal(status, changes[i].reason == NULL ? NEAP_OK : NEAP_INVALID_PLAN);
    assert_int_equal(result.position, changes[i].position);
  }
  neap_step_free(step);
}

int run_test_checker(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_thing_wrong),
                                     cmocka_unit_test(test_against_every_byte),
                                     cmocka_unit_test(test_made_plans)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
