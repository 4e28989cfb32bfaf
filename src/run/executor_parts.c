/* The executor of a graph with prepared states: a session prepares them once, and predicts from them. */
#include "run/executor_parts.h"
#include "run/executor_whole.h"
#include "session/choose.h"

/* Plans both parts; the one that takes more memory decides the size of both. */
static neap_status plan(struct neap_session *s, const struct neap_graph *graph, uint64_t reserve,
                        uint64_t *smallest) {
  static const enum program_kind kinds[PART_COUNT] = {PROGRAM_PREPARE, PROGRAM_PREDICT};
  struct parts parts;
  TRY(choose_parts(graph, &s->options, reserve, smallest, &parts));
  s->main = s->whole = parts.whole;
  for (int i = 0; i < PART_COUNT; i++) {
    const struct choice *c = &parts.part[i];
    s->programs[kinds[i]] = (struct session_program){.lowered = c->lowered, .plan = c->plan};
    if (s->plan != NULL && s->plan->arena_bytes >= c->plan->arena_bytes) continue;
    s->plan = c->plan;
    s->variant = c->variant;
    options_set_on_disk(&s->options, c->on_disk);
    s->keep_all = c->keep_all;
    s->budget = c->budget;
  }
  if (s->budget == NEAP_BUDGET_MAX || s->budget == NEAP_BUDGET_MIN) s->budget = plan_bytes(s->plan);
  return session_list_outputs(s, graph);
}

const struct executor parts_executor = {.name = "parts", .plan = plan, .bind = session_make_programs};
