#include "search/timeline.h"

#include <string.h>

#include "base/region.h"
#include "base/targets.h"

/* ---- Positions ---- */

int32_t timeline_successor(const struct timeline *t, int32_t run) {
  const struct run *r = &t->runs[run];
  const struct block *block = &t->blocks[r->block];
  if (r->index + 1 < block->count) return block->runs[r->index + 1];
  const int32_t place = t->order[r->block] + 1;
  return place < t->block_count ? t->blocks[t->at[place]].runs[0] : -1;
}

int32_t timeline_predecessor(const struct timeline *t, int32_t run) {
  const struct run *r = &t->runs[run];
  if (r->index > 0) return t->blocks[r->block].runs[r->index - 1];
  const int32_t place = t->order[r->block] - 1;
  if (place < 0) return -1;
  const struct block *block = &t->blocks[t->at[place]];
  return block->runs[block->count - 1];
}

/* ---- Live bytes ---- */

struct sum {
  int64_t highest, lowest, over;
};

FOR_EACH_TARGET static struct sum sum_of(const int64_t *live, int32_t count, int64_t limit) {
  struct sum sum = {INT64_MIN, INT64_MAX, 0};
  for (int32_t i = 0; i < count; i++) {
    sum.highest = live[i] > sum.highest ? live[i] : sum.highest;
    sum.lowest = live[i] < sum.lowest ? live[i] : sum.lowest;
    sum.over += live[i] > limit ? live[i] - limit : 0;
  }
  return sum;
}

static void sum_up(struct timeline *t, int32_t place) {
  const struct block *block = &t->blocks[t->at[place]];
  const int64_t raised = t->raised[place];
  const struct sum sum = sum_of(block->live, block->count, t->limit - raised);
  t->excess += sum.over - t->over[place];
  t->highest[place] = sum.highest + raised;
  t->lowest[place] = sum.lowest + raised;
  t->over[place] = sum.over;
}

/* Sums up a block later: a change touches the same few blocks many times, so they are summed once, at its
 * end. */
static void sum_up_later(struct timeline *t, int32_t place) {
  const int32_t block = t->at[place];
  t->work++;
  if (t->is_stale[block]) return;
  t->is_stale[block] = 1;
  t->stale[t->stale_count++] = block;
}

static void sum_up_stale(struct timeline *t) {
  for (int32_t i = 0; i < t->stale_count; i++) {
    const int32_t block = t->stale[i];
    t->is_stale[block] = 0;
    if (t->order[block] >= 0) sum_up(t, t->order[block]);
  }
  t->stale_count = 0;
}

static void raise_within(struct timeline *t, int32_t place, int32_t from, int32_t to, int64_t bytes) {
  int64_t *live = t->blocks[t->at[place]].live;
  for (int32_t i = from; i <= to; i++) live[i] += bytes;
  if (from <= to) t->area += (uint64_t)bytes * (uint64_t)(to - from + 1);
  sum_up_later(t, place);
}

/* Raises the live bytes of positions (place, index) `from` to `to`, both included; does nothing if these are
 * crossed. */
static void raise(struct timeline *t, int32_t from_place, int32_t from, int32_t to_place, int32_t to,
                  int64_t bytes) {
  if (bytes == 0 || from_place > to_place) return;
  t->work += (to_place - from_place) / 8;
  if (from_place == to_place) {
    if (from <= to) raise_within(t, from_place, from, to, bytes);
    return;
  }
  const int32_t from_end = t->blocks[t->at[from_place]].count - 1;
  if (from <= from_end) raise_within(t, from_place, from, from_end, bytes);
  for (int32_t place = from_place + 1; place < to_place; place++) t->raised[place] += bytes;
  for (int32_t place = from_place + 1; place < to_place; place++) t->highest[place] += bytes;
  for (int32_t place = from_place + 1; place < to_place; place++) t->lowest[place] += bytes;
  for (int32_t place = from_place + 1; place < to_place; place++) {
    t->area += (uint64_t)bytes * (uint64_t)t->blocks[t->at[place]].count;
    if (t->is_stale[t->at[place]] || (t->highest[place] <= t->limit && t->over[place] == 0)) continue;
    if (t->lowest[place] >= t->limit && t->lowest[place] - bytes >= t->limit) {
      const int64_t more = bytes * t->blocks[t->at[place]].count;
      t->over[place] += more;
      t->excess += more;
    } else {
      sum_up_later(t, place);
    }
  }
  if (to >= 0) raise_within(t, to_place, 0, to, bytes);
}

static void raise_between(struct timeline *t, int32_t after, int32_t before, int64_t bytes) {
  const struct run *a = &t->runs[after], *b = &t->runs[before];
  raise(t, t->order[a->block], a->index + 1, t->order[b->block], b->index - 1, bytes);
}

static void raise_up_to(struct timeline *t, int32_t after, int32_t to, int64_t bytes) {
  const struct run *a = &t->runs[after], *b = &t->runs[to];
  raise(t, t->order[a->block], a->index + 1, t->order[b->block], b->index, bytes);
}

static void raise_at(struct timeline *t, int32_t run, int64_t bytes) {
  const struct run *r = &t->runs[run];
  const int32_t place = t->order[r->block];
  raise(t, place, r->index, place, r->index, bytes);
}

int64_t timeline_live(const struct timeline *t, int32_t run) {
  const struct run *r = &t->runs[run];
  return t->blocks[r->block].live[r->index] + t->raised[t->order[r->block]];
}

int64_t timeline_peak(const struct timeline *t) {
  int64_t peak = 0;
  for (int32_t place = 0; place < t->block_count; place++)
    if (t->highest[place] > peak) peak = t->highest[place];
  return peak;
}

int64_t timeline_relief(struct timeline *t, int32_t after, int32_t before, int64_t bytes) {
  const struct run *a = &t->runs[after], *b = &t->runs[before];
  const int32_t first = t->order[a->block], last = t->order[b->block];
  int64_t relief = 0;
  t->work += 1 + (last - first) / 8;
  for (int32_t place = first; place <= last; place++) {
    if (t->over[place] == 0) continue;
    const struct block *block = &t->blocks[t->at[place]];
    const int32_t from = place == first ? a->index + 1 : 0, to = place == last ? b->index : block->count;
    if (t->lowest[place] - bytes >= t->limit) {
      relief += to > from ? bytes * (to - from) : 0;
      continue;
    }
    for (int32_t i = from; i < to; i++) {
      const int64_t over = block->live[i] + t->raised[place] - t->limit;
      relief += over > bytes ? bytes : over > 0 ? over : 0;
    }
  }
  return relief;
}

int32_t timeline_hottest(const struct timeline *t, uint32_t pick) {
  uint32_t hot = 0;
  for (int32_t place = 0; place < t->block_count; place++) hot += t->over[place] > 0;
  if (hot == 0) return -1;
  pick %= hot;
  for (int32_t place = 0; place < t->block_count; place++) {
    if (t->over[place] == 0 || pick-- > 0) continue;
    const struct block *block = &t->blocks[t->at[place]];
    int32_t best = 0;
    for (int32_t i = 1; i < block->count; i++)
      if (block->live[i] > block->live[best]) best = i;
    return block->runs[best];
  }
  return -1;
}

void timeline_copy(const struct timeline *t, int32_t *schedule) {
  int32_t length = 0;
  for (int32_t place = 0; place < t->block_count; place++) {
    const struct block *block = &t->blocks[t->at[place]];
    for (int32_t i = 0; i < block->count; i++)
      if (block->runs[i] != t->end) schedule[length++] = t->runs[block->runs[i]].node;
  }
}

/* ---- Blocks ---- */

/* Makes room in the order for a block after `place`; returns -1 if none is left. */
static int32_t open_block(struct timeline *t, int32_t place) {
  int32_t block = t->free_block;
  if (block >= 0)
    t->free_block = t->blocks[block].count; /* a free block's count links to the next */
  else if (t->blocks_used < t->block_limit)
    block = t->blocks_used++;
  else
    return -1;
  const size_t moved = (size_t)(t->block_count - place - 1);
  memmove(&t->at[place + 2], &t->at[place + 1], moved * sizeof *t->at);
  memmove(&t->raised[place + 2], &t->raised[place + 1], moved * sizeof *t->raised);
  memmove(&t->highest[place + 2], &t->highest[place + 1], moved * sizeof *t->highest);
  memmove(&t->lowest[place + 2], &t->lowest[place + 1], moved * sizeof *t->lowest);
  memmove(&t->over[place + 2], &t->over[place + 1], moved * sizeof *t->over);
  t->at[place + 1] = block;
  t->raised[place + 1] = t->highest[place + 1] = t->lowest[place + 1] = t->over[place + 1] = 0;
  t->blocks[block].count = 0;
  t->block_count++;
  for (int32_t k = place + 1; k < t->block_count; k++) t->order[t->at[k]] = k;
  return block;
}

static void close_block(struct timeline *t, int32_t place) {
  const int32_t block = t->at[place];
  t->excess -= t->over[place];
  const size_t moved = (size_t)(t->block_count - place - 1);
  memmove(&t->at[place], &t->at[place + 1], moved * sizeof *t->at);
  memmove(&t->raised[place], &t->raised[place + 1], moved * sizeof *t->raised);
  memmove(&t->highest[place], &t->highest[place + 1], moved * sizeof *t->highest);
  memmove(&t->lowest[place], &t->lowest[place + 1], moved * sizeof *t->lowest);
  memmove(&t->over[place], &t->over[place + 1], moved * sizeof *t->over);
  t->block_count--;
  t->order[block] = -1;
  for (int32_t k = place; k < t->block_count; k++) t->order[t->at[k]] = k;
  t->blocks[block].count = t->free_block;
  t->free_block = block;
}

static bool split_block(struct timeline *t, int32_t place) {
  const int32_t fresh = open_block(t, place);
  if (fresh < 0) return false;
  struct block *from = &t->blocks[t->at[place]], *to = &t->blocks[fresh];
  const int32_t half = from->count / 2;
  to->count = from->count - half;
  memcpy(to->runs, from->runs + half, (size_t)to->count * sizeof *to->runs);
  memcpy(to->live, from->live + half, (size_t)to->count * sizeof *to->live);
  from->count = half;
  for (int32_t i = 0; i < to->count; i++) {
    t->runs[to->runs[i]].block = fresh;
    t->runs[to->runs[i]].index = i;
  }
  t->raised[place + 1] = t->raised[place];
  sum_up_later(t, place);
  sum_up_later(t, place + 1);
  return true;
}

/* Puts a run before `successor`, or at the very end (-1), with this many live bytes. */
static bool place_run(struct timeline *t, int32_t run, int32_t successor, int64_t live) {
  int32_t place = successor < 0 ? t->block_count - 1 : t->order[t->runs[successor].block];
  if (t->blocks[t->at[place]].count == TIMELINE_BLOCK) {
    if (!split_block(t, place)) return false;
    place = successor < 0 ? t->block_count - 1 : t->order[t->runs[successor].block];
  }
  struct block *block = &t->blocks[t->at[place]];
  const int32_t index = successor < 0 ? block->count : t->runs[successor].index;
  for (int32_t i = block->count; i > index; i--) {
    block->runs[i] = block->runs[i - 1];
    block->live[i] = block->live[i - 1];
    t->runs[block->runs[i]].index = i;
  }
  block->runs[index] = run;
  block->live[index] = live - t->raised[place];
  t->area += (uint64_t)live;
  block->count++;
  t->runs[run].block = t->at[place];
  t->runs[run].index = index;
  sum_up_later(t, place);
  return true;
}

static void displace_run(struct timeline *t, int32_t run) {
  const int32_t place = t->order[t->runs[run].block];
  struct block *block = &t->blocks[t->at[place]];
  t->area -= (uint64_t)timeline_live(t, run);
  block->count--;
  for (int32_t i = t->runs[run].index; i < block->count; i++) {
    block->runs[i] = block->runs[i + 1];
    block->live[i] = block->live[i + 1];
    t->runs[block->runs[i]].index = i;
  }
  if (block->count == 0 && t->block_count > 1)
    close_block(t, place);
  else
    sum_up_later(t, place);
}

/* ---- Instances ---- */

static int32_t output_count(const struct timeline *t, int32_t node) {
  return node < t->step->node_count ? t->step->nodes[node].output_count : 0;
}

static int64_t workspace(const struct timeline *t, int32_t node) {
  return node < t->step->node_count ? (int64_t)t->step->nodes[node].workspace : 0;
}

static void attach(struct timeline *t, int32_t link, int32_t slot) {
  struct link *l = &t->links[link];
  l->slot = slot;
  l->previous = -1;
  l->next = t->slots[slot].readers;
  if (l->next >= 0) t->links[l->next].previous = link;
  t->slots[slot].readers = link;
}

static void detach(struct timeline *t, int32_t link) {
  const struct link *l = &t->links[link];
  if (l->previous >= 0)
    t->links[l->previous].next = l->next;
  else
    t->slots[l->slot].readers = l->next;
  if (l->next >= 0) t->links[l->next].previous = l->previous;
}

static int32_t latest_reader(const struct timeline *t, int32_t slot) {
  int32_t latest = t->slots[slot].run;
  for (int32_t link = t->slots[slot].readers; link >= 0; link = t->links[link].next)
    if (timeline_before(t, latest, t->links[link].reader)) latest = t->links[link].reader;
  return latest;
}

/* Sets the bytes saved in place. Pairs are tried in their order; an output takes over at most one input, an
 * input is taken once. */
static void set_credit(struct timeline *t, int32_t run) {
  struct run *r = &t->runs[run];
  const struct reading *reading = &t->readings[r->node];
  int64_t credit = 0;
  uint64_t granted = 0; /* a bit a pair; pairs beyond the 64th have to be clear of all before them */
  for (int32_t p = 0; p < reading->pair_count; p++) {
    const struct inplace_pair *pair = &t->pairs[reading->first_pair + p];
    const struct slot *in = &t->slots[t->links[r->first_link + pair->input].slot];
    const int64_t bytes = t->slots[r->first_slot + pair->output].bytes;
    bool free_pair = in->last == run && in->bytes >= bytes;
    for (int32_t k = 0; k < p && free_pair; k++) {
      const struct inplace_pair *other = &t->pairs[reading->first_pair + k];
      free_pair =
          (k < 64 && !(granted >> k & 1)) || (other->output != pair->output && other->input != pair->input);
    }
    if (!free_pair) continue;
    credit += bytes;
    if (p < 64) granted |= (uint64_t)1 << p;
  }
  if (credit != r->credit) raise_at(t, run, r->credit - credit);
  r->credit = credit;
}

/* Returns the bytes that are live between a run and the next. */
static int64_t live_behind(const struct timeline *t, int32_t run) {
  const struct run *r = &t->runs[run];
  const struct reading *reading = &t->readings[r->node];
  int64_t live = timeline_live(t, run) - workspace(t, r->node) + r->credit;
  for (int32_t i = 0; i < reading->read_count; i++) {
    const struct slot *slot = &t->slots[t->links[r->first_link + i].slot];
    if (slot->last == run) live -= slot->bytes;
  }
  for (int32_t o = 0; o < output_count(t, r->node); o++)
    if (t->slots[r->first_slot + o].last == run) live -= t->slots[r->first_slot + o].bytes;
  return live;
}

/* ---- Insertion ---- */

/* Returns the latest run of a maker before `successor`; -1: none. */
static int32_t run_before(const struct timeline *t, int32_t node, int32_t successor) {
  int32_t run = t->last_run[node];
  while (run >= 0 && successor >= 0 && !timeline_before(t, run, successor)) run = t->runs[run].previous;
  return run;
}

/* Returns the last run of the node itself, not of one that restores it; -1: none. */
static int32_t last_own_run(const struct timeline *t, int32_t node) {
  int32_t run = t->last_run[node];
  while (run >= 0 && t->runs[run].node != node) run = t->runs[run].previous;
  return run;
}

static bool may_insert(const struct timeline *t, int32_t node, int32_t successor, bool moving) {
  const struct reading *reading = &t->readings[node];
  if (node < t->step->node_count && t->run_count[t->step->maker[node]] > 0 && !moving &&
      (!t->step->nodes[node].repeatable || t->step->nodes[node].update_count > 0))
    return false;
  for (int32_t i = 0; i < reading->read_count; i++)
    if (run_before(t, t->reads[reading->first_read + i].producer, successor) < 0) return false;
  for (int32_t i = 0; i < reading->fence_count; i++) {
    const int32_t update = t->first_run[t->fences[reading->first_fence + i]];
    if (update >= 0 && (successor < 0 || timeline_before(t, update, successor))) return false;
  }
  for (int32_t i = 0; i < reading->after_count; i++) {
    const int32_t reader = last_own_run(t, t->afters[reading->first_after + i]);
    if (reader >= 0 && successor >= 0 && !timeline_before(t, reader, successor)) return false;
  }
  return true;
}

static int32_t take_run(struct timeline *t, int32_t node) {
  int32_t run = t->free_run[node];
  if (run >= 0) {
    t->free_run[node] = t->runs[run].next;
    return run;
  }
  const int32_t links = t->readings[node].read_count, slots = output_count(t, node);
  if (t->runs_used == t->run_limit || t->links_used > t->link_limit - links ||
      t->slots_used > t->slot_limit - slots)
    return -1;
  run = t->runs_used++;
  t->runs[run] = (struct run){.node = node, .first_link = t->links_used, .first_slot = t->slots_used};
  for (int32_t i = 0; i < links; i++) t->links[t->links_used + i].reader = run;
  for (int32_t o = 0; o < slots; o++)
    t->slots[t->slots_used + o] =
        (struct slot){.run = run, .bytes = (int64_t)t->step->tensors[t->step->nodes[node].outputs[o]].bytes};
  t->links_used += links;
  t->slots_used += slots;
  return run;
}

static void give_run(struct timeline *t, int32_t run) {
  t->runs[run].next = t->free_run[t->runs[run].node];
  t->free_run[t->runs[run].node] = run;
}

static void count_run(struct timeline *t, int32_t node, int32_t by) {
  t->run_count[node] += by;
  if (by > 0 && t->run_count[node] == 2) {
    t->repeated_at[node] = t->repeated_count;
    t->repeated[t->repeated_count++] = node;
  } else if (by < 0 && t->run_count[node] == 1) {
    const int32_t moved = t->repeated[--t->repeated_count];
    t->repeated[t->repeated_at[node]] = moved;
    t->repeated_at[moved] = t->repeated_at[node];
  }
}

/* Lists the run between its maker's runs before and after it. */
static void enlist(struct timeline *t, int32_t run, int32_t previous) {
  struct run *r = &t->runs[run];
  const int32_t maker = timeline_maker(t, r->node);
  r->previous = previous;
  r->next = previous >= 0 ? t->runs[previous].next : t->first_run[maker];
  if (previous >= 0)
    t->runs[previous].next = run;
  else
    t->first_run[maker] = run;
  if (r->next >= 0)
    t->runs[r->next].previous = run;
  else
    t->last_run[maker] = run;
  count_run(t, maker, 1);
  t->present_at[run] = t->length;
  t->present[t->length++] = run;
}

static void unlist(struct timeline *t, int32_t run) {
  const struct run *r = &t->runs[run];
  const int32_t maker = timeline_maker(t, r->node);
  if (r->previous >= 0)
    t->runs[r->previous].next = r->next;
  else
    t->first_run[maker] = r->next;
  if (r->next >= 0)
    t->runs[r->next].previous = r->previous;
  else
    t->last_run[maker] = r->previous;
  count_run(t, maker, -1);
  const int32_t moved = t->present[--t->length];
  t->present[t->present_at[run]] = moved;
  t->present_at[moved] = t->present_at[run];
  t->present_at[run] = -1;
}

static void connect_inputs(struct timeline *t, int32_t run) {
  const struct run *r = &t->runs[run];
  const struct reading *reading = &t->readings[r->node];
  for (int32_t i = 0; i < reading->read_count; i++) {
    const struct read *read = &t->reads[reading->first_read + i];
    const int32_t source = run_before(t, read->producer, run);
    const int32_t slot = t->runs[source].first_slot + read->output, old_last = t->slots[slot].last;
    attach(t, r->first_link + i, slot);
    if (!timeline_before(t, old_last, run)) continue;
    raise_up_to(t, old_last, run, t->slots[slot].bytes);
    t->slots[slot].last = run;
    set_credit(t, old_last);
  }
}

/* Moves the later readers of its maker's run before it to this run. */
static void connect_outputs(struct timeline *t, int32_t run) {
  const struct run *r = &t->runs[run];
  for (int32_t o = 0; o < output_count(t, r->node); o++) {
    struct slot *mine = &t->slots[r->first_slot + o];
    mine->readers = -1;
    mine->last = run;
    const int32_t theirs = r->previous >= 0 ? t->runs[r->previous].first_slot + o : -1;
    for (int32_t link = theirs >= 0 ? t->slots[theirs].readers : -1, next; link >= 0; link = next) {
      next = t->links[link].next;
      if (!timeline_before(t, run, t->links[link].reader)) continue;
      detach(t, link);
      attach(t, link, r->first_slot + o);
    }
    if (mine->readers < 0) {
      raise_at(t, run, mine->bytes);
      continue;
    }
    mine->last = t->slots[theirs].last;
    const int32_t left = latest_reader(t, theirs);
    t->slots[theirs].last = left;
    raise_between(t, left, run, -mine->bytes);
    set_credit(t, left);
  }
}

int32_t timeline_insert(struct timeline *t, int32_t node, int32_t successor, bool moving) {
  if (!may_insert(t, node, successor, moving)) return -1;
  const int32_t run = take_run(t, node);
  if (run < 0) return -1;
  int32_t predecessor = -1;
  if (successor >= 0)
    predecessor = timeline_predecessor(t, successor);
  else if (t->block_count > 0 && t->blocks[t->at[t->block_count - 1]].count > 0)
    predecessor = t->blocks[t->at[t->block_count - 1]].runs[t->blocks[t->at[t->block_count - 1]].count - 1];
  const int64_t across = predecessor >= 0 ? live_behind(t, predecessor) : 0;
  const int32_t previous = run_before(t, timeline_maker(t, node), successor);
  t->runs[run].credit = 0;
  if (!place_run(t, run, successor, across + workspace(t, node))) {
    give_run(t, run);
    return -1;
  }
  enlist(t, run, previous);
  connect_inputs(t, run);
  connect_outputs(t, run);
  set_credit(t, run);
  sum_up_stale(t);
  if (node < t->step->node_count) t->cost += t->step->nodes[node].cost;
  return run;
}

/* ---- Removal ---- */

static void disconnect_outputs(struct timeline *t, int32_t run) {
  const struct run *r = &t->runs[run];
  for (int32_t o = 0; o < output_count(t, r->node); o++) {
    struct slot *mine = &t->slots[r->first_slot + o];
    if (mine->readers < 0) continue;
    const int32_t theirs = t->runs[r->previous].first_slot + o, old_last = t->slots[theirs].last;
    for (int32_t link = mine->readers, next; link >= 0; link = next) {
      next = t->links[link].next;
      detach(t, link);
      attach(t, link, theirs);
    }
    t->slots[theirs].last = mine->last;
    raise_between(t, old_last, run, mine->bytes);
    set_credit(t, old_last);
  }
}

static void disconnect_inputs(struct timeline *t, int32_t run) {
  const struct run *r = &t->runs[run];
  for (int32_t i = 0; i < t->readings[r->node].read_count; i++) {
    const int32_t slot = t->links[r->first_link + i].slot;
    detach(t, r->first_link + i);
    if (t->slots[slot].last != run) continue;
    t->slots[slot].last = latest_reader(t, slot);
    raise_between(t, t->slots[slot].last, run, -t->slots[slot].bytes);
    set_credit(t, t->slots[slot].last);
  }
}

bool timeline_remove(struct timeline *t, int32_t run) {
  const struct run *r = &t->runs[run];
  if (t->run_count[t->step->maker[r->node]] < 2 && r->node < t->step->required_count) return false;
  for (int32_t o = 0; r->previous < 0 && o < output_count(t, r->node); o++)
    if (t->slots[r->first_slot + o].readers >= 0) return false;
  /* Disconnects outputs first: else the bytes that the run saved in place are given back when its inputs'
   * ends change. */
  disconnect_outputs(t, run);
  disconnect_inputs(t, run);
  displace_run(t, run);
  sum_up_stale(t);
  unlist(t, run);
  t->cost -= t->step->nodes[r->node].cost;
  give_run(t, run);
  return true;
}

/* ---- Making one ---- */

struct drafts {
  VECTOR(struct read) reads;
  VECTOR(struct inplace_pair) pairs;
  VECTOR(int32_t) fences;
  VECTOR(int32_t) afters;
};

static int32_t output_of(const neap_step *step, int32_t tensor) {
  const struct step_node *producer = &step->nodes[step->tensors[tensor].producer];
  for (int32_t o = 0; o < producer->output_count; o++)
    if (producer->outputs[o] == tensor) return o;
  return -1;
}

static int32_t read_of(const struct drafts *d, const struct reading *reading, int32_t producer,
                       int32_t output) {
  for (int32_t i = 0; i < reading->read_count; i++) {
    const struct read *read = &d->reads.data[reading->first_read + i];
    if (read->producer == producer && read->output == output) return i;
  }
  return -1;
}

static neap_status draft_reads(const neap_step *step, const int32_t *inputs, int32_t count, struct drafts *d,
                               struct reading *reading) {
  reading->first_read = (int32_t)d->reads.count;
  for (int32_t i = 0; i < count; i++) {
    const struct step_tensor *tensor = &step->tensors[inputs[i]];
    if (tensor->role != NEAP_ROLE_VALUE) continue;
    const int32_t output = output_of(step, inputs[i]);
    if (read_of(d, reading, tensor->producer, output) >= 0) continue;
    TRY(vector_push(&d->reads, ((struct read){tensor->producer, output})));
    reading->read_count++;
  }
  return NEAP_OK;
}

static neap_status draft_node(const neap_step *step, int32_t v, struct drafts *d, struct reading *reading) {
  const struct step_node *node = &step->nodes[v];
  TRY(draft_reads(step, node->inputs, node->input_count, d, reading));
  reading->first_pair = (int32_t)d->pairs.count;
  for (int32_t p = 0; p < node->inplace_count; p++) {
    const int32_t tensor = node->inputs[node->inplace[p].input];
    if (step->tensors[tensor].role != NEAP_ROLE_VALUE) continue;
    const int32_t read = read_of(d, reading, step->tensors[tensor].producer, output_of(step, tensor));
    if (read < 0) continue;
    TRY(vector_push(&d->pairs, ((struct inplace_pair){node->inplace[p].output, read})));
    reading->pair_count++;
  }
  reading->first_fence = (int32_t)d->fences.count;
  for (int32_t i = 0; i < node->input_count; i++) {
    const int32_t updater = step->tensors[node->inputs[i]].updater;
    if (updater < 0 || updater == v) continue;
    TRY(vector_push(&d->fences, updater));
    reading->fence_count++;
  }
  reading->first_after = (int32_t)d->afters.count;
  for (int32_t u = 0; u < node->update_count; u++) {
    const int32_t tensor = node->updates[u];
    for (int32_t i = step->reader_start[tensor]; i < step->reader_start[tensor + 1]; i++) {
      if (step->readers[i] == v) continue;
      TRY(vector_push(&d->afters, step->readers[i]));
      reading->after_count++;
    }
  }
  return NEAP_OK;
}

static neap_status draft_all(struct timeline *t, struct drafts *d) {
  const neap_step *step = t->step;
  for (int32_t v = 0; v < step->node_count; v++) TRY(draft_node(step, v, d, &t->readings[v]));
  TRY(draft_reads(step, step->outputs, step->output_count, d, &t->readings[step->node_count]));
  t->reads = region_copy(&t->region, d->reads.data, d->reads.count, sizeof *t->reads);
  t->pairs = region_copy(&t->region, d->pairs.data, d->pairs.count, sizeof *t->pairs);
  t->fences = region_copy(&t->region, d->fences.data, d->fences.count, sizeof *t->fences);
  t->afters = region_copy(&t->region, d->afters.data, d->afters.count, sizeof *t->afters);
  RETURN_IF(!t->reads || !t->pairs || !t->fences || !t->afters, NEAP_OUT_OF_MEMORY,
            "timeline: out of memory");
  return NEAP_OK;
}

/* Finds the limits for the schedule and `spare` runs more: of the nodes' average size, as the search draws
 * them all. */
static neap_status find_limits(struct timeline *t, const int32_t *schedule, int32_t length, int32_t spare) {
  const neap_step *step = t->step;
  const size_t nodes = (size_t)step->node_count + 1;
  int64_t links = t->readings[step->node_count].read_count, slots = 0, step_links = 0, step_slots = 0;
  for (int32_t i = 0; i < length; i++) {
    links += t->readings[schedule[i]].read_count;
    slots += step->nodes[schedule[i]].output_count;
  }
  for (int32_t v = 0; v < step->node_count; v++) {
    step_links += t->readings[v].read_count;
    step_slots += step->nodes[v].output_count;
  }
  links += (int64_t)((double)step_links / (double)nodes * 1.5 * spare) + 64;
  slots += (int64_t)((double)step_slots / (double)nodes * 1.5 * spare) + 64;
  const int64_t runs = (int64_t)length + 1 + spare, blocks = runs / (TIMELINE_BLOCK / 8) + 8;
  RETURN_IF(links > INT32_MAX || slots > INT32_MAX || runs > INT32_MAX, NEAP_TOO_LARGE,
            "timeline: the schedule of %d positions is too long to search", length);
  t->run_limit = (int32_t)runs, t->link_limit = (int32_t)links, t->slot_limit = (int32_t)slots;
  t->block_limit = (int32_t)blocks;
  return NEAP_OK;
}

static neap_status allocate(struct timeline *t) {
  const size_t nodes = (size_t)t->step->node_count + 1, runs = (size_t)t->run_limit;
  const size_t blocks = (size_t)t->block_limit;
  t->runs = region_alloc(&t->region, runs, sizeof *t->runs);
  t->links = region_alloc(&t->region, (size_t)t->link_limit, sizeof *t->links);
  t->slots = region_alloc(&t->region, (size_t)t->slot_limit, sizeof *t->slots);
  t->present = region_alloc(&t->region, runs, sizeof *t->present);
  t->present_at = region_alloc(&t->region, runs, sizeof *t->present_at);
  t->blocks = region_alloc(&t->region, blocks, sizeof *t->blocks);
  t->order = region_alloc(&t->region, blocks, sizeof *t->order);
  t->stale = region_alloc(&t->region, blocks, sizeof *t->stale);
  t->is_stale = region_alloc(&t->region, blocks, sizeof *t->is_stale);
  t->at = region_alloc(&t->region, blocks + 1, sizeof *t->at);
  t->raised = region_alloc(&t->region, blocks + 1, sizeof *t->raised);
  t->highest = region_alloc(&t->region, blocks + 1, sizeof *t->highest);
  t->lowest = region_alloc(&t->region, blocks + 1, sizeof *t->lowest);
  t->over = region_alloc(&t->region, blocks + 1, sizeof *t->over);
  t->first_run = region_alloc(&t->region, nodes, sizeof *t->first_run);
  t->last_run = region_alloc(&t->region, nodes, sizeof *t->last_run);
  t->run_count = region_alloc(&t->region, nodes, sizeof *t->run_count);
  t->free_run = region_alloc(&t->region, nodes, sizeof *t->free_run);
  t->repeated = region_alloc(&t->region, nodes, sizeof *t->repeated);
  t->repeated_at = region_alloc(&t->region, nodes, sizeof *t->repeated_at);
  RETURN_IF(!t->runs || !t->links || !t->slots || !t->present || !t->present_at || !t->blocks || !t->order ||
                !t->stale || !t->is_stale || !t->at || !t->raised || !t->highest || !t->lowest || !t->over ||
                !t->first_run || !t->last_run || !t->run_count || !t->free_run || !t->repeated ||
                !t->repeated_at,
            NEAP_OUT_OF_MEMORY, "timeline: out of memory");
  memset(t->first_run, -1, nodes * sizeof *t->first_run);
  memset(t->last_run, -1, nodes * sizeof *t->last_run);
  memset(t->free_run, -1, nodes * sizeof *t->free_run);
  return NEAP_OK;
}

/* Checks that bytes can be summed over positions, whose number may grow several times. */
static neap_status check_sizes(const neap_step *step, int32_t length) {
  enum { TIMES = 4 };
  uint64_t most = 0;
  for (int32_t t = 0; t < step->tensor_count; t++)
    if (step->tensors[t].role == NEAP_ROLE_VALUE) most += step->tensors[t].bytes;
  uint64_t workspace = 0;
  for (int32_t v = 0; v < step->node_count; v++)
    if (step->nodes[v].workspace > workspace) workspace = step->nodes[v].workspace;
  RETURN_IF(most + workspace > (uint64_t)INT64_MAX / TIMES / ((uint64_t)length + 1), NEAP_TOO_LARGE,
            "%llu bytes of values in %d positions are too many to search; count them in a larger unit",
            (unsigned long long)(most + workspace), length);
  return NEAP_OK;
}

neap_status timeline_create(const neap_step *step, uint64_t limit, const int32_t *schedule, int32_t length,
                            int32_t spare, struct timeline *t) {
  *t = (struct timeline){.step = step, .free_block = -1};
  t->limit = limit > INT64_MAX ? INT64_MAX : (int64_t)limit;
  t->readings = region_alloc(&t->region, (size_t)step->node_count + 1, sizeof *t->readings);
  RETURN_IF(t->readings == NULL, NEAP_OUT_OF_MEMORY, "timeline: out of memory");
  struct drafts drafts = {0};
  const neap_status status = draft_all(t, &drafts);
  vector_free(&drafts.reads);
  vector_free(&drafts.pairs);
  vector_free(&drafts.fences);
  vector_free(&drafts.afters);
  TRY(status);
  for (int32_t i = 0; i < length; i++)
    RETURN_IF(schedule[i] < 0 || schedule[i] >= step->node_count, NEAP_INVALID_PLAN,
              "position %d: node %d does not exist", i, schedule[i]);
  TRY(check_sizes(step, length));
  TRY(find_limits(t, schedule, length, spare));
  TRY(allocate(t));
  t->block_count = t->blocks_used = 1;
  t->highest[0] = INT64_MIN, t->lowest[0] = INT64_MAX;
  for (int32_t i = 0; i < length; i++)
    RETURN_IF(timeline_insert(t, schedule[i], -1, false) < 0, NEAP_INVALID_PLAN,
              "position %d: '%s' cannot run there", i, step->nodes[schedule[i]].name);
  for (int32_t v = 0; v < step->required_count; v++)
    RETURN_IF(t->run_count[v] == 0, NEAP_INVALID_PLAN, "node %d ('%s') never runs", v, step->nodes[v].name);
  t->end = timeline_insert(t, step->node_count, -1, false);
  RETURN_IF(t->end < 0, NEAP_INVALID_PLAN, "an output of the step is not made");
  t->length--; /* the end is no run to be drawn: it was enlisted last */
  return NEAP_OK;
}

void timeline_free(struct timeline *t) {
  region_free(&t->region);
  *t = (struct timeline){0};
}
