/* The index against a list that is searched from its end: on keys of every kind of hash, and as it grows. */
#include <stdlib.h>

#include "base/index.h"
#include "testing.h"

struct list {
  uint64_t hashes; /* keys have this number of different hashes; 0: each its own */
  VECTOR(uint64_t) entries;
  struct index index;
};

static uint64_t hash_key(const struct list *list, uint64_t key) {
  return list->hashes > 0 ? key % list->hashes : key * 0x9E3779B97F4A7C15u;
}

static uint64_t hash_entry(const void *owner, int32_t entry) {
  const struct list *list = owner;
  return hash_key(list, list->entries.data[entry]);
}

static bool matches(const void *owner, int32_t entry, const void *key) {
  const struct list *list = owner;
  assert_in_range(entry, 0, list->entries.count - 1);
  return list->entries.data[entry] == *(const uint64_t *)key;
}

static const struct index_keys keys = {hash_entry, matches};

static int32_t search(const struct list *list, uint64_t key) {
  int32_t i = (int32_t)list->entries.count - 1;
  while (i >= 0 && list->entries.data[i] != key) i--;
  return i;
}

static int32_t find(const struct list *list, uint64_t key) {
  return index_find(&list->index, &keys, list, hash_key(list, key), &key);
}

static void put(struct list *list, uint64_t key) {
  assert_int_equal(index_reserve(&list->index, &keys, list), NEAP_OK);
  int32_t *slot = index_slot(&list->index, &keys, list, hash_key(list, key), &key);
  assert_int_equal(*slot, search(list, key));
  assert_int_equal(vector_push(&list->entries, key), NEAP_OK);
  index_put(&list->index, slot);
}

static void end(struct list *list) {
  vector_free(&list->entries);
  index_free(&list->index);
}

/* Draws of few keys replace each other, draws of many are new; every key is looked for, put or not. */
static void fill(struct list *list, int count, uint64_t different) {
  uint64_t random = 88172645463325252u;
  for (int i = 0; i < count; i++) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    put(list, random % different);
    assert_int_equal(list->index.count, list->entries.count);
  }
  for (uint64_t key = 0; key < different + 10; key++) assert_int_equal(find(list, key), search(list, key));
}

static void test_against_a_list(void **state) {
  (void)state;
  static const uint64_t hashes[] = {0, 1, 7, 64, 1000};
  for (size_t i = 0; i < sizeof hashes / sizeof *hashes; i++)
    for (uint64_t different = 1; different < 3000; different *= 6) {
      struct list list = {.hashes = hashes[i]};
      fill(&list, 1000, different);
      end(&list);
    }
}

static void test_empty(void **state) {
  (void)state;
  struct list list = {0};
  assert_int_equal(find(&list, 5), -1);
  put(&list, 5);
  assert_int_equal(find(&list, 5), 0);
  index_clear(&list.index);
  list.entries.count = 0;
  assert_int_equal(find(&list, 5), -1);
  fill(&list, 500, 300);
  index_clear(&list.index); /* what follows must not find what was there */
  list.entries.count = 0;
  fill(&list, 70, 60);
  end(&list);
  assert_int_equal(find(&list, 5), -1);
}

/* A failure leaves the index as it was; of memory: test_allocation, by tokenizers. */
static void test_limits(void **state) {
  (void)state;
  struct list list = {0};
  fill(&list, 100, 50);
  struct index full = list.index;
  full.count = INT32_MAX;
  assert_int_equal(index_reserve(&full, &keys, &list), NEAP_TOO_LARGE);
  assert_ptr_equal(full.slots.data, list.index.slots.data);
  assert_int_equal(full.slots.count, list.index.slots.count);
  assert_int_equal(full.count, INT32_MAX);
  assert_int_equal(find(&list, 7), search(&list, 7));
  end(&list);
}

static void test_hash_bytes(void **state) {
  (void)state;
  /* FNV-1a of 64 bits (Fowler, Noll, Vo: draft-eastlake-fnv), folded. */
  assert_true(hash_bytes("", 0) == (0xCBF29CE484222325u ^ 0xCBF29CE4u));
  assert_true(hash_bytes("a", 1) == (0xAF63DC4C8601EC8Cu ^ 0xAF63DC4Cu));
  assert_true(hash_bytes("foobar", 6) == (0x85944171F73967E8u ^ 0x85944171u));
}

int run_test_index(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_a_list), cmocka_unit_test(test_empty),
                                     cmocka_unit_test(test_limits), cmocka_unit_test(test_hash_bytes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
