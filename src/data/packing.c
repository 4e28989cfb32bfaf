#include "data/packing.h"

#include <stdlib.h>
#include <string.h>

/* State of packing. Rows with equal room form a list. */
struct work {
  int64_t length;
  const int32_t *lengths; /* [count] */
  int32_t *order;         /* [count]: the longest first, in their own order where they are alike */
  int32_t *row;           /* [count]: of each sequence */
  int32_t *next;          /* [count]: the next row with as much room; -1: the last */
  int32_t *open;          /* [length + 1]: by room, the first row of its list; -1: none */
  uint64_t *rooms;        /* [length / 64 + 1]: a bit for each list that has rows */
};

static void free_work(struct work *w) {
  free(w->order);
  free(w->row);
  free(w->next);
  free(w->open);
  free(w->rooms);
}

static neap_status allocate(struct work *w, int64_t count) {
  const size_t lists = (size_t)w->length + 1;
  w->order = calloc((size_t)count + 1, sizeof *w->order);
  w->row = calloc((size_t)count + 1, sizeof *w->row);
  w->next = calloc((size_t)count + 1, sizeof *w->next);
  w->open = malloc(lists * sizeof *w->open);
  w->rooms = calloc(lists / 64 + 1, sizeof *w->rooms);
  RETURN_IF(w->order == NULL || w->row == NULL || w->next == NULL || w->open == NULL || w->rooms == NULL,
            NEAP_OUT_OF_MEMORY, "out of memory to pack %lld sequences", (long long)count);
  memset(w->open, 0xFF, lists * sizeof *w->open);
  return NEAP_OK;
}

/* Sorts by counting. */
static neap_status sort(struct work *w, int64_t count) {
  int64_t *places = calloc((size_t)w->length + 2, sizeof *places), before = 0;
  RETURN_IF_NULL(places);
  for (int64_t i = 0; i < count; i++) places[w->lengths[i]]++;
  for (int64_t n = w->length; n >= 0; n--) {
    const int64_t alike = places[n];
    places[n] = before;
    before += alike;
  }
  for (int64_t i = 0; i < count; i++) w->order[places[w->lengths[i]]++] = (int32_t)i;
  free(places);
  return NEAP_OK;
}

/* Returns the least room, of at least `need`, that some row has; -1: no row has enough. */
static int64_t find_room(const struct work *w, int64_t need) {
  const int64_t words = w->length / 64 + 1;
  for (int64_t word = need / 64; word < words; word++) {
    uint64_t bits = w->rooms[word];
    if (word == need / 64) bits &= ~(uint64_t)0 << need % 64;
    if (bits != 0) return word * 64 + __builtin_ctzll(bits);
  }
  return -1;
}

static int32_t take_row(struct work *w, int64_t room) {
  const int32_t row = w->open[room];
  w->open[room] = w->next[row];
  if (w->open[room] < 0) w->rooms[room / 64] &= ~((uint64_t)1 << room % 64);
  return row;
}

static void give_row(struct work *w, int32_t row, int64_t room) {
  w->next[row] = w->open[room];
  w->open[room] = row;
  w->rooms[room / 64] |= (uint64_t)1 << room % 64;
}

static int64_t fit(struct work *w, int64_t count) {
  int64_t rows = 0;
  for (int64_t k = 0; k < count; k++) {
    const int32_t sequence = w->order[k];
    const int64_t need = w->lengths[sequence], room = find_room(w, need);
    const int32_t row = room >= 0 ? take_row(w, room) : (int32_t)rows++;
    w->row[sequence] = row;
    give_row(w, row, (room >= 0 ? room : w->length) - need);
  }
  return rows;
}

/* Lists the members of each row in the order in which they were put there. */
static void list_members(const struct work *w, int64_t count, const struct packing *p) {
  for (int64_t i = 0; i < count; i++) p->first[w->row[i] + 1]++;
  for (int64_t r = 0; r < p->rows; r++) p->first[r + 1] += p->first[r];
  for (int64_t k = count - 1; k >= 0; k--) p->members[--p->first[w->row[w->order[k]] + 1]] = w->order[k];
  /* Each begin has moved one row down. */
  memmove(p->first, p->first + 1, (size_t)p->rows * sizeof *p->first);
  p->first[p->rows] = count;
}

static neap_status make(struct work *w, struct region *region, int64_t count, struct packing *p) {
  TRY(allocate(w, count));
  TRY(sort(w, count));
  p->rows = fit(w, count);
  p->first = region_alloc(region, (size_t)p->rows + 1, sizeof *p->first);
  p->members = region_alloc(region, (size_t)count, sizeof *p->members);
  RETURN_IF(p->first == NULL || p->members == NULL, NEAP_OUT_OF_MEMORY,
            "out of memory for %lld packed sequences", (long long)count);
  list_members(w, count, p);
  return NEAP_OK;
}

neap_status packing_make(struct region *region, int64_t count, const int32_t *lengths, int64_t length,
                         struct packing *packing) {
  struct work w = {.length = length, .lengths = lengths};
  *packing = (struct packing){0};
  const neap_status status = make(&w, region, count, packing);
  free_work(&w);
  return status;
}
