#include "plan/max_flow.h"

#include "base/stop.h"

neap_status flow_reset(struct flow *flow, int32_t nodes) {
  const size_t count = (size_t)nodes;
  TRY(vector_reserve(&flow->first, count));
  TRY(vector_reserve(&flow->level, count));
  TRY(vector_reserve(&flow->cursor, count));
  TRY(vector_reserve(&flow->path, count));
  flow->edges.count = 0;
  flow->first.count = flow->level.count = flow->cursor.count = count;
  for (size_t i = 0; i < count; i++) flow->first.data[i] = -1;
  return NEAP_OK;
}

neap_status flow_connect(struct flow *flow, int32_t from, int32_t to, int64_t capacity) {
  const int32_t edge = (int32_t)flow->edges.count;
  RETURN_IF(flow->edges.count > INT32_MAX - 2, NEAP_TOO_LARGE, "flow: too many edges");
  TRY(vector_push(&flow->edges, (struct flow_edge){to, flow->first.data[from], capacity}));
  TRY(vector_push(&flow->edges, (struct flow_edge){from, flow->first.data[to], 0}));
  flow->first.data[from] = edge;
  flow->first.data[to] = edge + 1;
  return NEAP_OK;
}

/* Finds each node's distance from the source over edges with capacity left. */
static bool find_levels(struct flow *flow) {
  int32_t *level = flow->level.data, *queue = flow->path.data;
  size_t head = 0, tail = 0;
  for (size_t i = 0; i < flow->level.count; i++) level[i] = -1;
  level[FLOW_SOURCE] = 0;
  queue[tail++] = FLOW_SOURCE;
  while (head < tail) {
    const int32_t node = queue[head++];
    for (int32_t e = flow->first.data[node]; e >= 0; e = flow->edges.data[e].next) {
      const struct flow_edge *edge = &flow->edges.data[e];
      if (edge->left == 0 || level[edge->to] >= 0) continue;
      level[edge->to] = level[node] + 1;
      queue[tail++] = edge->to;
    }
  }
  return level[FLOW_SINK] >= 0;
}

/* Sends as much as the path takes; returns the number of its edges before the first full one. */
static size_t send(struct flow *flow, size_t length, int64_t *value) {
  struct flow_edge *edges = flow->edges.data;
  const int32_t *path = flow->path.data;
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < length; i++)
    if (edges[path[i]].left < least) least = edges[path[i]].left;
  size_t kept = length;
  for (size_t i = length; i-- > 0;) {
    edges[path[i]].left -= least;
    edges[path[i] ^ 1].left += least;
    if (edges[path[i]].left == 0) kept = i;
  }
  *value += least;
  return kept;
}

/* Fills all shortest paths. */
static void block(struct flow *flow, int64_t *value) {
  const struct flow_edge *edges = flow->edges.data;
  int32_t *path = flow->path.data, *cursor = flow->cursor.data;
  const int32_t *level = flow->level.data;
  size_t length = 0;
  for (size_t i = 0; i < flow->first.count; i++) cursor[i] = flow->first.data[i];
  for (int32_t node = FLOW_SOURCE;;) {
    if (node == FLOW_SINK) {
      length = send(flow, length, value);
      node = edges[path[length] ^ 1].to;
      continue;
    }
    int32_t e = cursor[node];
    while (e >= 0 && (edges[e].left == 0 || level[edges[e].to] != level[node] + 1)) e = edges[e].next;
    cursor[node] = e;
    if (e >= 0) {
      path[length++] = e;
      node = edges[e].to;
    } else if (length == 0) {
      return;
    } else { /* a dead end */
      node = edges[path[--length] ^ 1].to;
      cursor[node] = edges[path[length]].next;
    }
  }
}

int64_t flow_maximise(struct flow *flow) {
  int64_t value = 0;
  while (!stop_is_requested() && find_levels(flow)) block(flow, &value);
  return value;
}

bool flow_reaches(const struct flow *flow, int32_t node) { return flow->level.data[node] >= 0; }

void flow_free(struct flow *flow) {
  vector_free(&flow->edges);
  vector_free(&flow->first);
  vector_free(&flow->level);
  vector_free(&flow->cursor);
  vector_free(&flow->path);
}
